//! What an instruction changed, for the trace.

use std::fmt::Write;

use crate::step::{File, Regs};
use crate::wave::Wave;

/// The values of registers at some time.
pub struct Values {
    registers: Vec<Vec<u32>>,
    exec: u64,
    scc: bool,
    m0: u32,
}

/// Lanes that are shown of a VGPR.
const LANES: usize = 4;

fn read(wave: &Wave, regs: Regs) -> Vec<u32> {
    (regs.first..regs.first + regs.count)
        .flat_map(|r| match regs.file {
            File::S => vec![wave.scalar(r)],
            File::V => {
                let at = usize::from(r) * wave.halves;
                let lanes = wave.v.get(at..at + wave.halves).unwrap_or_default();
                lanes.concat()
            }
        })
        .collect()
}

impl Values {
    /// What is there now.
    pub fn of(wave: &Wave, touches: &[Regs]) -> Self {
        Self {
            registers: touches.iter().map(|regs| read(wave, *regs)).collect(),
            exec: wave.exec,
            scc: wave.scc,
            m0: wave.m0,
        }
    }

    /// The registers that have other values now, with these.
    pub fn changes(&self, wave: &Wave, touches: &[Regs]) -> String {
        let mut text = String::new();
        let mut shown: Vec<Regs> = Vec::new();
        for (regs, old) in touches.iter().zip(&self.registers) {
            let new = read(wave, *regs);
            if new == *old || shown.contains(regs) {
                continue;
            }
            shown.push(*regs);
            let some = match regs.file {
                File::S => new.len(),
                File::V => LANES.min(new.len()),
            };
            let values: Vec<String> = new[..some].iter().map(|v| format!("{v:#x}")).collect();
            let more = if some < new.len() { " ..." } else { "" };
            let _ = write!(text, "  {regs} = {}{more}", values.join(" "));
        }
        if wave.exec != self.exec {
            let _ = write!(text, "  exec = {:#x}", wave.exec);
        }
        if wave.scc != self.scc {
            let _ = write!(text, "  scc = {}", u8::from(wave.scc));
        }
        if wave.m0 != self.m0 {
            let _ = write!(text, "  m0 = {:#x}", wave.m0);
        }
        text
    }
}
