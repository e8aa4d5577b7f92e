//! What a driver hands to GSP and what GSP answers: the arguments of its boot, the message queues, the calls (RPC).
//!
//! Layouts follow the branch of the firmware, as those of ioctls follow that of the kernel driver ([`super::abi`]).
//! Structs within structs are written out where branches change them.
//!
//! Source: open-gpu-kernel-modules 535.113.01, 550.163.01 and 570.144: src/nvidia/inc/kernel/gpu/gsp/{gsp_init_args,
//! gsp_static_config,message_queue_priv}.h, src/nvidia/arch/nvalloc/common/inc/gsp/gsp_fw_wpr_meta.h and rmgspseq.h,
//! src/common/uproc/os/common/include/libos_init_args.h, src/common/shared/msgq/inc/msgq/msgq_priv.h,
//! src/nvidia/generated/{g_rpc-structures,g_rpc-message-header,g_os_nvoc}.h, rpc_global_enums.h, rpc_headers.h;
//! offsets as a C compiler has them.

use zerocopy::byteorder::little_endian::{U16, U32, U64};

use super::abi::structs;

/// The pages that all of it is made of.
pub const PAGE: u64 = 4096;

/// [`WprMeta::magic`].
pub const GSP_FW_WPR_META_MAGIC: u64 = 0xdc3a_ae21_371a_60b3;
/// [`WprMeta::revision`].
pub const GSP_FW_WPR_META_REVISION: u64 = 1;

/// [`LibosArgument::kind`]: one piece of memory.
pub const LIBOS_MEMORY_REGION_CONTIGUOUS: u8 = 1;
/// [`LibosArgument::loc`]: memory of the host.
pub const LIBOS_MEMORY_REGION_LOC_SYSMEM: u8 = 1;

/// [`MsgqTxHeader::version`].
pub const MSGQ_VERSION: u32 = 0;
/// [`MsgqTxHeader::flags`]: each side's read pointer is in its own memory.
pub const MSGQ_FLAGS_SWAP_RX: u32 = 1;
/// Bytes of an element of a queue.
pub const MSG_ELEMENT: u32 = 4096;
/// Bytes before a message in its first element: [`MsgElement`], up to a multiple of 8.
pub const MSG_ELEMENT_HEADER: usize = 0x30;
/// How many elements a message may have.
pub const MSG_ELEMENTS_MAX: u32 = 16;

/// [`RpcHeader::header_version`]: 3.0.
pub const RPC_HEADER_VERSION: u32 = 3 << 24;
/// [`RpcHeader::signature`]: "VRPC".
pub const RPC_SIGNATURE: u32 = 0x4350_5256;
/// [`RpcHeader::rpc_result`] of a call that is not answered.
pub const RPC_PENDING: u32 = 0xffff_ffff;

/// [`FmcBootParams::target`] and the like: memory of the host, coherent (`GSP_DMA_TARGET_COHERENT_SYSTEM`).
pub const GSP_DMA_TARGET_COHERENT_SYSTEM: u32 = 1;

/// The first dword of a packet to or from the FSP: the first and the last one of its message, `MCTP_HEADER_SOM` and `_EOM`.
pub const MCTP_SINGLE: u32 = 1 << 31 | 1 << 30;
/// The second one: a message of the vendor's own (`MCTP_MSG_HEADER_TYPE_VENDOR_PCI`, `_VENDOR_ID_NV`); its kind goes into
/// the highest byte.
pub const MCTP_NVIDIA: u32 = 0x10de << 8 | 0x7e;
/// A kind: [`NvdmPayloadCot`].
pub const NVDM_TYPE_COT: u8 = 0x14;
/// A kind: what the FSP answers, [`NvdmResponse`].
pub const NVDM_TYPE_FSP_RESPONSE: u8 = 0x15;
/// Bytes of the channel for drivers.
pub const FSP_CHANNEL: u32 = 1024;

