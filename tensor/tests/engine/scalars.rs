//! Numbers and places that change from call to call cost two kernels, not one for each.
use crate::support;

use conformance::part::Part;
use half::{bf16, f16};
use support::{engine, engine_with};
use tensor::exec::{DeviceExecutor, Interpreter, Options};
use tensor::ops::movement::PadMode;
use tensor::schedule::Limits;
use tensor::{Engine, Jit, Rng, Tensor, gradients};

/// Calls of each kind: many in the long run.
fn calls() -> usize {
    match Part::chosen().is_all() {
        true => 10_000,
        false => 500,
    }
}

/// The interpreter checks every access, and the bounds of places.
fn judge() -> Engine {
    Interpreter::engine(Limits::default(), false)
}

fn kernels(engine: &Engine) -> usize {
    DeviceExecutor::of(engine).unwrap().compiled_kernels()
}

/// Runs a step many times. Each kernel of the first one may be there once more at the end.
fn steps(what: &str, mut step: impl FnMut(&Engine, usize)) {
    let engine = engine();
    step(&engine, 0);
    let first = kernels(&engine);
    assert!(first > 0, "{what} runs nothing");
    for i in 1..calls() {
        step(&engine, i);
        let now = kernels(&engine);
        assert!(
            now <= 2 * first,
            "{what}: {first} kernels at first, {now} after step {i}"
        );
    }
}

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 * 0.25 - 3.0).collect()
}

#[test]
fn a_factor_that_changes() {
    let (x, mut kept) = (ramp(40), None);
    steps("x * s + t", |engine, i| {
        let x = kept.get_or_insert_with(|| Tensor::from_slice(engine, &x, &[40]).unwrap());
        let (s, t) = (0.5 + i as f32 * 0.125, i as f32 - 7.0);
        let y = x.mul(s).unwrap().add(t).unwrap().to_vec::<f32>().unwrap();
        let expected = ramp(40).into_iter().map(|x| x * s + t);
        for (y, expected) in y.into_iter().zip(expected) {
            assert!(
                (y - expected).abs() <= 1e-5 * expected.abs().max(1.0),
                "step {i}"
            );
        }
    });
}

#[test]
fn a_comparison_with_a_number_that_changes() {
    let mut kept = None;
    steps("x < s", |engine, i| {
        let x = kept.get_or_insert_with(|| Tensor::from_slice(engine, &ramp(40), &[40]).unwrap());
        let s = i as f32 * 0.25 - 50.0;
        let y = x.lt(s).unwrap().to_vec::<bool>().unwrap();
        assert!(
            y.into_iter().eq(ramp(40).into_iter().map(|x| x < s)),
            "step {i}"
        );
    });
}

#[test]
fn numbers_of_every_width() {
    let mut kept = None;
    steps("narrow types", |engine, i| {
        let (halves, bytes, words, mixed) = kept.get_or_insert_with(|| {
            let halves: Vec<f16> = ramp(16).into_iter().map(f16::from_f32).collect();
            let brains: Vec<bf16> = ramp(16).into_iter().map(bf16::from_f32).collect();
            let bytes: Vec<u8> = (0..16).map(|x| x * 13).collect();
            let words: Vec<i64> = (0..16).map(|x| x * 77 - 500).collect();
            (
                Tensor::from_slice(engine, &halves, &[16]).unwrap(),
                Tensor::from_slice(engine, &bytes, &[16]).unwrap(),
                Tensor::from_slice(engine, &words, &[16]).unwrap(),
                Tensor::from_slice(engine, &brains, &[16]).unwrap(),
            )
        });
        let n = i as i64;
        let small = (n % 200) as f32 * 0.5;
        let y = halves.add(small).unwrap().to_vec::<f16>().unwrap();
        let expected = ramp(16).into_iter().map(|x| f16::from_f32(x + small));
        assert!(y.into_iter().eq(expected), "f16, step {i}");
        let y = mixed.mul(small).unwrap().to_vec::<bf16>().unwrap();
        let expected = ramp(16).into_iter().map(|x| bf16::from_f32(x * small));
        assert!(y.into_iter().eq(expected), "bf16, step {i}");
        let y = bytes.add(n % 256).unwrap().to_vec::<u8>().unwrap();
        let expected = (0..16).map(|x: u8| (x * 13).wrapping_add((n % 256) as u8));
        assert!(y.into_iter().eq(expected), "u8, step {i}");
        let far = (n - 3) * 0x1_0000_0001;
        let y = words.add(far).unwrap().to_vec::<i64>().unwrap();
        assert!(
            y.into_iter().eq((0..16).map(|x| x * 77 - 500 + far)),
            "i64, step {i}"
        );
    });
}

