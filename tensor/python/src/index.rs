//! `x[...]`, as numpy has it: numbers, slices, None, ..., and tensors of integers and of truth values.

use doorbell::ops::movement::Slice;
use doorbell::{DType, ScatterMode, Tensor};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PySlice, PyTuple};

use crate::data;
use crate::error::{Done, Failed, exception};
use crate::value::PyTensor;

/// A part of an index.
enum Part {
    /// One position.
    At(isize),
    /// Several, with a step.
    Slice(Slice),
    /// A new axis of size 1.
    New,
    /// All axes that no other part has.
    Rest,
    /// Positions that a tensor of integers has.
    Positions(Tensor),
    /// Where a tensor of truth values is true: it stands for as many axes as it has.
    Mask(Tensor),
}

impl Part {
    /// How many axes of the tensor it is for.
    fn axes(&self) -> usize {
        match self {
            Part::At(_) | Part::Slice(_) | Part::Positions(_) => 1,
            Part::New | Part::Rest => 0,
            Part::Mask(mask) => mask.rank(),
        }
    }

    fn of(given: &Bound<'_, PyAny>, x: &Tensor) -> Done<Part> {
        if given.is_none() {
            return Ok(Part::New);
        }
        if given.cast::<PyEllipsis>().is_ok() {
            return Ok(Part::Rest);
        }
        if let Ok(slice) = given.cast::<PySlice>() {
            let place = |name: &str| -> PyResult<Option<isize>> {
                let given = slice.getattr(name)?;
                match given.is_none() {
                    true => Ok(None),
                    false => clamped(&given).map(Some),
                }
            };
            return Ok(Part::Slice(Slice {
                start: place("start")?,
                stop: place("stop")?,
                step: place("step")?.unwrap_or(1),
            }));
        }
        let is_truth = given.cast::<PyBool>().is_ok();
        if !is_truth && (given.cast::<PyInt>().is_ok() || is_index(given)) {
            // No axis is so long that more than this fits.
            return Ok(Part::At(clamped(given)?));
        }
        if !data::is_data(given) {
            let class = given.get_type().name()?.to_string();
            return Err(exception(
                "RangeError",
                &format!(
                    "index: expected integers, slices, None, ..., or tensors, arrays or lists of integers or of truth \
                     values; found {class}"
                ),
            ));
        }
        let tensor = data::copied(given, None, x.engine())?;
        match tensor.dtype() {
            DType::Bool if tensor.rank() == 0 => Err(exception(
                "RangeError",
                "index: a truth value alone; use None for a new axis, or `where`",
            )),
            DType::Bool => Ok(Part::Mask(tensor)),
            dtype if dtype.is_int() => Ok(Part::Positions(tensor)),
            // An empty list has no type of its own.
            _ if tensor.numel() == 0 => Ok(Part::Positions(tensor.cast(DType::I64)?)),
            dtype => Err(exception(
                "RangeError",
                &format!("index: a tensor of {dtype}; expected one of integers or of truth values"),
            )),
        }
    }
}

/// An integer; one beyond the machine's is the machine's last one.
fn clamped(given: &Bound<'_, PyAny>) -> PyResult<isize> {
    match given.extract::<isize>() {
        Err(e) if e.is_instance_of::<PyOverflowError>(given.py()) => match given.lt(0)? {
            true => Ok(isize::MIN),
            false => Ok(isize::MAX),
        },
        found => found,
    }
}

/// Numbers of numpy's, which are no integers of Python's.
fn is_index(given: &Bound<'_, PyAny>) -> bool {
    given.cast::<PyTensor>().is_err()
        && given.hasattr("__index__").unwrap_or(false)
        && !given.hasattr("__len__").unwrap_or(true)
        && given.extract::<isize>().is_ok()
}

