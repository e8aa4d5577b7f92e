//! Captured functions: Python runs at the first two calls with tensors of some shapes.

use std::sync::{Arc, Mutex, PoisonError};

use doorbell::{Jit, Tensor};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::device::Place;
use crate::error::{Done, Failed, wrong_type};
use crate::value::{InCapture, PyTensor};

type Function = Box<dyn FnMut(&[Tensor]) -> doorbell::tensor::Result<Vec<Tensor>> + Send>;

/// A captured function of a list of tensors that returns a list of tensors; doorbell.jit is made of it.
#[pyclass(name = "Jit", module = "doorbell._native", frozen)]
pub(crate) struct PyJit {
    jit: Jit<Function>,
    /// What `jit` calls. The garbage collector sees it, and takes it out of a cycle that nobody can reach.
    function: Arc<Mutex<Option<Py<PyAny>>>>,
}

fn failed(e: impl Into<PyErr>) -> doorbell::tensor::Error {
    doorbell::tensor::Error::Other(Box::new(e.into()))
}

/// Calls the function of Python in the thread that the engine calls in.
fn called(
    function: &Mutex<Option<Py<PyAny>>>,
    inputs: &[Tensor],
) -> doorbell::tensor::Result<Vec<Tensor>> {
    Python::attach(|py| {
        let function = {
            let held = function.lock().unwrap_or_else(PoisonError::into_inner);
            held.as_ref().map(|function| function.clone_ref(py))
        };
        let Some(function) = function else {
            return Err(failed(wrong_type(
                "the captured function was freed by the garbage collector".into(),
            )));
        };
        let list = PyList::empty(py);
        for input in inputs {
            let made = list.append(PyTensor::of(input.clone()));
            made.map_err(failed)?;
        }
        let _in_capture = InCapture::begin();
        let found = function.bind(py).call1((list,)).map_err(failed)?;
        let found: Vec<Bound<'_, PyAny>> = found.extract().map_err(failed)?;
        let tensors = found.iter().map(|one| match one.cast::<PyTensor>() {
            Ok(tensor) => Ok(tensor.get().value()),
            Err(_) => Err(failed(wrong_type(
                "a captured function returns tensors".into(),
            ))),
        });
        tensors.collect()
    })
}

#[pymethods]
impl PyJit {
    #[new]
    fn new(function: Py<PyAny>, device: Place) -> PyJit {
        let function = Arc::new(Mutex::new(Some(function)));
        let held = function.clone();
        let call: Function = Box::new(move |inputs: &[Tensor]| called(&held, inputs));
        PyJit {
            jit: Jit::new(&device.0, call),
            function,
        }
    }

    /// The outputs for these inputs.
    fn call(&self, py: Python<'_>, inputs: Vec<Bound<'_, PyTensor>>) -> Done<Vec<PyTensor>> {
        let inputs: Vec<Tensor> = inputs.iter().map(|input| input.get().value()).collect();
        let found = py.detach(|| self.jit.call(&inputs)).map_err(Failed::from)?;
        Ok(found.into_iter().map(PyTensor::of).collect())
    }

    /// How many graphs were captured.
    #[getter]
    fn captures(&self) -> usize {
        self.jit.captures()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // What is not visited counts as reachable.
        if let Ok(function) = self.function.try_lock()
            && let Some(function) = &*function
        {
            visit.call(function)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        let function = self
            .function
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(function);
    }
}
