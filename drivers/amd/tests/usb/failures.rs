//! A transfer that goes wrong, at any moment from the first request to the end of the work: an error in words, and the next
//! process opens the card all the same, and breaks no rule.

use std::sync::Arc;

use conformance::part::Part;
use drivers_amd::Options;
use hcq::transport::Machine;
use hcq::{Command, Device, Error, MemoryKind, QueueKind, Result, Stream};
use twin::usb::{Trouble, What};
use twin_amd::usb::UsbMachine;

use super::stand::{self, at, memory, soon};
use super::{broken, firmware, open, rest};

/// One in so many moments is tried.
const STEP: usize = 997;

/// Small rings, and limits that a slow machine keeps.
fn patient() -> Options {
    Options {
        compute_ring: 16 << 10,
        copy_ring: 8 << 10,
        kernargs: 64 << 10,
        firmware: vec![firmware()],
        ..Options::default()
    }
}

/// Opens a card, and has it copy what the host has written.
fn work(machine: &Arc<dyn Machine>) -> Result<bool> {
    let device = open(machine, &patient())?;
    let (a, b) = (
        memory(&*device, MemoryKind::Device, 4096)?,
        memory(&*device, MemoryKind::Host, 4096)?,
    );
    let content: Vec<u8> = (0..4096).map(|i| (i >> 3) as u8).collect();
    a.write(0, &content)?;
    let stream = Stream::new(device.queue(QueueKind::Copy, 0)?);
    let copy = Command::Copy {
        dst: at(&b),
        src: at(&a),
        bytes: 4096,
    };
    stream.submit(&[], &[copy])?.wait(soon())?;
    let mut seen = vec![0; 4096];
    b.read(0, &mut seen)?;
    Ok(seen == content)
}

/// Cards, with bridges of all kinds before them.
const CARDS: [(&str, &str); 3] = [
    ("gfx1201", "training=1,retries=1"),
    ("gfx1100", "hops=1,power=on"),
    ("gfx1200", "hops=2,speed=high"),
];

/// One in so many transfers of a copy is tried.
const COPY_STEP: usize = 13;
/// Three windows to the card, and the whole buffer twice back.
const COPIED: usize = 600_000;

/// A device with memory, and a copy to it and back; something is done before and behind it.
fn copy(machine: &Arc<dyn Machine>, before: impl FnOnce(), behind: impl FnOnce()) -> Result<bool> {
    let device = open(machine, &patient())?;
    let buffer = memory(&*device, MemoryKind::Device, COPIED as u64)?;
    // The first one makes the queue.
    buffer.write(0, &[0; 1024])?;
    let content: Vec<u8> = (0..COPIED).map(|i| (i >> 4) as u8).collect();
    let mut seen = vec![0; COPIED];
    before();
    buffer.write(0, &content)?;
    buffer.read(0, &mut seen)?;
    behind();
    Ok(seen == content)
}

#[test]
fn a_transfer_of_a_copy_that_fails_is_an_error_and_the_next_process_copies() {
    stand::hurry();
    let part = Part::chosen();
    let twin = UsbMachine::new("chip=gfx1201").unwrap();
    let (mut before, mut behind) = (0, 0);
    let whole = copy(
        &(twin.clone() as Arc<dyn Machine>),
        || before = transfers(&twin),
        || behind = transfers(&twin),
    );
    assert!(whole.unwrap());
    let all = behind - before;
    let mut failed = 0;
    let kinds = [
        What::Stall,
        What::Short,
        What::Late,
        What::Vanish,
        What::Unplug,
    ];
    for (number, what) in kinds.into_iter().enumerate() {
        let moments = (0..all).filter(|k| part.has((k + 7 * number as u64) as usize, COPY_STEP));
        for after in moments {
            let twin = UsbMachine::new("chip=gfx1201").unwrap();
            let bridge = twin.bridge(0).unwrap();
            let trouble = Trouble { after, what };
            let machine: Arc<dyn Machine> = twin.clone();
            let mut from = 0;
            let start = || {
                from = transfers(&twin);
                bridge.inject(trouble);
            };
            match copy(&machine, start, || {}) {
                // It has made fewer than the one before.
                Ok(_) if transfers(&twin) - from <= after => continue,
                Ok(right) => assert!(right, "{what:?} {after}"),
                Err(error) => {
                    failed += 1;
                    let text = error.to_string();
                    assert!(text.contains("AMD:0"), "{what:?} {after}: {text}");
                }
            }
            let told = settled(&twin);
            if what == What::Unplug {
                bridge.plug();
            }
            println!("{what:?} {after} of {all}");
            let next = copy(&(twin.again() as Arc<dyn Machine>), || {}, || {});
            let next = next.unwrap_or_else(|error| panic!("{what:?} {after}, again: {error}"));
            assert!(next, "{what:?} {after}, again");
            let found = news(&twin, told);
            assert!(found.is_empty(), "{what:?} {after}, again: {found:#?}");
        }
    }
    assert!(failed > 0);
}

