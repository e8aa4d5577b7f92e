//! Tensors of Python's data: numbers, nested lists, arrays, buffers; copied, or in the memory that they have.

use doorbell::tensor::blob::{Access, Layout, on_release};
use doorbell::{DType, Engine, Scalar, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyList, PyTuple};

use crate::capsule;
use crate::dtype::TYPES;
use crate::error::{Done, exception, wrong_type, wrong_value};
use crate::number::Number;
use crate::value::PyTensor;

/// How deep lists may be nested: numpy's limit.
const DEEPEST: usize = 64;

/// Whether a tensor can be made of it.
pub(crate) fn is_data(given: &Bound<'_, PyAny>) -> bool {
    let has = |name: &str| given.hasattr(name).unwrap_or(false);
    is_number(given)
        || is_list(given)
        || given.cast::<PyTensor>().is_ok()
        || has("__array_interface__")
        || has("__dlpack__")
        || has("__array__")
        || is_buffer(given)
}

fn is_number(given: &Bound<'_, PyAny>) -> bool {
    given.cast::<PyInt>().is_ok() || given.cast::<PyFloat>().is_ok()
}

fn is_list(given: &Bound<'_, PyAny>) -> bool {
    given.cast::<PyList>().is_ok() || given.cast::<PyTuple>().is_ok()
}

/// Objects with a buffer that the interpreter's own types are.
fn is_buffer(given: &Bound<'_, PyAny>) -> bool {
    let class = given.get_type().name();
    let known = ["bytes", "bytearray", "memoryview", "array"];
    class.is_ok_and(|class| known.iter().any(|known| class == *known))
}

/// A tensor with a copy of the data, in the type that is asked for.
pub(crate) fn copied(
    given: &Bound<'_, PyAny>,
    dtype: Option<DType>,
    engine: &Engine,
) -> Done<Tensor> {
    if is_number(given) || is_list(given) {
        return of_lists(given, dtype, engine);
    }
    let found = shared(given, engine)?;
    let in_type = |tensor: Tensor| match dtype {
        Some(dtype) => tensor.cast(dtype),
        None => Ok(tensor),
    };
    // Of an array with other strides it is a view that is not computed yet.
    let is_tensor = given.cast::<PyTensor>().is_ok();
    let is_view = !is_tensor && found.storage().is_none();
    if !found.is_shared() && !is_view {
        return Ok(in_type(found)?);
    }
    // Others may change the memory: it is read now.
    let bytes = given.py().detach(|| found.to_bytes())?;
    let own = Tensor::from_bytes(engine, bytes, found.shape(), found.dtype())?;
    Ok(in_type(own)?)
}

/// A tensor in the memory of an array, where the device can read it; else with a copy.
pub(crate) fn shared(given: &Bound<'_, PyAny>, engine: &Engine) -> Done<Tensor> {
    if let Ok(tensor) = given.cast::<PyTensor>() {
        return Ok(tensor.get().value().to(engine)?);
    }
    if is_number(given) || is_list(given) {
        return of_lists(given, None, engine);
    }
    if given.hasattr("__array_interface__")? {
        return of_array(given, engine);
    }
    if given.hasattr("__dlpack__")? {
        return capsule::of_producer(given, engine);
    }
    if is_buffer(given) {
        return of_buffer(given, engine);
    }
    // Columns of pandas, and others that numpy knows how to read.
    if given.hasattr("__array__")? {
        return of_copy(given, engine);
    }
    let class = given.get_type().name()?.to_string();
    Err(wrong_type(format!(
        "cannot make a tensor of {class}: expected numbers, nested lists, an array, a buffer or an object with __dlpack__"
    ))
    .into())
}

/// The element type of a code of numpy's, such as `<f4`.
fn type_of_code(code: &str) -> Done<DType> {
    let row = TYPES.iter().find(|row| row.2 == Some(code));
    match row {
        Some(row) => Ok(row.0),
        None => Err(exception(
            "DTypeError",
            &format!(
                "an array of type {code}: tensors have bool, int8 to int64, uint8 to uint64, float16 to float64, in little-endian order; convert it first"
            ),
        )),
    }
}

