//! [`Window`]: a bounded range of device registers or memory, mapped or reached by transfers.
//!
//! A PCI BAR of a local card is mapped: an access is one instruction. Behind a USB bridge, under
//! a tracer, or on a model of the hardware, each access is a call. Drivers see one type and one
//! branch; nothing above is generic over how a register is reached.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::mem::view::{View, ViewError, Word};
use crate::transport::error::{Fault, TransportError};

/// Width of one access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Width {
    /// 8 bits.
    W8,
    /// 16 bits.
    W16,
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
}

impl Width {
    /// The width in bytes: 1, 2, 4 or 8.
    pub const fn bytes(self) -> usize {
        match self {
            Width::W8 => 1,
            Width::W16 => 2,
            Width::W32 => 4,
            Width::W64 => 8,
        }
    }

    /// The width of `bytes` bytes, if there is one.
    pub const fn from_bytes(bytes: usize) -> Option<Width> {
        match bytes {
            1 => Some(Width::W8),
            2 => Some(Width::W16),
            4 => Some(Width::W32),
            8 => Some(Width::W64),
            _ => None,
        }
    }

    /// All bits of the width set: what a read from a device that left the bus answers.
    pub const fn ones(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes() as u32)
    }
}

/// Registers or memory reached by calls. Offsets are in bytes.
///
/// [`Window`] checks bounds and alignment before it calls; an implementation may rely on both.
pub trait RemoteWindow: Send + Sync {
    /// Length in bytes.
    fn len(&self) -> u64;
    /// Whether the window has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Reads one naturally aligned element, zero-extended.
    ///
    /// # Errors
    /// What the transport reports.
    fn read(&self, offset: u64, width: Width) -> Result<u64, TransportError>;
    /// Writes the low bits of `value` as one naturally aligned element.
    ///
    /// # Errors
    /// What the transport reports.
    fn write(&self, offset: u64, width: Width, value: u64) -> Result<(), TransportError>;
    /// Reads bytes in whatever way is fastest; no promise about the widths of the accesses.
    ///
    /// # Errors
    /// What the transport reports.
    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError>;
    /// Writes bytes in whatever way is fastest.
    ///
    /// # Errors
    /// What the transport reports.
    fn write_bytes(&self, offset: u64, from: &[u8]) -> Result<(), TransportError>;
    /// See [`Window::flush`].
    ///
    /// # Errors
    /// What the transport reports.
    fn flush(&self) -> Result<(), TransportError>;
}

#[derive(Clone)]
enum Arm {
    Mapped(View),
    Remote(Arc<dyn RemoteWindow>),
}

/// A bounded range of device registers or memory. Offsets are in bytes.
#[derive(Clone)]
pub struct Window {
    name: Arc<str>,
    arm: Arm,
    readback: Option<usize>,
}

impl Window {
    /// A window that is mapped into this process. `name` is for errors, e.g. `0000:03:00.0 BAR5`.
    pub fn mapped(name: &str, view: View) -> Window {
        Window {
            name: name.into(),
            arm: Arm::Mapped(view),
            readback: None,
        }
    }

    /// A window reached by calls.
    pub fn remote(name: &str, remote: Arc<dyn RemoteWindow>) -> Window {
        Window {
            name: name.into(),
            arm: Arm::Remote(remote),
            readback: None,
        }
    }

    /// Names the 32-bit register that [`Window::flush`] of a mapped window reads. It must have no
    /// side effect on reads.
    #[must_use]
    pub fn with_readback(mut self, offset: usize) -> Window {
        self.readback = Some(offset);
        self
    }

