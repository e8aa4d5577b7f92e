//! Operators of `com.microsoft` that older exporters write; most are in the format by now.

use super::{image, index, nn, select, shape};
use crate::graph::Tensor;
use crate::onnx::call::{Call, Lowering, Table, axis, one};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::graph::{Attr, NEWEST_OPSET};
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[
    ("CDist", distances),
    ("ComplexMul", |c| complex(c, 1.0)),
    ("ComplexMulConj", |c| complex(c, -1.0)),
    ("ConvTransposeWithDynamicPads", conv_transpose),
    ("ExpandDims", expand_dims),
    ("GatherND", |c| now(c, NEWEST_OPSET, index::gather_nd)),
    // The words for its modes are those of this version.
    ("GridSample", |c| now(c, 16, image::grid_sample)),
    ("Pad", |c| now(c, NEWEST_OPSET, shape::pad)),
    ("Range", range),
    ("TorchEmbedding", |c| {
        one(c.tensor(0)?.embedding(&c.tensor(1)?)?)
    }),
    ("Trilu", |c| now(c, NEWEST_OPSET, shape::trilu)),
    ("UnfoldTensor", unfold),
    ("Unique", unique),
];

/// The operator of the format.
fn now(c: &mut Call, opset: i64, lowering: Lowering) -> Result<Vec<Value>> {
    let inputs = c.inputs;
    c.through(lowering, opset, &[], inputs)
}

/// The last input may be left out.
fn range(c: &mut Call) -> Result<Vec<Value>> {
    let mut inputs = c.inputs.to_vec();
    inputs.resize(3, None);
    if inputs[2].is_none() {
        let dtype = c.tensor(0)?.dtype();
        inputs[2] = Some(c.eval.known_ints(&[1], &[])?.cast(dtype)?.into());
    }
    c.through(shape::range, NEWEST_OPSET, &[], &inputs)
}

/// Values in the order in which they come, where they are, how often.
fn unique(c: &mut Call) -> Result<Vec<Value>> {
    let inputs = c.inputs;
    let attrs = [("sorted", Attr::Int(0))];
    let mut all = c.through(select::unique, NEWEST_OPSET, &attrs, inputs)?;
    match all.len() {
        4 => {
            all.remove(1);
            Ok(all)
        }
        n => wrong(format!("expected four outputs of Unique, found {n}")),
    }
}

fn expand_dims(c: &mut Call) -> Result<Vec<Value>> {
    let (x, at) = (c.tensor(0)?, c.int(1)?);
    one(x.unsqueeze(axis(at, x.rank() + 1)? as isize)?)
}

/// The padding is an input.
fn conv_transpose(c: &mut Call) -> Result<Vec<Value>> {
    let mut attrs = Vec::new();
    if let Some(pads) = c.opt_ints(2)? {
        attrs.push(("pads", Attr::Ints(pads)));
    }
    let order = [0, 1, 3];
    let inputs = order.map(|i| c.inputs.get(i).cloned().flatten());
    c.through(nn::conv_transpose, NEWEST_OPSET, &attrs, &inputs)
}

fn unfold(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let at = axis(c.int_or("dim", -1)?, x.rank())?;
    let size = c.needed("size", c.attr_int("size")?)?;
    let (size, step) = (usize::try_from(size), usize::try_from(c.int_or("step", 1)?));
    match (size, step) {
        (Ok(size), Ok(step @ 1..)) => one(x.unfold(at as isize, size, step)?),
        _ => wrong("expected attributes size and step of at least 1"),
    }
}

/// Distances between the rows of two matrices.
fn distances(c: &mut Call) -> Result<Vec<Value>> {
    let (a, b) = (c.tensor(0)?, c.tensor(1)?);
    if a.rank() != 2 || b.rank() != 2 {
        return wrong(format!(
            "expected two matrices, found {:?} and {:?}",
            a.shape(),
            b.shape()
        ));
    }
    let squares = a.unsqueeze(1)?.sub(&b.unsqueeze(0)?)?.square()?;
    let squares = squares.sum(&[-1], false)?;
    one(match c.str_or("metric", "sqeuclidean")? {
        "sqeuclidean" => squares,
        "euclidean" => squares.sqrt()?,
        other => return unsupported(format!("CDist with metric {other}")),
    })
}

/// Products of complex numbers, the parts of which are the last axis, of the second one's conjugate if
/// its sign is negative.
fn complex(c: &mut Call, sign: f64) -> Result<Vec<Value>> {
    let (a, b) = (c.tensor(0)?, c.tensor(1)?);
    let part = |t: &Tensor, i: isize| t.index(-1, i);
    let (x, y, u, v) = (part(&a, 0)?, part(&a, 1)?, part(&b, 0)?, part(&b, 1)?);
    let v = v.mul(sign)?.cast(u.dtype())?;
    let real = x.mul(&u)?.sub(&y.mul(&v)?)?;
    let imaginary = x.mul(&v)?.add(&y.mul(&u)?)?;
    one(Tensor::stack(&[&real, &imaginary], -1)?)
}
