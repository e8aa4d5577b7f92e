//! Calls that fail, that end while their work goes on, and that meet others: nothing else changes by them.
use crate::support;

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_cpu::Config;
use support::{engine, engine_of, engine_with};
use tensor::exec::{DeviceExecutor, Interpreter, Observer, Options, Run};
use tensor::nn::linear::Linear;
use tensor::nn::norm::BatchNorm;
use tensor::nn::{Adam, AdamW, Lamb, Module, Optimizer, Sgd, commit};
use tensor::onnx::write::{self, Writer};
use tensor::onnx::{Dim, Model, Progress};
use tensor::schedule::Limits;
use tensor::{
    DType, Engine, Error, Frozen, Jit, Parameter, Result, Rng, Tensor, gradients, no_grad,
};

fn one(e: &Engine, x: f32) -> Tensor {
    Tensor::from_slice(e, &[x], &[1]).unwrap()
}

fn first(t: &Tensor) -> f32 {
    t.to_vec::<f32>().unwrap()[0]
}

#[test]
fn code_that_has_no_place_in_the_table_runs_to_its_end() {
    // The second and the third kernel take one code, and the fourth opens a number more before it is there.
    let e = engine();
    let n = 1 << 21;
    let xs: Vec<Tensor> = (0..4)
        .map(|i| Tensor::from_slice(&e, &vec![i as f32; n], &[n]).unwrap())
        .collect();
    let numbers = [(1.5, 0.25), (2.5, 0.25), (3.5, 0.25), (3.5, 1.25)];
    let ys: Vec<Tensor> = xs
        .iter()
        .zip(numbers)
        .map(|(x, (a, b))| x.mul(a).unwrap().add(b).unwrap())
        .collect();
    e.realize(&ys.iter().collect::<Vec<_>>()).unwrap();
    for (i, (y, (a, b))) in ys.iter().zip(numbers).enumerate() {
        let y = y.to_vec::<f32>().unwrap();
        let expected = i as f32 * a as f32 + b as f32;
        assert!(y.iter().all(|&y| y == expected), "{i}: {}", y[0]);
    }
}

#[test]
fn kernels_with_many_numbers_that_change_are_right() {
    let e = engine();
    let x = one(&e, 1.0);
    for round in 0..4 {
        let mut y = x.clone();
        for i in 0..100 {
            y = y.mul(1.0 + f64::from(i % 3)).unwrap();
            y = y.sub(f64::from(i * round + 1)).unwrap();
            y = y.maximum(f64::from(-1000 - i)).unwrap();
            y = y.minimum(f64::from(1000 + i * round)).unwrap();
        }
        let mut expected = 1.0f32;
        for i in 0..100i32 {
            expected *= 1.0 + (i % 3) as f32;
            expected -= (i * round + 1) as f32;
            expected = expected
                .max((-1000 - i) as f32)
                .min((1000 + i * round) as f32);
        }
        assert_eq!(first(&y), expected, "round {round}");
    }
}

#[test]
fn captures_know_no_grad() {
    let e = engine();
    let w = Parameter::new(one(&e, 2.0));
    let make = || {
        let w = w.clone();
        Jit::new(&e, move |x: &[Tensor]| {
            let y = x[0].mul(w.get())?.square()?.sum(&[], false)?;
            gradients(&y, &[&w.get()])
        })
    };
    let x = one(&e, 3.0);
    let plain = |f: &Jit<_>| first(&f.call(std::slice::from_ref(&x)).unwrap()[0]);
    let without = |f: &Jit<_>| no_grad(|| first(&f.call(std::slice::from_ref(&x)).unwrap()[0]));
    let f = make();
    assert_eq!((plain(&f), without(&f), plain(&f)), (36.0, 0.0, 36.0));
    assert_eq!((plain(&f), without(&f), plain(&f)), (36.0, 0.0, 36.0));
    assert_eq!(f.captures(), 2);
    let f = make();
    assert_eq!((without(&f), without(&f), without(&f)), (0.0, 0.0, 0.0));
    assert_eq!(plain(&f), 36.0);
}

