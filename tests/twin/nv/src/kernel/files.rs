//! Descriptors: open, dup, close, read, mmap.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use hcq::sync::lock;
use twin::rule::{Proof, Rule};

use crate::client::{PAGE, Wanted};
use crate::contents::Piece;
use crate::errno::{Errno, Failure, Result};
use crate::ranges::Part;
use crate::space::Memory;

use super::tree::{Node, Own};
use super::{Process, Wake, Watcher};

static MMAP_FIRST: Rule = Rule {
    name: "NV-MMAP-CONTEXT",
    text: "a file of the driver is mapped after RM_MAP_MEMORY or RM_ALLOC_MEMORY has named it",
    source: "open-gpu-kernel-modules, kernel-open/nvidia/nv-mmap.c, nvidia_mmap_helper: mmap_context->valid",
    proof: Proof::Sourced,
};

static MMAP_RANGE: Rule = Rule {
    name: "NV-MMAP-RANGE",
    text: "a file is mapped from offset 0 with exactly the length that was named for it",
    source: "open-gpu-kernel-modules, kernel-open/nvidia/nv-mmap.c, nvidia_mmap_helper: vm_pgoff, NV_VMA_SIZE",
    proof: Proof::Sourced,
};

/// The first descriptor: far from those of the system.
const FIRST_FD: i32 = 1 << 30;

/// An open file.
pub struct File {
    /// Tells files apart.
    pub id: u64,
    /// What it is.
    pub kind: Kind,
    /// The control file that a file is registered with: held until it is closed.
    pub(super) registered: Mutex<Option<Arc<File>>>,
    /// What the next mmap maps.
    context: Mutex<Option<(Mapped, u64)>>,
    /// What a file of UVM has become.
    uvm: Mutex<Uvm>,
    /// What `poll` waits for.
    pub(super) wake: Arc<Wake>,
}

/// What is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `/dev/nvidiactl`.
    Ctl,
    /// `/dev/nvidiaN`.
    Gpu(usize),
    /// `/dev/nvidia-uvm`.
    Uvm,
    /// Bytes that are read.
    Text(Vec<u8>),
    /// The names in a folder.
    Folder(Vec<String>),
}

/// What a file of UVM is, once it is initialized.
#[derive(Clone, Default)]
pub enum Uvm {
    /// Not yet.
    #[default]
    New,
    /// It holds that address space.
    Space(u64),
    /// It holds the memory of the process for one, by the file of that.
    Memory(u64, Arc<File>),
}

/// What is mapped into a process.
#[derive(Clone, Debug)]
pub enum Mapped {
    /// Memory, from that byte on.
    Memory(Arc<Memory>, u64),
    /// The page with the doorbell of a GPU.
    Doorbell(usize),
}

/// A mapping in a process; it keeps the file.
#[derive(Clone)]
pub(super) struct Map {
    pub(super) what: Mapped,
    pub(super) file: Arc<File>,
}

impl Part for Map {
    fn from(&self, bytes: u64) -> Self {
        let what = match &self.what {
            Mapped::Memory(memory, at) => Mapped::Memory(memory.clone(), at + bytes),
            Mapped::Doorbell(gpu) => Mapped::Doorbell(*gpu),
        };
        let file = self.file.clone();
        Map { what, file }
    }
}

impl File {
    /// What the next mmap maps, and how long it is.
    pub(crate) fn context(&self) -> MutexGuard<'_, Option<(Mapped, u64)>> {
        lock(&self.context)
    }

    /// What a file of UVM has become.
    pub(crate) fn uvm(&self) -> MutexGuard<'_, Uvm> {
        lock(&self.uvm)
    }
}

impl Process {
    pub(crate) fn file(&self, fd: i32) -> Result<Arc<File>> {
        let found = lock(&self.files).get(&fd).cloned();
        found.ok_or(Failure::Errno(Errno(libc::EBADF)))
    }

    /// Whether the process has a file of that GPU open.
    pub(crate) fn has_open(&self, gpu: usize) -> bool {
        let files = lock(&self.files);
        files.values().any(|file| file.kind == Kind::Gpu(gpu))
    }

