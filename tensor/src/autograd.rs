//! Reverse-mode differentiation as a transformation of the graph.
//!
//! The gradient is again a graph of ordinary operations, so it is fused and run like any other, and
//! can itself be differentiated. There is one rule per [`Op`], in `sources`.
//!
//! Where the derivative does not exist, the choices are PyTorch's: `abs` has 0 at 0; `maximum` and `minimum` split
//! the gradient between equal operands, and reductions by maximum or minimum among all equal elements; `clamp` has
//! 0 at limits that are numbers, and shares it with limits that are tensors; `norm`,
//! `normalize` and `std` have 0 where the norm is 0 (an explicit square root of a sum has NaN there);
//! running extrema give it to the latest of equals; rounding has 0 everywhere. Integers, booleans and bit casts
//! have no gradient, nor has anything computed in [`no_grad`](crate::no_grad()).

mod looped;
mod products;
mod scaled;

use hashbrown::{HashMap, HashSet};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};
use std::sync::Arc;

use codegen::DType;
use codegen::ir::{Binary, ReduceOp, Unary};

use crate::error::Result;
use crate::graph::{LoopOutput, Op, ScatterMode, Slope, Storage, Tensor};
use crate::ops::{dtype_error, same_engine, shape_error};
use looped::looped;

/// The derivative of a one-element tensor with respect to each of `with`, in their shapes and types;
/// zeros where it does not depend on one.
///
/// # Errors
/// A tensor with more than one element (see [`gradients_from`]), or of a non-float type. A current parameter value,
/// if the tensor depends on an earlier one. A tensor whose graph was freed by [`crate::nn::Optimizer::minimize`].
pub fn gradients(of: &Tensor, with: &[&Tensor]) -> Result<Vec<Tensor>> {
    or_zeros(dependence(of, with)?, with)
}

/// [`gradients`] with none where it does not depend on one.
///
/// # Errors
/// As [`gradients`].
pub fn dependence(of: &Tensor, with: &[&Tensor]) -> Result<Vec<Option<Tensor>>> {
    if of.numel() != 1 {
        return shape_error(
            "gradients",
            format!(
                "expected exactly one element, found shape {:?}; reduce it, or pass a seed to gradients_from",
                of.shape()
            ),
        );
    }
    seeded(of, &of.ones_like()?, with)
}

/// The derivative of the sum of `of * seed` with respect to each of `with`.
///
/// # Errors
/// A seed of another shape or type; non-float types.
pub fn gradients_from(of: &Tensor, seed: &Tensor, with: &[&Tensor]) -> Result<Vec<Tensor>> {
    or_zeros(seeded(of, seed, with)?, with)
}

/// [`gradients_from`] with none where it does not depend on one.
///
/// # Errors
/// As [`gradients_from`].
pub fn dependence_from(
    of: &Tensor,
    seed: &Tensor,
    with: &[&Tensor],
) -> Result<Vec<Option<Tensor>>> {
    seeded(of, seed, with)
}

fn or_zeros(found: Vec<Option<Tensor>>, with: &[&Tensor]) -> Result<Vec<Tensor>> {
    let all = found.into_iter().zip(with);
    all.map(|(gradient, t)| gradient.map_or_else(|| t.zeros_like(), Ok))
        .collect()
}

fn seeded(of: &Tensor, seed: &Tensor, with: &[&Tensor]) -> Result<Vec<Option<Tensor>>> {
    same_engine("gradients", of, seed)?;
    if of.shape() != seed.shape() || of.dtype() != seed.dtype() {
        return shape_error(
            "gradients",
            format!(
                "the seed is {:?} {}, expected {:?} {}",
                seed.shape(),
                seed.dtype(),
                of.shape(),
                of.dtype()
            ),
        );
    }
    if let Some(wrong) = with
        .iter()
        .copied()
        .chain([of])
        .find(|t| !t.dtype().is_float())
    {
        return dtype_error(
            "gradients",
            format!(
                "{} has no derivative; only floats can be differentiated",
                wrong.dtype()
            ),
        );
    }
    backward(&[(of.clone(), seed.clone())], with)
}

