//! Operations on tensors. Every function checks shapes and types and builds a graph; nothing runs before
//! [`Tensor::realize`](crate::Tensor::realize) or a read.
//!
//! - Axes are `isize`; negative ones count from the end.
//! - Two tensors broadcast as in numpy (aligned at the last axis, size 1 stretches) and promote as
//!   [`DType::promote`] says. Numbers are weak and must fit, see [`Scalar`].
//! - Functions over floats turn integers and booleans into `f32`, and compute `f16`, `bf16` and
//!   8-bit floats in `f32` if they are made of more than one operation.

pub mod activation;
pub mod attention;
pub(crate) mod bounds;
pub mod by_value;
pub mod compare;
pub mod conv;
pub mod conv_transpose;
pub mod elementwise;
mod fit;
pub mod image;
pub mod index;
pub mod linalg;
pub mod loss;
pub mod movement;
pub mod norm;
mod operators;
pub mod plane;
pub mod pool;
pub mod primitive;
mod radix;
pub mod random;
pub mod reduce;
pub mod solve;
pub mod sort;

use codegen::DType;

use crate::element::Scalar;
use crate::error::{Error, Result};
use crate::graph::{Shape, Tensor};

/// The other side of a binary operation: a tensor, or a number that takes the tensor's type.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tensor: broadcasts and promotes.
    Tensor(Tensor),
    /// A weak number.
    Scalar(Scalar),
}

impl From<&Tensor> for Operand {
    fn from(tensor: &Tensor) -> Self {
        Operand::Tensor(tensor.clone())
    }
}

impl From<Tensor> for Operand {
    fn from(tensor: Tensor) -> Self {
        Operand::Tensor(tensor)
    }
}

macro_rules! operand_from {
    ($($number:ty)*) => {$(
        impl From<$number> for Operand {
            fn from(x: $number) -> Self {
                Operand::Scalar(x.into())
            }
        }
    )*};
}
operand_from!(f32 f64 i32 i64 u8 u32 bool Scalar);

pub(crate) fn shape_error<T>(op: &'static str, what: String) -> Result<T> {
    Err(Error::Shape { op, what })
}

pub(crate) fn dtype_error<T>(op: &'static str, what: String) -> Result<T> {
    Err(Error::DType { op, what })
}

/// The axis that a possibly negative number names.
pub(crate) fn axis(op: &'static str, axis: isize, rank: usize) -> Result<usize> {
    let found = if axis < 0 { axis + rank as isize } else { axis };
    if (0..rank as isize).contains(&found) {
        Ok(found as usize)
    } else {
        shape_error(
            op,
            format!("axis {axis} of a tensor with {rank} axes; use -{rank}..{rank}"),
        )
    }
}

/// The axes that possibly negative numbers name, ascending; none given means all.
pub(crate) fn axes(op: &'static str, given: &[isize], rank: usize) -> Result<Vec<usize>> {
    if given.is_empty() {
        return Ok((0..rank).collect());
    }
    let mut found = given
        .iter()
        .map(|&a| axis(op, a, rank))
        .collect::<Result<Vec<_>>>()?;
    found.sort_unstable();
    if found.windows(2).any(|pair| pair[0] == pair[1]) {
        return shape_error(op, format!("axes {given:?} name one axis twice"));
    }
    Ok(found)
}

/// The number of elements of a shape. Refuses shapes whose bytes cannot be addressed, with or without the
/// axes of size 0: so the sizes of any axes of a tensor can be multiplied.
pub(crate) fn check_size(op: &'static str, shape: &[usize], dtype: DType) -> Result<usize> {
    let most = isize::MAX as usize / dtype.size();
    let fits = shape
        .iter()
        .try_fold(1usize, |n, &len| n.checked_mul(len.max(1)))
        .is_some_and(|n| n <= most);
    if !fits {
        return shape_error(
            op,
            format!("shape {shape:?} of {dtype} exceeds the address space"),
        );
    }
    Ok(shape.iter().product())
}

/// The shape that all shapes broadcast to.
///
/// # Errors
/// Two sizes of an axis differ and neither is 1.
pub fn broadcast_shapes(op: &'static str, shapes: &[&[usize]]) -> Result<Shape> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut out = vec![1; rank];
    for shape in shapes {
        for (to, &len) in out.iter_mut().rev().zip(shape.iter().rev()) {
            if *to == 1 {
                *to = len;
            } else if len != 1 && len != *to {
                return shape_error(
                    op,
                    format!(
                        "shapes {shapes:?} do not broadcast: sizes {to} and {len} differ; aligned from \
                         the last axis, sizes must be equal or 1"
                    ),
                );
            }
        }
    }
    Ok(out)
}

/// Brings two operands to one shape and one type.
pub(crate) fn pair(op: &'static str, a: &Tensor, b: Operand) -> Result<(Tensor, Tensor)> {
    match b {
        Operand::Scalar(number) => {
            let dtype = number.beside(a.dtype());
            let bits = number.fit(op, dtype)?;
            let b = Tensor::full_bits(a.engine(), a.shape(), bits, dtype)?;
            Ok((a.cast(dtype)?, b))
        }
        Operand::Tensor(b) => {
            same_engine(op, a, &b)?;
            let dtype = a.dtype().promote(b.dtype());
            let shape = broadcast_shapes(op, &[a.shape(), b.shape()])?;
            Ok((
                a.cast(dtype)?.expand(&shape)?,
                b.cast(dtype)?.expand(&shape)?,
            ))
        }
    }
}

/// The same as floats. Two tensors promote first: an integer beside an `f64` keeps its digits. A number meets the float
/// that the tensor becomes, and need not fit into an integer.
pub(crate) fn float_pair(op: &'static str, a: &Tensor, b: Operand) -> Result<(Tensor, Tensor)> {
    let (a, b) = match b {
        Operand::Scalar(_) => pair(op, &a.to_float()?, b)?,
        Operand::Tensor(_) => pair(op, a, b)?,
    };
    Ok((a.to_float()?, b.to_float()?))
}

pub(crate) fn same_engine(op: &'static str, a: &Tensor, b: &Tensor) -> Result<()> {
    if a.engine() == b.engine() {
        return Ok(());
    }
    Err(Error::Engines {
        op,
        a: a.engine().name(),
        b: b.engine().name(),
    })
}
