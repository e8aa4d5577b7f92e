//! What a row of the tables is, and how an opcode finds its row.
//!
//! A row reads `name [opcodes]: result = sources, flags => { meaning }`. The opcodes are those of
//! RDNA2, RDNA3, RDNA4 and CDNA3 in the numbering of VOP3, in which VOPC, VOP2 and VOP1 have ranges
//! (ISA documents, "VOP3 instructions"): an opcode there also has the short encoding. Further names
//! with opcodes of their own are older names of the same instruction. The meaning is a function of one
//! lane; `clamp` gives another for integers that saturate. `+ Bit` stands for a bit per lane in scalar
//! registers, `+ Old` for a source that is the destination. `special` names a function that makes the
//! whole step.

use std::sync::LazyLock;

use crate::isa::Gen;
use crate::step::Run;

use super::inst::Inst;
use super::operand::Kind;
use super::run::Operands;
use super::value::Type;

/// An operand of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// What it holds.
    pub kind: Kind,
    /// Whether negation and absolute value are allowed.
    pub modifiers: bool,
    /// Whether it is arithmetic: clamping and output modifiers may apply.
    pub float: bool,
}

impl Field {
    /// The field of a type; none for no operand.
    pub const fn of<T: Type>() -> Option<Self> {
        match T::KIND {
            None => None,
            Some(kind) => Some(Self {
                kind,
                modifiers: T::MODIFIERS,
                float: T::FLOAT,
            }),
        }
    }
}

/// How a row becomes a step.
#[derive(Clone, Copy)]
pub enum Lower {
    /// By the meaning of one lane, and by that with saturation.
    Lanes(fn(Operands) -> Run, Option<fn(Operands) -> Run>),
    /// By a function of its own.
    Special(fn(&Inst, Operands) -> Run),
}

/// An instruction.
pub struct Row {
    /// Names, and the opcode in each generation, [`NONE`] where it has no such instruction.
    pub names: &'static [(&'static str, [u16; 4])],
    /// The result in VGPRs.
    pub dst: Option<Field>,
    /// The sources.
    pub src: [Option<Field>; 3],
    /// Reads a bit per lane.
    pub bit_in: bool,
    /// Writes a bit per lane.
    pub bit_out: bool,
    /// The last source is the destination.
    pub old: bool,
    /// What else is special, see [`flag`].
    pub flags: u32,
    /// What it does.
    pub lower: Lower,
}

/// No opcode.
pub const NONE: u16 = u16::MAX;

/// What is special about a row.
pub mod flag {
    /// Has no VOP3 form.
    pub const SHORT: u32 = 1 << 0;
    /// Has no VOP3 form in RDNA.
    pub const SHORT_RDNA: u32 = 1 << 1;
    /// Has no DPP form.
    pub const NO_DPP: u32 = 1 << 2;
    /// Has no DPP form since RDNA3.
    pub const NO_DPP_SINCE_RDNA3: u32 = 1 << 3;
    /// Has a literal as its second source, always.
    pub const MIDDLE: u32 = 1 << 4;
    /// Has a literal as its third source, always.
    pub const LAST: u32 = 1 << 5;
    /// The VOP3 form chooses halves by `op_sel` in all generations.
    pub const OPSEL: u32 = 1 << 6;
    /// The VOP3 form chooses halves by `op_sel` in RDNA2 and RDNA3.
    pub const OPSEL_RDNA2: u32 = 1 << 7;
    /// Has a clamp bit, which does nothing.
    pub const CLAMP: u32 = 1 << 8;
    /// Has output modifiers although its result is no float.
    pub const OMOD: u32 = 1 << 9;
    /// Has no output modifiers although it computes with floats.
    pub const NO_OMOD: u32 = 1 << 10;
    /// `op_sel` chooses parts of 8 bit floats.
    pub const FP8: u32 = 1 << 11;
    /// `op_sel` chooses the byte that is written.
    pub const FP8_SR: u32 = 1 << 12;
    /// Has `op_sel` for the third source and the result.
    pub const DOT: u32 = 1 << 13;
    /// The result is a scalar register.
    pub const TO_SCALAR: u32 = 1 << 14;
    /// Sources are scalar.
    pub const FROM_SCALARS: u32 = 1 << 15;
    /// Source and result are scalar.
    pub const SCALAR: u32 = 1 << 16;
    /// `op_sel` says what lanes that are not active give.
    pub const PERMLANE: u32 = 1 << 17;
    /// The source must be a VGPR.
    pub const VGPR_ONLY: u32 = 1 << 18;
    /// A comparison that writes EXEC.
    pub const CMPX: u32 = 1 << 19;
    /// A comparison with a set of classes of numbers.
    pub const CLASS: u32 = 1 << 20;
    /// The name is the same in all encodings, and there are no operands.
    pub const BARE: u32 = 1 << 21;
}

