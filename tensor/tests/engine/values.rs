//! Values of operations without a gradient test, of random numbers, and the texts of errors.

use tensor::element::{F8E4M3, F8E5M2};
use tensor::nn::{Adam, Lamb, Optimizer, Sgd};
use tensor::ops::attention::Attention;
use tensor::ops::conv::ConvParams;
use tensor::ops::image::Interpolation;
use tensor::ops::loss::{Classes, Reduction};
use tensor::ops::movement::{PadMode, Slice};
use tensor::ops::random::{threefry, threefry_tensors};
use tensor::{DType, Engine, Parameter, Result, Rng, Tensor};

fn ints(e: &Engine, data: &[i32]) -> Result<Tensor> {
    Tensor::from_slice(e, data, &[data.len()])
}

fn floats(e: &Engine, data: &[f64]) -> Result<Tensor> {
    Tensor::from_slice(e, data, &[data.len()])
}

#[test]
fn construction() -> Result<()> {
    let e = Engine::reference();
    assert_eq!(
        Tensor::from_bytes(&e, vec![1, 0, 2, 0], &[2], DType::I16)?.to_vec::<i16>()?,
        [1, 2]
    );
    assert_eq!(
        Tensor::scalar(&e, 2.5, DType::F16)?
            .item::<half::f16>()?
            .to_f32(),
        2.5
    );
    assert_eq!(
        Tensor::full(&e, &[2], 255, DType::U8)?.to_vec::<u8>()?,
        [255, 255]
    );
    assert_eq!(
        Tensor::full_bits(&e, &[1], 7, DType::I64)?.to_vec::<i64>()?,
        [7]
    );
    assert_eq!(
        Tensor::zeros(&e, &[2], DType::Bool)?.to_vec::<bool>()?,
        [false; 2]
    );
    assert_eq!(
        Tensor::ones(&e, &[2], DType::BF16)?.to_vec::<half::bf16>()?,
        [half::bf16::ONE; 2]
    );
    assert_eq!(ints(&e, &[1, 2])?.full_like(5)?.to_vec::<i32>()?, [5, 5]);
    assert_eq!(
        Tensor::linspace(&e, -1.0, 1.0, 5, DType::F32)?.to_vec::<f32>()?,
        [-1.0, -0.5, 0.0, 0.5, 1.0]
    );
    assert_eq!(
        Tensor::eye(&e, 2, 3, DType::U8)?.to_vec::<u8>()?,
        [1, 0, 0, 0, 1, 0]
    );
    assert_eq!(
        Tensor::arange(&e, 5, 0, -2, DType::I64)?.to_vec::<i64>()?,
        [5, 3, 1]
    );
    assert_eq!(
        Tensor::arange(&e, 0.0, 1.0, 0.25, DType::F32)?.to_vec::<f32>()?,
        [0.0, 0.25, 0.5, 0.75]
    );
    assert_eq!(Tensor::arange(&e, 3, 1, 1, DType::I64)?.shape(), [0]);
    assert_eq!(
        Tensor::eye(&e, 2, 2, DType::I8)?
            .positions(0)?
            .to_vec::<i32>()?,
        [0, 0, 1, 1]
    );
    let small = [F8E4M3::from_f64(0.3), F8E4M3::from_f64(448.0)];
    assert_eq!(
        Tensor::from_slice(&e, &small, &[2])?
            .cast(DType::F64)?
            .to_vec::<f64>()?,
        [0.3125, 448.0]
    );
    let small = Tensor::scalar(&e, 3.3, DType::F8E5M2)?.item::<F8E5M2>()?;
    assert_eq!(small.to_f64(), 3.5);
    assert_eq!(
        Tensor::scalar(&e, 1.0, DType::F32)?
            .bitcast(DType::U32)?
            .item::<u32>()?,
        0x3f80_0000
    );
    Ok(())
}