/// The parts of an index, of which those for axes are as many as the tensor has axes.
fn parts(x: &Tensor, key: &Bound<'_, PyAny>) -> Done<Vec<Part>> {
    let mut parts = Vec::new();
    match key.cast::<PyTuple>() {
        Ok(list) => {
            for part in list.iter() {
                parts.push(Part::of(&part, x)?);
            }
        }
        Err(_) => parts.push(Part::of(key, x)?),
    }
    let named: usize = parts.iter().map(Part::axes).sum();
    if named > x.rank() {
        return Err(exception(
            "RangeError",
            &format!(
                "index: {named} axes are indexed, the tensor has {}: {:?}",
                x.rank(),
                x.shape()
            ),
        ));
    }
    let rests = parts
        .iter()
        .filter(|part| matches!(part, Part::Rest))
        .count();
    if rests > 1 {
        return Err(exception(
            "RangeError",
            "index: ... stands there twice; once is for all axes that are left",
        ));
    }
    if rests == 0 {
        parts.push(Part::Rest);
    }
    let all = || Part::Slice(Slice::ALL);
    let missing = x.rank() - named;
    // The ellipsis stays: it separates, also where no axis is left for it.
    let filled = parts.into_iter().flat_map(|part| match part {
        Part::Rest => std::iter::once(Part::Rest)
            .chain((0..missing).map(|_| all()))
            .collect::<Vec<_>>(),
        part => vec![part],
    });
    Ok(filled.collect())
}

/// A position of an axis.
fn position(x: &Tensor, axis: usize, at: isize) -> Done<usize> {
    let len = x.shape()[axis];
    let found = match at < 0 {
        true => len.checked_add_signed(at),
        false => Some(at.unsigned_abs()),
    };
    found.filter(|&found| found < len).ok_or_else(|| {
        let what = match len {
            0 => format!("index {at} of axis {axis}, which has no elements"),
            _ => format!("index {at} of axis {axis}, which has {len} elements; use -{len}..{len}"),
        };
        exception("RangeError", &what)
    })
}

/// `x[key]`.
pub(crate) fn get(x: &Tensor, key: &Bound<'_, PyAny>) -> Done<Tensor> {
    let parts = parts(x, key)?;
    let by_tensors = parts
        .iter()
        .any(|part| matches!(part, Part::Positions(_) | Part::Mask(_)));
    let neighbours = are_neighbours(&parts);
    // One axis of `y` for each part, and for each axis of a mask; then those of numbers go.
    let mut y = x.clone();
    let mut axis = 0;
    let mut dropped = Vec::new();
    let mut chosen: Vec<(usize, Tensor)> = Vec::new();
    for part in parts {
        match part {
            Part::At(at) if by_tensors => {
                let at = position(&y, axis, at)? as i64;
                chosen.push((axis, Tensor::full(y.engine(), &[], at, DType::I64)?));
            }
            Part::At(at) => {
                y = y.narrow(axis as isize, position(&y, axis, at)?, 1)?;
                dropped.push(axis);
            }
            Part::Slice(slice) => {
                let mut slices = vec![Slice::ALL; axis];
                slices.push(slice);
                y = y.slice(&slices)?;
            }
            Part::New => y = y.unsqueeze(axis as isize)?,
            Part::Rest => continue,
            Part::Positions(positions) => chosen.push((axis, positions)),
            Part::Mask(mask) => {
                let own = &y.shape()[axis..axis + mask.rank()];
                if mask.shape() != own {
                    return Err(exception(
                        "RangeError",
                        &format!(
                            "index: a mask of shape {:?} for axes of sizes {own:?}",
                            mask.shape()
                        ),
                    ));
                }
                axis += masked(key.py(), &mask, axis, &mut chosen)?;
                continue;
            }
        }
        axis += 1;
    }
    if chosen.is_empty() {
        let kept = y
            .shape()
            .iter()
            .enumerate()
            .filter(|(i, _)| !dropped.contains(i));
        let shape: Vec<usize> = kept.map(|(_, &len)| len).collect();
        return Ok(y.reshape(&shape)?);
    }
    picked(&y, &chosen, neighbours)
}

/// Whether nothing stands between the parts that tensors choose by; a number is one of them.
fn are_neighbours(parts: &[Part]) -> bool {
    let chooses = |part: &Part| matches!(part, Part::At(_) | Part::Positions(_) | Part::Mask(_));
    let first = parts.iter().position(chooses).unwrap_or(0);
    let last = parts.iter().rposition(chooses).unwrap_or(0);
    parts[first..=last].iter().all(chooses)
}

