//! [`Marks`]: the device's progress, in the ring and in submissions.
//!
//! A submission is complete once its queue's timeline has passed its end. A mark holds that timeline value, its end
//! in the ring, and the number of submissions before it: earlier words may be overwritten, and the objects of these
//! submissions released. Read pointers are not enough: they only show what was fetched.
//!
//! Marks need no words in the ring, except after words that follow the last submission on the timeline: the driver's own
//! words, and the first parts of a submission that is larger than the ring. These get [fences], which
//! free the ring up to their position, but nothing of a submission that ends after them.
//!
//! Memory that the device fetches itself (push buffers, indirect buffers) may have words after the one that raises
//! the timeline: an interrupt. That memory is released once a position after the submission is passed.
//!
//! [fences]: super::fences

use std::collections::VecDeque;

use super::fences;

/// The device's own report of its progress.
#[derive(Clone, Copy)]
pub struct Reached {
    /// The value of the queue's timeline.
    pub timeline: u64,
    /// The last fence.
    pub fence: u64,
}

#[derive(Clone, Copy)]
enum By {
    Timeline(u64),
    Fence(u64),
}

impl By {
    fn is_passed(self, reached: Reached) -> bool {
        match self {
            By::Timeline(value) => value <= reached.timeline,
            By::Fence(number) => number <= reached.fence,
        }
    }
}

#[derive(Clone, Copy)]
struct Mark {
    by: By,
    /// The position in the ring.
    end: u64,
    /// Submissions that end before it.
    submissions: u64,
}

/// The progress of a queue. Used under its lock.
pub struct Marks {
    under_way: VecDeque<Mark>,
    /// The last submission that raises the timeline.
    last: Option<Mark>,
    /// Submissions that have ended in the ring, and those that are known to be over.
    submissions: u64,
    passed: u64,
    /// Those of which the device reads nothing any more.
    read: u64,
    /// Positions: after the last mark, and after completed words.
    marked: u64,
    done: u64,
    /// How many submissions end before the last mark.
    marked_submissions: u64,
    /// Fences that were written, and passed.
    fences: [u64; 2],
}

impl Marks {
    /// Of a queue in which nothing is.
    pub fn new() -> Marks {
        Marks {
            under_way: VecDeque::with_capacity(fences::MOST as usize),
            last: None,
            submissions: 0,
            passed: 0,
            read: 0,
            marked: 0,
            done: 0,
            marked_submissions: 0,
            fences: [0; 2],
        }
    }

    /// A submission ends at a position, and makes the timeline that value; 0 if it does not raise it.
    #[inline]
    pub fn submitted(&mut self, signal_value: u64, end: u64) {
        self.submissions += 1;
        if signal_value > 0 {
            self.last = Some(Mark {
                by: By::Timeline(signal_value),
                end,
                submissions: self.submissions,
            });
        }
    }

    /// Whether all submissions are over once the timeline has a value: the last one raises it to that or less.
    #[inline]
    pub fn are_over_at(&self, timeline: u64) -> bool {
        self.last.is_some_and(|last| {
            last.submissions == self.submissions
                && matches!(last.by, By::Timeline(value) if value <= timeline)
        })
    }

    /// Submissions that have ended in the ring.
    #[inline]
    pub fn submissions(&self) -> u64 {
        self.submissions
    }

    /// Those that are known to be over.
    #[inline]
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Those of which the device reads nothing any more.
    #[inline]
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Whether a mark covers submissions up to a number.
    #[inline]
    pub fn covers(&self, submission: u64) -> bool {
        submission <= self.marked_submissions
    }

    /// Whether no mark is pending.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Dwords of the ring up to a position that no mark covers.
    #[inline]
    pub fn unmarked(&self, wptr: u64) -> u64 {
        wptr - self.marked
    }

    /// Adds a mark after the last submission that raises the timeline.
    #[inline]
    pub fn mark(&mut self) {
        if let Some(last) = self.last.filter(|last| last.end > self.marked) {
            self.push(last);
        }
    }

    /// The number of the next fence, if there is a block for it.
    pub fn next_fence(&self) -> Option<u64> {
        let [written, passed] = self.fences;
        (written - passed < fences::MOST).then_some(written + 1)
    }

    /// The next fence is in the ring, before a position.
    pub fn fence(&mut self, end: u64) {
        self.fences[0] += 1;
        self.push(Mark {
            by: By::Fence(self.fences[0]),
            end,
            submissions: self.submissions,
        });
    }

