//! `doorbell doctor`: strictly read-only.

use std::path::Path;

use drivers::doctor::{Row, examine, examine_twin};
use drivers_host::machine::Host;
use serde::Serialize;

use crate::error::Error;
use crate::output;
use crate::session::{Environment, compilers};

/// Look at the system without touching it.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON (schema doorbell.doctor/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    check: &'a str,
    status: &'a str,
    detail: &'a str,
    fix: &'a str,
}

/// Prints a row per check; those of a simulated machine last, if one is chosen. Absent hardware is
/// no failure: the exit code is 0.
pub fn run(args: &Args, environment: &Environment) -> Result<(), Error> {
    let cpu = drivers_host::cpuinfo::CpuInfo::read();
    let mut rows = examine(Path::new("/"), &*Host::get(), &cpu);
    rows.splice(1..1, compilers(&environment.chip()));
    if let Some(twin) = &environment.twin {
        rows.extend(examine_twin(&*twin.machine()));
    }
    let lines: Vec<Line<'_>> = rows.iter().map(line).collect();
    if args.json {
        return output::json("doorbell.doctor/1", &lines);
    }
    for row in &lines {
        output::line(format_args!(
            "{:<14} {:<12} {}",
            row.check, row.status, row.detail
        ))?;
        if !row.fix.is_empty() {
            output::line(format_args!("{:<27} fix: {}", "", row.fix))?;
        }
    }
    Ok(())
}

fn line(row: &Row) -> Line<'_> {
    Line {
        check: &row.check,
        status: row.status.name(),
        detail: &row.detail,
        fix: &row.fix,
    }
}
