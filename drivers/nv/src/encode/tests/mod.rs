//! What encoders give, and what they refuse.

mod commands;
mod launches;
mod properties;

use std::sync::Arc;

use drivers_spec::nv::chip::{Arch, CHIPS, method};
use drivers_spec::nv::cubin::bank0;
use drivers_spec::nv::{compute, copy, host, push as spec};
use hcq::{
    ArgKind, ArgLayout, Command, CommandBuffer, Compare, DeviceId, Error, GpuVa, Program,
    QueueKind, Result, Scope, Signal, SignalMemory, Slot, Val, Width,
};

use super::launch::Kernel;
use super::limits::Limits;
use super::local::LocalMemory;
use super::qmd::{Bank, Code};
use super::*;

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
    signal_at(0x60_0000_1010)
}

pub(crate) fn signal_at(va: u64) -> Signal {
    Signal::new("s", GpuVa(va), Arc::new(Absent))
}

/// A generation with the number that compilers have for one of its chips.
fn sm(arch: Arch) -> u32 {
    CHIPS.iter().find(|chip| chip.arch == arch).unwrap().sm
}

fn setup(arch: Arch, kind: QueueKind) -> Setup {
    Setup {
        device: DeviceId::new("NV", 0),
        kind,
        index: 1,
        arch,
        limits: Limits::of(sm(arch)).unwrap(),
        windows: Windows::DEFAULT,
        interrupt: None,
    }
}

pub(crate) fn encoder(arch: Arch, kind: QueueKind) -> Encoder {
    Encoder::new(setup(arch, kind))
}

fn encode(encoder: &Encoder, commands: &[Command<'_>]) -> CommandBuffer {
    let mut out = CommandBuffer::new();
    encoder.encode(commands, &mut out).unwrap();
    out
}

fn refused(encoder: &Encoder, command: Command<'_>) -> String {
    let mut out = CommandBuffer::new();
    encoder
        .encode(&[command], &mut out)
        .unwrap_err()
        .to_string()
}

pub(crate) const CODE: Code<'_> = Code {
    entry: 0x20_0a00_3080,
    bytes: 0x480,
    registers: 19,
    barriers: 1,
    shared_bytes: 0x800,
    local_bytes: 0,
    bank0_bytes: 0x400,
    banks: &[],
};

fn program_of(arch: Arch, code: Code<'_>, args: ArgLayout) -> Program {
    program_with(arch, code, args, false)
}

fn program_with(arch: Arch, code: Code<'_>, args: ArgLayout, by_address: bool) -> Program {
    let kernel = Kernel {
        arch,
        limits: Limits::of(sm(arch)).unwrap(),
        windows: Windows::DEFAULT,
        code,
        bank0: bank0(sm(arch)).unwrap(),
        param_bytes: args.bytes,
        max_threads: 1024,
        by_address,
    };
    Program {
        name: "kernel".into(),
        entry: GpuVa(code.entry),
        args,
        local_bytes: 0,
        launch_words: kernel.words().unwrap(),
        owner: Box::new(()),
    }
}

pub(crate) fn program(arch: Arch) -> Program {
    let layout = ArgLayout::new([
        ArgKind::Buffer,
        ArgKind::Value(Width::W32),
        ArgKind::Value(Width::W64),
    ]);
    program_of(arch, CODE, layout)
}

/// Every method that words set, with its data: they are whole, known, and have no bits beside their fields.
fn methods(arch: Arch, words: &[u32]) -> Vec<(&'static str, u32)> {
    use spec::header::*;
    let mut rest = words;
    let mut found = Vec::new();
    while let Some((&header, after)) = rest.split_first() {
        assert_eq!(header & !spec::HEADER.mask(arch), 0, "{header:#x}");
        let (first, count) = (METHOD_ADDRESS.get(header), METHOD_COUNT.get(header));
        let subchannel = METHOD_SUBCHANNEL.get(header);
        let (data, after) = match SEC_OP.get(header) {
            SEC_OP_IMMD_DATA_METHOD => (vec![count], after),
            SEC_OP_INC_METHOD => {
                let (data, after) = after.split_at(count as usize);
                (data.to_vec(), after)
            }
            op => panic!("{op}"),
        };
        for (i, data) in data.into_iter().enumerate() {
            let dword = first + i as u32;
            let table = match (dword < 0x40, subchannel) {
                (true, _) => host::METHODS,
                (_, spec::subchannel::COMPUTE) => compute::METHODS,
                (_, spec::subchannel::COPY) => copy::METHODS,
                other => panic!("{other:?}"),
            };
            let method = method(table, arch, dword).unwrap();
            let name = method.register.word.name;
            assert_eq!(data & !method.mask(arch), 0, "{arch:?} {name}: {data:#x}");
            found.push((name, data));
        }
        rest = after;
    }
    found
}
