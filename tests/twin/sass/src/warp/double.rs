//! Doubles.

use std::cmp::Ordering;

use super::integer::Combine;
use super::program::Refusal;
use super::rounding::{Rounding, fused};
use super::single::Compare;
use super::source::{Condition, Flag, Place, Reading, Source, Style};
use super::state::{Constants, State, each, mask};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Add(Place, [Source; 2], Rounding),
    Multiply(Place, [Source; 2], Rounding),
    Fused(Place, [Source; 3], Rounding),
    Compare([Flag; 2], [Source; 2], Compare, Combine, Condition),
    /// Whether the first is the smaller one, or the greater, and whether neither is a number: what
    /// compiled code does with the two says so.
    Pick([Flag; 2], [Source; 2], bool, Combine, Condition),
}

pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    let float = Style::Float;
    let rounding = Rounding::read(r);
    Ok(Some(match name {
        "DADD" => Op::Add(r.place()?, [r.source(float)?, r.source(float)?], rounding),
        "DMUL" => Op::Multiply(r.place()?, [r.source(float)?, r.source(float)?], rounding),
        "DFMA" => Op::Fused(
            r.place()?,
            [r.source(float)?, r.source(float)?, r.source(float)?],
            rounding,
        ),
        "DSETP" => {
            let (to, of) = ([r.flag()?, r.flag()?], [r.source(float)?, r.source(float)?]);
            let (combine, with) = (Combine::read(r), r.condition()?);
            match r.choice(&[(".MIN", true), (".MAX", false)]) {
                Some(least) => Op::Pick(to, of, least, combine, with),
                None => Op::Compare(to, of, Compare::read(r)?, combine, with),
            }
        }
        _ => return Ok(None),
    }))
}

/// The bits of a result. Which it has that is no number is UNKNOWN; this is what compilers fold to.
pub(crate) fn canonical(x: f64) -> u64 {
    if x.is_nan() {
        0xfff8_0000_0000_0000
    } else {
        x.to_bits()
    }
}

pub(crate) fn run(state: &mut State, c: &Constants, op: &Op, active: u32) {
    let three =
        |state: &mut State, to: Place, of: [Source; 3], how: &dyn Fn(f64, f64, f64) -> f64| {
            let [a, b, d] = of.map(|source| state.pair(&source, c).map(f64::from_bits));
            let value = each(|i| canonical(how(a[i], b[i], d[i])));
            state.put_pair(to, active, &value);
        };
    match *op {
        Op::Add(to, [a, b], Rounding::Nearest) => three(state, to, [a, b, b], &|x, y, _| x + y),
        Op::Add(to, [a, b], rounding) => {
            three(state, to, [a, b, b], &|x, y, _| fused(x, 1.0, y, rounding))
        }
        Op::Multiply(to, [a, b], Rounding::Nearest) => {
            three(state, to, [a, b, b], &|x, y, _| x * y)
        }
        Op::Multiply(to, [a, b], rounding) => three(state, to, [a, b, b], &|x, y, _| {
            // Zero that is added takes the sign of the product.
            let negative = x.is_sign_negative() != y.is_sign_negative();
            fused(x, y, if negative { -0.0 } else { 0.0 }, rounding)
        }),
        Op::Fused(to, of, rounding) => three(state, to, of, &|x, y, z| fused(x, y, z, rounding)),
        Op::Compare(to, ref of, compare, combine, with) => {
            let [a, b] = of.map(|source| state.pair(&source, c).map(f64::from_bits));
            let holds = mask(|i| compare.holds(&a[i], &b[i]));
            let with = state.test(with);
            state.set(to[0], active, combine.of(holds, with));
            state.set(to[1], active, combine.of(!holds, with));
        }
        Op::Pick(to, ref of, least, combine, with) => {
            let [a, b] = of.map(|source| state.pair(&source, c).map(f64::from_bits));
            // Zeros are told apart, too.
            let first = |x: f64, y: f64| match x.partial_cmp(&y) {
                Some(Ordering::Less) => least,
                Some(Ordering::Greater) => !least,
                Some(Ordering::Equal) => x.is_sign_negative() == least,
                None => y.is_nan() && !x.is_nan(),
            };
            let with = state.test(with);
            let none = mask(|i| a[i].is_nan() && b[i].is_nan());
            state.set(to[0], active, combine.of(mask(|i| first(a[i], b[i])), with));
            state.set(to[1], active, combine.of(none, with));
        }
    }
}
