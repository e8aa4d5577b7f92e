//! What `cuda.c` and `torch.py` measure of NVIDIA's own, measured of ours, in lines of the same form: name, figure,
//! unit. What is timed is what a user waits for: from the call to its end.

use std::time::Instant;

use conformance::{Kernel, Rig};
use doorbell::{Error, Setup};
use hcq::{AllocSpec, Buffer, Command, Deadline, MemoryKind, Val};
use tensor::{DType, Jit, Rng, Tensor};

use crate::subject::Selected;

/// How often, and how much.
struct Sizes {
    launches: usize,
    samples: usize,
    /// Bytes of a copy.
    bytes: u64,
    /// Sides of products.
    sides: &'static [usize],
}

const REAL: Sizes = Sizes {
    launches: 2000,
    samples: 10,
    bytes: 256 << 20,
    sides: &[4096, 8192],
};

const SMALL: Sizes = Sizes {
    launches: 5,
    samples: 2,
    bytes: 64 << 10,
    sides: &[64],
};

/// Measures and prints.
pub fn run(small: bool) -> Result<(), Error> {
    let sizes = if small { SMALL } else { REAL };
    queues(&sizes)?;
    tensors(&sizes)
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

/// What kernels of the compiler reach.
fn tensors(sizes: &Sizes) -> Result<(), Error> {
    let engine = Setup::from_env()?.open()?.engine;
    let mut random = Rng::new(&engine, 7);
    let captured = |name: &str,
                    inputs: Vec<Tensor>,
                    work: f64,
                    unit: &str,
                    f: fn(&[Tensor]) -> tensor::Result<Tensor>| {
        for input in &inputs {
            input.realize()?;
        }
        let mut call = Jit::new(&engine, &[], |x: &[Tensor]| Ok(vec![f(x)?]));
        let mut run = || {
            call.call(&inputs)?;
            Ok(engine.synchronize()?)
        };
        run()?;
        let took = time(sizes.samples, run)?;
        row(name, work / took, unit);
        Ok::<(), Error>(())
    };
    let n = (sizes.bytes / 4) as usize;
    for dtype in [DType::F32, DType::BF16] {
        let x = random.rand(&[n / 1024, 1024], dtype)?;
        let bytes = (n * dtype.size()) as f64;
        captured(
            &format!("x + 1 of {dtype}, one way"),
            vec![x.clone()],
            bytes / 1e9,
            "GB/s",
            |x| x[0].add(1.0)?.contiguous(),
        )?;
        captured(
            &format!("sum of rows of {dtype}"),
            vec![x],
            bytes / 1e9,
            "GB/s",
            |x| x[0].sum(&[1], false),
        )?;
    }
    for &side in sizes.sides {
        let [a, b] = [(); 2].map(|()| random.rand(&[side, side], DType::BF16));
        captured(
            &format!("product of bf16, {side}"),
            vec![a?, b?],
            2.0 * (side as f64).powi(3) / 1e12,
            "TFLOP/s",
            |x| x[0].matmul(&x[1]),
        )?;
    }
    Ok(())
}