/// A part of an array interface that must be there.
fn entry<'py>(interface: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let found = interface.get_item(name)?;
    found.ok_or_else(|| wrong_value(format!("__array_interface__ lacks {name}")))
}

/// An object with `__array_interface__`: its memory where it is, or a copy on devices that cannot read it.
fn of_array(given: &Bound<'_, PyAny>, engine: &Engine) -> Done<Tensor> {
    let interface = given.getattr("__array_interface__")?;
    let interface = interface.cast::<PyDict>().map_err(PyErr::from)?;
    let dtype = type_of_code(&entry(interface, "typestr")?.extract::<String>()?)?;
    let shape: Vec<usize> = entry(interface, "shape")?.extract()?;
    let numel: usize = shape.iter().product();
    let strides: Option<Vec<isize>> = match interface.get_item("strides")? {
        Some(strides) if !strides.is_none() => Some(strides.extract()?),
        _ => None,
    };
    let data = interface.get_item("data")?;
    let Some(data) = data.filter(|data| data.cast::<PyTuple>().is_ok()) else {
        // A buffer, as pictures have it: numpy knows the rules.
        return of_copy(given, engine);
    };
    let (address, is_read_only): (usize, bool) = data.extract()?;
    if numel == 0 {
        return Ok(Tensor::from_bytes(engine, Vec::new(), &shape, dtype)?);
    }
    let size = dtype.size() as isize;
    let whole = |n: &isize| n % size == 0;
    let is_aligned = address.is_multiple_of(dtype.size());
    let fits = is_aligned
        && strides
            .as_ref()
            .is_none_or(|strides| strides.iter().all(whole));
    if !fits || capsule::reads_host(engine).is_err() {
        return of_copy(given, engine);
    }
    // Elements from the one at the lowest address on.
    let (mut low, mut high) = (0isize, 0isize);
    let mut layout = Layout::new(&shape, dtype);
    if let Some(strides) = &strides {
        for (&stride, &len) in strides.iter().zip(&shape) {
            let last = stride * (len as isize - 1);
            low += last.min(0);
            high += last.max(0);
        }
        let elements: Vec<isize> = strides.iter().map(|stride| stride / size).collect();
        layout = layout.strides(&elements).offset(low.unsigned_abs());
    } else {
        high = (numel as isize - 1) * size;
    }
    let access = match is_read_only {
        true => Access::ReadOnly,
        false => Access::ReadWrite,
    };
    // The interface of a number of numpy's keeps the array that its address is of.
    let owner = (given.clone().unbind(), interface.clone().unbind());
    let start = address.wrapping_add_signed(low) as *mut u8;
    let bytes = (high - low + size).unsigned_abs();
    capsule::of_memory(
        engine,
        start,
        bytes,
        &layout,
        access,
        on_release(move || drop(owner)),
    )
}

/// What numpy makes an array of, copied row-major.
fn of_copy(given: &Bound<'_, PyAny>, engine: &Engine) -> Done<Tensor> {
    let numpy = given.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (given,))?;
    let dtype = type_of_code(
        &array
            .getattr("dtype")?
            .getattr("str")?
            .extract::<String>()?,
    )?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let bytes = array.call_method0("tobytes")?;
    let bytes = bytes
        .cast::<PyBytes>()
        .map_err(PyErr::from)?
        .as_bytes()
        .to_vec();
    Ok(Tensor::from_bytes(engine, bytes, &shape, dtype)?)
}

