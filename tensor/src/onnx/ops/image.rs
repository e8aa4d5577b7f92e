//! Grids, blocks and crops of images.

use codegen::DType;

use super::sample::{Edge, Mode, Taps, weighted};
use super::shape::movement;
use crate::element::Scalar;
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, axis, one, sizes};
use crate::onnx::error::{Result, wrong};
use crate::onnx::value::Value;
use crate::ops::check_size;
use crate::ops::movement::PadMode;

pub(super) const OPS: Table = &[
    ("AffineGrid", affine_grid),
    ("CenterCropPad", center_crop_pad),
    ("Col2Im", col2im),
    ("DepthToSpace", depth_to_space),
    ("GridSample", grid_sample),
    ("SpaceToDepth", space_to_depth),
];

/// The attribute of a block's size.
fn block(c: &Call) -> Result<usize> {
    let block = c.attr_int("blocksize")?;
    match sizes(&[c.needed("blocksize", block)?])?[..] {
        [n] if n > 0 => Ok(n),
        _ => wrong("expected attribute blocksize of at least 1"),
    }
}

/// Whether the places of a block come before the channels.
fn block_first(c: &Call) -> Result<bool> {
    match c.str_or("mode", "DCR")? {
        "DCR" => Ok(true),
        "CRD" => Ok(false),
        other => c.bad_word("mode", &["DCR", "CRD"], other),
    }
}

pub(super) fn depth_to_space(c: &mut Call) -> Result<Vec<Value>> {
    let (n, block_first) = (block(c)?, block_first(c)?);
    movement(c, |x| Ok(x.depth_to_space(n, block_first)?))
}

pub(super) fn space_to_depth(c: &mut Call) -> Result<Vec<Value>> {
    let (n, block_first) = (block(c)?, block_first(c)?);
    movement(c, |x| Ok(x.space_to_depth(n, block_first)?))
}

fn center_crop_pad(c: &mut Call) -> Result<Vec<Value>> {
    let wanted = sizes(&c.ints(1)?)?;
    let x = c.array(0)?.tensor;
    let along: Vec<usize> = match c.attr_ints("axes")? {
        Some(list) => {
            let found = list.iter().map(|&a| axis(a, x.rank()));
            found.collect::<Result<_>>()?
        }
        None => (0..x.rank()).collect(),
    };
    if wanted.len() != along.len() {
        return wrong(format!(
            "expected a size for each of {} axes, found {wanted:?}",
            along.len()
        ));
    }
    let mut shape = x.shape().to_vec();
    let mut amounts = vec![(0, 0); x.rank()];
    for (&a, &new) in along.iter().zip(&wanted) {
        let old = shape[a];
        shape[a] = new;
        let total = new.abs_diff(old).min(isize::MAX as usize) as isize;
        // An odd one goes to the end.
        let (before, after) = (total / 2, total - total / 2);
        amounts[a] = if new < old {
            (-before, -after)
        } else {
            (before, after)
        };
    }
    check_size("CenterCropPad", &shape, x.dtype())?;
    let zero = match x.dtype() {
        DType::Bool => Scalar::Bool(false),
        dtype if dtype.is_float() => Scalar::Float(0.0),
        _ => Scalar::Int(0),
    };
    movement(c, |x| Ok(x.pad(&amounts, PadMode::Constant(zero))?))
}

/// A list of sizes, one for each spatial axis.
fn spatial_list(c: &Call, name: &str, n: usize, default: usize) -> Result<Vec<usize>> {
    match c.attr_ints(name)? {
        None => Ok(vec![default; n]),
        Some(list) if list.len() == n => {
            let list = sizes(&list)?;
            match list.iter().all(|&s| s >= default && s < 1 << 40) {
                true => Ok(list),
                false => wrong(format!(
                    "expected attribute {name} of at least {default}, found {list:?}"
                )),
            }
        }
        Some(list) => wrong(format!(
            "expected attribute {name} with {n} sizes, found {list:?}"
        )),
    }
}

