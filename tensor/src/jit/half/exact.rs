//! What positions are made of: it keeps its digits where other values are rounded to `f16`.
//!
//! A rounding error in a place is another element, and one in a number that becomes whole is another number: they do not
//! grow with the error, they are there or not. So all that such a number is made of stays as it is, back to the inputs:
//!
//! - indices of gathers and scatters, and what is checked as one;
//! - floats and truth values that become integers, and conditions that choose among integers;
//! - floats that become whole numbers, and the dividends and divisors of remainders;
//! - angles, whose turns are such remainders;
//! - floats that are compared with positions, which are what integers became by arithmetic;
//! - what goes into a loop that does any of this, and the next value of a state that is one of these.
//!
//! A comparison of other values (a rectifier, a limit) stays as near as they are, or is wrong among equals only.

use hashbrown::{HashMap, HashSet};

use codegen::DType;
use codegen::ir::{Binary, Unary};

use crate::graph::{Loop, Op, Tensor};
use crate::walk::below;

/// Floats that positions may be compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The same number everywhere.
    Number,
    /// Made of integers by arithmetic on single elements.
    Counted,
}

/// Which of some tensors, sources first, are places.
fn places(all: &[Tensor]) -> HashMap<u64, Place> {
    let mut found: HashMap<u64, Place> = HashMap::new();
    for tensor in all.iter().filter(|t| t.dtype().is_float()) {
        let (node, sources) = (tensor.node(), tensor.node().src());
        let place = match &node.op {
            Op::Const(_) => Some(Place::Number),
            // Of a loop: it may be one.
            Op::Param => Some(Place::Counted),
            // Exporters compute positions, and keep them as weights.
            _ if tensor.storage().is_some() => counts(tensor).then_some(Place::Counted),
            Op::Cast if sources.iter().any(|s| s.dtype().is_int()) => Some(Place::Counted),
            Op::Where => joined(&found, sources.iter().skip(1)),
            Op::Cast | Op::Unary(_) | Op::Binary(_) | Op::Contiguous | Op::Detach => {
                joined(&found, sources.iter())
            }
            op if op.is_movement() => joined(&found, sources.iter()),
            _ => None,
        };
        if let Some(place) = place {
            found.insert(tensor.id(), place);
        }
    }
    found
}

/// Whether weights are whole numbers, not all the same: positions may be.
fn counts(weights: &Tensor) -> bool {
    let (count, dtype) = (weights.shape().iter().product::<usize>(), weights.dtype());
    if dtype != DType::F32 || !(2..=1 << 16).contains(&count) {
        return false;
    }
    let Ok(bytes) = weights.to_bytes() else {
        return false;
    };
    let values = bytes.chunks_exact(4);
    let mut values = values.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let first = values.clone().next();
    values.clone().all(|v| v.fract() == 0.0) && values.any(|v| Some(v) != first)
}

/// What arithmetic makes of some places; none if there is something else among them.
fn joined<'t>(
    found: &HashMap<u64, Place>,
    sources: impl Iterator<Item = &'t Tensor>,
) -> Option<Place> {
    let mut all = Place::Number;
    for source in sources {
        if *found.get(&source.id())? == Place::Counted {
            all = Place::Counted;
        }
    }
    Some(all)
}

/// The sources of a node whose digits decide on something whole.
fn decisive<'s>(
    tensor: &Tensor,
    sources: &'s [Tensor],
    places: &HashMap<u64, Place>,
) -> &'s [Tensor] {
    let none = &sources[..0];
    let float = |t: &Tensor| t.dtype().is_float();
    let index = |at: usize| sources.get(at..=at).unwrap_or(none);
    match &tensor.node().op {
        Op::Gather(_) | Op::Scatter(..) => index(1),
        Op::Where if tensor.dtype().is_int() => index(0),
        Op::Checked(_) => sources,
        Op::Cast | Op::Bitcast if tensor.dtype().is_int() => {
            let whole = sources.iter().all(|s| s.dtype().is_int());
            if whole { none } else { sources }
        }
        Op::Unary(Unary::Trunc | Unary::Floor | Unary::Ceil | Unary::RoundEven) => sources,
        // The error of an angle grows with it, beyond a whole turn.
        Op::Unary(Unary::Sin | Unary::Cos | Unary::Tan) => sources,
        Op::Binary(Binary::TruncMod) if float(tensor) => sources,
        Op::Binary(op) if op.is_compare() && sources.iter().all(float) => {
            let counted = |t: &Tensor| places.get(&t.id()) == Some(&Place::Counted);
            if sources.iter().any(counted) {
                sources
            } else {
                none
            }
        }
        Op::Loop(body, _) if decides(body) => sources,
        _ => none,
    }
}

