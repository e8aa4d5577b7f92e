//! The text of an instruction, as LLVM's disassembler prints it.

use std::fmt;

use super::decode::saddr_off;
use super::ds_table;
use super::table::{Does, Format, Row};
use super::{Fields, Inst, Op};
use crate::isa::Gen;
use crate::vector::operand::scalar_text;

/// The code of SOFFSET that says that a literal follows.
pub(super) const LITERAL: u8 = 255;

/// The name of `dwords` scalar registers from `code`, or of the constant there.
pub(super) fn scalar_name(generation: Gen, code: u8, dwords: u8) -> Option<String> {
    let single = |name: &str| Some(name.to_owned());
    match code {
        // LLVM has this one, half of which is FLAT_SCRATCH.
        100..=103 if dwords == 4 && generation == Gen::Cdna3 => single("s[100:103]"),
        0..=127 => scalar_text(generation, code.into(), dwords.into()),
        _ if dwords > 1 => None,
        128..=192 => Some((code - 128).to_string()),
        193..=208 => Some(format!("-{}", code - 192)),
        230 => single("src_flat_scratch_base_lo"),
        231 => single("src_flat_scratch_base_hi"),
        235 => single("src_shared_base"),
        236 => single("src_shared_limit"),
        237 => single("src_private_base"),
        238 => single("src_private_limit"),
        239 => single("src_pops_exiting_wave_id"),
        240..=247 => {
            const FLOATS: [&str; 8] = ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0"];
            Some(FLOATS[usize::from(code - 240)].to_owned())
        }
        248 => single("0.15915494"),
        251 => single("src_vccz"),
        252 => single("src_execz"),
        253 => single("src_scc"),
        254 => single("src_lds_direct/*Invalid register, operand has 'SReg_32' register class*/"),
        _ => None,
    }
}

/// `dwords` vector registers. Where the generation wants an even first register, LLVM notes in which
/// class of registers (`class`) an odd one is missing.
struct Vector {
    first: u16,
    dwords: u8,
    class: Option<&'static str>,
}

impl fmt::Display for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = if self.first < 256 { 'v' } else { 'a' };
        let first = self.first % 256;
        if self.dwords == 1 {
            return write!(f, "{letter}{first}");
        }
        let last = first + u16::from(self.dwords) - 1;
        write!(f, "{letter}[{first}:{last}]")?;
        match self.class {
            Some(class) if first % 2 == 1 => invalid(
                f,
                &format!("{class}_{}_Align2", 32 * u16::from(self.dwords)),
            ),
            _ => Ok(()),
        }
    }
}

fn invalid(f: &mut fmt::Formatter<'_>, class: &str) -> fmt::Result {
    write!(
        f,
        "/*Invalid register, operand has '{class}' register class*/"
    )
}

/// Operands, with commas between them.
#[derive(Default)]
struct Operands(Vec<String>);

impl Operands {
    fn push(&mut self, operand: impl fmt::Display) {
        self.0.push(operand.to_string());
    }
}

impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.op {
            Op::Ds(row) => self.ds(f, row),
            Op::Vector(format, row) => {
                write!(f, "{}{}", format.prefix(), row.name(self.generation))?;
                let fields = &self.fields;
                if matches!(row.does, Does::Cache) {
                    if fields.scale_offset {
                        f.write_str(" scale_offset")?;
                    }
                    return self.cache(f, row);
                }
                let operands = match format {
                    Format::Buffer | Format::TypedBuffer => self.buffer(format, row),
                    _ => self.flat(format, row),
                };
                write!(f, " {}", operands.0.join(", "))?;
                if format == Format::TypedBuffer {
                    self.format(f)?;
                }
                for (on, text) in [(fields.idxen, " idxen"), (fields.offen, " offen")] {
                    f.write_str(if on { text } else { "" })?;
                }
                if fields.offset != 0 {
                    write!(f, " offset:{}", fields.offset)?;
                }
                if fields.scale_offset {
                    f.write_str(" scale_offset")?;
                }
                self.cache(f, row)?;
                for (on, text) in [(fields.lds, " lds"), (fields.tfe, " tfe")] {
                    f.write_str(if on { text } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

impl Inst {
    /// Registers of an address.
    fn address(&self, dwords: u8) -> Vector {
        Vector {
            first: self.fields.vaddr,
            dwords,
            class: (self.generation == Gen::Cdna3).then_some("VReg"),
        }
    }

    /// Registers of data. Where an instruction has several, LLVM has a class for each file, and does
    /// not look at AGPRs.
    fn data(&self, first: u16, dwords: u8, several: bool) -> Vector {
        let class = match (several, first < 256) {
            (false, _) => Some("AV"),
            (true, true) => Some("VReg"),
            (true, false) => None,
        };
        Vector {
            first,
            dwords,
            class: class.filter(|_| self.generation == Gen::Cdna3),
        }
    }

    fn ds(&self, f: &mut fmt::Formatter<'_>, row: &ds_table::Row) -> fmt::Result {
        let Fields {
            vdst,
            vaddr,
            vdata,
            vdata1,
            offset,
            gds,
            ..
        } = self.fields;
        let shape = row.does.shape();
        let several = [shape.dst, shape.data[0], shape.data[1]]
            .iter()
            .filter(|&&dwords| dwords > 0)
            .count()
            > 1;
        let vector = |first, dwords| self.data(first, dwords, several);
        let mut operands = Operands::default();
        if shape.dst > 0 {
            operands.push(vector(vdst, shape.dst));
        }
        if shape.addr {
            operands.push(vector(vaddr, 1));
        }
        if shape.data[0] > 0 {
            operands.push(vector(vdata, shape.data[0]));
        }
        if shape.data[1] > 0 {
            operands.push(vector(vdata1, shape.data[1]));
        }
        f.write_str(row.name(self.generation))?;
        if !operands.0.is_empty() {
            write!(f, " {}", operands.0.join(", "))?;
        }
        match row.does {
            ds_table::Does::Swizzle => swizzle(f, offset as u16)?,
            does if does.two_offsets() => {
                for (name, offset) in [("offset0", offset & 255), ("offset1", offset >> 8)] {
                    if offset != 0 {
                        write!(f, " {name}:{offset}")?;
                    }
                }
            }
            _ if offset != 0 => write!(f, " offset:{offset}")?,
            _ => {}
        }
        f.write_str(if gds { " gds" } else { "" })
    }

    fn flat(&self, format: Format, row: &Row) -> Operands {
        let fields = &self.fields;
        let does = row.does;
        let none = fields.saddr == saddr_off(self.generation);
        let mut operands = Operands::default();
        if does.written() > 0 && !fields.lds && (!does.atomic() || self.returns()) {
            operands.push(self.data(fields.vdst, does.written(), does.atomic()));
        }
        match format {
            _ if matches!(does, Does::LoadTid | Does::StoreTid) => {}
            Format::Scratch if !fields.sve => operands.push("off"),
            Format::Scratch => operands.push(self.address(1)),
            _ => operands.push(self.address(if none { 2 } else { 1 })),
        }
        if does.read() > 0 {
            let several = does.atomic() && self.returns();
            operands.push(self.data(fields.vdata, does.read(), several));
        }
        let dwords = if format == Format::Scratch { 1 } else { 2 };
        match scalar_name(self.generation, fields.saddr, dwords) {
            _ if format == Format::Flat => {}
            _ if none => operands.push("off"),
            Some(name) if fields.lds || !excludes(does) => {
                operands.push(name);
            }
            Some(name) => operands.push(name + excluded(self.generation, fields.saddr, dwords)),
            None => {}
        }
        operands
    }

    fn buffer(&self, format: Format, row: &Row) -> Operands {
        let fields = &self.fields;
        let does = row.does;
        let mut operands = Operands::default();
        let data = does.read().max(does.written());
        if !fields.lds {
            operands.push(self.data(fields.vdata, data + u8::from(fields.tfe), false));
        }
        match (fields.idxen, fields.offen) {
            (false, false) => operands.push("off"),
            (true, true) => operands.push(Vector {
                // LLVM does not look at those of typed buffers.
                class: self.address(2).class.filter(|_| format == Format::Buffer),
                ..self.address(2)
            }),
            _ => operands.push(self.address(1)),
        }
        let name = |code, dwords| scalar_name(self.generation, code, dwords).unwrap_or_default();
        operands.push(name(fields.saddr, 4));
        match fields.soffset {
            LITERAL => operands.push(format!("{:#x}", fields.literal)),
            code => operands.push(name(code, 1)),
        }
        operands
    }

    fn cache(&self, f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
        let cache = self.fields.cache;
        if self.generation == Gen::Rdna4 {
            hint(f, cache.th, cache.scope, row)?;
            f.write_str(
                [
                    "",
                    " scope:SCOPE_SE",
                    " scope:SCOPE_DEV",
                    " scope:SCOPE_SYS",
                ][usize::from(cache.scope & 3)],
            )?;
            return f.write_str(if cache.nv { " nv" } else { "" });
        }
        let [glc, slc, dlc] = if self.generation == Gen::Cdna3 {
            [" sc0", " nt", " sc1"]
        } else if matches!(row.does, Does::Cache) {
            return Ok(());
        } else {
            [" glc", " slc", " dlc"]
        };
        let nt = cache.slc && !matches!(row.does, Does::Cache);
        for (on, text) in [(cache.glc, glc), (nt, slc), (cache.dlc, dlc)] {
            f.write_str(if on { text } else { "" })?;
        }
        Ok(())
    }

    fn format(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = self.fields.format;
        match super::format::name(self.generation, format) {
            Some(name) if name.is_empty() => Ok(()),
            Some(name) => write!(f, " format:[{name}]"),
            None => write!(f, " format:{format}"),
        }
    }
}

/// Whether LLVM looks at which SGPRs an operation names: where both a VGPR and data are operands.
fn excludes(does: Does) -> bool {
    !matches!(does, Does::LoadTid | Does::StoreTid | Does::LoadLds(_))
}

/// Registers that LLVM decodes and does not allow.
fn excluded(generation: Gen, code: u8, dwords: u8) -> &'static str {
    match (code, dwords) {
        (126, 2) => "/*Invalid register, operand has 'SReg_64_XEXEC_XNULL' register class*/",
        (127, 1) if generation != Gen::Rdna2 => {
            "/*Invalid register, operand has 'SReg_32_XEXEC_HI' register class*/"
        }
        _ => "",
    }
}

/// Temporal hints of RDNA4.
fn hint(f: &mut fmt::Formatter<'_>, th: u8, scope: u8, row: &Row) -> fmt::Result {
    let system = scope == 3;
    if th == 0 {
        return Ok(());
    }
    if row.does.atomic() {
        let name = match th {
            1 => "RETURN",
            2 => "NT",
            3 => "NT_RETURN",
            4 | 5 if scope >= 2 => "CASCADE_RT",
            6 | 7 if scope >= 2 => "CASCADE_NT",
            _ => return write!(f, " th:TH_ATOMIC_{th:#x}"),
        };
        return write!(f, " th:TH_ATOMIC_{name}");
    }
    let store = row.does.store();
    let name = match th {
        1 => "NT",
        2 => "HT",
        3 if system => "BYPASS",
        3 if store => "WB",
        3 => "LU",
        4 => "NT_RT",
        5 => "RT_NT",
        6 => "NT_HT",
        _ if store => "NT_WB",
        _ => return write!(f, " th:{th:#x}"),
    };
    write!(f, " th:TH_{}_{name}", if store { "STORE" } else { "LOAD" })
}

/// The pattern of `ds_swizzle_b32` (ISA documents, "swizzle"; LLVM's assembler has names for them).
fn swizzle(f: &mut fmt::Formatter<'_>, offset: u16) -> fmt::Result {
    let five = |first: u16| offset >> first & 31;
    if offset == 0 {
        return Ok(());
    }
    f.write_str(" offset:")?;
    match offset {
        0xe000..=0xffff => return write!(f, "swizzle(FFT,{})", five(0)),
        0xc000..=0xdfff => return write!(f, "swizzle(ROTATE,{},{})", offset >> 10 & 1, five(5)),
        0x8000..=0x80ff => {
            let lane = |i: u16| offset >> (2 * i) & 3;
            return write!(
                f,
                "swizzle(QUAD_PERM,{},{},{},{})",
                lane(0),
                lane(1),
                lane(2),
                lane(3)
            );
        }
        0x8100..=0xbfff => return write!(f, "{offset}"),
        _ => {}
    }
    let (and, or, xor) = (five(0), five(5), five(10));
    if and == 31 && or == 0 && xor.is_power_of_two() {
        return write!(f, "swizzle(SWAP,{xor})");
    }
    if and == 31 && or == 0 && xor > 0 && (xor + 1).is_power_of_two() {
        return write!(f, "swizzle(REVERSE,{})", xor + 1);
    }
    let group = 32 - and;
    if group > 1 && group.is_power_of_two() && or < group && xor == 0 {
        return write!(f, "swizzle(BROADCAST,{group},{or})");
    }
    f.write_str("swizzle(BITMASK_PERM,\"")?;
    for bit in (0..5).rev().map(|i| 1 << i) {
        let zero = (or ^ xor) & bit;
        let one = ((and | or) ^ xor) & bit;
        f.write_str(match (zero != 0, one != 0) {
            (false, false) => "0",
            (true, true) => "1",
            (false, true) => "p",
            (true, false) => "i",
        })?;
    }
    f.write_str("\")")
}
