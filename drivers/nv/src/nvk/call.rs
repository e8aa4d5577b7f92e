//! Calls of the kernel driver, with what it answers: a status, whatever the system call says.
//!
//! RM asks for a call to be made again where something is in its way for a moment (BUSY_RETRY). That ends
//! here: a call is made again a limited number of times.

use std::time::Duration;

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::ioctl::Argument;
use drivers_spec::nv::{escape, status, uvm};
use hcq::transport::{DevFile, Fault, TransportError};
use thiserror::Error;

/// How often a call that is to be made again is made, with a pause before each next one: half a second.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(5);

/// How often a call that takes something apart is made again before it is given up.
const FREES: u32 = 3;

const EAGAIN: i32 = 11;

/// Statuses from here on are warnings: the call has done what it should.
const WARNINGS: u32 = 0x1_0000;

/// A call that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// By the system.
    #[error(transparent)]
    System(TransportError),
    /// By the driver.
    #[error("{file}: {call}: expected NV_OK, found status {status:#x} ({})", name(*.status))]
    Status {
        /// The device file.
        file: String,
        /// The call: a control by its name, an object by its class.
        call: String,
        /// What the driver answered.
        status: u32,
    },
    /// Before it was made: the running driver does not have it.
    #[error("{call}: branch {branch} of the driver does not have it")]
    Absent {
        /// The call.
        call: String,
        /// The branch.
        branch: Branch,
    },
}

/// The name of a status.
fn name(number: u32) -> &'static str {
    status::status_name(number).unwrap_or("of no name")
}

impl CallError {
    /// The status that the driver has answered, if it has.
    pub fn status(&self) -> Option<u32> {
        match self {
            CallError::Status { status, .. } => Some(*status),
            CallError::System(_) | CallError::Absent { .. } => None,
        }
    }

    /// Whether this is what the driver has answered.
    pub fn is(&self, status: u32) -> bool {
        self.status() == Some(status)
    }
}

impl From<TransportError> for CallError {
    fn from(error: TransportError) -> Self {
        CallError::System(error)
    }
}

pub(super) type Result<T = ()> = std::result::Result<T, CallError>;

/// A struct of the interface with a status in it.
pub(super) trait Answered: Struct {
    fn status(&self) -> u32;
}

macro_rules! answered {
    ($($module:ident::$ty:ident . $($field:ident).+;)*) => {$(
        impl Answered for $module::$ty {
            fn status(&self) -> u32 {
                self.$($field).+
            }
        }
    )*};
}

answered! {
    escape::Free.status;
    escape::AllocRights.status;
    escape::Control.status;
    escape::AllocMemoryWithFd.params.status;
    escape::MapMemoryWithFd.params.status;
    escape::MapMemoryDma.status;
    escape::UnmapMemoryDma.status;
    escape::AllocOsEvent.status;
    escape::FreeOsEvent.status;
    uvm::Initialize.rm_status;
    uvm::MmInitialize.rm_status;
    uvm::RegisterGpu.rm_status;
    uvm::UnregisterGpu.rm_status;
    uvm::RegisterGpuVaspace.rm_status;
    uvm::UnregisterGpuVaspace.rm_status;
    uvm::RegisterChannel.rm_status;
    uvm::UnregisterChannel.rm_status;
    uvm::EnablePeerAccess.rm_status;
    uvm::CreateExternalRange.rm_status;
    uvm::MapExternalAllocation.rm_status;
    uvm::UnmapExternal.rm_status;
    uvm::Free.rm_status;
}

/// Hands an argument to a file.
///
/// # Errors
/// The system's.
pub(super) fn send(file: &dyn DevFile, argument: &mut Argument) -> Result {
    argument.send(|request| file.ioctl(request))?;
    Ok(())
}

/// Makes a call whose argument has a status, again where the driver wants that. `make` makes the argument,
/// each time anew.
///
/// # Errors
/// The system's, the driver's; none made: the branch does not have it.
pub(super) fn call<T: Answered>(
    file: &dyn DevFile,
    branch: Branch,
    what: &str,
    mut make: impl FnMut() -> Option<Argument>,
) -> Result<(T, Argument)> {
    let mut left = TRIES;
    loop {
        let call = || what.to_string();
        let absent = || CallError::Absent {
            call: call(),
            branch,
        };
        let mut argument = make().ok_or_else(absent)?;
        left -= 1;
        match send(file, &mut argument) {
            Err(CallError::System(error)) if error.fault == Fault::Errno(EAGAIN) && left > 0 => {}
            Err(error) => return Err(error),
            Ok(()) => {
                let answer = argument.answer::<T>();
                match answer.status() {
                    status::NV_OK | WARNINGS.. => return Ok((answer, argument)),
                    status::NV_ERR_BUSY_RETRY if left > 0 => {}
                    status => {
                        let file = file.name().to_string();
                        let call = call();
                        return Err(CallError::Status { file, call, status });
                    }
                }
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// Makes a call again that is refused: what is taken apart is left behind otherwise, and a refusal for
/// want of memory passes. Says what was left.
pub(super) fn again(what: &str, mut call: impl FnMut() -> Result) {
    for tries in 1.. {
        match call() {
            Ok(()) => return,
            Err(error) if tries < FREES => tracing::debug!(%error, what, tries, "once more"),
            // With the GPU all that it had has gone.
            Err(error) if error.is(status::NV_ERR_GPU_IS_LOST) => {
                return tracing::debug!(%error, what, "not freed");
            }
            Err(error) => {
                return tracing::warn!(%error, what, "stays with the kernel driver");
            }
        }
    }
}
