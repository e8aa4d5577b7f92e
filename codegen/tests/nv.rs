//! Kernels for NVIDIA GPUs: compiled by NVIDIA's compilers for every chip, and run on the software model of
//! their shader cores against the interpreter.
//!
//! `scripts/fetch cuda` fetches the compilers; without them these tests say so and pass.
#![allow(clippy::unwrap_used)]

#[path = "nv/machine.rs"]
mod machine;
#[path = "support/suite.rs"]
mod suite;
mod support;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use codegen::build::StageArg;
use codegen::compile::{Compiler, JitLinkCompiler, NvrtcCompiler, PtxasCompiler, Toolkits};
use codegen::ir::Kernel;
use codegen::ir::mma::MmaDesc;
use codegen::opt::contract::Blocking;
use codegen::render::{CudaRenderer, Emitter, PtxRenderer};
use codegen::{Backend, DType, Opt, Options, Target, build};
use conformance::part::Part;
use drivers_spec::nv::cubin::Cubin;
use suite::{COMBINING, combined, matrix_blocks, product, stored};
use support::*;

/// One chip of each generation that the model runs.
const GENERATIONS: [&str; 4] = ["sm_86", "sm_89", "sm_90", "sm_120"];

/// A way to machine code.
struct Way {
    emitter: Arc<dyn Emitter>,
    compiler: Arc<dyn Compiler>,
}

/// What `scripts/fetch cuda` has fetched.
fn toolkits() -> Option<Toolkits> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/cuda");
    if !root.join("fetched").exists() {
        println!(
            "skipped: {}: not there; scripts/fetch cuda fetches NVIDIA's compilers",
            root.display()
        );
        return None;
    }
    Some(Toolkits::at(root))
}

/// The ways whose compilers are there, loaded once.
fn ways() -> &'static [Way] {
    static WAYS: OnceLock<Vec<Way>> = OnceLock::new();
    WAYS.get_or_init(|| {
        let Some(toolkits) = toolkits() else {
            return Vec::new();
        };
        let target = Target::nv("sm_86", 0).unwrap();
        let ways = [
            Way {
                emitter: Arc::new(CudaRenderer),
                compiler: Arc::new(NvrtcCompiler::of(&toolkits, &target).unwrap()),
            },
            Way {
                emitter: Arc::new(PtxRenderer),
                compiler: Arc::new(PtxasCompiler::of(&toolkits).unwrap()),
            },
            #[cfg(feature = "llvm")]
            Way {
                emitter: Arc::new(codegen::render::LlvmRenderer),
                compiler: Arc::new(codegen::compile::NvptxCompiler::of(&toolkits).unwrap()),
            },
        ];
        ways.into()
    })
}

fn backend(way: &Way, chip: &str) -> Backend {
    let target = Target::nv(chip, 0).unwrap();
    Backend::new(target, way.emitter.clone(), Some(way.compiler.clone()))
}

/// Every way with every chip.
fn all() -> impl Iterator<Item = Backend> {
    let ways = ways().iter();
    ways.flat_map(|way| GENERATIONS.iter().map(|chip| backend(way, chip)))
}

/// What is compared with the interpreter: a case of a kernel takes one chip and one way, the next case others.
struct Cases {
    part: Part,
    next: usize,
    /// Values at which types end, not those that sum up well.
    edges: bool,
}

impl Cases {
    fn new() -> Cases {
        Cases {
            part: Part::chosen(),
            next: 0,
            edges: false,
        }
    }

    fn check(&mut self, kernel: &Kernel, tolerance: f64) {
        let backends: Vec<Backend> = all().collect();
        let own = self.next..self.next + backends.len();
        self.next += 1;
        if backends.is_empty() {
            return;
        }
        let buffers = match self.edges {
            true => edges(kernel, &mut Random(0xfeed_5eed_0bad_cafe)),
            false => fill(kernel, &mut Random(0x1234_5678_9abc_def1)),
        };
        let want = expected(kernel, &buffers, &numbers(kernel));
        for (number, backend) in own.zip(&backends) {
            if self.part.has(number, backends.len()) {
                check_on(backend, kernel, &buffers, &want, tolerance);
            }
        }
    }
}

