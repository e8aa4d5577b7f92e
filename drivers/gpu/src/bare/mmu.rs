//! [`Mmu`] and [`Format`]: address translation of a card, as implemented by its driver.
//!
//! [`hcq::mem::pages`] implements the walk and the choice of page sizes. A driver defines the levels, the entry
//! format, and the TLB invalidation.

use std::fmt::Display;
use std::ops::RangeInclusive;

use hcq::GpuVa;
use hcq::addr::PhysAddr;
use hcq::mem::pages::PteFormat;
use hcq::transport::TransportError;

use super::function::Function;
// The smallest table is as large.
pub use crate::backend::PAGE;

/// From this size on memory starts at a multiple of it, for large pages.
pub(super) const LARGE: u64 = 2 << 20;

/// What a page may be used for, and how it is cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attr {
    /// Stores are no fault.
    pub write: bool,
    /// Instructions may be fetched.
    pub execute: bool,
    /// Accesses look into the caches of the processor, or of the GPU that has the memory.
    pub snooped: bool,
    /// Kept by no cache of the GPU.
    pub uncached: bool,
    /// Programs have no access: engines have it for themselves. Of formats that know of it.
    pub privileged: bool,
}

impl Attr {
    /// Device memory: all accesses, cached.
    pub const LOCAL: Attr = Attr {
        write: true,
        execute: true,
        snooped: false,
        uncached: false,
        privileged: false,
    };

    /// Device memory shared with the host: uncached.
    pub const SHARED: Attr = Attr {
        uncached: true,
        ..Attr::LOCAL
    };

    /// Host memory, coherent with the GPU.
    pub const HOST: Attr = Attr {
        snooped: true,
        ..Attr::SHARED
    };
}

/// The contents of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Nothing is mapped there.
    None,
    /// There is a table of the next level.
    Table(PhysAddr),
    /// A page, and what may be done with it: read, written, executed.
    Page(PhysAddr, Vec<&'static str>),
}

/// The entries of page tables, both ways.
pub trait Format: PteFormat<Attr = Attr> + Send {
    /// The vendor's name of a level, the root's first.
    fn name(&self, level: usize) -> &'static str;

    /// Decodes an entry of a level.
    fn decode(&self, level: usize, entry: u128) -> Entry;
}

/// What turns addresses into places: all that a card has of it.
pub trait Mmu: Send + Sync + 'static {
    /// Its entries.
    type Format: Format;
    /// What was in the way.
    type Cause: Display;

    /// The address that the first entry of the root is for.
    const START: GpuVa;

    /// Addresses that memory may have; whole pages, none of them 0.
    const ADDRESSES: RangeInclusive<u64>;

    /// The card.
    fn function(&self) -> &Function;

    /// The entries of this chip.
    fn format(&self) -> Self::Format;

    /// Flushes the host's writes to VRAM, and invalidates cached page table entries.
    ///
    /// # Errors
    /// An invalidation that is not acknowledged: the hardware may still use old entries.
    fn invalidate(&self) -> Result<(), Self::Cause>;

    /// What the host has written to VRAM is there when it returns.
    ///
    /// # Errors
    /// The transport's.
    fn flush(&self) -> Result<(), TransportError>;

    /// Requests a flush, ordered after earlier and before later writes, without waiting for it.
    ///
    /// # Errors
    /// The transport's.
    fn post(&self) -> Result<(), TransportError>;
}