#[test]
fn integers_and_bits() -> Result<()> {
    let e = Engine::reference();
    let a = ints(&e, &[-7, 7, 5, i32::MAX])?;
    let b = ints(&e, &[2, -2, 0, -1])?;
    assert_eq!(a.floor_div(&b)?.to_vec::<i32>()?, [-4, -4, 0, -i32::MAX]);
    assert_eq!(a.trunc_div(&b)?.to_vec::<i32>()?, [-3, -3, 0, -i32::MAX]);
    assert_eq!(a.modulo(&b)?.to_vec::<i32>()?, [1, -1, 0, 0]);
    assert_eq!(a.add(1)?.to_vec::<i32>()?, [-6, 8, 6, i32::MIN]);
    assert_eq!(a.bitand(6)?.to_vec::<i32>()?, [0, 6, 4, i32::MAX & 6]);
    assert_eq!(a.bitor(8)?.to_vec::<i32>()?, [-7 | 8, 15, 13, i32::MAX]);
    assert_eq!(a.bitxor(1)?.to_vec::<i32>()?, [-7 ^ 1, 6, 4, i32::MAX - 1]);
    assert_eq!(a.not()?.to_vec::<i32>()?, [6, -8, -6, i32::MIN]);
    assert_eq!(a.shl(1)?.to_vec::<i32>()?, [-14, 14, 10, -2]);
    assert_eq!(a.shr(40)?.to_vec::<i32>()?, [-1, 0, 0, 0]);
    assert_eq!(
        ints(&e, &[3, -2])?
            .pow(ints(&e, &[4, 3])?)?
            .to_vec::<i32>()?,
        [81, -8]
    );
    assert_eq!(a.lt(&b)?.to_vec::<bool>()?, [true, false, false, false]);
    assert_eq!(a.le(7)?.to_vec::<bool>()?, [true, true, true, false]);
    assert_eq!(a.eq(5)?.to_vec::<bool>()?, [false, false, true, false]);
    assert_eq!(a.ne(5)?.to_vec::<bool>()?, [true, true, false, true]);
    let p = Tensor::from_slice(&e, &[true, true, false, false], &[4])?;
    let q = Tensor::from_slice(&e, &[true, false, true, false], &[4])?;
    assert_eq!(
        p.logical_and(&q)?.to_vec::<bool>()?,
        [true, false, false, false]
    );
    assert_eq!(
        p.logical_or(&q)?.to_vec::<bool>()?,
        [true, true, true, false]
    );
    assert_eq!(
        p.logical_xor(&q)?.to_vec::<bool>()?,
        [false, true, true, false]
    );
    assert_eq!(a.logical_not()?.to_vec::<bool>()?, [false; 4]);
    assert_eq!(p.select(&a, &b)?.to_vec::<i32>()?, [-7, 7, 0, -1]);
    assert_eq!(p.sum(&[], false)?.item::<i64>()?, 2);
    assert!(!p.all(&[], false)?.item::<bool>()?);
    assert!(p.any(&[], false)?.item::<bool>()?);
    assert_eq!(
        a.unary(codegen::ir::Unary::Neg)?.to_vec::<i32>()?,
        a.neg()?.to_vec::<i32>()?
    );
    let product = a.binary(codegen::ir::Binary::Mul, &b)?;
    assert_eq!(product.to_vec::<i32>()?, [-14, -14, 0, -i32::MAX]);
    let bytes = Tensor::from_slice(&e, &[200u8, 100], &[2])?;
    assert_eq!(bytes.sum(&[], false)?.item::<i64>()?, 300);
    Ok(())
}