    /// Name for errors and traces.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match &self.arm {
            Arm::Mapped(view) => view.len() as u64,
            Arm::Remote(remote) => remote.len(),
        }
    }

    /// Whether the window has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The mapping, if there is one: for memory that is also handed out as a [`View`].
    pub fn view(&self) -> Option<&View> {
        match &self.arm {
            Arm::Mapped(view) => Some(view),
            Arm::Remote(_) => None,
        }
    }

    /// Reads one naturally aligned element.
    ///
    /// # Errors
    /// Out of bounds, misaligned, or what the transport reports.
    #[inline]
    pub fn read<W: Word>(&self, offset: u64) -> Result<W, TransportError> {
        match &self.arm {
            Arm::Mapped(view) => view
                .read(at(offset))
                .map_err(|e| self.refused("read", W::BYTES, offset, e)),
            Arm::Remote(remote) => {
                let width = self.element::<W>(remote.len(), "read", offset)?;
                Ok(W::from_u64(remote.read(offset, width)?))
            }
        }
    }

    /// Writes one naturally aligned element. On a mapped window the write is posted: it has left
    /// for the device in order, but see [`Window::flush`].
    ///
    /// # Errors
    /// Out of bounds, misaligned, or what the transport reports.
    #[inline]
    pub fn write<W: Word>(&self, offset: u64, value: W) -> Result<(), TransportError> {
        match &self.arm {
            Arm::Mapped(view) => view
                .write(at(offset), value)
                .map_err(|e| self.refused("write", W::BYTES, offset, e)),
            Arm::Remote(remote) => {
                let width = self.element::<W>(remote.len(), "write", offset)?;
                remote.write(offset, width, value.to_u64())
            }
        }
    }

    /// Reads bytes at any alignment: for memory, not for registers (widths are unspecified).
    ///
    /// # Errors
    /// Out of bounds, or what the transport reports.
    pub fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        match &self.arm {
            Arm::Mapped(view) => {
                let bytes = to.len();
                view.copy_to_slice(at(offset), to)
                    .map_err(|e| self.refused("read", bytes, offset, e))
            }
            Arm::Remote(remote) => {
                self.inside(remote.len(), "read", offset, to.len())?;
                remote.read_bytes(offset, to)
            }
        }
    }

    /// Writes bytes at any alignment: for memory, not for registers.
    ///
    /// # Errors
    /// Out of bounds, or what the transport reports.
    pub fn write_bytes(&self, offset: u64, from: &[u8]) -> Result<(), TransportError> {
        match &self.arm {
            Arm::Mapped(view) => view
                .copy_from_slice(at(offset), from)
                .map_err(|e| self.refused("write", from.len(), offset, e)),
            Arm::Remote(remote) => {
                self.inside(remote.len(), "write", offset, from.len())?;
                remote.write_bytes(offset, from)
            }
        }
    }

    /// Makes the earlier writes of this thread through this window reach the device.
    ///
    /// * Mapped, with a read-back register: store and write-combining buffers are drained, then
    ///   the register is read; PCI lets no read overtake a posted write, so on return every
    ///   write has arrived.
    /// * Mapped, without one: the buffers are drained. The writes are on their way, in order,
    ///   before anything written later; they may not have arrived yet.
    /// * Remote: the transport has delivered every write, including those that it batched.
    ///
    /// # Errors
    /// What the transport reports.
    pub fn flush(&self) -> Result<(), TransportError> {
        match &self.arm {
            Arm::Mapped(_) => {
                fence(Ordering::SeqCst);
                if let Some(offset) = self.readback {
                    self.read::<u32>(offset as u64)?;
                }
                Ok(())
            }
            Arm::Remote(remote) => remote.flush(),
        }
    }

    #[cold]
    fn refused(&self, verb: &str, bytes: usize, offset: u64, error: ViewError) -> TransportError {
        let operation = format!("{verb} {bytes:#x} bytes at {offset:#x}");
        TransportError::new(&*self.name, operation, Fault::View(error))
    }

    fn inside(&self, len: u64, verb: &str, offset: u64, n: usize) -> Result<(), TransportError> {
        match offset.checked_add(n as u64) {
            Some(end) if end <= len => Ok(()),
            _ => {
                let (at, bytes, len) = (at(offset), n, at(len));
                let error = ViewError::OutOfBounds {
                    offset: at,
                    bytes,
                    len,
                };
                Err(self.refused(verb, n, offset, error))
            }
        }
    }

    fn element<W: Word>(&self, len: u64, verb: &str, offset: u64) -> Result<Width, TransportError> {
        self.inside(len, verb, offset, W::BYTES)?;
        if !offset.is_multiple_of(W::BYTES as u64) {
            let (start, len, align) = (at(offset), at(len), W::BYTES);
            let error = ViewError::Misaligned {
                offset: start,
                len,
                align,
                low: start & 0xfff,
            };
            return Err(self.refused(verb, W::BYTES, offset, error));
        }
        Ok(match W::BYTES {
            1 => Width::W8,
            2 => Width::W16,
            4 => Width::W32,
            _ => Width::W64,
        })
    }
}

