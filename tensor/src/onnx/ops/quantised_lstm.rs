//! The LSTM of ONNX Runtime's quantiser: weights of 8 bits, and what they multiply is quantised by its
//! own range, the inputs of all steps together and the hidden states of a step together.
//!
//! What is quantised together shows in the result. Sequences that go backwards therefore all begin at
//! the first step, each with its own last element, and behind its end a sequence is 0.

use codegen::DType;

use super::quant::{numbers, ranged, scale};
use super::recurrent::{Gates, activations, directions, lengths};
use super::shape::join;
use crate::graph::Tensor;
use crate::loops::{Order, recur};
use crate::onnx::call::{Call, Table};
use crate::onnx::error::{Result, wrong};
use crate::onnx::value::Value;

pub(super) const OPS: Table = &[("DynamicQuantizeLSTM", dynamic_quantize_lstm)];

/// A matrix in codes, less the zero points, and its scale.
struct Weight {
    /// `[directions, rows, columns]`, less the zero points.
    numbers: Tensor,
    /// `[directions, 1, columns or 1]`.
    scale: Tensor,
}

impl Weight {
    /// The one at input `i`, with its scale and its zero point: one for a direction or one for each of
    /// its columns.
    fn of(c: &mut Call, i: usize, by: usize, zero: usize) -> Result<Weight> {
        let shape = c.array(i)?.tensor.shape().to_vec();
        let &[directions, _, columns] = &shape[..] else {
            return wrong(format!("expected a weight of rank 3, found {shape:?}"));
        };
        let line = |t: &Tensor, _: usize| -> Result<Tensor> {
            match t.numel() {
                n if n == directions => Ok(t.reshape(&[directions, 1, 1])?),
                n if n == directions * columns => Ok(t.reshape(&[directions, 1, columns])?),
                _ => wrong(format!(
                    "expected scales and zero points [{directions}] or [{directions}, {columns}], \
                     found {:?}",
                    t.shape()
                )),
            }
        };
        Ok(Weight {
            scale: line(&scale(c, by)?, 3)?.cast(DType::F32)?,
            numbers: numbers(c, i, zero, line)?,
        })
    }

    /// That of one direction.
    fn direction(&self, d: usize) -> crate::Result<Weight> {
        Ok(Weight {
            numbers: self.numbers.index(0, d as isize)?,
            scale: self.scale.index(0, d as isize)?,
        })
    }

    /// The product with `[n, rows]`.
    fn product(&self, x: &Tensor) -> crate::Result<Tensor> {
        let (codes, by, zero) = ranged(x)?;
        let codes = codes.cast(DType::I32)?.sub(&zero.cast(DType::I32)?)?;
        let sums = codes.matmul_in(&self.numbers, DType::I32)?;
        sums.cast(DType::F32)?.mul(&self.scale.mul(&by)?)
    }
}

/// One direction.
struct Layer {
    gates: Gates,
    recurrent: Weight,
}

impl Layer {
    /// The hidden state and the cell after a step; `x` is what the input adds to the gates.
    fn step(&self, x: &Tensor, h: &Tensor, cell: &Tensor) -> crate::Result<[Tensor; 2]> {
        let [output, cell] = self
            .gates
            .lstm(&x.add(&self.recurrent.product(h)?)?, cell)?;
        // Not clipped, other than in an LSTM of floats.
        Ok([output.mul(&self.gates.activations[2].of(&cell)?)?, cell])
    }

    /// Goes through the rows of `inputs`; gives the hidden states, `[steps, batch, hidden]`, and the
    /// last states. A sequence that is shorter keeps its state behind its end, where its outputs are 0.
    fn run(
        &self,
        inputs: &Tensor,
        [h, cell]: &[Tensor; 2],
        lens: Option<&Tensor>,
    ) -> crate::Result<(Tensor, Vec<Tensor>)> {
        let steps = inputs.shape()[0];
        let Some(lens) = lens else {
            let mut made = recur(
                steps,
                Order::Forward,
                &[h, cell],
                &[inputs],
                |state, row| {
                    let next = self.step(&row[0], &state[0], &state[1])?;
                    Ok::<_, crate::Error>((next.to_vec(), vec![]))
                },
            )?;
            return Ok((made.states.swap_remove(0), made.last));
        };
        let place = Tensor::iota(inputs.engine(), steps, DType::I64)?.reshape(&[steps, 1, 1])?;
        let rows = [inputs, &place];
        // The last output is what is multiplied: behind its end a sequence counts as 0.
        let mut made = recur(steps, Order::Forward, &[h, cell, h], &rows, |state, row| {
            let [new, cell] = self.step(&row[0], &state[2], &state[1])?;
            let inside = lens.gt(&row[1])?;
            let kept = |new: &Tensor, old: &Tensor| inside.where_(new, old);
            let next = vec![
                kept(&new, &state[0])?,
                kept(&cell, &state[1])?,
                kept(&new, &new.zeros_like()?)?,
            ];
            Ok::<_, crate::Error>((next, vec![]))
        })?;
        made.last.truncate(2);
        Ok((made.states.swap_remove(2), made.last))
    }
}

