//! VOP3P instructions as steps.

use smallvec::SmallVec;

use super::arith::{Ins, Op};
use super::matrix::{Lowered, Matrix};
use super::mode::Mode;
use super::operand::{Operand, Ty};
use super::table::Meaning;
use super::vop3p::{Dpp, Vop3p};
use crate::isa::Gen;
use crate::step::{Flow, ISA_RESERVED, Regs, Run, Step, Stop};
use crate::vector::lane_select;
use crate::vector::lanes::blend;
use crate::vector::operand::Source;
use crate::wave::Lanes;

/// A step that stops.
pub(super) fn reserved(text: String, touches: SmallVec<[Regs; 4]>) -> Step {
    Step {
        lands: None,
        run: Box::new(move |_| Err(Stop::Rule(&ISA_RESERVED, text.clone()))),
        touches,
    }
}

impl Vop3p {
    /// The instruction as a step.
    pub(super) fn lower(&self, halves: usize) -> Step {
        let n = self.sources();
        let row = self.row();
        let mut operands = [self.src[0], self.src[1], self.src[2], self.dst];
        if let Meaning::Matrix(matrix) = row.meaning {
            let words = matrix.words(32 * halves);
            for (operand, words) in operands.iter_mut().zip(words) {
                operand.words = words;
            }
        }
        let used = operands[..n].iter().chain([&operands[3]]);
        let touches: SmallVec<[Regs; 4]> = used.filter_map(Operand::regs).collect();
        let Some(dst) = self.dst.vgpr().filter(|_| self.is_legal()) else {
            return reserved(self.to_string(), touches);
        };
        match row.meaning {
            Meaning::Lanes(op) => self.lower_lanes(op, dst, touches),
            Meaning::Matrix(matrix) => self.lower_matrix(matrix, halves, dst, touches),
        }
    }

    fn lower_lanes(&self, op: Op, dst: usize, touches: SmallVec<[Regs; 4]>) -> Step {
        let row = self.row();
        let source = |k: usize| {
            if row.src[k] == 0 {
                return Source::None;
            }
            // What a constant is depends on whether it is read as a half.
            let ty = match (self.src[k].ty, self.mods.op_sel_hi >> k & 1) {
                (Ty::F16, 0) => Ty::B32,
                (ty, _) => ty,
            };
            self.src[k].source(self.generation, ty)
        };
        let sources = [source(0), source(1), source(2)];
        let (mods, generation) = (self.mods, self.generation);
        if let Some(dpp) = self.dpp {
            return self.lower_dpp(dpp, op, dst, sources, touches);
        }
        let run: Run = if row.dst == 1 {
            Box::new(move |wave| {
                let mode = Mode::new(generation, wave.mode);
                for half in 0..wave.halves {
                    let mut out = [*wave.vgpr(dst, half), [0; 32]];
                    {
                        let mut room = [[[0; 32]; 2]; 3];
                        let [r0, r1, r2] = &mut room;
                        let src = [
                            sources[0].lanes::<false>(wave, half, r0),
                            sources[1].lanes::<false>(wave, half, r1),
                            sources[2].lanes::<false>(wave, half, r2),
                        ];
                        op(&Ins { src, mods, mode }, &mut out);
                    }
                    let exec = wave.exec_half(half);
                    blend(wave.vgpr_mut(dst, half), &out[0], exec);
                }
                Ok(Flow::Next)
            })
        } else {
            Box::new(move |wave| {
                let mode = Mode::new(generation, wave.mode);
                for half in 0..wave.halves {
                    let mut out = [[0; 32]; 2];
                    {
                        let mut room = [[[0; 32]; 2]; 3];
                        let [r0, r1, r2] = &mut room;
                        let src = [
                            sources[0].lanes::<true>(wave, half, r0),
                            sources[1].lanes::<true>(wave, half, r1),
                            sources[2].lanes::<true>(wave, half, r2),
                        ];
                        op(&Ins { src, mods, mode }, &mut out);
                    }
                    let exec = wave.exec_half(half);
                    blend(wave.vgpr_mut(dst, half), &out[0], exec);
                    blend(wave.vgpr_mut(dst + 1, half), &out[1], exec);
                }
                Ok(Flow::Next)
            })
        };
        Step {
            lands: None,
            run,
            touches,
        }
    }

