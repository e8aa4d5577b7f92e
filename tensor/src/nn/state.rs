//! Saves and loads parameters and training state in safetensors files.

use std::collections::BTreeMap;
use std::path::Path;

use codegen::DType;

use super::{Module, Optimizer, Parameter, commit};
use crate::error::Result;
use crate::graph::Tensor;
use crate::io::safetensors::{File, TensorRef, write};
use crate::ops::random::Rng;
use crate::ops::shape_error;

/// The state of a training run in one file: a module, optimizers, random generators. A resumed run is bit-identical
/// to an uninterrupted one.
///
/// ```
/// # use tensor::{DType, Rng, nn::{Adam, Linear, Module, state::{self, Checkpoint}}};
/// # fn run(engine: &tensor::Engine, path: &std::path::Path) -> tensor::Result<()> {
/// let mut rng = Rng::new(engine, 7);
/// let net = Linear::new(&mut rng, 4, 1, true, DType::F32)?;
/// let adam = Adam::with_lr(net.trainable(), 0.1)?;
/// let all = Checkpoint::of(&net).optimizer("optimizer", &adam)?.rng("rng", &rng);
/// all.save(path)?; // between two steps
/// all.load(path)?; // in the next run, after the same lines
/// state::load(&net, path)?; // the module alone
/// # Ok(())
/// # }
/// ```
///
/// It holds the parameter cells, not their values: create it once, before a captured function borrows the
/// optimizer, and save it as often as needed.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    parameters: Vec<(String, Parameter)>,
    /// How many of these are the module's.
    own: usize,
    generators: Vec<(String, Rng)>,
}

impl Checkpoint {
    /// All parameters and running statistics of a module, under their names.
    pub fn of(module: &dyn Module) -> Checkpoint {
        Checkpoint::named(module.parameters())
    }

    /// Parameters under names of their own: those of a [part](super::part), or all but a layer that the file has in another
    /// shape.
    ///
    /// ```
    /// # use tensor::nn::{Module, part, state::Checkpoint};
    /// # fn run(net: &dyn Module, body: &dyn Module, path: &std::path::Path) -> tensor::Result<()> {
    /// // The file has `model.0.weight` for what `body` calls `0.weight`.
    /// Checkpoint::named(part("model", body)).load(path)?;
    /// // The last layer, `fc`, keeps its first values.
    /// let body = net.parameters().into_iter().filter(|(name, _)| !name.starts_with("fc."));
    /// Checkpoint::named(body).load(path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn named(parameters: impl IntoIterator<Item = (String, Parameter)>) -> Checkpoint {
        let parameters: Vec<_> = parameters.into_iter().collect();
        Checkpoint {
            own: parameters.len(),
            parameters,
            generators: Vec::new(),
        }
    }

    /// Adds the state of an optimizer: `optimizer.weight.exp_avg` for the parameter `weight` of the module, and
    /// `optimizer.step`, `optimizer.lr` and the like for all, if its name is `optimizer`. Betas and other
    /// hyperparameters are not in the file.
    ///
    /// # Errors
    /// A parameter of the optimizer that the module lacks, so that it has no name.
    pub fn optimizer(mut self, name: &str, optimizer: &dyn Optimizer) -> Result<Checkpoint> {
        for slot in optimizer.slots() {
            let full = match slot.of {
                None => format!("{name}.{}", slot.name),
                Some(i) => {
                    let own = &optimizer.parameters()[i];
                    let mut known = self.parameters[..self.own].iter();
                    match known.find(|(_, parameter)| parameter.is(own)) {
                        Some((of, _)) => format!("{name}.{of}.{}", slot.name),
                        None => {
                            return shape_error(
                                "checkpoint",
                                format!(
                                    "parameter {i} of `{name}`, of shape {:?}, is not among the {} of \
                                     the module; pass `of` a module that has all parameters of the \
                                     optimizer",
                                    own.like().shape(),
                                    self.own
                                ),
                            );
                        }
                    }
                }
            };
            self.parameters.push((full, slot.cell));
        }
        Ok(self)
    }

    /// Adds the state of a generator, see [`Rng::state`].
    #[must_use]
    pub fn rng(mut self, name: &str, rng: &Rng) -> Checkpoint {
        self.generators.push((name.to_string(), rng.clone()));
        self
    }

    /// Saves everything, atomically replacing `path`. While another thread trains, each parameter is consistent,
    /// but some may be a step newer than others.
    ///
    /// # Errors
    /// From computing or reading the values; two of one name; file system errors.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        commit(self.cells())?;
        let mut all = Vec::new();
        for (name, parameter) in &self.parameters {
            all.push((name.clone(), parameter.get()));
        }
        for (name, rng) in &self.generators {
            let words = Tensor::from_slice(rng.engine(), &rng.state(), &[4])?;
            all.push((name.clone(), words));
        }
        save_tensors(all, path)
    }

    /// Sets everything to the value of its name in the file, cast to its type, and commits it. Other tensors of the
    /// file are ignored.
    ///
    /// # Errors
    /// A name that the file lacks, or with another shape; a generator that is no four `u32`. Then nothing is
    /// changed.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<()> {
        let file = File::open(path).map_err(Box::new)?;
        let mut values = Vec::with_capacity(self.parameters.len());
        for (name, parameter) in &self.parameters {
            values.push(value(&file, name, &parameter.like())?);
        }
        let mut states = Vec::with_capacity(self.generators.len());
        for (name, _) in &self.generators {
            states.push(words(&file, name)?);
        }
        for ((_, parameter), value) in self.parameters.iter().zip(values) {
            parameter.set(value)?;
        }
        for ((_, rng), state) in self.generators.iter().zip(states) {
            rng.set_state(state)?;
        }
        commit(self.cells())
    }

    fn cells(&self) -> Vec<Parameter> {
        self.parameters
            .iter()
            .map(|(_, cell)| cell.clone())
            .collect()
    }
}

