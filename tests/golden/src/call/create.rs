//! Tensors from numbers, and conversions between types.

use tensor::Tensor;

use super::{Call, Outcome};

pub(super) fn call(c: &Call<'_>) -> Outcome {
    let (case, engine) = (c.case, c.engine);
    let float = |name| case.float(name);
    let shape = || case.sizes("shape");
    let out = match case.op.as_str() {
        "cast" => c.input(0)?.cast(c.dtype()?),
        "bitcast" => c.input(0)?.bitcast(c.dtype()?),
        "full" => Tensor::full(engine, &shape()?, float("value")?, c.dtype()?),
        "zeros" => Tensor::zeros(engine, &shape()?, c.dtype()?),
        "ones" => Tensor::ones(engine, &shape()?, c.dtype()?),
        "arange" => Tensor::arange(
            engine,
            float("start")?,
            float("stop")?,
            float("step")?,
            c.dtype()?,
        ),
        "linspace" => Tensor::linspace(
            engine,
            float("start")?,
            float("stop")?,
            case.size("n")?,
            c.dtype()?,
        ),
        "eye" => Tensor::eye(engine, case.size("n")?, case.size("m")?, c.dtype()?),
        _ => return Ok(None),
    };
    Ok(Some(vec![out?]))
}
