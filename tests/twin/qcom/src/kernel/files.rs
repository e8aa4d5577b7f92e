//! Descriptors: open, dup, close, read, mmap.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use hcq::sync::lock;
use twin::errno::{Errno, Result};
use twin::host::PAGE;
use twin::process::Wanted;

use crate::memory::Object;

use super::Process;
use super::msm::Render;
use super::state::Watcher;
use super::tree::{Live, Node, Own};

/// The first descriptor: far from those of the system.
const FIRST_FD: i32 = 1 << 30;

/// An open file.
pub(crate) struct File {
    /// Tells files apart.
    pub(crate) id: u64,
    pub(crate) kind: Kind,
}

/// What is open.
pub(crate) enum Kind {
    /// `/dev/kgsl-3d0`.
    Kgsl,
    /// A render node of msm.
    Render(Mutex<Render>),
    /// Memory that was exported.
    Dmabuf(Arc<Object>),
    /// A fence: it is signalled when that submission is done.
    SyncFile(u64),
    /// A syncobj that was exported.
    Syncobj(super::msm::syncobj::Shared),
    /// Bytes that are read.
    Text(Vec<u8>),
    /// The names in a folder.
    Folder(Vec<String>),
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Kind::Kgsl => "/dev/kgsl-3d0",
            Kind::Render(_) => "/dev/dri/renderD128",
            Kind::Dmabuf(_) => "a dmabuf",
            Kind::SyncFile(_) => "a sync file",
            Kind::Syncobj(_) => "a syncobj",
            Kind::Text(_) => "a text",
            Kind::Folder(_) => "a folder",
        }
    }
}

/// What `read` of KGSL's file gives: `KGSL_READ_MESSAGE` of kgsl.c.
const READ: &str = "OH HAI GPU\n";

/// A mapping in a process: the memory, and whose it is.
#[derive(Clone)]
pub(crate) struct Map {
    bytes: u64,
    of: Arc<Mapped>,
}

/// What one call of mmap has mapped.
pub(crate) struct Mapped {
    object: Arc<Object>,
    /// The object's number in KGSL, where it is one of that.
    entry: Option<u32>,
    /// The file keeps what it has open.
    _file: Arc<File>,
}

/// Mappings of a process, by address.
#[derive(Default)]
pub(crate) struct Maps(BTreeMap<u64, Map>);

impl Maps {
    /// Whether something of KGSL is mapped in a range.
    pub(crate) fn has_kgsl(&self, at: u64, bytes: u64) -> bool {
        let before = self.0.range(..at.saturating_add(bytes));
        let mut inside = before.filter(|(first, map)| **first + map.bytes > at);
        inside.any(|(_, map)| map.of.entry.is_some())
    }

    /// Takes a range away; returns what was there.
    fn cut(&mut self, at: u64, bytes: u64) -> Vec<Arc<Mapped>> {
        let end = at.saturating_add(bytes);
        let inside = self
            .0
            .range(..end)
            .filter(|(first, map)| **first + map.bytes > at);
        let found: Vec<u64> = inside.map(|(first, _)| *first).collect();
        let mut gone = Vec::new();
        for first in found {
            let Some(map) = self.0.remove(&first) else {
                continue;
            };
            let last = first + map.bytes;
            let of = map.of.clone();
            if first < at {
                let bytes = at - first;
                self.0.insert(
                    first,
                    Map {
                        bytes,
                        of: of.clone(),
                    },
                );
            }
            if last > end {
                let bytes = last - end;
                self.0.insert(end, Map { bytes, of });
            }
            gone.push(map.of);
        }
        gone
    }
}

impl Process {
    pub(crate) fn file(&self, fd: i32) -> Result<Arc<File>> {
        let found = lock(&self.files).get(&fd).cloned();
        found.ok_or(Errno::EBADF)
    }

    /// A new file, with a descriptor: that one, or one of the twin's choice.
    pub(crate) fn install(&self, kind: Kind, wanted: Option<i32>) -> Result<i32> {
        let id = self.machine.next_file.fetch_add(1, Ordering::Relaxed);
        self.install_file(Arc::new(File { id, kind }), wanted)
    }

