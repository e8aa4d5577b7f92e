//! `doorbell smi`: the state of the GPUs of this machine, and their users. It is read-only and wakes no card.

mod text;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::Setup;
use drivers::gauges::{Gauges, Way};
use drivers::panel::Panel;
use drivers_host::machine::Host;
use drivers_host::pci::System;
use hcq::transport::Machine;
use serde::Serialize;

use crate::program::error::Error;
use crate::program::output::{self, say};
use text::{memory, name, power, sensors, title, users};

/// Print clocks, power, temperature and memory of GPUs, and which processes use them.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON (schema doorbell.smi/1)
    #[arg(long, conflicts_with = "watch")]
    json: bool,
    /// Refresh full-screen every so many seconds, until q is pressed
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
    watch: Option<Duration>,
    /// Also query the power management of AMD cards that no kernel driver or program uses, USB bridges included. Each
    /// card is opened for a moment, during which no other program can use it
    #[arg(long)]
    smu: bool,
    /// Read the system files from this folder instead of this machine
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let some = text
        .parse()
        .ok()
        .filter(|s: &f64| (0.1..=3600.0).contains(s));
    some.map(Duration::from_secs_f64)
        .ok_or_else(|| "expected 0.1 to 3600 seconds".into())
}

#[derive(Serialize)]
struct Row<'a> {
    address: &'a str,
    id: &'a str,
    name: &'a str,
    arch: Option<&'a str>,
    driver: Option<&'a str>,
    /// Whether it is behind a bridge on USB; the address is then the port of that.
    usb: bool,
    /// Whether its driver has switched it off until somebody wants it.
    asleep: bool,
    memory_used: Option<u64>,
    memory_total: Option<u64>,
    busy_percent: Option<f64>,
    celsius: Option<f64>,
    watts: Option<f64>,
    watts_most: Option<f64>,
    core_mhz: Option<f64>,
    memory_mhz: Option<f64>,
    fan_rpm: Option<f64>,
    link: Option<&'a str>,
    /// Null if the driver does not report its users.
    users: Option<Vec<UserRow<'a>>>,
}

#[derive(Serialize)]
struct UserRow<'a> {
    pid: u32,
    command: &'a str,
    memory: Option<u64>,
    queues: Option<u32>,
}

fn row(card: &Gauges) -> Row<'_> {
    let users = card.users.iter().map(|user| UserRow {
        pid: user.pid,
        command: &user.command,
        memory: user.memory,
        queues: user.queues,
    });
    Row {
        address: &card.card.address,
        id: &card.card.id,
        name: name(card),
        arch: card.card.arch,
        driver: card.card.driver.as_deref(),
        usb: card.way == Way::Usb,
        asleep: card.asleep,
        memory_used: card.memory_used,
        memory_total: card.memory_total,
        busy_percent: card.busy,
        celsius: card.celsius,
        watts: card.watts,
        watts_most: card.watts_most,
        core_mhz: card.core_mhz,
        memory_mhz: card.memory_mhz,
        fan_rpm: card.fan_rpm,
        link: card.link.as_deref(),
        users: card.users_known.then(|| users.collect()),
    }
}

/// Prints what there is, or shows it until it is ended.
pub fn run(args: &Args, setup: &Setup) -> Result<(), Error> {
    let machine: Arc<dyn Machine> = match (&args.root, setup.twin()) {
        (Some(root), _) => Host::at(System::at(root)),
        (None, Some(twin)) => twin.machine(),
        (None, None) => Host::get(),
    };
    let panel = Panel::new(machine, args.smu);
    if let Some(interval) = args.watch {
        return watch::watch(&|| panel.read(), interval);
    }
    let (cards, notes) = panel.read();
    notes.iter().for_each(|note| say!("note: {note}"));
    if args.json {
        return output::json("doorbell.smi/1", &cards.iter().map(row).collect::<Vec<_>>());
    }
    if cards.is_empty() {
        say!("note: no AMD or NVIDIA GPU on the bus; see `doorbell doctor`");
    }
    for card in &cards {
        output::line(format_args!("{}", title(card)))?;
        let busy = card.busy.map(|busy| format!("busy {busy:.0} %"));
        let all: Vec<_> = [memory(card), busy, power(card)]
            .into_iter()
            .flatten()
            .chain(sensors(card))
            .collect();
        if !all.is_empty() {
            output::line(format_args!("  {}", all.join(", ")))?;
        }
        users(card)
            .iter()
            .try_for_each(|user| output::line(format_args!("  {}", user.trim_start())))?;
    }
    Ok(())
}
