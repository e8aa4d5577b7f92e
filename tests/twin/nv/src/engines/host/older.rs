//! SEMAPHOREA to SEMAPHORED, the methods that semaphores had before SEM_EXECUTE: the host still has them up to Ada.
//!
//! Source: OGKM, kernel-open/nvidia-uvm/clc56f.h, NVC56F_SEMAPHOREA and on, of Ampere; clc86f.h, of Hopper, has none of them; Linux,
//! drivers/gpu/drm/nouveau/nvc0_fence.c, a client that uses them on cards.

use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::host::sem_execute as bits;

use super::super::error::{Result, xid};
use super::super::port::Port;
use super::method::BITS;
use super::push::Method;
use super::semaphore::{SEMAPHORE, Semaphore, UNUSED};

/// The methods, in dwords.
const A: u32 = 0x10 / 4;
const B: u32 = 0x14 / 4;
const C: u32 = 0x18 / 4;
const D: u32 = 0x1c / 4;

/// SEMAPHORED: the operation 4:0, and bits beside.
const OPERATION: u32 = 0x1f;
const ACQUIRE: u32 = 1;
const RELEASE: u32 = 2;
const ACQ_GEQ: u32 = 4;
const ACQ_AND: u32 = 8;
const REDUCTION: u32 = 0x10;
const ACQUIRE_SWITCH: u32 = 1 << 12;
/// Without a wait for the engine, which is the default.
const RELEASE_WFI_DIS: u32 = 1 << 20;
/// Four bytes, and not sixteen with the time.
const RELEASE_SIZE_4BYTE: u32 = 1 << 24;
/// Which reduction, and of what, as SEM_EXECUTE has them.
const REDUCTION_AND_FORMAT: u32 = 0xf800_0000;

/// Whether a method is one of them.
pub(super) fn has(port: &Port, dword: u32) -> bool {
    (A..=D).contains(&dword) && port.arch <= Arch::Ad10x
}

/// What they have set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Older(Semaphore);

impl Older {
    /// Does one of them. `idle` is whether all work is done.
    pub fn execute(&mut self, port: &Port, method: Method, idle: bool) -> Result {
        let value = method.value;
        let unused = match method.dword {
            A => {
                self.0.address_high = value;
                value & !0xff
            }
            B => {
                self.0.address_low = value;
                value & 3
            }
            C => {
                self.0.payload_low = value;
                0
            }
            _ => return self.operate(port, value, idle),
        };
        if unused != 0 {
            port.broken(&BITS, format!("{:#x} with {value:#x}", 4 * method.dword));
        }
        Ok(())
    }

    /// SEMAPHORED, as what SEM_EXECUTE has for it.
    fn operate(&self, port: &Port, value: u32, idle: bool) -> Result {
        let release = RELEASE_WFI_DIS | RELEASE_SIZE_4BYTE;
        let (operation, used) = match value & OPERATION {
            ACQUIRE => (bits::OPERATION_ACQUIRE, ACQUIRE_SWITCH),
            ACQ_GEQ => (bits::OPERATION_ACQ_CIRC_GEQ, ACQUIRE_SWITCH),
            ACQ_AND => (bits::OPERATION_ACQ_AND, ACQUIRE_SWITCH),
            RELEASE => (bits::OPERATION_RELEASE, release),
            REDUCTION => (bits::OPERATION_REDUCTION, release | REDUCTION_AND_FORMAT),
            _ => {
                let what = format!("SEMAPHORED {value:#x}");
                return Err(port.dead(&SEMAPHORE, xid::PBDMA, what));
            }
        };
        let unused = value & !OPERATION & !used;
        if unused != 0 {
            port.broken(&UNUSED, format!("SEMAPHORED {value:#x}: bits {unused:#x}"));
        }
        // The switch and the reduction have the same bits there.
        let same = value & used & (ACQUIRE_SWITCH | REDUCTION_AND_FORMAT);
        let has = |bit: u32| used & bit != 0 && value & bit == 0;
        let wait = if has(RELEASE_WFI_DIS) {
            bits::RELEASE_WFI.mask()
        } else {
            0
        };
        let time = if has(RELEASE_SIZE_4BYTE) {
            bits::RELEASE_TIMESTAMP.mask()
        } else {
            0
        };
        self.0.execute(port, operation | same | wait | time, idle)
    }
}
