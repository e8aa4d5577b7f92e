//! The transpose of a convolution, by phases.
//!
//! Along an axis, element i of the input times element k of the kernel goes to `i * stride + k * dilation` of
//! the output (before padding is cut off). What goes to positions with one remainder by the stride, a
//! phase, takes a part of the kernel only, and is an ordinary convolution of the input with that part.
//! The phases are computed apart and put between each other, so nothing is multiplied by the zeros
//! that a strided convolution backwards would have between the elements of its input.

use super::conv::{ConvParams, per_channel};
use super::{check_size, shape_error};
use crate::error::Result;
use crate::graph::{Shape, Tensor};
use crate::ops::movement::PadMode;

/// Phases that are convolutions of their own; more would be too many kernels.
const APART: usize = 16;
/// Phases that are channels of one convolution.
const TOGETHER: usize = 1 << 12;

/// One spatial axis.
#[derive(Clone, Copy)]
struct Along {
    stride: usize,
    dilation: usize,
    /// Elements of the kernel.
    kernel: usize,
    /// Elements of the output.
    output: usize,
    /// Elements cut off before the output.
    before: usize,
}

/// The part of the kernel that makes a phase: every `step`-th element from `first`, of which the last
/// meets input `q - late` for output q of the phase, and the others those `dilation` before it.
struct Part {
    first: usize,
    count: usize,
    step: usize,
    dilation: usize,
    late: usize,
}

impl Along {
    /// The first output of each phase that is computed, and the one behind the last.
    fn reach(&self) -> (usize, usize) {
        let end = self.before + self.output;
        (self.before / self.stride, end.div_ceil(self.stride))
    }

    fn part(&self, phase: usize) -> Part {
        let common = gcd(self.stride, self.dilation);
        let step = self.stride / common;
        let first = (0..step.min(self.kernel)).find(|k| k * self.dilation % self.stride == phase);
        Part {
            first: first.unwrap_or(0),
            count: first.map_or(0, |first| (self.kernel - first).div_ceil(step)),
            step,
            dilation: self.dilation / common,
            late: first.map_or(0, |first| (first * self.dilation - phase) / self.stride),
        }
    }

