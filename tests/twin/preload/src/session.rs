//! What this process has open of devices, and whose it is.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use hcq::sync::lock;
use tempfile::TempDir;
use twin::tree::{Tree, plain};
use twin::wire;

use crate::driver::{Driver, Map, Result};
use crate::host::Host;
use crate::memory::Memory;
use crate::record::Record;
use crate::remote::Remote;
use crate::system::{self, Inside};

/// See the front page.
pub struct Session {
    driver: Box<dyn Driver>,
    /// Files of the machine; none where they are the host's.
    tree: Option<Tree>,
    /// The folder that they are in, where it is this process's own.
    folder: Mutex<Option<TempDir>>,
    record: Option<Record>,
    /// What is shared with devices, for the record.
    memory: Mutex<Memory>,
    /// Descriptors of devices, with their paths.
    open: Mutex<BTreeMap<i32, String>>,
    /// The process that this is the session of.
    process: u32,
    /// Whether its children have sessions, too: of a machine that is in another process.
    shared: bool,
}

/// A session, and that of a child of a fork, which has this one's memory.
#[derive(Default)]
struct Slot {
    session: OnceLock<Option<Session>>,
    child: OnceLock<Box<Slot>>,
}

static FIRST: Slot = Slot {
    session: OnceLock::new(),
    child: OnceLock::new(),
};

/// The session of this process, which begins if its environment asks for one. A child of a fork has one of
/// its own where the machine is in another process, and none where it was in its parent.
pub fn session() -> Option<&'static Session> {
    let mut slot = &FIRST;
    loop {
        let session = slot.session.get_or_init(|| {
            Session::from_env().unwrap_or_else(|what| {
                eprintln!("doorbell_preload: {what}");
                system::leave(2)
            })
        });
        match session.as_ref()? {
            session if session.is_here() => return Some(session),
            session if !session.shared => return None,
            _ => slot = slot.child.get_or_init(Box::default),
        }
    }
}

/// The session of this process, if it has begun. One that was made by `vfork`, and has its parent's memory
/// until it is another program, has none.
pub fn running() -> Option<&'static Session> {
    let mut slot = Some(&FIRST);
    while let Some(now) = slot {
        let session = now.session.get()?.as_ref()?;
        if session.is_here() {
            return Some(session);
        }
        slot = now.child.get().map(|child| &**child);
    }
    None
}

/// A child of a fork has nothing of what its parent had open.
extern "C" fn in_the_child() {
    let Some(_inside) = Inside::enter() else {
        return;
    };
    // Until it opens one of its own.
    BEGUN.store(false, Ordering::Release);
    let mut slot = Some(&FIRST);
    while let Some(now) = slot {
        if let Some(Some(session)) = now.session.get() {
            session.driver.forked();
        }
        slot = now.child.get().map(|child| &**child);
    }
}

/// Whether there was a reason to look at the environment: a path that may be that of a device.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether a session has begun: before, nothing is open that could be its.
pub fn begun() -> bool {
    BEGUN.load(Ordering::Acquire)
}

/// A machine in this process.
#[cfg(feature = "nv")]
fn machine(config: &str) -> std::result::Result<Box<dyn Driver>, String> {
    Ok(Box::new(crate::nv::Nv::new(config)?))
}

/// There is none.
#[cfg(not(feature = "nv"))]
fn machine(config: &str) -> std::result::Result<Box<dyn Driver>, String> {
    Err(format!(
        "DOORBELL_TWIN_CONFIG={config}: this library has no machine of its own: run the program by `doorbell twin exec`, or \
         build twin-preload with its feature nv"
    ))
}

/// What stands for the path of a descriptor that an ioctl has made.
const MADE: &str = "";

