//! A channel dies: what RM says of it, and who dies with it.
//!
//! Every channel of its group dies. Each has its error notifier written; the host does nothing with them
//! any more. A client frees the group and makes another one.
//!
//! Source: open-gpu-kernel-modules 580.142, src/nvidia/src/kernel/gpu/rc/kernel_rc_notification.c,
//! krcErrorSetNotifier; ctrl/ctrl906f.h, GET_MMU_FAULT_INFO, RESET_CHANNEL; ctrl/ctrl83de/ctrl83dedebug.h;
//! published/hopper/gh100/dev_fault.h, NV_PFAULT_FAULT_TYPE, NV_PFAULT_ACCESS_TYPE.

use drivers_spec::nv::class::notify;
use drivers_spec::nv::{control, push, query, status};
use twin::rule::{Proof, Rule};
use zerocopy::IntoBytes;

use crate::chip::{Chip, SMS_PER_TPC};
use crate::engines::Error;
use crate::engines::bus::Fault;
use crate::engines::error::xid;
use crate::errno::Result;
use crate::kernel::Machine;
use crate::space::{self, Access, Rights};

use super::{Call, Kind, State};

static RESET: Rule = Rule {
    name: "RM-RESET-CHANNEL",
    text: "a channel is reset with a valid reason",
    source: "open-gpu-kernel-modules, kernel_channel.c, kchannelCtrlCmdResetChannel: NV_ERR_INVALID_PARAMETER",
    proof: Proof::Sourced,
};

pub(crate) static STATES: Rule = Rule {
    name: "RM-SM-STATES",
    text: "states are read of at most 100 existing multiprocessors at a time",
    source: "open-gpu-kernel-modules, ctrl83dedebug.h, NV83DE_CTRL_DEBUG_MAX_SMS_PER_CALL",
    proof: Proof::Sourced,
};

/// `NV906F_CTRL_CMD_RESET_CHANNEL_REASON_ENUM_MAX`.
const REASONS: u32 = 3;

/// What the MMU calls a fault: a number and a name.
fn kind(fault: &Fault) -> (u32, &'static str) {
    match fault.why {
        space::Fault::Unmapped => (2, "FAULT_PTE"),
        space::Fault::Denied(Rights::ReadOnly) => (6, "FAULT_RO_VIOLATION"),
        space::Fault::Denied(_) => (15, "FAULT_ATOMIC_VIOLATION"),
    }
}

/// What it calls an access.
fn access(fault: &Fault) -> u32 {
    match fault.access {
        Access::Read => 0,
        Access::Write => 1,
        Access::Atomic => 2,
    }
}

/// GET_MMU_FAULT_INFO, which forgets what it tells.
pub(crate) fn mmu_fault(error: Option<&mut Error>, params: &mut control::MmuFaultInfo) {
    *params = control::MmuFaultInfo::default();
    if let Some(fault) = error.and_then(|error| error.fault.take()) {
        let (number, name) = kind(&fault);
        params.addr_hi = (fault.va >> 32) as u32;
        params.addr_lo = fault.va as u32;
        params.fault_type = number;
        params.fault_string[..name.len()].copy_from_slice(name.as_bytes());
    }
}

/// DEBUG_READ_ALL_SM_ERROR_STATES, of channels that have died. All kernels run on the first multiprocessor.
///
/// # Errors
/// What was asked that is not there.
pub(crate) fn sm_states(
    chip: &Chip,
    errors: &[(u32, Error)],
    params: &mut control::DebugSmErrorStates,
) -> std::result::Result<(), String> {
    let all = chip.tpcs.iter().sum::<u32>() * SMS_PER_TPC;
    let (first, count) = (params.starting_sm, params.num_s_ms_to_read);
    let last = first.checked_add(count);
    if count as usize > params.sm_error_state_array.len() || last.is_none_or(|last| last > all) {
        return Err(format!("{count} from {first} on, of {all}"));
    }
    let target = params.h_target_channel;
    let mut errors = errors
        .iter()
        .filter(|(handle, _)| target == 0 || *handle == target);
    params.sm_error_state_array = [control::SmErrorState::default(); 100];
    let error = errors.next().map(|(_, error)| error);
    let fault = error.and_then(|error| error.fault);
    params.mmu_fault.valid = fault.is_some().into();
    params.mmu_fault.fault_info = fault.as_ref().map_or(0, |fault| kind(fault).0);
    params.mmu_fault_info = params.mmu_fault.fault_info;
    let exception = error.and_then(|error| error.exception);
    if let (Some(exception), 0, 1..) = (exception, first, count) {
        let state = &mut params.sm_error_state_array[0];
        state.hww_warp_esr = exception.esr;
        state.hww_warp_esr_pc = exception.pc as u32;
        state.hww_warp_esr_pc64 = exception.pc;
        state.hww_esr_addr = exception.address;
    }
    Ok(())
}

