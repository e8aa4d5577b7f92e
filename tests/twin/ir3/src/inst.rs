//! Decoded instructions.

use crate::flow::WORD;
use crate::op::Op;

/// Bits that most categories have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// `(sy)`: waits for long-latency results.
    pub sy: bool,
    /// `(ss)`: waits for short-latency results.
    pub ss: bool,
    /// `(jp)`: parked fibers rejoin here.
    pub jp: bool,
    /// `(eq)`: helper invocations end.
    pub eq: bool,
    /// `(ul)`: the last use of a0.x.
    pub ul: bool,
    /// `(sat)`: clamps to 0..1.
    pub sat: bool,
    /// `(ei)`: the last input.
    pub ei: bool,
}

/// What an operand names. Registers are numbered by components: r1.y is 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A register.
    Reg(u8),
    /// The register that a0.x and an offset give.
    RelReg(i16),
    /// A constant.
    Const(u16),
    /// The constant that a0.x and an offset give.
    RelConst(i16),
    /// The constant that a1.x and an offset give, to be written.
    A1Const(u8),
    /// An immediate.
    Imm(u32),
    /// A float of the table of immediates.
    Float(u8),
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// What it names.
    pub value: Value,
    /// Whether it has 16 bits.
    pub half: bool,
    /// `(neg)`, or not of a bitwise source, or `!` of a predicate.
    pub neg: bool,
    /// `(abs)`.
    pub abs: bool,
    /// `(r)`: advances with the repetition.
    pub advances: bool,
    /// `(last)`: the last use of the register.
    pub last: bool,
}

impl Operand {
    /// Without modifiers.
    pub const fn new(value: Value, half: bool) -> Self {
        Self {
            value,
            half,
            neg: false,
            abs: false,
            advances: false,
            last: false,
        }
    }
}

