//! Frames by which the kernel driver talks to the scheduler: 64 dwords each.
//!
//! Source: Linux, drivers/gpu/drm/amd/include/mes_v11_api_def.h: `enum MES_SCH_API_OPCODE`, and the places of what is in
//! each, which is packed to 4 bytes.

use drivers_spec::amd::discovery as ip;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::{Map, map, store};
use crate::pci::hqd::{self, Bank};
use crate::pci::state::State;

/// Frames are whole, and in order.
pub static FRAME: Rule = Rule {
    name: "GFX-MES-FRAME",
    text: "the scheduler (MES) receives whole frames of 64 dwords, SET_HW_RSRC before all others, with the blocks of \
           the card in its table of blocks",
    source: "Linux, drivers/gpu/drm/amd/include/mes_v11_api_def.h; mes_v11_0.c, mes_v11_0_hw_init, mes_v11_0_set_hw_resources",
    proof: Proof::Sourced,
};

/// `API_FRAME_SIZE_IN_DWORDS`.
const DWORDS: usize = 64;
/// `MES_API_TYPE_SCHEDULER`.
const SCHEDULER: u32 = 1;

const SET_HW_RSRC: u32 = 0;
const ADD_QUEUE: u32 = 2;
const REMOVE_QUEUE: u32 = 3;
const QUERY_SCHEDULER_STATUS: u32 = 11;
const MISC: u32 = 14;

/// What MISC does (`enum MESAPI_MISC_OPCODE`), and how it waits (`enum WRM_OPERATION`).
const WRITE_REG: u32 = 0;
const READ_REG: u32 = 3;
const WAIT_REG_MEM: u32 = 4;
const WRITE_THEN_WAIT: u32 = 1;
/// How often it looks at a register that it waits for: made up.
const LOOKS: usize = 10_000;

/// `MES_QUEUE_TYPE_COMPUTE`.
const COMPUTE: u32 = 1;

/// A frame, by bytes as the header has them.
struct Frame<'a>(&'a [u32]);

impl Frame<'_> {
    fn get(&self, byte: usize) -> u32 {
        self.0[byte / 4]
    }

    fn wide(&self, byte: usize) -> u64 {
        u64::from(self.get(byte + 4)) << 32 | u64::from(self.get(byte))
    }
}

/// Takes frames.
pub(super) fn take(state: &mut State, words: &[u32]) -> Result<(), Broken> {
    for words in words.chunks(DWORDS) {
        let header = words[0];
        let (kind, op, dwords) = (header & 0xf, header >> 4 & 0xff, header >> 12 & 0xff);
        let is_whole = words.len() == DWORDS && dwords as usize == DWORDS && kind == SCHEDULER;
        if !is_whole {
            let there = words.len();
            let what = format!("{header:#x} before {there} dwords");
            return Err((&FRAME, what));
        }
        if op != SET_HW_RSRC && !state.mes.has_resources {
            return Err((&FRAME, format!("command {op} before SET_HW_RSRC")));
        }
        one(state, op, &Frame(words))?;
    }
    Ok(())
}

/// Carries a frame out, and tells so where it says. What is not modelled is not told.
fn one(state: &mut State, op: u32, frame: &Frame) -> Result<(), Broken> {
    let (done, status) = match op {
        SET_HW_RSRC => {
            check_blocks(state, frame)?;
            state.mes.has_resources = true;
            (true, 200)
        }
        ADD_QUEUE => (add(state, frame)?, 148),
        REMOVE_QUEUE => (remove(state, frame), 20),
        QUERY_SCHEDULER_STATUS => (true, 8),
        MISC => (misc(state, frame)?, 8),
        _ => (false, 0),
    };
    if !done {
        let what = format!("the scheduler is given command {op}: not modelled as it is");
        state.journal.event(what);
        return Ok(());
    }
    let (at, value) = (frame.wide(status), frame.wide(status + 8));
    if at != 0 {
        store(state, at, &value.to_le_bytes());
    }
    Ok(())
}

/// The scheduler writes registers by where their blocks are.
fn check_blocks(state: &State, frame: &Frame) -> Result<(), Broken> {
    /// Where each begins, and how many segments Linux tells.
    const BLOCKS: [(&str, u16, usize); 3] = [
        ("GC", ip::GC, 104),
        ("MMHUB", ip::MMHUB, 136),
        ("OSSSYS", ip::OSSSYS, 168),
    ];
    const SEGMENTS: usize = 5;
    let contents = state.config.chip.contents();
    for (name, hw_id, at) in BLOCKS {
        let mut blocks = contents.blocks.iter();
        let bases = blocks.find(|block| block.hw_id == hw_id && block.instance == 0);
        let bases = bases
            .map(|block| block.bases.as_slice())
            .unwrap_or_default();
        for (segment, base) in bases.iter().take(SEGMENTS).enumerate() {
            let told = u64::from(frame.get(at + segment * 4));
            if told != *base {
                let what = format!("segment {segment} of {name} at {told:#x}, not at {base:#x}");
                return Err((&FRAME, what));
            }
        }
    }
    Ok(())
}

/// Maps a queue of the kernel's. Those that it schedules itself are not modelled.
fn add(state: &mut State, frame: &Frame) -> Result<bool, Broken> {
    let is_kernels = frame.get(144) >> 13 & 1 == 1;
    if !is_kernels || frame.get(108) != COMPUTE {
        return Ok(false);
    }
    let bank = Bank {
        me: 1,
        pipe: frame.get(192),
        queue: frame.get(196),
    };
    let (mqd, doorbell) = (frame.wide(76), frame.get(72));
    map(
        state,
        Map {
            bank,
            mqd,
            doorbell,
        },
    )?;
    Ok(true)
}

/// Takes a queue of the kernel's off.
fn remove(state: &mut State, frame: &Frame) -> bool {
    let is_kernels = frame.get(16) >> 3 & 1 == 1;
    if is_kernels && frame.get(56) == COMPUTE {
        let (pipe, queue) = (frame.get(36), frame.get(40));
        hqd::unmap(state, |bank, _| {
            (bank.me, bank.pipe, bank.queue) == (1, pipe, queue)
        });
    }
    is_kernels
}

fn misc(state: &mut State, frame: &Frame) -> Result<bool, Broken> {
    let register = u64::from(frame.get(24));
    match frame.get(4) {
        WRITE_REG => state.write(register, frame.get(28)).map(|()| true),
        READ_REG => {
            let value = state.read(register)?;
            store(state, frame.wide(28), &value.to_le_bytes());
            Ok(true)
        }
        WAIT_REG_MEM => wait(state, frame),
        _ => Ok(false),
    }
}

/// Waits for bits of a register, of another one where it writes that first. Whether they come.
fn wait(state: &mut State, frame: &Frame) -> Result<bool, Broken> {
    let [how, reference, mask] = [24, 28, 32].map(|at| frame.get(at));
    let [first, second] = [36, 40].map(|at| u64::from(frame.get(at)));
    let of = match how {
        WRITE_THEN_WAIT => {
            state.write(first, reference)?;
            second
        }
        _ => first,
    };
    for _ in 0..LOOKS {
        if state.read(of)? & mask == reference & mask {
            return Ok(true);
        }
    }
    Ok(false)
}
