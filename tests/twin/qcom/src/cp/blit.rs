//! The 2D engine: CP_BLIT with BLIT_OP_SCALE copies a rectangle of an image, or fills one.
//!
//! It reads as textures do, and writes into the cache of colours (CCU), which nobody else sees before
//! PC_CCU_FLUSH_COLOR_TS. Modelled are linear images with the same format on both sides, which are not scaled.
//!
//! Source: Mesa, src/freedreno/vulkan/tu_clear_blit.cc, `r2d_setup_common`, `r2d_src_buffer`, `r2d_dst_buffer`,
//! `r2d_coords`, `r2d_run`; src/gallium/drivers/freedreno/a6xx/fd6_blitter.cc, `emit_blit_buffer`, `emit_blit_setup`;
//! src/freedreno/registers/adreno/a6xx.xml.

use drivers_spec::qcom::descriptor::Format;
use twin::rule::{Proof, Rule};
use twin_ir3::memory::{Memory, Path};
use twin_ir3::{Sort, layout};

use crate::memory::view::{PageFault, Via, View, Writes};

use super::Broken;
use super::registers::Registers;

static MISSING: Rule = Rule {
    name: "BLIT-REGISTER-MISSING",
    text: "registers of the 2D engine are written by their context before CP_BLIT",
    source: "Mesa, src/freedreno/vulkan/tu_clear_blit.cc, r2d_setup_common, r2d_coords",
    proof: Proof::Sourced,
};

static MIRROR: Rule = Rule {
    name: "BLIT-MIRROR",
    text: "GRAS_2D_BLIT_CNTL is RB_2D_BLIT_CNTL, whose COLOR_FORMAT is that of RB_2D_DST_INFO and SP_2D_DST_FORMAT",
    source: "Mesa, src/freedreno/vulkan/tu_clear_blit.cc, r2d_setup_common: one value for each",
    proof: Proof::Sourced,
};

static IFMT: Rule = Rule {
    name: "BLIT-IFMT",
    text: "IFMT of RB_2D_BLIT_CNTL is what components of its COLOR_FORMAT are, or R2D_RAW",
    source: "Mesa, src/freedreno/vulkan/tu_clear_blit.cc, format_to_ifmt",
    proof: Proof::Sourced,
};

static ALIGN: Rule = Rule {
    name: "BLIT-ALIGN",
    text: "RB_2D_DST and SP_PS_2D_SRC are multiples of 64 bytes, and so are pitches",
    source: "Mesa, src/freedreno/vulkan/tu_clear_blit.cc, copy_buffer: src_va & 63; a6xx.xml, RB_2D_DST: align 64, \
             pitches: shr 6",
    proof: Proof::Sourced,
};

static RECTANGLE: Rule = Rule {
    name: "BLIT-RECTANGLE",
    text: "a rectangle ends behind its beginning, and that of the source lies within SP_PS_2D_SRC_SIZE",
    source: "Mesa, src/freedreno/vulkan/tu_clear_blit.cc, r2d_coords, r2d_src_buffer",
    proof: Proof::Sourced,
};

static PLAIN: Rule = Rule {
    name: "BLIT-NOT-MODELLED",
    text: "images of CP_BLIT are linear, of one sample, one format and one size on both sides, without swap, sRGB, UBWC \
           and filters; the rectangle is neither turned nor cut",
    source: "this twin: src/cp/blit.rs",
    proof: Proof::Twin,
};

/// Registers, by a6xx.xml.
mod reg {
    pub const GRAS_CNTL: u32 = 0x8400;
    pub const SRC_TL_X: u32 = 0x8401;
    pub const SRC_BR_X: u32 = 0x8402;
    pub const SRC_TL_Y: u32 = 0x8403;
    pub const SRC_BR_Y: u32 = 0x8404;
    pub const DST_TL: u32 = 0x8405;
    pub const DST_BR: u32 = 0x8406;
    pub const RB_CNTL: u32 = 0x8c00;
    pub const DST_INFO: u32 = 0x8c17;
    pub const DST: u32 = 0x8c18;
    pub const DST_PITCH: u32 = 0x8c1a;
    pub const SOLID: u32 = 0x8c2c;
    pub const DST_FORMAT: u32 = 0xacc0;
    pub const SRC_INFO: u32 = 0xb4c0;
    pub const SRC_SIZE: u32 = 0xb4c1;
    pub const SRC: u32 = 0xb4c2;
    pub const SRC_PITCH: u32 = 0xb4c4;
}

