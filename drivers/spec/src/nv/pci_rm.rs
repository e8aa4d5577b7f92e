//! What RM on GSP is asked by the driver of a card: what NVIDIA's kernel driver asks for its clients, and clients
//! themselves do not.
//!
//! Layouts follow the branch of the firmware, see [`super::abi`]. Where fields of a long struct are read and no others,
//! there are their offsets.
//!
//! Source: open-gpu-kernel-modules 535.113.01, 550.163.01 and 570.144, src/common/sdk/nvidia/inc/ctrl:
//! ctrl2080/{ctrl2080internal,ctrl2080fifo,ctrl2080gpu,ctrl2080ce,ctrl2080fb}.h, ctrl0080/{ctrl0080dma,ctrl0080fifo}.h,
//! ctrl90f1.h, ctrla06c.h;
//! alloc/alloc_channel.h (`NVOS04_FLAGS`); src/nvidia: generated/{g_rpc-structures,g_sdk-structures}.h,
//! generated/g_kernel_channel_nvoc.h (`NV_KERNELCHANNEL_ALLOC_INTERNALFLAGS`), inc/kernel/gpu/gsp/gsp_static_config.h,
//! inc/kernel/gpu/fifo/engine_info.h; offsets as a C compiler has them.

use super::abi::{Branch, Call, calls, structs};
use super::chip::Arch;
use super::class::GrAlloc;
use super::query::Info;

/// Calls, `NV_VGPU_MSG_FUNCTION_*`.
pub mod function {
    /// Where the page directory of an address space is: [`super::SetPageDirectory`].
    pub const SET_PAGE_DIRECTORY: u32 = 54;
    /// What RM knows of the card: [`super::StaticInfo`].
    pub const GET_GSP_STATIC_INFO: u32 = 65;
    /// The address space has no page directory any more: [`super::UnsetPageDirectory`].
    pub const UNSET_PAGE_DIRECTORY: u32 = 79;
}

calls! {
    /// Controls.
    CONTROLS, "";
    /// The buffers of graphics contexts, by number.
    NV2080_CTRL_CMD_INTERNAL_STATIC_KGR_GET_CONTEXT_BUFFERS_INFO = 0x20800a32: ContextBuffersInfo where TO_570;
    /// The units of graphics, as `GR_GET_INFO` tells clients.
    NV2080_CTRL_CMD_INTERNAL_STATIC_KGR_GET_INFO = 0x20800a2a: KgrInfo where TO_570;
    /// The buffers of a channel's graphics context.
    NV2080_CTRL_CMD_GPU_PROMOTE_CTX = 0x2080012b: PromoteCtx where TO_570;
    /// The engines and their runlists.
    NV2080_CTRL_CMD_FIFO_GET_DEVICE_INFO_TABLE = 0x20801112: DeviceInfoTable where TO_570;
    /// How much memory a channel group needs for methods that have faulted.
    NV2080_CTRL_CMD_CE_GET_FAULT_METHOD_BUFFER_SIZE = 0x20802a08: MethodBufferSize where TO_570;
    /// Which copy engines have no hardware.
    NV2080_CTRL_CMD_CE_UPDATE_CLASS_DB = 0x20802a06: StubbedCopies where TO_570;
    /// Where a channel group has its memory for methods that have faulted.
    NVA06C_CTRL_CMD_INTERNAL_PROMOTE_FAULT_METHOD_BUFFERS = 0xa06c010a: PromoteMethodBuffers where TO_570;
    /// The upper page tables of an address space in which RM has a part of the addresses for itself.
    NV90F1_CTRL_CMD_VASPACE_COPY_SERVER_RESERVED_PDES = 0x90f10106: CopyReservedPdes where TO_570;
}

calls! {
    /// The classes of graphics.
    GRAPHICS, "";
    AMPERE_A = 0xc697: GrAlloc;
    AMPERE_B = 0xc797: GrAlloc;
    ADA_A = 0xc997: GrAlloc;
    HOPPER_A = 0xcb97: GrAlloc;
    BLACKWELL_A = 0xcd97: GrAlloc where FROM_570;
    BLACKWELL_B = 0xce97: GrAlloc where FROM_570;
}

/// The class of graphics of a generation.
pub const fn graphics(arch: Arch) -> Call {
    match arch {
        Arch::Ga100 => AMPERE_A,
        Arch::Ga10x => AMPERE_B,
        Arch::Ad10x => ADA_A,
        Arch::Gh100 => HOPPER_A,
        Arch::Gb10x => BLACKWELL_A,
        Arch::Gb20x => BLACKWELL_B,
    }
}

