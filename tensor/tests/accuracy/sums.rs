//! Sums of many numbers: relative to the sum of their sizes, however they are arranged.

use conformance::part::Part;
use tensor::{DType, Engine, Tensor};

use crate::support::engine;

/// The error that sums of `f32` may have.
const MOST: f64 = 1e-6;

/// Numbers that look random, from 0 to 1 or from -1 to 1, or all the same: then every addition
/// rounds the same way.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Terms {
    Same,
    Positive,
    Mixed,
}

impl Terms {
    const ALL: [Terms; 3] = [Terms::Same, Terms::Positive, Terms::Mixed];

    fn of(self, n: usize) -> Vec<f32> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 24) as f32
        };
        match self {
            Terms::Same => vec![0.1; n],
            Terms::Positive => (0..n).map(|_| next()).collect(),
            Terms::Mixed => (0..n).map(|_| 2.0 * next() - 1.0).collect(),
        }
    }
}

/// The sum of terms, and of their sizes.
fn exact(terms: impl Iterator<Item = f64>) -> [f64; 2] {
    terms.fold([0.0; 2], |[sum, size], x| [sum + x, size + x.abs()])
}

fn check(name: &str, got: f32, [sum, size]: [f64; 2]) {
    let error = (f64::from(got) - sum).abs() / size;
    println!("{name:44} {error:9.1e}");
    assert!(
        error <= MOST,
        "{name}: {got} instead of {sum}, error {error:e}"
    );
}

/// Columns `c` of `n` rows.
fn column(x: &[f32], width: usize, c: usize) -> impl Iterator<Item = f64> + '_ {
    x.iter().skip(c).step_by(width).map(|&x| f64::from(x))
}

fn tensor(e: &Engine, x: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_slice(e, x, shape).unwrap()
}

#[test]
fn whole_sums() {
    let e = engine();
    let mut lengths = vec![100_000, 999_983, 10_000_000];
    if Part::chosen().is_all() {
        lengths.push(100_000_000);
    }
    for n in lengths {
        for terms in Terms::ALL {
            let values = terms.of(n);
            let x = tensor(&e, &values, &[n]);
            let of = |f: fn(f64) -> f64| exact(values.iter().map(|&x| f(f64::from(x))));
            let name = |what: &str| format!("{what} of {n} {terms:?}");
            let sum: f32 = x.sum(&[], false).unwrap().item().unwrap();
            check(&name("sum"), sum, of(|x| x));
            let mean: f32 = x.mean(&[], false).unwrap().item().unwrap();
            check(&name("mean"), mean, of(|x| x).map(|s| s / n as f64));
            // A producer that is part of the kernel.
            let sum: f32 = (&x * 3.0)
                .unwrap()
                .abs()
                .unwrap()
                .sum(&[], false)
                .unwrap()
                .item()
                .unwrap();
            check(
                &name("fused sum"),
                sum,
                of(|x| f64::from(3.0 * x as f32).abs()),
            );
            let norm: f32 = x.norm(2.0, &[], false).unwrap().item().unwrap();
            check(&name("norm"), norm, of(|x| x * x).map(f64::sqrt));
            let dot: f32 = x.mul(&x).unwrap().sum(&[], false).unwrap().item().unwrap();
            check(&name("dot"), dot, of(|x| x * x));
            let [mean, _] = of(|x| x).map(|s| s / n as f64);
            let var = exact(values.iter().map(|&x| (f64::from(x) - mean).powi(2)));
            if terms != Terms::Same {
                let got: f32 = x.var(&[], 0.0, false).unwrap().item().unwrap();
                check(&name("variance"), got, var.map(|s| s / n as f64));
            }
            let lse: f32 = x.logsumexp(&[], false).unwrap().item().unwrap();
            let want = of(f64::exp)[0].ln();
            check(&name("logsumexp"), lse, [want, want]);
            let running: Vec<f32> = x.cumsum(0).unwrap().to_vec().unwrap();
            let (mut worst, mut so_far) = (0.0f64, [0.0f64; 2]);
            for (&got, &x) in running.iter().zip(&values) {
                so_far = [so_far[0] + f64::from(x), so_far[1] + f64::from(x.abs())];
                worst = worst.max((f64::from(got) - so_far[0]).abs() / so_far[1]);
            }
            println!("{:44} {worst:9.1e}", name("running sum"));
            assert!(worst <= MOST, "{}: {worst:e}", name("running sum"));
        }
    }
}

