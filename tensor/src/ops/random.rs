//! Random numbers from a counter: Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random
//! numbers: as easy as 1, 2, 3"), in `u32` operations, so every device gives the same bits.
//!
//! A draw of n words uses counters c..c+n: word i of the first half and word i of the second half are
//! the two outputs of the block (c + i, c + half + i), as in JAX's `threefry2x32` streams.

mod chances;
pub(crate) mod generator;

use codegen::DType;

use super::{check_size, dtype_error, shape_error};
use crate::error::{Error, Result};
use crate::graph::Tensor;
use crate::jit::tracing;
use generator::{PARITY, ROTATIONS};
pub use generator::{Rng, threefry};

/// [`threefry`] on `u32` tensors; the key words may be scalars.
///
/// # Errors
/// Shapes that do not broadcast; types that are not `u32`.
pub fn threefry_tensors(key: [&Tensor; 2], counter: [&Tensor; 2]) -> Result<[Tensor; 2]> {
    if let Some(wrong) = key.iter().chain(&counter).find(|t| t.dtype() != DType::U32) {
        return dtype_error("threefry", format!("expected u32, found {}", wrong.dtype()));
    }
    let third = key[0].bitxor(key[1])?.bitxor(i64::from(PARITY))?;
    let keys = [key[0], key[1], &third];
    let mut a = counter[0].add(keys[0])?;
    let mut b = counter[1].add(keys[1])?;
    for group in 0..5usize {
        for r in ROTATIONS[group % 2] {
            a = a.add(&b)?;
            let rotated = b.shl(i64::from(r))?.bitor(&b.shr(i64::from(32 - r))?)?;
            b = rotated.bitxor(&a)?;
        }
        let next = group + 1;
        a = a.add(keys[next % 3])?;
        b = b.add(keys[(next + 1) % 3])?.add(next as i64)?;
    }
    Ok([a, b])
}

impl Rng {
    /// An independent generator (as independent as Threefry's outputs).
    ///
    /// # Errors
    /// In a captured function, for a generator created outside: all replays would share one.
    pub fn fork(&mut self) -> Result<Rng> {
        if tracing::is_outside(self) {
            return Err(Error::Capture {
                what:
                    "fork inside a captured function: replays would skip it. Fork before the call, or \
                     draw from the generator itself"
                        .into(),
            });
        }
        let (key, at) = self.advance(1);
        let word = [at as u32, (at >> 32) as u32 ^ 0x8000_0000];
        Ok(Rng::of(&self.engine, threefry(key, word)))
    }

    /// Restores a state, for this generator and its clones. See [`Rng::state`].
    ///
    /// # Errors
    /// In a captured function, whose replays would skip it.
    pub fn set_state(&self, state: [u32; 4]) -> Result<()> {
        if tracing::is_capturing() {
            return Err(Error::Capture {
                what: "set_state of a generator inside a captured function: replays would skip it. Set \
                       it before the call"
                    .into(),
            });
        }
        self.go_on_from(state);
        Ok(())
    }

    /// Uniform `u32` words of a shape.
    ///
    /// # Errors
    /// More than 2^32 words in one draw.
    pub fn bits(&mut self, shape: &[usize]) -> Result<Tensor> {
        let n = check_size("random", shape, DType::U32)?;
        if n as u64 > u64::from(u32::MAX) {
            return shape_error(
                "random",
                format!(
                    "{n} words in one draw exceed the limit of 2^32 - 1; \
                                draw in parts"
                ),
            );
        }
        let half = n.div_ceil(2);
        let engine = self.engine.clone();
        let [k0, k1, base] = match tracing::drawn(self, n)? {
            Some(given) => {
                let word = |i: usize| given.narrow(0, i, 1)?.reshape(&[]);
                [word(0)?, word(1)?, word(2)?]
            }
            None => {
                let ([a, b, c], _) = self.next(n);
                let word = |x: u32| Tensor::scalar(&engine, i64::from(x), DType::U32);
                [word(a)?, word(b)?, word(c)?]
            }
        };
        let index = Tensor::iota(&engine, half, DType::U32)?.add(&base)?;
        let second = index.add(half as i64)?;
        let [a, b] = threefry_tensors([&k0, &k1], [&index, &second])?;
        Tensor::cat(&[&a, &b], 0)?.narrow(0, 0, n)?.reshape(shape)
    }

