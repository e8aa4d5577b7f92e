//! [`Channel`]: a channel as RM on GSP has it, and where its parts are.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/fifo/kernel_channel.c
//! (`_kchannelSendChannelAllocRpc`): its number, its instance block, RAMFC, USERD and the buffer for methods are the
//! driver's to choose.

use std::sync::Arc;

use drivers_gpu::backend::Space;
use drivers_spec::nv::class::{ChannelAlloc, MemoryDesc};
use drivers_spec::nv::pci_regs::{INSTANCE_BYTES, RAMFC_BYTES};
use drivers_spec::nv::pci_rm::{
    ADDR_FBMEM, MEMORY_UNCACHED, MemdescInfo, PromoteMethodBuffers, RUNQUEUES, channel_flags,
    internal_flags,
};
use drivers_spec::nv::push::userd;
use hcq::addr::VramAddr;
use hcq::mem::window::Window;

use super::areas::Place;
use crate::gsp::Cause;
use crate::rm::channel as rm;
use crate::rm::fault::Witness;

/// Who makes a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    /// A program.
    User,
    /// The driver, for itself.
    Admin,
}

/// Where the memory of a channel is, as RM is told. `methods` are the bytes for methods that have faulted.
///
/// # Errors
/// [`Cause::Room`].
pub(super) fn memory(place: &Place, methods: u64, level: Level) -> Result<ChannelAlloc, Cause> {
    // Channels run on the first runqueue.
    let [buffer, ..] = place.methods;
    if methods > buffer.bytes {
        return Err(Cause::Room {
            what: "the buffer for methods of a channel",
            bytes: methods,
            room: buffer.bytes,
        });
    }
    let desc = |at: VramAddr, size| MemoryDesc {
        base: at.0,
        size,
        address_space: ADDR_FBMEM,
        cache_attrib: MEMORY_UNCACHED,
    };
    let (index, page) = (
        place.number % channel_flags::PER_PAGE,
        place.number / channel_flags::PER_PAGE,
    );
    let flags = channel_flags::USERD_PAGE_FIXED
        | index << channel_flags::USERD_INDEX_SHIFT
        | page << channel_flags::USERD_PAGE_SHIFT;
    let (flags, privilege) = match level {
        Level::User => (flags, 0),
        Level::Admin => (
            flags | channel_flags::PRIVILEGED_CHANNEL,
            internal_flags::ADMIN,
        ),
    };
    Ok(ChannelAlloc {
        flags,
        internal_flags: privilege | internal_flags::NO_NOTIFIERS,
        instance_mem: desc(place.instance, INSTANCE_BYTES),
        ramfc_mem: desc(place.instance, RAMFC_BYTES),
        userd_mem: desc(place.userd, userd::BYTES),
        mthdbuf_mem: desc(buffer.at, methods),
        ..Default::default()
    })
}

/// The buffers for methods of a group, one for each runqueue, as RM is told of them. It has them for groups that a client
/// makes; for a channel without one, that of the channel is enough.
///
/// Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/fifo/{kernel_channel_group_api,
/// kernel_channel_group}.c.
pub(super) fn methods(place: &Place, bytes: u64) -> PromoteMethodBuffers {
    PromoteMethodBuffers {
        method_buffer_memdesc: place.methods.map(|area| MemdescInfo {
            base: area.at.0,
            size: bytes,
            alignment: 1,
            address_space: ADDR_FBMEM,
            cpu_cache_attrib: MEMORY_UNCACHED,
        }),
        num_valid_entries: RUNQUEUES as u32,
        ..Default::default()
    }
}

/// A channel of a handle.
pub(super) struct Channel {
    /// RM's side of it.
    pub(super) objects: rm::Channel,
    /// Its name in messages.
    pub(super) name: String,
    /// The number of the handle that has it.
    pub(super) owner: u64,
    /// Its number for the hardware.
    pub(super) number: u32,
    /// Multiprocessors of the card.
    pub(super) sms: u32,
    /// Whose addresses are whose.
    pub(super) space: Arc<Space>,
    /// The doorbell, and what it takes.
    pub(super) doorbell: Window,
    pub(super) token: u32,
}

impl Channel {
    /// The object with the cause of its failure.
    pub(super) fn witness(&self) -> Witness<'_> {
        Witness {
            channel: &self.objects,
            name: &self.name,
            sms: self.sms,
            ranges: &self.space.ranges,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::areas::Areas;
    use super::*;

    #[test]
    fn a_channel_is_told_by_its_number_and_its_places() {
        let areas = Areas::of(&[(0, 8 << 30)], 256 << 20).unwrap();
        let place = areas.channel(11);
        let told = memory(&place, 0x5000, Level::User).unwrap();
        // USERD_INDEX_VALUE 10:8, PAGE_VALUE 20:12, PAGE_FIXED 21:21: 11 is the fourth of the second page.
        assert_eq!(told.flags, 1 << 21 | 1 << 12 | 3 << 8);
        assert_eq!(told.internal_flags, 0x14);
        assert_eq!(told.instance_mem.base, told.ramfc_mem.base);
        let sizes = [
            told.instance_mem,
            told.ramfc_mem,
            told.userd_mem,
            told.mthdbuf_mem,
        ];
        assert_eq!(sizes.map(|one| one.size), [0x1000, 0x200, 0x200, 0x5000]);
        for one in sizes {
            assert_eq!((one.address_space, one.cache_attrib), (2, 1));
        }
        let buffers = methods(&place, 0x5000);
        let [one, other] = buffers.method_buffer_memdesc;
        assert_eq!((one.base, one.size), (told.mthdbuf_mem.base, 0x5000));
        assert_eq!((other.base, other.alignment), (one.base + 0x7000, 1));
        assert_eq!((buffers.num_valid_entries, other.address_space), (2, 2));
        let told = memory(&areas.channel(0), 0x5000, Level::Admin).unwrap();
        assert_eq!((told.flags, told.internal_flags), (1 << 21 | 1 << 5, 0x15));
        let error = memory(&place, 0x1_0000, Level::User).unwrap_err();
        assert!(error.to_string().contains("0x10000 bytes"), "{error}");
    }
}
