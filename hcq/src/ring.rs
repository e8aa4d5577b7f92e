//! Ring arithmetic and the publish/consume protocol. No hardware handle appears here.
//!
//! A pointer (`wptr`, `rptr`) is a 64-bit count of units that only grows; where it lies in the
//! ring is the count modulo the size. Full and empty are then different by themselves, and
//! `wptr - rptr` is what is in flight. Hardware that keeps narrower pointers, or pointers modulo
//! the size, or counts bytes, is translated at the edge by [`PointerFormat`].

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
    #[error("a ring of {units} units of {unit_bytes} bytes with {slack} kept free cannot be used")]
    BadLayout {
        /// Size in units.
        units: u64,
        /// Bytes of one unit.
        unit_bytes: u32,
        /// Units that always stay free.
        slack: u64,
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
        /// Units needed, padding included.
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
    /// A raw hardware pointer that no position of the ring gives.
    #[error("hardware pointer {raw:#x} is no position of the ring ({rule})")]
    BadRawPointer {
        /// Value as the hardware has it.
        raw: u64,
        /// The rule it breaks.
        rule: &'static str,
    },
}

/// Size and unit of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingLayout {
    units: u64,
    unit_bytes: u32,
    slack: u64,
}

/// How a block of units is laid into the ring when it does not fit before the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// It may continue at the start: the reader follows the wrap inside of a packet.
    Wrap,
    /// It must not: the rest of the ring is padded with no-ops and the block goes to the start.
    Contiguous,
}

/// Room for a block of units, not yet published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Reservation {
    /// Units of no-ops to write at [`Reservation::pad_start`], before the block.
    pub pad: u64,
    /// Pointer at which the block begins, after the padding.
    pub start: u64,
    /// Pointer past the block: the new wptr.
    pub end: u64,
}

impl Reservation {
    /// Pointer at which the padding begins: the old wptr.
    pub fn pad_start(&self) -> u64 {
        self.start - self.pad
    }
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
    /// A ring of `units` units of `unit_bytes` bytes; any size, a power of two or not.
    ///
    /// # Errors
    /// [`RingError::BadLayout`]: zero sizes, or a size in bytes beyond 63 bits.
    pub const fn new(units: u64, unit_bytes: u32) -> Result<RingLayout, RingError> {
        RingLayout::with_slack(units, unit_bytes, 0)
    }

    /// A ring of which `slack` units are never filled: at least 1 for hardware that compares
    /// pointers modulo the size, to which a full ring would look empty.
    ///
    /// # Errors
    /// [`RingError::BadLayout`].
    pub const fn with_slack(
        units: u64,
        unit_bytes: u32,
        slack: u64,
    ) -> Result<RingLayout, RingError> {
        let bytes = match units.checked_mul(unit_bytes as u64) {
            Some(bytes) => bytes,
            None => 0,
        };
        if bytes == 0 || bytes > i64::MAX as u64 || slack >= units {
            return Err(RingError::BadLayout {
                units,
                unit_bytes,
                slack,
            });
        }
        Ok(RingLayout {
            units,
            unit_bytes,
            slack,
        })
    }

    /// Size in units.
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// Bytes of one unit.
    pub const fn unit_bytes(&self) -> u32 {
        self.unit_bytes
    }

    /// Units that fit into the empty ring.
    pub const fn capacity(&self) -> u64 {
        self.units - self.slack
    }

    /// Index of a pointer, in units.
    pub const fn index(&self, ptr: u64) -> u64 {
        // A mask when the size is a power of two would save a division of a few nanoseconds on a
        // path that ends in an uncached store; not worth a second kind of ring.
        ptr % self.units
    }

