//! Losses. Targets and predictions broadcast; the result is reduced as asked.

use codegen::DType;
use codegen::interp::scalar;

use super::{dtype_error, shape_error};
use crate::element::Scalar;
use crate::error::Result;
use crate::graph::{Bounds, Tensor};

/// How the losses of elements are reduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reduction {
    /// Their mean (weighted, where there are weights).
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// No reduction.
    None,
}

impl Reduction {
    fn apply(self, losses: &Tensor) -> Result<Tensor> {
        match self {
            Reduction::Mean => losses.mean(&[], false),
            Reduction::Sum => losses.sum(&[], false),
            Reduction::None => Ok(losses.clone()),
        }
    }
}

/// `near` of the errors inside a limit, `far` of the others. Each has no errors of the other kind, which may be
/// infinite:
/// no gradient times an infinite slope is NaN.
fn pieces(
    errors: &Tensor,
    limit: f64,
    inside: &Tensor,
    near: impl FnOnce(&Tensor) -> Result<Tensor>,
    far: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if held(limit, errors.dtype()).is_infinite() {
        return near(errors);
    }
    inside.where_(&near(&inside.where_(errors, 0)?)?, &far(errors)?)
}

/// A number as a type has it.
fn held(x: f64, dtype: DType) -> f64 {
    scalar::to_f64(dtype, Scalar::Float(x).bits(dtype))
}

/// Options of [`Tensor::cross_entropy`] and [`Tensor::nll_loss`].
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// A weight per class, `[c]`.
    pub weight: Option<Tensor>,
    /// Targets with this value are ignored.
    pub ignore: Option<i64>,
    /// Share of the target spread evenly over the classes, 0 to 1.
    pub smoothing: f64,
    /// How the losses are reduced.
    pub reduction: Reduction,
}

impl Classes {
    fn check(&self, op: &'static str) -> Result<()> {
        match (0.0..=1.0).contains(&self.smoothing) {
            true => Ok(()),
            false => {
                let why = format!("smoothing must be within 0 to 1, found {}", self.smoothing);
                shape_error(op, why)
            }
        }
    }
}

impl Tensor {
    /// Negative log likelihood: log-probabilities `[n, c, s..]` at integer targets `[n, s..]`.
    ///
    /// # Errors
    /// Incompatible shapes; targets that are no integers, or known to be neither a class nor the ignored one. Where
    /// only the device knows them, that is an error of the next wait for results, see [`crate::ops::index`].
    pub fn nll_loss(&self, target: &Tensor, options: &Classes) -> Result<Tensor> {
        self.nll("nll_loss", target, options)
    }

