//! PCI functions of this machine, by sysfs.
//!
//! | file | idea |
//! |---|---|
//! | `files` | the files of the system: those of this machine, or a model of them |
//! | [`claim`] | taking a function over from the system, as a list of writes that can be read before, and undone after |
//! | `lock` | one program at a time |
//! | `frames` | where memory of this process lies on the bus |
//! | `function` | an opened function: BARs, configuration space, pinned memory, resets |
//!
//! Nothing here unbinds, removes, resizes or resets what it was not asked for by its address.
//!
//! Source: Linux, Documentation/ABI/testing/sysfs-bus-pci, Documentation/PCI/sysfs-pci.rst,
//! Documentation/admin-guide/mm/pagemap.rst.

pub mod claim;
mod files;
mod frames;
mod function;
mod lock;

pub use files::{Files, System};
pub use function::{Function, open};
pub use lock::{Lock, LockError};
