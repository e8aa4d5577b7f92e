//! The methods of tensors that are made from the engine's source by build.rs, and their stubs.

use pyo3::prelude::*;

use crate::args::{Axes, Other, Reduced, Sizes};
use crate::dtype::Kind;
use crate::error::Done;
use crate::value::PyTensor;

include!(concat!(env!("OUT_DIR"), "/methods.rs"));

/// The stubs of these methods, for python/doorbell/_native.pyi.
#[pyfunction]
pub(crate) fn stubs() -> &'static str {
    include_str!(concat!(env!("OUT_DIR"), "/methods.pyi"))
}
