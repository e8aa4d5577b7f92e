//! Operands of packed and matrix instructions: up to 32 registers, accumulation registers, pairs of
//! halves.

use crate::isa::Gen;
use crate::step::{File, Regs};
use crate::vector::operand::{Kind, LITERAL, Source, VGPR, inline, scalar_text};
use crate::wave::Lanes;

/// How an inline constant or a literal is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ty {
    /// 32 bits; floats are f32.
    B32,
    /// The same, but LLVM prints constants as if it were 64 bits.
    B32Long,
    /// 64 bits; floats are f64.
    B64,
    /// Two f16; a float stands in the low half.
    F16x2,
    /// Two bf16; a float stands in the low half.
    Bf16x2,
    /// One f16.
    F16,
    /// One bf16.
    Bf16,
}

impl Ty {
    fn kind(self) -> Kind {
        match self {
            Self::B32 | Self::B32Long => Kind::F32,
            Self::B64 => Kind::F64,
            Self::F16x2 | Self::F16 => Kind::F16,
            Self::Bf16x2 | Self::Bf16 => Kind::Bf16,
        }
    }

    /// Whether an inline constant says the same as this literal: LLVM then writes `lit()`.
    fn is_inline(self, literal: u32) -> bool {
        let (value, float) = match self {
            Self::F16 | Self::Bf16 => (i32::from(literal as i16), literal & 0xffff),
            Self::B32Long | Self::B64 => return false,
            _ => (literal as i32, literal),
        };
        (-16..=64).contains(&value)
            || (240..=248).any(|code| inline(code, self.kind()) == Some(u64::from(float)))
    }

    /// The dword that a constant stands for.
    fn constant(self, code: u16, literal: u32) -> Option<u64> {
        match (code, self) {
            (LITERAL, Self::B64) => Some(u64::from(literal) << 32),
            (LITERAL, _) => Some(u64::from(literal)),
            // Integers fill the whole dword, whatever is read of it.
            (128..=208, Self::B64) => inline(code, Kind::B64),
            (128..=208, _) => inline(code, Kind::B32),
            _ => inline(code, self.kind()),
        }
    }
}

/// Where an operand may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// Anywhere: VGPRs, SGPRs, constants.
    Any,
    /// In VGPRs.
    Vgpr,
    /// In VGPRs, or a constant.
    VgprOrConst,
    /// In accumulation registers.
    Agpr,
    /// In accumulation registers, or a constant.
    AgprOrConst,
    /// In either.
    Either,
}

impl Class {
    fn takes_constants(self) -> bool {
        matches!(self, Self::Any | Self::VgprOrConst | Self::AgprOrConst)
    }

    /// LLVM's note that a register is not of this class.
    fn misplaced(self, generation: Gen, words: usize) -> String {
        let (one, more) = match self {
            Self::Any => ("VS_32", "VS"),
            Self::Vgpr | Self::VgprOrConst => ("VGPR_32", "VReg"),
            Self::Agpr | Self::AgprOrConst => ("AGPR_32", "AReg"),
            Self::Either => ("AV_32", "AV"),
        };
        let name = match (words, generation) {
            (1, _) => one.to_owned(),
            (_, Gen::Cdna3) => format!("{more}_{}_Align2", 32 * words),
            _ => format!("{more}_{}", 32 * words),
        };
        format!("/*Invalid register, operand has '{name}' register class*/")
    }
}

/// An operand as it stands in an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Operand {
    /// Source code of 9 bits.
    pub code: u16,
    /// A VGPR code means an accumulation register.
    pub acc: bool,
    /// Dwords.
    pub words: usize,
    /// How constants are read.
    pub ty: Ty,
    /// Where it may be.
    pub class: Class,
    /// The literal, where `code` asks for one.
    pub literal: u32,
}

