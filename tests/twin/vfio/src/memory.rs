//! The guest's memory as the card reaches it: what the machine, or its IOMMU, has mapped at which bus address.
//!
//! A machine without IOMMU maps all of its memory once; with one, pages come and go one by one, and all of them are of one
//! file. Each file is mapped here once.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use twin::host::{Identity, Mapping, PAGE, Part, identity};
use twin::pci::HostMemory;

/// What the machine has of files.
pub struct Memory {
    bus: Arc<HostMemory>,
    files: BTreeMap<Identity, Arc<Mapping>>,
}

impl Memory {
    /// Nothing yet, for a card on that bus.
    pub fn new(bus: &Arc<HostMemory>) -> Memory {
        Memory {
            bus: bus.clone(),
            files: BTreeMap::new(),
        }
    }

    /// Bus addresses lead to a part of a file from now on.
    ///
    /// # Errors
    /// Not whole pages, or not of the file.
    pub fn map(&mut self, at: u64, bytes: u64, file: &File, offset: u64) -> io::Result<()> {
        let memory = self.file(file)?;
        let end = offset.checked_add(bytes);
        let inside = end.is_some_and(|end| end <= memory.bytes());
        let whole = (at | bytes | offset).is_multiple_of(PAGE) && bytes > 0;
        if !inside || !whole {
            let file = memory.bytes();
            let why = format!(
                "{bytes:#x} bytes at {at:#x} from {offset:#x} on of a file of {file:#x}: expected whole pages inside of it"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        self.bus.add(at, bytes, memory, offset / PAGE);
        Ok(())
    }

    /// They lead nowhere any more.
    pub fn unmap(&mut self, at: u64, bytes: u64) {
        self.bus.remove(at, bytes);
    }

    fn file(&mut self, file: &File) -> io::Result<Arc<Mapping>> {
        let id = identity(file);
        if let Some(known) = id.and_then(|id| self.files.get(&id)) {
            return Ok(known.clone());
        }
        let bytes = file.metadata()?.len();
        let part = Part { offset: 0, bytes };
        let mapping = Mapping::of_parts(file.as_fd(), &[part]);
        let mapping = Arc::new(mapping.map_err(io::Error::from_raw_os_error)?);
        if let Some(id) = id {
            self.files.insert(id, mapping.clone());
        }
        Ok(mapping)
    }
}