#[test]
fn dropout_with_a_counter_on_the_host() {
    let mut kept = None;
    let mut host = None;
    steps("dropout", |engine, i| {
        let (x, rng) = kept.get_or_insert_with(|| {
            let x = Tensor::from_slice(engine, &ramp(64), &[64]).unwrap();
            (x, Rng::new(engine, 9))
        });
        let y = rng.dropout(x, 0.25).unwrap().to_vec::<f32>().unwrap();
        let (x, rng) = host.get_or_insert_with(|| {
            let reference = Engine::reference();
            let x = Tensor::from_slice(&reference, &ramp(64), &[64]).unwrap();
            (x, Rng::new(&reference, 9))
        });
        let expected = rng.dropout(x, 0.25).unwrap();
        // The host is slow: some steps are compared.
        if i < 4 || i % 50 == 0 {
            assert_eq!(y, expected.to_vec::<f32>().unwrap(), "step {i}");
        }
    });
}

#[test]
fn a_step_of_descent_with_a_rate_that_changes() {
    let mut kept = None;
    let mut host = ramp(32);
    steps("descent", |engine, i| {
        let w = kept.get_or_insert_with(|| Tensor::from_slice(engine, &ramp(32), &[32]).unwrap());
        let rate = 0.01 / (1.0 + i as f32);
        // The slope of the square.
        let next = w.sub(w.mul(2.0).unwrap().mul(rate).unwrap()).unwrap();
        engine.realize(&[&next]).unwrap();
        *w = next;
        for x in &mut host {
            *x -= *x * 2.0 * rate;
        }
        if i % 50 == 0 {
            let y = w.to_vec::<f32>().unwrap();
            for (y, x) in y.iter().zip(&host) {
                assert!(
                    (y - x).abs() <= 1e-4 * x.abs().max(1e-3),
                    "step {i}: {y}, {x}"
                );
            }
        }
    });
}

#[test]
fn parts_that_begin_elsewhere() {
    let shape = [40usize, 30, 20];
    let value = |i: usize| ((i * 7919) % 1009) as f32;
    let all: Vec<f32> = (0..24_000).map(value).collect();
    for axis in 0..3 {
        let mut kept = None;
        steps("narrow", |engine, i| {
            let x = kept.get_or_insert_with(|| Tensor::from_slice(engine, &all, &shape).unwrap());
            let start = (i * 5) % (shape[axis] - 2);
            let part = x.narrow(axis as isize, start, 3).unwrap();
            let sum = part.add(1.0).unwrap().sum(&[axis as isize], false).unwrap();
            let y = sum.to_vec::<f32>().unwrap();
            let others: Vec<usize> = (0..3).filter(|&a| a != axis).collect();
            let stride = [600usize, 20, 1];
            for (n, y) in y.iter().enumerate() {
                let inner = shape[others[1]];
                let at = n / inner * stride[others[0]] + n % inner * stride[others[1]];
                let expected: f32 = (start..start + 3)
                    .map(|s| all[at + s * stride[axis]] + 1.0)
                    .sum();
                assert_eq!(*y, expected, "axis {axis}, step {i}, element {n}");
            }
        });
    }
}

