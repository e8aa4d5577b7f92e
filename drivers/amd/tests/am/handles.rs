//! Two handles of one card: each is told its own faults, a queue of one that hangs does not take those of the other, and
//! memory of one that is lost is not given to the other before its queues are gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use drivers_amd::{AmdDevice, Options};
use hcq::transport::{Clock, Machine, VirtualClock};
use hcq::{Buffer, Command, Deadline, Device, Error, MemoryKind, Point, QueueKind, Stream, Val};
use twin_amd::pci::card::Config;
use twin_amd::pci::chip::Chip;
use twin_amd::pci::machine::PciMachine;

use super::device::options;
use super::stand::{self, at, memory, soon};

/// Nothing is there.
const NOWHERE: u64 = 0x4560_0000;

fn open(twin: &Arc<PciMachine>) -> Arc<AmdDevice> {
    let machine: Arc<dyn Machine> = twin.clone();
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let short = Options {
        drain_timeout: Duration::from_millis(50),
        ..options()
    };
    let card = "0000:03:00.0";
    let backend = drivers_amd::am::open(&machine, card, 0, &clock, &short).unwrap();
    drivers_amd::over(&backend, &short).unwrap()
}

fn stream(device: &AmdDevice, kind: QueueKind) -> Stream {
    Stream::new(device.queue(kind, 0).unwrap())
}

/// A queue stands at a wait.
fn held(device: &AmdDevice, kind: QueueKind) -> (hcq::Signal, Point) {
    let gate = device.signal("gate").unwrap();
    let wait = Command::Wait {
        signal: &gate,
        value: Val::Const(1),
    };
    let point = stream(device, kind).submit(&[], &[wait]).unwrap();
    (gate, point)
}

fn copies(device: &AmdDevice) {
    let from = memory(device, MemoryKind::Host, 4096).unwrap();
    let to = memory(device, MemoryKind::Host, 4096).unwrap();
    from.write(0, &[5; 4096]).unwrap();
    let copy = Command::Copy {
        dst: at(&to),
        src: at(&from),
        bytes: 4096,
    };
    let done = stream(device, QueueKind::Copy)
        .submit(&[], &[copy])
        .unwrap();
    done.wait(soon()).unwrap();
    let mut seen = [0; 4096];
    to.read(0, &mut seen).unwrap();
    assert_eq!(seen, [5; 4096]);
}

#[test]
fn a_fault_is_told_to_the_handle_that_has_made_it() {
    for chip in ["gfx1100", "gfx1201"] {
        for is_busy in [false, true] {
            let twin = PciMachine::new(&format!("chip={chip}")).unwrap();
            let (wrong, well) = (open(&twin), open(&twin));
            let gate = is_busy.then(|| held(&well, QueueKind::Compute));
            let copy = Command::Copy {
                dst: Val::Const(NOWHERE),
                src: Val::Const(NOWHERE + 0x1000_0000),
                bytes: 64,
            };
            let point = stream(&wrong, QueueKind::Copy)
                .submit(&[], &[copy])
                .unwrap();
            // The other one looks first.
            for _ in 0..50 {
                well.status().unwrap_or_else(|e| panic!("{chip}: {e}"));
                std::thread::sleep(Duration::from_millis(1));
            }
            let error = point.wait(soon()).unwrap_err().to_string();
            assert!(error.contains("page fault"), "{error}");
            if let Some((gate, held)) = gate {
                gate.set(1).unwrap();
                held.wait(soon()).unwrap();
            }
            drop((wrong, point));
            copies(&well);
            let image = stand::kernel(chip, "sums", 2);
            assert!(stand::work_on(&*well, &image, 8).unwrap(), "{chip}");
        }
    }
}

#[test]
fn a_copy_queue_that_hangs_does_not_take_its_sibling() {
    for chip in ["gfx1100", "gfx1201"] {
        // The engine is never done with it.
        let twin = PciMachine::new(&format!("chip={chip},never=copy-idle")).unwrap();
        let (hung, well) = (open(&twin), open(&twin));
        let third = open(&twin);
        for device in [&well, &third] {
            copies(device);
        }
        let (gate, point) = held(&hung, QueueKind::Copy);
        let waits = point.wait(Deadline::after(Duration::from_millis(20)));
        assert!(matches!(waits, Err(Error::Timeout { .. })), "{waits:?}");
        drop((point, gate, hung));
        // Two engines: one of these two has its queue on that of the one that hung.
        for device in [&well, &third] {
            for _ in 0..3 {
                copies(device);
            }
        }
    }
}

/// What hangs for good takes the command processors down: an idle queue of another handle is back after that.
#[test]
fn a_queue_that_does_not_leave_its_slot_does_not_take_others() {
    for chip in ["gfx1100", "gfx1201"] {
        let image = stand::kernel(chip, "sums", 2);
        // Which of the things that are waited for is that it leaves.
        let mut stuck = None;
        for _ in 0..2 {
            let config = Config {
                stuck,
                ..Config::of(Chip::of(chip).unwrap())
            };
            let begun = config.begun.clone();
            let twin = PciMachine::of(&[config]).unwrap();
            let (hung, well) = (open(&twin), open(&twin));
            assert!(stand::work_on(&*well, &image, 8).unwrap(), "{chip}");
            let (gate, point) = held(&hung, QueueKind::Compute);
            let waits = point.wait(Deadline::after(Duration::from_millis(20)));
            assert!(matches!(waits, Err(Error::Timeout { .. })), "{waits:?}");
            stuck = Some(begun.load(Ordering::Relaxed) + 1);
            drop((point, gate, hung));
            assert!(stand::work_on(&*well, &image, 8).unwrap(), "{chip}");
            copies(&well);
        }
    }
}

#[test]
fn memory_of_a_handle_that_is_lost_is_nobodys_until_its_queues_are_gone() {
    let twin = PciMachine::new("chip=gfx1100").unwrap();
    let (lost, well) = (open(&twin), open(&twin));
    let take = |device: &AmdDevice| -> Vec<Buffer> {
        let small = (0..80).map(|_| memory(device, MemoryKind::Host, 64 << 10).unwrap());
        let large = (0..3).map(|_| memory(device, MemoryKind::Host, 3 << 20).unwrap());
        small.chain(large).collect()
    };
    let places = |buffers: &[Buffer]| -> Vec<(u64, u64)> {
        let place = |b: &Buffer| (b.va().0, b.va().0 + b.bytes());
        buffers.iter().map(place).collect()
    };
    let (_gate, _held) = held(&lost, QueueKind::Compute);
    let used = take(&lost);
    let before = places(&used);
    lost.lose(Error::Fault {
        device: lost.info().id.clone(),
        unit: "test".into(),
        what: "given up".into(),
    });
    drop(used);
    let taken = take(&well);
    for (start, end) in places(&taken) {
        let is = |other: &&(u64, u64)| start < other.1 && other.0 < end;
        let both = before.iter().find(is);
        assert!(
            both.is_none(),
            "{start:#x} to {end:#x} is in use: {both:x?}"
        );
    }
    drop(lost);
    copies(&well);
}
