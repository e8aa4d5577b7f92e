//! Timelines: points that only grow, what is deferred until them, and narrow hardware values.
//!
//! A [`Timeline`] counts submissions. A [`Point`] is 64 bits and never wraps; hardware that
//! stores or compares 32 bits is translated by [`extend`] and [`split_wait`], which state how far
//! apart values may be and refuse what lies beyond.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::PoisonError;

use thiserror::Error;

use crate::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

/// A moment of one timeline: reached once everything submitted up to it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Point(pub u64);

impl Point {
    /// The point before the first submission, reached from the start.
    pub const ZERO: Point = Point(0);
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Why a timeline operation was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TimelineError {
    /// A completion of something that was never issued.
    #[error(
        "point {point} completed, but only {issued} points were issued: foreign or corrupt signal"
    )]
    NotIssued {
        /// Point that was reported.
        point: Point,
        /// The last point issued.
        issued: Point,
    },
    /// A narrow value that no point between the last completed and the last issued has.
    #[error(
        "hardware value {raw:#010x} means no point from {completed} to {issued}: corrupt signal, \
         or a lost device"
    )]
    OutsideWindow {
        /// Value as the hardware has it.
        raw: u32,
        /// Last point known to be completed.
        completed: Point,
        /// Last point issued.
        issued: Point,
    },
    /// More points in flight than 32 bits can tell apart.
    #[error(
        "point {point} is {distance} after the last completed one; 32-bit hardware tells at most \
         {NARROW_WINDOW} apart. Synchronize first"
    )]
    TooFarAhead {
        /// Point that was to be issued or awaited.
        point: Point,
        /// Its distance.
        distance: u64,
    },
}

/// Most points that may be in flight where hardware keeps 32 bits: half of what they can count,
/// so that a value before, inside and after the window are three different things.
pub const NARROW_WINDOW: u64 = 1 << 31;

type Deferred = Box<dyn FnOnce() + Send>;

/// A counter of submissions, with what is to run once they are done.
pub struct Timeline {
    issued: AtomicU64,
    completed: AtomicU64,
    deferred: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    /// By point, then in the order of pushing.
    entries: BTreeMap<(Point, u64), Deferred>,
    pushed: u64,
    /// Some thread is running entries and will look again before it stops.
    running: bool,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline::new()
    }
}

impl Timeline {
    /// A timeline at [`Point::ZERO`].
    pub fn new() -> Timeline {
        Timeline {
            issued: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            deferred: Mutex::new(Pending::default()),
        }
    }

