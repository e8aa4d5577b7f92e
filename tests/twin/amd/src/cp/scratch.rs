//! Scratch of AQL dispatches: what the queue has, and what the command processor asks the runtime for.

use drivers_spec::amd::aql::{self, dispatch, inactive};
use drivers_spec::amd::kd::KernelDescriptor;
use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::regs;
use twin::rule::{Proof, Rule};

use super::aql::Slot;
use super::dispatch::Scratch;
use super::{Cx, Stop, exception};

/// Scratch is enough, or somebody can be asked.
pub static PRIVATE_SIZE: Rule = Rule {
    name: "AQL-PRIVATE-SIZE",
    text: "private_segment_size is at least what the descriptor states, and for all lanes of a wave at most the scratch \
           of the queue (scratch_wave64_lane_byte_size x 64), unless a queue_inactive_signal lets CP request more",
    source: "ROCR, amd_aql_queue.cpp, DynamicQueueEventsHandler; inc/amd_hsa_queue.h",
    proof: Proof::Sourced,
};

/// What a dispatch needs.
pub(crate) struct Need {
    /// Bytes of a lane.
    private: u32,
    /// What its descriptor says.
    fixed: u32,
    wave32: bool,
    grid: [u32; 3],
    /// The kernel is set up to use it.
    enabled: bool,
}

impl Need {
    pub fn of(slot: &Slot, descriptor: &KernelDescriptor, wave32: bool, grid: [u32; 3]) -> Self {
        let private = slot.u32(dispatch::PRIVATE_SEGMENT_SIZE);
        let enabled = regs::SCRATCH_EN.get(descriptor.compute_pgm_rsrc2.get()) == 1;
        Self {
            private,
            fixed: descriptor.private_segment_fixed_size.get(),
            wave32,
            grid,
            enabled: enabled && private > 0,
        }
    }

    /// Whether it fits what a lane of a wave of 64 has.
    fn fits(&self, lane: u32) -> bool {
        let lanes = if self.wave32 { 32 } else { 64 };
        u64::from(self.private) * lanes <= u64::from(lane) * 64
    }

    /// The value of `queue_inactive_signal` that asks for it.
    pub fn asks(&self) -> u64 {
        if self.wave32 {
            inactive::SCRATCH_WAVE32
        } else {
            inactive::SCRATCH_WAVE64
        }
    }

    /// The scratch of the queue for packet `id`, or none: then somebody is to be asked. Where the queue's
    /// own is too small there may be a second one, for grids that are not too large.
    pub fn find(&self, cx: &Cx, queue: u64, id: u64) -> Result<Option<Scratch>, Stop> {
        use aql::queue as at;
        let word = |at: usize| cx.read32(queue + at as u64);
        let (lane, signal) = (
            word(at::SCRATCH_WAVE64_LANE_BYTE_SIZE)?,
            cx.read64(queue + at::QUEUE_INACTIVE_SIGNAL as u64)?,
        );
        if self.private < self.fixed || !self.fits(lane) && signal == 0 {
            let Self { private, fixed, .. } = self;
            let what = format!(
                "{private} bytes; the descriptor says {fixed}, the queue has {lane} for a lane of 64, and \
                 queue_inactive_signal is {signal:#x}"
            );
            return Err(Stop::Rule {
                rule: &PRIVATE_SIZE,
                what,
                code: exception::PACKET_DISPATCH_REGISTER_INVALID,
            });
        }
        let places = [
            (
                at::COMPUTE_TMPRING_SIZE,
                at::SCRATCH_BACKING_MEMORY_LOCATION,
                at::SCRATCH_LAST_USED_INDEX,
            ),
            (
                at::ALT_COMPUTE_TMPRING_SIZE,
                at::ALT_SCRATCH_BACKING_MEMORY_LOCATION,
                at::ALT_SCRATCH_LAST_USED_INDEX,
            ),
        ];
        let reclaims = cx.core.chip.reclaims_scratch();
        let (tmpring, base, last) = if self.fits(lane) {
            places[0]
        } else if reclaims && self.fits_second(cx, queue)? {
            places[1]
        } else {
            return Ok(None);
        };
        if !self.enabled {
            return Ok(Some(Scratch::default()));
        }
        if reclaims {
            cx.write(queue + last as u64, &id.to_le_bytes())?;
        }
        let base = cx.read64(queue + base as u64)?;
        Scratch::new(cx, word(tmpring)?, base, cx.core.chip.xccs).map(Some)
    }

    fn fits_second(&self, cx: &Cx, queue: u64) -> Result<bool, Stop> {
        use aql::queue as at;
        let word = |at: usize| cx.read32(queue + at as u64);
        for (i, &grid) in self.grid.iter().enumerate() {
            if grid > word(at::ALT_SCRATCH_DISPATCH_LIMIT + 4 * i)? {
                return Ok(false);
            }
        }
        Ok(self.fits(word(at::ALT_SCRATCH_WAVE64_LANE_BYTE_SIZE)?))
    }
}

/// Dword 3 of the buffer resource of scratch as a kernel gets it: from GFX10 on waves have 32 or 64 lanes, and
/// CP fills in INDEX_STRIDE.
///
/// Source: ROCR, amd_aql_queue.cpp, FillBufRsrcWord3_Gfx10 and later, INDEX_STRIDE: filled in by CP.
pub(crate) fn resource3(gfx: Gfx, word: u32, wave32: bool) -> u32 {
    const INDEX_STRIDE: u32 = 3 << 21;
    match gfx {
        Gfx::Gfx9 => word,
        Gfx::Gfx10 | Gfx::Gfx11 | Gfx::Gfx12 => {
            // log2 of the lanes, less 3.
            let stride = if wave32 { 2 } else { 3 };
            word & !INDEX_STRIDE | stride << 21
        }
    }
}
