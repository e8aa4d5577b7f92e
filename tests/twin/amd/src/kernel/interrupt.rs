//! What GPUs tell: ends of packets, faults, resets.
//!
//! Source: Linux 6.12, amdkfd/kfd_int_process_v11.c (contexts of interrupts, bits of faults);
//! amdkfd/kfd_events.c, `kfd_signal_vm_fault_event`,
//! `kfd_signal_poison_consumed_event`, `kfd_signal_reset_event`; amdkfd/kfd_debug.c,
//! `kfd_dbg_send_exception_to_runtime`.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use drivers_spec::amd::kfd::{
    ContextSaveAreaHeader, HsaHwExceptionData, HsaMemoryExceptionData, MemoryExceptionFailure,
    exception, exception_code,
};
use hcq::sync::lock;
use twin::rule::{Proof, Rule};
use twin_shader::page::{FaultKind, MemFault};

use crate::gpu::{Interrupt, Kernel, ProcessId, QueueId};

use super::{Process, Registry};

static SLOT: Rule = Rule {
    name: "KFD-EVENT-SLOT",
    text: "before a packet raises an interrupt, it writes the id of the event to its slot of the event page; otherwise \
           no event is signalled",
    source: "Linux, amdkfd/kfd_events.c, kfd_signal_event_interrupt",
    proof: Proof::Sourced,
};

static UNSEEN: Rule = Rule {
    name: "KFD-FAULT-UNSEEN",
    text: "a process with queues has a MEMORY and a HW_EXCEPTION event; otherwise it does not learn why its queues have \
           stopped",
    source: "Linux, amdkfd/kfd_events.c, kfd_signal_vm_fault_event and kfd_signal_reset_event",
    proof: Proof::Sourced,
};

impl Registry {
    fn process(&self, id: ProcessId) -> Option<Arc<Process>> {
        lock(&self.processes).get(&id)?.upgrade()
    }

    pub(super) fn all(&self) -> Vec<Arc<Process>> {
        lock(&self.processes)
            .values()
            .filter_map(std::sync::Weak::upgrade)
            .collect()
    }
}

impl Kernel for Registry {
    fn interrupt(&self, gpu: usize, interrupt: Interrupt) {
        let gpu_id = self.gpu_ids.get(gpu).copied().unwrap_or(0);
        match interrupt {
            Interrupt::EndOfPipe {
                process,
                context,
                since,
                ..
            } => {
                if let Some(process) = self.process(process) {
                    process.signalled(context, 32, since, (self.events_lost)());
                }
            }
            Interrupt::Wave {
                process,
                context,
                since,
                queue,
            } => {
                let Some(process) = self.process(process) else {
                    return;
                };
                let exceptions = u64::from(context >> 10 & 0x3fff);
                if let Some(queue) = queue.filter(|_| exceptions != 0 && process.runtime()) {
                    process.queue_error(gpu, queue, exceptions);
                } else {
                    process.signalled(context & 0x7f_ffff, 23, since, (self.events_lost)());
                }
            }
            Interrupt::SdmaTrap {
                process,
                context,
                since,
            } => {
                if let Some(process) = self.process(process) {
                    process.signalled(context & 0xfff_ffff, 28, since, (self.events_lost)());
                }
            }
            Interrupt::Fault { process, fault } => {
                if let Some(process) = self.process(process) {
                    process.faulted(gpu_id, fault);
                }
            }
            Interrupt::QueueError {
                process,
                queue,
                code,
            } => {
                if let Some(process) = self.process(process) {
                    process.queue_error(gpu, queue, exception_code::mask(code));
                }
            }
            Interrupt::Poison { process } => {
                if let Some(process) = self.process(process) {
                    process.poisoned(gpu_id);
                }
            }
            Interrupt::Reset { memory_lost } => {
                self.journal.event(format!("GPU {gpu} was reset"));
                for process in self.all() {
                    process.reset(gpu, gpu_id, memory_lost);
                }
            }
        }
    }
}

