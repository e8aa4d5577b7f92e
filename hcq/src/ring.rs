//! Ring arithmetic and the publish/consume protocol. No hardware handle appears here.
//!
//! A pointer (`wptr`, `rptr`) is a 64-bit count of units that only grows; where it lies in the
//! ring is the count modulo the size. Full and empty are then different by themselves, and
//! `wptr - rptr` is what is in flight.

use std::ops::Range;

use thiserror::Error;

use crate::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Why a ring operation was refused. Pointers are counts of units since the ring was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RingError {
    /// The ring has a size that cannot work.
    #[error("a ring of {units} units cannot be used")]
    BadLayout {
        /// Size in units.
        units: u64,
    },
    /// More than the ring can ever hold.
    #[error("{needed} units do not fit into a ring of {capacity}; split the submission")]
    TooLarge {
        /// Units asked for.
        needed: u64,
        /// Units that fit into the empty ring.
        capacity: u64,
    },
    /// Not enough room until the reader moves on.
    #[error(
        "ring full: {needed} units needed, {free} free (wptr {wptr:#x}, rptr {rptr:#x}); wait for \
         the reader"
    )]
    Full {
        /// Units needed.
        needed: u64,
        /// Units free.
        free: u64,
        /// Write pointer.
        wptr: u64,
        /// Read pointer.
        rptr: u64,
    },
    /// A read pointer that is ahead of the write pointer or too far behind it.
    #[error(
        "read pointer {rptr:#x} is not within a ring of {units} units behind write pointer \
         {wptr:#x}: lost device or overwritten pointer"
    )]
    BadReadPointer {
        /// Read pointer as seen.
        rptr: u64,
        /// Write pointer.
        wptr: u64,
        /// Size of the ring in units.
        units: u64,
    },
}

/// Size of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingLayout {
    units: u64,
}

/// Room for a block of units, not yet published. It may continue at the start of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Reservation {
    /// Pointer at which the block begins.
    pub start: u64,
    /// Pointer past the block: the new wptr.
    pub end: u64,
}

/// Up to two index ranges (in units) that make up a run of the ring, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spans {
    /// From the start of the run to its end or the end of the ring.
    pub first: Range<u64>,
    /// What continues at index 0; empty when the run does not wrap.
    pub wrapped: Range<u64>,
}

impl RingLayout {
    /// A ring of `units` units; any size, a power of two or not.
    ///
    /// # Errors
    /// [`RingError::BadLayout`]: none, or more than 63 bits.
    pub const fn new(units: u64) -> Result<RingLayout, RingError> {
        if units == 0 || units > i64::MAX as u64 {
            return Err(RingError::BadLayout { units });
        }
        Ok(RingLayout { units })
    }

    /// Size in units, all of which may be filled.
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// Index of a pointer, in units.
    pub const fn index(&self, ptr: u64) -> u64 {
        // A mask when the size is a power of two would save a division of a few nanoseconds on a
        // path that ends in an uncached store; not worth a second kind of ring.
        ptr % self.units
    }

    /// Units in flight.
    ///
    /// # Errors
    /// [`RingError::BadReadPointer`].
    pub const fn used(&self, wptr: u64, rptr: u64) -> Result<u64, RingError> {
        match wptr.checked_sub(rptr) {
            Some(used) if used <= self.units => Ok(used),
            _ => Err(RingError::BadReadPointer {
                rptr,
                wptr,
                units: self.units,
            }),
        }
    }

    /// Units that may be written now.
    ///
    /// # Errors
    /// [`RingError::BadReadPointer`].
    pub const fn free(&self, wptr: u64, rptr: u64) -> Result<u64, RingError> {
        match self.used(wptr, rptr) {
            Ok(used) => Ok(self.units - used),
            Err(error) => Err(error),
        }
    }

    /// The index ranges of `count` units from `ptr` on. `count` is at most the size of the ring;
    /// more is cut to it.
    pub fn spans(&self, ptr: u64, count: u64) -> Spans {
        let start = self.index(ptr);
        let count = count.min(self.units);
        let first = count.min(self.units - start);
        Spans {
            first: start..start + first,
            wrapped: 0..count - first,
        }
    }

