//! A model as plans for other machines: which inputs stay inputs, which are states, which are fixed.

use codegen::{Backend, DType};

use super::bind;
use super::elem::Elem;
use super::error::OnnxError;
use super::plans::{Output, Specialised};
use super::session::{Session, collected, signed};
use super::tracer::input_name;
use super::value::{Array, Value};
use crate::doubles;
use crate::graph::{Shape, Tensor};
use crate::io::Quoted;
use crate::jit::export::{Operands, Plan, Trace, Traced};

/// How an output becomes the next value of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carry {
    /// It takes its place.
    Replace,
    /// It comes behind the values that are there, of which the oldest go: a queue along this axis.
    Append(usize),
}

impl Carry {
    /// The next value of a state, of its old one and of an output.
    ///
    /// # Errors
    /// Shapes or types that do not fit.
    pub fn next(self, old: &Tensor, new: &Tensor) -> crate::Result<Tensor> {
        let next = match self {
            Carry::Replace => new.clone(),
            Carry::Append(axis) => appended(old, new, axis)?,
        };
        match next.shape() == old.shape() && next.dtype() == old.dtype() {
            true => Ok(next),
            false => Err(wrong(format!(
                "expected {:?} {}, found {:?} {}",
                old.shape(),
                old.dtype(),
                new.shape(),
                new.dtype()
            ))),
        }
    }
}

/// An input that is not given: a run finds there what the run before left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The input.
    pub input: String,
    /// The output that changes it.
    pub output: String,
    /// How.
    pub carry: Carry,
}

/// An input, output or state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortType {
    /// Its name.
    pub name: String,
    /// Its sizes.
    pub shape: Shape,
    /// Its type.
    pub dtype: DType,
}

/// What numbers a model is to be computed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Precision {
    /// Products read `f16`, except where positions are made of them.
    pub half: bool,
    /// Every target has `f64`. Without it, what is computed in `f64` for its digits alone is computed in `f32`.
    pub doubles: bool,
}

/// A model that was traced for one set of shapes; what depends on weights only is computed.
pub struct Exported {
    /// What each run is given.
    pub inputs: Vec<PortType>,
    /// What each run gives.
    pub outputs: Vec<PortType>,
    /// What a run leaves to the next one.
    pub states: Vec<PortType>,
    /// Inputs whose value is fixed, because shapes or control flow depend on it.
    pub fixed: Vec<Specialised>,
    traced: Traced,
}

impl Exported {
    /// What became of the operands of products, if they were to be `f16`.
    pub fn operands(&self) -> Option<Operands> {
        self.traced.operands()
    }

    /// Compiles it for a target, `threads` kernels at a time.
    ///
    /// # Errors
    /// The first kernel that the compiler refuses.
    pub fn compile(
        &self,
        backend: &Backend,
        options: &codegen::Options,
        threads: usize,
    ) -> crate::Result<Plan> {
        self.traced.compile(backend, options, threads)
    }
}

impl Session {
    /// Traces the model for inputs of these shapes. The session's engine computes what depends on weights only; it needs a
    /// device.
    ///
    /// # Errors
    /// As [`Session::run`]; a model that cannot be captured; inputs and outputs that are no tensors; states that do not
    /// fit.
    pub fn export<N: AsRef<str>, V: Into<Value>>(
        &self,
        inputs: impl IntoIterator<Item = (N, V)>,
        carried: &[Carried],
        precision: Precision,
    ) -> Result<Exported, OnnxError> {
        let (program, engine) = (self.program(), self.engine());
        let inputs = collected(inputs);
        let given = bind::inputs(program, engine, &mut self.hints(), inputs)?;
        let refused = |what: String| program.engine_error(crate::Error::Capture { what });
        let Some((signature, arrays)) = signed(&given) else {
            return Err(refused("strings are not supported in a bundle".into()));
        };
        let traced = || {
            let mut tracer = self.tracer()?;
            tracer.specialised(program, &signature, &arrays, |held, trace| {
                Trace::of(engine, held, trace)
            })
        };
        let (fixed, made) = match precision.doubles {
            true => traced()?,
            false => doubles::without(traced)?,
        };
        let (trace, outputs) = made
            .map_err(|why| refused(format!("the model depends on values of its inputs: {why}")))?;
        let open = (0..arrays.len()).filter(|i| !fixed.iter().any(|f| f.tensor == *i));
        let mut ports = Vec::new();
        for (i, tensor) in open.zip(&trace.inputs) {
            let name = input_name(program, &signature, i);
            if !matches!(arrays[i].elem, Elem::Plain(_)) {
                let what = format!(
                    "input {}: {} has no type in a bundle",
                    Quoted::new(&name),
                    arrays[i].elem
                );
                return Err(refused(what));
            }
            ports.push((name, tensor.clone()));
        }
        let names = program.graph.outputs.iter().map(|port| port.name.clone());
        let mut results = Vec::with_capacity(outputs.len());
        for (name, output) in names.zip(&outputs) {
            let value =
                result(output, &trace.results, engine).map_err(|e| program.engine_error(e))?;
            let value = value.ok_or_else(|| {
                refused(format!(
                    "output {}: only tensors are supported in a bundle",
                    Quoted::new(&name)
                ))
            })?;
            results.push((name, value));
        }
        let states = states(carried, &ports, &results);
        let states = states.map_err(|e| program.engine_error(e))?;
        let port = |(name, tensor): (String, &Tensor)| PortType {
            name,
            shape: tensor.shape().to_vec(),
            dtype: tensor.dtype(),
        };
        let is_state = |name: &str| carried.iter().any(|c| c.input == name);
        let own = ports.iter().filter(|(name, _)| !is_state(name));
        let exported_inputs = own.map(|(name, t)| port((name.clone(), t))).collect();
        let kept = carried.iter().zip(&states);
        let exported_states = kept.map(|(c, (t, _))| port((c.input.clone(), t))).collect();
        let exported_outputs = results
            .iter()
            .map(|(name, t)| port((name.clone(), t)))
            .collect();
        let values = results.into_iter().map(|(_, value)| value).collect();
        let traced = trace.finish(values, states, precision.half);
        Ok(Exported {
            inputs: exported_inputs,
            outputs: exported_outputs,
            states: exported_states,
            fixed,
            traced: traced.map_err(|e| program.engine_error(e))?,
        })
    }
}