/// A copy of a buffer.
fn of_buffer(given: &Bound<'_, PyAny>, engine: &Engine) -> Done<Tensor> {
    let view = given
        .py()
        .import("builtins")?
        .call_method1("memoryview", (given,))?;
    let format: String = view.getattr("format")?.extract()?;
    let itemsize: usize = view.getattr("itemsize")?.extract()?;
    let shape: Vec<usize> = view.getattr("shape")?.extract()?;
    // Sizes of C's types are those of this machine.
    let code = match format.trim_start_matches(['@', '=', '<']) {
        "?" => "|b1".to_owned(),
        "b" | "c" => "|i1".to_owned(),
        "B" => "|u1".to_owned(),
        "h" | "i" | "l" | "q" | "n" => format!("<i{itemsize}"),
        "H" | "I" | "L" | "Q" | "N" => format!("<u{itemsize}"),
        "e" | "f" | "d" => format!("<f{itemsize}"),
        other => other.to_owned(),
    };
    let dtype = type_of_code(&code)?;
    let bytes = view.call_method0("tobytes")?;
    let bytes = bytes
        .cast::<PyBytes>()
        .map_err(PyErr::from)?
        .as_bytes()
        .to_vec();
    Ok(Tensor::from_bytes(engine, bytes, &shape, dtype)?)
}

/// Numbers of nested lists.
#[derive(Default)]
struct Numbers {
    shape: Vec<usize>,
    list: Vec<Scalar>,
    /// Depth at which numbers were found.
    depth: Option<usize>,
}

impl Numbers {
    fn put(&mut self, number: Scalar, depth: usize) -> Done<()> {
        if *self.depth.get_or_insert(depth) != depth {
            return ragged(&format!("a number beside a list, at depth {depth}"));
        }
        self.list.push(number);
        Ok(())
    }

    fn take(&mut self, given: &Bound<'_, PyAny>, depth: usize) -> Done<()> {
        if is_number(given) {
            return self.put(given.extract::<Number>()?.0, depth);
        }
        // Numbers of numpy's, and tensors of one element.
        if !is_list(given)
            && let Ok(number) = given.extract::<Number>()
        {
            return self.put(number.0, depth);
        }
        if !is_list(given) || depth == DEEPEST || self.depth.is_some_and(|found| found <= depth) {
            let class = given.get_type().name()?.to_string();
            return ragged(&format!("{class} at depth {depth}"));
        }
        let len = given.len()?;
        match self.shape.get(depth) {
            None => self.shape.push(len),
            Some(&known) if known != len => {
                return ragged(&format!(
                    "lists of {known} and of {len} items at depth {depth}"
                ));
            }
            Some(_) => {}
        }
        for item in given.try_iter()? {
            self.take(&item?, depth + 1)?;
        }
        Ok(())
    }

    fn dtype(&self) -> DType {
        let has = |f: fn(&Scalar) -> bool| self.list.iter().any(f);
        if self.list.is_empty() || has(|x| matches!(x, Scalar::Float(_))) {
            DType::F32
        } else if has(|x| matches!(x, Scalar::Int(_))) {
            DType::I64
        } else {
            DType::Bool
        }
    }
}

fn ragged<T>(what: &str) -> Done<T> {
    Err(exception(
        "ShapeError",
        &format!(
            "Tensor: {what}: expected numbers, or lists of equal lengths that are nested equally deep"
        ),
    ))
}

/// Numbers, or nested lists of numbers or of arrays.
fn of_lists(given: &Bound<'_, PyAny>, dtype: Option<DType>, engine: &Engine) -> Done<Tensor> {
    if is_list(given) && given.len()? > 0 {
        let first = given.get_item(0)?;
        if !is_number(&first) && !is_list(&first) && is_data(&first) {
            let parts: Vec<Tensor> = given
                .try_iter()?
                .map(|part| copied(&part?, dtype, engine))
                .collect::<Done<_>>()?;
            return Ok(Tensor::stack(&parts.iter().collect::<Vec<_>>(), 0)?);
        }
    }
    let mut numbers = Numbers::default();
    numbers.take(given, 0)?;
    let dtype = dtype.unwrap_or_else(|| numbers.dtype());
    let mut bytes = Vec::with_capacity(numbers.list.len() * dtype.size());
    for number in &numbers.list {
        let bits = number.fit("Tensor", dtype)?;
        bytes.extend_from_slice(&bits.to_le_bytes()[..dtype.size()]);
    }
    Ok(Tensor::from_bytes(engine, bytes, &numbers.shape, dtype)?)
}