#[test]
fn sums_of_rows_and_columns() {
    let e = engine();
    let shapes = [
        (3, 300_001),
        (300_001, 3),
        (20_000, 64),
        (64, 20_000),
        (100_003, 17),
    ];
    for (rows, width) in shapes {
        for terms in Terms::ALL {
            let values = terms.of(rows * width);
            let x = tensor(&e, &values, &[rows, width]);
            let down: Vec<f32> = x.sum(&[0], false).unwrap().to_vec().unwrap();
            let name = format!("columns of {rows}x{width} {terms:?}");
            check(
                &name,
                down[width - 1],
                exact(column(&values, width, width - 1)),
            );
            let along: Vec<f32> = x.sum(&[1], false).unwrap().to_vec().unwrap();
            let last = values[(rows - 1) * width..].iter().map(|&x| f64::from(x));
            let name = format!("rows of {rows}x{width} {terms:?}");
            check(&name, along[rows - 1], exact(last));
        }
    }
    // The first and the last axis of three, with one left in the middle.
    let [a, b, c] = [501, 3, 997];
    for terms in Terms::ALL {
        let values = terms.of(a * b * c);
        let x = tensor(&e, &values, &[a, b, c]);
        let got: Vec<f32> = x.sum(&[0, 2], false).unwrap().to_vec().unwrap();
        for (i, &got) in got.iter().enumerate() {
            let own = (0..a).flat_map(|r| values[(r * b + i) * c..][..c].iter());
            let want = exact(own.map(|&x| f64::from(x)));
            check(&format!("outer axes of {a}x{b}x{c} {terms:?}"), got, want);
        }
    }
}

#[test]
fn products_with_long_inner_axes() {
    let e = engine();
    for (m, k, n) in [
        (1, 1_000_000, 1),
        (2, 400_003, 3),
        (8, 100_000, 8),
        (33, 20_000, 40),
        (1, 50_000, 64),
        (64, 1024, 64),
        (512, 1000, 512),
        (256, 4096, 256),
    ] {
        for terms in Terms::ALL {
            let (left, right) = (terms.of(m * k), terms.of(k * n));
            let product = tensor(&e, &left, &[m, k]).matmul(&tensor(&e, &right, &[k, n]));
            let got: Vec<f32> = product.unwrap().to_vec().unwrap();
            let row = left[(m - 1) * k..].iter().map(|&x| f64::from(x));
            let want = exact(row.zip(column(&right, n, n - 1)).map(|(x, y)| x * y));
            check(
                &format!("product of {m}x{k}x{n} {terms:?}"),
                got[m * n - 1],
                want,
            );
        }
    }
}

#[test]
fn infinite_terms_stay_infinite() {
    let e = engine();
    let n = 100_000;
    for (at, value) in [
        (0, f32::INFINITY),
        (n / 2, f32::NEG_INFINITY),
        (n - 1, f32::INFINITY),
    ] {
        let mut values = Terms::Positive.of(n);
        values[at] = value;
        let x = tensor(&e, &values, &[n]);
        assert_eq!(x.sum(&[], false).unwrap().item::<f32>().unwrap(), value);
        let running: Vec<f32> = x.cumsum(0).unwrap().to_vec().unwrap();
        assert!(running[..at].iter().all(|x| x.is_finite()));
        assert!(running[at..].iter().all(|&x| x == value));
    }
    let large = tensor(&e, &vec![1e38; n], &[n]);
    assert_eq!(
        large.sum(&[], false).unwrap().item::<f32>().unwrap(),
        f32::INFINITY
    );
    // Sums that would be finite in another order are, where the type of the sum is wide enough.
    let mut values = Terms::Mixed.of(n);
    values[7] = f32::NAN;
    let x = tensor(&e, &values, &[n]);
    assert!(x.sum(&[], false).unwrap().item::<f32>().unwrap().is_nan());
}

#[test]
fn halves_add_up_as_singles_do() {
    let e = engine();
    for dtype in [DType::F16, DType::BF16] {
        let n = 1_000_000;
        let x = tensor(&e, &Terms::Positive.of(n), &[n])
            .cast(dtype)
            .unwrap();
        let values: Vec<f32> = x.cast(DType::F32).unwrap().to_vec().unwrap();
        let sum: f32 = x.sum_in(DType::F32, &[], false).unwrap().item().unwrap();
        let want = exact(values.iter().map(|&x| f64::from(x)));
        check(&format!("sum of {n} {dtype}"), sum, want);
    }
}
