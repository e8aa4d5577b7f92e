//! VOPC: comparisons.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::sync::LazyLock;

use super::run::{self, Meaning};
use super::table::{Field, Lower, NONE, Row, flag};
use super::value::{Env, F16, F32, F64, I16, I32, I64, No, R16, R32, R64, Type, U16, U32, U64};

/// A comparison by number: bit 0 less, bit 1 equal, bit 2 greater; for floats bit 3 and up are the
/// opposites, which are also true where a NaN is compared.
struct Compare<T, const CONDITION: u8>(PhantomData<T>);

impl<T: Type + 'static, const CONDITION: u8> Meaning for Compare<T, CONDITION>
where
    T::T: PartialOrd,
{
    type D = No;
    type A = T;
    type B = T;
    type C = No;
    const MASK_IN: bool = false;
    const MASK_OUT: bool = true;

    // The opposite of a comparison is true of NaNs, unlike the other comparison.
    #[allow(clippy::neg_cmp_op_on_partial_ord)]
    #[inline(always)]
    fn lane<E: Env>(_: E, a: T::T, b: T::T, (): (), _: bool) -> ((), bool) {
        let bit = match (T::FLOAT, CONDITION) {
            (_, 0) => false,
            (_, 1) => a < b,
            (_, 2) => a == b,
            (_, 3) => a <= b,
            (_, 4) => a > b,
            (false, 5) => a != b,
            (_, 6) => a >= b,
            (false, _) => true,
            (true, 5) => ordered(a, b) && a != b,
            (true, 7) => ordered(a, b),
            (true, 8) => !ordered(a, b),
            (true, 9) => !(a >= b),
            (true, 10) => !ordered(a, b) || a == b,
            (true, 11) => !(a > b),
            (true, 12) => !(a <= b),
            (true, 13) => a != b,
            (true, 14) => !(a < b),
            (true, _) => true,
        };
        ((), bit)
    }
}

#[inline(always)]
fn ordered<T: PartialOrd>(a: T, b: T) -> bool {
    a.partial_cmp(&b).map(Ordering::is_lt).is_some()
}

/// A test for classes of numbers: which bits of the second source count for which class.
struct Class<T, S>(PhantomData<(T, S)>);

/// Bits of a float that are looked at as they are.
trait Bits: Type {
    /// The class as a number of a bit: signaling NaN, quiet NaN, -infinity, -normal, -denormal, -0, 0,
    /// denormal, normal, infinity.
    fn class(bits: Self::T) -> u32;
}

macro_rules! bits {
    ($name:ident, $t:ty, $fraction:expr, $exponent:expr) => {
        impl Bits for $name {
            #[inline(always)]
            fn class(bits: $t) -> u32 {
                let sign = bits >> ($fraction + $exponent) != 0;
                let magnitude = bits & ((1 << ($fraction + $exponent)) - 1);
                let infinity: $t = ((1 << $exponent) - 1) << $fraction;
                let quiet = magnitude >> ($fraction - 1) & 1 != 0;
                let positive = if magnitude == 0 {
                    6
                } else if magnitude >> $fraction == 0 {
                    7
                } else if magnitude < infinity {
                    8
                } else {
                    9
                };
                let class = if sign { 11 - positive } else { positive };
                if magnitude > infinity {
                    u32::from(quiet)
                } else {
                    class
                }
            }
        }
    };
}
bits!(R16, u16, 10, 5);
bits!(R32, u32, 23, 8);
bits!(R64, u64, 52, 11);

impl<T: Bits + 'static, S: Type + 'static> Meaning for Class<T, S>
where
    S::T: Into<u32>,
{
    type D = No;
    type A = T;
    type B = S;
    type C = No;
    const MASK_IN: bool = false;
    const MASK_OUT: bool = true;

    #[inline(always)]
    fn lane<E: Env>(_: E, a: T::T, b: S::T, (): (), _: bool) -> ((), bool) {
        ((), b.into() >> T::class(a) & 1 != 0)
    }
}

/// The opcode of the first comparison of a type in each generation, and of the one that writes EXEC.
type Bases = [[Option<u16>; 4]; 2];

const fn bases(cmp: [u16; 4], cmpx: [u16; 4]) -> Bases {
    let mut to = [[None; 4]; 2];
    let mut i = 0;
    while i < 4 {
        to[0][i] = Some(cmp[i]);
        to[1][i] = Some(cmpx[i]);
        i += 1;
    }
    to
}

/// RDNA4 has neither the comparisons that are always false nor those that are always true.
fn without_rdna4(opcodes: [u16; 4]) -> [u16; 4] {
    [opcodes[0], opcodes[1], NONE, opcodes[3]]
}

