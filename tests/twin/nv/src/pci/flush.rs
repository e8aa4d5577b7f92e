//! The page with which the card flushes what it has written to memory of the host.
//!
//! Source: OGKM, kern_mem_sys_ga100.c, kmemsysInitFlushSysmemBuffer_GA100: a flush may read it at any time, so that it must be
//! there; kmemsysProgramSysmemFlushBuffer_GA100: its registers.

use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::registers::{PFB_FLUSH_SYSMEM, PFB_FLUSH_SYSMEM_HI};
use super::state::State;

static FLUSH: Rule = Rule {
    name: "NV-PFB-FLUSH-PAGE",
    text: "when a processor is reset, and as long as GSP's firmware runs, NISO_FLUSH_SYSMEM_ADDR is the address, not 0, of \
           memory that is mapped for the card; from Hopper on PCIE_FLUSH_SYSMEM_ADDR is, whose LO is written after HI, and when FSP \
           starts GSP",
    source: "OGKM, kern_mem_sys.c, kmemsysConstructEngine_IMPL: very early, for resets of falcons; kern_mem_sys_ga100.c, \
             kmemsysInitFlushSysmemBuffer_GA100: valid and allocated at all times; kern_mem_sys_gh100.c and kern_mem_sys_gb10b.c, \
             kmemsysProgramSysmemFlushBuffer; Linux, nova-core/fb.rs, SysmemFlush; fb/hal/gh100.rs: Write HI first",
    proof: Proof::Sourced,
};

/// Whether the page is there.
pub(super) fn check(state: &State, when: &str) -> Result<(), Broken> {
    let low = u64::from(state.held(PFB_FLUSH_SYSMEM)) << 8;
    // ADR_63_40 has 24 bits.
    let at = match state.config.chip.fsp {
        None => low | u64::from(state.held(PFB_FLUSH_SYSMEM_HI) & 0xff_ffff) << 40,
        Some(_) => state.fsp.page(),
    };
    match at != 0 && state.bus.find(at).is_some() {
        true => Ok(()),
        false => Err((&FLUSH, format!("{when}: it is {at:#x}"))),
    }
}
