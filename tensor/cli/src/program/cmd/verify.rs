//! `doorbell verify`: the results of a model bundle against those of the model, or of another target of the file.

use std::path::PathBuf;
use std::time::Duration;

use crate::Setup;
use crate::model_bundle::{dtype, states_of};
use doorbell_run::plan::TargetPlan;
use doorbell_run::source::Source;
use doorbell_run::{Chain, Model as Loaded, ModelBundle, Port};
use tensor::onnx::{Carried, Model, Session};
use tensor::{Engine, Tensor};

use crate::program::bound::bound;
use crate::program::cmd::bundle::{once, placed};
use crate::program::error::Error;
use crate::program::inputs::InputArgs;
use crate::program::output::{self, say};

/// Compare the results of a model bundle on the device with those of its model on the CPU, or of its own code for CPUs.
///
/// Prints the largest difference of each output over all runs, and fails if one is larger than the tolerance. Inputs that
/// are not given are random. DEV or --dev says on which device the bundle runs; without it, the first GPU of the file is simulated.
#[derive(clap::Args)]
pub struct Args {
    /// The bundle
    file: PathBuf,
    /// The model that it was made from; without it, the bundle's code for CPUs is the reference
    #[arg(long, value_name = "MODEL.onnx")]
    model: Option<PathBuf>,
    /// Number of runs, each with other random inputs; states go from one to the next
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Largest difference, relative to the largest element of the reference; default: 0.001, with --half 0.02
    #[arg(long, value_name = "X", value_parser = bound)]
    tolerance: Option<f64>,
    /// How long a run may take, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 600_000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    inputs: InputArgs,
}

/// The largest difference of an output.
#[derive(Clone, Copy, Default)]
struct Worst {
    absolute: f64,
    relative: f64,
    /// Elements that are no numbers on one side alone.
    odd: usize,
}

/// What results are compared with.
enum Reference {
    Bundle(Box<Loaded>),
    Model {
        session: Box<Session>,
        states: Vec<(Carried, Tensor)>,
    },
}

/// Runs both, compares, prints.
pub fn run(args: &Args, setup: &Setup) -> Result<(), Error> {
    let bundle = ModelBundle::open(&args.file).map_err(crate::Error::from)?;
    bundle.check().map_err(crate::Error::from)?;
    args.inputs.check_ports(bundle.inputs())?;
    let simulated = match setup.is_chosen() {
        true => None,
        false => first_simulated(&bundle)?,
    };
    let Some((target, setup)) = simulated else {
        return compare(args, &bundle, setup);
    };
    #[cfg(not(feature = "twin"))]
    if setup.simulated().is_some() {
        // It runs this command again.
        return Err(crate::program::handover::run(&target));
    }
    say!("note: no device is chosen: DEV={target}");
    compare(args, &bundle, &setup)?;
    Ok(setup.check_rules()?)
}

/// The first target of a file that is simulated, and what simulates it; none of a file for CPUs alone.
fn first_simulated(bundle: &ModelBundle) -> Result<Option<(String, Setup)>, Error> {
    let mut refused = Vec::new();
    for target in bundle.targets().iter().filter_map(simulated) {
        match Setup::of(&target) {
            Ok(setup) => return Ok(Some((target, setup))),
            Err(e @ crate::Error::Twin { .. }) => refused.push(e.to_string()),
            Err(e) => return Err(e.into()),
        }
    }
    match refused.is_empty() {
        true => Ok(None),
        false => Err(Error::Usage(format!(
            "no device is chosen, and none of the file is simulated: {}. Choose the device itself (DEV=QCOM, on the board), or \
             compile the model for a chip that is simulated as well (--target) and verify that",
            refused.join("; ")
        ))),
    }
}

/// What simulates the device of a target.
fn simulated(plan: &TargetPlan) -> Option<String> {
    let way = match plan.device.as_str() {
        "AMD" => "KFD",
        "NV" => "NVK",
        "QCOM" => "KGSL",
        _ => return None,
    };
    Some(format!("TWIN{way}+{}::{}", plan.device, plan.arch))
}

