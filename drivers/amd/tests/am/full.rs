//! What runs full: interrupt rings that nobody reads, page tables.

use std::sync::Arc;

use drivers_amd::AmdDevice;
use drivers_amd::am::card::Card;
use drivers_amd::backend::AmdBackend;
use drivers_gpu::backend::Request;
use drivers_spec::amd::mmio::osssys::IH_RB_WPTR;
use hcq::transport::{Clock, Machine, VirtualClock};
use hcq::{Command, Device, DeviceId, Error, MemoryKind, QueueKind, Stream, Val};
use twin_amd::pci::card::Config;
use twin_amd::pci::chip::Chip;
use twin_amd::pci::machine::PciMachine;

use super::device::{options, unbroken, works};
use super::stand::soon;

const ADDRESS: &str = "0000:03:00.0";
/// More than the first ring has room for: 256 KiB of 32 bytes each.
const MANY: u32 = 8200;

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new())
}

fn open(twin: &Arc<PciMachine>) -> (Arc<dyn AmdBackend>, Arc<AmdDevice>) {
    let machine: Arc<dyn Machine> = twin.clone();
    let backend = drivers_amd::am::open(&machine, ADDRESS, 0, &clock(), &options()).unwrap();
    let device = drivers_amd::over(&backend, &options()).unwrap();
    (backend, device)
}

/// Whether an interrupt ring says that it was full.
fn has_overflown(twin: &PciMachine) -> bool {
    let function = twin.function(0).unwrap().clone();
    let card = Card::open(DeviceId::new("AMD", 9), function, clock()).unwrap();
    let ih = card.registers(&card.blocks().osssys);
    ih.read(&IH_RB_WPTR).unwrap().bits() & 1 == 1
}

/// A program that looks and never sleeps reads no interrupts, of which each of its submissions raises one.
#[test]
fn interrupts_that_nobody_reads_stop_nothing() {
    let twin = PciMachine::new("chip=gfx1201,irq=on").unwrap();
    let (_, device) = open(&twin);
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    // Twice: the second overflow is told like the first.
    for _ in 0..2 {
        for i in 0..MANY {
            let point = stream.submit(&[], &[]).unwrap();
            // As many at a time as the ring has room for: nobody sleeps for want of it.
            while i % 16 == 0 && !point.reached().unwrap() {
                std::thread::yield_now();
            }
        }
        assert!(has_overflown(&twin));
        // Who sleeps reads what is left.
        let gate = device.signal("gate").unwrap();
        let wait = Command::Wait {
            signal: &gate,
            value: Val::Const(1),
        };
        let held = stream.submit(&[], &[wait]).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| held.wait(soon()));
            while has_overflown(&twin) {
                std::thread::yield_now();
            }
            gate.set(1).unwrap();
            waits.join().unwrap().unwrap();
        });
    }
    unbroken(&twin);
    // What happens after that is told as ever.
    let copy = Command::Copy {
        dst: Val::Const(0x4560_0000),
        src: Val::Const(0x1230_0000),
        bytes: 64,
    };
    let copies = Stream::new(device.queue(QueueKind::Copy, 0).unwrap());
    let point = copies.submit(&[], &[copy]).unwrap();
    let error = point.wait(soon()).unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert!(error.to_string().contains("page fault"), "{error}");
    drop((stream, copies, point, device));
    works(&twin, "gfx1201");
}

/// A page each, so far apart that it takes a table of its own, until there is no table left.
#[test]
fn page_tables_that_are_full_are_said_and_come_back() {
    for name in ["gfx1100", "gfx1201"] {
        let mut chip = *Chip::of(name).unwrap();
        // With so little VRAM there are 256 tables.
        chip.vram = 400 << 20;
        let config = Config::of(Box::leak(Box::new(chip)));
        let twin = PciMachine::of(&[config]).unwrap();
        let (backend, device) = open(&twin);
        let page = || {
            backend.memory(&Request {
                bytes: 4096,
                align: 2 << 20,
                kind: MemoryKind::Host,
                what: "",
            })
        };
        for _ in ["at first", "after all was given back"] {
            let mut all = Vec::new();
            let error = loop {
                match page() {
                    Ok(memory) => all.push(memory),
                    Err(error) => break error,
                }
                assert!(all.len() < 512, "{name}");
            };
            assert!(all.len() > 200, "{name}: {}", all.len());
            assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("of page table memory"), "{text}");
            // One that goes makes room for one.
            all.pop();
            all.push(page().unwrap());
            assert!(page().is_err());
            // What is there still works.
            let stream = Stream::new(device.queue(QueueKind::Copy, 0).unwrap());
            let [from, to] = [&all[0], &all[all.len() - 1]];
            from.window.as_ref().unwrap().write(8, 7u64).unwrap();
            let copy = Command::Copy {
                dst: Val::Const(to.va.0),
                src: Val::Const(from.va.0),
                bytes: 16,
            };
            stream.submit(&[], &[copy]).unwrap().wait(soon()).unwrap();
            assert_eq!(to.window.as_ref().unwrap().read::<u64>(8), Ok(7));
        }
        unbroken(&twin);
        drop((backend, device));
        works(&twin, name);
        unbroken(&twin);
    }
}
