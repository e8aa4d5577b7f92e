//! What fails: a system call with an errno, or, while the call returns 0, RM or UVM with a status.

use std::fmt;

use drivers_spec::nv::status::{STATUS, status_name};

/// An errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

/// Names and numbers, for configs and reports.
const NAMES: &[(&str, i32)] = &[
    ("ENOENT", libc::ENOENT),
    ("EIO", libc::EIO),
    ("ENXIO", libc::ENXIO),
    ("EBADF", libc::EBADF),
    ("EAGAIN", libc::EAGAIN),
    ("ENOMEM", libc::ENOMEM),
    ("EACCES", libc::EACCES),
    ("EFAULT", libc::EFAULT),
    ("EBUSY", libc::EBUSY),
    ("ENODEV", libc::ENODEV),
    ("ENOTDIR", libc::ENOTDIR),
    ("EISDIR", libc::EISDIR),
    ("EINVAL", libc::EINVAL),
    ("EMFILE", libc::EMFILE),
    ("EPERM", libc::EPERM),
];

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|row| row.1 == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

/// How a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The system call itself.
    Errno(Errno),
    /// RM or UVM, in the status of the argument.
    Status(u32),
}

impl Failure {
    /// The failure of that name: `EINVAL`, `NV_ERR_NO_MEMORY`.
    pub fn from_name(name: &str) -> Option<Failure> {
        let errno = NAMES.iter().find(|row| row.0 == name);
        let status = STATUS.iter().find(|row| row.1 == name);
        errno
            .map(|row| Failure::Errno(Errno(row.1)))
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
