//! The C interface of `doorbell`, as `include/doorbell.h` documents it.
//!
//! All `unsafe` of it is here. A C caller promises what the header says: pointers of this library, that live; strings with a
//! terminating zero; arrays of the given length; memory that stays until it is released. No panic crosses the boundary: one is a bug
//! of the library and is `DOORBELL_BUG` for the caller.

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use doorbell::dlpack::{DLManagedTensor, DLManagedTensorVersioned, Managed, Table};
use doorbell::onnx::{self, Session};
use doorbell::{Access, DType, Layout, Owner, on_release};

/// Codes: `DOORBELL_...` of the header.
const ARGUMENT: c_int = -1;
const DEVICE: c_int = -2;
const MODEL: c_int = -3;
const BUG: c_int = -4;

/// The version of the interface.
const VERSION: u32 = 1;

/// Element types by their numbers in ONNX.
const TYPES: [(u32, DType); 15] = [
    (1, DType::F32),
    (2, DType::U8),
    (3, DType::I8),
    (4, DType::U16),
    (5, DType::I16),
    (6, DType::I32),
    (7, DType::I64),
    (9, DType::Bool),
    (10, DType::F16),
    (11, DType::F64),
    (12, DType::U32),
    (13, DType::U64),
    (16, DType::BF16),
    (17, DType::F8E4M3),
    (19, DType::F8E5M2),
];

/// What a call failed with, by code and text.
struct Failure(c_int, String);

impl From<doorbell::tensor::Error> for Failure {
    fn from(e: doorbell::tensor::Error) -> Failure {
        use doorbell::tensor::Error;
        let code = match e {
            Error::Shape { .. } | Error::DType { .. } | Error::Engines { .. } => ARGUMENT,
            _ => DEVICE,
        };
        Failure(code, e.to_string())
    }
}

impl From<doorbell::Error> for Failure {
    fn from(e: doorbell::Error) -> Failure {
        Failure(DEVICE, e.to_string())
    }
}

impl From<onnx::OnnxError> for Failure {
    fn from(e: onnx::OnnxError) -> Failure {
        let code = match e {
            onnx::OnnxError::Input { .. } => ARGUMENT,
            onnx::OnnxError::Engine { .. } => DEVICE,
            _ => MODEL,
        };
        Failure(code, e.to_string())
    }
}

type Done<T = ()> = Result<T, Failure>;

fn wrong<T>(what: impl Into<String>) -> Done<T> {
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

/// Runs a call; its code, and its text for [`doorbell_error`].
fn guard(call: impl FnOnce() -> Done) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        let said = said.unwrap_or("a panic without a text");
        let why = format!("a bug of doorbell: {said}; please report it");
        Err(Failure(BUG, why))
    });
    match done {
        Ok(()) => 0,
        Err(Failure(code, why)) => {
            LAST.with(|last| last.replace(text(&why)));
            code
        }
    }
}

/// An engine, as C holds it.
pub struct Engine {
    engine: doorbell::Engine,
    name: CString,
}

/// A tensor, as C holds it.
pub struct Tensor {
    tensor: doorbell::Tensor,
    sizes: Vec<i64>,
}

/// A model on an engine, as C holds it.
pub struct Model {
    session: Session,
    /// Names of inputs and outputs.
    ports: [Vec<CString>; 2],
}

// The header lets all threads use them at once, and any of them free them.
const _: () = {
    const fn by_all_threads<T: Send + Sync>() {}
    by_all_threads::<Engine>();
    by_all_threads::<Tensor>();
    by_all_threads::<Model>();
};

/// `struct doorbell_blob` of the header.
#[repr(C)]
pub struct Blob {
    /// The memory.
    pub data: *mut c_void,
    /// Its size.
    pub bytes: usize,
    /// Sizes of the axes.
    pub shape: *const i64,
    /// Distances in elements, or null.
    pub strides: *const i64,
    /// Number of axes.
    pub rank: u32,
    /// Number of the element type.
    pub kind: u32,
    /// The first byte of the first element.
    pub offset: usize,
    /// Nothing may be written.
    pub read_only: c_int,
    /// Called at the end.
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Its argument.
    pub context: *mut c_void,
}

