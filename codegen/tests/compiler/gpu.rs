//! Kernels for GPUs: what the optimiser makes of a kernel gives the same on the interpreter of
//! linear programs as the kernel itself, and stays within the limits of the target.
use crate::support;

use codegen::build::planned;
use codegen::ir::mma::{Digit, Fragment, Fragments, MmaDesc, Rows};
use codegen::ir::{Binary, Id, Kernel, ReduceOp, StoreMode, verify};
use codegen::lower::decomp::Caps;
use codegen::lower::{exec, lower, narrow};
use codegen::opt::contract::{Blocking, Contraction, Staged, blocks};
use codegen::target::{Target, TargetKind};
use codegen::{DType, Options, estimate};
use conformance::part::Part;
use support::*;

/// The matrix instruction of a chip for operands of a type.
fn wave_matrix(chip: &str, operand: DType) -> MmaDesc {
    let all = Target::amd(chip).unwrap().mma;
    *all.iter().find(|d| d.operands == [operand; 2]).unwrap()
}

/// Of the layout of `mma.sync.m16n8k16`, in which rows and columns differ: no target has it yet.
fn m16n8k16() -> MmaDesc {
    static FRAGMENTS: Fragments = {
        const LANE: [Digit; 3] = [Digit::new(4, [0, 2]), Digit::new(8, [1, 0]), Digit::NONE];
        const PAIR: Digit = Digit::new(2, [0, 1]);
        Fragments {
            a: Fragment {
                lane: LANE,
                element: [PAIR, Digit::new(2, [8, 0]), Digit::new(2, [0, 8])],
            },
            b: Fragment {
                lane: LANE,
                element: [PAIR, Digit::new(2, [0, 8]), Digit::NONE],
            },
            c: Fragment {
                lane: LANE,
                element: [PAIR, Digit::new(2, [8, 0]), Digit::NONE],
            },
        }
    };
    MmaDesc {
        m: 16,
        n: 8,
        k: 16,
        operands: [DType::F16; 2],
        acc: DType::F32,
        fragments: Some(&FRAGMENTS),
    }
}

/// Runs stages on the interpreter of linear programs, and compares.
fn compare(kernel: &Kernel, staged: &Staged, tolerance: f64, what: &str) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let buffers = fill(kernel, &mut random);
    let want = expected(kernel, &buffers, &[]);
    for order in [exec::ItemOrder::Forward, exec::ItemOrder::Backward] {
        let mut got = buffers.clone();
        got.extend(staged.scratch.iter().map(|s| vec![0x7f; s.bytes]));
        for stage in &staged.stages {
            verify::verify(&stage.kernel).unwrap();
            let program = lower(&stage.kernel, &Caps::PLAIN).unwrap();
            exec::run(&program, &mut got, &[], order)
                .unwrap_or_else(|e| panic!("{what}: {e}\n{program}"));
        }
        for (slot, p) in kernel.params.iter().enumerate() {
            same(p.dtype, &got[slot], &want[slot], tolerance, what);
        }
    }
}

fn plain() -> Blocking {
    Blocking {
        along_rows: 4,
        along_cols: 4,
        rows: 2,
        cols: 4,
        depth: 8,
        parts: 1,
        vector: 4,
        slabs: 1,
        boxes: false,
        mma: None,
        acc: DType::F32,
        swap: false,
    }
}

fn blocked(kernel: &Kernel, block: Blocking) -> Staged {
    let c = Contraction::find(kernel).unwrap();
    blocks(kernel, &c.oriented(block.swap), block).unwrap()
}

