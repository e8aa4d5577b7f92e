//! The C interface of `doorbell-run`, as `include/doorbell_run.h` documents it.
//!
//! All `unsafe` of it is here. A C caller promises what the header says: pointers of this library, that live; strings
//! with a terminating zero; buffers of the given size; one thread at a time per model. No panic crosses the boundary: one
//! is a bug of the library and is `DBX_BUG` for the caller.

mod pages;

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use doorbell_run::{Chain, Error, Model, ModelBundle, Placement, Port, opencl};
use hcq::mem::view::View;
use hcq::transport::errno::{EBADF, EFAULT, EINVAL, ENOMEM};
use hcq::{Buffer, Import};

use pages::{Pages, unfit};

/// A file or argument that cannot be used: `DBX_...` of the header.
const FILE: c_int = -1;
const DAMAGED: c_int = -2;
const VERSION: c_int = -3;
const NO_DEVICE: c_int = -4;
const CHIP: c_int = -5;
const ARGUMENT: c_int = -6;
const LATE: c_int = -7;
const DEVICE: c_int = -8;
const BUG: c_int = -9;
const NOT_STARTED: c_int = -10;
const MEMORY: c_int = -11;
const NO_MAPPING: c_int = -12;
const DRIVER: c_int = -13;

/// What a call failed with, by code and text.
struct Failure(c_int, String);

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        let code = match &e {
            Error::Io { .. } => FILE,
            Error::Foreign { .. } | Error::Damaged { .. } => DAMAGED,
            Error::Version { .. } => VERSION,
            Error::NoDevice { .. } => NO_DEVICE,
            Error::NoCode { .. } | Error::Chip { .. } => CHIP,
            Error::Port { .. }
            | Error::Same { .. }
            | Error::Simulated { .. }
            | Error::Select(_)
            | Error::Variable(_) => ARGUMENT,
            Error::Late { .. } | Error::Overdue { .. } | Error::Busy { .. } => LATE,
            Error::Waiting { .. } => NOT_STARTED,
            // The second is of a chain of one device.
            Error::Device(source) | Error::Alone { source, .. } => of_device(source),
            _ => DRIVER,
        };
        Failure(code, e.to_string())
    }
}

/// The code of an error of a device.
fn of_device(e: &hcq::Error) -> c_int {
    match e {
        hcq::Error::NoDevice { .. } | hcq::Error::NotStarted { .. } => NO_DEVICE,
        hcq::Error::Unsupported { .. } => CHIP,
        hcq::Error::DeviceLost { .. } | hcq::Error::Timeout { .. } | hcq::Error::Fault { .. } => {
            DEVICE
        }
        hcq::Error::OutOfMemory { .. }
        | hcq::Error::Os {
            errno: Some(ENOMEM),
            ..
        } => MEMORY,
        hcq::Error::NoHostAccess { .. } => NO_MAPPING,
        _ => DRIVER,
    }
}

fn wrong<T>(what: &str) -> Result<T, Failure> {
    Err(Failure(ARGUMENT, what.into()))
}

thread_local! {
    /// The text of the last failure of this thread.
    static LAST: RefCell<CString> = RefCell::default();
}

/// A text for C. Names from files may have zeros in them, which C would take for their end.
fn text(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

/// Runs a call; its code, and its text for [`dbx_error`].
fn guard(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Failure(
            BUG,
            format!(
                "a bug of doorbell-run: {}; please report it",
                said.unwrap_or("a panic without a text")
            ),
        ))
    });
    match done {
        Ok(()) => 0,
        Err(Failure(code, why)) => {
            LAST.with(|last| last.replace(text(&why)));
            code
        }
    }
}

/// A port as C sees it.
struct NamedPort {
    name: CString,
    port: Port,
    bytes: u64,
}

/// A bundle, as C holds it.
pub struct Bundle {
    bundle: ModelBundle,
    /// Inputs, outputs, states.
    ports: [Vec<NamedPort>; 3],
    targets: Vec<CString>,
}

