//! Our push buffers and QMDs beside those of a driver that has run on cards: decoded, and compared field by field for
//! the same operations. What differs is listed, with the reason, in `tests/golden/nv/differences.txt`.
#![allow(clippy::unwrap_used)] // A test may panic.

#[path = "streams/decode.rs"]
mod decode;
#[path = "../../amd/tests/streams/differences.rs"]
mod differences;

use std::path::Path;
use std::sync::Arc;

use decode::{Named, Names, decode, decode_qmd};
use differences::{Explained, compare};
use drivers_nv::encode::launch::Kernel;
use drivers_nv::encode::limits::{Limits, MAX_THREADS};
use drivers_nv::encode::local::LocalMemory;
use drivers_nv::encode::qmd::Code;
use drivers_nv::encode::{Encoder, Setup, Windows};
use drivers_spec::nv::chip::{Arch, CHIPS, sm_of};
use drivers_spec::nv::cubin::bank0;
use drivers_spec::nv::qmd::{self, Version};
use hcq::command_buffer::{Part, Section};
use hcq::{
    ArgLayout, Command, CommandBuffer, Compare, Deadline, DeviceId, GpuVa, Program, QueueKind,
    Result, Scope, Signal, SignalMemory, Slot, Val, Width,
};
use serde_json::Value;

const FILES: [&str; 4] = ["nak86", "cuda89", "nak89_580", "nak120"];
/// What stands for a word that a replay fills in.
const OPEN: u32 = 0xbadc_0ded;
/// Where the recorded driver had its signals and buffers.
const SIGNALS: [u64; 3] = [0x60_0000_1000, 0x60_0000_1010, 0x60_0000_1020];
const BUFFERS: [u64; 2] = [0x60_1000_0000, 0x60_2000_0000];

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

fn signal(va: u64) -> Signal {
    Signal::new("s", GpuVa(va), Arc::new(Absent))
}

fn load(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/nv");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn number(value: &Value) -> u64 {
    let text = value.as_str().unwrap().trim_start_matches("0x");
    u64::from_str_radix(text, 16).unwrap()
}

fn words(value: &Value) -> Vec<u32> {
    let list = value.as_array().unwrap();
    list.iter().map(|word| number(word) as u32).collect()
}

/// A QMD, with the zeros that were cut off.
fn structure(value: &Value, version: Version) -> Vec<u32> {
    let text = value.as_str().unwrap();
    let hex = |i: usize| match text.get(2 * i..2 * i + 2) {
        Some(byte) => u8::from_str_radix(byte, 16).unwrap(),
        None => 0,
    };
    let dword = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| hex(4 * i + byte)));
    (0..version.dwords()).map(dword).collect()
}

/// A recorded grid.
struct Grid {
    program: Program,
    grid: [u32; 3],
    block: [u32; 3],
}

/// The generation of a recording, as `Chip` has it.
#[derive(Clone, Copy)]
struct Recorded {
    arch: Arch,
    sm: u32,
}

impl Recorded {
    fn version(self) -> Version {
        *self.arch.facts().qmds.last().unwrap()
    }

    fn encoder(self, kind: QueueKind, timeline: u64) -> Encoder {
        Encoder::new(Setup {
            device: DeviceId::new("NV", 0),
            kind,
            index: 0,
            arch: self.arch,
            limits: Limits::of(self.sm).unwrap(),
            windows: Windows::DEFAULT,
            interrupt: Some(GpuVa(timeline)),
        })
    }

    /// The launch that a QMD starts. What a program is we take from it; what a launch makes of that we do not.
    fn grid(self, words: &[u32]) -> Grid {
        let version = self.version();
        let get = |field: qmd::Field| field.get(version, 0, words).unwrap();
        let local = get(qmd::SHADER_LOCAL_MEMORY_HIGH_SIZE);
        let code = Code {
            entry: qmd::PROGRAM_ADDRESS.get(version, 0, words).unwrap(),
            bytes: get(qmd::PROGRAM_PREFETCH_SIZE) * 256,
            registers: get(qmd::REGISTER_COUNT) as u32,
            barriers: get(qmd::BARRIER_COUNT) as u32,
            // What is the system's they leave out where a program has none of its own.
            shared_bytes: get(qmd::SHARED_MEMORY_SIZE).max(0x400) as u32,
            local_bytes: local as u32,
            // They say bytes where units of 16 are due, and Mesa's compiler has another layout.
            bank0_bytes: ((get(qmd::CONSTANT_BUFFER_SIZE) >> 4) as u32)
                .max(bank0(self.sm).unwrap().params)
                .next_multiple_of(16),
            banks: &[],
        };
        let kernel = Kernel {
            arch: self.arch,
            limits: Limits::of(self.sm).unwrap(),
            windows: Windows::DEFAULT,
            code,
            bank0: bank0(self.sm).unwrap(),
            param_bytes: 0,
            max_threads: MAX_THREADS,
            by_address: false,
        };
        Grid {
            program: Program {
                name: "kernel".into(),
                entry: GpuVa(code.entry),
                args: ArgLayout::default(),
                local_bytes: 0,
                launch_words: kernel.words().unwrap(),
                owner: Box::new(()),
            },
            grid: [qmd::GRID_WIDTH, qmd::GRID_HEIGHT, qmd::GRID_DEPTH].map(|f| get(f) as u32),
            block: [
                qmd::CTA_THREAD_DIMENSION0,
                qmd::CTA_THREAD_DIMENSION1,
                qmd::CTA_THREAD_DIMENSION2,
            ]
            .map(|f| get(f) as u32),
        }
    }