/// A buffer of graphics contexts.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
)]
#[repr(C)]
pub struct BufferInfo {
    /// `size`; [`NO_BUFFER`] where there is none.
    pub size: u32,
    /// `alignment`.
    pub alignment: u32,
}

/// [`BufferInfo::size`] of what a chip does not have.
pub const NO_BUFFER: u32 = u32::MAX;

/// An engine.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
)]
#[repr(C)]
pub struct DeviceEntry {
    /// `engineData`, see [`engine_info`].
    pub engine_data: [u32; 16],
    /// `pbdmaIds`.
    pub pbdma_ids: [u32; 2],
    /// `pbdmaFaultIds`.
    pub pbdma_fault_ids: [u32; 2],
    /// `numPbdmas`.
    pub num_pbdmas: u32,
    /// `engineName`.
    pub engine_name: [u8; 16],
}

/// What [`DeviceEntry::engine_data`] has, `ENGINE_INFO_TYPE_*`.
pub mod engine_info {
    /// `RM_ENGINE_TYPE_*`: graphics and the first ten copy engines have the numbers of [`super::super::class::engine`].
    pub const RM_ENGINE_TYPE: usize = 2;
    /// The runlist of its channels.
    pub const RUNLIST: usize = 3;
}

/// Entries of [`DeviceInfoTable`] that are told at a time.
pub const DEVICE_ENTRIES: u32 = 32;

/// A buffer that is promoted.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
)]
#[repr(C)]
pub struct PromoteEntry {
    /// `gpuPhysAddr`.
    pub gpu_phys_addr: u64,
    /// `gpuVirtAddr`.
    pub gpu_virt_addr: u64,
    /// `size`.
    pub size: u64,
    /// `physAttr`.
    pub phys_attr: u32,
    /// `bufferId`.
    pub buffer_id: u16,
    /// `bInitialize`: RM fills it first. It holds zeros.
    pub initialize: u8,
    /// `bNonmapped`: it has no virtual address here.
    pub nonmapped: u8,
}

/// Of [`PromoteEntry::phys_attr`]: in VRAM, not kept by the cache of the GPU (`NV2080_CTRL_GPU_INITIALIZE_CTX_APERTURE`
/// 1:0, `_GPU_CACHEABLE` 2:2).
pub const VRAM_UNCACHED: u32 = 4;

/// Memory that RM on GSP is told of, `NV2080_CTRL_INTERNAL_MEMDESC_INFO`.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
)]
#[repr(C)]
pub struct MemdescInfo {
    /// `base`.
    pub base: u64,
    /// `size`.
    pub size: u64,
    /// `alignment`.
    pub alignment: u64,
    /// `addressSpace`, see [`ADDR_FBMEM`].
    pub address_space: u32,
    /// `cpuCacheAttrib`, see [`MEMORY_UNCACHED`].
    pub cpu_cache_attrib: u32,
}

/// A page table of an upper level, of [`CopyReservedPdes`].
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
)]
#[repr(C)]
pub struct PageLevel {
    /// `physAddress`.
    pub phys_address: u64,
    /// `size`.
    pub size: u64,
    /// `aperture`, see [`APERTURE_VIDEO`].
    pub aperture: u32,
    /// `pageShift`: what an entry covers, as a power of two.
    pub page_shift: u8,
    /// Padding of the compiler.
    pub gap: [u8; 3],
}

/// Of [`PageLevel::aperture`]: `GMMU_APERTURE_VIDEO`.
pub const APERTURE_VIDEO: u32 = 1;
/// Levels that [`CopyReservedPdes`] has room for, `GMMU_FMT_MAX_LEVELS`.
pub const PAGE_LEVELS: usize = 6;
/// Where RM on GSP has addresses for itself, `SPLIT_VAS_SERVER_RM_MANAGED_VA_START` and `_SIZE`; and what an entry of the
/// last level covers that it is told of, as a power of two (`GMMU_PD1_VADDR_BIT_LO`).
pub const RESERVED_START: u64 = 4 << 30;
/// Bytes of them.
pub const RESERVED_BYTES: u64 = 512 << 20;
/// See [`RESERVED_START`].
pub const RESERVED_SHIFT: u32 = 29;

/// Runqueues of a runlist, each with memory for methods of its own: `kfifoGetNumRunqueues`,
/// `NVC36F_CTRL_CMD_GPFIFO_FAULT_METHOD_BUFFER_MAX_RUNQUEUES`.
pub const RUNQUEUES: usize = 2;