#[test]
fn blocks_of_work_items() {
    for (m, n, k) in [
        (16, 16, 16),
        (8, 32, 24),
        (33, 7, 9),
        (17, 40, 8),
        (5, 5, 129),
    ] {
        for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
            let kernel = matmul(m, n, k, ta, tb, true);
            for block in [
                plain(),
                Blocking {
                    swap: true,
                    ..plain()
                },
                Blocking {
                    slabs: 2,
                    ..plain()
                },
                Blocking {
                    parts: 2,
                    ..plain()
                },
                Blocking {
                    cols: 3,
                    vector: 1,
                    ..plain()
                },
            ] {
                let what = format!("{m}x{n}x{k} {ta} {tb} {block}");
                compare(&kernel, &blocked(&kernel, block), 1e-5, &what);
            }
        }
    }
}

#[test]
fn blocks_of_waves() {
    for d in [
        wave_matrix("gfx1100", DType::F16),
        wave_matrix("gfx1201", DType::BF16),
        wave_matrix("gfx942", DType::F16),
        wave_matrix("gfx942", DType::F32),
        wave_matrix("gfx1201", DType::I8),
        wave_matrix("gfx942", DType::F64),
        m16n8k16(),
    ] {
        for (m, n, k) in [(32, 32, 32), (33, 20, 40), (7, 70, 17)] {
            let kernel = product(m, n, k, d.operands[0], d.acc);
            for block in [
                Blocking {
                    mma: Some(d),
                    acc: d.acc,
                    along_rows: 1,
                    along_cols: 2,
                    rows: 2,
                    cols: 1,
                    depth: 16,
                    vector: 8,
                    ..plain()
                },
                Blocking {
                    mma: Some(d),
                    acc: d.acc,
                    along_rows: 2,
                    along_cols: 1,
                    rows: 1,
                    cols: 2,
                    depth: 32,
                    slabs: 2,
                    swap: true,
                    ..plain()
                },
            ] {
                let what = format!("{m}x{n}x{k} {block}");
                compare(&kernel, &blocked(&kernel, block), 1e-5, &what);
            }
        }
    }
}

/// `sum of a[i, r] * b[r, j]`, operands cast to the type of the sum.
/// What instructions read in local memory lies there in rows, along the sum or along a side.
#[test]
fn blocks_that_are_read_in_memory() {
    let all = Target::nv("sm_90", 0).unwrap().mma;
    for d in all
        .into_iter()
        .filter(|d| d.in_memory() && d.operands[0] == d.operands[1])
    {
        // The wider ones of one type only: they differ in nothing else.
        if d.n > 128 || d.n > 64 && d.operands[0] != DType::BF16 {
            continue;
        }
        let depth = Rows::width(d.operands[0]) as u32;
        for (m, n, k) in [(64, 64, 64), (70, 100, 150)] {
            let kernel = product(m, n, k, d.operands[0], d.acc);
            for block in [
                Blocking {
                    mma: Some(d),
                    acc: d.acc,
                    along_rows: 1,
                    along_cols: 1,
                    rows: 2,
                    cols: 1,
                    depth,
                    vector: 16,
                    ..plain()
                },
                Blocking {
                    mma: Some(d),
                    acc: d.acc,
                    along_rows: 2,
                    along_cols: 1,
                    rows: 1,
                    cols: 1,
                    depth: depth * 2,
                    parts: 2,
                    vector: 16,
                    slabs: 2,
                    boxes: false,
                    swap: true,
                },
            ] {
                let what = format!("{m}x{n}x{k} {block}");
                compare(&kernel, &blocked(&kernel, block), 1e-5, &what);
            }
        }
        if d.operands[0].size() != 2 {
            continue;
        }
        // With copies that are several steps early, of a sum of fewer steps and of more.
        for k in [64, 72, 456] {
            for (slabs, parts, swap, boxes) in [
                (3, 1, false, false),
                (4, 1, true, false),
                (4, 2, false, false),
                (3, 1, true, true),
                (4, 2, false, true),
            ] {
                let kernel = product(72, 104, k, d.operands[0], d.acc);
                let block = Blocking {
                    mma: Some(d),
                    acc: d.acc,
                    along_rows: 2,
                    along_cols: 1,
                    rows: 1,
                    cols: 1,
                    depth,
                    vector: 8,
                    slabs,
                    boxes,
                    parts,
                    swap,
                };
                let what = format!("72x104x{k} {block}");
                compare(&kernel, &blocked(&kernel, block), 1e-5, &what);
            }
        }
    }
    // What has no pieces that are neighbours has no copies.
    let d = *Target::nv("sm_90", 0)
        .unwrap()
        .mma
        .iter()
        .find(|d| d.in_memory())
        .unwrap();
    let kernel = product(64, 64, 70, d.operands[0], d.acc);
    let block = Blocking {
        mma: Some(d),
        depth: 64,
        vector: 8,
        slabs: 4,
        ..plain()
    };
    assert!(blocks(&kernel, &Contraction::find(&kernel).unwrap(), block).is_none());
}

