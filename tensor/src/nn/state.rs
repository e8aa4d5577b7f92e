//! Parameters in safetensors files.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Module, Parameter, commit};
use crate::error::{Error, Result};
use crate::graph::Tensor;
use crate::io::safetensors::{File, TensorRef, write};
use crate::ops::shape_error;

/// Writes all parameters of a module, replacing what was at `path` in one step.
///
/// # Errors
/// From computing or reading the values; what the file system answered.
pub fn save(module: &dyn Module, path: impl AsRef<Path>) -> Result<()> {
    save_tensors(
        module
            .parameters()
            .into_iter()
            .map(|(name, parameter)| (name, parameter.get())),
        path,
    )
}

/// Writes named tensors, replacing what was at `path` in one step.
///
/// # Errors
/// From computing or reading the values; what the file system answered.
pub fn save_tensors(
    tensors: impl IntoIterator<Item = (String, Tensor)>,
    path: impl AsRef<Path>,
) -> Result<()> {
    let mut content = Vec::new();
    for (name, tensor) in tensors {
        let bytes = tensor.to_bytes()?;
        content.push((name, tensor, bytes));
    }
    let list = content.iter().map(|(name, tensor, bytes)| TensorRef {
        name,
        dtype: tensor.dtype(),
        shape: tensor.shape(),
        data: bytes,
    });
    write(path, list, &BTreeMap::new()).map_err(Box::new)?;
    Ok(())
}

/// Reads all tensors of a file.
///
/// # Errors
/// What the file system answered, or a file that is no safetensors file.
pub fn load_tensors(
    engine: &crate::Engine,
    path: impl AsRef<Path>,
) -> Result<BTreeMap<String, Tensor>> {
    let file = File::open(path).map_err(Box::new)?;
    file.tensors()
        .iter()
        .map(|(name, entry)| {
            let data = file.data(name).map_err(Box::new)?.to_vec();
            let tensor = Tensor::from_bytes(engine, data, &entry.shape, entry.dtype)?;
            Ok((name.clone(), tensor))
        })
        .collect()
}

/// Gives every parameter of a module the tensor of its name in the file, cast to its type, and
/// commits them. Tensors of the file that the module lacks are left alone.
///
/// # Errors
/// A parameter that the file lacks, or with another shape; then nothing is changed.
pub fn load(module: &dyn Module, path: impl AsRef<Path>) -> Result<()> {
    let file = File::open(path).map_err(Box::new)?;
    let mut new: Vec<(Parameter, Tensor)> = Vec::new();
    for (name, parameter) in module.parameters() {
        let old = parameter.get();
        let entry = file.entry(&name).map_err(Box::new)?;
        if entry.shape != old.shape() {
            return shape_error(
                "load",
                format!(
                    "`{name}` is {:?} in the file, the module has {:?}",
                    entry.shape,
                    old.shape()
                ),
            );
        }
        let data = file.data(&name).map_err(Box::new)?.to_vec();
        let value = Tensor::from_bytes(old.engine(), data, &entry.shape, entry.dtype)?;
        new.push((parameter, value.cast(old.dtype())?));
    }
    let parameters: Vec<Parameter> = new
        .into_iter()
        .map(|(parameter, value)| {
            parameter.set(value)?;
            Ok::<_, Error>(parameter)
        })
        .collect::<Result<_>>()?;
    commit(&parameters)
}
