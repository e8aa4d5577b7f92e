//! A process on the twin, as C and drivers of this repository hold it.

use std::sync::Arc;

use twin::caller::Here;
use twin::errno::Result;
use twin::process::{self, Calls, Standing, Wanted};
use twin::rule::Journal;

use crate::config::Config;
use crate::kernel::{Machine, Process};

/// The twin as a machine that drivers of this repository open.
pub type TwinMachine = twin::machine::TwinMachine<Process>;

impl Calls for Process {
    fn exists(&self, path: &str) -> bool {
        Process::exists(self, path)
    }

    fn open(&self, path: &str, _: i32) -> Result<i32> {
        Process::open(self, path, None)
    }

    fn open_as(&self, path: &str, _: i32, fd: i32) -> Result {
        Process::open(self, path, Some(fd)).map(drop)
    }

    fn dup(&self, fd: i32) -> Result<i32> {
        Process::dup(self, fd, None)
    }

    fn dup_as(&self, fd: i32, to: i32) -> Result {
        Process::dup(self, fd, Some(to)).map(drop)
    }

    fn close(&self, fd: i32) -> Result {
        Process::close(self, fd)
    }

    fn read(&self, fd: i32, offset: u64, out: &mut [u8]) -> Result<usize> {
        Process::read(self, fd, offset, out)
    }

    fn list(&self, fd: i32) -> Result<Vec<String>> {
        Process::list(self, fd)
    }

    fn ioctl(&self, fd: i32, request: u32, argument: u64) -> Result {
        Process::ioctl(self, fd, request, argument)
    }

    fn mmap(&self, wanted: Wanted, fd: i32, offset: u64) -> Result<u64> {
        Process::mmap(self, wanted, fd, offset)
    }

    fn munmap(&self, address: u64, bytes: u64) -> Result {
        Process::munmap(self, address, bytes)
    }

    fn ready(&self, fd: i32) -> Result<bool> {
        Process::ready(self, fd)
    }

    fn watch(&self, fd: i32, watcher: Box<dyn Fn(bool) + Send + Sync>) -> Result {
        Process::watch(self, fd, watcher)
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
        machine.attach(Arc::new(Here))
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