/// Entries of a promotion.
pub const PROMOTE_ENTRIES: usize = 16;

structs! { LAYOUTS;
    /// [`function::SET_PAGE_DIRECTORY`].
    SetPageDirectory "rpc_set_page_directory_v1E_05" where TO_570 {
        h_client "hClient": u32,
        h_device "hDevice": u32,
        pasid "pasid": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        phys_address "params.physAddress": u64,
        num_entries "params.numEntries": u32,
        /// See [`SET_ALL_CHANNELS`].
        flags "params.flags": u32,
        h_va_space "params.hVASpace": u32,
        ch_id "params.chId": u32,
        /// The number of the subdevice and 1; 0 for all.
        sub_device_id "params.subDeviceId": u32,
        params_pasid "params.pasid": u32,
    }
    /// [`function::UNSET_PAGE_DIRECTORY`].
    UnsetPageDirectory "rpc_unset_page_directory_v1E_05" where TO_570 {
        h_client "hClient": u32,
        h_device "hDevice": u32,
        h_va_space "params.hVASpace": u32,
        sub_device_id "params.subDeviceId": u32,
    }
    /// The buffers of eight graphics engines, of which the first is there where there is no MIG.
    ContextBuffersInfo "NV2080_CTRL_INTERNAL_STATIC_GR_GET_CONTEXT_BUFFERS_INFO_PARAMS" where TO_570 {
        first "engineContextBuffersInfo[0]": [BufferInfo; 26] [R535 25],
        others "engineContextBuffersInfo[1]": [BufferInfo; 182] [R535 175],
    }
    /// Likewise the units, by their numbers.
    KgrInfo "NV2080_CTRL_INTERNAL_STATIC_GR_GET_INFO_PARAMS" where TO_570 {
        first "engineInfo[0]": [Info; 58] [R535 53, R550 56],
        others "engineInfo[1]": [Info; 406] [R535 371, R550 392],
    }
    /// GPU_PROMOTE_CTX.
    PromoteCtx "NV2080_CTRL_GPU_PROMOTE_CTX_PARAMS" where TO_570 {
        engine_type "engineType": u32,
        h_client "hClient": u32,
        ch_id "ChID": u32,
        /// Whose channel it is.
        h_chan_client "hChanClient": u32,
        /// The channel.
        h_object "hObject": u32,
        h_virt_memory "hVirtMemory": u32,
        virt_address "virtAddress": u64,
        size "size": u64,
        entry_count "entryCount": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        promote_entry "promoteEntry": [PromoteEntry; 16],
    }
    /// FIFO_GET_DEVICE_INFO_TABLE.
    DeviceInfoTable "NV2080_CTRL_FIFO_GET_DEVICE_INFO_TABLE_PARAMS" where TO_570 {
        /// A multiple of [`DEVICE_ENTRIES`].
        base_index "baseIndex": u32,
        num_entries "numEntries": u32,
        more "bMore": u8,
        /// Padding of the compiler.
        gap "": [u8; 3],
        entries "entries": [DeviceEntry; 32],
    }
    /// CE_GET_FAULT_METHOD_BUFFER_SIZE.
    MethodBufferSize "NV2080_CTRL_CE_GET_FAULT_METHOD_BUFFER_SIZE_PARAMS" where TO_570 {
        size "size": u32,
    }
    /// CE_UPDATE_CLASS_DB.
    StubbedCopies "NV2080_CTRL_CE_UPDATE_CLASS_DB_PARAMS" where TO_570 {
        /// A bit for each copy engine, from the first one on.
        stubbed_ce_mask "stubbedCeMask": u32,
    }
    /// INTERNAL_PROMOTE_FAULT_METHOD_BUFFERS.
    PromoteMethodBuffers "NVA06C_CTRL_INTERNAL_PROMOTE_FAULT_METHOD_BUFFERS_PARAMS" where TO_570 {
        method_buffer_memdesc "methodBufferMemdesc": [MemdescInfo; 2],
        /// Of a host that is virtual.
        bar2_addr "bar2Addr": [u64; 2],
        num_valid_entries "numValidEntries": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// VASPACE_COPY_SERVER_RESERVED_PDES.
    CopyReservedPdes "NV90F1_CTRL_VASPACE_COPY_SERVER_RESERVED_PDES_PARAMS" where TO_570 {
        h_sub_device "hSubDevice": u32,
        sub_device_id "subDeviceId": u32,
        /// What an entry of the last of these levels covers.
        page_size "pageSize": u64,
        virt_addr_lo "virtAddrLo": u64,
        /// The last address.
        virt_addr_hi "virtAddrHi": u64,
        num_levels_to_copy "numLevelsToCopy": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        /// From the root on.
        levels "levels": [PageLevel; 6],
    }
}

/// Of [`SetPageDirectory::flags`]: for all channels (3:3); the page directory is in VRAM (1:0).
pub const SET_ALL_CHANNELS: u32 = 1 << 3;
/// No process address space.
pub const NO_PASID: u32 = u32::MAX;

/// `GspStaticConfigInfo`: its length, and where fields are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StaticInfo {
    /// Bytes of all of it.
    pub bytes: usize,
    /// `fbRegionInfoParams`: how many there are; [`Region`]s follow at an offset of 8.
    pub regions: usize,
    /// `gpuNameString`, 64 bytes.
    pub name: usize,
    /// `bar1PdeBase`: where in VRAM the page directory of BAR1 is.
    pub bar1_pde_base: usize,
    /// `hInternalClient`, and `hInternalSubdevice`.
    pub internal: [usize; 2],
}