/// A tensor of a file in the shape and type of another.
fn value(file: &File, name: &str, like: &Tensor) -> Result<Tensor> {
    let entry = file.entry(name).map_err(Box::new)?;
    if entry.shape != like.shape() {
        return shape_error(
            "load",
            format!(
                "`{name}` is {:?} in the file, and {:?} here",
                entry.shape,
                like.shape()
            ),
        );
    }
    let data = file.data(name).map_err(Box::new)?.to_vec();
    Tensor::from_bytes(like.engine(), data, &entry.shape, entry.dtype)?.cast(like.dtype())
}

/// The state of a generator in a file.
fn words(file: &File, name: &str) -> Result<[u32; 4]> {
    let entry = file.entry(name).map_err(Box::new)?;
    let data = file.data(name).map_err(Box::new)?;
    let mut state = [0; 4];
    if entry.dtype != DType::U32 || data.len() != size_of_val(&state) {
        return shape_error(
            "load",
            format!(
                "`{name}` is {:?} {} in the file; a generator must be [4] u32",
                entry.shape, entry.dtype
            ),
        );
    }
    for (word, bytes) in state.iter_mut().zip(data.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    Ok(state)
}

/// Writes all parameters of a module, atomically replacing `path`.
///
/// # Errors
/// From computing or reading the values; file system errors.
pub fn save(module: &dyn Module, path: impl AsRef<Path>) -> Result<()> {
    Checkpoint::of(module).save(path)
}

/// Writes named tensors, atomically replacing `path`.
///
/// # Errors
/// From computing or reading the values; file system errors.
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
/// File system errors, or a file in another format.
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

/// Sets every parameter of a module to the tensor of its name in the file, cast to its type, and commits them.
/// Other tensors of the file are ignored. For a part of the module, or other names in the file, use
/// [`Checkpoint::named`].
///
/// # Errors
/// A parameter that the file lacks, or with another shape; then nothing is changed.
pub fn load(module: &dyn Module, path: impl AsRef<Path>) -> Result<()> {
    Checkpoint::of(module).load(path)
}
