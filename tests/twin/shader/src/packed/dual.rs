//! VOPD: two instructions at once, in waves of 32 lanes.
//!
//! Source: RDNA3 ISA, 7.6 "Dual Issue VALU" and 16.5 "VOPD"; RDNA4 ISA, the same chapters.

use std::fmt;

use smallvec::SmallVec;
use twin::rule::{Proof, Rule};

use super::formats::Element;
use super::lower::reserved;
use super::mode::Mode;
use super::operand::{Class, Operand, Ty};
use super::singles::{self, dot2acc};
use crate::isa::Gen;
use crate::simd::{self, Kernel};
use crate::step::{File, Flow, Regs, Step, Stop};
use crate::vector::lanes::blend;
use crate::vector::operand::{LITERAL, Source};
use crate::wave::{Lanes, Wave};

/// Waves of 64 lanes have no dual issue.
static VOPD_WAVE32: Rule = Rule {
    name: "VOPD-WAVE32",
    text: "dual issue requires waves of 32 lanes",
    source: "RDNA3 ISA, 7.6",
    proof: Proof::Sourced,
};

/// Each bank of VGPRs is read once for each of the source slots.
static VOPD_BANKS: Rule = Rule {
    name: "VOPD-BANKS",
    text: "the two halves read VGPRs of different banks: the first sources modulo 4, the second sources modulo 4, the \
           third ones modulo 2",
    source: "RDNA3 ISA, 7.6, \"VOPD restrictions\"; LLVM, GCNVOPDUtils.cpp",
    proof: Proof::Sourced,
};

/// The scalar values that one VOPD reads.
static VOPD_SCALARS: Rule = Rule {
    name: "VOPD-SCALARS",
    text: "the two halves together read at most two scalar registers and literals",
    source: "RDNA3 ISA, 7.6, \"VOPD restrictions\"; LLVM, GCNVOPDUtils.cpp",
    proof: Proof::Sourced,
};

/// What a half does: sources to results, which are written over whatever is there.
type Half = fn(&Sources, &mut Lanes);

struct Sources<'a> {
    a: &'a Lanes,
    b: &'a Lanes,
    /// The destination as it is.
    d: &'a Lanes,
    /// Of `fmaak` and `fmamk`.
    literal: &'a Lanes,
    mode: Mode,
    vcc: u32,
}

/// What a half has besides a destination and a first source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    /// A second source in a VGPR.
    Two,
    /// Nothing: its field is zero.
    One,
    /// A second source in a VGPR; the destination is a source too.
    Accumulates,
    /// A second source in a VGPR, then a literal.
    Ak,
    /// A literal, then a second source in a VGPR.
    Mk,
    /// A second source in a VGPR; VCC.
    ReadsVcc,
}

struct Row {
    /// Opcode; those from 16 on exist in the second half only.
    op: u8,
    /// LLVM's names in RDNA3 and RDNA4.
    names: [&'static str; 2],
    shape: Shape,
    /// How the first source is read.
    ty: Ty,
    run: Half,
}

const fn row(op: u8, name: &'static str, shape: Shape, run: Half) -> Row {
    renamed(op, [name; 2], shape, run)
}

const fn renamed(op: u8, names: [&'static str; 2], shape: Shape, run: Half) -> Row {
    Row {
        op,
        names,
        shape,
        ty: Ty::B32,
        run,
    }
}

const fn dot(op: u8, name: &'static str, ty: Ty, run: Half) -> Row {
    let mut row = row(op, name, Accumulates, run);
    row.ty = ty;
    row
}

use Shape::{Accumulates, Ak, Mk, One, ReadsVcc, Two};

/// Every half; RDNA4 has the same opcodes.
#[rustfmt::skip]
static ROWS: [Row; 17] = [
    row(0, "v_dual_fmac_f32", Accumulates, |x, d| singles::fma(x.mode, x.a, x.b, x.d, d)),
    row(1, "v_dual_fmaak_f32", Ak, |x, d| singles::fma(x.mode, x.a, x.b, x.literal, d)),
    row(2, "v_dual_fmamk_f32", Mk, |x, d| singles::fma(x.mode, x.a, x.literal, x.b, d)),
    row(3, "v_dual_mul_f32", Two, |x, d| singles::mul(x.mode, x.a, x.b, d)),
    row(4, "v_dual_add_f32", Two, |x, d| singles::add(x.mode, x.a, x.b, d)),
    row(5, "v_dual_sub_f32", Two, |x, d| singles::sub(x.mode, x.a, x.b, d)),
    row(6, "v_dual_subrev_f32", Two, |x, d| singles::sub(x.mode, x.b, x.a, d)),
    row(7, "v_dual_mul_dx9_zero_f32", Two, |x, d| singles::mul_dx9(x.mode, x.a, x.b, d)),
    row(8, "v_dual_mov_b32", One, |x, d| singles::each(d, |i| x.a[i])),
    row(9, "v_dual_cndmask_b32", ReadsVcc, |x, d| singles::each(d, |i| if x.vcc >> i & 1 != 0 { x.b[i] } else { x.a[i] })),
    renamed(10, ["v_dual_max_f32", "v_dual_max_num_f32"], Two, |x, d| singles::max(x.mode, x.a, x.b, d)),
    renamed(11, ["v_dual_min_f32", "v_dual_min_num_f32"], Two, |x, d| singles::min(x.mode, x.a, x.b, d)),
    dot(12, "v_dual_dot2acc_f32_f16", Ty::F16x2, |x, d| { *d = *x.d; dot2acc(x.mode, Element::F16, x.a, x.b, d) }),
    dot(13, "v_dual_dot2acc_f32_bf16", Ty::Bf16x2, |x, d| { *d = *x.d; dot2acc(x.mode, Element::Bf16, x.a, x.b, d) }),
    row(16, "v_dual_add_nc_u32", Two, |x, d| singles::each(d, |i| x.a[i].wrapping_add(x.b[i]))),
    row(17, "v_dual_lshlrev_b32", Two, |x, d| singles::each(d, |i| x.b[i] << (x.a[i] & 31))),
    row(18, "v_dual_and_b32", Two, |x, d| singles::each(d, |i| x.a[i] & x.b[i])),
];

/// The row of an opcode.
fn row_of(op: u32, second: bool) -> Option<usize> {
    let at = match op {
        0..=13 => op,
        16..=18 if second => op - 2,
        _ => return None,
    };
    debug_assert_eq!(u32::from(ROWS[at as usize].op), op);
    Some(at as usize)
}

/// One half of a VOPD.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Part {
    row: usize,
    dst: u16,
    a: Operand,
    /// The second source, a VGPR.
    b: u16,
}

/// A VOPD instruction.
#[derive(Clone, PartialEq, Debug)]
pub struct Dual {
    generation: Gen,
    parts: [Part; 2],
    literal: u32,
}

impl Part {
    fn row(&self) -> &'static Row {
        &ROWS[self.row]
    }

