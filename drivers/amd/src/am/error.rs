//! [`AmError`]: which card, how far it came, and what was in the way.

use std::fmt;

use hcq::reg::IpVersion;
use hcq::reg::error::RegError;
use hcq::transport::TransportError;
use hcq::{DeviceId, Error};
use thiserror::Error;

use super::discovery::DiscoveryError;

/// How far the start of a card came, in the order of its steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Its windows, and whether it answers.
    Card,
    /// What it is made of.
    Discovery,
}

impl Stage {
    const ALL: [Stage; 2] = [Stage::Card, Stage::Discovery];
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Stage::Card => "windows of the card",
            Stage::Discovery => "discovery of its blocks",
        };
        write!(
            f,
            "stage {} of {}, {name}",
            *self as usize + 1,
            Stage::ALL.len()
        )
    }
}

/// The start of a card failed.
#[derive(Clone, Debug, Error)]
#[error("{device} ({address}): {stage}: {cause}")]
pub struct AmError {
    /// The device.
    pub device: DeviceId,
    /// Its PCI function.
    pub address: String,
    /// Where.
    pub stage: Stage,
    /// What was in the way.
    pub cause: Box<Cause>,
}

/// Why the start of a card failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Cause {
    /// The bus.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A register.
    #[error(transparent)]
    Register(#[from] RegError),
    /// What the card says of itself.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// Its memory.
    #[error(transparent)]
    Memory(#[from] Error),
    /// It reads as if it were not there.
    #[error(
        "RCC_CONFIG_MEMSIZE stays {seen:#x}: the card is not started, is being reset, or has left the bus. Turn the \
         machine off and on; in an enclosure, look at cable and power"
    )]
    Silent {
        /// What it reads.
        seen: u32,
    },
    /// A block of a version whose registers are not known.
    #[error(
        "{block} has version {version}, registers are known of {}; this chip is not supported",
        .known.iter().map(IpVersion::to_string).collect::<Vec<_>>().join(", ")
    )]
    Version {
        /// The block.
        block: String,
        /// Its version.
        version: IpVersion,
        /// Those that are known.
        known: Vec<IpVersion>,
    },
}
