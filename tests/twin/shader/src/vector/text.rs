//! Instructions as LLVM's disassembler prints them.

use std::fmt::{self, Write};

use crate::isa::Gen;

use super::inst::{Extra, Form, Inst, Sdwa};
use super::operand::{Kind, LITERAL, VGPR, inline, scalar_text, source_text, vgpr_text};
use super::table::{Field, flag};

/// Whether a modifier bit may be set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bit {
    /// It changes something.
    Used,
    /// It changes nothing.
    Ignored,
    /// It makes the encoding invalid.
    Reserved,
}

/// What `op_sel` bits of a VOP3 encoding do.
enum OpSel {
    /// Nothing.
    Ignored,
    /// They are printed: as how many numbers, and which bits may be set.
    Printed(usize, u8),
    /// They choose a byte.
    Byte(u8, u8),
    /// They are only to be seen in the halves of registers; which ones may be set.
    Silent(u8),
}

impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().as_deref().unwrap_or("invalid"))
    }
}

/// Whether an operand is a number, and not a register.
fn is_constant(code: u16) -> bool {
    (128..VGPR).contains(&code) && !matches!(code, 230..=239 | 251..=254)
}

/// What LLVM says of an operand that is not of the class that the instruction has there.
fn invalid(generation: Gen, code: u16, class: &str) -> String {
    let null = if matches!(generation, Gen::Rdna3 | Gen::Rdna4) {
        124
    } else {
        125
    };
    // Registers that are no registers pass everywhere.
    let lds = code == 254 && !class.starts_with("VGPR");
    let special = code == null || matches!(code, 230..=239 | 251..=253) || lds;
    if is_constant(code) {
        "/*Invalid immediate*/".into()
    } else if special {
        String::new()
    } else {
        format!("/*Invalid register, operand has '{class}' register class*/")
    }
}

