//! Words from instructions, and instructions from words, as the forms say.

use std::sync::LazyLock;

use super::form::{Bit12, Kind, Size, Slot};
use super::inst::{DecodeError, EncodeError, Inst, Part};
use super::legal;
use super::modifier::{Cond, Desc, Flags, Mode, Round, Shuffle, Type};
use super::operand::{FLOATS, Operand, Reg, Value};
use super::table::{KEY, Op, ROWS, Row};
use crate::encoding::{Field, Table, sign_extend};

/// The rows by opcode.
pub(super) static TABLE: LazyLock<Table<Row>> = LazyLock::new(|| Table::new(ROWS, KEY));

/// The word of an instruction that the hardware takes.
///
/// # Errors
/// The encoding has no place for a part of it, or the operands break a rule of the hardware.
pub fn encode(inst: &Inst) -> Result<u64, EncodeError> {
    let word = encode_any(inst)?;
    legal::check(inst)?;
    Ok(word)
}

/// The word of an instruction, whether or not the hardware takes its operands: for what comes from text or
/// from machine code.
///
/// # Errors
/// The encoding has no place for a part of it.
pub fn encode_any(inst: &Inst) -> Result<u64, EncodeError> {
    let mut first = None;
    for row in ROWS.iter().filter(|row| row.op == inst.op) {
        match encode_as(row, inst) {
            Ok(word) => return Ok(word),
            Err(error) => first = first.or(Some(error)),
        }
    }
    // Every operation has a row.
    Err(first.unwrap_or(EncodeError::Operand {
        op: inst.op,
        part: Part::Flags,
    }))
}

fn encode_as(row: &Row, inst: &Inst) -> Result<u64, EncodeError> {
    let op = inst.op;
    let word = pack(row, inst)?;
    // What the row has no field for is lost, and what it takes from elsewhere may be otherwise.
    let back = unpack(row, word).map_err(|_| EncodeError::Unencodable {
        op,
        part: Part::Mods,
    })?;
    match difference(inst, &back) {
        Some(part) => Err(EncodeError::Unencodable { op, part }),
        None => Ok(word),
    }
}

/// The first part in which two instructions differ.
fn difference(a: &Inst, b: &Inst) -> Option<Part> {
    let first =
        |a: &[Operand], b: &[Operand]| (0..a.len().max(b.len())).find(|&n| a.get(n) != b.get(n));
    let dst = first(&a.dsts, &b.dsts).map(Part::Dst);
    let src = || first(&a.srcs, &b.srcs).map(Part::Src);
    dst.or_else(src)
        .or((a.flags != b.flags).then_some(Part::Flags))
        .or(((a.repeat, a.nop) != (b.repeat, b.nop)).then_some(Part::Repeat))
        .or((a.mods != b.mods).then_some(Part::Mods))
}

/// The instruction of a word.
///
/// # Errors
/// The word is no instruction, has reserved bits or values, or differs from what [`encode_any`] gives in bits that
/// no text shows.
pub fn decode(word: u64) -> Result<Inst, DecodeError> {
    let row = TABLE.find(word).ok_or(DecodeError::Unknown { word })?;
    let op = row.op;
    let bits = word & row.reserved();
    if bits != 0 {
        return Err(DecodeError::Reserved { word, op, bits });
    }
    let inst = unpack(row, word)?;
    let bits = pack(row, &inst).map_or(u64::MAX, |packed| packed ^ word);
    if bits != 0 {
        return Err(DecodeError::Hidden { word, op, bits });
    }
    Ok(inst)
}

/// Whether a mov is called mova: the a0.x, a1.x and type that make it so.
pub(super) fn address_of_mov(ty: Option<Type>, src_ty: Option<Type>, reg: u8) -> Option<Reg> {
    match (Reg(reg), ty, src_ty) {
        (Reg::A0, Some(Type::S16), Some(Type::S16)) => Some(Reg::A0),
        (Reg::A1, Some(Type::U16), Some(Type::U16)) => Some(Reg::A1),
        _ => None,
    }
}

