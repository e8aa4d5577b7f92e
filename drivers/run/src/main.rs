//! `doorbell-run`: runs a model bundle and prints what it took.

mod words;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use doorbell_run::error::EXIT_CODES;
use doorbell_run::given;
use doorbell_run::save::{apart, save, writable};
use doorbell_run::times::Times;
use doorbell_run::{Chain, Error, Model, ModelBundle, Port};
use hcq::text::plain;
use signal_hook::consts::SIGXFSZ;
use signal_hook::flag;

use words::{Args, Asked};

const USAGE: &str = "\
Runs a model bundle, and prints what it took.

usage: doorbell-run FILE.dbx [--repeat N] [--limit MS] [--check] [--input NAME=FILE]... [--output NAME=FILE]...

  --repeat N            number of runs, the first included; prints their times; default 10
  --limit MS            how long a run may take, and an input from a pipe; default 10000
  --check               checks all of the file first, also what this device does not use
  --input NAME=FILE     the bytes of an input, in the order of its elements; zeros without it
  --output NAME=FILE    writes the bytes of an output
  --help, --version

The variable DEV names the device, or several in the order in which they are tried: DEV='QCOM|CPU'; default: CPU.";

/// Why the program ends early.
enum Ended {
    /// A failure.
    Failed(Error),
    /// Standard output cannot be written.
    Unprinted(std::io::Error),
    /// A failure that was printed, with its exit code.
    Told(u8),
}

impl From<Error> for Ended {
    fn from(e: Error) -> Ended {
        Ended::Failed(e)
    }
}

/// A line on stdout, with nothing in it that acts on a terminal: names come from the file.
fn say(line: &str) -> Result<(), Ended> {
    writeln!(std::io::stdout(), "{}", plain(line)).map_err(Ended::Unprinted)
}

/// The same on stderr, which has nowhere to say that it failed.
fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", plain(line));
}

/// Everything that the command line says is right, before anything runs. The inputs with their bytes.
fn checked<'a>(args: &'a Args, bundle: &ModelBundle) -> Result<Vec<(&'a str, Vec<u8>)>, Error> {
    let read = || {
        let inputs = args.inputs.iter().map(|(_, path)| path.as_path());
        inputs.chain([args.file.as_path()])
    };
    for (n, (name, path)) in args.outputs.iter().enumerate() {
        bundle.output(name)?;
        let others = args.outputs[..n].iter().map(|(_, path)| path.as_path());
        apart(path, read().chain(others))?;
        writable(path)?;
    }
    let ports = args.inputs.iter().map(|(name, _)| bundle.input(name));
    let ports = ports.collect::<Result<Vec<_>, _>>()?;
    let given = ports.into_iter().zip(&args.inputs);
    given
        .map(|(port, (name, path))| Ok((name.as_str(), given::read(port, path, args.limit)?)))
        .collect()
}

/// Runs once. A late run is reported before its model is given back, which waits for it: of a processor, whose threads
/// cannot be taken away, it may wait forever.
fn once(model: &mut Model, limit: Duration) -> Result<(), Ended> {
    match model.run(limit) {
        Err(e @ Error::Late { .. }) => {
            complain(&format!("error: {e}"));
            let code = e.exit_code();
            match model.device().info().id.vendor() {
                "CPU" => std::process::exit(code.into()),
                _ => Err(Ended::Told(code)),
            }
        }
        other => Ok(other?),
    }
}

fn run(args: &Args) -> Result<(), Ended> {
    let begin = Instant::now();
    let bundle = ModelBundle::open(&args.file)?;
    if args.check {
        bundle.check()?;
    }
    let opened = begin.elapsed();
    let chain = Chain::from_env()?;
    let inputs = checked(args, &bundle)?;
    let placement = chain.place(&bundle)?;
    for note in &placement.notes {
        say(&format!("note: {note}"))?;
    }
    let mut model = placement.model;
    for (name, bytes) in &inputs {
        model.write_input(name, bytes)?;
    }
    let loaded = begin.elapsed();
    once(&mut model, args.limit)?;
    let first = begin.elapsed();
    let mut times = Times::default();
    for _ in 1..args.repeat {
        let start = Instant::now();
        once(&mut model, args.limit)?;
        times.add(start.elapsed());
    }
    for (name, path) in &args.outputs {
        save(path, &read(&mut model, bundle.output(name)?)?)?;
    }
    let about = bundle.about();
    let info = model.device().info();
    say(&format!(
        "model    {} by doorbell {}",
        about.model, about.doorbell
    ))?;
    say(&format!("device   {} {} {}", info.id, info.arch, info.name))?;
    say(&format!("memory   {:.1} MB", model.memory() as f64 / 1e6))?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    say(&format!("opened   {:.3} ms", ms(opened)))?;
    say(&format!("loaded   {:.3} ms", ms(loaded)))?;
    say(&format!(
        "first    {:.3} ms, from the start to the first result",
        ms(first)
    ))?;
    if !times.is_empty() {
        say(&format!("later    {times}"))?;
    }
    for port in bundle.outputs() {
        let bytes = read(&mut model, port)?;
        // FNV-1a (Fowler, Noll, Vo): tells two results apart.
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix);
        say(&format!(
            "output   {}: {port}, checksum {sum:016x}",
            port.name
        ))?;
    }
    Ok(())
}

fn read(model: &mut Model, port: &Port) -> Result<Vec<u8>, Error> {
    let mut into = vec![0; port.bytes().unwrap_or_default() as usize];
    model.read_output(&port.name, &mut into)?;
    Ok(into)
}

fn usage() -> String {
    format!("{USAGE}\n{EXIT_CODES}")
}

fn main() -> ExitCode {
    // A file that may not become so large (`ulimit -f`) is an error with its name then.
    if let Err(e) = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))) {
        complain(&format!("error: cannot handle SIGXFSZ: {e}"));
        return ExitCode::FAILURE;
    }
    let done = match words::read(std::env::args_os().skip(1)) {
        Ok(Asked::Run(args)) => run(&args),
        Ok(Asked::Help) => say(&usage()),
        Ok(Asked::Version) => say(&format!("doorbell-run {}", env!("CARGO_PKG_VERSION"))),
        Err(why) => {
            complain(&format!(
                "error: {why}; `doorbell-run --help` lists the options"
            ));
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the lines has enough of them.
        Err(Ended::Unprinted(e)) if e.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Ended::Unprinted(e)) => {
            complain(&format!("error: cannot write to stdout: {e}"));
            ExitCode::FAILURE
        }
        Err(Ended::Told(code)) => ExitCode::from(code),
        Err(Ended::Failed(e)) => {
            complain(&format!("error: {e}"));
            ExitCode::from(e.exit_code())
        }
    }
}