impl Row {
    /// Whether it has this flag.
    pub fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// How many sources are encoded.
    pub fn sources(&self) -> usize {
        self.src.iter().flatten().count() - usize::from(self.old)
    }

    /// All fields.
    pub fn fields(&self) -> impl Iterator<Item = Field> {
        self.dst.into_iter().chain(self.src.into_iter().flatten())
    }

    /// Whether it has an operand of 16 bits.
    pub fn has_half(&self) -> bool {
        self.fields().any(|f| f.kind.is_half())
    }

    /// A compare.
    pub fn compares(&self) -> bool {
        self.dst.is_none() && self.bit_out
    }
}

/// Where the opcodes of the short encodings are in the numbering of VOP3.
pub const VOP2_BASE: u16 = 0x100;

/// See [`VOP2_BASE`].
pub const fn vop1_base(generation: Gen) -> u16 {
    match generation {
        Gen::Cdna3 => 0x140,
        _ => 0x180,
    }
}

/// The last opcode of VOP1, exclusively.
pub const fn vop1_end(generation: Gen) -> u16 {
    vop1_base(generation) + 0x80
}

/// Whether an opcode of VOP3 also has a short encoding.
pub const fn has_short(generation: Gen, opcode: u16) -> bool {
    opcode < VOP2_BASE + 0x40 || opcode >= vop1_base(generation) && opcode < vop1_end(generation)
}

type Index = [[Option<(&'static Row, &'static str)>; 1024]; 4];

static INDEX: LazyLock<Box<Index>> = LazyLock::new(|| {
    let mut index: Box<Index> = Box::new([[None; 1024]; 4]);
    let tables = [
        super::vop1::ROWS,
        super::vop2::ROWS,
        super::vop3::ROWS,
        super::vopc::rows(),
    ];
    for row in tables.into_iter().flatten() {
        for (name, opcodes) in row.names {
            for (column, &opcode) in opcodes.iter().enumerate() {
                if opcode != NONE {
                    index[column][usize::from(opcode)] = Some((row, *name));
                }
            }
        }
    }
    index
});

/// The row of an opcode of VOP3, and its name.
pub fn find(generation: Gen, opcode: u16) -> Option<(&'static Row, &'static str)> {
    INDEX[generation.column()][usize::from(opcode)]
}

