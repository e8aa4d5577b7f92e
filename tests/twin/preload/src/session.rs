//! What this process has open of devices, and whose it is.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::driver::{Driver, Map, Result};
use crate::host::Host;
use crate::memory::Memory;
use crate::nv::Nv;
use crate::record::Record;
use crate::system;
use crate::tree::{Tree, plain};

/// See the front page.
pub struct Session {
    driver: Box<dyn Driver>,
    /// Files of the machine; none where they are the host's.
    tree: Option<Tree>,
    record: Option<Record>,
    /// What is shared with devices, for the record.
    memory: Mutex<Memory>,
    /// Descriptors of devices, with their paths.
    open: Mutex<BTreeMap<i32, String>>,
    /// The process that the machine is in: its children have none.
    process: u32,
}

/// The session of this process, if its environment asks for one.
pub fn session() -> Option<&'static Session> {
    static SESSION: OnceLock<Option<Session>> = OnceLock::new();
    let session = SESSION.get_or_init(|| {
        Session::from_env().unwrap_or_else(|what| {
            eprintln!("doorbell_preload: {what}");
            system::leave(2)
        })
    });
    session
        .as_ref()
        .filter(|one| one.process == std::process::id())
}

/// Whether there was a reason to look at the environment: a path that may be that of a device.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether a session has begun: before, nothing is open that could be its.
pub fn begun() -> bool {
    BEGUN.load(Ordering::Acquire)
}

impl Session {
    fn from_env() -> std::result::Result<Option<Session>, String> {
        BEGUN.store(true, Ordering::Release);
        let config = std::env::var("DOORBELL_TWIN_CONFIG").ok();
        let record = std::env::var_os("DOORBELL_RECORD");
        let driver: Box<dyn Driver> = match &config {
            Some(config) => Box::new(Nv::new(config)?),
            None if record.is_some() => Box::new(Host),
            None => return Ok(None),
        };
        let nodes = driver.nodes();
        let tree = match nodes.is_empty() {
            true => None,
            false => {
                let tree = Tree::write(nodes);
                Some(tree.map_err(|error| format!("files of the machine: {error}"))?)
            }
        };
        let record = match record {
            Some(path) => {
                let record = Record::create(Path::new(&path), driver.version());
                Some(record.map_err(|error| format!("{}: {error}", Path::new(&path).display()))?)
            }
            None => None,
        };
        if tree.is_some() {
            system::watch_signals(crate::end::report);
        }
        Ok(Some(Session {
            driver,
            tree,
            record,
            memory: Mutex::default(),
            open: Mutex::default(),
            process: std::process::id(),
        }))
    }

    fn open_files(&self) -> MutexGuard<'_, BTreeMap<i32, String>> {
        // Entries are inserted and removed whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path that the host is asked for instead of one of the machine.
    pub fn on_host(&self, path: &str) -> Option<CString> {
        let path = plain(path);
        let tree = self.tree.as_ref().filter(|_| self.driver.owns(&path))?;
        system::c_path(&tree.path(&path)).ok()
    }

    /// The numbers of a device of the machine.
    pub fn device(&self, path: &str) -> Option<(u32, u32)> {
        self.tree.as_ref()?.device(&plain(path))
    }

    /// The numbers of the device that is open there.
    pub fn device_of(&self, fd: i32) -> Option<(u32, u32)> {
        let path = self.open_files().get(&fd).cloned()?;
        self.device(&path)
    }

    /// Whether a descriptor is that of a device of the machine.
    pub fn is_open(&self, fd: i32) -> bool {
        self.tree.is_some() && self.open_files().contains_key(&fd)
    }

    /// See [`Driver::ready`].
    pub fn ready(&self, fd: i32) -> bool {
        self.driver.ready(fd)
    }

    /// Opens a device; none where the path is no device's.
    pub fn open(&self, path: &str, flags: i32) -> Option<Result<i32>> {
        let path = plain(path);
        if !self.driver.is_device(&path) {
            return None;
        }
        let opened = self.driver.open(&path, flags);
        if let Some(record) = &self.record {
            record.open(&path, flags, opened);
        }
        if let Ok(fd) = opened {
            self.open_files().insert(fd, path);
        }
        Some(opened)
    }

    /// See [`Driver::closing`].
    pub fn closing(&self, fd: i32) {
        if let Some(path) = self.open_files().remove(&fd) {
            if let Some(record) = &self.record {
                record.close(&path, fd);
            }
            self.driver.closing(fd);
        }
    }

    /// `to` has become another descriptor of the file that `from` is one of; what it was before is closed.
    pub fn duplicated(&self, from: i32, to: i32) {
        self.closing(to);
        let path = self.open_files().get(&from).cloned();
        if let Some(path) = path {
            if let Some(record) = &self.record {
                record.dup(&path, from, to);
            }
            self.driver.duplicated(from, to);
            self.open_files().insert(to, path);
        }
    }

    /// An ioctl; none where the descriptor is no device's.
    pub fn ioctl(&self, fd: i32, request: u32, argument: u64) -> Option<Result<i32>> {
        let path = self.open_files().get(&fd).cloned()?;
        let Some(record) = &self.record else {
            return Some(self.driver.ioctl(fd, request, argument));
        };
        let before = record.before(&path, request, argument);
        let done = self.driver.ioctl(fd, request, argument);
        if let Some((at, bytes)) = record.handed(&before) {
            self.shared().add(at, bytes, "", false);
        }
        record.ioctl(&path, fd, request, before, done);
        Some(done)
    }

    /// Maps a device; none where the descriptor is no device's.
    pub fn mmap(&self, fd: i32, map: Map) -> Option<Result<u64>> {
        let path = self.open_files().get(&fd).cloned()?;
        let mapped = self.driver.mmap(fd, map);
        if let Some(record) = &self.record {
            record.mmap(&path, fd, map, mapped);
            if let (Ok(at), true) = (mapped, map.protection & libc::PROT_READ != 0) {
                self.shared().add(at, map.bytes, &path, true);
            }
        }
        Some(mapped)
    }

    /// See [`Driver::munmap`].
    pub fn munmap(&self, at: u64, bytes: u64) -> Option<Result<bool>> {
        let Some(record) = &self.record else {
            return Some(self.driver.munmap(at, bytes));
        };
        let mut memory = self.shared();
        let shared = memory.has(at, bytes);
        record.memory("unmapped", memory.changed(at, bytes));
        let done = self.driver.munmap(at, bytes);
        memory.remove(at, bytes);
        if done == Ok(true) || done == Ok(false) && shared {
            record.munmap(at, bytes);
        }
        Some(done)
    }

    fn shared(&self) -> MutexGuard<'_, Memory> {
        // Entries are inserted and removed whole.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program has come to a place that has a name: what it shares with devices is looked at.
    pub fn mark(&self, name: &str) {
        if let Some(record) = &self.record {
            record.memory(name, self.shared().all());
        }
    }

    /// The rules that were broken.
    pub fn broken(&self) -> Vec<String> {
        self.driver.broken()
    }

    /// The process ends.
    pub fn finish(&self) {
        self.mark("end");
        self.driver.finish();
        if let Some(tree) = &self.tree {
            tree.remove();
        }
    }
}
