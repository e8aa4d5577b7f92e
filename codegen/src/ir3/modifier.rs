//! What modifies an instruction: flags, types, conditions and counts.

use std::ops::{BitOr, BitOrAssign};

/// Flags of an instruction, each a bit of its word.
///
/// Source: Mesa `ir3.h` (`IR3_INSTR_*`, `IR3_REG_EI`), `ir3-cat5.xml`, `ir3-cat7.xml`, `ir3_compiler_nir.c`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u32);

macro_rules! flags {
    ($($name:ident = $bit:literal, $doc:literal;)*) => {
        impl Flags {
            $(#[doc = $doc]
            pub const $name: Self = Self(1 << $bit);)*
        }
    };
}

flags! {
    SY = 0, "`(sy)`: waits for long-latency producers before it issues.";
    SS = 1, "`(ss)`: waits for short-latency producers before it issues.";
    EQ = 2, "`(eq)`: helper invocations end here.";
    JP = 3, "`(jp)`: a point where parked fibers rejoin.";
    SAT = 4, "`(sat)`: the result is clamped to 0..1.";
    UL = 5, "`(ul)`: the last use of the address register.";
    EI = 6, "`(ei)`: the shader needs no more input.";
    D3 = 7, "`.3d`: three coordinates.";
    ARRAY = 8, "`.a`: an array.";
    OFFSET = 9, "`.o`: a second source holds offsets.";
    PROJECT = 10, "`.p`: the coordinates are divided by the last.";
    COMPARE = 11, "`.s`: the sample is compared, as for shadows; of isam `.v`.";
    D1 = 12, "`.1d`: bit 18 of isam is clear, as in ordinary reads of 2D images.";
    UNIFORM = 13, "`.u` of ldc: the destination is a shared register.";
    TYPED = 14, "`.typed`: converts to the format of the descriptor.";
    GLOBAL = 15, "`.g` of a barrier: global memory.";
    LOCAL = 16, "`.l` of a barrier: local memory.";
    READ = 17, "`.r` of a barrier: reads.";
    WRITE = 18, "`.w` of a barrier: writes.";
    LONG = 19, "`.l` of sleep: the longer of two durations.";
    ALL = 20, "`.all` of a data cache operation, and not `.shr`.";
    MIXED = 21, "`.mixed`: the first source of a dot product is signed.";
    HIGH = 22, "`.high`: a dot product reads the high halves.";
}

impl Flags {
    /// No flags.
    pub const NONE: Self = Self(0);

    /// Whether all of these are set.
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// These and others.
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// These without others.
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }

    pub(super) fn set(&mut self, flags: Self, to: bool) {
        *self = if to {
            self.with(flags)
        } else {
            self.without(flags)
        };
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.with(other);
    }
}

