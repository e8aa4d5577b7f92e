//! How numbers print.

use std::fmt::{self, Formatter};

use crate::operand::Number;

/// From here on a number prints with all its digits and an exponent.
const LARGE: f64 = 1e9;

pub(crate) fn write(f: &mut Formatter<'_>, value: u64, number: Number) -> fmt::Result {
    match number {
        Number::Hex => write!(f, "{value:#x}"),
        Number::Signed | Number::Target | Number::Absolute => match value.cast_signed() {
            negative if negative < 0 => write!(f, "-{:#x}", negative.unsigned_abs()),
            value => write!(f, "{value:#x}"),
        },
        Number::F32 => single(f, value as u32),
        Number::F64 => {
            let high = value as u32;
            let nan = (high & 0x7fff_ffff > 0x7ff0_0000).then_some(high >> 19 & 1 != 0);
            float(f, f64::from_bits(value << 32), high >> 31 != 0, nan)
        }
        Number::F16x2 => {
            half(f, (value >> 16) as u16)?;
            f.write_str(", ")?;
            half(f, value as u16)
        }
        Number::Bf16x2 => {
            single(f, value as u32 & 0xffff_0000)?;
            f.write_str(", ")?;
            single(f, (value << 16) as u32)
        }
        Number::Set => {
            let members = (0..64).rev().filter(|bit| value >> bit & 1 != 0);
            let members: Vec<String> = members.map(|bit| bit.to_string()).collect();
            write!(f, "{{{}}}", members.join(","))
        }
    }
}

fn single(f: &mut Formatter<'_>, bits: u32) -> fmt::Result {
    let nan = (bits & 0x7fff_ffff > 0x7f80_0000).then_some(bits >> 22 & 1 != 0);
    float(f, f64::from(f32::from_bits(bits)), bits >> 31 != 0, nan)
}

fn half(f: &mut Formatter<'_>, bits: u16) -> fmt::Result {
    let (exponent, fraction) = (bits >> 10 & 31, bits & 0x3ff);
    let magnitude = match exponent {
        0 => f64::from(fraction) * 2f64.powi(-24),
        31 => f64::INFINITY,
        _ => f64::from(fraction | 0x400) * 2f64.powi(i32::from(exponent) - 25),
    };
    let nan = (exponent == 31 && fraction != 0).then_some(fraction >> 9 != 0);
    let negative = bits >> 15 != 0;
    float(
        f,
        if negative { -magnitude } else { magnitude },
        negative,
        nan,
    )
}

/// A number with 20 significant digits, as C's `%.20g` prints it, or `%.20e` when it is large.
/// `nan`: it is none; whether it is a quiet one. What is no number prints with a space behind it.
fn float(f: &mut Formatter<'_>, value: f64, negative: bool, nan: Option<bool>) -> fmt::Result {
    let sign = if negative { '-' } else { '+' };
    if let Some(quiet) = nan {
        return write!(f, "{sign}{} ", if quiet { "QNAN" } else { "SNAN" });
    }
    if value.is_infinite() {
        return write!(f, "{sign}INF ");
    }
    if value == 0.0 {
        return f.write_str(if negative { "-0.0 " } else { "0" });
    }
    let large = value.abs() >= LARGE;
    let digits = if large { 20 } else { 19 };
    let text = format!("{:.digits$e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if negative {
        f.write_str("-")?;
    }
    if large {
        return write!(f, "{mantissa}e{exponent:+03}");
    }
    if exponent < -4 {
        let short = mantissa.trim_end_matches('0').trim_end_matches('.');
        return write!(f, "{short}e{exponent:+03}");
    }
    let places = usize::try_from(19 - exponent).unwrap_or_default();
    let text = format!("{:.places$}", value.abs());
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    f.write_str(text)
}
