//! What rows of the tables say: the operands of an instruction and what it does.
//!
//! The types of a row's closure are the types of its operands.

use smallvec::{SmallVec, smallvec};

use super::operand::{Source, Value, registers};
use super::{Inst, operand};
use crate::isa::Gen;
use crate::step::{Flow, Regs, Step, Stop};
use crate::wave::Wave;

/// No such instruction in this generation.
pub const __: i16 = -1;

/// A row of a table: an instruction.
pub struct Row {
    /// The mnemonic.
    pub name: &'static str,
    /// The mnemonic from some generation of RDNA on, where it was renamed.
    pub renamed: Option<(Gen, &'static str)>,
    /// The opcode in RDNA2, RDNA3, RDNA4, CDNA3.
    pub ops: [i16; 4],
    /// Operands and meaning.
    pub meaning: Meaning,
}

/// A row.
pub fn row(name: &'static str, ops: [i16; 4], meaning: Meaning) -> Row {
    Row {
        name,
        renamed: None,
        ops,
        meaning,
    }
}

impl Row {
    /// The mnemonic from `generation` on; CDNA keeps the old one.
    pub fn since(mut self, generation: Gen, name: &'static str) -> Self {
        self.renamed = Some((generation, name));
        self
    }

    /// The mnemonic.
    pub fn name(&self, generation: Gen) -> &'static str {
        match self.renamed {
            Some((since, name))
                if generation != Gen::Cdna3 && generation.column() >= since.column() =>
            {
                name
            }
            _ => self.name,
        }
    }
}

/// An operand, by where it stands in the encoding; numbers are dwords.
#[derive(Clone, Copy, PartialEq)]
pub enum Arg {
    /// The destination, bits 22:16.
    Dst(u16),
    /// The destination field as a source (compares with a constant).
    DstRead(u16),
    /// The first source, bits 7:0.
    Src0(u16),
    /// The first source, which must be registers.
    Reg0(u16),
    /// The second source, bits 15:8.
    Src1(u16),
    /// The literal that always follows, in hexadecimal.
    Literal,
    /// The literal of `s_setreg_imm32_b32`, printed as a constant.
    LiteralImm,
    /// Bits 15:0 in hexadecimal.
    Hex,
    /// Bits 15:0: what `s_version` says.
    Version,
    /// Bits 15:0; small numbers in decimal.
    Imm,
    /// Bits 15:0 in decimal: a branch.
    Label,
    /// Bits 15:0 in decimal, left out where zero.
    Optional,
    /// Bits 15:0 must be zero and are not printed.
    Zero,
    /// Bits 15:0: what `s_waitcnt` waits for.
    Waitcnt,
    /// Bits 15:0: what `s_delay_alu` says.
    Delay,
    /// Bits 15:0: what `s_waitcnt_depctr` waits for.
    Depctr,
    /// Bits 15:0: a hardware register.
    Hwreg,
    /// Bits 15:0: a message.
    Message,
    /// The first source field as a message.
    MessageSrc,
    /// The first source field: a barrier.
    Barrier,
    /// The second source field: bits of `s_set_gpr_idx_on`.
    GprIndexSrc,
    /// Bits 15:0: bits of `s_set_gpr_idx_mode`.
    GprIndex,
    /// SMEM: the destination.
    Data(u16),
    /// SMEM: the destination field as a number.
    DataImm,
    /// SMEM: the registers with the address.
    Base(u16),
    /// SMEM: what is added to the address.
    Offset,
    /// SMEM: what is added to the address, and how much is prefetched.
    Prefetch,
    /// SMEM: the bits that say how caches are used, printed without a comma.
    Cache,
}

/// Makes the step of an instruction; none where its operands are reserved.
pub type Lower = Box<dyn Fn(&Inst, usize) -> Option<Step> + Send + Sync>;

/// Operands and what is done with them.
pub struct Meaning {
    /// The operands in the order in which they are printed.
    pub args: SmallVec<[Arg; 4]>,
    /// Makes the step.
    pub lower: Lower,
}

/// What an instruction touches and does.
pub fn step(
    touches: impl IntoIterator<Item = Option<Regs>>,
    run: impl Fn(&mut Wave) -> Result<Flow, Stop> + Send + Sync + 'static,
) -> Option<Step> {
    Some(Step {
        lands: None,
        run: Box::new(run),
        touches: touches.into_iter().flatten().collect(),
    })
}

impl Inst {
    fn source<T: Value>(&self, code: u8) -> Option<Source> {
        Source::new::<T>(self.generation, code, self.words[1])
    }

