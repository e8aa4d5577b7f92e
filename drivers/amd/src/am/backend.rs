//! [`open`]: a card over PCI as a backend.

use std::sync::Arc;

use drivers_gpu::backend::{Facts, RING_COSTS};
use drivers_gpu::bare::{self, Handle};
use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::packet::Gfx;
use firmware_tools::search::Search;
use hcq::transport::{Clock, Machine, Pci, ResetKind};
use hcq::{DeviceId, Error, Result};

use super::boot;
use super::card::Card;
use super::error::{AmError, Cause};
use super::queue;
use super::running::{Am, Running};
use crate::VENDOR;
use crate::backend::{AmdBackend, Gpu, HardwareQueue, QueueRequest};
use crate::chip::{Chip, Units};
use crate::options::Options;

/// Ticks of the clock of all these chips in a second.
const CLOCK_HZ: u64 = 100_000_000;

/// Opens the card at an address of PCI (`0000:03:00.0`), and starts it if no other device of this process has. `index`
/// is its number in messages; `clock` times the waits of the start.
///
/// # Errors
/// [`Error::NoDevice`]: the function cannot be opened, or the card cannot be started: the stage and the cause;
/// [`Error::OutOfMemory`], [`Error::Fault`].
pub fn open(
    machine: &Arc<dyn Machine>,
    address: &str,
    index: u32,
    clock: &Arc<dyn Clock>,
    options: &Options,
) -> Result<Arc<dyn AmdBackend>> {
    let id = DeviceId::new(VENDOR, index);
    let start = |pci| {
        start(&id, &pci, clock, options).map_err(|error| Error::NoDevice {
            asked: id.to_string(),
            why: error.to_string(),
        })
    };
    let gpu = |am: &Am| known(am, options);
    let handle = bare::open(machine, id.clone(), address, start, gpu)?;
    Ok(Arc::new(handle))
}

fn start(
    id: &DeviceId,
    pci: &Arc<dyn Pci>,
    clock: &Arc<dyn Clock>,
    options: &Options,
) -> std::result::Result<Running, AmError> {
    let look = || Card::open(id.clone(), pci.clone(), clock.clone());
    let card = match look() {
        // It has not recovered from its own reset; the bus can still reset it.
        Err(error) if matches!(*error.cause, Cause::Silent { .. }) => {
            let reset = pci.reset(ResetKind::Bus);
            reset.map_err(|_| error).and_then(|()| look())
        }
        seen => seen,
    };
    let options = boot::Options {
        firmware: Search::new(options.firmware.iter().cloned()),
        reset: options.reset,
    };
    Am::start(Arc::new(card?), &options)
}

/// The facts of a card from its discovery table, in the form of all backends.
fn known(am: &Am, options: &Options) -> std::result::Result<Gpu, Cause> {
    let copy_queues = am.sdma().queues();
    let card = am.card();
    let discovery = card.discovery();
    let gc = discovery.first(ip::GC)?;
    let version = gc.version;
    // The kernel driver has another number for MI300 and for Navi32.
    let (major, minor, step) = match (version.0, version.1, version.2) {
        (9, 4, 3) => (9, 4, 2),
        (11, 0, 3) => (11, 0, 1),
        other => other,
    };
    let number = u32::from(major) * 10000 + u32::from(minor) * 100 + u32::from(step);
    let chip = Chip::by_version(number).ok_or_else(|| Cause::Version {
        block: "GC".into(),
        version,
        known: Vec::new(),
    })?;
    let units = &discovery.units;
    let xccs = card.blocks().gc.len() as u32;
    let arrays = units.engines * units.arrays_per_engine * xccs;
    let simds_per_cu = match card.gfx() {
        Gfx::Gfx9 => 4,
        Gfx::Gfx10 | Gfx::Gfx11 | Gfx::Gfx12 => 2,
    };
    Ok(Gpu {
        facts: Facts {
            place: card.pci().name().to_owned(),
            vram: card.vram_bytes(),
            // Behind a bridge the card's own copies are faster.
            vram_windows: options.host_visible && card.has_large_bar() && card.pci().reaches_host(),
            clock_hz: CLOCK_HZ,
            costs: RING_COSTS,
            log: match card.pci().reaches_host() {
                true => "amdgpu",
                false => "usb",
            },
        },
        chip,
        units: Units {
            simds: arrays * units.cus_per_array * simds_per_cu,
            simds_per_cu,
            xccs,
            arrays,
            arrays_per_engine: units.arrays_per_engine,
            scratch_slots: units.scratch_slots_per_cu,
            lds_kib: units.lds_kib,
        },
        copy_queues,
    })
}

impl AmdBackend for Handle<Am> {
    fn gpu(&self) -> &Gpu {
        Handle::gpu(self)
    }

    fn queue(&self, request: &QueueRequest<'_>) -> Result<HardwareQueue> {
        queue::create(self, request)
    }
}
