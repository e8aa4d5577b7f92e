//! Removes what nobody reads.

use super::live::Live;
use super::{Function, Instruction};

/// Removes instructions that only write lanes that are not read later. `keeps` says which do something else as well.
pub fn remove<I: Instruction>(f: &mut Function<I>, keeps: impl Fn(&I) -> bool) {
    loop {
        let live = Live::of(f);
        let mut removed = false;
        for (at, block) in f.blocks.iter_mut().enumerate() {
            let mut now = live.at_end[at].clone();
            let mut kept = Vec::with_capacity(block.insts.len());
            for inst in std::mem::take(&mut block.insts).into_iter().rev() {
                let mut needed = keeps(&inst);
                inst.accesses(&mut |a| {
                    needed |= a.writes && live.lanes.of(a.part).any(|lane| now.has(lane));
                });
                removed |= !needed;
                if needed {
                    live.step(&inst, &mut now);
                    kept.push(inst);
                }
            }
            kept.reverse();
            block.insts = kept;
        }
        if !removed {
            return;
        }
    }
}