fn compare(args: &Args, bundle: &ModelBundle, setup: &Setup) -> Result<(), Error> {
    let mut model = placed(bundle, setup)?;
    let engine = Setup::of("CPU")?.open()?.engine;
    let mut reference = reference(args, bundle, &model, &engine)?;
    let limit = Duration::from_millis(args.limit.into());
    say_seeds(args, bundle);
    let mut worst = vec![Worst::default(); bundle.outputs().len()];
    for n in 0..args.runs {
        let inputs = args
            .inputs
            .of_ports(bundle.inputs(), &engine, u64::from(n))?;
        for (name, tensor) in &inputs {
            model
                .write_input(name, &tensor.to_bytes()?)
                .map_err(crate::Error::from)?;
        }
        once(&mut model, limit)?;
        let expected = reference.run(&inputs, bundle.outputs(), limit)?;
        for ((port, expected), worst) in bundle.outputs().iter().zip(expected).zip(&mut worst) {
            let found = read(&mut model, port, &engine)?;
            if found.shape() != expected.shape() {
                return Err(Error::Check(format!(
                    "output {}: expected the shape {:?} of the reference, found {:?}",
                    port.name,
                    expected.shape(),
                    found.shape()
                )));
            }
            worst.add(&found.to_f64_vec()?, &expected.to_f64_vec()?);
        }
    }
    let half = bundle
        .about()
        .options
        .iter()
        .any(|option| option == "half=yes");
    let tolerance = args.tolerance.unwrap_or(if half { 0.02 } else { 0.001 });
    let info = model.device().info();
    say!("device    {} {} {}", info.id, info.arch, info.name);
    say!("reference {}", reference.name());
    let mut failed = Vec::new();
    for (port, worst) in bundle.outputs().iter().zip(&worst) {
        let Worst {
            absolute,
            relative,
            odd,
        } = worst;
        output::line(format_args!(
            "{}: largest difference {absolute:.3e}, {relative:.3e} of the largest element{}",
            port.name,
            match odd {
                0 => String::new(),
                n => format!(", {n} elements that are numbers on one side alone"),
            }
        ))?;
        if *relative > tolerance || *odd > 0 {
            failed.push(port.name.as_str());
        }
    }
    match failed.is_empty() {
        true => output::line(format_args!("ok within {tolerance} in {} runs", args.runs)),
        false => Err(Error::Check(format!(
            "outputs {} differ by more than {tolerance}; if that is accurate enough for the model, pass --tolerance",
            failed.join(", ")
        ))),
    }
}

/// Says what random inputs are made of, so that a run can be done again.
fn say_seeds(args: &Args, bundle: &ModelBundle) {
    let names = bundle.inputs().iter().map(|port| port.name.as_str());
    let random: Vec<&str> = names.filter(|name| !args.inputs.gives(name)).collect();
    let seeds = match args.runs {
        1 => "seed 0".to_owned(),
        n => format!("seeds 0 to {}, one for each run", n - 1),
    };
    if let [first, ..] = random[..] {
        say!(
            "random    {}: {seeds}; --input {first}=rand:SEED is that of one seed",
            random.join(", ")
        );
    }
}

/// An output as a tensor.
fn read(model: &mut Loaded, port: &Port, engine: &Engine) -> Result<Tensor, Error> {
    let mut bytes = vec![0; port.bytes().unwrap_or_default() as usize];
    model
        .read_output(&port.name, &mut bytes)
        .map_err(crate::Error::from)?;
    tensor_of(bytes, port, engine)
}

fn tensor_of(bytes: Vec<u8>, port: &Port, engine: &Engine) -> Result<Tensor, Error> {
    let shape: Vec<usize> = port.shape.iter().map(|&n| n as usize).collect();
    Ok(Tensor::from_bytes(
        engine,
        bytes,
        &shape,
        dtype(port.element),
    )?)
}

