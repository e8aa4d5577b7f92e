//! What the registers of a queue say: whether it can run, and how.

use drivers_spec::amd::mmio::{Reg, gc};
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::{Bank, Hqd};
use crate::cp::dispatch::{PRIVATE_APERTURE, SHARED_APERTURE};
use crate::gpu::QueueKind;
use crate::pci::engines::Wanted;
use crate::pci::mes;
use crate::pci::state::State;

/// What a queue cannot be without.
pub static NEEDS: Rule = Rule {
    name: "GFX-HQD-NEEDS",
    text: "an active queue has a ring of at least 1024 bytes, addresses for its read and write pointer, an end-of-pipe buffer, and equal read and write pointers",
    source: "Linux, gfx_v11_0.c, gfx_v11_0_compute_mqd_init",
    proof: Proof::Sourced,
};

/// Its doorbell reaches it.
pub static DOORBELL: Rule = Rule {
    name: "GFX-HQD-DOORBELL",
    text: "the doorbell of a queue is enabled, belongs to this queue only, and is within CP_MEC_DOORBELL_RANGE",
    source: "Linux, gfx_v11_0.c, gfx_v11_0_compute_mqd_init, gfx_v11_0_cp_set_doorbell_range",
    proof: Proof::Sourced,
};

/// Shaders need to know where LDS and scratch are.
pub static APERTURES: Rule = Rule {
    name: "GFX-SH-MEM",
    text: "the VMID of a queue has addresses of 64 bits and unaligned accesses in SH_MEM_CONFIG, and the apertures of LDS and scratch in SH_MEM_BASES",
    source: "Linux, gfx_v11_0.c, DEFAULT_SH_MEM_CONFIG; gfx_v11_0_init_compute_vmid, LDS_APP_BASE, SCRATCH_APP_BASE",
    proof: Proof::Sourced,
};

/// What the registers of a queue say.
pub(super) struct View<'a> {
    pub(super) state: &'a State,
    pub(super) hqd: &'a Hqd,
    pub(super) xcc: u8,
    pub(super) bank: Bank,
}

