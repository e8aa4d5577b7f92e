//! Descriptors: open, close, read, readdir.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use drivers_spec::amd::kfd::Alloc;
use hcq::sync::lock;

use crate::mem::{Object, Vm};

use super::Process;
use super::errno::{Errno, Result};
use super::gauges::PROCESSES;
use super::space::Space;
use super::tree::{Live, Node, Own};

/// The first descriptor: far from those of the system.
pub const FIRST_FD: i32 = 1 << 30;

/// An open file.
pub struct File {
    /// Tells files apart, also those of the same path.
    pub id: u64,
    pub path: String,
    pub kind: Kind,
}

/// What is open.
pub enum Kind {
    /// `/dev/kfd`.
    Kfd,
    /// A render node.
    Render(Render),
    /// Text of sysfs.
    Text(Vec<u8>),
    /// Text that changes.
    Live(Live),
    /// The names in a folder.
    Folder(Vec<String>),
    /// Memory that another driver or process may import.
    Dmabuf(Dmabuf),
    /// Events of the system management interface: none ever come.
    Smi,
}

/// An open render node: a DRM client, with an address space.
pub struct Render {
    pub gpu: usize,
    pub space: Arc<Space>,
    /// GEM handles.
    pub gems: Mutex<BTreeMap<u32, Gem>>,
}

/// Memory with a GEM handle.
#[derive(Clone)]
pub struct Gem {
    pub object: Arc<Object>,
    /// Where the render node is mapped for it.
    pub offset: u64,
}

/// Memory that was exported.
#[derive(Clone)]
pub struct Dmabuf {
    pub gpu: usize,
    pub object: Arc<Object>,
    pub flags: Alloc,
    pub offset: u64,
}

/// The descriptors of a process.
#[derive(Default)]
pub struct Files(BTreeMap<i32, Arc<File>>);

impl Files {
    /// The paths of what is open.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|file| file.path.as_str())
    }
}

impl Process {
    pub(super) fn file(&self, fd: i32) -> Result<Arc<File>> {
        lock(&self.files).0.get(&fd).cloned().ok_or(Errno::EBADF)
    }

    /// A new descriptor: that one, or the smallest that is free.
    pub(super) fn install_as(&self, path: &str, kind: Kind, wanted: Option<i32>) -> Result<i32> {
        let file = File {
            id: self.machine.next_file.fetch_add(1, Ordering::Relaxed),
            path: path.into(),
            kind,
        };
        self.give(Arc::new(file), wanted)
    }

    fn give(&self, file: Arc<File>, wanted: Option<i32>) -> Result<i32> {
        let mut files = lock(&self.files);
        let free = || (FIRST_FD..).find(|fd| !files.0.contains_key(fd));
        let fd = wanted.or_else(free).ok_or(Errno::EMFILE)?;
        files.0.insert(fd, file);
        Ok(fd)
    }

    /// Whether the machine has a file of that name.
    pub fn exists(&self, path: &str) -> bool {
        self.node(path).is_some() && self.refused(path) != Some(Errno::ENOENT)
    }

    /// What a path is, and the names in it.
    fn node(&self, path: &str) -> Option<(Node, Vec<String>)> {
        let resolved = self.machine.tree.resolve(path)?;
        let live;
        let tree = match resolved.starts_with(PROCESSES) {
            true => {
                live = self.machine.process_files();
                &live
            }
            false => &self.machine.tree,
        };
        let node = tree.find(path.starts_with('/').then_some(&*resolved)?)?;
        Some((node.clone(), tree.list(&resolved)))
    }

