//! A twin that serves the system calls of other processes: each program that has the library of
//! `twin-preload` in it, and everything that it starts, are processes on one machine.
//!
//! - [`Server`]: listens, and gives each connection a thread;
//! - `peer`: a process of the host as the kernel driver sees it; `connection`: its calls;
//! - `machine`: AMD's, NVIDIA's or Qualcomm's, by the chip that the config names;
//! - `recorder`: keeps what processes did in a file ([`twin::record`]); [`replay`]: does it again, without
//!   them; [`text`]: says what is in it; `place`: memory, as both look at it;
//!   `folder`: where its files are; `programs`: stand still while engines move.
//!
//! Memory of a device is a file in memory, which both map; so is memory of a process once a device has it,
//! and the process sees to that. What a call's addresses lead to is read and written by the system, which
//! lets the parent of a process do so.
#![forbid(unsafe_code)]

mod connection;
mod folder;
mod machine;
mod peer;
mod place;
mod programs;
mod recorder;
mod replay;
pub mod text;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use twin::process::{Calls, Standing};
use twin::rule::Violation;
use twin::tree::Tree;
use twin::wire::{self, Kind, WORDS};

use folder::Folder;
use hcq::sync::lock;
use machine::Machine;
use peer::Peer;
use recorder::Recorder;

pub use replay::{Replay, replay};

/// A machine that serves. Its files are gone when this is dropped; connections that are open then fail.
pub struct Server {
    folder: Folder,
    state: Arc<State>,
}

/// What the threads of connections share.
struct State {
    machine: Arc<dyn Machine>,
    tree: Tree,
    /// By the number that the process was given.
    processes: Mutex<BTreeMap<u32, Arc<dyn Calls>>>,
    next: AtomicU32,
    /// Whether a process has opened a device.
    opened: AtomicBool,
    recorder: Option<Arc<Recorder>>,
    /// What was not done of processes when they ended.
    left: Mutex<Vec<Standing>>,
}

impl State {
    /// A process begins.
    fn begin(&self, pid: u32) -> u32 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let recorder = self.recorder.clone().map(|recorder| (number, recorder));
        let begin = || self.machine.attach(Arc::new(Peer { pid, recorder }));
        let process = match &self.recorder {
            Some(recorder) => recorder.process(number, pid, begin),
            None => begin(),
        };
        self.processes().insert(number, process);
        number
    }

    /// A process has ended.
    fn end(&self, number: u32, process: &dyn Calls) {
        self.left().extend(process.standing());
        let Some(recorder) = &self.recorder else {
            return process.exit();
        };
        let run = || {
            process.exit();
            Ok(0)
        };
        // It has no result.
        let _ = recorder.call(number, (Kind::Exit, [0; WORDS], &[]), run);
    }

    fn left(&self) -> MutexGuard<'_, Vec<Standing>> {
        // Entries are whole.
        lock(&self.left)
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<dyn Calls>>> {
        // Entries are inserted and removed whole.
        lock(&self.processes)
    }
}

impl Server {
    /// A machine of a config string, which serves from now on.
    ///
    /// # Errors
    /// What is wrong with the string, or what the host lacks.
    pub fn start(config: &str) -> Result<Server, String> {
        Server::with(machine::of(config)?, None)
    }

    /// The same, with a record of what processes do there.
    ///
    /// # Errors
    /// As [`Self::start`]; what is wrong with the file.
    pub fn recorded(config: &str, record: &Path) -> Result<Server, String> {
        let machine = machine::of(config)?;
        let printed = |part: &&str| {
            let key = part.split_once('=').map_or("", |(key, _)| key.trim());
            !["debug", "log"].contains(&key)
        };
        let config = config.split(',').filter(printed);
        let config: Vec<&str> = config.collect();
        let config = format!("{},{}", config.join(","), machine.of_host());
        let recorder = Recorder::start(record, &config, &machine);
        let recorder = recorder.map_err(|error| format!("{}: {error}", record.display()))?;
        Server::with(machine, Some(recorder))
    }

    fn with(machine: Arc<dyn Machine>, recorder: Option<Arc<Recorder>>) -> Result<Server, String> {
        let served = Server::serve(machine, recorder);
        served.map_err(|error| format!("a folder and a socket for it: {error}"))
    }

    fn serve(machine: Arc<dyn Machine>, recorder: Option<Arc<Recorder>>) -> io::Result<Server> {
        let folder = Folder::new()?;
        let tree = Tree::write(&wire::tree_of(folder.path()), machine.nodes())?;
        let listener = UnixListener::bind(wire::socket_of(folder.path()))?;
        let state = Arc::new(State {
            machine,
            tree,
            processes: Mutex::default(),
            next: AtomicU32::new(1),
            opened: AtomicBool::new(false),
            recorder,
            left: Mutex::default(),
        });
        let shared = state.clone();
        let threads = std::thread::Builder::new().name("twin-server".into());
        threads.spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                let threads = std::thread::Builder::new().name("twin-calls".into());
                // Without a thread the connection ends, and who waits for it is told.
                let _ = threads.spawn(move || connection::serve(&state, stream));
            }
        })?;
        Ok(Server { folder, state })
    }

    /// What [`wire::VARIABLE`] says to processes that shall find it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends processes that have not ended by themselves, and the record.
    ///
    /// # Errors
    /// Why the record is not whole.
    pub fn finish(&self) -> io::Result<()> {
        let left = std::mem::take(&mut *self.state.processes());
        for (number, process) in left {
            self.state.end(number, &*process);
        }
        let recorder = self.state.recorder.as_ref();
        recorder.map_or(Ok(()), |recorder| recorder.finish())
    }

    /// What is not done of the processes that there are.
    pub fn standing(&self) -> Vec<Standing> {
        let processes: Vec<_> = self.state.processes().values().cloned().collect();
        processes
            .iter()
            .flat_map(|process| process.standing())
            .collect()
    }

    /// What was not done of processes when they ended, since the last call.
    pub fn take_left(&self) -> Vec<Standing> {
        std::mem::take(&mut *self.state.left())
    }

    /// Whether a process has opened a device of the machine.
    pub fn was_opened(&self) -> bool {
        self.state.opened.load(Ordering::Relaxed)
    }

    /// What its devices are in the variable DEV.
    pub fn vendor(&self) -> &'static str {
        self.state.machine.vendor()
    }

    /// Why its devices were reset.
    pub fn resets(&self) -> Vec<String> {
        self.state.machine.journal().resets()
    }

    /// Every case of a broken rule.
    pub fn violations(&self) -> Vec<Violation> {
        self.state.machine.journal().violations()
    }
}
