//! Training runs: what they save and go on from, what limits their gradients, what they hold.
use crate::support;

use std::path::Path;

use support::engine;
use tensor::exec::DeviceExecutor;
use tensor::nn::conv::{Channels, Conv};
use tensor::nn::linear::Linear;
use tensor::nn::norm::BatchNorm;
use tensor::nn::optim::{clip_grad_norm, clip_grad_value};
use tensor::nn::state::{self, Checkpoint};
use tensor::nn::{Adam, AdamW, Dropout, Lamb, Module, Optimizer, Sgd, commit, part};
use tensor::ops::conv::ConvParams;
use tensor::ops::loss::Classes;
use tensor::{DType, Engine, Jit, Parameter, Result, Rng, Tensor, gradients, no_grad};

struct Net(Linear, Linear);

impl Module for Net {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        [part("first", &self.0), part("second", &self.1)].concat()
    }
}

impl Net {
    fn new(rng: &mut Rng) -> Net {
        let first = Linear::new(rng, 6, 16, true, DType::F32).unwrap();
        Net(first, Linear::new(rng, 16, 1, true, DType::F32).unwrap())
    }

    fn loss(&self, x: &Tensor, rng: &mut Rng) -> Result<Tensor> {
        let hidden = self.0.forward(x)?.tanh()?;
        let hidden = Dropout { p: 0.3 }.forward(&hidden, Some(rng))?;
        let off = self.1.forward(&hidden)?.sub(&x.sum(&[1], true)?)?;
        off.square()?.mean(&[], false)
    }
}

fn batch(e: &Engine, step: usize) -> Tensor {
    let values: Vec<f32> = (0..48).map(|i| ((i * 7 + step * 5) as f32).sin()).collect();
    Tensor::from_slice(e, &values, &[8, 6]).unwrap()
}

type Make = fn(Vec<Parameter>) -> Result<Box<dyn Optimizer>>;

/// A training run of ten steps, five to a part. The rate is halved between the parts.
struct Run<'a> {
    engine: &'a Engine,
    make: Make,
    captured: bool,
}

impl Run<'_> {
    /// The losses, as bits, of a net of a seed: from a file, if there is one, and to one.
    fn losses(
        &self,
        seed: u64,
        steps: std::ops::Range<usize>,
        from: Option<&Path>,
        to: &Path,
    ) -> Vec<u32> {
        let mut rng = Rng::new(self.engine, seed);
        let net = Net::new(&mut rng);
        let mut optimizer = (self.make)(net.trainable()).unwrap();
        let all = Checkpoint::of(&net).optimizer("optimizer", &*optimizer);
        let all = all.unwrap().rng("rng", &rng);
        if let Some(from) = from {
            all.load(from).unwrap();
        }
        let rate = optimizer.rate().clone();
        let mut step = |x: &[Tensor]| {
            let loss = net.loss(&x[0], &mut rng)?;
            optimizer.minimize(&loss)?;
            Ok(vec![loss])
        };
        let captured_step;
        let mut call: Box<dyn FnMut(Tensor) -> Result<Vec<Tensor>>> = match self.captured {
            true => {
                captured_step = Jit::new(self.engine, step);
                Box::new(|x| captured_step.call(&[x]))
            }
            false => Box::new(move |x| step(&[x])),
        };
        let mut losses = Vec::new();
        for i in steps {
            let loss = call(batch(self.engine, i)).unwrap();
            losses.push(loss[0].item::<f32>().unwrap().to_bits());
            if i == 4 {
                rate.set(rate.get().mul(0.5).unwrap()).unwrap();
            }
        }
        all.save(to).unwrap();
        losses
    }
}

