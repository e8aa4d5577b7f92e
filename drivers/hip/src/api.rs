//! The functions of `libamdhip64` that find GPUs; those that use a GPU are [`drivers_runtime::calls`]'.
//!
//! Unsafe module: foreign functions are called by the types that the manual gives.
//!
//! Source: AMD, HIP API Reference 6.4, and `hip_runtime_api.h` of HIP 5.2.

use std::any::Any;
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

use drivers_runtime::calls::{Library, Names, Vendor};
use drivers_runtime::{Answer, NoLibrary, Refusal};

use crate::code::{hint, is_sticky};
use crate::link::linked;

/// The library's names, of ROCm 7, 6 and 5.
const LIBRARY: [&str; 4] = [
    "libamdhip64.so.7",
    "libamdhip64.so.6",
    "libamdhip64.so.5",
    "libamdhip64.so",
];

/// `hipErrorPeerAccessAlreadyEnabled`.
const ALREADY_ENABLED: c_int = 704;

/// `hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent`: the host sees what a kernel has written without a copy.
const HOST_FLAGS: c_uint = 0x4000_0003;

/// `hipDeviceAttributeMultiprocessorCount`.
const MULTIPROCESSORS: c_int = 63;

/// Where `hipDeviceProp_t` has `gcnArchName`: in that of `hipGetDevicePropertiesR0600` (ROCm 6 and later), and in the older one.
const ARCH_R0600: usize = 1160;
const ARCH_R0000: usize = 396;

/// More than either structure has: 1472 and 792 bytes.
const PROPERTIES: usize = 4096;

/// What uses a GPU.
pub(crate) const NAMES: Names = Names {
    alloc: "hipMalloc",
    free: "hipFree",
    host_alloc: "hipHostMalloc",
    host_free: "hipHostFree",
    host_register: "hipHostRegister",
    host_unregister: "hipHostUnregister",
    host_pointer: "hipHostGetDevicePointer",
    memory: "hipMemGetInfo",
    range: "hipMemGetAddressRange",
    copy: "hipMemcpyAsync",
    fill: "hipMemsetD32Async",
    write: "hipStreamWriteValue64",
    stream: "hipStreamCreateWithFlags",
    end_stream: "hipStreamDestroy",
    is_idle: "hipStreamQuery",
    event: "hipEventCreateWithFlags",
    end_event: "hipEventDestroy",
    record: "hipEventRecord",
    is_past: "hipEventQuery",
    elapsed: "hipEventElapsedTime",
    module: "hipModuleLoadData",
    end_module: "hipModuleUnload",
    function: "hipModuleGetFunction",
    attribute: "hipFuncGetAttribute",
    set_attribute: None,
    launch: "hipModuleLaunchKernel",
    copies_have_kinds: true,
    // `HIP_LAUNCH_PARAM_END`.
    end_of_extra: 3,
    host_flags: HOST_FLAGS,
};

type Text = unsafe extern "C" fn(c_int) -> *const c_char;

/// The library.
pub(crate) struct Api {
    library: Library,
    init: unsafe extern "C" fn(c_uint) -> c_int,
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    count: unsafe extern "C" fn(*mut c_int) -> c_int,
    name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    place: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    memory: unsafe extern "C" fn(*mut usize, c_int) -> c_int,
    attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int,
    properties: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    /// Where these have the name of the chip.
    arch_at: usize,
    current: unsafe extern "C" fn(*mut c_int) -> c_int,
    set_current: unsafe extern "C" fn(c_int) -> c_int,
    can_reach: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int,
    reach: unsafe extern "C" fn(c_int, c_uint) -> c_int,
    error_name: Text,
    error_text: Text,
}

