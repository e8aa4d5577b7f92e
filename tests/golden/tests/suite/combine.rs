//! Many elements combined into few of them, by work-items that meet in memory: exact in any order.
use std::sync::{Arc, Mutex};

use codegen::Built;
use codegen::ir::ReduceOp;
use golden::engines::{self, Rig};
use tensor::autograd::gradients_from;
use tensor::exec::{Observer, Options};
use tensor::graph::ScatterMode;
use tensor::{DType, Engine, Tensor};

/// Keeps the machine code of what is compiled.
#[derive(Default)]
struct Code(Mutex<String>);

impl Observer for Code {
    fn compiled(&self, _: &str, built: &Built) {
        self.0
            .lock()
            .unwrap()
            .push_str(&built.report.disassembly().unwrap());
    }
}

/// Numbers below a bound (the constants of Knuth's MMIX generator).
fn numbers(count: usize, below: u64) -> Vec<i64> {
    let mut state = 7u64;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % below) as i64
        })
        .collect()
}

/// Integers, as a tensor of a type; of floats one of a hundred is NaN if `nan` is set.
fn tensor(e: &Engine, shape: &[usize], below: u64, less: i64, dtype: DType, nan: bool) -> Tensor {
    let list = numbers(shape.iter().product(), below);
    let list: Vec<f32> = list
        .iter()
        .enumerate()
        .map(|(i, &n)| {
            if nan && i % 100 == 99 {
                f32::NAN
            } else {
                (n - less) as f32
            }
        })
        .collect();
    Tensor::from_slice(e, &list, shape)
        .unwrap()
        .cast(dtype)
        .unwrap()
}

fn index(e: &Engine, shape: &[usize], below: u64) -> Tensor {
    let list: Vec<i32> = numbers(shape.iter().product(), below)
        .into_iter()
        .map(|n| n as i32)
        .collect();
    Tensor::from_slice(e, &list, shape).unwrap()
}

/// One axis, 2,000 elements into 40.
fn line(e: &Engine, op: ReduceOp, dtype: DType) -> Tensor {
    let nan = matches!(op, ReduceOp::Max | ReduceOp::Min) && dtype.is_float();
    let signed = dtype.is_float() || dtype.is_signed();
    let less = if signed { 1 } else { 0 };
    let base = tensor(e, &[40], 3, less, dtype, false);
    let source = tensor(e, &[2000], 3, less, dtype, nan);
    base.scatter_reduce(0, &index(e, &[2000], 40), &source, op, true)
        .unwrap()
}

fn everything(e: &Engine) -> Vec<Tensor> {
    use DType::*;
    let mut all = Vec::new();
    for (op, dtype) in [
        (ReduceOp::Add, I32),
        (ReduceOp::Add, U64),
        (ReduceOp::Add, I8),
        (ReduceOp::Add, F32),
        (ReduceOp::Add, F64),
        (ReduceOp::Add, F16),
        (ReduceOp::Add, BF16),
        (ReduceOp::Mul, I32),
        (ReduceOp::Max, F32),
        (ReduceOp::Min, F64),
        (ReduceOp::Max, F16),
        (ReduceOp::Min, I64),
        (ReduceOp::Max, U16),
    ] {
        all.push(line(e, op, dtype));
    }
    // The gradient of an embedding.
    for dtype in [F32, F16] {
        let table = tensor(e, &[30, 20], 7, 3, dtype, false);
        let rows = table.embedding(&index(e, &[9, 60], 30)).unwrap();
        let seed = tensor(e, rows.shape(), 3, 1, dtype, false);
        all.extend(gradients_from(&rows, &seed, &[&table]).unwrap());
    }
    // Accumulation at coordinates.
    let base = tensor(e, &[6, 7, 5], 9, 4, F32, false);
    let places = index(e, &[300, 2], 6);
    let add = tensor(e, &[300, 5], 9, 4, F32, false);
    let mode = ScatterMode::Combine(ReduceOp::Add);
    all.push(base.scatter_nd(&places, &add, mode).unwrap());
    all
}

fn check(chip: &str, instructions: &[&str]) {
    let code = Arc::new(Code::default());
    let options = Options {
        observer: Some(code.clone()),
        ..Options::default()
    };
    let Some(rig) = Rig::of_test(engines::gpu(chip, options)) else {
        return;
    };
    let bytes = |t: &Tensor| -> Vec<f64> { t.cast(DType::F64).unwrap().to_vec().unwrap() };
    let got: Vec<Vec<f64>> = everything(&rig.engine).iter().map(bytes).collect();
    rig.finish().unwrap();
    let expected = everything(&Engine::reference());
    for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
        for (at, (g, e)) in got.iter().zip(bytes(expected)).enumerate() {
            let same = g.to_bits() == e.to_bits() || g.is_nan() && e.is_nan();
            assert!(same, "{chip}: tensor {i}, element {at}: {g}, not {e}");
        }
    }
    let code = code.0.lock().unwrap();
    for instruction in instructions {
        assert!(code.contains(instruction), "{chip}: no {instruction}");
    }
}

#[test]
fn on_gfx1030() {
    check(
        "gfx1030",
        &[
            "global_atomic_add",
            "global_atomic_umin",
            "global_atomic_cmpswap",
        ],
    );
}

#[test]
fn on_gfx1100() {
    check(
        "gfx1100",
        &[
            "global_atomic_add_u32",
            "global_atomic_add_f32",
            "global_atomic_min_i64",
        ],
    );
}

#[test]
fn on_gfx1201() {
    check(
        "gfx1201",
        &[
            "global_atomic_add_u32",
            "global_atomic_pk_add_f16",
            "global_atomic_pk_add_bf16",
        ],
    );
}

#[test]
fn on_gfx942() {
    check(
        "gfx942",
        &[
            "global_atomic_add_f64",
            "global_atomic_pk_add_bf16",
            "global_atomic_smax",
        ],
    );
}

#[test]
fn on_sm_86() {
    check(
        "sm_86",
        &["RED.E.ADD.STRONG.GPU", "RED.E.ADD.F32", "ATOMG.E.CAS"],
    );
}

#[test]
fn on_sm_89() {
    check(
        "sm_89:PTX",
        &["RED.E.ADD.STRONG.GPU", "RED.E.ADD.F64", "ATOMG.E.CAS"],
    );
}