#[test]
fn a_resumed_run_has_the_bits_of_one_that_went_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let engine = &engine();
    let makes: [Make; 4] = [
        |p| Ok(Box::new(Adam::with_lr(p, 0.01)?)),
        |p| Ok(Box::new(Sgd::new(p, 0.05, 0.9, true, 1e-3)?)),
        |p| Ok(Box::new(AdamW::new(p, 0.01, (0.9, 0.99), 1e-8, 0.1)?)),
        |p| Ok(Box::new(Lamb::new(p, 0.01, (0.9, 0.999), 1e-6, 0.01)?)),
    ];
    for (i, make) in makes.into_iter().enumerate() {
        for captured in [false, true] {
            let run = Run {
                engine,
                make,
                captured,
            };
            if captured && i > 1 {
                continue;
            }
            let whole = run.losses(1, 0..10, None, &path("whole"));
            let half = run.losses(1, 0..5, None, &path("half"));
            let rest = run.losses(99, 5..10, Some(&path("half")), &path("end"));
            assert_eq!(whole, [half, rest].concat(), "{i} {captured}");
            let bytes = |name: &str| std::fs::read(path(name)).unwrap();
            assert_eq!(bytes("whole"), bytes("end"), "{i} {captured}");
        }
    }
}

#[test]
fn a_checkpoint_has_names_and_the_number_of_steps() {
    let e = engine();
    let mut rng = Rng::new(&e, 1);
    let net = Net::new(&mut rng);
    let mut adam = Adam::with_lr(net.trainable(), 0.01).unwrap();
    let all = Checkpoint::of(&net).optimizer("optimizer", &adam).unwrap();
    let all = all.rng("rng", &rng);
    for i in 0..3 {
        let loss = net.loss(&batch(&e, i), &mut rng).unwrap();
        adam.minimize(&loss).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    all.save(&path).unwrap();
    let tensors = state::load_tensors(&e, &path).unwrap();
    let steps = tensors["optimizer.step"].to_vec::<f32>().unwrap();
    assert_eq!(steps, [3.0; 4]);
    let moment = &tensors["optimizer.first.weight.exp_avg_sq"];
    assert_eq!(moment.shape(), [16, 6]);
    assert_eq!(tensors["rng"].to_vec::<u32>().unwrap(), rng.state());
    // The module alone, as before.
    let other = Net::new(&mut rng);
    state::load(&other, &path).unwrap();
    let weight = |net: &Net| net.0.weight.get().to_vec::<f32>().unwrap();
    assert_eq!(weight(&other), weight(&net));
    // What the file lacks is named, and nothing is changed.
    let sgd = Sgd::new(other.trainable(), 0.5, 0.9, false, 0.0).unwrap();
    let wants = Checkpoint::of(&other).optimizer("optimizer", &sgd).unwrap();
    let error = wants.load(&path).unwrap_err().to_string();
    assert!(
        error.contains("optimizer.first.weight.momentum_buffer"),
        "{error}"
    );
    assert_eq!(sgd.rate().get().item::<f32>().unwrap(), 0.5);
    let error = Checkpoint::of(&net.0)
        .optimizer("optimizer", &adam)
        .unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("parameter 2") && error.contains("[1, 16]"),
        "{error}"
    );
}

#[test]
fn a_loss_of_none_of_the_parameters_is_refused() {
    let e = engine();
    let w = Parameter::new(Tensor::from_slice(&e, &[1f32, 2.0], &[2]).unwrap());
    let other = Parameter::new(Tensor::from_slice(&e, &[3f32], &[1]).unwrap());
    let mut sgd = Sgd::plain(vec![w.clone()], 0.5).unwrap();
    let losses = [
        other.get().square().unwrap(),
        w.get().detach().unwrap().square().unwrap(),
        no_grad(|| w.get().square()).unwrap(),
    ];
    for loss in losses {
        let loss = loss.sum(&[], false).unwrap();
        let error = sgd.minimize(&loss).unwrap_err().to_string();
        assert!(
            error.contains("depends on none of the 1 parameters") && error.contains("[2]"),
            "{error}"
        );
    }
    assert_eq!(w.get().to_vec::<f32>().unwrap(), [1.0, 2.0]);
    // One of two is enough.
    let mut both = Sgd::plain(vec![w.clone(), other.clone()], 0.5).unwrap();
    both.minimize(&other.get().sum(&[], false).unwrap())
        .unwrap();
    assert_eq!(other.get().to_vec::<f32>().unwrap(), [2.5]);
}

