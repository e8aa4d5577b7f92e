//! Single precision in each lane: pairs, mixes with halves, sums of products, the halves of VOPD.

use std::marker::PhantomData;

use super::arith::{Fast, Ins, Loop, Two, each_bit, is_nan_lane, num, ordered};
use super::formats::Element;
use super::mode::Mode;
use crate::simd::{self, Kernel};
use crate::vector::float::{
    self, HALF, SINGLE, bf16_to_f32, f16_to_f32, f32_to_f16, f32_to_f16_in,
};
use crate::wave::Lanes;

/// `a op b` in single precision as MODE says.
fn exact2(mode: Mode, op: Two, a: u32, b: u32) -> u32 {
    let [a, b] = [a, b].map(|bits| f32::from_bits(mode.input(SINGLE, bits)));
    mode.output(SINGLE, op.exact(a, b, mode.round(SINGLE)).to_bits())
}

/// `a * b + c` in single precision as MODE says.
fn exact3(mode: Mode, s: [u32; 3]) -> u32 {
    let [a, b, c] = s.map(|bits| f32::from_bits(mode.input(SINGLE, bits)));
    mode.output(SINGLE, float::fma(a, b, c, mode.round(SINGLE)).to_bits())
}

/// The dwords of `v_pk_*_f32`: `op_sel` chooses for the low result, `op_sel_hi` for the high one.
#[inline(always)]
fn dwords(x: &Ins, out: &mut [Lanes; 2], f: impl Fn([u32; 3]) -> u32) {
    for (high, to) in out.iter_mut().enumerate() {
        let (sel, neg) = match high {
            0 => (x.mods.op_sel, x.mods.neg_lo),
            _ => (x.mods.op_sel_hi, x.mods.neg_hi),
        };
        let from = |k: usize| x.src[k][usize::from(sel >> k & 1)];
        let (a, b, c) = (from(0), from(1), from(2));
        let flip = each_bit(neg, 31);
        let mut result = [0; 32];
        for i in 0..32 {
            result[i] = f([a[i] ^ flip[0], b[i] ^ flip[1], c[i] ^ flip[2]]);
        }
        *to = result;
    }
}

/// Pairs of singles, in the usual MODE; says whether any is a NaN.
struct Pairs<'a, F>(&'a Ins<'a>, &'a mut [Lanes; 2], PhantomData<F>);

impl<F: Fast> Kernel for Pairs<'_, F> {
    type Out = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Self(x, out, _) = self;
        dwords(x, out, F::lane);
        any_nan(&out[0]) | any_nan(&out[1])
    }
}

#[inline(always)]
fn any_nan(lanes: &Lanes) -> bool {
    let mut nan = 0;
    for &lane in lanes {
        nan |= u32::from(is_nan_lane(SINGLE, lane));
    }
    nan != 0
}

/// Pairs of singles, by way of `F` where MODE is the usual one and no result is a NaN, and of `exact`
/// elsewhere.
fn pairs<F: Fast>(x: &Ins, out: &mut [Lanes; 2], exact: impl Fn([u32; 3]) -> u32) {
    if !x.mode.is_plain() || simd::run(Pairs::<F>(x, out, PhantomData)) {
        dwords(x, out, exact);
    }
    if x.mods.clamp {
        for lane in out.as_flattened_mut() {
            *lane = x.mode.clamp(SINGLE, *lane);
        }
    }
}

/// Sum or product of singles.
struct Single2<const MUL: bool>;

impl<const MUL: bool> Fast for Single2<MUL> {
    #[inline(always)]
    fn lane([a, b, _]: [u32; 3]) -> u32 {
        let (a, b) = (f32::from_bits(a), f32::from_bits(b));
        (if MUL { a * b } else { a + b }).to_bits()
    }
}

/// Fused multiply-add of singles.
struct Single3;

impl Fast for Single3 {
    #[inline(always)]
    fn lane([a, b, c]: [u32; 3]) -> u32 {
        f32::from_bits(a)
            .mul_add(f32::from_bits(b), f32::from_bits(c))
            .to_bits()
    }
}

/// Sums and products of pairs of singles.
pub(super) fn pair_f32(x: &Ins, out: &mut [Lanes; 2], op: Two) {
    let exact = |[a, b, _]: [u32; 3]| exact2(x.mode, op, a, b);
    match op {
        Two::Add => pairs::<Single2<false>>(x, out, exact),
        Two::Mul => pairs::<Single2<true>>(x, out, exact),
    }
}

