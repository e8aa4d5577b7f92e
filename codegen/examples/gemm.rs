//! Times matrix products against the multiply-add peak of one core.
//!
//! `cargo run --release -p codegen --features llvm --example gemm -- 512 1024 46x3072x1024`: squares,
//! and rows by columns by summed elements. `CORES` says how many the code is for.
#![allow(clippy::unwrap_used)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Instant;

use codegen::opt::contract::{Contraction, Tile};
use codegen::{Backend, Opt, Options, build};
use support::{Loaded, matmul};

fn seconds(loaded: &Loaded, buffers: &mut [Vec<u8>], scratch: &[u64], repeat: usize) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..repeat {
        let start = Instant::now();
        loaded.run_at(buffers, &[], scratch);
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

fn main() {
    let sizes: Vec<[i64; 3]> = std::env::args().skip(1).map(|a| size(&a)).collect();
    let sizes = if sizes.is_empty() {
        vec![[256; 3], [512; 3], [1024; 3]]
    } else {
        sizes
    };
    let cores = std::env::var("CORES").map_or(1, |n| n.parse().unwrap());
    let backend = Backend::find("CPU:LLVM", "", cores).unwrap();
    println!("peak: {:.1} GFLOP/s (f32 multiply-add, one core)", peak());
    let transposed = std::env::var_os("TRANSPOSED").is_some();
    for [m, n, k] in sizes {
        let kernel = matmul(m, n, k, false, transposed, false);
        let start = Instant::now();
        let built = build(&kernel, &backend, &options(&kernel)).unwrap();
        let compile = start.elapsed().as_secs_f64();
        let opts = built.report.opts.join(" | ");
        if std::env::var_os("SHOW").is_some() {
            println!("{}", built.report.linear.join("\n"));
            println!("{}", built.report.disassembly().unwrap());
        }
        let loaded = Loaded::new(built);
        let mut random = support::Random(88172645463325252);
        let mut buffers = support::fill(&kernel, &mut random);
        let memory: Vec<Vec<u64>> = loaded
            .built
            .scratch
            .iter()
            .map(|s| vec![0u64; s.bytes / 8 + 16])
            .collect();
        let scratch: Vec<u64> = memory
            .iter()
            .map(|m| (m.as_ptr() as u64).next_multiple_of(64))
            .collect();
        let s = seconds(&loaded, &mut buffers, &scratch, 10);
        let flops = 2.0 * (m * n * k) as f64;
        // Time on the processor does not see other programs; it is counted in scheduler ticks.
        let repeat = (2e9 / flops).ceil() as usize * 20;
        let before = processor_seconds();
        for _ in 0..repeat {
            loaded.run_at(&mut buffers, &[], &scratch);
        }
        let on_cpu = (processor_seconds() - before) / repeat as f64;
        println!(
            "{m}x{n}x{k}: {:.1} GFLOP/s by processor time",
            flops / on_cpu / 1e9
        );
        println!(
            "{m}x{n}x{k}: {:.1} GFLOP/s, {:.3} ms, compiled in {:.1} ms, {opts}",
            flops / s / 1e9,
            s * 1e3,
            compile * 1e3
        );
        loaded.time_stages(&mut buffers, &scratch);
    }
}

/// Rows, columns and summed elements: three numbers with an x between them, or one for all.
fn size(text: &str) -> [i64; 3] {
    let numbers: Vec<i64> = text.split('x').map(|n| n.parse().unwrap()).collect();
    match numbers[..] {
        [n] => [n; 3],
        [m, n, k] => [m, n, k],
        _ => panic!("{text}: expected N or MxNxK"),
    }
}

/// Time that this thread spent on a processor, as Linux counts it.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|n| n.parse::<f64>().ok())
        .unwrap_or(f64::NAN)
        / 1e9
}

/// `TILE=rows,cols,depth,row_block,col_block` instead of the sizes that the optimiser chooses; behind
/// them `swap`, `direct_rows` and `direct_cols`, where they hold.
fn options(kernel: &codegen::Kernel) -> Options {
    let mut options = Options {
        explain: true,
        ..Options::default()
    };
    let Ok(text) = std::env::var("TILE") else {
        return options;
    };
    let numbers: Vec<u32> = text.split(',').filter_map(|n| n.parse().ok()).collect();
    let (&[rows, cols, depth, row_block, col_block], Some(_)) =
        (&numbers[..], Contraction::find(kernel))
    else {
        panic!("TILE={text}: expected five numbers");
    };
    options.opts = Some(vec![Opt::Pack(Tile {
        rows,
        cols,
        lanes: 16,
        depth,
        row_block,
        col_block,
        acc: codegen::DType::F32,
        bytes: false,
        swap: text.contains("swap"),
        direct_rows: text.contains("direct_rows"),
        direct_cols: text.contains("direct_cols"),
    })]);
    options
}

#[cfg(target_arch = "x86_64")]
fn peak() -> f64 {
    if !std::arch::is_x86_feature_detected!("avx512f") {
        return f64::NAN;
    }
    // SAFETY: the feature was just detected.
    unsafe { peak512() }
}

#[cfg(not(target_arch = "x86_64"))]
fn peak() -> f64 {
    f64::NAN
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn peak512() -> f64 {
    use std::arch::x86_64::*;
    let mut best = 0f64;
    for _ in 0..20 {
        let mut acc = [_mm512_set1_ps(0.5); 24];
        let (a, b) = (_mm512_set1_ps(0.999), _mm512_set1_ps(1e-3));
        let rounds = 400_000;
        let start = Instant::now();
        for _ in 0..rounds {
            for x in &mut acc {
                *x = _mm512_fmadd_ps(*x, a, b);
            }
        }
        let t = start.elapsed().as_secs_f64();
        std::hint::black_box(acc);
        best = best.max(rounds as f64 * 24.0 * 32.0 / t / 1e9);
    }
    best
}