#[test]
fn special_floats() -> Result<()> {
    let e = Engine::reference();
    let x = floats(&e, &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0])?;
    assert_eq!(x.isnan()?.to_vec::<bool>()?, [true, false, false, false]);
    assert_eq!(x.isinf()?.to_vec::<bool>()?, [false, true, true, false]);
    assert_eq!(x.isfinite()?.to_vec::<bool>()?, [false, false, false, true]);
    assert_eq!(x.isclose(&x, 0.0, 0.0, true)?.to_vec::<bool>()?, [true; 4]);
    assert!(!x.allclose(&x, 0.0, 0.0)?.item::<bool>()?);
    assert_eq!(x.ge(1)?.to_vec::<bool>()?, [false, true, false, true]);
    assert_eq!(
        floats(&e, &[-1e4, 1e4])?.sigmoid()?.to_vec::<f64>()?,
        [0.0, 1.0]
    );
    assert_eq!(
        floats(&e, &[f64::NEG_INFINITY; 2])?
            .logsumexp(&[], false)?
            .item::<f64>()?,
        f64::NEG_INFINITY
    );
    assert_eq!(floats(&e, &[1.0])?.copysign(-0.0)?.item::<f64>()?, -1.0);
    assert!(x.max(&[], false)?.item::<f64>()?.is_nan());
    let nothing = Tensor::zeros(&e, &[0, 2], DType::F32)?;
    assert_eq!(nothing.sum(&[0], false)?.to_vec::<f32>()?, [0.0, 0.0]);
    assert_eq!(
        nothing.max(&[0], false)?.to_vec::<f32>()?,
        [f32::NEG_INFINITY; 2]
    );
    assert!(nothing.mean(&[], false)?.item::<f32>()?.is_nan());
    Ok(())
}

