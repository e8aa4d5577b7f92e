//! [`quiet`]: taking from a function the right to start accesses, and waiting for those that it has started.
//!
//! Source: PCI Local Bus Specification 3.0, 6.2.2 (bus master) and 6.7 (capabilities); PCI Express Base Specification 5.0,
//! 2.4.1 (a completion does not pass writes that were sent before it) and 7.5.3.5 (transactions pending); Linux,
//! drivers/pci/pci.c, pci_clear_master and pci_wait_for_pending_transaction.

use std::time::{Duration, Instant};

use drivers_spec::pci::{Command, PCI_COMMAND};
use hcq::mem::view::ViewError;
use hcq::mem::window::AccessWidth;
use hcq::transport::{Fault, TransportError};

const STATUS: u16 = 0x06;
/// In the status register: there are capabilities.
const HAS_CAPABILITIES: u32 = 1 << 4;
const FIRST_CAPABILITY: u16 = 0x34;
const EXPRESS: u32 = 0x10;
/// From the capability to the device status.
const DEVICE_STATUS: u16 = 0x0a;
/// In the device status: transactions are pending.
const PENDING: u32 = 1 << 5;
/// There is room for no more capabilities.
const MOST: usize = 48;
/// How long an access may take. Completions time out after 50 ms, by default.
const LIMIT: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(1);

/// The configuration space of a function.
pub trait Config: Send + Sync {
    /// Reads it. `offset` is a multiple of the width.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError>;

    /// Writes it.
    ///
    /// # Errors
    /// The system's.
    fn write(&self, offset: u16, width: AccessWidth, value: u32) -> Result<(), TransportError>;
}

/// What an access to a configuration space of `len` bytes is called, if there is one at that place.
///
/// # Errors
/// The access is too wide, not aligned, or past the end.
pub(super) fn access(
    (address, len): (&str, usize),
    verb: &str,
    offset: u16,
    width: AccessWidth,
) -> Result<String, TransportError> {
    let (bytes, at) = (width.bytes(), usize::from(offset));
    let operation = format!("config {verb} {offset:#x} {bytes} bytes");
    let fault = if bytes > 4 {
        Fault::Unsupported("at most 4 bytes at a time".into())
    } else if !at.is_multiple_of(bytes) {
        Fault::View(ViewError::Misaligned {
            offset: at,
            len,
            align: bytes,
            low: at & 0xfff,
        })
    } else if at + bytes > len {
        Fault::View(ViewError::OutOfBounds {
            offset: at,
            bytes,
            len,
        })
    } else {
        return Ok(operation);
    };
    Err(TransportError::new(address, operation, fault))
}

/// Stops a function's DMA: on return, its earlier writes have arrived and no more follow. A function that has left
/// the bus does not write.
///
/// # Errors
/// The accesses to its configuration; [`Fault::TimedOut`] where it still waits for something.
pub fn quiet(address: &str, config: &dyn Config) -> Result<(), TransportError> {
    /// The value read from a missing function.
    const GONE: u32 = 0xffff;
    let failed = |fault| TransportError::new(address, "stop its DMA", fault);
    let command = config.read(PCI_COMMAND, AccessWidth::W16)?;
    if command == GONE {
        return Ok(());
    }
    let master = u32::from(Command::MASTER.bits());
    if command & master != 0 {
        config.write(PCI_COMMAND, AccessWidth::W16, command & !master)?;
    }
    // The read completes after all earlier writes.
    let command = config.read(PCI_COMMAND, AccessWidth::W16)?;
    if command != GONE && command & master != 0 {
        let why = format!("command register stays {command:#x}: still bus master");
        return Err(failed(Fault::Unsupported(why)));
    }
    let Some(express) = express(config)? else {
        return Ok(());
    };
    let start = Instant::now();
    loop {
        let status = config.read(express + DEVICE_STATUS, AccessWidth::W16)?;
        if status == GONE || status & PENDING == 0 {
            return Ok(());
        }
        if start.elapsed() > LIMIT {
            return Err(failed(Fault::TimedOut(LIMIT)));
        }
        std::thread::sleep(LOOK);
    }
}

/// Where the capability of PCI Express is, if there is one.
fn express(config: &dyn Config) -> Result<Option<u16>, TransportError> {
    if config.read(STATUS, AccessWidth::W16)? & HAS_CAPABILITIES == 0 {
        return Ok(None);
    }
    let mut at = config.read(FIRST_CAPABILITY, AccessWidth::W8)? & !3;
    for _ in 0..MOST {
        if at < 0x40 {
            break;
        }
        let word = config.read(at as u16, AccessWidth::W16)?;
        if word & 0xff == EXPRESS {
            return Ok(Some(at as u16));
        }
        at = word >> 8 & !3;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// 256 bytes of configuration; and how many looks find something pending.
    struct Space(Mutex<([u8; 256], u32)>);

    impl Space {
        fn new(command: u16, looks: u32) -> Space {
            let mut bytes = [0; 256];
            bytes[4..6].copy_from_slice(&command.to_le_bytes());
            (bytes[6], bytes[0x34]) = (0x10, 0x50);
            bytes[0x50..0x52].copy_from_slice(&[0x01, 0x64]);
            bytes[0x64..0x66].copy_from_slice(&[0x10, 0]);
            Space(Mutex::new((bytes, looks)))
        }

        fn command(&self) -> u16 {
            let space = self.0.lock().unwrap();
            u16::from_le_bytes([space.0[4], space.0[5]])
        }
    }

    impl Config for Space {
        fn read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
            let mut space = self.0.lock().unwrap();
            if offset == 0x6e {
                space.1 = space.1.saturating_sub(1);
                let pending = if space.1 > 0 { PENDING } else { 0 };
                return Ok(pending);
            }
            let at = usize::from(offset);
            let bytes = space.0[at..at + width.bytes()].iter().rev();
            Ok(bytes.fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
        }
        fn write(&self, offset: u16, width: AccessWidth, value: u32) -> Result<(), TransportError> {
            let at = usize::from(offset);
            let bytes = &value.to_le_bytes()[..width.bytes()];
            self.0.lock().unwrap().0[at..at + width.bytes()].copy_from_slice(bytes);
            Ok(())
        }
    }

    #[test]
    fn it_is_waited_for_what_is_under_way() {
        for (command, left) in [(0x406, 0x402), (0x402, 0x402), (0x7, 0x3)] {
            let space = Space::new(command, 4);
            quiet("0000:03:00.0", &space).unwrap();
            let looks = space.0.lock().unwrap().1;
            assert_eq!((space.command(), looks), (left, 0));
        }
        // One that has left the bus.
        quiet("0000:03:00.0", &Space::new(0xffff, 4)).unwrap();
    }

    #[test]
    fn who_never_comes_to_rest_is_named() {
        let space = Space::new(0x6, u32::MAX);
        let error = quiet("0000:03:00.0", &space).unwrap_err();
        assert_eq!(error.fault, Fault::TimedOut(LIMIT));
        let error = error.to_string();
        assert!(error.starts_with("0000:03:00.0: stop its DMA"), "{error}");
        assert_eq!(space.command(), 0x2);
    }
}
