//! From operands and a meaning to a step: fetch lanes, compute, write lanes.

use std::marker::PhantomData;

use crate::simd::{self, Kernel};
use crate::step::{Flow, Run, Stop};
use crate::wave::{Lanes, Wave};

use super::lane_select::Dpp;
use super::lanes;
use super::operand::{Kind, Source};
use super::output::{Finish, Output};
use super::value::{Env, Exact, FAST_MODE, Fast, Type};

/// What one lane of an instruction computes.
pub trait Meaning: 'static {
    /// The result.
    type D: Type;
    /// The first source.
    type A: Type;
    /// The second source.
    type B: Type;
    /// The third source.
    type C: Type;
    /// Reads a bit per lane from scalar registers.
    const MASK_IN: bool;
    /// Writes a bit per lane to scalar registers.
    const MASK_OUT: bool;
    /// The result and the bit.
    fn lane<E: Env>(
        env: E,
        a: <Self::A as Type>::T,
        b: <Self::B as Type>::T,
        c: <Self::C as Type>::T,
        bit: bool,
    ) -> (<Self::D as Type>::T, bool);
}

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

    fn edited(&self, lanes: [&Lanes; 2]) -> [Lanes; 2] {
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

/// The operands of an instruction, resolved.
#[derive(Clone, Debug)]
pub struct Operands {
    /// The sources.
    pub src: [Input; 3],
    /// The lanes that the first source comes from, where that is not its own.
    pub dpp: Option<Dpp>,
    /// The destination.
    pub dst: Output,
    /// Output modifiers.
    pub finish: Option<Finish>,
    /// The scalar registers that the bits per lane come from.
    pub mask_in: u16,
    /// The scalar registers that they go to; none for a compare that only writes EXEC, or to NULL.
    pub mask_out: Option<u16>,
    /// Whether the bits per lane become EXEC.
    pub writes_exec: bool,
    /// Registers of 32 lanes per VGPR.
    pub halves: usize,
    /// How many VGPRs the wave must have.
    pub vgprs: usize,
}

/// One instruction for all lanes.
struct Execute<'a, 'w, 'm, M> {
    operands: &'a Operands,
    wave: &'w mut Wave<'m>,
    meaning: PhantomData<M>,
}

/// The lanes of a source in the usual case without a copy.
macro_rules! fetch {
    ($room:ident, $input:expr, $wave:expr, $half:expr, $wide:expr) => {
        match (&$input.source, $input.edit) {
            (Source::Vgpr(r), None) => {
                let low = $wave.vgpr(*r, $half);
                let high = if $wide {
                    $wave.vgpr(*r + 1, $half)
                } else {
                    low
                };
                [low, high]
            }
            (Source::Constant(both), None) => [&both[0], &both[1]],
            (Source::Scalar(code), None) if !$wide => {
                $room = [[$wave.scalar(*code); 32], [0; 32]];
                [&$room[0], &$room[1]]
            }
            _ => {
                $room = $input.slow($wave, $half, $wide);
                [&$room[0], &$room[1]]
            }
        }
    };
}

