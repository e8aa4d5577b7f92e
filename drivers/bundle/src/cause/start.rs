//! The cause of a device that does not start, by the error of the stage at which it stopped.

use super::{Explanation, cable};
use crate::schema::Bundle;

/// What errors of a start say, and what that means.
const KNOWN: [(&str, &str, &str, &str); 11] = [
    (
        "0xffffffff",
        "device-gone",
        "the card left the bus during the start: its registers read as ones",
        "Check power and cable, then power-cycle the machine",
    ),
    (
        ". Install the file again",
        "firmware-other",
        "a firmware file is of another chip or release than its name or the other files say",
        "Compare the files with the known releases: `doorbell fw list`; all have to be of one release",
    ),
    (
        "firmware files",
        "firmware-missing",
        "firmware files for the card are missing or truncated",
        "List the files and their packages with `doorbell fw list`",
    ),
    (
        "RCC_CONFIG_MEMSIZE stays",
        "device-gone",
        "the card does not respond on the bus",
        "Power-cycle the machine; check power and cable",
    ),
    (
        "gone",
        "device-gone",
        "the card left the bus during the start",
        "Check power and cable, then power-cycle the machine",
    ),
    (
        "security processor (PSP)",
        "psp-refused",
        "the card's security processor rejected its firmware",
        "Check that the firmware is for this card and newer than its BIOS's (`doorbell fw list`)",
    ),
    (
        "power management (SMU)",
        "smu-refused",
        "power management (SMU) did not respond as expected",
        "Power-cycle the machine; a card left by another driver may need it",
    ),
    (
        "memory hub",
        "hub-silent",
        "a memory hub does not respond",
        "Power-cycle the machine",
    ),
    (
        "reset (mode 1)",
        "reset-failed",
        "the card did not come back after its reset",
        "Power-cycle the machine",
    ),
    (
        "compute engine (GFX)",
        "engine-silent",
        "the compute engine did not start after its firmware was loaded",
        "Power-cycle the machine, and try other firmware (HCQDEV_FIRMWARE)",
    ),
    (
        "copy engines (SDMA)",
        "engine-silent",
        "the copy engines did not start after their firmware was loaded",
        "Power-cycle the machine, and try other firmware (HCQDEV_FIRMWARE)",
    ),
];

const DOCTOR: &str = "Check the steps before the start with `doorbell doctor`";

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
            told(
                "stage 3 of 13, firmware files: x: this is y, expected z. Install the file again (Debian)"
            ),
            "firmware-other"
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
