//! Resize and Upsample: along each axis on its own, every new element is a weighted sum of some old
//! ones. Which ones, and the weights, depend on sizes only, so they are tables made on the host.

use codegen::DType;

use super::index::pick;
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, axis, one, sizes};
use crate::onnx::error::{Result, wrong};
use crate::onnx::value::Value;
use crate::ops::check_size;
use crate::ops::movement::PadMode;

pub(super) const OPS: Table = &[("Resize", resize), ("Upsample", upsample)];

/// Entries that the table of one axis may have.
const MOST_ENTRIES: usize = 1 << 26;

/// Where a new element lies among the old ones.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    /// Only in versions 11 and 12.
    HalfPixelUnshifted,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    CropAndResize,
}

/// Which element is the nearest.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
    /// Up if the axis shrinks, else down.
    Simple,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mode {
    Nearest(Rounding),
    Linear,
    /// With the coefficient of its kernel.
    Cubic(f64),
}

/// What is the same for all axes.
struct Filter {
    coordinates: Coordinates,
    mode: Mode,
    antialias: bool,
    exclude_outside: bool,
    extrapolation: f64,
}

/// One axis: its old and new size, what the old one is multiplied by, and the part of it that is
/// taken.
struct Line {
    old: usize,
    new: usize,
    scale: f64,
    roi: (f64, f64),
}

impl Line {
    /// The place of new element `i` among the old ones.
    fn place(&self, i: usize, coordinates: Coordinates) -> f64 {
        let (x, old) = (i as f64, self.old as f64);
        // The new size before it was made whole.
        let width = self.scale * old;
        match coordinates {
            Coordinates::PytorchHalfPixel if self.new <= 1 => 0.0,
            Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (x + 0.5) / self.scale - 0.5,
            Coordinates::HalfPixelUnshifted => (x + 0.5) / self.scale,
            Coordinates::HalfPixelSymmetric => {
                let offset = old / 2.0 * (1.0 - self.new as f64 / width);
                offset + (x + 0.5) / self.scale - 0.5
            }
            Coordinates::AlignCorners if width == 1.0 => 0.0,
            Coordinates::AlignCorners => x * (old - 1.0) / (width - 1.0),
            Coordinates::Asymmetric => x / self.scale,
            Coordinates::CropAndResize => {
                let (start, end) = self.roi;
                let span = (end - start) * (old - 1.0);
                let inside = match self.new {
                    ..=1 => span / 2.0,
                    new => x * span / (new as f64 - 1.0),
                };
                start * (old - 1.0) + inside
            }
        }
    }

    /// The taps of each new element: as many for each, in order; old elements beyond the edges are
    /// the edge, or nothing if they are to be excluded.
    fn taps(&self, filter: &Filter) -> Result<Taps> {
        // A filter that makes an axis smaller is stretched, so that it sees all elements.
        let shrink = match filter.antialias {
            true => self.scale.min(1.0),
            false => 1.0,
        };
        let reach = match filter.mode {
            Mode::Nearest(_) => 0.0,
            Mode::Linear => (1.0 / shrink).ceil(),
            Mode::Cubic(_) => (2.0 / shrink).ceil(),
        };
        let width = if reach == 0.0 { 1.0 } else { 2.0 * reach };
        if width.is_nan() || width * self.new as f64 > MOST_ENTRIES as f64 {
            return wrong(format!(
                "expected at most {MOST_ENTRIES} weights for an axis, found {width} for each of {} \
                 elements",
                self.new
            ));
        }
        let (reach, width) = (reach as i64, width as usize);
        let mut taps = Taps {
            width,
            old: self.old,
            start: Vec::with_capacity(self.new),
            index: Vec::with_capacity(width * self.new),
            weight: Vec::with_capacity(width * self.new),
            outside: Vec::new(),
            excluded: filter.exclude_outside,
        };
        let last = self.old as i64 - 1;
        for i in 0..self.new {
            let place = self.place(i, filter.coordinates);
            if filter.coordinates == Coordinates::CropAndResize {
                taps.outside.push(place < 0.0 || place > last as f64);
            }
            // A scale is an f32: in this precision a place is the whole number that it stands for.
            let place = match filter.mode {
                Mode::Nearest(_) => f64::from(place as f32),
                _ => place,
            };
            let base = place.floor();
            let (at, rest) = (base as i64, place - base);
            if let Mode::Nearest(rounding) = filter.mode {
                let up = match rounding {
                    Rounding::Simple => rest > 0.0 && self.scale < 1.0,
                    Rounding::PreferFloor => rest > 0.5,
                    Rounding::PreferCeil => rest >= 0.5,
                    Rounding::Floor => false,
                    Rounding::Ceil => rest > 0.0,
                };
                taps.index
                    .push(at.saturating_add(i64::from(up)).clamp(0, last));
                taps.weight.push(1.0);
                continue;
            }
            let first = taps.weight.len();
            taps.start.push(at.saturating_add(1 - reach));
            for step in 1 - reach..=reach {
                let from = at.saturating_add(step);
                let distance = ((step as f64 - rest) * shrink).abs();
                let excluded = filter.exclude_outside && !(0..=last).contains(&from);
                let weight = match filter.mode {
                    _ if excluded => 0.0,
                    Mode::Cubic(a) => cubic(distance, a),
                    _ => (1.0 - distance).max(0.0),
                };
                taps.index.push(from.clamp(0, last));
                taps.weight.push(weight);
            }
            if filter.antialias || filter.exclude_outside {
                let sum: f64 = taps.weight[first..].iter().sum();
                taps.weight[first..].iter_mut().for_each(|w| *w /= sum);
            }
        }
        Ok(taps)
    }
}

