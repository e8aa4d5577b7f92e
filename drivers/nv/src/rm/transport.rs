//! [`Transport`]: the transport of calls to RM.

use drivers_gpu::kernel::calls;
use drivers_spec::nv::abi::Branch;
use drivers_spec::nv::ioctl::NewObject;
use drivers_spec::nv::parameters::Parameters;
use drivers_spec::nv::status;
use hcq::mem::view::View;
use hcq::transport::errno::EINVAL;
use hcq::transport::{Fault, Machine, Prot, TransportError};
use thiserror::Error;

/// Statuses from here on are warnings: the call has succeeded.
const WARNINGS: u32 = 0x1_0000;

/// What a sandbox answers that does not know a call (gVisor passes on those of CUDA).
const NOT_PASSED: Fault = Fault::Errno(EINVAL);

/// Whether a call was not passed on to the driver.
pub(crate) fn not_passed(error: &CallError) -> bool {
    matches!(error, CallError::System(error) if error.fault == NOT_PASSED)
}

/// The transport of calls to RM. A failure status is an error; a call with the status
/// BUSY_RETRY is repeated here, a limited number of times.
///
/// Source of what each call says: open-gpu-kernel-modules, src/common/sdk/nvidia/inc/nvos.h (NVOS64, NVOS54, NVOS00)
/// for ioctls; src/nvidia/generated/g_rpc-structures.h (`rpc_gsp_rm_alloc_v03_00`, `rpc_gsp_rm_control_v03_00`,
/// `rpc_free_v03_00`) for GSP. Both name client, parent or object, number, and parameters of the same struct.
pub(crate) trait Transport: Send + Sync {
    /// What messages call it: a device file.
    fn name(&self) -> &str;

    /// Whose structs parameters have: those of the kernel driver that runs; with GSP those of its firmware, whose
    /// version is that of the driver it was made for.
    fn branch(&self) -> Branch;

    /// Creates a client and returns its handle.
    ///
    /// # Errors
    /// [`CallError`].
    fn client(&self) -> Result<u32>;

    /// Makes an object of the class that the parameters are of.
    ///
    /// # Errors
    /// [`CallError`].
    fn alloc(&self, new: &NewObject, params: &Parameters) -> Result;

    /// Sends a control to an object of a client; the answer is in the parameters.
    ///
    /// # Errors
    /// [`CallError`].
    fn control(&self, client: u32, object: u32, params: &mut Parameters) -> Result;

    /// Frees an object and all below it; the client itself, too.
    ///
    /// # Errors
    /// [`CallError`].
    fn free(&self, client: u32, object: u32) -> Result;

    /// Lets the host have memory or registers of an object, as long as the view lives.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Absent`] from a transport that has no mappings.
    fn map(&self, machine: &dyn Machine, map: &HostMap) -> Result<View>;
}

/// What the host is to have of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostMap {
    pub(crate) client: u32,
    pub(crate) device: u32,
    pub(crate) object: u32,
    pub(crate) wanted: MapRequest,
}

/// A request to map the first bytes of an object's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapRequest {
    pub(crate) bytes: u64,
    /// In addresses that are reserved, or anywhere.
    pub(crate) at: Option<u64>,
    /// What the host may do with it.
    pub(crate) prot: Prot,
    /// Where the memory is: the GPU's own and its registers, or the system's.
    pub(crate) of: Side,
}

/// Where memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// On the GPU.
    Gpu,
    /// In the system.
    System,
}

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
    /// Sent, and not answered as a call is: by firmware that takes messages.
    #[error("{file}: {call}: {why}")]
    Unanswered {
        /// Whose firmware.
        file: String,
        /// The call, as above.
        call: String,
        /// What came instead, and what to do.
        why: String,
        /// Whether the GPU has left.
        is_gone: bool,
    },
    /// Not sent: the running driver does not have it.
    #[error("{call}: not available in driver branch {branch}")]
    Absent {
        /// The call.
        call: String,
        /// The branch.
        branch: Branch,
    },
}

/// The name of a status.
fn name(number: u32) -> &'static str {
    status::status_name(number).unwrap_or("unknown")
}

/// Whether a call with this status has succeeded.
pub(crate) fn is_done(status: u32) -> bool {
    status == status::NV_OK || status >= WARNINGS
}

impl CallError {
    /// The status that the driver has answered, if it has.
    pub fn status(&self) -> Option<u32> {
        match self {
            CallError::Status { status, .. } => Some(*status),
            CallError::System(_) | CallError::Unanswered { .. } | CallError::Absent { .. } => None,
        }
    }

    /// Whether the GPU has left, or is being reset with all that it had.
    pub fn is_gone(&self) -> bool {
        match self {
            CallError::System(error) => calls::is_gone(error),
            CallError::Status { status, .. } => is_lost(*status),
            CallError::Unanswered { is_gone, .. } => *is_gone,
            CallError::Absent { .. } => false,
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

/// Whether a status means that the GPU has left, or that a reset has lost its state.
pub(crate) fn is_lost(number: u32) -> bool {
    matches!(
        number,
        status::NV_ERR_GPU_IS_LOST | status::NV_ERR_GPU_IN_FULLCHIP_RESET
    )
}

pub(crate) type Result<T = ()> = std::result::Result<T, CallError>;

/// Makes a call that frees something, and repeats it if it fails. Logs what was not freed; returns whether all was freed.
pub(crate) fn again(what: &str, call: impl FnMut() -> Result) -> bool {
    match calls::again(call) {
        Ok(()) => true,
        // With the GPU all that it had has gone.
        Err(error) if error.is(status::NV_ERR_GPU_IS_LOST) => {
            tracing::debug!(%error, what, "not freed");
            true
        }
        Err(error) => {
            tracing::warn!(%error, what, "could not free an object of the kernel driver");
            false
        }
    }
}
