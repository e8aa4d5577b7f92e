//! The Python package `doorbell`: the module `doorbell._native` that the files of `python/doorbell` are made on.
//!
//! An interpreter loads it. Methods of tensors are made from the engine's source (`build.rs`); what waits for a device or
//! a compiler gives the lock of the interpreter up.
//!
//! - `error` errors as exceptions, `dtype` element types, `device` devices
//! - `capsule` memory of others, `data` tensors of Python's data
//! - `value` the tensor, `number` and `args` arguments, `index` x\[...\], `methods`, `options` and `tensor` its methods
//! - `functions`, `layers`, `optimizer`, `jit`, `model`

mod args;
mod capsule;
mod data;
mod device;
mod dtype;
mod error;
mod functions;
mod index;
mod jit;
mod layers;
mod methods;
mod model;
mod number;
mod optimizer;
mod options;
mod tensor;
mod value;

use pyo3::prelude::*;

/// Runs the program `doorbell` with the arguments of the process, and returns its exit code.
#[pyfunction]
fn _main(py: Python<'_>, args: Vec<String>) -> i32 {
    py.detach(|| i32::from(doorbell::program::run(args.into_iter().map(Into::into))))
}

/// What the Python files of doorbell are made on.
#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<value::PyTensor>()?;
    m.add_class::<dtype::PyDType>()?;
    m.add_class::<device::PyDevice>()?;
    m.add_class::<functions::PyRng>()?;
    m.add_class::<layers::PyLayer>()?;
    m.add_class::<optimizer::PyOptimizer>()?;
    m.add_class::<jit::PyJit>()?;
    m.add_class::<model::PyModel>()?;
    for (dtype, name, _) in dtype::TYPES {
        // `bool` and the like would hide the interpreter's own.
        let name = if name == "bool" { "bool_" } else { name };
        m.add(name, dtype::PyDType(dtype))?;
    }
    m.add_function(wrap_pyfunction!(_main, m)?)?;
    m.add_function(wrap_pyfunction!(methods::stubs, m)?)?;
    m.add_function(wrap_pyfunction!(dtype::dtype, m)?)?;
    m.add_function(wrap_pyfunction!(tensor::_from_bytes, m)?)?;
    m.add_function(wrap_pyfunction!(functions::asarray, m)?)?;
    m.add_function(wrap_pyfunction!(functions::from_dlpack, m)?)?;
    m.add_function(wrap_pyfunction!(functions::parameter, m)?)?;
    m.add_function(wrap_pyfunction!(functions::full, m)?)?;
    m.add_function(wrap_pyfunction!(functions::zeros, m)?)?;
    m.add_function(wrap_pyfunction!(functions::ones, m)?)?;
    m.add_function(wrap_pyfunction!(functions::arange, m)?)?;
    m.add_function(wrap_pyfunction!(functions::linspace, m)?)?;
    m.add_function(wrap_pyfunction!(functions::eye, m)?)?;
    m.add_function(wrap_pyfunction!(functions::cat, m)?)?;
    m.add_function(wrap_pyfunction!(functions::stack, m)?)?;
    m.add_function(wrap_pyfunction!(functions::einsum, m)?)?;
    m.add_function(wrap_pyfunction!(functions::meshgrid, m)?)?;
    m.add_function(wrap_pyfunction!(functions::where_, m)?)?;
    m.add_function(wrap_pyfunction!(functions::broadcast_shapes, m)?)?;
    m.add_function(wrap_pyfunction!(functions::gradients, m)?)?;
    m.add_function(wrap_pyfunction!(functions::realize, m)?)?;
    m.add_function(wrap_pyfunction!(functions::_no_grad, m)?)?;
    m.add_function(wrap_pyfunction!(functions::load_safetensors, m)?)?;
    m.add_function(wrap_pyfunction!(functions::save_safetensors, m)?)?;
    m.add_function(wrap_pyfunction!(functions::read_npy, m)?)?;
    m.add_function(wrap_pyfunction!(functions::default_device, m)?)?;
    m.add_function(wrap_pyfunction!(functions::default_rng, m)?)?;
    m.add_function(wrap_pyfunction!(functions::manual_seed, m)?)?;
    m.add_function(wrap_pyfunction!(optimizer::_save, m)?)?;
    m.add_function(wrap_pyfunction!(optimizer::_load, m)?)?;
    m.add_function(wrap_pyfunction!(optimizer::commit, m)?)?;
    Ok(())
}
