//! Every step of the optimiser keeps the meaning of a kernel, and so does the lowering: the
//! kernel before, after, and its linear program give the same.
use crate::support;

use codegen::ir::{Kernel, ReduceOp};
use codegen::lower::decomp::Caps;
use codegen::lower::{exec, lower, share};
use codegen::opt::contract::Contraction;
use codegen::opt::{Opt, apply};
use codegen::target::Target;
use codegen::{DType, Opt as Step};
use support::*;

fn check(kernel: &Kernel, opts: &[Opt], tolerance: f64) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let buffers = fill(kernel, &mut random);
    let want = expected(kernel, &buffers, &[]);
    let mut opted = kernel.clone();
    for opt in opts {
        apply(&mut opted, opt).unwrap();
    }
    let compare = |got: &[Vec<u8>], how: &str| {
        for (slot, p) in kernel.params.iter().enumerate() {
            let what = format!("{} {opts:?} {how}", kernel.name);
            same(p.dtype, &got[slot], &want[slot], tolerance, &what);
        }
    };
    compare(&expected(&opted, &buffers, &[]), "interpreted");
    let program = lower(&opted, &Caps::PLAIN).unwrap();
    for order in [exec::ItemOrder::Forward, exec::ItemOrder::Backward] {
        let mut got = buffers.clone();
        exec::run(&program, &mut got, &[], order).unwrap_or_else(|e| panic!("{e}\n{program}"));
        compare(&got, &format!("lowered\n{program}"));
    }
    let mut shared = program;
    share(&mut shared);
    let mut got = buffers.clone();
    exec::run(&shared, &mut got, &[], exec::ItemOrder::Forward)
        .unwrap_or_else(|e| panic!("{e}\n{shared}"));
    compare(&got, &format!("with numbers as arguments\n{shared}"));
}

#[test]
fn one_step_at_a_time_on_a_product() {
    let kernel = matmul(12, 10, 9, false, true, true);
    check(&kernel, &[], 1e-5);
    for opt in [
        Step::Vec { axis: 0, lanes: 4 },
        Step::Vec { axis: 1, lanes: 8 },
        Step::Vec { axis: 2, lanes: 4 },
        Step::Cover { axis: 0, lanes: 8 },
        Step::Cover { axis: 1, lanes: 4 },
        Step::Cover { axis: 1, lanes: 2 },
        Step::Upcast { axis: 0, n: 5 },
        Step::Upcast { axis: 1, n: 2 },
        Step::Unroll { axis: 2, n: 3 },
        Step::Unroll { axis: 2, n: 4 },
        Step::Local { axis: 0, n: 4 },
        Step::Local { axis: 1, n: 5 },
        Step::Group { axis: 2, n: 3 },
        Step::Thread { axis: 0, chunk: 1 },
        Step::Thread { axis: 0, chunk: 5 },
        Step::Thread { axis: 1, chunk: 2 },
        Step::PadTo {
            axis: 0,
            multiple: 8,
        },
        Step::PadTo {
            axis: 1,
            multiple: 16,
        },
        Step::PadTo {
            axis: 2,
            multiple: 4,
        },
        Step::Swap { a: 0, b: 1 },
    ] {
        check(&kernel, &[opt], 1e-5);
    }
}

#[test]
fn steps_combine() {
    let kernel = matmul(12, 20, 9, false, false, true);
    let lists: &[&[Opt]] = &[
        &[
            Step::Vec { axis: 1, lanes: 8 },
            Step::Upcast { axis: 0, n: 4 },
            Step::Unroll { axis: 2, n: 2 },
            Step::Thread { axis: 0, chunk: 2 },
        ],
        &[
            Step::PadTo {
                axis: 1,
                multiple: 16,
            },
            Step::Vec { axis: 1, lanes: 16 },
        ],
        &[
            Step::Local { axis: 0, n: 4 },
            Step::Local { axis: 1, n: 5 },
            Step::Thread { axis: 0, chunk: 1 },
            Step::Thread { axis: 1, chunk: 1 },
        ],
        &[
            Step::Group { axis: 2, n: 3 },
            Step::Vec { axis: 1, lanes: 4 },
            Step::Thread { axis: 0, chunk: 1 },
        ],
        &[Step::Group { axis: 2, n: 3 }, Step::Local { axis: 0, n: 3 }],
    ];
    for list in lists {
        check(&kernel, list, 1e-5);
    }
}

#[test]
fn rows_with_several_reductions() {
    for kernel in [row_normalise(6, 24), moments(5, 32)] {
        check(&kernel, &[], 1e-4);
        check(&kernel, &[Step::Vec { axis: 1, lanes: 8 }], 1e-4);
        check(
            &kernel,
            &[
                Step::Unroll { axis: 1, n: 5 },
                Step::Vec { axis: 2, lanes: 4 },
            ],
            1e-4,
        );
        check(
            &kernel,
            &[Step::Group { axis: 1, n: 8 }, Step::Group { axis: 2, n: 8 }],
            1e-4,
        );
        check(&kernel, &[Step::Thread { axis: 0, chunk: 1 }], 1e-4);
        check(&kernel, &[Step::Thread { axis: 0, chunk: 4 }], 1e-4);
    }
    check(
        &row_normalise(6, 24),
        &[Step::Vec { axis: 0, lanes: 4 }],
        1e-4,
    );
}

