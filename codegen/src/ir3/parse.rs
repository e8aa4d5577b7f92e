//! Instructions from text, as [`Inst`]'s `Display` writes it.
//!
//! Spaces are free around punctuation. Where Mesa's text is not exact, an immediate of a mov may be given by its
//! bits: `(0x3f800001)`, `h(0x3c01)`.

use std::str::FromStr;

use super::code::{TABLE, encode_any, size_type};
use super::form::{Kind, Piece};
use super::inst::{EncodeError, Inst};
use super::modifier::{Cond, Desc, Flags, Mode, Round, Shuffle, Type};
use super::operand::{FLOATS, Operand, Reg, Value};
use super::table::{Op, Row};

/// Why a text is no instruction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Its mnemonic is unknown.
    #[error("{text:?}: unknown mnemonic")]
    Mnemonic {
        /// The text.
        text: String,
    },
    /// It stops making sense somewhere.
    #[error("{text:?}: expected {expected} at character {at}")]
    Syntax {
        /// The text.
        text: String,
        /// Where.
        at: usize,
        /// What could be there.
        expected: &'static str,
    },
    /// It names what has no encoding.
    #[error("{text:?}: {error}")]
    Encode {
        /// The text.
        text: String,
        /// Why not.
        error: EncodeError,
    },
}

/// What was expected at a position from the end of the text.
type Miss = (usize, &'static str);

impl FromStr for Inst {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut start = Cursor { rest: text };
        let mut inst = Inst::new(Op::Nop);
        start
            .prefixes(&mut inst)
            .map_err(|miss| syntax(text, miss))?;
        let word = start.rest;
        let mut known = false;
        let mut furthest: Option<Miss> = None;
        let mut refused = None;
        for row in TABLE.rows() {
            let names: &[&str] = match row.op {
                Op::Mov => &["mov", "cov", "mova1", "mova"],
                _ => &[row.op.name()],
            };
            for name in names {
                let Some(rest) = word.strip_prefix(name) else {
                    continue;
                };
                if rest.starts_with(is_word) {
                    continue;
                }
                known = true;
                let mut inst = inst.clone();
                inst.op = row.op;
                let mut cursor = Cursor { rest };
                match cursor.instruction(row, name, &mut inst) {
                    Err(miss) if furthest.is_none_or(|(left, _)| miss.0 < left) => {
                        furthest = Some(miss)
                    }
                    Err(_) => {}
                    Ok(()) => match encode_any(&inst) {
                        Ok(_) => return Ok(inst),
                        Err(error) => refused = refused.or(Some(error)),
                    },
                }
            }
        }
        match (known, refused, furthest) {
            (true, Some(error), _) => Err(ParseError::Encode {
                text: text.to_owned(),
                error,
            }),
            (true, None, Some(miss)) => Err(syntax(text, miss)),
            _ => Err(ParseError::Mnemonic {
                text: text.to_owned(),
            }),
        }
    }
}

