//! `doorbell run` and `doorbell inspect` on a model bundle.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::Setup;
use crate::model_bundle::dtype;
use doorbell_run::plan::{Content, Step, TargetPlan};
use doorbell_run::times::Times;
use doorbell_run::{Model, ModelBundle, Placement, Port};
use serde::Serialize;
use tensor::onnx::{Outputs, Value};
use tensor::{Engine, Tensor};

use crate::program::error::Error;
use crate::program::inputs::InputArgs;
use crate::program::output::{self, say};

/// How long a run may take.
const LIMIT: Duration = Duration::from_secs(600);

/// Whether a file is a model bundle: by its first bytes. One that cannot be read is not.
pub fn is_one(path: &Path) -> bool {
    ModelBundle::is_one(path).unwrap_or(false) || path.extension().is_some_and(|e| e == "dbx")
}

/// A bundle on the first of the selected devices that can run it; why it is not on an earlier one is said once.
pub fn placed(bundle: &ModelBundle, setup: &Setup) -> Result<Model, Error> {
    let placed = setup.chain().place(bundle);
    let Placement { model, notes } = placed.map_err(crate::Error::from)?;
    for note in notes {
        say!("note: {note}");
    }
    Ok(model)
}

/// Runs a model once. A run that is late on the CPU is reported, and ends the program: giving the model back would wait for its
/// threads, which cannot be taken away, maybe forever.
pub fn once(model: &mut Model, limit: Duration) -> Result<(), Error> {
    match model.run(limit) {
        Err(late @ doorbell_run::Error::Late { .. })
            if model.device().info().id.vendor() == "CPU" =>
        {
            say!("error: {late}");
            std::process::exit(late.exit_code().into())
        }
        other => Ok(other.map_err(crate::Error::from)?),
    }
}

/// Runs a bundle `repeat` times, each in `limit`, once it can be read and what `ready` looks at is so; its outputs.
pub fn run(
    path: &Path,
    inputs: &InputArgs,
    (repeat, limit): (u32, Option<Duration>),
    setup: &Setup,
    ready: impl FnOnce() -> Result<(), Error>,
) -> Result<Outputs, Error> {
    let start = Instant::now();
    let bundle = ModelBundle::open(path).map_err(crate::Error::from)?;
    inputs.check_ports(bundle.inputs())?;
    ready()?;
    let mut model = placed(&bundle, setup)?;
    let loaded = start.elapsed().as_secs_f64();
    let engine = Engine::reference();
    for (name, tensor) in inputs.of_ports(bundle.inputs(), &engine, 0)? {
        if !inputs.gives(&name) {
            say!("input {name}: random with seed 0");
        }
        model
            .write_input(&name, &tensor.to_bytes()?)
            .map_err(crate::Error::from)?;
    }
    let limit = limit.unwrap_or(LIMIT);
    let mut later = Times::default();
    let start = Instant::now();
    once(&mut model, limit)?;
    let first = start.elapsed().as_secs_f64();
    for _ in 1..repeat {
        let start = Instant::now();
        once(&mut model, limit)?;
        later.add(start.elapsed());
    }
    say!("loaded   {loaded:.3} s");
    say!("first    {:.3} ms", first * 1e3);
    if !later.is_empty() {
        say!("later    {later}");
    }
    let mut outputs = Vec::with_capacity(bundle.outputs().len());
    for port in bundle.outputs() {
        let mut bytes = vec![0; port.bytes().unwrap_or_default() as usize];
        model
            .read_output(&port.name, &mut bytes)
            .map_err(crate::Error::from)?;
        let shape: Vec<usize> = port.shape.iter().map(|&n| n as usize).collect();
        let tensor = Tensor::from_bytes(&engine, bytes, &shape, dtype(port.element))?;
        outputs.push((port.name.clone(), Value::from(tensor)));
    }
    Ok(Outputs(outputs))
}

#[derive(Serialize)]
struct PortRow {
    name: String,
    r#type: String,
    shape: Vec<u64>,
    bytes: u64,
}

#[derive(Serialize)]
struct TargetRow {
    target: String,
    compiler: String,
    kernels: usize,
    code_bytes: u64,
    /// Commands of a run.
    launches: usize,
    copies: usize,
    /// Commands that are done once, when the bundle is loaded.
    prologue: usize,
    weight_bytes: u64,
    /// Memory beside weights, inputs, outputs and states.
    work_bytes: u64,
}

