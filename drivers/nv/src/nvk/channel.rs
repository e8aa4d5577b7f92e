//! Channels with the kernel driver's memory, and their registration with RM and UVM.
//!
//! Source: open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/fifo/arch/hopper/kernel_fifo_gh100.c (USERD where the
//! ring is); kernel-open/nvidia-uvm/
//! uvm_user_channel.c (a channel of graphics is registered before it is scheduled, and after compute is
//! made in it).

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use drivers_gpu::backend::PAGE;
use drivers_gpu::backend::shared::Shareable as _;
use drivers_gpu::kernel::{Heap, HeapRequest, KernelMemory as _};
use drivers_spec::nv::class::ChannelAlloc;
use drivers_spec::nv::push::{Notification, userd};
use hcq::mem::window::Window;
use hcq::transport::{Fault, Machine, Reserved, TransportError};

use super::gpu::Gpu;
use super::memory::{BELOW, Memory, MemoryError};
use super::uvm::RegisteredChannel;
use crate::backend::channel::ENTRY_BYTES;
use crate::backend::{ChannelKind, ChannelRequest, Classes};
use crate::rm::channel::{self as rm, Layout};
use crate::rm::fault::Witness;

/// The default size of the address range for a channel's graphics buffers, if the driver does not report it, and
/// its granularity.
const BUFFERS: u64 = 64 << 20;
const BUFFERS_ALIGN: u64 = 2 << 20;

/// A channel with its memory. Its parts are freed from the top.
pub(super) struct Channel {
    registered: Option<RegisteredChannel>,
    objects: rm::Channel,
    /// Addresses of UVM's buffers.
    _window: Option<Reserved>,
    notifier: Window,
    /// RM has it still.
    stays: AtomicBool,
    /// Ring, USERD and notifier.
    memory: [Arc<Memory>; 2],
    /// Its name in messages.
    name: String,
    gpu: Arc<Gpu>,
}

/// What the host has of a channel.
pub(super) struct Parts {
    pub(super) classes: Classes,
    pub(super) ring: Window,
    pub(super) userd: Window,
    pub(super) doorbell: Window,
    pub(super) token: u32,
}

impl Channel {
    /// The Xid that the driver reported for the channel's failure.
    ///
    /// # Errors
    /// None: the notifier is mapped.
    pub(super) fn died(&self) -> Result<Option<u32>, TransportError> {
        let status = std::mem::offset_of!(Notification, status) as u64;
        // Written last.
        if self.notifier.load::<u16>(status)? == 0 {
            return Ok(None);
        }
        let xid = std::mem::offset_of!(Notification, info32) as u64;
        self.notifier.read(xid).map(Some)
    }

    /// Takes it from the hardware, once. Whether nothing of it can run any more: else its memory and its addresses stay.
    pub(super) fn stop(&self) -> bool {
        if let Some(registered) = &self.registered {
            registered.end();
        }
        if !self.objects.free() {
            self.stays.store(true, Ordering::Relaxed);
            std::mem::forget(self.memory.clone());
            std::mem::forget(self._window.clone());
        }
        !self.stays.load(Ordering::Relaxed)
    }

