//! The packets in flight of a queue: those after its last known completed point, read back from its ring or from
//! recent submissions. Used only on errors and long waits.

use std::time::Duration;

use hcq::progress::{Asked, raising};

use crate::submit::decode::{Doing, Packet, peek, peek_bytes};
use crate::submit::{Channel, Hardware, Stand};

/// A queue with progress within this time is not inspected.
const JUST_NOW: Duration = Duration::from_millis(1);

/// The operations of the packets in flight, in order: after the last reached signal of the queue's
/// timeline.
pub fn packets<H: Hardware>(channel: &Channel<H>) -> Vec<Packet> {
    let mut found = channel.packets(channel.in_flight());
    let timeline = channel.timeline().signal().va().0;
    let reached = peek(channel.core(), timeline).unwrap_or(0);
    let is_done = |packet: &Packet| matches!(packet.doing, Doing::Signal { at, value } if at == timeline && value <= reached);
    let done = found.iter().rposition(is_done).map_or(0, |at| at + 1);
    found.split_off(done)
}

/// The first unsatisfied wait; with it `true` if no packet before it may still run or be awaited, and
/// the wait is not for other XCCs of the queue, which may only be slow.
pub fn blocked<H: Hardware>(channel: &Channel<H>) -> Option<(Packet, bool)> {
    let timeline = channel.timeline().signal().va().0;
    let mut works = false;
    for packet in packets(channel) {
        match packet.doing {
            Doing::Wait { at, .. } if !holds(channel, &packet.doing) => {
                return Some((packet, !works && !channel.hardware().is_own(at)));
            }
            Doing::Launch { .. } | Doing::Copy { .. } | Doing::Fill { .. } => works = true,
            // Not reached yet, or it would not be in flight.
            Doing::Signal { at, .. } => works |= at == timeline,
            Doing::Unknown { .. } => works = true,
            Doing::Wait { .. } => {}
        }
    }
    None
}

/// Identifies the wait that blocks a queue, if no packet before it can end it.
pub fn held<H: Hardware>(channel: &Channel<H>) -> Option<u64> {
    match channel.hardware().stand() {
        Some(Stand::Held(number)) => Some(number),
        Some(Stand::Moves) => None,
        None => blocked(channel)
            .filter(|found| found.1)
            .map(|found| found.0.position),
    }
}

/// The time without progress of a queue and of the queues that it waits for: pointers, pending signals, the current
/// wait, and waves if the GPU shows them. Of a queue that never waits, its pointers alone: nothing is read back, and nothing
/// allocated.
pub fn silence<H: Hardware>(channel: &Channel<H>, asked: &mut Asked) -> Duration {
    if let Some(known) = channel.hardware().silence(asked) {
        return known;
    }
    let own = channel.unmoved();
    if own < JUST_NOW || channel.hardware().never_waits() {
        return own;
    }
    let (mut marks, waits) = match blocked(channel) {
        Some((packet, true)) => match packet.doing {
            Doing::Wait { at, value, .. } => (vec![packet.position, at, value], Some(at)),
            _ => (Vec::new(), None),
        },
        _ => {
            let places = channel.core().backend.places();
            (places.unwrap_or_default(), None)
        }
    };
    marks.push(reached(channel));
    let own = own.min(channel.stands(&marks));
    match waits {
        Some(at) => own.min(raising(at, asked).unwrap_or(Duration::MAX)),
        None => own,
    }
}

/// Whether the queue may be running a kernel: one precedes its wait, or packets that cannot be read back.
pub fn runs<H: Hardware>(channel: &Channel<H>) -> bool {
    let packets = packets(channel);
    let mut before = packets
        .iter()
        .take_while(|packet| holds(channel, &packet.doing));
    before.any(|packet| matches!(packet.doing, Doing::Launch { .. } | Doing::Unknown { .. }))
}

/// The number of pending signals that are reached, including those within a graph.
fn reached<H: Hardware>(channel: &Channel<H>) -> u64 {
    let is_reached = |packet: &Packet| match packet.doing {
        Doing::Signal { at, value } => peek(channel.core(), at).is_some_and(|now| now >= value),
        _ => false,
    };
    let packets = packets(channel);
    packets.iter().filter(|packet| is_reached(packet)).count() as u64
}

/// Whether something in flight raises the signal at an address, or may: what cannot be read back, such as a ring that was
/// overwritten up to the middle of a packet.
pub fn raises<H: Hardware>(channel: &Channel<H>, at: u64) -> bool {
    // A wait may be for a half of its value.
    let is_there = |to: u64| to & !7 == at & !7;
    let raises = |packet: &Packet| match packet.doing {
        Doing::Signal { at, .. } => is_there(at),
        Doing::Unknown { .. } => true,
        _ => false,
    };
    is_there(channel.timeline().signal().va().0) || packets(channel).iter().any(raises)
}

/// Whether a wait is satisfied, as far as the host can read the memory.
fn holds<H: Hardware>(channel: &Channel<H>, wait: &Doing) -> bool {
    let Doing::Wait {
        at,
        bytes,
        mask,
        value,
        test,
    } = *wait
    else {
        return true;
    };
    let Some(memory) = peek_bytes(channel.core(), at, bytes) else {
        return true;
    };
    test.holds(memory & mask, value)
}
