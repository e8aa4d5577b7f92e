//! Timelines: counters of the submissions to a queue.
//!
//! A queue has one [`Timeline`]: however many streams, engines and threads submit, no two submissions make the same
//! point. The value is reserved, encoded and submitted under one lock, so the signal only grows. The driver's queue
//! state is under the same lock: a submission takes no other.
//!
//! To submit to several queues at once, reserve a turn on each, and hold the lock only of the queue being submitted
//! to. Other submitters to these queues wait; readers wait only while the lock is held.

use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::TryLockError;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::command_buffer::{CommandBuffer, Keep};
use crate::error::{Error, Result};
use crate::id::{DeviceId, QueueKind};
use crate::lost::{inherited, process_generation};
use crate::signal::{Point, Signal};
use crate::sync::{Condvar, Mutex, MutexGuard, unpoisoned};

/// Counts the submissions to one queue. Made by drivers, one per queue, with their state under its lock.
///
/// It counts by one, except where it passes a multiple of 2^32: see [`Counter`].
pub struct Timeline {
    device: DeviceId,
    unit: String,
    signal: Signal,
    /// The process that created it: a fork may have inherited a lock that no thread releases.
    process: u32,
    /// The point of the last submission, for readers that do not take the lock: a full ring holds it for long.
    last: AtomicU64,
    state: Mutex<State>,
    /// Notified when a reserved turn begins or is cancelled.
    given: Condvar,
}

struct State {
    count: Counter,
    /// Of the turn that holds the lock.
    next: Counter,
    packets: CommandBuffer,
    /// The driver's.
    own: Box<dyn Any + Send>,
    /// Whether the next turn is reserved, and the number of threads that wait for it.
    is_reserved: bool,
    waiting: usize,
}

impl Timeline {
    /// The timeline of a new queue; `signal` has value 0 and no other writer. The packets of all submissions
    /// start with the words of `head`. `own` is the driver's state.
    pub fn new(
        device: &DeviceId,
        kind: QueueKind,
        index: u32,
        signal: Signal,
        head: Vec<u32>,
        own: Box<dyn Any + Send>,
    ) -> Timeline {
        Timeline {
            device: device.clone(),
            unit: format!("{kind} {index}"),
            signal,
            process: process_generation(),
            last: AtomicU64::new(0),
            given: Condvar::new(),
            state: Mutex::new(State {
                count: Counter::after(0),
                next: Counter::after(0),
                packets: CommandBuffer::headed(head),
                own,
                is_reserved: false,
                waiting: 0,
            }),
        }
    }

    /// The signal that every submission raises.
    pub fn signal(&self) -> &Signal {
        &self.signal
    }

    /// The moment after everything submitted so far.
    pub fn last(&self) -> Point {
        self.point(self.last.load(Ordering::Acquire))
    }

    /// Advances to `value`, as if so much had been submitted.
    ///
    /// # Errors
    /// [`Error::Command`] while something is in flight, or for a value before the last; the loss of the
    /// device.
    pub fn skip_to(&self, value: u64) -> Result<()> {
        self.check()?;
        let mut state = self.next();
        let last = state.count.last();
        let now = self.signal.value()?;
        if value < last.signal || now < last.point {
            let last = last.point;
            return Err(self.refused(format!(
                                "cannot advance to {value:#x}: current value is {now:#x}, last submitted {last:#x}; \
                 wait for that and advance to a larger value"
            )));
        }
        self.signal.set(value)?;
        state.count = Counter::after(value);
        self.last.store(value, Ordering::Release);
        Ok(())
    }