/// Regions of VRAM that there may be.
pub const REGIONS: usize = 16;
/// Bytes of `gpuNameString`.
pub const NAME: usize = 64;

/// `NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO`: a region of VRAM.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
)]
#[repr(C)]
pub struct Region {
    /// `base`.
    pub base: u64,
    /// `limit`: the last byte.
    pub limit: u64,
    /// `reserved`: bytes of it that RM has for itself.
    pub reserved: u64,
    /// `performance`.
    pub performance: u32,
    /// `supportCompressed`.
    pub support_compressed: u8,
    /// `supportISO`.
    pub support_iso: u8,
    /// `bProtected`.
    pub protected: u8,
    /// `blackList`.
    pub black_list: [u8; 16],
    /// Padding of the compiler.
    pub gap: u8,
}
const _: () = assert!(size_of::<Region>() == 0x30);

/// Where the fields are in a branch; none of one that is not described.
pub const fn static_info(branch: Branch) -> Option<StaticInfo> {
    Some(match branch {
        Branch::R535 => StaticInfo {
            bytes: 0x878,
            regions: 0x348,
            name: 0x71c,
            bar1_pde_base: 0x828,
            internal: [0x868, 0x870],
        },
        Branch::R550 => StaticInfo {
            bytes: 0x888,
            regions: 0x358,
            name: 0x72c,
            bar1_pde_base: 0x838,
            internal: [0x878, 0x880],
        },
        Branch::R570 => StaticInfo {
            bytes: 0x678,
            regions: 0x158,
            name: 0x4ec,
            bar1_pde_base: 0x600,
            internal: [0x640, 0x648],
        },
        Branch::R580 => return None,
    })
}

/// The numbers of context buffers in [`ContextBuffersInfo`],
/// `NV0080_CTRL_FIFO_GET_ENGINE_CONTEXT_PROPERTIES_ENGINE_ID_*`.
pub mod buffer {
    /// The context itself.
    pub const GRAPHICS: usize = 0x0;
    /// Register writes to come.
    pub const GRAPHICS_PATCH: usize = 0x10;
    /// Those of all contexts.
    pub const GRAPHICS_BUNDLE_CB: usize = 0x11;
    /// Likewise, `_GRAPHICS_PAGEPOOL_GLOBAL`: `_GRAPHICS_PAGEPOOL` (0xd) is that of a context by itself.
    pub const GRAPHICS_PAGEPOOL: usize = 0x12;
    /// Likewise.
    pub const GRAPHICS_ATTRIBUTE_CB: usize = 0x13;
    /// Likewise.
    pub const GRAPHICS_RTV_CB_GLOBAL: usize = 0x14;
    /// Likewise.
    pub const GRAPHICS_FECS_EVENT: usize = 0x17;
    /// Which registers a context may access.
    pub const GRAPHICS_PRIV_ACCESS_MAP: usize = 0x18;
}

/// The numbers of context buffers in [`PromoteEntry::buffer_id`], `NV2080_CTRL_GPU_PROMOTE_CTX_BUFFER_ID_*`.
pub mod promoted {
    /// The context itself.
    pub const MAIN: u16 = 0;
    /// Register writes to come.
    pub const PATCH: u16 = 2;
    /// Those of all contexts.
    pub const BUFFER_BUNDLE_CB: u16 = 3;
    /// Likewise.
    pub const PAGEPOOL: u16 = 4;
    /// Likewise.
    pub const ATTRIBUTE_CB: u16 = 5;
    /// Likewise.
    pub const RTV_CB_GLOBAL: u16 = 6;
    /// Likewise.
    pub const FECS_EVENT: u16 = 9;
    /// Which registers a context may access.
    pub const PRIV_ACCESS_MAP: u16 = 10;
    /// The same, of all contexts that may access all.
    pub const UNRESTRICTED_PRIV_ACCESS_MAP: u16 = 11;
}

