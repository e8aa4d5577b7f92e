//! The arithmetic operations, one row each, with everything that other crates need.
//!
//! A new operation needs a row here, and what the compiler then reports as missing: its text in the renderers, its
//! decomposition for targets that lack it, its gradient. The interpreter, constant folding, checks of types, costs
//! and the tests over all operations read the rows.

use std::cmp::Ordering;

use super::special;
use crate::dtype::DType;

/// The types of operands that an operation is defined for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Types {
    /// All.
    Any,
    /// Integers and floats.
    Numbers,
    /// Integers and `Bool`.
    Bits,
    /// Integers.
    Integers,
    /// Floats.
    Floats,
}

impl Types {
    /// Whether a type is one of them.
    pub const fn has(self, dtype: DType) -> bool {
        match self {
            Types::Any => true,
            Types::Numbers => !matches!(dtype, DType::Bool),
            Types::Bits => !dtype.is_float(),
            Types::Integers => dtype.is_int(),
            Types::Floats => dtype.is_float(),
        }
    }

    /// For messages.
    pub const fn name(self) -> &'static str {
        match self {
            Types::Any => "anything",
            Types::Numbers => "numbers",
            Types::Bits => "integers or bool",
            Types::Integers => "integers",
            Types::Floats => "floats",
        }
    }
}

/// How much work an operation is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cost {
    /// One instruction everywhere.
    One,
    /// One or two instructions, not on every machine, and not always fast.
    Few,
    /// A sequence, or an instruction of many cycles.
    Several,
    /// A function of many operations.
    Function,
}

/// Properties of a [`Unary`].
#[derive(Debug)]
pub struct UnaryRow {
    /// For messages.
    pub name: &'static str,
    /// Of the operand, which is also that of the result.
    pub types: Types,
    /// Work on one element.
    pub cost: Cost,
    /// The value for floats; narrower ones are rounded afterwards.
    pub float: Option<fn(f64) -> f64>,
    /// The value for integers and booleans; the low bits count.
    pub int: Option<fn(DType, i128) -> i128>,
}

/// Properties of a [`Binary`].
#[derive(Debug)]
pub struct BinaryRow {
    /// For messages.
    pub name: &'static str,
    /// Of the operands, which is also that of the result unless that is a comparison's.
    pub types: Types,
    /// Work on one element.
    pub cost: Cost,
    /// `a op b == b op a` for every type.
    pub commutative: bool,
    /// What it gives.
    pub value: BinaryValue,
}

/// What a [`Binary`] gives.
#[derive(Debug)]
pub enum BinaryValue {
    /// A `Bool`, from the order of the operands; NaN has none.
    Order(fn(Option<Ordering>) -> bool),
    /// A value of the type of the operands, as in [`UnaryRow`].
    Number {
        /// For floats.
        float: Option<fn(f64, f64) -> f64>,
        /// For integers and booleans. The width counts for shifts.
        int: Option<fn(DType, i128, i128) -> i128>,
    },
}

/// Properties of a [`ReduceOp`].
#[derive(Debug)]
pub struct ReduceRow {
    /// For messages.
    pub name: &'static str,
    /// The operation that combines two partial results.
    pub binary: Binary,
}

