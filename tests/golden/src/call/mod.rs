//! From the name and the attributes of a case to the call on tensors.
//!
//! One `match` per family. A family that does not know a name gives `None`, so a case whose
//! operation no family knows is an error and never passes by.

mod create;
mod elementwise;
mod layers;
mod layout;
mod optim;
mod reduction;
mod training;

use tensor::{DType, Engine, Tensor};

use crate::manifest::{Case, ManifestError};

/// Why a call gave no tensors.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The engine refused it or could not run it.
    #[error(transparent)]
    Tensor(#[from] tensor::Error),
    /// The case lacks an attribute.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The case has fewer tensors than the operation takes.
    #[error("{op}: expected an input {index}, found {found} inputs")]
    Inputs {
        /// The operation.
        op: String,
        /// The first that is missing.
        index: usize,
        /// How many there are.
        found: usize,
    },
    /// A word among the attributes that stands for nothing.
    #[error("{op}: {found:?} is no {what}")]
    Word {
        /// The operation.
        op: String,
        /// What it should name.
        what: &'static str,
        /// The word.
        found: String,
    },
    /// No family knows the operation.
    #[error("no call for {op}; add it to tests/golden/src/call")]
    Unknown {
        /// The operation.
        op: String,
    },
}

/// Results of a call, or that the family does not know the operation.
type Outcome = Result<Option<Vec<Tensor>>, CallError>;

/// A case with its inputs on an engine.
pub struct Call<'a> {
    /// Names and attributes.
    pub case: &'a Case,
    /// Where it runs.
    pub engine: &'a Engine,
    /// The inputs, in order.
    pub inputs: &'a [Tensor],
}

impl Call<'_> {
    fn input(&self, index: usize) -> Result<&Tensor, CallError> {
        self.inputs.get(index).ok_or_else(|| CallError::Inputs {
            op: self.case.op.clone(),
            index,
            found: self.inputs.len(),
        })
    }

    fn all(&self) -> Vec<&Tensor> {
        self.inputs.iter().collect()
    }

    fn dtype(&self) -> Result<DType, CallError> {
        let name = self.case.text("dtype")?;
        DType::ALL
            .into_iter()
            .find(|d| d.name() == name)
            .ok_or_else(|| self.word("element type", name))
    }

    fn word(&self, what: &'static str, found: &str) -> CallError {
        CallError::Word {
            op: self.case.op.clone(),
            what,
            found: found.to_string(),
        }
    }

    /// Makes the call.
    ///
    /// # Errors
    /// The engine refuses it, or the case does not fit the operation.
    pub fn run(&self) -> Result<Vec<Tensor>, CallError> {
        let families = [
            elementwise::call,
            reduction::call,
            layout::call,
            layers::call,
            create::call,
            training::call,
            optim::call,
        ];
        for family in families {
            if let Some(results) = family(self)? {
                return Ok(results);
            }
        }
        Err(CallError::Unknown {
            op: self.case.op.clone(),
        })
    }
}
