//! The kernel compiler: from index expressions over loop ranges to machine code.
#![deny(unsafe_code)]

mod backend;
pub mod build;
mod built;
pub mod cache;
pub mod checkout;
pub mod compile;
mod content;
pub mod dtype;
pub mod error;
pub mod interp;
pub mod ir;
pub mod lower;
mod modules;
pub mod opt;
mod recent;
pub mod render;
mod resources;
pub mod rewrite;
mod stage;
pub mod symbolic;
pub mod target;
mod trust;

pub use build::{
    Backend, Built, Options, Row, ScratchSpec, Stage, StageArg, TABLE, build, estimate,
};
pub use cache::Cache;
pub use dtype::DType;
pub use error::{Error, Result};
pub use ir::Kernel;
pub use modules::Modules;
pub use opt::Opt;
pub use recent::Recent;
pub use resources::Resources;
pub use target::Target;
