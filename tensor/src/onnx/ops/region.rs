//! Parts of images that other inputs name: regions, and kernels whose elements wander.

use codegen::DType;

use super::nn::{groups, space, weight_kernel, windows};
use super::sample::{Edge, Mode, Taps, weighted};
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, one, sizes};
use crate::onnx::error::{Result, wrong};
use crate::onnx::value::Value;
use crate::ops::check_size;

pub(super) const OPS: Table = &[
    ("DeformConv", deform_conv),
    ("MaxRoiPool", max_roi_pool),
    ("RoiAlign", roi_align),
];

/// Samples along one side of a part of a region; more would be a mistake.
const MOST_SAMPLES: f64 = 4096.0;

/// One axis of all regions, `[regions, 1]` each.
struct Side {
    start: Tensor,
    /// Length of one of the parts that a region is cut into.
    part: Tensor,
    /// Samples in a part.
    samples: Tensor,
}

impl Side {
    /// Places of samples, `[regions, parts, most]`, and whether they count.
    fn places(&self, parts: usize, most: usize) -> crate::Result<(Tensor, Tensor)> {
        let engine = self.start.engine();
        let dtype = self.start.dtype();
        let line = |n: usize, shape: &[usize]| {
            let line = Tensor::iota(engine, n, DType::I64)?;
            line.reshape(shape)?.cast(dtype)
        };
        let (part, sample) = (line(parts, &[1, parts, 1])?, line(most, &[1, 1, most])?);
        let (start, length) = (self.start.unsqueeze(2)?, self.part.unsqueeze(2)?);
        let samples = self.samples.unsqueeze(2)?;
        let step = sample.add(0.5)?.mul(&length)?.div(&samples.maximum(1.0)?)?;
        let place = part.mul(&length)?.add(&start)?.add(&step)?;
        let counts = sample.lt(&samples)?.expand(place.shape())?;
        Ok((place, counts))
    }
}

fn roi_align(c: &mut Call) -> Result<Vec<Value>> {
    let (x, rois, batch) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let (&[_, channels, _, _], &[regions, 4]) = (x.shape(), rois.shape()) else {
        return wrong(format!(
            "expected an input [n, c, h, w] and regions [r, 4], found {:?} and {:?}",
            x.shape(),
            rois.shape()
        ));
    };
    if batch.shape() != [regions] || !batch.dtype().is_int() {
        return wrong(format!(
            "expected {regions} numbers of images, found {} {:?}",
            batch.dtype(),
            batch.shape()
        ));
    }
    let largest = match c.str_or("mode", "avg")? {
        "avg" => false,
        "max" => true,
        other => return c.bad_word("mode", &["avg", "max"], other),
    };
    let shifted = shifted(c)?;
    let out = sizes(&[c.int_or("output_height", 1)?, c.int_or("output_width", 1)?])?;
    let (rows, columns) = (out[0], out[1]);
    let shape = [regions, channels, rows, columns];
    check_size("RoiAlign", &shape, DType::F64)?;
    if shape.contains(&0) || x.numel() == 0 {
        return one(Tensor::zeros(x.engine(), &shape, x.dtype())?);
    }
    let wide = x.dtype().promote(DType::F32);
    let scale = c.float_or("spatial_scale", 1.0)?;
    let corners = rois.cast(wide)?.mul(scale)?;
    let corners = corners.sub(if shifted { 0.5 } else { 0.0 })?;
    let ratio = c.int_or("sampling_ratio", 0)?;
    if ratio < 0 || ratio as f64 > MOST_SAMPLES {
        return wrong(format!(
            "expected sampling_ratio of at least 0, found {ratio}"
        ));
    }
    let mut sides = Vec::with_capacity(2);
    let mut most = Vec::with_capacity(2);
    for (first, parts) in [(1, rows), (0, columns)] {
        let start = corners.narrow(1, first, 1)?;
        let mut length = corners.narrow(1, first + 2, 1)?.sub(&start)?;
        if !shifted {
            length = length.maximum(1.0)?;
        }
        let part = length.div(parts as f64)?;
        let (samples, count) = samples(c, &part, ratio)?;
        most.push(count);
        sides.push(Side {
            start,
            part,
            samples,
        });
    }
    let (down, right) = (most[0], most[1]);
    let grid = [regions, rows, columns, down, right];
    check_size(
        "RoiAlign",
        &[&grid[..], &[channels, 4]].concat(),
        DType::F64,
    )?;
    let (taps, counts) = taps(&x, &batch, &sides, grid, wide)?;
    let y = if largest {
        // The format takes the largest of the weighted elements, not of the values between them.
        let best = taps.masked_fill(&counts.not()?, f64::NEG_INFINITY)?;
        let best = best.max(&[4, 5, 6], false)?;
        best.masked_fill(&best.eq(f64::NEG_INFINITY)?, 0.0)?
    } else {
        let number = sides[0].samples.mul(&sides[1].samples)?.maximum(1.0)?;
        let sum = taps
            .masked_fill(&counts.not()?, 0.0)?
            .sum(&[4, 5, 6], false)?;
        sum.div(&number.reshape(&[1, regions, 1, 1])?)?
    };
    one(y.permute(&[1, 0, 2, 3])?.cast(x.dtype())?)
}

