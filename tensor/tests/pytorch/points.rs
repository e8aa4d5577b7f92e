//! Points of the plane.

use tensor::{DType, Engine, Result, Tensor};

use super::{floats, support};

/// Values of PyTorch.
#[test]
fn angles_and_lengths_of_points() -> Result<()> {
    const PI: f64 = std::f64::consts::PI;
    const INF: f64 = f64::INFINITY;
    let y = [
        0.0, -0.0, 0.0, -0.0, 1.0, -1.0, 1.0, 2.0, INF, INF, -INF, 3.0, -3.0, 1e-300,
    ];
    let x = [
        0.0, 0.0, -0.0, -0.0, 0.0, -0.0, 1.0, -2.0, INF, -INF, 5.0, -INF, INF, -1.0,
    ];
    let (half, quarter, most) = (PI / 2.0, PI / 4.0, 3.0 * PI / 4.0);
    let angles = [
        0.0, -0.0, PI, -PI, half, -half, quarter, most, quarter, most, -half, PI, -0.0, PI,
    ];
    let root = 2f64.sqrt();
    let lengths = [
        0.0,
        0.0,
        0.0,
        0.0,
        1.0,
        1.0,
        root,
        2.0 * root,
        INF,
        INF,
        INF,
        INF,
        INF,
        1.0,
    ];
    for e in [Engine::reference(), support::engine()] {
        let (y, x) = (floats(&e, &y)?, floats(&e, &x)?);
        let found: Vec<f64> = y.atan2(&x)?.to_vec()?;
        let bits = |x: &f64| (x.abs() * 1e15).round().copysign(*x).to_bits();
        assert_eq!(
            found.iter().map(bits).collect::<Vec<_>>(),
            angles.iter().map(bits).collect::<Vec<_>>(),
            "{found:?}"
        );
        let found: Vec<f64> = y.hypot(&x)?.to_vec()?;
        for (found, want) in found.iter().zip(&lengths) {
            assert!(
                found == want || (found - want).abs() < 1e-15,
                "{found} {want}"
            );
        }
        // The gradients where they are numbers.
        let both = |t: &Tensor| -> Result<Vec<Vec<f64>>> {
            let slopes = tensor::gradients(&t.sum(&[], false)?, &[&y, &x])?;
            slopes.iter().map(Tensor::to_vec).collect()
        };
        let found = both(&y.atan2(&x)?)?;
        let near = |a: &[f64], b: &[f64]| {
            let close = a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-15);
            assert!(close, "{a:?} {b:?}");
        };
        near(&found[0][..8], &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, -0.25]);
        near(
            &found[1][..8],
            &[0.0, 0.0, 0.0, 0.0, -1.0, 1.0, -0.5, -0.25],
        );
        let found = both(&y.hypot(&x)?)?;
        let r = 0.5f64.sqrt();
        near(&found[0][..8], &[0.0, 0.0, 0.0, 0.0, 1.0, -1.0, r, r]);
        near(&found[1][..8], &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, r, -r]);
        assert!(floats(&e, &[f64::NAN])?.atan2(1.0)?.item::<f64>()?.is_nan());
        assert!(floats(&e, &[f64::NAN])?.hypot(1.0)?.item::<f64>()?.is_nan());
        assert_eq!(floats(&e, &[f64::NAN])?.hypot(-INF)?.item::<f64>()?, INF);
        assert_eq!(floats(&e, &[3e300])?.hypot(4e300)?.item::<f64>()?, 5e300);
        let small = Tensor::from_slice(&e, &[3e-40f32, 1.0], &[2])?;
        let found: Vec<f32> = small.atan2(&small.full_like(-1.0)?)?.to_vec()?;
        assert_eq!(found, [std::f32::consts::PI, 2.356_194_5]);
    }
    Ok(())
}

/// A gradient does not go over numbers in the size of the length times itself; it has one, too.
#[test]
fn slopes_of_lengths_of_any_size() -> Result<()> {
    for e in [Engine::reference(), support::engine()] {
        let one = |x: f32| Tensor::from_slice(&e, &[x], &[1]);
        let found = |a: f32, b: f32, loss: &dyn Fn(&Tensor) -> Result<Tensor>| {
            let (a, b) = (one(a)?, one(b)?);
            let slopes = tensor::gradients(&loss(&a.hypot(&b)?)?, &[&a, &b])?;
            let all: Result<Vec<f32>> = slopes.iter().map(Tensor::item).collect();
            all
        };
        let near = |found: Vec<f32>, want: [f32; 2]| {
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs();
            assert!(found.iter().zip(&want).all(close), "{found:?} {want:?}");
        };
        near(found(1e-23, 1e-23, &Tensor::square)?, [2e-23, 2e-23]);
        near(found(1e30, 0.0, &|y| y.mul(1e10))?, [1e10, 0.0]);
        near(found(-3e30, 4e30, &|y| y.mul(1e10))?, [-6e9, 8e9]);
        near(found(0.0, 0.0, &|y| y.mul(1e10))?, [0.0, 0.0]);
        let (a, b) = (floats(&e, &[3.0])?, floats(&e, &[4.0])?);
        let first = tensor::gradients(&a.hypot(&b)?, &[&a])?.remove(0);
        let second: Vec<f64> = tensor::gradients(&first, &[&a, &b])?
            .iter()
            .map(Tensor::item)
            .collect::<Result<_>>()?;
        assert!((second[0] - 0.128).abs() < 1e-15 && (second[1] + 0.096).abs() < 1e-15);
    }
    Ok(())
}

/// Integers beside `f64` keep their digits, on both sides.
#[test]
fn integers_meet_doubles_whole() -> Result<()> {
    for e in [Engine::reference(), support::engine()] {
        let whole = Tensor::from_slice(&e, &[(1i64 << 40) + 1], &[1])?;
        let one = floats(&e, &[0.0])?;
        let want = (1u64 << 40) as f64 + 1.0;
        for y in [whole.hypot(&one)?, one.hypot(&whole)?] {
            assert_eq!((y.dtype(), y.item::<f64>()?), (DType::F64, want));
        }
        let one = floats(&e, &[(1u64 << 40) as f64])?;
        let (more, less) = (whole.atan2(&one)?, one.atan2(&whole)?);
        let quarter = std::f64::consts::FRAC_PI_4;
        assert!(more.item::<f64>()? > quarter && less.item::<f64>()? < quarter);
        assert!(!whole.isclose(&one, 0.0, 0.5, false)?.item::<bool>()?);
        assert_eq!(whole.copysign(&one)?.item::<f64>()?, want);
        assert!(whole.logaddexp(&one)?.item::<f64>()? > want);
        // What a smaller float would round to the other one differs from it, on both sides.
        let odd = Tensor::from_slice(&e, &[2049i32], &[1])?;
        let half = Tensor::from_slice(&e, &[2048f32], &[1])?.cast(DType::F16)?;
        for near in [
            odd.isclose(&half, 0.0, 0.0, false)?,
            half.isclose(&odd, 0.0, 0.0, false)?,
        ] {
            assert!(!near.item::<bool>()?);
        }
    }
    Ok(())
}
