//! A file of each version of the format runs, also by newer versions of this crate.

use std::path::Path;
use std::time::Duration;

use doorbell_run::{Chain, ModelBundle};

/// `doorbell compile` has written it of the model beside it, for CPUs of both architectures.
#[test]
fn a_file_of_version_1_runs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/dbx");
    let bundle = ModelBundle::open(folder.join("version-1.dbx")).unwrap();
    bundle.check().unwrap();
    assert_eq!(bundle.version(), 1);
    let names: Vec<String> = bundle.targets().iter().map(|t| t.name()).collect();
    assert_eq!(names, ["CPU::x86_64", "CPU::aarch64"]);
    let mut model = Chain::parse("CPU").unwrap().place(&bundle).unwrap().model;
    // `h` becomes `tanh(x + h)`, `y` is `relu(h) * 2`.
    let mut h = [0.0f32; 4];
    for x in [0.5f32, -1.0, 2.0] {
        let input: Vec<u8> = [x; 4].iter().flat_map(|v| v.to_le_bytes()).collect();
        model.write_input("x", &input).unwrap();
        model.run(Duration::from_secs(60)).unwrap();
        h = h.map(|h| (x + h).tanh());
        let mut y = [0; 16];
        model.read_output("y", &mut y).unwrap();
        for (bytes, h) in y.chunks_exact(4).zip(h) {
            let y = f32::from_le_bytes(bytes.try_into().unwrap());
            assert!((y - h.max(0.0) * 2.0).abs() < 1e-6, "{y} for {h}");
        }
    }
}
