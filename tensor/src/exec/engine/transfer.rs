//! Bytes between the host and the device, and between two devices.

use std::sync::Arc;

use hcq::{Buffer, Command, Sharing};

use super::{DeviceExecutor, found};
use crate::error::Result;
use crate::graph::{Storage, Tensor};

/// Bytes of a source that are read at a time.
const UPLOAD_PART: usize = 1 << 20;

impl DeviceExecutor {
    /// Device memory with the bytes of a storage; its own, if it is there already.
    pub(super) fn uploaded(&self, storage: &Storage) -> Result<Buffer> {
        let bytes = match storage {
            Storage::Device(buffer) => return Ok((**buffer).clone()),
            Storage::Host(bytes) => bytes.len(),
            Storage::Source(source) => source.bytes(),
        };
        let buffer = self.alloc(bytes as u64)?;
        self.fill(&buffer, storage)?;
        Ok(buffer)
    }

    /// Memory of this device with the value of a tensor of another one, by a copy that this one makes; none if it has
    /// no way to the other's memory.
    pub(crate) fn brought(&self, source: &Tensor) -> Result<Option<Buffer>> {
        let Some(other) = DeviceExecutor::of(source.engine()) else {
            return Ok(None);
        };
        source.realize()?;
        let Some(Storage::Device(from)) = source.storage() else {
            return Ok(None);
        };
        // Of engines of one device, too, the host copies: it does not wait for the queue of the other one with a turn of it held.
        let is_same = Arc::ptr_eq(&self.device, &other.device);
        if from.bytes() == 0 || is_same || !self.device.reaches(&from) {
            return Ok(None);
        }
        found(&from)?;
        let to = self.alloc(from.bytes())?;
        let copy = Command::Copy {
            dst: to.va().0.into(),
            src: from.va().0.into(),
            bytes: from.bytes(),
        };
        let queue = self.copies.as_ref().unwrap_or(&self.stream);
        self.room()?;
        other.room()?;
        // Nothing that writes there is submitted until the copy is done. The host waits: a queue that waited for one of
        // a device that hangs or is lost would never go on.
        let turn = other.turn();
        for stream in other.streams() {
            stream.wait(other.deadline())?;
        }
        let copied = queue.submit(&[], &[copy])?;
        self.keep(
            std::slice::from_ref(&copied),
            vec![(*from).clone(), to.clone()],
        );
        copied.wait(self.deadline())?;
        drop(turn);
        if let Some(observer) = self.observer() {
            observer.brought(&other.device.info().id, from.bytes());
        }
        Ok(Some(to))
    }

    /// Copies the value of a tensor, which is realized, over memory of this device, and waits for it.
    ///
    /// # Errors
    /// Those of uploading it and of the device.
    pub(crate) fn overwrite(&self, to: &Buffer, value: &Tensor) -> Result<()> {
        let from = self.resident(value)?;
        // What others have written there must not come out of a cache behind it.
        found(to)?;
        match from.va() == to.va() {
            true => self.settled(to),
            false => self.put(to, &from),
        }
    }

    /// Reads memory whose work is over. What others have, and only the device reaches, is copied first.
    pub(super) fn seen(&self, buffer: &Buffer, into: &mut [u8]) -> Result<()> {
        match buffer.read(0, into) {
            Err(hcq::Error::NoHostAccess { .. }) if buffer.sharing() != Sharing::Own => {
                let own = self.alloc(buffer.bytes())?;
                self.put(&own, buffer)?;
                Ok(own.read(0, into)?)
            }
            read => Ok(read?),
        }
    }

    /// Copies memory over other memory that is as large, after all work before it, and waits for it.
    fn put(&self, to: &Buffer, from: &Buffer) -> Result<()> {
        self.room()?;
        let barrier = Command::Barrier {
            scope: hcq::Scope::Queue,
        };
        let copy = Command::Copy {
            dst: to.va().0.into(),
            src: from.va().0.into(),
            bytes: to.bytes(),
        };
        let point = {
            let _turn = self.turn();
            let point = self.stream.submit(&self.copied()?, &[barrier, copy])?;
            let kept = vec![from.clone(), to.clone()];
            self.keep(std::slice::from_ref(&point), kept);
            point
        };
        point.wait(self.deadline())?;
        self.faults.check()?;
        Ok(to.invalidate(0, to.bytes())?)
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
            Storage::Device(buffer) => return Ok((**buffer).clone()),
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
