//! What an instruction reads and writes.

use std::fmt::{self, Display, Formatter};

use crate::number;

/// Whether an instruction reads an operand or writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is a source.
    Read,
    /// It is a result.
    Write,
}

/// What is done to a source before the instruction uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sign {
    /// The negative of it.
    pub negative: bool,
    /// All bits of it inverted; of a predicate, the opposite.
    pub inverted: bool,
    /// Its absolute value, taken before the negative.
    pub absolute: bool,
}

/// How the bits of an immediate are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Hexadecimal, without a sign.
    Hex,
    /// Hexadecimal with a sign.
    Signed,
    /// A single.
    F32,
    /// The upper half of a double; the lower one is zero.
    F64,
    /// Two halves, the upper one first.
    F16x2,
    /// Two bfloat16, the upper one first.
    Bf16x2,
    /// An address in the code, relative to the instruction that follows.
    Target,
    /// An address in the code.
    Absolute,
    /// A set of barriers, a bit each.
    Set,
}

/// An address in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The uniform register of a descriptor, which says how the L2 cache treats the access. Before
    /// Hopper the one in use need not be named.
    pub descriptor: Option<u8>,
    /// Whether the descriptor is one of a matrix in shared memory instead.
    pub matrix: bool,
    /// The base register.
    pub base: Option<u8>,
    /// How many registers the base is; 0: it prints neither as 32 nor as 64 bits.
    pub width: u8,
    /// By what the base is multiplied.
    pub scale: u8,
    /// A uniform register that is added.
    pub uniform: Option<u8>,
    /// What is added.
    pub offset: i64,
}

