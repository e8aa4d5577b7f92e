//! Linear equations of small dense matrices `[.., n, n]`: loops with one body over the rows, in at least `f32`.
//!
//! Eigenvalues, singular values and QR are not available: read the matrix, and use a library on the host.

use codegen::DType;

use super::{broadcast_shapes, same_engine, shape_error};
use crate::error::{Error, Result};
use crate::graph::{Shape, Tensor};
use crate::loops::{Order, recur};

/// Matrices with the axes before them as one.
struct Batch {
    outer: Shape,
    /// `[batch, n, n]`
    a: Tensor,
    /// `[batch, n, m]`
    b: Tensor,
    n: usize,
    m: usize,
}

/// The number of rows of square matrices, and the axes before them.
fn square<'a>(op: &'static str, a: &'a Tensor) -> Result<(&'a [usize], usize)> {
    match a.shape() {
        [outer @ .., n, m] if n == m => Ok((outer, *n)),
        shape => shape_error(op, format!("expected matrices [.., n, n], found {shape:?}")),
    }
}

fn batch(op: &'static str, a: &Tensor, b: &Tensor) -> Result<Batch> {
    same_engine(op, a, b)?;
    let (outer, n) = square(op, a)?;
    let [other @ .., rows, m] = b.shape() else {
        return sides(op, a, b);
    };
    if *rows != n {
        return sides(op, a, b);
    }
    let outer = broadcast_shapes(op, &[outer, other])?;
    let wide = |t: &Tensor| t.to_float()?.cast(t.dtype().promote(DType::F32));
    let (a, b) = (wide(a)?, wide(b)?);
    let dtype = a.dtype().promote(b.dtype());
    let flat = |t: &Tensor, width: usize| {
        t.cast(dtype)?
            .expand(&[&outer[..], &[n, width]].concat())?
            .reshape(&[outer.iter().product(), n, width])
    };
    Ok(Batch {
        a: flat(&a, n)?,
        b: flat(&b, *m)?,
        n,
        m: *m,
        outer,
    })
}

fn sides<T>(op: &'static str, a: &Tensor, b: &Tensor) -> Result<T> {
    shape_error(
        op,
        format!(
            "{:?} and {:?}: expected [.., n, n] and [.., n, m]; a vector is one column, `unsqueeze(-1)`",
            a.shape(),
            b.shape()
        ),
    )
}

/// The type of a result, whose computation was in at least `f32`.
fn typed(y: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    y.cast(a.to_float()?.dtype().promote(b.to_float()?.dtype()))
}

impl Tensor {
    /// What of `x` remains where `mask` is true, as the sum over an axis, of which there is one.
    fn only(&self, x: &Tensor, along: isize) -> Result<Tensor> {
        self.where_(x, 0)?.sum(&[along], true)
    }

    /// The solutions `x` of `self x = b`, for `self` `[.., n, n]` and `b` `[.., n, m]`, by elimination with the
    /// largest pivot of each column. Singular matrices give infinities or NaN.
    ///
    /// # Errors
    /// Other shapes.
    pub fn solve(&self, b: &Tensor) -> Result<Tensor> {
        let Batch {
            outer,
            a,
            b: rhs,
            n,
            m,
        } = batch("solve", self, b)?;
        if n == 0 {
            // No equations: the largest of no pivots is none.
            return typed(&rhs.reshape(&[&outer[..], &[n, m]].concat())?, self, b);
        }
        let together = Tensor::cat(&[&a, &rhs], 2)?;
        let engine = self.engine();
        let number = Tensor::iota(engine, n, DType::I32)?;
        let made = recur(n, Order::Forward, &[&together], &[&number], |state, row| {
            let (rest, k) = (&state[0], &row[0]);
            let rows = Tensor::iota(engine, n, DType::I32)?.reshape(&[1, n, 1])?;
            let columns = Tensor::iota(engine, n + m, DType::I32)?.reshape(&[1, 1, n + m])?;
            let (here, in_column) = (rows.eq(k)?, columns.eq(k)?);
            let column = in_column.only(rest, 2)?;
            // The row of the pivot changes places with row k.
            let best = rows.ge(k)?.where_(&column.abs()?, -1)?.argmax(1, true)?;
            let at_best = rows.eq(&best)?;
            let (pivot, old) = (at_best.only(rest, 1)?, here.only(rest, 1)?);
            let rest = at_best.where_(&old, rest)?;
            let factor = in_column.only(&rest, 2)?;
            let pivot = pivot.div(&in_column.only(&pivot, 2)?)?;
            let next = here.where_(&pivot, &rest.sub(&factor.mul(&pivot)?)?)?;
            Ok::<_, Error>((vec![next], vec![]))
        })?;
        let x = made.last[0].narrow(2, n, m)?;
        typed(&x.reshape(&[&outer[..], &[n, m]].concat())?, self, b)
    }