/// Runs a kernel, as it is and optimised.
fn check_on(
    backend: &Backend,
    kernel: &Kernel,
    buffers: &[Vec<u8>],
    want: &[Vec<u8>],
    tolerance: f64,
) {
    let (chip, way) = (&backend.target.cpu, backend.describe());
    for noopt in [true, false] {
        let options = Options {
            noopt,
            deterministic: true,
            ..Options::default()
        };
        let built = build(kernel, backend, &options).unwrap_or_else(|e| panic!("{chip}: {e}"));
        let mut got = buffers.to_vec();
        if !machine::run(&built, &backend.target, &mut got, &numbers(kernel)) {
            println!("{} on {chip} by {way}: compiled, not run", kernel.name);
            continue;
        }
        for (slot, p) in kernel.params.iter().enumerate() {
            let what = format!(
                "{} on {chip} by {way} buffer {slot} {:?}",
                kernel.name, built.report.opts
            );
            same(p.dtype, &got[slot], &want[slot], tolerance, &what);
        }
    }
}

#[test]
fn elements() {
    let mut cases = Cases::new();
    suite::elements(|kernel, tolerance| cases.check(kernel, tolerance));
}

#[test]
fn rows() {
    let mut cases = Cases::new();
    suite::rows(|kernel, tolerance| cases.check(kernel, tolerance));
}

#[test]
fn reductions_of_every_type() {
    let mut cases = Cases::new();
    suite::reductions_of_every_type(|kernel, tolerance| cases.check(kernel, tolerance));
}

#[test]
fn products_and_convolutions() {
    let mut cases = Cases::new();
    suite::products_and_convolutions(|kernel, tolerance| cases.check(kernel, tolerance));
}

#[test]
fn numbers_of_every_type() {
    let mut cases = Cases::new();
    suite::numbers_of_every_type(|kernel, tolerance| cases.check(kernel, tolerance));
}

/// Both texts, which need no compiler of NVIDIA's.
#[test]
fn numbers_of_every_type_are_written() {
    let emitters: [Arc<dyn Emitter>; 2] = [Arc::new(CudaRenderer), Arc::new(PtxRenderer)];
    for emitter in emitters {
        let target = Target::nv("sm_90", 0).unwrap();
        let backend = Backend::new(target, emitter, None);
        suite::numbers_of_every_type(|kernel, _| {
            let built = build(kernel, &backend, &Options::default());
            let built = built.unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
            let open = |args: &[StageArg]| args.iter().any(|a| matches!(a, StageArg::Var(_)));
            assert!(
                built.stages.iter().any(|s| open(&s.args)),
                "{}",
                kernel.name
            );
        });
    }
}

#[test]
fn scans_and_scatters() {
    let mut cases = Cases::new();
    suite::scans_and_scatters(|kernel, tolerance| cases.check(kernel, tolerance));
}

#[test]
fn every_operation() {
    let mut cases = Cases {
        edges: true,
        ..Cases::new()
    };
    suite::every_operation(|kernel, tolerance| cases.check(kernel, tolerance));
}

/// PTX through the library. What calls functions is left to the program: the model has no calls of addresses.
#[test]
fn ptx_through_nvjitlink() {
    let Some(toolkits) = toolkits() else { return };
    let way = Way {
        emitter: Arc::new(PtxRenderer),
        compiler: Arc::new(JitLinkCompiler::of(&toolkits).unwrap()),
    };
    for chip in GENERATIONS {
        for kernel in [elementwise(1000), matmul(33, 20, 40, false, true, true)] {
            let buffers = fill(&kernel, &mut Random(0x1234_5678_9abc_def1));
            let want = expected(&kernel, &buffers, &[]);
            check_on(&backend(&way, chip), &kernel, &buffers, &want, 1e-4);
        }
    }
    for chip in Target::nv_chips() {
        let built = build(&softmax(3, 70), &backend(&way, chip), &Options::default()).unwrap();
        for stage in &built.stages {
            let cubin = Cubin::parse(&stage.object).unwrap();
            assert!(cubin.kernel(&stage.entry).is_ok(), "{chip}");
        }
    }
}

/// Combining stores whose work-items meet in memory.
#[test]
fn combinations_in_memory() {
    let part = Part::chosen();
    let mut number = 0;
    for backend in all() {
        for op in COMBINING {
            for dtype in DType::ALL {
                number += 1;
                if part.has(number, 9) {
                    combined(&backend, op, dtype, machine::run);
                }
            }
        }
    }
}

