//! Address spaces, and the ways to memory through them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock, RwLockReadGuard};

use hcq::sync::unpoisoned;
use twin_shader::memory::gws::Gws;
use twin_shader::page::{Access, FaultKind, MemFault, Memory, PAGE, Page, Port};

use super::Caches;
use super::cache::{At, State};
use super::frame::{Frame, hand_out};
use super::gmc::{Cache, Gmc};
use super::object::Object;
use super::table::{Entry, Mtype, Rights, Table, Walk};

/// The address space of one process on one GPU, as all XCCs of it reach it, or one.
pub struct Vm {
    /// The memory side of the GPU, or of that XCC.
    pub gmc: Arc<Gmc>,
    /// The memory side of the GPU.
    home: Arc<Gmc>,
    /// The XCCs that this is about, `gmc` first.
    xccs: Vec<Arc<Gmc>>,
    table: Arc<RwLock<Table>>,
    /// Where the driver writes page tables itself: who walks them, in place of `table`.
    walk: Option<Arc<dyn Walk>>,
    /// The trap handler of the process on this GPU: its code and its memory.
    trap: Arc<RwLock<Option<(u64, u64)>>>,
}

thread_local! {
    /// What runs on this thread: queues of one address space may each have theirs.
    static ORIGIN: RefCell<Arc<str>> = RefCell::new("".into());
}

fn origin() -> Arc<str> {
    ORIGIN.with(|origin| origin.borrow().clone())
}

impl Vm {
    /// An empty address space.
    pub fn new(gmc: Arc<Gmc>) -> Arc<Self> {
        Self::of(gmc, None)
    }

    /// The address space of page tables that a driver writes itself.
    pub fn walked(gmc: Arc<Gmc>, walk: Arc<dyn Walk>) -> Arc<Self> {
        Self::of(gmc, Some(walk))
    }

    fn of(gmc: Arc<Gmc>, walk: Option<Arc<dyn Walk>>) -> Arc<Self> {
        Arc::new(Self {
            home: gmc.clone(),
            xccs: gmc.package(),
            gmc,
            table: Arc::default(),
            walk,
            trap: Arc::default(),
        })
    }

    /// The same address space as one of its XCCs reaches it.
    pub(crate) fn on(&self, xcc: u32) -> Arc<Self> {
        let gmc = self.xccs.get(xcc as usize).unwrap_or(&self.gmc);
        Arc::new(Self {
            gmc: gmc.clone(),
            home: self.home.clone(),
            xccs: vec![gmc.clone()],
            table: self.table.clone(),
            walk: self.walk.as_ref().map(|walk| {
                let own = walk.on(xcc);
                own.unwrap_or_else(|| walk.clone())
            }),
            trap: self.trap.clone(),
        })
    }

    /// Maps `bytes` of an object from `offset` at `va`.
    ///
    /// # Errors
    /// `EINVAL`: not whole pages, not inside the object, or something is mapped there.
    pub fn map(
        &self,
        va: u64,
        object: &Arc<Object>,
        offset: u64,
        bytes: u64,
        rights: Rights,
        mtype: Mtype,
    ) -> Result<(), i32> {
        let mut table = unpoisoned(self.table.write());
        table.map(va, object, offset, bytes, rights, mtype)
    }

    /// Takes away what was mapped at `va` with that size. Accesses fault from now on.
    ///
    /// # Errors
    /// `EINVAL`: nothing was.
    pub fn unmap(&self, va: u64, bytes: u64) -> Result<(), i32> {
        let object = unpoisoned(self.table.write()).unmap(va, bytes)?;
        for gmc in self.home.package() {
            gmc.next_epoch();
        }
        self.gmc.leave(object);
        Ok(())
    }

    /// Sets the trap handler: the addresses of its code, 0 for none, and of its memory.
    pub fn set_trap(&self, code: u64, data: u64) {
        let handler = (code != 0).then_some((code, data));
        *unpoisoned(self.trap.write()) = handler;
    }

    /// The trap handler.
    pub(crate) fn trap(&self) -> Option<(u64, u64)> {
        *unpoisoned(self.trap.read())
    }

    /// Everything that is mapped: address, bytes, object.
    pub fn mapped(&self) -> Vec<(u64, u64, Arc<Object>)> {
        self.table()
            .ranges()
            .map(|(va, bytes, object)| (va, bytes, object.clone()))
            .collect()
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        unpoisoned(self.table.read())
    }

