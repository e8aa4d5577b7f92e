//! The functions of a runtime's library, and the objects that they make.
//!
//! Unsafe module, for two reasons: foreign functions are called by their types of the vendor's manual, and memory of the
//! runtime becomes a [`View`]. Every handle is made here, used here, and destroyed once by the object that has it: no caller can pass
//! one that is not. Addresses that go to the device are the caller's: a wrong one is a fault of the device, except that a runtime
//! takes what it does not know for memory of this process. So callers check them first (`process`).
//!
//! Sources: NVIDIA, CUDA Driver API Reference Manual 12.4 (types and values of `cuda.h`); AMD, HIP API Reference 6.4.

use std::any::Any;
use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use hcq::mem::view::View;
use hcq::{Width, process_generation};

use crate::refusal::{Answer, Refusal};

/// A pointer of the vendor's.
type Handle = *mut c_void;

/// `CUDA_ERROR_OUT_OF_MEMORY`, `hipErrorOutOfMemory`.
const OUT_OF_MEMORY: c_int = 2;

/// `CUDA_ERROR_NOT_READY`, `hipErrorNotReady`.
const NOT_READY: c_int = 600;

/// `CU_STREAM_NON_BLOCKING`, `hipStreamNonBlocking`: the stream does not wait for the default one of others.
const NON_BLOCKING: c_uint = 1;

/// `CU_EVENT_DEFAULT`: the event has a time.
const TIMED: c_uint = 0;

/// `CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP`; HIP's have the same values.
const PORTABLE_AND_MAPPED: c_uint = 3;

/// `CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`, and HIP's.
const SHARED_SIZE_BYTES: c_int = 1;

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;

/// Shared memory that a launch may have without [`MAX_DYNAMIC_SHARED_SIZE_BYTES`].
const USUAL_SHARED_BYTES: u32 = 48 << 10;

/// `CU_LAUNCH_PARAM_BUFFER_POINTER` and `CU_LAUNCH_PARAM_BUFFER_SIZE`; HIP's have the same values.
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// `hipMemcpyDefault`: the runtime knows by the addresses where memory is.
const MEMCPY_DEFAULT: c_int = 4;

/// What differs between vendors.
pub trait Vendor: Send + Sync + 'static {
    /// Makes the GPU that of the calling thread, and gives what was before.
    ///
    /// # Errors
    /// What the runtime refuses.
    fn enter(&self) -> Answer<u64>;

    /// Restores what [`Vendor::enter`] found.
    fn leave(&self, before: u64);

    /// The refusal that a result stands for.
    fn refusal(&self, call: &'static str, code: i32) -> Refusal;

    /// An image as the runtime takes it.
    ///
    /// # Errors
    /// It cannot be made of this one.
    fn image<'a>(&self, image: &'a [u8]) -> Answer<Cow<'a, [u8]>> {
        Ok(Cow::Borrowed(image))
    }

    /// Whether kernels here may use memory of another GPU from now on.
    fn join(&self, other: &dyn Vendor) -> bool;

    /// Itself, for [`Vendor::join`].
    fn as_any(&self) -> &dyn Any;
}

/// A library that is loaded, to the end of the process: threads that it has started are code of it.
#[derive(Clone)]
pub struct Library {
    name: &'static str,
    loaded: Arc<std::mem::ManuallyDrop<libloading::Library>>,
}

/// A library that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoLibrary {
    /// None of the names is known to the system's loader.
    #[error("{0} is not installed")]
    Absent(String),
    /// It is there, and does not load.
    #[error("cannot load {name}: {why}")]
    Broken {
        /// Its name.
        name: String,
        /// The loader's text.
        why: String,
    },
    /// It has not all functions.
    #[error("{name} has no function {function}: it is older than what is supported")]
    Old {
        /// Its name.
        name: String,
        /// The first one that is missing.
        function: String,
    },
}

