//! Memory that a client gives firmware by its physical address: that of a channel, and objects that are lists of pages.
//!
//! Source: OGKM, kernel_channel.c, _kchannelDescribeMemDescsFromParams; ampere/ga100/dev_ram.h, NV_RAMIN_ALLOC_SIZE; nvkm/subdev/gsp/rm/
//! r535/fifo.c, r535_chan_ramfc_write.

use drivers_spec::nv::class::{self, ChannelAlloc, MemoryDesc};
use drivers_spec::nv::push::userd;
use drivers_spec::nv::status;
use twin::rule::{Proof, Rule};

use super::{Call, Kind, Object};
use crate::pci::memory::{Aperture, Place, long, word};

static MEMORY: Rule = Rule {
    name: "NV-CHANNEL-MEMORY",
    text: "a channel is given an instance block of 4 KiB at a multiple of that, RAMFC of 512 bytes as its begin, USERD of 512 bytes \
           at a multiple of that, and, where its runlist has copy engines, a method buffer, not at 0, as large as \
           CE_GET_FAULT_METHOD_BUFFER_SIZE says: memory of the card (2) or the host (1) that is there, not protected, and no other channel's",
    source: "OGKM, kernel_channel.c, _kchannelDescribeMemDescsFromParams; ampere/ga100/dev_ram.h: NV_RAMIN_ALLOC_SIZE, NV_RAMUSERD; \
             Linux, nvkm/subdev/gsp/rm/r535/fifo.c, r535_chan_ramfc_write",
    proof: Proof::Sourced,
};

static NOTIFIER: Rule = Rule {
    name: "NV-CHANNEL-NOTIFIER",
    text: "internalFlags say what kind of error notifier there is, none included; one that is there has errorNotifierMem with 16 bytes \
           or more",
    source: "OGKM, kernel_channel.c, kchannelConstruct_IMPL: errorContextType is not ERROR_NOTIFIER_TYPE_UNKNOWN; errorNotifierMem",
    proof: Proof::Sourced,
};

static LIST: Rule = Rule {
    name: "NV-RPC-ALLOC-MEMORY",
    text: "ALLOC_MEMORY makes memory of a list of pages below a device: NV01_MEMORY_LIST_SYSTEM with LOCATION PCI, or \
           NV01_MEMORY_LIST_FBMEM with LOCATION VIDMEM; a page for each 4 KiB of its length, or one where it is contiguous, in memory \
           that is there; pageCount, and a description without directories, have as many",
    source: "OGKM, rpc.c, rpcAllocMemory_v13_01, _issuePteDescRpc; sdk-structures.h, pte_desc; nvos.h, NVOS02_FLAGS",
    proof: Proof::Sourced,
};

/// `NV01_MEMORY_LIST_SYSTEM` and `NV01_MEMORY_LIST_FBMEM`, with LOCATION of NVOS02_FLAGS.
const LISTS: [(u32, Aperture, u32); 2] = [(0x81, Aperture::Host, 0), (0x82, Aperture::Vram, 2)];
/// Where the list is.
pub(in crate::pci::gsp) const PAGES: usize = 0x38;
const PAGE: u64 = 4096;

/// How many pages a description of ALLOC_MEMORY has.
pub(in crate::pci::gsp) fn pages(payload: &[u8]) -> usize {
    (word(payload, 0x30) >> 16) as usize
}

/// `NV_RAMIN_ALLOC_SIZE`.
pub(super) const INSTANCE: u64 = 4096;
/// Bytes of RAMFC.
const RAMFC: u64 = 512;
/// What CE_GET_FAULT_METHOD_BUFFER_SIZE says. A number of this model's choice: five pages, as nouveau gives its golden channel.
pub(super) const METHOD_BUFFER: u32 = 0x5000;
/// Bytes of a notification.
const NOTIFICATION: u64 = 16;

/// What a channel was given.
pub(super) struct Given {
    pub(super) instance: Place,
    pub(super) userd: Place,
    pub(super) notifier: Option<Place>,
}