    /// Says what accesses memory from this thread from now on, such as `gpu 0 queue 1 dword 40: ...`:
    /// reports name it, and it is remembered as the last writer. A launch keeps what was said on the
    /// thread that began it.
    pub fn set_origin(&self, who: &str) {
        ORIGIN.with(|origin| {
            let mut origin = origin.borrow_mut();
            if **origin != *who {
                *origin = who.into();
            }
        });
    }

    /// The way of a launch to memory. What it hands out stays valid until it is dropped.
    pub fn launch(&self) -> Launch<'_> {
        Launch {
            vm: self,
            who: origin(),
            number: self.gmc.begin(),
        }
    }

    /// Calls `each` with every page of a range, the bytes of it that are meant, and where these lie
    /// in the range.
    fn pages(
        &self,
        port: Port,
        access: Access,
        va: u64,
        bytes: usize,
        mut each: impl FnMut(&At, Range<usize>, Range<usize>),
    ) -> Result<(), MemFault> {
        let who = origin();
        let mut done = 0;
        while done < bytes {
            let va = va.wrapping_add(done as u64);
            let offset = (va % PAGE) as usize;
            let here = (bytes - done).min(PAGE as usize - offset);
            let fault = fault(port, va, access);
            let entry = self.find(va, access).map_err(fault)?;
            let frame = entry.frame().map_err(fault)?;
            let at = self.at(&entry, frame, &who, 0);
            each(&at, offset..offset + here, done..done + here);
            done += here;
        }
        Ok(())
    }

    /// What an address is.
    fn find(&self, va: u64, access: Access) -> Result<Entry, FaultKind> {
        match &self.walk {
            Some(walk) => walk.find(va, access),
            None => self.table().find(va, access),
        }
    }

    fn at<'a>(
        &'a self,
        entry: &'a Entry,
        frame: Frame<'a>,
        who: &'a Arc<str>,
        launch: u64,
    ) -> At<'a> {
        let object = &entry.object;
        if object.public() {
            object.home.poll_remap();
            if object.home.drains() {
                object.drain(entry.page, &"the host, as the HDP drained".into());
            }
            object.drain_rung(entry.page);
        }
        At {
            gmc: &self.gmc,
            object,
            page: entry.page,
            frame,
            mtype: if object.cacheable() {
                entry.mtype
            } else {
                Mtype::Uc
            },
            who,
            launch,
        }
    }

    /// Reads.
    ///
    /// # Errors
    /// A page is not mapped.
    pub fn read(&self, port: Port, va: u64, out: &mut [u8]) -> Result<(), MemFault> {
        self.read_as(port, va, out, true)
    }

    /// Reads what others may write meanwhile: that there is something newer breaks no rule.
    ///
    /// # Errors
    /// A page is not mapped.
    pub fn look(&self, port: Port, va: u64, out: &mut [u8]) -> Result<(), MemFault> {
        self.read_as(port, va, out, false)
    }

    fn read_as(
        &self,
        port: Port,
        va: u64,
        out: &mut [u8],
        is_checked: bool,
    ) -> Result<(), MemFault> {
        let bytes = out.len();
        self.pages(port, Access::Read, va, bytes, |at, range, part| {
            let va = va.wrapping_add(part.start as u64);
            let out = &mut out[part];
            let (mut states, mut none) = (at.object.states(), State::default());
            let state = state_for(&mut states, &mut none, at, port);
            state.ready_to_read(at, port);
            if is_checked {
                state.check(at, port, va, &range);
            }
            state.read(at, port, range.start, out);
            state.touch(at, port, &range);
        })
    }

    fn change(
        &self,
        port: Port,
        va: u64,
        bytes: usize,
        mut apply: impl FnMut(Frame, usize, Range<usize>),
    ) -> Result<(), MemFault> {
        self.pages(port, Access::Write, va, bytes, |at, range, part| {
            let (mut states, mut none) = (at.object.states(), State::default());
            let state = state_for(&mut states, &mut none, at, port);
            let start = range.start;
            state.write(at, port, &range, &mut |frame| {
                apply(frame, start, part.clone());
            });
        })
    }

    /// Writes.
    ///
    /// # Errors
    /// A page is not mapped, or not with that right.
    pub fn write(&self, port: Port, va: u64, data: &[u8]) -> Result<(), MemFault> {
        self.change(port, va, data.len(), |frame, offset, part| {
            frame.write(offset, &data[part]);
        })
    }

    /// Changes the 4 or 8 bytes at `va`, which is a multiple of that, in one step that nobody can
    /// split. Returns what was there.
    ///
    /// # Errors
    /// The page is not mapped, or not with that right.
    pub fn atomic(
        &self,
        port: Port,
        va: u64,
        bytes: usize,
        new: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, MemFault> {
        let mut old = 0;
        self.change(port, va, bytes, |frame, offset, _| {
            old = frame.update(offset, bytes, new);
        })?;
        Ok(old)
    }

    /// Copies `bytes` from `from` to `to`, in order.
    ///
    /// # Errors
    /// A page is not mapped, or not with that right.
    pub fn copy(&self, port: Port, from: u64, to: u64, bytes: u64) -> Result<(), MemFault> {
        let mut buffer = vec![0; bytes.min(1 << 18) as usize];
        let mut done = 0;
        while done < bytes {
            let here = (bytes - done).min(buffer.len() as u64);
            let part = &mut buffer[..here as usize];
            self.read(port, from.wrapping_add(done), part)?;
            self.write(port, to.wrapping_add(done), part)?;
            done += here;
        }
        Ok(())
    }

    /// Acts on the caches of its XCCs. `who` names the packet, for reports.
    pub fn caches(&self, act: Caches, who: &str) {
        self.caches_on(u32::MAX, act, who);
    }

    /// Acts on the caches of those of its XCCs that have a bit in a mask.
    pub(crate) fn caches_on(&self, mask: u32, act: Caches, who: &str) {
        for (xcc, gmc) in self.xccs.iter().enumerate() {
            if mask >> xcc & 1 == 1 {
                gmc.act(act, who);
            }
        }
    }

    /// The HDP flush: what the client has written to VRAM through the BAR becomes memory.
    pub fn hdp_flush(&self, who: &str) {
        self.home.hdp_flush(who);
    }

    /// A doorbell of this process was rung.
    pub(crate) fn ring(&self) {
        for (_, _, object) in self.table().ranges() {
            if object.public() {
                object.home.ring();
            }
        }
    }

    /// Reports memory of this process that the host may look at and that GL2 of the GPU still holds
    /// dirty. To be asked when the host is told that work is done and nothing of it is left to run.
    pub fn host_visible_dirty(&self, who: &str) {
        // Held meanwhile: tables are locked before pages, everywhere.
        let table = self.table();
        for gmc in self.home.package() {
            gmc.host_visible_dirty(who, |object| {
                table.ranges().any(|(_, _, mapped)| mapped.id == object.id)
            });
        }
    }
}

