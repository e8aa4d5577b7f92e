//! Model bundles: compiled, inspected, verified, run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(feature = "twin")]
use doorbell::Setup;
use doorbell_run::{Chain, ModelBundle};
#[cfg(feature = "twin")]
use drivers::{env::Settings, select::parse_chain};
#[cfg(feature = "twin")]
use hcq::mem::view::View;
#[cfg(feature = "twin")]
use hcq::{AllocSpec, Buffer, Import};
use tensor::io::npy;
use tensor::onnx::Dim;
use tensor::onnx::write::{self, Writer};
use tensor::{DType, Engine, Tensor};

use crate::place::{Place, rows, succeed};

fn floats(dims: &[usize]) -> tensor::onnx::Type {
    let dims: Vec<Dim> = dims.iter().map(|&n| Dim::Fixed(n)).collect();
    write::tensor(DType::F32, &dims)
}

/// Numbers around 0 that are the same everywhere.
fn weights(shape: &[usize], seed: u64) -> Tensor {
    let n: usize = shape.iter().product();
    let mix = |i: usize| (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ seed) >> 40;
    let values: Vec<f32> = (0..n)
        .map(|i| mix(i) as f32 / (1 << 23) as f32 - 1.0)
        .collect();
    let scale = (n as f32 / shape[0] as f32).sqrt();
    let values: Vec<f32> = values.iter().map(|v| v / scale).collect();
    Tensor::from_slice(&Engine::reference(), &values, shape).unwrap()
}

/// Two layers, whose weights are computed from constants.
fn mlp() -> Vec<u8> {
    let mut w = Writer::new("mlp", 17);
    w.input("x", &floats(&[4, 64]));
    w.constant("w1", &weights(&[64, 96], 1)).unwrap();
    w.constant("b1", &weights(&[96], 2)).unwrap();
    w.constant("w2", &weights(&[96, 10], 3)).unwrap();
    w.node("Tanh", &["w2"], &["w2t"], []);
    w.node("MatMul", &["x", "w1"], &["a"], []);
    w.node("Add", &["a", "b1"], &["b"], []);
    w.node("Relu", &["b"], &["c"], []);
    w.node("MatMul", &["c", "w2t"], &["d"], []);
    w.node("Softmax", &["d"], &["y"], []);
    w.output("y", &floats(&[4, 10]));
    w.output("c", &floats(&[4, 96]));
    w.finish()
}

/// Convolutions, pooling, a residual.
fn conv() -> Vec<u8> {
    let mut w = Writer::new("conv", 17);
    w.input("image", &floats(&[1, 3, 16, 16]));
    w.constant("w1", &weights(&[16, 3, 3, 3], 4)).unwrap();
    w.constant("w2", &weights(&[16, 16, 3, 3], 5)).unwrap();
    w.constant("w3", &weights(&[16, 5], 6)).unwrap();
    let pads = || write::ints("pads", &[1, 1, 1, 1]);
    w.node("Conv", &["image", "w1"], &["a"], [pads()]);
    w.node("Relu", &["a"], &["b"], []);
    w.node("Conv", &["b", "w2"], &["c"], [pads()]);
    w.node("Add", &["b", "c"], &["d"], []);
    w.node("GlobalAveragePool", &["d"], &["e"], []);
    w.node("Flatten", &["e"], &["f"], []);
    w.node("MatMul", &["f", "w3"], &["y"], []);
    w.output("y", &floats(&[1, 5]));
    w.finish()
}

/// A state that is replaced and a queue of features.
fn recurrent() -> Vec<u8> {
    let mut w = Writer::new("recurrent", 17);
    w.input("x", &floats(&[1, 8]));
    w.input("h", &floats(&[1, 8]));
    w.input("queue", &floats(&[1, 5, 8]));
    w.constant("w", &weights(&[8, 8], 7)).unwrap();
    w.node("MatMul", &["h", "w"], &["a"], []);
    w.node("Add", &["a", "x"], &["b"], []);
    w.node("Tanh", &["b"], &["h_next"], []);
    w.node(
        "ReduceMean",
        &["queue"],
        &["mean"],
        [write::ints("axes", &[1]), write::int("keepdims", 0)],
    );
    w.node("Add", &["mean", "h_next"], &["y"], []);
    w.output("y", &floats(&[1, 8]));
    w.output("h_next", &floats(&[1, 8]));
    w.finish()
}

