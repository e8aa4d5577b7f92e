//! A process on the twin, as C and drivers of this repository hold it.

use std::sync::Arc;

use twin::process::{self, Calls, Standing, Wanted};
use twin::rule::Journal;

use crate::client::Here;
use crate::config::Config;
use crate::errno::{Errno, Failure};
use crate::kernel::{Machine, Process};

/// The twin as a machine that drivers of this repository open.
pub type TwinMachine = twin::machine::TwinMachine<Process>;

/// Statuses are those of arguments; no system call returns one.
fn errno(failure: Failure) -> Errno {
    match failure {
        Failure::Errno(errno) => errno,
        Failure::Status(_) => Errno::EIO,
    }
}

type Result<T = ()> = std::result::Result<T, Errno>;

impl Calls for Process {
    fn exists(&self, path: &str) -> bool {
        Process::exists(self, path)
    }

    fn open(&self, path: &str, _: i32) -> Result<i32> {
        Process::open(self, path).map_err(errno)
    }

    fn open_as(&self, path: &str, _: i32, fd: i32) -> Result {
        let opened = Process::open_as(self, path, Some(fd));
        opened.map(drop).map_err(errno)
    }

    fn dup(&self, fd: i32) -> Result<i32> {
        Process::dup(self, fd).map_err(errno)
    }

    fn dup_as(&self, fd: i32, to: i32) -> Result {
        let made = Process::dup_as(self, fd, Some(to));
        made.map(drop).map_err(errno)
    }

    fn close(&self, fd: i32) -> Result {
        Process::close(self, fd).map_err(errno)
    }

    fn read(&self, fd: i32, offset: u64, out: &mut [u8]) -> Result<usize> {
        let text = Process::read(self, fd).map_err(errno)?;
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|at| text.as_bytes().get(at..));
        let rest = rest.unwrap_or_default();
        let bytes = rest.len().min(out.len());
        out[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }

    fn list(&self, fd: i32) -> Result<Vec<String>> {
        Process::list(self, fd).map_err(errno)
    }

    fn ioctl(&self, fd: i32, request: u32, argument: u64) -> Result {
        Process::ioctl(self, fd, request, argument)
    }

    fn mmap(&self, wanted: Wanted, fd: i32, offset: u64) -> Result<u64> {
        Process::mmap(self, wanted, fd, offset).map_err(errno)
    }

    fn munmap(&self, address: u64, bytes: u64) -> Result {
        Process::munmap(self, address, bytes).map_err(errno)
    }

    fn ready(&self, fd: i32) -> Result<bool> {
        Process::ready(self, fd).map_err(errno)
    }

    fn watch(&self, fd: i32, watcher: Box<dyn Fn(bool) + Send + Sync>) -> Result {
        Process::watch(self, fd, watcher).map_err(errno)
    }

    fn objects(&self) -> Vec<String> {
        Process::objects(self)
    }

    fn standing(&self) -> Vec<Standing> {
        Process::standing(self)
    }

    fn exit(&self) {
        Process::exit(self);
    }
}

impl process::Process for Process {
    type Machine = Machine;

    fn start(config: &str) -> std::result::Result<Arc<Machine>, String> {
        let config = Config::parse(config).map_err(|e| e.to_string())?;
        Machine::new(config).map_err(|e| e.to_string())
    }

    fn on(machine: &Arc<Machine>) -> Arc<Process> {
        machine.attach(Arc::new(Here::default()))
    }

    fn leave(&self) {
        self.forget_mappings();
        self.exit();
    }

    fn machine(&self) -> &Arc<Machine> {
        Process::machine(self)
    }

    fn journal(machine: &Machine) -> &Journal {
        &machine.journal
    }
}
