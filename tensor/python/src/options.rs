//! Methods whose options are structures in Rust: keywords here.

use doorbell::ops::attention::Attention;
use doorbell::ops::conv::ConvParams;
use doorbell::ops::image::Interpolation;
use doorbell::ops::loss::Classes;
use doorbell::ops::movement::PadMode;
use doorbell::{ReduceOp, Scalar, ScatterMode, Tensor};
use pyo3::prelude::*;

use crate::args::{Other, Reduced, Sizes};
use crate::error::{Done, wrong_value};
use crate::number::Number;
use crate::value::PyTensor;

/// A number for all spatial axes, or one for each of them.
pub(crate) fn each(given: Option<&Sizes>, axes: usize) -> Vec<usize> {
    match given.map(|sizes| sizes.0.as_slice()) {
        None => Vec::new(),
        Some(&[one]) => vec![one; axes],
        Some(list) => list.to_vec(),
    }
}

/// How windows slide over spatial axes.
pub(crate) fn sliding(
    axes: usize,
    stride: Option<&Sizes>,
    padding: Option<&Sizes>,
    dilation: Option<&Sizes>,
) -> ConvParams {
    let padding = each(padding, axes);
    ConvParams {
        stride: each(stride, axes),
        padding: padding.into_iter().map(|n| (n, n)).collect(),
        dilation: each(dilation, axes),
    }
}

fn given(py: Python<'_>, other: Option<Other>, beside: &Tensor) -> Done<Option<Tensor>> {
    other.map(|other| other.tensor(py, beside)).transpose()
}

/// How elements that are written combine with those that are there.
fn mode(name: &str) -> PyResult<ScatterMode> {
    match name {
        "set" => Ok(ScatterMode::Set),
        name => reduction(name).map(ScatterMode::Combine),
    }
}

fn reduction(name: &str) -> PyResult<ReduceOp> {
    match name {
        "add" | "sum" => Ok(ReduceOp::Add),
        "mul" | "prod" | "multiply" => Ok(ReduceOp::Mul),
        "max" | "amax" => Ok(ReduceOp::Max),
        "min" | "amin" => Ok(ReduceOp::Min),
        _ => Err(wrong_value(format!(
            "{name:?}: expected \"add\", \"mul\", \"max\" or \"min\""
        ))),
    }
}

/// Spatial axes of `[n, c, s..]`.
fn spatial(x: &Tensor) -> usize {
    x.rank().saturating_sub(2)
}

