//! The text of an instruction, as Mesa's disassembler prints it.

use std::fmt::{self, Display, Formatter, Write};

use super::code::{TABLE, address_of_mov};
use super::form::{Kind, Piece};
use super::inst::Inst;
use super::modifier::{Flags, Type};
use super::operand::{FLOATS, Operand, Reg, Value};
use super::table::{Op, Row};

/// The row whose form an instruction's text has.
fn row(inst: &Inst) -> Option<&'static Row> {
    let rows = TABLE.rows().iter().filter(|row| row.op == inst.op);
    // Rows of one operation differ in fields, not in text, but for the descriptors of textures.
    let desc = inst.mods.desc.is_some();
    let mut rows = rows.filter(|row| desc == row.form.text.contains(&Piece::Desc));
    rows.next()
}

const PREFIXES: [(Flags, &str); 5] = [
    (Flags::SY, "(sy)"),
    (Flags::SS, "(ss)"),
    (Flags::EQ, "(eq)"),
    (Flags::JP, "(jp)"),
    (Flags::SAT, "(sat)"),
];

const COMPONENTS: [char; 4] = ['x', 'y', 'z', 'w'];

impl Display for Inst {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (flag, text) in PREFIXES {
            if self.flags.has(flag) {
                f.write_str(text)?;
            }
        }
        if self.nop > 0 {
            write!(f, "(nop{}) ", self.nop)?;
        } else if self.repeat > 0 {
            write!(f, "(rpt{})", self.repeat)?;
        }
        if self.flags.has(Flags::UL) {
            f.write_str("(ul)")?;
        }
        f.write_str(mnemonic(self))?;
        let Some(row) = row(self) else {
            return Ok(());
        };
        let printer = Printer { row, inst: self };
        for piece in row.form.text {
            printer.piece(f, *piece)?;
        }
        Ok(())
    }
}

/// The address register that a mov writes, if it is called mova.
fn mova(inst: &Inst) -> Option<Reg> {
    match inst.dsts.first()?.value {
        Value::Reg(reg) if inst.op == Op::Mov => {
            address_of_mov(inst.mods.ty, inst.mods.src_ty, reg.0)
        }
        _ => None,
    }
}

fn mnemonic(inst: &Inst) -> &'static str {
    match mova(inst) {
        Some(Reg::A1) => "mova1",
        Some(_) => "mova",
        None if inst.op == Op::Mov && inst.mods.ty != inst.mods.src_ty => "cov",
        None => inst.op.name(),
    }
}

struct Printer<'a> {
    row: &'static Row,
    inst: &'a Inst,
}

