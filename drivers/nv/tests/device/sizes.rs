//! Local memory that grows while kernels use it, shared memory up to what a chip has, and numbers that no
//! device has.

use std::sync::Arc;
use std::time::Duration;

use drivers_nv::NvDevice;
use hcq::graph::{GraphBuilder, Work};
use hcq::{
    AllocSpec, Buffer, Command, CommandBuffer, Compare, Deadline, Device, Error, MemoryKind,
    Program, QueueKind, Span, Stream, Val, Width,
};
use twin_nv::machine::TwinMachine;

use super::stand::{
    CHIPS, VAIN, at, ends, exec, kernel, machine, memory, options, soon, twin, words,
};

const GROUPS: u32 = 8;

/// A device with 16 bytes of ones a group, and room for their sums.
struct Bench {
    chip: &'static str,
    device: Arc<NvDevice>,
    compute: Stream,
    ones: Buffer,
    out: Buffer,
    twin: Arc<TwinMachine>,
}

impl Bench {
    fn new(chip: &'static str) -> Bench {
        let twin = twin(&format!("chip={chip}"));
        let device = drivers_nv::open(&machine(&twin), 0, &options()).unwrap();
        let bytes = u64::from(GROUPS) * 16;
        let ones = memory(&*device, MemoryKind::Host, bytes).unwrap();
        ones.write(0, &vec![1; bytes as usize]).unwrap();
        Bench {
            compute: Stream::new(device.queue(QueueKind::Compute, 0).unwrap()),
            out: memory(&*device, MemoryKind::Host, bytes).unwrap(),
            twin,
            chip,
            device,
            ones,
        }
    }

    fn load(&self, entry: &str) -> Arc<Program> {
        self.device.load(&kernel(self.chip, entry)).unwrap()
    }

    /// Sums, from a place of the output on.
    fn args(&self, at_group: u64) -> [Val; 2] {
        [Val::Const(self.out.va().0 + at_group * 4), at(&self.ones)]
    }

    /// The first two sums of each group, which are zeroed.
    fn sums(&self) -> [u32; 2 * GROUPS as usize] {
        let sums = words(&self.out).unwrap();
        self.out.write(0, &[0; 16 * GROUPS as usize]).unwrap();
        sums
    }

    /// Bytes of device memory in use once everything is done.
    fn used(&self) -> u64 {
        self.device.synchronize(soon()).unwrap();
        self.device.memory().used
    }

    fn ends(self, rules: &[&str]) {
        let Bench { twin, chip, .. } = self;
        drop((self.device, self.compute, self.ones, self.out));
        ends(&twin, rules, chip);
    }
}

#[test]
fn what_was_outgrown_is_freed_when_its_last_user_is_done() {
    for chip in CHIPS {
        let least = {
            let bench = Bench::new(chip);
            let programs = (bench.load("deep"), bench.load("sums"));
            let used = bench.used();
            drop(programs);
            bench.ends(&[]);
            used
        };
        let bench = Bench::new(chip);
        let sums = bench.load("sums");
        let gate = bench.device.signal("gate").unwrap();
        let wait = Command::Wait {
            signal: &gate,
            value: Val::Const(1),
        };
        bench.compute.submit(&[], &[wait]).unwrap();
        let small = bench.args(0);
        let one = exec(&sums, &small, GROUPS);
        let held = bench.compute.submit(&[], &[one]).unwrap();
        let deep = bench.load("deep");
        let large = bench.args(u64::from(GROUPS));
        let other = exec(&deep, &large, GROUPS);
        bench.compute.submit(&[], &[other]).unwrap();
        let both = bench.device.memory().used;
        assert!(both > least, "{chip}: one waits for the gate");
        gate.set(1).unwrap();
        held.wait(soon()).unwrap();
        assert_eq!(bench.used(), least, "{chip}");
        assert_eq!(bench.sums(), [16; 2 * GROUPS as usize], "{chip}");
        // Both fit the new one.
        let scope = hcq::Scope::Queue;
        let commands = [one, Command::Barrier { scope }, other];
        bench.compute.submit(&[], &commands).unwrap();
        assert_eq!(bench.used(), least, "{chip}");
        assert_eq!(bench.sums(), [16; 2 * GROUPS as usize], "{chip}");
        drop((sums, deep, gate, held));
        bench.ends(&[]);
    }
}

