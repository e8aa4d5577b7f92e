//! `doorbell trace`: what a command does to a machine, access by access: recorded, shown, compared, done again.

mod diff;
mod record;
mod recorded;
mod replay;
mod scratch;
mod show;

use std::io::{self, ErrorKind};
use std::path::Path;

use clap::builder::PossibleValuesParser;
use drivers::trace::names;
use drivers::trace::recording::{self, Recording};
use drivers_bundle::limits::{self, Unread};

use crate::program::error::Error;
use crate::program::output::say;

pub use record::{Args as RecordArgs, record};
pub use replay::{Args as ReplayArgs, End, replay};

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

/// The stages that accesses belong to.
fn stages() -> PossibleValuesParser {
    names::STAGES.into()
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
    String::from_utf8(bytes).or_else(|e| {
        let found = e.utf8_error();
        let mut bytes = e.into_bytes();
        // Cut off within a character.
        bytes.truncate(found.valid_up_to());
        let cut = String::from_utf8(bytes).ok();
        let cut = cut.filter(|_| found.error_len().is_none());
        cut.ok_or_else(|| refused(io::Error::new(ErrorKind::InvalidData, found)))
    })
}

fn recording(path: &Path) -> Result<Recording, Error> {
    parse(path, &read(path)?)
}

fn parse(path: &Path, text: &str) -> Result<Recording, Error> {
    let wrong = |e: recording::WrongLine| Error::Usage(format!("{}: {e}", path.display()));
    let recording = Recording::parse(text).map_err(wrong)?;
    if let Some(cut) = recording.cut {
        say!("note: {}: {cut}", path.display());
    }
    Ok(recording)
}