/// `NVDM_PAYLOAD_COT`: has the FSP verify an FMC and start GSP with it (chain of trust).
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::Unaligned,
)]
#[repr(C)]
pub struct NvdmPayloadCot {
    /// `version`: 1 for Hopper, 2 for Blackwell.
    pub version: U16,
    /// `size`.
    pub size: U16,
    /// `gspFmcSysmemOffset`.
    pub gsp_fmc_sysmem_offset: U64,
    /// `frtsSysmemOffset`.
    pub frts_sysmem_offset: U64,
    /// `frtsSysmemSize`.
    pub frts_sysmem_size: U32,
    /// `frtsVidmemOffset`: from the end of VRAM down.
    pub frts_vidmem_offset: U64,
    /// `frtsVidmemSize`.
    pub frts_vidmem_size: U32,
    /// `hash384`.
    pub hash384: [u8; 48],
    /// `publicKey`.
    pub public_key: [u8; 384],
    /// `signature`.
    pub signature: [u8; 384],
    /// `gspBootArgsSysmemOffset`: of [`FmcBootParams`].
    pub gsp_boot_args_sysmem_offset: U64,
}
const _: () = assert!(size_of::<NvdmPayloadCot>() == 0x35c);

/// `NVDM_PAYLOAD_COMMAND_RESPONSE`.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::Unaligned,
)]
#[repr(C)]
pub struct NvdmResponse {
    /// `taskId`.
    pub task_id: U32,
    /// `commandNvdmType`: the kind of the message that it answers.
    pub command_nvdm_type: U32,
    /// `errorCode`; 0 is good.
    pub error_code: U32,
}

/// Where the data of [`PostEvent`] starts: behind its last field, without padding.
pub const POST_EVENT_DATA: usize = 0x1d;

/// Calls, `NV_VGPU_MSG_FUNCTION_*`.
pub mod function {
    /// Frees an object: [`super::RpcFree`].
    pub const FREE: u32 = 10;
    /// Another client gets an object: [`super::RpcDupObject`].
    pub const DUP_OBJECT: u32 = 21;
    /// The driver leaves: [`super::RpcUnloading`].
    pub const UNLOADING_GUEST_DRIVER: u32 = 47;
    /// More of the message before.
    pub const CONTINUATION_RECORD: u32 = 71;
    /// [`super::SystemInfo`]; not answered.
    pub const GSP_SET_SYSTEM_INFO: u32 = 72;
    /// [`super::RegistryTable`]; not answered.
    pub const SET_REGISTRY: u32 = 73;
    /// A control: [`super::RpcControl`].
    pub const GSP_RM_CONTROL: u32 = 76;
    /// Makes an object: [`super::RpcAlloc`].
    pub const GSP_RM_ALLOC: u32 = 103;
    /// It is known that RM has written the notifiers of channels that have died together; not answered.
    pub const ECC_NOTIFIER_WRITE_ACK: u32 = 202;

    /// The name of a call, without its prefix.
    pub fn name(number: u32) -> Option<&'static str> {
        Some(match number {
            FREE => "FREE",
            DUP_OBJECT => "DUP_OBJECT",
            UNLOADING_GUEST_DRIVER => "UNLOADING_GUEST_DRIVER",
            CONTINUATION_RECORD => "CONTINUATION_RECORD",
            GSP_SET_SYSTEM_INFO => "GSP_SET_SYSTEM_INFO",
            SET_REGISTRY => "SET_REGISTRY",
            GSP_RM_CONTROL => "GSP_RM_CONTROL",
            GSP_RM_ALLOC => "GSP_RM_ALLOC",
            ECC_NOTIFIER_WRITE_ACK => "ECC_NOTIFIER_WRITE_ACK",
            _ => return None,
        })
    }
}

/// What GSP tells by itself, `NV_VGPU_MSG_EVENT_*`.
pub mod event {
    /// The first number that is an event.
    pub const FIRST_EVENT: u32 = 0x1000;
    /// RM on GSP has started.
    pub const GSP_INIT_DONE: u32 = 0x1001;
    /// The host is to run a program of register accesses: [`super::RpcRunCpuSequencer`].
    pub const GSP_RUN_CPU_SEQUENCER: u32 = 0x1002;
    /// An event that was asked for: [`super::PostEvent`].
    pub const POST_EVENT: u32 = 0x1003;
    /// A channel has died: [`super::RcTriggered`].
    pub const RC_TRIGGERED: u32 = 0x1004;
    /// The MMU has put a fault into its buffer.
    pub const MMU_FAULT_QUEUED: u32 = 0x1005;
    /// A line for the log, with an Xid: [`super::OsErrorLog`].
    pub const OS_ERROR_LOG: u32 = 0x1006;
}