/// The kernel of cubic convolution (Keys 1981).
fn cubic(x: f64, a: f64) -> f64 {
    match x {
        x if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        x if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        _ => 0.0,
    }
}

/// Old elements and weights, `width` for each new element.
struct Taps {
    width: usize,
    /// Size of the axis that they are of.
    old: usize,
    /// The first tap of each new element, which may lie outside; none for copies.
    start: Vec<i64>,
    index: Vec<i64>,
    weight: Vec<f64>,
    /// New elements that lie outside of the old ones, where that matters.
    outside: Vec<bool>,
    /// Weights of elements beyond the edges are 0.
    excluded: bool,
}

impl Taps {
    /// The one old element that each new one is, if that is so.
    fn copies(&self) -> Option<Vec<usize>> {
        let rows = self.weight.chunks_exact(self.width);
        let rows = rows.zip(self.index.chunks_exact(self.width));
        rows.map(|(weight, index)| {
            let at = weight.iter().position(|&w| w == 1.0)?;
            let rest = weight.iter().enumerate().all(|(i, &w)| i == at || w == 0.0);
            rest.then_some(index[at] as usize)
        })
        .collect()
    }

    /// The axis made of its taps. `x` is a float.
    fn apply(&self, x: &Tensor, along: usize, extrapolation: f64) -> Result<Tensor> {
        let new = self.index.len() / self.width;
        let mut line = vec![1; x.rank()];
        line[along] = new;
        let y = match (self.copies(), self.period()) {
            (Some(list), _) => pick(x, along, &list)?,
            (None, Some(period)) => self.phases(x, along, period)?,
            (None, None) => self.sum(x, along, &line)?,
        };
        if !self.outside.contains(&true) {
            return Ok(y);
        }
        let outside = Tensor::from_slice(x.engine(), &self.outside, &line)?;
        Ok(y.masked_fill(&outside, extrapolation)?)
    }

    /// How many new elements go with how many old ones until the weights repeat, if they soon do.
    fn period(&self) -> Option<(usize, usize)> {
        let new = self.start.len();
        // Places far from the axis would be padding.
        let near = -64..self.old as i64 + 64 - self.width as i64;
        if self.width > 16 || self.excluded || !self.start.iter().all(|s| near.contains(s)) {
            return None;
        }
        let repeats = |new: &usize| {
            let step = self.start.get(*new)? - self.start.first()?;
            let moved = |(a, b): (&i64, &i64)| a.checked_add(step) == Some(*b);
            let start = self.start.iter().zip(&self.start[*new..]).all(moved);
            let rest = &self.weight[*new * self.width..];
            let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6;
            let weight = self.weight.iter().zip(rest).all(close);
            let step = usize::try_from(step).ok().filter(|&s| s > 0);
            step.filter(|_| start && weight)
        };
        let mut lengths = (1..=8).filter(|&n| n < new && new.is_multiple_of(n));
        lengths.find_map(|n| Some((n, repeats(&n)?)))
    }

