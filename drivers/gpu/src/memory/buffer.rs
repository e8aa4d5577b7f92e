//! Buffers for the user: a piece of memory with the host's access to it.

use std::sync::Arc;

use hcq::{AllocSpec, Buffer, HostAccess, MemoryKind, Result};

use super::pool::{Piece, Pool};
use super::vram::Vram;
use crate::backend::space::Space;
use crate::core::Core;

/// What a buffer of the user keeps.
pub struct Owned {
    /// The addresses that its own is one of. Another machine may give the same address to other memory.
    pub space: Arc<Space>,
    _piece: Arc<Piece>,
}

/// A new buffer.
///
/// # Errors
/// [`hcq::Error::OutOfMemory`], [`hcq::Error::Os`], the loss of the device where it has to be zeroed.
pub fn alloc(core: &Arc<Core>, pool: &Arc<Pool>, spec: AllocSpec) -> Result<Buffer> {
    let (piece, is_zero) = pool.take(spec, "")?;
    let piece = Arc::new(piece);
    let va = piece.va();
    let zero = spec.zeroed && !is_zero;
    // Where a device has no memory of its own, it has the host's.
    let is_host = spec.kind != MemoryKind::Device || core.facts().vram == 0;
    let host = match is_host {
        true => {
            // A view that outlives the buffer keeps the memory from reuse.
            let window = piece.shared()?.with_guard(piece.clone());
            if zero {
                let zeroed = window.fill(0, spec.bytes, 0);
                zeroed.map_err(|e| core.broken("memory", e))?;
            }
            HostAccess::Window(window)
        }
        false => {
            let vram = Vram::new(core.clone(), piece.clone());
            if zero {
                vram.zero(spec.bytes)?;
            }
            HostAccess::Remote(Arc::new(vram))
        }
    };
    let owned = Owned {
        space: core.backend.space().clone(),
        _piece: piece,
    };
    Ok(Buffer::new(
        core.id.clone(),
        va,
        spec.bytes,
        host,
        Box::new(owned),
    ))
}
