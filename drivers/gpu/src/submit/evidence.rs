//! A queue in a bundle: its state, the packets in flight, the last submissions. Not on the submission path; does not
//! wait for the queue's lock.

use std::ops::Range;

use drivers_bundle::Hex;
use drivers_bundle::schema::{Altered, Does, Packet, Queue, Submission, Timeline};

use super::channel::Channel;
use super::decode::{self, Doing, peek, peek_bytes, sentence};
use super::hardware::{Hardware, Readable, Submit};
use super::recent;
use crate::core::Core;

/// Maximum number of reported packets in flight.
const PACKETS: usize = 512;

/// Maximum number of reported packets of a submission.
const TOLD: usize = 32;

/// What a queue does and did last.
pub fn queue<H: Hardware>(channel: &Channel<H>) -> Queue {
    let (core, hardware, way) = (channel.core(), channel.hardware(), channel.way());
    let (wptr, rptr) = way.pointers();
    let ring = way.ring();
    let range = channel.in_flight();
    let timeline = channel.timeline().signal();
    let mut packets = decoded(channel, range.clone());
    packets.truncate(PACKETS);
    let mut told = Queue {
        name: channel.unit(),
        ring: ring.map_or(0, |_| way.size()),
        wptr: Hex(wptr),
        rptr: Hex(rptr),
        written: range.end,
        done: range.start,
        taken: ring.and_then(|ring| ring.fetched()),
        timeline: Timeline {
            at: Hex(timeline.va().0),
            made: channel.timeline().last().value,
            seen: peek(core, timeline.va().0),
        },
        in_flight: packets,
        ..Queue::default()
    };
    // The owner of the lock is waiting for room: the submission belongs to it.
    channel.with_recent(|recent, fences| {
        told.fences = fences;
        for (number, one) in recent.all() {
            told.timeline.made = told.timeline.made.max(one.signal_value);
            told.doorbell = Hex(one.doorbell.into());
            let place = channel.place_of(one);
            // Nothing else was written there.
            let whole = ring
                .filter(|ring| ring.is_straight(&place) && place.start + way.size() >= range.end);
            if told.altered.is_none() {
                told.altered = whole.and_then(|ring| altered(ring, one, &place));
            }
            // What names words in memory may name other words by now.
            let is_there = !hardware.names_words() || place.end > range.start;
            let mut does = match (is_there, whole) {
                (false, _) => Vec::new(),
                (true, Some(ring)) => {
                    hardware.decode(core, &ring.words(place.clone()), place.start)
                }
                (true, None) => hardware.decode(core, one.words(), place.start),
            };
            does.truncate(TOLD);
            told.recent.push(Submission {
                number,
                signal_value: one.signal_value,
                place: [place.start, place.end],
                doorbell: Hex(one.doorbell.into()),
                words: one.words().iter().map(|&word| Hex(word.into())).collect(),
                does: does
                    .iter()
                    .map(|packet| sentence(core, &packet.doing))
                    .collect(),
            });
        }
    });
    told
}

/// The first word of a submission that a ring does not hold any more, though nothing else was written there.
fn altered(ring: &dyn Readable, one: &recent::Submission, place: &Range<u64>) -> Option<Altered> {
    let there = ring.words(place.start..place.start + one.words().len() as u64);
    let mut pairs = (place.start..).zip(one.words().iter().zip(&there));
    let (at, (submitted, found)) = pairs.find(|(at, (a, b))| a != b && ring.is_left(*at))?;
    Some(Altered {
        at,
        submitted: Hex((*submitted).into()),
        found: Hex((*found).into()),
    })
}

/// Packets after the last reached signal of the queue's timeline.
fn decoded<H: Hardware>(channel: &Channel<H>, range: Range<u64>) -> Vec<Packet> {
    let (core, hardware) = (channel.core(), channel.hardware());
    let mut found = Vec::new();
    channel.visit(range, &mut |packet| found.push(packet));
    let timeline = channel.timeline().signal().va().0;
    let reached = peek(core, timeline).unwrap_or(0);
    let is_done = |packet: &decode::Packet| matches!(packet.doing, Doing::Signal { at, value } if at == timeline && value <= reached);
    let done = found.iter().rposition(is_done).map_or(0, |at| at + 1);
    let packet = |packet: decode::Packet| Packet {
        position: packet.position,
        text: sentence(core, &packet.doing),
        does: does(core, hardware, &packet.doing),
    };
    found.split_off(done).into_iter().map(packet).collect()
}

fn does<H: Hardware>(core: &Core, hardware: &H, doing: &Doing) -> Does {
    match *doing {
        Doing::Wait {
            at,
            bytes,
            mask,
            value,
            test,
        } => {
            let now = peek_bytes(core, at, bytes).map(|now| now & mask);
            Does::Wait {
                at: Hex(at),
                value: Hex(value),
                test: test.sign().into(),
                now: now.map(Hex),
                over: now.is_none_or(|now| test.holds(now, value)),
                own: hardware.is_own(at),
                owner: core.ranges().whose(at),
            }
        }
        Doing::Launch { code, .. } => Does::Launch {
            code: Hex(code),
            kernel: core
                .kernels
                .at(code)
                .map(|(kernel, _)| kernel.name.to_string()),
        },
        Doing::Copy { dst, src, bytes } => Does::Copy {
            dst: Hex(dst),
            src: Hex(src),
            bytes: Hex(bytes),
        },
        Doing::Fill { at, value, bytes } => Does::Fill {
            at: Hex(at),
            value: Hex(value.into()),
            bytes: Hex(bytes),
        },
        Doing::Signal { at, value } => Does::Signal {
            at: Hex(at),
            value: Hex(value),
        },
        Doing::Unknown { word } => Does::Unknown {
            word: Hex(word.into()),
        },
    }
}