impl Process {
    fn signalled(&self, context: u32, bits: u32, since: u64, lost: bool) {
        if lost {
            self.note(|| format!("injected: the interrupt with context {context:#x} is lost"));
            return;
        }
        // Context 0 is what packets send that mean no event.
        if !self.events.interrupt(context, bits, since) && context != 0 {
            self.broken(&SLOT, format!("interrupt with context {context:#x}"));
        }
    }

    fn faulted(&self, gpu_id: u32, fault: MemFault) {
        let flag = |kind| u32::from(fault.kind == kind);
        let data = HsaMemoryExceptionData {
            failure: MemoryExceptionFailure {
                not_present: flag(FaultKind::NotPresent),
                read_only: flag(FaultKind::ReadOnly),
                no_execute: flag(FaultKind::NoExecute),
                imprecise: 0,
            },
            // The hardware tells the page.
            va: fault.va & !0xfff,
            gpu_id,
            error_type: exception::NO_RAS,
        };
        self.note(|| format!("memory fault on GPU {gpu_id:#x}: {fault}"));
        if !self.events.memory(data) {
            self.broken(
                &UNSEEN,
                format!("{fault} on GPU {gpu_id:#x}, and no MEMORY event"),
            );
        }
    }

    /// As `kfd_signal_poison_consumed_event` tells it: by both events, without an address.
    fn poisoned(&self, gpu_id: u32) {
        let memory = HsaMemoryExceptionData {
            failure: MemoryExceptionFailure {
                imprecise: 1,
                ..MemoryExceptionFailure::default()
            },
            gpu_id,
            error_type: exception::POISON_CONSUMED,
            ..HsaMemoryExceptionData::default()
        };
        let hardware = HsaHwExceptionData {
            reset_cause: exception::ECC,
            memory_lost: 1,
            gpu_id,
            ..HsaHwExceptionData::default()
        };
        self.note(|| format!("poison was consumed on GPU {gpu_id:#x}"));
        if !(self.events.memory(memory) | self.events.hardware(hardware)) {
            let what = format!("GPU {gpu_id:#x} consumed poison, and no MEMORY event");
            self.broken(&UNSEEN, what);
        }
    }

    fn reset(&self, gpu: usize, gpu_id: u32, memory_lost: bool) {
        let data = HsaHwExceptionData {
            reset_type: exception::WHOLE_GPU_RESET,
            reset_cause: exception::GPU_HANG,
            memory_lost: memory_lost.into(),
            gpu_id,
        };
        let has_queues = lock(&self.contexts).keys().any(|(of, _)| *of == gpu);
        if !self.events.hardware(data) && has_queues {
            self.broken(
                &UNSEEN,
                format!("GPU {gpu_id:#x} was reset, and no HW_EXCEPTION event"),
            );
        }
    }

    fn runtime(&self) -> bool {
        self.runtime.load(Ordering::Relaxed)
    }

    /// A queue has stopped, or waves of it: the mask of its exceptions goes where the client asked in the
    /// header of its context save area, and an event is signalled.
    fn queue_error(&self, gpu: usize, hardware: QueueId, exceptions: u64) {
        let area = lock(&self.contexts).get(&(gpu, hardware)).copied();
        self.note(|| {
            format!("queue {hardware} of GPU {gpu} has stopped: exceptions {exceptions:#x}")
        });
        let Some(area) = area.filter(|&area| area != 0) else {
            return;
        };
        let field = |offset: usize| area + offset as u64;
        let payload = self
            .caller
            .get::<u64>(field(offset_of!(ContextSaveAreaHeader, err_payload_addr)));
        let event = self
            .caller
            .get::<u32>(field(offset_of!(ContextSaveAreaHeader, err_event_id)));
        if let (Ok(payload), Ok(event)) = (payload, event)
            && payload != 0
        {
            let mask = self.caller.get::<u64>(payload).unwrap_or(0) | exceptions;
            let _ = self.caller.put(payload, &mask);
            let _ = self.events.set(event, true);
        }
    }
}
