//! The largest, the smallest and the impossible of every number that a caller gives: done or refused,
//! and the device works on.

use crate::stand;

use std::time::Duration;

use drivers_amd::Options;
use hcq::{
    AllocSpec, Command, Compare, Deadline, Device, Error, MemoryKind, QueueKind, Scope, Stream,
    Val, Width,
};
use stand::{at, machine, memory, options, soon, twin};

const CONFIGS: [&str; 3] = [
    "chip=gfx1100,vram=1G,gtt=1G",
    "chip=gfx1201,vram=1G,gtt=1G,bar=small",
    "chip=gfx942,xcc=8,vram=1G,gtt=1G",
];

const NUMBERS: [u64; 14] = [
    0,
    1,
    4095,
    4097,
    65536,
    65537,
    2 << 20,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    1 << 47,
    1 << 63,
    u64::MAX - 4095,
    u64::MAX,
];

#[test]
fn any_size_and_alignment_is_memory_or_refused() {
    for config in CONFIGS {
        let twin = twin(config);
        let device = drivers_amd::open(&machine(&twin), 0, &options()).unwrap();
        let mut made = 0;
        for bytes in NUMBERS {
            for align in NUMBERS.into_iter().chain([2, 64, 256, 1 << 30]) {
                for kind in [MemoryKind::Device, MemoryKind::Host, MemoryKind::Control] {
                    let spec = AllocSpec {
                        bytes,
                        align,
                        kind,
                        zeroed: bytes <= 65537,
                    };
                    let buffer = match device.alloc(spec) {
                        Ok(buffer) => buffer,
                        Err(Error::OutOfMemory { .. }) => continue,
                        Err(other) => panic!("{spec:?}: {other}"),
                    };
                    made += 1;
                    assert!(buffer.va().0.is_multiple_of(align), "{spec:?}");
                    assert_eq!(buffer.bytes(), bytes);
                    let mut last = [1];
                    if spec.zeroed && bytes > 0 {
                        buffer.read(bytes - 1, &mut last).unwrap();
                        assert_eq!(last, [0], "{spec:?}");
                    }
                    for offset in [bytes, u64::MAX] {
                        assert!(buffer.read(offset, &mut last).is_err(), "{spec:?}");
                        assert!(buffer.write(offset, &[0; 2]).is_err(), "{spec:?}");
                    }
                }
            }
        }
        assert!(made > 100, "{config}: only {made}");
        device.status().unwrap();
    }
}

#[test]
fn any_command_is_done_or_refused() {
    for config in CONFIGS {
        let chip = config["chip=".len()..].split(',').next().unwrap();
        let image = stand::kernel(chip, "step", 2);
        let twin = twin(config);
        let device = drivers_amd::open(&machine(&twin), 0, &options()).unwrap();
        let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
        let copies = Stream::new(device.queue(QueueKind::Copy, 0).unwrap());
        let data = memory(&*device, MemoryKind::Device, 1 << 20).unwrap();
        let step = device.load(&image).unwrap();
        let refused = |command: Command<'_>| {
            for stream in [&compute, &copies] {
                let error = stream.submit(&[], &[command]).map(|_| ()).unwrap_err();
                assert!(
                    matches!(error, Error::Command { .. }),
                    "{command:?}: {error}"
                );
            }
        };
        let (to, from) = (at(&data), Val::Const(data.va().0 + (512 << 10)));
        for bytes in [1 << 63, u64::MAX, (512 << 10) + 1] {
            refused(Command::Copy {
                dst: to,
                src: from,
                bytes,
            });
        }
        let top = Val::Const(u64::MAX - 16);
        refused(Command::Copy {
            dst: top,
            src: from,
            bytes: 32,
        });
        for (place, width) in [(1, Width::W32), (4, Width::W64), (u64::MAX, Width::W32)] {
            let place = Val::Const(place);
            let value = Val::Const(u64::MAX);
            refused(Command::Write {
                at: place,
                value,
                width,
            });
            refused(Command::Poll {
                at: place,
                mask: u64::MAX,
                value,
                compare: Compare::Equal,
                width,
            });
        }
        let args = [to, Val::Const(1)];
        let exec = |args, grid, block| Command::Exec {
            program: &step,
            args,
            grid,
            block,
        };
        for (grid, block) in [
            ([1, 1, 1], [0, 1, 1]),
            ([1, 1, 1], [1025, 1, 1]),
            ([1, 1, 1], [u32::MAX; 3]),
            ([1, 1, 1], [1, 1, 65536]),
            ([u32::MAX; 3], [1, 1, 1]),
            ([u32::MAX, 1, 1], [1, 1, 1]),
            ([1, u32::MAX, 1], [1, 1, 1]),
        ] {
            let error = compute.submit(&[], &[exec(&args, grid, block)]);
            let error = error.map(|_| ()).unwrap_err();
            assert!(
                matches!(error, Error::Command { .. }),
                "{grid:?} {block:?}: {error}"
            );
        }
        let error = compute.submit(&[], &[exec(&args[..1], [1; 3], [1; 3])]);
        assert!(
            error
                .map(|_| ())
                .unwrap_err()
                .to_string()
                .contains("1 arguments given")
        );
        for index in [1, 7, u32::MAX] {
            let error = device
                .queue(QueueKind::Compute, index)
                .map(|_| ())
                .unwrap_err();
            assert!(matches!(error, Error::Command { .. }), "{error}");
        }
        // Nothing, and the shortest and longest waits.
        let nothing = Command::Copy {
            dst: to,
            src: from,
            bytes: 0,
        };
        let gate = device.signal(&"long name ".repeat(1000)).unwrap();
        let wait = |value| Command::Wait {
            signal: &gate,
            value: Val::Const(value),
        };
        let none = exec(&args, [0, 5, 1], [1, 1, 1]);
        compute.submit(&[], &[none, nothing, wait(0)]).unwrap();
        let held = compute.submit(&[], &[wait(u64::MAX)]).unwrap();
        let now = held.wait(Deadline::after(Duration::ZERO)).unwrap_err();
        assert!(matches!(now, Error::Timeout { .. }), "{now}");
        gate.set(u64::MAX).unwrap();
        held.wait(Deadline::after(Duration::MAX)).unwrap();
        device.synchronize(soon()).unwrap();
        drop((compute, copies, data, step, gate, held, device));
        let broken = twin.machine().journal.violations();
        let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "{config}: {}", broken.join("\n"));
    }
}