#[test]
fn a_step_that_fails_sets_nothing() {
    let (a, b) = (engine(), engine());
    let make = || {
        let (w, v) = (Parameter::new(one(&a, 1.0)), Parameter::new(one(&b, 1.0)));
        let loss = w.get().to(&b).unwrap().add(v.get()).unwrap();
        (w, v, loss.sum(&[], false).unwrap())
    };
    let (w, v, loss) = make();
    let mut sgd = Sgd::new(vec![w.clone(), v.clone()], 0.5, 0.9, false, 0.0).unwrap();
    assert!(sgd.minimize(&loss).is_err());
    let (w2, v2, loss) = make();
    let mut adam = Adam::with_lr(vec![w2.clone(), v2.clone()], 0.5).unwrap();
    assert!(adam.minimize(&loss).is_err());
    for cell in [w, v, w2, v2] {
        assert_eq!(first(&cell.get()), 1.0);
    }
    for slot in adam.slots().iter().filter(|slot| slot.name != "lr") {
        assert_eq!(first(&slot.cell.get()), 0.0, "{}", slot.name);
    }
}

#[test]
fn what_was_submitted_is_not_done_twice_when_a_wait_ends() {
    let options = Options {
        timeout: Duration::from_millis(1),
        work: Some(Duration::from_millis(1)),
        ..Options::default()
    };
    let e = engine_with(Config::default(), options);
    let w = Parameter::buffer(Tensor::zeros(&e, &[1 << 16], DType::F32).unwrap());
    while commit(&w).is_err() {}
    let next = || -> Result<Tensor> {
        let mut y = w.get();
        for _ in 0..48 {
            y = y.sin()?;
        }
        w.get().add(&y.mul(0)?)?.add(1)
    };
    let mut sets = 0;
    for round in 1..=3 {
        // Until so much is under way that one waits, in vain.
        let waits = (0..200).any(|_| {
            w.set(next().unwrap()).unwrap();
            sets += 1;
            commit(&w).is_err()
        });
        assert!(
            waits,
            "round {round}: nothing waited too long in {sets} steps"
        );
        while e.synchronize().is_err() {}
        while commit(&w).is_err() {}
    }
    let value = w.get();
    let read = loop {
        if let Ok(read) = value.to_vec::<f32>() {
            break read;
        }
    };
    assert!(
        read.iter().all(|&x| x == sets as f32),
        "{} for {sets}",
        read[0]
    );
}

/// Parameters with an update each that takes a command of its own.
fn counters(e: &Engine, count: usize) -> Vec<Parameter> {
    let zeros = |i| Tensor::zeros(e, &[i + 1], DType::F32).unwrap();
    let all: Vec<Parameter> = (0..count).map(|i| Parameter::buffer(zeros(i))).collect();
    commit(&all).unwrap();
    for w in &all {
        w.set(w.get().add(1).unwrap()).unwrap();
    }
    all
}

#[test]
fn an_update_that_finds_no_room_is_done_once_or_the_device_is_lost() {
    for (ring_words, count) in [(8 << 10, 100), (1 << 10, 300)] {
        let e = engine_of(Config {
            ring_words,
            ring_timeout: Duration::from_millis(20),
            ..Config::default()
        });
        let executor = DeviceExecutor::of(&e).unwrap();
        let all = counters(&e, count);
        let gate = executor.device().signal("gate").unwrap();
        let wait = hcq::Command::Wait {
            signal: &gate,
            value: 1u64.into(),
        };
        let filled = (0..).find(|_| executor.stream().submit(&[], &[wait]).is_err());
        let error = commit(&all).unwrap_err().to_string();
        assert!(error.contains("compute 0"), "{filled:?}: {error}");
        gate.set(1).unwrap();
        // Only a part of what is larger than the ring may be on its way.
        if let Err(e) = commit(&all) {
            let is_lost = matches!(e, Error::Device(hcq::Error::DeviceLost { .. }));
            assert!(count == 300 && is_lost, "{e}");
        }
        for (i, w) in all.iter().enumerate() {
            match w.get().to_vec::<f32>() {
                Ok(w) => assert_eq!(w, vec![1.0; i + 1]),
                Err(e) => assert_eq!(count, 300, "{e}"),
            }
        }
    }
}