/// A place with these models in its working folder.
fn place(models: &[(&str, Vec<u8>)]) -> Place {
    let place = Place::new();
    for (name, bytes) in models {
        fs::write(place.path("work").join(name), bytes).unwrap();
    }
    place
}

const CPU: &[(&str, &str)] = &[("DEV", "CPU")];

fn bundle(place: &Place, name: &str) -> ModelBundle {
    ModelBundle::open(place.path("work").join(name)).unwrap()
}

/// The outputs of runs over some inputs, as bytes.
fn runs(bundle: &ModelBundle, count: u64) -> Vec<Vec<u8>> {
    runs_on(bundle, Chain::parse("CPU").unwrap(), count)
}

/// The same on other devices.
fn runs_on(bundle: &ModelBundle, chain: Chain, count: u64) -> Vec<Vec<u8>> {
    let mut model = chain.place(bundle).unwrap().model;
    let mut all = Vec::new();
    for n in 0..count {
        for port in bundle.inputs() {
            let shape: Vec<usize> = port.shape.iter().map(|&d| d as usize).collect();
            let bytes = weights(&shape, 100 + n).to_bytes().unwrap();
            model.write_input(&port.name, &bytes).unwrap();
        }
        model.run(Duration::from_secs(600)).unwrap();
        for port in bundle.outputs() {
            let mut bytes = vec![0; port.bytes().unwrap() as usize];
            model.read_output(&port.name, &mut bytes).unwrap();
            all.push(bytes);
        }
    }
    all
}

/// A simulated Adreno, and a chain of it alone.
#[cfg(feature = "twin")]
fn simulated(dev: &str, config: &str) -> (std::sync::Arc<twin_qcom::machine::TwinMachine>, Chain) {
    let machine = twin_qcom::machine::TwinMachine::new(config).unwrap();
    let twin: drivers::Twin = machine.clone();
    let target = parse_chain("DEV", dev).unwrap().remove(0);
    let chain = Chain::of(target, Settings::default(), Some(twin));
    (machine, chain)
}

/// Memory of the caller: pages with a pointer of the caller, or a buffer of the device.
#[cfg(feature = "twin")]
struct Given(Option<View>, Buffer);

#[cfg(feature = "twin")]
impl Given {
    fn of(model: &doorbell_run::Model) -> Given {
        let view = View::alloc(4096, 4096).unwrap();
        match model.device().import(&Import::Host(view.clone())) {
            Err(hcq::Error::Unsupported { .. }) => {
                let own = model.device().alloc(AllocSpec::device(4096));
                Given(None, own.unwrap())
            }
            made => Given(Some(view), made.unwrap()),
        }
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        match &self.0 {
            Some(view) => view.copy_from_slice(at, bytes).unwrap(),
            None => self.1.write(at as u64, bytes).unwrap(),
        }
    }

    fn found(&self, bytes: usize) -> Vec<u8> {
        let mut found = vec![0; bytes];
        match &self.0 {
            Some(view) => view.copy_to_slice(0, &mut found).unwrap(),
            None => self.1.read(0, &mut found).unwrap(),
        }
        found
    }
}

/// Frames of a ring are read where they are, and an output is written where the caller has it: over KGSL pages of the process, over
/// msm buffers of the device.
#[cfg(feature = "twin")]
#[test]
fn inputs_and_outputs_are_in_memory_of_the_caller() {
    let place = place(&[("mlp.onnx", mlp())]);
    let mut args = vec!["compile", "mlp.onnx", "-o", "mlp.dbx"];
    for target in ["QCOM::a630", "QCOM::a643", "CPU"] {
        args.extend(["--target", target]);
    }
    succeed(&place, &args, CPU);
    let bundle = bundle(&place, "mlp.dbx");
    bound(&bundle, "CPU", &Setup::of("CPU").unwrap().chain());
    for (dev, config) in [
        ("TWINKGSL+QCOM::a630", "chip=a630"),
        ("TWINMSM+QCOM::a643", "chip=a643,kernel=msm"),
    ] {
        let (machine, chain) = simulated(dev, config);
        bound(&bundle, dev, &chain);
        assert_eq!(machine.machine().broken_rules(), [""; 0], "{dev}");
    }
}