impl Inst {
    fn vcc(&self) -> &'static str {
        match self.generation {
            Gen::Cdna3 => "vcc",
            _ => "vcc_lo",
        }
    }

    fn mask_dwords(&self) -> usize {
        match self.generation {
            Gen::Cdna3 => 2,
            _ => 1,
        }
    }

    /// Whether halves are printed as parts of registers.
    fn true16(&self) -> bool {
        self.generation == Gen::Rdna3 && !self.strays()
    }

    /// Whether `op_sel` has bits of operands that the instruction does not have: LLVM then reads it
    /// as one without halves of registers.
    fn strays(&self) -> bool {
        let row = self.row;
        if self.generation != Gen::Rdna3 || self.form != Form::Long || !row.has_half() {
            return false;
        }
        match self.opsel_bits() {
            OpSel::Printed(_, mask) | OpSel::Silent(mask) => self.opsel & !mask != 0,
            _ => false,
        }
    }

    fn opsel_bits(&self) -> OpSel {
        let row = self.row;
        let sources = row.sources();
        let all = ((1 << sources) - 1) | 8;
        let long_only = !self.has_short();
        match self.generation {
            generation if row.is(flag::PERMLANE) => {
                let _ = generation;
                OpSel::Printed(2, if sources == 3 { 15 } else { 11 })
            }
            _ if row.is(flag::DOT) => OpSel::Printed(4, 15),
            Gen::Rdna4 if row.is(flag::FP8) => match row.dst.map(|d| d.kind) {
                Some(Kind::F32) => OpSel::Byte(0, 3),
                _ => OpSel::Printed(sources + 1, all),
            },
            Gen::Rdna4 if row.is(flag::FP8_SR) => OpSel::Byte(2, 12),
            Gen::Cdna3 if row.is(flag::FP8) && long_only => OpSel::Printed(sources + 1, all),
            Gen::Cdna3 if row.is(flag::FP8_SR) => OpSel::Printed(4, 15),
            Gen::Rdna3 if row.bit_in && row.has_half() => OpSel::Silent(all),
            Gen::Rdna3 if row.compares() && row.has_half() => {
                let dst = !matches!(self.extra, Extra::Dpp(_)) && !row.is(flag::CMPX);
                OpSel::Printed(sources + usize::from(dst), (1 << sources) - 1)
            }
            Gen::Rdna3 if row.has_half() || row.is(flag::OPSEL) => {
                OpSel::Printed(sources + 1 + usize::from(row.old), all)
            }
            _ if row.is(flag::OPSEL) && long_only => OpSel::Printed(sources + 1, all),
            Gen::Rdna2 if row.is(flag::OPSEL_RDNA2) => OpSel::Printed(sources + 1, all),
            _ => OpSel::Ignored,
        }
    }

    fn modifier(&self, i: usize) -> Bit {
        let row = self.row;
        let sources = row.sources();
        let any = row.src.iter().flatten().any(|f| f.modifiers);
        let rdna3_half = self.generation == Gen::Rdna3 && row.has_half() && !self.strays();
        let rdna4_half = self.generation == Gen::Rdna4
            && (row.is(flag::OPSEL)
                || row.is(flag::FP8)
                    && self.row.sources() == 1
                    && row.dst.is_some_and(|d| d.kind.dwords() == 2));
        let sr = row.is(flag::FP8_SR) && self.generation == Gen::Cdna3;
        if i >= sources {
            return if sr { Bit::Ignored } else { Bit::Reserved };
        }
        if row.src[i].is_some_and(|f| f.modifiers) {
            return Bit::Used;
        }
        if row.is(flag::CLASS) {
            let half = row.has_half() && matches!(self.generation, Gen::Rdna3 | Gen::Rdna4);
            return match (half, row.is(flag::CMPX)) {
                (true, _) => Bit::Used,
                (false, true) if self.generation != Gen::Cdna3 => Bit::Ignored,
                (false, _) => Bit::Reserved,
            };
        }
        if any || rdna3_half || rdna4_half || row.old && row.is(flag::CLAMP) {
            Bit::Ignored
        } else {
            Bit::Reserved
        }
    }

    /// Whether the clamp bit may be set.
    fn may_clamp(&self) -> bool {
        let row = self.row;
        let float = row.fields().any(|f| f.float);
        let saturates = matches!(row.lower, super::table::Lower::Lanes(_, Some(_)));
        if row.is(flag::DOT | flag::FP8_SR) {
            return false;
        }
        if row.is(flag::FP8) {
            return self.generation == Gen::Cdna3 && self.has_short();
        }
        if row.is(flag::OPSEL_RDNA2) {
            return self.generation == Gen::Rdna2;
        }
        float || saturates || row.is(flag::CLAMP) || row.dst.is_some_and(|d| d.kind == Kind::B128)
    }

    /// Whether output modifiers may be set.
    fn may_scale(&self) -> bool {
        let row = self.row;
        let float = row.fields().any(|f| f.float);
        if row.is(flag::DOT | flag::FP8_SR | flag::NO_OMOD) || row.dst.is_none() {
            return false;
        }
        if row.is(flag::FP8) {
            return self.generation == Gen::Cdna3 && self.has_short();
        }
        float || row.is(flag::OMOD)
    }

    /// The text; none where the encoding is not valid.
    pub fn text(&self) -> Option<String> {
        let row = self.row;
        let long = self.form == Form::Long;
        if !self.valid_signs() || long && !self.valid_modifiers() {
            return None;
        }
        let mut text = self.name.to_owned();
        text.push_str(match (self.form, &self.extra) {
            _ if row.is(flag::BARE) => "",
            (Form::Short, Extra::Dpp(_)) if row.compares() => "",
            (Form::Short, Extra::Dpp(_)) => "_dpp",
            (Form::Short, Extra::Sdwa(_)) => "_sdwa",
            (Form::Long, Extra::Dpp(_)) => "_e64_dpp",
            (Form::Short, _) if self.has_long() => "_e32",
            (Form::Long, _) if self.has_short() => "_e64",
            _ => "",
        });
        let mut operands = Vec::new();
        self.destinations(&mut operands)?;
        for i in 0..row.sources() {
            operands.push(self.source(i)?);
        }
        if let Some(code) = self.scalar_bits() {
            operands.push(self.mask_source(code)?);
        } else if row.bit_in && self.form == Form::Short {
            let dpp = matches!(self.extra, Extra::Dpp(_));
            let within = self.generation == Gen::Rdna4 && dpp && self.abs & 2 != 0;
            match operands.last_mut() {
                // LLVM puts VCC inside of the bars of the operand before.
                Some(last) if within && row.src[1].is_some_and(|f| f.modifiers) => {
                    last.insert_str(last.len() - 1, ", vcc_lo");
                }
                _ => operands.push(self.vcc().to_owned()),
            }
        }
        if !operands.is_empty() {
            text.push(' ');
            text.push_str(&operands.join(", "));
        }
        if long {
            self.opsel_text(&mut text);
        }
        if self.clamp {
            text.push_str(" clamp");
        }
        text.push_str(["", " mul:2", " mul:4", " div:2"][usize::from(self.omod)]);
        match &self.extra {
            Extra::None => {}
            Extra::Dpp(dpp) => self.dpp_text(dpp, &mut text)?,
            Extra::Sdwa(sdwa) => self.sdwa_text(sdwa, &mut text)?,
        }
        Some(text)
    }

    fn valid_signs(&self) -> bool {
        if let Extra::Sdwa(sdwa) = &self.extra {
            return self.valid_sdwa(sdwa);
        }
        let bits = self.abs | self.neg;
        (0..3).all(|i| bits >> i & 1 == 0 || self.modifier(i) != Bit::Reserved)
    }

    fn valid_sdwa(&self, sdwa: &Sdwa) -> bool {
        let row = self.row;
        let eight = row.is(flag::FP8);
        if eight && sdwa.dst != 6 {
            return false;
        }
        let wide = !eight && row.fields().any(|f| f.kind.dwords() > 1);
        let accumulates = row.old
            && (row.dst.is_none_or(|d| d.kind != Kind::P16) || self.generation != Gen::Cdna3);
        if wide || accumulates || row.is(flag::SHORT | flag::MIDDLE | flag::LAST) {
            return false;
        }
        let scales = row.dst.is_some_and(|d| d.float) || row.is(flag::OMOD);
        if self.omod != 0 && !scales || self.src[..row.sources()].contains(&LITERAL) {
            return false;
        }
        (0..2).all(|i| {
            let signs = (self.abs | self.neg) >> i & 1 != 0;
            match row.src[i] {
                Some(field) if i < row.sources() => {
                    if field.modifiers {
                        !sdwa.sext[i]
                    } else {
                        !signs
                    }
                }
                _ => !signs && !sdwa.sext[i] && sdwa.src[i] == 0,
            }
        })
    }

    fn valid_modifiers(&self) -> bool {
        if self.clamp && !self.may_clamp() || self.omod != 0 && !self.may_scale() {
            return false;
        }
        let sd = self.row.bit_out && self.row.dst.is_some();
        if sd {
            return true;
        }
        match self.opsel_bits() {
            OpSel::Byte(..) if matches!(self.extra, Extra::Dpp(_)) => true,
            OpSel::Byte(_, mask) => self.opsel & !mask == 0,
            OpSel::Printed(_, mask) | OpSel::Silent(mask) => {
                // Only what also exists without halves of registers can have stray bits.
                let fake = !self.row.is(flag::OPSEL) && self.name != "v_mov_b16";
                self.opsel & !mask == 0 || self.generation == Gen::Rdna3 && fake
            }
            OpSel::Ignored => true,
        }
    }

    fn destinations(&self, operands: &mut Vec<String>) -> Option<()> {
        let row = self.row;
        if let Some(field) = row.dst {
            if row.is(flag::TO_SCALAR | flag::SCALAR) {
                let mut text = self.scalar_dst(self.dst, 1)?;
                if row.is(flag::TO_SCALAR) && (self.dst == 254 || self.dst == self.m0()) {
                    text.push_str("/*Invalid register, operand has 'SReg_32_XM0' register class*/");
                }
                if row.is(flag::SCALAR) && matches!(self.dst, 126 | 127 | 254) {
                    text.push_str(
                        "/*Invalid register, operand has 'SReg_32_XEXEC' register class*/",
                    );
                }
                operands.push(text);
            } else {
                let low = self.generation == Gen::Rdna4 && self.form == Form::Short;
                if low && field.kind.is_half() && self.dst >= 128 {
                    return None;
                }
                let mut text = vgpr_text(self.dst, field.kind.dwords());
                if self.true16() && field.kind.is_half() {
                    text.push_str(if self.opsel & 8 != 0 { ".h" } else { ".l" });
                }
                if field.kind.dwords() > 1 && self.misaligned(self.dst) {
                    let bits = 32 * field.kind.dwords();
                    let _ = write!(
                        text,
                        "/*Invalid register, operand has 'VReg_{bits}_Align2' register class*/"
                    );
                }
                operands.push(text);
            }
        }
        if !row.bit_out {
            return Some(());
        }
        let rdna = self.generation != Gen::Cdna3;
        if row.is(flag::CMPX) && rdna {
            // EXEC is the only destination. VOP3 has a field for it, which hardware ignores (LLVM,
            // AMDGPUMCCodeEmitter.cpp, VOPCX): LLVM 15 leaves it 0, later ones name EXEC there.
            return Some(());
        }
        operands.push(self.scalar_dst(self.sdst, self.mask_dwords())?);
        Some(())
    }

    fn scalar_dst(&self, code: u16, dwords: usize) -> Option<String> {
        if code < 128 {
            return scalar_text(self.generation, code, dwords);
        }
        if dwords > 1 {
            return None;
        }
        let same = (128..LITERAL).find(|&c| inline(c, Kind::B32) == Some(u64::from(self.literal)));
        let shown = same.filter(|_| code == LITERAL).unwrap_or(code);
        let text = source_text(self.generation, shown, Kind::B32, self.literal, None)?;
        Some(text + &invalid(self.generation, code, "SReg_32"))
    }

    fn misaligned(&self, register: u16) -> bool {
        self.generation == Gen::Cdna3 && register & 1 != 0
    }

    fn mask_source(&self, code: u16) -> Option<String> {
        if code >= VGPR {
            // LLVM names a VGPR here; it is no place for bits.
            return Some(vgpr_text(code - VGPR, self.mask_dwords()));
        }
        let kind = match self.generation {
            Gen::Cdna3 => Kind::B64,
            _ => Kind::B32,
        };
        let same = (128..LITERAL).find(|&c| inline(c, kind) == Some(u64::from(self.literal)));
        let shown = same.filter(|_| code == LITERAL).unwrap_or(code);
        let mut text = source_text(self.generation, shown, kind, self.literal, None)?;
        if is_constant(code) {
            text.push_str("/*Invalid immediate*/");
        }
        Some(text)
    }

    /// A source with its modifiers.
    fn source(&self, i: usize) -> Option<String> {
        let row = self.row;
        let field = row.src[i]?;
        let code = self.src[i];
        let bit = |bits: u8| bits >> i & 1 != 0;
        let high = (self.true16() && field.kind.is_half()).then_some(bit(self.opsel));
        let constant = row.is(flag::MIDDLE) && i == 1 || row.is(flag::LAST) && i == 2;
        let kind = match self.name {
            // The exponent is printed as if it were a half.
            "v_ldexp_f16" if i == 1 => Kind::F16,
            "v_cndmask_b16" => Kind::B16,
            // Halves of the operand of a shift came with RDNA3.
            "v_alignbit_b32" | "v_alignbyte_b32" | "v_cmp_class_f16" | "v_cmpx_class_f16"
                if field.kind == Kind::B16
                    && matches!(self.generation, Gen::Rdna2 | Gen::Cdna3) =>
            {
                Kind::B32
            }
            "v_cmp_class_f16" | "v_cmpx_class_f16" if i == 1 && self.modifier(1) == Bit::Used => {
                Kind::F16
            }
            // LLVM has halves of a dword where the two bytes are.
            "v_cvt_pk_f32_fp8" | "v_cvt_pk_f32_bf8"
                if code == LITERAL && self.generation == Gen::Rdna4 =>
            {
                Kind::F16
            }
            _ => field.kind,
        };
        // What has to be a VGPR is printed as if it had 32 bits.
        let number = row.is(flag::VGPR_ONLY) && i == 0 || kind == Kind::B128;
        let number = number && is_constant(code);
        let kind = if number { Kind::B32 } else { kind };
        let same = (128..LITERAL).find(|&c| inline(c, kind) == Some(u64::from(self.literal)));
        let code = same.filter(|_| number && code == LITERAL).unwrap_or(code);
        let whole = constant || kind == Kind::Bf16;
        let raw = self.raw_second() && i == 1 && is_constant(code);
        let mut text = if raw {
            source_text(self.generation, code, kind, 0, None)?;
            format!("{code:#x}")
        } else if code == LITERAL && whole {
            format!("{:#x}", self.literal)
        } else {
            source_text(self.generation, code, kind, self.literal, high)?
        };
        if let Some(class) = self.class(i, field) {
            if code == 254 && class == "SReg_32" {
                text.push_str("/*Invalid register, operand has 'SReg_32' register class*/");
            } else {
                text.push_str(&invalid(self.generation, code, &class));
            }
        }
        let used = match self.form {
            Form::Long => self.modifier(i) == Bit::Used,
            Form::Short if matches!(self.extra, Extra::Sdwa(_)) => {
                field.modifiers && field.kind != Kind::P16
            }
            Form::Short => field.modifiers || row.is(flag::CLASS) && self.modifier(i) == Bit::Used,
        };
        if let Extra::Sdwa(sdwa) = &self.extra
            && !field.modifiers
        {
            return Some(if sdwa.sext[i] {
                format!("sext({text})")
            } else {
                text
            });
        }
        let (abs, neg) = (used && bit(self.abs), used && bit(self.neg));
        let constant = (128..VGPR).contains(&code) && !matches!(code, 230..=239 | 251..=254);
        if abs {
            text = format!("|{text}|");
        }
        Some(match (neg, abs, constant) {
            (true, false, true) if !text.starts_with("lit(") => format!("neg({text})"),
            (true, ..) => format!("-{text}"),
            _ => text,
        })
    }

    /// The class of registers that a source should be of, where it is not of it.
    fn class(&self, i: usize, field: Field) -> Option<String> {
        let row = self.row;
        let code = self.src[i];
        let vgpr = code >= VGPR;
        let scalar = row.is(flag::FROM_SCALARS)
            || row.is(flag::TO_SCALAR) && i == 1
            || row.is(flag::SCALAR)
            || row.is(flag::PERMLANE) && i > 0 && row.sources() == 3;
        if scalar {
            let lds = row.is(flag::FROM_SCALARS) && i == 0 && self.generation != Gen::Cdna3;
            let wrong = vgpr || code == 254 && !lds;
            return wrong.then(|| if lds { "SRegOrLds_32" } else { "SReg_32" }.into());
        }
        let every = row.is(flag::PERMLANE) && row.sources() == 2;
        if row.is(flag::VGPR_ONLY) && (i == 0 || every) && !vgpr {
            let lds = row.is(flag::TO_SCALAR);
            return Some(match field.kind.is_half() {
                true => "VGPR_16_Lo128".into(),
                false if lds => "VRegOrLds_32".into(),
                false => "VGPR_32".into(),
            });
        }
        let dpp = matches!(self.extra, Extra::Dpp(_));
        let low = self.generation == Gen::Rdna4 && self.form == Form::Short;
        // Where two bytes are read LLVM has a half of a dword.
        let half = field.kind.is_half()
            || row.is(flag::FP8) && row.dst.is_some_and(|d| d.kind.dwords() == 2);
        if low && half && code >= VGPR + 128 {
            let whole = i == 0 && !dpp;
            return Some(
                if whole {
                    "VS_32_Lo128"
                } else {
                    "VGPR_32_Lo128"
                }
                .into(),
            );
        }
        if field.kind == Kind::B128 && !vgpr {
            let align = if self.generation == Gen::Cdna3 {
                "_Align2"
            } else {
                ""
            };
            return Some(format!("VReg_128{align}"));
        }
        if field.kind.dwords() > 1 && vgpr && self.misaligned(code) {
            let bits = 32 * field.kind.dwords();
            let class = if self.form == Form::Short && (i == 1 || dpp) || bits > 64 {
                "VReg"
            } else {
                "VS"
            };
            return Some(format!("{class}_{bits}_Align2"));
        }
        None
    }

    fn opsel_text(&self, text: &mut String) {
        if self.row.bit_out && self.row.dst.is_some() || self.strays() {
            return;
        }
        match self.opsel_bits() {
            OpSel::Byte(shift, mask) => {
                let bits = (self.opsel & mask) >> shift;
                // The first bit counts two where a source is chosen.
                let byte = if shift == 0 {
                    bits >> 1 | (bits & 1) << 1
                } else {
                    bits
                };
                if byte != 0 {
                    let _ = write!(text, " byte_sel:{byte}");
                }
            }
            OpSel::Printed(count, _) => {
                let row = self.row;
                let mut bits: Vec<u8> = (0..count as u8).map(|i| self.opsel >> i & 1).collect();
                if row.is(flag::DOT) {
                    bits[..2].fill(0);
                } else if !row.is(flag::PERMLANE) && count > row.sources() {
                    bits[count - 1] = self.opsel >> 3;
                }
                if bits.iter().any(|&bit| bit != 0) {
                    let list: Vec<String> = bits.iter().map(u8::to_string).collect();
                    let _ = write!(text, " op_sel:[{}]", list.join(","));
                }
            }
            _ => {}
        }
    }
}