    /// [`Tensor::nll_loss`], for whoever asks.
    fn nll(&self, op: &'static str, target: &Tensor, options: &Classes) -> Result<Tensor> {
        let picked = |logs: &Tensor, index: &Tensor| -> Result<Tensor> {
            logs.pick(1, &index.unsqueeze(1)?)?.squeeze(&[1])
        };
        let classes = self.shape().get(1).copied().unwrap_or(0);
        let want: Vec<usize> = (0..self.rank())
            .filter(|&i| i != 1)
            .map(|i| self.shape()[i])
            .collect();
        if self.rank() < 2 || target.shape() != want {
            return shape_error(
                op,
                format!(
                    "predictions {:?}, targets {:?}: expected [n, c, s..] and [n, s..]",
                    self.shape(),
                    target.shape()
                ),
            );
        }
        options.check(op)?;
        if !target.dtype().is_int() {
            return dtype_error(
                op,
                format!("classes must be integers, found {}", target.dtype()),
            );
        }
        let bounds = Bounds {
            op,
            len: classes,
            negative: false,
            ignore: options.ignore,
        };
        let target = &bounds.checked(target)?;
        let weight = match &options.weight {
            Some(weight) if weight.shape() != [classes] => {
                return shape_error(
                    op,
                    format!(
                        "weights have shape {:?}, expected [{classes}]",
                        weight.shape()
                    ),
                );
            }
            Some(weight) => weight.clone(),
            None => Tensor::ones(self.engine(), &[classes], self.dtype())?,
        };
        self.in_f32(|logs| {
            let per_target = weight
                .cast(logs.dtype())?
                .pick(0, &target.flatten(0, -1)?)?;
            let mut w = per_target.reshape(target.shape())?;
            let mut counted = None;
            if let Some(ignored) = options.ignore {
                let keep = target.ne(ignored)?;
                w = w.mul(&keep.cast(logs.dtype())?)?;
                counted = Some(keep);
            }
            // The index of an ignored class may be out of range: it reads 0.
            let mut losses = picked(logs, target)?.neg()?.mul(&w)?;
            if options.smoothing > 0.0 {
                let mut shape = vec![1; logs.rank()];
                shape[1] = classes;
                let per_class = weight.cast(logs.dtype())?.reshape(&shape)?;
                let mut even = logs.mul(&per_class)?.sum(&[1], false)?.neg()?;
                if let Some(keep) = &counted {
                    even = keep.where_(&even, 0.0)?;
                }
                losses = losses
                    .mul(1.0 - options.smoothing)?
                    .add(&even.mul(options.smoothing / classes as f64)?)?;
            }
            // Nothing times an infinite loss would still be NaN.
            if let Some(keep) = &counted {
                losses = keep.where_(&losses, 0.0)?;
            }
            match options.reduction {
                Reduction::Mean => losses.sum(&[], false)?.div(&w.sum(&[], false)?),
                other => other.apply(&losses),
            }
        })
    }

    /// Cross entropy of logits `[n, c, s..]`: targets are classes `[n, s..]` (integers) or
    /// probabilities `[n, c, s..]` (floats).
    ///
    /// # Errors
    /// Incompatible shapes; classes as in [`Tensor::nll_loss`].
    pub fn cross_entropy(&self, target: &Tensor, options: &Classes) -> Result<Tensor> {
        if self.rank() < 2 {
            return shape_error(
                "cross_entropy",
                format!("expected [n, c, s..], found {:?}", self.shape()),
            );
        }
        if !target.dtype().is_float() {
            return self.in_f32(|x| x.log_softmax(1)?.nll("cross_entropy", target, options));
        }
        options.check("cross_entropy")?;
        if target.shape() != self.shape() {
            return shape_error(
                "cross_entropy",
                format!(
                    "logits {:?}, probabilities {:?}: float targets are probabilities of each class; \
                     cast class numbers to an integer",
                    self.shape(),
                    target.shape()
                ),
            );
        }
        let classes = self.shape()[1] as f64;
        self.in_f32(|x| {
            let p = target
                .cast(x.dtype())?
                .mul(1.0 - options.smoothing)?
                .add(options.smoothing / classes)?;
            let mut terms = x.log_softmax(1)?.mul(&p)?;
            if let Some(weight) = &options.weight {
                let mut shape = vec![1; x.rank()];
                shape[1] = x.shape()[1];
                terms = terms.mul(&weight.cast(x.dtype())?.reshape(&shape)?)?;
            }
            options.reduction.apply(&terms.sum(&[1], false)?.neg()?)
        })
    }

    /// Cross entropy of logits whose classes are the last axis; targets are integers.
    ///
    /// # Errors
    /// Incompatible shapes.
    pub fn sparse_categorical_crossentropy(&self, target: &Tensor) -> Result<Tensor> {
        let Some(&classes) = self.shape().last() else {
            return shape_error("sparse_categorical_crossentropy", "no classes".into());
        };
        self.view(&[-1, classes as isize])?
            .cross_entropy(&target.reshape(&[target.numel()])?, &Classes::default())
    }

