//! VRAM in place of host memory, for cards that cannot access host memory. Host and card share it uncached.
//!
//! The host's writes may be buffered. Doorbells and the host's signals are written after a flush; posted writes
//! arrive in order, so the host does not wait for the flush.

use std::sync::Arc;

use hcq::mem::window::{AccessWidth, Piece, RemoteWindow, Window};
use hcq::transport::TransportError;

use super::mmu::Mmu;

/// A window to VRAM whose writes go on to memory when they are sent.
pub fn memory<M: Mmu>(vram: &Window, mmu: &Arc<M>) -> Window {
    flushed(vram, mmu, false)
}

/// A doorbell that is written after a flush of the writes to VRAM.
pub fn doorbell<M: Mmu>(bell: &Window, mmu: &Arc<M>) -> Window {
    flushed(bell, mmu, true)
}

fn flushed<M: Mmu>(window: &Window, mmu: &Arc<M>, first: bool) -> Window {
    let flushed = Flushed {
        window: window.clone(),
        mmu: mmu.clone(),
        first,
    };
    Window::remote(window.name(), Arc::new(flushed))
}

/// A window with a flush before or after its writes.
struct Flushed<M> {
    window: Window,
    mmu: Arc<M>,
    first: bool,
}

impl<M: Mmu> Flushed<M> {
    fn post(&self, first: bool) -> Result<(), TransportError> {
        match self.first == first {
            true => self.mmu.post(),
            false => Ok(()),
        }
    }
}

impl<M: Mmu> RemoteWindow for Flushed<M> {
    fn len(&self) -> u64 {
        self.window.len()
    }

    fn read(&self, offset: u64, width: AccessWidth) -> Result<u64, TransportError> {
        Ok(match width {
            AccessWidth::W8 => self.window.read::<u8>(offset)?.into(),
            AccessWidth::W16 => self.window.read::<u16>(offset)?.into(),
            AccessWidth::W32 => self.window.read::<u32>(offset)?.into(),
            AccessWidth::W64 => self.window.read(offset)?,
        })
    }

    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        self.window.read_bytes(offset, to)
    }

    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Result<(), TransportError> {
        self.post(true)?;
        match width {
            AccessWidth::W8 => self.window.write(offset, value as u8),
            AccessWidth::W16 => self.window.write(offset, value as u16),
            AccessWidth::W32 => self.window.write(offset, value as u32),
            AccessWidth::W64 => self.window.write(offset, value),
        }
    }

    fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
        self.post(true)?;
        self.window.write_many(pieces)
    }

    fn send(&self) -> Result<(), TransportError> {
        self.post(false)?;
        self.window.send()
    }

    fn flush(&self) -> Result<(), TransportError> {
        self.post(false)?;
        self.window.flush()
    }
}
