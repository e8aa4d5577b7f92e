//! An instruction, decoded.

use crate::isa::Gen;

use super::lane_select::Dpp;
use super::operand::{LITERAL, VGPR};
use super::table::{self, Row, VOP2_BASE, flag, vop1_base};

/// The encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// 32 bits, and a literal.
    Short,
    /// VOP3, and a literal.
    Long,
}

/// SDWA: parts of dwords as operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sdwa {
    /// Which part of the destination is written.
    pub dst: u8,
    /// What becomes of the rest: 0 zero, 1 sign, 2 stays.
    pub unused: u8,
    /// Which part of each source is read.
    pub src: [u8; 2],
    /// Which of them is extended with its sign.
    pub sext: [bool; 2],
}

/// What stands in place of the first source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extra {
    /// The first source itself.
    None,
    /// Lanes change places.
    Dpp(Dpp),
    /// Parts of dwords.
    Sdwa(Sdwa),
}

/// An instruction of this class.
#[derive(Clone)]
pub struct Inst {
    /// The generation.
    pub generation: Gen,
    /// Its row.
    pub row: &'static Row,
    /// Its name, without the suffix of the encoding.
    pub name: &'static str,
    /// The opcode in the numbering of VOP3.
    pub opcode: u16,
    /// The encoding.
    pub form: Form,
    /// DPP or SDWA.
    pub extra: Extra,
    /// The destination: a VGPR, or a scalar operand.
    pub dst: u16,
    /// The scalar destination of bits per lane.
    pub sdst: u16,
    /// The sources as operand codes.
    pub src: [u16; 3],
    /// The literal, where one is there.
    pub literal: u32,
    /// Absolute values, a bit per source.
    pub abs: u8,
    /// Negations, a bit per source.
    pub neg: u8,
    /// High halves: a bit per source, bit 3 for the destination.
    pub opsel: u8,
    /// Whether halves are named by `op_sel` bits that mean nothing.
    pub odd_opsel: bool,
    /// Clamps the result.
    pub clamp: bool,
    /// Scales the result.
    pub omod: u8,
}

impl PartialEq for Inst {
    fn eq(&self, other: &Self) -> bool {
        let key = |i: &Self| {
            (
                (i.generation, i.opcode, i.form, i.extra, i.dst, i.sdst),
                (i.src, i.literal, i.abs, i.neg, i.opsel, i.clamp, i.omod),
            )
        };
        key(self) == key(other)
    }
}

impl std::fmt::Debug for Inst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// The codes of the first source that stand for another encoding of it.
const SDWA: u16 = 249;
const DPP16: u16 = 250;
const DPP8: u16 = 233;
const DPP8_FI: u16 = 234;

/// Decodes an instruction; none where it is not of this class or the generation does not have it.
pub fn decode(generation: Gen, words: &[u32]) -> Option<(Inst, usize)> {
    let &w = words.first()?;
    let cdna = generation == Gen::Cdna3;
    let long = w >> 26 == if cdna { 0x34 } else { 0x35 };
    let (inst, length) = if long {
        decode_long(generation, words)?
    } else if w >> 31 == 0 {
        decode_short(generation, words)?
    } else {
        return None;
    };
    // What cannot be written does not exist.
    inst.text()?;
    Some((inst, length))
}

fn new(generation: Gen, opcode: u16, form: Form) -> Option<Inst> {
    let (row, name) = table::find(generation, opcode)?;
    Some(Inst {
        generation,
        row,
        name,
        opcode,
        form,
        extra: Extra::None,
        dst: 0,
        sdst: 106,
        src: [0; 3],
        literal: 0,
        abs: 0,
        neg: 0,
        opsel: 0,
        odd_opsel: false,
        clamp: false,
        omod: 0,
    })
}

