//! `f16` for what products of a traced function read: weights and activations. Sums stay `f32`.
//!
//! A product is a sum over elementwise products of two values, as matrix products and convolutions are. Each value that
//! one reads, below what only moves elements, is rounded to `f16` for all of its users, and so are tables of which rows are
//! taken. Values of other operations (norms, softmax, what is added to a product) stay as they are, as do the bodies of
//! loops, what positions are made of ([`exact`]), and what `f16` does not hold ([`range`]).

mod exact;
mod product;
mod range;

use hashbrown::{HashMap, HashSet};

use codegen::DType;

use super::freeze;
use crate::error::Result;
use crate::exec::engine::DeviceExecutor;
use crate::graph::{Op, Tensor};
use crate::walk::below;
use product::{base, factors};

/// What became of the values that products read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Operands {
    /// They are read as `f16`.
    pub half: usize,
    /// They stay `f32`: positions, integers or whole numbers are made of them.
    pub exact: usize,
    /// They stay `f32`: they are, or may be, beyond what `f16` holds.
    pub beyond: usize,
}

/// The values that products among some tensors read, and tables of which they take rows: of those that `varies` has, since
/// others are computed once, now.
fn operands(all: &[Tensor], varies: &HashSet<u64>) -> HashSet<u64> {
    let number = |t: &Tensor| matches!(t.node().op, Op::Const(_) | Op::Iota);
    let mut found = HashSet::new();
    for tensor in all.iter().filter(|t| varies.contains(&t.id())) {
        if let (Op::Gather(_), Some(rows)) = (&tensor.node().op, tensor.node().src().first()) {
            let (table, _) = base(rows);
            if table.dtype() == DType::F32 && table.storage().is_some() {
                found.insert(table.id());
            }
        }
        let read = factors(tensor).into_iter().flatten();
        found.extend(read.filter(|t| !number(t)).map(|t| t.id()));
    }
    found
}

/// The tensors that depend on inputs.
fn varying(all: &[Tensor], inputs: &[Tensor]) -> HashSet<u64> {
    let mut varies: HashSet<u64> = inputs.iter().map(Tensor::id).collect();
    for tensor in all {
        let own = tensor.node().src();
        if tensor.storage().is_none() && own.iter().any(|s| varies.contains(&s.id())) {
            varies.insert(tensor.id());
        }
    }
    varies
}

/// Weights in `f16`, those that it holds, by the tensors that they replace. They are computed now.
fn weights(executor: &DeviceExecutor, wanted: &[&Tensor]) -> Result<HashMap<u64, Tensor>> {
    let narrow = wanted.iter().map(|t| t.cast(DType::F16));
    let narrow: Vec<Tensor> = narrow.collect::<Result<_>>()?;
    if !narrow.is_empty() {
        freeze::computed(executor, &narrow)?;
    }
    let mut held = HashMap::with_capacity(narrow.len());
    for (wide, narrow) in wanted.iter().zip(narrow) {
        if range::holds(wide, &narrow)? {
            held.insert(wide.id(), narrow.cast(DType::F32)?);
        }
    }
    Ok(held)
}

/// The same values with operands of products in `f16`, and what became of all operands. Weights are converted now.
/// `states` are inputs with the values, among `roots`, that they have in the next run.
///
/// # Errors
/// Those of compiling and of the device.
pub(super) fn narrowed(
    executor: &DeviceExecutor,
    inputs: &[Tensor],
    states: &[(Tensor, Tensor)],
    roots: &[Tensor],
) -> Result<(Vec<Tensor>, Operands)> {
    let all = below(roots, |_| false);
    let exact = exact::exact(&all, states);
    let varies = varying(&all, inputs);
    let found = operands(&all, &varies);
    let read: Vec<&Tensor> = all.iter().filter(|t| found.contains(&t.id())).collect();
    let mut count = Operands::default();
    let (kept, open): (Vec<&Tensor>, Vec<&Tensor>) =
        read.into_iter().partition(|t| exact.contains(&t.id()));
    count.exact = kept.len();
    let (activations, constants): (Vec<&Tensor>, Vec<&Tensor>) =
        open.into_iter().partition(|t| varies.contains(&t.id()));
    // Whole numbers that are counted are more than f16 has digits for.
    let inside = constants.iter().filter(|t| !range::exceeds(t));
    let inside: Vec<&Tensor> = inside.copied().collect();
    let mut known = weights(executor, &inside)?;
    let inside = activations.iter().filter(|t| !range::exceeds(t));
    let rounded: HashSet<u64> = inside.map(|t| t.id()).collect();
    count.half = known.len() + rounded.len();
    count.beyond = constants.len() + activations.len() - count.half;
    for tensor in &all {
        if known.contains_key(&tensor.id()) {
            continue;
        }
        let node = tensor.node();
        let own = node.src();
        let leaf = tensor.storage().is_some();
        let src: Vec<&Tensor> = own.iter().filter_map(|s| known.get(&s.id())).collect();
        let same = leaf || src.iter().zip(&*own).all(|(a, b)| a.id() == b.id());
        let mut made = match same {
            true => tensor.clone(),
            false => tensor.remade(node.op.clone(), &src, &node.shape),
        };
        if rounded.contains(&tensor.id()) {
            let mut narrow = made.cast(DType::F16)?;
            // In memory as `f16`: else its users might convert what is there as `f32`, each for itself.
            if !inputs.iter().any(|input| input.id() == tensor.id()) {
                narrow = narrow.contiguous()?;
            }
            made = narrow.cast(DType::F32)?;
        }
        known.insert(tensor.id(), made);
    }
    let found = roots
        .iter()
        .filter_map(|root| known.get(&root.id()).cloned());
    Ok((found.collect(), count))
}
