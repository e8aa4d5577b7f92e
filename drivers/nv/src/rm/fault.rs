//! Why a channel died, as reported by the driver: an Xid in its notifier; the address of an MMU fault; the SM state
//! of an exception.
//!
//! Source: open-gpu-kernel-modules, src/common/sdk/nvidia/inc/{nverror.h,ctrl/ctrl906f.h,
//! ctrl/ctrl83de/ctrl83dedebug.h}; src/common/inc/swref/published/hopper/gh100/dev_fault.h
//! (`NV_PFAULT_FAULT_TYPE`); names of errors of warps: Mesa and Linux, nouveau, gr/gf100.c
//! (`gf100_mp_warp_error`).

use drivers_gpu::backend::{Access, Cause, Exception, MemoryFault, Ranges, Refused};
use drivers_spec::nv::{control, status};

use super::channel::Channel;
use super::facts::text;

/// An access that the MMU refused (`FIFO_ERROR_MMU_ERR_FLT`), an exception of graphics
/// (`GR_EXCEPTION`, `GR_ERROR_SW_NOTIFY`).
const XID_MMU: u32 = 31;
const XID_EXCEPTION: u32 = 13;

/// The GPU has left the bus (`ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS`).
pub(crate) const XID_GONE: u32 = 79;

/// `NV_PFAULT_FAULT_TYPE_*`.
mod fault_type {
    pub(crate) const PTE: u32 = 2;
    pub(crate) const UNBOUND_INST_BLOCK: u32 = 4;
    pub(crate) const RO_VIOLATION: u32 = 6;
    pub(crate) const REGION_VIOLATION: u32 = 13;
    pub(crate) const POISONED: u32 = 14;
}

/// `NV_PFAULT_ACCESS_TYPE_*`, and the bit of addresses that are no virtual ones.
mod access_type {
    pub(crate) const READ: u32 = 0;
    pub(crate) const WRITE: u32 = 1;
    pub(crate) const ATOMIC: u32 = 2;
    pub(crate) const PREFETCH: u32 = 3;
    pub(crate) const WEAK_ATOMIC: u32 = 4;
}
const PHYSICAL: u32 = 8;

/// Multiprocessors that are asked at a time, `NV83DE_CTRL_DEBUG_MAX_SMS_PER_CALL`.
const SMS: u32 = 100;

/// The bits of a warp's error.
const WARP_ERROR: u32 = 0xffff;

/// A channel as a source of fault information.
#[derive(Clone, Copy)]
pub(crate) struct Witness<'a> {
    pub(crate) channel: &'a Channel,
    /// Its name in messages.
    pub(crate) name: &'a str,
    /// Multiprocessors of the GPU.
    pub(crate) sms: u32,
    /// Whose addresses are whose.
    pub(crate) ranges: &'a Ranges,
}

/// Why a channel has died of an Xid.
pub(crate) fn explain(channel: Witness<'_>, xid: u32) -> Exception {
    match xid {
        XID_MMU => mmu(channel).unwrap_or_else(|| other(channel, xid)),
        XID_EXCEPTION => exception(channel).unwrap_or_else(|| other(channel, xid)),
        _ => other(channel, xid),
    }
}

fn other(channel: Witness<'_>, xid: u32) -> Exception {
    let name = status::xid_name(xid).unwrap_or("unknown");
    Exception::Refused(Refused {
        unit: channel.name.into(),
        what: format!("the channel has died: Xid {xid} ({name})"),
        at: None,
    })
}

/// The access that was refused; none where the driver does not tell.
fn mmu(channel: Witness<'_>) -> Option<Exception> {
    // Before the channel's query, which clears the information.
    let accesses = accesses(channel);
    let mut params = control::MmuFaultInfo::default();
    let ask = control::NV906F_CTRL_CMD_GET_MMU_FAULT_INFO;
    if let Err(error) = channel.channel.channel.control(&ask, &mut params) {
        tracing::debug!(%error, "fault address unavailable");
        return None;
    }
    let va = u64::from(params.addr_hi) << 32 | u64::from(params.addr_lo);
    let kind = params.fault_type;
    let told = text(&params.fault_string);
    tracing::debug!(va, kind, told, "MMU fault");
    if va == 0 && kind == 0 && told.is_empty() {
        return None;
    }
    Some(of_access(
        va,
        kind,
        accesses.and_then(|all| access(&all, va)),
    ))
}

