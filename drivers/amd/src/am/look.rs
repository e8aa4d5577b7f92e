//! Operations on a card without starting it: measurements, and a reset.

use std::sync::Arc;

use drivers_gpu::bare;
use drivers_spec::amd::mmio::gc;
use hcq::transport::{Clock, Machine};
use hcq::{DeviceId, Error, Result};

use super::areas::VERSION;
use super::boot;
use super::card::Card;
use super::error::{Cause, Stage};
use super::metrics::Metrics;
use super::running::Am;
use super::smu::Smu;
use crate::VENDOR;

/// The measurements of the card at a PCI address (`0000:03:00.0`), through this process's open card or a temporarily
/// opened function. Starts nothing: `None` if the SMU does not have this driver's tables, because the card was not
/// started or by another driver.
///
/// # Errors
/// [`Error::NoDevice`]: the function cannot be opened, for example while another program uses it, or the card does not
/// answer; with the stage and the cause.
pub fn metrics(
    machine: &Arc<dyn Machine>,
    address: &str,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Metrics>> {
    let running = |am: &Am| {
        let seen = am.started().smu().metrics();
        seen.map(Some)
            .map_err(|cause| told(am.card(), Stage::Smu, cause))
    };
    let closed = |card: Arc<Card>| {
        let asked = || match is_ours(&card)? {
            true => Smu::of(&card)?.metrics().map(Some),
            false => Ok(None),
        };
        asked().map_err(|cause| told(&card, Stage::Smu, cause))
    };
    visit(machine, address, clock, running, closed)
}

/// Resets the card at a PCI address to its power-on state (mode 1, by its SMU). VRAM, firmware and queues are lost.
/// Returns whether a reset was needed: a card that was never started is still in its power-on state.
///
/// # Errors
/// [`Error::NoDevice`]: as [`metrics`], and for a card that this process has open; the card does not respond after the reset.
pub fn reset(machine: &Arc<dyn Machine>, address: &str, clock: &Arc<dyn Clock>) -> Result<bool> {
    let running = |am: &Am| {
        Err(Error::NoDevice {
            asked: am.card().pci().name().to_owned(),
            why: "open in this process, which would lose its data; close it first".into(),
        })
    };
    let closed = |card: Arc<Card>| {
        boot::mode1_reset(&card).map_err(|cause| told(&card, Stage::Reset, cause))
    };
    visit(machine, address, clock, running, closed)
}

/// Looks at a card: through what this process has open, or closed.
fn visit<T>(
    machine: &Arc<dyn Machine>,
    address: &str,
    clock: &Arc<dyn Clock>,
    running: impl FnOnce(&Am) -> Result<T>,
    closed: impl FnOnce(Arc<Card>) -> Result<T>,
) -> Result<T> {
    let id = DeviceId::new(VENDOR, 0);
    let none = |why: String| Error::NoDevice {
        asked: address.to_owned(),
        why,
    };
    bare::visit(&**machine, &id, address, running, || {
        let pci = machine.open_pci(address).map_err(|e| none(e.to_string()))?;
        let card = Card::open(id.clone(), pci, clock.clone());
        closed(Arc::new(card.map_err(|e| none(e.to_string()))?))
    })
}

fn told(card: &Card, stage: Stage, cause: Cause) -> Error {
    let why = card.failed(stage, cause).to_string();
    let asked = card.pci().name().to_owned();
    Error::NoDevice { asked, why }
}

/// Whether this driver has started the card: then the SMU's table is at this driver's address.
fn is_ours(card: &Card) -> std::result::Result<bool, Cause> {
    let Some(first) = card.blocks().gc.first() else {
        return Ok(false);
    };
    let seen = card.registers(first).read(&gc::SCRATCH_REG7)?;
    Ok(seen.bits() == VERSION)
}