/// The state of a page; `none` where it has none and an access by that port leaves none.
fn state_for<'a>(
    states: &'a mut HashMap<u64, State>,
    none: &'a mut State,
    at: &At,
    port: Port,
) -> &'a mut State {
    match states.entry(at.page) {
        hash_map::Entry::Occupied(state) => state.into_mut(),
        hash_map::Entry::Vacant(_) if !at.held_by(port) => none,
        hash_map::Entry::Vacant(vacant) => vacant.insert(State::default()),
    }
}

/// An access that memory refuses, for this reason or that.
fn fault(port: Port, va: u64, access: Access) -> impl Fn(FaultKind) -> MemFault + Copy {
    move |kind| MemFault {
        va,
        access,
        port,
        kind,
    }
}

/// The way of a launch to memory. While it lives, every page that it handed out stays alive.
pub struct Launch<'a> {
    vm: &'a Vm,
    who: Arc<str>,
    number: u64,
}

impl Memory for Launch<'_> {
    fn page(&self, port: Port, va: u64, access: Access) -> Result<Page, MemFault> {
        let fault = fault(port, va, access);
        let entry = self.vm.find(va, access).map_err(fault)?;
        let frame = entry.frame().map_err(fault)?;
        let mut at = self.vm.at(&entry, frame, &self.who, self.number);
        let several = at.gmc.several();
        let port = match (port, access) {
            // An atomic operation, or a store of system scope: only where GL2s are several, or memory is the
            // host's, is it more than a store.
            (Port::Cp, Access::Write) if !several && !at.scoped() => Port::Vector,
            _ => port,
        };
        // SAFETY: the object lives while it is mapped, and then in `leaving` until no launch of the
        // GPU runs; this one does. Copies and masks live as long as the object, but for the one of
        // memory below GL2, which stays while a launch of the GPU runs.
        let hand_out = |frame: Frame, mask| unsafe { hand_out(frame, mask) };
        let meets = at.cached() && (several || at.scoped());
        if (port, access) == (Port::Cp, Access::Read) && at.in_gl2() {
            let mut states = entry.object.states();
            let state = states.entry(entry.page).or_default();
            state.settle(&at);
            return Ok(hand_out(state.gl2(&at, at.gmc.index).0, None).watching(!0));
        }
        let guessed = match access {
            Access::Write => at.gmc.guesses.runs(entry.object.id, va),
            Access::Read | Access::Execute => 0,
        };
        if !(at.held_by(port) || meets) {
            return Ok(hand_out(frame, None).watching(guessed));
        }
        let mut states = entry.object.states();
        let state = states.entry(entry.page).or_default();
        if meets {
            if port == Port::Cp {
                state.share(&at, &self.vm.home.package());
            }
            if state.shared(&at) {
                state.land(&at);
                at.mtype = Mtype::Uc;
            }
        }
        if access == Access::Write {
            let (frame, mask, announce) = state.ready_to_write(&at);
            let watch = if announce { !0 } else { guessed };
            return Ok(hand_out(frame, mask).watching(watch));
        }
        state.ready_to_read(&at, port);
        let watch = state.stale_runs(&at, port);
        let page = hand_out(state.shown(&at, port), None).watching(watch);
        Ok(match state.touched(&at, port) {
            // SAFETY: it lives as long as the object, which `hand_out` has a word on.
            Some(touched) => unsafe { page.touching(touched) },
            None => page,
        })
    }

    fn epoch(&self) -> &AtomicU64 {
        self.vm.gmc.epoch()
    }

    fn watched(&self, port: Port, va: u64, bytes: usize, access: Access, _own: bool) {
        let Ok(entry) = self.vm.find(va, access) else {
            return;
        };
        let Ok(frame) = entry.frame() else {
            return;
        };
        let mut at = self.vm.at(&entry, frame, &self.who, self.number);
        if (port, access) == (Port::Cp, Access::Write) {
            let addresses = va..va.saturating_add(bytes as u64);
            at.gmc.guesses.prove(entry.object.id, addresses);
        }
        let mut states = entry.object.states();
        let Some(state) = states.get_mut(&entry.page) else {
            return;
        };
        if state.shared(&at) {
            at.mtype = Mtype::Uc;
        }
        let offset = (va % PAGE) as usize;
        let range = offset..(offset + bytes).min(PAGE as usize);
        if access == Access::Write {
            state.stored(&at, &range);
        } else if port == Port::Cp && at.in_gl2() {
            // What GL2 does not hold of it, others may have changed.
            state.settle(&at);
        } else {
            state.ready_to_read(&at, port);
            state.check(&at, port, va, &range);
        }
    }

    fn gws(&self) -> Option<&Gws> {
        Some(&self.vm.home.gws)
    }

    fn leaves(&self, va: u64) -> bool {
        let Ok(entry) = self.vm.find(va, Access::Write) else {
            return false;
        };
        let Ok(frame) = entry.frame() else {
            return false;
        };
        let at = self.vm.at(&entry, frame, &self.who, self.number);
        !at.home() && !at.cached()
    }

    fn invalidate(&self, port: Port, system: bool) {
        let cache = match port {
            Port::Vector => Cache::Vector,
            Port::Scalar => Cache::Scalar,
            Port::Inst => Cache::Inst,
            Port::Cp | Port::Sdma => return,
        };
        self.vm.gmc.invalidate(cache);
        // CDNA3 ISA, BUFFER_INV: with several L2s it also drops what L2 holds of other memory. LLVM AMDGPUUsage,
        // GFX12, global_inv at system scope: so it does of memory that is not coherent, which is all here.
        if cache == Cache::Vector && (system || self.vm.gmc.several()) {
            let l2_inv = Caches {
                l2_inv: true,
                ..Caches::default()
            };
            self.vm.gmc.act(l2_inv, &self.who);
        }
    }

    fn write_back(&self, system: bool) {
        // CDNA3 ISA, BUFFER_WBL2: the agent's scope matters where there are several L2s.
        if system || self.vm.gmc.several() {
            self.vm.gmc.write_back(&self.who);
        }
    }
}

impl Drop for Launch<'_> {
    fn drop(&mut self) {
        self.vm.gmc.end();
    }
}