/// The derivative of the sum of all tensors times their seeds with respect to each of `with`; none
/// where they do not depend on one.
fn backward(of: &[(Tensor, Tensor)], with: &[&Tensor]) -> Result<Vec<Option<Tensor>>> {
    let wanted: HashSet<u64> = with.iter().map(|t| t.id()).collect();
    let (owners, output) = parameters(of.iter().map(|(t, _)| t), with)?;
    let order = dependents(of.iter().map(|(t, _)| t), with);
    let live: HashSet<u64> = order.iter().map(Tensor::id).collect();
    if let (true, Some(output)) = (live.is_empty(), output) {
        return shape_error(
            "gradients",
            format!(
                "it depends on none of the requested tensors. It is computed from {output:?}, an output \
                 of a captured function without a graph; take the gradients inside the function"
            ),
        );
    }
    let mut same: Vec<&Tensor> = with.to_vec();
    for t in same.iter_mut().filter(|t| !live.contains(&t.id())) {
        let Some(other) = t.owner().and_then(|owner| owners.get(&owner)) else {
            continue;
        };
        if !one_value(t, other) {
            return shape_error(
                "gradients",
                format!(
                    "{t:?} is the current value of a parameter, but this was computed from its old \
                     value {other:?}; rebuild it after the parameter is set"
                ),
            );
        }
        *t = other;
    }
    if same.iter().zip(with).any(|(a, b)| a.id() != b.id()) {
        return backward(of, &same);
    }
    let mut pending: HashMap<u64, Tensor> = HashMap::new();
    let mut found: HashMap<u64, Tensor> = HashMap::new();
    let add = |pending: &mut HashMap<u64, Tensor>, to: &Tensor, part: Tensor| {
        let sum = match pending.remove(&to.id()) {
            Some(before) => before.add(&part)?,
            None => part,
        };
        pending.insert(to.id(), sum);
        Ok::<_, crate::Error>(())
    };
    for (t, seed) in of.iter().filter(|(t, _)| live.contains(&t.id())) {
        add(&mut pending, t, seed.clone())?;
    }
    // The results of a loop wait for each other.
    let mut loops: HashMap<(usize, Vec<u64>), Results> = HashMap::new();
    let key = |t: &Tensor| match &t.node().op {
        Op::Loop(body, taken) => {
            let src = t.node().src();
            let src = src.iter().map(Tensor::id);
            Some(((body.identity(), src.collect::<Vec<u64>>()), *taken))
        }
        _ => None,
    };
    for (key, _) in order.iter().filter_map(key) {
        loops.entry(key).or_default().0 += 1;
    }
    for tensor in order.iter().rev() {
        // All users come later in the order, so the sum is complete.
        let gradient = pending.remove(&tensor.id());
        if let Some(gradient) = &gradient
            && wanted.contains(&tensor.id())
        {
            found.insert(tensor.id(), gradient.clone());
        }
        let src = tensor.node().src();
        let needs = |s: &Tensor| s.dtype().is_float() && live.contains(&s.id());
        let needs: Vec<bool> = src.iter().map(needs).collect();
        if !needs.contains(&true) {
            continue;
        }
        let parts = match key(tensor) {
            Some((key, taken)) => {
                let Results(left, given) = loops.entry(key).or_default();
                *left -= 1;
                given.extend(gradient.map(|g| (taken, g)));
                if *left > 0 || given.is_empty() {
                    continue;
                }
                looped(tensor, given, &needs)?
            }
            None => match gradient {
                Some(gradient) => sources(tensor, &src, &gradient, &needs)?,
                None => continue,
            },
        };
        for ((source, part), need) in src.iter().zip(parts).zip(needs) {
            if let (true, Some(part)) = (need, part) {
                add(&mut pending, source, part)?;
            }
        }
    }
    Ok(with.iter().map(|t| found.get(&t.id()).cloned()).collect())
}

