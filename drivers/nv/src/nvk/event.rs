//! What a thread sleeps on: a file of the GPU that becomes readable when a channel interrupts.
//!
//! An event tells of interrupts of the host, which every engine that it drives raises: whoever wakes up
//! looks whether it was for him.
//!
//! Source: open-gpu-kernel-modules, src/nvidia/src/kernel/rmapi/event_notification.c,
//! `registerEventNotification`; arch/nvalloc/unix/src/osapi.c, `allocate_os_event`.

use std::sync::Arc;
use std::time::Duration;

use drivers_spec::nv::class::notify;
use drivers_spec::nv::ioctl::Argument;
use drivers_spec::nv::{class, escape};
use hcq::transport::{DevFile, Machine, TransportError};

use super::call::{again, call};
use super::gpu::{Gpu, open_file};
use super::rm::{Object, number};
use super::survey::Unusable;

/// Of every engine that the host drives; nothing is queued for GET_EVENT_DATA.
const INTERRUPT: u32 = notify::FIFO_EVENT_MTHD | notify::NONSTALL_INTR | notify::WITHOUT_EVENT_DATA;

/// An event of the process; its parts are freed from the top.
pub(super) struct Event {
    _object: Object,
    os: OsEvent,
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
    pub(super) fn new(machine: &dyn Machine, gpu: &Arc<Gpu>) -> Result<Event, Unusable> {
        let rm = &gpu.session.rm;
        let file = open_file(machine, rm, &gpu.path)?;
        let fd = number(&*file)? as u32;
        let args = escape::AllocOsEvent {
            h_client: rm.client,
            h_device: gpu.device.handle(),
            fd,
            ..Default::default()
        };
        let what = escape::ALLOC_OS_EVENT;
        call::<escape::AllocOsEvent>(&*file, rm.branch, what.name, || {
            Argument::escape(&what, rm.branch, &args)
        })?;
        let os = OsEvent {
            file,
            gpu: gpu.clone(),
            fd,
        };
        let subdevice = gpu.subdevice.handle();
        let params = class::EventAlloc {
            h_parent_client: rm.client,
            h_src_resource: subdevice,
            h_class: class::NV01_EVENT_OS_EVENT.number,
            notify_index: INTERRUPT,
            data: u64::from(fd),
        };
        let object = rm.alloc(&class::NV01_EVENT_OS_EVENT, subdevice, &params)?;
        Ok(Event {
            _object: object,
            os,
        })
    }

    /// Sleeps until it happens, or `limit` is over.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn wait(&self, limit: Duration) -> Result<(), TransportError> {
        self.os.file.poll(limit).map(drop)
    }
}

impl Drop for OsEvent {
    fn drop(&mut self) {
        let rm = &self.gpu.session.rm;
        let args = escape::FreeOsEvent {
            h_client: rm.client,
            h_device: self.gpu.device.handle(),
            fd: self.fd,
            ..Default::default()
        };
        let what = escape::FREE_OS_EVENT;
        again("an event of RM", || {
            let freed = call::<escape::FreeOsEvent>(&*self.file, rm.branch, what.name, || {
                Argument::escape(&what, rm.branch, &args)
            });
            freed.map(drop)
        });
    }
}