fn decode_short(generation: Gen, words: &[u32]) -> Option<(Inst, usize)> {
    let w = words[0];
    let field = |at: u32, bits: u32| (w >> at & ((1 << bits) - 1)) as u16;
    let (opcode, two) = match w >> 25 {
        0x3f => (
            vop1_base(generation) + Some(field(9, 8)).filter(|&op| op < 0x80)?,
            false,
        ),
        0x3e => (field(17, 8), true),
        _ => (VOP2_BASE + field(25, 6), true),
    };
    let mut inst = new(generation, opcode, Form::Short)?;
    inst.dst = field(17, 8);
    inst.src[0] = field(0, 9);
    if two {
        inst.src[1] = VGPR + field(9, 8);
    }
    if inst.row.is(flag::BARE) {
        return (inst.dst == 0).then_some((inst, 1));
    }
    let mut length = 1;
    let always = inst.row.is(flag::MIDDLE | flag::LAST);
    match inst.src[0] {
        SDWA if matches!(generation, Gen::Rdna2 | Gen::Cdna3) => {
            inst.sdwa(*words.get(1)?)?;
            length = 2;
        }
        DPP16 | DPP8 | DPP8_FI if inst.has_dpp() => {
            inst.dpp(inst.src[0], *words.get(1)?)?;
            length = 2;
        }
        _ if inst.row.is(flag::TO_SCALAR) && inst.dst == LITERAL => {
            inst.literal = *words.get(1)?;
            length = 2;
        }
        LITERAL if !always => {
            inst.literal = *words.get(1)?;
            length = 2;
        }
        _ => {}
    }
    if always {
        inst.literal = *words.get(1)?;
        length = 2;
        if inst.row.is(flag::MIDDLE) {
            inst.src[2] = inst.src[1];
            inst.src[1] = LITERAL;
        } else {
            inst.src[2] = LITERAL;
        }
    }
    inst.halves_of_short();
    Some((inst, length))
}

fn decode_long(generation: Gen, words: &[u32]) -> Option<(Inst, usize)> {
    let &[w, x, ..] = words else {
        return None;
    };
    let field = |at: u32, bits: u32| (w >> at & ((1 << bits) - 1)) as u16;
    let source = |at: u32| (x >> at & 0x1ff) as u16;
    let opcode = field(16, 10);
    if generation == Gen::Cdna3 && opcode >= 0x380 {
        return None;
    }
    let mut inst = new(generation, opcode, Form::Long)?;
    let row = inst.row;
    if !inst.has_long() {
        return None;
    }
    inst.dst = field(0, 8);
    inst.src = [source(0), source(9), source(18)];
    inst.neg = (x >> 29) as u8;
    inst.omod = (x >> 27 & 3) as u8;
    inst.clamp = field(15, 1) != 0;
    if row.bit_out && row.dst.is_some() {
        inst.sdst = field(8, 7);
    } else {
        inst.abs = field(8, 3) as u8;
        inst.opsel = field(11, 4) as u8;
    }
    if row.compares() {
        inst.sdst = inst.dst;
    }
    if row.is(flag::BARE) {
        return (inst.dst == 0).then_some((inst, 2));
    }
    let mut length = 2;
    match inst.src[0] {
        DPP16 | DPP8 | DPP8_FI
            if matches!(generation, Gen::Rdna3 | Gen::Rdna4) && inst.has_dpp() =>
        {
            let (abs, neg) = (inst.abs, inst.neg);
            inst.dpp(inst.src[0], *words.get(2)?)?;
            (inst.abs, inst.neg) = (abs, neg);
            length = 3;
        }
        _ => {}
    }
    let used = row.sources() + usize::from(inst.scalar_bits().is_some());
    // LLVM takes a literal where a comparison writes to one.
    let scalar = row.is(flag::SCALAR | flag::TO_SCALAR) && inst.dst == LITERAL;
    let written = scalar || row.compares() && inst.sdst == LITERAL && !row.is(flag::CMPX);
    // ... and has none with DPP and an accumulator.
    let raw = inst.raw_second();
    let named = |i: usize| inst.src[i] == LITERAL && !(raw && i == 1);
    if written || (0..used).any(named) {
        // CDNA has no literals here.
        if generation == Gen::Cdna3 {
            return None;
        }
        inst.literal = *words.get(length)?;
        length += 1;
    }
    Some((inst, length))
}

impl Inst {
    /// Whether the VOP3 encoding exists.
    pub fn has_long(&self) -> bool {
        let rdna = self.generation != Gen::Cdna3;
        !(self.row.is(flag::SHORT) || rdna && self.row.is(flag::SHORT_RDNA))
    }