/// Whether places are shifted by half an element; before version 16 they were not.
fn shifted(c: &Call) -> Result<bool> {
    let default = match c.opset() < 16 {
        true => "output_half_pixel",
        false => "half_pixel",
    };
    match c.str_or("coordinate_transformation_mode", default)? {
        "half_pixel" => Ok(true),
        "output_half_pixel" => Ok(false),
        other => {
            let known = ["half_pixel", "output_half_pixel"];
            c.bad_word("coordinate_transformation_mode", &known, other)
        }
    }
}

/// Samples of the parts of each region along a side, and the most of them, at least 1.
fn samples(c: &mut Call, part: &Tensor, ratio: i64) -> Result<(Tensor, usize)> {
    let samples = match ratio {
        // As many as a part has elements, which decides how much there is to do.
        0 => part.ceil()?.maximum(0.0)?,
        ratio => part.full_like(ratio as f64)?,
    };
    let count = match ratio {
        0 => c.read_floats(&samples)?.into_iter().fold(0.0, f64::max),
        ratio => ratio as f64,
    };
    if count.is_nan() || count > MOST_SAMPLES {
        return wrong(format!(
            "expected regions of at most {MOST_SAMPLES} samples a part, found {count}"
        ));
    }
    Ok((samples, (count as usize).max(1)))
}

/// The four weighted elements of each sample, `[channels, grid.., 4]`, and whether the sample counts.
fn taps(
    x: &Tensor,
    batch: &Tensor,
    sides: &[Side],
    grid: [usize; 5],
    wide: DType,
) -> crate::Result<(Tensor, Tensor)> {
    let (n, channels) = (x.shape()[0], x.shape()[1]);
    let (height, width) = (x.shape()[2], x.shape()[3]);
    let [regions, rows, columns, down, right] = grid;
    let points: usize = grid.iter().product();
    let (y, y_counts) = sides[0].places(rows, down)?;
    let (x_place, x_counts) = sides[1].places(columns, right)?;
    let lengthwise = |t: &Tensor| t.reshape(&[regions, rows, 1, down, 1])?.expand(&grid);
    let crosswise = |t: &Tensor| t.reshape(&[regions, 1, columns, 1, right])?.expand(&grid);
    let (y, x_place) = (lengthwise(&y)?, crosswise(&x_place)?);
    let counts = lengthwise(&y_counts)?.bitand(&crosswise(&x_counts)?)?;
    // More than one element outside, a sample is 0; nearer, it is what the edge is.
    let beyond = |t: &Tensor, size: usize| t.lt(-1.0)?.bitor(&t.gt(size as f64)?);
    let outside = beyond(&y, height)?.bitor(&beyond(&x_place, width)?)?;
    let image = batch.reshape(&[regions, 1, 1, 1, 1])?.expand(&grid)?;
    let around = |t: &Tensor, size: usize| {
        let place = t.clip(0.0, size as f64 - 1.0)?.reshape(&[1, points])?;
        Taps::around(&place, size, Mode::Linear, Edge::Border)
    };
    let axes = [
        Taps::exact(&image.reshape(&[1, points])?)?,
        around(&y, height)?,
        around(&x_place, width)?,
    ];
    let base = x.cast(wide)?.permute(&[1, 0, 2, 3])?;
    let base = base.reshape(&[1, channels, n, height, width])?;
    let taps = weighted(&base, &axes)?;
    let taps = taps.reshape(&[&[channels][..], &grid, &[4]].concat())?;
    let taps = taps.masked_fill(&outside.unsqueeze(5)?, 0.0)?;
    Ok((taps, counts.unsqueeze(5)?))
}