impl Printer<'_> {
    fn piece(&self, f: &mut Formatter<'_>, piece: Piece) -> fmt::Result {
        let inst = self.inst;
        let mods = &inst.mods;
        match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Flag(flag, set, unset) => {
                f.write_str(if inst.flags.has(flag) { set } else { unset })
            }
            Piece::MovTypes if mova(inst).is_some() => Ok(()),
            Piece::MovTypes => write!(f, ".{}{}", name(mods.src_ty), name(mods.ty)),
            Piece::MovDst => match mova(inst) {
                Some(Reg::A1) => f.write_str("a1.x"),
                Some(_) => f.write_str("a0.x"),
                None => self.dst(f, 0),
            },
            Piece::MovSrc => {
                // Mesa has (r) twice for mova, but for immediates.
                let twice = inst.srcs.first().is_some_and(|s| s.advances);
                if twice && mova(inst).is_some() {
                    f.write_str("(r)")?;
                }
                match inst.srcs.first() {
                    Some(src) if src.is_immediate() => self.operand(f, src, Kind::Bits),
                    Some(src) => self.operand(f, src, Kind::Reg),
                    None => Ok(()),
                }
            }
            Piece::Ty => f.write_str(name(mods.ty)),
            Piece::AtomicTy if mods.ty == Some(Type::U8) => f.write_str("u64"),
            Piece::AtomicTy => f.write_str(name(mods.ty)),
            Piece::Cond => f.write_str(mods.cond.map_or("", |cond| cond.text())),
            Piece::Round => f.write_str(mods.round.text()),
            Piece::Dims => write!(f, "{}", mods.dims),
            Piece::Count => write!(f, "{}", mods.count),
            Piece::Width => write!(f, "{}", mods.width),
            Piece::Index => write!(f, "{}", mods.index),
            Piece::Offset if mods.offset == 0 => Ok(()),
            Piece::Offset => write!(f, "{:+}", mods.offset),
            Piece::Number => write!(f, "{}", mods.offset),
            Piece::Mode => f.write_str(mods.mode.map_or("", |mode| mode.text())),
            Piece::Base => self.base(f),
            Piece::Desc => {
                f.write_str(mods.desc.map_or("", |desc| desc.text()))?;
                self.base(f)
            }
            Piece::Shuffle => f.write_str(mods.shuffle.map_or("", |shuffle| shuffle.text())),
            Piece::Dst(n) => self.dst(f, n),
            Piece::Src(n) => self.src(f, n),
            Piece::TexTy => {
                if self.row.params.typed {
                    write!(f, "({})", name(mods.ty))?;
                }
                f.write_char('(')?;
                for (n, component) in COMPONENTS.into_iter().enumerate() {
                    if mods.mask >> n & 1 != 0 {
                        f.write_char(component)?;
                    }
                }
                f.write_char(')')
            }
            Piece::TexSrcs => self.texture(f),
            Piece::Address(n) => self.address(f, n),
        }
    }

    fn base(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.inst.mods.base {
            Some(base) => write!(f, ".base{base}"),
            None => Ok(()),
        }
    }

    fn dst(&self, f: &mut Formatter<'_>, n: u8) -> fmt::Result {
        match self.inst.dsts.get(usize::from(n)) {
            Some(dst) => self.operand(f, dst, self.row.form.dst(n).unwrap_or(Kind::Reg)),
            None => Ok(()),
        }
    }

    fn src(&self, f: &mut Formatter<'_>, n: u8) -> fmt::Result {
        match self.inst.srcs.get(usize::from(n)) {
            Some(src) => self.operand(f, src, self.row.form.src(n).unwrap_or(Kind::Reg)),
            None => Ok(()),
        }
    }

    fn texture(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mods = &self.inst.mods;
        // The last source of an indirect one is the register of indices.
        let indirect = mods.desc.is_some_and(|desc| desc.is_indirect());
        let count = self.inst.srcs.len() - usize::from(indirect && !self.inst.srcs.is_empty());
        for (n, src) in self.inst.srcs.iter().enumerate() {
            if n == count {
                self.offset(f)?;
            }
            f.write_str(", ")?;
            self.operand(f, src, Kind::Reg)?;
        }
        if !indirect {
            self.offset(f)?;
        }
        if let Some(sampler) = mods.sampler {
            write!(f, ", s#{sampler}")?;
        }
        if let Some(texture) = mods.texture {
            write!(f, ", t#{texture}")?;
        }
        if mods.desc.is_some_and(|desc| desc.uses_a1()) {
            f.write_str(", a1.x")?;
        }
        Ok(())
    }

    fn offset(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.piece(f, Piece::Offset)
    }

    fn address(&self, f: &mut Formatter<'_>, n: u8) -> fmt::Result {
        let mods = &self.inst.mods;
        let shift = mods.shift;
        // The index counts elements of the type.
        let of_type = match mods.ty {
            Some(Type::U8 | Type::U8In32) => 0,
            Some(ty) if ty.is_half() => 1,
            _ => 2,
        };
        self.src(f, n)?;
        f.write_char('+')?;
        if of_type == 0 {
            self.src(f, n + 1)?;
            return self.offset(f);
        }
        if mods.offset == 0 {
            f.write_char('(')?;
            self.src(f, n + 1)?;
            return write!(f, "<<{})", of_type + shift);
        }
        f.write_str("((")?;
        if shift == 0 {
            self.src(f, n + 1)?;
        } else {
            f.write_char('(')?;
            self.src(f, n + 1)?;
            write!(f, "<<{shift})")?;
        }
        self.offset(f)?;
        write!(f, ")<<{of_type})")
    }

    fn operand(&self, f: &mut Formatter<'_>, operand: &Operand, kind: Kind) -> fmt::Result {
        // In category 3 it is a part of the source, behind its modifiers.
        let last = if operand.last { "(last)" } else { "" };
        let three = matches!(kind, Kind::Three(_));
        if !three {
            f.write_str(last)?;
        }
        f.write_str(match (kind, operand.neg, operand.abs) {
            (Kind::Predicate, true, _) => "!",
            (_, true, true) => "(absneg)",
            (_, true, false) => "(neg)",
            (_, false, true) => "(abs)",
            _ => "",
        })?;
        if operand.advances {
            f.write_str("(r)")?;
        }
        if three {
            f.write_str(last)?;
        }
        if kind == Kind::Bits {
            return self.bits(f, operand);
        }
        if operand.half {
            f.write_char('h')?;
        }
        let relative = |f: &mut Formatter<'_>, file: char, offset: i16| match offset {
            // Category 3 has no short form.
            0 if !three => write!(f, "{file}<a0.x>"),
            // A minus stands behind the plus.
            _ => write!(f, "{file}<a0.x + {offset}>"),
        };
        match operand.value {
            Value::Reg(reg) => {
                let component = COMPONENTS[usize::from(reg.component())];
                let number = reg.number();
                let plain = matches!(kind, Kind::PlainReg | Kind::RegOrImm | Kind::Descriptor);
                match number {
                    61 if !plain => write!(f, "a0.{component}"),
                    62 if !plain => write!(f, "p0.{component}"),
                    _ => write!(f, "r{number}.{component}"),
                }
            }
            Value::Const(at) => write!(f, "c{}.{}", at >> 2, COMPONENTS[usize::from(at & 3)]),
            Value::RelReg(offset) => relative(f, 'r', offset),
            Value::RelConst(offset) => relative(f, 'c', offset),
            Value::A1Const(0) => f.write_str("a1.x"),
            Value::A1Const(offset) => write!(f, "a1.x+{offset}"),
            Value::Imm(value) if kind == Kind::Branch => write!(f, "#{value}"),
            Value::Imm(value) if operand.half => write!(f, "({value})"),
            Value::Imm(value) => write!(f, "{value}"),
            Value::Float(at) => f.write_str(FLOATS.get(usize::from(at)).copied().unwrap_or("?")),
        }
    }

    /// The immediate of a mov.
    fn bits(&self, f: &mut Formatter<'_>, operand: &Operand) -> fmt::Result {
        let Value::Imm(bits) = operand.value else {
            return Ok(());
        };
        match self.inst.mods.src_ty {
            Some(Type::F16) => {
                let value = half::f16::from_bits(bits as u16);
                write!(f, "h({})", decimal(value.to_f32()))
            }
            Some(Type::F32) => write!(f, "({})", decimal(f32::from_bits(bits as u32))),
            Some(Type::S16 | Type::S32) => write!(f, "{bits}"),
            Some(Type::U32) if bits as u32 > 0x1000 => write!(f, "0x{bits:x}"),
            _ => write!(f, "{}", bits as u32),
        }
    }
}

fn name(ty: Option<Type>) -> &'static str {
    ty.map_or("", Type::text)
}

/// A float as `%f` of C prints it.
fn decimal(value: f32) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_nan() {
        return format!("{sign}nan");
    }
    if value.is_infinite() {
        return format!("{sign}inf");
    }
    format!("{sign}{:.6}", f64::from(value.abs()))
}
