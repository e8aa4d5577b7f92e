//! `doorbell twin exec`: a program on a simulated card.
//!
//! The machine is in this process; the program and all that it starts are processes on it.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use twin::wire;
use twin_server::Server;

use super::{keep, program, report};
use crate::error::Error;

/// What is run, and on what.
#[derive(clap::Args)]
pub struct Args {
    /// The machine, as in the variable TWIN: `chip=gfx1030,gpus=2`
    #[arg(
        long,
        env = "TWIN",
        default_value = "",
        value_name = "CONFIG",
        hide_env_values = true
    )]
    twin: String,
    /// A rule that may be broken: it is shown, and is no failure
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// Print the journal as one line of JSON
    #[arg(long)]
    json: bool,
    /// Keep what the program asks of the card, and what both write, for `doorbell twin replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The program, and its arguments
    #[arg(required = true, last = true)]
    program: Vec<OsString>,
}

/// Runs it: the code of the program, 128 and the signal that ended it, or 1 if it has broken a rule.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let Some((name, arguments)) = args.program.split_first() else {
        return Err(Error::Usage("no program is named".into()));
    };
    let path = program::find(&PathBuf::from(name))?;
    program::check(&path)?;
    let mut libraries = program::library()?.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD") {
        libraries.push(":");
        libraries.push(others);
    }
    // Before there is a thread that could get one; but the program gets them.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    let _ = signals.thread_block();
    let server = match &args.record {
        Some(record) => Server::recorded(&args.twin, record),
        None => Server::start(&args.twin),
    };
    let server = server.map_err(Error::Usage)?;
    let _ = signals.thread_unblock();
    let child = Command::new(&path)
        .args(arguments)
        .env("LD_PRELOAD", libraries)
        .env(wire::VARIABLE, server.folder())
        .spawn();
    let child = child.map_err(|source| Error::File {
        path: path.display().to_string(),
        source,
    })?;
    let _ = signals.thread_block();
    let status = wait(child, signals)?;
    let recorded = server.finish();
    let rows = report::rows(server.violations(), &args.allow);
    if args.json || !rows.is_empty() {
        let bundle = report::fails(&rows).then(|| {
            let program = path.display().to_string();
            keep::keep(&rows, &program, &args.twin)
        });
        report::print(&rows, bundle.flatten().as_ref(), args.json)?;
    }
    recorded.map_err(|source| {
        let path = args.record.as_deref().unwrap_or(Path::new("the record"));
        let path = path.display().to_string();
        Error::File { path, source }
    })?;
    Ok(match (code(status), report::fails(&rows)) {
        (_, true) => ExitCode::FAILURE,
        (code, false) => ExitCode::from(code),
    })
}

/// Waits for the end; who asks us to end asks the program, and is told what it broke.
fn wait(mut child: Child, signals: SigSet) -> Result<ExitStatus, Error> {
    let pid = Pid::from_raw(child.id() as i32);
    let threads = std::thread::Builder::new().name("signals".into());
    let watching = threads.spawn(move || {
        while let Ok(signal) = signals.wait() {
            // A terminal asks the program by itself.
            if signal != Signal::SIGINT {
                let _ = kill(pid, signal);
            }
        }
    });
    let failed = |source| Error::File {
        path: "the program".into(),
        source,
    };
    watching.map_err(failed)?;
    child.wait().map_err(failed)
}

/// As shells have it.
fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).unwrap_or(1) as u8
}