/// Packets and graphs that were made before it grew run as before: where it is, is the channel's.
#[test]
fn packets_and_graphs_of_before_use_what_has_grown() {
    for chip in CHIPS {
        let bench = Bench::new(chip);
        let sums = bench.load("sums");
        let args = bench.args(0);
        let queue = bench.device.queue(QueueKind::Compute, 0).unwrap();
        let mut packets = CommandBuffer::new();
        let one = exec(&sums, &args, GROUPS);
        queue.encode(&[one], &mut packets).unwrap();
        let mut builder = GraphBuilder::new();
        let shared: Arc<dyn Device> = bench.device.clone();
        let lane = builder.lane(&shared, &bench.compute);
        let work = Work::Exec {
            program: sums.clone(),
            args: bench.args(u64::from(GROUPS)).to_vec(),
            grid: [GROUPS, 1, 1],
            block: [1, 1, 1],
        };
        let span = |b: &Buffer| Span::at(b.va().0, b.bytes());
        builder.add(lane, "sums", work, [span(&bench.ones)], [span(&bench.out)]);
        let mut graph = builder.build().unwrap();
        let deep = bench.load("deep");
        let grown = bench.used();
        for _ in 0..3 {
            let again = queue.timeline().submit(|turn| {
                let (signal, signal_value) = (turn.signal(), turn.signal_value());
                turn.packets().clone_from(&packets);
                let value = signal_value.into();
                queue.encode(&[Command::Signal { signal, value }], turn.packets())?;
                queue.submit(turn)
            });
            again.unwrap();
            graph.replay(&[], &[], soon()).unwrap();
            assert_eq!(bench.used(), grown, "{chip}");
            assert_eq!(bench.sums(), [16; 2 * GROUPS as usize], "{chip}");
        }
        packets.clear();
        drop((graph, sums, deep, packets, queue, shared));
        bench.ends(&[]);
    }
}

/// More than the GPU has for all of its threads: that is said, and what is there works.
#[test]
fn local_memory_that_does_not_fit_is_refused() {
    for chip in CHIPS {
        let bench = Bench::new(chip);
        let sums = bench.load("sums");
        let before = bench.used();
        let error = bench.device.load(&kernel(chip, "vast")).unwrap_err();
        let Error::OutOfMemory { asked, total, .. } = &error else {
            panic!("{chip}: {error}");
        };
        assert!(asked >= total, "{error}");
        // The driver is not asked for more than there is; for all of it twice, once more after what is kept
        // for reuse was given back.
        let tries = if asked > total { 0 } else { 2 };
        assert_eq!(bench.used(), before, "{chip}");
        let args = bench.args(0);
        let done = bench.compute.submit(&[], &[exec(&sums, &args, GROUPS)]);
        done.unwrap().wait(soon()).unwrap();
        assert_eq!(bench.sums()[..8], [16; 8], "{chip}");
        drop(sums);
        bench.ends(&["RM-MEMORY-FULL"; 2][..tries]);
    }
}