/// Fused multiply-add of pairs of singles.
pub(super) fn fused(x: &Ins, out: &mut [Lanes; 2]) {
    pairs::<Single3>(x, out, |s| exact3(x.mode, s));
}

/// The sources of `v_fma_mix*` as singles.
struct Widen<'a> {
    from: &'a Lanes,
    to: &'a mut Lanes,
    /// Reads the half above so many bits.
    half: Option<u32>,
    absolute: bool,
    negative: bool,
    /// Where denormal halves may read as zero.
    mode: Option<Mode>,
}

impl Kernel for Widen<'_> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let (and, xor) = (
            u32::MAX >> u32::from(self.absolute),
            u32::from(self.negative) << 31,
        );
        let mut to = [0; 32];
        for (to, &from) in to.iter_mut().zip(self.from) {
            let wide = match (self.half, self.mode) {
                (None, _) => from,
                (Some(shift), None) => f16_to_f32((from >> shift) as u16).to_bits(),
                (Some(shift), Some(mode)) => {
                    let half = mode.input(HALF, from >> shift & 0xffff);
                    f16_to_f32(half as u16).to_bits()
                }
            };
            *to = wide & and ^ xor;
        }
        *self.to = to;
    }
}

/// The multiply-add of `v_fma_mix*`, in single precision.
fn mixed(x: &Ins, out: &mut Lanes) {
    let mut read = [[0; 32]; 3];
    for (k, to) in read.iter_mut().enumerate() {
        let bit = |bits: u8| bits >> k & 1 != 0;
        simd::run(Widen {
            from: x.src[k][0],
            to,
            half: bit(x.mods.op_sel_hi).then_some(16 * u32::from(bit(x.mods.op_sel))),
            absolute: bit(x.mods.neg_hi),
            negative: bit(x.mods.neg_lo),
            mode: (!x.mode.is_plain()).then_some(x.mode),
        });
    }
    fma(x.mode, &read[0], &read[1], &read[2], out);
    if x.mods.clamp {
        for lane in out {
            *lane = x.mode.clamp(SINGLE, *lane);
        }
    }
}

/// `v_fma_mix_f32`.
pub(super) fn mix_f32(x: &Ins, out: &mut [Lanes; 2]) {
    mixed(x, &mut out[0]);
}

/// The result of `v_fma_mix` as halves in the low or the high half of the destination.
fn mix_half(x: &Ins, out: &mut Lanes, shift: u32) {
    let mut wide = [0; 32];
    mixed(x, &mut wide);
    let round = x.mode.round(HALF);
    for i in 0..32 {
        let value = f32::from_bits(wide[i]);
        let half = if x.mode.is_plain() {
            u32::from(f32_to_f16(value))
        } else {
            x.mode.output(HALF, u32::from(f32_to_f16_in(value, round)))
        };
        out[i] = out[i] & !(0xffff << shift) | half << shift;
    }
}

/// `v_fma_mixlo_f16`.
pub(super) fn mix_low(x: &Ins, out: &mut [Lanes; 2]) {
    mix_half(x, &mut out[0], 0);
}

/// `v_fma_mixhi_f16`.
pub(super) fn mix_high(x: &Ins, out: &mut [Lanes; 2]) {
    mix_half(x, &mut out[0], 16);
}

/// `c + a0 * b0 + a1 * b1 ...` in single precision, from left to right, each step rounded.
#[inline(always)]
fn sum<const N: usize>(mode: Mode, c: u32, a: [f32; N], b: [f32; N]) -> u32 {
    let mut total = c;
    for k in 0..N {
        let product = exact2(mode, Two::Mul, a[k].to_bits(), b[k].to_bits());
        total = exact2(mode, Two::Add, total, product);
    }
    total
}

/// The same for all lanes, with processor instructions; a NaN may be any.
struct Sums<'a, const N: usize>(&'a Lanes, &'a [[[f32; 32]; N]; 2], &'a mut Lanes);

impl<const N: usize> Kernel for Sums<'_, N> {
    type Out = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Self(c, [a, b], out) = self;
        let mut to = [0; 32];
        for i in 0..32 {
            let mut total = f32::from_bits(c[i]);
            for k in 0..N {
                total += a[k][i] * b[k][i];
            }
            to[i] = total.to_bits();
        }
        *out = to;
        any_nan(&to)
    }
}

