//! Channels as the kernel driver makes them: a group, a ring, what runs in it, and who has to know it before
//! it runs.
//!
//! Source: open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/fifo/{kernel_channel,kernel_channel_group_api}.c
//! and arch/hopper/kernel_fifo_gh100.c (USERD where the ring is); kernel-open/nvidia-uvm/
//! uvm_user_channel.c (a channel of graphics is registered before it is scheduled, and after compute is
//! made in it).

use std::any::Any;
use std::sync::Arc;

use drivers_spec::nv::class::{self, engine};
use drivers_spec::nv::push::{Notification, userd};
use drivers_spec::nv::{control, query, status};
use hcq::mem::window::Window;
use hcq::transport::{Fault, Machine, Reserved, TransportError};

use super::gpu::Gpu;
use super::memory::{BELOW, Memory, MemoryError, PAGE, Request, Use};
use super::rm::Object;
use super::uvm::RegisteredChannel;
use crate::interface::channel::ENTRY_BYTES;
use crate::interface::{ChannelKind, ChannelRequest, Classes};

/// Addresses for the buffers that graphics has for a channel where the driver does not tell how many, and
/// what they are rounded up to.
const BUFFERS: u64 = 64 << 20;
const BUFFERS_ALIGN: u64 = 2 << 20;

/// A subcontext that runs beside others of its group (`NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_ASYNC`).
const ASYNC: u32 = 1;

/// What the copy class takes its engine by: a type, not an index (`NVB0B5_ALLOCATION_PARAMETERS_VERSION_1`).
const BY_TYPE: u32 = 1;

/// A channel of RM. Its parts are freed from the top.
pub(super) struct Channel {
    _registered: Option<RegisteredChannel>,
    /// Tells of exceptions; none where the driver does not allow it.
    pub(super) debugger: Option<Object>,
    _objects: Vec<Object>,
    pub(super) channel: Object,
    _share: Option<Object>,
    _group: Object,
    /// Addresses of UVM's buffers.
    _window: Option<Reserved>,
    notifier: Window,
    /// Ring, USERD and notifier.
    memory: [Arc<Memory>; 2],
    /// Its name in messages.
    pub(super) name: String,
    pub(super) gpu: Arc<Gpu>,
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
    /// What the driver has told of the channel's death: an Xid.
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

    /// The memory that it needs, to be kept as long as windows to it are.
    pub(super) fn memory(&self) -> Box<dyn Any + Send + Sync> {
        Box::new(self.memory.clone())
    }

    /// A channel that is scheduled.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing is left behind then.
    pub(super) fn new(
        machine: &dyn Machine,
        gpu: &Arc<Gpu>,
        request: &ChannelRequest<'_>,
    ) -> Result<(Channel, Parts), MemoryError> {
        let engine = engine_of(gpu, request)?;
        let name = request.name;
        let memory = |bytes, purpose, what: &str| {
            let what = format!("the {what} of {name}");
            let request = Request {
                bytes,
                align: PAGE,
                purpose,
                what: &what,
            };
            Memory::new(machine, gpu, &request).map(Arc::new)
        };
        // Both in memory of the GPU: Hopper wants USERD where the ring is.
        let ring_bytes = u64::from(request.entries) * ENTRY_BYTES;
        let userd_at = ring_bytes.next_multiple_of(PAGE);
        let ring = memory(userd_at + PAGE, Use::VisibleLocal, "ring")?;
        let notices = memory(PAGE, Use::System, "notifier")?;
        let whole = window(machine, &ring, "ring", name)?;
        let userd = whole.sub(userd_at, userd::BYTES)?;
        userd.fill(0, userd::BYTES, 0)?;
        let notifier = window(machine, &notices, "notifier", name)?;
        notifier.fill(0, PAGE, 0)?;

        let rm = &gpu.session.rm;
        let params = class::ChannelGroupAlloc {
            h_va_space: gpu.space.handle(),
            engine_type: engine,
            ..Default::default()
        };
        let device = gpu.device.handle();
        let group = rm.alloc(&class::KEPLER_CHANNEL_GROUP_A, device, &params)?;
        let share = match request.kind {
            ChannelKind::Copy(_) => None,
            ChannelKind::Compute => {
                let params = class::CtxShareAlloc {
                    h_va_space: gpu.space.handle(),
                    flags: ASYNC,
                    ..Default::default()
                };
                let class = class::FERMI_CONTEXT_SHARE_A;
                Some(rm.alloc(&class, group.handle(), &params)?)
            }
        };
        let mut params = class::ChannelAlloc {
            h_object_error: notices.handle(),
            gp_fifo_offset: ring.va(),
            gp_fifo_entries: request.entries,
            h_context_share: share.as_ref().map_or(0, Object::handle),
            engine_type: engine,
            ..Default::default()
        };
        params.h_userd_memory[0] = ring.handle();
        params.userd_offset[0] = userd_at;
        let channel = rm.alloc(&gpu.facts.channel, group.handle(), &params)?;
        let made = objects(gpu, &channel, request.kind, engine)?;
        let debugger = made.compute.as_ref().and_then(|one| debugger(gpu, one));

        let token = token(gpu, &channel)?;
        let (registered, window) = match &gpu.session.uvm {
            None => (None, None),
            Some(uvm) => {
                let addresses = addresses(machine, gpu, &channel, request.kind)?;
                let place = addresses.as_ref().map_or((0, 0), |a| (a.base(), a.bytes()));
                let registered = uvm.register_channel(gpu.uuid, channel.handle(), place)?;
                (Some(registered), addresses)
            }
        };
        let mut params = control::GpfifoSchedule {
            enable: 1,
            ..Default::default()
        };
        let ask = control::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE;
        rm.control(&ask, group.handle(), &mut params)?;
        let parts = Parts {
            classes: Classes {
                channel: gpu.facts.channel.number,
                compute: made.compute.as_ref().map(|_| gpu.facts.compute.number),
                copy: made.copy.as_ref().map(|_| gpu.facts.copy.number),
            },
            ring: whole.sub(0, ring_bytes)?,
            userd,
            doorbell: gpu.doorbell()?,
            token,
        };
        let channel = Channel {
            _registered: registered,
            debugger,
            _objects: made.compute.into_iter().chain(made.copy).collect(),
            channel,
            _share: share,
            _group: group,
            _window: window,
            notifier,
            memory: [ring, notices],
            name: name.into(),
            gpu: gpu.clone(),
        };
        Ok((channel, parts))
    }
}