impl Call<'_> {
    /// ALLOC_MEMORY.
    pub(super) fn alloc_memory(&mut self, payload: &[u8]) -> Result<(), u32> {
        let [device, handle, class, flags] = [4, 8, 12, 16].map(|at| word(payload, at));
        self.of_class(device, class::NV01_DEVICE_0.number)?;
        self.is_free(handle)?;
        let (length, count) = (long(payload, 0x20), pages(payload));
        let known = LISTS.iter().find(|list| list.0 == class);
        let is_contiguous = flags >> 4 & 0xf == 0;
        let whole = match is_contiguous {
            true => count == 1,
            false => count as u64 == length.div_ceil(PAGE),
        };
        let described = word(payload, 0x30) & 3 == 0 && word(payload, 0x28) as usize == count;
        let physical = self.state.physical();
        let is_there = |aperture: Aperture| {
            (0..count).all(|i| {
                let at = long(payload, PAGES + 8 * i).saturating_mul(PAGE);
                let bytes = if is_contiguous { length } else { PAGE };
                physical.allows(Place { aperture, at }, bytes)
            })
        };
        let right = known.is_some_and(|(_, aperture, location)| {
            flags >> 8 & 0xf == *location && whole && described && is_there(*aperture)
        });
        if !right || length == 0 {
            let what =
                format!("class {class:#x}, flags {flags:#x}: {length:#x} bytes, {count} pages");
            return self.refuse(&LIST, status::NV_ERR_INVALID_ARGUMENT, what);
        }
        let object = Object {
            parent: device,
            class,
            needs: Vec::new(),
            kind: Kind::Plain,
        };
        self.objects.all.insert((self.client, handle), object);
        Ok(())
    }

    /// Checks the memory of a channel.
    pub(super) fn given(&self, params: &ChannelAlloc, copies: bool) -> Result<Given, u32> {
        let instance = self.placed("instanceMem", &params.instance_mem, INSTANCE, INSTANCE)?;
        let ramfc = self.placed("ramfcMem", &params.ramfc_mem, RAMFC, INSTANCE)?;
        let userd = self.placed("userdMem", &params.userd_mem, userd::BYTES, userd::BYTES)?;
        let wrong = |what: String| self.refuse(&MEMORY, status::NV_ERR_INVALID_ARGUMENT, what);
        if ramfc != instance {
            return wrong(format!("ramfcMem is {ramfc}, instanceMem {instance}"));
        }
        if copies {
            let least = u64::from(METHOD_BUFFER);
            let told = &params.mthdbuf_mem;
            match self.placed("mthdbufMem", told, least, 1) {
                Ok(buffer) if buffer.at != 0 => {}
                Ok(_) => return wrong("mthdbufMem is at 0".into()),
                // RM describes memory of the host by what it is told, and does not look whether there is some: the rule is broken, and
                // the channel is made.
                Err(_) if told.address_space == 1 && told.size >= least && told.base != 0 => {}
                Err(status) => return Err(status),
            }
        }
        let overlaps = |one: Place, bytes: u64| {
            let is_same = one.aperture == instance.aperture;
            is_same && one.at < instance.at + INSTANCE && instance.at < one.at + bytes
        };
        let taken = self.objects.channels().find(|other| {
            overlaps(other.instance, INSTANCE)
                || overlaps(other.userd, userd::BYTES)
                || other.userd == userd
        });
        if let Some(other) = taken {
            return wrong(format!(
                "instanceMem {instance}, userdMem {userd}: channel {:#x} has {} and {}",
                other.made.handle, other.instance, other.userd
            ));
        }
        Ok(Given {
            instance,
            userd,
            notifier: self.notifier(params)?,
        })
    }

    /// A piece of memory: where it is.
    fn placed(&self, name: &str, given: &MemoryDesc, least: u64, align: u64) -> Result<Place, u32> {
        let aperture = match given.address_space {
            1 => Some(Aperture::Host),
            2 => Some(Aperture::Vram),
            _ => None,
        };
        let place = aperture.map(|aperture| Place {
            aperture,
            at: given.base,
        });
        let physical = self.state.physical();
        let right = |place: &Place| {
            given.size >= least
                && place.at.is_multiple_of(align)
                && physical.allows(*place, given.size)
        };
        match place.filter(right) {
            Some(place) => Ok(place),
            None => {
                let what = format!(
                    "{name}: {:#x} bytes at {:#x} of address space {}",
                    given.size, given.base, given.address_space
                );
                self.refuse(&MEMORY, status::NV_ERR_INVALID_ARGUMENT, what)
            }
        }
    }

    /// Where errors are notified.
    fn notifier(&self, params: &ChannelAlloc) -> Result<Option<Place>, u32> {
        let given = &params.error_notifier_mem;
        // ERROR_NOTIFIER_TYPE: UNKNOWN, NONE, CTXDMA, MEMORY.
        let kind = params.internal_flags >> 2 & 3;
        let place = Place {
            aperture: match given.address_space {
                2 => Aperture::Vram,
                _ => Aperture::Host,
            },
            at: given.base,
        };
        let is_there = matches!(given.address_space, 1 | 2)
            && given.size >= NOTIFICATION
            && self.state.physical().allows(place, NOTIFICATION);
        match kind {
            1 => Ok(None),
            2 | 3 if is_there => Ok(Some(place)),
            _ => {
                let what = format!(
                    "type {kind}: {:#x} bytes at {:#x} of address space {}",
                    given.size, given.base, given.address_space
                );
                self.refuse(&NOTIFIER, status::NV_ERR_INVALID_ARGUMENT, what)
            }
        }
    }
}
