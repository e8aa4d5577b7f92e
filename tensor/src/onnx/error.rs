//! Errors of models, their inputs and nodes.

use std::fmt;

use crate::io::{FileError, Quoted};

/// Why a model cannot be loaded or run. Every text names the file and the location in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// A file could not be opened or read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Not an ONNX model, or an inconsistent one.
    #[error("{file}: {place}: {what}")]
    Malformed {
        /// The path as it was given.
        file: String,
        /// Which part of the model.
        place: Location,
        /// What was expected, what was found, and what to do.
        what: String,
    },
    /// The model needs features that are not supported; all are listed.
    #[error("{file}: {}", missing_text(.missing))]
    Unsupported {
        /// The path as it was given.
        file: String,
        /// Each operator, type or form, with where it is used.
        missing: Vec<Missing>,
    },
    /// A node that does not fit its inputs.
    #[error("{file}: {place}: {what}")]
    Node {
        /// The path as it was given.
        file: String,
        /// The node.
        place: Location,
        /// What was expected, what was found, and what to do.
        what: String,
    },
    /// An input of the wrong name, shape or type.
    #[error("{file}: input {input}: {what}")]
    Input {
        /// The path as it was given.
        file: String,
        /// Its name.
        input: Quoted,
        /// What was expected, what was found, and what to do.
        what: String,
    },
    /// From the tensor engine, outside of any node.
    #[error("{file}: {source}")]
    Engine {
        /// The path as it was given.
        file: String,
        /// Its error.
        source: Box<crate::Error>,
    },
}

/// A part of a model, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Location(String);

impl Location {
    /// The model as a whole.
    pub(super) fn model() -> Location {
        Location("the model".into())
    }

    /// A graph, a function, an initializer or a value.
    pub(super) fn named(kind: &str, name: &str) -> Location {
        Location(format!("{kind} {}", Quoted::new(name)))
    }

    /// A node. Many have no name of their own: then the first output stands for it.
    pub(super) fn node(op: &str, name: &str, output: Option<&str>) -> Location {
        let op = Quoted::new(op).to_string();
        let op = op.trim_matches('"');
        Location(match (name, output) {
            ("", Some(output)) => format!("node {op} with output {}", Quoted::new(output)),
            ("", None) => format!("node {op} without a name"),
            (name, _) => format!("node {op} {}", Quoted::new(name)),
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An unsupported feature that a model needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// The operator with its domain and version, the element type, or the form.
    pub what: String,
    /// The first place that needs it.
    pub place: Location,
    /// How many places need it.
    pub count: usize,
}

fn missing_text(missing: &[Missing]) -> String {
    let mut text = String::from("not supported by this version; missing: ");
    for (i, m) in missing.iter().enumerate() {
        if i > 0 {
            text.push_str("; ");
        }
        text.push_str(&format!("{} ({}", m.what, m.place));
        if m.count > 1 {
            text.push_str(&format!(" and {} more", m.count - 1));
        }
        text.push(')');
    }
    text
}

impl OnnxError {
    /// Whether the model seems valid, but needs unsupported features.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, OnnxError::Unsupported { .. })
    }
}

/// What a lowering says about its node; the evaluator adds which node it was.
#[derive(Debug)]
pub(super) enum Fault {
    /// The node does not fit its inputs.
    Wrong(String),
    /// The form is not there: a type, an attribute's value.
    Unsupported(String),
    /// The graph cannot be captured, at least not for all values of its inputs.
    Dynamic(Dynamic),
    /// From the tensor engine.
    Engine(crate::Error),
    /// A node of a subgraph failed; this is about it already.
    Inner(OnnxError),
}

/// What keeps a graph from being captured.
#[derive(Debug)]
pub(super) struct Dynamic {
    /// The innermost node that it is about; the evaluator adds it.
    pub(super) place: Option<Location>,
    pub(super) why: Why,
}

#[derive(Debug)]
pub(super) enum Why {
    /// The node needs the values of something, here in words, that is made of these tensors of the
    /// inputs.
    Value(String, Vec<usize>),
    /// Something that no value of an input changes, in words.
    Always(String),
}

impl From<Why> for Fault {
    fn from(why: Why) -> Fault {
        Fault::Dynamic(Dynamic { place: None, why })
    }
}

pub(super) type Result<T, E = Fault> = std::result::Result<T, E>;

impl From<crate::Error> for Fault {
    fn from(e: crate::Error) -> Fault {
        Fault::Engine(e)
    }
}

/// A node that does not fit.
pub(super) fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(Fault::Wrong(what.into()))
}

/// A form that is not there.
pub(super) fn unsupported<T>(what: impl Into<String>) -> Result<T> {
    Err(Fault::Unsupported(what.into()))
}