    /// A whole number of kernel elements for every phase, next to each other.
    fn even(&self) -> bool {
        self.dilation == 1 && self.kernel.is_multiple_of(self.stride)
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Tensor {
    /// The transpose of a convolution: `[n, c_in, s..]` with the weight `[c_in, c_out / groups,
    /// k..]` gives `[n, c_out, o..]` with `o = (s - 1) * stride - padding + dilation * (k - 1) +
    /// output_padding + 1`; `output_padding` has one number per spatial axis, or none.
    ///
    /// # Errors
    /// Ranks, channels or groups that do not fit; more padding than there is output.
    pub fn conv_transpose(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        sliding: &ConvParams,
        output_padding: &[usize],
        groups: usize,
    ) -> Result<Tensor> {
        let rank = self.rank();
        let n = rank.saturating_sub(2);
        let fits = rank >= 3
            && weight.rank() == rank
            && groups > 0
            && self.shape()[1] == weight.shape()[0]
            && weight.shape()[0].is_multiple_of(groups)
            && (output_padding.is_empty() || output_padding.len() == n);
        if !fits {
            return shape_error(
                "conv_transpose",
                format!(
                    "input {:?}, weight {:?}, {groups} groups, output padding {output_padding:?}: \
                     expected [n, c_in, s..] and [c_in, c_out / groups, k..] with groups dividing c_in",
                    self.shape(),
                    weight.shape()
                ),
            );
        }
        let sliding = sliding.resolve("conv_transpose", &vec![1; n])?;
        let mut axes = Vec::new();
        for i in 0..n {
            let (input, kernel) = (self.shape()[2 + i], weight.shape()[2 + i]);
            let wide = |n: usize| n as i128;
            let (before, after) = sliding.padding[i];
            let more = output_padding.get(i).copied().unwrap_or(0);
            let reach = wide(sliding.dilation[i]) * (wide(kernel) - 1);
            let span = (wide(input) - 1).saturating_mul(wide(sliding.stride[i])) + reach + 1;
            let output = span - wide(before) - wide(after) + wide(more);
            let output = usize::try_from(output).ok();
            let (Some(output @ 1..), 1.., 1..) = (output, input, kernel) else {
                return shape_error(
                    "conv_transpose",
                    format!(
                        "axis {} of input {:?}, weight {:?}, {sliding:?}, output padding \
                         {output_padding:?} leaves no output; pad less",
                        2 + i,
                        self.shape(),
                        weight.shape()
                    ),
                );
            };
            axes.push(Along {
                // A stride from one element leads nowhere.
                stride: if input == 1 { 1 } else { sliding.stride[i] },
                dilation: if kernel == 1 { 1 } else { sliding.dilation[i] },
                kernel,
                output,
                before,
            });
        }
        let c_out = weight.shape()[1].saturating_mul(groups);
        let outputs: Shape = axes.iter().map(|a| a.output).collect();
        let dtype = self.dtype().promote(weight.dtype());
        let shape = [&[self.shape()[0], c_out][..], &outputs].concat();
        check_size("conv_transpose", &shape, dtype.accumulator())?;
        let phases = (axes.iter()).fold(1usize, |all, a| all.saturating_mul(a.stride));
        let sum = if axes.iter().all(Along::even) && phases <= TOGETHER {
            self.phases_together(weight, &axes, groups)?
        } else if phases <= APART {
            self.phases_apart(weight, &axes, groups)?
        } else {
            self.stuffed(weight, &axes, groups)?
        };
        match bias {
            Some(bias) => sum.add(&per_channel("conv_transpose", bias, c_out, rank)?),
            None => Ok(sum),
        }
    }

    /// Phases with kernels of one size over the same windows: the channels of one convolution.
    fn phases_together(&self, weight: &Tensor, axes: &[Along], groups: usize) -> Result<Tensor> {
        let (rank, n) = (self.rank(), axes.len());
        let (c_in, c_group) = (weight.shape()[0] / groups, weight.shape()[1]);
        let taps: Shape = axes.iter().map(|a| a.kernel / a.stride).collect();
        // [g, c_in, c_group, taps, stride, ..] to [g, c_group, stride.., c_in, taps..].
        let mut split = vec![groups, c_in, c_group];
        split.extend(axes.iter().zip(&taps).flat_map(|(a, &t)| [t, a.stride]));
        let mut order = vec![0, 2];
        order.extend((0..n).map(|i| 4 + 2 * i));
        order.push(1);
        order.extend((0..n).map(|i| 3 + 2 * i));
        let flipped: Vec<usize> = (0..n).map(|i| 3 + 2 * i).collect();
        let phases: usize = axes.iter().map(|a| a.stride).product();
        let w = weight
            .reshape(&split)?
            .reverse(&flipped)?
            .permute(&order)?
            .reshape(&[&[groups * c_group * phases, c_in][..], &taps].concat())?;
        let mut x = self.clone();
        for (i, (a, &taps)) in axes.iter().zip(&taps).enumerate() {
            let (first, end) = a.reach();
            x = x.window(2 + i, first as i128 - (taps as i128 - 1), end as i128)?;
        }
        let y = x.conv(&w, None, &ConvParams::default(), groups)?;
        let strides: Shape = axes.iter().map(|a| a.stride).collect();
        let interleave = [
            &[y.shape()[0], groups * c_group][..],
            &strides,
            &y.shape()[2..rank],
        ];
        interleaved(&y.reshape(&interleave.concat())?, axes)
    }

    /// Each phase a convolution of its own.
    fn phases_apart(&self, weight: &Tensor, axes: &[Along], groups: usize) -> Result<Tensor> {
        let strides: Shape = axes.iter().map(|a| a.stride).collect();
        let count: usize = strides.iter().product();
        let c_out = weight.shape()[1] * groups;
        let lengths = axes
            .iter()
            .map(|a| a.reach())
            .map(|(first, end)| end - first);
        let one = [self.shape()[0], c_out].into_iter().chain(lengths);
        let one: Shape = one.collect();
        let dtype = self.dtype().promote(weight.dtype());
        let mut phases = Vec::new();
        for phase in 0..count {
            let (mut x, mut w) = (self.clone(), weight.clone());
            let mut rest = phase;
            let mut dilation = vec![1; axes.len()];
            for (i, a) in axes.iter().enumerate().rev() {
                let part = a.part(rest % a.stride);
                rest /= a.stride;
                let (first, end) = a.reach();
                dilation[i] = part.dilation;
                if part.count == 0 {
                    // Nothing goes to this phase.
                    w = w.narrow(2 + i as isize, 0, 0)?;
                    continue;
                }
                let span = (part.count - 1) * part.step + 1;
                w = w
                    .narrow(2 + i as isize, part.first, span)?
                    .every(2 + i, part.step)?;
                let back = part.late as i128 + (part.count as i128 - 1) * part.dilation as i128;
                let start = first as i128 - back;
                x = x.window(2 + i, start, end as i128 - part.late as i128)?;
            }
            phases.push(match w.numel() {
                0 => Tensor::zeros(self.engine(), &one, dtype)?,
                _ => {
                    let sliding = ConvParams {
                        dilation,
                        ..ConvParams::default()
                    };
                    x.conv(&backwards(&w, groups)?, None, &sliding, groups)?
                        .contiguous()?
                }
            });
        }
        let y = Tensor::stack(&phases.iter().collect::<Vec<_>>(), 2)?;
        let interleave = [&one[..2], &strides, &one[2..]].concat();
        interleaved(&y.reshape(&interleave)?, axes)
    }

    /// An ordinary convolution of the input with zeros between its elements and around it.
    fn stuffed(&self, weight: &Tensor, axes: &[Along], groups: usize) -> Result<Tensor> {
        let mut x = self.clone();
        for (i, a) in axes.iter().enumerate() {
            x = x.dilate(2 + i, a.stride)?;
            let reach = a.dilation.saturating_mul(a.kernel - 1) as i128;
            let start = a.before as i128 - reach;
            x = x.window(2 + i, start, start + a.output as i128 + reach)?;
        }
        let plain = ConvParams {
            dilation: axes.iter().map(|a| a.dilation).collect(),
            ..ConvParams::default()
        };
        x.conv(&backwards(weight, groups)?, None, &plain, groups)
    }

    /// Elements `start..end` of an axis, zeros where it has none.
    fn window(&self, along: usize, start: i128, end: i128) -> Result<Tensor> {
        let len = self.shape()[along] as i128;
        let (low, high) = (start.clamp(0, len), end.clamp(0, len));
        let part = self.narrow(along as isize, low as usize, (high - low).max(0) as usize)?;
        let mut amounts = vec![(0, 0); self.rank()];
        let size = |n: i128| isize::try_from(n).unwrap_or(isize::MAX);
        let before = (low - start).clamp(0, end - start);
        amounts[along] = (
            size(before),
            size(end - start - before - (high - low).max(0)),
        );
        part.pad(&amounts, PadMode::Constant(0.into()))
    }
}

/// The weight of the convolution that this one is the transpose of, from `[c_in, c_out / groups, k..]`.
fn backwards(weight: &Tensor, groups: usize) -> Result<Tensor> {
    let (c_in, c_group) = (weight.shape()[0] / groups, weight.shape()[1]);
    let kernel = &weight.shape()[2..];
    let axes: Vec<usize> = (2..weight.rank()).collect();
    weight
        .reverse(&axes)?
        .reshape(&[&[groups, c_in, c_group][..], kernel].concat())?
        .transpose(1, 2)?
        .reshape(&[&[groups * c_group, c_in][..], kernel].concat())
}

/// `[n, c, stride.., q..]` with the phases between each other, and without what is cut off.
fn interleaved(y: &Tensor, axes: &[Along]) -> Result<Tensor> {
    let n = axes.len();
    let order: Vec<usize> = [0, 1]
        .into_iter()
        .chain((0..n).flat_map(|i| [2 + n + i, 2 + i]))
        .collect();
    let mut shape = y.shape()[..2].to_vec();
    shape.extend((0..n).map(|i| y.shape()[2 + n + i] * y.shape()[2 + i]));
    let mut y = y.permute(&order)?.reshape(&shape)?;
    for (i, a) in axes.iter().enumerate() {
        let start = a.before - a.reach().0 * a.stride;
        y = y.narrow(2 + i as isize, start, a.output)?;
    }
    Ok(y)
}
