//! Events: what makes them happen, and which files tell of them.
//!
//! Engines' interrupts that do not stall, and channels that die. Of a channel that dies only subdevices
//! notify: a notifier that is plain memory has no events.
//!
//! Source: open-gpu-kernel-modules 580.142, src/nvidia/src/kernel/rmapi/{event,event_notification}.c;
//! arch/nvalloc/unix/src/{osapi,os}.c; gpu/subdevice/subdevice_ctrl_event_kernel.c; gpu/gpu_rmapi.c,
//! gpuNotifySubDeviceEvent; gpu/intr/intr.c, bDefaultNonstallNotify; gpu/rc/kernel_rc_notification.c.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use drivers_spec::nv::class::notify;
use drivers_spec::nv::{class, control, escape, status};
use twin::rule::{Proof, Rule};

use crate::engines::Notice;
use crate::errno::{Failure, Result};
use crate::kernel::{Happened, Machine, Wake};

use super::alloc::{New, is_channel, is_engine};
use super::{Call, Kind, State};

static FILE: Rule = Rule {
    name: "RM-OS-EVENT",
    text: "a descriptor becomes an event of a client once (ALLOC_OS_EVENT), before an object uses it, and is freed once",
    source: "open-gpu-kernel-modules, osapi.c, allocate_os_event, free_os_event; os.c, osUserHandleToKernelPtr",
    proof: Proof::Sourced,
};

static SOURCE: Rule = Rule {
    name: "RM-EVENT",
    text: "an event has class NV01_EVENT_OS_EVENT and an object that can notify: a subdevice, a channel, an engine \
           object, a debugger",
    source: "open-gpu-kernel-modules, event.c, eventConstruct, eventInit: NV_ERR_INVALID_OBJECT",
    proof: Proof::Sourced,
};

static NONSTALL: Rule = Rule {
    name: "RM-EVENT-NONSTALL",
    text: "an event of non-stalling interrupts belongs to a subdevice, and to an engine that has such interrupts",
    source: "open-gpu-kernel-modules, event_notification.c, registerEventNotification, eventGetEngineTypeFromSubNotifyIndex",
    proof: Proof::Sourced,
};

static NOTIFY: Rule = Rule {
    name: "RM-EVENT-NOTIFY",
    text: "a notification of an event that the subdevice has is enabled once until it is disabled",
    source: "open-gpu-kernel-modules, subdevice_ctrl_event_kernel.c, subdeviceCtrlCmdEventSetNotification",
    proof: Proof::Sourced,
};

/// `NV01_EVENT_OS_EVENT`, cl0005.h: what the parameters of an event say. The number is no class of a table.
const OS_EVENT: u32 = class::NV01_EVENT_OS_EVENT.number;

/// `NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_*`, ctrl2080event.h.
const DISABLE: u32 = 0;
/// See [`DISABLE`].
const SINGLE: u32 = 1;
/// See [`DISABLE`].
const REPEAT: u32 = 2;

/// A descriptor that is an event.
struct OsEvent {
    file: u64,
    wake: Arc<Wake>,
    /// Whether it still is one: events that were made with it stay, and wake up nobody.
    active: AtomicBool,
}

impl OsEvent {
    fn end(&self) {
        self.active.store(false, Ordering::Release);
    }
}

/// An event of an object.
pub(crate) struct Event {
    /// Client and handle of what tells of it.
    source: (u32, u32),
    /// What it is of, with flags.
    index: u32,
    os: Arc<OsEvent>,
}

impl Event {
    /// Whether it is of that, by an interrupt that does not stall.
    fn nonstall(&self, index: u32) -> bool {
        self.index & (notify::INDEX | notify::NONSTALL_INTR) == index | notify::NONSTALL_INTR
    }

    /// It happens.
    fn post(&self, machine: &Machine, event: u32, info: (u32, u16)) {
        if !self.os.active.load(Ordering::Acquire) || machine.loses_event() {
            return;
        }
        let index = self.index & notify::INDEX;
        let data = Happened { event, index, info };
        let with = self.index & notify::WITHOUT_EVENT_DATA == 0;
        self.os.wake.post(with.then_some(data));
    }
}

