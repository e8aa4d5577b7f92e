//! A wrapping bump allocator: short-lived blocks that go away in the order they came.
//!
//! Kernel arguments and patch blocks live until their submission completes. Blocks are bump-allocated from a ring;
//! [`Bump::seal`] ties those since the last seal to the submission's point; [`Bump::reclaim`] frees them once the
//! point is reached.

use std::collections::VecDeque;
use std::ops::Range;

use thiserror::Error;

/// Why a block was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BumpError {
    /// A size of zero, or an alignment that is zero, no power of two, or finer than the region.
    #[error("cannot allocate {asked:#x} bytes aligned to {align:#x} in a region of {size:#x}")]
    BadRequest {
        /// Bytes asked for.
        asked: u64,
        /// Alignment asked for.
        align: u64,
        /// Bytes of the region.
        size: u64,
    },
    /// Larger than the whole region.
    #[error("{asked:#x} bytes exceed the region of {size:#x}; make it larger")]
    TooLarge {
        /// Bytes asked for.
        asked: u64,
        /// Bytes of the region.
        size: u64,
    },
    /// No room until older blocks are reclaimed.
    #[error("{asked:#x} bytes do not fit, {free:#x} of {size:#x} free; {}", until(.oldest))]
    Full {
        /// Bytes asked for.
        asked: u64,
        /// Bytes free, not all of them in one piece.
        free: u64,
        /// Bytes of the region.
        size: u64,
        /// The point to wait for; none when all blocks are of the unfinished submission.
        oldest: Option<u64>,
    },
}

fn until(oldest: &Option<u64>) -> String {
    match oldest {
        Some(point) => format!("wait for point {point}"),
        None => "submit the earlier allocations first".into(),
    }
}

/// A region of bytes, handed out in wrapping order. Offsets are relative to its start, and aligned
/// relative to it.
#[derive(Debug)]
pub struct Bump {
    size: u64,
    /// Growing counts of bytes.
    head: u64,
    tail: u64,
    /// The offset of the head: its count modulo the size.
    offset: u64,
    /// Offsets of the last block.
    last: Range<u64>,
    /// The range that was in use before a restart, and the point that frees it.
    kept: Option<(Range<u64>, u64)>,
    /// Ends of the sealed runs, with the points that free them.
    sealed: VecDeque<(u64, u64)>,
}

/// Seals under way for which there is room from the start.
const SEALS: usize = 16;

impl Bump {
    /// A region of `size` bytes, in which a few seals take no memory of their own.
    pub fn new(size: u64) -> Bump {
        Bump {
            size,
            head: 0,
            tail: 0,
            offset: 0,
            last: 0..0,
            kept: None,
            sealed: VecDeque::with_capacity(SEALS),
        }
    }

    /// Bytes of the region.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Bytes not handed out.
    pub const fn free(&self) -> u64 {
        self.size - (self.head - self.tail)
    }

    /// Offset of a contiguous block of `asked` bytes at a multiple of `align` (power of two).
    ///
    /// # Errors
    /// [`BumpError::BadRequest`], [`BumpError::TooLarge`]; [`BumpError::Full`] with the point to
    /// wait for.
    pub fn alloc(&mut self, asked: u64, align: u64) -> Result<u64, BumpError> {
        let size = self.size;
        if asked == 0 || !align.is_power_of_two() {
            return Err(BumpError::BadRequest { asked, align, size });
        }
        if asked > size {
            return Err(BumpError::TooLarge { asked, size });
        }
        if self.head == self.tail {
            // Nothing is in use: begin at the start, where everything has its best place.
            (self.head, self.tail, self.offset) = (0, 0, 0);
        }
        // By bits: a division takes as long as all the rest.
        let up = |offset: u64| offset.checked_add(align - 1).map(|end| end & !(align - 1));
        let fits = |&start: &u64| start <= size - asked;
        let mut place = up(self.offset).filter(fits).unwrap_or(0);
        let mut wraps = place < self.offset;
        if let Some((kept, _)) = &self.kept
            && place < kept.end
            && kept.start < place + asked
        {
            // Behind it, or, where nothing fits there, at the start; which it may fill, too.
            let behind = up(kept.end).filter(fits);
            wraps |= behind.is_none();
            place = behind.unwrap_or(0);
            if behind.is_none() && kept.start < asked {
                return Err(self.full(asked));
            }
        }
        let skipped = match wraps {
            true => size - self.offset + place,
            false => place - self.offset,
        };
        if skipped + asked > self.free() {
            return Err(self.full(asked));
        }
        self.head += skipped + asked;
        self.offset = place + asked;
        self.last = place..self.offset;
        Ok(place)
    }

    #[cold]
    fn full(&self, asked: u64) -> BumpError {
        let kept = self.kept.as_ref().map(|&(_, point)| point);
        BumpError::Full {
            asked,
            free: self.free(),
            size: self.size,
            oldest: kept.or(self.sealed.front().map(|&(_, point)| point)),
        }
    }

    /// The offset behind the last block.
    #[inline]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Begins at the start again: all blocks are free, but for the last one where a point is given, which frees that.
    /// Nothing happens while a block is kept so.
    pub fn restart(&mut self, last: Option<u64>) {
        if self.kept.is_none() {
            self.kept = last.map(|point| (self.last.clone(), point));
            self.sealed.clear();
            (self.head, self.tail, self.offset) = (0, 0, 0);
        }
    }

