//! ONNX models: loaded, and run on numpy's arrays and tensors.

use std::path::PathBuf;
use std::sync::Arc;

use doorbell::Engine;
use doorbell::onnx::value::{Array, Strings};
use doorbell::onnx::{Dim, Elem, Model, Outputs, Session, Type, Value};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::data;
use crate::device::{Place, PyDevice, chosen, of as device_of};
use crate::error::{Done, exception};
use crate::value::PyTensor;

/// A model on a device; doorbell.onnx.InferenceSession is made of it.
#[pyclass(name = "Model", module = "doorbell._native", frozen)]
pub(crate) struct PyModel {
    model: Model,
    session: Session,
    engine: Engine,
}

/// An input or output: its name, its shape (numbers, names, and None where nothing is known), and its type in the words of
/// ONNX Runtime.
type Port = (String, Option<Vec<Py<PyAny>>>, String);

/// An element type in the words of ONNX Runtime.
fn word(elem: Elem) -> String {
    elem.to_string().to_lowercase()
}

fn port(py: Python<'_>, name: &str, ty: &Type) -> PyResult<Port> {
    let dims = |dims: &Option<Vec<Dim>>| -> PyResult<Option<Vec<Py<PyAny>>>> {
        let Some(dims) = dims else { return Ok(None) };
        let found = dims.iter().map(|dim| {
            Ok(match dim {
                Dim::Fixed(n) => n.into_pyobject(py)?.into_any().unbind(),
                Dim::Named(name) => name.into_pyobject(py)?.into_any().unbind(),
                Dim::Any => py.None(),
            })
        });
        found.collect::<PyResult<Vec<_>>>().map(Some)
    };
    let (shape, text) = match ty {
        Type::Tensor(elem, shape) => (dims(shape)?, format!("tensor({})", word(*elem))),
        Type::Strings(shape) => (dims(shape)?, "tensor(string)".to_owned()),
        Type::Sequence(of) => (None, format!("seq({})", port(py, name, of)?.2)),
        Type::Optional(of) => (None, format!("optional({})", port(py, name, of)?.2)),
        Type::Other(text) => (None, text.clone()),
    };
    Ok((name.to_owned(), shape, text))
}

/// Strings of an array of numpy's, or of a list.
fn strings(given: &Bound<'_, PyAny>) -> Done<Value> {
    let numpy = given.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (given,))?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let flat = array.call_method0("ravel")?.call_method0("tolist")?;
    let mut items = Vec::new();
    for item in flat.try_iter()? {
        let item = item?;
        items.push(match item.extract::<Vec<u8>>() {
            Ok(bytes) if item.cast::<pyo3::types::PyBytes>().is_ok() => {
                String::from_utf8_lossy(&bytes).into_owned()
            }
            _ => item.str()?.to_string(),
        });
    }
    Ok(Value::Strings(Strings {
        shape,
        items: items.into(),
    }))
}

/// The value of an input that the model declares with this type.
fn value(given: &Bound<'_, PyAny>, ty: Option<&Type>, engine: &Engine) -> Done<Value> {
    match ty {
        Some(Type::Strings(_)) => strings(given),
        Some(Type::Sequence(of)) => {
            let items = given
                .try_iter()?
                .map(|item| value(&item?, Some(of.as_ref()), engine));
            Ok(Value::Sequence(Arc::new(items.collect::<Done<_>>()?)))
        }
        Some(Type::Optional(_)) if given.is_none() => Ok(Value::Optional(None)),
        Some(Type::Optional(of)) => value(given, Some(of.as_ref()), engine),
        ty => {
            let tensor = data::shared(given, engine)?;
            let elem = match ty {
                Some(Type::Tensor(elem, _)) if elem.held() == tensor.dtype() => *elem,
                _ => Elem::Plain(tensor.dtype()),
            };
            Ok(Value::Tensor(Array { tensor, elem }))
        }
    }
}