/// Descriptors that are events, and what subdevices notify of.
#[derive(Default)]
pub(crate) struct Events {
    /// By client and descriptor.
    files: BTreeMap<(u32, u32), Arc<OsEvent>>,
    /// By client, subdevice and event.
    actions: BTreeMap<(u32, u32, u32), u32>,
}

impl Events {
    /// A file is closed.
    pub(super) fn forget_file(&mut self, file: u64) {
        self.files.retain(|_, one| {
            if one.file == file {
                one.end();
            }
            one.file != file
        });
    }

    /// An object is freed.
    pub(super) fn forget(&mut self, client: u32, handle: u32) {
        self.actions
            .retain(|one, _| (one.0, one.1) != (client, handle));
    }
}

impl State {
    /// Events that fit, with their handles.
    fn events(
        &self,
        gpu: usize,
        fits: impl Fn(&Event) -> bool,
    ) -> impl Iterator<Item = (u32, &Event)> {
        let objects = self.clients.values().flat_map(|client| &client.objects);
        objects.filter_map(move |(&handle, object)| match &object.kind {
            Kind::Event(event) if object.gpu == Some(gpu) && fits(event) => Some((handle, event)),
            _ => None,
        })
    }

    /// An interrupt of a channel that does not stall: who waits for one of its engine, and who waits for one
    /// of the host, which counts for all that it drives. One of the host itself is that of the runlist.
    pub(crate) fn interrupt(&self, machine: &Machine, gpu: usize, engine: u32, notice: Notice) {
        let copy = engine.checked_sub(class::engine::COPY0);
        let index = match (notice, copy) {
            (Notice::Host | Notice::Copy, Some(copy)) => notify::CE0 + copy,
            // Copies of channels of graphics are those of the first engine.
            (Notice::Copy, None) => notify::CE0,
            (Notice::Host | Notice::Compute, _) => notify::GRAPHICS,
        };
        for index in [index, notify::FIFO_EVENT_MTHD] {
            for (handle, event) in self.events(gpu, |event| event.nonstall(index)) {
                event.post(machine, handle, (0, 0));
            }
        }
    }

    /// EVENT_SET_TRIGGER_FIFO: a client lets an event of the host's interrupts happen, or all of them. RM
    /// compares handles, not clients (engineNonStallIntrNotifyEvent).
    pub(super) fn trigger(&self, machine: &Machine, gpu: usize, event: u32) {
        for (handle, one) in self.events(gpu, |one| one.nonstall(notify::FIFO_EVENT_MTHD)) {
            if event == 0 || event == handle {
                one.post(machine, handle, (0, 0));
            }
        }
    }

    /// Something happens to a GPU that subdevices notify of.
    pub(crate) fn notify_subdevices(
        &mut self,
        machine: &Machine,
        gpu: usize,
        index: u32,
        info: (u32, u16),
    ) {
        let told = self.events.actions.iter();
        let told: Vec<(u32, u32)> = told
            .filter(|((_, _, event), action)| *event == index && **action != DISABLE)
            .map(|(&(client, subdevice, _), _)| (client, subdevice))
            .filter(|&(client, handle)| {
                let subdevice = self.object(client, handle);
                subdevice.is_some_and(|subdevice| subdevice.gpu == Some(gpu))
            })
            .collect();
        for source in told {
            let of_it =
                |event: &Event| event.source == source && event.index & notify::INDEX == index;
            for (handle, event) in self.events(gpu, of_it) {
                event.post(machine, handle, info);
            }
            let action = self.events.actions.get_mut(&(source.0, source.1, index));
            if let Some(action) = action.filter(|action| **action == SINGLE) {
                *action = DISABLE;
            }
        }
    }
}