/// What a program for the host is made of, `GSP_SEQ_BUF_OPCODE_*`: a number, then as many arguments.
pub mod sequencer {
    /// Register, value.
    pub const REG_WRITE: u32 = 0;
    /// Register, mask, value.
    pub const REG_MODIFY: u32 = 1;
    /// Register, mask, value, limit in microseconds, number of the error.
    pub const REG_POLL: u32 = 2;
    /// Microseconds.
    pub const DELAY_US: u32 = 3;
    /// Register, place of 8 to keep it in.
    pub const REG_STORE: u32 = 4;
    /// Resets GSP's falcon.
    pub const CORE_RESET: u32 = 5;
    /// Starts GSP's falcon.
    pub const CORE_START: u32 = 6;
    /// Waits until GSP's falcon has halted.
    pub const CORE_WAIT_FOR_HALT: u32 = 7;
    /// Starts RM on GSP again.
    pub const CORE_RESUME: u32 = 8;

    /// How many arguments an operation has.
    pub const fn arguments(opcode: u32) -> Option<usize> {
        Some(match opcode {
            REG_WRITE | REG_STORE => 2,
            REG_MODIFY => 3,
            REG_POLL => 5,
            DELAY_US => 1,
            CORE_RESET | CORE_START | CORE_WAIT_FOR_HALT | CORE_RESUME => 0,
            _ => return None,
        })
    }
}

/// [`RegistryEntry::kind`], `REGISTRY_TABLE_ENTRY_TYPE_*`: the value is in the entry.
pub const REGISTRY_DWORD: u8 = 1;