/// Enumerations whose values are those of a field, with their names in Mesa's syntax.
macro_rules! values {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $value:literal $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant = $value,)*
        }

        impl $name {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The value of a field.
            pub fn from_bits(bits: u64) -> Option<Self> {
                Self::ALL.iter().copied().find(|&v| v as u64 == bits)
            }

            /// The name in assembler text.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

values! {
    /// The type of an operand (Mesa `ir3-common.xml`, `#type`).
    Type {
        /// A half float.
        F16 = 0 "f16",
        /// A float.
        F32 = 1 "f32",
        /// 16 bits, unsigned.
        U16 = 2 "u16",
        /// 32 bits, unsigned.
        U32 = 3 "u32",
        /// 16 bits, signed.
        S16 = 4 "s16",
        /// 32 bits, signed.
        S32 = 5 "s32",
        /// A byte in a half register; 64 bits, unsigned, in atomics on global memory and descriptors.
        U8 = 6 "u8",
        /// A byte in a full register.
        U8In32 = 7 "u8_32",
    }
}

impl Type {
    /// Whether values of it are in half registers.
    pub const fn is_half(self) -> bool {
        matches!(self, Self::F16 | Self::U16 | Self::S16 | Self::U8)
    }
}

values! {
    /// The condition of a comparison.
    Cond {
        /// Less.
        Lt = 0 "lt",
        /// Less or equal.
        Le = 1 "le",
        /// Greater.
        Gt = 2 "gt",
        /// Greater or equal.
        Ge = 3 "ge",
        /// Equal.
        Eq = 4 "eq",
        /// Not equal.
        Ne = 5 "ne",
    }
}

values! {
    /// The rounding of a conversion.
    #[derive(Default)]
    Round {
        /// Toward zero: what no mark in the text means.
        #[default]
        Zero = 0 "",
        /// To the nearest, ties to even.
        Even = 1 "(even)",
        /// Up.
        Up = 2 "(pos_infinity)",
        /// Down.
        Down = 3 "(neg_infinity)",
    }
}

values! {
    /// How the instructions of category 6 find a descriptor.
    Mode {
        /// By an immediate index.
        Imm = 0 "imm",
        /// By an index in a register that is the same for all fibers.
        Uniform = 1 "uniform",
        /// By an index in a register.
        NonUniform = 2 "nonuniform",
    }
}

values! {
    /// How texture instructions find texture and sampler, where not by immediate indices.
    ///
    /// Source: Mesa `ir3-cat5.xml`, `#cat5-s2en-bindless-desc-mode`.
    Desc {
        /// By indices in a register that is the same for all fibers.
        Uniform = 0 ".s2en.uniform",
        /// Bindless, the same for all fibers; the sampler's base is in a1.x.
        BindlessA1Uniform = 1 ".s2en.uniform",
        /// Bindless.
        BindlessNonUniform = 2 ".s2en.nonuniform",
        /// Bindless; the sampler's base is in a1.x.
        BindlessA1NonUniform = 3 ".s2en.nonuniform",
        /// By indices in a register.
        NonUniform = 4 ".s2en.nonuniform",
        /// Bindless, the same for all fibers.
        BindlessUniform = 5 ".s2en.uniform",
        /// Bindless, with immediate indices.
        BindlessImm = 6 "",
        /// Bindless; the sampler is immediate, its base and the texture are in a1.x.
        BindlessA1Imm = 7 "",
    }
}

impl Desc {
    /// Whether the indices are in a register.
    pub const fn is_indirect(self) -> bool {
        !matches!(self, Self::BindlessImm | Self::BindlessA1Imm)
    }

    /// Whether the descriptors are those of a base, and not those of the shader.
    pub const fn is_bindless(self) -> bool {
        !matches!(self, Self::Uniform | Self::NonUniform)
    }

    /// Whether a1.x is read.
    pub const fn uses_a1(self) -> bool {
        matches!(
            self,
            Self::BindlessA1Uniform | Self::BindlessA1NonUniform | Self::BindlessA1Imm
        )
    }
}

values! {
    /// Which lane shfl reads.
    Shuffle {
        /// The lane's number, exclusive or the second source.
        Xor = 1 "xor",
        /// A lower lane.
        Up = 2 "up",
        /// A higher lane.
        Down = 3 "down",
        /// A lower lane, around the end.
        RotateUp = 6 "rup",
        /// A higher lane, around the end.
        RotateDown = 7 "rdown",
    }
}

/// The modifiers of an instruction beside its flags. What an instruction does not have stays at the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mods {
    /// The type; of a conversion, that of the result.
    pub ty: Option<Type>,
    /// The type of the source of a mov or a conversion.
    pub src_ty: Option<Type>,
    /// The condition of a comparison.
    pub cond: Option<Cond>,
    /// The rounding of a conversion.
    pub round: Round,
    /// Which components a texture instruction writes, bit 0 for x.
    pub mask: u8,
    /// The number of dimensions of an image.
    pub dims: u8,
    /// How many components, or vectors of ldc.k, are loaded or stored.
    pub count: u16,
    /// The byte offset of an address; for isam, ldib.b and stib.b in texels or elements.
    pub offset: i32,
    /// By how many bits more the index of ldg.a and stg.a is shifted.
    pub shift: u8,
    /// How the descriptor is found, in category 6.
    pub mode: Option<Mode>,
    /// How descriptors are found, in category 5; nothing means immediate indices.
    pub desc: Option<Desc>,
    /// The base of bindless descriptors.
    pub base: Option<u8>,
    /// The sampler.
    pub sampler: Option<u8>,
    /// The texture.
    pub texture: Option<u8>,
    /// The number of fibers of a cluster, or the bits of movmsk.
    pub width: u16,
    /// The index of brac, and the first component of ldc.
    pub index: u8,
    /// Which lane shfl reads.
    pub shuffle: Option<Shuffle>,
}
