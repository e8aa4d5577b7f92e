//! [`Machine`]: the system services of a driver of device files: open the files, read sysfs, and get memory at
//! addresses that a device may share.
//!
//! Drivers of this kind (KFD, NVK, KGSL) give a GPU the addresses of the process: the host reserves
//! a range of its own address space, the GPU maps memory there, and the host may map the same
//! memory over the reservation. So addresses are the machine's to hand out.

use std::any::Any;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

use super::found::{self, PciFunction, UsbDevice};
use super::{DevFile, Fault, Pci, TransportError, UsbPipe};
use crate::lost::process_generation;
use crate::mem::view::View;
use crate::mem::window::Window;
use crate::sync::lock;

/// No limit for [`Machine::reserve`].
pub const ANYWHERE: u64 = u64::MAX;

/// A machine, as a process on it sees it.
pub trait Machine: Send + Sync {
    /// Opens a device file for reading and writing.
    ///
    /// # Errors
    /// [`super::Fault::Errno`], with the path.
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError>;

    /// The text of a file of sysfs or procfs.
    ///
    /// # Errors
    /// [`super::Fault::Errno`], with the path.
    fn read(&self, path: &str) -> Result<String, TransportError>;

    /// The names in a folder, in no order.
    ///
    /// # Errors
    /// [`super::Fault::Errno`], with the path.
    fn list(&self, path: &str) -> Result<Vec<String>, TransportError>;

    /// The PCI functions; none where there is no such bus.
    ///
    /// # Errors
    /// [`super::Fault::Errno`], with the path.
    fn pci_functions(&self) -> Result<Vec<PciFunction>, TransportError> {
        found::pci_functions(&|path| self.read(path), &|path| self.list(path))
    }

    /// The USB devices; none where there is no such bus.
    ///
    /// # Errors
    /// [`super::Fault::Errno`], with the path.
    fn usb_devices(&self) -> Result<Vec<UsbDevice>, TransportError> {
        found::usb_devices(&|path| self.read(path), &|path| self.list(path))
    }

    /// Opens a PCI function by its address.
    ///
    /// # Errors
    /// [`super::Fault::Errno`], [`super::Fault::Unsupported`].
    fn open_pci(&self, address: &str) -> Result<Arc<dyn Pci>, TransportError> {
        let why = "this machine cannot open PCI functions".into();
        Err(TransportError::new(
            address,
            "open",
            Fault::Unsupported(why),
        ))
    }

    /// Opens the first interface of a USB device by its port, in its first configuration and alternate setting,
    /// exclusively: no other program or kernel driver has it.
    ///
    /// # Errors
    /// [`super::Fault::Errno`], [`super::Fault::Unsupported`].
    fn open_usb(&self, port: &str) -> Result<Arc<dyn UsbPipe>, TransportError> {
        let why = "this machine cannot open USB devices".into();
        Err(TransportError::new(port, "open", Fault::Unsupported(why)))
    }

    /// Address space of at least `bytes` bytes, aligned to `align` (a power of two), all of it below
    /// `below` ([`ANYWHERE`] for no limit), in which nothing is mapped. [`DevFile::mmap`] maps into it.
    ///
    /// # Errors
    /// [`super::Fault::Errno`].
    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError>;

    /// Zeroed memory of the process, at least `bytes` bytes at a multiple of `align` (a power of
    /// two), which devices may be told to use in place.
    ///
    /// # Errors
    /// [`super::Fault::Errno`].
    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError>;

    /// The host's window to memory that one of its files or [`Machine::memory`] gave, called `name`. `at` is its address:
    /// for devices, or in its file.
    fn window(&self, name: &str, at: u64, view: View) -> Window {
        let _ = at;
        Window::mapped(name, view)
    }

    /// What drivers keep for as long as this process is on the machine.
    fn per_process(&self) -> &PerProcess;
}

/// A range of reserved addresses. It is returned with the last clone and the last view mapped in it.
#[derive(Clone)]
pub struct Reserved {
    base: u64,
    bytes: u64,
    _owner: Arc<dyn Any + Send + Sync>,
}

impl Reserved {
    /// Made by machines; `owner` gives the range back when dropped.
    pub fn new(base: u64, bytes: u64, owner: Arc<dyn Any + Send + Sync>) -> Reserved {
        Reserved {
            base,
            bytes,
            _owner: owner,
        }
    }

    /// The first address.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Length in bytes, whole pages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl fmt::Debug for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reserved({:#x}+{:#x})", self.base, self.bytes)
    }
}

/// One value of each type, made when first asked for.
///
/// Some state of a kernel driver belongs to the process and outlives every device that was opened:
/// an address space that is bound once, a page that is set once. A driver keeps it here, so that
/// opening again finds it. The value must not own the machine. A process that was forked has nothing yet.
#[derive(Default)]
pub struct PerProcess(Mutex<Values>);

/// The values of one process.
#[derive(Default)]
struct Values {
    generation: u32,
    all: Vec<Arc<dyn Any + Send + Sync>>,
}

impl PerProcess {
    /// Nothing yet.
    pub const fn new() -> PerProcess {
        PerProcess(Mutex::new(Values {
            generation: 0,
            all: Vec::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Values> {
        // Only whole entries are pushed, so a poisoned lock is still good.
        let mut kept = lock(&self.0);
        let generation = process_generation();
        if kept.generation != generation {
            kept.generation = generation;
            // What the parent keeps is not the child's to end.
            mem::forget(mem::take(&mut kept.all));
        }
        kept
    }

    /// The value of type `T`, made by `make` if there is none yet. One thread makes it; others
    /// wait.
    ///
    /// # Errors
    /// That of `make`; nothing is kept then.
    pub fn get_or_make<T: Any + Send + Sync, E>(
        &self,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let mut kept = self.lock();
        let found = kept
            .all
            .iter()
            .find_map(|one| one.clone().downcast::<T>().ok());
        if let Some(found) = found {
            return Ok(found);
        }
        let made = Arc::new(make()?);
        kept.all.push(made.clone());
        Ok(made)
    }
}

impl fmt::Debug for PerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PerProcess({} values)", self.lock().all.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_of_each_type_is_kept() {
        let kept = PerProcess::default();
        assert_eq!(kept.get_or_make(|| Err::<u32, _>("no")), Err("no"));
        let first = kept.get_or_make(|| Ok::<_, ()>(7u32)).unwrap();
        let again = kept.get_or_make(|| Ok::<_, ()>(8u32)).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(*kept.get_or_make(|| Ok::<_, ()>(9u64)).unwrap(), 9);
        assert_eq!(format!("{kept:?}"), "PerProcess(2 values)");
    }

    #[test]
    fn a_reservation_lives_as_long_as_its_clones() {
        let owner = Arc::new(());
        let reserved = Reserved::new(0x7000_0000, 0x2000, owner.clone());
        let clone = reserved.clone();
        drop(reserved);
        assert_eq!((clone.base(), clone.bytes()), (0x7000_0000, 0x2000));
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(clone);
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}
