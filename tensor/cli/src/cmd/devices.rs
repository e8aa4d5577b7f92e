//! `doorbell devices`: what can be opened here, and which GPUs are on the bus.

use doorbell::{Setup, Twin};
use drivers_host::machine::Host;
use serde::Serialize;

use crate::error::Error;
use crate::output;

/// List the devices that can be opened.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON (schema doorbell.devices/2)
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
    /// None, as what follows, of what is only looked at: a GPU on the bus.
    units: Option<u32>,
    memory_bytes: Option<u64>,
    queues: Vec<String>,
    selected: bool,
    /// The kernel driver that has a GPU on the bus.
    driver: Option<String>,
}

/// Opens each device that is present and prints a row for it; devices that are there and do not open
/// are named on stderr. GPUs on the bus are not opened.
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
            units: Some(info.units),
            memory_bytes: Some(info.memory),
            queues: info
                .queues
                .iter()
                .map(|(kind, n)| format!("{n} {kind}"))
                .collect(),
            selected: info.id == chosen.id
                && info.interface == chosen.interface
                && twin == simulated,
            driver: None,
        });
    }
    let cards = drivers::on_bus(&*Host::get()).into_iter();
    // Those that we can drive are counted.
    let mut driven = 0;
    lines.extend(cards.map(|card| Line {
        dev: match (card.arch, card.taken()) {
            (None, _) => String::new(),
            (Some(_), taken) => {
                driven += 1;
                let dev = format!("PCI:{}+AMD", driven - 1);
                taken.map_or(dev, |_| String::new())
            }
        },
        device: card.address,
        interface: "PCI".into(),
        arch: card.arch.unwrap_or_default().into(),
        name: format!("{} ({})", card.name, card.id),
        units: None,
        memory_bytes: None,
        queues: Vec::new(),
        selected: false,
        driver: card.driver,
    }));
    if args.json {
        return output::json("doorbell.devices/2", &lines);
    }
    for l in &lines {
        let mark = if l.selected { '*' } else { ' ' };
        let what = match (l.units, l.memory_bytes) {
            (Some(units), Some(bytes)) => format!(
                "{units} units, {:.1} GiB, {} | DEV={}",
                bytes as f64 / (1u64 << 30) as f64,
                l.queues.join(", "),
                l.dev
            ),
            _ => {
                let driver = format!("driver {}", l.driver.as_deref().unwrap_or("none"));
                match l.dev.as_str() {
                    "" => driver,
                    dev => format!("{driver} | DEV={dev}"),
                }
            }
        };
        output::line(format_args!(
            "{mark} {:<8} {:<8} {:<10} {} | {what}",
            l.device, l.interface, l.arch, l.name
        ))?;
    }
    Ok(())
}
