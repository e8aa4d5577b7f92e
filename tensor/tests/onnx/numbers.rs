//! Numbers that operators are wrong by if they take a way around: infinite ones, very large beside very
//! small ones, integers with more digits than `f32`.

use crate::support;

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

/// An integer exponent keeps its digits, and is even or odd whatever the base is.
#[test]
fn powers_with_integer_exponents() {
    let e = engine();
    let power = |base: &Tensor, exponent: &Tensor| -> Vec<f64> {
        let y = node("Pow", [base, exponent], &[]);
        assert_eq!(y.dtype(), base.dtype());
        y.to_f64_vec().unwrap()
    };
    let bases = list(&e, &[-1.0f32, -1.0, 1.0078125, -2.0]);
    for dtype in [DType::BF16, DType::F16, DType::F32, DType::F64] {
        let base = bases.cast(dtype).unwrap();
        for one in [true, false] {
            let exponents = list(&e, &[257i64, 258, 257, -3]);
            let exponents = match one {
                true => exponents,
                false => exponents.cast(DType::I32).unwrap(),
            };
            let got = power(&base, &exponents);
            assert_eq!([got[0], got[1], got[3]], [-1.0, 1.0, -0.125], "{dtype}");
            let error = (got[2] / 1.0078125f64.powi(257) - 1.0).abs();
            assert!(error < 2f64.powi(-8), "{dtype}: {}", got[2]);
        }
        // One exponent for all.
        assert_eq!(
            power(&base, &list(&e, &[257i64]))[..2],
            [-1.0, -1.0],
            "{dtype}"
        );
    }
    let base = list(&e, &[-1.0f32, -1.0, -1.0, -1.0, 0.5]);
    let odd = (1i64 << 53) + 1;
    let exponents = list(&e, &[16_777_217i64, odd, odd - 1, -odd, i64::MAX]);
    assert_eq!(power(&base, &exponents), [-1.0, -1.0, 1.0, -1.0, 0.0]);
    let exponents = list(&e, &[16_777_217u64, u64::MAX, u64::MAX - 1, 1 << 63, 3]);
    assert_eq!(power(&base, &exponents), [-1.0, -1.0, 1.0, 1.0, 0.125]);
    let base = list(&e, &[-0.0f32, 0.0, f32::NEG_INFINITY, f32::NEG_INFINITY]);
    let got = power(&base, &list(&e, &[-odd, -3, -3, odd]));
    assert_eq!(got[..2], [f64::NEG_INFINITY, f64::INFINITY]);
    assert_eq!((got[2].to_bits(), got[3]), (1 << 63, f64::NEG_INFINITY));
}

/// The mean of large integers is between them.
#[test]
fn means_of_large_integers() {
    let e = engine();
    let axes = list(&e, &[0i64]);
    let mean = |x: &[i64]| -> i64 {
        let y: Vec<i64> = node("ReduceMean", [&list(&e, x), &axes], &[])
            .to_vec()
            .unwrap();
        y[0]
    };
    let (least, most) = (i64::MIN, i64::MAX);
    for row in [
        vec![1i64 << 62; 3],
        vec![most, most, most - 2],
        vec![least; 5],
        vec![most, least],
        vec![least, least, least + 5],
        vec![7, -9, 1],
        vec![-7, 9, -1],
        vec![-5, 2],
        vec![5, -2],
        vec![most, -most, 2],
        vec![-3, -2, -2, 100],
    ] {
        let sum: i128 = row.iter().map(|&x| i128::from(x)).sum();
        assert_eq!(i128::from(mean(&row)), sum / row.len() as i128, "{row:?}");
    }
    let x = list(&e, &[u64::MAX, u64::MAX, u64::MAX - 4]);
    let y: Vec<u64> = node("ReduceMean", [&x, &axes], &[]).to_vec().unwrap();
    assert_eq!(y, [u64::MAX - 2]);
}

/// The sum of several may be larger than what they are stored in.
#[test]
fn means_of_halves() {
    let e = engine();
    let x = list(&e, &[60000.0f32, -60000.0, 1.0])
        .cast(DType::F16)
        .unwrap();
    let y = node("Mean", [&x, &x], &[]);
    assert_eq!(y.dtype(), DType::F16);
    assert_eq!(y.to_f64_vec().unwrap(), [60000.0, -60000.0, 1.0]);
    let x = list(&e, &[3e38f32, 257.0]).cast(DType::BF16).unwrap();
    let y = node("Mean", [&x, &x], &[]).to_f64_vec().unwrap();
    assert_eq!(y, x.to_f64_vec().unwrap());
    let x = list(&e, &[3e38f32, -3e38]);
    let y: Vec<f32> = node("Mean", [&x, &x], &[]).to_vec().unwrap();
    assert_eq!(y, [3e38, -3e38]);
}

/// Sums, products and running ones of many, in the type of their elements.
#[test]
fn long_reductions() {
    let e = engine();
    let axes = list(&e, &[0i64]);
    let axis = Tensor::from_slice(&e, &[0i64], &[]).unwrap();
    let n = 18_000_000;
    let x = list(&e, &vec![1.0f32; n]).cast(DType::BF16).unwrap();
    let x = x.contiguous().unwrap();
    let sum = node("ReduceSum", [&x, &axes], &[]).to_f64_vec().unwrap()[0];
    let running = node("CumSum", [&x, &axis], &[]).narrow(0, n - 1, 1);
    let last = running.unwrap().to_f64_vec().unwrap()[0];
    for got in [sum, last] {
        assert!((got / n as f64 - 1.0).abs() < 2f64.powi(-8), "{got}");
    }
    let n = 1_000_000;
    let x = list(&e, &vec![1.000001f32; n]);
    let want = f64::from(1.000001f32).powi(n as i32);
    let product = node("ReduceProd", [&x, &axes], &[]).to_f64_vec().unwrap()[0];
    let running = node("CumProd", [&x, &axis], &[]).narrow(0, n - 1, 1);
    let last = running.unwrap().to_f64_vec().unwrap()[0];
    for got in [product, last] {
        assert!((got / want - 1.0).abs() < 1e-6, "{got} instead of {want}");
    }
}
