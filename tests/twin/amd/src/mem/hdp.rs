//! The HDP: what the host writes to VRAM through the BAR, and when it becomes memory.
//!
//! The client maps a file of its own, the view through the BAR. What memory becomes shows there at
//! once; what the client writes there becomes memory at a flush.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hcq::sync::lock;

use super::cache::{At, Runs, State};
use super::gmc::Gmc;
use super::object::Object;
use super::table::Mtype;

impl Gmc {
    /// Flushes the HDP. `who` is what asked for it.
    pub(crate) fn hdp_flush(&self, who: &str) {
        let who: Arc<str> = format!("the host, through the HDP flush of {who}").into();
        self.mirror();
        for object in self.public() {
            for (start, end) in object.touched() {
                for page in start..end {
                    object.drain(page, &who);
                }
            }
        }
    }

    /// Flushes where the client has written the register in the page that it can map. Looked at when
    /// a GPU accesses memory, so that host writes between that store and this look count too.
    pub(crate) fn poll_remap(&self) {
        let (flush, flushes) = &self.flushing;
        // +0 is the flush of memory, +4 that of registers (ROCr, "HDP_MEM_FLUSH_CNTL").
        if self.remap.load64(0) as u32 == 0 && flushes.load(Ordering::SeqCst) == 0 {
            return;
        }
        // Who finds the register taken by another queue waits for the end of that flush: it may be its
        // own, which is done when the host has read the register back.
        flushes.fetch_add(1, Ordering::SeqCst);
        let held = lock(flush);
        if self.remap.swap32(0, 0) != 0 {
            self.hdp_flush("the MMIO_REMAP page");
        }
        drop(held);
        flushes.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Object {
    /// What the host has written to a page before a doorbell, and may have read back since, becomes memory.
    /// Looked at when a GPU accesses the page, so that what it writes between the doorbell and this look
    /// counts too.
    pub(crate) fn drain_rung(self: &Arc<Self>, page: u64) {
        let rung = self.home.rung();
        let drained = |state: &State| state.drained == rung;
        if rung == 0 || self.states().get(&page).is_some_and(drained) {
            return;
        }
        self.drain(page, &"the host, before it rang a doorbell".into());
        if let Some(state) = self.states().get_mut(&page) {
            state.drained = rung;
        }
    }

    /// What the host has written to a page through the BAR becomes memory.
    pub(crate) fn drain(self: &Arc<Self>, page: u64, who: &Arc<str>) {
        let (Some(bar), Some(frame)) = (self.bar(page), self.frame(page)) else {
            return;
        };
        let mut states = self.states();
        let mut none = State::default();
        let state = states.get_mut(&page).unwrap_or(&mut none);
        let memory = state.memory(frame);
        let bits: Runs = std::array::from_fn(|run| state.pending(bar, memory, run));
        if bits == [0; 64] {
            return;
        }
        let at = At {
            gmc: &self.home,
            object: self,
            page,
            frame,
            mtype: Mtype::Nc,
            who,
            launch: 0,
        };
        state.change_memory(&at, |run| bits[run], &mut |memory| {
            memory.copy_picked(bar, |run| bits[run])
        });
        state.took(frame, &bits);
    }
}
