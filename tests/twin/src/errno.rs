//! What a system call returns when it fails.

use std::fmt;

/// An errno.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $value:expr),* $(,)?) => {
        impl Errno {
            $(#[doc = concat!("`", stringify!($name), "`.")] pub const $name: Self = Self($value);)*
        }
        const NAMES: &[(&str, Errno)] = &[$((stringify!($name), Errno($value)),)*];
    };
}

errnos! {
    EPERM = libc::EPERM, ENXIO = libc::ENXIO, ENOENT = libc::ENOENT, ESRCH = libc::ESRCH, EINTR = libc::EINTR,
    EIO = libc::EIO, EBADF = libc::EBADF, EAGAIN = libc::EAGAIN, ENOMEM = libc::ENOMEM,
    EACCES = libc::EACCES, EFAULT = libc::EFAULT, EBUSY = libc::EBUSY, EEXIST = libc::EEXIST,
    ENODEV = libc::ENODEV, ENOTDIR = libc::ENOTDIR, EISDIR = libc::EISDIR, EINVAL = libc::EINVAL,
    EMFILE = libc::EMFILE, ENOTTY = libc::ENOTTY, ENOSPC = libc::ENOSPC, ENOTEMPTY = libc::ENOTEMPTY,
    ETIME = libc::ETIME, EOPNOTSUPP = libc::EOPNOTSUPP, EADDRINUSE = libc::EADDRINUSE,
    ENOSYS = libc::ENOSYS, ENOBUFS = libc::ENOBUFS, ETIMEDOUT = libc::ETIMEDOUT, EALREADY = libc::EALREADY,
    ERANGE = libc::ERANGE, EDEADLK = libc::EDEADLK, EPROTO = libc::EPROTO, EPIPE = libc::EPIPE,
    // The kernel's own, which amdkfd lets out of CREATE_QUEUE and KGSL out of GPUOBJ_IMPORT. Linux, include/linux/errno.h.
    ENOTSUPP = 524,
}

impl Errno {
    /// The errno of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, errno)| *errno)
    }

    /// Its name, or its number.
    pub fn name(self) -> String {
        NAMES
            .iter()
            .find(|(_, errno)| *errno == self)
            .map_or_else(|| self.0.to_string(), |(name, _)| (*name).to_owned())
    }
}

impl From<i32> for Errno {
    fn from(errno: i32) -> Self {
        Self(errno)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// What a system call returns.
pub type Result<T = ()> = std::result::Result<T, Errno>;
