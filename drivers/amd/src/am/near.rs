//! VRAM that stands in for memory of the host, where the card reaches none: host and card share it, neither keeps it
//! in a cache.
//!
//! What the host writes waits in the host data path. Whatever makes the card look, a doorbell or a signal of the
//! host's, is written behind a flush: posted writes arrive in their order, so that nobody waits for the flush.

use std::sync::Arc;

use hcq::mem::window::{AccessWidth, Piece, RemoteWindow, Window};
use hcq::transport::TransportError;

use super::hdp::Hdp;

/// A window to VRAM whose writes go on to memory when they are sent.
pub(super) fn memory(vram: &Window, hdp: Hdp) -> Window {
    let after = Flushed {
        window: vram.clone(),
        hdp,
        first: false,
    };
    Window::remote(vram.name(), Arc::new(after))
}

/// A doorbell that rings when what was written to VRAM is there.
pub(super) fn doorbell(bell: &Window, hdp: Hdp) -> Window {
    let before = Flushed {
        window: bell.clone(),
        hdp,
        first: true,
    };
    Window::remote(bell.name(), Arc::new(before))
}

/// A window with a flush of the host data path before its writes, or behind them.
struct Flushed {
    window: Window,
    hdp: Hdp,
    first: bool,
}

impl Flushed {
    fn before(&self) -> Result<(), TransportError> {
        match self.first {
            true => self.hdp.post(),
            false => Ok(()),
        }
    }

    fn behind(&self) -> Result<(), TransportError> {
        match self.first {
            true => Ok(()),
            false => self.hdp.post(),
        }
    }
}

impl RemoteWindow for Flushed {
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
        self.before()?;
        match width {
            AccessWidth::W8 => self.window.write(offset, value as u8),
            AccessWidth::W16 => self.window.write(offset, value as u16),
            AccessWidth::W32 => self.window.write(offset, value as u32),
            AccessWidth::W64 => self.window.write(offset, value),
        }
    }

    fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
        self.before()?;
        self.window.write_many(pieces)
    }

    fn send(&self) -> Result<(), TransportError> {
        self.behind()?;
        self.window.send()
    }

    fn flush(&self) -> Result<(), TransportError> {
        self.behind()?;
        self.window.flush()
    }
}
