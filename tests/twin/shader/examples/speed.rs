//! How fast waves run: kernels compiled by clang, on one thread and on all.
//!
//! `cargo run --release -p twin-shader --example speed [threads]`

#![allow(clippy::unwrap_used)]

#[path = "../tests/kernels/machine.rs"]
#[allow(dead_code)]
mod machine;

use machine::{Args, Machine, compile};
use twin_shader::isa::Gen;

const SOURCE: &str = include_str!("../tests/kernels/kernels.c");

/// What this thread has run so far in seconds, however many others want the processor; none on
/// systems that do not tell.
fn processor_time() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: f64 = stat.split(' ').next()?.parse().ok()?;
    Some(nanoseconds / 1e9)
}

fn report(what: &str, machine: &Machine, done: twin_shader::launch::Done) {
    let rate = done.instructions as f64 / machine.seconds;
    println!(
        "{what}: {} wave-instructions in {:.1} ms: {:.1} M/s, {:.1} ns each",
        done.instructions,
        machine.seconds * 1e3,
        rate / 1e6,
        1e9 / rate
    );
}

fn main() {
    let threads = std::env::args().nth(1).and_then(|n| n.parse().ok());
    for generation in Gen::ALL {
        let elf = compile(generation, "c", SOURCE, &[]);
        let mut machine = Machine::new(generation, elf);
        machine.threads = threads.unwrap_or(1);
        let n = 256u32;
        let a = machine.buffer(&vec![0x3f80_0000; (n * n) as usize]);
        let c = machine.buffer(&vec![0; (n * n) as usize]);
        let name = generation.processor();
        for kernel in ["matmul", "matmul", "matmul_registers"] {
            let (size, tile) = if kernel == "matmul" {
                ([16, 16, 1], 16)
            } else {
                ([64, 1, 1], 32)
            };
            let args = Args::new().u64(a).u64(a).u64(c).u32(n);
            let start = processor_time();
            let done = machine.run(kernel, [n / tile, n / tile, 1], size, &args);
            if let (1, Some(start), Some(end)) = (machine.threads, start, processor_time()) {
                machine.seconds = end - start;
            }
            match done {
                Ok(done) => report(&format!("{name} {kernel} {n}"), &machine, done),
                Err(broken) => println!("{name} {kernel}: {}", broken.unwrap()),
            }
            let wrong = machine
                .read(c, (n * n) as usize)
                .iter()
                .filter(|v| **v != (n as f32).to_bits())
                .count();
            assert_eq!(wrong, 0, "{name} {kernel}");
        }
        let args = Args::new().u64(c);
        if let Ok(done) = machine.run("collatz", [64, 1, 1], [64, 1, 1], &args) {
            report(&format!("{name} collatz"), &machine, done);
        }
    }
}
