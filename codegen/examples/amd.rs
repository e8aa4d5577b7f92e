//! Prints what becomes of a matrix product on an AMD GPU: the steps, and the machine code.
//!
//! `cargo run --release -p codegen --features llvm --example amd -- gfx1100 f16 1024 [source]`

use codegen::ir::{Graph, Kernel, ParamInfo, RangeKind, ReduceOp, StoreMode};
use codegen::{Backend, DType, Options, build};

/// `n` by `n` by `n`, summed in `f32`.
fn product(n: i64, operand: DType) -> Kernel {
    let mut g = Graph::new();
    let len = (n * n) as usize;
    let param = |dtype, written| ParamInfo {
        dtype,
        len,
        written,
        constant: false,
    };
    let params = vec![
        param(DType::F32, true),
        param(operand, false),
        param(operand, false),
    ];
    let (i, j) = (
        g.range(0, n, RangeKind::Loop),
        g.range(1, n, RangeKind::Loop),
    );
    let k = g.range(2, n, RangeKind::Reduce);
    let at = |g: &mut Graph, slow, fast| {
        let n = g.index(n);
        let scaled = g.binary(codegen::ir::Binary::Mul, slow, n);
        g.binary(codegen::ir::Binary::Add, scaled, fast)
    };
    let (row, col, out) = (at(&mut g, i, k), at(&mut g, k, j), at(&mut g, i, j));
    let mut operand_at = |slot, index| {
        let ptr = g.param(slot, operand);
        let value = g.load(ptr, index);
        g.cast(value, DType::F32)
    };
    let (a, b) = (operand_at(1, row), operand_at(2, col));
    let product = g.binary(codegen::ir::Binary::Mul, a, b);
    let sum = g.reduce(ReduceOp::Add, product, &[k]);
    let ptr = g.param(0, DType::F32);
    let store = g.store(StoreMode::Set, ptr, out, sum, None);
    let sink = g.sink(&[store]);
    Kernel {
        name: "product".into(),
        graph: g,
        sink,
        params,
        vars: 0,
    }
}

fn main() -> codegen::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |i: usize, or: &str| args.get(i).cloned().unwrap_or_else(|| or.into());
    let operand = arg(1, "f16");
    let operand = DType::ALL.into_iter().find(|d| d.name() == operand);
    let n = arg(2, "1024").parse().unwrap_or(1024);
    let kernel = product(n, operand.unwrap_or(DType::F16));
    let backend = Backend::find("AMD:LLVM", &arg(0, "gfx1100"), 0)?;
    let options = Options {
        explain: true,
        ..Options::default()
    };
    let start = std::time::Instant::now();
    let built = build(&kernel, &backend, &options)?;
    let took = start.elapsed();
    for stage in &built.stages {
        println!(
            "{}: {:?} groups of {:?}, {} bytes of local memory",
            stage.name, stage.grid, stage.block, stage.local_bytes
        );
    }
    println!("{:?}, compiled in {took:?}", built.report.opts);
    if arg(3, "") == "source" {
        println!("{}", built.report.source.join("\n"));
    }
    println!("{}", built.report.disassembly()?);
    Ok(())
}
