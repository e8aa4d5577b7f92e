//! The outputs of a run.

use super::value::Value;
use crate::graph::Tensor;

/// The outputs of a run, in the order of the model.
#[derive(Clone, Debug)]
pub struct Outputs(pub Vec<(String, Value)>);

impl Outputs {
    /// The output of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// The output of a name as a tensor.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.get(name).and_then(Value::as_tensor)
    }
}
