//! Which leaves a kernel reads, and which of its parameters are the same at every run.

use super::{BufferId, BufferKind, Schedule, Work};
use crate::graph::Tensor;

/// A kernel step: its site, the kernel, and the leaf behind each argument that is one at all steps of
/// the loops around it.
pub type KernelLeaves<'a> = (usize, usize, Vec<Option<&'a Tensor>>);

impl Schedule {
    /// Every kernel step with its leaves.
    pub fn kernel_leaves(&self) -> Vec<KernelLeaves<'_>> {
        let leaf = |b: BufferId| match &self.buffers[b.0 as usize].kind {
            BufferKind::Leaf(tensor) => Some(tensor),
            _ => None,
        };
        let mut found = Vec::new();
        collect(self, &leaf, &mut found);
        found
    }

    /// Marks the parameters that are constant wherever their kernel runs, if all leaves but `inputs`, and memory
    /// that others have, never change.
    pub fn freeze(&mut self, inputs: &[Tensor]) {
        let open = |t: &Tensor| t.is_shared() || inputs.iter().any(|i| i.id() == t.id());
        let mut constant: Vec<Vec<bool>> = Vec::new();
        constant.extend(
            self.kernels
                .iter()
                .map(|k| vec![true; k.kernel.params.len()]),
        );
        for (_, kernel, args) in self.kernel_leaves() {
            for (constant, leaf) in constant[kernel].iter_mut().zip(args) {
                *constant &= leaf.is_some_and(|leaf| !open(leaf));
            }
        }
        for (kernel, constant) in self.kernels.iter_mut().zip(constant) {
            for (param, constant) in kernel.kernel.params.iter_mut().zip(constant) {
                param.constant = constant && !param.written;
            }
        }
    }
}

fn collect<'a>(
    plan: &'a Schedule,
    leaf: &dyn Fn(BufferId) -> Option<&'a Tensor>,
    found: &mut Vec<KernelLeaves<'a>>,
) {
    for step in &plan.steps {
        match &step.work {
            Work::Kernel { kernel, args } => {
                let args = args.iter().map(|&b| leaf(b)).collect();
                found.push((step.site, *kernel, args));
            }
            Work::Copy { .. } => {}
            Work::Loop(repeat) => {
                let inner = |b: BufferId| repeat.whole(b).and_then(leaf);
                collect(&repeat.body, &inner, found);
            }
        }
    }
}
