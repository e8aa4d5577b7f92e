//! Gradients against finite differences, in binary64 on the CPU as a device. This needs no
//! reference: it compares an operator's gradient with the operator itself.
use std::collections::BTreeMap;

use golden::array::Array;
use golden::call::{Call, CallError};
use golden::engines;
use golden::manifest::{Case, Group, References};
use golden::suite::upload;
use tensor::autograd::gradients_from;
use tensor::{DType, Engine, Tensor};

/// Half the distance of the two points of a difference, in units of the inputs.
const STEP: f64 = 1e-6;
/// Directions in which each case is differentiated.
const DIRECTIONS: u64 = 3;
/// Elements of all inputs together, at most.
const SMALL: usize = 600;
/// Cases of one operator, at most.
const CASES: usize = 2;
/// Operators that cannot be checked this way, each with the reason.
const EXEMPT: &[(&str, &str)] = &[(
    "matmul_in",
    "its case asks for results in binary32, too coarse for differences",
)];

/// Numbers in -1..1 that depend on the seed and the index alone (SplitMix64).
fn noise(seed: u64, index: usize) -> f64 {
    let mut z = seed.wrapping_mul(0xd134_2543_de82_ef95) ^ (index as u64).wrapping_mul(0x9e37_79b9);
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

fn doubles(shape: &[usize], values: &[f64]) -> Array {
    Array {
        dtype: DType::F64,
        shape: shape.to_vec(),
        bytes: values.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

/// A function of several arrays: the sum of the results weighted by noise.
struct Function<'a> {
    case: &'a Case,
    engine: &'a Engine,
    inputs: Vec<Array>,
    /// Inputs that are moved.
    moved: Vec<usize>,
}

impl Function<'_> {
    /// The inputs moved by `step` along a direction.
    fn at(&self, direction: u64, step: f64) -> Vec<Array> {
        let mut inputs = self.inputs.clone();
        for &i in &self.moved {
            let mut values = inputs[i].floats();
            for (k, x) in values.iter_mut().enumerate() {
                *x += step * noise(direction, 1000 * i + k);
            }
            inputs[i] = doubles(&self.inputs[i].shape, &values);
        }
        inputs
    }

    fn call(&self, inputs: Vec<Array>) -> Result<(Vec<Tensor>, Vec<Tensor>), CallError> {
        let inputs = inputs
            .into_iter()
            .map(|a| upload(self.engine, a))
            .collect::<Result<Vec<_>, _>>()?;
        let call = Call {
            case: self.case,
            engine: self.engine,
            inputs: &inputs,
        };
        let outputs = call.run()?;
        Ok((inputs, outputs))
    }

    fn weights(&self, output: usize, tensor: &Tensor) -> Vec<f64> {
        (0..tensor.numel())
            .map(|k| noise(77 + output as u64, k))
            .collect()
    }

    fn value(&self, direction: u64, step: f64) -> Result<f64, CallError> {
        let (_, outputs) = self.call(self.at(direction, step))?;
        let mut sum = 0.0;
        for (i, output) in outputs
            .iter()
            .enumerate()
            .filter(|(_, o)| o.dtype() == DType::F64)
        {
            let values = output.to_f64_vec()?;
            sum += values
                .iter()
                .zip(self.weights(i, output))
                .map(|(x, w)| x * w)
                .sum::<f64>();
        }
        Ok(sum)
    }

    /// The gradient for each moved input; none if no result is a double.
    fn gradient(&self) -> Result<Option<Vec<Vec<f64>>>, CallError> {
        let (inputs, outputs) = self.call(self.inputs.clone())?;
        let with: Vec<&Tensor> = self.moved.iter().map(|&i| &inputs[i]).collect();
        let mut sums: Vec<Vec<f64>> = with.iter().map(|t| vec![0.0; t.numel()]).collect();
        let mut any = false;
        for (i, output) in outputs
            .iter()
            .enumerate()
            .filter(|(_, o)| o.dtype() == DType::F64)
        {
            any = true;
            let seed = doubles(output.shape(), &self.weights(i, output));
            let seed = upload(self.engine, seed)?;
            for (sum, part) in sums.iter_mut().zip(gradients_from(output, &seed, &with)?) {
                for (s, p) in sum.iter_mut().zip(part.to_f64_vec()?) {
                    *s += p;
                }
            }
        }
        Ok(any.then_some(sums))
    }
}

/// What a case says.
enum Verdict {
    /// It has no derivative, or is too large.
    Unfit,
    /// The gradient is the slope.
    Holds,
    /// It is not.
    Wrong(String),
}

fn check(engine: &Engine, group: &Group, case: &Case) -> Result<Verdict, CallError> {
    let Some(grads) = &case.grads else {
        return Ok(Verdict::Unfit);
    };
    let mut inputs = group.arrays(&case.inputs)?;
    let moved: Vec<usize> = (0..inputs.len()).filter(|&i| grads[i].is_some()).collect();
    let size: usize = inputs.iter().map(Array::numel).sum();
    let coarse = |a: &Array| matches!(a.dtype, DType::F8E4M3 | DType::F8E5M2);
    let nothing = moved.iter().all(|&i| inputs[i].numel() == 0);
    // At equal elements there is no derivative.
    if size > SMALL || nothing || inputs.iter().any(coarse) || case.case.contains("ties") {
        return Ok(Verdict::Unfit);
    }
    for input in inputs.iter_mut().filter(|input| input.dtype.is_float()) {
        *input = doubles(&input.shape, &input.floats());
    }
    let function = Function {
        case,
        engine,
        inputs,
        moved,
    };
    // Results with infinities have no differences.
    if !function.value(0, 0.0)?.is_finite() {
        return Ok(Verdict::Unfit);
    }
    let Some(gradient) = function.gradient()? else {
        return Ok(Verdict::Unfit);
    };
    for direction in 0..DIRECTIONS {
        let ahead = function.value(direction, STEP)?;
        let behind = function.value(direction, -STEP)?;
        let difference = (ahead - behind) / (2.0 * STEP);
        let (mut slope, mut scale) = (0.0, 1.0);
        for (&i, part) in function.moved.iter().zip(&gradient) {
            for (k, g) in part.iter().enumerate() {
                slope += g * noise(direction, 1000 * i + k);
                scale += g.abs();
            }
        }
        let apart = (slope - difference).abs();
        if apart.is_nan() || apart > 1e-7 * scale {
            return Ok(Verdict::Wrong(format!(
                "direction {direction}: the gradient says {slope}, the difference {difference}"
            )));
        }
    }
    Ok(Verdict::Holds)
}

#[test]
fn gradients_are_slopes() {
    let engine = engines::cpu().unwrap().engine;
    let references = References::open(&References::folder()).unwrap();
    let mut checked: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    for group in &references.groups {
        for case in group.cases.iter().filter(|case| case.grads.is_some()) {
            let count = checked.entry(&case.op).or_default();
            if *count == CASES {
                continue;
            }
            let fault = match check(&engine, group, case) {
                Ok(Verdict::Unfit) => continue,
                Ok(Verdict::Holds) => None,
                Ok(Verdict::Wrong(what)) => Some(what),
                Err(error) => Some(error.to_string()),
            };
            *count += 1;
            failures.extend(fault.map(|what| format!("  {}: {what}", case.case)));
        }
    }
    assert!(
        failures.is_empty(),
        "{} cases:\n{}",
        failures.len(),
        failures.join("\n")
    );
    let unchecked: Vec<_> = checked
        .iter()
        .filter(|(op, n)| **n == 0 && !EXEMPT.iter().any(|(name, _)| name == *op))
        .map(|(op, _)| op)
        .collect();
    assert!(unchecked.is_empty(), "no small case for {unchecked:?}");
}
