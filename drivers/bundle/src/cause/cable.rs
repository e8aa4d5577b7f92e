//! The cause of a USB error: a pulled cable, a lost transfer, or a card behind the bridge that
//! does not respond.

use super::Explanation;

/// What errors say, and what that means. That a device is gone is said first: nothing else is to be expected then.
const KNOWN: [(&str, &str, &str, &str); 6] = [
    (
        "the device is gone",
        "device-gone",
        "the bridge is gone: its cable was pulled, or its enclosure lost power",
        "Plug it in again, and check with `doorbell usb list`",
    ),
    (
        "behind it does not",
        "card-silent",
        "the bridge responds, but the card behind it does not",
        "Check that the card is seated and its power supply is on, then power-cycle the enclosure",
    ),
    (
        "endpoint stalled",
        "usb-transfer",
        "the bridge stalled a USB transfer",
        "Open the device again, which resets it; if it recurs, power-cycle the enclosure",
    ),
    (
        "moved 0x",
        "usb-transfer",
        "a USB transfer was cut short",
        "Open the device again, which resets it; if it recurs, try another cable, and a port of the machine \
         instead of a hub",
    ),
    (
        "no answer within",
        "usb-transfer",
        "a USB transfer timed out",
        "Open the device again, which resets it; if it recurs, try another cable, and a port of the machine \
         instead of a hub",
    ),
    (
        "no ASM24xx bridge",
        "device-gone",
        "no bridge in this port",
        "Plug it in again, and check with `doorbell usb list`",
    ),
];

/// The cause, by the text of an error.
pub(super) fn explain(error: &str) -> Option<Explanation> {
    let (_, cause, text, next) = KNOWN.iter().find(|(said, ..)| error.contains(said))?;
    Some(Explanation::new(cause, *text).then(*next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cable_does_has_names() {
        for (error, cause) in [
            (
                "2-1 request 0xf0: the device is gone; open it again",
                "device-gone",
            ),
            ("2-1 request 0xf0: endpoint stalled", "usb-transfer"),
            ("bulk transfer: moved 0x10 of 0x20 bytes", "usb-transfer"),
            (
                "the bridge answers, the device behind it does not: x",
                "card-silent",
            ),
        ] {
            assert_eq!(explain(error).unwrap().cause, cause, "{error}");
        }
        assert_eq!(explain("PSP: it refused"), None);
    }
}