structs! {
    LAYOUTS;
    /// What the booter needs to know: where the firmware is, and where in the card's memory it goes.
    WprMeta "GspFwWprMeta" where TO_570 {
        magic "magic": u64,
        revision "revision": u64,
        sysmem_addr_of_radix3_elf "sysmemAddrOfRadix3Elf": u64,
        size_of_radix3_elf "sizeOfRadix3Elf": u64,
        sysmem_addr_of_bootloader "sysmemAddrOfBootloader": u64,
        size_of_bootloader "sizeOfBootloader": u64,
        bootloader_code_offset "bootloaderCodeOffset": u64,
        bootloader_data_offset "bootloaderDataOffset": u64,
        bootloader_manifest_offset "bootloaderManifestOffset": u64,
        sysmem_addr_of_signature "sysmemAddrOfSignature": u64,
        size_of_signature "sizeOfSignature": u64,
        gsp_fw_rsvd_start "gspFwRsvdStart": u64,
        non_wpr_heap_offset "nonWprHeapOffset": u64,
        non_wpr_heap_size "nonWprHeapSize": u64,
        gsp_fw_wpr_start "gspFwWprStart": u64,
        gsp_fw_heap_offset "gspFwHeapOffset": u64,
        gsp_fw_heap_size "gspFwHeapSize": u64,
        gsp_fw_offset "gspFwOffset": u64,
        boot_bin_offset "bootBinOffset": u64,
        frts_offset "frtsOffset": u64,
        frts_size "frtsSize": u64,
        gsp_fw_wpr_end "gspFwWprEnd": u64,
        fb_size "fbSize": u64,
        vga_workspace_offset "vgaWorkspaceOffset": u64,
        vga_workspace_size "vgaWorkspaceSize": u64,
        boot_count "bootCount": u64,
        /// Of partitions of virtual GPUs; the next two are of reports of crashes at the first boot.
        partition_rpc "partitionRpcPadding": [u32; 4],
        sysmem_addr_of_crash_report_queue "sysmemAddrOfCrashReportQueue": u64,
        size_of_crash_report_queue "sizeOfCrashReportQueue": u32,
        ls_ucode_version "lsUcodeVersion": u32,
        gsp_fw_heap_vf_partition_count "gspFwHeapVfPartitionCount": u8,
        flags "flags": u8 where FROM_550,
        /// Padding of the compiler.
        gap "": [u8; 2],
        pmu_reserved_size "pmuReservedSize": u32 where FROM_570,
        /// The booter writes it.
        verified "verified": u64,
    }
    /// A piece of memory for GSP's operating system, by its name.
    LibosArgument "LibosMemoryRegionInitArgument" where TO_570 {
        /// Up to eight letters, the first one in the highest byte.
        id8 "id8": u64,
        pa "pa": u64,
        size "size": u64,
        kind "kind": u8,
        loc "loc": u8,
        /// Padding of the compiler.
        gap "": [u8; 6],
    }
    /// The argument of RM on GSP.
    GspArguments "GSP_ARGUMENTS_CACHED" where TO_570 {
        /// Where the queues are: the first page holds the addresses of all.
        shared_mem_phys_addr "sharedMemPhysAddr": u64,
        page_table_entry_count "pageTableEntryCount": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        cmd_queue_offset "cmdQueueOffset": u64,
        stat_queue_offset "statQueueOffset": u64,
        lockless_cmd_queue_offset "locklessCmdQueueOffset": u64 where TO_550,
        lockless_stat_queue_offset "locklessStatQueueOffset": u64 where TO_550,
        old_level "oldLevel": u32,
        flags "flags": u32,
        in_pm_transition "bInPMTransition": u8,
        /// Padding of the compiler.
        gap2 "": [u8; 3],
        gpu_instance "gpuInstance": u32,
        dmem_stack "bDmemStack": u8 where FROM_570,
        /// Padding of the compiler.
        gap3 "": [u8; 7],
        profiler_pa "pa": u64,
        profiler_size "size": u64,
    }
    /// What the FMC is started with.
    FmcBootParams "GSP_FMC_BOOT_PARAMS" where R570 {
        /// A dword, and the padding of the compiler.
        regkeys "regkeys": u64,
        /// Where [`WprMeta`] is.
        target "bootGspRmParams.target": u32,
        gsp_rm_desc_size "gspRmDescSize": u32,
        gsp_rm_desc_offset "gspRmDescOffset": u64,
        wpr_carveout_offset "wprCarveoutOffset": u64,
        wpr_carveout_size "wprCarveoutSize": u32,
        is_gsp_rm_boot "bIsGspRmBoot": u8,
        /// Padding of the compiler.
        gap2 "": [u8; 3],
        /// Where the [`LibosArgument`]s are.
        rm_target "gspRmParams.target": u32,
        /// Padding of the compiler.
        gap3 "": [u8; 4],
        boot_args_offset "bootArgsOffset": u64,
        /// For confidential computing.
        spdm_target "gspSpdmParams.target": u32,
        /// Padding of the compiler.
        gap4 "": [u8; 4],
        payload_buffer_offset "payloadBufferOffset": u64,
        payload_buffer_size "payloadBufferSize": u32,
        /// Padding of the compiler.
        gap5 "": [u8; 4],
    }
    /// The start of a queue, written by its sender.
    MsgqTxHeader "msgqTxHeader" where TO_570 {
        version "version": u32,
        /// Bytes of all of it.
        size "size": u32,
        msg_size "msgSize": u32,
        msg_count "msgCount": u32,
        write_ptr "writePtr": u32,
        flags "flags": u32,
        rx_hdr_off "rxHdrOff": u32,
        entry_off "entryOff": u32,
    }
    /// The start of a message, in its first element.
    MsgElement "GSP_MSG_QUEUE_ELEMENT" where TO_570 {
        auth_tag_buffer "authTagBuffer": [u8; 16],
        aad_buffer "aadBuffer": [u8; 16],
        /// Makes the sum of the message zero.
        check_sum "checkSum": u32,
        seq_num "seqNum": u32,
        elem_count "elemCount": u32,
    }
    /// What follows [`MsgElement`].
    RpcHeader "rpc_message_header_v03_00" where TO_570 {
        header_version "header_version": u32,
        signature "signature": u32,
        /// Bytes, with this header.
        length "length": u32,
        function "function": u32,
        rpc_result "rpc_result": u32,
        rpc_result_private "rpc_result_private": u32,
        sequence "sequence": u32,
        spare "u": u32,
    }
    /// [`function::GSP_RM_ALLOC`]; the parameters of the class follow.
    RpcAlloc "rpc_gsp_rm_alloc_v03_00" where TO_570 {
        h_client "hClient": u32,
        h_parent "hParent": u32,
        h_object "hObject": u32,
        h_class "hClass": u32,
        status "status": u32,
        params_size "paramsSize": u32,
        flags "flags": u32,
        reserved "reserved": [u8; 4],
    }
    /// [`function::GSP_RM_CONTROL`]; the parameters of the control follow.
    RpcControl "rpc_gsp_rm_control_v03_00" where TO_570 {
        h_client "hClient": u32,
        h_object "hObject": u32,
        cmd "cmd": u32,
        status "status": u32,
        params_size "paramsSize": u32,
        flags "flags": u32,
    }
    /// [`function::FREE`].
    RpcFree "rpc_free_v03_00" where TO_570 {
        h_root "hRoot": u32,
        h_object_parent "hObjectParent": u32,
        h_object_old "hObjectOld": u32,
        status "status": u32,
    }
    /// [`function::DUP_OBJECT`].
    RpcDupObject "rpc_dup_object_v03_00" where TO_570 {
        h_client "hClient": u32,
        h_parent "hParent": u32,
        h_object "hObject": u32,
        h_client_src "hClientSrc": u32,
        h_object_src "hObjectSrc": u32,
        flags "flags": u32,
        status "status": u32,
    }
    /// [`function::UNLOADING_GUEST_DRIVER`].
    RpcUnloading "rpc_unloading_guest_driver_v1F_07" where TO_570 {
        in_pm_transition "bInPMTransition": u8,
        gc6_entering "bGc6Entering": u8,
        /// Padding of the compiler.
        gap "": [u8; 2],
        new_level "newLevel": u32,
    }
    /// Of a client: `NV01_ROOT`.
    ClientAlloc "NV0000_ALLOC_PARAMETERS" where TO_570 {
        h_client "hClient": u32,
        process_id "processID": u32,
        process_name "processName": [u8; 100],
        /// Padding of the compiler.
        gap "": [u8; 4],
        /// For the kernel driver alone.
        p_os_pid_info "pOsPidInfo": u64 where FROM_570,
    }
    /// [`event::GSP_RUN_CPU_SEQUENCER`]; the program follows.
    RpcRunCpuSequencer "rpc_run_cpu_sequencer_v17_00" where TO_570 {
        /// Dwords that there is room for.
        buffer_size_dword "bufferSizeDWord": u32,
        /// Dwords of the program.
        cmd_index "cmdIndex": u32,
        reg_save_area "regSaveArea": [u32; 8],
    }
    /// [`event::POST_EVENT`]; data follows, see [`POST_EVENT_DATA`].
    PostEvent "rpc_post_event_v17_00" where TO_570 {
        h_client "hClient": u32,
        h_event "hEvent": u32,
        notify_index "notifyIndex": u32,
        data "data": u32,
        info16 "info16": u16,
        /// Padding of the compiler.
        gap "": [u8; 2],
        status "status": u32,
        event_data_size "eventDataSize": u32,
        notify_list "bNotifyList": u8,
        /// Padding of the compiler.
        gap2 "": [u8; 3],
    }
    /// [`event::RC_TRIGGERED`].
    RcTriggered "rpc_rc_triggered_v17_02" where TO_570 {
        nv2080_engine_type "nv2080EngineType": u32,
        chid "chid": u32,
        gfid "gfid": u32 where FROM_550,
        except_level "exceptLevel": u32 where FROM_570,
        /// The Xid.
        except_type "exceptType": u32,
        scope "scope": u32,
        partition_attribution_id "partitionAttributionId": u16,
        /// Padding of the compiler.
        gap "": [u8; 2],
        mmu_fault_addr_lo "mmuFaultAddrLo": u32 where FROM_570,
        mmu_fault_addr_hi "mmuFaultAddrHi": u32 where FROM_570,
        mmu_fault_type "mmuFaultType": u32 where FROM_570,
        callback_needed "bCallbackNeeded": u8 where FROM_570,
        /// Padding of the compiler.
        gap2 "": [u8; 3],
        rc_journal_buffer_size "rcJournalBufferSize": u32 where FROM_550,
    }
    /// [`event::OS_ERROR_LOG`].
    OsErrorLog "rpc_os_error_log_v17_00" where TO_570 {
        /// The Xid.
        except_type "exceptType": u32,
        runlist_id "runlistId": u32,
        chid "chid": u32,
        err_string "errString": [u8; 256],
        preemptive_removal_previous_xid "preemptiveRemovalPreviousXid": u32 where FROM_570,
    }
    /// [`function::GSP_SET_SYSTEM_INFO`].
    SystemInfo "GspSystemInfo" where TO_570 {
        /// BAR 0 on the bus.
        gpu_phys_addr "gpuPhysAddr": u64,
        /// BAR 1 on the bus.
        gpu_phys_fb_addr "gpuPhysFbAddr": u64,
        /// BAR 3 on the bus.
        gpu_phys_inst_addr "gpuPhysInstAddr": u64,
        gpu_phys_io_addr "gpuPhysIoAddr": u64 where FROM_570,
        nv_domain_bus_device_func "nvDomainBusDeviceFunc": u64,
        sim_access_buf_phys_addr "simAccessBufPhysAddr": u64,
        notify_op_shared_surface_phys_addr "notifyOpSharedSurfacePhysAddr": u64 where FROM_550,
        pcie_atomics_op_mask "pcieAtomicsOpMask": u64,
        console_mem_size "consoleMemSize": u64,
        max_user_va "maxUserVa": u64,
        /// Where in BAR0 configuration space is.
        pci_config_mirror_base "pciConfigMirrorBase": u32,
        pci_config_mirror_size "pciConfigMirrorSize": u32,
        pci_device_id "PCIDeviceID": u32 where FROM_570,
        pci_sub_device_id "PCISubDeviceID": u32 where FROM_570,
        pci_revision_id "PCIRevisionID": u32 where FROM_570,
        pcie_atomics_cpl_device_cap_mask "pcieAtomicsCplDeviceCapMask": u32 where FROM_570,
        oor_arch "oorArch": u8,
        /// Padding of the compiler.
        gap "": [u8; 7],
        cl_pdb_properties "clPdbProperties": u64,
        chipset "Chipset": u32,
        gpu_behind_bridge "bGpuBehindBridge": u8,
        flr_supported "bFlrSupported": u8 where FROM_550,
        bar0_64b_supported "b64bBar0Supported": u8 where FROM_550,
        mnoc_available "bMnocAvailable": u8,
        chipset_l1ss_enable "chipsetL1ssEnable": u32 where FROM_570,
        upstream_l0s_unsupported "bUpstreamL0sUnsupported": u8,
        upstream_l1_unsupported "bUpstreamL1Unsupported": u8,
        upstream_l1_por_supported "bUpstreamL1PorSupported": u8,
        upstream_l1_por_mobile_only "bUpstreamL1PorMobileOnly": u8,
        system_has_mux "bSystemHasMux": u8 where FROM_550,
        upstream_address_valid "upstreamAddressValid": u8,
        fhb_bus_info "FHBBusInfo": [u16; 5],
        chipset_id_info "chipsetIDInfo": [u16; 5],
        /// Padding of the compiler.
        gap2 "": [u8; 2],
        acpi_method_data "acpiMethodData": [u32; 169] [R535 121],
        hypervisor_type "hypervisorType": u32,
        is_passthru "bIsPassthru": u8,
        /// Padding of the compiler.
        gap3 "": [u8; 7],
        sys_timer_offset_ns "sysTimerOffsetNs": u64,
        gsp_vf_info "gspVFInfo": [u64; 5],
        is_primary "bIsPrimary": u8 where FROM_570,
        is_grid_build "isGridBuild": u8 where FROM_550,
        /// Padding of the compiler.
        gap4 "": [u8; 2],
        link_cap "pcieConfigReg": u32 where FROM_570,
        grid_build_csp "gridBuildCsp": u32 where FROM_550,
        preserve_video_memory_allocations "bPreserveVideoMemoryAllocations": u8 where FROM_570,
        tdr_event_supported "bTdrEventSupported": u8 where FROM_550,
        feature_stretch_vblank_capable "bFeatureStretchVblankCapable": u8 where FROM_570,
        enable_dynamic_granularity_page_arrays "bEnableDynamicGranularityPageArrays": u8 where FROM_570,
        clock_boost_supported "bClockBoostSupported": u8 where FROM_570,
        route_disp_intrs_to_cpu "bRouteDispIntrsToCPU": u8 where FROM_570,
        /// Padding of the compiler.
        gap5 "": [u8; 6],
        host_page_size "hostPageSize": u64 where FROM_570,
    }
    /// The start of [`function::SET_REGISTRY`]; entries follow, then their names.
    RegistryTable "PACKED_REGISTRY_TABLE" where TO_570 {
        /// Bytes of all of it.
        size "size": u32,
        num_entries "numEntries": u32,
    }
    /// An entry of it.
    RegistryEntry "PACKED_REGISTRY_ENTRY" where TO_570 {
        /// Where its name is, from the start of the table, with a zero behind it.
        name_offset "nameOffset": u32,
        kind "type": u8,
        /// Padding of the compiler.
        gap "": [u8; 3],
        data "data": u32,
        length "length": u32,
    }
}