    /// The VGPRs by source slot, and how many banks the slot has.
    fn slots(&self) -> [(Option<usize>, usize); 3] {
        let a = self.a.vgpr();
        let b = Some(usize::from(self.b));
        let (b, c) = match self.row().shape {
            One => (None, None),
            Mk => (None, b),
            Accumulates => (b, Some(usize::from(self.dst))),
            Two | Ak | ReadsVcc => (b, None),
        };
        [(a, 4), (b, 4), (c, 2)]
    }
}

impl Dual {
    /// Decodes; see [`super::decode`].
    pub(super) fn decode(generation: Gen, words: &[u32]) -> Option<(Self, usize)> {
        let (&first, &second) = (words.first()?, words.get(1)?);
        if !matches!(generation, Gen::Rdna3 | Gen::Rdna4) || first >> 26 != 0x32 {
            return None;
        }
        let rows = [
            row_of(first >> 22 & 15, false)?,
            row_of(first >> 17 & 31, true)?,
        ];
        let source = |word: u32| ((word & 0x1ff) as u16, (word >> 9 & 0xff) as u16);
        let codes = [source(first), source(second)];
        let x = (second >> 24) as u16;
        // Of the two destinations one is even: the lowest bit of the second is not encoded.
        let destinations = [x, (second >> 16 & 0xfe) as u16 | !x & 1];
        let has_literal =
            (0..2).any(|k| matches!(ROWS[rows[k]].shape, Ak | Mk) || codes[k].0 == LITERAL);
        let literal = if has_literal { *words.get(2)? } else { 0 };
        let part = |k: usize| {
            let (code, b) = codes[k];
            let a = Operand {
                code,
                acc: false,
                words: 1,
                ty: ROWS[rows[k]].ty,
                class: Class::Any,
                literal,
            };
            a.text(generation)?;
            (ROWS[rows[k]].shape != One || b == 0).then_some(Part {
                row: rows[k],
                dst: destinations[k],
                a,
                b,
            })
        };
        let inst = Self {
            generation,
            parts: [part(0)?, part(1)?],
            literal,
        };
        Some((inst, if has_literal { 3 } else { 2 }))
    }