    /// Issues the next point. 64 bits do not run out: at a billion a second, in 584 years.
    #[allow(
        clippy::should_implement_trait,
        reason = "a timeline is not an iterator"
    )]
    pub fn next(&self) -> Point {
        // Relaxed: the count orders nothing but itself; submission publishes the work.
        Point(self.issued.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The last point issued.
    pub fn issued(&self) -> Point {
        Point(self.issued.load(Ordering::Relaxed))
    }

    /// The last point known to be completed.
    pub fn completed(&self) -> Point {
        // Acquire, with the release in `complete`: who sees the point sees the work's results.
        Point(self.completed.load(Ordering::Acquire))
    }

    /// Whether `point` is known to be completed.
    pub fn is_completed(&self, point: Point) -> bool {
        self.completed() >= point
    }

    /// Records that everything up to `point` is done. Reports may come late and out of order; an
    /// older one changes nothing. Returns the last completed point.
    ///
    /// # Errors
    /// [`TimelineError::NotIssued`].
    pub fn complete(&self, point: Point) -> Result<Point, TimelineError> {
        let issued = self.issued();
        if point > issued {
            return Err(TimelineError::NotIssued { point, issued });
        }
        let before = self.completed.fetch_max(point.0, Ordering::AcqRel);
        Ok(Point(before.max(point.0)))
    }

    /// Records a 32-bit value read from hardware. See [`extend`] for the rule.
    ///
    /// # Errors
    /// [`TimelineError::OutsideWindow`].
    pub fn complete_narrow(&self, read: impl FnOnce() -> u32) -> Result<Point, TimelineError> {
        // The reference is read before the hardware's value, which therefore cannot be older.
        let completed = self.completed();
        let raw = read();
        self.complete(extend(completed, self.issued(), raw)?)
    }

    /// Runs `free` once `point` is completed: by a later [`Timeline::reclaim`], on its thread.
    pub fn defer(&self, point: Point, free: impl FnOnce() + Send + 'static) {
        let mut pending = self.pending();
        let key = (point, pending.pushed);
        pending.pushed += 1;
        pending.entries.insert(key, Box::new(free));
    }

    /// Drops `value` once `point` is completed.
    pub fn defer_drop(&self, point: Point, value: impl Send + 'static) {
        self.defer(point, move || drop(value));
    }

    /// Entries that wait for their point.
    pub fn deferred(&self) -> usize {
        self.pending().entries.len()
    }

    /// Runs what was deferred to points that are completed: oldest point first, within a point in
    /// the order of deferral. No lock is held meanwhile, so an entry may defer or reclaim. One
    /// thread runs at a time, which keeps the order; another that comes meanwhile returns 0 and
    /// leaves its entries to the first, which looks again before it stops. Returns the number run.
    pub fn reclaim(&self) -> usize {
        let mut run = 0;
        let mut turn = Turn {
            timeline: self,
            done: false,
        };
        let mut first = true;
        loop {
            let batch = {
                let mut pending = self.pending();
                if first && pending.running {
                    turn.done = true;
                    return 0;
                }
                first = false;
                // Under the lock: a completion before another thread found `running` set is seen.
                let keep = pending
                    .entries
                    .split_off(&(Point(self.completed().0 + 1), 0));
                let batch = std::mem::replace(&mut pending.entries, keep);
                pending.running = !batch.is_empty();
                batch
            };
            if batch.is_empty() {
                turn.done = true;
                return run;
            }
            for free in batch.into_values() {
                free();
                run += 1;
            }
        }
    }

    fn pending(&self) -> impl std::ops::DerefMut<Target = Pending> + '_ {
        // Nothing panics while the lock is held; a poisoned lock still has whole entries.
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a thread's turn of running entries, also when one of them panics. (The rest of its batch
/// is then dropped, which frees what the entries own.)
struct Turn<'a> {
    timeline: &'a Timeline,
    done: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.timeline.pending().running = false;
        }
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeline")
            .field("issued", &self.issued().0)
            .field("completed", &self.completed().0)
            .field("deferred", &self.deferred())
            .finish()
    }
}

/// The point whose low 32 bits are `raw`, between `completed` and `issued`.
///
/// Rule: at most [`NARROW_WINDOW`] points are in flight ([`check_window`], before issuing), and
/// `completed` was known before `raw` was read. Then one point at most has that value.
///
/// # Errors
/// [`TimelineError::OutsideWindow`] when none has.
pub fn extend(completed: Point, issued: Point, raw: u32) -> Result<Point, TimelineError> {
    let ahead = u64::from(raw.wrapping_sub(completed.0 as u32));
    match completed.0.checked_add(ahead) {
        Some(value) if value <= issued.0 && ahead <= NARROW_WINDOW => Ok(Point(value)),
        _ => Err(TimelineError::OutsideWindow {
            raw,
            completed,
            issued,
        }),
    }
}

/// Whether `point` may be issued to 32-bit hardware while `completed` is the last completed one.
///
/// # Errors
/// [`TimelineError::TooFarAhead`]: wait for completions first.
pub fn check_window(completed: Point, point: Point) -> Result<(), TimelineError> {
    let distance = point.0.saturating_sub(completed.0);
    if distance > NARROW_WINDOW {
        return Err(TimelineError::TooFarAhead { point, distance });
    }
    Ok(())
}

/// How a device's wait packet compares memory with a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// All 64 bits, `memory >= reference`.
    Full,
    /// One 32-bit word, unsigned `memory >= reference`.
    Unsigned32,
    /// One 32-bit word, circular: `(memory - reference) as i32 >= 0`.
    Circular32,
}

/// What a device has to be told so that it waits for a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceWait {
    /// Nothing: the point is completed.
    None,
    /// One 64-bit comparison.
    Full(u64),
    /// One comparison with the low word.
    Low(u32),
    /// First wait until the high word reaches `high`, then until the low word reaches `low`.
    HighThenLow {
        /// Reference for the high word, at byte 4 of the value.
        high: u32,
        /// Reference for the low word, at byte 0.
        low: u32,
    },
}

