//! Packets by which the kernel driver maps queues (KIQ).

use drivers_spec::amd::pm4::{NOP, NOP_PAD, WRITE_DATA};
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::{ME, Map, map};
use crate::pci::hqd::{self, Bank};
use crate::pci::state::State;

/// Packets of this queue are few.
pub static PACKET: Rule = Rule {
    name: "GFX-KIQ-PACKET",
    text: "the queue that maps others (KIQ) receives whole packets: MAP_QUEUES and UNMAP_QUEUES of one queue each, \
           SET_RESOURCES, WRITE_DATA to one register, NOP",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/gfx_v11_0.c, gfx11_kiq_map_queues, gfx11_kiq_unmap_queues, gfx11_kiq_set_resources, gfx_v11_0_ring_emit_wreg",
    proof: Proof::Sourced,
};

/// Of this queue alone: Linux, soc15d.h.
const SET_RESOURCES: u8 = 0xa0;
const MAP_QUEUES: u8 = 0xa2;
const UNMAP_QUEUES: u8 = 0xa3;

/// Which kind of queue a packet is of (`ENGINE_SEL`).
const COMPUTE: u32 = 0;
const GRAPHICS: u32 = 4;
const SCHEDULER: u32 = 5;

/// Takes packets.
pub(super) fn take(state: &mut State, mut words: &[u32]) -> Result<(), Broken> {
    while let Some((&header, rest)) = words.split_first() {
        let op = (header >> 8) as u8;
        let body = match header {
            NOP_PAD => 0,
            _ => (header >> 16 & 0x3fff) as usize + 1,
        };
        if header >> 30 != 3 || body > rest.len() {
            let left = rest.len();
            return Err((&PACKET, format!("{header:#x} before {left} dwords")));
        }
        let (body, rest) = rest.split_at(body);
        one(state, op, body)?;
        words = rest;
    }
    Ok(())
}

fn one(state: &mut State, op: u8, body: &[u32]) -> Result<(), Broken> {
    match (op, body) {
        // Which queues it may give away itself: it gives none.
        (NOP, _) | (SET_RESOURCES, [_, _, _, _, _, _, _]) => Ok(()),
        // To a register, one word.
        (WRITE_DATA, [control, register, 0, value]) if control >> 8 & 0xf == 0 => {
            state.write(u64::from(*register), *value)
        }
        (MAP_QUEUES, [control, doorbell, low, high, _, _]) if control >> 29 == 1 => {
            let field = |shift: u32, mask: u32| control >> shift & mask;
            let me = match field(26, 7) {
                COMPUTE => 1,
                SCHEDULER => ME,
                GRAPHICS => {
                    let what = "a queue for graphics is mapped: not modelled";
                    state.journal.event(what.into());
                    return Ok(());
                }
                other => return Err((&PACKET, format!("MAP_QUEUES of engine {other}"))),
            };
            let bank = Bank {
                me,
                pipe: field(16, 3),
                queue: field(13, 7),
            };
            let mqd = u64::from(*high) << 32 | u64::from(*low);
            let doorbell = doorbell >> 2 & 0x03ff_ffff;
            map(
                state,
                Map {
                    bank,
                    mqd,
                    doorbell,
                },
            )
        }
        (UNMAP_QUEUES, [control, doorbell, _, _, _]) if control >> 29 == 1 => {
            let doorbell = u64::from(doorbell >> 2 & 0x03ff_ffff) * 4;
            hqd::unmap(state, |_, bell| bell == doorbell);
            Ok(())
        }
        _ => Err((&PACKET, format!("packet {op:#x} with {body:x?}"))),
    }
}
