//! Optimizer steps, as the training preview of the format has them.

use codegen::DType;

use crate::graph::Tensor;
use crate::onnx::call::{Call, Table};
use crate::onnx::error::{Result, wrong};
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[("Adagrad", adagrad), ("Adam", adam), ("Momentum", momentum)];

/// What a step is given: the learning rate, the number of steps so far, and for each weight its
/// value, its gradient with that of the L2 norm, and its `S` states.
struct Step<const S: usize> {
    rate: Tensor,
    count: Tensor,
    weights: Vec<(Tensor, Tensor, [Tensor; S])>,
}

fn given<const S: usize>(c: &mut Call) -> Result<Step<S>> {
    let norm = c.float_or("norm_coefficient", 0.0)?;
    let (rate, count, all) = (c.tensor(0)?, c.tensor(1)?, c.tensors(2)?);
    if rate.numel() != 1 || count.numel() != 1 {
        return wrong(format!(
            "expected a scalar learning rate and count, found {:?} and {:?}",
            rate.shape(),
            count.shape()
        ));
    }
    if all.is_empty() || !all.len().is_multiple_of(2 + S) {
        return wrong(format!(
            "expected {} inputs for each weight, found {} in all",
            2 + S,
            all.len()
        ));
    }
    let n = all.len() / (2 + S);
    let mut weights = Vec::with_capacity(n);
    for i in 0..n {
        let x = &all[i];
        let alike = all[i..].iter().step_by(n);
        if let Some(other) = alike.clone().find(|t| t.shape() != x.shape()) {
            return wrong(format!(
                "expected gradient and states of shape {:?}, found {:?}",
                x.shape(),
                other.shape()
            ));
        }
        let gradient = x.mul(norm)?.add(&all[n + i])?;
        let states = std::array::from_fn(|k| all[(2 + k) * n + i].clone());
        weights.push((x.clone(), gradient, states));
    }
    Ok(Step {
        rate: rate.reshape(&[])?,
        count: count.reshape(&[])?,
        weights,
    })
}

/// All weights, then the first state of all, then the second, in the types of the inputs.
fn outputs(new: Vec<Vec<Tensor>>, step: &[DType]) -> Result<Vec<Value>> {
    let kinds = new.first().map_or(0, Vec::len);
    let order = (0..kinds).flat_map(|k| new.iter().zip(step).map(move |(list, d)| (&list[k], d)));
    order.map(|(t, &dtype)| Ok(t.cast(dtype)?.into())).collect()
}

fn dtypes<const S: usize>(step: &Step<S>) -> Vec<DType> {
    step.weights.iter().map(|(x, ..)| x.dtype()).collect()
}

fn adagrad(c: &mut Call) -> Result<Vec<Value>> {
    let (decay, epsilon) = (
        c.float_or("decay_factor", 0.0)?,
        c.float_or("epsilon", 1e-6)?,
    );
    let step = given::<1>(c)?;
    let count = step.count.cast(step.rate.dtype())?;
    let rate = step.rate.div(&count.mul(decay)?.add(1.0)?)?;
    let mut new = Vec::new();
    for (x, g, [h]) in &step.weights {
        let h = h.add(&g.square()?)?;
        let x = x.sub(&rate.mul(g)?.div(&h.sqrt()?.add(epsilon)?)?)?;
        new.push(vec![x, h]);
    }
    outputs(new, &dtypes(&step))
}

fn adam(c: &mut Call) -> Result<Vec<Value>> {
    let (alpha, beta) = (c.float_or("alpha", 0.9)?, c.float_or("beta", 0.999)?);
    let epsilon = c.float_or("epsilon", 1e-6)?;
    let after = c.float_or("norm_coefficient_post", 0.0)?;
    let step = given::<2>(c)?;
    let count = step.count.cast(step.rate.dtype())?;
    let left = |base: f64| count.full_like(base)?.pow(&count)?.neg()?.add(1.0);
    let adjusted = step.rate.mul(&left(beta)?.sqrt()?)?.div(&left(alpha)?)?;
    let rate = count.gt(0)?.where_(&adjusted, &step.rate)?;
    let mut new = Vec::new();
    for (x, g, [v, h]) in &step.weights {
        let v = v.mul(alpha)?.add(&g.mul(1.0 - alpha)?)?;
        let h = h.mul(beta)?.add(&g.square()?.mul(1.0 - beta)?)?;
        let x = x.sub(&rate.mul(&v)?.div(&h.sqrt()?.add(epsilon)?)?)?;
        new.push(vec![x.mul(1.0 - after)?, v, h]);
    }
    outputs(new, &dtypes(&step))
}

fn momentum(c: &mut Call) -> Result<Vec<Value>> {
    let number = |name: &str| -> Result<f64> {
        let found = c.attr_float(name)?;
        c.needed(name, found)
    };
    let (alpha, beta) = (number("alpha")?, number("beta")?);
    let nesterov = match c.str_or("mode", "")? {
        "nesterov" => true,
        "standard" => false,
        other => return c.bad_word("mode", &["nesterov", "standard"], other),
    };
    let step = given::<1>(c)?;
    let rate = &step.rate;
    // The first gradient counts in full.
    let beta = rate.full_like(beta)?;
    let beta = step.count.gt(0)?.where_(&beta, &beta.ones_like()?)?;
    let mut new = Vec::new();
    for (x, g, [v]) in &step.weights {
        let v = v.mul(alpha)?.add(&g.mul(&beta)?)?;
        let way = match nesterov {
            true => g.add(&v.mul(alpha)?)?,
            false => v.clone(),
        };
        new.push(vec![x.sub(&rate.mul(&way)?)?, v]);
    }
    outputs(new, &dtypes(&step))
}