/// Results of a loop whose gradients are still to come, and those that are there.
#[derive(Default)]
struct Results(usize, Vec<(LoopOutput, Tensor)>);

/// Whether two tensors are one value of a parameter: the graph, and what is left of it in memory.
fn one_value(a: &Tensor, b: &Tensor) -> bool {
    match (a.storage(), b.storage()) {
        (Some(Storage::Device(a)), Some(Storage::Device(b))) => Arc::ptr_eq(&a, &b),
        (Some(Storage::Host(a)), Some(Storage::Host(b))) => Arc::ptr_eq(&a, &b),
        (Some(Storage::Source(a)), Some(Storage::Source(b))) => Arc::ptr_eq(&a, &b),
        _ => false,
    }
}

/// The values of parameters that tensors are made of, by parameter, down to `with`; and an output of a captured
/// function among them.
///
/// # Errors
/// A tensor among them whose graph was given up.
fn parameters<'a>(
    of: impl Iterator<Item = &'a Tensor>,
    with: &[&Tensor],
) -> Result<(HashMap<u64, Tensor>, Option<Tensor>)> {
    let wanted: HashSet<u64> = with.iter().map(|t| t.id()).collect();
    let held = with.iter().filter_map(|t| Some((t.owner()?, *t)));
    let held: HashMap<u64, &Tensor> = held.collect();
    // A value that was computed since, maybe by another thread, is another tensor in the same memory.
    let holds =
        |owner: u64, tensor: &Tensor| held.get(&owner).is_some_and(|t| one_value(t, tensor));
    let mut owners = HashMap::new();
    let mut outputs = None;
    let mut seen = HashSet::new();
    let mut pending: Vec<Tensor> = of.cloned().collect();
    while let Some(tensor) = pending.pop() {
        if !seen.insert(tensor.id()) {
            continue;
        }
        let mut ends = wanted.contains(&tensor.id()) || !tensor.dtype().is_float();
        if let Some(owner) = tensor.owner() {
            match holds(owner, &tensor) {
                true => {
                    owners.insert(owner, tensor.clone());
                    ends = true;
                }
                false => {
                    owners.entry(owner).or_insert_with(|| tensor.clone());
                }
            }
        }
        if ends || tensor.node().ends_gradients() {
            continue;
        }
        if tensor.node().is_cut() && matches!(tensor.node().op, Op::Data) {
            outputs = Some(tensor);
            continue;
        }
        if tensor.node().is_cut() {
            return shape_error(
                "gradients",
                format!(
                    "the graph of {tensor:?} was freed by an optimizer step (`minimize`); rebuild it, \
                     or take its gradients before the step"
                ),
            );
        }
        pending.extend(tensor.node().src().iter().cloned());
    }
    Ok((owners, outputs))
}

/// The nodes on a path from `of` to one of `with`, sources before users.
fn dependents<'a>(of: impl Iterator<Item = &'a Tensor>, with: &[&Tensor]) -> Vec<Tensor> {
    let mut depends: HashMap<u64, bool> = with.iter().map(|t| (t.id(), true)).collect();
    let mut visited = HashSet::new();
    let mut order = Vec::new();
    let mut stack: Vec<(Tensor, bool)> = of.map(|t| (t.clone(), false)).collect();
    while let Some((tensor, expanded)) = stack.pop() {
        if expanded {
            let below = tensor
                .node()
                .src()
                .iter()
                .any(|s| depends.get(&s.id()).copied().unwrap_or(false));
            let entry = depends.entry(tensor.id()).or_insert(false);
            *entry |= below;
            if *entry {
                order.push(tensor);
            }
            continue;
        }
        if !visited.insert(tensor.id()) {
            continue;
        }
        let sources: Arc<[Tensor]> = match tensor.node().ends_gradients() {
            true => Arc::default(),
            false => tensor.node().src(),
        };
        stack.push((tensor, true));
        stack.extend(sources.iter().map(|s| (s.clone(), false)));
    }
    order
}

