//! What a recording may ask for. Its command and its variables were written by whoever made the file, so that they are
//! read into the few types here: work on the device that was recorded, with numbers and names as options. No type here
//! has room for a file that is written or read; what work needs of files is said by the person who replays.

use std::path::Path;

use crate::Setup;
use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand, ValueEnum};
use drivers::select::DeviceKind;
use drivers::trace::recording::Origin;

use crate::program::cmd::{bench, bringup, demo, onnx_test, regs, run};
use crate::program::error::Error;
use crate::program::inputs::Made;

use super::scratch::Scratch;

/// The variables that a recording may have: they choose the device, or how it works, by numbers and names.
const VARIABLES: [&str; 43] = [
    "ALLOW_TF32",
    "AMD",
    "AMD_AQL",
    "AMD_CC",
    "AMD_HIP",
    "AMD_IFACE",
    "AMD_LLVM",
    "AMD_RESET",
    "BEAM",
    "CPU",
    "CPU_CC",
    "CPU_CLANG",
    "CPU_CLANGJIT",
    "CPU_COUNT",
    "CPU_LLVM",
    "CUDA",
    "CUDA_PTX",
    "DEBUG",
    "DETERMINISTIC",
    "DEV",
    "HCQDEV_WAIT_TIMEOUT_MS",
    "HCQDEV_WORK_TIMEOUT_MS",
    "HCQ_STRICT_ENV",
    "HCQ_VISIBLE_DEVICES",
    "HIP",
    "JIT",
    "MOCKGPU",
    "MOCKKFD",
    "MOCKNVK",
    "MOCKPCI",
    "MOCKUSB",
    "NO_COLOR",
    "NV",
    "NV_CC",
    "NV_CUDA",
    "NV_IFACE",
    "NV_LLVM",
    "NV_NAK",
    "NV_NVCC",
    "NV_NVRTC",
    "NV_PTX",
    "NV_WGMMA",
    "PROFILE",
];

/// The variable of the person who replays that counts: firmware is not in a recording.
const OF_THE_PERSON: &str = "HCQDEV_FIRMWARE";

/// Whether a recording may have a variable.
pub fn is_taken([name, _]: &[String; 2]) -> bool {
    VARIABLES.contains(&name.as_str())
}

/// A command line of a recording.
#[derive(Parser)]
#[command(
    name = "doorbell",
    disable_help_flag = true,
    disable_help_subcommand = true
)]
struct Line {
    #[arg(long, global = true)]
    dev: Option<String>,
    #[command(subcommand)]
    command: Recorded,
}

/// The commands that replay.
#[derive(Subcommand)]
enum Recorded {
    Demo(demo::Work),
    Bringup(bringup::Args),
    Bench(Bench),
    #[command(subcommand)]
    Regs(Regs),
    Run(Run),
    OnnxTest(OnnxTest),
}

#[derive(clap::Args)]
struct Bench {
    what: Fixed,
    #[arg(long)]
    json: bool,
}

/// What of `bench` does as much whatever the time.
#[derive(Clone, Copy, ValueEnum)]
enum Fixed {
    Launch,
}

#[derive(Subcommand)]
enum Regs {
    Read(regs::Read),
    Write(regs::Write),
}

#[derive(clap::Args)]
struct Run {
    /// What the recording calls its model: the model itself is the person's.
    model: String,
    #[command(flatten)]
    inputs: Made,
    #[command(flatten)]
    work: run::Work,
}

#[derive(clap::Args)]
struct OnnxTest {
    /// As above.
    folder: String,
    #[command(flatten)]
    work: onnx_test::Work,
}

/// Work that is done again.
pub struct Work {
    line: Line,
    variables: Vec<[String; 2]>,
}

