//! `doorbell trace diff`.

use std::path::{Path, PathBuf};

use drivers::trace::amdgpu;
use drivers::trace::chips;
use drivers::trace::diff::{Line, Stage, Step, compare, steps};
use drivers::trace::names::{CALLS, Names};
use drivers::trace::recording;

use crate::program::error::Error;
use crate::program::output::{self, say};

/// What is compared.
#[derive(clap::Args)]
pub struct Args {
    /// Recording
    #[arg(value_name = "FILE")]
    first: PathBuf,
    /// Another recording, or a log of the tracepoints amdgpu_device_rreg and amdgpu_device_wreg of the same card
    #[arg(value_name = "OTHER")]
    second: PathBuf,
    /// Only this stage
    #[arg(long, value_name = "STAGE", value_parser = super::stages(), ignore_case = true)]
    stage: Option<String>,
    /// Also compare the values that were read; default: only writes
    #[arg(long)]
    values: bool,
}

/// Prints what differs; whether nothing does.
pub fn run(args: &Args) -> Result<bool, Error> {
    let recording = super::recording(&args.first)?;
    let mut names = Names::of(&recording);
    let mut first = steps(&recording, &mut names);
    let chips = chips::of(&recording);
    let other = other(&args.second, &names)?;
    let (path, second) = (args.second.display(), other.steps);
    let mut is_same = chips.is_empty() || other.chips.is_empty() || chips == other.chips;
    if !is_same {
        let [chips, others] = [chips, other.chips].map(|chips| chips.join(", "));
        let first = args.first.display();
        output::line(format_args!(
            "the chips differ: {chips} in {first}, {others} in {path}; most differences below follow from that"
        ))?;
    }
    if other.is_log {
        // It has registers alone.
        let others = ["config", "doorbell", "VRAM"];
        let is_other = |step: &Step| others.iter().any(|start| step.what.starts_with(start));
        first.retain(|step| step.stage != CALLS && !is_other(step));
    }
    if first.is_empty() && second.is_empty() {
        say!(
            "note: nothing to compare in {} and {path}: only registers, configuration space, doorbells and calls of \
             kernel drivers are compared, not USB transfers and memory",
            args.first.display()
        );
    }
    let stages = compare(&first, &second, args.values);
    let wanted = |stage: &&Stage| {
        let asked = args.stage.as_ref();
        asked.is_none_or(|name| name.eq_ignore_ascii_case(stage.name))
    };
    for stage in stages.iter().filter(wanted) {
        let (same, other) = (stage.same, stage.lines.len());
        output::line(format_args!(
            "{}: {same} equal, {other} different",
            stage.name
        ))?;
        for line in &stage.lines {
            is_same = false;
            let (sign, step, instead) = match line {
                Line::Less(step) => ('-', step, None),
                Line::More(step) => ('+', step, None),
                Line::Other(step, other) => ('~', step, Some(other)),
            };
            output::line(format_args!("  {sign} {}", shown(step, instead)))?;
            let values = (step.value, instead.and_then(|other| other.value));
            if let (Some(a), Some(b)) = values {
                let fields = names.differences(&step.what, a, b);
                if !fields.is_empty() {
                    output::line(format_args!("      {}", fields.join(", ")))?;
                }
            }
        }
    }
    Ok(is_same)
}

/// The other file.
struct Other {
    steps: Vec<Step>,
    chips: Vec<String>,
    /// Whether it is a log of the kernel driver.
    is_log: bool,
}

/// Reads the other file; `names` are those of the first.
fn other(path: &Path, names: &Names) -> Result<Other, Error> {
    let text = super::read(path)?;
    if !recording::is_one(&text) && amdgpu::is_one(&text) {
        let steps = amdgpu::steps(&text, names).map_err(|line| {
            let path = path.display();
            Error::Usage(format!(
                "{path}: line {line}: expected device, register and value, each with 0x"
            ))
        })?;
        return Ok(Other {
            steps,
            chips: amdgpu::chips(&text),
            is_log: true,
        });
    }
    let recording = super::parse(path, &text)?;
    let mut names = Names::of(&recording);
    Ok(Other {
        steps: steps(&recording, &mut names),
        chips: chips::of(&recording),
        is_log: false,
    })
}

fn shown(step: &Step, instead: Option<&Step>) -> String {
    let does = match step.is_write {
        _ if step.stage == CALLS => "call",
        true => "write",
        false => "read",
    };
    let value = |step: &Step| {
        let message = step.message.map(|message| format!(" {message}"));
        step.value.map_or(String::new(), |value| {
            format!(" {value:#x}{}", message.unwrap_or_default())
        })
    };
    let times = match step.times {
        1 => String::new(),
        times => format!(", {times} times"),
    };
    let instead = instead.map_or(String::new(), |other| {
        format!(", in the other file{} (line {})", value(other), other.line)
    });
    format!(
        "{does} {}{}{times}{instead} (line {})",
        step.what,
        value(step),
        step.line
    )
}
