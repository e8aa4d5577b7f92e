//! [`Wait`]: how a thread that holds a queue passes the time until there is room.

use std::time::Duration;

use hcq::progress::Silence;
use hcq::transport::MonotonicClock;
use hcq::{Deadline, Error, Result};

use crate::backend::{Age, Event};
use crate::core::Core;

/// Looks without sleeping.
const LOOKS: u32 = 50;

/// How long a thread sleeps at most before it looks again.
pub const SLICE: Duration = Duration::from_millis(1);

/// A wait with an end: once nothing moves any more.
pub struct Wait {
    silence: Silence,
    age: Age,
    looks: u32,
}

impl Wait {
    /// A wait that is over once nothing has moved for so long.
    pub fn new(limit: Duration) -> Wait {
        Wait {
            silence: Silence::new(Deadline::after(limit)),
            age: Age::NEW,
            looks: 0,
        }
    }

    /// Waits a little for the resource named by `missing`, with the needed and the available amount. `silent` is the time
    /// without progress.
    ///
    /// # Errors
    /// [`Error::Timeout`] at the end, the loss of the device.
    pub fn pause(
        &mut self,
        core: &Core,
        event: &Event,
        silent: impl FnOnce() -> Duration,
        missing: impl FnOnce() -> (String, u64, u64),
    ) -> Result<()> {
        let left = self.silence.left(&MonotonicClock);
        if left.is_zero()
            && let Some(over) = self.silence.over(&MonotonicClock, || Some(silent()))
        {
            let (what, wanted, seen) = missing();
            return Err(core.overdue(Error::Timeout {
                device: core.id.clone(),
                what,
                wanted,
                seen,
                after: self.silence.elapsed(&MonotonicClock),
                over,
            }));
        }
        self.looks += 1;
        if self.looks < LOOKS {
            core.lost.check()?;
            std::thread::yield_now();
            return Ok(());
        }
        core.sleep(Some(event), &mut self.age, left.min(SLICE))
    }
}
