//! Launches that only reorder an operand for the kernels that read it. They can run first, and once for all steps
//! of a loop.

use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

use codegen::{Stage, StageArg};

use super::compile::Compiled;
use crate::schedule::memory::ALIGN;
use crate::schedule::{BufferId, LoopNode, Schedule, Work};

/// If a launch reads parameters and numbers only, the parameters constant, and writes one scratch block that is its
/// own: the parameters that it reads, and the block.
pub(crate) fn packs(
    code: &Compiled,
    i: usize,
    constant: impl Fn(u16) -> bool,
) -> Option<(Vec<u16>, u16)> {
    let stages = &code.built.stages;
    let (mut slots, mut block) = (Vec::new(), None);
    for (arg, &written) in stages[i].args.iter().zip(&stages[i].writes) {
        match *arg {
            StageArg::Param(slot) if !written && constant(slot) => slots.push(slot),
            StageArg::Scratch(b) if written && block.is_none() => block = Some(b),
            StageArg::Number(_) | StageArg::Var(_) => {}
            _ => return None,
        }
    }
    let block = block.filter(|_| !slots.is_empty())?;
    let writes = |stage: &Stage| {
        let mut args = stage.args.iter().zip(&stage.writes);
        args.any(|(a, &w)| w && *a == StageArg::Scratch(block))
    };
    let alone = stages.iter().enumerate().all(|(j, s)| j == i || !writes(s));
    alone.then_some((slots, block))
}

/// Launches inside loops that do the same at all steps, and where the blocks that they fill stay, by step and
/// launch or block.
#[derive(Default, Debug)]
pub struct LoopInvariant {
    /// Launches of the first step only.
    pub launches: HashSet<(usize, usize)>,
    /// Offsets in the scratch memory, behind what all kernels share.
    pub blocks: HashMap<(usize, u16), u64>,
    /// Size of the scratch memory.
    pub bytes: u64,
}

impl LoopInvariant {
    /// Those of a schedule, without launches that are done already.
    pub fn of(
        schedule: &Schedule,
        compiled: &[Arc<Compiled>],
        done: &HashSet<(usize, usize)>,
    ) -> LoopInvariant {
        let shared = compiled.iter().map(|c| c.scratch_bytes).max();
        let mut once = LoopInvariant {
            bytes: shared.unwrap_or(0),
            ..LoopInvariant::default()
        };
        once.find(schedule, None, compiled, done);
        once
    }

    fn find(
        &mut self,
        plan: &Schedule,
        around: Option<&LoopNode>,
        compiled: &[Arc<Compiled>],
        done: &HashSet<(usize, usize)>,
    ) {
        for step in &plan.steps {
            let (kernel, args) = match (&step.work, around) {
                (Work::Loop(inner), _) => {
                    self.find(&inner.body, Some(inner), compiled, done);
                    continue;
                }
                (Work::Kernel { kernel, args }, Some(_)) => (*kernel, args),
                _ => continue,
            };
            let code = &compiled[kernel];
            let same = |b: BufferId| around.is_some_and(|around| around.whole(b).is_some());
            for i in 0..code.launches.len() {
                if done.contains(&(step.site, i)) {
                    continue;
                }
                if let Some((_, block)) = packs(code, i, |slot| same(args[slot as usize])) {
                    let at = self.bytes.next_multiple_of(ALIGN);
                    self.bytes = at + code.built.scratch[block as usize].bytes as u64;
                    self.blocks.insert((step.site, block), at);
                    self.launches.insert((step.site, i));
                }
            }
        }
    }
}
