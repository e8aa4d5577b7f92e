//! Host types of elements.

use std::fmt;

use codegen::DType;
use codegen::interp::scalar;

/// A host type that stands for one [`DType`]; elements are little-endian in memory.
pub trait Element: Copy + Send + Sync + 'static {
    /// The element type of tensors made from this type.
    const DTYPE: DType;

    /// Appends the bytes of the element.
    fn put(self, to: &mut Vec<u8>);

    /// The element with the given bits, in the encoding of [`codegen::ir::Op::Const`].
    fn from_bits(bits: u64) -> Self;
}

/// An OCP 8-bit float with 4 exponent bits, as its byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct F8E4M3(pub u8);

/// An OCP 8-bit float with 5 exponent bits, as its byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct F8E5M2(pub u8);

macro_rules! eight_bit_float {
    ($name:ident) => {
        impl $name {
            /// The nearest value, ties to even; overflow as a cast of tensors does it.
            pub fn from_f64(x: f64) -> Self {
                $name(scalar::from_f64(DType::$name, x) as u8)
            }

            /// The value, exactly.
            pub fn to_f64(self) -> f64 {
                scalar::to_f64(DType::$name, u64::from(self.0))
            }
        }

        impl Element for $name {
            const DTYPE: DType = DType::$name;
            fn put(self, to: &mut Vec<u8>) {
                to.push(self.0);
            }
            fn from_bits(bits: u64) -> Self {
                $name(bits as u8)
            }
        }
    };
}
eight_bit_float!(F8E4M3);
eight_bit_float!(F8E5M2);

macro_rules! element {
    ($($rust:ty, $dtype:ident, $bits:ident => $from:expr;)*) => {$(
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
            fn put(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
            fn from_bits($bits: u64) -> Self {
                $from
            }
        }
    )*};
}
element! {
    i8, I8, bits => bits as i8;
    i16, I16, bits => bits as i16;
    i32, I32, bits => bits as i32;
    i64, I64, bits => bits as i64;
    u8, U8, bits => bits as u8;
    u16, U16, bits => bits as u16;
    u32, U32, bits => bits as u32;
    u64, U64, bits => bits;
    half::f16, F16, bits => half::f16::from_bits(bits as u16);
    half::bf16, BF16, bits => half::bf16::from_bits(bits as u16);
    f32, F32, bits => f32::from_bits(bits as u32);
    f64, F64, bits => f64::from_bits(bits);
}

impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn put(self, to: &mut Vec<u8>) {
        to.push(u8::from(self));
    }
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
}

/// A number without a type of its own: it takes the type of the tensor that it meets.
///
/// A float beside an integer or boolean tensor makes the result `f32`, an integer beside a boolean
/// tensor makes it `i32`. A number never makes a tensor of its own kind wider, so it has to fit:
///
/// - In arithmetic, and where the number becomes an element (`full`, `where_`, `masked_fill`, `pad`),
///   an integer outside of the range of an integer type is an error, as are NaN and infinities in
///   one. A fraction that becomes an integer is cut off. Nothing wraps.
/// - Comparisons are by value, whatever the type holds: `lt(300)` is true for all of `u8`, and
///   `lt(0.5)` on integers does not round them. NaN is unequal to everything.
/// - `maximum`, `minimum`, `clamp` and `clip` are by value too: a limit that no element of the type
///   reaches does nothing. One that all would become, but which does not fit, is an error.
/// - A number too large for a float type becomes infinity, as a cast makes it (NaN in
///   [`DType::F8E4M3`], which has none). Comparisons still tell the two apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// A floating point literal.
    Float(f64),
    /// An integer literal.
    Int(i64),
    /// A truth value.
    Bool(bool),
}

impl Scalar {
    /// The type of the result when it meets a tensor of type `dtype`.
    pub fn beside(self, dtype: DType) -> DType {
        match self {
            Scalar::Float(_) if !dtype.is_float() => DType::F32,
            Scalar::Int(_) if dtype == DType::Bool => DType::I32,
            _ => dtype,
        }
    }

    /// The bits of the value cast to a type: integers wrap, see [`Scalar::fit`].
    pub fn bits(self, dtype: DType) -> u64 {
        match self {
            Scalar::Float(x) if dtype.is_float() => scalar::from_f64(dtype, x),
            Scalar::Float(x) => scalar::cast(DType::F64, dtype, x.to_bits()),
            Scalar::Int(x) => scalar::cast(DType::I64, dtype, x as u64),
            Scalar::Bool(x) => scalar::cast(DType::Bool, dtype, u64::from(x)),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Float(x) => write!(f, "{x:?}"),
            Scalar::Int(x) => write!(f, "{x}"),
            Scalar::Bool(x) => write!(f, "{x}"),
        }
    }
}

macro_rules! scalar_from {
    ($($rust:ty => $variant:ident as $wide:ty;)*) => {$(
        impl From<$rust> for Scalar {
            fn from(x: $rust) -> Self {
                Scalar::$variant(x as $wide)
            }
        }
    )*};
}
scalar_from! {
    f32 => Float as f64;
    f64 => Float as f64;
    i32 => Int as i64;
    i64 => Int as i64;
    u8 => Int as i64;
    u32 => Int as i64;
    bool => Bool as bool;
}
