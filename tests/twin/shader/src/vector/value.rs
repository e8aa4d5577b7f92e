//! What instructions compute with: the types of operands, and the arithmetic of the MODE register.

use crate::wave::Wave;

use super::float::{self, Number, Round};
use super::operand::Kind;

/// How arithmetic behaves. [`Fast`] is for the usual MODE, and may give any NaN where the result is a
/// NaN or depends on which NaN came in: the instruction is then run again with [`Exact`].
pub trait Env: Copy {
    /// `a + b`.
    fn add<R: Number>(self, a: R, b: R) -> R;
    /// `a - b`.
    fn sub<R: Number>(self, a: R, b: R) -> R;
    /// The rounding mode of results inside an instruction: odd where they are rounded once more.
    fn inner<R: Number>(self) -> Round;
    /// `a * b`.
    fn mul<R: Number>(self, a: R, b: R) -> R;
    /// `a * b + c`, rounded once.
    fn fma<R: Number>(self, a: R, b: R, c: R) -> R;
    /// `a * b + c` of halves.
    fn fma16(self, a: f32, b: f32, c: f32) -> f32;
    /// An f32 operand.
    fn read32(self, x: f32) -> f32;
    /// An f16 operand.
    fn read16(self, bits: u16) -> f32;
    /// An f64 operand.
    fn read64(self, x: f64) -> f64;
    /// An f32 result.
    fn write32(self, x: f32) -> f32;
    /// An f16 result.
    fn write16(self, x: f32) -> u16;
    /// An f64 result.
    fn write64(self, x: f64) -> f64;
    /// The rounding mode of f32 results.
    fn round32(self) -> Round;
    /// The rounding mode of f16 and f64 results.
    fn round64(self) -> Round;
    /// Whether NaNs are chosen exactly.
    const EXACT: bool;
    /// Whether signaling NaNs are told from quiet ones (`MODE.IEEE`).
    fn ieee(self) -> bool;
}

/// Rounds to nearest, keeps denormals.
#[derive(Clone, Copy)]
pub struct Fast;

/// The low byte of MODE that [`Fast`] stands for.
pub const FAST_MODE: u32 = 0xf0;

impl Env for Fast {
    #[inline(always)]
    fn add<R: Number>(self, a: R, b: R) -> R {
        a.native_add(b)
    }
    #[inline(always)]
    fn sub<R: Number>(self, a: R, b: R) -> R {
        a.native_add(b.negated())
    }
    #[inline(always)]
    fn inner<R: Number>(self) -> Round {
        Round::Nearest
    }
    #[inline(always)]
    fn mul<R: Number>(self, a: R, b: R) -> R {
        a.native_mul(b)
    }
    #[inline(always)]
    fn fma<R: Number>(self, a: R, b: R, c: R) -> R {
        a.native_fma(b, c)
    }
    #[inline(always)]
    fn fma16(self, a: f32, b: f32, c: f32) -> f32 {
        float::fma_of_halves(a, b, c)
    }
    #[inline(always)]
    fn read32(self, x: f32) -> f32 {
        x
    }
    #[inline(always)]
    fn read16(self, bits: u16) -> f32 {
        float::f16_to_f32(bits)
    }
    #[inline(always)]
    fn read64(self, x: f64) -> f64 {
        x
    }
    #[inline(always)]
    fn write32(self, x: f32) -> f32 {
        x
    }
    #[inline(always)]
    fn write16(self, x: f32) -> u16 {
        float::f32_to_f16(x)
    }
    #[inline(always)]
    fn write64(self, x: f64) -> f64 {
        x
    }
    #[inline(always)]
    fn round32(self) -> Round {
        Round::Nearest
    }
    #[inline(always)]
    fn round64(self) -> Round {
        Round::Nearest
    }
    const EXACT: bool = false;
    #[inline(always)]
    fn ieee(self) -> bool {
        true
    }
}

/// What MODE says.
#[derive(Clone, Copy)]
pub struct Exact {
    mode: u32,
    /// The rounding of f32 operations inside an instruction: to odd where its result is a half.
    inner: Round,
}

impl Exact {
    /// For an instruction with a result of this kind.
    pub fn new(wave: &Wave, result: Kind) -> Self {
        let mode = wave.mode;
        let inner = match result {
            Kind::F16 => match Round::of(mode >> 2) {
                Round::Nearest => Round::Nearest,
                _ => Round::Odd,
            },
            _ => Round::of(mode),
        };
        Self { mode, inner }
    }

    fn keeps(self, bit: u32) -> bool {
        self.mode >> bit & 1 != 0
    }
}