/// `a6xx_2d_blit_cntl`: SOLID_COLOR, and what is not modelled: ROTATE, OVERWRITEEN, UNK4, SCISSOR, UNK17, D24S8,
/// RASTER_MODE.
const SOLID_COLOR: u32 = 1 << 7;
const OTHER_CNTL: u32 = 0x200f_007f;
/// MASK of it, and of `a6xx_sp_2d_dst_format`: all components.
const MASK: u32 = 0xf << 20;
/// `a6xx_2d_src_surf_info`, `a6xx_2d_dst_surf_info`: COLOR_FORMAT, and all else but UNK20 and UNK22, which buffers have.
const FORMAT: u32 = 0xff;
const OTHER_INFO: u32 = !(FORMAT | 1 << 20 | 1 << 22);

/// `a6xx_2d_ifmt`.
mod ifmt {
    pub const RAW: u32 = 0;
    pub const FLOAT16: u32 = 3;
    pub const FLOAT32: u32 = 4;
    pub const INT8: u32 = 5;
    pub const INT16: u32 = 6;
    pub const INT32: u32 = 7;
    pub const UNORM8: u32 = 0x10;
}

/// Where rows begin, and how far apart they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rows {
    base: u64,
    pitch: u64,
    x: u64,
    y: u64,
}

impl Rows {
    fn at(&self, row: u64, bytes: u64) -> u64 {
        self.base + (self.y + row) * self.pitch + self.x * bytes
    }
}

/// What the pixels become.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Source {
    Rows(Rows),
    Color(Vec<u8>),
}

/// A rectangle that is copied or filled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blit {
    format: Format,
    width: u64,
    height: u64,
    to: Rows,
    from: Source,
}

/// Registers of the engine.
struct Engine<'a>(&'a Registers);

fn broken<T>(rule: &'static Rule, what: String) -> Result<T, Broken> {
    Err(Broken::new(rule, what))
}

/// What components of a format are to the engine.
fn ifmt_of(format: Format) -> u32 {
    match layout(format) {
        (.., true) => ifmt::UNORM8,
        (Sort::Float, _, 16, _) => ifmt::FLOAT16,
        (Sort::Float, ..) => ifmt::FLOAT32,
        (_, _, 8, _) => ifmt::INT8,
        (_, _, 16, _) => ifmt::INT16,
        _ => ifmt::INT32,
    }
}

/// The lower half of a coordinate is the first one of `a6xx_reg_xy`.
fn xy(word: u32) -> (u64, u64) {
    (u64::from(word & 0x3fff), u64::from(word >> 16 & 0x3fff))
}

