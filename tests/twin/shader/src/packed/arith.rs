//! What packed instructions of integers and halves do in each lane.

use std::cmp::Ordering;
use std::marker::PhantomData;

use super::mode::Mode;
use super::vop3p::Mods;
use crate::isa::Gen;
use crate::simd::{self, Kernel};
use crate::vector::float::{
    self, Format, HALF, Real, Round, f16_to_f32, f32_to_f16, fma_of_halves, is_nan, is_signaling,
};
use crate::wave::Lanes;

/// The sources of an instruction.
pub(super) struct Ins<'a> {
    /// Low and high dwords.
    pub src: [[&'a Lanes; 2]; 3],
    /// Modifiers.
    pub mods: Mods,
    /// Rounding and denormals.
    pub mode: Mode,
}

/// An instruction: sources to low and high dword of the destination, which come with what was there.
pub(super) type Op = fn(&Ins, &mut [Lanes; 2]);

impl Ins<'_> {
    /// Which of the first two sources `neg_lo` calls signed.
    pub fn signed(&self) -> [bool; 2] {
        [0, 1].map(|k| self.mods.neg_lo >> k & 1 != 0)
    }

    /// By how much each source is shifted right to read the half for half `high` of the result.
    #[inline(always)]
    pub fn shifts(&self, high: bool) -> [u32; 3] {
        let bits = if high {
            self.mods.op_sel_hi
        } else {
            self.mods.op_sel
        };
        each_bit(bits, 4)
    }

    /// What flips the sign of each half source for half `high` of the result.
    #[inline(always)]
    pub fn flips(&self, high: bool) -> [u32; 3] {
        let bits = if high {
            self.mods.neg_hi
        } else {
            self.mods.neg_lo
        };
        each_bit(bits, 15)
    }

    /// Both halves of the result from the halves of the sources.
    #[inline(always)]
    fn halves(&self, out: &mut [Lanes; 2], floats: bool, f: impl Fn([u32; 3]) -> u32) {
        let (a, b, c) = (self.src[0][0], self.src[1][0], self.src[2][0]);
        let (low, high) = (self.shifts(false), self.shifts(true));
        let flips = |high| if floats { self.flips(high) } else { [0; 3] };
        let (flip_low, flip_high) = (flips(false), flips(true));
        let mut to = [0; 32];
        for i in 0..32 {
            let half = |shift: [u32; 3], flip: [u32; 3]| {
                f([
                    a[i] >> shift[0] & 0xffff ^ flip[0],
                    b[i] >> shift[1] & 0xffff ^ flip[1],
                    c[i] >> shift[2] & 0xffff ^ flip[2],
                ])
            };
            to[i] = half(low, flip_low) & 0xffff | half(high, flip_high) << 16;
        }
        out[0] = to;
    }
}

/// The three low bits, each shifted left. (`map` would not become part of the loops that use this.)
#[inline(always)]
pub(super) fn each_bit(bits: u8, by: u32) -> [u32; 3] {
    let bit = |k: u32| u32::from(bits >> k & 1) << by;
    [bit(0), bit(1), bit(2)]
}

/// A loop that [`simd`] compiles for this processor. Loops fill an array of their own: the compiler
/// cannot tell that the destination is none of the sources, and would not use SIMD.
pub(super) struct Loop<F>(pub F);

impl<F: FnOnce()> Kernel for Loop<F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        (self.0)();
    }
}

/// Signed integers: `f` is exact; clamp saturates its result.
#[inline(always)]
pub(super) fn signed(x: &Ins, out: &mut [Lanes; 2], f: impl Fn(i32, i32, i32) -> i32) {
    let clamp = x.mods.clamp;
    let wide = |half: u32| i32::from(half as i16);
    simd::run(Loop(|| {
        x.halves(out, false, |[a, b, c]| {
            let exact = f(wide(a), wide(b), wide(c));
            let saturated = exact.clamp(i32::from(i16::MIN), i32::from(i16::MAX));
            (if clamp { saturated } else { exact }) as u32
        });
    }));
}

/// Unsigned integers: `f` is exact; clamp saturates its result.
#[inline(always)]
pub(super) fn unsigned(x: &Ins, out: &mut [Lanes; 2], f: impl Fn(i64, i64, i64) -> i64) {
    let clamp = x.mods.clamp;
    simd::run(Loop(|| {
        x.halves(out, false, |[a, b, c]| {
            let exact = f(i64::from(a), i64::from(b), i64::from(c));
            (if clamp { exact.clamp(0, 0xffff) } else { exact }) as u32
        });
    }));
}

