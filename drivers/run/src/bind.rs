//! Memory of the caller in the place of a model's own: frames of a camera, an input of another model.
//!
//! The commands of a run have the addresses of such an input or output as values that each run is given: those who have a ring of
//! buffers bind one after the other, and nothing is encoded again.

use std::sync::{Arc, Mutex};

use hcq::sync::lock;
use hcq::{Buffer, Device};

use crate::error::{Error, Result};

/// An input or an output, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Input(usize),
    Output(usize),
}

impl End {
    /// What it is, for errors.
    pub(crate) fn what(self) -> &'static str {
        match self {
            End::Input(_) => "input",
            End::Output(_) => "output",
        }
    }

    fn is_input(self) -> bool {
        matches!(self, End::Input(_))
    }
}

/// Memory of the caller by its slot; nothing where the model's own is used again. The commands keep it: the device may use it when
/// the model is gone.
pub(crate) type Held = Arc<Mutex<Vec<Option<Buffer>>>>;

/// What is bound.
#[derive(Default)]
pub(crate) struct Bindings {
    /// Which input or output each slot of the commands is for.
    pub ends: Vec<End>,
    /// The address for each slot.
    pub values: Vec<u64>,
    pub held: Held,
}

impl Bindings {
    /// The slot of an input or output that has been bound before.
    pub(crate) fn slot(&self, end: End) -> Option<usize> {
        self.ends.iter().position(|known| *known == end)
    }

    /// What is bound to it.
    pub(crate) fn memory(&self, end: End) -> Option<Buffer> {
        let slot = self.slot(end)?;
        lock(&self.held).get(slot)?.clone()
    }

    /// Sets what a slot has: the memory, or the model's own at an address.
    pub(crate) fn set(&mut self, slot: usize, memory: Option<Buffer>, own: u64) {
        let mut held = lock(&self.held);
        if let (Some(value), Some(place)) = (self.values.get_mut(slot), held.get_mut(slot)) {
            *value = memory.as_ref().map_or(own, |memory| memory.va().0);
            let old = std::mem::replace(place, memory);
            // It may be the last of it, and its end is a call of the driver.
            drop(held);
            drop(old);
        }
    }

    /// Before a run: the device finds what the host has written by pointers of its own.
    pub(crate) fn hand_over(&self) -> Result<()> {
        let held = lock(&self.held);
        for memory in held.iter().flatten() {
            memory.clean(0, memory.bytes())?;
        }
        Ok(())
    }

    /// Behind a run: the host finds what the device has written.
    pub(crate) fn take_back(&self) -> Result<()> {
        let held = lock(&self.held);
        for (end, memory) in self.ends.iter().zip(held.iter()) {
            if let (End::Output(_), Some(memory)) = (end, memory) {
                memory.invalidate(0, memory.bytes())?;
            }
        }
        Ok(())
    }
}

/// An input or output that memory is to take the place of.
pub(crate) struct Wanted<'a> {
    pub end: End,
    pub name: &'a str,
    /// The model's own memory of it.
    pub own: &'a Buffer,
    /// Whether runs write to an input: it is not only read then.
    pub is_overwritten: bool,
}

/// The part of the memory that is used.
///
/// # Errors
/// [`Error::Port`]: memory of another device, too small, at another address than kernels take, or that others of the model have and
/// a run writes.
pub(crate) fn part(
    wanted: &Wanted<'_>,
    device: &dyn Device,
    memory: &Buffer,
    others: impl IntoIterator<Item = (End, Buffer)>,
) -> Result<Buffer> {
    let refused = |expected: String, found: String| Error::Port {
        what: wanted.end.what(),
        name: wanted.name.into(),
        expected,
        found,
    };
    let (id, bytes) = (&device.info().id, wanted.own.bytes());
    if wanted.is_overwritten {
        return Err(refused(
            "an input that runs only read".into(),
            "one that they write as well: copy the value into it".into(),
        ));
    }
    if !device.reaches(memory) {
        return Err(refused(
            format!("memory of {id} as the model has opened it"),
            format!(
                "memory of {} from elsewhere: import it into the model's device",
                memory.device()
            ),
        ));
    }
    if memory.bytes() < bytes {
        return Err(refused(
            format!("{bytes} bytes or more"),
            format!("memory of {} bytes", memory.bytes()),
        ));
    }
    // Of the model's own, kernels take no more for granted.
    let align = hcq::AllocSpec::device(bytes).align;
    let va = memory.va().0;
    if !va.is_multiple_of(align) {
        return Err(refused(
            format!("memory at a multiple of {align} bytes"),
            format!("memory of {id} at {va:#x}"),
        ));
    }
    for (end, other) in others {
        let is_read = end.is_input() && wanted.end.is_input();
        let from = other.va().0;
        let overlap = va < from + other.bytes() && from < va + bytes;
        if !is_read && overlap && end != wanted.end {
            return Err(refused(
                format!("memory that no other {} of the model has", end.what()),
                format!(
                    "{va:#x} to {:#x}, of which one has {from:#x} to {:#x}",
                    va + bytes,
                    from + other.bytes()
                ),
            ));
        }
    }
    Ok(memory.slice(0, bytes)?)
}