#[test]
fn who_gets_a_parameter_while_its_update_waits_has_the_old_or_the_new_value() {
    let e = engine_of(Config {
        ring_words: 1 << 10,
        ring_timeout: Duration::from_millis(50),
        ..Config::default()
    });
    let executor = DeviceExecutor::of(&e).unwrap();
    let all = counters(&e, 4);
    let gate = executor.device().signal("gate").unwrap();
    let wait = hcq::Command::Wait {
        signal: &gate,
        value: 1u64.into(),
    };
    while executor.stream().submit(&[], &[wait]).is_ok() {}
    let taken = std::thread::scope(|s| {
        let commits = s.spawn(|| commit(&all).unwrap_err());
        let mut taken = Vec::new();
        while !commits.is_finished() {
            taken.push(all[0].get());
            std::thread::sleep(Duration::from_millis(1));
        }
        taken
    });
    gate.set(1).unwrap();
    commit(&all).unwrap();
    // All of them were taken before the update was made: they are what it makes.
    for value in taken {
        assert_eq!(first(&value), 1.0);
    }
}

#[test]
fn tensors_that_are_asked_for_twice_have_their_gradient_twice() {
    let e = engine();
    let x = one(&e, 3.0);
    let y = x.square().unwrap().sum(&[], false).unwrap();
    let slopes = gradients(&y, &[&x, &x]).unwrap();
    assert_eq!((first(&slopes[0]), first(&slopes[1])), (6.0, 6.0));
}

#[test]
fn a_parameter_with_two_names_is_changed_once() {
    struct Tied(Parameter);
    impl Module for Tied {
        fn parameters(&self) -> Vec<(String, Parameter)> {
            vec![("a".into(), self.0.clone()), ("b".into(), self.0.clone())]
        }
    }
    let e = engine();
    let tied = Tied(Parameter::new(one(&e, 1.0)));
    assert_eq!(tied.trainable().len(), 1);
    let both = vec![tied.0.clone(), tied.0.clone()];
    let mut sgd = Sgd::new(both, 0.1, 0.0, false, 0.5).unwrap();
    let loss = tied.0.get().sum(&[], false).unwrap();
    sgd.minimize(&loss).unwrap();
    assert_eq!(first(&tied.0.get()), 1.0 - 0.1 * (1.0 + 0.5));
}

#[test]
fn parameters_that_a_loss_does_not_use_stay() {
    let e = engine();
    let three = || [1.0, 2.0, 3.0].map(|x| Parameter::new(one(&e, x)));
    // What PyTorch 2.15 has after these steps of AdamW: rate 0.1, decay 0.5.
    let used = [[true, false, true], [true, true, false], [true, true, true]];
    let run = |optimizer: &mut dyn Optimizer, cells: &[Parameter; 3]| {
        for uses in used {
            let mut loss = Tensor::zeros(&e, &[1], DType::F32).unwrap();
            for (cell, _) in cells.iter().zip(uses).filter(|(_, used)| *used) {
                loss = loss.add(cell.get().square().unwrap()).unwrap();
            }
            optimizer.minimize(&loss.sum(&[], false).unwrap()).unwrap();
        }
        cells.each_ref().map(|cell| first(&cell.get()))
    };
    let near = |found: [f32; 3], expected: [f32; 3]| {
        let close = found
            .iter()
            .zip(expected)
            .all(|(a, b)| (a - b).abs() < 2e-6);
        assert!(close, "{found:?}, {expected:?} was expected");
    };
    let cells = three();
    let mut adam = AdamW::new(cells.to_vec(), 0.1, (0.9, 0.999), 1e-8, 0.5).unwrap();
    near(run(&mut adam, &cells), [0.574_974, 1.610_412, 2.512_821]);
    let cells = three();
    let mut sgd = Sgd::new(cells.to_vec(), 0.1, 0.9, false, 0.5).unwrap();
    near(run(&mut sgd, &cells), [-0.118_125, 0.675, 1.012_5]);
}

fn doubled() -> Vec<u8> {
    let vector = write::tensor(DType::F32, &[Dim::Named("n".into())]);
    let mut model = Writer::new("doubled", 17);
    model.input("x", &vector);
    model.node("Add", &["x", "x"], &["y"], []);
    model.output("y", &vector);
    model.finish()
}