    /// Uniform in `0..1`, of a float type; every value is a multiple of the type's epsilon.
    ///
    /// # Errors
    /// A non-float type.
    pub fn rand(&mut self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        // Bits of mantissa that the type keeps below 1, all of them exact in the wider type.
        let kept = match dtype {
            DType::F64 => {
                let pairs = self.bits(&[&[2], shape].concat())?.cast(DType::U64)?;
                let word = pairs.index(0, 0)?.shl(32)?.bitor(&pairs.index(0, 1)?)?;
                return word.shr(11)?.cast(DType::F64)?.mul(2f64.powi(-53));
            }
            DType::F32 => {
                // As JAX and tinygrad do it: the mantissa of a number in 1..2.
                let word = self.bits(shape)?.shr(9)?.bitor(0x3f80_0000)?;
                return word.bitcast(DType::F32)?.sub(1.0);
            }
            DType::F16 => 11,
            DType::BF16 => 8,
            DType::F8E4M3 => 4,
            DType::F8E5M2 => 3,
            _ => return dtype_error("rand", format!("{dtype} is not a float type; use randint")),
        };
        let word = self.bits(shape)?.shr(32 - kept)?;
        word.cast(DType::F32)?
            .mul(2f64.powi(-(kept as i32)))?
            .cast(dtype)
    }

    /// Uniform in `low..high`.
    ///
    /// # Errors
    /// A non-float type.
    pub fn uniform(
        &mut self,
        shape: &[usize],
        low: f64,
        high: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        self.rand(shape, dtype)?.mul(high - low)?.add(low)
    }

    /// Normal with mean 0 and variance 1, by the Box-Muller transform.
    ///
    /// # Errors
    /// A non-float type.
    pub fn randn(&mut self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        if !dtype.is_float() {
            return dtype_error("randn", format!("{dtype} is not a float type"));
        }
        let wide = dtype.accumulator();
        let pair = self.rand(&[&[2], shape].concat(), wide)?;
        let angle = pair.index(0, 0)?.mul(std::f64::consts::TAU)?.cos()?;
        // 1 - u is never 0.
        let radius = pair
            .index(0, 1)?
            .neg()?
            .add(1.0)?
            .log()?
            .mul(-2.0)?
            .sqrt()?;
        angle.mul(&radius)?.cast(dtype)
    }

    /// Normal with a mean and a standard deviation.
    ///
    /// # Errors
    /// A non-float type.
    pub fn normal(&mut self, shape: &[usize], mean: f64, std: f64, dtype: DType) -> Result<Tensor> {
        self.randn(shape, dtype)?.mul(std)?.add(mean)
    }

    /// Integers in `low..high`; the bias is below the width of the range times 2^-32.
    ///
    /// # Errors
    /// An empty range, or one wider than 2^32; a type that is no integer.
    pub fn randint(
        &mut self,
        shape: &[usize],
        low: i64,
        high: i64,
        dtype: DType,
    ) -> Result<Tensor> {
        let width = i128::from(high) - i128::from(low);
        if !(1..=1i128 << 32).contains(&width) {
            return shape_error(
                "randint",
                format!("{low}..{high} is empty, or has more than 2^32 numbers"),
            );
        }
        if !dtype.is_int() {
            return dtype_error("randint", format!("{dtype} is not an integer type"));
        }
        self.bits(shape)?
            .cast(DType::U64)?
            .mul(width as i64)?
            .shr(32)?
            .cast(DType::I64)?
            .add(low)?
            .cast(dtype)
    }

