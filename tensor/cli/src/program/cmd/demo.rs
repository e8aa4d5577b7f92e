//! `doorbell demo`: a small convolutional net learns handwritten digits, on the queues of the
//! selected device.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::Setup;
use doorbell_run::save::save;
use indicatif::{ProgressBar, ProgressStyle};
use tensor::jit::Jit;
use tensor::nn::optim::{Adam, Optimizer};
use tensor::nn::{Module, state};
use tensor::onnx::Model;
use tensor::{Engine, Tensor};

use crate::program::bound::bound;
use crate::program::digits::{self, Set, Shuffle};
use crate::program::error::Error;
use crate::program::net::Net;
use crate::program::observe::write_trace;
use crate::program::output::{self, say};

/// Train a small network on handwritten digits.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub work: Work,
    #[command(flatten)]
    pub files: Files,
}

/// What is trained.
#[derive(clap::Args)]
pub struct Work {
    /// Passes over the training images
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Maximum steps (of 96 images) per epoch, for slow devices (simulated ones)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,
    /// Seed of the split, the weights and the order of the batches
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Fail if the accuracy on held-out images is below this fraction
    #[arg(long, default_value_t = 0.97, value_parser = bound)]
    at_least: f64,
}

/// What is written.
#[derive(clap::Args)]
pub struct Files {
    /// Output file for the trained weights
    #[arg(
        long,
        value_name = "FILE",
        default_value = "doorbell-digits.safetensors"
    )]
    save: PathBuf,
    /// Output file for the trained net as an ONNX model
    #[arg(long, value_name = "FILE", default_value = "doorbell-digits.onnx")]
    export: PathBuf,
    /// Write a trace of the queues for Perfetto (ui.perfetto.dev)
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

impl Files {
    /// The usual files, in a folder.
    pub fn inside(folder: &Path) -> Files {
        Files {
            save: folder.join("digits.safetensors"),
            export: folder.join("digits.onnx"),
            profile: None,
        }
    }
}

/// Images per step.
const BATCH: usize = 96;
const RATE: f64 = 2e-3;

/// Trains, judges on held-out images, saves, loads, compares, shows.
pub fn run(work: &Work, files: &Files, setup: &Setup) -> Result<(), Error> {
    let session = setup.clone().profile(files.profile.is_some()).open()?;
    let info = session.device.info();
    say!(
        "device   {} ({}, {} units{})",
        info.id,
        info.name,
        info.units,
        setup.twin().map_or("", |_| ", simulated")
    );
    let (train, held) = digits::load(work.seed)?;
    say!(
        "data     {} handwritten digits, {} held out",
        train.len() + held.len(),
        held.len()
    );

    let start = Instant::now();
    let net = Net::new(&session.engine, work.seed)?;
    let loss = fit(&net, &session.engine, &train, work)?;
    say!(
        "trained  {} epochs in {:.1} s, last loss {loss:.4}",
        work.epochs,
        start.elapsed().as_secs_f64()
    );

    let read = net.read(&session.engine, &held)?;
    let right = read
        .iter()
        .zip(&held.labels)
        .filter(|(a, b)| a == b)
        .count();
    let accuracy = right as f64 / held.len() as f64;

    state::save(&net, &files.save)?;
    let loaded = Net::new(&session.engine, work.seed + 1)?;
    state::load(&loaded, &files.save)?;
    if loaded.read(&session.engine, &held)? != read {
        return Err(Error::Check(format!(
            "{}: the loaded net predicts differently from the saved one",
            files.save.display()
        )));
    }
    say!(
        "saved    {}, reloaded, same predictions",
        files.save.display()
    );

    export(&net, &session.engine, &held, &files.export)?;

    show(&held, &read)?;
    output::line(format_args!(
        "held-out accuracy: {:.2} % ({right} of {})",
        accuracy * 100.0,
        held.len()
    ))?;
    if let Some(path) = &files.profile {
        write_trace(&session.engine, path)?;
        say!("trace    {}, open it at ui.perfetto.dev", path.display());
    }
    if accuracy < work.at_least {
        return Err(Error::Check(format!(
            "held-out accuracy is {accuracy:.4}, expected at least {}; try more --epochs",
            work.at_least
        )));
    }
    Ok(())
}

