//! How to open a device.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use drivers_bundle::CoredumpWriter;

use crate::chip::Language;

/// How to open a device.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of the ring of a compute queue; rounded up to a power of two of at least a page.
    pub compute_ring: u64,
    /// Bytes of the ring of a copy queue; rounded up alike.
    pub copy_ring: u64,
    /// Bytes of the block from which the arguments of kernels come.
    pub kernargs: u64,
    /// Copy queues to offer, at least 1; at most what the chip's engines have.
    pub copy_queues: u32,
    /// Packet format of compute queues. Default by chip: AQL if several XCCs form one GPU, otherwise PM4.
    ///
    /// PM4 on several XCCs (2, 4 or 8) is a queue on each, which meet at counters in memory. The kernel
    /// driver may take one of these queues from the hardware while others wait for it, which AQL queues do
    /// not have. AQL has PM4 in indirect buffers for all but launches.
    pub compute: Option<Language>,
    /// How long a submission waits for room in a full ring while nothing moves.
    pub ring_timeout: Duration,
    /// How long the end of a device waits for work that still runs while nothing moves.
    pub drain_timeout: Duration,
    /// Whether host buffers are memory of this process that GPUs use in place (userptr), not the
    /// kernel driver's (GTT). The kernel driver stops all queues when it has to move such memory.
    pub userptr: bool,
    /// Whether device memory is mapped for the host where the BAR allows it. Without, the host
    /// reaches it by copies.
    pub host_visible: bool,
    /// Folders with firmware, before those of the system: for cards without a kernel driver.
    pub firmware: Vec<PathBuf>,
    /// Whether a card without a kernel driver is reset, in whatever state it is found.
    pub reset: bool,
    /// Where packets are those of another driver: nowhere.
    pub recorded: Recorded,
    /// Writer of fault and hang bundles; without it, none are written.
    pub coredumps: Option<Arc<CoredumpWriter>>,
}

/// Where packets are to be as in the streams of tests/golden/amd, recorded of a driver that has run on cards, and not
/// as we choose. For a card that does not like one of our choices: it shows which.
///
/// Both are right by the vendor's documents; what speaks for ours is in `tests/golden/amd/differences.txt`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Recorded {
    /// Compute queues wait for 32 bits at a time, not for 64 (WAIT_REG_MEM for WAIT_REG_MEM64).
    pub waits: bool,
    /// Compute queues write at the end of the pipe (RELEASE_MEM), 32 bits where the others are zero. What follows a
    /// write does not wait for it.
    pub writes: bool,
    /// A copy by SDMA has at most 4 MiB.
    pub copies: bool,
    /// PM4 launches invalidate caches before each kernel, and wait after it.
    pub barriers: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            // Some 20,000 launches ahead.
            compute_ring: 4 << 20,
            copy_ring: 1 << 20,
            kernargs: 8 << 20,
            copy_queues: 1,
            compute: None,
            ring_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
            userptr: false,
            host_visible: true,
            firmware: Vec::new(),
            reset: false,
            recorded: Recorded::default(),
            coredumps: None,
        }
    }
}
