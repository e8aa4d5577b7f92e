//! What caches hold of a page, and what memory holds.
//!
//! A page of an object has one frame in host memory, and as long as all agents agree that is all.
//! Where they do not, copies are kept:
//!
//! - For VRAM the frame is what GL2 of its own GPU shows, since shader cores write there. Memory
//!   below it, where that differs, is [`State::below`], whose mask tells the dirty bytes of GL2.
//! - For everything else the frame is memory, since the client writes there. What GL2 of a GPU shows
//!   is [`View::copy`], whose mask tells its dirty bytes.
//! - In front of GL2, a cache that has read of a page holds that: before the content changes, the old
//!   content is kept in [`Small::old`], and that is what the cache goes on to show.
//!
//! What a cache holds of a page are lines. Shader cores note which runs of 64 bytes they read
//! ([`View::touched`]) without asking; whenever a page is asked for, or its memory changes, these become
//! lines that are held. What is not held shows what is behind as it was when the page was asked for.
//!
//! Waves of several threads store first and mark then which bytes are dirty. What another thread finds in between
//! differs from memory and is not marked: so what memory has newer is told by what was written there since
//! ([`State::below_written`]) or by what was fetched ([`View::fetched`]), never by what differs. It is the same
//! with what the host has written through the BAR ([`State::mirrored`]).
//!
//! Invalidating is counting: each cache of a GPU has a generation, and what was held in an earlier
//! one is gone. Copies are filled anew in place and freed with the object, because a launch may have
//! pointers into them; [`State::below`] goes while no launch runs.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use twin_shader::page::Port;

use super::frame::{Copy, Frame, Mask, run_bits, runs};
use super::gmc::{Cache, Gmc, SMALL};
use super::object::{Kind, Object};
use super::table::Mtype;

/// Bytes of a page, a bit for each.
pub(crate) type Runs = [u64; 64];

/// Who accesses which page, and how it is mapped for them.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) gmc: &'a Gmc,
    pub(crate) object: &'a Arc<Object>,
    pub(crate) page: u64,
    /// The page of the object.
    pub(crate) frame: Frame<'a>,
    pub(crate) mtype: Mtype,
    /// What runs, for reports.
    pub(crate) who: &'a Arc<str>,
    /// The launch, 0 for a packet.
    pub(crate) launch: u64,
}

impl<'a> At<'a> {
    fn vram(&self) -> bool {
        matches!(self.object.kind, Kind::Vram { .. })
    }

    /// Whether it is VRAM of the GPU that accesses it.
    pub(crate) fn home(&self) -> bool {
        self.vram() && self.object.home.index == self.gmc.index
    }

    pub(crate) fn cached(&self) -> bool {
        self.mtype.cached()
    }

    /// Whether it is memory of others that GL2 may hold, so that the scope of an access decides where it meets
    /// them: RDNA4, where all system memory is cached.
    pub(crate) fn scoped(&self) -> bool {
        self.gmc.scopes() && !self.home()
    }

    /// The command processor polls memory that others write, and signals to them: of what is not VRAM
    /// of its GPU it reads and writes memory itself, but sees dirty bytes of GL2. So a signal on
    /// RDNA4, where all system memory is NC, reaches the host without a write-back after it. Those of
    /// several XCCs do so everywhere: a driver that has run on MI300X lets them meet by atomic
    /// operations of theirs on ordinary VRAM.
    pub(crate) fn through(&self, port: Port) -> bool {
        port == Port::Cp && self.cached() && (!self.home() || self.gmc.several())
    }

    /// Whether it is memory of others in which waves of this GPU meet in its one GL2: there atomic operations are made
    /// (LLVM AMDGPUUsage, memory models of GFX10 and GFX11: agent scope), so there a load that looks past the caches
    /// in front of it looks, unlike the command processor.
    pub(crate) fn in_gl2(&self) -> bool {
        self.cached() && !self.home() && !self.gmc.several() && !self.scoped()
    }

