//! Summaries of models.

use std::collections::BTreeMap;

use super::data::Literal;
use super::error::Missing;
use super::graph::Graph;
use super::model::Model;
use super::types::Type;

/// What is in a model, whether it can be run or not.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Version of the file format.
    pub ir_version: i64,
    /// Operator sets, by domain; the default one has no name.
    pub opsets: BTreeMap<String, i64>,
    /// The program that wrote the file.
    pub producer: String,
    /// Names and types of the inputs that must be given.
    pub inputs: Vec<(String, Type)>,
    /// Names and types of the outputs.
    pub outputs: Vec<(String, Type)>,
    /// Operators with how often they are used, functions inlined, subgraphs included.
    pub operators: BTreeMap<String, usize>,
    /// Numbers in the constants of the model.
    pub parameters: u64,
    /// Bytes of the constants of the model.
    pub parameter_bytes: u64,
    /// Unsupported features that the model needs.
    pub missing: Vec<Missing>,
}

impl Model {
    /// What is in the model.
    pub fn summary(&self) -> Summary {
        let program = self.program();
        let mut operators = program.lacking.clone();
        count(&program.graph, &mut operators);
        let owned = |(name, ty): (&str, &Type)| (name.to_string(), ty.clone());
        let (mut parameters, mut parameter_bytes) = (0, 0);
        for constant in &program.constants {
            if let Literal::Array { bytes, .. } = &*constant.value {
                parameters += constant.value.numel() as u64;
                parameter_bytes += bytes.len() as u64;
            }
        }
        Summary {
            ir_version: program.ir_version,
            opsets: program.opsets.clone(),
            producer: program.producer.clone(),
            inputs: self.inputs().map(owned).collect(),
            outputs: self.outputs().map(owned).collect(),
            operators,
            parameters,
            parameter_bytes,
            missing: program.missing.clone(),
        }
    }
}

/// Adds the operators of a graph and of the graphs in it; they are no deeper than a file can nest
/// messages.
fn count(graph: &Graph, operators: &mut BTreeMap<String, usize>) {
    for node in &graph.nodes {
        *operators.entry(node.op.clone()).or_default() += 1;
        node.graphs().for_each(|inner| count(inner, operators));
    }
}
