//! Who is told what a session is doing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// Who is told what a session is doing.
#[derive(Clone, Default)]
pub(super) struct Reports(Arc<Mutex<Option<Report>>>);

pub(super) type Report = Box<dyn FnMut(Progress) + Send>;

impl Reports {
    /// From now on it is this one.
    pub(super) fn to(&self, report: Report) {
        *locked(&self.0) = Some(report);
    }

    pub(super) fn tell(&self, progress: Progress) {
        // Out of its place meanwhile: it may run the session, or name another one.
        let Some(mut report) = locked(&self.0).take() else {
            return;
        };
        report(progress);
        locked(&self.0).get_or_insert(report);
    }
}

/// What a mutex protects: every value of these is whole at all times.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
