//! Linear algebra, convolution, pooling, resizing, normalisation, attention.

use tensor::Tensor;
use tensor::ops::attention::Attention;
use tensor::ops::conv::ConvParams;
use tensor::ops::image::Interpolation;

use super::{Call, CallError, Outcome};

fn sliding(c: &Call<'_>, dilated: bool) -> Result<ConvParams, CallError> {
    let padding = c.case.sizes("padding")?;
    Ok(ConvParams {
        stride: c.case.sizes("stride")?,
        padding: padding.into_iter().map(|p| (p, p)).collect(),
        dilation: if dilated {
            c.case.sizes("dilation")?
        } else {
            Vec::new()
        },
    })
}

fn pool(c: &Call<'_>, x: &Tensor) -> Outcome {
    let kernel = c.case.sizes("kernel")?;
    let (sliding, ceil) = (sliding(c, true)?, c.case.flag("ceil")?);
    let out = match c.case.op.as_str() {
        "max_pool" => x.max_pool(&kernel, &sliding, ceil)?,
        "avg_pool" => x.avg_pool(&kernel, &sliding, ceil, c.case.flag("count_padding")?)?,
        "lp_pool" => x.lp_pool(c.case.float("p")?, &kernel, &sliding, ceil)?,
        "max_pool_indices" => {
            let (values, indices) = x.max_pool_indices(&kernel, &sliding, ceil)?;
            return Ok(Some(vec![values, indices]));
        }
        _ => return Ok(None),
    };
    Ok(Some(vec![out]))
}

pub(super) fn call(c: &Call<'_>) -> Outcome {
    let case = c.case;
    let x = match c.inputs.first() {
        Some(x) => x,
        None => return Ok(None),
    };
    let y = || c.input(1);
    let maybe = |i: usize| c.inputs.get(i);
    let eps = || case.float("eps");
    let out = match case.op.as_str() {
        "matmul" => x.matmul(y()?),
        "solve" => x.solve(y()?),
        "inv" => x.inv(),
        "cholesky" => x.cholesky(),
        "solve_triangular" => x.solve_triangular(y()?, case.flag("upper")?),
        "matmul_in" => x.matmul_in(y()?, c.dtype()?),
        "dot" => x.dot(y()?),
        "outer" => x.outer(y()?),
        "linear" => x.linear(y()?, maybe(2)),
        "einsum" => Tensor::einsum(case.text("equation")?, &c.all()),
        "conv" => x.conv(y()?, maybe(2), &sliding(c, true)?, case.size("groups")?),
        "conv_transpose" => x.conv_transpose(
            y()?,
            maybe(2),
            &sliding(c, true)?,
            &case.sizes("output_padding")?,
            case.size("groups")?,
        ),
        "max_unpool" => x.max_unpool(y()?, &case.sizes("size")?),
        "adaptive_avg_pool" => x.adaptive_avg_pool(&case.sizes("sizes")?),
        "global_avg_pool" => x.global_avg_pool(),
        "global_max_pool" => x.global_max_pool(),
        "standardize" => x.standardize(&case.ints("axes")?, eps()?),
        "layer_norm" => x.layer_norm(case.size("axes")?, maybe(1), maybe(2), eps()?),
        "rms_norm" => x.rms_norm(maybe(1), eps()?),
        "group_norm" => x.group_norm(case.size("groups")?, maybe(1), maybe(2), eps()?),
        "instance_norm" => x.instance_norm(maybe(1), maybe(2), eps()?),
        "batch_norm" => x.batch_norm(y()?, c.input(2)?, maybe(3), maybe(4), eps()?),
        "local_response_norm" => x.local_response_norm(
            case.size("size")?,
            case.float("alpha")?,
            case.float("beta")?,
            case.float("k")?,
        ),
        "depth_to_space" => x.depth_to_space(case.size("r")?, case.flag("block_first")?),
        "space_to_depth" => x.space_to_depth(case.size("r")?, case.flag("block_first")?),
        "interpolate" => {
            let mode = match case.text("mode")? {
                "nearest" => Interpolation::Nearest,
                "nearest_exact" => Interpolation::NearestExact,
                "linear" => Interpolation::Linear {
                    align_corners: case.flag("align_corners")?,
                },
                other => return Err(c.word("way to resize", other)),
            };
            x.interpolate(&case.sizes("size")?, mode)
        }
        "attention" => {
            let options = Attention {
                mask: maybe(3).cloned(),
                causal: case.flag("causal")?,
                scale: case.maybe_float("scale")?,
                softcap: case.maybe_float("softcap")?,
            };
            x.attention(y()?, c.input(2)?, &options)
        }
        "rotary" => x.rotary(y()?, c.input(2)?, case.flag("interleaved")?),
        "rotary_angles" => {
            let (cos, sin) = x.rotary_angles(case.size("width")?, case.float("base")?)?;
            return Ok(Some(vec![cos, sin]));
        }
        "max_pool" | "max_pool_indices" | "avg_pool" | "lp_pool" => return pool(c, x),
        _ => return Ok(None),
    };
    Ok(Some(vec![out?]))
}
