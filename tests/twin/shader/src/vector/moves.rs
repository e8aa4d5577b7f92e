//! Instructions that move between lanes, registers and register files.

use crate::step::{Flow, Run};
use crate::wave::{Lanes, Wave};

use super::arith;
use super::inst::Inst;
use super::lanes;
use super::math;
use super::operand::{Kind, Source};
use super::rules;
use super::run::Operands;
use super::value::{Env, Exact};

/// An encoding without meaning.
pub fn reserved(inst: &Inst, _: Operands) -> Run {
    let text = inst.to_string();
    Box::new(move |_| Err(rules::reserved(text.clone())))
}

/// An instruction that does nothing.
pub fn nothing(_: &Inst, _: Operands) -> Run {
    Box::new(|_| Ok(Flow::Next))
}

/// A source of 32 bits that is the same in all lanes.
fn uniform(source: &Source, wave: &Wave) -> u32 {
    let mut room = [[0; 32]; 2];
    source.fetch(wave, 0, false, &mut room)[0][0]
}

/// The lanes of a source of 32 bits, by half.
fn all(operands: &Operands, source: usize, wave: &Wave) -> [Lanes; 2] {
    let mut lanes = [[0; 32]; 2];
    for (half, lanes) in lanes.iter_mut().enumerate().take(operands.halves) {
        *lanes = operands.src[source].slow(wave, half, false)[0];
    }
    lanes
}

/// Writes a VGPR where EXEC says.
fn write(wave: &mut Wave, vgpr: usize, from: &[Lanes; 2], halves: usize) {
    for (half, from) in from.iter().enumerate().take(halves) {
        let exec = wave.exec_half(half);
        lanes::blend(wave.vgpr_mut(vgpr, half), from, exec);
    }
}

/// One lane of a source, which is a VGPR or the same in all lanes.
fn lane_of(operands: &Operands, wave: &Wave, lane: usize) -> u32 {
    match operands.src[0].source {
        Source::Vgpr(register) => wave.vgpr(register, lane / 32)[lane % 32],
        ref other => uniform(other, wave),
    }
}

/// `v_readfirstlane_b32`: the lowest active lane, lane 0 where none is.
pub fn readfirstlane(inst: &Inst, operands: Operands) -> Run {
    let dst = inst.dst;
    Box::new(move |wave| {
        operands.check(wave)?;
        let lane = if wave.exec == 0 {
            0
        } else {
            wave.exec.trailing_zeros() as usize
        };
        wave.set_scalar(dst, lane_of(&operands, wave, lane));
        Ok(Flow::Next)
    })
}

/// `v_readlane_b32`, whatever EXEC is.
pub fn readlane(inst: &Inst, operands: Operands) -> Run {
    let dst = inst.dst;
    Box::new(move |wave| {
        operands.check(wave)?;
        let lane = uniform(&operands.src[1].source, wave) as usize % (32 * operands.halves);
        wave.set_scalar(dst, lane_of(&operands, wave, lane));
        Ok(Flow::Next)
    })
}

/// `v_writelane_b32`, whatever EXEC is.
pub fn writelane(_: &Inst, operands: Operands) -> Run {
    Box::new(move |wave| {
        operands.check(wave)?;
        let value = uniform(&operands.src[0].source, wave);
        let lane = uniform(&operands.src[1].source, wave) as usize % (32 * operands.halves);
        wave.vgpr_mut(operands.dst.vgpr, lane / 32)[lane % 32] = value;
        Ok(Flow::Next)
    })
}

/// `v_swap_b32` and `v_swap_b16`.
pub fn swap(inst: &Inst, operands: Operands) -> Run {
    let Source::Vgpr(other) = operands.src[0].source else {
        return reserved(inst, operands);
    };
    let half_register = operands.src[0].kind.is_half();
    let high = [inst.opsel & 8 != 0, inst.opsel & 1 != 0];
    Box::new(move |wave| {
        operands.check(wave)?;
        let this = operands.dst.vgpr;
        for half in 0..operands.halves {
            let exec = wave.exec_half(half);
            let (a, b) = (*wave.vgpr(this, half), *wave.vgpr(other, half));
            if !half_register {
                lanes::blend(wave.vgpr_mut(this, half), &b, exec);
                lanes::blend(wave.vgpr_mut(other, half), &a, exec);
                continue;
            }
            let shift = high.map(|high| if high { 16 } else { 0 });
            for lane in (0..32).filter(|lane| exec >> lane & 1 != 0) {
                let x = a[lane] >> shift[0] & 0xffff;
                let y = b[lane] >> shift[1] & 0xffff;
                let to = &mut wave.vgpr_mut(this, half)[lane];
                *to = *to & !(0xffff << shift[0]) | y << shift[0];
                let to = &mut wave.vgpr_mut(other, half)[lane];
                *to = *to & !(0xffff << shift[1]) | x << shift[1];
            }
        }
        Ok(Flow::Next)
    })
}

