//! The functions of `libcuda.so.1` that find GPUs and their contexts; those that use a GPU are [`drivers_runtime::calls`]'.
//!
//! Unsafe module: foreign functions are called by the types that the manual gives.
//!
//! Source: NVIDIA, CUDA Driver API Reference Manual 12.4. Functions with `_v2` are what `cuda.h` means by the name without it.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

use drivers_runtime::calls::{Library, Names, NoLibrary, Vendor};
use drivers_runtime::{Answer, Refusal};

use crate::code::{hint, is_sticky};

/// The library's names: of the driver's interface, which does not change with its version.
const LIBRARY: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`.
const ALREADY_ENABLED: c_int = 704;

/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`.
const HOST_FLAGS: c_uint = 3;

/// What uses a GPU.
pub(crate) const NAMES: Names = Names {
    alloc: "cuMemAlloc_v2",
    free: "cuMemFree_v2",
    host_alloc: "cuMemHostAlloc",
    host_free: "cuMemFreeHost",
    host_register: "cuMemHostRegister_v2",
    host_unregister: "cuMemHostUnregister",
    host_pointer: "cuMemHostGetDevicePointer_v2",
    memory: "cuMemGetInfo_v2",
    range: "cuMemGetAddressRange_v2",
    copy: "cuMemcpyAsync",
    fill: "cuMemsetD32Async",
    write: "cuStreamWriteValue64_v2",
    stream: "cuStreamCreate",
    end_stream: "cuStreamDestroy_v2",
    is_idle: "cuStreamQuery",
    event: "cuEventCreate",
    end_event: "cuEventDestroy_v2",
    record: "cuEventRecord",
    is_past: "cuEventQuery",
    elapsed: "cuEventElapsedTime",
    module: "cuModuleLoadData",
    end_module: "cuModuleUnload",
    function: "cuModuleGetFunction",
    attribute: "cuFuncGetAttribute",
    set_attribute: Some("cuFuncSetAttribute"),
    launch: "cuLaunchKernel",
    copies_have_kinds: false,
    end_of_extra: 0,
    host_flags: HOST_FLAGS,
};

/// Attributes of a GPU, `CUdevice_attribute`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(crate) enum Attribute {
    /// Streaming multiprocessors.
    Multiprocessors = 16,
    /// The host's addresses are the GPU's.
    UnifiedAddressing = 41,
    /// The first part of `sm_XY`.
    Major = 75,
    /// The second.
    Minor = 76,
    /// `cuStreamWriteValue64_v2` can be used.
    StreamWrites = 122,
}

type Context = *mut c_void;
type Text = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;

/// The library.
pub(crate) struct Api {
    library: Library,
    init: unsafe extern "C" fn(c_uint) -> c_int,
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    count: unsafe extern "C" fn(*mut c_int) -> c_int,
    device: unsafe extern "C" fn(*mut c_int, c_int) -> c_int,
    name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    place: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    memory: unsafe extern "C" fn(*mut usize, c_int) -> c_int,
    attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int,
    retain: unsafe extern "C" fn(*mut Context, c_int) -> c_int,
    release: unsafe extern "C" fn(c_int) -> c_int,
    push: unsafe extern "C" fn(Context) -> c_int,
    pop: unsafe extern "C" fn(*mut Context) -> c_int,
    can_reach: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int,
    reach: unsafe extern "C" fn(Context, c_uint) -> c_int,
    error_name: Text,
    error_text: Text,
}

impl Api {
    /// Loads the library.
    pub(crate) fn load() -> Result<Arc<Api>, NoLibrary> {
        let library = Library::find(&LIBRARY)?;
        // SAFETY: each field has the type that the manual gives the function of that name; `CUdevice` is an `int`, a context a
        // pointer.
        let api = unsafe {
            Api {
                init: library.function("cuInit")?,
                version: library.function("cuDriverGetVersion")?,
                count: library.function("cuDeviceGetCount")?,
                device: library.function("cuDeviceGet")?,
                name: library.function("cuDeviceGetName")?,
                place: library.function("cuDeviceGetPCIBusId")?,
                memory: library.function("cuDeviceTotalMem_v2")?,
                attribute: library.function("cuDeviceGetAttribute")?,
                retain: library.function("cuDevicePrimaryCtxRetain")?,
                release: library.function("cuDevicePrimaryCtxRelease_v2")?,
                push: library.function("cuCtxPushCurrent_v2")?,
                pop: library.function("cuCtxPopCurrent_v2")?,
                can_reach: library.function("cuDeviceCanAccessPeer")?,
                reach: library.function("cuCtxEnablePeerAccess")?,
                error_name: library.function("cuGetErrorName")?,
                error_text: library.function("cuGetErrorString")?,
                library,
            }
        };
        Ok(Arc::new(api))
    }

    /// The library.
    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    /// What a result stands for.
    pub(crate) fn refusal(&self, call: &'static str, code: c_int) -> Refusal {
        let text = |of: Text| {
            let mut text: *const c_char = std::ptr::null();
            // SAFETY: it writes a pointer, which lives longer than the call.
            let done = unsafe { of(code, &raw mut text) };
            if done != 0 || text.is_null() {
                return String::new();
            }
            // SAFETY: the library gives a text of its own that ends with a zero and stays.
            let text = unsafe { CStr::from_ptr(text) };
            text.to_string_lossy().into_owned()
        };
        let name = text(self.error_name);
        Refusal {
            call,
            code,
            name: match name.is_empty() {
                true => "unknown error".into(),
                false => name,
            },
            text: text(self.error_text),
            hint: hint(code),
            is_sticky: is_sticky(code),
            is_memory: false,
        }
    }

    fn check(&self, call: &'static str, code: c_int) -> Answer<()> {
        match code {
            0 => Ok(()),
            code => Err(self.refusal(call, code)),
        }
    }

