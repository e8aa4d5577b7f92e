//! The library of OpenCL: its functions, and objects that are released when they are dropped.
//!
//! Unsafe module. Its invariants:
//!
//! * The functions have the types of `CL/cl.h`, and the library stays loaded to the end of the process.
//! * A [`Handle`] came from the library. An [`Object`] has one reference, which it gives back once; what it was made of is
//!   kept by the library.
//! * Functions of OpenCL may be called from any thread, but for `clSetKernelArg` on one kernel (OpenCL API 1.2, appendix
//!   A.2): a kernel is behind a lock from its arguments to its launch ([`crate::program`]).
//! * Addresses of the process that commands use stay until those are done: who calls the functions that take them says so.
//!
//! Source: Khronos, "The OpenCL API Specification" 1.2, and `CL/cl.h` for its numbers.

use std::ffi::{CString, c_char, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use libloading::Library;

use crate::status::Failed;

type Raw = *mut c_void;
type Status = i32;

/// A pointer of the library, that only it looks behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handle(Raw);

// SAFETY: a number for who is not the library, whose functions may be called from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// As the bytes of a kernel's argument.
    pub(crate) fn bytes(self) -> [u8; size_of::<usize>()] {
        (self.0 as usize).to_ne_bytes()
    }
}

macro_rules! functions {
    ($($name:ident($($arg:ty),*) -> $ret:ty;)*) => {
        #[allow(non_snake_case, reason = "names are Khronos's")]
        struct Functions {
            $($name: unsafe extern "C" fn($($arg),*) -> $ret,)*
        }

        impl Functions {
            fn of(library: &Library) -> Result<Functions, libloading::Error> {
                // SAFETY: the types are those of `CL/cl.h`; the library is never unloaded.
                unsafe {
                    Ok(Functions {
                        $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)*
                    })
                }
            }
        }
    };
}

functions! {
    clGetPlatformIDs(u32, *mut Raw, *mut u32) -> Status;
    clGetPlatformInfo(Raw, u32, usize, Raw, *mut usize) -> Status;
    clGetDeviceIDs(Raw, u64, u32, *mut Raw, *mut u32) -> Status;
    clGetDeviceInfo(Raw, u32, usize, Raw, *mut usize) -> Status;
    clCreateContext(*const isize, u32, *const Raw, *const c_void, Raw, *mut Status) -> Raw;
    clReleaseContext(Raw) -> Status;
    clCreateCommandQueue(Raw, Raw, u64, *mut Status) -> Raw;
    clReleaseCommandQueue(Raw) -> Status;
    clCreateBuffer(Raw, u64, usize, Raw, *mut Status) -> Raw;
    clReleaseMemObject(Raw) -> Status;
    clCreateProgramWithSource(Raw, u32, *const *const c_char, *const usize, *mut Status) -> Raw;
    clBuildProgram(Raw, u32, *const Raw, *const c_char, *const c_void, Raw) -> Status;
    clCreateProgramWithBinary(Raw, u32, *const Raw, *const usize, *const *const u8, *mut Status, *mut Status) -> Raw;
    clGetProgramInfo(Raw, u32, usize, Raw, *mut usize) -> Status;
    clGetProgramBuildInfo(Raw, Raw, u32, usize, Raw, *mut usize) -> Status;
    clReleaseProgram(Raw) -> Status;
    clCreateKernel(Raw, *const c_char, *mut Status) -> Raw;
    clReleaseKernel(Raw) -> Status;
    clSetKernelArg(Raw, u32, usize, *const c_void) -> Status;
    clGetKernelInfo(Raw, u32, usize, Raw, *mut usize) -> Status;
    clGetKernelWorkGroupInfo(Raw, Raw, u32, usize, Raw, *mut usize) -> Status;
    clEnqueueNDRangeKernel(Raw, Raw, u32, *const usize, *const usize, *const usize, u32, *const Raw, *mut Raw) -> Status;
    clEnqueueReadBuffer(Raw, Raw, u32, usize, usize, Raw, u32, *const Raw, *mut Raw) -> Status;
    clEnqueueWriteBuffer(Raw, Raw, u32, usize, usize, *const c_void, u32, *const Raw, *mut Raw) -> Status;
    clEnqueueCopyBuffer(Raw, Raw, Raw, usize, usize, usize, u32, *const Raw, *mut Raw) -> Status;
    clEnqueueFillBuffer(Raw, Raw, *const c_void, usize, usize, usize, u32, *const Raw, *mut Raw) -> Status;
    clEnqueueMapBuffer(Raw, Raw, u32, u64, usize, usize, u32, *const Raw, *mut Raw, *mut Status) -> Raw;
    clEnqueueUnmapMemObject(Raw, Raw, Raw, u32, *const Raw, *mut Raw) -> Status;
    clEnqueueMarkerWithWaitList(Raw, u32, *const Raw, *mut Raw) -> Status;
    clGetEventInfo(Raw, u32, usize, Raw, *mut usize) -> Status;
    clWaitForEvents(u32, *const Raw) -> Status;
    clReleaseEvent(Raw) -> Status;
    clFlush(Raw) -> Status;
}

