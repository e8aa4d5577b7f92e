//! The files of the driver, and how ioctls get to what they ask for.
//!
//! - [`Machine`]: a machine with GPUs; [`Process`]: a process on it, with system calls as methods;
//! - `files`: descriptors, mmap; `tree`: which files there are; `doorbell`: the page that starts work;
//! - `wake`: what `poll` waits for; `objects`: what a process has; `inject`: what fails because a config says so;
//! - `escape`: ioctls of `/dev/nvidiactl` and `/dev/nvidiaN`.

mod doorbell;
mod escape;
mod files;
mod inject;
mod objects;
mod tree;
mod wake;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use drivers_spec::nv::abi::{Branch, Struct};
use twin::host::Mapping;
use twin::process::Standing;
use twin::rule::{Journal, Rule};
use twin::watch::{Moment, Watch};

use crate::client::Memory;
use crate::config::{Config, Hardware};
use crate::errno::{Errno, Failure, Result};
use crate::ranges::Ranges;
use crate::rm::State;
use crate::scheduler::{Between, Scheduler};

pub(crate) use doorbell::BYTES as DOORBELL_BYTES;
pub use files::{File, Kind, Mapped, Uvm};
pub use tree::Node;
pub(crate) use tree::bus;
pub use wake::Watcher;
pub(crate) use wake::{Happened, Wake};

use doorbell::Doorbell;
use files::Map;
use hcq::sync::lock;
use inject::Injector;
use tree::Tree;

/// A machine with GPUs.
pub struct Machine {
    /// What was asked for.
    pub config: Config,
    /// What happened, and every broken rule.
    pub journal: Journal,
    state: Mutex<State>,
    tree: Tree,
    injector: Injector,
    next_process: AtomicU32,
    next_file: AtomicU64,
    clock: Arc<AtomicU64>,
    /// The registers that programs map, of each GPU.
    doorbells: Vec<Doorbell>,
    pub(crate) scheduler: Scheduler,
}

/// A process on a machine.
pub struct Process {
    machine: Arc<Machine>,
    id: u32,
    memory: Arc<dyn Memory>,
    files: Mutex<BTreeMap<i32, Arc<File>>>,
    maps: Mutex<Ranges<Map>>,
}

impl Machine {
    /// A machine.
    ///
    /// # Errors
    /// The host has no memory or no thread left.
    pub fn new(config: Config) -> std::io::Result<Arc<Machine>> {
        Machine::with(config, Arc::default())
    }

    /// A machine whose clock somebody else has, too.
    ///
    /// # Errors
    /// The host has no memory or no thread left.
    pub(crate) fn with(config: Config, clock: Arc<AtomicU64>) -> std::io::Result<Arc<Machine>> {
        let doorbells = config.chips.iter().map(|_| Doorbell::new());
        let doorbells = doorbells.collect::<std::result::Result<_, i32>>();
        let machine = Arc::new(Machine {
            doorbells: doorbells.map_err(std::io::Error::from_raw_os_error)?,
            scheduler: Scheduler::new(&config),
            journal: Journal::new(),
            state: Mutex::new(State::new(&config)),
            tree: tree::files(&config),
            injector: Injector::new(config.faults.clone(), config.hardware.clone()),
            next_process: AtomicU32::new(1),
            next_file: AtomicU64::new(1),
            clock,
            config,
        });
        machine.scheduler.start(&machine)?;
        Ok(machine)
    }

    /// A process with that memory.
    pub fn attach(self: &Arc<Self>, memory: Arc<dyn Memory>) -> Arc<Process> {
        Arc::new(Process {
            machine: self.clone(),
            id: self.next_process.fetch_add(1, Ordering::Relaxed),
            memory,
            files: Mutex::default(),
            maps: Mutex::default(),
        })
    }

    /// The branch of the driver.
    pub fn branch(&self) -> Branch {
        self.config.branch
    }

