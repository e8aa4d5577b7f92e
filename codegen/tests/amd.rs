//! Kernels for AMD GPUs: compiled for every chip, and run on the software model of the shader
//! engine against the interpreter.
#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used)]

#[path = "amd/atomics.rs"]
mod atomics;
#[path = "amd/machine.rs"]
mod machine;
mod support;

use std::sync::Arc;

use codegen::compile::{ClangCompiler, Compiler, LlvmCompiler};
use codegen::ir::mma::MmaDesc;
use codegen::ir::{Binary, Kernel, ReduceOp, Unary};
use codegen::opt::contract::Blocking;
use codegen::render::{HipRenderer, Language, Source};
use codegen::{Backend, DType, Opt, Options, Target, build};
use conformance::part::Part;
use support::*;

/// One chip of each generation.
const GENERATIONS: [&str; 4] = ["gfx1030", "gfx1100", "gfx1201", "gfx942"];

/// Runs a kernel on a chip, as it is and optimised.
fn check_on(chip: &str, kernel: &Kernel, buffers: &[Vec<u8>], want: &[Vec<u8>], tolerance: f64) {
    let backend = Backend::find("AMD:LLVM", chip, 0).unwrap();
    for noopt in [true, false] {
        let options = Options {
            noopt,
            deterministic: true,
            ..Options::default()
        };
        let built = build(kernel, &backend, &options).unwrap_or_else(|e| panic!("{chip}: {e}"));
        let mut got = buffers.to_vec();
        machine::run(&built, &backend.target, &mut got, &[]);
        for (slot, p) in kernel.params.iter().enumerate() {
            let what = format!(
                "{} on {chip} buffer {slot} {:?}",
                kernel.name, built.report.opts
            );
            same(p.dtype, &got[slot], &want[slot], tolerance, &what);
        }
    }
}

fn check(kernel: &Kernel, tolerance: f64) {
    let buffers = fill(kernel, &mut Random(0x1234_5678_9abc_def1));
    let want = expected(kernel, &buffers, &[]);
    for chip in GENERATIONS {
        check_on(chip, kernel, &buffers, &want, tolerance);
    }
}

#[test]
fn elements() {
    for n in [1, 2, 3, 15, 17, 64, 1000, 5003] {
        check(&elementwise(n), 1e-6);
    }
}

#[test]
fn rows() {
    for (r, n) in [(1, 1), (3, 7), (33, 130), (4, 1024)] {
        check(&row_normalise(r, n), 1e-4);
        check(&softmax(r, n), 1e-5);
    }
    check(&moments(40, 300), 1e-3);
    check(&shared_sum(40, 300), 1e-4);
}