#[cfg(feature = "twin")]
fn bound(bundle: &ModelBundle, dev: &str, chain: &Chain) {
    let limit = Duration::from_secs(3600);
    let x = |n| weights(&[4, 64], 100 + n).to_bytes().unwrap();
    let mut model = chain.place(bundle).unwrap().model;
    let mut copied = Vec::new();
    for n in 0..4 {
        model.write_input("x", &x(n)).unwrap();
        model.run(limit).unwrap();
        let [mut y, mut c] = [vec![0; 4 * 10 * 4], vec![0; 4 * 96 * 4]];
        model.read_output("y", &mut y).unwrap();
        model.read_output("c", &mut c).unwrap();
        copied.push([y, c]);
    }
    let [first, second, out] = [(); 3].map(|()| Given::of(&model));
    model.bind_output("c", &out.1).unwrap();
    for (n, [y, c]) in copied.iter().enumerate() {
        let frame = [&first, &second][n % 2];
        frame.put(0, &x(n as u64));
        model.bind_input("x", &frame.1).unwrap();
        model.run(limit).unwrap();
        let mut y_found = vec![0; y.len()];
        model.read_output("y", &mut y_found).unwrap();
        assert!(y_found == *y && out.found(c.len()) == *c, "{dev}: run {n}");
    }
    // A part of the memory, which begins elsewhere.
    first.put(1024, &x(2));
    let part = first.1.slice(1024, 1024).unwrap();
    model.bind_input("x", &part).unwrap();
    // An output has whole lines: 160 bytes are two and a half.
    let lines = |bytes| second.1.slice(0, bytes).unwrap();
    let error = model.bind_output("y", &lines(160)).unwrap_err().to_string();
    assert!(
        error.contains("expected 192 bytes or more, whole lines of 64, found memory of 160"),
        "{error}"
    );
    model.bind_output("y", &lines(192)).unwrap();
    model.run(limit).unwrap();
    assert!(second.found(160) == copied[2][0], "{dev}: a part");
    // The model's own still has what it had.
    model.unbind_input("x").unwrap();
    model.unbind_output("c").unwrap();
    model.unbind_output("y").unwrap();
    model.run(limit).unwrap();
    let mut y = vec![0; copied[3][0].len()];
    model.read_output("y", &mut y).unwrap();
    assert!(y == copied[3][0], "{dev}: its own");
}

/// A run that hangs may still use memory of the caller: the end of the model says so.
#[cfg(feature = "twin")]
#[test]
fn the_end_of_a_model_tells_of_a_run_that_has_not_ended() {
    let place = place(&[("mlp.onnx", mlp())]);
    let mut args = vec!["compile", "mlp.onnx", "-o", "mlp.dbx"];
    args.extend(["--target", "QCOM::a630", "--target", "QCOM::a643"]);
    succeed(&place, &args, CPU);
    let bundle = bundle(&place, "mlp.dbx");
    let limit = Duration::from_secs(3600);
    for (dev, config) in [
        ("TWINKGSL+QCOM::a630", "chip=a630"),
        ("TWINMSM+QCOM::a643", "chip=a643,kernel=msm"),
    ] {
        let config = format!("{config},timeout=100,fault=hang:6");
        let (_machine, chain) = simulated(dev, &config);
        let mut model = chain.place(&bundle).unwrap().model;
        let frame = Given::of(&model);
        model.bind_input("x", &frame.1).unwrap();
        let ended = (0..8).all(|_| model.run(limit).is_ok());
        assert!(!ended, "{dev}");
        let error = model.close().unwrap_err();
        assert!(
            matches!(error, doorbell_run::Error::Device(_)),
            "{dev}: {error}"
        );
    }
}

/// What the host does not reach: one run writes it, the next one reads it.
#[cfg(feature = "twin")]
#[test]
fn inputs_and_outputs_are_in_a_dma_buf() {
    let place = place(&[("mlp.onnx", mlp())]);
    let mut args = vec!["compile", "mlp.onnx", "-o", "mlp.dbx"];
    args.extend(["--target", "QCOM::a630", "--target", "QCOM::a643"]);
    succeed(&place, &args, CPU);
    let bundle = bundle(&place, "mlp.dbx");
    let limit = Duration::from_secs(3600);
    for (dev, config) in [
        ("TWINKGSL+QCOM::a630", "chip=a630"),
        ("TWINMSM+QCOM::a643", "chip=a643,kernel=msm"),
    ] {
        let (machine, chain) = simulated(dev, config);
        let mut model = chain.place(&bundle).unwrap().model;
        let fd = machine.process().foreign_dmabuf(8192).unwrap();
        let frame = model.device().import(&Import::DmaBuf(fd, 8192)).unwrap();
        machine.process().close(fd).unwrap();

        let x = weights(&[4, 64], 9).to_bytes().unwrap();
        let [mut c, mut wanted, mut y] = [4 * 96 * 4, 160, 160].map(|bytes| vec![0u8; bytes]);
        model.write_input("x", &x).unwrap();
        model.run(limit).unwrap();
        model.read_output("c", &mut c).unwrap();
        model.write_input("x", &c[..x.len()]).unwrap();
        model.run(limit).unwrap();
        model.read_output("y", &mut wanted).unwrap();

        model.write_input("x", &x).unwrap();
        model.bind_output("c", &frame).unwrap();
        // Not both at once.
        assert!(model.bind_input("x", &frame).is_err());
        model.run(limit).unwrap();
        model.unbind_output("c").unwrap();
        model.bind_input("x", &frame).unwrap();
        model.run(limit).unwrap();
        model.read_output("y", &mut y).unwrap();
        assert!(y == wanted, "{dev}");
        let error = model.write_input("x", &x).unwrap_err();
        assert!(matches!(error, doorbell_run::Error::Device(_)), "{error}");
        drop((model, frame));
        assert_eq!(machine.machine().broken_rules(), [""; 0], "{dev}");
    }
}

