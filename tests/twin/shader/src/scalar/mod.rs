//! Scalar instructions: SOP1, SOP2, SOPC, SOPK, SOPP and SMEM.
//!
//! A table per format: mnemonic, opcodes by generation, and a closure whose types are the operands
//! and whose body is the meaning. Facts: the ISA documents of RDNA2, RDNA3, RDNA4 and CDNA3; names
//! and opcodes as LLVM's disassembler has them.

mod control;
mod float;
mod hwreg;
mod meaning;
mod names;
mod operand;
mod smem;
mod sop1;
mod sop2;
mod sopc;
mod sopk;
mod sopp;

use std::fmt;
use std::sync::LazyLock;

use crate::isa::Gen;
use crate::step::Step;
use crate::vector::operand::{Kind, literal_text};
use meaning::{Arg, Row};

/// The formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Sop1,
    Sop2,
    Sopc,
    Sopk,
    Sopp,
    Smem,
}

impl Format {
    const ALL: [Self; 6] = [
        Self::Sop1,
        Self::Sop2,
        Self::Sopc,
        Self::Sopk,
        Self::Sopp,
        Self::Smem,
    ];

    /// The prefix of SOPC.
    const SOPC: u32 = 0b1_0111_1110;

    fn rows(self) -> Vec<Row> {
        match self {
            Self::Sop1 => sop1::rows(),
            Self::Sop2 => sop2::rows(),
            Self::Sopc => sopc::rows(),
            Self::Sopk => sopk::rows(),
            Self::Sopp => sopp::rows(),
            Self::Smem => smem::rows(),
        }
    }

    /// The format and opcode of an encoding. The more bits a prefix has, the earlier it is looked for.
    fn of(generation: Gen, word: u32) -> Option<(Self, u32)> {
        let smem = match generation {
            Gen::Cdna3 => 0b11_0000,
            _ => 0b11_1101,
        };
        Some(match (word >> 23, word >> 28, word >> 30, word >> 26) {
            (0b1_0111_1101, ..) => (Self::Sop1, word >> 8 & 0xff),
            (Self::SOPC, ..) => (Self::Sopc, word >> 16 & 0x7f),
            (0b1_0111_1111, ..) => (Self::Sopp, word >> 16 & 0x7f),
            (_, 0b1011, ..) => (Self::Sopk, word >> 23 & 0x1f),
            (_, _, 0b10, _) => (Self::Sop2, word >> 23 & 0x7f),
            (.., prefix) if prefix == smem => (Self::Smem, smem::opcode(generation, word)),
            _ => return None,
        })
    }
}

/// The rows of all formats, and where they are: by generation, format and opcode.
struct Table {
    rows: Vec<Row>,
    index: [[[Option<u16>; 256]; 6]; 4],
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table {
        rows: Vec::new(),
        index: [[[None; 256]; 6]; 4],
    };
    for format in Format::ALL {
        for row in format.rows() {
            for (generation, op) in row.ops.iter().enumerate() {
                if let Ok(op) = usize::try_from(*op) {
                    table.index[generation][format as usize][op] = Some(table.rows.len() as u16);
                }
            }
            table.rows.push(row);
        }
    }
    table
});

/// An instruction of this class.
#[derive(Clone, PartialEq, Debug)]
pub struct Inst {
    generation: Gen,
    /// The index of its row.
    row: u16,
    /// The encoding; a second word that is not used is zero.
    words: [u32; 2],
}

/// Decodes an instruction and says how many words it takes; none where it is not of this class or
/// the generation has no such instruction.
pub fn decode(generation: Gen, words: &[u32]) -> Option<(Inst, usize)> {
    let word = *words.first()?;
    let (format, op) = Format::of(generation, word)?;
    let row = TABLE.index[generation.column()][format as usize][op as usize]?;
    let mut inst = Inst {
        generation,
        row,
        words: [word, 0],
    };
    let mut length = 1;
    if format == Format::Smem || inst.has_literal() {
        inst.words[1] = *words.get(1)?;
        length = 2;
    }
    if format == Format::Smem && !smem::valid(&inst) {
        return None;
    }
    inst.texts().is_some().then_some((inst, length))
}