/// Whether something whole is decided on in a loop.
fn decides(body: &Loop) -> bool {
    let all = below(&body.results, |_| false);
    let places = places(&all);
    let made = all.iter().filter(|t| t.storage().is_none());
    let mut made = made.map(|t| (t, t.node().src()));
    made.any(|(t, sources)| !decisive(t, &sources, &places).is_empty())
}

/// The tensors among some, sources first, that positions are made of. `states` are inputs with their next values.
pub(super) fn exact(all: &[Tensor], states: &[(Tensor, Tensor)]) -> HashSet<u64> {
    let places = places(all);
    let mut exact: HashSet<u64> = HashSet::new();
    loop {
        let before = exact.len();
        for tensor in all.iter().rev().filter(|t| t.storage().is_none()) {
            let sources = tensor.node().src();
            let own = match exact.contains(&tensor.id()) {
                true => &*sources,
                false => decisive(tensor, &sources, &places),
            };
            exact.extend(own.iter().map(Tensor::id));
        }
        for (input, next) in states {
            if exact.contains(&input.id()) {
                exact.insert(next.id());
            }
        }
        if exact.len() == before {
            return exact;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Engine;
    use codegen::DType;

    /// Whether a product below a value is exact.
    fn is_exact(e: &Engine, value: impl Fn(&Tensor) -> crate::Result<Tensor>) -> bool {
        let of = |rows, columns| Tensor::make(e, Op::Given, &[], &[rows, columns], DType::F32);
        let product = of(4, 3).matmul(&of(3, 5)).unwrap();
        let root = value(&product).unwrap();
        let all = below(std::slice::from_ref(&root), |_| false);
        exact(&all, &[]).contains(&product.id())
    }

    #[test]
    fn what_positions_are_made_of_is_exact() {
        let e = Engine::reference();
        let table = Tensor::from_slice(&e, &[1.0f32; 8], &[8]).unwrap();
        let rows = |t: &Tensor| table.rows(0, &t.cast(DType::I64)?.reshape(&[20])?);
        assert!(is_exact(&e, |p| rows(p)));
        assert!(is_exact(&e, |p| rows(
            &p.div(3.0)?.round()?.clip(0.0, 7.0)?
        )));
        assert!(is_exact(&e, |p| p.cast(DType::U8)));
        assert!(is_exact(&e, |p| p.bitcast(DType::I32)));
        assert!(is_exact(&e, |p| p.floor()?.mul(0.5)));
        assert!(is_exact(&e, |p| p.fmod(2.0)));
        assert!(is_exact(&e, |p| p.argmax(1, false)));
        assert!(is_exact(&e, |p| p.gt(0.5)?.cast(DType::I32)));
        // A column that is chosen by its number.
        assert!(is_exact(&e, |p| {
            let at = p.positions(1)?.cast(DType::F32)?.mul(0.25)?;
            p.sum(&[1], true)?
                .expand(&[4, 5])?
                .eq(&at)?
                .cast(DType::F32)
        }));
        // The way may be long, and a condition a part of it.
        assert!(is_exact(&e, |p| {
            let place = p.lt(0.0)?.where_(&p.neg()?, 3.5)?.sqrt()?;
            rows(&place)
        }));
    }

    #[test]
    fn activations_are_not() {
        let e = Engine::reference();
        for f in [
            Tensor::relu,
            Tensor::sigmoid,
            Tensor::tanh,
            Tensor::exp,
            Tensor::silu,
            Tensor::gelu,
            Tensor::gelu_tanh,
            Tensor::mish,
            Tensor::softsign,
            Tensor::hardswish,
            Tensor::relu6,
        ] {
            assert!(!is_exact(&e, f));
        }
        assert!(!is_exact(&e, |p| p.elu(1.0)));
        assert!(!is_exact(&e, |p| p.softmax(1)));
        assert!(!is_exact(&e, |p| p.clip(-11.0, 11.0)));
        assert!(!is_exact(&e, |p| p.layer_norm(1, None, None, 1e-5)));
        assert!(!is_exact(&e, |p| p.logsumexp(&[1], false)));
    }

    #[test]
    fn a_state_that_is_a_position_has_an_exact_next_value() {
        let e = Engine::reference();
        let of = |rows, columns| Tensor::make(&e, Op::Given, &[], &[rows, columns], DType::F32);
        let state = of(4, 5);
        let product = of(4, 3).matmul(&of(3, 5)).unwrap();
        let next = state.add(&product).unwrap();
        let place = state.cast(DType::I32).unwrap();
        let all = below(&[next.clone(), place], |_| false);
        assert!(!exact(&all, &[]).contains(&product.id()));
        assert!(exact(&all, &[(state, next)]).contains(&product.id()));
    }
}
