//! Our driver on the twin, with kernels that were compiled before.

// Each user takes a part of it.
#![allow(dead_code)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use drivers_nv::{NvDevice, Options};
use hcq::graph::{Graph, GraphBuilder, Work};
use hcq::transport::Machine;
use hcq::{
    AllocSpec, ArgKind, ArgLayout, Buffer, Deadline, Device, KernelImage, MemoryKind, Program,
    Span, Stream, Val, Width,
};
use twin_nv::machine::TwinMachine;

/// The chips of which there are kernels, with the number that compilers have for them.
pub const CHIPS: [(&str, u32); 3] = [("ga102", 86), ("h100", 90), ("gb202", 120)];

/// A machine, and its GPU.
pub fn open(config: &str, options: &Options) -> (Arc<TwinMachine>, Arc<NvDevice>) {
    let twin = TwinMachine::new(config).unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let device = drivers_nv::open(&machine, 0, options).unwrap();
    (twin, device)
}

/// The kernel `first` of `kernels.cu`: blocks of 64 threads write a number, and count its variable up.
pub fn first(sm: u32) -> KernelImage {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/nv/cubin");
    KernelImage {
        name: "first".into(),
        arch: format!("sm_{sm}"),
        bytes: std::fs::read(folder.join(format!("sm_{sm}.cubin")))
            .unwrap()
            .into(),
        entry: "first".into(),
        args: ArgLayout::new([
            ArgKind::Buffer,
            ArgKind::Value(Width::W64),
            ArgKind::Value(Width::W32),
        ]),
        local_bytes: 0,
    }
}

/// Memory that the host sees, too.
pub fn memory(device: &dyn Device, bytes: u64) -> Buffer {
    let spec = AllocSpec {
        bytes,
        align: 256,
        kind: MemoryKind::Host,
        zeroed: true,
    };
    device.alloc(spec).unwrap()
}

/// An address as an operand.
pub fn at(buffer: &Buffer) -> Val {
    Val::Const(buffer.va().0)
}

/// A limit that only a hang reaches.
pub fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

/// A captured chain of launches of [`first`], each of which writes a number larger by one. The first so many count from a
/// value of the replay, the others from 0.
pub fn chain(
    device: &Arc<NvDevice>,
    compute: &Stream,
    program: &Arc<Program>,
    data: &Buffer,
    kernels: u64,
    taking: u64,
) -> Graph {
    let mut builder = GraphBuilder::new();
    let shared: Arc<dyn Device> = device.clone();
    let lane = builder.lane(&shared, compute);
    let slot = builder.slot().unwrap();
    let span = Span::at(data.va().0, data.bytes());
    for i in 0..kernels {
        let work = Work::Exec {
            program: program.clone(),
            args: vec![
                at(data),
                match i < taking {
                    true => Val::Slot(slot, i),
                    false => Val::Const(i),
                },
                Val::Const(1),
            ],
            grid: [1, 1, 1],
            block: [64, 1, 1],
        };
        builder.add(lane, "first", work, [span], [span]);
    }
    builder.build().unwrap()
}
