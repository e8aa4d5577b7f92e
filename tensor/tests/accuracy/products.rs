//! Products of many numbers: an error of each step would count as often as there are steps.

use tensor::{DType, Engine, Tensor, gradients};

use crate::support::engine;

/// The relative error that products of `f32` may have.
const MOST: f64 = 1e-6;

fn check(name: &str, got: f64, want: f64, most: f64) {
    let error = (got - want).abs() / want.abs();
    println!("{name:44} {error:9.1e}");
    assert!(
        error <= most,
        "{name}: {got:e} instead of {want:e}, error {error:e}"
    );
}

/// Factors near one, all the same or of both sides of it, so that their product stays a number.
fn factors(n: usize, same: bool) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32
    };
    match same {
        true => vec![1.0 + 9.0 / n as f32; n],
        false => (0..n).map(|_| 1.0 + (next() - 0.5) / 64.0).collect(),
    }
}

fn product(x: impl IntoIterator<Item = f64>) -> f64 {
    x.into_iter().map(f64::ln).sum::<f64>().exp()
}

fn whole(e: &Engine, n: usize, same: bool) {
    let values = factors(n, same);
    let x = Tensor::from_slice(e, &values, &[n]).unwrap();
    let want = product(values.iter().map(|&x| f64::from(x)));
    let name = |what: &str| format!("{what} of {n} {}", if same { "same" } else { "mixed" });
    let got = x.prod(&[], false).unwrap();
    assert_eq!(got.dtype(), DType::F32);
    check(
        &name("product"),
        f64::from(got.item::<f32>().unwrap()),
        want,
        MOST,
    );
    let running: Vec<f32> = x.cumprod(0).unwrap().to_vec().unwrap();
    let mut so_far = 1.0;
    let mut worst: f64 = 0.0;
    for (&got, &x) in running.iter().zip(&values) {
        so_far *= f64::from(x);
        worst = worst.max((f64::from(got) - so_far).abs() / so_far);
    }
    check(&name("running product"), 1.0 + worst, 1.0, MOST);
    let slope = gradients(&got, &[&x]).unwrap()[0].to_vec::<f32>().unwrap();
    for at in [0, n / 2, n - 1] {
        let want = want / f64::from(values[at]);
        check(&name("gradient"), f64::from(slope[at]), want, MOST);
    }
}

#[test]
fn products_of_many() {
    for e in [engine(), Engine::reference()] {
        for n in [17, 1000, 1_000_000] {
            for same in [true, false] {
                whole(&e, n, same);
            }
        }
    }
}

#[test]
fn products_of_rows_and_columns() {
    let e = engine();
    for [rows, width] in [[100_003, 7], [7, 100_003]] {
        let values = factors(rows * width, false);
        let x = Tensor::from_slice(&e, &values, &[rows, width]).unwrap();
        let of = |from: usize, step: usize, n: usize| {
            let own = values[from..].iter().step_by(step).take(n);
            product(own.map(|&x| f64::from(x)))
        };
        let down: Vec<f32> = x.prod(&[0], false).unwrap().to_vec().unwrap();
        let along: Vec<f32> = x.prod(&[1], false).unwrap().to_vec().unwrap();
        let name = format!("columns of {rows}x{width}");
        check(&name, f64::from(down[3]), of(3, width, rows), MOST);
        let name = format!("rows of {rows}x{width}");
        check(&name, f64::from(along[3]), of(3 * width, 1, width), MOST);
    }
}

#[test]
fn products_of_halves() {
    let e = engine();
    for (dtype, most) in [(DType::F16, 2f64.powi(-11)), (DType::BF16, 2f64.powi(-8))] {
        let n = 200_000;
        // Pairs that are one together but for little, in no order that partial products keep.
        let values: Vec<f32> = (0..n).map(|i| [1.0078125, 0.9921875][i / 7 % 2]).collect();
        let x = Tensor::from_slice(&e, &values, &[n])
            .unwrap()
            .cast(dtype)
            .unwrap();
        let want = product(values.iter().map(|&x| f64::from(x)));
        let got = x.prod(&[], false).unwrap();
        assert_eq!(got.dtype(), dtype);
        check(
            &format!("product of {n} {dtype}"),
            got.to_f64_vec().unwrap()[0],
            want,
            most,
        );
        let last = x.cumprod(0).unwrap().narrow(0, n - 1, 1).unwrap();
        let name = format!("running product of {n} {dtype}");
        check(&name, last.to_f64_vec().unwrap()[0], want, most);
    }
}