fn product(mm: i64, n: i64, k: i64, operand: DType, acc: DType) -> Kernel {
    let mut m = Make::new();
    let o = m.buffer(acc, (mm * n) as usize, true);
    let a = m.buffer(operand, (mm * k) as usize, false);
    let b = m.buffer(operand, (k * n) as usize, false);
    let (i, j, r) = (m.l(mm), m.l(n), m.r(k));
    let x = m.load(a, &[(i, k), (r, 1)]);
    let y = m.load(b, &[(r, n), (j, 1)]);
    let (x, y) = (m.g.cast(x, acc), m.g.cast(y, acc));
    let p = m.mul(x, y);
    let s = m.sum(p, &[r]);
    m.store(o, &[(i, n), (j, 1)], s);
    m.kernel("product")
}

/// A GPU with so many bytes of local memory, registers and work-items in a group.
fn gpu(wave: usize, local: usize, regs: usize, items: usize, mma: &[MmaDesc]) -> Target {
    Target {
        kind: TargetKind::Gpu,
        cpu: "gpu".into(),
        vector_bytes: 16,
        vector_regs: regs,
        cores: 4,
        max_local_bytes: local,
        wave,
        max_items: items,
        max_groups: [1 << 20, 65535, 65535],
        mma: mma.to_vec(),
        groups: Target::amd("gfx1100").unwrap().groups,
        ..Target::host(4)
    }
}

fn targets() -> Vec<Target> {
    let rdna3 = [
        wave_matrix("gfx1100", DType::F16),
        wave_matrix("gfx1100", DType::BF16),
    ];
    let cdna = [
        wave_matrix("gfx942", DType::F16),
        wave_matrix("gfx942", DType::F32),
    ];
    vec![
        gpu(32, 64 << 10, 256, 1024, &rdna3),
        gpu(64, 64 << 10, 512, 1024, &cdna),
        gpu(32, 2 << 10, 96, 64, &rdna3),
        gpu(32, 48 << 10, 255, 1024, &[m16n8k16()]),
        gpu(8, 256, 64, 16, &[]),
        gpu(4, 0, 256, 4, &[]),
    ]
}

/// The kernel as the heuristics make it, within the limits of the target.
fn check(kernel: &Kernel, target: &Target, tolerance: f64) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let buffers = fill(kernel, &mut random);
    let want = expected(kernel, &buffers, &[]);
    check_against(kernel, target, tolerance, &buffers, &want);
}

