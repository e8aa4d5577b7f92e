//! Objects of AMD kernels: what is read of them, and what is refused.
#![allow(clippy::unwrap_used)] // A test may panic.

mod damage;
mod hostile;
mod llvm;
mod load;
