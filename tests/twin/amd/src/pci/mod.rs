//! AMD GPUs behind PCI, without a kernel driver in front of them.
//!
//! - [`chip`]: the cards that can be chosen;
//! - [`discovery`]: the binary by which a card says what it is made of;
//! - [`card`]: a card on its bus, and what can be wrong with it; [`machine`]: cards, and a process that opens them;
//! - `state`, `registers`: what a card is behind its BARs, and which register does what;
//! - `nbio`: the bus interface; `hub`, [`tlb`], `walk`: the way to memory; [`ih`]: interrupts;
//! - [`psp`]: the security processor; `smu`: power management and reset;
//! - `graphics`: the graphics block before it has queues; `hqd`, `sdma`: registers that become queues; `mes`: the
//!   scheduler, which maps them, too; `shaders`: what waves are at; `doorbells`: how they are rung, `dies`: by which way
//!   on MI300X; `engines`: what runs them;
//! - `kernel`: registers that only the vendor's kernel driver uses; [`rom`]: what lies in the expansion ROM;
//! - `tsc`: the clock of packets, for the host; [`wait`]: what takes its time.

pub mod card;
pub mod chip;
mod dies;
pub mod discovery;
mod doorbells;
mod engines;
mod graphics;
mod hqd;
mod hub;
pub mod ih;
mod kernel;
pub mod machine;
mod mes;
mod nbio;
pub mod psp;
mod registers;
pub mod rom;
mod sdma;
mod shaders;
mod smu;
mod state;
pub mod tlb;
mod tsc;
pub mod wait;
mod walk;

#[cfg(test)]
mod tests;
