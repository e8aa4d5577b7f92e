//! A second opinion on waits and delays: the scoreboard of the compiler, which looks at all ways through the code and
//! shares nothing with the executor.
//!
//! It is for register files that are merged. Where they are apart, half registers are taken to be those behind the full
//! ones.

use codegen::ir3::check::{Hazard, check};
use codegen::ir3::{Inst, Reg, Value};

use super::change::program;
use super::kernel::Step;

/// Half registers that there are.
const HALVES: u32 = 48 * 4;

/// What the scoreboard says of a launch; none where it cannot look at it.
pub fn opinion(step: &Step) -> Option<Result<(), Hazard>> {
    let launch = &step.launch;
    let behind = match launch.merged_registers {
        true => 0,
        false => launch.full_footprint * 8,
    };
    if behind + launch.half_footprint * 4 > HALVES {
        return None;
    }
    let words = program(&step.words);
    let insts: Option<Vec<Inst>> = words.iter().map(|word| inst(*word, behind)).collect();
    // System values are there before the first instruction.
    let local = launch.system.local_id.map(usize::from);
    let inputs: Vec<usize> = local.map_or_else(Vec::new, |at| (at * 2..at * 2 + 6).collect());
    Some(check(&insts?, &inputs))
}

fn inst(word: u64, behind: u32) -> Option<Inst> {
    let mut inst = codegen::ir3::decode(word).ok()?;
    // Of some memory operations only the type says that data has 16 bits.
    let sizes = twin_ir3::decode(word).ok()?;
    let dsts = inst.dsts.iter_mut().zip(&sizes.dsts);
    for (operand, size) in dsts.chain(inst.srcs.iter_mut().zip(&sizes.srcs)) {
        if let Value::Reg(reg) = operand.value
            && size.half
            && u32::from(reg.0) < HALVES
        {
            operand.value = Value::Reg(Reg(u8::try_from(u32::from(reg.0) + behind).ok()?));
        }
    }
    Some(inst)
}
