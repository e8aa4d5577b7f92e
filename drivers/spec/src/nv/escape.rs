//! The ioctls of `/dev/nvidiactl` and `/dev/nvidiaN`, which RM calls escapes.
//!
//! Source: open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/include/{nv_escape,
//! nv-unix-nvos-params-wrappers}.h, kernel-open/common/inc/{nv-ioctl,nv-ioctl-numbers}.h,
//! src/common/sdk/nvidia/inc/{nvos,rs_access}.h; 535.288.01, 550.163.01, 570.211.01, 580.142. `<-` marks
//! what the kernel returns.

use hcq::transport::Ioctl;

use super::abi::{Branch, Call, calls, structs};

/// The type of the requests, `NV_IOCTL_MAGIC`.
pub const KIND: u8 = b'F';

/// What CHECK_VERSION_STR is asked and answers, `NV_RM_API_VERSION_*`.
pub mod version_check {
    /// The versions must be equal.
    pub const STRICT: u32 = 0;
    /// As above, with a warning instead of an error where the kernel is told so.
    pub const RELAXED: u32 = b'1' as u32;
    /// Only tells the kernel's version.
    pub const QUERY: u32 = b'2' as u32;
    /// They differ.
    pub const UNRECOGNIZED: u32 = 0;
    /// They are equal.
    pub const RECOGNIZED: u32 = 1;
}

calls! {
    /// Every escape that has a struct here. RM_ALLOC has two, told apart by their size.
    ESCAPES, "NV_ESC_";
    /// On a file of a GPU.
    RM_ALLOC_MEMORY = 0x27: AllocMemoryWithFd;
    RM_FREE = 0x29: Free;
    RM_CONTROL = 0x2a: Control;
    RM_ALLOC = 0x2b: Alloc;
    /// With rights that are asked for.
    RM_ALLOC_RIGHTS "NV_ESC_RM_ALLOC" = 0x2b: AllocRights;
    RM_DUP_OBJECT = 0x34: DupObject;
    RM_SHARE = 0x35: Share;
    RM_IDLE_CHANNELS = 0x41: IdleChannels;
    RM_MAP_MEMORY = 0x4e: MapMemoryWithFd;
    RM_UNMAP_MEMORY = 0x4f: UnmapMemory;
    /// On any file: what [`ALLOC_OS_EVENT`] has made of it.
    RM_GET_EVENT_DATA = 0x52: GetEventData;
    RM_MAP_MEMORY_DMA = 0x57: MapMemoryDma;
    RM_UNMAP_MEMORY_DMA = 0x58: UnmapMemoryDma;
    RM_UPDATE_DEVICE_MAPPING_INFO = 0x5e: UpdateDeviceMappingInfo;
    /// An array: as many as its size says.
    CARD_INFO = 0xc8: CardInfo;
    /// On a file of a GPU.
    REGISTER_FD = 0xc9: RegisterFd;
    /// On a file of a GPU.
    ALLOC_OS_EVENT = 0xce: AllocOsEvent;
    /// On a file of a GPU.
    FREE_OS_EVENT = 0xcf: FreeOsEvent;
    STATUS_CODE = 0xd1: StatusCode;
    CHECK_VERSION_STR = 0xd2: RmApiVersion;
    IOCTL_XFER_CMD = 0xd3: Xfer;
    QUERY_DEVICE_INTR = 0xd5: QueryDeviceIntr;
    SYS_PARAMS = 0xd6: SysParams;
    /// On a file of a GPU.
    NUMA_INFO = 0xd7: NumaInfo;
    EXPORT_TO_DMABUF_FD = 0xd9: ExportToDmaBufFd;
    WAIT_OPEN_COMPLETE = 0xda: WaitOpenComplete where FROM_550;
}

/// The ioctl of an escape on a branch; none where the branch does not have it.
pub fn ioctl(call: &Call, branch: Branch) -> Option<Ioctl> {
    let layout = call.layout.filter(|_| call.on.has(branch))?;
    let (both, size) = (Ioctl::READ | Ioctl::WRITE, layout.size(branch));
    Some(Ioctl::new(call.name, both, KIND, call.number, size))
}

/// The escape of a request on a branch: number and size must be those of a row, an array of CARD_INFO
/// may have any length. The kernel looks at nothing else of a request.
pub fn of_request(branch: Branch, request: u32) -> Option<&'static Call> {
    let (nr, size) = (Ioctl::nr_of(request), Ioctl::size_of(request));
    let mut on = ESCAPES
        .iter()
        .filter(|call| call.on.has(branch) && call.number == nr);
    on.find(|call| {
        let one = call.layout.map_or(0, |layout| layout.size(branch));
        match call.number == CARD_INFO.number {
            true => size > 0 && size.is_multiple_of(one),
            false => size == one,
        }
    })
}

