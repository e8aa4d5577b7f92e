//! Derivatives of running products, of any order.
//!
//! With `p[j] = x[0] .. x[j]`, derivatives in directions `h..` and weights `g` there are two functions: the derivatives
//! of `p` in all directions, `products`, and those of the sum of `g p` in all directions and by each element of `x`,
//! `cofactors`. A derivative of one of them is one of them again, with one more direction: which is why each has a
//! rule, and the operations it is computed with have none. These are products and sums of [`Scaled`] numbers, because
//! parts of a product may be no numbers of the type where the product is one. There is no division, so zeros are like
//! others.

use crate::error::Result;
use crate::graph::{Slope, Tensor};

use super::scaled::Scaled;

/// The gradient of the running products `y` of `x`.
pub(super) fn running(axis: usize, x: &Tensor, y: &Tensor, g: &Tensor) -> Result<Tensor> {
    cofactors(axis, x, g, &[], Some(y))
}

/// `value`, the gradient of the product of `x` over `axes`, as what it is of a running product of which only the last
/// one counts.
pub(super) fn whole(axes: &[usize], x: &Tensor, g: &Tensor, value: &Tensor) -> Result<Tensor> {
    let kept: Vec<usize> = (0..x.rank()).filter(|i| !axes.contains(i)).collect();
    let order = [&kept, axes].concat();
    let n: usize = axes.iter().map(|&i| x.shape()[i]).product();
    if n == 0 {
        return Ok(value.clone());
    }
    let shape = |n: usize| -> Vec<usize> {
        let kept = kept.iter().map(|&i| x.shape()[i]);
        kept.chain([n]).collect()
    };
    let flat = |t: &Tensor, n: usize| t.permute(&order)?.reshape(&shape(n));
    let mut first = vec![0; kept.len()];
    first.push(n - 1);
    let last = flat(g, 1)?.pad_to(&first, &shape(n), 0)?;
    let slope = Slope::Cofactors(kept.len());
    let value = flat(value, n)?.sloped(slope, &[&flat(x, n)?, &last]);
    let permuted: Vec<usize> = order.iter().map(|&i| x.shape()[i]).collect();
    let mut back = vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        back[from] = to;
    }
    value.reshape(&permuted)?.permute(&back)
}

/// The gradients of the sources `x, h..` of [`Slope::Products`], behind one for the value.
pub(super) fn of_products(
    axis: usize,
    src: &[Tensor],
    g: &Tensor,
    needs: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let (x, h) = (&src[0], &src[1..]);
    let mut parts = vec![None; src.len() + 1];
    for i in (0..src.len()).filter(|&i| needs[i]) {
        parts[i + 1] = Some(cofactors(axis, x, g, &without(h, i), None)?);
    }
    Ok(parts)
}

/// The gradients of the sources `x, g, h..` of [`Slope::Cofactors`], behind one for the value: `v` is one more direction.
pub(super) fn of_cofactors(
    axis: usize,
    src: &[Tensor],
    v: &Tensor,
    needs: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let (x, g, h) = (&src[0], &src[1], &src[2..]);
    let mut parts = vec![None; src.len() + 1];
    for i in (0..src.len()).filter(|&i| needs[i]) {
        let directions = |h: &[Tensor]| [h, std::slice::from_ref(v)].concat();
        parts[i + 1] = Some(match i {
            0 => cofactors(axis, x, g, &directions(h), None)?,
            1 => products(axis, x, &directions(h))?,
            _ => cofactors(axis, x, g, &directions(&without(h, i - 1)), None)?,
        });
    }
    Ok(parts)
}

/// All but the one of a number from 1, or all for 0.
fn without(h: &[Tensor], number: usize) -> Vec<Tensor> {
    let kept = h.iter().enumerate().filter(|(i, _)| i + 1 != number);
    kept.map(|(_, h)| h.clone()).collect()
}

/// The derivatives in the directions `h` of the running products of `x`.
fn products(axis: usize, x: &Tensor, h: &[Tensor]) -> Result<Tensor> {
    let value = Dual::new(x, h)?.running(axis)?.value()?.cast(x.dtype())?;
    let of: Vec<&Tensor> = [x].into_iter().chain(h).collect();
    Ok(value.sloped(Slope::Products(axis), &of))
}

