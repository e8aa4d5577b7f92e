//! [`Presence`]: whether a GPU of a kernel driver is still present. A GPU that left the bus gives no notice, so it is
//! polled now and then.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use hcq::sync::lock;
use hcq::transport::access::by_clock;
use hcq::{Error, Result};

/// How often a GPU is asked while threads sleep.
const ASK: Duration = Duration::from_millis(100);

/// When a GPU was there the last time.
pub struct Presence(Mutex<Instant>);

impl Presence {
    /// Of one that is there now.
    pub fn now() -> Presence {
        Presence(Mutex::new(Instant::now()))
    }

    /// Asks a question that a GPU answers if it is there, at once, or else unless that was a moment ago.
    ///
    /// # Errors
    /// [`Error::Fault`] of the question: the GPU is gone.
    pub fn ask(&self, at_once: bool, question: impl FnOnce() -> Result<()>) -> Result<()> {
        {
            let mut asked = lock(&self.0);
            if !at_once && asked.elapsed() < ASK {
                return Ok(());
            }
            *asked = Instant::now();
        }
        let answer = match at_once {
            true => question(),
            false => by_clock(question),
        };
        match answer {
            Err(gone @ Error::Fault { .. }) => Err(gone),
            // It is there, whatever it has against the question.
            Err(error) => {
                tracing::debug!(%error, "no answer from the GPU");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}