    /// Gives a file a descriptor: that one, or one of the twin's choice.
    fn install(&self, file: Arc<File>, wanted: Option<i32>) -> Result<i32> {
        let mut files = lock(&self.files);
        let free = || (FIRST_FD..).find(|fd| !files.contains_key(fd));
        let fd = wanted
            .or_else(free)
            .ok_or(Failure::Errno(Errno(libc::EMFILE)))?;
        let before = files.insert(fd, file);
        drop(files);
        if let Some(before) = before {
            self.let_go(before);
        }
        Ok(fd)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// `ENOENT`, or what the config asks for.
    pub fn open(&self, path: &str) -> Result<i32> {
        self.open_as(path, None)
    }

    /// Opens a file as a descriptor that the process has chosen: one of the host's, which stands for it.
    ///
    /// # Errors
    /// `ENOENT`, or what the config asks for.
    pub fn open_as(&self, path: &str, wanted: Option<i32>) -> Result<i32> {
        self.machine.inject("open")?;
        // By what the file is called, however the program writes it.
        self.machine.refused(&twin::tree::plain(path))?;
        let node = self.machine.tree.find(path);
        let kind = match node.ok_or(Failure::Errno(Errno(libc::ENOENT)))? {
            Node::Own(Own::Ctl) => Kind::Ctl,
            Node::Own(Own::Uvm) => Kind::Uvm,
            &Node::Own(Own::Gpu(gpu)) => Kind::Gpu(gpu),
            Node::Link(_) => return Err(Errno::ENOENT.into()),
            Node::Text(text) => Kind::Text(text.clone()),
            Node::Folder => Kind::Folder(self.machine.tree.list(path)),
        };
        let file = Arc::new(File {
            id: self.machine.next_file.fetch_add(1, Ordering::Relaxed),
            kind,
            registered: Mutex::default(),
            context: Mutex::default(),
            uvm: Mutex::default(),
            wake: Arc::default(),
        });
        let fd = self.install(file, wanted)?;
        let note = format!("process {}: open {path} = {fd}", self.id);
        self.machine.journal.event(note);
        Ok(fd)
    }

    /// Whether the machine has a file of that name.
    pub fn exists(&self, path: &str) -> bool {
        self.machine.tree.find(path).is_some()
    }

    /// Another descriptor of the same file.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn dup(&self, fd: i32) -> Result<i32> {
        self.dup_as(fd, None)
    }

