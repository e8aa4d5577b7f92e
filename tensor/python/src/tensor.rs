//! What Python's tensors have beside the methods of the engine: operators, numpy's names, values, gradients.
//!
//! The lint below takes calls that pyo3 makes in a macro of ours for calls of ours.

#![allow(unsafe_op_in_unsafe_fn)]

use doorbell::{DType, Operand, Parameter, Tensor};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::args::{Other, spread};
use crate::device::{Place, PyDevice, chosen, of as device_of};
use crate::dtype::{Kind, PyDType};
use crate::error::{Done, exception, wrong_type, wrong_value};
use crate::value::{Leaf, PyTensor, backward};
use crate::{capsule, data, index};

/// A tensor as it is held for others: numpy keeps this, and with it the memory that its address is of.
#[pyclass(name = "_Memory", module = "doorbell", frozen)]
struct Memory {
    tensor: Tensor,
    address: u64,
    code: &'static str,
}

#[pymethods]
impl Memory {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        all.set_item("version", 3)?;
        all.set_item("shape", PyTuple::new(py, self.tensor.shape())?)?;
        all.set_item("typestr", self.code)?;
        // Values do not change: the array is read-only.
        all.set_item("data", (self.address, true))?;
        Ok(all)
    }
}

fn lifted(number: &Other, py: Python<'_>, beside: &Tensor) -> Done<Tensor> {
    number.tensor(py, beside)
}

/// The type in which one of two is divided as a float.
fn is_float(a: &Tensor, b: &Operand) -> bool {
    let other = match b {
        Operand::Scalar(number) => number.beside(a.dtype()),
        Operand::Tensor(b) => b.dtype(),
    };
    a.dtype().is_float() || other.is_float()
}

fn floor_div(a: &Tensor, b: Operand) -> Done<Tensor> {
    match is_float(a, &b) {
        true => Ok(a.div(b)?.floor()?),
        false => Ok(a.floor_div(b)?),
    }
}

/// Reads the elements, without the lock of the interpreter.
fn bytes_of(py: Python<'_>, tensor: &Tensor) -> Done<Vec<u8>> {
    Ok(py.detach(|| tensor.to_bytes())?)
}

fn element(py: Python<'_>, dtype: DType, bytes: &[u8]) -> PyResult<Py<PyAny>> {
    use doorbell::codegen::interp::scalar;

    let bits = scalar::read(dtype, bytes);
    Ok(if dtype == DType::Bool {
        (bits != 0)
            .into_pyobject(py)?
            .to_owned()
            .into_any()
            .unbind()
    } else if dtype.is_float() {
        scalar::to_f64(dtype, bits)
            .into_pyobject(py)?
            .into_any()
            .unbind()
    } else {
        scalar::to_int(dtype, bits)
            .into_pyobject(py)?
            .into_any()
            .unbind()
    })
}

fn nested(py: Python<'_>, dtype: DType, shape: &[usize], bytes: &[u8]) -> PyResult<Py<PyAny>> {
    let Some((&len, rest)) = shape.split_first() else {
        return element(py, dtype, bytes);
    };
    let size = rest.iter().product::<usize>() * dtype.size();
    let list = PyList::empty(py);
    for i in 0..len {
        list.append(nested(py, dtype, rest, &bytes[i * size..(i + 1) * size])?)?;
    }
    Ok(list.into_any().unbind())
}

impl PyTensor {
    /// Its only element.
    fn only(&self, py: Python<'_>, op: &str) -> Done<Py<PyAny>> {
        let this = self.value();
        if this.numel() != 1 {
            return Err(exception(
                "ShapeError",
                &format!(
                    "{op}: expected exactly one element, found shape {:?}; use tolist or numpy",
                    this.shape()
                ),
            ));
        }
        Ok(element(py, this.dtype(), &bytes_of(py, &this)?)?)
    }
}

