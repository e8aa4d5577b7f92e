//! Copies between the host and memory it cannot access, through two staging pieces: the device copies one while the
//! host fills or empties the other.

use std::any::Any;
use std::ops::Range;
use std::time::Duration;

use crate::error::Error;
use crate::inflight::InFlight;
use crate::signal::Point;
use crate::wait::Deadline;

/// Two pieces of memory, used alternately. The caller defines the pieces and the copies: a driver uses its own memory
/// and queue, an engine buffers and streams. Dropping it keeps the rule of [`InFlight`].
#[derive(Debug)]
pub struct Staging<P: Any + Send> {
    /// Each with the copy that it is part of.
    pieces: Vec<(P, Option<Point>)>,
    /// Bytes of a piece.
    part: usize,
    /// How long a copy of one piece may take.
    timeout: Duration,
    next: usize,
}

impl<P: Any + Send> Staging<P> {
    /// Over two pieces of `part` bytes.
    pub fn new(pieces: [P; 2], part: usize, timeout: Duration) -> Staging<P> {
        Staging {
            pieces: pieces.into_iter().map(|piece| (piece, None)).collect(),
            part,
            timeout,
            next: 0,
        }
    }

    /// Bytes of a piece.
    pub fn part(&self) -> usize {
        self.part
    }

    /// From the host. `fill` writes a range of the bytes to the start of a piece, `copy` submits the copy from there.
    /// Returns the last copy without waiting for it; `None` for 0 bytes.
    ///
    /// # Errors
    /// Those of the two; [`Error::Timeout`]; the loss of the device.
    pub fn write<E: From<Error>>(
        &mut self,
        bytes: usize,
        mut fill: impl FnMut(&P, Range<usize>) -> Result<(), E>,
        mut copy: impl FnMut(&P, Range<usize>) -> Result<Point, E>,
    ) -> Result<Option<Point>, E> {
        let mut last = None;
        for at in (0..bytes).step_by(self.part) {
            let range = at..bytes.min(at + self.part);
            let (piece, busy) = self.free()?;
            fill(piece, range.clone())?;
            let point = copy(piece, range)?;
            *busy = Some(point.clone());
            last = Some(point);
        }
        Ok(last)
    }

    /// To the host. `copy` submits the copy of a range of the bytes to the start of a piece, `empty` reads them from
    /// there.
    ///
    /// # Errors
    /// Those of the two; [`Error::Timeout`]; the loss of the device.
    pub fn read<E: From<Error>>(
        &mut self,
        bytes: usize,
        mut copy: impl FnMut(&P, Range<usize>) -> Result<Point, E>,
        mut empty: impl FnMut(&P, Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let parts: Vec<Range<usize>> = (0..bytes)
            .step_by(self.part)
            .map(|at| at..bytes.min(at + self.part))
            .collect();
        // One copy ahead of the host.
        for n in 0..=parts.len() {
            if let Some(range) = parts.get(n) {
                let (piece, busy) = self.free()?;
                *busy = Some(copy(piece, range.clone())?);
            }
            if let Some(range) = n.checked_sub(1).map(|before| parts[before].clone()) {
                let piece = match n < parts.len() {
                    true => self.next,
                    false => 1 - self.next,
                };
                let (piece, _) = self.done(piece)?;
                empty(piece, range)?;
            }
        }
        Ok(())
    }

    /// The next piece, once it is free.
    fn free(&mut self) -> Result<(&P, &mut Option<Point>), Error> {
        let piece = self.next;
        self.next = 1 - piece;
        self.done(piece)
    }

    /// A piece, once its copy is over.
    fn done(&mut self, piece: usize) -> Result<(&P, &mut Option<Point>), Error> {
        let (piece, busy) = &mut self.pieces[piece];
        if let Some(point) = busy {
            point.wait(Deadline::after(self.timeout))?;
        }
        *busy = None;
        Ok((piece, busy))
    }
}

impl<P: Any + Send> Drop for Staging<P> {
    fn drop(&mut self) {
        let mut kept = InFlight::default();
        for (piece, busy) in self.pieces.drain(..) {
            if let Some(point) = busy {
                kept.keep(point, piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::signal::tests::counted;

    type Piece = Arc<Mutex<Vec<u8>>>;

    fn staging() -> (Staging<Piece>, [Piece; 2]) {
        let pieces = [(); 2].map(|()| Arc::new(Mutex::new(vec![0; 4])));
        let timeout = Duration::from_secs(1);
        (Staging::new(pieces.clone(), 4, timeout), pieces)
    }

    #[test]
    fn bytes_go_there_and_back_through_two_pieces() {
        let (mut staging, pieces) = staging();
        let (signal, count) = (counted(), Cell::new(0));
        let submit = || {
            count.set(count.get() + 1);
            signal.set(count.get()).unwrap();
            Point {
                signal: signal.clone(),
                value: count.get(),
            }
        };
        let memory = RefCell::new(vec![0u8; 11]);
        for round in 1..4u8 {
            let bytes: Vec<u8> = (0..11).map(|i| i * round).collect();
            let fill = |piece: &Piece, range: Range<usize>| {
                piece.lock().unwrap()[..range.len()].copy_from_slice(&bytes[range]);
                Ok::<_, Error>(())
            };
            let copy = |piece: &Piece, range: Range<usize>| {
                memory.borrow_mut()[range.clone()]
                    .copy_from_slice(&piece.lock().unwrap()[..range.len()]);
                Ok(submit())
            };
            let last = staging.write(11, fill, copy).unwrap().unwrap();
            assert_eq!(last.value, count.get());
            assert_eq!(*memory.borrow(), bytes);
            let mut back = vec![0; 11];
            let ahead = Cell::new(0);
            let copy = |piece: &Piece, range: Range<usize>| {
                ahead.set(ahead.get() + 1);
                piece.lock().unwrap()[..range.len()].copy_from_slice(&memory.borrow()[range]);
                Ok(submit())
            };
            let empty = |piece: &Piece, range: Range<usize>| {
                // The next copy is under way while this one is taken.
                assert_eq!(ahead.get(), (range.start / 4 + 2).min(3));
                back[range.clone()].copy_from_slice(&piece.lock().unwrap()[..range.len()]);
                Ok::<_, Error>(())
            };
            staging.read(11, copy, empty).unwrap();
            assert_eq!(back, bytes);
        }
        let never = |_: &Piece, _: Range<usize>| -> Result<(), Error> { panic!() };
        assert!(staging.write(0, never, |_, _| panic!()).unwrap().is_none());
        drop(staging);
        assert!(pieces.iter().all(|p| Arc::strong_count(p) == 1));
    }

    #[test]
    fn a_piece_under_way_outlives_the_staging() {
        let (mut staging, pieces) = staging();
        let signal = counted();
        let copy = |_: &Piece, range: Range<usize>| {
            Ok(Point {
                signal: signal.clone(),
                value: range.end as u64,
            })
        };
        let filled = |_: &Piece, _: Range<usize>| Ok::<_, Error>(());
        staging.write(6, filled, copy).unwrap();
        signal.set(4).unwrap();
        drop(staging);
        assert_eq!(pieces.map(|p| Arc::strong_count(&p)), [1, 2]);
    }
}