/// Blocks added into an image, axis by axis: the parts of a block are moved to where they belong
/// and summed.
fn col2im(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let (image, block) = (sizes(&c.ints(1)?)?, sizes(&c.ints(2)?)?);
    let r = image.len();
    let &[n, rows, columns] = x.shape() else {
        return wrong(format!(
            "expected [n, c * block, blocks], found {:?}",
            x.shape()
        ));
    };
    if r == 0 || block.len() != r || image.contains(&0) || block.contains(&0) {
        return wrong(format!(
            "expected an image and a block of the same rank with sizes above 0, found {image:?} and {block:?}"
        ));
    }
    let size = check_size("Col2Im", &block, DType::F64)?;
    check_size(
        "Col2Im",
        &[&[n, rows / size], &image[..]].concat(),
        DType::F64,
    )?;
    let (strides, dilations) = (
        spatial_list(c, "strides", r, 1)?,
        spatial_list(c, "dilations", r, 1)?,
    );
    let pads = spatial_list(c, "pads", 2 * r, 0)?;
    let mut padded = Vec::with_capacity(r);
    let mut blocks = Vec::with_capacity(r);
    for i in 0..r {
        let whole = image[i].saturating_add(pads[i]).saturating_add(pads[r + i]);
        let span = dilations[i].saturating_mul(block[i] - 1).saturating_add(1);
        let Some(rest) = whole.checked_sub(span) else {
            return wrong(format!(
                "expected blocks {block:?} within an image {image:?}, found none that fits"
            ));
        };
        padded.push(whole);
        blocks.push(rest / strides[i] + 1);
    }
    let count = blocks.iter().try_fold(1usize, |p, &b| p.checked_mul(b));
    if count != Some(columns) || !rows.is_multiple_of(size) {
        return wrong(format!(
            "expected channels in blocks of {size} and {blocks:?} blocks, found {:?}",
            x.shape()
        ));
    }
    let shape = [&[n, rows / size], &block[..], &blocks[..]].concat();
    let mut y = x.reshape(&shape)?;
    for i in 0..r {
        // The axis of the block's parts goes away, so that of its places is always the same one.
        let along = 1 + r;
        let mut sum: Option<Tensor> = None;
        for part in 0..block[i] {
            let part_of = y.index(2, part as isize)?;
            let spread = part_of.dilate(along, strides[i])?;
            let mut amounts = vec![(0, 0); spread.rank()];
            let before = part * dilations[i];
            let after = padded[i].saturating_sub(before + spread.shape()[along]);
            amounts[along] = (before as isize, after as isize);
            let zero = PadMode::Constant(if x.dtype().is_float() {
                Scalar::Float(0.0)
            } else {
                Scalar::Int(0)
            });
            let moved = spread.pad(&amounts, zero)?;
            sum = Some(match sum {
                Some(sum) => sum.add(&moved)?,
                None => moved,
            });
        }
        let Some(sum) = sum else {
            return wrong("expected a block of at least one element");
        };
        y = sum.narrow(along as isize, pads[i], image[i])?;
    }
    one(y)
}

/// Centres of `size` elements spread over -1..1, or its ends as the first and the last.
fn centres(size: usize, align: bool) -> Vec<f64> {
    let last = size.saturating_sub(1).max(1) as f64;
    let centre = |i: usize| match align {
        true if size == 1 => 0.0,
        true => 2.0 * i as f64 / last - 1.0,
        false => (2 * i + 1) as f64 / size as f64 - 1.0,
    };
    (0..size).map(centre).collect()
}

