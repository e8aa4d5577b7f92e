//! Results whose sizes depend on values. A graph has fixed shapes, so these functions compute and read the values
//! they depend on. They are refused in captured functions; use a mask with [`Tensor::where_`] there, or
//! [`Tensor::topk`] and [`Tensor::sort`], whose sizes are known.

use codegen::DType;

use super::{dtype_error, radix};
use crate::error::Result;
use crate::graph::Tensor;

/// The result of [`Tensor::unique`].
#[derive(Clone, Debug)]
pub struct Unique {
    /// The distinct elements, ascending, `[n]`. Each NaN is distinct.
    pub values: Tensor,
    /// The index in `values` of each element, as `I32`, in the shape of the tensor.
    pub inverse: Tensor,
    /// How often each of `values` occurs, as `I32`, `[n]`.
    pub counts: Tensor,
}

impl Tensor {
    /// Where the elements that are not zero are, row by row, as `I64`: `[n, rank]`. Reads the tensor.
    ///
    /// # Errors
    /// From computing or reading it; in a captured function.
    pub fn nonzero(&self) -> Result<Tensor> {
        let places = self.is_something()?.places()?;
        let mut coordinates = Vec::with_capacity(places.len() * self.rank());
        for place in &places {
            let mut rest = *place;
            let from = coordinates.len();
            for &len in self.shape().iter().rev() {
                coordinates.push((rest % len) as i64);
                rest /= len;
            }
            coordinates[from..].reverse();
        }
        Tensor::from_slice(self.engine(), &coordinates, &[places.len(), self.rank()])
    }

    /// The elements where `mask`, of the shape of the tensor, is true, in row-major order: `[n]`. Reads the mask; the
    /// elements stay lazy and have a gradient.
    ///
    /// # Errors
    /// A mask that is no `Bool`, or does not broadcast to the tensor; from computing or reading it; in a captured
    /// function.
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        if mask.dtype() != DType::Bool {
            return dtype_error(
                "masked_select",
                format!("expected a mask of bool, found {}", mask.dtype()),
            );
        }
        let places = mask.expand(self.shape())?.places()?;
        self.take(&index(self, &places)?)
    }

    /// The distinct elements of the tensor, with their positions and counts. Reads which of the sorted elements
    /// differ; the elements stay lazy.
    ///
    /// # Errors
    /// From computing or reading it; in a captured function.
    pub fn unique(&self) -> Result<Unique> {
        let n = self.numel();
        let (sorted, order) = self.reshape(&[n])?.sort(0, false)?;
        let (sorted, order) = (sorted.contiguous()?, order.contiguous()?);
        let first = Tensor::ones(self.engine(), &[n.min(1)], DType::Bool)?;
        let later = n.saturating_sub(1);
        let tail = |t: &Tensor| t.narrow(0, n - later, later);
        let differs = |t: &Tensor| tail(t)?.ne(&t.narrow(0, 0, later)?);
        let differs = match sorted.dtype().is_float() {
            // By their bits, as they are sorted.
            true => differs(&radix::keys(&sorted, false)?)?.bitor(&tail(&sorted)?.isnan()?)?,
            false => differs(&sorted)?,
        };
        let begins = Tensor::cat(&[&first, &differs], 0)?.contiguous()?;
        let places = begins.places()?;
        let ends = places.iter().skip(1).copied().chain([n]);
        let counts: Vec<i32> = places
            .iter()
            .zip(ends)
            .map(|(&from, to)| (to - from) as i32)
            .collect();
        let number = begins
            .cast(DType::I32)?
            .cumsum(0)?
            .sub(1)?
            .cast(DType::I32)?;
        let inverse =
            number
                .zeros_like()?
                .scatter(0, &order, &number, crate::graph::ScatterMode::Set)?;
        Ok(Unique {
            values: sorted.take(&index(self, &places)?)?,
            inverse: inverse.reshape(self.shape())?,
            counts: Tensor::from_slice(self.engine(), &counts, &[counts.len()])?,
        })
    }

    /// Whether elements are not zero, by their bits: a processor may take numbers below the normal ones for zeros.
    pub(crate) fn is_something(&self) -> Result<Tensor> {
        match self.dtype().is_float() {
            // Without the sign.
            true => radix::bits(self)?.shl(1)?.ne(0),
            false => self.ne(0),
        }
    }

    /// The places of what is true in row-major order.
    fn places(&self) -> Result<Vec<usize>> {
        let all = self.to_vec::<bool>()?.into_iter().enumerate();
        Ok(all.filter_map(|(i, is)| is.then_some(i)).collect())
    }
}

fn index(of: &Tensor, places: &[usize]) -> Result<Tensor> {
    let places: Vec<i64> = places.iter().map(|&i| i as i64).collect();
    Tensor::from_slice(of.engine(), &places, &[places.len()])
}
