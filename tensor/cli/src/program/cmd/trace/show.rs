//! `doorbell trace show`.

use std::path::PathBuf;

use drivers::trace::names::{self, Names};
use serde::Serialize;

use crate::program::error::Error;
use crate::program::output;

/// What is shown of a recording.
#[derive(clap::Args)]
pub struct Args {
    /// Recording of `doorbell trace record`
    #[arg(value_name = "FILE")]
    recording: PathBuf,
    /// Only accesses of this stage
    #[arg(long, value_name = "STAGE", value_parser = super::stages(), ignore_case = true)]
    stage: Option<String>,
    /// Only count the accesses of each stage
    #[arg(long)]
    summary: bool,
    /// Print JSON (schema doorbell.trace/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row<'a> {
    line: usize,
    ns: u64,
    device: &'a str,
    stage: &'a str,
    text: String,
}

/// Prints a line for each access.
pub fn run(args: &Args) -> Result<(), Error> {
    let recording = super::recording(&args.recording)?;
    let mut names = Names::of(&recording);
    let mut rows = Vec::new();
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for entry in &recording.entries {
        let record = &entry.record;
        let told = names.tell(record);
        if args
            .stage
            .as_ref()
            .is_some_and(|wanted| !wanted.eq_ignore_ascii_case(told.stage))
        {
            continue;
        }
        match counts.iter_mut().find(|(stage, _)| *stage == told.stage) {
            Some((_, count)) => *count += 1,
            None => counts.push((told.stage, 1)),
        }
        let text = names::ioctl(record).unwrap_or(told.text);
        rows.push(Row {
            line: entry.line,
            ns: entry.at,
            device: &record.device,
            stage: told.stage,
            text,
        });
    }
    if args.json {
        return output::json("doorbell.trace/1", &rows);
    }
    if args.summary {
        let all: usize = counts.iter().map(|(_, count)| count).sum();
        for (stage, count) in &counts {
            output::line(format_args!("{stage:<10} {count:>8}"))?;
        }
        let named = names.registers();
        return output::line(format_args!(
            "{:<10} {all:>8}, {named} registers with names",
            "all"
        ));
    }
    rows.iter().try_for_each(|row| {
        let us = row.ns as f64 / 1e3;
        output::line(format_args!(
            "{us:>12.1} us {:<9} {}: {}",
            row.stage, row.device, row.text
        ))
    })
}
