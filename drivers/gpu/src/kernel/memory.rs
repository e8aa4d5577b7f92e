//! [`KernelMemory`]: memory of a kernel driver, and its conversion to backend memory.

use std::sync::Arc;

use hcq::GpuVa;
use hcq::mem::view::View;
use hcq::mem::window::Window;
use hcq::transport::{Fault, Machine, TransportError};

use super::heap::Heap;
use crate::backend::Memory;
use crate::backend::shared::{Shareable, Shared};

/// Memory that a kernel driver has made for GPUs of this process.
pub trait KernelMemory<G>: Shareable<G> + Send + Sync + 'static {
    /// Which memory it is.
    fn heap(&self) -> Heap;

    /// The host's mapping; none for memory that the host does not see.
    fn view(&self) -> Option<&View>;

    /// The host's window to memory that has a mapping.
    ///
    /// # Errors
    /// It has none.
    fn window(&self, machine: &dyn Machine, name: &str) -> Result<Window, TransportError> {
        let view = self.view().ok_or_else(|| {
            let why = "memory not mapped".to_string();
            TransportError::new(name, "map", Fault::Unsupported(why))
        })?;
        Ok(machine.window(name, self.va(), view.clone()))
    }
}

impl<G: Send + Sync + 'static, M: KernelMemory<G>> Shared<G, M> {
    /// Maps new memory on the GPUs of the process that can access it, and returns it. `what` is its name in
    /// messages.
    ///
    /// # Errors
    /// Those of [`Shared::add`].
    pub fn give(&self, machine: &dyn Machine, memory: M, what: &str) -> Result<Memory, M::Error> {
        let memory = Arc::new(memory);
        self.add(&memory)?;
        let name = match what {
            "" => "memory",
            what => what,
        };
        Ok(Memory {
            va: GpuVa(memory.va()),
            bytes: memory.bytes(),
            window: memory.window(machine, name).ok(),
            // A driver gives system memory as zeros. Memory of the GPU is cleared at best before another process is
            // given it, not for this one.
            zeroed: !memory.heap().is_vram(),
            owner: Box::new(memory),
        })
    }

    /// The host's window of an address, and the offset of the address in it.
    pub fn window_at(&self, machine: &dyn Machine, va: u64) -> Option<(Window, u64)> {
        let (memory, offset) = self.memory_at(va)?;
        Some((memory.window(machine, "memory").ok()?, offset))
    }
}
