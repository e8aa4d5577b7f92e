//! Operands: their codes, their text as LLVM prints it, and how their lanes are fetched.
//!
//! The codes are those of the ISA documents' "scalar operands" and of the 9 bit source fields:
//! 0 to 127 scalar registers, 128 to 254 constants, 255 a literal, 256 and up VGPRs.

use crate::isa::Gen;
use crate::wave::{Lanes, Wave};

/// What an operand holds: decides how wide it is, which value an inline constant has, and how a
/// constant is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// 16 bits of an integer.
    B16,
    /// Half precision.
    F16,
    /// Brain float.
    Bf16,
    /// Two halves.
    P16,
    /// Two brain floats.
    PBf16,
    /// 32 bits of an integer.
    B32,
    /// Single precision.
    F32,
    /// 64 bits of an integer.
    B64,
    /// 128 bits.
    B128,
    /// Double precision.
    F64,
}

impl Kind {
    /// How many dwords it takes.
    pub const fn dwords(self) -> usize {
        match self {
            Self::B64 | Self::F64 => 2,
            Self::B128 => 4,
            _ => 1,
        }
    }

    /// Whether it takes half of a dword.
    pub const fn is_half(self) -> bool {
        matches!(self, Self::B16 | Self::F16 | Self::Bf16)
    }
}

/// The code of a literal.
pub const LITERAL: u16 = 255;

/// The first VGPR.
pub const VGPR: u16 = 256;

/// The bits of 0.5, 1, 2, 4 and 1 / (2 pi) by format: f16, bf16, f32, f64.
const FLOATS: [[u64; 5]; 4] = [
    [0x3800, 0x3c00, 0x4000, 0x4400, 0x3118],
    [0x3f00, 0x3f80, 0x4000, 0x4080, 0x3e22],
    [
        0x3f00_0000,
        0x3f80_0000,
        0x4000_0000,
        0x4080_0000,
        0x3e22_f983,
    ],
    [
        0x3fe0_0000_0000_0000,
        0x3ff0_0000_0000_0000,
        0x4000_0000_0000_0000,
        0x4010_0000_0000_0000,
        0x3fc4_5f30_6dc9_c882,
    ],
];

/// The value of an inline constant, in the low bits; none where `code` is something else. A 32 bit
/// integer operand sees the bits of the 32 bit float, a 16 bit one those of the f16, a 64 bit one
/// those of the f64 (ISA documents, "constant operands").
pub fn inline(code: u16, kind: Kind) -> Option<u64> {
    let wide = match code {
        128..=192 => u64::from(code - 128),
        193..=208 => (192 - i64::from(code)) as u64,
        240..=248 => {
            let (row, sign) = match kind {
                Kind::B16 | Kind::F16 | Kind::P16 => (0, 15),
                Kind::Bf16 | Kind::PBf16 => (1, 15),
                Kind::B32 | Kind::F32 => (2, 31),
                Kind::B64 | Kind::F64 | Kind::B128 => (3, 63),
            };
            let i = code - 240;
            let bits = FLOATS[row][usize::from(i / 2)];
            bits | u64::from(i % 2) << sign
        }
        _ => return None,
    };
    Some(match kind.dwords() {
        2 | 4 => wide,
        _ if kind.is_half() => wide & 0xffff,
        _ => wide & 0xffff_ffff,
    })
}

/// The value of a literal: an f64 has its high half there, other 64 bit operands extend it
/// (`signed`: with its sign).
pub fn literal(literal: u32, kind: Kind, signed: bool) -> u64 {
    match kind {
        Kind::F64 => u64::from(literal) << 32,
        Kind::B64 if signed => i64::from(literal as i32) as u64,
        _ if kind.is_half() => u64::from(literal & 0xffff),
        _ => u64::from(literal),
    }
}