/// The gradient of each source of a node, given that of the node; `needs` says which are used.
/// `src` are the sources of `y`, which another thread may give up in the meantime.
fn sources(y: &Tensor, src: &[Tensor], g: &Tensor, needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
    let none = vec![None; src.len()];
    let one = |part: Result<Tensor>| part.map(|part| vec![Some(part)]);
    match &y.node().op {
        Op::Data | Op::Const(_) | Op::Iota | Op::Bitcast | Op::Detach => Ok(none),
        Op::Checked(_) => Ok(none),
        Op::Param | Op::Given => Ok(none),
        // All results of a loop together, in `looped`.
        Op::Loop(..) => Ok(none),
        // The value has no part in it.
        Op::Sloped(Slope::Hypot) => {
            let part = |x: &Tensor| {
                let none = y.eq(0)?.bitor(&x.isinf()?)?;
                g.mul(&none.where_(0.0, x)?.div(&none.where_(1.0, y)?)?)
            };
            Ok(vec![None, Some(part(&src[1])?), Some(part(&src[2])?)])
        }
        Op::Sloped(Slope::Products(axis)) => {
            products::of_products(*axis, &src[1..], g, &needs[1..])
        }
        Op::Sloped(Slope::Cofactors(axis)) => {
            products::of_cofactors(*axis, &src[1..], g, &needs[1..])
        }
        Op::Unary(op) => unary(*op, &src[0], y, g),
        Op::Binary(op) => binary(*op, &src[0], &src[1], y, g, needs),
        Op::Where => {
            let zero = g.zeros_like()?;
            Ok(vec![
                None,
                Some(src[0].select(g, &zero)?),
                Some(src[0].select(&zero, g)?),
            ])
        }
        Op::Cast => one(g.cast(src[0].dtype())),
        Op::Reduce(op, axes) => reduce(*op, axes, &src[0], y, g),
        Op::Scan(op, axis) => scan(*op, *axis, &src[0], y, g),
        Op::Reshape => one(g.reshape(src[0].shape())),
        Op::Permute(order) => {
            let mut back = vec![0; order.len()];
            for (i, &axis) in order.iter().enumerate() {
                back[axis] = i;
            }
            one(g.permute(&back))
        }
        Op::Expand => {
            let stretched: Vec<usize> = (0..y.rank())
                .filter(|&i| src[0].shape()[i] != y.shape()[i])
                .collect();
            let wide = g.cast(g.dtype().accumulator())?;
            one(wide.reduce(ReduceOp::Add, &stretched)?.cast(g.dtype()))
        }
        Op::Pad(lo, _) => one(g.shrink(lo, src[0].shape())),
        Op::Shrink(lo) => one(g.pad_to(lo, src[0].shape(), 0)),
        Op::Flip(axes) => one(g.reverse(axes)),
        Op::Windows {
            axis,
            size,
            stride,
            dilation,
        } => one(windows(&src[0], g, *axis, *size, *stride, *dilation)),
        Op::Gather(axis) => {
            let zeros = src[0].zeros_like()?;
            let sum = ScatterMode::Combine(ReduceOp::Add);
            Ok(vec![Some(zeros.put(*axis, &src[1], g, sum)?), None])
        }
        Op::Scatter(axis, mode) => scatter(*axis, *mode, src, y, g),
        Op::Contiguous => one(Ok(g.clone())),
        Op::Copy => one(g.to(src[0].engine())),
    }
}

