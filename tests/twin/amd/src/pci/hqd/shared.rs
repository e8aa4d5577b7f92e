//! Queues that several XCCs have: AQL runs on all of a partition, each of which reads the ring and does its share.
//! What runs behind them is one queue of the twin, which starts when the last XCC has it.

use drivers_spec::amd::mmio::gc;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::view::View;
use super::{Active, Bank};
use crate::gpu::QueueId;
use crate::pci::engines::Wanted;
use crate::pci::state::State;

/// XCCs share the work of a queue.
pub static SHARED: Rule = Rule {
    name: "GFX-AQL-XCCS",
    text: "an AQL queue of MI300X is active in the same slot of every XCC of its partition before its doorbell, with \
           the same ring, pointers and doorbell; the descriptors are cp_mqd_stride_size apart, have \
           compute_current_logic_xcc_id 0, 1, ... and compute_tg_chunk_size 1, and only the first XCC has no \
           NO_UPDATE_RPTR",
    source: "Linux, drivers/gpu/drm/amd/amdkfd/kfd_mqd_manager_v9.c, init_mqd_v9_4_3 and load_mqd_v9_4_3",
    proof: Proof::Sourced,
};

/// XCCs know which of them are one GPU.
pub static PARTITION: Rule = Rule {
    name: "GFX-XCP",
    text: "queues of MI300X are activated after SPATIAL_PART of the PSP has made all XCCs one GPU: other partitions are \
           not modelled",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/gfx_v9_4_3.c, gfx_v9_4_3_cp_resume: switches the partition mode where it is not known; CP_HYP_XCP_CTL",
    proof: Proof::Sourced,
};

/// Starts the queue in a slot once all XCCs have it, if they have the same.
pub(super) fn start(state: &mut State, bank: Bank) {
    let all = state.graphics.xccs.iter();
    let all = all.map(|xcc| xcc.hqds.get(&bank).and_then(|hqd| hqd.active));
    let Some(all) = all.collect::<Option<Vec<_>>>() else {
        return;
    };
    let Some(first) = all.first() else { return };
    let same = |other: &Active| {
        other.queue.is_none()
            && Wanted {
                place: 0,
                eop: first.wanted.eop,
                ..other.wanted
            } == first.wanted
    };
    if !all.iter().all(same) {
        return;
    }
    let queue = state.engines.start(&first.wanted);
    for xcc in &mut state.graphics.xccs {
        let active = xcc.hqds.get_mut(&bank).and_then(|hqd| hqd.active.as_mut());
        active.into_iter().for_each(|active| active.queue = queue);
    }
}

/// Nothing of a queue runs any more. Where it was stays in the registers of all that have it.
pub(super) fn halt(state: &mut State, queue: QueueId) {
    let pointers = state.engines.pointers(queue);
    state.engines.stop(queue);
    let (rptr, wptr) = pointers.unwrap_or_default();
    let registers = &state.registers;
    for (xcc, of) in state.graphics.xccs.iter_mut().enumerate() {
        let slots = of.hqds.values_mut();
        for hqd in slots.filter(|hqd| hqd.active.is_some_and(|active| active.queue == Some(queue)))
        {
            for (reg, value) in [
                (&gc::CP_HQD_PQ_RPTR, rptr as u32),
                (&gc::CP_HQD_PQ_WPTR_LO, wptr as u32),
                (&gc::CP_HQD_PQ_WPTR_HI, (wptr >> 32) as u32),
            ] {
                let dword = registers.place(reg, xcc as u8);
                hqd.words.extend(dword.map(|dword| (dword, value)));
            }
            if let Some(active) = &mut hqd.active {
                active.queue = None;
            }
        }
    }
}

impl View<'_> {
    /// XCCs of one GPU, each of which knows its number there.
    pub(super) fn check_partition(&self) -> Result<(), Broken> {
        let xccs = self.state.graphics.xccs.len() as u32;
        let field = |name| self.state.field(&gc::CP_HYP_XCP_CTL, self.xcc, name);
        let (number, of) = (field("virtual_xcc_id"), field("num_xcc_in_xcp"));
        if xccs == 1 || (number, of) == (self.xcc.into(), xccs) {
            return Ok(());
        }
        let xcc = self.xcc;
        let what = format!("XCC {xcc} of {xccs} has CP_HYP_XCP_CTL of number {number} of {of}");
        Err((&PARTITION, what))
    }

    /// What the descriptors of a queue that XCCs share have, beside its registers.
    pub(super) fn check_share(&self, words: &[u32]) -> Result<(), Broken> {
        // compute_current_logic_xcc_id, compute_tg_chunk_size, cp_mqd_stride_size.
        let (logic, chunk, stride) = (words[0x27], words[0x29], u64::from(words[0xe2]));
        let here = self.descriptor();
        let xcc = self.xcc;
        let is_silent = self.field(&gc::CP_HQD_PQ_CONTROL, "no_update_rptr") == 1;
        let first = self.first_descriptor();
        let apart = first.is_some_and(|first| first + stride * u64::from(xcc) == here);
        if (logic, chunk) == (xcc.into(), 1) && apart && is_silent == (xcc != 0) {
            return Ok(());
        }
        let what = format!(
            "XCC {xcc}: number {logic}, chunks of {chunk}, {here:#x} with a stride of {stride:#x} from {first:#x?}, {}",
            if is_silent {
                "NO_UPDATE_RPTR"
            } else {
                "which updates RPTR"
            }
        );
        Err((&SHARED, what))
    }

    /// Where the descriptor of the first XCC is, of the queue that this one has.
    fn first_descriptor(&self) -> Option<u64> {
        let hqd = self.state.graphics.xccs.first()?.hqds.get(&self.bank)?;
        let view = View {
            hqd,
            xcc: 0,
            ..*self
        };
        Some(view.descriptor())
    }
}