    /// Whether a fence is pending.
    #[inline]
    pub fn has_fences(&self) -> bool {
        self.fences[0] > self.fences[1]
    }

    /// Fences that were written, and passed.
    pub fn fences(&self) -> [u64; 2] {
        self.fences
    }

    fn push(&mut self, mark: Mark) {
        (self.marked, self.marked_submissions) = (mark.end, mark.submissions);
        self.under_way.push_back(mark);
    }

    /// Records the device's progress. Returns the position after completed words.
    #[inline]
    pub fn advance(&mut self, reached: Reached) -> u64 {
        while let Some(mark) = self.under_way.front()
            && mark.by.is_passed(reached)
        {
            (self.done, self.passed) = (mark.end, mark.submissions);
            self.read = match mark.by {
                By::Timeline(_) => mark.submissions - 1,
                By::Fence(number) => {
                    self.fences[1] = number;
                    mark.submissions
                }
            };
            self.under_way.pop_front();
        }
        self.done
    }

    /// The position after completed words, given the device's progress; records nothing.
    pub fn done_by(&self, reached: Reached) -> u64 {
        let all = self.under_way.iter().chain(&self.last);
        let passed = all.filter(|mark| mark.by.is_passed(reached));
        let ends = passed.map(|mark| mark.end);
        ends.max().unwrap_or(0).max(self.done)
    }

    /// Whether everything in the ring, written up to a position, is known to be done.
    #[inline]
    pub fn is_idle(&self, wptr: u64) -> bool {
        self.done == wptr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(timeline: u64, fence: u64) -> Reached {
        Reached { timeline, fence }
    }

    #[test]
    fn a_submission_is_over_when_the_timeline_has_passed_its_end() {
        let mut marks = Marks::new();
        marks.submitted(1, 10);
        marks.submitted(2, 20);
        assert!(!marks.covers(1) && marks.unmarked(20) == 20);
        marks.mark();
        marks.mark();
        assert!(marks.covers(2) && marks.unmarked(20) == 0);
        assert_eq!((marks.advance(reached(1, 0)), marks.passed()), (0, 0));
        assert_eq!((marks.advance(reached(2, 0)), marks.passed()), (20, 2));
        // Its last words may still be read.
        assert_eq!(marks.read(), 1);
        assert!(marks.is_idle(20) && marks.is_empty());
        // It has no mark, and yet it is known to be complete.
        marks.submitted(3, 30);
        assert_eq!(marks.done_by(reached(2, 0)), 20);
        assert_eq!(marks.done_by(reached(3, 0)), 30);
    }

    #[test]
    fn a_fence_inside_of_a_submission_frees_the_ring_and_nothing_of_it() {
        let mut marks = Marks::new();
        marks.submitted(1, 10);
        // The first parts of the second, up to 100.
        marks.mark();
        assert_eq!(marks.next_fence(), Some(1));
        marks.fence(100);
        assert_eq!((marks.advance(reached(1, 1)), marks.passed()), (100, 1));
        assert!(!marks.covers(2));
        marks.submitted(2, 120);
        marks.mark();
        assert_eq!((marks.advance(reached(1, 1)), marks.passed()), (100, 1));
        assert_eq!((marks.advance(reached(2, 1)), marks.passed()), (120, 2));
    }

    #[test]
    fn what_raises_nothing_is_over_at_its_fence_or_with_the_next_that_does() {
        let mut marks = Marks::new();
        marks.submitted(0, 10);
        marks.mark();
        assert_eq!(marks.unmarked(10), 10);
        marks.fence(12);
        assert_eq!((marks.advance(reached(0, 1)), marks.passed()), (12, 1));
        assert_eq!(marks.read(), 1);
        assert!(!marks.has_fences());
        marks.submitted(0, 20);
        marks.submitted(1, 30);
        marks.mark();
        assert_eq!((marks.advance(reached(1, 1)), marks.passed()), (30, 3));
        // As many fences at once as there are blocks.
        for end in 0..fences::MOST {
            assert!(marks.next_fence().is_some());
            marks.fence(31 + end);
        }
        assert_eq!(marks.next_fence(), None);
        marks.advance(reached(1, 2));
        assert!(marks.next_fence().is_some());
    }
}
