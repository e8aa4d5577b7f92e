//! Numbers of Python and of numpy.

use doorbell::Scalar;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use crate::error::wrong_type;

/// A number of Python.
pub(crate) struct Number(pub(crate) Scalar);

impl<'a, 'py> FromPyObject<'a, 'py> for Number {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Number> {
        if let Ok(truth) = given.cast::<PyBool>() {
            return Ok(Number(Scalar::Bool(truth.is_true())));
        }
        if given.cast::<PyInt>().is_ok() {
            let whole = given.extract::<i64>().map_err(|_| {
                PyOverflowError::new_err(
                    "integer beyond int64; pass an array of uint64, or a float",
                )
            })?;
            return Ok(Number(Scalar::Int(whole)));
        }
        if given.cast::<PyFloat>().is_ok() {
            return Ok(Number(Scalar::Float(given.extract()?)));
        }
        // numpy's numbers.
        if given.hasattr("dtype")? && given.hasattr("item")? {
            let item = given.call_method0("item")?;
            let is_number = item.cast::<PyInt>().is_ok() || item.cast::<PyFloat>().is_ok();
            if is_number {
                return item.extract();
            }
        }
        let class = given.get_type().name()?.to_string();
        Err(wrong_type(format!("expected a number, found {class}")))
    }
}
