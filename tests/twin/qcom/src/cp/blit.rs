//! The 2D engine: CP_BLIT with BLIT_OP_SCALE copies a rectangle of an image, or fills one.
//!
//! It reads as textures do, and writes into the cache of colours (CCU), which nobody else sees before
//! PC_CCU_FLUSH_COLOR_TS. Modelled are linear and tiled images with the same format on both sides, which are not scaled.
//!
//! Source: Mesa, src/freedreno/vulkan/tu_clear_blit.cc, `r2d_setup_common`, `r2d_src_buffer`, `r2d_dst_buffer`,
//! `r2d_coords`, `r2d_run`; src/gallium/drivers/freedreno/a6xx/fd6_blitter.cc, `emit_blit_buffer`, `emit_blit_setup`;
//! src/freedreno/registers/adreno/a6xx.xml.

use std::collections::HashMap;

use drivers_spec::qcom::descriptor::Swizzle;
use twin::rule::{Proof, Rule};
use twin_ir3::encode;
use twin_ir3::memory::{Change, Denied, Memory, Path};
use twin_ir3::surface::{Flags, Format, Numbers, PIXEL, Shape, Surface, Tiling};

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
    text: "images of CP_BLIT have one sample, one format and one size on both sides, without sRGB and filters; the \
           rectangle is neither turned nor cut",
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
    pub const DST_FLAGS: u32 = 0x8c20;
    pub const DST_FLAGS_PITCH: u32 = 0x8c22;
    pub const SOLID: u32 = 0x8c2c;
    pub const DST_FORMAT: u32 = 0xacc0;
    pub const SRC_INFO: u32 = 0xb4c0;
    pub const SRC_SIZE: u32 = 0xb4c1;
    pub const SRC: u32 = 0xb4c2;
    pub const SRC_PITCH: u32 = 0xb4c4;
    pub const SRC_FLAGS: u32 = 0xb4ca;
    pub const SRC_FLAGS_PITCH: u32 = 0xb4cc;
}

/// `a6xx_2d_blit_cntl`: SOLID_COLOR, and what is not modelled: ROTATE, OVERWRITEEN, UNK4, SCISSOR, UNK17, D24S8,
/// RASTER_MODE.
const SOLID_COLOR: u32 = 1 << 7;
const OTHER_CNTL: u32 = 0x200f_007f;
/// MASK of it, and of `a6xx_sp_2d_dst_format`: all components.
const MASK: u32 = 0xf << 20;
/// `a6xx_2d_src_surf_info`, `a6xx_2d_dst_surf_info`: COLOR_FORMAT, TILE_MODE, COLOR_SWAP, FLAGS, and all else but UNK20
/// and UNK22, which sources have.
const FORMAT: u32 = 0xff;
const TILE_MODE: u32 = 3 << 8;
const TILE6_3: u32 = 3 << 8;
const SWAP: u32 = 3 << 10;
const FLAGS: u32 = 1 << 12;
const OTHER_INFO: u32 = !(FORMAT | TILE_MODE | SWAP | FLAGS | 1 << 20 | 1 << 22);
/// FLAG_BUFFER_PITCH, in 64 bytes. Gallium's driver has the pitch of layers beside it, as for targets of draws.
const FLAGS_PITCH: u32 = 0xff;

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

/// What the pixels become.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Source {
    /// Those of an image, from a corner on.
    Image(Surface, [u64; 2]),
    /// One colour.
    Color(Vec<u8>),
}

/// A rectangle that is copied or filled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blit {
    width: u64,
    height: u64,
    to: Surface,
    corner: [u64; 2],
    from: Source,
}

/// Registers of the engine, and how its images are tiled.
struct Engine<'a>(&'a Registers, Tiling);

fn broken<T>(rule: &'static Rule, what: String) -> Result<T, Broken> {
    Err(Broken::new(rule, what))
}

/// What components of a format are to the engine.
fn ifmt_of(format: Format) -> u32 {
    match (format.numbers, format.bits) {
        (Numbers::Unorm | Numbers::Snorm, 8) => ifmt::UNORM8,
        (Numbers::Float, 16) => ifmt::FLOAT16,
        (Numbers::Float | Numbers::Unorm | Numbers::Snorm, _) => ifmt::FLOAT32,
        (_, 8) => ifmt::INT8,
        (_, 16) => ifmt::INT16,
        _ => ifmt::INT32,
    }
}

