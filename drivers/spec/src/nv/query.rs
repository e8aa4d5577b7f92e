//! What programs ask RM about clients, GPUs and buses before they begin: the structs of those controls.
//!
//! Source: open-gpu-kernel-modules, src/common/sdk/nvidia/inc/ctrl/*.h; 535.288.01, 550.163.01,
//! 570.211.01, 580.142. The numbers are in [`super::control::CONTROLS`]; `<-` marks what the kernel returns.

use super::abi::structs;
use super::escape::SharePolicy;

/// Who may compute on a GPU: `NV2080_CTRL_GPU_COMPUTE_MODE_RULES_*`, ctrl2080gpu.h.
pub mod compute_mode {
    /// Every program.
    pub const NONE: u32 = 0;
    /// One program at a time: the one that has reserved it.
    pub const EXCLUSIVE_COMPUTE: u32 = 1;
    /// No program.
    pub const COMPUTE_PROHIBITED: u32 = 2;
    /// As [`EXCLUSIVE_COMPUTE`], whichever of its threads.
    pub const EXCLUSIVE_COMPUTE_PROCESS: u32 = 3;
}

structs! { LAYOUTS;
    /// One question of the controls that answer a list of them.
    Info "NVXXXX_CTRL_XXX_INFO" {
        index "index": u32,
        data "data": u32,
    }
    /// Which graphics engine.
    GrRouteInfo "NV0080_CTRL_GR_ROUTE_INFO" {
        flags "flags": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        route "route": u64,
    }
    /// SYSTEM_GET_BUILD_VERSION: which driver this is, as texts elsewhere in memory; without addresses,
    /// how long they may be.
    BuildVersionOld "NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS" {
        size_of_strings "sizeOfStrings": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        driver_version_buffer "pDriverVersionBuffer": u64,
        version_buffer "pVersionBuffer": u64,
        title_buffer "pTitleBuffer": u64,
        changelist_number "changelistNumber": u32,
        official_changelist_number "officialChangelistNumber": u32,
    } => {"pDriverVersionBuffer" [u8] "sizeOfStrings", "pVersionBuffer" [u8] "sizeOfStrings", "pTitleBuffer" [u8] "sizeOfStrings"}
    /// SYSTEM_GET_FABRIC_STATUS.
    FabricStatus "NV0000_CTRL_SYSTEM_GET_FABRIC_STATUS_PARAMS" {
        /// <- 1: there is none.
        fabric_status "fabricStatus": u32,
    }
    /// SYSTEM_GET_FEATURES.
    Features "NV0000_CTRL_SYSTEM_GET_FEATURES_PARAMS" {
        features_mask "featuresMask": u32,
    }
    /// GPU_GET_ID_INFO: instances of a GPU, the old form.
    IdInfoOld "NV0000_CTRL_GPU_GET_ID_INFO_PARAMS" {
        gpu_id "gpuId": u32,
        gpu_flags "gpuFlags": u32,
        device_instance "deviceInstance": u32,
        sub_device_instance "subDeviceInstance": u32,
        sz_name "szName": u64,
        sli_status "sliStatus": u32,
        board_id "boardId": u32,
        gpu_instance "gpuInstance": u32,
        numa_id "numaId": i32,
    }
    /// GPU_DETACH_IDS.
    DetachIds "NV0000_CTRL_GPU_DETACH_IDS_PARAMS" {
        gpu_ids "gpuIds": [u32; 32],
    }
    /// GPU_GET_MEMOP_ENABLE.
    MemopEnable "NV0000_CTRL_GPU_GET_MEMOP_ENABLE_PARAMS" {
        enable_mask "enableMask": u32,
    }
    /// GPUs that raise their clocks together.
    BoostGroup "NV0000_SYNC_GPU_BOOST_GROUP_CONFIG" {
        gpu_count "gpuCount": u32,
        gpu_ids "gpuIds": [u32; 32],
        boost_group_id "boostGroupId": u32,
        bridgeless "bBridgeless": u8,
        /// Padding of the compiler.
        gap "": [u8; 3],
    }
    /// SYNC_GPU_BOOST_GROUP_INFO.
    BoostGroups "NV0000_SYNC_GPU_BOOST_GROUP_INFO_PARAMS" {
        group_count "groupCount": u32,
        boost_groups "pBoostGroups": [BoostGroup; 16],
    }
    /// CLIENT_GET_ADDR_SPACE_TYPE: what mapping an object would map.
    AddrSpaceType "NV0000_CTRL_CLIENT_GET_ADDR_SPACE_TYPE_PARAMS" {
        h_object "hObject": u32,
        map_flags "mapFlags": u32,
        /// <- 1 memory of the machine, 2 of the GPU, 3 registers.
        addr_space_type "addrSpaceType": u32,
    }
    /// CLIENT_SET_INHERITED_SHARE_POLICY: who may duplicate what the client makes from now on.
    SetInheritedSharePolicy "NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS" {
        share_policy "sharePolicy": SharePolicy,
    }
    /// GET_GPU_FABRIC_PROBE_INFO: whether a manager of switches between GPUs knows this one.
    FabricProbeInfo "NV2080_CTRL_CMD_GET_GPU_FABRIC_PROBE_INFO_PARAMS" {
        /// <- 0: there is none.
        state "state": u8,
        /// Padding of the compiler.
        gap "": [u8; 3],
        status "status": u32,
        cluster_uuid "clusterUuid": [u8; 16],
        fabric_partition_id "fabricPartitionId": u16,
        /// Padding of the compiler.
        gap2 "": [u8; 6],
        fabric_caps "fabricCaps": u64,
        fabric_clique_id "fabricCliqueId": u32 where FROM_550,
        fabric_health_mask "fabricHealthMask": u32 where FROM_550,
        fabric_health_summary "fabricHealthSummary": u8 where FROM_580,
        /// Padding of the compiler.
        gap3 "": [u8; 7],
    }
    /// DEBUG_CLEAR_ALL_SM_ERROR_STATES.
    ClearSmErrorStates "NV83DE_CTRL_DEBUG_CLEAR_ALL_SM_ERROR_STATES_PARAMS" {
        h_target_channel "hTargetChannel": u32,
        num_s_ms_to_clear "numSMsToClear": u32,
    }
    /// GPU_GET_NUM_SUBDEVICES.
    NumSubdevices "NV0080_CTRL_GPU_GET_NUM_SUBDEVICES_PARAMS" {
        num_sub_devices "numSubDevices": u32,
    }
    /// GPU_GET_VIRTUALIZATION_MODE.
    VirtualizationMode "NV0080_CTRL_GPU_GET_VIRTUALIZATION_MODE_PARAMS" {
        virtualization_mode "virtualizationMode": u32,
        is_grid_build "isGridBuild": u8 where FROM_570,
        /// Padding of the compiler.
        gap "": [u8; 3],
    }
    /// FB_GET_CAPS_V2: bits, most of them of bugs.
    FbCaps "NV0080_CTRL_FB_GET_CAPS_V2_PARAMS" {
        caps_tbl "capsTbl": [u8; 3],
    }
    /// FIFO_GET_CHANNELLIST: the numbers of channels on their runlists.
    ChannelList "NV0080_CTRL_FIFO_GET_CHANNELLIST_PARAMS" {
        num_channels "numChannels": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        channel_handle_list "pChannelHandleList": u64,
        channel_list "pChannelList": u64,
    } => {"pChannelHandleList" [u32] "numChannels", "pChannelList" [u32] "numChannels"}
    /// GET_CLASS_ENGINEID of a channel: what a method that binds an object takes.
    ClassEngineId "NV906F_CTRL_GET_CLASS_ENGINEID_PARAMS" {
        h_object "hObject": u32,
        class_engine_id "classEngineID": u32,
        class_id "classID": u32,
        engine_id "engineID": u32,
    }
    /// PERF_CUDA_LIMIT_SET_CONTROL: whether clocks of memory are lowered while programs compute.
    CudaLimit "NV0080_CTRL_PERF_CUDA_LIMIT_CONTROL_PARAMS" {
        cuda_limit "bCudaLimit": u8,
    }
    /// HOST_GET_CAPS_V2: bits, most of them of bugs.
    HostCaps "NV0080_CTRL_HOST_GET_CAPS_V2_PARAMS" {
        caps_tbl "capsTbl": [u8; 3],
    }
    /// GPU_GET_INFO_V2: answers a list about the GPU.
    GpuGetInfoV2 "NV2080_CTRL_GPU_GET_INFO_V2_PARAMS" {
        gpu_info_list_size "gpuInfoListSize": u32,
        gpu_info_list "gpuInfoList": [Info; 70] [R535 64, R550 65, R570 65],
    }
    /// GPU_GET_NAME_STRING.
    NameString "NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS" {
        /// 0: ASCII; 1: UTF-16.
        gpu_name_string_flags "gpuNameStringFlags": u32,
        gpu_name_string "gpuNameString": [u8; 128],
    }
    /// GPU_GET_SHORT_NAME_STRING: that of the chip.
    ShortNameString "NV2080_CTRL_GPU_GET_SHORT_NAME_STRING_PARAMS" {
        gpu_short_name_string "gpuShortNameString": [u8; 64],
    }
    /// GPU_GET_SIMULATION_INFO.
    SimulationInfo "NV2080_CTRL_GPU_GET_SIMULATION_INFO_PARAMS" {
        /// <- 0: silicon.
        kind "type": u32,
    }
    /// Errors of one kind.
    EccCount "NV2080_CTRL_GPU_QUERY_ECC_EXCEPTION_STATUS" {
        count "count": u64,
    }
    /// Errors of one unit.
    EccUnit "NV2080_CTRL_GPU_QUERY_ECC_UNIT_STATUS" {
        enabled "enabled": u8,
        scrub_complete "scrubComplete": u8,
        supported "supported": u8,
        /// Padding of the compiler.
        gap "": [u8; 5],
        dbe "dbe": EccCount,
        dbe_non_resettable "dbeNonResettable": EccCount,
        sbe "sbe": EccCount,
        sbe_non_resettable "sbeNonResettable": EccCount,
    }
    /// GPU_QUERY_ECC_STATUS.
    EccStatus "NV2080_CTRL_GPU_QUERY_ECC_STATUS_PARAMS" {
        units "units": [EccUnit; 36] [R535 24, R550 25],
        fatal_poison_error "bFatalPoisonError": u8,
        uncorrectable_error "uncorrectableError": u8,
        /// Padding of the compiler.
        gap "": [u8; 2],
        flags "flags": u32,
        gr_route_info "grRouteInfo": GrRouteInfo,
    }
    /// GPU_QUERY_COMPUTE_MODE_RULES.
    ComputeModeRules "NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS" {
        /// <- Which of [`compute_mode`].
        rules "rules": u32,
    }
    /// GPU_GET_ACTIVE_PARTITION_IDS: parts that the GPU is divided into.
    ActivePartitionIds "NV2080_CTRL_GPU_GET_ACTIVE_PARTITION_IDS_PARAMS" {
        swizz_id "swizzId": [u32; 9],
        partition_count "partitionCount": u32,
    }
    /// GPU_GET_PIDS: the processes that have an object of a class on the GPU.
    Pids "NV2080_CTRL_GPU_GET_PIDS_PARAMS" {
        /// 0: `id` is a class.
        id_type "idType": u32,
        /// One of engines, which is made below a channel; `NV20_SUBDEVICE_0` for whoever has looked at the GPU.
        id "id": u32,
        pid_tbl_count "pidTblCount": u32,
        pid_tbl "pidTbl": [u32; 950],
    }
    /// What a process has of a GPU's memory, in bytes.
    MemoryUsage "NV2080_CTRL_GPU_PID_INFO_VIDEO_MEMORY_USAGE_DATA" {
        mem_private "memPrivate": u64,
        mem_shared_owned "memSharedOwned": u64,
        mem_shared_duped "memSharedDuped": u64,
        protected_mem_private "protectedMemPrivate": u64,
        protected_mem_shared_owned "protectedMemSharedOwned": u64,
        protected_mem_shared_duped "protectedMemSharedDuped": u64,
    }
    /// One question about a process.
    PidInfo "NV2080_CTRL_GPU_PID_INFO" {
        pid "pid": u32,
        /// 0: the memory that it has.
        index "index": u32,
        /// <- a status of RM, of this question.
        result "result": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        data "data": MemoryUsage,
        /// <- the parts of a divided GPU: of computing, of the GPU.
        smc_subscription "smcSubscription": [u32; 2],
    }
    /// GPU_GET_PID_INFO: answers a list about processes.
    PidInfos "NV2080_CTRL_GPU_GET_PID_INFO_PARAMS" {
        pid_info_list_count "pidInfoListCount": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        pid_info_list "pidInfoList": [PidInfo; 200],
    }
    /// GR_SET_CTXSW_PREEMPTION_MODE: where work of a channel or group may be interrupted.
    PreemptionMode "NV2080_CTRL_GR_SET_CTXSW_PREEMPTION_MODE_PARAMS" {
        flags "flags": u32,
        h_channel "hChannel": u32,
        gfxp_preempt_mode "gfxpPreemptMode": u32,
        cilp_preempt_mode "cilpPreemptMode": u32,
        gr_route_info "grRouteInfo": GrRouteInfo,
    }
    /// DEBUG_SET_EXCEPTION_MASK: which exceptions of SMs are told.
    ExceptionMask "NV83DE_CTRL_DEBUG_SET_EXCEPTION_MASK_PARAMS" {
        exception_mask "exceptionMask": u32,
    }
    /// SET_TIMESLICE of a group.
    Timeslice "NVA06C_CTRL_TIMESLICE_PARAMS" {
        timeslice_us "timesliceUs": u64,
    }
    /// PREEMPT of a group.
    Preempt "NVA06C_CTRL_PREEMPT_PARAMS" {
        wait "bWait": u8,
        manual_timeout "bManualTimeout": u8,
        /// Padding of the compiler.
        gap "": [u8; 2],
        timeout_us "timeoutUs": u32,
    }
    /// GR_GET_CTX_BUFFER_SIZE: what UVM needs addresses for when the channel is registered.
    CtxBufferSize "NV2080_CTRL_GR_GET_CTX_BUFFER_SIZE_PARAMS" {
        h_channel "hChannel": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        total_buffer_size "totalBufferSize": u64,
    }
    /// GR_GET_GLOBAL_SM_ORDER: where each SM is.
    GlobalSmOrder "NV2080_CTRL_GR_GET_GLOBAL_SM_ORDER_PARAMS" {
        /// <- words of each SM, 6 up to 570 and 9 from 580 on: its cluster, the TPC in that, the SM in that, the
        /// number of the TPC, the cluster as programs count, the TPC in that; then others.
        global_sm_id "globalSmId": [u16; 4608] [R535 3072, R550 3072, R570 3072],
        num_sm "numSm": u16,
        num_tpc "numTpc": u16,
        /// Padding of the compiler.
        gap "": [u8; 4],
        gr_route_info "grRouteInfo": GrRouteInfo,
    }
    /// GR_GET_CAPS_V2: bits, most of them of graphics.
    GrCaps "NV0080_CTRL_GR_GET_CAPS_V2_PARAMS" {
        caps_tbl "capsTbl": [u8; 23],
        /// Padding of the compiler.
        gap "": [u8; 1],
        gr_route_info "grRouteInfo": GrRouteInfo,
        caps_populated "bCapsPopulated": u8,
        /// Padding of the compiler.
        gap2 "": [u8; 7],
    }
    /// MC_SERVICE_INTERRUPTS: looks at once what engines tell.
    ServiceInterrupts "NV2080_CTRL_MC_SERVICE_INTERRUPTS_PARAMS" {
        engines "engines": u32,
    }
    /// BUS_GET_PCI_INFO: what the configuration space says.
    BusPciInfo "NV2080_CTRL_BUS_GET_PCI_INFO_PARAMS" {
        /// The device above the vendor.
        pci_device_id "pciDeviceId": u32,
        pci_sub_system_id "pciSubSystemId": u32,
        pci_revision_id "pciRevisionId": u32,
        pci_ext_device_id "pciExtDeviceId": u32,
    }
    /// BUS_GET_INFO_V2: answers a list about the bus.
    BusGetInfoV2 "NV2080_CTRL_BUS_GET_INFO_V2_PARAMS" {
        bus_info_list_size "busInfoListSize": u32,
        bus_info_list "busInfoList": [Info; 52],
    }
    /// BUS_GET_C2C_INFO: links of the chip to a processor.
    C2cInfo "NV2080_CTRL_CMD_BUS_GET_C2C_INFO_PARAMS" {
        is_link_up "bIsLinkUp": u8,
        link_in_hs "bLinkInHS": u8 where FROM_580,
        /// Padding of the compiler.
        gap "": [u8; 2],
        nr_links "nrLinks": u32,
        max_nr_links "maxNrLinks": u32,
        link_mask "linkMask": u32,
        per_link_bw_m_bps "perLinkBwMBps": u32,
        per_link_lane_width "perLinkLaneWidth": u32,
        remote_type "remoteType": u32,
    }
    /// BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS: which atomic operations reach memory of the machine.
    GpuAtomics "NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS_PARAMS" {
        cap_type "capType": u32 where FROM_570,
        dbdf "dbdf": u32 where FROM_570,
        /// <- pairs: whether it is supported, and how.
        atomic_op "atomicOp": [[u32; 2]; 13],
    }
    /// NVLINK_GET_NVLINK_STATUS: links between GPUs.
    NvlinkStatus "NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS_PARAMS" {
        enabled_link_mask "enabledLinkMask": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        enabled_links "enabledLinks": [u64; 2] where FROM_580,
        sublink_state_inst "bSublinkStateInst": u8,
        nvle_mode_enabled "bNvleModeEnabled": u8 where FROM_580,
        /// Padding of the compiler.
        gap2 "": [u8; 6],
        /// <- words of each link, 23 up to 550 and 26 from 570 on.
        link_info "linkInfo": [u64; 1664] [R535 736, R550 736],
    }
    /// GSP_GET_FEATURES: whether a processor of the GPU runs RM, and which release.
    GspFeatures "NV2080_CTRL_GSP_GET_FEATURES_PARAMS" {
        gsp_features "gspFeatures": u32,
        valid "bValid": u8,
        default_gsp_rm_gpu "bDefaultGspRmGpu": u8,
        firmware_version "firmwareVersion": [u8; 64],
        /// Padding of the compiler.
        gap "": [u8; 2],
    }
}