structs! { LAYOUTS;
    /// IOCTL_XFER_CMD: an escape whose argument is too long for the request.
    Xfer "nv_ioctl_xfer_t" {
        /// The number of the escape.
        cmd "cmd": u32,
        size "size": u32,
        ptr "ptr": u64,
    } => {"ptr" [u8] "size"}
    /// Where a GPU is on the bus.
    PciInfo "nv_pci_info_t" {
        domain "domain": u32,
        bus "bus": u8,
        slot "slot": u8,
        function "function": u8,
        /// Padding of the compiler.
        gap "": [u8; 1],
        vendor_id "vendor_id": u16,
        device_id "device_id": u16,
    }
    /// CARD_INFO takes an array of these, as many as its size says.
    CardInfo "nv_ioctl_card_info_t" {
        /// <- 1 where there is a GPU.
        valid "valid": u8,
        /// Padding of the compiler.
        gap "": [u8; 3],
        pci_info "pci_info": PciInfo,
        gpu_id "gpu_id": u32,
        interrupt_line "interrupt_line": u16,
        /// Padding of the compiler.
        gap2 "": [u8; 2],
        reg_address "reg_address": u64,
        reg_size "reg_size": u64,
        fb_address "fb_address": u64,
        fb_size "fb_size": u64,
        /// <- N of `/dev/nvidiaN`.
        minor_number "minor_number": u32,
        dev_name "dev_name": [u8; 10],
        /// Padding of the compiler.
        gap3 "": [u8; 2],
    }
    /// REGISTER_FD: binds a file of a GPU to one of `/dev/nvidiactl`, once.
    RegisterFd "nv_ioctl_register_fd_t" {
        ctl_fd "ctl_fd": i32,
    }
    /// ALLOC_OS_EVENT: `poll` on a file of a GPU wakes up at an event.
    AllocOsEvent "nv_ioctl_alloc_os_event_t" {
        h_client "hClient": u32,
        h_device "hDevice": u32,
        fd "fd": u32,
        status "Status": u32,
    }
    /// FREE_OS_EVENT.
    FreeOsEvent "nv_ioctl_free_os_event_t" {
        h_client "hClient": u32,
        h_device "hDevice": u32,
        fd "fd": u32,
        status "Status": u32,
    }
    /// GET_EVENT_DATA: takes the oldest event of a file.
    GetEventData "NVOS41_PARAMETERS" {
        /// Where a [`UnixEvent`] goes.
        p_event "pEvent": u64,
        /// <- whether there are more.
        more_events "MoreEvents": u32,
        status "status": u32,
    }
    /// What happened.
    UnixEvent "NvUnixEvent" {
        /// The handle of the event.
        h_object "hObject": u32,
        /// What it is of.
        notify_index "NotifyIndex": u32,
        info32 "info32": u32,
        info16 "info16": u16,
        /// Padding of the compiler.
        gap "": [u8; 2],
    }
    /// STATUS_CODE.
    StatusCode "nv_ioctl_status_code_t" {
        domain "domain": u32,
        bus "bus": u8,
        slot "slot": u8,
        /// Padding of the compiler.
        gap "": [u8; 2],
        status "status": u32,
    }
    /// CHECK_VERSION_STR: compares the version of the client with that of the kernel.
    RmApiVersion "nv_ioctl_rm_api_version_t" {
        /// One of [`version_check`].
        cmd "cmd": u32,
        reply "reply": u32,
        /// The client's version; <- the kernel's.
        version_string "versionString": [u8; 64],
    }
    /// QUERY_DEVICE_INTR.
    QueryDeviceIntr "nv_ioctl_query_device_intr" {
        intr_status "intrStatus": u32,
        status "status": u32,
    }
    /// SYS_PARAMS.
    SysParams "nv_ioctl_sys_params_t" {
        memblock_size "memblock_size": u64,
    }
    /// Memory that is not to be used.
    OfflineAddresses "nv_offline_addresses_t" {
        addresses "addresses": [u64; 64],
        num_entries "numEntries": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// NUMA_INFO: the memory of a GPU as memory of the machine.
    NumaInfo "nv_ioctl_numa_info_t" {
        nid "nid": i32,
        /// <- 0: it is not one.
        status "status": i32,
        memblock_size "memblock_size": u64,
        numa_mem_addr "numa_mem_addr": u64,
        numa_mem_size "numa_mem_size": u64,
        use_auto_online "use_auto_online": u8,
        /// Padding of the compiler.
        gap "": [u8; 7],
        offline_addresses "offline_addresses": OfflineAddresses,
    }
    /// EXPORT_TO_DMABUF_FD.
    ExportToDmaBufFd "nv_ioctl_export_to_dma_buf_fd_t" {
        fd "fd": i32,
        h_client "hClient": u32,
        total_objects "totalObjects": u32,
        num_objects "numObjects": u32,
        index "index": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        total_size "totalSize": u64,
        mapping_type "mappingType": u8 where FROM_570,
        allow_mmap "bAllowMmap": u8 where FROM_580,
        /// Padding of the compiler.
        gap2 "": [u8; 2],
        handles "handles": [u32; 128],
        /// Padding of the compiler.
        gap3 "": [u8; 4],
        offsets "offsets": [u64; 128],
        sizes "sizes": [u64; 128],
        status "status": u32,
        /// Padding of the compiler.
        gap4 "": [u8; 4],
    }
    /// WAIT_OPEN_COMPLETE.
    WaitOpenComplete "nv_ioctl_wait_open_complete_t" where FROM_550 {
        rc "rc": i32,
        adapter_status "adapterStatus": u32,
    }
    /// RM_FREE: frees an object and everything below it.
    Free "NVOS00_PARAMETERS" {
        h_root "hRoot": u32,
        h_object_parent "hObjectParent": u32,
        h_object_old "hObjectOld": u32,
        /// <- a status of RM, besides what `ioctl` itself returns.
        status "status": u32,
    }
    /// What RM_ALLOC_MEMORY is told; the ioctl takes [`AllocMemoryWithFd`].
    AllocMemory "NVOS02_PARAMETERS" {
        h_root "hRoot": u32,
        h_object_parent "hObjectParent": u32,
        h_object_new "hObjectNew": u32,
        h_class "hClass": u32,
        flags "flags": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        /// For `NV01_MEMORY_SYSTEM_OS_DESCRIPTOR`, memory of the process that is pinned: an address that the device will use.
        p_memory "pMemory": u64,
        /// Bytes less one.
        limit "limit": u64,
        /// <- a status of RM, besides what `ioctl` itself returns.
        status "status": u32,
        /// Padding of the compiler.
        gap2 "": [u8; 4],
    }
    /// RM_ALLOC_MEMORY.
    AllocMemoryWithFd "nv_ioctl_nvos02_parameters_with_fd" {
        params "params": AllocMemory,
        /// The file that the memory will be mapped from; -1 for none.
        fd "fd": i32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// RM_ALLOC, the short form. What it makes, and from what, is a class.
    Alloc "NVOS21_PARAMETERS" {
        h_root "hRoot": u32,
        h_object_parent "hObjectParent": u32,
        /// The name of the object; 0: the kernel chooses.
        h_object_new "hObjectNew": u32,
        h_class "hClass": u32,
        p_alloc_parms "pAllocParms": u64,
        params_size "paramsSize": u32,
        /// <- a status of RM, besides what `ioctl` itself returns.
        status "status": u32,
    } => {"pAllocParms" [u8] "paramsSize"}
    /// RM_ALLOC, the long form: the kernel tells them apart by their size.
    AllocRights "NVOS64_PARAMETERS" {
        h_root "hRoot": u32,
        h_object_parent "hObjectParent": u32,
        h_object_new "hObjectNew": u32,
        h_class "hClass": u32,
        p_alloc_parms "pAllocParms": u64,
        p_rights_requested "pRightsRequested": u64,
        params_size "paramsSize": u32,
        flags "flags": u32,
        /// <- a status of RM, besides what `ioctl` itself returns.
        status "status": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    } => {"pAllocParms" [u8] "paramsSize", "pRightsRequested" [u32]}
    /// RM_CONTROL.
    Control "NVOS54_PARAMETERS" {
        h_client "hClient": u32,
        h_object "hObject": u32,
        /// Which control; see the tables of controls.
        cmd "cmd": u32,
        flags "flags": u32,
        params "params": u64,
        /// Exactly the bytes that the branch's struct has.
        params_size "paramsSize": u32,
        /// <- a status of RM, besides what `ioctl` itself returns.
        status "status": u32,
    } => {"params" [u8] "paramsSize"}
    /// RM_DUP_OBJECT.
    DupObject "NVOS55_PARAMETERS" {
        h_client "hClient": u32,
        h_parent "hParent": u32,
        h_object "hObject": u32,
        h_client_src "hClientSrc": u32,
        h_object_src "hObjectSrc": u32,
        flags "flags": u32,
        /// <- a status of RM, besides what `ioctl` itself returns.
        status "status": u32,
    }
    /// Who may duplicate an object.
    SharePolicy "RS_SHARE_POLICY" {
        target "target": u32,
        access_mask "accessMask": [u32; 1],
        kind "type": u16,
        action "action": u8,
        /// Padding of the compiler.
        gap "": [u8; 1],
    }
    /// RM_SHARE.
    Share "NVOS57_PARAMETERS" {
        h_client "hClient": u32,
        h_object "hObject": u32,
        share_policy "sharePolicy": SharePolicy,
        /// <- a status of RM, besides what `ioctl` itself returns.
        status "status": u32,
    }
    /// What RM_MAP_MEMORY is told; the ioctl takes [`MapMemoryWithFd`].
    MapMemory "NVOS33_PARAMETERS" {
        h_client "hClient": u32,
        h_device "hDevice": u32,
        h_memory "hMemory": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        offset "offset": u64,
        length "length": u64,
        /// <- where it would be mapped in the process; `mmap` decides.
        p_linear_address "pLinearAddress": u64,
        /// <- a status of RM, besides what `ioctl` itself returns.
        status "status": u32,
        flags "flags": u32,
    }
    /// RM_MAP_MEMORY: `mmap` of this file at 0 maps it, one mapping a file.
    MapMemoryWithFd "nv_ioctl_nvos33_parameters_with_fd" {
        params "params": MapMemory,
        fd "fd": i32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// RM_UNMAP_MEMORY.
    UnmapMemory "NVOS34_PARAMETERS" {
        h_client "hClient": u32,
        h_device "hDevice": u32,
        h_memory "hMemory": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        p_linear_address "pLinearAddress": u64,
        /// <- a status of RM, besides what `ioctl` itself returns.
        status "status": u32,
        flags "flags": u32,
    }
    /// RM_UPDATE_DEVICE_MAPPING_INFO.
    UpdateDeviceMappingInfo "NVOS56_PARAMETERS" {
        h_client "hClient": u32,
        h_device "hDevice": u32,
        h_memory "hMemory": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        p_old_cpu_address "pOldCpuAddress": u64,
        p_new_cpu_address "pNewCpuAddress": u64,
        /// <- a status of RM, besides what `ioctl` itself returns.
        status "status": u32,
        /// Padding of the compiler.
        gap2 "": [u8; 4],
    }
    /// RM_MAP_MEMORY_DMA: maps memory for a GPU, in an address space that RM manages.
    MapMemoryDma "NVOS46_PARAMETERS" {
        h_client "hClient": u32,
        h_device "hDevice": u32,
        h_dma "hDma": u32,
        h_memory "hMemory": u32,
        offset "offset": u64,
        length "length": u64,
        flags "flags": u32,
        flags2 "flags2": u32 where FROM_580,
        kind_override "kindOverride": u32 where FROM_580,
        /// Padding of the compiler.
        gap "": [u8; 4],
        /// Where, if the flags fix it; <- where.
        dma_offset "dmaOffset": u64,
        /// <- a status of RM, besides what `ioctl` itself returns.
        status "status": u32,
        /// Padding of the compiler.
        gap2 "": [u8; 4],
    }
    /// RM_UNMAP_MEMORY_DMA.
    UnmapMemoryDma "NVOS47_PARAMETERS" {
        h_client "hClient": u32,
        h_device "hDevice": u32,
        h_dma "hDma": u32,
        h_memory "hMemory": u32,
        flags "flags": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        dma_offset "dmaOffset": u64,
        size "size": u64 where FROM_550,
        /// <- a status of RM, besides what `ioctl` itself returns.
        status "status": u32,
        /// Padding of the compiler.
        gap2 "": [u8; 4],
    }
    /// RM_IDLE_CHANNELS.
    IdleChannels "NVOS30_PARAMETERS" {
        h_client "hClient": u32,
        h_device "hDevice": u32,
        h_channel "hChannel": u32,
        num_channels "numChannels": u32,
        ph_clients "phClients": u64,
        ph_devices "phDevices": u64,
        ph_channels "phChannels": u64,
        flags "flags": u32,
        timeout "timeout": u32,
        /// <- a status of RM, besides what `ioctl` itself returns.
        status "status": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    } => {"phClients" [u32] "numChannels", "phDevices" [u32] "numChannels", "phChannels" [u32] "numChannels"}
}
