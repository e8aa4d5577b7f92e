//! Loops that are unrolled, and what is folded then, give what the loops did, to the last bit.
use crate::support::*;

use codegen::build::planned;
use codegen::ir::{Kernel, ReduceOp};
use codegen::lower::decomp::Caps;
use codegen::lower::{Inst, Limits, Program, exec, fold, lower, narrow, unroll};
use codegen::{DType, Options, Target};

/// As far as a backend goes, a part of that, and none but what is folded.
const LIMITS: [Limits; 3] = [
    Limits {
        trips: 32,
        whole: 800,
        factor: 8,
        part: 250,
        program: 1000,
    },
    Limits {
        trips: 4,
        whole: 60,
        factor: 3,
        part: 60,
        program: 300,
    },
    Limits {
        trips: 1,
        whole: 0,
        factor: 1,
        part: 0,
        program: 0,
    },
];

fn loops(p: &Program) -> usize {
    let is_loop = |i: &&Inst| matches!(i, Inst::Loop { .. });
    p.insts.iter().filter(is_loop).count()
}

/// Runs a kernel with its loops and without; gives the loops that there are, and those that are left.
fn check(kernel: &Kernel, noopt: bool, narrowed: bool, limits: &Limits) -> [usize; 2] {
    let target = Target::qcom("a630", 0).unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut start = kernel.clone();
    start.sink = codegen::rewrite::simplify(&mut start.graph, start.sink);
    let options = Options {
        noopt,
        ..Options::default()
    };
    let (stages, scratch) = planned(&start, &target, &options).unwrap();
    let mut buffers = fill(kernel, &mut random);
    buffers.extend(scratch.iter().map(|s| vec![0x7f; s.bytes]));
    let mut others = buffers.clone();
    let mut found = [0, 0];
    for stage in &stages {
        let mut program = lower(&stage.kernel, &Caps::PLAIN).unwrap();
        if narrowed {
            narrow(&mut program);
        }
        let mut unrolled = unroll(&program, limits, &|_, ty| ty.lanes as usize);
        fold(&mut unrolled);
        let what = format!("{} {limits:?}\n{program}\n{unrolled}", kernel.name);
        for (p, memory) in [(&program, &mut buffers), (&unrolled, &mut others)] {
            exec::run(p, memory, &[], exec::ItemOrder::Backward)
                .unwrap_or_else(|e| panic!("{e}\n{what}"));
        }
        assert!(buffers == others, "other results\n{what}");
        found[0] += loops(&program);
        found[1] += loops(&unrolled);
    }
    found
}

#[test]
fn unrolled_loops_give_the_same() {
    let kernels = [
        elementwise(300),
        clamped(40, 3),
        matmul(12, 10, 9, false, true, true),
        matmul(17, 31, 20, true, false, false),
        row_normalise(3, 17),
        softmax(3, 70),
        moments(4, 30),
        cube_sum([3, 5, 33], 2, ReduceOp::Add, DType::F32),
        cube_sum([3, 5, 33], 0, ReduceOp::Max, DType::I8),
        cube_sum([3, 33, 5], 1, ReduceOp::Mul, DType::I64),
        cube_sum([3, 33, 5], 1, ReduceOp::And, DType::Bool),
        conv(1, 3, 5, 9, 3),
        padded_conv(2, 4, [6, 7], 3),
        weight_gradient(1, 2, 4, 6, 3),
        prefix(5, 20, ReduceOp::Add, true),
        prefix(5, 20, ReduceOp::Max, false),
        scatter(7, 40, 33, ReduceOp::Add, DType::F32),
        transpose(9, 17, DType::U16),
        shared_sum(5, 40),
    ];
    for (n, limits) in LIMITS.iter().enumerate() {
        let mut all = [0, 0];
        for kernel in &kernels {
            for (noopt, narrowed) in [(true, true), (true, false), (false, true), (false, false)] {
                let found = check(kernel, noopt, narrowed, limits);
                all = [all[0] + found[0], all[1] + found[1]];
            }
        }
        // The last limits unroll nothing.
        assert!(n == 2 || all[1] < all[0], "{all:?}");
    }
}
