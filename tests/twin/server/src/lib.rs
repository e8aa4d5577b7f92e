//! A twin that serves the system calls of other processes: each program that has the library of
//! `twin-preload` in it, and everything that it starts, are processes on one machine.
//!
//! - [`Server`]: listens, and gives each connection a thread;
//! - `peer`: a process of the host as the kernel driver sees it; `connection`: its calls;
//! - `machine`: AMD's or NVIDIA's, by the chip that the config names.
//!
//! Memory of a device is a file in memory, which both map; so is memory of a process once a device has it,
//! and the process sees to that. What a call's addresses lead to is read and written by the system, which
//! lets the parent of a process do so.
#![forbid(unsafe_code)]

mod connection;
mod machine;
mod peer;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;
use twin::process::Calls;
use twin::rule::Violation;
use twin::tree::Tree;
use twin::wire;

use machine::Machine;

/// A machine that serves. Its files are gone when this is dropped; connections that are open then fail.
pub struct Server {
    folder: TempDir,
    state: Arc<State>,
}

/// What the threads of connections share.
struct State {
    machine: Box<dyn Machine>,
    tree: Tree,
    /// By the number that the process was given.
    processes: Mutex<BTreeMap<u64, Arc<dyn Calls>>>,
}

impl State {
    fn processes(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<dyn Calls>>> {
        // Entries are inserted and removed whole.
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// A machine of a config string, which serves from now on.
    ///
    /// # Errors
    /// What is wrong with the string, or what the host lacks.
    pub fn start(config: &str) -> Result<Server, String> {
        let machine = machine::of(config)?;
        Server::serve(machine).map_err(|error| format!("a folder and a socket for it: {error}"))
    }

    fn serve(machine: Box<dyn Machine>) -> io::Result<Server> {
        let folder = TempDir::with_prefix("doorbell-twin-")?;
        let tree = Tree::write(&wire::tree_of(folder.path()), machine.nodes())?;
        let listener = UnixListener::bind(wire::socket_of(folder.path()))?;
        let state = Arc::new(State {
            machine,
            tree,
            processes: Mutex::default(),
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

    /// Ends processes that have not ended by themselves.
    pub fn finish(&self) {
        let left = std::mem::take(&mut *self.state.processes());
        for process in left.into_values() {
            process.exit();
        }
    }

    /// Every case of a broken rule.
    pub fn violations(&self) -> Vec<Violation> {
        self.state.machine.journal().violations()
    }
}
