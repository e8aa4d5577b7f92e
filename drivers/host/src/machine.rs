//! [`Host`]: this machine, as drivers of device files ask for it.

use std::io;
use std::sync::{Arc, LazyLock};

use hcq::mem::view::View;
use hcq::transport::{DevFile, Fault, Kept, Machine, Reserved, TransportError};

use crate::devfile::HostFile;
use crate::reserve::{memory, reserve};

/// This machine. One value for the process, because kernel drivers keep their state by process.
pub struct Host {
    kept: Kept,
}

impl Host {
    /// The machine.
    pub fn get() -> Arc<dyn Machine> {
        static HOST: LazyLock<Arc<Host>> = LazyLock::new(|| {
            crate::fork::watch();
            let kept = Kept::default();
            Arc::new(Host { kept })
        });
        HOST.clone()
    }
}

impl Machine for Host {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        match HostFile::open(path) {
            Ok(file) => Ok(Arc::new(file)),
            Err(error) => Err(refused(path, "open", &error)),
        }
    }

    fn read(&self, path: &str) -> Result<String, TransportError> {
        std::fs::read_to_string(path).map_err(|e| refused(path, "read", &e))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        let failed = |e: io::Error| refused(path, "list", &e);
        std::fs::read_dir(path)
            .map_err(failed)?
            .map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into()))
            .collect()
    }

    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        reserve(bytes, align, below)
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        memory(bytes, align)
    }

    fn kept(&self) -> &Kept {
        &self.kept
    }
}

fn refused(path: &str, operation: &str, error: &io::Error) -> TransportError {
    let fault = match error.raw_os_error() {
        Some(errno) => Fault::Errno(errno),
        // Such as a path with a zero in it, or text that is not UTF-8.
        None => Fault::Unsupported(error.to_string()),
    };
    TransportError::new(path, operation, fault)
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
        let error = host.open_pci("0000:00:00.0").err().unwrap();
        assert!(
            error.to_string().contains("opens no PCI functions"),
            "{error}"
        );
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
