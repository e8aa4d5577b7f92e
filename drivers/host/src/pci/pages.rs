//! [`Pages`]: memory for a function that finds it by its physical addresses: huge pages, in a file that outlives every
//! process.
//!
//! A function keeps writing when its process is killed. Its memory must not be reused before it has stopped: it is in
//! a hugetlbfs file, which stays, with its pages, until the function's bus mastering is disabled ([`quiet`]): at a
//! regular exit, or by the next process to open the function.
//!
//! A page of hugetlbfs keeps its physical address. Reclaim and swapping leave it alone, compaction passes it over
//! (`isolate_migratepages_block`: compound pages, unless a range is to be allocated as one), balancing between nodes leaves
//! its mappings out (`task_numa_work`). It is moved on request only: memory is taken offline, a range of CMA that
//! it lies in is allocated, a page is taken offline as faulty, move_pages(2) and mbind(2) of this process.
//!
//! Source: Linux, Documentation/admin-guide/mm/hugetlbpage.rst and pagemap.rst; mm/compaction.c, kernel/sched/fair.c,
//! mm/hugetlb.c (`isolate_or_dissolve_huge_page`), fs/hugetlbfs/inode.c (`hugetlbfs_fallocate`).

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use hcq::addr::{BusAddr, BusRange, BusRanges, Domain};
use hcq::mem::tlsf::Tlsf;
use hcq::mem::view::View;
use hcq::sync::lock;
use hcq::transport::{Dma, Fault, TransportError};
use nix::fcntl::{FallocateFlags, fallocate};

use super::files::Files;
use super::left::{MOUNTS, in_use, let_go, mounts, name};
use super::quiet::{Config, quiet};
use super::{Lock, System};
use crate::devfile::{fault, refused};
use crate::mmap::HUGE_PAGE;
use crate::range::page_size;
use crate::reserve::of_file;

const HUGE: u64 = HUGE_PAGE as u64;
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
/// How many huge pages there are.
const NR: &str = "/proc/sys/vm/nr_hugepages";
/// The fix for a machine without huge pages.
const HOW: &str = "as root, run `echo 1024 > /proc/sys/vm/nr_hugepages` (2 GiB) and `mount -t hugetlbfs -o \
                   pagesize=2M none /dev/hugepages`; or enable an IOMMU (in the BIOS; Intel: intel_iommu=on) and use \
                   VFIO, which needs neither";

fn pool(files: &dyn Files, name: &str) -> u64 {
    let text = files.read(&format!("{POOL}/{name}"));
    text.ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// Why functions without IOMMU can be given no memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The details.
    pub seen: String,
    /// What to do.
    pub fix: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing { seen, fix } = self;
        write!(
            f,
            "{seen}; without an IOMMU, a card's memory must be in huge pages, which stay allocated if the program is \
             killed: {fix}"
        )
    }
}

/// How much memory functions without IOMMU can be given, in words.
///
/// # Errors
/// [`Missing`].
pub fn available(files: &dyn Files) -> Result<String, Missing> {
    let missing = |seen: String| Missing { seen, fix: HOW };
    let mounts = mounts(files);
    let Some(first) = mounts.first() else {
        let seen = "no hugetlbfs with 2 MiB pages mounted";
        return Err(missing(format!("{MOUNTS}: {seen}")));
    };
    match (pool(files, "nr_hugepages"), pool(files, "free_hugepages")) {
        (0, _) => Err(missing(format!("{POOL}/nr_hugepages is 0"))),
        (all, free) => Ok(format!(
            "{free} of {all} huge pages are free, under {first}"
        )),
    }
}

/// Source of the physical addresses of huge pages.
pub trait Frames: Send + Sync {
    /// The physical addresses of huge pages of a file, from an offset on. `view` is where they are mapped and there.
    ///
    /// # Errors
    /// [`Fault::Errno`] of what the system refused, and [`Fault::Unsupported`] where it does not say where memory is.
    fn places(&self, file: &File, offset: u64, view: &View) -> Result<Vec<u64>, Fault>;
}

/// The kernel, by what it says of this process.
struct Pagemap(System);

impl Frames for Pagemap {
    fn places(&self, _: &File, _: u64, view: &View) -> Result<Vec<u64>, Fault> {
        let pagemap = File::open(self.0.path("/proc/self/pagemap")).map_err(|e| fault(&e))?;
        let first = view.as_ptr().addr();
        let place = |at: usize| {
            let mut word = [0; 8];
            let offset = ((first + at) / page_size() * 8) as u64;
            pagemap
                .read_exact_at(&mut word, offset)
                .map_err(|e| fault(&e))?;
            place(u64::from_le_bytes(word), page_size() as u64)
        };
        (0..view.len()).step_by(HUGE_PAGE).map(place).collect()
    }
}