/// The lower half of a coordinate is the first one of `a6xx_reg_xy`.
fn xy(word: u32) -> [u64; 2] {
    [u64::from(word & 0x3fff), u64::from(word >> 16 & 0x3fff)]
}

impl Engine<'_> {
    fn word(&self, register: u32) -> Result<u32, Broken> {
        let word = self.0.raw(register);
        word.ok_or_else(|| Broken::new(&MISSING, format!("register {register:#x}")))
    }

    fn address(&self, register: u32) -> Result<u64, Broken> {
        Ok(u64::from(self.word(register + 1)?) << 32 | u64::from(self.word(register)?))
    }

    /// An image of one layer, by what is said of it, its address, its pitch, and its flags and their pitch.
    fn surface(
        &self,
        format: Format,
        info: u32,
        base: u64,
        pitch: u64,
        flags: [u32; 2],
    ) -> Result<Surface, Broken> {
        if !base.is_multiple_of(64) || !pitch.is_multiple_of(64) {
            return broken(&ALIGN, format!("{base:#x}, pitch {pitch:#x}"));
        }
        let swap = (info & SWAP) >> 10;
        let tiled = match info & TILE_MODE {
            0 => false,
            TILE6_3 => true,
            other => return broken(&PLAIN, format!("tile mode {}", other >> 8)),
        };
        let odd = swap != 0 && (format.count != 4 || tiled) || info & FLAGS != 0 && !tiled;
        if info & OTHER_INFO != 0 || odd {
            return broken(&PLAIN, format!("an image of {info:#x}"));
        }
        let flags = match info & FLAGS != 0 {
            true => Some(Flags {
                base: self.address(flags[0])?,
                pitch: u64::from(self.word(flags[1])? & FLAGS_PITCH) << 6,
                layer: 0,
            }),
            false => None,
        };
        Ok(Surface {
            format,
            swizzle: Swizzle::IDENTITY,
            swap,
            base,
            shape: Shape::Rows {
                size: [u32::MAX, u32::MAX, 1],
                pitch,
                layer: 0,
            },
            tiles: tiled.then_some(self.1),
            flags,
        })
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
        let plain = cntl & OTHER_CNTL == 0 && cntl & MASK == MASK;
        let Some(format) = Format::of(number).filter(|_| plain) else {
            let what = format!("RB_2D_BLIT_CNTL {cntl:#x}, RB_2D_DST_INFO {info:#x}");
            return broken(&PLAIN, what);
        };
        let ifmt = cntl >> 24 & 0x1f;
        match ifmt == ifmt::RAW || ifmt == ifmt_of(format) {
            true => Ok(format),
            false => broken(&IFMT, format!("IFMT {ifmt} of {}", format.name)),
        }
    }

    /// A colour: components as the engine has them, of which fractions of 16 bits are floats.
    fn color(&self, format: Format) -> Result<Vec<u8>, Broken> {
        let mut words = [0; 4];
        for (word, register) in words.iter_mut().zip(reg::SOLID..).take(format.count) {
            *word = self.word(register)?;
        }
        if ifmt_of(format) == ifmt::FLOAT32 {
            let (bytes, count) = encode(format, &words);
            return Ok(bytes[..count].to_vec());
        }
        let components = words.iter().take(format.count);
        let bytes = |word: &u32| {
            word.to_le_bytes()
                .into_iter()
                .take(format.bits as usize / 8)
        };
        Ok(components.flat_map(bytes).collect())
    }

    fn source(&self, format: Format, (width, height): (u64, u64)) -> Result<Source, Broken> {
        let info = self.word(reg::SRC_INFO)?;
        if info & FORMAT != format.number {
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
        let base = self.address(reg::SRC)?;
        let flags = [reg::SRC_FLAGS, reg::SRC_FLAGS_PITCH];
        let surface = self.surface(format, info, base, pitch, flags)?;
        Ok(Source::Image(surface, [left as u64, top as u64]))
    }
}

