//! Compiled kernels against the interpreter.
#![cfg(feature = "llvm")]
use crate::support;

use std::collections::HashSet;

use codegen::ir::{Binary, ReduceOp, Unary};
use codegen::{Backend, DType, Kernel, Options, build};
use support::*;

/// A kernel, what it is given, and what comes out of it by the interpreter.
struct Case<'a> {
    kernel: &'a Kernel,
    buffers: Vec<Vec<u8>>,
    want: Vec<Vec<u8>>,
    tolerance: f64,
}

impl<'a> Case<'a> {
    fn new(kernel: &'a Kernel, tolerance: f64) -> Self {
        let buffers = fill(kernel, &mut Random(0x1234_5678_9abc_def1));
        let want = expected(kernel, &buffers, &numbers(kernel));
        Case {
            kernel,
            buffers,
            want,
            tolerance,
        }
    }

    fn check(&self, backend: &Backend, options: &Options) {
        let built = build(self.kernel, backend, options).unwrap_or_else(|e| panic!("{e}"));
        let loaded = Loaded::new(built);
        let mut got = self.buffers.clone();
        loaded.run(&mut got, &numbers(self.kernel));
        for (slot, p) in self.kernel.params.iter().enumerate() {
            let what = format!(
                "{} cores {} buffer {slot} {:?}",
                self.kernel.name, backend.target.cores, loaded.built.report.opts
            );
            same(p.dtype, &got[slot], &self.want[slot], self.tolerance, &what);
        }
    }
}

fn check_all(kernel: &Kernel, tolerance: f64) {
    let case = Case::new(kernel, tolerance);
    let noopt = Options {
        noopt: true,
        ..Options::default()
    };
    case.check(&Backend::find("CPU:LLVM", "", 1).unwrap(), &noopt);
    case.check(
        &Backend::find("CPU:LLVM", "", 1).unwrap(),
        &Options::default(),
    );
    case.check(
        &Backend::find("CPU:LLVM", "", 4).unwrap(),
        &Options::default(),
    );
}

#[test]
fn kernels_that_differ_in_sizes_share_their_code() {
    let backend = Backend::find("CPU:LLVM", "", 2).unwrap();
    let layers = [
        padded_conv(16, 32, [28, 28], 3),
        padded_conv(24, 32, [28, 28], 3),
        padded_conv(40, 32, [24, 28], 3),
        elementwise(12 << 10),
        elementwise(20 << 10),
    ];
    let (mut keys, mut modules, mut stages) = (HashSet::new(), HashSet::new(), 0);
    for kernel in layers {
        check_all(&kernel, 1e-4);
        let built = build(&kernel, &backend, &Options::default()).unwrap();
        keys.insert(built.key);
        modules.extend(built.stages.iter().map(|s| s.module));
        stages += built.stages.len();
    }
    assert_eq!(keys.len(), 5);
    assert!(modules.len() < stages, "{} of {stages}", modules.len());
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
    for (m, n, k) in [
        (1, 1, 1),
        (3, 5, 7),
        (16, 16, 16),
        (17, 31, 9),
        (1, 64, 64),
        (64, 1, 64),
    ] {
        for flags in 0..8 {
            check_all(
                &matmul(m, n, k, flags & 1 != 0, flags & 2 != 0, flags & 4 != 0),
                1e-4,
            );
        }
    }
}

#[test]
fn products_of_packed_matrices() {
    for (m, n, k, flags) in [
        (64, 64, 64, 0),
        (50, 70, 45, 3),
        (50, 70, 45, 5),
        (37, 129, 33, 4),
        (37, 129, 33, 6),
        (16, 40, 1100, 0),
        (16, 40, 1100, 5),
    ] {
        check_all(
            &matmul(m, n, k, flags & 1 != 0, flags & 2 != 0, flags & 4 != 0),
            1e-3,
        );
    }
}

