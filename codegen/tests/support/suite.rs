//! Kernels that every GPU runs: each is given to a function that compares what it gives with what it should,
//! floats with a tolerance.
#![allow(dead_code, reason = "each test binary uses a part")]

use codegen::interp::scalar;
use codegen::ir::mma::{MmaDesc, Rows};
use codegen::ir::{Binary, Kernel, ReduceOp, StoreMode, Unary};
use codegen::opt::contract::Blocking;
use codegen::{Backend, Built, DType, Options, Target, build};

use crate::support::*;

pub fn elements(mut check: impl FnMut(&Kernel, f64)) {
    for n in [1, 2, 3, 15, 17, 64, 1000, 5003] {
        check(&elementwise(n), 1e-6);
    }
    for back in 1..8 {
        check(&clamped(40, back), 0.0);
    }
}

pub fn rows(mut check: impl FnMut(&Kernel, f64)) {
    for (r, n) in [(1, 1), (3, 7), (33, 130), (4, 1024)] {
        check(&row_normalise(r, n), 1e-4);
        check(&softmax(r, n), 1e-5);
    }
    check(&moments(40, 300), 1e-3);
    check(&shared_sum(40, 300), 1e-4);
}

pub fn reductions_of_every_type(mut check: impl FnMut(&Kernel, f64)) {
    for axis in 0..3 {
        for op in [ReduceOp::Add, ReduceOp::Max, ReduceOp::Min, ReduceOp::Mul] {
            for dtype in [
                DType::I8,
                DType::U16,
                DType::I32,
                DType::I64,
                DType::F32,
                DType::F64,
            ] {
                check(&cube_sum([3, 10, 33], axis, op, dtype), 1e-4);
            }
        }
        for op in [ReduceOp::Max, ReduceOp::Min] {
            check(&cube_sum([3, 10, 33], axis, op, DType::F16), 0.0);
        }
        for op in [ReduceOp::And, ReduceOp::Or] {
            check(&cube_sum([3, 10, 33], axis, op, DType::Bool), 0.0);
        }
    }
    check(&cube_sum([2, 3, 3000], 2, ReduceOp::Add, DType::F32), 1e-4);
}

pub fn products_and_convolutions(mut check: impl FnMut(&Kernel, f64)) {
    for (m, n, k) in [
        (1, 1, 1),
        (3, 5, 7),
        (17, 31, 9),
        (64, 48, 100),
        (1, 64, 300),
    ] {
        for flags in [0, 3, 5] {
            let [ta, tb, relu] = [1, 2, 4].map(|bit| flags & bit != 0);
            check(&matmul(m, n, k, ta, tb, relu), 1e-4);
        }
    }
    check(&conv(2, 3, 5, 9, 3), 1e-4);
    check(&conv(1, 8, 16, 14, 3), 1e-4);
    check(&weight_gradient(2, 4, 8, 8, 3), 1e-3);
}

pub fn scans_and_scatters(mut check: impl FnMut(&Kernel, f64)) {
    for along in [false, true] {
        check(&prefix(20, 40, ReduceOp::Add, along), 1e-4);
        check(&prefix(7, 100, ReduceOp::Max, along), 0.0);
    }
    for dtype in DType::ALL.into_iter().filter(|&d| d != DType::Bool) {
        check(&scatter(7, 40, 33, ReduceOp::Add, dtype), 0.0);
        check(&transpose(33, 17, dtype), 0.0);
    }
}

/// Arguments that are no buffers, of every type.
pub fn numbers_of_every_type(mut check: impl FnMut(&Kernel, f64)) {
    for dtype in DType::ALL {
        check(&arguments(dtype), 0.0);
    }
    check(&part_of_a_product(6), 1e-4);
    check(&part_of_a_product(96), 1e-3);
}

/// Every operation and every conversion, on the values at which types end and on random ones.
pub fn every_operation(mut check: impl FnMut(&Kernel, f64)) {
    for dtype in DType::ALL {
        let one = scalar::constant(dtype, 1);
        // What the interpreter does not define for a type is not an operation of it.
        let (near, exact): (Vec<Unary>, Vec<Unary>) = Unary::ALL
            .iter()
            .copied()
            .filter(|&op| scalar::unary(op, dtype, one).is_some())
            .partition(|op| op.is_function());
        let (power, rest): (Vec<Binary>, Vec<Binary>) = Binary::ALL
            .iter()
            .copied()
            .filter(|&op| scalar::binary(op, dtype, one, one).is_some())
            .partition(|&op| op == Binary::Pow);
        let n = 203;
        check(&operations(n, dtype, &exact, &rest, &DType::ALL), 0.0);
        if dtype.is_float() {
            // A kernel of all functions would be long to compile; narrow floats are computed as wide ones.
            let kernels = if dtype.size() < 4 { 1 } else { near.len() };
            for some in near.chunks(7).take(kernels) {
                check(&operations(n, dtype, some, &power, &[]), 1e-4);
            }
        }
    }
}