impl Blit {
    /// What the registers say.
    ///
    /// # Errors
    /// The first rule that they break.
    pub fn of(registers: &Registers, tiling: Tiling) -> Result<Blit, Broken> {
        let engine = Engine(registers, tiling);
        let cntl = engine.word(reg::RB_CNTL)?;
        let format = engine.format(cntl)?;
        let corner @ [x, y] = xy(engine.word(reg::DST_TL)?);
        let [right, bottom] = xy(engine.word(reg::DST_BR)?);
        if right < x || bottom < y {
            return broken(&RECTANGLE, format!("({x}, {y}) to ({right}, {bottom})"));
        }
        let (width, height) = (right - x + 1, bottom - y + 1);
        let pitch = u64::from(engine.word(reg::DST_PITCH)? & 0xffff) << 6;
        let (info, base) = (engine.word(reg::DST_INFO)?, engine.address(reg::DST)?);
        let flags = [reg::DST_FLAGS, reg::DST_FLAGS_PITCH];
        let to = engine.surface(format, info, base, pitch, flags)?;
        let from = match cntl & SOLID_COLOR != 0 {
            true => Source::Color(engine.color(format)?),
            false => engine.source(format, (width, height))?,
        };
        Ok(Blit {
            width,
            height,
            to,
            corner,
            from,
        })
    }

    /// Reads what is copied. What is written comes into the cache of colours.
    ///
    /// # Errors
    /// [`PageFault`].
    pub fn run(&self, view: &mut View<'_>) -> Result<Writes, PageFault> {
        let mut colors = Colors {
            view,
            drawn: HashMap::new(),
        };
        for row in 0..self.height {
            match self.is_linear() {
                true => self.row(&mut colors, row)?,
                false => self.pixels(&mut colors, row)?,
            }
        }
        Ok(colors.writes())
    }

    /// Whether the pixels of a row lie one behind the other on both sides, in the same order.
    fn is_linear(&self) -> bool {
        let plain = |image: &Surface| image.tiles.is_none() && image.swap == 0;
        plain(&self.to)
            && match &self.from {
                Source::Image(image, _) => plain(image),
                Source::Color(_) => true,
            }
    }

    /// A row in one piece.
    fn row(&self, colors: &mut Colors<'_, '_>, row: u64) -> Result<(), PageFault> {
        let length = self.width as usize * self.to.format.bytes();
        let data = match &self.from {
            Source::Color(color) => color.repeat(self.width as usize),
            Source::Image(image, [x, y]) => {
                let (at, mut data) = (image.address([*x, y + row, 0]), vec![0; length]);
                let read = colors.view.read(Path::Texture, at, &mut data);
                read.map_err(|why| colors.refused(at, false, why))?;
                data
            }
        };
        let at = self.to.address([self.corner[0], self.corner[1] + row, 0]);
        let drawn = colors.write(at, &data);
        drawn.map_err(|why| colors.refused(at, true, why))
    }

    /// A row pixel by pixel.
    fn pixels(&self, colors: &mut Colors<'_, '_>, row: u64) -> Result<(), PageFault> {
        for column in 0..self.width {
            let mut pixel = [0; PIXEL];
            let pixel = &mut pixel[..self.to.format.bytes()];
            match &self.from {
                Source::Color(color) => pixel.copy_from_slice(color),
                Source::Image(image, [x, y]) => {
                    let at = [x + column, y + row, 0];
                    let read = image.read(&mut *colors.view, Path::Texture, at, pixel);
                    read.map_err(|why| colors.refused(image.address(at), false, why))?;
                }
            }
            let at = [self.corner[0] + column, self.corner[1] + row, 0];
            let drawn = self.to.write(colors, at, pixel);
            drawn.map_err(|why| colors.refused(self.to.address(at), true, why))?;
        }
        Ok(())
    }
}

/// The cache of colours, while a rectangle is drawn: its own bytes, before those of memory.
struct Colors<'a, 'b> {
    view: &'a mut View<'b>,
    /// Bytes in rows of 64.
    drawn: HashMap<u64, Line>,
}

/// Bytes of a line that were drawn.
#[derive(Clone, Copy)]
struct Line {
    bytes: [u8; LINE],
    which: u64,
}

const LINE: usize = 64;

impl Colors<'_, '_> {
    fn refused(&mut self, at: u64, write: bool, why: Denied) -> PageFault {
        if let Denied::Rule { rule, what } = why {
            let what = format!("{}: {what}", self.view.who);
            self.view.journal.broken(rule, what);
        }
        self.view.refused(at, write)
    }

    /// What was drawn, by addresses.
    fn writes(self) -> Writes {
        let mut lines: Vec<(u64, Line)> = self.drawn.into_iter().collect();
        lines.sort_by_key(|(at, _)| *at);
        let mut writes = Writes::default();
        for (at, line) in lines {
            let mut left = line.which;
            while left != 0 {
                let first = left.trailing_zeros();
                let count = (left >> first).trailing_ones();
                let range = first as usize..(first + count) as usize;
                writes.push(
                    Via::Colors,
                    at + u64::from(first),
                    line.bytes[range].to_vec(),
                );
                left &= !(u64::MAX >> (64 - count) << first);
            }
        }
        writes
    }
}

