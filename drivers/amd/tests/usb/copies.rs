//! Copies between the host and a card behind a bridge: every byte arrives, at the rate that the bridge's own copies
//! have.

use std::sync::Arc;
use std::time::Duration;

use hcq::MemoryKind;
use hcq::mem::view::View;
use hcq::transport::{
    DevFile, Flight, Machine, PerProcess, Reserved, Setup, Transfer, TransportError, UsbDevice,
    UsbPipe,
};
use twin::usb::Counts;
use twin_amd::usb::UsbMachine;

use super::stand::memory;
use super::{open, options, rest, unbroken};

/// Content that differs in every part.
fn content(bytes: usize, seed: u32) -> Vec<u8> {
    let word = |i: u32| (i ^ seed).wrapping_mul(0x9e37_79b1).to_le_bytes();
    let words = (0..bytes.div_ceil(4) as u32).flat_map(word);
    words.take(bytes).collect()
}

#[test]
fn bytes_arrive_whatever_the_length_and_the_place() {
    for (chip, config) in [("gfx1201", ""), ("gfx1100", "hops=1,speed=high")] {
        let twin = UsbMachine::new(&format!("chip={chip},{config}")).unwrap();
        for twin in [twin.clone(), twin.again()] {
            let machine: Arc<dyn Machine> = twin.clone();
            let device = open(&machine, &options()).unwrap();
            let buffer = memory(&*device, MemoryKind::Device, 3 << 20).unwrap();
            let whole = content(3 << 20, 0);
            buffer.write(0, &whole).unwrap();
            let mut expected = whole;
            // About the borders: what is too small for the buffer, sectors, packets, slots, windows, both windows.
            for (i, bytes) in [1, 512, 513, 1023, 1025, 16_380, 16_381, 262_140, 262_141]
                .into_iter()
                .chain([(512 << 10) - 1, (512 << 10) + 1, 1_500_001])
                .enumerate()
            {
                let (at, part) = (i * 1021, content(bytes, i as u32 + 1));
                buffer.write(at as u64, &part).unwrap();
                expected[at..at + bytes].copy_from_slice(&part);
                let mut seen = vec![0; bytes + 2];
                let from = at.saturating_sub(1);
                buffer.read(from as u64, &mut seen).unwrap();
                let same = seen == expected[from..from + bytes + 2];
                assert!(same, "{chip}: {bytes} bytes at {at}");
            }
            let mut seen = vec![0; 3 << 20];
            buffer.read(0, &mut seen).unwrap();
            assert!(seen == expected, "{chip}: all");
            drop(buffer);
            drop(device);
            unbroken(&twin);
        }
    }
}

/// What went over the cable, and how long that took it.
fn took(twin: &UsbMachine, work: impl FnOnce()) -> (Duration, Counts) {
    let bridge = twin.bridge(0).unwrap();
    let before = (bridge.now(), bridge.counts());
    work();
    let (now, counts) = (bridge.now(), bridge.counts());
    let counts = Counts {
        control: counts.control - before.1.control,
        bulk: counts.bulk - before.1.bulk,
        round_trips: counts.round_trips - before.1.round_trips,
        bytes_out: counts.bytes_out - before.1.bytes_out,
        bytes_in: counts.bytes_in - before.1.bytes_in,
    };
    (now - before.0, counts)
}

/// A machine whose card is quick. The bridge's time goes by with each look of the host, and the simulated card has only the
/// time that the machine of the test leaves it: here it has done what it can before the host looks.
struct Quick(Arc<UsbMachine>);

impl Machine for Quick {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        self.0.open(path)
    }
    fn read(&self, path: &str) -> Result<String, TransportError> {
        self.0.read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        self.0.list(path)
    }
    fn usb_devices(&self) -> Result<Vec<UsbDevice>, TransportError> {
        self.0.usb_devices()
    }
    fn open_usb(&self, port: &str) -> Result<Arc<dyn UsbPipe>, TransportError> {
        let pipe = self.0.open_usb(port)?;
        Ok(Arc::new(QuickPipe(pipe, self.0.clone())))
    }
    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        self.0.reserve(bytes, align, below)
    }
    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        self.0.memory(bytes, align)
    }
    fn per_process(&self) -> &PerProcess {
        self.0.per_process()
    }
}

/// Its way to the card.
struct QuickPipe(Arc<dyn UsbPipe>, Arc<UsbMachine>);

impl UsbPipe for QuickPipe {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn queue(
        &self,
        transfers: &mut [Transfer<'_>],
        limit: Duration,
    ) -> Result<Vec<usize>, TransportError> {
        rest(&self.1);
        self.0.queue(transfers, limit)
    }
    fn submit(
        &self,
        endpoint: u8,
        bytes: Vec<u8>,
        limit: Duration,
    ) -> Result<Box<dyn Flight + '_>, TransportError> {
        self.0.submit(endpoint, bytes, limit)
    }
    fn control_in(&self, _: Setup, _: &mut [u8], _: Duration) -> Result<usize, TransportError> {
        unreachable!("all transfers are queued")
    }
    fn control_out(&self, _: Setup, _: &[u8], _: Duration) -> Result<usize, TransportError> {
        unreachable!("all transfers are queued")
    }
    fn bulk_in(&self, _: u8, _: &mut [u8], _: Duration) -> Result<usize, TransportError> {
        unreachable!("all transfers are queued")
    }
    fn bulk_out(&self, _: u8, _: &[u8], _: Duration) -> Result<usize, TransportError> {
        unreachable!("all transfers are queued")
    }
    fn clear_halt(&self, endpoint: u8) -> Result<(), TransportError> {
        self.0.clear_halt(endpoint)
    }
}

/// Of the bridge's rate, in percent.
const LEAST: f64 = 90.0;

#[test]
fn copies_have_nine_tenths_of_the_rate_of_the_bridge() {
    const BYTES: usize = 32 << 20;
    let twin = UsbMachine::new("chip=gfx1201").unwrap();
    let machine: Arc<dyn Machine> = Arc::new(Quick(twin.clone()));
    let device = open(&machine, &options()).unwrap();
    let buffer = memory(&*device, MemoryKind::Device, BYTES as u64).unwrap();
    let whole = content(BYTES, 7);
    let mut seen = vec![0; BYTES];
    // The first one makes the queue.
    buffer.write(0, &whole[..4096]).unwrap();
    let limit = twin::usb::clock::Rates::USB3.copy as f64;
    let rate = |name: &str, copy: &mut dyn FnMut()| {
        let (time, counts) = took(&twin, &mut *copy);
        let percent = BYTES as f64 / time.as_secs_f64() / limit * 100.0;
        println!("{name}: {time:?}, {percent:.1} % of the bridge's rate, {counts:?}");
        percent
    };
    let write = rate("to the card", &mut || buffer.write(0, &whole).unwrap());
    let read = rate("to the host", &mut || buffer.read(0, &mut seen).unwrap());
    assert!(write >= LEAST && read >= LEAST, "{write:.1} %, {read:.1} %");
    assert!(seen == whole);
    unbroken(&twin);
}