impl Inst {
    fn row(&self) -> &'static Row {
        &TABLE.rows[usize::from(self.row)]
    }

    fn has_literal(&self) -> bool {
        let word = self.words[0];
        self.row().meaning.args.iter().any(|arg| match arg {
            Arg::Src0(_) | Arg::Reg0(_) => word as u8 == operand::LITERAL,
            Arg::Src1(_) => (word >> 8) as u8 == operand::LITERAL,
            Arg::Literal | Arg::LiteralImm => true,
            _ => false,
        })
    }

    /// The texts of the operands; none where one is not valid.
    fn texts(&self) -> Option<Vec<String>> {
        let args = self.row().meaning.args.iter();
        args.filter(|arg| !matches!(arg, Arg::Cache))
            .map(|arg| self.text(*arg))
            .collect()
    }

    fn text(&self, arg: Arg) -> Option<String> {
        let word = self.words[0];
        let simm = self.simm();
        let source = |code: u8, dwords| match code {
            // Compares print the inline floats of 16 bits in hexadecimal.
            240..=248 if dwords == operand::HALF && word >> 23 == Format::SOPC => {
                Some(format!("{:#x}", operand::half_bits(code)))
            }
            operand::LITERAL if dwords == operand::HALF => {
                Some(format!("{:#x}", self.words[1] as u16))
            }
            operand::LITERAL => {
                let kind = if dwords == 1 { Kind::B32 } else { Kind::B64 };
                Some(literal_text(self.words[1], kind))
            }
            _ => operand::name(self.generation, code, dwords),
        };
        Some(match arg {
            Arg::Dst(dwords) | Arg::DstRead(dwords) => {
                operand::name(self.generation, self.dst_code(), dwords)?
            }
            Arg::Src0(dwords) => source(word as u8, dwords)?,
            Arg::Reg0(dwords) => match word as u8 {
                code @ (128..=208 | 240..=248 | operand::LITERAL) => {
                    format!("{}/*Invalid immediate*/", source(code, 1)?)
                }
                code => source(code, dwords)?,
            },
            Arg::Barrier => operand::name(self.generation, word as u8, 1)?,
            Arg::Src1(dwords) => source((word >> 8) as u8, dwords)?,
            Arg::Literal => format!("{:#x}", self.words[1]),
            Arg::LiteralImm => names::constant(self.words[1]),
            Arg::Hex => format!("{simm:#x}"),
            Arg::Version => names::version(simm),
            Arg::Imm => names::constant(simm.into()),
            Arg::Label => simm.to_string(),
            Arg::Optional if simm == 0 => String::new(),
            Arg::Optional => simm.to_string(),
            Arg::Zero if simm == 0 => String::new(),
            Arg::Zero => return None,
            Arg::Waitcnt => names::waitcnt(self.generation, simm),
            Arg::Delay => names::delay(simm),
            Arg::Depctr => names::depctr(simm),
            Arg::Hwreg => names::hwreg(self.generation, simm),
            Arg::Message => names::message(self.generation, simm),
            Arg::MessageSrc => names::message(self.generation, word as u8 as u16),
            Arg::GprIndexSrc => names::gpr_index(word as u16 >> 8),
            Arg::GprIndex => names::gpr_index(simm),
            Arg::Data(_) | Arg::DataImm | Arg::Base(_) | Arg::Offset | Arg::Prefetch => {
                smem::print(self, arg)?
            }
            Arg::Cache => smem::cache_policy(self),
        })
    }

    /// The instruction as a step for a wave of `halves` times 32 lanes.
    pub fn lower(&self, halves: usize) -> Step {
        (self.row().meaning.lower)(self, halves)
            .unwrap_or_else(|| control::reserved(self.to_string()))
    }
}

impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = self.row();
        f.write_str(row.name(self.generation))?;
        let texts = self.texts().unwrap_or_default();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let texts = texts.join(", ");
        if !texts.is_empty() {
            write!(f, " {texts}")?;
        }
        if row.meaning.args.contains(&Arg::Cache) {
            f.write_str(&smem::cache_policy(self))?;
        }
        Ok(())
    }
}
