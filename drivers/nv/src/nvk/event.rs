//! Events for sleeping threads: a file of the GPU that becomes readable when a channel interrupts, when one dies, and
//! when the host signals it.
//!
//! Interrupts come from the host engine for all its engines: a woken thread checks whether its own condition holds.
//! `poll` consumes the event, so it wakes one thread only: of those that sleep on an event one polls, and wakes the
//! others.
//!
//! Source: open-gpu-kernel-modules, src/nvidia/src/kernel/rmapi/event_notification.c,
//! `registerEventNotification`, `engineNonStallIntrNotifyEvent`; gpu/subdevice/
//! subdevice_ctrl_event_kernel.c; arch/nvalloc/unix/src/osapi.c, `allocate_os_event`; kernel-open/nvidia/nv.c,
//! `nvidia_poll`.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use drivers_gpu::backend::Age;
use drivers_spec::nv::class::notify;
use drivers_spec::nv::ioctl::Argument;
use drivers_spec::nv::{class, control, escape};
use hcq::sync::{lock, unpoisoned};
use hcq::transport::{DevFile, Machine, TransportError};

use super::base::open_file;
use super::call::call;
use super::gpu::Gpu;
use super::ioctls::number;
use super::survey::Unusable;
use crate::rm::client::Object;
use crate::rm::transport::{Result, again};

/// Of every engine that the host drives; nothing is queued for GET_EVENT_DATA.
const INTERRUPT: u32 = notify::FIFO_EVENT_MTHD | notify::NONSTALL_INTR | notify::WITHOUT_EVENT_DATA;

/// The same for failed channels.
const DEATH: u32 = notify::RC_ERROR | notify::WITHOUT_EVENT_DATA;

/// `NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_REPEAT`, ctrl2080event.h.
const REPEAT: u32 = 2;

/// An event of the process; its parts are freed from the top.
pub(super) struct Event {
    interrupt: Object,
    /// None where the driver does not allow it: who sleeps finds a dead channel at the end of his slice.
    _death: Option<Object>,
    os: OsEvent,
    sleepers: Mutex<Sleepers>,
    told: Condvar,
}

/// Who sleeps.
struct Sleepers {
    /// The number of occurrences seen so far; [`Age::NEW`] at first.
    age: u64,
    /// A thread polls, for all of them.
    polling: bool,
}

/// A file that is an event of a client.
struct OsEvent {
    file: Arc<dyn DevFile>,
    gpu: Arc<Gpu>,
    fd: u32,
}

impl Event {
    /// A new event.
    ///
    /// # Errors
    /// [`Unusable`]; nothing is left behind then.
    pub(super) fn new(
        machine: &dyn Machine,
        gpu: &Arc<Gpu>,
    ) -> std::result::Result<Event, Unusable> {
        let files = &gpu.session.files;
        let file = open_file(machine, files, &gpu.path)?;
        let fd = number(&*file)? as u32;
        let args = escape::AllocOsEvent {
            h_client: gpu.session.rm.handle(),
            h_device: gpu.rm.device.handle(),
            fd,
            ..Default::default()
        };
        let what = escape::ALLOC_OS_EVENT;
        call::<escape::AllocOsEvent>(&*file, files.branch, what.name, || {
            Argument::escape(&what, files.branch, &args)
        })?;
        let os = OsEvent {
            file,
            gpu: gpu.clone(),
            fd,
        };
        let interrupt = os.object(INTERRUPT)?;
        let death = os.death().map_err(|error| {
            tracing::debug!(%error, "no event for channel errors: waiting threads are not woken");
        });
        Ok(Event {
            interrupt,
            _death: death.ok(),
            os,
            sleepers: Mutex::new(Sleepers {
                age: Age::NEW.0,
                polling: false,
            }),
            told: Condvar::new(),
        })
    }

    /// Sleeps until there are more occurrences than `age`, or `limit` is over. May return early.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn wait(
        &self,
        age: &mut Age,
        limit: Duration,
    ) -> std::result::Result<(), TransportError> {
        let mut sleepers = lock(&self.sleepers);
        if sleepers.age > age.0 {
            age.0 = sleepers.age;
            return Ok(());
        }
        if sleepers.polling {
            // Until the polling thread is notified or times out: then the next sleeper polls.
            let waited = self.told.wait_timeout(sleepers, limit);
            let (sleepers, _) = unpoisoned(waited);
            age.0 = sleepers.age;
            return Ok(());
        }
        sleepers.polling = true;
        drop(sleepers);
        let happened = self.os.file.poll(limit);
        let mut sleepers = lock(&self.sleepers);
        sleepers.polling = false;
        sleepers.age += u64::from(matches!(happened, Ok(true)));
        age.0 = sleepers.age;
        drop(sleepers);
        self.told.notify_all();
        happened.map(drop)
    }

    /// Triggers it.
    ///
    /// # Errors
    /// [`super::CallError`]: sleepers poll at the end of their slice.
    pub(super) fn wake(&self) -> Result {
        let gpu = &self.os.gpu;
        let mut params = control::EventSetTriggerFifo {
            h_event: self.interrupt.handle(),
        };
        let ask = control::NV2080_CTRL_CMD_EVENT_SET_TRIGGER_FIFO;
        gpu.rm.subdevice.control(&ask, &mut params)
    }
}

impl OsEvent {
    /// An event of the subdevice that makes the file readable.
    fn object(&self, notify_index: u32) -> Result<Object> {
        let subdevice = &self.gpu.rm.subdevice;
        let params = class::EventAlloc {
            h_parent_client: self.gpu.session.rm.handle(),
            h_src_resource: subdevice.handle(),
            h_class: class::NV01_EVENT_OS_EVENT.number,
            notify_index,
            data: u64::from(self.fd),
        };
        subdevice.alloc(&class::NV01_EVENT_OS_EVENT, &params)
    }

    /// The event of failed channels. Its notification is enabled on the subdevice once, and only for an event
    /// that it has.
    fn death(&self) -> Result<Object> {
        let object = self.object(DEATH)?;
        let gpu = &self.gpu;
        let mut told = lock(&gpu.tells_deaths);
        if !*told {
            let mut params = control::EventSetNotification {
                event: notify::RC_ERROR,
                action: REPEAT,
                ..Default::default()
            };
            let ask = control::NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION;
            gpu.rm.subdevice.control(&ask, &mut params)?;
            *told = true;
        }
        Ok(object)
    }
}

impl Drop for OsEvent {
    fn drop(&mut self) {
        let branch = self.gpu.session.files.branch;
        let args = escape::FreeOsEvent {
            h_client: self.gpu.session.rm.handle(),
            h_device: self.gpu.rm.device.handle(),
            fd: self.fd,
            ..Default::default()
        };
        let what = escape::FREE_OS_EVENT;
        again("an event of RM", || {
            let freed = call::<escape::FreeOsEvent>(&*self.file, branch, what.name, || {
                Argument::escape(&what, branch, &args)
            });
            freed.map(drop)
        });
    }
}