#[test]
fn a_session_is_run_by_the_inputs_and_the_display_of_another_run() {
    let e = engine();
    let model = Model::from_bytes("doubled", doubled()).unwrap();
    let session = Arc::new(model.on(&e));
    let inner = session.clone();
    let again = one(&e, 5.0);
    let seen = Arc::new(Mutex::new(0));
    let count = seen.clone();
    let weak = Arc::downgrade(&session);
    session.on_progress(move |p: Progress| {
        *count.lock().unwrap() += 1;
        if let (Progress::Running, Some(session)) = (p, weak.upgrade()) {
            session.run([("x", again.clone())]).unwrap();
        }
    });
    for _ in 0..3 {
        let x = [("x", one(&e, 1.5))].into_iter().map(|(name, x)| {
            let y = inner.run([(name, x)]).unwrap();
            (name, y.tensor("y").unwrap().clone())
        });
        let y = session.run(x).unwrap();
        assert_eq!(first(y.tensor("y").unwrap()), 6.0);
    }
    assert!(*seen.lock().unwrap() > 0);
}

#[test]
fn sessions_that_are_run_while_a_model_is_traced_are_refused() {
    let e = engine();
    let model = Model::from_bytes("doubled", doubled()).unwrap();
    let (session, other) = (Arc::new(model.on(&e)), model.on(&e));
    let (x, weak) = (one(&e, 5.0), Arc::downgrade(&session));
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = told.clone();
    session.on_progress(move |p: Progress| {
        let Some(session) = weak.upgrade() else {
            return;
        };
        for session in [&*session, &other] {
            let y = session.run([("x", x.clone())]);
            let y = y.map(|y| first(y.tensor("y").unwrap()));
            log.lock().unwrap().push((p, y.map_err(|e| e.to_string())));
        }
    });
    let y = session.run([("x", one(&e, 1.5))]).unwrap();
    assert_eq!(first(y.tensor("y").unwrap()), 3.0);
    let told = told.lock().unwrap();
    assert!(told.len() > 2);
    for (p, y) in told.iter() {
        match y {
            Ok(y) => assert_eq!((*p, *y), (Progress::Running, 10.0)),
            Err(error) => assert!(error.contains("from a progress report"), "{error}"),
        }
    }
}

#[test]
fn each_thread_that_runs_a_session_is_told() {
    let e = engine();
    let session = Model::from_bytes("doubled", doubled()).unwrap().on(&e);
    session.run([("x", one(&e, 1.0))]).unwrap();
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (counts, both) = (count.clone(), std::sync::Barrier::new(2));
    session.on_progress(move |_| {
        // Both are inside of the report at once.
        if counts.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 2 {
            both.wait();
            panic!("a report that fails");
        }
    });
    let run = || session.run([("x", one(&e, 2.0))]).map(|_| ());
    std::thread::scope(|s| {
        let two = [s.spawn(run), s.spawn(run)];
        for thread in two {
            assert!(thread.join().is_err());
        }
    });
    run().unwrap();
    assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 3);
}

#[test]
fn engines_without_queues_freeze_functions_as_others_do() {
    let interpreter = Interpreter::engine(Limits::default(), false);
    for e in [Engine::reference(), interpreter] {
        freezes(&e);
    }
}

fn freezes(e: &Engine) {
    let given = [(vec![1], DType::F32)];
    let w = Parameter::buffer(one(e, 1.0));
    let mut rng = Rng::new(e, 1);
    let drawn = Frozen::capture(e, &given, |x| {
        Ok(vec![x[0].add(&rng.rand(&[1], DType::F32)?)?])
    });
    assert!(matches!(drawn, Err(Error::Capture { .. })));
    let read = Frozen::capture(e, &given, |x| {
        let number = f64::from(x[0].item::<f32>()?);
        Ok(vec![x[0].mul(number)?])
    });
    assert!(matches!(read, Err(Error::Capture { .. })));
    let set = Frozen::capture(e, &given, |x| {
        w.set(w.get().add(1)?)?;
        Ok(vec![x[0].mul(2)?])
    });
    assert!(matches!(set, Err(Error::Capture { .. })));
    let kept = RefCell::new(None);
    let f = Frozen::capture(e, &given, |x| {
        let y = x[0].mul(2)?;
        *kept.borrow_mut() = Some(y.clone());
        Ok(vec![y.add(w.get())?])
    });
    // What belongs to the trace has no value, and the calls are as if nobody had asked.
    assert!(kept.take().unwrap().to_vec::<f32>().is_err());
    assert_eq!(first(&f.unwrap().call(&[one(e, 2.0)]).unwrap()[0]), 5.0);
    assert_eq!(first(&w.get()), 1.0);
}

