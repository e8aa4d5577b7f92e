//! The packets in flight of a queue: those after its last known completed point, read back from its ring or from
//! recent submissions. Used only on errors and long waits.

use std::time::Duration;

use hcq::progress::{Asked, raising};

use crate::submit::decode::{Doing, Packet, peek, peek_bytes};
use crate::submit::{Channel, Hardware, Stand};

/// A queue with progress within this time is not inspected.
const JUST_NOW: Duration = Duration::from_millis(1);

/// Shows the operations of the packets in flight, in order: those after the last reached signal of the queue's timeline.
/// `None`: what was shown so far is done.
fn each<H: Hardware>(channel: &Channel<H>, mut see: impl FnMut(Option<Packet>)) {
    let timeline = channel.timeline().signal().va().0;
    let reached = peek(channel.core(), timeline).unwrap_or(0);
    let is_done = |packet: &Packet| matches!(packet.doing, Doing::Signal { at, value } if at == timeline && value <= reached);
    channel.visit(channel.in_flight(), &mut |packet| {
        see((!is_done(&packet)).then_some(packet));
    });
}

/// All of them.
pub fn packets<H: Hardware>(channel: &Channel<H>) -> Vec<Packet> {
    let mut found = Vec::new();
    each(channel, |packet| match packet {
        Some(packet) => found.push(packet),
        None => found.clear(),
    });
    found
}

/// The first unsatisfied wait; with it `true` if no packet before it may still run or be awaited, and
/// the wait is not for other XCCs of the queue, which may only be slow.
pub fn blocked<H: Hardware>(channel: &Channel<H>) -> Option<(Packet, bool)> {
    let timeline = channel.timeline().signal().va().0;
    let (mut works, mut found) = (false, None);
    each(channel, |packet| {
        let Some(packet) = packet else {
            (works, found) = (false, None);
            return;
        };
        match packet.doing {
            _ if found.is_some() => {}
            Doing::Wait { at, .. } if !holds(channel, &packet.doing) => {
                let alone = !works && !channel.hardware().is_own(at);
                found = Some((packet, alone));
            }
            Doing::Launch { .. } | Doing::Copy { .. } | Doing::Fill { .. } => works = true,
            // Not reached yet, or it would not be in flight.
            Doing::Signal { at, .. } => works |= at == timeline,
            Doing::Unknown { .. } => works = true,
            Doing::Wait { .. } => {}
        }
    });
    found
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
/// wait, and waves if the GPU shows them. Of a queue that never waits, its pointers alone: nothing is read back.
pub fn silence<H: Hardware>(channel: &Channel<H>, asked: &mut Asked) -> Duration {
    if let Some(known) = channel.hardware().silence(asked) {
        return known;
    }
    let own = channel.unmoved();
    if own < JUST_NOW || channel.hardware().never_waits() {
        return own;
    }
    let wait = match blocked(channel) {
        Some((packet, true)) => match packet.doing {
            Doing::Wait { at, value, .. } => Some([packet.position, at, value]),
            _ => None,
        },
        _ => None,
    };
    let places = match wait {
        Some(_) => None,
        None => channel.core().backend.places(),
    };
    let marks = wait.into_iter().flatten();
    let marks = marks.chain(places.into_iter().flatten());
    let own = own.min(channel.stands(marks.chain([reached(channel)])));
    match wait {
        Some([_, at, _]) => own.min(raising(at, asked).unwrap_or(Duration::MAX)),
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
    let mut count = 0;
    each(channel, |packet| match packet {
        Some(packet) => count += u64::from(is_reached(&packet)),
        None => count = 0,
    });
    count
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
    if is_there(channel.timeline().signal().va().0) {
        return true;
    }
    let mut found = false;
    each(channel, |packet| {
        found = packet.is_some_and(|packet| found || raises(&packet));
    });
    found
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
