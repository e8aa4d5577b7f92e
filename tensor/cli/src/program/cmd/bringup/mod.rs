//! `doorbell bringup`: step-by-step bring-up of an untested device. Each step needs little more than what earlier steps
//! have tested; a failed step prints what works and what to try.

#[cfg(all(test, feature = "twin"))]
mod again;
mod cause;
mod climb;
mod kernels;
mod probe;
mod queues;
mod steps;
mod tensors;

use std::path::Path;
use std::time::Duration;

use crate::Setup;
use drivers::env::Recorded;
use drivers::select::DeviceKind;
use drivers_bundle::Explanation;
use serde::Serialize;

use crate::program::error::Error;
use crate::program::output;
use steps::{STEPS, Step, StepResult, Times, Wall};

/// Bring up an untested device step by step.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON (schema doorbell.bringup/2)
    #[arg(long)]
    json: bool,
    /// First step
    #[arg(long, value_name = "STEP", value_parser = names())]
    from: Option<String>,
    /// Last step
    #[arg(long, value_name = "STEP", value_parser = names())]
    to: Option<String>,
    /// Limit of each wait for the device in seconds; default: HCQDEV_WAIT_TIMEOUT_MS if set, else 5 to 60, depending on
    /// the step, and sixty times as much on a simulated device
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    deadline: Option<Duration>,
    /// Encode packets for AMD GPUs like a driver proven on hardware, where ours differ: all such choices, or the named
    /// ones
    #[arg(long, value_enum, value_name = "CHOICE,..", num_args = 0..=1, value_delimiter = ',',
        default_missing_value = "waits,writes,copies,barriers")]
    recorded: Vec<Choice>,
}

/// What packets can be as recorded.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Choice {
    /// 32-bit waits
    Waits,
    /// 32-bit writes and signals at the end of the pipe
    Writes,
    /// Copies of at most 4 MiB
    Copies,
    /// Flush caches before each kernel, wait after it
    Barriers,
}

fn choices(args: &Args) -> Recorded {
    let has = |choice| args.recorded.contains(&choice);
    Recorded {
        waits: has(Choice::Waits),
        writes: has(Choice::Writes),
        copies: has(Choice::Copies),
        barriers: has(Choice::Barriers),
    }
}

fn names() -> clap::builder::PossibleValuesParser {
    STEPS
        .iter()
        .map(|step| step.name)
        .collect::<Vec<_>>()
        .into()
}

fn seconds(text: &str) -> Result<Duration, String> {
    let some = text
        .parse()
        .ok()
        .filter(|&s: &f64| s > 0.0 && s <= 86_400.0);
    let some = some.map(Duration::from_secs_f64);
    some.ok_or_else(|| "expected seconds, more than 0 and at most 86400".into())
}

#[derive(Serialize)]
struct Row {
    number: usize,
    step: &'static str,
    /// `passed`, `skipped` or `failed`.
    status: &'static str,
    deadline_ms: f64,
    ms: f64,
    /// What was seen; why, if it was skipped.
    evidence: Vec<String>,
    error: Option<String>,
    /// What `doorbell explain` finds in the file that the device has left, if it has left one.
    explain: Option<Explanation>,
    /// What to try, in this order: what that says, then what helps with the step. Empty unless it failed.
    next: Vec<String>,
}

impl Row {
    fn new(result: &StepResult<'_>, wall: Wall, bundles: Option<&Path>) -> Row {
        let error = result.error().map(|error| error.to_string());
        let explain = error.as_ref().and_then(|error| cause::of(error, bundles?));
        let found = explain.iter().flat_map(|found| found.next.clone());
        let next = found.chain(result.next(wall)).collect();
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        Row {
            number: number(result.step),
            step: result.step.name,
            status: result.status(),
            deadline_ms: millis(result.limit),
            ms: millis(result.took),
            evidence: result.evidence(),
            error,
            explain,
            next,
        }
    }

    fn print(&self) -> Result<(), Error> {
        let mut said = self.evidence.iter().chain(&self.error);
        let first = said.next().map_or("", String::as_str);
        output::line(format_args!(
            "{:>2} {:<9} {:<8} {:>9.1} ms  {first}",
            self.number, self.step, self.status, self.ms
        ))?;
        for more in said {
            output::line(format_args!("{:34}{more}", ""))?;
        }
        Ok(())
    }
}

fn number(step: &Step) -> usize {
    let place = STEPS.iter().position(|one| one.name == step.name);
    place.map_or(0, |place| place + 1)
}

/// Prints what works and what to try.
fn advise(row: &Row, passed: &[&str], simulated: bool) -> Result<(), Error> {
    let known = match passed {
        [] => "nothing yet: this was the first step".into(),
        some => format!("these work: {}", some.join(", ")),
    };
    output::line(format_args!("\nknown   {known}"))?;
    if simulated {
        output::line(format_args!(
            "        the device is simulated; rule violations, if any, follow"
        ))?;
    }
    if let Some(found) = &row.explain {
        output::line(format_args!("cause   {} ({})", found.text, found.cause))?;
        // The last is the error, which stands above.
        let evidence = found
            .evidence
            .split_last()
            .map_or(&[][..], |(_, rest)| rest);
        for line in evidence {
            output::line(format_args!("        - {line}"))?;
        }
    }
    for (i, hint) in row.next.iter().enumerate() {
        let label = if i == 0 { "try" } else { "" };
        output::line(format_args!("{label:<7} {}. {hint}", i + 1))?;
    }
    Ok(())
}

/// Runs the steps, and prints a row for each.
pub fn run(args: &Args, setup: &Setup) -> Result<(), Error> {
    let place = |name: &Option<String>, other: usize| {
        let found = STEPS
            .iter()
            .position(|step| Some(step.name) == name.as_deref());
        found.unwrap_or(other)
    };
    let (from, to) = (place(&args.from, 0), place(&args.to, STEPS.len() - 1));
    if from > to {
        return Err(Error::Usage(format!(
            "--from {} comes after --to {}; steps in order: {}",
            STEPS[from].name,
            STEPS[to].name,
            STEPS.map(|step| step.name).join(", ")
        )));
    }
    if !args.recorded.is_empty() && setup.target().device != DeviceKind::Amd {
        return Err(Error::Usage(format!(
            "--recorded applies to AMD GPUs only, not to {}; leave it out",
            setup.target()
        )));
    }
    let setup = &setup.clone().recorded(choices(args));
    let simulated = setup.twin().is_some();
    let given = args.deadline.or(setup.said_wait_timeout());
    let times = Times::new(given, simulated);
    let wall = Wall {
        amd: setup.target().device == DeviceKind::Amd,
        simulated,
    };
    let mut rows: Vec<Row> = Vec::new();
    let outcome = steps::climb(setup, &STEPS[from..=to], times, |result| {
        let row = Row::new(result, wall, setup.settings().bundles.as_deref());
        if !args.json {
            row.print()?;
        }
        rows.push(row);
        Ok(())
    });
    if args.json {
        output::json("doorbell.bringup/2", &rows)?;
        return outcome;
    }
    if let (Err(_), Some((last, below))) = (&outcome, rows.split_last()) {
        let passed = below.iter().filter(|row| row.status == "passed");
        let passed: Vec<_> = passed.map(|row| row.step).collect();
        advise(last, &passed, simulated)?;
    }
    outcome
}