impl Library {
    /// The first of these names that the system's loader finds.
    ///
    /// # Errors
    /// [`NoLibrary::Absent`], [`NoLibrary::Broken`].
    pub fn find(names: &[&'static str]) -> Result<Library, NoLibrary> {
        for &name in names {
            // SAFETY: loading runs the initialisers of the vendor's library of that name, which asks nothing of its callers.
            match unsafe { libloading::Library::new(name) } {
                Ok(loaded) => {
                    let loaded = Arc::new(std::mem::ManuallyDrop::new(loaded));
                    return Ok(Library { name, loaded });
                }
                Err(error) => {
                    let why = error.to_string();
                    // The loader names the file first: another one is what this library needs.
                    let is_absent = why.starts_with(&format!("{name}: "))
                        && why.ends_with("No such file or directory");
                    if !is_absent {
                        let name = name.into();
                        return Err(NoLibrary::Broken { name, why });
                    }
                }
            }
        }
        Err(NoLibrary::Absent(names.join(" or ")))
    }

    /// The name that it was found by.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A function of it, by its name.
    ///
    /// # Safety
    /// `F` is an `unsafe extern "C" fn` of the type that the vendor documents for that name.
    ///
    /// # Errors
    /// [`NoLibrary::Old`].
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, NoLibrary> {
        // SAFETY: the caller's promise. The library is never unloaded.
        let found = unsafe { self.loaded.get::<F>(name.as_bytes()) };
        match found {
            Ok(function) => Ok(*function),
            Err(_) => Err(NoLibrary::Old {
                name: self.name.into(),
                function: name.into(),
            }),
        }
    }
}

/// The names of the functions that both vendors have, in the type of CUDA's.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The fields say what the functions do.
pub struct Names {
    pub alloc: &'static str,
    pub free: &'static str,
    pub host_alloc: &'static str,
    pub host_free: &'static str,
    pub host_register: &'static str,
    pub host_unregister: &'static str,
    pub host_pointer: &'static str,
    pub memory: &'static str,
    pub range: &'static str,
    pub copy: &'static str,
    pub fill: &'static str,
    pub write: &'static str,
    pub stream: &'static str,
    pub end_stream: &'static str,
    pub is_idle: &'static str,
    pub event: &'static str,
    pub end_event: &'static str,
    pub record: &'static str,
    pub is_past: &'static str,
    pub elapsed: &'static str,
    pub module: &'static str,
    pub end_module: &'static str,
    pub function: &'static str,
    pub attribute: &'static str,
    pub set_attribute: Option<&'static str>,
    pub launch: &'static str,
    /// Whether copies take a kind between the size and the stream.
    pub copies_have_kinds: bool,
    /// `CU_LAUNCH_PARAM_END`.
    pub end_of_extra: usize,
    /// Flags of `host_alloc`: memory that every GPU and the host see as it is.
    pub host_flags: c_uint,
}

#[derive(Clone, Copy)]
enum Copies {
    Plain(unsafe extern "C" fn(u64, u64, usize, Handle) -> c_int),
    Kind(unsafe extern "C" fn(u64, u64, usize, c_int, Handle) -> c_int),
}

type Launch = unsafe extern "C" fn(
    Handle,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    Handle,
    *mut Handle,
    *mut Handle,
) -> c_int;

struct Functions {
    alloc: unsafe extern "C" fn(*mut u64, usize) -> c_int,
    free: unsafe extern "C" fn(u64) -> c_int,
    host_alloc: unsafe extern "C" fn(*mut u64, usize, c_uint) -> c_int,
    host_free: unsafe extern "C" fn(u64) -> c_int,
    host_register: unsafe extern "C" fn(u64, usize, c_uint) -> c_int,
    host_unregister: unsafe extern "C" fn(u64) -> c_int,
    host_pointer: unsafe extern "C" fn(*mut u64, u64, c_uint) -> c_int,
    memory: unsafe extern "C" fn(*mut usize, *mut usize) -> c_int,
    range: unsafe extern "C" fn(*mut u64, *mut usize, u64) -> c_int,
    copy: Copies,
    fill: unsafe extern "C" fn(u64, c_uint, usize, Handle) -> c_int,
    write: Option<unsafe extern "C" fn(Handle, u64, u64, c_uint) -> c_int>,
    stream: unsafe extern "C" fn(*mut Handle, c_uint) -> c_int,
    end_stream: unsafe extern "C" fn(Handle) -> c_int,
    is_idle: unsafe extern "C" fn(Handle) -> c_int,
    event: unsafe extern "C" fn(*mut Handle, c_uint) -> c_int,
    end_event: unsafe extern "C" fn(Handle) -> c_int,
    record: unsafe extern "C" fn(Handle, Handle) -> c_int,
    is_past: unsafe extern "C" fn(Handle) -> c_int,
    elapsed: unsafe extern "C" fn(*mut f32, Handle, Handle) -> c_int,
    module: unsafe extern "C" fn(*mut Handle, *const c_void) -> c_int,
    end_module: unsafe extern "C" fn(Handle) -> c_int,
    function: unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> c_int,
    attribute: unsafe extern "C" fn(*mut c_int, c_int, Handle) -> c_int,
    set_attribute: Option<unsafe extern "C" fn(Handle, c_int, c_int) -> c_int>,
    launch: Launch,
}

impl Functions {
    fn of(library: &Library, names: &Names, can_write: bool) -> Result<Functions, NoLibrary> {
        // SAFETY: each field has the type that the manuals give the function of that name: `CUdeviceptr`, and HIP's pointers to
        // memory, are 64 bits; `CUstream` and its like are pointers; results are C enumerations.
        unsafe {
            let of = library;
            Ok(Functions {
                alloc: of.function(names.alloc)?,
                free: of.function(names.free)?,
                host_alloc: of.function(names.host_alloc)?,
                host_free: of.function(names.host_free)?,
                host_register: of.function(names.host_register)?,
                host_unregister: of.function(names.host_unregister)?,
                host_pointer: of.function(names.host_pointer)?,
                memory: of.function(names.memory)?,
                range: of.function(names.range)?,
                copy: match names.copies_have_kinds {
                    true => Copies::Kind(of.function(names.copy)?),
                    false => Copies::Plain(of.function(names.copy)?),
                },
                fill: of.function(names.fill)?,
                write: match can_write {
                    true => of.function(names.write).ok(),
                    false => None,
                },
                stream: of.function(names.stream)?,
                end_stream: of.function(names.end_stream)?,
                is_idle: of.function(names.is_idle)?,
                event: of.function(names.event)?,
                end_event: of.function(names.end_event)?,
                record: of.function(names.record)?,
                is_past: of.function(names.is_past)?,
                elapsed: of.function(names.elapsed)?,
                module: of.function(names.module)?,
                end_module: of.function(names.end_module)?,
                function: of.function(names.function)?,
                attribute: of.function(names.attribute)?,
                set_attribute: match names.set_attribute {
                    Some(name) => Some(of.function(name)?),
                    None => None,
                },
                launch: of.function(names.launch)?,
            })
        }
    }
}

/// One GPU, as the runtime gives it to this process.
pub struct Gpu {
    /// The process: a fork of it has none of what is made here.
    generation: u32,
    functions: Functions,
    names: Names,
    vendor: Box<dyn Vendor>,
}

impl Gpu {
    /// A GPU of a library. `can_write`: its streams write 64-bit values.
    ///
    /// # Errors
    /// [`NoLibrary::Old`].
    pub fn new(
        library: &Library,
        names: Names,
        can_write: bool,
        vendor: Box<dyn Vendor>,
    ) -> Result<Arc<Gpu>, NoLibrary> {
        let functions = Functions::of(library, &names, can_write)?;
        Ok(Arc::new(Gpu {
            generation: process_generation(),
            functions,
            names,
            vendor,
        }))
    }