    /// The first source, a `T`.
    pub fn src0<T: Value>(&self) -> Option<Source> {
        self.source::<T>(self.words[0] as u8)
    }

    /// The second source, a `T`.
    pub fn src1<T: Value>(&self) -> Option<Source> {
        self.source::<T>((self.words[0] >> 8) as u8)
    }

    /// The destination, a `T`.
    pub fn dst<T: Value>(&self) -> Option<u8> {
        let code = self.dst_code();
        operand::register(self.generation, code, T::DWORDS)?;
        Some(code)
    }

    /// The destination field as a source.
    pub fn dst_read<T: Value>(&self) -> Option<Source> {
        self.source::<T>(self.dst_code())
    }

    /// The destination field.
    pub fn dst_code(&self) -> u8 {
        (self.words[0] >> 16) as u8 & 127
    }

    /// Bits 15:0.
    pub fn simm(&self) -> u16 {
        self.words[0] as u16
    }
}

/// One source: D = f(S0).
pub fn one<A: Value, D: Value>(f: impl Fn(A) -> D + Copy + Send + Sync + 'static) -> Meaning {
    one_with(move |_, a| f(a))
}

/// D = f(S0), SCC = D is not zero.
pub fn one_nz<A: Value, D: Value>(f: impl Fn(A) -> D + Copy + Send + Sync + 'static) -> Meaning {
    one_with(move |wave, a| {
        let d = f(a);
        wave.scc = d.truth();
        d
    })
}

/// D = f(S0), with what else there is in a wave.
pub fn one_with<A: Value, D: Value>(
    f: impl Fn(&mut Wave, A) -> D + Copy + Send + Sync + 'static,
) -> Meaning {
    Meaning {
        args: smallvec![Arg::Dst(D::DWORDS), Arg::Src0(A::DWORDS)],
        lower: Box::new(move |inst, _| {
            let (a, d) = (inst.src0::<A>()?, inst.dst::<D>()?);
            let touches = [a.touches(A::DWORDS), Some(registers(d, D::DWORDS))];
            step(touches, move |wave| {
                let a = A::get(a, wave);
                f(wave, a).put(d, wave);
                Ok(Flow::Next)
            })
        }),
    }
}

/// D = f(S0, D).
pub fn one_old<A: Value, D: Value>(
    f: impl Fn(&mut Wave, A, D) -> D + Copy + Send + Sync + 'static,
) -> Meaning {
    Meaning {
        args: smallvec![Arg::Dst(D::DWORDS), Arg::Src0(A::DWORDS)],
        lower: Box::new(move |inst, _| {
            let (a, old, d) = (inst.src0::<A>()?, inst.dst_read::<D>()?, inst.dst::<D>()?);
            let touches = [a.touches(A::DWORDS), Some(registers(d, D::DWORDS))];
            step(touches, move |wave| {
                let (a, old) = (A::get(a, wave), D::get(old, wave));
                f(wave, a, old).put(d, wave);
                Ok(Flow::Next)
            })
        }),
    }
}

/// Two sources: D = f(S0, S1).
pub fn two<A: Value, B: Value, D: Value>(
    f: impl Fn(A, B) -> D + Copy + Send + Sync + 'static,
) -> Meaning {
    two_with(move |_, a, b| f(a, b))
}

/// D = f(S0, S1), SCC = D is not zero.
pub fn two_nz<A: Value, B: Value, D: Value>(
    f: impl Fn(A, B) -> D + Copy + Send + Sync + 'static,
) -> Meaning {
    two_with(move |wave, a, b| {
        let d = f(a, b);
        wave.scc = d.truth();
        d
    })
}

/// D, SCC = f(S0, S1).
pub fn two_scc<A: Value, B: Value, D: Value>(
    f: impl Fn(A, B) -> (D, bool) + Copy + Send + Sync + 'static,
) -> Meaning {
    two_with(move |wave, a, b| {
        let (d, scc) = f(a, b);
        wave.scc = scc;
        d
    })
}

/// D = f(S0, S1), with what else there is in a wave.
pub fn two_with<A: Value, B: Value, D: Value>(
    f: impl Fn(&mut Wave, A, B) -> D + Copy + Send + Sync + 'static,
) -> Meaning {
    Meaning {
        args: smallvec![Arg::Dst(D::DWORDS), Arg::Src0(A::SIZE), Arg::Src1(B::SIZE)],
        lower: Box::new(move |inst, _| {
            let (a, b, d) = (inst.src0::<A>()?, inst.src1::<B>()?, inst.dst::<D>()?);
            let touches = [
                a.touches(A::DWORDS),
                b.touches(B::DWORDS),
                Some(registers(d, D::DWORDS)),
            ];
            step(touches, move |wave| {
                let (a, b) = (A::get(a, wave), B::get(b, wave));
                f(wave, a, b).put(d, wave);
                Ok(Flow::Next)
            })
        }),
    }
}

