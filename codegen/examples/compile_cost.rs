//! What it costs to compile a kernel for an AMD GPU, and what comes out: a table over kernels and
//! chips, beside clang on HIP C of the same kernel where clang is there.
//!
//! `cargo run --release -p codegen --features llvm --example compile_cost -- [chips] [part of names]`
//!
//! Times are those of the processor, so that they mean something on a busy machine: for this
//! compiler the middle of a few runs in a warm process, for clang the whole child.

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use nix::time::{ClockId, clock_gettime};

use codegen::compile::{ClangCompiler, Compiler, LlvmCompiler};
use codegen::ir::{Kernel, Op, ReduceOp};
use codegen::render::{HipRenderer, Language, Source};
use codegen::{Backend, Built, DType, Options, Target, build};
use support::{
    conv, cube_sum, elementwise, matmul, moments, prefix, row_normalise, scatter, shared_sum,
    softmax, transpose, weight_gradient,
};

/// Runs of each compilation.
const RUNS: usize = 5;

/// The same kernel on operands (and, if asked for, a result) of another type; it still computes in
/// the type it did.
fn typed(kernel: &Kernel, operand: DType, result: bool) -> Kernel {
    let mut k = kernel.clone();
    let written: Vec<bool> = k.params.iter().map(|p| p.written).collect();
    for p in k.params.iter_mut().filter(|p| !p.written || result) {
        p.dtype = operand;
    }
    let g = &mut k.graph;
    let mut new = std::collections::HashMap::new();
    for n in codegen::rewrite::toposort(g, k.sink) {
        let node = g.node(n).clone();
        let mut src: Vec<_> = node.src.iter().map(|s| new[s]).collect();
        let made = match node.op {
            Op::Param { slot } if !written[usize::from(slot)] || result => g.param(slot, operand),
            Op::Load => {
                if let Some(alt) = src.get_mut(3) {
                    *alt = g.cast(*alt, operand);
                }
                let value = g.add(Op::Load, operand, &src);
                g.cast(value, node.dtype)
            }
            Op::Store(_) if result => {
                src[2] = g.cast(src[2], operand);
                g.add(node.op, node.dtype, &src)
            }
            op => g.add(op, node.dtype, &src),
        };
        new.insert(n, made);
    }
    k.sink = new[&k.sink];
    k
}

fn named(mut kernel: Kernel, name: &str) -> Kernel {
    kernel.name = name.into();
    kernel
}

fn kernels() -> Vec<Kernel> {
    use DType::{BF16, F16, F32};
    let product = |m, n, k| matmul(m, n, k, false, false, false);
    let mut all = vec![
        named(elementwise(5003), "elements 5003"),
        named(elementwise(1 << 20), "elements 1M"),
        named(typed(&elementwise(1 << 20), F16, true), "elements f16 1M"),
        named(transpose(333, 517, F32), "transpose 333x517"),
        named(transpose(2048, 2048, F16), "transpose f16 2048"),
        named(cube_sum([64, 64, 64], 0, ReduceOp::Add, F32), "sum axis 0"),
        named(cube_sum([64, 64, 64], 2, ReduceOp::Max, F32), "max axis 2"),
        named(cube_sum([1, 1, 1 << 22], 2, ReduceOp::Add, F32), "sum 4M"),
        named(row_normalise(64, 1024), "row normalise"),
        named(moments(512, 300), "moments"),
        named(shared_sum(40, 300), "shared sum"),
        named(softmax(8, 1000), "softmax 8x1000"),
        named(softmax(512, 4096), "softmax 512x4096"),
        named(
            typed(&softmax(512, 4096), F16, true),
            "softmax f16 512x4096",
        ),
        named(prefix(64, 1024, ReduceOp::Add, true), "prefix sums"),
        named(scatter(100, 400, 64, ReduceOp::Add, F32), "scatter"),
        named(product(1, 1000, 512), "product 1x1000x512"),
        named(product(17, 31, 9), "product 17x31x9"),
    ];
    for n in [64, 100, 256, 1024, 4096] {
        all.push(named(product(n, n, n), &format!("product {n}")));
    }
    for t in [F16, BF16] {
        for n in [64, 100, 256, 1024, 4096] {
            let k = typed(&product(n, n, n), t, n != 256);
            all.push(named(k, &format!("product {} {n}", t.name())));
        }
    }
    let odd = typed(&product(100, 65, 72), F16, true);
    all.push(named(odd, "product f16 100x65x72"));
    let relu = matmul(512, 512, 512, false, false, true);
    let flipped = matmul(300, 500, 700, true, true, true);
    all.extend([
        named(relu.clone(), "product relu 512"),
        named(typed(&relu, F16, true), "product relu f16 512"),
        named(flipped.clone(), "product AtBt 300x500x700"),
        named(typed(&flipped, F16, true), "product AtBt f16 300x500x700"),
        named(conv(1, 3, 8, 28, 3), "conv 3x8 28 3x3"),
        named(conv(2, 16, 32, 14, 3), "conv 16x32 14 3x3"),
        named(
            typed(&conv(2, 16, 32, 14, 3), F16, true),
            "conv f16 16x32 14 3x3",
        ),
        named(conv(8, 64, 64, 56, 3), "conv 64x64 56 3x3"),
        named(conv(4, 64, 128, 28, 1), "conv 64x128 28 1x1"),
        named(
            typed(&conv(8, 64, 64, 56, 3), F16, true),
            "conv f16 64x64 56 3x3",
        ),
        named(weight_gradient(4, 16, 32, 28, 3), "conv weights 16x32"),
        named(weight_gradient(8, 64, 64, 56, 3), "conv weights 64x64"),
        named(
            typed(&weight_gradient(8, 64, 64, 56, 3), F16, false),
            "conv weights f16 64x64",
        ),
    ]);
    all
}

