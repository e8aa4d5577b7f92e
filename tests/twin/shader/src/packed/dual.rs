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
use crate::step::{File, Flow, Regs, Step, Stop};
use crate::vector::lanes::blend;
use crate::vector::operand::LITERAL;
use crate::wave::Lanes;

/// Waves of 64 lanes have no dual issue.
static VOPD_WAVE32: Rule = Rule {
    name: "VOPD-WAVE32",
    text: "dual issue is for waves of 32 lanes",
    source: "RDNA3 ISA, 7.6",
    proof: Proof::Sourced,
};

/// Each bank of VGPRs is read once for each of the source slots.
static VOPD_BANKS: Rule = Rule {
    name: "VOPD-BANKS",
    text: "both halves read VGPRs of different banks: the first sources modulo 4, the second sources modulo 4, the third ones modulo 2",
    source: "RDNA3 ISA, 7.6, \"VOPD restrictions\"; LLVM, GCNVOPDUtils.cpp",
    proof: Proof::Sourced,
};

/// The scalar values that one VOPD reads.
static VOPD_SCALARS: Rule = Rule {
    name: "VOPD-SCALARS",
    text: "both halves together read at most two scalar registers and literals",
    source: "RDNA3 ISA, 7.6, \"VOPD restrictions\"; LLVM, GCNVOPDUtils.cpp",
    proof: Proof::Sourced,
};

/// What a half does: sources (the third is the literal of `fmaak` and `fmamk`), VCC, and the
/// destination, which comes with what was there.
type Half = fn(&Sources, &mut Lanes);

struct Sources<'a> {
    a: &'a Lanes,
    b: &'a Lanes,
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
    row(0, "v_dual_fmac_f32", Accumulates, |x, d| { let c = *d; singles::fma(x.mode, x.a, x.b, &c, d) }),
    row(1, "v_dual_fmaak_f32", Ak, |x, d| singles::fma(x.mode, x.a, x.b, x.literal, d)),
    row(2, "v_dual_fmamk_f32", Mk, |x, d| singles::fma(x.mode, x.a, x.literal, x.b, d)),
    row(3, "v_dual_mul_f32", Two, |x, d| singles::mul(x.mode, x.a, x.b, d)),
    row(4, "v_dual_add_f32", Two, |x, d| singles::add(x.mode, x.a, x.b, d)),
    row(5, "v_dual_sub_f32", Two, |x, d| singles::sub(x.mode, x.a, x.b, d)),
    row(6, "v_dual_subrev_f32", Two, |x, d| singles::sub(x.mode, x.b, x.a, d)),
    row(7, "v_dual_mul_dx9_zero_f32", Two, |x, d| singles::mul_dx9(x.mode, x.a, x.b, d)),
    row(8, "v_dual_mov_b32", One, |x, d| *d = *x.a),
    row(9, "v_dual_cndmask_b32", ReadsVcc, |x, d| singles::each(d, |i| if x.vcc >> i & 1 != 0 { x.b[i] } else { x.a[i] })),
    renamed(10, ["v_dual_max_f32", "v_dual_max_num_f32"], Two, |x, d| singles::max(x.mode, x.a, x.b, d)),
    renamed(11, ["v_dual_min_f32", "v_dual_min_num_f32"], Two, |x, d| singles::min(x.mode, x.a, x.b, d)),
    dot(12, "v_dual_dot2acc_f32_f16", Ty::F16x2, |x, d| dot2acc(x.mode, Element::F16, x.a, x.b, d)),
    dot(13, "v_dual_dot2acc_f32_bf16", Ty::Bf16x2, |x, d| dot2acc(x.mode, Element::Bf16, x.a, x.b, d)),
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
        let generation = self.generation;
        let literal = [self.literal; 32];
        let parts = self.parts;
        let [a_x, a_y] = parts.map(|part| part.a.source(generation, part.row().ty));
        let [b_x, b_y] = parts.map(|part| usize::from(part.b));
        let [d_x, d_y] = parts.map(|part| usize::from(part.dst));
        let [run_x, run_y] = parts.map(|part| part.row().run);
        Step {
            lands: None,
            run: Box::new(move |wave| {
                let mode = Mode::new(generation, wave.mode);
                let vcc = wave.vcc() as u32;
                let (mut x, mut y) = (*wave.vgpr(d_x, 0), *wave.vgpr(d_y, 0));
                {
                    let mut room = [[0; 32]; 2];
                    let a = a_x.lanes::<false>(wave, 0, &mut room)[0];
                    let b = wave.vgpr(b_x, 0);
                    run_x(
                        &Sources {
                            a,
                            b,
                            literal: &literal,
                            mode,
                            vcc,
                        },
                        &mut x,
                    );
                }
                {
                    let mut room = [[0; 32]; 2];
                    let a = a_y.lanes::<false>(wave, 0, &mut room)[0];
                    let b = wave.vgpr(b_y, 0);
                    run_y(
                        &Sources {
                            a,
                            b,
                            literal: &literal,
                            mode,
                            vcc,
                        },
                        &mut y,
                    );
                }
                let exec = wave.exec_half(0);
                blend(wave.vgpr_mut(d_x, 0), &x, exec);
                blend(wave.vgpr_mut(d_y, 0), &y, exec);
                Ok(Flow::Next)
            }),
            touches,
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
