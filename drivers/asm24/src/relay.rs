//! [`Buffer`]: copies through the bridge's own memory, a hundred times faster than streams of dwords.
//!
//! To the function the buffer has two windows: one is filled by a bulk transfer while the function empties the other.
//! The data of a complete bulk transfer may not be visible to the function yet, and there is no notification: the last dword
//! of a window changes with each part, and the function waits for it. It is always the window's last dword, which never has
//! data that could be mistaken for it. A window is armed again once the function has signalled that it has emptied it.
//!
//! In the other direction the buffer is one window. The function starts on the host's signal, and its write to the page of
//! completions releases the bulk transfer.
//!
//! Source: tinygrad, runtime/ops_amd.py, `AMDAllocator._copyin` and `_copyout`; asm2464pd-firmware, request 0xF2.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use drivers_spec::asm24::{COMPLETIONS, Memory, PAGE, RELEASE, SRAM, open};
use hcq::addr::BusAddr;
use hcq::sync::lock;
use hcq::transport::relay::{Leg, Mark, Start};
use hcq::transport::{
    BusRange, Clock, Fault, Flight, MonotonicClock, Relay, Transfer, TransportError,
};
use hcq::wait::Deadline;

use crate::bridge::{Bridge, State};
use crate::request;

/// Bytes of a window, of which there are two.
const WINDOW: usize = SRAM.bytes as usize / 2;
/// Slots of a window.
const SLOTS: usize = WINDOW / open::SLOT;
/// Bytes of the dword that marks a window as full.
const TAG_BYTES: usize = 4;
/// The upper byte of that dword; the others count.
const TAG: u32 = 0x5100_0000;

/// In [`PAGE`]: the number of parts that the function has completed.
const COUNT: u64 = 0x800;
/// In [`PAGE`]: the host's signal that the buffer is free for the next part.
const TURN: u64 = 0x900;

/// Bytes of a packet: a bulk transfer to the host that is not the last of a copy ends between two.
const PACKET: usize = 1024;
/// How long the function may take for a part, which kernels that it was told earlier may precede.
const DRAIN: Duration = Duration::from_secs(6);
/// How long a bulk transfer of a part may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How often it is looked at least before a part is late: a host that is too busy to look often does not know.
const LOOKS: u32 = 1000;
/// How long it is waited between two looks.
const PAUSES: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(1));

/// The buffer of a bridge.
pub(crate) struct Buffer {
    bridge: Arc<Bridge>,
    turn: Mutex<Turn>,
}

/// A bulk transfer in flight, and its bytes.
type UnderWay<'a> = (Box<dyn Flight + 'a>, usize);

/// The progress of copies.
#[derive(Default)]
struct Turn {
    /// Whether marks of an earlier process are gone.
    is_clean: bool,
    /// Parts sent so far.
    sent: u32,
    /// The last received part, as signalled by the host.
    received: u8,
}

impl Buffer {
    /// That of a bridge.
    pub(crate) fn new(bridge: Arc<Bridge>) -> Buffer {
        Buffer {
            bridge,
            turn: Mutex::default(),
        }
    }

    /// The slot may have lost power: what the buffer holds is not known any more.
    pub(crate) fn forget(&self) {
        *self.turn() = Turn::default();
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        lock(&self.turn)
    }

    /// Clears marks of an earlier process, which could be mistaken for those of this one.
    fn clean(&self, turn: &mut Turn) -> Result<(), TransportError> {
        if turn.is_clean {
            return Ok(());
        }
        let zero = |at: u64| (0..4).map(move |i| byte(at + i, 0));
        let zeros = vec![0; open::SLOT];
        let mut state = self.bridge.lock();
        let mut marks: Vec<_> = zero(COUNT).chain(zero(TURN)).collect();
        self.bridge.control(&mut state, &mut marks)?;
        for window in 1..=2 {
            let arm = request::arm(false, (window * SLOTS - 1) as u8, open::SLOT);
            let mut transfers = [
                Transfer::ControlOut(arm, &[]),
                Transfer::BulkOut(open::OUT, &zeros),
            ];
            self.bridge.queue(&mut state, &mut transfers, TIMEOUT)?;
        }
        *turn = Turn {
            is_clean: true,
            ..Turn::default()
        };
        Ok(())
    }

