//! [`Through`]: a machine whose one card is reached in another way than directly.

use std::sync::Arc;

use hcq::mem::view::View;
use hcq::transport::{DevFile, Kept, Machine, Pci, Reserved, TransportError};
use twin_amd::pci::machine::PciMachine;

/// A process on a machine, and its way to the card.
pub struct Through {
    near: Arc<PciMachine>,
    card: Arc<dyn Pci>,
}

impl Through {
    pub fn new(near: &Arc<PciMachine>, card: Arc<dyn Pci>) -> Arc<Through> {
        let near = near.clone();
        Arc::new(Through { near, card })
    }
}

impl Machine for Through {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        self.near.open(path)
    }

    fn read(&self, path: &str) -> Result<String, TransportError> {
        self.near.read(path)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        self.near.list(path)
    }

    fn open_pci(&self, _: &str) -> Result<Arc<dyn Pci>, TransportError> {
        Ok(self.card.clone())
    }

    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        self.near.reserve(bytes, align, below)
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        self.near.memory(bytes, align)
    }

    fn kept(&self) -> &Kept {
        self.near.kept()
    }
}