impl Session {
    fn from_env() -> std::result::Result<Option<Session>, String> {
        BEGUN.store(true, Ordering::Release);
        let server = std::env::var_os(wire::VARIABLE);
        let config = std::env::var("DOORBELL_TWIN_CONFIG").ok();
        let record = std::env::var_os("DOORBELL_RECORD");
        let driver: Box<dyn Driver> = match (&server, &config) {
            (Some(folder), _) => Box::new(Remote::new(Path::new(folder))?),
            (None, Some(config)) => machine(config)?,
            (None, None) if record.is_some() => Box::new(Host),
            (None, None) => return Ok(None),
        };
        let nodes = driver.nodes();
        let (folder, tree) = match nodes.is_empty() {
            true => (None, driver.tree()),
            false => {
                let failed = |error| format!("files of the machine: {error}");
                let folder = TempDir::with_prefix("doorbell-twin-").map_err(failed)?;
                let tree = Tree::write(folder.path(), nodes).map_err(failed)?;
                (Some(folder), Some(tree))
            }
        };
        if server.is_some() {
            system::after_fork(in_the_child);
        }
        let record = match record {
            Some(path) => {
                let record = Record::create(Path::new(&path), driver.version());
                Some(record.map_err(|error| format!("{}: {error}", Path::new(&path).display()))?)
            }
            None => None,
        };
        // Of a machine in another process, that one tells.
        if folder.is_some() {
            system::watch_signals(crate::end::report);
        }
        Ok(Some(Session {
            driver,
            tree,
            folder: Mutex::new(folder),
            record,
            memory: Mutex::default(),
            open: Mutex::default(),
            process: std::process::id(),
            shared: server.is_some(),
        }))
    }

    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    fn open_files(&self) -> MutexGuard<'_, BTreeMap<i32, String>> {
        // Entries are inserted and removed whole.
        lock(&self.open)
    }

    /// The path that the host is asked for instead of one of the machine.
    pub fn on_host(&self, path: &str) -> Option<CString> {
        let path = plain(path);
        let tree = self.tree.as_ref().filter(|_| self.driver.owns(&path))?;
        self.driver.refresh(&path);
        system::c_path(&tree.path(&path)).ok()
    }

    /// The path of the machine that is named from a folder of it; none where the folder is the host's.
    pub fn named(&self, folder: i32, name: &str) -> Option<String> {
        let tree = self.tree.as_ref().filter(|_| !name.starts_with('/'))?;
        let at = match folder {
            libc::AT_FDCWD => "/proc/self/cwd".into(),
            fd => format!("/proc/self/fd/{fd}"),
        };
        let at = fs::read_link(at).ok()?;
        let folder = at.strip_prefix(tree.path("/")).ok()?.to_str()?;
        let path = plain(&format!("{folder}/{name}"));
        self.driver.refresh(&path);
        Some(path)
    }

    /// How much longer a path on the host is than that of the machine; none where it is the host's own.
    pub fn above(&self, path: &[u8]) -> Option<usize> {
        // It ends with a slash.
        let root = self.tree.as_ref()?.path("/");
        let root = root.as_os_str().as_bytes();
        path.starts_with(root).then_some(root.len() - 1)
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
            return Some(self.made(self.driver.ioctl(fd, request, argument)));
        };
        let before = record.before(&path, request, argument);
        let done = self.made(self.driver.ioctl(fd, request, argument));
        if let Some((at, bytes)) = record.handed(&before) {
            self.shared().add(at, bytes, "", false);
        }
        record.ioctl(&path, fd, request, before, done);
        Some(done)
    }

    /// Notes the descriptors that an ioctl has made.
    fn made(&self, done: Result<i32>) -> Result<i32> {
        for fd in self.driver.made() {
            self.open_files().insert(fd, MADE.into());
        }
        done
    }

    /// Maps a device; none where the descriptor is no device's.
    pub fn mmap(&self, fd: i32, map: Map) -> Option<Result<u64>> {
        let path = self.open_files().get(&fd).cloned();
        // What an ioctl has made is a file of the host, too.
        let path = path.filter(|path| path != MADE)?;
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

    /// See [`Driver::knows`].
    pub fn knows(&self, at: u64, bytes: u64) -> bool {
        self.driver.knows(at, bytes)
    }

    fn shared(&self) -> MutexGuard<'_, Memory> {
        // Entries are inserted and removed whole.
        lock(&self.memory)
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

    fn lock_folder(&self) -> MutexGuard<'_, Option<TempDir>> {
        lock(&self.folder)
    }

    /// The process ends.
    pub fn finish(&self) {
        self.mark("end");
        self.driver.finish();
        // Whoever else has taken the folder away has done no harm.
        drop(self.lock_folder().take());
    }
}