    /// Waits until the function has completed that many parts, by the host's clock.
    fn passed(&self, state: &mut State, parts: u32) -> Result<(), TransportError> {
        let deadline = Deadline::on(&MonotonicClock, DRAIN);
        let (mut pause, mut looks) = (PAUSES.0, 0);
        loop {
            let mut seen = [0; 4];
            let look = request::read_xdata(PAGE.xdata + COUNT as u16);
            let mut look = [Transfer::ControlIn(look, &mut seen)];
            self.bridge.control(state, &mut look)?;
            let seen = u32::from_le_bytes(seen);
            // It goes on behind its end.
            if parts.wrapping_sub(seen) as i32 <= 0 {
                return Ok(());
            }
            looks += 1;
            if looks >= LOOKS && deadline.expired(&MonotonicClock) {
                let what = format!(
                    "wait for the GPU to drain a buffer window: part {seen} is done, expected {parts}"
                );
                return Err(self.bridge.error(what, Fault::TimedOut(DRAIN)));
            }
            MonotonicClock.sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    fn stream(&self, first: u32, legs: &[Leg], from: &[u8]) -> Result<(), TransportError> {
        let mut state = self.bridge.lock();
        self.bridge.send_all(&mut state)?;
        let mut under_way = VecDeque::new();
        let filled = self.fill(&mut state, &mut under_way, first, legs, from);
        // Also where the function is not done in time: whoever looks why asks through a bridge that is in order.
        while let Some(flight) = under_way.pop_front() {
            self.land(&mut state, flight)?;
        }
        filled?;
        self.passed(&mut state, first.wrapping_add(legs.len() as u32))
    }

    /// Fills one window after the other. At most two transfers are in flight.
    fn fill<'a>(
        &'a self,
        state: &mut State,
        under_way: &mut VecDeque<UnderWay<'a>>,
        first: u32,
        legs: &[Leg],
        from: &[u8],
    ) -> Result<(), TransportError> {
        let mut rest = from;
        for (leg, part) in legs.iter().zip(first..) {
            let (now, later) = rest.split_at(leg.bytes.min(rest.len()));
            rest = later;
            if under_way.len() == 2
                && let Some(flight) = under_way.pop_front()
            {
                self.land(state, flight)?;
            }
            // The last one that was in this window.
            if part >= 2 {
                self.passed(state, part - 1)?;
            }
            let wire = wire(now, leg.ready.value);
            let bytes = wire.len();
            let slot = (leg.at.0 - SRAM.bus) / open::SLOT as u64;
            let arm = request::arm(false, slot as u8, bytes);
            let mut arm = [Transfer::ControlOut(arm, &[])];
            self.bridge.control(state, &mut arm)?;
            let flight = self.bridge.submit(state, wire, TIMEOUT)?;
            under_way.push_back((flight, bytes));
        }
        Ok(())
    }

    fn land(&self, state: &mut State, (flight, bytes): UnderWay<'_>) -> Result<(), TransportError> {
        self.bridge.landed(state, flight.wait(), bytes)
    }

    fn take(&self, legs: &[Leg], to: &mut [u8]) -> Result<(), TransportError> {
        let mut state = self.bridge.lock();
        self.bridge.send_all(&mut state)?;
        let mut rest = to;
        for leg in legs {
            let (now, later) = rest.split_at_mut(leg.bytes.min(rest.len()));
            rest = later;
            let bytes = now.len();
            let (whole, end) = now.split_at_mut(bytes / PACKET * PACKET);
            let mut last = vec![0; request::sectors(end.len()) * open::SECTOR];
            let mut transfers = vec![
                Transfer::ControlOut(request::arm(true, 0, bytes), &[]),
                byte(TURN, leg.ready.value as u8),
            ];
            if !whole.is_empty() {
                transfers.push(Transfer::BulkIn(open::IN, whole));
            }
            if !last.is_empty() {
                transfers.push(Transfer::BulkIn(open::IN, &mut last));
            }
            self.bridge.queue(&mut state, &mut transfers, TIMEOUT)?;
            drop(transfers);
            end.copy_from_slice(&last[..end.len()]);
        }
        Ok(())
    }
}

impl Relay for Buffer {
    fn ranges(&self) -> Vec<BusRange> {
        /// The smallest page of a function.
        const LEAST: u64 = 4096;
        let range = |memory: Memory| BusRange {
            addr: BusAddr(memory.bus),
            bytes: memory.bytes.next_multiple_of(LEAST),
        };
        [SRAM, PAGE, COMPLETIONS].map(range).to_vec()
    }

