//! Memory of the twin: objects, page tables, caches.
//!
//! - [`Object`]: memory that the kernel driver allocated;
//! - [`Vm`]: the address space of a process on a GPU, the way of packets to memory;
//! - [`Launch`]: the way of shader cores to memory, for as long as a launch runs;
//! - [`Gmc`]: the memory side of a GPU: its VRAM, caches and HDP;
//! - [`Physical`]: the memory of a card that no kernel driver hands out, by physical addresses; [`Walk`] is how
//!   page tables in it become an address space.
//!
//! What is stale is what a program reads, and a rule of [`rules`] says so. Caches are modelled by lines and
//! by what their content depends on, not by what fits. Simpler than hardware:
//!
//! - A launch that asks for a page of memory that is not VRAM of its GPU sees lines that GL2 does not hold
//!   as they are then, even where it reads them later.
//! - All CUs of an XCC share one L0: what is stale only between these does not show. What an earlier launch read counts as held by another CU.
//! - Loads and stores that bypass a cache (GLC, SC, SCOPE) do not tell: stores always reach GL2, loads
//!   of uncached memory bypass L0.
//! - On RDNA4 a page of system memory that is met at system scope is accessed in memory as long as launches
//!   run, as below.
//! - XCCs have a GL2 each. Where they meet at a page by atomic operations or coherent loads, all of them
//!   access memory itself as long as launches run: hardware keeps only the bytes coherent.
//! - SDMA accesses memory below GL2 on all chips, and the command processor writes through to memory
//!   that is not VRAM of its GPU; those of several XCCs to all memory.
//! - Memory of the client must stay mapped while a GPU may use it: where it is gone, the next access
//!   through a page that is asked for faults, but a page that a launch holds is the client's to lose.

mod cache;
mod frame;
mod gmc;
mod guess;
mod hdp;
mod object;
mod physical;
pub mod rules;
mod stale;
mod table;
mod vm;

#[cfg(test)]
mod tests;

pub use gmc::{Budget, Drain, Gmc};
pub use object::{Kind, Object};
pub use physical::{Missing, Physical, Place, Translation};
pub use table::{Entry, Mtype, Rights, Walk};
pub use twin::host::Mapping;
pub use vm::{Launch, Vm};

/// Caches that a packet acts on: what to invalidate, what to write back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Caches {
    /// Instruction cache (GLI, ICACHE), invalidate.
    pub inst_inv: bool,
    /// Scalar cache (GLK, KCACHE), invalidate.
    pub scalar_inv: bool,
    /// Vector L0 (GLV, TCL1) of every CU, invalidate.
    pub vector_inv: bool,
    /// GL1, invalidate.
    pub gl1_inv: bool,
    /// GL2 (TC), invalidate.
    pub l2_inv: bool,
    /// GL2 (TC), write back.
    pub l2_wb: bool,
}
