//! A model as it is evaluated: names resolved to slots, functions inlined, nodes in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::data::Literal;
use super::error::{Location, Missing, OnnxError};
use super::types::Type;

/// Newest version of the default operator set that is known.
pub const NEWEST_OPSET: i64 = 28;

/// A value of a model, by number: no two graphs of a model share one.
pub(super) type Slot = u32;

/// An input or output of a graph.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub name: String,
    pub slot: Slot,
    pub ty: Type,
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub(super) enum Attr {
    Float(f32),
    Int(i64),
    Str(String),
    Tensor(Arc<Literal>),
    Graph(Arc<Graph>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Strs(Vec<String>),
    Type(Type),
    /// A form that no operator here takes, by name.
    Other(&'static str),
}

impl Attr {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Attr::Float(_) => "a float",
            Attr::Int(_) => "an integer",
            Attr::Str(_) => "a string",
            Attr::Tensor(_) => "a tensor",
            Attr::Graph(_) => "a graph",
            Attr::Floats(_) => "floats",
            Attr::Ints(_) => "integers",
            Attr::Strs(_) => "strings",
            Attr::Type(_) => "a type",
            Attr::Other(name) => name,
        }
    }
}

/// The row of an operator in the table that an evaluation is given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meaning(pub usize);

/// One operation.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The operator.
    pub op: String,
    /// What to call it in messages.
    pub place: Location,
    /// Version of its operator set.
    pub opset: i64,
    /// `None` where an optional input is left out.
    pub inputs: Vec<Option<Slot>>,
    /// `None` where an output is not wanted.
    pub outputs: Vec<Option<Slot>>,
    /// By name.
    pub attrs: BTreeMap<String, Attr>,
    /// What it means.
    pub meaning: Meaning,
}

impl Node {
    /// The graphs in its attributes.
    pub(super) fn graphs(&self) -> impl Iterator<Item = &Arc<Graph>> {
        self.attrs.values().filter_map(|attr| match attr {
            Attr::Graph(graph) => Some(graph),
            _ => None,
        })
    }
}

/// A graph whose nodes are in an order in which they can run.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    /// Inputs; of the main graph only those without a default.
    pub inputs: Vec<Port>,
    /// Outputs.
    pub outputs: Vec<Port>,
    /// Inputs that the file has a value for, which a caller may replace.
    pub defaults: Vec<Port>,
    /// Sources before users.
    pub nodes: Vec<Node>,
}

/// Constants of all graphs of a model: where they go, what they are.
#[derive(Clone, Debug)]
pub(super) struct Constant {
    pub slot: Slot,
    pub value: Arc<Literal>,
}

/// Everything that a file says.
#[derive(Debug, Default)]
pub(super) struct Program {
    /// The path of the file as it was given.
    pub file: String,
    /// The main graph.
    pub graph: Graph,
    /// Initializers of it and of its subgraphs.
    pub constants: Vec<Constant>,
    /// Number of slots.
    pub slots: usize,
    /// Operator sets, by domain.
    pub opsets: BTreeMap<String, i64>,
    /// What the model needs and is not there; it can be run if there is nothing.
    pub missing: Vec<Missing>,
    /// Operators without a meaning, with how often they are used.
    pub lacking: BTreeMap<String, usize>,
    /// Who wrote the file.
    pub producer: String,
    /// Version of the file format.
    pub ir_version: i64,
}

impl Program {
    pub(super) fn engine_error(&self, source: crate::Error) -> OnnxError {
        OnnxError::Engine {
            file: self.file.clone(),
            source: Box::new(source),
        }
    }
}