/// Integers of which only the low bits of the result count.
#[inline(always)]
pub(super) fn wrapping(x: &Ins, out: &mut [Lanes; 2], f: impl Fn(u32, u32) -> u32) {
    simd::run(Loop(|| x.halves(out, false, |[a, b, _]| f(a, b))));
}

/// A half, for the arithmetic of [`float`], in every rounding mode.
#[derive(Clone, Copy, PartialEq)]
struct Half(u16);

impl PartialOrd for Half {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        f16_to_f32(self.0).partial_cmp(&f16_to_f32(other.0))
    }
}

impl Real for Half {
    const FORMAT: Format = HALF;
    fn bits(self) -> u64 {
        u64::from(self.0)
    }
    fn of(bits: u64) -> Self {
        Self(bits as u16)
    }
    // Rounding twice is as good as once: a single has more than twice the bits of a half.
    fn native_add(self, other: Self) -> Self {
        Self(f32_to_f16(f16_to_f32(self.0) + f16_to_f32(other.0)))
    }
    fn native_mul(self, other: Self) -> Self {
        Self(f32_to_f16(f16_to_f32(self.0) * f16_to_f32(other.0)))
    }
    fn native_fma(self, b: Self, c: Self) -> Self {
        let [a, b, c] = [self, b, c].map(|x| f16_to_f32(x.0));
        Self(f32_to_f16(fma_of_halves(a, b, c)))
    }
}

/// An operation of two numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Two {
    Add,
    Mul,
}

impl Two {
    /// In any rounding mode.
    pub fn exact<R: Real>(self, a: R, b: R, round: Round) -> R {
        match self {
            Self::Add => float::add(a, b, round),
            Self::Mul => float::mul(a, b, round),
        }
    }
}

/// Whether these are the bits of a NaN, in as few steps as lanes allow.
#[inline(always)]
pub(super) fn is_nan_lane(format: Format, bits: u32) -> bool {
    // Without the sign the exponent is highest, and all ones with something below it.
    bits << (32 - format.fraction - format.exponent) > !(u32::MAX >> format.exponent)
}

/// What is computed in the usual MODE, of the bits of three sources. A result that is a NaN may be any:
/// it is computed again in the exact way. (A trait, for `inline(always)`: see [`simd`].)
pub(super) trait Fast {
    /// The bits of the result.
    fn lane(sources: [u32; 3]) -> u32;
}

/// Both halves of all lanes; says whether any is a NaN.
struct Halves<'a, F>(&'a Ins<'a>, &'a mut [Lanes; 2], PhantomData<F>);

impl<F: Fast> Kernel for Halves<'_, F> {
    type Out = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Self(x, out, _) = self;
        let (a, b, c) = (x.src[0][0], x.src[1][0], x.src[2][0]);
        let mut to = [[0; 32]; 2];
        let mut nan = 0;
        for (high, to) in to.iter_mut().enumerate() {
            let (shift, flip) = (x.shifts(high == 1), x.flips(high == 1));
            for i in 0..32 {
                to[i] = F::lane([
                    a[i] >> shift[0] & 0xffff ^ flip[0],
                    b[i] >> shift[1] & 0xffff ^ flip[1],
                    c[i] >> shift[2] & 0xffff ^ flip[2],
                ]);
                nan |= u32::from(is_nan_lane(HALF, to[i]));
            }
        }
        let mut joined = [0; 32];
        for i in 0..32 {
            joined[i] = to[0][i] | to[1][i] << 16;
        }
        out[0] = joined;
        nan != 0
    }
}

/// Halves, by way of `F` where MODE is the usual one and no result is a NaN, and of `exact` elsewhere.
fn halves<F: Fast>(x: &Ins, out: &mut [Lanes; 2], exact: impl Fn([Half; 3], Round) -> Half) {
    let mode = x.mode;
    if !mode.is_plain() || simd::run(Halves::<F>(x, out, PhantomData)) {
        let round = mode.round(HALF);
        x.halves(out, true, |s| {
            let read = s.map(|bits| Half(mode.input(HALF, bits) as u16));
            mode.output(HALF, u32::from(exact(read, round).0))
        });
    }
    if x.mods.clamp {
        for lane in &mut out[0] {
            let [low, high] = [*lane & 0xffff, *lane >> 16].map(|h| mode.clamp(HALF, h));
            *lane = low | high << 16;
        }
    }
}

/// Sum or product of halves.
struct Half2<const MUL: bool>;

impl<const MUL: bool> Fast for Half2<MUL> {
    #[inline(always)]
    fn lane([a, b, _]: [u32; 3]) -> u32 {
        let (a, b) = (f16_to_f32(a as u16), f16_to_f32(b as u16));
        u32::from(f32_to_f16(if MUL { a * b } else { a + b }))
    }
}

