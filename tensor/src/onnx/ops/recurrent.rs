//! Recurrent layers, unrolled: one product with the input weights for all steps, then a step after
//! the other.

use codegen::DType;

use super::shape::join;
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[
    ("GRU", |c| layer(c, &GRU)),
    ("LSTM", |c| layer(c, &LSTM)),
    ("RNN", |c| layer(c, &RNN)),
];

/// One kind of layer.
struct Cell {
    /// Blocks of the weights.
    gates: usize,
    /// Activations that the format has unless the node names others.
    activations: &'static [&'static str],
    /// Whether there is a second state, the cell.
    cell: bool,
    step: fn(&Weights, &Tensor, &State) -> crate::Result<State>,
}

const RNN: Cell = Cell {
    gates: 1,
    activations: &["Tanh"],
    cell: false,
    step: rnn,
};
const GRU: Cell = Cell {
    gates: 3,
    activations: &["Sigmoid", "Tanh"],
    cell: false,
    step: gru,
};
const LSTM: Cell = Cell {
    gates: 4,
    activations: &["Sigmoid", "Tanh", "Tanh"],
    cell: true,
    step: lstm,
};

/// Steps after which an uncaptured run computes the state.
const SETTLED: usize = 16;

/// What one direction has besides its input.
struct Weights {
    hidden: usize,
    /// `[hidden, gates * hidden]`.
    recurrent: Tensor,
    /// `[gates * hidden]`, of the recurrent product.
    bias: Tensor,
    /// Of the input, output and forget gates, each `[hidden]`.
    peepholes: Option<[Tensor; 3]>,
    activations: Vec<Activation>,
    clip: Option<f64>,
    input_forget: bool,
    linear_before_reset: bool,
}

impl Weights {
    /// An activation of a clipped value.
    fn activate(&self, which: usize, x: &Tensor) -> crate::Result<Tensor> {
        let x = match self.clip {
            Some(limit) => x.clip(-limit, limit)?,
            None => x.clone(),
        };
        match self.activations.get(which) {
            Some(activation) => activation.of(&x),
            None => Ok(x),
        }
    }

    /// A gate's part of a product.
    fn gate(&self, x: &Tensor, which: usize) -> crate::Result<Tensor> {
        x.narrow(-1, which * self.hidden, self.hidden)
    }

    /// The product of the hidden state with the weights of gates `from..from + count`.
    fn product(&self, h: &Tensor, from: usize, count: usize) -> crate::Result<Tensor> {
        let (start, len) = (from * self.hidden, count * self.hidden);
        h.matmul(&self.recurrent.narrow(1, start, len)?)?
            .add(&self.bias.narrow(0, start, len)?)
    }
}

/// Hidden state, and cell where there is one; `[batch, hidden]`.
#[derive(Clone)]
struct State(Vec<Tensor>);

fn rnn(w: &Weights, x: &Tensor, state: &State) -> crate::Result<State> {
    let h = &state.0[0];
    Ok(State(vec![w.activate(0, &x.add(&w.product(h, 0, 1)?)?)?]))
}

fn gru(w: &Weights, x: &Tensor, state: &State) -> crate::Result<State> {
    let h = &state.0[0];
    let gates = w.product(h, 0, 2)?;
    let gate = |i: usize| w.activate(0, &w.gate(x, i)?.add(&w.gate(&gates, i)?)?);
    let (update, reset) = (gate(0)?, gate(1)?);
    let hidden = match w.linear_before_reset {
        true => reset.mul(&w.product(h, 2, 1)?)?,
        false => w.product(&reset.mul(h)?, 2, 1)?,
    };
    let new = w.activate(1, &w.gate(x, 2)?.add(&hidden)?)?;
    let kept = update.mul(h)?;
    Ok(State(vec![update.neg()?.add(1.0)?.mul(&new)?.add(&kept)?]))
}

