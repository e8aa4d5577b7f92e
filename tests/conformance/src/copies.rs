//! Copies, and the memory that they move.

use hcq::{AllocSpec, Buffer, Command, CommandBuffer, Error, MemoryKind, Scope, Slot, Val};

use crate::rig::soon;
use crate::{Rig, Subject};

const GUARD: u8 = 0xa5;

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // Marsaglia's xorshift: no two neighbouring words are alike.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn check(rig: &Rig<'_>, dst: &Buffer, src: &Buffer, to: u64, from: u64, bytes: u64) {
    let content = pattern(bytes as usize, to ^ from << 8 ^ bytes);
    src.write(from, &content).unwrap();
    dst.write(0, &vec![GUARD; dst.bytes() as usize]).unwrap();
    let command = Command::Copy {
        dst: Val::Const(dst.va().0 + to),
        src: Val::Const(src.va().0 + from),
        bytes,
    };
    for stream in [&rig.copy, &rig.compute] {
        stream
            .submit(&[], &[command])
            .unwrap()
            .wait(soon())
            .unwrap();
    }
    let mut seen = vec![0; dst.bytes() as usize];
    dst.read(0, &mut seen).unwrap();
    let (before, rest) = seen.split_at(to as usize);
    let (copied, after) = rest.split_at(bytes as usize);
    assert!(copied == content, "{bytes} bytes from {from} to {to}");
    assert!(
        before.iter().chain(after).all(|&b| b == GUARD),
        "{bytes} bytes, guard"
    );
}

/// Every small size, at aligned and odd offsets, with untouched bytes around.
pub fn copies_of_every_size_touch_nothing_else(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let (src, dst) = (rig.buffer(8192), rig.buffer(8192));
    let sizes = [
        0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 63, 64, 65, 255, 1000, 4095, 4096, 4097,
    ];
    for bytes in sizes {
        for (to, from) in [(0, 0), (1, 0), (0, 3), (17, 17), (63, 64), (5, 9)] {
            check(&rig, &dst, &src, to, from, bytes);
        }
    }
}

/// Up to 256 MiB, or as much as the subject allows, at offsets that no engine's unit divides.
pub fn large_copies_at_odd_offsets(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    for (bytes, to, from) in [
        (1 << 20, 3, 5),
        ((4 << 20) + 1, 64, 1),
        (33 << 20, 4097, 4095),
        ((256 << 20) - 13, 7, 11),
    ] {
        if bytes > subject.most_copied() {
            continue;
        }
        let (src, dst) = (rig.buffer(bytes + from + 64), rig.buffer(bytes + to + 64));
        check(&rig, &dst, &src, to, from, bytes);
    }
}

/// Fills of all sizes and places that are whole words, with untouched bytes around; others are refused.
pub fn fills_of_every_size_touch_nothing_else(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let word = 0xd1c2_b3a4u32;
    let fill = |at, bytes| Command::Fill {
        at,
        value: word,
        bytes,
    };
    let large = (9 << 20) + 4;
    let filled = |dst: &Buffer, at: u64, bytes: u64| {
        let mut seen = vec![0; dst.bytes() as usize];
        dst.read(0, &mut seen).unwrap();
        let (before, rest) = seen.split_at(at as usize);
        let (inside, after) = rest.split_at(bytes as usize);
        let words = inside.chunks_exact(4);
        assert!(
            words.clone().all(|w| w == word.to_le_bytes()),
            "{bytes} bytes at {at}"
        );
        assert!(
            before.iter().chain(after).all(|&b| b == GUARD),
            "{bytes} bytes at {at}, guard"
        );
    };
    for (dst, sizes) in [
        (
            rig.buffer(8192),
            &[0, 4, 8, 12, 60, 64, 68, 1020, 4092, 4096, 4100][..],
        ),
        (rig.buffer(large + 64), &[large]),
    ] {
        for &bytes in sizes {
            for at in [0, 4, 20, 60] {
                for stream in [&rig.copy, &rig.compute] {
                    dst.write(0, &vec![GUARD; dst.bytes() as usize]).unwrap();
                    let command = fill(Val::Const(dst.va().0 + at), bytes);
                    let done = stream.submit(&[], &[command]).unwrap();
                    done.wait(soon()).unwrap();
                    filled(&dst, at, bytes);
                }
            }
        }
    }
    // An address that is given later; a copy behind a barrier sees what was filled.
    let (first, second) = (rig.buffer(256), rig.buffer(256));
    for stream in [&rig.copy, &rig.compute] {
        first.write(0, &[GUARD; 256]).unwrap();
        let queue = stream.queue();
        let commands = [
            fill(Val::Slot(Slot(0), 8), 100),
            Command::Barrier {
                scope: Scope::Queue,
            },
            Command::Copy {
                dst: Val::Const(second.va().0),
                src: Val::Slot(Slot(0), 0),
                bytes: 256,
            },
            Command::Signal {
                signal: queue.timeline().signal(),
                value: Val::Slot(Slot(1), 0),
            },
        ];
        let mut packets = CommandBuffer::new();
        queue.encode(&commands, &mut packets).unwrap();
        let mut bound = queue.bind(packets).unwrap();
        let values = |makes| [first.va().0, makes];
        let done = stream.launch(&[], &mut *bound, values).unwrap();
        done.wait(soon()).unwrap();
        filled(&first, 8, 100);
        filled(&second, 8, 100);
    }
    for (at, bytes) in [(2, 8), (0, 6), (4, 1)] {
        for stream in [&rig.copy, &rig.compute] {
            let command = fill(Val::Const(first.va().0 + at), bytes);
            let error = stream.submit(&[], &[command]).unwrap_err();
            assert!(matches!(error, Error::Command { .. }), "{error}");
        }
    }
}

/// Zeroed memory is zero, also where it had another content before.
pub fn memory_that_was_used_is_zero_when_asked_for(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    for kind in [MemoryKind::Device, MemoryKind::Host] {
        for bytes in [1, 13, 4096, (3 << 20) + 7] {
            for _ in 0..3 {
                let spec = AllocSpec {
                    bytes,
                    align: 64,
                    kind,
                    zeroed: true,
                };
                let buffer = rig.device.alloc(spec).unwrap();
                let mut seen = vec![GUARD; bytes as usize];
                buffer.read(0, &mut seen).unwrap();
                assert!(seen.iter().all(|&b| b == 0), "{bytes} bytes, {kind:?}");
                buffer.write(0, &vec![GUARD; bytes as usize]).unwrap();
            }
        }
    }
}

/// Accounting follows buffers, and what cannot be had is an error that says so.
pub fn memory_is_accounted_for_and_runs_out_with_an_error(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let before = rig.device.memory();
    let spec = |bytes| AllocSpec {
        bytes,
        align: 4096,
        kind: MemoryKind::Device,
        zeroed: true,
    };
    let buffer = rig.device.alloc(spec(10 << 20)).unwrap();
    assert!(buffer.va().is_aligned(4096));
    let during = rig.device.memory();
    assert!(during.used >= before.used + (10 << 20));
    assert!(during.peak >= during.used && during.total >= during.used);
    drop(buffer);
    assert_eq!(rig.device.memory().used, before.used);
    let error = rig.device.alloc(spec(1 << 60)).unwrap_err();
    match &error {
        Error::OutOfMemory { asked, total, .. } => {
            assert_eq!((*asked, *total), (1 << 60, before.total));
        }
        other => panic!("expected OutOfMemory, found {other}"),
    }
    // And the device is in good order.
    rig.device.status().unwrap();
    rig.device.alloc(spec(4096)).unwrap();
}
