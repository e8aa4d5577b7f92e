//! Model bundles: an ONNX model compiled for one or several devices, none of which has to be here, into one file.
//!
//! ```no_run
//! use doorbell::model_bundle::Recipe;
//! use doorbell::onnx::Model;
//!
//! # fn main() -> Result<(), doorbell::Error> {
//! let engine = doorbell::open_target("CPU")?; // computes what depends on weights only
//! let model = Model::load("model.onnx")?;
//! let x = doorbell::Tensor::full(&engine, &[1, 3, 224, 224], 0.0, doorbell::DType::F32)?;
//! let recipe = Recipe::new(["CPU::aarch64", "AMD::gfx1100"])?;
//! let made = recipe.compile(&model, &engine, [("x".into(), x.into())])?;
//! std::fs::write("model.dbx", made.bytes)?;
//! # Ok(())
//! # }
//! ```
//!
//! The crate `doorbell-run` runs the file.

mod convert;
mod target;

use std::path::Path;

use codegen::Backend;
use doorbell_run::plan::{About, Port, TargetPlan};
use doorbell_run::source::Source;
use doorbell_run::write::BundleWriter;
use tensor::jit::export::Operands;
use tensor::onnx::{Carried, Carry, Model, PortType, Precision, Value};
use tensor::{DType, Engine, Tensor};

use crate::open::{Error, Result};
#[cfg(feature = "cli")]
pub(crate) use convert::element;
pub use target::Target;

/// Threads that a processor's code is laid out for.
pub const THREADS: usize = 4;

/// How a bundle is made.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// What it is for.
    pub targets: Vec<Target>,
    /// Products read `f16`, and sum in `f32`. What positions, integers or whole numbers are made of stays `f32`.
    pub half: bool,
    /// Threads that a processor's code is laid out for; it runs on any number.
    pub threads: usize,
    /// Kernels for Adreno may read buffers as images. Yes, unless it is to be seen what that gains.
    pub qcom_images: bool,
    /// Inputs that a run finds as the run before left them.
    pub states: Vec<Carried>,
}

/// A bundle, and what is in it.
pub struct Made {
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    /// Each target with the number of launches of a run.
    pub targets: Vec<(String, usize)>,
    /// What became of the operands of products, if they were to be `f16`.
    pub operands: Option<Operands>,
}

impl Recipe {
    /// For these targets, as in `DEV`.
    ///
    /// # Errors
    /// A target that is not understood.
    pub fn new<'t>(targets: impl IntoIterator<Item = &'t str>) -> Result<Recipe> {
        let targets = targets.into_iter().map(Target::parse);
        Ok(Recipe {
            targets: targets.collect::<Result<_>>()?,
            half: false,
            threads: THREADS,
            qcom_images: true,
            states: Vec::new(),
        })
    }

    /// Compiles a model for inputs of these shapes. The values of inputs that become states are their first values; those of
    /// others are not looked at, unless shapes depend on them. The engine, on the CPU device, computes what depends on
    /// weights only.
    ///
    /// # Errors
    /// A model that cannot be captured; a missing compiler; a kernel that it refuses.
    pub fn compile(
        &self,
        model: &Model,
        engine: &Engine,
        inputs: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Made> {
        let backends = self.backends()?;
        let inputs: Vec<(String, Value)> = inputs.into_iter().collect();
        let session = model.on(engine);
        let given = inputs.iter().map(|(name, value)| (name, value.clone()));
        let native = |b: &Backend| b.target.native.contains(&DType::F64);
        let precision = Precision {
            half: self.half,
            doubles: backends.iter().all(native),
        };
        let exported = session.export(given, &self.states, precision)?;
        let mut states = Vec::with_capacity(exported.states.len());
        for state in &exported.states {
            let value = inputs.iter().find(|(name, _)| *name == state.name);
            let tensor = value.and_then(|(_, value)| value.as_tensor());
            let bytes = tensor.map(Tensor::to_bytes).transpose()?;
            // Zeros need no place in the file.
            let first = bytes.filter(|bytes| bytes.iter().any(|&byte| byte != 0));
            states.push((port(state), first));
        }
        let mut options = self.options();
        for fixed in &exported.fixed {
            options.push(format!("fixed={}={}", fixed.input, fixed.value));
        }
        let file = Path::new(model.file());
        let about = About {
            model: file.file_name().map_or_else(
                || model.file().to_owned(),
                |name| name.to_string_lossy().into_owned(),
            ),
            // A model that is in memory has no file.
            model_sha256: match file.is_file() {
                true => Source::open(file)?.sha256()?,
                false => [0; 32],
            },
            doorbell: env!("CARGO_PKG_VERSION").into(),
            options,
        };
        let ports = |ports: &[PortType]| ports.iter().map(port).collect();
        let (own, results) = (ports(&exported.inputs), ports(&exported.outputs));
        let mut writer = BundleWriter::new(about, own, results, states);
        let mut targets = Vec::with_capacity(self.targets.len());
        let compilers = std::thread::available_parallelism().map_or(1, |n| n.get());
        for (target, backend) in self.targets.iter().zip(&backends) {
            let options = codegen::Options {
                deterministic: true,
                threads: target.threads(self.threads),
                ..codegen::Options::default()
            };
            let plan = exported.compile(backend, &options, compilers)?;
            let (plan, code) = convert::plan(target, backend, plan, &mut writer)?;
            targets.push((plan.name(), plan.steps.len()));
            let code: Vec<&[u8]> = code.iter().map(|code| &**code).collect();
            writer.target(plan, &code);
        }
        Ok(Made {
            bytes: writer.finish()?,
            targets,
            operands: exported.operands(),
        })
    }

    /// The compiler of each target. Two for the same code would be one too many: a device runs one of them.
    fn backends(&self) -> Result<Vec<Backend>> {
        let mut known: Vec<(String, &Target)> = Vec::new();
        let mut all = Vec::with_capacity(self.targets.len());
        for target in &self.targets {
            let backend = match (target.backend(self.threads)?, self.qcom_images) {
                (backend, true) => backend,
                (backend, false) => backend.without_images(),
            };
            let plan = TargetPlan {
                device: target.device().into(),
                arch: target.arch(&backend),
                features: target.features(&backend),
                ..TargetPlan::default()
            };
            let name = plan.name();
            if let Some((_, first)) = known.iter().find(|(known, _)| *known == name) {
                return Err(Error::Recipe {
                    asked: format!("--target {target}"),
                    why: format!(
                        "expected other code than that of --target {first}, found the same, {name}; leave one of them out"
                    ),
                });
            }
            known.push((name, target));
            all.push(backend);
        }
        Ok(all)
    }

    /// The options as the file has them; [`states_of`] reads those of states.
    fn options(&self) -> Vec<String> {
        let mut options = vec![format!("threads={}", self.threads)];
        if self.half {
            options.push("half=yes".into());
        }
        if !self.qcom_images {
            options.push("qcom-images=no".into());
        }
        for Carried {
            input,
            output,
            carry,
        } in &self.states
        {
            options.push(match carry {
                Carry::Replace => format!("state={input}={output}"),
                Carry::Append(axis) => format!("queue={input}={output}@{axis}"),
            });
        }
        options
    }
}

