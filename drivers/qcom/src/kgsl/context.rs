//! Contexts of KGSL: each has timestamps of its own, 1 for the first submission.
//!
//! After a fault or a hang of the GPU the kernel invalidates the context: waits and submissions fail with EDEADLK, and
//! its retired timestamp becomes the last one, so that number alone proves nothing. Contexts of others that were under
//! way run again; their reset status is "innocent". EPROTO reports such a fault once,
//! with a call that is done all the same.
//!
//! A submission may take any time: kernels 4.9 and later end none of a context without fault tolerance by the clock. One
//! that never ends is ended by the GPU's own hang detection, or with the context, after half a minute.
//!
//! Source: KGSL, adreno_drawctxt.c, `adreno_drawctxt_create`, `adreno_drawctxt_wait`, `adreno_drawctxt_invalidate`;
//! adreno_dispatch.c, `adreno_dispatcher_queue_cmds`, `_adreno_dispatch_check_timeout`; kgsl.c, `kgsl_prop_gpu_reset_stat`.

use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use drivers_gpu::kernel::calls::is_gone;
use drivers_spec::qcom::kgsl::{
    self, CommandObject, Constraint, ConstraintPwrLevel, Context as Flags, DrawctxtCreate,
    DrawctxtDestroy, GpuCommand, MAX_COMMANDS, Object, ReadTimestamp, WaitTimestamp, compare,
    constraint, context, property, reset, timestamp,
};
use hcq::sync::lock;
use hcq::transport::access::by_clock;
use hcq::transport::errno::{EAGAIN, EDEADLK, EINTR, EINVAL, ENOENT, ENOMEM, EPROTO, ETIMEDOUT};
use hcq::transport::{Fault, TransportError};
use hcq::{DeviceId, Error};
use zerocopy::IntoBytes;

use super::memory::Process;
use super::survey::{LOG, get, set};
use crate::backend::context::{ContextHandle, Failure, IndirectBuffer, Progress};
use crate::backend::few;
use crate::backend::retry::{ioctl, ioctl_with};
use crate::backend::unusable::of_call;

/// How often a context is asked for its reset status while threads sleep.
const ASK: Duration = Duration::from_millis(100);

/// A context.
pub(super) struct Context {
    device: DeviceId,
    process: Arc<Process>,
    name: String,
    id: u32,
    /// The timestamp of the last submission.
    last: AtomicU32,
    /// Submissions that the timestamp counts beyond 32 bits are rare: this is the number of times that it wrapped.
    wraps: AtomicU32,
    state: Mutex<State>,
    is_stopped: AtomicBool,
}

struct State {
    /// What is known of a fault; the first stays.
    fault: Option<String>,
    asked: Instant,
    /// The last timestamp when nothing was under way, as of the last question.
    idle_at: Option<u32>,
}

impl Context {
    /// A new context.
    ///
    /// # Errors
    /// The kernel's; nothing is left behind then.
    pub(super) fn new(
        device: &DeviceId,
        process: &Arc<Process>,
        priority: u32,
        full_power: bool,
    ) -> Result<Context, TransportError> {
        let flags = Flags::PREAMBLE
            | Flags::NO_GMEM_ALLOC
            | Flags::NO_FAULT_TOLERANCE
            | Flags::PER_CONTEXT_TS
            | Flags::PWR_CONSTRAINT;
        let mut made = DrawctxtCreate {
            flags: flags.bits()
                | priority.clamp(1, 15) << context::PRIORITY_SHIFT
                | context::TYPE_CL << context::TYPE_SHIFT
                | context::PREEMPT_STYLE_FINEGRAIN << context::PREEMPT_STYLE_SHIFT,
            ..Default::default()
        };
        ioctl(&*process.file, kgsl::DRAWCTXT_CREATE, &mut made)?;
        let one = Context {
            device: device.clone(),
            process: process.clone(),
            name: format!("context {}", made.drawctxt_id),
            id: made.drawctxt_id,
            last: AtomicU32::new(0),
            wraps: AtomicU32::new(0),
            state: Mutex::new(State {
                fault: None,
                asked: Instant::now(),
                idle_at: Some(0),
            }),
            is_stopped: AtomicBool::new(false),
        };
        if full_power && let Err(error) = one.constrain(constraint::PWR_MAX) {
            tracing::debug!(%error, "could not set the GPU power level: the kernel driver chooses the clock");
        }
        Ok(one)
    }

