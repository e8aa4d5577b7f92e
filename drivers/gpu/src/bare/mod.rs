//! Cards without a kernel driver, driven over their PCI function: all that is the same for every vendor. What a vendor adds
//! is its chips: how they are started, their registers and messages, what their entries of page tables hold.
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`function`] | a card: its PCI function, its VRAM, whether it is present or wedged |
//! | [`config`] | its configuration space, which a reset clears |
//! | [`mmu`] | entries of page tables, and the hardware that walks them: **a vendor's** [`Format`] and [`Mmu`] |
//! | [`tables`], [`space`] | VRAM for page tables; the address space of a card, and the walk to an address |
//! | `host` | pinned host memory |
//! | [`sysmem`] | VRAM in place of host memory, for a card over USB |
//! | [`told`] | exceptions, for every handle of a card |
//! | [`queues`] | mapped and unmapped queues: **a vendor's** [`Queues`] |
//! | [`driver`] | a started card: **a vendor's** [`Driver`] |
//! | [`running`] | shared resources of a card: VRAM, queue slots |
//! | `recover`, [`slot`] | recovery when a queue cannot be dequeued; the slot |
//! | [`addresses`], [`memory`] | addresses that the cards of a process share, and memory at them |
//! | [`process`] | open cards, and their memory |
//! | [`handle`] | a card as a [`Backend`](crate::backend::Backend) |

pub mod addresses;
pub mod config;
pub mod driver;
pub mod function;
pub mod handle;
mod host;
pub mod memory;
pub mod mmu;
pub mod process;
pub mod queues;
mod recover;
pub mod running;
pub mod slot;
pub mod space;
pub mod sysmem;
pub mod tables;
pub mod told;

pub use driver::Driver;
pub use function::Function;
pub use handle::{Handle, open, visit};
pub use memory::Memory;
pub use mmu::{Attr, Entry, Format, Mmu, PAGE};
pub use queues::{Live, Queues, Slots};
pub use running::Running;
pub use slot::Slot;
pub use space::AddressSpace;
pub use tables::Tables;
pub use told::{Found, Told};