/// The code of chips that no model runs is compiled.
#[test]
fn every_chip_is_compiled_for() {
    for way in ways() {
        for chip in Target::nv_chips() {
            let backend = backend(way, chip);
            for kernel in [softmax(3, 70), matmul(64, 48, 100, false, true, true)] {
                let built = build(&kernel, &backend, &Options::default()).unwrap();
                for (r, stage) in built.report.resources.iter().zip(&built.stages) {
                    assert!(r.vector > 0 && r.waves > 0, "{chip}: {r}");
                    assert!(r.waves <= r.most_waves, "{chip}: {r}");
                    assert!(r.local <= stage.local_bytes, "{chip}: {r}");
                    assert_eq!((r.spilled, r.private), (0, 0), "{chip}: {r}");
                }
                assert_eq!(built.report.resources.len(), built.stages.len());
            }
        }
    }
}

/// The instruction, as the disassembler calls it.
fn mnemonic(d: MmaDesc) -> String {
    let (m, n, k) = (d.m, d.n, d.k);
    if d.in_memory() {
        let kind = match d.operands[0] {
            DType::I8 | DType::U8 => "IGMMA",
            DType::F8E4M3 | DType::F8E5M2 => "QGMMA",
            _ => "HGMMA",
        };
        return format!("{kind}.64x");
    }
    match d.operands[0] {
        DType::I8 | DType::U8 => format!("IMMA.{m}{n}{k}"),
        DType::F64 => "DMMA.".into(),
        DType::F8E4M3 | DType::F8E5M2 => format!("QMMA.{m}{n}{k}"),
        _ => format!("HMMA.{m}{n}{k}"),
    }
}

/// Matrix instructions are in the code, and give the right product.
#[test]
fn matrix_instructions() {
    let part = Part::chosen();
    for (i, backend) in all().enumerate() {
        let chip = &backend.target.cpu;
        for (j, &d) in backend.target.mma.iter().enumerate() {
            for (k, block) in matrix_blocks(d).into_iter().enumerate() {
                let one_in = if d.in_memory() { 27 } else { 9 };
                if !part.has(i + j + k, one_in) {
                    continue;
                }
                let options = Options {
                    opts: Some(vec![Opt::Block(block)]),
                    ..Options::default()
                };
                let what = format!("{chip} {d:?} {block}");
                let kernel = product(40, 70, 100, stored(d, &block), d.acc);
                let built =
                    build(&kernel, &backend, &options).unwrap_or_else(|e| panic!("{what}: {e}"));
                let text = built.report.disassembly().unwrap();
                assert!(text.contains(&mnemonic(d)), "{what}\n{text}");
                let buffers = fill(&kernel, &mut Random(0x1234_5678_9abc_def1));
                let want = expected(&kernel, &buffers, &[]);
                let mut got = buffers.clone();
                assert!(
                    machine::run(&built, &backend.target, &mut got, &[]),
                    "{what}"
                );
                same(d.acc, &got[0], &want[0], tolerance(d), &what);
            }
        }
    }
}

/// Sums of 8-bit floats keep fourteen bits.
fn tolerance(d: MmaDesc) -> f64 {
    match d.operands[0].size() {
        1 if d.in_memory() => 2e-3,
        _ => 1e-4,
    }
}

