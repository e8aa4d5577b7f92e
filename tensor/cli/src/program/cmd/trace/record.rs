//! `doorbell trace record`.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::{Front, Setup};
use drivers::trace::recording::{Origin, Stamped};
use hcq::transport::trace::{Trace, TraceLog};

use super::recorded::{Work, is_taken};
use crate::program::error::Error;
use crate::program::output::say;

/// What is recorded, and where it goes.
#[derive(clap::Args)]
pub struct Args {
    /// File to create
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Run the command once before, without recording, so that the recorded run finds the card as the first has left
    /// it
    #[arg(long)]
    pub warm: bool,
    /// Doorbell command and its arguments: demo --steps 3
    #[arg(required = true, last = true)]
    pub command: Vec<OsString>,
}

/// A recording that begins: what stands in front of the machine, and what says afterwards whether all of it was written.
pub fn record(args: &Args, command: &[String]) -> Result<(Front, TraceLog), Error> {
    let failed = |source| Error::File {
        path: args.file.display().to_string(),
        source,
    };
    // What a recording holds may not be had again, and is nobody else's business.
    let mut open = OpenOptions::new();
    open.write(true).create_new(true).mode(0o600);
    let file = open.open(&args.file);
    let mut file = BufWriter::new(file.map_err(failed)?);
    let mut variables = Setup::variables().map_err(Error::from)?;
    variables.retain(is_taken);
    let origin = Origin {
        arguments: command.to_vec(),
        variables,
    };
    if let Err(e) = Work::of(&origin, &args.file) {
        say!("note: this recording cannot be replayed: {e}");
    }
    origin.write(&mut file).map_err(failed)?;
    let log = TraceLog::writer(Stamped::new(file));
    Ok((Front::before(Trace::whole(log.clone())), log))
}
