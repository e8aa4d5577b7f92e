//! Values of basic operations on the reference executor, against numbers known by hand.

use tensor::exec::Interpreter;
use tensor::schedule::Limits;
use tensor::{DType, Engine, Result, Tensor};

fn close(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{got:?} {want:?}");
    for (g, w) in got.iter().zip(want) {
        let same = g == w || g.is_nan() && w.is_nan();
        assert!(
            same || (g - w).abs() <= tolerance * (1.0 + w.abs()),
            "{got:?} is not {want:?}"
        );
    }
}

#[test]
fn arithmetic_broadcasts_and_promotes() -> Result<()> {
    let e = Engine::reference();
    let a = Tensor::arange(&e, 0, 6, 1, DType::I32)?.reshape(&[2, 3])?;
    let b = Tensor::from_slice(&e, &[10.0f32, 20.0], &[2, 1])?;
    let c = a.add(&b)?;
    assert_eq!(c.dtype(), DType::F32);
    assert_eq!(c.to_vec::<f32>()?, [10.0, 11.0, 12.0, 23.0, 24.0, 25.0]);
    assert_eq!(a.mul(2)?.dtype(), DType::I32);
    assert_eq!(a.mul(0.5)?.dtype(), DType::F32);
    assert_eq!(a.sum(&[0], false)?.to_vec::<i64>()?, [3, 5, 7]);
    assert_eq!(
        a.ge(3)?.to_vec::<bool>()?,
        [false, false, false, true, true, true]
    );
    assert_eq!(a.pow(3)?.to_vec::<i32>()?, [0, 1, 8, 27, 64, 125]);
    Ok(())
}

#[test]
fn elementary_functions() -> Result<()> {
    let e = Engine::reference();
    let points = [
        -20.0, -3.0, -1.0, -0.7, -0.1, 0.0, 0.2, 0.5, 1.0, 1.3, 4.0, 30.0,
    ];
    let x = Tensor::from_slice(&e, &points, &[points.len()])?;
    type Pair = (fn(&Tensor) -> Result<Tensor>, fn(f64) -> f64, f64);
    let table: &[Pair] = &[
        (Tensor::exp, f64::exp, 1e-12),
        (Tensor::expm1, f64::exp_m1, 1e-12),
        (Tensor::log, f64::ln, 1e-12),
        (Tensor::log1p, f64::ln_1p, 1e-12),
        (Tensor::log10, f64::log10, 1e-12),
        (Tensor::sin, f64::sin, 1e-12),
        (Tensor::cos, f64::cos, 1e-12),
        (Tensor::tan, f64::tan, 1e-12),
        (Tensor::asin, f64::asin, 1e-12),
        (Tensor::acos, f64::acos, 1e-12),
        (Tensor::atan, f64::atan, 1e-12),
        (Tensor::sinh, f64::sinh, 1e-12),
        (Tensor::cosh, f64::cosh, 1e-12),
        (Tensor::tanh, f64::tanh, 1e-12),
        (Tensor::asinh, f64::asinh, 1e-12),
        (Tensor::acosh, f64::acosh, 1e-12),
        (Tensor::atanh, f64::atanh, 1e-12),
        (Tensor::sqrt, f64::sqrt, 0.0),
        (Tensor::floor, f64::floor, 0.0),
        (Tensor::ceil, f64::ceil, 0.0),
        (Tensor::trunc, f64::trunc, 0.0),
        (Tensor::round, f64::round_ties_even, 0.0),
    ];
    for (i, (ours, std, tolerance)) in table.iter().enumerate() {
        let want: Vec<f64> = points.iter().map(|&x| std(x)).collect();
        println!("function {i}");
        close(&ours(&x)?.to_vec::<f64>()?, &want, *tolerance);
    }
    let erf = Tensor::from_slice(&e, &[-1.0, 0.0, 0.5, 2.0], &[4])?.erf()?;
    close(
        &erf.to_vec::<f64>()?,
        &[-0.842_700_792_9, 0.0, 0.520_499_877_8, 0.995_322_265_0],
        2e-7,
    );
    Ok(())
}

#[test]
fn movement_and_products() -> Result<()> {
    let e = Engine::reference();
    let a = Tensor::arange(&e, 0, 6, 1, DType::F32)?.reshape(&[2, 3])?;
    assert_eq!(a.t()?.to_vec::<f32>()?, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(
        a.flip(&[1])?.to_vec::<f32>()?,
        [2.0, 1.0, 0.0, 5.0, 4.0, 3.0]
    );
    let product = a.matmul(&a.t()?)?;
    assert_eq!(product.to_vec::<f32>()?, [5.0, 14.0, 14.0, 50.0]);
    let sum = Tensor::einsum("ij,kj->ik", &[&a, &a])?;
    assert_eq!(sum.to_vec::<f32>()?, [5.0, 14.0, 14.0, 50.0]);
    let w = Tensor::arange(&e, 0, 7, 1, DType::I32)?.windows(0, 3, 2, 1)?;
    assert_eq!(w.shape(), [3, 3]);
    assert_eq!(w.to_vec::<i32>()?, [0, 1, 2, 2, 3, 4, 4, 5, 6]);
    let c = Tensor::cat(&[&a, &a.mul(10)?], 0)?;
    assert_eq!(c.shape(), [4, 3]);
    assert_eq!(c.to_vec::<f32>()?[6..9], [0.0, 10.0, 20.0]);
    assert_eq!(
        a.show()?,
        "[[0.0000, 1.0000, 2.0000],\n [3.0000, 4.0000, 5.0000]]"
    );
    Ok(())
}

#[test]
fn a_source_is_read_when_it_is_used() {
    use std::sync::Arc;

    #[derive(Debug)]
    struct Bytes(Vec<u8>);
    impl tensor::Source for Bytes {
        fn bytes(&self) -> usize {
            self.0.len()
        }
        fn read_at(&self, offset: usize, into: &mut [u8]) -> std::io::Result<()> {
            let part = self.0.get(offset..offset + into.len());
            into.copy_from_slice(part.ok_or(std::io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
    }

    let source = Arc::new(Bytes(
        [1f32, 2.0, 3.0]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
    ));
    for e in [
        Engine::reference(),
        Interpreter::engine(Limits::default(), false),
    ] {
        let x = Tensor::from_source(&e, source.clone(), &[3], DType::F32).unwrap();
        let y = x.add(1.0).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, 3.0, 4.0]);
        assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
        assert!(Tensor::from_source(&e, source.clone(), &[4], DType::F32).is_err());
    }
}
