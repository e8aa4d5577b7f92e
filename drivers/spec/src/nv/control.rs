//! What RM's objects are asked and told: the commands of RM_CONTROL.
//!
//! Source: open-gpu-kernel-modules, src/common/sdk/nvidia/inc/ctrl/*.h; 535.288.01, 550.163.01,
//! 570.211.01, 580.142. The size must be that of the branch's struct. The first half of a number is the
//! class that is asked. `<-` marks what the kernel returns.

use super::abi::{Branches, Call, calls, structs};
use super::query::{self, GrRouteInfo, Info};

/// What GR_GET_INFO answers, `NV0080_CTRL_GR_INFO_INDEX_*`.
pub mod gr_info {
    /// Graphics clusters that are on.
    pub const SHADER_PIPE_COUNT: u32 = 7;
    /// TPCs that are on.
    pub const SHADER_PIPE_SUB_COUNT: u32 = 9;
    /// Banks of registers of an SM.
    pub const SM_REG_BANK_COUNT: u32 = 10;
    /// Registers of one.
    pub const SM_REG_BANK_REG_COUNT: u32 = 11;
    /// The version of the SMs: 0x806 for sm_86.
    pub const SM_VERSION: u32 = 12;
    /// Warps that an SM holds.
    pub const MAX_WARPS_PER_SM: u32 = 13;
    /// Threads of a warp.
    pub const MAX_THREADS_PER_WARP: u32 = 14;
    /// Cores of an SM.
    pub const MAX_SP_PER_SM: u32 = 19;
    /// Graphics clusters, with those that are switched off.
    pub const LITTER_NUM_GPCS: u32 = 20;
    /// TPCs in one, likewise.
    pub const LITTER_NUM_TPC_PER_GPC: u32 = 23;
    /// Cores of the GPU.
    pub const GPU_CORE_COUNT: u32 = 29;
    /// SMs in a TPC.
    pub const LITTER_NUM_SM_PER_TPC: u32 = 32;
    /// Cores that trace rays.
    pub const RT_CORE_COUNT: u32 = 34;
    /// Cores that multiply matrices.
    pub const TENSOR_CORE_COUNT: u32 = 35;
    /// Engines of graphics.
    pub const LITTER_NUM_GRS: u32 = 36;
    /// Subcontexts of a group of channels.
    pub const MAX_SUBCONTEXT_COUNT: u32 = 44;
    /// The last index of branch 535; 550 has 55, 570 and 580 57.
    pub const LAST_535: u32 = 52;
}

/// What FB_GET_INFO_V2 answers, `NV2080_CTRL_FB_INFO_INDEX_*`: the same in every branch. Sizes are in
/// KiB.
pub mod fb_info {
    /// The window to memory.
    pub const BAR1_SIZE: u32 = 0x5;
    /// Memory that there is.
    pub const TOTAL_RAM_SIZE: u32 = 0x8;
    /// Memory that can be made.
    pub const HEAP_SIZE: u32 = 0x9;
    /// What of that is free.
    pub const HEAP_FREE: u32 = 0x16;
}

/// Reserves a GPU on which one program at a time may compute, until the subdevice is freed or the reservation is
/// given up. No header names the number; the kernel has it under this name, with the next one for giving up
/// (g_subdevice_nvoc.c), and libcuda asks it.
pub const ACQUIRE_COMPUTE_MODE_RESERVATION: Call = Call {
    name: "subdeviceCtrlCmdGpuAcquireComputeModeReservation",
    number: 0x2080_0145,
    on: Branches::ALL,
    layout: None,
};