    /// Asks for a power level while the context is there.
    fn constrain(&self, level: u32) -> Result<(), TransportError> {
        let level = ConstraintPwrLevel { level };
        // The kernel only reads there, during the call.
        let mut wanted = Constraint {
            kind: constraint::PWRLEVEL,
            context_id: self.id,
            data: std::ptr::from_ref(&level).expose_provenance() as u64,
            size: size_of::<ConstraintPwrLevel>() as u64,
        };
        set(
            &*self.process.file,
            property::PWR_CONSTRAINT,
            wanted.as_mut_bytes(),
        )
    }

    fn retired(&self) -> Result<u32, TransportError> {
        let mut read = ReadTimestamp {
            context_id: self.id,
            kind: timestamp::RETIRED,
            ..Default::default()
        };
        ioctl(
            &*self.process.file,
            kgsl::CMDSTREAM_READTIMESTAMP_CTXTID,
            &mut read,
        )?;
        Ok(read.timestamp)
    }

    /// Notes that nothing is under way behind a timestamp, if so.
    fn note_idle(&self, last: u32) {
        let retired = by_clock(|| self.retired());
        let is_idle = retired.is_ok_and(|retired| compare(retired, last) != Order::Less);
        lock(&self.state).idle_at = is_idle.then_some(last);
    }

    /// Notes a fault that a call has told of.
    fn faulted(&self, error: &TransportError) {
        let status = self.reset_status();
        let mut state = lock(&self.state);
        state.fault.get_or_insert_with(|| {
            let status = match status {
                Ok(status) => told(status).into(),
                Err(error) => format!("reset status: not readable ({error})"),
            };
            let last = self.last.load(Ordering::Acquire);
            format!(
                "the kernel driver has stopped {} after a fault or hang of the GPU ({}: {}); {status}; the last submission has \
                 timestamp {last}. See `dmesg | grep {LOG}`",
                self.name, error.operation, error.fault
            )
        });
    }

    /// Whether a call was refused because another thread has ended the context meanwhile.
    fn has_ended(&self, error: &TransportError) -> bool {
        matches!(error.fault, Fault::Errno(EINVAL | ENOENT))
            && self.is_stopped.load(Ordering::Acquire)
    }

    /// The reset status; reading it clears it.
    fn reset_status(&self) -> Result<u32, TransportError> {
        let mut value = self.id;
        get(&*self.process.file, property::GPU_RESET_STAT, &mut value)?;
        Ok(value)
    }

    /// Notes the fault that a submission was refused for; who is told of the error asks for it.
    fn lost(&self, error: TransportError) -> TransportError {
        self.faulted(&error);
        error
    }
}

/// A reset status in words.
fn told(status: u32) -> &'static str {
    match status {
        reset::NO_ERROR => "reset status: none reported",
        reset::GUILTY => "reset status: guilty (this context)",
        reset::INNOCENT => "reset status: innocent (another context)",
        _ => "reset status: unknown",
    }
}

/// Whether a call tells of a fault of the context.
fn is_fault(error: &TransportError) -> bool {
    matches!(error.fault, Fault::Errno(EDEADLK | EPROTO | ENOENT))
}

impl ContextHandle for Context {
    fn name(&self) -> &str {
        &self.name
    }

    fn most(&self) -> usize {
        MAX_COMMANDS as usize
    }

    fn submit(&self, buffers: &[IndirectBuffer]) -> Result<(), Failure> {
        let object = |buffer: &IndirectBuffer| CommandObject {
            offset: 0,
            gpuaddr: buffer.address,
            size: u64::from(buffer.dwords) * 4,
            flags: Object::IB.bits(),
            id: 0,
        };
        let mut command = GpuCommand {
            cmdsize: size_of::<CommandObject>() as u32,
            context_id: self.id,
            ..Default::default()
        };
        let file = &*self.process.file;
        let called = few::with(buffers.iter().map(object), |objects| {
            let mut memory = [objects.as_mut_bytes()];
            ioctl_with(file, kgsl::GPU_COMMAND, &mut command, &mut memory)
        });
        match called {
            Ok(()) => {
                if command.timestamp < self.last.swap(command.timestamp, Ordering::AcqRel) {
                    self.wraps.fetch_add(1, Ordering::AcqRel);
                }
                Ok(())
            }
            Err(error) if is_fault(&error) => Err(Failure::Lost(self.lost(error))),
            Err(error) if is_gone(&error) => Err(Failure::Lost(error)),
            Err(error) => {
                let mut refused = of_call(&self.device, &error, LOG);
                if let Error::Os { hint, .. } = &mut refused {
                    match error.fault {
                        Fault::Errno(ETIMEDOUT) => {
                            *hint = "The kernel's queue of the context stayed full for 10 s: the GPU is busy or hung".into();
                        }
                        Fault::Errno(ENOMEM) => {
                            *hint = "Free memory of the machine and submit again".into()
                        }
                        Fault::Errno(EINTR | EAGAIN) => *hint = "Submit again".into(),
                        _ => {}
                    }
                }
                Err(Failure::Refused(refused))
            }
        }
    }

