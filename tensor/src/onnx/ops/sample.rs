//! Values between the elements of a tensor, at places that are computed on the device.

use codegen::DType;

use crate::error::Result;
use crate::graph::Tensor;

/// How a value is made of the elements around its place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// What lies beyond the elements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Edge {
    Zeros,
    Border,
    /// Mirrored at these places.
    Reflection {
        low: f64,
        high: f64,
    },
}

/// Elements of one axis with weights, `[n, places, taps]`; no weights are ones.
pub(super) struct Taps {
    index: Tensor,
    inside: Option<Tensor>,
    weight: Option<Tensor>,
    taps: usize,
}

/// Places mirrored at two others until they lie between them.
fn reflected(place: &Tensor, low: f64, high: f64) -> Result<Tensor> {
    let span = high - low;
    if span <= 0.0 {
        return place.full_like(low);
    }
    let distance = place.sub(low)?.abs()?;
    let odd = distance.div(span)?.floor()?.mul(0.5)?;
    let odd = odd.ne(&odd.floor()?)?;
    let rest = distance.fmod(&distance.full_like(span)?)?;
    odd.where_(&rest.neg()?.add(high)?, &rest.add(low)?)
}

impl Taps {
    /// Whole numbers of elements, which are all there.
    pub(super) fn exact(index: &Tensor) -> Result<Taps> {
        Ok(Taps {
            index: index.cast(DType::I64)?.unsqueeze(-1)?,
            inside: None,
            weight: None,
            taps: 1,
        })
    }

    /// The elements around places `[n, p]`, floats, in an axis of some size, which is not 0.
    pub(super) fn around(place: &Tensor, size: usize, mode: Mode, edge: Edge) -> Result<Taps> {
        let (base, steps): (Tensor, &[f64]) = match mode {
            Mode::Nearest => (place.round()?, &[0.0]),
            Mode::Linear => (place.floor()?, &[0.0, 1.0]),
            Mode::Cubic => (place.floor()?, &[-1.0, 0.0, 1.0, 2.0]),
        };
        let steps = Tensor::from_floats(place.engine(), steps, &[steps.len()], place.dtype())?;
        let rest = place.sub(&base)?.unsqueeze(-1)?;
        let distance = steps.sub(&rest)?.abs()?;
        let weight = match mode {
            Mode::Nearest => None,
            Mode::Linear => Some(distance.neg()?.add(1.0)?),
            Mode::Cubic => Some(cubic(&distance)?),
        };
        let at = base.unsqueeze(-1)?.add(&steps)?;
        let last = size.saturating_sub(1) as f64;
        let (at, inside) = match edge {
            Edge::Zeros => {
                let inside = at.ge(0.0)?.bitand(&at.le(last)?)?;
                (at, Some(inside))
            }
            Edge::Border => (at, None),
            Edge::Reflection { low, high } => (reflected(&at, low, high)?, None),
        };
        Ok(Taps {
            index: at.clip(0.0, last)?.cast(DType::I64)?,
            inside,
            weight,
            taps: steps.numel(),
        })
    }
}

/// The kernel of cubic convolution (Keys 1981) with a = -0.75.
fn cubic(x: &Tensor) -> Result<Tensor> {
    let a = -0.75;
    let near = x.polynomial(&[1.0, 0.0, -(a + 3.0), a + 2.0])?;
    let far = x.polynomial(&[-4.0 * a, 8.0 * a, -5.0 * a, a])?;
    x.le(1.0)?.where_(&near, &far)
}

/// The weighted elements of `x`, `[n, c, s..]`, around places `[n, p]` given as taps for each axis:
/// `[n, c, p, taps]`, whose sum over the last axis is the value.
pub(super) fn weighted(x: &Tensor, axes: &[Taps]) -> Result<Tensor> {
    let (outer, space) = x.shape().split_at(2.min(x.rank()));
    let &[n, c] = outer else {
        return crate::ops::shape_error("sample", format!("{:?} has no channels", x.shape()));
    };
    let total: usize = space.iter().product();
    let places = axes.first().map_or(0, |t| t.index.shape()[1]);
    let taps: usize = axes.iter().map(|t| t.taps).product();
    crate::ops::check_size("sample", &[n, c, places, taps], DType::F64)?;
    // One axis of taps for each axis of space.
    let line = |t: &Tensor, axis: usize| {
        let mut shape = vec![1; 2 + axes.len()];
        shape[..2].copy_from_slice(&t.shape()[..2]);
        shape[2 + axis] = t.shape()[2];
        t.reshape(&shape)
    };
    let mut index: Option<Tensor> = None;
    let mut inside: Option<Tensor> = None;
    let mut weight: Option<Tensor> = None;
    let mut stride = total;
    for (axis, (tap, &size)) in axes.iter().zip(space).enumerate() {
        stride /= size.max(1);
        let step = line(&tap.index, axis)?.mul(stride as i64)?;
        index = Some(match index {
            Some(sum) => sum.add(&step)?,
            None => step,
        });
        let joined = |all: Option<Tensor>, one: &Option<Tensor>| match (all, one) {
            (Some(all), Some(one)) => all.mul(&line(one, axis)?).map(Some),
            (None, Some(one)) => line(one, axis).map(Some),
            (all, None) => Ok(all),
        };
        inside = joined(inside, &tap.inside)?;
        weight = joined(weight, &tap.weight)?;
    }
    let Some(mut index) = index else {
        return crate::ops::shape_error("sample", "no axes to sample".into());
    };
    // An index behind the last element reads 0.
    if let Some(inside) = inside {
        index = inside.where_(&index, total as i64)?;
    }
    let all = [
        &[n, places][..],
        &axes.iter().map(|t| t.taps).collect::<Vec<_>>(),
    ]
    .concat();
    let index = index.expand(&all)?.reshape(&[n, 1, places * taps])?;
    let index = index.expand(&[n, c, places * taps])?;
    let values = x.reshape(&[n, c, total])?.pick(2, &index)?;
    let values = values.reshape(&[n, c, places, taps])?;
    match weight {
        Some(weight) => {
            let weight = weight.expand(&all)?.reshape(&[n, 1, places, taps])?;
            values.mul(&weight)
        }
        None => Ok(values),
    }
}