/// The offset in the address width of this machine; one that does not fit is out of any bounds.
fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arm = match self.arm {
            Arm::Mapped(_) => "mapped",
            Arm::Remote(_) => "remote",
        };
        write!(f, "Window({}, {arm}, {:#x} bytes)", self.name, self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Forwards to memory and notes what it was asked.
    struct Model(View, Mutex<Vec<String>>);

    impl Model {
        fn note(&self, text: String) {
            self.1.lock().unwrap().push(text);
        }
    }

    impl RemoteWindow for Model {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }
        fn read(&self, offset: u64, width: Width) -> Result<u64, TransportError> {
            self.note(format!("r{}@{offset}", width.bytes()));
            Ok(self.0.read::<u8>(at(offset)).unwrap().into())
        }
        fn write(&self, offset: u64, width: Width, value: u64) -> Result<(), TransportError> {
            self.note(format!("w{}@{offset}={value:#x}", width.bytes()));
            Ok(())
        }
        fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
            self.0.copy_to_slice(at(offset), to).unwrap();
            Ok(())
        }
        fn write_bytes(&self, offset: u64, from: &[u8]) -> Result<(), TransportError> {
            self.0.copy_from_slice(at(offset), from).unwrap();
            Ok(())
        }
        fn flush(&self) -> Result<(), TransportError> {
            self.note("flush".into());
            Ok(())
        }
    }

    fn both() -> (Window, Window, Arc<Model>) {
        let mapped = Window::mapped("bar", View::alloc(32, 8).unwrap());
        let model = Arc::new(Model(View::alloc(32, 8).unwrap(), Mutex::default()));
        (mapped, Window::remote("usb", model.clone()), model)
    }

    #[test]
    fn both_arms_check_alike() {
        let (mapped, remote, _) = both();
        for w in [mapped, remote] {
            assert!(matches!(
                w.read::<u32>(30).unwrap_err().fault,
                Fault::View(ViewError::OutOfBounds {
                    offset: 30,
                    bytes: 4,
                    len: 32
                })
            ));
            assert!(matches!(
                w.write(2, 0u64).unwrap_err().fault,
                Fault::View(ViewError::Misaligned {
                    offset: 2,
                    align: 8,
                    ..
                })
            ));
            assert!(w.read_bytes(u64::MAX, &mut [0]).is_err());
            assert!(w.write_bytes(31, &[0, 0]).is_err());
            w.write_bytes(3, b"doorbell").unwrap();
            let mut back = [0; 8];
            w.read_bytes(3, &mut back).unwrap();
            assert_eq!(&back, b"doorbell");
            assert_eq!(w.len(), 32);
        }
    }

    #[test]
    fn remote_accesses_keep_their_width() {
        let (_, remote, model) = both();
        remote.write(8, 0xabcdu16).unwrap();
        remote.write(8, u64::MAX).unwrap();
        remote.read::<u8>(3).unwrap();
        remote.flush().unwrap();
        let seen = model.1.lock().unwrap().clone();
        assert_eq!(
            seen,
            ["w2@8=0xabcd", "w8@8=0xffffffffffffffff", "r1@3", "flush"]
        );
        assert!(remote.view().is_none());
    }

    #[test]
    fn flush_of_a_mapped_window_reads_back() {
        let (mapped, _, _) = both();
        assert!(mapped.flush().is_ok());
        assert!(mapped.clone().with_readback(28).flush().is_ok());
        let error = mapped.with_readback(32).flush().unwrap_err();
        assert_eq!(
            error.to_string(),
            "bar: read 0x4 bytes at 0x20: 0x4 bytes at offset 0x20 do not lie inside a view of 0x20 bytes"
        );
    }

    #[test]
    fn widths() {
        assert_eq!(Width::W8.ones(), 0xff);
        assert_eq!(Width::W64.ones(), u64::MAX);
        for w in [Width::W8, Width::W16, Width::W32, Width::W64] {
            assert_eq!(Width::from_bytes(w.bytes()), Some(w));
        }
        assert_eq!(Width::from_bytes(3), None);
    }
}
