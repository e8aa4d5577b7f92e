//! What fails: a system call with an errno, or, while the call returns 0, RM or UVM with a status.

use std::fmt;

use drivers_spec::nv::status::{STATUS, status_name};

pub use twin::errno::Errno;

/// How a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The system call itself.
    Errno(Errno),
    /// RM or UVM, in the status of the argument.
    Status(u32),
}

impl Failure {
    /// The failure of that name: `EINVAL`, `NV_ERR_NO_MEMORY`, or a status by its number, `0x51`.
    pub fn from_name(name: &str) -> Option<Failure> {
        if let Some(number) = name.strip_prefix("0x") {
            let status = u32::from_str_radix(number, 16).ok();
            return status.filter(|&status| status != 0).map(Failure::Status);
        }
        let status = STATUS.iter().find(|row| row.1 == name);
        Errno::from_name(name)
            .map(Failure::Errno)
            .or(status.map(|row| Failure::Status(row.0)))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Failure::Errno(errno) => errno.fmt(f),
            Failure::Status(status) => match status_name(status) {
                Some(name) => f.write_str(name),
                None => write!(f, "status {status:#x}"),
            },
        }
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Failure::Errno(errno)
    }
}

/// What a call returns.
pub type Result<T = ()> = std::result::Result<T, Failure>;
