//! The classes of RM's objects, and what making one takes.
//!
//! Source: open-gpu-kernel-modules, src/common/sdk/nvidia/inc/{class,alloc,ctrl}/*.h and nvos.h,
//! src/nvidia/src/kernel/rmapi/resource_list.h; 535.288.01, 550.163.01, 570.211.01, 580.142. RM copies as many bytes of parameters as its own struct
//! has, whatever size it is told: a shorter struct is read past its end.

use super::abi::{Branch, calls, structs};

/// Engines by number, `NV2080_ENGINE_TYPE_*`.
pub mod engine {
    /// None.
    pub const NULL: u32 = 0;
    /// Graphics and compute.
    pub const GRAPHICS: u32 = 1;
    /// The first copy engine; the next nine follow.
    pub const COPY0: u32 = 9;
    /// The last one of that row.
    pub const COPY9: u32 = 0x12;
}

/// What an event is of: `notifyIndex` of its parameters.
///
/// Source: nvos.h, `NV01_EVENT_*`; class/cl0005.h, `NV0005_NOTIFY_INDEX_*`; class/cl2080_notification.h,
/// `NV2080_NOTIFIERS_*`; src/nvidia/src/kernel/rmapi/event_notification.c.
pub mod notify {
    use super::Branch;

    /// The bits of the index itself.
    pub const INDEX: u32 = 0xffff;
    /// Of engines' interrupts that do not stall.
    pub const NONSTALL_INTR: u32 = 1 << 27;
    /// `poll` forgets it; else GET_EVENT_DATA takes it.
    pub const WITHOUT_EVENT_DATA: u32 = 1 << 28;
    /// A timer.
    pub const TIMER: u32 = 11;
    /// The first engine of graphics and compute.
    pub const GRAPHICS: u32 = 12;
    /// The first copy engine; the next nine follow.
    pub const CE0: u32 = 23;
    /// The host; all engines that it drives raise this one, too.
    pub const FIFO_EVENT_MTHD: u32 = 35;
    /// A channel has died.
    pub const RC_ERROR: u32 = 37;

    /// How many indices a subdevice has.
    pub fn count(branch: Branch) -> u32 {
        match branch {
            Branch::R535 => 181,
            Branch::R550 => 187,
            Branch::R570 => 197,
            Branch::R580 => 198,
        }
    }

    /// Whether an index is one of an engine that has interrupts which do not stall.
    pub fn of_engine(branch: Branch, index: u32) -> bool {
        match index {
            GRAPHICS..=32 | FIFO_EVENT_MTHD | 38..=40 | 115 | 126..=133 | 146..=153 => true,
            166..=175 | 180 | 183 => branch >= Branch::R570,
            _ => false,
        }
    }
}

