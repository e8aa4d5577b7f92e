//! Capabilities of a target: the supported types of each operation.

use std::fmt;

use crate::dtype::DType;
use crate::ir::{Binary, Unary};
use crate::target::Atomics;

/// A set of element types.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct TypeSet(u16);

impl TypeSet {
    /// No type.
    pub const NONE: TypeSet = TypeSet(0);
    /// Integers and `Bool`.
    pub const BITS: TypeSet = {
        let (mut set, mut i) = (TypeSet::NONE, 0);
        while i < DType::ALL.len() {
            if !DType::ALL[i].is_float() {
                set = set.and(TypeSet::of(&[DType::ALL[i]]));
            }
            i += 1;
        }
        set
    };
    /// Those, `F32` and `F64`: what every machine computes in the type itself.
    pub const WIDE: TypeSet = TypeSet::BITS.and(TypeSet::of(&[DType::F32, DType::F64]));

    /// Certain types.
    pub const fn of(types: &[DType]) -> TypeSet {
        let (mut set, mut i) = (0, 0);
        while i < types.len() {
            set |= 1 << types[i] as u16;
            i += 1;
        }
        TypeSet(set)
    }

    /// The types of both.
    pub const fn and(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 | other.0)
    }

    /// Whether a type is in it.
    pub const fn has(self, dtype: DType) -> bool {
        self.0 >> dtype as u16 & 1 == 1
    }
}

impl fmt::Debug for TypeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = DType::ALL.into_iter().filter(|&t| self.has(t));
        f.debug_set().entries(types).finish()
    }
}

/// What a target has. "Has" means exactly the laws of [`crate::ir::op`]: a machine division that
/// traps on zero is not `TruncDiv`. What it has not is built from the plain instruction with
/// operands for which instruction and law agree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Caps {
    /// One-operand arithmetic, by operation.
    pub unary: [TypeSet; Unary::ALL.len()],
    /// Two-operand arithmetic, by operation; the types are those of the operands.
    pub binary: [TypeSet; Binary::ALL.len()],
    /// `Fma` with one rounding.
    pub fma: TypeSet,
    /// A product and a sum in one instruction, whose product may be rounded: for sums of products, not for functions.
    pub mad: TypeSet,
    /// Conversions, by the type that is converted.
    pub cast: [TypeSet; DType::ALL.len()],
    /// `Store(Atomic)` without a loop.
    pub atomics: Atomics,
    /// Work-items have memory of their own that is about as fast as registers: a stack.
    pub stack: bool,
    /// Denormal floats of 16 and 32 bits are zeros to it.
    pub flushes: bool,
}

impl Caps {
    /// Nothing.
    pub const NONE: Caps = Caps {
        unary: [TypeSet::NONE; Unary::ALL.len()],
        binary: [TypeSet::NONE; Binary::ALL.len()],
        fma: TypeSet::NONE,
        mad: TypeSet::NONE,
        cast: [TypeSet::NONE; DType::ALL.len()],
        atomics: Atomics {
            sums: &[],
            swaps: 8,
        },
        stack: false,
        flushes: false,
    };

    /// A processor with `f32`, `f64` and integers, conversions between `f16` and `f32`, and fused
    /// multiply-add; no transcendental functions, no checked division or shifts, no extrema of
    /// floats with the law's treatment of NaN and zeros.
    pub const PLAIN: Caps = Caps::NONE
        .with_unary(Unary::ALL, TypeSet::WIDE)
        .without_functions()
        .with_unary(&[Unary::Recip], TypeSet::NONE)
        .with_binary(Binary::ALL, TypeSet::WIDE)
        .with_binary(
            &[
                Binary::Pow,
                Binary::FloorDiv,
                Binary::FloorMod,
                Binary::TruncDiv,
                Binary::TruncMod,
                Binary::Shl,
                Binary::Shr,
            ],
            TypeSet::NONE,
        )
        .with_binary(&[Binary::Max, Binary::Min], TypeSet::BITS)
        .with_fma(TypeSet::of(&[DType::F32, DType::F64]))
        .with_casts(TypeSet::WIDE, TypeSet::WIDE)
        .with_half_casts();

    /// These operations on these types, and on no others.
    pub const fn with_unary(mut self, ops: &[Unary], types: TypeSet) -> Caps {
        let mut i = 0;
        while i < ops.len() {
            self.unary[ops[i] as usize] = types;
            i += 1;
        }
        self
    }

    /// No functions that are a library elsewhere.
    pub const fn without_functions(mut self) -> Caps {
        let mut i = 0;
        while i < Unary::ALL.len() {
            if Unary::ALL[i].is_function() {
                self.unary[Unary::ALL[i] as usize] = TypeSet::NONE;
            }
            i += 1;
        }
        self
    }

    /// These operations on these types, and on no others.
    pub const fn with_binary(mut self, ops: &[Binary], types: TypeSet) -> Caps {
        let mut i = 0;
        while i < ops.len() {
            self.binary[ops[i] as usize] = types;
            i += 1;
        }
        self
    }

    /// `Fma` on these types, and on no others.
    pub const fn with_fma(self, types: TypeSet) -> Caps {
        Caps { fma: types, ..self }
    }

    /// Conversions from all of the first types to all of the second ones, and what there was.
    pub const fn with_casts(mut self, from: TypeSet, to: TypeSet) -> Caps {
        let mut i = 0;
        while i < DType::ALL.len() {
            if from.has(DType::ALL[i]) {
                let casts = &mut self.cast[DType::ALL[i] as usize];
                *casts = casts.and(to);
            }
            i += 1;
        }
        self
    }

    /// Whether denormal floats are zeros to it.
    pub const fn with_flushes(self, flushes: bool) -> Caps {
        Caps { flushes, ..self }
    }

    /// Conversions between `F16` and `F32`, and what there was.
    pub const fn with_half_casts(self) -> Caps {
        let (half, single) = (TypeSet::of(&[DType::F16]), TypeSet::of(&[DType::F32]));
        self.with_casts(half, single).with_casts(single, half)
    }

    /// Has it the operation on a type?
    pub const fn has_unary(&self, op: Unary, dtype: DType) -> bool {
        self.unary[op as usize].has(dtype)
    }

    /// Has it the operation on operands of a type?
    pub const fn has_binary(&self, op: Binary, dtype: DType) -> bool {
        self.binary[op as usize].has(dtype)
    }

    /// Has it the conversion?
    pub const fn has_cast(&self, from: DType, to: DType) -> bool {
        self.cast[from as usize].has(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_a_row_for_each() {
        for (i, t) in DType::ALL.into_iter().enumerate() {
            assert_eq!(t as usize, i);
            assert_eq!(TypeSet::BITS.has(t), !t.is_float());
        }
        for (i, &op) in Unary::ALL.iter().enumerate() {
            assert_eq!(op as usize, i);
        }
        for (i, &op) in Binary::ALL.iter().enumerate() {
            assert_eq!(op as usize, i);
        }
        let caps = Caps::PLAIN;
        assert!(caps.has_unary(Unary::Sqrt, DType::F64) && !caps.has_unary(Unary::Sin, DType::F64));
        assert!(
            caps.has_binary(Binary::Max, DType::I8) && !caps.has_binary(Binary::Max, DType::F32)
        );
        assert!(caps.has_cast(DType::F16, DType::F32) && !caps.has_cast(DType::F16, DType::F64));
        assert!(caps.has_cast(DType::I8, DType::F64) && !caps.has_cast(DType::BF16, DType::F32));
    }
}
