//! [`Stage`]: the stages of opening the function, with hints.

use std::fmt;

use hcq::transport::{Fault, TransportError};

/// Stages of [`crate::open`], in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The bridge answers.
    Bridge,
    /// The PCIe link behind it is up.
    Link,
    /// Every bus has its number.
    Bus,
    /// The function's BARs have addresses.
    Windows,
}

impl Stage {
    /// How many there are.
    const COUNT: usize = 4;

    /// An error with the stage in it.
    pub(crate) fn failed(self, error: TransportError) -> TransportError {
        let hint = match self {
            Stage::Bridge => "",
            Stage::Link => "; check that the card is seated and its power supply is on",
            Stage::Bus | Stage::Windows => "; power-cycle the enclosure",
        };
        let fault = match error.fault {
            Fault::Beyond(what) => Fault::Beyond(format!("{what}{hint}")),
            other => other,
        };
        TransportError::new(error.device, format!("{self}: {}", error.operation), fault)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Stage::Bridge => "bridge",
            Stage::Link => "PCIe link",
            Stage::Bus => "buses",
            Stage::Windows => "BARs",
        };
        let number = *self as usize + 1;
        write!(f, "stage {number} of {}, {name}", Stage::COUNT)
    }
}