/// Fused multiply-add of halves.
struct Half3;

impl Fast for Half3 {
    #[inline(always)]
    fn lane(s: [u32; 3]) -> u32 {
        let (a, b, c) = (
            f16_to_f32(s[0] as u16),
            f16_to_f32(s[1] as u16),
            f16_to_f32(s[2] as u16),
        );
        u32::from(f32_to_f16(multiply_add_of_halves(a, b, c)))
    }
}

/// The lower or higher of two halves.
struct Extreme<const HIGHER: bool>;

impl<const HIGHER: bool> Fast for Extreme<HIGHER> {
    #[inline(always)]
    fn lane([a, b, _]: [u32; 3]) -> u32 {
        let result = ordered(HALF, HIGHER, a, b);
        if is_nan_lane(HALF, a) | is_nan_lane(HALF, b) {
            0x7e00
        } else {
            result
        }
    }
}

/// Sums and products of halves.
pub(super) fn half2(x: &Ins, out: &mut [Lanes; 2], op: Two) {
    let exact = |[a, b, _]: [Half; 3], round| op.exact(a, b, round);
    match op {
        Two::Add => halves::<Half2<false>>(x, out, exact),
        Two::Mul => halves::<Half2<true>>(x, out, exact),
    }
}

/// `a * b + c` of halves, rounded to odd: what it is rounded to next is as if that were the first time.
#[inline(always)]
fn multiply_add_of_halves(a: f32, b: f32, c: f32) -> f32 {
    // The product is exact. Of the sum, what is lost is known (Knuth), and only matters by its sign.
    let product = a * b;
    let sum = product + c;
    let part = sum - product;
    let lost = (product - (sum - part)) + (c - part);
    let bits = sum.to_bits();
    let inexact = (lost > 0.0) | (lost < 0.0);
    let too_far = inexact & ((lost > 0.0) != (sum > 0.0));
    f32::from_bits(bits.wrapping_sub(u32::from(too_far)) | u32::from(inexact))
}

/// Fused multiply-add of halves.
pub(super) fn half3(x: &Ins, out: &mut [Lanes; 2]) {
    halves::<Half3>(x, out, |[a, b, c], round| float::fma(a, b, c, round));
}

/// The lower or higher of two numbers, with -0 below +0.
#[inline(always)]
pub(super) fn ordered(format: Format, higher: bool, a: u32, b: u32) -> u32 {
    let key = |bits: u32| {
        let bits = (bits << (31 - format.fraction - format.exponent)) as i32;
        bits ^ (bits >> 31) & i32::MAX
    };
    if (key(a) < key(b)) != higher { a } else { b }
}

/// The lower or higher of two halves; `nan` says what comes of NaNs.
fn select(
    x: &Ins,
    out: &mut [Lanes; 2],
    higher: bool,
    nan: impl Fn(Mode, Format, u32, u32) -> Option<u32>,
) {
    let mode = x.mode;
    let pick =
        |a: u32, b: u32| nan(mode, HALF, a, b).unwrap_or_else(|| ordered(HALF, higher, a, b));
    let exact = |[a, b, _]: [Half; 3], _| Half(pick(u32::from(a.0), u32::from(b.0)) as u16);
    if higher {
        halves::<Extreme<true>>(x, out, exact);
    } else {
        halves::<Extreme<false>>(x, out, exact);
    }
}

/// A NaN loses against a number; the details differ by generation and MODE.IEEE.
pub(super) fn num(mode: Mode, format: Format, a: u32, b: u32) -> Option<u32> {
    let is = |bits: u32| is_nan(format, u64::from(bits));
    let signaling = |bits: u32| is_signaling(format, u64::from(bits));
    let quiet = |bits: u32| bits | 1 << (format.fraction - 1);
    if !is(a) && !is(b) {
        return None;
    }
    let (a_if, b_if) = (is(a), is(b));
    Some(match mode.generation() {
        Gen::Rdna4 if a_if && b_if => quiet(a),
        Gen::Rdna2 | Gen::Rdna3 | Gen::Cdna3 if mode.ieee() && signaling(a) => quiet(a),
        Gen::Rdna2 | Gen::Rdna3 | Gen::Cdna3 if mode.ieee() && signaling(b) => quiet(b),
        Gen::Rdna2 | Gen::Rdna3 if b_if => a,
        _ if a_if => b,
        _ => a,
    })
}

