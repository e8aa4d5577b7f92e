//! Queues, as whoever submits has them: ring and pointers in memory of the host, a doorbell of the card, and a slot of
//! the hardware.

use std::sync::{Arc, OnceLock};

use drivers_gpu::interface::Request;
use hcq::addr::VramAddr;
use hcq::mem::window::Window;
use hcq::{Error, GpuVa, MemoryKind, Result};

use super::areas::MQDS;
use super::exception::broken;
use super::gfx::{LOCAL_APERTURE, SCRATCH_APERTURE};
use super::hqd::{self, Leave};
use super::live::Live;
use super::memory::Memory;
use super::mqd::{self, Mqd};
use super::near;
use super::pages::PAGE;
use super::process::{Process, SharedMemory};
use super::recover;
use super::running::{Running, Slot};
use super::sdma;
use super::xcc::Xcc;
use crate::chip::Language;
use crate::interface::queue::{Apertures, CONTROL_BYTES, WPTR, prepare_aql, rptr};
use crate::interface::{Gpu, HardwareQueue, QueueHandle, QueueRequest};

/// The doorbell of the first compute queue. Source: Linux, amdgpu_doorbell.h, `AMDGPU_NAVI10_DOORBELL_MEC_RING0`.
const FIRST_DOORBELL: u32 = 3;

/// Bytes of a buffer for events at the end of the pipe. Source: Linux, gfx_v11_0.c, `GFX11_MEC_HPD_SIZE` is less.
const END_OF_PIPE: u64 = PAGE;

/// A queue in its slot. Dropping it takes it out.
struct InSlot {
    slot: Slot,
    /// The number of the handle that has it.
    owner: u64,
    /// The queue, once it is whole.
    live: OnceLock<Arc<Live>>,
    /// Whether it was taken out, once that was tried.
    stopped: OnceLock<bool>,
}

/// Makes a queue.
///
/// # Errors
/// [`Error::OutOfMemory`], [`Error::Os`], [`Error::Fault`]; nothing is left behind then.
pub(super) fn create(
    process: &Arc<Process>,
    card: &Arc<Running>,
    (gpu, owner): (&Gpu, u64),
    waves_per_simd: u32,
    request: &QueueRequest<'_>,
) -> Result<(HardwareQueue, Arc<Live>)> {
    let &QueueRequest {
        language,
        ring_bytes,
        name,
    } = request;
    let memory = |bytes, kind, what: &str| {
        let what = format!("the {what} of {name}");
        let request = Request {
            bytes,
            align: PAGE,
            kind,
            what: &what,
        };
        Memory::new(process, card, &request, false)
    };
    let ring = memory(ring_bytes, MemoryKind::Control, "ring")?;
    let control = memory(CONTROL_BYTES, MemoryKind::Control, "pointers")?;
    let (ring_window, control_window) = (window(card, &ring)?, window(card, &control)?);
    let failed = |e| broken(card.card(), name, e);
    if !control.is_zeroed() {
        let zeroed = control_window.fill(0, CONTROL_BYTES, 0);
        zeroed.map_err(|e| broken(card.card(), name, e))?;
    }
    if language == Language::Aql {
        let apertures = Apertures {
            local: u64::from(LOCAL_APERTURE) << 48,
            scratch: u64::from(SCRATCH_APERTURE) << 48,
        };
        let at = (ring.va(), &ring_window);
        let prepared = prepare_aql(gpu, at, &control_window, apertures, waves_per_simd);
        prepared.map_err(|e| broken(card.card(), name, e))?;
    }
    let slot = card.slot(language)?;
    let number = slot.number;
    let mut buffers = vec![ring.clone(), control.clone()];
    let (first, last) = (rptr(0), WPTR);
    let at = |offset| GpuVa(control.va().0 + offset);
    // Its drop takes out what has come so far.
    let made = InSlot {
        slot,
        owner,
        live: OnceLock::new(),
        stopped: OnceLock::new(),
    };
    let (mut bells, mut images, mut copies) = (Vec::new(), Vec::new(), None);
    if language == Language::Sdma {
        let queue = sdma::Queue {
            ring: ring.va(),
            ring_bytes,
            rptr: at(first),
            wptr: at(last),
        };
        let engines = card.sdma();
        engines.load(number, &queue, 0).map_err(failed)?;
        copies = Some(queue);
        bells.push(engines.doorbell(number));
    } else {
        let xccs = card.gfx().xccs();
        for (i, xcc) in xccs.iter().enumerate() {
            let events = memory(END_OF_PIPE, MemoryKind::Device, "end-of-pipe buffer")?;
            // PM4 has a queue on each XCC, AQL one that all of them have.
            let (place, doorbell) = match language {
                Language::Pm4 => (
                    rptr(i as u32),
                    FIRST_DOORBELL + number + DOORBELLS * i as u32,
                ),
                _ => (first, FIRST_DOORBELL + number),
            };
            let queue = mqd::Queue {
                language,
                ring: ring.va(),
                ring_bytes,
                rptr: at(place),
                wptr: at(last),
                end_of_pipe: events.va(),
                end_of_pipe_bytes: END_OF_PIPE,
                doorbell,
                xccs: match language {
                    Language::Pm4 => 1,
                    _ => xccs.len() as u32,
                },
            };
            let image = image(card, xcc, number, &queue)?;
            hqd::load(xcc, number, &image, None).map_err(failed)?;
            images.push((i, Arc::new(image)));
            buffers.push(events);
            if !bells.contains(&doorbell) {
                bells.push(doorbell);
            }
        }
    }
    let doorbells = bells.iter().map(|bell| {
        let bell = card.card().doorbells().sub(u64::from(*bell) * 8, 8);
        let bell = bell.map_err(|e| broken(card.card(), name, e))?;
        Ok(match card.card().pci().reaches_host() {
            true => bell,
            false => near::doorbell(&bell, card.started().hubs().hdp().clone()),
        })
    });
    let doorbells: Vec<_> = doorbells.collect::<Result<_>>()?;
    let (pointers, rung) = (control_window.clone(), doorbells.clone());
    let live = Live::new(owner, (language, number), images, copies, pointers, rung);
    card.enter(&live);
    let live = made.live.get_or_init(|| live).clone();
    let queue = HardwareQueue {
        doorbells,
        handle: Box::new(made),
        language,
        ring: ring_window,
        control: control_window,
        control_va: control.va(),
        owner: Box::new(buffers),
    };
    Ok((queue, live))
}

