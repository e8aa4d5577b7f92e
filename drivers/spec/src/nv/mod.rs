//! NVIDIA GPUs, as the open kernel modules and the headers of their classes describe them.
//!
//! A driver talks to the resource manager (RM) by [`escape`]s, which make objects of a [`class`] and ask
//! [`control`]s of them ([`query`]: those that only tell; [`shared`]: what it tells without being asked), and to [`uvm`], which maps memory. What both take differs from branch to branch
//! of the driver: [`abi`]; [`parameters`] are its bytes, [`ioctl`] makes requests of it. Work is methods in a push buffer ([`push`]), for the channel itself ([`host`]),
//! for [`compute`] and for [`copy`]; a grid is a [`qmd`]. Which [`chip`] has which is a table. Kernels come in
//! [`cubin`]s, and copy tiles of tensors by a [`tensor_map`]. A card without a kernel driver is booted from
//! firmware files ([`fw`]) and the microcode in its ROM ([`vbios`]) by its registers ([`mmio`]); RM on it takes the
//! same calls by messages ([`gsp`]), and more of them from the driver of the card ([`pci_rm`]), which has registers of its
//! own then ([`pci_regs`]).

pub mod abi;
pub mod chip;
pub mod class;
pub mod compute;
pub mod control;
pub mod copy;
pub mod cubin;
pub mod escape;
pub mod fw;
pub mod gsp;
pub mod host;
pub mod ioctl;
pub mod memory;
pub mod mmio;
pub mod parameters;
pub mod pci_regs;
pub mod pci_rm;
pub mod push;
pub mod qmd;
pub mod query;
pub mod shared;
pub mod status;
pub mod tensor_map;
pub mod uvm;
pub mod vbios;
pub(crate) mod words;
