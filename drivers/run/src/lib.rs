//! Runs model bundles.
//!
//! A model bundle (`.dbx`) is a model that `doorbell compile` has compiled for one or several devices: machine code,
//! weights, the plan of its memory, the order of its launches. This crate opens the file, chooses a device and
//! the code for it, and runs it. There is no compiler here.
//!
//! ```no_run
//! use std::time::Duration;
//! use doorbell_run::{Chain, ModelBundle, Placement};
//!
//! # fn main() -> Result<(), doorbell_run::Error> {
//! let bundle = ModelBundle::open("model.dbx")?;
//! let Placement { mut model, notes } = Chain::parse("QCOM|CPU")?.place(&bundle)?;
//! notes.iter().for_each(|note| eprintln!("{note}"));
//! model.write_input("x", &[0; 16])?;
//! model.run(Duration::from_secs(1))?;
//! let mut y = [0; 16];
//! model.read_output("y", &mut y)?;
//! # Ok(())
//! # }
//! ```
//!
//! After the first run, a run makes one submission, and on the CPU it allocates nothing.
//!
//! A hash protects each section from damage, not from an attacker: the machine code of a bundle runs with the rights
//! of the process. Open bundles of sources that you trust.
//!
//! | file | idea |
//! |---|---|
//! | [`plan`], `ports` | what a bundle says: ports, memory, code objects, launches |
//! | `bytes`, `wire` | the same as bytes |
//! | `check` | that a plan touches nothing but its own memory |
//! | `container` | header, table of sections, hashes |
//! | `hashed` | pieces of a file, used and hashed at the same time |
//! | [`source`] | a file or bytes in memory |
//! | [`bundle`], [`write`](mod@write) | reading and writing a whole file |
//! | [`model`], `load` | a bundle on a device |
//! | `bind` | memory of the caller as an input or output |
//! | [`chain`], `processor` | which device, and what to do if it cannot be used |
//! | [`error`] | errors, and the exit codes of programs |
//! | [`given`], [`save`], [`times`] | for programs: inputs from files, files to write, times of runs |
#![forbid(unsafe_code)]

mod bind;
pub mod bundle;
mod bytes;
pub mod chain;
mod check;
mod container;
pub mod error;
pub mod given;
mod hashed;
mod load;
pub mod model;
pub mod plan;
mod ports;
mod processor;
pub mod save;
pub mod source;
pub mod times;
mod wire;
pub mod write;

pub use bundle::ModelBundle;
pub use chain::{Chain, Placement};
pub use container::VERSION;
pub use drivers::opencl;
pub use error::{Error, Result};
pub use model::Model;
pub use plan::{About, Element, Port, State};
