//! [`Through`]: a machine whose cards are reached in another way than directly.

use std::sync::Arc;

use hcq::mem::view::View;
use hcq::transport::{DevFile, Machine, Pci, PerProcess, Reserved, TransportError};
use twin_amd::pci::machine::PciMachine;

/// A process on a machine, and its way to each card.
pub struct Through {
    near: Arc<PciMachine>,
    open: Box<Open>,
}

type Open = dyn Fn(&str) -> Result<Arc<dyn Pci>, TransportError> + Send + Sync;

impl Through {
    pub fn new(near: &Arc<PciMachine>, card: Arc<dyn Pci>) -> Arc<Through> {
        Through::by(near, Box::new(move |_| Ok(card.clone())))
    }

    /// The same of several cards, each by its address.
    pub fn by(near: &Arc<PciMachine>, open: Box<Open>) -> Arc<Through> {
        let near = near.clone();
        Arc::new(Through { near, open })
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

    fn open_pci(&self, address: &str) -> Result<Arc<dyn Pci>, TransportError> {
        (self.open)(address)
    }

    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        self.near.reserve(bytes, align, below)
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        self.near.memory(bytes, align)
    }

    fn per_process(&self) -> &PerProcess {
        self.near.per_process()
    }
}
