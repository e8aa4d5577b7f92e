//! Prints what encoding one launch costs the host: its QMD and constant bank, a wait, a barrier, the launch and the
//! signal of the timeline.
//!
//! `cargo run --release -p drivers-nv --example nv_encode_cost`

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drivers_nv::encode::launch::Kernel;
use drivers_nv::encode::limits::Limits;
use drivers_nv::encode::qmd::Code;
use drivers_nv::encode::{Encoder, Setup, Windows};
use drivers_spec::nv::chip::{CHIPS, Chip};
use drivers_spec::nv::cubin::{Bank0, bank0};
use hcq::{
    ArgLayout, Command, CommandBuffer, Deadline, DeviceId, GpuVa, Program, QueueKind, Result,
    Scope, Signal, SignalMemory, Val,
};

/// Encoding reads nothing of a signal but its address.
struct Absent;

impl SignalMemory for Absent {
    fn value(&self) -> Result<u64> {
        Ok(0)
    }
    fn set(&self, _: u64) -> Result<()> {
        Ok(())
    }
    fn timestamp(&self) -> Result<u64> {
        Ok(0)
    }
    fn wait(&self, _: u64, _: Deadline) -> Result<()> {
        Ok(())
    }
}

/// A kernel of four buffers.
fn program(
    chip: &Chip,
    limits: &'static Limits,
    bank0: &'static Bank0,
) -> std::result::Result<Program, Box<dyn Error>> {
    let args = ArgLayout::buffers(4);
    let kernel = Kernel {
        arch: chip.arch,
        limits,
        windows: Windows::DEFAULT,
        code: Code {
            entry: 0x20_0a00_3080,
            bytes: 0x800,
            registers: 32,
            barriers: 1,
            shared_bytes: 0x400,
            local_bytes: 0,
            bank0_bytes: bank0.params + args.bytes,
            banks: &[],
        },
        bank0,
        param_bytes: args.bytes,
        max_threads: 1024,
        by_address: false,
    };
    Ok(Program {
        name: "kernel".into(),
        entry: GpuVa(kernel.code.entry),
        args,
        local_bytes: 0,
        launch_words: kernel.words()?,
        owner: Box::new(()),
    })
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let timeline = Signal::new("timeline", GpuVa(0x60_0000_1000), Arc::new(Absent));
    let other = Signal::new("copies", GpuVa(0x60_0000_1010), Arc::new(Absent));
    let (rounds, batch) = (2000u64, 100u64);
    let mut done = Vec::new();
    for chip in CHIPS.iter().rev() {
        // One chip of each generation.
        if done.contains(&chip.arch) {
            continue;
        }
        done.push(chip.arch);
        let (Some(limits), Some(bank0)) = (Limits::of(chip.sm), bank0(chip.sm)) else {
            continue;
        };
        let program = program(chip, limits, bank0)?;
        let encoder = Encoder::new(Setup {
            device: DeviceId::new("NV", 0),
            kind: QueueKind::Compute,
            index: 0,
            arch: chip.arch,
            limits,
            windows: Windows::DEFAULT,
            interrupt: Some(timeline.va()),
        });
        let mut packets = CommandBuffer::new();
        let mut fastest = Duration::MAX;
        let mut capacity = None;
        let started = Instant::now();
        for round in 0..rounds {
            let start = Instant::now();
            for i in 0..batch {
                packets.clear();
                let value = Val::Const(round * batch + i);
                let args = [0x60_1000_0000, 0x60_1100_0000, 0x60_1200_0000, 64].map(Val::Const);
                let wait = Command::Wait {
                    signal: &other,
                    value,
                };
                encoder.encode(&[wait], &mut packets)?;
                encoder.begin(&mut packets);
                let commands = [
                    Command::Barrier {
                        scope: Scope::Queue,
                    },
                    Command::Exec {
                        program: black_box(&program),
                        args: &args,
                        grid: [64, 1, 1],
                        block: [64, 1, 1],
                    },
                ];
                encoder.encode(black_box(&commands), &mut packets)?;
                let signal = Command::Signal {
                    signal: &timeline,
                    value,
                };
                encoder.encode(&[signal], &mut packets)?;
                packets.relocate(black_box(0x60_4000_0000));
                black_box(&packets.words);
            }
            fastest = fastest.min(start.elapsed());
            // A steady state takes no memory.
            let now = (packets.words.capacity(), packets.data.capacity());
            if *capacity.get_or_insert(now) != now {
                return Err("the packets grew".into());
            }
        }
        let all = started.elapsed().as_nanos() as u64;
        println!(
            "{}: {} ns on average, {} ns in the fastest batch, {} + {} dwords",
            chip.name,
            all / (rounds * batch),
            fastest.as_nanos() as u64 / batch,
            packets.words.len(),
            packets.data.len(),
        );
    }
    Ok(())
}
