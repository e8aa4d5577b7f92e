//! The code of a launch: fetched by lines, decoded once.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::decode::{DecodeError, decode};
use crate::fault::{Cause, Result, broken};
use crate::flow::WORD;
use crate::inst::Inst;
use crate::launch::Launch;
use crate::memory::{Memory, Path};
use crate::rules;

/// Bytes of a line of the instruction cache: the unit of SP_CS_INSTR_SIZE.
const LINE: u64 = 128;

/// A word and its instruction.
pub type Decoded = (u64, std::result::Result<Arc<Inst>, DecodeError>);

pub struct Code {
    base: u64,
    bytes: u64,
    lines: Vec<Option<Vec<Decoded>>>,
    /// Where branches lead, once somebody has asked.
    targets: Option<BTreeSet<u64>>,
}

impl Code {
    pub fn new(launch: &Launch) -> Self {
        let bytes = u64::from(launch.code_bytes);
        Self {
            base: launch.program,
            bytes,
            lines: vec![None; bytes.div_ceil(LINE) as usize],
            targets: None,
        }
    }

    /// The word at an address and its instruction.
    pub fn fetch(&mut self, memory: &mut dyn Memory, pc: u64) -> Result<&Decoded> {
        let at = pc.wrapping_sub(self.base);
        if at >= self.bytes || !at.is_multiple_of(8) {
            let (base, end) = (self.base, self.base + self.bytes);
            let what =
                format!("execution goes on at {pc:#x}, the code is from {base:#x} to {end:#x}");
            return broken(&rules::CODE_RANGE, what);
        }
        let number = at / LINE;
        let outside = || broken(&rules::CODE_RANGE, format!("execution goes on at {pc:#x}"));
        let Some(line) = self.lines.get_mut(number as usize) else {
            return outside();
        };
        if line.is_none() {
            *line = Some(load(memory, self.base + number * LINE)?);
        }
        match line
            .as_ref()
            .and_then(|line| line.get((at % LINE / 8) as usize))
        {
            Some(decoded) => Ok(decoded),
            None => outside(),
        }
    }

    /// Whether a branch of the code leads to an address: a block begins there.
    pub fn begins_block(&mut self, memory: &mut dyn Memory, pc: u64) -> Result<bool> {
        if self.targets.is_none() {
            self.targets = Some(self.branch_targets(memory)?);
        }
        Ok(self
            .targets
            .as_ref()
            .is_some_and(|targets| targets.contains(&pc)))
    }

    fn branch_targets(&mut self, memory: &mut dyn Memory) -> Result<BTreeSet<u64>> {
        let mut targets = BTreeSet::new();
        for pc in (self.base..self.base + self.bytes).step_by(WORD as usize) {
            // Behind the last instruction words need not be instructions.
            if let (_, Ok(inst)) = self.fetch(memory, pc)?
                && let Some(target) = inst.target(pc)
            {
                targets.insert(target);
            }
        }
        Ok(targets)
    }
}

fn load(memory: &mut dyn Memory, address: u64) -> Result<Vec<Decoded>> {
    let mut bytes = [0; LINE as usize];
    let count = bytes.len();
    memory
        .read(Path::Instruction, address, &mut bytes)
        .map_err(|why| Cause::Memory {
            path: Path::Instruction,
            write: false,
            address,
            bytes: count,
            why,
        })?;
    let words = bytes.chunks(8).map(|chunk| {
        let word = chunk
            .iter()
            .rev()
            .fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        (word, decode(word).map(Arc::new))
    });
    Ok(words.collect())
}