#[test]
fn gradients_are_limited_on_their_way_to_a_step() {
    let e = engine();
    let new = |x: &[f32]| Parameter::new(Tensor::from_slice(&e, x, &[x.len()]).unwrap());
    for captured in [false, true] {
        let (a, b) = (new(&[0.0, 0.0]), new(&[0.0]));
        let mut sgd = Sgd::plain(vec![a.clone(), b.clone()], 1.0).unwrap();
        let (left, right) = (a.clone(), b.clone());
        let step = move |x: &[Tensor]| {
            // The gradients are 3 x, 4 x and 12 x.
            let wide = Tensor::new(x[0].engine(), [3f32, 4.0])?;
            let loss = left.get().mul(&wide)?.sum(&[], false)?;
            let loss = loss
                .add(&right.get().mul(12)?.sum(&[], false)?)?
                .mul(&x[0])?;
            let mut norm = None;
            sgd.minimize_with(&loss, &mut |gradients| {
                let (limited, total) = clip_grad_norm(&gradients, 1.3)?;
                norm = Some(total);
                Ok(limited)
            })?;
            Ok(norm.into_iter().collect::<Vec<_>>())
        };
        let call = |x: f32| Tensor::new(&e, x).unwrap();
        let mut norms = Vec::new();
        if captured {
            let step = Jit::new(&e, step);
            norms.extend([1.0, 0.05].map(|x| step.call(&[call(x)]).unwrap()));
        } else {
            let mut step = step;
            norms.extend([1.0, 0.05].map(|x| step(&[call(x)]).unwrap()));
        }
        let norms: Vec<f32> = norms.iter().map(|n| n[0].item().unwrap()).collect();
        assert!(
            (norms[0] - 13.0).abs() < 1e-4 && (norms[1] - 0.65).abs() < 1e-5,
            "{norms:?}"
        );
        // A tenth of the first, all of the second.
        let found = [a.get().to_vec::<f32>().unwrap(), b.get().to_vec().unwrap()].concat();
        let want = [-0.3 - 0.15, -0.4 - 0.2, -1.2 - 0.6];
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
        assert!(found.iter().zip(&want).all(near), "{found:?}");
    }
    let g = Tensor::from_slice(&e, &[-3f32, 0.5, 2.0], &[3]).unwrap();
    let limited = clip_grad_value(std::slice::from_ref(&g), 1.0).unwrap();
    assert_eq!(limited[0].to_vec::<f32>().unwrap(), [-1.0, 0.5, 1.0]);
    assert!(clip_grad_value(&[g], -1.0).is_err());
    assert!(clip_grad_norm(&[], 1.0).is_err());
}

/// Of a value that is carried from step to step only the last one is held.
#[test]
fn what_needs_no_gradient_holds_no_graph() {
    let e = engine();
    let executor = DeviceExecutor::of(&e).unwrap();
    let n = 1 << 16;
    let mut rng = Rng::new(&e, 1);
    let w = Parameter::new(rng.rand(&[n], DType::F32).unwrap());
    let plain = rng.rand(&[n], DType::F32).unwrap();
    commit(&w).unwrap();
    let mut h = Tensor::zeros(&e, &[n], DType::F32).unwrap();
    let step = |h: &mut Tensor| {
        let next = no_grad(|| h.mul(w.get())?.add(&plain)?.tanh()).unwrap();
        next.realize().unwrap();
        *h = next;
    };
    for _ in 0..3 {
        step(&mut h);
    }
    e.synchronize().unwrap();
    let before = executor.device().memory().used;
    for _ in 0..50 {
        step(&mut h);
    }
    e.synchronize().unwrap();
    let grown = executor.device().memory().used.saturating_sub(before);
    assert!(grown < 4 * 4 * n as u64, "{grown} bytes more");
    // It counts as made of nothing, before it is computed and after it.
    let slopes = |y: &Tensor| {
        gradients(y, &[&w.get()]).unwrap()[0]
            .to_vec::<f32>()
            .unwrap()
    };
    let fixed = no_grad(|| w.get().square()).unwrap();
    let y = fixed.mul(w.get()).unwrap().sum(&[], false).unwrap();
    let want = fixed.to_vec::<f32>().unwrap();
    assert_eq!(slopes(&y), want);
    let y = fixed.mul(w.get()).unwrap().sum(&[], false).unwrap();
    assert_eq!(slopes(&y), want);
    // A panic ends the scope as well.
    std::panic::catch_unwind(|| no_grad(|| panic!("in the scope"))).unwrap_err();
    let y = w.get().sum(&[], false).unwrap();
    assert_eq!(slopes(&y)[..2], [1.0, 1.0]);
}

