//! Functions that make tensors, and join them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use doorbell::nn::state;
use doorbell::{DType, NoGrad, Rng, Scalar, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::args::{Other, Sizes};
use crate::data;
use crate::device::{Place, PyDevice, chosen, of as device_of};
use crate::dtype::Kind;
use crate::error::{Done, exception};
use crate::number::Number;
use crate::tensor::cell;
use crate::value::PyTensor;

fn kind(dtype: Option<Kind>, usual: DType) -> DType {
    dtype.map_or(usual, |kind| kind.0)
}

/// A tensor in the memory of an array of numpy, or of an object with `__dlpack__`, where the device can read it: no copy is
/// made, and later changes of the array are seen by what is computed then. Other data is copied, as Tensor() does.
#[pyfunction]
#[pyo3(signature = (data, dtype=None, device=None))]
pub(crate) fn asarray(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    dtype: Option<Kind>,
    device: Option<Place>,
) -> Done<PyTensor> {
    if let (Ok(tensor), None) = (data.cast::<PyTensor>(), &device) {
        let this = tensor.get().value();
        return Ok(PyTensor::of(match dtype {
            Some(kind) => this.cast(kind.0)?,
            None => this,
        }));
    }
    let found = data::shared(data, &chosen(py, device)?)?;
    Ok(PyTensor::of(match dtype {
        Some(kind) => found.cast(kind.0)?,
        None => found,
    }))
}

/// A tensor in the memory of an object with `__dlpack__`, such as a tensor of torch, without a copy.
#[pyfunction]
#[pyo3(signature = (x, device=None))]
pub(crate) fn from_dlpack(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    device: Option<Place>,
) -> Done<PyTensor> {
    let engine = chosen(py, device)?;
    Ok(PyTensor::of(crate::capsule::of_producer(x, &engine)?))
}

/// A parameter of this value: the same as Tensor(value, requires_grad=True). Without requires_grad it is state that
/// optimizers do not change, such as running statistics.
#[pyfunction]
#[pyo3(signature = (value, requires_grad=true))]
pub(crate) fn parameter(
    py: Python<'_>,
    value: &Bound<'_, PyAny>,
    requires_grad: bool,
) -> Done<PyTensor> {
    match value.cast::<PyTensor>() {
        Ok(tensor) => cell(&tensor.get().value(), requires_grad),
        Err(_) => cell(
            &data::copied(value, None, &chosen(py, None)?)?,
            requires_grad,
        ),
    }
}

/// A tensor of one number.
#[pyfunction]
#[pyo3(signature = (shape, value, dtype=None, device=None))]
pub(crate) fn full(
    py: Python<'_>,
    shape: Sizes,
    value: Number,
    dtype: Option<Kind>,
    device: Option<Place>,
) -> Done<PyTensor> {
    let usual = match value.0 {
        Scalar::Float(_) => DType::F32,
        Scalar::Int(_) => DType::I64,
        Scalar::Bool(_) => DType::Bool,
    };
    let made = Tensor::full(&chosen(py, device)?, &shape.0, value.0, kind(dtype, usual))?;
    Ok(PyTensor::of(made))
}

/// A tensor of zeros, float32 if no type is given.
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, device=None))]
pub(crate) fn zeros(
    py: Python<'_>,
    shape: Sizes,
    dtype: Option<Kind>,
    device: Option<Place>,
) -> Done<PyTensor> {
    Ok(PyTensor::of(Tensor::zeros(
        &chosen(py, device)?,
        &shape.0,
        kind(dtype, DType::F32),
    )?))
}

/// A tensor of ones, float32 if no type is given.
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, device=None))]
pub(crate) fn ones(
    py: Python<'_>,
    shape: Sizes,
    dtype: Option<Kind>,
    device: Option<Place>,
) -> Done<PyTensor> {
    Ok(PyTensor::of(Tensor::ones(
        &chosen(py, device)?,
        &shape.0,
        kind(dtype, DType::F32),
    )?))
}