    /// Byte offset of a pointer.
    pub const fn byte_offset(&self, ptr: u64) -> u64 {
        self.index(ptr) * self.unit_bytes as u64
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
            Ok(used) => Ok(self.capacity().saturating_sub(used)),
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
    pub fn place(
        &self,
        wptr: u64,
        rptr: u64,
        needed: u64,
        placement: Placement,
    ) -> Result<Reservation, RingError> {
        let capacity = self.capacity();
        if needed > capacity {
            return Err(RingError::TooLarge { needed, capacity });
        }
        let free = self.free(wptr, rptr)?;
        let to_end = self.units - self.index(wptr);
        let pad = match placement {
            Placement::Contiguous if needed > to_end => to_end,
            _ => 0,
        };
        // An empty ring may still have no room for padding and block together. That resolves
        // itself only if the padding goes first, alone: see `pad_to_end`.
        let total = pad + needed;
        if total > free {
            return Err(RingError::Full {
                needed: total,
                free,
                wptr,
                rptr,
            });
        }
        Ok(Reservation {
            pad,
            start: wptr + pad,
            end: wptr + total,
        })
    }

    /// Room for the padding to the end of the ring alone, when [`RingLayout::place`] finds a
    /// contiguous block and its padding together larger than the ring: publish this first, wait
    /// for the reader, and place the block at the start. `None` when the end is already reached
    /// or the padding does not fit yet.
    ///
    /// # Errors
    /// [`RingError::BadReadPointer`].
    pub fn pad_to_end(&self, wptr: u64, rptr: u64) -> Result<Option<Reservation>, RingError> {
        let index = self.index(wptr);
        let pad = self.units - index;
        if index == 0 || pad > self.free(wptr, rptr)? {
            return Ok(None);
        }
        Ok(Some(Reservation {
            pad,
            start: wptr + pad,
            end: wptr + pad,
        }))
    }
}

/// What a hardware pointer register or its copy in memory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointerFormat {
    /// How much of the count is kept.
    pub keeps: Keeps,
    /// Steps of the hardware's pointer per unit of the ring: 4 for byte pointers into a ring of
    /// dwords.
    pub steps_per_unit: u32,
}

/// How much of a growing count the hardware keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// All 64 bits.
    Full,
    /// The low 32 bits.
    Low32,
    /// The position modulo the size of the ring.
    Index,
}

impl PointerFormat {
    /// The value to give to the hardware for `ptr`.
    pub const fn encode(&self, layout: &RingLayout, ptr: u64) -> u64 {
        let step = self.steps_per_unit as u64;
        match self.keeps {
            Keeps::Full => ptr.wrapping_mul(step),
            Keeps::Low32 => ptr.wrapping_mul(step) & 0xffff_ffff,
            Keeps::Index => layout.index(ptr) * step,
        }
    }

