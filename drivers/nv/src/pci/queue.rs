//! Channels for submission: the ring in host memory, all else in VRAM, a slot of the card.

use std::sync::Arc;

use drivers_gpu::backend::{Backend as _, Request};
use drivers_gpu::bare::{Driver as _, Handle, Memory, PAGE, Slot};
use drivers_spec::nv::pci_regs::NV_VIRTUAL_FUNCTION_DOORBELL;
use drivers_spec::nv::pci_rm::{
    NVA06C_CTRL_CMD_INTERNAL_PROMOTE_FAULT_METHOD_BUFFERS, PromoteEntry,
};
use drivers_spec::nv::push::userd;
use hcq::mem::window::Window;
use hcq::transport::{Fault, TransportError};
use hcq::{Error, MemoryKind, Result};

use super::areas::{Area, Place};
use super::channel::{self, Channel, Level};
use super::context::{self, Of, Placed};
use super::refused;
use super::running::{Nv, Running};
use crate::backend::channel::ENTRY_BYTES;
use crate::backend::{ChannelHandle, ChannelKind, ChannelRequest, HardwareChannel};
use crate::gsp::Cause;
use crate::rm::channel::{self as rm, Layout, Made};
use crate::rm::client::Object;
use crate::rm::transport::Result as Called;

/// Bytes of a doorbell.
const DOORBELL: u64 = 4;

/// Makes a channel.
///
/// # Errors
/// [`Error::OutOfMemory`], [`Error::Os`], [`Error::Fault`]; nothing is left behind then.
pub(super) fn create(handle: &Handle<Nv>, request: &ChannelRequest<'_>) -> Result<HardwareChannel> {
    let (nv, name) = (handle.card().driver(), request.name);
    let function = nv.function();
    let lost = |error: TransportError| function.broken(name, error);
    let failed = |cause: Cause| refused::of_cause(function, cause);
    let engine = engine_of(nv, request)?;
    let ring_bytes = u64::from(request.entries) * ENTRY_BYTES;
    let ring = memory(
        handle,
        (ring_bytes, PAGE),
        MemoryKind::Control,
        name,
        "ring",
    )?;
    let window = seen(&ring, function.pci().name()).and_then(|ring| ring.sub(0, ring_bytes));
    let window = window.map_err(lost)?;
    let mut owner = vec![ring.clone()];
    let contexts = match request.kind {
        ChannelKind::Compute => contexts(handle, name, &mut owner)?,
        ChannelKind::Copy(_) => Vec::new(),
    };
    // Its drop takes out what has come so far.
    let slot = Slot::take(handle.card(), request.kind, handle.number())?;
    // The first one is the driver's own.
    let place = nv.areas.channel(slot.number() + 1);
    nv.clear(place.all).map_err(failed)?;
    let doorbell = nv.card().mmio().sub(NV_VIRTUAL_FUNCTION_DOORBELL, DOORBELL);
    let doorbell = doorbell.map_err(lost)?;
    let pointers = function.vram().sub(place.userd.0, userd::BYTES);
    let pointers = pointers.map_err(lost)?;
    let token = nv.engines.token(engine, place.number);
    let token = token.ok_or_else(|| no_engine(nv, request))?;
    let mut classes = None;
    slot.enter(|| {
        let layout = Layout {
            kind: request.kind,
            engine,
            space: nv.space.handle(),
            ring: ring.va().0,
            entries: request.entries,
            memory: channel::memory(&place, nv.engines.methods, Level::User).map_err(failed)?,
        };
        let objects = rm::Channel::new(&nv.rm, &nv.facts, &layout, |made| {
            tell(nv, &place, &contexts, made)
        });
        let objects = objects.map_err(|error| refused::of_call(function, error))?;
        classes = Some(objects.classes());
        let channel = Arc::new(Channel {
            objects,
            name: name.into(),
            owner: handle.number(),
            number: place.number,
            sms: nv.facts.units.sms,
            space: handle.space().clone(),
            doorbell: doorbell.clone(),
            token,
        });
        nv.enter(slot.number(), &channel);
        let scheduled = channel.objects.schedule();
        scheduled.map_err(|error| refused::of_call(function, error))?;
        Ok(channel)
    })?;
    let classes = classes.ok_or_else(|| no_engine(nv, request))?;
    Ok(HardwareChannel {
        handle: Box::new(Open {
            slot,
            card: handle.card().clone(),
            number: place.number,
        }),
        kind: request.kind,
        classes,
        ring: window,
        userd: pointers,
        doorbell,
        token,
        owner: Box::new(owner),
    })
}

