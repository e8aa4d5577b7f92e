//! Pools, sums at an index, and the smooth loss.

use tensor::ops::loss::Reduction;
use tensor::{DType, Engine, Result, Tensor};

use super::{floats, support};

/// Values of PyTorch.
#[test]
fn pools_of_a_size_and_sums_at_an_index() -> Result<()> {
    for e in [Engine::reference(), support::engine()] {
        let x: Vec<f64> = (0..70).map(|i| f64::from(i).powf(1.3)).collect();
        let x = floats(&e, &x)?.reshape(&[1, 2, 5, 7])?;
        let cases: [(&[usize], &[f64], f64); 4] = [
            (
                &[2, 3],
                &[16.644227751, 21.333718865, 26.478061985, 56.364654112],
                0.362133951161,
            ),
            (
                &[3, 2],
                &[9.057846937, 15.562098798, 36.266987325, 45.266181524],
                0.212796020336,
            ),
            (
                &[6, 9],
                &[0.0, 0.5, 1.731144413, 3.316728169],
                -0.348322532554,
            ),
            (&[1, 1], &[42.769085905, 171.399342791], 0.024903640942),
        ];
        for (sizes, want, slope) in cases {
            let y = x.adaptive_avg_pool(sizes)?;
            assert_eq!(y.shape(), [1, 2, sizes[0], sizes[1]]);
            let found: Vec<f64> = y.to_vec()?;
            let off = found.iter().zip(want).find(|(a, b)| (*a - *b).abs() > 1e-8);
            assert!(off.is_none(), "{sizes:?}: {found:?}");
            let wave = |t: &Tensor| -> Result<Tensor> {
                let at = Tensor::iota(&e, t.numel(), DType::I32)?.cast(DType::F64)?;
                at.reshape(t.shape())
            };
            let loss = y.mul(&wave(&y)?.cos()?)?.sum(&[], false)?;
            let found = tensor::gradients(&loss, &[&x])?.remove(0);
            let found: f64 = found.mul(&wave(&x)?.sin()?)?.sum(&[], false)?.item()?;
            assert!((found - slope).abs() < 1e-10, "{sizes:?}: {found}");
        }
        assert!(x.adaptive_avg_pool(&[2]).is_err());

        let base = Tensor::zeros(&e, &[3, 2], DType::F64)?;
        let source = floats(&e, &[2.0, 4.0, 6.0, 8.0, 10.0, 12.0])?.reshape(&[3, 2])?;
        let index = Tensor::from_slice(&e, &[2i64, 0, 2], &[3])?;
        let y = base.index_add(0, &index, &source)?;
        assert_eq!(y.to_vec::<f64>()?, [6.0, 8.0, 0.0, 0.0, 12.0, 16.0]);
        let square = y.square()?.sum(&[], false)?;
        let slope = tensor::gradients(&square, &[&source])?.remove(0);
        assert_eq!(slope.to_vec::<f64>()?, [24.0, 32.0, 12.0, 16.0, 24.0, 32.0]);
        assert!(base.index_add(0, &index, &base.narrow(0, 0, 2)?).is_err());

        let d = floats(&e, &[-2.0, -0.5, 0.0, 0.25, 0.5, 3.0])?;
        let zeros = d.zeros_like()?;
        let cases: [(f64, [f64; 6], [f64; 6]); 3] = [
            (
                1.0,
                [1.5, 0.125, 0.0, 0.03125, 0.125, 2.5],
                [-1.0, -0.5, 0.0, 0.25, 0.5, 1.0],
            ),
            (
                0.5,
                [1.75, 0.25, 0.0, 0.0625, 0.25, 2.75],
                [-1.0, -1.0, 0.0, 0.5, 1.0, 1.0],
            ),
            (
                0.0,
                [2.0, 0.5, 0.0, 0.25, 0.5, 3.0],
                [-1.0, -1.0, 0.0, 1.0, 1.0, 1.0],
            ),
        ];
        for (beta, losses, slopes) in cases {
            let found = d.smooth_l1_loss(&zeros, beta, Reduction::None)?;
            assert_eq!(found.to_vec::<f64>()?, losses, "{beta}");
            let slope = tensor::gradients(&found.sum(&[], false)?, &[&d])?.remove(0);
            assert_eq!(slope.to_vec::<f64>()?, slopes, "{beta}");
        }
        assert!(d.smooth_l1_loss(&zeros, -1.0, Reduction::None).is_err());
    }
    Ok(())
}