/// `struct doorbell_shape` of the header.
#[repr(C)]
pub struct Described {
    /// Sizes of the axes.
    pub sizes: *const i64,
    /// Number of axes.
    pub rank: u32,
    /// Number of the element type.
    pub kind: u32,
    /// Of all elements.
    pub bytes: usize,
}

/// The function that a caller gives to be called at the end.
struct Callback {
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    context: *mut c_void,
}

// SAFETY: the header says that any thread may call it.
unsafe impl Send for Callback {}

impl Callback {
    /// Takes the whole of it: a closure that names only its fields would not be `Send`.
    fn call(self) {
        if let Some(release) = self.release {
            // SAFETY: the caller's promise: the function takes this argument, once.
            unsafe { release(self.context) };
        }
    }
}

/// # Safety
/// Null, or a string with a terminating zero that lives through the call.
unsafe fn string<'a>(text: *const c_char) -> Done<&'a str> {
    if text.is_null() {
        return wrong("expected a string, found a null pointer");
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|e| Failure(ARGUMENT, format!("expected UTF-8: {e}")))
}

/// # Safety
/// Null, or a pointer of this library that lives through the call.
unsafe fn shared<'a, T>(pointer: *const T) -> Done<&'a T> {
    // SAFETY: the caller's promise.
    let found = unsafe { pointer.as_ref() };
    found.map_or_else(
        || wrong("expected a pointer of this library, found null"),
        Ok,
    )
}

/// # Safety
/// Null if there are none, or so many elements that live through the call and that nobody changes meanwhile.
unsafe fn list<'a, T>(first: *const T, count: usize, what: &str) -> Done<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return wrong(format!("expected {what}, found a null pointer"));
    }
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        return wrong(format!("{count} {what} exceed the address space"));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// A place for a result.
///
/// # Safety
/// Null, or a place for a value.
unsafe fn give<T>(out: *mut T, value: T) -> Done {
    if out.is_null() {
        return wrong("expected a place for the result, found a null pointer");
    }
    // SAFETY: the caller's promise.
    unsafe { out.write(value) };
    Ok(())
}

/// # Safety
/// Null, or a place for a pointer.
unsafe fn give_tensor(out: *mut *mut Tensor, tensor: doorbell::Tensor) -> Done {
    if out.is_null() {
        return wrong("expected a place for the tensor, found a null pointer");
    }
    // SAFETY: the caller's promise.
    unsafe { give(out, owned(tensor)) }
}

/// A tensor that the caller frees.
fn owned(tensor: doorbell::Tensor) -> *mut Tensor {
    let sizes = tensor.shape().iter().map(|&len| len as i64).collect();
    Box::into_raw(Box::new(Tensor { tensor, sizes }))
}

/// # Safety
/// Null, or what [`Box::into_raw`] of this library gave, which is not used again.
unsafe fn freed<T>(pointer: *mut T) {
    if pointer.is_null() {
        return;
    }
    // A panic of a destructor ends here, too.
    let _ = guard(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(pointer) });
        Ok(())
    });
}

fn dtype(number: u32) -> Done<DType> {
    match TYPES.iter().find(|(n, _)| *n == number) {
        Some((_, dtype)) => Ok(*dtype),
        None => wrong(format!("element type {number} is none of DOORBELL_F32...")),
    }
}

fn number(dtype: DType) -> u32 {
    let found = TYPES.iter().find(|(_, known)| *known == dtype);
    found.map_or(0, |(number, _)| *number)
}

fn sizes(shape: &[i64]) -> Done<Vec<usize>> {
    let sizes = shape.iter().map(|&len| usize::try_from(len));
    let sizes: Result<Vec<usize>, _> = sizes.collect();
    sizes.or_else(|_| wrong(format!("the shape {shape:?} has negative sizes")))
}

/// The text of the last failure of this thread; empty before the first one.
#[unsafe(no_mangle)]
pub extern "C" fn doorbell_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// The version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn doorbell_version() -> u32 {
    VERSION
}

