//! How many instructions of warps run a second on one core: a product of matrices, and a loop of
//! divergent branches, from the recorded code.
//!
//! `cargo run --release -p twin-sass --example sass_speed`

#![allow(clippy::unwrap_used)] // As in the tests whose device this is.

#[path = "../tests/executor/device.rs"]
mod device;

use std::time::Instant;

use device::{Device, Grid};
use twin_sass::Chip;

fn main() {
    for (chip, watch) in Chip::ALL
        .into_iter()
        .flat_map(|chip| [(chip, false), (chip, true)])
    {
        let n: u32 = 128;
        let mut device = Device::new(chip, "matmul");
        device.watch = watch;
        let numbers: Vec<f32> = (0..n * n).map(|i| i as f32 / 1000.0).collect();
        let (a, b) = (device.singles(&numbers), device.singles(&numbers));
        let grid = Grid {
            blocks: [n / 16, n / 16, 1],
            threads: [16, 16, 1],
            shared: 2048,
        };
        report(chip, "matmul", watch, || {
            device.run(&grid, &[a, b, a, u64::from(n)])
        });

        let mut device = Device::new(chip, "diverge");
        device.watch = watch;
        let input = device.words(&(0..4096).collect::<Vec<_>>());
        let out = device.words(&[0; 4096]);
        let grid = Grid {
            blocks: [32, 1, 1],
            threads: [128, 1, 1],
            shared: 0,
        };
        report(chip, "diverge", watch, || device.run(&grid, &[input, out]));
    }
}

/// The best of some short times: others may compute on this machine, too.
fn report(chip: Chip, name: &str, watch: bool, mut run: impl FnMut() -> u64) {
    let mut best: f64 = 0.0;
    for _ in 0..20 {
        let start = Instant::now();
        let mut ran = 0;
        while start.elapsed().as_millis() < 25 {
            ran += run();
        }
        best = best.max(ran as f64 / start.elapsed().as_secs_f64() / 1e6);
    }
    println!(
        "{} {name}, control words {}: {best:.1} million instructions of warps a second",
        chip.name(),
        if watch { "watched" } else { "not watched" }
    );
}