    /// Submits once, for drivers with their own queue: `submit` gets a turn, whose packets must raise the signal to
    /// its value.
    ///
    /// # Errors
    /// That of `submit`; the value is not consumed then. [`Error::Command`] when the 64-bit timeline is exhausted.
    pub fn submit(&self, submit: impl FnOnce(&mut Turn<'_>) -> Result<()>) -> Result<Point> {
        self.check()?;
        let mut turn = self.turn();
        turn.reserve()?;
        submit(&mut turn)?;
        Ok(turn.submitted())
    }

    /// `Ok` in the process that made it. In a fork it cannot be locked.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.process == process_generation() {
            true => Ok(()),
            false => Err(Error::DeviceLost {
                device: self.device.clone(),
                cause: Arc::new(inherited(&self.device)),
            }),
        }
    }

    /// The driver's state; blocks submissions.
    pub fn hold(&self) -> Held<'_> {
        Held::of(self.lock())
    }

    /// The same, if the lock is free.
    #[cfg(not(loom))]
    pub fn try_hold(&self) -> Option<Held<'_>> {
        match self.state.try_lock() {
            Ok(state) => Some(Held::of(state)),
            Err(TryLockError::Poisoned(state)) => Some(Held::of(state.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Until the turn is dropped, no other thread submits to the queue. It is constructed in place: moving it would cost
    /// more than the lock.
    #[inline]
    pub(crate) fn turn(&self) -> Turn<'_> {
        Turn {
            timeline: self,
            held: Held::of(self.next()),
            begun: false,
        }
    }

    fn point(&self, value: u64) -> Point {
        Point {
            signal: self.signal.clone(),
            value,
        }
    }

    #[cold]
    fn refused(&self, why: String) -> Error {
        Error::Command {
            device: self.device.clone(),
            queue: self.unit.clone(),
            command: "timeline".into(),
            why,
        }
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while encoding leaves packets that the next turn clears: the state stays good.
        unpoisoned(self.state.lock())
    }

    /// Waits until the next turn is not reserved, and returns the lock.
    #[inline]
    fn next(&self) -> MutexGuard<'_, State> {
        let state = self.lock();
        match state.is_reserved {
            true => self.once_given(state),
            false => state,
        }
    }

    #[cold]
    fn once_given<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        while state.is_reserved {
            let given = self.given.wait(state);
            state = unpoisoned(given);
        }
        state.waiting -= 1;
        state
    }

    /// Returns the lock to the owner of the reserved turn, and ends the reservation.
    fn give(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.is_reserved = false;
        if state.waiting > 0 {
            self.given.notify_all();
        }
        state
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.last.load(Ordering::Acquire);
        write!(f, "Timeline({} {} at {last:#x})", self.device, self.unit)
    }
}

/// The state under a timeline's lock.
pub struct Held<'a> {
    state: MutexGuard<'a, State>,
    /// Values to drop after the lock is released, because their drop may use the queue.
    freed: Vec<Keep>,
}

impl<'a> Held<'a> {
    #[inline]
    fn of(state: MutexGuard<'a, State>) -> Held<'a> {
        let freed = Vec::new();
        Held { state, freed }
    }

    /// The driver's state, and the list of values to drop later; `None` if the state has another type.
    #[inline]
    pub fn own<T: Any>(&mut self) -> Option<(&mut T, &mut Vec<Keep>)> {
        Some((self.state.own.downcast_mut()?, &mut self.freed))
    }
}

/// The right to submit once. If dropped before the submission, its value is not consumed.
pub struct Turn<'a> {
    timeline: &'a Timeline,
    held: Held<'a>,
    /// Whether the packets are this turn's, and not what the last one has left.
    begun: bool,
}

impl<'a> Turn<'a> {
    /// Takes the next value.
    ///
    /// # Errors
    /// [`Error::Command`] once 64 bits are used up.
    #[inline(always)]
    pub(crate) fn reserve(&mut self) -> Result<()> {
        let state = &mut *self.held.state;
        match state.next.follow(&state.count) {
            true => Ok(()),
            false => self.cross(),
        }
    }

    /// The same once in 2^32 submissions.
    #[cold]
    fn cross(&mut self) -> Result<()> {
        let (timeline, state) = (self.timeline, &mut *self.held.state);
        let passed = |border| timeline.signal.value().is_ok_and(|now| now >= border);
        let Some(next) = state.count.next(passed) else {
            return Err(timeline.refused("64-bit timeline exhausted: open the device again".into()));
        };
        state.next = next;
        Ok(())
    }

    /// The signal.
    #[inline]
    pub fn signal(&self) -> &'a Signal {
        &self.timeline.signal
    }

    /// The value to which the submission raises the signal.
    #[inline]
    pub fn signal_value(&self) -> u64 {
        self.held.state.next.last().signal
    }

    /// Packets of the submission; initially the common head. Owned by the timeline, so that a steady state does not
    /// allocate.
    #[inline]
    pub fn packets(&mut self) -> &mut CommandBuffer {
        let packets = &mut self.held.state.packets;
        if !self.begun {
            packets.clear();
            self.begun = true;
        }
        packets
    }

    /// The parts a driver submits with: its state, its released objects, and the packets if any were requested (a
    /// replay mostly has none). `None` if this is the turn of another timeline.
    #[inline]
    pub fn parts<T: Any>(&mut self, of: &Timeline) -> Option<Parts<'_, T>> {
        if !std::ptr::eq(of, self.timeline) {
            return None;
        }
        let Held { state, freed } = &mut self.held;
        let state = &mut **state;
        Some(Parts {
            own: state.own.downcast_mut()?,
            freed,
            packets: self.begun.then_some(&mut state.packets),
        })
    }

    /// Whether its packets were requested.
    pub fn has_packets(&self) -> bool {
        self.begun
    }

    /// Releases the lock and keeps the turn.
    pub(crate) fn reserved(self) -> Reserved<'a> {
        let (signal_value, timeline, begun) = (self.signal_value(), self.timeline, self.begun);
        let mut held = self.held;
        held.state.is_reserved = true;
        Reserved {
            timeline,
            begun,
            signal_value,
        }
    }

    /// Marks it submitted. Returns its completion point.
    #[inline]
    pub(crate) fn submitted(&mut self) -> Point {
        let next = self.held.state.next;
        self.held.state.count = next;
        let point = next.last().point;
        self.timeline.last.store(point, Ordering::Release);
        self.timeline.point(point)
    }
}