/// A model on a device, as C holds it.
pub struct Loaded {
    model: Model,
    /// What was read from the device, before it goes into memory of the caller.
    read: Vec<u8>,
    notes: CString,
    device: CString,
}

/// Memory of the caller as memory of a model's device, as C holds it.
pub struct Imported {
    buffer: Buffer,
    /// Of memory of the process.
    _pages: Option<Arc<Pages>>,
}

/// `struct dbx_port` of the header.
#[repr(C)]
pub struct PortInfo {
    name: *const c_char,
    shape: *const u64,
    bytes: u64,
    rank: u32,
    element: u32,
}

const INPUT: c_int = 0;
const OUTPUT: c_int = 1;
const STATE: c_int = 2;
const TARGET: c_int = 3;

impl Bundle {
    fn of(bundle: ModelBundle) -> Box<Bundle> {
        let named = |port: &Port| NamedPort {
            name: text(&port.name),
            bytes: port.bytes().unwrap_or(u64::MAX),
            port: port.clone(),
        };
        let ports = [
            bundle.inputs().iter().map(named).collect(),
            bundle.outputs().iter().map(named).collect(),
            bundle.states().iter().map(|s| named(&s.port)).collect(),
        ];
        let targets = bundle.targets().iter().map(|t| text(&t.name()));
        Box::new(Bundle {
            targets: targets.collect(),
            ports,
            bundle,
        })
    }

    fn of_kind(&self, kind: c_int) -> Option<&Vec<NamedPort>> {
        self.ports.get(usize::try_from(kind).ok()?)
    }
}

/// # Safety
/// Null, or a string with a terminating zero that lives through the call.
unsafe fn string<'a>(text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return wrong("expected a string, found a null pointer");
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|e| Failure(ARGUMENT, format!("expected UTF-8: {e}")))
}

/// The name of a file, which may be any bytes.
///
/// # Safety
/// As that of [`string`].
unsafe fn path<'a>(text: *const c_char) -> Result<&'a Path, Failure> {
    if text.is_null() {
        return wrong("expected the name of a file, found a null pointer");
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// # Safety
/// Null, or a pointer of this library that lives through the call.
unsafe fn shared<'a, T>(pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    let found = unsafe { pointer.as_ref() };
    found.map_or_else(
        || wrong("expected a pointer of this library, found null"),
        Ok,
    )
}

/// # Safety
/// Null, or a pointer of this library that lives through the call and that no other thread uses.
unsafe fn alone<'a, T>(pointer: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    let found = unsafe { pointer.as_mut() };
    found.map_or_else(
        || wrong("expected a pointer of this library, found null"),
        Ok,
    )
}

/// # Safety
/// Null, or a place for a pointer.
unsafe fn give<T>(out: *mut *mut T, value: Box<T>) -> Result<(), Failure> {
    if out.is_null() {
        return wrong("expected a place for the result, found a null pointer");
    }
    // SAFETY: the caller's promise.
    unsafe { out.write(Box::into_raw(value)) };
    Ok(())
}

/// The text of the last failure of this thread; empty before the first one.
#[unsafe(no_mangle)]
pub extern "C" fn dbx_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// The newest version of the format that is read.
#[unsafe(no_mangle)]
pub extern "C" fn dbx_version() -> u32 {
    doorbell_run::VERSION
}

/// Opens a file.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_open(file: *const c_char, out: *mut *mut Bundle) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let bundle = ModelBundle::open(unsafe { path(file) }?)?;
        // SAFETY: the caller's promise.
        unsafe { give(out, Bundle::of(bundle)) }
    })
}

/// Opens a copy of bytes in memory.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_open_memory(
    bytes: *const c_void,
    size: usize,
    out: *mut *mut Bundle,
) -> c_int {
    guard(|| {
        if bytes.is_null() {
            return wrong("expected bytes, found a null pointer");
        }
        if isize::try_from(size).is_err() {
            return wrong("expected a size that memory can have, found a negative or larger one");
        }
        // SAFETY: the caller's promise: so many bytes, which nobody changes during the call. They are an object's.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), size) };
        let bundle = ModelBundle::from_bytes("memory", bytes.to_vec())?;
        // SAFETY: the caller's promise.
        unsafe { give(out, Bundle::of(bundle)) }
    })
}

