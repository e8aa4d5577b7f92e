//! Nets with the operators, shapes and types of openpilot's as bundles on a simulated Adreno 630. `scripts/models` makes them, with
//! what ONNX Runtime gives in a row of runs: queues of frames and features go from one run to the next.
//!
//! `DOORBELL_PART=all` runs those of the size of openpilot's, which `scripts/models openpilot-full` makes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use conformance::part::Part;
use doorbell::onnx::{Model, backend};
use doorbell::{Engine, Setup, Tensor};
use doorbell_run::{Model as Loaded, ModelBundle, Port};

use crate::place::{Place, succeed};

const LIMIT: Duration = Duration::from_secs(3600);

/// A net, and the runs that are known of it.
struct Net {
    folder: PathBuf,
    model: Model,
    /// Options of `doorbell compile`.
    options: Vec<String>,
    runs: usize,
}

impl Net {
    fn of(name: &str) -> Net {
        let set = match Part::chosen().is_all() {
            true => "openpilot-full",
            false => "openpilot",
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/models");
        let folder = root.join(set).join(name);
        let facts = std::fs::read(folder.join("facts.json"));
        let facts = facts.unwrap_or_else(|e| {
            panic!("{}: {e}; run scripts/models {set} first", folder.display())
        });
        let facts: serde_json::Value = serde_json::from_slice(&facts).unwrap();
        let options = facts["compile"].as_array().unwrap().iter();
        Net {
            model: Model::load(folder.join("model.onnx")).unwrap(),
            options: options.map(|o| o.as_str().unwrap().to_owned()).collect(),
            runs: facts["sets"].as_u64().unwrap() as usize,
            folder,
        }
    }

    /// Compiles it, for the Adreno and for the CPU.
    fn compiled(&self, place: &Place, file: &str, more: &[&str]) -> ModelBundle {
        let model = self.folder.join("model.onnx");
        let mut args = vec!["compile", model.to_str().unwrap(), "-o", file];
        args.extend(["--target", "QCOM::a630", "--target", "CPU"]);
        args.extend(self.options.iter().map(String::as_str));
        args.extend(more);
        succeed(place, &args, &[("DEV", "CPU")]);
        ModelBundle::open(place.path("work").join(file)).unwrap()
    }

    /// The bytes of a known input or output.
    fn known(&self, run: usize, kind: &str, name: &str) -> Vec<u8> {
        let ports: Vec<_> = match kind {
            "input" => self.model.inputs().collect(),
            _ => self.model.outputs().collect(),
        };
        let at = ports.iter().position(|(port, _)| *port == name).unwrap();
        let file = format!("test_data_set_{run}/{kind}_{at}.pb");
        let value = backend::read(&self.folder.join(file), ports[at].1, &Engine::reference());
        value.unwrap().as_tensor().unwrap().to_bytes().unwrap()
    }

    /// The outputs of all runs in a row.
    fn outputs(&self, model: &mut Loaded, bundle: &ModelBundle) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for run in 0..self.runs {
            for port in bundle.inputs() {
                let bytes = self.known(run, "input", &port.name);
                model.write_input(&port.name, &bytes).unwrap();
            }
            model.run(LIMIT).unwrap();
            for port in bundle.outputs() {
                let mut bytes = vec![0; port.bytes().unwrap() as usize];
                model.read_output(&port.name, &mut bytes).unwrap();
                all.push(bytes);
            }
        }
        all
    }

    /// The largest difference from ONNX Runtime's results, as part of the largest element of an output.
    fn error(&self, outputs: &[Vec<u8>], bundle: &ModelBundle) -> f64 {
        let runs = outputs.chunks_exact(bundle.outputs().len());
        let mut worst: f64 = 0.0;
        for (run, outputs) in runs.enumerate() {
            for (port, bytes) in bundle.outputs().iter().zip(outputs) {
                let wanted = numbers(port, self.known(run, "output", &port.name));
                let largest = wanted.iter().fold(1e-9f64, |m, x| m.max(x.abs()));
                for (found, wanted) in numbers(port, bytes.clone()).iter().zip(&wanted) {
                    assert!(found.is_finite(), "{} of run {run}", port.name);
                    worst = worst.max((found - wanted).abs() / largest);
                }
            }
        }
        worst
    }
}

fn numbers(port: &Port, bytes: Vec<u8>) -> Vec<f64> {
    let shape: Vec<usize> = port.shape.iter().map(|&n| n as usize).collect();
    let dtype = doorbell::model_bundle::dtype(port.element);
    let tensor = Tensor::from_bytes(&Engine::reference(), bytes, &shape, dtype);
    tensor.unwrap().to_f64_vec().unwrap()
}

/// A net on both devices: within the tolerance of ONNX Runtime, and on the Adreno with the same bits when it starts again and when
/// its file is opened again.
fn runs(name: &str) {
    let (net, place) = (Net::of(name), Place::new());
    let bundle = net.compiled(&place, "net.dbx", &[]);
    let cpu = Setup::of("CPU").unwrap();
    let adreno = Setup::of("TWINKGSL+QCOM::a630").unwrap();
    let load = |setup: &Setup, bundle: &ModelBundle| {
        let placed = setup.chain().place(bundle).unwrap();
        assert_eq!(placed.notes, Vec::<String>::new());
        placed.model
    };
    let error = net.error(&net.outputs(&mut load(&cpu, &bundle), &bundle), &bundle);
    println!("{name} on the CPU: {error:.1e}");
    assert!(error < 1e-4, "{name} on the CPU: {error:.1e}");
    let mut model = load(&adreno, &bundle);
    let first = net.outputs(&mut model, &bundle);
    let error = net.error(&first, &bundle);
    let launches = bundle.targets()[0].steps.len();
    println!("{name}: {launches} commands, {error:.1e}");
    assert!(error < 1e-4, "{name} on the Adreno: {error:.1e}");
    model.reset().unwrap();
    assert!(net.outputs(&mut model, &bundle) == first, "{name} again");
    drop(model);
    let again = ModelBundle::open(place.path("work").join("net.dbx")).unwrap();
    let mut model = load(&adreno, &again);
    assert!(net.outputs(&mut model, &again) == first, "{name} anew");
    drop(model);
    adreno.check_rules().unwrap();
}

#[test]
fn driving_vision() {
    runs("driving_vision");
}

#[test]
fn driving_policy() {
    runs("driving_policy");
}

#[test]
fn dmonitoring() {
    runs("dmonitoring");
}

/// With halves in products, which the Adreno has instructions for.
#[test]
fn halves() {
    let (net, place) = (Net::of("driving_vision"), Place::new());
    let (whole, half) = (
        net.compiled(&place, "whole.dbx", &[]),
        net.compiled(&place, "half.dbx", &["--half"]),
    );
    let sizes = (whole.constant_bytes(), half.constant_bytes());
    assert!(sizes.1 * 100 < sizes.0 * 75, "{sizes:?}");
    let ran = succeed(
        &place,
        &["verify", "half.dbx"],
        &[("DEV", "TWINKGSL+QCOM::a630")],
    );
    assert!(ran.out.contains("ok within 0.02"), "{}", ran.out);
}
