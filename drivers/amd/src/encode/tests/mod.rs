//! What encoders give, and what they refuse.

mod commands;
mod launches;

use std::sync::Arc;

use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::{aql as spec_aql, kd, pm4 as spec_pm4, sdma as spec_sdma};
use hcq::command_buffer::{Part, Section};
use hcq::{
    ArgKind, ArgLayout, Command, CommandBuffer, Compare, DeviceId, Error, GpuVa, Program,
    QueueKind, Result, Scope, Signal, SignalMemory, Slot, Val, Width,
};

use super::*;
use crate::chip::{CHIPS, GFX942, GFX1030, GFX1100, GFX1201};

/// Encoding reads nothing of a signal but its address.
struct Absent;

impl SignalMemory for Absent {
    fn value(&self) -> Result<u64> {
        Err(Error::Graph("no memory".into()))
    }
    fn set(&self, _: u64) -> Result<()> {
        Err(Error::Graph("no memory".into()))
    }
    fn timestamp(&self) -> Result<u64> {
        Err(Error::Graph("no memory".into()))
    }
    fn wait(&self, _: u64, _: hcq::Deadline) -> Result<()> {
        Err(Error::Graph("no memory".into()))
    }
}

fn signal() -> Signal {
    Signal::new("s", GpuVa(0x7e00_0000_0010), Arc::new(Absent))
}

fn setup(chip: &'static Chip, xccs: u32) -> Setup {
    Setup {
        device: DeviceId::new("AMD", 0),
        kind: QueueKind::Compute,
        index: 1,
        chip,
        xccs,
        xcc_barrier: GpuVa(0),
        queue: GpuVa(0x7d00_0000_1000),
        fence: GpuVa(0x7d00_0000_2000),
        interrupt: None,
        recorded: crate::options::Recorded::default(),
    }
}

fn pm4(chip: &'static Chip) -> Encoder {
    Encoder::Pm4(Pm4::new(setup(chip, 1)))
}

fn aql(chip: &'static Chip, xccs: u32) -> Encoder {
    Encoder::Aql(Aql::new(setup(chip, xccs)))
}

fn sdma(chip: &'static Chip) -> Encoder {
    Encoder::Sdma(Sdma::new(Setup {
        kind: QueueKind::Copy,
        ..setup(chip, 1)
    }))
}

fn launch() -> Launch {
    Launch {
        code: GpuVa(0x7e30_0000_0100),
        rsrc: [1, 2, 3],
        properties: kd::ENABLE_SGPR_KERNARG_SEGMENT_PTR.put(1) as u16,
        preload: 0,
        private_bytes: 0,
        group_bytes: 0,
        kernarg_bytes: 20,
        kernarg_align: 8,
        hidden: None,
        max_threads: 256,
        required: None,
    }
}

/// A kernel of two addresses and a number of 4 bytes.
fn program(launch: Launch) -> Program {
    Program {
        name: "k".into(),
        entry: GpuVa(0x7e30_0000_0400),
        args: ArgLayout::new([ArgKind::Buffer, ArgKind::Buffer, ArgKind::Value(Width::W32)]),
        local_bytes: 0,
        launch_words: launch.words(),
        owner: Box::new(()),
    }
}

const ARGS: [Val; 3] = [
    Val::Const(0x7e10_0000_0000),
    Val::Slot(Slot(0), 0x40),
    Val::Slot(Slot(1), 0),
];

fn exec(program: &Program) -> Command<'_> {
    Command::Exec {
        program,
        args: &ARGS,
        grid: [2, 3, 4],
        block: [64, 1, 1],
    }
}

fn encode(encoder: &Encoder, commands: &[Command<'_>]) -> CommandBuffer {
    let mut out = CommandBuffer::new();
    encoder.encode(commands, &mut out).unwrap();
    out
}

fn refused(encoder: &Encoder, command: Command<'_>) -> String {
    let error = encoder
        .encode(&[command], &mut CommandBuffer::new())
        .unwrap_err();
    assert!(matches!(error, Error::Command { .. }), "{error:?}");
    error.to_string()
}

fn copy(bytes: u64) -> Command<'static> {
    Command::Copy {
        dst: Val::Const(0x7e10_0000_0001),
        src: Val::Slot(Slot(2), 3),
        bytes,
    }
}

fn barrier(scope: Scope) -> Command<'static> {
    Command::Barrier { scope }
}

/// The opcodes of PM4.
fn opcodes(words: &[u32]) -> Vec<u8> {
    let mut opcodes = Vec::new();
    let mut at = 0;
    while at < words.len() {
        opcodes.push(spec_pm4::OPCODE.get(words[at]) as u8);
        at += pm4::length(words[at]);
    }
    assert_eq!(at, words.len());
    opcodes
}
