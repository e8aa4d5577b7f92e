//! Runs on the CPU device.

use std::sync::Arc;
use std::time::Duration;

use doorbell_run::plan::{Place, Step};
use doorbell_run::{Chain, Error, Model, ModelBundle};
use hcq::mem::view::View;
use hcq::{AllocSpec, Buffer, Import};

use crate::small::{self, ROW, ROWS};

const LIMIT: Duration = Duration::from_secs(60);

fn opened(bytes: Vec<u8>) -> ModelBundle {
    ModelBundle::from_bytes("test.dbx", bytes).unwrap()
}

fn placed(bundle: &ModelBundle) -> Model {
    Chain::parse("CPU").unwrap().place(bundle).unwrap().model
}

/// One run; the first element of the output.
fn step(model: &mut Model, x: u64) -> u64 {
    model
        .write_input("x", &small::bytes(&[x; ROW as usize]))
        .unwrap();
    model.run(LIMIT).unwrap();
    let mut y = [0; ROW as usize * 8];
    model.read_output("y", &mut y).unwrap();
    let y = small::values(&y);
    assert!(y.iter().all(|v| *v == y[0]), "{y:?}");
    y[0]
}

/// What the runs have to give.
fn expected(inputs: &[u64]) -> Vec<u64> {
    let mut queue: Vec<u64> = (0..ROWS).collect();
    inputs
        .iter()
        .map(|x| {
            let y = x + queue.remove(0);
            queue.push(y);
            y
        })
        .collect()
}

#[test]
fn a_queue_moves_on_in_order_and_starts_again() {
    let bundle = opened(small::good());
    let mut model = placed(&bundle);
    let inputs: Vec<u64> = (10..40).collect();
    for _ in 0..2 {
        let found: Vec<u64> = inputs.iter().map(|x| step(&mut model, *x)).collect();
        assert_eq!(found, expected(&inputs));
        model.reset().unwrap();
    }
    // The state is a value like any other.
    let mut queue = [0; (ROWS * ROW) as usize * 8];
    model.read_state("queue", &mut queue).unwrap();
    assert_eq!(small::values(&queue)[ROW as usize], 1);
    model
        .write_state("queue", &small::bytes(&[5; (ROWS * ROW) as usize]))
        .unwrap();
    assert_eq!(step(&mut model, 1), 6);
    assert!(model.memory() > 0);
}

#[test]
fn a_file_and_its_bytes_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.dbx");
    std::fs::write(&path, small::good()).unwrap();
    let bundle = ModelBundle::open(&path).unwrap();
    bundle.check().unwrap();
    assert!(ModelBundle::is_one(&path).unwrap());
    assert_eq!(bundle.about().model, "small");
    assert_eq!(
        bundle.targets()[0].name(),
        format!("CPU::{}", std::env::consts::ARCH)
    );
    let mut model = placed(&bundle);
    let inputs = [3, 4, 5, 6, 7];
    let found: Vec<u64> = inputs.iter().map(|x| step(&mut model, *x)).collect();
    assert_eq!(found, expected(&inputs));
}

#[test]
fn memory_is_shared_without_a_copy() {
    let bundle = opened(small::good());
    let mut model = placed(&bundle);
    let (x, y) = (
        model.input_memory("x").unwrap(),
        model.output_memory("y").unwrap(),
    );
    for i in 0..ROW as usize {
        x.write(i * 8, 100u64).unwrap();
    }
    model.run(LIMIT).unwrap();
    assert_eq!(y.read::<u64>(0), Ok(100));
}

/// Pages of this process, and the same as memory of a model's device.
fn pages(model: &Model) -> (View, Buffer) {
    let view = View::alloc(4096, 4096).unwrap();
    let buffer = model.device().import(&Import::Host(view.clone())).unwrap();
    (view, buffer)
}