fn reference(
    args: &Args,
    bundle: &ModelBundle,
    model: &Loaded,
    engine: &Engine,
) -> Result<Reference, Error> {
    let Some(path) = &args.model else {
        if bundle.targets()[model.target()].device == "CPU" {
            return Err(Error::Usage(
                "the bundle runs on the CPU, which would be compared with itself; pass --model MODEL.onnx".into(),
            ));
        }
        let own = Chain::parse("CPU").and_then(|chain| chain.place(bundle));
        let own = own.map_err(|e| {
            Error::Usage(format!(
                "there is no reference: pass --model MODEL.onnx, or compile with --target CPU ({e})"
            ))
        })?;
        return Ok(Reference::Bundle(Box::new(own.model)));
    };
    let hash = Source::open(path).and_then(|source| source.sha256());
    let about = bundle.about();
    if hash.map_err(crate::Error::from)? != about.model_sha256 {
        return Err(Error::Usage(format!(
            "{}: expected the file that the bundle was made from, {}; its hash differs",
            path.display(),
            about.model
        )));
    }
    let session = Model::load(path)?.on(engine);
    let mut states = Vec::new();
    for (carried, state) in states_of(about).into_iter().zip(bundle.states()) {
        states.push((carried, first(model, bundle, &state.port, engine)?));
    }
    Ok(Reference::Model {
        session: Box::new(session),
        states,
    })
}

/// The first value of a state: a model that was loaded anew has it.
fn first(
    model: &Loaded,
    bundle: &ModelBundle,
    port: &Port,
    engine: &Engine,
) -> Result<Tensor, Error> {
    let limit = Duration::from_secs(60);
    let mut fresh = Loaded::load(bundle, model.target(), model.device().clone(), limit)
        .map_err(crate::Error::from)?;
    let mut bytes = vec![0; port.bytes().unwrap_or_default() as usize];
    fresh
        .read_state(&port.name, &mut bytes)
        .map_err(crate::Error::from)?;
    tensor_of(bytes, port, engine)
}

impl Reference {
    fn name(&self) -> String {
        match self {
            Reference::Bundle(model) => format!("the bundle on {}", model.device().info().id),
            Reference::Model { session, .. } => format!("the model on {}", session.engine().name()),
        }
    }

    /// The outputs for these inputs.
    fn run(
        &mut self,
        inputs: &[(String, Tensor)],
        outputs: &[Port],
        limit: Duration,
    ) -> Result<Vec<Tensor>, Error> {
        match self {
            Reference::Bundle(model) => {
                for (name, tensor) in inputs {
                    model
                        .write_input(name, &tensor.to_bytes()?)
                        .map_err(crate::Error::from)?;
                }
                once(model, limit)?;
                let engine = Engine::reference();
                outputs
                    .iter()
                    .map(|port| read(model, port, &engine))
                    .collect()
            }
            Reference::Model { session, states } => {
                let given = inputs
                    .iter()
                    .map(|(name, tensor)| (name.clone(), tensor.clone()));
                let carried = states
                    .iter()
                    .map(|(c, value)| (c.input.clone(), value.clone()));
                let results = session.run(given.chain(carried))?;
                let find = |name: &str| {
                    results.tensor(name).cloned().ok_or_else(|| {
                        Error::Check(format!("the model has no output {name} that is a tensor"))
                    })
                };
                for (carried, value) in &mut *states {
                    *value = carried.carry.next(value, &find(&carried.output)?)?;
                    session.engine().realize(&[value])?;
                }
                outputs.iter().map(|port| find(&port.name)).collect()
            }
        }
    }
}

impl Worst {
    fn add(&mut self, found: &[f64], expected: &[f64]) {
        let finite = expected.iter().filter(|x| x.is_finite());
        let largest = finite.fold(0.0f64, |most, x| most.max(x.abs()));
        for (a, b) in found.iter().zip(expected) {
            if a == b || a.is_nan() && b.is_nan() {
                continue;
            }
            if !a.is_finite() || !b.is_finite() {
                self.odd += 1;
                continue;
            }
            let difference = (a - b).abs();
            self.absolute = self.absolute.max(difference);
            self.relative = self
                .relative
                .max(difference / largest.max(f64::MIN_POSITIVE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_relative_to_the_largest_element() {
        let mut worst = Worst::default();
        worst.add(&[1.0, 98.0, f64::NAN], &[2.0, 100.0, f64::NAN]);
        assert_eq!((worst.absolute, worst.relative, worst.odd), (2.0, 0.02, 0));
        worst.add(&[f64::INFINITY, f64::NAN], &[f64::INFINITY, 1.0]);
        assert_eq!(worst.odd, 1);
    }
}
