//! Bindless descriptors that shader cores hold: what was read or loaded ahead, until its base is invalidated.
//!
//! Source: Mesa, src/freedreno/vulkan/tu_cmd_buffer.h, `TU_ACCESS_BINDLESS_DESCRIPTOR_READ`: descriptors are read through
//! UCHE, and those that CP_LOAD_STATE6 has loaded ahead need to be invalidated when they change. That those are held, too,
//! that a shader has read without such a load, is a guess, with a rule of its own.

use std::collections::HashMap;

use twin::rule::{Proof, Rule};
use twin_ir3::launch::BINDLESS_BASES;

/// Descriptors have moved, or memory has changed below them.
pub static CHANGED: Rule = Rule {
    name: "CS-BINDLESS-INVALIDATE",
    text: "SP_UPDATE_CNTL with CS_BINDLESS of a base stands between uses of descriptors at one address of the base and at \
           another, and between a load ahead of a descriptor and a use of it after memory has changed there",
    source: "Mesa, HLSQ_INVALIDATE_CMD in src/freedreno/vulkan/tu_cmd_buffer.cc, tu6_emit_descriptor_sets (behind the \
             base), and in src/gallium/drivers/freedreno/a6xx/fd6_image.cc, fd6_build_bindless_state (before it); \
             src/freedreno/vulkan/tu_cmd_buffer.h, TU_ACCESS_BINDLESS_DESCRIPTOR_READ",
    proof: Proof::Sourced,
};

/// Memory has changed below a descriptor that a shader has read.
pub static READ: Rule = Rule {
    name: "CS-BINDLESS-READ",
    text: "SP_UPDATE_CNTL with CS_BINDLESS of a base stands between a use of a descriptor that was not loaded ahead and a use of \
           it after memory has changed there",
    source: "Mesa, src/freedreno/vulkan/tu_cmd_buffer.h, TU_ACCESS_BINDLESS_DESCRIPTOR_READ: those that are loaded ahead are held; \
             that those are, too, that a shader has read is a guess",
    proof: Proof::Guess,
};

/// A dword of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// What it was when it came.
    pub value: u32,
    /// Whether CP_LOAD_STATE6 has loaded it; else a shader has read it.
    pub is_ahead: bool,
}

impl Word {
    /// The rule that is broken where memory has something else by now.
    pub fn rule(self) -> &'static Rule {
        match self.is_ahead {
            true => &CHANGED,
            false => &READ,
        }
    }
}

/// See the front page: dwords by their addresses, of each base.
#[derive(Default)]
pub struct Held([HashMap<u64, Word>; BINDLESS_BASES]);

impl Held {
    /// What is held of a dword; from now on this one, if nothing was.
    pub fn read(&mut self, base: u8, at: u64, now: Word) -> Word {
        let held = self.0.get_mut(usize::from(base));
        held.map_or(now, |held| *held.entry(at).or_insert(now))
    }

    /// Bases are invalidated, a bit each.
    pub fn forget(&mut self, bases: u32) {
        for (number, held) in self.0.iter_mut().enumerate() {
            if bases >> number & 1 == 1 {
                held.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_held_until_their_base_is_invalidated() {
        let mut held = Held::default();
        let mut read = |base, at, value| {
            let is_ahead = false;
            held.read(base, at, Word { value, is_ahead }).value
        };
        assert_eq!(read(1, 64, 5), 5);
        assert_eq!((read(1, 64, 6), read(1, 68, 6)), (5, 6));
        assert_eq!(read(0, 64, 6), 6);
        // What no base has is not held.
        assert_eq!((read(9, 64, 1), read(9, 64, 2)), (1, 2));
        let six = |is_ahead| Word { value: 6, is_ahead };
        held.forget(1);
        assert_eq!(held.read(1, 64, six(true)).value, 5);
        held.forget(2);
        assert_eq!(held.read(1, 64, six(true)), six(true));
        // How it came first counts.
        assert_eq!(held.read(1, 64, six(false)).rule().name, CHANGED.name);
        assert_eq!(six(false).rule().name, READ.name);
    }
}
