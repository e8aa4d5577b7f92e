//! Random graphs, three ways: scheduled and interpreted, scheduled with every temporary in a place
//! of its own, and evaluated node by node by the reference executor. `DOORBELL_SEED` sets the seed
//! of a run, `DOORBELL_GRAPHS` the number of graphs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;

use codegen::ir::arith::Cost;
use codegen::ir::{Binary, ReduceOp, Unary};
use tensor::exec::Interpreter;
use tensor::graph::ScatterMode;
use tensor::schedule::Limits;
use tensor::{DType, Engine, Tensor};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// One step of a program that both engines follow.
#[derive(Clone, Debug)]
enum Build {
    Data(Vec<u8>, Vec<usize>, DType),
    Iota(usize, DType),
    Full(Vec<usize>, u64, DType),
    Unary(Unary, usize),
    Binary(Binary, usize, usize),
    Select(usize, usize, usize),
    Cast(usize, DType),
    Reduce(ReduceOp, usize, Vec<usize>),
    Scan(ReduceOp, usize, usize),
    Reshape(usize, Vec<usize>),
    Permute(usize, Vec<usize>),
    Expand(usize, Vec<usize>),
    Pad(usize, Vec<usize>, Vec<usize>, u64),
    Shrink(usize, Vec<usize>, Vec<usize>),
    Flip(usize, Vec<usize>),
    Windows(usize, usize, usize, usize, usize),
    Gather(usize, usize, usize),
    Scatter(usize, usize, usize, usize, ScatterMode),
    Contiguous(usize),
}

const DTYPES: [DType; 13] = [
    DType::F32,
    DType::I32,
    DType::Bool,
    DType::I8,
    DType::I16,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F16,
    DType::BF16,
    DType::F64,
];

/// Shape and type of a step.
type Kind = (Vec<usize>, DType);

struct Program {
    steps: Vec<Build>,
    /// Shape and type of each step; a scratch tensor of the reference engine.
    shapes: Vec<Kind>,
    roots: Vec<usize>,
}

fn bits_of(random: &mut Random, dtype: DType) -> u64 {
    let small = random.below(9) as i64 - 4;
    match dtype {
        DType::Bool => random.next() & 1,
        DType::F64 => (small as f64 * 0.5).to_bits(),
        DType::F32 => (small as f32 * 0.5).to_bits() as u64,
        DType::F16 => [0x0000, 0x3c00, 0xbc00, 0x3800, 0x4000][random.below(5)],
        DType::BF16 => [0x0000, 0x3f80, 0xbf80, 0x3f00, 0x4000][random.below(5)],
        d if d.is_unsigned() => random.next() % 7,
        _ => small as u64,
    }
}

fn data(random: &mut Random, shape: &[usize], dtype: DType) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..shape.iter().product() {
        let bits = bits_of(random, dtype);
        bytes.extend_from_slice(&bits.to_le_bytes()[..dtype.size()]);
    }
    bytes
}

impl Program {
    /// Follows the steps on an engine.
    fn follow(&self, engine: &Engine) -> Result<Vec<Tensor>, tensor::Error> {
        let mut all: Vec<Tensor> = Vec::new();
        for step in &self.steps {
            let t = apply(engine, &all, step)?;
            all.push(t);
        }
        Ok(self.roots.iter().map(|&r| all[r].clone()).collect())
    }
}

/// An index in range, negative or not.
fn inside(x: &Tensor, axis: usize, index: &Tensor) -> Result<Tensor, tensor::Error> {
    let len = x.shape().get(axis).copied().unwrap_or(1);
    match index.dtype().bits() < 16 && len > 100 {
        true => Ok(index.clone()),
        false => index.fmod(len as i64),
    }
}

