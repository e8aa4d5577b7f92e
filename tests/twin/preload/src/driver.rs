//! What serves the files of devices.

use twin::tree::{Node, Tree};

/// An errno, or what a call returns.
pub type Result<T = ()> = std::result::Result<T, i32>;

/// A mapping that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    /// Where, and whether just there (`MAP_FIXED`).
    pub at: u64,
    /// Bytes.
    pub bytes: u64,
    /// `PROT_*`.
    pub protection: i32,
    /// `MAP_*`.
    pub flags: i32,
    /// Where in the file.
    pub offset: u64,
}

/// See the front page. Descriptors are those of the process; errors are errnos.
pub trait Driver: Send + Sync {
    /// Whether a path belongs to the machine, whether or not anything is there: the host's own is not
    /// looked at.
    fn owns(&self, path: &str) -> bool;

    /// Every file there is, by path; folders above them follow. Empty where files are the host's.
    fn nodes(&self) -> Vec<(String, Node)>;

    /// The files, where somebody else has written them.
    fn tree(&self) -> Option<Tree> {
        None
    }

    /// A file of the machine is about to be looked at: its text may have changed.
    fn refresh(&self, _: &str) {}

    /// Whether a path is that of a device.
    fn is_device(&self, path: &str) -> bool;

    /// Opens a device.
    ///
    /// # Errors
    /// An errno.
    fn open(&self, path: &str, flags: i32) -> Result<i32>;

    /// `to` has become another descriptor of an open file.
    fn duplicated(&self, from: i32, to: i32);

    /// A descriptor is about to be closed.
    fn closing(&self, fd: i32);

    /// Whether `poll` finds a device ready; one that it saw may be forgotten then.
    fn ready(&self, fd: i32) -> bool;

    /// An ioctl.
    ///
    /// # Errors
    /// An errno.
    fn ioctl(&self, fd: i32, request: u32, argument: u64) -> Result<i32>;

    /// Descriptors that ioctls have made since this was asked.
    fn made(&self) -> Vec<i32> {
        Vec::new()
    }

    /// Maps a file.
    ///
    /// # Errors
    /// An errno.
    fn mmap(&self, fd: i32, map: Map) -> Result<u64>;

    /// Takes what devices have mapped in a range away; false where nothing is, which is then the host's.
    ///
    /// # Errors
    /// An errno.
    fn munmap(&self, at: u64, bytes: u64) -> Result<bool>;

    /// Whether devices know memory of the process in a range.
    fn knows(&self, _at: u64, _bytes: u64) -> bool {
        false
    }

    /// The version of the driver, as it says it, if there is one.
    fn version(&self) -> Option<String>;

    /// Rules that were broken, each once as text. The process ends with 1 if there are any.
    fn broken(&self) -> Vec<String>;

    /// The process ends.
    fn finish(&self);

    /// This is a child of the process, and has nothing of the machine.
    fn forked(&self) {}
}
