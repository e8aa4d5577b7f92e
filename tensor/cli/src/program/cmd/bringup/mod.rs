//! `doorbell bringup`: a ladder for a device that never ran. Each rung needs what the rungs below it have
//! shown, and little more; the first that fails says what is known and what to try.

#[cfg(all(test, feature = "twin"))]
mod again;
mod climb;
mod kernels;
mod ladder;
mod probe;
mod queues;
mod tensors;

use std::time::Duration;

use crate::Setup;
use drivers::env::Recorded;
use drivers::select::DeviceKind;
use serde::Serialize;

use crate::program::error::Error;
use crate::program::output;
use ladder::{RUNGS, Rung, Step, Times, Wall};

/// Climb the ladder for a device that never ran.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON (schema doorbell.bringup/1)
    #[arg(long)]
    json: bool,
    /// Begin with this rung
    #[arg(long, value_name = "RUNG", value_parser = names())]
    from: Option<String>,
    /// End with this rung
    #[arg(long, value_name = "RUNG", value_parser = names())]
    to: Option<String>,
    /// Seconds that each wait for the device may take. Not given: HCQDEV_WAIT_TIMEOUT_MS, if that is set, else what
    /// suits each step, and sixty times as much on a simulated device
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    deadline: Option<Duration>,
    /// Make packets of AMD GPUs as a driver made them that has run on cards, where ours differ by choice: all such
    /// choices, or those that are named
    #[arg(long, value_enum, value_name = "CHOICE,..", num_args = 0..=1, value_delimiter = ',',
        default_missing_value = "waits,writes,copies,barriers")]
    recorded: Vec<Choice>,
}

/// What packets can be as recorded.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Choice {
    /// Waits of 32 bits
    Waits,
    /// Writes, signals among them, at the end of the pipe and of 32 bits
    Writes,
    /// Copies of at most 4 MiB
    Copies,
    /// Caches emptied before each kernel, and a wait for it behind
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
    RUNGS
        .iter()
        .map(|rung| rung.name)
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
    rung: &'static str,
    /// `passed`, `skipped` or `failed`.
    status: &'static str,
    deadline_ms: f64,
    ms: f64,
    /// What was seen; why, if it was skipped.
    evidence: Vec<String>,
    error: Option<String>,
    /// What to try, in this order; empty unless it failed.
    next: Vec<String>,
}

impl Row {
    fn new(step: &Step<'_>, wall: Wall) -> Row {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        Row {
            number: number(step.rung),
            rung: step.rung.name,
            status: step.status(),
            deadline_ms: millis(step.limit),
            ms: millis(step.took),
            evidence: step.evidence(),
            error: step.error().map(|error| error.to_string()),
            next: step.next(wall),
        }
    }

    fn print(&self) -> Result<(), Error> {
        let mut said = self.evidence.iter().chain(&self.error);
        let first = said.next().map_or("", String::as_str);
        output::line(format_args!(
            "{:>2} {:<9} {:<8} {:>9.1} ms  {first}",
            self.number, self.rung, self.status, self.ms
        ))?;
        for more in said {
            output::line(format_args!("{:34}{more}", ""))?;
        }
        Ok(())
    }
}

fn number(rung: &Rung) -> usize {
    let place = RUNGS.iter().position(|one| one.name == rung.name);
    place.map_or(0, |place| place + 1)
}

/// What a person needs who goes on from here.
fn advise(row: &Row, passed: &[&str], simulated: bool) -> Result<(), Error> {
    let known = match passed {
        [] => "nothing yet: this is the first rung that was tried".into(),
        some => format!("these work: {}", some.join(", ")),
    };
    output::line(format_args!("\nknown   {known}"))?;
    if simulated {
        output::line(format_args!(
            "        the device is simulated; broken rules follow, if there are any"
        ))?;
    }
    for (i, hint) in row.next.iter().enumerate() {
        let label = if i == 0 { "try" } else { "" };
        output::line(format_args!("{label:<7} {}. {hint}", i + 1))?;
    }
    Ok(())
}

/// Climbs, and prints a row for each rung as it ends.
pub fn run(args: &Args, setup: &Setup) -> Result<(), Error> {
    let place = |name: &Option<String>, other: usize| {
        let found = RUNGS
            .iter()
            .position(|rung| Some(rung.name) == name.as_deref());
        found.unwrap_or(other)
    };
    let (from, to) = (place(&args.from, 0), place(&args.to, RUNGS.len() - 1));
    if from > to {
        return Err(Error::Usage(format!(
            "--from {} --to {}: the first is above the second; rungs from below: {}",
            RUNGS[from].name,
            RUNGS[to].name,
            RUNGS.map(|rung| rung.name).join(", ")
        )));
    }
    if !args.recorded.is_empty() && setup.target().device != DeviceKind::Amd {
        return Err(Error::Usage(format!(
            "--recorded: {} has no such choices, they are of packets for AMD GPUs; leave it out",
            setup.target()
        )));
    }
    let setup = &setup.clone().recorded(choices(args));
    let simulated = setup.twin().is_some();
    let settings = setup.settings();
    let is_said = |[name, _]: &[String; 2]| name == "HCQDEV_WAIT_TIMEOUT_MS";
    let said = settings.said.iter().any(is_said);
    let given = args.deadline.or(said.then_some(settings.wait_timeout));
    let times = Times::new(given, simulated);
    let wall = Wall {
        amd: setup.target().device == DeviceKind::Amd,
        simulated,
    };
    let mut rows: Vec<Row> = Vec::new();
    let outcome = ladder::climb(setup, &RUNGS[from..=to], times, |step| {
        let row = Row::new(step, wall);
        if !args.json {
            row.print()?;
        }
        rows.push(row);
        Ok(())
    });
    if args.json {
        output::json("doorbell.bringup/1", &rows)?;
        return outcome;
    }
    if let (Err(_), Some((last, below))) = (&outcome, rows.split_last()) {
        let passed = below.iter().filter(|row| row.status == "passed");
        let passed: Vec<_> = passed.map(|row| row.rung).collect();
        advise(last, &passed, simulated)?;
    }
    outcome
}
