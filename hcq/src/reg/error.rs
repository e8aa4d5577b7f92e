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
    /// The way to it.
    pub bus: String,
    /// What went wrong.
    pub fault: Box<RegFault>,
}

/// Why a register could not be read or written.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RegFault {
    /// The table has no row for the version of the block.
    #[error("where it is in version {version} is not known, only in {known}")]
    Version {
        /// Version of the block.
        version: IpVersion,
        /// Versions of the table.
        known: String,
    },
    /// The device has not told where the segment is.
    #[error("the device has not told where segment {0} of the block starts")]
    Segment(u8),
    /// The table has no field of this name on the generation.
    #[error("it has no field {field} on {one}, only {known}")]
    Field {
        /// The name.
        field: String,
        /// The generation.
        one: String,
        /// The names that there are.
        known: String,
    },
    /// A value that has more bits than its field.
    #[error("{value:#x} is too large for the field {field}, which has {bits} bits")]
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
    /// Ones, as everything of a device that is not there.
    #[error("{what}: it reads 0xffffffff, the device has left the bus")]
    Left {
        /// What was waited for.
        what: String,
    },
    /// It did not become what was waited for.
    #[error("{timeout}{}", last.iter().map(|last| format!(", last {last}")).collect::<String>())]
    Timeout {
        /// What was waited for, and how long.
        timeout: Timeout,
        /// What it held, by the names of its fields.
        last: Option<String>,
    },
}

impl From<Timeout> for RegFault {
    fn from(timeout: Timeout) -> RegFault {
        let last = None;
        RegFault::Timeout { timeout, last }
    }
}
