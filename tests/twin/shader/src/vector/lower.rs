//! Instructions as steps: operands resolved once.

use smallvec::SmallVec;

use crate::isa::Gen;
use crate::step::{File, Regs, Step};

use super::input::{Edit, Input};
use super::inst::{Extra, Form, Inst, Sdwa};
use super::moves;
use super::operand::{LITERAL, Source, VGPR};
use super::output::{Finish, Output, Part};
use super::run::Operands;
use super::table::{Field, Lower, flag};

type Touches = SmallVec<[Regs; 4]>;

/// The part of a dword that SDWA chooses: the lowest bit and how many.
fn sdwa_part(part: u8) -> (u32, u32) {
    match part {
        0..=3 => (8 * u32::from(part), 8),
        4 | 5 => (16 * u32::from(part - 4), 16),
        _ => (0, 32),
    }
}

impl Inst {
    /// The instruction as a step for a wave of `halves` times 32 lanes.
    pub fn lower(&self, halves: usize) -> Step {
        let mut touches = Touches::new();
        let operands = self.operands(halves, &mut touches);
        let run = match operands {
            None => moves::reserved(self, Operands::nothing(halves)),
            Some(operands) => match self.row.lower {
                Lower::Lanes(_, Some(saturating)) if self.clamp => saturating(operands),
                Lower::Lanes(plain, _) => plain(operands),
                Lower::Special(make) => make(self, operands),
            },
        };
        Step {
            lands: None,
            run,
            touches,
        }
    }

    /// Whether halves of registers are named as since RDNA3.
    fn named_halves(&self) -> bool {
        matches!(self.generation, Gen::Rdna3 | Gen::Rdna4)
    }

    fn operands(&self, halves: usize, touches: &mut Touches) -> Option<Operands> {
        let row = self.row;
        let mut vgprs = 0;
        let mut src = [Input::NONE, Input::NONE, Input::NONE];
        for (i, input) in src.iter_mut().enumerate() {
            let Some(field) = row.src[i] else { continue };
            let old = row.old && i == row.sources();
            let code = if old { VGPR + self.dst } else { self.src[i] };
            *input = self.input(i, field, code, old)?;
            match input.source {
                Source::Vgpr(register) => {
                    let count = field.kind.dwords();
                    vgprs = vgprs.max(register + count);
                    touch(touches, File::V, register as u16, count);
                }
                Source::Scalar(code) => touch(touches, File::S, code, field.kind.dwords()),
                Source::Special(254) => return None,
                _ => {}
            }
        }
        let scalar_dst = row.is(flag::TO_SCALAR | flag::SCALAR);
        let mut dst = Output {
            vgpr: 0,
            part: Part::Whole,
        };
        if let Some(field) = row.dst {
            if scalar_dst {
                if self.dst >= 128 || self.dst == self.m0() {
                    return None;
                }
                touch(touches, File::S, self.dst, 1);
            } else {
                dst = self.output(field);
                let count = field.kind.dwords();
                vgprs = vgprs.max(dst.vgpr + count);
                touch(touches, File::V, dst.vgpr as u16, count);
            }
        }
        if row.is(flag::FROM_SCALARS) && !scalar_sources(&src, 0..2)
            || row.is(flag::SCALAR) && !scalar_sources(&src, 0..1)
            || row.is(flag::PERMLANE) && row.sources() == 3 && !scalar_sources(&src, 1..3)
            || self.name == "v_readlane_b32" && !scalar_sources(&src, 1..2)
        {
            return None;
        }
        if self.name.starts_with("v_movrel") || self.name == "v_swaprel_b32" {
            touch(touches, File::S, self.m0(), 1);
        }
        let null = self.null();
        let mask_in = self.scalar_bits().unwrap_or(106);
        if row.bit_in {
            if mask_in >= 128 {
                return None;
            }
            touch(touches, File::S, mask_in, halves);
        }
        let rdna = self.generation != Gen::Cdna3;
        let writes_exec = row.is(flag::CMPX);
        let mut mask_out = None;
        if row.bit_out && !(writes_exec && rdna) && Some(self.sdst) != null {
            if self.sdst >= 128 {
                return None;
            }
            mask_out = Some(self.sdst);
            touch(touches, File::S, self.sdst, halves);
        }
        let dpp = match self.extra {
            Extra::Dpp(dpp) => Some(Box::new(dpp.resolve(halves))),
            _ => None,
        };
        let float = row.dst.filter(|field| field.float);
        let finish = float
            .filter(|_| self.clamp || self.omod != 0)
            .map(|field| Finish {
                kind: field.kind,
                omod: self.omod,
                clamp: self.clamp,
                generation: self.generation,
            });
        Some(Operands {
            src,
            dpp,
            dst,
            finish,
            mask_in,
            mask_out,
            writes_exec,
            halves,
            vgprs,
        })
    }