/// A reserved turn without the lock, for submissions to several queues. Dropped, it is released.
pub(crate) struct Reserved<'a> {
    timeline: &'a Timeline,
    begun: bool,
    signal_value: u64,
}

impl<'a> Reserved<'a> {
    /// What the submission raises the signal to.
    pub(crate) fn signal_value(&self) -> u64 {
        self.signal_value
    }

    /// The turn.
    pub(crate) fn turn(self) -> Turn<'a> {
        let this = ManuallyDrop::new(self);
        Turn {
            timeline: this.timeline,
            held: Held::of(this.timeline.give()),
            begun: this.begun,
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        drop(self.timeline.give());
    }
}

/// The parts a driver submits a turn with.
pub struct Parts<'a, T> {
    /// The driver's.
    pub own: &'a mut T,
    /// Objects dropped once the timeline is unlocked.
    pub freed: &'a mut Vec<Keep>,
    /// The packets, if there are any.
    pub packets: Option<&'a mut CommandBuffer>,
}

/// Whether the high halves of `next` and `last` differ: devices that compare 32 bits cannot tell their
/// order by the low half.
pub(crate) const fn crosses_epoch(last: u64, next: u64) -> bool {
    last >> 32 != next >> 32
}

/// The low half of a value.
const LOW: u64 = u32::MAX as u64;

/// Minimum number of submissions with which a [`Counter`] passes a multiple of 2^32.
pub const CROSSING: u32 = 1 << 16;

/// The values of a queue's submissions, such that devices which compare 32 bits may wait for any of
/// them at any time.
///
/// Such a device waits for the high half of a value first, then for the low half, and would wait too
/// long if the low half wrapped in between. Therefore it does not wrap at once: after `h:ffff_ffff` the
/// signal keeps the low half and counts with the high half, for [`CROSSING`] submissions. Waits for
/// earlier points end during that time, however late they begin. Points of the crossing itself
/// need the high half only:
///
/// | | signal | point |
/// |---|---|---|
/// | before | `h:ffff_fffe`, `h:ffff_ffff` | the same |
/// | crossing | `h+1:ffff_ffff`, `h+2:ffff_ffff`... | `h+1:0000_0000`, `h+2:0000_0000`... |
/// | after it | `k:0000_0000`, `k:0000_0001`... | the same |
///
/// The crossing lasts until the host has seen the signal at `h+1:0000_0000` or more. From then on the encoder knows
/// that every value before the crossing is reached ([`Signal::seen`]), and omits such waits.
/// One case remains: a wait that was encoded before its point was reached, and that begins after more than
/// [`CROSSING`] later points were reached. The values last for 2^48 submissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    last: Step,
    /// Remaining submissions of the next or the current crossing.
    left: u32,
    /// The first point of the current crossing.
    border: u64,
}

/// The values of one submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The value that it writes to the signal.
    pub signal: u64,
    /// A value that the signal has reached when the submission is complete: at most `signal`, and more than any earlier
    /// submission has set.
    pub point: u64,
}

impl Counter {
    /// Continues after a value of the signal.
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

    /// Becomes what comes behind another counter, if that is the next number. Nothing happens otherwise.
    #[inline]
    fn follow(&mut self, last: &Counter) -> bool {
        let Step { signal, .. } = last.last;
        if signal & LOW == LOW {
            return false;
        }
        self.last.signal = signal + 1;
        self.last.point = signal + 1;
        self.left = CROSSING;
        self.border = last.border;
        true
    }