fn syntax(text: &str, (left, expected): Miss) -> ParseError {
    ParseError::Syntax {
        at: text.len() - left,
        text: text.to_owned(),
        expected,
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

struct Cursor<'a> {
    rest: &'a str,
}

type Parsed<T> = Result<T, Miss>;

impl<'a> Cursor<'a> {
    fn miss<T>(&self, expected: &'static str) -> Parsed<T> {
        Err((self.rest.len(), expected))
    }

    fn spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, text: &'static str) -> Parsed<()> {
        for c in text.chars() {
            if c == ' ' || c == ',' {
                self.spaces();
            }
            if c != ' ' && !self.take(c.encode_utf8(&mut [0; 4])) {
                return self.miss(text);
            }
        }
        Ok(())
    }

    /// A text that is not the start of a longer word.
    fn word(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) if !(text.ends_with(is_word) && rest.starts_with(is_word)) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn digits(&mut self) -> Option<&'a str> {
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        if digits.is_empty() {
            return None;
        }
        self.rest = rest;
        Some(digits)
    }

    fn number(&mut self) -> Parsed<i64> {
        let start = self.rest;
        let negative = self.take("-");
        if self.take("0x") {
            let end = self
                .rest
                .find(|c: char| !c.is_ascii_hexdigit())
                .unwrap_or(self.rest.len());
            let (digits, rest) = self.rest.split_at(end);
            if let Ok(value) = u32::from_str_radix(digits, 16) {
                self.rest = rest;
                return Ok(if negative {
                    -i64::from(value)
                } else {
                    value.into()
                });
            }
        } else if let Some(value) = self.digits().and_then(|digits| digits.parse::<u32>().ok()) {
            return Ok(if negative {
                -i64::from(value)
            } else {
                value.into()
            });
        }
        self.rest = start;
        self.miss("a number")
    }

    fn small<T: TryFrom<i64>>(&mut self) -> Parsed<T> {
        let start = self.rest;
        let value = self.number()?;
        T::try_from(value).or_else(|_| {
            self.rest = start;
            self.miss("a smaller number")
        })
    }

    /// The value whose name comes next; of two that do, the longer.
    fn one_of<T: Copy>(
        &mut self,
        all: &[T],
        name: fn(T) -> &'static str,
        expected: &'static str,
    ) -> Parsed<T> {
        let found = all
            .iter()
            .copied()
            .filter(|&v| self.rest.starts_with(name(v)));
        match found.max_by_key(|&v| name(v).len()) {
            Some(value) => {
                self.take(name(value));
                Ok(value)
            }
            None => self.miss(expected),
        }
    }

    fn ty(&mut self) -> Parsed<Type> {
        self.one_of(Type::ALL, Type::text, "a type")
    }

    fn prefixes(&mut self, inst: &mut Inst) -> Parsed<()> {
        let flags = [
            ("(sy)", Flags::SY),
            ("(ss)", Flags::SS),
            ("(eq)", Flags::EQ),
            ("(jp)", Flags::JP),
            ("(sat)", Flags::SAT),
            ("(ul)", Flags::UL),
        ];
        loop {
            self.spaces();
            if let Some((_, flag)) = flags.into_iter().find(|(text, _)| self.take(text)) {
                inst.flags |= flag;
            } else if self.take("(rpt") {
                inst.repeat = self.small()?;
                self.expect(")")?;
            } else if self.take("(nop") {
                inst.nop = self.small()?;
                self.expect(")")?;
            } else {
                return Ok(());
            }
        }
    }

    fn instruction(&mut self, row: &Row, name: &str, inst: &mut Inst) -> Parsed<()> {
        for &piece in row.form.text {
            self.piece(row, name, inst, piece)?;
        }
        self.spaces();
        if !self.rest.is_empty() {
            return self.miss("the end");
        }
        Ok(())
    }

    fn piece(&mut self, row: &Row, name: &str, inst: &mut Inst, piece: Piece) -> Parsed<()> {
        let mova = name.starts_with("mova");
        let mods = &mut inst.mods;
        match piece {
            Piece::Text(text) => self.expect(text)?,
            Piece::Flag(flag, set, unset) => {
                if self.word(set) {
                    inst.flags |= flag;
                } else if !self.word(unset) && !unset.is_empty() {
                    return self.miss(unset);
                }
            }
            Piece::MovTypes if mova => {
                let ty = Some(if name == "mova1" {
                    Type::U16
                } else {
                    Type::S16
                });
                (mods.ty, mods.src_ty) = (ty, ty);
            }
            Piece::MovTypes => {
                self.expect(".")?;
                mods.src_ty = Some(self.ty()?);
                mods.ty = Some(self.ty()?);
                let same = mods.ty == mods.src_ty;
                if (name == "mov" && !same) || (name == "cov" && same) {
                    return self.miss("other types");
                }
            }
            Piece::MovDst if mova => {
                let reg = if name == "mova1" { Reg::A1 } else { Reg::A0 };
                let dst = self.operand(Kind::Reg)?;
                if dst != Operand::reg(reg) {
                    return self.miss("the address register");
                }
                inst.dsts.push(dst);
            }
            Piece::MovDst => {
                let dst = self.operand(Kind::MovDst)?;
                inst.dsts.push(dst);
            }
            Piece::MovSrc => {
                let kind = row.form.src(0).unwrap_or(Kind::Reg);
                let src = if kind == Kind::Bits {
                    self.bits(mods.src_ty)?
                } else {
                    self.operand(kind)?
                };
                inst.srcs.push(src);
            }
            Piece::Ty => mods.ty = Some(self.ty()?),
            Piece::AtomicTy if self.take("u64") => mods.ty = Some(Type::U8),
            Piece::AtomicTy => mods.ty = Some(self.ty()?),
            Piece::Cond => mods.cond = Some(self.one_of(Cond::ALL, Cond::text, "a condition")?),
            Piece::Round => mods.round = self.one_of(Round::ALL, Round::text, "a rounding")?,
            Piece::Dims => mods.dims = self.small()?,
            Piece::Count => mods.count = self.small()?,
            Piece::Width => mods.width = self.small()?,
            Piece::Index => mods.index = self.small()?,
            Piece::Offset => mods.offset = self.offset()?,
            Piece::Number => mods.offset = self.small()?,
            Piece::Mode => mods.mode = Some(self.one_of(Mode::ALL, Mode::text, "a mode")?),
            Piece::Base => mods.base = self.base()?,
            Piece::Desc => {
                let text = self.one_of(Desc::ALL, Desc::text, "a descriptor")?.text();
                mods.base = self.base()?;
                // What reads a1.x says so at the end.
                mods.desc = Some(match (text, mods.base.is_some()) {
                    (".s2en.uniform", false) => Desc::Uniform,
                    (".s2en.uniform", true) => Desc::BindlessUniform,
                    (".s2en.nonuniform", false) => Desc::NonUniform,
                    (".s2en.nonuniform", true) => Desc::BindlessNonUniform,
                    (_, true) => Desc::BindlessImm,
                    (_, false) => return self.miss("a descriptor"),
                });
            }
            Piece::Shuffle => {
                mods.shuffle = Some(self.one_of(Shuffle::ALL, Shuffle::text, "a lane")?)
            }
            Piece::Dst(n) => {
                let dst = self.operand(row.form.dst(n).unwrap_or(Kind::Reg))?;
                inst.dsts.push(dst);
            }
            Piece::Src(n) => {
                let src = self.operand(row.form.src(n).unwrap_or(Kind::Reg))?;
                inst.srcs.push(src);
            }
            Piece::TexTy => self.texture_type(row, inst)?,
            Piece::TexSrcs => self.texture(inst)?,
            Piece::Address(_) => self.address(inst)?,
        }
        Ok(())
    }

    fn offset(&mut self) -> Parsed<i32> {
        self.spaces();
        if self.take("+") {
            self.spaces();
            self.small()
        } else if self.rest.starts_with('-') {
            self.small()
        } else {
            Ok(0)
        }
    }

    fn base(&mut self) -> Parsed<Option<u8>> {
        if !self.take(".base") {
            return Ok(None);
        }
        self.small().map(Some)
    }

    fn texture_type(&mut self, row: &Row, inst: &mut Inst) -> Parsed<()> {
        if row.params.typed {
            self.expect("(")?;
            inst.mods.ty = Some(self.ty()?);
            self.expect(")")?;
        }
        self.expect("(")?;
        for (n, component) in ["x", "y", "z", "w"].into_iter().enumerate() {
            if self.take(component) {
                inst.mods.mask |= 1 << n;
            }
        }
        self.expect(")")?;
        if !row.params.typed {
            // Only the size shows.
            inst.mods.ty = Some(size_type(self.rest.trim_start().starts_with('h')));
        }
        Ok(())
    }

    fn texture(&mut self, inst: &mut Inst) -> Parsed<()> {
        let mods = &mut inst.mods;
        loop {
            self.spaces();
            if self.rest.is_empty() {
                return Ok(());
            }
            self.expect(", ")?;
            if self.take("s#") {
                mods.sampler = Some(self.small()?);
            } else if self.take("t#") {
                mods.texture = Some(self.small()?);
            } else if self.word("a1.x") {
                mods.desc = match mods.desc {
                    Some(Desc::BindlessUniform) => Some(Desc::BindlessA1Uniform),
                    Some(Desc::BindlessNonUniform) => Some(Desc::BindlessA1NonUniform),
                    Some(Desc::BindlessImm) => Some(Desc::BindlessA1Imm),
                    _ => return self.miss("no a1.x"),
                };
            } else {
                inst.srcs.push(self.operand(Kind::Reg)?);
                let offset = self.offset()?;
                if offset != 0 {
                    mods.offset = offset;
                }
            }
        }
    }

    /// An address of ldg.a or stg.a: `a+b+1`, `a+(b<<2)`, `a+((b+1)<<2)` or `a+(((b<<1)+1)<<2)`.
    fn address(&mut self, inst: &mut Inst) -> Parsed<()> {
        let of_type: i64 = match inst.mods.ty {
            Some(Type::U8 | Type::U8In32) => 0,
            Some(ty) if ty.is_half() => 1,
            _ => 2,
        };
        inst.srcs.push(self.operand(Kind::PlainReg)?);
        self.expect("+")?;
        let mut depth = 0;
        while self.take("(") {
            depth += 1;
        }
        inst.srcs.push(self.operand(Kind::Reg)?);
        if depth == 0 {
            inst.mods.offset = self.offset()?;
            return if of_type == 0 {
                Ok(())
            } else {
                self.miss("a shift")
            };
        }
        if depth == 3 {
            self.expect("<<")?;
            inst.mods.shift = self.small()?;
            self.expect(")")?;
        }
        if depth > 1 {
            inst.mods.offset = self.offset()?;
            self.expect(")")?;
        }
        self.expect("<<")?;
        let shift: i64 = self.number()?;
        self.expect(")")?;
        match (depth, u8::try_from(shift - of_type)) {
            (1, Ok(shift)) => inst.mods.shift = shift,
            (2 | 3, Ok(0)) => {}
            _ => return self.miss("the shift of the type"),
        }
        Ok(())
    }

    fn operand(&mut self, kind: Kind) -> Parsed<Operand> {
        self.spaces();
        let mut operand = Operand::new(Value::Imm(0));
        loop {
            if self.take("!") || self.take("(neg)") {
                operand.neg = true;
            } else if self.take("(abs)") {
                operand.abs = true;
            } else if self.take("(absneg)") {
                (operand.neg, operand.abs) = (true, true);
            } else if self.take("(r)") {
                operand.advances = true;
            } else if self.take("(last)") {
                operand.last = true;
            } else {
                break;
            }
        }
        operand.half = self.take("h");
        operand.value = self.operand_value(kind, operand.half)?;
        Ok(operand)
    }

    fn operand_value(&mut self, kind: Kind, half: bool) -> Parsed<Value> {
        if let Ok(at) = self.one_of(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], |n| FLOATS[n], "") {
            return Ok(Value::Float(at as u8));
        }
        if half && self.take("(") {
            let value = self.small()?;
            self.expect(")")?;
            return Ok(Value::Imm(value));
        }
        if kind == Kind::Branch {
            self.expect("#")?;
            return Ok(Value::Imm(self.small()?));
        }
        for (file, relative) in [
            ("r", Value::RelReg as fn(i16) -> Value),
            ("c", Value::RelConst),
        ] {
            let start = self.rest;
            if self.take(file) && self.take("<a0.x") {
                self.spaces();
                let offset = self.offset()?;
                self.spaces();
                self.expect(">")?;
                return match i16::try_from(offset) {
                    Ok(offset) => Ok(relative(offset)),
                    Err(_) => self.miss("a smaller offset"),
                };
            }
            self.rest = start;
        }
        let start = self.rest;
        if kind == Kind::Store && self.take("a1.x") {
            let offset = self.offset()?;
            return match u8::try_from(offset) {
                Ok(offset) => Ok(Value::A1Const(offset)),
                Err(_) => self.miss("a smaller offset"),
            };
        }
        if self.word("a1.x") {
            return Ok(Value::Reg(Reg::A1));
        }
        let files: [(&str, u16, u16); 4] = [
            ("a0.", 61, 61),
            ("p0.", 62, 62),
            ("r", 0, 63),
            ("c", 0, 511),
        ];
        for (file, first, last) in files {
            if !self.take(file) {
                continue;
            }
            let number = if first == last {
                Some(first)
            } else {
                let number = self.digits().and_then(|digits| digits.parse().ok());
                number.filter(|&n| n <= last && self.take("."))
            };
            let component = ["x", "y", "z", "w"].iter().position(|c| self.word(c));
            return match (number, component) {
                (Some(n), Some(component)) if file == "c" => {
                    Ok(Value::Const(n << 2 | component as u16))
                }
                (Some(n), Some(component)) => Ok(Value::Reg(Reg::r(n as u8, component as u8))),
                _ => {
                    self.rest = start;
                    self.miss("a register")
                }
            };
        }
        match self.small() {
            Ok(value) => Ok(Value::Imm(value)),
            Err(_) => self.miss("an operand"),
        }
    }

    /// An immediate of a mov.
    fn bits(&mut self, ty: Option<Type>) -> Parsed<Operand> {
        self.spaces();
        let mut operand = Operand::imm(0);
        while self.take("(r)") {
            operand.advances = true;
        }
        let bits = match ty {
            Some(ty @ (Type::F16 | Type::F32)) => {
                if ty == Type::F16 {
                    self.expect("h")?;
                }
                self.expect("(")?;
                let bits = if self.rest.starts_with("0x") {
                    self.number()?
                } else {
                    let end = self.rest.find(')').unwrap_or(0);
                    let Ok(value) = self.rest[..end].trim().parse::<f32>() else {
                        return self.miss("a float");
                    };
                    self.rest = &self.rest[end..];
                    if ty == Type::F16 {
                        half::f16::from_f32(value).to_bits().into()
                    } else {
                        value.to_bits().into()
                    }
                };
                self.expect(")")?;
                bits
            }
            _ => self.number()?,
        };
        let limits = -i64::from(1u32 << 31)..1 << 32;
        if !limits.contains(&bits) {
            return self.miss("32 bits");
        }
        operand.value = Value::Imm(bits as u32 as i32);
        Ok(operand)
    }
}