const DEVICE_TYPE_ALL: u64 = 0xffff_ffff;
const CONTEXT_PLATFORM: isize = 0x1084;
const MEM_READ_WRITE: u64 = 1;
const MEM_USE_HOST_PTR: u64 = 1 << 3;
const MAP_READ: u64 = 1;
const MAP_WRITE_INVALIDATE: u64 = 1 << 2;
const PROGRAM_BINARY_SIZES: u32 = 0x1165;
const PROGRAM_BINARIES: u32 = 0x1166;
const PROGRAM_BUILD_LOG: u32 = 0x1183;
const KERNEL_NUM_ARGS: u32 = 0x1191;
const KERNEL_WORK_GROUP_SIZE: u32 = 0x11b0;
const KERNEL_COMPILE_WORK_GROUP_SIZE: u32 = 0x11b1;
const EVENT_COMMAND_EXECUTION_STATUS: u32 = 0x11d3;

/// Things of a kind that a list may have.
const MOST: u32 = 64;
/// Bytes of a text that the library has at most.
const MOST_BYTES: usize = 16 << 20;
/// The end of a build log that errors show.
const LOG_BYTES: usize = 4000;

/// What a call gives.
pub(crate) type Called<T> = Result<T, Failed>;

fn check(call: &'static str, status: Status) -> Called<()> {
    match status {
        0 => Ok(()),
        status => Err(Failed {
            call,
            status,
            detail: String::new(),
        }),
    }
}

/// A library of OpenCL: a vendor's, or the loader of several.
pub(crate) struct Api {
    f: Functions,
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The process that has loaded it: in a fork it has no threads.
    generation: u32,
    // Threads that it has started are code of it.
    _library: ManuallyDrop<Library>,
}

/// What an object is, for its release.
#[derive(Clone, Copy)]
enum Kind {
    Context,
    Queue,
    Memory,
    Program,
    Kernel,
    Event,
}

/// An object of the library, released when dropped.
pub(crate) struct Object {
    api: Arc<Api>,
    handle: Handle,
    kind: Kind,
}

impl Object {
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if self.api.generation != hcq::process_generation() {
            return;
        }
        let f = &self.api.f;
        let release = match self.kind {
            Kind::Context => f.clReleaseContext,
            Kind::Queue => f.clReleaseCommandQueue,
            Kind::Memory => f.clReleaseMemObject,
            Kind::Program => f.clReleaseProgram,
            Kind::Kernel => f.clReleaseKernel,
            Kind::Event => f.clReleaseEvent,
        };
        // SAFETY: the handle came from the library, with one reference, which is given back here.
        unsafe { release(self.handle.0) };
    }
}

/// Asks for the size of something, then for its bytes.
fn bytes(call: &'static str, ask: impl Fn(usize, Raw, *mut usize) -> Status) -> Called<Vec<u8>> {
    let mut size = 0;
    check(call, ask(0, null_mut(), &mut size))?;
    if size > MOST_BYTES {
        let detail = format!(": {size} bytes, expected at most {MOST_BYTES}");
        return Err(Failed {
            call,
            status: 0,
            detail,
        });
    }
    let mut out = vec![0u8; size];
    check(call, ask(size, out.as_mut_ptr().cast(), null_mut()))?;
    Ok(out)
}

fn text(call: &'static str, ask: impl Fn(usize, Raw, *mut usize) -> Status) -> Called<String> {
    let bytes = bytes(call, ask)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_end_matches('\0').trim().to_owned())
}

/// A number of 4 or 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    let mut out = [0; 8];
    out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(out)
}

