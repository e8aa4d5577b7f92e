//! Meanings of control flow, waits, barriers and messages.

use super::hwreg;
use super::meaning::*;
use super::names;
use super::operand::{self, Source, Value, registers};
use crate::counters::{Counter, Wait};
use crate::isa::Gen;
use crate::page::Port;
use crate::step::{Flow, ISA_RESERVED, Step, Stop};
use crate::trap::{self, Message};
use crate::wave::Wave;

/// The address that a branch with this offset in dwords goes to.
fn target(wave: &Wave, simm: u16) -> u64 {
    wave.next.wrapping_add_signed(i64::from(simm as i16) * 4)
}

/// Goes on elsewhere where `taken`.
pub fn branch(taken: impl Fn(&Wave) -> bool + Copy + Send + Sync + 'static) -> Meaning {
    control(Arg::Label, move |wave, simm| {
        Ok(if taken(wave) {
            Flow::Jump(target(wave, simm))
        } else {
            Flow::Next
        })
    })
}

/// D = the address of the next instruction.
pub fn getpc() -> Meaning {
    special(&[Arg::Dst(2)], |inst, _| {
        let d = inst.dst::<u64>()?;
        step([Some(registers(d, 2))], move |wave| {
            wave.next.put(d, wave);
            Ok(Flow::Next)
        })
    })
}

/// Goes on at S0.
pub fn setpc() -> Meaning {
    special(&[Arg::Reg0(2)], |inst, _| {
        let a = inst.src0::<u64>()?;
        step([a.touches(2)], move |wave| {
            Ok(Flow::Jump(u64::get(a, wave) & !3))
        })
    })
}

/// D = the address of the next instruction; goes on at S0.
pub fn swappc() -> Meaning {
    special(&[Arg::Dst(2), Arg::Src0(2)], |inst, _| {
        let (a, d) = (inst.src0::<u64>()?, inst.dst::<u64>()?);
        step([a.touches(2), Some(registers(d, 2))], move |wave| {
            let to = u64::get(a, wave) & !3;
            wave.next.put(d, wave);
            Ok(Flow::Jump(to))
        })
    })
}

/// D = the address of the next instruction; branches.
pub fn call() -> Meaning {
    special(&[Arg::Dst(2), Arg::Label], |inst, _| {
        let (d, simm) = (inst.dst::<u64>()?, inst.simm());
        step([Some(registers(d, 2))], move |wave| {
            wave.next.put(d, wave);
            Ok(Flow::Jump(target(wave, simm)))
        })
    })
}

/// Waits for what `f` says of bits 15:0.
pub fn wait(arg: Arg, f: impl Fn(u16) -> Wait + Copy + Send + Sync + 'static) -> Meaning {
    special(&[arg], move |inst, _| {
        let wait = f(inst.simm());
        step([], move |wave| {
            wave.counters.wait(wait);
            Ok(Flow::Next)
        })
    })
}

/// `s_waitcnt`.
pub fn waitcnt() -> Meaning {
    special(&[Arg::Waitcnt], |inst, _| {
        let fields = names::waitcnt_fields(inst.generation, inst.simm());
        // The highest value waits for nothing.
        let [load, _, lgkm] = fields.map(|(n, most)| if n == most { u16::MAX } else { n });
        let wait = Wait {
            load,
            lds: lgkm,
            scalar: lgkm,
            ..Wait::NONE
        };
        step([], move |wave| {
            wave.counters.wait(wait);
            Ok(Flow::Next)
        })
    })
}

/// `s_waitcnt_vscnt` and the like: waits for S0 + K, of which compilers pass NULL.
pub fn waitcnt_k(f: fn(u16) -> Wait) -> Meaning {
    special(&[Arg::DstRead(1), Arg::Hex], move |inst, _| {
        let (a, k) = (inst.dst_read::<u32>()?, inst.simm());
        step([a.touches(1)], move |wave| {
            let n = (u32::get(a, wave) as u16).wrapping_add(k) & 63;
            wave.counters.wait(f(n));
            Ok(Flow::Next)
        })
    })
}

