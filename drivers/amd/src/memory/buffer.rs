//! Buffers for the user: a piece of memory with the host's way to it.

use std::sync::Arc;

use hcq::{AllocSpec, Buffer, HostAccess, MemoryKind, Result};

use super::pool::Pool;
use super::vram::Vram;
use crate::core::Core;

/// Bytes of zeros that are written at once.
const ZEROS: u64 = 1 << 20;

/// A new buffer.
///
/// # Errors
/// [`hcq::Error::OutOfMemory`], [`hcq::Error::Os`], the loss of the device where it has to be zeroed.
pub(crate) fn alloc(core: &Arc<Core>, pool: &Arc<Pool>, spec: AllocSpec) -> Result<Buffer> {
    let (piece, is_zero) = pool.take(spec, "")?;
    let piece = Arc::new(piece);
    let va = piece.va();
    let host = match spec.kind {
        MemoryKind::Host | MemoryKind::Control => HostAccess::Window(piece.shared()?),
        MemoryKind::Device => HostAccess::Remote(Arc::new(Vram::new(core.clone(), piece.clone()))),
    };
    let buffer = Buffer::new(core.id.clone(), va, spec.bytes, host, Box::new(piece));
    if spec.zeroed && !is_zero {
        match buffer.host() {
            HostAccess::Window(window) => window
                .fill(0, spec.bytes, 0)
                .map_err(|e| core.broken("memory", e))?,
            _ => {
                let zeros = vec![0; spec.bytes.min(ZEROS) as usize];
                let mut at = 0;
                while at < spec.bytes {
                    let n = (spec.bytes - at).min(zeros.len() as u64);
                    buffer.write(at, &zeros[..n as usize])?;
                    at += n;
                }
            }
        }
    }
    Ok(buffer)
}