/// Checks the hashes of all sections.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_check(bundle: *const Bundle) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { shared(bundle) }?.bundle.check()?))
}

/// Closes a bundle. Models that were loaded from it stay.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_close(bundle: *mut Bundle) {
    if !bundle.is_null() {
        // SAFETY: the caller's promise: it came from here and is not used again.
        drop(unsafe { Box::from_raw(bundle) });
    }
}

/// How many inputs, outputs, states or targets there are; negative on failure.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_count(bundle: *const Bundle, kind: c_int) -> c_int {
    let mut count = 0;
    let code = guard(|| {
        // SAFETY: the caller's promise.
        let bundle = unsafe { shared(bundle) }?;
        let found = match kind {
            TARGET => Some(bundle.targets.len()),
            kind => bundle.of_kind(kind).map(Vec::len),
        };
        let Some(found) = found else {
            return wrong("expected a kind of 0 to 3");
        };
        count = c_int::try_from(found).unwrap_or(c_int::MAX);
        Ok(())
    });
    if code == 0 { count } else { code }
}

/// Describes an input, output or state.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_port(
    bundle: *const Bundle,
    kind: c_int,
    index: u32,
    out: *mut PortInfo,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let bundle = unsafe { shared(bundle) }?;
        let ports = bundle.of_kind(kind);
        let Some(found) = ports.and_then(|ports| ports.get(index as usize)) else {
            return wrong("no such input, output or state");
        };
        if out.is_null() {
            return wrong("expected a place for the result, found a null pointer");
        }
        let info = PortInfo {
            name: found.name.as_ptr(),
            shape: found.port.shape.as_ptr(),
            bytes: found.bytes,
            rank: found.port.shape.len() as u32,
            element: found.port.element.number().into(),
        };
        // SAFETY: the caller's promise.
        unsafe { out.write(info) };
        Ok(())
    })
}

/// The name of a target, or null.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_target(bundle: *const Bundle, index: u32) -> *const c_char {
    // SAFETY: the caller's promise.
    let found = unsafe { bundle.as_ref() };
    let name = found.and_then(|bundle| bundle.targets.get(index as usize));
    name.map_or(std::ptr::null(), |name| name.as_ptr())
}

/// Loads a bundle on the first device of a chain that can run it.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_place(
    bundle: *const Bundle,
    devices: *const c_char,
    out: *mut *mut Loaded,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let bundle = unsafe { shared(bundle) }?;
        let chain = match devices.is_null() {
            true => Chain::from_env()?,
            // SAFETY: the caller's promise.
            false => Chain::parse(unsafe { string(devices) }?)?,
        };
        let Placement { model, notes } = chain.place(&bundle.bundle)?;
        let info = model.device().info();
        let device = text(&format!("{} {} {}", info.id, info.arch, info.name));
        let notes = text(&notes.join("\n"));
        let loaded = Loaded {
            model,
            read: Vec::new(),
            notes,
            device,
        };
        // SAFETY: the caller's promise.
        unsafe { give(out, Box::new(loaded)) }
    })
}

/// Why the first device of the chain was not chosen; empty if it was.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_notes(model: *const Loaded) -> *const c_char {
    // SAFETY: the caller's promise.
    let found = unsafe { model.as_ref() };
    found.map_or(std::ptr::null(), |model| model.notes.as_ptr())
}

/// The device that a model is on.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_device(model: *const Loaded) -> *const c_char {
    // SAFETY: the caller's promise.
    let found = unsafe { model.as_ref() };
    found.map_or(std::ptr::null(), |model| model.device.as_ptr())
}

/// Frees a model; whether nothing of it runs any more.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_free(model: *mut Loaded) -> c_int {
    guard(|| {
        if model.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's promise: it came from here and is not used again.
        let loaded = unsafe { Box::from_raw(model) };
        Ok(loaded.model.close()?)
    })
}