/// Which engine runs a channel.
fn engine_of(gpu: &Gpu, request: &ChannelRequest<'_>) -> Result<u32, MemoryError> {
    let ChannelKind::Copy(index) = request.kind else {
        return Ok(engine::GRAPHICS);
    };
    let engines = &gpu.facts.copy_engines;
    let found = engines.get(index as usize).copied();
    found.ok_or_else(|| {
        let what = format!("open copy channel {index}");
        let why = format!(
            "the GPU has {} copy engines beside that of graphics, numbered from 0",
            engines.len()
        );
        TransportError::new(&*gpu.path, what, Fault::Unsupported(why)).into()
    })
}

/// What runs in a channel.
struct Made {
    compute: Option<Object>,
    copy: Option<Object>,
}

fn objects(
    gpu: &Gpu,
    channel: &Object,
    kind: ChannelKind,
    engine: u32,
) -> Result<Made, super::CallError> {
    let rm = &gpu.session.rm;
    let parent = channel.handle();
    match kind {
        ChannelKind::Compute => {
            let compute = rm.alloc_plain(&gpu.facts.compute, parent)?;
            // The copy engine that goes with graphics, where there is one.
            let copy = match rm.alloc_plain(&gpu.facts.copy, parent) {
                Err(error)
                    if error.is(status::NV_ERR_NOT_SUPPORTED)
                        || error.is(status::NV_ERR_INVALID_CLASS) =>
                {
                    tracing::debug!(%error, "no copies beside kernels");
                    None
                }
                copy => Some(copy?),
            };
            Ok(Made {
                compute: Some(compute),
                copy,
            })
        }
        ChannelKind::Copy(_) => {
            let params = class::DmaCopyAlloc {
                version: BY_TYPE,
                engine_type: engine,
            };
            Ok(Made {
                compute: None,
                copy: Some(rm.alloc(&gpu.facts.copy, parent, &params)?),
            })
        }
    }
}

/// Who tells of exceptions of kernels. Without it a fault has no address of an instruction.
fn debugger(gpu: &Gpu, compute: &Object) -> Option<Object> {
    let rm = &gpu.session.rm;
    let params = class::DebuggerAlloc {
        h_app_client: rm.client,
        h_class3d_object: compute.handle(),
        ..Default::default()
    };
    let made = rm.alloc(&class::GT200_DEBUGGER, gpu.device.handle(), &params);
    made.map_err(|error| tracing::debug!(%error, "exceptions have no details"))
        .ok()
}

/// What the doorbell takes.
fn token(gpu: &Gpu, channel: &Object) -> Result<u32, super::CallError> {
    let mut params = control::WorkSubmitToken::default();
    let ask = control::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN;
    let rm = &gpu.session.rm;
    rm.control(&ask, channel.handle(), &mut params)?;
    Ok(params.work_submit_token)
}

/// Free addresses for the buffers that graphics has for a channel; none for copies, which have no buffers.
fn addresses(
    machine: &dyn Machine,
    gpu: &Gpu,
    channel: &Object,
    kind: ChannelKind,
) -> Result<Option<Reserved>, MemoryError> {
    if let ChannelKind::Copy(_) = kind {
        return Ok(None);
    }
    let mut params = query::CtxBufferSize {
        h_channel: channel.handle(),
        ..Default::default()
    };
    let ask = control::NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE;
    let rm = &gpu.session.rm;
    let bytes = match rm.control(&ask, gpu.subdevice.handle(), &mut params) {
        Ok(()) => params.total_buffer_size,
        Err(error) => {
            tracing::debug!(%error, "the size of a channel's buffers is not told");
            0
        }
    };
    // Each buffer begins at a page of its own: more than their sum.
    let bytes = bytes.max(BUFFERS).next_multiple_of(BUFFERS_ALIGN) + BUFFERS;
    Ok(Some(machine.reserve(bytes, BUFFERS_ALIGN, BELOW)?))
}

/// The host's window to memory that has one.
fn window(
    machine: &dyn Machine,
    memory: &Memory,
    what: &str,
    name: &str,
) -> Result<Window, TransportError> {
    let view = memory.view().cloned().ok_or_else(|| {
        let why = "memory without a mapping".to_string();
        TransportError::new(name, "map", Fault::Unsupported(why))
    })?;
    Ok(machine.window(&format!("the {what} of {name}"), memory.va(), view))
}