    /// The cache in front of GL2 that a port reads through. Uncached vector accesses bypass L0.
    pub(crate) fn small(&self, port: Port) -> Option<Cache> {
        match port {
            Port::Vector if self.cached() => Some(Cache::Vector),
            Port::Scalar => Some(Cache::Scalar),
            Port::Inst => Some(Cache::Inst),
            Port::Vector | Port::Cp | Port::Sdma => None,
        }
    }

    /// Whether accesses by a port leave something in a cache.
    pub(crate) fn held_by(&self, port: Port) -> bool {
        match port {
            Port::Sdma => false,
            Port::Cp => self.cached() && self.home() && !self.gmc.several(),
            _ => self.cached() || self.small(port).is_some() || self.object.public(),
        }
    }

    pub(crate) fn bar(&self) -> Option<Frame<'a>> {
        self.object.bar(self.page)
    }
}

/// What a cache in front of GL2 holds of a page.
#[derive(Default)]
struct Small {
    /// Held since this generation; 0 for never.
    since: u64,
    /// The lines that are held, a bit for each run of 64 bytes.
    lines: u64,
    /// The launch that was the first to read it since then.
    holder: u64,
    /// It shows [`Small::old`], not what GL2 shows.
    kept: bool,
    /// But not to this launch, which made it old.
    but_to: Option<u64>,
    /// The mask tells bytes that the port itself has stored since.
    old: Option<Copy>,
}

impl Small {
    /// Whether it holds some of these lines.
    fn holds(&self, generation: u64, runs: u64) -> bool {
        self.since == generation && self.lines & runs != 0
    }

    /// The old content, where that is what the launch sees.
    fn shows(&self, launch: u64) -> Option<&Copy> {
        let shows = self.kept && self.but_to != Some(launch);
        self.old.as_ref().filter(|_| shows)
    }

    fn keep(&mut self, frame: Frame, but_to: Option<u64>) {
        self.kept = true;
        self.but_to = but_to;
        match &self.old {
            Some(old) => {
                old.frame().copy(frame);
                old.mask.clear_all();
            }
            None => self.old = Some(Copy::of(frame)),
        }
    }
}

/// What the caches of one GPU hold of a page.
pub(crate) struct View {
    pub(crate) gpu: usize,
    /// GL2 holds it since this generation; 0 for never.
    since: u64,
    /// The lines of it that GL2 holds, a bit for each run of 64 bytes.
    lines: u64,
    /// The runs that shader cores have read through each cache in front of GL2 since somebody looked.
    touched: Box<[AtomicU64; 3]>,
    /// What GL2 shows, of a page that is not VRAM of this GPU.
    pub(crate) copy: Option<Copy>,
    /// What GL2 last got of memory, of a page that waves store to.
    fetched: Option<Copy>,
    /// It is in the list of pages that a write-back must look at.
    listed: bool,
    /// The stretch of launches in which shader cores got it for writing.
    written: u64,
    small: [Small; 3],
}

impl View {
    /// What shader cores have read are lines that caches hold.
    fn fold(&mut self, gmc: &Gmc) {
        for cache in SMALL {
            let touched = &self.touched[cache as usize];
            if touched.load(Ordering::Relaxed) != 0 {
                let runs = touched.swap(0, Ordering::AcqRel);
                self.hold(gmc, Some(cache), runs);
            }
        }
    }

    /// GL2 holds the lines of these runs, and so does the cache in front of it.
    fn hold(&mut self, gmc: &Gmc, cache: Option<Cache>, runs: u64) {
        if runs == 0 {
            return;
        }
        if self.since == gmc.generation(Cache::Gl2) {
            self.lines |= Cache::Gl2.lines(runs);
        }
        let Some(cache) = cache else {
            return;
        };
        let small = &mut self.small[cache as usize];
        if small.since == gmc.generation(cache) {
            small.lines |= cache.lines(runs);
        }
    }

    /// The lines that GL2 holds.
    fn held(&mut self, gmc: &Gmc) -> u64 {
        self.fold(gmc);
        if self.since == gmc.generation(Cache::Gl2) {
            self.lines
        } else {
            0
        }
    }