fn check_against(
    kernel: &Kernel,
    target: &Target,
    tolerance: f64,
    buffers: &[Vec<u8>],
    want: &[Vec<u8>],
) {
    let mut start = kernel.clone();
    start.sink = codegen::rewrite::simplify(&mut start.graph, start.sink);
    let (stages, scratch) = planned(&start, target, &Options::default()).unwrap();
    let mut got = buffers.to_vec();
    got.extend(scratch.iter().map(|s| vec![0x7f; s.bytes]));
    let mut what = format!(
        "{} on waves of {}, {} bytes of local memory:",
        kernel.name, target.wave, target.max_local_bytes
    );
    for stage in &stages {
        for step in &stage.steps {
            what += &format!(" {step}");
        }
        what += ";";
        verify::verify(&stage.kernel).unwrap_or_else(|e| panic!("{what} {e}"));
        let mut program =
            lower(&stage.kernel, &Caps::PLAIN).unwrap_or_else(|e| panic!("{what} {e}"));
        narrow(&mut program);
        assert!(
            program.items <= target.max_items as i64,
            "{what} {}",
            program.items
        );
        let local = program.local_bytes();
        assert!(local <= target.max_local_bytes, "{what} {local} bytes");
        assert!(program.grid(target).is_some());
        exec::run(&program, &mut got, &[], exec::ItemOrder::Backward)
            .unwrap_or_else(|e| panic!("{what} {e}\n{program}"));
    }
    for (slot, p) in kernel.params.iter().enumerate() {
        same(p.dtype, &got[slot], &want[slot], tolerance, &what);
    }
}

#[test]
fn products_of_all_shapes() {
    for (m, n, k) in [
        (64, 64, 32),
        (1, 33, 129),
        (33, 1, 64),
        (7, 129, 33),
        (65, 40, 31),
        (16, 24, 700),
    ] {
        let all = targets();
        for (i, target) in all.iter().enumerate() {
            let kernel = matmul(m, n, k, i % 2 == 0, i % 3 == 0, true);
            check(&kernel, target, 1e-4);
        }
        for (operand, acc) in [
            (DType::F16, DType::F32),
            (DType::BF16, DType::F32),
            (DType::F64, DType::F64),
            (DType::I8, DType::I32),
            (DType::I32, DType::I32),
            (DType::U16, DType::U32),
            (DType::I64, DType::I64),
        ] {
            let kernel = product(m, n, k, operand, acc);
            let matrix = operand.size() == 2 && acc == DType::F32;
            for target in &all[..if matrix { 3 } else { 1 }] {
                check(&kernel, target, 1e-4);
            }
        }
    }
}

#[test]
fn convolutions_and_rows() {
    let kernels = [
        conv(2, 3, 8, 9, 3),
        conv(1, 16, 16, 8, 3),
        weight_gradient(2, 3, 4, 7, 3),
        row_normalise(6, 24),
        row_normalise(300, 129),
        row_normalise(2, 2000),
        moments(5, 32),
        moments(3, 4097),
        softmax(7, 33),
        softmax(64, 1000),
        softmax(1, 1),
        shared_sum(6, 40),
        transpose(33, 129, DType::F32),
        transpose(64, 64, DType::F16),
        elementwise(1),
        elementwise(7),
        elementwise(100_003),
        elementwise(65_536),
    ];
    let part = Part::chosen();
    for (i, kernel) in kernels.iter().enumerate() {
        for (j, target) in targets().iter().enumerate() {
            if part.has(i + j, 3) {
                check(kernel, target, 1e-4);
            }
        }
    }
}

#[test]
fn reductions_of_all_operations_and_types() {
    use ReduceOp::{Add, And, Max, Min, Mul, Or};
    let part = Part::chosen();
    for (i, dtype) in DType::ALL.into_iter().enumerate() {
        for (j, op) in [Add, Mul, Max, Min, And, Or].into_iter().enumerate() {
            if !part.has(i + j, 4) {
                continue;
            }
            let bitwise = matches!(op, And | Or);
            if bitwise && dtype.is_float() || dtype == DType::Bool && !bitwise {
                continue;
            }
            // Sums of small floats depend on the order by more than can be compared.
            if dtype.accumulator() != dtype && matches!(op, Add | Mul) {
                continue;
            }
            let tolerance = 1e-4;
            for shape in [
                [1, 1, 1],
                [7, 33, 5],
                [1, 300, 1],
                [129, 1, 40],
                [3, 64, 128],
            ] {
                for axis in 0..3 {
                    let kernel = cube_sum(shape, axis, op, dtype);
                    let all = targets();
                    let which = (shape[1] as usize + axis) % all.len();
                    check(&kernel, &all[which], tolerance);
                    check(&kernel, &all[0], tolerance);
                }
            }
        }
    }
}