/// Opens a device.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_open(device: *const c_char, out: *mut *mut Engine) -> c_int {
    guard(|| {
        let engine = match device.is_null() {
            true => doorbell::open()?,
            // SAFETY: the caller's promise.
            false => doorbell::open_target(unsafe { string(device) }?)?,
        };
        let name = text(&engine.name());
        if out.is_null() {
            return wrong("expected a place for the engine, found a null pointer");
        }
        // SAFETY: the caller's promise.
        unsafe { give(out, Box::into_raw(Box::new(Engine { engine, name }))) }
    })
}

/// Its name, or null.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_name(engine: *const Engine) -> *const c_char {
    // SAFETY: the caller's promise.
    let found = unsafe { engine.as_ref() };
    found.map_or(std::ptr::null(), |engine| engine.name.as_ptr())
}

/// Waits for all work.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_synchronize(engine: *const Engine) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| Ok(unsafe { shared(engine) }?.engine.synchronize()?))
}

/// Closes an engine, when its tensors and models are gone, too.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_close(engine: *mut Engine) {
    // SAFETY: the caller's promise.
    unsafe { freed(engine) };
}

/// A tensor over memory of the caller.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_from_blob(
    engine: *const Engine,
    blob: *const Blob,
    out: *mut *mut Tensor,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let blob = unsafe { shared(blob) }?;
        let callback = Callback {
            release: blob.release,
            context: blob.context,
        };
        // From here on it is called, whatever happens.
        let owner: Owner = on_release(move || callback.call());
        // SAFETY: the caller's promise.
        let engine = unsafe { shared(engine) }?;
        // SAFETY: the caller's promise.
        let shape = unsafe { list(blob.shape, blob.rank as usize, "sizes of axes") }?;
        let mut layout = Layout::new(&sizes(shape)?, dtype(blob.kind)?).offset(blob.offset);
        if !blob.strides.is_null() {
            // SAFETY: the caller's promise.
            let strides = unsafe { list(blob.strides, blob.rank as usize, "strides") }?;
            let strides: Vec<isize> = strides.iter().map(|&step| step as isize).collect();
            layout = layout.strides(&strides);
        }
        let access = match blob.read_only {
            0 => Access::ReadWrite,
            _ => Access::ReadOnly,
        };
        let data = blob.data.cast::<u8>();
        // SAFETY: the caller's promise: so many bytes, until they are released, which nobody writes while they are read.
        let tensor = unsafe {
            doorbell::Tensor::from_blob(&engine.engine, data, blob.bytes, &layout, access, owner)
        };
        // SAFETY: the caller's promise.
        unsafe { give_tensor(out, tensor?) }
    })
}

/// A tensor of a copy.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_from_bytes(
    engine: *const Engine,
    kind: u32,
    shape: *const i64,
    rank: u32,
    data: *const c_void,
    bytes: usize,
    out: *mut *mut Tensor,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let engine = unsafe { shared(engine) }?;
        // SAFETY: the caller's promise.
        let shape = unsafe { list(shape, rank as usize, "sizes of axes") }?;
        // SAFETY: the caller's promise.
        let data = unsafe { list(data.cast::<u8>(), bytes, "bytes") }?;
        let (shape, dtype) = (sizes(shape)?, dtype(kind)?);
        let tensor = doorbell::Tensor::from_bytes(&engine.engine, data.to_vec(), &shape, dtype)?;
        // SAFETY: the caller's promise.
        unsafe { give_tensor(out, tensor) }
    })
}

/// Frees a tensor.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_free(tensor: *mut Tensor) {
    // SAFETY: the caller's promise.
    unsafe { freed(tensor) };
}

/// Shape and type.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_describe(tensor: *const Tensor, out: *mut Described) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let Tensor { tensor, sizes } = unsafe { shared(tensor) }?;
        let described = Described {
            sizes: sizes.as_ptr(),
            rank: sizes.len() as u32,
            kind: number(tensor.dtype()),
            bytes: tensor.numel() * tensor.dtype().size(),
        };
        // SAFETY: the caller's promise.
        unsafe { give(out, described) }
    })
}