/// The bundle that is kept of version 2 of the format.
fn version_2(what: &str) -> PathBuf {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/dbx/version-2");
    kept.with_extension(what)
}

/// How many kernels of a file read images: what stands behind their code begins so.
fn kernels_with_images(file: &Path) -> usize {
    let bytes = fs::read(file).unwrap();
    bytes.windows(4).filter(|four| *four == b"IR3x").count()
}

/// The kept file has images, whatever the compiler of today chooses: they give what the CPU gives.
#[cfg(feature = "twin")]
#[test]
fn the_file_that_is_kept_runs_with_images_on_an_adreno() {
    let file = version_2("dbx");
    assert!(kernels_with_images(&file) > 0);
    let bundle = ModelBundle::open(&file).unwrap();
    let machine = twin_qcom::machine::TwinMachine::new("chip=a630").unwrap();
    let twin: drivers::Twin = machine.clone();
    let target = parse_chain("DEV", "TWINKGSL+QCOM::a630").unwrap().remove(0);
    let chain = Chain::of(target, Settings::default(), Some(twin));
    let floats = |all: &[Vec<u8>]| -> Vec<f32> {
        let bytes = all.concat();
        let (all, _) = bytes.as_chunks();
        all.iter().map(|&b| f32::from_le_bytes(b)).collect()
    };
    let [found, want] = [runs_on(&bundle, chain, 1), runs(&bundle, 1)].map(|all| floats(&all));
    assert_eq!(found.len(), 256 * 256);
    let largest = want.iter().fold(0.0_f32, |most, y| most.max(y.abs()));
    assert!(largest > 0.0);
    for (found, want) in found.iter().zip(&want) {
        let off = (found - want).abs();
        assert!(off < 1e-5 * largest, "{found}, expected {want}");
    }
    assert_eq!(machine.machine().broken_rules(), [""; 0]);
}

/// `QCOM_IMAGES=0` is for bundles and for devices.
#[test]
fn images_can_be_switched_off() {
    let onnx = fs::read(version_2("onnx")).unwrap();
    let place = place(&[("product.onnx", onnx)]);
    let off: &[(&str, &str)] = &[("DEV", "CPU"), ("QCOM_IMAGES", "0")];
    let args = ["compile", "product.onnx", "--target", "QCOM::a630", "-o"];
    succeed(&place, &[&args[..], &["with.dbx"]].concat(), CPU);
    succeed(&place, &[&args[..], &["without.dbx"]].concat(), off);
    // With images the cost model decides, which takes none here: the target of a device is below.
    assert_eq!(
        kernels_with_images(&place.path("work").join("without.dbx")),
        0
    );
    for (file, is_off) in [("with.dbx", false), ("without.dbx", true)] {
        let text = succeed(&place, &["inspect", file], CPU).out;
        assert_eq!(text.contains("qcom-images=no"), is_off, "{text}");
    }
}

#[cfg(feature = "twin")]
#[test]
fn devices_are_without_images_where_they_are_switched_off() {
    for (value, is_on) in [("1", true), ("0", false)] {
        let variables = [["QCOM_IMAGES", value].map(String::from)];
        let setup = Setup::of_variables(Some("TWINKGSL+QCOM::a630"), &variables, true).unwrap();
        let opened = setup.open().unwrap();
        assert_eq!(opened.backend.target.images.is_some(), is_on);
    }
}

