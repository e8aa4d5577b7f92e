//! Recurrent layers: one product with the input weights for all steps and directions, then a loop
//! whose step is traced once, over both directions side by side.

use codegen::DType;

use super::shape::join;
use crate::graph::Tensor;
use crate::loops::{Order, Recurrence, recur};
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

/// What the gates of some directions have besides what is summed for them.
pub(super) struct Gates {
    pub(super) hidden: usize,
    /// Of the input, output and forget gates, each of a shape that fits the cell's.
    pub(super) peepholes: Option<[Tensor; 3]>,
    pub(super) activations: Vec<Activation>,
    pub(super) clip: Option<f64>,
    pub(super) input_forget: bool,
}

impl Gates {
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

    /// A gate's part of a sum.
    fn part(&self, x: &Tensor, which: usize) -> crate::Result<Tensor> {
        x.narrow(-1, which * self.hidden, self.hidden)
    }

    /// A step of an LSTM: the output gate and the new cell; `all` is the sum for all gates.
    pub(super) fn lstm(&self, all: &Tensor, cell: &Tensor) -> crate::Result<[Tensor; 2]> {
        // Blocks are in the order input, output, forget, cell; peepholes too.
        let gate = |i: usize, cell: &Tensor| {
            let x = self.part(all, i)?;
            match &self.peepholes {
                Some(p) => self.activate(0, &x.add(&p[i].mul(cell)?)?),
                None => self.activate(0, &x),
            }
        };
        let input = gate(0, cell)?;
        let forget = match self.input_forget {
            true => input.neg()?.add(1.0)?,
            false => gate(2, cell)?,
        };
        let new = self.activate(1, &self.part(all, 3)?)?;
        let cell = forget.mul(cell)?.add(&input.mul(&new)?)?;
        Ok([gate(1, &cell)?, cell])
    }
}

/// What some directions that run side by side have besides their inputs.
struct Weights {
    gates: Gates,
    /// `[directions, hidden, gates * hidden]`.
    recurrent: Tensor,
    /// `[directions, 1, gates * hidden]`, of the recurrent product, if it is not in the inputs.
    bias: Option<Tensor>,
    linear_before_reset: bool,
}

impl Weights {
    /// The product of the hidden state with the weights of gates `from..from + count`.
    fn product(&self, h: &Tensor, from: usize, count: usize) -> crate::Result<Tensor> {
        let (start, len) = (from * self.gates.hidden, count * self.gates.hidden);
        let product = h.matmul(&self.recurrent.narrow(2, start, len)?)?;
        match &self.bias {
            Some(bias) => product.add(&bias.narrow(2, start, len)?),
            None => Ok(product),
        }
    }
}

/// Hidden state, and cell where there is one; `[directions, batch, hidden]`.
#[derive(Clone)]
struct State(Vec<Tensor>);

fn rnn(w: &Weights, x: &Tensor, state: &State) -> crate::Result<State> {
    let h = &state.0[0];
    let sum = x.add(&w.product(h, 0, 1)?)?;
    Ok(State(vec![w.gates.activate(0, &sum)?]))
}

fn gru(w: &Weights, x: &Tensor, state: &State) -> crate::Result<State> {
    let (h, of) = (&state.0[0], &w.gates);
    let gates = w.product(h, 0, 2)?;
    let gate = |i: usize| of.activate(0, &of.part(x, i)?.add(&of.part(&gates, i)?)?);
    let (update, reset) = (gate(0)?, gate(1)?);
    let hidden = match w.linear_before_reset {
        true => reset.mul(&w.product(h, 2, 1)?)?,
        false => w.product(&reset.mul(h)?, 2, 1)?,
    };
    let new = of.activate(1, &of.part(x, 2)?.add(&hidden)?)?;
    let kept = update.mul(h)?;
    Ok(State(vec![update.neg()?.add(1.0)?.mul(&new)?.add(&kept)?]))
}