fn affine_grid(c: &mut Call) -> Result<Vec<Value>> {
    let theta = c.tensor(0)?;
    let size = sizes(&c.ints(1)?)?;
    let space = size.get(2..).unwrap_or_default();
    let r = space.len();
    let n = size.first().copied().unwrap_or(0);
    if !(r == 2 || r == 3) || theta.shape() != [n, r, r + 1] {
        return wrong(format!(
            "expected theta [n, 2, 3] for a size [n, c, h, w], or [n, 3, 4] for [n, c, d, h, w], \
             found {:?} for {size:?}",
            theta.shape()
        ));
    }
    check_size("AffineGrid", &[&[n], space, &[r]].concat(), DType::F64)?;
    if space.iter().any(|&s| s > 1 << 26) {
        return wrong(format!(
            "expected axes of at most 2^26 elements, found {size:?}"
        ));
    }
    let align = c.int_or("align_corners", 0)? != 0;
    let ones = vec![1; r];
    // [n, 1.., r] for each column of theta; the first column belongs to the last axis.
    let column = |i: usize| -> crate::Result<Tensor> {
        let shape = [&[n], &ones[..], &[r]].concat();
        theta.index(2, i as isize)?.reshape(&shape)
    };
    let mut grid = column(r)?;
    for (i, &size) in space.iter().enumerate() {
        let mut shape = vec![1; r + 2];
        shape[1 + i] = size;
        let line = centres(size, align);
        let line = Tensor::from_floats(theta.engine(), &line, &shape, theta.dtype())?;
        grid = grid.add(&column(r - 1 - i)?.mul(&line)?)?;
    }
    one(grid)
}

pub(super) fn grid_sample(c: &mut Call) -> Result<Vec<Value>> {
    let (x, grid) = (c.tensor(0)?, c.tensor(1)?);
    let r = x.rank().saturating_sub(2);
    let fits = r > 0
        && grid.rank() == x.rank()
        && grid.shape()[0] == x.shape()[0]
        && grid.shape()[r + 1] == r;
    if !fits {
        return wrong(format!(
            "expected [n, c, s..] and a grid [n, o.., axes], found {:?} and {:?}",
            x.shape(),
            grid.shape()
        ));
    }
    let mode = match c.str_or("mode", "linear")? {
        "nearest" => Mode::Nearest,
        "linear" | "bilinear" => Mode::Linear,
        "cubic" | "bicubic" => Mode::Cubic,
        other => return c.bad_word("mode", &["linear", "nearest", "cubic"], other),
    };
    let align = c.int_or("align_corners", 0)? != 0;
    let padding = c.str_or("padding_mode", "zeros")?;
    let space = &x.shape()[2..];
    let out = &grid.shape()[1..r + 1];
    let shape = [&x.shape()[..2], out].concat();
    let places: usize = out.iter().product();
    if x.numel() == 0 || places == 0 {
        check_size("GridSample", &shape, x.dtype())?;
        return one(Tensor::zeros(x.engine(), &shape, x.dtype())?);
    }
    let wide = x.dtype().promote(grid.dtype()).promote(DType::F32);
    let grid = grid.cast(wide)?.reshape(&[x.shape()[0], places, r])?;
    let mut axes = Vec::with_capacity(r);
    for (i, &size) in space.iter().enumerate() {
        let (len, last) = (size as f64, size as f64 - 1.0);
        // The last axis comes first in the grid.
        let at = grid.index(2, (r - 1 - i) as isize)?.add(1.0)?;
        let place = match align {
            true => at.mul(last / 2.0)?,
            false => at.mul(len)?.sub(1.0)?.mul(0.5)?,
        };
        let edge = match padding {
            "zeros" => Edge::Zeros,
            "border" => Edge::Border,
            "reflection" if align => Edge::Reflection {
                low: 0.0,
                high: last,
            },
            "reflection" => Edge::Reflection {
                low: -0.5,
                high: last + 0.5,
            },
            other => {
                return c.bad_word("padding_mode", &["zeros", "border", "reflection"], other);
            }
        };
        axes.push(Taps::around(&place, size, mode, edge)?);
    }
    let values = weighted(&x.cast(wide)?, &axes)?.sum(&[-1], false)?;
    one(values.cast(x.dtype())?.reshape(&shape)?)
}