fn apply(engine: &Engine, all: &[Tensor], step: &Build) -> Result<Tensor, tensor::Error> {
    match step {
        Build::Data(bytes, shape, dtype) => {
            Tensor::from_bytes(engine, bytes.clone(), shape, *dtype)
        }
        Build::Iota(n, dtype) => Tensor::iota(engine, *n, *dtype),
        Build::Full(shape, bits, dtype) => Tensor::full_bits(engine, shape, *bits, *dtype),
        Build::Unary(op, a) => all[*a].unary(*op),
        Build::Binary(op, a, b) => all[*a].binary(*op, &all[*b]),
        Build::Select(c, a, b) => all[*c].select(&all[*a], &all[*b]),
        Build::Cast(a, dtype) => all[*a].cast(*dtype),
        Build::Reduce(op, a, axes) => all[*a].reduce(*op, axes),
        Build::Scan(op, a, axis) => all[*a].scan(*op, *axis),
        Build::Reshape(a, shape) => all[*a].reshape(shape),
        Build::Permute(a, order) => all[*a].permute(order),
        Build::Expand(a, shape) => all[*a].expand(shape),
        Build::Pad(a, lo, shape, bits) => all[*a].pad_to(lo, shape, *bits),
        Build::Shrink(a, lo, shape) => all[*a].shrink(lo, shape),
        Build::Flip(a, axes) => all[*a].reverse(axes),
        Build::Windows(a, axis, size, stride, dilation) => {
            all[*a].windows(*axis, *size, *stride, *dilation)
        }
        Build::Gather(a, axis, index) => {
            all[*a].gather(*axis as isize, &inside(&all[*a], *axis, &all[*index])?)
        }
        Build::Scatter(base, axis, index, source, mode) => {
            let index = inside(&all[*base], *axis, &all[*index])?;
            all[*base].scatter(*axis as isize, &index, &all[*source], *mode)
        }
        Build::Contiguous(a) => all[*a].contiguous(),
    }
}

fn shape(random: &mut Random) -> Vec<usize> {
    let rank = random.below(4);
    (0..rank).map(|_| random.pick(&[1, 2, 3, 4, 5])).collect()
}

fn program(seed: u64) -> Program {
    let mut random = Random(seed);
    let reference = Engine::reference();
    let mut p = Program {
        steps: Vec::new(),
        shapes: Vec::new(),
        roots: Vec::new(),
    };
    let mut built: Vec<Tensor> = Vec::new();
    let length = 3 + random.below(14);
    let mut failures = 0;
    while p.steps.len() < length && failures < 400 {
        let Some(step) = propose(&mut random, &p) else {
            failures += 1;
            continue;
        };
        match apply(&reference, &built, &step) {
            Ok(t) if t.numel() <= 2000 => {
                p.shapes.push((t.shape().to_vec(), t.dtype()));
                built.push(t);
                p.steps.push(step);
            }
            _ => failures += 1,
        }
    }
    p.roots.push(p.steps.len() - 1);
    for _ in 0..random.below(3) {
        let root = random.below(p.steps.len());
        if !p.roots.contains(&root) {
            p.roots.push(root);
        }
    }
    p
}

