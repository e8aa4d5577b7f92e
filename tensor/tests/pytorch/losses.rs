//! Losses of errors of any size.

use tensor::ops::loss::Reduction;
use tensor::{Engine, Result, Tensor};

use super::support;

/// Values of PyTorch.
#[test]
fn smooth_losses_have_slopes_at_any_error() -> Result<()> {
    const INF: f32 = f32::INFINITY;
    type Loss = fn(&Tensor, &Tensor, f64, Reduction) -> Result<Tensor>;
    for e in [Engine::reference(), support::engine()] {
        let errors = |data: &[f32]| Tensor::from_slice(&e, data, &[data.len()]);
        let slopes = |loss: Loss, at: f64, x: &Tensor| -> Result<Vec<f32>> {
            let loss = loss(x, &x.zeros_like()?, at, Reduction::Sum)?;
            tensor::gradients(&loss, &[x])?[0].to_vec()
        };
        let (smooth, huber) = (Tensor::smooth_l1_loss as Loss, Tensor::huber_loss as Loss);
        let x = errors(&[INF, -INF, 0.25, -3e38])?;
        assert_eq!(slopes(smooth, 0.5, &x)?, [1.0, -1.0, 0.5, -1.0]);
        assert_eq!(slopes(huber, 0.5, &x)?, [0.5, -0.5, 0.25, -0.5]);
        for beta in [1e-39, 1e-45, 1e-60, 1e-320, 1e-30] {
            let x = errors(&[0.0, 2.0, -INF])?;
            assert_eq!(slopes(smooth, beta, &x)?, [0.0, 1.0, -1.0], "{beta}");
            let losses = x.smooth_l1_loss(&x.zeros_like()?, beta, Reduction::None)?;
            assert_eq!(losses.to_vec::<f32>()?, [0.0, 2.0, INF], "{beta}");
        }
        let slope = slopes(smooth, 2e-38, &errors(&[1.5e-38])?)?[0];
        assert!((slope - 0.75).abs() < 1e-6, "{slope}");
        // A limit that no number reaches.
        let x = errors(&[-4.0, 2.0])?;
        for delta in [1e300, f64::INFINITY] {
            assert_eq!(slopes(huber, delta, &x)?, [-4.0, 2.0]);
            assert_eq!(slopes(smooth, delta, &x)?, [0.0, 0.0]);
        }
        let nan = errors(&[f32::NAN])?;
        for at in [0.0, 1e-45, 1.0, f64::INFINITY] {
            for loss in [smooth, huber] {
                let y = loss(&nan, &x.narrow(0, 0, 1)?, at, Reduction::Sum)?;
                assert!(y.item::<f32>()?.is_nan(), "{at}");
            }
        }
    }
    Ok(())
}