    /// 1 with the probability that `p` gives for each element, else 0, in the type of `p`.
    ///
    /// A device cannot report invalid probabilities: if only it knows them, values below 0 and NaN count as 0,
    /// values above 1 as 1.
    ///
    /// # Errors
    /// Non-float probabilities, or values known to the host outside `0..=1`.
    pub fn bernoulli(&mut self, p: &Tensor) -> Result<Tensor> {
        if !p.dtype().is_float() {
            return dtype_error(
                "bernoulli",
                format!(
                    "expected a float tensor of probabilities, found \
                                {}",
                    p.dtype()
                ),
            );
        }
        chances::check_probabilities("bernoulli", p)?;
        self.rand(p.shape(), p.dtype().accumulator())?
            .lt(&p.cast(p.dtype().accumulator())?)?
            .cast(p.dtype())
    }

    /// The numbers `0..n` in random order, as `I32`; see [`super::sort`].
    ///
    /// # Errors
    /// More numbers than `i32` counts.
    pub fn randperm(&mut self, n: usize) -> Result<Tensor> {
        self.bits(&[n])?.argsort(0, false)
    }

    /// `samples` positions (`I32`) along the last axis, drawn with probabilities proportional to the
    /// weights.
    ///
    /// A device cannot report invalid weights: if only it knows them, weights below 0 and NaN count as 0; a row
    /// with too few weights above 0 yields some positions of weight 0.
    ///
    /// # Errors
    /// No axes; without replacement, more samples than weights. Weights known to the host that are negative, NaN or
    /// infinite, or a row with none above 0, or without replacement fewer than samples.
    pub fn multinomial(
        &mut self,
        weights: &Tensor,
        samples: usize,
        replacement: bool,
    ) -> Result<Tensor> {
        let Some((&n, outer)) = weights.shape().split_last() else {
            return shape_error(
                "multinomial",
                "expected weights with at least one axis".into(),
            );
        };
        chances::check_weights(
            "multinomial",
            weights,
            if replacement { 1 } else { samples },
        )?;
        let w = weights.cast(DType::F32)?;
        if !replacement {
            // The smallest of exponential times with these rates (Efraimidis and Spirakis).
            let u = self.rand(w.shape(), DType::F32)?.neg()?.add(1.0)?;
            let times = u.log()?.neg()?.div(&w)?;
            let times = w.gt(0)?.where_(&times, f64::INFINITY)?;
            return Ok(times.topk(samples, -1, false)?.1);
        }
        if n == 0 {
            return shape_error(
                "multinomial",
                format!("{:?} has no weights", weights.shape()),
            );
        }
        let edges = w.gt(0)?.where_(&w, 0.0)?.cumsum(-1)?;
        let total = edges.narrow(-1, n - 1, 1)?;
        let u = self
            .rand(&[outer, &[samples]].concat(), DType::F32)?
            .mul(&total)?;
        // Edges at or below the draw are passed; the last never is.
        let passed = edges
            .unsqueeze(-2)?
            .le(u.unsqueeze(-1)?)?
            .sum_in(DType::I32, &[-1], false)?;
        passed.minimum(n as i64 - 1)
    }

    /// `x` with elements set to 0 with probability `p`, and the others divided by `1 - p`.
    ///
    /// # Errors
    /// A probability that is not in `0..=1`.
    pub fn dropout(&mut self, x: &Tensor, p: f64) -> Result<Tensor> {
        if !(0.0..=1.0).contains(&p) {
            return shape_error("dropout", format!("probability {p} is not within 0..=1"));
        }
        if p == 0.0 {
            return Ok(x.clone());
        }
        if p == 1.0 {
            return x.mul(0.0);
        }
        let kept = self.rand(x.shape(), DType::F32)?.ge(p)?;
        kept.where_(&x.to_float()?.mul(1.0 / (1.0 - p))?, 0.0)
    }
}
