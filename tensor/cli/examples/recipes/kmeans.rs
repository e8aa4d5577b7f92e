//! K-means: the nearest centre by argmin, sums by scatter, until no centre moves.

use doorbell::{DType, Jit, Parameter, Result, Tensor};

use super::check::{close, wave};

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let clouds = [0.0f64, 1.0, 2.0].map(|j| -> Result<Tensor> {
        let centre = [2.0 * (2.0 * j).cos(), 2.0 * (2.0 * j).sin()].map(|c| c as f32);
        Ok(wave(&engine, &[20, 2], 1.7 + j, 0.5)?.add(Tensor::new(&engine, centre)?)?)
    });
    let clouds = clouds.into_iter().collect::<Result<Vec<_>>>()?;
    let points = Tensor::cat(&clouds.iter().collect::<Vec<_>>(), 0)?;
    points.realize()?;
    let centres = Parameter::buffer(points.narrow(0, 0, 3)?);

    let round = Jit::new(&engine, |x: &[Tensor]| {
        let (x, c) = (&x[0], centres.get());
        let distances = x
            .unsqueeze(1)?
            .sub(c.unsqueeze(0)?)?
            .square()?
            .sum(&[2], false)?;
        let nearest = distances.argmin(1, false)?;
        let into = nearest.unsqueeze(1)?.expand(&[60, 2])?;
        let sums = c.zeros_like()?.scatter_add(0, &into, x)?;
        let ones = Tensor::ones(&engine, &[60], DType::F32)?;
        let counts = Tensor::zeros(&engine, &[3], DType::F32)?.scatter_add(0, &nearest, &ones)?;
        let n = counts.unsqueeze(1)?;
        let new = n.gt(0)?.where_(sums.div(n.maximum(1)?)?, &c)?;
        centres.set(new.clone())?;
        let moved = new.sub(&c)?.abs()?.max(&[], false)?;
        Ok(vec![
            moved,
            distances.min(&[1], false)?.sum(&[], false)?,
            counts,
        ])
    });
    let mut path = vec![centres.get()];
    let mut rounds = 0;
    let [mut inertia, mut counts] = [0.0f32, 0.0].map(|x| vec![x]);
    while rounds < 99 {
        rounds += 1;
        let out = round.call(std::slice::from_ref(&points))?;
        path.push(centres.get());
        (inertia, counts) = (out[1].to_vec()?, out[2].to_vec()?);
        if out[0].item::<f32>()? < 1e-6 {
            break;
        }
    }
    // argmin, index_add_ and the same rule to stop.
    assert_eq!(rounds, 6, "rounds");
    close("the sum of squares", &inertia, &[123.6401]);
    let want = [
        1.817284, 0.3141481, -1.083555, 0.167335, 2.19683, -0.3384148,
    ];
    close("centres", &centres.get().to_vec::<f32>()?, &want);
    close("counts", &counts, &[10.0, 40.0, 10.0]);
    // The path was read by nobody until now: the first handle is the first three points.
    assert_eq!(
        path[0].to_vec::<f32>()?,
        points.narrow(0, 0, 3)?.to_vec::<f32>()?
    );
    assert_eq!(path[6].to_vec::<f32>()?, path[5].to_vec::<f32>()?);
    assert_ne!(path[5].to_vec::<f32>()?, path[1].to_vec::<f32>()?);
    println!(
        "kmeans: {rounds} rounds, squares {:.2}, {counts:?} points each",
        inertia[0]
    );
    Ok(())
}
