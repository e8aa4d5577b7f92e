//! A loaded model.

use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use hcq::sync::lock;

use super::error::OnnxError;
use super::graph::{Port, Program};
use super::load;
use super::session::{Outputs, Session};
use super::types::Type;
use super::value::Value;
use crate::graph::Engine;
use crate::io::Shared;

/// A model, checked and resolved; cloning shares it. It belongs to no engine yet.
#[derive(Clone)]
pub struct Model {
    program: Arc<Program>,
    /// The session of [`Model::run`].
    session: Arc<Mutex<Option<Arc<Session>>>>,
}

impl Model {
    /// Maps and checks a file, and the files beside it that hold its weights. Weights are read when
    /// the model first runs. A file must not be rewritten in place while the model is in use.
    ///
    /// # Errors
    /// A file cannot be read; or it is not a valid model (one error that names the node), or it needs unsupported
    /// features (one error that lists them all).
    pub fn load(path: impl AsRef<Path>) -> Result<Model, OnnxError> {
        Model::open(path)?.runnable()
    }

    /// As [`Model::load`], but also accepts unsupported models, for inspection.
    ///
    /// # Errors
    /// A file cannot be read; it is not a valid model.
    pub fn open(path: impl AsRef<Path>) -> Result<Model, OnnxError> {
        let path = path.as_ref();
        let opened = crate::io::shared(path)?;
        let bytes = opened.bytes.clone();
        Model::read(
            path.display().to_string(),
            path.parent(),
            Some(&opened),
            bytes,
        )
    }

    /// The model, if nothing that it needs is missing.
    fn runnable(self) -> Result<Model, OnnxError> {
        match self.program.missing.is_empty() {
            true => Ok(self),
            false => Err(OnnxError::Unsupported {
                file: self.file().into(),
                missing: self.program.missing.clone(),
            }),
        }
    }

    /// Takes a model that is in memory; `name` replaces the path in errors. Its weights cannot be in other files.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<Model, OnnxError> {
        Model::read(name.into(), None, None, bytes.into())?.runnable()
    }

    fn read(
        file: String,
        folder: Option<&Path>,
        opened: Option<&Shared>,
        bytes: Bytes,
    ) -> Result<Model, OnnxError> {
        Ok(Model {
            program: Arc::new(load::load(&file, folder, opened, bytes)?),
            session: Arc::default(),
        })
    }

    /// The path as it was given.
    pub fn file(&self) -> &str {
        &self.program.file
    }

    /// Names and types of the inputs that must be given.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &Type)> {
        ports(&self.program.graph.inputs)
    }

    /// Names and types of the inputs that the file has a value for.
    pub fn defaults(&self) -> impl Iterator<Item = (&str, &Type)> {
        ports(&self.program.graph.defaults)
    }

    /// Names and types of the outputs.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, &Type)> {
        ports(&self.program.graph.outputs)
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    /// The model on an engine.
    pub fn on(&self, engine: &Engine) -> Session {
        Session::new(&self.program, engine)
    }

    /// Runs the model on the engine of its first tensor (the host's reference engine if there is
    /// none), keeping weights and captured graphs for the next run on that engine.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run<N: AsRef<str>, V: Into<Value>>(
        &self,
        inputs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Outputs, OnnxError> {
        let inputs: Vec<(N, Value)> = inputs.into_iter().map(|(n, v)| (n, v.into())).collect();
        let mut tensors = Vec::new();
        inputs.iter().for_each(|(_, v)| v.tensors(&mut tensors));
        let mut kept = lock(&self.session);
        let session = match (&mut *kept, tensors.first()) {
            (Some(session), None) => session.clone(),
            (Some(session), Some(t)) if t.engine() == session.engine() => session.clone(),
            (kept, first) => {
                let engine = first.map_or_else(Engine::reference, |t| t.engine().clone());
                kept.insert(Arc::new(self.on(&engine))).clone()
            }
        };
        drop(kept);
        session.run(inputs)
    }
}

fn ports(ports: &[Port]) -> impl Iterator<Item = (&str, &Type)> {
    ports.iter().map(|p| (p.name.as_str(), &p.ty))
}