/// start, start + step, ... below stop. With one number, from 0 to it.
#[pyfunction]
#[pyo3(signature = (start, stop=None, step=None, dtype=None, device=None))]
pub(crate) fn arange(
    py: Python<'_>,
    start: Number,
    stop: Option<Number>,
    step: Option<Number>,
    dtype: Option<Kind>,
    device: Option<Place>,
) -> Done<PyTensor> {
    let (start, stop) = match stop {
        None => (Scalar::Int(0), start.0),
        Some(stop) => (start.0, stop.0),
    };
    let step = step.map_or(Scalar::Int(1), |step| step.0);
    let is_float = [start, stop, step]
        .iter()
        .any(|number| matches!(number, Scalar::Float(_)));
    let usual = if is_float { DType::F32 } else { DType::I64 };
    let made = Tensor::arange(&chosen(py, device)?, start, stop, step, kind(dtype, usual))?;
    Ok(PyTensor::of(made))
}

/// `num` numbers from start to stop, both included.
#[pyfunction]
#[pyo3(signature = (start, stop, num=50, dtype=None, device=None))]
pub(crate) fn linspace(
    py: Python<'_>,
    start: f64,
    stop: f64,
    num: usize,
    dtype: Option<Kind>,
    device: Option<Place>,
) -> Done<PyTensor> {
    let made = Tensor::linspace(
        &chosen(py, device)?,
        start,
        stop,
        num,
        kind(dtype, DType::F32),
    )?;
    Ok(PyTensor::of(made))
}

/// A matrix with ones on the diagonal.
#[pyfunction]
#[pyo3(signature = (rows, columns=None, dtype=None, device=None))]
pub(crate) fn eye(
    py: Python<'_>,
    rows: usize,
    columns: Option<usize>,
    dtype: Option<Kind>,
    device: Option<Place>,
) -> Done<PyTensor> {
    let columns = columns.unwrap_or(rows);
    let made = Tensor::eye(&chosen(py, device)?, rows, columns, kind(dtype, DType::F32))?;
    Ok(PyTensor::of(made))
}

/// Tensors of a list; numbers and arrays take the device of the first tensor, or the usual one.
fn list(py: Python<'_>, given: &[Other]) -> Done<Vec<Tensor>> {
    let first = given.iter().find_map(|one| match one {
        Other::Tensor(tensor) => Some(tensor.clone()),
        _ => None,
    });
    let beside = match first {
        Some(tensor) => tensor,
        None => Tensor::zeros(&chosen(py, None)?, &[], DType::F32)?,
    };
    given.iter().map(|one| one.tensor(py, &beside)).collect()
}

/// Tensors one behind the other along an axis.
#[pyfunction]
#[pyo3(signature = (tensors, axis=0))]
pub(crate) fn cat(py: Python<'_>, tensors: Vec<Other>, axis: isize) -> Done<PyTensor> {
    let all = list(py, &tensors)?;
    Ok(PyTensor::of(Tensor::cat(
        &all.iter().collect::<Vec<_>>(),
        axis,
    )?))
}

/// Tensors of one shape along a new axis.
#[pyfunction]
#[pyo3(signature = (tensors, axis=0))]
pub(crate) fn stack(py: Python<'_>, tensors: Vec<Other>, axis: isize) -> Done<PyTensor> {
    let all = list(py, &tensors)?;
    Ok(PyTensor::of(Tensor::stack(
        &all.iter().collect::<Vec<_>>(),
        axis,
    )?))
}

/// Sums of products by an equation such as "bij,bjk->bik".
#[pyfunction]
#[pyo3(signature = (equation, *operands))]
pub(crate) fn einsum(py: Python<'_>, equation: &str, operands: Vec<Other>) -> Done<PyTensor> {
    let all = list(py, &operands)?;
    Ok(PyTensor::of(Tensor::einsum(
        equation,
        &all.iter().collect::<Vec<_>>(),
    )?))
}

/// For each vector a tensor that has its numbers along one axis of a grid, the first along the first.
#[pyfunction]
#[pyo3(signature = (*vectors))]
pub(crate) fn meshgrid(py: Python<'_>, vectors: Vec<Other>) -> Done<Vec<PyTensor>> {
    let all = list(py, &vectors)?;
    let made = Tensor::meshgrid(&all.iter().collect::<Vec<_>>())?;
    Ok(made.into_iter().map(PyTensor::of).collect())
}

