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
           memory that is mapped for the card",
    source: "OGKM, kern_mem_sys.c, kmemsysConstructEngine_IMPL: very early, for resets of falcons; kern_mem_sys_ga100.c, \
             kmemsysInitFlushSysmemBuffer_GA100: valid and allocated at all times; Linux, nova-core/fb.rs, SysmemFlush",
    proof: Proof::Sourced,
};

/// Whether the page is there.
pub(super) fn check(state: &State, when: &str) -> Result<(), Broken> {
    let low = u64::from(state.held(PFB_FLUSH_SYSMEM)) << 8;
    // ADR_63_40 has 24 bits.
    let at = low | u64::from(state.held(PFB_FLUSH_SYSMEM_HI) & 0xff_ffff) << 40;
    match at != 0 && state.bus.find(at).is_some() {
        true => Ok(()),
        false => Err((&FLUSH, format!("{when}: it is {at:#x}"))),
    }
}
