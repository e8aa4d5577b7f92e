//! Gradients of running products; those of numbers of a usual size are in `gradients.rs`.

use tensor::{DType, Engine, Result, Tensor};

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

/// All derivatives of an order of a function of one vector, the last direction innermost.
fn derivatives(x: &Tensor, order: usize, f: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let mut all = f(x)?.sum(&[], false)?.reshape(&[1])?;
    for _ in 0..order {
        let rows = (0..all.numel() as isize).map(|i| {
            let one = all.index(0, i)?;
            Ok(tensor::gradients(&one, &[x])?.remove(0))
        });
        let rows: Vec<Tensor> = rows.collect::<Result<_>>()?;
        let rows: Vec<&Tensor> = rows.iter().collect();
        all = Tensor::cat(&rows, 0)?;
    }
    Ok(all)
}

/// What they are for the product of `x[..=at]`: the product of those that are in no direction.
fn of_product(x: &[f64], at: usize, order: usize) -> Vec<f64> {
    let n = x.len();
    let sets = (0..n.pow(order as u32)).map(|mut code| {
        let mut left: Vec<bool> = (0..n).map(|i| i <= at).collect();
        for _ in 0..order {
            if !std::mem::replace(&mut left[code % n], false) {
                return 0.0;
            }
            code /= n;
        }
        let mut factors: Vec<f64> = (0..n).filter(|&i| left[i]).map(|i| x[i]).collect();
        factors.sort_by(f64::total_cmp);
        factors.iter().product()
    });
    sets.collect()
}

#[test]
fn running_products_have_derivatives_of_any_order() -> Result<()> {
    // On the device some.
    let cases: [(&[f64], usize); 11] = [
        (&[1.0, 1e20, 1e20], 1),
        (&[1.0, 1e-20, 1e-20], 2),
        (&[1.0, 1e20, 1e20], 2),
        (&[2.0, 3.0, -4.0, 5.0], 3),
        (&[0.0, 2.0, 3.0, 5.0], 3),
        (&[2.0, 0.0, 3.0, 0.0], 3),
        (&[0.0, 0.0, 0.0, 2.0], 3),
        (&[0.0, 1e-20, 1e20, 0.0], 3),
        (&[1e-20, 1e20, 1e-20, 1e20, 1e-20], 4),
        (&[0.0, 1e30, 1e30, 1e-30, 1e-30], 0),
        (&[7.0], 0),
    ];
    type Function = fn(&Tensor, usize) -> Result<Tensor>;
    let running: Function = |x, at| x.cumprod(0)?.index(0, at as isize);
    let whole: Function = |x, at| x.narrow(0, 0, at + 1)?.prod(&[], false);
    let mut wrong = Vec::new();
    let (reference, device) = (Engine::reference(), support::engine());
    for (e, cases, orders, f) in [
        (&reference, &cases[..], 3, running),
        (&reference, &cases[3..7], 3, whole),
        (&device, &cases[2..3], 2, running),
        (&device, &cases[4..5], 2, whole),
    ] {
        let types = [DType::F32, DType::F64];
        for dtype in types.into_iter().take(if *e == device { 1 } else { 2 }) {
            for &(x, at) in cases {
                for order in 1..=orders.min(7 - x.len()) {
                    let t = Tensor::from_slice(e, x, &[x.len()])?.cast(dtype)?;
                    let t = t.contiguous()?;
                    let found = derivatives(&t, order, &|x| f(x, at))?;
                    let found: Vec<f64> = found.cast(DType::F64)?.to_vec()?;
                    let want = of_product(x, at, order);
                    // Numbers below the normal ones may be zeros.
                    let (least, most) = match dtype {
                        DType::F32 => (f64::from(f32::MIN_POSITIVE), 1e38),
                        _ => (0.0, f64::MAX),
                    };
                    let close = |(a, b): (&f64, &f64)| {
                        let endless = b.abs() > most && *a == b.signum() * f64::INFINITY;
                        endless || (a - b).abs() <= least + 1e-6 * b.abs()
                    };
                    if found.len() != want.len() || !found.iter().zip(&want).all(close) {
                        wrong.push(format!(
                            "{dtype}, order {order} of {x:?} {at}: {found:?}, not {want:?}"
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn products_of_nothing_have_second_derivatives() -> Result<()> {
    for e in [Engine::reference(), support::engine()] {
        for shape in [&[0][..], &[0, 3], &[3, 0]] {
            for f in [|x: &Tensor| x.prod(&[0], false), |x: &Tensor| x.cumprod(0)] {
                let x = Tensor::zeros(&e, shape, DType::F32)?;
                let first = tensor::gradients(&f(&x)?.sum(&[], false)?, &[&x])?.remove(0);
                let second = tensor::gradients(&first.sum(&[], false)?, &[&x])?.remove(0);
                assert_eq!(second.shape(), shape);
                assert!(second.to_vec::<f32>()?.is_empty());
            }
        }
    }
    Ok(())
}

/// Of several axes, in the middle, of parts of a batch, in each type of floats.
#[test]
fn products_over_axes_have_second_derivatives() -> Result<()> {
    let e = Engine::reference();
    let values: Vec<f32> = (0..24).map(|i| ((i * 7) % 5) as f32 - 1.0).collect();
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let x = Tensor::from_slice(&e, &values, &[2, 3, 2, 2])?.cast(dtype)?;
        let x = x.contiguous()?;
        // The second derivative in the direction of ones, twice.
        let y = x.prod(&[1, -1], false)?.sum(&[], false)?;
        let first = tensor::gradients(&y, &[&x])?.remove(0);
        let second = tensor::gradients(&first.sum(&[], false)?, &[&x])?.remove(0);
        let found: Vec<f64> = second.cast(DType::F64)?.to_vec()?;
        let at = |i: usize| (i / 12, i / 4 % 3, i / 2 % 2, i % 2);
        let want = (0..24).map(|i| {
            let group: Vec<usize> = (0..24)
                .filter(|&j| j != i && (at(j).0, at(j).2) == (at(i).0, at(i).2))
                .collect();
            let without = |k: usize| {
                let rest = group.iter().filter(|&&j| j != k);
                rest.map(|&j| f64::from(values[j])).product::<f64>()
            };
            group.iter().map(|&k| without(k)).sum::<f64>()
        });
        assert_eq!(found, want.collect::<Vec<f64>>(), "{dtype}");
    }
    Ok(())
}
