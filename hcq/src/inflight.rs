//! Keeps objects used by submissions for as long as a device may use them.
//!
//! # The rule
//!
//! Objects used by a submission (buffers, programs, signals) are kept until its point is reached or its device is
//! stopped. A passed deadline or a lost device is not enough: the device may still be writing. An owner that ends
//! earlier hands them to the device ([`crate::LostState`]), since memory that a device still writes must not be
//! reused.

use std::any::Any;
use std::collections::VecDeque;

use crate::error::Result;
use crate::signal::Point;
use crate::wait::Deadline;

/// Objects kept until a point each, oldest first. Dropping it keeps the rule.
#[derive(Debug)]
pub struct InFlight<T: Any + Send>(VecDeque<(Point, T)>);

impl<T: Any + Send> Default for InFlight<T> {
    fn default() -> Self {
        InFlight(VecDeque::new())
    }
}

impl<T: Any + Send> InFlight<T> {
    /// Keeps something until a point.
    pub fn keep(&mut self, until: Point, what: T) {
        self.0.push_back((until, what));
    }

    /// What is kept, and until when.
    pub fn iter(&self) -> impl Iterator<Item = &(Point, T)> {
        self.0.iter()
    }

    /// Releases completed objects, and waits until at most `most` are left. Objects still in use are always kept.
    ///
    /// # Errors
    /// [`crate::Error::Timeout`], or the loss of a device.
    pub fn settle(&mut self, most: usize, deadline: Deadline) -> Result<()> {
        self.settle_into(most, deadline, drop)
    }

    /// The same for objects that the caller drops, such as after it has opened a lock.
    ///
    /// # Errors
    /// As [`InFlight::settle`].
    pub fn settle_into(
        &mut self,
        most: usize,
        deadline: Deadline,
        mut released: impl FnMut(T),
    ) -> Result<()> {
        while let Some((oldest, _)) = self.0.front() {
            if !oldest.reached()? {
                if self.0.len() <= most {
                    break;
                }
                oldest.wait(deadline)?;
            }
            if let Some((_, what)) = self.0.pop_front() {
                released(what);
            }
        }
        Ok(())
    }
}

impl<T: Any + Send> Drop for InFlight<T> {
    fn drop(&mut self) {
        for (until, what) in self.0.drain(..) {
            if !until.reached().unwrap_or(false) {
                tracing::debug!(
                    ?until,
                    "still in flight: keeping it until the device is stopped"
                );
                until.signal.keep(Box::new(what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::signal::tests::counted;

    #[test]
    fn what_is_not_done_is_kept_and_at_the_end_left_to_the_device() {
        let signal = counted();
        let point = |value| Point {
            signal: signal.clone(),
            value,
        };
        let things: Vec<Arc<u64>> = (1..=4).map(Arc::new).collect();
        let mut kept = InFlight::default();
        for thing in &things {
            kept.keep(point(**thing), thing.clone());
        }
        let now = Deadline::after(Duration::ZERO);
        let counts = || things.iter().map(Arc::strong_count).collect::<Vec<_>>();
        kept.settle(4, now).unwrap();
        assert_eq!(counts(), [2, 2, 2, 2]);
        signal.set(1).unwrap();
        kept.settle(4, now).unwrap();
        assert_eq!(counts(), [1, 2, 2, 2]);
        // This signal's waits end at once.
        let mut released = Vec::new();
        kept.settle_into(2, now, |thing| released.push(thing))
            .unwrap();
        assert_eq!(counts(), [1, 2, 2, 2]);
        drop(released);
        assert_eq!(counts(), [1, 1, 2, 2]);
        assert!(kept.iter().map(|(p, _)| p.value).eq([3, 4]));
        signal.set(3).unwrap();
        drop(kept);
        assert_eq!(counts(), [1, 1, 1, 2]);
    }
}
