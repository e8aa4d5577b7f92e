//! VOP3P: fields, decoding, text.

use std::fmt;
use std::sync::LazyLock;

use super::operand::{Class, Operand, Ty};
use super::table::{ACC_MOV, Form, ROWS, Row};
use crate::isa::Gen;
use crate::vector::operand::LITERAL;

/// A VOP3P instruction.
#[derive(Clone, PartialEq, Debug)]
pub struct Vop3p {
    pub(super) generation: Gen,
    /// Its place in [`ROWS`].
    pub(super) row: usize,
    pub(super) dst: Operand,
    pub(super) src: [Operand; 3],
    pub(super) mods: Mods,
    pub(super) dpp: Option<Dpp>,
}

/// The modifiers, one bit per source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Mods {
    pub op_sel: u8,
    pub op_sel_hi: u8,
    pub neg_lo: u8,
    pub neg_hi: u8,
    pub clamp: bool,
}

/// How lanes of the first source are moved (RDNA3 and RDNA4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dpp {
    /// Within groups of 8 lanes; 3 bits per lane, and whether inactive lanes are fetched.
    Eight(u32, bool),
    /// Within rows of 16 lanes: the control word.
    Sixteen(u32),
}

/// Codes of the first source that announce DPP.
const DPP8: u16 = 233;
const DPP8_FI: u16 = 234;
const DPP16: u16 = 250;

/// Rows by generation and opcode.
static INDEX: LazyLock<[[Option<u16>; 128]; 4]> = LazyLock::new(|| {
    let mut index = [[None; 128]; 4];
    for (at, row) in ROWS.iter().enumerate() {
        for (column, op) in row.op.iter().enumerate() {
            if let Some(op) = op {
                index[column][usize::from(*op)] = Some(at as u16);
            }
        }
    }
    index
});

impl Mods {
    fn new(words: &[u32]) -> Self {
        let bits = |word: u32, low: u32| (word >> low & 7) as u8;
        Self {
            op_sel: bits(words[0], 11),
            op_sel_hi: (words[1] >> 27 & 3 | words[0] >> 12 & 4) as u8,
            neg_lo: bits(words[1], 29),
            neg_hi: bits(words[0], 8),
            clamp: words[0] >> 15 & 1 != 0,
        }
    }

    /// Which block of A is broadcast, or which indices are used (CDNA).
    pub fn abid(self) -> usize {
        usize::from(self.op_sel | (self.op_sel_hi & 4) << 1)
    }

    /// Whether the form has these bits.
    fn fit(self, form: Form, sources: usize) -> bool {
        let none = |bits: u8, allowed: u8| bits & !allowed == 0;
        let all = (1 << sources) - 1;
        let Self {
            op_sel,
            op_sel_hi,
            neg_lo,
            neg_hi,
            clamp,
        } = self;
        let (sel, negs) = match form {
            Form::Packed => return none(op_sel | neg_lo | neg_hi, all),
            Form::Wmma3Half => return !clamp,
            Form::Mix | Form::Mfma | Form::MfmaF64 => return true,
            Form::Smfmac => return neg_lo == 0,
            Form::AccMove => return op_sel | neg_lo | neg_hi == 0,
            Form::Dot | Form::Wmma3Int => return op_sel == 0,
            Form::Wmma3 => return op_sel == 0 && !clamp,
            Form::OnlyC | Form::WmmaFp8 => (0, (4, 4, false)),
            Form::Wmma => (0, (7, 7, false)),
            Form::WmmaInt | Form::SwmmacWhole => (0, (3, 0, true)),
            Form::Swmmac => (1, (3, 3, false)),
            Form::SwmmacInt => (1, (3, 0, true)),
            Form::SwmmacFp8 => (1, (0, 0, false)),
        };
        let (lo, hi, may_clamp) = negs;
        none(op_sel, sel)
            && op_sel_hi == 7
            && none(neg_lo, lo)
            && none(neg_hi, hi)
            && (may_clamp || !clamp)
    }
}

impl Vop3p {
    /// `v_accvgpr_mov_b32`: VOP1 opcode 82 of CDNA3.
    pub(super) fn decode_acc_mov(generation: Gen, words: &[u32]) -> Option<(Self, usize)> {
        static ROW: LazyLock<Option<usize>> =
            LazyLock::new(|| ROWS.iter().position(|row| row.name == ACC_MOV));
        let &word = words.first()?;
        if generation != Gen::Cdna3 || word >> 25 != 0x3f || word >> 9 & 0xff != 82 {
            return None;
        }
        let operand = |code| Operand {
            code,
            acc: true,
            words: 1,
            ty: Ty::B32,
            class: Class::Agpr,
            literal: 0,
        };
        let source = operand((word & 0x1ff) as u16);
        source.text(generation)?;
        let inst = Self {
            generation,
            row: (*ROW)?,
            dst: operand(256 + (word >> 17 & 0xff) as u16),
            src: [source; 3],
            mods: Mods::default(),
            dpp: None,
        };
        Some((inst, 1))
    }