    fn lower_dpp(
        &self,
        dpp: Dpp,
        op: Op,
        dst: usize,
        sources: [Source; 3],
        touches: SmallVec<[Regs; 4]>,
    ) -> Step {
        if !dpp.is_legal() {
            return reserved(self.to_string(), touches);
        }
        let (mods, generation) = (self.mods, self.generation);
        let select = dpp.select(generation);
        Step {
            lands: None,
            run: Box::new(move |wave| {
                let mode = Mode::new(generation, wave.mode);
                for half in 0..wave.halves {
                    let mut out = [*wave.vgpr(dst, half), [0; 32]];
                    let mut room = [[[0; 32]; 2]; 3];
                    let [r0, r1, r2] = &mut room;
                    let exec = wave.exec_half(half);
                    let first = sources[0].lanes::<false>(wave, half, r0)[0];
                    let (moved, enabled) = fetch(select, first, exec, half);
                    let src = [
                        [&moved, &moved],
                        sources[1].lanes::<false>(wave, half, r1),
                        sources[2].lanes::<false>(wave, half, r2),
                    ];
                    op(&Ins { src, mods, mode }, &mut out);
                    blend(wave.vgpr_mut(dst, half), &out[0], exec & enabled);
                }
                Ok(Flow::Next)
            }),
            touches,
        }
    }

    fn lower_matrix(
        &self,
        matrix: Matrix,
        halves: usize,
        dst: usize,
        touches: SmallVec<[Regs; 4]>,
    ) -> Step {
        let (Some(a), Some(b)) = (self.src[0].vgpr(), self.src[1].vgpr()) else {
            return reserved(self.to_string(), touches);
        };
        let c = self.src[2].source(self.generation, matrix.ty_of_c());
        match Lowered::new(matrix, self.mods, halves, [a, b], c, dst) {
            Ok(lowered) => Step {
                lands: None,
                run: Box::new(move |wave| {
                    lowered.run(wave)?;
                    Ok(Flow::Next)
                }),
                touches,
            },
            Err(stop) => Step {
                lands: None,
                run: Box::new(move |_| Err(stop.clone())),
                touches,
            },
        }
    }
}

impl Dpp {
    /// Whether RDNA3 and RDNA4 have this control.
    fn is_legal(self) -> bool {
        match self {
            Self::Eight(..) => true,
            Self::Sixteen(control) => matches!(
                control >> 8 & 0x1ff,
                0..=0xff
                    | 0x101..=0x10f
                    | 0x111..=0x11f
                    | 0x121..=0x12f
                    | 0x140
                    | 0x141
                    | 0x150..=0x15f
                    | 0x160..=0x16f
            ),
        }
    }

    /// Where lanes come from.
    fn select(self, generation: Gen) -> lane_select::Dpp {
        match self {
            Self::Eight(select, inactive) => lane_select::Dpp::Eight { select, inactive },
            Self::Sixteen(control) => lane_select::Dpp::Pattern {
                control: (control >> 8 & 0x1ff) as u16,
                zero: control >> 19 & 1 != 0,
                inactive: control >> 18 & 1 != 0,
                rows: (control >> 28) as u8,
                banks: (control >> 24 & 15) as u8,
                generation,
            },
        }
    }
}

/// The lanes of the first source moved, and which lanes are written.
fn fetch(dpp: lane_select::Dpp, from: &Lanes, exec: u32, half: usize) -> (Lanes, u32) {
    let (mut moved, mut enabled) = ([0; 32], 0);
    let (zero, inactive) = match dpp {
        lane_select::Dpp::Eight { inactive, .. } => (true, inactive),
        lane_select::Dpp::Pattern { zero, inactive, .. } => (zero, inactive),
    };
    for (i, to) in moved.iter_mut().enumerate() {
        // What moves by whole rows is reserved: a half is all that is needed.
        let lane = dpp
            .source(i, 32)
            .filter(|&lane| inactive || exec >> lane & 1 != 0);
        let written = match dpp {
            lane_select::Dpp::Eight { .. } => true,
            lane_select::Dpp::Pattern { rows, banks, .. } => {
                rows >> (2 * half + i / 16) & 1 != 0 && banks >> (i % 16 / 4) & 1 != 0
            }
        };
        enabled |= u32::from(written && (lane.is_some() || zero)) << i;
        if let Some(lane) = lane {
            *to = from[lane];
        }
    }
    (moved, enabled)
}
