//! A transfer that goes wrong, at any moment from the first request to the end of the work: an error in words, and the next
//! process opens the card all the same, and breaks no rule.

use std::sync::Arc;

use conformance::part::Part;
use drivers_amd::Options;
use hcq::transport::Machine;
use hcq::{Command, Device, MemoryKind, QueueKind, Result, Stream};
use twin::usb::{Trouble, What};
use twin_amd::usb::UsbMachine;

use super::stand::{self, at, memory, soon};
use super::{broken, firmware, open};

/// One in so many moments is tried.
const STEP: usize = 997;

/// Opens a card, and has it copy what the host has written.
fn work(machine: &Arc<dyn Machine>) -> Result<bool> {
    let options = Options {
        compute_ring: 16 << 10,
        copy_ring: 8 << 10,
        kernargs: 64 << 10,
        firmware: vec![firmware()],
        ..Options::default()
    };
    let device = open(machine, &options)?;
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

fn transfers(twin: &UsbMachine) -> u64 {
    let counts = twin.bridge(0).unwrap().counts();
    counts.control + counts.bulk
}

#[test]
fn the_next_process_opens_a_card_whatever_transfer_failed_before() {
    stand::hurry();
    let part = Part::chosen();
    let twin = UsbMachine::new("chip=gfx1201").unwrap();
    assert!(work(&(twin.clone() as Arc<dyn Machine>)).unwrap());
    let all = transfers(&twin);
    for (number, what) in [
        What::Stall,
        What::Short,
        What::Late,
        What::Vanish,
        What::Unplug,
    ]
    .into_iter()
    .enumerate()
    {
        // Other moments for each kind.
        let moments = (0..all).filter(|after| part.has(*after as usize + 211 * number, STEP));
        let mut failed = 0;
        for after in moments {
            let twin = UsbMachine::new("chip=gfx1201").unwrap();
            let bridge = twin.bridge(0).unwrap();
            bridge.inject(Trouble { after, what });
            match work(&(twin.clone() as Arc<dyn Machine>)) {
                Ok(right) => assert!(right, "{what:?} {after}"),
                Err(error) => {
                    failed += 1;
                    let text = error.to_string();
                    assert!(text.contains("AMD:0"), "{what:?} {after}: {text}");
                }
            }
            // What was under way with it arrives all the same, and may break rules: an answer is asked for before one can
            // know that the request was cut.
            let told = broken(&twin).len();
            if what == What::Unplug {
                bridge.plug();
            }
            let again = twin.again();
            let next = work(&(again.clone() as Arc<dyn Machine>));
            let next = next.unwrap_or_else(|error| panic!("{what:?} {after}, again: {error}"));
            assert!(next, "{what:?} {after}, again");
            let mut found = broken(&twin).split_off(told);
            // What is told later, and was of the process before: of its queue, and of half a doorbell that was cut.
            found.retain(|one| {
                !one.contains("to its end the doorbell has said")
                    && !one.contains("AMD-DOORBELL-HALVES")
            });
            assert!(found.is_empty(), "{what:?} {after}, again: {found:#?}");
        }
        assert!(failed > 0, "{what:?}");
    }
}