#[test]
fn positions_and_order() -> Result<()> {
    let e = Engine::reference();
    let x = floats(&e, &[3.0, 1.0, f64::NAN, 1.0, 2.0])?;
    assert_eq!(x.argsort(0, false)?.to_vec::<i32>()?, [1, 3, 4, 0, 2]);
    assert_eq!(x.argsort(0, true)?.to_vec::<i32>()?, [2, 0, 4, 1, 3]);
    assert_eq!(x.ranks(0, false)?.to_vec::<i32>()?, [3, 0, 4, 1, 2]);
    assert_eq!(x.argmax(0, false)?.item::<i32>()?, 2);
    let y = floats(&e, &[3.0, 1.0, 3.0, 1.0])?;
    assert_eq!(y.argmax(0, true)?.to_vec::<i32>()?, [0]);
    assert_eq!(y.argmin(0, false)?.item::<i32>()?, 1);
    assert_eq!(y.hardmax(0)?.to_vec::<f64>()?, [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(y.sub(1.0)?.count_nonzero(&[], false)?.item::<i64>()?, 2);
    let hot = ints(&e, &[2, -1, 0])?.one_hot(3, DType::U8)?;
    assert_eq!(hot.to_vec::<u8>()?, [0, 0, 1, 0, 0, 0, 1, 0, 0]);
    let edges = floats(&e, &[1.0, 2.0, 2.0, 4.0])?;
    let at = floats(&e, &[0.0, 2.0, 5.0])?;
    assert_eq!(edges.searchsorted(&at, false)?.to_vec::<i32>()?, [0, 1, 4]);
    assert_eq!(edges.searchsorted(&at, true)?.to_vec::<i32>()?, [0, 3, 4]);
    let (values, from) = y.topk(2, 0, false)?;
    assert_eq!(values.to_vec::<f64>()?, [1.0, 1.0]);
    assert_eq!(from.to_vec::<i32>()?, [1, 3]);
    // A long axis is looked through in parts; equal elements keep their order.
    let long = Tensor::iota(&e, 2500, DType::I32)?.modulo(1000)?;
    let (values, from) = long.topk(3, 0, true)?;
    assert_eq!(values.to_vec::<i32>()?, [999, 999, 998]);
    assert_eq!(from.to_vec::<i32>()?, [999, 1999, 998]);
    let z = Tensor::from_slice(&e, &[0.0, 2.0, 1.0, 3.0], &[2, 2])?;
    assert_eq!(z.det()?.item::<f64>()?, -2.0);
    Ok(())
}

#[test]
fn determinants_are_sums_over_permutations() -> Result<()> {
    // Columns in every order, with the sign of the order.
    fn sum(rows: &[Vec<f64>], taken: &mut Vec<usize>) -> f64 {
        let n = rows.len();
        if taken.len() == n {
            return 1.0;
        }
        let free: Vec<usize> = (0..n).filter(|c| !taken.contains(c)).collect();
        let parts = free.iter().enumerate().map(|(passed, &column)| {
            let sign = if passed % 2 == 0 { 1.0 } else { -1.0 };
            taken.push(column);
            let below = sum(rows, taken);
            taken.pop();
            sign * rows[taken.len()][column] * below
        });
        parts.sum()
    }
    let e = Engine::reference();
    for n in 1..=5usize {
        // Zeros where a pivot would be, and in the second matrix two equal rows.
        let mut data: Vec<f64> = (0..3 * n * n)
            .map(|i| ((i * 37) % 11) as f64 - 4.0)
            .collect();
        data[0] = 0.0;
        if n > 1 {
            data.copy_within(n * n..n * n + n, n * n + n);
        }
        let x = Tensor::from_slice(&e, &data, &[3, n, n])?;
        let found = x.det()?.to_vec::<f64>()?;
        for (matrix, det) in data.chunks_exact(n * n).zip(found) {
            let rows: Vec<Vec<f64>> = matrix.chunks_exact(n).map(<[f64]>::to_vec).collect();
            let want = sum(&rows, &mut Vec::new());
            assert!(
                (det - want).abs() < 1e-9 * want.abs().max(1.0),
                "{n}: {det}, {want}"
            );
        }
    }
    Ok(())
}

#[test]
fn slices_and_pads() -> Result<()> {
    let e = Engine::reference();
    let x = Tensor::iota(&e, 6, DType::I32)?;
    let cut = |start, stop, step| x.slice(&[Slice { start, stop, step }])?.to_vec::<i32>();
    assert_eq!(cut(Some(1), Some(5), 2)?, [1, 3]);
    assert_eq!(cut(None, None, -1)?, [5, 4, 3, 2, 1, 0]);
    assert_eq!(cut(Some(-2), None, -3)?, [4, 1]);
    assert_eq!(cut(Some(4), Some(1), -2)?, [4, 2]);
    assert_eq!(cut(Some(9), None, 1)?, [] as [i32; 0]);
    assert_eq!(cut(Some(-100), Some(100), 4)?, [0, 4]);
    assert_eq!(x.slice(&[Slice::range(2, 4)])?.to_vec::<i32>()?, [2, 3]);
    let pad = |mode| x.narrow(0, 0, 3)?.pad(&[(2, 2)], mode)?.to_vec::<i32>();
    assert_eq!(pad(PadMode::Constant(9.into()))?, [9, 9, 0, 1, 2, 9, 9]);
    assert_eq!(pad(PadMode::Reflect)?, [2, 1, 0, 1, 2, 1, 0]);
    assert_eq!(pad(PadMode::Replicate)?, [0, 0, 0, 1, 2, 2, 2]);
    assert_eq!(pad(PadMode::Circular)?, [1, 2, 0, 1, 2, 0, 1]);
    assert_eq!(x.roll(2, 0)?.to_vec::<i32>()?, [4, 5, 0, 1, 2, 3]);
    let m = x.reshape(&[2, 3])?;
    assert_eq!(m.diagonal(0, 1)?.to_vec::<i32>()?, [0, 4]);
    assert_eq!(
        m.narrow(0, 0, 1)?.squeeze(&[])?.diag()?.to_vec::<i32>()?,
        [0, 0, 0, 0, 1, 0, 0, 0, 2]
    );
    assert_eq!(m.tril(0)?.to_vec::<i32>()?, [0, 0, 0, 3, 4, 0]);
    assert_eq!(m.triu(1)?.to_vec::<i32>()?, [0, 1, 2, 0, 0, 5]);
    Ok(())
}

#[test]
fn convolution_and_pooling() -> Result<()> {
    let e = Engine::reference();
    let x = Tensor::arange(&e, 0, 16, 1, DType::F32)?.reshape(&[1, 1, 4, 4])?;
    let w = Tensor::ones(&e, &[1, 1, 3, 3], DType::F32)?;
    let y = x.conv(&w, None, &ConvParams::default(), 1)?;
    assert_eq!(y.to_vec::<f32>()?, [45.0, 54.0, 81.0, 90.0]);
    let y = x.conv(&w, None, &ConvParams::strided(3, 2).padded(1, 2), 1)?;
    assert_eq!(y.to_vec::<f32>()?, [10.0, 18.0, 42.0, 50.0]);
    let small = Tensor::from_slice(&e, &[1.0f32, 2.0, 3.0], &[1, 1, 3])?;
    let k = Tensor::from_slice(&e, &[1.0f32, 10.0], &[1, 1, 2])?;
    let y = small.conv_transpose(&k, None, &ConvParams::strided(2, 1), &[], 1)?;
    assert_eq!(y.to_vec::<f32>()?, [1.0, 10.0, 2.0, 20.0, 3.0, 30.0]);
    let y = x.max_pool(&[3, 3], &ConvParams::strided(2, 2), true)?;
    assert_eq!(y.to_vec::<f32>()?, [10.0, 11.0, 14.0, 15.0]);
    let (_, at) = x.max_pool_indices(&[2, 2], &ConvParams::default(), false)?;
    assert_eq!(at.to_vec::<i32>()?, [5, 7, 13, 15]);
    let padded = ConvParams::strided(2, 2).padded(1, 2);
    let y = x.avg_pool(&[2, 2], &padded, false, false)?;
    assert_eq!(
        y.to_vec::<f32>()?,
        [0.0, 1.5, 3.0, 6.0, 7.5, 9.0, 12.0, 13.5, 15.0]
    );
    let y = x.avg_pool(&[2, 2], &padded, false, true)?;
    assert_eq!(y.to_vec::<f32>()?[0..3], [0.0, 0.75, 0.75]);
    let y = x.narrow(2, 0, 1)?.interpolate(
        &[1, 2],
        Interpolation::Linear {
            align_corners: true,
        },
    )?;
    assert_eq!(y.to_vec::<f32>()?, [0.0, 3.0]);
    let y = small.interpolate(&[6], Interpolation::NearestExact)?;
    assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
    let q = Tensor::ones(&e, &[1, 2, 4], DType::F16)?;
    let v = Tensor::from_slice(&e, &[1.0f32, 3.0], &[1, 2, 1])?.cast(DType::F16)?;
    let causal = Attention {
        causal: true,
        ..Attention::default()
    };
    let y = q.attention(&q, &v, &causal)?;
    assert_eq!(y.to_f64_vec()?, [1.0, 2.0]);
    let p = Tensor::from_slice(&e, &[0.0f32, 1.0], &[2])?;
    let loss: f32 = p.binary_cross_entropy(&p, Reduction::Sum)?.item()?;
    assert_eq!(loss, 0.0);
    Ok(())
}

#[test]
fn threefry_known_answers() -> Result<()> {
    // Random123, kat_vectors, threefry2x32 with 20 rounds.
    let pi = (
        [0x1319_8a2e, 0x0370_7344],
        [0x243f_6a88, 0x85a3_08d3],
        [0xc492_3a9c, 0x483d_f7a0],
    );
    let ones = ([!0u32; 2], [!0u32; 2], [0x1cb9_96fc, 0xbb00_2be7]);
    let zeros = ([0; 2], [0; 2], [0x6b20_0159, 0x99ba_4efe]);
    let e = Engine::reference();
    for (key, counter, want) in [zeros, ones, pi] {
        assert_eq!(threefry(key, counter), want);
        let word = |x: u32| Tensor::from_slice(&e, &[x], &[1]);
        let (k, c) = (
            [word(key[0])?, word(key[1])?],
            [word(counter[0])?, word(counter[1])?],
        );
        let [a, b] = threefry_tensors([&k[0], &k[1]], [&c[0], &c[1]])?;
        assert_eq!([a.item::<u32>()?, b.item::<u32>()?], want);
    }
    Ok(())
}

#[test]
fn random_streams() -> Result<()> {
    let e = Engine::reference();
    // The words of a draw are blocks (i, i + half), halves one after the other.
    let bits = Rng::new(&e, 42).bits(&[5])?.to_vec::<u32>()?;
    let blocks: Vec<[u32; 2]> = (0..3).map(|i| threefry([0, 42], [i, i + 3])).collect();
    assert_eq!(
        bits,
        [
            blocks[0][0],
            blocks[1][0],
            blocks[2][0],
            blocks[0][1],
            blocks[1][1]
        ]
    );
    // Clones share the counter; forks have one of their own.
    let mut rng = Rng::new(&e, 7);
    let first = rng.clone().bits(&[3])?.to_vec::<u32>()?;
    assert_ne!(first, rng.bits(&[3])?.to_vec::<u32>()?);
    assert_eq!(first, Rng::new(&e, 7).bits(&[3])?.to_vec::<u32>()?);
    assert_ne!(
        rng.fork()?.bits(&[2])?.to_vec::<u32>()?,
        rng.bits(&[2])?.to_vec::<u32>()?
    );
    let mut rng = Rng::new(&e, 1);
    for dtype in [
        DType::F8E5M2,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ] {
        let x = rng.rand(&[2000], dtype)?.to_f64_vec()?;
        assert!(x.iter().all(|x| (0.0..1.0).contains(x)), "{dtype}");
        let mean = x.iter().sum::<f64>() / 2000.0;
        assert!((mean - 0.5).abs() < 0.1, "{dtype} {mean}");
    }
    let x = rng.randn(&[4000], DType::F32)?;
    assert!(x.mean(&[], false)?.item::<f32>()?.abs() < 0.06);
    assert!((x.std(&[], 1.0, false)?.item::<f32>()? - 1.0).abs() < 0.05);
    let x = rng.normal(&[1000], 5.0, 0.1, DType::F64)?;
    assert!((x.mean(&[], false)?.item::<f64>()? - 5.0).abs() < 0.02);
    let x = rng
        .uniform(&[1000], -3.0, -1.0, DType::F32)?
        .to_vec::<f32>()?;
    assert!(x.iter().all(|x| (-3.0..-1.0).contains(x)));
    let x = rng.randint(&[1000], -2, 3, DType::I8)?.to_vec::<i8>()?;
    assert!((-2..3).all(|n| x.contains(&n)) && x.iter().all(|n| (-2..3).contains(n)));
    let mut order = rng.randperm(50)?.to_vec::<i32>()?;
    assert_ne!(order, (0..50).collect::<Vec<_>>());
    order.sort_unstable();
    assert_eq!(order, (0..50).collect::<Vec<_>>());
    let p = floats(&e, &[0.0, 1.0, 0.5])?.expand(&[400, 3])?;
    let hits = rng.bernoulli(&p)?.sum(&[0], false)?.to_vec::<f64>()?;
    assert!(hits[0] == 0.0 && hits[1] == 400.0 && (130.0..270.0).contains(&hits[2]));
    let weights = floats(&e, &[0.0, 3.0, 1.0])?;
    let drawn = rng.multinomial(&weights, 800, true)?.to_vec::<i32>()?;
    let ones = drawn.iter().filter(|&&i| i == 1).count();
    assert!(!drawn.contains(&0) && (520..680).contains(&ones), "{ones}");
    let mut drawn = rng.multinomial(&weights, 2, false)?.to_vec::<i32>()?;
    drawn.sort_unstable();
    assert_eq!(drawn, [1, 2]);
    Ok(())
}

#[test]
fn texts_of_errors() -> Result<()> {
    let e = Engine::reference();
    let a = Tensor::zeros(&e, &[2, 3], DType::F32)?;
    let b = Tensor::zeros(&e, &[4], DType::F32)?;
    let far = Tensor::zeros(&Engine::reference(), &[4], DType::F32)?;
    let text = |r: Result<Tensor>| r.err().map(|e| e.to_string()).unwrap_or_default();
    let table = [
        (
            text(a.add(&b)),
            "add: shapes [[2, 3], [4]] do not broadcast: sizes 3 and 4 differ; aligned from the \
             last axis, sizes must be equal or 1",
        ),
        (
            text(a.reshape(&[5])),
            "reshape: [2, 3] has 6 elements, [5] has 5",
        ),
        (
            text(a.matmul(&b)),
            "matmul: [2, 3] by [4]: inner sizes 3 and 4 differ",
        ),
        (
            text(a.sum(&[2], false)),
            "sum: axis 2 of a tensor with 2 axes; use -2..2",
        ),
        (
            text(a.sum(&[1, -1], false)),
            "sum: axes [1, -1] name one axis twice",
        ),
        (
            text(a.shl(1)),
            "shl: expected integers, found f32; cast both",
        ),
        (
            text(a.not()),
            "not: expected integers or bool, found f32; cast it",
        ),
        (
            text(b.add(&far)),
            "add: tensors are on different engines, REFERENCE and REFERENCE; move one of them with `to`",
        ),
        (
            text(Tensor::from_slice(&e, &[1u8], &[2])),
            "from_slice: shape [2] has 2 elements, found 1",
        ),
        (
            text(a.expand(&[usize::MAX, 2, 3])),
            "expand: shape [18446744073709551615, 2, 3] of f32 exceeds the address \
             space",
        ),
        (
            text(b.windows(0, 5, 1, 1)),
            "windows: a window of 5 elements with dilation 1 is longer than axis 0 of [4]; pad the axis",
        ),
        (
            text(a.conv(&b, None, &ConvParams::default(), 1)),
            "conv: input [2, 3], weight [4], 1 groups: expected [n, c_in, s..] and \
             [c_out, c_in / groups, k..] with groups dividing c_out",
        ),
        (
            text(Tensor::einsum("ij,jk->il", &[&a, &a.t()?])),
            "einsum: `ij,jk->il` of [[2, 3], [3, 2]]: the result names an axis twice, or an \
             unknown one",
        ),
        (
            text(tensor::gradients(&a, &[&a]).map(|mut g| g.remove(0))),
            "gradients: expected exactly one element, found shape [2, 3]; reduce it, or pass a seed to \
             gradients_from",
        ),
        (
            text(a.gather(0, &b)),
            "gather: the index is f32, not an integer",
        ),
    ];
    for (got, want) in table {
        assert_eq!(got, want);
    }
    let wrong = a.to_vec::<i32>().err().map(|e| e.to_string());
    assert_eq!(
        wrong.as_deref(),
        Some("to_vec: the tensor is f32, but i32 was requested; cast it first")
    );
    Ok(())
}

#[test]
fn options_that_make_no_sense_are_refused() -> Result<()> {
    let e = Engine::reference();
    let x = floats(&e, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?.reshape(&[2, 3])?;
    let says = |done: Result<Tensor>, what: &str| {
        let error = done.unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    for (along, position, what) in [
        (0, 2, "position 2 of axis 0, which has 2; use -2..2"),
        (1, -4, "position -4 of axis 1, which has 3; use -3..3"),
        (-1, isize::MIN, "of axis 1, which has 3"),
        (2, 0, "axis 2 of a tensor with 2 axes"),
    ] {
        says(x.index(along, position), what);
    }
    assert_eq!(x.index(1, -3)?.to_vec::<f64>()?, [1.0, 4.0]);
    let classes = ints(&e, &[0, 2])?;
    for smoothing in [1.5, -0.1, f64::NAN] {
        let options = Classes {
            smoothing,
            ..Classes::default()
        };
        says(x.cross_entropy(&classes, &options), "0 to 1");
        says(x.cross_entropy(&x, &options), "0 to 1");
        says(x.nll_loss(&classes, &options), "0 to 1");
    }
    let heads = Tensor::ones(&e, &[1, 2, 2], DType::F32)?;
    let options = Attention {
        mask: Some(ints(&e, &[1, 0])?),
        ..Attention::default()
    };
    says(
        heads.attention(&heads, &heads, &options),
        "found i32; convert zeros and ones",
    );
    // A negative target has no logarithm; PyTorch gives NaN, too.
    let loss = x.kl_div(&x.neg()?, Reduction::Mean)?;
    assert!(loss.item::<f64>()?.is_nan());
    let parameters = || vec![Parameter::new(x.clone())];
    for (rate, betas, what) in [
        (-0.1, (0.9, 0.999), "rate is -0.1"),
        (f64::NAN, (0.9, 0.999), "rate is NaN"),
        (0.1, (1.0, 0.9), "betas (1.0, 0.9)"),
        (0.1, (0.9, -0.5), "betas (0.9, -0.5)"),
    ] {
        let error = Adam::new(parameters(), rate, betas, 1e-8, 0.0).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
    for (momentum, decay, what) in [
        (-1.0, 0.0, "Sgd: momentum is -1: expected 0 or more"),
        (f64::NAN, 0.0, "momentum is NaN"),
        (0.9, -0.1, "decay is -0.1"),
    ] {
        let error = Sgd::new(parameters(), 0.1, momentum, false, decay).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
    let error = Lamb::new(parameters(), 0.1, (0.9, 0.999), -1e-8, 0.0).unwrap_err();
    assert!(error.to_string().contains("Lamb: eps is -"), "{error}");
    let error = Sgd::plain(parameters(), 0.1)?
        .set_rate(f64::NAN)
        .unwrap_err();
    assert!(error.to_string().contains("rate is NaN"), "{error}");
    let none = Tensor::zeros(&e, &[0, 2], DType::F32)?;
    says(none.index(0, 0), "axis 0 has no elements");
    Ok(())
}

#[test]
fn chances_that_are_none_are_refused() -> Result<()> {
    let e = Engine::reference();
    let mut rng = Rng::new(&e, 7);
    for (p, what) in [
        (&[0.5, -0.1][..], "element 1 is -0.1"),
        (&[0.5, 0.5, 1.5], "element 2 is 1.5"),
        (&[f64::NAN], "element 0 is NaN"),
    ] {
        let error = rng.bernoulli(&floats(&e, p)?).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("0..=1"), "{error}");
    }
    let constant = Tensor::full(&e, &[3, 4], 1.25, DType::F32)?;
    let error = rng.bernoulli(&constant).unwrap_err().to_string();
    assert!(error.contains("element 0 is 1.25"), "{error}");
    for (weights, samples, replacement, what) in [
        (&[1.0, -2.0][..], 1, true, "weight 1 is -2"),
        (&[f64::NAN, 1.0], 1, false, "weight 0 is NaN"),
        (&[1.0, f64::INFINITY], 1, true, "weight 1 is inf"),
        (&[0.0, 0.0], 1, true, "row 0 has 0 weights above 0"),
        (&[0.0, 1.0, 2.0], 3, false, "row 0 has 2 weights above 0"),
    ] {
        let drawn = rng.multinomial(&floats(&e, weights)?, samples, replacement);
        let error = drawn.unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    let rows = floats(&e, &[1.0, 0.0, 0.0, 0.0])?.reshape(&[2, 2])?;
    let error = rng.multinomial(&rows, 1, true).unwrap_err().to_string();
    assert!(error.contains("row 1"), "{error}");
    // The host does not look at what has to be computed: wrong ones are never drawn.
    let wrong = floats(&e, &[-3.0, 1.0, f64::NAN])?.mul(2.0)?;
    let drawn = rng.multinomial(&wrong, 100, true)?.to_vec::<i32>()?;
    assert_eq!(drawn, [1; 100]);
    assert_eq!(rng.multinomial(&wrong, 1, false)?.to_vec::<i32>()?, [1]);
    Ok(())
}

#[test]
fn a_generator_goes_on_from_its_state() -> Result<()> {
    let e = Engine::reference();
    let mut rng = Rng::new(&e, 0x1234_5678_9abc);
    rng.rand(&[7], DType::F32)?;
    let state = rng.state();
    let draw = |rng: &mut Rng| rng.bits(&[5])?.to_vec::<u32>();
    let next = [draw(&mut rng)?, draw(&mut rng)?];
    let mut other = Rng::new(&e, 1);
    let mut clone = other.clone();
    other.set_state(state)?;
    assert_eq!([draw(&mut clone)?, draw(&mut other)?], next);
    // Behind 2^32 words, too.
    let [a, b, ..] = state;
    rng.set_state([a, b, 9, 3])?;
    assert_eq!(rng.state(), [a, b, 9, 3]);
    draw(&mut rng)?;
    assert_eq!(rng.state(), [a, b, 14, 3]);
    Ok(())
}