#[cfg(test)]
mod tests {
    use super::super::abi::{Branch, Layout, Struct};
    use super::*;

    const BRANCHES: [Branch; 3] = [Branch::R535, Branch::R550, Branch::R570];

    fn sizes(layout: &Layout) -> [usize; 3] {
        BRANCHES.map(|branch| layout.size(branch))
    }

    /// Where fields are in 535.113.01, 550.163.01 and 570.144, by the vendor's headers and a C compiler; 0 where a
    /// branch has no such field.
    fn places(layout: &Layout, name: &str) -> [usize; 3] {
        BRANCHES.map(|branch| {
            let mut fields = layout.fields(branch);
            fields
                .find(|field| field.name == name)
                .map_or(0, |one| one.at)
        })
    }

    #[test]
    fn sizes_are_those_of_the_vendors_headers() {
        assert_eq!(sizes(&WprMeta::LAYOUT), [0x100; 3]);
        assert_eq!(sizes(&LibosArgument::LAYOUT), [0x20; 3]);
        assert_eq!(sizes(&GspArguments::LAYOUT), [0x50, 0x50, 0x48]);
        assert_eq!(sizes(&FmcBootParams::LAYOUT), [0, 0, 0x50]);
        assert_eq!(sizes(&MsgqTxHeader::LAYOUT), [0x20; 3]);
        let head = size_of::<MsgElement>();
        assert_eq!((head, head.next_multiple_of(8)), (0x2c, MSG_ELEMENT_HEADER));
        assert_eq!(sizes(&RpcHeader::LAYOUT), [0x20; 3]);
        assert_eq!(sizes(&RpcAlloc::LAYOUT), [0x20; 3]);
        assert_eq!(sizes(&RpcControl::LAYOUT), [0x18; 3]);
        assert_eq!(sizes(&RpcFree::LAYOUT), [0x10; 3]);
        assert_eq!(sizes(&RpcDupObject::LAYOUT), [0x1c; 3]);
        assert_eq!(sizes(&RpcUnloading::LAYOUT), [8; 3]);
        assert_eq!(sizes(&ClientAlloc::LAYOUT), [0x6c, 0x6c, 0x78]);
        assert_eq!(sizes(&RpcRunCpuSequencer::LAYOUT), [0x28; 3]);
        assert_eq!(sizes(&PostEvent::LAYOUT), [0x20; 3]);
        assert_eq!(sizes(&RcTriggered::LAYOUT), [0x14, 0x1c, 0x30]);
        assert_eq!(sizes(&OsErrorLog::LAYOUT), [0x10c, 0x10c, 0x110]);
        assert_eq!(sizes(&SystemInfo::LAYOUT), [0x298, 0x370, 0x3a0]);
        assert_eq!(sizes(&RegistryTable::LAYOUT), [8; 3]);
        assert_eq!(sizes(&RegistryEntry::LAYOUT), [16; 3]);
        assert_eq!(SystemInfo::LAYOUT.size(Branch::R580), 0, "not described");
    }