impl View<'_> {
    pub(super) fn get(&self, reg: &Reg) -> u32 {
        let dword = self.state.registers.place(reg, self.xcc);
        let word = dword.and_then(|dword| self.hqd.words.get(&dword));
        word.copied().unwrap_or(0)
    }

    pub(super) fn field(&self, reg: &Reg, name: &str) -> u32 {
        self.state.field_of(reg, self.get(reg), name)
    }

    pub(super) fn wide(&self, low: &Reg, high: &Reg) -> u64 {
        u64::from(self.get(low)) | u64::from(self.get(high)) << 32
    }

    /// Where its descriptor is.
    pub(super) fn descriptor(&self) -> u64 {
        self.wide(&gc::CP_MQD_BASE_ADDR, &gc::CP_MQD_BASE_ADDR_HI)
    }

    /// The byte of BAR 2 that rings it.
    pub(super) fn doorbell(&self) -> u64 {
        let reg = &gc::CP_HQD_PQ_DOORBELL_CONTROL;
        u64::from(self.field(reg, "doorbell_offset")) * 4
    }

    pub(super) fn wanted(&self) -> Result<Wanted, Broken> {
        let needs = |what: String| Err((&NEEDS, what));
        let ring = self.wide(&gc::CP_HQD_PQ_BASE, &gc::CP_HQD_PQ_BASE_HI) << 8;
        let bytes = 8u64 << self.field(&gc::CP_HQD_PQ_CONTROL, "queue_size");
        if ring == 0 || bytes < 1024 {
            return needs(format!("a ring of {bytes:#x} bytes at {ring:#x}"));
        }
        let rptr = self.wide(
            &gc::CP_HQD_PQ_RPTR_REPORT_ADDR,
            &gc::CP_HQD_PQ_RPTR_REPORT_ADDR_HI,
        );
        let wptr = self.wide(
            &gc::CP_HQD_PQ_WPTR_POLL_ADDR,
            &gc::CP_HQD_PQ_WPTR_POLL_ADDR_HI,
        );
        if rptr == 0 || wptr == 0 {
            return needs(format!(
                "the read pointer at {rptr:#x}, the write pointer at {wptr:#x}"
            ));
        }
        let eop = self.wide(&gc::CP_HQD_EOP_BASE_ADDR, &gc::CP_HQD_EOP_BASE_ADDR_HI) << 8;
        let eop_bytes = 8u64 << self.field(&gc::CP_HQD_EOP_CONTROL, "eop_size");
        // The scheduler's come from its descriptor alone.
        if eop == 0 && self.bank.me != mes::ME {
            return needs("no end-of-pipe buffer".into());
        }
        let from = u64::from(self.get(&gc::CP_HQD_PQ_RPTR));
        let to = self.wide(&gc::CP_HQD_PQ_WPTR_LO, &gc::CP_HQD_PQ_WPTR_HI);
        if from != to {
            return needs(format!("read pointer {from:#x}, write pointer {to:#x}"));
        }
        let aql = self.field(&gc::CP_HQD_PQ_CONTROL, "slot_based_wptr") != 0;
        Ok(Wanted {
            kind: if aql { QueueKind::Aql } else { QueueKind::Pm4 },
            place: self.xcc.into(),
            vmid: self.field(&gc::CP_HQD_VMID, "vmid"),
            ring: (ring, bytes),
            rptr,
            wptr,
            eop: (eop, eop_bytes),
            from,
            doorbell: self.doorbell(),
            ring_id: {
                let Bank { me, pipe, queue } = self.bank;
                pipe | me << 2 | queue << 4
            },
        })
    }

    /// Of a queue that XCCs share the doorbell is in the range of the first: each has a range of its own.
    pub(super) fn check_doorbell(&self, wanted: &Wanted) -> Result<(), Broken> {
        let control = &gc::CP_HQD_PQ_DOORBELL_CONTROL;
        let first = match wanted.kind {
            QueueKind::Aql => 0,
            _ => self.xcc,
        };
        let limit = |reg: &Reg| u64::from(self.state.registers.get(reg, first) & 0x0fff_fffc);
        let (low, high) = (
            limit(&gc::CP_MEC_DOORBELL_RANGE_LOWER),
            limit(&gc::CP_MEC_DOORBELL_RANGE_UPPER),
        );
        let bell = self.doorbell();
        let enabled = self.field(control, "doorbell_en") == 1;
        if !enabled || !(low..=high).contains(&bell) {
            let how = if enabled { "enabled" } else { "not enabled" };
            let what = format!("{how}, at byte {bell:#x}, in a range from {low:#x} to {high:#x}");
            return Err((&DOORBELL, what));
        }
        let mut others = self.state.graphics.xccs[usize::from(self.xcc)]
            .hqds
            .values();
        let same = |other: &Hqd| {
            let other = View {
                hqd: other,
                ..*self
            };
            other.hqd.active.is_some() && other.doorbell() == bell
        };
        if others.any(same) {
            let what = format!("byte {bell:#x} is the doorbell of another queue");
            return Err((&DOORBELL, what));
        }
        Ok(())
    }

    pub(super) fn check_memory(&self, vmid: u32) -> Result<(), Broken> {
        let [config, bases] = self.state.graphics.xccs[usize::from(self.xcc)].memory(vmid);
        let field = |name| self.state.field_of(&gc::SH_MEM_CONFIG, config, name);
        /// `SH_MEM_ALIGNMENT_MODE_UNALIGNED`.
        const UNALIGNED: u32 = 3;
        let wide = field("address_mode") == 0 && field("alignment_mode") == UNALIGNED;
        let apertures = SHARED_APERTURE & 0xffff_0000 | PRIVATE_APERTURE >> 16;
        if wide && bases == apertures {
            return Ok(());
        }
        let what = format!("VMID {vmid}: SH_MEM_CONFIG {config:#x}, SH_MEM_BASES {bases:#x}");
        Err((&APERTURES, what))
    }
}
