//! Regions of a device's file that are read and written by calls: its configuration space, and BARs that cannot be mapped.

use std::ops::Range;
use std::sync::Arc;

use drivers_spec::vfio::RegionInfo;
use hcq::mem::window::{AccessWidth, Piece, RemoteWindow};
use hcq::transport::{Fault, TransportError};

use super::request::Descriptor;
use crate::pci::quiet::{Config, access};

/// The configuration space of a function, in the device's file.
pub(super) struct ConfigRegion {
    pub(super) address: String,
    pub(super) device: Arc<Descriptor>,
    pub(super) region: RegionInfo,
}

impl ConfigRegion {
    /// What an access is called, and where in the device's file it is, if there is one there.
    fn access(
        &self,
        verb: &str,
        offset: u16,
        width: AccessWidth,
    ) -> Result<(String, u64), TransportError> {
        let len = self.region.size as usize;
        let operation = access((&self.address, len), verb, offset, width)?;
        Ok((operation, self.region.offset + u64::from(offset)))
    }
}

impl Config for ConfigRegion {
    fn read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        let (operation, at) = self.access("read", offset, width)?;
        let mut word = [0; 4];
        self.device
            .read(&operation, at, &mut word[..width.bytes()])?;
        Ok(u32::from_le_bytes(word))
    }

    fn write(&self, offset: u16, width: AccessWidth, value: u32) -> Result<(), TransportError> {
        let (operation, at) = self.access("write", offset, width)?;
        let word = value.to_le_bytes();
        self.device.write(&operation, at, &word[..width.bytes()])
    }
}

impl Descriptor {
    fn read(&self, operation: &str, at: u64, to: &mut [u8]) -> Result<(), TransportError> {
        let read = self.calls.read_at(self.fd, to, at);
        self.moved(operation, read, to.len())
    }

    fn write(&self, operation: &str, at: u64, from: &[u8]) -> Result<(), TransportError> {
        let written = self.calls.write_at(self.fd, from, at);
        self.moved(operation, written, from.len())
    }

    fn moved(
        &self,
        operation: &str,
        moved: std::io::Result<usize>,
        wanted: usize,
    ) -> Result<(), TransportError> {
        match moved.map_err(|error| self.failed(operation, &error))? {
            moved if moved == wanted => Ok(()),
            moved => {
                let fault = Fault::Short { wanted, moved };
                Err(TransportError::new(&*self.name, operation, fault))
            }
        }
    }
}

/// A BAR that is read and written by calls.
pub(super) struct Region {
    pub(super) device: Arc<Descriptor>,
    pub(super) number: u8,
    pub(super) start: u64,
    pub(super) len: u64,
}

impl Region {
    fn operation(&self, verb: &str, offset: u64, bytes: usize) -> String {
        format!("{verb} BAR{} {offset:#x} {bytes} bytes", self.number)
    }
}

/// Runs over bytes in the largest elements that are aligned, of at most so many bytes: offset, and which bytes.
pub(in crate::pci) fn elements(
    offset: u64,
    bytes: usize,
    most: usize,
) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let left = bytes - done;
        let fits = |n: &usize| *n <= most && at.is_multiple_of(*n as u64) && *n <= left;
        let one = [8, 4, 2, 1].into_iter().find(fits)?;
        let range = done..done + one;
        done += one;
        (left > 0).then_some((at, range))
    })
}

impl RemoteWindow for Region {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, width: AccessWidth) -> Result<u64, TransportError> {
        let mut word = [0; 8];
        let operation = self.operation("read", offset, width.bytes());
        let at = self.start + offset;
        self.device
            .read(&operation, at, &mut word[..width.bytes()])?;
        Ok(u64::from_le_bytes(word))
    }

    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        let operation = self.operation("read", offset, to.len());
        elements(offset, to.len(), 8).try_for_each(|(at, range)| {
            self.device
                .read(&operation, self.start + at, &mut to[range])
        })
    }

    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Result<(), TransportError> {
        let operation = self.operation("write", offset, width.bytes());
        let word = value.to_le_bytes();
        let at = self.start + offset;
        self.device.write(&operation, at, &word[..width.bytes()])
    }

    fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
        pieces.iter().try_for_each(|(offset, from)| {
            let operation = self.operation("write", *offset, from.len());
            elements(*offset, from.len(), 8).try_for_each(|(at, range)| {
                self.device.write(&operation, self.start + at, &from[range])
            })
        })
    }

    fn send(&self) -> Result<(), TransportError> {
        // A call returns when it is done.
        Ok(())
    }

    fn flush(&self) -> Result<(), TransportError> {
        Ok(())
    }
}
