//! Warps that run a program.
//!
//! A program is lowered once: its operands are resolved, its operations are of a dense kind. Registers
//! are 32 words each, a predicate is a bit for each lane, so that an operation is a loop over lanes.
//! What is not modelled is refused where it is reached, by name.
//!
//! What instructions mean is known from NVIDIA's manual of PTX, through what its compiler makes of PTX,
//! and from Mesa's compiler for the same chips; what is a guess says so where it stands.

mod access;
mod atomic;
mod block;
mod bulk;
mod canonical;
mod convert;
mod copy;
mod double;
mod eighth;
mod exchange;
mod fault;
mod flow;
mod grid;
mod half;
mod hazard;
mod integer;
mod lane;
mod long;
mod matrix;
mod memory;
mod pack;
mod phase;
mod product;
mod program;
mod reach;
mod rounding;
mod simd;
mod single;
mod source;
mod special;
mod state;
mod tensor_map;
mod threads;
mod tile;
mod uses;
mod warpgroup;

pub use block::{Block, Launch};
pub use fault::{Cause, Fault};
pub use grid::Grid;
pub use hazard::Hazard;
pub use memory::{Denied, Memory, Space, Windows};
pub use program::{Program, Refusal};
pub use state::Constants;