/// Every quotient and remainder by constants of both signs, and by those at which a type ends.
pub fn constant_divisors(mut check: impl FnMut(&Kernel, f64)) {
    for dtype in [DType::I8, DType::I16, DType::I32, DType::I64, DType::U32] {
        let (min, max) = scalar::int_limits(dtype);
        let divisors = [1, 2, 3, 4, -3, -4, min, max];
        let within = divisors.iter().filter(|&&d| d >= min && d != 0);
        let within: Vec<i128> = within.copied().collect();
        check(&divided(dtype, &within), 0.0);
    }
}

fn divided(dtype: DType, divisors: &[i128]) -> Kernel {
    let n = 203;
    let mut m = Make::new();
    let a = m.buffer(dtype, n, false);
    let i = m.l(n as i64);
    let x = m.load(a, &[(i, 1)]);
    for &divisor in divisors {
        let by = m.g.bits(dtype, scalar::from_int(dtype, divisor));
        for op in [
            Binary::FloorDiv,
            Binary::FloorMod,
            Binary::TruncDiv,
            Binary::TruncMod,
        ] {
            let value = m.g.binary(op, x, by);
            let o = m.buffer(dtype, n, true);
            m.store(o, &[(i, 1)], value);
        }
    }
    m.kernel("divided")
}

/// Stores whose index is negative where they do not happen.
pub fn gated_stores(mut check: impl FnMut(&Kernel, f64)) {
    for dtype in [DType::F32, DType::F16, DType::U8, DType::I64] {
        for many in [1, 6] {
            check(&behind(dtype, many), 0.0);
        }
    }
}

/// Elements one place lower, the first of which has none; into so many buffers.
fn behind(dtype: DType, many: usize) -> Kernel {
    let n = 64;
    let mut m = Make::new();
    let a = m.buffer(dtype, n, false);
    let i = m.l(n as i64);
    let x = m.load(a, &[(i, 1)]);
    let zero = m.g.index(0);
    let there = m.g.binary(Binary::Lt, zero, i);
    let lower = m.at(&[(i, 1)], -1);
    for _ in 0..many {
        let o = m.buffer(dtype, n, true);
        let s = m.g.store(StoreMode::Set, o, lower, x, Some(there));
        m.store_as(s);
    }
    m.kernel("behind")
}

/// One kernel of each form.
pub fn forms() -> Vec<(Kernel, f64)> {
    let floats = operations(
        70,
        DType::F32,
        &Unary::ALL[2..5],
        &Binary::ALL[..6],
        &DType::ALL,
    );
    let integers = operations(
        70,
        DType::I32,
        &Unary::ALL[..3],
        &Binary::ALL[4..18],
        &DType::ALL,
    );
    let small = operations(
        70,
        DType::BF16,
        &[Unary::Sin],
        &Binary::ALL[..3],
        &DType::ALL,
    );
    vec![
        (softmax(3, 70), 1e-5),
        (elementwise(1000), 1e-6),
        (arguments(DType::BF16), 0.0),
        (arguments(DType::I8), 0.0),
        (part_of_a_product(6), 1e-4),
        (matmul(33, 20, 40, false, true, true), 1e-4),
        (cube_sum([3, 10, 33], 2, ReduceOp::Max, DType::F64), 1e-4),
        (floats, 1e-5),
        (integers, 0.0),
        (small, 1e-2),
    ]
}

