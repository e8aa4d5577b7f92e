//! The kernel compiler: from index expressions over loop ranges to machine code.
//!
//! Each module uses those before it in this order, and none behind it:
//!
//! 1. [`dtype`], [`error`], `trust`, [`checkout`], `recent`: what everything may stand on.
//! 2. [`ir`]: the kernel as a graph, and what its operations compute; [`interp`] runs it.
//! 3. [`encoding`]: machine words by tables. [`machine`]: registers and order of instructions, for any machine.
//!    [`ir3`]: the instruction set of Adreno 6xx, and machine code of it.
//!    [`target`]: what the machine can do; `resources`: what a compiled kernel takes of it.
//! 4. [`symbolic`], [`rewrite`]: index arithmetic, and rules that simplify the graph.
//! 5. [`opt`]: which loops run where. [`lower`]: a linear program of them. [`render`]: its text.
//!    [`compile`]: machine code of that.
//! 6. [`cache`], `modules`: what is kept of earlier compilations.
//! 7. `backend`: a target with its renderer and compiler. `content`: the key of a kernel for it.
//! 8. `stage`, `built`, [`build`](mod@build): from a kernel to launches.
//!
//! This file only hands on names.
#![deny(unsafe_code)]

mod backend;
pub mod build;
mod built;
pub mod cache;
pub mod checkout;
pub mod compile;
mod content;
pub mod dtype;
pub mod encoding;
pub mod error;
pub mod interp;
pub mod ir;
pub mod ir3;
pub mod lower;
pub mod machine;
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
