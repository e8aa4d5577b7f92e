//! Queues for submission: ring and pointers in host memory, a doorbell of the card, and a hardware slot.

use std::sync::Arc;

use drivers_gpu::backend::Request;
use drivers_gpu::bare::{Driver, Handle, Memory, Slot, sysmem};
use hcq::addr::VramAddr;
use hcq::mem::window::Window;
use hcq::transport::TransportError;
use hcq::{Error, GpuVa, MemoryKind, Result};

use super::areas::MQDS;
use super::card::Card;
use super::gfx::{LOCAL_APERTURE, SCRATCH_APERTURE};
use super::hqd;
use super::mqd::{self, Mqd};
use super::pages::PAGE;
use super::running::Am;
use super::sdma;
use super::slots::Parts;
use super::xcc::Xcc;
use crate::backend::queue::{Apertures, CONTROL_BYTES, WPTR, prepare_aql, rptr};
use crate::backend::{HardwareQueue, QueueHandle, QueueRequest};
use crate::chip::Language;

/// The doorbell of the first compute queue. Source: Linux, amdgpu_doorbell.h, `AMDGPU_NAVI10_DOORBELL_MEC_RING0`.
const FIRST_DOORBELL: u32 = 3;

/// Bytes of a buffer for events at the end of the pipe. Source: Linux, gfx_v11_0.c, `GFX11_MEC_HPD_SIZE` is less.
const END_OF_PIPE: u64 = PAGE;

/// Makes a queue.
///
/// # Errors
/// [`Error::OutOfMemory`], [`Error::Os`], [`Error::Fault`]; nothing is left behind then.
pub(super) fn create(handle: &Handle<Am>, request: &QueueRequest<'_>) -> Result<HardwareQueue> {
    let &QueueRequest {
        language,
        ring_bytes,
        name,
    } = request;
    let am = handle.card().driver();
    let card = am.card();
    let lost = |e: TransportError| card.broken(name, e);
    let ring = memory(handle, name, ring_bytes, MemoryKind::Control, "ring")?;
    let control = memory(handle, name, CONTROL_BYTES, MemoryKind::Control, "pointers")?;
    let (ring_window, control_window) = (window(card, &ring)?, window(card, &control)?);
    if !control.is_zeroed() {
        control_window.fill(0, CONTROL_BYTES, 0).map_err(lost)?;
    }
    if language == Language::Aql {
        let apertures = Apertures {
            local: u64::from(LOCAL_APERTURE) << 48,
            scratch: u64::from(SCRATCH_APERTURE) << 48,
        };
        let at = (ring.va(), &ring_window);
        let waves = card.discovery().units.waves_per_simd;
        let prepared = prepare_aql(handle.gpu(), at, &control_window, apertures, waves);
        prepared.map_err(lost)?;
    }
    let area = Area {
        ring: ring.va(),
        control: control.va(),
    };
    let mut buffers = vec![ring, control];
    // Its drop takes out what has come so far.
    let slot = Slot::take(handle.card(), language, handle.number())?;
    let number = slot.number();
    let mut rings = Vec::new();
    slot.enter(|| {
        let (mut bells, mut images, mut copies) = (Vec::new(), Vec::new(), None);
        if language == Language::Sdma {
            let queue = sdma::Queue {
                ring: area.ring,
                ring_bytes,
                rptr: area.pointer(rptr(0)),
                wptr: area.pointer(WPTR),
            };
            let engines = am.sdma();
            let loaded = engines.load(number, &queue, 0);
            loaded.map_err(|e| card.broken(name, e))?;
            copies = Some(queue);
            bells.push(engines.doorbell(number));
        } else {
            images = load(handle, request, &area, number, &mut buffers, &mut bells)?;
        }
        let doorbells = bells.iter().map(|bell| {
            let bell = card.doorbells().sub(u64::from(*bell) * 8, 8);
            let bell = bell.map_err(lost)?;
            Ok(match card.pci().reaches_host() {
                true => bell,
                false => sysmem::doorbell(&bell, am.mmu()),
            })
        });
        rings = doorbells.collect::<Result<_>>()?;
        Ok(Parts {
            images,
            copies,
            control: control_window.clone(),
            doorbells: rings.clone(),
        })
    })?;
    Ok(HardwareQueue {
        doorbells: rings,
        handle: Box::new(slot),
        language,
        ring: ring_window,
        control: control_window,
        control_va: area.control,
        owner: Box::new(buffers),
    })
}