fn unary(op: Unary, x: &Tensor, y: &Tensor, g: &Tensor) -> Result<Vec<Option<Tensor>>> {
    let part = match op {
        Unary::Neg => g.neg()?,
        Unary::Abs => g.mul(&x.sign()?)?,
        Unary::Recip => g.mul(&y.mul(y)?)?.neg()?,
        Unary::Sqrt => g.div(&y.mul(2)?)?,
        Unary::Exp2 => g.mul(&y.mul(LN_2)?)?,
        Unary::Log2 => g.div(&x.mul(LN_2)?)?,
        Unary::Exp => g.mul(y)?,
        Unary::Expm1 => g.mul(&y.add(1)?)?,
        Unary::Log => g.div(x)?,
        Unary::Log10 => g.div(&x.mul(LN_10)?)?,
        Unary::Log1p => g.div(&x.add(1)?)?,
        Unary::Sin => g.mul(&x.cos()?)?,
        Unary::Cos => g.mul(&x.sin()?)?.neg()?,
        Unary::Tan => g.mul(&y.mul(y)?.add(1)?)?,
        Unary::Asin => g.div(&one_less_square(x)?.sqrt()?)?,
        Unary::Acos => g.div(&one_less_square(x)?.sqrt()?)?.neg()?,
        Unary::Atan => g.div(&x.mul(x)?.add(1)?)?,
        Unary::Sinh => g.mul(&x.cosh()?)?,
        Unary::Cosh => g.mul(&x.sinh()?)?,
        Unary::Tanh => g.mul(&one_less_square(y)?)?,
        Unary::Asinh => g.div(&x.mul(x)?.add(1)?.sqrt()?)?,
        Unary::Acosh => g.div(&x.sub(1)?.sqrt()?.mul(&x.add(1)?.sqrt()?)?)?,
        Unary::Atanh => g.div(&one_less_square(x)?)?,
        Unary::Erf => g.mul(&bell(x)?)?,
        Unary::Erfc => g.mul(&bell(x)?)?.neg()?,
        // Zeros, and not nothing: it depends on x.
        Unary::Trunc | Unary::Floor | Unary::Ceil | Unary::RoundEven => g.zeros_like()?,
        Unary::Not => return Ok(vec![None]),
    };
    Ok(vec![Some(part)])
}

/// `1 - x^2`.
fn one_less_square(x: &Tensor) -> Result<Tensor> {
    x.neg()?.add(1)?.mul(&x.add(1)?)
}

/// The slope of the error function.
fn bell(x: &Tensor) -> Result<Tensor> {
    x.mul(x)?.neg()?.exp()?.mul(FRAC_2_SQRT_PI)
}

fn binary(
    op: Binary,
    a: &Tensor,
    b: &Tensor,
    y: &Tensor,
    g: &Tensor,
    needs: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    // A closure per operand, so that the graph of an unused gradient is not built.
    let both = |da: &dyn Fn() -> Result<Tensor>, db: &dyn Fn() -> Result<Tensor>| {
        let part = |need: bool, f: &dyn Fn() -> Result<Tensor>| need.then(f).transpose();
        Ok(vec![part(needs[0], da)?, part(needs[1], db)?])
    };
    let same = || Ok(g.clone());
    match op {
        Binary::Add => both(&same, &same),
        Binary::Sub => both(&same, &|| g.neg()),
        Binary::Mul => both(&|| g.mul(b), &|| g.mul(a)),
        Binary::FDiv => both(&|| g.div(b), &|| g.mul(y)?.div(b)?.neg()),
        Binary::Max | Binary::Min => {
            // Half of it where both are equal.
            let share = |x: &Tensor, other: &Tensor| {
                let wins = if op == Binary::Max {
                    other.lt(x)?
                } else {
                    x.lt(other)?
                };
                let half = x.eq(other)?.select(&g.mul(0.5)?, &g.zeros_like()?)?;
                wins.select(g, &half)
            };
            both(&|| share(a, b), &|| share(b, a))
        }
        Binary::TruncMod => both(&same, &|| g.mul(&a.div(b)?.trunc()?)?.neg()),
        Binary::Pow => both(
            &|| {
                let slope = b.mul(&a.pow(b.sub(1)?)?)?;
                g.mul(&b.eq(0)?.select(&g.zeros_like()?, &slope)?)
            },
            &|| {
                // 0^b is flat for b >= 0, and ln 0 must not reach the product; for b < 0 it is infinite, as ln 0.
                let flat = a.eq(0)?.bitand(&b.ge(0)?)?;
                let log = flat.select(&a.ones_like()?, a)?.log()?;
                g.mul(&y.mul(&log)?)
            },
        ),
        Binary::FloorDiv
        | Binary::FloorMod
        | Binary::TruncDiv
        | Binary::And
        | Binary::Or
        | Binary::Xor
        | Binary::Shl
        | Binary::Shr
        | Binary::Lt
        | Binary::Eq
        | Binary::Ne => Ok(vec![None, None]),
    }
}