#[test]
fn any_list_of_parameters_is_committed() {
    let e = engine();
    let w = Parameter::new(Tensor::new(&e, 1f32).unwrap());
    let all = [w.clone(), Parameter::buffer(Tensor::new(&e, 2f32).unwrap())];
    let held = || w.get().storage().is_some();
    let again = || w.set(w.get().add(1).unwrap()).unwrap();
    again();
    assert!(!held());
    commit(&w).unwrap();
    assert!(held());
    again();
    commit([&w, &w]).unwrap();
    assert!(held());
    again();
    commit(&all).unwrap();
    assert!(held());
    again();
    commit(all.to_vec()).unwrap();
    assert!(held());
    again();
    commit(all.iter().filter(|p| p.is_trainable())).unwrap();
    assert!(held());
    assert_eq!(w.get().item::<f32>().unwrap(), 6.0);
}

#[test]
fn engines_of_one_device_have_names_of_their_own() {
    let (a, b) = (engine(), engine());
    assert_ne!(a.name(), b.name());
    let x = Tensor::new(&a, 1f32).unwrap();
    let y = Tensor::new(&b, 1f32).unwrap();
    let error = x.add(&y).unwrap_err().to_string();
    assert!(
        error.contains(&format!("different engines, {} and {}", a.name(), b.name())),
        "{error}"
    );
}

/// Sums over planes whose sizes are no multiple of a vector, some of which need others.
#[test]
fn a_convolution_with_batch_norm_has_the_gradients_of_the_reference() {
    let slopes = |e: &Engine, side: usize, batch: usize, act: usize| -> Vec<Vec<f64>> {
        let mut rng = Rng::new(e, 1);
        let channels = Channels::new(3, 6);
        let conv = Conv::new(
            &mut rng,
            channels,
            &[3, 3],
            ConvParams::default(),
            true,
            DType::F32,
        );
        let (conv, norm) = (conv.unwrap(), BatchNorm::new(e, 6, DType::F32).unwrap());
        let head = Linear::new(&mut rng, 6, 4, true, DType::F32).unwrap();
        let x = rng.randn(&[batch, 3, side, side], DType::F32).unwrap();
        let y = rng.randint(&[batch], 0, 4, DType::I64).unwrap();
        e.realize(&[&x, &y]).unwrap();
        let h = norm.forward(&conv.forward(&x).unwrap(), true).unwrap();
        let h = match act {
            0 => h,
            1 => h.relu().unwrap(),
            _ => h.gelu().unwrap(),
        };
        let out = head.forward(&h.mean(&[2, 3], false).unwrap()).unwrap();
        let loss = out.cross_entropy(&y, &Classes::default()).unwrap();
        let cells = [conv.trainable(), norm.trainable(), head.trainable()].concat();
        let values: Vec<Tensor> = cells.iter().map(Parameter::get).collect();
        let slopes = gradients(&loss, &values.iter().collect::<Vec<_>>()).unwrap();
        slopes.iter().map(|s| s.to_f64_vec().unwrap()).collect()
    };
    let (device, reference) = (engine(), Engine::reference());
    for (side, batch) in [(9, 8), (8, 3), (12, 2)] {
        for act in 0..3 {
            let got = slopes(&device, side, batch, act).concat();
            let want = slopes(&reference, side, batch, act).concat();
            let off = got.iter().zip(&want).find(|(a, b)| (*a - *b).abs() > 1e-4);
            assert!(off.is_none(), "{side}, {batch}, {act}: {off:?}");
        }
    }
}