/// Copies that are steps early bring the operands, and products that are under way read them.
#[test]
fn copies_beside_products() {
    let part = Part::chosen();
    let mut number = 0;
    for way in ways() {
        let backend = backend(way, "sm_90");
        let all = &backend.target.mma;
        for &d in all
            .iter()
            .filter(|d| d.in_memory() && d.operands[0].size() == 2)
        {
            for (slabs, k, parts, swap, boxes) in [
                (3, 72, 1, true, false),
                (4, 456, 1, false, false),
                (4, 320, 2, true, false),
                (4, 72, 1, true, true),
                (3, 456, 1, false, true),
                (4, 320, 2, true, true),
            ] {
                number += 1;
                if !part.has(number, 12) {
                    continue;
                }
                let block = Blocking {
                    along_rows: 2,
                    along_cols: 1,
                    rows: 1,
                    cols: 1,
                    depth: 64,
                    vector: 8,
                    slabs,
                    boxes,
                    parts,
                    swap,
                    ..matrix_blocks(d)[0]
                };
                let kernel = product(136, 72, k, stored(d, &block), d.acc);
                let options = Options {
                    opts: Some(vec![Opt::Block(block)]),
                    ..Options::default()
                };
                let what = format!("{} {d:?} {block}", backend.describe());
                let built =
                    build(&kernel, &backend, &options).unwrap_or_else(|e| panic!("{what}: {e}"));
                let text = built.report.disassembly().unwrap();
                let copy = if boxes { "UTMALDG" } else { "LDGSTS" };
                assert!(text.contains(copy) && text.contains("HGMMA"), "{what}");
                assert_eq!(built.report.resources[0].spilled, 0, "{what}");
                let buffers = fill(&kernel, &mut Random(0x1234_5678_9abc_def1));
                let want = expected(&kernel, &buffers, &[]);
                let mut got = buffers.clone();
                assert!(
                    machine::run(&built, &backend.target, &mut got, &[]),
                    "{what}"
                );
                same(d.acc, &got[0], &want[0], 1e-4, &what);
            }
        }
    }
}

/// Products of singles by tensor cores: where that is allowed, and as near as ten bits behind the point are.
#[test]
fn singles_are_multiplied_by_tensor_cores_on_request() {
    let part = Part::chosen();
    for (i, backend) in all().enumerate() {
        let chip = backend.target.cpu.clone();
        let product = |m, n, k| product(m, n, k, [DType::F32; 2], DType::F32);
        if part.has(i, 4) {
            let large = product(1024, 1024, 1024);
            for (allowed, backend) in [
                (false, backend.clone()),
                (true, backend.clone().with_tf32()),
            ] {
                let built = build(&large, &backend, &Options::default()).unwrap();
                let text = built.report.disassembly().unwrap();
                assert_eq!(text.contains("HMMA.1688.F32.TF32"), allowed, "{chip}");
            }
        }
        let backend = backend.with_tf32();
        let d = *backend.target.mma.last().unwrap();
        assert_eq!(d.operands, [DType::F32; 2]);
        for (j, block) in matrix_blocks(d).into_iter().enumerate() {
            if !part.has(i + j, 9) {
                continue;
            }
            let options = Options {
                opts: Some(vec![Opt::Block(block)]),
                ..Options::default()
            };
            let kernel = product(40, 70, 100);
            let what = format!("{chip} {block}");
            let built =
                build(&kernel, &backend, &options).unwrap_or_else(|e| panic!("{what}: {e}"));
            let text = built.report.disassembly().unwrap();
            assert!(text.contains("HMMA.1688.F32.TF32"), "{what}\n{text}");
            let buffers = fill(&kernel, &mut Random(0x1234_5678_9abc_def1));
            let want = expected(&kernel, &buffers, &[]);
            let mut got = buffers.clone();
            assert!(
                machine::run(&built, &backend.target, &mut got, &[]),
                "{what}"
            );
            same(d.acc, &got[0], &want[0], 1e-2, &what);
            // The products are not those of whole singles.
            assert_ne!(got[0], want[0], "{what}");
        }
    }
}

/// The heuristics choose them where the work fills the machine.
#[test]
fn large_products_use_matrix_instructions() {
    let part = Part::chosen();
    for (i, backend) in all().enumerate() {
        for (j, &d) in backend.target.mma.iter().enumerate() {
            if !part.has(i + j, 16) {
                continue;
            }
            // Those that read in memory are the faster ones. What keeps fewer bits than the sum has is not chosen.
            let faster = |m: &&MmaDesc| {
                m.in_memory() && m.keeps_sums() && m.takes(d.operands) && m.acc == d.acc
            };
            let expected = mnemonic(*backend.target.mma.iter().find(faster).unwrap_or(&d));
            let kernel = product(1024, 1024, 1024, d.operands, d.acc);
            let built = build(&kernel, &backend, &Options::default()).unwrap();
            let text = built.report.disassembly().unwrap();
            let what = format!("{} {d:?} {:?}", backend.target.cpu, built.report.opts);
            assert!(text.contains(&expected), "{what}");
        }
    }
}