/// Zero with the sign of `x` where that is denormal.
fn flush<R: Number>(x: R) -> R {
    let (bits, format) = (x.bits(), R::FORMAT);
    if bits & format.infinity() == 0 {
        R::of(bits & 1 << (format.fraction + format.exponent))
    } else {
        x
    }
}

/// A NaN made quiet; any other number as it is.
fn quiet<R: Number>(x: R) -> R {
    if float::is_nan(R::FORMAT, x.bits()) {
        R::of(x.bits() | R::FORMAT.quiet())
    } else {
        x
    }
}

impl Env for Exact {
    fn add<R: Number>(self, a: R, b: R) -> R {
        float::add(a, b, self.inner::<R>())
    }
    fn sub<R: Number>(self, a: R, b: R) -> R {
        // A NaN keeps its sign.
        if float::is_nan(R::FORMAT, b.bits()) {
            return float::nan(&[a, b]);
        }
        float::add(a, b.negated(), self.inner::<R>())
    }
    fn inner<R: Number>(self) -> Round {
        if R::FORMAT == float::DOUBLE {
            self.round64()
        } else {
            self.inner
        }
    }
    fn mul<R: Number>(self, a: R, b: R) -> R {
        float::mul(a, b, self.inner::<R>())
    }
    fn fma<R: Number>(self, a: R, b: R, c: R) -> R {
        float::fma(a, b, c, self.inner::<R>())
    }
    fn fma16(self, a: f32, b: f32, c: f32) -> f32 {
        float::fma(a, b, c, Round::Odd)
    }
    fn read32(self, x: f32) -> f32 {
        if self.keeps(4) { x } else { flush(x) }
    }
    fn read16(self, bits: u16) -> f32 {
        if !self.keeps(6) && bits & 0x7c00 == 0 {
            f32::from_bits(u32::from(bits & 0x8000) << 16)
        } else {
            float::f16_to_f32(bits)
        }
    }
    fn read64(self, x: f64) -> f64 {
        if self.keeps(6) { x } else { flush(x) }
    }
    fn write32(self, x: f32) -> f32 {
        let x = quiet(x);
        if self.keeps(5) { x } else { flush(x) }
    }
    fn write16(self, x: f32) -> u16 {
        let bits = float::f32_to_f16_in(x, self.round64());
        if !self.keeps(7) && bits & 0x7c00 == 0 {
            bits & 0x8000
        } else {
            bits
        }
    }
    fn write64(self, x: f64) -> f64 {
        let x = quiet(x);
        if self.keeps(7) { x } else { flush(x) }
    }
    fn round32(self) -> Round {
        Round::of(self.mode)
    }
    fn round64(self) -> Round {
        Round::of(self.mode >> 2)
    }
    const EXACT: bool = true;
    fn ieee(self) -> bool {
        self.keeps(9)
    }
}

/// The type of an operand: how it is read from and written to dwords.
pub trait Type {
    /// What the meaning of an instruction sees.
    type T: Copy;
    /// What it holds.
    const KIND: Option<Kind>;
    /// Whether negation and absolute value are allowed (VOP3, SDWA, DPP).
    const MODIFIERS: bool = false;
    /// Whether its denormals and NaNs follow MODE.
    const FLOAT: bool = false;
    /// Takes two dwords.
    const WIDE: bool = false;
    /// From the low and the high dword.
    fn read<E: Env>(env: E, low: u32, high: u32) -> Self::T;
    /// To the low and the high dword.
    fn write<E: Env>(env: E, value: Self::T) -> (u32, u32);
}

/// No operand.
pub struct No;

impl Type for No {
    type T = ();
    const KIND: Option<Kind> = None;
    #[inline(always)]
    fn read<E: Env>(_: E, _: u32, _: u32) {}
    #[inline(always)]
    fn write<E: Env>(_: E, (): ()) -> (u32, u32) {
        (0, 0)
    }
}

