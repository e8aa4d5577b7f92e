//! Movement, indexing and sorting.

use codegen::ir::ReduceOp;
use tensor::graph::ScatterMode;
use tensor::ops::movement::{PadMode, Slice};
use tensor::{Scalar, Tensor};

use super::{Call, CallError, Outcome};

fn pad(c: &Call<'_>) -> Result<Tensor, CallError> {
    let amounts: Vec<(isize, isize)> = c
        .case
        .spans("pads")?
        .iter()
        .map(|row| {
            (
                row.first().copied().flatten(),
                row.get(1).copied().flatten(),
            )
        })
        .map(|(before, after)| (before.unwrap_or(0), after.unwrap_or(0)))
        .collect();
    let mode = match c.case.text("mode")? {
        "constant" => PadMode::Constant(Scalar::Float(c.case.float("value")?)),
        "reflect" => PadMode::Reflect,
        "replicate" => PadMode::Replicate,
        "circular" => PadMode::Circular,
        other => return Err(c.word("mode of padding", other)),
    };
    Ok(c.input(0)?.pad(&amounts, mode)?)
}

fn combine(c: &Call<'_>) -> Result<ReduceOp, CallError> {
    match c.case.text("combine")? {
        "Add" => Ok(ReduceOp::Add),
        "Mul" => Ok(ReduceOp::Mul),
        "Max" => Ok(ReduceOp::Max),
        "Min" => Ok(ReduceOp::Min),
        other => Err(c.word("way to combine", other)),
    }
}

fn slices(c: &Call<'_>) -> Result<Vec<Slice>, CallError> {
    let at = |row: &[Option<isize>], i: usize| row.get(i).copied().flatten();
    Ok(c.case
        .spans("spans")?
        .iter()
        .map(|row| Slice {
            start: at(row, 0),
            stop: at(row, 1),
            step: at(row, 2).unwrap_or(1),
        })
        .collect())
}

pub(super) fn call(c: &Call<'_>) -> Outcome {
    let case = c.case;
    let x = match c.inputs.first() {
        Some(x) => x,
        None => return Ok(None),
    };
    let axis = || case.int("axis");
    let y = || c.input(1);
    let out = match case.op.as_str() {
        "reshape" => x.reshape(&case.sizes("shape")?),
        "view" => x.view(&case.ints("shape")?),
        "permute" => x.permute(&case.sizes("order")?),
        "transpose" => x.transpose(case.int("a")?, case.int("b")?),
        "t" => x.t(),
        "move_axis" => x.move_axis(case.int("from")?, case.int("to")?),
        "expand" => x.expand(&case.sizes("shape")?),
        "flip" => x.flip(&case.ints("axes")?),
        "reverse" => x.reverse(&case.sizes("axes")?),
        "shrink" => x.shrink(&case.sizes("lo")?, &case.sizes("shape")?),
        "pad_to" => {
            let bits = Scalar::Float(case.float("value")?).bits(x.dtype());
            x.pad_to(&case.sizes("lo")?, &case.sizes("shape")?, bits)
        }
        "pad" => Ok(pad(c)?),
        "narrow" => x.narrow(axis()?, case.size("start")?, case.size("len")?),
        "index" => x.index(axis()?, case.int("at")?),
        "slice" => x.slice(&slices(c)?),
        "slice_assign" => x.slice_assign(&case.sizes("lo")?, y()?),
        "windows" => x.windows(
            case.size("axis")?,
            case.size("size")?,
            case.size("stride")?,
            case.size("dilation")?,
        ),
        "squeeze" => x.squeeze(&case.ints("axes")?),
        "unsqueeze" => x.unsqueeze(axis()?),
        "flatten" => x.flatten(case.int("start")?, case.int("end")?),
        "unflatten" => x.unflatten(axis()?, &case.ints("sizes")?),
        "split" => return Ok(Some(x.split(&case.sizes("sizes")?, axis()?)?)),
        "chunk" => return Ok(Some(x.chunk(case.size("n")?, axis()?)?)),
        "stack" => Tensor::stack(&c.all(), axis()?),
        "cat" => Tensor::cat(&c.all(), axis()?),
        "repeat" => x.repeat(&case.sizes("times")?),
        "repeat_interleave" => x.repeat_interleave(case.size("n")?, axis()?),
        "roll" => x.roll(case.int("amount")?, axis()?),
        "unfold" => x.unfold(axis()?, case.size("size")?, case.size("step")?),
        "diag" => x.diag(),
        "diagonal" => x.diagonal(case.int("a")?, case.int("b")?),
        "meshgrid" => return Ok(Some(Tensor::meshgrid(&c.all())?)),
        "tril" => x.tril(case.int("k")? as i64),
        "triu" => x.triu(case.int("k")? as i64),
        "contiguous" => x.contiguous(),
        "detach" => x.detach(),
        "gather" => x.gather(axis()?, y()?),
        "gather_nd" => x.gather_nd(y()?, case.size("batch")?),
        "scatter" => x.scatter(axis()?, y()?, c.input(2)?, ScatterMode::Set),
        "index_add" => x.index_add(axis()?, y()?, c.input(2)?),
        "scatter_add" => x.scatter_add(axis()?, y()?, c.input(2)?),
        "scatter_reduce" => {
            let include = case.flag("include_self")?;
            x.scatter_reduce(axis()?, y()?, c.input(2)?, combine(c)?, include)
        }
        "scatter_mean" => x.scatter_mean(axis()?, y()?, c.input(2)?, case.flag("include_self")?),
        "scatter_nd" => {
            let mode = match case.text("combine")? {
                "Set" => ScatterMode::Set,
                _ => ScatterMode::Combine(combine(c)?),
            };
            x.scatter_nd(y()?, c.input(2)?, mode)
        }
        "index_select" => x.index_select(axis()?, y()?),
        "take" => x.take(y()?),
        "embedding" => x.embedding(y()?),
        "one_hot" => x.one_hot(case.size("classes")?, c.dtype()?),
        "ranks" => x.ranks(axis()?, case.flag("descending")?),
        "argsort" => x.argsort(axis()?, case.flag("descending")?),
        "searchsorted" => x.searchsorted(y()?, case.flag("right")?),
        "sort" => {
            let (values, positions) = x.sort(axis()?, case.flag("descending")?)?;
            return Ok(Some(vec![values, positions]));
        }
        "median" => {
            let (value, position) = x.median(axis()?, case.flag("keep")?)?;
            return Ok(Some(vec![value, position]));
        }
        "topk" => {
            let largest = case.flag("largest")?;
            let (values, positions) = x.topk(case.size("k")?, axis()?, largest)?;
            return Ok(Some(vec![values, positions]));
        }
        _ => return Ok(None),
    };
    Ok(Some(vec![out?]))
}