#[test]
fn a_parameter_that_a_failed_trace_made_blocks_nothing() {
    let e = engine();
    let kept = RefCell::new(Vec::new());
    let make = |x: &[Tensor], fails: bool| {
        let p = Parameter::new(Tensor::zeros(&e, &[1], DType::F32)?);
        p.set(x[0].mul(2)?)?;
        kept.borrow_mut().push(p);
        match fails {
            true => x[0].reshape(&[7]).map(|y| vec![y]),
            false => Ok(vec![x[0].clone()]),
        }
    };
    let given = [(vec![1], DType::F32)];
    assert!(Frozen::capture(&e, &given, |x| make(x, true)).is_err());
    let error = Frozen::capture(&e, &given, |x| make(x, false))
        .err()
        .unwrap();
    assert!(error.to_string().contains("kept"), "{error}");
    let calls = Cell::new(0);
    let f = Jit::new(&e, |x: &[Tensor]| {
        calls.set(calls.get() + 1);
        match calls.get() {
            1 => Ok(vec![x[0].clone()]),
            _ => make(x, true),
        }
    });
    let x = one(&e, 1.0);
    f.call(std::slice::from_ref(&x)).unwrap();
    assert!(f.call(&[x]).is_err());
    // A step of this thread.
    let w = Parameter::new(one(&e, 1.0));
    let loss = w.get().mul(w.get()).unwrap().sum(&[], false).unwrap();
    let mut sgd = Sgd::new(vec![w.clone()], 0.5, 0.0, false, 0.0).unwrap();
    sgd.minimize(&loss).unwrap();
    assert_eq!(first(&w.get()), 0.0);
}

#[test]
fn a_weight_that_was_moved_before_is_a_constant_of_a_frozen_function() {
    let (e, other) = (engine(), engine());
    let w = one(&other, 3.0).to(&e).unwrap();
    let given = [(vec![1], DType::F32)];
    let f = Frozen::capture(&e, &given, |x| Ok(vec![x[0].mul(&w)?])).unwrap();
    assert_eq!(first(&f.call(&[one(&e, 2.0)]).unwrap()[0]), 6.0);
    // Inside of the function it is refused.
    let source = one(&other, 3.0);
    let moved = Frozen::capture(&e, &given, |x| Ok(vec![x[0].mul(&source.to(&e)?)?]));
    assert!(matches!(moved, Err(Error::Capture { .. })));
}

#[test]
fn a_frozen_function_draws_nothing_that_would_be_the_same_in_each_call() {
    let e = engine();
    let mut rng = Rng::new(&e, 1);
    let given = [(vec![1], DType::F32)];
    let before = rng.state();
    let drawn = Frozen::capture(&e, &given, |x| {
        Ok(vec![x[0].add(&rng.rand(&[1], DType::F32)?)?])
    });
    assert!(matches!(drawn, Err(Error::Capture { .. })));
    assert_eq!(rng.state(), before);
    // A generator that it makes itself has the numbers of its seed.
    let own = Frozen::capture(&e, &given, |x| {
        Ok(vec![x[0].add(&Rng::new(&e, 1).rand(&[1], DType::F32)?)?])
    });
    assert!(own.is_ok());
}

#[test]
fn a_call_that_failed_says_nothing_of_the_next_one() {
    let (e, other) = (engine(), engine());
    let f = Jit::new(&e, |x: &[Tensor]| Ok(vec![x[0].mul(2)?]));
    let (here, there) = (one(&e, 2.0), one(&other, 2.0));
    assert!(f.call(&[here.clone(), there]).is_err());
    for _ in 0..3 {
        let y = f.call(std::slice::from_ref(&here)).unwrap();
        assert_eq!(first(&y[0]), 4.0);
    }
    let error = f.call(&[here.clone(), here]).unwrap_err().to_string();
    assert!(
        error.contains("2 inputs given, the first call had 1"),
        "{error}"
    );
}