fn lstm(w: &Weights, x: &Tensor, state: &State) -> crate::Result<State> {
    let (h, cell) = (&state.0[0], &state.0[1]);
    let [output, cell] = w.gates.lstm(&x.add(&w.product(h, 0, 4)?)?, cell)?;
    let h = output.mul(&w.gates.activate(2, &cell)?)?;
    Ok(State(vec![h, cell]))
}

/// An activation with its two numbers.
#[derive(Clone, Copy, PartialEq)]
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

/// Whether each direction goes backwards.
pub(super) fn directions(c: &Call) -> Result<&'static [bool]> {
    match c.str_or("direction", "forward")? {
        "forward" => Ok(&[false]),
        "reverse" => Ok(&[true]),
        "bidirectional" => Ok(&[false, true]),
        other => c.bad_word("direction", &["forward", "reverse", "bidirectional"], other),
    }
}

fn layer(c: &mut Call, kind: &Cell) -> Result<Vec<Value>> {
    let reverse = directions(c)?;
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
    let layer = Layer {
        kind,
        x,
        w,
        r,
        bias,
        peepholes,
        lens,
        states,
        activations,
        clip: c.attr_float("clip")?.filter(|&limit| limit > 0.0),
        input_forget: c.int_or("input_forget", 0)? != 0,
        linear_before_reset: c.int_or("linear_before_reset", 0)? != 0,
    };
    let (mut all, mut last) = (Vec::new(), vec![Vec::new(); layer.states.len()]);
    for (first, reverse) in layer.together(reverse) {
        let (y, states) = layer.run(first, reverse)?;
        all.push(y);
        for (list, state) in last.iter_mut().zip(states) {
            list.push(state);
        }
    }
    // [steps, directions, batch, hidden]
    let mut y = join(&all, 1, false)?;
    if batch_first {
        y = y.permute(&[2, 0, 1, 3])?;
    }
    let mut outputs: Vec<Value> = vec![y.into()];
    for list in &last {
        let state = join(list, 0, false)?;
        let state = match batch_first {
            true => state.permute(&[1, 0, 2])?,
            false => state,
        };
        outputs.push(state.into());
    }
    Ok(outputs)
}

/// A layer with all of its directions: shapes are those of the format, without `layout`.
struct Layer<'a> {
    kind: &'a Cell,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Option<Tensor>,
    peepholes: Option<Tensor>,
    lens: Option<Tensor>,
    states: Vec<Tensor>,
    activations: Vec<Activation>,
    clip: Option<f64>,
    input_forget: bool,
    linear_before_reset: bool,
}

