//! Address spaces, and their page directories, which a client makes.
//!
//! Either it hands one over (SET_PAGE_DIRECTORY), or it gives the tables of its upper levels to firmware, which has a part of the
//! addresses for itself (COPY_SERVER_RESERVED_PDES).
//!
//! Source: OGKM, gpu_vaspace.c, gvaspaceExternalRootDirCommit_IMPL, gvaspaceCopyServerReservedPdes_IMPL; ctrl/ctrl90f1.h; ctrl/ctrl0080/
//! ctrl0080dma.h; Linux, nvkm/subdev/gsp/rm/r535/vmm.c, r535_mmu_promote_vmm.

use drivers_spec::nv::memory::{VASPACE_FLAGS, vaspace_flags};
use drivers_spec::nv::{class, status};
use twin::rule::{Proof, Rule};

use super::{Call, Kind};
use crate::pci::memory::{Aperture, Place, long, word};
use crate::pci::mmu::table::{self, Level, Version};
use crate::rm::{alloc, vaspace};

static DIRECTORY: Rule = Rule {
    name: "NV-SPACE-DIRECTORY",
    text: "SET_PAGE_DIRECTORY has an address space that is externally owned, and has none, or under shared management; an aperture; \
           as many entries as the address space needs, up to 4, of Hopper and Blackwell 2; and a page directory at a multiple of \
           4 KiB, in memory that is there",
    source: "OGKM, gpu_vaspace.c, gvaspaceExternalRootDirCommit_IMPL; ctrl0080dma.h, NV0080_CTRL_DMA_SET_PAGE_DIRECTORY",
    proof: Proof::Sourced,
};

static RESERVED: Rule = Rule {
    name: "NV-SPACE-RESERVED-PDES",
    text: "COPY_SERVER_RESERVED_PDES has the 512 MiB from 4 GiB on, a page size of one bit and 1 to 6 levels from the root on \
           (pageShift 47, 38, 29, of Hopper and Blackwell 56 before), each with its aperture and size, at a multiple of 4 KiB, \
           in memory that is there; and each is where the entry of the level before it leads for virtAddrLo",
    source: "OGKM, gpu_vaspace.c, gvaspaceCopyServerReservedPdes_IMPL, gvaspaceReserveSplitVaSpace_IMPL; Linux, nvkm/subdev/gsp/rm/\
             r535/vmm.c, r535_mmu_vaspace_new: Some parts of RM expect the server-reserved area to be here",
    proof: Proof::Sourced,
};

static OWNER: Rule = Rule {
    name: "NV-SPACE-RESERVED-NOT-MODELLED",
    text: "COPY_SERVER_RESERVED_PDES has an address space that is not externally owned: one with tables of both is not modelled",
    source: "this twin: src/pci/gsp/objects/space.rs",
    proof: Proof::Twin,
};

static FAULTING: Rule = Rule {
    name: "NV-SPACE-FAULTS-NOT-MODELLED",
    text: "an address space has no ENABLE_PAGE_FAULTING: faults that are replayed are not modelled, nor address spaces of devices",
    source: "this twin: src/pci/gsp/objects/space.rs",
    proof: Proof::Twin,
};

/// An address space.
pub(super) struct Space {
    /// The last address.
    last: u64,
    pub(super) external: bool,
    managed: bool,
    /// Firmware has a part of its addresses.
    pub(super) is_split: bool,
    /// Its page directory.
    pub(super) root: Option<Place>,
}

/// Which addresses firmware has for itself: `SPLIT_VAS_SERVER_RM_MANAGED_VA_START` and `_SIZE`.
pub(super) const RESERVED_VA: std::ops::Range<u64> = 0x1_0000_0000..0x1_2000_0000;

/// Bytes of the table of a level; that of the root is smaller.
fn table_bytes(version: Version, level: Level) -> u64 {
    match (version, level) {
        (_, Level::Pde4) => 0x10,
        (Version::Two, Level::Pde3) => 0x20,
        _ => 0x1000,
    }
}