#[test]
fn nets_are_the_same_after_compiling_saving_and_loading() {
    let place = place(&[("mlp.onnx", mlp()), ("conv.onnx", conv())]);
    for name in ["mlp", "conv"] {
        let (onnx, dbx) = (format!("{name}.onnx"), format!("{name}.dbx"));
        succeed(
            &place,
            &["compile", &onnx, "--target", "CPU", "-o", &dbx],
            CPU,
        );
        let text = succeed(
            &place,
            &["verify", &dbx, "--model", &onnx, "--tolerance", "1e-5"],
            CPU,
        )
        .out;
        assert!(
            text.contains("largest difference") && text.contains("ok within"),
            "{text}"
        );
        let opened = bundle(&place, &dbx);
        let (one, two) = (runs(&opened, 3), runs(&bundle(&place, &dbx), 3));
        assert_eq!(one, two);
        assert!(one.iter().all(|bytes| bytes.iter().any(|&byte| byte != 0)));
        // Nothing in the file depends on when it was made.
        succeed(
            &place,
            &["compile", &onnx, "--target", "CPU", "-o", "again.dbx"],
            CPU,
        );
        let read = |file: &str| fs::read(place.path("work").join(file)).unwrap();
        assert!(
            read(&dbx) == read("again.dbx"),
            "{name} differs when it is compiled again"
        );
    }
    // `tanh(w2)` is in the file, and `w2` is not: as many bytes as the model has parameters.
    let constants = bundle(&place, "mlp.dbx").constant_bytes();
    assert!(
        (4 * (64 * 96 + 96 + 96 * 10)..4 * (64 * 96 + 96 + 2 * 96 * 10))
            .contains(&(constants as usize)),
        "{constants}"
    );
}

#[test]
fn states_go_from_one_run_to_the_next() {
    let place = place(&[("net.onnx", recurrent())]);
    let first: Vec<f32> = (0..8).map(|i| i as f32 / 8.0).collect();
    let first = Tensor::from_slice(&Engine::reference(), &first, &[1, 8]).unwrap();
    first.write_npy(place.path("work").join("h.npy")).unwrap();
    let args = [
        "compile",
        "net.onnx",
        "--target",
        "CPU",
        "--state",
        "h=h_next",
        "--queue",
        "queue=h_next@1",
        "--input",
        "h=h.npy",
        "-o",
        "net.dbx",
    ];
    succeed(&place, &args, CPU);
    let args = [
        "verify",
        "net.dbx",
        "--model",
        "net.onnx",
        "--runs",
        "9",
        "--tolerance",
        "1e-5",
    ];
    succeed(&place, &args, CPU);
    let opened = bundle(&place, "net.dbx");
    let names: Vec<&str> = opened
        .states()
        .iter()
        .map(|s| s.port.name.as_str())
        .collect();
    assert_eq!(names, ["h", "queue"]);
    assert_eq!(opened.inputs().len(), 1);
    assert_eq!(runs(&opened, 9), runs(&opened, 9));
    for (wrong, said) in [
        (
            ["--state", "h=nothing"],
            "expected an output of y, h_next, found nothing",
        ),
        (["--state", "x=queue"], "found queue"),
        (["--queue", "queue=y@7"], "expected an axis"),
    ] {
        let args = [
            &["compile", "net.onnx", "--target", "CPU", "-o", "no.dbx"],
            &wrong[..],
        ]
        .concat();
        let ran = place.run(&args, CPU);
        assert!(
            ran.code != 0 && ran.err.contains(said),
            "{wrong:?}: {}",
            ran.err
        );
    }
}

