//! Cards over PCI as devices: work, cold and warm, after a crash; several cards; faults and hangs in words.

use std::sync::Arc;
use std::time::Duration;

use drivers_amd::{AmdDevice, Language, Options};
use hcq::transport::{Clock, Machine, Pci, VirtualClock};
use hcq::{Command, Deadline, Device, Error, MemoryKind, QueueKind, Result, Stream, Val};
use twin_amd::pci::machine::PciMachine;

use super::boot::firmware;
use super::stand::{self, at, memory, soon};

/// Chips that are started here.
const CHIPS: [&str; 6] = [
    "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201", "gfx942",
];

pub fn options() -> Options {
    Options {
        firmware: vec![firmware()],
        ..stand::options()
    }
}

fn open(twin: &Arc<PciMachine>, index: u32, options: &Options) -> Result<Arc<AmdDevice>> {
    let machine: Arc<dyn Machine> = twin.clone();
    let functions = machine.pci_functions().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let address = &functions[index as usize].address;
    let backend = drivers_amd::am::open(&machine, address, index, &clock, options)?;
    drivers_amd::over(&backend, options)
}

pub fn unbroken(twin: &PciMachine) {
    let broken = twin.journal().violations();
    let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

pub fn works(twin: &Arc<PciMachine>, chip: &str) {
    let image = stand::kernel(chip, "sums", 2);
    let device = open(twin, 0, &options()).unwrap_or_else(|error| panic!("{chip}: {error}"));
    assert_eq!(device.info().interface, "PCI");
    assert_eq!(device.info().arch, chip);
    assert!(stand::work_on(&*device, &image, 8).unwrap(), "{chip}");
    device.clock().unwrap();
}

#[test]
fn work_is_done_on_cards_that_are_cold_and_warm() {
    for chip in CHIPS {
        let twin = PciMachine::new(&format!("chip={chip}")).unwrap();
        for _ in ["cold", "warm"] {
            works(&twin, chip);
            unbroken(&twin);
        }
    }
}

#[test]
fn a_small_bar_is_slower_and_enough() {
    for chip in ["gfx1101", "gfx1201", "gfx942"] {
        let twin = PciMachine::new(&format!("chip={chip},bar=256")).unwrap();
        for _ in ["cold", "warm"] {
            works(&twin, chip);
            unbroken(&twin);
        }
    }
}

/// What a process leaves that is killed: nothing of what it has is dropped.
#[test]
fn a_card_that_a_process_has_left_in_the_middle_is_reset() {
    for chip in ["gfx1201", "gfx942"] {
        let twin = PciMachine::new(&format!("chip={chip}")).unwrap();
        let device = open(&twin, 0, &options()).unwrap();
        let buffer = memory(&*device, MemoryKind::Device, 4096).unwrap();
        buffer.write(0, &[7; 4096]).unwrap();
        std::mem::forget((buffer, device));
        works(&twin.again(), chip);
        unbroken(&twin);
    }
}

/// Where the machine lets a driver wait for interrupts, the end of what was submitted is one.
#[test]
fn the_end_of_work_interrupts_who_can_wait_for_that() {
    for chip in ["gfx1100", "gfx1201"] {
        let twin = PciMachine::new(&format!("chip={chip},irq=on")).unwrap();
        for _ in ["cold", "warm"] {
            works(&twin, chip);
            let device = open(&twin, 0, &options()).unwrap();
            let pci = twin.function(0).unwrap();
            for kind in [QueueKind::Compute, QueueKind::Copy] {
                device.synchronize(soon()).unwrap();
                while pci.wait_irq(0, Deadline::after(Duration::ZERO)).is_ok() {}
                let stream = Stream::new(device.queue(kind, 0).unwrap());
                stream.submit(&[], &[]).unwrap();
                // Nobody else waits, so that it stays for us.
                assert!(pci.wait_irq(0, soon()).is_ok(), "{chip} {kind:?}");
                stream.wait(soon()).unwrap();
            }
            // Several threads wait for what a third one lets go on.
            let gate = device.signal("gate").unwrap();
            let wait = Command::Wait {
                signal: &gate,
                value: Val::Const(1),
            };
            let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
            let held = stream.submit(&[], &[wait]).unwrap();
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| held.wait(soon()).unwrap());
                }
                std::thread::sleep(Duration::from_millis(5));
                gate.set(1).unwrap();
            });
        }
        unbroken(&twin);
    }
}

