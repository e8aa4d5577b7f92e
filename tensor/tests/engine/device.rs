//! Graphs on the CPU as a device: compiled, submitted to its queues, read back.
use std::sync::{Arc, Mutex};
use std::time::Duration;

use codegen::Backend;
use drivers_cpu::{Config, CpuDevice};
use hcq::{Command, Deadline, Device, DeviceId, QueueKind, Signal, Stream};
use tensor::exec::{DeviceExecutor, Observer, Options, Run, trace};
use tensor::{DType, Engine, Error, Jit, Parameter, Tensor};

fn backend(cores: usize) -> Backend {
    #[cfg(feature = "llvm")]
    return Backend::find("CPU:LLVM", "", cores).unwrap();
    #[cfg(not(feature = "llvm"))]
    return Backend::find("CPU:CLANG", "", cores).unwrap();
}

fn device() -> Arc<dyn Device> {
    let config = Config {
        cores: 2,
        ..Config::default()
    };
    CpuDevice::open(config).unwrap()
}

fn engine(options: Options) -> Engine {
    DeviceExecutor::engine(device(), backend(2), options).unwrap()
}

fn close(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        assert!(
            (x - y).abs() <= 1e-4 * (1.0 + y.abs()),
            "element {i}: {x} and {y}"
        );
    }
}

fn ramp(engine: &Engine, shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let values: Vec<f32> = (0..n)
        .map(|i| ((i * 7919) % 101) as f32 * 0.02 - 1.0)
        .collect();
    Tensor::from_slice(engine, &values, shape).unwrap()
}

#[test]
fn a_small_network_gives_what_the_reference_gives() {
    let build = |e: &Engine| {
        let x = ramp(e, &[33, 40]);
        let h = x
            .matmul(&ramp(e, &[40, 70]))
            .unwrap()
            .add(ramp(e, &[70]))
            .unwrap();
        h.relu()
            .unwrap()
            .matmul(&ramp(e, &[70, 10]))
            .unwrap()
            .softmax(-1)
            .unwrap()
    };
    let e = engine(Options::default());
    let found = build(&e).to_vec::<f32>().unwrap();
    close(
        &found,
        &build(&Engine::reference()).to_vec::<f32>().unwrap(),
    );
    let executor = DeviceExecutor::of(&e).unwrap();
    let before = executor.compiled_kernels();
    build(&e).realize().unwrap();
    assert_eq!(
        executor.compiled_kernels(),
        before,
        "the same graph compiles nothing new"
    );
}

#[test]
fn values_move_between_engines() {
    let (a, b) = (engine(Options::default()), Engine::reference());
    let x = ramp(&b, &[4, 4]).add(1.0).unwrap();
    let y = x.to(&a).unwrap().mul(2.0).unwrap();
    let z = y.to(&b).unwrap().sub(1.0).unwrap();
    let expected: Vec<f32> = ramp(&b, &[16])
        .to_vec::<f32>()
        .unwrap()
        .iter()
        .map(|v| (v + 1.0) * 2.0 - 1.0)
        .collect();
    close(&z.to_vec::<f32>().unwrap(), &expected);
}

/// Counts values that come by a copy of the device.
#[derive(Default)]
struct Brought(Mutex<u32>);

impl Observer for Brought {
    fn brought(&self, _: &DeviceId, _: u64) {
        *self.0.lock().unwrap() += 1;
    }
}

/// The host copies: a queue that waits for itself would not go on.
#[test]
fn values_move_between_engines_of_one_device() {
    let (device, brought) = (device(), Arc::new(Brought::default()));
    let engine = || {
        let options = Options {
            observer: Some(brought.clone()),
            ..Options::default()
        };
        DeviceExecutor::engine(device.clone(), backend(2), options).unwrap()
    };
    let (a, b) = (engine(), engine());
    let mut x = ramp(&a, &[4, 4]);
    for _ in 0..4 {
        x = x.to(&b).unwrap().add(1.0).unwrap();
        x = x.to(&a).unwrap().mul(2.0).unwrap();
    }
    let found = x.to_vec::<f32>().unwrap();
    let expected = ramp(&a, &[16]).to_vec::<f32>().unwrap();
    let expected: Vec<f32> = expected.iter().map(|v| v * 16.0 + 30.0).collect();
    close(&found, &expected);
    assert_eq!(*brought.0.lock().unwrap(), 0);
}

