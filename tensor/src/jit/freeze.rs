//! What depends on constants only is done when a function is captured.

use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

use codegen::StageArg;
use codegen::opt::contract::kept;
use hcq::{Buffer, Command, Scope, Val};

use crate::error::Result;
use crate::exec::compile::Compiled;
use crate::exec::engine::DeviceExecutor;
use crate::exec::packed::{PackedKey, PackedOperand};
use crate::exec::packing::packs;
use crate::exec::submit::Done;
use crate::graph::{Executor, Op, Storage, Tensor};
use crate::jit::tracing;
use crate::schedule::Schedule;
use crate::walk::below;

/// Whether nothing changes the bytes of a storage, which are the host's.
fn immutable(storage: &Storage) -> bool {
    matches!(storage, Storage::Host(_) | Storage::Source(_))
}

/// What is known of a node.
#[derive(Clone, Copy)]
struct Facts {
    /// Depends on an input, or on memory that others may change.
    varies: bool,
    /// Bytes of the leaves that it is made of, counted once per path; 0 for constants and positions.
    leaves: usize,
}

fn bytes(tensor: &Tensor) -> usize {
    tensor.numel() * tensor.dtype().size()
}

/// Computes the largest parts of the graph that depend on leaves but not on the inputs, unless they
/// are larger than what they are made of. Movements stay: a packed weight absorbs them.
pub(super) fn constants(
    executor: &DeviceExecutor,
    inputs: &[Tensor],
    outputs: &[Tensor],
) -> Result<()> {
    let input: HashSet<u64> = inputs.iter().map(Tensor::id).collect();
    let all = below(outputs, |_| false);
    let mut facts: HashMap<u64, Facts> = HashMap::with_capacity(all.len());
    for tensor in &all {
        let leaf = tensor.storage().is_some();
        let mut own = Facts {
            varies: input.contains(&tensor.id()) || tensor.is_shared(),
            leaves: if leaf { bytes(tensor) } else { 0 },
        };
        if !leaf {
            for source in tensor
                .node()
                .src()
                .iter()
                .filter_map(|s| facts.get(&s.id()))
            {
                own.varies |= source.varies;
                own.leaves = own.leaves.saturating_add(source.leaves);
            }
        }
        facts.insert(tensor.id(), own);
    }
    let frozen = |t: &Tensor| {
        facts
            .get(&t.id())
            .is_some_and(|f| !f.varies && f.leaves > 0)
    };
    let mut ends: Vec<Tensor> = Vec::new();
    for tensor in all.iter().filter(|t| !frozen(t) && t.storage().is_none()) {
        ends.extend(tensor.node().src().iter().filter(|s| frozen(s)).cloned());
    }
    ends.extend(outputs.iter().filter(|t| frozen(t)).cloned());
    let mut seen: HashSet<u64> = HashSet::new();
    let mut wanted = Vec::new();
    while let Some(tensor) = ends.pop() {
        if tensor.storage().is_some() || tensor.numel() == 0 || !seen.insert(tensor.id()) {
            continue;
        }
        let leaves = facts.get(&tensor.id()).map_or(0, |f| f.leaves);
        // What costs less than a copy to compute again may as well be a part of its user.
        let op = &tensor.node().op;
        let light = matches!(op, Op::Cast | Op::Bitcast | Op::Detach | Op::Sloped(_));
        if op.is_movement() || light || bytes(&tensor) > leaves {
            let sources = tensor.node().src();
            ends.extend(sources.iter().filter(|s| frozen(s)).cloned());
        } else {
            wanted.push(tensor);
        }
    }
    match wanted.is_empty() {
        true => Ok(()),
        false => computed(executor, &wanted),
    }
}

/// Computes tensors that are made of constant leaves.
pub(super) fn computed(executor: &DeviceExecutor, wanted: &[Tensor]) -> Result<()> {
    // The leaves come into device memory for this only; who needs them later brings them again.
    let leaves: Vec<(Tensor, Storage)> = below(wanted, |_| false)
        .into_iter()
        .filter_map(|t| t.storage().filter(immutable).map(|s| (t, s)))
        .collect();
    executor.realize(wanted)?;
    executor.synchronize()?;
    for (tensor, storage) in leaves {
        tensor.node().storage.replace(storage);
    }
    Ok(())
}

/// The bytes of a tensor that depends on no input of the function that is being traced, if one is.
pub(crate) fn constant(tensor: &Tensor) -> Result<Vec<u8>> {
    let Some(executor) = DeviceExecutor::of(tensor.engine()) else {
        return tensor.to_bytes();
    };
    tracing::outside(tensor.engine(), || {
        if tensor.storage().is_none() {
            computed(executor, std::slice::from_ref(tensor))?;
        }
        tensor.to_bytes()
    })
}

/// What was done ahead of time, and the memory that it filled.
#[derive(Default)]
pub(super) struct FrozenSteps {
    pub(super) done: Done,
    pub(super) operands: Vec<Arc<PackedOperand>>,
}