#[pymethods]
impl PyTensor {
    /// Convolution of `[n, c, s..]` with a weight `[out, c / groups, k..]`. Stride, padding and dilation are numbers, or one
    /// for each spatial axis.
    #[pyo3(signature = (weight, bias=None, stride=None, padding=None, dilation=None, groups=1))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn conv(
        &self,
        py: Python<'_>,
        weight: Other,
        bias: Option<Other>,
        stride: Option<Sizes>,
        padding: Option<Sizes>,
        dilation: Option<Sizes>,
        groups: usize,
    ) -> Done<PyTensor> {
        let this = self.value();
        let weight = weight.tensor(py, &this)?;
        let bias = given(py, bias, &this)?;
        let how = sliding(
            spatial(&this),
            stride.as_ref(),
            padding.as_ref(),
            dilation.as_ref(),
        );
        Ok(PyTensor::of(this.conv(
            &weight,
            bias.as_ref(),
            &how,
            groups,
        )?))
    }

    /// The transpose of a convolution, with a weight `[c, out / groups, k..]`.
    #[pyo3(signature = (weight, bias=None, stride=None, padding=None, output_padding=None, dilation=None, groups=1))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn conv_transpose(
        &self,
        py: Python<'_>,
        weight: Other,
        bias: Option<Other>,
        stride: Option<Sizes>,
        padding: Option<Sizes>,
        output_padding: Option<Sizes>,
        dilation: Option<Sizes>,
        groups: usize,
    ) -> Done<PyTensor> {
        let this = self.value();
        let weight = weight.tensor(py, &this)?;
        let bias = given(py, bias, &this)?;
        let axes = spatial(&this);
        let how = sliding(axes, stride.as_ref(), padding.as_ref(), dilation.as_ref());
        let output_padding = each(output_padding.as_ref(), axes);
        let found = this.conv_transpose(&weight, bias.as_ref(), &how, &output_padding, groups)?;
        Ok(PyTensor::of(found))
    }

    /// The largest element of each window of `[n, c, s..]`; the stride is the window if it is left out.
    #[pyo3(signature = (kernel=None, stride=None, padding=None, dilation=None, ceil=false))]
    fn max_pool(
        &self,
        kernel: Option<Sizes>,
        stride: Option<Sizes>,
        padding: Option<Sizes>,
        dilation: Option<Sizes>,
        ceil: bool,
    ) -> Done<PyTensor> {
        let this = self.value();
        let (kernel, how) = pooling(&this, kernel, stride, padding, dilation);
        Ok(PyTensor::of(this.max_pool(&kernel, &how, ceil)?))
    }

    /// As max_pool, with the positions of the elements in the flattened spatial axes.
    #[pyo3(signature = (kernel=None, stride=None, padding=None, dilation=None, ceil=false))]
    fn max_pool_indices(
        &self,
        kernel: Option<Sizes>,
        stride: Option<Sizes>,
        padding: Option<Sizes>,
        dilation: Option<Sizes>,
        ceil: bool,
    ) -> Done<(PyTensor, PyTensor)> {
        let this = self.value();
        let (kernel, how) = pooling(&this, kernel, stride, padding, dilation);
        let (values, places) = this.max_pool_indices(&kernel, &how, ceil)?;
        Ok((PyTensor::of(values), PyTensor::of(places)))
    }

    /// The mean of each window of `[n, c, s..]`; the stride is the window if it is left out.
    #[pyo3(signature = (kernel=None, stride=None, padding=None, dilation=None, ceil=false, count_padding=true))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn avg_pool(
        &self,
        kernel: Option<Sizes>,
        stride: Option<Sizes>,
        padding: Option<Sizes>,
        dilation: Option<Sizes>,
        ceil: bool,
        count_padding: bool,
    ) -> Done<PyTensor> {
        let this = self.value();
        let (kernel, how) = pooling(&this, kernel, stride, padding, dilation);
        Ok(PyTensor::of(this.avg_pool(
            &kernel,
            &how,
            ceil,
            count_padding,
        )?))
    }

    /// The p-norm of each window of `[n, c, s..]`.
    #[pyo3(signature = (p, kernel=None, stride=None, padding=None, dilation=None, ceil=false))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn lp_pool(
        &self,
        p: f64,
        kernel: Option<Sizes>,
        stride: Option<Sizes>,
        padding: Option<Sizes>,
        dilation: Option<Sizes>,
        ceil: bool,
    ) -> Done<PyTensor> {
        let this = self.value();
        let (kernel, how) = pooling(&this, kernel, stride, padding, dilation);
        Ok(PyTensor::of(this.lp_pool(p, &kernel, &how, ceil)?))
    }

    /// More elements on both sides of axes, as numpy's pad: one pair of numbers for each axis, or one for all. The mode is
    /// "constant", "reflect", "edge" or "wrap"; negative numbers cut elements off.
    #[pyo3(signature = (amounts, mode="constant", value=None))]
    fn pad(&self, amounts: &Bound<'_, PyAny>, mode: &str, value: Option<Number>) -> Done<PyTensor> {
        let this = self.value();
        let amounts = match amounts.extract::<isize>() {
            Ok(one) => vec![(one, one); this.rank()],
            Err(_) => match amounts.extract::<(isize, isize)>() {
                Ok(both) => vec![both; this.rank()],
                Err(_) => amounts.extract::<Vec<(isize, isize)>>()?,
            },
        };
        let mode = match mode {
            "constant" => PadMode::Constant(value.map_or(Scalar::Int(0), |value| value.0)),
            "reflect" => PadMode::Reflect,
            "edge" | "replicate" => PadMode::Replicate,
            "wrap" | "circular" => PadMode::Circular,
            _ => {
                let what = format!(
                    "mode={mode:?}: expected \"constant\", \"reflect\", \"edge\" or \"wrap\""
                );
                return Err(wrong_value(what).into());
            }
        };
        Ok(PyTensor::of(this.pad(&amounts, mode)?))
    }

    /// The tensor with `source` put at `index` along an axis. The mode is "set" (of several writes to one element the last one
    /// counts), "add", "mul", "max" or "min".
    #[pyo3(signature = (axis, index, source, mode="set"))]
    fn scatter(
        &self,
        py: Python<'_>,
        axis: isize,
        index: Other,
        source: Other,
        mode: &str,
    ) -> Done<PyTensor> {
        let this = self.value();
        let index = index.tensor(py, &this)?;
        let source = source.tensor(py, &this)?;
        let source = match source.rank() {
            0 => source.cast(this.dtype())?.expand(index.shape())?,
            _ => source,
        };
        Ok(PyTensor::of(this.scatter(
            axis,
            &index,
            &source,
            self::mode(mode)?,
        )?))
    }

    /// The tensor combined with `source` at `index` along an axis by "add", "mul", "max" or "min". Without include_self
    /// elements that are written to start from the identity of the operation.
    #[pyo3(signature = (axis, index, source, reduce, include_self=true))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn scatter_reduce(
        &self,
        py: Python<'_>,
        axis: isize,
        index: Other,
        source: Other,
        reduce: &str,
        include_self: bool,
    ) -> Done<PyTensor> {
        let this = self.value();
        let index = index.tensor(py, &this)?;
        let source = source.tensor(py, &this)?;
        let found = this.scatter_reduce(axis, &index, &source, reduction(reduce)?, include_self)?;
        Ok(PyTensor::of(found))
    }

    /// The tensor with `updates` put at coordinates, which are the last axis of `index`.
    #[pyo3(signature = (index, updates, mode="set"))]
    fn scatter_nd(
        &self,
        py: Python<'_>,
        index: Other,
        updates: Other,
        mode: &str,
    ) -> Done<PyTensor> {
        let this = self.value();
        let index = index.tensor(py, &this)?;
        let updates = updates.tensor(py, &this)?;
        Ok(PyTensor::of(this.scatter_nd(
            &index,
            &updates,
            self::mode(mode)?,
        )?))
    }

    /// Spatial axes of `[n, c, s..]` in another size; the mode is "nearest", "linear", or "linear-corners", with corners aligned.
    #[pyo3(signature = (size, mode="nearest"))]
    fn interpolate(&self, size: Sizes, mode: &str) -> Done<PyTensor> {
        let this = self.value();
        let mode = match mode {
            "nearest" => Interpolation::Nearest,
            "linear" | "bilinear" => Interpolation::Linear {
                align_corners: false,
            },
            "linear-corners" => Interpolation::Linear {
                align_corners: true,
            },
            _ => {
                let what = format!(
                    "mode={mode:?}: expected \"nearest\", \"linear\" or \"linear-corners\""
                );
                return Err(wrong_value(what).into());
            }
        };
        let size = each(Some(&size), spatial(&this));
        Ok(PyTensor::of(this.interpolate(&size, mode)?))
    }

    /// Scaled dot-product attention: queries `[.., heads, q, width]`, keys `[.., kv_heads, k, width]`, values
    /// `[.., kv_heads, k, out]` give `[.., heads, q, out]`. A mask of floats is added to the scores; where one of truth values is
    /// false, the score is -inf. With `causal`, query i sees key j only if j <= i + (keys - queries).
    #[pyo3(signature = (key, value, mask=None, causal=false, scale=None, softcap=None))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn attention(
        &self,
        py: Python<'_>,
        key: Other,
        value: Other,
        mask: Option<Other>,
        causal: bool,
        scale: Option<f64>,
        softcap: Option<f64>,
    ) -> Done<PyTensor> {
        let this = self.value();
        let options = Attention {
            mask: given(py, mask, &this)?,
            causal,
            scale,
            softcap,
        };
        let (key, value) = (key.tensor(py, &this)?, value.tensor(py, &this)?);
        Ok(PyTensor::of(this.attention(&key, &value, &options)?))
    }

    /// Where the elements that are not zero are, row by row: `[n, axes]`. Reads the tensor.
    fn nonzero(&self, py: Python<'_>) -> Done<PyTensor> {
        let this = self.value();
        Ok(PyTensor::of(py.detach(|| this.nonzero())?))
    }

    /// The elements where a mask is true, in row-major order. Reads the mask; the elements stay lazy and have a gradient.
    fn masked_select(&self, py: Python<'_>, mask: Other) -> Done<PyTensor> {
        let this = self.value();
        let mask = mask.tensor(py, &this)?;
        Ok(PyTensor::of(py.detach(|| this.masked_select(&mask))?))
    }

    /// The distinct elements in order, the index of each element in them, and how often each occurs. Reads the tensor.
    fn unique(&self, py: Python<'_>) -> Done<(PyTensor, PyTensor, PyTensor)> {
        let this = self.value();
        let found = py.detach(|| this.unique())?;
        Ok((
            PyTensor::of(found.values),
            PyTensor::of(found.inverse),
            PyTensor::of(found.counts),
        ))
    }

    /// Negative log likelihood: log-probabilities `[n, c, s..]` at integer targets `[n, s..]`.
    #[pyo3(signature = (target, weight=None, ignore_index=None, reduction=Reduced::of("mean")))]
    fn nll_loss(
        &self,
        py: Python<'_>,
        target: Other,
        weight: Option<Other>,
        ignore_index: Option<i64>,
        reduction: Reduced,
    ) -> Done<PyTensor> {
        let this = self.value();
        let options = Classes {
            weight: given(py, weight, &this)?,
            ignore: ignore_index,
            smoothing: 0.0,
            reduction: reduction.0,
        };
        Ok(PyTensor::of(
            this.nll_loss(&target.tensor(py, &this)?, &options)?,
        ))
    }

    /// Cross entropy of logits `[n, c, s..]` at integer targets `[n, s..]`, or at probabilities of the same shape.
    #[pyo3(signature = (target, weight=None, ignore_index=None, label_smoothing=0.0, reduction=Reduced::of("mean")))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn cross_entropy(
        &self,
        py: Python<'_>,
        target: Other,
        weight: Option<Other>,
        ignore_index: Option<i64>,
        label_smoothing: f64,
        reduction: Reduced,
    ) -> Done<PyTensor> {
        let this = self.value();
        let options = Classes {
            weight: given(py, weight, &this)?,
            ignore: ignore_index,
            smoothing: label_smoothing,
            reduction: reduction.0,
        };
        Ok(PyTensor::of(
            this.cross_entropy(&target.tensor(py, &this)?, &options)?,
        ))
    }
}

/// The window, and how it slides.
fn pooling(
    x: &Tensor,
    kernel: Option<Sizes>,
    stride: Option<Sizes>,
    padding: Option<Sizes>,
    dilation: Option<Sizes>,
) -> (Vec<usize>, ConvParams) {
    let axes = spatial(x);
    let kernel = kernel.unwrap_or(Sizes(vec![2]));
    let how = sliding(axes, stride.as_ref(), padding.as_ref(), dilation.as_ref());
    (each(Some(&kernel), axes), how)
}
