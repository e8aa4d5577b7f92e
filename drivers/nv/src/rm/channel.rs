//! A channel of RM: a group, a channel with a ring, its engine objects, its debugger for exceptions.
//!
//! Source: open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/fifo/{kernel_channel,kernel_channel_group_api}.c.

use drivers_spec::nv::class::{self, engine};
use drivers_spec::nv::{control, query, status};

use super::client::Object;
use super::device::Device;
use super::facts::Facts;
use super::transport::Result;
use crate::backend::{ChannelKind, Classes};

/// A subcontext that runs beside others of its group (`NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_ASYNC`).
const ASYNC: u32 = 1;

/// What the copy class takes its engine by: a type, not an index (`NVB0B5_ALLOCATION_PARAMETERS_VERSION_1`).
const BY_TYPE: u32 = 1;

/// A channel of RM. Its parts are freed from the top.
pub(crate) struct Channel {
    /// Reports exceptions; none if the driver does not allow it.
    pub(crate) debugger: Option<Object>,
    compute: Option<Object>,
    copy: Option<Object>,
    pub(crate) channel: Object,
    share: Option<Object>,
    group: Object,
    classes: Classes,
}

/// What there is of a channel so far.
#[derive(Clone, Copy)]
pub(crate) enum Made<'a> {
    /// Its group, and nothing in it.
    Group(&'a Object),
    /// The channel, and nothing in it.
    Channel(&'a Object),
    /// The channel, with all that runs in it.
    Whole(&'a Object),
}

/// What a channel is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) kind: ChannelKind,
    /// The engine that runs it, `NV2080_ENGINE_TYPE_*`.
    pub(crate) engine: u32,
    /// The handle of its address space.
    pub(crate) space: u32,
    /// The ring's address, and its entries: a power of two.
    pub(crate) ring: u64,
    pub(crate) entries: u32,
    /// Its memory: by handles, or where it is; all else is filled in.
    pub(crate) memory: class::ChannelAlloc,
}

/// The engine of a kind of channel; none where the GPU has no such copy engine.
pub(crate) fn engine_of(facts: &Facts, kind: ChannelKind) -> Option<u32> {
    match kind {
        ChannelKind::Compute => Some(engine::GRAPHICS),
        ChannelKind::Copy(index) => facts.copy_engines.get(index as usize).copied(),
    }
}

impl Channel {
    /// Frees what runs, the channel, and what it is in, from the top, once. Whether RM has none of it any more: until then
    /// the group has the buffers of its context.
    pub(crate) fn free(&self) -> bool {
        let parts = [&self.debugger, &self.compute, &self.copy];
        for part in parts.into_iter().flatten() {
            // Remaining ones are freed with the channel.
            _ = part.free();
        }
        let is_freed = self.channel.free() && self.share.as_ref().is_none_or(Object::free);
        is_freed && self.group.free()
    }

    /// A channel, not scheduled yet. `made` runs at each step, for what RM has to be told there.
    ///
    /// # Errors
    /// [`super::CallError`]; nothing is left behind then.
    pub(crate) fn new(
        gpu: &Device,
        facts: &Facts,
        layout: &Layout,
        made: impl Fn(Made<'_>) -> Result,
    ) -> Result<Channel> {
        let params = class::ChannelGroupAlloc {
            h_va_space: layout.space,
            engine_type: layout.engine,
            ..Default::default()
        };
        let group = gpu.device.alloc(&class::KEPLER_CHANNEL_GROUP_A, &params)?;
        made(Made::Group(&group))?;
        let share = match layout.kind {
            ChannelKind::Copy(_) => None,
            ChannelKind::Compute => {
                let params = class::CtxShareAlloc {
                    h_va_space: layout.space,
                    flags: ASYNC,
                    ..Default::default()
                };
                Some(group.alloc(&class::FERMI_CONTEXT_SHARE_A, &params)?)
            }
        };
        let params = class::ChannelAlloc {
            gp_fifo_offset: layout.ring,
            gp_fifo_entries: layout.entries,
            h_context_share: share.as_ref().map_or(0, Object::handle),
            engine_type: layout.engine,
            ..layout.memory
        };
        let channel = group.alloc(&facts.channel, &params)?;
        made(Made::Channel(&channel))?;
        let (compute, copy) = objects(&channel, facts, layout)?;
        made(Made::Whole(&channel))?;
        Ok(Channel {
            debugger: compute.as_ref().and_then(|one| debugger(gpu, one)),
            classes: Classes {
                channel: facts.channel.number,
                compute: compute.as_ref().map(|_| facts.compute.number),
                copy: copy.as_ref().map(|_| facts.copy.number),
            },
            compute,
            copy,
            channel,
            share,
            group,
        })
    }

    /// What may run in it.
    pub(crate) fn classes(&self) -> Classes {
        self.classes
    }

    /// What the doorbell takes.
    ///
    /// # Errors
    /// [`super::CallError`].
    pub(crate) fn token(&self) -> Result<u32> {
        let mut params = control::WorkSubmitToken::default();
        let ask = control::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN;
        self.channel.control(&ask, &mut params)?;
        Ok(params.work_submit_token)
    }

    /// Bytes of its graphics buffers; `None` if unknown.
    pub(crate) fn buffer_bytes(&self, gpu: &Device) -> Option<u64> {
        let mut params = query::CtxBufferSize {
            h_channel: self.channel.handle(),
            ..Default::default()
        };
        let ask = control::NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE;
        let asked = gpu.subdevice.control(&ask, &mut params);
        let told = |error| tracing::debug!(%error, "RM does not report the channel's buffer sizes");
        asked.map_err(told).ok()?;
        Some(params.total_buffer_size)
    }

    /// Lets it run.
    ///
    /// # Errors
    /// [`super::CallError`].
    pub(crate) fn schedule(&self) -> Result {
        self.set_running(true)
    }

    /// Lets it run, or takes it from the hardware until it may run again.
    ///
    /// # Errors
    /// [`super::CallError`].
    pub(crate) fn set_running(&self, runs: bool) -> Result {
        let ask = control::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE;
        // What is freed does not run, and never will.
        if self.group.handle() == 0 {
            return match runs {
                true => Err(self.group.absent(&ask)),
                false => Ok(()),
            };
        }
        let mut params = control::GpfifoSchedule {
            enable: runs.into(),
            ..Default::default()
        };
        self.group.control(&ask, &mut params)
    }
}

/// What runs in a channel: compute, copies.
fn objects(
    channel: &Object,
    facts: &Facts,
    layout: &Layout,
) -> Result<(Option<Object>, Option<Object>)> {
    match layout.kind {
        ChannelKind::Compute => {
            let compute = channel.alloc_plain(&facts.compute)?;
            // The copy engine that goes with graphics, where there is one.
            let copy = match channel.alloc_plain(&facts.copy) {
                Err(error)
                    if error.is(status::NV_ERR_NOT_SUPPORTED)
                        || error.is(status::NV_ERR_INVALID_CLASS) =>
                {
                    tracing::debug!(%error, "no copy engine beside the compute engine");
                    None
                }
                copy => Some(copy?),
            };
            Ok((Some(compute), copy))
        }
        ChannelKind::Copy(_) => {
            let params = class::DmaCopyAlloc {
                version: BY_TYPE,
                engine_type: layout.engine,
            };
            Ok((None, Some(channel.alloc(&facts.copy, &params)?)))
        }
    }
}

/// The debugger object, which reports exceptions of kernels. Without it a fault lacks the address of the instruction.
fn debugger(gpu: &Device, compute: &Object) -> Option<Object> {
    let params = class::DebuggerAlloc {
        h_app_client: gpu.client().handle(),
        h_class3d_object: compute.handle(),
        ..Default::default()
    };
    let made = gpu.device.alloc(&class::GT200_DEBUGGER, &params);
    made.map_err(|error| tracing::debug!(%error, "exception details unavailable"))
        .ok()
}