#[test]
fn independent_reductions_share_a_loop() {
    let program = lower(&moments(4, 8), &Caps::PLAIN).unwrap();
    let loops = program.to_string().matches("loop ").count();
    assert_eq!(loops, 2, "{program}");
}

#[test]
fn reductions_over_any_axis() {
    for axis in 0..3 {
        for op in [ReduceOp::Add, ReduceOp::Max, ReduceOp::Mul] {
            let kernel = cube_sum([4, 5, 6], axis, op, DType::I32);
            check(&kernel, &[], 0.0);
            check(&kernel, &[Step::Unroll { axis: 2, n: 2 }], 0.0);
            check(&kernel, &[Step::Vec { axis: 2, lanes: 4 }], 0.0);
            check(&kernel, &[Step::Vec { axis: 1, lanes: 4 }], 0.0);
            check(&kernel, &[Step::Vec { axis: 0, lanes: 4 }], 0.0);
        }
    }
}

#[test]
fn gates_windows_scans_and_scatters() {
    let window = conv(1, 2, 3, 6, 3);
    check(&window, &[], 1e-5);
    check(&window, &[Step::Vec { axis: 3, lanes: 4 }], 1e-5);
    check(
        &window,
        &[
            Step::Upcast { axis: 1, n: 3 },
            Step::Vec { axis: 3, lanes: 2 },
        ],
        1e-5,
    );
    for along in [false, true] {
        let scan = prefix(6, 9, ReduceOp::Add, along);
        check(&scan, &[], 1e-5);
        check(&scan, &[Step::Vec { axis: 0, lanes: 4 }], 1e-5);
        check(&scan, &[Step::Upcast { axis: 0, n: 3 }], 1e-5);
        check(&scan, &[Step::Thread { axis: 0, chunk: 2 }], 1e-5);
    }
    let scatter = scatter(15, 40, 10, ReduceOp::Add, DType::I32);
    check(&scatter, &[], 0.0);
    check(&scatter, &[Step::Vec { axis: 1, lanes: 8 }], 0.0);
    check(&scatter, &[Step::Thread { axis: 1, chunk: 5 }], 0.0);
}

#[test]
fn steps_that_do_not_apply_say_why() {
    let mut kernel = matmul(4, 4, 4, false, false, false);
    for opt in [
        Step::Vec { axis: 0, lanes: 3 },
        Step::Vec { axis: 0, lanes: 8 },
        Step::Cover { axis: 2, lanes: 2 },
        Step::Unroll { axis: 0, n: 2 },
        Step::Upcast { axis: 2, n: 2 },
        Step::Local { axis: 0, n: 3 },
        Step::Thread { axis: 9, chunk: 1 },
        Step::Merge { outer: 0, inner: 2 },
    ] {
        let message = apply(&mut kernel, &opt).unwrap_err().to_string();
        assert!(message.contains(&opt.to_string()), "{message}");
    }
}

#[test]
fn the_tail_of_a_loop_is_beside_it() {
    let mut kernel = elementwise(35);
    apply(&mut kernel, &Step::Vec { axis: 0, lanes: 16 }).unwrap();
    let program = lower(&kernel, &Caps::PLAIN).unwrap();
    let mut depth = 0;
    for inst in &program.insts {
        match inst {
            codegen::lower::Inst::Loop { .. } => depth += 1,
            codegen::lower::Inst::End => depth -= 1,
            _ => {}
        }
        assert!(depth <= 1, "{program}");
    }
}

#[test]
fn weights_that_outgrow_the_caches_are_packed_ahead() {
    let mut target = Target::host(2);
    target.l2_bytes = 2 << 20;
    if target.mma.is_empty() {
        return;
    }
    // Whether the weights, which are the second operand, are packed.
    let packed = |m: i64, n: i64, k: i64, turned: bool, constant: bool| {
        let mut kernel = matmul(m, n, k, false, turned, false);
        kernel.params[2].constant = constant;
        let found = Contraction::find(&kernel).unwrap();
        let tile = found.choose(&kernel, &target).unwrap();
        !if tile.swap {
            tile.direct_rows
        } else {
            tile.direct_cols
        }
    };
    for turned in [false, true] {
        for (m, n, k) in [
            (8, 3072, 1024),
            (46, 3072, 1024),
            (46, 1024, 3072),
            (64, 1500, 900),
        ] {
            assert!(packed(m, n, k, turned, true), "{m}, {n}, {k}, {turned}");
        }
        // To pack them at every run costs more than it gains.
        assert!(!packed(46, 3072, 1024, turned, false), "{turned}");
        // Small ones are as fast where they are.
        let small = |constant| packed(20, 96, 64, turned, constant);
        assert_eq!(small(true), small(false), "{turned}");
    }
}
