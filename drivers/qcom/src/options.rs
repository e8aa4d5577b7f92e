//! How to open a device.

use std::sync::Arc;
use std::time::Duration;

use drivers_bundle::CoredumpWriter;

use crate::lines::{CacheLines, ThisCpu};

/// How to open a device.
#[derive(Clone, Debug)]
pub struct Options {
    /// Submissions that may be in flight, 1 to [`Options::MOST_IN_FLIGHT`].
    pub in_flight: u32,
    /// Bytes of the block for the packets of submissions and their data.
    pub arguments: u64,
    /// The priority of the context as KGSL counts it: 1 is the highest, 15 the lowest. msm gets the level that is nearest.
    pub priority: u32,
    /// Whether the kernel driver is asked for the highest clock while the device is open. KGSL only.
    pub full_power: bool,
    /// How long a submission waits for its place while nothing moves.
    pub ring_timeout: Duration,
    /// How long the end of a device waits for work that still runs while nothing moves.
    pub drain_timeout: Duration,
    /// The CPU's cache before imported pages of the process. KGSL only.
    pub lines: Arc<dyn CacheLines>,
    /// Writer of fault and hang bundles; without it, none are written.
    pub coredumps: Option<Arc<CoredumpWriter>>,
}

impl Options {
    /// KGSL queues up to 49 submissions of a context, then a submission blocks.
    ///
    /// Source: KGSL (qualcomm-linux/kgsl 27cf0e4), adreno_dispatch.c, `_context_drawqueue_size`.
    pub const MOST_IN_FLIGHT: u32 = 48;
}

impl Default for Options {
    fn default() -> Self {
        Options {
            in_flight: 32,
            arguments: 4 << 20,
            priority: 8,
            full_power: true,
            ring_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
            lines: Arc::new(ThisCpu),
            coredumps: None,
        }
    }
}