/// Milliseconds that this thread was on a processor.
fn own_time() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.map_or(0.0, |t| t.tv_sec() as f64 * 1e3 + t.tv_nsec() as f64 / 1e6)
}

/// Milliseconds of processor time that something takes: the middle of [`RUNS`], after one that is not
/// counted.
fn middle(mut run: impl FnMut() -> codegen::Result<()>) -> codegen::Result<f64> {
    run()?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = own_time();
        run()?;
        times.push(own_time() - start);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[RUNS / 2])
}

/// Nanoseconds that ended children were on a processor: ticks of 10 ms (`man 5 proc`, `cutime` and
/// `cstime` of `stat`).
fn children_time() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: f64 = fields
        .skip(13)
        .take(2)
        .filter_map(|n| n.parse::<f64>().ok())
        .sum();
    ticks * 1e7
}

/// What an instruction counts for: its kind.
#[derive(Default)]
struct Code {
    all: usize,
    spills: u32,
    vector: u32,
    waves: u32,
    private: u32,
}

fn code(built: &Built) -> codegen::Result<Code> {
    let text = built.report.disassembly()?;
    let lines = text.lines().filter(|l| l.starts_with('\t'));
    let mut code = Code {
        all: lines
            .filter(|l| !l.contains("s_code_end") && !l.contains("s_nop"))
            .count(),
        waves: u32::MAX,
        ..Code::default()
    };
    for r in &built.report.resources {
        code.spills += r.spilled;
        code.private = code.private.max(r.private);
        code.vector = code.vector.max(r.vector);
        code.waves = code.waves.min(r.waves);
    }
    Ok(code)
}

fn main() -> codegen::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let chips = args.first().map_or("gfx1100,gfx1201,gfx942,gfx1030", |s| s);
    let wanted = args.get(1).map_or("", |s| s);
    let clang = ClangCompiler::find()
        .ok()
        .filter(|_| args.get(2).is_none_or(|s| s != "alone"));
    println!("ms of processor time; `llvm` is the part of the compiler library\n");
    for chip in chips.split(',') {
        let backend = Backend::find("AMD:LLVM", chip, 0)?;
        let target = Target::amd(chip)?;
        let explain = Options {
            explain: true,
            ..Options::default()
        };
        println!(
            "{chip:<30} {:>6} {:>6} {:>6} {:>6} {:>5} {:>6} {:>5} {:>7} {:>6}  plan",
            "ms", "llvm", "lines", "instrs", "VGPRs", "spills", "waves", "clang", "ratio"
        );
        let (mut worst, mut total, mut over) = (0.0f64, 0.0, 0);
        let mut ratios = Vec::new();
        let all: Vec<Kernel> = kernels()
            .into_iter()
            .filter(|k| k.name.contains(wanted))
            .collect();
        for (i, kernel) in all.iter().enumerate() {
            if i == 0 {
                build(kernel, &backend, &Options::default())?;
            }
            let took = middle(|| build(kernel, &backend, &Options::default()).map(drop))?;
            let built = build(kernel, &backend, &explain)?;
            let llvm = middle(|| {
                for (stage, text) in built.stages.iter().zip(&built.report.source) {
                    let source = Source {
                        language: Language::Llvm,
                        entry: stage.entry.clone(),
                        text: text.clone(),
                    };
                    LlvmCompiler::new().compile(&source, &target)?;
                }
                Ok(())
            })?;
            let lines: usize = built.report.source.iter().map(|s| s.lines().count()).sum();
            let code = code(&built)?;
            let other = match &clang {
                Some(clang) => {
                    let hip = Backend::new(
                        target.clone(),
                        Arc::new(HipRenderer),
                        Some(Arc::new(clang.clone())),
                    );
                    let start = children_time();
                    let done = build(kernel, &hip, &Options::default()).is_ok();
                    done.then(|| (children_time() - start) / 1e6)
                }
                None => None,
            };
            let (clang_ms, ratio) = match other {
                Some(ms) => {
                    ratios.push(ms / took);
                    (format!("{ms:.0}"), format!("{:.1}x", ms / took))
                }
                None => ("-".into(), "-".into()),
            };
            worst = worst.max(took);
            total += took;
            over += usize::from(took > 20.0);
            println!(
                "{:<30} {took:>6.1} {llvm:>6.1} {lines:>6} {:>6} {:>5} {:>6} {:>5} {clang_ms:>7} {ratio:>6}  {}",
                kernel.name,
                code.all,
                code.vector,
                if code.spills == 0 && code.private > 0 {
                    format!("{}B", code.private)
                } else {
                    code.spills.to_string()
                },
                code.waves,
                built.report.opts.join(" | "),
            );
        }
        let mean = total / all.len().max(1) as f64;
        print!(
            "{} kernels: mean {mean:.1} ms, most {worst:.1} ms, {over} above 20 ms",
            all.len()
        );
        if !ratios.is_empty() {
            let logs: f64 = ratios.iter().map(|r: &f64| r.ln()).sum();
            let times = (logs / ratios.len() as f64).exp();
            print!("; clang takes {times:.1} times as long");
        }
        println!("\n");
    }
    Ok(())
}
