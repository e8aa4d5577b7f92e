//! Spectra and windows.
//!
//! A transform is a product with a matrix of sines. One of a longer signal is split into transforms
//! of its factors (Cooley and Tukey 1965), so that no matrix is large. Sums of sines cancel, so they
//! are taken in `f64` where there is one.

use std::f64::consts::PI;

use codegen::DType;

use crate::doubles::widest;
use crate::element::Scalar;
use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, axis, one, sizes};
use crate::onnx::elem::Elem;
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::Value;
use crate::ops::check_size;
use crate::ops::movement::PadMode;

pub(super) const OPS: Table = &[
    ("BlackmanWindow", |c| window(c, &[0.42, -0.5, 0.08])),
    ("DFT", dft),
    ("HammingWindow", |c| window(c, &[25.0 / 46.0, -21.0 / 46.0])),
    ("HannWindow", |c| window(c, &[0.5, -0.5])),
    ("MelWeightMatrix", mel_weight_matrix),
    ("STFT", stft),
];

/// Length from which on a transform is split.
const SPLIT: usize = 1024;

/// Length of the longest transform by one matrix, for lengths that are prime.
const LONGEST: usize = 4096;

/// Length of the longest transform: its factors of unity are a table.
const LONGEST_SPLIT: usize = 1 << 22;

/// Elements of a table that is made on the host.
const MOST_ELEMENTS: usize = 1 << 26;

/// Complex numbers, of which the imaginary parts may all be 0.
struct Complex {
    re: Tensor,
    im: Option<Tensor>,
}

impl Complex {
    /// Applies a function to both parts.
    fn map(&self, f: impl Fn(&Tensor) -> crate::Result<Tensor>) -> crate::Result<Complex> {
        Ok(Complex {
            re: f(&self.re)?,
            im: self.im.as_ref().map(f).transpose()?,
        })
    }

    /// The product with another by some bilinear operation.
    fn times(
        &self,
        (re, im): &(Tensor, Tensor),
        f: impl Fn(&Tensor, &Tensor) -> crate::Result<Tensor>,
    ) -> crate::Result<Complex> {
        let (mut out_re, mut out_im) = (f(&self.re, re)?, f(&self.re, im)?);
        if let Some(own) = &self.im {
            out_re = out_re.sub(&f(own, im)?)?;
            out_im = out_im.add(&f(own, re)?)?;
        }
        Ok(Complex {
            re: out_re,
            im: Some(out_im),
        })
    }
}

/// `e^(sign 2 pi i a b / n)` for `a` below `rows` and `b` below `columns`.
fn roots(
    like: &Tensor,
    n: usize,
    (rows, columns): (usize, usize),
    sign: f64,
) -> Result<(Tensor, Tensor)> {
    let mut parts = (Vec::new(), Vec::new());
    for a in 0..rows {
        for b in 0..columns {
            // The angle within one turn, so that none loses digits.
            let angle = sign * 2.0 * PI * ((a * b) % n) as f64 / n as f64;
            parts.0.push(angle.cos());
            parts.1.push(angle.sin());
        }
    }
    let table =
        |list: &[f64]| Tensor::from_floats(like.engine(), list, &[rows, columns], like.dtype());
    Ok((table(&parts.0)?, table(&parts.1)?))
}

/// The first `count` numbers of the transform of the last axis, `[rows, n]`.
fn transform(x: &Complex, n: usize, count: usize, sign: f64) -> Result<Complex> {
    let rows = x.re.shape()[0];
    let factor = (2..=n.isqrt()).rev().find(|&f| n.is_multiple_of(f));
    let (Some(a), true) = (factor, n > SPLIT) else {
        if n > LONGEST {
            return unsupported(format!("a transform of the prime length {n}"));
        }
        let table = roots(&x.re, n, (n, count), sign)?;
        return Ok(x.times(&table, |x, t| x.matmul(t))?);
    };
    // Position b p + q is element (p, q), and number k of the first transform with l of the second
    // is number k + a l.
    let b = n / a;
    let columns = x.map(|t| {
        let t = t.reshape(&[rows, a, b])?.transpose(1, 2)?;
        t.reshape(&[rows * b, a])
    })?;
    let first = transform(&columns, a, a, sign)?;
    let first = first.map(|t| t.reshape(&[rows, b, a])?.transpose(1, 2))?;
    let turned = first.times(&roots(&x.re, n, (a, b), sign)?, |x, t| x.mul(t))?;
    let turned = turned.map(|t| t.reshape(&[rows * a, b])?.contiguous())?;
    let second = transform(&turned, b, b, sign)?;
    let joined = second.map(|t| {
        let t = t.reshape(&[rows, a, b])?.transpose(1, 2)?;
        t.reshape(&[rows, n])?.narrow(1, 0, count)
    })?;
    Ok(joined)
}

