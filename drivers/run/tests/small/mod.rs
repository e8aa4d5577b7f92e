//! A small bundle, written by hand: `y = x + state`, then the state moves on by one row and takes the sum.
#![allow(dead_code, reason = "each test uses a part")]

#[path = "../../../cpu/tests/cc/mod.rs"]
mod cc;

use doorbell_run::plan::{
    About, Argument, CodeObject, Content, Element, Extent, Launch, Place, Port, Region, Step,
    TargetPlan,
};
use doorbell_run::write::BundleWriter;

/// Elements of a row.
pub const ROW: u64 = 8;
/// Rows of the queue.
pub const ROWS: u64 = 4;

/// `a[2] = a[0] + a[1]`, rows of 64-bit integers.
const ADD: &str = "typedef unsigned long u64; void kernel(const u64 *a, u64 b, u64 e) {
    for (u64 i = b; i < e; i++) ((u64 *)a[2])[i] = ((u64 *)a[0])[i] + ((u64 *)a[1])[i]; }";

/// Waits until the first element of the input is not 0.
pub const SPIN: &str = "typedef unsigned long u64; void kernel(const u64 *a, u64 b, u64 e) {
    while (*(volatile u64 *)a[0] == 0) {} for (u64 i = b; i < e; i++) ((u64 *)a[2])[i] = 7; }";

pub fn port(name: &str, rows: u64) -> Port {
    Port {
        name: name.into(),
        element: Element::I64,
        shape: vec![rows, ROW],
    }
}

fn at(region: u32, row: u64) -> Place {
    Place {
        region,
        offset: row * ROW * 8,
    }
}

fn rows(region: u32, row: u64, rows: u64) -> Extent {
    Extent {
        at: at(region, row),
        bytes: rows * ROW * 8,
    }
}

/// The plan for this processor: regions are the input, the output, the queue, and memory between them.
pub fn plan() -> TargetPlan {
    let row = ROW * 8;
    let region = |content, bytes| Region { content, bytes };
    TargetPlan {
        device: "CPU".into(),
        arch: std::env::consts::ARCH.into(),
        compiler: "cc".into(),
        regions: vec![
            region(Content::Input(0), row),
            region(Content::Output(0), row),
            region(Content::State(0), ROWS * row),
            region(Content::Own, (ROWS - 1) * row),
            region(Content::Constant(0), row),
        ],
        objects: vec![CodeObject {
            name: "add".into(),
            entry: "kernel".into(),
            offset: 0,
            bytes: 0,
            addresses: vec![true; 3],
            local_bytes: 0,
        }],
        steps: vec![
            // The oldest row of the queue, and the input.
            Step::Launch(Launch {
                object: 0,
                grid: [ROW as u32, 1, 1],
                block: [1, 1, 1],
                arguments: [at(0, 0), at(2, 0), at(1, 0)]
                    .map(Argument::Address)
                    .to_vec(),
                reads: vec![rows(0, 0, 1), rows(2, 0, 1)],
                writes: vec![rows(1, 0, 1)],
            }),
            // `queue[1:]`, through memory of its own: the ranges overlap.
            Step::Copy {
                to: at(3, 0),
                from: at(2, 1),
                bytes: (ROWS - 1) * row,
            },
            Step::Copy {
                to: at(2, 0),
                from: at(3, 0),
                bytes: (ROWS - 1) * row,
            },
            // `++ y`.
            Step::Copy {
                to: at(2, ROWS - 1),
                from: at(1, 0),
                bytes: row,
            },
        ],
        ..TargetPlan::default()
    }
}

/// The file, with changes to the plan, and with other code.
pub fn file(source: &str, change: impl FnOnce(&mut TargetPlan)) -> Vec<u8> {
    file_for(source, change, false)
}

/// The same, with the unchanged plan behind the changed one if `cpu` is true.
pub fn file_for(source: &str, change: impl FnOnce(&mut TargetPlan), cpu: bool) -> Vec<u8> {
    let first: Vec<u8> = (0..ROWS * ROW)
        .flat_map(|i| (i / ROW).to_le_bytes())
        .collect();
    let about = About {
        model: "small".into(),
        doorbell: "0.1.0".into(),
        ..About::default()
    };
    let (inputs, outputs) = (vec![port("x", 1)], vec![port("y", 1)]);
    let mut writer = BundleWriter::new(
        about,
        inputs,
        outputs,
        vec![(port("queue", ROWS), Some(first))],
    );
    let mut changed = plan();
    change(&mut changed);
    let code = cc::compile(&["-O1", "-fPIC"], source);
    for plan in std::iter::once(changed).chain(cpu.then(plan)) {
        let codes: Vec<&[u8]> = plan.objects.iter().map(|_| &code[..]).collect();
        writer.target(plan, &codes);
    }
    writer.finish().unwrap()
}

pub fn good() -> Vec<u8> {
    file(ADD, |_| ())
}

pub fn bytes(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub fn values(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(8);
    words
        .map(|w| u64::from_le_bytes(w.try_into().unwrap()))
        .collect()
}
