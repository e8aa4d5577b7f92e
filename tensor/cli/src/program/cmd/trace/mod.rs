//! `doorbell trace`: what a command does to a machine, access by access: recorded, shown, compared, done again.

mod diff;
mod record;
mod recorded;
mod replay;
mod scratch;
mod show;

use std::io::{self, ErrorKind};
use std::path::Path;

use drivers::trace::recording::{self, Recording};
use drivers_bundle::limits::{self, Unread};

use crate::program::error::Error;

pub use record::{Args as RecordArgs, record};
pub use replay::{Args as ReplayArgs, replay};

/// What is done.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Run a doorbell command and record every access to its device, with result and time
    Record(record::Args),
    /// Print a recording, with the vendor's register names
    Show(show::Args),
    /// Compare two recordings stage by stage; one may be a log of amdgpu's tracepoints
    Diff(diff::Args),
    /// Run the command of a recording again, against the recording instead of a device
    Replay(replay::Args),
}

/// Shows or compares; the rest runs a command, which [`record`] and [`replay`] say.
pub fn run(command: &Command) -> Result<bool, Error> {
    match command {
        Command::Show(args) => show::run(args).map(|()| true),
        Command::Diff(args) => diff::run(args),
        Command::Record(_) | Command::Replay(_) => Ok(true),
    }
}

fn read(path: &Path) -> Result<String, Error> {
    let refused = |source| Error::File {
        path: path.display().to_string(),
        source,
    };
    let bytes = limits::read(path, recording::BYTES).map_err(|unread| match unread {
        Unread::Refused(source) => refused(source),
        Unread::TooMuch(error) => Error::TooMuch(error),
    })?;
    String::from_utf8(bytes).map_err(|e| refused(io::Error::new(ErrorKind::InvalidData, e)))
}

fn recording(path: &Path) -> Result<Recording, Error> {
    parse(path, &read(path)?)
}

fn parse(path: &Path, text: &str) -> Result<Recording, Error> {
    let wrong = |e: recording::WrongLine| Error::Usage(format!("{}: {e}", path.display()));
    Recording::parse(text).map_err(wrong)
}