/// The spectrum along an axis of a signal whose last axis is the real and the imaginary part, or
/// only the real one; the signal is cut or filled with zeros to `n`.
fn spectrum(x: &Tensor, along: usize, n: usize, onesided: bool, inverse: bool) -> Result<Tensor> {
    let last = x.rank().saturating_sub(1);
    let count = if onesided { n / 2 + 1 } else { n };
    let mut shape = x.shape().to_vec();
    shape[last] = 2;
    shape[along] = count;
    check_size("DFT", &shape, DType::F64)?;
    if n > LONGEST_SPLIT {
        return unsupported(format!("a transform of length {n}"));
    }
    if n == 0 || shape.contains(&0) {
        return wrong(format!("expected a signal, found {:?}", x.shape()));
    }
    let size = x.shape()[along];
    let mut amounts = vec![(0, 0); x.rank()];
    amounts[along] = (0, n as isize - size as isize);
    let fitted = x.pad(&amounts, PadMode::Constant(Scalar::Float(0.0)))?;
    let part = |i: usize| -> crate::Result<Tensor> {
        let part = fitted.index(last as isize, i as isize)?;
        let part = part.cast(widest(x.engine()).promote(x.dtype()))?;
        let part = part.move_axis(along as isize, -1)?;
        part.reshape(&[part.numel() / n, n])
    };
    let signal = Complex {
        re: part(0)?,
        im: match x.shape()[last] {
            2 => Some(part(1)?),
            _ => None,
        },
    };
    let sign = if inverse { 1.0 } else { -1.0 };
    let numbers = transform(&signal, n, count, sign)?;
    let mut outer = shape[..last].to_vec();
    outer.remove(along);
    outer.push(count);
    let placed = |t: &Tensor| -> crate::Result<Tensor> {
        let t = match inverse {
            true => t.div(n as f64)?,
            false => t.clone(),
        };
        t.cast(x.dtype())?
            .reshape(&outer)?
            .move_axis(-1, along as isize)
    };
    let re = placed(&numbers.re)?;
    let im = match &numbers.im {
        Some(im) => placed(im)?,
        None => re.zeros_like()?,
    };
    Ok(Tensor::stack(&[&re, &im], -1)?)
}

/// A signal is a float whose last axis is of 1 or 2.
fn check_signal(x: &Tensor) -> Result<()> {
    match x.shape().last() {
        Some(1 | 2) if x.rank() >= 2 && x.dtype().is_float() => Ok(()),
        _ => wrong(format!(
            "expected a signal [.., 1] or [.., 2] of floats, found {} {:?}",
            x.dtype(),
            x.shape()
        )),
    }
}

/// A length that is an input.
fn length(c: &mut Call, i: usize) -> Result<usize> {
    match usize::try_from(c.int(i)?) {
        Ok(n) if n > 0 && n < 1 << 40 => Ok(n),
        _ => wrong(format!("expected a length above 0 as input {i}")),
    }
}

/// The axis is an attribute before version 20.
fn dft(c: &mut Call) -> Result<Vec<Value>> {
    let x = c.tensor(0)?;
    check_signal(&x)?;
    let given = match c.opset() < 20 {
        true => c.int_or("axis", 1)?,
        false if c.has(2) => c.int(2)?,
        false => -2,
    };
    let along = axis(given, x.rank())?;
    if along + 1 == x.rank() {
        return wrong("expected an axis of the signal, found that of real and imaginary parts");
    }
    let n = match c.has(1) {
        true => length(c, 1)?,
        false => x.shape()[along],
    };
    let (onesided, inverse) = (c.int_or("onesided", 0)? != 0, c.int_or("inverse", 0)? != 0);
    if onesided && inverse {
        let n = match c.has(1) {
            true => n,
            false => 2 * x.shape()[along].saturating_sub(1),
        };
        return one(real_signal(&x, along, n)?);
    }
    one(spectrum(&x, along, n, onesided, inverse)?)
}

/// The real signal of length `n` of half a spectrum: the other half is its conjugate in reverse.
fn real_signal(x: &Tensor, along: usize, n: usize) -> Result<Tensor> {
    let (at, last) = (along as isize, x.rank() - 1);
    let half = n / 2 + 1;
    let mut amounts = vec![(0, 0); x.rank()];
    amounts[along] = (0, half as isize - x.shape()[along] as isize);
    let x = x.pad(&amounts, PadMode::Constant(Scalar::Float(0.0)))?;
    if x.shape()[last] != 2 || n == 0 {
        return wrong(format!(
            "expected half a spectrum of complex numbers, found {:?}",
            x.shape()
        ));
    }
    let other = x.narrow(at, 1, n - half)?.flip(&[at])?;
    let (re, im) = (other.narrow(-1, 0, 1)?, other.narrow(-1, 1, 1)?);
    let other = Tensor::cat(&[&re, &im.neg()?], -1)?;
    let whole = Tensor::cat(&[&x, &other], at)?;
    Ok(spectrum(&whole, along, n, false, true)?.narrow(-1, 0, 1)?)
}