#[derive(Default)]
struct Seen(Mutex<(Vec<String>, Vec<Run>)>);

impl Observer for Seen {
    fn compiled(&self, name: &str, built: &codegen::Built) {
        assert!(!built.stages.is_empty());
        self.0.lock().unwrap().0.push(name.to_owned());
    }

    fn ran(&self, run: &Run) {
        self.0.lock().unwrap().1.push(run.clone());
    }
}

#[test]
fn profiles_name_every_kernel() {
    let seen = Arc::new(Seen::default());
    let e = engine(Options {
        profile: true,
        observer: Some(seen.clone()),
        ..Options::default()
    });
    let x = ramp(&e, &[64, 64]);
    x.softmax(-1)
        .unwrap()
        .matmul(&x)
        .unwrap()
        .realize()
        .unwrap();
    let runs = DeviceExecutor::of(&e).unwrap().take_runs();
    let guard = seen.0.lock().unwrap();
    assert_eq!(runs, guard.1);
    for name in &guard.0 {
        assert!(
            runs.iter().any(|r| r.name.starts_with(name.as_str())),
            "{name} did not run"
        );
    }
    assert!(runs.iter().all(|r| r.end_ns >= r.start_ns));
    let mut bytes = Vec::new();
    trace::write(&runs, &mut bytes).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        trace["traceEvents"].as_array().unwrap().len(),
        runs.len() + 1
    );
}

#[test]
fn a_captured_step_updates_state_and_leaves_old_outputs_alone() {
    let e = engine(Options::default());
    let w = Parameter::new(ramp(&e, &[3]));
    let start = w.get().to_vec::<f32>().unwrap();
    let weight = w.clone();
    let step = Jit::new(&e, move |inputs: &[Tensor]| {
        let loss = weight.get().mul(&inputs[0])?.sum(&[0], false)?;
        weight.set(weight.get().sub(inputs[0].mul(0.5)?)?)?;
        Ok(vec![loss])
    });
    let mut outputs = Vec::new();
    let mut expected = Vec::new();
    let mut state = start;
    for call in 0..6 {
        let x: Vec<f32> = (0..3).map(|i| (call * 3 + i) as f32 * 0.25).collect();
        expected.push(state.iter().zip(&x).map(|(w, x)| w * x).sum::<f32>());
        for (w, x) in state.iter_mut().zip(&x) {
            *w -= 0.5 * x;
        }
        outputs.push(
            step.call(&[Tensor::from_slice(&e, &x, &[3]).unwrap()])
                .unwrap(),
        );
    }
    assert_eq!(step.captures(), 1);
    for (output, expected) in outputs.iter().zip(&expected) {
        close(&output[0].to_vec::<f32>().unwrap(), &[*expected]);
    }
    close(&w.get().to_vec::<f32>().unwrap(), &state);
    // What was captured and what is submitted plainly see each other.
    close(
        &w.get().add(1.0).unwrap().to_vec::<f32>().unwrap(),
        &state.iter().map(|w| w + 1.0).collect::<Vec<_>>(),
    );
}

#[test]
fn other_shapes_are_captured_anew() {
    let e = engine(Options::default());
    let double = Jit::new(&e, |x: &[Tensor]| Ok(vec![x[0].mul(2.0)?]));
    for n in [4, 4, 4, 9, 9, 4] {
        let x = ramp(&e, &[n]);
        let y = double.call(std::slice::from_ref(&x)).unwrap();
        let expected: Vec<f32> = x.to_vec::<f32>().unwrap().iter().map(|v| v * 2.0).collect();
        close(&y[0].to_vec::<f32>().unwrap(), &expected);
    }
    assert_eq!(double.captures(), 2);
}

