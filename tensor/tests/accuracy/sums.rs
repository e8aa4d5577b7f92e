//! Sums of many numbers: relative to the sum of their sizes, however they are arranged.

use codegen::ir::ReduceOp;
use conformance::part::Part;
use tensor::{DType, Engine, Tensor, gradients};

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

/// Where all products are the same, each addition of a block rounds to the same side: that is as far off as a block
/// of 256 can be, of which the additions in the middle round a sum of half its size.
#[test]
fn products_of_what_is_the_same() {
    const BLOCK: f64 = 256.0;
    let most = MOST + BLOCK / 2.0 * 2f64.powi(-24);
    let e = engine();
    let pairs = [
        (3.95, 3.87),
        (1.41, 1.39),
        (0.1, 0.1),
        (3.3, 1.0 / 3.0),
        (100_003.0, 0.7),
    ];
    for (m, k, n) in [
        (64, 256, 64),
        (64, 2048, 64),
        (256, 4096, 256),
        (1, 100_000, 64),
    ] {
        for (a, b) in pairs {
            let left = tensor(&e, &vec![a; m * k], &[m, k]);
            let right = tensor(&e, &vec![b; k * n], &[k, n]);
            let got: Vec<f32> = left.matmul(&right).unwrap().to_vec().unwrap();
            let want = f64::from(a) * f64::from(b) * k as f64;
            let worst = got.iter().map(|&got| (f64::from(got) - want).abs() / want);
            let worst = worst.fold(0.0, f64::max);
            println!("product of {m}x{k}x{n}, {a} times {b}: {worst:9.1e}");
            assert!(worst <= most, "{m}x{k}x{n}, {a} times {b}: {worst:e}");
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

/// What does not depend on the axis is as right as what does, and on half of the axis too.
#[test]
fn sums_of_what_is_the_same() {
    let e = engine();
    let n = 10_000_000;
    for value in [100_003.0f32, 0.1, 1.0, -7.0, 16_777_215.0] {
        let x = Tensor::full(&e, &[n], value, DType::F32).unwrap();
        let want = f64::from(value) * n as f64;
        let all = [want, want.abs()];
        let sum: f32 = x.sum(&[], false).unwrap().item().unwrap();
        check(&format!("sum of {n} times {value}"), sum, all);
        let mean: f32 = x.mean(&[], false).unwrap().item().unwrap();
        check(
            &format!("mean of {n} times {value}"),
            mean,
            all.map(|s| s / n as f64),
        );
        let square: f32 = x
            .square()
            .unwrap()
            .mean(&[], false)
            .unwrap()
            .item()
            .unwrap();
        let of = f64::from(value * value);
        check(
            &format!("mean square of {n} times {value}"),
            square,
            [of, of],
        );
        // The same for whole blocks, and for all but some of an axis.
        let some = Tensor::iota(&e, n, DType::I32).unwrap();
        let tens = some.floor_div(1000).unwrap().cast(DType::F32).unwrap();
        let tens = tens.mul(&x).unwrap().sum(&[], false).unwrap();
        let want = (0..n / 1000).map(|i| 1000.0 * f64::from(value * i as f32));
        check(
            &format!("sum of steps of {value}"),
            tens.item().unwrap(),
            exact(want),
        );
    }
    // Each element of a row many times.
    let values = Terms::Positive.of(37);
    let row = tensor(&e, &values, &[1, 37])
        .expand(&[300_007, 37])
        .unwrap();
    let sum: f32 = row.sum(&[], false).unwrap().item().unwrap();
    let [want, _] = exact(values.iter().map(|&x| f64::from(x) * 300_007.0));
    check("sum of a row many times", sum, [want, want]);
    let columns: Vec<f32> = row.sum(&[0], false).unwrap().to_vec().unwrap();
    for (&got, &x) in columns.iter().zip(&values) {
        let want = f64::from(x) * 300_007.0;
        check("column that is the same", got, [want, want]);
    }
    // The gradient of a bias.
    let bias = tensor(&e, &[0.5; 4], &[4]);
    let loss = bias
        .expand(&[3_000_001, 4])
        .unwrap()
        .mul(100_003.0)
        .unwrap();
    let slope = gradients(&loss.sum(&[], false).unwrap(), &[&bias]).unwrap();
    let want = 3_000_001.0 * 100_003.0;
    for got in slope[0].to_vec::<f32>().unwrap() {
        check("gradient of a bias", got, [want, want]);
    }
}

/// In their own type they are rounded once, at the end.
#[test]
fn halves_in_their_own_type_are_rounded_once() {
    let e = engine();
    for (dtype, digits, value, n) in [
        (DType::BF16, 8, 1.0f32, 18_000_000usize),
        (DType::BF16, 8, 0.1, 20_000_003),
        (DType::F16, 11, 1e-3, 18_000_000),
        (DType::F16, 11, 6e-8, 100_000_000),
    ] {
        let one = Tensor::full(&e, &[1], value, dtype).unwrap();
        let value = one.to_f64_vec().unwrap()[0];
        let x = one.contiguous().unwrap().expand(&[n]).unwrap();
        // Depends on the axis, so that it is added up.
        let some = Tensor::iota(&e, n, DType::I32).unwrap().ge(0).unwrap();
        let x = some.select(&x, &x.zeros_like().unwrap()).unwrap();
        let want = value * n as f64;
        let near = |what: &str, got: f64| {
            let error = (got - want).abs() / want;
            println!("{what} of {n} {dtype} {value}: {got}, error {error:e}");
            assert!(
                error <= 1.01 * 2f64.powi(-digits),
                "{what} of {n} {dtype}: {got} instead of {want}"
            );
        };
        let sum = x.sum_in(dtype, &[], false).unwrap();
        near("sum_in", sum.to_f64_vec().unwrap()[0]);
        let sum = x.reduce(ReduceOp::Add, &[0]).unwrap();
        near("reduce", sum.to_f64_vec().unwrap()[0]);
        let last = x.scan(ReduceOp::Add, 0).unwrap().narrow(0, n - 1, 1);
        near("scan", last.unwrap().to_f64_vec().unwrap()[0]);
    }
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
