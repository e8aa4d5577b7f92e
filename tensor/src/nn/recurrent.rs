//! Recurrent layers, as loops with one body: [`Gru`] and [`Lstm`].
//!
//! Weights have PyTorch's names, layout and order of gates, so its checkpoints load: `weight_ih_l0` is
//! `[gates * hidden, inputs]`, `weight_hh_l0` `[gates * hidden, hidden]`, and so on for each layer, with `_reverse` for
//! the way back. There is no dropout between layers: stack layers, with [`super::Dropout`] between them.

use codegen::DType;

use super::{Module, Parameter, init};
use crate::error::{Error, Result};
use crate::graph::Tensor;
use crate::loops::{Order, recur};
use crate::ops::random::Rng;
use crate::ops::shape_error;

/// The configuration of a recurrent layer.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    /// Size of the last axis of the input.
    pub inputs: usize,
    /// Size of a state.
    pub hidden: usize,
    /// Number of layers; each takes the outputs of the previous one.
    pub layers: usize,
    /// Whether the gates have biases.
    pub bias: bool,
    /// `[batch, steps, inputs]` instead of `[steps, batch, inputs]`, and so for the output; states stay
    /// `[layers, batch, hidden]`.
    pub batch_first: bool,
    /// Whether each layer goes over the steps backwards as well. Its output is then `2 * hidden` wide.
    pub bidirectional: bool,
}

impl Stack {
    /// One layer with biases, over `[steps, batch, inputs]`.
    pub fn new(inputs: usize, hidden: usize) -> Stack {
        Stack {
            inputs,
            hidden,
            layers: 1,
            bias: true,
            batch_first: false,
            bidirectional: false,
        }
    }

    fn ways(&self) -> usize {
        1 + usize::from(self.bidirectional)
    }
}

/// The weights of a layer in one direction.
#[derive(Clone, Debug)]
struct Cell {
    input: Parameter,
    state: Parameter,
    biases: Option<[Parameter; 2]>,
}

/// All cells, those of a layer beside each other: forward, then backward.
#[derive(Clone, Debug)]
struct Cells {
    op: &'static str,
    of: Stack,
    all: Vec<Cell>,
}

impl Cells {
    fn new(
        op: &'static str,
        gates: usize,
        rng: &mut Rng,
        of: Stack,
        dtype: DType,
    ) -> Result<Cells> {
        if of.hidden == 0 || of.layers == 0 {
            return shape_error(op, format!("{of:?}: expected a hidden size and layers"));
        }
        let bound = 1.0 / (of.hidden as f64).sqrt();
        let rows = gates * of.hidden;
        let mut cell = |shape: &[usize]| {
            let first = init::symmetric(rng, shape, bound, dtype)?;
            Ok::<_, Error>(Parameter::new(first))
        };
        let mut all = Vec::new();
        for layer in 0..of.layers {
            let inputs = match layer {
                0 => of.inputs,
                _ => of.ways() * of.hidden,
            };
            for _ in 0..of.ways() {
                let (input, state) = (cell(&[rows, inputs])?, cell(&[rows, of.hidden])?);
                let biases = match of.bias {
                    true => Some([cell(&[rows])?, cell(&[rows])?]),
                    false => None,
                };
                all.push(Cell {
                    input,
                    state,
                    biases,
                });
            }
        }
        Ok(Cells { op, of, all })
    }

    fn parameters(&self) -> Vec<(String, Parameter)> {
        let mut list = Vec::new();
        for (i, cell) in self.all.iter().enumerate() {
            let layer = i / self.of.ways();
            let way = if i % self.of.ways() == 1 {
                "_reverse"
            } else {
                ""
            };
            let mut add = |name: &str, cell: &Parameter| {
                list.push((format!("{name}_l{layer}{way}"), cell.clone()));
            };
            add("weight_ih", &cell.input);
            add("weight_hh", &cell.state);
            if let Some([input, state]) = &cell.biases {
                add("bias_ih", input);
                add("bias_hh", state);
            }
        }
        list
    }