#[test]
fn an_input_that_is_the_state_is_read_as_it_was() {
    let e = engine(Options::default());
    let w = Parameter::new(ramp(&e, &[5]));
    w.get().realize().unwrap();
    let cell = w.clone();
    let step = Jit::new(&e, move |x: &[Tensor]| {
        cell.set(cell.get().add(1.0)?)?;
        // Reads the input in another order than the state is written.
        Ok(vec![x[0].flip(&[0])?.add(cell.get())?])
    });
    let mut state = ramp(&e, &[5]).to_vec::<f32>().unwrap();
    for _ in 0..4 {
        let y = step.call(&[w.get()]).unwrap();
        let expected: Vec<f32> = (0..5).map(|i| state[4 - i] + state[i] + 1.0).collect();
        close(&y[0].to_vec::<f32>().unwrap(), &expected);
        state.iter_mut().for_each(|v| *v += 1.0);
    }
}

#[test]
fn reading_while_capturing_is_refused() {
    let e = engine(Options::default());
    let f = Jit::new(&e, |x: &[Tensor]| {
        let y = x[0].add(1.0)?;
        y.realize()?;
        Ok(vec![y])
    });
    let x = ramp(&e, &[4]);
    f.call(std::slice::from_ref(&x)).unwrap();
    let error = f.call(std::slice::from_ref(&x)).unwrap_err();
    assert!(matches!(error, Error::Capture { .. }), "{error}");
    // Outside of it everything goes on.
    x.add(2.0).unwrap().realize().unwrap();
    let other = ramp(&Engine::reference(), &[4]);
    let error = f
        .call(std::slice::from_ref(&other))
        .unwrap_err()
        .to_string();
    assert!(error.contains("input 0"), "{error}");
    assert!(f.call(&[x.clone(), x]).is_err());
}

#[test]
fn a_long_graph_goes_in_several_submissions() {
    let e = engine(Options::default());
    let mut x = ramp(&e, &[8, 8]);
    let w = ramp(&e, &[8, 8]).mul(0.2).unwrap().contiguous().unwrap();
    let r = Engine::reference();
    let mut y = ramp(&r, &[8, 8]);
    let v = ramp(&r, &[8, 8]).mul(0.2).unwrap();
    for _ in 0..150 {
        x = x.matmul(&w).unwrap().tanh().unwrap();
        y = y.matmul(&v).unwrap().tanh().unwrap();
    }
    close(&x.to_vec::<f32>().unwrap(), &y.to_vec::<f32>().unwrap());
}

#[test]
fn small_types_survive_the_device() {
    let (e, r) = (engine(Options::default()), Engine::reference());
    for dtype in [
        DType::I8,
        DType::U16,
        DType::F16,
        DType::BF16,
        DType::F64,
        DType::Bool,
    ] {
        let build = |e: &Engine| {
            let x = ramp(e, &[5, 7]).mul(4.0).unwrap().cast(dtype).unwrap();
            x.cast(DType::F32).unwrap().sum(&[1], false).unwrap()
        };
        close(
            &build(&e).to_vec::<f32>().unwrap(),
            &build(&r).to_vec::<f32>().unwrap(),
        );
    }
}