    /// What differs between vendors.
    pub fn vendor(&self) -> &dyn Vendor {
        &*self.vendor
    }

    /// Whether streams write 64-bit values behind their work.
    pub fn can_write(&self) -> bool {
        self.functions.write.is_some()
    }

    /// Makes a call with the GPU current.
    fn call(&self, name: &'static str, call: impl FnOnce(&Functions) -> c_int) -> Answer<()> {
        let code = self.inside(name, call)?;
        self.check(name, code)
    }

    fn inside(&self, name: &'static str, call: impl FnOnce(&Functions) -> c_int) -> Answer<c_int> {
        if self.generation != process_generation() {
            let why = "the GPU was opened before a fork, by the parent".into();
            return Err(Refusal::own(
                name,
                why,
                "Open it in the process that uses it",
            ));
        }
        let before = self.vendor.enter()?;
        let code = call(&self.functions);
        self.vendor.leave(before);
        Ok(code)
    }

    /// The same for a question whose answer may be "not yet".
    fn ask(&self, name: &'static str, call: impl FnOnce(&Functions) -> c_int) -> Answer<bool> {
        match self.inside(name, call)? {
            NOT_READY => Ok(false),
            code => self.check(name, code).map(|()| true),
        }
    }

    fn check(&self, name: &'static str, code: c_int) -> Answer<()> {
        match code {
            0 => Ok(()),
            code => Err(Refusal {
                is_memory: code == OUT_OF_MEMORY,
                ..self.vendor.refusal(name, code)
            }),
        }
    }

