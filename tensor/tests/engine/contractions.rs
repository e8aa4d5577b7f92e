//! Convolutions, products and sums of many shapes on a device, against the reference: every way in which
//! a contraction reads its operands, with tiles that do not divide the result.
use codegen::Backend;
use drivers_cpu::{Config, CpuDevice};
use tensor::exec::{DeviceExecutor, Options};
use tensor::ops::conv::ConvParams;
use tensor::{DType, Engine, Frozen, Result, Tensor};

fn device() -> Engine {
    let device = CpuDevice::open(Config {
        cores: 2,
        ..Config::default()
    })
    .unwrap();
    #[cfg(feature = "llvm")]
    let backend = Backend::find("CPU:LLVM", "", 2).unwrap();
    #[cfg(not(feature = "llvm"))]
    let backend = Backend::find("CPU:CLANG", "", 2).unwrap();
    DeviceExecutor::engine(device, backend, Options::default()).unwrap()
}

/// Numbers that do not repeat soon.
struct Random(u32);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % n
    }

    fn from(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high + 1 - low)
    }
}

fn data(e: &Engine, shape: &[usize], seed: u32) -> Tensor {
    let n: usize = shape.iter().product();
    let mut random = Random(seed);
    let values: Vec<f32> = (0..n)
        .map(|_| random.below(2001) as f32 * 1e-3 - 1.0)
        .collect();
    Tensor::from_slice(e, &values, shape).unwrap()
}

fn same(
    name: &str,
    here: &Engine,
    shapes: &[Vec<usize>],
    build: impl Fn(&[Tensor]) -> Result<Tensor>,
) {
    let there = Engine::reference();
    let inputs = |e: &Engine| -> Vec<Tensor> {
        let each = shapes.iter().enumerate();
        each.map(|(i, s)| data(e, s, 3 + i as u32)).collect()
    };
    let expected = build(&inputs(&there)).unwrap().to_vec::<f32>().unwrap();
    let close = |found: Vec<f32>, how: &str| {
        assert_eq!(found.len(), expected.len());
        for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
            assert!(
                (a - b).abs() <= 2e-4 * (1.0 + b.abs()),
                "{name}, {how}, element {i}: {a} and {b}"
            );
        }
    };
    let all = inputs(here);
    close(build(&all).unwrap().to_vec().unwrap(), "eager");
    // The first is the input, the others are constant.
    let signature = [(shapes[0].clone(), DType::F32)];
    let frozen = Frozen::capture(here, &signature, |x| {
        let mut inputs = all.clone();
        inputs[0] = x[0].clone();
        Ok(vec![build(&inputs)?])
    })
    .unwrap();
    for _ in 0..2 {
        let y = frozen.call(&all[..1]).unwrap();
        close(y[0].to_vec().unwrap(), "frozen");
    }
}

#[test]
fn convolutions() {
    let e = device();
    let mut r = Random(11);
    for case in 0..60 {
        let groups = [1, 1, 1, 2, 3][r.below(5)];
        let (cin, cout) = (groups * r.from(1, 24), groups * r.from(1, 40));
        let (kh, kw) = (r.from(1, 5), r.from(1, 5));
        let dilation = r.from(1, 2);
        let (h, w) = (r.from(9, 30), r.from(9, 30));
        let mut sliding = ConvParams::strided(r.from(1, 3), 2).dilated(dilation, 2);
        sliding = sliding.padded(r.below(3), 2);
        let shapes = vec![
            vec![r.from(1, 2), cin, h, w],
            vec![cout, cin / groups, kh, kw],
            vec![cout, 1, 1],
        ];
        let name = format!("case {case}: {shapes:?} {sliding:?} {groups} groups");
        same(&name, &e, &shapes, |x| {
            let y = x[0].conv(&x[1], None, &sliding, groups)?;
            let y = y.mul(&x[2])?.add(0.25)?;
            match case % 3 {
                0 => y.relu(),
                1 => y.add(&y.relu()?.add(1.0)?),
                _ => Ok(y),
            }
        });
    }
}

