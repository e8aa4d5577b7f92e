//! The memory side of a GPU: how much VRAM it has, the state of its caches, its HDP.
//!
//! A GPU of several XCCs has the caches of each: the first XCC's [`Gmc`] is that of the GPU as well.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use hcq::sync::lock;
use twin::rule::{Journal, Rule};
use twin_shader::isa::Gen;
use twin_shader::memory::gws::Gws;

use super::Caches;
use super::Mapping;
use super::cache::{At, State};
use super::frame::{Copy, Frame};
use super::guess::Guesses;
use super::object::Object;
use super::rules;
use super::table::Mtype;

/// A cache of a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cache {
    /// L0 of all CUs, and GL1.
    Vector,
    /// The scalar cache.
    Scalar,
    /// The instruction cache.
    Inst,
    /// GL2.
    Gl2,
}

impl Cache {
    /// Runs of 64 bytes as whole lines: 64 bytes in the scalar cache, 128 in the vector caches and GL2.
    /// Instructions are fetched ahead, by how far is not known: a page counts as one line.
    ///
    /// Source: Linux, amdkfd/kfd_crat.c, cache_line_size; ROCm, MI300 documentation: 128 bytes in TCP and L2.
    pub(crate) fn lines(self, runs: u64) -> u64 {
        match self {
            Self::Scalar => runs,
            Self::Vector | Self::Gl2 => {
                let pairs = (runs | runs >> 1) & 0x5555_5555_5555_5555;
                pairs | pairs << 1
            }
            Self::Inst => u64::from(runs != 0).wrapping_neg(),
        }
    }
}

/// The caches in front of GL2.
pub(crate) const SMALL: [Cache; 3] = [Cache::Vector, Cache::Scalar, Cache::Inst];

/// How many copies of pages are kept for later: 64 MiB.
const SPARE: usize = 1 << 14;

/// A page of an object that may have gone.
type PageOf = (Weak<Object>, u64);

/// An amount of memory that can run out.
pub struct Budget {
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    /// `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            used: AtomicU64::new(0),
        }
    }

    /// What is left.
    pub fn available(&self) -> u64 {
        self.limit - self.used.load(Ordering::Relaxed)
    }

    /// Takes some, or says that there is not enough.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|&used| used <= self.limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Gives some back.
    pub(crate) fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// When bytes that the host writes to VRAM through the BAR become memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drain {
    /// At a flush of the HDP only.
    Never,
    /// When a doorbell is rung, too: the client may have read back before what it wrote, which drains the
    /// HDP and which nobody sees.
    Doorbell,
    /// Also at times chosen by this seed, as hardware may.
    Random(u64),
}

/// The launches of a GPU.
#[derive(Default)]
struct Launches {
    /// How many run.
    running: usize,
    /// How many have begun.
    begun: u64,
    /// Objects that were unmapped while launches ran: their pages may still be in use.
    leaving: Vec<Arc<Object>>,
    /// Copies whose masks may still be in use.
    copies: Vec<Copy>,
}