/// Splits a wait for `target` into what the device can compare.
///
/// An unsigned comparison of the low word is right only while the value keeps the target's high
/// word: past it the low word starts again at zero and a late waiter would hang. Whoever issues
/// points must therefore let all pending device waits finish before the first point with a new
/// high word: [`crosses_epoch`] says when (once in 2^32 points). Streams choose values for which that
/// need not be waited for: see [`Counter`].
///
/// # Errors
/// [`TimelineError::TooFarAhead`] with a 32-bit comparison.
pub fn split_wait(
    compare: Compare,
    completed: Point,
    target: Point,
) -> Result<DeviceWait, TimelineError> {
    if target <= completed {
        return Ok(DeviceWait::None);
    }
    let (high, low) = ((target.0 >> 32) as u32, target.0 as u32);
    match compare {
        Compare::Full => return Ok(DeviceWait::Full(target.0)),
        Compare::Unsigned32 | Compare::Circular32 => check_window(completed, target)?,
    }
    // Exactly half the circle away, "ahead" and "behind" look alike.
    if compare == Compare::Circular32 && target.0 - completed.0 == NARROW_WINDOW {
        return Err(TimelineError::TooFarAhead {
            point: target,
            distance: NARROW_WINDOW,
        });
    }
    if compare == Compare::Circular32 || high == (completed.0 >> 32) as u32 {
        return Ok(DeviceWait::Low(low));
    }
    Ok(DeviceWait::HighThenLow { high, low })
}

/// Whether `next` has another high word than `last`: with [`Compare::Unsigned32`], pending device
/// waits have to finish before `next` is submitted.
pub const fn crosses_epoch(last: Point, next: Point) -> bool {
    last.0 >> 32 != next.0 >> 32
}

/// Submissions that take a [`Counter`] past a multiple of 2^32.
pub const CROSSING: u32 = 1 << 16;