/// Whether registers of a mov's type have 16 bits.
fn mov_half(ty: Option<Type>) -> bool {
    ty.is_some_and(|ty| ty.is_half() || ty == Type::U8In32)
}

/// The type of a texture instruction whose text has none.
pub(super) fn size_type(half: bool) -> Type {
    if half { Type::F16 } else { Type::F32 }
}

/// Whether elements of a type are bytes.
fn bytes(ty: Option<Type>) -> bool {
    matches!(ty, Some(Type::U8 | Type::U8In32))
}

/// The fiber that a0.x names.
const FIBER_A0: u64 = 1 << 7;

/// The number of source fields whose (r) bits hold (nopN).
const NOP_BITS: u8 = 2;

// --- Words ---------------------------------------------------------------------------------------------------------

struct Packer<'a> {
    row: &'a Row,
    inst: &'a Inst,
}

fn pack(row: &Row, inst: &Inst) -> Result<u64, EncodeError> {
    let packer = Packer { row, inst };
    let mut word = row.fixed.value;
    for &(slot, field) in row.form.fields {
        word |= packer.slot(slot, field)?;
    }
    Ok(word)
}

impl Packer<'_> {
    fn range(&self, field: &'static str, value: i64) -> EncodeError {
        let op = self.inst.op;
        EncodeError::Range { op, field, value }
    }

    fn missing(&self, field: &'static str) -> EncodeError {
        let op = self.inst.op;
        EncodeError::Missing { op, field }
    }

    fn unfit(&self, part: Part) -> EncodeError {
        let op = self.inst.op;
        EncodeError::Operand { op, part }
    }

    fn unsigned(&self, field: Field, name: &'static str, value: i64) -> Result<u64, EncodeError> {
        let put = u64::try_from(value).ok().and_then(|value| field.put(value));
        put.ok_or_else(|| self.range(name, value))
    }

    fn signed(&self, field: Field, name: &'static str, value: i64) -> Result<u64, EncodeError> {
        field
            .put_signed(value)
            .ok_or_else(|| self.range(name, value))
    }

    fn source(&self, n: u8) -> Option<&Operand> {
        self.inst.srcs.get(usize::from(n))
    }

    /// Whether the sources have 32 bits.
    fn full(&self) -> bool {
        match self.row.form.field(Slot::Full) {
            None => self.row.params.full,
            Some(_) if self.inst.op.category() == 3 => self.source(1).is_some_and(|s| !s.half),
            // Mesa leaves the bit clear where a texture instruction has no sources.
            Some(_) if self.inst.op.category() == 5 && self.tex_sources() == 0 => false,
            // Floats of the table have a bit of their own.
            Some(_) => {
                let mut srcs = self.inst.srcs.iter();
                let decides = srcs.find(|s| !matches!(s.value, Value::Float(_)));
                decides.or(self.source(0)).is_some_and(|s| !s.half)
            }
        }
    }

    /// Whether the text shows the size of the type alone.
    fn untyped(&self) -> bool {
        self.inst.op.category() == 5 && !self.row.params.typed
    }

    /// How many sources of a texture instruction are in fields of their own.
    fn tex_sources(&self) -> u8 {
        let offsets =
            self.inst.flags.has(Flags::OFFSET) && self.row.form.field(Slot::TexSrc(1)).is_some();
        // With offsets the second source is there whether or not the first is.
        self.row.params.sources + u8::from(offsets && self.row.params.sources < 2)
    }

    fn slot(&self, slot: Slot, field: Field) -> Result<u64, EncodeError> {
        let inst = self.inst;
        let mods = &inst.mods;
        let number = |name, value| self.unsigned(field, name, value);
        let bit = |value: bool| number("flag", i64::from(value));
        match slot {
            Slot::Flag(flag) => bit(inst.flags.has(flag)),
            Slot::NotFlag(flag) => bit(!inst.flags.has(flag)),
            Slot::Repeat if inst.repeat > 5 => Err(self.range("repetition", inst.repeat.into())),
            Slot::Repeat => number("repetition", inst.repeat.into()),
            Slot::Round => number("rounding", mods.round as i64),
            Slot::Cond => number(
                "condition",
                mods.cond.ok_or_else(|| self.missing("condition"))? as i64,
            ),
            Slot::Ty if self.untyped() => {
                let half = inst.dsts.first().is_some_and(|d| d.half);
                number("type", size_type(half) as i64)
            }
            Slot::Ty => number("type", mods.ty.ok_or_else(|| self.missing("type"))? as i64),
            Slot::SrcTy => number(
                "type",
                mods.src_ty
                    .ok_or_else(|| self.missing("type of the source"))? as i64,
            ),
            Slot::Mask => number("mask", mods.mask.into()),
            Slot::Dims => number("dimensions", i64::from(mods.dims) - 1),
            Slot::Count => number("count", mods.count.into()),
            Slot::CountLessOne => number("count", i64::from(mods.count) - 1),
            Slot::Offset => self.signed(field, "offset", mods.offset.into()),
            Slot::OffsetLow => number("offset", i64::from(mods.offset & 0xff)),
            Slot::OffsetHigh => self.signed(field, "offset", i64::from(mods.offset >> 8)),
            Slot::UOffset => number("offset", mods.offset.into()),
            Slot::UOffsetLow => number("offset", i64::from(mods.offset & 0x1f)),
            Slot::UOffsetHigh => number("offset", i64::from(mods.offset >> 5)),
            // Beside a register of offsets there is no immediate.
            Slot::HasOffset => bit(mods.offset != 0 && !inst.flags.has(Flags::OFFSET)),
            // The text of a byte has no shift.
            Slot::Shift if bytes(mods.ty) => Ok(0),
            Slot::Shift => number("shift", mods.shift.into()),
            Slot::Mode => number(
                "mode",
                mods.mode.ok_or_else(|| self.missing("mode"))? as i64,
            ),
            Slot::Bindless => bit(mods.base.is_some()),
            Slot::Base => number("base", mods.base.unwrap_or(0).into()),
            Slot::Desc => number("descriptor", self.desc()? as i64),
            Slot::BaseLow => number("base", i64::from(mods.base.unwrap_or(0) & 1)),
            Slot::BaseHigh => number("base", i64::from(mods.base.unwrap_or(0) >> 1)),
            Slot::Sampler => number("sampler", mods.sampler.unwrap_or(0).into()),
            Slot::Texture => number("texture", mods.texture.unwrap_or(0).into()),
            Slot::Indices => self.indices(field),
            Slot::WidthLog => match u64::from(mods.width) {
                width if width.is_power_of_two() => number("width", i64::from(width.ilog2()) - 1),
                width => Err(self.range("width", width as i64)),
            },
            Slot::WidthWords if !mods.width.is_multiple_of(32) => {
                Err(self.range("width", mods.width.into()))
            }
            Slot::WidthWords => number("width", i64::from(mods.width / 32) - 1),
            Slot::Index => number("index", mods.index.into()),
            Slot::Shuffle => number(
                "shuffle",
                mods.shuffle.ok_or_else(|| self.missing("lane"))? as i64,
            ),
            Slot::Advances(n) if self.row.form.nops && inst.nop > 0 && n < NOP_BITS => {
                if inst.nop > 3 || inst.repeat > 0 {
                    return Err(self.range("nop", inst.nop.into()));
                }
                bit(inst.nop >> n & 1 != 0)
            }
            Slot::Advances(n) => bit(self.source(n).is_some_and(|s| s.advances)),
            Slot::Neg(n) => bit(self.source(n).is_some_and(|s| s.neg)),
            Slot::Last(n) => bit(self.source(n).is_some_and(|s| s.last)),
            Slot::Full => bit(self.full()),
            Slot::Conv => {
                let dst = inst.dsts.first().ok_or_else(|| self.unfit(Part::Dst(0)))?;
                let predicate = matches!(dst.value, Value::Reg(reg) if reg.is_predicate());
                bit(!predicate && dst.half == self.full())
            }
            Slot::DstFull => bit(inst.dsts.first().is_some_and(|d| !d.half)),
            Slot::DstRel => {
                bit(matches!(inst.dsts.first(), Some(d) if matches!(d.value, Value::RelReg(_))))
            }
            Slot::IsImm(n) => bit(self.source(n).is_some_and(Operand::is_immediate)),
            Slot::Dst(n, kind, _) => {
                let part = Part::Dst(n.into());
                let operand = inst
                    .dsts
                    .get(usize::from(n))
                    .ok_or_else(|| self.unfit(part))?;
                self.operand(kind, field, operand, part)
            }
            Slot::Src(n, kind, _) => {
                let part = Part::Src(n.into());
                let operand = self.source(n).ok_or_else(|| self.unfit(part))?;
                self.operand(kind, field, operand, part)
            }
            Slot::TexSrc(1) if self.tex_sources() < 2 && !inst.flags.has(Flags::OFFSET) => {
                // What isam has there instead; others have no offset.
                match self.row.form.field(Slot::HasOffset) {
                    Some(_) => number("offset", mods.offset.into()),
                    None => Ok(0),
                }
            }
            Slot::TexSrc(0) if self.row.params.sources == 0 => Ok(0),
            Slot::TexSrc(n) => {
                let n = if self.row.params.sources == 0 { 0 } else { n };
                let part = Part::Src(n.into());
                let operand = self.source(n).ok_or_else(|| self.unfit(part))?;
                self.operand(Kind::Reg, field, operand, part)
            }
            Slot::Fixed(value) => number("fixed bits", value as i64),
        }
    }

    fn desc(&self) -> Result<Desc, EncodeError> {
        self.inst
            .mods
            .desc
            .ok_or_else(|| self.missing("descriptor"))
    }

    fn indices(&self, field: Field) -> Result<u64, EncodeError> {
        let desc = self.desc()?;
        let mods = &self.inst.mods;
        let sampler = i64::from(mods.sampler.unwrap_or(0));
        if desc.is_indirect() {
            let n = self.tex_sources();
            let part = Part::Src(n.into());
            let operand = self.source(n).ok_or_else(|| self.unfit(part))?;
            return self.operand(Kind::Reg, field, operand, part);
        }
        if desc.uses_a1() {
            return self.unsigned(field, "sampler", sampler);
        }
        let texture = i64::from(mods.texture.unwrap_or(0));
        if sampler > 15 {
            return Err(self.range("sampler", sampler));
        }
        self.unsigned(field, "texture", texture << 4 | sampler)
    }

    fn operand(
        &self,
        kind: Kind,
        field: Field,
        operand: &Operand,
        part: Part,
    ) -> Result<u64, EncodeError> {
        let value = operand.value;
        let unfit = || self.unfit(part);
        let number = |value: i64| self.unsigned(field, "operand", value);
        // Where a part of the field does not start at its low bit.
        let part_of = |bits: u32, value: i64| {
            let low = value as u64 & ((1 << bits) - 1);
            if sign_extend(low, bits) == value {
                Ok(low as i64)
            } else {
                Err(self.range("offset", value))
            }
        };
        let below = |limit: i64, value: i64| {
            if (0..limit).contains(&value) {
                Ok(value)
            } else {
                Err(self.range("operand", value))
            }
        };
        match (kind, value) {
            (
                Kind::Reg | Kind::PlainReg | Kind::RegOrImm | Kind::Descriptor | Kind::MovDst,
                Value::Reg(reg),
            ) => {
                if kind == Kind::Descriptor && self.inst.mods.mode == Some(Mode::Imm) {
                    return Err(unfit());
                }
                number(reg.0.into())
            }
            (Kind::RegOrImm, Value::Imm(value)) => number(value.into()),
            (Kind::Descriptor, Value::Imm(value)) if self.inst.mods.mode == Some(Mode::Imm) => {
                number(value.into())
            }
            (Kind::MovDst, Value::RelReg(offset)) => number(offset.into()),
            (Kind::Predicate, Value::Reg(reg)) if reg.is_predicate() => {
                number(reg.component().into())
            }
            (Kind::Const, Value::Const(at)) => number(at.into()),
            (Kind::RelReg, Value::RelReg(offset)) | (Kind::RelConst, Value::RelConst(offset)) => {
                self.signed(field, "offset", offset.into())
            }
            (Kind::Fiber, Value::Reg(Reg::A0)) => number(FIBER_A0 as i64),
            (Kind::Fiber, Value::Imm(value)) => number(below(1 << 7, value.into())?),
            (Kind::Branch, Value::Imm(value)) => self.signed(field, "distance", value.into()),
            (Kind::Bits, Value::Imm(value)) => {
                let bits = match self.inst.mods.src_ty {
                    Some(Type::F16) => below(1 << 16, value.into())?,
                    Some(Type::S16) => part_of(16, value.into())?,
                    _ => i64::from(value as u32),
                };
                number(bits)
            }
            (Kind::Store, Value::Imm(value)) => number(below(1 << 8, value.into())?),
            (Kind::Store, Value::A1Const(offset)) => number(i64::from(offset) | 1 << 8),
            (Kind::Any, _) => {
                let bits = match value {
                    Value::Reg(reg) => i64::from(reg.0) | i64::from(operand.last) << 10,
                    Value::RelReg(offset) => 1 << 11 | part_of(10, offset.into())?,
                    Value::RelConst(offset) => 3 << 10 | part_of(10, offset.into())?,
                    Value::Const(at) => 2 << 11 | below(1 << 11, at.into())?,
                    Value::Imm(value) => 4 << 11 | part_of(11, value.into())?,
                    Value::Float(at) if usize::from(at) < FLOATS.len() => {
                        5 << 11 | i64::from(operand.half) << 10 | i64::from(at)
                    }
                    _ => return Err(unfit()),
                };
                number(bits | i64::from(operand.neg) << 14 | i64::from(operand.abs) << 15)
            }
            (Kind::Three(bit), _) => number(match (value, bit) {
                (Value::Reg(reg), _) => i64::from(reg.0) | i64::from(operand.last) << 10,
                (Value::RelReg(offset), _) => 1 << 11 | part_of(10, offset.into())?,
                (Value::RelConst(offset), _) => 3 << 10 | part_of(10, offset.into())?,
                (Value::Const(at), Bit12::Const) => 1 << 12 | below(1 << 11, at.into())?,
                (Value::Imm(value), Bit12::Imm) => 1 << 12 | below(1 << 12, value.into())?,
                _ => return Err(unfit()),
            }),
            _ => Err(unfit()),
        }
    }
}