    /// Whether a cache in front of GL2 shows a launch old content.
    pub(crate) fn shows_old(&self, cache: Cache, launch: u64) -> bool {
        self.small[cache as usize].shows(launch).is_some()
    }
}

/// What is known of a page beyond its frame.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) below: Option<Copy>,
    /// The bytes of memory below that have been written since it was split off, and that GL2 does not show.
    pub(crate) below_written: Option<Box<Runs>>,
    pub(crate) views: Vec<View>,
    /// The stretch of launches in which several XCCs use it without their GL2s; 0 for never.
    shared: u64,
    /// Bytes that shader cores wrote uncached to VRAM which the host has mapped.
    unmirrored: Option<Box<Mask>>,
    /// What the BAR last got of memory, of a page that shader cores store to uncached: where it shows something
    /// else, the host has written.
    mirrored: Option<Copy>,
    /// Who wrote last.
    pub(crate) writer: Option<Arc<str>>,
    /// The doorbell at which the HDP last drained.
    pub(crate) drained: u64,
}

impl State {
    fn view(&mut self, gpu: usize) -> usize {
        if let Some(at) = self.views.iter().position(|view| view.gpu == gpu) {
            return at;
        }
        self.views.push(View {
            gpu,
            since: 0,
            lines: 0,
            touched: Box::default(),
            copy: None,
            fetched: None,
            listed: false,
            written: 0,
            small: Default::default(),
        });
        self.views.len() - 1
    }

    pub(crate) fn view_of(&self, gpu: usize) -> Option<&View> {
        self.views.iter().find(|view| view.gpu == gpu)
    }

    /// Memory below all caches.
    pub(crate) fn memory<'a>(&'a self, frame: Frame<'a>) -> Frame<'a> {
        self.below.as_ref().map_or(frame, Copy::frame)
    }