/// Copies the value of an input or a state to the device.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_write(
    model: *mut Loaded,
    kind: c_int,
    name: *const c_char,
    bytes: *const c_void,
    size: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let (loaded, name) = unsafe { (alone(model)?, string(name)?) };
        match kind {
            INPUT => loaded.model.check_input(name, size)?,
            STATE => loaded.model.check_state(name, size)?,
            _ => return wrong("expected DBX_INPUT or DBX_STATE"),
        }
        if bytes.is_null() && size > 0 {
            return wrong("expected bytes, found a null pointer");
        }
        let bytes = match size {
            0 => &[],
            // SAFETY: the caller's promise: so many bytes, which nobody changes during the call. They are as many as the
            // value has, which memory can have.
            _ => unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), size) },
        };
        match kind {
            INPUT => Ok(loaded.model.write_input(name, bytes)?),
            _ => Ok(loaded.model.write_state(name, bytes)?),
        }
    })
}

/// Copies the value of an output or a state from the device.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_read(
    model: *mut Loaded,
    kind: c_int,
    name: *const c_char,
    into: *mut c_void,
    size: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let (loaded, name) = unsafe { (alone(model)?, string(name)?) };
        match kind {
            OUTPUT => loaded.model.check_output(name, size)?,
            STATE => loaded.model.check_state(name, size)?,
            _ => return wrong("expected DBX_OUTPUT or DBX_STATE"),
        }
        if into.is_null() && size > 0 {
            return wrong("expected a place for bytes, found a null pointer");
        }
        // What is not initialised is no `&mut [u8]`, and after a failure the caller's memory is as before.
        loaded.read.resize(size, 0);
        match kind {
            OUTPUT => loaded.model.read_output(name, &mut loaded.read)?,
            _ => loaded.model.read_state(name, &mut loaded.read)?,
        }
        if size > 0 {
            // SAFETY: the caller's promise: so many bytes, which are the caller's alone; so many were just read.
            unsafe {
                std::ptr::copy_nonoverlapping(loaded.read.as_ptr(), into.cast::<u8>(), size);
            }
        }
        Ok(())
    })
}

/// The memory of an input or output itself.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_memory(
    model: *const Loaded,
    kind: c_int,
    name: *const c_char,
    out: *mut *mut c_void,
    size: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let (loaded, name) = unsafe { (shared(model)?, string(name)?) };
        let view = match kind {
            INPUT => loaded.model.input_memory(name),
            OUTPUT => loaded.model.output_memory(name),
            _ => return wrong("expected DBX_INPUT or DBX_OUTPUT"),
        };
        let view = view.map_err(|e| match Failure::from(e) {
            Failure(NO_MAPPING, _) => Failure(
                NO_MAPPING,
                format!(
                    "{name:?}: {} gives the host no mapping of this memory: use dbx_read and dbx_write, or, of memory that is \
                     bound, the caller's own pointer",
                    loaded.model.device().info().id
                ),
            ),
            other => other,
        })?;
        if out.is_null() || size.is_null() {
            return wrong("expected places for the results, found a null pointer");
        }
        // SAFETY: the caller's promise. The memory is mapped as long as the model, or what the caller has bound, lives.
        unsafe {
            out.write(view.as_ptr().cast());
            size.write(view.len());
        }
        Ok(())
    })
}

/// Makes memory of others known to a model's device.
///
/// # Safety
/// `out` is null or a place for a pointer.
unsafe fn import(
    model: &Loaded,
    memory: &Import,
    pages: Option<Arc<Pages>>,
    out: *mut *mut Imported,
) -> Result<(), Failure> {
    let made = model.model.device().import(memory);
    let buffer = made.map_err(|e| match e {
        // Not the model is at fault, which is on this device.
        hcq::Error::Unsupported { .. }
        | hcq::Error::Os {
            errno: Some(EBADF | EFAULT | EINVAL),
            ..
        } => Failure(ARGUMENT, e.to_string()),
        e => Error::from(e).into(),
    })?;
    let imported = Imported {
        buffer,
        _pages: pages,
    };
    // SAFETY: the caller's promise.
    unsafe { give(out, Box::new(imported)) }
}

/// What a GPU maps of a process: pages of this size, or larger ones.
const PAGE: usize = 4096;