    fn parts(&self) -> [usize; 2] {
        [WINDOW - TAG_BYTES, SRAM.bytes as usize]
    }

    fn send(&self, from: &[u8], start: &mut Start<'_>) -> Result<(), TransportError> {
        let mut turn = self.turn();
        self.clean(&mut turn)?;
        let first = turn.sent;
        let sizes = sizes(from.len(), WINDOW - TAG_BYTES);
        let legs: Vec<_> = sizes
            .zip(first..)
            .map(|(n, part)| outward(part, n))
            .collect();
        if start(&legs).is_break() {
            return Ok(());
        }
        turn.sent = first.wrapping_add(legs.len() as u32);
        self.stream(first, &legs, from)
    }

    fn receive(&self, to: &mut [u8], start: &mut Start<'_>) -> Result<(), TransportError> {
        let mut turn = self.turn();
        self.clean(&mut turn)?;
        let mut last = turn.received;
        let sizes = sizes(to.len(), SRAM.bytes as usize);
        let legs: Vec<_> = sizes
            .map(|bytes| {
                last = last.wrapping_add(1);
                inward(last, bytes)
            })
            .collect();
        if start(&legs).is_break() {
            return Ok(());
        }
        turn.received = last;
        self.take(&legs, to)
    }
}

/// The lengths of parts.
fn sizes(bytes: usize, most: usize) -> impl Iterator<Item = usize> {
    (0..bytes).step_by(most).map(move |at| most.min(bytes - at))
}

/// A part to the function, by its number: it ends where its window does.
fn outward(part: u32, bytes: usize) -> Leg {
    let window = SRAM.bus + u64::from(part % 2) * WINDOW as u64;
    let end = window + WINDOW as u64;
    Leg {
        ready: Mark {
            at: BusAddr(end - TAG_BYTES as u64),
            value: TAG | part.wrapping_add(1) & 0xff_ffff,
        },
        at: BusAddr(end - wire_bytes(bytes) as u64),
        bytes,
        done: Mark {
            at: BusAddr(PAGE.bus + COUNT),
            value: part.wrapping_add(1),
        },
    }
}

/// A part to the host, by what the host says when it is its turn.
fn inward(turn: u8, bytes: usize) -> Leg {
    Leg {
        ready: Mark {
            at: BusAddr(PAGE.bus + TURN),
            value: turn.into(),
        },
        at: BusAddr(SRAM.bus),
        bytes,
        done: Mark {
            at: BusAddr(COMPLETIONS.bus + RELEASE),
            value: 0,
        },
    }
}

/// Whole slots for a part and its tag.
fn wire_bytes(bytes: usize) -> usize {
    (bytes + TAG_BYTES).next_multiple_of(open::SLOT)
}

/// The bytes of a part on the wire.
fn wire(part: &[u8], tag: u32) -> Vec<u8> {
    let bytes = wire_bytes(part.len());
    let mut wire = Vec::with_capacity(bytes);
    wire.extend_from_slice(part);
    wire.resize(bytes - TAG_BYTES, 0);
    wire.extend(tag.to_le_bytes());
    wire
}

/// Writes a byte of [`PAGE`].
fn byte(at: u64, value: u8) -> Transfer<'static> {
    let setup = request::write_xdata(PAGE.xdata + at as u16, value);
    Transfer::ControlOut(setup, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_with_their_windows() {
        let (a, b) = (outward(4, 1000), outward(5, WINDOW - TAG_BYTES));
        assert_eq!((a.ready.at, a.at), (BusAddr(0x23_fffc), BusAddr(0x23_c000)));
        assert_eq!((b.ready.at, b.at), (BusAddr(0x27_fffc), BusAddr(0x24_0000)));
        assert_eq!((a.ready.value, a.done.value), (0x5100_0005, 5));
        let wire = wire(&[7; 1000], a.ready.value);
        assert_eq!(
            (wire.len(), &wire[996..1004]),
            (0x4000, &[7, 7, 7, 7, 0, 0, 0, 0][..])
        );
        assert_eq!(wire[0x3ffc..], [5, 0, 0, 0x51]);
        // A slot is too small for itself and the tag.
        assert_eq!(wire_bytes(open::SLOT), 2 * open::SLOT);
        let all: Vec<_> = sizes(2 * WINDOW, WINDOW - TAG_BYTES).collect();
        assert_eq!(all, [WINDOW - 4, WINDOW - 4, 8]);
    }
}
