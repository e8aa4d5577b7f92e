//! Optimizers: the first input is the parameter, the others are its gradients, step by step.

use tensor::Tensor;
use tensor::nn::optim::{Adam, AdamW, Lamb, Optimizer, Sgd};
use tensor::param::{Parameter, commit};

use super::{Call, CallError, Outcome};

fn make(c: &Call<'_>, parameter: &Parameter) -> Result<Option<Box<dyn Optimizer>>, CallError> {
    let float = |name| c.case.float(name);
    let all = vec![parameter.clone()];
    let (rate, decay) = match c.case.op.as_str() {
        "sgd" | "adam" | "adamw" | "lamb" => (float("lr")?, float("weight_decay")?),
        _ => return Ok(None),
    };
    if c.case.op == "sgd" {
        let (momentum, nesterov) = (float("momentum")?, c.case.flag("nesterov")?);
        return Ok(Some(Box::new(Sgd::new(
            all, rate, momentum, nesterov, decay,
        )?)));
    }
    let (betas, eps) = ((float("b1")?, float("b2")?), float("eps")?);
    Ok(Some(match c.case.op.as_str() {
        "adam" => Box::new(Adam::new(all, rate, betas, eps, decay)?),
        "adamw" => Box::new(AdamW::new(all, rate, betas, eps, decay)?),
        _ => Box::new(Lamb::new(all, rate, betas, eps, decay)?),
    }))
}

pub(super) fn call(c: &Call<'_>) -> Outcome {
    let Some((start, gradients)) = c.inputs.split_first() else {
        return Ok(None);
    };
    let parameter = Parameter::new(start.clone());
    let Some(mut optimizer) = make(c, &parameter)? else {
        return Ok(None);
    };
    let mut trace = Vec::new();
    for gradient in gradients {
        optimizer.step(std::slice::from_ref(gradient))?;
        commit(optimizer.state())?;
        // The next step writes into the same memory, so the value is copied out.
        let bytes = parameter.get().to_bytes()?;
        trace.push(Tensor::from_bytes(
            c.engine,
            bytes,
            start.shape(),
            start.dtype(),
        )?);
    }
    Ok(Some(trace))
}