    /// The same, as a descriptor that the process has chosen.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn dup_as(&self, fd: i32, wanted: Option<i32>) -> Result<i32> {
        let file = self.file(fd)?;
        self.install(file, wanted)
    }

    /// Closes a descriptor. The file lives on while another one, a mapping or another file has it.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn close(&self, fd: i32) -> Result {
        let _between = self.machine.between();
        let file = lock(&self.files).remove(&fd);
        self.let_go(file.ok_or(Failure::Errno(Errno(libc::EBADF)))?);
        Ok(())
    }

    /// Gives up a file; the last one frees what hangs on it.
    pub(super) fn let_go(&self, file: Arc<File>) {
        let Some(file) = Arc::into_inner(file) else {
            return;
        };
        let mut state = self.machine.state();
        let held = match lock(&file.uvm).clone() {
            Uvm::New => None,
            Uvm::Space(space) => {
                state.end_uvm(space);
                None
            }
            Uvm::Memory(space, of) => {
                state.end_uvm_memory(space);
                Some(of)
            }
        };
        state.free_clients_of(file.id);
        drop(state);
        let File {
            registered, uvm, ..
        } = file;
        drop(uvm);
        let registered = lock(&registered).take();
        for file in held.into_iter().chain(registered) {
            self.let_go(file);
        }
    }

    /// The text of a file.
    ///
    /// # Errors
    /// `EBADF`, `EISDIR`, `EINVAL` for a device.
    pub fn read(&self, fd: i32) -> Result<String> {
        match &self.file(fd)?.kind {
            Kind::Text(text) => Ok(String::from_utf8_lossy(text).into_owned()),
            Kind::Folder(_) => Err(Errno(libc::EISDIR).into()),
            _ => Err(Errno(libc::EINVAL).into()),
        }
    }

    /// Whether poll finds a file ready: one of RM is by an event, which is forgotten if it has no data; one
    /// of a GPU that is off the bus always is.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn ready(&self, fd: i32) -> Result<bool> {
        let _between = self.machine.between();
        let file = self.file(fd)?;
        let ready = match file.kind {
            Kind::Gpu(_) if self.machine.injector.gone() => true,
            Kind::Ctl | Kind::Gpu(_) => file.wake.poll(),
            Kind::Uvm => false,
            Kind::Text(_) | Kind::Folder(_) => true,
        };
        self.let_go(file);
        Ok(ready)
    }

    /// Has somebody told whether poll would find a file of RM ready: now, and whenever that changes.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn watch(&self, fd: i32, watcher: Watcher) -> Result {
        let file = self.file(fd)?;
        file.wake.watch(watcher);
        self.let_go(file);
        Ok(())
    }

    /// The names in a folder.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR`.
    pub fn list(&self, fd: i32) -> Result<Vec<String>> {
        match &self.file(fd)?.kind {
            Kind::Folder(names) => Ok(names.clone()),
            _ => Err(Errno(libc::ENOTDIR).into()),
        }
    }

    /// mmap of a file; returns where.
    ///
    /// # Errors
    /// `EBADF`, `ENODEV` for a text, `EINVAL`, `ENXIO`.
    pub fn mmap(&self, wanted: Wanted, fd: i32, offset: u64) -> Result<u64> {
        self.machine.inject("mmap")?;
        let bytes = wanted.bytes.checked_next_multiple_of(PAGE);
        let bytes = bytes.filter(|&bytes| bytes > 0).ok_or(Errno::EINVAL)?;
        let wanted = Wanted { bytes, ..wanted };
        let file = self.file(fd)?;
        match self.mappable(fd, &file, &wanted, offset) {
            Ok((what, piece)) => {
                // Locked: whoever unmaps a range has this mapping in the books, too.
                let mut maps = lock(&self.maps);
                let at = match self.memory.map(wanted, &piece) {
                    Ok(at) => at,
                    Err(errno) => {
                        drop(maps);
                        self.let_go(file);
                        return Err(errno.into());
                    }
                };
                let before = maps.insert(at, bytes, Map { what, file });
                drop(maps);
                self.let_go_all(before);
                Ok(at)
            }
            Err(failure) => {
                self.let_go(file);
                Err(failure)
            }
        }
    }

    pub(super) fn let_go_all(&self, maps: Vec<Map>) {
        for map in maps {
            self.let_go(map.file);
        }
    }

    /// What a file is to map, and its pages.
    fn mappable(
        &self,
        fd: i32,
        file: &File,
        wanted: &Wanted,
        offset: u64,
    ) -> Result<(Mapped, Piece)> {
        let (machine, bytes) = (&self.machine, wanted.bytes);
        if file.kind == Kind::Uvm {
            let memory = self.pool(file, wanted, offset)?;
            let piece = memory.contents.piece(0);
            let (piece, _) = piece.ok_or(Errno::ENXIO)?;
            return Ok((Mapped::Memory(memory, 0), piece));
        }
        if !matches!(file.kind, Kind::Ctl | Kind::Gpu(_)) {
            return Err(Errno(libc::ENODEV).into());
        }
        let context = lock(&file.context).clone();
        let Some((what, expected)) = context else {
            let what = format!("mmap of descriptor {fd}");
            return machine.reject(&MMAP_FIRST, libc::EINVAL, what);
        };
        if offset != 0 {
            let what = format!("mmap of descriptor {fd} from {offset:#x}");
            return machine.reject(&MMAP_RANGE, libc::EINVAL, what);
        }
        let expected = expected.next_multiple_of(PAGE);
        // A file of a GPU takes just that; of the control file, less may be mapped.
        if bytes > expected || (bytes < expected && file.kind != Kind::Ctl) {
            let what = format!("mmap of {bytes:#x} bytes, {expected:#x} were named");
            return machine.reject(&MMAP_RANGE, libc::ENXIO, what);
        }
        let piece = match &what {
            Mapped::Memory(memory, from) => memory.contents.piece(*from),
            Mapped::Doorbell(gpu) => {
                let of = machine.doorbells[*gpu].page().clone();
                Some((Piece { of, offset: 0 }, expected))
            }
        };
        let piece = piece.filter(|(_, rest)| *rest >= bytes);
        match piece {
            Some((piece, _)) => Ok((what, piece)),
            None => Err(Errno::ENXIO.into()),
        }
    }

    /// munmap, of anything that the process has.
    ///
    /// # Errors
    /// As the system's.
    pub fn munmap(&self, at: u64, bytes: u64) -> Result {
        self.machine.inject("munmap")?;
        let _between = self.machine.between();
        self.unmap(at, bytes)
    }

    /// The same, between rounds of engines.
    pub(super) fn unmap(&self, at: u64, bytes: u64) -> Result {
        let bytes = bytes.checked_next_multiple_of(PAGE);
        let bytes = bytes.filter(|&bytes| bytes > 0 && at.is_multiple_of(PAGE));
        let bytes = bytes.ok_or(Errno::EINVAL)?;
        let mut maps = lock(&self.maps);
        self.memory.unmap(at, bytes)?;
        let gone = maps.cut(at, bytes);
        drop(maps);
        self.let_go_all(gone);
        Ok(())
    }

    /// What is mapped into the process: first address, bytes, what.
    pub fn mapped(&self) -> Vec<(u64, u64, Mapped)> {
        let maps = lock(&self.maps);
        let all = maps.iter();
        all.map(|(at, bytes, map)| (at, bytes, map.what.clone()))
            .collect()
    }
}