/// The derivatives in the directions `h` of `c[k] = (product before k) s[k]` with `s[k] = g[k] + x[k + 1] s[k + 1]`,
/// which is the gradient of the sum of `g` times the running products of `x`: they are `y` if they are there. The
/// recurrence goes in steps of doubled length.
fn cofactors(
    axis: usize,
    x: &Tensor,
    g: &Tensor,
    h: &[Tensor],
    y: Option<&Tensor>,
) -> Result<Tensor> {
    let (along, n) = (axis as isize, x.shape()[axis]);
    if n == 0 {
        return x.zeros_like();
    }
    let none = vec![g.zeros_like()?; h.len()];
    let all = Dual::new(x, h)?;
    // s[k] = sum[k] + factor[k] s[k + length].
    let mut sum = Dual::new(g, &none)?;
    let mut factor = all.narrow(along, 1, n - 1)?;
    let mut length = 1;
    while length < n {
        let (head, left) = (n - length, (n - length).saturating_sub(length));
        let more = factor.mul(&sum.narrow(along, length, head)?)?;
        let more = sum.narrow(along, 0, head)?.add(&more)?;
        sum = more.cat(&sum.narrow(along, head, length)?, along)?;
        factor = factor
            .narrow(along, 0, left)?
            .mul(&factor.narrow(along, head - left, left)?)?;
        length *= 2;
    }
    let before = match y {
        Some(y) => Dual::new(y, h)?,
        None => all.running(axis)?,
    };
    let mut shape = x.shape().to_vec();
    shape[axis] = 1;
    let one = Tensor::ones(x.engine(), &shape, x.dtype())?;
    let zeros = vec![one.zeros_like()?; h.len()];
    let before = Dual::new(&one, &zeros)?.cat(&before.narrow(along, 0, n - 1)?, along)?;
    let value = before.mul(&sum)?.value()?.cast(x.dtype())?;
    let of: Vec<&Tensor> = [x, g].into_iter().chain(h).collect();
    Ok(value.sloped(Slope::Cofactors(axis), &of))
}

/// Numbers with their derivatives: by a set of directions, whose members are the digits of an index. The first is the
/// number, the last its derivative in all directions, one after the other.
struct Dual(Vec<Scaled>);

impl Dual {
    /// Numbers with first derivatives alone.
    fn new(x: &Tensor, h: &[Tensor]) -> Result<Dual> {
        let wide = |x: &Tensor| Scaled::new(&x.detach()?.cast(x.dtype().accumulator())?);
        let mut parts = vec![wide(x)?];
        for (i, h) in h.iter().enumerate() {
            parts.push(wide(h)?);
            let zeros = wide(&h.zeros_like()?)?;
            parts.resize(2 << i, zeros);
        }
        Ok(Dual(parts))
    }

    /// The derivative in all directions.
    fn value(&self) -> Result<Tensor> {
        self.0[self.0.len() - 1].value()
    }

    fn narrow(&self, along: isize, from: usize, len: usize) -> Result<Dual> {
        let part = |s: &Scaled| s.each(|t| t.narrow(along, from, len));
        Ok(Dual(self.0.iter().map(part).collect::<Result<_>>()?))
    }

    fn cat(&self, other: &Dual, along: isize) -> Result<Dual> {
        let pairs = self.0.iter().zip(&other.0);
        let all = pairs.map(|(a, b)| a.cat(b, along));
        Ok(Dual(all.collect::<Result<_>>()?))
    }

    fn add(&self, other: &Dual) -> Result<Dual> {
        let pairs = self.0.iter().zip(&other.0);
        Ok(Dual(pairs.map(|(a, b)| a.add(b)).collect::<Result<_>>()?))
    }

    /// By the rule of products: each direction is for one of the two.
    fn mul(&self, other: &Dual) -> Result<Dual> {
        let part = |set: usize| {
            let mut sum = self.0[0].mul(&other.0[set])?;
            for own in (1..=set).filter(|own| own & set == *own) {
                sum = sum.add(&self.0[own].mul(&other.0[set ^ own])?)?;
            }
            Ok(sum)
        };
        Ok(Dual((0..self.0.len()).map(part).collect::<Result<_>>()?))
    }

    /// Running products, in steps of doubled length.
    fn running(self, axis: usize) -> Result<Dual> {
        let (along, mut all) = (axis as isize, self);
        let n = all.0[0].len(axis);
        let mut length = 1;
        while length < n {
            let rest = all.narrow(along, length, n - length)?;
            let rest = rest.mul(&all.narrow(along, 0, n - length)?)?;
            all = all.narrow(along, 0, length)?.cat(&rest, along)?;
            length *= 2;
        }
        Ok(all)
    }
}
