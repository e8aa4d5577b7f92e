//! PCI functions of this machine, by sysfs and by VFIO.
//!
//! | file | idea |
//! |---|---|
//! | `files` | the files of the system: those of this machine, or a model of them |
//! | [`look`] | what the system says of a function |
//! | [`claim`] | taking a function over from the system, as a list of writes that can be read before |
//! | [`journal`] | writing such a list, and undoing it |
//! | [`reset`] | resetting a function by the kernel |
//! | `owed` | which functions need what was written |
//! | `config` | the configuration space of a function, by sysfs |
//! | `kept` | files of ours, which tell a program with all rights what to do |
//! | `lock` | one program at a time |
//! | [`pages`] | huge pages that a function finds by their physical addresses, in a file that outlives a process |
//! | `left` | such files of processes that were killed |
//! | [`quiet`] | a function ends its accesses to memory |
//! | `function` | a function, opened by sysfs: BARs, configuration space, memory, resets |
//! | `space` | addresses on the bus behind an IOMMU, and memory that is mapped there |
//! | [`vfio`] | a function, opened by VFIO: the same, with memory that an IOMMU maps, and interrupts |
//! | `lent` | a function that the crate `pci-driver` has opened (a feature of that name) |
//!
//! Nothing here unbinds, removes, resizes or resets what it was not asked for by its address.
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
