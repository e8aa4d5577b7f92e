//! Dropout in a captured function: another mask in each replay, the mean kept, the same masks as plainly,
//! and a gradient that goes where the mask lets it.

use doorbell::nn::{Dropout, Parameter};
use doorbell::{DType, Jit, Result, Rng, Tensor, gradients};

use super::check::close;

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let ones = Tensor::ones(&engine, &[64, 64], DType::F32)?;
    let layer = Dropout { p: 0.25 };

    let mut rng = Rng::new(&engine, 5);
    let captured = Jit::new(&engine, |x: &[Tensor]| {
        Ok(vec![layer.forward(&x[0], Some(&mut rng))?])
    });
    let kept: Vec<Tensor> = (0..12)
        .map(|_| Ok(captured.call(std::slice::from_ref(&ones))?.remove(0)))
        .collect::<Result<_>>()?;
    let masks: Vec<Vec<f32>> = kept.iter().map(Tensor::to_vec).collect::<Result<_, _>>()?;

    let mut plain = Rng::new(&engine, 5);
    for (i, mask) in masks.iter().enumerate() {
        assert!(!masks[..i].contains(mask), "mask {i} was there before");
        assert_eq!(
            *mask,
            layer.forward(&ones, Some(&mut plain))?.to_vec::<f32>()?,
            "mask {i}, captured and plain"
        );
        // torch.nn.functional.dropout(torch.ones(64, 64), 0.25) has these two values.
        assert!(
            mask.iter()
                .all(|m| *m == 0.0 || (m - 1.333_333_4).abs() < 1e-6),
            "mask {i} scales"
        );
        // Of 4,096 elements: five standard deviations are 0.045.
        let mean = mask.iter().sum::<f32>() / 4096.0;
        assert!((mean - 1.0).abs() < 0.045, "mask {i} has the mean {mean}");
    }
    let mean = masks.iter().flatten().sum::<f32>() / (12.0 * 4096.0);
    assert!((mean - 1.0).abs() < 0.013, "all masks have the mean {mean}");
    // Without a generator it is not training.
    assert_eq!(
        layer.forward(&ones, None)?.to_vec::<f32>()?,
        ones.to_vec::<f32>()?
    );

    // The gradient of sum(dropout(w)^2) is 2 w mask^2, with the mask of the forward pass, as in PyTorch.
    let w = Parameter::new(Tensor::full(&engine, &[256], 3.0, DType::F32)?);
    let mut rng = Rng::new(&engine, 6);
    let step = Jit::new(&engine, |_: &[Tensor]| {
        let value = w.get();
        let y = layer.forward(&value, Some(&mut rng))?;
        let slope = gradients(&y.square()?.sum(&[], false)?, &[&value])?.remove(0);
        w.set(value.sub(&slope.mul(0.01)?)?)?;
        Ok(vec![value, y, slope])
    });
    let mut expected = vec![3.0f32; 256];
    for _ in 0..10 {
        let outputs = step.call(&[])?;
        let outputs: Vec<Vec<f32>> = outputs
            .iter()
            .map(Tensor::to_vec)
            .collect::<Result<_, _>>()?;
        for (k, expected) in expected.iter_mut().enumerate() {
            let (value, y, slope) = (outputs[0][k], outputs[1][k], outputs[2][k]);
            close("the weight of now", value, f64::from(*expected), 1e-5);
            let mask = y / value;
            close(
                "the gradient",
                slope,
                f64::from(2.0 * value * mask * mask),
                1e-4,
            );
            *expected -= 0.01 * slope;
        }
    }
    println!("dropout: {} masks, their mean {mean:.4}", masks.len());
    Ok(())
}
