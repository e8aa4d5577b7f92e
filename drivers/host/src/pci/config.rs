//! [`ConfigFile`]: the configuration space of a function, as the file that sysfs has of it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use hcq::mem::window::AccessWidth;
use hcq::transport::TransportError;

use super::files::{System, folder};
use super::quiet::{Config, access};
use crate::devfile::refused;

/// Bytes of the extended configuration space, where a file does not say how long it is.
const CONFIG: u64 = 4096;

/// The file of its configuration space.
pub(super) struct ConfigFile {
    address: String,
    file: File,
}

impl ConfigFile {
    pub(super) fn open(system: &System, address: &str) -> Result<ConfigFile, TransportError> {
        let path = format!("{}/config", folder(address));
        let mut options = OpenOptions::new();
        // Configuration writes are done when the call returns.
        options.read(true).write(true).custom_flags(libc::O_SYNC);
        let file = options.open(system.path(&path));
        let file = file.map_err(|error| refused(&path, "open", &error))?;
        Ok(ConfigFile {
            address: address.into(),
            file,
        })
    }

    fn path(&self) -> String {
        format!("{}/config", folder(&self.address))
    }

    /// What an access is called, if there is one there.
    fn access(
        &self,
        verb: &str,
        offset: u16,
        width: AccessWidth,
    ) -> Result<String, TransportError> {
        let len = self.file.metadata().map_or(0, |metadata| metadata.len());
        let len = if len == 0 { CONFIG } else { len } as usize;
        access((&self.address, len), verb, offset, width)
    }
}

impl Config for ConfigFile {
    fn read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        let operation = self.access("read", offset, width)?;
        let mut word = [0; 4];
        let to = &mut word[..width.bytes()];
        let read = self.file.read_exact_at(to, offset.into());
        read.map_err(|error| refused(&self.path(), &operation, &error))?;
        Ok(u32::from_le_bytes(word))
    }

    fn write(&self, offset: u16, width: AccessWidth, value: u32) -> Result<(), TransportError> {
        let operation = self.access("write", offset, width)?;
        let word = value.to_le_bytes();
        let from = &word[..width.bytes()];
        let written = self.file.write_all_at(from, offset.into());
        written.map_err(|error| refused(&self.path(), &operation, &error))
    }
}