#[test]
fn cards_of_a_process_reach_each_other_and_what_they_have_of_the_host() {
    for (chip, kind, bar) in [
        ("gfx1100", MemoryKind::Device, ""),
        ("gfx1100", MemoryKind::Host, ""),
        ("gfx1100", MemoryKind::Host, ",bar=256"),
        ("gfx942", MemoryKind::Device, ""),
    ] {
        let twin = PciMachine::new(&format!("chip={chip},gpus=2{bar}")).unwrap();
        let first = open(&twin, 0, &options()).unwrap();
        let bytes = 300_000;
        let a = memory(&*first, kind, bytes).unwrap();
        // Opened after the memory was made.
        let second = open(&twin, 1, &options()).unwrap();
        let b = memory(&*second, MemoryKind::Device, bytes).unwrap();
        let content: Vec<u8> = (0..bytes).map(|i| ((i * 11) >> 2) as u8).collect();
        a.write(0, &content).unwrap();
        assert!(second.reaches(&a));
        // Behind a small BAR nobody else reaches VRAM.
        assert_eq!(first.reaches(&b), bar.is_empty());
        let stream = Stream::new(second.queue(QueueKind::Copy, 0).unwrap());
        let copy = Command::Copy {
            dst: at(&b),
            src: at(&a),
            bytes,
        };
        stream.submit(&[], &[copy]).unwrap().wait(soon()).unwrap();
        let mut seen = vec![0; bytes as usize];
        b.read(0, &mut seen).unwrap();
        assert!(seen == content);
        drop((stream, a, b, first));
        assert!(second.status().is_ok());
        drop(second);
        unbroken(&twin);
    }
}

/// Each machine counts its addresses from the same one.
#[test]
fn memory_of_another_machine_is_not_reached_though_the_addresses_are_the_same() {
    let machines =
        ["gfx1100", "gfx1201"].map(|chip| PciMachine::new(&format!("chip={chip}")).unwrap());
    let [one, two] = machines
        .each_ref()
        .map(|twin| open(twin, 0, &options()).unwrap());
    let [a, b] = [&one, &two].map(|device| memory(&**device, MemoryKind::Device, 4096).unwrap());
    assert_eq!(a.va(), b.va());
    assert!(one.reaches(&a) && two.reaches(&b));
    assert!(!one.reaches(&b) && !two.reaches(&a));
}

/// Who opens or closes a handle selects registers under a lock that no doorbell takes.
#[test]
fn handles_come_and_go_while_others_ring() {
    for chip in ["gfx1100", "gfx1201"] {
        let twin = PciMachine::new(&format!("chip={chip}")).unwrap();
        let image = stand::kernel(chip, "sums", 2);
        let rounds = || {
            for _ in 0..4 {
                let device = open(&twin, 0, &options()).unwrap();
                assert!(stand::work_on(&*device, &image, 8).unwrap(), "{chip}");
            }
        };
        std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(rounds))));
        unbroken(&twin);
    }
}

/// Kernels with scratch, of which an AQL queue is told while it is at rest.
#[test]
fn queues_take_aql_as_well() {
    for chip in ["gfx1100", "gfx1201"] {
        let twin = PciMachine::new(&format!("chip={chip}")).unwrap();
        let aql = Options {
            compute: Some(Language::Aql),
            ..options()
        };
        let image = stand::kernel(chip, "sums", 2);
        let device = open(&twin, 0, &aql).unwrap();
        assert!(stand::work_on(&*device, &image, 8).unwrap(), "{chip}");
        drop(device);
        unbroken(&twin);
    }
}