/// An output as tensors, strings and lists of them.
fn python<'py>(py: Python<'py>, value: &Value) -> Done<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Tensor(array) => Bound::new(py, PyTensor::of(array.tensor.clone()))?.into_any(),
        Value::Strings(strings) => {
            let numpy = py.import("numpy")?;
            let kwargs = PyDict::new(py);
            kwargs.set_item("dtype", "object")?;
            let list = PyList::new(py, strings.items.iter())?;
            let flat = numpy.call_method("array", (list,), Some(&kwargs))?;
            flat.call_method1("reshape", (PyTuple::new(py, &strings.shape)?,))?
        }
        Value::Sequence(items) => {
            let list = PyList::empty(py);
            for item in items.iter() {
                list.append(python(py, item)?)?;
            }
            list.into_any()
        }
        Value::Optional(Some(value)) => python(py, value)?,
        Value::Optional(None) => py.None().into_bound(py),
    })
}

#[pymethods]
impl PyModel {
    #[new]
    #[pyo3(signature = (source, device=None))]
    fn new(py: Python<'_>, source: &Bound<'_, PyAny>, device: Option<Place>) -> Done<PyModel> {
        let engine = chosen(py, device)?;
        let model = match source.cast::<pyo3::types::PyBytes>() {
            Ok(bytes) => {
                let bytes = bytes.as_bytes().to_vec();
                py.detach(|| Model::from_bytes("the model in memory", bytes))?
            }
            Err(_) => {
                let path: PathBuf = source.extract()?;
                py.detach(|| Model::load(&path))?
            }
        };
        let session = model.on(&engine);
        Ok(PyModel {
            model,
            session,
            engine,
        })
    }

    /// Its inputs, without those that the file has a value for.
    fn inputs(&self, py: Python<'_>) -> PyResult<Vec<Port>> {
        self.model
            .inputs()
            .map(|(name, ty)| port(py, name, ty))
            .collect()
    }

    /// Inputs that the file has a value for.
    fn defaults(&self, py: Python<'_>) -> PyResult<Vec<Port>> {
        self.model
            .defaults()
            .map(|(name, ty)| port(py, name, ty))
            .collect()
    }

    /// Its outputs.
    fn outputs(&self, py: Python<'_>) -> PyResult<Vec<Port>> {
        self.model
            .outputs()
            .map(|(name, ty)| port(py, name, ty))
            .collect()
    }

    /// Its device.
    #[getter]
    fn device(&self) -> PyDevice {
        device_of(&self.engine)
    }

    /// How many graphs were captured: one for each set of shapes.
    #[getter]
    fn captures(&self) -> usize {
        self.session.captures()
    }

    /// The outputs of these names (None: all) for inputs by name.
    fn run<'py>(
        &self,
        py: Python<'py>,
        names: Option<Vec<String>>,
        feeds: &Bound<'py, PyDict>,
    ) -> Done<Vec<Bound<'py, PyAny>>> {
        let mut inputs = Vec::new();
        for (name, given) in feeds.iter() {
            let name: String = name.extract()?;
            let mut ports = self.model.inputs().chain(self.model.defaults());
            let ty = ports.find(|(known, _)| *known == name).map(|(_, ty)| ty);
            inputs.push((name, value(&given, ty, &self.engine)?));
        }
        let outputs: Outputs = py.detach(|| self.session.run(inputs))?;
        let Some(names) = names else {
            return outputs
                .0
                .iter()
                .map(|(_, value)| python(py, value))
                .collect();
        };
        let wanted = names.iter().map(|name| match outputs.get(name) {
            Some(value) => python(py, value),
            None => {
                let known: Vec<&str> = outputs.0.iter().map(|(name, _)| name.as_str()).collect();
                let what = format!(
                    "{}: no output {name:?}; outputs: {}",
                    self.model.file(),
                    known.join(", ")
                );
                Err(exception("ModelInputError", &what))
            }
        });
        wanted.collect()
    }
}