/// The derivatives of a tensor of one element by each of `inputs`; zeros where it does not depend on one. They are tensors
/// with a graph, and have derivatives themselves.
#[pyfunction]
#[pyo3(signature = (output, inputs, seed=None))]
pub(crate) fn gradients(
    py: Python<'_>,
    output: &Bound<'_, PyTensor>,
    inputs: Vec<Bound<'_, PyTensor>>,
    seed: Option<Other>,
) -> Done<Vec<PyTensor>> {
    let of = output.get().value();
    let with: Vec<Tensor> = inputs.iter().map(|input| input.get().value()).collect();
    let with: Vec<&Tensor> = with.iter().collect();
    let found = match seed {
        None => doorbell::gradients(&of, &with)?,
        Some(seed) => doorbell::gradients_from(&of, &seed.tensor(py, &of)?, &with)?,
    };
    Ok(found.into_iter().map(PyTensor::of).collect())
}

/// Computes tensors together: what they share is computed once.
#[pyfunction]
#[pyo3(signature = (*tensors))]
pub(crate) fn realize(py: Python<'_>, tensors: Vec<Bound<'_, PyTensor>>) -> Done<()> {
    let all: Vec<Tensor> = tensors.iter().map(|tensor| tensor.get().value()).collect();
    let Some(first) = all.first() else {
        return Ok(());
    };
    Ok(py.detach(|| first.engine().realize(&all.iter().collect::<Vec<_>>()))?)
}

thread_local! {
    /// The times without gradients that this thread is in.
    static WITHOUT: RefCell<Vec<NoGrad>> = const { RefCell::new(Vec::new()) };
}

/// Begins (True) or ends (False) a time without gradients of this thread; no_grad is made of it.
#[pyfunction]
pub(crate) fn _no_grad(begin: bool) {
    WITHOUT.with(|without| match begin {
        true => without.borrow_mut().push(NoGrad::begin()),
        false => drop(without.borrow_mut().pop()),
    });
}

/// The tensors of a safetensors file by name.
#[pyfunction]
#[pyo3(signature = (path, device=None))]
pub(crate) fn load_safetensors(
    py: Python<'_>,
    path: PathBuf,
    device: Option<Place>,
) -> Done<BTreeMap<String, PyTensor>> {
    let engine = chosen(py, device)?;
    let found = py.detach(|| state::load_tensors(&engine, &path))?;
    Ok(found
        .into_iter()
        .map(|(name, tensor)| (name, PyTensor::of(tensor)))
        .collect())
}

/// Writes tensors into a safetensors file, which is replaced at once when all is written.
#[pyfunction]
pub(crate) fn save_safetensors(
    py: Python<'_>,
    tensors: BTreeMap<String, Bound<'_, PyTensor>>,
    path: PathBuf,
) -> Done<()> {
    let all: Vec<(String, Tensor)> = tensors
        .iter()
        .map(|(name, tensor)| (name.clone(), tensor.get().value()))
        .collect();
    Ok(py.detach(|| state::save_tensors(all, &path))?)
}

/// The tensor of an npy file.
#[pyfunction]
#[pyo3(signature = (path, device=None))]
pub(crate) fn read_npy(py: Python<'_>, path: PathBuf, device: Option<Place>) -> Done<PyTensor> {
    let engine = chosen(py, device)?;
    Ok(PyTensor::of(
        py.detach(|| Tensor::read_npy(&engine, &path))?,
    ))
}

/// The device of tensors that name none: the one that DEV names, or the CPU. It is opened by the first call.
#[pyfunction]
pub(crate) fn default_device(py: Python<'_>) -> Done<PyDevice> {
    Ok(device_of(&chosen(py, None)?))
}

/// A source of random numbers on a device: the same seed gives the same numbers on every device.
#[pyclass(name = "Rng", module = "doorbell", frozen)]
pub(crate) struct PyRng(Rng);

impl PyRng {
    /// The generator; clones share their state.
    pub(crate) fn rng(&self) -> Rng {
        self.0.clone()
    }
}

#[pymethods]
impl PyRng {
    #[new]
    #[pyo3(signature = (seed=0, device=None))]
    fn new(py: Python<'_>, seed: u64, device: Option<Place>) -> Done<PyRng> {
        Ok(PyRng(Rng::new(&chosen(py, device)?, seed)))
    }

    /// Uniform within 0..1.
    #[pyo3(signature = (*shape, dtype=None))]
    fn rand(&self, shape: &Bound<'_, PyTuple>, dtype: Option<Kind>) -> Done<PyTensor> {
        let shape = extents(shape)?;
        Ok(PyTensor::of(
            self.rng().rand(&shape, kind(dtype, DType::F32))?,
        ))
    }