#[test]
fn reductions_of_every_type() {
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

#[test]
fn products_and_convolutions() {
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

#[test]
fn scans_and_scatters() {
    for along in [false, true] {
        check(&prefix(20, 40, ReduceOp::Add, along), 1e-4);
        check(&prefix(7, 100, ReduceOp::Max, along), 0.0);
    }
    for dtype in DType::ALL.into_iter().filter(|&d| d != DType::Bool) {
        check(&scatter(7, 40, 33, ReduceOp::Add, dtype), 0.0);
        check(&transpose(33, 17, dtype), 0.0);
    }
}

fn check_edges(chip: &str, kernel: &Kernel, tolerance: f64) {
    let buffers = edges(kernel, &mut Random(0xfeed_5eed_0bad_cafe));
    let want = expected(kernel, &buffers, &[]);
    check_on(chip, kernel, &buffers, &want, tolerance);
}

/// Every operation and every conversion, on the values at which types end and on random ones.
fn every_operation(chip: &str) {
    use codegen::interp::scalar;
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
        check_edges(chip, &operations(n, dtype, &exact, &rest, &DType::ALL), 0.0);
        if dtype.is_float() {
            check_edges(chip, &operations(n, dtype, &near, &power, &[]), 1e-4);
        }
    }
}

#[test]
fn every_operation_of_rdna2() {
    every_operation("gfx1030");
}

#[test]
fn every_operation_of_rdna3() {
    every_operation("gfx1100");
}

#[test]
fn every_operation_of_rdna4() {
    every_operation("gfx1201");
}

#[test]
fn every_operation_of_cdna3() {
    every_operation("gfx942");
}

/// `sum of a[i, r] * b[r, j]`, operands cast to the type of the sum.
fn product(mm: i64, n: i64, k: i64, operands: [DType; 2], acc: DType) -> Kernel {
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
fn matrix_blocks(d: MmaDesc) -> [Blocking; 2] {
    let one = Blocking {
        along_rows: 1,
        along_cols: 2,
        rows: 2,
        cols: 1,
        depth: u32::from(d.k.max(16)),
        parts: 1,
        vector: 4,
        double: false,
        mma: Some(d),
        acc: d.acc,
        swap: false,
    };
    let other = Blocking {
        along_rows: 2,
        along_cols: 1,
        rows: 1,
        cols: 2,
        depth: u32::from(d.k.max(16)) * 2,
        double: true,
        swap: true,
        ..one
    };
    [one, other]
}

/// The types of the operands in memory: a block may exchange rows and columns.
fn stored(d: MmaDesc, block: &Blocking) -> [DType; 2] {
    let [a, b] = d.operands;
    if block.swap { [b, a] } else { [a, b] }
}

/// The instruction is really in the code, and gives the right product.
fn check_matrix(backend: &Backend, d: MmaDesc, block: Blocking) {
    let options = Options {
        opts: Some(vec![Opt::Block(block)]),
        ..Options::default()
    };
    let chip = &backend.target.cpu;
    let what = format!("{chip} {d:?} {block}");
    let kernel = product(40, 70, 100, stored(d, &block), d.acc);
    let built = build(&kernel, backend, &options).unwrap_or_else(|e| panic!("{what}: {e}"));
    let text = built.report.disassembly().unwrap();
    assert!(text.contains(&mnemonic(d)), "{what}\n{text}");
    if machine::generation(chip).is_none() {
        return;
    }
    let buffers = fill(&kernel, &mut Random(0x1234_5678_9abc_def1));
    let want = expected(&kernel, &buffers, &[]);
    let mut got = buffers.clone();
    machine::run(&built, &backend.target, &mut got, &[]);
    same(d.acc, &got[0], &want[0], 1e-4, &what);
}

#[test]
fn matrix_instructions() {
    let part = Part::chosen();
    for chip in Target::amd_chips() {
        let backend = Backend::find("AMD:LLVM", chip, 0).unwrap();
        // Chips of one generation differ in nothing that concerns them.
        let blocks = if GENERATIONS.contains(&chip) { 2 } else { 1 };
        for (i, &d) in backend.target.mma.iter().enumerate() {
            if !part.has(i, 3) {
                continue;
            }
            for block in matrix_blocks(d).into_iter().take(blocks) {
                check_matrix(&backend, d, block);
            }
        }
    }
}

/// The instruction, as the disassembler calls it.
fn mnemonic(d: MmaDesc) -> String {
    let name = if d.wave() == 64 { "v_mfma" } else { "v_wmma" };
    let acc = if d.acc.is_float() {
        d.acc.name()
    } else {
        "i32"
    };
    let operand = match d.operands {
        [DType::F8E4M3, DType::F8E4M3] => "fp8_fp8",
        [DType::F8E4M3, DType::F8E5M2] => "fp8_bf8",
        [DType::F8E5M2, DType::F8E4M3] => "bf8_fp8",
        [DType::F8E5M2, _] => "bf8_bf8",
        [DType::I8 | DType::U8, _] if d.wave() != 64 => "iu8",
        [other, _] => other.name(),
    };
    format!("{name}_{acc}_{}x{}x{}_{operand}", d.m, d.n, d.k)
}

/// The heuristics choose them where the work fills the machine.
#[test]
fn large_products_use_matrix_instructions() {
    for chip in ["gfx1100", "gfx1201", "gfx942"] {
        let backend = Backend::find("AMD:LLVM", chip, 0).unwrap();
        for &d in &backend.target.mma {
            let kernel = product(1024, 1024, 1024, d.operands, d.acc);
            let built = build(&kernel, &backend, &Options::default()).unwrap();
            let text = built.report.disassembly().unwrap();
            let what = format!("{chip} {:?}", built.report.opts);
            assert!(text.contains(&mnemonic(d)), "{what}");
        }
    }
}

/// Without an instruction of their own, products of 8-bit floats are products of halves.
#[test]
fn narrow_floats_use_the_instructions_of_halves() {
    use DType::{F8E4M3, F8E5M2, F16};
    for (chip, operands) in [
        ("gfx1100", [F8E4M3, F8E4M3]),
        ("gfx1100", [F8E5M2, F8E4M3]),
        ("gfx942", [F8E4M3, F8E5M2]),
        ("gfx942", [F8E5M2, F16]),
        ("gfx1201", [F8E5M2, F16]),
    ] {
        let backend = Backend::find("AMD:LLVM", chip, 0).unwrap();
        let kernel = product(1024, 1024, 1024, operands, DType::F32);
        let large = build(&kernel, &backend, &Options::default()).unwrap();
        let what = format!("{chip} {operands:?} {:?}", large.report.opts);
        let all = &backend.target.mma;
        let d = *all.iter().find(|d| d.operands == [F16; 2]).unwrap();
        let text = large.report.disassembly().unwrap();
        assert!(text.contains(&mnemonic(d)), "{what}");
        let kernel = product(40, 70, 100, operands, DType::F32);
        let options = Options {
            opts: Some(vec![Opt::Block(matrix_blocks(d)[0])]),
            ..Options::default()
        };
        let built = build(&kernel, &backend, &options).unwrap();
        let buffers = fill(&kernel, &mut Random(0x1234_5678_9abc_def1));
        let want = expected(&kernel, &buffers, &[]);
        let mut got = buffers.clone();
        machine::run(&built, &backend.target, &mut got, &[]);
        same(DType::F32, &got[0], &want[0], 1e-4, &what);
    }
}

/// Arithmetic on halves is not done in `f32` and rounded: two at a time in packed instructions.
#[test]
fn halves_are_computed_in_pairs() {
    let mut m = Make::new();
    let n = 4096;
    let o = m.buffer(DType::F16, n as usize, true);
    let [a, b] = [0, 1].map(|_| m.buffer(DType::F16, n as usize, false));
    let i = m.l(n);
    let (x, y) = (m.load(a, &[(i, 1)]), m.load(b, &[(i, 1)]));
    let product = m.mul(x, y);
    let sum = m.add(product, x);
    let less = m.g.binary(Binary::Sub, sum, y);
    let size = m.unary(Unary::Abs, less);
    let most = m.g.binary(Binary::Max, size, y);
    m.store(o, &[(i, 1)], most);
    let kernel = m.kernel("halves");
    for chip in GENERATIONS {
        check_edges(chip, &kernel, 0.0);
        let backend = Backend::find("AMD:LLVM", chip, 0).unwrap();
        let options = Options {
            opts: Some(vec![
                Opt::Vec { axis: 0, lanes: 4 },
                Opt::Local { axis: 0, n: 32 },
            ]),
            ..Options::default()
        };
        let built = build(&kernel, &backend, &options).unwrap();
        let text = built.report.disassembly().unwrap();
        for want in ["v_pk_mul_f16", "v_pk_add_f16"] {
            assert!(text.contains(want), "{chip}: no {want}\n{text}");
        }
        assert!(!text.contains("v_cvt_"), "{chip}\n{text}");
    }
}

/// One kernel of each form, compiled and run.
fn check_forms(backend: &Backend) {
    for (kernel, tolerance) in [
        (softmax(3, 70), 1e-5),
        (elementwise(1000), 1e-6),
        (matmul(33, 20, 40, false, true, true), 1e-4),
        (cube_sum([3, 10, 33], 2, ReduceOp::Max, DType::F64), 1e-4),
        (
            operations(
                70,
                DType::F32,
                &Unary::ALL[2..5],
                &Binary::ALL[..6],
                &DType::ALL,
            ),
            1e-5,
        ),
        (
            operations(
                70,
                DType::I32,
                &Unary::ALL[..3],
                &Binary::ALL[4..18],
                &DType::ALL,
            ),
            0.0,
        ),
        (
            operations(
                70,
                DType::BF16,
                &[Unary::Sin],
                &Binary::ALL[..3],
                &DType::ALL,
            ),
            1e-2,
        ),
    ] {
        let kernel = &kernel;
        let buffers = fill(kernel, &mut Random(0x1234_5678_9abc_def1));
        let want = expected(kernel, &buffers, &[]);
        let built = build(kernel, backend, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        let mut got = buffers.clone();
        machine::run(&built, &backend.target, &mut got, &[]);
        for (slot, p) in kernel.params.iter().enumerate() {
            let what = format!("{} on {} buffer {slot}", kernel.name, backend.target.cpu);
            same(p.dtype, &got[slot], &want[slot], tolerance, &what);
        }
    }
}

/// Compiled by the clang program, the same source gives the same results.
#[test]
fn through_the_clang_program() {
    for chip in GENERATIONS {
        check_forms(&Backend::find("AMD:CLANG", chip, 0).unwrap());
    }
}

/// HIP C, compiled by the clang program.
#[test]
fn hip_through_the_clang_program() {
    let part = Part::chosen();
    for (i, chip) in GENERATIONS.into_iter().enumerate() {
        if !part.has(i, 2) {
            continue;
        }
        let backend = Backend::new(
            Target::amd(chip).unwrap(),
            Arc::new(HipRenderer),
            Some(Arc::new(ClangCompiler::find().unwrap())),
        );
        check_forms(&backend);
        for &d in &backend.target.mma {
            check_matrix(&backend, d, matrix_blocks(d)[0]);
        }
    }
}

/// HIP C, compiled by ROCm's library where it is installed: for the chips that it knows. That of
/// ROCm 5.2 knows gfx1030 only.
#[test]
fn hip_through_comgr() {
    for chip in GENERATIONS {
        match Backend::find("AMD:HIP", chip, 0) {
            Ok(backend) => {
                println!("{chip}: {}", backend.describe());
                check_forms(&backend);
            }
            Err(e) => println!("not tried: {e}"),
        }
    }
}

/// Registers and local memory are read from the object and stay within the limits of the chip.
#[test]
fn resources_are_reported() {
    for chip in Target::amd_chips() {
        let backend = Backend::find("AMD:LLVM", chip, 0).unwrap();
        let kernel = matmul(256, 256, 256, false, false, false);
        let built = build(&kernel, &backend, &Options::default()).unwrap();
        assert_eq!(built.report.resources.len(), built.stages.len());
        for (r, stage) in built.report.resources.iter().zip(&built.stages) {
            assert!(
                r.vector > 0 && r.waves > 0 && r.waves <= r.most_waves,
                "{chip}: {r}"
            );
            assert!(r.local <= stage.local_bytes, "{chip}: {r}");
            let limit = backend.target.vector_regs as u32;
            assert!(r.vector <= limit, "{chip}: {r}");
        }
        println!("{chip}: {}", built.report.resources[0]);
    }
}

/// Milliseconds that this thread ran so far: on a busy machine the clock on the wall says little.
fn cpu_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    first.unwrap_or(0.0) / 1e6
}

/// Threads compile side by side and make the same objects. Prints how long a kernel takes.
#[test]
fn threads_compile_side_by_side() {
    let backend = Backend::find("AMD:LLVM", "gfx1100", 0).unwrap();
    let kernels = [
        elementwise(1000),
        softmax(33, 130),
        matmul(64, 48, 100, false, true, true),
        conv(1, 8, 16, 14, 3),
        product(1024, 1024, 1024, [DType::F16; 2], DType::F32),
    ];
    for k in &kernels {
        build(k, &backend, &Options::default()).unwrap();
        let start = cpu_time();
        let built = build(k, &backend, &Options::default()).unwrap();
        let all = cpu_time() - start;
        let start = cpu_time();
        for text in &built.report.source {
            let source = Source {
                language: Language::Llvm,
                entry: String::new(),
                text: text.clone(),
            };
            LlvmCompiler::new()
                .compile(&source, &backend.target)
                .unwrap();
        }
        let llvm = cpu_time() - start;
        let stages = built.stages.len();
        println!(
            "{}: {stages} stages in {all:.1} ms, {llvm:.1} of them LLVM",
            k.name
        );
    }
    let want: Vec<_> = kernels
        .iter()
        .map(|k| {
            build(k, &backend, &Options::default()).unwrap().stages[0]
                .object
                .clone()
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (k, want) in kernels.iter().zip(&want) {
                    let got = build(k, &backend, &Options::default()).unwrap();
                    assert!(got.stages[0].object == *want, "{}", k.name);
                }
            });
        }
    });
}
