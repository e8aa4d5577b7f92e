//! [`NvMmu`]: TLB invalidation, and flushes of what the host writes to VRAM.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/mmu/arch/turing/kern_gmmu_tu102.c
//! (`kgmmuCommitTlbInvalidate_TU102`, `kgmmuCheckPendingInvalidates_TU102`,
//! `kgmmuSetTlbInvalidateMembarWarParameters_TU102`).

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_gpu::bare::{Function, Mmu};
use drivers_spec::nv::pci_regs::{NV_VIRTUAL_FUNCTION_PRIV_MMU_INVALIDATE, mmu_invalidate};
use hcq::GpuVa;
use hcq::addr::VramAddr;
use hcq::sync::lock;
use hcq::transport::TransportError;

use crate::gsp::pages::Format;
use crate::gsp::{Card, Cause};

/// How long an invalidation may take. The vendor's driver allows 4 s and, where it repeats, a second.
const INVALIDATE: Duration = Duration::from_secs(4);

/// Has every TLB forget everything, once an invalidation that is under way (RM on GSP makes some, too) has ended, and waits
/// for that, and for accesses that are on their way to the host.
///
/// # Errors
/// The register's, with its last value.
pub(super) fn invalidate(card: &Card) -> Result<(), Cause> {
    let register = &NV_VIRTUAL_FUNCTION_PRIV_MMU_INVALIDATE;
    let all = mmu_invalidate::ALL_VA.put(1)
        | mmu_invalidate::ALL_PDB.put(1)
        | mmu_invalidate::SYS_MEMBAR.put(1)
        | mmu_invalidate::ACK.put(mmu_invalidate::ACK_GLOBALLY)
        | mmu_invalidate::TRIGGER.put(1);
    ended(card, "an earlier TLB invalidation to end")?;
    card.io().write(register, all)?;
    ended(card, "the TLB invalidation to end")
}

fn ended(card: &Card, what: &str) -> Result<(), Cause> {
    card.io()
        .poll(
            &NV_VIRTUAL_FUNCTION_PRIV_MMU_INVALIDATE,
            card.clock(),
            card.within(INVALIDATE),
            what,
            |value| value.get(mmu_invalidate::TRIGGER) == 0,
        )
        .map(drop)
        .map_err(Cause::Tlb)
}

/// What the addresses of a card go through.
pub(super) struct NvMmu {
    card: Arc<Card>,
    function: Function,
    /// Something that the host may read in VRAM.
    probe: VramAddr,
    /// One invalidation at a time.
    turn: Mutex<()>,
}

impl NvMmu {
    /// That of a card whose BAR1 shows VRAM.
    pub(super) fn new(card: &Arc<Card>, function: Function, probe: VramAddr) -> NvMmu {
        NvMmu {
            card: card.clone(),
            function,
            probe,
            turn: Mutex::new(()),
        }
    }
}

impl Mmu for NvMmu {
    type Format = Format;
    type Cause = Cause;

    const START: GpuVa = GpuVa(0);
    // Below the 40 bits of push buffers and QMDs, above what the driver has for itself.
    const ADDRESSES: RangeInclusive<u64> = 0x10_0000_0000..=0xff_ffff_ffff;

    fn function(&self) -> &Function {
        &self.function
    }

    fn format(&self) -> Format {
        Format::of(self.card.arch())
    }

    fn invalidate(&self) -> Result<(), Cause> {
        let _turn = lock(&self.turn);
        self.flush()?;
        invalidate(&self.card)
    }

    fn flush(&self) -> Result<(), TransportError> {
        // No read overtakes a write on its way to VRAM.
        let vram = self.function.vram();
        vram.flush()?;
        vram.load::<u32>(self.probe.0).map(drop)
    }

    fn post(&self) -> Result<(), TransportError> {
        self.function.vram().send()
    }
}