fn lstm(w: &Weights, x: &Tensor, state: &State) -> crate::Result<State> {
    let (h, cell) = (&state.0[0], &state.0[1]);
    let all = x.add(&w.product(h, 0, 4)?)?;
    // Blocks are in the order input, output, forget, cell; peepholes too.
    let gate = |i: usize, cell: &Tensor| {
        let x = w.gate(&all, i)?;
        match &w.peepholes {
            Some(p) => w.activate(0, &x.add(&p[i].mul(cell)?)?),
            None => w.activate(0, &x),
        }
    };
    let input = gate(0, cell)?;
    let forget = match w.input_forget {
        true => input.neg()?.add(1.0)?,
        false => gate(2, cell)?,
    };
    let new = w.activate(1, &w.gate(&all, 3)?)?;
    let cell = forget.mul(cell)?.add(&input.mul(&new)?)?;
    let output = gate(1, &cell)?;
    Ok(State(vec![output.mul(&w.activate(2, &cell)?)?, cell]))
}

/// An activation with its two numbers.
#[derive(Clone, Copy)]
pub(super) struct Activation {
    kind: &'static str,
    alpha: f64,
    beta: f64,
}

/// Names, and the defaults of the numbers that an activation takes.
const ACTIVATIONS: &[(&str, Option<f64>, Option<f64>)] = &[
    ("Affine", Some(1.0), Some(0.0)),
    ("Elu", Some(1.0), None),
    ("HardSigmoid", Some(0.2), Some(0.5)),
    ("LeakyRelu", Some(0.01), None),
    ("Relu", None, None),
    ("ScaledTanh", Some(1.0), Some(1.0)),
    ("Sigmoid", None, None),
    ("Softplus", None, None),
    ("Softsign", None, None),
    ("Tanh", None, None),
    ("ThresholdedRelu", Some(1.0), None),
];

impl Activation {
    pub(super) fn of(&self, x: &Tensor) -> crate::Result<Tensor> {
        let (alpha, beta) = (self.alpha, self.beta);
        match self.kind {
            "Affine" => x.mul(alpha)?.add(beta),
            "Elu" => x.elu(alpha),
            "HardSigmoid" => x.hardsigmoid(alpha, beta),
            "LeakyRelu" => x.leaky_relu(alpha),
            "Relu" => x.maximum(0),
            "ScaledTanh" => x.mul(beta)?.tanh()?.mul(alpha),
            "Sigmoid" => x.sigmoid(),
            "Softplus" => x.softplus(1.0),
            "Softsign" => x.softsign(),
            "ThresholdedRelu" => x.thresholded_relu(alpha),
            _ => x.tanh(),
        }
    }
}

/// The activations of all directions. Each takes its numbers from the lists, in order, if it has
/// such a number.
pub(super) fn activations(
    c: &Call,
    defaults: &[&str],
    directions: usize,
) -> Result<Vec<Activation>> {
    let count = defaults.len() * directions;
    let names: Vec<String> = match c.attr_strs("activations")? {
        Some(names) if names.len() >= count => names[..count].to_vec(),
        Some(names) => {
            return wrong(format!(
                "expected {count} activations, found {}",
                names.len()
            ));
        }
        None => defaults
            .repeat(directions)
            .iter()
            .map(|s| s.to_string())
            .collect(),
    };
    let alphas = c.attr_floats("activation_alpha")?.unwrap_or_default();
    let betas = c.attr_floats("activation_beta")?.unwrap_or_default();
    let (mut alphas, mut betas) = (alphas.into_iter(), betas.into_iter());
    let mut found = Vec::with_capacity(count);
    for name in &names {
        let row = ACTIVATIONS
            .iter()
            .find(|row| row.0.eq_ignore_ascii_case(name));
        let Some(&(kind, alpha, beta)) = row else {
            return unsupported(format!(
                "{} with activation {}",
                c.node.op,
                crate::io::Quoted::new(name)
            ));
        };
        let next = |default: Option<f64>, list: &mut std::vec::IntoIter<f64>| match default {
            Some(default) => list.next().unwrap_or(default),
            None => 0.0,
        };
        let (alpha, beta) = (next(alpha, &mut alphas), next(beta, &mut betas));
        found.push(Activation { kind, alpha, beta });
    }
    Ok(found)
}

