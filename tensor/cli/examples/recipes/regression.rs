//! A linear regression by 5,000 plain steps, each with factors of its own. Memory does not grow.

use doorbell::nn::commit;
use doorbell::ops::loss::Reduction;
use doorbell::{Parameter, Result, Tensor, gradients};

use super::check::{close, resident, wave};

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let x = wave(&engine, &[32, 4], 0.83, 1.0)?;
    let truth = Tensor::new(&engine, [[1.0f32], [-2.0], [3.0], [0.5]])?;
    let y = x
        .matmul(&truth)?
        .add(wave(&engine, &[32, 1], 3.1, 1.0)?.mul(0.1)?)?;
    let w = Parameter::new(wave(&engine, &[4, 1], 1.0, 1.0)?);

    let (mut losses, mut first, mut before) = (Vec::new(), None, None);
    for k in 0..5000 {
        let now = w.get();
        let loss = x.matmul(&now)?.mse_loss(&y, Reduction::Mean)?;
        let slope = gradients(&loss, &[&now])?.remove(0);
        // As data: another number in its place, or in `Tensor::scalar`, is another kernel to compile.
        let (rate, decay) = (0.3 / (1.0 + 0.01 * f64::from(k)), 1e-4 / f64::from(k + 1));
        let rate = Tensor::new(&engine, rate as f32)?;
        let keep = Tensor::new(&engine, (1.0 - decay) as f32)?;
        w.set(now.sub(slope.mul(rate)?)?.mul(keep)?)?;
        commit(&w)?;
        if [0, 7, 100, 4999].contains(&k) {
            losses.push(loss.item::<f32>()?); // after the step, it is the loss before it
        }
        if k == 0 {
            first = Some(now.detach()?);
        }
        if k == 1000 {
            before = resident();
        }
    }
    let after = resident();
    // `w -= g * rate; w *= keep` under torch.no_grad().
    close(
        "losses 0, 7, 100, 4999",
        &losses,
        &[6.428052, 0.003500709, 0.003499106, 0.003499104],
    );
    let ends = w.get().to_vec::<f32>()?;
    close(
        "weights",
        &ends,
        &[-0.6117092, 0.4534158, 0.9791664, 0.8302612],
    );
    let first = first.map_or(Ok(vec![]), |first| first.to_vec::<f32>())?;
    close(
        "the first weights",
        &first,
        &[0.841471, 0.9092974, 0.14112, -0.7568025],
    );
    if let (Some(before), Some(after)) = (before, after) {
        let grown = after.saturating_sub(before);
        assert!(grown < 32 << 10, "4,000 steps took {grown} KiB more");
    }
    println!(
        "regression: loss {:.4} to {:.6} in 5,000 plain steps",
        losses[0], losses[3]
    );
    Ok(())
}