    /// Whether the short encoding exists.
    pub fn has_short(&self) -> bool {
        table::has_short(self.generation, self.opcode)
    }

    fn has_dpp(&self) -> bool {
        let row = self.row;
        let wide = row.fields().any(|f| f.kind.dwords() > 1);
        match self.generation {
            _ if row.is(flag::NO_DPP | flag::MIDDLE | flag::LAST) => {
                // CDNA3 has it for more instructions.
                false
            }
            Gen::Cdna3 => !row.compares(),
            Gen::Rdna2 => !wide && !row.compares(),
            _ => !wide && !row.is(flag::NO_DPP_SINCE_RDNA3),
        }
    }

    /// Whether LLVM prints the code of the second source where that is a constant, an oversight.
    pub fn raw_second(&self) -> bool {
        self.row.old && self.form == Form::Long && matches!(self.extra, Extra::Dpp(_))
    }

    /// The operand code of the bits per lane that a VOP3 encoding names: the source after the others.
    pub fn scalar_bits(&self) -> Option<u16> {
        let sources = self.row.sources();
        (self.row.bit_in && self.form == Form::Long && sources < 3).then(|| self.src[sources])
    }

    fn dpp(&mut self, code: u16, x: u32) -> Option<()> {
        let bit = |at: u32| x >> at & 1 != 0;
        if code != DPP16 {
            if self.generation == Gen::Cdna3 {
                return None;
            }
            self.extra = Extra::Dpp(Dpp::Eight {
                select: x >> 8,
                inactive: code == DPP8_FI,
            });
        } else {
            self.extra = Extra::Dpp(Dpp::Pattern {
                control: (x >> 8 & 0x1ff) as u16,
                zero: bit(19),
                inactive: bit(18),
                rows: (x >> 28) as u8,
                banks: (x >> 24 & 15) as u8,
                generation: self.generation,
            });
            self.neg = u8::from(bit(20)) | u8::from(bit(22)) << 1;
            self.abs = u8::from(bit(21)) | u8::from(bit(23)) << 1;
        }
        self.src[0] = VGPR + (x & 0xff) as u16;
        Some(())
    }

    fn sdwa(&mut self, x: u32) -> Option<()> {
        let field = |at: u32, bits: u32| (x >> at & ((1 << bits) - 1)) as u8;
        let bit = |at: u32| x >> at & 1 != 0;
        self.extra = Extra::Sdwa(Sdwa {
            dst: field(8, 3),
            unused: field(11, 2),
            src: [field(16, 3), field(24, 3)],
            sext: [bit(19), bit(27)],
        });
        self.neg = u8::from(bit(20)) | u8::from(bit(28)) << 1;
        self.abs = u8::from(bit(21)) | u8::from(bit(29)) << 1;
        let register = |code: u16, scalar: bool| if scalar { code } else { VGPR + code };
        self.src[0] = register(u16::from(field(0, 8)), bit(23));
        if self.row.sources() > 1 {
            self.src[1] = register(self.src[1] & 0xff, bit(31));
        } else if bit(31) {
            return None;
        }
        if self.row.compares() {
            if bit(15) {
                if self.row.is(flag::CMPX) && self.generation != Gen::Cdna3 {
                    return None;
                }
                self.sdst = u16::from(field(8, 7));
            }
        } else {
            self.clamp = bit(13);
            self.omod = field(14, 2);
        }
        Some(())
    }

    /// Since RDNA3 a short encoding names the high half of a VGPR below 128 by bit 7 of its number.
    fn halves_of_short(&mut self) {
        if self.generation != Gen::Rdna3 {
            return;
        }
        let row = self.row;
        for (i, field) in row.src.iter().enumerate().take(row.sources()) {
            let half = field.is_some_and(|f| f.kind.is_half());
            if half && self.src[i] >= VGPR {
                self.opsel |= ((self.src[i] >> 7 & 1) as u8) << i;
                self.src[i] &= !0x80;
            }
        }
        if row.dst.is_some_and(|f| f.kind.is_half()) {
            self.opsel |= ((self.dst >> 7 & 1) as u8) << 3;
            self.dst &= 0x7f;
        }
    }
}
