//! From operands and a meaning to a step: fetch lanes, compute, write lanes.

use std::marker::PhantomData;

use crate::simd::{self, Kernel};
use crate::step::{Flow, Run, Stop};
use crate::wave::{Lanes, Wave};

use super::input::Input;
use super::lane_select::Crossing;
use super::lanes;
use super::operand::{Kind, Source};
use super::output::{Finish, Output};
use super::simple::{ExecuteSimple, Simple};
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

/// The operands of an instruction, resolved.
#[derive(Clone, Debug)]
pub struct Operands {
    /// The sources.
    pub src: [Input; 3],
    /// The lanes that the first source comes from, where that is not its own.
    pub dpp: Option<Box<Crossing>>,
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

/// The lanes that an instruction computes with.
pub(super) struct Args<'a> {
    pub(super) src: [[&'a Lanes; 2]; 3],
    pub(super) bits: u32,
    pub(super) env: Exact,
}

/// The lanes of an instruction in one half of a wave: results as low and high dwords, and bits.
#[derive(Clone, Copy)]
pub(super) enum Compute {
    /// Results of a dword.
    One(fn(&Args) -> Lanes),
    /// Results of two dwords.
    Two(fn(&Args) -> [Lanes; 2]),
    /// Bits.
    Bits(fn(&Args) -> u32),
    /// Results of a dword, and bits.
    OneBits(fn(&Args) -> (Lanes, u32)),
    /// Results of two dwords, and bits.
    TwoBits(fn(&Args) -> ([Lanes; 2], u32)),
}

/// What a meaning becomes: everything that is not the arithmetic itself is compiled once for all.
#[derive(Clone, Copy)]
pub(super) struct Code {
    pub(super) fast: Compute,
    exact: Compute,
    /// Whether each source has two dwords.
    pub(super) wide: [bool; 3],
    /// Whether MODE matters.
    pub(super) floats: bool,
    /// Whether a NaN in the result means that it has to be computed exactly.
    pub(super) nan: Option<Kind>,
    pub(super) kind: Kind,
    pub(super) bit_in: bool,
}

impl Code {
    const fn of<M: Meaning>() -> Self {
        Self {
            fast: pick::<M, Fast>(),
            exact: pick::<M, Exact>(),
            wide: [M::A::WIDE, M::B::WIDE, M::C::WIDE],
            floats: M::D::FLOAT || M::A::FLOAT || M::B::FLOAT || M::C::FLOAT,
            nan: if M::D::FLOAT { M::D::KIND } else { None },
            kind: match M::D::KIND {
                Some(kind) => kind,
                None => Kind::B32,
            },
            bit_in: M::MASK_IN,
        }
    }
}

const fn pick<M: Meaning, E: Env>() -> Compute {
    match (M::D::KIND.is_some(), M::D::WIDE, M::MASK_OUT) {
        (true, false, false) => Compute::One(one::<M, E>),
        (true, true, false) => Compute::Two(two::<M, E>),
        (true, false, true) => Compute::OneBits(one_bits::<M, E>),
        (true, true, true) => Compute::TwoBits(two_bits::<M, E>),
        (false, ..) => Compute::Bits(bits::<M, E>),
    }
}

/// One lane: dwords of the result, and the bit.
#[inline(always)]
fn lane<M: Meaning, E: Env>(env: E, args: &Args, i: usize) -> ((u32, u32), bool) {
    let [a, b, c] = &args.src;
    let (d, bit) = M::lane(
        env,
        M::A::read(env, a[0][i], a[1][i]),
        M::B::read(env, b[0][i], b[1][i]),
        M::C::read(env, c[0][i], c[1][i]),
        M::MASK_IN && args.bits >> i & 1 != 0,
    );
    (M::D::write(env, d), bit)
}

/// The five shapes of [`Compute`]: a kernel in the fast way, a plain function in the exact one. Loops,
/// not closures: those would not be compiled for the instruction set of the kernel.
macro_rules! shapes {
    ($($kernel:ident $name:ident -> $out:ty: |$env:ident, $args:ident| $body:expr;)*) => {$(
        struct $kernel<'a, M>(&'a Args<'a>, PhantomData<M>);

        impl<M: Meaning> Kernel for $kernel<'_, M> {
            type Out = $out;
            #[inline(always)]
            fn run(self) -> $out {
                #[inline(always)]
                fn compute<M: Meaning, E: Env>($env: E, $args: &Args) -> $out {
                    $body
                }
                compute::<M, Fast>(Fast, self.0)
            }
        }

        fn $name<M: Meaning, E: Env>(args: &Args) -> $out {
            if E::EXACT {
                let ($env, $args) = (args.env, args);
                return $body;
            }
            simd::run($kernel::<M>(args, PhantomData))
        }
    )*};
}

shapes! {
    One one -> Lanes: |env, args| {
        let mut out = [0; 32];
        for i in 0..32 {
            out[i] = lane::<M, _>(env, args, i).0.0;
        }
        out
    };
    Two two -> [Lanes; 2]: |env, args| {
        let mut out = [[0; 32]; 2];
        for i in 0..32 {
            (out[0][i], out[1][i]) = lane::<M, _>(env, args, i).0;
        }
        out
    };
    Bits bits -> u32: |env, args| {
        let mut flags = [0; 32];
        for i in 0..32 {
            flags[i] = u32::from(lane::<M, _>(env, args, i).1);
        }
        lanes::pack(&flags)
    };
    OneBits one_bits -> (Lanes, u32): |env, args| {
        let (mut out, mut flags) = ([0; 32], [0; 32]);
        for i in 0..32 {
            let (d, bit) = lane::<M, _>(env, args, i);
            out[i] = d.0;
            flags[i] = u32::from(bit);
        }
        (out, lanes::pack(&flags))
    };
    TwoBits two_bits -> ([Lanes; 2], u32): |env, args| {
        let (mut out, mut flags) = ([[0; 32]; 2], [0; 32]);
        for i in 0..32 {
            let (d, bit) = lane::<M, _>(env, args, i);
            (out[0][i], out[1][i]) = d;
            flags[i] = u32::from(bit);
        }
        (out, lanes::pack(&flags))
    };
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
            (Source::None, _) => [&NONE, &NONE],
            _ => {
                $room = $input.slow($wave, $half, $wide);
                [&$room[0], &$room[1]]
            }
        }
    };
}