/// Copies the elements.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_read(
    tensor: *const Tensor,
    into: *mut c_void,
    bytes: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let tensor = &unsafe { shared(tensor) }?.tensor;
        let own = tensor.numel() * tensor.dtype().size();
        if own != bytes {
            return wrong(format!(
                "expected room for {own} bytes of {:?} {}, found {bytes}",
                tensor.shape(),
                tensor.dtype()
            ));
        }
        if bytes > 0 && into.is_null() {
            return wrong("expected room for the elements, found a null pointer");
        }
        let found = tensor.to_bytes()?;
        // SAFETY: the caller's promise: room for so many bytes, which are not those of the list.
        unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), into.cast::<u8>(), found.len()) };
        Ok(())
    })
}

/// Where the elements are.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_address(tensor: *const Tensor, out: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let address = unsafe { shared(tensor) }?.tensor.address()?;
        // SAFETY: the caller's promise.
        unsafe { give(out, address) }
    })
}

/// Writes into shared memory.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_overwrite(tensor: *const Tensor, value: *const Tensor) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let (tensor, value) = unsafe { (shared(tensor)?, shared(value)?) };
        Ok(tensor.tensor.overwrite(&value.tensor)?)
    })
}

/// Gives memory away by a struct of DLPack.
///
/// # Safety
/// As the header says.
unsafe fn give_away<T: Table>(
    tensor: *const Tensor,
    out: *mut *mut T,
    export: impl FnOnce(&doorbell::Tensor) -> doorbell::tensor::Result<Managed<T>>,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let tensor = unsafe { shared(tensor) }?;
        if out.is_null() {
            return wrong("expected a place for the tensor, found a null pointer");
        }
        let managed = export(&tensor.tensor)?;
        // SAFETY: the caller's promise.
        unsafe { give(out, managed.into_raw()) }
    })
}

/// A tensor over the memory of a struct of DLPack.
///
/// # Safety
/// As the header says.
unsafe fn take<T: Table>(engine: *const Engine, table: *mut T, out: *mut *mut Tensor) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let managed = unsafe { Managed::from_raw(table) }?;
        // SAFETY: the caller's promise.
        let engine = unsafe { shared(engine) }?;
        let tensor = doorbell::Tensor::from_dlpack(&engine.engine, managed)?;
        // SAFETY: the caller's promise.
        unsafe { give_tensor(out, tensor) }
    })
}

/// Gives memory away by DLPack 1.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_to_dlpack(
    tensor: *const Tensor,
    copy: c_int,
    out: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give_away(tensor, out, |t| t.to_dlpack(copy != 0)) }
}

/// A tensor over memory of another library.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_from_dlpack(
    engine: *const Engine,
    tensor: *mut DLManagedTensorVersioned,
    out: *mut *mut Tensor,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { take(engine, tensor, out) }
}

/// The struct of before version 1.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_to_dlpack_unversioned(
    tensor: *const Tensor,
    copy: c_int,
    out: *mut *mut DLManagedTensor,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give_away(tensor, out, |t| t.to_dlpack_unversioned(copy != 0)) }
}

/// The struct of before version 1.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_from_dlpack_unversioned(
    engine: *const Engine,
    tensor: *mut DLManagedTensor,
    out: *mut *mut Tensor,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { take(engine, tensor, out) }
}

/// A model on an engine.
///
/// # Safety
/// As the header says.
unsafe fn placed(
    engine: *const Engine,
    out: *mut *mut Model,
    model: impl FnOnce() -> Done<onnx::Model>,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let engine = unsafe { shared(engine) }?;
        if out.is_null() {
            return wrong("expected a place for the model, found a null pointer");
        }
        let model = model()?;
        let inputs = model.inputs().map(|(name, _)| text(name)).collect();
        let outputs = model.outputs().map(|(name, _)| text(name)).collect();
        let made = Model {
            session: model.on(&engine.engine),
            ports: [inputs, outputs],
        };
        // SAFETY: the caller's promise.
        unsafe { give(out, Box::into_raw(Box::new(made))) }
    })
}

