//! Sources, with what is done to them before an instruction sees them.

use crate::wave::{Lanes, Wave};

use super::operand::{Kind, Source};

/// Which bits of a dword a source uses, and what is done to their sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edit {
    /// The lowest bit.
    pub shift: u32,
    /// How many bits.
    pub width: u32,
    /// Extends them with their sign.
    pub signed: bool,
    /// Absolute value: the sign bit is cleared.
    pub abs: bool,
    /// Then negated.
    pub neg: bool,
}

impl Edit {
    /// The dword as it is.
    pub const NONE: Self = Self {
        shift: 0,
        width: 32,
        signed: false,
        abs: false,
        neg: false,
    };

    fn apply(self, lanes: &Lanes, kind: Kind) -> Lanes {
        let sign = if kind.is_half() { 0x8000 } else { 0x8000_0000 };
        let and = if self.abs { !sign } else { u32::MAX };
        let xor = if self.neg { sign } else { 0 };
        let up = 32 - self.width;
        let (down, shift) = (up, self.shift);
        let mut to = [0; 32];
        for i in 0..32 {
            let bits = lanes[i] >> shift << up;
            let bits = if self.signed {
                (bits as i32 >> down) as u32
            } else {
                bits >> down
            };
            to[i] = (bits & and) ^ xor;
        }
        to
    }
}

/// A source of an instruction.
#[derive(Clone, Debug)]
pub struct Input {
    /// Where it is.
    pub source: Source,
    /// What it holds.
    pub kind: Kind,
    /// What is done to it, where anything is.
    pub edit: Option<Edit>,
}

impl Input {
    /// No source.
    pub const NONE: Self = Self {
        source: Source::None,
        kind: Kind::B32,
        edit: None,
    };

    pub(super) fn edited(&self, lanes: [&Lanes; 2]) -> [Lanes; 2] {
        let Some(edit) = self.edit else {
            return [*lanes[0], *lanes[1]];
        };
        if self.kind.dwords() == 2 {
            // The sign is in the high dword.
            [*lanes[0], edit.apply(lanes[1], self.kind)]
        } else {
            [edit.apply(lanes[0], self.kind), *lanes[1]]
        }
    }

    /// The lanes of one half with everything done to them.
    #[inline(never)]
    pub fn slow(&self, wave: &Wave, half: usize, wide: bool) -> [Lanes; 2] {
        let mut room = [[0; 32]; 2];
        let lanes = self.source.fetch(wave, half, wide, &mut room);
        self.edited(lanes)
    }
}