static NONE: Lanes = [0; 32];

/// Ends an instruction whose results are words.
#[inline(always)]
fn put(operands: &Operands, wave: &mut Wave<'_>, half: usize, low: &mut Lanes, exec: u32) {
    if let Some(finish) = &operands.finish {
        finish.apply(wave, low, &mut [0; 32]);
    }
    operands.dst.write(wave, half, low, exec);
}

/// Ends an instruction whose results are pairs of words.
#[inline(always)]
fn put_wide(
    operands: &Operands,
    wave: &mut Wave<'_>,
    half: usize,
    out: &mut [Lanes; 2],
    exec: u32,
) {
    if let Some(finish) = &operands.finish {
        let [low, high] = out;
        finish.apply(wave, low, high);
    }
    operands.dst.write_wide(wave, half, out, exec);
}

/// One instruction for all lanes.
pub(super) struct Execute<'a, 'w, 'm> {
    pub(super) operands: &'a Operands,
    pub(super) code: &'a Code,
    pub(super) wave: &'w mut Wave<'m>,
}

impl Kernel for Execute<'_, '_, '_> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            operands,
            code,
            wave,
        } = self;
        let fast = !code.floats || wave.mode & 0xff == FAST_MODE;
        let env = Exact::new(wave, code.kind);
        let bits_in = if code.bit_in {
            wave.mask(operands.mask_in)
        } else {
            0
        };
        let crossed = operands.dpp.as_ref().map(|dpp| dpp.gather(wave, operands));
        let mut bits_out = 0;
        for half in 0..operands.halves {
            let mut exec = wave.exec_half(half);
            let (room_a, room_b, room_c);
            let src = {
                let wave = &*wave;
                let a = match &crossed {
                    None => fetch!(room_a, operands.src[0], wave, half, code.wide[0]),
                    Some(crossed) => {
                        exec &= crossed.enabled[half];
                        let [low, high] = &crossed.lanes[half];
                        room_a = operands.src[0].edited([low, high]);
                        [&room_a[0], &room_a[1]]
                    }
                };
                let b = fetch!(room_b, operands.src[1], wave, half, code.wide[1]);
                let c = fetch!(room_c, operands.src[2], wave, half, code.wide[2]);
                [a, b, c]
            };
            let args = Args {
                src,
                bits: (bits_in >> (32 * half)) as u32,
                env,
            };
            let compute = if fast { code.fast } else { code.exact };
            match compute {
                Compute::One(f) => {
                    let mut low = f(&args);
                    if fast
                        && let Some(kind) = code.nan
                        && any_nan(kind, &low, exec)
                        && let Compute::One(f) = code.exact
                    {
                        low = f(&args);
                    }
                    put(operands, wave, half, &mut low, exec);
                }
                Compute::Two(f) => {
                    let mut out = f(&args);
                    if fast
                        && code.nan.is_some()
                        && any_wide_nan(&out, exec)
                        && let Compute::Two(f) = code.exact
                    {
                        out = f(&args);
                    }
                    put_wide(operands, wave, half, &mut out, exec);
                }
                Compute::Bits(f) => bits_out |= u64::from(f(&args) & exec) << (32 * half),
                Compute::OneBits(f) => {
                    let (mut low, mut bits) = f(&args);
                    if fast
                        && let Some(kind) = code.nan
                        && any_nan(kind, &low, exec)
                        && let Compute::OneBits(f) = code.exact
                    {
                        (low, bits) = f(&args);
                    }
                    put(operands, wave, half, &mut low, exec);
                    bits_out |= u64::from(bits & exec) << (32 * half);
                }
                Compute::TwoBits(f) => {
                    let (mut out, mut bits) = f(&args);
                    if fast
                        && code.nan.is_some()
                        && any_wide_nan(&out, exec)
                        && let Compute::TwoBits(f) = code.exact
                    {
                        (out, bits) = f(&args);
                    }
                    put_wide(operands, wave, half, &mut out, exec);
                    bits_out |= u64::from(bits & exec) << (32 * half);
                }
            }
        }
        if let Some(code) = operands.mask_out {
            wave.set_mask(code, bits_out);
        }
        if operands.writes_exec {
            wave.exec = bits_out;
        }
    }
}