/// Makes pages of the process memory of a model's device.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_import_host(
    model: *const Loaded,
    memory: *mut c_void,
    size: usize,
    out: *mut *mut Imported,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let loaded = unsafe { shared(model) }?;
        let Some(memory) = NonNull::new(memory.cast::<u8>()) else {
            return wrong("expected memory, found a null pointer");
        };
        if isize::try_from(size).is_err() {
            return wrong("expected a size that memory can have, found a negative or larger one");
        }
        let at = memory.addr().get();
        if size == 0 || !size.is_multiple_of(PAGE) || !at.is_multiple_of(PAGE) {
            return Err(Failure(
                ARGUMENT,
                format!(
                    "expected whole pages of {PAGE} bytes, found {size} bytes at {at:#x}: import the pages around them, and \
                     give dbx_bind their offset"
                ),
            ));
        }
        if let Some(why) = unfit(at, size) {
            return wrong(&why);
        }
        let pages = Pages::of(at, size);
        // SAFETY: the caller's promise: so many bytes, mapped for reads and writes until what is imported is released and no model
        // uses it, and written by others at no time when they are read here, or as a device would.
        let view = unsafe { View::new(memory, size, pages.owner.clone()) };
        // SAFETY: the caller's promise.
        unsafe { import(loaded, &Import::Host(view), Some(pages), out) }
    })
}

/// Makes a dma-buf memory of a model's device.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_import_dmabuf(
    model: *const Loaded,
    fd: c_int,
    size: usize,
    out: *mut *mut Imported,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let loaded = unsafe { shared(model) }?;
        // SAFETY: the caller's promise.
        unsafe { import(loaded, &Import::DmaBuf(fd, size as u64), None, out) }
    })
}

/// Makes memory of a `cl_mem` of Qualcomm's OpenCL memory of a model's device.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_import_opencl(
    model: *const Loaded,
    memory: *mut c_void,
    size: usize,
    out: *mut *mut Imported,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let loaded = unsafe { shared(model) }?;
        let handle = memory.expose_provenance() as u64;
        let found = opencl::import(handle, size as u64, Arc::new(()));
        let found = found.map_err(|e| Failure(ARGUMENT, e.to_string()))?;
        // SAFETY: the caller's promise.
        unsafe { import(loaded, &found, None, out) }
    })
}

/// Releases what was imported. Models that it is bound to keep it.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_release(buffer: *mut Imported) {
    if !buffer.is_null() {
        // SAFETY: the caller's promise: it came from here and is not used again.
        drop(unsafe { Box::from_raw(buffer) });
    }
}

/// Uses memory that was imported in the place of an input's or output's own.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_bind(
    model: *mut Loaded,
    kind: c_int,
    name: *const c_char,
    buffer: *const Imported,
    offset: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let (loaded, name) = unsafe { (alone(model)?, string(name)?) };
        // SAFETY: the caller's promise.
        let Some(all) = (unsafe { buffer.as_ref() }) else {
            return match kind {
                INPUT => Ok(loaded.model.unbind_input(name)?),
                OUTPUT => Ok(loaded.model.unbind_output(name)?),
                _ => wrong(NO_STATE),
            };
        };
        let all = &all.buffer;
        let bytes = all.bytes();
        let Some(rest) = bytes.checked_sub(offset as u64) else {
            return wrong(&format!(
                "expected an offset of at most {bytes}, the bytes of the memory, found {offset}"
            ));
        };
        let part = all.slice(offset as u64, rest).map_err(Error::from)?;
        match kind {
            INPUT => Ok(loaded.model.bind_input(name, &part)?),
            OUTPUT => Ok(loaded.model.bind_output(name, &part)?),
            _ => wrong(NO_STATE),
        }
    })
}

/// Why a state has no memory of the caller.
const NO_STATE: &str =
    "expected DBX_INPUT or DBX_OUTPUT: the memory of a state is the model's alone";

fn limit(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

/// Runs a model once and waits for it.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_run(model: *mut Loaded, limit_ms: u32) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { alone(model) }?.model.run(limit(limit_ms))?))
}

