//! Semaphores of the host: acquires, releases, reductions.
//!
//! Source: open-gpu-doc, manuals/ampere/ga100/dev_pbdma.ref.txt, "Host Semaphore Methods".

use drivers_spec::nv::host::{self, sem_addr_hi, sem_addr_lo, sem_execute as bits};
use drivers_spec::nv::push::semaphore;
use twin::rule::{Proof, Rule};

use super::super::error::{Result, Stop, Wait, xid};
use super::super::port::Port;
use super::super::reduce::Reduction;

pub(super) static SEMAPHORE: Rule = Rule {
    name: "HOST-SEMAPHORE",
    text: "a semaphore is at a multiple of its size (4 or 8 bytes, 16 where a release writes a timestamp), and the host \
           supports its operation for words of that size and sign",
    source: "open-gpu-doc, manuals/ampere/ga100/dev_pbdma.ref.txt, SEM_EXECUTE: NV_PPBDMA_INTR_0_SEMAPHORE",
    proof: Proof::Sourced,
};

pub(super) static UNUSED: Rule = Rule {
    name: "HOST-SEMAPHORE-BITS",
    text: "bits of SEM_EXECUTE, and of SEMAPHORED, that the operation does not use are 0",
    source: "open-gpu-doc, manuals/ampere/ga100/dev_pbdma.ref.txt, SEM_EXECUTE, \"Undefined bits\"",
    proof: Proof::Sourced,
};

/// Where the next semaphore is, and with what.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Semaphore {
    pub address_low: u32,
    pub address_high: u32,
    pub payload_low: u32,
    pub payload_high: u32,
}

impl Semaphore {
    fn va(&self, port: &Port) -> u64 {
        let high = match sem_addr_hi::OFFSET.on.has(port.arch) {
            true => sem_addr_hi::OFFSET,
            false => sem_addr_hi::OFFSET_TO_AD10X,
        };
        let low = self.address_low & sem_addr_lo::OFFSET.mask();
        u64::from(high.get(self.address_high)) << 32 | u64::from(low)
    }

    /// Does what SEM_EXECUTE says. `idle` is whether all work is done.
    pub fn execute(&self, port: &Port, value: u32, idle: bool) -> Result {
        let operation = bits::OPERATION.get(value);
        let acquire = !matches!(
            operation,
            bits::OPERATION_RELEASE | bits::OPERATION_REDUCTION
        );
        let wide = bits::PAYLOAD_SIZE.get(value) == bits::PAYLOAD_SIZE_64BIT;
        let size = if wide { 8 } else { 4 };
        let (payload, mask) = match wide {
            true => (u64::MAX, u64::MAX),
            false => (u64::from(u32::MAX), u64::from(u32::MAX)),
        };
        let payload = payload & (u64::from(self.payload_high) << 32 | u64::from(self.payload_low));
        let va = self.va(port);
        let text = format!("SEM_EXECUTE {value:#x} at {va:#x}");
        let illegal = |why: &str| Err(port.dead(&SEMAPHORE, xid::PBDMA, format!("{text}: {why}")));
        let timed = !acquire && bits::RELEASE_TIMESTAMP.get(value) != 0;
        let align = if timed { semaphore::BYTES } else { size };
        if !va.is_multiple_of(align) {
            return illegal(&format!("no multiple of {align}"));
        }
        let common = bits::OPERATION.mask() | bits::PAYLOAD_SIZE.mask();
        let used = common
            | match operation {
                bits::OPERATION_RELEASE => {
                    bits::RELEASE_WFI.mask() | bits::RELEASE_TIMESTAMP.mask()
                }
                bits::OPERATION_REDUCTION => {
                    bits::RELEASE_WFI.mask()
                        | bits::RELEASE_TIMESTAMP.mask()
                        | bits::REDUCTION.mask()
                        | bits::REDUCTION_FORMAT.mask()
                }
                _ => bits::ACQUIRE_SWITCH_TSG.mask(),
            };
        if acquire {
            let held = || -> Result<u64> {
                let mut bytes = [0; 8];
                port.read("an acquire", va, &mut bytes[..size as usize])?;
                Ok(u64::from_le_bytes(bytes))
            };
            let held = held()?;
            let (holds, wants) = match operation {
                bits::OPERATION_ACQUIRE => (held == payload, format!("{payload:#x}")),
                bits::OPERATION_ACQ_STRICT_GEQ => {
                    (held >= payload, format!("{payload:#x} or more"))
                }
                bits::OPERATION_ACQ_CIRC_GEQ => {
                    let ahead = held.wrapping_sub(payload) & mask;
                    let half = mask / 2;
                    (
                        ahead <= half,
                        format!("{payload:#x} or up to {half:#x} more"),
                    )
                }
                bits::OPERATION_ACQ_AND => (held & payload != 0, format!("a bit of {payload:#x}")),
                bits::OPERATION_ACQ_NOR => {
                    let clear = !(held | payload) & mask;
                    (clear != 0, format!("no bit of {:#x}", !payload & mask))
                }
                _ => return illegal("no operation"),
            };
            if !holds {
                let bytes = size as usize;
                return Err(Stop::Wait(Wait {
                    va,
                    bytes,
                    wants,
                    held,
                }));
            }
        } else {
            let change = match operation {
                bits::OPERATION_REDUCTION => {
                    let signed = bits::REDUCTION_FORMAT.get(value) == bits::REDUCTION_FORMAT_SIGNED;
                    let operation = Reduction::of_host(bits::REDUCTION.get(value));
                    match operation.filter(|operation| operation.host_has(signed, wide)) {
                        None => return illegal("no such reduction of words of that kind"),
                        Some(operation) => Some((operation, signed)),
                    }
                }
                _ => None,
            };
            if bits::RELEASE_WFI.get(value) != 0 && !idle {
                return Err(Stop::Busy);
            }
            self.release(port, va, size as usize, payload, timed, change)?;
        }
        // After the operation, which may have been tried again and again.
        let rest = value & !used & host::SEM_EXECUTE.mask(port.arch);
        if rest != 0 {
            port.broken(&UNUSED, format!("{text}: bits {rest:#x}"));
        }
        Ok(())
    }

    fn release(
        &self,
        port: &Port,
        va: u64,
        size: usize,
        payload: u64,
        timed: bool,
        change: Option<(Reduction, bool)>,
    ) -> Result {
        let doing = "a release of the host";
        if timed {
            // The time is there before the payload is.
            let time = port.machine.clock().to_le_bytes();
            port.write(doing, va + semaphore::TIMESTAMP, &time)?;
        }
        match change {
            Some((operation, signed)) => {
                let held = &mut [0; 8][..size];
                let change = &mut |bytes: &mut [u8]| operation.change(signed, payload, bytes);
                port.bus
                    .update(va, held, change)
                    .map_err(|fault| port.mmu("a reduction of the host", fault))
            }
            // With a time, all of 16 bytes are written.
            None if timed => port.write(doing, va, &payload.to_le_bytes()),
            None => port.write(doing, va, &payload.to_le_bytes()[..size]),
        }
    }
}
