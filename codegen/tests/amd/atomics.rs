//! Combining stores whose work-items meet in memory.

use codegen::Built;
use codegen::compile::ClangCompiler;
use codegen::render::HipRenderer;

use super::suite::{COMBINING, combined};
use super::*;

/// Rows are combined in a few rows, all at once.
pub fn check(backend: &Backend, op: ReduceOp, dtype: DType) -> Option<Built> {
    combined(backend, op, dtype, |built, target, buffers, vars| {
        machine::run(built, target, buffers, vars);
        true
    })
}

fn check_all(chip: &str) {
    let backend = llvm(chip);
    for op in COMBINING {
        for dtype in DType::ALL {
            let Some(built) = check(&backend, op, dtype) else {
                continue;
            };
            let code = built.report.disassembly().unwrap();
            let swaps = code.contains("atomic_cmpswap");
            let steps = backend.target.atomics.one_step(op, dtype);
            assert_ne!(swaps, steps, "{op:?} of {dtype} on {chip}:\n{code}");
        }
    }
}

#[test]
fn of_rdna2() {
    check_all("gfx1030");
}

#[test]
fn of_rdna3() {
    check_all("gfx1100");
}

#[test]
fn of_rdna4() {
    check_all("gfx1201");
}

#[test]
fn of_cdna3() {
    check_all("gfx942");
}

/// The instruction of each chip for what it can do in one step.
#[test]
fn are_instructions() {
    use DType::*;
    use ReduceOp::*;
    let all: [(&str, ReduceOp, DType, &str); 22] = [
        ("gfx1030", Add, I32, "global_atomic_add v"),
        ("gfx1030", Add, U64, "global_atomic_add_x2 v"),
        ("gfx1030", Max, I64, "global_atomic_smax_x2 v"),
        ("gfx1030", Max, F32, "global_atomic_umin v"),
        ("gfx1030", Or, U8, "global_atomic_or v"),
        ("gfx1100", Add, I64, "global_atomic_add_u64 v"),
        ("gfx1100", Min, U32, "global_atomic_min_u32 v"),
        ("gfx1100", Add, F32, "global_atomic_add_f32 v"),
        ("gfx1100", Min, F64, "global_atomic_min_i64 v"),
        ("gfx1100", And, I16, "global_atomic_and_b32 v"),
        ("gfx1201", Add, U32, "global_atomic_add_u32 v"),
        ("gfx1201", Add, F32, "global_atomic_add_f32 v"),
        ("gfx1201", Add, F16, "global_atomic_pk_add_f16 v"),
        ("gfx1201", Add, BF16, "global_atomic_pk_add_bf16 v"),
        ("gfx1201", Max, F32, "global_atomic_max_i32 v"),
        ("gfx942", Add, I32, "global_atomic_add v"),
        ("gfx942", Add, F32, "global_atomic_add_f32 v"),
        ("gfx942", Add, F64, "global_atomic_add_f64 v"),
        ("gfx942", Add, F16, "global_atomic_pk_add_f16 v"),
        ("gfx942", Add, BF16, "global_atomic_pk_add_bf16 v"),
        ("gfx942", Min, F64, "global_atomic_umax_x2 v"),
        ("gfx942", Or, U64, "global_atomic_or_x2 v"),
    ];
    for (chip, op, dtype, want) in all {
        let backend = llvm(chip);
        let kernel = scatter(9, 64, 33, op, dtype);
        let built = build(&kernel, &backend, &Options::default()).unwrap();
        let code = built.report.disassembly().unwrap();
        let here = code.lines().any(|l| {
            let words: Vec<&str> = l.split_whitespace().collect();
            words.join(" ").contains(want)
        });
        assert!(here, "{chip}: no {want} in\n{code}");
        // In the cache of the device: no wider scope, and nothing comes back.
        let lines = code.lines().filter(|l| l.contains("atomic"));
        for line in lines {
            let wide = ["sc1", "SCOPE_SYS", " glc", "sc0"]
                .iter()
                .any(|w| line.contains(w));
            assert!(!wide, "{chip}: {line}");
        }
    }
}

/// HIP C means the same.
#[test]
fn in_hip() {
    for chip in GENERATIONS {
        let backend = Backend::new(
            Target::amd(chip).unwrap(),
            Arc::new(HipRenderer),
            Some(Arc::new(ClangCompiler::find().unwrap())),
        );
        for (op, dtype) in [
            (ReduceOp::Add, DType::F32),
            (ReduceOp::Add, DType::F16),
            (ReduceOp::Add, DType::BF16),
            (ReduceOp::Add, DType::F8E4M3),
            (ReduceOp::Add, DType::I8),
            (ReduceOp::Add, DType::U64),
            (ReduceOp::Mul, DType::I64),
            (ReduceOp::Max, DType::F32),
            (ReduceOp::Min, DType::F64),
            (ReduceOp::Min, DType::I32),
            (ReduceOp::And, DType::U16),
            (ReduceOp::Or, DType::I8),
            (ReduceOp::Mul, DType::Bool),
        ] {
            check(&backend, op, dtype).unwrap();
        }
    }
}

/// Sums of floats keep their order where they have to, and where nothing is gained.
#[test]
fn only_where_it_pays() {
    let backend = llvm("gfx1100");
    let spread = |n, k, width, dtype, deterministic| {
        let options = Options {
            deterministic,
            ..Options::default()
        };
        let built = build(
            &scatter(n, k, width, ReduceOp::Add, dtype),
            &backend,
            &options,
        );
        built.unwrap().report.opts[0].starts_with("atomic(")
    };
    assert!(spread(9, 4000, 64, DType::F32, false));
    assert!(!spread(9, 4000, 64, DType::F32, true));
    assert!(spread(9, 4000, 64, DType::I32, true));
    // A wave for each compute unit.
    assert!(!spread(9, 400, 4096, DType::F32, false));
    assert!(spread(9, 400, 4096, DType::I32, false));
    // As many work-items as the chip takes.
    assert!(!spread(9, 400, 40_000, DType::I32, false));
    // Few of them.
    assert!(!spread(9, 8, 64, DType::I32, false));
}