macro_rules! operations {
    (
        $(#[$meta:meta])*
        $name:ident: $row:ty;
        $($(#[$doc:meta])* $op:ident = $value:expr;)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum $name {
            $($(#[$doc])* $op,)*
        }

        impl $name {
            /// Every operation.
            pub const ALL: &'static [$name] = &[$($name::$op),*];

            /// Its properties.
            pub const fn row(self) -> &'static $row {
                match self {
                    $($name::$op => const { &$value },)*
                }
            }
        }
    };
}

/// A row of an operation on floats only.
const fn of_floats(name: &'static str, cost: Cost, float: fn(f64) -> f64) -> UnaryRow {
    UnaryRow {
        name,
        types: Types::Floats,
        cost,
        float: Some(float),
        int: None,
    }
}

operations! {
    /// One-operand arithmetic.
    Unary: UnaryRow;
    /// Negation; wraps for integers (also unsigned).
    Neg = UnaryRow {
        name: "neg",
        types: Types::Numbers,
        cost: Cost::One,
        float: Some(|x| -x),
        int: Some(|_, x| -x),
    };
    /// Bitwise complement; logical not for `Bool`.
    Not = UnaryRow {
        name: "not",
        types: Types::Bits,
        cost: Cost::One,
        float: None,
        int: Some(|dtype, x| if matches!(dtype, DType::Bool) { x ^ 1 } else { !x }),
    };
    /// Absolute value; wraps for the smallest signed integer.
    Abs = UnaryRow {
        name: "abs",
        types: Types::Any,
        cost: Cost::One,
        float: Some(f64::abs),
        int: Some(|_, x| x.abs()),
    };
    /// 1/x, floats only.
    Recip = of_floats("recip", Cost::Few, |x| 1.0 / x);
    /// Square root, floats only; NaN below zero.
    Sqrt = of_floats("sqrt", Cost::Several, f64::sqrt);
    /// 2^x, floats only.
    Exp2 = of_floats("exp2", Cost::Function, f64::exp2);
    /// Base-2 logarithm, floats only.
    Log2 = of_floats("log2", Cost::Function, f64::log2);
    /// Sine in radians, floats only.
    Sin = of_floats("sin", Cost::Function, f64::sin);
    /// e^x, floats only.
    Exp = of_floats("exp", Cost::Function, f64::exp);
    /// e^x - 1, floats only.
    Expm1 = of_floats("expm1", Cost::Function, f64::exp_m1);
    /// Natural logarithm, floats only.
    Log = of_floats("log", Cost::Function, f64::ln);
    /// Base-10 logarithm, floats only.
    Log10 = of_floats("log10", Cost::Function, f64::log10);
    /// ln(1 + x), floats only.
    Log1p = of_floats("log1p", Cost::Function, f64::ln_1p);
    /// Cosine in radians, floats only.
    Cos = of_floats("cos", Cost::Function, f64::cos);
    /// Tangent in radians, floats only.
    Tan = of_floats("tan", Cost::Function, f64::tan);
    /// Inverse sine in radians; NaN outside of -1..=1, floats only.
    Asin = of_floats("asin", Cost::Function, f64::asin);
    /// Inverse cosine in radians; NaN outside of -1..=1, floats only.
    Acos = of_floats("acos", Cost::Function, f64::acos);
    /// Inverse tangent in radians, floats only.
    Atan = of_floats("atan", Cost::Function, f64::atan);
    /// Hyperbolic sine, floats only.
    Sinh = of_floats("sinh", Cost::Function, f64::sinh);
    /// Hyperbolic cosine, floats only.
    Cosh = of_floats("cosh", Cost::Function, f64::cosh);
    /// Hyperbolic tangent, floats only.
    Tanh = of_floats("tanh", Cost::Function, f64::tanh);
    /// Inverse hyperbolic sine, floats only.
    Asinh = of_floats("asinh", Cost::Function, special::asinh);
    /// Inverse hyperbolic cosine; NaN below 1, floats only.
    Acosh = of_floats("acosh", Cost::Function, special::acosh);
    /// Inverse hyperbolic tangent; NaN outside of -1..=1, floats only.
    Atanh = of_floats("atanh", Cost::Function, special::atanh);
    /// The error function, floats only.
    Erf = of_floats("erf", Cost::Function, special::erf);
    /// 1 - erf(x), floats only.
    Erfc = of_floats("erfc", Cost::Function, special::erfc);
    /// Round towards zero, floats only.
    Trunc = of_floats("trunc", Cost::Few, f64::trunc);
    /// Round down, floats only.
    Floor = of_floats("floor", Cost::Few, f64::floor);
    /// Round up, floats only.
    Ceil = of_floats("ceil", Cost::Few, f64::ceil);
    /// Round to nearest, ties to even, floats only.
    RoundEven = of_floats("round", Cost::Few, f64::round_ties_even);
}

impl Unary {
    /// A function that takes many machine operations rather than one or two.
    pub const fn is_function(self) -> bool {
        matches!(self.row().cost, Cost::Function)
    }
}

/// A row of an operation that is one instruction on any type.
const fn of_any(
    name: &'static str,
    commutative: bool,
    float: fn(f64, f64) -> f64,
    int: fn(DType, i128, i128) -> i128,
) -> BinaryRow {
    BinaryRow {
        name,
        types: Types::Any,
        cost: Cost::One,
        commutative,
        value: BinaryValue::Number {
            float: Some(float),
            int: Some(int),
        },
    }
}

/// A row of an operation that is not defined for floats.
const fn of_ints(
    name: &'static str,
    types: Types,
    cost: Cost,
    commutative: bool,
    int: fn(DType, i128, i128) -> i128,
) -> BinaryRow {
    BinaryRow {
        name,
        types,
        cost,
        commutative,
        value: BinaryValue::Number {
            float: None,
            int: Some(int),
        },
    }
}

/// A row of a comparison.
const fn comparison(
    name: &'static str,
    commutative: bool,
    holds: fn(Option<Ordering>) -> bool,
) -> BinaryRow {
    BinaryRow {
        name,
        types: Types::Any,
        cost: Cost::One,
        commutative,
        value: BinaryValue::Order(holds),
    }
}

operations! {
    /// Two-operand arithmetic. Operands have one type; comparisons give `Bool`.
    Binary: BinaryRow;
    /// a + b.
    Add = of_any("add", true, |x, y| x + y, |_, x, y| x + y);
    /// a - b.
    Sub = of_any("sub", false, |x, y| x - y, |_, x, y| x - y);
    /// a * b; `And` for `Bool`.
    // Two unsigned 64-bit factors do not fit i128; the low bits are all that is kept.
    Mul = of_any("mul", true, |x, y| x * y, |_, x, y| x.wrapping_mul(y));
    /// a / b, floats only.
    FDiv = BinaryRow {
        name: "div",
        types: Types::Floats,
        cost: Cost::Few,
        commutative: false,
        value: BinaryValue::Number {
            float: Some(|x, y| x / y),
            int: None,
        },
    };
    /// IEEE 754-2019 maximum: NaN propagates.
    Max = of_any("maximum", true, |x, y| extremum(x, y, Ordering::Greater), |_, x, y| x.max(y));
    /// IEEE 754-2019 minimum: NaN propagates.
    Min = of_any("minimum", true, |x, y| extremum(x, y, Ordering::Less), |_, x, y| x.min(y));
    /// Integer division rounded down.
    FloorDiv = of_ints("floor_div", Types::Integers, Cost::Several, false, |_, x, y| floor_div(x, y));
    /// Integer remainder with the sign of the divisor: `a - floordiv(a, b) * b`; 0 when b is 0.
    FloorMod = of_ints("floor_mod", Types::Integers, Cost::Several, false, |_, x, y| match y {
        0 => 0,
        _ => x - floor_div(x, y) * y,
    });
    /// Integer division rounded towards zero.
    TruncDiv = of_ints("trunc_div", Types::Integers, Cost::Several, false, |_, x, y| match y {
        0 => 0,
        _ => x / y,
    });
    /// Remainder with the sign of the dividend; also floats (`fmod`). 0 when an integer b is 0.
    TruncMod = BinaryRow {
        name: "fmod",
        types: Types::Numbers,
        cost: Cost::Several,
        commutative: false,
        value: BinaryValue::Number {
            float: Some(|x, y| x % y),
            int: Some(|_, x, y| if y == 0 { 0 } else { x % y }),
        },
    };
    /// Bitwise and; logical for `Bool`.
    And = of_ints("bitand", Types::Bits, Cost::One, true, |_, x, y| x & y);
    /// Bitwise or; logical for `Bool`.
    Or = of_ints("bitor", Types::Bits, Cost::One, true, |_, x, y| x | y);
    /// Bitwise exclusive or; logical for `Bool`.
    Xor = of_ints("bitxor", Types::Bits, Cost::One, true, |_, x, y| x ^ y);
    /// Shift left; the count is taken as unsigned.
    Shl = of_ints("shl", Types::Integers, Cost::One, false, |dtype, x, y| {
        count(dtype, y).map_or(0, |n| x << n)
    });
    /// Shift right, arithmetic for signed types; the count is taken as unsigned.
    Shr = of_ints("shr", Types::Integers, Cost::One, false, |dtype, x, y| {
        count(dtype, y).map_or(if x < 0 { -1 } else { 0 }, |n| x >> n)
    });
    /// a < b.
    Lt = comparison("lt", false, |order| order == Some(Ordering::Less));
    /// a == b.
    Eq = comparison("eq", true, |order| order == Some(Ordering::Equal));
    /// a != b; true with NaN.
    Ne = comparison("ne", true, |order| order != Some(Ordering::Equal));
    /// a to the power b, floats only, as C's `pow`.
    Pow = BinaryRow {
        name: "pow",
        types: Types::Floats,
        cost: Cost::Function,
        commutative: false,
        value: BinaryValue::Number {
            float: Some(f64::powf),
            int: None,
        },
    };
}

/// The operand that is `first` of both; of zeros the one whose sign is, and NaN if either is.
fn extremum(x: f64, y: f64, first: Ordering) -> f64 {
    let order = match x.partial_cmp(&y) {
        None => return f64::NAN,
        Some(Ordering::Equal) => y.is_sign_negative().cmp(&x.is_sign_negative()),
        Some(order) => order,
    };
    if order == first { x } else { y }
}

fn floor_div(x: i128, y: i128) -> i128 {
    if y == 0 {
        return 0;
    }
    let q = x / y;
    match x % y != 0 && (x < 0) != (y < 0) {
        true => q - 1,
        false => q,
    }
}

/// How far a shift goes, its operand taken as unsigned; `None` for the width or more.
fn count(dtype: DType, y: i128) -> Option<u32> {
    let width = dtype.bits();
    let count = y as u128 & ((1 << width) - 1);
    (count < u128::from(width)).then_some(count as u32)
}

impl Binary {
    /// Comparison: the result is `Bool`.
    pub const fn is_compare(self) -> bool {
        matches!(self.row().value, BinaryValue::Order(_))
    }

    /// `a op b == b op a` for every type.
    pub const fn is_commutative(self) -> bool {
        self.row().commutative
    }
}

operations! {
    /// The combining operation of a reduction or a scan.
    ReduceOp: ReduceRow;
    /// Sum; identity 0.
    Add = ReduceRow { name: "reduce add", binary: Binary::Add };
    /// Product; identity 1.
    Mul = ReduceRow { name: "reduce mul", binary: Binary::Mul };
    /// Maximum with NaN propagation; identity is the smallest value (-inf for floats).
    Max = ReduceRow { name: "reduce max", binary: Binary::Max };
    /// Minimum with NaN propagation; identity is the largest value (+inf for floats).
    Min = ReduceRow { name: "reduce min", binary: Binary::Min };
    /// Bitwise (or logical) and; identity all ones.
    And = ReduceRow { name: "reduce and", binary: Binary::And };
    /// Bitwise (or logical) or; identity 0.
    Or = ReduceRow { name: "reduce or", binary: Binary::Or };
}

impl ReduceOp {
    /// The binary operation that combines two partial results.
    pub const fn binary(self) -> Binary {
        self.row().binary
    }
}

#[cfg(test)]
mod tests {
    use super::super::scalar;
    use super::*;

    #[test]
    fn a_row_has_a_value_for_each_of_its_types() {
        for dtype in DType::ALL {
            let one = scalar::constant(dtype, 1);
            for op in Unary::ALL {
                let value = scalar::unary(*op, dtype, one);
                assert_eq!(value.is_some(), op.row().types.has(dtype), "{op:?} {dtype}");
            }
            for op in Binary::ALL {
                let value = scalar::binary(*op, dtype, one, one);
                assert_eq!(value.is_some(), op.row().types.has(dtype), "{op:?} {dtype}");
            }
        }
    }

    #[test]
    fn a_row_says_what_commutes() {
        // Values that differ in size and sign, and the zeros.
        let values: [f64; 6] = [0.0, -0.0, 1.0, -3.0, 7.0, 0.25];
        for op in Binary::ALL {
            let types = DType::ALL.into_iter().filter(|&d| op.row().types.has(d));
            let swaps = types.clone().all(|dtype| {
                let bits = values.map(|x| scalar::cast(DType::F64, dtype, x.to_bits()));
                bits.iter().all(|&a| {
                    bits.iter().all(|&b| {
                        scalar::binary(*op, dtype, a, b) == scalar::binary(*op, dtype, b, a)
                    })
                })
            });
            assert_eq!(swaps, op.is_commutative(), "{op:?}");
        }
    }

    #[test]
    fn names_are_of_one_operation_each() {
        let names = Unary::ALL.iter().map(|op| op.row().name);
        let names = names.chain(Binary::ALL.iter().map(|op| op.row().name));
        let names: Vec<&str> = names.collect();
        let mut apart = names.clone();
        apart.sort_unstable();
        apart.dedup();
        assert_eq!(apart.len(), names.len());
    }
}
