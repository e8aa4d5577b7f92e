//! Runs the references on an engine: forward, and backward where a gradient is expected.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tensor::autograd::gradients_from;
use tensor::{Engine, Tensor};

use crate::array::{Array, Mismatch};
use crate::call::{Call, CallError};
use crate::manifest::{Case, Group, ManifestError, References};

/// Why a case does not hold.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The call gave no tensors.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The references are damaged.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Another number of results.
    #[error("expected {expected} results, got {got}")]
    Count {
        /// Of the reference.
        expected: usize,
        /// Of the engine.
        got: usize,
    },
    /// A result is wrong.
    #[error("{what}: {mismatch}")]
    Wrong {
        /// Which result or gradient.
        what: String,
        /// How.
        mismatch: Mismatch,
    },
    /// The engine panicked, which it never may.
    #[error("panicked: {0}")]
    Panic(String),
}

impl From<tensor::Error> for CaseError {
    fn from(error: tensor::Error) -> Self {
        CaseError::Call(error.into())
    }
}

/// What a run found.
#[derive(Default)]
pub struct Report {
    /// Operations of which at least one case was run.
    pub ops: BTreeSet<String>,
    /// Cases run.
    pub cases: usize,
    /// Cases whose gradients were checked.
    pub gradients: usize,
    /// Name and fault of each case that does not hold.
    pub failures: Vec<(String, CaseError)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} cases of {} operations, {} with gradients: {} do not hold",
            self.cases,
            self.ops.len(),
            self.gradients,
            self.failures.len()
        )?;
        for (case, error) in &self.failures {
            writeln!(f, "  {case}: {error}")?;
        }
        Ok(())
    }
}

/// The tensor of a reference array on an engine.
///
/// # Errors
/// From the engine.
pub fn upload(engine: &Engine, array: Array) -> tensor::Result<Tensor> {
    Tensor::from_bytes(engine, array.bytes, &array.shape, array.dtype)
}

/// The value of a tensor.
///
/// # Errors
/// From the engine.
pub fn download(tensor: &Tensor) -> tensor::Result<Array> {
    Ok(Array {
        dtype: tensor.dtype(),
        shape: tensor.shape().to_vec(),
        bytes: tensor.to_bytes()?,
    })
}

fn run_case(engine: &Engine, group: &Group, case: &Case, flushes: bool) -> Result<(), CaseError> {
    let arrays = group.arrays(&case.inputs)?;
    let inputs = arrays
        .clone()
        .into_iter()
        .map(|a| upload(engine, a))
        .collect::<Result<Vec<_>, _>>()?;
    let outputs = Call {
        case,
        engine,
        inputs: &inputs,
    }
    .run()?;
    if outputs.len() != case.outputs.len() {
        return Err(CaseError::Count {
            expected: case.outputs.len(),
            got: outputs.len(),
        });
    }
    let gradients = backward(engine, group, case, &inputs, &outputs)?;
    // Together, so that the engine sees the whole graph, as in use.
    engine.realize(
        &outputs
            .iter()
            .chain(gradients.iter().map(|(_, g)| g))
            .collect::<Vec<_>>(),
    )?;
    let expected = |name: &str, got: &Array| -> Result<Array, CaseError> {
        let array = group.array(name)?;
        Ok(match flushes {
            true => array.flushed(got, &arrays),
            false => array,
        })
    };
    for (i, (name, output)) in case.outputs.iter().zip(&outputs).enumerate() {
        let got = download(output)?;
        expected(name, &got)?
            .check(&got, case.tolerance())
            .map_err(|mismatch| CaseError::Wrong {
                what: format!("result {i}"),
                mismatch,
            })?;
    }
    for (i, gradient) in &gradients {
        let Some(name) = case.grads.as_ref().and_then(|g| g.get(*i)?.as_ref()) else {
            continue;
        };
        let got = download(gradient)?;
        expected(name, &got)?
            .check(&got, case.grad_tolerance())
            .map_err(|mismatch| CaseError::Wrong {
                what: format!("gradient of input {i}"),
                mismatch,
            })?;
    }
    Ok(())
}

/// The gradient of each input that has one in the reference, with the number of the input.
fn backward(
    engine: &Engine,
    group: &Group,
    case: &Case,
    inputs: &[Tensor],
    outputs: &[Tensor],
) -> Result<Vec<(usize, Tensor)>, CaseError> {
    let (Some(upstream), Some(grads)) = (&case.upstream, &case.grads) else {
        return Ok(Vec::new());
    };
    let wanted: Vec<usize> = (0..grads.len()).filter(|&i| grads[i].is_some()).collect();
    let with: Vec<&Tensor> = wanted.iter().filter_map(|&i| inputs.get(i)).collect();
    let mut sums: Vec<Option<Tensor>> = vec![None; with.len()];
    for (output, seed) in outputs.iter().zip(upstream) {
        let Some(seed) = seed else { continue };
        let seed = upload(engine, group.array(seed)?)?;
        for (sum, part) in sums.iter_mut().zip(gradients_from(output, &seed, &with)?) {
            *sum = Some(match sum.take() {
                Some(before) => before.add(&part)?,
                None => part,
            });
        }
    }
    Ok(wanted
        .into_iter()
        .zip(sums)
        .filter_map(|(i, g)| Some((i, g?)))
        .collect())
}

/// Runs the cases that the filter takes (by group and case) on an engine.
///
/// # Errors
/// The references cannot be read; a case that does not hold is in the report.
pub fn run_suite(
    engine: &Engine,
    filter: impl Fn(&Group, &Case) -> bool,
) -> Result<Report, ManifestError> {
    run_told(engine, filter, |_, _| {})
}

/// The same on a device to which denormal numbers are zeros, see [`Array::flushed`].
///
/// # Errors
/// As [`run_suite`].
pub fn run_flushing(
    engine: &Engine,
    filter: impl Fn(&Group, &Case) -> bool,
) -> Result<Report, ManifestError> {
    run_cases(engine, true, filter, |_, _| {})
}

/// The same; each case's name is told as it ends, with its fault if it does not hold.
///
/// # Errors
/// As [`run_suite`].
pub fn run_told(
    engine: &Engine,
    filter: impl Fn(&Group, &Case) -> bool,
    told: impl FnMut(&str, Option<&CaseError>),
) -> Result<Report, ManifestError> {
    run_cases(engine, false, filter, told)
}

fn run_cases(
    engine: &Engine,
    flushes: bool,
    filter: impl Fn(&Group, &Case) -> bool,
    mut told: impl FnMut(&str, Option<&CaseError>),
) -> Result<Report, ManifestError> {
    let references = References::open(&References::folder())?;
    let mut report = Report::default();
    for group in &references.groups {
        for case in group.cases.iter().filter(|case| filter(group, case)) {
            report.cases += 1;
            report.gradients += usize::from(case.grads.is_some());
            report.ops.insert(case.op.clone());
            let outcome = catch_unwind(AssertUnwindSafe(|| run_case(engine, group, case, flushes)));
            let wrong = match outcome {
                Ok(outcome) => outcome.err(),
                Err(panic) => Some(CaseError::Panic(
                    panic
                        .downcast_ref::<String>()
                        .cloned()
                        .or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()))
                        .unwrap_or_default(),
                )),
            };
            let name = name(group, case);
            told(&name, wrong.as_ref());
            report.failures.extend(wrong.map(|wrong| (name, wrong)));
        }
    }
    Ok(report)
}

/// What a case is called.
pub fn name(group: &Group, case: &Case) -> String {
    format!("{}:{}", group.name, case.case)
}
