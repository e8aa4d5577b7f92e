//! What a device that is lost may still use stays: its threads may be inside of a kernel.
#![cfg(target_os = "linux")]
use crate::cc;

use std::time::Duration;

use drivers_cpu::{Config, CpuDevice};
use hcq::{AllocSpec, Command, Error, QueueKind, Stream, Val};

/// Waits for the first word of its first argument, and writes the second.
const SPIN: &str = "typedef unsigned long u64; void kernel(const u64 *args, u64 begin, u64 end) {
    volatile u64 *gate = (u64 *)args[0]; volatile u64 *data = (u64 *)args[1];
    gate[1] = 1; while (!gate[0]); for (u64 i = 0; i < 1 << 16; i++) data[i] = 7; gate[1] = 2; }";

/// Whether something is mapped at an address.
fn is_mapped(va: u64) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        let (range, rest) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        (number(start)..number(end)).contains(&va) && !rest.starts_with("---")
    })
}

#[test]
fn memory_and_code_that_a_kernel_uses_stay_until_it_has_ended() {
    let device = CpuDevice::open(Config {
        cores: 2,
        // Nothing is kept for reuse: a buffer that goes is unmapped.
        memory: 8 << 20,
        ..Config::default()
    })
    .unwrap();
    let program = device.load(&cc::image(SPIN, 2)).unwrap();
    let gate = device.alloc(AllocSpec::device(64)).unwrap();
    gate.write(0, &[0; 64]).unwrap();
    let data = device.alloc(AllocSpec::device(4 << 20)).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let args = [Val::Const(gate.va().0), Val::Const(data.va().0)];
    let exec = Command::Exec {
        program: &program,
        args: &args,
        grid: [1, 1, 1],
        block: [1, 1, 1],
    };
    stream.submit(&[], &[exec]).unwrap();
    let word = |at: u64| {
        let mut bytes = [0; 8];
        gate.read(at * 8, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    };
    while word(1) != 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    device.lose(Error::Fault {
        device: device.info().id.clone(),
        unit: "test".into(),
        what: "given up".into(),
    });
    let (code, place) = (program.entry.0, data.va().0);
    drop((program, data));
    assert!(is_mapped(code), "the code of a kernel that runs");
    assert!(is_mapped(place), "the memory that it writes");
    gate.write(0, &1u64.to_le_bytes()).unwrap();
    while word(1) != 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop((stream, device));
    assert!(!is_mapped(place), "nobody uses it any more");
}