/// Minimizes the cross entropy with Adam; returns the mean loss of the last epoch.
fn fit(net: &Net, engine: &Engine, train: &Set, work: &Work) -> Result<f32, Error> {
    let mut adam = Adam::with_lr(net.trainable(), RATE)?;
    let step = Jit::new(engine, |inputs: &[Tensor]| {
        let loss = net.loss(&inputs[0], &inputs[1])?;
        adam.minimize(&loss)?;
        Ok(vec![loss])
    });

    // The last images of an epoch that do not fill a batch get their turn in the next one.
    let all = train.len() / BATCH;
    let batches = work.steps.map_or(all, |n| all.min(n as usize));
    let bar = progress(work.epochs as u64 * batches as u64);
    let mut order = Shuffle::new(work.seed);
    let mut mean = f32::NAN;
    for epoch in 1..=work.epochs {
        let shuffled = order.order(train.len());
        let mut losses = Vec::with_capacity(batches);
        for batch in shuffled.chunks_exact(BATCH).take(batches) {
            let set = train.pick(batch);
            let x = Tensor::from_slice(engine, &set.images, &[BATCH, 1, 8, 8])?;
            let y = Tensor::from_slice(engine, &set.labels, &[BATCH])?;
            losses.extend(step.call(&[x, y])?);
            output::is_read()?;
            bar.inc(1);
        }
        // Read once per epoch: the device runs ahead of the host until then.
        let sum = losses
            .iter()
            .map(Tensor::item::<f32>)
            .sum::<tensor::Result<f32>>()?;
        mean = sum / batches as f32;
        bar.set_message(format!("loss {mean:.4}"));
        if bar.is_hidden() {
            say!("epoch    {epoch:>3} loss {mean:.6}");
        }
    }
    bar.finish_and_clear();
    Ok(mean)
}

fn progress(steps: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps);
    let style = "training {bar:32} {pos}/{len} {msg} {eta}";
    bar.set_style(
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar
}

/// Writes the net as an ONNX model, runs that as `doorbell run` does, and compares: the logits must
/// agree, not only the digits.
fn export(net: &Net, engine: &Engine, held: &Set, path: &Path) -> Result<(), Error> {
    save(path, &net.to_onnx()?)?;
    let x = Tensor::from_slice(engine, &held.images, &[held.len(), 1, 8, 8])?;
    let wanted = net.logits(&x)?.to_vec::<f32>()?;
    let outputs = Model::load(path)?.on(engine).run([("image", x)])?;
    let found = match outputs.tensor("logits") {
        Some(logits) => logits.to_vec::<f32>()?,
        None => Vec::new(),
    };
    let far = wanted
        .iter()
        .zip(&found)
        .map(|(a, b)| (a - b).abs() / (1.0 + a.abs()));
    let far = far.fold(0f32, f32::max);
    if found.len() != wanted.len() || far > 1e-4 {
        return Err(Error::Check(format!(
            "{}: expected the {} logits of the trained net, found {} that differ by up to {far:e}; \
             please report this",
            path.display(),
            wanted.len(),
            found.len()
        )));
    }
    say!(
        "exported {}, same outputs when run as a model (within {far:.0e})",
        path.display()
    );
    Ok(())
}

/// A few held-out digits with what was read; the wrong ones first, they say the most.
fn show(held: &Set, read: &[i32]) -> Result<(), Error> {
    const SHOWN: usize = 4;
    let mut order: Vec<usize> = (0..held.len()).collect();
    order.sort_by_key(|&i| read[i] == held.labels[i]);
    let wrong = order
        .iter()
        .filter(|&&i| read[i] != held.labels[i])
        .count()
        .min(SHOWN / 2);
    let picked: Vec<usize> = order[..wrong]
        .iter()
        .chain(&order[order.len() + wrong - SHOWN..])
        .copied()
        .collect();
    let images: Vec<&[f32]> = picked.iter().map(|&i| held.image(i)).collect();
    output::line(format_args!(
        "{}",
        digits::draw(&images).trim_end_matches('\n')
    ))?;
    let captions: Vec<String> = picked
        .iter()
        .map(|&i| {
            format!(
                "{:<18}",
                format!("predicted {}, actual {}", read[i], held.labels[i])
            )
        })
        .collect();
    output::line(format_args!("{}", captions.concat().trim_end()))
}
