//! Parameters, and the functions that change them: what a value was when it was made, it stays.
use crate::support;

use std::sync::Barrier;

use support::engine;
use tensor::exec::DeviceExecutor;
use tensor::nn::linear::Linear;
use tensor::nn::norm::BatchNorm;
use tensor::nn::{Adam, Module, Optimizer, Sgd, commit, state};
use tensor::ops::loss::Reduction;
use tensor::{DType, Engine, Error, Frozen, Jit, Parameter, Result, Rng, Tensor, gradients};

fn one(e: &Engine, x: f32) -> Tensor {
    Tensor::from_slice(e, &[x], &[1]).unwrap()
}

fn number(t: &Tensor) -> f32 {
    t.sum(&[], false).unwrap().item::<f32>().unwrap()
}

/// A captured function of any kind.
type Step = Jit<Box<dyn FnMut(&[Tensor]) -> Result<Vec<Tensor>>>>;

/// A counter that a captured function moves on; large, so that a replay takes a while.
fn counter(e: &Engine) -> (Parameter, Step) {
    let counter = Parameter::buffer(Tensor::zeros(e, &[1 << 18], DType::F32).unwrap());
    let own = counter.clone();
    let step = move |x: &[Tensor]| {
        own.set(
            own.get()
                .sin()?
                .asin()?
                .mul(0)?
                .add(own.get())?
                .add(&x[0])?,
        )?;
        Ok(vec![])
    };
    (counter, Jit::new(e, Box::new(step)))
}

#[test]
fn state_that_a_replay_writes_is_waited_for() {
    let e = engine();
    let (counter, step) = counter(&e);
    let one = one(&e, 1.0);
    for call in 1..=60 {
        step.call(std::slice::from_ref(&one)).unwrap();
        let read = counter.get().to_vec::<f32>().unwrap();
        assert!(
            read.iter().all(|&x| x == call as f32),
            "{call}: {}",
            read[0]
        );
    }
    assert_eq!(step.captures(), 1);
}

#[test]
fn state_is_saved_and_copied_as_it_is_after_the_call() {
    let (e, other) = (engine(), engine());
    let mut rng = Rng::new(&e, 1);
    let net = Linear::new(&mut rng, 64, 64, true, DType::F32).unwrap();
    let mut adam = Adam::with_lr(net.trainable(), 0.01).unwrap();
    let x = rng.randn(&[256, 64], DType::F32).unwrap();
    let step = Jit::new(&e, |x: &[Tensor]| {
        let loss = net.forward(&x[0])?.square()?.mean(&[], false)?;
        adam.minimize(&loss)?;
        Ok(vec![loss])
    });
    let folder = tempfile::tempdir().unwrap();
    let (now, later) = (folder.path().join("now"), folder.path().join("later"));
    for _ in 0..10 {
        step.call(std::slice::from_ref(&x)).unwrap();
        let moved = net.weight.get().to(&other).unwrap();
        let moved = moved.to_vec::<f32>().unwrap();
        state::save(&net, &now).unwrap();
        e.synchronize().unwrap();
        state::save(&net, &later).unwrap();
        assert_eq!(std::fs::read(&now).unwrap(), std::fs::read(&later).unwrap());
        assert_eq!(moved, net.weight.get().to_vec::<f32>().unwrap());
    }
}

fn found_by<F: FnMut(&[Tensor]) -> Result<Vec<Tensor>>>(f: &Jit<F>, x: &Tensor) -> Tensor {
    let found = f.call(std::slice::from_ref(x)).unwrap();
    found[0].sum(&[], false).unwrap()
}

#[test]
fn a_nested_function_has_its_gradient_in_the_first_call_too() {
    let e = engine();
    let w = Parameter::new(one(&e, 2.0));
    let inner = Jit::new(&e, |x: &[Tensor]| Ok(vec![x[0].mul(w.get())?]));
    let mut sgd = Sgd::plain(vec![w.clone()], 0.5).unwrap();
    let step = Jit::new(&e, |x: &[Tensor]| {
        let loss = inner.call(x)?[0].sum(&[], false)?;
        sgd.minimize(&loss)?;
        Ok(vec![loss])
    });
    let call = || {
        step.call(&[one(&e, 3.0)]).unwrap();
        number(&w.get())
    };
    assert_eq!([call(), call(), call()], [0.5, -1.0, -2.5]);
}