impl Engine<'_> {
    fn word(&self, register: u32) -> Result<u32, Broken> {
        let word = self.0.raw(register);
        word.ok_or_else(|| Broken::new(&MISSING, format!("register {register:#x}")))
    }

    fn base(&self, register: u32, pitch: u64) -> Result<u64, Broken> {
        let base = u64::from(self.word(register + 1)?) << 32 | u64::from(self.word(register)?);
        if !base.is_multiple_of(64) || !pitch.is_multiple_of(64) {
            return broken(&ALIGN, format!("{base:#x}, pitch {pitch:#x}"));
        }
        Ok(base)
    }

    /// The format of both sides.
    fn format(&self, cntl: u32) -> Result<Format, Broken> {
        let info = self.word(reg::DST_INFO)?;
        let (number, other) = (cntl >> 8 & 0xff, self.word(reg::DST_FORMAT)?);
        let gras = self.word(reg::GRAS_CNTL)?;
        if gras != cntl || info & FORMAT != number || other >> 3 & 0xff != number {
            let what = format!(
                "RB_2D_BLIT_CNTL {cntl:#x}, GRAS_2D_BLIT_CNTL {gras:#x}, RB_2D_DST_INFO {info:#x}, SP_2D_DST_FORMAT \
                 {other:#x}"
            );
            return broken(&MIRROR, what);
        }
        let plain = info & OTHER_INFO == 0 && cntl & OTHER_CNTL == 0 && cntl & MASK == MASK;
        let format = Format::from_number(number).filter(|_| plain);
        let Some(format) = format else {
            let what = format!("RB_2D_BLIT_CNTL {cntl:#x}, RB_2D_DST_INFO {info:#x}");
            return broken(&PLAIN, what);
        };
        let ifmt = cntl >> 24 & 0x1f;
        match ifmt == ifmt::RAW || ifmt == ifmt_of(format) {
            true => Ok(format),
            false => broken(&IFMT, format!("IFMT {ifmt} of {}", format.name())),
        }
    }

    fn color(&self, format: Format) -> Result<Vec<u8>, Broken> {
        let (_, count, bits, _) = layout(format);
        let mut color = Vec::new();
        for component in 0..count as u32 {
            let word = self.word(reg::SOLID + component)?;
            color.extend(&word.to_le_bytes()[..bits as usize / 8]);
        }
        Ok(color)
    }

    fn source(&self, format: Format, (width, height): (u64, u64)) -> Result<Rows, Broken> {
        let info = self.word(reg::SRC_INFO)?;
        if info & FORMAT != format as u32 || info & OTHER_INFO != 0 {
            return broken(&PLAIN, format!("SP_PS_2D_SRC_INFO {info:#x}"));
        }
        let pitch = u64::from(self.word(reg::SRC_PITCH)? >> 9 & 0x7fff) << 6;
        let size = self.word(reg::SRC_SIZE)?;
        let (columns, rows) = (size & 0x7fff, size >> 15 & 0x7fff);
        // Behind them are 8 bits of a fraction, and a sign before them.
        let corner = |register| {
            self.word(register)
                .map(|word| (word << 7) as i32 >> 15)
                .map(i64::from)
        };
        let (left, right) = (corner(reg::SRC_TL_X)?, corner(reg::SRC_BR_X)?);
        let (top, bottom) = (corner(reg::SRC_TL_Y)?, corner(reg::SRC_BR_Y)?);
        let inside =
            left >= 0 && right < i64::from(columns) && top >= 0 && bottom < i64::from(rows);
        if !inside || right < left || bottom < top {
            let what =
                format!("columns {left} to {right} of {columns}, rows {top} to {bottom} of {rows}");
            return broken(&RECTANGLE, what);
        }
        if (right - left + 1) as u64 != width || (bottom - top + 1) as u64 != height {
            return broken(&PLAIN, format!("{left}..={right} to {width} pixels"));
        }
        Ok(Rows {
            base: self.base(reg::SRC, pitch)?,
            pitch,
            x: left as u64,
            y: top as u64,
        })
    }
}

impl Blit {
    /// What the registers say.
    ///
    /// # Errors
    /// The first rule that they break.
    pub fn of(registers: &Registers) -> Result<Blit, Broken> {
        let engine = Engine(registers);
        let cntl = engine.word(reg::RB_CNTL)?;
        let format = engine.format(cntl)?;
        let (x, y) = xy(engine.word(reg::DST_TL)?);
        let (right, bottom) = xy(engine.word(reg::DST_BR)?);
        if right < x || bottom < y {
            return broken(&RECTANGLE, format!("({x}, {y}) to ({right}, {bottom})"));
        }
        let (width, height) = (right - x + 1, bottom - y + 1);
        let pitch = u64::from(engine.word(reg::DST_PITCH)? & 0xffff) << 6;
        let to = Rows {
            base: engine.base(reg::DST, pitch)?,
            pitch,
            x,
            y,
        };
        let from = match cntl & SOLID_COLOR != 0 {
            true => Source::Color(engine.color(format)?),
            false => Source::Rows(engine.source(format, (width, height))?),
        };
        Ok(Blit {
            format,
            width,
            height,
            to,
            from,
        })
    }

    /// Reads what is copied. What is written comes into the cache of colours.
    ///
    /// # Errors
    /// [`PageFault`].
    pub fn run(&self, view: &mut View<'_>) -> Result<Writes, PageFault> {
        let bytes = u64::from(self.format.bytes());
        let length = (self.width * bytes) as usize;
        let mut writes = Writes::default();
        for row in 0..self.height {
            let data = match &self.from {
                Source::Color(color) => color.repeat(self.width as usize),
                Source::Rows(rows) => {
                    let (at, mut data) = (rows.at(row, bytes), vec![0; length]);
                    let read = view.read(Path::Texture, at, &mut data);
                    read.map_err(|_| view.refused(at, false))?;
                    data
                }
            };
            let at = self.to.at(row, bytes);
            view.probe(at, length)?;
            view.touched.write(at, length);
            writes.push(Via::Colors, at, data);
        }
        Ok(writes)
    }
}

