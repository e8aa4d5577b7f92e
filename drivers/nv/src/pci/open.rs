//! [`open`]: a card over PCI as a backend.

use std::sync::Arc;

use drivers_gpu::backend::{Facts, RING_COSTS};
use drivers_gpu::bare::{self, Driver as _, Handle};
use firmware_tools::search::Search;
use hcq::transport::{Clock, Machine, Pci};
use hcq::{DeviceId, Error, Result};

use super::first;
use super::queue;
use super::running::{Nv, Running};
use crate::VENDOR;
use crate::backend::{ChannelRequest, Gpu, HardwareChannel, NvBackend};
use crate::gsp::{self, Card, GspError, Stage};
use crate::options::Options;

/// The clock of a GPU counts nanoseconds.
const CLOCK_HZ: u64 = 1_000_000_000;

/// Opens the card at an address of PCI (`0000:01:00.0`), and starts it if no other device of this process has. `index`
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
) -> Result<Arc<dyn NvBackend>> {
    let id = DeviceId::new(VENDOR, index);
    let start = |pci| {
        start(&id, pci, clock, options).map_err(|error| Error::NoDevice {
            asked: id.to_string(),
            why: error.to_string(),
        })
    };
    let gpu = |nv: &Nv| Ok(known(nv, options));
    let handle = bare::open(machine, id.clone(), address, start, gpu)?;
    Ok(Arc::new(handle))
}

fn start(
    id: &DeviceId,
    pci: Arc<dyn Pci>,
    clock: &Arc<dyn Clock>,
    options: &Options,
) -> std::result::Result<Running, GspError> {
    let card = Arc::new(Card::open(id.clone(), pci, clock.clone())?);
    let options = gsp::Options {
        firmware: Search::new(options.firmware.iter().cloned()),
        reset: options.reset,
    };
    let running = Nv::start(&card, &options)?;
    let made = first::make(&running);
    made.map_err(|cause| card.failed(Stage::Graphics, cause))?;
    Ok(running)
}

/// The facts of a card in the form of all backends.
fn known(nv: &Nv, options: &Options) -> Gpu {
    let function = nv.function();
    Gpu {
        facts: Facts {
            place: function.pci().name().to_owned(),
            vram: function.vram_bytes(),
            vram_windows: options.host_visible && function.has_large_bar(),
            clock_hz: CLOCK_HZ,
            costs: RING_COSTS,
            log: "vfio-pci",
        },
        product: nv.facts.product.clone(),
        chip: nv.facts.chip,
        units: nv.facts.units,
        copy_engines: nv.facts.copy_engines.len() as u32,
    }
}

impl NvBackend for Handle<Nv> {
    fn gpu(&self) -> &Gpu {
        Handle::gpu(self)
    }

    fn channel(&self, request: &ChannelRequest<'_>) -> Result<HardwareChannel> {
        queue::create(self, request)
    }
}