/// Which elements of an axis belong to each part of each region, `[regions, parts, size]`.
fn members(from: &Tensor, to: &Tensor, parts: usize, size: usize) -> crate::Result<Tensor> {
    let engine = from.engine();
    let part = Tensor::iota(engine, parts, DType::I64)?.cast(from.dtype())?;
    let length = to.sub(from)?.add(1.0)?.maximum(1.0)?.div(parts as f64)?;
    let low = length.mul(&part)?.floor()?.add(from)?.unsqueeze(2)?;
    let high = length
        .mul(&part.add(1.0)?)?
        .ceil()?
        .add(from)?
        .unsqueeze(2)?;
    let at = Tensor::iota(engine, size, DType::I64)?.cast(from.dtype())?;
    at.ge(&low)?.bitand(&at.lt(&high)?)
}

fn max_roi_pool(c: &mut Call) -> Result<Vec<Value>> {
    let (x, rois) = (c.tensor(0)?, c.tensor(1)?);
    let (&[n, channels, height, width], &[regions, 5]) = (x.shape(), rois.shape()) else {
        return wrong(format!(
            "expected an input [n, c, h, w] and regions [r, 5], found {:?} and {:?}",
            x.shape(),
            rois.shape()
        ));
    };
    let pooled = c.attr_ints("pooled_shape")?;
    let &[rows, columns] = &sizes(&c.needed("pooled_shape", pooled)?)?[..] else {
        return wrong("expected pooled_shape of two sizes");
    };
    let shape = [regions, channels, rows, columns];
    check_size(
        "MaxRoiPool",
        &[&shape[..], &[height, width]].concat(),
        DType::F64,
    )?;
    if shape.contains(&0) || x.numel() == 0 {
        return one(Tensor::zeros(x.engine(), &shape, x.dtype())?);
    }
    let wide = x.dtype().promote(DType::F32);
    let scaled = rois.cast(wide)?.mul(c.float_or("spatial_scale", 1.0)?)?;
    // Halves round away from zero.
    let up = scaled.abs()?.add(0.5)?.floor()?;
    let corners = scaled.lt(0.0)?.where_(&up.neg()?, &up)?;
    let corner = |i: usize| corners.narrow(1, i, 1);
    let down = members(&corner(2)?, &corner(4)?, rows, height)?;
    let right = members(&corner(1)?, &corner(3)?, columns, width)?;
    let images = match n {
        1 => x.expand(&[regions, channels, height, width])?,
        _ => x.index_select(0, &rois.narrow(1, 0, 1)?.squeeze(&[1])?.cast(DType::I64)?)?,
    };
    let low = f64::NEG_INFINITY;
    let images = images.cast(wide)?;
    let right = right.reshape(&[regions, 1, 1, columns, width])?;
    let across = right.where_(&images.unsqueeze(3)?, low)?.max(&[4], false)?;
    let down = down.reshape(&[regions, 1, rows, 1, height])?;
    let across = across.permute(&[0, 1, 3, 2])?.unsqueeze(2)?;
    let best = down.where_(&across, low)?.max(&[4], false)?;
    // A part without elements is 0.
    let best = best.masked_fill(&best.eq(low)?, 0.0)?;
    one(best.cast(x.dtype())?)
}

