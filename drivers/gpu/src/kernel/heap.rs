//! [`Heap`]: the kind of memory for a request, and [`Addresses`]: its addresses.

use hcq::MemoryKind;
use hcq::mem::view::View;
use hcq::transport::{Machine, Reserved, TransportError};

use crate::backend::{Facts, Request};

/// Which memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Heap {
    /// Memory of the GPU, which the host maps through a large BAR.
    VisibleVram,
    /// Memory of the GPU, which the host does not map.
    Vram,
    /// Memory of the host that the driver gives, which the host maps.
    System,
    /// Memory of the process, where it is.
    User,
}

impl Heap {
    /// Whether the memory is the GPU's own.
    pub fn is_vram(self) -> bool {
        matches!(self, Heap::VisibleVram | Heap::Vram)
    }
}

/// A request for memory of a heap.
#[derive(Clone, Copy, Debug)]
pub struct HeapRequest<'a> {
    /// How much.
    pub bytes: u64,
    /// A power of two.
    pub align: u64,
    /// Which.
    pub heap: Heap,
    /// What it is, for messages; empty if its parts are named one by one.
    pub what: &'a str,
}

impl<'a> HeapRequest<'a> {
    /// What a request wants of a GPU. `user`: buffers of the host are memory of the process.
    pub fn of(request: &Request<'a>, facts: &Facts, user: bool) -> HeapRequest<'a> {
        HeapRequest {
            bytes: request.bytes,
            align: request.align,
            heap: match request.kind {
                MemoryKind::Device if facts.vram_windows => Heap::VisibleVram,
                MemoryKind::Device => Heap::Vram,
                MemoryKind::Host if user => Heap::User,
                MemoryKind::Host | MemoryKind::Control => Heap::System,
            },
            what: request.what,
        }
    }
}

/// Reserved addresses for memory.
pub struct Addresses {
    /// The first.
    pub va: u64,
    /// They are reserved; none for memory of the process, which brings its own.
    pub reserved: Option<Reserved>,
    /// That memory.
    pub own: Option<View>,
}

impl Addresses {
    /// Addresses for memory of a heap, at a multiple of `align`; those of the driver's memory are below `below`.
    ///
    /// # Errors
    /// The host's.
    pub fn new(
        machine: &dyn Machine,
        heap: Heap,
        (bytes, align): (u64, u64),
        below: u64,
    ) -> Result<Addresses, TransportError> {
        Ok(match heap {
            Heap::User => {
                let own = machine.memory(bytes, align)?;
                Addresses {
                    va: own.as_ptr().addr() as u64,
                    reserved: None,
                    own: Some(own),
                }
            }
            Heap::VisibleVram | Heap::Vram | Heap::System => {
                let reserved = machine.reserve(bytes, align, below)?;
                Addresses {
                    va: reserved.base(),
                    reserved: Some(reserved),
                    own: None,
                }
            }
        })
    }
}
