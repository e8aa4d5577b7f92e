//! Events of KFD, for sleeping host threads and fault reports.
//!
//! The kernel takes an event page once, and does not give it back before the process ends: it is kept
//! with the machine.
//!
//! Source: Linux, amdkfd/kfd_events.c, `kfd_event_page_set`; amdkfd/kfd_chardev.c,
//! `kfd_ioctl_free_memory_of_gpu` (EPERM).

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_gpu::backend::shared::Shareable as _;
use drivers_gpu::backend::{Age, Cause, Exception, MemoryFault, Reset};
use drivers_gpu::kernel::calls::again;
use drivers_gpu::kernel::{Heap, HeapRequest};
use drivers_spec::amd::kfd::{
    self, CreateEventArgs, DestroyEventArgs, EventData, HsaHwExceptionData, HsaMemoryExceptionData,
    SIGNAL_EVENT_LIMIT, SetEventArgs, WaitEventsArgs, event_type, exception, wait_result,
};
use hcq::GpuVa;
use hcq::mem::view::View;
use hcq::sync::lock;
use hcq::transport::errno::{EINTR, ENOMEM};
use hcq::transport::{Fault, Machine, Reserved, TransportError};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::call::Call;
use super::memory::{Memory, MemoryError, map_handle};
use super::process::{Gpu, Process};

/// The interface version that counts signals of an event, so that none is missed
/// between a check and a wait.
const AGES: (u32, u32) = (1, 14);

/// Bytes of a slot of the event page.
const SLOT: u64 = 8;

/// The event page of the process, once there is one: slots to which GPUs write the ids of events.
#[derive(Default)]
struct Pages(Mutex<Option<Page>>);

struct Page {
    handle: u64,
    va: u64,
    /// `gpu_id` of the GPUs that have it mapped.
    mapped: Vec<u32>,
    /// Its addresses, which stay taken as long as the process has them.
    _addresses: (Option<Reserved>, Option<View>),
}

impl Pages {
    /// Creates an event for a GPU. The first one brings the event page. Returns its address.
    ///
    /// # Errors
    /// [`MemoryError`], without effect.
    fn create(
        machine: &dyn Machine,
        process: &Arc<Process>,
        gpu: &Arc<Gpu>,
        args: &mut CreateEventArgs,
    ) -> Result<u64, MemoryError> {
        let Ok(pages) = machine
            .per_process()
            .get_or_make(|| Ok::<_, Infallible>(Pages::default()));
        // Set in one step, after everything that can fail.
        let mut page = lock(&pages.0);
        if let Some(page) = &mut *page {
            if !page.mapped.contains(&gpu.id) {
                let (done, is_mapped) = map_handle(&*process.kfd, page.handle, gpu.id);
                page.mapped.extend(is_mapped.then_some(gpu.id));
                done?;
            }
            process.kfd.call(kfd::CREATE_EVENT, args)?;
            return Ok(page.va);
        }
        let wanted = HeapRequest {
            bytes: u64::from(SIGNAL_EVENT_LIMIT) * SLOT,
            align: 4096,
            heap: Heap::System,
            what: "the event page",
        };
        let memory = Memory::new(machine, process, gpu, &wanted)?;
        args.event_page_offset = memory.handle();
        process.kfd.call(kfd::CREATE_EVENT, args)?;
        let made = page.insert(Page {
            handle: memory.handle(),
            va: memory.va(),
            mapped: vec![gpu.id],
            _addresses: memory.keep(),
        });
        Ok(made.va)
    }
}

/// An event of the process; destroyed on drop.
pub(super) struct Event {
    process: Arc<Process>,
    id: u32,
    slot: GpuVa,
}

impl Event {
    /// A new event of a type of [`event_type`].
    ///
    /// # Errors
    /// [`MemoryError`].
    pub(super) fn new(
        machine: &dyn Machine,
        process: &Arc<Process>,
        gpu: &Arc<Gpu>,
        kind: u32,
    ) -> Result<Event, MemoryError> {
        let mut args = CreateEventArgs {
            event_type: kind,
            auto_reset: 1,
            ..CreateEventArgs::default()
        };
        let page = Pages::create(machine, process, gpu, &mut args)?;
        Ok(Event {
            process: process.clone(),
            id: args.event_id,
            slot: GpuVa(page + u64::from(args.event_slot_index) * SLOT),
        })
    }

    /// Its id, which packets write and send.
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Where packets write it.
    pub(super) fn slot(&self) -> GpuVa {
        self.slot
    }
}