#[test]
fn a_replay_that_finds_no_memory_has_drawn_nothing() {
    let e = engine_of(Config {
        memory: 64 << 20,
        ..Config::default()
    });
    let mut rng = Rng::new(&e, 5);
    let own = rng.clone();
    let n = 1 << 20;
    let f = Jit::new(&e, move |x: &[Tensor]| {
        Ok(vec![
            x[0].expand(&[n])?
                .add(&own.clone().rand(&[n], DType::F32)?)?,
        ])
    });
    let x = one(&e, 0.0);
    let mut held = Vec::new();
    for _ in 0..3 {
        f.call(std::slice::from_ref(&x)).unwrap();
    }
    loop {
        let before = rng.state();
        match f.call(std::slice::from_ref(&x)) {
            Ok(y) => held.extend(y),
            Err(e) => {
                assert!(
                    matches!(e, Error::Device(hcq::Error::OutOfMemory { .. })),
                    "{e}"
                );
                assert_eq!(rng.state(), before);
                break;
            }
        }
        assert!(held.len() < 64, "memory has no end");
    }
    let state = rng.state();
    held.clear();
    let y = f.call(&[x]).unwrap();
    rng.set_state(state).unwrap();
    let expected = rng.rand(&[n], DType::F32).unwrap();
    assert_eq!(
        y[0].to_vec::<f32>().unwrap(),
        expected.to_vec::<f32>().unwrap()
    );
}

#[test]
fn a_parameter_that_only_the_captured_call_makes_is_refused() {
    let e = engine();
    let w = Parameter::new(one(&e, 1.0));
    let kept: RefCell<Option<Parameter>> = RefCell::new(None);
    let calls = Cell::new(0);
    let f = Jit::new(&e, |x: &[Tensor]| {
        calls.set(calls.get() + 1);
        if calls.get() == 2 {
            *kept.borrow_mut() = Some(Parameter::buffer(w.get()));
        }
        if let Some(kept) = &*kept.borrow() {
            kept.set(kept.get().add(&x[0])?)?;
        }
        // One that goes with the call is no state.
        let inner = Parameter::buffer(x[0].clone());
        inner.set(inner.get().mul(2)?)?;
        Ok(vec![inner.get().add(w.get())?])
    });
    let x = one(&e, 1.0);
    assert_eq!(first(&f.call(std::slice::from_ref(&x)).unwrap()[0]), 3.0);
    let error = f.call(std::slice::from_ref(&x)).unwrap_err().to_string();
    assert!(
        error.contains("was created in the captured call"),
        "{error}"
    );
    // The thread goes on.
    let mut sgd = Sgd::plain(vec![w.clone()], 0.5).unwrap();
    sgd.minimize(&w.get().square().unwrap().sum(&[], false).unwrap())
        .unwrap();
    assert_eq!(first(&w.get()), 0.0);
}

#[test]
fn an_input_that_is_returned_stays_what_it_is() {
    let e = engine();
    let z = one(&e, 2.0);
    let x = one(&e, 2.0);
    x.realize().unwrap();
    let f = Jit::new(&e, |x: &[Tensor]| Ok(vec![x[0].clone(), x[0].mul(2)?]));
    let same = f.call(std::slice::from_ref(&x)).unwrap();
    assert_eq!(first(&same[0]), 2.0);
    let slopes = gradients(&x.sum(&[], false).unwrap(), &[&z]).unwrap();
    assert_eq!(first(&slopes[0]), 0.0);
}

/// Reads what ran from inside of the report.
struct Reader(Mutex<Option<Tensor>>, Mutex<usize>);

impl Observer for Reader {
    fn ran(&self, _: &Run) {
        if let Some(tensor) = self.0.lock().unwrap().as_ref() {
            assert_eq!(first(tensor), 7.0);
        }
        *self.1.lock().unwrap() += 1;
    }
}

#[test]
fn an_observer_may_use_the_engine() {
    let reader = Arc::new(Reader(Mutex::default(), Mutex::default()));
    let options = Options {
        profile: true,
        observer: Some(reader.clone()),
        ..Options::default()
    };
    let e = engine_with(Config::default(), options);
    let seven = one(&e, 7.0);
    seven.realize().unwrap();
    *reader.0.lock().unwrap() = Some(seven.clone());
    let f = Jit::new(&e, |x: &[Tensor]| Ok(vec![x[0].add(1)?]));
    for _ in 0..4 {
        assert_eq!(
            first(&f.call(std::slice::from_ref(&seven)).unwrap()[0]),
            8.0
        );
    }
    assert!(*reader.1.lock().unwrap() >= 4);
}