/// Where a queue lies.
struct Area {
    ring: GpuVa,
    control: GpuVa,
}

impl Area {
    fn pointer(&self, offset: u64) -> GpuVa {
        GpuVa(self.control.0 + offset)
    }
}

/// Memory of a queue.
fn memory(
    handle: &Handle<Am>,
    name: &str,
    bytes: u64,
    kind: MemoryKind,
    what: &str,
) -> Result<Arc<Memory<Am>>> {
    let what = format!("the {what} of {name}");
    let request = Request {
        bytes,
        align: PAGE,
        kind,
        what: &what,
    };
    handle.allocate(&request, false)
}

/// Loads a compute queue on each XCC. Returns the images there; `buffers` and `bells` are given what it adds.
fn load(
    handle: &Handle<Am>,
    request: &QueueRequest<'_>,
    area: &Area,
    number: u32,
    buffers: &mut Vec<Arc<Memory<Am>>>,
    bells: &mut Vec<u32>,
) -> Result<Vec<(usize, Arc<Mqd>)>> {
    let am = handle.card().driver();
    let (language, name) = (request.language, request.name);
    let mut images = Vec::new();
    let xccs = am.gfx().xccs();
    for (i, xcc) in xccs.iter().enumerate() {
        let kind = MemoryKind::Device;
        let events = memory(handle, name, END_OF_PIPE, kind, "end-of-pipe buffer")?;
        // Behind the slot: also where what follows fails, the queue leaves before its buffer goes.
        buffers.push(events.clone());
        // PM4 has a queue on each XCC, AQL one that all of them have.
        let (place, doorbell) = match language {
            Language::Pm4 => (
                rptr(i as u32),
                FIRST_DOORBELL + number + DOORBELLS * i as u32,
            ),
            _ => (rptr(0), FIRST_DOORBELL + number),
        };
        let queue = mqd::Queue {
            language,
            ring: area.ring,
            ring_bytes: request.ring_bytes,
            rptr: area.pointer(place),
            wptr: area.pointer(WPTR),
            end_of_pipe: events.va(),
            end_of_pipe_bytes: END_OF_PIPE,
            doorbell,
            xccs: match language {
                Language::Pm4 => 1,
                _ => xccs.len() as u32,
            },
        };
        let image = image(am, xcc, number, &queue)?;
        let loaded = hqd::load(xcc, number, &image, None);
        loaded.map_err(|e| am.card().broken(name, e))?;
        images.push((i, Arc::new(image)));
        if !bells.contains(&doorbell) {
            bells.push(doorbell);
        }
    }
    Ok(images)
}

/// Doorbells of an XCC: the range that it listens to.
const DOORBELLS: u32 = 32;

/// Writes the image of a queue to its memory.
fn image(am: &Am, xcc: &Xcc, number: u32, queue: &mqd::Queue) -> Result<Mqd> {
    let (card, hubs) = (am.card(), am.mmu());
    let xccs = am.gfx().xccs().len() as u64;
    let at = MQDS.at.0 + (u64::from(number) * xccs + xcc.index() as u64) * mqd::STRIDE;
    let at = VramAddr(at);
    let image = Mqd::new(xcc.block(), queue, hubs.mc(at), xcc.index() as u32);
    let image = image.map_err(|e| card.broken("MQD", e))?;
    let written = card.vram().write_words(at.0, &image.words());
    written.map_err(|e| card.broken("MQD", e))?;
    let flushed = hubs.hdp().flush();
    flushed.map_err(|e| card.broken("HDP", e))?;
    Ok(image)
}

/// The host's window to memory of the host.
fn window(card: &Card, memory: &Memory<Am>) -> Result<Window> {
    memory.window().cloned().ok_or_else(|| Error::NoHostAccess {
        device: card.device().clone(),
        va: memory.va().0,
        has: "none",
        needs: "a window",
    })
}

impl QueueHandle for Slot<Am> {
    fn remap(&self) -> Result<()> {
        Slot::remap(self)
    }

    fn stop(&self) -> bool {
        Slot::stop(self)
    }
}