fn reduce(
    op: ReduceOp,
    axes: &[usize],
    x: &Tensor,
    y: &Tensor,
    g: &Tensor,
) -> Result<Vec<Option<Tensor>>> {
    let part = match op {
        ReduceOp::Add => g.expand(x.shape())?,
        ReduceOp::Mul => {
            // The product of the others: all divided by this one, unless there are zeros. A single
            // zero alone gets the product of the rest.
            let zero = x.eq(0)?;
            let rest = zero.select(&x.ones_like()?, x)?;
            let product = rest.reduce(ReduceOp::Mul, axes)?.expand(x.shape())?;
            let zeros = zero.cast(DType::I32)?.reduce(ReduceOp::Add, axes)?;
            let other_zeros = zeros.expand(x.shape())?.sub(&zero.cast(DType::I32)?)?;
            let others = product.div(&rest)?;
            let others = other_zeros.eq(0)?.select(&others, &others.zeros_like()?)?;
            let value = others.mul(&g.expand(x.shape())?)?;
            products::whole(axes, x, g, &value)?
        }
        ReduceOp::Max | ReduceOp::Min => {
            let equal = x.eq(&y.expand(x.shape())?)?.cast(g.dtype())?;
            let wide = equal.cast(g.dtype().accumulator())?;
            let count = wide.reduce(ReduceOp::Add, axes)?.cast(g.dtype())?;
            g.div(&count)?.expand(x.shape())?.mul(&equal)?
        }
        ReduceOp::And | ReduceOp::Or => return Ok(vec![None]),
    };
    Ok(vec![Some(part)])
}

fn scan(
    op: ReduceOp,
    axis: usize,
    x: &Tensor,
    y: &Tensor,
    g: &Tensor,
) -> Result<Vec<Option<Tensor>>> {
    let along = axis as isize;
    let part = match op {
        // Every later output has the element in it.
        ReduceOp::Add => g.reverse(&[axis])?.scan(op, axis)?.reverse(&[axis])?,
        ReduceOp::Mul => products::running(axis, x, y, g)?,
        ReduceOp::Max | ReduceOp::Min => {
            // An element that equals the running value is the latest there; its position holds
            // until the next such element.
            let position = x.positions(along)?;
            let latest = x.eq(y)?.select(&position, &position.zeros_like()?)?;
            let owner = latest.scan(ReduceOp::Max, axis)?;
            let sum = ScatterMode::Combine(ReduceOp::Add);
            x.zeros_like()?.put(axis, &owner, g, sum)?
        }
        ReduceOp::And | ReduceOp::Or => return Ok(vec![None]),
    };
    Ok(vec![Some(part)])
}