impl FrozenSteps {
    /// Runs the launches that read constant leaves only and fill scratch blocks that no other
    /// launch writes.
    pub(super) fn run(
        executor: &DeviceExecutor,
        schedule: &Schedule,
        compiled: &[Arc<Compiled>],
        inputs: &[Tensor],
    ) -> Result<FrozenSteps> {
        let mut staging: Vec<Buffer> = Vec::new();
        let mut out = FrozenSteps::default();
        for (site, kernel, args) in schedule.kernel_leaves() {
            let code = &compiled[kernel];
            for i in 0..code.launches.len() {
                if let Some((slots, block)) = packs_constants(code, &args, i, inputs) {
                    let launch = Launching { code, i, block };
                    let sources: Vec<&Tensor> =
                        slots.iter().filter_map(|&s| args[s as usize]).collect();
                    let made = launch.packed(executor, &sources, &slots, &mut staging)?;
                    out.done.launches.insert((site, i));
                    out.done
                        .blocks
                        .insert((site, block), Val::Const(made.0.va().0));
                    out.operands.push(made);
                }
            }
        }
        Ok(out)
    }
}

/// If a launch only reads constant leaves and only writes one scratch block that is its own: the
/// parameters that it reads, and the block.
pub(super) fn packs_constants(
    code: &Compiled,
    args: &[Option<&Tensor>],
    i: usize,
    inputs: &[Tensor],
) -> Option<(Vec<u16>, u16)> {
    let own = |t: &&Tensor| !t.is_shared() && inputs.iter().all(|i| i.id() != t.id());
    let constant = |slot: u16| args[slot as usize].filter(own);
    // Captures have their numbers in the code; what is shared by its code must not depend on others.
    let open = |arg: &StageArg| matches!(arg, StageArg::Var(_));
    if code.launches[i].args.iter().any(open) {
        return None;
    }
    let (slots, block) = packs(code, i, |slot| constant(slot).is_some())?;
    let read: usize = slots.iter().filter_map(|&s| constant(s)).map(bytes).sum();
    kept(code.built.scratch[block as usize].bytes, read).then_some((slots, block))
}

/// A launch to be run ahead of time.
struct Launching<'a> {
    code: &'a Compiled,
    i: usize,
    block: u16,
}

impl Launching<'_> {
    /// What it fills its block with, made before by another capture or now.
    fn packed(
        &self,
        executor: &DeviceExecutor,
        sources: &[&Tensor],
        slots: &[u16],
        staging: &mut Vec<Buffer>,
    ) -> Result<Arc<PackedOperand>> {
        // The content of a stage counts what it reads in the order of the slots.
        let mut bound: Vec<(u16, u64)> = slots
            .iter()
            .copied()
            .zip(sources.iter().map(|t| t.id()))
            .collect();
        bound.sort_unstable();
        let key: PackedKey = (
            self.code.built.stages[self.i].content,
            self.code.built.scratch[self.block as usize].bytes as u64,
            bound.into_iter().map(|(_, id)| id).collect(),
        );
        // Bytes on a device can change under the same tensor.
        let share = sources
            .iter()
            .all(|t| t.storage().as_ref().is_some_and(immutable));
        let known = share.then(|| executor.packed().get(&key)).flatten();
        if let Some(known) = known {
            return Ok(known);
        }
        let made = Arc::new(PackedOperand(self.run(executor, sources, slots, staging)?));
        if share {
            executor.packed().put(key, &made);
        }
        Ok(made)
    }

    /// Runs it over these leaves, and waits: one weight after the other is in device memory.
    fn run(
        &self,
        executor: &DeviceExecutor,
        sources: &[&Tensor],
        slots: &[u16],
        staging: &mut Vec<Buffer>,
    ) -> Result<Buffer> {
        let built = &self.code.built;
        let target = executor.alloc(built.scratch[self.block as usize].bytes as u64)?;
        let mut at: HashMap<u16, u64> = HashMap::new();
        let mut keep = vec![target.clone()];
        for (n, (tensor, &slot)) in sources.iter().zip(slots).enumerate() {
            let Some(storage) = tensor.storage() else {
                continue;
            };
            let buffer = match storage {
                Storage::Device(buffer) => (*buffer).clone(),
                storage => executor.staged(&storage, n, staging)?,
            };
            at.insert(slot, buffer.va().0);
            keep.push(buffer);
        }
        let launch = &self.code.launches[self.i];
        let args: Vec<Val> = launch
            .args
            .iter()
            .map(|arg| match arg {
                StageArg::Param(slot) => Val::Const(at.get(slot).copied().unwrap_or(0)),
                StageArg::Number(n) => Val::Const(*n as u64),
                _ => Val::Const(target.va().0),
            })
            .collect();
        let barrier = Command::Barrier {
            scope: Scope::Queue,
        };
        let run = Command::Exec {
            program: &launch.program,
            args: &args,
            grid: launch.grid,
            block: launch.block,
        };
        let point = executor
            .stream()
            .submit(&executor.copied()?, &[barrier, run])?;
        executor.keep(std::slice::from_ref(&point), keep);
        point.wait(executor.deadline())?;
        Ok(target)
    }
}
