//! `doorbell`: the command line. Data goes to stdout, talk to stderr; `--json` on every query.

mod bound;
mod cmd;
mod digits;
mod error;
#[cfg(any(test, not(feature = "twin")))]
#[cfg_attr(
    feature = "twin",
    allow(dead_code, reason = "there is nothing to hand over")
)]
mod handover;
mod inputs;
mod kernels;
mod net;
mod observe;
mod output;
mod signals;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use doorbell_run::error::EXIT_CODES;
use drivers::select::DeviceKind;

use crate::Setup;

use crate::program::error::Error;
use crate::program::output::say;

/// Runs tensor programs directly on the hardware.
#[derive(Parser)]
#[command(name = "doorbell", version, after_help = after_help(), disable_help_subcommand = true)]
struct Cli {
    /// The device, as in the variable DEV: `[IFACE[:IDX]+]DEVICE[:IDX][:RENDERER[:ARCH]]`
    #[arg(long, global = true, value_name = "TARGET")]
    dev: Option<String>,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Variables:
  DEV    the device: CPU, AMD, PCI+AMD, USB+AMD, NV, TWINKFD+AMD::gfx1100 (simulated); all: `doorbell help targets`
  DEBUG  1 to 7: devices, kernels, applied optimisations, source, IR, linear IR, assembly
  All others: `doorbell help variables`.

Pages: `doorbell help targets` (how to name a device), `variables`, `models`, `hangs`, `tracing`.";

/// What stands behind the commands.
fn after_help() -> String {
    format!("{AFTER_HELP}\n\n{EXIT_CODES}")
}

#[derive(Subcommand)]
enum Command {
    /// Train a small network on handwritten digits, save it, load it, and print its predictions
    Demo(cmd::demo::Args),
    /// List the devices that can be opened
    Devices(cmd::devices::Args),
    /// Check the system (read-only): what is installed, what is missing, how to fix it
    Doctor(cmd::doctor::Args),
    /// Bring up an untested card step by step, from a read-only check to a training step
    Bringup(cmd::bringup::Args),
    /// Measure the device
    Bench(cmd::bench::Args),
    /// Run an ONNX model, or a model bundle
    Run(cmd::run::Args),
    /// Compile an ONNX model for devices that need not be here into one file, a model bundle
    Compile(cmd::compile::Args),
    /// Compare the results of a model bundle with those of its model
    Verify(cmd::verify::Args),
    /// Print what an ONNX model or a model bundle contains: inputs, outputs, operators, parameters, work, what is missing
    Inspect(cmd::inspect::Args),
    /// Run a folder of ONNX backend test cases
    OnnxTest(cmd::onnx_test::Args),
    /// List, show, verify and extract GPU firmware files
    #[command(subcommand)]
    Fw(firmware_tools::command::Command),
    #[command(flatten)]
    Pci(cmd::pci::Command),
    /// List, decode, read and write registers of AMD cards, by the vendor's names
    #[command(subcommand)]
    Regs(cmd::regs::Command),
    /// Print clocks, power, temperature and memory of GPUs, and which processes use them (read-only)
    Smi(cmd::smi::Args),
    /// Print udev rules, groups and limits for using devices without root
    Setup(cmd::setup::Args),
    /// Print shell completions
    Completions(cmd::shell::Completions),
    /// Write a man page for each command
    Man(cmd::shell::Man),
    /// Record every access of a command to its device; show, compare and replay recordings
    #[command(subcommand)]
    Trace(cmd::trace::Command),
    /// Print the likely cause of a hang or fault from its bundle
    Explain(cmd::explain::Args),
    /// List USB-to-PCIe bridges, and measure copies through them
    #[command(subcommand)]
    Usb(cmd::usb::Command),
    /// Print a page about devices, variables, models, hangs or tracing, or the help of a command
    Help(cmd::help::Args),
    /// Run other programs on simulated GPUs
    #[cfg(feature = "twin")]
    #[command(subcommand)]
    Twin(cmd::twin::Command),
    /// Run other programs on simulated GPUs
    #[cfg(not(feature = "twin"))]
    #[command(disable_help_flag = true)]
    Twin {
        /// For `doorbell-twin`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<std::ffi::OsString>,
    },
}

/// What the programs of this package do.
pub fn main() -> ExitCode {
    run(std::env::args_os()).into()
}

/// The same with these arguments, of which the first is the name of the program: its exit code. Arguments that make no sense end
/// the process.
pub fn run(args: impl IntoIterator<Item = std::ffi::OsString>) -> u8 {
    let started = std::time::Instant::now();
    if let Err(e) = signals::outlive_large_files() {
        return ended(Err(e));
    }
    let cli = Cli::parse_from(args);
    // Files alone: a selection of devices that makes no sense is none of its business.
    if let Command::Fw(command) = &cli.command {
        return ended(cmd::fw::run(command));
    }
    if let Command::Trace(command) = &cli.command {
        return trace(command, cli.dev.as_deref(), started);
    }
    let text = match &cli.command {
        Command::Setup(args) => Some(cmd::setup::run(args)),
        Command::Completions(args) => Some(cmd::shell::completions(args, Cli::command())),
        Command::Man(args) => Some(cmd::shell::man(args, Cli::command())),
        Command::Explain(args) => Some(cmd::explain::run(args)),
        Command::Help(args) => Some(cmd::help::run(args, Cli::command())),
        _ => None,
    };
    if let Some(outcome) = text {
        return ended(outcome.map(|()| 0));
    }
    if let Command::Pci(command) = &cli.command {
        observe::start_log();
        return ended(cmd::pci::run(command, cli.dev.as_deref()));
    }
    #[cfg(feature = "twin")]
    if let Command::Twin(command) = &cli.command {
        return ended(cmd::twin::run(command, cli.dev.as_deref()));
    }
    #[cfg(not(feature = "twin"))]
    if let Command::Twin { .. } = &cli.command {
        return ended(Err(handover::run("doorbell twin")));
    }
    let setup = chosen(cli.dev.as_deref());
    ended(setup.and_then(|setup| on_device(&cli.command, &setup, started)))
}

/// The device that variables and the option name.
fn chosen(dev: Option<&str>) -> Result<Setup, Error> {
    let setup = Setup::from_option(dev)?;
    #[cfg(not(feature = "twin"))]
    if let Some(target) = setup.simulated() {
        return Err(handover::run(&target.to_string()));
    }
    Ok(setup)
}

/// Runs a command whose device is chosen by variables and options.
fn on_device(command: &Command, setup: &Setup, started: std::time::Instant) -> Result<u8, Error> {
    with_setup(setup, || do_on_device(command, setup, started))
}

/// What a setup says before work and after it.
fn with_setup(setup: &Setup, work: impl FnOnce() -> Result<(), Error>) -> Result<u8, Error> {
    observe::start_log();
    for warning in setup.warnings() {
        say!("warning: {warning}");
    }
    let verbose = setup.settings().debug >= 1;
    for note in setup.notes().iter().filter(|_| verbose) {
        say!("note: {note}");
    }
    let outcome = work();
    // Whatever else went wrong: a broken rule may be why.
    let rules = setup.check_rules();
    match (&outcome, &rules, setup.twin()) {
        (Err(_), Err(rules), _) => say!("{rules}"),
        (_, Ok(()), Some(twin)) if verbose => {
            say!("no rule violations on the simulated {}", twin.chip());
        }
        _ => {}
    }
    outcome.and(rules.map_err(Error::from))?;
    Ok(0)
}

fn do_on_device(
    command: &Command,
    setup: &Setup,
    started: std::time::Instant,
) -> Result<(), Error> {
    match command {
        Command::Demo(args) => cmd::demo::run(&args.work, &args.files, setup),
        Command::Devices(args) => cmd::devices::run(args, setup),
        Command::Doctor(args) => cmd::doctor::run(args, setup),
        Command::Bringup(args) => cmd::bringup::run(args, setup),
        Command::Bench(args) => cmd::bench::run(args, setup, started),
        Command::Run(args) => cmd::run::run(args, setup),
        Command::Inspect(args) => cmd::inspect::run(args, setup),
        Command::Compile(args) => cmd::compile::run(args),
        Command::Verify(args) => cmd::verify::run(args, setup),
        Command::OnnxTest(args) => cmd::onnx_test::run(args, setup),
        Command::Smi(args) => cmd::smi::run(args, setup),
        Command::Regs(command) => cmd::regs::run(command, setup),
        Command::Usb(command) => cmd::usb::run(command, setup),
        // Done above: there is no device, or it is not ours.
        Command::Fw(_)
        | Command::Pci(_)
        | Command::Setup(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Trace(_)
        | Command::Explain(_)
        | Command::Help(_) => Ok(()),
        #[cfg(feature = "twin")]
        Command::Twin(_) => Ok(()),
        #[cfg(not(feature = "twin"))]
        Command::Twin { .. } => Ok(()),
    }
}

/// Records a command, does a recorded one again, or looks at recordings.
fn trace(command: &cmd::trace::Command, dev: Option<&str>, started: std::time::Instant) -> u8 {
    use cmd::trace::Command as Trace;
    match command {
        Trace::Show(_) | Trace::Diff(_) => ended(cmd::trace::run(command).map(|same| match same {
            true => 0,
            false => 1,
        })),
        Trace::Record(args) => ended(record(args, dev, started)),
        Trace::Replay(args) => ended(replay(args, started)),
    }
}

/// The command line of a traced command.
fn traced(arguments: &[String]) -> Result<Cli, Error> {
    let name = std::iter::once("doorbell");
    let all = name.chain(arguments.iter().map(String::as_str));
    Cli::try_parse_from(all).map_err(|e| Error::Usage(e.to_string()))
}

fn record(
    args: &cmd::trace::RecordArgs,
    dev: Option<&str>,
    started: std::time::Instant,
) -> Result<u8, Error> {
    let words = args
        .command
        .iter()
        .map(|word| word.to_string_lossy().into_owned());
    let mut words: Vec<String> = words.collect();
    // What was said before the command is part of it.
    if let Some(dev) = dev {
        words.extend(["--dev".into(), dev.into()]);
    }
    let cli = traced(&words)?;
    let touches = matches!(
        cli.command,
        Command::Demo(_)
            | Command::Bench(_)
            | Command::Run(_)
            | Command::OnnxTest(_)
            | Command::Regs(_)
            | Command::Bringup(_)
    );
    if !touches {
        let what = words.first().map_or("", |word| word);
        return Err(Error::Usage(format!(
            "{what} opens no device, so there is nothing to record; record demo, bench, bringup, run, \
             onnx-test or regs read"
        )));
    }
    // Before there is a file: a simulated device may be that of another program, which starts again from here.
    let setup = chosen(cli.dev.as_deref())?;
    if args.warm {
        say!("note: the first of two runs, not recorded");
        on_device(&cli.command, &setup, started)?;
    }
    let (front, log) = cmd::trace::record(args, &words)?;
    let setup = setup.front(front);
    let outcome = on_device(&cli.command, &setup, started);
    if setup.target().device == DeviceKind::Cpu && outcome.is_ok() {
        say!(
            "warning: {}: nothing was recorded: the command ran on the CPU, whose accesses are not recorded; select a \
             GPU with DEV or --dev (`doorbell help targets`)",
            args.file.display()
        );
    }
    drop(setup);
    match log.failed() {
        Some(kind) => Err(Error::File {
            path: args.file.display().to_string(),
            source: kind.into(),
        }),
        None => outcome,
    }
}

fn replay(args: &cmd::trace::ReplayArgs, started: std::time::Instant) -> Result<u8, Error> {
    use cmd::trace::End;
    let replay = cmd::trace::replay(args)?;
    let outcome = with_setup(&replay.setup, || replay.run(args, started));
    // A difference is why the rest went wrong.
    match replay.finish(args)? {
        End::Whole => outcome,
        End::Cut => Ok(0),
    }
}

fn ended(outcome: Result<u8, Error>) -> u8 {
    match outcome {
        Ok(code) => code,
        Err(Error::Output(e)) if e.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(e) => {
            say!("error: {e}");
            e.exit_code()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::Path;

    use super::*;

    /// The pages with commands, from the root of the repository.
    const PAGES: [&str; 10] = [
        "README.md",
        "tensor/README.md",
        "drivers/README.md",
        "drivers/amd/README.md",
        "drivers/asm24/README.md",
        "drivers/nv/README.md",
        "drivers/qcom/README.md",
        "drivers/run/README.md",
        "scripts/README.md",
        "tests/twin/README.md",
    ];

    /// The command line of this program in a line, without variables and comments.
    fn command(line: &str) -> Option<Vec<String>> {
        let line = line.split(" #").next().unwrap();
        let line = line.split([';', '|', '>']).next().unwrap();
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        let is_program = |word: &String| word == "doorbell" || word.ends_with("/doorbell");
        let is_variable = |word: &&String| word.contains('=') || **word == "sudo";
        let at = words.iter().take_while(is_variable).count();
        let is_command = words.get(at).is_some_and(is_program) && !line.contains('[');
        (is_command && !line.contains("...")).then(|| words[at..].to_vec())
    }

    /// The command lines in the blocks of a page, and those in its prose, which may lack arguments.
    fn commands(text: &str) -> [Vec<Vec<String>>; 2] {
        let (mut blocks, mut prose) = (Vec::new(), Vec::new());
        for (i, part) in text.split("\n```").enumerate() {
            if i % 2 == 0 {
                prose.extend(part.split('`').skip(1).step_by(2).filter_map(command));
            } else if let Some(block) = part.strip_prefix("sh\n") {
                blocks.extend(block.replace("\\\n", " ").lines().filter_map(command));
            }
        }
        [blocks, prose]
    }

    /// Whether the program takes a command line; `true` in the error if it lacks an argument.
    fn takes(words: &[String]) -> Result<Cli, (bool, String)> {
        use clap::error::ErrorKind;
        Cli::try_parse_from(words).map_err(|e| {
            let lacks = [
                ErrorKind::DisplayHelp,
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
                ErrorKind::MissingRequiredArgument,
                ErrorKind::MissingSubcommand,
            ];
            (lacks.contains(&e.kind()), e.to_string())
        })
    }

    #[test]
    fn commands_of_all_pages_are_ones_that_the_program_takes() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |page: &str| std::fs::read_to_string(root.join(page)).unwrap();
        let pages = PAGES.iter().map(|page| (*page, read(page)));
        let help = cmd::help::PAGES.map(|(name, text)| (name, text.to_string()));
        let mut count = 0;
        for (page, text) in pages.chain(help) {
            let [blocks, prose] = commands(&text);
            count += blocks.len() + prose.len();
            for mut words in prose {
                let addresses = words.iter_mut().filter(|word| *word == "ADDRESS");
                addresses.for_each(|word| *word = "0000:03:00.0".into());
                if let Err((false, e)) = takes(&words) {
                    panic!("{page}: {words:?}: {e}");
                }
            }
            for words in blocks {
                let parsed =
                    takes(&words).unwrap_or_else(|(_, e)| panic!("{page}: {words:?}: {e}"));
                let Command::Trace(cmd::trace::Command::Record(args)) = &parsed.command else {
                    continue;
                };
                let inner = args
                    .command
                    .iter()
                    .map(|w| w.to_string_lossy().into_owned());
                let inner: Vec<String> = inner.collect();
                traced(&inner).unwrap_or_else(|e| panic!("{page}: {inner:?}: {e}"));
            }
        }
        assert!(count > 120, "{count} commands");
    }
}