/// The slope of a part is a padding that begins elsewhere.
#[test]
fn slopes_of_parts_that_begin_elsewhere() {
    let all: Vec<f32> = (0..50 * 6).map(|i| ((i * 37) % 41) as f32 - 20.0).collect();
    let mut kept = None;
    steps("slopes", |engine, i| {
        let x = kept.get_or_insert_with(|| Tensor::from_slice(engine, &all, &[50, 6]).unwrap());
        let (row, column) = ((i * 7) % 47, i % 4);
        let part = x.narrow(0, row, 4).unwrap().narrow(1, column, 3).unwrap();
        let sum = part.square().unwrap().sum(&[], false).unwrap();
        let slope = gradients(&sum, &[x]).unwrap()[0].to_vec::<f32>().unwrap();
        for (n, slope) in slope.into_iter().enumerate() {
            let inside =
                (row..row + 4).contains(&(n / 6)) && (column..column + 3).contains(&(n % 6));
            let expected = if inside { 2.0 * all[n] } else { 0.0 };
            assert_eq!(slope, expected, "step {i}, element {n}");
        }
    });
}

/// The place is under a padding, whose conditions must hold for every place, and in a product.
fn parts() -> impl FnMut(&Engine, usize) {
    let rows = |i: usize| ((i * 31) % 17) as f32 - 8.0;
    let (all, w): (Vec<f32>, Vec<f32>) = ((0..64 * 8).map(rows).collect(), ramp(8 * 4));
    let mut kept = None;
    move |engine, i| {
        let (x, w) = kept.get_or_insert_with(|| {
            (
                Tensor::from_slice(engine, &all, &[64, 8]).unwrap(),
                Tensor::from_slice(engine, &w, &[8, 4]).unwrap(),
            )
        });
        let start = (i * 11) % 61;
        let part = x.narrow(0, start, 4).unwrap();
        let y = part.matmul(w).unwrap().to_vec::<f32>().unwrap();
        let at = |r: usize, c: usize| all[(start + r) * 8 + c];
        for (n, y) in y.iter().enumerate() {
            let expected: f32 = (0..8).map(|k| at(n / 4, k) * ramp(32)[k * 4 + n % 4]).sum();
            assert!((y - expected).abs() < 1e-3, "step {i}, element {n}");
        }
        // Padded first: a part of it has the padding or not.
        let padded = x
            .pad(&[(3, 3), (0, 0)], PadMode::Constant(5.0.into()))
            .unwrap();
        let y = padded
            .narrow(0, (i * 7) % 66, 5)
            .unwrap()
            .to_vec::<f32>()
            .unwrap();
        for (n, y) in y.iter().enumerate() {
            let row = (i * 7) % 66 + n / 8;
            let inside = (3..67).contains(&row);
            let expected = if inside {
                all[(row - 3) * 8 + n % 8]
            } else {
                5.0
            };
            assert_eq!(*y, expected, "step {i}, row {row}");
        }
        // Reshaped after: places in a row are divided.
        let flat = x.narrow(1, i % 6, 3).unwrap().reshape(&[3, 64]).unwrap();
        let y = flat.narrow(1, i % 50, 10).unwrap().to_vec::<f32>().unwrap();
        for (n, y) in y.iter().enumerate() {
            let from = n / 10 * 64 + i % 50 + n % 10;
            assert_eq!(
                *y,
                all[from / 3 * 8 + i % 6 + from % 3],
                "step {i}, element {n}"
            );
        }
    }
}

#[test]
fn parts_that_begin_elsewhere_under_other_operations() {
    steps("products of parts", parts());
}

#[test]
fn parts_that_begin_elsewhere_by_the_judge_of_kernels() {
    let (engine, mut step) = (judge(), parts());
    (0..70).for_each(|i| step(&engine, i));
}

/// Code for all numbers does not replace that for the ones that a capture has.
#[test]
fn captures_have_their_numbers_in_their_code() {
    let engine = engine();
    let x = Tensor::from_slice(&engine, &ramp(40), &[40]).unwrap();
    for i in 0..5 {
        x.mul(i as f32 + 0.5).unwrap().to_vec::<f32>().unwrap();
    }
    assert_eq!(kernels(&engine), 2);
    let double = Jit::new(&engine, |inputs: &[Tensor]| Ok(vec![inputs[0].mul(2.0)?]));
    for _ in 0..3 {
        let y = double.call(std::slice::from_ref(&x)).unwrap();
        let expected: Vec<f32> = ramp(40).iter().map(|x| x * 2.0).collect();
        assert_eq!(y[0].to_vec::<f32>().unwrap(), expected);
    }
    assert_eq!(kernels(&engine), 3);
    // The same number again takes what the capture has.
    x.mul(2.0).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(kernels(&engine), 3);
}

