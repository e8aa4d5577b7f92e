//! Reductions, scans, and what is made of them along axes.

use super::{Call, Outcome};

pub(super) fn call(c: &Call<'_>) -> Outcome {
    let case = c.case;
    let x = match c.inputs.first() {
        Some(x) => x,
        None => return Ok(None),
    };
    let axes = || case.ints("axes");
    let axis = || case.int("axis");
    let keep = || case.flag("keep");
    let out = match case.op.as_str() {
        "sum" => x.sum(&axes()?, keep()?),
        "sum_in" => x.sum_in(c.dtype()?, &axes()?, keep()?),
        "prod" => x.prod(&axes()?, keep()?),
        "max" => x.max(&axes()?, keep()?),
        "min" => x.min(&axes()?, keep()?),
        "nansum" => x.nansum(&axes()?, keep()?),
        "nanmean" => x.nanmean(&axes()?, keep()?),
        "mean" => x.mean(&axes()?, keep()?),
        "any" => x.any(&axes()?, keep()?),
        "all" => x.all(&axes()?, keep()?),
        "count_nonzero" => x.count_nonzero(&axes()?, keep()?),
        "logsumexp" => x.logsumexp(&axes()?, keep()?),
        "norm" => x.norm(case.float("p")?, &axes()?, keep()?),
        "var" => x.var(&axes()?, case.float("correction")?, keep()?),
        "std" => x.std(&axes()?, case.float("correction")?, keep()?),
        "var_mean" | "std_mean" => {
            let (axes, correction) = (axes()?, case.float("correction")?);
            let (a, b) = match case.op.as_str() {
                "var_mean" => x.var_mean(&axes, correction, keep()?)?,
                _ => x.std_mean(&axes, correction, keep()?)?,
            };
            return Ok(Some(vec![a, b]));
        }
        "normalize" => x.normalize(case.float("p")?, axis()?, case.float("eps")?),
        "softmax" => x.softmax(axis()?),
        "softmin" => x.softmin(axis()?),
        "log_softmax" => x.log_softmax(axis()?),
        "hardmax" => x.hardmax(axis()?),
        "argmax" => x.argmax(axis()?, keep()?),
        "argmin" => x.argmin(axis()?, keep()?),
        "cumsum" => x.cumsum(axis()?),
        "cumprod" => x.cumprod(axis()?),
        "cummax" => x.cummax(axis()?),
        "cummin" => x.cummin(axis()?),
        "logcumsumexp" => x.logcumsumexp(axis()?),
        _ => return Ok(None),
    };
    Ok(Some(vec![out?]))
}
