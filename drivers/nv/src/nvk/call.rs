//! Calls of the kernel driver, which return a status separate from the system call's result.
//!
//! RM may ask to retry a call (BUSY_RETRY). Retries are limited here.

use drivers_gpu::kernel::calls::until_taken;
use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::ioctl::Argument;
use drivers_spec::nv::{escape, status, uvm};
use hcq::transport::errno::EAGAIN;
use hcq::transport::{DevFile, Fault};

use crate::rm::CallError;
use crate::rm::transport::{Result, is_done};

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

/// Makes a call with a status in its argument, and repeats it if the driver asks for that. `make` creates the argument
/// each time.
///
/// # Errors
/// The system's, the driver's; without a call if the branch does not have it.
pub(super) fn call<T: Answered>(
    file: &dyn DevFile,
    branch: Branch,
    what: &str,
    mut make: impl FnMut() -> Option<Argument>,
) -> Result<(T, Argument)> {
    let asks_again = |error: &CallError| match error {
        CallError::System(error) => error.fault == Fault::Errno(EAGAIN),
        error => error.is(status::NV_ERR_BUSY_RETRY),
    };
    let call = || {
        let mut argument = make().ok_or_else(|| CallError::Absent {
            call: what.into(),
            branch,
        })?;
        send(file, &mut argument)?;
        let answer = argument.answer::<T>();
        match answer.status() {
            done if is_done(done) => Ok((answer, argument)),
            status => Err(CallError::Status {
                file: file.name().to_string(),
                call: what.into(),
                status,
            }),
        }
    };
    until_taken(call, asks_again)
}
