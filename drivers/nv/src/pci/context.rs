//! Buffers of graphics contexts: which there are, and how RM is told of them.
//!
//! RM on GSP says how large they are. The driver has the memory: some of each channel, some of all. What RM fills itself is
//! told with its place in VRAM, all else with its address only. In an address space of RM's both are told together; in one of
//! the driver's, memory before compute is made, and addresses behind that.
//!
//! Source: Linux, drivers/gpu/drm/nouveau/nvkm/subdev/gsp/rm/r535/gr.c (`r535_gr_get_ctxbuf_info`,
//! `r535_gr_promote_ctx`); open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/gr/kernel_graphics_context.c
//! (`kgrctxPrepareInitializeCtxBuffer_IMPL`, `kgrctxPreparePromoteCtxBuffer_IMPL`), src/nvidia/src/kernel/rmapi/
//! nv_gpu_ops.c (`nvGpuOpsBindChannelResources`), ctrl2080gpu.h (`NV2080_CTRL_GPU_PROMOTE_CTX_BUFFER_ENTRY`).

use drivers_gpu::bare::{Attr, PAGE};
use drivers_spec::nv::class::engine;
use drivers_spec::nv::pci_rm::{
    ContextBuffersInfo, NO_BUFFER, NV2080_CTRL_CMD_GPU_PROMOTE_CTX,
    NV2080_CTRL_CMD_INTERNAL_STATIC_KGR_GET_CONTEXT_BUFFERS_INFO, PROMOTE_ENTRIES, PromoteCtx,
    PromoteEntry, VRAM_UNCACHED, buffer, promoted,
};
use hcq::GpuVa;
use hcq::addr::VramAddr;

use super::internal::Internal;
use crate::gsp::Cause;
use crate::rm::client::Object;
use crate::rm::device::Device;
use crate::rm::transport::Result as Called;

/// Bytes of the context for headers of subcontexts: 64 of a page.
const HEADERS: u64 = 64 * PAGE;
/// From this size on buffers start at a multiple of it.
const LARGE: u64 = 2 << 20;
const BIG: u64 = 64 << 10;

/// Whose a buffer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Of {
    /// Of a channel.
    Channel,
    /// Of all channels of the card.
    Card,
}

/// A buffer: its number in sizes, in promotions, whose it is, and whether RM fills it.
type Kind = (usize, u16, Of, bool);

const KINDS: [Kind; 9] = [
    (buffer::GRAPHICS, promoted::MAIN, Of::Channel, true),
    (buffer::GRAPHICS_PATCH, promoted::PATCH, Of::Channel, true),
    (
        buffer::GRAPHICS_BUNDLE_CB,
        promoted::BUFFER_BUNDLE_CB,
        Of::Card,
        false,
    ),
    (
        buffer::GRAPHICS_PAGEPOOL,
        promoted::PAGEPOOL,
        Of::Card,
        false,
    ),
    (
        buffer::GRAPHICS_ATTRIBUTE_CB,
        promoted::ATTRIBUTE_CB,
        Of::Card,
        false,
    ),
    (
        buffer::GRAPHICS_RTV_CB_GLOBAL,
        promoted::RTV_CB_GLOBAL,
        Of::Card,
        false,
    ),
    (
        buffer::GRAPHICS_FECS_EVENT,
        promoted::FECS_EVENT,
        Of::Card,
        true,
    ),
    (
        buffer::GRAPHICS_PRIV_ACCESS_MAP,
        promoted::PRIV_ACCESS_MAP,
        Of::Card,
        true,
    ),
    (
        buffer::GRAPHICS_PRIV_ACCESS_MAP,
        promoted::UNRESTRICTED_PRIV_ACCESS_MAP,
        Of::Card,
        true,
    ),
];

/// A buffer of contexts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Buffer {
    /// Its number, `NV2080_CTRL_GPU_PROMOTE_CTX_BUFFER_ID_*`.
    id: u16,
    /// Its length.
    pub(super) bytes: u64,
    /// What its address is a multiple of.
    pub(super) align: u64,
    /// Whose it is.
    pub(super) of: Of,
    /// RM fills it: it holds zeros before.
    pub(super) is_filled: bool,
}