/// `v_permlane64_b32`: lanes 0 to 31 and 32 to 63 change places; nothing in a wave of 32 lanes.
pub fn permlane64(_: &Inst, operands: Operands) -> Run {
    Box::new(move |wave| {
        operands.check(wave)?;
        if operands.halves == 2 {
            let [a, b] = all(&operands, 0, wave);
            write(wave, operands.dst.vgpr, &[b, a], 2);
        }
        Ok(Flow::Next)
    })
}

/// Lanes of the first source by the numbers that `select` gives for row and lane in the row. A lane
/// that is not active gives its value only where `fetch_inactive` says so, else with `zero` it
/// gives 0, else the destination keeps its value.
fn permute(
    operands: &Operands,
    wave: &mut Wave,
    opsel: u8,
    select: impl Fn(usize, usize) -> usize,
) {
    let (fetch_inactive, zero) = (opsel & 1 != 0, opsel & 2 != 0);
    let from = all(operands, 0, wave);
    let mut to = [[0; 32]; 2];
    let mut enabled = [0u32; 2];
    for lane in 0..32 * operands.halves {
        let source = select(lane / 16, lane % 16);
        let valid = fetch_inactive || wave.exec >> source & 1 != 0;
        if valid {
            to[lane / 32][lane % 32] = from[source / 32][source % 32];
        }
        if valid || zero {
            enabled[lane / 32] |= 1 << (lane % 32);
        }
    }
    for half in 0..operands.halves {
        let exec = wave.exec_half(half) & enabled[half];
        lanes::blend(wave.vgpr_mut(operands.dst.vgpr, half), &to[half], exec);
    }
}

fn permlane(inst: &Inst, operands: Operands, across: usize) -> Run {
    let opsel = inst.opsel;
    Box::new(move |wave| {
        operands.check(wave)?;
        let low = u64::from(uniform(&operands.src[1].source, wave));
        let high = u64::from(uniform(&operands.src[2].source, wave));
        let select = high << 32 | low;
        permute(&operands, wave, opsel, |row, lane| {
            16 * (row ^ across) + (select >> (4 * lane) & 15) as usize
        });
        Ok(Flow::Next)
    })
}

/// `v_permlane16_b32`: any lane of the same row of 16.
pub fn permlane16(inst: &Inst, operands: Operands) -> Run {
    permlane(inst, operands, 0)
}

/// `v_permlanex16_b32`: any lane of the other row of 32 lanes.
pub fn permlanex16(inst: &Inst, operands: Operands) -> Run {
    permlane(inst, operands, 1)
}

fn permlane_var(inst: &Inst, operands: Operands, across: usize) -> Run {
    let opsel = inst.opsel;
    Box::new(move |wave| {
        operands.check(wave)?;
        let by = all(&operands, 1, wave);
        permute(&operands, wave, opsel, |row, lane| {
            let at = 16 * row + lane;
            16 * (row ^ across) + (by[at / 32][at % 32] & 15) as usize
        });
        Ok(Flow::Next)
    })
}

/// `v_permlane16_var_b32`: each lane says which one of its row.
pub fn permlane16_var(inst: &Inst, operands: Operands) -> Run {
    permlane_var(inst, operands, 0)
}

/// `v_permlanex16_var_b32`: each lane says which one of the other row.
pub fn permlanex16_var(inst: &Inst, operands: Operands) -> Run {
    permlane_var(inst, operands, 1)
}

/// Source and destination, moved by what M0 says, for the instructions that choose registers by it.
fn relative(
    inst: &Inst,
    operands: Operands,
    source_by: fn(u32) -> u32,
    dst_by: fn(u32) -> u32,
    swap: bool,
) -> Run {
    let vgpr = match operands.src[0].source {
        Source::Vgpr(register) => Some(register),
        _ => None,
    };
    if vgpr.is_none() && source_by(u32::MAX) != 0 {
        return reserved(inst, operands);
    }
    Box::new(move |wave| {
        let dst = operands.dst.vgpr + dst_by(wave.m0) as usize;
        let from = vgpr.map(|vgpr| vgpr + source_by(wave.m0) as usize);
        let needed = dst.max(from.unwrap_or(0)) + 1;
        if needed > wave.vgprs {
            return Err(rules::beyond(needed, wave.vgprs));
        }
        for half in 0..operands.halves {
            let exec = wave.exec_half(half);
            let value = match from {
                Some(from) => *wave.vgpr(from, half),
                None => operands.src[0].slow(wave, half, false)[0],
            };
            let old = *wave.vgpr(dst, half);
            lanes::blend(wave.vgpr_mut(dst, half), &value, exec);
            if let (true, Some(from)) = (swap, from) {
                lanes::blend(wave.vgpr_mut(from, half), &old, exec);
            }
        }
        Ok(Flow::Next)
    })
}

fn none(_: u32) -> u32 {
    0
}
fn whole(m0: u32) -> u32 {
    m0
}
fn low(m0: u32) -> u32 {
    m0 & 0x3ff
}
fn high(m0: u32) -> u32 {
    m0 >> 16 & 0x3ff
}

/// `v_movreld_b32`.
pub fn movreld(inst: &Inst, operands: Operands) -> Run {
    relative(inst, operands, none, whole, false)
}