/// How many rules were broken once the card has done all that it was told.
///
/// A submission is one wait: what is written, the flush of the HDP and the doorbell are under way together, and which of
/// them was cut is known when all are through. So a queue may be rung for a pointer that did not arrive, or for words that
/// the HDP still holds: the driver could keep that from it by a second wait for each submission alone. It is the process
/// that was cut which breaks these rules, however late its queue looks: here it has looked.
fn settled(twin: &UsbMachine) -> usize {
    rest(twin);
    broken(twin).len()
}

/// Rules that were broken since, but for what the process before has left, and only the next one brings to light: its queue
/// goes on with a copy, and finds the bus closed, or it ends with a pointer that no doorbell has said; and a doorbell of
/// which half was cut is followed by another.
fn news(twin: &UsbMachine, told: usize) -> Vec<String> {
    let mut found = broken(twin).split_off(told);
    let of_before = |one: &String| {
        one.contains("to its end the doorbell has said")
            || one.contains("AMD-DOORBELL-HALVES")
            || one.contains("PCI-MASTER")
            || one.contains("GPU-PAGE-FAULT") && one.contains("through Sdma")
    };
    found.retain(|one| !of_before(one));
    found
}

fn transfers(twin: &UsbMachine) -> u64 {
    let counts = twin.bridge(0).unwrap().counts();
    counts.control + counts.bulk
}

/// What everybody is told: which device, in which port, how far its start came or what it was at, which transfer, and
/// what was wrong with it.
fn is_told(error: &Error, what: What) {
    let text = error.to_string();
    // `AMD:0 host access: 2-1: control out 0xe5, ..`, or a stage of the start.
    let unit = text.split_once(": 2-1: ").map_or("", |(before, _)| before);
    let unit = unit.rsplit("AMD:0").next().unwrap_or("");
    let is_placed = text.contains("stage ") || !unit.is_empty();
    let transfer = [
        "request 0x",
        "control in 0x",
        "control out 0x",
        "bulk ",
        "wait for the GPU",
        // Of a request that was cut, and that would have woken it.
        "train the PCIe link",
    ];
    let fault: &[_] = match what {
        What::Stall => &["endpoint stalled"],
        // A request that is cut does nothing: what is under way behind it waits in vain.
        What::Short => &["moved 0x", "no answer within", "the link is in state"],
        What::Late | What::Vanish => &["no answer within"],
        What::Unplug => &["the device is gone"],
    };
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    // The first to notice may be a look at the card, which names it and its port, and no transfer.
    if what == What::Unplug && has(&["has left the bus"]) {
        assert!(text.contains("AMD:0") && text.contains("2-1"), "{text}");
        return;
    }
    let whole = text.contains("AMD:0") && text.contains("2-1") && has(fault);
    assert!(whole && is_placed && has(&transfer), "{what:?}: {text}");
}

#[test]
fn the_next_process_opens_a_card_whatever_transfer_failed_before() {
    stand::hurry();
    let part = Part::chosen();
    let kinds = [
        What::Stall,
        What::Short,
        What::Late,
        What::Vanish,
        What::Unplug,
    ];
    for (of, (chip, config)) in CARDS.into_iter().enumerate() {
        if !part.has(of, CARDS.len()) {
            continue;
        }
        let config = format!("chip={chip},{config}");
        let twin = UsbMachine::new(&config).unwrap();
        assert!(work(&(twin.clone() as Arc<dyn Machine>)).unwrap());
        let all = transfers(&twin);
        let mut ended = 0;
        for (number, what) in kinds.into_iter().enumerate() {
            // Other moments for each kind.
            let chosen = |after: &u64| part.has(*after as usize + 211 * number, STEP);
            let moments: Vec<_> = (0..all).filter(chosen).collect();
            let failed = moments.iter().filter(|after| fails(&config, **after, what));
            let failed = failed.count();
            println!(
                "{chip}: {what:?} at {} of {all} transfers: {failed} ended the work",
                moments.len()
            );
            ended += failed;
        }
        assert!(ended > 0, "{chip}");
    }
}

/// Whether the work ends with an error if something goes wrong with one transfer. Whatever came of it, the next process
/// does the same work, and breaks no rule.
fn fails(config: &str, after: u64, what: What) -> bool {
    let twin = UsbMachine::new(config).unwrap();
    let bridge = twin.bridge(0).unwrap();
    bridge.inject(Trouble { after, what });
    let first = work(&(twin.clone() as Arc<dyn Machine>));
    match &first {
        Ok(right) => assert!(right, "{what:?} {after}"),
        Err(error) => is_told(error, what),
    }
    // Looks are more or fewer each time: it may be that nothing has gone wrong yet.
    if first.is_ok() && transfers(&twin) <= after {
        return false;
    }
    // What was under way with it arrives all the same, and may break rules: an answer is asked for before one can
    // know that the request was cut.
    let told = settled(&twin);
    if what == What::Unplug {
        bridge.plug();
    }
    let again = twin.again();
    let next = work(&(again.clone() as Arc<dyn Machine>));
    let next = next.unwrap_or_else(|error| panic!("{what:?} {after}, again: {error}"));
    assert!(next, "{what:?} {after}, again");
    let found = news(&twin, told);
    assert!(found.is_empty(), "{what:?} {after}, again: {found:#?}");
    first.is_err()
}
