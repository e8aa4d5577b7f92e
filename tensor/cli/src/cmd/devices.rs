//! `doorbell devices`: what can be opened here.

use serde::Serialize;

use crate::error::Error;
use crate::output;
use crate::session::Environment;

/// List the devices that can be opened.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON (schema doorbell.devices/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    device: String,
    interface: &'static str,
    arch: String,
    name: String,
    units: u32,
    memory_bytes: u64,
    queues: Vec<String>,
    selected: bool,
}

/// Opens each device that is present and prints a row for it.
pub fn run(args: &Args, environment: &Environment) -> Result<(), Error> {
    let selected = environment.open_device()?;
    let chosen = selected.info();
    let mut lines = Vec::new();
    for device in drivers::present(&environment.settings)? {
        let info = device.info();
        lines.push(Line {
            device: info.id.to_string(),
            interface: info.interface,
            arch: info.arch.clone(),
            name: info.name.clone(),
            units: info.units,
            memory_bytes: info.memory,
            queues: info
                .queues
                .iter()
                .map(|(kind, n)| format!("{n} {kind}"))
                .collect(),
            selected: info.id == chosen.id && info.interface == chosen.interface,
        });
    }
    if args.json {
        return output::json("doorbell.devices/1", &lines);
    }
    for l in &lines {
        output::line(format_args!(
            "{} {:<8} {:<8} {:<10} {} | {} units, {:.1} GiB, {}",
            if l.selected { '*' } else { ' ' },
            l.device,
            l.interface,
            l.arch,
            l.name,
            l.units,
            l.memory_bytes as f64 / (1u64 << 30) as f64,
            l.queues.join(", ")
        ))?;
    }
    Ok(())
}
