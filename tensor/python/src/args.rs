//! Arguments of methods: axes, sizes, and what stands beside a tensor in an operation.

use doorbell::ops::loss::Reduction;
use doorbell::{Operand, Scalar, Tensor};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};

use crate::data;
use crate::error::{Done, wrong_type, wrong_value};
use crate::number::Number;
use crate::value::PyTensor;

/// Axes: one, or several; none given are all.
#[derive(Default)]
pub(crate) struct Axes(pub(crate) Vec<isize>);

impl<'a, 'py> FromPyObject<'a, 'py> for Axes {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Axes> {
        if given.is_none() {
            return Ok(Axes::default());
        }
        let axes = integers(&given)?;
        match axes.is_empty() {
            true => Err(wrong_value(
                "axis=(): expected at least one axis; leave it out for all axes".into(),
            )),
            false => Ok(Axes(axes)),
        }
    }
}

/// Sizes: one, or several.
pub(crate) struct Sizes(pub(crate) Vec<usize>);

impl<'a, 'py> FromPyObject<'a, 'py> for Sizes {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Sizes> {
        sizes(&integers(&given)?)
    }
}

/// An integer, or several.
fn integers(given: &Bound<'_, PyAny>) -> PyResult<Vec<isize>> {
    match given.extract::<isize>() {
        Ok(one) => Ok(vec![one]),
        Err(e) if e.is_instance_of::<PyOverflowError>(given.py()) => Err(e),
        Err(_) => match given.extract::<Vec<isize>>() {
            Err(e) if e.is_instance_of::<PyTypeError>(given.py()) => {
                let class = given.get_type().name()?.to_string();
                Err(wrong_type(format!(
                    "expected an integer or a sequence of integers, found {class}"
                )))
            }
            found => found,
        },
    }
}

fn sizes(given: &[isize]) -> PyResult<Sizes> {
    let found: Result<Vec<usize>, _> = given.iter().map(|&n| usize::try_from(n)).collect();
    found.map(Sizes).map_err(|_| {
        wrong_value(format!(
            "sizes {given:?}: expected numbers that are 0 or more"
        ))
    })
}

/// Sizes or axes as arguments of their own, or as one sequence.
pub(crate) fn spread(given: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<Vec<isize>> {
    if given.len() == 1 {
        let only = given.get_item(0)?;
        if let Ok(list) = only.extract::<Vec<isize>>() {
            return Ok(list);
        }
    }
    given.extract()
}

/// How losses are reduced: "mean", "sum" or "none".
pub(crate) struct Reduced(pub(crate) Reduction);

impl Reduced {
    /// The default of arguments.
    pub(crate) fn of(_mean: &str) -> Reduced {
        Reduced(Reduction::Mean)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Reduced {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Reduced> {
        let name: String = given.extract()?;
        match name.as_str() {
            "mean" => Ok(Reduced(Reduction::Mean)),
            "sum" => Ok(Reduced(Reduction::Sum)),
            "none" => Ok(Reduced(Reduction::None)),
            _ => Err(wrong_value(format!(
                "reduction={name:?}: expected \"mean\", \"sum\" or \"none\""
            ))),
        }
    }
}

/// What stands beside a tensor: a tensor, a number, or what a tensor is made of.
pub(crate) enum Other {
    /// On its own engine.
    Tensor(Tensor),
    /// Takes the type of the tensor beside it.
    Number(Scalar),
    /// Arrays and lists: they go to the engine of the tensor beside them.
    Data(Py<PyAny>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Other {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Other> {
        if let Ok(tensor) = given.cast::<PyTensor>() {
            return Ok(Other::Tensor(tensor.get().value()));
        }
        let is_number = given.cast::<PyInt>().is_ok() || given.cast::<PyFloat>().is_ok();
        if is_number {
            return Ok(Other::Number(given.extract::<Number>()?.0));
        }
        let is_text = given.cast::<PyString>().is_ok();
        if !is_text && data::is_data(&given) {
            return Ok(Other::Data(given.to_owned().unbind()));
        }
        let class = given.get_type().name()?.to_string();
        Err(wrong_type(format!(
            "expected a tensor, a number, an array or a list, found {class}"
        )))
    }
}

impl Other {
    /// As the other operand of an operation.
    pub(crate) fn operand(&self, py: Python<'_>, beside: &Tensor) -> Done<Operand> {
        Ok(match self {
            Other::Tensor(tensor) => Operand::Tensor(tensor.clone()),
            Other::Number(number) => Operand::Scalar(*number),
            Other::Data(data) => Operand::Tensor(data::shared(data.bind(py), beside.engine())?),
        })
    }

    /// As a tensor: a number has no axes, and the type that it takes beside the tensor.
    pub(crate) fn tensor(&self, py: Python<'_>, beside: &Tensor) -> Done<Tensor> {
        match self {
            Other::Tensor(tensor) => Ok(tensor.clone()),
            Other::Number(number) => {
                let dtype = number.beside(beside.dtype());
                Ok(Tensor::full(beside.engine(), &[], *number, dtype)?)
            }
            Other::Data(data) => data::shared(data.bind(py), beside.engine()),
        }
    }
}