    /// Starts the library: once at least before all else.
    pub(crate) fn init(&self) -> Answer<()> {
        // SAFETY: flags are 0, as the manual asks.
        self.check("cuInit", unsafe { (self.init)(0) })
    }

    /// The version of CUDA that the driver has: 12040 is 12.4.
    pub(crate) fn version(&self) -> Answer<i32> {
        let mut version = 0;
        // SAFETY: it writes a number, which lives longer than the call.
        let done = unsafe { (self.version)(&raw mut version) };
        self.check("cuDriverGetVersion", done)?;
        Ok(version)
    }

    /// GPUs that the process may use.
    pub(crate) fn count(&self) -> Answer<u32> {
        let mut count = 0;
        // SAFETY: as above.
        let done = unsafe { (self.count)(&raw mut count) };
        self.check("cuDeviceGetCount", done)?;
        Ok(count.unsigned_abs())
    }

    /// The GPU of a number.
    pub(crate) fn device(self: &Arc<Api>, index: u32) -> Answer<GpuName> {
        let mut device = 0;
        // SAFETY: as above; a number that is too large is refused.
        let done = unsafe { (self.device)(&raw mut device, index as c_int) };
        self.check("cuDeviceGet", done)?;
        Ok(GpuName {
            api: self.clone(),
            device,
        })
    }
}

/// A GPU that is not in use yet.
pub(crate) struct GpuName {
    api: Arc<Api>,
    device: c_int,
}

impl GpuName {
    /// The product.
    pub(crate) fn name(&self) -> Answer<String> {
        self.text("cuDeviceGetName", self.api.name)
    }

    /// Where it is on the bus.
    pub(crate) fn place(&self) -> Answer<String> {
        let place = self.text("cuDeviceGetPCIBusId", self.api.place)?;
        Ok(place.to_ascii_lowercase())
    }

    fn text(
        &self,
        call: &'static str,
        of: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    ) -> Answer<String> {
        let mut text = [0u8; 256];
        // SAFETY: it writes at most as many bytes as it is told, with a zero at the end.
        let done = unsafe { of(text.as_mut_ptr().cast(), text.len() as c_int, self.device) };
        self.api.check(call, done)?;
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// Bytes of its memory.
    pub(crate) fn memory(&self) -> Answer<u64> {
        let mut bytes = 0;
        // SAFETY: it writes a number, which lives longer than the call.
        let done = unsafe { (self.api.memory)(&raw mut bytes, self.device) };
        self.api.check("cuDeviceTotalMem_v2", done)?;
        Ok(bytes as u64)
    }

    /// An attribute; 0 for one that the driver does not know.
    pub(crate) fn attribute(&self, attribute: Attribute) -> u32 {
        let mut value: c_int = 0;
        // SAFETY: as above.
        let done = unsafe { (self.api.attribute)(&raw mut value, attribute as c_int, self.device) };
        match done {
            0 => value.unsigned_abs(),
            _ => 0,
        }
    }

    /// Its primary context, which libraries of a process share.
    pub(crate) fn context(&self) -> Answer<Primary> {
        let mut context: Context = std::ptr::null_mut();
        // SAFETY: it writes a pointer, which lives longer than the call.
        let done = unsafe { (self.api.retain)(&raw mut context, self.device) };
        self.api.check("cuDevicePrimaryCtxRetain", done)?;
        Ok(Primary {
            api: self.api.clone(),
            device: self.device,
            context: Shared(context),
            generation: hcq::process_generation(),
        })
    }
}

struct Shared(Context);

// SAFETY: a context is a name, which the library locks by itself: threads share it.
unsafe impl Send for Shared {}
// SAFETY: the same.
unsafe impl Sync for Shared {}

/// A primary context that is retained.
pub(crate) struct Primary {
    api: Arc<Api>,
    device: c_int,
    context: Shared,
    /// The process that has it.
    generation: u32,
}

impl Vendor for Primary {
    fn enter(&self) -> Answer<u64> {
        // SAFETY: the context is retained.
        let done = unsafe { (self.api.push)(self.context.0) };
        self.api.check("cuCtxPushCurrent_v2", done)?;
        Ok(0)
    }

    fn leave(&self, _: u64) {
        let mut popped: Context = std::ptr::null_mut();
        // SAFETY: `enter` has pushed one in this thread; it writes a pointer, which lives longer than the call.
        let done = unsafe { (self.api.pop)(&raw mut popped) };
        if done != 0 {
            tracing::debug!(done, "cuCtxPopCurrent_v2");
        }
    }

    fn refusal(&self, call: &'static str, code: i32) -> Refusal {
        self.api.refusal(call, code)
    }

    fn join(&self, other: &dyn Vendor) -> bool {
        let Some(other) = other.as_any().downcast_ref::<Primary>() else {
            return false;
        };
        let mut can: c_int = 0;
        // SAFETY: it writes a number, which lives longer than the call.
        let asked = unsafe { (self.api.can_reach)(&raw mut can, self.device, other.device) };
        if asked != 0 || can == 0 || self.enter().is_err() {
            return false;
        }
        // SAFETY: both contexts are retained; flags are 0, as the manual asks.
        let done = unsafe { (self.api.reach)(other.context.0, 0) };
        self.leave(0);
        done == 0 || done == ALREADY_ENABLED
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // A fork has no context: it is the parent's.
        if self.generation != hcq::process_generation() {
            return;
        }
        // SAFETY: it was retained once, and all of ours that uses it keeps this. It ends if no other library has it.
        let done = unsafe { (self.api.release)(self.device) };
        if done != 0 {
            tracing::debug!(done, "cuDevicePrimaryCtxRelease_v2");
        }
    }
}
