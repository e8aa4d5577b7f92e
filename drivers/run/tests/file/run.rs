//! Runs on the CPU device.

use std::time::Duration;

use doorbell_run::{Chain, Error, Model, ModelBundle};

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
    let error = model.run(limit).unwrap_err();
    assert!(matches!(error, Error::Late { .. }), "{error}");
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
    let notes = place("TWINKGSL+QCOM::a630|CPU").unwrap().notes;
    assert!(notes[0].contains("no simulator"), "{notes:?}");
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
