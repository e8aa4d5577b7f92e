//! Copies between addresses that are given at replay, on the twin: any alignment, nothing else is touched.
#![allow(clippy::unwrap_used)] // A test may panic.

mod stand;

use std::sync::Arc;

use drivers_qcom::{Options, kgsl, over};
use hcq::transport::Machine;
use hcq::{Command, CommandBuffer, Device, MemoryKind, QueueKind, Slot, Stream, Val};
use twin_qcom::machine::TwinMachine;

use stand::soon;

const BYTES: usize = 8192;

#[test]
fn addresses_of_any_alignment_are_given_later() {
    let twin = TwinMachine::new("").unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let options = Options::default();
    let backend = kgsl::open(&machine, 0, &options).unwrap();
    let device = over(&backend, &options).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let queue = stream.queue();
    let [from, to] =
        [(); 2].map(|()| stand::memory(&*device, MemoryKind::Device, BYTES as u64).unwrap());
    let content: Vec<u8> = (0..BYTES as u32)
        .map(|i| (i * 11 + i / 256) as u8)
        .collect();
    from.write(0, &content).unwrap();
    for bytes in [1, 511, 512, 513, 527, 2048, 4099] {
        let commands = [
            Command::Copy {
                dst: Val::Slot(Slot(0), 0),
                src: Val::Slot(Slot(1), 0),
                bytes,
            },
            Command::Signal {
                signal: queue.timeline().signal(),
                value: Val::Slot(Slot(2), 0),
            },
        ];
        let mut packets = CommandBuffer::new();
        queue.encode(&commands, &mut packets).unwrap();
        let mut bound = queue.bind(packets).unwrap();
        let pairs = (0..4)
            .map(|i| (i, 3 - i))
            .chain([(0, 0), (15, 0), (0, 13), (9, 6), (16, 17)]);
        for (dst, src) in pairs {
            to.write(0, &[0xee; BYTES]).unwrap();
            let (at, of) = (to.va().0 + 64 + dst, from.va().0 + 32 + src);
            let done = stream
                .launch(&[], &mut *bound, |makes| [at, of, makes])
                .unwrap();
            done.wait(soon()).unwrap();
            let mut found = vec![0; BYTES];
            to.read(0, &mut found).unwrap();
            let (start, end) = (64 + dst as usize, 64 + (dst + bytes) as usize);
            let what = format!("{bytes} bytes from {src} to {dst}");
            assert_eq!(
                found[start..end],
                content[32 + src as usize..][..bytes as usize],
                "{what}"
            );
            let around = found[..start].iter().chain(&found[end..]);
            assert!(around.into_iter().all(|byte| *byte == 0xee), "{what}");
        }
    }
    assert_eq!(twin.machine().broken_rules(), [""; 0]);
}

/// The last byte of a source may be the last of its memory.
#[test]
fn nothing_is_read_behind_the_source() {
    let twin = TwinMachine::new("").unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let options = Options::default();
    let backend = kgsl::open(&machine, 0, &options).unwrap();
    let device = over(&backend, &options).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let queue = stream.queue();
    // Objects of their own.
    let [from, to] =
        [(); 2].map(|()| stand::memory(&*device, MemoryKind::Device, 1 << 20).unwrap());
    let commands = [
        Command::Copy {
            dst: Val::Slot(Slot(0), 0),
            src: Val::Slot(Slot(1), 0),
            bytes: 1024,
        },
        Command::Signal {
            signal: queue.timeline().signal(),
            value: Val::Slot(Slot(2), 0),
        },
    ];
    let mut packets = CommandBuffer::new();
    queue.encode(&commands, &mut packets).unwrap();
    let mut bound = queue.bind(packets).unwrap();
    for dst in [0, 1, 15] {
        let of = from.va().0 + from.bytes() - 1024;
        let at = to.va().0 + dst;
        let done = stream.launch(&[], &mut *bound, |makes| [at, of, makes]);
        done.unwrap().wait(soon()).unwrap();
    }
    assert_eq!(twin.machine().broken_rules(), [""; 0]);
}