#[test]
fn errors_name_the_layer_that_was_called() {
    let e = engine();
    let mut rng = Rng::new(&e, 1);
    let linear = Linear::new(&mut rng, 4, 2, true, DType::F32).unwrap();
    let x = Tensor::zeros(&e, &[5, 3], DType::F32).unwrap();
    let text = |r: Result<Tensor>| r.unwrap_err().to_string();
    assert_eq!(
        text(linear.forward(&x)),
        "Linear: expected [.., 4], found [5, 3]"
    );
    let norm = BatchNorm::new(&e, 4, DType::F32).unwrap();
    assert_eq!(
        text(norm.forward(&x, false)),
        "BatchNorm: expected [n, 4, ..], found [5, 3]"
    );
    let alone = Tensor::zeros(&e, &[1, 4], DType::F32).unwrap();
    assert!(text(norm.forward(&alone, true)).contains("has one value per channel"));
    assert!(norm.forward(&alone, false).is_ok());
    let (a, b) = (one(&e, 1.0), x.clone());
    assert!(text(Tensor::stack(&[&a, &b], 0)).starts_with("stack: tensor 0 has shape [1]"));
    let target = Tensor::new(&e, [7i64]).unwrap();
    let loss = alone.cross_entropy(&target, &Default::default());
    assert!(text(loss).starts_with("cross_entropy: index 7"));
}

#[test]
fn the_sign_of_what_counts_as_zero_is_zero() {
    let e = engine();
    let x = Tensor::new(&e, [1e-40f32, -1e-40, 0.0, -0.0, 3.0, -3.0, f32::INFINITY]).unwrap();
    let signs = x.sign().unwrap().to_vec::<f32>().unwrap();
    assert_eq!(signs, [0.0, 0.0, 0.0, 0.0, 1.0, -1.0, 1.0]);
    let nan = Tensor::new(&e, [f32::NAN]).unwrap().sign().unwrap();
    assert!(first(&nan).is_nan());
}

/// Their places among the parameters are no part of the code.
#[test]
fn equal_parameters_share_the_kernels_of_a_step() {
    type Make = fn(Vec<Parameter>) -> Result<Box<dyn Optimizer>>;
    let makes: [(&str, Make); 5] = [
        ("Sgd", |p| Ok(Box::new(Sgd::new(p, 0.1, 0.9, true, 0.1)?))),
        ("Adam", |p| Ok(Box::new(Adam::with_lr(p, 0.1)?))),
        ("AdamW", |p| {
            Ok(Box::new(AdamW::new(p, 0.1, (0.9, 0.99), 1e-8, 0.1)?))
        }),
        ("Adam with decay", |p| {
            Ok(Box::new(Adam::new(p, 0.1, (0.9, 0.99), 1e-8, 0.1)?))
        }),
        ("Lamb", |p| {
            Ok(Box::new(Lamb::new(p, 0.1, (0.9, 0.99), 1e-8, 0.1)?))
        }),
    ];
    for (name, make) in makes {
        for captured in [false, true] {
            let kernels = |count: usize| -> usize {
                let e = engine();
                let values: Vec<f32> = (0..24).map(|i| i as f32).collect();
                let cells: Vec<Parameter> = (0..count)
                    .map(|_| Parameter::new(Tensor::from_slice(&e, &values, &[4, 6]).unwrap()))
                    .collect();
                let mut optimizer = make(cells.clone()).unwrap();
                let mut step = || -> Result<Vec<Tensor>> {
                    let gradients: Result<Vec<Tensor>> =
                        cells.iter().map(|p| p.get().mul(0.5)).collect();
                    optimizer.step(&gradients?)?;
                    Ok(vec![])
                };
                match captured {
                    true => {
                        let jit = Jit::new(&e, |_: &[Tensor]| step());
                        for _ in 0..3 {
                            jit.call(&[]).unwrap();
                        }
                    }
                    false => {
                        step().unwrap();
                        commit(optimizer.state()).unwrap();
                    }
                }
                let all: Vec<Vec<f32>> = cells.iter().map(|p| p.get().to_vec().unwrap()).collect();
                let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs();
                let equal = |values: &Vec<f32>| values.iter().zip(&all[0]).all(near);
                assert!(all.iter().all(equal), "{name}: {all:?}");
                DeviceExecutor::of(&e).unwrap().compiled_kernels()
            };
            let (few, many) = (kernels(2), kernels(40));
            println!("{name}, captured {captured}: {few} kernels of 2 parameters, {many} of 40");
            // The sizes of what belongs to all of them differ.
            assert!(many <= few + 3, "{name}: {few} kernels of 2, {many} of 40");
        }
    }
}

