//! `doorbell devices`: what can be opened here.

use doorbell::{Setup, Twin};
use serde::Serialize;

use crate::error::Error;
use crate::output;

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
    /// With TWIN before it where the device is simulated.
    interface: String,
    /// What selects it.
    dev: String,
    arch: String,
    name: String,
    units: u32,
    memory_bytes: u64,
    queues: Vec<String>,
    selected: bool,
}

/// Opens each device that is present and prints a row for it; devices that are there and do not open
/// are named on stderr.
pub fn run(args: &Args, setup: &Setup) -> Result<(), Error> {
    // Closed again: each is opened below, and a GPU may have no room for two.
    let chosen = setup.device()?.info().clone();
    let simulated = setup.twin().is_some();
    let twin = setup.twin().map(Twin::machine);
    let mut lines = Vec::new();
    for present in drivers::present(setup.settings(), twin.as_ref()) {
        let device = match present.device {
            Ok(device) => device,
            Err(e) => {
                eprintln!(
                    "note: {} cannot be opened: {e}; see doorbell doctor",
                    present.place
                );
                continue;
            }
        };
        let info = device.info();
        let twin = present.target.interface.is_some_and(|way| way.twin);
        let prefix = if twin { "TWIN" } else { "" };
        lines.push(Line {
            device: info.id.to_string(),
            interface: format!("{prefix}{}", info.interface),
            dev: present.target.to_string(),
            arch: info.arch.clone(),
            name: info.name.clone(),
            units: info.units,
            memory_bytes: info.memory,
            queues: info
                .queues
                .iter()
                .map(|(kind, n)| format!("{n} {kind}"))
                .collect(),
            selected: info.id == chosen.id
                && info.interface == chosen.interface
                && twin == simulated,
        });
    }
    if args.json {
        return output::json("doorbell.devices/1", &lines);
    }
    for l in &lines {
        output::line(format_args!(
            "{} {:<8} {:<8} {:<10} {} | {} units, {:.1} GiB, {} | DEV={}",
            if l.selected { '*' } else { ' ' },
            l.device,
            l.interface,
            l.arch,
            l.name,
            l.units,
            l.memory_bytes as f64 / (1u64 << 30) as f64,
            l.queues.join(", "),
            l.dev
        ))?;
    }
    Ok(())
}
