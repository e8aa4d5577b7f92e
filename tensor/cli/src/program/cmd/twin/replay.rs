//! `doorbell twin replay`: a record of a program, done again without the program.

use std::path::PathBuf;

use twin::record::Record;
use twin_server::{Replay, text};

use super::report;
use crate::program::error::Error;
use crate::program::output::{self, say};

/// What is done again.
#[derive(clap::Args)]
pub struct Args {
    /// Record of `doorbell twin exec --record`
    #[arg(value_name = "FILE")]
    record: PathBuf,
    /// Print calls with their fields, memory, and every packet to stderr
    #[arg(long)]
    show: bool,
    /// Rule whose violation is reported but not a failure; may be repeated
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// Print the journal as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Does it again: 1 if a rule was broken, something was different, or the record is not whole.
pub fn run(args: &Args) -> Result<u8, Error> {
    let record = Record::read(&args.record).map_err(Error::Usage)?;
    // Packets are printed by the machine.
    let more = if args.show { "debug=4" } else { "" };
    let drivers = text::drivers(&record.config);
    let mut print = |frame: &_, about: &[&_]| {
        if args.show
            && let Some(line) = text::line(drivers, frame, about)
        {
            say!("{line}");
        }
    };
    let replay = twin_server::replay(&record, more, &mut print).map_err(Error::Usage)?;
    let rows = report::rows(replay.violations.clone(), &args.allow);
    if args.json || !rows.is_empty() {
        report::print(&rows, &[], None, args.json)?;
    }
    let mut text = said(&replay);
    for one in &replay.differences {
        text += &format!("different: {one}\n");
    }
    if let Some(cut) = &record.cut {
        text += &format!("{} is incomplete; {cut}\n", args.record.display());
    }
    output::line(format_args!("{}", text.trim_end()))?;
    let good = !report::fails(&rows) && replay.differences.is_empty() && record.cut.is_none();
    Ok(u8::from(!good))
}

/// What was done, as a sentence or two.
fn said(replay: &Replay) -> String {
    let Replay {
        processes,
        calls,
        unended,
        moment,
        same,
        taken,
        other,
        ..
    } = replay;
    let unended = match unended {
        0 => String::new(),
        n => format!(" ({n} that did not end were left out)"),
    };
    format!(
        "{calls} calls of {processes} processes{unended}, {} rounds, {} ticks. In shared memory devices wrote {same} bytes as \
         before and {other} otherwise; programs wrote {taken}.\n",
        moment.rounds, moment.time
    )
}