/// What a line of RM's log says of an access that was refused: its address, and its kind where it is a virtual one.
///
/// Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu: mmu/arch/volta/kern_gmmu_gv100.c
/// (`kgmmuPrintFaultInfo_GV100`: the form of the address), fifo/arch/volta/kernel_fifo_gv100.c
/// (`kfifoGetFaultAccessTypeString_GV100`). The line of RM on GSP is not published: what is not there is not known.
pub(crate) fn of_line(xid: u32, line: &str) -> Option<(u64, Access)> {
    if xid != XID_MMU {
        return None;
    }
    let (_, rest) = line.split_once("faulted @ 0x")?;
    let (high, rest) = rest.split_once('_')?;
    let half = |digits: &str| u32::from_str_radix(digits, 16).ok().map(u64::from);
    let va = half(high)? << 32 | half(rest.get(..8)?)?;
    let kinds = [
        ("ACCESS_TYPE_VIRT_READ", Access::Read),
        ("ACCESS_TYPE_VIRT_PREFETCH", Access::Read),
        ("ACCESS_TYPE_VIRT_WRITE", Access::Write),
        ("ACCESS_TYPE_VIRT_ATOMIC", Access::Atomic),
    ];
    let kind = kinds.iter().find(|(name, _)| rest.contains(name));
    kind.map(|(_, access)| (va, *access))
}

/// An access that was refused, by its address and `NV_PFAULT_FAULT_TYPE`.
pub(crate) fn of_access(va: u64, kind: u32, access: Option<Access>) -> Exception {
    let not_present = kind <= fault_type::PTE || kind == fault_type::UNBOUND_INST_BLOCK;
    Exception::Memory(MemoryFault {
        va,
        cause: match kind {
            fault_type::POISONED => Cause::Poison,
            _ => Cause::PageFault,
        },
        access,
        not_present: not_present || kind == fault_type::REGION_VIOLATION,
        read_only: kind == fault_type::RO_VIOLATION,
        no_execute: false,
        imprecise: false,
    })
}

/// The last faults that a debugger has seen; none where there is no debugger, or it does not tell.
fn accesses(channel: Witness<'_>) -> Option<control::DebugMmuFaultInfo> {
    let debugger = channel.channel.debugger.as_ref()?;
    let mut params = control::DebugMmuFaultInfo::default();
    let ask = control::NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO;
    match debugger.control(&ask, &mut params) {
        Ok(()) => Some(params),
        Err(error) => {
            tracing::debug!(%error, "fault access type unavailable");
            None
        }
    }
}

/// The access to an address.
fn access(all: &control::DebugMmuFaultInfo, va: u64) -> Option<Access> {
    let count = all.mmu_fault_info_list.len().min(all.count as usize);
    let mut faults = all.mmu_fault_info_list[..count].iter();
    let fault = faults.find(|fault| fault.fault_address == va)?;
    match fault.access_type & !PHYSICAL {
        access_type::READ | access_type::PREFETCH => Some(Access::Read),
        access_type::WRITE => Some(Access::Write),
        access_type::ATOMIC | access_type::WEAK_ATOMIC => Some(Access::Atomic),
        _ => None,
    }
}

/// The first exception that a multiprocessor has; none where the driver does not tell.
fn exception(channel: Witness<'_>) -> Option<Exception> {
    let (sm, state) = *stopped(channel).first()?;
    Some(of_state(channel.name, sm, &state, channel.ranges))
}

/// The state of each multiprocessor with an exception, for a bundle.
pub(crate) fn waves(channel: Witness<'_>) -> Vec<String> {
    let told = |(sm, state): &(u32, control::SmErrorState)| {
        match of_state(channel.name, *sm, state, channel.ranges) {
            Exception::Refused(Refused { unit, what, at }) => {
                format!("{unit}: {what} {:#x}", at.unwrap_or_default())
            }
            // Cannot be: a state is what hardware refuses.
            _ => String::new(),
        }
    };
    stopped(channel).iter().map(told).collect()
}

/// Multiprocessors that have an exception; none where the driver does not tell.
fn stopped(channel: Witness<'_>) -> Vec<(u32, control::SmErrorState)> {
    let mut found = Vec::new();
    let Some(debugger) = channel.channel.debugger.as_ref() else {
        return found;
    };
    let ask = control::NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES;
    let all = channel.sms;
    for first in (0..all).step_by(SMS as usize) {
        let mut params = control::DebugSmErrorStates {
            h_target_channel: channel.channel.channel.handle(),
            num_s_ms_to_read: SMS.min(all - first),
            starting_sm: first,
            ..Default::default()
        };
        if let Err(error) = debugger.control(&ask, &mut params) {
            tracing::debug!(%error, "SM exceptions unavailable");
            return found;
        }
        let states = (first..).zip(&params.sm_error_state_array);
        for (sm, state) in states.take(params.num_s_ms_to_read as usize) {
            if state.hww_warp_esr != 0 || state.hww_global_esr != 0 {
                found.push((sm, *state));
            }
        }
    }
    found
}

/// A multiprocessor's state of a channel's kernel.
fn of_state(channel: &str, sm: u32, state: &control::SmErrorState, ranges: &Ranges) -> Exception {
    let error = state.hww_warp_esr & WARP_ERROR;
    let pc = match state.hww_warp_esr_pc64 {
        0 => u64::from(state.hww_warp_esr_pc),
        pc => pc,
    };
    let mut what = match warp_error(error) {
        Some(name) => format!("a warp on multiprocessor {sm} stopped: {name}"),
        None => format!(
            "an exception of multiprocessor {sm}, registers {:#x} (warp) and {:#x} (multiprocessor)",
            state.hww_warp_esr, state.hww_global_esr
        ),
    };
    if state.hww_esr_addr != 0 {
        let address = state.hww_esr_addr;
        what += &format!(", address {address:#x}");
        // An address of shared or local memory has no owner.
        if let Some(owner) = ranges.owner(address) {
            what += &format!(" ({owner})");
        }
    }
    what += ", instruction";
    Exception::Refused(Refused {
        unit: channel.into(),
        what,
        at: Some(pc),
    })
}