/// The values of a stream's submissions, such that devices which compare 32 bits may wait for any of
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
/// What is left is a device that begins to wait for a point after more than [`CROSSING`] later ones were
/// reached, and was told to before it was reached itself. The values last for 2^48 submissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    last: Step,
    /// Submissions of the next crossing, or of the one under way.
    left: u32,
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
        }
    }

    /// The last submission.
    pub const fn last(&self) -> Step {
        self.last
    }

    /// The counter behind the next submission; `None` if 64 bits have run out.
    pub const fn next(self) -> Option<Counter> {
        const LOW: u64 = u32::MAX as u64;
        let signal = self.last.signal;
        let (step, left) = if signal & LOW != LOW {
            let next = signal + 1;
            let step = Step {
                signal: next,
                point: next,
            };
            (step, CROSSING)
        } else {
            // The next high half, with low half 0.
            let Some(point) = signal.checked_add(1) else {
                return None;
            };
            match self.left {
                0 => (
                    Step {
                        signal: point,
                        point,
                    },
                    CROSSING,
                ),
                left => {
                    let signal = point | LOW;
                    (Step { signal, point }, left - 1)
                }
            }
        };
        Some(Counter { last: step, left })
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn at(issued: u64) -> Timeline {
        let timeline = Timeline::new();
        timeline.issued.store(issued, Ordering::Relaxed);
        timeline
    }

    /// Whether a device that compares halves sees that a signal has reached a value.
    fn sees(signal: u64, value: u64) -> bool {
        signal >> 32 >= value >> 32 && signal as u32 >= value as u32
    }

    fn run(start: u64, submissions: usize) -> Vec<Step> {
        let mut counter = Counter::after(start);
        let mut steps = Vec::with_capacity(submissions);
        for _ in 0..submissions {
            counter = counter.next().unwrap();
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
    fn a_counter_ends_with_64_bits() {
        assert_eq!(Counter::after(u64::MAX).next(), None);
        let last = Counter::after(u64::MAX - 1).next().unwrap();
        assert_eq!(last.next(), None);
    }

    #[test]
    fn points_grow_and_completion_never_goes_back() {
        let timeline = Timeline::new();
        assert_eq!((timeline.next(), timeline.next()), (Point(1), Point(2)));
        assert_eq!(timeline.complete(Point(2)), Ok(Point(2)));
        assert_eq!(timeline.complete(Point(1)), Ok(Point(2)));
        assert!(timeline.is_completed(Point(2)) && !timeline.is_completed(Point(3)));
        assert_eq!(
            timeline.complete(Point(3)),
            Err(TimelineError::NotIssued {
                point: Point(3),
                issued: Point(2)
            })
        );
    }

    #[test]
    fn deferred_entries_run_in_order_once_their_point_is_done() {
        let timeline = at(10);
        let log = Arc::new(std::sync::Mutex::new(vec![]));
        for (point, name) in [(3, 'a'), (1, 'b'), (3, 'c'), (2, 'd'), (9, 'e')] {
            let log = Arc::clone(&log);
            timeline.defer(Point(point), move || log.lock().unwrap().push(name));
        }
        assert_eq!(timeline.reclaim(), 0);
        timeline.complete(Point(3)).unwrap();
        assert_eq!(timeline.reclaim(), 4);
        assert_eq!(*log.lock().unwrap(), ['b', 'd', 'a', 'c']);
        assert_eq!(timeline.deferred(), 1);
        timeline.complete(Point(10)).unwrap();
        assert_eq!(timeline.reclaim(), 1);
        assert_eq!(timeline.reclaim(), 0);
    }

    #[test]
    fn entries_may_defer_and_reclaim() {
        let timeline = Arc::new(at(5));
        timeline.complete(Point(2)).unwrap();
        let inner = Arc::clone(&timeline);
        timeline.defer(Point(1), move || {
            assert_eq!(inner.reclaim(), 0, "one thread runs at a time");
            inner.defer(Point(2), || {});
            inner.defer(Point(4), || {});
        });
        assert_eq!(
            timeline.reclaim(),
            2,
            "the new entry whose point is done ran too"
        );
        assert_eq!(timeline.deferred(), 1);
    }

    #[test]
    fn a_panicking_entry_does_not_block_later_ones() {
        let timeline = at(5);
        timeline.complete(Point(5)).unwrap();
        timeline.defer(Point(1), || panic!("entry"));
        assert!(
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| timeline.reclaim())).is_err()
        );
        timeline.defer(Point(2), || {});
        assert_eq!(timeline.reclaim(), 1);
    }

    #[test]
    fn deferred_values_are_dropped() {
        let timeline = at(1);
        let value = Arc::new(());
        timeline.defer_drop(Point(1), Arc::clone(&value));
        timeline.reclaim();
        assert_eq!(Arc::strong_count(&value), 2);
        timeline.complete(Point(1)).unwrap();
        timeline.reclaim();
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn narrow_values_extend_over_the_wrap() {
        let completed = Point(0x1_ffff_fff0);
        let issued = Point(0x2_0000_0010);
        assert_eq!(
            extend(completed, issued, 0xffff_fff8),
            Ok(Point(0x1_ffff_fff8))
        );
        assert_eq!(extend(completed, issued, 5), Ok(Point(0x2_0000_0005)));
        for raw in [0x11, 0xffff_ffef, 0x8000_0000] {
            assert!(extend(completed, issued, raw).is_err(), "{raw:#x}");
        }
        let timeline = at(0x1_0000_0002);
        timeline.complete(Point(0xffff_fffe)).unwrap();
        assert_eq!(timeline.complete_narrow(|| 1), Ok(Point(0x1_0000_0001)));
        assert!(
            timeline.complete_narrow(|| u32::MAX).is_err(),
            "all ones of a lost device"
        );
    }

    #[test]
    fn the_window_has_an_end() {
        assert!(check_window(Point(7), Point(7 + NARROW_WINDOW)).is_ok());
        assert!(check_window(Point(7), Point(8 + NARROW_WINDOW)).is_err());
        assert!(split_wait(Compare::Unsigned32, Point(0), Point(NARROW_WINDOW + 1)).is_err());
        assert!(split_wait(Compare::Circular32, Point(0), Point(NARROW_WINDOW)).is_err());
        assert!(split_wait(Compare::Full, Point(0), Point(u64::MAX)).is_ok());
    }

    #[test]
    fn waits_split_at_the_epoch() {
        let completed = Point(0xffff_fff0);
        let split = |target| split_wait(Compare::Unsigned32, completed, Point(target)).unwrap();
        assert_eq!(split(5), DeviceWait::None);
        assert_eq!(split(0xffff_fff1), DeviceWait::Low(0xffff_fff1));
        assert_eq!(
            split(0x1_0000_0003),
            DeviceWait::HighThenLow { high: 1, low: 3 }
        );
        assert!(crosses_epoch(Point(0xffff_ffff), Point(0x1_0000_0000)));
        assert!(!crosses_epoch(Point(0x1_0000_0000), Point(0x1_0000_0001)));
    }

    /// What the hardware would do with the wait, at one moment.
    fn passes(compare: Compare, wait: DeviceWait, value: u64) -> bool {
        let (hi, lo) = ((value >> 32) as u32, value as u32);
        match wait {
            DeviceWait::None => true,
            DeviceWait::Full(reference) => value >= reference,
            DeviceWait::Low(low) if compare == Compare::Circular32 => {
                lo.wrapping_sub(low) as i32 >= 0
            }
            DeviceWait::Low(low) => lo >= low,
            DeviceWait::HighThenLow { high, low } => hi >= high && lo >= low,
        }
    }

    proptest! {
        #[test]
        fn extension_inverts_truncation(
            completed in 0u64..1 << 40, done in 0..=NARROW_WINDOW, more in 0..NARROW_WINDOW,
        ) {
            let issued = (completed + done + more).min(completed + NARROW_WINDOW);
            let value = completed + done;
            let got = extend(Point(completed), Point(issued), value as u32);
            prop_assert_eq!(got, Ok(Point(value)));
        }

        /// While no new epoch begins after the target's, the split wait passes exactly when the
        /// value has reached the target.
        #[test]
        fn split_waits_mean_the_same(
            completed in (1u64 << 32) - 50..(1 << 32) + 50,
            ahead in 1u64..200,
            value in 0u64..400,
            compare in prop::sample::select(vec![
                Compare::Full, Compare::Unsigned32, Compare::Circular32,
            ]),
        ) {
            let target = completed + ahead;
            let value = completed + value;
            prop_assume!(compare != Compare::Unsigned32 || value >> 32 <= target >> 32);
            let wait = split_wait(compare, Point(completed), Point(target)).unwrap();
            prop_assert_eq!(passes(compare, wait, value), value >= target);
        }
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use super::*;
    use crate::sync::Arc;

    /// Two threads complete and reclaim; every entry runs exactly once, and none is left behind
    /// although each thread may find the other one running.
    #[test]
    fn loom_no_deferred_entry_is_lost() {
        loom::model(|| {
            let timeline = Arc::new(Timeline::new());
            let ran = Arc::new(AtomicU64::new(0));
            for point in [timeline.next(), timeline.next()] {
                let ran = Arc::clone(&ran);
                timeline.defer(point, move || {
                    ran.fetch_add(1, Ordering::Relaxed);
                });
            }
            let theirs = Arc::clone(&timeline);
            let other = loom::thread::spawn(move || {
                theirs.complete(Point(2)).unwrap();
                theirs.reclaim();
            });
            timeline.complete(Point(1)).unwrap();
            timeline.reclaim();
            other.join().unwrap();
            assert_eq!(timeline.deferred(), 0);
            assert_eq!(ran.load(Ordering::Relaxed), 2);
        });
    }

    /// What a completing thread wrote before is seen by whoever sees the point.
    #[test]
    fn loom_completion_publishes_results() {
        loom::model(|| {
            let timeline = Arc::new(Timeline::new());
            let point = timeline.next();
            let result = Arc::new(AtomicU64::new(0));
            let (theirs, written) = (Arc::clone(&timeline), Arc::clone(&result));
            let worker = loom::thread::spawn(move || {
                written.store(7, Ordering::Relaxed);
                theirs.complete(point).unwrap();
            });
            if timeline.is_completed(point) {
                assert_eq!(result.load(Ordering::Relaxed), 7);
            }
            worker.join().unwrap();
        });
    }
}