fn shaped(what: &str, x: &Tensor, shape: &[usize]) -> Result<()> {
    match x.shape() == shape {
        true => Ok(()),
        false => wrong(format!("expected {what} {shape:?}, found {:?}", x.shape())),
    }
}

fn layer(c: &mut Call, kind: &Cell) -> Result<Vec<Value>> {
    let reverse: &[bool] = match c.str_or("direction", "forward")? {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        other => {
            let known = ["forward", "reverse", "bidirectional"];
            return c.bad_word("direction", &known, other);
        }
    };
    let batch_first = c.int_or("layout", 0)? != 0;
    let (mut x, w, r) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    if x.rank() != 3 || w.rank() != 3 || r.rank() != 3 {
        return wrong(format!(
            "expected input and weights of rank 3, found {:?}, {:?} and {:?}",
            x.shape(),
            w.shape(),
            r.shape()
        ));
    }
    if batch_first {
        x = x.permute(&[1, 0, 2])?;
    }
    let (steps, batch, width) = (x.shape()[0], x.shape()[1], x.shape()[2]);
    let (hidden, directions) = (r.shape()[2], reverse.len());
    let rows = kind.gates.saturating_mul(hidden);
    shaped("weights W", &w, &[directions, rows, width])?;
    shaped("weights R", &r, &[directions, rows, hidden])?;
    if let Some(said) = c.attr_int("hidden_size")?
        && usize::try_from(said) != Ok(hidden)
    {
        return wrong(format!("expected hidden_size {hidden}, found {said}"));
    }
    let bias = c.optional(3)?;
    if let Some(bias) = &bias {
        shaped("bias B", bias, &[directions, 2 * rows])?;
    }
    let lens = lengths(c, steps, batch)?;
    // Initial states, `[directions, batch, hidden]`.
    let mut states = Vec::new();
    for i in 5..6 + usize::from(kind.cell) {
        states.push(match c.optional(i)? {
            Some(state) if batch_first => state.permute(&[1, 0, 2][..state.rank().min(3)])?,
            Some(state) => state,
            None => Tensor::zeros(c.engine(), &[directions, batch, hidden], x.dtype())?,
        });
        if let Some(state) = states.last() {
            shaped("an initial state", state, &[directions, batch, hidden])?;
        }
    }
    let peepholes = match kind.cell {
        true => c.optional(7)?,
        false => None,
    };
    if let Some(p) = &peepholes {
        shaped("peepholes", p, &[directions, 3 * hidden])?;
    }
    let activations = activations(c, kind.activations, directions)?;
    let clip = c.attr_float("clip")?.filter(|&limit| limit > 0.0);
    let (mut all, mut last) = (Vec::new(), vec![Vec::new(); states.len()]);
    for (d, &reverse) in reverse.iter().enumerate() {
        let at = d as isize;
        let (input_bias, bias) = match &bias {
            Some(bias) => {
                let bias = bias.index(0, at)?;
                (Some(bias.narrow(0, 0, rows)?), bias.narrow(0, rows, rows)?)
            }
            None => (None, Tensor::zeros(x.engine(), &[rows], x.dtype())?),
        };
        let n = kind.activations.len();
        let weights = Weights {
            hidden,
            recurrent: r.index(0, at)?.t()?,
            bias,
            peepholes: match &peepholes {
                Some(p) => {
                    let p = p.index(0, at)?;
                    let part = |i: usize| p.narrow(0, i * hidden, hidden);
                    Some([part(0)?, part(1)?, part(2)?])
                }
                None => None,
            },
            activations: activations[d * n..][..n].to_vec(),
            clip,
            input_forget: c.int_or("input_forget", 0)? != 0,
            linear_before_reset: c.int_or("linear_before_reset", 0)? != 0,
        };
        let inputs = x.matmul(&w.index(0, at)?.t()?)?;
        let inputs = match &input_bias {
            Some(bias) => inputs.add(bias)?,
            None => inputs,
        };
        let start = states.iter().map(|s| s.index(0, at));
        let mut state = State(start.collect::<crate::Result<_>>()?);
        let inputs = inputs.contiguous()?;
        let outputs = run(c, kind, &weights, &inputs, &mut state, reverse, &lens)?;
        all.push(outputs);
        for (list, state) in last.iter_mut().zip(state.0) {
            list.push(state);
        }
    }
    // [steps, directions, batch, hidden]
    let mut y = join(&all, 1, true)?;
    if batch_first {
        y = y.permute(&[2, 0, 1, 3])?;
    }
    let mut outputs: Vec<Value> = vec![y.into()];
    for list in &last {
        let state = join(list, usize::from(batch_first), true)?;
        outputs.push(state.into());
    }
    Ok(outputs)
}