#[test]
fn a_ring_of_buffers_is_bound_one_after_the_other() {
    let bundle = opened(small::good());
    let mut model = placed(&bundle);
    let ring = [(); 3].map(|()| pages(&model));
    let (out, out_buffer) = pages(&model);
    let inputs: Vec<u64> = (10..40).collect();
    let mut found = Vec::new();
    for (n, x) in inputs.iter().enumerate() {
        let (frame, buffer) = &ring[n % 3];
        frame
            .copy_from_slice(0, &small::bytes(&[*x; ROW as usize]))
            .unwrap();
        model.bind_input("x", buffer).unwrap();
        // An output later than the input, and in a run of its own again.
        match n {
            5 => model.bind_output("y", &out_buffer).unwrap(),
            20 => model.unbind_output("y").unwrap(),
            _ => {}
        }
        model.run(LIMIT).unwrap();
        let mut y = [0; ROW as usize * 8];
        model.read_output("y", &mut y).unwrap();
        if (5..20).contains(&n) {
            let mut there = [0; ROW as usize * 8];
            out.copy_to_slice(0, &mut there).unwrap();
            assert_eq!(there, y);
        }
        found.push(small::values(&y)[0]);
    }
    // The queue takes what is bound, and the output that is bound.
    assert_eq!(found, expected(&inputs));
    // What the model writes by its own functions is in the same memory.
    model.bind_input("x", &ring[0].1).unwrap();
    model
        .write_input("x", &small::bytes(&[77; ROW as usize]))
        .unwrap();
    assert_eq!(ring[0].0.read::<u64>(8), Ok(77));
    // The model's own has the zeros that it began with.
    model.unbind_input("x").unwrap();
    model.reset().unwrap();
    model.run(LIMIT).unwrap();
    let mut y = [1; ROW as usize * 8];
    model.read_output("y", &mut y).unwrap();
    assert_eq!(y, [0; ROW as usize * 8]);
}

#[test]
fn bound_memory_is_kept_until_other_memory_is_bound() {
    let bundle = opened(small::good());
    let mut model = placed(&bundle);
    let guards = [Arc::new(()), Arc::new(())];
    let buffers = guards.each_ref().map(|guard| {
        let view = View::alloc(4096, 4096).unwrap().with_guard(guard.clone());
        model.device().import(&Import::Host(view)).unwrap()
    });
    let kept = || guards.each_ref().map(|guard| Arc::strong_count(guard) > 1);
    model.bind_input("x", &buffers[0]).unwrap();
    model.run(LIMIT).unwrap();
    let [first, second] = buffers;
    drop(first);
    assert_eq!(kept(), [true, true]);
    model.bind_input("x", &second).unwrap();
    drop(second);
    assert_eq!(kept(), [false, true]);
    model.run(LIMIT).unwrap();
    model.unbind_input("x").unwrap();
    assert_eq!(kept(), [false, false]);
}