macro_rules! integer {
    ($(#[$doc:meta])* $name:ident, $t:ty, $kind:ident) => {
        $(#[$doc])*
        pub struct $name;
        impl Type for $name {
            type T = $t;
            const KIND: Option<Kind> = Some(Kind::$kind);
            #[inline(always)]
            fn read<E: Env>(_: E, low: u32, _: u32) -> $t {
                low as $t
            }
            #[inline(always)]
            fn write<E: Env>(_: E, value: $t) -> (u32, u32) {
                (value as u32, 0)
            }
        }
    };
}
integer!(/// 32 bits without a sign.
    U32, u32, B32);
integer!(/// 32 bits with a sign.
    I32, i32, B32);
integer!(/// 16 bits without a sign.
    U16, u16, B16);
integer!(/// 16 bits with a sign.
    I16, i16, B16);

macro_rules! wide_integer {
    ($(#[$doc:meta])* $name:ident, $t:ty) => {
        $(#[$doc])*
        pub struct $name;
        impl Type for $name {
            type T = $t;
            const KIND: Option<Kind> = Some(Kind::B64);
            const WIDE: bool = true;
            #[inline(always)]
            fn read<E: Env>(_: E, low: u32, high: u32) -> $t {
                (low as u64 | (high as u64) << 32) as $t
            }
            #[inline(always)]
            fn write<E: Env>(_: E, value: $t) -> (u32, u32) {
                (value as u32, (value as u64 >> 32) as u32)
            }
        }
    };
}
wide_integer!(/// 64 bits without a sign.
    U64, u64);
wide_integer!(/// 64 bits with a sign.
    I64, i64);

macro_rules! pair {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name;

        impl Type for $name {
            type T = u32;
            const KIND: Option<Kind> = Some(Kind::$name);
            const MODIFIERS: bool = true;
            const FLOAT: bool = true;
            #[inline(always)]
            fn read<E: Env>(_: E, low: u32, _: u32) -> u32 {
                low
            }
            #[inline(always)]
            fn write<E: Env>(_: E, value: u32) -> (u32, u32) {
                (value, 0)
            }
        }
    };
}
pair!(/// Two halves in a dword.
    P16);
pair!(/// Two brain floats in a dword.
    PBf16);

/// Four dwords; only for instructions that fetch their operands themselves.
pub struct U128;

impl Type for U128 {
    type T = ();
    const KIND: Option<Kind> = Some(Kind::B128);
    #[inline(always)]
    fn read<E: Env>(_: E, _: u32, _: u32) {}
    #[inline(always)]
    fn write<E: Env>(_: E, (): ()) -> (u32, u32) {
        (0, 0)
    }
}

/// Single precision.
pub struct F32;
/// Half precision; the meaning sees it widened, which is exact.
pub struct F16;
/// Double precision.
pub struct F64;
/// The bits of a single that may be negated; denormals and NaNs stay as they are.
pub struct R32;
/// The bits of a half that may be negated.
pub struct R16;
/// The bits of a double that may be negated.
pub struct R64;
/// Brain float that may be negated, as bits.
pub struct Bf16;

impl Type for F32 {
    type T = f32;
    const KIND: Option<Kind> = Some(Kind::F32);
    const MODIFIERS: bool = true;
    const FLOAT: bool = true;
    #[inline(always)]
    fn read<E: Env>(env: E, low: u32, _: u32) -> f32 {
        env.read32(f32::from_bits(low))
    }
    #[inline(always)]
    fn write<E: Env>(env: E, value: f32) -> (u32, u32) {
        (env.write32(value).to_bits(), 0)
    }
}

impl Type for F16 {
    type T = f32;
    const KIND: Option<Kind> = Some(Kind::F16);
    const MODIFIERS: bool = true;
    const FLOAT: bool = true;
    #[inline(always)]
    fn read<E: Env>(env: E, low: u32, _: u32) -> f32 {
        env.read16(low as u16)
    }
    #[inline(always)]
    fn write<E: Env>(env: E, value: f32) -> (u32, u32) {
        (u32::from(env.write16(value)), 0)
    }
}

impl Type for F64 {
    type T = f64;
    const KIND: Option<Kind> = Some(Kind::F64);
    const MODIFIERS: bool = true;
    const FLOAT: bool = true;
    const WIDE: bool = true;
    #[inline(always)]
    fn read<E: Env>(env: E, low: u32, high: u32) -> f64 {
        env.read64(f64::from_bits(u64::from(low) | u64::from(high) << 32))
    }
    #[inline(always)]
    fn write<E: Env>(env: E, value: f64) -> (u32, u32) {
        let bits = env.write64(value).to_bits();
        (bits as u32, (bits >> 32) as u32)
    }
}

macro_rules! raw {
    ($name:ident, $like:ident, $t:ty, $kind:ident) => {
        impl Type for $name {
            type T = $t;
            const KIND: Option<Kind> = Some(Kind::$kind);
            const MODIFIERS: bool = true;
            const WIDE: bool = $like::WIDE;
            #[inline(always)]
            fn read<E: Env>(env: E, low: u32, high: u32) -> $t {
                $like::read(env, low, high)
            }
            #[inline(always)]
            fn write<E: Env>(env: E, value: $t) -> (u32, u32) {
                $like::write(env, value)
            }
        }
    };
}
raw!(R32, U32, u32, F32);
raw!(R16, U16, u16, F16);
raw!(R64, U64, u64, F64);
raw!(Bf16, U16, u16, Bf16);