fn propose(random: &mut Random, p: &Program) -> Option<Build> {
    let count = p.steps.len();
    if count < 2 {
        let shape = shape(random);
        let dtype = if random.below(2) == 0 {
            DType::F32
        } else {
            random.pick(&DTYPES)
        };
        return Some(Build::Data(data(random, &shape, dtype), shape, dtype));
    }
    // Recent steps more often, for depth.
    let a = if random.below(3) > 0 {
        count - 1 - random.below(count.min(3))
    } else {
        random.below(count)
    };
    let (shape_a, dtype) = p.shapes[a].clone();
    let rank = shape_a.len();
    let alike = |random: &mut Random, want: &dyn Fn(&Kind) -> bool| {
        let fit: Vec<usize> = (0..count).filter(|&i| want(&p.shapes[i])).collect();
        (!fit.is_empty()).then(|| random.pick(&fit))
    };
    let reduce = [
        ReduceOp::Add,
        ReduceOp::Add,
        ReduceOp::Max,
        ReduceOp::Min,
        ReduceOp::Mul,
        ReduceOp::And,
        ReduceOp::Or,
    ];
    Some(match random.below(23) {
        0 => {
            let fresh = if random.below(2) == 0 {
                shape_a
            } else {
                shape(random)
            };
            let dtype = if random.below(2) == 0 {
                dtype
            } else {
                random.pick(&DTYPES)
            };
            Build::Data(data(random, &fresh, dtype), fresh, dtype)
        }
        1 => Build::Iota(
            1 + random.below(6),
            random.pick(&[DType::I32, DType::I64, DType::F32]),
        ),
        2 => Build::Full(shape_a, bits_of(random, dtype), dtype),
        3 => Build::Unary(random.pick(Unary::ALL), a),
        4..=7 => {
            let b = alike(random, &|s| s.0 == shape_a && s.1 == dtype)?;
            Build::Binary(
                random.pick(&[
                    Binary::Add,
                    Binary::Sub,
                    Binary::Mul,
                    Binary::Mul,
                    Binary::Max,
                    Binary::Min,
                    Binary::FloorDiv,
                    Binary::FloorMod,
                    Binary::TruncDiv,
                    Binary::TruncMod,
                    Binary::And,
                    Binary::Or,
                    Binary::Xor,
                    Binary::Shl,
                    Binary::Shr,
                    Binary::Lt,
                    Binary::Eq,
                    Binary::Ne,
                ]),
                a,
                b,
            )
        }
        8 => {
            let c = alike(random, &|s| s.0 == shape_a && s.1 == DType::Bool)?;
            let b = alike(random, &|s| s.0 == shape_a && s.1 == dtype)?;
            Build::Select(c, a, b)
        }
        9 => Build::Cast(a, random.pick(&DTYPES)),
        10 | 11 => {
            let axes: Vec<usize> = (0..rank).filter(|_| random.below(2) == 0).collect();
            if axes.is_empty() {
                return None;
            }
            Build::Reduce(random.pick(&reduce), a, axes)
        }
        12 => Build::Scan(random.pick(&reduce), a, random.below(rank.max(1))),
        13 | 14 => {
            let n: usize = shape_a.iter().product();
            let mut left = n;
            let mut to = Vec::new();
            while left > 1 && to.len() < 3 {
                let factors: Vec<usize> = (1..=left).filter(|f| left.is_multiple_of(*f)).collect();
                let f = random.pick(&factors);
                to.push(f);
                left /= f;
            }
            if left > 1 || n == 0 {
                to.push(left);
            }
            Build::Reshape(a, to)
        }
        15 => {
            let mut order: Vec<usize> = (0..rank).collect();
            for i in (1..rank).rev() {
                order.swap(i, random.below(i + 1));
            }
            Build::Permute(a, order)
        }
        16 | 17 => {
            let mut to = shape_a.clone();
            for n in to.iter_mut().filter(|n| **n == 1) {
                *n = 1 + random.below(5);
            }
            Build::Expand(a, to)
        }
        18 => {
            let lo: Vec<usize> = (0..rank).map(|_| random.below(3)).collect();
            let to: Vec<usize> = (0..rank)
                .map(|i| shape_a[i] + lo[i] + random.below(2))
                .collect();
            let bits = if random.below(2) == 0 {
                0
            } else {
                bits_of(random, dtype)
            };
            Build::Pad(a, lo, to, bits)
        }
        19 => {
            let lo: Vec<usize> = shape_a.iter().map(|&n| random.below(n)).collect();
            let to: Vec<usize> = (0..rank)
                .map(|i| {
                    let left = shape_a[i].saturating_sub(lo[i]);
                    if random.below(40) == 0 {
                        0
                    } else {
                        left - random.below(left)
                    }
                })
                .collect();
            Build::Shrink(a, lo, to)
        }
        20 => {
            if random.below(2) == 0 || rank == 0 {
                let axes: Vec<usize> = (0..rank).filter(|_| random.below(2) == 0).collect();
                Build::Flip(a, axes)
            } else {
                let axis = random.below(rank);
                let (stride, dilation) = (1 + random.below(2), 1 + random.below(2));
                Build::Windows(a, axis, 1 + random.below(3), stride, dilation)
            }
        }
        21 => {
            let index = alike(random, &|s| s.0.len() == rank && s.1.is_int())?;
            Build::Gather(a, random.below(rank.max(1)), index)
        }
        _ => {
            if random.below(3) == 0 {
                return Some(Build::Contiguous(a));
            }
            let index = alike(random, &|s| s.0.len() == rank && s.1.is_int())?;
            let wanted = p.shapes[index].0.clone();
            let source = alike(random, &|s| s.0 == wanted && s.1 == dtype)?;
            let mode = match random.below(3) {
                0 => ScatterMode::Combine(ReduceOp::Add),
                1 => ScatterMode::Combine(ReduceOp::Max),
                _ => ScatterMode::Set,
            };
            Build::Scatter(a, random.below(rank.max(1)), index, source, mode)
        }
    })
}

