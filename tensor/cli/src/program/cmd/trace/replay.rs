//! `doorbell trace replay`: nothing is behind the driver but the recording.

use std::path::PathBuf;
use std::sync::Arc;

use crate::{Front, Setup};
use hcq::transport::Fault;
use hcq::transport::replay::Tape;

use super::recorded::Work;
use crate::program::error::Error;
use crate::program::output::say;

/// What is done again.
#[derive(clap::Args)]
pub struct Args {
    /// Recording of `doorbell trace record`
    #[arg(value_name = "FILE")]
    recording: PathBuf,
    /// Model of a recorded `run`, or folder of a recorded `onnx-test`; the path in the recording is not opened
    #[arg(long, value_name = "PATH")]
    model: Option<PathBuf>,
}

/// A replay that begins.
pub struct Replay {
    /// The recorded device, with the recording in its place.
    pub setup: Setup,
    work: Work,
    tape: Tape,
    /// The line behind the last access of a recording that was cut off.
    cut: Option<usize>,
}

/// How a replay ended that differs in nothing.
pub enum End {
    /// All of the recording was done again.
    Whole,
    /// The recording was cut off there: what the command came to is not in it.
    Cut,
}

/// What a recording asks for, with the recording in the place of the machine.
pub fn replay(args: &Args) -> Result<Replay, Error> {
    let recording = super::recording(&args.recording)?;
    let work = Work::of(&recording.origin, &args.recording)?;
    if args.model.is_none() {
        work.needs_nothing(&args.recording)?;
    }
    let behind = recording.entries.last().map_or(1, |last| last.line + 1);
    let cut = recording.cut.map(|_| behind);
    let tape = recording.tape();
    let front = Front::alone(Arc::new(tape.clone()));
    let setup = work.setup(&args.recording)?.front(front);
    Ok(Replay {
        setup,
        work,
        tape,
        cut,
    })
}

impl Replay {
    /// Does the work again.
    pub fn run(&self, args: &Args, started: std::time::Instant) -> Result<(), Error> {
        let model = args.model.as_deref();
        self.work.run(&self.setup, &args.recording, model, started)
    }

    /// Whether everything was as recorded; to be asked once nothing uses the device any more.
    pub fn finish(self, args: &Args) -> Result<End, Error> {
        let Replay {
            setup, tape, cut, ..
        } = self;
        drop(setup);
        let path = args.recording.display();
        match tape.finish() {
            Ok(()) => {
                say!("{path}: the driver made exactly the recorded accesses");
                Ok(End::Whole)
            }
            Err(Fault::Replay { line, .. }) if cut == Some(line) => {
                say!(
                    "{path}: the driver made exactly the recorded accesses, up to the cut behind line {}",
                    line - 1
                );
                Ok(End::Cut)
            }
            Err(fault) => Err(Error::Check(format!(
                "{path}: the driver now differs from the recording: {fault}"
            ))),
        }
    }
}