/// A convolution whose kernel elements are moved by offsets, which differ from place to place.
fn deform_conv(c: &mut Call) -> Result<Vec<Value>> {
    let (x, w, offset) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let (bias, mask) = (c.optional(3)?, c.optional(4)?);
    let space = space(&x)?;
    let r = space.len();
    let kernel = weight_kernel(c, &w)?;
    let slides = windows(c, &space, kernel.clone())?.sliding;
    let groups = groups(c)?;
    let kinds = offset_groups(c)?;
    let (n, channels) = (x.shape()[0], x.shape()[1]);
    let outputs = w.shape()[0];
    let taps = check_size("DeformConv", &kernel, DType::F64)?;
    let mut out = Vec::with_capacity(r);
    for i in 0..r {
        let (low, high) = slides.padding[i];
        let whole = space[i].saturating_add(low).saturating_add(high);
        let span = slides.dilation[i]
            .saturating_mul(kernel[i] - 1)
            .saturating_add(1);
        let Some(rest) = whole.checked_sub(span) else {
            return wrong(format!(
                "expected a kernel within {space:?}, found {kernel:?}"
            ));
        };
        out.push(rest / slides.stride[i] + 1);
    }
    let places = check_size("DeformConv", &out, DType::F64)?;
    check_size("DeformConv", &[n, channels, taps, places], DType::F64)?;
    let wanted = [&[n, kinds.saturating_mul(taps).saturating_mul(r)], &out[..]].concat();
    let fits = offset.shape() == wanted
        && w.shape()[1].saturating_mul(groups) == channels
        && outputs.is_multiple_of(groups)
        && channels.is_multiple_of(kinds);
    if !fits {
        return wrong(format!(
            "expected offsets {wanted:?} for an input {:?}, a weight {:?}, {groups} groups and \
             {kinds} groups of offsets, found {:?}",
            x.shape(),
            w.shape(),
            offset.shape()
        ));
    }
    let wide = x.dtype().promote(DType::F32);
    // [n * kinds, k.., r, o..]; an axis of its own for each axis of space.
    let split = [&[n * kinds], &kernel[..], &[r], &out[..]].concat();
    let offset = offset.cast(wide)?.reshape(&split)?;
    let rank = 1 + 2 * r;
    let mut axes = Vec::with_capacity(r);
    for i in 0..r {
        let line = |at: usize, n: usize, step: usize| {
            let mut shape = vec![1; rank];
            shape[at] = n;
            let line = Tensor::iota(x.engine(), n, DType::I64)?.mul(step as i64)?;
            line.reshape(&shape)?.cast(wide)
        };
        let element = line(1 + i, kernel[i], slides.dilation[i])?;
        let place = line(1 + r + i, out[i], slides.stride[i])?;
        let place = place.add(&element)?.sub(slides.padding[i].0 as f64)?;
        let place = offset.index(1 + r as isize, i as isize)?.add(&place)?;
        let place = place.reshape(&[n * kinds, taps * places])?;
        axes.push(Taps::around(&place, space[i], Mode::Linear, Edge::Zeros)?);
    }
    let base = [&[n * kinds, channels / kinds], &space[..]].concat();
    let mut values = weighted(&x.cast(wide)?.reshape(&base)?, &axes)?.sum(&[-1], false)?;
    if let Some(mask) = mask {
        if mask.numel() != n * kinds * taps * places {
            return wrong(format!(
                "expected a mask for each offset, found {:?}",
                mask.shape()
            ));
        }
        values = values.mul(&mask.cast(wide)?.reshape(&[n * kinds, 1, taps * places])?)?;
    }
    let rows = channels / groups * taps;
    let values = values.reshape(&[n, groups, rows, places])?;
    let w = w
        .cast(wide)?
        .reshape(&[1, groups, outputs / groups, rows])?;
    let mut y = w.matmul(&values)?.reshape(&[n, outputs, places])?;
    if let Some(bias) = bias {
        y = y.add(&bias.cast(wide)?.reshape(&[outputs, 1])?)?;
    }
    let shape = [&[n, outputs], &out[..]].concat();
    one(y.cast(x.dtype())?.reshape(&shape)?)
}

/// Groups of channels that share their offsets.
fn offset_groups(c: &Call) -> Result<usize> {
    match usize::try_from(c.int_or("offset_group", 1)?) {
        Ok(n) if n > 0 => Ok(n),
        _ => wrong("expected attribute offset_group of at least 1"),
    }
}