/// Spectra of the parts of a signal that a window slides over.
fn stft(c: &mut Call) -> Result<Vec<Value>> {
    let mut x = c.tensor(0)?;
    if x.rank() == 2 {
        x = x.unsqueeze(2)?;
    }
    check_signal(&x)?;
    let &[batch, size, parts] = x.shape() else {
        return wrong(format!(
            "expected [batch, length, 1], found {:?}",
            x.shape()
        ));
    };
    let step = length(c, 1)?;
    let window = c.optional(2)?;
    let n = match (c.has(3), &window) {
        (true, _) => length(c, 3)?,
        (false, Some(window)) => window.numel(),
        (false, None) => size,
    };
    let onesided = c.int_or("onesided", 1)? != 0;
    if onesided && parts == 2 {
        return wrong("expected onesided = 0 for a complex signal, found 1");
    }
    let width = window.as_ref().map_or(n, Tensor::numel);
    if width == 0 || width > n || n > size {
        return wrong(format!(
            "expected a window and a frame within a signal of {size}, found {width} and {n}"
        ));
    }
    let frames = (size - n) / step + 1;
    // [batch, frames, width, parts]
    let windows = x.windows(1, width, step, 1)?.narrow(1, 0, frames)?;
    let mut framed = windows.transpose(2, 3)?;
    if let Some(window) = window {
        if window.rank() != 1 {
            return wrong(format!(
                "expected a vector as window, found {:?}",
                window.shape()
            ));
        }
        framed = framed.mul(&window.cast(x.dtype())?.reshape(&[width, 1])?)?;
    }
    check_size("STFT", &[batch, frames, n, 2], DType::F64)?;
    one(spectrum(&framed, 2, n, onesided, false)?)
}

/// The size of a table that is made on the host.
fn table_size(list: &[i64]) -> Result<Vec<usize>> {
    let found = sizes(list)?;
    let total = found.iter().try_fold(1usize, |p, &n| p.checked_mul(n));
    match total {
        Some(total) if total <= MOST_ELEMENTS => Ok(found),
        _ => wrong(format!(
            "expected at most {MOST_ELEMENTS} elements, found {list:?}"
        )),
    }
}

/// Numbers in the type that an attribute names.
fn table(c: &Call, list: &[f64], shape: &[usize]) -> Result<Vec<Value>> {
    let dtype = match c.attr_elem("output_datatype")? {
        None => DType::F32,
        Some(Elem::Plain(dtype)) => dtype,
        Some(elem) => return unsupported(format!("{} of {elem}", c.node.op)),
    };
    one(Tensor::from_floats(c.engine(), list, shape, dtype)?)
}

/// A sum of cosines with these factors, of 0, 1, 2.. turns over the length.
fn window(c: &mut Call, factors: &[f64]) -> Result<Vec<Value>> {
    let n = table_size(&[c.int(0)?])?[0];
    let turn = match c.int_or("periodic", 1)? != 0 {
        true => n,
        false => n.saturating_sub(1),
    };
    let value = |i: usize| match turn {
        0 => 1.0,
        turn => {
            let angle = 2.0 * PI * i as f64 / turn as f64;
            let terms = factors.iter().enumerate();
            terms.map(|(k, f)| f * (k as f64 * angle).cos()).sum()
        }
    };
    let list: Vec<f64> = (0..n).map(value).collect();
    table(c, &list, &[n])
}

/// Triangles over the bins of a spectrum, evenly spaced on the mel scale.
fn mel_weight_matrix(c: &mut Call) -> Result<Vec<Value>> {
    let (bands, length, rate) = (c.int(0)?, c.int(1)?, c.int(2)?);
    let float = |c: &mut Call, i: usize| match c.floats(i)?[..] {
        [x] => Ok(x),
        _ => wrong(format!("expected one number as input {i}")),
    };
    let (low, high) = (float(c, 3)?, float(c, 4)?);
    if length < 0 || rate <= 0 {
        return wrong(format!(
            "expected a length of at least 0 and a rate above 0, found {length} and {rate}"
        ));
    }
    let shape = table_size(&[length / 2 + 1, bands])?;
    let &[bins, bands] = &shape[..] else {
        return wrong("expected two sizes");
    };
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let step = (mel(high) - mel(low)) / (bands + 2) as f64;
    let edges = (0..bands + 2).map(|i| {
        let hertz = 700.0 * (10f64.powf((mel(low) + step * i as f64) / 2595.0) - 1.0);
        let bin = ((length as f64 + 1.0) * hertz / rate as f64).floor();
        match bin >= 0.0 && bin <= bins as f64 {
            true => Ok(bin as usize),
            false => wrong(format!(
                "expected edges of at most half the rate {rate}, found {hertz}"
            )),
        }
    });
    let edges: Vec<usize> = edges.collect::<Result<_>>()?;
    let mut out = vec![0.0; bins * bands];
    for (band, edge) in edges.windows(3).enumerate() {
        let (left, centre, right) = (edge[0], edge[1], edge[2]);
        let slopes = (left..right.max(centre + 1)).map(|bin| {
            let weight = match bin {
                bin if bin == centre => 1.0,
                bin if bin < centre => (bin - left) as f64 / (centre - left) as f64,
                bin => (right - bin) as f64 / (right - centre) as f64,
            };
            (bin, weight)
        });
        for (bin, weight) in slopes {
            if let Some(place) = out.get_mut(bin * bands + band) {
                *place = weight;
            }
        }
    }
    table(c, &out, &shape)
}
