//! Captured functions: Python runs at the first two calls with tensors of some shapes.

use doorbell::{Jit, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::device::Place;
use crate::error::{Done, Failed, wrong_type};
use crate::value::{InCapture, PyTensor};

type Function = Box<dyn FnMut(&[Tensor]) -> doorbell::tensor::Result<Vec<Tensor>> + Send>;

/// A captured function of a list of tensors that returns a list of tensors; doorbell.jit is made of it.
#[pyclass(name = "Jit", module = "doorbell._native", frozen)]
pub(crate) struct PyJit(Jit<Function>);

fn failed(e: impl Into<PyErr>) -> doorbell::tensor::Error {
    doorbell::tensor::Error::Other(Box::new(e.into()))
}

/// Calls the function of Python in the thread that the engine calls in.
fn called(function: &Py<PyAny>, inputs: &[Tensor]) -> doorbell::tensor::Result<Vec<Tensor>> {
    Python::attach(|py| {
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
        let function: Function = Box::new(move |inputs: &[Tensor]| called(&function, inputs));
        PyJit(Jit::new(&device.0, function))
    }

    /// The outputs for these inputs.
    fn call(&self, py: Python<'_>, inputs: Vec<Bound<'_, PyTensor>>) -> Done<Vec<PyTensor>> {
        let inputs: Vec<Tensor> = inputs.iter().map(|input| input.get().value()).collect();
        let found = py.detach(|| self.0.call(&inputs)).map_err(Failed::from)?;
        Ok(found.into_iter().map(PyTensor::of).collect())
    }

    /// How many graphs were captured.
    #[getter]
    fn captures(&self) -> usize {
        self.0.captures()
    }
}