/// Largest relative difference that rounding in another order may make.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 4e-2,
        DType::BF16 => 2e-1,
        DType::F64 => 1e-9,
        _ => 1e-3,
    }
}

fn as_f64(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    use codegen::interp::scalar;
    bytes
        .chunks_exact(dtype.size())
        .map(|b| {
            let bits = scalar::read(dtype, b);
            f64::from_bits(scalar::cast(dtype, DType::F64, bits))
        })
        .collect()
}

/// Values that a difference in rounding can blow up: exact comparison makes no sense after a
/// rounding step has met a discontinuity. Floats are compared up to the tolerance of the worst
/// type on the way.
fn same(p: &Program, root: usize, a: &[u8], b: &[u8]) -> Result<(), String> {
    let dtype = p.shapes[root].1;
    if a == b {
        return Ok(());
    }
    let floats = p.shapes.iter().filter(|s| s.1.is_float());
    let worst = floats.map(|s| tolerance(s.1)).fold(0.0f64, f64::max);
    let (a, b) = (as_f64(dtype, a), as_f64(dtype, b));
    let scale = a
        .iter()
        .filter(|x| x.is_finite())
        .fold(1.0f64, |m, x| m.max(x.abs()));
    for (i, (&x, &y)) in a.iter().zip(&b).enumerate() {
        let close = x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= worst * scale;
        if !close {
            return Err(format!("element {i}: {x} and {y}"));
        }
    }
    Ok(())
}

/// True if the values of the program hang on a rounding: a float result goes through something
/// that jumps (comparison, integer conversion, rounding, remainder).
fn fragile(p: &Program) -> bool {
    let mut inexact: HashMap<usize, bool> = HashMap::new();
    for (i, step) in p.steps.iter().enumerate() {
        let dtype = p.shapes[i].1;
        let of = |n: &usize| inexact.get(n).copied().unwrap_or(false);
        let float = |n: &usize| p.shapes[*n].1.is_float();
        let (from, jump): (Vec<usize>, bool) = match step {
            Build::Unary(op, a) => (
                vec![*a],
                !matches!(
                    op,
                    Unary::Neg | Unary::Not | Unary::Abs | Unary::Exp2 | Unary::Sin
                ),
            ),
            Build::Binary(op, a, b) => (
                vec![*a, *b],
                op.is_compare()
                    || matches!(
                        op,
                        Binary::TruncMod | Binary::FloorMod | Binary::FloorDiv | Binary::TruncDiv
                    ),
            ),
            Build::Select(c, a, b) => (vec![*c, *a, *b], false),
            Build::Cast(a, to) => (vec![*a], float(a) && (!to.is_float() || to.size() < 4)),
            Build::Reduce(op, a, _) | Build::Scan(op, a, _) => {
                (vec![*a], *op == ReduceOp::Mul && float(a))
            }
            Build::Reshape(a, _) | Build::Permute(a, _) | Build::Expand(a, _) => (vec![*a], false),
            Build::Pad(a, ..) | Build::Shrink(a, ..) | Build::Flip(a, _) => (vec![*a], false),
            Build::Windows(a, ..) | Build::Contiguous(a) => (vec![*a], false),
            Build::Gather(a, _, b) => (vec![*a, *b], false),
            Build::Scatter(a, _, b, c, _) => (vec![*a, *b, *c], false),
            _ => (Vec::new(), false),
        };
        if jump && from.iter().any(of) {
            return true;
        }
        let makes = match step {
            Build::Unary(op, _) => op.row().cost > Cost::One,
            Build::Binary(op, ..) => matches!(op, Binary::Add | Binary::Sub | Binary::Mul),
            Build::Reduce(op, ..) | Build::Scan(op, ..) => {
                matches!(op, ReduceOp::Add | ReduceOp::Mul)
            }
            Build::Scatter(_, _, _, _, mode) => matches!(mode, ScatterMode::Combine(_)),
            _ => false,
        };
        inexact.insert(i, dtype.is_float() && makes || from.iter().any(of));
    }
    false
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(otherwise)
}