#[test]
fn a_frozen_function_packs_its_weights_once() {
    use tensor::ops::conv::ConvParams;
    use tensor::{Frozen, Source};

    #[derive(Debug)]
    struct Bytes(Vec<u8>);
    impl Source for Bytes {
        fn bytes(&self) -> usize {
            self.0.len()
        }
        fn read_at(&self, offset: usize, into: &mut [u8]) -> std::io::Result<()> {
            into.copy_from_slice(&self.0[offset..offset + into.len()]);
            Ok(())
        }
    }

    let r = Engine::reference();
    let e = engine(Options::default());
    let signature = [(vec![2, 16, 9, 9], DType::F32)];
    let here = Frozen::capture(&e, &signature, |x| {
        let w = ramp(&e, &[24, 16, 3, 3]).to_bytes();
        assert!(w.is_err(), "reading is refused");
        model_of(&e, &x[0])
    })
    .unwrap();
    fn model_of(e: &Engine, x: &Tensor) -> tensor::Result<Vec<Tensor>> {
        let values: Vec<f32> = (0..24 * 16 * 9)
            .map(|i| ((i * 7919) % 101) as f32 * 0.02 - 1.0)
            .collect();
        let raw = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let w = Tensor::from_source(e, Arc::new(Bytes(raw)), &[24, 16, 3, 3], DType::F32)?;
        let k = ramp(e, &[24])
            .abs()?
            .add(0.5)?
            .sqrt()?
            .reshape(&[24, 1, 1])?;
        let y = x.conv(&w, None, &ConvParams::strided(1, 2).padded(1, 2), 1)?;
        let y = y.mul(&k)?.relu()?;
        let m = ramp(e, &[24 * 81, 32]);
        let z = y.reshape(&[2, 24 * 81])?.matmul(&m)?;
        Ok(vec![y, z, x.clone()])
    }
    let there = Frozen::capture(&r, &signature, |x| model_of(&r, &x[0])).unwrap();
    for round in 0..3 {
        let shift = round as f32 * 0.25;
        let x = ramp(&e, &[2, 16, 9, 9]).add(shift).unwrap();
        let y = ramp(&r, &[2, 16, 9, 9]).add(shift).unwrap();
        let found = here.call(std::slice::from_ref(&x)).unwrap();
        let expected = there.call(std::slice::from_ref(&y)).unwrap();
        assert_eq!(found.len(), 3);
        for (a, b) in found.iter().zip(&expected) {
            close(&a.to_vec().unwrap(), &b.to_vec().unwrap());
        }
    }
    assert!(here.call(&[ramp(&e, &[2, 16, 9, 8])]).is_err());
}

/// Bytes of the tensors below: memory of their own, not parts of a block.
const LARGE: u64 = 1 << 20;

/// An engine that does not wait for long, and its device.
fn impatient() -> (Arc<dyn Device>, Engine) {
    let device = device();
    let options = Options {
        timeout: Duration::from_millis(50),
        ..Options::default()
    };
    let engine = DeviceExecutor::engine(device.clone(), backend(2), options).unwrap();
    (device, engine)
}

/// Holds the device's compute queue until the signal is raised.
fn hold(device: &Arc<dyn Device>) -> Signal {
    let gate = device.signal("gate").unwrap();
    let wait = Command::Wait {
        signal: &gate,
        value: 1.into(),
    };
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    stream.submit(&[], &[wait]).unwrap();
    gate
}

/// Lets the work go on, which harms nothing.
fn release(device: &Arc<dyn Device>, gate: &Signal) {
    gate.set(1).unwrap();
    let soon = Deadline::after(Duration::from_secs(60));
    device.synchronize(soon).unwrap();
    device.status().unwrap();
}

#[test]
fn what_the_device_still_writes_outlives_the_engine() {
    let (device, e) = impatient();
    let x = ramp(&e, &[LARGE as usize / 4]);
    x.realize().unwrap();
    let gate = hold(&device);
    let y = x.add(1.0).unwrap();
    y.realize().unwrap();
    assert!(matches!(
        y.to_vec::<f32>(),
        Err(Error::Device(hcq::Error::Timeout { .. }))
    ));
    let used = device.memory().used;
    drop((x, y, e));
    assert_eq!(device.memory().used, used);
    release(&device, &gate);
}

#[test]
fn what_a_replay_still_writes_outlives_the_function_and_its_engine() {
    let (device, e) = impatient();
    let x = ramp(&e, &[LARGE as usize / 4]);
    x.realize().unwrap();
    let jit = Jit::new(&e, |inputs: &[Tensor]| {
        Ok(vec![inputs[0].mul(3.0)?.sum(&[0], false)?])
    });
    for _ in 0..3 {
        jit.call(std::slice::from_ref(&x)).unwrap()[0]
            .to_vec::<f32>()
            .unwrap();
    }
    assert_eq!(jit.captures(), 1);
    let gate = hold(&device);
    let y = jit.call(std::slice::from_ref(&x)).unwrap();
    let used = device.memory().used;
    drop((x, y, jit, e));
    assert_eq!(device.memory().used, used);
    release(&device, &gate);
}

