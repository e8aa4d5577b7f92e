//! What a queue is made of, in the order of making.

use std::sync::Arc;

use hcq::{Command, Error, GpuVa, MemoryKind, Packets, QueueKind, Result, Scope, Signal};

use super::arguments::Arguments;
use super::fences::Fences;
use super::ring::Ring;
use crate::chip::Language;
use crate::encode::{Aql, DATA_ALIGN, Encoder, Interrupt, MEET_BYTES, Pm4, Sdma, Setup};
use crate::interface::{AmdInterface, Gpu, QueueRequest};
use crate::options::Options;
use drivers_gpu::core::Core;
use drivers_gpu::interface::Event;
use drivers_gpu::memory::pool::{Piece, Pool};
use drivers_gpu::memory::signal::new_signal;

/// Which queue to open.
pub(crate) struct QueueSpec {
    /// Kernels or copies.
    pub(crate) kind: QueueKind,
    /// The number among those of the kind.
    pub(crate) index: u32,
    /// What it takes.
    pub(crate) language: Language,
}

/// The parts of a queue.
pub(super) struct Parts {
    // Dropped first: nothing below is used by the hardware then.
    pub(super) ring: Ring,
    pub(super) encoder: Encoder,
    /// Wakes who waits for the timeline.
    pub(super) event: Arc<Event>,
    pub(super) timeline: Signal,
    pub(super) fences: Fences,
    /// What every submission starts with, and what that points to.
    pub(super) begin: Vec<u32>,
    pub(super) begin_data: Piece,
    /// What the XCCs of a PM4 queue meet at.
    pub(super) meet: Option<Piece>,
    pub(super) arguments: Arguments,
}

/// Makes a queue.
///
/// # Errors
/// [`hcq::Error::OutOfMemory`], [`hcq::Error::Os`]; nothing is left behind then.
pub(super) fn make(
    core: &Arc<Core>,
    interface: &Arc<dyn AmdInterface>,
    pool: &Arc<Pool>,
    spec: &QueueSpec,
    options: &Options,
) -> Result<Parts> {
    let QueueSpec {
        kind,
        index,
        language,
    } = *spec;
    let name = format!("{kind} queue {index}");
    let gpu = interface.gpu();
    let bytes = match language {
        Language::Sdma => options.copy_ring,
        Language::Pm4 | Language::Aql => options.compute_ring,
    };
    let request = QueueRequest {
        language,
        ring_bytes: bytes.clamp(4096, 1 << 30).next_power_of_two(),
        name: &name,
    };
    let event = Arc::new(pool.make(|| core.interface.event())?);
    let queue = pool.make(|| interface.queue(&request))?;
    let timeline = new_signal(core, pool, &format!("{name} timeline"), Some(event.clone()))?;
    let fences = Fences::new(core, pool, &queue, &name)?;
    let meet = match language {
        Language::Pm4 => meet(core, gpu, pool, &name)?,
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
        meet: meet.as_ref().map_or(GpuVa(0), Piece::va),
        queue: queue.control_va,
        fence: queue.fence_va(),
        interrupt: event.mailbox.map(|mailbox| Interrupt {
            signal: timeline.va(),
            mailbox,
            event: event.id,
        }),
    };
    let encoder = match language {
        Language::Pm4 => Encoder::Pm4(Pm4::new(setup)),
        Language::Aql => Encoder::Aql(Aql::new(setup)),
        Language::Sdma => Encoder::Sdma(Sdma::new(setup)),
    };
    let (begin, begin_data) = prologue(core, pool, &encoder, &name)?;
    let bytes = match language {
        Language::Sdma => DATA_ALIGN,
        Language::Pm4 | Language::Aql => options.kernargs.max(4096),
    };
    let arguments = Arguments::new(pool, bytes, &name)?;
    Ok(Parts {
        ring: Ring::new(queue, gpu.chip.generation.gfx),
        encoder,
        event,
        timeline,
        fences,
        begin,
        begin_data,
        meet,
        arguments,
    })
}

/// What every submission to a queue starts with, and the memory that it points to.
fn prologue(
    core: &Core,
    pool: &Arc<Pool>,
    encoder: &Encoder,
    name: &str,
) -> Result<(Vec<u32>, Piece)> {
    let mut begin = Packets::new();
    // What an earlier submission has left is done before: submissions are in order.
    let order = Command::Barrier {
        scope: Scope::Queue,
    };
    encoder.encode(&[order], &mut begin)?;
    encoder.begin(&mut begin);
    let bytes = (begin.data.len() as u64 * 4).max(DATA_ALIGN);
    let data = pool.piece(
        MemoryKind::Control,
        bytes,
        &format!("the prologue of {name}"),
    )?;
    begin.relocate(data.va().0);
    let written = data.shared()?.write_words(0, &begin.data);
    written.map_err(|e| core.broken(name, e))?;
    Ok((begin.words, data))
}

/// Memory at which the XCCs of a PM4 queue meet, all zero; none where there is one XCC.
fn meet(core: &Core, gpu: &Gpu, pool: &Arc<Pool>, name: &str) -> Result<Option<Piece>> {
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
            "PM4 queues run on 1, 2, 4 or 8 XCCs, this GPU has {xccs}: open it with AQL queues"
        )));
    }
    let what = format!("the meeting point of {name}");
    let piece = pool.piece(MemoryKind::Device, MEET_BYTES, &what)?;
    let Some(window) = piece.window() else {
        return Err(refused(
            "PM4 queues on several XCCs need device memory that the host sees: open it with AQL queues, \
             or turn on resizable BAR"
                .into(),
        ));
    };
    let zeros = [0u32; MEET_BYTES as usize / 4];
    window
        .write_words(0, &zeros)
        .map_err(|e| core.broken(name, e))?;
    Ok(Some(piece))
}
