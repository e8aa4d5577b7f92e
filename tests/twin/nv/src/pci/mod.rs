//! NVIDIA GPUs behind PCI, without a kernel driver in front of them: what a driver that starts GSP sees.
//!
//! - [`chip`]: the cards that can be chosen; [`signed`]: microcode that their keys accept;
//! - [`card`]: a card on its bus, and what can be wrong with it; [`machine`]: cards, and a process that opens them;
//! - `state`, `registers`: what a card is behind its BARs, and which register does what;
//! - `memory`: its memory, and the way to that of the host; `mmu`: page tables, and what is remembered of them; [`wait`]: what takes its time;
//! - `falcon`: the processors GSP and SEC2; `ports`: their memory; `flush`: what their resets need; `brom`: what starts
//!   code with privileges;
//! - `interrupts`: leaves, top and message;
//! - `fwsec`, `booter`: what that code does, from the structures that it is given; `meta`, `radix`: these structures;
//! - `fsp`: what starts GSP where falcons do not;
//! - `gsp`: the firmware that runs on GSP then; `runner`: what runs the channels that it has made.
//!
//! Which chips: Ampere and Ada, which start by falcons; Hopper and Blackwell, which start by the FSP. Sources: NVIDIA's open
//! kernel modules 535.113.01, 550.163.01 and 570.144 (OGKM below), their published headers `dev_*.h`, and Linux,
//! drivers/gpu/nova-core.

mod booter;
mod brom;
pub mod card;
pub mod chip;
mod falcon;
mod flush;
mod fsp;
mod fwsec;
mod gsp;
mod interrupts;
pub mod machine;
mod memory;
mod meta;
mod mmu;
mod ports;
mod radix;
mod registers;
mod runner;
pub mod signed;
mod state;
pub mod wait;