    /// Finds room for a block of `needed` units.
    ///
    /// # Errors
    /// [`RingError::TooLarge`] if it can never fit, [`RingError::Full`] if it does not fit now,
    /// [`RingError::BadReadPointer`].
    pub const fn place(&self, wptr: u64, rptr: u64, needed: u64) -> Result<Reservation, RingError> {
        let capacity = self.units;
        if needed > capacity {
            return Err(RingError::TooLarge { needed, capacity });
        }
        match self.free(wptr, rptr) {
            Ok(free) if needed > free => Err(RingError::Full {
                needed,
                free,
                wptr,
                rptr,
            }),
            Ok(_) => Ok(Reservation {
                start: wptr,
                end: wptr + needed,
            }),
            Err(error) => Err(error),
        }
    }
}

/// The two pointers that producer and consumer share.
#[derive(Debug)]
struct Shared {
    wptr: AtomicU64,
    rptr: AtomicU64,
}

/// The writing end of a ring between two threads. The slots themselves lie elsewhere (a
/// [`View`](crate::mem::view::View)); this decides who may touch which.
#[derive(Debug)]
pub struct Producer {
    layout: RingLayout,
    shared: Arc<Shared>,
    wptr: u64,
    /// The last rptr seen; refreshed only when the ring seems full.
    rptr: u64,
}

/// The reading end of a ring between two threads.
#[derive(Debug)]
pub struct Consumer {
    layout: RingLayout,
    shared: Arc<Shared>,
    rptr: u64,
}

/// The two ends of a new, empty ring.
pub fn ring(layout: RingLayout) -> (Producer, Consumer) {
    let shared = Arc::new(Shared {
        wptr: AtomicU64::new(0),
        rptr: AtomicU64::new(0),
    });
    let producer = Producer {
        layout,
        shared: Arc::clone(&shared),
        wptr: 0,
        rptr: 0,
    };
    (
        producer,
        Consumer {
            layout,
            shared,
            rptr: 0,
        },
    )
}

impl Producer {
    /// Layout of the ring.
    pub fn layout(&self) -> &RingLayout {
        &self.layout
    }

    /// Pointer up to which everything is published.
    pub fn wptr(&self) -> u64 {
        self.wptr
    }

    /// Room for `needed` units, for this thread alone to fill. Reserving again without
    /// publishing gives the same room.
    ///
    /// # Errors
    /// [`RingError::TooLarge`]; [`RingError::Full`]: publish what there is, or wait.
    pub fn reserve(&mut self, needed: u64) -> Result<Reservation, RingError> {
        match self.layout.place(self.wptr, self.rptr, needed) {
            Err(RingError::Full { .. }) => {}
            other => return other,
        }
        // Acquire, with the release in `Consumer::release`: the consumer's last reads of the
        // slots it gave back happen before we overwrite them.
        self.rptr = self.shared.rptr.load(Ordering::Acquire);
        self.layout.place(self.wptr, self.rptr, needed)
    }

    /// Hands the reserved units, now filled, to the consumer. A reservation that is not the
    /// latest (it does not begin at wptr) is ignored and returns false.
    pub fn publish(&mut self, reservation: Reservation) -> bool {
        if reservation.start != self.wptr {
            return false;
        }
        self.wptr = reservation.end;
        // Release, with the acquire in `Consumer::readable`: whoever sees this wptr sees the slots.
        self.shared.wptr.store(self.wptr, Ordering::Release);
        true
    }
}

impl Consumer {
    /// Layout of the ring.
    pub fn layout(&self) -> &RingLayout {
        &self.layout
    }

    /// The pointers of all units that are published and not yet released, oldest first.
    pub fn readable(&self) -> Range<u64> {
        // Acquire, with the release in `Producer::publish`.
        self.rptr..self.shared.wptr.load(Ordering::Acquire)
    }