#[cfg(test)]
mod tests {
    use drivers_spec::qcom::chip::Gen;
    use twin::fires::fires;

    use super::*;

    /// A copy of 5 pixels of 32 bits, from the third of a row to the second of another one.
    fn copy() -> Vec<(u32, u32)> {
        let cntl = 0x4b << 8 | MASK | ifmt::INT32 << 24;
        vec![
            (reg::RB_CNTL, cntl),
            (reg::GRAS_CNTL, cntl),
            (reg::DST_FORMAT, 0xf << 12 | 0x4b << 3 | 4),
            (reg::DST_INFO, 0x4b),
            (reg::DST, 0x1000),
            (reg::DST + 1, 1),
            (reg::DST_PITCH, 1),
            (reg::DST_TL, 1),
            (reg::DST_BR, 5),
            (reg::SRC_INFO, 0x4b | 1 << 20 | 1 << 22),
            (reg::SRC_SIZE, 7 | 1 << 15),
            (reg::SRC, 0x2040),
            (reg::SRC + 1, 0),
            (reg::SRC_PITCH, 1 << 9),
            (reg::SRC_TL_X, 2 << 8),
            (reg::SRC_BR_X, 6 << 8),
            (reg::SRC_TL_Y, 0),
            (reg::SRC_BR_Y, 0),
        ]
    }

    fn of(words: &[(u32, u32)]) -> Result<Blit, Broken> {
        let mut registers = Registers::default();
        for (register, value) in words {
            let done = registers.write(Gen::Gen4, *register, *value);
            assert!(done.is_ok(), "{register:#x}");
        }
        Blit::of(&registers)
    }

    fn rule(change: &[(u32, u32)]) -> Vec<&'static str> {
        let mut words = copy();
        words.extend(change);
        let names = of(&words).err().map(|broken| broken.rule.name);
        names.into_iter().collect()
    }

    #[test]
    fn registers_say_what_is_copied() {
        let blit = of(&copy()).map_err(|broken| broken.what).unwrap();
        assert_eq!(
            (blit.width, blit.height, blit.format),
            (5, 1, Format::R32Uint)
        );
        assert_eq!(blit.to.at(0, 4), 0x1_0000_1004);
        let Source::Rows(rows) = blit.from else {
            panic!("a color");
        };
        assert_eq!(rows.at(0, 4), 0x2048);
    }

    #[test]
    fn colors_have_as_many_bytes_as_their_format() {
        let cntl = 0x33 << 8 | MASK | ifmt::INT8 << 24 | SOLID_COLOR;
        let mut words = copy();
        words.extend([(reg::RB_CNTL, cntl), (reg::GRAS_CNTL, cntl)]);
        words.extend([(reg::DST_INFO, 0x33), (reg::DST_FORMAT, 0x33 << 3)]);
        words.extend((0..4).map(|component| (reg::SOLID + component, 0x101 + component)));
        let blit = of(&words).map_err(|broken| broken.what).unwrap();
        assert_eq!(blit.from, Source::Color(vec![1, 2, 3, 4]));
    }

    #[test]
    fn registers_are_checked() {
        fires("BLIT-MIRROR").only(&rule(&[(reg::GRAS_CNTL, 0)]));
        fires("BLIT-MIRROR").only(&rule(&[(reg::DST_INFO, 0x4c)]));
        fires("BLIT-NOT-MODELLED").only(&rule(&[(reg::SRC_INFO, 0x4c)]));
        fires("BLIT-NOT-MODELLED").only(&rule(&[(reg::DST_INFO, 0x34b)]));
        fires("BLIT-NOT-MODELLED").only(&rule(&[(reg::SRC_BR_X, 5 << 8)]));
        fires("BLIT-RECTANGLE").only(&rule(&[(reg::SRC_BR_X, 7 << 8)]));
        fires("BLIT-RECTANGLE").only(&rule(&[(reg::DST_BR, 0)]));
        fires("BLIT-ALIGN").only(&rule(&[(reg::SRC, 0x2050)]));
        let cntl = 0x4b << 8 | MASK | ifmt::FLOAT32 << 24;
        fires("BLIT-IFMT").only(&rule(&[(reg::RB_CNTL, cntl), (reg::GRAS_CNTL, cntl)]));
        let missing = of(&[]).map(drop);
        fires("BLIT-REGISTER-MISSING").only(&[missing.map_err(|b| b.rule.name).unwrap_err()]);
    }
}
