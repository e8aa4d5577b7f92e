//! Progress of submitted work: how a wait tells a long kernel from a hung device.
//!
//! A wait for submitted work times out on lack of progress, not on duration. Checking progress costs nothing for
//! submissions and short waits: a [`Silence`] polls the device only once a wait is long, and the device compares its
//! counters with earlier ones ([`Seen`]).
//!
//! A queue that waits for another one progresses as that one does, on whatever device: [`raising`] asks all devices
//! of the process.
//!
//! Nothing here allocates, with up to [`FEW`] open devices and signals: a long run is looked at, and still runs without.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::clock::Clock;
use crate::sync::lock;
use crate::wait::Deadline;

/// A wait looks so often at the work before the silence is as long as its limit.
const LOOKS: u32 = 8;

/// The first look, after this part of the limit, is what later ones are compared with.
const FIRST: u32 = 64;

/// The queues of a device, as seen by waits.
pub trait Queues: Send + Sync {
    /// Time without progress of the packets in flight that raise the signal at an address, and of what they wait for.
    /// `None` if none here raises it. Pass `asked` to [`raising`].
    fn raising(&self, at: u64, asked: &mut Asked) -> Option<Duration>;
}

/// The signals queried for one wait. Each is queried once: queues may wait for each other in a cycle.
#[derive(Debug, Default)]
pub struct Asked(SmallVec<[u64; FEW]>);

/// So many need no memory of their own.
pub const FEW: usize = 8;

/// The queues of every open device.
static ALL: Mutex<Vec<Weak<dyn Queues>>> = Mutex::new(Vec::new());

/// Registers the queues of an open device. Waits hold them for a moment while they poll, in their own threads:
/// dropping such a reference must not close the device.
pub fn watch(queues: Weak<dyn Queues>) {
    let mut all = lock(&ALL);
    all.retain(|queues| queues.strong_count() > 0);
    all.push(queues);
}

/// Time without progress of all work in the process that may raise the signal at an address. `None` if no work in
/// flight raises it (the host must set it), and for a signal already queried.
pub fn raising(at: u64, asked: &mut Asked) -> Option<Duration> {
    if asked.0.contains(&at) {
        return None;
    }
    asked.0.push(at);
    // Asked outside of the lock: they ask about others.
    let all: SmallVec<[Arc<dyn Queues>; FEW]> =
        lock(&ALL).iter().filter_map(Weak::upgrade).collect();
    let silences = all.iter().filter_map(|queues| queues.raising(at, asked));
    silences.min()
}

/// Last observed state of a queue, and since when it is unchanged.
#[derive(Debug)]
pub struct Seen(Mutex<(SmallVec<[u64; FEW]>, Instant)>);

impl Default for Seen {
    fn default() -> Seen {
        Seen::with_room(0)
    }
}

impl Seen {
    /// For so many marks; more than that allocate once.
    pub fn with_room(marks: usize) -> Seen {
        Seen(Mutex::new((SmallVec::with_capacity(marks), Instant::now())))
    }

    /// Compares pointers and counters with those of the last call. Returns how long they have been unchanged.
    pub fn note(&self, marks: impl IntoIterator<Item = u64>) -> Duration {
        let mut seen = lock(&self.0);
        let (known, since) = &mut *seen;
        let (mut count, mut is_same) = (0, true);
        for mark in marks {
            match known.get_mut(count) {
                Some(last) => is_same &= std::mem::replace(last, mark) == mark,
                None => {
                    known.push(mark);
                    is_same = false;
                }
            }
            count += 1;
        }
        if !is_same || known.len() != count {
            known.truncate(count);
            *since = Instant::now();
        }
        since.elapsed()
    }

