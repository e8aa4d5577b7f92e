//! Profiles of runs, and observers of an executor.

use codegen::Built;

/// One run of one step on a queue.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The kernel (with the stage, where it has several), or `copy`.
    pub name: String,
    /// The queue, such as `CPU:0 compute`.
    pub queue: String,
    /// Start on the host's monotonic clock in ns.
    pub start_ns: u64,
    /// End on the same clock.
    pub end_ns: u64,
    /// Bytes that the stage touches, each once.
    pub bytes: f64,
    /// Arithmetic operations of the stage.
    pub flops: f64,
}

impl Run {
    /// Duration in seconds.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.start_ns) as f64 * 1e-9
    }
}

/// Observes an executor. Called on the thread that realizes.
pub trait Observer: Send + Sync {
    /// Of the kernels that are not there yet, so many were compiled. Called on any thread.
    fn compiling(&self, done: usize, total: usize) {
        let _ = (done, total);
    }

    /// A kernel was compiled, or came from the cache.
    fn compiled(&self, name: &str, built: &Built) {
        let _ = (name, built);
    }

    /// A step ran; only with profiling on.
    fn ran(&self, run: &Run) {
        let _ = run;
    }

    /// So many bytes of another device come by a copy between the two; others go through the host.
    fn brought(&self, from: &hcq::DeviceId, bytes: u64) {
        let _ = (from, bytes);
    }

    /// A schedule is about to run: launches, bytes of the arena, bytes it would take unplanned.
    fn scheduled(&self, launches: usize, arena: u64, unplanned: u64) {
        let _ = (launches, arena, unplanned);
    }
}
