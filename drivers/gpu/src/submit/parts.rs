//! What a queue is made of.

use std::sync::Arc;
use std::time::Duration;

use hcq::mem::window::Window;
use hcq::{Command, GpuVa, MemoryKind, Packets, QueueKind, Result, Scope, Signal};

use super::arguments::DATA_ALIGN;
use super::hardware::Hardware;
use crate::core::Core;
use crate::interface::Event;
use crate::memory::pool::{Piece, Pool};

/// What a queue is made of.
pub struct Parts<H> {
    /// The queue of the hardware.
    pub hardware: H,
    /// Kernels or copies.
    pub kind: QueueKind,
    /// The number among those of the kind.
    pub index: u32,
    /// Wakes who waits for the timeline.
    pub event: Arc<Event>,
    /// What counts its submissions.
    pub timeline: Signal,
    /// 16 bytes of zeros which fences are counted in: where the host sees them, and where the device writes
    /// them. They live as long as `hardware`.
    pub progress: (Window, GpuVa),
    /// Bytes beside the ring for what submissions point to.
    pub arguments: u64,
    /// How long a submission waits for room in a full ring.
    pub full_limit: Duration,
}

/// What every submission to a queue starts with, and the memory that it points to.
pub(super) fn prologue<H: Hardware>(
    core: &Core,
    pool: &Arc<Pool>,
    hardware: &H,
    name: &str,
) -> Result<(Vec<u32>, Piece)> {
    let mut begin = Packets::new();
    // What an earlier submission has left is done before: submissions are in order.
    let order = Command::Barrier {
        scope: Scope::Queue,
    };
    hardware.encode(&[order], &mut begin)?;
    hardware.begin(&mut begin);
    let bytes = (begin.data.len() as u64 * 4).max(DATA_ALIGN);
    let what = format!("the prologue of {name}");
    let data = pool.piece(MemoryKind::Control, bytes, &what)?;
    begin.relocate(data.va().0);
    let written = data.shared()?.write_words(0, &begin.data);
    written.map_err(|e| core.broken(name, e))?;
    Ok((begin.words, data))
}
