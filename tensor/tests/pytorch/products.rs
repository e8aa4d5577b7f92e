//! Gradients of running products; those of numbers of a usual size are in `gradients.rs`.

use tensor::{Engine, Result, Tensor};

use super::support;

/// Right also where products of what comes after an element are none of the type.
#[test]
fn running_products_have_gradients_of_any_size() -> Result<()> {
    let after = |first: &[f32], x: f32, n: usize| [first, &vec![x; n]].concat();
    let only = |at: usize, n: usize| (0..n).map(|i| f32::from(i == at)).collect();
    let cases: [(Vec<f32>, Vec<f32>); 8] = [
        (after(&[0.0, 0.0], 1e20, 2), only(0, 4)),
        (after(&[0.0, 0.0], 1000.0, 14), only(0, 16)),
        (after(&[0.0, 0.0], 50.0, 200), only(0, 202)),
        (after(&[0.0, 0.0], 1e-20, 30), only(0, 32)),
        (
            vec![1e-30, 1.0, 1e20, 1e20],
            vec![f32::INFINITY, 1e10, 1e-10, 1e-10],
        ),
        (vec![1e20, 1e20], vec![1e20, 1e20]),
        (vec![1e-30, 1e10], vec![1e10, 1e-30]),
        (
            vec![-2.0, 1e-25, 1e-25, 1e30],
            vec![1.0, -200_002.0, -2e5, 0.0],
        ),
    ];
    for e in [Engine::reference(), support::engine()] {
        let slope = |x: &[f32], loss: &dyn Fn(&Tensor) -> Result<Tensor>| {
            let x = Tensor::from_slice(&e, x, &[x.len()])?;
            tensor::gradients(&loss(&x.cumprod(0)?)?, &[&x])?[0].to_vec::<f32>()
        };
        for (x, want) in &cases {
            let found = slope(x, &|y| y.sum(&[], false))?;
            let close = |(a, b): (&f32, &f32)| a == b || (a - b).abs() <= 1e-6 * b.abs();
            assert!(found.iter().zip(want).all(close), "{x:?}: {found:?}");
        }
        // What the loss does not read may be of any size.
        for n in [5, 40] {
            let found = slope(&after(&[0.0], 1e20, n), &|y| y.index(0, 0))?;
            assert_eq!(found, after(&[1.0], 0.0, n));
        }
        let double = Tensor::from_slice(&e, &[0.0, 0.0, 1e200, 1e200], &[4])?;
        let y = double.cumprod(0)?.sum(&[], false)?;
        let found: Vec<f64> = tensor::gradients(&y, &[&double])?[0].to_vec()?;
        assert_eq!(found, [1.0, 0.0, 0.0, 0.0]);
    }
    Ok(())
}