    /// Decodes; see [`super::decode`].
    pub(super) fn decode(generation: Gen, words: &[u32]) -> Option<(Self, usize)> {
        let prefix = if generation == Gen::Cdna3 {
            0x1a7
        } else {
            0x198
        };
        let (&first, &second) = (words.first()?, words.get(1)?);
        if first >> 23 != prefix {
            return None;
        }
        let row = INDEX[generation.column()][(first >> 16 & 127) as usize]?;
        let Row {
            dst,
            src,
            ty,
            form,
            name,
            ..
        } = &ROWS[usize::from(row)];
        let mods = Mods::new(words);
        if !mods.fit(*form, src.iter().filter(|&&n| n != 0).count()) {
            return None;
        }
        let mut codes = [0, 9, 18].map(|low| (second >> low & 0x1ff) as u16);
        let mut length = 2;
        let mut dpp = None;
        if matches!(codes[0], DPP8 | DPP8_FI | DPP16) {
            if !ROWS[usize::from(row)].dpp || !matches!(generation, Gen::Rdna3 | Gen::Rdna4) {
                return None;
            }
            let &control = words.get(2)?;
            length = 3;
            dpp = Some(if codes[0] == DPP16 {
                Dpp::Sixteen(control)
            } else {
                Dpp::Eight(control >> 8, codes[0] == DPP8_FI)
            });
            codes[0] = 256 + (control & 0xff) as u16;
        }
        // A source that the instruction does not have reads nothing.
        let uses = |k: usize| src[k] != 0;
        let mut literal = 0;
        if (0..3).any(|k| uses(k) && codes[k] == LITERAL) {
            literal = *words.get(length)?;
            length += 1;
        }
        let acc = form.is_mfma() && mods.clamp;
        let read = *name == "v_accvgpr_read_b32";
        let write = *name == "v_accvgpr_write_b32";
        let of_d = match form {
            Form::Smfmac => Class::Either,
            _ if acc || write => Class::Agpr,
            _ => Class::Vgpr,
        };
        let of_ab = match form {
            _ if form.is_mfma() => Class::Either,
            _ if form.is_matrix() => Class::Vgpr,
            _ if read => Class::Agpr,
            _ => Class::Any,
        };
        let of_b = match form {
            Form::Mix | Form::OnlyC if dpp.is_some() => Class::Vgpr,
            _ => of_ab,
        };
        let of_c = match form {
            _ if form.is_sparse() => Class::Vgpr,
            Form::OnlyC if dpp.is_some() => Class::Vgpr,
            _ if acc => Class::AgprOrConst,
            _ if form.is_matrix() => Class::VgprOrConst,
            _ => Class::Any,
        };
        let operand = |code, words, ty, class, acc| Operand {
            code,
            acc,
            words: usize::from(words),
            ty,
            class,
            literal,
        };
        let acc_ab = |k: usize| read || form.is_mfma() && mods.op_sel_hi >> k & 1 != 0;
        let inst = Self {
            generation,
            row: usize::from(row),
            dst: operand(256 + (first & 0xff) as u16, *dst, ty[1], of_d, acc || write),
            src: [
                operand(codes[0], src[0], ty[0], of_ab, acc_ab(0)),
                operand(codes[1], src[1], ty[0], of_b, acc_ab(1)),
                operand(codes[2], src[2], ty[1], of_c, acc && !form.is_sparse()),
            ],
            mods,
            dpp,
        };
        inst.dst.text(generation)?;
        for source in &inst.src[..inst.sources()] {
            source.text(generation)?;
        }
        Some((inst, length))
    }

    /// Its row.
    pub(super) fn row(&self) -> &'static Row {
        &ROWS[self.row]
    }

    /// How many sources it has.
    pub(super) fn sources(&self) -> usize {
        self.row().src.iter().filter(|&&words| words != 0).count()
    }

    /// Whether a chip has all of it.
    pub(super) fn is_legal(&self) -> bool {
        self.dst.is_legal(self.generation)
            && self.src[..self.sources()]
                .iter()
                .all(|s| s.is_legal(self.generation))
    }
}

