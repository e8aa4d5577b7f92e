//! What RM tells all programs of a GPU in a page that they map: memory, clocks, power, temperatures, how busy it is.
//!
//! A program makes an object of [`RM_USER_SHARED_DATA`](super::class::RM_USER_SHARED_DATA), says in it what shall be
//! measured, and maps it by the control file. The GPU's own processor measures every 100 ms to 1 s from then on, for all
//! programs at once, and writes blocks. Each begins with a time: 0 where nothing was measured, all ones while it is
//! written; what was read between two reads of the same time belongs together.
//!
//! Source: open-gpu-kernel-modules, src/common/sdk/nvidia/inc/class/cl00de.h, in all of its releases from 550.54.14,
//! 570.86.15 and 580.65.06 on the same struct; src/nvidia/src/kernel/gpu/gpu_user_shared_data.c;
//! interface/nvrm_registry.h, `NV_REG_STR_RM_RUSD_POLLING_INTERVAL`. Branch 535 has no measurements in it.

use super::abi::structs;

/// What shall be measured: `NV00DE_RUSD_POLL_*`.
pub mod poll {
    /// [`SharedData::clk_public_domain_infos`](super::SharedData::clk_public_domain_infos).
    pub const CLOCK: u64 = 0x1;
    /// [`SharedData::perf_dev_util`](super::SharedData::perf_dev_util).
    pub const PERF: u64 = 0x2;
    /// [`SharedData::inst_power_usage`](super::SharedData::inst_power_usage) and limits.
    pub const POWER: u64 = 0x8;
    /// [`SharedData::temperatures`](super::SharedData::temperatures).
    pub const THERMAL: u64 = 0x10;
    /// [`SharedData::fan_cooler_status`](super::SharedData::fan_cooler_status); from branch 580 on.
    pub const FAN: u64 = 0x40;
}

/// The time of a block that holds nothing (`RUSD_TIMESTAMP_INVALID`).
pub const NEVER: u64 = 0;

/// The time of a block that is being written (`RUSD_TIMESTAMP_WRITE_IN_PROGRESS`).
pub const BEING_WRITTEN: u64 = u64::MAX;

/// The longest time between two measurements, in ms (`NV_REG_STR_RM_RUSD_POLLING_INTERVAL_MAX`).
pub const LONGEST_INTERVAL_MS: u64 = 1000;

/// Where the dwords of blocks lie, in bytes from the time that they begin with.
pub mod at {
    /// Of the shaders, in MHz (`RUSD_CLK_PUBLIC_DOMAIN_GRAPHICS`).
    pub const GRAPHICS_MHZ: usize = 8;
    /// Of memory, in MHz (`RUSD_CLK_PUBLIC_DOMAIN_MEMORY`).
    pub const MEMORY_MHZ: usize = 12;
    /// How busy the GPU was, in percent: a byte in branch 550, the first of a dword later.
    pub const GPU_PERCENT: usize = 8;
    /// What the GPU may take, in mW (`enforcedmW`).
    pub const ENFORCED_MW: usize = 12;
    /// What it takes (`instGpuPower`, `averageGpuPower`), in mW.
    pub const GPU_MW: usize = 8;
    /// Its temperature in degrees Celsius, times 256 (`NvTemp`); the first one is that of the GPU.
    pub const TEMPERATURE: usize = 8;
    /// Turns of the first fan in a minute (`rpmCurr`).
    pub const RPM: usize = 8;
}

structs! { LAYOUTS;
    /// All of it. Blocks are quadwords, the first of which is their time.
    SharedData "NV00DE_SHARED_DATA" {
        seq32 "seq": u32 where R535,
        /// Padding of ours.
        gap "": [u8; 4],
        seq "seq": u64 where R550,
        bar1_size "bar1Size": u32 where TO_550,
        bar1_avail_size "bar1AvailSize": u32 where TO_550,
        gsp_assert_count "gspAssertCount": u32 where R535,
        /// Padding of ours.
        gap2 "": [u8; 4],
        total_pma_memory "totalPmaMemory": u64 where R550,
        free_pma_memory "freePmaMemory": u64 where R550,
        bar1_memory_info "bar1MemoryInfo": [u64; 2] where FROM_570,
        pma_memory_info "pmaMemoryInfo": [u64; 3] where FROM_570,
        shadow_err_cont "shadowErrCont": [u64; 2] where FROM_570,
        gr_info "grInfo": [u64; 2] where FROM_570,
        clk_public_domain_infos "clkPublicDomainInfos": [u64; 3] where FROM_550,
        clk_throttle_reason "clkThrottleReason": [u64; 2] where R550_TO_570,
        clk_throttle_info "clkThrottleInfo": [u64; 235] where FROM_580,
        perf_dev_util "perfDevUtil": [u64; 6] where FROM_550 [R550 2],
        mem_ecc "memEcc": [u64; 30] where FROM_550 [R550 13, R570 13],
        perf_current_pstate "perfCurrentPstate": [u64; 2] where FROM_550,
        power_limit_gpu "powerLimitGpu": [u64; 2] where FROM_550,
        temperature "temperature": [u64; 2] where R550,
        temperatures "temperatures": [u64; 10] where FROM_570 [R570 4],
        mem_row_remap "memRowRemap": [u64; 5] where FROM_550,
        avg_power_usage "avgPowerUsage": [u64; 3] where FROM_550,
        inst_power_usage "instPowerUsage": [u64; 3] where FROM_550 [R550 2],
        power_policy_status "powerPolicyStatus": [u64; 2] where FROM_580,
        pci_bus_data "pciBusData": [u64; 6] where FROM_570,
        fan_cooler_status "fanCoolerStatus": [u64; 9] where FROM_580,
    }
}