/// Every size of shared memory, up to the last byte of a block, and none beyond.
#[test]
fn shared_memory_of_every_size_is_a_blocks_own() {
    for chip in CHIPS {
        let most = match chip {
            "h100" => 227 << 10,
            _ => 99 << 10,
        };
        let bench = Bench::new(chip);
        let load = |local_bytes| {
            let mut image = kernel(chip, "shared");
            image.local_bytes = local_bytes;
            bench.device.load(&image)
        };
        for bytes in [
            1,
            128,
            1024,
            7 << 10,
            48 << 10,
            (48 << 10) + 1,
            99 << 10,
            most,
        ] {
            let program = load(bytes).unwrap();
            let last = Val::Const(u64::from(bytes) - 1);
            let args = [at(&bench.out), last];
            let done = bench.compute.submit(&[], &[exec(&program, &args, 3)]);
            let done = done.unwrap().wait(soon());
            done.unwrap_or_else(|e| panic!("{chip}, {bytes} bytes: {e}"));
            assert_eq!(bench.sums()[0], 165, "{chip}, {bytes}");
        }
        for bytes in [most + 1, 1 << 20, u32::MAX] {
            let error = load(bytes).unwrap_err();
            assert!(matches!(error, Error::Program { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains(&format!("has {most}")), "{text}");
        }
        // Behind its end lies nothing that the kernel may use.
        let program = load(1024).unwrap();
        let args = [at(&bench.out), Val::Const(u64::from(most))];
        let done = bench.compute.submit(&[], &[exec(&program, &args, 1)]);
        let text = done.unwrap().wait(soon()).unwrap_err().to_string();
        assert!(text.contains("address out of range"), "{text}");
        drop(program);
        bench.ends(&["COMPUTE-EXCEPTION", VAIN]);
    }
}

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
    for config in ["chip=ga102", "chip=h100"] {
        let twin = twin(config);
        let device = drivers_nv::open(&machine(&twin), 0, &options()).unwrap();
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
        drop(device);
        assert_eq!(super::stand::left(&twin), [""; 0]);
    }
}

#[test]
fn any_command_is_done_or_refused() {
    for config in ["chip=ga102", "chip=h100"] {
        let twin = twin(config);
        let device = drivers_nv::open(&machine(&twin), 0, &options()).unwrap();
        let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
        let copies = Stream::new(device.queue(QueueKind::Copy, 0).unwrap());
        let data = memory(&*device, MemoryKind::Device, 1 << 20).unwrap();
        let step = device.load(&kernel(config, "step")).unwrap();
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
        let sized = |args, grid, block| Command::Exec {
            program: &step,
            args,
            grid,
            block,
        };
        for (grid, block) in [
            ([1, 1, 1], [0, 1, 1]),
            ([1, 1, 1], [1025, 1, 1]),
            ([1, 1, 1], [u32::MAX; 3]),
            ([1, 1, 1], [1, 1, 65]),
            ([u32::MAX; 3], [1, 1, 1]),
            ([u32::MAX, 1, 1], [1, 1, 1]),
            ([1, 65536, 1], [1, 1, 1]),
        ] {
            let error = compute.submit(&[], &[sized(&args, grid, block)]);
            let error = error.map(|_| ()).unwrap_err();
            let refused = matches!(error, Error::Command { .. });
            assert!(refused, "{grid:?} {block:?}: {error}");
        }
        let error = compute.submit(&[], &[sized(&args[..1], [1; 3], [1; 3])]);
        let text = error.map(|_| ()).unwrap_err().to_string();
        assert!(text.contains("1 arguments given"), "{text}");
        for index in [1, 7, u32::MAX] {
            let error = device.queue(QueueKind::Compute, index);
            let error = error.map(|_| ()).unwrap_err();
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
        let none = sized(&args, [0, 5, 1], [1, 1, 1]);
        compute.submit(&[], &[none, nothing, wait(0)]).unwrap();
        let most = u64::MAX >> 1;
        let held = compute.submit(&[], &[wait(most)]).unwrap();
        let now = held.wait(Deadline::after(Duration::ZERO)).unwrap_err();
        assert!(matches!(now, Error::Timeout { .. }), "{now}");
        gate.set(most).unwrap();
        held.wait(Deadline::after(Duration::MAX)).unwrap();
        device.synchronize(soon()).unwrap();
        drop((compute, copies, data, step, gate, held, device));
        ends(&twin, &[], config);
    }
}
