//! Bytes between the host and the device.

use std::sync::PoisonError;

use hcq::memory::{AllocSpec, HostAccess, MemoryKind};
use hcq::signal::Point;
use hcq::{Buffer, Command, Staging};

use super::DeviceExecutor;
use crate::error::Result;
use crate::graph::Storage;

/// Bytes of a source that are read at a time.
const UPLOAD_PART: usize = 1 << 20;

/// Bytes that go through staging memory at a time, and at least.
const STAGING_PART: usize = 4 << 20;
const STAGING_LEAST: usize = 64 << 10;

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

    /// Fills a buffer that the host does not reach. `read` gives the bytes from an offset on.
    fn transfer(
        &self,
        buffer: &Buffer,
        bytes: usize,
        mut read: impl FnMut(usize, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut part = vec![0; bytes.min(STAGING_PART)];
        self.staged_by(bytes, |staging| {
            staging.write(
                bytes,
                |piece, range| {
                    let part = &mut part[..range.len()];
                    read(range.start, part)?;
                    Ok(piece.write(0, part)?)
                },
                |piece, range| self.part(buffer, range.start, piece, 0, range.len(), false),
            )?;
            Ok(())
        })
    }

    /// Reads a buffer that the host does not reach, after the kernels so far.
    pub(super) fn download(&self, buffer: &Buffer, into: &mut [u8]) -> Result<()> {
        self.staged_by(into.len(), |staging| {
            staging.read(
                into.len(),
                |piece, range| self.part(piece, 0, buffer, range.start, range.len(), true),
                |piece, range| Ok(piece.read(0, &mut into[range])?),
            )
        })
    }

    /// Submits the copy of a part, with what it uses.
    fn part(
        &self,
        to: &Buffer,
        dst: usize,
        from: &Buffer,
        src: usize,
        bytes: usize,
        after_kernels: bool,
    ) -> Result<Point> {
        let copy = Command::Copy {
            dst: (to.va().0 + dst as u64).into(),
            src: (from.va().0 + src as u64).into(),
            bytes: bytes as u64,
        };
        let point = self.copy(copy, after_kernels)?;
        self.keep(std::slice::from_ref(&point), vec![to.clone(), from.clone()])?;
        Ok(point)
    }

    /// Lets `work` use the staging memory, which is as large as so many bytes need.
    fn staged_by<T>(
        &self,
        bytes: usize,
        work: impl FnOnce(&mut Staging<Buffer>) -> Result<T>,
    ) -> Result<T> {
        let mut slot = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let part = bytes.next_power_of_two().clamp(STAGING_LEAST, STAGING_PART);
        if let Some(staging) = slot.as_mut().filter(|staging| staging.part() >= part) {
            return work(staging);
        }
        *slot = None;
        let piece = || {
            self.device.alloc(AllocSpec {
                kind: MemoryKind::Host,
                ..AllocSpec::device(part as u64)
            })
        };
        let pieces = [piece()?, piece()?];
        work(slot.insert(Staging::new(pieces, part, self.options.patience)))
    }
}
