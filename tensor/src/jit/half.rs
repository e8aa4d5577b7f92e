//! `f16` for what products of a traced function read: weights and activations. Sums stay `f32`.
//!
//! A product is a sum over elementwise products of two values, as matrix products and convolutions are. Each value that
//! one reads, below what only moves elements, is rounded to `f16` for all of its users, and so are tables of which rows are
//! taken. Values of other operations (norms, softmax, what is added to a product) stay as they are, as do the bodies of
//! loops.

use hashbrown::{HashMap, HashSet};

use codegen::DType;
use codegen::ir::{Binary, ReduceOp};

use super::freeze;
use crate::error::Result;
use crate::exec::engine::DeviceExecutor;
use crate::graph::{Op, Tensor};
use crate::walk::below;

/// The value below what only moves elements; whether some are repeated or in windows.
fn base(tensor: &Tensor) -> (Tensor, bool) {
    let (mut at, mut shared) = (tensor.clone(), false);
    while at.storage().is_none() && at.node().op.is_movement() {
        shared |= matches!(at.node().op, Op::Expand | Op::Windows { .. });
        let Some(below) = at.node().src().first().cloned() else {
            break;
        };
        at = below;
    }
    (at, shared)
}

/// The values that products among some tensors read, and tables of which they take rows.
fn operands(all: &[Tensor]) -> HashSet<u64> {
    let mut found = HashSet::new();
    for tensor in all {
        let is_sum = matches!(tensor.node().op, Op::Reduce(ReduceOp::Add, _));
        let source = tensor.node().src().first().cloned();
        if let (Op::Gather(_), Some(rows)) = (&tensor.node().op, &source) {
            let (table, _) = base(rows);
            if table.dtype() == DType::F32 && table.storage().is_some() {
                found.insert(table.id());
            }
            continue;
        }
        let Some(product) = source.filter(|_| is_sum && tensor.storage().is_none()) else {
            continue;
        };
        if !matches!(product.node().op, Op::Binary(Binary::Mul)) {
            continue;
        }
        if let [a, b] = &*product.node().src() {
            let ((a, spread_a), (b, spread_b)) = (base(a), base(b));
            let wide = a.dtype() == DType::F32 && b.dtype() == DType::F32;
            // A sum of squares, or one with one number, is no product of matrices.
            if wide && a.id() != b.id() && (spread_a || spread_b) {
                found.extend([a.id(), b.id()]);
            }
        }
    }
    found
}

/// The same values with operands of products in `f16`. Weights are converted now.
///
/// # Errors
/// Those of compiling and of the device.
pub(super) fn narrowed(
    executor: &DeviceExecutor,
    inputs: &[Tensor],
    roots: &[Tensor],
) -> Result<Vec<Tensor>> {
    let all = below(roots, |_| false);
    let operands = operands(&all);
    let mut varies: HashSet<u64> = inputs.iter().map(Tensor::id).collect();
    let mut known: HashMap<u64, Tensor> = HashMap::with_capacity(all.len());
    let mut weights: Vec<Tensor> = Vec::new();
    for tensor in &all {
        let node = tensor.node();
        let own = node.src();
        let leaf = tensor.storage().is_some();
        if !leaf && own.iter().any(|s| varies.contains(&s.id())) {
            varies.insert(tensor.id());
        }
        let src: Vec<&Tensor> = own.iter().filter_map(|s| known.get(&s.id())).collect();
        let same = leaf || src.iter().zip(&*own).all(|(a, b)| a.id() == b.id());
        let mut made = match same {
            true => tensor.clone(),
            false => tensor.remade(node.op.clone(), &src, &node.shape),
        };
        let number = matches!(node.op, Op::Const(_) | Op::Iota);
        if operands.contains(&tensor.id()) && !number {
            let mut narrow = made.cast(DType::F16)?;
            match varies.contains(&tensor.id()) {
                false => weights.push(narrow.clone()),
                // In memory as `f16`: else its users might convert what is there as `f32`, each for itself.
                true if !inputs.iter().any(|input| input.id() == tensor.id()) => {
                    narrow = narrow.contiguous()?;
                }
                true => {}
            }
            made = narrow.cast(DType::F32)?;
        }
        known.insert(tensor.id(), made);
    }
    if !weights.is_empty() {
        freeze::computed(executor, &weights)?;
    }
    let found = roots
        .iter()
        .filter_map(|root| known.get(&root.id()).cloned());
    Ok(found.collect())
}