/// The name of a warp's error.
fn warp_error(number: u32) -> Option<&'static str> {
    Some(match number {
        0x01 | 0x02 => "stack error",
        0x03 => "return from an empty stack",
        0x04 => "the instruction pointer wrapped",
        0x05 => "misaligned instruction pointer",
        0x06 => "the instruction pointer overflowed",
        0x07 => "misaligned immediate constant",
        0x08 => "misaligned register",
        0x09 => "illegal instruction",
        0x0a => "illegal combination of instruction and shader header",
        0x0b | 0x11 => "illegal operand of an instruction",
        0x0c | 0x12 => "address outside a constant buffer",
        0x0d => "register out of range",
        0x0e => "address out of range",
        0x0f => "misaligned address",
        0x10 => "address in a wrong address space",
        0x13 => "geometry error",
        0x14 => "divergent warp",
        0x15 => "warp exit",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_of_warps_are_told_with_their_instruction() {
        let ranges = Ranges::default();
        ranges.insert(0x7f00_0000, 0x1000, "device memory");
        let told = |state| match of_state("compute 0", 7, &state, &ranges) {
            Exception::Refused(refused) => refused,
            other => panic!("{other:?}"),
        };
        let misaligned = told(control::SmErrorState {
            hww_warp_esr: 0x2_000f,
            hww_warp_esr_pc: 0x1010,
            hww_warp_esr_pc64: 0x12_0000_1010,
            hww_esr_addr: 0x7f00_0001,
            ..Default::default()
        });
        assert_eq!(misaligned.unit, "compute 0");
        let what = "a warp on multiprocessor 7 stopped: misaligned address, address 0x7f000001 (at offset 0x1 of device \
                    memory (0x1000 bytes at 0x7f000000)), instruction";
        assert_eq!(
            (&*misaligned.what, misaligned.at),
            (what, Some(0x12_0000_1010))
        );
        let other = told(control::SmErrorState {
            hww_global_esr: 0x4,
            hww_warp_esr_pc: 0x40,
            ..Default::default()
        });
        let what = "an exception of multiprocessor 7, registers 0x0 (warp) and 0x4 (multiprocessor), instruction";
        assert_eq!((&*other.what, other.at), (what, Some(0x40)));
    }

    #[test]
    fn the_access_of_a_fault_is_found_in_its_line() {
        let line = |kind: &str| {
            format!(
                "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x12_34567000. Fault is of \
                 type FAULT_PTE {kind}"
            )
        };
        for (kind, access) in [
            ("ACCESS_TYPE_VIRT_READ", Some(Access::Read)),
            ("ACCESS_TYPE_VIRT_WRITE", Some(Access::Write)),
            ("ACCESS_TYPE_VIRT_ATOMIC", Some(Access::Atomic)),
            ("ACCESS_TYPE_VIRT_PREFETCH", Some(Access::Read)),
            ("ACCESS_TYPE_PHYS_READ", None),
            ("UNRECOGNIZED_ACCESS_TYPE", None),
        ] {
            let expected = access.map(|access| (0x12_3456_7000, access));
            assert_eq!(of_line(31, &line(kind)), expected, "{kind}");
        }
        // Another Xid, and lines that end early or have no address.
        assert_eq!(of_line(32, &line("ACCESS_TYPE_VIRT_READ")), None);
        for line in [
            "",
            "faulted @ 0x",
            "faulted @ 0x12_345",
            "faulted @ 0xg_00000000. ACCESS_TYPE_VIRT_READ",
            "faulted @ 0x123456789_00000000. ACCESS_TYPE_VIRT_READ",
            "faulted @ 0x1_0000000\u{e9} ACCESS_TYPE_VIRT_READ",
        ] {
            assert_eq!(of_line(31, line), None, "{line}");
        }
    }

    #[test]
    fn the_access_of_a_fault_is_found_by_its_address() {
        let mut all = control::DebugMmuFaultInfo {
            count: 3,
            ..Default::default()
        };
        for (entry, (va, kind)) in all.mmu_fault_info_list.iter_mut().zip([
            (0x1000, 0),
            (0x2000, 4 | PHYSICAL),
            (0x3000, 7),
            (0x4000, 1),
        ]) {
            (entry.fault_address, entry.access_type) = (va, kind);
        }
        let found = [0x1000, 0x2000, 0x3000, 0x4000].map(|va| access(&all, va));
        // The third is of no kind that is known, the fourth is not counted.
        assert_eq!(
            found,
            [Some(Access::Read), Some(Access::Atomic), None, None]
        );
    }
}