/// `sum of a[i, r] * b[r, j]`, operands cast to the type of the sum.
pub fn product(mm: i64, n: i64, k: i64, operands: [DType; 2], acc: DType) -> Kernel {
    let mut m = Make::new();
    let o = m.buffer(acc, (mm * n) as usize, true);
    let a = m.buffer(operands[0], (mm * k) as usize, false);
    let b = m.buffer(operands[1], (k * n) as usize, false);
    let (i, j, r) = (m.l(mm), m.l(n), m.r(k));
    let x = m.load(a, &[(i, k), (r, 1)]);
    let y = m.load(b, &[(r, n), (j, 1)]);
    let (x, y) = (m.g.cast(x, acc), m.g.cast(y, acc));
    let p = m.mul(x, y);
    let s = m.sum(p, &[r]);
    m.store(o, &[(i, n), (j, 1)], s);
    m.kernel("product")
}

/// A block of each kind: one wave, several waves, alternating local memory.
pub fn matrix_blocks(d: MmaDesc) -> [Blocking; 2] {
    let depth = match d.in_memory() {
        true => Rows::width(d.operands[0]) as u32,
        false => u32::from(d.k.max(16)),
    };
    // Sums have to fit the registers.
    let rows = if d.n > 128 { 1 } else { 2 };
    let one = Blocking {
        along_rows: 1,
        along_cols: 2,
        rows,
        cols: 1,
        depth,
        parts: 1,
        vector: 4,
        slabs: 1,
        boxes: false,
        mma: Some(d),
        acc: d.acc,
        swap: false,
    };
    let other = Blocking {
        along_rows: 2,
        along_cols: 1,
        rows: 1,
        cols: rows,
        depth: depth * 2,
        slabs: 2,
        swap: true,
        ..one
    };
    [one, other]
}

/// The types of the operands in memory: a block may exchange rows and columns.
pub fn stored(d: MmaDesc, block: &Blocking) -> [DType; 2] {
    let [a, b] = d.operands;
    if block.swap { [b, a] } else { [a, b] }
}

/// What memory is combined by.
pub const COMBINING: [ReduceOp; 6] = [
    ReduceOp::Add,
    ReduceOp::Mul,
    ReduceOp::Max,
    ReduceOp::Min,
    ReduceOp::And,
    ReduceOp::Or,
];

/// Values whose sums and products of a few are exact in every float type, in any order; for
/// extrema and integers any values.
fn values(kernel: &Kernel, op: ReduceOp, random: &mut Random) -> Vec<Vec<u8>> {
    let mut all = edges(kernel, random);
    let rows = kernel.params[0].len as u64 / 33 + 1;
    for (slot, p) in kernel.params.iter().enumerate() {
        let few: &[f64] = match op {
            ReduceOp::Add => &[0.0, 0.0, 0.0, 1.0, -1.0],
            ReduceOp::Mul => &[1.0, 1.0, 1.0, -1.0, 2.0, 0.5],
            _ => &[],
        };
        for chunk in all[slot].chunks_mut(p.dtype.size()) {
            let bits = match p.dtype {
                _ if slot == 1 => random.below(rows),
                DType::Bool => random.below(2),
                d if d.is_float() && !few.is_empty() => {
                    scalar::from_f64(d, few[random.below(few.len() as u64) as usize])
                }
                _ => continue,
            };
            chunk.copy_from_slice(&bits.to_le_bytes()[..p.dtype.size()]);
        }
    }
    all
}

/// Rows are combined in a few rows, all at once. What `run` says it cannot run is not compared.
pub fn combined(
    backend: &Backend,
    op: ReduceOp,
    dtype: DType,
    run: impl Fn(&Built, &Target, &mut [Vec<u8>], &[i64]) -> bool,
) -> Option<Built> {
    scalar::binary(op.binary(), dtype, 0, 0)?;
    if dtype.is_float() && matches!(op, ReduceOp::And | ReduceOp::Or) {
        return None;
    }
    let kernel = scatter(9, 64, 33, op, dtype);
    let buffers = values(&kernel, op, &mut Random(0x0dd5_eed5_0dd5_eed5));
    let want = expected(&kernel, &buffers, &[]);
    let built = build(&kernel, backend, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let chip = &backend.target.cpu;
    let opts = &built.report.opts;
    assert!(
        opts[0].starts_with("atomic("),
        "{chip} {op:?} {dtype}: {opts:?}"
    );
    let mut got = buffers.clone();
    if !run(&built, &backend.target, &mut got, &[]) {
        println!("{op:?} of {dtype} on {chip}: compiled, not run");
        return Some(built);
    }
    let what = format!("{op:?} of {dtype} on {chip} {opts:?}");
    same(dtype, &got[0], &want[0], 0.0, &what);
    Some(built)
}
