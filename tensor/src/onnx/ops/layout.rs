//! Operators of ONNX Runtime on images that are not `[n, c, s..]`: with the channels last, or with
//! channels in blocks.
//!
//! Blocks are how ONNX Runtime lays out what it computes on the host that optimised the model
//! (`com.microsoft.nchwc`). Between the operators that go into that layout and out of it nobody sees
//! how elements lie, so tensors stay `[n, c, h, w]` here, with the channels filled up to whole
//! blocks. Only weights are in the file as blocks, and the size of a block is not: it is that of the
//! processor, as it is for ONNX Runtime, which runs such a file only where it was made.

use super::{fused, image, nn, norm, quant, resize};
use crate::graph::Tensor;
use crate::onnx::call::{Call, Lowering, Table, one, sizes};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::graph::{Attr, NEWEST_OPSET};
use crate::onnx::value::Value;

pub(super) const MICROSOFT: Table = &[
    ("NhwcConv", nhwc_conv),
    ("NhwcFusedConv", |c| last(c, &[0, 3], fused::fused_conv)),
    ("NhwcMaxPool", |c| last(c, &[0], nn::max_pool)),
];

/// Operators of the default domain whose images have the channels last; weights are as usual.
pub(super) const CHANNELS_LAST: Table = &[
    ("AveragePool", |c| last(c, &[0], nn::average_pool)),
    ("BatchNormalization", |c| {
        last(c, &[0], norm::batch_normalization)
    }),
    ("Conv", |c| last(c, &[0], conv)),
    ("ConvTranspose", |c| last(c, &[0], nn::conv_transpose)),
    ("DepthToSpace", |c| last(c, &[0], image::depth_to_space)),
    ("GlobalAveragePool", |c| last(c, &[0], global_average)),
    ("GlobalLpPool", |c| last(c, &[0], nn::global_lp_pool)),
    ("GlobalMaxPool", |c| last(c, &[0], global_max)),
    ("GridSample", |c| last(c, &[0], image::grid_sample)),
    ("InstanceNormalization", |c| {
        last(c, &[0], norm::instance_normalization)
    }),
    ("LRN", |c| last(c, &[0], norm::lrn)),
    ("LpPool", |c| last(c, &[0], nn::lp_pool)),
    ("MaxPool", |c| last(c, &[0], nn::max_pool)),
    ("QLinearConv", |c| last(c, &[0], quant::qlinear_conv)),
    ("Resize", resized),
    ("SpaceToDepth", |c| last(c, &[0], image::space_to_depth)),
];

pub(super) const BLOCKED: Table = &[
    ("AveragePool", |c| as_it_is(c, nn::average_pool)),
    ("Conv", blocked_conv),
    ("GlobalAveragePool", global_average),
    ("GlobalMaxPool", global_max),
    ("MaxPool", |c| as_it_is(c, nn::max_pool)),
    ("ReorderInput", reorder_input),
    ("ReorderOutput", reorder_output),
    ("Upsample", upsample),
];

/// An operator on inputs some of which have their channels last, as has its first output.
pub(super) fn last(c: &mut Call, images: &[usize], lowering: Lowering) -> Result<Vec<Value>> {
    let inputs = c.inputs.to_vec();
    last_of(c, inputs, images, lowering)
}

fn last_of(
    c: &mut Call,
    mut inputs: Vec<Option<Value>>,
    images: &[usize],
    lowering: Lowering,
) -> Result<Vec<Value>> {
    for &i in images {
        if !c.has(i) {
            continue;
        }
        let mut image = c.array(i)?;
        nn::space(&image.tensor)?;
        image.tensor = image.tensor.move_axis(-1, 1)?;
        inputs[i] = Some(image.into());
    }
    let mut outputs = c.through(lowering, c.opset(), &[], &inputs)?;
    if let Some(Value::Tensor(array)) = outputs.first_mut() {
        array.tensor = array.tensor.move_axis(1, -1)?;
    }
    Ok(outputs)
}

fn conv(c: &mut Call) -> Result<Vec<Value>> {
    one(nn::convolved(c)?)
}

fn global_average(c: &mut Call) -> Result<Vec<Value>> {
    one(c.tensor(0)?.global_avg_pool()?)
}

fn global_max(c: &mut Call) -> Result<Vec<Value>> {
    one(c.tensor(0)?.global_max_pool()?)
}

/// The region, scales and sizes are in the order of the axes, too.
fn resized(c: &mut Call) -> Result<Vec<Value>> {
    let rank = nn::space(&c.tensor(0)?)?.len() + 2;
    let mut inputs = c.inputs.to_vec();
    for input in inputs.iter_mut().skip(1) {
        // They stay where they are: what is known must stay known.
        let Some(Value::Tensor(array)) = input else {
            continue;
        };
        let list = &array.tensor;
        if list.numel() == 0 {
            continue;
        }
        let count = list.numel() / rank;
        if list.numel() != count * rank || count > 2 {
            return wrong(format!(
                "expected {rank} sizes or scales, found {:?}",
                list.shape()
            ));
        }
        let lines = list.reshape(&[count, rank])?;
        let part = |from: usize, len: usize| lines.narrow(1, from, len);
        let parts = [part(0, 1)?, part(rank - 1, 1)?, part(1, rank - 2)?];
        let moved = Tensor::cat(&parts.each_ref(), 1)?;
        array.tensor = moved.reshape(list.shape())?;
    }
    last_of(c, inputs, &[0], resize::resize)
}