calls! {
    /// Every class that is described here. A GPU has some of them; the class list tells which.
    CLASSES, "";
    /// A client; RM makes `NV01_ROOT_CLIENT` of it.
    NV01_ROOT = 0x0;
    /// The same.
    NV01_ROOT_NON_PRIV = 0x1;
    /// The client: the root of a tree of objects.
    NV01_ROOT_CLIENT = 0x41;
    NV01_EVENT = 0x5: EventAlloc;
    /// System memory.
    NV01_MEMORY_SYSTEM = 0x3e: MemoryAlloc;
    /// Memory of the GPU.
    NV01_MEMORY_LOCAL_USER = 0x40: MemoryAlloc;
    /// Addresses of a GPU.
    NV01_MEMORY_VIRTUAL = 0x70: MemoryVirtualAlloc;
    /// Memory of the process.
    NV01_MEMORY_SYSTEM_OS_DESCRIPTOR = 0x71: OsDescAlloc;
    /// A GPU, for a client.
    NV01_DEVICE_0 = 0x80: Nv0080Alloc;
    /// One of the GPUs of a device.
    NV20_SUBDEVICE_0 = 0x2080: Nv2080Alloc;
    /// What NVIDIA's own programs ask a GPU and its headers do not name.
    NV2081_BINAPI = 0x2081: BinapiAlloc;
    /// The same as `NV01_EVENT`, for a file.
    NV01_EVENT_OS_EVENT = 0x79: EventAlloc;
    /// Addresses of a GPU, for RM_MAP_MEMORY_DMA.
    NV50_MEMORY_VIRTUAL = 0x50a0: MemoryAlloc;
    /// Exceptions of an engine.
    GT200_DEBUGGER = 0x83de: DebuggerAlloc;
    /// A subcontext: which address space of a group a channel uses.
    FERMI_CONTEXT_SHARE_A = 0x9067: CtxShareAlloc;
    /// An address space.
    FERMI_VASPACE_A = 0x90f1: VaspaceAlloc;
    /// A group of channels that are scheduled together.
    KEPLER_CHANNEL_GROUP_A = 0xa06c: ChannelGroupAlloc;
    /// Channels.
    VOLTA_CHANNEL_GPFIFO_A = 0xc36f: ChannelAlloc;
    TURING_CHANNEL_GPFIFO_A = 0xc46f: ChannelAlloc;
    AMPERE_CHANNEL_GPFIFO_A = 0xc56f: ChannelAlloc;
    HOPPER_CHANNEL_GPFIFO_A = 0xc86f: ChannelAlloc;
    BLACKWELL_CHANNEL_GPFIFO_A = 0xc96f: ChannelAlloc where FROM_570;
    BLACKWELL_CHANNEL_GPFIFO_B = 0xca6f: ChannelAlloc where FROM_570;
    /// Compute.
    AMPERE_COMPUTE_A = 0xc6c0: GrAlloc;
    AMPERE_COMPUTE_B = 0xc7c0: GrAlloc;
    ADA_COMPUTE_A = 0xc9c0: GrAlloc;
    HOPPER_COMPUTE_A = 0xcbc0: GrAlloc;
    BLACKWELL_COMPUTE_A = 0xcdc0: GrAlloc where FROM_570;
    BLACKWELL_COMPUTE_B = 0xcec0: GrAlloc where FROM_570;
    /// Copy engines.
    AMPERE_DMA_COPY_A = 0xc6b5: DmaCopyAlloc;
    AMPERE_DMA_COPY_B = 0xc7b5: DmaCopyAlloc;
    HOPPER_DMA_COPY_A = 0xc8b5: DmaCopyAlloc;
    BLACKWELL_DMA_COPY_A = 0xc9b5: DmaCopyAlloc where FROM_570;
    BLACKWELL_DMA_COPY_B = 0xcab5: DmaCopyAlloc where FROM_570;
    /// The page with the doorbell.
    VOLTA_USERMODE_A = 0xc361;
    TURING_USERMODE_A = 0xc461;
    AMPERE_USERMODE_A = 0xc561;
    HOPPER_USERMODE_A = 0xc661: UsermodeAlloc;
    BLACKWELL_USERMODE_A = 0xc761: UsermodeAlloc where FROM_570;
    /// What RM tells all programs of a GPU, in memory that they map: see [`super::shared`].
    RM_USER_SHARED_DATA = 0xde: SharedDataAlloc;
    /// Whether computing is confidential.
    NV_CONFIDENTIAL_COMPUTE = 0xcb33: ConfidentialComputeAlloc;
}