    /// The operand code of M0.
    pub fn m0(&self) -> u16 {
        match self.generation {
            Gen::Rdna2 | Gen::Cdna3 => 124,
            Gen::Rdna3 | Gen::Rdna4 => 125,
        }
    }

    fn null(&self) -> Option<u16> {
        match self.generation {
            Gen::Rdna2 => Some(125),
            Gen::Rdna3 | Gen::Rdna4 => Some(124),
            Gen::Cdna3 => None,
        }
    }

    fn input(&self, i: usize, field: Field, code: u16, old: bool) -> Option<Input> {
        let kind = field.kind;
        let bit = |bits: u8| bits >> i & 1 != 0;
        let mut edit = Edit::NONE;
        let mut code = code;
        if kind.is_half() {
            edit.width = 16;
            let mut high = if old {
                self.opsel & 8 != 0
            } else {
                bit(self.opsel)
            };
            // RDNA4 names halves like RDNA3, which LLVM's disassembler leaves in the number.
            if self.generation == Gen::Rdna4 && self.form == Form::Short && code >= VGPR {
                high = code & 0x80 != 0;
                code &= !0x80;
            }
            if self.form == Form::Short && !self.named_halves() {
                high = false;
            }
            if high && code >= VGPR {
                edit.shift = 16;
            } else if high && code < 128 {
                // The high half of a scalar register.
                edit.shift = 16;
            }
        }
        if field.modifiers && !old {
            edit.abs = bit(self.abs);
            edit.neg = bit(self.neg);
        }
        if self.row.is(flag::FP8) && self.row.sources() == 1 && self.generation == Gen::Rdna4 {
            let pair = self.row.dst.is_some_and(|d| d.kind.dwords() == 2);
            edit.shift = if pair {
                16 * u32::from(self.opsel & 1)
            } else {
                8 * u32::from(self.opsel >> 1 & 1 | (self.opsel & 1) << 1)
            };
            edit.width = if pair { 16 } else { 8 };
        }
        if let (Extra::Sdwa(sdwa), false, 0..=1) = (&self.extra, old, i) {
            let (shift, width) = sdwa_part(sdwa.src[i]);
            edit.shift = shift;
            edit.width = width;
            edit.signed = sdwa.sext[i] && !field.modifiers;
        }
        // Of a literal the high half can be chosen too.
        let literal = if kind.is_half() && bit(self.opsel) && code == LITERAL {
            self.literal >> 16
        } else {
            self.literal
        };
        let source = Source::new(self.generation, code, kind, literal);
        // The low half of a register needs no edit: nothing above it is looked at.
        let plain = Edit { width: 32, ..edit } == Edit::NONE
            && (edit.width == 32 || edit.width == 16 && kind.is_half());
        Some(Input {
            source,
            kind,
            edit: (!plain).then_some(edit),
        })
    }

    fn output(&self, field: Field) -> Output {
        let mut vgpr = usize::from(self.dst);
        let mut part = Part::Whole;
        let row = self.row;
        if field.kind.is_half() {
            let mut high =
                self.opsel & 8 != 0 && (self.form == Form::Long || self.generation == Gen::Rdna3);
            if self.generation == Gen::Rdna4 && self.form == Form::Short {
                high = self.dst & 0x80 != 0;
                vgpr &= 0x7f;
            }
            let shift = if high { 16 } else { 0 };
            // CDNA clears the high half unless that is what is written.
            let bits = self.generation != Gen::Cdna3 || high || row.is(flag::FP8);
            part = if bits {
                Part::Bits { shift, width: 16 }
            } else {
                Part::Padded { shift, width: 16 }
            };
        }
        if row.is(flag::FP8_SR) {
            let shift = 8 * u32::from(self.opsel >> 2);
            part = Part::Bits { shift, width: 8 };
        }
        if let Extra::Sdwa(Sdwa { dst, unused, .. }) = self.extra {
            let (shift, width) = sdwa_part(dst);
            part = match unused {
                _ if width == 32 => part,
                0 => Part::Padded { shift, width },
                1 => Part::Extended { shift, width },
                _ => Part::Bits { shift, width },
            };
        }
        Output { vgpr, part }
    }
}

fn touch(touches: &mut Touches, file: File, first: u16, count: usize) {
    // EXEC is never in flight.
    if file == File::S && (126..128).contains(&first) {
        return;
    }
    touches.push(Regs {
        file,
        first,
        count: count as u16,
    });
}

fn scalar_sources(src: &[Input; 3], range: std::ops::Range<usize>) -> bool {
    src[range]
        .iter()
        .all(|input| !matches!(input.source, Source::Vgpr(_)))
}

impl Operands {
    /// The operands of an instruction that has none.
    fn nothing(halves: usize) -> Self {
        Self {
            src: [Input::NONE, Input::NONE, Input::NONE],
            dpp: None,
            dst: Output {
                vgpr: 0,
                part: Part::Whole,
            },
            finish: None,
            mask_in: 106,
            mask_out: None,
            writes_exec: false,
            halves,
            vgprs: 0,
        }
    }
}
