//! Errors of the library as Python's exceptions, with their texts.

use doorbell::onnx::OnnxError;
use pyo3::prelude::*;

/// Why a call failed; pyo3 raises what is in it.
pub(crate) struct Failed(pub(crate) PyErr);

/// The result of a call.
pub(crate) type Done<T> = Result<T, Failed>;

impl From<PyErr> for Failed {
    fn from(e: PyErr) -> Failed {
        Failed(e)
    }
}

impl From<Failed> for PyErr {
    fn from(failed: Failed) -> PyErr {
        failed.0
    }
}

impl From<doorbell::tensor::Error> for Failed {
    fn from(e: doorbell::tensor::Error) -> Failed {
        use doorbell::tensor::Error;

        let class = match &e {
            Error::Shape { .. } => "ShapeError",
            Error::DType { .. } => "DTypeError",
            Error::Engines { .. } => "PlaceError",
            Error::Index { .. } => "RangeError",
            Error::File(_) | Error::Array(_) | Error::Source { .. } => "FileError",
            Error::Kernel { .. } => "KernelError",
            Error::Capture { .. } => "CaptureError",
            Error::Memory { .. } | Error::Device(doorbell::hcq::Error::OutOfMemory { .. }) => {
                "OutOfMemoryError"
            }
            Error::Device(_) => "DeviceError",
            _ => "Error",
        };
        match e {
            // What a Python function raised that was called inside a captured one.
            Error::Other(other) => match other.downcast::<PyErr>() {
                Ok(raised) => Failed(*raised),
                Err(other) => match other.downcast::<doorbell::Error>() {
                    Ok(own) => Failed::from(*own),
                    Err(other) => exception("Error", &other.to_string()),
                },
            },
            e => exception(class, &e.to_string()),
        }
    }
}

impl From<doorbell::Error> for Failed {
    fn from(e: doorbell::Error) -> Failed {
        use doorbell::Error;

        let class = match e {
            Error::Tensor(e) => return Failed::from(e),
            Error::Model(e) => return Failed::from(*e),
            Error::Variable(_) | Error::Select(_) | Error::Twin { .. } => "TargetError",
            Error::NoCompiler { .. } | Error::Compiler(_) => "KernelError",
            Error::Device(doorbell::hcq::Error::OutOfMemory { .. }) => "OutOfMemoryError",
            Error::Device(_) | Error::Rules { .. } => "DeviceError",
            Error::Safetensors(_) | Error::Npy(_) | Error::Npz(_) => "FileError",
            Error::File(_) | Error::Io(_) => "FileError",
            _ => "Error",
        };
        exception(class, &e.to_string())
    }
}

impl From<OnnxError> for Failed {
    fn from(e: OnnxError) -> Failed {
        match e {
            OnnxError::Engine { source, .. } if is_raised(&source) => Failed::from(*source),
            OnnxError::File(_) => exception("FileError", &e.to_string()),
            OnnxError::Input { .. } => exception("ModelInputError", &e.to_string()),
            e => exception("ModelError", &e.to_string()),
        }
    }
}

/// Whether it is what Python raised.
fn is_raised(e: &doorbell::tensor::Error) -> bool {
    matches!(e, doorbell::tensor::Error::Other(other) if other.is::<PyErr>())
}

/// An exception of `doorbell._errors`.
pub(crate) fn exception(class: &str, text: &str) -> Failed {
    Failed(Python::attach(|py| {
        let made = py
            .import("doorbell._errors")
            .and_then(|errors| errors.getattr(class))
            .and_then(|class| class.call1((text,)));
        match made {
            Ok(exception) => PyErr::from_value(exception),
            Err(e) => e,
        }
    }))
}

/// An argument of the wrong type.
pub(crate) fn wrong_type(text: String) -> PyErr {
    pyo3::exceptions::PyTypeError::new_err(text)
}

/// An argument of the wrong value.
pub(crate) fn wrong_value(text: String) -> PyErr {
    pyo3::exceptions::PyValueError::new_err(text)
}