    /// Records progress that no counter shows.
    pub fn note_progress(&self) {
        let mut seen = lock(&self.0);
        seen.1 = Instant::now();
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// No progress for this long.
    Silent(Duration),
    /// The same, on a device that cannot tell a long kernel from a hung one.
    Blind(Duration),
    /// The work exceeded its time limit, regardless of progress: [`Deadline::within`].
    Long(Duration),
}

/// A wait for submitted work. It ends after the deadline's limit without progress, or after the work's own time
/// limit, if any.
#[derive(Debug)]
pub struct Silence {
    deadline: Deadline,
    /// When something was last heard, and when to look next, since the deadline was made.
    heard: Duration,
    next: Duration,
}

impl Silence {
    /// A wait that begins.
    pub fn new(deadline: Deadline) -> Silence {
        let first = deadline.limit() / FIRST;
        Silence {
            deadline,
            heard: Duration::ZERO,
            next: deadline.work().map_or(first, |work| work.min(first)),
        }
    }

    /// How long to sleep at most. Once nothing is left, [`Silence::over`] is to be asked.
    pub fn left(&self, clock: &dyn Clock) -> Duration {
        self.next.saturating_sub(self.deadline.elapsed(clock))
    }

    /// The awaited value has changed, but not far enough.
    pub fn hear(&mut self, clock: &dyn Clock) {
        self.heard = self.deadline.elapsed(clock);
    }

    /// Whether the wait is over; otherwise its time is extended. `silent` is the time without progress of the awaited
    /// work, if known.
    pub fn over(
        &mut self,
        clock: &dyn Clock,
        silent: impl FnOnce() -> Option<Duration>,
    ) -> Option<Over> {
        let limit = self.deadline.limit();
        let elapsed = self.deadline.elapsed(clock);
        let unheard = elapsed.saturating_sub(self.heard);
        let silence = match limit.is_zero() {
            true => unheard,
            false => silent().unwrap_or(Duration::MAX).min(unheard),
        };
        if silence >= limit {
            return Some(Over::Silent(silence));
        }
        if let Some(work) = self.deadline.work()
            && elapsed >= work
        {
            return Some(Over::Long(work));
        }
        self.plan(elapsed, silence);
        None
    }

    /// The time since the deadline was made.
    pub fn elapsed(&self, clock: &dyn Clock) -> Duration {
        self.deadline.elapsed(clock)
    }