#[test]
fn a_bundle_is_inspected_and_run() {
    let place = place(&[("mlp.onnx", mlp())]);
    let targets = [
        "--target",
        "CPU",
        "--target",
        "CPU:CLANG:aarch64",
        "--target",
        "AMD::gfx1100",
    ];
    let args = [&["compile", "mlp.onnx", "-o", "mlp.dbx"], &targets[..]].concat();
    let said = succeed(&place, &args, CPU).out;
    assert!(said.contains("target   CPU::aarch64: "), "{said}");
    let found = rows(
        &succeed(&place, &["inspect", "mlp.dbx", "--json"], CPU),
        "doorbell.inspect-bundle/1",
    );
    let row = &found[0];
    assert_eq!(row["model"], "mlp.onnx");
    assert_eq!(row["inputs"][0]["shape"], serde_json::json!([4, 64]));
    assert_eq!(row["targets"][2]["target"], "AMD::gfx1100");
    // Weights are in the file once.
    let all: u64 = (0..3)
        .map(|i| row["targets"][i]["weight_bytes"].as_u64().unwrap())
        .sum();
    assert!(row["constant_bytes"].as_u64().unwrap() * 2 < all, "{row}");
    let text = succeed(&place, &["inspect", "mlp.dbx"], CPU).out;
    // Compilers are there without their options.
    let compilers: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("by "))
        .collect();
    assert_eq!(compilers.len(), 3, "{text}");
    for compiler in compilers {
        assert!(!compiler.is_empty() && compiler.len() < 80, "{compiler}");
        assert!(!compiler.contains(" -"), "{compiler}");
    }
    assert!(
        text.contains("all hashes are right") && text.contains("target      CPU::aarch64"),
        "{text}"
    );

    // What is refused makes no folder.
    let refused = ["run", "mlp.dbx", "--output", "new", "--profile", "p.json"];
    assert_eq!(place.run(&refused, CPU).code, 2);
    let refused = ["run", "other.dbx", "--output", "new"];
    assert_ne!(place.run(&refused, CPU).code, 0);
    let refused = ["run", "mlp.onnx", "--output", "new", "--limit", "9"];
    assert_eq!(place.run(&refused, CPU).code, 2);
    assert!(!place.path("work").join("new").exists());
    let args = [
        "run", "mlp.dbx", "--input", "x=0.25", "--output", "out", "--repeat", "3",
    ];
    let ran = succeed(&place, &args, CPU);
    assert!(ran.err.contains("later "), "{}", ran.err);
    succeed(
        &place,
        &["run", "mlp.onnx", "--input", "x=0.25", "--output", "plain"],
        CPU,
    );
    let read = |folder: &str| {
        let array = npy::read(place.path("work").join(folder).join("y.npy")).unwrap();
        let words = array.data.chunks_exact(4);
        words
            .map(|w| f32::from_le_bytes(w.try_into().unwrap()))
            .collect::<Vec<f32>>()
    };
    for (a, b) in read("out").iter().zip(read("plain")) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }

    let bench = ["bench", "bundle", "mlp.dbx", "--json"];
    let found = rows(&succeed(&place, &bench, CPU), "doorbell.bench/1");
    let names: Vec<_> = found
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["mlp open", "mlp open and load", "mlp run"]);

    // What is wrong has a text and a code.
    let ran = place.run(&["run", "mlp.dbx"], &[("DEV", "NV")]);
    assert_eq!(ran.code, 6, "{}", ran.err);
    assert!(ran.err.contains("no code for NV"), "{}", ran.err);
    let ran = place.run(&["run", "mlp.dbx", "--input", "z=1"], CPU);
    assert!(
        ran.code == 2 && ran.err.contains("expected one of x"),
        "{}",
        ran.err
    );
    let path = place.path("work").join("mlp.dbx");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let ran = place.run(&["inspect", "mlp.dbx"], CPU);
    assert!(
        ran.code == 1 && ran.err.contains("section code 2: expected SHA-256"),
        "{}",
        ran.err
    );
    let ran = place.run(&["verify", "mlp.dbx"], CPU);
    assert_eq!(ran.code, 1, "{}", ran.err);
}

#[test]
fn what_cannot_be_compiled_is_refused() {
    let place = place(&[("mlp.onnx", mlp())]);
    for (args, code, said) in [
        (&["--target", "AMD"][..], 2, "AMD::gfx1100"),
        (&["--target", "AMD::gfx9999"], 2, "gfx9999"),
        (&["--target", "CPU::x86_64,neon"], 1, "neon"),
        (&["--target", "CPU:9"], 2, "CPU without a number"),
        (&["--target", "METAL"], 2, "expected CPU, AMD, NV or QCOM"),
        (&["--target", "QCOM"], 2, "QCOM::a630"),
        (&["--target", "QCOM::a740"], 2, "A630"),
        (&["--target", "CPU", "--state", "x"], 2, "INPUT=OUTPUT"),
        (&["--target", "CPU", "--state", "x=y"], 1, "x of y"),
    ] {
        let all = [&["compile", "mlp.onnx", "-o", "no.dbx"], args].concat();
        let ran = place.run(&all, CPU);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(said), "{args:?}: {}", ran.err);
    }
    place.wrote(&["mlp.onnx"], true);
}

#[cfg(feature = "twin")]
mod gpus;
mod half;
mod wrong;
