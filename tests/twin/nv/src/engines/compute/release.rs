//! Semaphores that compute writes: at the end of a grid, and by methods.

use drivers_spec::nv::chip::Method;
use drivers_spec::nv::compute::{
    self as spec, report_semaphore_execute as execute, set_report_semaphore_d as report,
};
use drivers_spec::nv::push::semaphore;
use twin::rule::{Proof, Rule};

use super::super::Notice;
use super::super::error::{Result, xid};
use super::super::port::Port;
use super::super::reduce::Reduction;
use super::super::registers::Registers;

static REPORT: Rule = Rule {
    name: "COMPUTE-SEMAPHORE",
    text: "a semaphore method releases (other operations are not modelled), at a multiple of the semaphore's size",
    source: "open-gpu-doc, classes/compute/clc7c0.h, SET_REPORT_SEMAPHORE_D, REPORT_SEMAPHORE_EXECUTE",
    proof: Proof::Guess,
};

/// What is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    pub va: u64,
    pub payload: u64,
    /// Of the payload: 4 or 8.
    pub bytes: usize,
    pub timed: bool,
    /// The operation, and whether it is signed.
    pub reduction: Option<(Reduction, bool)>,
    pub interrupt: bool,
}

impl Release {
    /// SET_REPORT_SEMAPHORE_D.
    pub fn report(port: &Port, r: &Registers, value: u32) -> Result<Self> {
        let mask = spec::SET_REPORT_SEMAPHORE_A.mask(port.arch);
        let (a, b) = (&spec::SET_REPORT_SEMAPHORE_A, &spec::SET_REPORT_SEMAPHORE_B);
        let reduction = (report::REDUCTION_ENABLE.get(value) != 0)
            .then_some((report::REDUCTION_OP, report::REDUCTION_FORMAT));
        Self {
            va: r.long(a, b, mask),
            payload: r.get(&spec::SET_REPORT_SEMAPHORE_C).into(),
            bytes: 4,
            timed: report::STRUCTURE_SIZE.get(value) == report::STRUCTURE_SIZE_FOUR_WORDS,
            reduction: reduction.and_then(|(operation, format)| {
                let signed = format.get(value) == report::REDUCTION_FORMAT_SIGNED_32;
                Reduction::of_graphics(operation.get(value)).map(|op| (op, signed))
            }),
            interrupt: report::AWAKEN_ENABLE.get(value) != 0,
        }
        .checked(
            port,
            &spec::SET_REPORT_SEMAPHORE_D,
            value,
            report::OPERATION.get(value) == report::OPERATION_RELEASE,
        )
    }

    /// REPORT_SEMAPHORE_EXECUTE.
    pub fn execute(port: &Port, r: &Registers, value: u32) -> Result<Self> {
        let upper = &spec::SET_REPORT_SEMAPHORE_ADDRESS_UPPER;
        let mask = upper.mask(port.arch);
        let size = execute::STRUCTURE_SIZE.get(value);
        let wide = execute::PAYLOAD_SIZE64.get(value) != 0
            || size == execute::STRUCTURE_SIZE_SEMAPHORE_TWO_WORDS;
        let payload = r.long(
            &spec::SET_REPORT_SEMAPHORE_PAYLOAD_UPPER,
            &spec::SET_REPORT_SEMAPHORE_PAYLOAD_LOWER,
            if wide { u32::MAX } else { 0 },
        );
        let reduces = execute::REDUCTION_ENABLE.get(value) != 0;
        let operation = Reduction::of_graphics(execute::REDUCTION_OP.get(value));
        let signed = execute::REDUCTION_FORMAT.get(value) == execute::REDUCTION_FORMAT_SIGNED;
        let traps = execute::TRAP_TYPE.get(value) != execute::TRAP_TYPE_TRAP_NONE;
        Self {
            va: r.long(upper, &spec::SET_REPORT_SEMAPHORE_ADDRESS_LOWER, mask),
            payload,
            bytes: if wide { 8 } else { 4 },
            timed: size == execute::STRUCTURE_SIZE_SEMAPHORE_FOUR_WORDS,
            reduction: operation.filter(|_| reduces).map(|op| (op, signed)),
            interrupt: traps || execute::AWAKEN_ENABLE.get(value) != 0,
        }
        .checked(
            port,
            &spec::REPORT_SEMAPHORE_EXECUTE,
            value,
            execute::OPERATION.get(value) == execute::OPERATION_RELEASE && size != 3,
        )
    }

    fn checked(self, port: &Port, method: &Method, value: u32, releases: bool) -> Result<Self> {
        let align = if self.timed {
            semaphore::BYTES
        } else {
            self.bytes as u64
        };
        let what = format!("{} {value:#x} at {:#x}", method.register.word.name, self.va);
        if !releases {
            return Err(port.dead(&REPORT, xid::GR_CLASS, what));
        }
        if !self.va.is_multiple_of(align) {
            port.broken(&REPORT, what);
        }
        Ok(self)
    }

    pub fn run(&self, port: &Port) -> Result<Option<Notice>> {
        let doing = "a semaphore of compute";
        if self.timed {
            let time = port.machine.clock().to_le_bytes();
            port.write(doing, self.va + semaphore::TIMESTAMP, &time)?;
        }
        match self.reduction {
            Some((operation, signed)) => {
                let held = &mut [0; 8][..self.bytes];
                let change = &mut |bytes: &mut [u8]| operation.change(signed, self.payload, bytes);
                let done = port.bus.update(self.va, held, change);
                done.map_err(|fault| port.mmu(doing, fault))?;
            }
            None => {
                let bytes = if self.timed { 8 } else { self.bytes };
                port.write(doing, self.va, &self.payload.to_le_bytes()[..bytes])?;
            }
        }
        Ok(self.interrupt.then_some(Notice::Compute))
    }
}
