//! The names of devices and queues in every message.

use std::fmt;
use std::sync::Arc;

/// Which device: the vendor's short name and an index, printed `CPU:0`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId {
    vendor: Arc<str>,
    index: u32,
}

impl DeviceId {
    /// `DeviceId::new("AMD", 1)` prints as `AMD:1`.
    pub fn new(vendor: &str, index: u32) -> Self {
        DeviceId {
            vendor: vendor.into(),
            index,
        }
    }

    /// The short name of the vendor, as users select it.
    pub fn vendor(&self) -> &str {
        &self.vendor
    }

    /// Position among the devices of this vendor.
    pub fn index(&self) -> u32 {
        self.index
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.vendor, self.index)
    }
}

impl fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a queue can do. A device may lack a kind and then offers the same command on another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum QueueKind {
    /// Kernels; takes every command.
    Compute,
    /// Copies beside running kernels; takes every command but `Exec`.
    Copy,
}

impl fmt::Display for QueueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QueueKind::Compute => "compute",
            QueueKind::Copy => "copy",
        })
    }
}