    /// Which rule the encoding breaks, and how.
    fn broken(&self, halves: usize) -> Option<(&'static Rule, String)> {
        if halves != 1 {
            return Some((&VOPD_WAVE32, format!("{self} in a wave of 64 lanes")));
        }
        let [x, y] = &self.parts;
        let mov = |part: &Part| part.row().shape == One;
        for (slot, (x_slot, y_slot)) in x.slots().into_iter().zip(y.slots()).enumerate() {
            let ((Some(a), banks), (Some(b), _)) = (x_slot, y_slot) else {
                continue;
            };
            // RDNA4 reads the source of the second of two moves by another way.
            let exempt = self.generation == Gen::Rdna4 && slot == 0 && mov(x) && mov(y);
            if a % banks == b % banks && !exempt {
                return Some((
                    &VOPD_BANKS,
                    format!("{self}: v{a} and v{b} as source {slot}"),
                ));
            }
        }
        let mut scalars: SmallVec<[u16; 4]> = SmallVec::new();
        for part in &self.parts {
            let code = part.a.code;
            let literal = matches!(part.row().shape, Ak | Mk).then_some(LITERAL);
            let vcc = (part.row().shape == ReadsVcc).then_some(106);
            let read = (code <= 123 || code == LITERAL).then_some(code);
            for code in [read, literal, vcc].into_iter().flatten() {
                if !scalars.contains(&code) {
                    scalars.push(code);
                }
            }
        }
        (scalars.len() > 2).then(|| (&VOPD_SCALARS, self.to_string()))
    }

    /// The instruction as a step.
    pub(super) fn lower(&self, halves: usize) -> Step {
        let mut touches: SmallVec<[Regs; 4]> = SmallVec::new();
        for part in &self.parts {
            let vgpr = |first| Regs {
                file: File::V,
                first,
                count: 1,
            };
            touches.extend(part.a.regs());
            touches.push(vgpr(part.dst));
            if part.row().shape != One {
                touches.push(vgpr(part.b));
            }
            if part.row().shape == ReadsVcc {
                touches.push(Regs {
                    file: File::S,
                    first: 106,
                    count: 1,
                });
            }
        }
        if !self
            .parts
            .iter()
            .all(|part| part.a.is_legal(self.generation))
        {
            return reserved(self.to_string(), touches);
        }
        if let Some((rule, what)) = self.broken(halves) {
            return Step {
                lands: None,
                run: Box::new(move |_| Err(Stop::Rule(rule, what.clone()))),
                touches,
            };
        }
        let literal = [self.literal; 32];
        let halves = self.parts.map(|part| Lowered {
            a: part.a.source(self.generation, part.row().ty),
            b: part.b.into(),
            dst: part.dst.into(),
            run: part.row().run,
        });
        let generation = self.generation;
        Step {
            lands: None,
            run: Box::new(move |wave| {
                simd::run(Issue {
                    halves: &halves,
                    literal: &literal,
                    generation,
                    wave,
                });
                Ok(Flow::Next)
            }),
            touches,
        }
    }
}

/// A half, operands resolved.
struct Lowered {
    a: Source,
    b: usize,
    dst: usize,
    run: Half,
}

/// Both halves for all lanes: results are written once both have read.
struct Issue<'a, 'w, 'm> {
    halves: &'a [Lowered; 2],
    literal: &'a Lanes,
    generation: Gen,
    wave: &'w mut Wave<'m>,
}

impl Kernel for Issue<'_, '_, '_> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let wave = &*self.wave;
        let mode = Mode::new(self.generation, wave.mode);
        let vcc = wave.vcc() as u32;
        let mut results = [[0; 32]; 2];
        for (half, result) in self.halves.iter().zip(&mut results) {
            let mut room;
            let a = match &half.a {
                Source::Vgpr(r) => wave.vgpr(*r, 0),
                other => {
                    room = [[0; 32]; 2];
                    other.lanes::<false>(wave, 0, &mut room)[0]
                }
            };
            let sources = Sources {
                a,
                b: wave.vgpr(half.b, 0),
                d: wave.vgpr(half.dst, 0),
                literal: self.literal,
                mode,
                vcc,
            };
            (half.run)(&sources, result);
        }
        let exec = wave.exec_half(0);
        for (half, result) in self.halves.iter().zip(&results) {
            blend(self.wave.vgpr_mut(half.dst, 0), result, exec);
        }
    }
}

impl fmt::Display for Dual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, part) in self.parts.iter().enumerate() {
            let Row { names, shape, .. } = part.row();
            let name = names[usize::from(self.generation == Gen::Rdna4)];
            // LLVM does not say lit() here if the first half has read the literal in the middle of its
            // operands and for nothing else, and the second has it as its own, too.
            let [x, y] = self.parts;
            let bare = k == 1
                && x.row().shape == Mk
                && x.a.code != LITERAL
                && matches!(y.row().shape, Ak | Mk);
            let a = match part.a.as_inline() {
                Some(inline) if bare && part.a.code == LITERAL => inline.text(self.generation),
                _ => part.a.text(self.generation),
            };
            let a = a.unwrap_or_default();
            let (dst, b) = (part.dst, part.b);
            let between = if k == 0 { "" } else { " :: " };
            write!(f, "{between}{name} v{dst}, {a}")?;
            match shape {
                One => Ok(()),
                Two | Accumulates | ReadsVcc => write!(f, ", v{b}"),
                Ak => write!(f, ", v{b}, {:#x}", self.literal),
                Mk => write!(f, ", {:#x}, v{b}", self.literal),
            }?;
        }
        Ok(())
    }
}
