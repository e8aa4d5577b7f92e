//! `doorbell trace replay`: nothing is behind the driver but the recording.

use std::path::PathBuf;
use std::sync::Arc;

use doorbell::Front;
use drivers::trace::recording::Origin;
use hcq::transport::replay::Tape;

use crate::error::Error;

/// What is done again.
#[derive(clap::Args)]
pub struct Args {
    /// What `doorbell trace record` has written
    #[arg(value_name = "FILE")]
    recording: PathBuf,
}

/// A replay that begins: what stands in the place of the machine, the command that is run again with its variables, and
/// what says afterwards whether all of the recording was used.
pub fn replay(args: &Args) -> Result<(Front, Origin, Tape), Error> {
    let recording = super::recording(&args.recording)?;
    let tape = recording.tape();
    let tape = tape.map_err(|e| Error::Usage(format!("{}: {e}", args.recording.display())))?;
    let front = Front::alone(Arc::new(tape.clone()));
    Ok((front, recording.origin, tape))
}

/// Whether everything was as recorded.
pub fn finish(args: &Args, tape: &Tape) -> Result<(), Error> {
    let path = args.recording.display();
    tape.finish().map_err(|fault| {
        Error::Check(format!(
            "{path}: the driver does something else now: {fault}"
        ))
    })?;
    eprintln!("{path}: the driver did what was recorded, access by access");
    Ok(())
}