#[pymethods]
impl PyTensor {
    #[new]
    #[pyo3(signature = (data, dtype=None, device=None, requires_grad=false))]
    fn new(
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        dtype: Option<Kind>,
        device: Option<Place>,
        requires_grad: bool,
    ) -> Done<PyTensor> {
        let engine = match (device, data.cast::<PyTensor>()) {
            (None, Ok(tensor)) => tensor.get().value().engine().clone(),
            (place, _) => chosen(py, place)?,
        };
        let tensor = data::copied(data, dtype.map(|kind| kind.0), &engine)?;
        match requires_grad {
            true => cell(&tensor, true),
            false => Ok(PyTensor::of(tensor)),
        }
    }

    /// Sizes of the axes, outermost first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.value().shape())
    }

    /// Number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.value().rank()
    }

    /// Number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.value().numel()
    }

    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self) -> usize {
        let this = self.value();
        this.numel() * this.dtype().size()
    }

    /// Bytes of an element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.value().dtype().size()
    }

    /// Number of elements.
    fn numel(&self) -> usize {
        self.value().numel()
    }

    /// Element type.
    #[getter]
    fn dtype(&self) -> PyDType {
        PyDType(self.value().dtype())
    }

    /// Its device.
    #[getter]
    fn device(&self) -> PyDevice {
        device_of(self.value().engine())
    }

    /// The tensor with its axes reversed.
    #[getter]
    #[pyo3(name = "T")]
    fn reversed_axes(&self) -> Done<PyTensor> {
        let this = self.value();
        let order: Vec<usize> = (0..this.rank()).rev().collect();
        Ok(PyTensor::of(this.permute(&order)?))
    }

    /// Whether backward() gives it a gradient, and optimizers change it.
    #[getter]
    fn requires_grad(&self) -> bool {
        self.leaf()
            .is_some_and(|leaf| leaf.parameter.is_trainable())
    }

    /// Whether it is a parameter or state of a module: its value can change, and modules name it.
    #[getter]
    fn is_parameter(&self) -> bool {
        self.leaf().is_some()
    }

    /// The gradient that backward() has gathered, or None.
    #[getter]
    fn grad(&self) -> Option<PyTensor> {
        self.leaf().and_then(|leaf| leaf.grad()).map(PyTensor::of)
    }

    #[setter]
    fn set_grad(&self, grad: Option<&Bound<'_, PyAny>>) -> Done<()> {
        let grad = match grad {
            None => None,
            Some(grad) => match grad.cast::<PyTensor>() {
                Ok(grad) => Some(grad.get().value()),
                Err(_) => return Err(wrong_type("grad: expected a tensor or None".into()).into()),
            },
        };
        let Some(leaf) = self.leaf() else {
            return Err(exception(
                "GradientError",
                "grad: the tensor has requires_grad=False",
            ));
        };
        let own = leaf.parameter.get();
        if let Some(grad) = grad.as_ref().filter(|grad| grad.shape() != own.shape()) {
            return Err(exception(
                "ShapeError",
                &format!(
                    "grad: expected shape {:?}, found {:?}",
                    own.shape(),
                    grad.shape()
                ),
            ));
        }
        leaf.set_grad(grad);
        Ok(())
    }

    /// Adds the gradients of this tensor, which has one element, to `grad` of all tensors with requires_grad=True that it
    /// depends on, and computes them. A tensor with more elements needs `gradient`, a factor for each of them.
    #[pyo3(signature = (gradient=None))]
    fn backward(&self, py: Python<'_>, gradient: Option<Other>) -> Done<()> {
        let this = self.value();
        let seed = gradient.map(|given| given.tensor(py, &this)).transpose()?;
        backward(py, &this, seed.as_ref())
    }

    /// Sets the value of a parameter, or of any tensor: with the same shape, type and device if it is a parameter.
    fn assign(&self, py: Python<'_>, value: Other) -> Done<()> {
        let value = value.tensor(py, &self.value())?;
        self.replace(value)
    }

    /// Writes the values into memory that is shared with an array (see asarray): the array has them afterwards. Waits.
    fn copy_into(&self, py: Python<'_>, shared: &Bound<'_, PyTensor>) -> Done<()> {
        let (this, shared) = (self.value(), shared.get().value());
        Ok(py.detach(|| shared.overwrite(&this))?)
    }

    /// Computes the value into memory, and returns the tensor itself.
    fn realize<'py>(slf: Bound<'py, Self>) -> Done<Bound<'py, Self>> {
        let this = slf.get().value();
        slf.py().detach(|| this.realize().map(|_| ()))?;
        Ok(slf)
    }

    /// The elements as an array of numpy. On the CPU it has the memory of the tensor, and is read-only; `copy=True` is an
    /// array of its own.
    #[pyo3(signature = (copy=false))]
    fn numpy<'py>(slf: &Bound<'py, Self>, copy: bool) -> Done<Bound<'py, PyAny>> {
        let array = slf.get().array(slf.py())?;
        match copy {
            true => Ok(array.call_method0("copy")?),
            false => Ok(array),
        }
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> Done<Bound<'py, PyAny>> {
        let array = self.array(py)?;
        match (dtype, copy) {
            (Some(dtype), _) => Ok(array.call_method1("astype", (dtype,))?),
            (None, Some(true)) => Ok(array.call_method0("copy")?),
            (None, _) => Ok(array),
        }
    }

    /// numpy leaves operators with tensors to them.
    #[classattr]
    fn __array_ufunc__() -> Option<bool> {
        None
    }

    /// Where the elements are, on the CPU: the address of the first one. Computes the tensor, and waits.
    fn data_ptr(&self, py: Python<'_>) -> Done<u64> {
        let this = self.value();
        Ok(py.detach(|| this.address())?)
    }

    /// Whether the memory is that of an array, too.
    #[getter]
    fn is_shared(&self) -> bool {
        self.value().is_shared()
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> Done<Bound<'py, PyAny>> {
        let this = self.value();
        let own = doorbell::tensor::dlpack::device_of(this.engine())?;
        if dl_device.is_some_and(|asked| asked != own) {
            return Err(pyo3::exceptions::PyBufferError::new_err(format!(
                "__dlpack__: the tensor is on device {own:?}, {dl_device:?} was asked for; use to(...) first"
            ))
            .into());
        }
        if own.0 == 1 && stream.is_some() {
            return Err(wrong_value(
                "__dlpack__: the CPU has no streams; expected stream=None".into(),
            )
            .into());
        }
        let has_version = max_version.is_some_and(|version| version.0 >= 1);
        capsule::made(py, &this, copy == Some(true), has_version)
    }

    fn __dlpack_device__(&self) -> Done<(i32, i32)> {
        Ok(doorbell::tensor::dlpack::device_of(self.value().engine())?)
    }

    /// The elements as nested lists of Python's numbers; a number if there are no axes.
    fn tolist(&self, py: Python<'_>) -> Done<Py<PyAny>> {
        let this = self.value();
        let bytes = bytes_of(py, &this)?;
        Ok(nested(py, this.dtype(), this.shape(), &bytes)?)
    }

    /// The only element as a number of Python.
    fn item(&self, py: Python<'_>) -> Done<Py<PyAny>> {
        self.only(py, "item")
    }

    /// The elements as bytes, row-major, little-endian.
    fn tobytes<'py>(&self, py: Python<'py>) -> Done<Bound<'py, pyo3::types::PyBytes>> {
        let bytes = bytes_of(py, &self.value())?;
        Ok(pyo3::types::PyBytes::new(py, &bytes))
    }

    /// On another device, or in another type.
    #[pyo3(signature = (*args, dtype=None, device=None))]
    fn to(
        &self,
        args: &Bound<'_, PyTuple>,
        dtype: Option<Kind>,
        device: Option<Place>,
    ) -> Done<PyTensor> {
        let mut this = self.value();
        for given in args.iter() {
            this = match given.extract::<Kind>() {
                Ok(kind) => this.cast(kind.0)?,
                Err(_) => this.to(&given.extract::<Place>()?.0)?,
            };
        }
        if let Some(kind) = dtype {
            this = this.cast(kind.0)?;
        }
        if let Some(place) = device {
            this = this.to(&place.0)?;
        }
        Ok(PyTensor::of(this))
    }

    /// In another type, by value.
    fn astype(&self, dtype: Kind) -> Done<PyTensor> {
        Ok(PyTensor::of(self.value().cast(dtype.0)?))
    }

    /// As float32.
    fn float(&self) -> Done<PyTensor> {
        Ok(PyTensor::of(self.value().cast(DType::F32)?))
    }

    /// As float16.
    fn half(&self) -> Done<PyTensor> {
        Ok(PyTensor::of(self.value().cast(DType::F16)?))
    }

    /// As int32.
    fn int(&self) -> Done<PyTensor> {
        Ok(PyTensor::of(self.value().cast(DType::I32)?))
    }

    /// As int64.
    fn long(&self) -> Done<PyTensor> {
        Ok(PyTensor::of(self.value().cast(DType::I64)?))
    }

    /// As truth values: what is not 0 is true.
    fn bool(&self) -> Done<PyTensor> {
        Ok(PyTensor::of(self.value().cast(DType::Bool)?))
    }

    /// The same elements, row-major, in another shape; one size may be -1.
    #[pyo3(signature = (*shape))]
    fn reshape(&self, shape: &Bound<'_, PyTuple>) -> Done<PyTensor> {
        Ok(PyTensor::of(self.value().view(&spread(shape)?)?))
    }

    /// The same as reshape.
    #[pyo3(signature = (*shape))]
    fn view(&self, shape: &Bound<'_, PyTuple>) -> Done<PyTensor> {
        Ok(PyTensor::of(self.value().view(&spread(shape)?)?))
    }

    /// The elements in one axis.
    fn ravel(&self) -> Done<PyTensor> {
        Ok(PyTensor::of(self.value().view(&[-1])?))
    }

    /// Axis i of the result is axis order[i] of the tensor.
    #[pyo3(signature = (*order))]
    fn permute(&self, order: &Bound<'_, PyTuple>) -> Done<PyTensor> {
        let this = self.value();
        let order = axes_of(&this, "permute", &spread(order)?)?;
        Ok(PyTensor::of(this.permute(&order)?))
    }

    /// Without arguments the axes reversed; with two, these exchanged; with all of them, in that order.
    #[pyo3(signature = (*axes))]
    fn transpose(&self, axes: &Bound<'_, PyTuple>) -> Done<PyTensor> {
        let this = self.value();
        let given = spread(axes)?;
        Ok(PyTensor::of(match *given.as_slice() {
            [] => this.permute(&(0..this.rank()).rev().collect::<Vec<_>>())?,
            [a, b] => this.transpose(a, b)?,
            _ => this.permute(&axes_of(&this, "transpose", &given)?)?,
        }))
    }

    /// Repeats axes of size 1; leading axes may be added. A size of -1 keeps the axis.
    #[pyo3(signature = (*shape))]
    fn expand(&self, shape: &Bound<'_, PyTuple>) -> Done<PyTensor> {
        let this = self.value();
        let given = spread(shape)?;
        let new = given.len().saturating_sub(this.rank());
        let mut sizes = Vec::with_capacity(given.len());
        for (i, &size) in given.iter().enumerate() {
            let own = i.checked_sub(new).and_then(|i| this.shape().get(i));
            match (size, own) {
                (-1, Some(&own)) => sizes.push(own),
                (size, _) => sizes.push(usize::try_from(size).map_err(|_| {
                    wrong_value(format!(
                        "expand: size {size} of axis {i}; -1 keeps an axis that is there"
                    ))
                })?),
            }
        }
        Ok(PyTensor::of(this.expand(&sizes)?))
    }

    /// The position of the largest element along an axis, the first of equals; of all elements without an axis.
    #[pyo3(signature = (axis=None, keepdims=false))]
    fn argmax(&self, axis: Option<isize>, keepdims: bool) -> Done<PyTensor> {
        let this = self.value();
        Ok(PyTensor::of(match axis {
            Some(axis) => this.argmax(axis, keepdims)?,
            None => this.view(&[-1])?.argmax(0, false)?,
        }))
    }

    /// The position of the smallest element along an axis, the first of equals; of all elements without an axis.
    #[pyo3(signature = (axis=None, keepdims=false))]
    fn argmin(&self, axis: Option<isize>, keepdims: bool) -> Done<PyTensor> {
        let this = self.value();
        Ok(PyTensor::of(match axis {
            Some(axis) => this.argmin(axis, keepdims)?,
            None => this.view(&[-1])?.argmin(0, false)?,
        }))
    }

    /// One number in the shape, type and device of this tensor.
    fn full_like(&self, value: crate::args::Number) -> Done<PyTensor> {
        Ok(PyTensor::of(self.value().full_like(value.0)?))
    }

    /// Writes an npy file.
    fn write_npy(&self, py: Python<'_>, path: std::path::PathBuf) -> Done<()> {
        let this = self.value();
        Ok(py.detach(|| this.write_npy(&path))?)
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> Done<PyTensor> {
        Ok(PyTensor::of(index::get(&self.value(), key)?))
    }

    fn __setitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>, value: Other) -> Done<()> {
        if self.leaf().is_some() {
            return Err(exception(
                "GradientError",
                "assignment to a part of a parameter: its gradient would be lost; use assign, or an optimizer",
            ));
        }
        let this = self.value();
        let value = match &value {
            Other::Number(number) => Tensor::full(this.engine(), &[], *number, this.dtype())?,
            value => value.tensor(py, &this)?,
        };
        self.replace(index::set(&this, key, &value)?)
    }

    fn __len__(&self) -> PyResult<usize> {
        self.value()
            .shape()
            .first()
            .copied()
            .ok_or_else(|| wrong_type("len() of a tensor without axes".into()))
    }

    fn __iter__(slf: &Bound<'_, Self>) -> Done<Py<PyAny>> {
        let this = slf.get().value();
        if this.rank() == 0 {
            return Err(wrong_type("iteration over a tensor without axes".into()).into());
        }
        let rows = PyList::empty(slf.py());
        for i in 0..this.shape()[0] {
            rows.append(PyTensor::of(this.index(0, i as isize)?))?;
        }
        Ok(rows.try_iter()?.into_any().unbind())
    }

    fn __contains__(&self, py: Python<'_>, value: Other) -> Done<bool> {
        let this = self.value();
        let found = this.eq(value.operand(py, &this)?)?.any(&[], false)?;
        Ok(py.detach(|| found.item::<bool>())?)
    }

    fn __bool__(&self, py: Python<'_>) -> Done<bool> {
        let this = self.value();
        if this.numel() != 1 {
            return Err(exception(
                "ShapeError",
                &format!(
                    "the truth value of a tensor of shape {:?} is ambiguous: use any() or all()",
                    this.shape()
                ),
            ));
        }
        Ok(self.only(py, "bool")?.bind(py).is_truthy()?)
    }

    fn __float__(&self, py: Python<'_>) -> Done<f64> {
        let found = self.only(py, "float")?;
        Ok(found.bind(py).extract()?)
    }

    fn __int__(&self, py: Python<'_>) -> Done<Py<PyAny>> {
        let found = self.only(py, "int")?;
        let whole = py.import("builtins")?.getattr("int")?.call1((found,))?;
        Ok(whole.unbind())
    }

    fn __index__(&self, py: Python<'_>) -> Done<Py<PyAny>> {
        let this = self.value();
        if !this.dtype().is_int() || this.rank() != 0 {
            return Err(wrong_type(format!(
                "only an integer tensor without axes is an index, found {:?} {}",
                this.shape(),
                PyDType(this.dtype()).name()
            ))
            .into());
        }
        self.only(py, "index")
    }

    fn __hash__(slf: &Bound<'_, Self>) -> usize {
        slf.as_ptr().addr() >> 4
    }

    fn __richcmp__(&self, py: Python<'_>, other: Other, op: CompareOp) -> Done<PyTensor> {
        let this = self.value();
        let other = other.operand(py, &this)?;
        Ok(PyTensor::of(match op {
            CompareOp::Lt => this.lt(other)?,
            CompareOp::Le => this.le(other)?,
            CompareOp::Eq => this.eq(other)?,
            CompareOp::Ne => this.ne(other)?,
            CompareOp::Gt => this.gt(other)?,
            CompareOp::Ge => this.ge(other)?,
        }))
    }

    fn __matmul__(&self, py: Python<'_>, other: Other) -> Done<PyTensor> {
        let this = self.value();
        Ok(PyTensor::of(this.matmul(&factor(py, &other, &this)?)?))
    }

    fn __rmatmul__(&self, py: Python<'_>, other: Other) -> Done<PyTensor> {
        let this = self.value();
        Ok(PyTensor::of(factor(py, &other, &this)?.matmul(&this)?))
    }

    fn __floordiv__(&self, py: Python<'_>, other: Other) -> Done<PyTensor> {
        let this = self.value();
        Ok(PyTensor::of(floor_div(&this, other.operand(py, &this)?)?))
    }

    fn __rfloordiv__(&self, py: Python<'_>, other: Other) -> Done<PyTensor> {
        let this = self.value();
        let other = lifted(&other, py, &this)?;
        Ok(PyTensor::of(floor_div(&other, Operand::Tensor(this))?))
    }

    fn __pow__(
        &self,
        py: Python<'_>,
        other: Other,
        modulo: Option<&Bound<'_, PyAny>>,
    ) -> Done<PyTensor> {
        if modulo.is_some() {
            return Err(wrong_type("pow of tensors takes no modulus".into()).into());
        }
        let this = self.value();
        Ok(PyTensor::of(this.pow(other.operand(py, &this)?)?))
    }

    fn __rpow__(
        &self,
        py: Python<'_>,
        other: Other,
        modulo: Option<&Bound<'_, PyAny>>,
    ) -> Done<PyTensor> {
        if modulo.is_some() {
            return Err(wrong_type("pow of tensors takes no modulus".into()).into());
        }
        let this = self.value();
        Ok(PyTensor::of(lifted(&other, py, &this)?.pow(&this)?))
    }

    fn __neg__(&self) -> Done<PyTensor> {
        Ok(PyTensor::of(self.value().neg()?))
    }

    fn __pos__(&self) -> PyTensor {
        PyTensor::of(self.value())
    }

    fn __abs__(&self) -> Done<PyTensor> {
        Ok(PyTensor::of(self.value().abs()?))
    }

    fn __invert__(&self) -> Done<PyTensor> {
        Ok(PyTensor::of(self.value().not()?))
    }

    fn __copy__(&self) -> PyTensor {
        PyTensor::of(self.value())
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Done<PyTensor> {
        match self.leaf() {
            Some(leaf) => cell(&leaf.parameter.get(), leaf.parameter.is_trainable()),
            None => Ok(PyTensor::of(self.value())),
        }
    }

    fn __reduce__(
        slf: &Bound<'_, Self>,
    ) -> Done<(Py<PyAny>, (Py<PyAny>, Vec<usize>, &'static str, bool))> {
        let py = slf.py();
        let made = py
            .import("doorbell._native")?
            .getattr("_from_bytes")?
            .unbind();
        let this = slf.get().value();
        let bytes = slf.get().tobytes(py)?.into_any().unbind();
        let name = PyDType(this.dtype()).name();
        Ok((
            made,
            (
                bytes,
                this.shape().to_vec(),
                name,
                slf.get().requires_grad(),
            ),
        ))
    }

    fn __str__(&self, py: Python<'_>) -> Done<String> {
        let this = self.value();
        Ok(py.detach(|| this.show())?)
    }

    fn __repr__(&self, py: Python<'_>) -> Done<String> {
        let this = self.value();
        let text = py.detach(|| this.show())?;
        let text = text.replace('\n', "\n       ");
        let dtype = PyDType(this.dtype()).name();
        let device = this.engine().name();
        let grad = if self.requires_grad() {
            ", requires_grad=True"
        } else {
            ""
        };
        Ok(format!(
            "Tensor({text}, shape={:?}, dtype={dtype}, device={device}{grad})",
            this.shape()
        ))
    }

    fn __format__(&self, py: Python<'_>, spec: &str) -> Done<String> {
        if spec.is_empty() {
            return self.__str__(py);
        }
        let only = self.only(py, "format")?;
        let text = only.bind(py).call_method1("__format__", (spec,))?;
        Ok(text.extract()?)
    }
}

/// Operators whose methods take the other operand as it is, and the same with the operands exchanged.
macro_rules! operators {
    ($($name:ident $reflected:ident $method:ident;)*) => {
        #[pymethods]
        impl PyTensor {$(
            fn $name(&self, py: Python<'_>, other: Other) -> Done<PyTensor> {
                let this = self.value();
                Ok(PyTensor::of(this.$method(other.operand(py, &this)?)?))
            }

            fn $reflected(&self, py: Python<'_>, other: Other) -> Done<PyTensor> {
                let this = self.value();
                Ok(PyTensor::of(lifted(&other, py, &this)?.$method(&this)?))
            }
        )*}
    };
}

operators! {
    __add__ __radd__ add;
    __sub__ __rsub__ sub;
    __mul__ __rmul__ mul;
    __truediv__ __rtruediv__ div;
    __mod__ __rmod__ modulo;
    __and__ __rand__ bitand;
    __or__ __ror__ bitor;
    __xor__ __rxor__ bitxor;
    __lshift__ __rlshift__ shl;
    __rshift__ __rrshift__ shr;
}

impl PyTensor {
    /// The elements as a read-only array of numpy, in the memory of the tensor where numpy can read it.
    fn array<'py>(&self, py: Python<'py>) -> Done<Bound<'py, PyAny>> {
        let this = self.value();
        let Some(code) = PyDType(this.dtype()).code() else {
            return Err(exception(
                "DTypeError",
                &format!(
                    "numpy has no {}; convert it first: x.float()",
                    PyDType(this.dtype()).name()
                ),
            ));
        };
        let numpy = py.import("numpy")?;
        if this.numel() == 0 {
            return Ok(numpy.call_method1("empty", (PyTuple::new(py, this.shape())?, code))?);
        }
        if capsule::reads_host(this.engine()).is_err() {
            let bytes = pyo3::types::PyBytes::new(py, &bytes_of(py, &this)?);
            let flat = numpy.call_method1("frombuffer", (bytes, code))?;
            return Ok(flat.call_method1("reshape", (PyTuple::new(py, this.shape())?,))?);
        }
        let address = py.detach(|| this.address())?;
        let memory = Memory {
            tensor: this,
            address,
            code,
        };
        Ok(numpy.call_method1("asarray", (memory,))?)
    }
}

