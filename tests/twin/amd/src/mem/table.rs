//! Page tables: which address is which page of which object, with which rights.

use std::collections::BTreeMap;
use std::sync::Arc;

use twin_shader::page::{Access, FaultKind, PAGE};

use super::frame::Frame;
use super::object::Object;

/// What a mapping allows besides reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    /// Writing.
    pub write: bool,
    /// Fetching instructions.
    pub execute: bool,
}

impl Rights {
    /// Whether they allow an access.
    ///
    /// # Errors
    /// The fault that it is.
    pub fn allow(self, access: Access) -> Result<(), FaultKind> {
        match access {
            Access::Write if !self.write => Err(FaultKind::ReadOnly),
            Access::Execute if !self.execute => Err(FaultKind::NoExecute),
            _ => Ok(()),
        }
    }
}

/// The memory type of a mapping, as page table entries carry it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mtype {
    /// Uncached: bypasses GL2.
    Uc,
    /// Not coherent: cached in GL2, until software writes back and invalidates.
    Nc,
    /// Read and write: cached in GL2, for memory that only this GPU accesses.
    Rw,
    /// Coherent by probes; only CDNA has it, and it acts as uncached here.
    Cc,
}

impl Mtype {
    /// Whether GL2 keeps it.
    pub fn cached(self) -> bool {
        matches!(self, Self::Nc | Self::Rw)
    }
}

/// A range of addresses that are consecutive pages of one object.
#[derive(Clone)]
pub(crate) struct Range {
    end: u64,
    pub(crate) object: Arc<Object>,
    /// The first page of the object.
    page: u64,
    rights: Rights,
    pub(crate) mtype: Mtype,
}

/// What a page of addresses is.
pub struct Entry {
    /// The object.
    pub(crate) object: Arc<Object>,
    /// Its page.
    pub(crate) page: u64,
    /// How caches take it.
    pub(crate) mtype: Mtype,
}

impl Entry {
    /// Its bytes, where they are still there.
    pub(crate) fn frame(&self) -> Result<Frame<'_>, FaultKind> {
        let frame = self.object.frame(self.page);
        frame.ok_or(FaultKind::NotPresent)
    }
}

/// Page tables that a driver writes itself, as the hardware between an engine and memory walks them.
pub trait Walk: Send + Sync {
    /// What an address is.
    ///
    /// # Errors
    /// Nothing is mapped there, or not with that right.
    fn find(&self, va: u64, access: Access) -> Result<Entry, FaultKind>;

    /// The way of one XCC, where that is another.
    fn on(&self, _xcc: u32) -> Option<Arc<dyn Walk>> {
        None
    }
}

/// The page tables of a process on a GPU. Ranges by the number of their first page.
#[derive(Default)]
pub(crate) struct Table(BTreeMap<u64, Range>);

impl Table {
    pub(crate) fn map(
        &mut self,
        va: u64,
        object: &Arc<Object>,
        offset: u64,
        bytes: u64,
        rights: Rights,
        mtype: Mtype,
    ) -> Result<(), i32> {
        let inside = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= object.bytes);
        let (Some(last), true) = (va.checked_add(bytes), inside && bytes > 0) else {
            return Err(libc::EINVAL);
        };
        if !(va | offset | bytes).is_multiple_of(PAGE) {
            return Err(libc::EINVAL);
        }
        let (start, end) = (va / PAGE, last / PAGE);
        if let Some((_, before)) = self.0.range(..end).next_back()
            && before.end > start
        {
            return Err(libc::EINVAL);
        }
        let range = Range {
            end,
            object: object.clone(),
            page: offset / PAGE,
            rights,
            mtype,
        };
        self.0.insert(start, range);
        Ok(())
    }

    /// Takes out the range that was mapped at `va` with this size.
    pub(crate) fn unmap(&mut self, va: u64, bytes: u64) -> Result<Arc<Object>, i32> {
        let start = va / PAGE;
        match self.0.get(&start) {
            Some(range) if va.is_multiple_of(PAGE) && (range.end - start) * PAGE == bytes => {}
            _ => return Err(libc::EINVAL),
        }
        self.0
            .remove(&start)
            .map(|range| range.object)
            .ok_or(libc::EINVAL)
    }

    pub(crate) fn find(&self, va: u64, access: Access) -> Result<Entry, FaultKind> {
        let page = va / PAGE;
        let (start, range) = self
            .0
            .range(..=page)
            .next_back()
            .filter(|(_, range)| page < range.end)
            .ok_or(FaultKind::NotPresent)?;
        range.rights.allow(access)?;
        Ok(Entry {
            object: range.object.clone(),
            page: range.page + page - start,
            mtype: range.mtype,
        })
    }

    /// Every range: address, bytes, object.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u64, u64, &Arc<Object>)> {
        self.0
            .iter()
            .map(|(start, range)| (start * PAGE, (range.end - start) * PAGE, &range.object))
    }
}