    /// What the config says is wrong with a path.
    fn refused(&self, path: &str) -> Option<Errno> {
        self.machine
            .injector
            .path(&self.machine.tree.resolve(path)?)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `EISDIR`, `EACCES`: as the system.
    pub fn open(&self, path: &str, flags: i32) -> Result<i32> {
        self.open_as(path, flags, None)
    }

    /// The same, as the descriptor that is wanted.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_as(&self, path: &str, flags: i32, wanted: Option<i32>) -> Result<i32> {
        self.machine.injector.open()?;
        let machine = &self.machine;
        let (node, names) = self.node(path).ok_or(Errno::ENOENT)?;
        if let Some(errno) = self.refused(path)
            && (errno == Errno::ENOENT || matches!(node, Node::Own(Own::Kfd | Own::Render(_))))
        {
            return Err(errno);
        }
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        if flags & libc::O_DIRECTORY != 0 && node != Node::Folder {
            return Err(Errno::ENOTDIR);
        }
        let kind = match node {
            Node::Folder if writes => return Err(Errno::EISDIR),
            Node::Text(_) | Node::Own(Own::Live(_)) if writes => return Err(Errno::EACCES),
            Node::Folder => Kind::Folder(names),
            Node::Text(text) => Kind::Text(text),
            Node::Own(Own::Live(live)) => Kind::Live(live),
            Node::Link(_) => return Err(Errno::ENOENT),
            Node::Own(Own::Kfd) => {
                let gpus = machine.nodes.len();
                if gpus > 0 && (0..gpus).all(|gpu| machine.gone(gpu)) {
                    return self.fail(Errno::ENODEV, || {
                        format!("open of {path}: every GPU has gone")
                    });
                }
                Kind::Kfd
            }
            Node::Own(Own::Render(gpu)) => {
                if machine.gone(gpu) {
                    return self.fail(Errno::ENODEV, || {
                        format!("open of {path}: the GPU has gone")
                    });
                }
                Kind::Render(Render {
                    gpu,
                    space: Space::new(Vm::new(machine.nodes[gpu].gmc.clone())),
                    gems: Mutex::default(),
                })
            }
        };
        let fd = self.install_as(path, kind, wanted)?;
        self.note(|| format!("open {path} = {fd}"));
        Ok(fd)
    }

    /// Another descriptor of the same file.
    ///
    /// # Errors
    /// `EBADF`, `EMFILE`.
    pub fn dup(&self, fd: i32) -> Result<i32> {
        self.dup_as(fd, None)
    }

    /// The same, as the descriptor that is wanted.
    ///
    /// # Errors
    /// `EBADF`, `EMFILE`.
    pub fn dup_as(&self, fd: i32, wanted: Option<i32>) -> Result<i32> {
        let file = self.file(fd)?;
        self.give(file, wanted)
    }

    /// Closes a descriptor. What it stands for lives on while something uses it.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn close(&self, fd: i32) -> Result {
        lock(&self.files)
            .0
            .remove(&fd)
            .map(drop)
            .ok_or(Errno::EBADF)
    }

    /// Reads at an offset; returns how much.
    ///
    /// # Errors
    /// `EBADF`, `EISDIR`, `EINVAL`: a device; `EAGAIN`: no event.
    pub fn read(&self, fd: i32, offset: u64, out: &mut [u8]) -> Result<usize> {
        let file = self.file(fd)?;
        let live;
        let text = match &file.kind {
            Kind::Text(_) | Kind::Live(_) if self.refused(&file.path).is_some() => {
                return Err(self.refused(&file.path).unwrap_or(Errno::EPERM));
            }
            Kind::Text(text) => text,
            Kind::Live(which) => {
                let used = match *which {
                    Live::VramUsed(gpu) => {
                        self.machine.config.vram - self.machine.nodes[gpu].gmc.vram.available()
                    }
                    Live::GttUsed => self.machine.config.gtt - self.machine.system.available(),
                    Live::Sensor(gpu, sensor) => self.machine.sensor(gpu, sensor),
                };
                live = format!("{used}\n").into_bytes();
                &live
            }
            Kind::Folder(_) => return Err(Errno::EISDIR),
            Kind::Smi => return Err(Errno::EAGAIN),
            Kind::Kfd | Kind::Render(_) | Kind::Dmabuf(_) => return Err(Errno::EINVAL),
        };
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(text.len());
        let bytes = out.len().min(text.len() - start);
        out[..bytes].copy_from_slice(&text[start..start + bytes]);
        Ok(bytes)
    }

    /// Whether poll finds a file ready: files without a poll of their own always are.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn ready(&self, fd: i32) -> Result<bool> {
        Ok(!matches!(self.file(fd)?.kind, Kind::Smi))
    }

    /// The names in a folder.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR`.
    pub fn readdir(&self, fd: i32) -> Result<Vec<String>> {
        match &self.file(fd)?.kind {
            Kind::Folder(names) => Ok(names.clone()),
            _ => Err(Errno::ENOTDIR),
        }
    }
}
