//! Cards without a kernel driver, driven over their PCI function: all that is the same for every vendor. What a vendor adds
//! is its chips: how they are started, their registers and messages, what their entries of page tables hold.
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`function`] | a card: its PCI function, its VRAM, whether it is there and whether something went wrong |
//! | [`config`] | its configuration space, which a reset takes |
//! | [`mmu`] | entries of page tables, and the hardware that walks them: **a vendor's** [`Format`] and [`Mmu`] |
//! | [`tables`], [`space`] | VRAM for page tables; what the addresses of a card mean, and the walk to one |
//! | `host` | memory of the host, which stays where it is |
//! | [`sysmem`] | VRAM that stands in for memory of the host, for a card over USB |
//! | [`told`] | what went wrong, for every handle of a card |
//! | [`queues`] | queues, in the hardware and out of it: **a vendor's** [`Queues`] |
//! | [`driver`] | a card that is started: **a vendor's** [`Driver`] |
//! | [`running`] | what is divided among those who use a card: VRAM, slots for queues |
//! | `recover`, [`slot`] | what is done where a queue does not leave its slot; the slot |
//! | [`addresses`], [`memory`] | addresses that the cards of a process share, and memory at them |
//! | [`process`] | cards that are open, and their memory |
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
pub use told::Told;