fn row(names: Vec<(String, [u16; 4])>, src: [Option<Field>; 2], flags: u32, lower: Lower) -> Row {
    let names: Vec<(&'static str, [u16; 4])> = names
        .into_iter()
        .map(|(name, opcodes)| (&*name.leak(), opcodes))
        .collect();
    Row {
        names: names.leak(),
        dst: None,
        src: [src[0], src[1], None],
        bit_in: false,
        bit_out: true,
        old: false,
        flags,
        lower,
    }
}

fn opcodes(bases: [Option<u16>; 4], offset: u16) -> [u16; 4] {
    bases.map(|base| base.map_or(NONE, |base| base + offset))
}

const PREFIXES: [(&str, u32); 2] = [("v_cmp", 0), ("v_cmpx", flag::CMPX)];

macro_rules! compares {
    ($rows:ident, $t:ident, $name:literal, $bases:expr, [$($n:literal)*]) => {
        $(
            for (bases, (prefix, flags)) in $bases.into_iter().zip(PREFIXES) {
                let condition = $t::conditions()[$n];
                let mut opcodes = opcodes(bases, $n);
                // In RDNA2 the comparisons of halves from the ninth on are 0x20 further on.
                if $name == "f16" && $n >= 8 && opcodes[0] != NONE {
                    opcodes[0] += 0x18;
                }
                // Shorts compare as always false or true only in CDNA3.
                let always = $n == 0 || $n == if $t::FLOAT { 15 } else { 7 };
                if always && matches!($name, "i16" | "u16") {
                    opcodes = [NONE, NONE, NONE, opcodes[3]];
                } else if always {
                    opcodes = without_rdna4(opcodes);
                }
                let text = format!("{prefix}_{condition}_{}", $name);
                let names = if $t::FLOAT && $n == 15 {
                    let [a, b, c, d] = opcodes;
                    vec![
                        (format!("{prefix}_tru_{}", $name), [a, NONE, NONE, d]),
                        (text, [NONE, b, c, NONE]),
                    ]
                } else {
                    vec![(text, opcodes)]
                };
                $rows.push(row(
                    names,
                    [Field::of::<$t>(), Field::of::<$t>()],
                    flags,
                    Lower::Lanes(run::step::<Compare<$t, $n>>, None),
                ));
            }
        )*
    };
}

/// Names of comparisons.
trait Conditions: Type {
    /// By number.
    fn conditions() -> &'static [&'static str] {
        if Self::FLOAT { &FLOATS } else { &INTEGERS }
    }
}
impl<T: Type> Conditions for T {}

const FLOATS: [&str; 16] = [
    "f", "lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt",
    "t",
];
const INTEGERS: [&str; 8] = ["f", "lt", "eq", "le", "gt", "ne", "ge", "t"];

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let mut rows = Vec::new();
    macro_rules! floats {
        ($t:ident, $name:literal, $cmp:expr, $cmpx:expr) => {
            compares!(rows, $t, $name, bases($cmp, $cmpx), [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15])
        };
    }
    macro_rules! integers {
        ($t:ident, $name:literal, $cmp:expr, $cmpx:expr) => {
            compares!(rows, $t, $name, bases($cmp, $cmpx), [0 1 2 3 4 5 6 7])
        };
    }
    floats!(
        F16,
        "f16",
        [0xc8, 0x00, 0x00, 0x20],
        [0xd8, 0x80, 0x80, 0x30]
    );
    floats!(
        F32,
        "f32",
        [0x00, 0x10, 0x10, 0x40],
        [0x10, 0x90, 0x90, 0x50]
    );
    floats!(
        F64,
        "f64",
        [0x20, 0x20, 0x20, 0x60],
        [0x30, 0xa0, 0xa0, 0x70]
    );
    integers!(
        I16,
        "i16",
        [0x88, 0x30, 0x30, 0xa0],
        [0x98, 0xb0, 0xb0, 0xb0]
    );
    integers!(
        U16,
        "u16",
        [0xa8, 0x38, 0x38, 0xa8],
        [0xb8, 0xb8, 0xb8, 0xb8]
    );
    integers!(
        I32,
        "i32",
        [0x80, 0x40, 0x40, 0xc0],
        [0x90, 0xc0, 0xc0, 0xd0]
    );
    integers!(
        U32,
        "u32",
        [0xc0, 0x48, 0x48, 0xc8],
        [0xd0, 0xc8, 0xc8, 0xd8]
    );
    integers!(
        I64,
        "i64",
        [0xa0, 0x50, 0x50, 0xe0],
        [0xb0, 0xd0, 0xd0, 0xf0]
    );
    integers!(
        U64,
        "u64",
        [0xe0, 0x58, 0x58, 0xe8],
        [0xf0, 0xd8, 0xd8, 0xf8]
    );
    macro_rules! classes {
        ($t:ident, $s:ident, $name:literal, $cmp:expr, $cmpx:expr) => {
            for (opcodes, (prefix, flags)) in [$cmp, $cmpx].into_iter().zip(PREFIXES) {
                rows.push(row(
                    vec![(format!("{prefix}_class_{}", $name), opcodes)],
                    [Field::of::<$t>(), Field::of::<$s>()],
                    flags | flag::CLASS,
                    Lower::Lanes(run::step::<Class<$t, $s>>, None),
                ));
            }
        };
    }
    classes!(
        R16,
        U16,
        "f16",
        [0x8f, 0x7d, 0x7d, 0x14],
        [0x9f, 0xfd, 0xfd, 0x15]
    );
    classes!(
        R32,
        U32,
        "f32",
        [0x88, 0x7e, 0x7e, 0x10],
        [0x98, 0xfe, 0xfe, 0x11]
    );
    classes!(
        R64,
        U32,
        "f64",
        [0xa8, 0x7f, 0x7f, 0x12],
        [0xb8, 0xff, 0xff, 0x13]
    );
    rows
});

/// The rows.
pub fn rows() -> &'static [Row] {
    &ROWS
}
