//! Numbers that the operating system refuses with: those that Linux has on every architecture we run on.
//!
//! Source: Linux, include/uapi/asm-generic/{errno-base,errno}.h.

macro_rules! errnos {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        $(#[doc = concat!("`", stringify!($name), "`: ", $text)] pub const $name: i32 = $number;)*

        /// An errno with its name and what it says.
        pub(super) fn text(errno: i32) -> String {
            match errno {
                $($name => format!("errno {errno} ({}: {})", stringify!($name), $text),)*
                _ => format!("errno {errno}"),
            }
        }
    };
}

errnos! {
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such file or object";
    EINTR = 4, "interrupted";
    EIO = 5, "input/output error";
    ENXIO = 6, "no such device or address";
    EBADF = 9, "bad file descriptor";
    EAGAIN = 11, "try again";
    ENOMEM = 12, "out of memory";
    EACCES = 13, "permission denied; is the user in the groups render and video?";
    EFAULT = 14, "bad address";
    EBUSY = 16, "device or resource busy; does another process or driver hold it?";
    EEXIST = 17, "already exists";
    ENODEV = 19, "no such device";
    EINVAL = 22, "invalid argument";
    ENFILE = 23, "too many open files in the system";
    EMFILE = 24, "too many open files; raise `ulimit -n`";
    ENOTTY = 25, "ioctl not supported by this file";
    ENOSPC = 28, "no space left";
    EPIPE = 32, "broken pipe or stalled endpoint";
    EDEADLK = 35, "the context hung and was reset";
    ETIME = 62, "timer expired";
    EPROTO = 71, "protocol error";
    EOPNOTSUPP = 95, "not supported";
    ETIMEDOUT = 110, "timed out";
}
