//! Category 4: functions of one float.
//!
//! The precision of the hardware is not documented; Mesa's Vulkan driver promises what Vulkan demands (2.5 to 3 units
//! in the last place, and 2^-11 absolute for sine and cosine). The executor computes in doubles and rounds to the
//! nearest: correct to half a unit. A program must not depend on more than Vulkan's precision: on request results are off
//! by some units, which differ between sources as if at random and are the same each time. Zeros, infinities and NaN stay
//! what they are. Denormals are 0 on input and output, as for other floats.

use half::f16;

use super::float::{flush, flush_half, value};
use crate::fault::{Result, Stop, broken};
use crate::op::Op;
use crate::regs::{Lanes, Mask, lanes};
use crate::rules;

/// How far beyond pi an angle that was reduced in floats may be.
const SLACK: f64 = 1e-3;

/// A result that is off by up to so many units in the last place.
///
/// Source: Vulkan 1.3, "Precision and Operation of SPIR-V Instructions": 2 to 3 units for 32 bits, 1 to 2 for 16.
fn off(op: Op, full: bool, ulp: u32, source: u32, result: u32) -> u32 {
    let (sign, least, most, ulp) = match full {
        true => (1 << 31, 0x0080_0000, 0x7f7f_ffff, ulp),
        false => (1 << 15, 0x0400, 0x7bff, ulp.min(1)),
    };
    let magnitude = result & !sign;
    if ulp == 0 || !(least..=most).contains(&magnitude) {
        return result;
    }
    let key = u64::from(source) << 8 | op as u64;
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
    let units = (mixed % u64::from(2 * ulp + 1)) as u32;
    let changed = (magnitude + units).saturating_sub(ulp).clamp(least, most);
    result & sign | changed
}

/// The result in the size of the source, off by up to `ulp` units.
pub fn category4(op: Op, full: bool, ulp: u32, mask: Mask, source: &Lanes) -> Result<Lanes> {
    let (f, half_only): (fn(f64) -> f64, bool) = match op {
        Op::Rcp => (f64::recip, false),
        Op::Rsq => (|a| a.sqrt().recip(), false),
        Op::Hrsq => (|a| a.sqrt().recip(), true),
        Op::Log2 => (f64::log2, false),
        Op::Hlog2 => (f64::log2, true),
        Op::Exp2 => (f64::exp2, false),
        Op::Hexp2 => (f64::exp2, true),
        Op::Sin => (f64::sin, false),
        Op::Cos => (f64::cos, false),
        Op::Sqrt => (f64::sqrt, false),
        _ => return broken(&rules::MEANING, op.name()),
    };
    // Halves have operations of their own where there are two: Mesa ir3.h, `cat4_half_opc`.
    let has_half = matches!(op, Op::Rsq | Op::Log2 | Op::Exp2);
    if full && half_only || !full && has_half {
        let size = if full { "full" } else { "half" };
        let what = format!("{} with a {size} source", op.name());
        return broken(&rules::OPERANDS, what);
    }
    // Mesa reduces angles of 32 bits alone: ir3_nir_trig.py.
    let angle = full && matches!(op, Op::Sin | Op::Cos);
    let mut result = [0; super::super::regs::LANES];
    for lane in lanes(mask) {
        let bits = source[lane];
        let source = f64::from(value(bits, full));
        if angle && source.abs() > std::f64::consts::PI + SLACK {
            let what = format!("{} of {source}", op.name());
            return Err(Stop::rule(&rules::SIN_RANGE, what).of(lane));
        }
        let exact = f(source);
        let nearest = match full {
            true => flush(exact as f32).to_bits(),
            false => flush_half(f16::from_f64(exact).to_bits()).into(),
        };
        result[lane] = off(op, full, ulp, bits, nearest);
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Cause;

    fn f(op: Op, value: f32) -> f32 {
        let source = [value.to_bits(); crate::regs::LANES];
        f32::from_bits(category4(op, true, 0, 1, &source).unwrap()[0])
    }

    #[test]
    fn functions() {
        assert_eq!(f(Op::Rcp, 3.0), 1.0 / 3.0);
        assert_eq!(f(Op::Rcp, -0.0), f32::NEG_INFINITY);
        assert_eq!(f(Op::Rsq, 4.0), 0.5);
        assert_eq!(f(Op::Sqrt, 2.0), 2f32.sqrt());
        assert!(f(Op::Sqrt, -2.0).is_nan());
        assert_eq!(f(Op::Log2, 8.0), 3.0);
        assert_eq!(f(Op::Log2, 0.0), f32::NEG_INFINITY);
        assert_eq!(f(Op::Exp2, -2.0), 0.25);
        assert_eq!(f(Op::Exp2, -140.0), 0.0);
        assert!((f(Op::Sin, 1.0) - 1f32.sin()).abs() < 1e-7);
        assert_eq!(f(Op::Cos, 0.0), 1.0);
    }

    #[test]
    fn results_are_off_as_far_as_is_asked_for() {
        let far = |op: Op, ulp: u32, source: f32| {
            let sources = [source.to_bits(); crate::regs::LANES];
            let [nearest, off] = [0, ulp].map(|ulp| {
                let result = category4(op, true, ulp, 1, &sources).unwrap()[0];
                assert_eq!(result, category4(op, true, ulp, 1, &sources).unwrap()[0]);
                result
            });
            off.wrapping_sub(nearest) as i32
        };
        let mut seen = std::collections::BTreeSet::new();
        for n in 1..200 {
            for op in [Op::Rcp, Op::Rsq, Op::Log2, Op::Exp2, Op::Sqrt] {
                seen.insert(far(op, 2, n as f32 * 0.37));
            }
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [-2, -1, 0, 1, 2]);
        // What has no last place, or lies at the end, stays.
        for source in [0.0, f32::INFINITY, f32::NAN] {
            assert_eq!((far(Op::Rcp, 2, source), far(Op::Sqrt, 2, source)), (0, 0));
        }
        let half = f16::from_f32(3.0).to_bits().into();
        let results = [0, 7].map(|ulp| {
            let source = [half; crate::regs::LANES];
            category4(Op::Rcp, false, ulp, 1, &source).unwrap()[0]
        });
        assert!(results[0].abs_diff(results[1]) <= 1, "{results:x?}");
    }

    #[test]
    fn halves_have_operations_of_their_own() {
        let source = [f16::from_f32(4.0).to_bits().into(); crate::regs::LANES];
        let half = category4(Op::Hrsq, false, 0, 1, &source).unwrap()[0];
        assert_eq!(f16::from_bits(half as u16).to_f32(), 0.5);
        let error = category4(Op::Rsq, false, 0, 1, &source).unwrap_err();
        assert!(matches!(*error.cause, Cause::Rule { rule, .. } if rule.name == "IR3-OPERANDS"));
    }
}
