//! Prints what a launch of a small kernel and a copy of 64 MB take on the first device of OpenCL: `scripts/bench-cl` compares that
//! with a plain program of the same calls.

use std::error::Error;
use std::time::{Duration, Instant};

use drivers_cl::{Options, open, survey};
use hcq::{
    AllocSpec, ArgKind, ArgLayout, Command, Deadline, KernelImage, MemoryKind, QueueKind, Stream,
    Val, Width,
};

/// As in `plain.c`, but for the parameters of a buffer.
const SOURCE: &str = "
__attribute__((reqd_work_group_size(64, 1, 1)))
__kernel void start(__global uchar *object, const ulong offset, const long value) {
  __global uint *data = (__global uint *)(object + offset);
  data[get_global_id(0)] = data[get_global_id(0)] * 3 + (uint)value;
}
";

const GROUPS: u32 = 64;
const ITEMS: u32 = 64;
const BYTES: u64 = 64 << 20;
/// Launches that are waited for together.
const BATCH: usize = 100;

/// The shortest of so many runs.
fn fastest(
    rounds: u32,
    mut run: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<Duration, Box<dyn Error>> {
    let mut best = Duration::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

fn main() -> Result<(), Box<dyn Error>> {
    let all = survey(None)?;
    let found = all.first().ok_or("OpenCL has no device")?;
    let device = open(found, &Options::default())?;
    let number = ArgKind::Value(Width::W64);
    let program = device.load(&KernelImage {
        name: "small".into(),
        arch: device.info().arch.clone(),
        bytes: SOURCE.as_bytes().into(),
        entry: "start".into(),
        args: ArgLayout::new([ArgKind::Buffer, number]),
        local_bytes: 0,
    })?;
    let stream = Stream::new(device.queue(QueueKind::Compute, 0)?);
    let deadline = || Deadline::after(Duration::from_secs(60));
    let data = device.alloc(AllocSpec {
        zeroed: true,
        ..AllocSpec::device(u64::from(GROUPS * ITEMS) * 4)
    })?;
    let args = [Val::Const(data.va().0), Val::Const(1)];
    let launch = Command::Exec {
        program: &program,
        args: &args,
        grid: [GROUPS, 1, 1],
        block: [ITEMS, 1, 1],
    };
    let one = fastest(2000, || {
        stream.submit(&[], &[launch])?.wait(deadline())?;
        Ok(())
    })?;
    let batch = vec![launch; BATCH];
    let many = fastest(50, || {
        stream.submit(&[], &batch)?.wait(deadline())?;
        Ok(())
    })?;
    let to = device.alloc(AllocSpec::device(BYTES))?;
    let from = device.alloc(AllocSpec {
        kind: MemoryKind::Host,
        zeroed: true,
        ..AllocSpec::device(BYTES)
    })?;
    let copy = Command::Copy {
        dst: Val::Const(to.va().0),
        src: Val::Const(from.va().0),
        bytes: BYTES,
    };
    let copied = fastest(20, || {
        stream.submit(&[], &[copy])?.wait(deadline())?;
        Ok(())
    })?;
    println!("{} ({})", device.info().name, found.place());
    println!("{} ns for a launch and its end", one.as_nanos());
    println!(
        "{} ns for each of {BATCH} launches and their end",
        many.as_nanos() / BATCH as u128
    );
    println!("{} ns for 64 MB to the device", copied.as_nanos());
    Ok(())
}
