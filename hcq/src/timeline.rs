//! Timelines: what counts the submissions to a queue.
//!
//! A [`Timeline`] lives with its queue, and is the only one that counts there: however many streams,
//! engines and threads submit, no two submissions make the same point. The value is reserved, encoded and
//! submitted under one lock, so the signal only grows.

use std::fmt;
use std::sync::PoisonError;

use crate::error::{Error, Result};
use crate::id::{DeviceId, QueueKind};
use crate::packets::Packets;
use crate::signal::{Point, Signal};
use crate::sync::{Mutex, MutexGuard};

/// What counts the submissions to one queue. Made by drivers, one per queue.
///
/// It counts by one, except where it passes a multiple of 2^32: see [`Counter`].
pub struct Timeline {
    device: DeviceId,
    unit: String,
    signal: Signal,
    state: Mutex<State>,
}

struct State {
    count: Counter,
    /// Of the turn that holds the lock.
    next: Counter,
    packets: Packets,
}

impl Timeline {
    /// The timeline of a new queue; `signal`, which nobody else sets, has value 0.
    pub fn new(device: &DeviceId, kind: QueueKind, index: u32, signal: Signal) -> Timeline {
        Timeline::headed(device, kind, index, signal, Vec::new())
    }

    /// The same of a queue whose submissions all start with some words: their packets begin with them.
    pub fn headed(
        device: &DeviceId,
        kind: QueueKind,
        index: u32,
        signal: Signal,
        head: Vec<u32>,
    ) -> Timeline {
        Timeline {
            device: device.clone(),
            unit: format!("{kind} {index}"),
            signal,
            state: Mutex::new(State {
                count: Counter::after(0),
                next: Counter::after(0),
                packets: Packets::headed(head),
            }),
        }
    }

    /// The signal that every submission raises.
    pub fn signal(&self) -> &Signal {
        &self.signal
    }

    /// The moment after everything submitted so far.
    pub fn last(&self) -> Point {
        self.point(self.lock().count.last().point)
    }

    /// Goes on behind `value`, as if so much had been submitted.
    ///
    /// # Errors
    /// [`Error::Command`] while something is in flight, or for a value before the last; the loss of the
    /// device.
    pub fn skip_to(&self, value: u64) -> Result<()> {
        let mut state = self.lock();
        let last = state.count.last();
        let now = self.signal.value()?;
        if value < last.signal || now < last.point {
            let last = last.point;
            return Err(self.refused(format!(
                "it cannot skip to {value:#x}: it stands at {now:#x}, and {last:#x} was submitted; \
                 wait for that, and skip forwards"
            )));
        }
        self.signal.set(value)?;
        state.count = Counter::after(value);
        Ok(())
    }

    /// Submits once, for drivers with a queue of their own: `submit` is given the value that its packets
    /// have to raise the signal to, and room for them.
    ///
    /// # Errors
    /// What `submit` returns; the value is not used up then. [`Error::Command`] once 64 bits are.
    pub fn submit(&self, submit: impl FnOnce(u64, &mut Packets) -> Result<()>) -> Result<Point> {
        let mut turn = self.reserve()?;
        let makes = turn.makes();
        submit(makes, turn.packets())?;
        Ok(turn.submitted())
    }

    /// The next submission: until the turn is dropped, nobody else submits to the queue.
    ///
    /// # Errors
    /// [`Error::Command`] once 64 bits are used up.
    #[inline(always)]
    pub(crate) fn reserve(&self) -> Result<Turn<'_>> {
        let mut state = self.lock();
        // Looked at once in 2^32 submissions.
        let passed = |border| self.signal.value().is_ok_and(|now| now >= border);
        let Some(next) = state.count.next(passed) else {
            return Err(self.refused("it has used up 64 bits: open the device again".into()));
        };
        state.next = next;
        Ok(Turn {
            timeline: self,
            state,
            begun: false,
        })
    }

    fn point(&self, value: u64) -> Point {
        Point {
            signal: self.signal.clone(),
            value,
        }
    }

    fn refused(&self, why: String) -> Error {
        Error::Command {
            device: self.device.clone(),
            queue: self.unit.clone(),
            command: "timeline".into(),
            why,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while encoding leaves packets that the next turn clears: the state stays good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.lock().count.last().point;
        write!(f, "Timeline({} {} at {last:#x})", self.device, self.unit)
    }
}

/// The right to submit once. Dropped without [`Turn::submitted`], its value is not used up.
pub(crate) struct Turn<'a> {
    timeline: &'a Timeline,
    state: MutexGuard<'a, State>,
    /// Whether the packets are this turn's, and not what the last one has left.
    begun: bool,
}