impl State {
    /// A channel has died: so does its group. Returns all of them.
    pub(crate) fn recover(
        &mut self,
        machine: &Machine,
        client: u32,
        handle: u32,
        error: &Error,
    ) -> Vec<(u32, u32)> {
        let Some(dead) = self.channel_mut(client, handle) else {
            return Vec::new();
        };
        let (group, gpu) = (dead.group, dead.gpu);
        let with = self.find(client, |object| match &object.kind {
            Kind::Channel(channel) => {
                channel.handle == handle || group.is_some() && channel.group == group
            }
            _ => false,
        });
        machine.journal.event(error.to_string());
        let time = machine.clock();
        let mut died = false;
        for &handle in &with {
            let Some(channel) = self.channel_mut(client, handle) else {
                continue;
            };
            if channel.error.is_some() {
                continue;
            }
            channel.error = Some(error.clone());
            died = true;
            let Some(memory) = &channel.notifier else {
                continue;
            };
            let notification = push::Notification {
                nanoseconds: [time as u32, (time >> 32) as u32],
                info32: error.xid,
                info16: channel.engine as u16,
                status: 0xffff,
            };
            // The status is there last. RM says nothing of memory that is too small.
            let (rest, status) = notification.as_bytes().split_at(14);
            let written = memory.contents.write(0, rest);
            let _ = written && memory.contents.write(14, status);
        }
        if died {
            self.notify_subdevices(machine, gpu, notify::RC_ERROR, (error.xid, 0));
        }
        with.into_iter().map(|handle| (client, handle)).collect()
    }

    /// The errors of a client's channels.
    fn errors(&self, client: u32) -> Vec<(u32, Error)> {
        let channels = self.channels().filter(|channel| channel.client == client);
        channels
            .filter_map(|channel| Some((channel.handle, channel.error.clone()?)))
            .collect()
    }
}

impl Call<'_> {
    /// GET_MMU_FAULT_INFO.
    pub(super) fn mmu_fault(
        &self,
        state: &mut State,
        client: u32,
        channel: u32,
        params: &mut control::MmuFaultInfo,
    ) {
        let channel = state.channel_mut(client, channel);
        let error = channel.and_then(|channel| channel.error.as_mut());
        mmu_fault(error, params);
    }

    /// DEBUG_READ_MMU_FAULT_INFO.
    pub(super) fn mmu_faults(
        &self,
        state: &State,
        client: u32,
        params: &mut control::DebugMmuFaultInfo,
    ) {
        let errors = state.errors(client);
        let mut faults: Vec<Fault> = errors.iter().filter_map(|(_, error)| error.fault).collect();
        faults.dedup();
        params.count = 0;
        for (fault, entry) in faults.iter().zip(&mut params.mmu_fault_info_list) {
            entry.fault_address = fault.va;
            entry.fault_type = kind(fault).0;
            entry.access_type = access(fault);
            params.count += 1;
        }
    }

    /// DEBUG_READ_ALL_SM_ERROR_STATES.
    pub(super) fn sm_states(
        &self,
        state: &State,
        client: u32,
        gpu: usize,
        params: &mut control::DebugSmErrorStates,
    ) -> Result {
        let chip = self.machine.config.chips[gpu];
        sm_states(chip, &state.errors(client), params).or_else(|what| {
            let invalid = status::NV_ERR_INVALID_ARGUMENT;
            self.machine.refuse(&STATES, invalid, what)
        })
    }

    /// DEBUG_CLEAR_ALL_SM_ERROR_STATES.
    pub(super) fn clear_sm_states(
        &self,
        state: &mut State,
        client: u32,
        params: &query::ClearSmErrorStates,
    ) {
        let target = params.h_target_channel;
        for (handle, _) in state.errors(client) {
            let channel = state.channel_mut(client, handle);
            let error = channel.and_then(|channel| channel.error.as_mut());
            if let Some(error) = error.filter(|_| target == 0 || handle == target) {
                error.exception = None;
            }
        }
    }

    /// RESET_CHANNEL: the channel dies as if of an error.
    pub(super) fn reset_channel(
        &self,
        state: &mut State,
        client: u32,
        channel: u32,
        params: &control::ResetChannel,
    ) -> Result {
        if params.reset_reason >= REASONS {
            let what = format!("reason {}", params.reset_reason);
            let invalid = status::NV_ERR_INVALID_PARAMETER;
            return self.machine.refuse(&RESET, invalid, what);
        }
        let error = Error {
            xid: xid::RESET,
            what: format!("channel {channel:#x}: reset by its client"),
            fault: None,
            exception: None,
        };
        state.recover(self.machine, client, channel, &error);
        Ok(())
    }
}
