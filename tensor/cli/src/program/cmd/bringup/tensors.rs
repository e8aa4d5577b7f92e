//! Steps with tensors: matrix instructions, a training step.

use std::sync::{Arc, Mutex};

use crate::{Observer, Setup};
use codegen::Built;
use drivers::select::DeviceKind;
use hcq::sync::lock;
use tensor::nn::Module;
use tensor::nn::optim::{Adam, Optimizer};
use tensor::{DType, Engine, Tensor};

use super::climb::{Climb, Outcome, compare};
use crate::program::digits;
use crate::program::error::Error;
use crate::program::net::Net;

/// The steps by which each kernel was made.
#[derive(Default)]
struct Steps(Mutex<Vec<String>>);

impl Observer for Steps {
    fn compiled(&self, _: &str, built: &Built) {
        let mut all = lock(&self.0);
        all.extend(built.report.opts.iter().cloned());
    }
}

/// A product of halves, by matrix instructions where there are any.
pub fn matrix(climb: &mut Climb) -> Result<Outcome, Error> {
    const SIDE: usize = 128;
    const DEPTH: usize = 64;
    let target = &climb.opened()?.backend.target;
    let has = |d: &codegen::target::MmaDesc| d.operands == [DType::F16; 2];
    if !target.mma.iter().any(has) {
        let arch = climb.device()?.info().arch.clone();
        let why = format!("{arch} has no supported matrix instructions for f16");
        return Ok(Outcome::Skipped(why));
    }
    let steps = Arc::new(Steps::default());
    let device = climb.device()?;
    let setup = climb.patient();
    let engine = setup.observe(steps.clone()).open_on(device)?.engine;
    let halves = |values: &[f32], shape: &[usize]| -> Result<Tensor, Error> {
        let t = Tensor::from_slice(&engine, values, shape)?.cast(DType::F16)?;
        t.realize()?;
        Ok(t)
    };
    // Whole numbers that halves have: every order of the sums gives the same.
    let a: Vec<f32> = (0..SIDE * DEPTH).map(|i| (i % 5) as f32).collect();
    let b: Vec<f32> = (0..DEPTH * SIDE).map(|i| (i % 3) as f32).collect();
    let product = halves(&a, &[SIDE, DEPTH])?.matmul(&halves(&b, &[DEPTH, SIDE])?)?;
    product.realize()?;
    let found = product.cast(DType::F32)?.to_vec::<f32>()?;
    let sums = |i: usize| {
        let (row, col) = (i / SIDE, i % SIDE);
        (0..DEPTH)
            .map(|k| a[row * DEPTH + k] * b[k * SIDE + col])
            .sum()
    };
    let expected: Vec<f32> = (0..SIDE * SIDE).map(sums).collect();
    compare("product of halves", &found, &expected)?;
    let steps = lock(&steps.0);
    let waves = steps.iter().find(|step| step.contains("waves "));
    match waves {
        Some(step) => Ok(Outcome::Passed(vec![format!(
            "{SIDE}x{DEPTH} by {DEPTH}x{SIDE} halves: {step}"
        )])),
        None => Ok(Outcome::Skipped(format!(
            "the product is correct, but no matrix instructions were used: {}",
            steps.join("; ")
        ))),
    }
}

/// The losses of a few steps of the demonstration.
fn losses(engine: &Engine) -> Result<Vec<f32>, Error> {
    const IMAGES: usize = 16;
    const STEPS: usize = 3;
    let (train, _) = digits::load(7)?;
    let set = train.pick(&(0..IMAGES).collect::<Vec<_>>());
    let net = Net::new(engine, 7)?;
    let mut adam = Adam::with_lr(net.trainable(), 2e-3)?;
    let x = Tensor::from_slice(engine, &set.images, &[IMAGES, 1, 8, 8])?;
    let y = Tensor::from_slice(engine, &set.labels, &[IMAGES])?;
    let mut all = Vec::new();
    for _ in 0..STEPS {
        let loss = net.loss(&x, &y)?;
        adam.minimize(&loss)?;
        all.push(loss.item::<f32>()?);
    }
    Ok(all)
}

/// Three steps of a training: the loss falls, and is that of the CPU.
pub fn training(climb: &mut Climb) -> Result<Outcome, Error> {
    climb.close_engine();
    let found = losses(&climb.opened()?.engine)?;
    if !found.is_sorted_by(|a, b| a > b) {
        return Err(Error::Check(format!(
            "the losses of three training steps are {found:?}, expected decreasing values"
        )));
    }
    if climb.setup.target().device == DeviceKind::Cpu {
        return Ok(Outcome::Passed(vec![format!("losses {found:?}")]));
    }
    let cpu = Setup::of("CPU")?.timeout(climb.limit).open()?;
    let expected = losses(&cpu.engine)?;
    // Sums in another order, through as many steps of Adam.
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-3 * b.abs();
    match found.iter().zip(&expected).all(near) {
        true => Ok(Outcome::Passed(vec![format!(
            "losses {found:?}, CPU {expected:?}"
        )])),
        false => Err(Error::Check(format!(
            "losses {found:?}, expected {expected:?} (CPU) within 0.1 %"
        ))),
    }
}
