//! What a queue is made of.

use std::sync::Arc;
use std::time::Duration;

use hcq::mem::window::Window;
use hcq::{CommandBuffer, GpuVa, MemoryKind, QueueKind, Result, Signal};

use super::hardware::Hardware;
use super::kernarg_ring::DATA_ALIGN;
use crate::backend::Event;
use crate::core::Core;
use crate::memory::pool::{Piece, Pool};

/// What a queue is made of.
pub struct Parts<H> {
    /// The queue of the hardware.
    pub hardware: H,
    /// Kernels or copies.
    pub kind: QueueKind,
    /// The number among those of the kind.
    pub index: u32,
    /// Wakes waiters of the timeline.
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

/// Words of a prologue that are copied into each submission where the queue takes names of words alone; more are named.
const FEW: usize = 16;

/// What every submission to a queue starts with.
pub(super) struct Prologue {
    /// Words before its own.
    pub words: Vec<u32>,
    /// What names some, before what names its own.
    pub names: Vec<u32>,
    /// The memory that they point to.
    pub memory: Piece,
}

/// What every submission to a queue starts with.
pub(super) fn prologue<H: Hardware>(
    core: &Core,
    pool: &Arc<Pool>,
    hardware: &H,
    name: &str,
) -> Result<Prologue> {
    let mut begin = CommandBuffer::new();
    hardware.begin(&mut begin)?;
    let is_named = hardware.names_words() && begin.words.len() > FEW;
    let data_at = match is_named {
        true => (begin.words.len() as u64 * 4).next_multiple_of(DATA_ALIGN),
        false => 0,
    };
    let bytes = data_at + begin.data.len() as u64 * 4;
    let what = format!("the prologue of {name}");
    let memory = pool.piece(MemoryKind::Control, bytes.max(DATA_ALIGN), &what)?;
    let (window, va) = (memory.shared()?, memory.va().0);
    begin.relocate(va + data_at);
    let mut written = window.write_words(data_at, &begin.data);
    let mut names = Vec::new();
    if is_named {
        written = written.and_then(|()| window.write_words(0, &begin.words));
        hardware.run(va, &begin.words, &mut names);
        begin.words.clear();
    }
    written.map_err(|e| core.broken(name, e))?;
    Ok(Prologue {
        words: begin.words,
        names,
        memory,
    })
}
