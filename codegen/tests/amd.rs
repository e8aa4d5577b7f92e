//! Kernels for AMD GPUs: compiled for every chip, and run on the software model of the shader
//! engine against the interpreter.
#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used)]

#[path = "amd/atomics.rs"]
mod atomics;
#[path = "amd/hip.rs"]
mod hip;
#[path = "amd/machine.rs"]
mod machine;
#[path = "support/suite.rs"]
mod suite;
mod support;

use std::sync::Arc;

use codegen::compile::{ClangCompiler, Compiler, LlvmCompiler};
use codegen::ir::mma::MmaDesc;
use codegen::ir::{Binary, Kernel, ReduceOp, Unary};
use codegen::opt::contract::Blocking;
use codegen::render::{HipRenderer, Language, Source};
use codegen::{Backend, DType, Opt, Options, Target, build};
use conformance::part::Part;
use suite::{matrix_blocks, product, stored};
use support::*;

/// One chip of each generation.
const GENERATIONS: [&str; 4] = ["gfx1030", "gfx1100", "gfx1201", "gfx942"];

fn llvm(chip: &str) -> Backend {
    Backend::find("AMD:LLVM", chip, 0).unwrap()
}

/// Runs a kernel on a chip, as it is and optimised.
fn check_on(
    backend: &Backend,
    kernel: &Kernel,
    buffers: &[Vec<u8>],
    want: &[Vec<u8>],
    tolerance: f64,
) {
    let chip = &backend.target.cpu;
    for noopt in [true, false] {
        let options = Options {
            noopt,
            deterministic: true,
            ..Options::default()
        };
        let built = build(kernel, backend, &options).unwrap_or_else(|e| panic!("{chip}: {e}"));
        let mut got = buffers.to_vec();
        machine::run(&built, &backend.target, &mut got, &numbers(kernel));
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
    let want = expected(kernel, &buffers, &numbers(kernel));
    for chip in GENERATIONS {
        check_on(&llvm(chip), kernel, &buffers, &want, tolerance);
    }
}

#[test]
fn elements() {
    suite::elements(check);
}

#[test]
fn rows() {
    suite::rows(check);
}

#[test]
fn reductions_of_every_type() {
    suite::reductions_of_every_type(check);
}

#[test]
fn products_and_convolutions() {
    suite::products_and_convolutions(check);
}

#[test]
fn numbers_of_every_type() {
    // One chip for each kernel, all of them in turn.
    let mut chips = GENERATIONS.into_iter().cycle();
    suite::numbers_of_every_type(|kernel, tolerance| {
        let buffers = fill(kernel, &mut Random(0x1234_5678_9abc_def1));
        let want = expected(kernel, &buffers, &numbers(kernel));
        let backend = llvm(chips.next().unwrap());
        check_on(&backend, kernel, &buffers, &want, tolerance);
    });
}

#[test]
fn scans_and_scatters() {
    suite::scans_and_scatters(check);
}

fn check_edges(backend: &Backend, kernel: &Kernel, tolerance: f64) {
    let buffers = edges(kernel, &mut Random(0xfeed_5eed_0bad_cafe));
    let want = expected(kernel, &buffers, &numbers(kernel));
    check_on(backend, kernel, &buffers, &want, tolerance);
}

fn every_operation(chip: &str) {
    suite::every_operation(|kernel, tolerance| check_edges(&llvm(chip), kernel, tolerance));
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
        let backend = llvm(chip);
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
        let backend = llvm(chip);
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
        let backend = llvm(chip);
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
        let backend = llvm(chip);
        check_edges(&backend, &kernel, 0.0);
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
    for (kernel, tolerance) in suite::forms() {
        let kernel = &kernel;
        let buffers = fill(kernel, &mut Random(0x1234_5678_9abc_def1));
        let want = expected(kernel, &buffers, &numbers(kernel));
        let built = build(kernel, backend, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        let mut got = buffers.clone();
        machine::run(&built, &backend.target, &mut got, &numbers(kernel));
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

/// Registers and local memory are read from the object and stay within the limits of the chip.
#[test]
fn resources_are_reported() {
    for chip in Target::amd_chips() {
        let backend = llvm(chip);
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
    let backend = llvm("gfx1100");
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