/// The physical address of a huge page, from the entry of its first page.
fn place(entry: u64, page: u64) -> Result<u64, Fault> {
    /// Bits 54:0: the number of the frame, if the page is in memory.
    const FRAME: u64 = (1 << 55) - 1;
    /// Bit 63: the page is in memory.
    const PRESENT: u64 = 1 << 63;
    let unsupported = |why: &str| Err(Fault::Unsupported(why.into()));
    let at = (entry & FRAME) * page;
    match entry & PRESENT != 0 {
        false => unsupported("a huge page just written is not in memory"),
        true if at == 0 => {
            unsupported("the kernel hides physical addresses: run as root or with CAP_SYS_ADMIN")
        }
        true if !at.is_multiple_of(HUGE) => unsupported("not a huge page file"),
        true => Ok(at),
    }
}

/// Memory of a function, by physical addresses, in a file that the first allocation creates.
pub(super) struct HugePages {
    system: System,
    address: String,
    config: Arc<dyn Config>,
    made: Mutex<Option<Arc<Pages>>>,
    lock: Arc<Lock>,
}

impl HugePages {
    /// For a function that no other program drives while the lock lives.
    pub(super) fn new(
        system: &System,
        address: &str,
        config: Arc<dyn Config>,
        lock: Arc<Lock>,
    ) -> HugePages {
        HugePages {
            system: system.clone(),
            address: address.into(),
            config,
            made: Mutex::default(),
            lock,
        }
    }

    /// Memory, as [`Pages::dma`] gives it. `operation` is what is done, for messages.
    ///
    /// # Errors
    /// Those of [`Pages::new`] and [`Pages::dma`].
    pub(super) fn dma(
        &self,
        operation: &str,
        bytes: u64,
        align: u64,
    ) -> Result<Dma, TransportError> {
        self.pages()?.dma(bytes, align).map_err(|fault| {
            let operation = format!("{operation}: in huge pages ({NR})");
            TransportError::new(&*self.address, operation, fault)
        })
    }

    fn pages(&self) -> Result<Arc<Pages>, TransportError> {
        // Set at once.
        let mut made = lock(&self.made);
        if let Some(pages) = &*made {
            return Ok(pages.clone());
        }
        let frames = Box::new(Pagemap(self.system.clone()));
        let config = self.config.clone();
        let pages = Pages::new(&self.system, &self.address, config, frames, &self.lock)?;
        Ok(made.insert(pages).clone())
    }
}

/// Huge pages of a function, in its file.
pub struct Pages {
    address: String,
    path: PathBuf,
    file: File,
    frames: Box<dyn Frames>,
    config: Arc<dyn Config>,
    /// The capacity of the file; the part beyond its end must not be accessed.
    view: View,
    state: Mutex<State>,
    /// The process that created it: a forked child frees nothing.
    generation: u32,
    _lock: Arc<Lock>,
}

struct State {
    /// Which bytes of the file are given.
    free: Tlsf,
    /// The physical addresses of the file's huge pages.
    places: Vec<u64>,
}