/// Submits a run.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_start(model: *mut Loaded, limit_ms: u32) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { alone(model) }?.model.start(limit(limit_ms))?))
}

/// Waits for the last run.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_wait(model: *mut Loaded, limit_ms: u32) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { alone(model) }?.model.wait(limit(limit_ms))?))
}

/// Sets all states to their first values.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbx_reset(model: *mut Loaded) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { alone(model) }?.model.reset()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout() -> Box<hcq::Error> {
        Box::new(hcq::Error::Timeout {
            device: hcq::DeviceId::new("QCOM", 0),
            what: "compute queue".into(),
            wanted: 4,
            seen: 3,
            after: limit(50),
            over: hcq::progress::Over::Long(limit(50)),
        })
    }

    fn code(error: Error) -> c_int {
        Failure::from(error).0
    }

    #[test]
    fn who_has_to_wait_and_who_has_to_open_the_device_again_have_codes_of_their_own() {
        let device = || String::from("QCOM:0");
        let limit = limit(50);
        let late = Error::Late {
            device: device(),
            limit,
            source: timeout(),
        };
        let overdue = Error::Overdue {
            device: device(),
            limit,
            took: 2 * limit,
        };
        let waiting = Error::Waiting {
            device: device(),
            limit,
            source: timeout(),
        };
        assert_eq!([late, overdue].map(code), [LATE; 2]);
        assert_eq!(code(Error::Busy { device: device() }), LATE);
        assert_eq!(code(waiting), NOT_STARTED);
    }

    #[test]
    fn errors_of_devices_have_codes() {
        let device = hcq::DeviceId::new("QCOM", 0);
        let os = |errno| hcq::Error::Os {
            device: device.clone(),
            call: "IOCTL_KGSL_MAP_USER_MEM".into(),
            source_text: String::new(),
            errno: Some(errno),
            hint: "".into(),
        };
        let lost = hcq::Error::DeviceLost {
            device: device.clone(),
            cause: Arc::new(*timeout()),
        };
        let full = hcq::Error::OutOfMemory {
            device: device.clone(),
            asked: 4096,
            free: 0,
            total: 1 << 30,
            hint: String::new(),
        };
        let apart = hcq::Error::NoHostAccess {
            device: device.clone(),
            va: 0x1000,
            has: "nothing",
            needs: "a mapping",
        };
        let denied = hcq::Error::NoPermission {
            asked: "QCOM".into(),
            why: String::new(),
        };
        let cold = hcq::Error::NotStarted {
            asked: "PCI+AMD".into(),
            why: String::new(),
        };
        for (error, wanted) in [
            (lost, DEVICE),
            (*timeout(), DEVICE),
            (full, MEMORY),
            (os(ENOMEM), MEMORY),
            (os(EINVAL), DRIVER),
            (apart, NO_MAPPING),
            (denied, DRIVER),
            (cold, NO_DEVICE),
        ] {
            let text = error.to_string();
            assert_eq!(code(error.into()), wanted, "{text}");
        }
    }

    #[test]
    fn the_header_has_the_codes() {
        let header = include_str!("../include/doorbell_run.h");
        for (name, code) in [
            ("FILE", FILE),
            ("DAMAGED", DAMAGED),
            ("VERSION", VERSION),
            ("NO_DEVICE", NO_DEVICE),
            ("CHIP", CHIP),
            ("ARGUMENT", ARGUMENT),
            ("LATE", LATE),
            ("DEVICE", DEVICE),
            ("BUG", BUG),
            ("NOT_STARTED", NOT_STARTED),
            ("MEMORY", MEMORY),
            ("NO_MAPPING", NO_MAPPING),
            ("DRIVER", DRIVER),
        ] {
            // A digit behind it would be another one.
            let line = header
                .lines()
                .find(|line| line.contains(&format!(" DBX_{name} = ")));
            let value = line.and_then(|line| line.split(['=', ',', '/']).nth(1));
            assert_eq!(value.map(str::trim), Some(&*code.to_string()), "{name}");
        }
    }
}
