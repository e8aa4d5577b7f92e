//! Optimizers. A step sets new values lazily; [`super::commit`] computes them all at once.
//!
//! Moments and updates are computed in at least `f32`, whatever the type of the parameter. The
//! learning rate is a value in memory, so a captured step follows a schedule.
//!
//! [`super::state::Checkpoint`] saves and loads optimizer state. [`clip_grad_norm`] and [`clip_grad_value`] clip
//! gradients before a step.

mod clip;

use super::{Parameter, distinct};
use crate::autograd::dependence;
use crate::error::{Error, Result};
use crate::graph::Tensor;
use crate::jit::tracing::is_capturing;
use crate::ops::shape_error;
use crate::param::{commit_with, set_by_this_thread};
pub use clip::{clip_grad_norm, clip_grad_value};

/// A part of the state of an optimizer, with its name in files.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its name, as in PyTorch where it exists there.
    pub name: &'static str,
    /// Index of its parameter in [`Optimizer::parameters`]; `None` if it belongs to all: one value, or one for
    /// each, in order.
    pub of: Option<usize>,
    /// The value.
    pub cell: Parameter,
}

/// One slot for each of the parameters, in order.
fn slots_of_each<'a>(
    name: &'static str,
    cells: &'a [Parameter],
) -> impl Iterator<Item = Slot> + 'a {
    cells.iter().enumerate().map(move |(i, cell)| Slot {
        name,
        of: Some(i),
        cell: cell.clone(),
    })
}

/// A slot that belongs to all parameters.
fn slot(name: &'static str, cell: &Parameter) -> Slot {
    Slot {
        name,
        of: None,
        cell: cell.clone(),
    }
}

/// Changes gradients before a step, see [`Optimizer::minimize_with`].
pub type Change<'a> = dyn FnMut(Vec<Tensor>) -> Result<Vec<Tensor>> + 'a;

/// Updates parameters along their gradients. A duplicate parameter is updated once.
pub trait Optimizer {
    /// What it changes.
    fn parameters(&self) -> &[Parameter];

    /// The learning rate, a number in `f32`.
    fn rate(&self) -> &Parameter;

    /// Sets new values of the parameters and of its own state, lazily.
    ///
    /// # Errors
    /// Another number of gradients than parameters; shapes that differ, or engines. Then nothing is set.
    fn step(&mut self, gradients: &[Tensor]) -> Result<()> {
        self.step_some(&gradients.iter().cloned().map(Some).collect::<Vec<_>>())
    }

    /// [`Optimizer::step`] that leaves parameters without a gradient, and what is kept of them, as they are.
    ///
    /// # Errors
    /// As there.
    fn step_some(&mut self, gradients: &[Option<Tensor>]) -> Result<()>;

    /// What it keeps from step to step besides the parameters, the learning rate included.
    fn slots(&self) -> Vec<Slot>;

    /// Everything that a step sets, to be committed together. Running statistics of [`super::BatchNorm`] are not the
    /// optimizer's: they are computed by [`Optimizer::minimize`], or with `commit(module.parameters().map(..))`.
    fn state(&self) -> Vec<Parameter> {
        let slots = self.slots().into_iter().map(|slot| slot.cell);
        self.parameters().iter().cloned().chain(slots).collect()
    }

    /// A new learning rate, lazily. A captured function follows it if it is set outside: keep a clone of
    /// [`Optimizer::rate`] for that, and set it before the call.
    ///
    /// # Errors
    /// A negative rate, or NaN. In a captured function, whose replays would all set this number.
    fn set_rate(&mut self, rate: f64) -> Result<()> {
        if is_capturing() {
            return Err(Error::Capture {
                what: format!(
                    "set_rate({rate}) inside a captured function: every replay would use this number. \
                     Set a clone of `rate()` before the call, or pass the rate as an input"
                ),
            });
        }
        not_negative("set_rate", [("rate", rate)])?;
        let cell = self.rate();
        cell.set(number(cell.get().engine(), rate)?)
    }