/// A constant that is returned is the caller's as well: it stays what it is, and the output is another tensor.
#[test]
fn a_constant_that_is_returned_stays_what_it_is() {
    let e = engine();
    let x = one(&e, 2.0);
    let z = one(&e, 5.0);
    let constant = one(&e, 3.0);
    let made = constant.mul(2).unwrap();
    made.realize().unwrap();
    let p = Parameter::new(one(&e, 7.0));
    let of = |t: &Tensor, with: &Tensor| first(&gradients(t, &[with]).unwrap()[0]);
    let f = Jit::new(&e, |x: &[Tensor]| {
        Ok(vec![constant.clone(), made.clone(), p.get(), x[0].add(1)?])
    });
    for call in 0..3 {
        let out = f.call(std::slice::from_ref(&x)).unwrap();
        let values: Vec<f32> = out.iter().map(first).collect();
        assert_eq!(values, [3.0, 6.0, 7.0, 3.0], "call {call}");
        // What is made of them has its gradients, and zeros for what it is not made of.
        for t in [&constant, &made] {
            assert_eq!(of(&t.mul(4).unwrap(), &z), 0.0, "call {call}");
        }
        assert_eq!(of(&constant.mul(4).unwrap(), &constant), 4.0);
        assert_eq!(of(&made.mul(4).unwrap(), &constant), 8.0);
        assert_eq!(of(&p.get().mul(4).unwrap(), &p.get()), 4.0);
        // The outputs are the same in all calls: without a graph, and not the tensors that they were.
        for (i, t) in [&constant, &made, &p.get()].into_iter().enumerate() {
            assert_ne!(out[i].id(), t.id(), "output {i}, call {call}");
            assert!(
                gradients(&out[i].mul(2).unwrap(), &[t]).is_err(),
                "output {i}, call {call}"
            );
        }
    }
}

type Call = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// Calls a captured function as soon as something is scheduled.
struct Calls(std::sync::OnceLock<Call>, Mutex<Vec<String>>);

impl Observer for Calls {
    fn scheduled(&self, _: usize, _: u64, _: u64) {
        if let Some(call) = self.0.get() {
            let told = call().map_or_else(|e| e.to_string(), |()| String::new());
            self.1.lock().unwrap().push(told);
        }
    }
}

#[test]
fn an_observer_that_calls_the_function_that_is_prepared_is_refused() {
    let calls = Arc::new(Calls(Default::default(), Mutex::default()));
    let options = Options {
        observer: Some(calls.clone()),
        ..Options::default()
    };
    let e = engine_with(Config::default(), options);
    let f = Arc::new(Jit::new(&e, |x: &[Tensor]| Ok(vec![x[0].mul(2)?])));
    let x = one(&e, 1.5);
    let (weak, given) = (Arc::downgrade(&f), x.clone());
    let call = move || match weak.upgrade() {
        Some(f) => f.call(std::slice::from_ref(&given)).map(|_| ()),
        None => Ok(()),
    };
    assert!(calls.0.set(Box::new(call)).is_ok());
    for _ in 0..2 {
        assert_eq!(first(&f.call(std::slice::from_ref(&x)).unwrap()[0]), 3.0);
    }
    let told = calls.1.lock().unwrap();
    let refused = told.iter().all(|e| e.contains("calls itself"));
    assert!(!told.is_empty() && refused, "{told:?}");
}

#[test]
fn a_profiled_update_is_done_once_whatever_becomes_of_its_times() {
    let options = Options {
        profile: true,
        timeout: Duration::from_millis(1),
        work: Some(Duration::from_millis(1)),
        ..Options::default()
    };
    let e = engine_with(Config::default(), options);
    let executor = DeviceExecutor::of(&e).unwrap();
    let w = Parameter::buffer(one(&e, 0.0));
    while commit(&w).is_err() {}
    for _ in 0..3 {
        let gate = executor.device().signal("gate").unwrap();
        let wait = hcq::Command::Wait {
            signal: &gate,
            value: 1u64.into(),
        };
        executor.stream().submit(&[], &[wait]).unwrap();
        w.set(w.get().add(1).unwrap()).unwrap();
        let done = commit(&w);
        gate.set(1).unwrap();
        done.unwrap();
        while e.synchronize().is_err() {}
    }
    let read = std::iter::repeat_with(|| w.get().to_vec::<f32>()).find_map(Result::ok);
    assert_eq!(read.unwrap(), [3.0]);
}
