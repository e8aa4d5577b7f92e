//! The kernel drivers: files, ioctls, submissions and what becomes of them.
//!
//! - [`Machine`]: a machine with a GPU; [`Process`]: a process on it, with system calls as methods;
//! - `files`: descriptors, mmap; [`tree`]: which files there are; `idle`: one that is written; `inject`: what fails because a config says so;
//! - `state`: what the GPU and its drivers hold; `jobs`: submissions; `recovery`: what a fault leads to;
//! - `kgsl`: the vendor's driver; `msm`: the one of Linux.

pub(crate) mod files;
mod idle;
mod inject;
mod jobs;
mod kgsl;
mod msm;
mod recovery;
mod state;
pub mod tree;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use drivers_spec::qcom;
use hcq::sync::{lock, unpoisoned};
use twin::caller::Caller;
use twin::errno::{Errno, Result};
use twin::host::PAGE;
use twin::process::Standing;
use twin::rounds::Gate;
use twin::rule::{Journal, Rule};
use twin::watch::{Moment, Watch};

use crate::config::Config;
use crate::memory::Object;
use crate::scheduler::Scheduler;

use files::{File, Maps};
use inject::Injector;
use kgsl::objects::Objects;
pub(crate) use state::State;
use tree::Tree;

/// Calls that are no ioctls.
const PLAIN: [&str; 4] = ["open", "mmap", "munmap", "any"];

/// The names of calls that a config may have, without prefixes.
pub(crate) fn calls() -> impl Iterator<Item = &'static str> {
    let kgsl = qcom::kgsl::IOCTLS.iter().map(|ioctl| kgsl::name(ioctl));
    PLAIN.into_iter().chain(kgsl).chain(msm::names())
}

/// A machine with a GPU.
pub struct Machine {
    /// What was asked for.
    pub config: Config,
    /// What happened, and every broken rule.
    pub journal: Journal,
    gate: Gate<State>,
    /// Somebody may be waiting for what has changed.
    changed: Condvar,
    tree: Tree,
    injector: Injector,
    next_process: AtomicU32,
    /// What lies behind each memory object of KGSL, where the config asks for it.
    guard: Option<Arc<Object>>,
    next_file: AtomicU64,
    pub(crate) scheduler: Scheduler,
}

/// The state, between two rounds.
pub(crate) type Guard<'a> = MutexGuard<'a, State>;

/// A process on a machine.
pub struct Process {
    machine: Arc<Machine>,
    id: u32,
    pub(crate) caller: Arc<dyn Caller>,
    files: Mutex<BTreeMap<i32, Arc<File>>>,
    maps: Mutex<Maps>,
    /// Memory of KGSL: that of all files of the process.
    objects: Mutex<Objects>,
}

/// Of no program: it counts for none.
fn guard_page() -> io::Result<Object> {
    let page = Object::zeros(u64::MAX, PAGE, "guard page".into(), false);
    page.map_err(|errno| io::Error::from_raw_os_error(errno.0))
}

impl Machine {
    /// A machine.
    ///
    /// # Errors
    /// The host has no thread left.
    pub fn new(config: Config) -> io::Result<Arc<Machine>> {
        let guard = match config.guard {
            true => Some(Arc::new(guard_page()?)),
            false => None,
        };
        let machine = Arc::new(Machine {
            guard,
            gate: Gate::new(State::new(&config)),
            changed: Condvar::new(),
            journal: Journal::new(),
            tree: tree::files(&config),
            injector: Injector::new(config.faults.clone()),
            next_process: AtomicU32::new(1),
            next_file: AtomicU64::new(1),
            scheduler: Scheduler::default(),
            config,
        });
        machine.scheduler.start(&machine)?;
        Ok(machine)
    }

    /// A process, as which somebody calls.
    pub fn attach(self: &Arc<Self>, caller: Arc<dyn Caller>) -> Arc<Process> {
        let process = Process {
            machine: self.clone(),
            id: self.next_process.fetch_add(1, Ordering::Relaxed),
            caller,
            files: Mutex::default(),
            maps: Mutex::default(),
            objects: Mutex::default(),
        };
        if let Some(page) = &self.guard {
            lock(&lock(&process.objects).space).set_guard(page.clone());
        }
        Arc::new(process)
    }

    /// Every file of the machine, by path, and the folders that they lie in.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &tree::Node)> {
        self.tree.all()
    }

    /// The names of the broken rules so far.
    pub fn broken_rules(&self) -> Vec<&'static str> {
        let violations = self.journal.violations();
        violations.iter().map(|one| one.rule.name).collect()
    }

    /// Takes what somebody has written to a text; whether there is one that may be written.
    ///
    /// # Errors
    /// As the kernel's.
    pub fn store(&self, path: &str, text: &[u8]) -> Result<bool> {
        let node = self.tree.find(path);
        let is_timer = node == Some(&tree::Node::Own(tree::Own::Live(tree::Live::IdleTimer)));
        if is_timer {
            self.enter().idle.store(text)?;
        }
        Ok(is_timer)
    }

    /// How many calls have failed because the config asked for it.
    pub fn faults_fired(&self) -> u32 {
        self.injector.fired()
    }

    /// Has somebody watch the GPU from now on.
    pub fn watch(&self, watch: Box<dyn Watch>) {
        self.enter().watch = Some(watch);
    }

    /// Holds the GPU between two rounds until [`Self::go_on`]; system calls may be made meanwhile. One caller at a
    /// time.
    pub fn pause(&self) -> Moment {
        let mut state = self.enter();
        state.paused = true;
        state.moment()
    }

    /// See [`Self::pause`].
    pub fn go_on(&self) {
        self.enter().paused = false;
        self.scheduler.wake();
    }

    /// The state between two rounds.
    pub(crate) fn enter(&self) -> Guard<'_> {
        self.gate.enter()
    }

    pub(crate) fn gate(&self) -> &Gate<State> {
        &self.gate
    }

    /// Somebody may be waiting for what has changed.
    pub(crate) fn tell(&self) {
        self.changed.notify_all();
    }

    /// Waits until `done` gives something, or until a deadline: none then.
    pub(crate) fn wait<'a, T>(
        &'a self,
        mut state: Guard<'a>,
        deadline: Option<Instant>,
        mut done: impl FnMut(&mut State) -> Option<T>,
    ) -> (Guard<'a>, Option<T>) {
        // So that a notice that comes between two looks is not waited for.
        const LOOK: Duration = Duration::from_millis(20);
        loop {
            if let Some(value) = done(&mut state) {
                return (state, Some(value));
            }
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => LOOK,
            };
            if left.is_zero() {
                return (state, None);
            }
            self.scheduler.wake();
            let waited = self.changed.wait_timeout(state, left.min(LOOK));
            state = unpoisoned(waited).0;
        }
    }

    /// Notes a broken rule.
    pub(crate) fn broken(&self, rule: &'static Rule, what: String) {
        self.journal.broken(rule, what);
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

    /// Fails, with a reason for reports.
    pub(crate) fn fail<T>(&self, errno: Errno, why: impl FnOnce() -> String) -> Result<T> {
        let text = format!("process {}: {errno}: {}", self.id, why());
        self.machine.journal.event(text);
        Err(errno)
    }

    /// What its contexts and queues are at that have something to do.
    pub fn standing(&self) -> Vec<Standing> {
        self.machine.enter().standing(self.id)
    }

    pub(crate) fn objects_of(&self) -> MutexGuard<'_, Objects> {
        lock(&self.objects)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.exit();
    }
}