    /// Bytes of memory that are free, and all.
    ///
    /// # Errors
    /// What the runtime refuses.
    pub fn memory(&self) -> Answer<(u64, u64)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: it writes both, which live longer than the call.
        self.call(self.names.memory, |f| unsafe {
            (f.memory)(&raw mut free, &raw mut total)
        })?;
        Ok((free as u64, total as u64))
    }

    /// The allocation of the runtime, by whomever it was made, that an address is in: its start and bytes.
    ///
    /// # Errors
    /// What the runtime refuses: it has no memory there.
    pub fn range(&self, at: u64) -> Answer<(u64, u64)> {
        let (mut start, mut bytes) = (0, 0);
        // SAFETY: it writes both, which live longer than the call, and looks the address up.
        self.call(self.names.range, |f| unsafe {
            (f.range)(&raw mut start, &raw mut bytes, at)
        })?;
        Ok((start, bytes as u64))
    }

    /// Memory of the GPU.
    ///
    /// # Errors
    /// What the runtime refuses.
    pub fn device_memory(self: &Arc<Gpu>, bytes: u64) -> Answer<Allocation> {
        let mut at = 0;
        // SAFETY: it writes the address, which lives longer than the call.
        self.call(self.names.alloc, |f| unsafe {
            (f.alloc)(&raw mut at, bytes as usize)
        })?;
        Ok(Allocation {
            gpu: self.clone(),
            at,
            heap: Heap::Device,
        })
    }

    /// Memory of the host that every GPU reaches at the host's address.
    ///
    /// # Errors
    /// What the runtime refuses.
    pub fn host_memory(self: &Arc<Gpu>, bytes: u64) -> Answer<(Arc<Allocation>, View)> {
        let mut at = 0;
        // SAFETY: it writes the address, which lives longer than the call.
        self.call(self.names.host_alloc, |f| unsafe {
            (f.host_alloc)(&raw mut at, bytes as usize, self.names.host_flags)
        })?;
        let allocation = Arc::new(Allocation {
            gpu: self.clone(),
            at,
            heap: Heap::Host,
        });
        let pointer = NonNull::new(std::ptr::with_exposed_provenance_mut(at as usize));
        // Success with nothing to show for it would be the vendor's mistake.
        let pointer =
            pointer.ok_or_else(|| self.vendor.refusal(self.names.host_alloc, OUT_OF_MEMORY))?;
        // SAFETY: the runtime has mapped so many bytes there for reads and writes, until the allocation is freed, which the view
        // keeps; nobody makes a reference to them.
        let view = unsafe { View::new(pointer, bytes as usize, allocation.clone()) };
        Ok((allocation, view))
    }

    /// Makes memory of this process, whole pages, memory that every GPU reaches at the same address.
    ///
    /// # Errors
    /// What the runtime refuses; a GPU that would have it at another address.
    pub fn register(self: &Arc<Gpu>, view: &View) -> Answer<Allocation> {
        let at = view.as_ptr().expose_provenance() as u64;
        // SAFETY: the view keeps the pages mapped, and the caller keeps it beside the allocation that unregisters them.
        self.call(self.names.host_register, |f| unsafe {
            (f.host_register)(at, view.len(), PORTABLE_AND_MAPPED)
        })?;
        let allocation = Allocation {
            gpu: self.clone(),
            at,
            heap: Heap::Registered(view.clone()),
        };
        let mut there = 0;
        // SAFETY: it writes the address, which lives longer than the call.
        self.call(self.names.host_pointer, |f| unsafe {
            (f.host_pointer)(&raw mut there, at, 0)
        })?;
        match there == at {
            true => Ok(allocation),
            false => Err(Refusal::own(
                self.names.host_pointer,
                format!("address {there:#x}, expected {at:#x}"),
                "This GPU has pages of the process at another address: allocate a buffer and copy",
            )),
        }
    }

