//! [`Host`]: this machine, as drivers of device files ask for it.

use std::sync::{Arc, LazyLock};

use std::time::Duration;

use hcq::mem::view::View;
#[cfg(feature = "usb")]
use hcq::transport::UsbPipe;
use hcq::transport::{DevFile, Fault, Machine, Pci, PerProcess, Reserved, TransportError};

use crate::devfile::{HostFile, refused};
use crate::pci::{self, Files, System, vfio};
use crate::reserve::{memory, reserve};

/// This machine. One value for the process, because kernel drivers keep their state by process.
pub struct Host {
    kept: PerProcess,
    system: System,
    /// Functions that were opened elsewhere.
    lent: Vec<Arc<dyn Pci>>,
}

impl Host {
    /// The machine.
    pub fn get() -> Arc<dyn Machine> {
        static HOST: LazyLock<Arc<Host>> = LazyLock::new(|| {
            crate::fork::watch();
            Arc::new(Host::of(System::this(), Vec::new()))
        });
        HOST.clone()
    }

    /// A machine whose files are in a folder laid out like a root file system.
    pub fn at(system: System) -> Arc<dyn Machine> {
        Arc::new(Host::of(system, Vec::new()))
    }

    /// This machine, with some PCI functions already open: opening one of these by name returns it.
    pub fn lending(functions: Vec<Arc<dyn Pci>>) -> Arc<dyn Machine> {
        crate::fork::watch();
        Arc::new(Host::of(System::this(), functions))
    }

    fn of(system: System, lent: Vec<Arc<dyn Pci>>) -> Host {
        let kept = PerProcess::default();
        Host { kept, system, lent }
    }
}

impl Machine for Host {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        match HostFile::open(&self.system.path(path).to_string_lossy()) {
            Ok(file) => Ok(Arc::new(file)),
            Err(error) => Err(refused(path, "open", &error)),
        }
    }

    fn read(&self, path: &str) -> Result<String, TransportError> {
        self.system
            .read(path)
            .map_err(|e| refused(path, "read", &e))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        self.system
            .list(path)
            .map_err(|e| refused(path, "list", &e))
    }

    fn open_pci(&self, address: &str) -> Result<Arc<dyn Pci>, TransportError> {
        if let Some(lent) = self.lent.iter().find(|one| one.name() == address) {
            return Ok(lent.clone());
        }
        let functions = self.pci_functions()?;
        let found = functions.iter().find(|one| one.address == address);
        let Some(found) = found else {
            let why = "no such PCI function; list them with `lspci`".into();
            return Err(TransportError::new(
                address,
                "open",
                Fault::Unsupported(why),
            ));
        };
        if found.driver.as_deref() == Some(vfio::DRIVER) {
            // A process that was forked has none of its parent's.
            let domains = self.kept.get_or_make(|| {
                let kernel = vfio::calls::this(&self.system);
                Ok::<_, TransportError>(vfio::Domains::new(kernel))
            })?;
            return vfio::open(&self.system, &domains, address, Duration::ZERO);
        }
        let opened = pci::open(&self.system, address, &found.bars, Duration::ZERO)?;
        Ok(Arc::new(opened))
    }

    #[cfg(feature = "usb")]
    fn open_usb(&self, port: &str) -> Result<Arc<dyn UsbPipe>, TransportError> {
        let devices = self.usb_devices()?;
        match devices.iter().find(|device| device.port == port) {
            Some(device) => Ok(Arc::new(crate::usb::open(device)?)),
            None => Err(TransportError::new(port, "open", Fault::Gone)),
        }
    }

    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        reserve(bytes, align, below)
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        memory(bytes, align)
    }

    fn per_process(&self) -> &PerProcess {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buses_of_this_machine_can_be_listed() {
        let host = Host::get();
        for function in host.pci_functions().unwrap() {
            assert_eq!(function.address.len(), "0000:00:00.0".len());
        }
        host.usb_devices().unwrap();
        let error = host.open_pci("ffff:ff:1f.7").err().unwrap().to_string();
        assert!(error.contains("no such PCI function"), "{error}");
    }

    #[test]
    fn files_and_folders_are_read() {
        let host = Host::get();
        assert!(host.read("/proc/self/comm").unwrap().ends_with('\n'));
        assert!(host.list("/proc/self").unwrap().contains(&"comm".into()));
        let error = host.read("/sys/no/such").unwrap_err();
        assert_eq!(error.fault, Fault::Errno(libc::ENOENT));
        assert!(error.to_string().starts_with("/sys/no/such: read: errno 2"));
        let error = host.open("/dev/no-such").err().unwrap();
        assert_eq!(error.fault, Fault::Errno(libc::ENOENT));
    }
}