/// A buffer with its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Placed {
    /// What it is.
    pub(super) buffer: Buffer,
    /// Where it is.
    pub(super) at: VramAddr,
    /// The address that it has for the GPU.
    pub(super) va: GpuVa,
}

/// The buffers of a card, by RM.
///
/// # Errors
/// [`Cause::Call`]; [`Cause::Lists`]: there is no context.
pub(super) fn buffers(internal: &Internal) -> Result<Vec<Buffer>, Cause> {
    let mut info = ContextBuffersInfo::default();
    let ask = NV2080_CTRL_CMD_INTERNAL_STATIC_KGR_GET_CONTEXT_BUFFERS_INFO;
    internal.ask(&ask, &mut info)?;
    let found = of_info(&info);
    match found.iter().any(|buffer| buffer.id == promoted::MAIN) {
        true => Ok(found),
        false => Err(Cause::Lists {
            found: "no buffer for graphics contexts".into(),
            expected: "the size of one (engine context GRAPHICS)".into(),
        }),
    }
}

fn of_info(info: &ContextBuffersInfo) -> Vec<Buffer> {
    let one = |&(number, id, of, is_filled): &Kind| {
        let told = info.first.get(number)?;
        let size = match told.size {
            0 | NO_BUFFER => return None,
            size => u64::from(size).next_multiple_of(PAGE),
        };
        let bytes = match id {
            promoted::MAIN => size + HEADERS,
            _ => size,
        };
        let page = match bytes {
            LARGE.. => LARGE,
            BIG.. => BIG,
            _ => PAGE,
        };
        let align = match id {
            promoted::ATTRIBUTE_CB => bytes.next_power_of_two(),
            _ => page.max(u64::from(told.alignment).next_power_of_two()),
        };
        Some(Buffer {
            id,
            bytes,
            align,
            of,
            is_filled,
        })
    };
    KINDS.iter().filter_map(one).collect()
}

impl Buffer {
    /// What may be done with it: programs have no access, and nobody writes which registers there are to access.
    ///
    /// Source: Linux, nouveau, gsp/rm/r535/gr.c (`r535_gr_promote_ctx`: `priv`, and `ro` of these); kernel_graphics_context.c
    /// (`kgrctxAllocMainCtxBuffer_IMPL`: `MEMDESC_FLAGS_GPU_PRIVILEGED`).
    pub(super) fn attr(&self) -> Attr {
        let maps = [
            promoted::PRIV_ACCESS_MAP,
            promoted::UNRESTRICTED_PRIV_ACCESS_MAP,
        ];
        Attr {
            write: !maps.contains(&self.id),
            privileged: true,
            ..Attr::LOCAL
        }
    }
}

impl Placed {
    /// As RM is told of it for the first context, which makes those of the card.
    pub(super) fn first(&self) -> PromoteEntry {
        // The map is used with a context's address only where that is restricted.
        let is_nonmapped = self.buffer.id == promoted::PRIV_ACCESS_MAP;
        self.entry(self.buffer.is_filled, is_nonmapped)
    }

    /// As RM is told of its memory for the context of a channel, to fill it. None of what is filled already, or not at all.
    pub(super) fn memory(&self) -> Option<PromoteEntry> {
        let is_own = self.buffer.of == Of::Channel && self.buffer.is_filled;
        is_own.then(|| self.entry(true, true))
    }

    /// As RM is told of its address for that context, which comes later: the address space is not RM's. None of what such a
    /// context does not have.
    pub(super) fn address(&self) -> Option<PromoteEntry> {
        let is_had = self.buffer.id != promoted::UNRESTRICTED_PRIV_ACCESS_MAP;
        is_had.then(|| self.entry(false, false))
    }

    fn entry(&self, is_filled: bool, is_nonmapped: bool) -> PromoteEntry {
        let mut entry = PromoteEntry {
            buffer_id: self.buffer.id,
            initialize: is_filled.into(),
            nonmapped: is_nonmapped.into(),
            ..Default::default()
        };
        if !is_nonmapped {
            entry.gpu_virt_addr = self.va.0;
        }
        if is_filled {
            entry.gpu_phys_addr = self.at.0;
            entry.size = self.buffer.bytes;
            entry.phys_attr = VRAM_UNCACHED;
        }
        entry
    }
}