    /// The outputs of the last layer and the states of all after their last steps, each `[layers, batch, hidden]`; of
    /// `first`, which are zeros where they are not given. `step` makes the next states, of which the first one is the
    /// output, of what the input and the state give to the gates.
    fn forward(
        &self,
        x: &Tensor,
        first: &[Option<&Tensor>],
        step: impl Fn(&Tensor, &Tensor, &[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let of = &self.of;
        let &[a, b, inputs] = x.shape() else {
            return self.wrong_input(x);
        };
        if inputs != of.inputs {
            return self.wrong_input(x);
        }
        let (steps, batch) = if of.batch_first { (b, a) } else { (a, b) };
        let shape = [self.all.len(), batch, of.hidden];
        for state in first.iter().copied().flatten() {
            if state.shape() != shape {
                return shape_error(
                    self.op,
                    format!(
                        "expected an initial state {shape:?} ([layers, batch, hidden]) for an input \
                         {:?}, found {:?}",
                        x.shape(),
                        state.shape()
                    ),
                );
            }
        }
        let mut x = match of.batch_first {
            true => x.transpose(0, 1)?,
            false => x.clone(),
        };
        let mut last: Vec<Vec<Tensor>> = vec![Vec::new(); first.len()];
        for layer in 0..of.layers {
            let mut outputs = Vec::new();
            for way in 0..of.ways() {
                let i = layer * of.ways() + way;
                let cell = &self.all[i];
                let bias = |which: usize| cell.biases.as_ref().map(|both| both[which].get());
                // What the inputs give, of all steps at once.
                let driven = x.linear(&cell.input.get(), bias(0).as_ref())?;
                let (weight, bias) = (cell.state.get(), bias(1));
                let states = first.iter().map(|state| match state {
                    Some(state) => state.index(0, i as isize)?.cast(driven.dtype()),
                    None => Tensor::zeros(x.engine(), &[batch, of.hidden], driven.dtype()),
                });
                let states = states.collect::<Result<Vec<_>>>()?;
                let order = match way {
                    0 => Order::Forward,
                    _ => Order::Backward,
                };
                let states: Vec<&Tensor> = states.iter().collect();
                let made = recur(steps, order, &states, &[&driven], |states, row| {
                    let carried = states[0].linear(&weight, bias.as_ref())?;
                    Ok::<_, Error>((step(&row[0], &carried, states)?, vec![]))
                })?;
                outputs.extend(made.states.into_iter().next());
                for (all, state) in last.iter_mut().zip(made.last) {
                    all.push(state);
                }
            }
            x = Tensor::cat(&outputs.iter().collect::<Vec<_>>(), -1)?;
        }
        let x = match of.batch_first {
            true => x.transpose(0, 1)?,
            false => x,
        };
        let last = last
            .iter()
            .map(|all| Tensor::stack(&all.iter().collect::<Vec<_>>(), 0));
        Ok((x, last.collect::<Result<_>>()?))
    }

    fn wrong_input<T>(&self, x: &Tensor) -> Result<T> {
        let axes = if self.of.batch_first {
            "batch, steps"
        } else {
            "steps, batch"
        };
        shape_error(
            self.op,
            format!(
                "expected [{axes}, {}], found {:?}",
                self.of.inputs,
                x.shape()
            ),
        )
    }
}

/// Gated recurrent units. With the gates r, z and n of the input and the state,
/// `n = tanh(n_input + sigmoid(r) n_state)` and `h' = n + sigmoid(z) (h - n)`.
///
/// ```
/// # use tensor::{DType, Engine, Rng, Tensor, nn::{Gru, recurrent::Stack}};
/// let engine = Engine::reference();
/// let mut rng = Rng::new(&engine, 7);
/// let gru = Gru::new(&mut rng, Stack { layers: 2, ..Stack::new(3, 8) }, DType::F32)?;
/// let x = rng.randn(&[5, 4, 3], DType::F32)?; // 5 steps of 4 sequences
/// let (out, h) = gru.forward(&x, None)?;
/// assert_eq!((out.shape(), h.shape()), (&[5, 4, 8][..], &[2, 4, 8][..]));
/// let (more, h) = gru.forward(&x, Some(&h.detach()?))?; // goes on, without a gradient into the past
/// # Ok::<(), tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gru(Cells);

impl Gru {
    /// Layers with weights uniform within `1 / sqrt(hidden)`.
    ///
    /// # Errors
    /// No hidden size, or no layers; a non-float type.
    pub fn new(rng: &mut Rng, of: Stack, dtype: DType) -> Result<Gru> {
        Ok(Gru(Cells::new("Gru", 3, rng, of, dtype)?))
    }

    /// The output of each step, `[steps, batch, hidden]`, and the states after the last one, `[layers, batch,
    /// hidden]`, from which the next call may continue. Initial states default to zeros. In a bidirectional layer
    /// the reverse direction is a separate layer in the states, after the forward one, and the second half of the
    /// output.
    ///
    /// # Errors
    /// An input or states of another shape, see [`Stack::batch_first`].
    pub fn forward(&self, x: &Tensor, first: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let (x, last) = self.0.forward(x, &[first], |input, state, states| {
            let (input, state) = (input.chunk(3, -1)?, state.chunk(3, -1)?);
            let reset = input[0].add(&state[0])?.sigmoid()?;
            let keep = input[1].add(&state[1])?.sigmoid()?;
            let new = input[2].add(&reset.mul(&state[2])?)?.tanh()?;
            Ok(vec![new.add(&keep.mul(&states[0].sub(&new)?)?)?])
        })?;
        let [h] = exactly(last)?;
        Ok((x, h))
    }
}

impl Module for Gru {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        self.0.parameters()
    }
}

/// Long short-term memory. With the gates i, f, g and o, `c' = sigmoid(f) c + sigmoid(i) tanh(g)` and
/// `h' = sigmoid(o) tanh(c')`.
#[derive(Clone, Debug)]
pub struct Lstm(Cells);

impl Lstm {
    /// Layers with weights uniform within `1 / sqrt(hidden)`.
    ///
    /// # Errors
    /// No hidden size, or no layers; a non-float type.
    pub fn new(rng: &mut Rng, of: Stack, dtype: DType) -> Result<Lstm> {
        Ok(Lstm(Cells::new("Lstm", 4, rng, of, dtype)?))
    }