#[test]
fn long_reductions_go_in_parts() {
    for op in [ReduceOp::Add, ReduceOp::Max] {
        for n in [100_000, 65_536, 99_991] {
            let kernel = cube_sum([1, n, 1], 1, op, DType::I32);
            for target in targets() {
                check(&kernel, &target, 0.0);
            }
            let (stages, scratch) = planned(&kernel, &targets()[0], &Options::default()).unwrap();
            assert_eq!((stages.len(), scratch.len()), (2, 1), "{n}");
        }
    }
}

/// Rates of stages are of their own work: a product is not credited to what packs its operands, nor a sum to what adds
/// its parts.
#[test]
fn each_stage_has_its_own_work() {
    let product = product(512, 512, 512, DType::F32, DType::F32);
    let sum = cube_sum([1, 100_000, 1], 1, ReduceOp::Add, DType::I32);
    for (kernel, target, most) in [
        (&product, Target::host(2), "_tile"),
        (&sum, targets().swap_remove(0), "_part"),
    ] {
        let whole = estimate(kernel).0;
        let (stages, _) = planned(kernel, &target, &Options::default()).unwrap();
        assert!(whole > 0.0 && stages.len() > 1, "{}", stages.len());
        let all: f64 = stages.iter().map(|stage| stage.flops).sum();
        assert!((all / whole - 1.0).abs() < 1e-9, "{all} of {whole}");
        let found: Vec<(&str, f64)> = stages
            .iter()
            .map(|stage| (&*stage.kernel.name, stage.flops))
            .collect();
        for (name, flops) in &found {
            assert_eq!(*flops > 0.98 * whole, name.ends_with(most), "{found:?}");
        }
    }
}

#[test]
fn long_sums_keep_their_digits() {
    // All terms are the same, so that all additions round to one side for long.
    let term = 0.1f32;
    for shape in [[1, 100_003, 1], [1, 20_000, 3]] {
        let kernel = cube_sum(shape, 1, ReduceOp::Add, DType::F32);
        let results = (shape[0] * shape[2]) as usize;
        let terms = term.to_le_bytes().repeat(results * shape[1] as usize);
        let sum = (f64::from(term) * shape[1] as f64) as f32;
        let buffers = vec![vec![0; 4 * results], terms.clone()];
        let want = vec![sum.to_le_bytes().repeat(results), terms];
        for target in targets() {
            check_against(&kernel, &target, 1e-6, &buffers, &want);
        }
    }
}

#[test]
fn scans_and_scatters_keep_their_order() {
    for target in targets() {
        for along in [false, true] {
            check(&prefix(6, 9, ReduceOp::Add, along), &target, 1e-5);
            check(&prefix(70, 300, ReduceOp::Max, along), &target, 1e-5);
        }
        check(
            &scatter(15, 40, 10, ReduceOp::Add, DType::I32),
            &target,
            0.0,
        );
        check(
            &scatter(64, 64, 32, ReduceOp::Add, DType::F32),
            &target,
            1e-4,
        );
    }
}

