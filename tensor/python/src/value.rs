//! The tensor of Python: a value, or a cell whose value an optimizer changes.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, Weak};

use doorbell::{Parameter, Tensor};
use pyo3::prelude::*;

use crate::error::{Done, exception};

/// A tensor: numbers of one type, with a shape, on a device.
///
/// Tensor(data, dtype=None, device=None, requires_grad=False) copies numbers, nested lists, arrays of numpy, and anything
/// with a buffer or `__dlpack__`; asarray() shares their memory. Lists of floats become float32, of ints int64.
///
/// Tensors are lazy: operations build a graph, which is compiled and run when a value is read (numpy, tolist, item,
/// print) or realize() is called. Shapes and types are checked at once.
///
/// One with requires_grad=True is a parameter: backward() gives it a gradient, and optimizers change its value.
#[pyclass(name = "Tensor", module = "doorbell", frozen)]
pub(crate) struct PyTensor {
    held: Held,
}

enum Held {
    /// Assignment to a part of it replaces it.
    Value(RwLock<Tensor>),
    /// A parameter, or state that optimizers do not change.
    Cell(Arc<Leaf>),
}

/// A parameter with its gradient.
pub(crate) struct Leaf {
    pub(crate) parameter: Parameter,
    grad: Mutex<Option<Tensor>>,
}

/// The leaves that backward() looks for.
static LEAVES: Mutex<Vec<Weak<Leaf>>> = Mutex::new(Vec::new());

fn leaves() -> MutexGuard<'static, Vec<Weak<Leaf>>> {
    LEAVES.lock().unwrap_or_else(|broken| broken.into_inner())
}

thread_local! {
    /// Leaves that got a gradient in the captured functions that this thread is in, one list for each.
    static CAPTURED: RefCell<Vec<Vec<Arc<Leaf>>>> = const { RefCell::new(Vec::new()) };
}

/// The time in which this thread is in a captured function. Gradients that were made in it are values of the trace, and go with
/// it.
pub(crate) struct InCapture;

impl InCapture {
    pub(crate) fn begin() -> InCapture {
        CAPTURED.with(|captured| captured.borrow_mut().push(Vec::new()));
        InCapture
    }

    /// Whether this thread is in one.
    pub(crate) fn is_on() -> bool {
        CAPTURED.with(|captured| !captured.borrow().is_empty())
    }
}

impl Drop for InCapture {
    fn drop(&mut self) {
        let touched = CAPTURED.with(|captured| captured.borrow_mut().pop());
        for leaf in touched.into_iter().flatten() {
            leaf.set_grad(None);
        }
    }
}

impl Leaf {
    /// A cell; backward() looks for trainable ones.
    pub(crate) fn new(parameter: Parameter) -> Arc<Leaf> {
        let is_trainable = parameter.is_trainable();
        let leaf = Arc::new(Leaf {
            parameter,
            grad: Mutex::new(None),
        });
        if is_trainable {
            let mut leaves = leaves();
            // Those that are gone are forgotten whenever the list has doubled.
            if leaves.len().is_power_of_two() {
                leaves.retain(|leaf| leaf.strong_count() > 0);
            }
            leaves.push(Arc::downgrade(&leaf));
        }
        leaf
    }

    pub(crate) fn grad(&self) -> Option<Tensor> {
        self.grad
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
            .clone()
    }

    pub(crate) fn set_grad(&self, grad: Option<Tensor>) {
        let old = {
            let mut cell = self
                .grad
                .lock()
                .unwrap_or_else(|broken| broken.into_inner());
            std::mem::replace(&mut *cell, grad)
        };
        drop(old);
    }
}

impl PyTensor {
    /// A value.
    pub(crate) fn of(tensor: Tensor) -> PyTensor {
        PyTensor {
            held: Held::Value(RwLock::new(tensor)),
        }
    }

    /// A cell.
    pub(crate) fn cell(leaf: Arc<Leaf>) -> PyTensor {
        PyTensor {
            held: Held::Cell(leaf),
        }
    }

