//! The way through a BAR to what is behind it.

use std::sync::{Arc, Mutex};

use hcq::mem::window::{AccessWidth, Piece, RemoteWindow};
use hcq::sync::lock;
use hcq::transport::{Fault, TransportError};

use super::bus::Bus;
use super::{Broken, MEM_DECODE, Target};
use crate::rule::Journal;

/// A BAR, while somebody has it mapped.
pub(super) struct BarWindow {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) target: Arc<Mutex<Box<dyn Target>>>,
    pub(super) bus: Arc<Bus>,
    pub(super) journal: Arc<Journal>,
}

impl BarWindow {
    fn access<T>(
        &self,
        operation: String,
        run: impl FnOnce(&mut dyn Target) -> Result<T, Broken>,
    ) -> Result<T, TransportError> {
        let event = format!("{} {operation}", self.name);
        let done = if self.bus.decodes() {
            self.journal.event(event);
            run(lock(&self.target).as_mut())
        } else {
            Err((&MEM_DECODE, event))
        };
        done.map_err(|(rule, what)| {
            let report = self.journal.broken(rule, what);
            let fault = Fault::Unsupported(report.to_string());
            TransportError::new(&*self.name, operation, fault)
        })
    }
}

impl RemoteWindow for BarWindow {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, width: AccessWidth) -> Result<u64, TransportError> {
        let operation = format!("read {offset:#x} {} bytes", width.bytes());
        self.access(operation, |target| target.read(offset, width))
    }

    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Result<(), TransportError> {
        let operation = format!("write {offset:#x} {} bytes {value:#x}", width.bytes());
        self.access(operation, |target| target.write(offset, width, value))
    }

    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        let operation = format!("read {offset:#x} {} bytes", to.len());
        self.access(operation, |target| target.read_bytes(offset, to))
    }

    fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
        for (offset, from) in pieces {
            let operation = format!("write {offset:#x} {} bytes", from.len());
            self.access(operation, |target| target.write_bytes(*offset, from))?;
        }
        Ok(())
    }

    fn send(&self) -> Result<(), TransportError> {
        Ok(())
    }

    fn flush(&self) -> Result<(), TransportError> {
        Ok(())
    }
}
