//! `doorbell twin exec`: a program on a simulated card.
//!
//! The machine is in this process; the program and all that it starts are processes on it.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hcq::sync::lock;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use twin::process::Standing;
use twin::wire;
use twin_server::Server;

use super::{keep, program, report};
use crate::program::error::Error;
use crate::program::output::say;

/// What is run, and on what.
#[derive(clap::Args)]
pub struct Args {
    /// The machine, as in the variable TWIN: `chip=gfx1030,gpus=2`, `chip=a630`, `chip=a643,kernel=msm`. Programs with
    /// Doorbell's library find it by DEV=AMD, DEV=NV or DEV=QCOM (or --dev, which is their DEV)
    #[arg(
        long,
        env = "TWIN",
        default_value = "",
        value_name = "CONFIG",
        hide_env_values = true
    )]
    twin: String,
    /// Rule whose violation is reported but not a failure; may be repeated
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// Print the journal as one line of JSON
    #[arg(long)]
    json: bool,
    /// Record the requests of the program and all writes, for `doorbell twin replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Seconds after which the program gets SIGTERM; its unfinished work is written to a bundle
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    deadline: Option<u64>,
    /// Program and its arguments
    #[arg(required = true, last = true)]
    program: Vec<OsString>,
}

/// Runs it: the code of the program, 128 and the signal that ended it, 124 if its time was over, or 1 if it has broken a
/// rule. `dev` is the program's variable DEV.
pub fn run(args: &Args, dev: Option<&str>) -> Result<u8, Error> {
    if let Some(dev) = dev {
        is_of_the_program(dev)?;
    }
    let Some((name, arguments)) = args.program.split_first() else {
        return Err(Error::Usage("no program given".into()));
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
        .envs(dev.map(|dev| ("DEV", dev)))
        .spawn();
    let child = child.map_err(|source| Error::File {
        path: path.display().to_string(),
        source,
    })?;
    let _ = signals.thread_block();
    let server = Arc::new(server);
    let limit = args.deadline.map(Duration::from_secs);
    let (status, told) = wait(child, signals, limit, &server)?;
    let recorded = server.finish();
    let mut undone = told.undone;
    for one in server.take_left() {
        if !undone.contains(&one) {
            undone.push(one);
        }
    }
    let left = !status.success() && !undone.is_empty();
    let ended = || format!("ended with {status} before its work was complete");
    let early = told.how.clone().or_else(|| left.then(ended));
    let rows = report::rows(server.violations(), &args.allow);
    let program = path.display().to_string();
    if early.is_none() && !args.json && !server.was_opened() {
        let vendor = server.vendor();
        say!(
            "note: {program} has opened no device of the simulated machine; programs with Doorbell's library do with DEV={vendor}"
        );
    }
    let bundle = keep::keep(keep::Ended {
        rows: &rows,
        early: early.clone(),
        undone,
        program: &program,
        config: &args.twin,
    });
    if let Some(how) = early.filter(|_| !args.json) {
        say!("{program} {how}");
    }
    let resets = server.resets();
    if args.json || !rows.is_empty() || bundle.is_some() || !resets.is_empty() {
        report::print(&rows, &resets, bundle.as_ref(), args.json)?;
    }
    recorded.map_err(|source| {
        let path = args.record.as_deref().unwrap_or(Path::new("the record"));
        let path = path.display().to_string();
        Error::File { path, source }
    })?;
    Ok(match (report::fails(&rows), told.late) {
        (true, _) => 1,
        (false, true) => LATE,
        (false, false) => code(status),
    })
}

/// Refuses a simulated device: the program finds the machine as if it were its own.
fn is_of_the_program(dev: &str) -> Result<(), Error> {
    let is_simulated = |target: &str| target.trim().to_ascii_uppercase().starts_with("TWIN");
    if !dev.split('|').any(is_simulated) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "--dev {dev}: expected a device as the program names it, --dev QCOM or --dev AMD: the simulated machine is named by --twin \
         (chip=a630, chip=gfx1100)"
    )))
}

/// Of a program that has not ended in its time, as timeout(1) has it.
const LATE: u8 = 124;

/// How long a program that is told to end may take for that.
const GRACE: Duration = Duration::from_secs(5);

/// What a program was told.
#[derive(Default)]
struct Told {
    /// By whom it was told to end, if it was.
    how: Option<String>,
    /// Whether its time was over.
    late: bool,
    /// What was not done then.
    undone: Vec<Standing>,
}

/// Waits for the end; who asks us to end asks the program, and is told what it broke. Without an end by `limit`, the
/// program is told to end, then made to.
fn wait(
    mut child: Child,
    signals: SigSet,
    limit: Option<Duration>,
    server: &Arc<Server>,
) -> Result<(ExitStatus, Told), Error> {
    let pid = Pid::from_raw(child.id() as i32);
    let told = Arc::new(Mutex::new(Told::default()));
    let tell = {
        let (told, server) = (told.clone(), Arc::downgrade(server));
        move |how: String, late: bool| {
            let standing = server.upgrade().map(|server| server.standing());
            let mut told = lock(&told);
            if told.how.is_none() {
                told.undone = standing.unwrap_or_default();
                (told.how, told.late) = (Some(how), late);
            }
        }
    };
    let failed = |source| Error::File {
        path: "the program".into(),
        source,
    };
    let asked = tell.clone();
    let threads = std::thread::Builder::new().name("signals".into());
    let watching = threads.spawn(move || {
        while let Ok(signal) = signals.wait() {
            asked(format!("was told to stop ({signal})"), false);
            // A terminal asks the program by itself.
            if signal != Signal::SIGINT {
                let _ = kill(pid, signal);
            }
        }
    });
    watching.map_err(failed)?;
    let (running, ended) = mpsc::channel::<()>();
    if let Some(limit) = limit {
        let threads = std::thread::Builder::new().name("deadline".into());
        let watching = threads.spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                tell(format!("did not end within {} s", limit.as_secs()), true);
                let _ = kill(pid, Signal::SIGTERM);
                if ended.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                    let _ = kill(pid, Signal::SIGKILL);
                }
            }
        });
        watching.map_err(failed)?;
    }
    let status = child.wait().map_err(failed)?;
    drop(running);
    let told = std::mem::take(&mut *lock(&told));
    Ok((status, told))
}

/// As shells have it.
fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).unwrap_or(1) as u8
}