/// Sums for all lanes.
fn sums<const N: usize>(
    mode: Mode,
    clamp: bool,
    c: &Lanes,
    ab: &[[[f32; 32]; N]; 2],
    out: &mut Lanes,
) {
    let nan = simd::run(Sums(c, ab, out));
    if nan || !mode.is_plain() {
        for i in 0..32 {
            let [a, b] = ab.map(|s| s.map(|s| s[i]));
            out[i] = sum(mode, c[i], a, b);
        }
    }
    if clamp {
        for lane in out {
            *lane = mode.clamp(SINGLE, *lane);
        }
    }
}

/// Halves of a source as singles.
struct Wide<'a> {
    from: &'a Lanes,
    to: &'a mut [f32; 32],
    element: Element,
    shift: u32,
    flip: u32,
    mode: Option<Mode>,
}

impl Kernel for Wide<'_> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let mut to = [0.0; 32];
        for (to, &from) in to.iter_mut().zip(self.from) {
            let half = from >> self.shift & 0xffff ^ self.flip;
            *to = match (self.element, self.mode) {
                (Element::Bf16, _) => bf16_to_f32(half as u16),
                (_, None) => f16_to_f32(half as u16),
                (_, Some(mode)) => f16_to_f32(mode.input(HALF, half) as u16),
            };
        }
        *self.to = to;
    }
}

/// `v_dot2_f32_f16`, `v_dot2_f32_bf16`.
pub(super) fn dot_f32(x: &Ins, out: &mut [Lanes; 2], element: Element) {
    let (low, high) = (x.shifts(false), x.shifts(true));
    let (flip_low, flip_high) = (x.flips(false), x.flips(true));
    let mode = (!x.mode.is_plain()).then_some(x.mode);
    let mut ab = [[[0.0; 32]; 2]; 2];
    for (k, to) in ab.iter_mut().enumerate() {
        let from = x.src[k][0];
        let halves = [(low[k], flip_low[k]), (high[k], flip_high[k])];
        for (to, (shift, flip)) in to.iter_mut().zip(halves) {
            simd::run(Wide {
                from,
                to,
                element,
                shift,
                flip,
                mode,
            });
        }
    }
    let c = x.src[2][0].map(|bits| bits ^ flip_low[2] << 16);
    sums(x.mode, x.mods.clamp, &c, &ab, &mut out[0]);
}

/// `v_dot2acc_f32_f16` and its like: the halves as they lie, onto what the destination holds.
pub(super) fn dot2acc(mode: Mode, element: Element, a: &Lanes, b: &Lanes, out: &mut Lanes) {
    let c = *out;
    let denormals = (!mode.is_plain()).then_some(mode);
    let mut ab = [[[0.0; 32]; 2]; 2];
    for (to, from) in ab.iter_mut().zip([a, b]) {
        for (to, shift) in to.iter_mut().zip([0, 16]) {
            simd::run(Wide {
                from,
                to,
                element,
                shift,
                flip: 0,
                mode: denormals,
            });
        }
    }
    sums(mode, false, &c, &ab, out);
}

/// `v_dot4_f32_*`: the third source may be made absolute, then negative.
pub(super) fn fp8_dot(x: &Ins, out: &mut [Lanes; 2], elements: [Element; 2]) {
    let and = u32::MAX >> (x.mods.neg_hi >> 2 & 1);
    let xor = u32::from(x.mods.neg_lo >> 2 & 1) << 31;
    let c = x.src[2][0].map(|bits| bits & and ^ xor);
    let ab = [0, 1].map(|k| {
        let values = elements[k].values();
        [0, 8, 16, 24].map(|at| {
            let from = x.src[k][0];
            from.map(|dword| values[usize::from((dword >> at) as u8)])
        })
    });
    sums(x.mode, x.mods.clamp, &c, &ab, &mut out[0]);
}

/// A value for every lane.
#[inline(always)]
pub(super) fn each(out: &mut Lanes, f: impl Fn(usize) -> u32) {
    simd::run(Loop(|| {
        let mut to = [0; 32];
        for (i, to) in to.iter_mut().enumerate() {
            *to = f(i);
        }
        *out = to;
    }));
}

/// A single for every lane, in the usual MODE; says whether any is a NaN.
struct Floats<'a, F>([&'a Lanes; 3], &'a mut Lanes, PhantomData<F>);

