//! `doorbell-run`: runs a model bundle and prints what it took.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use doorbell_run::{Chain, Error, Model, ModelBundle, Port};

const USAGE: &str = "\
Runs a model bundle, and prints what it took.

usage: doorbell-run FILE.dbx [--repeat N] [--limit MS] [--input NAME=FILE]... [--output NAME=FILE]...

  --repeat N            runs after the first one; default 10
  --limit MS            how long a run may take; default 10000
  --input NAME=FILE     the bytes of an input, in the order of its elements; zeros without it
  --output NAME=FILE    writes the bytes of an output

The variable DEV names the device, or several in the order in which they are tried: DEV='QCOM|CPU'; default: CPU.
Exit codes: 0 ok, 1 failure, 2 usage.";

/// What the command line says.
struct Args {
    file: PathBuf,
    repeat: u32,
    limit: Duration,
    inputs: Vec<(String, PathBuf)>,
    outputs: Vec<(String, PathBuf)>,
}

fn args(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut file = None;
    let mut args = Args {
        file: PathBuf::new(),
        repeat: 10,
        limit: Duration::from_secs(10),
        inputs: Vec::new(),
        outputs: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("expected a value after {word}"));
        let number = |text: String| {
            let parsed = text.parse::<u32>();
            parsed.map_err(|e| format!("expected a number after {word}, found {text:?}: {e}"))
        };
        let pair = |text: String| match text.split_once('=') {
            Some((name, path)) => Ok((name.to_owned(), PathBuf::from(path))),
            None => Err(format!("expected NAME=FILE after {word}, found {text:?}")),
        };
        match word.as_str() {
            "--repeat" => args.repeat = number(value()?)?,
            "--limit" => args.limit = Duration::from_millis(number(value()?)?.into()),
            "--input" => args.inputs.push(pair(value()?)?),
            "--output" => args.outputs.push(pair(value()?)?),
            "--help" | "-h" => return Err(String::new()),
            option if option.starts_with("--") => return Err(format!("unknown option {option}")),
            _ if file.is_some() => {
                return Err(format!("expected one file, found {word:?} as well"));
            }
            _ => file = Some(PathBuf::from(word)),
        }
    }
    args.file = file.ok_or("expected a file")?;
    Ok(args)
}

fn io(path: &std::path::Path) -> impl Fn(std::io::Error) -> Error {
    let file = path.display().to_string();
    move |source| Error::Io {
        file: file.clone(),
        source,
    }
}

fn run(args: &Args) -> Result<(), Error> {
    let begin = Instant::now();
    let bundle = ModelBundle::open(&args.file)?;
    let opened = begin.elapsed();
    let placement = Chain::from_env()?.place(&bundle)?;
    for note in &placement.notes {
        say(&format!("note: {note}"));
    }
    let mut model = placement.model;
    for (name, path) in &args.inputs {
        model.write_input(name, &std::fs::read(path).map_err(io(path))?)?;
    }
    let loaded = begin.elapsed();
    model.run(args.limit)?;
    let first = begin.elapsed();
    let mut times = Vec::with_capacity(args.repeat as usize);
    for _ in 0..args.repeat {
        let start = Instant::now();
        model.run(args.limit)?;
        times.push(start.elapsed());
    }
    let outputs = bundle.outputs().to_vec();
    for (name, path) in &args.outputs {
        let port = outputs.iter().find(|port| port.name == *name);
        // A name that the model does not have is an error of the read.
        let bytes = read(&mut model, name, port)?;
        std::fs::write(path, bytes).map_err(io(path))?;
    }
    let about = bundle.about();
    let info = model.device().info();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    say(&format!(
        "model    {} by doorbell {}",
        about.model, about.doorbell
    ));
    say(&format!("device   {} {} {}", info.id, info.arch, info.name));
    say(&format!("memory   {:.1} MB", model.memory() as f64 / 1e6));
    say(&format!("opened   {:.3} ms", ms(opened)));
    say(&format!("loaded   {:.3} ms", ms(loaded)));
    say(&format!(
        "first    {:.3} ms, from the start to the first result",
        ms(first)
    ));
    times.sort_unstable();
    if let (Some(least), Some(middle)) = (times.first(), times.get(times.len() / 2)) {
        let n = times.len();
        say(&format!(
            "later    {:.3} ms minimum, {:.3} ms median of {n} runs",
            ms(*least),
            ms(*middle)
        ));
    }
    for port in &outputs {
        let bytes = read(&mut model, &port.name, Some(port))?;
        // FNV-1a (Fowler, Noll, Vo): tells two results apart.
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix);
        say(&format!(
            "output   {}: {port}, checksum {sum:016x}",
            port.name
        ));
    }
    Ok(())
}

fn read(model: &mut Model, name: &str, port: Option<&Port>) -> Result<Vec<u8>, Error> {
    let bytes = port.and_then(Port::bytes).unwrap_or_default();
    let mut into = vec![0; bytes as usize];
    model.read_output(name, &mut into)?;
    Ok(into)
}

/// A line on stdout; nobody reads the rest where it is closed.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn main() -> ExitCode {
    let args = match args(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(why) if why.is_empty() => {
            say(USAGE);
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "error: {why}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(std::io::stderr(), "error: {e}");
            ExitCode::FAILURE
        }
    }
}
