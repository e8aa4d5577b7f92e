//! [`open`]: the function behind a bridge, as a [`Pci`].
//!
//! It cannot access host memory: its bus ends at the bridge.

use std::sync::Arc;

use hcq::mem::window::{AccessWidth, Piece, RemoteWindow, Window};
use hcq::transport::{Bar, Clock, Dma, Fault, Pci, Relay, ResetKind, TransportError, UsbPipe};
use hcq::wait::Deadline;

use crate::bridge::Bridge;
use crate::bus::{self, Found};
use crate::condition;
use crate::error::Stage;
use crate::relay::Buffer;
use crate::tlp::{Place, Tlp};

/// A function behind a bridge.
pub struct Function {
    bridge: Arc<Bridge>,
    buffer: Arc<Buffer>,
    name: String,
    found: Found,
    bars: Vec<Bar>,
}

/// Opens the function behind a bridge with the open firmware: sets up power, link, buses and BARs.
///
/// # Errors
/// The transport's, with the stage in the operation; [`Fault::Beyond`] where the bridge answers and the function does
/// not.
pub fn open(pipe: Arc<dyn UsbPipe>, clock: Arc<dyn Clock>) -> Result<Function, TransportError> {
    let at = |stage: Stage| move |error| stage.failed(error);
    let bridge = Bridge::new(pipe, clock).map_err(at(Stage::Bridge))?;
    bus::train(&bridge).map_err(at(Stage::Link))?;
    let found = bus::number(&bridge).map_err(at(Stage::Bus))?;
    let bars = bus::place_bars(&bridge, found.place).map_err(at(Stage::Windows))?;
    let bridge = Arc::new(bridge);
    Ok(Function {
        name: bridge.name().to_owned(),
        buffer: Arc::new(Buffer::new(bridge.clone())),
        bridge,
        found,
        bars,
    })
}

impl Function {
    /// What it is.
    pub fn found(&self) -> &Found {
        &self.found
    }

    fn place(&self) -> Place {
        self.found.place
    }

    fn unsupported(&self, operation: String, why: &str) -> TransportError {
        TransportError::new(&*self.name, operation, Fault::Unsupported(why.into()))
    }

    /// Configuration accesses are in order with all writes.
    fn config(
        &self,
        offset: u16,
        width: AccessWidth,
        tlp: impl FnOnce(usize) -> Tlp,
    ) -> Result<u32, TransportError> {
        let bytes = width.bytes();
        if bytes > 4 || !usize::from(offset).is_multiple_of(bytes) || offset >= 4096 {
            let operation = format!("config access of {bytes} bytes at {offset:#x}");
            return Err(self.unsupported(operation, "expected 1, 2 or 4 aligned bytes below 4096"));
        }
        self.bridge.ask(&tlp(bytes))
    }
}

impl Pci for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn bar(&self, n: u8) -> Result<Window, TransportError> {
        let Some(bar) = self.bars.iter().find(|bar| bar.number == n) else {
            let there: Vec<_> = self.bars.iter().map(|bar| bar.number.to_string()).collect();
            let why = format!("no such memory BAR; the function has {}", there.join(", "));
            return Err(self.unsupported(format!("BAR{n}"), &why));
        };
        let window = Range {
            bridge: self.bridge.clone(),
            start: bar.start,
            bytes: bar.bytes,
        };
        let name = format!("{} BAR{n}", self.name);
        Ok(Window::remote(name, Arc::new(window)))
    }

    fn config_read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        self.config(offset, width, |bytes| {
            Tlp::config_read(self.place(), offset, bytes)
        })
    }

    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        let write = |bytes| Tlp::config_write(self.place(), offset, bytes, value);
        self.config(offset, width, write).map(|_| ())
    }

    fn dma(&self, bytes: u64, _: u64) -> Result<Dma, TransportError> {
        let why = "a card behind USB cannot access host memory";
        Err(self.unsupported(format!("pin {bytes:#x} bytes"), why))
    }

    fn reaches_host(&self) -> bool {
        false
    }

    fn relay(&self) -> Option<Arc<dyn Relay>> {
        Some(self.buffer.clone())
    }

    fn condition(&self) -> Vec<[String; 2]> {
        condition::of(&self.bridge, self.place())
    }

    fn reset(&self, kind: ResetKind) -> Result<(), TransportError> {
        if kind == ResetKind::Function {
            let why = "the bridge supports a slot power cycle only";
            return Err(self.unsupported(format!("{kind} reset"), why));
        }
        self.bridge.send()?;
        self.buffer.forget();
        self.bridge.power(false)?;
        bus::train(&self.bridge)?;
        let found = bus::number(&self.bridge)?;
        let bars = bus::place_bars(&self.bridge, found.place)?;
        match found == self.found && bars == self.bars {
            true => Ok(()),
            false => {
                let fault = Fault::Beyond("a different card answers after the reset".into());
                Err(TransportError::new(
                    &*self.name,
                    format!("{kind} reset"),
                    fault,
                ))
            }
        }
    }

    fn wait_irq(&self, vector: u32, _: Deadline) -> Result<u64, TransportError> {
        let why = "the bridge forwards no interrupts: poll memory instead";
        Err(self.unsupported(format!("wait for interrupt {vector}"), why))
    }
}

/// A BAR.
struct Range {
    bridge: Arc<Bridge>,
    start: u64,
    bytes: u64,
}

impl RemoteWindow for Range {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, width: AccessWidth) -> Result<u64, TransportError> {
        self.bridge.read(self.start + offset, width)
    }

    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        self.bridge.read_bytes(self.start + offset, to)
    }

    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Result<(), TransportError> {
        let bytes = value.to_le_bytes();
        self.bridge
            .write(self.start + offset, &bytes[..width.bytes()])
    }

    fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
        let write = |(offset, bytes): &Piece<'_>| self.bridge.write(self.start + offset, bytes);
        pieces.iter().try_for_each(write)
    }

    fn send(&self) -> Result<(), TransportError> {
        self.bridge.send()
    }

    fn flush(&self) -> Result<(), TransportError> {
        self.bridge.send()
    }
}