/// Rows of a table at an index that is checked; or their sum.
fn looked_up(rows: i64, entries: i64, width: i64, sum: bool) -> Kernel {
    let mut m = Make::new();
    let word = m.buffer(DType::I64, 1, true);
    let out = m.buffer(
        DType::F32,
        (if sum { width } else { rows * width }) as usize,
        true,
    );
    let index = m.buffer(DType::I32, rows as usize, false);
    let table = m.buffer(DType::F32, (entries * width) as usize, false);
    let (i, j) = (if sum { m.r(rows) } else { m.l(rows) }, m.l(width));
    let value = m.load(index, &[(i, 1)]);
    let number = m.g.cast(value, DType::I64);
    let inside = |m: &mut Make, at| {
        let (below, end) = (m.g.index(-1), m.g.index(entries));
        let low = m.g.binary(Binary::Lt, below, at);
        let high = m.g.binary(Binary::Lt, at, end);
        m.g.binary(Binary::And, low, high)
    };
    let right = inside(&mut m, number);
    let outside = m.g.unary(Unary::Not, right);
    let value = m.g.check(word, value, number, outside);
    let row = m.g.cast(value, DType::I64);
    let gate = inside(&mut m, row);
    let (at, zero) = (m.at(&[(row, width), (j, 1)], 0), m.f32(0.0));
    let v = m.g.load_gated(table, at, gate, zero);
    if sum {
        let v = m.sum(v, &[i]);
        m.store(out, &[(j, 1)], v);
    } else {
        m.store(out, &[(i, width), (j, 1)], v);
    }
    m.kernel("looked_up")
}

#[test]
fn checks_say_what_they_find() {
    for (rows, width) in [(1, 1), (5, 3), (33, 1), (130, 1), (1001, 1), (40, 64)] {
        for sum in [false, true] {
            let kernel = looked_up(rows, 30, width, sum);
            for wrong in [None, Some(30), Some(-5), Some(i32::MIN)] {
                let mut case = Case::new(&kernel, 1e-4);
                let mut index: Vec<i32> = (0..rows as i32).map(|i| i * 7 % 30).collect();
                // The last one: where lanes and parts end.
                index[rows as usize - 1] = wrong.unwrap_or(29);
                case.buffers[0].fill(0);
                case.buffers[2] = index.iter().flat_map(|i| i.to_le_bytes()).collect();
                case.want = expected(&kernel, &case.buffers, &[]);
                let said = i64::from_le_bytes(case.want[0][..].try_into().unwrap());
                assert_eq!(said, wrong.map_or(0, i64::from));
                for cores in [1, 4] {
                    let backend = Backend::find("CPU:LLVM", "", cores).unwrap();
                    case.check(&backend, &Options::default());
                    let noopt = Options {
                        noopt: true,
                        ..Options::default()
                    };
                    case.check(&backend, &noopt);
                }
            }
        }
    }
}

/// A convolution along rows whose taps are `apart` from each other.
fn dilated(ci: i64, co: i64, n: i64, taps: i64, apart: i64) -> Kernel {
    let wide = n + (taps - 1) * apart;
    let mut m = Make::new();
    let o = m.buffer(DType::F32, (co * n) as usize, true);
    let x = m.buffer(DType::F32, (ci * wide) as usize, false);
    let w = m.buffer(DType::F32, (co * ci * taps) as usize, false);
    let (c, at, i, tap) = (m.l(co), m.l(n), m.r(ci), m.r(taps));
    let x = m.load(x, &[(i, wide), (at, 1), (tap, apart)]);
    let w = m.load(w, &[(c, ci * taps), (i, taps), (tap, 1)]);
    let product = m.mul(x, w);
    let sum = m.sum(product, &[i, tap]);
    m.store(o, &[(c, n), (at, 1)], sum);
    m.kernel("dilated")
}

#[test]
fn kernels_whose_taps_are_further_apart_share_their_code() {
    let backend = Backend::find("CPU:LLVM", "", 2).unwrap();
    let modules: Vec<HashSet<[u8; 32]>> = [2, 4, 8]
        .map(|apart| {
            let kernel = dilated(32, 32, 225, 5, apart);
            check_all(&kernel, 1e-4);
            let built = build(&kernel, &backend, &Options::default()).unwrap();
            built.stages.iter().map(|s| s.module).collect()
        })
        .into();
    assert_eq!(modules[0], modules[1]);
    assert_eq!(modules[0], modules[2]);
}

