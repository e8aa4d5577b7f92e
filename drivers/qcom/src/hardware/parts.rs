//! What a queue is made of, in the order of making.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use drivers_gpu::core::Core;
use drivers_gpu::memory::pool::{Piece, Pool};
use drivers_gpu::memory::signal::new_timeline;
use drivers_gpu::memory::vram::Vram;
use drivers_gpu::submit::{Channel, Parts};
use hcq::memory::RemoteMemory;
use hcq::{Error, GpuVa, MemoryKind, QueueKind, Result};

use super::QcomHardware;
use super::way::Calls;
use crate::backend::QcomBackend;
use crate::encode::builtin::{self, Builtin};
use crate::encode::{BORDER_BYTES, Encoder, Setup};
use crate::options::Options;

/// The smallest block for packets and data.
const LEAST_ARGUMENTS: u64 = 64 << 10;

/// Where fences are counted, in the control memory of a queue; then what flushes write, then the border colours.
const PROGRESS: u64 = BORDER_BYTES;
const SCRATCH: u64 = BORDER_BYTES + 64;
const CONTROL_BYTES: u64 = BORDER_BYTES + 128;

/// Opens a queue: its kind, and its number among those of the kind.
///
/// # Errors
/// [`Error::OutOfMemory`], [`Error::Os`]; nothing is left behind then.
pub(crate) fn open(
    core: &Arc<Core>,
    backend: &Arc<dyn QcomBackend>,
    pool: &Arc<Pool>,
    (kind, index): (QueueKind, u32),
    options: &Options,
) -> Result<Channel<QcomHardware>> {
    let name = format!("{kind} queue {index}");
    let chip = backend.gpu().chip;
    let control = pool.piece(
        MemoryKind::Control,
        CONTROL_BYTES,
        &format!("the control memory of {name}"),
    )?;
    let window = control.shared()?;
    let zeroed = window.fill(0, CONTROL_BYTES, 0);
    zeroed.map_err(|e| core.broken(&*name, e))?;
    let at = |offset| GpuVa(control.va().0 + offset);
    let progress = window
        .sub(PROGRESS, 16)
        .map_err(|e| core.broken(&*name, e))?;
    let (code, kernels) = kernels(core, pool, &name)?;
    let builtin = Builtin::new(chip, kernels).map_err(|why| Error::Program {
        device: core.id.clone(),
        program: "of the driver".into(),
        why: why.to_string(),
    })?;
    let setup = Setup {
        device: core.id.clone(),
        kind,
        index,
        chip,
        scratch: at(SCRATCH),
        border: at(0),
    };
    let counted = (progress, at(PROGRESS));
    let event = Arc::new(pool.make(|| core.backend.event())?);
    let timeline = new_timeline(core, pool, &format!("{name} timeline"), &event)?;
    let context = pool.make(|| backend.context(&event, options.priority))?;
    let places = options.in_flight.clamp(1, Options::MOST_IN_FLIGHT);
    let hardware = QcomHardware {
        calls: Calls::new(context, places),
        encoder: Encoder::new(setup, builtin),
        waits: AtomicBool::new(false),
        room: Mutex::default(),
        _memory: [Arc::new(control), code],
    };
    Channel::new(
        core,
        pool,
        Parts {
            hardware,
            kind,
            index,
            event,
            timeline,
            progress: counted,
            arguments: options.arguments.max(LEAST_ARGUMENTS),
            full_limit: options.ring_timeout,
        },
    )
}

/// The code of the driver's kernels in memory, and where.
fn kernels(core: &Arc<Core>, pool: &Arc<Pool>, name: &str) -> Result<(Arc<Piece>, u64)> {
    let code = builtin::code();
    let bytes = code.len() as u64 + builtin::FETCHED;
    let what = format!("the copy kernels of {name}");
    let piece = Arc::new(pool.aligned(MemoryKind::Device, bytes, builtin::CODE_ALIGN, &what)?);
    let at = piece.va().0;
    Vram::new(core.clone(), piece.clone()).write(0, &code)?;
    Ok((piece, at))
}
