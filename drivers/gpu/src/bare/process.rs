//! [`Process`]: the state shared by a driver's open cards in this process: addresses and shared memory. Stored with
//! the machine.

use std::sync::Arc;

use hcq::transport::Machine;
use hcq::{DeviceId, Error};

use super::addresses::Addresses;
use super::driver::Driver;
use super::memory::Memory;
use super::mmu::{Attr, Mmu};
use super::running::Running;
use crate::backend::Request;
use crate::backend::shared::Shared;

/// What cards share.
pub struct Process<D: Driver> {
    /// Their addresses.
    pub addresses: Arc<Addresses>,
    /// Cards that are open, and their memory.
    pub shared: Shared<Running<D>, Memory<D>>,
}

impl<D: Driver> Process<D> {
    /// That of a machine.
    ///
    /// # Errors
    /// [`Error::Os`]: cannot be, the addresses are as they should.
    pub fn on(machine: &dyn Machine, device: &DeviceId) -> Result<Arc<Process<D>>, Error> {
        machine.per_process().get_or_make(|| {
            let addresses = Addresses::new(device, <D::Mmu as Mmu>::ADDRESSES)?;
            Ok(Process {
                addresses: Arc::new(addresses),
                shared: Shared::default(),
            })
        })
    }

    /// Memory for a request, mapped on its card and on every other card of the process that can access it.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Os`], without effect; [`Error::Fault`].
    pub fn memory(
        &self,
        card: &Arc<Running<D>>,
        request: &Request<'_>,
        has_windows: bool,
    ) -> Result<Arc<Memory<D>>, Error> {
        let memory = Memory::new(&self.addresses, card, request, (has_windows, Attr::LOCAL))?;
        let memory = Arc::new(memory);
        self.shared.add(&memory)?;
        Ok(memory)
    }
}
