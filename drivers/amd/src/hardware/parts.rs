//! What a queue is made of, in the order of making.

use std::sync::Arc;

use drivers_gpu::core::Core;
use drivers_gpu::memory::pool::{Piece, Pool};
use drivers_gpu::memory::signal::new_timeline;
use drivers_gpu::submit::ring::Ring;
use drivers_gpu::submit::{Channel, Parts};
use hcq::{Error, GpuVa, MemoryKind, QueueKind, Result};

use super::AmdHardware;
use super::ring::AmdRing;
use crate::backend::{AmdBackend, Gpu, QueueRequest};
use crate::chip::Language;
use crate::encode::{Aql, Encoder, Interrupt, Pm4, Sdma, Setup, XCC_BARRIER_BYTES};
use crate::options::Options;

/// Opens a queue: its kind, its number among those of the kind, its packet language.
///
/// # Errors
/// [`hcq::Error::OutOfMemory`], [`hcq::Error::Os`]; nothing is left behind then.
pub(crate) fn open(
    core: &Arc<Core>,
    backend: &Arc<dyn AmdBackend>,
    pool: &Arc<Pool>,
    (kind, index, language): (QueueKind, u32, Language),
    options: &Options,
) -> Result<Channel<AmdHardware>> {
    let name = format!("{kind} queue {index}");
    let gpu = backend.gpu();
    let (ring, arguments) = match language {
        Language::Sdma => (options.copy_ring, 0),
        Language::Pm4 | Language::Aql => (options.compute_ring, options.kernargs.max(4096)),
    };
    let request = QueueRequest {
        language,
        ring_bytes: ring.clamp(4096, 1 << 30).next_power_of_two(),
        name: &name,
    };
    let event = Arc::new(pool.make(|| core.backend.event())?);
    let queue = pool.make(|| backend.queue(&request))?;
    let timeline = new_timeline(core, pool, &format!("{name} timeline"), &event)?;
    let progress = queue.progress().map_err(|e| core.broken(&*name, e))?;
    let xcc_barrier = match language {
        Language::Pm4 => xcc_barrier(core, gpu, pool, &name)?,
        Language::Aql | Language::Sdma => None,
    };
    let setup = Setup {
        device: core.id.clone(),
        kind,
        index,
        chip: gpu.chip,
        xccs: match language {
            Language::Aql | Language::Pm4 => gpu.units.xccs,
            Language::Sdma => 1,
        },
        xcc_barrier: xcc_barrier.as_ref().map_or(GpuVa(0), Piece::va),
        queue: queue.control_va,
        fence: queue.fence_va(),
        interrupt: event.mailbox.map(|mailbox| Interrupt {
            signal: timeline.va(),
            mailbox,
            event: event.id,
        }),
        recorded: options.recorded,
    };
    let encoder = match language {
        Language::Pm4 => Encoder::Pm4(Pm4::new(setup)),
        Language::Aql => Encoder::Aql(Aql::new(setup)),
        Language::Sdma => Encoder::Sdma(Sdma::new(setup)),
    };
    let hardware = AmdHardware {
        ring: Ring::new(AmdRing::new(queue, gpu.chip.generation.gfx)),
        encoder,
        chip: gpu.chip,
        xcc_barrier,
    };
    let parts = Parts {
        hardware,
        kind,
        index,
        event,
        timeline,
        progress,
        arguments,
        full_limit: options.ring_timeout,
    };
    Channel::new(core, pool, parts)
}

/// Memory at which the XCCs of a PM4 queue meet, all zero; none where there is one XCC.
fn xcc_barrier(core: &Core, gpu: &Gpu, pool: &Arc<Pool>, name: &str) -> Result<Option<Piece>> {
    let xccs = gpu.units.xccs;
    if xccs == 1 {
        return Ok(None);
    }
    let refused = |why: String| Error::Command {
        device: core.id.clone(),
        queue: name.into(),
        command: "open".into(),
        why,
    };
    if !xccs.is_power_of_two() || xccs > 8 {
        return Err(refused(format!(
            "PM4 queues support 1, 2, 4 or 8 XCCs, this GPU has {xccs}: open it with AQL queues"
        )));
    }
    let what = format!("the XCC barrier of {name}");
    let piece = pool.piece(MemoryKind::Device, XCC_BARRIER_BYTES, &what)?;
    let Some(window) = piece.window() else {
        return Err(refused(
            "PM4 queues on several XCCs need host-visible device memory: open it with AQL queues, \
             or turn on resizable BAR"
                .into(),
        ));
    };
    let zeros = [0u32; XCC_BARRIER_BYTES as usize / 4];
    window
        .write_words(0, &zeros)
        .map_err(|e| core.broken(name, e))?;
    Ok(Some(piece))
}