    fn counts(&self) -> Result<(u64, u64), TransportError> {
        let (last, wraps) = (
            self.last.load(Ordering::Acquire),
            self.wraps.load(Ordering::Acquire),
        );
        let retired = self.retired()?;
        let all = u64::from(wraps) << 32 | u64::from(last);
        let behind = match compare(last, retired) {
            Order::Greater => u64::from(last.wrapping_sub(retired)),
            _ => 0,
        };
        Ok((all, all.saturating_sub(behind)))
    }

    fn sleep(&self, limit: Duration) -> Result<Progress, TransportError> {
        let last = self.last.load(Ordering::Acquire);
        let retired = by_clock(|| self.retired())?;
        if compare(retired, last) != Order::Less {
            return Ok(Progress::Idle);
        }
        // 0 would be for ever.
        let timeout = limit.as_millis().clamp(1, 1000) as u32;
        let mut wait = WaitTimestamp {
            context_id: self.id,
            timestamp: retired.wrapping_add(1),
            timeout,
        };
        // The limit starts anew with each call.
        let request = kgsl::DEVICE_WAITTIMESTAMP_CTXTID.with(&mut wait, &mut []);
        let mut request = request.waiting();
        let waited = by_clock(|| self.process.file.ioctl(&mut request));
        match waited {
            Ok(_) => Ok(Progress::Ended),
            Err(error) if self.has_ended(&error) => Ok(Progress::Idle),
            Err(error) if is_fault(&error) => {
                // Who sleeps asks for it next.
                self.faulted(&error);
                Ok(Progress::Ended)
            }
            Err(error) => match error.fault {
                // Interrupted: who sleeps has a deadline, and looks at it.
                Fault::Errno(ETIMEDOUT | EINTR | EAGAIN) => Ok(Progress::None),
                _ => Err(error),
            },
        }
    }

    fn fault(&self, now: bool) -> Result<Option<String>, TransportError> {
        {
            let mut state = lock(&self.state);
            if state.fault.is_some() {
                return Ok(state.fault.clone());
            }
            if self.is_stopped.load(Ordering::Acquire) || !now && state.asked.elapsed() < ASK {
                return Ok(None);
            }
            state.asked = Instant::now();
        }
        let status = match now {
            true => self.reset_status(),
            false => by_clock(|| self.reset_status()),
        };
        let status = match status {
            Err(error) if self.has_ended(&error) => return Ok(None),
            status => status?,
        };
        let last = self.last.load(Ordering::Acquire);
        let mut state = lock(&self.state);
        let was_idle = state.idle_at.take() == Some(last);
        if status == reset::NO_ERROR {
            drop(state);
            self.note_idle(last);
            return Ok(None);
        }
        if status == reset::INNOCENT && was_idle {
            // Nothing was under way: nothing was run twice.
            tracing::warn!(
                context = self.name,
                "the GPU was reset because of another context"
            );
            return Ok(None);
        }
        let again = match status {
            reset::GUILTY => "",
            _ => {
                "; the work in flight was replayed from its start, after part of it had already run"
            }
        };
        let known = state.fault.get_or_insert_with(|| {
            format!(
                "the GPU was reset after a fault or hang while {} was in use; {}{again}. See `dmesg | grep {LOG}`",
                self.name,
                told(status)
            )
        });
        Ok(Some(known.clone()))
    }

    fn stop(&self) -> bool {
        if self.is_stopped.swap(true, Ordering::AcqRel) {
            return true;
        }
        let mut argument = DrawctxtDestroy {
            drawctxt_id: self.id,
        };
        // Blocks until what was started has ended, for 35 s at most; then the kernel resets the GPU.
        match ioctl(&*self.process.file, kgsl::DRAWCTXT_DESTROY, &mut argument) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, context = self.name, "could not end the context");
                // A driver that is gone has taken its contexts along; else the process keeps the context.
                is_gone(&error)
            }
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.stop();
    }
}