/// The positions where a mask is true, for each of its axes; how many axes it has.
fn masked(
    py: Python<'_>,
    mask: &Tensor,
    axis: usize,
    chosen: &mut Vec<(usize, Tensor)>,
) -> Done<usize> {
    // One row for each, one column for each axis.
    let places = py.detach(|| mask.nonzero())?;
    let places = places.reshape(&[places.shape()[0], mask.rank()])?;
    for i in 0..mask.rank() {
        chosen.push((axis + i, places.index(1, i as isize)?));
    }
    Ok(mask.rank())
}

/// Shapes fit: what is refused are positions that the host knows.
fn out_of_range(e: doorbell::tensor::Error) -> Failed {
    match e {
        doorbell::tensor::Error::Shape { .. } => exception("RangeError", &e.to_string()),
        e => e.into(),
    }
}

/// Elements at positions of several axes, which broadcast. The new axes stand where the old ones did if those are
/// neighbours, else first, as in numpy.
fn picked(y: &Tensor, chosen: &[(usize, Tensor)], neighbours: bool) -> Done<Tensor> {
    let axes: Vec<usize> = chosen.iter().map(|(axis, _)| *axis).collect();
    let shapes: Vec<&[usize]> = chosen
        .iter()
        .map(|(_, positions)| positions.shape())
        .collect();
    let shape = doorbell::ops::broadcast_shapes("index", &shapes)
        .map_err(|e| exception("RangeError", &e.to_string()))?;
    let at = if neighbours { axes[0] } else { 0 };
    let rest = (0..y.rank()).filter(|axis| !axes.contains(axis));
    let order: Vec<usize> = axes.iter().copied().chain(rest).collect();
    let first = y.permute(&order)?;
    let found = match chosen {
        [(_, positions)] => first.index_select(0, positions).map_err(out_of_range)?,
        _ => {
            let mut columns = Vec::new();
            for (axis, positions) in chosen {
                // Positions that the host knows are checked here, also where nothing is read.
                let places = Tensor::iota(y.engine(), y.shape()[*axis], DType::I64)?;
                places.index_select(0, positions).map_err(out_of_range)?;
                columns.push(positions.cast(DType::I64)?.expand(&shape)?);
            }
            let index = Tensor::stack(&columns.iter().collect::<Vec<_>>(), -1)?;
            first.gather_nd(&index, 0).map_err(out_of_range)?
        }
    };
    // [new.., rest..] to [rest before.., new.., rest after..]
    let new = shape.len();
    let order: Vec<usize> = (new..new + at)
        .chain(0..new)
        .chain(new + at..found.rank())
        .collect();
    Ok(found.permute(&order)?)
}

/// `x` with `value` at `key`; of several writes to one element the last one counts.
pub(crate) fn set(x: &Tensor, key: &Bound<'_, PyAny>, value: &Tensor) -> Done<Tensor> {
    let numel = x.numel();
    let places = Tensor::iota(x.engine(), numel, DType::I64)?.reshape(x.shape())?;
    let places = get(&places, key)?;
    let value = value.to(x.engine())?.cast(x.dtype())?;
    // As in numpy, leading axes of size 1 do not count.
    let mut own = value.shape();
    while own.len() > places.rank() && own[0] == 1 {
        own = &own[1..];
    }
    let fits = doorbell::ops::broadcast_shapes("index", &[own, places.shape()]);
    if !fits.is_ok_and(|both| both == places.shape()) {
        return Err(exception(
            "ShapeError",
            &format!(
                "assignment: a value of shape {:?} for a part of shape {:?}",
                value.shape(),
                places.shape()
            ),
        ));
    }
    let value = value.reshape(own)?.expand(places.shape())?;
    let count = places.numel();
    let flat = x.reshape(&[numel])?;
    let written = flat.scatter(
        0,
        &places.reshape(&[count])?,
        &value.reshape(&[count])?,
        ScatterMode::Set,
    )?;
    Ok(written.reshape(x.shape())?)
}