#[derive(Serialize)]
struct Row {
    file: String,
    bytes: u64,
    version: u32,
    model: String,
    model_sha256: String,
    doorbell: String,
    options: Vec<String>,
    inputs: Vec<PortRow>,
    outputs: Vec<PortRow>,
    states: Vec<PortRow>,
    constant_bytes: u64,
    targets: Vec<TargetRow>,
}

fn port_row(port: &Port) -> PortRow {
    PortRow {
        name: port.name.clone(),
        r#type: port.element.to_string(),
        shape: port.shape.clone(),
        bytes: port.bytes().unwrap_or_default(),
    }
}

fn target_row(plan: &TargetPlan) -> TargetRow {
    let copies = plan
        .steps
        .iter()
        .filter(|s| matches!(s, Step::Copy { .. }))
        .count();
    let sum = |wanted: fn(&Content) -> bool| {
        let regions = plan.regions.iter().filter(|r| wanted(&r.content));
        regions.map(|r| r.bytes).sum()
    };
    TargetRow {
        target: plan.name(),
        compiler: plan.compiler.clone(),
        kernels: plan.objects.len(),
        code_bytes: plan.objects.iter().map(|o| o.bytes).sum(),
        launches: plan.steps.len() - copies,
        copies,
        prologue: plan.prologue.len(),
        weight_bytes: sum(|c| matches!(c, Content::Constant(_))),
        work_bytes: sum(|c| matches!(c, Content::Own)),
    }
}

/// Checks all of a bundle and prints what is in it.
pub fn inspect(path: &Path, json: bool) -> Result<(), Error> {
    let bundle = ModelBundle::open(path).map_err(crate::Error::from)?;
    bundle.check().map_err(crate::Error::from)?;
    let about = bundle.about();
    let row = Row {
        file: path.display().to_string(),
        bytes: bundle.bytes(),
        version: bundle.version(),
        model: about.model.clone(),
        model_sha256: about
            .model_sha256
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
        doorbell: about.doorbell.clone(),
        options: about.options.clone(),
        inputs: bundle.inputs().iter().map(port_row).collect(),
        outputs: bundle.outputs().iter().map(port_row).collect(),
        states: bundle.states().iter().map(|s| port_row(&s.port)).collect(),
        constant_bytes: bundle.constant_bytes(),
        targets: bundle.targets().iter().map(target_row).collect(),
    };
    match json {
        true => output::json("doorbell.inspect-bundle/1", &[row]),
        false => print(&row),
    }
}

/// A compiler with its version; `--json` has the options and passes behind it, too.
fn without_options(compiler: &str) -> String {
    let is_option = |word: &&str| word.starts_with('-') || word.contains(',');
    let words = compiler.split(' ').take_while(|word| !is_option(word));
    let mut words: Vec<&str> = words.collect();
    // The backend and the compiler may have one name.
    words.dedup();
    words.join(" ")
}

fn print(row: &Row) -> Result<(), Error> {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    output::line(format_args!("{}", row.file))?;
    output::line(format_args!(
        "format      version {} of the model bundle, {:.3} MB, all hashes are right",
        row.version,
        mb(row.bytes)
    ))?;
    output::line(format_args!(
        "made from   {}, SHA-256 {}, by doorbell {}",
        row.model, row.model_sha256, row.doorbell
    ))?;
    output::line(format_args!("options     {}", row.options.join(" ")))?;
    for (title, ports) in [
        ("input", &row.inputs),
        ("output", &row.outputs),
        ("state", &row.states),
    ] {
        for port in ports {
            let PortRow {
                name,
                r#type,
                shape,
                ..
            } = port;
            output::line(format_args!("{title:<11} {name}: {type} {shape:?}"))?;
        }
    }
    output::line(format_args!("constants   {:.3} MB", mb(row.constant_bytes)))?;
    for target in &row.targets {
        output::line(format_args!("target      {}", target.target))?;
        output::line(format_args!(
            "            by {}",
            without_options(&target.compiler)
        ))?;
        output::line(format_args!(
            "            {} kernels, {:.3} MB of code; a run: {} launches, {} copies; once: {} launches",
            target.kernels,
            mb(target.code_bytes),
            target.launches,
            target.copies,
            target.prologue
        ))?;
        output::line(format_args!(
            "            {:.3} MB of weights, {:.3} MB of work memory",
            mb(target.weight_bytes),
            mb(target.work_bytes)
        ))?;
    }
    Ok(())
}
