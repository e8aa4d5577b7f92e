//! Medians, and reductions that leave NaN out.

use tensor::{DType, Engine, Result, Tensor};

use super::{floats, support};

/// Values of PyTorch.
#[test]
fn medians_and_what_is_not_nan() -> Result<()> {
    let nan = f64::NAN;
    for e in [Engine::reference(), support::engine()] {
        let x = [3.0, 1.0, 2.0, 1.0, nan, 0.0, nan, 5.0, 4.0, 4.0, 1.0, 2.0];
        let x = floats(&e, &x)?.reshape(&[3, 4])?;
        let (value, place) = x.median(1, false)?;
        assert_eq!(place.to_vec::<i32>()?, [3, 0, 3]);
        let value: Vec<f64> = value.to_vec()?;
        assert!(value[0] == 1.0 && value[1].is_nan() && value[2] == 2.0);
        assert_eq!(x.median(-1, true)?.1.shape(), [3, 1]);
        let (value, place) = floats(&e, &[5.0, 1.0, 3.0])?.median(0, false)?;
        assert_eq!((value.item::<f64>()?, place.item::<i32>()?), (3.0, 2));
        let whole = Tensor::from_slice(&e, &[5i32, -1, 3, 2], &[4])?;
        assert_eq!(whole.median(0, false)?.0.item::<i32>()?, 2);
        assert!(
            Tensor::zeros(&e, &[2, 0], DType::F32)?
                .median(1, false)
                .is_err()
        );

        let x = floats(&e, &[1.0, nan, 3.0, nan, nan, nan])?.reshape(&[2, 3])?;
        assert_eq!(x.nansum(&[1], false)?.to_vec::<f64>()?, [4.0, 0.0]);
        let mean: Vec<f64> = x.nanmean(&[1], false)?.to_vec()?;
        assert!(mean[0] == 2.0 && mean[1].is_nan());
        let slope = tensor::gradients(&x.nansum(&[], false)?, &[&x])?.remove(0);
        assert_eq!(slope.to_vec::<f64>()?, [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        let first = x.nanmean(&[1], false)?.index(0, 0)?;
        let slope: Vec<f64> = tensor::gradients(&first, &[&x])?[0].to_vec()?;
        assert_eq!(slope[..3], [0.5, 0.0, 0.5]);

        // Where NaN would be inserted: behind all numbers.
        let sorted = floats(&e, &[1.0, 2.0, 3.0])?;
        let values = floats(&e, &[nan, 2.0, -nan, f64::INFINITY])?;
        assert_eq!(
            sorted.searchsorted(&values, false)?.to_vec::<i32>()?,
            [3, 1, 3, 3]
        );
        assert_eq!(
            sorted.searchsorted(&values, true)?.to_vec::<i32>()?,
            [3, 2, 3, 3]
        );
        let sorted = floats(&e, &[1.0, nan, nan])?;
        assert_eq!(
            sorted.searchsorted(&values, false)?.to_vec::<i32>()?,
            [1, 1, 1, 1]
        );
        assert_eq!(
            sorted.searchsorted(&values, true)?.to_vec::<i32>()?,
            [3, 1, 3, 1]
        );
        // By halves, too.
        let many = Tensor::iota(&e, 5000, DType::I32)?.cast(DType::F32)?;
        let values = Tensor::full(&e, &[300], f64::NAN, DType::F32)?;
        let found: Vec<i32> = many.searchsorted(&values, false)?.to_vec()?;
        assert_eq!(found, [5000; 300]);
    }
    Ok(())
}
