//! Compiled kernels against the interpreter.
#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used)]

mod common;

use codegen::{Backend, Kernel, Options, build};
use common::*;

fn check(kernel: &Kernel, options: &Options, cores: usize, tolerance: f64) {
    let backend = Backend::cpu_llvm(cores).unwrap();
    let mut random = Random(0x1234_5678_9abc_def1);
    let buffers = fill(kernel, &mut random);
    let want = expected(kernel, &buffers, &[]);
    let built = build(kernel, &backend, options).unwrap_or_else(|e| panic!("{e}"));
    if std::env::var_os("SHOW").is_some() {
        for i in 0..built.stages.len() {
            eprintln!("{}\n{}\n{}", built.report.opts[i], built.report.after[i], built.report.linear[i]);
        }
    }
    let loaded = Loaded::new(built);
    let mut got = buffers.clone();
    loaded.run(&mut got, &[]);
    for (slot, p) in kernel.params.iter().enumerate() {
        let what = format!("{} cores {cores} buffer {slot} {:?}", kernel.name, loaded.built.report.opts);
        same(p.dtype, &got[slot], &want[slot], tolerance, &what);
    }
}

fn check_all(kernel: &Kernel, tolerance: f64) {
    check(kernel, &Options { noopt: true, ..Options::default() }, 1, tolerance);
    check(kernel, &Options::default(), 1, tolerance);
    check(kernel, &Options::default(), 4, tolerance);
}

#[test]
fn elementwise_of_any_length() {
    for n in [1, 2, 3, 15, 16, 17, 33, 1000, 100_003] {
        check_all(&elementwise(n), 1e-6);
    }
}

#[test]
fn rows_are_normalised_in_one_kernel() {
    for (r, n) in [(1, 1), (3, 7), (5, 16), (4, 100), (33, 130), (64, 1024)] {
        check_all(&row_normalise(r, n), 1e-4);
    }
}

#[test]
fn products_of_small_matrices() {
    for (m, n, k) in [(1, 1, 1), (3, 5, 7), (16, 16, 16), (17, 31, 9), (1, 64, 64), (64, 1, 64)] {
        for flags in 0..8 {
            check_all(&matmul(m, n, k, flags & 1 != 0, flags & 2 != 0, flags & 4 != 0), 1e-4);
        }
    }
}

#[test]
fn products_of_packed_matrices() {
    for (m, n, k) in [(64, 64, 64), (50, 70, 90), (37, 129, 33), (100, 33, 1500)] {
        for flags in [0, 3, 4, 5, 6] {
            check_all(&matmul(m, n, k, flags & 1 != 0, flags & 2 != 0, flags & 4 != 0), 1e-3);
        }
    }
}