    /// Ties everything allocated since the last seal to `point`, which is not before the last one.
    pub fn seal(&mut self, point: u64) {
        let done = self.sealed.back().map_or(self.tail, |&(end, _)| end);
        if self.head > done {
            self.sealed.push_back((self.head, point));
        }
    }

    /// Frees blocks tied to points up to `completed`.
    pub fn reclaim(&mut self, completed: u64) {
        self.kept.take_if(|(_, point)| *point <= completed);
        while let Some(&(end, point)) = self.sealed.front()
            && point <= completed
        {
            self.tail = end;
            self.sealed.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_come_back_by_point() {
        let mut bump = Bump::new(256);
        assert_eq!(bump.alloc(100, 16), Ok(0));
        bump.seal(1);
        assert_eq!(bump.alloc(100, 16), Ok(112));
        let full = BumpError::Full {
            asked: 64,
            free: 44,
            size: 256,
            oldest: Some(1),
        };
        assert_eq!(bump.alloc(64, 16), Err(full));
        assert_eq!(
            full.to_string(),
            "0x40 bytes do not fit, 0x2c of 0x100 free; wait for point 1"
        );
        bump.reclaim(1);
        assert_eq!(
            bump.alloc(64, 16),
            Ok(0),
            "wraps; the rest of the region is skipped"
        );
        bump.seal(2);
        bump.reclaim(2);
        assert_eq!(bump.free(), 256);
        assert_eq!(bump.alloc(256, 256), Ok(0));
        assert!(matches!(
            bump.alloc(1, 1),
            Err(BumpError::Full { oldest: None, .. })
        ));
    }

    #[test]
    fn it_begins_again_around_the_last_block() {
        let mut bump = Bump::new(256);
        assert_eq!(bump.alloc(64, 16), Ok(0));
        assert_eq!(bump.alloc(64, 16), Ok(64));
        bump.restart(Some(2));
        assert_eq!(bump.alloc(64, 16), Ok(0));
        assert_eq!(bump.alloc(64, 16), Ok(128), "the last block is still there");
        bump.seal(3);
        bump.reclaim(1);
        assert_eq!(bump.alloc(64, 16), Ok(192));
        let full = bump.alloc(64, 16);
        assert!(matches!(
            full,
            Err(BumpError::Full {
                oldest: Some(2),
                ..
            })
        ));
        bump.reclaim(3);
        assert_eq!(bump.alloc(128, 16), Ok(0));
        bump.restart(None);
        assert_eq!(bump.alloc(256, 16), Ok(0));
    }

    #[test]
    fn impossible_requests_are_named() {
        let mut bump = Bump::new(64);
        assert!(matches!(bump.alloc(65, 1), Err(BumpError::TooLarge { .. })));
        assert!(matches!(
            bump.alloc(0, 1),
            Err(BumpError::BadRequest { .. })
        ));
        assert!(matches!(
            bump.alloc(1, 0),
            Err(BumpError::BadRequest { .. })
        ));
        assert!(matches!(
            Bump::new(0).alloc(1, 1),
            Err(BumpError::TooLarge { .. })
        ));
    }

    proptest! {
        #[test]
        fn live_blocks_never_overlap(
            size in 1u64..512,
            steps in prop::collection::vec((0u8..5, 1u64..200, 0u32..8), 1..200),
        ) {
            let mut bump = Bump::new(size);
            let mut live: Vec<(u64, u64, u64)> = vec![];
            let (mut sealed, mut completed) = (0, 0);
            let (mut kept, mut asked_last) = (0, (0, 0));
            for (what, bytes, align) in steps {
                match what {
                    0 | 1 => match bump.alloc(bytes, 1 << align) {
                        Ok(start) => {
                            prop_assert!(start.is_multiple_of(1 << align) && start + bytes <= size);
                            for &(s, n, _) in &live {
                                prop_assert!(start + bytes <= s || s + n <= start);
                            }
                            live.push((start, bytes, sealed + 1));
                            asked_last = (start, bytes);
                        }
                        Err(BumpError::TooLarge { .. }) => prop_assert!(bytes > size),
                        Err(BumpError::Full { .. }) => prop_assert!(!live.is_empty()),
                        Err(other) => prop_assert!(false, "{}", other),
                    },
                    2 => {
                        sealed += 1;
                        bump.seal(sealed);
                    }
                    3 => {
                        // All but the last one is over; or it, too.
                        let lives = live.last().is_some_and(|&(s, n, _)| (s, n) == asked_last);
                        let last = (lives && bytes % 2 == 0).then_some(sealed + 1);
                        if kept <= completed {
                            sealed += 1;
                            completed = sealed - 1;
                            live.retain(|&(s, n, _)| last.is_some() && (s, n) == asked_last);
                            live.iter_mut().for_each(|block| block.2 = sealed);
                            kept = if last.is_some() { sealed } else { 0 };
                        }
                        bump.restart(last);
                    }
                    _ => {
                        completed = (completed + 1).min(sealed);
                        bump.reclaim(completed);
                        live.retain(|&(_, _, point)| point > completed);
                    }
                }
                let counted = live.iter().filter(|l| l.2 != kept);
                prop_assert!(bump.free() + counted.map(|l| l.1).sum::<u64>() <= size);
            }
            bump.seal(sealed + 1);
            bump.reclaim(sealed + 1);
            prop_assert_eq!(bump.free(), size);
        }
    }
}