calls! {
    /// Every control that has a struct here.
    CONTROLS, "";
    NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION = 0x101: query::BuildVersionOld;
    NV0000_CTRL_CMD_SYSTEM_GET_FABRIC_STATUS = 0x136: query::FabricStatus;
    NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2 = 0x13e: BuildVersion;
    NV0000_CTRL_CMD_SYSTEM_GET_FEATURES = 0x1f0: query::Features;
    NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS = 0x201: AttachedIds;
    NV0000_CTRL_CMD_GPU_GET_ID_INFO = 0x202: query::IdInfoOld;
    NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2 = 0x205: IdInfo;
    NV0000_CTRL_CMD_GPU_GET_PROBED_IDS = 0x214: ProbedIds;
    NV0000_CTRL_CMD_GPU_ATTACH_IDS = 0x215: AttachIds;
    NV0000_CTRL_CMD_GPU_DETACH_IDS = 0x216: query::DetachIds;
    NV0000_CTRL_CMD_GPU_GET_MEMOP_ENABLE = 0x27b: query::MemopEnable;
    NV0000_CTRL_CMD_SYNC_GPU_BOOST_GROUP_INFO = 0xa04: query::BoostGroups;
    NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE = 0xd01: query::AddrSpaceType;
    NV0000_CTRL_CMD_CLIENT_SET_INHERITED_SHARE_POLICY = 0xd04: query::SetInheritedSharePolicy;
    NV0080_CTRL_CMD_GPU_GET_CLASSLIST = 0x800201: ClassList;
    NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2 = 0x800292: ClassListV2;
    NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES = 0x800280: query::NumSubdevices;
    NV0080_CTRL_CMD_GPU_GET_VIRTUALIZATION_MODE = 0x800289: query::VirtualizationMode;
    NV0080_CTRL_CMD_FB_GET_CAPS_V2 = 0x801307: query::FbCaps;
    NV0080_CTRL_CMD_HOST_GET_CAPS_V2 = 0x801402: query::HostCaps;
    NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST = 0x80170d: query::ChannelList;
    NV0080_CTRL_CMD_FIFO_IDLE_CHANNELS = 0x801714: FifoIdleChannels;
    NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL = 0x801909: query::CudaLimit where FROM_550;
    NV2080_CTRL_CMD_GPU_GET_INFO_V2 = 0x20800102: query::GpuGetInfoV2;
    NV2080_CTRL_CMD_GPU_GET_NAME_STRING = 0x20800110: query::NameString;
    NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING = 0x20800111: query::ShortNameString;
    NV2080_CTRL_CMD_GPU_GET_SIMULATION_INFO = 0x20800119: query::SimulationInfo;
    NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS = 0x2080012f: query::EccStatus;
    NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES = 0x20800131: query::ComputeModeRules;
    NV2080_CTRL_CMD_GPU_GET_GID_INFO = 0x2080014a: GidInfo;
    NV2080_CTRL_CMD_GPU_GET_ENGINES_V2 = 0x20800170: Engines;
    NV2080_CTRL_CMD_GPU_GET_ACTIVE_PARTITION_IDS = 0x2080018b: query::ActivePartitionIds;
    NV2080_CTRL_CMD_GPU_GET_PIDS = 0x2080018d: query::Pids;
    NV2080_CTRL_CMD_GPU_GET_PID_INFO = 0x2080018e: query::PidInfos;
    NV2080_CTRL_CMD_GET_GPU_FABRIC_PROBE_INFO = 0x208001a3: query::FabricProbeInfo;
    NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION = 0x20800301: EventSetNotification;
    NV2080_CTRL_CMD_EVENT_SET_TRIGGER_FIFO = 0x20800308: EventSetTriggerFifo;
    NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO = 0x20800406: TimeCorrelation;
    NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS = 0x2080110b: DisableChannels;
    NV2080_CTRL_CMD_GR_GET_INFO = 0x20801201: GrGetInfo;
    NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE = 0x20801210: query::PreemptionMode;
    NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE = 0x20801218: query::CtxBufferSize;
    NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER = 0x2080121b: query::GlobalSmOrder;
    NV2080_CTRL_CMD_GR_GET_CAPS_V2 = 0x20801227: query::GrCaps;
    NV2080_CTRL_CMD_GR_GET_INFO_V2 = 0x20801228: GrGetInfoV2;
    NV2080_CTRL_CMD_GR_GET_GPC_MASK = 0x2080122a: GrGpcMask;
    NV2080_CTRL_CMD_GR_GET_TPC_MASK = 0x2080122b: GrTpcMask;
    NV2080_CTRL_CMD_GR_GET_SM_ISSUE_RATE_MODIFIER = 0x20801230: SmIssueRateModifier;
    NV2080_CTRL_CMD_FB_GET_INFO_V2 = 0x20801303: FbGetInfoV2;
    NV2080_CTRL_CMD_FB_FLUSH_GPU_CACHE = 0x2080130e: FbFlushGpuCache;
    NV2080_CTRL_CMD_MC_GET_ARCH_INFO = 0x20801701: ArchInfo;
    NV2080_CTRL_CMD_MC_SERVICE_INTERRUPTS = 0x20801702: query::ServiceInterrupts;
    NV2080_CTRL_CMD_BUS_GET_PCI_INFO = 0x20801801: query::BusPciInfo;
    NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO = 0x20801803: PciBarInfo;
    NV2080_CTRL_CMD_BUS_GET_INFO_V2 = 0x20801823: query::BusGetInfoV2;
    NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS = 0x2080182a: query::GpuAtomics;
    NV2080_CTRL_CMD_BUS_GET_C2C_INFO = 0x2080182b: query::C2cInfo;
    NV2080_CTRL_CMD_PERF_BOOST = 0x2080200a: PerfBoost;
    /// Takes no parameters.
    NV2080_CTRL_CMD_RC_RELEASE_WATCHDOG_REQUESTS = 0x2080220c;
    /// Takes no parameters.
    NV2080_CTRL_CMD_RC_SOFT_DISABLE_WATCHDOG = 0x20802210;
    NV2080_CTRL_CMD_CE_GET_ALL_CAPS = 0x20802a0a: CeAllCaps;
    NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS = 0x20803002: query::NvlinkStatus;
    NV2080_CTRL_CMD_GSP_GET_FEATURES = 0x20803601: query::GspFeatures;
    NV83DE_CTRL_CMD_DEBUG_SET_EXCEPTION_MASK = 0x83de0309: query::ExceptionMask;
    NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES = 0x83de030c: DebugSmErrorStates;
    NV83DE_CTRL_CMD_DEBUG_CLEAR_ALL_SM_ERROR_STATES = 0x83de0310: query::ClearSmErrorStates;
    NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO = 0x83de0328: DebugMmuFaultInfo;
    NV906F_CTRL_CMD_RESET_CHANNEL = 0x906f0102: ResetChannel;
    NV906F_CTRL_CMD_GET_MMU_FAULT_INFO = 0x906f0106: MmuFaultInfo;
    NVA06C_CTRL_CMD_GPFIFO_SCHEDULE = 0xa06c0101: GpfifoSchedule;
    NVA06C_CTRL_CMD_BIND = 0xa06c0102: Bind;
    NVA06C_CTRL_CMD_SET_TIMESLICE = 0xa06c0103: query::Timeslice;
    NVA06C_CTRL_CMD_PREEMPT = 0xa06c0105: query::Preempt;
    NVA06F_CTRL_CMD_GPFIFO_SCHEDULE = 0xa06f0103: GpfifoSchedule;
    NVA06F_CTRL_CMD_BIND = 0xa06f0104: Bind;
    NVC36F_CTRL_GET_CLASS_ENGINEID = 0xc36f0101: query::ClassEngineId where TO_550;
    NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN = 0xc36f0108: WorkSubmitToken;
    NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES = 0xcb330101: ConfComputeCapabilities;
}

