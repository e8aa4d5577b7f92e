//! Models with subnormal numbers: weights that training let decay, and states that decay while it runs.

use crate::support;

use drivers_cpu::Config;
use support::{engine, engine_of};
use tensor::onnx::Model;
use tensor::onnx::write::{self, Writer};
use tensor::{DType, Engine, Tensor};

/// Enough to stay in the file until they are used.
const WEIGHTS: usize = 2000;

/// Below the smallest normal number, which is some 1.2e-38.
const TINY: f32 = 1e-40;

/// `y = x w` and `v = w` for a long and a short list of subnormal weights, `s` for a number alone;
/// `z` decays into the subnormal numbers and grows again.
fn decayed(host: &Engine) -> Vec<u8> {
    let mut model = Writer::new("decayed", 17);
    let any = write::tensor(DType::F32, &[tensor::onnx::Dim::Any]);
    model.input("x", &any);
    for (name, count) in [("w", WEIGHTS), ("short", 3), ("s", 1)] {
        let list = vec![TINY; count];
        let tensor = Tensor::from_slice(host, &list, &[count]).unwrap();
        model.constant(name, &tensor).unwrap();
        let [scaled, as_is] = [format!("{name}_scaled"), format!("{name}_kept")];
        model.node("Mul", &["x", name], &[&scaled], []);
        model.node("Identity", &[name], &[&as_is], []);
        model.output(&scaled, &any);
        model.output(&as_is, &any);
    }
    for (name, number) in [("down", 1e-25f32), ("up", 1e20)] {
        let tensor = Tensor::from_slice(host, &[number], &[1]).unwrap();
        model.constant(name, &tensor).unwrap();
    }
    let steps = [
        ("x", "down", "a"),
        ("a", "down", "b"),
        ("b", "up", "c"),
        ("c", "up", "z"),
    ];
    for (from, by, to) in steps {
        model.node("Mul", &[from, by], &[to], []);
    }
    // Sums in between, so that the products are not one.
    model.output("b", &any);
    model.output("z", &any);
    model.finish()
}

#[test]
fn subnormal_numbers_are_zeros_unless_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("decayed.onnx");
    std::fs::write(&path, decayed(&Engine::reference())).unwrap();
    let model = Model::load(&path).unwrap();
    for subnormals in [false, true] {
        let engine = match subnormals {
            false => engine(),
            true => engine_of(Config {
                subnormals,
                ..Config::default()
            }),
        };
        let kept = |x: f32| if subnormals { x } else { 0.0 };
        let session = model.on(&engine);
        let x = Tensor::full(&engine, &[1], 1e10, DType::F32).unwrap();
        for _ in 0..2 {
            let outputs = session.run([("x", x.clone())]).unwrap();
            let check = |name: &str, count: usize, wanted: f32| {
                let found: Vec<f32> = outputs.tensor(name).unwrap().to_vec().unwrap();
                assert_eq!(found.len(), count);
                for x in found {
                    assert!(
                        (x - wanted).abs() <= wanted * 1e-4,
                        "{name}: {x}, not {wanted}"
                    );
                }
            };
            for (name, count) in [("w", WEIGHTS), ("short", 3), ("s", 1)] {
                check(&format!("{name}_kept"), count, kept(TINY));
                check(&format!("{name}_scaled"), count, kept(TINY) * 1e10);
            }
            check("b", 1, kept(1e-40));
            check("z", 1, kept(1.0));
        }
        assert_eq!(session.captures(), 1);
        // The mode is that of kernels, not of this thread.
        assert!(std::hint::black_box(f32::MIN_POSITIVE) * 0.5 > 0.0);
    }
}

/// As for the tensor's own: by its bits it is no zero.
#[test]
fn subnormal_numbers_have_places() {
    let mut model = Writer::new("places", 17);
    model.input("x", &write::tensor(DType::F32, &[tensor::onnx::Dim::Any]));
    model.node("NonZero", &["x"], &["y"], []);
    let dims = [tensor::onnx::Dim::Any, tensor::onnx::Dim::Any];
    model.output("y", &write::tensor(DType::I64, &dims));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("places.onnx");
    std::fs::write(&path, model.finish()).unwrap();
    let engine = engine();
    let session = Model::load(&path).unwrap().on(&engine);
    let x = Tensor::from_slice(&engine, &[TINY, 0.0, 1.0, -0.0, -TINY], &[5]).unwrap();
    let outputs = session.run([("x", x)]).unwrap();
    let places: Vec<i64> = outputs.tensor("y").unwrap().to_vec().unwrap();
    assert_eq!(places, [0, 2, 4]);
}
