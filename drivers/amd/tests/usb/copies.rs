//! Copies between the host and a card behind a bridge: every byte arrives, at the rate that the bridge's own copies
//! have.

use std::sync::Arc;
use std::time::Duration;

use hcq::MemoryKind;
use hcq::transport::Machine;
use twin::usb::Counts;
use twin_amd::usb::UsbMachine;

use super::stand::memory;
use super::{open, options, unbroken};

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

/// How often a copy is measured: a simulated card that is slow to empty a window is looked at more often; the least is
/// what it costs.
const ROUNDS: usize = 10;

/// Of the bridge's rate, in percent.
const LEAST: f64 = 90.0;

#[test]
fn copies_have_nine_tenths_of_the_rate_of_the_bridge() {
    const BYTES: usize = 32 << 20;
    let twin = UsbMachine::new("chip=gfx1201").unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let device = open(&machine, &options()).unwrap();
    let buffer = memory(&*device, MemoryKind::Device, BYTES as u64).unwrap();
    let whole = content(BYTES, 7);
    let mut seen = vec![0; BYTES];
    // The first one makes the queue.
    buffer.write(0, &whole[..4096]).unwrap();
    let limit = twin::usb::clock::Rates::USB3.copy as f64;
    let best = |name: &str, copy: &mut dyn FnMut()| {
        let mut best = 0.0f64;
        for round in 0..ROUNDS {
            let (time, counts) = took(&twin, &mut *copy);
            let percent = BYTES as f64 / time.as_secs_f64() / limit * 100.0;
            println!("{name} {round}: {time:?}, {percent:.1} % of the bridge's rate, {counts:?}");
            best = best.max(percent);
            if best >= LEAST {
                break;
            }
        }
        best
    };
    let write = best("to the card", &mut || buffer.write(0, &whole).unwrap());
    let read = best("to the host", &mut || buffer.read(0, &mut seen).unwrap());
    assert!(write >= LEAST && read >= LEAST, "{write:.1} %, {read:.1} %");
    assert!(seen == whole);
    unbroken(&twin);
}