/// An operand without its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A register of each lane; 255 is zero.
    Register(u8),
    /// A register of the warp; 255 is zero, which chips before Blackwell write as 63.
    Uniform(u8),
    /// A predicate of each lane; 7 is true.
    Predicate(u8),
    /// A predicate of the warp; 7 is true.
    UniformPredicate(u8),
    /// One of the barriers at which lanes of a warp join.
    Join(u8),
    /// One of the barriers of the control word.
    Scoreboard(u8),
    /// A number in the instruction.
    Immediate(u64, Number),
    /// Constant memory: bank, byte, and the register that is added.
    Constant(u8, i16, Option<u8>),
    /// Constant memory by the handle in a uniform register, at a byte.
    ConstantOf(u8, u16),
    /// Constant memory: bank, byte, and the uniform register that is added.
    ConstantBy(u8, i32, u8),
    /// A descriptor in a uniform register, by which caches treat what is accessed.
    Descriptor(u8),
    /// An address.
    Memory(Memory),
    /// A special register, and its name if it has one; 255 is zero.
    Special(u8, Option<&'static str>),
    /// A word that is printed as it stands.
    Word(&'static str),
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// What it is.
    pub kind: Kind,
    /// Whether it is read or written.
    pub role: Role,
    /// How many registers it is.
    pub width: u8,
    /// What is done to it first.
    pub sign: Sign,
    /// Whether it stays in the operand cache.
    pub reuse: bool,
    /// Which part of it is meant, such as `.H0_H0`.
    pub part: &'static str,
    /// Whether parts of it could be meant.
    pub(crate) parts: bool,
    /// Whether only a space stands before it.
    pub(crate) joined: bool,
    /// Whether it goes without saying.
    pub(crate) hidden: bool,
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { kind, sign, .. } = *self;
        if sign.negative {
            f.write_str("-")?;
        }
        if sign.inverted {
            f.write_str(match kind {
                Kind::Predicate(_) | Kind::UniformPredicate(_) => "!",
                _ => "~",
            })?;
        }
        let bar = if sign.absolute { "|" } else { "" };
        let reuse = if self.reuse { ".reuse" } else { "" };
        // A part of a register of the warp, and one of a word for a smaller number, stand inside of the bars.
        match kind {
            // NVIDIA's disassembler has a space in it there.
            Kind::Constant(..) | Kind::ConstantOf(..) if self.parts => {
                let text = kind.to_string().replacen("][", "] [", 1);
                write!(f, "{bar}{text}{}{bar}", self.part)
            }
            Kind::Uniform(_) => write!(f, "{bar}{kind}{}{bar}", self.part),
            _ if matches!(self.part, ".H1" | ".B1" | ".B2" | ".B3") => {
                write!(f, "{bar}{kind}{reuse}{}{bar}", self.part)
            }
            _ => write!(f, "{bar}{kind}{bar}{reuse}{}", self.part),
        }
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Register(255) => f.write_str("RZ"),
            Self::Register(n) => write!(f, "R{n}"),
            Self::Uniform(255) => f.write_str("URZ"),
            Self::Uniform(n) => write!(f, "UR{n}"),
            Self::Predicate(7) => f.write_str("PT"),
            Self::Predicate(n) => write!(f, "P{n}"),
            Self::UniformPredicate(7) => f.write_str("UPT"),
            Self::UniformPredicate(n) => write!(f, "UP{n}"),
            Self::Join(n) => write!(f, "B{n}"),
            Self::Scoreboard(n) => write!(f, "SB{n}"),
            Self::Immediate(value, number) => number::write(f, value, number),
            Self::Constant(bank, 0, Some(base)) => {
                write!(f, "c[{bank:#x}][{}]", Self::Register(base))
            }
            Self::Constant(bank, at, base) => {
                write!(f, "c[{bank:#x}][")?;
                if let Some(base) = base.filter(|&base| base != 255) {
                    write!(f, "R{base}+")?;
                }
                number::write(f, i64::from(at).cast_unsigned(), Number::Signed)?;
                f.write_str("]")
            }
            Self::ConstantOf(handle, at) => write!(f, "cx[{}][{at:#x}]", Self::Uniform(handle)),
            Self::ConstantBy(bank, at, base) => {
                write!(f, "c[{bank:#x}][")?;
                if base != 255 {
                    write!(f, "{}", Self::Uniform(base))?;
                }
                if at != 0 || base == 255 {
                    f.write_str(if base == 255 { "" } else { "+" })?;
                    number::write(f, i64::from(at).cast_unsigned(), Number::Signed)?;
                }
                f.write_str("]")
            }
            Self::Descriptor(n) => write!(f, "desc[{}]", Self::Uniform(n)),
            Self::Memory(ref memory) => memory.fmt(f),
            Self::Special(_, Some(name)) => write!(f, "SR_{name}"),
            Self::Special(255, None) => f.write_str("SRZ"),
            Self::Special(n, None) => write!(f, "SR{n}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

impl Display for Memory {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(descriptor) = self.descriptor {
            let desc = if self.matrix { "gdesc" } else { "desc" };
            write!(f, "{desc}[{}]", Kind::Uniform(descriptor))?;
            if self.matrix {
                return Ok(());
            }
        }
        f.write_str("[")?;
        let mut plus = "";
        // A base of zero is left out where something else remains, unless its width matters.
        let alone = match self.uniform {
            Some(_) => self.scale > 1,
            None => self.offset == 0,
        };
        if let Some(base) = self.base
            && (base != 255 || alone || self.width != 0)
        {
            write!(f, "{}", Kind::Register(base))?;
            match self.width {
                1 => f.write_str(".U32")?,
                2 => f.write_str(".64")?,
                _ => {}
            }
            if self.scale > 1 {
                write!(f, ".X{}", self.scale)?;
            }
            plus = "+";
        }
        if let Some(uniform) = self.uniform {
            write!(f, "{plus}{}", Kind::Uniform(uniform))?;
            plus = "+";
        }
        match self.offset {
            0 if !plus.is_empty() => {}
            offset if offset < 0 => write!(f, "{plus}-{:#x}", -offset)?,
            offset => write!(f, "{plus}{offset:#x}")?,
        }
        f.write_str("]")
    }
}