#[test]
fn schedules_compute_what_graphs_say() {
    let seed = setting("DOORBELL_SEED", 0x5eed);
    let graphs = setting("DOORBELL_GRAPHS", 2000);
    println!("DOORBELL_SEED={seed} DOORBELL_GRAPHS={graphs}");
    let mut compared = 0;
    for n in 0..graphs {
        let p = program(seed.wrapping_add(n.wrapping_mul(0x1_0001)));
        let fragile = fragile(&p);
        let reference = Engine::reference();
        // Tight limits find other cuts than the usual ones.
        let limits = match n % 3 {
            0 => Limits::default(),
            1 => Limits {
                small: 8,
                parallel: 4,
                ..Limits::default()
            },
            _ => Limits {
                requests: 12,
                functions: 2,
                buffers: 4,
                ..Limits::default()
            },
        };
        let context = || format!("seed {seed} graph {n}: {:#?} roots {:?}", p.steps, p.roots);
        let expected = p
            .follow(&reference)
            .unwrap_or_else(|e| panic!("{e} {}", context()));
        let mut runs = Vec::new();
        for unplanned in [false, true] {
            let engine = Interpreter::engine(limits, unplanned);
            let found = p
                .follow(&engine)
                .unwrap_or_else(|e| panic!("{e} {}", context()));
            let refs: Vec<&Tensor> = found.iter().collect();
            engine
                .realize(&refs)
                .unwrap_or_else(|e| panic!("{e} {}", context()));
            runs.push(found);
        }
        for (i, want) in expected.iter().enumerate() {
            let [a, b] = [&runs[0][i], &runs[1][i]].map(|t| t.to_bytes().unwrap());
            assert_eq!(a, b, "planned and unplanned differ: {}", context());
            if !fragile {
                let want = want.to_bytes().unwrap();
                if let Err(e) = same(&p, p.roots[i], &want, &a) {
                    panic!("root {i} {e} {}", context());
                }
                compared += 1;
            }
        }
    }
    println!("{compared} results compared with the reference");
    assert!(
        compared as u64 > graphs / 2,
        "too few graphs are free of jumps"
    );
}

/// The same programs through the compiler and the queues of the CPU device. Compiling is most of
/// the time, so there are fewer: `DOORBELL_DEVICE_GRAPHS` sets how many.
#[test]
fn devices_compute_what_graphs_say() {
    use drivers_cpu::{Config, CpuDevice};
    use tensor::exec::{DeviceExecutor, Options};

    let seed = setting("DOORBELL_SEED", 0x5eed);
    let graphs = setting(
        "DOORBELL_DEVICE_GRAPHS",
        if cfg!(feature = "llvm") { 300 } else { 60 },
    );
    println!("DOORBELL_SEED={seed} DOORBELL_DEVICE_GRAPHS={graphs}");
    #[cfg(feature = "llvm")]
    let backend = codegen::Backend::find("CPU:LLVM", "", 2).unwrap();
    #[cfg(not(feature = "llvm"))]
    let backend = codegen::Backend::find("CPU:CLANG", "", 2).unwrap();
    let device = CpuDevice::open(Config {
        cores: 2,
        ..Config::default()
    })
    .unwrap();
    let engine = DeviceExecutor::engine(device, backend, Options::default()).unwrap();
    let mut compared = 0;
    for n in 0..graphs {
        let p = program(seed.wrapping_add(n.wrapping_mul(0x1_0001)));
        if fragile(&p) {
            continue;
        }
        let context = || format!("seed {seed} graph {n}: {:#?} roots {:?}", p.steps, p.roots);
        let expected = p
            .follow(&Engine::reference())
            .unwrap_or_else(|e| panic!("{e} {}", context()));
        let found = p
            .follow(&engine)
            .unwrap_or_else(|e| panic!("{e} {}", context()));
        let refs: Vec<&Tensor> = found.iter().collect();
        engine
            .realize(&refs)
            .unwrap_or_else(|e| panic!("{e} {}", context()));
        for (i, (want, have)) in expected.iter().zip(&found).enumerate() {
            let (want, have) = (want.to_bytes().unwrap(), have.to_bytes().unwrap());
            if let Err(e) = same(&p, p.roots[i], &want, &have) {
                panic!("root {i} {e} {}", context());
            }
            compared += 1;
        }
    }
    println!("{compared} results compared with the reference");
    assert!(
        compared as u64 > graphs / 4,
        "too few graphs are free of jumps"
    );
}
