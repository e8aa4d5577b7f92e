//! [`Sleeper`]: an event of the process. Of the threads that sleep on it, one waits for the context's next submission and
//! wakes the others.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use drivers_gpu::backend::Age;
use hcq::sync::{lock, unpoisoned};
use hcq::transport::TransportError;

use super::context::{ContextHandle, Progress};

/// How long a thread sleeps where nothing is in flight: another thread may submit meanwhile.
const IDLE: Duration = Duration::from_millis(1);

/// An event.
#[derive(Default)]
pub struct Sleeper {
    context: OnceLock<Weak<dyn ContextHandle>>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Occurrences so far; [`Age::NEW`] at first.
    age: u64,
    /// A thread waits for the context, for all of them.
    is_waiting: bool,
}

impl Default for State {
    fn default() -> Self {
        State {
            age: Age::NEW.0,
            is_waiting: false,
        }
    }
}

impl Sleeper {
    /// Names the context whose submissions wake, once.
    pub fn follow(&self, context: Weak<dyn ContextHandle>) {
        // A second context of one event would be a mistake of the caller: the first stays.
        let _ = self.context.set(context);
    }

    /// Wakes who sleeps.
    pub fn wake(&self) {
        self.lock().age += 1;
        self.changed.notify_all();
    }

    /// Sleeps until there are more occurrences than `age`, or `limit` is over. May return early.
    ///
    /// # Errors
    /// The transport's.
    pub fn sleep(&self, age: &mut Age, limit: Duration) -> Result<(), TransportError> {
        let mut state = self.lock();
        if state.age > age.0 {
            age.0 = state.age;
            return Ok(());
        }
        let context = self.context.get().filter(|_| !state.is_waiting);
        let Some(context) = context.and_then(Weak::upgrade) else {
            let waited = self.changed.wait_timeout(state, limit);
            age.0 = unpoisoned(waited).0.age;
            return Ok(());
        };
        state.is_waiting = true;
        drop(state);
        let slept = context.sleep(limit);
        let mut state = self.lock();
        state.is_waiting = false;
        match slept {
            Ok(Progress::Ended) => state.age += 1,
            Ok(Progress::Idle) => {
                let waited = self.changed.wait_timeout(state, limit.min(IDLE));
                state = unpoisoned(waited).0;
            }
            Ok(Progress::None) | Err(_) => {}
        }
        age.0 = state.age;
        drop(state);
        self.changed.notify_all();
        slept.map(drop)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Changed in steps that do not panic.
        lock(&self.state)
    }
}