/// D = f(S0, S1, D).
pub fn two_old<A: Value, B: Value, D: Value>(
    f: impl Fn(&mut Wave, A, B, D) -> D + Copy + Send + Sync + 'static,
) -> Meaning {
    Meaning {
        args: smallvec![Arg::Dst(D::DWORDS), Arg::Src0(A::SIZE), Arg::Src1(B::SIZE)],
        lower: Box::new(move |inst, _| {
            let (a, b) = (inst.src0::<A>()?, inst.src1::<B>()?);
            let (old, d) = (inst.dst_read::<D>()?, inst.dst::<D>()?);
            let touches = [
                a.touches(A::DWORDS),
                b.touches(B::DWORDS),
                Some(registers(d, D::DWORDS)),
            ];
            step(touches, move |wave| {
                let (a, b, old) = (A::get(a, wave), B::get(b, wave), D::get(old, wave));
                f(wave, a, b, old).put(d, wave);
                Ok(Flow::Next)
            })
        }),
    }
}

/// SCC = f(S0, S1).
pub fn test<A: Value, B: Value>(
    f: impl Fn(A, B) -> bool + Copy + Send + Sync + 'static,
) -> Meaning {
    test_with(move |_, a, b| f(a, b))
}

/// SCC = f(S0, S1), with what else there is in a wave.
pub fn test_with<A: Value, B: Value>(
    f: impl Fn(&mut Wave, A, B) -> bool + Copy + Send + Sync + 'static,
) -> Meaning {
    Meaning {
        args: smallvec![Arg::Src0(A::SIZE), Arg::Src1(B::SIZE)],
        lower: Box::new(move |inst, _| {
            let (a, b) = (inst.src0::<A>()?, inst.src1::<B>()?);
            let touches = [a.touches(A::DWORDS), b.touches(B::DWORDS)];
            step(touches, move |wave| {
                let (a, b) = (A::get(a, wave), B::get(b, wave));
                wave.scc = f(wave, a, b);
                Ok(Flow::Next)
            })
        }),
    }
}

/// A constant of 16 bits: D = f(K, D).
pub fn constant<D: Value>(
    f: impl Fn(&mut Wave, u16, D) -> D + Copy + Send + Sync + 'static,
) -> Meaning {
    Meaning {
        args: smallvec![Arg::Dst(D::DWORDS), Arg::Hex],
        lower: Box::new(move |inst, _| {
            let (k, old, d) = (inst.simm(), inst.dst_read::<D>()?, inst.dst::<D>()?);
            step([Some(registers(d, D::DWORDS))], move |wave| {
                let old = D::get(old, wave);
                f(wave, k, old).put(d, wave);
                Ok(Flow::Next)
            })
        }),
    }
}

/// SCC = f(D, K).
pub fn test_constant<A: Value>(
    f: impl Fn(A, u16) -> bool + Copy + Send + Sync + 'static,
) -> Meaning {
    Meaning {
        args: smallvec![Arg::DstRead(A::DWORDS), Arg::Hex],
        lower: Box::new(move |inst, _| {
            let (a, k) = (inst.dst_read::<A>()?, inst.simm());
            step([a.touches(A::DWORDS)], move |wave| {
                wave.scc = f(A::get(a, wave), k);
                Ok(Flow::Next)
            })
        }),
    }
}

/// An instruction that is unlike others.
pub fn special(
    args: &[Arg],
    lower: impl Fn(&Inst, usize) -> Option<Step> + Send + Sync + 'static,
) -> Meaning {
    Meaning {
        args: args.iter().copied().collect(),
        lower: Box::new(lower),
    }
}

/// An instruction without source registers that does `f`, given bits 15:0.
pub fn control(
    arg: Arg,
    f: impl Fn(&mut Wave, u16) -> Result<Flow, Stop> + Copy + Send + Sync + 'static,
) -> Meaning {
    special(&[arg], move |inst, _| {
        let simm = inst.simm();
        step([], move |wave| f(wave, simm))
    })
}

/// An instruction that matters to timing only, or to tools.
pub fn nothing(arg: Arg) -> Meaning {
    control(arg, |_, _| Ok(Flow::Next))
}

/// An instruction that compute code has no use for: it decodes, and does not run.
pub fn unsupported(args: &[Arg]) -> Meaning {
    special(args, |_, _| None)
}