/// Tells RM of the memory of a channel, as far as there is something that has it.
fn tell(nv: &Nv, place: &Place, contexts: &[Placed], made: Made<'_>) -> Called {
    let promote = |channel: &Object, entry: fn(&Placed) -> Option<PromoteEntry>| {
        let entries: Vec<_> = contexts.iter().filter_map(entry).collect();
        match entries.is_empty() {
            true => Ok(()),
            false => context::promote(&nv.rm, channel, &entries),
        }
    };
    match made {
        Made::Group(group) => {
            let told = NVA06C_CTRL_CMD_INTERNAL_PROMOTE_FAULT_METHOD_BUFFERS;
            group.control(&told, &mut channel::methods(place, nv.engines.methods))
        }
        Made::Channel(channel) => promote(channel, Placed::memory),
        Made::Whole(channel) => promote(channel, Placed::address),
    }
}

/// Memory of a channel.
fn memory(
    handle: &Handle<Nv>,
    (bytes, align): (u64, u64),
    kind: MemoryKind,
    name: &str,
    what: &str,
) -> Result<Arc<Memory<Nv>>> {
    let what = format!("the {what} of {name}");
    let request = Request {
        bytes,
        align,
        kind,
        what: &what,
    };
    handle.allocate(&request, false)
}

/// The host's window to memory.
fn seen<'m>(memory: &'m Memory<Nv>, name: &str) -> std::result::Result<&'m Window, TransportError> {
    memory.window().ok_or_else(|| {
        let nowhere = Fault::Unsupported("the host does not see it".into());
        TransportError::new(name, "the memory of a ring", nowhere)
    })
}

/// The buffers of a context of graphics: those of the card, and its own.
fn contexts(
    handle: &Handle<Nv>,
    name: &str,
    owner: &mut Vec<Arc<Memory<Nv>>>,
) -> Result<Vec<Placed>> {
    let nv = handle.card().driver();
    let mut all = nv.shared().to_vec();
    let own = nv.buffers.iter().filter(|buffer| buffer.of == Of::Channel);
    for &buffer in own {
        let what = format!("the graphics context of {name}");
        let request = Request {
            bytes: buffer.bytes,
            align: buffer.align,
            kind: MemoryKind::Device,
            what: &what,
        };
        let memory = handle.private(&request, buffer.attr())?;
        let at = memory.vram().ok_or_else(|| Error::OutOfMemory {
            device: nv.function().device().clone(),
            asked: buffer.bytes,
            free: 0,
            total: nv.facts.vram,
            hint: " of VRAM for a context of graphics".into(),
        })?;
        if buffer.is_filled {
            let bytes = buffer.bytes;
            let cleared = nv.clear(Area { at, bytes });
            cleared.map_err(|cause| refused::of_cause(nv.function(), cause))?;
        }
        let va = memory.va();
        all.push(Placed { buffer, at, va });
        owner.push(memory);
    }
    Ok(all)
}

/// Which engine runs a channel.
fn engine_of(nv: &Nv, request: &ChannelRequest<'_>) -> Result<u32> {
    let engine = rm::engine_of(&nv.facts, request.kind);
    engine.ok_or_else(|| no_engine(nv, request))
}

fn no_engine(nv: &Nv, request: &ChannelRequest<'_>) -> Error {
    Error::Os {
        device: nv.function().device().clone(),
        call: format!("open channel {}", request.name),
        source_text: format!(
            "expected an engine for {:?}; the GPU has {} copy engines besides the graphics one, numbered from 0",
            request.kind,
            nv.facts.copy_engines.len()
        ),
        errno: None,
        hint: "Open fewer copy queues".into(),
    }
}

/// The owner's handle of a channel.
struct Open {
    slot: Slot<Nv>,
    card: Arc<Running>,
    number: u32,
}

impl ChannelHandle for Open {
    fn died(&self) -> Result<Option<u32>> {
        let nv = self.card.driver();
        let died = nv.died(self.number);
        died.map_err(|cause| refused::of_cause(nv.function(), cause))
    }

    fn stop(&self) -> bool {
        self.slot.stop()
    }
}
