//! Numbers that operators are wrong by if they take a way around: infinite ones, very large beside very
//! small ones, integers with more digits than `f32`.

#![allow(clippy::unwrap_used)]

mod support;

use support::engine;
use tensor::onnx::write::{self, Writer};
use tensor::onnx::{Dim, Model};
use tensor::{DType, Element, Engine, Tensor};

/// The result of one node with two inputs.
fn node(op: &str, inputs: [&Tensor; 2], attributes: &[(&str, i64)]) -> Tensor {
    let mut model = Writer::new(op, 18);
    model.input("x", &write::tensor(inputs[0].dtype(), &[Dim::Any]));
    model.constant("b", inputs[1]).unwrap();
    let attributes: Vec<_> = attributes.iter().map(|&(n, v)| write::int(n, v)).collect();
    model.node(op, &["x", "b"], &["y"], attributes);
    model.output("y", &write::tensor(inputs[0].dtype(), &[Dim::Any]));
    let model = Model::from_bytes("model", model.finish()).unwrap();
    let session = model.on(inputs[0].engine());
    let outputs = session.run([("x", inputs[0].clone())]).unwrap();
    outputs.tensor("y").unwrap().clone()
}

fn list<T: Element>(e: &Engine, x: &[T]) -> Tensor {
    Tensor::from_slice(e, x, &[x.len()]).unwrap()
}

#[test]
fn exclusive_running_sums_do_not_subtract() {
    let e = engine();
    let axis = Tensor::from_slice(&e, &[0i64], &[]).unwrap();
    let sums = |x: &[f32], reverse: i64| -> Vec<f32> {
        let flags = [("exclusive", 1), ("reverse", reverse)];
        node("CumSum", [&list(&e, x), &axis], &flags)
            .to_vec()
            .unwrap()
    };
    assert_eq!(sums(&[1.0, 1e20], 0), [0.0, 1.0]);
    assert_eq!(sums(&[1.0, f32::INFINITY], 0), [0.0, 1.0]);
    assert_eq!(sums(&[1e20, 1.0, 2.0], 1), [3.0, 2.0, 0.0]);
    assert_eq!(sums(&[f32::INFINITY, 1.0], 1), [1.0, 0.0]);
}

#[test]
fn powers_of_integers() {
    let e = engine();
    let base = list(&e, &[2i64, 3, 1, -1, -1, 0, -2, 7]);
    let exponents = list(&e, &[-1i64, 39, -5, -3, -4, -1, -2, 0]);
    let want = [0i64, 4_052_555_153_018_976_267, 1, -1, 1, 0, 0, 1];
    let powers: Vec<i64> = node("Pow", [&base, &exponents], &[]).to_vec().unwrap();
    assert_eq!(powers, want);
    assert_eq!(base.pow(&exponents).unwrap().to_vec::<i64>().unwrap(), want);
    // Through floats: they have the digits of the base.
    let base = list(&e, &[16_777_217i32, 123_456_789, -3]);
    let one = list(&e, &[1.0f32, 1.0, 3.0]);
    let powers: Vec<i32> = node("Pow", [&base, &one], &[]).to_vec().unwrap();
    assert_eq!(powers, [16_777_217, 123_456_789, -27]);
    let base = list(&e, &[94_906_265i64, 1 << 40]);
    let half = list(&e, &[2.0f32, 0.5]);
    let powers: Vec<i64> = node("Pow", [&base, &half], &[]).to_vec().unwrap();
    assert_eq!(powers, [9_007_199_136_250_225, 1 << 20]);
}

#[test]
fn means_of_integers() {
    let e = engine();
    // Sums beyond 32 bits, and digits beyond those of f32.
    let x = list(&e, &[i32::MAX, i32::MAX, i32::MAX - 3]);
    let axes = list(&e, &[0i64]);
    let mean: Vec<i32> = node("ReduceMean", [&x, &axes], &[]).to_vec().unwrap();
    assert_eq!(mean, [i32::MAX - 1]);
    let large = (1i64 << 40) + 1;
    let x = list(&e, &[large, -large, 3, 6]);
    assert_eq!(x.mean(&[], false).unwrap().item::<f32>().unwrap(), 2.25);
    let x = list(&e, &[(1i64 << 40) + 1, (1 << 40) + 3]);
    assert_eq!(x.var(&[], 1.0, false).unwrap().item::<f32>().unwrap(), 2.0);
    assert_eq!(x.std(&[], 0.0, false).unwrap().item::<f32>().unwrap(), 1.0);
    let bytes = list(&e, &[200u8, 100]).mean(&[], false).unwrap();
    assert_eq!(
        (bytes.dtype(), bytes.item::<f32>().unwrap()),
        (DType::F32, 150.0)
    );
}

/// The format keeps the type, and wraps in it.
#[test]
fn reductions_of_integers_keep_their_type() {
    let e = engine();
    let x = list(&e, &[i32::MAX, 1, -2]);
    let at = list(&e, &[0i64]);
    for (op, want) in [
        ("ReduceSum", i32::MAX - 1),
        ("ReduceL1", i32::MIN + 2),
        ("ReduceProd", 2),
    ] {
        let got = node(op, [&x, &at], &[]).to_vec::<i32>().unwrap();
        assert_eq!(got, [want], "{op}");
    }
    let axis = Tensor::from_slice(&e, &[0i64], &[]).unwrap();
    let running = node("CumSum", [&x, &axis], &[]);
    assert_eq!(
        running.to_vec::<i32>().unwrap(),
        [i32::MAX, i32::MIN, i32::MAX - 1]
    );
}
