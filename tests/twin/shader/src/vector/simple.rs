//! The usual instruction, with little between its lanes and its arithmetic.

use crate::simd::Kernel;
use crate::wave::{Lanes, Wave};

use super::lanes;
use super::operand::Source;
use super::output::Part;
use super::run::{Args, Code, Compute, Execute, Operands, any_nan};
use super::value::{Exact, FAST_MODE};

/// Where a source of one dword is that needs nothing done to it.
#[derive(Clone, Debug)]
enum Plain {
    Vgpr(usize),
    Scalar(usize),
    Constant(Box<Lanes>),
}

/// What most instructions are: dwords from registers and constants, a dword to a register.
pub(super) struct Simple {
    code: &'static Code,
    fast: fn(&Args) -> Lanes,
    src: [Plain; 3],
}

impl Simple {
    /// None where more has to be done.
    pub(super) fn of(operands: &Operands, code: &'static Code) -> Option<Self> {
        let Compute::One(fast) = code.fast else {
            return None;
        };
        let plain = |i: usize| {
            let input = &operands.src[i];
            match (&input.source, input.edit, code.wide[i]) {
                (Source::None, ..) => Some(Plain::Constant(Box::new([0; 32]))),
                (Source::Vgpr(r), None, false) => Some(Plain::Vgpr(*r)),
                // Registers beyond these are not in the file.
                (&Source::Scalar(code), None, false) if code < 124 => {
                    Some(Plain::Scalar(usize::from(code)))
                }
                (Source::Constant(both), None, false) => Some(Plain::Constant(Box::new(both[0]))),
                _ => None,
            }
        };
        let other = operands.dpp.is_some() || operands.finish.is_some() || code.bit_in;
        if other || operands.dst.part != Part::Whole {
            return None;
        }
        Some(Self {
            code,
            fast,
            src: [plain(0)?, plain(1)?, plain(2)?],
        })
    }
}

/// A [`Simple`] instruction for all lanes.
pub(super) struct ExecuteSimple<'a, 'w, 'm> {
    pub(super) simple: &'a Simple,
    pub(super) operands: &'a Operands,
    pub(super) wave: &'w mut Wave<'m>,
}

macro_rules! fetch_plain {
    ($room:ident, $source:expr, $wave:expr, $half:expr) => {
        match $source {
            Plain::Vgpr(r) => $wave.vgpr(*r, $half),
            Plain::Constant(lanes) => &**lanes,
            Plain::Scalar(code) => {
                $room = [$wave.s[*code & 127]; 32];
                &$room
            }
        }
    };
}

impl Kernel for ExecuteSimple<'_, '_, '_> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            simple,
            operands,
            wave,
        } = self;
        let code = simple.code;
        if code.floats && wave.mode & 0xff != FAST_MODE {
            Execute {
                operands,
                code,
                wave,
            }
            .apart();
            return;
        }
        for half in 0..operands.halves {
            let exec = wave.exec_half(half);
            let mut low = {
                let wave = &*wave;
                let (room_a, room_b, room_c);
                let a = fetch_plain!(room_a, &simple.src[0], wave, half);
                let b = fetch_plain!(room_b, &simple.src[1], wave, half);
                let c = fetch_plain!(room_c, &simple.src[2], wave, half);
                (simple.fast)(&Args {
                    src: [[a; 2], [b; 2], [c; 2]],
                    bits: 0,
                    env: Exact::new(wave, code.kind),
                })
            };
            if let Some(kind) = code.nan
                && any_nan(kind, &low, exec)
            {
                low = operands.again(code, wave, half);
            }
            lanes::blend(wave.vgpr_mut(operands.dst.vgpr, half), &low, exec);
        }
    }
}