    fn install_file(&self, file: Arc<File>, wanted: Option<i32>) -> Result<i32> {
        let mut files = lock(&self.files);
        let free = || (FIRST_FD..).find(|fd| !files.contains_key(fd));
        let fd = wanted.or_else(free).ok_or(Errno::EMFILE)?;
        let before = files.insert(fd, file);
        drop(files);
        before.into_iter().for_each(|file| self.let_go(file));
        Ok(fd)
    }

    /// Whether the machine has a file of that name.
    pub fn exists(&self, path: &str) -> bool {
        self.machine.tree.find(path).is_some()
    }

    /// Opens a file, as that descriptor or as one of the twin's choice.
    ///
    /// # Errors
    /// `ENOENT`, or what the config asks for.
    pub fn open(&self, path: &str, wanted: Option<i32>) -> Result<i32> {
        self.machine.injector.call("open")?;
        // By what the file is called, however the program writes it.
        if let Some(errno) = self.machine.config.refused(&twin::tree::plain(path)) {
            return Err(errno);
        }
        if let Some(fd) = path.strip_prefix("/proc/self/fdinfo/") {
            let fd = fd.parse().map_err(|_| Errno::ENOENT)?;
            return self.install(Kind::Text(self.about(fd)?.into_bytes()), wanted);
        }
        let node = self.machine.tree.find(path).ok_or(Errno::ENOENT)?;
        let id = self.machine.next_file.fetch_add(1, Ordering::Relaxed);
        let kind = match node {
            Node::Own(Own::Kgsl) => Kind::Kgsl,
            Node::Own(Own::Render) => {
                self.machine.enter().open_render(id);
                Kind::Render(Mutex::default())
            }
            Node::Own(Own::Live(live)) => Kind::Text(self.live(*live).into_bytes()),
            Node::Text(text) => Kind::Text(text.clone()),
            Node::Folder => Kind::Folder(self.machine.tree.list(path)),
            Node::Link(_) => return Err(Errno::ENOENT),
        };
        let fd = self.install_file(Arc::new(File { id, kind }), wanted)?;
        let note = format!("process {}: open {path} = {fd}", self.id);
        self.machine.journal.event(note);
        Ok(fd)
    }