    /// What GL2 of a GPU shows, and which bytes of that are dirty.
    pub(crate) fn gl2<'a>(&'a self, at: &At<'a>, gpu: usize) -> (Frame<'a>, Option<&'a Mask>) {
        if at.vram() && gpu == at.object.home.index {
            return (at.frame, self.below.as_ref().map(|below| &*below.mask));
        }
        match self.view_of(gpu).and_then(|view| view.copy.as_ref()) {
            Some(copy) => (copy.frame(), Some(&copy.mask)),
            None => (self.memory(at.frame), None),
        }
    }

    /// What is behind the caches in front of GL2.
    pub(crate) fn behind<'a>(&'a self, at: &At<'a>) -> Frame<'a> {
        if at.cached() {
            self.gl2(at, at.gmc.index).0
        } else {
            self.memory(at.frame)
        }
    }

    /// What a port reads.
    pub(crate) fn seen<'a>(&'a self, at: &At<'a>, port: Port) -> Frame<'a> {
        if port == Port::Sdma || at.through(port) {
            return self.memory(at.frame);
        }
        let view = self.view_of(at.gmc.index);
        let small = at.small(port).zip(view);
        small
            .and_then(|(cache, view)| view.small[cache as usize].shows(at.launch))
            .map_or_else(|| self.behind(at), Copy::frame)
    }

    /// What a shader core gets for reads through a port. As for writes, uncached is the frame.
    pub(crate) fn shown<'a>(&'a self, at: &At<'a>, port: Port) -> Frame<'a> {
        if at.small(port).is_none() && !at.cached() {
            return at.frame;
        }
        self.seen(at, port)
    }

    /// The content of some runs that GL2 of a GPU shows is about to change: what the caches in front of it
    /// hold stays as it is.
    fn keep(&mut self, at: &At, gmc: &Gmc, caches: &[Cache], runs: u64) {
        let Some(view) = self.views.iter().position(|view| view.gpu == gmc.index) else {
            return;
        };
        self.views[view].fold(gmc);
        for &cache in caches {
            let small = &self.views[view].small[cache as usize];
            if !small.holds(gmc.generation(cache), runs) || small.kept {
                continue;
            }
            // Taken out so that the copy can be filled from what the rest of the state shows.
            let mut small = std::mem::take(&mut self.views[view].small[cache as usize]);
            small.keep(self.gl2(at, gmc.index).0, None);
            self.views[view].small[cache as usize] = small;
            // Pages that were handed out show what is about to change.
            gmc.shows_old(cache);
            gmc.next_epoch();
        }
    }

    /// Splits memory off from what GL2 of the page's own GPU shows.
    fn split(&mut self, at: &At) {
        if self.below.is_none() {
            self.below = Some(at.object.home.copy_of(at.frame));
            self.below_written = None;
            self.list(at, &at.object.home);
        }
    }

    fn list(&mut self, at: &At, gmc: &Gmc) {
        let view = self.view(gmc.index);
        if !self.views[view].listed {
            self.views[view].listed = true;
            gmc.list(at.object, at.page);
        }
    }

    /// The clean bytes of a run of which memory is newer than what GL2 shows.
    ///
    /// Not all in which they differ: a byte that a wave has just stored is not marked yet.
    pub(crate) fn newer(&self, at: &At, run: usize) -> u64 {
        let memory = self.memory(at.frame);
        let (shown, dirty) = self.gl2(at, at.gmc.index);
        let written = if at.home() {
            let written = self.below_written.as_ref().map_or(0, |bytes| bytes[run]);
            written & shown.differs(memory, run)
        } else {
            let view = self.view_of(at.gmc.index);
            let fetched = view.and_then(|view| view.fetched.as_ref());
            fetched.map_or(shown, Copy::frame).differs(memory, run)
        };
        match written {
            0 => 0,
            written => written & !dirty.map_or(0, |mask| mask.get(run)),
        }
    }

    /// What GL2 holds clean of some runs comes from memory again. An invalidate leaves dirty bytes alone,
    /// and only a write-back touches these (Mesa's comment on `GCR_CNTL` in radeonsi).
    fn refetch(&mut self, at: &At, runs: u64) {
        let view = self.view(at.gmc.index);
        if at.home() {
            if self.below_written.is_none() {
                return;
            }
        } else if self.views[view].copy.is_none() {
            let copy = Copy::of(self.memory(at.frame));
            self.views[view].copy = Some(copy);
            return;
        }
        let newer: Runs = std::array::from_fn(|run| match runs >> run & 1 {
            1 => self.newer(at, run),
            _ => 0,
        });
        if newer != [0; 64] {
            self.keep(at, at.gmc, &SMALL, runs);
            self.fetch(at, |run| newer[run]);
        }
        if at.home() {
            self.below_written = None;
        }
    }

    /// GL2 shows what memory has of the bytes that `bits` tells for each run.
    fn fetch(&self, at: &At, bits: impl Fn(usize) -> u64) {
        let mut from = self.memory(at.frame);
        if let Some(view) = self.view_of(at.gmc.index)
            && let Some(fetched) = &view.fetched
        {
            // First, since the host may write memory meanwhile: what is shown is what was fetched.
            fetched.frame().copy_picked(from, &bits);
            from = fetched.frame();
        }
        self.gl2(at, at.gmc.index).0.copy_picked(from, bits);
    }

    /// GL2 of the GPU shows the page from now on: what it does not hold, as memory has it.
    pub(crate) fn settle(&mut self, at: &At) {
        let view = self.view(at.gmc.index);
        let held = self.views[view].held(at.gmc);
        let now = at.gmc.generation(Cache::Gl2);
        if self.views[view].since != now {
            (self.views[view].since, self.views[view].lines) = (now, 0);
            self.refetch(at, !0);
        } else if !at.home() && held != !0 {
            self.refetch(at, !held);
        }
    }

    /// A packet reads a range.
    pub(crate) fn touch(&mut self, at: &At, port: Port, range: &Range<usize>) {
        if port == Port::Sdma || at.through(port) || !at.held_by(port) {
            return;
        }
        let runs = runs(range).fold(0, |bits, run| bits | 1 << run);
        let view = self.view(at.gmc.index);
        self.views[view].hold(at.gmc, at.small(port), runs);
    }

    /// The runs that the cache in front of GL2 does not hold.
    pub(crate) fn not_held(&self, at: &At, port: Port) -> u64 {
        let view = self.view_of(at.gmc.index);
        let small = at.small(port).zip(view);
        !small.map_or(0, |(cache, view)| view.small[cache as usize].lines)
    }

    /// Where shader cores note what they read through a port; alive as long as the object.
    pub(crate) fn touched(&self, at: &At, port: Port) -> Option<*mut u64> {
        let cache = at.small(port)?;
        let view = self.view_of(at.gmc.index)?;
        Some(view.touched[cache as usize].as_ptr())
    }

    /// Readies the page for reads through a port: its caches hold it from now on.
    pub(crate) fn ready_to_read(&mut self, at: &At, port: Port) {
        if port == Port::Sdma || at.through(port) {
            return;
        }
        if at.cached() {
            self.settle(at);
        }
        let Some(cache) = at.small(port) else {
            return;
        };
        let view = self.view(at.gmc.index);
        self.views[view].fold(at.gmc);
        let mut small = std::mem::take(&mut self.views[view].small[cache as usize]);
        let now = at.gmc.generation(cache);
        if small.since != now {
            (small.since, small.lines) = (now, 0);
            small.holder = at.launch;
            small.kept = false;
        }
        // What can change with no one telling is kept at once.
        let silent =
            !at.cached() || cache != Cache::Vector && self.views[view].written == at.gmc.stretch();
        if let Some(old) = small.shows(at.launch) {
            let behind = self.behind(at);
            // The bits stay: a store is announced before it is made.
            old.frame()
                .copy_picked(behind, |run| match small.lines >> run & 1 {
                    1 => old.mask.get(run),
                    _ => !0,
                });
            if cache == Cache::Vector && (0..64).all(|run| old.frame().differs(behind, run) == 0) {
                small.kept = false;
                at.gmc.next_epoch();
            }
        } else if silent && !small.kept {
            small.keep(self.behind(at), None);
            at.gmc.shows_old(cache);
        }
        self.views[view].small[cache as usize] = small;
    }

    /// Readies the page for stores and atomics by shader cores. Returns where they go, where to mark
    /// them, and whether each of them must be announced.
    pub(crate) fn ready_to_write<'a>(
        &'a mut self,
        at: &At<'a>,
    ) -> (Frame<'a>, Option<&'a Mask>, bool) {
        let view = self.view(at.gmc.index);
        self.views[view].written = at.gmc.stretch();
        self.writer = Some(at.who.clone());
        if !at.cached() {
            if at.bar().is_some() && self.mirrored.is_none() {
                self.mirrored = Some(Copy::of(self.memory(at.frame)));
            }
            if at.bar().is_some() && self.unmirrored.is_none() {
                self.unmirrored = Some(Box::default());
                at.gmc.list_unmirrored(at.object, at.page);
            }
            // Not memory below GL2: that would be another mapping's, and goes while others run.
            return (at.frame, self.unmirrored.as_deref(), false);
        }
        self.settle(at);
        self.keep(at, at.gmc, &[Cache::Scalar, Cache::Inst], !0);
        if at.home() {
            self.split(at);
        } else {
            self.list(at, at.gmc);
            let view = &mut self.views[view];
            if let (Some(copy), None) = (&view.copy, &view.fetched) {
                // What is clean of it is what was fetched, as long as no wave has it for writing.
                view.fetched = Some(at.gmc.copy_of(copy.frame()));
            }
        }
        let mut small = std::mem::take(&mut self.views[view].small[Cache::Vector as usize]);
        let held = small.holds(at.gmc.generation(Cache::Vector), !0);
        if held && !small.kept && small.holder != at.launch {
            // Other CUs may have held it since an earlier launch.
            small.keep(self.behind(at), Some(at.launch));
            at.gmc.shows_old(Cache::Vector);
        }
        let announce = small.shows(at.launch).is_some();
        self.views[view].small[Cache::Vector as usize] = small;
        let (frame, mask) = self.gl2(at, at.gmc.index);
        (frame, mask, announce)
    }

    /// Shader cores store to bytes of a page whose stores are announced.
    pub(crate) fn stored(&mut self, at: &At, range: &Range<usize>) {
        let view = self.view(at.gmc.index);
        let small = &self.views[view].small[Cache::Vector as usize];
        if let Some(old) = small.shows(at.launch) {
            old.mask.set(range);
        }
    }

    /// A write by a packet: `apply` makes it, in `range`.
    pub(crate) fn write(
        &mut self,
        at: &At,
        port: Port,
        range: &Range<usize>,
        apply: &mut dyn FnMut(Frame),
    ) {
        let bits = |run| run_bits(range, run);
        let changed = runs(range).fold(0, |all, run| all | 1 << run);
        match port {
            Port::Vector | Port::Scalar | Port::Inst => {
                let (frame, mask, announce) = self.ready_to_write(at);
                apply(frame);
                if let Some(mask) = mask {
                    mask.set(range);
                }
                if announce {
                    self.stored(at, range);
                }
            }
            Port::Cp if at.cached() && !at.through(port) => {
                self.settle(at);
                self.split(at);
                self.keep(at, at.gmc, &SMALL, changed);
                apply(at.frame);
                if let Some(below) = &self.below {
                    below.mask.set(range);
                }
                self.writer = Some(at.who.clone());
            }
            Port::Cp if at.cached() => {
                self.change_memory(at, bits, apply);
                if at.home() {
                    // What GL2 of the first XCC shows.
                    if self.below.is_some() {
                        self.keep(at, at.gmc, &SMALL, changed);
                    }
                    if let Some(below) = &self.below {
                        at.frame.copy_picked(below.frame(), bits);
                        below.mask.clear(range);
                    }
                    self.shown_below(bits);
                    return;
                }
                if self
                    .view_of(at.gmc.index)
                    .is_some_and(|view| view.copy.is_some())
                {
                    self.keep(at, at.gmc, &SMALL, changed);
                }
                if let Some(copy) = self
                    .view_of(at.gmc.index)
                    .and_then(|view| view.copy.as_ref())
                {
                    self.fetch(at, bits);
                    copy.mask.clear(range);
                }
            }
            Port::Cp | Port::Sdma => self.change_memory(at, bits, apply),
        }
    }

    /// Memory below all caches changes: `apply` changes the bytes that `bits` tells for each run.
    pub(crate) fn change_memory(
        &mut self,
        at: &At,
        bits: impl Fn(usize) -> u64,
        apply: &mut dyn FnMut(Frame),
    ) {
        let mut shows = 0;
        if at.vram() {
            let home = &at.object.home;
            let changed = (0..64).fold(0, |all, run| all | u64::from(bits(run) != 0) << run);
            let view = self.views.iter_mut().find(|view| view.gpu == home.index);
            let held = changed & view.map_or(0, |view| view.held(home));
            if held != 0 {
                self.split(at);
                let written = self.below_written.get_or_insert_with(|| Box::new([0; 64]));
                for (run, written) in written.iter_mut().enumerate() {
                    *written |= bits(run) & (held >> run & 1).wrapping_neg();
                }
            }
            // What GL2 does not hold it shows as it becomes.
            shows = changed & !held;
            self.keep(at, home, &SMALL, shows);
        }
        let memory = self.memory(at.frame);
        match at.bar() {
            Some(bar) => {
                let pending: Runs = std::array::from_fn(|run| self.pending(bar, memory, run));
                apply(memory);
                self.show(bar, memory, |run| bits(run) & !pending[run]);
            }
            None => apply(memory),
        }
        if let Some(below) = &self.below {
            at.frame
                .copy_picked(below.frame(), |run| match shows >> run & 1 {
                    1 => bits(run) & !below.mask.get(run),
                    _ => 0,
                });
        }
        self.writer = Some(at.who.clone());
    }

    /// The bytes of a run that the host has written through the BAR and that are not memory yet.
    pub(crate) fn pending(&self, bar: Frame, memory: Frame, run: usize) -> u64 {
        let unmirrored = self.unmirrored.as_ref().map_or(0, |mask| mask.get(run));
        let mirrored = self.mirrored.as_ref().map_or(memory, Copy::frame);
        bar.differs(mirrored, run) & !unmirrored
    }

    /// The BAR shows what memory has of the bytes that `bits` tells for each run.
    fn show(&self, bar: Frame, memory: Frame, bits: impl Fn(usize) -> u64) {
        let mut from = memory;
        if let Some(mirrored) = &self.mirrored {
            mirrored.frame().copy_picked(from, &bits);
            from = mirrored.frame();
        }
        bar.copy_picked(from, bits);
    }

    /// What the BAR shows of these bytes has become memory.
    pub(crate) fn took(&self, frame: Frame, bits: &Runs) {
        if let Some(mirrored) = &self.mirrored {
            let memory = self.memory(frame);
            mirrored.frame().copy_picked(memory, |run| bits[run]);
        }
    }

    /// What shader cores wrote uncached shows in the BAR.
    pub(crate) fn mirror(&mut self, at: &At) {
        if let (Some(bar), Some(mask)) = (at.bar(), &self.unmirrored) {
            let bits: Runs = std::array::from_fn(|run| mask.take(run));
            self.show(bar, self.memory(at.frame), |run| bits[run]);
        }
    }

    /// What the BAR shows goes, with what was there.
    pub(crate) fn lose(&mut self) {
        self.mirrored = None;
    }

    /// The bytes of a run that GL2 of a GPU holds dirty and that differ from memory.
    pub(crate) fn dirty(&self, at: &At, gpu: usize, run: usize) -> u64 {
        match self.gl2(at, gpu) {
            (shown, Some(mask)) => mask.get(run) & shown.differs(self.memory(at.frame), run),
            _ => 0,
        }
    }

    /// GL2 of the GPU writes its dirty bytes back. Returns whether the page must be looked at again.
    pub(crate) fn write_back(&mut self, at: &At) -> bool {
        // The lines stay, clean.
        let (_, dirty) = self.gl2(at, at.gmc.index);
        let wrote =
            |mask: &Mask| (0..64).fold(0, |runs, run| runs | u64::from(mask.get(run) != 0) << run);
        let written = dirty.map_or(0, wrote);
        let view = self.view(at.gmc.index);
        self.views[view].hold(at.gmc, None, written);
        if at.home() {
            let Some(below) = &self.below else {
                return self.unlist(at);
            };
            // Where nobody else wrote memory, what GL2 shows is what memory holds now.
            if !(at.gmc.idle() && self.below_written.is_none() && at.bar().is_none()) {
                let bits: Runs = std::array::from_fn(|run| below.mask.take(run));
                match at.bar() {
                    Some(bar) => {
                        let pending: Runs =
                            std::array::from_fn(|run| self.pending(bar, below.frame(), run));
                        below.frame().copy_picked(at.frame, |run| bits[run]);
                        self.show(bar, below.frame(), |run| bits[run] & !pending[run]);
                    }
                    None => below.frame().copy_picked(at.frame, |run| bits[run]),
                }
                self.shown_below(|run| bits[run]);
            }
            return self.join(at);
        }
        let view = self.view(at.gmc.index);
        if written != 0
            && let Some(copy) = self.views[view].copy.take()
        {
            let bits: Runs = std::array::from_fn(|run| copy.mask.take(run));
            let writer = self.writer.clone();
            self.change_memory(at, |run| bits[run], &mut |memory| {
                memory.copy_picked(copy.frame(), |run| bits[run]);
            });
            self.writer = writer;
            if let Some(fetched) = &self.views[view].fetched {
                let memory = self.memory(at.frame);
                fetched.frame().copy_picked(memory, |run| bits[run]);
            }
            self.views[view].copy = Some(copy);
        }
        // Waves that run write on, without asking for the page again.
        if !at.gmc.idle() {
            return true;
        }
        if let Some(fetched) = self.views[view].fetched.take() {
            at.gmc.spare(fetched);
        }
        self.unlist(at)
    }

    /// GL2 shows bytes of memory below.
    fn shown_below(&mut self, bits: impl Fn(usize) -> u64) {
        if let Some(written) = &mut self.below_written {
            for (run, written) in written.iter_mut().enumerate() {
                *written &= !bits(run);
            }
        }
        self.below_written.take_if(|written| **written == [0; 64]);
    }

    /// XCCs, or a GPU and the host, meet at a page by atomic operations or coherent loads, which go past GL2:
    /// from now until no launch runs, all of the GPU access memory itself.
    pub(crate) fn share(&mut self, at: &At, package: &[Arc<Gmc>]) {
        if self.shared(at) {
            return;
        }
        self.shared = at.gmc.stretch();
        for view in &mut self.views {
            if package.iter().any(|gmc| gmc.index == view.gpu) {
                view.since = 0;
            }
        }
        for gmc in package.iter().rev() {
            if self.view_of(gmc.index).is_some() {
                let at = At { gmc, ..*at };
                self.write_back(&at);
            }
            gmc.next_epoch();
        }
        if at.object.home.index == package[0].index
            && let Some(mut below) = self.below.take()
        {
            if let Some(written) = self.below_written.take() {
                at.frame.copy_picked(below.frame(), |run| written[run]);
            }
            if at.bar().is_some() {
                if self.mirrored.is_none() {
                    self.mirrored = Some(Copy::of(below.frame()));
                }
                // Where a store is marked that is under way.
                let mask = std::mem::take(&mut below.mask);
                match self.unmirrored.replace(mask) {
                    Some(before) => below.mask = before,
                    None => at.gmc.list_unmirrored(at.object, at.page),
                }
                if let Some(mask) = &self.unmirrored {
                    mask.add(&below.mask);
                }
            }
            at.object.home.leave_copy(below);
        }
    }

    /// A store that was under way at [`State::share`] went to what GL2 shows, and was marked after that: memory gets it
    /// before its wave asks for the page again.
    pub(crate) fn land(&mut self, at: &At) {
        let (_, dirty) = self.gl2(at, at.gmc.index);
        if !at.home() && dirty.is_some_and(|mask| !mask.is_empty()) {
            self.write_back(at);
        }
    }

    /// Whether [`State::share`] still holds.
    pub(crate) fn shared(&self, at: &At) -> bool {
        self.shared != 0 && self.shared == at.gmc.stretch()
    }

    /// GL2 of the GPU has been invalidated. Returns whether the page must be looked at again.
    pub(crate) fn invalidated(&mut self, at: &At) -> bool {
        if !at.home() {
            return true;
        }
        let view = self.view(at.gmc.index);
        self.views[view].since = 0;
        self.refetch(at, !0);
        match &self.below {
            Some(below) if !below.mask.is_empty() => true,
            _ => self.join(at),
        }
    }

    /// Memory and what GL2 shows become one where they can.
    fn join(&mut self, at: &At) -> bool {
        if self.below_written.is_some() || !at.gmc.idle() {
            return true;
        }
        if let Some(below) = self.below.take() {
            at.gmc.spare(below);
        }
        self.unlist(at)
    }

    fn unlist(&mut self, at: &At) -> bool {
        let view = self.view(at.gmc.index);
        self.views[view].listed = false;
        false
    }

    /// Reads as a packet: what the port sees in `range`.
    pub(crate) fn read(&mut self, at: &At, port: Port, offset: usize, out: &mut [u8]) {
        if at.through(port) {
            let (shown, dirty) = self.gl2(at, at.gmc.index);
            self.memory(at.frame).read(offset, out);
            for (i, byte) in out.iter_mut().enumerate() {
                let place = offset + i;
                if dirty.is_some_and(|mask| mask.get(place / 64) >> (place % 64) & 1 == 1) {
                    shown.read(place, std::slice::from_mut(byte));
                }
            }
            return;
        }
        self.ready_to_read(at, port);
        self.seen(at, port).read(offset, out);
    }
}