    /// The counter behind the next submission; `None` if 64 bits have run out. At the end of a crossing
    /// `passed` is asked whether the host has seen the signal at a value.
    pub fn next(mut self, passed: impl FnOnce(u64) -> bool) -> Option<Counter> {
        let last = self;
        if self.follow(&last) {
            return Some(self);
        }
        // The next high half, with low half 0.
        let point = self.last.signal.checked_add(1)?;
        let border = match self.left {
            CROSSING => point,
            _ => self.border,
        };
        if self.left == 0 && passed(border) {
            return Some(Counter {
                border,
                ..Counter::after(point)
            });
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
        // The next crossing has another first point.
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
        let timeline = Timeline::new(&id, QueueKind::Copy, 3, counted(), Vec::new(), Box::new(()));
        let turn = || {
            let mut turn = timeline.turn();
            turn.reserve().map(|()| turn)
        };
        drop(turn().unwrap());
        assert_eq!(turn().unwrap().signal_value(), 1);
        assert_eq!(turn().unwrap().submitted().value, 1);
        assert_eq!(timeline.last().value, 1);
        let error = timeline.skip_to(9).unwrap_err().to_string();
        assert!(error.contains("copy 3") && error.contains("0x9"), "{error}");
        timeline.signal().set(1).unwrap();
        timeline.skip_to(9).unwrap();
        assert_eq!(turn().unwrap().signal_value(), 10);
        assert!(timeline.skip_to(8).is_err());
        timeline.skip_to(u64::MAX).unwrap();
        let error = turn().err().unwrap().to_string();
        assert!(error.contains("64-bit timeline exhausted"), "{error}");
    }

    #[test]
    fn a_reserved_turn_comes_next_and_holds_no_lock() {
        let id = DeviceId::new("TEST", 0);
        let timeline = Timeline::new(
            &id,
            QueueKind::Copy,
            0,
            counted(),
            Vec::new(),
            Box::new(7u8),
        );
        for submits in [true, false] {
            let mut turn = timeline.turn();
            turn.reserve().unwrap();
            turn.packets().word(5);
            let reserved = turn.reserved();
            let (signal_value, last) = (reserved.signal_value(), timeline.last().value);
            assert_eq!(signal_value, last + 1);
            let mut held = timeline.try_hold().unwrap();
            assert_eq!(held.own::<u8>().map(|(own, _)| *own), Some(7));
            drop(held);
            std::thread::scope(|scope| {
                let other = scope.spawn(|| timeline.submit(|_| Ok(())).unwrap().value);
                while timeline.lock().waiting == 0 {
                    std::thread::yield_now();
                }
                assert_eq!(timeline.last().value, last);
                match submits {
                    true => {
                        let mut turn = reserved.turn();
                        assert_eq!(turn.packets().words, [5]);
                        assert_eq!(turn.submitted().value, signal_value);
                    }
                    false => drop(reserved),
                }
                assert_eq!(other.join().unwrap(), signal_value + u64::from(submits));
            });
        }
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
            let (signal, own) = (counted(), Box::new(()));
            let timeline = Timeline::new(&id, QueueKind::Compute, 0, signal, Vec::new(), own);
            let timeline = Arc::new(timeline);
            let ring = Arc::new(Mutex::new(Vec::new()));
            let submit = |timeline: &Timeline, ring: &Mutex<Vec<u64>>| {
                let mut turn = timeline.turn();
                turn.reserve().unwrap();
                ring.lock().unwrap().push(turn.signal_value());
                turn.submitted().value
            };
            let (theirs, into) = (Arc::clone(&timeline), Arc::clone(&ring));
            let other = loom::thread::spawn(move || submit(&theirs, &into));
            let mine = submit(&timeline, &ring);
            assert_ne!(mine, other.join().unwrap());
            assert_eq!(*ring.lock().unwrap(), [1, 2]);
        });
    }

    /// One thread has reserved its turns on two queues in the order of their places; another submits to one of them.
    #[test]
    fn loom_who_waits_for_a_reserved_turn_comes_after_it() {
        loom::model(|| {
            let id = DeviceId::new("TEST", 0);
            let timeline = |index| {
                let (signal, own) = (counted(), Box::new(()));
                Timeline::new(&id, QueueKind::Compute, index, signal, Vec::new(), own)
            };
            let timelines = Arc::new([timeline(0), timeline(1)]);
            let theirs = Arc::clone(&timelines);
            let replay = |timelines: &[Timeline; 2]| {
                let reserved = [0, 1].map(|i| {
                    let mut turn = timelines[i].turn();
                    turn.reserve().unwrap();
                    turn.reserved()
                });
                reserved.map(|reserved| {
                    let signal_value = reserved.signal_value();
                    assert_eq!(reserved.turn().submitted().value, signal_value);
                    signal_value
                })
            };
            let other = loom::thread::spawn(move || replay(&theirs));
            let mine = timelines[1].submit(|_| Ok(())).unwrap().value;
            let [first, second] = other.join().unwrap();
            assert_eq!((first, second + mine), (1, 3));
        });
    }
}
