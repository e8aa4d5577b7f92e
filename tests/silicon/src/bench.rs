//! What `cuda.c` and `torch_beside.py` measure of NVIDIA's own, measured of ours, in lines of the same form: name, figure,
//! unit. What is timed is what a user waits for: from the call to its end.

use std::time::Instant;

use conformance::{Kernel, Rig};
use doorbell::{Error, Setup};
use hcq::{AllocSpec, Buffer, Command, Deadline, MemoryKind, Val};
use tensor::ops::attention::Attention;
use tensor::{DType, Engine, Jit, Rng, Tensor};

use crate::expressions;
use crate::subject::Selected;

/// How often, and how much.
struct Sizes {
    launches: usize,
    samples: usize,
    /// Bytes of a copy.
    bytes: u64,
    /// Sides of products.
    sides: &'static [usize],
    /// Queries of attention: images, heads, length, width.
    attention: [usize; 4],
}

/// A part of it.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Launches and copies
    Queues,
    /// Sums, products, attention
    Tensors,
    /// Ten expressions that are fused
    Expressions,
}

const REAL: Sizes = Sizes {
    launches: 2000,
    samples: 10,
    bytes: 256 << 20,
    sides: &[4096, 8192],
    attention: [4, 16, 4096, 128],
};

const SMALL: Sizes = Sizes {
    launches: 5,
    samples: 2,
    bytes: 64 << 10,
    sides: &[64],
    attention: [1, 2, 32, 16],
};

/// Measures and prints: what takes longest comes last.
pub fn run(small: bool, only: Option<Part>) -> Result<(), Error> {
    let sizes = if small { SMALL } else { REAL };
    let wanted = |part| only.is_none_or(|only| only == part);
    if wanted(Part::Queues) {
        queues(&sizes)?;
    }
    if only == Some(Part::Queues) {
        return Ok(());
    }
    let engine = Setup::from_env()?.open()?.engine;
    if wanted(Part::Expressions) {
        expressions(&engine, &sizes)?;
    }
    if wanted(Part::Tensors) {
        tensors(&engine, &sizes)?;
    }
    Ok(())
}

/// The middle one of some times.
fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The middle time of a call, after one that warms up.
fn time(times: usize, mut call: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    call()?;
    let mut all = Vec::with_capacity(times);
    for _ in 0..times {
        let start = Instant::now();
        call()?;
        all.push(start.elapsed().as_secs_f64());
    }
    Ok(median(all))
}

fn row(name: &str, value: f64, unit: &str) {
    println!("{name}: {value:.3} {unit}");
}

fn soon() -> Deadline {
    Deadline::after(std::time::Duration::from_secs(60))
}

/// A launch, and copies between host and device.
fn queues(sizes: &Sizes) -> Result<(), Error> {
    let subject = Selected::new()?;
    let rig = Rig::open(&subject, 0, 16 << 10);
    let step = rig.program(Kernel::Step);
    let data = rig.data(&[0; 16]);
    let args = [Val::Const(data.va().0), Val::Const(1)];
    let launch = Command::Exec {
        program: &step,
        args: &args,
        grid: [1, 1, 1],
        block: [1, 1, 1],
    };
    let took = time(sizes.launches, || {
        Ok(rig.compute.submit(&[], &[launch])?.wait(soon())?)
    })?;
    row("launch to completion", took * 1e6, "us");
    let buffer = |kind| {
        let spec = AllocSpec {
            bytes: sizes.bytes,
            align: 64,
            kind,
            zeroed: true,
        };
        rig.device.alloc(spec)
    };
    let host = buffer(MemoryKind::Host)?;
    let (device, other) = (buffer(MemoryKind::Device)?, buffer(MemoryKind::Device)?);
    let copy = |name: &str, dst: &Buffer, src: &Buffer| {
        let command = Command::Copy {
            dst: Val::Const(dst.va().0),
            src: Val::Const(src.va().0),
            bytes: sizes.bytes,
        };
        let took = time(sizes.samples, || {
            Ok(rig.copy.submit(&[], &[command])?.wait(soon())?)
        })?;
        row(name, sizes.bytes as f64 / took / 1e9, "GB/s");
        Ok::<(), Error>(())
    };
    copy("copy host to device", &device, &host)?;
    copy("copy device to host", &host, &device)?;
    // Read and written.
    copy("copy on the device, one way", &other, &device)
}

/// The middle time of a captured call on tensors that are there.
fn captured(
    engine: &Engine,
    sizes: &Sizes,
    inputs: &[Tensor],
    f: expressions::Expression,
) -> Result<f64, Error> {
    for input in inputs {
        input.realize()?;
    }
    let call = Jit::new(engine, |x: &[Tensor]| Ok(vec![f(x)?.contiguous()?]));
    let run = || {
        call.call(inputs)?;
        Ok(engine.synchronize()?)
    };
    run()?;
    time(sizes.samples, run)
}

/// Fused expressions, in microseconds.
fn expressions(engine: &Engine, sizes: &Sizes) -> Result<(), Error> {
    let mut random = Rng::new(engine, 7);
    let rows = (sizes.bytes / 4 / 1024) as usize;
    let mut inputs = Vec::new();
    for shape in [&[rows, 1024][..], &[rows, 1024], &[1024], &[1024]] {
        inputs.push(random.rand(shape, DType::F32)?);
    }
    for (name, expression) in expressions::ALL {
        row(
            name,
            captured(engine, sizes, &inputs, expression)? * 1e6,
            "us",
        );
    }
    Ok(())
}

/// What kernels of the compiler reach.
fn tensors(engine: &Engine, sizes: &Sizes) -> Result<(), Error> {
    let mut random = Rng::new(engine, 7);
    let n = (sizes.bytes / 4) as usize;
    for dtype in [DType::F32, DType::BF16] {
        let x = [random.rand(&[n / 1024, 1024], dtype)?];
        let bytes = (n * dtype.size()) as f64 / 1e9;
        let took = captured(engine, sizes, &x, |x| x[0].add(1.0))?;
        row(&format!("x + 1 of {dtype}, one way"), bytes / took, "GB/s");
        let took = captured(engine, sizes, &x, |x| x[0].sum(&[1], false))?;
        row(&format!("sum of rows of {dtype}"), bytes / took, "GB/s");
    }
    for &side in sizes.sides {
        let [a, b] = [(); 2].map(|()| random.rand(&[side, side], DType::BF16));
        let took = captured(engine, sizes, &[a?, b?], |x| x[0].matmul(&x[1]))?;
        let work = 2.0 * (side as f64).powi(3) / 1e12;
        row(&format!("product of bf16, {side}"), work / took, "TFLOP/s");
    }
    let shape = sizes.attention;
    let [q, k, v] = [(); 3].map(|()| random.rand(&shape, DType::BF16));
    let took = captured(engine, sizes, &[q?, k?, v?], |x| {
        x[0].attention(&x[1], &x[2], &Attention::default())
    })?;
    let [images, heads, length, width] = shape;
    let work = 4.0 * (images * heads * length * length * width) as f64 / 1e12;
    row(
        &format!("attention of bf16, {images} {heads} {length} {width}"),
        work / took,
        "TFLOP/s",
    );
    Ok(())
}
