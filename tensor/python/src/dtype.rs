//! Element types, and how programs name them.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use doorbell::DType;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::error::wrong_type;

/// Types with their names in Python, and in numpy where it has them.
pub(crate) const TYPES: [(DType, &str, Option<&str>); 15] = [
    (DType::Bool, "bool", Some("|b1")),
    (DType::I8, "int8", Some("|i1")),
    (DType::I16, "int16", Some("<i2")),
    (DType::I32, "int32", Some("<i4")),
    (DType::I64, "int64", Some("<i8")),
    (DType::U8, "uint8", Some("|u1")),
    (DType::U16, "uint16", Some("<u2")),
    (DType::U32, "uint32", Some("<u4")),
    (DType::U64, "uint64", Some("<u8")),
    (DType::F8E4M3, "float8_e4m3fn", None),
    (DType::F8E5M2, "float8_e5m2", None),
    (DType::F16, "float16", Some("<f2")),
    (DType::BF16, "bfloat16", None),
    (DType::F32, "float32", Some("<f4")),
    (DType::F64, "float64", Some("<f8")),
];

/// The element type of a tensor.
///
/// Arguments that take one also take its name, a type of Python (float, int, bool), and numpy's and torch's types.
#[pyclass(name = "DType", module = "doorbell", frozen, skip_from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PyDType(pub(crate) DType);

impl PyDType {
    fn row(self) -> (DType, &'static str, Option<&'static str>) {
        let row = TYPES.iter().find(|row| row.0 == self.0);
        row.copied().unwrap_or((self.0, self.0.name(), None))
    }

    /// Its code in numpy's array interface; none if numpy lacks the type.
    pub(crate) fn code(self) -> Option<&'static str> {
        self.row().2
    }
}

#[pymethods]
impl PyDType {
    /// Its name, as numpy and torch have it: `float32`.
    #[getter]
    pub(crate) fn name(&self) -> &'static str {
        self.row().1
    }

    /// Bytes of an element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size()
    }

    /// Whether elements are floating point numbers.
    #[getter]
    fn is_floating_point(&self) -> bool {
        self.0.is_float()
    }

    fn __repr__(&self) -> String {
        format!("doorbell.{}", self.name())
    }

    fn __str__(&self) -> &'static str {
        self.name()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.extract::<Kind>().is_ok_and(|kind| kind.0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.name().hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (&'static str,))> {
        Ok((
            py.import("doorbell")?.getattr("dtype")?.unbind(),
            (self.name(),),
        ))
    }
}

/// An argument that names an element type.
#[derive(Clone, Copy)]
pub(crate) struct Kind(pub(crate) DType);

impl<'a, 'py> FromPyObject<'a, 'py> for Kind {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Kind> {
        if let Ok(dtype) = given.cast::<PyDType>() {
            return Ok(Kind(dtype.get().0));
        }
        let text = match given.cast::<PyType>() {
            // float, int, numpy.float32
            Ok(class) => class.name()?.to_string(),
            // A name; numpy's and torch's types are their names as text.
            Err(_) => given.str()?.to_string(),
        };
        let name = text.strip_prefix("torch.").unwrap_or(&text);
        let name = match name {
            "float" => "float32",
            "int" | "long" => "int64",
            "bool_" => "bool",
            "half" => "float16",
            "double" => "float64",
            "float8_e4m3" => "float8_e4m3fn",
            name => name,
        };
        let row = TYPES
            .iter()
            .find(|row| row.1 == name || row.0.name() == name);
        row.map(|row| Kind(row.0)).ok_or_else(|| {
            let known: Vec<&str> = TYPES.iter().map(|row| row.1).collect();
            wrong_type(format!(
                "expected an element type, found {text}; one of {}",
                known.join(", ")
            ))
        })
    }
}

/// The element type of a name, of Python's, numpy's or torch's type.
#[pyfunction]
pub(crate) fn dtype(given: Kind) -> PyDType {
    PyDType(given.0)
}