    /// A stream.
    ///
    /// # Errors
    /// What the runtime refuses.
    pub fn stream(self: &Arc<Gpu>) -> Answer<Stream> {
        let mut raw: Handle = std::ptr::null_mut();
        // SAFETY: it writes the handle, which lives longer than the call.
        self.call(self.names.stream, |f| unsafe {
            (f.stream)(&raw mut raw, NON_BLOCKING)
        })?;
        Ok(Stream {
            gpu: self.clone(),
            raw: Raw(raw),
        })
    }

    /// A timed event.
    ///
    /// # Errors
    /// What the runtime refuses.
    pub fn event(self: &Arc<Gpu>) -> Answer<Event> {
        let mut raw: Handle = std::ptr::null_mut();
        // SAFETY: it writes the handle, which lives longer than the call.
        self.call(self.names.event, |f| unsafe {
            (f.event)(&raw mut raw, TIMED)
        })?;
        Ok(Event {
            gpu: self.clone(),
            raw: Raw(raw),
        })
    }

    /// A kernel of an image, which needs `shared_bytes` of shared memory for each group. Text is given a zero at its end, as the
    /// runtime's compiler expects.
    ///
    /// # Errors
    /// What the runtime refuses: an image that is for another GPU, or has no such kernel.
    pub fn load(
        self: &Arc<Gpu>,
        image: &[u8],
        entry: &CStr,
        shared_bytes: u32,
    ) -> Answer<Function> {
        let image = self.vendor.image(image)?;
        let text = match image.starts_with(b"\x7fELF") {
            true => None,
            // An inner zero would end it: the rest is not looked at.
            false => Some(
                CString::new(image.split(|&b| b == 0).next().unwrap_or_default())
                    .unwrap_or_default(),
            ),
        };
        let start = match &text {
            Some(text) => text.as_ptr().cast::<c_void>(),
            None => image.as_ptr().cast::<c_void>(),
        };
        let mut raw: Handle = std::ptr::null_mut();
        // SAFETY: it writes the handle, and reads an image that ends by its own headers or its zero. An image is trusted like any code:
        // it comes of our compiler.
        self.call(self.names.module, |f| unsafe {
            (f.module)(&raw mut raw, start)
        })?;
        let module = Module {
            gpu: self.clone(),
            raw: Raw(raw),
        };
        let mut function: Handle = std::ptr::null_mut();
        // SAFETY: the module is loaded; the name ends with a zero.
        self.call(self.names.function, |f| unsafe {
            (f.function)(&raw mut function, module.raw.0, entry.as_ptr())
        })?;
        let mut fixed: c_int = 0;
        // SAFETY: it writes the number; the function is the module's.
        self.call(self.names.attribute, |f| unsafe {
            (f.attribute)(&raw mut fixed, SHARED_SIZE_BYTES, function)
        })?;
        let dynamic = shared_bytes.saturating_sub(fixed.unsigned_abs());
        if dynamic > 0 && shared_bytes > USUAL_SHARED_BYTES {
            self.call(self.names.attribute, |f| match f.set_attribute {
                // SAFETY: the function is the module's; the call takes a number.
                Some(set) => unsafe {
                    set(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic as c_int)
                },
                None => 0,
            })?;
        }
        Ok(Function {
            raw: Raw(function),
            dynamic,
            module,
        })
    }
}

/// A handle. The runtimes take any handle in any thread.
///
/// Source: CUDA C++ Programming Guide, Driver API, Context: contexts, and what is made in them, are shared by threads.
struct Raw(Handle);

// SAFETY: see above: it is a name, which the library locks by itself.
unsafe impl Send for Raw {}
// SAFETY: the same.
unsafe impl Sync for Raw {}