/// `GMMU_FMT_MAX_LEVELS`.
const MOST: u32 = 6;
/// Bytes of the parameters of COPY_SERVER_RESERVED_PDES, and where levels are.
const COPY_BYTES: usize = 0xb8;
const COPY_LEVELS: usize = 0x28;
const COPY_LEVEL: usize = 0x18;

impl Call<'_> {
    /// FERMI_VASPACE_A.
    pub(super) fn new_space(&self, given: &[u8]) -> Result<Space, u32> {
        let bits = self.version().bits();
        let params = self.decode::<class::VaspaceAlloc>(given, &alloc::SIZE)?;
        let unknown = params.flags & !VASPACE_FLAGS.mask(self.branch);
        let last = match params.va_size {
            0 => Some((1 << bits) - 1),
            size => params.va_base.checked_add(size - 1),
        };
        let right = params.index == 0
            && matches!(params.big_page_size, 0 | 0x1_0000)
            && unknown == 0
            && last.is_some_and(|last| last > params.va_base && last >> bits == 0);
        let Some(last) = last.filter(|_| right) else {
            let what = format!(
                "index {}, big pages {:#x}, flags {:#x}, {:#x} bytes from {:#x}",
                params.index, params.big_page_size, params.flags, params.va_size, params.va_base
            );
            return self.refuse(&vaspace::SPACE, status::NV_ERR_INVALID_ARGUMENT, what);
        };
        if vaspace_flags::ENABLE_PAGE_FAULTING.get(params.flags) != 0 {
            let what = format!("flags {:#x}", params.flags);
            self.state.journal.broken(&FAULTING, what);
        }
        Ok(Space {
            last,
            external: vaspace_flags::IS_EXTERNALLY_OWNED.get(params.flags) != 0,
            managed: vaspace_flags::SHARED_MANAGEMENT.get(params.flags) != 0,
            is_split: false,
            root: None,
        })
    }

    fn version(&self) -> Version {
        Version::of(self.state.config.chip)
    }

    /// The address space of a handle.
    pub(super) fn space(&self, handle: u32) -> Result<&Space, u32> {
        if handle == 0 {
            let what = "the address space of a device".into();
            return self.refuse(&FAULTING, status::NV_ERR_NOT_SUPPORTED, what);
        }
        self.class_of(handle)?;
        match self.objects.get(self.client, handle).map(|one| &one.kind) {
            Some(Kind::Space(space)) => Ok(space),
            _ => {
                let what = format!("object {handle:#x} is no address space");
                let none = status::NV_ERR_OBJECT_NOT_FOUND;
                self.refuse(&crate::rm::OBJECT, none, what)
            }
        }
    }

    fn set_root(&mut self, handle: u32, root: Option<Place>) {
        let object = self.objects.all.get_mut(&(self.client, handle));
        if let Some(Kind::Space(space)) = object.map(|object| &mut object.kind) {
            space.root = root;
        }
    }

    /// Whether a channel runs in it.
    fn is_used(&self, handle: u32) -> bool {
        let client = self.client;
        self.objects
            .channels()
            .any(|channel| channel.made.client == client && channel.space == handle)
    }

    /// SET_PAGE_DIRECTORY, of a device.
    pub(super) fn set_page_directory(&mut self, device: u32, given: &[u8]) -> Result<(), u32> {
        self.of_class(device, class::NV01_DEVICE_0.number)?;
        self.has_size(given, 0x20)?;
        let (entries, flags, handle) = (word(given, 8), word(given, 12), word(given, 16));
        let space = self.space(handle)?;
        let wrong = |status: u32, what: &str| {
            let what = format!("{what}: {entries} entries, flags {flags:#x}");
            self.refuse(&DIRECTORY, status, what)
        };
        if space.external && space.root.is_some() {
            let again = "the address space has one";
            return wrong(status::NV_ERR_INVALID_STATE, again);
        }
        let aperture = match flags & 3 {
            0 => Aperture::Vram,
            1 | 2 => Aperture::Host,
            _ => return wrong(status::NV_ERR_INVALID_ARGUMENT, "aperture 3"),
        };
        let (shift, most) = match self.version() {
            Version::Two => (Level::Pde3.shift(), 4),
            Version::Three => (Level::Pde4.shift(), 2),
        };
        let limit = u64::from(entries) << shift;
        if entries > most || limit <= space.last {
            return wrong(status::NV_ERR_INVALID_ARGUMENT, "its addresses");
        }
        if !space.external && !space.managed || self.is_used(handle) {
            return wrong(status::NV_ERR_NOT_SUPPORTED, "the address space");
        }
        let at = long(given, 0);
        let place = Place { aperture, at };
        let is_there = self.state.physical().allows(place, u64::from(entries) * 8);
        if !at.is_multiple_of(0x1000) || !is_there {
            let what = format!("the page directory at {place}");
            return wrong(status::NV_ERR_INVALID_ARGUMENT, &what);
        }
        self.set_root(handle, Some(place));
        Ok(())
    }

    /// UNSET_PAGE_DIRECTORY.
    pub(super) fn unset_page_directory(&mut self, handle: u32) -> Result<(), u32> {
        let has = self.space(handle)?.root.is_some();
        if !has || self.is_used(handle) {
            let what = format!("address space {handle:#x} has no page directory, or channels");
            return self.refuse(&DIRECTORY, status::NV_ERR_INVALID_STATE, what);
        }
        self.set_root(handle, None);
        Ok(())
    }

    /// COPY_SERVER_RESERVED_PDES.
    pub(super) fn copy_reserved(&mut self, handle: u32, given: &[u8]) -> Result<(), u32> {
        if self.space(handle)?.external {
            let what = format!("address space {handle:#x}");
            return self.refuse(&OWNER, status::NV_ERR_NOT_SUPPORTED, what);
        }
        self.has_size(given, COPY_BYTES)?;
        let (page, low, count) = (long(given, 8), long(given, 0x10), word(given, 0x20));
        let last = long(given, 0x18);
        let wrong = |what: String| {
            let invalid = status::NV_ERR_INVALID_ARGUMENT;
            self.refuse(&RESERVED, invalid, what)
        };
        if count == 0 || count > MOST || !page.is_power_of_two() {
            return wrong(format!("{count} levels, pages of {page:#x}"));
        }
        if low != RESERVED_VA.start || last != RESERVED_VA.end - 1 {
            return wrong(format!("{low:#x} to {last:#x}"));
        }
        let physical = self.state.physical();
        let version = self.version();
        let mut leads: Option<Place> = None;
        let mut root = None;
        for i in 0..count as usize {
            let level = &given[COPY_LEVELS + COPY_LEVEL * i..][..COPY_LEVEL];
            let (at, bytes) = (long(level, 0), long(level, 8));
            let text = format!("level {i}: {level:x?}");
            // GMMU_APERTURE_*: INVALID, VIDEO, PEER, SYS_NONCOH, SYS_COH.
            let aperture = match word(level, 0x10) {
                1 => Aperture::Vram,
                3 | 4 => Aperture::Host,
                _ => return wrong(text),
            };
            let place = Place { aperture, at };
            let Some(which) = version.upper().get(i).copied() else {
                return wrong(text);
            };
            let least = table_bytes(version, which);
            let fits = u32::from(level[0x14]) == which.shift() && bytes >= least;
            if !fits || !at.is_multiple_of(0x1000) || !physical.allows(place, bytes) {
                return wrong(text);
            }
            if root.is_some() && leads != Some(place) {
                return wrong(format!("{text}: the level before it leads to {leads:?}"));
            }
            let entry = physical.long(table::entry(which, place, low), "GSP, page tables");
            leads = entry.and_then(|entry| table::next(version, entry));
            root = root.or(Some(place));
        }
        self.set_root(handle, root);
        let object = self.objects.all.get_mut(&(self.client, handle));
        if let Some(Kind::Space(space)) = object.map(|object| &mut object.kind) {
            space.is_split = true;
        }
        Ok(())
    }
}
