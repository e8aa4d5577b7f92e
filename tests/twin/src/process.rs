//! A process on a machine with devices, for who holds one without knowing whose devices these are: C, and
//! drivers of this repository.

use std::sync::Arc;

use crate::errno::Result;
use crate::rule::Journal;

/// What `mmap` is to make, with what the system has by these names.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Where, or where best: see `flags`.
    pub address: u64,
    /// How much, in whole pages.
    pub bytes: u64,
    /// `PROT_*`.
    pub protection: i32,
    /// `MAP_*`.
    pub flags: i32,
}

/// Something of a process that is not done: a queue, or a call that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// What: `GPU 0 queue 1 (PM4)`.
    pub who: String,
    /// The packet that it is at, as text; empty where it is at none.
    pub at: String,
    /// What keeps it there.
    pub kept: Blocked,
}

/// What keeps something from being done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// Memory that does not hold what is waited for.
    Memory {
        /// Where that is.
        at: u64,
        /// What was there at the last look.
        now: u64,
        /// What is waited for, in words.
        why: String,
    },
    /// Work that has begun, in words.
    Work(String),
    /// Something else, in words.
    Other(String),
}

/// System calls of a process, on files that the machine has. Addresses are those of this process.
///
/// Errors are those of the system.
#[allow(clippy::missing_errors_doc)] // As above.
pub trait Calls: Send + Sync {
    /// Whether the machine has a file of that name.
    fn exists(&self, path: &str) -> bool;
    /// open.
    fn open(&self, path: &str, flags: i32) -> Result<i32>;
    /// open, as that descriptor, which the process has made.
    fn open_as(&self, path: &str, flags: i32, fd: i32) -> Result;
    /// dup.
    fn dup(&self, fd: i32) -> Result<i32>;
    /// dup, to that descriptor, which the process has made.
    fn dup_as(&self, fd: i32, to: i32) -> Result;
    /// close.
    fn close(&self, fd: i32) -> Result;
    /// pread; returns how much.
    fn read(&self, fd: i32, offset: u64, out: &mut [u8]) -> Result<usize>;
    /// The names in a folder.
    fn list(&self, fd: i32) -> Result<Vec<String>>;
    /// ioctl.
    fn ioctl(&self, fd: i32, request: u32, argument: u64) -> Result;
    /// mmap; returns the address.
    fn mmap(&self, wanted: Wanted, fd: i32, offset: u64) -> Result<u64>;
    /// munmap, of anything that the process has.
    fn munmap(&self, address: u64, bytes: u64) -> Result;
    /// Whether a file has something that poll waits for.
    fn ready(&self, fd: i32) -> Result<bool>;
    /// Has somebody told whether poll would find a file ready: now, and whenever that changes.
    fn watch(&self, fd: i32, watcher: Box<dyn Fn(bool) + Send + Sync>) -> Result;
    /// Everything that the process has of the machine, as text: nothing is left where a driver has given all
    /// of it back.
    fn objects(&self) -> Vec<String>;
    /// What of it is not done, if anything.
    fn standing(&self) -> Vec<Standing> {
        Vec::new()
    }
    /// The end of the process: what it has opened and mapped is gone.
    fn exit(&self);
}

/// A process, and the machine that it runs on.
pub trait Process: Calls + Sized + 'static {
    /// The machine.
    type Machine: Send + Sync + 'static;

    /// A machine of a config string.
    ///
    /// # Errors
    /// What is wrong with the string, or what the host lacks.
    fn start(config: &str) -> std::result::Result<Arc<Self::Machine>, String>;

    /// Another process on a machine, in this process of the host.
    fn on(machine: &Arc<Self::Machine>) -> Arc<Self>;

    /// The end of a process whose mappings are those of [`crate::host::client`]: whoever holds a view of one
    /// gives its addresses back, now or later, and the twin leaves them alone.
    fn leave(&self) {
        self.exit();
    }

    /// Its machine.
    fn machine(&self) -> &Arc<Self::Machine>;

    /// What happened to a machine.
    fn journal(machine: &Self::Machine) -> &Journal;
}