impl Api {
    /// Loads a library.
    pub(crate) fn load(path: &Path) -> Result<Arc<Api>, String> {
        // SAFETY: loading runs the initialisers of the library, which is the one of that name.
        let library = unsafe { Library::new(path) }.map_err(|e| e.to_string())?;
        let f = Functions::of(&library)
            .map_err(|e| format!("{} has not all of OpenCL 1.2: {e}", path.display()))?;
        Ok(Arc::new(Api {
            f,
            path: path.into(),
            generation: hcq::process_generation(),
            _library: ManuallyDrop::new(library),
        }))
    }

    fn object(self: &Arc<Self>, kind: Kind, raw: Raw) -> Object {
        Object {
            api: self.clone(),
            handle: Handle(raw),
            kind,
        }
    }

    pub(crate) fn platforms(&self) -> Called<Vec<Handle>> {
        let mut list = [null_mut(); MOST as usize];
        let mut count = 0;
        // SAFETY: there is room for as many as the first argument says.
        let status = unsafe { (self.f.clGetPlatformIDs)(MOST, list.as_mut_ptr(), &mut count) };
        // The loader of several, without any.
        if status == -1001 {
            return Ok(Vec::new());
        }
        check("clGetPlatformIDs", status)?;
        Ok(list
            .iter()
            .take(count as usize)
            .map(|&raw| Handle(raw))
            .collect())
    }

    pub(crate) fn platform_text(&self, platform: Handle, what: u32) -> Called<String> {
        text("clGetPlatformInfo", |size, to, needed| {
            // SAFETY: the platform came from the library; pointers are null or to as many bytes as the size says.
            unsafe { (self.f.clGetPlatformInfo)(platform.0, what, size, to, needed) }
        })
    }

    pub(crate) fn devices(&self, platform: Handle) -> Called<Vec<Handle>> {
        let mut list = [null_mut(); MOST as usize];
        let mut count = 0;
        // SAFETY: there is room for as many as the argument says.
        let status = unsafe {
            (self.f.clGetDeviceIDs)(
                platform.0,
                DEVICE_TYPE_ALL,
                MOST,
                list.as_mut_ptr(),
                &mut count,
            )
        };
        if status == -1 {
            return Ok(Vec::new());
        }
        check("clGetDeviceIDs", status)?;
        Ok(list
            .iter()
            .take(count as usize)
            .map(|&raw| Handle(raw))
            .collect())
    }

    pub(crate) fn device_bytes(&self, device: Handle, what: u32) -> Called<Vec<u8>> {
        bytes("clGetDeviceInfo", |size, to, needed| {
            // SAFETY: the device came from the library; pointers are null or to as many bytes as the size says.
            unsafe { (self.f.clGetDeviceInfo)(device.0, what, size, to, needed) }
        })
    }