#[test]
fn memory_that_a_model_cannot_use_is_refused() {
    let bundle = opened(small::good());
    let (mut model, other) = (placed(&bundle), placed(&bundle));
    let (_, buffer) = pages(&model);
    let own = Import::Host(model.output_memory("y").unwrap());
    let own = model.device().import(&own).unwrap();
    let foreign = other.device().alloc(AllocSpec::device(64)).unwrap();
    let small = buffer.slice(0, 63).unwrap();
    let odd = buffer.slice(8, 64).unwrap();
    for (memory, part) in [
        (
            &foreign,
            "expected memory of the model's own handle of CPU:0, found memory of another handle of CPU:0: import it by",
        ),
        (
            &small,
            "expected 64 bytes or more, found memory of 63 bytes: import at least 64 from the offset on",
        ),
        (&odd, "expected memory at a multiple of 64 bytes"),
    ] {
        let error = model.bind_input("x", memory).unwrap_err();
        assert!(matches!(error, Error::Port { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(matches!(
        model.bind_input("y", &buffer),
        Err(Error::Port { .. })
    ));
    assert!(matches!(
        model.bind_output("queue", &buffer),
        Err(Error::Port { .. })
    ));
    // One may be read and written, but not both.
    model.bind_input("x", &buffer).unwrap();
    let error = model.bind_output("y", &buffer).unwrap_err().to_string();
    assert!(
        error.contains("memory that no input of the model has")
            && error.contains("input \"x\" has"),
        "{error}"
    );
    let apart = buffer.slice(64, 64).unwrap();
    model.bind_output("y", &apart).unwrap();
    // Memory that the model may use again is its own as well.
    let error = model.bind_input("x", &own).unwrap_err().to_string();
    assert!(
        error.contains("memory that no output of the model has"),
        "{error}"
    );
    // What was refused has changed nothing.
    let bytes = small::bytes(&[3; ROW as usize]);
    buffer.write(0, &bytes).unwrap();
    model.run(LIMIT).unwrap();
    let mut y = vec![0; bytes.len()];
    apart.read(0, &mut y).unwrap();
    assert_eq!(y, bytes);
}

#[test]
fn an_input_that_runs_write_takes_no_other_memory() {
    let bundle = opened(small::file("void kernel(void) {}", |plan| {
        let row = ROW * 8;
        plan.steps.push(Step::Copy {
            to: Place {
                region: 0,
                offset: 0,
            },
            from: Place {
                region: 4,
                offset: 0,
            },
            bytes: row,
        });
    }));
    let mut model = placed(&bundle);
    let (_, buffer) = pages(&model);
    let error = model.bind_input("x", &buffer).unwrap_err().to_string();
    assert!(
        error.contains("expected an input that runs only read"),
        "{error}"
    );
}

#[test]
fn wrong_names_and_sizes_are_named() {
    let bundle = opened(small::good());
    let mut model = placed(&bundle);
    let error = model.write_input("z", &[]).unwrap_err().to_string();
    assert_eq!(error, "input \"z\": expected one of x, found another name");
    let error = model.write_input("x", &[1]).unwrap_err().to_string();
    assert_eq!(
        error,
        "input \"x\": expected 64 bytes, i64 [1, 8], found 1 bytes"
    );
    assert!(matches!(
        model.read_output("x", &mut []),
        Err(Error::Port { .. })
    ));
    assert!(matches!(
        model.write_state("y", &[]),
        Err(Error::Port { .. })
    ));
}

#[test]
fn a_run_that_does_not_end_is_late_and_the_next_one_is_not() {
    let bundle = opened(small::file(small::SPIN, |_| ()));
    let mut model = placed(&bundle);
    let limit = Duration::from_millis(300);
    let error = model.run(limit).unwrap_err();
    assert!(matches!(error, Error::Late { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("not over after 300ms"), "{said}");
    // What ended it, and no variable that did not.
    assert!(
        said.contains("--limit MS") && !said.contains("HCQDEV"),
        "{said}"
    );
    // Nobody stands at a copy meanwhile.
    let mut y = [0; ROW as usize * 8];
    let error = model.read_output("y", &mut y).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    assert!(matches!(model.reset(), Err(Error::Busy { .. })));
    let (_, buffer) = pages(&model);
    let error = model.bind_input("x", &buffer).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    // The next one is not submitted.
    let error = model.run(limit).unwrap_err();
    assert!(matches!(error, Error::Waiting { .. }), "{error}");
    assert_eq!(error.exit_code(), 5);
    assert!(
        error.to_string().contains("This one was not submitted"),
        "{error}"
    );
    // The kernel ends when its input changes.
    model.input_memory("x").unwrap().write(0, 1u64).unwrap();
    model.wait(LIMIT).unwrap();
    model.run(LIMIT).unwrap();
    model.read_output("y", &mut y).unwrap();
    assert_eq!(small::values(&y), [7; ROW as usize]);
}

#[test]
fn who_has_no_code_for_the_cpu_is_told_to_compile_for_it() {
    let gpu = |cpu: bool| {
        let plan = |plan: &mut doorbell_run::plan::TargetPlan| {
            (plan.device, plan.arch) = ("QCOM".into(), "a630".into());
        };
        let bundle = opened(small::file_for("void kernel(void) {}", plan, cpu));
        // No machine has so many.
        let placed = Chain::parse("MSM:99+QCOM").unwrap().place(&bundle);
        placed.err().unwrap()
    };
    let alone = gpu(false);
    assert_eq!(alone.exit_code(), 3);
    let said = alone.to_string();
    assert!(
        said.ends_with("test.dbx has code for QCOM::a630 only: to run it here, compile it with --target CPU as well"),
        "{said}"
    );
    assert!(!said.contains("DEV=CPU"), "{said}");
    let both = gpu(true);
    assert_eq!(both.exit_code(), 3);
    assert!(!both.to_string().contains("--target"), "{both}");
    // Where the CPU is tried next, nobody is told to use it.
    let plan = |plan: &mut doorbell_run::plan::TargetPlan| {
        (plan.device, plan.arch) = ("QCOM".into(), "a630".into());
    };
    let bundle = opened(small::file_for("void kernel(void) {}", plan, true));
    let notes = Chain::parse("MSM:99+QCOM|CPU").unwrap().place(&bundle);
    let notes = notes.unwrap().notes;
    assert!(
        notes[0].starts_with("no device for MSM:99+QCOM: ") && !notes[0].contains("DEV=CPU"),
        "{notes:?}"
    );
}

#[test]
fn a_chip_that_nothing_is_compiled_for_is_unsupported() {
    let bundle = opened(small::good());
    let place = |dev: &str| Chain::parse(dev).unwrap().place(&bundle).err().unwrap();
    for (dev, known) in [("QCOM::a740", "a630"), ("AMD::gfx900", "gfx1100")] {
        let error = place(dev);
        assert_eq!(error.exit_code(), 6, "{error}");
        let said = error.to_string();
        assert!(
            said.contains("expected one of") && said.contains(known),
            "{said}"
        );
        assert!(!said.contains("--target"), "{said}");
    }
    // Nothing can be compiled for these.
    for dev in ["CUDA", "CL", "METAL"] {
        let error = place(dev);
        assert_eq!(error.exit_code(), 6, "{error}");
        let said = error.to_string();
        assert!(
            said.contains("bundles have code for CPU, AMD, NV, QCOM alone"),
            "{said}"
        );
        assert!(!said.contains("--target"), "{said}");
    }
}

#[test]
fn a_simulated_device_is_somewhere_else() {
    let bundle = opened(small::good());
    let place = |dev: &str| Chain::parse(dev).unwrap().place(&bundle);
    let error = place("TWINKGSL+QCOM::a630").err().unwrap();
    assert_eq!(error.exit_code(), 2);
    let said = error.to_string();
    assert!(
        said.starts_with("TWINKGSL+QCOM::a630: doorbell-run and its library have no simulator"),
        "{said}"
    );
    assert!(
        said.contains("doorbell verify") && !said.contains("feature"),
        "{said}"
    );
    assert!(
        said.contains("DEV=QCOM doorbell twin exec --twin chip=a630 -- PROGRAM"),
        "{said}"
    );
    let notes = place("TWINKGSL+QCOM::a630|CPU").unwrap().notes;
    assert!(
        notes[0].starts_with("TWINKGSL+QCOM::a630: doorbell-run and its library have no simulator"),
        "{notes:?}"
    );
    // Another kernel driver, another vendor.
    for (dev, config) in [
        (
            "TWINMSM+QCOM::a643",
            "DEV=QCOM doorbell twin exec --twin chip=a643,kernel=msm",
        ),
        (
            "TWINKFD+AMD::gfx1100",
            "DEV=AMD doorbell twin exec --twin chip=gfx1100",
        ),
    ] {
        let said = place(dev).err().unwrap().to_string();
        assert!(said.contains(config), "{said}");
    }
}

#[test]
fn a_chain_says_once_what_is_lost() {
    let bundle = opened(small::good());
    let placement = Chain::parse("QCOM|AMD::gfx1100|CPU")
        .unwrap()
        .place(&bundle)
        .unwrap();
    let notes = placement.notes.join("\n");
    assert_eq!(placement.notes.len(), 3, "{notes}");
    assert!(
        notes.starts_with("QCOM: test.dbx: no code for QCOM"),
        "{notes}"
    );
    // Nothing is compiled for a GPU without its chip.
    assert!(
        notes.contains("--target QCOM::CHIP, the chip of the GPU"),
        "{notes}"
    );
    assert!(notes.contains("runs on CPU:0"), "{notes}");
    let error = Chain::parse("QCOM|NV")
        .unwrap()
        .place(&bundle)
        .err()
        .unwrap();
    assert!(matches!(error, Error::NoDevice { .. }), "{error}");
    assert!(error.to_string().contains("no code for NV"), "{error}");
}