/// The tensor of an output, on the engine of the trace.
fn result(
    output: &Output,
    results: &[Tensor],
    engine: &crate::Engine,
) -> crate::Result<Option<Tensor>> {
    match output {
        Output::Result(i, Elem::Plain(_)) => Ok(results.get(*i).cloned()),
        // What is known is a constant.
        Output::Known(Value::Tensor(Array {
            tensor,
            elem: Elem::Plain(_),
        })) => {
            let bytes = tensor.to_bytes()?;
            Tensor::from_bytes(engine, bytes, tensor.shape(), tensor.dtype()).map(Some)
        }
        _ => Ok(None),
    }
}

/// What stands for each state, with its new value.
fn states(
    carried: &[Carried],
    inputs: &[(String, Tensor)],
    outputs: &[(String, Tensor)],
) -> crate::Result<Vec<(Tensor, Tensor)>> {
    let find = |all: &[(String, Tensor)], kind: &str, name: &str| {
        let found = all.iter().find(|(n, _)| n == name);
        found.map(|(_, t)| t.clone()).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|(n, _)| n.as_str()).collect();
            wrong(format!(
                "expected an {kind} of {}, found {name}",
                names.join(", ")
            ))
        })
    };
    let mut states: Vec<(Tensor, Tensor)> = Vec::with_capacity(carried.len());
    for Carried {
        input,
        output,
        carry,
    } in carried
    {
        let (old, new) = (
            find(inputs, "input", input)?,
            find(outputs, "output", output)?,
        );
        if states.iter().any(|(other, _)| other.id() == old.id()) {
            return Err(wrong(format!("{input} is a state twice; name it once")));
        }
        let next = carry.next(&old, &new);
        let next = next.map_err(|e| wrong(format!("{input} of {output}: {e}")))?;
        states.push((old, next));
    }
    Ok(states)
}

fn wrong(what: String) -> crate::Error {
    crate::Error::Shape { op: "state", what }
}

/// A queue without its oldest rows, and with new ones behind the others.
fn appended(old: &Tensor, new: &Tensor, axis: usize) -> crate::Result<Tensor> {
    let Some(&len) = old.shape().get(axis) else {
        return Err(wrong(format!(
            "expected an axis of {:?}, found {axis}",
            old.shape()
        )));
    };
    let row = old.numel() / len.max(1);
    let rows = new.numel() / row.max(1);
    if rows == 0 || rows > len || new.numel() != rows * row {
        return Err(wrong(format!(
            "expected 1 to {len} rows of {row} elements, found {:?}",
            new.shape()
        )));
    }
    let mut shape: Vec<isize> = old.shape().iter().map(|&n| n as isize).collect();
    shape[axis] = rows as isize;
    let new = new.view(&shape)?;
    match rows == len {
        true => Ok(new),
        false => {
            let kept = old.narrow(axis as isize, rows, len - rows)?;
            Tensor::cat(&[&kept, &new], axis as isize)
        }
    }
}