    pub(crate) fn device_text(&self, device: Handle, what: u32) -> Called<String> {
        let bytes = self.device_bytes(device, what)?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.trim_end_matches('\0').trim().to_owned())
    }

    pub(crate) fn device_number(&self, device: Handle, what: u32) -> Called<u64> {
        Ok(number(&self.device_bytes(device, what)?))
    }

    pub(crate) fn context(self: &Arc<Self>, platform: Handle, device: Handle) -> Called<Object> {
        let properties = [CONTEXT_PLATFORM, platform.0 as isize, 0];
        let mut made = 0;
        // SAFETY: the list of properties ends with 0; one device; no function is to be called.
        let raw = unsafe {
            let list = properties.as_ptr();
            (self.f.clCreateContext)(list, 1, &device.0, null(), null_mut(), &mut made)
        };
        check("clCreateContext", made)?;
        Ok(self.object(Kind::Context, raw))
    }

    /// A queue that does what it is given in order.
    pub(crate) fn queue(self: &Arc<Self>, context: &Object, device: Handle) -> Called<Object> {
        let mut made = 0;
        // SAFETY: context and device are alive.
        let raw =
            unsafe { (self.f.clCreateCommandQueue)(context.handle.0, device.0, 0, &mut made) };
        check("clCreateCommandQueue", made)?;
        Ok(self.object(Kind::Queue, raw))
    }

    /// Memory of a device.
    pub(crate) fn memory(self: &Arc<Self>, context: &Object, bytes: usize) -> Called<Object> {
        let mut made = 0;
        // SAFETY: the context is alive; no memory of the process is given.
        let raw = unsafe {
            let f = self.f.clCreateBuffer;
            f(
                context.handle.0,
                MEM_READ_WRITE,
                bytes,
                null_mut(),
                &mut made,
            )
        };
        check("clCreateBuffer", made)?;
        Ok(self.object(Kind::Memory, raw))
    }

    /// Memory of the process as memory of a device.
    ///
    /// # Safety
    /// There are so many bytes, until all commands that use the object are done.
    pub(crate) unsafe fn host_memory(
        self: &Arc<Self>,
        context: &Object,
        at: u64,
        bytes: usize,
    ) -> Called<Object> {
        let mut made = 0;
        // SAFETY: the context is alive; the caller keeps the bytes.
        let raw = unsafe {
            let f = self.f.clCreateBuffer;
            let flags = MEM_READ_WRITE | MEM_USE_HOST_PTR;
            f(
                context.handle.0,
                flags,
                bytes,
                at as usize as Raw,
                &mut made,
            )
        };
        check("clCreateBuffer (CL_MEM_USE_HOST_PTR)", made)?;
        Ok(self.object(Kind::Memory, raw))
    }

    /// A program, built; a failure has the build log.
    pub(crate) fn program(
        self: &Arc<Self>,
        context: &Object,
        device: Handle,
        source: &CString,
        options: &CString,
    ) -> Called<Object> {
        let (pointer, length) = (source.as_ptr(), source.as_bytes().len());
        let mut made = 0;
        // SAFETY: one string of that length, which the library copies.
        let raw = unsafe {
            let f = self.f.clCreateProgramWithSource;
            f(context.handle.0, 1, &pointer, &length, &mut made)
        };
        check("clCreateProgramWithSource", made)?;
        let program = self.object(Kind::Program, raw);
        // SAFETY: program and device are alive, the options are a string; no function is to be called, so it returns when
        // the program is built.
        let status = unsafe {
            let f = self.f.clBuildProgram;
            f(raw, 1, &device.0, options.as_ptr(), null(), null_mut())
        };
        check("clBuildProgram", status).map_err(|failed| {
            let log = text("clGetProgramBuildInfo", |size, to, needed| {
                let f = self.f.clGetProgramBuildInfo;
                // SAFETY: program and device are alive; pointers are null or to as many bytes as the size says.
                unsafe { f(raw, device.0, PROGRAM_BUILD_LOG, size, to, needed) }
            });
            let log = log.unwrap_or_else(|e| e.to_string());
            let mut from = log.len().saturating_sub(LOG_BYTES);
            while !log.is_char_boundary(from) {
                from += 1;
            }
            let detail = format!("; build log:\n{}", &log[from..]);
            Failed { detail, ..failed }
        })?;
        Ok(program)
    }

    /// A program of what [`Api::binary`] has given, built.
    pub(crate) fn program_of_binary(
        self: &Arc<Self>,
        context: &Object,
        device: Handle,
        binary: &[u8],
        options: &CString,
    ) -> Called<Object> {
        let (pointer, length) = (binary.as_ptr(), binary.len());
        let (mut loaded, mut made) = (0, 0);
        // SAFETY: one device, one binary of that length, which the library copies and checks.
        let raw = unsafe {
            let f = self.f.clCreateProgramWithBinary;
            f(
                context.handle.0,
                1,
                &device.0,
                &length,
                &pointer,
                &mut loaded,
                &mut made,
            )
        };
        check("clCreateProgramWithBinary", made)?;
        let program = self.object(Kind::Program, raw);
        check("clCreateProgramWithBinary", loaded)?;
        // SAFETY: as in `Api::program`.
        check("clBuildProgram", unsafe {
            let f = self.f.clBuildProgram;
            f(raw, 1, &device.0, options.as_ptr(), null(), null_mut())
        })?;
        Ok(program)
    }

    /// What a library has made of a program, which has one device.
    pub(crate) fn binary(&self, program: &Object) -> Called<Vec<u8>> {
        const CALL: &str = "clGetProgramInfo";
        let f = self.f.clGetProgramInfo;
        let sizes = bytes(CALL, |size, to, needed| {
            // SAFETY: the program is alive; pointers are null or to as many bytes as the size says.
            unsafe { f(program.handle.0, PROGRAM_BINARY_SIZES, size, to, needed) }
        })?;
        let size = number(&sizes);
        if sizes.len() != size_of::<usize>() || size == 0 || size > MOST_BYTES as u64 {
            let detail = format!(": {size} bytes, expected one binary of at most {MOST_BYTES}");
            return Err(Failed {
                call: CALL,
                status: 0,
                detail,
            });
        }
        let mut binary = vec![0u8; size as usize];
        let mut to = binary.as_mut_ptr();
        // SAFETY: a list of one pointer, with room for as many bytes as the library said.
        check(CALL, unsafe {
            let list = (&raw mut to).cast();
            let room = size_of::<*mut u8>();
            f(program.handle.0, PROGRAM_BINARIES, room, list, null_mut())
        })?;
        Ok(binary)
    }

    pub(crate) fn kernel(self: &Arc<Self>, program: &Object, name: &CString) -> Called<Object> {
        let mut made = 0;
        // SAFETY: the program is alive and built, the name is a string.
        let raw = unsafe { (self.f.clCreateKernel)(program.handle.0, name.as_ptr(), &mut made) };
        check("clCreateKernel", made)?;
        Ok(self.object(Kind::Kernel, raw))
    }

    /// Parameters of a kernel; the size of a group that it was built for (zeros: for any); work-items of a group at most.
    pub(crate) fn shape(&self, kernel: &Object, device: Handle) -> Called<(u64, [u64; 3], u64)> {
        let k = kernel.handle.0;
        let count = bytes("clGetKernelInfo", |size, to, needed| {
            // SAFETY: the kernel is alive; pointers are null or to as many bytes as the size says.
            unsafe { (self.f.clGetKernelInfo)(k, KERNEL_NUM_ARGS, size, to, needed) }
        })?;
        let group = |what| {
            bytes("clGetKernelWorkGroupInfo", move |size, to, needed| {
                // SAFETY: kernel and device are alive; pointers are null or to as many bytes as the size says.
                unsafe { (self.f.clGetKernelWorkGroupInfo)(k, device.0, what, size, to, needed) }
            })
        };
        let built = group(KERNEL_COMPILE_WORK_GROUP_SIZE)?;
        let mut sizes = [0; 3];
        for (size, part) in sizes.iter_mut().zip(built.chunks(size_of::<usize>())) {
            *size = number(part);
        }
        Ok((
            number(&count),
            sizes,
            number(&group(KERNEL_WORK_GROUP_SIZE)?),
        ))
    }

    /// Sets an argument; the caller is the only one who uses the kernel.
    pub(crate) fn set(&self, kernel: &Object, index: u32, value: &[u8]) -> Called<()> {
        // SAFETY: the kernel is alive; as many bytes as are said, which the library copies.
        check("clSetKernelArg", unsafe {
            let value_at = value.as_ptr().cast();
            (self.f.clSetKernelArg)(kernel.handle.0, index, value.len(), value_at)
        })
    }

    /// Runs a kernel, whose arguments are set.
    pub(crate) fn launch(
        &self,
        queue: &Object,
        kernel: &Object,
        (all, group): (usize, usize),
    ) -> Called<()> {
        // SAFETY: queue and kernel are alive; one dimension; nothing is waited for, no event is made.
        check("clEnqueueNDRangeKernel", unsafe {
            let f = self.f.clEnqueueNDRangeKernel;
            let (queue, kernel) = (queue.handle.0, kernel.handle.0);
            f(
                queue,
                kernel,
                1,
                null(),
                &all,
                &group,
                0,
                null(),
                null_mut(),
            )
        })
    }

    /// Reads memory of a device into memory of the process.
    ///
    /// # Safety
    /// There are so many bytes at `to` until the command is done, and nobody else uses them.
    pub(crate) unsafe fn read(
        &self,
        queue: &Object,
        (memory, offset): (Handle, usize),
        to: u64,
        bytes: usize,
    ) -> Called<()> {
        // SAFETY: queue and object are alive; the caller keeps the bytes.
        check("clEnqueueReadBuffer", unsafe {
            let f = self.f.clEnqueueReadBuffer;
            let to = to as usize as Raw;
            f(
                queue.handle.0,
                memory.0,
                0,
                offset,
                bytes,
                to,
                0,
                null(),
                null_mut(),
            )
        })
    }

    /// Writes memory of the process to memory of a device.
    ///
    /// # Safety
    /// There are so many bytes at `from` until the command is done.
    pub(crate) unsafe fn write(
        &self,
        queue: &Object,
        (memory, offset): (Handle, usize),
        from: u64,
        bytes: usize,
    ) -> Called<()> {
        // SAFETY: queue and object are alive; the caller keeps the bytes.
        check("clEnqueueWriteBuffer", unsafe {
            let f = self.f.clEnqueueWriteBuffer;
            let from = from as usize as *const c_void;
            f(
                queue.handle.0,
                memory.0,
                0,
                offset,
                bytes,
                from,
                0,
                null(),
                null_mut(),
            )
        })
    }

    pub(crate) fn copy(
        &self,
        queue: &Object,
        (from, from_at): (Handle, usize),
        (to, to_at): (Handle, usize),
        bytes: usize,
    ) -> Called<()> {
        // SAFETY: queue and objects are alive; the library checks the ranges.
        check("clEnqueueCopyBuffer", unsafe {
            let f = self.f.clEnqueueCopyBuffer;
            f(
                queue.handle.0,
                from.0,
                to.0,
                from_at,
                to_at,
                bytes,
                0,
                null(),
                null_mut(),
            )
        })
    }

    pub(crate) fn fill(
        &self,
        queue: &Object,
        (memory, offset): (Handle, usize),
        word: u32,
        bytes: usize,
    ) -> Called<()> {
        // SAFETY: queue and object are alive; the library copies the word, and checks the range.
        check("clEnqueueFillBuffer", unsafe {
            let f = self.f.clEnqueueFillBuffer;
            let pattern = (&raw const word).cast();
            let (queue, memory) = (queue.handle.0, memory.0);
            f(
                queue,
                memory,
                pattern,
                size_of::<u32>(),
                offset,
                bytes,
                0,
                null(),
                null_mut(),
            )
        })
    }

    /// Hands memory of the process over to the device (`to_device`), or back: by mapping its object and unmapping it.
    pub(crate) fn pass(
        &self,
        queue: &Object,
        memory: &Object,
        bytes: usize,
        to_device: bool,
    ) -> Called<()> {
        let flags = if to_device {
            MAP_WRITE_INVALIDATE
        } else {
            MAP_READ
        };
        let mut made = 0;
        // SAFETY: queue and object are alive, and the object has so many bytes. Nobody uses the pointer but the library.
        let mapped = unsafe {
            let f = self.f.clEnqueueMapBuffer;
            let (queue, memory) = (queue.handle.0, memory.handle.0);
            f(
                queue,
                memory,
                0,
                flags,
                0,
                bytes,
                0,
                null(),
                null_mut(),
                &mut made,
            )
        };
        check("clEnqueueMapBuffer", made)?;
        // SAFETY: the pointer came from the mapping, which ends here.
        check("clEnqueueUnmapMemObject", unsafe {
            let f = self.f.clEnqueueUnmapMemObject;
            f(
                queue.handle.0,
                memory.handle.0,
                mapped,
                0,
                null(),
                null_mut(),
            )
        })
    }

    /// What is reached once all commands before it are done. From now on the device works on them.
    pub(crate) fn marker(self: &Arc<Self>, queue: &Object) -> Called<Object> {
        let mut raw = null_mut();
        // SAFETY: the queue is alive; the event is the caller's.
        check("clEnqueueMarkerWithWaitList", unsafe {
            (self.f.clEnqueueMarkerWithWaitList)(queue.handle.0, 0, null(), &mut raw)
        })?;
        let event = self.object(Kind::Event, raw);
        // SAFETY: the queue is alive.
        check("clFlush", unsafe { (self.f.clFlush)(queue.handle.0) })?;
        Ok(event)
    }

    /// Whether a marker is reached. Then other queues and the host see what the commands before it have written.
    pub(crate) fn reached(&self, event: &Object) -> Called<bool> {
        let mut status: i32 = 0;
        // SAFETY: the event is alive; there is room for the status.
        check("clGetEventInfo", unsafe {
            let f = self.f.clGetEventInfo;
            let to = (&raw mut status).cast();
            f(
                event.handle.0,
                EVENT_COMMAND_EXECUTION_STATUS,
                size_of::<i32>(),
                to,
                null_mut(),
            )
        })?;
        match status {
            // A status is no point of synchronization (OpenCL API 1.2, 5.9, `clGetEventInfo`). This wait is one, and
            // returns at once.
            // SAFETY: one event, which is alive.
            0 => check("clWaitForEvents", unsafe {
                (self.f.clWaitForEvents)(1, &event.handle.0)
            })
            .map(|()| true),
            status if status > 0 => Ok(false),
            status => Err(Failed {
                call: "a command of the queue",
                status,
                detail: String::new(),
            }),
        }
    }
}