/// A matrix factor: numbers are none.
fn factor(py: Python<'_>, other: &Other, beside: &Tensor) -> Done<Tensor> {
    match other {
        Other::Number(_) => {
            Err(wrong_type("@: expected a tensor with axes, found a number; use *".into()).into())
        }
        other => other.tensor(py, beside),
    }
}

/// Axes that may be negative.
fn axes_of(this: &Tensor, op: &str, given: &[isize]) -> Done<Vec<usize>> {
    let rank = this.rank() as isize;
    let found = given.iter().map(|&axis| {
        let found = if axis < 0 { axis + rank } else { axis };
        usize::try_from(found).map_err(|_| {
            exception(
                "ShapeError",
                &format!("{op}: axis {axis} of a tensor with {rank} axes; use -{rank}..{rank}"),
            )
        })
    });
    found.collect()
}

/// A parameter, or state that optimizers do not change, with this value.
pub(crate) fn cell(tensor: &Tensor, requires_grad: bool) -> Done<PyTensor> {
    if requires_grad && !tensor.dtype().is_float() {
        return Err(exception(
            "DTypeError",
            &format!(
                "requires_grad=True: expected a floating point type, found {}",
                PyDType(tensor.dtype()).name()
            ),
        ));
    }
    let own = tensor.detach()?;
    let parameter = match requires_grad {
        true => Parameter::new(own),
        false => Parameter::buffer(own),
    };
    Ok(PyTensor::cell(Leaf::new(parameter)))
}

/// A tensor that was pickled, on the usual device.
#[pyfunction]
pub(crate) fn _from_bytes(
    py: Python<'_>,
    bytes: Vec<u8>,
    shape: Vec<usize>,
    dtype: Kind,
    requires_grad: bool,
) -> Done<PyTensor> {
    let engine = chosen(py, None)?;
    let tensor = Tensor::from_bytes(&engine, bytes, &shape, dtype.0)?;
    match requires_grad {
        true => cell(&tensor, true),
        false => Ok(PyTensor::of(tensor)),
    }
}