    /// The axis where every `old` elements make `new` ones in the same way: shifted views of it,
    /// with its edges repeated, and no table of indexes.
    fn phases(&self, x: &Tensor, along: usize, (new, old): (usize, usize)) -> Result<Tensor> {
        let at = along as isize;
        let periods = self.start.len() / new;
        let starts = &self.start[..new];
        let low = starts.iter().min().copied().unwrap_or(0);
        let high = starts.iter().max().copied().unwrap_or(0) + self.width as i64;
        // The part of the axis that is seen, in its own elements.
        let end = high + ((periods - 1) * old) as i64;
        let mut amounts = vec![(0, 0); x.rank()];
        amounts[along] = (-low as isize, (end - self.old as i64) as isize);
        let x = x.pad(&amounts, PadMode::Replicate)?.contiguous()?;
        let mut line = vec![1; x.rank() + 1];
        line[along + 1] = new;
        let mut sum: Option<Tensor> = None;
        for tap in low..high {
            let weights = starts.iter().enumerate().map(|(phase, &start)| {
                let within = usize::try_from(tap - start).ok();
                let within = within.filter(|&i| i < self.width);
                within.map_or(0.0, |i| self.weight[phase * self.width + i])
            });
            let weights: Vec<f64> = weights.collect();
            let weights = Tensor::from_floats(x.engine(), &weights, &line, x.dtype())?;
            let first = (tap - low) as usize;
            let part = x.narrow(at, first, (periods - 1) * old + 1)?;
            let term = part.every(along, old)?.unsqueeze(at + 1)?.mul(&weights)?;
            sum = Some(match sum {
                Some(sum) => sum.add(&term)?,
                None => term,
            });
        }
        match sum {
            Some(sum) => Ok(sum.flatten(at, at + 1)?),
            None => wrong("expected at least one tap"),
        }
    }

    fn sum(&self, x: &Tensor, along: usize, line: &[usize]) -> Result<Tensor> {
        let (at, new) = (along as isize, line[along]);
        let table = |weights: &[f64], shape: &[usize]| {
            Tensor::from_floats(x.engine(), weights, shape, x.dtype())
        };
        if self.width > 4 {
            // Many taps are a sum over an axis of their own.
            let index = Tensor::from_slice(x.engine(), &self.index, &[new, self.width])?;
            let mut shape = line.to_vec();
            shape.insert(along + 1, self.width);
            let product = x
                .index_select(at, &index)?
                .mul(&table(&self.weight, &shape)?)?;
            return Ok(product.sum(&[at + 1], false)?);
        }
        let mut sum: Option<Tensor> = None;
        for tap in 0..self.width {
            let column = |i: usize| i * self.width + tap;
            let list: Vec<usize> = (0..new).map(|i| self.index[column(i)] as usize).collect();
            let weights: Vec<f64> = (0..new).map(|i| self.weight[column(i)]).collect();
            if weights.iter().all(|&w| w == 0.0) {
                continue;
            }
            let term = pick(x, along, &list)?.mul(&table(&weights, line)?)?;
            sum = Some(match sum {
                Some(sum) => sum.add(&term)?,
                None => term,
            });
        }
        Ok(match sum {
            Some(sum) => sum,
            None => pick(x, along, &vec![0; new])?.zeros_like()?,
        })
    }
}