    /// As [`Gru::forward`], with two states for each layer: the output `h` and the memory `c`.
    ///
    /// # Errors
    /// An input or states of another shape, see [`Stack::batch_first`].
    pub fn forward(
        &self,
        x: &Tensor,
        first: Option<(&Tensor, &Tensor)>,
    ) -> Result<(Tensor, (Tensor, Tensor))> {
        let first = [first.map(|both| both.0), first.map(|both| both.1)];
        // PyTorch's order of the gates. ONNX's (`onnx::ops::recurrent`) is another, with peepholes and clipping.
        let (x, last) = self.0.forward(x, &first, |input, state, states| {
            let gates = input.add(state)?.chunk(4, -1)?;
            let (enter, keep) = (gates[0].sigmoid()?, gates[1].sigmoid()?);
            let memory = states[1].mul(&keep)?.add(&enter.mul(&gates[2].tanh()?)?)?;
            Ok(vec![gates[3].sigmoid()?.mul(&memory.tanh()?)?, memory])
        })?;
        let [h, c] = exactly(last)?;
        Ok((x, (h, c)))
    }
}

impl Module for Lstm {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        self.0.parameters()
    }
}

/// The states by number; there is one list for each that went in.
fn exactly<const N: usize>(states: Vec<Tensor>) -> Result<[Tensor; N]> {
    <[Tensor; N]>::try_from(states).or_else(|states| {
        shape_error(
            "recurrent",
            format!("expected {N} states, found {}", states.len()),
        )
    })
}
