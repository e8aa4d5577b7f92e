//! Buffers for the user: a piece of memory, or memory of others, with the host's access to it.

use std::any::Any;
use std::sync::{Arc, Weak};

use hcq::memory::RemoteMemory;
use hcq::{AllocSpec, Buffer, Error, GpuVa, HostAccess, Import, MemoryKind, Result};

use super::pool::Pool;
use super::vram::Vram;
use crate::backend::Memory;
use crate::backend::space::Space;
use crate::core::Core;

/// What a buffer of the user keeps.
pub struct Owned {
    /// The addresses that its own is one of. Another machine may give the same address to other memory.
    pub space: Arc<Space>,
    /// Of which handle it is.
    core: Weak<Core>,
    _memory: Box<dyn Any + Send + Sync>,
}

impl Owned {
    /// Whether a handle has made or imported it.
    pub fn is_of(&self, core: &Arc<Core>) -> bool {
        std::ptr::eq(self.core.as_ptr(), Arc::as_ptr(core))
    }
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
        core: Arc::downgrade(core),
        _memory: Box::new(piece),
    };
    Ok(Buffer::new(
        core.id.clone(),
        va,
        spec.bytes,
        host,
        Box::new(owned),
    ))
}

/// Memory of others that a buffer of the user has.
struct Imported {
    core: Arc<Core>,
    memory: Option<Memory>,
    /// The number of its range.
    range: u64,
}

impl Drop for Imported {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else {
            return;
        };
        let lost = &self.core.lost;
        if lost.is_inherited() {
            // It belongs to the parent, and a fork may have inherited locks that no thread releases.
            std::mem::forget(memory);
            return;
        }
        self.core.ranges().remove(memory.va.0, self.range);
        match lost.runs_on() {
            // Its queues may still use it.
            true => lost.keep(Box::new(memory)),
            false => drop(memory),
        }
    }
}

/// A buffer of memory of others.
///
/// # Errors
/// [`hcq::Error::Unsupported`], [`hcq::Error::Os`].
pub fn import(core: &Arc<Core>, memory: &Import) -> Result<Buffer> {
    let imported = core.backend.import(memory)?;
    let (va, bytes) = (imported.va, imported.bytes);
    let host = match &imported.window {
        Some(window) => HostAccess::Window(window.clone()),
        None => HostAccess::Remote(Arc::new(Unseen {
            core: core.clone(),
            va,
        })),
    };
    let range = core.ranges().insert(va.0, bytes, "imported memory");
    let owned = Owned {
        space: core.backend.space().clone(),
        core: Arc::downgrade(core),
        _memory: Box::new(Imported {
            core: core.clone(),
            memory: Some(imported),
            range,
        }),
    };
    Ok(Buffer::new(
        core.id.clone(),
        va,
        bytes,
        host,
        Box::new(owned),
    ))
}

/// Memory that the host reaches by its owner alone.
struct Unseen {
    core: Arc<Core>,
    va: GpuVa,
}

impl Unseen {
    fn refused(&self) -> Error {
        Error::NoHostAccess {
            device: self.core.id.clone(),
            va: self.va.0,
            has: "none (imported memory without a host mapping)",
            needs: "a host mapping: copy it on the device, or access the original allocation",
        }
    }
}

impl RemoteMemory for Unseen {
    fn read(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Err(self.refused())
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<()> {
        Err(self.refused())
    }
}