    #[test]
    fn fields_are_where_the_vendors_headers_have_them() {
        for (name, expected) in [
            ("gpuPhysInstAddr", [0x10, 0x10, 0x10]),
            ("nvDomainBusDeviceFunc", [0x18, 0x18, 0x20]),
            ("maxUserVa", [0x38, 0x40, 0x48]),
            ("pciConfigMirrorBase", [0x40, 0x48, 0x50]),
            ("PCIDeviceID", [0, 0, 0x58]),
            ("oorArch", [0x48, 0x50, 0x68]),
            ("clPdbProperties", [0x50, 0x58, 0x70]),
            ("bGpuBehindBridge", [0x5c, 0x64, 0x7c]),
            ("bUpstreamL0sUnsupported", [0x5e, 0x68, 0x84]),
            ("upstreamAddressValid", [0x62, 0x6d, 0x89]),
            ("FHBBusInfo", [0x64, 0x6e, 0x8a]),
            ("acpiMethodData", [0x78, 0x84, 0xa0]),
            ("hypervisorType", [0x25c, 0x328, 0x344]),
            ("bIsPassthru", [0x260, 0x32c, 0x348]),
            ("gspVFInfo", [0x270, 0x338, 0x358]),
            ("gridBuildCsp", [0, 0x364, 0x388]),
            ("bTdrEventSupported", [0, 0x368, 0x38d]),
            ("hostPageSize", [0, 0, 0x398]),
        ] {
            assert_eq!(places(&SystemInfo::LAYOUT, name), expected, "{name}");
        }
        for (name, expected) in [
            ("cmdQueueOffset", [0x10; 3]),
            ("oldLevel", [0x30, 0x30, 0x20]),
            ("gpuInstance", [0x3c, 0x3c, 0x2c]),
            ("bDmemStack", [0, 0, 0x30]),
            ("pa", [0x40, 0x40, 0x38]),
        ] {
            assert_eq!(places(&GspArguments::LAYOUT, name), expected, "{name}");
        }
        for (name, expected) in [
            ("exceptType", [8, 0xc, 0x10]),
            ("mmuFaultAddrLo", [0, 0, 0x1c]),
            ("mmuFaultType", [0, 0, 0x24]),
        ] {
            assert_eq!(places(&RcTriggered::LAYOUT, name), expected, "{name}");
        }
        for (name, expected) in [
            ("sysmemAddrOfSignature", 0x48),
            ("gspFwRsvdStart", 0x58),
            ("frtsOffset", 0x98),
            ("bootCount", 0xc8),
            ("sysmemAddrOfCrashReportQueue", 0xe0),
            ("gspFwHeapVfPartitionCount", 0xf0),
            ("verified", 0xf8),
        ] {
            assert_eq!(places(&WprMeta::LAYOUT, name), [expected; 3], "{name}");
        }
        assert_eq!(places(&WprMeta::LAYOUT, "flags"), [0, 0xf1, 0xf1]);
        assert_eq!(places(&WprMeta::LAYOUT, "pmuReservedSize"), [0, 0, 0xf4]);
        let data = places(&PostEvent::LAYOUT, "bNotifyList").map(|at| at + 1);
        assert_eq!(data, [POST_EVENT_DATA; 3]);
    }

    #[test]
    fn every_operation_of_a_program_has_a_length() {
        let lengths: Vec<_> = (0..10).map(sequencer::arguments).collect();
        let some = [2, 3, 5, 1, 2, 0, 0, 0, 0].map(Some);
        assert_eq!(lengths[..9], some);
        assert_eq!(lengths[9], None);
        assert_eq!(function::name(function::GSP_RM_ALLOC), Some("GSP_RM_ALLOC"));
        assert_eq!(function::name(event::GSP_INIT_DONE), None);
    }
}
