//! Two Kalman filters in two threads: each has its state in parameters, both call one captured function.

use std::thread;

use doorbell::nn::commit;
use doorbell::{DType, Engine, Jit, Parameter, Result, Tensor};

use super::check::close;

/// From state, covariance, measurement and its variance to the new state and covariance and the surprise.
fn update(engine: &Engine, input: &[Tensor]) -> Result<Vec<Tensor>> {
    let [x, p, z, r] = input else {
        unreachable!("four inputs")
    };
    let a = Tensor::new(engine, [[1.0f32, 0.1], [0.0, 1.0]])?;
    let h = Tensor::new(engine, [[1.0f32, 0.0]])?;
    let one = Tensor::eye(engine, 2, 2, DType::F32)?;
    let x = a.matmul(x)?;
    let p = a.matmul(p)?.matmul(&a.t()?)?.add(one.mul(1e-3)?)?;
    let surprise = z.sub(h.matmul(&x)?)?;
    let s = h.matmul(&p)?.matmul(&h.t()?)?.add(r)?;
    let gain = p.matmul(&h.t()?)?.div(s)?;
    let x = x.add(gain.matmul(&surprise)?)?;
    let p = one.sub(gain.matmul(&h)?)?.matmul(&p)?;
    Ok(vec![x, p, surprise])
}

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let shared = Jit::new(&engine, |input: &[Tensor]| Ok(update(&engine, input)?));
    let filter = |which: i32| -> Result<Vec<f32>> {
        let x = Parameter::buffer(Tensor::zeros(&engine, &[2, 1], DType::F32)?);
        let p = Parameter::buffer(Tensor::eye(&engine, 2, 2, DType::F32)?);
        let r = Tensor::full(&engine, &[1, 1], 0.1 * f64::from(which + 1), DType::F32)?;
        let mut surprises = Vec::new();
        for k in 0..60 {
            let k = f64::from(k);
            let z =
                (0.1 * k * f64::from(which + 1)).sin() + 0.2 * (7.1 * k + f64::from(which)).sin();
            let z = Tensor::new(&engine, [[z as f32]])?;
            let mut out = shared.call(&[x.get(), p.get(), z, r.clone()])?;
            surprises.push(out.remove(2));
            p.set(out.remove(1))?;
            x.set(out.remove(0))?;
            commit([x.clone(), p.clone()])?;
        }
        let all = Tensor::stack(&surprises.iter().collect::<Vec<_>>(), 0)?;
        let mut ends = x.get().to_vec::<f32>()?;
        ends.extend(p.get().to_vec::<f32>()?);
        ends.push(all.square()?.sum(&[], false)?.item()?);
        Ok(ends)
    };
    let (one, two) = thread::scope(|scope| {
        let threads = [0, 1].map(|which| {
            scope.spawn({
                let filter = &filter;
                move || filter(which)
            })
        });
        let [one, two] = threads.map(|thread| thread.join().expect("a filter panicked"));
        (one, two)
    });
    let (one, two) = (one?, two?);
    // The same formulas with torch's matmul, one filter after the other.
    close(
        "the first filter",
        &one,
        &[
            -0.8741564,
            -0.1945865,
            0.01590513,
            0.009170532,
            0.009170532,
            0.01734281,
            8.00401,
        ],
    );
    close(
        "the second filter",
        &two,
        &[
            -0.6873218, -0.3528836, 0.0258707, 0.01320062, 0.01320062, 0.0195888, 26.53183,
        ],
    );
    println!(
        "kalman: positions {:.4} and {:.4} of two threads, {} capture",
        one[0],
        two[0],
        shared.captures()
    );
    Ok(())
}
