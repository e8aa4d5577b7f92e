//! Products of matrices and tensors: multiply and sum, without a node of their own.

use codegen::DType;
use codegen::ir::ReduceOp;

use super::{dtype_error, same_engine, shape_error};
use crate::error::Result;
use crate::graph::{Shape, Tensor};

impl Tensor {
    /// The product of matrices: `[.., m, k]` by `[.., k, n]` gives `[.., m, n]`, with the leading
    /// axes broadcast. A vector on the left is a row, on the right a column, and the axis goes away
    /// again. Types promote; narrow floats are multiplied and summed in `f32` and rounded once.
    ///
    /// # Errors
    /// Operands without axes; inner sizes that differ; leading axes that do not broadcast.
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        let dtype = self.dtype().promote(other.dtype());
        self.matmul_in(other, dtype.accumulator())?.cast(dtype)
    }

    /// [`Tensor::matmul`] in a chosen type: operands are cast to it, and the result stays in it.
    ///
    /// # Errors
    /// As [`Tensor::matmul`].
    pub fn matmul_in(&self, other: &Tensor, dtype: DType) -> Result<Tensor> {
        same_engine("matmul", self, other)?;
        let (Some(&k), Some(_)) = (self.shape().last(), other.shape().last()) else {
            return shape_error(
                "matmul",
                format!(
                    "{:?} by {:?}: a scalar has no inner axis; use mul",
                    self.shape(),
                    other.shape()
                ),
            );
        };
        let left = if self.rank() == 1 {
            self.unsqueeze(0)?
        } else {
            self.clone()
        };
        let right = if other.rank() == 1 {
            other.unsqueeze(1)?
        } else {
            other.clone()
        };
        if right.shape()[right.rank() - 2] != k {
            return shape_error(
                "matmul",
                format!(
                    "{:?} by {:?}: inner sizes {k} and {} differ",
                    self.shape(),
                    other.shape(),
                    right.shape()[right.rank() - 2]
                ),
            );
        }
        let product = left
            .cast(dtype)?
            .unsqueeze(-2)?
            .mul(&right.cast(dtype)?.t()?.unsqueeze(-3)?)?;
        let last = product.rank() - 1;
        let sum = product.reduce(ReduceOp::Add, &[last])?;
        // Without the summed axis, and without those that vectors were given.
        let mut shape = product.shape()[..last].to_vec();
        if other.rank() == 1 {
            shape.pop();
        }
        if self.rank() == 1 {
            let row = shape.len() - if other.rank() == 1 { 1 } else { 2 };
            shape.remove(row);
        }
        sum.reshape(&shape)
    }

    /// Another name of [`Tensor::matmul`].
    ///
    /// # Errors
    /// As [`Tensor::matmul`].
    pub fn dot(&self, other: &Tensor) -> Result<Tensor> {
        self.matmul(other)
    }

    /// `self` by the transposed weight `[out, in]`, plus the bias `[out]`.
    ///
    /// # Errors
    /// As [`Tensor::matmul`].
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let product = self.matmul(&weight.t()?)?;
        match bias {
            Some(bias) => product.add(bias),
            None => Ok(product),
        }
    }

    /// The outer product of two vectors, `[n, m]`.
    ///
    /// # Errors
    /// Operands with other than one axis.
    pub fn outer(&self, other: &Tensor) -> Result<Tensor> {
        if self.rank() != 1 || other.rank() != 1 {
            return shape_error(
                "outer",
                format!(
                    "expected two vectors, found {:?} and {:?}",
                    self.shape(),
                    other.shape()
                ),
            );
        }
        self.unsqueeze(1)?.mul(other)
    }

    /// The determinant of square matrices `[.., n, n]`, by elimination with the largest pivot of each
    /// column; in at least `f32`.
    ///
    /// # Errors
    /// Matrices that are not square, or of more than 256 rows: each row is a step of the graph.
    pub fn det(&self) -> Result<Tensor> {
        let &[ref outer @ .., n, m] = self.shape() else {
            return shape_error(
                "det",
                format!("expected a matrix, found {:?}", self.shape()),
            );
        };
        if n != m || n > 256 {
            return shape_error(
                "det",
                format!(
                    "expected [.., n, n] with n of at most 256, found {:?}",
                    self.shape()
                ),
            );
        }
        let batch: usize = outer.iter().product();
        let mut rest = self
            .to_float()?
            .cast(self.to_float()?.dtype().accumulator())?
            .reshape(&[batch, n, n])?;
        let mut det = Tensor::ones(self.engine(), &[batch, 1, 1], rest.dtype())?;
        for size in (1..=n).rev() {
            // The pivot's row changes places with the first one, which turns the sign.
            let column = rest.narrow(2, 0, 1)?;
            let best = column.abs()?.argmax(1, true)?;
            let row = rest.pick(1, &best.expand(&[batch, 1, size])?)?;
            let pivot = row.narrow(2, 0, 1)?;
            let stays = best.eq(0)?;
            det = det.mul(&stays.where_(&pivot, &pivot.neg()?)?)?;
            if size == 1 {
                break;
            }
            let below = rest.narrow(1, 1, size - 1)?;
            let taken = below.positions(1)?.add(1)?.eq(&best)?;
            let below = taken.where_(&rest.narrow(1, 0, 1)?, &below)?;
            let safe = pivot.eq(0)?.where_(1.0, &pivot)?;
            let factor = below.narrow(2, 0, 1)?.div(&safe)?;
            rest = below
                .sub(&factor.mul(&row)?)?
                .narrow(2, 1, size - 1)?
                .contiguous()?;
        }
        det.reshape(outer)?.cast(self.to_float()?.dtype())
    }

    /// Einstein summation, such as `"bij,bjk->bik"`; one letter per axis, `...` for leading axes that
    /// broadcast. Without `->` the result has the letters that occur once, in alphabetical order.
    /// A letter twice in one operand takes the diagonal.
    ///
    /// # Errors
    /// An equation that does not fit the operands.
    pub fn einsum(equation: &str, operands: &[&Tensor]) -> Result<Tensor> {
        let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
        let fail = |why: &str| {
            let shapes: Vec<&[usize]> = operands.iter().map(|t| t.shape()).collect();
            shape_error("einsum", format!("`{equation}` of {shapes:?}: {why}"))
        };
        let (inputs, output) = match text.split_once("->") {
            Some((inputs, output)) => (inputs, Some(output)),
            None => (text.as_str(), None),
        };
        let terms: Vec<&str> = inputs.split(',').collect();
        if terms.len() != operands.len() || operands.is_empty() {
            return fail("the number of terms must match the number of operands");
        }
        // Labels of every axis; the axes of an ellipsis are numbers counted from the last.
        let mut labels: Vec<Vec<char>> = Vec::new();
        let mut widest = 0;
        for (term, t) in terms.iter().zip(operands) {
            let Some((found, dots)) = expand_term(term, t.rank()) else {
                return fail("a term must name each axis with one letter");
            };
            widest = widest.max(dots);
            labels.push(found);
        }
        let output: Vec<char> = match output {
            Some(output) => {
                let rank = output.replace("...", "").chars().count();
                let dots = if output.contains("...") { widest } else { 0 };
                match expand_term(output, rank + dots) {
                    Some((found, _)) => found,
                    None => return fail("the result must name each axis with one letter"),
                }
            }
            None => {
                let mut once: Vec<char> = labels
                    .iter()
                    .flatten()
                    .copied()
                    .filter(|c| c.is_alphabetic())
                    .collect();
                once.sort_unstable();
                let all = once.clone();
                once.retain(|c| all.iter().filter(|d| *d == c).count() == 1);
                dots_labels(widest).chain(once).collect()
            }
        };
        let mut order = output.clone();
        for &c in labels.iter().flatten() {
            if !order.contains(&c) {
                order.push(c);
            }
        }
        let known = |c: &char| labels.iter().any(|l| l.contains(c));
        let twice = (0..output.len()).any(|i| output[..i].contains(&output[i]));
        if twice || !output.iter().all(known) {
            return fail("the result names an axis twice, or an unknown one");
        }
        let dtype = operands
            .iter()
            .fold(operands[0].dtype(), |d, t| d.promote(t.dtype()));
        if dtype == DType::Bool && operands.len() > 1 {
            return dtype_error("einsum", "bool cannot be summed; cast to an integer".into());
        }
        // A label is summed as soon as no operand to come has it, so that no product has more axes
        // than it needs.
        let lasts: Vec<usize> = order
            .iter()
            .map(|c| labels.iter().rposition(|l| l.contains(c)).unwrap_or(0))
            .collect();
        let mut product: Option<Tensor> = None;
        for (i, (t, found)) in operands.iter().zip(labels).enumerate() {
            let aligned = align(&t.cast(dtype.accumulator())?, found, &order)?;
            let joined = match product {
                Some(before) => before.mul(&aligned)?,
                None => aligned,
            };
            // The first operand alone is summed with the second.
            let summed: Vec<usize> = (output.len()..order.len())
                .filter(|&axis| lasts[axis] <= i && joined.shape()[axis] != 1)
                .collect();
            product = Some(match i > 0 || operands.len() == 1 {
                true => joined.reduce(ReduceOp::Add, &summed)?,
                false => joined,
            });
        }
        let Some(product) = product else {
            return fail("expected at least one operand");
        };
        let shape: Shape = product.shape()[..output.len()].to_vec();
        product.reshape(&shape)?.cast(dtype)
    }
}

