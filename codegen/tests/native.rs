//! Compiled kernels against the interpreter.
#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used)]

mod support;

use codegen::ir::ReduceOp;
use codegen::{Backend, DType, Kernel, Options, build};
use support::*;

fn check(kernel: &Kernel, options: &Options, cores: usize, tolerance: f64) {
    check_on(kernel, &Backend::cpu_llvm(cores).unwrap(), options, tolerance);
}

fn check_on(kernel: &Kernel, backend: &Backend, options: &Options, tolerance: f64) {
    let cores = backend.target.cores;
    let mut random = Random(0x1234_5678_9abc_def1);
    let buffers = fill(kernel, &mut random);
    let want = expected(kernel, &buffers, &[]);
    let built = build(kernel, backend, options).unwrap_or_else(|e| panic!("{e}"));
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
    for (m, n, k) in [(64, 64, 64), (50, 70, 45), (37, 129, 33), (24, 40, 1100)] {
        for flags in [0, 3, 4, 5, 6] {
            check_all(&matmul(m, n, k, flags & 1 != 0, flags & 2 != 0, flags & 4 != 0), 1e-3);
        }
    }
}

/// Kernels of every form that the heuristics know.
fn corpus() -> Vec<(Kernel, f64)> {
    let mut all = vec![
        (elementwise(1000), 1e-6),
        (row_normalise(33, 130), 1e-4),
        (moments(40, 1000), 1e-3),
        (conv(2, 3, 5, 9, 3), 1e-4),
        (conv(1, 8, 16, 14, 3), 1e-4),
        (conv(1, 4, 4, 8, 1), 1e-4),
        (scatter_add(20, 60, 33), 0.0),
        (scatter_add(20, 60, 1), 0.0),
        (matmul(17, 31, 9, false, true, true), 1e-4),
        (matmul(64, 48, 100, true, false, true), 1e-4),
        (matmul(1, 300, 400, false, false, false), 1e-4),
        (matmul(300, 1, 400, false, false, false), 1e-4),
    ];
    for along in [false, true] {
        all.push((prefix(50, 40, ReduceOp::Add, along), 1e-4));
        all.push((prefix(7, 300, ReduceOp::Max, along), 0.0));
    }
    for axis in 0..3 {
        for op in [ReduceOp::Add, ReduceOp::Max, ReduceOp::Min, ReduceOp::Mul] {
            for dtype in [DType::I8, DType::U16, DType::I32, DType::I64, DType::F32, DType::F64] {
                all.push((cube_sum([9, 20, 33], axis, op, dtype), 1e-4));
            }
        }
        for op in [ReduceOp::And, ReduceOp::Or] {
            all.push((cube_sum([9, 20, 33], axis, op, DType::Bool), 0.0));
            all.push((cube_sum([9, 20, 33], axis, op, DType::U32), 0.0));
        }
    }
    for dtype in DType::ALL {
        all.push((transpose(33, 17, dtype), 0.0));
    }
    all
}

#[test]
fn every_form_of_kernel_through_llvm() {
    for (kernel, tolerance) in corpus() {
        check_all(&kernel, tolerance);
    }
}

#[test]
fn every_form_of_kernel_through_clang() {
    let backend = Backend::cpu_clang(4).unwrap();
    for (kernel, tolerance) in corpus() {
        check_on(&kernel, &backend, &Options::default(), tolerance);
    }
    check_on(&matmul(50, 70, 90, false, false, true), &backend, &Options::default(), 1e-3);
}