    /// The value of now.
    pub(crate) fn value(&self) -> Tensor {
        match &self.held {
            Held::Value(tensor) => tensor
                .read()
                .unwrap_or_else(|broken| broken.into_inner())
                .clone(),
            Held::Cell(leaf) => leaf.parameter.get(),
        }
    }

    /// Its cell, if it is one.
    pub(crate) fn leaf(&self) -> Option<&Arc<Leaf>> {
        match &self.held {
            Held::Value(_) => None,
            Held::Cell(leaf) => Some(leaf),
        }
    }

    /// Replaces the value of a tensor that is no cell, or sets the cell and computes it: a value that is not computed would
    /// keep all earlier ones.
    ///
    /// # Errors
    /// A cell whose value has another shape or type.
    pub(crate) fn replace(&self, py: Python<'_>, tensor: Tensor) -> Done<()> {
        match &self.held {
            Held::Value(held) => {
                let old = {
                    let mut held = held.write().unwrap_or_else(|broken| broken.into_inner());
                    std::mem::replace(&mut *held, tensor)
                };
                // Its memory may be an array of Python: freeing that may let another thread run, which reads this tensor.
                drop(old);
                Ok(())
            }
            Held::Cell(leaf) => {
                leaf.parameter.set(tensor)?;
                match InCapture::is_on() {
                    true => Ok(()),
                    false => Ok(py.detach(|| doorbell::nn::commit(&leaf.parameter))?),
                }
            }
        }
    }
}

/// Sets the gradient of a leaf. In a captured function it is a value of the trace.
pub(crate) fn set_grad(leaf: &Arc<Leaf>, grad: Option<Tensor>) {
    leaf.set_grad(grad);
    CAPTURED.with(|captured| {
        if let Some(touched) = captured.borrow_mut().last_mut() {
            touched.push(leaf.clone());
        }
    });
}

/// Adds the gradients of a tensor of one element (or of `of * seed`, summed) to the leaves that it depends on, and computes
/// them, together with the tensor.
pub(crate) fn backward(py: Python<'_>, of: &Tensor, seed: Option<&Tensor>) -> Done<()> {
    let all: Vec<Arc<Leaf>> = leaves().iter().filter_map(Weak::upgrade).collect();
    let same = |leaf: &Arc<Leaf>| leaf.parameter.get().engine() == of.engine();
    let all: Vec<Arc<Leaf>> = all.into_iter().filter(same).collect();
    let values: Vec<Tensor> = all.iter().map(|leaf| leaf.parameter.get()).collect();
    let with: Vec<&Tensor> = values.iter().collect();
    let in_capture = InCapture::is_on();
    let found = py.detach(|| {
        // The gradients of gradients are those of `gradients`; these keep no graph.
        let found = doorbell::no_grad(|| match seed {
            Some(seed) => doorbell::dependence_from(of, seed, &with),
            None => doorbell::dependence(of, &with),
        })?;
        let mut sums = Vec::new();
        for (leaf, new) in all.iter().zip(found) {
            let Some(new) = new else { continue };
            let sum = match leaf.grad() {
                Some(old) => doorbell::no_grad(|| old.add(&new))?,
                None => new,
            };
            sums.push((leaf.clone(), sum));
        }
        if !in_capture {
            let roots: Vec<&Tensor> = sums.iter().map(|(_, sum)| sum).chain([of]).collect();
            of.engine().realize(&roots)?;
        }
        Ok::<_, doorbell::tensor::Error>(sums)
    })?;
    if found.is_empty() {
        return Err(exception(
            "GradientError",
            &format!(
                "backward: the tensor of shape {:?} depends on no tensor with requires_grad=True; compute it from \
                 one, without detach, integer steps or assignment, and outside no_grad",
                of.shape()
            ),
        ));
    }
    for (leaf, sum) in found {
        set_grad(&leaf, Some(sum));
    }
    Ok(())
}
