//! How to open a device.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use drivers_bundle::CoredumpWriter;

/// How to open a device.
#[derive(Clone, Debug)]
pub struct Options {
    /// Entries of the ring of a channel, each of which names a push buffer; rounded up to a power of two.
    pub entries: u32,
    /// Bytes of the block for the push buffers of a compute channel and their data:
    /// QMDs and constant banks.
    pub push_buffer: u64,
    /// Copy channels to offer, at least 1; at most what the GPU has copy engines for.
    pub copy_queues: u32,
    /// How long a submission waits for room in a full ring while nothing moves.
    pub ring_timeout: Duration,
    /// How long the end of a device waits for work that still runs while nothing moves.
    pub drain_timeout: Duration,
    /// Whether memory is mapped by UVM. Without it, or where its file is missing, RM maps it: GPUs then do
    /// not reach each other's memory.
    pub uvm: bool,
    /// Whether host buffers are memory of this process that GPUs use in place, not the kernel driver's.
    pub pinned: bool,
    /// Whether device memory is mapped for the host where the BAR is large enough. Without, the host
    /// reaches it by copies.
    pub host_visible: bool,
    /// Folders with firmware, before those of the system: for a card without a kernel driver.
    pub firmware: Vec<PathBuf>,
    /// Whether such a card may be reset if another driver has left GSP running on it.
    pub reset: bool,
    /// Writer of fault and hang bundles; without it, none are written.
    pub coredumps: Option<Arc<CoredumpWriter>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            entries: 16 << 10,
            push_buffer: 16 << 20,
            copy_queues: 1,
            ring_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
            uvm: true,
            pinned: false,
            host_visible: true,
            firmware: Vec::new(),
            reset: true,
            coredumps: None,
        }
    }
}
