//! The model of the kernel, as what makes system calls.

// Each test file uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_host::pci::vfio::calls::{Argument, Calls};
use hcq::mem::view::View;
use hcq::transport::Map;
use twin::errno::Errno;
use twin::vfio::Kernel;

/// System calls of a program; the n-th of them fails.
pub struct Model {
    kernel: Arc<Kernel>,
    open: Mutex<BTreeSet<i32>>,
    made: AtomicUsize,
    fails: Option<usize>,
    /// Before which call the process is killed.
    killed: Option<usize>,
    is_dead: AtomicBool,
    /// What requests to map memory end with, if not as they should.
    pub full: Mutex<Option<Errno>>,
}

fn error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.0)
}

impl Model {
    pub fn new(kernel: &Arc<Kernel>, fails: Option<usize>) -> Arc<Model> {
        Model::of(kernel, fails, None)
    }

    /// A program that is killed before its n-th call: what it does from then on reaches nobody.
    pub fn killed(kernel: &Arc<Kernel>, n: usize) -> Arc<Model> {
        Model::of(kernel, None, Some(n))
    }

    fn of(kernel: &Arc<Kernel>, fails: Option<usize>, killed: Option<usize>) -> Arc<Model> {
        Arc::new(Model {
            kernel: kernel.clone(),
            open: Mutex::default(),
            made: AtomicUsize::new(0),
            fails,
            killed,
            is_dead: AtomicBool::new(false),
            full: Mutex::default(),
        })
    }

    /// Whether it was killed.
    pub fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }

    /// How many calls were made.
    pub fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }

    /// How many descriptors are open.
    pub fn open(&self) -> usize {
        self.open.lock().unwrap().len()
    }

    /// The process dies: the kernel closes what it has.
    pub fn dies(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
        let open = std::mem::take(&mut *self.open.lock().unwrap());
        open.into_iter()
            .for_each(|fd| self.kernel.close(fd).unwrap());
    }

    fn make<T>(&self, call: impl FnOnce(&Kernel) -> twin::errno::Result<T>) -> io::Result<T> {
        let n = self.made.fetch_add(1, Ordering::SeqCst);
        if self.killed == Some(n) {
            self.dies();
        }
        if self.is_dead() {
            return Err(error(Errno::EIO));
        }
        if self.fails == Some(n) {
            return Err(error(Errno::EPERM));
        }
        call(&self.kernel).map_err(error)
    }

    fn given(&self, fd: i32) -> i32 {
        self.open.lock().unwrap().insert(fd);
        fd
    }
}

impl Calls for Model {
    fn open(&self, path: &str) -> io::Result<i32> {
        Ok(self.given(self.make(|kernel| kernel.open(path))?))
    }
    fn close(&self, fd: i32) {
        let is_open = self.open.lock().unwrap().remove(&fd);
        // The kernel has closed what a process had that is dead.
        if !self.is_dead() {
            assert!(is_open, "closed twice");
            self.kernel.close(fd).unwrap();
        }
    }
    unsafe fn ioctl(&self, fd: i32, request: u32, argument: Argument<'_>) -> io::Result<i32> {
        let argument = match argument {
            Argument::Value(value) => value.into(),
            Argument::Bytes(bytes) => bytes.as_mut_ptr() as u64,
        };
        // IOMMU_MAP_DMA.
        if let (0x3b71, Some(errno)) = (request, *self.full.lock().unwrap()) {
            return Err(error(errno));
        }
        let done = self.make(|kernel| kernel.ioctl(fd, request, argument))?;
        // GROUP_GET_DEVICE_FD.
        Ok(if request == 0x3b6a {
            self.given(done)
        } else {
            done
        })
    }
    fn read_at(&self, fd: i32, to: &mut [u8], offset: u64) -> io::Result<usize> {
        self.make(|kernel| kernel.read_at(fd, to, offset))
    }
    fn write_at(&self, fd: i32, from: &[u8], offset: u64) -> io::Result<usize> {
        self.make(|kernel| kernel.write_at(fd, from, offset))
    }
    fn map(&self, fd: i32, map: Map) -> io::Result<View> {
        self.make(|kernel| kernel.map(fd, map))
    }
    fn event(&self) -> io::Result<i32> {
        Ok(self.given(self.make(|kernel| Ok(kernel.event()))?))
    }
    fn wait(&self, fd: i32, limit: Duration) -> io::Result<Option<u64>> {
        self.make(|kernel| kernel.wait(fd, limit))
    }
}

/// Puts the files into a folder by which a system tells of a function in group 12.
pub fn system(folder: &Path, address: &str, no_iommu: bool) {
    system_of(folder, &[(12, address)], no_iommu);
}

/// The same of several functions, each in a group of its own.
pub fn system_of(folder: &Path, functions: &[(u32, &str)], no_iommu: bool) {
    let put = |path: &str, text: &str| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for (group, address) in functions {
        let group = format!("sys/kernel/iommu_groups/{group}");
        put(&format!("{group}/devices/{address}/x"), "");
        put(&format!("{group}/type"), "DMA-FQ\n");
        if no_iommu {
            put(&format!("{group}/name"), "vfio-noiommu\n");
        }
    }
    std::fs::create_dir_all(folder.join("run/lock")).unwrap();
    std::fs::create_dir_all(folder.join("proc/self")).unwrap();
    let pagemap = folder.join("proc/self/pagemap");
    std::os::unix::fs::symlink("/proc/self/pagemap", pagemap).unwrap();
}