/// The memory side of a GPU (AMD calls the block GMC), or of one XCC of it.
pub struct Gmc {
    /// The number of the GPU; of a later XCC one that nothing else has.
    pub index: usize,
    /// Counters that waves of all workgroups share.
    pub(super) gws: Gws,
    /// The other XCCs, where this is the first of several.
    others: Vec<Arc<Gmc>>,
    /// There are several XCCs, each with a GL2 of its own.
    several: bool,
    /// Its VRAM.
    pub vram: Arc<Budget>,
    /// Where broken rules are reported.
    pub journal: Arc<Journal>,
    /// The page with the register that flushes the HDP, which clients map (`MMIO_REMAP`).
    pub remap: Arc<Mapping>,
    /// Held while the HDP is flushed because that register was written; how many hold it or wait.
    pub(super) flushing: (Mutex<()>, AtomicU32),
    /// GFX10 and GFX11 have GL1 between L0 or the scalar cache and GL2.
    gl1: bool,
    /// GFX12: the scope of an access decides whether it goes past GL2.
    scopes: bool,
    /// Changes when pages that were handed out must be asked for again.
    epoch: AtomicU64,
    /// By [`Cache`]: goes up with each invalidate.
    generations: [AtomicU64; 4],
    /// By [`Cache`]: the last generation in which it held something old.
    stale: [AtomicU64; 3],
    /// Counts the stretches of time in which launches run.
    stretch: Arc<AtomicU64>,
    launches: Arc<Mutex<Launches>>,
    /// Pages that GL2 has dirty, or of which memory differs from it.
    dirty: Mutex<Vec<PageOf>>,
    /// Pages that were written uncached and that the BAR does not show yet.
    unmirrored: Mutex<Vec<PageOf>>,
    /// VRAM that clients may map.
    public: Mutex<Vec<Weak<Object>>>,
    /// Rules and objects that have been reported since caches were last acted on.
    reported: Mutex<HashSet<(&'static str, u64)>>,
    /// What waves that run have read stale, by rule and object: the lowest address, which is the same
    /// whichever thread comes first.
    late: Mutex<BTreeMap<(&'static str, u64), Late>>,
    /// Scalar loads of waves that run, which may have been guesses.
    pub(super) guesses: Guesses,
    /// Copies of pages that are free to use.
    spare: Mutex<Vec<Copy>>,
    drain: Option<AtomicU64>,
    /// Counts doorbells, where the HDP drains at them; 0 where it does not.
    rung: AtomicU64,
}

/// An address that was read stale, the rule that this breaks, and how it is told.
type Late = (u64, &'static Rule, String);

impl Gmc {
    /// The memory side of GPU `index` with `vram` bytes.
    ///
    /// # Errors
    /// An errno: the host has no memory left.
    pub fn new(
        index: usize,
        generation: Gen,
        vram: u64,
        drain: Drain,
        journal: Arc<Journal>,
    ) -> Result<Arc<Self>, i32> {
        Self::with_xccs(1, index, generation, vram, drain, journal)
    }

    /// The memory side of a GPU of so many XCCs, each with caches of its own.
    ///
    /// # Errors
    /// As [`Gmc::new`].
    pub fn with_xccs(
        xccs: u32,
        index: usize,
        generation: Gen,
        vram: u64,
        drain: Drain,
        journal: Arc<Journal>,
    ) -> Result<Arc<Self>, i32> {
        let mut first = Self::one(index, generation, vram, drain, journal.clone())?;
        first.several = xccs > 1;
        for xcc in 1..xccs as usize {
            let number = index | xcc << 16;
            let other = Self::one(number, generation, vram, drain, journal.clone())?;
            first.others.push(Arc::new(Self {
                several: true,
                vram: first.vram.clone(),
                remap: first.remap.clone(),
                stretch: first.stretch.clone(),
                launches: first.launches.clone(),
                ..other
            }));
        }
        Ok(Arc::new(first))
    }

    fn one(
        index: usize,
        generation: Gen,
        vram: u64,
        drain: Drain,
        journal: Arc<Journal>,
    ) -> Result<Self, i32> {
        Ok(Self {
            index,
            gws: Gws::default(),
            others: Vec::new(),
            several: false,
            vram: Arc::new(Budget::new(vram)),
            journal,
            remap: Arc::new(Mapping::new(1)?),
            flushing: Default::default(),
            gl1: matches!(generation, Gen::Rdna2 | Gen::Rdna3),
            scopes: matches!(generation, Gen::Rdna4),
            epoch: AtomicU64::new(0),
            generations: std::array::from_fn(|_| AtomicU64::new(1)),
            stale: Default::default(),
            stretch: Arc::default(),
            launches: Arc::default(),
            dirty: Mutex::default(),
            unmirrored: Mutex::default(),
            public: Mutex::default(),
            reported: Mutex::default(),
            late: Mutex::default(),
            guesses: Guesses::default(),
            spare: Mutex::default(),
            drain: match drain {
                Drain::Never | Drain::Doorbell => None,
                Drain::Random(seed) => Some(AtomicU64::new(seed)),
            },
            rung: AtomicU64::new(u64::from(drain == Drain::Doorbell)),
        })
    }

    /// The XCCs, this one first.
    pub(crate) fn package(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let others = self.others.iter().cloned();
        std::iter::once(self.clone()).chain(others).collect()
    }

    /// Whether the scope of an access decides where it meets those of others.
    pub(crate) fn scopes(&self) -> bool {
        self.scopes
    }

    /// Whether there are several XCCs.
    pub(crate) fn several(&self) -> bool {
        self.several
    }

    pub(crate) fn epoch(&self) -> &AtomicU64 {
        &self.epoch
    }

    /// Every page that was handed out must be asked for again.
    pub(crate) fn next_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn generation(&self, cache: Cache) -> u64 {
        self.generations[cache as usize].load(Ordering::Acquire)
    }

    /// A cache in front of GL2 has begun to show something that may become old.
    pub(crate) fn shows_old(&self, cache: Cache) {
        self.stale[cache as usize].store(self.generation(cache), Ordering::Release);
    }

    /// Invalidates by an instruction: waves do it often, so that what they have is only asked for
    /// again where something is old.
    pub(crate) fn invalidate(&self, cache: Cache) {
        let gone = self.generations[cache as usize].fetch_add(1, Ordering::AcqRel);
        if let Some(stale) = self.stale.get(cache as usize)
            && stale.load(Ordering::Acquire) == gone
        {
            self.next_epoch();
        }
    }

    /// A launch begins. Returns its number, from 1.
    pub(crate) fn begin(&self) -> u64 {
        let mut launches = lock(&self.launches);
        launches.running += 1;
        launches.begun += 1;
        if launches.running == 1 {
            self.stretch.fetch_add(1, Ordering::AcqRel);
        }
        launches.begun
    }

    /// A launch has ended.
    pub(crate) fn end(&self) {
        self.mirror();
        for (object, va, text) in self.guesses.take() {
            self.late(&rules::SCALAR_STALE, object, va, text);
        }
        for ((name, object), (_, rule, text)) in std::mem::take(&mut *lock(&self.late)) {
            lock(&self.reported).insert((name, object));
            self.journal.broken(rule, text);
        }
        let mut launches = lock(&self.launches);
        launches.running -= 1;
        if launches.running == 0 {
            // Dropped outside of the lock: it may be the last use of an object.
            let left = std::mem::take(&mut launches.leaving);
            let copies = std::mem::take(&mut launches.copies);
            drop(launches);
            drop(left);
            copies.into_iter().for_each(|copy| self.spare(copy));
        }
    }

    /// Whether no launch runs.
    pub(crate) fn idle(&self) -> bool {
        lock(&self.launches).running == 0
    }

    pub(crate) fn stretch(&self) -> u64 {
        self.stretch.load(Ordering::Acquire)
    }

    /// An object has been unmapped: it stays until no launch can use it.
    pub(crate) fn leave(&self, object: Arc<Object>) {
        let mut launches = lock(&self.launches);
        if launches.running > 0 {
            launches.leaving.push(object);
        }
    }

    /// A copy is not needed any more, but by launches that run.
    pub(crate) fn leave_copy(&self, copy: Copy) {
        let mut launches = lock(&self.launches);
        if launches.running > 0 {
            launches.copies.push(copy);
        }
    }

    /// A copy of a page, in a spare one where there is one.
    pub(crate) fn copy_of(&self, frame: Frame) -> Copy {
        let Some(copy) = lock(&self.spare).pop() else {
            return Copy::of(frame);
        };
        copy.frame().copy(frame);
        copy.mask.clear_all();
        copy
    }

    /// Keeps a copy that nobody uses for later.
    pub(crate) fn spare(&self, copy: Copy) {
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE {
            spare.push(copy);
        }
    }

    pub(crate) fn list(&self, object: &Arc<Object>, page: u64) {
        lock(&self.dirty).push((Arc::downgrade(object), page));
    }

    pub(crate) fn list_unmirrored(&self, object: &Arc<Object>, page: u64) {
        lock(&self.unmirrored).push((Arc::downgrade(object), page));
    }

    pub(crate) fn publish(&self, object: &Arc<Object>) {
        lock(&self.public).push(Arc::downgrade(object));
    }

    /// The VRAM that clients may map.
    pub(crate) fn public(&self) -> Vec<Arc<Object>> {
        let mut public = lock(&self.public);
        public.retain(|object| object.strong_count() > 0);
        public.iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether the HDP drains now, by chance.
    pub(crate) fn drains(&self) -> bool {
        self.drain.as_ref().is_some_and(|state| {
            // SplitMix64.
            let mut z = state
                .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
                .wrapping_add(0x9e37_79b9_7f4a_7c15);
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ z >> 31) & 3 == 0
        })
    }

    /// A doorbell was rung.
    pub(crate) fn ring(&self) {
        if self.rung() != 0 {
            self.rung.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The number of the last doorbell, where the HDP drains at doorbells.
    pub(crate) fn rung(&self) -> u64 {
        self.rung.load(Ordering::Acquire)
    }

    /// Goes through listed pages; `each` returns which stay listed.
    fn each(&self, list: Vec<PageOf>, who: &Arc<str>, each: impl Fn(&mut State, &At) -> bool) {
        let mut stay = Vec::new();
        for (weak, page) in list {
            let Some(object) = weak.upgrade() else {
                continue;
            };
            let Some(frame) = object.frame(page) else {
                continue;
            };
            let mut states = object.states();
            let Some(state) = states.get_mut(&page) else {
                continue;
            };
            let at = At {
                gmc: self,
                object: &object,
                page,
                frame,
                mtype: Mtype::Nc,
                who,
                launch: 0,
            };
            if each(state, &at) {
                stay.push((weak, page));
            }
        }
        lock(&self.dirty).append(&mut stay);
    }

    fn dirty(&self) -> Vec<PageOf> {
        std::mem::take(&mut lock(&self.dirty))
    }

    /// Acts on the caches.
    pub(crate) fn act(&self, act: Caches, who: &str) {
        let who: Arc<str> = who.into();
        if act.l2_wb {
            self.write_back(&who);
        } else {
            self.mirror();
        }
        if act.l2_inv {
            self.generations[Cache::Gl2 as usize].fetch_add(1, Ordering::AcqRel);
            self.each(self.dirty(), &who, State::invalidated);
        }
        let through = act.gl1_inv || !self.gl1;
        for (cache, invalid) in [
            (Cache::Vector, act.vector_inv && through),
            (Cache::Scalar, act.scalar_inv && through),
            (Cache::Inst, act.inst_inv),
        ] {
            if invalid {
                self.generations[cache as usize].fetch_add(1, Ordering::AcqRel);
            }
        }
        lock(&self.reported).clear();
        self.next_epoch();
    }

    /// Writes GL2 back by an instruction.
    pub(crate) fn write_back(&self, who: &Arc<str>) {
        self.mirror();
        self.each(self.dirty(), who, State::write_back);
    }

    /// What shader cores wrote uncached to VRAM shows in the BAR.
    pub(crate) fn mirror(&self) {
        let list = lock(&self.unmirrored).clone();
        if !list.is_empty() {
            let who: Arc<str> = "".into();
            lock(&self.unmirrored).retain(|(object, _)| object.strong_count() > 0);
            self.each(list, &who, |state, at| {
                state.mirror(at);
                false
            });
        }
    }

    /// Reports bytes that the host may look at and that GL2 still holds dirty, of objects that are
    /// meant.
    pub(crate) fn host_visible_dirty(&self, who: &str, meant: impl Fn(&Object) -> bool) {
        let who: Arc<str> = who.into();
        // Threads of a launch list pages as they come.
        let mut dirty = self.dirty();
        dirty.sort_by_cached_key(|(object, page)| (object.upgrade().map(|o| o.id), *page));
        self.each(dirty, &who, |state, at| {
            let found = |run| {
                let bits = state.dirty(at, self.index, run);
                (bits != 0).then(|| run * 64 + bits.trailing_zeros() as usize)
            };
            if at.object.host_visible()
                && let Some(place) = (0..64).find_map(found)
                && meant(at.object)
                && self.first_report(&rules::L2_HOST_STALE, at.object)
            {
                let text = format!(
                    "at {who}: byte {place:#x} of {} is dirty in GL2{}; missing: {}",
                    at.object.describe(at.page),
                    state.written_by(),
                    rules::missing(&rules::L2_HOST_STALE),
                );
                self.journal.broken(&rules::L2_HOST_STALE, text);
            }
            true
        });
    }

    /// Whether a stale read at an address is to be reported.
    pub(crate) fn wants_report(&self, rule: &'static Rule, at: &At, va: u64) -> bool {
        let key = (rule.name, at.object.id);
        if at.launch == 0 {
            return self.first_report(rule, at.object);
        }
        let guess = rule == &rules::SCALAR_STALE;
        let lower = |(known, ..): &(u64, &Rule, String)| *known <= va && !guess;
        !lock(&self.reported).contains(&key) && !lock(&self.late).get(&key).is_some_and(lower)
    }

    /// Reports it: at once, or at the end of the launch.
    pub(crate) fn report(&self, rule: &'static Rule, at: &At, va: u64, text: String) {
        if at.launch == 0 {
            self.journal.broken(rule, text);
            return;
        }
        let text = if rule == &rules::SCALAR_STALE {
            let left = self.guesses.add(at.object.id, va, text);
            // Who has the page for writing asks for it again, and is watched.
            self.next_epoch();
            left
        } else {
            Some(text)
        };
        if let Some(text) = text {
            self.late(rule, at.object.id, va, text);
        }
    }

    fn late(&self, rule: &'static Rule, object: u64, va: u64, text: String) {
        let mut late = lock(&self.late);
        let known = late.entry((rule.name, object));
        let kept = known.or_insert_with(|| (va, rule, text.clone()));
        if va < kept.0 {
            *kept = (va, rule, text);
        }
    }

    /// Whether this rule has not been reported of this object since caches were last acted on.
    pub(crate) fn first_report(&self, rule: &'static Rule, object: &Object) -> bool {
        lock(&self.reported).insert((rule.name, object.id))
    }
}