    /// Of the standard normal distribution.
    #[pyo3(signature = (*shape, dtype=None))]
    fn randn(&self, shape: &Bound<'_, PyTuple>, dtype: Option<Kind>) -> Done<PyTensor> {
        let shape = extents(shape)?;
        Ok(PyTensor::of(
            self.rng().randn(&shape, kind(dtype, DType::F32))?,
        ))
    }

    /// Uniform within low..high.
    #[pyo3(signature = (shape, low=0.0, high=1.0, dtype=None))]
    fn uniform(&self, shape: Sizes, low: f64, high: f64, dtype: Option<Kind>) -> Done<PyTensor> {
        Ok(PyTensor::of(self.rng().uniform(
            &shape.0,
            low,
            high,
            kind(dtype, DType::F32),
        )?))
    }

    /// Of a normal distribution.
    #[pyo3(signature = (shape, mean=0.0, std=1.0, dtype=None))]
    fn normal(&self, shape: Sizes, mean: f64, std: f64, dtype: Option<Kind>) -> Done<PyTensor> {
        Ok(PyTensor::of(self.rng().normal(
            &shape.0,
            mean,
            std,
            kind(dtype, DType::F32),
        )?))
    }

    /// Integers from low up to high, which is excluded.
    #[pyo3(signature = (shape, low, high, dtype=None))]
    fn randint(&self, shape: Sizes, low: i64, high: i64, dtype: Option<Kind>) -> Done<PyTensor> {
        Ok(PyTensor::of(self.rng().randint(
            &shape.0,
            low,
            high,
            kind(dtype, DType::I64),
        )?))
    }

    /// A random order of 0..n.
    fn randperm(&self, n: usize) -> Done<PyTensor> {
        Ok(PyTensor::of(self.rng().randperm(n)?))
    }

    /// The tensor with elements set to 0 with probability p, and the others divided by 1 - p.
    fn dropout(&self, x: &Bound<'_, PyTensor>, p: f64) -> Done<PyTensor> {
        Ok(PyTensor::of(self.rng().dropout(&x.get().value(), p)?))
    }

    /// Its state: four numbers.
    #[getter]
    fn state(&self) -> [u32; 4] {
        self.0.state()
    }

    #[setter]
    fn set_state(&self, state: [u32; 4]) -> Done<()> {
        Ok(self.0.set_state(state)?)
    }
}

/// Sizes as arguments of their own, or as one sequence.
fn extents(shape: &Bound<'_, PyTuple>) -> Done<Vec<usize>> {
    let given = crate::args::spread(shape)?;
    let sizes = given.iter().map(|&size| usize::try_from(size));
    sizes.collect::<Result<_, _>>().map_err(|_| {
        exception(
            "ShapeError",
            &format!("shape {given:?}: expected sizes that are 0 or more"),
        )
    })
}

/// The tensor whose elements are those of one where a condition is true, and of the other elsewhere.
#[pyfunction]
#[pyo3(name = "where")]
pub(crate) fn where_(py: Python<'_>, condition: Other, a: Other, b: Other) -> Done<PyTensor> {
    let first = [&condition, &a, &b].into_iter().find_map(|one| match one {
        Other::Tensor(tensor) => Some(tensor.clone()),
        _ => None,
    });
    let beside = match first {
        Some(tensor) => tensor,
        None => Tensor::zeros(&chosen(py, None)?, &[], DType::F32)?,
    };
    let condition = condition.tensor(py, &beside)?;
    Ok(PyTensor::of(condition.where_(
        a.operand(py, &beside)?,
        b.operand(py, &beside)?,
    )?))
}

/// The larger sizes of all axes of shapes that broadcast.
#[pyfunction]
#[pyo3(signature = (*shapes))]
pub(crate) fn broadcast_shapes(shapes: Vec<Sizes>) -> Done<Vec<usize>> {
    let all: Vec<&[usize]> = shapes.iter().map(|shape| shape.0.as_slice()).collect();
    Ok(doorbell::ops::broadcast_shapes("broadcast_shapes", &all)?)
}

/// The generator of initial values, of dropout, and of Tensor.rand and Tensor.randn.
static GENERATOR: Mutex<Option<Rng>> = Mutex::new(None);