    /// What words do, and then the QMDs.
    fn decode(self, words: &[u32], qmds: &[Vec<u32>]) -> Vec<Named> {
        let mut all = decode(self.arch, words);
        let version = self.version();
        all.extend(qmds.iter().map(|words| decode_qmd(version, words)));
        all
    }

    /// Ours. Words that a submission fills in are marked as the recording has them.
    fn ours(self, mut packets: CommandBuffer) -> Vec<Named> {
        for patch in packets.patches.clone() {
            assert_eq!(patch.section, Section::Words);
            assert!(matches!(patch.part, Part::Low | Part::High));
            packets.words[patch.offset as usize / 4] = OPEN;
        }
        let base = 0x60_4000_0000;
        packets.relocate(base);
        let dwords = self.version().dwords();
        let mut qmds = Vec::new();
        for reloc in packets.relocs.iter() {
            if reloc.section == Section::Words {
                qmds.push(packets.data[reloc.add as usize / 4..][..dwords].to_vec());
            }
        }
        self.decode(&packets.words, &qmds)
    }
}

fn exec(grid: &Grid) -> Command<'_> {
    Command::Exec {
        program: &grid.program,
        args: &[],
        grid: grid.grid,
        block: grid.block,
    }
}

const BARRIER: Command<'_> = Command::Barrier {
    scope: Scope::Queue,
};

/// The commands of a recorded case.
fn case(recorded: Recorded, name: &str, grids: &[Grid]) -> CommandBuffer {
    let signals = SIGNALS.map(signal);
    let kind = match name.starts_with("dma") {
        true => QueueKind::Copy,
        false => QueueKind::Compute,
    };
    let encoder = recorded.encoder(kind, SIGNALS[0]);
    let mut out = CommandBuffer::new();
    let wait = |value| Command::Wait {
        signal: &signals[0],
        value: Val::Const(value),
    };
    let signal = |i: usize, value| Command::Signal {
        signal: &signals[i],
        value: Val::Const(value),
    };
    let time = |i: usize| Command::Timestamp {
        signal: &signals[i],
    };
    let write = |value, width| Command::Write {
        at: Val::Const(BUFFERS[0]),
        value: Val::Const(value),
        width,
    };
    let poll = |value| Command::Poll {
        at: Val::Const(BUFFERS[0]),
        mask: 0x10,
        value: Val::Const(value),
        compare: Compare::Equal,
        width: Width::W32,
    };
    let copy = |dst, src, bytes| Command::Copy {
        dst: Val::Const(dst),
        src: Val::Const(src),
        bytes,
    };
    let four = copy(BUFFERS[0], BUFFERS[1], 0x1000);
    let local = LocalMemory {
        base: GpuVa(0x60_6000_0000),
        bytes: 0,
        tpc_bytes: 0x4_8000,
        thread_bytes: 0x1000,
    };
    encoder.set_local(&local);
    let commands: Vec<Command<'_>> = match name {
        "wait" => vec![wait(0x1_1234_5678)],
        "signal" => vec![signal(0, 7)],
        "timestamp" => vec![time(0)],
        "write32" => vec![write(0xdead_beef, Width::W32)],
        "write64" => vec![write(0x1122_3344_5566_7788, Width::W64)],
        "poll_bit_set" => vec![poll(0x10)],
        "poll_bit_clear" => vec![poll(0)],
        "exec" => vec![exec(&grids[0])],
        "exec_signal" => vec![exec(&grids[0]), signal(0, 5)],
        "exec_signal_x3" => vec![exec(&grids[0]), signal(0, 5), signal(1, 6), signal(2, 7)],
        "exec_chain" => vec![exec(&grids[0]), BARRIER, exec(&grids[1]), signal(0, 5)],
        "exec_barrier_exec" => vec![exec(&grids[0]), BARRIER, exec(&grids[1])],
        "dma_copy_4k" => vec![four],
        "dma_copy_5g" => vec![copy(0x7000_0000_0000, 0x6000_0000_0000, 5 << 30)],
        "dma_wait" => vec![wait(4)],
        "dma_signal" => vec![signal(0, 5)],
        "dma_copyin" => vec![wait(4), four, signal(0, 5)],
        "setup_compute" | "dma_setup" => {
            encoder.open(&mut out);
            vec![]
        }
        "setup_local_mem" => {
            encoder.local_memory(&local, &mut out);
            vec![]
        }
        "memory_barrier" => {
            encoder.begin(&mut out);
            vec![]
        }
        "launch" | "launch_timed" => {
            encoder.encode(&[wait(4)], &mut out).unwrap();
            encoder.begin(&mut out);
            let grid = exec(&grids[0]);
            match name {
                "launch" => vec![grid, signal(0, 5)],
                _ => vec![time(1), grid, time(2), signal(0, 5)],
            }
        }
        other => panic!("{other}"),
    };
    encoder.encode(&commands, &mut out).unwrap();
    out
}