impl<'a> Turn<'a> {
    /// The signal.
    pub(crate) fn signal(&self) -> &'a Signal {
        &self.timeline.signal
    }

    /// What the submission raises the signal to.
    #[inline]
    pub(crate) fn makes(&self) -> u64 {
        self.state.next.last().signal
    }

    /// Packets of the submission, none at first but what every one starts with. They are the timeline's, so that a steady state does not
    /// allocate.
    #[inline]
    pub(crate) fn packets(&mut self) -> &mut Packets {
        if !self.begun {
            self.state.packets.clear();
            self.begun = true;
        }
        &mut self.state.packets
    }

    /// The packets, if anybody has asked for them: a replay mostly has none.
    #[inline]
    pub(crate) fn written(&mut self) -> Option<&mut Packets> {
        self.begun.then_some(&mut self.state.packets)
    }

    /// It is in the queue. Returns the moment at which it is done.
    #[inline]
    pub(crate) fn submitted(mut self) -> Point {
        let next = self.state.next;
        self.state.count = next;
        self.timeline.point(next.last().point)
    }
}

/// Whether `next` has another high half than `last`: devices that compare 32 bits cannot tell their
/// order by the low half.
pub(crate) const fn crosses_epoch(last: u64, next: u64) -> bool {
    last >> 32 != next >> 32
}

/// Submissions that take a [`Counter`] past a multiple of 2^32, at least.
pub const CROSSING: u32 = 1 << 16;

/// The values of a queue's submissions, such that devices which compare 32 bits may wait for any of
/// them at any time.
///
/// Such a device waits for the high half of a value first, then for the low one, and would wait too
/// long if the low half started over meanwhile. Therefore it does not at once: behind `h:ffff_ffff` the
/// signal keeps the low half and counts with the high one, for [`CROSSING`] submissions. Waits for
/// what came before end meanwhile, however late they begin, and points of the crossing itself
/// ask for the high half alone:
///
/// | | signal | point |
/// |---|---|---|
/// | before | `h:ffff_fffe`, `h:ffff_ffff` | the same |
/// | crossing | `h+1:ffff_ffff`, `h+2:ffff_ffff`... | `h+1:0000_0000`, `h+2:0000_0000`... |
/// | behind it | `k:0000_0000`, `k:0000_0001`... | the same |
///
/// It goes on until the host has seen the signal at `h+1:0000_0000` or more. From then on an encoder knows
/// of every value before the crossing that it is reached ([`Signal::seen`]), and leaves such a wait out.
/// What is left is a device that begins to wait for a point after more than [`CROSSING`] later ones were
/// reached, and was told to before it was reached itself. The values last for 2^48 submissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    last: Step,
    /// Submissions of the next crossing, or of the one under way.
    left: u32,
    /// The first point of the crossing under way.
    border: u64,
}

/// The values of one submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What it sets the signal to.
    pub signal: u64,
    /// What the signal has reached once it is done: at most as much, and more than any submission
    /// before has set.
    pub point: u64,
}

impl Counter {
    /// Goes on behind a value of the signal.
    pub const fn after(value: u64) -> Counter {
        Counter {
            last: Step {
                signal: value,
                point: value,
            },
            left: CROSSING,
            border: 0,
        }
    }

    /// The last submission.
    pub const fn last(&self) -> Step {
        self.last
    }