macro_rules! values {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant = $value,)*
        }

        impl $name {
            /// From the bits of its field.
            pub const fn from_bits(bits: u64) -> Option<Self> {
                match bits {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

values! {
    /// The type of an operand: Mesa ir3-common.xml, `#type`.
    Type {
        /// A half float.
        F16 = 0,
        /// A float.
        F32 = 1,
        /// 16 bits, unsigned.
        U16 = 2,
        /// 32 bits, unsigned.
        U32 = 3,
        /// 16 bits, signed.
        S16 = 4,
        /// 32 bits, signed.
        S32 = 5,
        /// A byte in a half register; 64 bits in atomics on addresses and images.
        U8 = 6,
        /// A byte in a full register.
        U8Full = 7,
    }
}

impl Type {
    /// Whether registers of it are half ones.
    pub const fn half(self) -> bool {
        matches!(self, Self::F16 | Self::U16 | Self::S16 | Self::U8)
    }

    /// Whether it is a float.
    pub const fn float(self) -> bool {
        matches!(self, Self::F16 | Self::F32)
    }

    /// Whether it has a sign.
    pub const fn signed(self) -> bool {
        matches!(self, Self::S16 | Self::S32)
    }

    /// Bytes in memory.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::U8 | Self::U8Full => 1,
            Self::F16 | Self::U16 | Self::S16 => 2,
            Self::F32 | Self::U32 | Self::S32 => 4,
        }
    }
}

values! {
    /// The condition of a comparison.
    Cond {
        /// Less.
        Lt = 0,
        /// Less or equal.
        Le = 1,
        /// Greater.
        Gt = 2,
        /// Greater or equal.
        Ge = 3,
        /// Equal.
        Eq = 4,
        /// Not equal.
        Ne = 5,
    }
}

values! {
    /// The rounding of a conversion: Mesa ir3-cat1.xml, `#round`.
    Round {
        /// Toward zero.
        Zero = 0,
        /// To the nearest, ties to even.
        Even = 1,
        /// Up.
        Up = 2,
        /// Down.
        Down = 3,
    }
}

values! {
    /// How category 6 finds a descriptor: Mesa ir3-cat6.xml, `#cat6-src-mode`.
    Mode {
        /// By an immediate index.
        Imm = 0,
        /// By a register that all fibers agree on.
        Uniform = 1,
        /// By a register.
        NonUniform = 2,
    }
}

values! {
    /// How category 5 finds descriptors: Mesa ir3-cat5.xml, `#cat5-s2en-bindless-desc-mode`.
    Desc {
        /// Slots, by a register that all fibers agree on.
        Uniform = 0,
        /// Bindless, sampler base in a1.x, uniform.
        BindlessA1Uniform = 1,
        /// Bindless.
        BindlessNonUniform = 2,
        /// Bindless, sampler base in a1.x.
        BindlessA1NonUniform = 3,
        /// Slots, by a register.
        NonUniform = 4,
        /// Bindless, uniform.
        BindlessUniform = 5,
        /// Bindless, immediate indices.
        BindlessImm = 6,
        /// Bindless, immediate sampler, the texture in a1.x.
        BindlessA1Imm = 7,
    }
}

impl Desc {
    /// Whether a register holds the indices.
    pub const fn indirect(self) -> bool {
        !matches!(self, Self::BindlessImm | Self::BindlessA1Imm)
    }

    /// Whether the descriptors are in memory, at a base.
    pub const fn bindless(self) -> bool {
        !matches!(self, Self::Uniform | Self::NonUniform)
    }

    /// Whether a1.x is read.
    pub const fn a1(self) -> bool {
        matches!(
            self,
            Self::BindlessA1Uniform | Self::BindlessA1NonUniform | Self::BindlessA1Imm
        )
    }

    /// Whether all fibers must agree on the indices.
    pub const fn uniform(self) -> bool {
        matches!(
            self,
            Self::Uniform | Self::BindlessA1Uniform | Self::BindlessUniform
        )
    }
}

values! {
    /// Which lane `shfl` reads: Mesa ir3-cat6.xml, `#cat6-shfl-mode`.
    Shuffle {
        /// The lane's number, exclusive or the second source.
        Xor = 1,
        /// A lower lane.
        Up = 2,
        /// A higher lane.
        Down = 3,
        /// A lower lane, around the end.
        RotateUp = 6,
        /// A higher lane, around the end.
        RotateDown = 7,
    }
}

/// Further fields; what an operation does not have stays at the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mods {
    /// The type; of a conversion, that of the result.
    pub ty: Option<Type>,
    /// The type of the source of a move.
    pub src_ty: Option<Type>,
    /// The condition.
    pub cond: Option<Cond>,
    /// The rounding; none is toward zero.
    pub round: Option<Round>,
    /// Which components category 5 writes.
    pub mask: u8,
    /// Dimensions.
    pub dims: u8,
    /// Components, or vectors.
    pub count: u16,
    /// An offset in bytes, elements or texels.
    pub offset: i32,
    /// The shift of an index.
    pub shift: u8,
    /// How category 6 finds its descriptor.
    pub mode: Option<Mode>,
    /// How category 5 finds its descriptors.
    pub desc: Option<Desc>,
    /// The bindless base.
    pub base: Option<u8>,
    /// The sampler.
    pub sampler: Option<u8>,
    /// The texture.
    pub texture: Option<u8>,
    /// Fibers of a cluster, or bits of `movmsk`.
    pub width: u16,
    /// The index of `brac`, the first component of `ldc`.
    pub index: u8,
    /// The lane of `shfl`.
    pub shuffle: Option<Shuffle>,
    /// `.3d`.
    pub d3: bool,
    /// `.a`.
    pub array: bool,
    /// `.o`.
    pub offsets: bool,
    /// `.p`.
    pub project: bool,
    /// `.s`, or `.v` of `isam`.
    pub compare: bool,
    /// `.1d` of `isam`.
    pub d1: bool,
    /// `.u` of `ldc`.
    pub uniform: bool,
    /// `.typed`.
    pub typed: bool,
    /// `.g` of a barrier.
    pub global: bool,
    /// `.l` of a barrier.
    pub local: bool,
    /// `.r` of a barrier.
    pub read: bool,
    /// `.w` of a barrier.
    pub write: bool,
    /// The longer `sleep`.
    pub long: bool,
    /// `.all` of a data cache operation.
    pub all: bool,
    /// `.mixed` of a dot product.
    pub mixed: bool,
    /// `.high` of a dot product.
    pub high: bool,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inst {
    /// The operation.
    pub op: Op,
    /// Common bits.
    pub marks: Marks,
    /// `(rptN)`: repeats N times more.
    pub repeat: u8,
    /// `(nopN)`: so many slots after it.
    pub nop: u8,
    /// What it writes.
    pub dsts: Vec<Operand>,
    /// What it reads, in the order of the text. A branch target is the last: instructions from itself.
    pub srcs: Vec<Operand>,
    /// The rest.
    pub mods: Mods,
}

impl Inst {
    /// Where it leads from an address, if it is a branch.
    pub fn target(&self, pc: u64) -> Option<u64> {
        match (self.op.category(), self.srcs.last()?.value) {
            (0, Value::Imm(by)) => Some(pc.wrapping_add_signed(i64::from(by as i32) * WORD as i64)),
            _ => None,
        }
    }
}