impl fmt::Display for Vop3p {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { name, form, .. } = self.row();
        let n = self.sources();
        let Mods {
            op_sel,
            op_sel_hi,
            neg_lo,
            neg_hi,
            clamp,
        } = self.mods;
        write!(
            f,
            "{name}{} ",
            if self.dpp.is_some() { "_e64_dpp" } else { "" }
        )?;
        // Every operand has text: this was asked when it was decoded.
        let text = |operand: &Operand| operand.text(self.generation).unwrap_or_default();
        f.write_str(&text(&self.dst))?;
        for (k, source) in self.src[..n].iter().enumerate() {
            let has = |bits: u8| *form == Form::Mix && bits >> k & 1 != 0;
            let (before, after) = match (has(neg_lo), has(neg_hi)) {
                (false, false) => ("", ""),
                (false, true) => ("|", "|"),
                (true, true) => ("-|", "|"),
                (true, false) if source.is_number() => ("neg(", ")"),
                (true, false) => ("-", ""),
            };
            write!(f, ", {before}{}{after}", text(source))?;
        }
        let all = (1 << n) - 1;
        let list = |f: &mut fmt::Formatter<'_>, name: &str, bits: u8, default: u8| {
            if bits & all == default & all {
                return Ok(());
            }
            let bit = |k: usize| bits >> k & 1;
            match n {
                2 => write!(f, " {name}:[{},{}]", bit(0), bit(1)),
                _ => write!(f, " {name}:[{},{},{}]", bit(0), bit(1), bit(2)),
            }
        };
        match form {
            Form::Packed | Form::Wmma3Half => {
                list(f, "op_sel", op_sel, 0)?;
                list(f, "op_sel_hi", op_sel_hi, 7)?;
            }
            Form::Mix => {
                list(f, "op_sel", op_sel, 0)?;
                list(f, "op_sel_hi", op_sel_hi, 0)?;
            }
            Form::Swmmac | Form::SwmmacInt | Form::SwmmacFp8 if op_sel != 0 => {
                f.write_str(" index_key:1")?;
            }
            _ if form.is_mfma() => {
                for (name, value) in [("cbsz", usize::from(neg_hi)), ("abid", self.mods.abid())] {
                    if value != 0 {
                        write!(f, " {name}:{value}")?;
                    }
                }
                if *form == Form::MfmaF64 {
                    list(f, "neg", neg_lo, 0)?;
                } else if neg_lo != 0 {
                    write!(f, " blgp:{neg_lo}")?;
                }
            }
            _ => {}
        }
        if !form.is_mfma() && *form != Form::Mix {
            list(f, "neg_lo", neg_lo, 0)?;
            list(f, "neg_hi", neg_hi, 0)?;
        }
        if clamp && !form.is_mfma() && *form != Form::AccMove {
            f.write_str(" clamp")?;
        }
        match self.dpp {
            None => Ok(()),
            Some(dpp) => dpp.text(f),
        }
    }
}

impl Dpp {
    fn text(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let control = match self {
            Self::Eight(lanes, inactive) => {
                let lane = |k: u32| lanes >> (3 * k) & 7;
                write!(f, " dpp8:[{}", lane(0))?;
                for k in 1..8 {
                    write!(f, ",{}", lane(k))?;
                }
                return f.write_str(if inactive { "] fi:1" } else { "]" });
            }
            Self::Sixteen(control) => control,
        };
        let what = control >> 8 & 0x1ff;
        let n = what & 15;
        match what {
            0..=0xff => write!(
                f,
                " quad_perm:[{},{},{},{}]",
                what & 3,
                what >> 2 & 3,
                what >> 4 & 3,
                what >> 6
            )?,
            0x101..=0x10f => write!(f, " row_shl:{n}")?,
            0x111..=0x11f => write!(f, " row_shr:{n}")?,
            0x121..=0x12f => write!(f, " row_ror:{n}")?,
            0x130 => f.write_str(" /* wave_shl is not supported starting from GFX10 */")?,
            0x134 => f.write_str(" /* wave_rol is not supported starting from GFX10 */")?,
            0x138 => f.write_str(" /* wave_shr is not supported starting from GFX10 */")?,
            0x13c => f.write_str(" /* wave_ror is not supported starting from GFX10 */")?,
            0x140 => f.write_str(" row_mirror")?,
            0x141 => f.write_str(" row_half_mirror")?,
            0x142 | 0x143 => {
                f.write_str(" /* row_bcast is not supported starting from GFX10 */")?
            }
            0x150..=0x15f => write!(f, " row_share:{n}")?,
            0x160..=0x16f => write!(f, " row_xmask:{n}")?,
            _ => f.write_str(" /* Invalid dpp_ctrl value */")?,
        }
        write!(
            f,
            " row_mask:{:#x} bank_mask:{:#x}",
            control >> 28,
            control >> 24 & 15
        )?;
        f.write_str(if control >> 19 & 1 != 0 {
            " bound_ctrl:1"
        } else {
            ""
        })?;
        f.write_str(if control >> 18 & 1 != 0 { " fi:1" } else { "" })
    }
}