    /// The 64-bit count for a raw read pointer, given the last one known and the current wptr.
    ///
    /// The reader can only have moved from `last` towards `wptr`, and both are less than a ring
    /// apart, so the narrow value has one meaning. With [`Keeps::Index`] and a ring without
    /// slack, "nothing read" and "all of a full ring read" look alike; it is taken as nothing.
    ///
    /// # Errors
    /// [`RingError::BadRawPointer`] when the value is no position at all,
    /// [`RingError::BadReadPointer`] when it is none between `last` and `wptr`: often the all-ones
    /// of a lost device.
    pub const fn decode(
        &self,
        layout: &RingLayout,
        raw: u64,
        last: u64,
        wptr: u64,
    ) -> Result<u64, RingError> {
        let step = self.steps_per_unit as u64;
        if step == 0 || !raw.is_multiple_of(step) {
            return Err(RingError::BadRawPointer {
                raw,
                rule: "not a multiple of its step",
            });
        }
        let rptr = match self.keeps {
            Keeps::Full => raw / step,
            Keeps::Low32 => {
                if raw > 0xffff_ffff {
                    return Err(RingError::BadRawPointer {
                        raw,
                        rule: "wider than 32 bits",
                    });
                }
                let moved = (raw as u32).wrapping_sub(last.wrapping_mul(step) as u32) as u64;
                if !moved.is_multiple_of(step) {
                    return Err(RingError::BadRawPointer {
                        raw,
                        rule: "not a multiple of its step",
                    });
                }
                last.wrapping_add(moved / step)
            }
            Keeps::Index => {
                let index = raw / step;
                if index >= layout.units {
                    return Err(RingError::BadRawPointer {
                        raw,
                        rule: "beyond the last index",
                    });
                }
                let moved = (index + layout.units - layout.index(last)) % layout.units;
                last.wrapping_add(moved)
            }
        };
        if rptr < last || rptr > wptr || wptr - rptr > layout.units {
            return Err(RingError::BadReadPointer {
                rptr,
                wptr,
                units: layout.units,
            });
        }
        Ok(rptr)
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
    pub fn reserve(&mut self, needed: u64, placement: Placement) -> Result<Reservation, RingError> {
        match self.layout.place(self.wptr, self.rptr, needed, placement) {
            Err(RingError::Full { .. }) => {}
            other => return other,
        }
        // Acquire, with the release in `Consumer::release`: the consumer's last reads of the
        // slots it gave back happen before we overwrite them.
        self.rptr = self.shared.rptr.load(Ordering::Acquire);
        self.layout.place(self.wptr, self.rptr, needed, placement)
    }

    /// Room for the padding alone; see [`RingLayout::pad_to_end`].
    ///
    /// # Errors
    /// [`RingError::BadReadPointer`].
    pub fn pad_to_end(&mut self) -> Result<Option<Reservation>, RingError> {
        // Acquire: as in `reserve`.
        self.rptr = self.shared.rptr.load(Ordering::Acquire);
        self.layout.pad_to_end(self.wptr, self.rptr)
    }

    /// Hands the reserved units, now filled, to the consumer. A reservation that is not the
    /// latest (its padding does not begin at wptr) is ignored and returns false.
    pub fn publish(&mut self, reservation: Reservation) -> bool {
        if reservation.pad_start() != self.wptr {
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
        RingLayout::new(units, 4).unwrap()
    }

    #[test]
    fn impossible_layouts_are_refused() {
        for (units, bytes, slack) in [(0, 4, 0), (4, 0, 0), (4, 4, 4), (u64::MAX, 4, 0)] {
            assert!(RingLayout::with_slack(units, bytes, slack).is_err());
        }
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
        assert_eq!(ring.byte_offset(23), 12);
    }

    #[test]
    fn contiguous_blocks_are_padded_to_the_start() {
        let ring = layout(10);
        let got = ring.place(17, 15, 4, Placement::Contiguous);
        assert_eq!(
            got,
            Ok(Reservation {
                pad: 3,
                start: 20,
                end: 24
            })
        );
        let got = ring.place(17, 15, 4, Placement::Wrap);
        assert_eq!(
            got,
            Ok(Reservation {
                pad: 0,
                start: 17,
                end: 21
            })
        );
        assert!(matches!(
            ring.place(17, 12, 4, Placement::Contiguous),
            Err(RingError::Full {
                needed: 7,
                free: 5,
                ..
            })
        ));
        assert!(matches!(
            ring.place(0, 0, 11, Placement::Wrap),
            Err(RingError::TooLarge {
                needed: 11,
                capacity: 10
            })
        ));
    }

    #[test]
    fn padding_can_go_first_when_both_never_fit() {
        let ring = layout(10);
        assert!(matches!(
            ring.place(4, 4, 8, Placement::Contiguous),
            Err(RingError::Full { .. })
        ));
        let pad = ring.pad_to_end(4, 4).unwrap().unwrap();
        assert_eq!((pad.pad, pad.pad_start(), pad.end), (6, 4, 10));
        assert!(ring.place(10, 10, 8, Placement::Contiguous).is_ok());
        assert_eq!(ring.pad_to_end(10, 10), Ok(None));
    }

    #[test]
    fn slack_keeps_a_full_ring_from_looking_empty() {
        let ring = RingLayout::with_slack(8, 16, 1).unwrap();
        assert!(ring.place(0, 0, 8, Placement::Wrap).is_err());
        assert_eq!(ring.free(7, 0), Ok(0));
    }

    #[test]
    fn corrupt_read_pointers_are_named() {
        let ring = layout(16);
        assert!(ring.free(10, 11).is_err());
        assert!(ring.free(100, 83).is_err());
        let format = PointerFormat {
            keeps: Keeps::Index,
            steps_per_unit: 4,
        };
        assert!(matches!(
            format.decode(&ring, 0xffff_ffff, 0, 3),
            Err(RingError::BadRawPointer { .. })
        ));
        assert!(matches!(
            format.decode(&ring, 64, 0, 3),
            Err(RingError::BadRawPointer {
                rule: "beyond the last index",
                ..
            })
        ));
        assert!(matches!(
            format.decode(&ring, 16, 0, 3),
            Err(RingError::BadReadPointer { .. })
        ));
        let low = PointerFormat {
            keeps: Keeps::Low32,
            steps_per_unit: 1,
        };
        assert!(matches!(
            low.decode(&ring, 0xffff_ffff, 5, 9),
            Err(RingError::BadReadPointer { .. })
        ));
    }

    #[test]
    fn low32_pointers_extend_over_their_wrap() {
        let ring = layout(1 << 16);
        let format = PointerFormat {
            keeps: Keeps::Low32,
            steps_per_unit: 4,
        };
        let last = (1u64 << 30) - 3;
        let wptr = last + 100;
        assert_eq!(format.encode(&ring, last + 5), 8);
        assert_eq!(format.decode(&ring, 8, last, wptr), Ok(last + 5));
    }

    proptest! {
        #[test]
        fn narrow_pointers_round_trip(
            units in 2u64..5000,
            last in 0u64..1 << 40,
            moved in 0u64..5000,
            left in 0u64..5000,
            steps in prop::sample::select(vec![1u32, 4, 8]),
            keeps in prop::sample::select(vec![Keeps::Full, Keeps::Low32, Keeps::Index]),
        ) {
            let ring = RingLayout::with_slack(units, 4, 1).unwrap();
            let moved = moved % units;
            let wptr = last + moved + left % (units - moved);
            let format = PointerFormat { keeps, steps_per_unit: steps };
            let raw = format.encode(&ring, last + moved);
            prop_assert_eq!(format.decode(&ring, raw, last, wptr), Ok(last + moved));
        }

        /// Values come out as they went in, in order, and the space accounting is the queue's.
        #[test]
        fn behaves_like_a_queue(
            units in 1u64..20,
            contiguous in any::<bool>(),
            steps in prop::collection::vec((any::<bool>(), 0u64..12), 1..200),
        ) {
            let placement = if contiguous { Placement::Contiguous } else { Placement::Wrap };
            let (mut producer, mut consumer) = ring(layout(units));
            let mut slots = vec![0u64; units as usize];
            let mut model = VecDeque::new();
            let mut value = 1u64;
            for (write, count) in steps {
                if write {
                    let before = producer.wptr();
                    match producer.reserve(count, placement) {
                        Ok(room) => {
                            for p in room.pad_start()..room.start {
                                slots[producer.layout().index(p) as usize] = 0;
                                model.push_back(0);
                            }
                            if contiguous {
                                prop_assert!(producer.layout().spans(room.start, count).wrapped.is_empty());
                            }
                            for p in room.start..room.end {
                                slots[producer.layout().index(p) as usize] = value;
                                model.push_back(value);
                                value += 1;
                            }
                            prop_assert!(producer.publish(room));
                            prop_assert!(count == 0 && room.pad == 0 || !producer.publish(room), "stale");
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
            let (mut producer, mut consumer) = ring(RingLayout::new(1, 8).unwrap());
            let slot = Arc::new(AtomicU64::new(0));
            let theirs = Arc::clone(&slot);
            let writer = loom::thread::spawn(move || {
                for value in 1..=2 {
                    if let Ok(room) = producer.reserve(1, Placement::Wrap) {
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
