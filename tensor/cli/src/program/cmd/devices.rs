//! `doorbell devices`: what can be opened here, and which GPUs are on the bus.

use crate::{Setup, Twin};
use drivers::{NVIDIA_CARDS, OnBus};
use drivers_host::machine::Host;
use hcq::transport::Machine;
use serde::Serialize;

use crate::program::error::Error;
use crate::program::output::{self, say};

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

/// GPUs on the bus of a machine, of which nothing is opened; `chosen` is the number of the selected one.
fn on_bus(machine: &dyn Machine, prefix: &str, chosen: Option<u32>) -> Vec<Line> {
    // Those that we can drive are counted, by their kinds.
    let (mut amd, mut nvidia) = (0, 0);
    let line = |card: OnBus| {
        let kind = card.kind();
        let count = match kind {
            Some("NV") => &mut nvidia,
            _ => &mut amd,
        };
        let number = kind.map(|_| *count);
        *count += u32::from(kind.is_some());
        let free = number.zip(kind).filter(|_| card.taken().is_none());
        Line {
            dev: free.map_or(String::new(), |(n, kind)| format!("{prefix}PCI:{n}+{kind}")),
            device: card.address,
            interface: format!("{prefix}PCI"),
            arch: card.arch.unwrap_or_default().into(),
            name: format!("{} ({})", card.name, card.id),
            units: None,
            memory_bytes: None,
            queues: Vec::new(),
            selected: number.is_some() && number == chosen,
            driver: card.driver,
        }
    };
    drivers::on_bus(machine).into_iter().map(line).collect()
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
                say!(
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
    lines.extend(on_bus(&*Host::get(), "", None));
    if let Some(twin) = &twin {
        let is_chosen = chosen.interface == "PCI";
        lines.extend(on_bus(
            &**twin,
            "TWIN",
            is_chosen.then_some(chosen.id.index()),
        ));
    }
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
                    dev if dev.starts_with("PCI") && dev.ends_with("+NV") => {
                        format!("{driver} | DEV={dev} (if it is an {NVIDIA_CARDS})")
                    }
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