impl Api {
    /// Loads the library.
    pub(crate) fn load() -> Result<Arc<Api>, NoLibrary> {
        let library = Library::find(&LIBRARY)?;
        // SAFETY: each field has the type that the manual gives the function of that name; `hipDevice_t` is an `int`.
        let api = unsafe {
            let newer = library.function("hipGetDevicePropertiesR0600");
            let (properties, arch_at) = match newer {
                Ok(newer) => (newer, ARCH_R0600),
                Err(_) => (library.function("hipGetDeviceProperties")?, ARCH_R0000),
            };
            Api {
                init: library.function("hipInit")?,
                version: library.function("hipRuntimeGetVersion")?,
                count: library.function("hipGetDeviceCount")?,
                name: library.function("hipDeviceGetName")?,
                place: library.function("hipDeviceGetPCIBusId")?,
                memory: library.function("hipDeviceTotalMem")?,
                attribute: library.function("hipDeviceGetAttribute")?,
                properties,
                arch_at,
                current: library.function("hipGetDevice")?,
                set_current: library.function("hipSetDevice")?,
                can_reach: library.function("hipDeviceCanAccessPeer")?,
                reach: library.function("hipDeviceEnablePeerAccess")?,
                error_name: library.function("hipGetErrorName")?,
                error_text: library.function("hipGetErrorString")?,
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
            // SAFETY: the library gives a text of its own, or nothing.
            let text = unsafe { of(code) };
            if text.is_null() {
                return String::new();
            }
            // SAFETY: it ends with a zero and stays.
            let text = unsafe { CStr::from_ptr(text) };
            text.to_string_lossy().into_owned()
        };
        let (name, text) = (text(self.error_name), text(self.error_text));
        Refusal {
            call,
            code,
            // Some releases give the name for the text.
            text: if text == name { String::new() } else { text },
            name,
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
        self.check("hipInit", unsafe { (self.init)(0) })
    }

    /// The version of HIP: 60443484 is 6.4.43484.
    pub(crate) fn version(&self) -> Answer<i32> {
        let mut version = 0;
        // SAFETY: it writes a number, which lives longer than the call.
        let done = unsafe { (self.version)(&raw mut version) };
        self.check("hipRuntimeGetVersion", done)?;
        Ok(version)
    }

    /// GPUs that the process may use.
    pub(crate) fn count(&self) -> Answer<u32> {
        let mut count = 0;
        // SAFETY: as above.
        let done = unsafe { (self.count)(&raw mut count) };
        self.check("hipGetDeviceCount", done)?;
        Ok(count.unsigned_abs())
    }

    fn text(
        &self,
        call: &'static str,
        of: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
        device: u32,
    ) -> Answer<String> {
        let mut text = [0u8; 256];
        // SAFETY: it writes at most as many bytes as it is told, with a zero at the end; a number that is too large is refused.
        let done = unsafe {
            of(
                text.as_mut_ptr().cast(),
                text.len() as c_int,
                device as c_int,
            )
        };
        self.check(call, done)?;
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// The product of a GPU.
    pub(crate) fn name(&self, device: u32) -> Answer<String> {
        self.text("hipDeviceGetName", self.name, device)
    }

    /// Where a GPU is on the bus.
    pub(crate) fn place(&self, device: u32) -> Answer<String> {
        let place = self.text("hipDeviceGetPCIBusId", self.place, device)?;
        Ok(place.to_ascii_lowercase())
    }

    /// Bytes of a GPU's memory.
    pub(crate) fn memory(&self, device: u32) -> Answer<u64> {
        let mut bytes = 0;
        // SAFETY: it writes a number, which lives longer than the call.
        let done = unsafe { (self.memory)(&raw mut bytes, device as c_int) };
        self.check("hipDeviceTotalMem", done)?;
        Ok(bytes as u64)
    }

    /// Processors of a GPU.
    pub(crate) fn units(&self, device: u32) -> Answer<u32> {
        let mut units: c_int = 0;
        // SAFETY: as above.
        let done = unsafe { (self.attribute)(&raw mut units, MULTIPROCESSORS, device as c_int) };
        self.check("hipDeviceGetAttribute", done)?;
        Ok(units.unsigned_abs())
    }

    /// The chip of a GPU, without its modes: `gfx942`.
    pub(crate) fn arch(&self, device: u32) -> Answer<String> {
        let mut properties = vec![0u64; PROPERTIES / 8];
        // SAFETY: the structure is smaller, and aligned to 8 bytes.
        let done = unsafe { (self.properties)(properties.as_mut_ptr().cast(), device as c_int) };
        self.check("hipGetDeviceProperties", done)?;
        let bytes = properties.iter().flat_map(|word| word.to_le_bytes());
        let name: Vec<u8> = bytes
            .skip(self.arch_at)
            .take(256)
            .take_while(|&b| b != 0)
            .collect();
        let name = String::from_utf8_lossy(&name);
        Ok(name.split(':').next().unwrap_or_default().into())
    }
}

/// A GPU that is used.
pub(crate) struct Used {
    pub(crate) api: Arc<Api>,
    pub(crate) device: c_int,
    /// Its chip.
    pub(crate) arch: String,
}

impl Vendor for Used {
    fn enter(&self) -> Answer<u64> {
        let mut before: c_int = 0;
        // SAFETY: it writes a number, which lives longer than the call.
        let done = unsafe { (self.api.current)(&raw mut before) };
        self.api.check("hipGetDevice", done)?;
        if before != self.device {
            // SAFETY: the GPU is there.
            self.api.check("hipSetDevice", unsafe {
                (self.api.set_current)(self.device)
            })?;
        }
        Ok(u64::from(before.unsigned_abs()))
    }

    fn leave(&self, before: u64) {
        let before = before as c_int;
        if before != self.device {
            // SAFETY: it was current.
            let done = unsafe { (self.api.set_current)(before) };
            if done != 0 {
                tracing::debug!(done, "hipSetDevice");
            }
        }
    }

    fn refusal(&self, call: &'static str, code: i32) -> Refusal {
        self.api.refusal(call, code)
    }

    fn image<'a>(&self, image: &'a [u8]) -> Answer<Cow<'a, [u8]>> {
        linked(image, &self.arch).map_err(|why| {
            Refusal::own("link", why, "Install the package libamd-comgr of your ROCm")
        })
    }

    fn join(&self, other: &dyn Vendor) -> bool {
        let Some(other) = other.as_any().downcast_ref::<Used>() else {
            return false;
        };
        let mut can: c_int = 0;
        // SAFETY: it writes a number, which lives longer than the call.
        let asked = unsafe { (self.api.can_reach)(&raw mut can, self.device, other.device) };
        let Ok(before) = self.enter() else {
            return false;
        };
        let done = match asked == 0 && can != 0 {
            // SAFETY: both are there; flags are 0, as the manual asks.
            true => unsafe { (self.api.reach)(other.device, 0) },
            false => c_int::MAX,
        };
        self.leave(before);
        done == 0 || done == ALREADY_ENABLED
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