/// Numbers that turn out to change one after the other are opened one after the other.
#[test]
fn numbers_that_begin_to_change_later() {
    let engine = engine();
    let x = Tensor::from_slice(&engine, &ramp(8), &[8]).unwrap();
    let y = |s: [f32; 5]| {
        let mut y = x.clone();
        for (i, s) in s.into_iter().enumerate() {
            y = if i % 2 == 0 { y.add(s) } else { y.mul(s) }.unwrap();
        }
        let host = ramp(8).into_iter().map(|x| {
            s.into_iter()
                .enumerate()
                .fold(x, |y, (i, s)| if i % 2 == 0 { y + s } else { y * s })
        });
        let y = y.to_vec::<f32>().unwrap();
        for (y, host) in y.into_iter().zip(host) {
            assert!(
                (y - host).abs() <= 1e-4 * host.abs().max(1.0),
                "{s:?}: {y}, {host}"
            );
        }
    };
    for changing in 0..5 {
        for i in 0..20 {
            let mut s = [2.0, 3.0, 5.0, 7.0, 11.0];
            for s in &mut s[..=changing] {
                *s += i as f32 * 0.01;
            }
            y(s);
            assert!(kernels(&engine) <= 2, "{}", kernels(&engine));
        }
    }
    assert_eq!(kernels(&engine), 2);
}

/// Kernels that were not used for the longest time go; what is captured stays, and what is asked for again comes again.
#[test]
fn kernels_are_kept_up_to_a_bound() {
    let options = Options {
        kernel_bytes: 256 << 10,
        ..Options::default()
    };
    let engine = engine_with(drivers_cpu::Config::default(), options);
    let given = Tensor::from_slice(&engine, &ramp(40), &[40]).unwrap();
    let captured = Jit::new(&engine, |inputs: &[Tensor]| Ok(vec![inputs[0].exp2()?]));
    let y = captured.call(std::slice::from_ref(&given)).unwrap()[0]
        .to_vec::<f32>()
        .unwrap();
    let (mut most, mut all) = (0, Vec::new());
    for n in (1..120).chain(1..10) {
        let x = Tensor::from_slice(&engine, &ramp(n), &[n]).unwrap();
        // Not waited for: what goes may still run.
        all.push((n, x.mul(3.0).unwrap().add(1.0).unwrap()));
        engine.realize(&[&all[all.len() - 1].1]).unwrap();
        most = most.max(kernels(&engine));
    }
    assert!((2..80).contains(&most), "{most} kernels of 120");
    for (n, y) in all {
        let expected: Vec<f32> = ramp(n).iter().map(|x| x * 3.0 + 1.0).collect();
        assert_eq!(y.to_vec::<f32>().unwrap(), expected, "{n}");
    }
    for _ in 0..3 {
        let again = captured.call(std::slice::from_ref(&given)).unwrap();
        assert_eq!(again[0].to_vec::<f32>().unwrap(), y);
    }
}

/// Threads of one engine whose kernels drive each other's out.
#[test]
fn what_another_thread_drives_out_still_runs() {
    let options = Options {
        kernel_bytes: 64 << 10,
        ..Options::default()
    };
    let engine = engine_with(drivers_cpu::Config::default(), options);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let engine = &engine;
            scope.spawn(move || {
                for i in 0..60 {
                    let n = 1 + (i * 3 + thread) % 40;
                    let x = Tensor::from_slice(engine, &ramp(n), &[n]).unwrap();
                    let y = x.mul(i as f32).unwrap().add(1.0).unwrap();
                    let expected: Vec<f32> = ramp(n).iter().map(|x| x * i as f32 + 1.0).collect();
                    assert_eq!(y.to_vec::<f32>().unwrap(), expected, "{thread}, {i}");
                }
            });
        }
    });
    assert!(kernels(&engine) < 30);
}