/// The text of the scalar register at `code` below 128, or of `dwords` of them from there; none
/// where that is no register of the generation. The first of a pair is taken as even, as LLVM does.
pub fn scalar_text(generation: Gen, code: u16, dwords: usize) -> Option<String> {
    let cdna = generation == Gen::Cdna3;
    let special = |name: &str| match (code & 1, dwords) {
        (half, 1) => Some(format!("{name}_{}", ["lo", "hi"][usize::from(half)])),
        (0, 2) => Some(name.to_owned()),
        _ => None,
    };
    let file = |name: &str, first: u16, end: u16| {
        let n = code - first;
        if dwords == 1 {
            return Some(format!("{name}{n}"));
        }
        let n = if dwords == 2 { n & !1 } else { n & !3 };
        let last = n + dwords as u16 - 1;
        // Of four LLVM does not ask how many there are.
        (first + last < end || first == 0 && dwords == 4 && last < 106)
            .then(|| format!("{name}[{n}:{last}]"))
    };
    match code {
        102 | 103 if cdna => special("flat_scratch"),
        104 | 105 if cdna => special("xnack_mask"),
        0..=105 => file("s", 0, if cdna { 102 } else { 106 }),
        106 | 107 => special("vcc"),
        108..=123 => file("ttmp", 108, 124),
        124 | 125 => {
            let m0 = match generation {
                Gen::Rdna2 | Gen::Cdna3 => 124,
                Gen::Rdna3 | Gen::Rdna4 => 125,
            };
            match (code == m0, dwords) {
                (false, _) => Some("null".to_owned()),
                (true, 1) => Some("m0".to_owned()),
                _ => None,
            }
        }
        126 | 127 => special("exec"),
        _ => None,
    }
}

/// The text of `dwords` VGPRs from `register`.
pub fn vgpr_text(register: u16, dwords: usize) -> String {
    if dwords == 1 {
        format!("v{register}")
    } else {
        format!("v[{register}:{}]", usize::from(register) + dwords - 1)
    }
}

/// The text of a source operand without modifiers; none where the generation has no such code.
/// `high` is the half of a VGPR that a 16 bit operand reads, where that is printed.
pub fn source_text(
    generation: Gen,
    code: u16,
    kind: Kind,
    literal: u32,
    high: Option<bool>,
) -> Option<String> {
    let dwords = kind.dwords();
    Some(match code {
        230..=239 | 251..=253 if dwords > 2 => return None,
        0..=127 => scalar_text(generation, code, dwords)?,
        128..=192 => (code - 128).to_string(),
        193..=208 => (192 - i32::from(code)).to_string(),
        230 => "src_flat_scratch_base_lo".into(),
        231 if dwords == 1 => "src_flat_scratch_base_hi".into(),
        235 => "src_shared_base".into(),
        236 => "src_shared_limit".into(),
        237 => "src_private_base".into(),
        238 => "src_private_limit".into(),
        239 => "src_pops_exiting_wave_id".into(),
        // A float is not a number that a 16 bit integer can be written as.
        240..=248 if kind == Kind::B16 => format!("{:#x}", inline(code, kind)?),
        248 if dwords == 2 => "0.15915494309189532".into(),
        248 => "0.15915494".into(),
        240..=247 => {
            let names = ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0"];
            names[usize::from(code - 240)].into()
        }
        251 => "src_vccz".into(),
        252 => "src_execz".into(),
        253 => "src_scc".into(),
        254 if dwords == 1 => "src_lds_direct".into(),
        LITERAL => literal_text(literal, kind),
        256..=511 => {
            let mut text = vgpr_text(code - VGPR, dwords);
            if let Some(high) = high {
                text.push_str(if high { ".h" } else { ".l" });
            }
            text
        }
        _ => return None,
    })
}

/// The text of a literal. One that could have been an inline constant is marked, as otherwise it would
/// not assemble to the same encoding.
pub fn literal_text(literal: u32, kind: Kind) -> String {
    let small = |x: i64| (-16..=64).contains(&x);
    let float = |kind: Kind, bits: u64| (240..=248).find(|&code| inline(code, kind) == Some(bits));
    let short = matches!(kind, Kind::F16 | Kind::Bf16);
    let marked = match kind {
        Kind::F64 => {
            // LLVM has the number itself here.
            let code = float(kind, u64::from(literal) << 32);
            let code = if literal == 0 { Some(128) } else { code };
            return code
                .and_then(|code| source_text(Gen::Rdna3, code, kind, 0, None))
                .unwrap_or_else(|| format!("{literal:#x}"));
        }
        Kind::B64 | Kind::B128 => small(i64::from(literal)),
        Kind::P16 => small(i64::from(literal as i32)) || float(kind, u64::from(literal)).is_some(),
        _ if short => {
            small(i64::from(literal as i16)) || float(kind, u64::from(literal & 0xffff)).is_some()
        }
        _ => small(i64::from(literal as i32)) || float(Kind::B32, u64::from(literal)).is_some(),
    };
    if marked {
        format!("lit({literal:#x})")
    } else if kind.is_half() {
        format!("{:#x}", literal & 0xffff)
    } else {
        format!("{literal:#x}")
    }
}