/// Rows of a picture with a border, written as tiles of columns for each channel.
fn tiles_of_rows(channels: i64, tiles: i64, width: i64, row: i64) -> Kernel {
    let mut m = Make::new();
    let pitch = row + 2;
    let area = (tiles * width / row + 1) * pitch;
    let o = m.buffer(DType::F32, (tiles * channels * width) as usize, true);
    let x = m.buffer(DType::F32, (channels * area) as usize, false);
    let (t, k, i) = (m.l(tiles), m.l(channels), m.l(width));
    let at = m.at(&[(t, width), (i, 1)], 0);
    let row = m.g.index(row);
    let y = m.g.binary(Binary::FloorDiv, at, row);
    let inside = m.g.binary(Binary::FloorMod, at, row);
    let value = m.load(x, &[(k, area), (y, pitch), (inside, 1)]);
    m.store(o, &[(t, channels * width), (k, width), (i, 1)], value);
    m.kernel("tiles_of_rows")
}

#[test]
fn places_in_rows_are_found_once_for_all_channels() {
    let backend = Backend::find("CPU:LLVM", "", 2).unwrap();
    let lanes = backend.target.vector_bytes as i64 / 4;
    // Vectors begin anywhere in the rows.
    for vectors in [2, 3, 4] {
        let kernel = tiles_of_rows(50, 9, vectors * lanes, 40);
        check_all(&kernel, 0.0);
        let built = build(&kernel, &backend, &Options::default()).unwrap();
        let text = &built.report.source[0];
        let loops = text.lines().filter(|l| l.contains(".next = ")).count();
        assert_eq!(loops, 2, "tiles, and channels in them:\n{text}");
    }
}

/// The largest of a few neighbours, of which each one is a function of what is in memory.
fn largest_power(rows: i64, n: i64, few: i64) -> Kernel {
    let mut m = Make::new();
    let o = m.buffer(DType::F32, (rows * n) as usize, true);
    let x = m.buffer(DType::F32, (rows * n * few) as usize, false);
    let bias = m.buffer(DType::F32, n as usize, false);
    let (i, j, r) = (m.l(rows), m.l(n), m.r(few));
    let (x, bias) = (
        m.load(x, &[(i, n * few), (r, n), (j, 1)]),
        m.load(bias, &[(j, 1)]),
    );
    let sum = m.add(x, bias);
    let power = m.unary(Unary::Exp2, sum);
    let most = m.g.reduce(ReduceOp::Max, power, &[r]);
    m.store(o, &[(i, n), (j, 1)], most);
    m.kernel("largest_power")
}

#[test]
fn functions_inside_of_a_reduction_are_written_once() {
    let backend = Backend::find("CPU:LLVM", "", 1).unwrap();
    for (rows, n, few) in [(32, 64, 2), (7, 33, 5)] {
        let kernel = largest_power(rows, n, few);
        check_all(&kernel, 1e-4);
        let built = build(&kernel, &backend, &Options::default()).unwrap();
        let lines = built.report.source[0].lines().count();
        assert!(lines < 250, "{lines} lines: {:?}", built.report.opts);
    }
}

/// A product with much after it: a sigmoid, a residual, and columns at a distance from each other.
fn gated_product(m: i64, n: i64, k: i64, dtype: DType) -> Kernel {
    let mut make = Make::new();
    let o = make.buffer(dtype, (m * n) as usize, true);
    let a = make.buffer(dtype, (m * k) as usize, false);
    let b = make.buffer(dtype, (k * n) as usize, false);
    let bias = make.buffer(dtype, n as usize, false);
    let other = make.buffer(dtype, (m * n) as usize, false);
    let (i, j, r) = (make.l(m), make.l(n), make.r(k));
    let (x, y) = (
        make.load(a, &[(i, k), (r, 1)]),
        make.load(b, &[(j, 1), (r, n)]),
    );
    let product = make.mul(x, y);
    let (sum, bias) = (make.sum(product, &[r]), make.load(bias, &[(j, 1)]));
    let v = make.add(sum, bias);
    let v = if dtype.is_float() {
        let down = make.unary(Unary::Neg, v);
        let power = make.unary(Unary::Exp2, down);
        let one = make.f32(1.0);
        let one = make.g.cast(one, dtype);
        let below = make.add(power, one);
        let gate = make.unary(Unary::Recip, below);
        make.mul(v, gate)
    } else {
        make.mul(v, v)
    };
    let other = make.load(other, &[(j, m), (i, 1)]);
    let v = make.add(v, other);
    make.store(o, &[(j, m), (i, 1)], v);
    make.kernel("gated_product")
}