/// `s_barrier`: signals and waits.
pub fn barrier() -> Meaning {
    control(Arg::Zero, |wave, _| {
        wave.signalled += 1;
        Ok(Flow::Barrier(-1))
    })
}

/// `s_barrier_wait`: -1 is the barrier of the workgroup.
pub fn barrier_wait() -> Meaning {
    special(&[Arg::Imm], |inst, _| match inst.simm() as i16 {
        -1 => step([], |_| Ok(Flow::Barrier(-1))),
        _ => None,
    })
}

/// `s_barrier_signal` and, with SCC = this wave is the first, `s_barrier_signal_isfirst`.
pub fn barrier_signal(first: bool) -> Meaning {
    special(&[Arg::Barrier], move |inst, _| {
        // -1 as an inline constant: the barrier of the workgroup. The others are those of trap
        // handlers and of generations to come.
        if inst.words[0] as u8 != 193 {
            return None;
        }
        step([], move |wave| {
            if first {
                wave.scc = wave.signalled == wave.phases.get();
            }
            wave.signalled += 1;
            wave.phases.set(wave.phases.get().max(wave.signalled));
            Ok(Flow::Next)
        })
    })
}

/// `s_rfe_b64`: the trap handler returns to S0.
pub fn rfe() -> Meaning {
    special(&[Arg::Reg0(2)], |inst, _| {
        let a = inst.src0::<u64>()?;
        step([a.touches(2)], move |wave| {
            let Some(trap) = wave.trap.take() else {
                let text = "s_rfe_b64 outside of a trap handler".into();
                return Err(Stop::Rule(&ISA_RESERVED, text));
            };
            let to = u64::get(a, wave) & 0xffff_ffff_fffc;
            if wave.halted {
                if !trap.told {
                    let id = trap.id;
                    wave.messages.push(Message::HaltedInSilence { id, at: to });
                }
                wave.next = to;
                return Ok(Flow::Halt);
            }
            Ok(Flow::Jump(to))
        })
    })
}

/// `s_sleep_var`.
pub fn sleep_var() -> Meaning {
    special(&[Arg::Src0(1)], |inst, _| {
        let a = inst.src0::<u32>()?;
        step([a.touches(1)], |_| Ok(Flow::Yield))
    })
}

/// `s_sendmsg`: the interrupt is a word to the host, the others say nothing that changes a wave.
pub fn sendmsg() -> Meaning {
    special(&[Arg::Message], |inst, _| {
        let interrupt = inst.simm() & 15 == 1 && inst.simm() >> 4 == 0;
        let old = matches!(inst.generation, Gen::Rdna2 | Gen::Cdna3);
        let doorbell = old && inst.simm() == 10;
        step([], move |wave| {
            if interrupt {
                let (m0, privileged) = (wave.m0, wave.trap.is_some());
                wave.messages.push(Message::Interrupt { m0, privileged });
                if let Some(trap) = &mut wave.trap {
                    trap.told = true;
                }
            } else if doorbell && let (Some(_), Some(handler)) = (wave.trap, wave.handler) {
                // Bit 31, which was set before, says that it has come.
                wave.set_scalar(126, handler.doorbell);
            }
            Ok(Flow::Next)
        })
    })
}

/// `s_sendmsg_rtn`: D = what message S0 asks for.
pub fn sendmsg_rtn<D: Value>() -> Meaning {
    special(&[Arg::Dst(D::DWORDS), Arg::MessageSrc], |inst, _| {
        const DOORBELL: u8 = 0x80;
        const REALTIME: u8 = 0x83;
        // The others ask for what only the driver knows.
        let asked = inst.words[0] as u8;
        if !matches!(asked, DOORBELL | REALTIME) {
            return None;
        }
        let d = inst.dst::<D>()?;
        let regs = registers(d, D::DWORDS);
        step([Some(regs)], move |wave| {
            let answer = match (asked, wave.handler) {
                (REALTIME, _) => wave.seat.now(),
                (_, Some(handler)) if wave.trap.is_some() => handler.doorbell.into(),
                _ => 0,
            };
            D::get(Source::Const(answer), wave).put(d, wave);
            wave.counters.issue(&[Counter::Scalar], Some(regs));
            Ok(Flow::Next)
        })
    })
}