impl Memory for Colors<'_, '_> {
    /// Flags, which other rectangles may have drawn before.
    fn read(&mut self, _: Path, address: u64, into: &mut [u8]) -> Result<(), Denied> {
        for (at, byte) in (address..).zip(into) {
            let (line, inside) = (at & !(LINE as u64 - 1), at as usize % LINE);
            let own = self
                .drawn
                .get(&line)
                .filter(|line| line.which >> inside & 1 == 1);
            *byte = match (own, self.view.writes.last(Via::Colors, at)) {
                (Some(line), _) => line.bytes[inside],
                (None, Some(earlier)) => earlier,
                (None, None) => {
                    let mut out = [0];
                    let done = self.view.fetch(at, &mut out);
                    done.map_err(|fault| Denied::Unmapped {
                        address: fault.address,
                    })?;
                    out[0]
                }
            };
        }
        Ok(())
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Denied> {
        let probed = self.view.probe(address, from.len());
        probed.map_err(|fault| Denied::Unmapped {
            address: fault.address,
        })?;
        self.view.touched.write(address, from.len());
        let mut done = 0;
        while done < from.len() {
            let at = address + done as u64;
            let inside = at as usize % LINE;
            let count = (LINE - inside).min(from.len() - done);
            let line = self.drawn.entry(at - inside as u64).or_insert(Line {
                bytes: [0; LINE],
                which: 0,
            });
            line.bytes[inside..inside + count].copy_from_slice(&from[done..done + count]);
            line.which |= u64::MAX >> (LINE - count) << inside;
            done += count;
        }
        Ok(())
    }

    /// The engine has none.
    fn atomic(&mut self, address: u64, _: usize, _: Change<'_>) -> Result<u64, Denied> {
        Err(Denied::ReadOnly { address })
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
        Blit::of(&registers, Tiling::default())
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
            (blit.width, blit.height, blit.to.format.name),
            (5, 1, "FMT6_32_UINT")
        );
        assert_eq!(
            (blit.corner, blit.to.address([1, 0, 0])),
            ([1, 0], 0x1_0000_1004)
        );
        let Source::Image(image, corner) = blit.from else {
            panic!("a color");
        };
        assert_eq!((corner, image.address([2, 0, 0])), ([2, 0], 0x2048));
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
    fn fractions_of_16_bits_are_filled_by_floats() {
        let cntl = 0x15 << 8 | MASK | ifmt::FLOAT32 << 24 | SOLID_COLOR;
        let mut words = copy();
        words.extend([(reg::RB_CNTL, cntl), (reg::GRAS_CNTL, cntl)]);
        words.extend([(reg::DST_INFO, 0x15), (reg::DST_FORMAT, 0x15 << 3)]);
        words.push((reg::SOLID, 1f32.to_bits()));
        let blit = of(&words).map_err(|broken| broken.what).unwrap();
        assert_eq!(blit.from, Source::Color(vec![0xff, 0xff]));
    }

    #[test]
    fn images_are_tiled_and_have_flags() {
        let mut words = copy();
        words.extend([(reg::DST_INFO, 0x4b | TILE6_3 | FLAGS), (reg::DST_PITCH, 4)]);
        words.extend([(reg::DST_FLAGS, 0x4000), (reg::DST_FLAGS + 1, 2)]);
        words.push((reg::DST_FLAGS_PITCH, 1));
        let blit = of(&words).map_err(|broken| broken.what).unwrap();
        let flags = Flags {
            base: 0x2_0000_4000,
            pitch: 64,
            layer: 0,
        };
        assert_eq!(blit.to.flags, Some(flags));
        assert_eq!(blit.to.address([0, 1, 0]), 0x1_0000_1008);
    }

    #[test]
    fn registers_are_checked() {
        fires("BLIT-MIRROR").only(&rule(&[(reg::GRAS_CNTL, 0)]));
        fires("BLIT-MIRROR").only(&rule(&[(reg::DST_INFO, 0x4c)]));
        fires("BLIT-NOT-MODELLED").only(&rule(&[(reg::SRC_INFO, 0x4c)]));
        fires("BLIT-NOT-MODELLED").only(&rule(&[(reg::DST_INFO, 0x24b)]));
        fires("BLIT-NOT-MODELLED").only(&rule(&[(reg::DST_INFO, FLAGS | 0x4b)]));
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