/// Tells RM of the buffers of a channel's context.
///
/// # Errors
/// [`super::CallError`](crate::rm::CallError).
pub(super) fn promote(gpu: &Device, channel: &Object, entries: &[PromoteEntry]) -> Called {
    let count = entries.len().min(PROMOTE_ENTRIES);
    let mut params = PromoteCtx {
        engine_type: engine::GRAPHICS,
        h_chan_client: gpu.client().handle(),
        h_object: channel.handle(),
        entry_count: count as u32,
        ..Default::default()
    };
    let places = params.promote_entry.iter_mut();
    places.zip(entries).for_each(|(to, from)| *to = *from);
    let control = NV2080_CTRL_CMD_GPU_PROMOTE_CTX;
    gpu.subdevice.control(&control, &mut params)
}

#[cfg(test)]
mod tests {
    use drivers_spec::nv::pci_rm::BufferInfo;

    use super::*;

    fn info() -> ContextBuffersInfo {
        let mut info = ContextBuffersInfo::default();
        for (number, size, alignment) in [
            (0, 0x12_3456, 0x1000),
            (0x10, 0x3_0000, 0x100),
            (0x11, 0x3000, 0x100),
            (0x12, 0x2_0000, 0x100),
            (0x13, 0x72_0000, 0x100),
            (0x14, NO_BUFFER, 0),
            (0x17, 0x200, 0x1000),
            (0x18, 0x8_0000, 0x1_0000),
            (8, 0x4000, 0x100),
        ] {
            info.first[number] = BufferInfo { size, alignment };
        }
        info
    }

    #[test]
    fn sizes_and_alignments_are_those_that_rm_wants() {
        let all = of_info(&info());
        let told: Vec<_> = all
            .iter()
            .map(|one| (one.id, one.bytes, one.align))
            .collect();
        assert_eq!(
            told,
            [
                (0, 0x12_4000 + 0x4_0000, 0x1_0000),
                (2, 0x3_0000, 0x1_0000),
                (3, 0x3000, 0x1000),
                (4, 0x2_0000, 0x1_0000),
                (5, 0x72_0000, 0x80_0000),
                (9, 0x1000, 0x1000),
                (10, 0x8_0000, 0x1_0000),
                (11, 0x8_0000, 0x1_0000),
            ]
        );
    }

    #[test]
    fn what_rm_fills_is_told_with_its_place_and_the_rest_by_its_address() {
        let place = |buffer| Placed {
            buffer,
            at: VramAddr(0x4000_0000),
            va: GpuVa(0x5_0000_0000),
        };
        let all: Vec<_> = of_info(&info()).into_iter().map(place).collect();
        for one in &all {
            let first = one.first();
            let is_filled = [0, 2, 9, 10, 11].contains(&first.buffer_id);
            assert_eq!(first.initialize == 1, is_filled, "{first:?}");
            assert_eq!(first.nonmapped == 1, first.buffer_id == 10);
            assert_eq!(first.gpu_virt_addr == 0, first.buffer_id == 10);
            let physical = (first.gpu_phys_addr, first.phys_attr);
            let expected = if is_filled { (0x4000_0000, 4) } else { (0, 0) };
            assert_eq!(physical, expected);
            let memory = one.memory();
            assert_eq!(memory.is_some(), first.buffer_id <= 2);
            if let Some(memory) = memory {
                assert_eq!((memory.initialize, memory.nonmapped), (1, 1));
                assert_eq!(memory.gpu_virt_addr, 0);
                assert_eq!(memory.gpu_phys_addr, 0x4000_0000);
            }
            let Some(address) = one.address() else {
                assert_eq!(first.buffer_id, 11);
                continue;
            };
            assert_eq!((address.initialize, address.nonmapped), (0, 0));
            assert_eq!(address.gpu_virt_addr, 0x5_0000_0000);
            assert_eq!((address.gpu_phys_addr, address.size), (0, 0));
        }
    }
}