#[test]
fn what_follows_a_product_is_right_at_every_edge() {
    let clang = Backend::find("CPU:CLANG", "", 4).unwrap();
    for dtype in [DType::F32, DType::F64, DType::I32] {
        for (m, n, k) in [
            (64, 64, 32),
            (37, 129, 33),
            (225, 32, 160),
            (9, 16, 7),
            (16, 40, 1100),
        ] {
            let kernel = gated_product(m, n, k, dtype);
            check_all(&kernel, 1e-3);
            Case::new(&kernel, 1e-3).check(&clang, &Options::default());
        }
    }
}

#[test]
fn what_follows_a_product_is_not_written_for_every_vector_of_a_tile() {
    let backend = Backend::find("CPU:LLVM", "", 1).unwrap();
    let lines = |kernel: &Kernel| {
        let built = build(kernel, &backend, &Options::default()).unwrap();
        let longest = built.report.source.iter().map(|s| s.lines().count()).max();
        longest.unwrap()
    };
    let plain = lines(&matmul(225, 32, 160, false, false, false));
    let gated = lines(&gated_product(225, 32, 160, DType::F32));
    assert!(gated < plain + 400, "{gated} lines, {plain} without");
}

#[test]
fn only_loops_of_sums_show_the_compiler_that_they_count() {
    let backend = Backend::find("CPU:LLVM", "", 1).unwrap();
    let counters = |kernel: &Kernel| -> (usize, usize) {
        let built = build(kernel, &backend, &Options::default()).unwrap();
        let text = built.report.source.last().unwrap().clone();
        let steps = text.lines().filter(|l| l.contains(".next = "));
        let (shown, hidden): (Vec<&str>, Vec<&str>) = steps.partition(|l| l.contains("= add "));
        (shown.len(), hidden.len())
    };
    let (shown, hidden) = counters(&gated_product(225, 32, 160, DType::F32));
    assert!(shown == 1 && hidden > 1, "{shown} shown, {hidden} hidden");
    let (shown, hidden) = counters(&elementwise(100_003));
    assert!(shown == 0 && hidden > 0, "{shown} shown, {hidden} hidden");
}

