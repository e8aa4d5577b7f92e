//! How an access to a register fails.

use thiserror::Error;

use crate::reg::IpVersion;
use crate::transport::TransportError;
use crate::wait::Timeout;

/// A register could not be read or written.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{register} on {bus}: {fault}")]
pub struct RegError {
    /// The block and the register.
    pub register: String,
    /// The bus it was accessed through.
    pub bus: String,
    /// What went wrong.
    pub fault: Box<RegFault>,
}

/// Why a register could not be read or written.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RegFault {
    /// The table has no row for the version of the block.
    #[error("no address known for IP version {version}, only for {known}")]
    Version {
        /// Version of the block.
        version: IpVersion,
        /// Versions of the table.
        known: String,
    },
    /// The discovery table does not give the base of the segment.
    #[error("base of segment {0} of the block unknown: not in the device's discovery table")]
    Segment(u8),
    /// The table has no field of this name on the generation.
    #[error("no field {field} on {one}; fields: {known}")]
    Field {
        /// The name.
        field: String,
        /// The generation.
        one: String,
        /// The existing names.
        known: String,
    },
    /// A value that has more bits than its field.
    #[error("{value:#x} does not fit the {bits}-bit field {field}")]
    Wide {
        /// The field.
        field: String,
        /// Its width.
        bits: u32,
        /// The value.
        value: u32,
    },
    /// The access itself failed.
    #[error(transparent)]
    Access(#[from] TransportError),
    /// All ones, as read from a device that is no longer on the bus.
    #[error("{what}: reads 0xffffffff, the device has left the bus")]
    Left {
        /// What was waited for.
        what: String,
    },
    /// The register did not reach the expected state in time.
    #[error("{timeout}{}", last.iter().map(|last| format!(", last {last}")).collect::<String>())]
    Timeout {
        /// What was waited for, and how long.
        timeout: Timeout,
        /// Its last value, decoded by field.
        last: Option<String>,
    },
}

impl From<Timeout> for RegFault {
    fn from(timeout: Timeout) -> RegFault {
        let last = None;
        RegFault::Timeout { timeout, last }
    }
}
