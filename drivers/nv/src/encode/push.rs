//! Words of a push buffer: headers with their methods, and the ring entries for them.

use drivers_spec::nv::chip::Method;
use drivers_spec::nv::push::header::{
    METHOD_ADDRESS, METHOD_COUNT, METHOD_SUBCHANNEL, SEC_OP, SEC_OP_END_PB_SEGMENT,
    SEC_OP_IMMD_DATA_METHOD, SEC_OP_INC_METHOD,
};
use drivers_spec::nv::push::{gp_entry0, gp_entry1};
use hcq::Val;
use hcq::command_buffer::{CommandBuffer, Part, Patch, Section};

/// Dwords of a segment at most, by the entry that leads to it.
pub const SEGMENT_MAX: usize = gp_entry1::LENGTH.get(u32::MAX) as usize;

/// The header of `count` methods, the first of which is `first`.
pub(crate) const fn methods(subchannel: u32, first: Method, count: u32) -> u32 {
    header(SEC_OP_INC_METHOD, subchannel, first, count)
}

/// A method whose data, of 13 bits at most, is in the header.
pub(crate) const fn immediate(subchannel: u32, method: Method, data: u32) -> u32 {
    assert!(METHOD_COUNT.get(METHOD_COUNT.put(data)) == data);
    header(SEC_OP_IMMD_DATA_METHOD, subchannel, method, data)
}

const fn header(op: u32, subchannel: u32, method: Method, count: u32) -> u32 {
    METHOD_ADDRESS.put(method.dword())
        | METHOD_SUBCHANNEL.put(subchannel)
        | METHOD_COUNT.put(count)
        | SEC_OP.put(op)
}

/// Dwords of the methods behind a header, the header included.
pub fn length(header: u32) -> usize {
    match SEC_OP.get(header) {
        SEC_OP_IMMD_DATA_METHOD | SEC_OP_END_PB_SEGMENT => 1,
        _ => 1 + METHOD_COUNT.get(header) as usize,
    }
}

/// How many of the first words are whole methods with their headers and take no more than `room` dwords. All
/// of them if they fit; 0 if the first ones do not.
pub fn packet_boundary(words: &[u32], room: usize) -> usize {
    if words.len() <= room {
        return words.len();
    }
    let mut at = 0;
    while let Some(header) = words.get(at) {
        let end = at + length(*header);
        if end > room {
            break;
        }
        at = end;
    }
    at
}

/// The entry of a ring that runs `dwords` (1 to [`SEGMENT_MAX`]) at an address, a multiple of 4. It has 40 bits of it;
/// rings begin without more of them (SET_PB_SEGMENT_EXTENDED_BASE, since Hopper).
pub const fn entry(address: u64, dwords: u32) -> [u32; 2] {
    [
        gp_entry0::GET.put((address >> 2) as u32),
        gp_entry1::GET_HI.put((address >> 32) as u32) | gp_entry1::LENGTH.put(dwords),
    ]
}

/// Appends one half of a 64-bit operand: [`Part::Low`] or [`Part::High`].
#[inline]
pub(crate) fn half(out: &mut CommandBuffer, value: Val, part: Part) {
    let word = match (value, part) {
        (Val::Const(q), Part::High) => (q >> 32) as u32,
        (Val::Const(q), _) => q as u32,
        (Val::Slot(slot, add), part) => {
            out.patches.push(Patch {
                section: Section::Words,
                offset: out.words.len() as u32 * 4,
                part,
                slot,
                add,
            });
            0
        }
    };
    out.words.push(word);
}

/// Appends an address as engines take it: its upper half first.
#[inline]
pub(crate) fn address(out: &mut CommandBuffer, value: Val) {
    half(out, value, Part::High);
    half(out, value, Part::Low);
}

/// A value further on.
#[inline]
pub(crate) fn plus(value: Val, bytes: u64) -> Val {
    match value {
        Val::Const(q) => Val::Const(q.wrapping_add(bytes)),
        Val::Slot(slot, add) => Val::Slot(slot, add.wrapping_add(bytes)),
    }
}