/// A command whose words take many times the ring, and one that just fits, on rings from the smallest.
#[test]
fn submissions_of_any_length_pass_through_any_ring() {
    for config in CONFIGS {
        let chip = config["chip=".len()..].split(',').next().unwrap();
        let image = stand::kernel(chip, "step", 2);
        let twin = twin(config);
        for ring in [0, 5000] {
            let options = Options {
                compute_ring: ring,
                copy_ring: ring,
                kernargs: 0,
                ..options()
            };
            let device = drivers_amd::open(&machine(&twin), 0, &options).unwrap();
            let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
            let data = memory(&*device, MemoryKind::Device, 4096).unwrap();
            data.write(0, &[0; 64]).unwrap();
            let step = device.load(&image).unwrap();
            let args = [at(&data), Val::Const(1)];
            let exec = Command::Exec {
                program: &step,
                args: &args,
                grid: [16, 1, 1],
                block: [1, 1, 1],
            };
            let order = Command::Barrier {
                scope: Scope::Queue,
            };
            let (mut total, mut wanted) = (0, 0u32);
            // Many distances to the end of the ring, and far more than it holds.
            for count in (1..30).step_by(2).chain([250]) {
                let commands = [exec, order].repeat(count);
                compute.submit(&[], &commands).unwrap();
                total += count;
                for _ in 0..count {
                    wanted = wanted.wrapping_mul(3).wrapping_add(1);
                }
            }
            device.synchronize(soon()).unwrap();
            let mut seen = [0; 64];
            data.read(0, &mut seen).unwrap();
            assert!(
                seen.chunks(4).all(|word| word == wanted.to_le_bytes()),
                "{config}, ring {ring}, {total} launches"
            );
        }
        let broken = twin.machine().journal.violations();
        let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "{config}: {}", broken.join("\n"));
    }
}

#[test]
fn programs_for_others_are_refused() {
    let twin = twin("vram=1G");
    let device = drivers_amd::open(&machine(&twin), 0, &options()).unwrap();
    let image = stand::kernel("gfx1100", "step", 2);
    let other = stand::kernel("gfx1030", "step", 2);
    let mut lying = other.clone();
    lying.arch = "gfx1100".into();
    let mut absent = image.clone();
    absent.entry = "stop".into();
    let mut short = image.clone();
    short.bytes = image.bytes[..image.bytes.len() / 2].into();
    let mut wrong = image.clone();
    wrong.args = hcq::ArgLayout::buffers(3);
    let mut large = image.clone();
    large.local_bytes = u32::MAX;
    for (image, text) in [
        (other, "compiled for gfx1030, this device runs gfx1100"),
        (lying, "compiled for gfx1030, but the device is gfx1100"),
        (absent, "no such kernel; the object has"),
        (short, "64-bit ELF object"),
        (wrong, "takes 2 arguments, 3 are described"),
        (large, "4294967295 bytes of LDS"),
    ] {
        let error = device.load(&image).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Program { .. }), "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    device.load(&image).unwrap();
}

#[test]
fn what_is_kept_for_reuse_is_given_back_to_whoever_needs_it() {
    // Copies for the host need a queue of their own, whose memory is the host's.
    let twin = twin("chip=gfx1100,vram=64M,gtt=64M");
    let device = drivers_amd::open(&machine(&twin), 0, &options()).unwrap();
    for (kind, fill) in [
        (MemoryKind::Device, MemoryKind::Device),
        (MemoryKind::Control, MemoryKind::Host),
    ] {
        let large = memory(&*device, fill, 16 << 20).unwrap();
        let mut all = Vec::new();
        for bytes in [1 << 20, 128 << 10, 72 << 10] {
            while let Ok(buffer) = memory(&*device, fill, bytes) {
                all.push(buffer);
            }
        }
        // Now it is kept for the next buffer of its size.
        drop(large);
        assert_eq!(device.memory().cached, 16 << 20, "{kind:?}");
        // More than what is left of the arenas that there are.
        for _ in 0..40 {
            all.push(memory(&*device, kind, 64 << 10).unwrap_or_else(|e| panic!("{kind:?}: {e}")));
        }
        assert_eq!(device.memory().cached, 0, "{kind:?}");
    }
}