/// A source, resolved.
#[derive(Clone, Debug)]
pub enum Source {
    /// There is none.
    None,
    /// A VGPR, or two from there.
    Vgpr(usize),
    /// A scalar operand below 128, or two from there.
    Scalar(u16),
    /// The same in each lane: low and high dwords.
    Constant(Box<[Lanes; 2]>),
    /// What `src_vccz` and the like say now.
    Special(u16),
}

impl Source {
    /// The source at `code`.
    pub fn new(generation: Gen, code: u16, kind: Kind, literal_bits: u32) -> Self {
        let constant =
            |bits: u64| Self::Constant(Box::new([[bits as u32; 32], [(bits >> 32) as u32; 32]]));
        let null = match generation {
            Gen::Rdna2 => 125,
            Gen::Rdna3 | Gen::Rdna4 => 124,
            Gen::Cdna3 => 0xffff,
        };
        match code {
            256.. => Self::Vgpr(usize::from(code - VGPR)),
            LITERAL => constant(literal(literal_bits, kind, false)),
            _ if code == null => constant(0),
            // Pairs start at an even register: the lowest bit of the code is not there in hardware.
            0..=127 => Self::Scalar(if kind.dwords() == 2 { code & !1 } else { code }),
            _ => match inline(code, kind) {
                Some(bits) => constant(bits),
                None => Self::Special(code),
            },
        }
    }

    /// The lanes of one half of the wave: see [`Source::fetch`].
    #[inline(always)]
    pub fn lanes<'a, const WIDE: bool>(
        &'a self,
        wave: &'a Wave,
        half: usize,
        room: &'a mut [Lanes; 2],
    ) -> [&'a Lanes; 2] {
        self.fetch(wave, half, WIDE, room)
    }

    /// The lanes of one half of the wave: low and high dwords, the latter where `wide`. `room` is used where they do not lie
    /// anywhere as lanes.
    #[inline(always)]
    pub fn fetch<'a>(
        &'a self,
        wave: &'a Wave,
        half: usize,
        wide: bool,
        room: &'a mut [Lanes; 2],
    ) -> [&'a Lanes; 2] {
        let splat = match self {
            Self::Vgpr(r) => {
                let low = wave.vgpr(*r, half);
                let high = if wide { wave.vgpr(r + 1, half) } else { low };
                return [low, high];
            }
            Self::Constant(lanes) => return [&lanes[0], &lanes[1]],
            Self::None => return [&ZERO, &ZERO],
            Self::Scalar(code) => {
                let high = if wide { wave.scalar(code + 1) } else { 0 };
                [wave.scalar(*code), high]
            }
            Self::Special(code) => {
                let value = special(wave, *code);
                [value as u32, (value >> 32) as u32]
            }
        };
        room[0] = [splat[0]; 32];
        if wide {
            room[1] = [splat[1]; 32];
        }
        [&room[0], &room[1]]
    }
}

static ZERO: Lanes = [0; 32];

/// The value of a source that is neither register nor constant. An aperture is 64 bits wide with its
/// base in the high half, which a 32 bit operand does not see (LLVM, `SIRegisterInfo.td`).
pub fn special(wave: &Wave, code: u16) -> u64 {
    let base = |high: u32| u64::from(high) << 32;
    match code {
        230 => wave.place.scratch,
        231 => wave.place.scratch >> 32,
        235 => base(wave.place.shared_aperture),
        236 => base(wave.place.shared_aperture) | 0xffff_ffff,
        237 => base(wave.place.private_aperture),
        238 => base(wave.place.private_aperture) | 0xffff_ffff,
        251 => u64::from(wave.vcc() & lanes_of(wave) == 0),
        252 => u64::from(wave.exec == 0),
        253 => u64::from(wave.scc),
        _ => 0,
    }
}

/// A bit per lane that the wave has.
pub fn lanes_of(wave: &Wave) -> u64 {
    if wave.halves == 1 {
        0xffff_ffff
    } else {
        u64::MAX
    }
}