enum Heap {
    Device,
    Host,
    /// Keeps the pages mapped.
    Registered(#[allow(dead_code)] View),
}

/// Memory; dropping it frees it.
pub struct Allocation {
    gpu: Arc<Gpu>,
    at: u64,
    heap: Heap,
}

impl Allocation {
    /// Where it is.
    pub fn at(&self) -> u64 {
        self.at
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let names = &self.gpu.names;
        let at = self.at;
        // Each was made by the function's counterpart, and is freed once.
        let freed = match self.heap {
            // SAFETY: as above.
            Heap::Device => self.gpu.call(names.free, |f| unsafe { (f.free)(at) }),
            Heap::Host => {
                let free = names.host_free;
                // SAFETY: as above.
                self.gpu.call(free, |f| unsafe { (f.host_free)(at) })
            }
            Heap::Registered(_) => {
                let free = names.host_unregister;
                // SAFETY: as above.
                self.gpu.call(free, |f| unsafe { (f.host_unregister)(at) })
            }
        };
        // A context that is lost has freed it.
        if let Err(refusal) = freed {
            tracing::debug!(%refusal, at, "memory was not freed");
        }
    }
}

struct Module {
    gpu: Arc<Gpu>,
    raw: Raw,
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it is loaded, and is unloaded once.
        let ended = self.gpu.call(self.gpu.names.end_module, |f| unsafe {
            (f.end_module)(self.raw.0)
        });
        if let Err(refusal) = ended {
            tracing::debug!(%refusal, "a module was not unloaded");
        }
    }
}

/// A kernel.
pub struct Function {
    raw: Raw,
    /// Bytes of shared memory beside what it has of its own.
    dynamic: u32,
    // Kept loaded.
    module: Module,
}

impl Function {
    /// Whether it is of that GPU.
    fn is_of(&self, gpu: &Arc<Gpu>) -> bool {
        Arc::ptr_eq(&self.module.gpu, gpu)
    }
}

/// A stream: its calls are done in order.
pub struct Stream {
    gpu: Arc<Gpu>,
    raw: Raw,
}

