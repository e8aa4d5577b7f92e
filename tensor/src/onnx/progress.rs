//! Progress reports of a session.

use std::sync::{Arc, Mutex};

use hcq::sync::lock;

use crate::graph::Engine;
use crate::jit::tracing::{self, Inside};

/// What a session is doing, for a progress display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Building the tensor graph: nodes done, of all.
    Tracing(usize, usize),
    /// Scheduling and compiling what was traced.
    Compiling,
    /// On the device.
    Running,
}

/// Receives progress reports.
#[derive(Clone, Default)]
pub(super) struct Reports(Arc<Mutex<Option<Report>>>);

/// Threads that run one session at once call it at once.
pub(super) type Report = Arc<dyn Fn(Progress) + Send + Sync>;

impl Reports {
    /// From now on it is this one.
    pub(super) fn to(&self, report: Report) {
        *lock(&self.0) = Some(report);
    }

    /// Reports that runs inside a report would make are left out: they would have no end.
    pub(super) fn tell(&self, engine: &Engine, progress: Progress) {
        let Some(report) = lock(&self.0).clone() else {
            return;
        };
        let this = Arc::as_ptr(&self.0).addr();
        if tracing::is_inside(this) {
            return;
        }
        let _inside = Inside::of(this);
        // What the report computes belongs to no trace.
        tracing::outside(engine, || report(progress));
    }
}
