//! Waiting with a limit: [`Deadline`] and [`poll_until`].
//!
//! Unresponsive hardware is the normal failure, so every wait has a limit, and a [`Timeout`] names what was awaited,
//! for how long, and the last value.

use std::time::{Duration, Instant};

use thiserror::Error;

use crate::clock::Clock;

/// The latest moment for something to happen.
///
/// Made from wall time, or on a [`Clock`] where time may be virtual. "No limit" is not offered.
///
/// For registers, mailboxes and interrupts it limits the time. Waits for submitted work (points, signals, ring space,
/// whole devices) have no time limit: there it limits the time without progress ([`crate::progress`]).
/// [`Deadline::within`] bounds the work itself.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    start: Start,
    limit: Duration,
    work: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
enum Start {
    Wall(Instant),
    Clock(u64),
}

impl Deadline {
    /// `limit` from now, in wall time.
    pub fn after(limit: Duration) -> Deadline {
        Deadline {
            start: Start::Wall(Instant::now()),
            limit,
            work: None,
        }
    }

    /// `limit` from now on `clock`; the same clock is to be given to the methods below.
    pub fn on(clock: &dyn Clock, limit: Duration) -> Deadline {
        Deadline {
            start: Start::Clock(clock.now_ns()),
            limit,
            work: None,
        }
    }

    /// The same, and the awaited work may take at most this long from the creation of the deadline, regardless of
    /// progress.
    pub fn within(self, work: Duration) -> Deadline {
        Deadline {
            work: Some(work),
            ..self
        }
    }

    /// The same limits for a wait that begins now, in wall time.
    pub fn again(&self) -> Deadline {
        Deadline {
            start: Start::Wall(Instant::now()),
            ..*self
        }
    }

    /// The bound of the work, if it has one.
    pub fn work(&self) -> Option<Duration> {
        self.work
    }

    /// The given limit: of the time, or of the time without progress.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Time since the deadline was made. A deadline in wall time does not look at `clock`.
    pub fn elapsed(&self, clock: &dyn Clock) -> Duration {
        match self.start {
            Start::Wall(start) => start.elapsed(),
            Start::Clock(start) => Duration::from_nanos(clock.now_ns().saturating_sub(start)),
        }
    }

    /// Time left; zero once expired.
    pub fn remaining(&self, clock: &dyn Clock) -> Duration {
        self.limit.saturating_sub(self.elapsed(clock))
    }

    /// Whether no time is left.
    pub fn expired(&self, clock: &dyn Clock) -> bool {
        self.remaining(clock).is_zero()
    }

    /// The error for a wait for `what` that ends now, having seen `last`.
    pub fn timeout(&self, clock: &dyn Clock, what: &str, last: Option<u64>) -> Timeout {
        let waited = self.elapsed(clock);
        Timeout {
            what: what.to_owned(),
            waited,
            limit: self.limit,
            last,
        }
    }
}

/// An awaited event did not happen in time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("timed out waiting for {what}: limit {limit:?} (waited {waited:?}{})", last_seen(.last))]
pub struct Timeout {
    /// What was awaited.
    pub what: String,
    /// How long it was awaited.
    pub waited: Duration,
    /// How long it was allowed to take.
    pub limit: Duration,
    /// The value seen last, where the wait was for a value.
    pub last: Option<u64>,
}

fn last_seen(last: &Option<u64>) -> String {
    match last {
        Some(value) => format!(", last value {value:#x}"),
        None => String::new(),
    }
}

/// What one look at the awaited thing found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look<T> {
    /// It happened.
    Done(T),
    /// Not yet; this value was there instead.
    Not(u64),
}

/// Looks at least this often. One may cost as much as the limit, where the machine is busy or the access is trapped.
const LEAST: u32 = 8;
/// Looks without pause this often, then yields this often, then sleeps between looks.
const SPINS: u32 = 64;
const YIELDS: u32 = 64;
/// First and longest sleep between two looks.
const FIRST_NAP: Duration = Duration::from_micros(5);
const LONGEST_NAP: Duration = Duration::from_millis(1);