    /// The counter behind the next submission; `None` if 64 bits have run out. At the end of a crossing
    /// `passed` is asked whether the host has seen the signal at a value.
    #[inline]
    pub fn next(self, passed: impl FnOnce(u64) -> bool) -> Option<Counter> {
        const LOW: u64 = u32::MAX as u64;
        let signal = self.last.signal;
        let plain = |value| Counter {
            border: self.border,
            ..Counter::after(value)
        };
        if signal & LOW != LOW {
            return Some(plain(signal + 1));
        }
        // The next high half, with low half 0.
        let point = signal.checked_add(1)?;
        let border = match self.left {
            CROSSING => point,
            _ => self.border,
        };
        if self.left == 0 && passed(border) {
            return Some(plain(point));
        }
        let signal = point | LOW;
        Some(Counter {
            last: Step { signal, point },
            left: self.left.saturating_sub(1),
            border,
        })
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::signal::tests::counted;

    /// Whether a device that compares halves sees that a signal has reached a value.
    fn sees(signal: u64, value: u64) -> bool {
        signal >> 32 >= value >> 32 && signal as u32 >= value as u32
    }

    fn run(start: u64, submissions: usize) -> Vec<Step> {
        let mut counter = Counter::after(start);
        let mut steps = Vec::with_capacity(submissions);
        for _ in 0..submissions {
            counter = counter.next(|_| true).unwrap();
            steps.push(counter.last());
        }
        steps
    }

    #[test]
    fn a_counter_counts_by_one_far_from_borders() {
        let steps = run(0, 3);
        assert_eq!(
            steps.iter().map(|s| s.signal).collect::<Vec<_>>(),
            [1, 2, 3]
        );
        assert!(run(5 << 32, 100).iter().all(|s| s.signal == s.point));
    }

    #[test]
    fn halves_tell_the_order_of_all_submissions_around_a_border() {
        for start in [
            (1u64 << 32) - 40,
            (2 << 32) - 40,
            (1 << 48) - 3,
            (1 << 32) - 1,
        ] {
            let steps = run(start, CROSSING as usize + 100);
            assert!(steps.is_sorted_by(|a, b| a.signal < b.signal && a.signal < b.point));
            assert!(steps.iter().all(|s| s.point <= s.signal));
            let near = |i: usize| i < 200 || i + 200 > steps.len();
            let some = steps.iter().enumerate();
            for (i, wanted) in some.filter(|&(i, _)| near(i) || i % 509 == 0) {
                // Never early.
                assert!(steps[..i].iter().all(|s| !sees(s.signal, wanted.point)));
                // Nor too late, up to the length of a crossing.
                let later = &steps[i..steps.len().min(i + CROSSING as usize)];
                let step = if i < 100 { 1 } else { 997 };
                for seen in later.iter().step_by(step) {
                    assert!(sees(seen.signal, wanted.point), "{wanted:x?} by {seen:x?}");
                }
            }
            // The low half has started over, and the high one stands.
            let [.., a, b] = steps[..] else { panic!() };
            assert_eq!(b.signal, a.signal + 1);
            assert!((a.signal as u32) < 200);
        }
    }

    #[test]
    fn a_crossing_lasts_until_the_host_has_seen_its_begin() {
        let border = 3u64 << 32;
        let mut counter = Counter::after(border - 1);
        let mut asked = 0;
        for i in 0..u64::from(CROSSING) + 50 {
            counter = counter
                .next(|value| {
                    asked += 1;
                    assert_eq!(value, border);
                    false
                })
                .unwrap();
            assert_eq!(counter.last().point, border + (i << 32));
            assert_eq!(counter.last().signal as u32, u32::MAX);
        }
        assert_eq!(asked, 50);
        let behind = counter.next(|_| true).unwrap().last();
        assert_eq!(behind.signal as u32, 0);
        // The next crossing has a border of its own.
        let next = Counter::after(behind.signal | u64::from(u32::MAX));
        assert_ne!(next.next(|_| panic!()).unwrap().border, border);
    }

    #[test]
    fn a_counter_ends_with_64_bits() {
        assert_eq!(Counter::after(u64::MAX).next(|_| true), None);
        let last = Counter::after(u64::MAX - 1).next(|_| true).unwrap();
        assert_eq!(last.next(|_| true), None);
    }

    #[test]
    fn a_turn_that_is_given_up_uses_no_value() {
        let id = DeviceId::new("TEST", 0);
        let timeline = Timeline::new(&id, QueueKind::Copy, 3, counted());
        drop(timeline.reserve().unwrap());
        assert_eq!(timeline.reserve().unwrap().makes(), 1);
        assert_eq!(timeline.reserve().unwrap().submitted().value, 1);
        assert_eq!(timeline.last().value, 1);
        let error = timeline.skip_to(9).unwrap_err().to_string();
        assert!(error.contains("copy 3") && error.contains("0x9"), "{error}");
        timeline.signal().set(1).unwrap();
        timeline.skip_to(9).unwrap();
        assert_eq!(timeline.reserve().unwrap().makes(), 10);
        assert!(timeline.skip_to(8).is_err());
        timeline.skip_to(u64::MAX).unwrap();
        let error = timeline.reserve().err().unwrap().to_string();
        assert!(error.contains("64 bits"), "{error}");
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use super::*;
    use crate::signal::tests::counted;
    use loom::sync::Arc;

    /// Two threads submit; each point is made once, and the later one is submitted later.
    #[test]
    fn loom_no_point_is_made_twice() {
        loom::model(|| {
            let id = DeviceId::new("TEST", 0);
            let timeline = Arc::new(Timeline::new(&id, QueueKind::Compute, 0, counted()));
            let ring = Arc::new(Mutex::new(Vec::new()));
            let submit = |timeline: &Timeline, ring: &Mutex<Vec<u64>>| {
                let turn = timeline.reserve().unwrap();
                ring.lock().unwrap().push(turn.makes());
                turn.submitted().value
            };
            let (theirs, into) = (Arc::clone(&timeline), Arc::clone(&ring));
            let other = loom::thread::spawn(move || submit(&theirs, &into));
            let mine = submit(&timeline, &ring);
            assert_ne!(mine, other.join().unwrap());
            assert_eq!(*ring.lock().unwrap(), [1, 2]);
        });
    }
}
