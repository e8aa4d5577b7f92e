//! Category 4: functions of one float.
//!
//! The precision of the hardware is not documented; Mesa's Vulkan driver promises what Vulkan demands (2.5 to 3 units
//! in the last place, and 2^-11 absolute for sine and cosine). The executor computes in doubles and rounds to the
//! nearest: correct to half a unit. A program must not depend on more than Vulkan's precision. Denormals are 0 on input
//! and output, as for other floats.

use half::f16;

use super::float::{flush, flush_half, value};
use crate::fault::{Result, Stop, broken};
use crate::op::Op;
use crate::regs::{Lanes, Mask, lanes};
use crate::rules;

/// How far beyond pi an angle that was reduced in floats may be.
const SLACK: f64 = 1e-3;

/// The result in the size of the source.
pub fn category4(op: Op, full: bool, mask: Mask, source: &Lanes) -> Result<Lanes> {
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
        let source = f64::from(value(source[lane], full));
        if angle && source.abs() > std::f64::consts::PI + SLACK {
            let what = format!("{} of {source}", op.name());
            return Err(Stop::rule(&rules::SIN_RANGE, what).of(lane));
        }
        let exact = f(source);
        result[lane] = match full {
            true => flush(exact as f32).to_bits(),
            false => flush_half(f16::from_f64(exact).to_bits()).into(),
        };
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Cause;

    fn f(op: Op, value: f32) -> f32 {
        let source = [value.to_bits(); crate::regs::LANES];
        f32::from_bits(category4(op, true, 1, &source).unwrap()[0])
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
    fn halves_have_operations_of_their_own() {
        let source = [f16::from_f32(4.0).to_bits().into(); crate::regs::LANES];
        let half = category4(Op::Hrsq, false, 1, &source).unwrap()[0];
        assert_eq!(f16::from_bits(half as u16).to_f32(), 0.5);
        let error = category4(Op::Rsq, false, 1, &source).unwrap_err();
        assert!(matches!(*error.cause, Cause::Rule { rule, .. } if rule.name == "IR3-OPERANDS"));
    }
}