/// Doorbells of an XCC: the range that it listens to.
const DOORBELLS: u32 = 32;

/// Writes the image of a queue to where it has its place.
fn image(card: &Running, xcc: &Xcc, number: u32, queue: &mqd::Queue) -> Result<Mqd> {
    let xccs = card.gfx().xccs().len() as u64;
    let at = MQDS.at.0 + (u64::from(number) * xccs + xcc.index() as u64) * mqd::STRIDE;
    let hubs = card.started().hubs();
    let image = Mqd::new(
        xcc.block(),
        queue,
        hubs.mc(VramAddr(at)),
        xcc.index() as u32,
    );
    let image = image.map_err(|e| broken(card.card(), "MQD", e))?;
    let written = card.card().vram().write_words(at, &image.words());
    written.map_err(|e| broken(card.card(), "MQD", e))?;
    let flushed = hubs.hdp().flush();
    flushed.map_err(|e| broken(card.card(), "HDP", e))?;
    Ok(image)
}

/// The host's window to memory of the host.
fn window(card: &Running, memory: &Memory) -> Result<Window> {
    memory.window().cloned().ok_or_else(|| Error::NoHostAccess {
        device: card.card().device().clone(),
        va: memory.va().0,
        has: "none",
        needs: "a window",
    })
}

impl InSlot {
    /// Takes it out for good. Says whether nothing of it can write any more.
    fn end(&self) -> bool {
        let (card, number) = (&self.slot.card, self.slot.number);
        // A card that is not there writes nothing.
        if card.card().has_left() {
            return true;
        }
        let done = match self.slot.language {
            Language::Sdma => card.sdma().unload(number).and_then(|is_out| match is_out {
                true => Ok(()),
                false => recover::reset_engine(card, number, self.owner),
            }),
            Language::Pm4 | Language::Aql => {
                let xccs = card.gfx().xccs().iter();
                // Also of a queue that was not whole: an empty slot is left as it is.
                let mut out = xccs.map(|xcc| hqd::unload(xcc, number, Leave::Reset));
                let out = out.try_for_each(|done| done.map(|_| ()));
                out.or_else(|_| recover::restart(card, number, self.owner))
            }
        };
        let Err(error) = done else {
            return true;
        };
        match card.card().soil() {
            true => tracing::debug!(target: "hcq::amd", %error, "a queue stays in its slot"),
            false => tracing::warn!(target: "hcq::amd", %error, "a queue stays in its slot"),
        }
        // It may go on, and reaches nothing of the host: behind a bridge it never does. What it writes of the card's memory
        // nobody else has: the next start is from cold.
        let reaches_host = card.card().pci().reaches_host();
        card.card().has_left() || !reaches_host || card.started().cut_off().is_ok()
    }
}

impl QueueHandle for InSlot {
    fn remap(&self) -> Result<()> {
        let card = &self.slot.card;
        let failed = |e| broken(card.card(), "queue", e);
        let Some(live) = self.live.get() else {
            return Ok(());
        };
        let were = recover::take_out(card, live, Leave::Drain).map_err(failed)?;
        recover::bring_back(card, live, were).map_err(failed)
    }

    fn stop(&self) -> bool {
        *self.stopped.get_or_init(|| self.end())
    }
}

impl Drop for InSlot {
    fn drop(&mut self) {
        self.stop();
    }
}