/// The length of each sequence, `[batch, 1]`, unless all are whole.
pub(super) fn lengths(c: &mut Call, steps: usize, batch: usize) -> Result<Option<Tensor>> {
    if !c.has(4) {
        return Ok(None);
    }
    let Value::Tensor(given) = c.value(4)?.clone() else {
        return wrong("expected numbers as sequence_lens");
    };
    shaped("sequence_lens", &given.tensor, &[batch])?;
    if c.is_known(&given.tensor) {
        let lens = c.read_ints(&given.tensor)?;
        if lens.iter().any(|&n| n < 0 || n > steps as i64) {
            return wrong(format!(
                "expected sequence_lens in 0..={steps}, found {lens:?}"
            ));
        }
        if lens.iter().all(|&n| n == steps as i64) {
            return Ok(None);
        }
    }
    let lens = c.tensor(4)?.cast(DType::I64)?;
    Ok(Some(lens.reshape(&[batch, 1])?))
}

/// Goes through the steps of one direction; gives the hidden states, `[steps, batch, hidden]`.
///
/// A sequence that is shorter keeps its state while the step is behind its end: going backwards, it
/// starts at its own last element.
fn run(
    c: &mut Call,
    kind: &Cell,
    weights: &Weights,
    inputs: &Tensor,
    state: &mut State,
    reverse: bool,
    lens: &Option<Tensor>,
) -> Result<Tensor> {
    let steps = inputs.shape()[0];
    let mut outputs = Vec::new();
    for i in 0..steps {
        c.eval.may_iterate(i as i64)?;
        let at = if reverse { steps - 1 - i } else { i };
        // Where the step is comes from memory, so that all steps share their kernels.
        let index = Tensor::from_slice(inputs.engine(), &[at as i64], &[])?;
        let x = inputs.index_select(0, &index)?;
        let mut next = (kind.step)(weights, &x, state)?;
        let mut output = next.0[0].clone();
        if let Some(lens) = lens {
            let inside = lens.gt(&index)?;
            for (new, old) in next.0.iter_mut().zip(&state.0) {
                *new = inside.where_(&*new, old)?;
            }
            output = inside.where_(&output, &output.zeros_like()?)?;
        }
        *state = next;
        outputs.push(output);
        if i % SETTLED == SETTLED - 1 {
            let now = state.0.iter().chain(outputs.iter().rev().take(SETTLED));
            let now: Vec<Value> = now.cloned().map(Value::from).collect();
            c.eval.settle(&now)?;
        }
    }
    if reverse {
        outputs.reverse();
    }
    match outputs.is_empty() {
        false => join(&outputs, 0, true),
        true => {
            let shape = [&[0], state.0[0].shape()].concat();
            Ok(Tensor::zeros(inputs.engine(), &shape, inputs.dtype())?)
        }
    }
}
