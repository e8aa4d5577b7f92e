//! `doorbell usb`: bridges from USB to PCIe, and what goes over them.

use std::time::{Duration, Instant};

use crate::{Setup, Twin};
use drivers::usb::{bridges, is_open};
use drivers_host::machine::Host;
use hcq::AllocSpec;
use hcq::transport::UsbDevice;
use serde::Serialize;

use crate::program::error::Error;
use crate::program::output::{self, say};

/// What `doorbell usb` does.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List bridges that may carry a GPU, without opening them
    List(List),
    /// Measure copies to and from the GPU behind a bridge (DEV=USB+AMD, DEV=TWINUSB+AMD)
    Bench(Bench),
}

/// Options of `list`.
#[derive(clap::Args)]
pub struct List {
    /// Print JSON (schema doorbell.usb/1)
    #[arg(long)]
    json: bool,
}

/// Options of `bench`.
#[derive(clap::Args)]
pub struct Bench {
    /// Amount to copy
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1024))]
    mib: u64,
}

#[derive(Serialize)]
struct Line {
    port: String,
    id: String,
    name: Option<String>,
    serial: Option<String>,
    mbit_per_s: u32,
    /// Whether it has the firmware that is driven here.
    open: bool,
    /// What selects it.
    dev: String,
}

/// Does what was asked.
pub fn run(command: &Command, setup: &Setup) -> Result<(), Error> {
    match command {
        Command::List(args) => list(args, setup),
        Command::Bench(args) => bench(args, setup),
    }
}

fn list(args: &List, setup: &Setup) -> Result<(), Error> {
    let host = Host::get();
    let twin = setup.twin().map(Twin::machine);
    let mut lines = Vec::new();
    for (machine, way) in [(Some(host), "USB"), (twin, "TWINUSB")] {
        let Some(machine) = machine else { continue };
        let found = bridges(&*machine).map_err(Error::Transport)?;
        lines.extend(
            found
                .into_iter()
                .enumerate()
                .map(|(i, bridge)| line(&bridge, i, way)),
        );
    }
    if args.json {
        return output::json("doorbell.usb/1", &lines);
    }
    if lines.is_empty() {
        say!("note: no ASM24xx bridge on USB; see doorbell doctor");
    }
    for line in &lines {
        let firmware = match line.open {
            true => format!("DEV={}", line.dev),
            false => {
                "vendor firmware (unsupported): flash the open one, see `doorbell doctor`".into()
            }
        };
        output::line(format_args!(
            "{:<8} {} {} | {} Mbit/s | {firmware}",
            line.port,
            line.id,
            line.name.as_deref().unwrap_or("without a name"),
            line.mbit_per_s,
        ))?;
    }
    Ok(())
}

fn line(bridge: &UsbDevice, number: usize, way: &str) -> Line {
    Line {
        port: bridge.port.clone(),
        id: format!("{:04x}:{:04x}", bridge.vendor, bridge.product),
        name: bridge.product_name.clone(),
        serial: bridge.serial.clone(),
        mbit_per_s: bridge.speed,
        open: is_open(bridge),
        dev: format!("{way}:{number}+AMD"),
    }
}

fn bench(args: &Bench, setup: &Setup) -> Result<(), Error> {
    let device = setup.device()?;
    let info = device.info();
    if info.interface != "USB" {
        return Err(Error::Usage(format!(
            "{} is connected by {}, expected a GPU behind a USB bridge: --dev USB+AMD or --dev \
             TWINUSB+AMD::gfx1201",
            info.id, info.interface
        )));
    }
    let bytes = args.mib << 20;
    let buffer = device.alloc(AllocSpec::device(bytes)).map_err(library)?;
    let mut content: Vec<u8> = (0..bytes).map(|i| (i >> 5) as u8).collect();
    // The first copy makes the queue for copies.
    buffer.write(0, &content[..4096]).map_err(library)?;
    measured(setup, "to the GPU", bytes, || {
        buffer.write(0, &content).map_err(library)
    })?;
    content.fill(0);
    measured(setup, "to the host", bytes, || {
        buffer.read(0, &mut content).map_err(library)
    })?;
    match content
        .iter()
        .zip(0u64..)
        .all(|(byte, i)| *byte == (i >> 5) as u8)
    {
        true => Ok(()),
        false => Err(Error::Check(
            "the data read back differs from the data written".into(),
        )),
    }
}

fn library(error: hcq::Error) -> Error {
    crate::Error::from(error).into()
}

/// Does something, and prints how long it took; on a simulated bridge also how long its rates make it.
fn measured(
    setup: &Setup,
    what: &str,
    bytes: u64,
    work: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let before = setup.twin().and_then(Twin::transfers);
    let start = Instant::now();
    work()?;
    let took = start.elapsed();
    let rate = |took: Duration| bytes as f64 / took.as_secs_f64() / 1e6;
    output::line(format_args!(
        "{what:<12} {} MiB in {took:.2?}: {:.1} MB/s",
        bytes >> 20,
        rate(took)
    ))?;
    if let (Some(before), Some(after)) = (before, setup.twin().and_then(Twin::transfers)) {
        let took = after.time - before.time;
        output::line(format_args!(
            "{:<12} at bridge speed {took:.2?}: {:.1} MB/s, {:.1} % of {} MB/s; {} transfers, {} waits",
            "",
            rate(took),
            rate(took) * 1e8 / after.most.max(1) as f64,
            after.most / 1_000_000,
            after.transfers - before.transfers,
            after.waits - before.waits
        ))?;
    }
    Ok(())
}