    /// Binary cross entropy of probabilities; logarithms are limited to -100.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn binary_cross_entropy(&self, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
        self.in_f32(|p| {
            let t = target.cast(p.dtype())?;
            let yes = p.log()?.maximum(-100.0)?.mul(&t)?;
            let not = p.neg()?.add(1.0)?.log()?.maximum(-100.0)?;
            let no = not.mul(&t.neg()?.add(1.0)?)?;
            reduction.apply(&yes.add(&no)?.neg()?)
        })
    }

    /// Binary cross entropy of logits, with a factor for the positive class if given.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn binary_cross_entropy_logits(
        &self,
        target: &Tensor,
        positive: Option<&Tensor>,
        reduction: Reduction,
    ) -> Result<Tensor> {
        self.in_f32(|x| {
            let t = target.cast(x.dtype())?;
            let mut yes = x.logsigmoid()?.mul(&t)?;
            if let Some(positive) = positive {
                yes = yes.mul(&positive.cast(x.dtype())?)?;
            }
            let no = x.neg()?.logsigmoid()?.mul(&t.neg()?.add(1.0)?)?;
            reduction.apply(&yes.add(&no)?.neg()?)
        })
    }

    /// Mean squared error.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn mse_loss(&self, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
        self.in_f32(|x| reduction.apply(&x.sub(&target.cast(x.dtype())?)?.square()?))
    }

    /// Mean absolute error.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn l1_loss(&self, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
        self.in_f32(|x| reduction.apply(&x.sub(&target.cast(x.dtype())?)?.abs()?))
    }

    /// Half the squared error up to `delta`, linear beyond.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn huber_loss(&self, target: &Tensor, delta: f64, reduction: Reduction) -> Result<Tensor> {
        self.in_f32(|x| {
            let d = x.sub(&target.cast(x.dtype())?)?;
            let near = |d: &Tensor| d.square()?.mul(0.5);
            let far = |d: &Tensor| d.abs()?.sub(delta / 2.0)?.mul(delta);
            reduction.apply(&pieces(&d, delta, &d.abs()?.le(delta)?, near, far)?)
        })
    }

    /// Half the squared error over `beta` up to `beta`, linear with slope 1 beyond: [`Tensor::huber_loss`] over `beta`, and
    /// with a `beta` of 0 [`Tensor::l1_loss`].
    ///
    /// # Errors
    /// Shapes that do not broadcast; a `beta` that is negative or NaN.
    pub fn smooth_l1_loss(
        &self,
        target: &Tensor,
        beta: f64,
        reduction: Reduction,
    ) -> Result<Tensor> {
        if beta.is_nan() || beta < 0.0 {
            return shape_error(
                "smooth_l1_loss",
                format!("expected a beta of at least 0, found {beta}"),
            );
        }
        let wide = self.to_float()?.dtype().accumulator();
        if held(beta, wide) == 0.0 {
            return self.l1_loss(target, reduction);
        }
        self.in_f32(|x| {
            let d = x.sub(&target.cast(x.dtype())?)?;
            // The square and 1 over beta may be too small and too large: so the error is scaled before, exactly.
            let scale = 2f64.powi(-(beta.log2() / 2.0).floor().clamp(-600.0, 600.0) as i32);
            let slope = 0.5 / (beta * scale * scale);
            let near = |d: &Tensor| d.mul(scale)?.square()?.mul(slope);
            let far = |d: &Tensor| d.abs()?.sub(beta / 2.0);
            reduction.apply(&pieces(&d, beta, &d.abs()?.lt(beta)?, near, far)?)
        })
    }

    /// Kullback-Leibler divergence of log-probabilities from target probabilities: `t (ln t - x)`,
    /// 0 where t is 0.
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn kl_div(&self, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
        self.in_f32(|x| {
            let t = target.cast(x.dtype())?;
            // Of a negative target the logarithm is NaN, and so is the loss.
            let counts = t.ne(0)?;
            let log = counts.where_(&t, 1.0)?.log()?;
            let terms = counts.where_(&t.mul(&log.sub(x)?)?, 0.0)?;
            reduction.apply(&terms)
        })
    }
}