    /// One step down the loss, computed, with the loss itself: read it before or after the step, it is
    /// that of the parameters it was made of. What else this thread has set and not committed (running
    /// statistics of [`super::BatchNorm`]) is computed, too.
    ///
    /// The graph of the loss is given up, as PyTorch's `backward` does it: the loss keeps its value and
    /// has no gradient any more. For several optimizers over one loss take [`crate::gradients`] once, and give
    /// each its part by [`Optimizer::step`].
    ///
    /// Parameters that the loss does not depend on stay as they are, without decay and momentum, as in PyTorch.
    ///
    /// In a captured function ([`crate::Jit`]) the step is a part of each call.
    ///
    /// # Errors
    /// From differentiation, from compiling, or from the device. A loss whose graph was given up, or that
    /// depends on none of the parameters.
    fn minimize(&mut self, loss: &Tensor) -> Result<()> {
        self.minimize_with(loss, &mut Ok)
    }

    /// [`Optimizer::minimize`] with gradients that are changed before the step: limited, scaled, with noise.
    ///
    /// ```
    /// # use tensor::nn::{Optimizer, optim::clip_grad_norm};
    /// # fn step(adam: &mut impl Optimizer, loss: &tensor::Tensor) -> tensor::Result<()> {
    /// adam.minimize_with(loss, &mut |gradients| Ok(clip_grad_norm(&gradients, 1.0)?.0))
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Optimizer::minimize`]; those of `change`; another number of gradients than there were.
    fn minimize_with(&mut self, loss: &Tensor, change: &mut Change) -> Result<()> {
        {
            let values: Vec<Tensor> = self.parameters().iter().map(Parameter::get).collect();
            let (slopes, depends) = slopes(loss, &values)?;
            let slopes = change(slopes)?;
            if slopes.len() != depends.len() {
                return count_error("minimize", slopes.len(), depends.len());
            }
            let slopes = slopes.into_iter().zip(depends);
            self.step_some(&slopes.map(|(g, d)| d.then_some(g)).collect::<Vec<_>>())?;
            // They go before the parameters are computed: who holds an old value keeps its memory.
        }
        if is_capturing() {
            return Ok(());
        }
        let mut all = self.state();
        all.extend(set_by_this_thread());
        let loss = std::slice::from_ref(loss);
        commit_with(loss, &all, loss)
    }
}

/// The gradients of a loss, which has to have some, and which of them it depends on; the others are zeros.
fn slopes(loss: &Tensor, values: &[Tensor]) -> Result<(Vec<Tensor>, Vec<bool>)> {
    let found = dependence(loss, &values.iter().collect::<Vec<_>>())?;
    if found.iter().all(Option::is_none) {
        return shape_error(
            "minimize",
            format!(
                "the loss {loss:?} depends on none of the {} parameters of this optimizer (the first \
                 has shape {:?}): compute it from `Parameter::get`, without `detach` or integer steps, \
                 and outside `no_grad`",
                values.len(),
                values.first().map_or(&[][..], Tensor::shape)
            ),
        );
    }
    let depends = found.iter().map(Option::is_some).collect();
    let all = found.into_iter().zip(values);
    let all = all.map(|(slope, value)| slope.map_or_else(|| value.zeros_like(), Ok));
    Ok((all.collect::<Result<_>>()?, depends))
}

/// New values of parameters and state, which are set once all of them are there: a step that fails has set none.
#[derive(Default)]
struct News(Vec<(Parameter, Tensor)>);

impl News {
    fn of(&mut self, cell: &Parameter, value: Tensor) {
        self.0.push((cell.clone(), value));
    }

    fn set(self) -> Result<()> {
        let mut all = self.0.into_iter();
        all.try_for_each(|(cell, value)| cell.set(value))
    }
}

fn number(engine: &crate::Engine, x: f64) -> Result<Tensor> {
    Tensor::from_slice(engine, &[x as f32], &[])
}

fn check(op: &'static str, parameters: &[Parameter], gradients: &[Option<Tensor>]) -> Result<()> {
    if parameters.len() != gradients.len() {
        return count_error(op, gradients.len(), parameters.len());
    }
    for (i, (p, g)) in parameters.iter().zip(gradients).enumerate() {
        let shape = p.like().shape().to_vec();
        if let Some(g) = g.as_ref().filter(|g| g.shape() != shape) {
            return shape_error(
                op,
                format!(
                    "gradient {i} has shape {:?}, its parameter {shape:?}",
                    g.shape()
                ),
            );
        }
    }
    Ok(())
}

fn count_error<T>(op: &'static str, gradients: usize, parameters: usize) -> Result<T> {
    shape_error(
        op,
        format!(
            "{gradients} gradients for {parameters} parameters; pass one per parameter, in order"
        ),
    )
}

/// A zero for each parameter, in at least `f32`.
fn moments(parameters: &[Parameter]) -> Result<Vec<Parameter>> {
    parameters
        .iter()
        .map(|p| {
            let p = p.get();
            let zeros = Tensor::zeros(p.engine(), p.shape(), p.dtype().accumulator())?;
            Ok(Parameter::buffer(zeros))
        })
        .collect()
}

/// The numbers of the parameters.
fn places(parameters: &[Parameter]) -> Result<Vec<Tensor>> {
    let all = parameters.iter().zip(0i32..);
    all.map(|(p, i)| Tensor::from_slice(p.like().engine(), &[i], &[1]))
        .collect()
}

/// Numbers of which none is negative or NaN.
fn not_negative<const N: usize>(op: &'static str, numbers: [(&str, f64); N]) -> Result<()> {
    let wrong = numbers.into_iter().find(|(_, x)| x.is_nan() || *x < 0.0);
    match wrong {
        Some((name, x)) => shape_error(op, format!("{name} is {x}: expected 0 or more")),
        None => Ok(()),
    }
}

/// The rate on the engine of the parameters.
fn rate_of(op: &'static str, parameters: &[Parameter], rate: f64) -> Result<Parameter> {
    not_negative(op, [("rate", rate)])?;
    match parameters.first() {
        Some(first) => Ok(Parameter::buffer(number(first.get().engine(), rate)?)),
        None => shape_error(op, "no parameters to optimize".into()),
    }
}

/// Stochastic gradient descent, with momentum, Nesterov's variant and weight decay.
#[derive(Clone, Debug)]
pub struct Sgd {
    parameters: Vec<Parameter>,
    velocity: Vec<Parameter>,
    rate: Parameter,
    momentum: f64,
    nesterov: bool,
    decay: f64,
}

impl Sgd {
    /// Plain descent, without momentum and decay.
    ///
    /// # Errors
    /// No parameters; numbers out of range.
    pub fn plain(parameters: Vec<Parameter>, rate: f64) -> Result<Sgd> {
        Sgd::new(parameters, rate, 0.0, false, 0.0)
    }

    /// Over parameters; momentum 0 keeps no state.
    ///
    /// # Errors
    /// No parameters; numbers out of range.
    pub fn new(
        parameters: Vec<Parameter>,
        rate: f64,
        momentum: f64,
        nesterov: bool,
        decay: f64,
    ) -> Result<Sgd> {
        not_negative("Sgd", [("momentum", momentum), ("decay", decay)])?;
        let parameters = distinct(parameters);
        let velocity = match momentum == 0.0 {
            true => Vec::new(),
            false => moments(&parameters)?,
        };
        Ok(Sgd {
            rate: rate_of("Sgd", &parameters, rate)?,
            velocity,
            parameters,
            momentum,
            nesterov,
            decay,
        })
    }
}

impl Optimizer for Sgd {
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn rate(&self) -> &Parameter {
        &self.rate
    }

    fn step_some(&mut self, gradients: &[Option<Tensor>]) -> Result<()> {
        check("Sgd", &self.parameters, gradients)?;
        let mut news = News::default();
        for (i, (parameter, g)) in self.parameters.iter().zip(gradients).enumerate() {
            let Some(g) = g else { continue };
            let p = parameter.get().detach()?;
            let wide = p.dtype().accumulator();
            let mut g = g.cast(wide)?;
            let x = p.cast(wide)?;
            if self.decay != 0.0 {
                g = g.add(&x.mul(self.decay)?)?;
            }
            if let Some(velocity) = self.velocity.get(i) {
                let v = velocity.get().mul(self.momentum)?.add(&g)?;
                news.of(velocity, v.clone());
                g = if self.nesterov {
                    g.add(&v.mul(self.momentum)?)?
                } else {
                    v
                };
            }
            let rate = self.rate.get().cast(wide)?;
            news.of(parameter, x.sub(&g.mul(&rate)?)?.cast(p.dtype())?);
        }
        news.set()
    }

    fn slots(&self) -> Vec<Slot> {
        let mut slots: Vec<Slot> = slots_of_each("momentum_buffer", &self.velocity).collect();
        slots.push(slot("lr", &self.rate));
        slots
    }
}

/// The two moments of Adam and its relatives, with the weight that each has gathered.
#[derive(Clone, Debug)]
struct Moments {
    first: Vec<Parameter>,
    second: Vec<Parameter>,
    /// 1 - beta^t of both for each parameter, `[parameters]`, which correct the bias of the zeros at the start. Kept in
    /// this form, because the difference would lose the digits that a beta near 1 leaves.
    gathered: [Parameter; 2],
    /// The place of each parameter in these, `[1]`, in memory: kernels of equal parameters are one.
    places: Vec<Tensor>,
    /// How many steps each parameter made, `[parameters]`, in `f32` as PyTorch counts them.
    step: Parameter,
    betas: (f64, f64),
    eps: f64,
}

impl Moments {
    fn new(
        op: &'static str,
        parameters: &[Parameter],
        betas: (f64, f64),
        eps: f64,
    ) -> Result<Moments> {
        not_negative(op, [("eps", eps)])?;
        if [betas.0, betas.1]
            .iter()
            .any(|beta| !(0.0..1.0).contains(beta))
        {
            return shape_error(op, format!("betas {betas:?}: each must be within 0..1"));
        }
        let zero = || {
            let rate = rate_of(op, parameters, 0.0)?;
            let rate = rate.get();
            let zeros = Tensor::zeros(rate.engine(), &[parameters.len()], rate.dtype())?;
            Ok::<_, Error>(Parameter::buffer(zeros))
        };
        Ok(Moments {
            first: moments(parameters)?,
            second: moments(parameters)?,
            gathered: [zero()?, zero()?],
            places: places(parameters)?,
            step: zero()?,
            betas,
            eps,
        })
    }

    /// Counts the step, and advances the gathered weights, of the parameters with a gradient; call once per step,
    /// before [`Moments::direction`].
    fn advance(&self, gradients: &[Option<Tensor>], news: &mut News) -> Result<[Tensor; 2]> {
        let with: Vec<bool> = gradients.iter().map(Option::is_some).collect();
        let mut next = |cell: &Parameter, factor: f64, more: f64| -> Result<Tensor> {
            let old = cell.get();
            let mut value = old.mul(factor)?.add(more)?;
            if with.contains(&false) {
                let with = Tensor::from_slice(old.engine(), &with, &[with.len()])?;
                value = with.where_(&value, &old)?;
            }
            news.of(cell, value.clone());
            Ok(value)
        };
        let (b1, b2) = self.betas;
        next(&self.step, 1.0, 1.0)?;
        Ok([
            next(&self.gathered[0], b1, 1.0 - b1)?,
            next(&self.gathered[1], b2, 1.0 - b2)?,
        ])
    }

    /// The corrected first moment over the root of the corrected second.
    fn direction(
        &self,
        i: usize,
        g: &Tensor,
        gathered: &[Tensor; 2],
        news: &mut News,
    ) -> Result<Tensor> {
        let (b1, b2) = self.betas;
        let m = self.first[i].get().mul(b1)?.add(&g.mul(1.0 - b1)?)?;
        let v = self.second[i]
            .get()
            .mul(b2)?
            .add(&g.square()?.mul(1.0 - b2)?)?;
        news.of(&self.first[i], m.clone());
        news.of(&self.second[i], v.clone());
        let place = &self.places[i];
        let of = |gathered: &Tensor| gathered.pick(0, place)?.reshape(&[])?.cast(g.dtype());
        let m = m.div(&of(&gathered[0])?)?;
        let v = v.div(&of(&gathered[1])?)?;
        m.div(&v.sqrt()?.add(self.eps)?)
    }

    fn slots(&self) -> Vec<Slot> {
        let mut slots: Vec<Slot> = slots_of_each("exp_avg", &self.first)
            .chain(slots_of_each("exp_avg_sq", &self.second))
            .collect();
        slots.push(slot("step", &self.step));
        slots.push(slot("gathered.0", &self.gathered[0]));
        slots.push(slot("gathered.1", &self.gathered[1]));
        slots
    }
}

/// Adam. [`AdamW`] is the one with decoupled weight decay.
#[derive(Clone, Debug)]
pub struct Adam {
    parameters: Vec<Parameter>,
    moments: Moments,
    rate: Parameter,
    decay: f64,
    decoupled: bool,
}

impl Adam {
    /// Adam with the usual numbers: betas 0.9 and 0.999, eps 1e-8, no decay.
    ///
    /// # Errors
    /// No parameters; numbers out of range.
    pub fn with_lr(parameters: Vec<Parameter>, rate: f64) -> Result<Adam> {
        Adam::new(parameters, rate, (0.9, 0.999), 1e-8, 0.0)
    }

    /// Adam with weight decay as a part of the gradient.
    ///
    /// # Errors
    /// No parameters; numbers out of range.
    pub fn new(
        parameters: Vec<Parameter>,
        rate: f64,
        betas: (f64, f64),
        eps: f64,
        decay: f64,
    ) -> Result<Adam> {
        not_negative("Adam", [("decay", decay)])?;
        let parameters = distinct(parameters);
        Ok(Adam {
            rate: rate_of("Adam", &parameters, rate)?,
            moments: Moments::new("Adam", &parameters, betas, eps)?,
            parameters,
            decay,
            decoupled: false,
        })
    }
}

/// AdamW: [`Adam`] whose weights shrink by `rate * decay` beside the step.
pub struct AdamW(Adam);

impl AdamW {
    /// AdamW with the usual numbers: betas 0.9 and 0.999, eps 1e-8, decay 0.01.
    ///
    /// # Errors
    /// As [`AdamW::new`].
    pub fn with_lr(parameters: Vec<Parameter>, rate: f64) -> Result<AdamW> {
        AdamW::new(parameters, rate, (0.9, 0.999), 1e-8, 0.01)
    }

    /// One with these numbers.
    ///
    /// # Errors
    /// No parameters; numbers out of range.
    pub fn new(
        parameters: Vec<Parameter>,
        rate: f64,
        betas: (f64, f64),
        eps: f64,
        decay: f64,
    ) -> Result<AdamW> {
        Ok(AdamW(Adam {
            decoupled: true,
            ..Adam::new(parameters, rate, betas, eps, decay)?
        }))
    }
}

impl Optimizer for AdamW {
    fn parameters(&self) -> &[Parameter] {
        self.0.parameters()
    }

    fn rate(&self) -> &Parameter {
        self.0.rate()
    }

    fn step_some(&mut self, gradients: &[Option<Tensor>]) -> Result<()> {
        self.0.step_some(gradients)
    }

    fn slots(&self) -> Vec<Slot> {
        self.0.slots()
    }
}

impl Optimizer for Adam {
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn rate(&self) -> &Parameter {
        &self.rate
    }

    fn step_some(&mut self, gradients: &[Option<Tensor>]) -> Result<()> {
        check("Adam", &self.parameters, gradients)?;
        let mut news = News::default();
        let gathered = self.moments.advance(gradients, &mut news)?;
        for (i, (parameter, g)) in self.parameters.iter().zip(gradients).enumerate() {
            let Some(g) = g else { continue };
            let p = parameter.get().detach()?;
            let wide = p.dtype().accumulator();
            let x = p.cast(wide)?;
            let mut g = g.cast(wide)?;
            if self.decay != 0.0 && !self.decoupled {
                g = g.add(&x.mul(self.decay)?)?;
            }
            let mut step = self.moments.direction(i, &g, &gathered, &mut news)?;
            if self.decay != 0.0 && self.decoupled {
                step = step.add(&x.mul(self.decay)?)?;
            }
            let rate = self.rate.get().cast(wide)?;
            news.of(parameter, x.sub(&step.mul(&rate)?)?.cast(p.dtype())?);
        }
        news.set()
    }

    fn slots(&self) -> Vec<Slot> {
        let mut slots = self.moments.slots();
        slots.push(slot("lr", &self.rate));
        slots
    }
}

/// LAMB: Adam's direction, scaled for each parameter by the ratio of its norm to the step's.
#[derive(Clone, Debug)]
pub struct Lamb {
    parameters: Vec<Parameter>,
    moments: Moments,
    rate: Parameter,
    decay: f64,
}

impl Lamb {
    /// Over parameters.
    ///
    /// # Errors
    /// No parameters; numbers out of range.
    pub fn new(
        parameters: Vec<Parameter>,
        rate: f64,
        betas: (f64, f64),
        eps: f64,
        decay: f64,
    ) -> Result<Lamb> {
        not_negative("Lamb", [("decay", decay)])?;
        let parameters = distinct(parameters);
        Ok(Lamb {
            rate: rate_of("Lamb", &parameters, rate)?,
            moments: Moments::new("Lamb", &parameters, betas, eps)?,
            parameters,
            decay,
        })
    }
}

impl Optimizer for Lamb {
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn rate(&self) -> &Parameter {
        &self.rate
    }

    fn step_some(&mut self, gradients: &[Option<Tensor>]) -> Result<()> {
        check("Lamb", &self.parameters, gradients)?;
        let mut news = News::default();
        let gathered = self.moments.advance(gradients, &mut news)?;
        for (i, (parameter, g)) in self.parameters.iter().zip(gradients).enumerate() {
            let Some(g) = g else { continue };
            let p = parameter.get().detach()?;
            let wide = p.dtype().accumulator();
            let x = p.cast(wide)?;
            let mut step = self
                .moments
                .direction(i, &g.cast(wide)?, &gathered, &mut news)?;
            if self.decay != 0.0 {
                step = step.add(&x.mul(self.decay)?)?;
            }
            // The ratio is 1 where either norm is 0.
            let (own, of_step) = (x.norm(2.0, &[], false)?, step.norm(2.0, &[], false)?);
            let both = own.gt(0)?.bitand(&of_step.gt(0)?)?;
            let safe = both.where_(&of_step, 1.0)?;
            let ratio = both.where_(&own.div(&safe)?, 1.0)?;
            let rate = self.rate.get().cast(wide)?.mul(&ratio)?;
            news.of(parameter, x.sub(&step.mul(&rate)?)?.cast(p.dtype())?);
        }
        news.set()
    }

    fn slots(&self) -> Vec<Slot> {
        let mut slots = self.moments.slots();
        slots.push(slot("lr", &self.rate));
        slots
    }
}