#[test]
fn a_captured_function_inside_of_another_is_a_part_of_it() {
    let e = engine();
    let total = Parameter::buffer(one(&e, 0.0));
    let own = total.clone();
    let inner = Jit::new(&e, move |x: &[Tensor]| {
        own.set(own.get().add(&x[0])?)?;
        Ok(vec![own.get().mul(2)?])
    });
    let outer = Jit::new(&e, |x: &[Tensor]| {
        let y = inner.call(&[x[0].add(1)?])?;
        inner.call(&[y[0].sub(&y[0])?.add(1)?])
    });
    let found: Vec<f32> = (0..6)
        .map(|i| number(&outer.call(&[one(&e, i as f32)]).unwrap()[0]))
        .collect();
    // Each call adds i + 1, and 1, and gives twice the sum.
    assert_eq!(found, [4.0, 10.0, 18.0, 28.0, 40.0, 54.0]);
    assert_eq!(number(&total.get()), 27.0);
    assert_eq!((outer.captures(), inner.captures()), (1, 0));
    let error = gradients(&found_by(&inner, &one(&e, 1.0)), &[&total.get()]).unwrap_err();
    assert!(error.to_string().contains("captured function"), "{error}");
}

#[test]
fn what_cannot_be_inside_of_a_captured_function_is_refused_by_name() {
    let (e, other) = (engine(), engine());
    let signature = [(vec![1], DType::F32)];
    let frozen = Frozen::capture(&e, &signature, |x| Ok(vec![x[0].add(1)?])).unwrap();
    let away = Jit::new(&other, |x: &[Tensor]| Ok(vec![x[0].add(1)?]));
    let there = Parameter::new(one(&other, 1.0));
    let rng = Rng::new(&e, 1);
    let x = one(&e, 1.0);
    let twice = |f: &mut dyn FnMut(&Tensor) -> Result<Tensor>| {
        let f = Jit::new(&e, |x: &[Tensor]| Ok(vec![f(&x[0])?]));
        f.call(std::slice::from_ref(&x)).unwrap();
        let error = f.call(std::slice::from_ref(&x)).unwrap_err();
        assert!(matches!(error, Error::Capture { .. }), "{error}");
        error.to_string()
    };
    let says = |error: String, what: &str| assert!(error.contains(what), "{error}");
    let f = &mut |x: &Tensor| frozen.call(std::slice::from_ref(x))?[0].add(1);
    says(twice(f), "constant weights");
    let f = &mut |x: &Tensor| {
        there.set(there.get().add(1)?)?;
        x.add(1)
    };
    says(twice(f), "would not set it");
    let f = &mut |x: &Tensor| {
        away.call(&[one(&other, 2.0)])?;
        x.add(1)
    };
    says(twice(f), "replays would skip it");
    let f = &mut |x: &Tensor| rng.clone().fork()?.rand(&[1], DType::F32)?.add(x);
    says(twice(f), "fork");
    let f = &mut |x: &Tensor| x.add(&there.get().to(&e)?);
    says(twice(f), "copied inside the function");
    let mut leaked = None;
    let f = Jit::new(&e, |x: &[Tensor]| {
        let y = x[0].add(1)?;
        leaked = Some(y.clone());
        Ok(vec![y])
    });
    for _ in 0..3 {
        f.call(std::slice::from_ref(&x)).unwrap();
    }
    drop(f);
    let error = leaked.unwrap().to_vec::<f32>().unwrap_err().to_string();
    says(error, "return it as an output");
}

