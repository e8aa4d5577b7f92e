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

    /// Before a run: the device finds what the host has written by pointers of its own, where the host has a mapping of the
    /// memory. An output is cleaned as well: lines with older bytes must not be written back over what the device writes.
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

impl Wanted<'_> {
    /// Bytes that are its alone: an output has whole lines of the host's caches. What the host wrote behind it in its last line
    /// during a run would be in the way of what the device has written.
    fn bytes(&self) -> u64 {
        let bytes = self.own.bytes();
        match self.end {
            End::Input(_) => bytes,
            End::Output(_) => bytes.next_multiple_of(LINE),
        }
    }
}

/// Bytes of a line of the host's caches, at most.
const LINE: u64 = 64;

/// Memory that a model has for another input or output, and its name.
pub(crate) type Other<'a> = (End, &'a str, Buffer);

/// The part of the memory that is used.
///
/// # Errors
/// [`Error::Port`]: memory of another device, too small, at another address than kernels take, or that others of the model have and
/// a run writes.
pub(crate) fn part<'o>(
    wanted: &Wanted<'_>,
    device: &dyn Device,
    memory: &Buffer,
    others: impl IntoIterator<Item = Other<'o>>,
) -> Result<Buffer> {
    let refused = |expected: String, found: String| Error::Port {
        what: wanted.end.what(),
        name: wanted.name.into(),
        expected,
        found,
    };
    let (id, bytes) = (&device.info().id, wanted.bytes());
    if wanted.is_overwritten {
        return Err(refused(
            "an input that runs only read".into(),
            "one that they write as well: copy the value into it".into(),
        ));
    }
    if !device.reaches(memory) {
        return Err(refused(
            format!("memory of the model's own handle of {id}"),
            match memory.device() {
                other if other == id => format!("memory of another handle of {id}"),
                other => format!("memory of {other}"),
            } + ": import it by the model's device",
        ));
    }
    if memory.bytes() < bytes {
        return Err(refused(
            format!(
                "{bytes} bytes or more{}",
                match wanted.own.bytes() == bytes {
                    true => "",
                    false => ", whole lines of 64",
                }
            ),
            format!(
                "memory of {} bytes: import at least {bytes} from the offset on",
                memory.bytes()
            ),
        ));
    }
    // Of the model's own, kernels take no more for granted.
    let align = hcq::AllocSpec::device(bytes).align.max(LINE);
    let va = memory.va().0;
    if !va.is_multiple_of(align) {
        return Err(refused(
            format!("memory at a multiple of {align} bytes"),
            format!("memory of {id} at {va:#x}: choose an offset that is"),
        ));
    }
    for (end, name, other) in others {
        let is_read = end.is_input() && wanted.end.is_input();
        let from = other.va().0;
        let overlap = va < from + other.bytes() && from < va + bytes;
        if !is_read && overlap && end != wanted.end {
            let what = end.what();
            let another = match wanted.end.what() == what {
                true => "other ",
                false => "",
            };
            return Err(refused(
                format!("memory that no {another}{what} of the model has"),
                format!(
                    "{va:#x} to {:#x}, of which {what} {name:?} has {from:#x} to {:#x}: bind other memory",
                    va + bytes,
                    from + other.bytes()
                ),
            ));
        }
    }
    Ok(memory.slice(0, wanted.own.bytes())?)
}