    /// The inverses of matrices `[.., n, n]`. To solve equations use [`Tensor::solve`], which is more accurate.
    ///
    /// # Errors
    /// Matrices that are not square.
    pub fn inv(&self) -> Result<Tensor> {
        let (_, n) = square("inv", self)?;
        self.solve(&Tensor::eye(self.engine(), n, n, self.to_float()?.dtype())?)
    }

    /// The lower triangle `l` of `self = l l^T`, for symmetric positive definite matrices `[.., n, n]`: the mean of the
    /// matrix and its transpose is taken. Other matrices, also singular ones, give NaN from the first column on whose
    /// pivot is not above 0.
    ///
    /// # Errors
    /// Matrices that are not square.
    pub fn cholesky(&self) -> Result<Tensor> {
        let Batch { outer, a, n, .. } = batch("cholesky", self, self)?;
        let engine = self.engine();
        let even = a.add(&a.transpose(1, 2)?)?.mul(0.5)?;
        let number = Tensor::iota(engine, n, DType::I32)?;
        let made = recur(n, Order::Forward, &[&even], &[&number], |state, row| {
            let (rest, k) = (&state[0], &row[0]);
            let rows = Tensor::iota(engine, n, DType::I32)?.reshape(&[1, n, 1])?;
            let columns = rows.reshape(&[1, 1, n])?;
            let column = columns.eq(k)?.only(rest, 2)?;
            let pivot = rows.eq(k)?.only(&column, 1)?;
            let root = pivot.gt(0)?.where_(&pivot, f64::NAN)?.sqrt()?;
            let below = rows.gt(k)?.where_(&column.div(&root)?, 0)?;
            let column = rows.eq(k)?.where_(&root, &below)?;
            let rest = rest.sub(&column.mul(&column.transpose(1, 2)?)?)?;
            Ok::<_, Error>((vec![rest], vec![column]))
        })?;
        let l = made.outputs[0].squeeze(&[-1])?.permute(&[1, 2, 0])?;
        typed(&l.reshape(&[&outer[..], &[n, n]].concat())?, self, self)
    }

    /// The solutions `x` of `self x = b` for triangular matrices `[.., n, n]`; the other triangle is not read.
    ///
    /// # Errors
    /// Other shapes than those of [`Tensor::solve`].
    pub fn solve_triangular(&self, b: &Tensor, upper: bool) -> Result<Tensor> {
        let Batch {
            outer,
            a,
            b: rhs,
            n,
            m,
        } = batch("solve_triangular", self, b)?;
        let engine = self.engine();
        let a = if upper { a.triu(0)? } else { a.tril(0)? };
        let order = if upper {
            Order::Backward
        } else {
            Order::Forward
        };
        let number = Tensor::iota(engine, n, DType::I32)?;
        let (a, rhs) = (a.transpose(0, 1)?, rhs.transpose(0, 1)?);
        let first = Tensor::zeros(engine, &[a.shape()[1], n, m], rhs.dtype())?;
        let made = recur(n, order, &[&first], &[&number, &a, &rhs], |state, row| {
            let (x, k) = (&state[0], &row[0]);
            let rows = Tensor::iota(engine, n, DType::I32)?.reshape(&[1, n, 1])?;
            let (own, right) = (row[1].unsqueeze(-1)?, row[2].unsqueeze(1)?);
            let pivot = rows.eq(k)?.only(&own, 1)?;
            // Rows that are not solved yet are zeros, which times an infinite pivot are NaN.
            let here = rows.eq(k)?;
            let known = here.where_(0, &own)?.mul(x)?.sum(&[1], true)?;
            let next = here.where_(&right.sub(&known)?.div(&pivot)?, x)?;
            Ok::<_, Error>((vec![next], vec![]))
        })?;
        let x = &made.last[0];
        typed(&x.reshape(&[&outer[..], &[n, m]].concat())?, self, b)
    }
}