/// The rows `[steps, batch, width]` of each sequence in the other order, those behind its end where they
/// are.
fn turned(x: &Tensor, lens: Option<&Tensor>) -> crate::Result<Tensor> {
    let Some(lens) = lens else {
        return x.flip(&[0]);
    };
    let (steps, batch) = (x.shape()[0], x.shape()[1]);
    let at = Tensor::iota(x.engine(), steps, DType::I64)?.reshape(&[steps, 1])?;
    let lens = lens.reshape(&[1, batch])?;
    let index = at.lt(&lens)?.where_(&lens.sub(&at)?.sub(1)?, &at)?;
    let index = index.expand(&[steps, batch])?.unsqueeze(2)?;
    x.gather(0, &index.expand(x.shape())?)
}

/// An input of a shape, if it is there.
fn shaped(c: &mut Call, i: usize, shape: &[usize]) -> Result<Option<Tensor>> {
    match c.optional(i)? {
        Some(t) if t.shape() != shape => wrong(format!(
            "expected input {i} {shape:?}, found {:?}",
            t.shape()
        )),
        found => Ok(found),
    }
}

/// The rows `[steps, batch, width]` with zeros where no sequence reaches: these do not count for the range.
fn reached(x: &Tensor, lens: Option<&Tensor>) -> crate::Result<Tensor> {
    let Some(lens) = lens else {
        return Ok(x.clone());
    };
    let steps = x.shape()[0];
    let at = Tensor::iota(x.engine(), steps, DType::I64)?.reshape(&[steps, 1, 1])?;
    let longest = lens.max(&[], false)?.reshape(&[1, 1, 1])?;
    at.lt(&longest)?.where_(x, &x.zeros_like()?)
}

fn dynamic_quantize_lstm(c: &mut Call) -> Result<Vec<Value>> {
    let reverse = directions(c)?;
    let directions = reverse.len();
    let x = c.tensor(0)?;
    let (w, r) = (Weight::of(c, 1, 8, 9)?, Weight::of(c, 2, 10, 11)?);
    let (&[steps, batch, width], &[_, hidden, rows]) = (x.shape(), r.numbers.shape()) else {
        return wrong(format!(
            "expected an input [steps, batch, width], found {:?}",
            x.shape()
        ));
    };
    if rows != 4 * hidden
        || r.numbers.shape()[0] != directions
        || w.numbers.shape() != [directions, width, rows]
    {
        return wrong(format!(
            "expected weights [{directions}, {width}, 4 * hidden] and [{directions}, hidden, \
             4 * hidden], found {:?} and {:?}",
            w.numbers.shape(),
            r.numbers.shape()
        ));
    }
    let bias = shaped(c, 3, &[directions, 2 * rows])?;
    let lens = lengths(c, steps, batch)?;
    let start = [
        shaped(c, 5, &[directions, batch, hidden])?,
        shaped(c, 6, &[directions, batch, hidden])?,
    ];
    let peepholes = shaped(c, 7, &[directions, 3 * hidden])?;
    let functions = activations(c, &["Sigmoid", "Tanh", "Tanh"], directions)?;
    let flat = reached(&x, lens.as_ref())?.reshape(&[steps * batch, width])?;
    let (mut all, mut last) = (Vec::new(), [Vec::new(), Vec::new()]);
    for (d, &reverse) in reverse.iter().enumerate() {
        let at = d as isize;
        let mut inputs = w.direction(d)?.product(&flat)?;
        if let Some(bias) = &bias {
            let bias = bias.index(0, at)?;
            inputs = inputs.add(&bias.narrow(0, 0, rows)?.add(&bias.narrow(0, rows, rows)?)?)?;
        }
        let inputs = inputs.reshape(&[steps, batch, rows])?;
        let inputs = match reverse {
            true => turned(&inputs, lens.as_ref())?,
            false => inputs,
        };
        let state = |i: usize| match &start[i] {
            Some(state) => state.index(0, at),
            None => Tensor::zeros(x.engine(), &[batch, hidden], DType::F32),
        };
        let layer = Layer {
            gates: Gates {
                hidden,
                peepholes: match &peepholes {
                    Some(p) => {
                        let p = p.index(0, at)?;
                        let part = |i: usize| p.narrow(0, i * hidden, hidden);
                        Some([part(0)?, part(1)?, part(2)?])
                    }
                    None => None,
                },
                activations: functions[3 * d..][..3].to_vec(),
                clip: c.attr_float("clip")?.filter(|&limit| limit > 0.0),
                input_forget: c.int_or("input_forget", 0)? != 0,
            },
            recurrent: r.direction(d)?,
        };
        let start = [state(0)?, state(1)?];
        let (y, end) = layer.run(&inputs, &start, lens.as_ref())?;
        all.push(match reverse {
            true => turned(&y, lens.as_ref())?,
            false => y,
        });
        for (list, state) in last.iter_mut().zip(end) {
            list.push(state);
        }
    }
    let mut outputs: Vec<Value> = vec![join(&all, 1, true)?.into()];
    for list in &last {
        outputs.push(join(list, 0, true)?.into());
    }
    Ok(outputs)
}
