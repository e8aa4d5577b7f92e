//! Bytes between the host and the device.

use hcq::Buffer;

use super::DeviceExecutor;
use crate::error::Result;
use crate::graph::Storage;

/// Bytes of a source that are read at a time.
const UPLOAD_PART: usize = 1 << 20;

impl DeviceExecutor {
    /// Device memory with the bytes of a storage; its own, if it is there already.
    pub(super) fn uploaded(&self, storage: &Storage) -> Result<Buffer> {
        let bytes = match storage {
            Storage::Device(buffer) => return Ok(buffer.clone()),
            Storage::Host(bytes) => bytes.len(),
            Storage::Source(source) => source.bytes(),
        };
        let buffer = self.alloc(bytes as u64)?;
        self.fill(&buffer, storage)?;
        Ok(buffer)
    }

    /// Puts the bytes of a storage into a buffer that has room for them.
    fn fill(&self, buffer: &Buffer, storage: &Storage) -> Result<()> {
        match storage {
            Storage::Device(_) => Ok(()),
            Storage::Host(bytes) => Ok(buffer.write(0, bytes)?),
            Storage::Source(source) => {
                // In parts: the whole would be in memory twice.
                let mut part = vec![0; source.bytes().min(UPLOAD_PART)];
                let mut at = 0;
                while at < source.bytes() {
                    let len = part.len().min(source.bytes() - at);
                    source.part(at, &mut part[..len])?;
                    buffer.write(at as u64, &part[..len])?;
                    at += len;
                }
                Ok(())
            }
        }
    }

    /// The bytes of a storage in place `n` of memory that is used again for the next ones. The
    /// work on what was there before has to be done.
    pub(crate) fn staged(
        &self,
        storage: &Storage,
        n: usize,
        staging: &mut Vec<Buffer>,
    ) -> Result<Buffer> {
        let bytes = match storage {
            Storage::Device(buffer) => return Ok(buffer.clone()),
            Storage::Host(bytes) => bytes.len(),
            Storage::Source(source) => source.bytes(),
        } as u64;
        if staging.get(n).is_none_or(|b| b.bytes() < bytes) {
            let buffer = self.alloc(bytes)?;
            match staging.get_mut(n) {
                Some(place) => *place = buffer,
                None => staging.push(buffer),
            }
        }
        let buffer = &staging[n.min(staging.len() - 1)];
        self.fill(buffer, storage)?;
        Ok(buffer.clone())
    }
}