#[test]
#[ignore = "prints the steps for some kernels"]
fn steps_of_kernels() {
    let target = Target::amd("gfx1100").unwrap();
    for kernel in [
        elementwise(1 << 20),
        elementwise(1_000_003),
        transpose(1024, 1024, DType::F32),
        softmax(1024, 1000),
        softmax(64, 100),
        moments(4096, 768),
        row_normalise(8, 32_000),
        cube_sum([1, 1 << 24, 1], 1, ReduceOp::Add, DType::F32),
        cube_sum([4096, 1, 4096], 0, ReduceOp::Add, DType::F32),
        cube_sum([64, 64, 49], 2, ReduceOp::Max, DType::F32),
        matmul(1, 4096, 4096, false, false, false),
        matmul(1, 4096, 4096, false, true, false),
        conv(8, 64, 64, 56, 3),
        matmul(64, 64, 8192, false, false, false),
        prefix(1024, 1024, ReduceOp::Add, false),
        scatter(1000, 4000, 64, ReduceOp::Add, DType::F32),
    ] {
        let (stages, _) = planned(&kernel, &target, &Options::default()).unwrap();
        for stage in &stages {
            let program = lower(&stage.kernel, &Caps::PLAIN).unwrap();
            let steps: Vec<String> = stage.steps.iter().map(|s| s.to_string()).collect();
            println!(
                "{} {:?}: {} groups of {}, {} bytes: {}",
                stage.kernel.name,
                kernel.params.iter().map(|p| p.len).collect::<Vec<_>>(),
                program.groups,
                program.items,
                program.local_bytes(),
                steps.join(" ")
            );
            if std::env::var_os("SHOW").is_some() {
                println!("{program}");
            }
        }
    }
}

#[test]
#[ignore = "prints how long the choice and the lowering of a large product take"]
fn time_of_a_large_product() {
    let chips = Target::amd_chips().map(|c| Target::amd(c).unwrap());
    let every: Vec<Target> = chips.chain(targets()).collect();
    let types = [(DType::F16, DType::F32), (DType::F32, DType::F32)];
    for (target, (operand, acc)) in every.iter().flat_map(|t| types.map(|x| (t, x))) {
        let kernel = product(1024, 1024, 1024, operand, acc);
        let start = std::time::Instant::now();
        let (stages, _) = planned(&kernel, target, &Options::default()).unwrap();
        let planned = start.elapsed();
        let mut program = lower(&stages[0].kernel, &Caps::PLAIN).unwrap();
        narrow(&mut program);
        println!(
            "{} {}: planned {planned:?}, lowered {:?}, {} instructions",
            target.cpu,
            stages[0].steps[0],
            start.elapsed() - planned,
            program.insts.len()
        );
        if std::env::var_os("SHOW").is_some() {
            println!("{program}");
        }
    }
}