/// The states of a bundle, with the outputs that they follow.
pub fn states_of(about: &About) -> Vec<Carried> {
    let parsed = about.options.iter().filter_map(|option| {
        let (key, rest) = option.split_once('=')?;
        match key {
            "state" => parse_state(rest),
            "queue" => parse_queue(rest),
            _ => None,
        }
    });
    parsed.collect()
}

/// `INPUT=OUTPUT`.
pub fn parse_state(text: &str) -> Option<Carried> {
    let (input, output) = text.split_once('=')?;
    Some(Carried {
        input: input.into(),
        output: output.into(),
        carry: Carry::Replace,
    })
}

/// `INPUT=OUTPUT` or `INPUT=OUTPUT@AXIS`; the axis is 0 unless it is given.
pub fn parse_queue(text: &str) -> Option<Carried> {
    let mut carried = parse_state(text)?;
    let mut at = 0;
    if let Some((output, axis)) = carried.output.rsplit_once('@')
        && let Ok(axis) = axis.parse()
    {
        at = axis;
        carried.output = output.to_owned();
    }
    carried.carry = Carry::Append(at);
    Some(carried)
}

fn port(port: &PortType) -> Port {
    Port {
        name: port.name.clone(),
        element: convert::element(port.dtype),
        shape: port.shape.iter().map(|&n| n as u64).collect(),
    }
}

/// The type of tensors for an element type of a bundle.
pub fn dtype(element: doorbell_run::Element) -> tensor::DType {
    let mut all = tensor::DType::ALL.into_iter();
    let found = all.find(|&dtype| convert::element(dtype) == element);
    // Each has one, which a test checks.
    found.unwrap_or(tensor::DType::U8)
}

impl From<doorbell_run::Error> for Error {
    fn from(e: doorbell_run::Error) -> Error {
        Error::ModelBundle(Box::new(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_as_they_were_written() {
        let queue = parse_queue("a=b@c@1").unwrap();
        assert_eq!((&*queue.output, queue.carry), ("b@c", Carry::Append(1)));
        assert_eq!(parse_queue("a=b").unwrap().carry, Carry::Append(0));
        assert!(parse_state("a").is_none());
        let mut recipe = Recipe::new(["CPU"]).unwrap();
        recipe.states = vec![queue, parse_state("h=h_next").unwrap()];
        let about = About {
            options: recipe.options(),
            ..About::default()
        };
        assert_eq!(states_of(&about), recipe.states);
    }

    #[test]
    fn every_type_has_one_in_a_bundle() {
        for each in tensor::DType::ALL {
            assert_eq!(dtype(convert::element(each)), each);
        }
    }
}
