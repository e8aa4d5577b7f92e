//! The host's own methods.
//!
//! Source: open-gpu-doc, manuals/ampere/ga100/dev_pbdma.ref.txt, chapter 6; classes/host/clc56f.h.

use drivers_spec::nv::chip::{self, Method as Named};
use drivers_spec::nv::host::{self, mem_op_d, membar_type};
use drivers_spec::nv::push::userd;
use twin::rule::{Proof, Rule};

use super::super::Notice;
use super::super::error::{Result, Stop, xid};
use super::super::port::Port;
use super::older::{self, Older};
use super::push::Method;
use super::semaphore::Semaphore;

static METHOD: Rule = Rule {
    name: "HOST-METHOD",
    text: "a method below 0x100 exists on the host, is not ILLEGAL, and does not require a privileged channel",
    source: "open-gpu-doc, manuals/ampere/ga100/dev_pbdma.ref.txt, NV_PPBDMA_INTR_0_METHOD",
    proof: Proof::Sourced,
};

pub(super) static BITS: Rule = Rule {
    name: "HOST-METHOD-BITS",
    text: "bits of a host method without a field are 0",
    source: "open-gpu-doc, classes/host/clc56f.h",
    proof: Proof::Sourced,
};

static MEM_OP: Rule = Rule {
    name: "HOST-MEM-OP",
    text: "MEM_OP_A, B and C precede each MEM_OP_D, with 0 in the fields that the operation does not use",
    source: "open-gpu-doc, manuals/ampere/ga100/dev_pbdma.ref.txt, \"MEM_OP methods\"",
    proof: Proof::Sourced,
};

static NOT_MODELLED: Rule = Rule {
    name: "HOST-METHOD-NOT-MODELLED",
    text: "the twin models the operation of MEM_OP_D: barriers, and operations of the L2 cache",
    source: "this twin: src/engines/host/method.rs",
    proof: Proof::Twin,
};

/// What the host's methods have set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Registers {
    semaphore: Semaphore,
    older: Older,
    /// What MEM_OP_A, B and C hold since the last D.
    operation: [Option<u32>; 3],
}

/// What a method does beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Notice(Notice),
    /// A word of USERD, at that byte.
    Userd(u64, u32),
    /// The rest of the turn is given up.
    Yield,
}

impl Registers {
    /// Does a method other than SET_OBJECT. `idle` is whether all work is done.
    pub fn execute(&mut self, port: &Port, method: Method, idle: bool) -> Result<Effect> {
        let value = method.value;
        if older::has(port, method.dword) {
            self.older.execute(port, method, idle)?;
            return Ok(Effect::None);
        }
        let Some(named) = chip::method(host::METHODS, port.arch, method.dword) else {
            let what = format!("{:#x} with {value:#x}", method.dword * 4);
            return Err(port.dead(&METHOD, xid::PBDMA, what));
        };
        let is = |other: &Named| other.dword() == method.dword;
        let semaphore = &mut self.semaphore;
        if is(&host::SEM_EXECUTE) {
            semaphore.execute(port, value, idle)?;
        } else if is(&host::SEM_ADDR_LO) {
            semaphore.address_low = value;
        } else if is(&host::SEM_ADDR_HI) {
            semaphore.address_high = value;
        } else if is(&host::SEM_PAYLOAD_LO) {
            semaphore.payload_low = value;
        } else if is(&host::SEM_PAYLOAD_HI) {
            semaphore.payload_high = value;
        } else if is(&host::MEM_OP_A) {
            self.operation[0] = Some(value);
        } else if is(&host::MEM_OP_B) {
            self.operation[1] = Some(value);
        } else if is(&host::MEM_OP_C) {
            self.operation[2] = Some(value);
        } else if is(&host::MEM_OP_D) {
            self.operate(port, value)?;
        } else if is(&host::WFI) {
            if !idle {
                return Err(Stop::Busy);
            }
        } else if is(&host::SET_REFERENCE) {
            if !idle {
                return Err(Stop::Busy);
            }
            return Ok(Effect::Userd(userd::REFERENCE, value));
        } else if is(&host::NON_STALL_INTERRUPT) {
            return Ok(Effect::Notice(Notice::Host));
        } else if is(&host::YIELD) {
            port.reserved(&BITS, named, value);
            return Ok(match value & 3 {
                0 | 1 => Effect::None,
                _ => Effect::Yield,
            });
        } else if is(&host::NOP) || is(&host::FB_FLUSH) {
            // Nothing, and a barrier for what the host itself has written, which is there already.
        } else {
            // ILLEGAL, and CLEAR_FAULTED, which does the same.
            let what = format!("{} with {value:#x}", named.register.word.name);
            return Err(port.dead(&METHOD, xid::PBDMA, what));
        }
        if !is(&host::MEM_OP_D) {
            port.reserved(&BITS, named, value);
        }
        Ok(Effect::None)
    }

    /// MEM_OP_D. Caches of the host and the second level are not modelled: barriers only have to be right.
    fn operate(&mut self, port: &Port, value: u32) -> Result {
        let operation = mem_op_d::OPERATION.get(value);
        let [a, b, c] = std::mem::take(&mut self.operation);
        let text = format!("MEM_OP_D {value:#x} with A {a:x?}, B {b:x?}, C {c:x?}");
        let privileged = matches!(
            operation,
            mem_op_d::OPERATION_MMU_TLB_INVALIDATE
                | mem_op_d::OPERATION_MMU_TLB_INVALIDATE_TARGETED
                | mem_op_d::OPERATION_ACCESS_COUNTER_CLR
        );
        if privileged {
            let what = format!("{text}, which is privileged");
            return Err(port.dead(&METHOD, xid::PBDMA, what));
        }
        let (Some(a), Some(b), Some(c)) = (a, b, c) else {
            port.broken(&MEM_OP, text);
            return Ok(());
        };
        let rest = a | b | value & !mem_op_d::OPERATION.mask();
        let clean = match operation {
            mem_op_d::OPERATION_MEMBAR => {
                rest == 0 && matches!(c, membar_type::SYS_MEMBAR | membar_type::MEMBAR)
            }
            mem_op_d::OPERATION_L2_PEERMEM_INVALIDATE
            | mem_op_d::OPERATION_L2_SYSMEM_INVALIDATE
            | mem_op_d::OPERATION_L2_CLEAN_COMPTAGS
            | mem_op_d::OPERATION_L2_FLUSH_DIRTY
            | mem_op_d::OPERATION_L2_WAIT_FOR_SYS_PENDING_READS => rest | c == 0,
            _ => {
                port.broken(&NOT_MODELLED, text);
                return Ok(());
            }
        };
        if !clean {
            port.broken(&MEM_OP, text);
        }
        Ok(())
    }
}