    /// When to look again, after a silence.
    fn plan(&mut self, elapsed: Duration, silence: Duration) {
        let limit = self.deadline.limit();
        let pause = (limit / LOOKS).min(limit.saturating_sub(silence));
        self.next = elapsed.saturating_add(pause);
        if let Some(work) = self.deadline.work() {
            self.next = self.next.min(work);
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::clock::VirtualClock;

    const LIMIT: Duration = Duration::from_millis(80);

    /// Waits on a virtual clock for a device without progress since a moment that may change. Returns the time of the end.
    fn wait(
        deadline: impl FnOnce(Deadline) -> Deadline,
        mut moved: impl FnMut(Duration) -> Duration,
    ) -> (Over, Duration) {
        let clock = VirtualClock::new();
        let mut silence = Silence::new(deadline(Deadline::on(&clock, LIMIT)));
        loop {
            clock.sleep(silence.left(&clock));
            let now = silence.elapsed(&clock);
            if let Some(over) = silence.over(&clock, || Some(now - moved(now).min(now))) {
                return (over, now);
            }
        }
    }

    #[test]
    fn a_wait_is_over_after_a_silence_and_not_after_work() {
        let never = |_| Duration::ZERO;
        assert_eq!(wait(|d| d, never), (Over::Silent(LIMIT), LIMIT));
        // It moves for ten times the limit.
        let end = LIMIT * 10;
        let (over, now) = wait(|d| d, |now| now.min(end));
        assert_eq!((over, now), (Over::Silent(LIMIT), end + LIMIT));
    }

    #[test]
    fn work_that_goes_on_may_be_bounded() {
        let work = LIMIT * 3;
        let (over, now) = wait(|d| d.within(work), |now| now);
        assert_eq!((over, now), (Over::Long(work), work));
        // A silence is over before.
        let (over, _) = wait(|d| d.within(work), |_| Duration::ZERO);
        assert_eq!(over, Over::Silent(LIMIT));
    }

    #[test]
    fn what_is_heard_counts_and_what_nobody_knows_is_silent() {
        let clock = VirtualClock::new();
        let mut silence = Silence::new(Deadline::on(&clock, LIMIT));
        for _ in 0..50 {
            clock.sleep(silence.left(&clock));
            silence.hear(&clock);
            assert_eq!(silence.over(&clock, || None), None);
        }
        clock.sleep(LIMIT);
        assert_eq!(silence.over(&clock, || None), Some(Over::Silent(LIMIT)));
    }

    #[test]
    fn a_wait_without_time_does_not_look_and_one_without_end_has_time() {
        let clock = VirtualClock::new();
        let mut silence = Silence::new(Deadline::on(&clock, Duration::ZERO));
        let over = silence.over(&clock, || panic!());
        assert_eq!(over, Some(Over::Silent(Duration::ZERO)));
        let mut silence = Silence::new(Deadline::on(&clock, Duration::MAX).within(Duration::MAX));
        assert!(silence.left(&clock) > Duration::from_secs(1 << 40));
        clock.sleep(LIMIT);
        assert_eq!(silence.over(&clock, || None), None);
        assert!(silence.left(&clock) > Duration::from_secs(1 << 40));
    }

    #[test]
    fn counters_that_change_end_a_silence() {
        let seen = Seen::default();
        let pause = Duration::from_millis(2);
        seen.note([1, 2]);
        std::thread::sleep(pause);
        let before = seen.note([1, 2]);
        assert!(before >= pause);
        std::thread::sleep(pause);
        assert!(seen.note([1, 2]) >= before + pause);
        let start = Instant::now();
        assert!(seen.note([1, 3]) <= start.elapsed());
        let start = Instant::now();
        seen.note_progress();
        assert!(seen.note([1, 3]) <= start.elapsed());
        // Fewer, or more, are others.
        for marks in [&[1][..], &[1, 3], &[1, 3, 5]] {
            std::thread::sleep(pause);
            let start = Instant::now();
            assert!(seen.note(marks.iter().copied()) <= start.elapsed());
        }
    }

    /// Queues that stand at a wait, for each other or for the host.
    struct Stands {
        raises: u64,
        waits_for: u64,
    }

    impl Queues for Stands {
        fn raising(&self, at: u64, asked: &mut Asked) -> Option<Duration> {
            let own = Duration::from_secs(9);
            let behind = |asked| raising(self.waits_for, asked).unwrap_or(Duration::MAX);
            (at == self.raises).then(|| own.min(behind(asked)))
        }
    }

    struct Works;

    impl Queues for Works {
        fn raising(&self, at: u64, _: &mut Asked) -> Option<Duration> {
            (at == 0x3333_0003).then_some(Duration::from_secs(1))
        }
    }

    #[test]
    fn queues_are_as_silent_as_what_they_wait_for() {
        let stands = |raises, waits_for| Arc::new(Stands { raises, waits_for }) as Arc<dyn Queues>;
        let all: [Arc<dyn Queues>; 5] = [
            stands(0x3333_0001, 0x3333_0002),
            stands(0x3333_0002, 0x3333_0003),
            Arc::new(Works),
            // A circle.
            stands(0x3333_0004, 0x3333_0005),
            stands(0x3333_0005, 0x3333_0004),
        ];
        all.iter().for_each(|queues| watch(Arc::downgrade(queues)));
        let silence = |at| raising(at, &mut Asked::default()).map(|silence| silence.as_secs());
        assert_eq!(silence(0x3333_0001), Some(1));
        assert_eq!(silence(0x3333_0004), Some(9));
        assert_eq!(silence(0x3333_0006), None);
        drop(all);
        assert_eq!(silence(0x3333_0001), None);
    }
}