structs! { LAYOUTS;
    /// SYSTEM_GET_BUILD_VERSION_V2: which driver this is, as text.
    BuildVersion "NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS" {
        /// <- what [`super::abi::Branch::of`] takes.
        driver_version_buffer "driverVersionBuffer": [u8; 256],
        version_buffer "versionBuffer": [u8; 256],
        driver_branch "driverBranch": [u8; 256] where FROM_570,
        title_buffer "titleBuffer": [u8; 256],
        changelist_number "changelistNumber": u32,
        official_changelist_number "officialChangelistNumber": u32,
    }
    /// GPU_GET_ATTACHED_IDS.
    AttachedIds "NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS" {
        gpu_ids "gpuIds": [u32; 32],
    }
    /// GPU_GET_PROBED_IDS.
    ProbedIds "NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS" {
        gpu_ids "gpuIds": [u32; 32],
        excluded_gpu_ids "excludedGpuIds": [u32; 32],
        gpu_flags "gpuFlags": [u32; 32] where FROM_580,
    }
    /// GPU_ATTACH_IDS.
    AttachIds "NV0000_CTRL_GPU_ATTACH_IDS_PARAMS" {
        gpu_ids "gpuIds": [u32; 32],
        failed_id "failedId": u32,
    }
    /// GPU_GET_ID_INFO_V2: instances of a GPU.
    IdInfo "NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS" {
        gpu_id "gpuId": u32,
        gpu_flags "gpuFlags": u32,
        device_instance "deviceInstance": u32,
        sub_device_instance "subDeviceInstance": u32,
        sli_status "sliStatus": u32,
        board_id "boardId": u32,
        gpu_instance "gpuInstance": u32,
        numa_id "numaId": i32,
    }
    /// GPU_GET_CLASSLIST: how many classes, or which.
    ClassList "NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS" {
        num_classes "numClasses": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        class_list "classList": u64,
    } => {"classList" [u32] "numClasses"}
    /// GPU_GET_CLASSLIST_V2: the classes that the GPU has.
    ClassListV2 "NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS" {
        num_classes "numClasses": u32,
        class_list "classList": [u32; 200] [R535 160, R550 174, R570 100],
    }
    /// FIFO_IDLE_CHANNELS.
    FifoIdleChannels "NV0080_CTRL_FIFO_IDLE_CHANNELS_PARAMS" {
        num_channels "numChannels": u32,
        h_channels "hChannels": [u32; 4096],
        flags "flags": u32,
        timeout "timeout": u32,
    }
    /// GPU_GET_GID_INFO: the UUID.
    GidInfo "NV2080_CTRL_GPU_GET_GID_INFO_PARAMS" {
        index "index": u32,
        /// 2: binary.
        flags "flags": u32,
        length "length": u32,
        data "data": [u8; 256],
    }
    /// GR_GET_INFO: answers a list of [`Info`]; see [`gr_info`].
    GrGetInfo "NV2080_CTRL_GR_GET_INFO_PARAMS" {
        gr_info_list_size "grInfoListSize": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        gr_info_list "grInfoList": u64,
        gr_route_info "grRouteInfo": GrRouteInfo,
    } => {"grInfoList" [Info] "grInfoListSize"}
    /// GR_GET_INFO_V2: the same, in one struct.
    GrGetInfoV2 "NV0080_CTRL_GR_GET_INFO_V2_PARAMS" {
        gr_info_list_size "grInfoListSize": u32,
        gr_info_list "grInfoList": [Info; 58] [R535 53, R550 56],
        /// Padding of the compiler.
        gap "": [u8; 4],
        gr_route_info "grRouteInfo": GrRouteInfo,
    }
    /// GR_GET_GPC_MASK.
    GrGpcMask "NV2080_CTRL_GR_GET_GPC_MASK_PARAMS" {
        gr_route_info "grRouteInfo": GrRouteInfo,
        gpc_mask "gpcMask": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// GR_GET_TPC_MASK.
    GrTpcMask "NV2080_CTRL_GR_GET_TPC_MASK_PARAMS" {
        gr_route_info "grRouteInfo": GrRouteInfo,
        gpc_id "gpcId": u32,
        tpc_mask "tpcMask": u32,
    }
    /// GR_GET_SM_ISSUE_RATE_MODIFIER.
    SmIssueRateModifier "NV2080_CTRL_GR_GET_SM_ISSUE_RATE_MODIFIER_PARAMS" {
        gr_route_info "grRouteInfo": GrRouteInfo,
        imla0 "imla0": u8,
        fmla16 "fmla16": u8,
        dp "dp": u8,
        fmla32 "fmla32": u8,
        ffma "ffma": u8,
        imla1 "imla1": u8,
        imla2 "imla2": u8,
        imla3 "imla3": u8,
        imla4 "imla4": u8,
        /// Padding of the compiler.
        gap "": [u8; 7],
    }
    /// MC_GET_ARCH_INFO.
    ArchInfo "NV2080_CTRL_MC_GET_ARCH_INFO_PARAMS" {
        architecture "architecture": u32,
        implementation "implementation": u32,
        revision "revision": u32,
        sub_revision "subRevision": u8,
        /// Padding of the compiler.
        gap "": [u8; 3],
    }
    /// FB_GET_INFO_V2: answers a list about memory.
    FbGetInfoV2 "NV2080_CTRL_FB_GET_INFO_V2_PARAMS" {
        fb_info_list_size "fbInfoListSize": u32,
        fb_info_list "fbInfoList": [Info; 128] [R535 54, R550 55, R570 57],
    }
    /// FB_FLUSH_GPU_CACHE.
    FbFlushGpuCache "NV2080_CTRL_FB_FLUSH_GPU_CACHE_PARAMS" {
        address_array "addressArray": [u64; 500],
        address_array_size "addressArraySize": u32,
        address_align "addressAlign": u32,
        mem_block_size_bytes "memBlockSizeBytes": u64,
        flags "flags": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// A BAR.
    PciBar "NV2080_CTRL_BUS_PCI_BAR_INFO" {
        flags "flags": u32,
        bar_size "barSize": u32,
        bar_size_bytes "barSizeBytes": u64,
        bar_offset "barOffset": u64,
    }
    /// BUS_GET_PCI_BAR_INFO.
    PciBarInfo "NV2080_CTRL_BUS_GET_PCI_BAR_INFO_PARAMS" {
        pci_bar_count "pciBarCount": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        pci_bar_info "pciBarInfo": [PciBar; 8],
    }
    /// GPU_GET_ENGINES_V2: the engines that the GPU has.
    Engines "NV2080_CTRL_GPU_GET_ENGINES_V2_PARAMS" {
        engine_count "engineCount": u32,
        engine_list "engineList": [u32; 84] [R535 62, R550 64],
    }
    /// CE_GET_ALL_CAPS: what each copy engine can do.
    CeAllCaps "NV2080_CTRL_CE_GET_ALL_CAPS_PARAMS" {
        /// Bit 0 of the first byte: the engine shares the runlist of graphics.
        caps_tbl "capsTbl": [[u8; 2]; 64] [R535 32],
        present "present": u64 where FROM_550,
        present32 "present": u32 where R535,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// PERF_BOOST: raises the clocks.
    PerfBoost "NV2080_CTRL_PERF_BOOST_PARAMS" {
        flags "flags": u32,
        duration "duration": u32,
    }
    /// FIFO_DISABLE_CHANNELS.
    DisableChannels "NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS" {
        disable "bDisable": u8,
        /// Padding of the compiler.
        gap "": [u8; 3],
        num_channels "numChannels": u32,
        only_disable_scheduling "bOnlyDisableScheduling": u8,
        rewind_gp_put "bRewindGpPut": u8,
        /// Padding of the compiler.
        gap2 "": [u8; 6],
        p_runlist_preempt_event "pRunlistPreemptEvent": u64,
        h_client_list "hClientList": [u32; 64],
        h_channel_list "hChannelList": [u32; 64],
    }
    /// Two clocks at one moment.
    TimeSample "NV2080_CTRL_TIMER_GPU_CPU_TIME_SAMPLE" {
        cpu_time "cpuTime": u64,
        gpu_time "gpuTime": u64,
    }
    /// TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO.
    TimeCorrelation "NV2080_CTRL_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO_PARAMS" {
        cpu_clk_id "cpuClkId": u8,
        sample_count "sampleCount": u8,
        /// Padding of the compiler.
        gap "": [u8; 6],
        samples "samples": [TimeSample; 16],
    }
    /// EVENT_SET_NOTIFICATION.
    EventSetNotification "NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS" {
        event "event": u32,
        action "action": u32,
        notify_state "bNotifyState": u8,
        /// Padding of the compiler.
        gap "": [u8; 3],
        info32 "info32": u32,
        info16 "info16": u16,
        /// Padding of the compiler.
        gap2 "": [u8; 2],
    }
    /// EVENT_SET_TRIGGER_FIFO: an event of the host's interrupts happens, or all of them do.
    EventSetTriggerFifo "NV2080_CTRL_EVENT_SET_TRIGGER_FIFO_PARAMS" {
        /// Its handle; 0: every one.
        h_event "hEvent": u32,
    }
    /// One fault of [`DebugMmuFaultInfo`].
    MmuFaultEntry "NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_ENTRY" {
        fault_address "faultAddress": u64,
        fault_type "faultType": u32,
        access_type "accessType": u32,
    }
    /// DEBUG_READ_MMU_FAULT_INFO.
    DebugMmuFaultInfo "NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS" {
        mmu_fault_info_list "mmuFaultInfoList": [MmuFaultEntry; 4],
        count "count": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// The exceptions of an SM.
    SmErrorState "NV83DE_SM_ERROR_STATE_REGISTERS" {
        hww_global_esr "hwwGlobalEsr": u32,
        hww_warp_esr "hwwWarpEsr": u32,
        hww_warp_esr_pc "hwwWarpEsrPc": u32,
        hww_global_esr_report_mask "hwwGlobalEsrReportMask": u32,
        hww_warp_esr_report_mask "hwwWarpEsrReportMask": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        hww_esr_addr "hwwEsrAddr": u64,
        hww_warp_esr_pc64 "hwwWarpEsrPc64": u64,
        hww_cga_esr "hwwCgaEsr": u32,
        hww_cga_esr_report_mask "hwwCgaEsrReportMask": u32,
    }
    /// Of [`DebugSmErrorStates`].
    MmuFault "NV83DE_MMU_FAULT_INFO" {
        valid "valid": u8,
        /// Padding of the compiler.
        gap "": [u8; 3],
        fault_info "faultInfo": u32,
    }
    /// DEBUG_READ_ALL_SM_ERROR_STATES.
    DebugSmErrorStates "NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS" {
        h_target_channel "hTargetChannel": u32,
        num_s_ms_to_read "numSMsToRead": u32,
        sm_error_state_array "smErrorStateArray": [SmErrorState; 100],
        mmu_fault_info "mmuFaultInfo": u32,
        mmu_fault "mmuFault": MmuFault,
        starting_sm "startingSM": u32,
    }
    /// GET_MMU_FAULT_INFO of a channel.
    MmuFaultInfo "NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS" {
        addr_hi "addrHi": u32,
        addr_lo "addrLo": u32,
        fault_type "faultType": u32,
        fault_string "faultString": [u8; 32],
        /// Padding of the compiler.
        gap "": [u8; 4],
        shader_program_va "shaderProgramVA": [u64; 7],
    }
    /// RESET_CHANNEL.
    ResetChannel "NV906F_CTRL_CMD_RESET_CHANNEL_PARAMS" {
        engine_id "engineID": u32,
        subdevice_instance "subdeviceInstance": u32,
        reset_reason "resetReason": u32,
        is_rc_pending "bIsRcPending": u8 where FROM_550,
        /// Padding of the compiler.
        gap "": [u8; 3],
    }
    /// GPFIFO_SCHEDULE, of a channel and of a group.
    GpfifoSchedule "NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS" {
        enable "bEnable": u8,
        skip_submit "bSkipSubmit": u8,
        skip_enable "bSkipEnable": u8 where FROM_580,
    }
    /// BIND, of a channel and of a group.
    Bind "NVA06F_CTRL_BIND_PARAMS" {
        engine_type "engineType": u32,
    }
    /// GPFIFO_GET_WORK_SUBMIT_TOKEN: what the doorbell takes.
    WorkSubmitToken "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS" {
        work_submit_token "workSubmitToken": u32,
    }
    /// SYSTEM_GET_CAPABILITIES of confidential computing.
    ConfComputeCapabilities "NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES_PARAMS" {
        cpu_capability "cpuCapability": u8,
        gpus_capability "gpusCapability": u8,
        environment "environment": u8,
        /// 0 off.
        cc_feature "ccFeature": u8,
        dev_tools_mode "devToolsMode": u8,
        multi_gpu_mode "multiGpuMode": u8 where FROM_550,
    }
}