/// Resizes axis by axis, those that shrink first: what follows has less to do.
fn resized(x: &Tensor, lines: &[Line], filter: &Filter) -> Result<Tensor> {
    let shape: Vec<usize> = lines.iter().map(|l| l.new).collect();
    check_size("Resize", &shape, DType::F64)?;
    if shape.contains(&0) || x.numel() == 0 {
        if shape.contains(&0) {
            return Ok(Tensor::zeros(x.engine(), &shape, x.dtype())?);
        }
        return wrong(format!("expected a non-empty input, found {:?}", x.shape()));
    }
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by_key(|&a| lines[a].new > lines[a].old);
    let same = |line: &Line| {
        let crops = filter.coordinates == Coordinates::CropAndResize;
        line.new == line.old && line.scale == 1.0 && (!crops || line.roi == (0.0, 1.0))
    };
    let mut y = x.clone();
    if !matches!(filter.mode, Mode::Nearest(_)) {
        let dtype = x.dtype().promote(DType::F32);
        y = y.cast(if dtype.is_float() { dtype } else { DType::F32 })?;
    }
    for along in order {
        if same(&lines[along]) {
            continue;
        }
        let taps = lines[along].taps(filter)?;
        y = taps.apply(&y, along, filter.extrapolation)?;
    }
    Ok(y.cast(x.dtype())?)
}

/// New sizes of scales: whole numbers below, in the precision of the scales.
fn scaled(x: &Tensor, scales: &[f64]) -> Result<Vec<Line>> {
    if scales.len() != x.rank() {
        return wrong(format!(
            "expected a scale for each axis of {:?}, found {scales:?}",
            x.shape()
        ));
    }
    let lines = x.shape().iter().zip(scales).map(|(&old, &scale)| {
        if !(scale > 0.0 && scale.is_finite()) {
            return wrong(format!("expected scales above 0, found {scales:?}"));
        }
        Ok(Line {
            old,
            new: (old as f32 * scale as f32).floor() as usize,
            scale,
            roi: (0.0, 1.0),
        })
    });
    lines.collect()
}

/// The scales, an attribute before version 9, two of them in version 1.
fn upsample(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let scales = match (c.opset(), c.attr_floats("scales")?) {
        (..7, None) if x.rank() == 4 => {
            let (height, width) = (c.attr_float("height_scale")?, c.attr_float("width_scale")?);
            let height = c.needed("height_scale", height)?;
            vec![1.0, 1.0, height, c.needed("width_scale", width)?]
        }
        (..9, scales) => c.needed("scales", scales)?,
        _ => c.floats(1)?,
    };
    let filter = Filter {
        coordinates: Coordinates::Asymmetric,
        mode: match c.str_or("mode", "nearest")? {
            "nearest" => Mode::Nearest(Rounding::Floor),
            "linear" | "bilinear" => Mode::Linear,
            other => return c.bad_word("mode", &["nearest", "linear"], other),
        },
        antialias: false,
        exclude_outside: false,
        extrapolation: 0.0,
    };
    one(resized(&x, &scaled(&x, &scales)?, &filter)?)
}

/// Version 10 has no roi, no sizes, and one way to place elements.
fn resize_10(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let scales = c.floats(1)?;
    let lines = scaled(&x, &scales)?;
    let mode = match c.str_or("mode", "nearest")? {
        "nearest" => Mode::Nearest(Rounding::Simple),
        "linear" => Mode::Linear,
        other => return c.bad_word("mode", &["nearest", "linear"], other),
    };
    let filter = Filter {
        coordinates: Coordinates::Asymmetric,
        mode,
        antialias: false,
        exclude_outside: false,
        extrapolation: 0.0,
    };
    one(resized(&x, &lines, &filter)?)
}