/// Calls `look` until it reports [`Look::Done`] or `deadline` is over.
///
/// Spins first (most answers take less than a microsecond), then yields, then sleeps on `clock`
/// for 5 µs doubling up to 1 ms. It looks at least eight times, and once more after the deadline, so a
/// descheduled thread does not report a timeout for an event that did happen, or that hardware reports at the third
/// look.
///
/// # Errors
/// [`Timeout`], converted; or the error of `look`, at once.
pub fn poll_until<T, E: From<Timeout>>(
    clock: &dyn Clock,
    deadline: Deadline,
    what: &str,
    mut look: impl FnMut() -> Result<Look<T>, E>,
) -> Result<T, E> {
    let mut looks = 0u32;
    let mut nap = FIRST_NAP;
    loop {
        let over = looks + 1 >= LEAST && deadline.expired(clock);
        match look()? {
            Look::Done(value) => return Ok(value),
            Look::Not(last) if over => {
                return Err(deadline.timeout(clock, what, Some(last)).into());
            }
            Look::Not(_) => {}
        }
        looks = looks.saturating_add(1);
        if looks < SPINS {
            std::hint::spin_loop();
        } else if looks < SPINS + YIELDS {
            std::thread::yield_now();
        } else {
            clock.sleep(nap.min(deadline.remaining(clock)));
            nap = (nap * 2).min(LONGEST_NAP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::VirtualClock;

    #[test]
    fn a_timeout_names_what_was_awaited_and_the_last_value() {
        let clock = VirtualClock::new();
        let limit = Duration::from_millis(100);
        let error = poll_until::<(), _>(&clock, Deadline::on(&clock, limit), "SOS alive", || {
            Ok::<_, Timeout>(Look::Not(0x80))
        })
        .unwrap_err();
        assert_eq!(error.what, "SOS alive");
        assert_eq!(error.last, Some(0x80));
        assert!(error.waited >= limit);
        assert_eq!(
            error.to_string(),
            "timed out waiting for SOS alive: limit 100ms (waited 100ms, last value 0x80)"
        );
    }

    #[test]
    fn polling_ends_when_it_happens_however_long_the_backoff() {
        let clock = VirtualClock::new();
        for needed in [1u32, 63, 64, 65, 128, 129, 500] {
            let mut looks = 0;
            let deadline = Deadline::on(&clock, Duration::from_secs(10));
            let got = poll_until::<_, Timeout>(&clock, deadline, "value", || {
                looks += 1;
                Ok(if looks == needed {
                    Look::Done(looks)
                } else {
                    Look::Not(0)
                })
            });
            assert_eq!(got, Ok(needed));
        }
    }

    #[test]
    fn an_expired_deadline_still_looks() {
        let clock = VirtualClock::new();
        let deadline = Deadline::on(&clock, Duration::ZERO);
        assert!(deadline.expired(&clock));
        let got = poll_until::<_, Timeout>(&clock, deadline, "value", || Ok(Look::Done(3)));
        assert_eq!(got, Ok(3));
        let mut looks = 0;
        let got = poll_until::<(), Timeout>(&clock, deadline, "value", || {
            looks += 1;
            Ok(Look::Not(1))
        });
        assert!(got.is_err());
        assert_eq!(looks, LEAST);
    }

    #[test]
    fn looks_that_take_as_long_as_the_limit_are_several() {
        let clock = VirtualClock::new();
        let limit = Duration::from_millis(100);
        let mut looks = 0;
        let got = poll_until::<_, Timeout>(&clock, Deadline::on(&clock, limit), "value", || {
            looks += 1;
            clock.sleep(limit);
            Ok(if looks == 3 {
                Look::Done(looks)
            } else {
                Look::Not(0)
            })
        });
        assert_eq!(got, Ok(3));
    }

    #[test]
    fn errors_of_the_look_end_the_wait_at_once() {
        #[derive(Debug, PartialEq)]
        enum E {
            Timeout,
            Gone,
        }
        impl From<Timeout> for E {
            fn from(_: Timeout) -> E {
                E::Timeout
            }
        }
        let clock = VirtualClock::new();
        let deadline = Deadline::on(&clock, Duration::from_secs(1));
        assert_eq!(
            poll_until::<(), E>(&clock, deadline, "x", || Err(E::Gone)),
            Err(E::Gone)
        );
        let got = poll_until::<(), E>(&clock, deadline, "x", || Ok(Look::Not(0)));
        assert_eq!(got, Err(E::Timeout));
    }

    #[test]
    fn time_left_shrinks_with_the_clock() {
        let clock = VirtualClock::new();
        let deadline = Deadline::on(&clock, Duration::from_micros(10));
        clock.sleep(Duration::from_micros(4));
        assert_eq!(deadline.remaining(&clock), Duration::from_micros(6));
        assert_eq!(deadline.elapsed(&clock), Duration::from_micros(4));
        clock.sleep(Duration::from_secs(1));
        assert_eq!(deadline.remaining(&clock), Duration::ZERO);
        assert!(Deadline::after(Duration::ZERO).expired(&clock));
        assert!(!Deadline::after(Duration::from_secs(3600)).expired(&clock));
    }
}