/// The rows of a table.
macro_rules! rows {
    ($($(#[$doc:meta])* $($name:ident [$($op:tt)*])+ : $d:ident $(+ $out:ident)? = $($s:ident)* $(+ $x:ident)* $(, $flags:expr)? => { $($m:tt)* })*) => {
        /// The rows.
        pub static ROWS: &[Row] = &[$(
            $crate::vector::table::row! {
                [$((stringify!($name), [$($crate::vector::table::opcode!($op)),*])),+]
                [$d] [$($out)?] [$($s)*] [$($x)*] [0 $(| $flags)?] $($m)*
            }
        ),*];
    };
}
pub(crate) use rows;

macro_rules! opcode {
    (-) => {
        $crate::vector::table::NONE
    };
    ($n:literal) => {
        $n
    };
}
pub(crate) use opcode;

/// One row; pads the sources to three.
macro_rules! row {
    ($names:tt $d:tt $out:tt [] [] $($rest:tt)*) => {
        $crate::vector::table::row_of! { $names $d $out [No No No] [] false $($rest)* }
    };
    ($names:tt $d:tt $out:tt [$a:ident] [] $($rest:tt)*) => {
        $crate::vector::table::row_of! { $names $d $out [$a No No] [] false $($rest)* }
    };
    ($names:tt $d:tt $out:tt [$a:ident $b:ident] [] $($rest:tt)*) => {
        $crate::vector::table::row_of! { $names $d $out [$a $b No] [] false $($rest)* }
    };
    ($names:tt $d:tt $out:tt [$a:ident $b:ident] [Bit] $($rest:tt)*) => {
        $crate::vector::table::row_of! { $names $d $out [$a $b No] [Bit] false $($rest)* }
    };
    ($names:tt [$d:ident] $out:tt [$a:ident $b:ident] [Old] $($rest:tt)*) => {
        $crate::vector::table::row_of! { $names [$d] $out [$a $b $d] [] true $($rest)* }
    };
    ($names:tt $d:tt $out:tt [$a:ident $b:ident $c:ident] [] $($rest:tt)*) => {
        $crate::vector::table::row_of! { $names $d $out [$a $b $c] [] false $($rest)* }
    };
    ($names:tt $d:tt $out:tt [$a:ident $b:ident $c:ident] [Bit] $($rest:tt)*) => {
        $crate::vector::table::row_of! { $names $d $out [$a $b $c] [Bit] false $($rest)* }
    };
}
pub(crate) use row;

macro_rules! row_of {
    ([$($names:tt)*] [$d:ident] [$($out:ident)?] [$a:ident $b:ident $c:ident] [$($in:ident)?] $old:literal [$flags:expr] $($m:tt)*) => {
        Row {
            names: &[$($names)*],
            dst: Field::of::<$d>(),
            src: [Field::of::<$a>(), Field::of::<$b>(), Field::of::<$c>()],
            bit_in: $crate::vector::table::given!($($in)?),
            bit_out: $crate::vector::table::given!($($out)?),
            old: $old,
            flags: $flags,
            lower: $crate::vector::table::lower!([$d $a $b $c] [$($out)?] [$($in)?] $($m)*),
        }
    };
}
pub(crate) use row_of;

macro_rules! given {
    () => {
        false
    };
    ($x:ident) => {
        true
    };
}
pub(crate) use given;

macro_rules! lower {
    ($types:tt $out:tt $in:tt special $path:path) => {
        Lower::Special($path)
    };
    ($types:tt $out:tt $in:tt |$($arg:ident),+ $(; $bit:ident)?| $body:block clamp $sat:block) => {
        Lower::Lanes(
            $crate::vector::table::meaning!($types $out $in [$($arg)+] [$($bit)?] $body),
            Some($crate::vector::table::meaning!($types $out $in [$($arg)+] [$($bit)?] $sat)),
        )
    };
    ($types:tt $out:tt $in:tt |$($arg:ident),+ $(; $bit:ident)?| $body:expr) => {
        Lower::Lanes(
            $crate::vector::table::meaning!($types $out $in [$($arg)+] [$($bit)?] { $body }),
            None,
        )
    };
}
pub(crate) use lower;

/// The meaning of one lane as a type; gives the function that makes steps of it.
macro_rules! meaning {
    ([$d:ident $a:ident $b:ident $c:ident] [$($out:ident)?] [$($in:ident)?] [$e:ident $x:ident] [] $body:block) => {
        $crate::vector::table::meaning!(@ $d $a $b $c [$($out)?] [$($in)?] $e $x _y _z _bit $body)
    };
    ([$d:ident $a:ident $b:ident $c:ident] [$($out:ident)?] [$($in:ident)?] [$e:ident $x:ident $y:ident] [] $body:block) => {
        $crate::vector::table::meaning!(@ $d $a $b $c [$($out)?] [$($in)?] $e $x $y _z _bit $body)
    };
    ([$d:ident $a:ident $b:ident $c:ident] [$($out:ident)?] [$($in:ident)?] [$e:ident $x:ident $y:ident $z:ident] [] $body:block) => {
        $crate::vector::table::meaning!(@ $d $a $b $c [$($out)?] [$($in)?] $e $x $y $z _bit $body)
    };
    ([$d:ident $a:ident $b:ident $c:ident] [$($out:ident)?] [$($in:ident)?] [$e:ident $x:ident $y:ident] [$bit:ident] $body:block) => {
        $crate::vector::table::meaning!(@ $d $a $b $c [$($out)?] [$($in)?] $e $x $y _z $bit $body)
    };
    ([$d:ident $a:ident $b:ident $c:ident] [$($out:ident)?] [$($in:ident)?] [$e:ident $x:ident $y:ident $z:ident] [$bit:ident] $body:block) => {
        $crate::vector::table::meaning!(@ $d $a $b $c [$($out)?] [$($in)?] $e $x $y $z $bit $body)
    };
    (@ $d:ident $a:ident $b:ident $c:ident [$($out:ident)?] [$($in:ident)?] $e:ident $x:ident $y:ident $z:ident $bit:ident $body:block) => {{
        struct M;
        impl Meaning for M {
            type D = $d;
            type A = $a;
            type B = $b;
            type C = $c;
            const MASK_IN: bool = $crate::vector::table::given!($($in)?);
            const MASK_OUT: bool = $crate::vector::table::given!($($out)?);
            #[inline(always)]
            #[allow(unused_variables, clippy::unused_unit)]
            fn lane<E: Env>(
                $e: E,
                $x: <$a as Type>::T,
                $y: <$b as Type>::T,
                $z: <$c as Type>::T,
                $bit: bool,
            ) -> (<$d as Type>::T, bool) {
                $crate::vector::table::result!([$($out)?] $body)
            }
        }
        run::step::<M>
    }};
}
pub(crate) use meaning;

macro_rules! result {
    ([] $body:block) => {
        ($body, false)
    };
    ([Bit] $body:block) => {
        $body
    };
}
pub(crate) use result;
