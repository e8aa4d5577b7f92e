//! Power management (SMU): messages by its mailboxes.
//!
//! `MP1_SMN_C2PMSG_66` takes a message, 82 has its argument and then what it gives, 90 becomes not 0 when it is
//! done. Some messages have a mailbox of their own, for debugging: 75, 53 and 54.
//!
//! Source: Linux, drivers/gpu/drm/amd/pm/swsmu: inc/pmfw_if/smu_v{13_0_0,13_0_6,13_0_7,13_0_10,14_0_2}_ppsmc.h and
//! smu*_driver_if_*.h (numbers), smu_cmn.c (the mailbox), smu_v14_0_2_ppt.c (`DEBUGSMC_MSG_Mode1Reset`).

/// What mailbox 90 says of a message (`PPSMC_Result_*`).
pub mod result {
    /// Done.
    pub const OK: u32 = 0x1;
    /// It did not succeed.
    pub const FAILED: u32 = 0xff;
    /// The firmware has no such message.
    pub const UNKNOWN: u32 = 0xfe;
    /// Something has to come first.
    pub const PREREQ: u32 = 0xfd;
    /// It is busy with something else.
    pub const BUSY: u32 = 0xfc;
}

/// Numbers of messages, which are the firmware's own; names are the vendor's. None where it has no such message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Messages {
    /// The version of the firmware.
    pub get_smu_version: u32,
    /// The version of the tables.
    pub get_driver_if_version: u32,
    /// All features on.
    pub enable_all_smu_features: u32,
    /// Where [`Messages::transfer_table_smu2dram`] writes: bits 63:32.
    pub set_driver_dram_addr_high: u32,
    /// Bits 31:0.
    pub set_driver_dram_addr_low: u32,
    /// Writes a table.
    pub transfer_table_smu2dram: Option<u32>,
    /// Writes the table of measurements.
    pub get_metrics_table: Option<u32>,
    /// The least frequency of a clock in 31:16, in MHz in 15:0.
    pub set_soft_min_by_freq: u32,
    /// The greatest.
    pub set_soft_max_by_freq: u32,
    /// The frequency of a level in 15:0 of a clock in 31:16; how many levels there are for level [`DPM_COUNT`].
    pub get_dpm_freq_by_index: u32,
    /// Power limit in W.
    pub set_ppt_limit: u32,
    /// Reset, with 1 for mode 1; else it is [`DEBUG_MODE1_RESET`].
    pub gfx_driver_reset: Option<u32>,
}

/// Of versions 13.0.0, 13.0.7, 13.0.10, 14.0.2 and 14.0.3.
pub const NAVI: Messages = Messages {
    get_smu_version: 0x2,
    get_driver_if_version: 0x3,
    enable_all_smu_features: 0x6,
    set_driver_dram_addr_high: 0xe,
    set_driver_dram_addr_low: 0xf,
    transfer_table_smu2dram: Some(0x12),
    get_metrics_table: None,
    set_soft_min_by_freq: 0x19,
    set_soft_max_by_freq: 0x1a,
    get_dpm_freq_by_index: 0x1f,
    set_ppt_limit: 0x32,
    gfx_driver_reset: None,
};

/// Of versions 13.0.6 and 13.0.12.
pub const INSTINCT: Messages = Messages {
    get_smu_version: 0x2,
    get_driver_if_version: 0x4,
    enable_all_smu_features: 0x5,
    set_driver_dram_addr_high: 0xd,
    set_driver_dram_addr_low: 0xe,
    transfer_table_smu2dram: None,
    get_metrics_table: Some(0x9),
    set_soft_min_by_freq: 0x13,
    set_soft_max_by_freq: 0x14,
    get_dpm_freq_by_index: 0x17,
    set_ppt_limit: 0x18,
    gfx_driver_reset: Some(0x3),
};

/// `DEBUGSMC_MSG_Mode1Reset`, by the mailbox for debugging.
pub const DEBUG_MODE1_RESET: u32 = 0x2;

/// The level that asks how many there are. The answer has bit 31 for a clock that has all between.
pub const DPM_COUNT: u32 = 0xff;
/// That bit.
pub const DPM_FINE: u32 = 1 << 31;

/// `TABLE_SMU_METRICS`: what [`Messages::transfer_table_smu2dram`] writes measurements for.
pub const TABLE_SMU_METRICS: u32 = 5;

/// Clocks (`PPCLK_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clocks {
    /// Shaders.
    pub gfxclk: u32,
    /// The rest of the chip.
    pub socclk: u32,
    /// Memory.
    pub uclk: u32,
    /// Fabric.
    pub fclk: u32,
}

/// As [`NAVI`].
pub const NAVI_CLOCKS: Clocks = Clocks {
    gfxclk: 0,
    socclk: 1,
    uclk: 2,
    fclk: 3,
};

/// As [`INSTINCT`].
pub const INSTINCT_CLOCKS: Clocks = Clocks {
    gfxclk: 0,
    socclk: 2,
    uclk: 3,
    fclk: 4,
};