    /// A dma-buf of another driver of the machine, as a camera's or a heap's: how a program asks for it is not modelled. The
    /// caller closes it.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn foreign_dmabuf(&self, bytes: u64) -> Result<i32> {
        let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
        let name = "a dma-buf of another driver".into();
        let object = self.machine.enter().zeros(bytes, name, false)?;
        self.export(object)
    }

    /// What `/proc/self/fdinfo` says of a descriptor.
    ///
    /// Source: Linux, fs/proc/fd.c, `seq_show`; drivers/dma-buf/dma-buf.c, `dma_buf_show_fdinfo`.
    fn about(&self, fd: i32) -> Result<String> {
        let file = self.file(fd).map_err(|_| Errno::ENOENT)?;
        let (flags, id) = (libc::O_RDWR | libc::O_CLOEXEC, file.id);
        let mut text = format!("pos:\t0\nflags:\t0{flags:o}\nmnt_id:\t12\nino:\t{id}\n");
        if let Kind::Dmabuf(object) = &file.kind {
            let count = Arc::strong_count(object);
            text += &format!("size:\t{}\ncount:\t{count}\nexp_name:\tmsm\n", object.bytes);
        }
        Ok(text)
    }

    /// A text that changes, as it is now.
    fn live(&self, live: Live) -> String {
        let state = self.machine.enter();
        let (busy, all) = (state.core.busy(), state.core.now().max(1));
        match live {
            // Ticks of 19.2 MHz as microseconds; not since the last time that somebody read it, as the kernel has it,
            // but since the machine has started.
            Live::Busy => format!("{:7} {:7}\n", busy * 10 / 192, all * 10 / 192),
            Live::Percentage => format!("{} %\n", busy * 100 / all),
            Live::Resets => format!("{}\n", state.resets),
            Live::IdleTimer => state.idle.text(),
        }
    }

    /// Another descriptor of the same file.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn dup(&self, fd: i32, wanted: Option<i32>) -> Result<i32> {
        let file = self.file(fd)?;
        self.install_file(file, wanted)
    }

    /// Closes a descriptor.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn close(&self, fd: i32) -> Result {
        let file = lock(&self.files).remove(&fd);
        self.let_go(file.ok_or(Errno::EBADF)?);
        Ok(())
    }

    /// Gives up a file; the last one frees what hangs on it.
    pub(crate) fn let_go(&self, file: Arc<File>) {
        let Some(file) = Arc::into_inner(file) else {
            return;
        };
        match file.kind {
            Kind::Kgsl => {
                self.end_contexts(file.id);
                self.machine.enter().forget_counters(file.id);
                let left = lock(&self.files);
                let last = !left.values().any(|file| matches!(file.kind, Kind::Kgsl));
                drop(left);
                if last {
                    self.free_all();
                }
            }
            Kind::Render(render) => self.end_render(file.id, render.into_inner()),
            Kind::Dmabuf(object) => self.machine.enter().released(object, true),
            _ => {}
        }
        self.machine.scheduler.wake();
    }

    /// What a file gives from a place on.
    ///
    /// # Errors
    /// `EBADF`, `EISDIR`, `EINVAL` for what is not read.
    pub fn read(&self, fd: i32, offset: u64, out: &mut [u8]) -> Result<usize> {
        let file = self.file(fd)?;
        let text = match &file.kind {
            Kind::Text(text) => &text[..],
            Kind::Kgsl => READ.as_bytes(),
            Kind::Folder(_) => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        };
        let rest = usize::try_from(offset).ok().and_then(|at| text.get(at..));
        let rest = rest.unwrap_or_default();
        let bytes = rest.len().min(out.len());
        out[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }

    /// The names in a folder.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR`.
    pub fn list(&self, fd: i32) -> Result<Vec<String>> {
        match &self.file(fd)?.kind {
            Kind::Folder(names) => Ok(names.clone()),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Whether poll finds a file ready: a fence once it is signalled, never a device.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn ready(&self, fd: i32) -> Result<bool> {
        Ok(match &self.file(fd)?.kind {
            Kind::SyncFile(job) => !self.machine.enter().live.contains(job),
            Kind::Text(_) | Kind::Folder(_) => true,
            _ => false,
        })
    }

    /// Has somebody told whether poll finds a file ready: now, and once it does.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn watch(&self, fd: i32, watcher: Watcher) -> Result {
        let file = self.file(fd)?;
        let mut state = self.machine.enter();
        match &file.kind {
            Kind::SyncFile(job) if state.live.contains(job) => {
                watcher(false);
                state.watchers.push((*job, watcher));
            }
            Kind::SyncFile(_) | Kind::Text(_) | Kind::Folder(_) => watcher(true),
            _ => watcher(false),
        }
        drop(state);
        self.let_go(file);
        Ok(())
    }

    /// ioctl.
    ///
    /// # Errors
    /// `EBADF`, `ENOTTY` for a file that has none, and those of the kernel driver.
    pub fn ioctl(&self, fd: i32, request: u32, argument: u64) -> Result {
        let file = self.file(fd)?;
        let done = match &file.kind {
            Kind::Kgsl => self.kgsl_ioctl(&file, request, argument),
            Kind::Render(_) => self.msm_ioctl(&file, request, argument),
            _ => Err(Errno::ENOTTY),
        };
        self.let_go(file);
        done
    }

    /// mmap of a file; returns where.
    ///
    /// # Errors
    /// `EBADF`, `ENODEV` for what is not mapped, and those of the kernel driver.
    pub fn mmap(&self, wanted: Wanted, fd: i32, offset: u64) -> Result<u64> {
        self.machine.injector.call("mmap")?;
        let bytes = wanted.bytes.checked_next_multiple_of(PAGE);
        let bytes = bytes.filter(|&bytes| bytes > 0).ok_or(Errno::EINVAL)?;
        let wanted = Wanted { bytes, ..wanted };
        let file = self.file(fd)?;
        let done = self.map_file(&file, wanted, offset);
        match done {
            Ok((at, object, entry)) => {
                let of = Arc::new(Mapped {
                    object,
                    entry,
                    _file: file,
                });
                let mut maps = lock(&self.maps);
                let before = maps.cut(at, bytes);
                maps.0.insert(at, Map { bytes, of });
                drop(maps);
                self.unmapped(before);
                Ok(at)
            }
            Err(errno) => {
                self.let_go(file);
                self.fail(errno, || {
                    format!("mmap of {bytes:#x} bytes from {offset:#x}")
                })
            }
        }
    }

    fn map_file(
        &self,
        file: &File,
        wanted: Wanted,
        offset: u64,
    ) -> Result<(u64, Arc<Object>, Option<u32>)> {
        match &file.kind {
            Kind::Kgsl => {
                let (at, object, entry) = self.map_object(wanted, offset)?;
                Ok((at, object, Some(entry)))
            }
            Kind::Render(render) => {
                let (object, from) = lock(render).mapped(offset, wanted.bytes)?;
                let at = self.caller.map(wanted, object.seen(), from)?;
                Ok((at, object, None))
            }
            Kind::Dmabuf(object) => {
                let at = self.caller.map(wanted, object.seen(), offset)?;
                Ok((at, object.clone(), None))
            }
            _ => Err(Errno::ENODEV),
        }
    }

    /// munmap, of anything that the process has.
    ///
    /// # Errors
    /// As the system's.
    pub fn munmap(&self, at: u64, bytes: u64) -> Result {
        self.machine.injector.call("munmap")?;
        self.unmap(at, bytes)
    }

    fn unmap(&self, at: u64, bytes: u64) -> Result {
        let bytes = bytes.checked_next_multiple_of(PAGE);
        let bytes = bytes.filter(|&bytes| bytes > 0 && at.is_multiple_of(PAGE));
        let bytes = bytes.ok_or(Errno::EINVAL)?;
        self.caller.unmap(at, bytes)?;
        let gone = lock(&self.maps).cut(at, bytes);
        self.unmapped(gone);
        Ok(())
    }

    /// What was mapped is so no longer, at least in part.
    fn unmapped(&self, gone: Vec<Arc<Mapped>>) {
        for mapped in gone {
            // Parts of it may go on elsewhere.
            if let Some(mapped) = Arc::into_inner(mapped) {
                let Mapped {
                    object,
                    entry,
                    _file: file,
                } = mapped;
                drop(object);
                if let Some(entry) = entry {
                    self.unmapped_object(entry);
                }
                self.let_go(file);
            }
        }
    }

    /// Leaves what is mapped to whoever holds it: the addresses may be somebody else's by now.
    pub(crate) fn forget_mappings(&self) {
        let gone = lock(&self.maps).cut(0, u64::MAX);
        self.unmapped(gone);
    }

    /// Whether memory of the process is that of KGSL.
    pub(crate) fn is_kgsl(&self, at: u64, bytes: u64) -> bool {
        lock(&self.maps).has_kgsl(at, bytes)
    }

    /// Everything that the process has of the machine, as text.
    pub fn objects(&self) -> Vec<String> {
        let files = lock(&self.files);
        let mut left: Vec<String> = files
            .iter()
            .map(|(fd, file)| format!("file {}, descriptor {fd}", file.kind.name()))
            .collect();
        for file in files.values() {
            if let Kind::Render(render) = &file.kind {
                left.extend(lock(render).objects());
            }
        }
        let ids: Vec<u64> = files.values().map(|file| file.id).collect();
        drop(files);
        let maps = lock(&self.maps);
        left.extend(maps.0.iter().map(|(at, map)| {
            format!(
                "mapping of {:?}: {:#x} bytes at {at:#x}",
                map.of.object, map.bytes
            )
        }));
        drop(maps);
        let state = self.machine.enter();
        let contexts = state
            .contexts
            .iter()
            .filter(|(_, context)| ids.contains(&context.file));
        left.extend(contexts.map(|(id, _)| format!("context {id}")));
        let queues = state
            .queues
            .keys()
            .filter(|(file, id)| ids.contains(file) && *id > 0);
        left.extend(queues.map(|(_, id)| format!("queue {id}")));
        drop(state);
        left.extend(self.objects_of().text());
        left
    }

    /// Ends the process: what it has mapped and opened is gone.
    pub fn exit(&self) {
        let maps = lock(&self.maps);
        let all: Vec<(u64, u64)> = maps.0.iter().map(|(at, map)| (*at, map.bytes)).collect();
        drop(maps);
        for (at, bytes) in all {
            // It was there a moment ago; another thread may have taken it away.
            let _ = self.unmap(at, bytes);
        }
        loop {
            let Some((_, file)) = lock(&self.files).pop_first() else {
                return;
            };
            self.let_go(file);
        }
    }
}
