//! A file of each version of the format runs, also by newer versions of this crate.

use std::path::Path;
use std::time::Duration;

use doorbell_run::{Chain, Model, ModelBundle};

/// The file of a version, on the CPU.
fn kept(version: u32) -> (ModelBundle, Model) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/dbx");
    let bundle = ModelBundle::open(folder.join(format!("version-{version}.dbx"))).unwrap();
    bundle.check().unwrap();
    assert_eq!(bundle.version(), version);
    let model = Chain::parse("CPU").unwrap().place(&bundle).unwrap().model;
    (bundle, model)
}

fn targets(bundle: &ModelBundle) -> Vec<String> {
    bundle.targets().iter().map(|t| t.name()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let (all, _) = bytes.as_chunks();
    all.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

/// `doorbell compile` has written it of the model beside it, for CPUs of both architectures.
#[test]
fn a_file_of_version_1_runs() {
    let (bundle, mut model) = kept(1);
    assert_eq!(targets(&bundle), ["CPU::x86_64", "CPU::aarch64"]);
    // `h` becomes `tanh(x + h)`, `y` is `relu(h) * 2`.
    let mut h = [0.0f32; 4];
    for x in [0.5f32, -1.0, 2.0] {
        let input: Vec<u8> = [x; 4].iter().flat_map(|v| v.to_le_bytes()).collect();
        model.write_input("x", &input).unwrap();
        model.run(Duration::from_secs(60)).unwrap();
        h = h.map(|h| (x + h).tanh());
        let mut y = [0; 16];
        model.read_output("y", &mut y).unwrap();
        for (y, h) in floats(&y).into_iter().zip(h) {
            assert!((y - h.max(0.0) * 2.0).abs() < 1e-6, "{y} for {h}");
        }
    }
}

/// The same for CPUs and for an Adreno, whose kernel reads images; tensor/cli/tests/program/dbx.rs runs that one.
#[test]
fn a_file_of_version_2_runs() {
    const SIDE: usize = 256;
    let (bundle, mut model) = kept(2);
    assert_eq!(
        targets(&bundle),
        ["CPU::x86_64", "CPU::aarch64", "QCOM::a630"]
    );
    // `y` is the product of `x` and `w`, of 256 by 256 numbers each.
    let number = |seed: usize, n: usize| ((n * 37 + seed * 11) % 251) as f32 / 125.0 - 1.0;
    let [x, w] = [1, 2].map(|seed| {
        (0..SIDE * SIDE)
            .map(|n| number(seed, n))
            .collect::<Vec<f32>>()
    });
    for (name, values) in [("x", &x), ("w", &w)] {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        model.write_input(name, &bytes).unwrap();
    }
    model.run(Duration::from_secs(60)).unwrap();
    let mut y = vec![0; SIDE * SIDE * 4];
    model.read_output("y", &mut y).unwrap();
    for (at, found) in floats(&y).into_iter().enumerate() {
        let (row, column) = (at / SIDE, at % SIDE);
        let products = (0..SIDE).map(|k| x[row * SIDE + k] * w[k * SIDE + column]);
        let sum: f32 = products.sum();
        assert!(
            (found - sum).abs() < 1e-3,
            "{found} at {at}, expected {sum}"
        );
    }
}

/// Each version has its file.
#[test]
fn every_version_is_kept() {
    for version in 1..=doorbell_run::VERSION {
        kept(version);
    }
}