/// The attributes from version 11 on.
fn filter(c: &Call) -> Result<Filter> {
    let coordinates = match c.str_or("coordinate_transformation_mode", "half_pixel")? {
        "half_pixel" => Coordinates::HalfPixel,
        "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "align_corners" => Coordinates::AlignCorners,
        "asymmetric" => Coordinates::Asymmetric,
        "tf_crop_and_resize" => Coordinates::CropAndResize,
        "tf_half_pixel_for_nn" if c.opset() < 13 => Coordinates::HalfPixelUnshifted,
        other => {
            let known = [
                "half_pixel",
                "half_pixel_symmetric",
                "pytorch_half_pixel",
                "align_corners",
                "asymmetric",
                "tf_crop_and_resize",
            ];
            return c.bad_word("coordinate_transformation_mode", &known, other);
        }
    };
    let mode = match c.str_or("mode", "nearest")? {
        "nearest" => Mode::Nearest(match c.str_or("nearest_mode", "round_prefer_floor")? {
            "round_prefer_floor" => Rounding::PreferFloor,
            "round_prefer_ceil" => Rounding::PreferCeil,
            "floor" => Rounding::Floor,
            "ceil" => Rounding::Ceil,
            other => {
                let known = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];
                return c.bad_word("nearest_mode", &known, other);
            }
        }),
        "linear" => Mode::Linear,
        "cubic" => Mode::Cubic(c.float_or("cubic_coeff_a", -0.75)?),
        other => return c.bad_word("mode", &["nearest", "linear", "cubic"], other),
    };
    Ok(Filter {
        coordinates,
        mode,
        antialias: c.int_or("antialias", 0)? != 0,
        exclude_outside: c.int_or("exclude_outside", 0)? != 0,
        extrapolation: c.float_or("extrapolation_value", 0.0)?,
    })
}

pub(super) fn resize(c: &mut Call) -> Result<Vec<Value>> {
    if c.opset() < 11 {
        return resize_10(c);
    }
    let x = c.tensor(0)?;
    let filter = filter(c)?;
    let along: Vec<usize> = match c.attr_ints("axes")? {
        Some(list) => {
            let found = list.iter().map(|&a| axis(a, x.rank()));
            found.collect::<Result<_>>()?
        }
        None => (0..x.rank()).collect(),
    };
    let scales = match c.has(2) {
        true => c.floats(2)?,
        false => vec![],
    };
    let mut lines = match scales.is_empty() {
        false => {
            let mut all = vec![1.0; x.rank()];
            fits(&scales, &along)?;
            along.iter().zip(scales).for_each(|(&a, s)| all[a] = s);
            scaled(&x, &all)?
        }
        true => sized(c, &x, &along)?,
    };
    if filter.coordinates == Coordinates::CropAndResize {
        let roi = match c.has(1) {
            true => c.floats(1)?,
            false => return wrong("expected a roi for tf_crop_and_resize, found none"),
        };
        if roi.len() != 2 * along.len() {
            return wrong(format!(
                "expected a start and an end for {} axes in roi, found {roi:?}",
                along.len()
            ));
        }
        for (i, &a) in along.iter().enumerate() {
            lines[a].roi = (roi[i], roi[along.len() + i]);
        }
    }
    one(resized(&x, &lines, &filter)?)
}

fn fits<T>(list: &[T], along: &[usize]) -> Result<()> {
    match list.len() == along.len() {
        true => Ok(()),
        false => wrong(format!(
            "expected one number for each of {} axes, found {}",
            along.len(),
            list.len()
        )),
    }
}

/// New sizes as they are given, or as the aspect ratio allows.
fn sized(c: &mut Call, x: &Tensor, along: &[usize]) -> Result<Vec<Line>> {
    if !c.has(3) {
        return wrong("expected scales or sizes, found neither");
    }
    let wanted = sizes(&c.ints(3)?)?;
    fits(&wanted, along)?;
    let same = x.shape().iter().map(|&old| Line {
        old,
        new: old,
        scale: 1.0,
        roi: (0.0, 1.0),
    });
    let mut lines: Vec<Line> = same.collect();
    for (&a, &new) in along.iter().zip(&wanted) {
        lines[a].new = new;
        lines[a].scale = new as f64 / lines[a].old.max(1) as f64;
    }
    let scales = along.iter().map(|&a| lines[a].scale);
    let shared = match c.str_or("keep_aspect_ratio_policy", "stretch")? {
        "stretch" => return Ok(lines),
        "not_larger" => scales.fold(f64::INFINITY, f64::min),
        "not_smaller" => scales.fold(0.0, f64::max),
        other => {
            let known = ["stretch", "not_larger", "not_smaller"];
            return c.bad_word("keep_aspect_ratio_policy", &known, other);
        }
    };
    for &a in along {
        lines[a].scale = shared;
        lines[a].new = (shared * lines[a].old as f64 + 0.5) as usize;
    }
    Ok(lines)
}
