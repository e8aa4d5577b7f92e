//! [`Wait`]: how a thread that holds a queue passes the time until there is room.

use std::time::Duration;

use hcq::transport::MonotonicClock;
use hcq::{Deadline, Error, Result};

use crate::core::Core;
use crate::interface::{Age, Event};

/// Looks without sleeping.
const LOOKS: u32 = 50;

/// How long a thread sleeps at most before it looks again.
pub const SLICE: Duration = Duration::from_millis(1);

/// A wait with an end.
pub struct Wait {
    deadline: Deadline,
    age: Age,
    looks: u32,
}

impl Wait {
    /// A wait that takes so long at most.
    pub fn new(limit: Duration) -> Wait {
        Wait {
            deadline: Deadline::after(limit),
            age: Age::NEW,
            looks: 0,
        }
    }

    /// Waits a little, for what `missing` names, with how much of it is wanted and was seen.
    ///
    /// # Errors
    /// [`Error::Timeout`] at the end, the loss of the device.
    pub fn pause(
        &mut self,
        core: &Core,
        event: &Event,
        missing: impl FnOnce() -> (String, u64, u64),
    ) -> Result<()> {
        let left = self.deadline.remaining(&MonotonicClock);
        if left.is_zero() {
            let (what, wanted, seen) = missing();
            return Err(core.overdue(Error::Timeout {
                device: core.id.clone(),
                what,
                wanted,
                seen,
                after: self.deadline.elapsed(&MonotonicClock),
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