impl Layer<'_> {
    /// Directions that run side by side, each list with the number of its first: all, unless their
    /// activations differ.
    fn together<'r>(&self, reverse: &'r [bool]) -> Vec<(usize, &'r [bool])> {
        let each = self.activations.chunks(self.kind.activations.len());
        let same = each.collect::<Vec<_>>().windows(2).all(|p| p[0] == p[1]);
        let size = if same { reverse.len() } else { 1 };
        let lists = reverse.chunks(size).enumerate();
        lists.map(|(i, list)| (i * size, list)).collect()
    }

    /// Directions from `first` on: hidden states `[steps, directions, batch, hidden]`, and the last
    /// states `[directions, batch, hidden]`.
    fn run(&self, first: usize, reverse: &[bool]) -> crate::Result<(Tensor, Vec<Tensor>)> {
        let count = reverse.len();
        let of = |t: &Tensor| t.narrow(0, first, count);
        let rows = self.w.shape()[1];
        let hidden = self.r.shape()[2];
        let biases = match &self.bias {
            Some(bias) => {
                let bias = of(bias)?.unsqueeze(1)?;
                Some((bias.narrow(2, 0, rows)?, bias.narrow(2, rows, rows)?))
            }
            None => None,
        };
        // Inside of the loop only where it is multiplied there.
        let (outside, inside) = match biases {
            Some((input, own)) if self.linear_before_reset => (Some(input), Some(own)),
            Some((input, own)) => (Some(input.add(&own)?), None),
            None => (None, None),
        };
        let n = self.kind.activations.len();
        let weights = Weights {
            gates: Gates {
                hidden,
                peepholes: match &self.peepholes {
                    Some(p) => {
                        let p = of(p)?.unsqueeze(1)?;
                        let part = |i: usize| p.narrow(2, i * hidden, hidden);
                        Some([part(0)?, part(1)?, part(2)?])
                    }
                    None => None,
                },
                activations: self.activations[first * n..][..n].to_vec(),
                clip: self.clip,
                input_forget: self.input_forget,
            },
            recurrent: of(&self.r)?.transpose(1, 2)?,
            bias: inside,
            linear_before_reset: self.linear_before_reset,
        };
        let inputs = self.inputs(&of(&self.w)?, outside.as_ref(), reverse)?;
        let start: Vec<Tensor> = self.states.iter().map(of).collect::<crate::Result<_>>()?;
        let made = steps(self.kind, &weights, &start, &inputs, reverse, &self.lens)?;
        let y = match made.outputs.first() {
            Some(masked) => masked,
            None => &made.states[0],
        };
        Ok((turned(y, reverse)?, made.last))
    }

    /// What the inputs add to the gates, in the order of the steps: `[steps, directions, batch, rows]`.
    fn inputs(&self, w: &Tensor, bias: Option<&Tensor>, reverse: &[bool]) -> crate::Result<Tensor> {
        let (steps, batch, width) = (self.x.shape()[0], self.x.shape()[1], self.x.shape()[2]);
        let (count, rows) = (w.shape()[0], w.shape()[1]);
        let x = self.x.reshape(&[steps * batch, width])?;
        let all = x.matmul(&w.reshape(&[count * rows, width])?.t()?)?;
        let all = all.reshape(&[steps, batch, count, rows])?;
        let all = all.permute(&[0, 2, 1, 3])?;
        let all = match bias {
            Some(bias) => all.add(bias)?,
            None => all,
        };
        turned(&all, reverse)
    }
}

/// `[steps, directions, ..]` between the order of the rows and that of the steps. A direction alone
/// needs no turning: its loop runs over the rows as they are.
fn turned(x: &Tensor, reverse: &[bool]) -> crate::Result<Tensor> {
    if reverse.len() == 1 {
        return Ok(x.clone());
    }
    let parts = reverse.iter().enumerate().map(|(d, &reverse)| {
        let part = x.narrow(1, d, 1)?;
        match reverse {
            true => part.flip(&[0]),
            false => Ok(part),
        }
    });
    let parts: Vec<Tensor> = parts.collect::<crate::Result<_>>()?;
    Tensor::cat(&parts.iter().collect::<Vec<_>>(), 1)
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

/// Goes through the steps. With lengths, the outputs are the hidden states, 0 behind the end of a
/// sequence.
///
/// A sequence that is shorter keeps its state while the step is behind its end: going backwards, it
/// starts at its own last element.
fn steps(
    kind: &Cell,
    weights: &Weights,
    start: &[Tensor],
    inputs: &Tensor,
    reverse: &[bool],
    lens: &Option<Tensor>,
) -> crate::Result<Recurrence> {
    let count = inputs.shape()[0];
    let order = match reverse {
        [true] => Order::Backward,
        _ => Order::Forward,
    };
    let mut rows = vec![inputs.clone()];
    if lens.is_some() {
        let position = Tensor::iota(inputs.engine(), count, DType::I64)?;
        let position = position.reshape(&[count, 1, 1, 1])?;
        let position = position.expand(&[count, reverse.len(), 1, 1])?;
        rows.push(turned(&position, reverse)?);
    }
    let start: Vec<&Tensor> = start.iter().collect();
    let rows: Vec<&Tensor> = rows.iter().collect();
    recur(count, order, &start, &rows, |state, row| {
        let mut next = (kind.step)(weights, &row[0], &State(state.to_vec()))?.0;
        let mut outputs = Vec::new();
        if let Some(lens) = lens {
            let inside = lens.gt(&row[1])?;
            outputs.push(inside.where_(&next[0], &next[0].zeros_like()?)?);
            for (new, old) in next.iter_mut().zip(state) {
                *new = inside.where_(&*new, old)?;
            }
        }
        Ok((next, outputs))
    })
}
