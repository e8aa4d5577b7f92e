//! [`Shared`]: the state of a device's threads besides [`Core`]: the addresses of kernels, and whether all handles are
//! dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drivers_bundle::schema::Owner;
use drivers_gpu::core::Core;
use drivers_host::mmap::CodeArenas;
use hcq::Error;

use crate::guard::Trap;
use crate::runtime::Runtime;
use crate::waiters;

/// What the threads of one open device share.
pub struct Shared {
    pub(crate) core: Arc<Core>,
    /// The addresses of kernels.
    pub(crate) code: Arc<CodeArenas>,
    /// What runs kernels instead of threads of the process, if anything.
    pub(crate) runtime: Option<Arc<dyn Runtime>>,
    /// How long the end of a queue waits for its thread, which calls of a runtime may hold; none: for as long as it takes.
    pub(crate) stop_limit: Option<Duration>,
    /// All handles are gone: finish what can be finished.
    closing: AtomicBool,
    /// A runtime still does what it was handed over, and was not waited for.
    runs_on: AtomicBool,
}

impl Shared {
    /// Of a device without a runtime, or of one whose queues end in that time.
    pub(crate) fn new(core: &Arc<Core>, runtime: Option<(Arc<dyn Runtime>, Duration)>) -> Shared {
        let (runtime, stop_limit) = runtime.unzip();
        Shared {
            core: core.clone(),
            code: Arc::default(),
            runtime,
            stop_limit,
            closing: AtomicBool::new(false),
            runs_on: AtomicBool::new(false),
        }
    }

    /// A queue is left while its runtime still works.
    pub(crate) fn leave_running(&self) {
        self.runs_on.store(true, Ordering::SeqCst);
    }

    /// Whether a runtime may still write.
    pub(crate) fn runs_on(&self) -> bool {
        self.runs_on.load(Ordering::SeqCst)
    }

    /// The buffer of the process that an address lies in.
    pub(crate) fn buffer(&self, at: u64) -> Option<std::ops::Range<u64>> {
        match self.core.ranges().whose(at) {
            Owner::Inside(span) => Some(span.start.0..span.start.0 + span.bytes.0),
            // One of another device.
            _ => crate::runtime::mapped(at),
        }
    }

    /// Loses the device for a fault of one of its units.
    pub(crate) fn fault(&self, unit: String, what: String) -> Error {
        let device = self.core.id.clone();
        let error = self.core.lose(Error::Fault { device, unit, what });
        waiters::wake_all();
        error
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        waiters::wake_all();
    }

    pub(crate) fn closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Where an address lies, beside the memory of the device.
    fn locate(&self, address: u64) -> String {
        let of = |span: &drivers_bundle::schema::Span| match &*span.what {
            "device memory" | "host memory" | "control memory" => {
                format!("the buffer {:#x}+{:#x}", span.start.0, span.bytes.0)
            }
            what => format!("{what} at {:#x}+{:#x}", span.start.0, span.bytes.0),
        };
        match self.core.ranges().whose(address) {
            Owner::Inside(span) => format!("offset {} of {}", span.distance.0, of(&span)),
            Owner::Behind(span) => {
                format!("{} bytes past the end of {}", span.distance.0, of(&span))
            }
            Owner::Before(span) => format!("{} bytes before {}", span.distance.0, of(&span)),
            Owner::Freed(span) => {
                format!("offset {} of freed {}", span.distance.0, of(&span))
            }
            Owner::Nobody => "not near any buffer of this device".into(),
        }
    }

    /// A trap in words. `entry` is the kernel that ran; `None` for the processor's own accesses.
    pub(crate) fn describe(&self, trap: &Trap, entry: Option<u64>) -> String {
        let mut text = match entry {
            Some(entry) => match self.core.kernels.at(entry) {
                Some((kernel, _)) => format!("kernel {}", kernel.name),
                None => format!("kernel at {entry:#x}, in no loaded program"),
            },
            None => "memory access".into(),
        };
        if let Some((_, offset)) = entry.and_then(|_| self.core.kernels.at(trap.pc)) {
            text += &format!(", code offset {offset:#x}");
        } else if entry.is_some() {
            text += &format!(", at {:#x}, outside its code", trap.pc);
        }
        text += match trap.signal {
            libc::SIGSEGV => ": SIGSEGV",
            libc::SIGBUS => ": SIGBUS",
            libc::SIGFPE => ": SIGFPE (an integer division by zero or overflow)",
            libc::SIGILL => ": SIGILL (an instruction that this CPU lacks, or a compiler trap)",
            _ => ": signal",
        };
        if let Some(address) = trap.address {
            text += match trap.write {
                Some(true) => " writing ",
                Some(false) => " reading ",
                None => " at ",
            };
            text += &format!("{address:#x}, ");
            let near_stack = address.abs_diff(trap.sp) < 64 << 10;
            if near_stack && entry.is_some() && trap.sp != 0 {
                text += "near the stack pointer: worker stack overflow";
            } else {
                text += &self.locate(address);
            }
        } else if matches!(trap.signal, libc::SIGSEGV | libc::SIGBUS) {
            text += " at an unknown, non-canonical address";
        }
        text
    }
}
