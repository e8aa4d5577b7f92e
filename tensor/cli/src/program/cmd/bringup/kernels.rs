//! Steps that run one kernel.

use codegen::ir::{Binary, Graph, Kernel, RangeKind, ReduceOp};
use codegen::target::TargetKind;
use codegen::{DType, Opt, Options};

use super::climb::{Climb, Outcome, compare, numbers};
use crate::program::error::Error;
use crate::program::kernels::{Loaded, smallest, storing};

fn load(climb: &mut Climb, kernel: &Kernel, opts: Option<Vec<Opt>>) -> Result<Loaded, Error> {
    let options = Options {
        opts,
        ..Options::default()
    };
    let opened = climb.opened()?;
    Loaded::new(&opened.device, &opened.backend, kernel, &options)
}

/// Whether kernels share nothing and spill to a stack.
fn is_cpu(climb: &mut Climb) -> Result<bool, Error> {
    Ok(climb.opened()?.backend.target.kind == TargetKind::Cpu)
}

/// Runs a kernel on inputs, and gives what it has written.
fn run(
    climb: &mut Climb,
    kernel: &Loaded,
    outputs: usize,
    inputs: &[&[f32]],
) -> Result<Vec<f32>, Error> {
    // What is not written shows.
    let mut buffers = vec![climb.holding(&vec![-1.0; outputs])?];
    for input in inputs {
        buffers.push(climb.holding(input)?);
    }
    let args = kernel.args(&buffers.iter().collect::<Vec<_>>());
    let stream = climb.compute()?;
    stream
        .submit(&[], &[kernel.exec(&args)])?
        .wait(climb.deadline())?;
    numbers(&buffers[0])
}

/// `out[i] = in[i] + 1` for so many elements.
pub fn adding(climb: &mut Climb, count: usize) -> Result<Loaded, Error> {
    let mut g = Graph::new();
    let input = g.param(1, DType::F32);
    let i = g.range(0, count as i64, RangeKind::Loop);
    let x = g.load(input, i);
    let one = g.bits(DType::F32, u64::from(1f32.to_bits()));
    let sum = g.binary(Binary::Add, x, one);
    load(climb, &storing("adding", g, i, sum, &[count, count]), None)
}

/// The smallest kernel.
pub fn kernel(climb: &mut Climb) -> Result<Outcome, Error> {
    let kernel = load(climb, &smallest(), None)?;
    let found = run(climb, &kernel, 1, &[&[41.0]])?;
    compare("41 + 1", &found, &[42.0])?;
    // Without the passes that it runs.
    let by = climb.opened()?.backend.describe();
    let by: Vec<_> = by.split_whitespace().take(3).collect();
    Ok(Outcome::Passed(vec![format!(
        "41 + 1 = 42, code of {} bytes at {:#x} by {}",
        kernel.stage.object.len(),
        kernel.program.entry.0,
        by.join(" ")
    )]))
}

/// Sums what the work-items of a group have read, through the memory that they share.
pub fn local(climb: &mut Climb) -> Result<Outcome, Error> {
    const COUNT: usize = 4096;
    const ITEMS: u32 = 64;
    if is_cpu(climb)? {
        return Ok(Outcome::Skipped("CPU threads have no local memory".into()));
    }
    let mut g = Graph::new();
    let (input, zero) = (g.param(1, DType::F32), g.index(0));
    let k = g.range(0, COUNT as i64, RangeKind::Reduce);
    let x = g.load(input, k);
    let sum = g.reduce(ReduceOp::Add, x, &[k]);
    let spread = Opt::Group { axis: 0, n: ITEMS };
    let kernel = load(
        climb,
        &storing("shared", g, zero, sum, &[1, COUNT]),
        Some(vec![spread]),
    )?;
    // Whole numbers below 2^24: every order gives the same.
    let input: Vec<f32> = (0..COUNT).map(|i| (i % 100) as f32).collect();
    let expected: f32 = input.iter().sum();
    let found = run(climb, &kernel, 1, &[&input])?;
    let bytes = kernel
        .resources
        .map_or(kernel.stage.local_bytes, |r| r.local);
    let what = format!(
        "the sum of {COUNT} numbers by {ITEMS} work-items through {bytes} bytes of local memory"
    );
    compare(&what, &found, &[expected])?;
    Ok(Outcome::Passed(vec![format!("{what} is {expected}")]))
}

/// A product whose sums are more than there are registers.
pub fn scratch(climb: &mut Climb) -> Result<Outcome, Error> {
    const ITEMS: usize = 64;
    const SIDE: usize = 24;
    const DEPTH: usize = 16;
    if is_cpu(climb)? {
        return Ok(Outcome::Skipped(
            "CPU threads have no scratch memory".into(),
        ));
    }
    let mut g = Graph::new();
    let (a, b) = (g.param(1, DType::F32), g.param(2, DType::F32));
    let item = g.range(0, ITEMS as i64, RangeKind::Loop);
    let row = g.range(1, SIDE as i64, RangeKind::Loop);
    let col = g.range(2, SIDE as i64, RangeKind::Loop);
    let k = g.range(3, DEPTH as i64, RangeKind::Reduce);
    let mut at = |outer, n: usize, inner| {
        let n = g.index(n as i64);
        let first = g.binary(Binary::Mul, outer, n);
        g.binary(Binary::Add, first, inner)
    };
    let line = at(item, SIDE, row);
    let (left, right, place) = (at(line, DEPTH, k), at(k, SIDE, col), at(line, SIDE, col));
    let (x, y) = (g.load(a, left), g.load(b, right));
    let product = g.binary(Binary::Mul, x, y);
    let sum = g.reduce(ReduceOp::Add, product, &[k]);
    let lens = [ITEMS * SIDE * SIDE, ITEMS * SIDE * DEPTH, DEPTH * SIDE];
    let side = SIDE as u32;
    let opts = [
        Opt::Local {
            axis: 0,
            n: ITEMS as u32,
        },
        Opt::Upcast { axis: 1, n: side },
        Opt::Upcast { axis: 2, n: side },
    ];
    let kernel = load(
        climb,
        &storing("spilling", g, place, sum, &lens),
        Some(opts.to_vec()),
    )?;
    let private = kernel.resources.map_or(0, |r| r.private);
    if private == 0 {
        let why = format!("the compiler keeps {SIDE} by {SIDE} sums in registers");
        return Ok(Outcome::Skipped(why));
    }
    let a: Vec<f32> = (0..lens[1]).map(|i| (i % 5) as f32).collect();
    let b: Vec<f32> = (0..lens[2]).map(|i| (i % 7) as f32).collect();
    let sums = |i: usize| {
        let (line, col) = (i / SIDE, i % SIDE);
        (0..DEPTH)
            .map(|k| a[line * DEPTH + k] * b[k * SIDE + col])
            .sum()
    };
    let expected: Vec<f32> = (0..lens[0]).map(sums).collect();
    let found = run(climb, &kernel, lens[0], &[&a, &b])?;
    let what = format!(
        "{SIDE} by {SIDE} sums of each of {ITEMS} work-items, {private} bytes of scratch each"
    );
    compare(&what, &found, &expected)?;
    Ok(Outcome::Passed(vec![format!("{what}: correct")]))
}