/// `s_trap`: the wave goes on in the trap handler. Where there is none, trap 3, the debugger's, does nothing
/// (LLVM AMDGPUUsage, "trap handler ABI").
pub fn trap() -> Meaning {
    control(Arg::Imm, |wave, simm| match (wave.handler, simm & 0xff) {
        (Some(handler), id) => {
            let status = hwreg::status(wave);
            Ok(Flow::Jump(trap::enter(wave, handler, id.into(), status)))
        }
        (None, 3) => Ok(Flow::Next),
        (None, id) => Err(Stop::Trap(format!(
            "s_trap {id} at {:#x}{}",
            wave.pc,
            if id == 2 { " (llvm.trap)" } else { "" }
        ))),
    })
}

/// The register `index` places after `first`, where there is one.
fn indexed(wave: &Wave, first: u8, index: u32, dwords: u16) -> Result<u8, Stop> {
    let code = u32::from(first).wrapping_add(index);
    u8::try_from(code)
        .ok()
        .filter(|c| *c < 124 && operand::register(wave.generation, *c, dwords).is_some())
        .ok_or_else(|| {
            Stop::Rule(
                &crate::step::SGPR_RANGE,
                format!("SGPR {first} indexed by {index}"),
            )
        })
}

/// D = the register M0 places after S0.
pub fn movrels<T: Value>() -> Meaning {
    special(&[Arg::Dst(T::DWORDS), Arg::Reg0(T::DWORDS)], |inst, _| {
        let (a, d) = (inst.words[0] as u8, inst.dst::<T>()?);
        if a > 105 {
            return None;
        }
        let touches = [m0(inst.generation), Some(registers(d, T::DWORDS))];
        step(touches, move |wave| {
            let from = indexed(wave, a, wave.m0, T::DWORDS)?;
            T::get(Source::Reg(from), wave).put(d, wave);
            Ok(Flow::Next)
        })
    })
}

/// The register M0 places after D = S0.
pub fn movreld<T: Value>() -> Meaning {
    special(&[Arg::Dst(T::DWORDS), Arg::Src0(T::DWORDS)], |inst, _| {
        let (a, d) = (inst.src0::<T>()?, inst.dst::<T>()?);
        let touches = [m0(inst.generation), a.touches(T::DWORDS)];
        step(touches, move |wave| {
            let to = indexed(wave, d, wave.m0, T::DWORDS)?;
            T::get(a, wave).put(to, wave);
            Ok(Flow::Next)
        })
    })
}

/// The register M0\[25:16\] places after D = the register M0\[9:0\] places after S0.
pub fn movrelsd_2() -> Meaning {
    special(&[Arg::Dst(1), Arg::Src0(1)], |inst, _| {
        let (a, d) = (inst.words[0] as u8, inst.dst::<u32>()?);
        if a > 105 {
            return None;
        }
        step([m0(inst.generation)], move |wave| {
            let from = indexed(wave, a, wave.m0 & 0x3ff, 1)?;
            let to = indexed(wave, d, wave.m0 >> 16 & 0x3ff, 1)?;
            u32::get(Source::Reg(from), wave).put(to, wave);
            Ok(Flow::Next)
        })
    })
}

fn m0(generation: Gen) -> Option<crate::step::Regs> {
    Some(registers(operand::m0_code(generation), 1))
}

/// A step that stops: the encoding is reserved, or has no meaning here.
pub fn reserved(text: String) -> Step {
    Step {
        lands: None,
        run: Box::new(move |_| Err(Stop::Rule(&crate::step::ISA_RESERVED, text.clone()))),
        touches: Default::default(),
    }
}

/// The instruction cache fetches anew, this wave from the next instruction on.
pub fn icache_inv() -> Meaning {
    control(Arg::Zero, |wave, _| {
        wave.bus.memory.invalidate(Port::Inst, false);
        Ok(Flow::Refetch)
    })
}
