//! The cause of a device that does not start, by the error of the stage at which it stopped.

use super::{Explanation, cable};
use crate::schema::Bundle;

/// What errors of a start say, and what that means.
const KNOWN: [(&str, &str, &str, &str); 10] = [
    (
        "0xffffffff",
        "device-gone",
        "the card left the bus while it was started: its registers read as ones",
        "Look at power and cable, then turn the machine off and on",
    ),
    (
        "firmware files",
        "firmware-missing",
        "firmware that the card needs is missing or not whole",
        "`doorbell fw list` says which files, and from which package",
    ),
    (
        "RCC_CONFIG_MEMSIZE stays",
        "device-gone",
        "the card does not answer on its bus",
        "Turn the machine off and on; look at power and cable",
    ),
    (
        "gone",
        "device-gone",
        "the card left the bus while it was started",
        "Look at power and cable, then turn the machine off and on",
    ),
    (
        "security processor (PSP)",
        "psp-refused",
        "the card's security processor did not take its firmware",
        "Look whether the firmware is that of this card, and newer than what its BIOS has (`doorbell fw list`)",
    ),
    (
        "power management (SMU)",
        "smu-refused",
        "power management does not answer as expected",
        "Turn the machine off and on; a card that another driver has left may need that",
    ),
    (
        "memory hub",
        "hub-silent",
        "a memory hub does not answer",
        "Turn the machine off and on",
    ),
    (
        "reset (mode 1)",
        "reset-failed",
        "the card did not come back from its reset",
        "Turn the machine off and on",
    ),
    (
        "compute engine (GFX)",
        "engine-silent",
        "the compute engine did not start after its firmware was loaded",
        "Turn the machine off and on, and try other firmware (HCQDEV_FIRMWARE)",
    ),
    (
        "copy engines (SDMA)",
        "engine-silent",
        "the copy engines did not start after their firmware was loaded",
        "Turn the machine off and on, and try other firmware (HCQDEV_FIRMWARE)",
    ),
];

const DOCTOR: &str = "`doorbell doctor` looks at each step before the start";

pub(super) fn explain(bundle: &Bundle) -> Explanation {
    // A transfer that fails says nothing of the block that was started.
    let on_cable = cable::explain(&bundle.error).filter(|_| bundle.device.interface == "USB");
    if let Some(found) = on_cable {
        return found.then(DOCTOR);
    }
    let known = KNOWN.iter().find(|(said, ..)| bundle.error.contains(said));
    let found = match known {
        Some((_, cause, text, next)) => Explanation::new(cause, *text).then(*next),
        None => Explanation::new("not-started", "the device could not be started"),
    };
    found.then(DOCTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_have_causes() {
        let told = |error: &str| {
            let error = error.into();
            explain(&Bundle {
                error,
                ..Bundle::default()
            })
            .cause
        };
        assert_eq!(
            told("AMD:0 (0000:03:00.0): stage 3 of 13, firmware files: x: not there"),
            "firmware-missing"
        );
        assert_eq!(
            told("stage 8 of 13, security processor (PSP): PSP: LOAD_TA"),
            "psp-refused"
        );
        assert_eq!(
            told("stage 8 of 13, security processor (PSP): read: gone"),
            "device-gone"
        );
        assert_eq!(told("no way"), "not-started");
    }
}