#[test]
fn a_submission_that_has_to_wait_for_older_ones_in_vain_leaves_theirs() {
    let (device, e) = impatient();
    let x = ramp(&e, &[LARGE as usize / 4]);
    x.realize().unwrap();
    let gate = hold(&device);
    let mut submitted = 0;
    let error = loop {
        let used = device.memory().used;
        let sum = x.add(f64::from(submitted)).unwrap();
        let done = sum.realize().map(|_| ());
        drop(sum);
        // One that has no room is not submitted, and has nothing to keep.
        let kept = match &done {
            Ok(()) => used + LARGE,
            Err(_) => used,
        };
        assert!(
            device.memory().used >= kept,
            "what submission {submitted} and those before it use is kept: {done:?}"
        );
        match done {
            Ok(()) => submitted += 1,
            Err(error) => break error,
        }
        assert!(submitted < 1000);
    };
    assert!(
        matches!(error, Error::Device(hcq::Error::Timeout { .. })),
        "{error}"
    );
    release(&device, &gate);
    let executor = DeviceExecutor::of(&e).unwrap();
    executor.synchronize().unwrap();
    drop(x);
    executor.trim().unwrap();
    assert!(device.memory().used < LARGE, "what is done is freed");
}

/// Products, each of the one before: far more work than the engines below are patient.
fn long(e: &Engine) -> Tensor {
    let factor = ramp(e, &[1024, 1024]).mul(1e-3).unwrap();
    let product = |x: Tensor, _| x.matmul(&factor).unwrap();
    (0..6).fold(ramp(e, &[1024, 1024]), product)
}

#[test]
fn work_may_take_longer_than_the_engine_is_patient() {
    let options = Options {
        timeout: Duration::from_millis(20),
        ..Options::default()
    };
    let e = engine(options);
    let values = long(&e).to_vec::<f32>().unwrap();
    assert_eq!(values.len(), 1 << 20);
    long(&e).realize().unwrap();
    DeviceExecutor::of(&e).unwrap().synchronize().unwrap();
}

#[test]
fn work_may_be_bounded_though_it_goes_on() {
    let device = device();
    let options = Options {
        work: Some(Duration::from_millis(10)),
        ..Options::default()
    };
    let e = DeviceExecutor::engine(device.clone(), backend(2), options).unwrap();
    let product = long(&e);
    product.realize().unwrap();
    let error = product.to_vec::<f32>().unwrap_err();
    assert!(
        matches!(error, Error::Device(hcq::Error::Timeout { .. })),
        "{error}"
    );
    assert!(
        error.to_string().contains("HCQDEV_WORK_TIMEOUT_MS"),
        "{error}"
    );
    // That is no loss.
    device
        .synchronize(Deadline::after(Duration::from_secs(60)))
        .unwrap();
    assert_eq!(product.to_vec::<f32>().unwrap().len(), 1 << 20);
}

#[test]
fn engines_on_one_device_do_not_disturb_each_other() {
    let device = device();
    std::thread::scope(|scope| {
        for seed in 1..=3u32 {
            let device = device.clone();
            scope.spawn(move || {
                let e = DeviceExecutor::engine(device, backend(2), Options::default()).unwrap();
                let x = ramp(&e, &[1 << 12]);
                let start = x.to_vec::<f32>().unwrap();
                for round in 0..100u32 {
                    let by = f64::from(seed * 1000 + round);
                    let y = x.mul(by).unwrap().add(1.0).unwrap();
                    let expected: Vec<f32> = start.iter().map(|v| v * by as f32 + 1.0).collect();
                    close(&y.to_vec::<f32>().unwrap(), &expected);
                }
            });
        }
    });
}
