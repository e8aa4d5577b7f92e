//! PCI functions of this machine, by sysfs and by VFIO.
//!
//! | file | idea |
//! |---|---|
//! | `files` | the system's files: of this machine, or a model |
//! | [`look`] | system information about a function |
//! | [`claim`] | taking over a function, as a list of writes that can be reviewed first |
//! | [`journal`] | applying such a list, and undoing it |
//! | [`reset`] | resetting a function by the kernel |
//! | `owed` | which functions need a change |
//! | `config` | the configuration space of a function, by sysfs |
//! | `kept` | our own files, which control a privileged program |
//! | `lock` | one program at a time |
//! | [`pages`] | huge pages for DMA by physical address, in a file that outlives a process |
//! | `left` | such files left by killed processes |
//! | [`quiet`] | stopping a function's DMA |
//! | `function` | a function, opened by sysfs: BARs, configuration space, memory, resets |
//! | `space` | bus addresses behind an IOMMU, and memory mapped there |
//! | [`vfio`] | a function, opened by VFIO: the same, with memory that an IOMMU maps, and interrupts |
//! | `lent` | a function that the crate `pci-driver` has opened (a feature of that name) |
//!
//! Nothing here unbinds, removes, resizes or resets a function that was not named by its address.
//!
//! Source: Linux, Documentation/ABI/testing/sysfs-bus-pci, Documentation/PCI/sysfs-pci.rst,
//! Documentation/admin-guide/mm/pagemap.rst.

pub mod claim;
mod config;
mod files;
mod function;
pub mod journal;
mod kept;
mod left;
#[cfg(feature = "pci-driver")]
#[allow(unsafe_code)]
pub mod lent;
mod lock;
pub mod look;
mod owed;
pub mod pages;
pub mod quiet;
pub mod reset;
mod space;
pub mod vfio;

pub use files::{Files, Rights, System, functions};
pub use function::{Function, let_go_of_left, open};
pub use lock::{Lock, LockError, lock_path};
