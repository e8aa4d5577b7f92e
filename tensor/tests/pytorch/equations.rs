//! Linear equations.

use tensor::{DType, Engine, Result, Tensor};

use super::{floats, support};

/// Values of PyTorch.
#[test]
fn equations_are_solved() -> Result<()> {
    for e in [Engine::reference(), support::engine()] {
        let near = |found: &Tensor, want: &[f64]| -> Result<()> {
            let found: Vec<f64> = found.to_vec()?;
            let close = found.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-13);
            assert!(close && found.len() == want.len(), "{found:?} {want:?}");
            Ok(())
        };
        let of = |data: &[f64], shape: &[usize]| floats(&e, data)?.reshape(shape);
        let a = of(&[0.0, 2.0, 1.0, 3.0, 1.0, 4.0, 1.0, 5.0, 9.0], &[3, 3])?;
        let b = of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2])?;
        let x = a.solve(&b)?;
        near(&x, &[0.46875, 1.0, 0.34375, 1.0, 0.3125, 0.0])?;
        let slopes = tensor::gradients(&x.square()?.sum(&[], false)?, &[&a, &b])?;
        near(
            &slopes[0],
            &[
                -2.3795166015625,
                -2.3116455078125,
                -0.169677734375,
                -1.0452880859375,
                -0.9998779296875,
                -0.113525390625,
                0.6964111328125,
                0.6773681640625,
                0.047607421875,
            ],
        )?;
        near(
            &slopes[1],
            &[0.54296875, 2.125, 0.36328125, 0.875, -0.15234375, -0.625],
        )?;
        near(
            &a.inv()?,
            &[
                0.34375, 0.40625, -0.21875, 0.71875, 0.03125, -0.09375, -0.4375, -0.0625, 0.1875,
            ],
        )?;
        // Matrices broadcast over those before them.
        let many = a.unsqueeze(0)?.expand(&[2, 3, 3])?.solve(&b)?;
        assert_eq!(many.shape(), [2, 3, 2]);
        near(
            &many.index(0, 1)?,
            &[0.46875, 1.0, 0.34375, 1.0, 0.3125, 0.0],
        )?;
        let even = of(&[4.0, 1.0, 2.0, 1.0, 3.0, 0.0, 2.0, 0.0, 5.0], &[3, 3])?;
        let l = even.cholesky()?;
        near(
            &l,
            &[
                2.0,
                0.0,
                0.0,
                0.5,
                1.6583123951777,
                0.0,
                1.0,
                -0.30151134457776363,
                1.9771421064483223,
            ],
        )?;
        let weights = Tensor::iota(&e, 9, DType::I32)?
            .cast(DType::F64)?
            .reshape(&[3, 3])?;
        let slope = tensor::gradients(&l.mul(&weights)?.sum(&[], false)?, &[&even])?.remove(0);
        near(
            &slope,
            &[
                0.29142718739716955,
                -0.9033766921823315,
                -0.13116602870317337,
                -0.9033766921823316,
                1.6566671608459105,
                2.478419803941708,
                -0.1311660287031734,
                2.478419803941708,
                2.023122155435493,
            ],
        )?;
        near(
            &even.solve_triangular(&b, false)?,
            &[0.25, 0.5, 0.9166666666666666, 1.1666666666666665, 0.9, 1.0],
        )?;
        let upper = even.solve_triangular(&b, true)?;
        near(
            &even.triu(0)?.matmul(&upper)?,
            &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        )?;
        assert!(a.narrow(0, 0, 2)?.inv().is_err());
        assert!(a.solve(&b.index(1, 0)?).is_err());
        let single = a.cast(DType::F32)?.solve(&b.cast(DType::F32)?)?;
        assert_eq!(single.dtype(), DType::F32);
    }
    Ok(())
}

/// Matrices without rows have empty results.
#[test]
fn no_equations_have_solutions() -> Result<()> {
    for e in [Engine::reference(), support::engine()] {
        let none = |shape: &[usize]| Tensor::zeros(&e, shape, DType::F64);
        for (outer, shape) in [(&[][..], [0, 0]), (&[3], [0, 0])] {
            let a = none(&[outer, &shape[..]].concat())?;
            let b = none(&[outer, &[0, 2]].concat())?;
            let all = [
                a.inv()?,
                a.cholesky()?,
                a.solve(&b)?,
                a.solve_triangular(&b, true)?,
            ];
            for x in &all {
                assert_eq!(x.shape().split_last().unwrap().1, [outer, &[0]].concat());
                assert!(x.to_vec::<f64>()?.is_empty());
            }
            assert_eq!(all[2].shape(), b.shape());
            let slopes = tensor::gradients(&all[2].sum(&[], false)?, &[&a, &b])?;
            assert_eq!((slopes[0].numel(), slopes[1].numel()), (0, 0));
        }
        let (a, b) = (none(&[2, 2])?, none(&[2, 0])?);
        assert_eq!(a.solve(&b)?.shape(), [2, 0]);
        assert_eq!(a.solve_triangular(&b, false)?.shape(), [2, 0]);
    }
    Ok(())
}

#[test]
fn pivots_of_no_root_and_without_end() -> Result<()> {
    const INF: f64 = f64::INFINITY;
    for e in [Engine::reference(), support::engine()] {
        for (matrix, nan) in [
            ([1.0, 1.0, 1.0, 1.0], [false, false, false, true]),
            ([0.0, 0.0, 0.0, 1.0], [true, false, true, true]),
            ([1.0, 2.0, 2.0, 1.0], [false, false, false, true]),
        ] {
            let l = floats(&e, &matrix)?.reshape(&[2, 2])?.cholesky()?;
            assert_eq!(l.isnan()?.to_vec::<bool>()?, nan, "{matrix:?}");
        }
        let a = floats(&e, &[2.0, 0.0, 0.0, 1.0, INF, 0.0, 1.0, 3.0, 4.0])?.reshape(&[3, 3])?;
        let b = floats(&e, &[2.0, 5.0, 9.0])?.reshape(&[3, 1])?;
        let x: Vec<f64> = a.solve_triangular(&b, false)?.to_vec()?;
        assert_eq!(x, [1.0, 0.0, 2.0]);
        let upper = a.transpose(0, 1)?;
        let x: Vec<f64> = upper.solve_triangular(&b, true)?.to_vec()?;
        assert_eq!(x, [-0.125, 0.0, 2.25]);
    }
    Ok(())
}