impl Stream {
    /// Its GPU.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Runs a kernel with a block of arguments, of which it takes so many bytes.
    ///
    /// # Errors
    /// What the runtime refuses.
    pub fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        block: [u32; 3],
        (arguments, bytes): (&[u64], usize),
    ) -> Answer<()> {
        let names = &self.gpu.names;
        if !function.is_of(&self.gpu) {
            let why = "a kernel of another GPU".into();
            return Err(Refusal::own(names.launch, why, "Load it on this device"));
        }
        let mut bytes = bytes.min(size_of_val(arguments));
        let mut extra: [Handle; 5] = [
            std::ptr::without_provenance_mut(BUFFER_POINTER),
            arguments.as_ptr().cast_mut().cast(),
            std::ptr::without_provenance_mut(BUFFER_SIZE),
            (&raw mut bytes).cast(),
            std::ptr::without_provenance_mut(names.end_of_extra),
        ];
        let extra: *mut Handle = match arguments.is_empty() {
            true => std::ptr::null_mut(),
            false => extra.as_mut_ptr(),
        };
        // SAFETY: the function is loaded on this GPU. The runtime copies the arguments, which it does not write, before it returns.
        self.gpu.call(names.launch, |f| unsafe {
            (f.launch)(
                function.raw.0,
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                function.dynamic,
                self.raw.0,
                std::ptr::null_mut(),
                extra,
            )
        })
    }

    /// Copies. Both places are memory that the runtime knows: the caller has checked that.
    ///
    /// # Errors
    /// What the runtime refuses.
    pub(crate) fn copy(&self, dst: u64, src: u64, bytes: u64) -> Answer<()> {
        // SAFETY: the caller's check: the runtime writes no memory that it has not allocated or registered.
        self.gpu.call(self.gpu.names.copy, |f| unsafe {
            match f.copy {
                Copies::Plain(copy) => copy(dst, src, bytes as usize, self.raw.0),
                Copies::Kind(copy) => copy(dst, src, bytes as usize, MEMCPY_DEFAULT, self.raw.0),
            }
        })
    }

    /// Fills words of 4 bytes, which the caller has checked as in [`Stream::copy`].
    ///
    /// # Errors
    /// What the runtime refuses.
    pub(crate) fn fill(&self, at: u64, value: u32, words: u64) -> Answer<()> {
        // SAFETY: as in `copy`.
        self.gpu.call(self.gpu.names.fill, |f| unsafe {
            (f.fill)(at, value, words as usize, self.raw.0)
        })
    }

    /// Writes a word behind all work so far, which is visible to the host and to all GPUs by then. The caller has checked the place as in
    /// [`Stream::copy`].
    ///
    /// # Errors
    /// What the runtime refuses.
    pub(crate) fn write(&self, at: u64, value: u64, width: Width) -> Answer<()> {
        match (width, self.gpu.functions.write) {
            // SAFETY: as in `copy`. Flag 0 is a write behind a barrier of the whole system.
            (Width::W64, Some(write)) => self.gpu.call(self.gpu.names.write, |_| unsafe {
                write(self.raw.0, at, value, 0)
            }),
            (Width::W64, None) => {
                self.fill(at, value as u32, 1)?;
                self.fill(at + 4, (value >> 32) as u32, 1)
            }
            (Width::W32, _) => self.fill(at, value as u32, 1),
        }
    }

    /// Whether all of it is done.
    ///
    /// # Errors
    /// A fault of its work.
    pub fn is_idle(&self) -> Answer<bool> {
        // SAFETY: the stream is there.
        self.gpu.ask(self.gpu.names.is_idle, |f| unsafe {
            (f.is_idle)(self.raw.0)
        })
    }

    /// Records an event behind all work so far.
    ///
    /// # Errors
    /// What the runtime refuses.
    pub fn record(&self, event: &Event) -> Answer<()> {
        // SAFETY: both are there.
        self.gpu.call(self.gpu.names.record, |f| unsafe {
            (f.record)(event.raw.0, self.raw.0)
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: it is there, and is destroyed once; work that is left is done all the same.
        let ended = self.gpu.call(self.gpu.names.end_stream, |f| unsafe {
            (f.end_stream)(self.raw.0)
        });
        if let Err(refusal) = ended {
            tracing::debug!(%refusal, "a stream was not destroyed");
        }
    }
}

/// A moment of a stream.
pub struct Event {
    gpu: Arc<Gpu>,
    raw: Raw,
}

impl Event {
    /// Whether it is over.
    ///
    /// # Errors
    /// A fault of the work before it.
    pub fn is_past(&self) -> Answer<bool> {
        // SAFETY: the event is there.
        self.gpu.ask(self.gpu.names.is_past, |f| unsafe {
            (f.is_past)(self.raw.0)
        })
    }

    /// Milliseconds since another one; both are over.
    ///
    /// # Errors
    /// What the runtime refuses.
    pub fn since(&self, earlier: &Event) -> Answer<f32> {
        let mut elapsed = 0.0;
        // SAFETY: both are there; it writes the number, which lives longer than the call.
        self.gpu.call(self.gpu.names.elapsed, |f| unsafe {
            (f.elapsed)(&raw mut elapsed, earlier.raw.0, self.raw.0)
        })?;
        Ok(elapsed)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it is there, and is destroyed once.
        let ended = self.gpu.call(self.gpu.names.end_event, |f| unsafe {
            (f.end_event)(self.raw.0)
        });
        if let Err(refusal) = ended {
            tracing::debug!(%refusal, "an event was not destroyed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_absent() {
        let names = ["libnothing-of-this-name.so.1", "libnor-of-this.so"];
        let error = Library::find(&names).err();
        let expected = "libnothing-of-this-name.so.1 or libnor-of-this.so is not installed";
        assert_eq!(error.map(|e| e.to_string()).as_deref(), Some(expected));
    }

    #[test]
    fn a_function_that_is_not_there_is_named() {
        let library = Library::find(&["libc.so.6"]).unwrap();
        // SAFETY: it is not called.
        let found = unsafe { library.function::<unsafe extern "C" fn()>("cuNothing") };
        let error = found.err().map(|e| e.to_string());
        let expected = "libc.so.6 has no function cuNothing: it is older than what is supported";
        assert_eq!(error.as_deref(), Some(expected));
    }
}