/// A NaN wins, the signaling one before the quiet one.
fn nan_wins(_: Mode, format: Format, a: u32, b: u32) -> Option<u32> {
    let found = [a, b]
        .into_iter()
        .find(|&bits| is_signaling(format, u64::from(bits)))
        .or_else(|| {
            [a, b]
                .into_iter()
                .find(|&bits| is_nan(format, u64::from(bits)))
        });
    found.map(|bits| bits | 1 << (format.fraction - 1))
}

/// `v_pk_min_f16`, `v_pk_min_num_f16`.
pub(super) fn min_num(x: &Ins, out: &mut [Lanes; 2]) {
    select(x, out, false, num);
}

/// `v_pk_max_f16`, `v_pk_max_num_f16`.
pub(super) fn max_num(x: &Ins, out: &mut [Lanes; 2]) {
    select(x, out, true, num);
}

/// `v_pk_minimum_f16`.
pub(super) fn minimum(x: &Ins, out: &mut [Lanes; 2]) {
    select(x, out, false, nan_wins);
}

/// `v_pk_maximum_f16`.
pub(super) fn maximum(x: &Ins, out: &mut [Lanes; 2]) {
    select(x, out, true, nan_wins);
}

/// Sums of products of the integers of `BITS` bits in two dwords.
struct Products<'a, const BITS: u32, const A: bool, const B: bool> {
    x: &'a Ins<'a>,
    out: &'a mut Lanes,
    /// Adds the third source: the low bits of the sum, or the sum saturated.
    signed: bool,
}

impl<const BITS: u32, const A: bool, const B: bool> Products<'_, BITS, A, B> {
    /// Element `n` of a source whose halves are these.
    #[inline(always)]
    fn element(low: u32, high: u32, signed: bool, n: u32) -> i32 {
        // Sixteen bits: `op_sel` has put them into dwords of their own.
        let dword = match (BITS, n) {
            (16, 0) => low << 16,
            (16, _) => high << 16,
            _ => low << (32 - BITS - n * BITS),
        };
        if signed {
            dword as i32 >> (32 - BITS)
        } else {
            (dword >> (32 - BITS)) as i32
        }
    }

    /// The dword that has element 0 lowest, and the one that has element 1 of 16 bits lowest.
    #[inline(always)]
    fn dwords(&self, k: usize, i: usize) -> (u32, u32) {
        let dword = self.x.src[k][0][i];
        match BITS {
            16 => (
                dword >> self.x.shifts(false)[k],
                dword >> self.x.shifts(true)[k],
            ),
            _ => (dword, 0),
        }
    }
}

impl<const BITS: u32, const A: bool, const B: bool> Kernel for Products<'_, BITS, A, B> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let c = self.x.src[2][0];
        let mut to = [0; 32];
        for i in 0..32 {
            let ((a, a_high), (b, b_high)) = (self.dwords(0, i), self.dwords(1, i));
            if !self.x.mods.clamp {
                let mut sum = c[i] as i32;
                for n in 0..32 / BITS {
                    let (a, b) = (
                        Self::element(a, a_high, A, n),
                        Self::element(b, b_high, B, n),
                    );
                    sum = sum.wrapping_add(a.wrapping_mul(b));
                }
                to[i] = sum as u32;
                continue;
            }
            let mut sum = if self.signed {
                i64::from(c[i] as i32)
            } else {
                i64::from(c[i])
            };
            for n in 0..32 / BITS {
                let (a, b) = (
                    Self::element(a, a_high, A, n),
                    Self::element(b, b_high, B, n),
                );
                sum += i64::from(a) * i64::from(b);
            }
            to[i] = if self.signed {
                sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32
            } else {
                sum.min(i64::from(u32::MAX)) as u32
            };
        }
        *self.out = to;
    }
}

fn integer_dot<const BITS: u32>(x: &Ins, out: &mut [Lanes; 2], of_ab: [bool; 2], signed: bool) {
    let out = &mut out[0];
    match of_ab {
        [false, false] => simd::run(Products::<BITS, false, false> { x, out, signed }),
        [true, true] => simd::run(Products::<BITS, true, true> { x, out, signed }),
        [true, false] => simd::run(Products::<BITS, true, false> { x, out, signed }),
        [false, true] => simd::run(Products::<BITS, false, true> { x, out, signed }),
    }
}

/// `v_dot*_i32_*`: which sources are signed; the result is.
pub(super) fn signed_dot<const BITS: u32>(x: &Ins, out: &mut [Lanes; 2], of_ab: [bool; 2]) {
    integer_dot::<BITS>(x, out, of_ab, true);
}

/// `v_dot*_u32_*`.
pub(super) fn unsigned_dot<const BITS: u32>(x: &Ins, out: &mut [Lanes; 2]) {
    integer_dot::<BITS>(x, out, [false; 2], false);
}
