//! AMD GPUs behind a USB bridge, on the twins of both.

#![allow(clippy::unwrap_used)]

#[path = "../stand/mod.rs"]
mod stand;

#[path = "../stand/bundles.rs"]
mod keeping;

mod bugs;
mod bundles;
mod copies;
mod costs;
mod device;
mod failures;
mod mutations;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use drivers_amd::{AmdDevice, Options};
use drivers_asm24::Bridged;
use hcq::Result;
use hcq::transport::{Clock, Machine, VirtualClock};
use twin_amd::usb::UsbMachine;

/// Debian's package, as `scripts/fetch firmware` leaves it.
fn firmware() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware/bookworm-backports")
}

fn options() -> Options {
    Options {
        firmware: vec![firmware()],
        ..stand::options()
    }
}

/// Opens the card behind the bridge in the first port.
fn open(machine: &Arc<dyn Machine>, options: &Options) -> Result<Arc<AmdDevice>> {
    open_at(machine, 0, options)
}

/// The same, of any port.
fn open_at(machine: &Arc<dyn Machine>, number: u32, options: &Options) -> Result<Arc<AmdDevice>> {
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let through = Bridged::over(machine, &clock);
    let port = format!("2-{}", number + 1);
    let backend = drivers_amd::am::open(&through, &port, number, &clock, options)?;
    drivers_amd::over(&backend, options)
}

/// How long a card may take for what is left of its work.
const RESTS: Duration = Duration::from_secs(60);

/// Waits until the card behind the first bridge has done all that it was told, if it has power.
fn rest(twin: &UsbMachine) {
    let start = Instant::now();
    let function = twin.bridge(0).unwrap().function();
    while function.as_ref().is_some_and(|one| !one.is_idle()) {
        assert!(start.elapsed() < RESTS, "the card is not at rest");
        thread::yield_now();
    }
}

/// The rules that were broken.
fn broken(twin: &UsbMachine) -> Vec<String> {
    let violations = twin.journal().violations();
    violations.iter().map(ToString::to_string).collect()
}

fn unbroken(twin: &UsbMachine) {
    let broken = broken(twin);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
