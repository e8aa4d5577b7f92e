//! Optimizers over parameters.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use doorbell::nn::optim::clip_grad_norm;
use doorbell::nn::state::Checkpoint;
use doorbell::nn::{Adam, AdamW, Lamb, Optimizer, Sgd, commit_set};
use doorbell::{Parameter, Tensor};
use pyo3::prelude::*;

use crate::error::{Done, exception, wrong_value};
use crate::functions::PyRng;
use crate::value::{InCapture, Leaf, PyTensor};

/// Changes parameters along their gradients. doorbell.optim has its kinds.
#[pyclass(name = "Optimizer", module = "doorbell._native", frozen, subclass)]
pub(crate) struct PyOptimizer {
    optimizer: Mutex<Box<dyn Optimizer + Send>>,
    leaves: Vec<Arc<Leaf>>,
}

/// The cells of tensors, each once.
fn cells(tensors: &[Bound<'_, PyTensor>]) -> Done<Vec<Arc<Leaf>>> {
    let mut found: Vec<Arc<Leaf>> = Vec::new();
    for (i, tensor) in tensors.iter().enumerate() {
        let Some(leaf) = tensor.get().leaf() else {
            return Err(exception(
                "GradientError",
                &format!(
                    "parameter {i} is a tensor with requires_grad=False; make it with requires_grad=True"
                ),
            ));
        };
        if !found
            .iter()
            .any(|known| known.parameter.is(&leaf.parameter))
        {
            found.push(leaf.clone());
        }
    }
    Ok(found)
}

impl PyOptimizer {
    /// Waits for other threads: without the lock of the interpreter, which they may wait for.
    fn optimizer(&self) -> MutexGuard<'_, Box<dyn Optimizer + Send>> {
        self.optimizer
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }
}

#[pymethods]
impl PyOptimizer {
    #[new]
    #[pyo3(signature = (kind, parameters, lr, momentum=0.0, nesterov=false, weight_decay=0.0, betas=(0.9, 0.999), eps=1e-8))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        kind: &str,
        parameters: Vec<Bound<'_, PyTensor>>,
        lr: f64,
        momentum: f64,
        nesterov: bool,
        weight_decay: f64,
        betas: (f64, f64),
        eps: f64,
    ) -> Done<PyOptimizer> {
        let leaves = cells(&parameters)?;
        let all: Vec<Parameter> = leaves.iter().map(|leaf| leaf.parameter.clone()).collect();
        let optimizer: Box<dyn Optimizer + Send> = match kind {
            "sgd" => Box::new(Sgd::new(all, lr, momentum, nesterov, weight_decay)?),
            "adam" => Box::new(Adam::new(all, lr, betas, eps, weight_decay)?),
            "adamw" => Box::new(AdamW::new(all, lr, betas, eps, weight_decay)?),
            "lamb" => Box::new(Lamb::new(all, lr, betas, eps, weight_decay)?),
            _ => return Err(wrong_value(format!("no optimizer {kind:?}")).into()),
        };
        Ok(PyOptimizer {
            optimizer: Mutex::new(optimizer),
            leaves,
        })
    }

    /// One step along the gradients of the parameters, computed. Parameters without a gradient stay as they are.
    fn step(&self, py: Python<'_>) -> Done<()> {
        let gradients: Vec<Option<Tensor>> = self.leaves.iter().map(|leaf| leaf.grad()).collect();
        if gradients.iter().all(Option::is_none) {
            return Err(exception(
                "GradientError",
                "step: no parameter has a gradient; call backward() of the loss before",
            ));
        }
        let in_capture = InCapture::is_on();
        Ok(py.detach(|| {
            self.optimizer().step_some(&gradients)?;
            drop(gradients);
            match in_capture {
                true => Ok(()),
                false => commit_set(),
            }
        })?)
    }

    /// Forgets the gradients of the parameters.
    fn zero_grad(&self) {
        for leaf in &self.leaves {
            leaf.set_grad(None);
        }
    }

    /// One step down a loss of one element, computed with the loss itself. The graph of the loss is given up. With
    /// clip_norm, gradients whose norm is larger are scaled to it.
    #[pyo3(signature = (loss, clip_norm=None))]
    fn minimize(
        &self,
        py: Python<'_>,
        loss: &Bound<'_, PyTensor>,
        clip_norm: Option<f64>,
    ) -> Done<()> {
        let loss = loss.get().value();
        Ok(py.detach(|| match clip_norm {
            None => self.optimizer().minimize(&loss),
            Some(most) => {
                let mut clip = |slopes: Vec<Tensor>| -> doorbell::tensor::Result<Vec<Tensor>> {
                    Ok(clip_grad_norm(&slopes, most)?.0)
                };
                self.optimizer().minimize_with(&loss, &mut clip)
            }
        })?)
    }

    /// The learning rate.
    #[getter]
    fn lr(&self, py: Python<'_>) -> Done<f64> {
        Ok(f64::from(py.detach(|| {
            let rate = self.optimizer().rate().get();
            rate.item::<f32>()
        })?))
    }

    #[setter]
    fn set_lr(&self, py: Python<'_>, lr: f64) -> Done<()> {
        Ok(py.detach(|| self.optimizer().set_rate(lr))?)
    }
}

/// What is saved: a name and a parameter for each.
type Named<'py> = Vec<(String, Bound<'py, PyTensor>)>;

fn checkpoint(
    py: Python<'_>,
    parameters: &Named<'_>,
    optimizers: &[(String, Bound<'_, PyOptimizer>)],
    generators: &[(String, Bound<'_, PyRng>)],
) -> Done<Checkpoint> {
    let mut all = Vec::new();
    for (name, tensor) in parameters {
        let Some(leaf) = tensor.get().leaf() else {
            return Err(exception(
                "GradientError",
                &format!("{name} is no parameter: its value cannot be loaded"),
            ));
        };
        all.push((name.clone(), leaf.parameter.clone()));
    }
    let mut made = Checkpoint::named(all);
    for (name, optimizer) in optimizers {
        let optimizer = optimizer.get();
        made = py.detach(|| made.optimizer(name, &**optimizer.optimizer()))?;
    }
    for (name, rng) in generators {
        made = made.rng(name, &rng.get().rng());
    }
    Ok(made)
}

/// Saves parameters, optimizers and generators into a safetensors file.
#[pyfunction]
pub(crate) fn _save(
    py: Python<'_>,
    parameters: Named<'_>,
    optimizers: Vec<(String, Bound<'_, PyOptimizer>)>,
    generators: Vec<(String, Bound<'_, PyRng>)>,
    path: PathBuf,
) -> Done<()> {
    let made = checkpoint(py, &parameters, &optimizers, &generators)?;
    Ok(py.detach(|| made.save(&path))?)
}

/// Sets them to what a file has.
#[pyfunction]
pub(crate) fn _load(
    py: Python<'_>,
    parameters: Named<'_>,
    optimizers: Vec<(String, Bound<'_, PyOptimizer>)>,
    generators: Vec<(String, Bound<'_, PyRng>)>,
    path: PathBuf,
) -> Done<()> {
    let made = checkpoint(py, &parameters, &optimizers, &generators)?;
    Ok(py.detach(|| made.load(&path))?)
}

/// Computes the values of parameters that this thread has set, such as running statistics.
#[pyfunction]
pub(crate) fn commit(py: Python<'_>) -> Done<()> {
    Ok(py.detach(commit_set)?)
}