/// A wait that nobody ends: the queue is taken out all the same, and the card is as good as before.
#[test]
fn a_card_that_hangs_is_let_go_and_opens_again() {
    for chip in ["gfx1201", "gfx942"] {
        hangs(chip);
    }
}

fn hangs(chip: &str) {
    let twin = PciMachine::new(&format!("chip={chip}")).unwrap();
    let short = Options {
        drain_timeout: Duration::from_millis(50),
        ..options()
    };
    let device = open(&twin, 0, &short).unwrap();
    for kind in [QueueKind::Compute, QueueKind::Copy] {
        let never = device.signal("what never comes").unwrap();
        let stream = Stream::new(device.queue(kind, 0).unwrap());
        let wait = Command::Wait {
            signal: &never,
            value: Val::Const(1),
        };
        let point = stream.submit(&[], &[wait]).unwrap();
        let error = point.wait(Deadline::after(Duration::from_millis(50)));
        assert!(matches!(error, Err(Error::Timeout { .. })), "{error:?}");
    }
    drop(device);
    works(&twin, chip);
    unbroken(&twin);
}

#[test]
fn a_fault_names_the_address_and_the_next_open_works() {
    for chip in ["gfx1100", "gfx942"] {
        faults(chip);
    }
}

fn faults(chip: &str) {
    let twin = PciMachine::new(&format!("chip={chip}")).unwrap();
    let device = open(&twin, 0, &options()).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Copy, 0).unwrap());
    let copy = Command::Copy {
        dst: Val::Const(0x4560_0000),
        src: Val::Const(0x1230_0000),
        bytes: 64,
    };
    let point = stream.submit(&[], &[copy]).unwrap();
    let error = point.wait(soon()).unwrap_err();
    let Error::DeviceLost { cause, .. } = &error else {
        panic!("{error}");
    };
    let text = cause.to_string();
    assert!(text.contains("page fault"), "{text}");
    drop((stream, device, point));
    works(&twin, chip);
}

/// As long as another device of the process has the card, it is not started anew: what is left of a fault in interrupt rings
/// is not told to the next device.
#[test]
fn a_fault_is_told_once_though_another_device_has_the_card() {
    let twin = PciMachine::new("chip=gfx1100").unwrap();
    let other = open(&twin, 0, &options()).unwrap();
    for _ in 0..4 {
        let device = open(&twin, 0, &options()).unwrap();
        let stream = Stream::new(device.queue(QueueKind::Copy, 0).unwrap());
        let copy = Command::Copy {
            dst: Val::Const(0x4560_0000),
            src: Val::Const(0x1230_0000),
            bytes: 64,
        };
        let point = stream.submit(&[], &[copy]).unwrap();
        assert!(matches!(point.wait(soon()), Err(Error::DeviceLost { .. })));
        drop((stream, device, point));
        works(&twin, "gfx1100");
    }
    drop(other);
    works(&twin, "gfx1100");
}

/// A kernel whose waves are seen to go on is waited for, however long it takes; unless the work is bounded.
#[test]
fn a_kernel_may_take_longer_than_the_limit() {
    let twin = PciMachine::new("chip=gfx1101").unwrap();
    let device = open(&twin, 0, &options()).unwrap();
    let spin = device.load(&stand::kernel("gfx1101", "spin", 1)).unwrap();
    let word = memory(&*device, MemoryKind::Host, 256).unwrap();
    word.write(0, &[0; 256]).unwrap();
    let args = [at(&word)];
    let exec = Command::Exec {
        program: &spin,
        args: &args,
        grid: [3, 1, 1],
        block: [1, 1, 1],
    };
    let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let done = compute.submit(&[], &[exec]).unwrap();
    let limit = Duration::from_secs(1);
    let error = done.wait(Deadline::after(limit).within(limit / 2));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("Work limit of 500ms exceeded"), "{error}");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(limit * 2);
            word.write(0, &[1; 4]).unwrap();
        });
        done.wait(Deadline::after(limit)).unwrap();
    });
    unbroken(&twin);
}
