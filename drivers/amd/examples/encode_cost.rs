//! Prints what encoding one launch costs the host: its arguments, a wait, a barrier, the launch and the
//! signal of the timeline.
//!
//! `cargo run --release -p drivers-amd --example encode_cost`

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drivers_amd::Recorded;
use drivers_amd::chip::{CHIPS, Chip, Language};
use drivers_amd::encode::{Aql, Encoder, Interrupt, Launch, Pm4, Sdma, Setup};
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

fn encoder(chip: &'static Chip, language: Language) -> Encoder {
    let setup = Setup {
        device: DeviceId::new("AMD", 0),
        kind: QueueKind::Compute,
        index: 0,
        chip,
        xccs: if language == Language::Aql { 8 } else { 1 },
        xcc_barrier: GpuVa(0),
        queue: GpuVa(0x7e00_0000_0000),
        fence: GpuVa(0x7e00_0000_1000),
        interrupt: Some(Interrupt {
            signal: GpuVa(0x7e00_0000_2000),
            mailbox: GpuVa(0x7e00_0000_3008),
            event: 1,
        }),
        recorded: Recorded::default(),
    };
    match language {
        Language::Pm4 => Encoder::Pm4(Pm4::new(setup)),
        Language::Aql => Encoder::Aql(Aql::new(setup)),
        Language::Sdma => Encoder::Sdma(Sdma::new(setup)),
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let launch = Launch {
        code: GpuVa(0x7e30_0000_0000),
        rsrc: [0x60bf_0081, 0x84, 0],
        properties: 8,
        preload: 0,
        private_bytes: 0,
        group_bytes: 0,
        kernarg_bytes: 32,
        kernarg_align: 8,
        hidden: None,
        max_threads: 1024,
        required: None,
    };
    let program = Program {
        name: "kernel".into(),
        entry: GpuVa(0x7e30_0000_0400),
        args: ArgLayout::buffers(4),
        local_bytes: 0,
        launch_words: launch.words(),
        owner: Box::new(()),
    };
    let timeline = Signal::new("timeline", GpuVa(0x7e00_0000_2000), Arc::new(Absent));
    let other = Signal::new("copies", GpuVa(0x7e00_0000_2010), Arc::new(Absent));

    let (rounds, batch) = (2000u64, 100u64);
    for chip in CHIPS {
        for language in [Language::Pm4, Language::Aql] {
            let encoder = encoder(chip, language);
            let mut packets = CommandBuffer::new();
            let mut fastest = Duration::MAX;
            let mut capacity = None;
            let started = Instant::now();
            for round in 0..rounds {
                let start = Instant::now();
                for i in 0..batch {
                    packets.clear();
                    let value = Val::Const(round * batch + i);
                    let args = [0x7e10_0000_0000, 0x7e11_0000_0000, 0x7e12_0000_0000, 64];
                    let args = args.map(Val::Const);
                    let wait = Command::Wait {
                        signal: &other,
                        value,
                    };
                    encoder.encode(&[wait], &mut packets)?;
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
                    packets.relocate(black_box(0x7e20_0000_0000));
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
                "{} {language:?}: {} ns on average, {} ns in the fastest batch, {} + {} dwords",
                chip.name,
                all / (rounds * batch),
                fastest.as_nanos() as u64 / batch,
                packets.words.len(),
                packets.data.len(),
            );
        }
    }
    Ok(())
}