    /// Gives the units before pointer `until` back to the producer. Returns false, and does
    /// nothing, if `until` is not within what is readable.
    pub fn release(&mut self, until: u64) -> bool {
        let readable = self.readable();
        if until < readable.start || until > readable.end {
            return false;
        }
        self.rptr = until;
        // Release, with the acquire in `Producer::reserve`: our reads are done before it reuses.
        self.shared.rptr.store(until, Ordering::Release);
        true
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn layout(units: u64) -> RingLayout {
        RingLayout::new(units).unwrap()
    }

    #[test]
    fn impossible_layouts_are_refused() {
        assert!(RingLayout::new(0).is_err() && RingLayout::new(u64::MAX).is_err());
    }

    #[test]
    fn spans_wrap_once() {
        let ring = layout(10);
        assert_eq!(
            ring.spans(7, 3),
            Spans {
                first: 7..10,
                wrapped: 0..0
            }
        );
        assert_eq!(
            ring.spans(17, 5),
            Spans {
                first: 7..10,
                wrapped: 0..2
            }
        );
        assert_eq!(
            ring.spans(0, 10),
            Spans {
                first: 0..10,
                wrapped: 0..0
            }
        );
        assert_eq!(ring.index(23), 3);
    }

    #[test]
    fn blocks_that_do_not_fit_say_for_how_long() {
        let ring = layout(10);
        let room = Reservation { start: 17, end: 21 };
        assert_eq!(ring.place(17, 15, 4), Ok(room));
        assert!(matches!(
            ring.place(17, 12, 6),
            Err(RingError::Full {
                needed: 6,
                free: 5,
                ..
            })
        ));
        assert!(matches!(
            ring.place(0, 0, 11),
            Err(RingError::TooLarge {
                needed: 11,
                capacity: 10
            })
        ));
    }

    #[test]
    fn corrupt_read_pointers_are_named() {
        let ring = layout(16);
        assert!(ring.free(10, 11).is_err());
        assert!(ring.free(100, 83).is_err());
    }

    proptest! {
        /// Values come out as they went in, in order, and the space accounting is the queue's.
        #[test]
        fn behaves_like_a_queue(
            units in 1u64..20,
            steps in prop::collection::vec((any::<bool>(), 0u64..12), 1..200),
        ) {
            let (mut producer, mut consumer) = ring(layout(units));
            let mut slots = vec![0u64; units as usize];
            let mut model = VecDeque::new();
            let mut value = 1u64;
            for (write, count) in steps {
                if write {
                    let before = producer.wptr();
                    match producer.reserve(count) {
                        Ok(room) => {
                            for p in room.start..room.end {
                                slots[producer.layout().index(p) as usize] = value;
                                model.push_back(value);
                                value += 1;
                            }
                            prop_assert!(producer.publish(room));
                            prop_assert!(count == 0 || !producer.publish(room), "stale");
                        }
                        Err(RingError::TooLarge { .. }) => prop_assert!(count > units),
                        Err(RingError::Full { needed, .. }) => {
                            prop_assert!(model.len() as u64 + needed > units);
                            prop_assert_eq!(producer.wptr(), before);
                        }
                        Err(other) => prop_assert!(false, "{}", other),
                    }
                } else {
                    let readable = consumer.readable();
                    prop_assert_eq!(readable.end - readable.start, model.len() as u64);
                    let until = (readable.start + count).min(readable.end);
                    for p in readable.start..until {
                        let slot = slots[consumer.layout().index(p) as usize];
                        prop_assert_eq!(Some(slot), model.pop_front());
                    }
                    prop_assert!(consumer.release(until));
                    prop_assert!(!consumer.release(readable.end + 1));
                }
                prop_assert!(model.len() as u64 <= units);
            }
        }
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use super::*;

    /// The slot is written and read with relaxed accesses only, so what the consumer sees is
    /// proven by the pointers' orderings; two blocks through one slot force its reuse. Neither
    /// side retries (loom explores every interleaving of that), so it may also see nothing.
    #[test]
    fn loom_published_slots_are_seen_and_not_reused_early() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring(RingLayout::new(1).unwrap());
            let slot = Arc::new(AtomicU64::new(0));
            let theirs = Arc::clone(&slot);
            let writer = loom::thread::spawn(move || {
                for value in 1..=2 {
                    if let Ok(room) = producer.reserve(1) {
                        theirs.store(value, Ordering::Relaxed);
                        assert!(producer.publish(room));
                    }
                }
            });
            for _ in 0..2 {
                let readable = consumer.readable();
                for p in readable.clone() {
                    assert_eq!(slot.load(Ordering::Relaxed), p + 1);
                }
                assert!(consumer.release(readable.end));
            }
            writer.join().unwrap();
        });
    }
}
