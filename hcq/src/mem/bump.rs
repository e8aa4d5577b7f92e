//! A wrapping bump allocator: short-lived blocks that go away in the order they came.
//!
//! Kernel arguments and patch blocks live until their submission is done. Blocks are bumped out
//! of a ring; [`Bump::seal`] ties all that were allocated since the last seal to the submission's
//! point; [`Bump::reclaim`] takes them back once the point is completed.

use std::collections::VecDeque;

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
    #[error("{asked:#x} bytes never fit into a region of {size:#x}; make it larger")]
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
        None => "submit what was allocated first".into(),
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
        let aligned = self
            .offset
            .checked_add(align - 1)
            .map(|end| end & !(align - 1));
        let (start, skipped) = match aligned {
            Some(start) if start <= size - asked => (start, start - self.offset),
            _ => (0, size - self.offset),
        };
        if skipped + asked > self.free() {
            let oldest = self.sealed.front().map(|&(_, point)| point);
            return Err(BumpError::Full {
                asked,
                free: self.free(),
                size,
                oldest,
            });
        }
        self.head += skipped + asked;
        self.offset = start + asked;
        Ok(start)
    }

    /// Ties everything allocated since the last seal to `point`, which is not before the last one.
    pub fn seal(&mut self, point: u64) {
        let done = self.sealed.back().map_or(self.tail, |&(end, _)| end);
        if self.head > done {
            self.sealed.push_back((self.head, point));
        }
    }

    /// Takes back what is tied to points up to `completed`.
    pub fn reclaim(&mut self, completed: u64) {
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
            steps in prop::collection::vec((0u8..4, 1u64..200, 0u32..8), 1..200),
        ) {
            let mut bump = Bump::new(size);
            let mut live: Vec<(u64, u64, u64)> = vec![];
            let (mut sealed, mut completed) = (0, 0);
            for (what, bytes, align) in steps {
                match what {
                    0 | 1 => match bump.alloc(bytes, 1 << align) {
                        Ok(start) => {
                            prop_assert!(start.is_multiple_of(1 << align) && start + bytes <= size);
                            for &(s, n, _) in &live {
                                prop_assert!(start + bytes <= s || s + n <= start);
                            }
                            live.push((start, bytes, sealed + 1));
                        }
                        Err(BumpError::TooLarge { .. }) => prop_assert!(bytes > size),
                        Err(BumpError::Full { .. }) => prop_assert!(!live.is_empty()),
                        Err(other) => prop_assert!(false, "{}", other),
                    },
                    2 => {
                        sealed += 1;
                        bump.seal(sealed);
                    }
                    _ => {
                        completed = (completed + 1).min(sealed);
                        bump.reclaim(completed);
                        live.retain(|&(_, _, point)| point > completed);
                    }
                }
                prop_assert!(bump.free() + live.iter().map(|l| l.1).sum::<u64>() <= size);
            }
            bump.seal(sealed + 1);
            bump.reclaim(sealed + 1);
            prop_assert_eq!(bump.free(), size);
        }
    }
}
