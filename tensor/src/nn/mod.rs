//! Layers, optimizers and their state.
//!
//! A layer is a struct of [`Parameter`]s with a `forward`. Names of parameters are those of PyTorch,
//! so that its checkpoints load.

pub mod attention;
pub mod conv;
pub mod embedding;
pub mod init;
pub mod linear;
pub mod norm;
pub mod optim;
pub mod recurrent;
pub mod state;

pub use crate::param::{Parameter, commit, commit_set};
pub use attention::MultiHeadAttention;
pub use conv::{Conv, ConvTranspose};
pub use embedding::{Dropout, Embedding};
pub use linear::Linear;
pub use norm::{BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RmsNorm};
pub use optim::{Adam, AdamW, Lamb, Optimizer, Sgd};
pub use recurrent::{Gru, Lstm};

/// Something with named parameters.
pub trait Module {
    /// All parameters and running statistics with their names, in a fixed order.
    fn parameters(&self) -> Vec<(String, Parameter)>;

    /// The parameters that optimizers may change, each once, also if it has several names.
    fn trainable(&self) -> Vec<Parameter> {
        let all = self.parameters().into_iter();
        let all = all.map(|(_, parameter)| parameter);
        distinct(all.filter(Parameter::is_trainable))
    }
}

/// Each cell once, in the order of the first ones.
fn distinct(parameters: impl IntoIterator<Item = Parameter>) -> Vec<Parameter> {
    let mut seen = hashbrown::HashSet::new();
    let all = parameters.into_iter();
    all.filter(|p| seen.insert(p.address())).collect()
}

/// The parameters of a part, under the name of the part: `name.weight`.
pub fn part(name: &str, module: &dyn Module) -> Vec<(String, Parameter)> {
    module
        .parameters()
        .into_iter()
        .map(|(inner, parameter)| (format!("{name}.{inner}"), parameter))
        .collect()
}

/// The parameters that are there, by name.
pub(crate) fn named<'a>(
    list: impl IntoIterator<Item = (&'a str, Option<&'a Parameter>)>,
) -> Vec<(String, Parameter)> {
    list.into_iter()
        .filter_map(|(name, parameter)| Some((name.to_string(), parameter?.clone())))
        .collect()
}

impl<M: Module> Module for Vec<M> {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        self.iter()
            .enumerate()
            .flat_map(|(i, module)| part(&i.to_string(), module))
            .collect()
    }
}
