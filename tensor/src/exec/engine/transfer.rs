//! Bytes between the host and the device.

use hcq::memory::{AllocSpec, HostAccess, MemoryKind};
use hcq::signal::Point;
use hcq::{Buffer, Command};

use super::DeviceExecutor;
use crate::error::Result;
use crate::graph::Storage;

/// Bytes of a source that are read at a time.
const UPLOAD_PART: usize = 1 << 20;

/// Bytes that go through staging memory at a time.
const STAGING_PART: usize = 4 << 20;

impl DeviceExecutor {
    /// Submits one copy, on the queue for copies if there is one, after the kernels so far if they
    /// touch its bytes.
    pub(super) fn copy(&self, copy: Command<'_>, after_kernels: bool) -> Result<Point> {
        let Some(copies) = &self.copies else {
            let barrier = Command::Barrier {
                scope: hcq::Scope::Queue,
            };
            return Ok(self.stream.submit(&[], &[barrier, copy])?);
        };
        let after = match after_kernels {
            true => vec![self.stream.last()],
            false => Vec::new(),
        };
        Ok(copies.submit(&after, &[copy])?)
    }

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
            Storage::Host(bytes) => self.upload(buffer, bytes),
            Storage::Source(source) if matches!(buffer.host(), HostAccess::None) => {
                self.transfer(buffer, source.bytes(), |at, part| source.part(at, part))
            }
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

    fn upload(&self, buffer: &Buffer, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if !matches!(buffer.host(), HostAccess::None) {
            return Ok(buffer.write(0, bytes)?);
        }
        self.transfer(buffer, bytes.len(), |at, part| {
            part.copy_from_slice(&bytes[at..at + part.len()]);
            Ok(())
        })
    }

    /// Fills a buffer that the host does not reach, through two pieces of memory that both do: one
    /// is filled while the other is copied. `read` gives the bytes from an offset on.
    fn transfer(
        &self,
        buffer: &Buffer,
        bytes: usize,
        mut read: impl FnMut(usize, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut part = vec![0; bytes.min(STAGING_PART)];
        let pieces = [0, 1]
            .iter()
            .take(bytes.div_ceil(STAGING_PART))
            .map(|_| self.staging(part.len() as u64))
            .collect::<Result<Vec<_>>>()?;
        let mut points: Vec<Point> = Vec::new();
        for (n, at) in (0..bytes).step_by(STAGING_PART).enumerate() {
            let len = part.len().min(bytes - at);
            read(at, &mut part[..len])?;
            if let Some(before) = n.checked_sub(pieces.len()) {
                points[before].wait(self.deadline())?;
            }
            let staging = &pieces[n % pieces.len()];
            staging.write(0, &part[..len])?;
            let copy = Command::Copy {
                dst: (buffer.va().0 + at as u64).into(),
                src: staging.va().0.into(),
                bytes: len as u64,
            };
            points.push(self.copy(copy, false)?);
        }
        match points.pop() {
            Some(last) => {
                let kept = pieces.into_iter().chain([buffer.clone()]);
                self.keep(last, kept.collect())
            }
            None => Ok(()),
        }
    }

    pub(super) fn staging(&self, bytes: u64) -> Result<Buffer> {
        Ok(self.device.alloc(AllocSpec {
            kind: MemoryKind::Host,
            ..AllocSpec::device(bytes)
        })?)
    }
}