/// Kernels of every form that the heuristics know.
fn corpus() -> Vec<(Kernel, f64)> {
    let mut all = vec![
        (gated_product(50, 70, 45, DType::F32), 1e-3),
        (elementwise(1000), 1e-6),
        (row_normalise(33, 130), 1e-4),
        (moments(40, 1000), 1e-3),
        (softmax(33, 130), 1e-5),
        (softmax(5, 16), 1e-5),
        (conv(2, 3, 5, 9, 3), 1e-4),
        (conv(1, 8, 16, 14, 3), 1e-4),
        (conv(1, 4, 4, 8, 1), 1e-4),
        (scatter(20, 60, 33, ReduceOp::Add, DType::I32), 0.0),
        (scatter(5, 60, 1, ReduceOp::Add, DType::I32), 0.0),
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
            for dtype in [
                DType::I8,
                DType::U16,
                DType::I32,
                DType::I64,
                DType::F32,
                DType::F64,
            ] {
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

/// Combining stores of every float type, also of those that a target cannot compute with.
fn combining_stores() -> Vec<Kernel> {
    let mut all = Vec::new();
    for dtype in DType::ALL.into_iter().filter(|d| d.is_float()) {
        for op in [ReduceOp::Add, ReduceOp::Mul, ReduceOp::Max, ReduceOp::Min] {
            for width in [1, 33] {
                all.push(scatter(7, 40, width, op, dtype));
            }
        }
    }
    all
}

#[test]
fn combining_stores_of_every_float() {
    for kernel in combining_stores() {
        check_all(&kernel, 0.0);
        check_edges(
            &kernel,
            &Backend::find("CPU:LLVM", "", 1).unwrap(),
            0.0,
            "combine",
        );
        check_edges(
            &kernel,
            &Backend::find("CPU:CLANG", "", 1).unwrap(),
            0.0,
            "combine",
        );
    }
}

/// The columns of the product are three ranges, the depth goes through several passes.
#[test]
fn weight_gradient_in_passes() {
    let kernel = weight_gradient(6, 16, 32, 32, 3);
    let built = build(
        &kernel,
        &Backend::find("CPU:LLVM", "", 4).unwrap(),
        &Options::default(),
    )
    .unwrap();
    let opts = &built.report.opts;
    assert!(opts[0].starts_with("pack("), "{opts:?}");
    assert!(
        !opts[0].ends_with("k 6144)"),
        "one pass is enough: {opts:?}"
    );
    let case = Case::new(&kernel, 1e-3);
    for backend in [
        Backend::find("CPU:LLVM", "", 1).unwrap(),
        Backend::find("CPU:LLVM", "", 4).unwrap(),
        Backend::find("CPU:CLANG", "", 4).unwrap(),
    ] {
        case.check(&backend, &Options::default());
    }
}

#[test]
fn one_lane_index_for_each_value() {
    for (rows, n) in [(16, 64), (40, 1000), (1000, 40), (33, 17)] {
        check_all(&shared_sum(rows, n), 1e-4);
    }
}

#[test]
fn every_form_of_kernel_through_llvm() {
    for (kernel, tolerance) in corpus() {
        check_all(&kernel, tolerance);
    }
}

#[test]
fn every_form_of_kernel_through_clang() {
    let backend = Backend::find("CPU:CLANG", "", 4).unwrap();
    for (kernel, tolerance) in corpus() {
        Case::new(&kernel, tolerance).check(&backend, &Options::default());
    }
    let product = matmul(50, 70, 45, false, false, true);
    Case::new(&product, 1e-3).check(&backend, &Options::default());
}

fn check_edges(kernel: &Kernel, backend: &Backend, tolerance: f64, what: &str) {
    let mut random = Random(0xfeed_5eed_0bad_cafe);
    let buffers = edges(kernel, &mut random);
    let want = expected(kernel, &buffers, &numbers(kernel));
    let built =
        build(kernel, backend, &Options::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
    let loaded = Loaded::new(built);
    let mut got = buffers.clone();
    loaded.run(&mut got, &numbers(kernel));
    for (slot, p) in kernel.params.iter().enumerate().filter(|(_, p)| p.written) {
        same(p.dtype, &got[slot], &want[slot], tolerance, what);
    }
}

fn every_operation(backend: &Backend) {
    use codegen::interp::scalar;
    for dtype in DType::ALL {
        // What the interpreter does not define for a type is not an operation of it.
        let one = scalar::constant(dtype, 1);
        let unary: Vec<Unary> = Unary::ALL
            .iter()
            .copied()
            .filter(|&op| scalar::unary(op, dtype, one).is_some())
            .collect();
        let binary: Vec<Binary> = Binary::ALL
            .iter()
            .copied()
            .filter(|&op| scalar::binary(op, dtype, one, one).is_some())
            .collect();
        assert!(!unary.is_empty() && !binary.is_empty());
        let (near, exact): (Vec<Unary>, Vec<Unary>) =
            unary.into_iter().partition(|op| op.is_function());
        let (power, rest): (Vec<Binary>, Vec<Binary>) =
            binary.into_iter().partition(|&op| op == Binary::Pow);
        let parts = [
            operations(203, dtype, &exact, &[], &[]),
            operations(203, dtype, &[], &rest[..rest.len() / 2], &[]),
            operations(203, dtype, &[], &rest[rest.len() / 2..], &[]),
            operations(203, dtype, &[], &[], &DType::ALL[..7]),
            operations(203, dtype, &[], &[], &DType::ALL[7..]),
        ];
        for kernel in parts {
            check_edges(&kernel, backend, 0.0, dtype.name());
        }
        if dtype.is_float() {
            // A kernel of all functions would be long to compile; narrow floats are computed as wide ones.
            let kernels = if dtype.size() < 4 { 1 } else { near.len() };
            for some in near.chunks(7).take(kernels) {
                let kernel = operations(203, dtype, some, &power, &[]);
                check_edges(&kernel, backend, 1e-4, dtype.name());
            }
        }
    }
}

#[test]
fn every_operation_through_llvm() {
    every_operation(&Backend::find("CPU:LLVM", "", 1).unwrap());
}

#[test]
fn every_operation_through_clang() {
    every_operation(&Backend::find("CPU:CLANG", "", 1).unwrap());
}

#[test]
fn numbers_of_every_type() {
    for dtype in DType::ALL {
        let kernel = arguments(dtype);
        for compiler in ["CPU:LLVM", "CPU:CLANG"] {
            let backend = Backend::find(compiler, "", 1).unwrap();
            check_edges(&kernel, &backend, 0.0, &format!("{compiler} {dtype}"));
        }
    }
    for size in [6, 96] {
        check_all(&part_of_a_product(size), 1e-3);
    }
}