impl<F: Fast> Kernel for Floats<'_, F> {
    type Out = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Self([a, b, c], out, _) = self;
        let mut to = [0; 32];
        for i in 0..32 {
            to[i] = F::lane([a[i], b[i], c[i]]);
        }
        *out = to;
        any_nan(&to)
    }
}

/// A single for every lane, by way of `F` where MODE is the usual one and no result is a NaN, and of
/// `exact` elsewhere.
fn floats<F: Fast>(mode: Mode, s: [&Lanes; 3], out: &mut Lanes, exact: impl Fn([u32; 3]) -> u32) {
    if !mode.is_plain() || simd::run(Floats::<F>(s, out, PhantomData)) {
        for i in 0..32 {
            out[i] = exact(s.map(|s| s[i]));
        }
    }
}

/// `a * b + c` in single precision.
pub(super) fn fma(mode: Mode, a: &Lanes, b: &Lanes, c: &Lanes, out: &mut Lanes) {
    floats::<Single3>(mode, [a, b, c], out, |s| exact3(mode, s));
}

/// `a * b` in single precision.
pub(super) fn mul(mode: Mode, a: &Lanes, b: &Lanes, out: &mut Lanes) {
    let exact = |[a, b, _]: [u32; 3]| exact2(mode, Two::Mul, a, b);
    floats::<Single2<true>>(mode, [a, b, b], out, exact);
}

/// `a + b` in single precision.
pub(super) fn add(mode: Mode, a: &Lanes, b: &Lanes, out: &mut Lanes) {
    let exact = |[a, b, _]: [u32; 3]| exact2(mode, Two::Add, a, b);
    floats::<Single2<false>>(mode, [a, b, b], out, exact);
}

/// Difference of singles.
struct Minus;

impl Fast for Minus {
    #[inline(always)]
    fn lane([a, b, _]: [u32; 3]) -> u32 {
        (f32::from_bits(a) - f32::from_bits(b)).to_bits()
    }
}

/// `a - b` in single precision.
pub(super) fn sub(mode: Mode, a: &Lanes, b: &Lanes, out: &mut Lanes) {
    let exact = |[a, b, _]: [u32; 3]| exact2(mode, Two::Add, a, b ^ 1 << 31);
    floats::<Minus>(mode, [a, b, b], out, exact);
}

/// `a * b`, where zero times anything is zero.
pub(super) fn mul_dx9(mode: Mode, a: &Lanes, b: &Lanes, out: &mut Lanes) {
    mul(mode, a, b, out);
    let zero = |bits: u32| mode.input(SINGLE, bits) << 1 == 0;
    for i in 0..32 {
        if zero(a[i]) || zero(b[i]) {
            out[i] = 0;
        }
    }
}

/// The lower or higher of two singles; says whether a source is a NaN.
struct Extremes<'a, const HIGHER: bool>(&'a Lanes, &'a Lanes, &'a mut Lanes);

impl<const HIGHER: bool> Kernel for Extremes<'_, HIGHER> {
    type Out = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Self(a, b, out) = self;
        let mut to = [0; 32];
        for i in 0..32 {
            to[i] = ordered(SINGLE, HIGHER, a[i], b[i]);
        }
        *out = to;
        any_nan(a) | any_nan(b)
    }
}

/// The lower or higher of two singles.
fn select_f32(mode: Mode, higher: bool, a: &Lanes, b: &Lanes, out: &mut Lanes) {
    let unordered = if higher {
        simd::run(Extremes::<true>(a, b, out))
    } else {
        simd::run(Extremes::<false>(a, b, out))
    };
    if !mode.is_plain() || unordered {
        for i in 0..32 {
            let [a, b] = [a[i], b[i]].map(|bits| mode.input(SINGLE, bits));
            let result = num(mode, SINGLE, a, b).unwrap_or_else(|| ordered(SINGLE, higher, a, b));
            out[i] = mode.output(SINGLE, result);
        }
    }
}

/// `v_dual_min_f32`.
pub(super) fn min(mode: Mode, a: &Lanes, b: &Lanes, out: &mut Lanes) {
    select_f32(mode, false, a, b, out);
}

/// `v_dual_max_f32`.
pub(super) fn max(mode: Mode, a: &Lanes, b: &Lanes, out: &mut Lanes) {
    select_f32(mode, true, a, b, out);
}