#[test]
fn depthwise_convolutions_and_pools() {
    let e = device();
    let mut r = Random(5);
    for case in 0..16 {
        let c = r.from(1, 40);
        let (k, s, p) = (r.from(2, 5), r.from(1, 3), r.below(2));
        let shapes = vec![vec![1, c, r.from(8, 30), r.from(8, 40)], vec![c, 1, k, k]];
        let sliding = ConvParams::strided(s, 2).padded(p, 2);
        let name = format!("case {case}: {shapes:?} {sliding:?}");
        same(&name, &e, &shapes, |x| {
            let y = x[0].conv(&x[1], None, &sliding, c)?;
            let z = x[0].relu()?.max_pool(&[k, k], &sliding, case % 2 == 0)?;
            let a = x[0].avg_pool(&[k, k], &sliding, false, case % 3 == 0)?;
            y.sum(&[2, 3], false)?
                .add(&z.sum(&[2, 3], false)?)?
                .add(&a.sum(&[2, 3], false)?)
        });
    }
}

#[test]
fn products() {
    let e = device();
    let mut r = Random(23);
    for case in 0..40 {
        let (m, n, k) = (r.from(1, 150), r.from(1, 150), r.from(1, 300));
        let batch = [1, 1, 4][r.below(3)];
        let turned = r.below(2) == 1;
        let b = if turned { vec![n, k] } else { vec![k, n] };
        let shapes = vec![vec![batch, m, k], b, vec![n]];
        let name = format!("case {case}: {shapes:?}");
        same(&name, &e, &shapes, |x| {
            let w = if turned { x[1].t()? } else { x[1].clone() };
            let y = x[0].matmul(&w)?.add(&x[2])?;
            if case % 2 == 0 { y.relu() } else { Ok(y) }
        });
    }
}

/// Weights of several megabytes are packed when a function is frozen.
#[test]
fn few_rows_and_large_weights() {
    let e = device();
    for (m, n, k) in [(5, 2050, 700), (9, 515, 2100)] {
        for turned in [false, true] {
            let b = if turned { vec![n, k] } else { vec![k, n] };
            let shapes = vec![vec![m, k], b, vec![n]];
            same(&format!("{shapes:?}"), &e, &shapes, |x| {
                let w = if turned { x[1].t()? } else { x[1].clone() };
                x[0].matmul(&w)?.add(&x[2])
            });
        }
    }
}

#[test]
fn integer_products_and_convolutions() {
    let e = device();
    let there = Engine::reference();
    let bytes = |e: &Engine, shape: &[usize], seed| {
        let mut r = Random(seed);
        let n: usize = shape.iter().product();
        let values: Vec<i8> = (0..n).map(|_| r.below(256) as i64 as u8 as i8).collect();
        Tensor::from_slice(e, &values, shape).unwrap()
    };
    let build = |e: &Engine| -> Result<Vec<Tensor>> {
        let (a, b) = (bytes(e, &[37, 90], 1), bytes(e, &[90, 70], 2));
        let y = a.cast(DType::I32)?.sub(3)?.matmul(&b.cast(DType::I32)?)?;
        let (x, w) = (bytes(e, &[1, 8, 14, 14], 3), bytes(e, &[20, 8, 3, 3], 4));
        let x = x.cast(DType::I32)?.add(5)?;
        let sliding = ConvParams::strided(1, 2).padded(1, 2);
        let z = x.conv(&w.cast(DType::I32)?, None, &sliding, 1)?;
        Ok(vec![y, z])
    };
    for (a, b) in build(&e).unwrap().iter().zip(&build(&there).unwrap()) {
        assert_eq!(a.to_vec::<i32>().unwrap(), b.to_vec::<i32>().unwrap());
    }
}

#[test]
fn half_precision_weights() {
    let e = device();
    for dtype in [DType::F16, DType::BF16] {
        let shapes = vec![vec![2, 33, 64], vec![64, 50], vec![50]];
        same(&format!("{dtype}"), &e, &shapes, |x| {
            // Rounded on both engines in the same way before the sum.
            let (a, b) = (x[0].cast(dtype)?, x[1].cast(dtype)?);
            a.cast(DType::F32)?.matmul(&b.cast(DType::F32)?)?.add(&x[2])
        });
    }
}

/// A sum over elements that are repeated: some of its loops change nothing in the address.
#[test]
fn sums_of_what_is_repeated() {
    let engine = device();
    let sizes = [1, 2, 3, 5, 16, 17, 33];
    let mut random = Random(19);
    for _ in 0..40 {
        let mut size = || sizes[random.below(sizes.len())];
        let full = [size(), size(), size()];
        let repeated = random.below(3);
        let mut small = full;
        small[repeated] = 1;
        let name = format!("{small:?} to {full:?}");
        same(&name, &engine, &[small.to_vec()], |x| {
            x[0].expand(&full)?.sum(&[], false)
        });
    }
}