impl Work {
    /// What the recording of a file asks for.
    ///
    /// # Errors
    /// Whatever a recording may not ask for, by its name.
    pub fn of(origin: &Origin, file: &Path) -> Result<Work, Error> {
        let file = file.display();
        if let Some([name, value]) = origin.variables.iter().find(|one| !is_taken(one)) {
            return Err(Error::Usage(format!(
                "{file}: a recording may not set {name}={value:?}, only variables that choose or \
                 configure the device. Delete that line to replay without it"
            )));
        }
        let name = std::iter::once("doorbell");
        let all = name.chain(origin.arguments.iter().map(String::as_str));
        let line = Line::try_parse_from(all).map_err(|e| refused(&file, &e))?;
        Ok(Work {
            line,
            variables: origin.variables.clone(),
        })
    }

    /// The device that was recorded, for which nothing may stand but a recording.
    ///
    /// # Errors
    /// A device that is not understood, and the CPU, which works without what is recorded.
    pub fn setup(&self, file: &Path) -> Result<Setup, Error> {
        let mut variables = self.variables.clone();
        let ours = Setup::variables().map_err(Error::from)?;
        variables.extend(ours.into_iter().filter(|[name, _]| name == OF_THE_PERSON));
        let setup = Setup::of_variables(self.line.dev.as_deref(), &variables, false)?;
        match setup.target().device {
            DeviceKind::Cpu => Err(Error::Usage(format!(
                "{}: the recorded command runs on the CPU, whose accesses are not recorded: nothing to replay",
                file.display()
            ))),
            _ => Ok(setup),
        }
    }

    /// Whether it works with files, which the person has to name.
    ///
    /// # Errors
    /// It does: what they are.
    pub fn needs_nothing(&self, file: &Path) -> Result<(), Error> {
        let (what, name) = match &self.line.command {
            Recorded::Run(Run { model, .. }) => ("a model", model),
            Recorded::OnnxTest(OnnxTest { folder, .. }) => ("a folder of cases", folder),
            _ => return Ok(()),
        };
        Err(Error::Usage(format!(
            "{}: the recorded command needs {what} ({name:?}); paths in recordings are not opened: pass \
             --model PATH",
            file.display()
        )))
    }

    /// Does it, with the model or the folder that the person has named.
    ///
    /// # Errors
    /// What the command ends with; no model where it needs one.
    pub fn run(
        &self,
        setup: &Setup,
        file: &Path,
        model: Option<&Path>,
        started: std::time::Instant,
    ) -> Result<(), Error> {
        match (&self.line.command, model) {
            (Recorded::Demo(work), _) => {
                let scratch = Scratch::new()?;
                demo::run(work, &demo::Files::inside(scratch.path()), setup)
            }
            (Recorded::Bringup(args), _) => bringup::run(args, setup),
            (Recorded::Bench(args), _) => match args.what {
                Fixed::Launch => bench::run(&bench::Args::launch(args.json), setup, started),
            },
            (Recorded::Regs(Regs::Read(args)), _) => regs::read(args, setup),
            (Recorded::Regs(Regs::Write(args)), _) => regs::write(args, setup),
            (Recorded::Run(Run { inputs, work, .. }), Some(path)) => {
                run::model(path, &inputs.wanted(), work, &run::Files::default(), setup)
            }
            (Recorded::OnnxTest(OnnxTest { work, .. }), Some(path)) => {
                onnx_test::cases(path, work, setup)
            }
            (Recorded::Run(_) | Recorded::OnnxTest(_), None) => self.needs_nothing(file),
        }
    }
}

/// What is wrong with a command line, by the name of what is wrong.
fn refused(file: &std::path::Display<'_>, error: &clap::Error) -> Error {
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(all)) => Some(all.join(", ")),
        _ => None,
    };
    let argument = named(ContextKind::InvalidArg).or_else(|| named(ContextKind::InvalidSubcommand));
    let value = named(ContextKind::InvalidValue).filter(|value| !value.is_empty());
    let what = match (argument, value) {
        (Some(argument), Some(value)) => format!("{argument}, recorded as {value:?}"),
        (Some(argument), None) => argument,
        (None, _) => "no command".into(),
    };
    Error::Usage(format!(
        "{file}: the recorded command has {what}, which is not allowed ({kind}). Allowed: demo, \
         bringup, bench launch, regs read, regs write, run, onnx-test, with options that name no file. \
         Delete the option's line to replay without it",
        kind = error.kind()
    ))
}
