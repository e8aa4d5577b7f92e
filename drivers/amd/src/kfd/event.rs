//! Events of KFD: what a host thread sleeps on, and how it learns of faults.
//!
//! Source: Linux, amdkfd/kfd_events.c.

use std::sync::Arc;
use std::time::Duration;

use drivers_spec::amd::kfd::{
    self, CreateEventArgs, DestroyEventArgs, EventData, HsaHwExceptionData, HsaMemoryExceptionData,
    SetEventArgs, WaitEventsArgs, event_type, wait_result,
};
use hcq::GpuVa;
use hcq::transport::{Fault, Machine, TransportError};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::call::Call;
use super::memory::{MemoryError, again};
use super::process::{Gpu, Process};

/// The version of the interface that tells how often an event was signalled, so that none is missed
/// between a look and a wait.
const AGES: (u32, u32) = (1, 14);

const EINTR: i32 = 4;

/// An event of the process; destroyed on drop.
pub(crate) struct Event {
    process: Arc<Process>,
    id: u32,
    slot: GpuVa,
}

impl Event {
    /// A new event of a type of [`event_type`].
    ///
    /// # Errors
    /// [`MemoryError`].
    pub(crate) fn new(
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
        process.create_event(machine, gpu, &mut args)?;
        Ok(Event {
            process: process.clone(),
            id: args.event_id,
            slot: process.slot(&args),
        })
    }

    /// Its id, which packets write and send.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Where packets write it.
    pub(crate) fn slot(&self) -> GpuVa {
        self.slot
    }

    /// Signals it from the host: who sleeps on it looks again.
    pub(crate) fn set(&self) {
        let mut args = SetEventArgs {
            event_id: self.id,
            pad: 0,
        };
        // Without it the sleepers look at the end of their slice.
        if let Err(error) = self.process.kfd.call(kfd::SET_EVENT, &mut args) {
            tracing::debug!(%error, "waiting threads are not woken");
        }
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
            tracing::warn!(%error, id = self.id, "an event stays with the kernel");
        }
    }
}

/// The events that tell why a GPU has stopped.
pub(crate) struct Watch {
    process: Arc<Process>,
    gpu_id: u32,
    memory: Event,
    hardware: Event,
}

/// Why a GPU has stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exception {
    /// A page fault.
    Memory(HsaMemoryExceptionData),
    /// A reset.
    Hardware(HsaHwExceptionData),
}

/// How often a thread has seen its event signalled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Age(u64);

impl Age {
    /// Of a thread that has not waited yet. A new event starts at 1; where it has been signalled
    /// since, the first wait returns at once.
    pub(crate) const NEW: Age = Age(1);
}

impl Watch {
    /// Watches a GPU.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub(crate) fn new(
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

    /// Sleeps until `event` is signalled, the GPU has stopped, or `limit` is over. What woke it is
    /// told only where it is an exception.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn wait(
        &self,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>, TransportError> {
        // What the events tell lies over the age: zero is "nothing".
        let mut data = [EventData::new_zeroed(); 3];
        data[0].event_id = self.memory.id;
        data[1].event_id = self.hardware.id;
        let ages = self.process.version >= AGES;
        let mut count = 2;
        if let Some(event) = event {
            data[2].event_id = event.id;
            if ages {
                let told = &mut data[2].memory_exception_data;
                told.as_mut_bytes()[..8].copy_from_slice(&age.0.to_ne_bytes());
            }
            count = 3;
        }
        let ms = limit.as_nanos().div_ceil(1_000_000);
        let mut args = WaitEventsArgs {
            events_ptr: data.as_mut_ptr().expose_provenance() as u64,
            num_events: count,
            wait_for_all: 0,
            // All ones is for ever.
            timeout: u32::try_from(ms).unwrap_or(u32::MAX).min(u32::MAX - 1),
            wait_result: 0,
        };
        match self.process.kfd.call(kfd::WAIT_EVENTS, &mut args) {
            // Signals of the process: whoever waits looks at the time.
            Err(error) if error.fault == Fault::Errno(EINTR) => return Ok(None),
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
            return Ok(Some(Exception::Memory(memory)));
        }
        let hardware = HsaHwExceptionData::read_from_prefix(data[1].as_bytes());
        if let Ok((hardware, _)) = hardware
            && hardware.gpu_id == self.gpu_id
        {
            return Ok(Some(Exception::Hardware(hardware)));
        }
        Ok(None)
    }
}
