//! `doorbell compile`: a model into one file that `doorbell-run` runs.

use std::path::PathBuf;
use std::time::Instant;

use crate::Setup;
use crate::model_bundle::{Recipe, THREADS, parse_queue, parse_state};
use doorbell_run::ModelBundle;
use doorbell_run::save::{self, apart, save};
use tensor::jit::export::Operands;
use tensor::onnx::{Carried, Model};

use crate::program::error::Error;
use crate::program::inputs::InputArgs;
use crate::program::observe::Steps;
use crate::program::output::{self, say};

/// Compile an ONNX model for devices that need not be here into one file, a model bundle.
///
/// Only input shapes matter, and values that shapes depend on. `doorbell run`, `inspect` and `verify` take the file, as does
/// `doorbell-run`, which has no compiler.
#[derive(clap::Args)]
pub struct Args {
    /// The model
    model: PathBuf,
    /// What it is for: CPU (this processor), CPU::aarch64, CPU::x86-64-v3, AMD::gfx1100, NV::sm_89, QCOM::a630; may be repeated
    #[arg(long = "target", value_name = "TARGET", required = true)]
    targets: Vec<String>,
    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Products read f16 where the model has f32, and sum in f32; what positions are made of stays f32. `verify` prints what
    /// that costs
    #[arg(long)]
    half: bool,
    /// Threads that a processor's code is laid out for; it runs on any number
    #[arg(long, value_name = "N", default_value_t = THREADS as u32, value_parser = clap::value_parser!(u32).range(1..))]
    threads: u32,
    /// An input that is the output of the run before; its first value is that of --input, or zeros
    #[arg(long = "state", value_name = "INPUT=OUTPUT", value_parser = state)]
    states: Vec<Carried>,
    /// An input to which each run appends an output, along an axis (0), and from which the oldest values go
    #[arg(long = "queue", value_name = "INPUT=OUTPUT[@AXIS]", value_parser = queue)]
    queues: Vec<Carried>,
    #[command(flatten)]
    inputs: InputArgs,
}

fn state(text: &str) -> Result<Carried, String> {
    parse_state(text).ok_or_else(|| format!("expected INPUT=OUTPUT, found {text:?}"))
}

fn queue(text: &str) -> Result<Carried, String> {
    parse_queue(text)
        .ok_or_else(|| format!("expected INPUT=OUTPUT or INPUT=OUTPUT@AXIS, found {text:?}"))
}

/// Refuses to write over what is read, and over what is no bundle: it may be weights that the model has beside it.
fn writable(args: &Args) -> Result<(), Error> {
    apart(
        &args.output,
        args.inputs.files().chain([args.model.as_path()]),
    )?;
    let there = std::fs::metadata(&args.output);
    let is_filled = there.is_ok_and(|about| about.is_file() && about.len() > 0);
    match is_filled && !ModelBundle::is_one(&args.output).unwrap_or(false) {
        true => Err(Error::Usage(format!(
            "{}: expected a new file, or a model bundle to replace, found another file; name another one, or remove it",
            args.output.display()
        ))),
        false => Ok(save::writable(&args.output)?),
    }
}

/// Compiles and writes.
pub fn run(args: &Args) -> Result<(), Error> {
    let start = Instant::now();
    writable(args)?;
    let mut recipe = Recipe::new(args.targets.iter().map(String::as_str))?;
    recipe.half = args.half;
    recipe.threads = args.threads as usize;
    recipe.states = args.states.iter().chain(&args.queues).cloned().collect();
    let steps = Steps::new();
    steps.show("loading");
    let model = Model::load(&args.model)?;
    // It computes what depends on weights only, whatever the model is compiled for.
    let setup = Setup::of("CPU")?;
    recipe.qcom_images = setup.settings().qcom_images;
    let engine = setup.open()?.engine;
    let assumed = |n: String| say!("{n}");
    let mut inputs = args.inputs.all(&model, &engine, |_| (), assumed)?;
    // What is made up is no first value.
    for (name, value) in &mut inputs {
        let is_state = recipe.states.iter().any(|s| s.input == *name);
        if let Some(tensor) = value
            .as_tensor()
            .filter(|_| is_state && !args.inputs.gives(name))
        {
            let bytes = vec![0; tensor.numel() * tensor.dtype().size()];
            *value =
                tensor::Tensor::from_bytes(&engine, bytes, tensor.shape(), tensor.dtype())?.into();
        }
    }
    steps.show("compiling");
    let made = recipe.compile(&model, &engine, inputs)?;
    steps.done();
    save(&args.output, &made.bytes)?;
    let seconds = start.elapsed().as_secs_f64();
    for (name, launches) in &made.targets {
        output::line(format_args!("target   {name}: {launches} commands"))?;
    }
    if let Some(operands) = made.operands {
        kept(operands);
    }
    let mb = made.bytes.len() as f64 / 1e6;
    say!("compiled in {seconds:.3} s");
    output::line(format_args!(
        "wrote    {}, {mb:.3} MB",
        args.output.display()
    ))
}

/// Says what stays `f32` in spite of --half.
fn kept(operands: Operands) {
    let Operands {
        half,
        exact,
        beyond,
    } = operands;
    let all = half + exact + beyond;
    if exact > 0 {
        say!(
            "note: {exact} of {all} operands of products stay f32: indices, integers or whole numbers are made of them"
        );
    }
    if beyond > 0 {
        say!(
            "note: {beyond} of {all} operands of products stay f32: f16 does not hold their numbers"
        );
    }
}