// --- Instructions --------------------------------------------------------------------------------------------------

struct Unpacker<'a> {
    row: &'a Row,
    word: u64,
}

fn unpack(row: &Row, word: u64) -> Result<Inst, DecodeError> {
    Unpacker { row, word }.inst()
}

impl Unpacker<'_> {
    fn value(&self, field: &'static str, value: u64) -> DecodeError {
        DecodeError::Value {
            word: self.word,
            op: self.row.op,
            field,
            value,
        }
    }

    fn get(&self, slot: Slot) -> u64 {
        self.row.form.get(slot, self.word)
    }

    fn full(&self) -> bool {
        match self.row.form.field(Slot::Full) {
            Some(field) => field.get(self.word) != 0,
            None => self.row.params.full,
        }
    }

    fn inst(&self) -> Result<Inst, DecodeError> {
        let mut inst = Inst::new(self.row.op);
        for &(slot, field) in self.row.form.fields {
            self.modifier(&mut inst, slot, field)?;
        }
        let advances: Vec<bool> = (0..3).map(|n| self.get(Slot::Advances(n)) != 0).collect();
        if self.row.form.nops && inst.repeat == 0 && (advances[0] || advances[1]) {
            inst.nop = u8::from(advances[0]) | u8::from(advances[1]) << 1;
        }
        let mut dsts = [None; 4];
        let mut srcs = [None; 4];
        for &(slot, field) in self.row.form.fields {
            let bits = field.get(self.word);
            match slot {
                Slot::Dst(n, kind, size) => {
                    let mut operand = self.operand(&inst, kind, bits, n)?;
                    operand.half |= self.half(&inst, size, &operand);
                    dsts[usize::from(n)] = Some(operand);
                }
                Slot::Src(n, kind, size) => {
                    let mut operand = self.operand(&inst, kind, bits, n)?;
                    // An integer of category 3 has no size; a float of the table has its own.
                    let sized = match operand.value {
                        Value::Float(_) => false,
                        Value::Imm(_) => kind == Kind::Any,
                        _ => true,
                    };
                    operand.half |= sized && self.half(&inst, size, &operand);
                    operand.neg |= self.get(Slot::Neg(n)) != 0;
                    operand.last |= self.get(Slot::Last(n)) != 0;
                    // Beside (nopN) Mesa shows (r) on the third source of a dot product only.
                    let dot = matches!(inst.op, Op::Dp2acc | Op::Dp4acc);
                    let shown = inst.nop == 0 || (dot && n >= NOP_BITS);
                    operand.advances = shown && advances.get(usize::from(n)) == Some(&true);
                    if kind == Kind::Bits && !self.is_mova(&inst) {
                        // Mesa shows (r) on immediates of mova only.
                        operand.advances = false;
                    }
                    srcs[usize::from(n)] = Some(operand);
                }
                _ => {}
            }
        }
        if self.row.op.category() == 5 {
            self.texture(&mut inst, &mut srcs)?;
        }
        inst.dsts.extend(dsts.into_iter().flatten());
        inst.srcs.extend(srcs.into_iter().flatten());
        Ok(inst)
    }

    fn is_mova(&self, inst: &Inst) -> bool {
        if inst.op != Op::Mov {
            return false;
        }
        let dst = self
            .row
            .form
            .fields
            .iter()
            .find_map(|(slot, field)| match slot {
                Slot::Dst(0, Kind::MovDst, Size::MovTy) => Some(field.get(self.word) as u8),
                _ => None,
            });
        dst.is_some_and(|reg| address_of_mov(inst.mods.ty, inst.mods.src_ty, reg).is_some())
    }

    fn half(&self, inst: &Inst, size: Size, operand: &Operand) -> bool {
        match size {
            Size::Full => false,
            Size::Sources => !self.full(),
            Size::Converted => {
                let small = matches!(operand.value, Value::Reg(reg) if reg < Reg::P0);
                small && self.full() == (self.get(Slot::Conv) != 0)
            }
            Size::Dest => self.get(Slot::DstFull) == 0,
            Size::Ty => inst.mods.ty.is_some_and(Type::is_half),
            Size::MovTy => mov_half(inst.mods.ty) && !self.is_mova(inst),
            Size::MovSrcTy => mov_half(inst.mods.src_ty),
        }
    }

    fn modifier(&self, inst: &mut Inst, slot: Slot, field: Field) -> Result<(), DecodeError> {
        let bits = field.get(self.word);
        let mods = &mut inst.mods;
        match slot {
            Slot::Flag(flag) => inst.flags.set(flag, bits != 0),
            Slot::NotFlag(flag) => inst.flags.set(flag, bits == 0),
            Slot::Repeat if bits > 5 => return Err(self.value("repetition", bits)),
            Slot::Repeat => inst.repeat = bits as u8,
            Slot::Round => {
                mods.round = Round::from_bits(bits).ok_or_else(|| self.value("rounding", bits))?
            }
            Slot::Cond => {
                mods.cond =
                    Some(Cond::from_bits(bits).ok_or_else(|| self.value("condition", bits))?)
            }
            Slot::Ty => {
                mods.ty = Some(Type::from_bits(bits).ok_or_else(|| self.value("type", bits))?)
            }
            Slot::SrcTy => {
                mods.src_ty = Some(Type::from_bits(bits).ok_or_else(|| self.value("type", bits))?)
            }
            Slot::Mask => mods.mask = bits as u8,
            Slot::Dims => mods.dims = bits as u8 + 1,
            Slot::Count => mods.count = bits as u16,
            Slot::CountLessOne => mods.count = bits as u16 + 1,
            Slot::Offset => mods.offset = field.get_signed(self.word) as i32,
            Slot::OffsetLow | Slot::UOffsetLow | Slot::UOffset => mods.offset |= bits as i32,
            Slot::OffsetHigh => mods.offset |= (field.get_signed(self.word) << 8) as i32,
            Slot::UOffsetHigh => mods.offset |= (bits << 5) as i32,
            Slot::Shift if bytes(mods.ty) => {}
            Slot::Shift => mods.shift = bits as u8,
            Slot::Mode => {
                mods.mode = Some(Mode::from_bits(bits).ok_or_else(|| self.value("mode", bits))?)
            }
            Slot::Base if self.get(Slot::Bindless) != 0 => mods.base = Some(bits as u8),
            Slot::Desc => {
                mods.desc =
                    Some(Desc::from_bits(bits).ok_or_else(|| self.value("descriptor", bits))?)
            }
            Slot::Sampler if self.row.params.sampler => mods.sampler = Some(bits as u8),
            Slot::Texture if self.row.params.texture => mods.texture = Some(bits as u8),
            Slot::WidthLog => mods.width = 2 << bits,
            Slot::WidthWords => mods.width = (bits as u16 + 1) * 32,
            Slot::Index => mods.index = bits as u8,
            Slot::Shuffle => {
                mods.shuffle =
                    Some(Shuffle::from_bits(bits).ok_or_else(|| self.value("lane", bits))?)
            }
            // Operands, and what they are made of.
            _ => {}
        }
        Ok(())
    }

    /// The sources of a texture instruction, and what its descriptor says.
    fn texture(&self, inst: &mut Inst, srcs: &mut [Option<Operand>; 4]) -> Result<(), DecodeError> {
        if !self.row.params.typed {
            inst.mods.ty = inst.mods.ty.map(|ty| size_type(ty.is_half()));
        }
        let (form, params) = (self.row.form, self.row.params);
        let mut next = 0;
        let mut push = |bits: u64, half: bool| {
            srcs[next] = Some(Operand {
                half,
                ..Operand::reg(Reg(bits as u8))
            });
            next += 1;
        };
        if params.sources > 0 {
            push(self.get(Slot::TexSrc(0)), !self.full());
        }
        let second = form.field(Slot::TexSrc(1)).is_some();
        if second && (params.sources > 1 || inst.flags.has(Flags::OFFSET)) {
            push(self.get(Slot::TexSrc(1)), !self.full());
        } else if self.get(Slot::HasOffset) != 0 {
            inst.mods.offset = self.get(Slot::TexSrc(1)) as i32;
        }
        let Some(desc) = inst.mods.desc else {
            return Ok(());
        };
        let indices = self.get(Slot::Indices);
        if desc.is_indirect() {
            push(indices, !desc.is_bindless());
        } else if desc.uses_a1() {
            inst.mods.sampler = params.sampler.then_some(indices as u8);
        } else {
            inst.mods.sampler = params.sampler.then_some(indices as u8 & 15);
            inst.mods.texture = params.texture.then_some(indices as u8 >> 4);
        }
        if desc.is_bindless() {
            inst.mods.base = Some((self.get(Slot::BaseHigh) << 1 | self.get(Slot::BaseLow)) as u8);
        }
        Ok(())
    }

    fn operand(&self, inst: &Inst, kind: Kind, bits: u64, n: u8) -> Result<Operand, DecodeError> {
        let reg = Value::Reg(Reg(bits as u8));
        let relative = sign_extend(bits & 0x3ff, 10) as i16;
        let file = |value: u64| {
            if value >> 10 & 1 == 0 {
                Value::RelReg(relative)
            } else {
                Value::RelConst(relative)
            }
        };
        let mut operand = Operand::new(reg);
        operand.value = match kind {
            Kind::Reg | Kind::PlainReg => reg,
            Kind::Predicate => Value::Reg(Reg::p(bits as u8 & 3)),
            Kind::Const => Value::Const(bits as u16),
            Kind::RelReg => Value::RelReg(relative),
            Kind::RelConst => Value::RelConst(relative),
            Kind::MovDst if self.get(Slot::DstRel) != 0 && !self.is_mova(inst) => {
                Value::RelReg(bits as i16)
            }
            Kind::MovDst => reg,
            Kind::Bits => Value::Imm(match inst.mods.src_ty {
                Some(Type::F16) => (bits & 0xffff) as i32,
                Some(Type::S16) => sign_extend(bits & 0xffff, 16) as i32,
                _ => bits as u32 as i32,
            }),
            Kind::RegOrImm if self.get(Slot::IsImm(n)) != 0 => Value::Imm(bits as i32),
            Kind::RegOrImm => reg,
            Kind::Descriptor if inst.mods.mode == Some(Mode::Imm) => Value::Imm(bits as i32),
            Kind::Descriptor => reg,
            Kind::Store if bits >> 8 != 0 => Value::A1Const(bits as u8),
            Kind::Store => Value::Imm(bits as i32),
            Kind::Branch => Value::Imm(bits as u32 as i32),
            Kind::Fiber if bits == FIBER_A0 => Value::Reg(Reg::A0),
            Kind::Fiber if bits < FIBER_A0 => Value::Imm(bits as i32),
            Kind::Fiber => return Err(self.value("fiber", bits)),
            Kind::Any => {
                operand.neg = bits >> 14 & 1 != 0;
                operand.abs = bits >> 15 & 1 != 0;
                match bits >> 11 & 7 {
                    0 if bits >> 8 & 3 == 0 => {
                        operand.last = bits >> 10 & 1 != 0;
                        reg
                    }
                    1 => file(bits),
                    2 | 6 => Value::Const((bits & 0x7ff) as u16),
                    4 => Value::Imm(sign_extend(bits & 0x7ff, 11) as i32),
                    5 if ((bits & 0x3ff) as usize) >= FLOATS.len() => {
                        return Err(self.value("float", bits & 0x3ff));
                    }
                    5 => {
                        operand.half = bits >> 10 & 1 != 0;
                        Value::Float(bits as u8)
                    }
                    _ => return Err(self.value("source", bits)),
                }
            }
            Kind::Three(bit) => match (bits >> 11 & 3, bit) {
                (0, _) if bits >> 8 & 3 == 0 => {
                    operand.last = bits >> 10 & 1 != 0;
                    reg
                }
                (1, _) => file(bits),
                (2, Bit12::Const) => Value::Const((bits & 0x7ff) as u16),
                (2 | 3, Bit12::Imm) => Value::Imm((bits & 0xfff) as i32),
                _ => return Err(self.value("source", bits)),
            },
        };
        Ok(operand)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_bits_are_refused() {
        let mut tried = 0;
        for row in ROWS {
            for at in 0..64 {
                let bit = 1 << at;
                let word = row.fixed.value | bit;
                if row.reserved() & bit == 0 || TABLE.find(word).is_none() {
                    continue;
                }
                let op = row.op;
                let bits = bit;
                assert_eq!(decode(word), Err(DecodeError::Reserved { word, op, bits }));
                tried += 1;
            }
        }
        assert!(tried > 1000, "{tried}");
    }

    /// Random fields of each row, sparse and dense: what is decoded gives the same word, by itself and by its text.
    #[test]
    fn each_row_gives_its_words_back() {
        let mut state = 1u64;
        let mut random = || {
            // A linear congruential generator (Knuth), whose high bits are good.
            let mut half = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                state >> 32
            };
            half() << 32 | half()
        };
        for row in ROWS {
            let fields = row
                .form
                .fields
                .iter()
                .fold(0, |mask, (_, field)| mask | field.mask());
            let mut decoded = 0;
            for n in 0..2000 {
                let sparse = (0..n % 4).fold(u64::MAX, |bits, _| bits & random());
                let word = row.fixed.value | random() & sparse & fields;
                let Ok(inst) = unpack(row, word) else {
                    continue;
                };
                // As the encoder has it.
                let Ok(word) = pack(row, &inst) else {
                    panic!("{inst:?}");
                };
                let Ok(inst) = unpack(row, word) else {
                    panic!("{inst:?} gives {word:016x}");
                };
                assert_eq!(pack(row, &inst), Ok(word), "{inst}");
                if TABLE.find(word).is_some() {
                    assert_eq!(decode(word).as_ref(), Ok(&inst));
                    assert_eq!(encode_any(&inst), Ok(word), "{inst}");
                    decoded += 1;
                }
            }
            assert!(decoded > 200, "{row:?}: {decoded}");
        }
    }
}