#[test]
fn threads_capture_by_themselves() {
    let e = engine();
    let both = Barrier::new(2);
    let run = |add: f32| {
        let mut meets = 0;
        let f = Jit::new(&e, |x: &[Tensor]| {
            meets += 1;
            if meets == 2 {
                both.wait();
            }
            let y = x[0].add(f64::from(add))?;
            let read = y.to_vec::<f32>();
            if meets == 2 {
                both.wait();
                assert!(read.is_err(), "reading is refused in each thread");
            }
            Ok(vec![y])
        });
        let calls = (0..4).map(|i| number(&f.call(&[one(&e, i as f32)]).unwrap()[0]));
        calls.collect::<Vec<f32>>()
    };
    std::thread::scope(|scope| {
        let there = scope.spawn(|| run(10.0));
        assert_eq!(run(1.0), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(there.join().unwrap(), [10.0, 11.0, 12.0, 13.0]);
    });
}

#[test]
fn parameters_that_are_still_lazy_belong_to_the_function() {
    let e = engine();
    let mut rng = Rng::new(&e, 3);
    let net = Linear::new(&mut rng, 3, 2, true, DType::F32).unwrap();
    let f = Jit::new(&e, |x: &[Tensor]| Ok(vec![net.forward(&x[0])?]));
    let x = Tensor::from_slice(&e, &[1f32, 2.0, 3.0], &[1, 3]).unwrap();
    let call = || {
        f.call(std::slice::from_ref(&x)).unwrap()[0]
            .to_vec::<f32>()
            .unwrap()
    };
    let first = call();
    assert_eq!((call(), call()), (first.clone(), first.clone()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other");
    let other = Linear::new(&mut Rng::new(&e, 4), 3, 2, true, DType::F32).unwrap();
    state::save(&other, &path).unwrap();
    state::load(&net, &path).unwrap();
    let expected = other.forward(&x).unwrap().to_vec::<f32>().unwrap();
    assert_ne!(first, expected);
    assert_eq!(call(), expected);
    // Set, and not even committed.
    let bias = net.bias.as_ref().unwrap();
    bias.set(bias.get().add(1).unwrap()).unwrap();
    for (now, before) in call().iter().zip(&expected) {
        assert!((now - before - 1.0).abs() < 1e-6, "{now} {before}");
    }
}

#[test]
fn batch_norm_keeps_its_statistics_in_a_captured_function() {
    let run = |e: &Engine, captured: bool| {
        let norm = BatchNorm::new(e, 3, DType::F32).unwrap();
        let forward = |x: &[Tensor]| Ok(vec![norm.forward(&x[0], true)?]);
        let f = Jit::new(e, forward);
        let mut rng = Rng::new(e, 5);
        let mut found = Vec::new();
        for i in 0..6 {
            let x = rng.randn(&[8, 3, 4], DType::F32).unwrap().add(i).unwrap();
            let x = std::slice::from_ref(&x);
            let y = match captured {
                true => f.call(x).unwrap(),
                false => {
                    let y = forward(x).unwrap();
                    y[0].realize().unwrap();
                    let of = |p: &(String, Parameter)| p.1.clone();
                    let all: Vec<Parameter> = norm.parameters().iter().map(of).collect();
                    commit(&all).unwrap();
                    y
                }
            };
            found.extend(y[0].to_vec::<f32>().unwrap());
            found.extend(norm.running_mean.get().to_vec::<f32>().unwrap());
            found.extend(norm.running_var.get().to_vec::<f32>().unwrap());
        }
        found.push(norm.num_batches_tracked.get().item::<i64>().unwrap() as f32);
        found
    };
    let e = engine();
    let expected = run(&Engine::reference(), false);
    for captured in [false, true] {
        for (a, b) in run(&e, captured).iter().zip(&expected) {
            assert!(
                (a - b).abs() < 1e-4 * (1.0 + b.abs()),
                "{captured}: {a} {b}"
            );
        }
    }
}

#[test]
fn generators_give_replays_the_numbers_of_plain_calls() {
    let e = engine();
    let draws = |captured: bool| {
        let mut rng = Rng::new(&e, 11);
        let mut draw = |x: &[Tensor]| {
            let mask = rng.dropout(&x[0], 0.5)?;
            // A generator of the function's own begins anew at each call.
            let own = Rng::new(&e, 1).rand(&[2], DType::F32)?;
            Ok(vec![mask, rng.randn(&[3], DType::F32)?, own])
        };
        let mut found: Vec<Vec<f32>> = Vec::new();
        let x = Tensor::ones(&e, &[64], DType::F32).unwrap();
        let read = |found: &mut Vec<Vec<f32>>, y: Vec<Tensor>| {
            found.extend(y.iter().map(|t| t.to_vec::<f32>().unwrap()));
        };
        if captured {
            let f = Jit::new(&e, draw);
            for _ in 0..5 {
                read(&mut found, f.call(std::slice::from_ref(&x)).unwrap());
            }
        } else {
            for _ in 0..5 {
                let y = draw(std::slice::from_ref(&x)).unwrap();
                read(&mut found, y);
            }
        }
        found
    };
    let plain = draws(false);
    assert_eq!(draws(true), plain);
    assert_ne!(plain[0], plain[3]);
    assert_eq!(plain[2], plain[5]);
}

#[test]
fn a_generator_goes_on_after_replays() {
    let e = engine();
    let run = |captured: bool| {
        let mut rng = Rng::new(&e, 2);
        let mut own = rng.clone();
        let mut draw = move |_: &[Tensor]| Ok(vec![own.rand(&[5], DType::F32)?]);
        let mut found: Vec<Vec<f32>> = Vec::new();
        let f = Jit::new(&e, &mut draw);
        for _ in 0..3 {
            let y = match captured {
                true => f.call(&[]).unwrap()[0].clone(),
                false => rng.rand(&[5], DType::F32).unwrap(),
            };
            found.push(y.to_vec::<f32>().unwrap());
            found.push(rng.rand(&[7], DType::F32).unwrap().to_vec().unwrap());
        }
        found
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn values_stay_what_they_were_when_they_were_made() {
    for e in [engine(), Engine::reference()] {
        let w = Parameter::new(one(&e, 1.0));
        let mut sgd = Sgd::plain(vec![w.clone()], 0.25).unwrap();
        let (kept, lazy) = (w.get(), w.get().mul(10).unwrap());
        for step in 0..3 {
            let now = number(&w.get());
            let before = w.get();
            let loss = w.get().square().unwrap().sum(&[], false).unwrap();
            sgd.minimize(&loss).unwrap();
            assert_eq!(loss.item::<f32>().unwrap(), now * now, "{step}");
            assert_eq!(number(&before), now, "{step}");
            assert_eq!(number(&w.get()), now / 2.0, "{step}");
        }
        assert_eq!((number(&kept), number(&lazy)), (1.0, 10.0));
    }
}

#[test]
fn values_stay_in_captured_steps_too() {
    let e = engine();
    let w = Parameter::new(one(&e, 0.0));
    let own = w.clone();
    let step = Jit::new(&e, move |_: &[Tensor]| {
        own.set(own.get().add(1)?)?;
        Ok(vec![])
    });
    let mut kept = vec![w.get()];
    let mut lazy = Vec::new();
    for _ in 0..8 {
        lazy.push(w.get().mul(10).unwrap());
        step.call(&[]).unwrap();
        kept.push(w.get());
    }
    let all = |t: &[Tensor]| t.iter().map(number).collect::<Vec<f32>>();
    assert_eq!(all(&kept), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    assert_eq!(all(&lazy), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0]);
    assert_eq!(step.captures(), 1);
}

#[test]
fn state_that_nobody_holds_is_updated_in_place() {
    let e = engine();
    let executor = DeviceExecutor::of(&e).unwrap();
    let mut rng = Rng::new(&e, 1);
    let n = 1 << 20;
    let w = Parameter::new(rng.randn(&[n], DType::F32).unwrap());
    let mut adam = Adam::with_lr(vec![w.clone()], 0.01).unwrap();
    let mut losses = Vec::new();
    let mut step = |losses: &mut Vec<Tensor>| {
        let loss = w.get().square().unwrap().mean(&[], false).unwrap();
        adam.minimize(&loss).unwrap();
        losses.push(loss);
    };
    for _ in 0..3 {
        step(&mut losses);
    }
    e.synchronize().unwrap();
    let before = executor.device().memory().used;
    for _ in 0..20 {
        step(&mut losses);
    }
    e.synchronize().unwrap();
    let grown = executor.device().memory().used.saturating_sub(before);
    // The losses are kept, and nothing of what they were made of.
    assert!(grown < 4 * n as u64, "{grown} bytes more");
    assert!(losses.windows(2).all(|l| number(&l[0]) > number(&l[1])));
}

#[test]
fn gradients_of_what_is_gone_are_refused() {
    let e = engine();
    let w = Parameter::new(one(&e, 1.0));
    let mut sgd = Sgd::plain(vec![w.clone()], 0.25).unwrap();
    let loss = |w: &Parameter| w.get().square().unwrap().sum(&[], false).unwrap();
    let (first, second) = (loss(&w), loss(&w));
    sgd.minimize(&first).unwrap();
    let error = sgd.minimize(&first).unwrap_err().to_string();
    assert!(error.contains("was freed by an optimizer step"), "{error}");
    let error = sgd.minimize(&second).unwrap_err().to_string();
    assert!(error.contains("its old value"), "{error}");
    assert_eq!(second.item::<f32>().unwrap(), 1.0);
    // A parameter that was computed in the meantime is the value that it was.
    let mut rng = Rng::new(&e, 1);
    let w = Parameter::new(rng.rand(&[4], DType::F32).unwrap());
    let early = loss(&w);
    commit(&w).unwrap();
    let slope = gradients(&early, &[&w.get()]).unwrap();
    let expected: Vec<f32> = w.get().to_vec::<f32>().unwrap();
    let expected: Vec<f32> = expected.iter().map(|w| w * 2.0).collect();
    assert_eq!(slope[0].to_vec::<f32>().unwrap(), expected);
    // So it is where the value was made of a loss whose graph is gone.
    let w = Parameter::new(one(&e, 1.0));
    let mut sgd = Sgd::plain(vec![w.clone()], 0.25).unwrap();
    let first = loss(&w);
    sgd.minimize(&first).unwrap();
    w.set(first.add(2.0).unwrap().reshape(&[1]).unwrap())
        .unwrap();
    let early = loss(&w);
    commit(&w).unwrap();
    sgd.minimize(&early).unwrap();
    assert_eq!(w.get().to_vec::<f32>().unwrap(), [1.5]);
}

#[test]
fn functions_are_called_from_many_threads() {
    let e = engine();
    let w = Tensor::from_slice(&e, &[2f32], &[1]).unwrap();
    let f = Jit::new(&e, |x: &[Tensor]| Ok(vec![x[0].mul(&w)?.add(1)?]));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let f = &f;
            let e = &e;
            scope.spawn(move || {
                for i in 0..1000 {
                    let n = 1 + (thread + i) % 5;
                    let x = Tensor::full(e, &[n], i as f64, DType::F32).unwrap();
                    let y = f.call(&[x]).unwrap()[0].to_vec::<f32>().unwrap();
                    assert_eq!(y, vec![i as f32 * 2.0 + 1.0; n]);
                }
            });
        }
    });
    assert_eq!(f.captures(), 5);
}

#[test]
fn tied_and_shared_parameters_go_their_own_ways() {
    let e = engine();
    let start = one(&e, 1.0);
    let (a, b) = (Parameter::new(start.clone()), Parameter::new(start.clone()));
    commit([a.clone(), b.clone()]).unwrap();
    a.set(a.get().add(1).unwrap()).unwrap();
    b.set(b.get().add(10).unwrap()).unwrap();
    commit([a.clone(), b.clone()]).unwrap();
    let (own_a, own_b) = (a.clone(), b.clone());
    let both = Jit::new(&e, move |_: &[Tensor]| {
        let sum = own_a.get().add(own_b.get())?;
        own_a.set(sum.clone())?;
        own_b.set(sum)?;
        Ok(vec![])
    });
    for _ in 0..3 {
        both.call(&[]).unwrap();
    }
    a.set(a.get().add(1).unwrap()).unwrap();
    commit(&a).unwrap();
    // 2 and 11, then 13, 26, 52.
    assert_eq!([&start, &a.get(), &b.get()].map(number), [1.0, 53.0, 52.0]);
}

#[test]
fn a_loss_is_that_of_its_step_in_a_captured_training_step() {
    let run = |e: &Engine, captured: bool| {
        let mut rng = Rng::new(e, 9);
        let net = Linear::new(&mut rng, 4, 1, true, DType::F32).unwrap();
        let mut adam = Adam::with_lr(net.trainable(), 0.1).unwrap();
        let x = rng.randn(&[16, 4], DType::F32).unwrap();
        let y = x.sum(&[1], true).unwrap();
        let mut step = |x: &[Tensor]| {
            let loss = net.forward(&x[0])?.mse_loss(&x[1], Reduction::Mean)?;
            adam.minimize(&loss)?;
            Ok(vec![loss])
        };
        let inputs = [x, y];
        let mut losses = Vec::new();
        if captured {
            let f = Jit::new(e, step);
            for i in 0..12 {
                if i == 6 {
                    f.call(&inputs).unwrap();
                }
                losses.push(number(&f.call(&inputs).unwrap()[0]));
            }
        } else {
            for i in 0..12 {
                if i == 6 {
                    step(&inputs).unwrap();
                }
                losses.push(number(&step(&inputs).unwrap()[0]));
            }
        }
        losses
    };
    let expected = run(&Engine::reference(), false);
    let e = engine();
    for captured in [false, true] {
        for (a, b) in run(&e, captured).iter().zip(&expected) {
            assert!(
                (a - b).abs() < 1e-4 * (1.0 + b.abs()),
                "{captured}: {a} {b}"
            );
        }
    }
}
