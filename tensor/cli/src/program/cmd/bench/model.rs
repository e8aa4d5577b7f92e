//! A model: until the first result, from then on, and the most memory.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Setup;
use tensor::exec::{DeviceExecutor, Preparation};
use tensor::onnx::{Elem, Model, Value};
use tensor::{Engine, Tensor};

use super::{Args, Row, TIME};
use crate::program::error::Error;
use crate::program::output::say;

/// Later runs that are timed, at least and at most, where their number is not given.
const RUNS: Range<usize> = 3..1000;

/// Rows `first run` (seconds from the start of the program), `steady` (ms) and `peak memory` (MB of
/// the process, everything included), and of what the first run consists. Inputs that are not given are
/// random; their integers are 1.
pub fn rows(path: &Path, args: &Args, started: Instant, setup: &Setup) -> Result<Vec<Row>, Error> {
    let model = Model::load(path)?;
    let opened = setup.open()?;
    let threads = opened.device.info().units as usize;
    let assumed = |n: String| say!("{n}");
    let mut given = args.inputs.all(&model, &opened.engine, |_| (), assumed)?;
    for (name, value) in &mut given {
        if !args.inputs.gives(name) {
            ones(value, &opened.engine)?;
        }
    }
    let session = model.on(&opened.engine);
    let mut run = || -> Result<(), Error> {
        let outputs = session.run(given.iter().map(|(n, v)| (n, v.clone())))?;
        opened.engine.synchronize()?;
        std::hint::black_box(outputs);
        Ok(())
    };
    run()?;
    let first = started.elapsed().as_secs_f64();
    let before = DeviceExecutor::of(&opened.engine).map(DeviceExecutor::preparation);
    let mut times = Vec::new();
    let start = Instant::now();
    let enough = |count: usize| match args.repeat {
        Some(repeat) => count >= repeat.max(1),
        None => count >= RUNS.end || (count >= RUNS.start && start.elapsed() >= TIME),
    };
    while !enough(times.len()) {
        times.push(super::timed(&mut run)? * 1e3);
    }
    let stem = stem(path);
    let row = |what: &str, unit, values| Row::new(format!("{stem} {what}"), threads, unit, values);
    let mut rows = vec![
        row("first run", "s", vec![first]),
        row("steady", "ms", times),
        row("peak memory", "MB", vec![peak_mb()?]),
    ];
    for (what, unit, value) in before.map(parts).into_iter().flatten() {
        rows.push(row(what, unit, vec![value]));
    }
    Ok(rows)
}

/// What the first run consists of, besides reading the model and running it. `optimise` and `LLVM` (or
/// another compiler) are the time of all threads together, `compile` is both on the wall.
fn parts(p: Preparation) -> [(&'static str, &'static str, f64); 9] {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    [
        ("modules", "of code", p.modules as f64),
        ("distinct", "of code", p.distinct as f64),
        ("from the cache", "of code", p.cached as f64),
        ("schedule", "ms", ms(p.schedule)),
        ("optimise", "ms", ms(p.optimise)),
        ("LLVM", "ms", ms(p.compiler)),
        ("compile", "ms", ms(p.compiling)),
        ("load", "ms", ms(p.load)),
        ("pack", "ms", ms(p.pack)),
    ]
}

/// The name of the file, or of its folder if every model is called so.
fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    let folder = path.parent().and_then(Path::file_name);
    let name = match folder {
        Some(folder) if stem == "model" => folder,
        _ => stem,
    };
    name.to_string_lossy().into_owned()
}

/// Integers become 1: token numbers, masks and types for which random ones make no sense.
fn ones(value: &mut Value, engine: &Engine) -> Result<(), Error> {
    if let Value::Tensor(array) = value
        && let Elem::Plain(dtype) = array.elem
        && !dtype.is_float()
    {
        let shape = array.tensor.shape().to_vec();
        let mut bytes = vec![0; array.tensor.numel() * dtype.size()];
        bytes.iter_mut().step_by(dtype.size()).for_each(|b| *b = 1);
        *value = Tensor::from_bytes(engine, bytes, &shape, dtype)?.into();
    }
    Ok(())
}

/// The most memory that this process had, in MB (`VmHWM` of proc(5)).
fn peak_mb() -> Result<f64, Error> {
    let path = PathBuf::from("/proc/self/status");
    let text = std::fs::read_to_string(&path).map_err(|source| Error::File {
        path: path.display().to_string(),
        source,
    })?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.map(|k| k / 1024.0)
        .ok_or_else(|| Error::Check("/proc/self/status: expected VmHWM, found none".into()))
}