    /// Every file of the machine, by path, and the folders that they lie in.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.tree.all()
    }

    /// What a path is.
    pub fn node(&self, path: &str) -> Option<&Node> {
        self.tree.find(path)
    }

    /// Has somebody watch the engines from now on.
    pub fn watch(&self, watch: Box<dyn Watch>) {
        self.scheduler.watch(watch);
    }

    /// Holds the engines between two rounds until [`Self::go_on`]; system calls may be made meanwhile. One caller
    /// at a time.
    pub fn pause(&self) -> Moment {
        self.scheduler.pause(self)
    }

    /// See [`Self::pause`].
    pub fn go_on(&self) {
        self.scheduler.go_on();
    }

    /// The registers that programs map, of each GPU.
    pub fn doorbells(&self) -> impl Iterator<Item = &Mapping> {
        self.doorbells.iter().map(|doorbell| &**doorbell.page())
    }

    /// Where they are.
    pub(crate) fn moment(&self, rounds: u64) -> Moment {
        let time = self.clock.load(Ordering::Relaxed);
        Moment { rounds, time }
    }

    /// Holds engines back while a system call is done.
    pub(crate) fn between(&self) -> Between<'_> {
        self.scheduler.between(self)
    }

    /// The token that the doorbell of a GPU was rung with last, since the last look.
    pub(crate) fn rung(&self, gpu: usize) -> Option<u32> {
        self.doorbells[gpu].take()
    }

    /// What RM and UVM hold.
    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The names of the broken rules so far.
    pub fn broken_rules(&self) -> Vec<&'static str> {
        let violations = self.journal.violations();
        violations.iter().map(|one| one.rule.name).collect()
    }

    /// The names of calls that were made so far, as a config has them; none where no call shall fail.
    pub fn calls(&self) -> Vec<String> {
        self.injector.calls()
    }

    /// How many calls have failed because the config asked for it.
    pub fn faults_fired(&self) -> u32 {
        self.injector.fired()
    }

    /// The time in ns: it grows with every look at it, and says nothing of a card.
    pub fn clock(&self) -> u64 {
        32 + self.clock.fetch_add(32, Ordering::Relaxed)
    }

    /// Notes a broken rule.
    pub fn broken(&self, rule: &'static Rule, what: String) {
        self.journal.broken(rule, what);
    }

    /// Fails with a status, for a reason that has a name.
    pub(crate) fn refuse<T>(&self, rule: &'static Rule, status: u32, what: String) -> Result<T> {
        self.fail(rule, Failure::Status(status), what)
    }

    /// Fails with an errno, for a reason that has a name.
    pub(crate) fn reject<T>(&self, rule: &'static Rule, errno: i32, what: String) -> Result<T> {
        self.fail(rule, Failure::Errno(Errno(errno)), what)
    }

    fn fail<T>(&self, rule: &'static Rule, failure: Failure, what: String) -> Result<T> {
        self.broken(rule, format!("{what}; {failure}"));
        Err(failure)
    }

    /// What the hardware does wrong now because the config says so, once.
    pub(crate) fn fails(&self, now: impl Fn(&Hardware) -> bool) -> Option<Hardware> {
        self.injector.hardware(now)
    }

    /// Whether an event that happens now is lost, because the config says so.
    pub(crate) fn loses_event(&self) -> bool {
        self.injector.loses()
    }

    /// Fails if the config refuses that file.
    pub(crate) fn refused(&self, path: &str) -> Result {
        let refused = self.config.refused(path);
        refused.map_or(Ok(()), |errno| Err(errno.into()))
    }

    /// Fails if the config says so.
    pub(crate) fn inject(&self, call: &str) -> Result {
        self.injector.call(call)
    }
}

impl Process {
    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its machine.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// Its memory.
    pub(crate) fn memory(&self) -> &dyn Memory {
        &*self.memory
    }

    /// Reads a struct of the branch.
    pub(crate) fn get<T: Struct>(&self, address: u64) -> Result<T> {
        let branch = self.machine.branch();
        let mut bytes = vec![0; T::LAYOUT.size(branch)];
        self.memory.read(address, &mut bytes)?;
        T::decode(branch, &bytes).map_err(|_| Failure::Errno(Errno(libc::EINVAL)))
    }

    /// Writes a struct of the branch.
    pub(crate) fn put<T: Struct>(&self, address: u64, value: &T) -> Result {
        let bytes = value.encode(self.machine.branch());
        Ok(self.memory.write(address, &bytes)?)
    }

    /// Leaves what is mapped to whoever holds it: the addresses may be somebody else's by now.
    pub(crate) fn forget_mappings(&self) {
        let _between = self.machine.between();
        let gone = lock(&self.maps).cut(0, u64::MAX);
        self.let_go_all(gone);
    }

    /// What its channels are at that have something to do.
    pub fn standing(&self) -> Vec<Standing> {
        let files: Vec<u64> = lock(&self.files).values().map(|file| file.id).collect();
        let clients = self.machine.state().clients_of(&files);
        self.machine.scheduler.standing(&clients)
    }

    /// Ends the process: what it has mapped and opened is gone.
    pub fn exit(&self) {
        let _between = self.machine.between();
        let all = lock(&self.maps);
        let maps: Vec<(u64, u64)> = all.iter().map(|(at, bytes, _)| (at, bytes)).collect();
        drop(all);
        for (at, bytes) in maps {
            // It was there a moment ago; another thread may have taken it away.
            let _ = self.unmap(at, bytes);
        }
        let files: Vec<i32> = lock(&self.files).keys().copied().collect();
        for fd in files {
            let file = lock(&self.files).remove(&fd);
            file.into_iter().for_each(|file| self.let_go(file));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.exit();
    }
}