impl<M: Meaning> Kernel for Execute<'_, '_, '_, M> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let Self { operands, wave, .. } = self;
        let floats = M::D::FLOAT || M::A::FLOAT || M::B::FLOAT || M::C::FLOAT;
        let fast = !floats || wave.mode & 0xff == FAST_MODE;
        let bits_in = if M::MASK_IN {
            wave.mask(operands.mask_in)
        } else {
            0
        };
        let crossed = operands.dpp.as_ref().map(|dpp| dpp.gather(wave, operands));
        let mut bits_out = 0;
        for half in 0..operands.halves {
            let mut exec = wave.exec_half(half);
            let mut low = [0; 32];
            let mut high = [0; 32];
            let mut flags = [0; 32];
            {
                let wave = &*wave;
                let (room_a, room_b, room_c);
                let a = match &crossed {
                    None => fetch!(room_a, operands.src[0], wave, half, M::A::WIDE),
                    Some(crossed) => {
                        exec &= crossed.enabled[half];
                        room_a = operands.src[0]
                            .edited([&crossed.lanes[half][0], &crossed.lanes[half][1]]);
                        [&room_a[0], &room_a[1]]
                    }
                };
                let b = fetch!(room_b, operands.src[1], wave, half, M::B::WIDE);
                let c = fetch!(room_c, operands.src[2], wave, half, M::C::WIDE);
                let lane_bits = (bits_in >> (32 * half)) as u32;
                let mut exactly = !fast;
                if fast {
                    compute::<M, Fast>(Fast, a, b, c, lane_bits, &mut low, &mut high, &mut flags);
                    if M::D::FLOAT {
                        exactly = any_nan::<M::D>(&low, &high, exec);
                    }
                }
                if exactly {
                    let env = Exact::new(wave, M::D::KIND.unwrap_or(Kind::B32));
                    exact::<M>(env, a, b, c, lane_bits, &mut low, &mut high, &mut flags);
                }
            }
            if let Some(finish) = &operands.finish {
                finish.apply(wave, &mut low, &mut high);
            }
            if M::D::KIND.is_some() {
                operands.dst.write::<M::D>(wave, half, &low, &high, exec);
            }
            if M::MASK_OUT {
                bits_out |= u64::from(lanes::pack(&flags) & exec) << (32 * half);
            }
        }
        if M::MASK_OUT {
            if let Some(code) = operands.mask_out {
                wave.set_mask(code, bits_out);
            }
            if operands.writes_exec {
                wave.exec = bits_out;
            }
        }
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn compute<M: Meaning, E: Env>(
    env: E,
    a: [&Lanes; 2],
    b: [&Lanes; 2],
    c: [&Lanes; 2],
    bits: u32,
    low: &mut Lanes,
    high: &mut Lanes,
    flags: &mut Lanes,
) {
    for i in 0..32 {
        let (d, bit) = M::lane(
            env,
            M::A::read(env, a[0][i], a[1][i]),
            M::B::read(env, b[0][i], b[1][i]),
            M::C::read(env, c[0][i], c[1][i]),
            M::MASK_IN && bits >> i & 1 != 0,
        );
        let (l, h) = M::D::write(env, d);
        low[i] = l;
        if M::D::WIDE {
            high[i] = h;
        }
        if M::MASK_OUT {
            flags[i] = u32::from(bit);
        }
    }
}

/// The rare way: a MODE that is not the usual one, or a NaN.
#[inline(never)]
#[cold]
#[allow(clippy::too_many_arguments)]
fn exact<M: Meaning>(
    env: Exact,
    a: [&Lanes; 2],
    b: [&Lanes; 2],
    c: [&Lanes; 2],
    bits: u32,
    low: &mut Lanes,
    high: &mut Lanes,
    flags: &mut Lanes,
) {
    compute::<M, Exact>(env, a, b, c, bits, low, high, flags);
}

#[inline(always)]
fn any_nan<D: Type>(low: &Lanes, high: &Lanes, exec: u32) -> bool {
    let mut any = 0;
    for i in 0..32 {
        any |= u32::from(D::is_nan(low[i], high[i])) & exec >> i;
    }
    any != 0
}

/// The step of an instruction with this meaning.
pub fn step<M: Meaning>(operands: Operands) -> Run {
    Box::new(move |wave| {
        operands.check(wave)?;
        simd::run(Execute::<M> {
            operands: &operands,
            wave,
            meaning: PhantomData,
        });
        Ok(Flow::Next)
    })
}

impl Operands {
    /// That the wave has the registers.
    #[inline(always)]
    pub fn check(&self, wave: &Wave) -> Result<(), Stop> {
        if wave.vgprs < self.vgprs {
            return Err(super::rules::beyond(self.vgprs, wave.vgprs));
        }
        Ok(())
    }
}
