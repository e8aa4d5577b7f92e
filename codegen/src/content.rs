//! Content keys of kernels and stages, and estimates of their work.

use std::any::TypeId;
use std::hash::{DefaultHasher, Hash, Hasher};

use sha2::{Digest, Sha256};

use crate::backend::{Backend, Options};
use crate::dtype::DType;
use crate::ir::{Graph, Id, Kernel, Op, RangeKind, RangeSets};
use crate::rewrite::toposort;

/// What the code of this crate is, with what it uses of the crate beside it: the build script's hash.
const SOURCES: &str = env!("CODEGEN_SOURCES");

/// What the crates that decide what is made are: the number of a type has the version of its crate in it, with those of
/// the crates that it was built with, and that of the compiler of Rust. Lock files would not do: that of this workspace
/// says nothing of a program that uses the library.
fn built_with() -> u64 {
    let mut hasher = DefaultHasher::new();
    TypeId::of::<drivers_spec::nv::tensor_map::TensorMap>().hash(&mut hasher);
    #[cfg(feature = "llvm")]
    TypeId::of::<inkwell::context::Context>().hash(&mut hasher);
    hasher.finish()
}

/// The content key: the structure of the kernel, independent of unreachable nodes, with everything else that
/// affects the code. The name does not.
pub fn content_key(kernel: &Kernel, backend: &Backend, options: &Options) -> [u8; 32] {
    key_from((SOURCES, built_with()), kernel, backend, options)
}

fn key_from(
    (sources, crates): (&str, u64),
    kernel: &Kernel,
    backend: &Backend,
    options: &Options,
) -> [u8; 32] {
    let mut h = Sha256::new();
    let g = &kernel.graph;
    let order = toposort(g, kernel.sink);
    let number: hashbrown::HashMap<_, _> = order
        .iter()
        .enumerate()
        .map(|(i, &n)| (n, i as u64))
        .collect();
    for &n in &order {
        let node = g.node(n);
        h.update(format!("{:?}:{}", node.op, node.dtype).as_bytes());
        for s in &node.src {
            h.update(number[s].to_le_bytes());
        }
        h.update([0xff]);
    }
    for p in &kernel.params {
        h.update(format!("{p:?}").as_bytes());
    }
    h.update(kernel.vars.to_le_bytes());
    h.update(backend.target.fingerprint().as_bytes());
    h.update(backend.describe().as_bytes());
    h.update(sources.as_bytes());
    h.update(crates.to_le_bytes());
    let Options {
        noopt,
        deterministic,
        threads,
        opts,
        ..
    } = options;
    h.update(format!("{noopt} {deterministic} {threads} {opts:?}").as_bytes());
    h.finalize().into()
}

/// See [`crate::Stage::content`].
pub(crate) fn stage_content(kernel: &Kernel) -> [u8; 32] {
    let mut h = Sha256::new();
    let g = &kernel.graph;
    let order = toposort(g, kernel.sink);
    let mut number = hashbrown::HashMap::new();
    // Counted in the order of the slots, which is that of the arguments: two stages that read the same buffers in each
    // other's place differ.
    let slot = |&n: &Id| match g.op(n) {
        Op::Param { slot } => Some(slot),
        _ => None,
    };
    let mut slots: Vec<u16> = order.iter().filter_map(slot).collect();
    slots.sort_unstable();
    slots.dedup();
    for &n in &order {
        let node = g.node(n);
        match node.op {
            Op::Param { slot } => {
                let at = slots.binary_search(&slot).unwrap_or_default();
                h.update(format!("param {at}:{}", node.dtype).as_bytes());
            }
            op => h.update(format!("{op:?}:{}", node.dtype).as_bytes()),
        }
        for s in &node.src {
            let at: u64 = number.get(s).copied().unwrap_or(u64::MAX);
            h.update(at.to_le_bytes());
        }
        h.update([0xff]);
        number.insert(n, number.len() as u64);
    }
    h.finalize().into()
}

/// Arithmetic operations on floats and integers other than indices, and bytes of the buffers, of
/// one run of a kernel.
pub fn estimate(kernel: &Kernel) -> (f64, f64) {
    let g: &Graph = &kernel.graph;
    let mut sets = RangeSets::default();
    let mut flops = 0.0;
    for n in toposort(g, kernel.sink) {
        let dtype = g.dtype(n);
        let counts = match g.op(n) {
            Op::Unary(_) => dtype != DType::I64,
            Op::Binary(op) => !op.is_compare() && dtype != DType::I64 && dtype != DType::Bool,
            Op::Fma | Op::Dot | Op::Reduce(_) | Op::Scan(_) => true,
            _ => false,
        };
        if !counts {
            continue;
        }
        let mut over = sets.of(g, n).to_vec();
        if let Op::Reduce(_) = g.op(n) {
            over = sets.of(g, g.src(n)[0]).to_vec();
            for &r in &g.src(n)[1..] {
                if !over.contains(&r) {
                    over.push(r);
                }
            }
        }
        let times: f64 = over
            .iter()
            .map(|&r| match g.op(r) {
                Op::Range { extent, kind, .. } if kind != RangeKind::Vec => extent as f64,
                _ => 1.0,
            })
            .product();
        flops += times * if matches!(g.op(n), Op::Fma) { 2.0 } else { 1.0 };
    }
    let bytes = kernel
        .params
        .iter()
        .map(|p| (p.len * p.dtype.size()) as f64)
        .sum();
    (flops, bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::render::CRenderer;
    use crate::target::Target;

    #[test]
    fn other_sources_and_crates_are_another_key() {
        let mut graph = Graph::new();
        let sink = graph.sink(&[]);
        let kernel = Kernel {
            name: "nothing".into(),
            graph,
            sink,
            params: Vec::new(),
            vars: 0,
        };
        let backend = Backend::new(Target::host(1), Arc::new(CRenderer), None);
        let options = Options::default();
        let key = |sources, crates| key_from((sources, crates), &kernel, &backend, &options);
        let (crates, now) = (built_with(), content_key(&kernel, &backend, &options));
        assert_eq!(key(SOURCES, crates), now);
        assert_ne!(key("0123456789abcdef", crates), now);
        assert_ne!(key(SOURCES, crates ^ 1), now);
        assert_eq!(SOURCES.len(), 16, "the hash of the build script");
    }
}
