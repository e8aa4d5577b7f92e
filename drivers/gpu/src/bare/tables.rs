//! [`Tables`]: VRAM for page tables, all of which the host reaches through the BAR. Where the BAR shows but a part of VRAM,
//! tables need a range of that part for themselves.

use hcq::addr::{PhysAddr, VramAddr};
use hcq::mem::pages::{Frame, TableMemory};
use hcq::mem::tlsf::{Tlsf, TlsfError};
use hcq::mem::window::Window;
use hcq::transport::TransportError;
use hcq::{DeviceId, Error};

use super::mmu::PAGE;

/// A range of VRAM for tables.
#[derive(Debug)]
pub struct Tables {
    device: DeviceId,
    vram: Window,
    range: Tlsf,
    /// The first that is asked for.
    root: Option<Frame>,
}

impl Tables {
    /// Tables in `bytes` bytes of VRAM from `from` on, both multiples of [`PAGE`]. `vram` is the BAR, from
    /// the first byte of VRAM on.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]: the range is none, or goes beyond what the BAR shows.
    pub fn new(
        device: &DeviceId,
        vram: &Window,
        from: VramAddr,
        bytes: u64,
    ) -> Result<Tables, Error> {
        let refused = |hint: String| Error::OutOfMemory {
            device: device.clone(),
            asked: bytes,
            free: vram.len().saturating_sub(from.0),
            total: vram.len(),
            hint,
        };
        if from.0.checked_add(bytes).is_none_or(|end| end > vram.len()) {
            let hint =
                format!(" in the BAR from {from} (page tables must be in the BAR); resize the BAR");
            return Err(refused(hint));
        }
        let range = Tlsf::new(from.0, bytes, PAGE);
        let range = range.map_err(|error| refused(format!(" ({error})")))?;
        Ok(Tables {
            device: device.clone(),
            vram: vram.clone(),
            range,
            root: None,
        })
    }

    /// The first table is at `at`, outside of the range: the hardware got the address of the root before.
    ///
    /// # Errors
    /// [`TransportError`]: the BAR does not show it.
    pub fn rooted(self, at: VramAddr) -> Result<Tables, TransportError> {
        let window = self.vram.sub(at.0, PAGE)?;
        let at = PhysAddr::Vram(at);
        let root = Some(Frame { at, window });
        Ok(Tables { root, ..self })
    }
}

impl TableMemory for Tables {
    fn alloc(&mut self, bytes: u64) -> Result<Frame, Error> {
        if let Some(root) = self.root.take() {
            return Ok(root);
        }
        let full = |range: &Tlsf, error: TlsfError| {
            let stats = range.stats();
            Error::OutOfMemory {
                device: self.device.clone(),
                asked: bytes,
                free: stats.free,
                total: stats.size,
                hint: format!(" of page table memory ({error})"),
            }
        };
        let at = self.range.alloc(bytes, bytes.max(PAGE));
        let at = at.map_err(|error| full(&self.range, error))?;
        match self.vram.sub(at, bytes) {
            Ok(window) => Ok(Frame {
                at: PhysAddr::Vram(VramAddr(at)),
                window,
            }),
            Err(error) => {
                // PANIC: just allocated.
                self.range.free(at).ok();
                Err(Error::Os {
                    device: self.device.clone(),
                    call: format!("page table at VRAM {at:#x}"),
                    source_text: error.to_string(),
                    errno: None,
                    hint: "Open the device again".into(),
                })
            }
        }
    }

    fn free(&mut self, frame: Frame) {
        // Only tables that were allocated here are freed.
        let freed = self.range.free(frame.at.raw());
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}