/// What a channel is made with, `NVOS04_FLAGS`.
pub mod channel_flags {
    /// It may do what drivers may.
    pub const PRIVILEGED_CHANNEL: u32 = 1 << 5;
    /// The number of the channel within a page of USERD: `CHANNEL_USERD_INDEX_VALUE`, 10:8.
    pub const USERD_INDEX_SHIFT: u32 = 8;
    /// That of the page: `CHANNEL_USERD_INDEX_PAGE_VALUE`, 20:12.
    pub const USERD_PAGE_SHIFT: u32 = 12;
    /// The two above are the channel's number: `CHANNEL_USERD_INDEX_PAGE_FIXED`.
    pub const USERD_PAGE_FIXED: u32 = 1 << 21;
    /// Channels of a page of USERD.
    pub const PER_PAGE: u32 = 8;
}

/// What a driver says of a channel, `NV_KERNELCHANNEL_ALLOC_INTERNALFLAGS`.
pub mod internal_flags {
    /// `PRIVILEGE_ADMIN`, 1:0; a user's is 0.
    pub const ADMIN: u32 = 1;
    /// It has no notifier of errors, nor of ECC errors: `ERROR_NOTIFIER_TYPE_NONE` 3:2, 5:4.
    pub const NO_NOTIFIERS: u32 = 1 << 2 | 1 << 4;
}

/// Where memory is, of [`super::class::MemoryDesc`]: `ADDR_FBMEM`.
pub const ADDR_FBMEM: u32 = 2;
/// How the host caches it, likewise: `NV_MEMORY_UNCACHED`.
pub const MEMORY_UNCACHED: u32 = 1;

#[cfg(test)]
mod tests {
    use super::super::abi::{Layout, Struct};
    use super::*;

    /// By the vendor's headers and a C compiler: 535.113.01, 550.163.01, 570.144.
    #[test]
    fn sizes_are_those_of_the_vendors_headers() {
        let sizes = |layout: &Layout| {
            let all = [Branch::R535, Branch::R550, Branch::R570];
            all.map(|branch| layout.size(branch))
        };
        assert_eq!(sizes(&ContextBuffersInfo::LAYOUT), [0x640, 0x680, 0x680]);
        assert_eq!(sizes(&KgrInfo::LAYOUT), [0xd40, 0xe00, 0xe80]);
        assert_eq!(sizes(&PromoteCtx::LAYOUT), [0x230; 3]);
        assert_eq!(sizes(&DeviceInfoTable::LAYOUT), [0xc8c; 3]);
        assert_eq!(sizes(&MethodBufferSize::LAYOUT), [4; 3]);
        assert_eq!(sizes(&StubbedCopies::LAYOUT), [4; 3]);
        assert_eq!(sizes(&PromoteMethodBuffers::LAYOUT), [0x58; 3]);
        assert_eq!(sizes(&CopyReservedPdes::LAYOUT), [0xb8; 3]);
        assert_eq!(sizes(&SetPageDirectory::LAYOUT), [0x30; 3]);
        assert_eq!(sizes(&UnsetPageDirectory::LAYOUT), [0x10; 3]);
        assert_eq!(size_of::<PromoteEntry>(), 0x20);
        assert_eq!(size_of::<DeviceEntry>(), 100);
    }

    #[test]
    fn fields_of_the_static_info_lie_inside_of_it() {
        for branch in [Branch::R535, Branch::R550, Branch::R570] {
            let info = static_info(branch).unwrap();
            assert!(info.regions + 8 + REGIONS * size_of::<Region>() <= info.bytes);
            assert!(info.name + NAME <= info.bar1_pde_base);
            assert!(info.internal.iter().all(|at| at + 4 <= info.bytes));
        }
        assert_eq!(static_info(Branch::R580), None);
    }

    #[test]
    fn every_generation_has_a_class_of_graphics() {
        for arch in Arch::ALL {
            let class = graphics(arch);
            assert_eq!(class.number & 0xff, 0x97);
            assert!(GRAPHICS.iter().any(|one| one.number == class.number));
        }
    }
}