/// `v_movrels_b32`.
pub fn movrels(inst: &Inst, operands: Operands) -> Run {
    relative(inst, operands, whole, none, false)
}

/// `v_movrelsd_b32`.
pub fn movrelsd(inst: &Inst, operands: Operands) -> Run {
    relative(inst, operands, whole, whole, false)
}

/// `v_movrelsd_2_b32`.
pub fn movrelsd_2(inst: &Inst, operands: Operands) -> Run {
    relative(inst, operands, low, high, false)
}

/// `v_swaprel_b32`.
pub fn swaprel(inst: &Inst, operands: Operands) -> Run {
    relative(inst, operands, low, high, true)
}

/// Counts the bits of a mask below each lane; `first` is the lane of its lowest bit.
fn mbcnt(operands: Operands, first: usize) -> Run {
    let below: [Lanes; 2] = [0, 32].map(|start| {
        std::array::from_fn(|i| match (start + i).saturating_sub(first) {
            32.. => u32::MAX,
            n => (1 << n) - 1,
        })
    });
    Box::new(move |wave| {
        operands.check(wave)?;
        let (mask, add) = (all(&operands, 0, wave), all(&operands, 1, wave));
        let mut to = [[0; 32]; 2];
        for half in 0..operands.halves {
            for i in 0..32 {
                let counted = (mask[half][i] & below[half][i]).count_ones();
                to[half][i] = counted.wrapping_add(add[half][i]);
            }
        }
        write(wave, operands.dst.vgpr, &to, operands.halves);
        Ok(Flow::Next)
    })
}

/// `v_mbcnt_lo_u32_b32`.
pub fn mbcnt_lo(_: &Inst, operands: Operands) -> Run {
    mbcnt(operands, 0)
}

/// `v_mbcnt_hi_u32_b32`.
pub fn mbcnt_hi(_: &Inst, operands: Operands) -> Run {
    mbcnt(operands, 32)
}

/// `v_mqsad_u32_u8`: four masked sums onto four dwords.
pub fn mqsad(inst: &Inst, operands: Operands) -> Run {
    let clamp = inst.clamp;
    let Source::Vgpr(onto) = operands.src[2].source else {
        return reserved(inst, operands);
    };
    Box::new(move |wave| {
        operands.check(wave)?;
        for half in 0..operands.halves {
            let exec = wave.exec_half(half);
            let data = operands.src[0].slow(wave, half, true);
            let reference = operands.src[1].slow(wave, half, false)[0];
            let mut to = [[0; 32]; 4];
            for (i, to) in to.iter_mut().enumerate() {
                let onto = wave.vgpr(onto + i, half);
                for lane in 0..32 {
                    let bytes = (arith::both(data[1][lane], data[0][lane]) >> (8 * i)) as u32;
                    let sum = arith::msad8(bytes, reference[lane]);
                    to[lane] = if clamp {
                        sum.saturating_add(onto[lane])
                    } else {
                        sum.wrapping_add(onto[lane])
                    };
                }
            }
            for (i, to) in to.iter().enumerate() {
                lanes::blend(wave.vgpr_mut(operands.dst.vgpr + i, half), to, exec);
            }
        }
        Ok(Flow::Next)
    })
}

/// A function of one scalar float.
fn scalar(inst: &Inst, operands: Operands, f: fn(f32) -> f32) -> Run {
    let dst = inst.dst;
    let input = operands.src[0].clone();
    let finish = operands.finish;
    Box::new(move |wave| {
        let value = input.slow(wave, 0, false)[0][0];
        let env = Exact::new(wave, input.kind);
        let result = if input.kind == Kind::F16 {
            u32::from(env.write16(f(env.read16(value as u16))))
        } else {
            env.write32(f(env.read32(f32::from_bits(value)))).to_bits()
        };
        let (mut low, mut high) = ([result; 32], [0; 32]);
        if let Some(finish) = &finish {
            finish.apply(wave, &mut low, &mut high);
        }
        wave.set_scalar(dst, low[0]);
        Ok(Flow::Next)
    })
}

macro_rules! scalars {
    ($($(#[$doc:meta])* $name:ident $f:path;)*) => {
        $($(#[$doc])*
        pub fn $name(inst: &Inst, operands: Operands) -> Run {
            scalar(inst, operands, $f)
        })*
    };
}
scalars! {
    /// `v_s_exp_f32`.
    s_exp_f32 math::exp2;
    /// `v_s_exp_f16`.
    s_exp_f16 math::exp16;
    /// `v_s_log_f32`.
    s_log_f32 math::log2;
    /// `v_s_log_f16`.
    s_log_f16 math::log16;
    /// `v_s_rcp_f32`.
    s_rcp_f32 math::rcp32;
    /// `v_s_rcp_f16`.
    s_rcp_f16 math::rcp16;
    /// `v_s_rsq_f32`.
    s_rsq_f32 math::rsq32;
    /// `v_s_rsq_f16`.
    s_rsq_f16 math::rsq16;
    /// `v_s_sqrt_f32`.
    s_sqrt_f32 math::sqrt32;
    /// `v_s_sqrt_f16`.
    s_sqrt_f16 math::sqrt16;
}