/// Strides of ranges that lie in memory in some order, and the elements of it all.
fn layout(random: &mut Random, extents: &[i64]) -> (Vec<i64>, i64) {
    let mut order: Vec<usize> = (0..extents.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    let mut strides = vec![0; extents.len()];
    // Rows may have a gap after them.
    let mut next = 1 + i64::from(random.below(4) == 0);
    for i in order {
        strides[i] = next;
        next *= extents[i];
    }
    (strides, next)
}

/// A sum of products of some shape, with batches, windows or broadcasts, and an epilogue.
fn any_contraction(random: &mut Random) -> (Kernel, f64) {
    let types = [
        (DType::F32, DType::F32),
        (DType::F16, DType::F32),
        (DType::BF16, DType::F32),
        (DType::I8, DType::I32),
        (DType::F32, DType::F32),
        (DType::U8, DType::U32),
    ];
    let (operand, acc) = types[random.below(6) as usize];
    let pick = |random: &mut Random, list: &[i64]| list[random.below(list.len() as u64) as usize];
    let batch = pick(random, &[1, 1, 2, 3]);
    let (mut i, mut j) = (
        pick(random, &[1, 4, 7, 16, 33, 48]),
        pick(random, &[1, 5, 8, 16, 31, 64]),
    );
    if random.below(4) == 0 {
        std::mem::swap(&mut i, &mut j);
    }
    let k = [pick(random, &[1, 2, 3, 8]), pick(random, &[1, 7, 16, 33])];
    let mut m = Make::new();
    let (b, r, c) = (m.l(batch), m.l(i), m.l(j));
    let (k0, k1) = (m.r(k[0]), m.r(k[1]));
    let side = |m: &mut Make, random: &mut Random, own: Id, n: i64| {
        let (strides, len) = layout(random, &[batch, n, k[0], k[1]]);
        let ptr = m.buffer(operand, len as usize, false);
        let mut terms = vec![(own, strides[1]), (k0, strides[2]), (k1, strides[3])];
        if random.below(3) > 0 {
            terms.push((b, strides[0]));
        }
        let index = m.at(&terms, 0);
        let value = if random.below(3) == 0 {
            // Outside of a border there is nothing.
            let sum = m.add(own, k1);
            let limit = m.g.index((n + k[1]) * 2 / 3);
            let inside = m.g.binary(Binary::Lt, sum, limit);
            let zero = m.g.bits(operand, 0);
            m.g.load_gated(ptr, index, inside, zero)
        } else {
            m.g.load(ptr, index)
        };
        m.g.cast(value, acc)
    };
    let x = side(&mut m, random, r, i);
    let y = side(&mut m, random, c, j);
    let p = m.mul(x, y);
    let mut sum = m.sum(p, &[k0, k1]);
    if random.below(2) == 0 {
        let bias = m.buffer(acc, j as usize, false);
        let bias = m.load(bias, &[(c, 1)]);
        sum = m.add(sum, bias);
        sum = m.g.binary(Binary::Max, sum, bias);
    }
    let (strides, len) = layout(random, &[batch, i, j]);
    let out = m.buffer(acc, len as usize, true);
    m.store(
        out,
        &[(b, strides[0]), (r, strides[1]), (c, strides[2])],
        sum,
    );
    let work = (batch * i * j * k[0] * k[1]) as f64;
    (m.kernel("any"), work)
}

#[test]
fn any_contractions() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let all: Vec<Target> = ["gfx1100", "gfx1201", "gfx942"]
        .iter()
        .map(|c| Target::amd(c).unwrap())
        .chain(targets())
        .collect();
    let mut blocked = 0;
    for round in 0..60 {
        let (kernel, work) = any_contraction(&mut random);
        verify::verify(&kernel).unwrap();
        if work > 400_000.0 {
            continue;
        }
        let buffers = fill(&kernel, &mut random);
        let want = expected(&kernel, &buffers, &[]);
        for target in [&all[round % all.len()], &all[(round * 5 + 3) % all.len()]] {
            check_against(&kernel, target, 1e-4, &buffers, &want);
        }
        let (stages, _) = planned(&kernel, &all[0], &Options::default()).unwrap();
        blocked += usize::from(stages[0].kernel.name.ends_with("block"));
    }
    assert!(blocked > 5, "{blocked} in blocks");
}

/// Stores over different loops are launches of their own, unless they meet in a buffer.
#[test]
fn stores_that_share_no_loop_are_apart() {
    for meet in [false, true] {
        let mut m = Make::new();
        let a = m.buffer(DType::F32, 600, true);
        let b = m.buffer(DType::F32, 300, !meet);
        let x = m.buffer(DType::F32, 600, false);
        let (i, j, k) = (m.l(500), m.l(60), m.r(10));
        let v = m.load(x, &[(i, 1)]);
        m.store(a, &[(i, 1)], v);
        let v = m.load(x, &[(j, 10), (k, 1)]);
        let s = m.sum(v, &[k]);
        if meet {
            let index = m.at(&[(j, 1)], 540);
            let s = m.g.store(StoreMode::Set, a, index, s, None);
            m.store_as(s);
        } else {
            m.store(b, &[(j, 1)], s);
        }
        let kernel = m.kernel("apart");
        for target in targets() {
            check(&kernel, &target, 1e-5);
            let (stages, _) = planned(&kernel, &target, &Options::default()).unwrap();
            assert_eq!(stages.len(), if meet { 1 } else { 2 });
        }
    }
}