/// Loads a model from a file, whose name may be any bytes.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_load(
    engine: *const Engine,
    path: *const c_char,
    out: *mut *mut Model,
) -> c_int {
    let model = || -> Done<onnx::Model> {
        if path.is_null() {
            return wrong("expected the name of a file, found a null pointer");
        }
        // SAFETY: the caller's promise.
        let path = unsafe { CStr::from_ptr(path) };
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        Ok(onnx::Model::load(path)?)
    };
    // SAFETY: the caller's promise.
    unsafe { placed(engine, out, model) }
}

/// Loads a model from memory.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_load_memory(
    engine: *const Engine,
    bytes: *const c_void,
    size: usize,
    out: *mut *mut Model,
) -> c_int {
    let model = || -> Done<onnx::Model> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { list(bytes.cast::<u8>(), size, "bytes") }?;
        Ok(onnx::Model::from_bytes("memory", bytes.to_vec())?)
    };
    // SAFETY: the caller's promise.
    unsafe { placed(engine, out, model) }
}

impl Model {
    /// The names of inputs (0) or outputs (1).
    fn of_kind(&self, kind: c_int) -> Option<&[CString]> {
        let found = self.ports.get(usize::try_from(kind).ok()?)?;
        Some(found)
    }
}

/// How many inputs or outputs there are; negative on failure.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_count(model: *const Model, kind: c_int) -> c_int {
    let mut count = 0;
    let code = guard(|| {
        // SAFETY: the caller's promise.
        let Some(ports) = unsafe { shared(model) }?.of_kind(kind) else {
            return wrong("expected DOORBELL_INPUT or DOORBELL_OUTPUT");
        };
        count = c_int::try_from(ports.len()).unwrap_or(c_int::MAX);
        Ok(())
    });
    if code == 0 { count } else { code }
}

/// The name of an input or output, or null.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_port(
    model: *const Model,
    kind: c_int,
    index: u32,
) -> *const c_char {
    // SAFETY: the caller's promise.
    let found = unsafe { model.as_ref() };
    let ports = found.and_then(|model| model.of_kind(kind));
    let name = ports.and_then(|ports| ports.get(index as usize));
    name.map_or(std::ptr::null(), |name| name.as_ptr())
}

/// Runs a model by names.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_run(
    model: *const Model,
    names: *const *const c_char,
    inputs: *const *const Tensor,
    count: usize,
    wanted: *const *const c_char,
    out: *mut *mut Tensor,
    outputs: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let model = unsafe { shared(model) }?;
        // SAFETY: the caller's promise.
        let names = unsafe { list(names, count, "names of inputs") }?;
        // SAFETY: the caller's promise.
        let inputs = unsafe { list(inputs, count, "inputs") }?;
        // SAFETY: the caller's promise.
        let wanted = unsafe { list(wanted, outputs, "names of outputs") }?;
        if outputs > 0 && out.is_null() {
            return wrong("expected places for the outputs, found a null pointer");
        }
        let mut given = Vec::with_capacity(count);
        for (&name, &input) in names.iter().zip(inputs) {
            // SAFETY: the caller's promise.
            let (name, input) = unsafe { (string(name)?, shared(input)?) };
            given.push((name, input.tensor.clone()));
        }
        let results = model.session.run(given)?;
        let mut found = Vec::with_capacity(outputs);
        for &name in wanted {
            // SAFETY: the caller's promise.
            let name = unsafe { string(name) }?;
            let Some(tensor) = results.tensor(name) else {
                let known = model.ports[1].iter().map(|name| name.to_string_lossy());
                let known: Vec<_> = known.collect();
                return wrong(format!(
                    "no output {name} that is a tensor; the model has {}",
                    known.join(", ")
                ));
            };
            found.push(tensor.clone());
        }
        for (at, tensor) in found.into_iter().enumerate() {
            // SAFETY: the caller's promise: a place for each of the names.
            unsafe { out.add(at).write(owned(tensor)) };
        }
        Ok(())
    })
}

/// Frees a model.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_unload(model: *mut Model) {
    // SAFETY: the caller's promise.
    unsafe { freed(model) };
}
