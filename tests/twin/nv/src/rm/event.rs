//! Events: what a file tells that `poll` waits for. Who makes them happen is not modelled yet.
//!
//! Source: open-gpu-kernel-modules 580.142, src/nvidia/src/kernel/rmapi/event.c; arch/nvalloc/unix/src/
//! osapi.c, allocate_os_event, free_os_event; gpu/subdevice/subdevice_ctrl_event_kernel.c.

use std::collections::BTreeMap;

use drivers_spec::nv::{class, control, escape, status};
use twin::rule::{Proof, Rule};

use crate::errno::Result;

use super::alloc::{New, is_channel, is_engine};
use super::{Call, Kind, State};

static FILE: Rule = Rule {
    name: "RM-OS-EVENT",
    text: "a descriptor becomes an event of a client once (ALLOC_OS_EVENT), before an object of it is made, and is freed once",
    source: "open-gpu-kernel-modules, osapi.c, allocate_os_event, free_os_event; os.c, osUserHandleToKernelPtr",
    proof: Proof::Sourced,
};

static SOURCE: Rule = Rule {
    name: "RM-EVENT",
    text: "an event is of class NV01_EVENT_OS_EVENT, and of an object that notifies: a subdevice, a channel, an object of an engine, a debugger",
    source: "open-gpu-kernel-modules, event.c, eventConstruct, eventInit: NV_ERR_INVALID_OBJECT",
    proof: Proof::Sourced,
};

static NOTIFY: Rule = Rule {
    name: "RM-EVENT-NOTIFY",
    text: "a subdevice is told to notify of an event that it has, once until it is told to stop",
    source: "open-gpu-kernel-modules, subdevice_ctrl_event_kernel.c, subdeviceCtrlCmdEventSetNotification",
    proof: Proof::Sourced,
};

/// `NV01_EVENT_OS_EVENT`, cl0005.h: what the parameters of an event say. The number is no class of a table.
const OS_EVENT: u32 = class::NV01_EVENT_OS_EVENT.number;

/// `NV2080_NOTIFIERS_MAXCOUNT` of every branch is above this.
const NOTIFIERS: u32 = 128;

/// Descriptors that are events, and what subdevices notify of.
#[derive(Default)]
pub(crate) struct Events {
    /// By client and descriptor.
    files: BTreeMap<(u32, u32), u64>,
    /// By client, subdevice and event.
    actions: BTreeMap<(u32, u32, u32), u32>,
}

impl Events {
    /// A file is closed.
    pub(super) fn forget_file(&mut self, file: u64) {
        self.files.retain(|_, one| *one != file);
    }

    /// An object is freed.
    pub(super) fn forget(&mut self, client: u32, handle: u32) {
        self.actions
            .retain(|one, _| (one.0, one.1) != (client, handle));
    }
}

impl Call<'_> {
    /// ALLOC_OS_EVENT.
    pub(crate) fn alloc_os_event(&self, args: &escape::AllocOsEvent) -> Result {
        let mut state = self.machine.state();
        let key = (args.h_client, args.fd);
        if state.events.files.contains_key(&key) {
            let what = format!("descriptor {} is an event of {:#x}", args.fd, args.h_client);
            let none_left = status::NV_ERR_INSUFFICIENT_RESOURCES;
            return self.machine.refuse(&FILE, none_left, what);
        }
        state.events.files.insert(key, self.file);
        Ok(())
    }

    /// FREE_OS_EVENT.
    pub(crate) fn free_os_event(&self, args: &escape::FreeOsEvent) -> Result {
        let mut state = self.machine.state();
        match state.events.files.remove(&(args.h_client, args.fd)) {
            Some(_) => Ok(()),
            None => {
                let what = format!("descriptor {} is no event", args.fd);
                let invalid = status::NV_ERR_INVALID_EVENT;
                self.machine.refuse(&FILE, invalid, what)
            }
        }
    }

    /// NV01_EVENT and NV01_EVENT_OS_EVENT: RM takes the parent for the source, whatever hSrcResource says,
    /// and looks at hClass where the class does not say it (rmapi_specific.c, rmapiFixupAllocParams).
    pub(super) fn new_event(&self, state: &State, new: &New) -> Result<(u32, u32)> {
        let params = self.required::<class::EventAlloc>(new)?;
        let class = match new.class == class::NV01_EVENT.number {
            true => params.h_class,
            false => new.class,
        };
        if class != OS_EVENT {
            let what = format!("class {class:#x}");
            let invalid = status::NV_ERR_INVALID_CLASS;
            return self.machine.refuse(&SOURCE, invalid, what);
        }
        let client = match params.h_parent_client {
            0 => new.client,
            client => client,
        };
        let source = state.object(client, new.parent);
        let notifies = source.is_some_and(|source| {
            let class = source.class;
            let debugger = class == class::GT200_DEBUGGER.number;
            let subdevice = class == class::NV20_SUBDEVICE_0.number;
            subdevice || debugger || is_channel(class) || is_engine(class)
        });
        if !notifies {
            let what = format!("below {:#x} of client {client:#x}", new.parent);
            let invalid = status::NV_ERR_INVALID_OBJECT;
            return self.machine.refuse(&SOURCE, invalid, what);
        }
        if state
            .events
            .files
            .contains_key(&(new.client, params.data as u32))
        {
            return Ok((client, new.parent));
        }
        let what = format!("descriptor {} is no event", params.data);
        let missing = status::NV_ERR_OBJECT_NOT_FOUND;
        self.machine.refuse(&FILE, missing, what)
    }

    /// EVENT_SET_NOTIFICATION.
    pub(super) fn notify(
        &self,
        state: &mut State,
        client: u32,
        subdevice: u32,
        params: &control::EventSetNotification,
    ) -> Result {
        let refuse = |status, what: String| self.machine.refuse(&NOTIFY, status, what);
        let sources = state.find(
            client,
            |object| matches!(object.kind, Kind::Event(from) if from == (client, subdevice)),
        );
        if sources.is_empty() {
            let invalid = status::NV_ERR_INVALID_STATE;
            return refuse(invalid, format!("subdevice {subdevice:#x} has no event"));
        }
        if params.event >= NOTIFIERS || params.action > 2 {
            let what = format!("event {}, action {}", params.event, params.action);
            return refuse(status::NV_ERR_INVALID_ARGUMENT, what);
        }
        let key = (client, subdevice, params.event);
        let before = state.events.actions.get(&key).copied().unwrap_or_default();
        if params.action != 0 && before != 0 {
            let what = format!("event {} is notified of", params.event);
            return refuse(status::NV_ERR_INVALID_STATE, what);
        }
        state.events.actions.insert(key, params.action);
        Ok(())
    }
}
