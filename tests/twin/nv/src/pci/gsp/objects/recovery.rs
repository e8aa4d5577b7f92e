//! A channel dies: firmware writes its error notifier and those of its group, and tells the host.
//!
//! Source: OGKM, kernel_gsp.c, _kgspRpcRCTriggered: without confidential computing firmware has written the notifiers; _kgspRpcOsErrorLog;
//! kernel_rc_notification.c, krcErrorSetNotifier; gp100/dev_fault.h, NV_PFAULT_FAULT_TYPE; the line of a fault: kern_gmmu_gv100.c,
//! kgmmuPrintFaultInfo_GV100; kern_gmmu_gp100.c, kgmmuGetFaultTypeString_GP100; kernel_fifo_gv100.c,
//! kfifoGetFaultAccessTypeString_GV100. That firmware's own line has their words is seen in logs of Xid 31 alone.

use drivers_spec::nv::abi::Struct;
use drivers_spec::nv::class;
use drivers_spec::nv::gsp::{OsErrorLog, RcTriggered, event};
use drivers_spec::nv::push::Notification;
use zerocopy::IntoBytes;

use super::{Channel, Objects};
use crate::engines::Error;
use crate::engines::bus::Fault;
use crate::pci::mmu::table::Cause;
use crate::pci::runner::{Died, Key};
use crate::pci::state::State;
use crate::space::Access;

/// `RC_NOTIFIER_SCOPE_TSG`.
const GROUP: u32 = 1;

/// A channel has died: what the host is told.
pub(in crate::pci::gsp) fn died(
    objects: &mut Objects,
    state: &mut State,
    branch: drivers_spec::nv::abi::Branch,
    died: &Died,
) -> Vec<(u32, Vec<u8>)> {
    let Some(dead) = objects.channels().find(|one| one.key() == died.key) else {
        return Vec::new();
    };
    let (client, group, engine) = (dead.made.client, dead.made.group, dead.made.engine);
    let is_mate = |one: &Channel| {
        let same = group.is_some() && one.made.group == group && one.made.client == client;
        !one.is_dead && (one.key() == died.key || same)
    };
    let physical = state.physical();
    let time = state.time();
    let mut with: Vec<Key> = Vec::new();
    for one in objects.channels_mut() {
        if !is_mate(one) {
            continue;
        }
        one.is_dead = true;
        one.made.error = Some(died.error.clone());
        with.push(one.key());
        let Some(place) = one.notifier else {
            continue;
        };
        let notification = Notification {
            nanoseconds: [time as u32, (time >> 32) as u32],
            info32: died.error.xid,
            info16: engine as u16,
            status: 0xffff,
        };
        // The status is there last.
        let (rest, status) = notification.as_bytes().split_at(14);
        let who = "GSP, an error notifier";
        let _ = physical.write(place, rest, who) && physical.write(place.plus(14), status, who);
    }
    state.journal.event(died.error.to_string());
    for key in with {
        state.runner.kill(key, &died.error);
    }
    told(died, engine, branch)
}

/// The line of a fault of the MMU.
fn line(chid: u32, engine: u32, fault: &Fault, cause: Option<Cause>) -> String {
    let access = match fault.access {
        Access::Read => "READ",
        Access::Write => "WRITE",
        Access::Atomic => "ATOMIC",
    };
    let cause = match cause {
        Some(Cause::Pde) | None => "FAULT_PDE",
        Some(Cause::PdeSize) => "FAULT_PDE_SIZE",
        Some(Cause::Pte) => "FAULT_PTE",
        Some(Cause::VaLimit) => "FAULT_VA_LIMIT_VIOLATION",
        Some(Cause::Privilege) => "FAULT_PRIV_VIOLATION",
        Some(Cause::ReadOnly) => "FAULT_RO_VIOLATION",
        Some(Cause::Aperture) => "FAULT_UNSUPPORTED_APERTURE",
        Some(Cause::Kind) => "FAULT_INFO_TYPE_UNSUPPORTED_KIND",
        Some(Cause::Region) => "FAULT_INFO_TYPE_REGION_VIOLATION",
        Some(Cause::Atomic) => "FAULT_INFO_TYPE_ATOMIC_VIOLATION",
    };
    let engine = match engine {
        class::engine::GRAPHICS => "GRAPHICS GPCCLIENT_T1_0".to_owned(),
        copy => {
            let number = copy.saturating_sub(class::engine::COPY0);
            format!("CE{number} HUBCLIENT_CE{number}")
        }
    };
    let (high, low) = (fault.va >> 32, fault.va as u32);
    format!(
        "Ch {chid:08x}, intr 00000000. MMU Fault: ENGINE {engine} faulted @ {high:#x}_{low:08x}. Fault is of type {cause} \
         ACCESS_TYPE_VIRT_{access}"
    )
}

/// What the host is told.
fn told(died: &Died, engine: u32, branch: drivers_spec::nv::abi::Branch) -> Vec<(u32, Vec<u8>)> {
    let (runlist, chid) = died.key;
    let Error {
        xid, what, fault, ..
    } = &died.error;
    let line = fault.map(|fault| line(died.key.1, engine, &fault, died.cause));
    let what = line.as_ref().unwrap_or(what);
    let mut text = [0; 256];
    let bytes = what.len().min(text.len() - 1);
    text[..bytes].copy_from_slice(&what.as_bytes()[..bytes]);
    let log = OsErrorLog {
        except_type: *xid,
        runlist_id: runlist,
        chid,
        err_string: text,
        preemptive_removal_previous_xid: 0,
    };
    let va = fault.map_or(0, |fault| fault.va);
    let triggered = RcTriggered {
        nv2080_engine_type: engine,
        chid,
        except_type: *xid,
        scope: GROUP,
        mmu_fault_addr_lo: va as u32,
        mmu_fault_addr_hi: (va >> 32) as u32,
        mmu_fault_type: died.cause.map_or(0, |cause| cause as u32),
        ..Default::default()
    };
    vec![
        (event::OS_ERROR_LOG, log.encode(branch)),
        (event::RC_TRIGGERED, triggered.encode(branch)),
    ]
}
