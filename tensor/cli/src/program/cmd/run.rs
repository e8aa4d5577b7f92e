//! `doorbell run`: a model with inputs from files, its outputs to files or to the terminal.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Setup;
use doorbell_run::save::{apart, save as write, takes_files, writable};
use doorbell_run::times::Times;
use tensor::onnx::{Array, Elem, Model, Outputs, Value, backend};
use tensor::{DType, Tensor};

use crate::program::cmd::bundle;
use crate::program::error::Error;
use crate::program::inputs::InputArgs;
use crate::program::observe::{Steps, write_trace};
use crate::program::output::{self, say};

/// Run an ONNX model, or a model bundle that `doorbell compile` has written.
#[derive(clap::Args)]
pub struct Args {
    /// The model or bundle
    model: PathBuf,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    work: Work,
    #[command(flatten)]
    files: Files,
}

/// How it is run.
#[derive(clap::Args)]
pub struct Work {
    /// Number of runs, the first included; prints their times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// How long a run of a bundle may take, in milliseconds; default: 600000
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Print the K largest elements of the last axis of each output, with their positions
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
}

/// What is written.
#[derive(clap::Args, Default)]
pub struct Files {
    /// Write each output to this folder: NAME.npy, or NAME.pb for types that npy does not support
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Write a trace of the queues for Perfetto (ui.perfetto.dev)
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

impl Files {
    /// The folder of outputs, which takes files: looked at before what takes long, and behind what refuses the command.
    fn make_folder(&self) -> Result<(), Error> {
        let Some(folder) = &self.output else {
            return Ok(());
        };
        std::fs::create_dir_all(folder).map_err(|source| Error::File {
            path: folder.display().to_string(),
            source,
        })?;
        Ok(takes_files(folder)?)
    }
}

/// Loads, runs, prints or writes.
pub fn run(args: &Args, setup: &Setup) -> Result<(), Error> {
    model(&args.model, &args.inputs, &args.work, &args.files, setup)
}

/// The same of a model that something else names.
pub fn model(
    path: &Path,
    inputs: &InputArgs,
    work: &Work,
    files: &Files,
    setup: &Setup,
) -> Result<(), Error> {
    if bundle::is_one(path) {
        if files.profile.is_some() {
            return Err(Error::Usage(
                "--profile: a bundle has no profile; profile its model".into(),
            ));
        }
        let limit = work.limit.map(|ms| Duration::from_millis(ms.into()));
        let ready = || files.make_folder();
        let outputs = bundle::run(path, inputs, (work.repeat, limit), setup, ready)?;
        return shown(&outputs, work, files, inputs);
    }
    if work.limit.is_some() {
        return Err(Error::Usage(
            "--limit: a run of a model has no limit of its own, only one of a bundle has; HCQDEV_WORK_TIMEOUT_MS limits \
             waits for a device"
                .into(),
        ));
    }
    if let Some(profile) = &files.profile {
        apart(profile, inputs.files().chain([path]))?;
        writable(profile)?;
    }
    let steps = Steps::new();
    let start = Instant::now();
    steps.show("loading");
    let model = Model::load(path)?;
    let setup = setup.clone().profile(files.profile.is_some());
    let opened = setup.observe(steps.observer()).open()?;
    let engine = &opened.engine;
    let note = |n: String| steps.say(&n);
    let given = inputs.all(&model, engine, note, note)?;
    files.make_folder()?;
    let session = model.on(engine);
    session.on_progress(steps.progress());
    let loaded = start.elapsed().as_secs_f64();

    let mut first = None;
    let mut later = Times::default();
    let mut outputs = Outputs(Vec::new());
    for _ in 0..work.repeat {
        let start = Instant::now();
        outputs = session.run(given.iter().map(|(n, v)| (n, v.clone())))?;
        engine.synchronize()?;
        match first {
            None => first = Some(start.elapsed()),
            Some(_) => later.add(start.elapsed()),
        }
        output::is_read()?;
    }
    steps.done();
    let first = first.unwrap_or_default().as_secs_f64();
    say!("loaded   {loaded:.3} s");
    say!("first    {first:.3} s, including scheduling, compiling and packing");
    if !later.is_empty() {
        say!("later    {later}");
    }
    if let Some(path) = &files.profile {
        write_trace(engine, path)?;
        say!("trace    {}, open it at ui.perfetto.dev", path.display());
    }
    shown(&outputs, work, files, inputs)
}

/// Prints outputs, and writes them where that is wanted.
fn shown(outputs: &Outputs, work: &Work, files: &Files, inputs: &InputArgs) -> Result<(), Error> {
    for (name, value) in &outputs.0 {
        print(name, value, work.top)?;
    }
    if let Some(folder) = &files.output {
        save(folder, outputs, inputs)?;
    }
    Ok(())
}

fn print(name: &str, value: &Value, top: Option<u32>) -> Result<(), Error> {
    let tensor = match value {
        Value::Tensor(Array {
            tensor,
            elem: Elem::Plain(_),
        }) => tensor,
        other => return output::line(format_args!("{name}: {other}")),
    };
    output::line(format_args!("{name}: {value}"))?;
    match top {
        Some(k) => largest(tensor, k as usize),
        None => {
            let text = tensor.show()?;
            output::line(format_args!("{text}"))
        }
    }
}

/// The largest elements of each row, of the first rows.
fn largest(tensor: &Tensor, k: usize) -> Result<(), Error> {
    const ROWS: usize = 16;
    let numbers = tensor.to_f64_vec()?;
    let width = tensor.shape().last().copied().unwrap_or(1).max(1);
    // Trailing axes of size 1 (a pooled image) are no rows of their own.
    let width = match width {
        1 => tensor
            .shape()
            .iter()
            .copied()
            .rev()
            .find(|&n| n > 1)
            .unwrap_or(1),
        width => width,
    };
    let rows = numbers.len() / width;
    for (i, row) in numbers.chunks_exact(width).take(ROWS).enumerate() {
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
        let shown: Vec<String> = order
            .iter()
            .take(k)
            .map(|&at| format!("{at}: {:.6}", row[at]))
            .collect();
        let lead = if rows > 1 {
            format!("row {i}: ")
        } else {
            String::new()
        };
        output::line(format_args!("  {lead}{}", shown.join(", ")))?;
    }
    match rows > ROWS {
        true => output::line(format_args!("  ... {} more rows", rows - ROWS)),
        false => Ok(()),
    }
}

fn save(folder: &Path, outputs: &Outputs, inputs: &InputArgs) -> Result<(), Error> {
    let file = |path: &Path| {
        let path = path.display().to_string();
        move |source| Error::File { path, source }
    };
    std::fs::create_dir_all(folder).map_err(file(folder))?;
    let mut taken = HashSet::new();
    for (i, (name, value)) in outputs.0.iter().enumerate() {
        let mut stem = file_stem(name);
        if !taken.insert(stem.clone()) {
            stem = format!("{stem}_{i}");
        }
        let plain = value
            .as_tensor()
            .filter(|t| !matches!(t.dtype(), DType::BF16 | DType::F8E4M3 | DType::F8E5M2));
        let path = match plain {
            Some(tensor) => {
                let path = folder.join(stem + ".npy");
                apart(&path, inputs.files())?;
                tensor.write_npy(&path)?;
                path
            }
            None => {
                let path = folder.join(stem + ".pb");
                apart(&path, inputs.files())?;
                write(&path, &backend::encode(name, value)?)?;
                path
            }
        };
        say!("wrote    {}", path.display());
    }
    Ok(())
}

/// A name from a model may be anything; a file stays in its folder, and is not hidden.
fn file_stem(name: &str) -> String {
    let safe = |c: char| match c.is_alphanumeric() || "-_.".contains(c) {
        true => c,
        false => '_',
    };
    let stem: String = name.chars().map(safe).take(100).collect();
    match stem.starts_with('.') || stem.is_empty() {
        true => format!("_{stem}"),
        false => stem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_files_of_the_folder() {
        for (name, stem) in [
            ("gpu_0/softmax_1", "gpu_0_softmax_1"),
            ("../up", "_.._up"),
            ("", "_"),
            ("y.1", "y.1"),
        ] {
            assert_eq!(file_stem(name), stem);
        }
    }
}
