//! Prints what a submission costs the host, and what a round trip takes.
//!
//! `cargo run --release -p drivers-cpu --example submit_cost -- kernel.o`, where the object
//! defines `void kernel(const unsigned long *args, unsigned long begin, unsigned long end)`.

use std::error::Error;
use std::time::{Duration, Instant};

use drivers_cpu::{Config, CpuDevice};
use hcq::{ArgLayout, Command, Deadline, KernelImage, QueueKind, Stream, Val};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("pass an object file with a function `kernel`")?;
    let device = CpuDevice::open(Config::default())?;
    let program = device.load(&KernelImage {
        name: "kernel".into(),
        arch: device.info().arch.clone(),
        bytes: std::fs::read(path)?.into(),
        entry: "kernel".into(),
        args: ArgLayout::buffers(1),
        local_bytes: 0,
    })?;
    let stream = Stream::new(device.queue(QueueKind::Compute, 0)?);
    let command = [Command::Exec {
        program: &program,
        args: &[Val::Const(0)],
        grid: [1, 1, 1],
        block: [1, 1, 1],
    }];
    let deadline = || Deadline::after(Duration::from_secs(10));

    // The ring holds more than one batch, so that the host never waits in it.
    let (batch, batches) = (500u32, 200u32);
    let mut submitting = Duration::ZERO;
    let mut fastest = Duration::MAX;
    for _ in 0..batches {
        let start = Instant::now();
        for _ in 0..batch {
            stream.submit(&[], &command)?;
        }
        let took = start.elapsed();
        submitting += took;
        fastest = fastest.min(took);
        stream.wait(deadline())?;
    }
    println!(
        "device      {} ({})",
        device.info().name,
        device.info().units
    );
    println!(
        "submit      {:?} on average",
        submitting / (batch * batches)
    );
    println!(
        "            {:?} in the fastest batch of {batch}",
        fastest / batch
    );

    let rounds = 2000u32;
    let start = Instant::now();
    for _ in 0..rounds {
        stream.submit(&[], &command)?.wait(deadline())?;
    }
    println!("round trip  {:?} on average", start.elapsed() / rounds);
    Ok(())
}
