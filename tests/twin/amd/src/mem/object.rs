//! Memory objects: what the kernel driver allocates and what page tables point to.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use hcq::sync::lock;

use super::Mapping;
use super::cache::State;
use super::frame::Frame;
use super::gmc::{Budget, Gmc};

/// Where an object lives.
#[derive(Clone)]
pub enum Kind {
    /// VRAM of the GPU that it was allocated on.
    Vram {
        /// Whether the host can map it, through the BAR.
        public: bool,
    },
    /// System memory of the driver (GTT).
    Gtt,
    /// The client's own memory.
    Userptr {
        /// Where.
        address: u64,
        /// It.
        pages: Arc<Mapping>,
    },
    /// A page of doorbells.
    Doorbell(Arc<Mapping>),
    /// The page with the register that flushes the HDP.
    MmioRemap,
}

/// A memory object. It stays alive as long as anything uses it; its budget is given back when the
/// last user has gone.
pub struct Object {
    /// Tells objects apart.
    pub id: u64,
    /// Where it lives.
    pub kind: Kind,
    /// The GPU that it was allocated on.
    pub home: Arc<Gmc>,
    /// Its bytes, whole pages.
    pub bytes: u64,
    /// What reports call it.
    pub name: String,
    memory: Arc<Mapping>,
    /// What the client sees of VRAM, through the BAR.
    bar: Option<Mapping>,
    budget: Option<Arc<Budget>>,
    /// Of VRAM that the host writes by calls, and maps nowhere: the pages that it has written since the HDP
    /// was flushed.
    called: Option<Mutex<BTreeSet<u64>>>,
    /// Pages of which more is known than their bytes.
    states: Mutex<HashMap<u64, State>>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Object {
    /// Allocates. `system` is what GTT and userptr objects count against.
    ///
    /// # Errors
    /// An errno: `EINVAL` for a size of nothing, `ENOMEM` where there is not enough, `EFAULT` where the
    /// client's memory is not mapped.
    pub fn new(
        home: &Arc<Gmc>,
        system: &Arc<Budget>,
        kind: Kind,
        bytes: u64,
        name: &str,
    ) -> Result<Arc<Self>, i32> {
        let bytes = bytes
            .checked_next_multiple_of(twin_shader::page::PAGE)
            .filter(|&bytes| bytes > 0)
            .ok_or(libc::EINVAL)?;
        let budget = match kind {
            Kind::Vram { .. } => Some(&home.vram),
            Kind::Gtt | Kind::Userptr { .. } => Some(system),
            Kind::Doorbell(_) | Kind::MmioRemap => None,
        };
        if budget.is_some_and(|budget| !budget.take(bytes)) {
            return Err(libc::ENOMEM);
        }
        let backing = || -> Result<_, i32> {
            let memory = match &kind {
                Kind::Vram { .. } | Kind::Gtt => Arc::new(Mapping::new(bytes)?),
                Kind::Userptr { pages, .. } | Kind::Doorbell(pages) => pages.clone(),
                Kind::MmioRemap => home.remap.clone(),
            };
            let bar = match kind {
                Kind::Vram { public: true } => Some(Mapping::new(bytes)?),
                _ => None,
            };
            Ok((memory, bar))
        };
        let (memory, bar) = backing().inspect_err(|_| {
            if let Some(budget) = budget {
                budget.give(bytes);
            }
        })?;
        let object = Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            budget: budget.cloned(),
            bytes: bytes.min(memory.bytes()),
            kind,
            home: home.clone(),
            name: name.into(),
            memory,
            bar,
            called: None,
            states: Mutex::default(),
        });
        if object.bar.is_some() {
            home.publish(&object);
        }
        Ok(object)
    }

    /// All VRAM of a card, which the host reaches by calls.
    ///
    /// # Errors
    /// An errno: the host has no memory left.
    pub(crate) fn card(home: &Arc<Gmc>, bytes: u64) -> Result<Arc<Self>, i32> {
        let object = Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            kind: Kind::Vram { public: true },
            home: home.clone(),
            bytes,
            name: "the card".into(),
            memory: Arc::new(Mapping::new(bytes)?),
            bar: Some(Mapping::new(bytes)?),
            budget: None,
            called: Some(Mutex::default()),
            states: Mutex::default(),
        });
        home.publish(&object);
        Ok(object)
    }

    /// Whether the host can look at it.
    pub fn host_visible(&self) -> bool {
        !matches!(self.kind, Kind::Vram { public: false })
    }

    /// What the client maps, with the rights that it may have: of VRAM that is not public none, so that a
    /// touch by the client is seen.
    pub fn seen(&self, protection: i32) -> (&Mapping, i32) {
        let protection = if self.host_visible() {
            protection
        } else {
            libc::PROT_NONE
        };
        (self.bar.as_ref().unwrap_or(&self.memory), protection)
    }

    /// The page of that number, where it is still there.
    pub(crate) fn frame(&self, page: u64) -> Option<Frame<'_>> {
        self.memory.frame(page).filter(|_| self.memory.alive(page))
    }

    /// What the client sees of a page of VRAM that it may map.
    pub(crate) fn bar(&self, page: u64) -> Option<Frame<'_>> {
        self.bar.as_ref()?.frame(page)
    }

    /// Whether it is VRAM that the client may map.
    pub(crate) fn public(&self) -> bool {
        self.bar.is_some()
    }

    /// The pages that the client may have written through the BAR, as first and end.
    pub(crate) fn touched(&self) -> Vec<(u64, u64)> {
        match &self.called {
            Some(called) => {
                let pages = std::mem::take(&mut *lock(called));
                pages.into_iter().map(|page| (page, page + 1)).collect()
            }
            None => self.bar.as_ref().map_or_else(Vec::new, Mapping::touched),
        }
    }

    /// The host has written to a page by a call.
    pub(crate) fn called(&self, page: u64) {
        if let Some(called) = &self.called {
            lock(called).insert(page);
        }
    }

    /// What it holds is gone. While waves run, what caches have of it stays: they may be at it.
    pub(crate) fn lose(&self) {
        if self.home.idle() {
            self.states().clear();
        }
        self.states().values_mut().for_each(State::lose);
        if let Some(called) = &self.called {
            lock(called).clear();
        }
        self.memory.clear();
        if let Some(bar) = &self.bar {
            bar.clear();
        }
    }

    /// Whether others have its memory than so many who ask, of memory that is another's.
    pub(crate) fn is_shared(&self, who_ask: usize) -> bool {
        // The object has it by its kind, too.
        Arc::strong_count(&self.memory) > 2 + who_ask
    }

    /// Whether caches may hold it.
    pub(crate) fn cacheable(&self) -> bool {
        !matches!(self.kind, Kind::Doorbell(_) | Kind::MmioRemap)
    }

    pub(crate) fn states(&self) -> MutexGuard<'_, HashMap<u64, State>> {
        lock(&self.states)
    }

    /// A page of it as reports call it.
    pub(crate) fn describe(&self, page: u64) -> String {
        let kind = match self.kind {
            Kind::Vram { public: true } => "public VRAM",
            Kind::Vram { public: false } => "VRAM",
            Kind::Gtt => "GTT memory",
            Kind::Userptr { .. } => "userptr memory",
            Kind::Doorbell(_) => "doorbells",
            Kind::MmioRemap => "MMIO",
        };
        let Self { name, home, .. } = self;
        format!("page {page} of {name} ({kind}, GPU {})", home.index)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.give(self.bytes);
        }
    }
}