/// Signals an event from the host: who sleeps on it looks again.
pub(super) fn set(process: &Process, id: u32) {
    let mut args = SetEventArgs {
        event_id: id,
        pad: 0,
    };
    // Without it the sleepers look at the end of their slice.
    if let Err(error) = process.kfd.call(kfd::SET_EVENT, &mut args) {
        tracing::debug!(%error, "could not wake waiting threads");
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let mut args = DestroyEventArgs {
            event_id: self.id,
            pad: 0,
        };
        let call = || self.process.kfd.call(kfd::DESTROY_EVENT, &mut args);
        if let Err(error) = again(call) {
            tracing::warn!(%error, id = self.id, "could not destroy an event");
        }
    }
}

/// The events that tell why a GPU has stopped.
pub(super) struct Watch {
    process: Arc<Process>,
    gpu_id: u32,
    memory: Event,
    hardware: Event,
}

impl Watch {
    /// Watches a GPU.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub(super) fn new(
        machine: &dyn Machine,
        process: &Arc<Process>,
        gpu: &Arc<Gpu>,
    ) -> Result<Watch, MemoryError> {
        let event = |kind| Event::new(machine, process, gpu, kind);
        Ok(Watch {
            process: process.clone(),
            gpu_id: gpu.id,
            memory: event(event_type::MEMORY)?,
            hardware: event(event_type::HW_EXCEPTION)?,
        })
    }

    /// Sleeps until the event with an id is signalled, the GPU has stopped, or `limit` is over. Returns
    /// exceptions only.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn wait(
        &self,
        event: Option<u32>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>, TransportError> {
        // The kernel overwrites the age with the event's data: zero means none.
        let mut data = [EventData::new_zeroed(); 3];
        data[0].event_id = self.memory.id;
        data[1].event_id = self.hardware.id;
        let ages = self.process.version >= AGES;
        let mut count = 2;
        if let Some(event) = event {
            data[2].event_id = event;
            if ages {
                let told = &mut data[2].memory_exception_data;
                told.as_mut_bytes()[..8].copy_from_slice(&age.0.to_ne_bytes());
            }
            count = 3;
        }
        let ms = limit.as_nanos().div_ceil(1_000_000);
        let mut args = WaitEventsArgs {
            wait_for_all: 0,
            // All ones is for ever.
            timeout: u32::try_from(ms).unwrap_or(u32::MAX).min(u32::MAX - 1),
            ..WaitEventsArgs::default()
        };
        let memory = &mut [data[..count].as_mut_bytes()];
        let kfd = &self.process.kfd;
        match kfd.call_with(kfd::WAIT_EVENTS, &mut args, memory) {
            // A Unix signal: the caller checks the time.
            Err(error) if error.fault == Fault::Errno(EINTR) => return Ok(None),
            // Short of memory for the wait itself: looking does without.
            Err(error) if error.fault == Fault::Errno(ENOMEM) => {
                std::thread::sleep(limit.min(Duration::from_millis(1)));
                return Ok(None);
            }
            done => done?,
        }
        if args.wait_result != wait_result::COMPLETE {
            return Ok(None);
        }
        if ages && let Ok((seen, _)) = u64::read_from_prefix(data[2].as_bytes()) {
            age.0 = seen;
        }
        // Every process-wide event hears of every GPU.
        let memory = data[0].memory_exception_data;
        if memory.gpu_id == self.gpu_id {
            return Ok(Some(of_memory(&memory)));
        }
        let hardware = HsaHwExceptionData::read_from_prefix(data[1].as_bytes());
        if let Ok((hardware, _)) = hardware
            && hardware.gpu_id == self.gpu_id
        {
            return Ok(Some(of_hardware(&hardware)));
        }
        Ok(None)
    }
}

fn of_memory(data: &HsaMemoryExceptionData) -> Exception {
    let failure = &data.failure;
    Exception::Memory(MemoryFault {
        va: data.va,
        cause: match data.error_type {
            exception::SRAM_ECC => Cause::Ecc,
            exception::POISON_CONSUMED => Cause::Poison,
            exception::MEM_GPU_HANG => Cause::Hang,
            _ => Cause::PageFault,
        },
        access: None,
        not_present: failure.not_present != 0,
        read_only: failure.read_only != 0,
        no_execute: failure.no_execute != 0,
        imprecise: failure.imprecise != 0,
    })
}

fn of_hardware(data: &HsaHwExceptionData) -> Exception {
    Exception::Reset(Reset {
        engine: data.reset_type == exception::PER_ENGINE_RESET,
        uncorrectable: data.reset_cause == exception::ECC,
        memory_lost: data.memory_lost != 0,
    })
}
