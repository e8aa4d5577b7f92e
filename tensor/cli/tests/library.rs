//! The library as another crate uses it. Which device the variables choose is tested with the program.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use doorbell::nn::{Linear, Module, Optimizer, Sgd};
use doorbell::ops::loss::Reduction;
use doorbell::{DType, Error, Observer, Rng, Run, Setup, Tensor, open_target};

#[test]
fn a_setup_says_how_the_device_is_opened() {
    #[derive(Default)]
    struct Counter(AtomicUsize);
    impl Observer for Counter {
        fn ran(&self, _: &Run) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let counter = Arc::new(Counter::default());
    let setup = Setup::of("CPU").unwrap().threads(2).profile(true);
    let opened = setup.observe(counter.clone()).open().unwrap();
    assert_eq!(opened.device.info().units, 2);
    let x = Tensor::new(&opened.engine, [[1.0f32, 2.0], [3.0, 4.0]]).unwrap();
    assert_eq!(
        x.matmul(&x).unwrap().to_vec::<f32>().unwrap(),
        [7.0, 10.0, 15.0, 22.0]
    );
    let runs = opened.engine.take_runs();
    assert!(!runs.is_empty() && runs.len() == counter.0.load(Ordering::Relaxed));
    assert!(opened.engine.take_runs().is_empty());
}

#[test]
fn engines_share_what_is_moved_between_them() {
    let (one, two) = (open_target("CPU").unwrap(), open_target("CPU:1").unwrap());
    let a = Tensor::new(&one, [1.0f32, 2.0]).unwrap();
    let b = Tensor::new(&two, [10.0f32, 20.0]).unwrap();
    let error = (&a + &b).unwrap_err().to_string();
    assert!(
        error.contains("CPU:0") && error.contains("CPU:1"),
        "{error}"
    );
    assert!(error.contains("move one of them with `to`"), "{error}");
    let sum = (a.to(&two).unwrap() + &b).unwrap();
    assert_eq!(sum.to_string(), "[11.0000, 22.0000]");
}

/// What can go wrong in a program becomes one error by `?`, whose `Debug` is what `main` prints.
#[test]
fn errors_become_one_and_say_what_to_do() {
    fn program(what: &str) -> Result<(), Error> {
        let engine = open_target("CPU")?;
        match what {
            "shape" => Tensor::new(&engine, [1.0f32])?.reshape(&[2])?.realize()?,
            "model" => return Err(doorbell::onnx::Model::load("no.onnx").err().unwrap().into()),
            "npy" => &Tensor::read_npy(&engine, "no.npy")?,
            "file" => return Ok(std::fs::write("/no/such/folder", "")?),
            target => return open_target(target).map(drop),
        };
        Ok(())
    }
    for (what, text) in [
        ("shape", "reshape: "),
        ("model", "no.onnx: open failed"),
        ("npy", "no.npy: open failed"),
        ("file", "No such file or directory"),
        ("CPV", "did you mean CPU?"),
        ("NV", "no device for NV: "),
        ("CPU::sparc", "expected sparc"),
    ] {
        let error = program(what).unwrap_err();
        assert!(error.to_string().contains(text), "{what}: {error}");
        assert_eq!(format!("{error:?}"), error.to_string());
    }
}

#[test]
fn a_layer_learns_with_what_is_at_the_top() {
    let engine = open_target("CPU").unwrap();
    let mut rng = Rng::new(&engine, 7);
    let layer = Linear::new(&mut rng, 3, 1, true, DType::F32).unwrap();
    let mut descent = Sgd::plain(layer.trainable(), 0.1).unwrap();
    let x = rng.randn(&[16, 3], DType::F32).unwrap();
    let y = x.sum(&[1], true).unwrap();
    let loss = || layer.forward(&x).unwrap().mse_loss(&y, Reduction::Mean);
    let before: f32 = loss().unwrap().item().unwrap();
    for _ in 0..10 {
        descent.minimize(&loss().unwrap()).unwrap();
    }
    let after: f32 = loss().unwrap().item().unwrap();
    assert!(after < before / 2.0, "{before} to {after}");
}

#[cfg(feature = "twin")]
#[test]
fn a_simulated_device_says_that_no_rule_was_broken() {
    let setup = Setup::of("TWINKFD+AMD::gfx1100").unwrap();
    let engine = setup.open().unwrap().engine;
    let x = Tensor::new(&engine, [1i32, 2, 3]).unwrap();
    assert_eq!((&x * 2).unwrap().to_vec::<i32>().unwrap(), [2, 4, 6]);
    drop((x, engine));
    assert_eq!(setup.twin().unwrap().chip(), "gfx1100");
    setup.check_rules().unwrap();
}

/// Device 1 of the machine of a setup.
#[cfg(feature = "twin")]
fn second(setup: &Setup, target: &str) -> doorbell::Opened {
    let target = doorbell::drivers::select::parse_targets("test", target).unwrap();
    let machine = setup.twin().map(doorbell::Twin::machine);
    let device = doorbell::drivers::open_with(&target[0], setup.settings(), machine.as_ref());
    setup.open_on(device.unwrap()).unwrap()
}

#[cfg(feature = "twin")]
#[test]
fn a_device_goes_on_after_a_transfer_from_one_that_is_lost_or_hangs() {
    use doorbell::hcq::{AllocSpec, Command, QueueKind, Stream};
    for hangs in [false, true] {
        let limit = std::time::Duration::from_secs(2);
        let two = ["TWIN".to_string(), "gpus=2".to_string()];
        let setup = Setup::of_variables(Some("TWINKFD+AMD::gfx1100"), &[two], true);
        let setup = setup.unwrap().timeout(limit);
        let (one, two) = (
            setup.open().unwrap(),
            second(&setup, "TWINKFD:1+AMD::gfx1100"),
        );
        // Made there: what the host has needs no device.
        let values = Tensor::arange(&one.engine, 1, 4, 1, DType::I32).unwrap();
        values.realize().unwrap();
        let brought = values.to(&two.engine).unwrap();
        assert_eq!((&brought * 2).unwrap().to_vec::<i32>().unwrap(), [2, 4, 6]);

        let stream = Stream::new(one.device.queue(QueueKind::Compute, 0).unwrap());
        let never = one.device.signal("never").unwrap();
        let memory = one.device.alloc(AllocSpec::device(64)).unwrap();
        let bad = match hangs {
            true => Command::Wait {
                signal: &never,
                value: 1.into(),
            },
            false => Command::Copy {
                dst: 0x7000_dead_0000u64.into(),
                src: memory.va().0.into(),
                bytes: 64,
            },
        };
        let point = stream.submit(&[], &[bad]).unwrap();
        if !hangs {
            point
                .wait(doorbell::hcq::Deadline::after(limit))
                .unwrap_err();
        }
        let error = values.to(&two.engine).unwrap().to_vec::<i32>().unwrap_err();
        assert!(error.to_string().contains("AMD:0"), "{error}");
        assert_eq!((&brought + 1).unwrap().to_vec::<i32>().unwrap(), [2, 3, 4]);
        drop((values, one));
        assert_eq!((&brought + 1).unwrap().to_vec::<i32>().unwrap(), [2, 3, 4]);
    }
}

/// The GPU's caches and the processor's are not coherent there: each evaluation cleans what the program has written.
#[cfg(feature = "twin")]
#[test]
fn a_gpu_uses_pages_of_the_program_in_place() {
    use doorbell::hcq::Import;
    use doorbell::hcq::mem::view::View;
    use doorbell::{Access, Jit, Layout};
    let setup = Setup::of("TWINKGSL+QCOM::a630").unwrap();
    let pages = View::alloc(4096, 4096).unwrap();
    let floats = |tensor: &Tensor| tensor.to_vec::<f32>().unwrap();
    {
        let engine = setup.open().unwrap().engine;
        let over = |view: View, offset: usize| {
            let layout = Layout::new(&[4], DType::F32).offset(offset);
            Tensor::from_import(&engine, &Import::Host(view), &layout, Access::ReadWrite)
        };
        let x = over(pages.clone(), 64).unwrap();
        let kept = x.clone();
        let double = Jit::new(&engine, move |_: &[Tensor]| Ok(vec![kept.mul(2)?]));
        for first in [0.0f32, 1.0, 2.0, 3.0] {
            let words = [first, 1.0, 2.0, 3.0].map(f32::to_bits);
            pages.write_words(64, &words).unwrap();
            let doubled = double.call(&[]).unwrap();
            assert_eq!(floats(&doubled[0]), [2.0 * first, 2.0, 4.0, 6.0]);
            let more = x.add(1).unwrap();
            assert_eq!(floats(&more), [first + 1.0, 2.0, 3.0, 4.0]);
        }
        assert_eq!(double.captures(), 1);
        x.overwrite(&x.mul(10).unwrap()).unwrap();
        let mut words = [0u32; 4];
        pages.read_words(64, &mut words).unwrap();
        assert_eq!(words.map(f32::from_bits), [30.0, 10.0, 20.0, 30.0]);
        let error = over(pages.sub(0, 100).unwrap(), 0).unwrap_err().to_string();
        assert!(error.contains("whole pages"), "{error}");
        let error = over(pages.clone(), 4).unwrap_err().to_string();
        assert!(error.contains("not aligned to 64 bytes"), "{error}");
    }
    setup.check_rules().unwrap();
}

/// A driver that cannot import memory says what to do instead.
#[cfg(feature = "twin")]
#[test]
fn a_gpu_that_takes_no_memory_of_others_says_so() {
    use doorbell::{Access, Layout, on_release};
    static PAGE: [u64; 8] = [0; 8];
    let setup = Setup::of("TWINKFD+AMD::gfx1100").unwrap();
    let released = Arc::new(AtomicUsize::new(0));
    {
        let engine = setup.open().unwrap().engine;
        let count = released.clone();
        let owner = on_release(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let (layout, data) = (
            Layout::new(&[8], DType::U64),
            PAGE.as_ptr().cast_mut().cast(),
        );
        // SAFETY: constant memory, which lives as long as the program.
        let found =
            unsafe { Tensor::from_blob(&engine, data, 64, &layout, Access::ReadOnly, owner) };
        let error = found.unwrap_err().to_string();
        assert!(error.contains("allocate a buffer and copy"), "{error}");
        let x = Tensor::new(&engine, [1.0f32]).unwrap();
        let error = x.to_dlpack(false).unwrap_err().to_string();
        assert!(
            error.contains("move them to a CPU engine with `to`"),
            "{error}"
        );
    }
    assert_eq!(released.load(Ordering::Relaxed), 1);
    setup.check_rules().unwrap();
}

/// The host does not reach it: what it reads of it is copied by the GPU.
#[cfg(feature = "twin")]
#[test]
fn a_dma_buf_is_one_memory_for_all_that_import_it() {
    use doorbell::hcq::Import;
    use doorbell::{Access, Layout};
    for (dev, config) in [
        ("TWINKGSL+QCOM::a630", "chip=a630"),
        ("TWINMSM+QCOM::a643", "chip=a643,kernel=msm"),
    ] {
        let machine = twin_qcom::machine::TwinMachine::new(config).unwrap();
        let twin: doorbell::drivers::Twin = machine.clone();
        let setup = Setup::of(dev).unwrap();
        let target = doorbell::drivers::select::parse_targets("test", dev).unwrap();
        let open = || {
            let settings = setup.settings();
            let device = doorbell::drivers::open_with(&target[0], settings, Some(&twin));
            setup.open_on(device.unwrap()).unwrap().engine
        };
        let fd = machine.process().foreign_dmabuf(8192).unwrap();
        {
            let (one, two) = (open(), open());
            let over = |engine: &doorbell::Engine, access| {
                let layout = Layout::new(&[4], DType::F32).offset(4096);
                let import = Import::DmaBuf(fd, 8192);
                Tensor::from_import(engine, &import, &layout, access).unwrap()
            };
            let x = over(&one, Access::ReadWrite);
            let y = over(&two, Access::ReadOnly);
            for first in [1.0f32, 2.0] {
                let values = [first, 5.0, 6.0, 7.0];
                let new = Tensor::new(&one, values).unwrap();
                x.overwrite(&new).unwrap();
                assert_eq!(x.to_vec::<f32>().unwrap(), values, "{dev}");
                let more = y.add(1).unwrap().to_vec::<f32>().unwrap();
                assert_eq!(more, values.map(|v| v + 1.0), "{dev}");
            }
        }
        machine.process().close(fd).unwrap();
        assert_eq!(machine.machine().broken_rules(), [""; 0], "{dev}");
    }
}