impl Call<'_> {
    /// GET_EVENT_DATA.
    pub(crate) fn event_data(&self, args: &mut escape::GetEventData) -> Result {
        let Some((data, more)) = self.wake.take() else {
            // What a client does to see that there is none.
            return Err(Failure::Status(status::NV_ERR_OPERATING_SYSTEM));
        };
        args.more_events = more.into();
        let event = escape::UnixEvent {
            h_object: data.event,
            notify_index: data.index,
            info32: data.info.0,
            info16: data.info.1,
            ..Default::default()
        };
        self.process.put(args.p_event, &event)
    }

    /// ALLOC_OS_EVENT.
    pub(crate) fn alloc_os_event(&self, args: &escape::AllocOsEvent) -> Result {
        let mut state = self.machine.state();
        let key = (args.h_client, args.fd);
        if state.events.files.contains_key(&key) {
            let what = format!("descriptor {} is an event of {:#x}", args.fd, args.h_client);
            let none_left = status::NV_ERR_INSUFFICIENT_RESOURCES;
            return self.machine.refuse(&FILE, none_left, what);
        }
        let event = OsEvent {
            file: self.file,
            wake: self.wake.clone(),
            active: AtomicBool::new(true),
        };
        state.events.files.insert(key, Arc::new(event));
        Ok(())
    }

    /// FREE_OS_EVENT.
    pub(crate) fn free_os_event(&self, args: &escape::FreeOsEvent) -> Result {
        let mut state = self.machine.state();
        match state.events.files.remove(&(args.h_client, args.fd)) {
            Some(event) => {
                event.end();
                Ok(())
            }
            None => {
                let what = format!("descriptor {} is no event", args.fd);
                let invalid = status::NV_ERR_INVALID_EVENT;
                self.machine.refuse(&FILE, invalid, what)
            }
        }
    }

    /// NV01_EVENT and NV01_EVENT_OS_EVENT: RM takes the parent for the source, whatever hSrcResource says,
    /// and looks at hClass where the class does not say it (rmapi_specific.c, rmapiFixupAllocParams).
    pub(super) fn new_event(&self, state: &State, new: &New) -> Result<Event> {
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
        let (index, flags) = (params.notify_index & notify::INDEX, params.notify_index);
        if flags & notify::NONSTALL_INTR != 0 {
            let subdevice = source.is_some_and(|s| s.class == class::NV20_SUBDEVICE_0.number);
            let what = format!("index {index} of {:#x}", new.parent);
            let status = match notify::of_engine(self.machine.branch(), index) {
                _ if !subdevice => status::NV_ERR_INVALID_ARGUMENT,
                false => status::NV_ERR_NOT_SUPPORTED,
                true => status::NV_OK,
            };
            if status != status::NV_OK {
                return self.machine.refuse(&NONSTALL, status, what);
            }
        }
        let key = (new.client, params.data as u32);
        match state.events.files.get(&key) {
            Some(os) => Ok(Event {
                source: (client, new.parent),
                index: params.notify_index,
                os: os.clone(),
            }),
            None => {
                let what = format!("descriptor {} is no event", params.data);
                let missing = status::NV_ERR_OBJECT_NOT_FOUND;
                self.machine.refuse(&FILE, missing, what)
            }
        }
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
            |object| matches!(&object.kind, Kind::Event(event) if event.source == (client, subdevice)),
        );
        if sources.is_empty() {
            let invalid = status::NV_ERR_INVALID_STATE;
            return refuse(invalid, format!("subdevice {subdevice:#x} has no event"));
        }
        let known = params.event < notify::count(self.machine.branch());
        if !known || params.event == notify::TIMER || params.action > REPEAT {
            let what = format!("event {}, action {}", params.event, params.action);
            return refuse(status::NV_ERR_INVALID_ARGUMENT, what);
        }
        let key = (client, subdevice, params.event);
        let before = state.events.actions.get(&key).copied().unwrap_or_default();
        if params.action != DISABLE && before != DISABLE {
            let what = format!("event {} is notified of", params.event);
            return refuse(status::NV_ERR_INVALID_STATE, what);
        }
        state.events.actions.insert(key, params.action);
        Ok(())
    }
}
