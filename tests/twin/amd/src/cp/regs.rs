//! The registers that a queue writes. A register that was never written holds nothing useful: a
//! dispatch that needs it breaks a rule.

use std::collections::HashMap;

use drivers_spec::amd::{pm4, regs};
use twin::rule::{Proof, Rule};

use super::{Cx, Stop, exception};

/// Only registers that are modelled.
pub static UNMODELLED: Rule = Rule {
    name: "PM4-REG-UNMODELLED",
    text: "a packet accesses only registers that a compute queue of this generation has and the twin models",
    source: "drivers/spec/src/amd/regs.rs; Linux, asic_reg/gc/gc_*_offset.h",
    proof: Proof::Sourced,
};

/// Only bits that the register has.
pub static RESERVED: Rule = Rule {
    name: "PM4-REG-RESERVED",
    text: "bits of a register without a field on this generation are zero",
    source: "Linux, asic_reg/gc/gc_*_sh_mask.h",
    proof: Proof::Sourced,
};

/// A register is written before it is used.
pub static UNSET: Rule = Rule {
    name: "PM4-REG-UNSET",
    text: "every register that a dispatch uses has been written since the queue was created",
    source: "Linux, kfd_mqd_manager_v11.c: the queue's image holds nothing about a kernel",
    proof: Proof::Sourced,
};

const SH_FIRST: u32 = 0x2e00;
const SH_COUNT: usize = 0x80;

/// The registers of a queue on every XCC, and those of the engine.
pub(crate) struct Registers {
    /// By XCC, from 0x2e00 on.
    sh: Vec<[Option<u32>; SH_COUNT]>,
    uconfig: HashMap<u32, u32>,
}

impl Registers {
    /// Of a queue that has just been created.
    pub fn new(xccs: u32) -> Self {
        Self {
            sh: vec![[None; SH_COUNT]; xccs.max(1) as usize],
            uconfig: HashMap::new(),
        }
    }

    /// Writes consecutive registers on the XCCs of a mask.
    pub fn set(&mut self, cx: &Cx, mask: u32, first: u32, values: &[u32]) -> Result<(), Stop> {
        for (addr, &value) in (first..).zip(values) {
            let Some(reg) = regs::find(cx.gfx(), addr) else {
                return Err(unmodelled(addr));
            };
            let reserved = value & !reg.word.mask(cx.gfx());
            if reserved != 0 {
                cx.note(
                    &RESERVED,
                    format!("{} = {value:#x}: bits {reserved:#x}", reg.word.name),
                );
            }
            if addr >= pm4::UCONFIG_REG_START {
                self.uconfig.insert(addr, value);
                continue;
            }
            for (xcc, sh) in self.sh.iter_mut().enumerate() {
                let slot = addr
                    .checked_sub(SH_FIRST)
                    .and_then(|i| sh.get_mut(i as usize));
                if let (true, Some(slot)) = (mask >> xcc & 1 == 1, slot) {
                    *slot = Some(value);
                }
            }
        }
        Ok(())
    }

    /// A register of the queue on an XCC, if it was written.
    pub fn get(&self, xcc: u32, addr: u32) -> Option<u32> {
        let sh = self.sh.get(xcc as usize)?;
        *sh.get(addr.checked_sub(SH_FIRST)? as usize)?
    }

    /// A register that a dispatch needs.
    pub fn need(&self, cx: &Cx, xcc: u32, addr: u32) -> Result<u32, Stop> {
        self.get(xcc, addr).ok_or_else(|| {
            let name = regs::find(cx.gfx(), addr).map_or("?", |reg| reg.word.name);
            Stop::Rule {
                rule: &UNSET,
                what: format!("{name} was never written"),
                code: exception::PACKET_DISPATCH_REGISTER_INVALID,
            }
        })
    }

    /// A register as COPY_DATA and WAIT_REG_MEM read it.
    pub fn read(&self, cx: &Cx, xcc: u32, addr: u32) -> Result<u32, Stop> {
        if regs::find(cx.gfx(), addr).is_none() {
            return Err(unmodelled(addr));
        }
        Ok(self
            .get(xcc, addr)
            .or_else(|| self.uconfig.get(&addr).copied())
            .unwrap_or(0))
    }
}

/// A register that nobody knows.
pub(crate) fn unmodelled(addr: u32) -> Stop {
    Stop::Rule {
        rule: &UNMODELLED,
        what: format!("register {addr:#x}"),
        code: exception::PACKET_DISPATCH_REGISTER_INVALID,
    }
}