    /// The object with the cause of its failure.
    pub(super) fn witness(&self) -> Witness<'_> {
        Witness {
            channel: &self.objects,
            name: &self.name,
            sms: self.gpu.facts.units.sms,
            ranges: &self.gpu.session.space.ranges,
        }
    }

    /// The memory that it needs, to be kept as long as windows to it are.
    pub(super) fn memory(&self) -> Box<dyn Any + Send + Sync> {
        Box::new(self.memory.clone())
    }

    /// A scheduled channel.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing is left behind then.
    pub(super) fn new(
        machine: &dyn Machine,
        gpu: &Arc<Gpu>,
        request: &ChannelRequest<'_>,
    ) -> Result<(Channel, Parts), MemoryError> {
        let (engine, name) = (engine_of(gpu, request)?, request.name);
        let memory = |bytes, heap, what: &str| {
            let what = format!("the {what} of {name}");
            let wanted = HeapRequest {
                bytes,
                align: PAGE,
                heap,
                what: &what,
            };
            let memory = Arc::new(Memory::new(machine, gpu, &wanted)?);
            let window = memory.window(machine, &what)?;
            Ok::<_, MemoryError>((memory, window))
        };
        // Both in memory of the GPU: Hopper wants USERD where the ring is.
        let ring_bytes = u64::from(request.entries) * ENTRY_BYTES;
        let userd_at = ring_bytes.next_multiple_of(PAGE);
        let (ring, whole) = memory(userd_at + PAGE, Heap::VisibleVram, "ring")?;
        let (notices, notifier) = memory(PAGE, Heap::System, "notifier")?;
        let userd = whole.sub(userd_at, userd::BYTES)?;
        userd.fill(0, userd::BYTES, 0)?;
        notifier.fill(0, PAGE, 0)?;

        let mut memory = ChannelAlloc {
            h_object_error: notices.handle(),
            ..Default::default()
        };
        memory.h_userd_memory[0] = ring.handle();
        memory.userd_offset[0] = userd_at;
        let layout = Layout {
            kind: request.kind,
            engine,
            space: gpu.space.handle(),
            ring: ring.va(),
            entries: request.entries,
            memory,
        };
        let objects = rm::Channel::new(&gpu.rm, &gpu.facts, &layout, |_| Ok(()))?;
        let token = objects.token()?;
        let (registered, window) = match &gpu.session.uvm {
            None => (None, None),
            Some(uvm) => {
                let addresses = addresses(machine, gpu, &objects, request.kind)?;
                let place = addresses.as_ref().map_or((0, 0), |a| (a.base(), a.bytes()));
                let channel = objects.channel.handle();
                let registered = uvm.register_channel(gpu.uuid, channel, place)?;
                (Some(registered), addresses)
            }
        };
        // From here on its parts are freed in their order, whatever fails.
        let channel = Channel {
            registered,
            objects,
            _window: window,
            notifier,
            stays: AtomicBool::new(false),
            memory: [ring, notices],
            name: name.into(),
            gpu: gpu.clone(),
        };
        channel.objects.schedule()?;
        let parts = Parts {
            classes: channel.objects.classes(),
            ring: whole.sub(0, ring_bytes)?,
            userd,
            doorbell: gpu.doorbell()?,
            token,
        };
        Ok((channel, parts))
    }
}

/// Which engine runs a channel.
fn engine_of(gpu: &Gpu, request: &ChannelRequest<'_>) -> Result<u32, MemoryError> {
    rm::engine_of(&gpu.facts, request.kind).ok_or_else(|| {
        let what = match request.kind {
            ChannelKind::Copy(index) => format!("open copy channel {index}"),
            ChannelKind::Compute => format!("open channel {}", request.name),
        };
        let why = format!(
            "the GPU has {} copy engines besides the graphics one, numbered from 0",
            gpu.facts.copy_engines.len()
        );
        TransportError::new(&*gpu.path, what, Fault::Unsupported(why)).into()
    })
}

/// Free addresses for the buffers that graphics has for a channel; none for copies, which have no buffers.
fn addresses(
    machine: &dyn Machine,
    gpu: &Gpu,
    channel: &rm::Channel,
    kind: ChannelKind,
) -> Result<Option<Reserved>, MemoryError> {
    if let ChannelKind::Copy(_) = kind {
        return Ok(None);
    }
    let bytes = channel.buffer_bytes(&gpu.rm).unwrap_or(0);
    // Each buffer begins at a page of its own: more than their sum.
    let bytes = bytes.max(BUFFERS).next_multiple_of(BUFFERS_ALIGN) + BUFFERS;
    Ok(Some(machine.reserve(bytes, BUFFERS_ALIGN, BELOW)?))
}
