//! ONNX models: loading, checking, running.
//!
//! ```
//! # use tensor::onnx::Model;
//! # use tensor::{Engine, Tensor};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("relu.onnx");
//! # std::fs::write(&path, tensor::onnx::example())?;
//! // Any engine; `drivers` and `tensor::exec` make those that run on devices.
//! let engine = Engine::reference();
//! let x = Tensor::from_slice(&engine, &[-1.0f32, 2.0], &[2])?;
//!
//! let model = Model::load(&path)?;
//! let outputs = model.run([("x", x)])?;
//! let y = outputs.tensor("y").ok_or("no output y")?;
//! assert_eq!(y.to_vec::<f32>()?, [0.0, 2.0]);
//! # Ok(())
//! # }
//! ```
//!
//! [`Model::load`] maps the file, resolves every name, inlines functions, and reports everything that is not
//! supported. [`Session::run`] evaluates the nodes once per set of input shapes: each node adds to one lazy tensor
//! graph, known values (shapes, axes) are computed on the host, and the graph is captured with packed weights for
//! replay. If shapes or control flow depend on the values of small inputs, a graph is captured for these values;
//! models that depend on larger ones are evaluated at every run.
//!
//! - [`proto`] the messages of the format, [`data`] tensors in files, [`elem`] element types
//! - `load`, `sort`, `graph`, `types` from the file to a checked program
//! - `eval`, `call`, [`value`] one walk over a program; `ops` what each operator means, which the
//!   walk is given
//! - `bind` what a caller gives; [`session`], `plans` captured graphs; `export` plans for other machines; [`backend`] the format's own test cases; [`summary`] what is in a
//!   model; [`mod@write`] the way back

pub mod backend;
mod bind;
mod call;
pub mod data;
pub mod elem;
pub mod error;
mod eval;
mod export;
mod graph;
mod load;
mod model;
mod ops;
mod outputs;
mod plans;
mod progress;
pub mod proto;
pub mod session;
mod sort;
mod subnormal;
pub mod summary;
mod tracer;
mod types;
pub mod value;
pub mod write;

pub use data::Literal;
pub use elem::Elem;
pub use error::OnnxError;
pub use export::{Carried, Carry, Exported, PortType, Precision};
pub use graph::NEWEST_OPSET;
pub use model::Model;
pub use plans::{Prepared, Specialised};
pub use session::{Outputs, Progress, Session};
pub use summary::Summary;
pub use types::{Dim, Type};
pub use value::{Array, Strings, Value};

/// Every operator that can be run, as domain and name.
pub fn operators() -> impl Iterator<Item = (&'static str, &'static str)> {
    ops::known()
}

/// The bytes of a model with one node: `y = Relu(x)`, both floats of shape `[n]`.
#[doc(hidden)]
pub fn example() -> Vec<u8> {
    let floats = write::tensor(codegen::DType::F32, &[Dim::Named("n".into())]);
    let mut writer = write::Writer::new("example", 17);
    writer.input("x", &floats);
    writer.node("Relu", &["x"], &["y"], []);
    writer.output("y", &floats);
    writer.finish()
}