#[test]
fn every_difference_is_explained() {
    let mut explained = Explained::read("nv");
    let mut seen = 0;
    for name in FILES {
        let file = load(name);
        let sm = sm_of(number(&file["device"]["sm_version"]) as u32).unwrap();
        let arch = CHIPS.iter().find(|chip| chip.sm == sm).unwrap().arch;
        let recorded = Recorded { arch, sm };
        for theirs in file["cases"].as_array().unwrap() {
            let name_of = theirs["name"].as_str().unwrap();
            let qmds: Vec<_> = file["qmds"].as_array().unwrap().iter().collect();
            let of_case = |list: Vec<&Value>| -> Vec<Vec<u32>> {
                let own = list.into_iter().filter(|q| q["case"] == theirs["name"]);
                own.map(|q| structure(&q["bytes"], recorded.version()))
                    .collect()
            };
            let mut qmds_of_case = of_case(qmds.clone());
            // Equal ones were recorded once.
            let twice = ["exec_barrier_exec"].contains(&name_of);
            let wanted = 1 + usize::from(twice || name_of == "exec_chain");
            let launches = name_of.starts_with("exec") || name_of.starts_with("launch");
            while launches && qmds_of_case.len() < wanted {
                let first = structure(&qmds[0]["bytes"], recorded.version());
                qmds_of_case.insert(0, first);
            }
            let grids: Vec<_> = qmds_of_case
                .iter()
                .map(|words| recorded.grid(words))
                .collect();
            let theirs = recorded.decode(&words(&theirs["dwords"]), &qmds_of_case);
            let ours = recorded.ours(case(recorded, name_of, &grids));
            explained.see(
                &format!("{name_of}/{name}"),
                compare(&Names, &theirs, &ours),
            );
            seen += 1;
        }
    }
    assert!(seen >= 90, "{seen}");
    explained.see("graph", graph());
    explained.check();
}

/// The captured graph: three kernels with what a replay fills in still open. Of their QMDs the recording has what
/// launches start from.
fn graph() -> Vec<String> {
    let file = load("graph_nak89");
    let recorded = Recorded {
        arch: Arch::Ad10x,
        sm: 89,
    };
    let list = file["qmds"].as_array().unwrap().iter();
    let qmds: Vec<_> = list.map(|q| structure(q, recorded.version())).collect();
    let theirs = recorded.decode(&words(&file["dwords"]), &[]);
    let [kick, own] = [signal(0x10_0850_0fd0), signal(0x10_0850_0fc0)];
    let grids = qmds.iter().map(|words| Grid {
        grid: [1, 1, 1],
        block: [16, 1, 1],
        ..recorded.grid(words)
    });
    let grids: Vec<_> = grids.collect();
    let slot = |slot| Val::Slot(Slot(slot), 0);
    let encoder = recorded.encoder(QueueKind::Compute, 0x10_0850_0fc0);
    let mut out = CommandBuffer::new();
    encoder.begin(&mut out);
    let mut commands = vec![
        // Their timeline's address is open as well.
        Command::Poll {
            at: slot(0),
            mask: u64::MAX,
            value: slot(1),
            compare: Compare::GreaterEqual,
            width: Width::W64,
        },
        Command::Wait {
            signal: &kick,
            value: slot(2),
        },
        Command::Signal {
            signal: &own,
            value: slot(2),
        },
    ];
    for grid in &grids {
        commands.extend([exec(grid), BARRIER]);
    }
    encoder.encode(&commands, &mut out).unwrap();
    let mut ours = recorded.ours(out);
    ours.retain(|named| named.name != "QMD");
    compare(&Names, &theirs, &ours)
}
