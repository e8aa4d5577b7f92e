//! The descriptor of a queue in memory (MQD), from which the command processor takes what is not in registers.

use drivers_spec::amd::mmio::gc;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};
use twin_shader::page::Access;

use super::view::View;
use crate::gpu::QueueKind;
use crate::pci::engines::Wanted;

/// What a queue is loaded from says the same.
pub static MQD: Rule = Rule {
    name: "GFX-MQD",
    text: "the descriptor at CP_MQD_BASE_ADDR is complete when its queue gets its first work: header 0xc0310800, \
           compute units of every engine, and the registers of the queue from dword 128 on",
    source: "Linux, gfx_v11_0.c, gfx_v11_0_compute_mqd_init; CP_HQD_PERSISTENT_STATE.PRELOAD_REQ; include/v11_structs.h",
    proof: Proof::Sourced,
};

/// Dwords of an MQD that the registers of its queue come from, from its dword 128 on.
const FROM: usize = 0x80;
/// Dwords of an MQD.
const DWORDS: usize = 512;

impl View<'_> {
    /// The command processor loads the rest of the queue from memory.
    pub(super) fn load(&self, wanted: &Wanted) -> Result<(), Broken> {
        if self.field(&gc::CP_HQD_PERSISTENT_STATE, "preload_req") == 0 {
            return Ok(());
        }
        let at = self.descriptor();
        let broken = |what: String| Err((&MQD, format!("at {at:#x}: {what}")));
        let hub = self.state.hubs.gc(self.xcc.into());
        let to = hub.and_then(|hub| hub.translate(0, at, Access::Read).ok());
        let Some(to) = to else {
            return broken("nothing is mapped there".into());
        };
        let mut bytes = vec![0; DWORDS * 4];
        let who = "the command processor, which loads an MQD".into();
        if let Err(missing) = self.state.physical.read(to.place, &mut bytes, &who) {
            return broken(missing.to_string());
        }
        let words: Vec<_> = bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        /// `header` of `v11_compute_mqd`.
        const HEADER: u32 = 0xc031_0800;
        if words[0] != HEADER {
            return broken(format!("its header is {:#x}", words[0]));
        }
        // compute_static_thread_mgmt_se0 to 3.
        for dword in [0x17, 0x18, 0x1a, 0x1b] {
            if words[dword] == 0 {
                return broken(format!("dword {dword:#x}: an engine without compute units"));
            }
        }
        if wanted.kind == QueueKind::Aql && self.state.graphics.xccs.len() > 1 {
            self.check_share(&words)?;
        }
        // What the command processor writes itself.
        let own = [
            &gc::CP_HQD_ACTIVE,
            &gc::CP_HQD_DEQUEUE_REQUEST,
            &gc::CP_HQD_PQ_RPTR,
            &gc::CP_HQD_PQ_WPTR_LO,
            &gc::CP_HQD_PQ_WPTR_HI,
        ];
        let first = self.state.registers.place(&gc::CP_MQD_BASE_ADDR, self.xcc);
        for (dword, value) in &self.hqd.words {
            let Some(index) = first.and_then(|first| dword.checked_sub(first)) else {
                continue;
            };
            let slot = self.state.registers.slot(*dword);
            let is_own = slot.is_none_or(|slot| own.iter().any(|reg| slot.at.is(reg)));
            let word = words.get(FROM + index as usize);
            if !is_own && word.is_some_and(|word| word != value) {
                let name = slot.map_or("", |slot| slot.at.reg.word.name);
                let there = word.copied().unwrap_or(0);
                return broken(format!(
                    "{name} is {there:#x}, and {value:#x} in the register"
                ));
            }
        }
        Ok(())
    }
}
