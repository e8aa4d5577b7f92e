//! A teacher whose weights are the moving average of the student's that is trained.

use doorbell::nn::{Module, Optimizer, Sgd, commit, state};
use doorbell::ops::loss::Reduction;
use doorbell::{Engine, Jit, Parameter, Result, Tensor};

use super::check::{close, size, wave};

/// Two layers: weight and bias, weight and bias.
struct Net(Vec<Parameter>);

impl Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let p: Vec<Tensor> = self.0.iter().map(Parameter::get).collect();
        Ok(x.linear(&p[0], Some(&p[1]))?
            .tanh()?
            .linear(&p[2], Some(&p[3]))?)
    }
}

impl Module for Net {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        let names = (0..).map(|i| i.to_string());
        names.zip(self.0.iter().cloned()).collect()
    }
}

fn first(engine: &Engine, kind: impl Fn(Tensor) -> Parameter) -> Result<Net> {
    Ok(Net(vec![
        kind(wave(engine, &[8, 4], 1.3, 0.5)?),
        kind(wave(engine, &[8], 0.7, 0.1)?),
        kind(wave(engine, &[1, 8], 2.1, 0.5)?),
        kind(wave(engine, &[1], 0.3, 0.1)?),
    ]))
}

/// One step: the loss of the student, and how far the teacher is from the student afterwards.
fn step(
    student: &Net,
    teacher: &Net,
    sgd: &mut Sgd,
    x: &Tensor,
    y: &Tensor,
) -> Result<[Tensor; 2]> {
    let loss = student.forward(x)?.mse_loss(y, Reduction::Mean)?;
    sgd.minimize(&loss)?;
    for (t, s) in teacher.0.iter().zip(&student.0) {
        t.set(t.get().mul(0.9)?.add(s.get().mul(0.1)?)?)?;
    }
    commit(&teacher.0)?;
    let gap = teacher
        .forward(x)?
        .mse_loss(&student.forward(x)?, Reduction::Mean)?;
    Ok([loss, gap])
}

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let student = first(&engine, Parameter::new)?;
    let teacher = first(&engine, Parameter::buffer)?;
    let mut sgd = Sgd::plain(student.trainable(), 0.05)?;
    let mut plain = Sgd::plain(student.trainable(), 0.05)?;
    let captured = Jit::new(&engine, |batch: &[Tensor]| {
        Ok(step(&student, &teacher, &mut sgd, &batch[0], &batch[1])?.into())
    });

    let folder = std::env::temp_dir();
    let path = folder.join(format!("doorbell-ema-{}.safetensors", std::process::id()));
    let (mut losses, mut gaps, mut old) = (Vec::new(), Vec::new(), None);
    for k in 0..40 {
        let x = wave(&engine, &[16, 4], 0.37 + 0.01 * f64::from(k), 1.0)?;
        let y = x.sum(&[1], true)?.sin()?;
        // Plain steps among the captured ones change the same state.
        let mut both = if k % 4 == 3 {
            step(&student, &teacher, &mut plain, &x, &y)?.to_vec()
        } else {
            captured.call(&[x, y])?
        };
        gaps.push(both.remove(1));
        losses.push(both.remove(0));
        if k == 10 {
            old = Some(student.0[0].get());
        }
        if k == 20 {
            // The teacher goes through a file, and the captured step goes on with what was loaded.
            state::save(&teacher, &path)?;
            for p in &teacher.0 {
                p.set(p.get().zeros_like()?)?;
            }
            state::load(&teacher, &path)?;
            std::fs::remove_file(&path)?;
        }
    }

    // Losses and weights are read long after: each is what it was.
    let read = |all: &[Tensor]| -> Result<Vec<f32>> {
        let some = [&all[0], &all[10], &all[39]];
        some.into_iter().map(|one| Ok(one.item()?)).collect()
    };
    let (losses, gaps) = (read(&losses)?, read(&gaps)?);
    // torch.optim.SGD(lr=0.05), and `t.mul_(0.9).add_(p, alpha=0.1)` after each step.
    close(
        "losses 0, 10, 39",
        &losses,
        &[0.3689502, 0.2867478, 0.1041212],
    );
    close(
        "gaps 0, 10, 39",
        &gaps,
        &[0.0011475, 0.01314283, 0.03913589],
    );
    let old = old.as_ref().map(size).transpose()?;
    close(
        "the student's weight after step 10",
        old.as_slice(),
        &[10.27873],
    );
    let weights = [
        size(&student.0[0].get())?,
        size(&teacher.0[0].get())?,
        teacher.0[2].get().sum(&[], false)?.item()?,
    ];
    close(
        "weights at the end",
        &weights,
        &[10.20407, 10.23232, -0.04734555],
    );
    println!(
        "ema: loss {:.4} to {:.4}, the teacher {:.4} behind",
        losses[0], losses[2], gaps[2]
    );
    Ok(())
}