/// The sum over k of the windows' gradients, each put back where it was read from.
fn windows(
    x: &Tensor,
    g: &Tensor,
    axis: usize,
    size: usize,
    stride: usize,
    dilation: usize,
) -> Result<Tensor> {
    let rank = x.rank();
    let len = x.shape()[axis];
    if size == stride && dilation == 1 {
        // Windows side by side: the axis and k are digits of the position.
        let mut merged = x.shape().to_vec();
        merged[axis] = g.shape()[axis] * size;
        return g
            .move_axis(-1, axis as isize + 1)?
            .reshape(&merged)?
            .pad_to(&vec![0; rank], x.shape(), 0);
    }
    let mut sum: Option<Tensor> = None;
    for k in 0..size {
        let part = g.index(-1, k as isize)?.dilate(axis, stride)?;
        let mut lo = vec![0; rank];
        lo[axis] = k * dilation;
        let mut shape = part.shape().to_vec();
        shape[axis] = len;
        let part = part.pad_to(&lo, &shape, 0)?;
        sum = Some(match sum {
            Some(sum) => sum.add(&part)?,
            None => part,
        });
    }
    match sum {
        Some(sum) => Ok(sum),
        None => x.zeros_like(),
    }
}

fn scatter(
    axis: usize,
    mode: ScatterMode,
    src: &[Tensor],
    y: &Tensor,
    g: &Tensor,
) -> Result<Vec<Option<Tensor>>> {
    let (base, index, source) = (&src[0], &src[1], &src[2]);
    let at_index = g.pick(axis, index)?;
    let (base_part, source_part) = match mode {
        ScatterMode::Set | ScatterMode::Distinct => {
            // Of several writes to one element only the last counts: each writes its number along
            // the axis, and those that read it back have won.
            let number = index.positions(axis as isize)?;
            let nobody = Tensor::full(y.engine(), base.shape(), -1, DType::I32)?;
            let winner = nobody.put(axis, index, &number, ScatterMode::Set)?;
            let won = winner.pick(axis, index)?.eq(&number)?;
            let kept = winner.lt(0)?;
            (
                kept.select(g, &g.zeros_like()?)?,
                won.select(&at_index, &at_index.zeros_like()?)?,
            )
        }
        ScatterMode::Combine(ReduceOp::Add) => (g.clone(), at_index),
        ScatterMode::Combine(ReduceOp::Mul) => {
            // As for a reduction by product: the others' product, with care for zeros.
            let mul = ScatterMode::Combine(ReduceOp::Mul);
            let add = ScatterMode::Combine(ReduceOp::Add);
            let nonzero = |t: &Tensor| t.eq(0)?.select(&t.ones_like()?, t);
            let count = |t: &Tensor| t.eq(0)?.cast(DType::I32);
            let product = nonzero(base)?.put(axis, index, &nonzero(source)?, mul)?;
            let zeros = count(base)?.put(axis, index, &count(source)?, add)?;
            let others = |t: &Tensor, product: &Tensor, zeros: &Tensor| {
                let rest = product.div(&nonzero(t)?)?;
                let clear = zeros.sub(&count(t)?)?.eq(0)?;
                clear.select(&rest, &rest.zeros_like()?)
            };
            let near = product.pick(axis, index)?;
            let near_zeros = zeros.pick(axis, index)?;
            (
                g.mul(&others(base, &product, &zeros)?)?,
                at_index.mul(&others(source, &near, &near_zeros)?)?,
            )
        }
        ScatterMode::Combine(ReduceOp::Max | ReduceOp::Min) => {
            let add = ScatterMode::Combine(ReduceOp::Add);
            let base_wins = base.eq(y)?.cast(g.dtype())?;
            let source_wins = source.eq(&y.pick(axis, index)?)?.cast(g.dtype())?;
            let count = base_wins.put(axis, index, &source_wins, add)?;
            let share = g.div(&count)?;
            (
                base_wins.mul(&share)?,
                source_wins.mul(&share.pick(axis, index)?)?,
            )
        }
        ScatterMode::Combine(ReduceOp::And | ReduceOp::Or) => return Ok(vec![None; 3]),
    };
    Ok(vec![Some(base_part), None, Some(source_part)])
}
