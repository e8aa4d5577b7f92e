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