fn usual_rng(py: Python<'_>) -> Done<Rng> {
    let engine = chosen(py, None)?;
    let mut generator = GENERATOR
        .lock()
        .unwrap_or_else(|broken| broken.into_inner());
    if let Some(rng) = &*generator {
        return Ok(rng.clone());
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = now.map_or(0, |now| now.as_nanos() as u64);
    Ok(generator.insert(Rng::new(&engine, seed)).clone())
}

/// The generator of initial values of layers, of dropout, and of Tensor.rand and Tensor.randn. Without manual_seed its seed is the
/// time.
#[pyfunction]
pub(crate) fn default_rng(py: Python<'_>) -> Done<PyRng> {
    Ok(PyRng(usual_rng(py)?))
}

/// From now on default_rng() gives the numbers of this seed.
#[pyfunction]
pub(crate) fn manual_seed(py: Python<'_>, seed: u64) -> Done<()> {
    let rng = Rng::new(&chosen(py, None)?, seed);
    *GENERATOR
        .lock()
        .unwrap_or_else(|broken| broken.into_inner()) = Some(rng);
    Ok(())
}

/// A tensor, or a parameter of it.
fn made(tensor: Tensor, requires_grad: bool) -> Done<PyTensor> {
    match requires_grad {
        true => cell(&tensor, true),
        false => Ok(PyTensor::of(tensor)),
    }
}

#[pymethods]
impl PyTensor {
    /// A tensor of zeros.
    #[staticmethod]
    #[pyo3(name = "zeros", signature = (*shape, dtype=None, device=None, requires_grad=false))]
    fn of_zeros(
        py: Python<'_>,
        shape: &Bound<'_, PyTuple>,
        dtype: Option<Kind>,
        device: Option<Place>,
        requires_grad: bool,
    ) -> Done<PyTensor> {
        let (engine, shape) = (chosen(py, device)?, extents(shape)?);
        made(
            Tensor::zeros(&engine, &shape, kind(dtype, DType::F32))?,
            requires_grad,
        )
    }

    /// A tensor of ones.
    #[staticmethod]
    #[pyo3(name = "ones", signature = (*shape, dtype=None, device=None, requires_grad=false))]
    fn of_ones(
        py: Python<'_>,
        shape: &Bound<'_, PyTuple>,
        dtype: Option<Kind>,
        device: Option<Place>,
        requires_grad: bool,
    ) -> Done<PyTensor> {
        let (engine, shape) = (chosen(py, device)?, extents(shape)?);
        made(
            Tensor::ones(&engine, &shape, kind(dtype, DType::F32))?,
            requires_grad,
        )
    }

    /// A matrix with ones on the diagonal.
    #[staticmethod]
    #[pyo3(name = "eye", signature = (rows, columns=None, dtype=None, device=None, requires_grad=false))]
    fn of_eye(
        py: Python<'_>,
        rows: usize,
        columns: Option<usize>,
        dtype: Option<Kind>,
        device: Option<Place>,
        requires_grad: bool,
    ) -> Done<PyTensor> {
        let engine = chosen(py, device)?;
        let columns = columns.unwrap_or(rows);
        made(
            Tensor::eye(&engine, rows, columns, kind(dtype, DType::F32))?,
            requires_grad,
        )
    }

    /// Numbers that are uniform within 0..1, of default_rng().
    #[staticmethod]
    #[pyo3(name = "rand", signature = (*shape, dtype=None, requires_grad=false))]
    fn of_rand(
        py: Python<'_>,
        shape: &Bound<'_, PyTuple>,
        dtype: Option<Kind>,
        requires_grad: bool,
    ) -> Done<PyTensor> {
        let drawn = usual_rng(py)?.rand(&extents(shape)?, kind(dtype, DType::F32))?;
        made(drawn, requires_grad)
    }

    /// Numbers of the standard normal distribution, of default_rng().
    #[staticmethod]
    #[pyo3(name = "randn", signature = (*shape, dtype=None, requires_grad=false))]
    fn of_randn(
        py: Python<'_>,
        shape: &Bound<'_, PyTuple>,
        dtype: Option<Kind>,
        requires_grad: bool,
    ) -> Done<PyTensor> {
        let drawn = usual_rng(py)?.randn(&extents(shape)?, kind(dtype, DType::F32))?;
        made(drawn, requires_grad)
    }
}