/// Labels of an ellipsis of `n` axes, outermost first; digits are no letters.
fn dots_labels(n: usize) -> impl Iterator<Item = char> {
    (0..n)
        .rev()
        .filter_map(|i| char::from_u32(0xe000 + i as u32))
}

/// The label of each axis of a term, and how many an ellipsis stands for.
fn expand_term(term: &str, rank: usize) -> Option<(Vec<char>, usize)> {
    let (head, tail) = match term.split_once("...") {
        Some((head, tail)) => (head, Some(tail)),
        None => (term, None),
    };
    let letters = head.chars().count() + tail.map_or(0, |t| t.chars().count());
    let dots = rank.checked_sub(letters)?;
    if tail.is_none() && dots != 0 {
        return None;
    }
    let labels: Vec<char> = head
        .chars()
        .chain(dots_labels(dots))
        .chain(tail.unwrap_or("").chars())
        .collect();
    let letters_only = head
        .chars()
        .chain(tail.unwrap_or("").chars())
        .all(char::is_alphabetic);
    letters_only.then_some((labels, dots))
}

/// An operand with one axis per label of `order`: diagonals taken, axes permuted, size 1 added.
fn align(t: &Tensor, mut labels: Vec<char>, order: &[char]) -> Result<Tensor> {
    let mut t = t.clone();
    while let Some((i, j)) = (0..labels.len())
        .flat_map(|i| (i + 1..labels.len()).map(move |j| (i, j)))
        .find(|&(i, j)| labels[i] == labels[j])
    {
        if t.shape()[i] != t.shape()[j] {
            return shape_error(
                "einsum",
                format!(
                    "`{}` names axes of sizes {} and {}",
                    labels[i],
                    t.shape()[i],
                    t.shape()[j]
                ),
            );
        }
        t = t.diagonal(i as isize, j as isize)?;
        let label = labels.remove(j);
        labels.remove(i);
        labels.push(label);
    }
    let place = |c: &char| order.iter().position(|d| d == c).unwrap_or(order.len());
    let mut axes: Vec<usize> = (0..labels.len()).collect();
    axes.sort_by_key(|&i| place(&labels[i]));
    let mut shape = vec![1; order.len()];
    for (i, c) in labels.iter().enumerate() {
        if let Some(len) = shape.get_mut(place(c)) {
            *len = t.shape()[i];
        }
    }
    t.permute(&axes)?.reshape(&shape)
}