impl Operand {
    /// As LLVM prints it; none where it calls the instruction invalid. It prints more than there is:
    /// any register in place of a VGPR, with a note.
    pub fn text(&self, generation: Gen) -> Option<String> {
        let Self { code, words, .. } = *self;
        let swapped = matches!(generation, Gen::Rdna3 | Gen::Rdna4);
        let null = if swapped { 124 } else { 125 };
        let constant = |text: String| {
            let mark = if self.class.takes_constants() {
                ""
            } else {
                "/*Invalid immediate*/"
            };
            Some(text + mark)
        };
        let scalar = |text: String| {
            Some(if self.class == Class::Any {
                text
            } else {
                text + &self.class.misplaced(generation, words)
            })
        };
        let aligned = |file: &str, n: u16, end: u16| {
            let first = n & !3;
            let last = first + words.min(16) as u16 - 1;
            (last < end)
                .then(|| format!("{file}[{first}:{last}]"))
                .and_then(scalar)
        };
        match code {
            VGPR.. => {
                let (file, n) = (if self.acc { "a" } else { "v" }, usize::from(code - VGPR));
                if self.acc && n + words > 256 {
                    return None;
                }
                let text = match words {
                    1 => format!("{file}{n}"),
                    _ => format!("{file}[{n}:{}]", n + words - 1),
                };
                Some(if self.is_aligned(generation) {
                    text
                } else {
                    text + &self.class.misplaced(generation, words)
                })
            }
            LITERAL if generation == Gen::Cdna3 => None,
            LITERAL => {
                let literal = self.literal;
                let bare = !self.class.takes_constants() || self.ty == Ty::B32Long;
                if let Some(inline) = self.as_inline().filter(|_| bare) {
                    return inline.text(generation);
                }
                constant(if self.ty.is_inline(literal) {
                    format!("lit({literal:#x})")
                } else if self.ty == Ty::F16 && !bare {
                    format!("{:#x}", literal & 0xffff)
                } else {
                    format!("{literal:#x}")
                })
            }
            248 if self.class.takes_constants() && matches!(self.ty, Ty::B64 | Ty::B32Long) => {
                constant("0.15915494309189532".into())
            }
            128..=208 | 240..=248 => constant(crate::vector::operand::source_text(
                generation,
                code,
                Kind::F32,
                0,
                None,
            )?),
            0..=127 if code == null => Some("null".into()),
            0..=101 if words > 2 => aligned("s", code, 104),
            102 | 103 if words > 2 && generation != Gen::Cdna3 => aligned("s", code, 104),
            108..=123 if words > 2 => aligned("ttmp", code - 108, 16),
            0..=127 if words <= 2 => scalar(scalar_text(generation, code, words)?),
            254 if words == 1 => scalar("src_lds_direct".into()),
            230..=239 | 251..=253 if words <= 2 => {
                let kind = if words == 1 { Kind::B32 } else { Kind::B64 };
                crate::vector::operand::source_text(generation, code, kind, 0, None)
            }
            _ => None,
        }
    }

    /// Tuples of registers start at an even one in CDNA3.
    fn is_aligned(&self, generation: Gen) -> bool {
        generation != Gen::Cdna3 || self.words == 1 || self.code.is_multiple_of(2)
    }

    /// The inline constant that has the value of the literal.
    pub fn as_inline(&self) -> Option<Self> {
        let (kind, value) = match self.ty {
            Ty::B32Long => (Kind::F64, u64::from(self.literal) << 32),
            ty => (ty.kind(), u64::from(self.literal)),
        };
        let code = (128..=208)
            .chain(240..=248)
            .find(|&code| inline(code, kind) == Some(value))?;
        Some(Self { code, ..*self })
    }

    /// Whether its text is a plain number, of which a minus would be part.
    pub fn is_number(&self) -> bool {
        match self.code {
            128..=208 | 240..=248 => true,
            LITERAL => !self.ty.is_inline(self.literal),
            _ => false,
        }
    }

    /// Whether a chip has it.
    pub fn is_legal(&self, generation: Gen) -> bool {
        match self.code {
            VGPR.. => self.is_aligned(generation) && usize::from(self.code) + self.words <= 512,
            128..=208 | 240..=248 | LITERAL => self.class.takes_constants(),
            239 | 254 => false,
            _ => self.class == Class::Any,
        }
    }

    /// The registers that it stands for, as far as they can be in flight.
    pub fn regs(&self) -> Option<Regs> {
        let count = self.words as u16;
        match self.code {
            0..=123 => Some(Regs {
                file: File::S,
                first: self.code,
                count,
            }),
            VGPR.. => Some(Regs {
                file: File::V,
                first: self.vgpr()? as u16,
                count,
            }),
            _ => None,
        }
    }

    /// The first VGPR; accumulation registers follow from 256 on.
    pub fn vgpr(&self) -> Option<usize> {
        let n = usize::from(self.code.checked_sub(VGPR)?);
        Some(n + if self.acc { 256 } else { 0 })
    }

    /// The operand, ready to be read; constants are those of `ty`.
    pub fn source(&self, generation: Gen, ty: Ty) -> Source {
        if let Some(first) = self.vgpr() {
            return Source::Vgpr(first);
        }
        match ty.constant(self.code, self.literal) {
            Some(bits) => {
                let lanes = [bits as u32, (bits >> 32) as u32].map(|dword| [dword; 32]);
                Source::Constant(Box::<[Lanes; 2]>::new(lanes))
            }
            None => {
                let kind = if self.words == 2 {
                    Kind::B64
                } else {
                    Kind::B32
                };
                Source::new(generation, self.code, kind, self.literal)
            }
        }
    }
}