structs! { LAYOUTS;
    /// Of `NV01_MEMORY_SYSTEM_OS_DESCRIPTOR`, by RM_ALLOC.
    OsDescAlloc "NV_OS_DESC_MEMORY_ALLOCATION_PARAMS" {
        kind "type": u32,
        flags "flags": u32,
        attr "attr": u32,
        attr2 "attr2": u32,
        /// For memory of the process, its address: one that the device will use.
        descriptor "descriptor": u64,
        /// Bytes less one.
        limit "limit": u64,
        descriptor_type "descriptorType": u32,
        tag "tag": u32,
    }
    /// Of `NV_CONFIDENTIAL_COMPUTE`.
    ConfidentialComputeAlloc "NV_CONFIDENTIAL_COMPUTE_ALLOC_PARAMS" {
        h_client "hClient": u32,
    }
    /// Of `NV01_DEVICE_0`.
    Nv0080Alloc "NV0080_ALLOC_PARAMETERS" {
        /// The device instance that GPU_GET_ID_INFO_V2 tells.
        device_id "deviceId": u32,
        /// 0, or the client.
        h_client_share "hClientShare": u32,
        h_target_client "hTargetClient": u32,
        h_target_device "hTargetDevice": u32,
        flags "flags": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        va_space_size "vaSpaceSize": u64,
        va_start_internal "vaStartInternal": u64,
        va_limit_internal "vaLimitInternal": u64,
        va_mode "vaMode": u32,
        /// Padding of the compiler.
        gap2 "": [u8; 4],
    }
    /// Of `NV20_SUBDEVICE_0`.
    Nv2080Alloc "NV2080_ALLOC_PARAMETERS" {
        sub_device_id "subDeviceId": u32,
    }
    /// Of `NV2081_BINAPI`.
    BinapiAlloc "NV2081_ALLOC_PARAMETERS" {
        reserved "reserved": u32,
    }
    /// Of the classes of memory.
    MemoryAlloc "NV_MEMORY_ALLOCATION_PARAMS" {
        owner "owner": u32,
        /// See [`super::memory::kind`].
        kind "type": u32,
        /// See [`super::memory::ALLOC_FLAGS`].
        flags "flags": u32,
        width "width": u32,
        height "height": u32,
        pitch "pitch": i32,
        /// See [`super::memory::ATTR`].
        attr "attr": u32,
        /// See [`super::memory::ATTR2`].
        attr2 "attr2": u32,
        format "format": u32,
        compr_covg "comprCovg": u32,
        zcull_covg "zcullCovg": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        range_lo "rangeLo": u64,
        range_hi "rangeHi": u64,
        size "size": u64,
        alignment "alignment": u64,
        /// Where, if the flags fix it; <- where.
        offset "offset": u64,
        /// <-
        limit "limit": u64,
        address "address": u64,
        ctag_offset "ctagOffset": u32,
        h_va_space "hVASpace": u32,
        internalflags "internalflags": u32,
        tag "tag": u32,
        numa_node "numaNode": i32 where FROM_550,
        /// Padding of the compiler.
        gap2 "": [u8; 4],
    }
    /// Of `NV01_MEMORY_VIRTUAL`.
    MemoryVirtualAlloc "NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS" {
        offset "offset": u64,
        limit "limit": u64,
        h_va_space "hVASpace": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// Of `FERMI_VASPACE_A`.
    VaspaceAlloc "NV_VASPACE_ALLOCATION_PARAMETERS" {
        /// 0 for a new one.
        index "index": u32,
        /// See [`super::memory::VASPACE_FLAGS`].
        flags "flags": u32,
        va_size "vaSize": u64,
        va_start_internal "vaStartInternal": u64,
        va_limit_internal "vaLimitInternal": u64,
        big_page_size "bigPageSize": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        va_base "vaBase": u64,
        pasid "pasid": u32 where FROM_580,
        /// Padding of the compiler.
        gap2 "": [u8; 4],
    }
    /// Of `KEPLER_CHANNEL_GROUP_A`.
    ChannelGroupAlloc "NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS" {
        h_object_error "hObjectError": u32,
        h_object_ecc_error "hObjectEccError": u32,
        h_va_space "hVASpace": u32,
        /// See [`engine`].
        engine_type "engineType": u32,
        is_calling_context_vgpu_plugin "bIsCallingContextVgpuPlugin": u8,
        /// Padding of the compiler.
        gap "": [u8; 3],
    }
    /// Of `FERMI_CONTEXT_SHARE_A`.
    CtxShareAlloc "NV_CTXSHARE_ALLOCATION_PARAMETERS" {
        h_va_space "hVASpace": u32,
        /// 0: synchronous, 1: asynchronous, 2: the subcontext that is named.
        flags "flags": u32,
        subctx_id "subctxId": u32,
    }
    /// Memory of a channel that the kernel chooses for its clients.
    MemoryDesc "NV_MEMORY_DESC_PARAMS" {
        base "base": u64,
        size "size": u64,
        address_space "addressSpace": u32,
        cache_attrib "cacheAttrib": u32,
    }
    /// Of the classes of channels.
    ChannelAlloc "NV_CHANNEL_ALLOC_PARAMS" {
        h_object_error "hObjectError": u32,
        h_object_buffer "hObjectBuffer": u32,
        /// Where the ring of entries is, for the GPU.
        gp_fifo_offset "gpFifoOffset": u64,
        /// A power of two.
        gp_fifo_entries "gpFifoEntries": u32,
        flags "flags": u32,
        /// This or `hVASpace`; in a group of channels, never the latter.
        h_context_share "hContextShare": u32,
        h_va_space "hVASpace": u32,
        h_userd_memory "hUserdMemory": [u32; 8],
        userd_offset "userdOffset": [u64; 8],
        /// That of the group.
        engine_type "engineType": u32,
        cid "cid": u32,
        sub_device_id "subDeviceId": u32,
        h_object_ecc_error "hObjectEccError": u32,
        instance_mem "instanceMem": MemoryDesc,
        userd_mem "userdMem": MemoryDesc,
        ramfc_mem "ramfcMem": MemoryDesc,
        mthdbuf_mem "mthdbufMem": MemoryDesc,
        h_phys_channel_group "hPhysChannelGroup": u32,
        internal_flags "internalFlags": u32,
        error_notifier_mem "errorNotifierMem": MemoryDesc,
        ecc_error_notifier_mem "eccErrorNotifierMem": MemoryDesc,
        process_id "ProcessID": u32,
        sub_process_id "SubProcessID": u32,
        encrypt_iv "encryptIv": [u32; 3],
        decrypt_iv "decryptIv": [u32; 3],
        hmac_nonce "hmacNonce": [u32; 8],
        tpc_config_id "tpcConfigID": u32 where FROM_570,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// Of the classes of compute; may be left out.
    GrAlloc "NV_GR_ALLOCATION_PARAMETERS" {
        version "version": u32,
        flags "flags": u32,
        size "size": u32,
        caps "caps": u32,
    }
    /// Of the classes of copy engines.
    DmaCopyAlloc "NVB0B5_ALLOCATION_PARAMETERS" {
        /// 1: `engineType` is one of [`engine`]; 0: it is the index of a copy engine.
        version "version": u32,
        engine_type "engineType": u32,
    }
    /// Of `HOPPER_USERMODE_A` and newer; may be left out.
    UsermodeAlloc "NV_HOPPER_USERMODE_A_PARAMS" {
        /// Posted writes through BAR1 instead of registers in BAR0.
        bar1_mapping "bBar1Mapping": u8,
        privileged "bPriv": u8,
    }
    /// Of `GT200_DEBUGGER`.
    DebuggerAlloc "NV83DE_ALLOC_PARAMETERS" {
        h_debugger_client_obsolete "hDebuggerClient_Obsolete": u32,
        h_app_client "hAppClient": u32,
        h_class3d_object "hClass3dObject": u32,
    }
    /// Of `RM_USER_SHARED_DATA`.
    SharedDataAlloc "NV00DE_ALLOC_PARAMETERS" {
        reserved "reserved": u32 where R535,
        /// Padding of the compiler.
        gap "": [u8; 4],
        /// What shall be measured as long as the object lives: bits of [`super::shared::poll`].
        polled_data_mask "polledDataMask": u64 where FROM_550,
    }
    /// Of `NV01_EVENT`.
    EventAlloc "NV0005_ALLOC_PARAMETERS" {
        h_parent_client "hParentClient": u32,
        h_src_resource "hSrcResource": u32,
        h_class "hClass": u32,
        notify_index "notifyIndex": u32,
        /// For `NV01_EVENT_OS_EVENT`, the file.
        data "data": u64,
    }
}