/// The weights of this one have the channels last as well.
fn nhwc_conv(c: &mut Call) -> Result<Vec<Value>> {
    let mut inputs = c.inputs.to_vec();
    let weight = c.tensor(1)?;
    nn::space(&weight)?;
    inputs[1] = Some(weight.move_axis(-1, 1)?.into());
    last_of(c, inputs, &[0], conv)
}

/// Channels in a block, by the rule of ONNX Runtime.
fn block() -> usize {
    #[cfg(target_arch = "x86_64")]
    let wide = std::arch::is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    let wide = true;
    if wide { 16 } else { 8 }
}

fn as_it_is(c: &mut Call, lowering: Lowering) -> Result<Vec<Value>> {
    let inputs = c.inputs;
    c.through(lowering, NEWEST_OPSET, &[], inputs)
}

/// Into blocks: channels are filled up with zeros.
fn reorder_input(c: &mut Call) -> Result<Vec<Value>> {
    let mut x = c.tensor(0)?;
    nn::space(&x)?;
    if c.int_or("channels_last", 0)? != 0 {
        x = x.move_axis(-1, 1)?;
    }
    let mut wanted = x.shape().to_vec();
    wanted[1] = wanted[1].next_multiple_of(block());
    if wanted != x.shape() {
        x = x.pad_to(&vec![0; wanted.len()], &wanted, 0)?;
    }
    one(x)
}

fn reorder_output(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    nn::space(&x)?;
    let channels = c.int_or("channels", 0)?;
    let x = match usize::try_from(channels) {
        Ok(n) if (1..=x.shape()[1]).contains(&n) => x.narrow(1, 0, n)?,
        _ => {
            return wrong(format!(
                "expected attribute channels of 1 to {}, found {channels}",
                x.shape()[1]
            ));
        }
    };
    one(match c.int_or("channels_last", 0)? {
        0 => x,
        _ => x.move_axis(1, -1)?,
    })
}

/// Weights come out of their blocks; the rest is a fused convolution.
fn blocked_conv(c: &mut Call) -> Result<Vec<Value>> {
    let (weight, size) = (c.tensor(1)?, block());
    let &[outer, inner, height, width] = weight.shape() else {
        return wrong(format!(
            "expected a weight [o, i, h, w], found {:?}",
            weight.shape()
        ));
    };
    if !outer.is_multiple_of(size) {
        return unsupported(format!(
            "Conv with {outer} output channels in blocks of {size} (the model was optimised for another \
             processor: optimise it on this one, or at a lower level)"
        ));
    }
    // One input channel of its own for each output, or fewer than a block: those are not in blocks.
    let plain = match nn::groups(c)? {
        1 => inner < size,
        groups => inner == 1 && outer == groups,
    };
    let weight = match plain {
        true => weight
            .reshape(&[outer / size, inner, height, width, size])?
            .permute(&[0, 4, 1, 2, 3])?,
        false if inner.is_multiple_of(size) => weight
            .reshape(&[outer / size, inner / size, height, width, size, size])?
            .permute(&[0, 5, 1, 4, 2, 3])?,
        false => {
            return wrong(format!(
                "expected input channels in blocks of {size}, found {inner}"
            ));
        }
    };
    let mut inputs = c.inputs.to_vec();
    inputs[1] = Some(weight.reshape(&[outer, inner, height, width])?.into());
    c.through(fused::fused_conv, NEWEST_OPSET, &[], &inputs)
}

/// Whole multiples of the last two axes.
fn upsample(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    let scales = c.attr_ints("scales")?.unwrap_or_else(|| vec![1; 4]);
    let (&[1, 1, height, width], 4) = (&sizes(&scales)?[..], x.rank()) else {
        return wrong(format!(
            "expected [n, c, h, w] and scales [1, 1, h, w], found {:?} and {scales:?}",
            x.shape()
        ));
    };
    if c.str_or("mode", "nearest")? == "nearest" {
        let y = x.repeat_interleave(height, 2)?;
        return one(y.repeat_interleave(width, 3)?);
    }
    let wanted = [
        x.shape()[0],
        x.shape()[1],
        x.shape()[2].saturating_mul(height),
        x.shape()[3].saturating_mul(width),
    ];
    let wanted: Vec<i64> = wanted.iter().map(|&n| n as i64).collect();
    let wanted = c.eval.known_ints(&wanted, &[4])?;
    let place = "coordinate_transformation_mode";
    let attrs = [(place, Attr::Str(c.str_or(place, "asymmetric")?.into()))];
    let inputs: [Option<Value>; 4] = [Some(x.into()), None, None, Some(wanted.into())];
    c.through(resize::resize, NEWEST_OPSET, &attrs, &inputs)
}