impl Pages {
    /// Creates the file of a function that no other program drives while the lock lives.
    ///
    /// # Errors
    /// No hugetlbfs, no huge pages, a file that is refused; a function that does not stop.
    pub fn new(
        system: &System,
        address: &str,
        config: Arc<dyn Config>,
        frames: Box<dyn Frames>,
        lock: &Arc<Lock>,
    ) -> Result<Arc<Pages>, TransportError> {
        let failed = |fault| TransportError::new(address, "memory in huge pages", fault);
        available(system).map_err(|why| failed(Fault::Unsupported(why.to_string())))?;
        let_go(system, address, &*config)?;
        let all = pool(system, "nr_hugepages") + pool(system, "nr_overcommit_hugepages");
        let bytes = all.saturating_mul(HUGE);
        let (path, file) = create(system, address)?;
        let made = usize::try_from(bytes).map_err(|_| Fault::Errno(libc::ENOMEM));
        let sized = file.set_len(bytes).map_err(|error| fault(&error));
        let made = sized.and(made).and_then(|len| of_file(&file, len));
        let free = Tlsf::new(0, bytes, page_size() as u64);
        let free = free.map_err(|error| Fault::Unsupported(error.to_string()));
        let both = made.and_then(|view| Ok((view, free?)));
        let (view, free) = both.map_err(|fault| {
            // No function has its address.
            _ = std::fs::remove_file(&path);
            failed(fault)
        })?;
        Ok(Arc::new(Pages {
            address: address.into(),
            path,
            file,
            frames,
            config,
            view,
            state: Mutex::new(State {
                free,
                places: Vec::new(),
            }),
            generation: hcq::process_generation(),
            _lock: lock.clone(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A partial allocation is not handed out.
        lock(&self.state)
    }

    /// Zeroed memory; each of its ranges starts at a multiple of `align`, at most that of a huge page.
    ///
    /// # Errors
    /// [`Fault::Errno`]: ENOMEM where no huge page is free; as [`Frames::places`].
    pub fn dma(self: &Arc<Self>, bytes: u64, align: u64) -> Result<Dma, Fault> {
        let mut state = self.lock();
        let full = |_| Fault::Errno(libc::ENOMEM);
        let at = state.free.alloc(bytes, align).map_err(full)?;
        let len = state.free.size_of(at).unwrap_or(bytes);
        let given = Given {
            pages: self.clone(),
            at,
        };
        let had = state.places.len() as u64 * HUGE;
        let grown = self.grow(&mut state, at + len);
        let ranges = grown.map(|()| ranges(&state.places, at, len));
        drop(state);
        // From here on `given` frees it.
        let ranges = ranges?;
        let view = self.view.sub(at as usize, len as usize);
        let view = view.map_err(Fault::View)?;
        if at < had {
            view.fill(0, view.len(), 0).map_err(Fault::View)?;
        }
        Ok(Dma {
            view: view.with_guard(given),
            ranges: BusRanges::new(Domain::BUS, ranges),
        })
    }

    /// Grows the file to at least that many bytes.
    fn grow(&self, state: &mut State, bytes: u64) -> Result<(), Fault> {
        let had = state.places.len() as u64 * HUGE;
        let more = bytes.next_multiple_of(HUGE).saturating_sub(had);
        if more == 0 {
            return Ok(());
        }
        // A page that is not in the file when it is touched ends the process.
        let made = fallocate(&self.file, FallocateFlags::empty(), had as i64, more as i64);
        made.map_err(|errno| match errno as i32 {
            libc::ENOSPC => Fault::Errno(libc::ENOMEM),
            errno => Fault::Errno(errno),
        })?;
        let view = self.view.sub(had as usize, more as usize);
        let view = view.map_err(Fault::View)?;
        for at in (0..view.len()).step_by(HUGE_PAGE) {
            view.write(at, 0u64).map_err(Fault::View)?;
        }
        let places = self.frames.places(&self.file, had, &view)?;
        state.places.extend(places);
        Ok(())
    }
}

/// The ranges that a part of the file makes, whose huge pages lie there.
fn ranges(places: &[u64], at: u64, bytes: u64) -> Vec<BusRange> {
    let mut ranges: Vec<BusRange> = Vec::new();
    let end = at + bytes;
    let mut at = at;
    while at < end {
        let (page, inside) = (at / HUGE, at % HUGE);
        let bytes = (HUGE - inside).min(end - at);
        let Some(place) = places.get(page as usize) else {
            break;
        };
        let addr = BusAddr(place + inside);
        match ranges.last_mut() {
            Some(last) if last.addr.0 + last.bytes == addr.0 => last.bytes += bytes,
            _ => ranges.push(BusRange { addr, bytes }),
        }
        at += bytes;
    }
    ranges
}

/// Makes the file, where the first hugetlbfs lets it.
fn create(system: &System, address: &str) -> Result<(PathBuf, File), TransportError> {
    let mut last = None;
    for mount in mounts(system) {
        let path = system.path(&mount).join(name(address));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        match options.custom_flags(libc::O_CLOEXEC).open(&path) {
            Ok(file) => {
                in_use(&file).map_err(|error| {
                    _ = std::fs::remove_file(&path);
                    named(&path, &error)
                })?;
                return Ok((path, file));
            }
            Err(error) => last = Some(named(&path, &error)),
        }
    }
    Err(last.unwrap_or_else(|| named(Path::new(MOUNTS), &ErrorKind::NotFound.into())))
}

fn named(path: &Path, error: &io::Error) -> TransportError {
    refused(&path.to_string_lossy(), "create", error)
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.generation != hcq::process_generation() {
            return;
        }
        let quiet = quiet(&self.address, &*self.config);
        let removed = quiet.and_then(|()| {
            let removed = std::fs::remove_file(&self.path);
            removed.map_err(|error| refused(&self.path.to_string_lossy(), "remove", &error))
        });
        if let Err(error) = removed {
            tracing::warn!(target: "hcq::host", %error, "could not free memory; it stays until the next open");
        }
    }
}

/// A part of the file, until this is dropped.
struct Given {
    pages: Arc<Pages>,
    at: u64,
}

impl Drop for Given {
    fn drop(&mut self) {
        // Only allocated ranges are freed.
        _ = self.pages.lock().free.free(self.at);
    }
}

#[cfg(test)]
#[path = "pages/tests.rs"]
mod tests;
