//! Convolutions: windows of the padded input, times the weight, summed. Their transpose is in
//! [`super::conv_transpose`].

use codegen::ir::ReduceOp;

use super::shape_error;
use crate::error::Result;
use crate::graph::{Shape, Tensor};
use crate::ops::movement::PadMode;

/// How windows slide over the spatial axes. An empty list means the default on every axis.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConvParams {
    /// Distance between windows; default 1 (in pooling: the window).
    pub stride: Vec<usize>,
    /// Zeros (in max pooling: -inf) before and after each axis; default none.
    pub padding: Vec<(usize, usize)>,
    /// Distance between the elements of a window; default 1.
    pub dilation: Vec<usize>,
}

impl ConvParams {
    /// The same stride on `n` axes.
    pub fn strided(stride: usize, n: usize) -> ConvParams {
        ConvParams {
            stride: vec![stride; n],
            ..ConvParams::default()
        }
    }

    /// The same padding on both sides of `n` axes.
    pub fn padded(mut self, padding: usize, n: usize) -> ConvParams {
        self.padding = vec![(padding, padding); n];
        self
    }

    /// The same dilation on `n` axes.
    pub fn dilated(mut self, dilation: usize, n: usize) -> ConvParams {
        self.dilation = vec![dilation; n];
        self
    }

    /// Each list with one entry per axis, checked.
    pub(crate) fn resolve(&self, op: &'static str, default_stride: &[usize]) -> Result<ConvParams> {
        let n = default_stride.len();
        let stride = match self.stride.is_empty() {
            true => default_stride.to_vec(),
            false => self.stride.clone(),
        };
        let padding = match self.padding.is_empty() {
            true => vec![(0, 0); n],
            false => self.padding.clone(),
        };
        let dilation = match self.dilation.is_empty() {
            true => vec![1; n],
            false => self.dilation.clone(),
        };
        let lengths = [stride.len(), padding.len(), dilation.len()];
        if lengths != [n; 3] || stride.contains(&0) || dilation.contains(&0) {
            return shape_error(
                op,
                format!(
                    "{self:?} for {n} spatial axes: expected one entry per axis, strides and \
                         dilations above 0"
                ),
            );
        }
        let large =
            |&(a, b): &(usize, usize)| a > isize::MAX as usize / 4 || b > isize::MAX as usize / 4;
        if padding.iter().any(large) {
            return shape_error(op, format!("padding {padding:?} exceeds the address space"));
        }
        Ok(ConvParams {
            stride,
            padding,
            dilation,
        })
    }
}

/// Amounts for [`Tensor::pad`]: nothing for the two leading axes.
pub(crate) fn spatial(padding: &[(usize, usize)]) -> Vec<(isize, isize)> {
    [(0, 0), (0, 0)]
        .into_iter()
        .chain(padding.iter().map(|&(a, b)| (a as isize, b as isize)))
        .collect()
}

impl Tensor {
    /// Convolution over 1 to 3 (or more) spatial axes: `[n, c_in, s..]` with the weight
    /// `[c_out, c_in / groups, k..]` and the bias `[c_out]` gives `[n, c_out, o..]` with
    /// `o = (s + padding - dilation * (k - 1) - 1) / stride + 1`. The kernel is not flipped.
    ///
    /// # Errors
    /// Ranks, channels or groups that do not fit; a kernel larger than the padded input.
    pub fn conv(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        sliding: &ConvParams,
        groups: usize,
    ) -> Result<Tensor> {
        let rank = self.rank();
        let fits = rank >= 3
            && weight.rank() == rank
            && groups > 0
            && self.shape()[1] == weight.shape()[1].saturating_mul(groups)
            && weight.shape()[0].is_multiple_of(groups);
        if !fits {
            return shape_error(
                "conv",
                format!(
                    "input {:?}, weight {:?}, {groups} groups: expected [n, c_in, s..] and \
                     [c_out, c_in / groups, k..] with groups dividing c_out",
                    self.shape(),
                    weight.shape()
                ),
            );
        }
        let n = rank - 2;
        let ConvParams {
            stride,
            padding,
            dilation,
        } = sliding.resolve("conv", &vec![1; n])?;
        let dtype = self.dtype().promote(weight.dtype());
        let (batch, c_out) = (self.shape()[0], weight.shape()[0]);
        let (c_in, c_group) = (weight.shape()[1], c_out / groups);
        let mut x = self
            .cast(dtype.accumulator())?
            .pad(&spatial(&padding), PadMode::Constant(0.into()))?;
        for i in 0..n {
            x = x.windows(2 + i, weight.shape()[2 + i], stride[i], dilation[i])?;
        }
        let out: Shape = x.shape()[2..rank].to_vec();
        let kernel = weight.shape()[2..].to_vec();
        // [n, g, 1, o.., c_in / g, k..] times [g, c_out / g, 1.., c_in / g, k..].
        let split = [&[batch, groups, c_in][..], &out, &kernel].concat();
        let mut order = vec![0, 1];
        order.extend(3..3 + n);
        order.push(2);
        order.extend(3 + n..3 + 2 * n);
        let x = x.reshape(&split)?.permute(&order)?.unsqueeze(2)?;
        let ones = vec![1; n];
        let w = weight
            .cast(dtype.accumulator())?
            .reshape(&[&[groups, c_group][..], &ones, &[c_in], &kernel].concat())?;
        let product = x.mul(&w)?;
        let summed: Vec<usize> = (3 + n..product.rank()).collect();
        let sum = product
            .reduce(ReduceOp::Add, &summed)?
            .reshape(&[&[batch, c_out][..], &out].concat())?
            .cast(dtype)?;
        match bias {
            Some(bias) => sum.add(&per_channel("conv", bias, c_out, rank)?),
            None => Ok(sum),
        }
    }
}

/// A vector `[channels]` in a shape that broadcasts along axis 1 of `rank` axes.
pub(crate) fn per_channel(
    op: &'static str,
    vector: &Tensor,
    channels: usize,
    rank: usize,
) -> Result<Tensor> {
    if vector.shape() != [channels] {
        return shape_error(
            op,
            format!(
                "{:?} is not one value for each of {channels} channels",
                vector.shape()
            ),
        );
    }
    let mut shape = vec![1; rank.saturating_sub(1)];
    if let Some(first) = shape.first_mut() {
        *first = channels;
    }
    vector.reshape(&shape)
}
