//! Results whose sizes depend on values.

use tensor::{DType, Engine, Jit, Result, Tensor};

use super::{floats, support};

/// Values of PyTorch.
#[test]
fn sizes_that_depend_on_values_are_read() -> Result<()> {
    for e in [Engine::reference(), support::engine()] {
        let x = floats(&e, &[3.0, 1.0, 3.0, 2.0, 1.0])?;
        let found = x.unique()?;
        assert_eq!(found.values.to_vec::<f64>()?, [1.0, 2.0, 3.0]);
        assert_eq!(found.inverse.to_vec::<i32>()?, [2, 0, 2, 1, 0]);
        assert_eq!(found.counts.to_vec::<i32>()?, [2, 1, 2]);
        let found = floats(&e, &[f64::NAN, 1.0, f64::NAN])?.unique()?;
        assert_eq!(found.counts.to_vec::<i32>()?, [1, 1, 1]);
        let found = Tensor::zeros(&e, &[0, 2], DType::I64)?.unique()?;
        assert_eq!(
            (found.values.shape(), found.inverse.shape()),
            (&[0][..], &[0, 2][..])
        );
        let x = floats(&e, &[0.0, 1.0, 2.0, 0.0, 0.0, f64::NAN])?.reshape(&[3, 2])?;
        let places = x.nonzero()?;
        assert_eq!(places.shape(), [3, 2]);
        assert_eq!(places.to_vec::<i64>()?, [0, 1, 1, 0, 2, 1]);
        assert_eq!(x.gather_nd(&places, 0)?.to_vec::<f64>()?[..2], [1.0, 2.0]);
        let some = x.masked_select(&x.gt(0)?)?;
        assert_eq!(some.to_vec::<f64>()?, [1.0, 2.0]);
        let slope = tensor::gradients(&some.square()?.sum(&[], false)?, &[&x])?.remove(0);
        assert_eq!(slope.to_vec::<f64>()?, [0.0, 2.0, 4.0, 0.0, 0.0, 0.0]);
        assert!(x.masked_select(&x).is_err());
        assert_eq!(x.masked_select(&x.lt(-1)?)?.shape(), [0]);
        let jit = Jit::new(&e, |x: &[Tensor]| Ok(vec![x[0].nonzero()?]));
        let calls: Vec<Result<Vec<Tensor>>> =
            (0..3).map(|_| jit.call(std::slice::from_ref(&x))).collect();
        // Every call gives them, or says that it cannot; a device captures.
        let refused: Vec<String> = calls
            .iter()
            .filter_map(|call| Some(call.as_ref().err()?.to_string()))
            .collect();
        assert!(
            refused.iter().all(|text| text.contains("captured")),
            "{refused:?}"
        );
        assert_eq!(refused.is_empty(), e.name() == "REFERENCE");
    }
    Ok(())
}

/// Numbers below the normal ones, which a processor may take for zeros, are told apart as they are sorted.
#[test]
fn numbers_below_the_normal_ones_are_different() -> Result<()> {
    for e in [Engine::reference(), support::engine()] {
        let x = [
            2e-40f32,
            0.0,
            1e-40,
            -0.0,
            2e-40,
            -1e-40,
            f32::NAN,
            f32::NAN,
            0.0,
        ];
        let x = Tensor::from_slice(&e, &x, &[9])?;
        let found = x.unique()?;
        let values: Vec<f32> = found.values.to_vec()?;
        assert_eq!(values[..4], [-1e-40, 0.0, 1e-40, 2e-40]);
        assert!(values.len() == 6 && values[4].is_nan() && values[5].is_nan());
        assert_eq!(found.counts.to_vec::<i32>()?, [1, 3, 1, 2, 1, 1]);
        let inverse: Vec<i32> = found.inverse.to_vec()?;
        assert_eq!(inverse, [3, 1, 2, 1, 3, 0, 4, 5, 1]);
        let places: Vec<i64> = x.nonzero()?.to_vec()?;
        assert_eq!(places, [0, 2, 4, 5, 6, 7]);
        for narrow in [DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2] {
            let x = Tensor::from_slice(&e, &[0.0f32, -0.0, 1.0, f32::NAN], &[4])?;
            let places: Vec<i64> = x.cast(narrow)?.nonzero()?.to_vec()?;
            assert_eq!(places, [2, 3], "{narrow}");
        }
    }
    Ok(())
}
