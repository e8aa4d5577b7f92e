//! A card that leaves the bus is found out by the first look, and believed nothing after that: not what its interrupt rings
//! say, nor its hubs. Reads are counted, time is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use drivers_amd::AmdDevice;
use drivers_asm24::Bridged;
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Clock, Fault, Machine, VirtualClock};
use hcq::{Device, MemoryKind, QueueKind, Stream};
use twin_amd::pci::machine::PciMachine;
use twin_amd::usb::UsbMachine;

use super::device::options;
use super::stand::{memory, soon};

/// A card that has left the bus, once it is told to: reads are all ones, and counted, each dword of them.
#[derive(Default)]
struct Leaves {
    has_left: AtomicBool,
    reads: AtomicU64,
}

impl Leaves {
    fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}

impl Tap for Leaves {
    fn before(&self, _: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        if !self.has_left.load(Ordering::Relaxed) {
            return None;
        }
        let count = |bytes: u64| self.reads.fetch_add(bytes.div_ceil(4), Ordering::Relaxed);
        match access.verb {
            Verb::Read | Verb::ConfigRead => {
                let bytes = access.arg("bytes");
                count(bytes);
                Some(Ok(Answer::value(u64::MAX >> (64 - bytes * 8))))
            }
            Verb::ReadBytes => {
                let bytes = access.arg("bytes");
                count(bytes);
                Some(Ok(Answer::data(vec![0xff; bytes as usize])))
            }
            Verb::Write | Verb::WriteBytes | Verb::ConfigWrite => Some(Ok(Answer::default())),
            _ => None,
        }
    }
}

/// A device works, its card leaves, and somebody waits. `most` reads until that is told, and as many until all is let go.
fn leaves(device: Arc<AmdDevice>, tap: &Leaves, most: [u64; 2]) {
    let stream = Stream::new(device.queue(QueueKind::Copy, 0).unwrap());
    let run = || stream.submit(&[], &[]);
    run().unwrap().wait(soon()).unwrap();
    let buffers: Vec<_> = (0..4)
        .map(|_| memory(&*device, MemoryKind::Host, 1 << 20).unwrap())
        .collect();
    tap.has_left.store(true, Ordering::Relaxed);
    let error = run().and_then(|point| point.wait(soon())).unwrap_err();
    let text = error.to_string();
    let told = tap.reads();
    assert!(text.contains("left the bus"), "{text}");
    assert!(told <= most[0], "{told} reads until it was told: {text}");
    drop((stream, device, buffers));
    let ended = tap.reads() - told;
    assert!(ended <= most[1], "{ended} reads until all was let go");
}

#[test]
fn a_card_that_leaves_is_told_after_few_reads() {
    for (chip, config) in [("gfx1100", ""), ("gfx1201", ",irq=on"), ("gfx942", "")] {
        let tap = Arc::new(Leaves::default());
        let twin = PciMachine::new(&format!("chip={chip}{config}")).unwrap();
        let machine = Tapped::machine(twin, tap.clone());
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
        let card = "0000:03:00.0";
        let backend = drivers_amd::am::open(&machine, card, 0, &clock, &options()).unwrap();
        let device = drivers_amd::over(&backend, &options()).unwrap();
        drop(backend);
        leaves(device, &tap, [50, 500]);
    }
}

#[test]
fn a_card_that_leaves_its_bridge_is_told_after_few_reads() {
    let tap = Arc::new(Leaves::default());
    let twin: Arc<dyn Machine> = UsbMachine::new("chip=gfx1201").unwrap();
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let machine = Tapped::machine(Bridged::over(&twin, &clock), tap.clone());
    let backend = drivers_amd::am::open(&machine, "2-1", 0, &clock, &options()).unwrap();
    let device = drivers_amd::over(&backend, &options()).unwrap();
    drop(backend);
    // Signals are looked at there, each time, between two looks at the card.
    leaves(device, &tap, [2000, 500]);
}
