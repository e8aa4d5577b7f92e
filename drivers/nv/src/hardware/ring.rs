//! [`NvRing`]: publishes entries to the hardware.

use drivers_gpu::submit::ring::OwnRing;
use hcq::mem::window::Window;
use hcq::transport::TransportError;

use crate::backend::HardwareChannel;

/// Dwords of an entry.
pub(super) const ENTRY: usize = 2;

/// The smallest ring, in entries.
pub(super) const LEAST: u32 = 256;

/// The ring of a channel, in which there is nothing.
pub struct NvRing(pub(super) HardwareChannel);

impl NvRing {
    /// Dwords less one.
    fn mask(&self) -> u64 {
        self.0.ring.len() / 4 - 1
    }
}

impl OwnRing for NvRing {
    #[inline]
    fn window(&self) -> &Window {
        &self.0.ring
    }

    fn packet_boundary(&self, words: &[u32], room: usize) -> usize {
        words.len().min(room) / ENTRY * ENTRY
    }

    #[inline]
    fn publish(&self, end: u64) -> Result<u64, TransportError> {
        let put = (end & self.mask()) / ENTRY as u64;
        self.0.publish(put as u32)?;
        Ok(put)
    }

    #[inline]
    fn taken(&self) -> Result<Option<u64>, TransportError> {
        // GPGet has the fetched entries only, and reading it is a round trip over the bus: fences are better.
        Ok(None)
    }

    /// In entries.
    fn pointers(&self, end: u64) -> (u64, u64) {
        let put = (end & self.mask()) / ENTRY as u64;
        let get = self.0.get().map_or(u64::MAX, u64::from);
        (put, get)
    }

    /// GPGet counts around the ring.
    fn fetched(&self, end: u64) -> Option<u64> {
        let get = u64::from(self.0.get().ok()?) * ENTRY as u64;
        let behind = ((end & self.mask()) + self.mask() + 1).checked_sub(get)? & self.mask();
        end.checked_sub(behind)
    }
}