/// Where measurements are in the table of [`TABLE_SMU_METRICS`] (`SmuMetrics_t`): bytes from its start, of values of 16 bits
/// where nothing else is said. All are averages of a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetricsLayout {
    /// Its length.
    pub bytes: usize,
    /// The frequency of shaders in MHz, as it is while they work, and with the time in which they sleep.
    pub gfx_mhz: [usize; 2],
    /// That of the fabric.
    pub fabric_mhz: [usize; 2],
    /// That of memory.
    pub memory_mhz: [usize; 2],
    /// How often it was measured, 32 bits.
    pub counter: usize,
    /// The voltage of shaders in mV.
    pub millivolts: usize,
    /// How busy shaders are, in %.
    pub gfx_percent: usize,
    /// How busy memory is, in %.
    pub memory_percent: usize,
    /// The power of the chip in W.
    pub socket_watts: usize,
    /// The power of the board in W.
    pub board_watts: usize,
    /// Degrees Celsius at the edge, and after it at the hottest place; three places further on those of memory.
    pub celsius: usize,
    /// The generation of PCIe, 8 bits, and how many lanes, 8 bits.
    pub pcie: usize,
    /// The fan in %, 8 bits.
    pub fan_percent: usize,
    /// The fan in turns a minute.
    pub fan_rpm: usize,
    /// How much each of [`MetricsLayout::limits`] holds clocks back, in %, 8 bits each.
    pub throttled: usize,
    /// What holds clocks back, in the order of the table.
    pub limits: &'static [&'static str],
    /// Up to how many percent something counts as idle: its clock is then the one with sleep.
    pub idle_percent: u16,
}

/// Of versions 13.0.0, 13.0.7 and 13.0.10: smu13_driver_if_v13_0_0.h and _7.h, smu_v13_0_0_ppt.c.
pub const METRICS_13: MetricsLayout = MetricsLayout {
    bytes: 392,
    gfx_mhz: [54, 56],
    fabric_mhz: [58, 60],
    memory_mhz: [62, 64],
    counter: 80,
    millivolts: 84,
    gfx_percent: 104,
    memory_percent: 106,
    socket_watts: 116,
    board_watts: 118,
    celsius: 120,
    pcie: 148,
    fan_percent: 150,
    fan_rpm: 152,
    throttled: 154,
    limits: &[
        "edge temperature",
        "hotspot temperature",
        "GFX temperature",
        "SoC temperature",
        "memory temperature",
        "GFX VR temperature",
        "memory VR 0 temperature",
        "memory VR 1 temperature",
        "SoC VR temperature",
        "U VR temperature",
        "liquid 0 temperature",
        "liquid 1 temperature",
        "PCIe switch temperature",
        "GFX current",
        "SoC current",
        "U current",
        "power limit 0",
        "power limit 1",
        "power limit 2",
        "power limit 3",
        "reliability",
        "voltage droop",
    ],
    idle_percent: 15,
};

/// Of versions 14.0.2 and 14.0.3: smu14_driver_if_v14_0.h, smu_v14_0_2_ppt.c.
pub const METRICS_14: MetricsLayout = MetricsLayout {
    bytes: 412,
    gfx_mhz: [46, 48],
    fabric_mhz: [50, 52],
    memory_mhz: [54, 56],
    counter: 104,
    millivolts: 108,
    gfx_percent: 124,
    memory_percent: 126,
    socket_watts: 136,
    board_watts: 138,
    celsius: 140,
    pcie: 166,
    fan_percent: 168,
    fan_rpm: 170,
    throttled: 172,
    limits: &[
        "edge temperature",
        "hotspot temperature",
        "GFX temperature",
        "SoC temperature",
        "memory temperature",
        "GFX VR temperature",
        "SoC VR temperature",
        "memory VR 0 temperature",
        "memory VR 1 temperature",
        "liquid 0 temperature",
        "liquid 1 temperature",
        "PCIe switch temperature",
        "GFX current",
        "SoC current",
        "power limit 0",
        "power limit 1",
        "power limit 2",
        "power limit 3",
        "reliability",
        "voltage droop",
        "undervoltage",
    ],
    idle_percent: 5,
};

/// Where measurements are in the table of [`Messages::get_metrics_table`] (`MetricsTableX_t`): bytes from its start, of values
/// of 32 bits, with 10 bits behind the point where nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstinctLayout {
    /// Its length.
    pub bytes: usize,
    /// How often it was measured, a whole number; 0 before the first time.
    pub counter: usize,
    /// Degrees Celsius of the hottest place.
    pub socket_celsius: usize,
    /// Those of the hottest stack of memory.
    pub memory_celsius: usize,
    /// The power of the chip in W.
    pub socket_watts: usize,
    /// The frequency of the fabric in MHz.
    pub fabric_mhz: usize,
    /// That of memory.
    pub memory_mhz: usize,
    /// How busy shaders are, in %.
    pub gfx_percent: usize,
    /// How much of the bandwidth of memory is in use, in %.
    pub memory_percent: usize,
    /// The frequency of shaders in MHz, one for each XCC.
    pub gfx_mhz: usize,
    /// The first firmware that has [`InstinctLayout::gfx_mhz`].
    pub gfx_mhz_since: u32,
    /// The generation of PCIe, and after it how many lanes, whole numbers.
    pub pcie: usize,
    /// The first firmware that has [`InstinctLayout::pcie`].
    pub pcie_since: u32,
}

/// Of version 13.0.6, in a card: smu_v13_0_6_pmfw.h, version 0xd of the table; smu_v13_0_6_ppt.c
/// (`smu_v13_0_6_get_gpu_metrics`: which firmware has what).
pub const METRICS_13_0_6: InstinctLayout = InstinctLayout {
    bytes: 2008,
    counter: 0,
    socket_celsius: 4,
    memory_celsius: 12,
    socket_watts: 48,
    fabric_mhz: 108,
    memory_mhz: 112,
    gfx_percent: 1272,
    memory_percent: 1276,
    gfx_mhz: 1372,
    gfx_mhz_since: 0x0055_2f00,
    pcie: 1904,
    pcie_since: 0x0055_6300,
};
