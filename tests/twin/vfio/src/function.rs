//! What a virtual machine asks of its device, as calls of a [`Pci`].
//!
//! A model refuses an access that breaks a rule, and has noted it then. A bus has no errors: what is read there is all ones
//! outside of registers, and 0 in registers that nobody has described; what is written is lost. How often is counted, by
//! place, so that what a guest needs and the model lacks can be read off.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use hcq::mem::window::{AccessWidth, Window};
use hcq::transport::{Pci, ResetKind, TransportError};
use twin::pci::Bus;
use vfio_bindings::bindings::vfio::VFIO_IRQ_SET_ACTION_TRIGGER;
use vfio_user::{DmaMapFlags, DmaUnmapFlags, Server, ServerBackend};

use crate::Error;
use crate::memory::Memory;
use crate::messages::Messages;
use crate::regions::{self, CONFIG, CONFIG_BYTES, MSI, ROM};
use crate::rom::{REGISTER, Rom};

/// Where an access was refused: region, offset, and whether it was a write.
pub type Place = (u32, u64, bool);

/// A function that a virtual machine has.
pub struct Function {
    pci: Arc<dyn Pci>,
    bars: [Option<Window>; 6],
    rom: Rom,
    memory: Memory,
    messages: Messages,
    refused: BTreeMap<Place, u64>,
}

impl Function {
    /// A function of a model, with its way to memory of the machine, and what lies in its expansion ROM.
    pub fn new(pci: Arc<dyn Pci>, bus: &Bus, rom: Vec<u8>) -> Function {
        Function {
            // The model says no to a BAR that the card does not have.
            bars: std::array::from_fn(|number| pci.bar(number as u8).ok()),
            pci,
            rom: Rom::new(rom),
            memory: Memory::new(bus.memory()),
            messages: Messages::of(bus),
            refused: BTreeMap::new(),
        }
    }

    /// Waits for a machine at a socket, which must not be there yet, and is its device until it ends.
    ///
    /// # Errors
    /// The socket.
    pub fn serve(&mut self, socket: &Path) -> Result<(), Error> {
        let failed = |source| Error::Socket {
            path: socket.to_owned(),
            source,
        };
        let bytes = |bar: &Option<Window>| bar.as_ref().map_or(0, Window::len);
        let regions = regions::of(self.bars.each_ref().map(bytes), self.rom.bytes());
        let interrupts = regions::interrupts();
        let server = Server::new(socket, true, interrupts, regions).map_err(failed)?;
        server.run(self).map_err(failed)
    }

    /// How often accesses were refused, by place.
    pub fn refused(&self) -> &BTreeMap<Place, u64> {
        &self.refused
    }

    fn bar(&self, region: u32) -> io::Result<&Window> {
        let bar = self.bars.get(region as usize).and_then(Option::as_ref);
        bar.ok_or_else(|| {
            let why = format!("region {region}, which the card does not have");
            io::Error::new(io::ErrorKind::InvalidInput, why)
        })
    }

    fn note(&mut self, place: Place) {
        *self.refused.entry(place).or_default() += 1;
    }
}

fn read(bar: &Window, offset: u64, bytes: usize) -> Result<u64, TransportError> {
    Ok(match bytes {
        1 => bar.read::<u8>(offset)?.into(),
        2 => bar.read::<u16>(offset)?.into(),
        4 => bar.read::<u32>(offset)?.into(),
        _ => bar.read::<u64>(offset)?,
    })
}

fn write(bar: &Window, offset: u64, bytes: usize, value: u64) -> Result<(), TransportError> {
    match bytes {
        1 => bar.write(offset, value as u8),
        2 => bar.write(offset, value as u16),
        4 => bar.write(offset, value as u32),
        _ => bar.write(offset, value),
    }
}

/// The largest access that a run of bytes starts with: a power of two, aligned, of at most `most` bytes.
fn piece(offset: u64, bytes: usize, most: usize) -> usize {
    let fits = |&size: &usize| size <= bytes.min(most) && offset.is_multiple_of(size as u64);
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

/// An offset in configuration space; what is beyond it stays so.
fn config(at: u64) -> u16 {
    u16::try_from(at).unwrap_or(CONFIG_BYTES as u16)
}

fn width(bytes: usize) -> AccessWidth {
    match bytes {
        1 => AccessWidth::W8,
        2 => AccessWidth::W16,
        _ => AccessWidth::W32,
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

impl ServerBackend for Function {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let rest = &mut data[done..];
            let bytes = piece(at, rest.len(), if region == CONFIG { 4 } else { 8 });
            let value = match region {
                CONFIG if REGISTER.contains(&at) => {
                    Ok(u64::from(self.rom.register()) >> (8 * (at - REGISTER.start)))
                }
                CONFIG => self
                    .pci
                    .config_read(config(at), width(bytes))
                    .map(u64::from),
                ROM => Ok(word(
                    &[0, 1, 2, 3, 4, 5, 6, 7].map(|i| self.rom.byte(at + i)),
                )),
                bar => read(self.bar(bar)?, at, bytes),
            };
            let value = value.unwrap_or_else(|_| {
                self.note((region, at, false));
                0
            });
            rest[..bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
            done += bytes;
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let bytes = piece(at, data.len() - done, if region == CONFIG { 4 } else { 8 });
            let new = &data[done..done + bytes];
            let written = match region {
                CONFIG if REGISTER.contains(&at) => {
                    (at..)
                        .zip(new)
                        .for_each(|(at, byte)| self.rom.write(at, *byte));
                    Ok(())
                }
                CONFIG => self
                    .pci
                    .config_write(config(at), width(bytes), word(new) as u32),
                bar => write(self.bar(bar)?, at, bytes, word(new)),
            };
            if written.is_err() {
                self.note((region, at, true));
            }
            done += bytes;
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        _: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        file: Option<File>,
    ) -> io::Result<()> {
        // What has no file is not memory: ROMs, and registers of other devices.
        match file {
            Some(file) => self.memory.map(address, size, &file, offset),
            None => Ok(()),
        }
    }

    fn dma_unmap(&mut self, _: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        self.memory.unmap(address, size);
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        _: u32,
        files: Vec<File>,
    ) -> io::Result<()> {
        if index == MSI && flags & VFIO_IRQ_SET_ACTION_TRIGGER != 0 {
            self.messages.set(start, files);
        }
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.pci
            .reset(ResetKind::Function)
            .map_err(io::Error::other)
    }
}