#[inline(always)]
pub(super) fn any_nan(kind: Kind, low: &Lanes, exec: u32) -> bool {
    let mut any = 0;
    match kind {
        Kind::F32 => {
            // Without the sign, a NaN is above everything else. EXEC is asked where there is one.
            for &lane in low {
                any |= u32::from(lane << 1 > 0xff00_0000);
            }
            if any == 0 {
                return false;
            }
            any = 0;
            for i in 0..32 {
                any |= u32::from(low[i] & 0x7fff_ffff > 0x7f80_0000) & exec >> i;
            }
        }
        Kind::F16 => {
            for i in 0..32 {
                any |= u32::from(low[i] & 0x7fff > 0x7c00) & exec >> i;
            }
        }
        _ => {
            for i in 0..32 {
                let [a, b] = [low[i], low[i] >> 16].map(|x| x & 0x7fff > 0x7c00);
                any |= u32::from(a | b) & exec >> i;
            }
        }
    }
    any & 1 != 0
}

#[inline(always)]
fn any_wide_nan(out: &[Lanes; 2], exec: u32) -> bool {
    let mut any = 0;
    for i in 0..32 {
        let bits = u64::from(out[0][i]) | u64::from(out[1][i]) << 32;
        any |= u32::from(f64::from_bits(bits).is_nan()) & exec >> i;
    }
    any & 1 != 0
}

/// The step of an instruction with this meaning.
pub fn step<M: Meaning>(operands: Operands) -> Run {
    step_of(operands, const { &Code::of::<M>() })
}

fn step_of(operands: Operands, code: &'static Code) -> Run {
    if let Some(simple) = Simple::of(&operands, code) {
        return Box::new(move |wave| {
            operands.check(wave)?;
            simd::run(ExecuteSimple {
                simple: &simple,
                operands: &operands,
                wave,
            });
            Ok(Flow::Next)
        });
    }
    Box::new(move |wave| {
        operands.check(wave)?;
        simd::run(Execute {
            operands: &operands,
            code,
            wave,
        });
        Ok(Flow::Next)
    })
}

impl Execute<'_, '_, '_> {
    #[inline(never)]
    #[cold]
    pub(super) fn apart(self) {
        self.run();
    }
}

impl Operands {
    /// The result of one half, exactly.
    #[inline(never)]
    #[cold]
    pub(super) fn again(&self, code: &Code, wave: &Wave, half: usize) -> Lanes {
        let [a, b, c] = [0, 1, 2].map(|i| self.src[i].slow(wave, half, false));
        let args = Args {
            src: [&a, &b, &c].map(|lanes| [&lanes[0], &lanes[1]]),
            bits: 0,
            env: Exact::new(wave, code.kind),
        };
        match code.exact {
            Compute::One(f) => f(&args),
            // Only those are computed again here.
            _ => [0; 32],
        }
    }

    /// That the wave has the registers.
    #[inline(always)]
    pub fn check(&self, wave: &Wave) -> Result<(), Stop> {
        if wave.vgprs < self.vgprs {
            return Err(super::rules::beyond(self.vgprs, wave.vgprs));
        }
        Ok(())
    }
}
