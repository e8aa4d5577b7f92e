//! How firmware is called where it is handed over: to the PSP's bootloader, to the PSP's ring
//! (`LOAD_IP_FW`), and among trusted applications.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu: psp_gfx_if.h (`psp_gfx_fw_type`), amdgpu_ucode.h
//! (`psp_fw_type`, `ta_fw_type`).

/// A type with named values; others keep their number.
macro_rules! types {
    ($($(#[$meta:meta])* $name:ident { $($value:ident = $number:literal),* $(,)? })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl $name {
            $(#[doc = concat!("`", stringify!($value), "`.")]
            pub const $value: $name = $name($number);)*

            /// The vendor's name without its prefix, if there is one.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($value)),)*
                    _ => None,
                }
            }
        }
    )*};
}

types! {
    /// `GFX_FW_TYPE_*`: what `LOAD_IP_FW` loads.
    GfxFwType {
        CP_ME = 1, CP_PFP = 2, CP_CE = 3, CP_MEC = 4, CP_MEC_ME1 = 5, CP_MEC_ME2 = 6, RLC_V = 7,
        RLC_G = 8, SDMA0 = 9, SDMA1 = 10, VCN = 13, SMU = 18, RLC_RESTORE_LIST_GPM_MEM = 20,
        RLC_RESTORE_LIST_SRM_MEM = 21, RLC_RESTORE_LIST_SRM_CNTL = 22, TOC = 24, RLC_P = 25,
        RLC_IRAM = 26, GLOBAL_TAP_DELAYS = 27, SE0_TAP_DELAYS = 28, SE1_TAP_DELAYS = 29,
        CP_MES = 33, MES_STACK = 34, RLC_DRAM_BOOT = 48, SDMA2 = 52, SDMA3 = 53,
        SE2_TAP_DELAYS = 65, SE3_TAP_DELAYS = 66, REG_LIST = 67, IMU_I = 68, IMU_D = 69,
        SDMA_UCODE_TH0 = 71, SDMA_UCODE_TH1 = 72, PPTABLE = 73, RS64_MES = 76,
        RS64_MES_STACK = 77, RS64_KIQ = 78, RS64_KIQ_STACK = 79, CP_MES_KIQ = 81,
        MES_KIQ_STACK = 82, RS64_PFP = 87, RS64_ME = 88, RS64_MEC = 89, RS64_PFP_P0_STACK = 90,
        RS64_PFP_P1_STACK = 91, RS64_ME_P0_STACK = 92, RS64_ME_P1_STACK = 93,
        RS64_MEC_P0_STACK = 94, RS64_MEC_P1_STACK = 95, RS64_MEC_P2_STACK = 96,
        RS64_MEC_P3_STACK = 97, RLX6_UCODE_CORE1 = 98, RLX6_DRAM_BOOT_CORE1 = 99,
        P2S_TABLE = 129,
    }
    /// `PSP_FW_TYPE_*`: what the file of the PSP itself holds.
    PspFwType {
        PSP_SOS = 1, PSP_SYS_DRV = 2, PSP_KDB = 3, PSP_TOC = 4, PSP_SPL = 5, PSP_RL = 6,
        PSP_SOC_DRV = 7, PSP_INTF_DRV = 8, PSP_DBG_DRV = 9, PSP_RAS_DRV = 10,
        PSP_IPKEYMGR_DRV = 11, PSP_SPDM_DRV = 12,
    }
    /// `TA_FW_TYPE_*`: trusted applications.
    TaFwType {
        PSP_ASD = 1, PSP_XGMI = 2, PSP_RAS = 3, PSP_HDCP = 4, PSP_DTM = 5, PSP_RAP = 6,
        PSP_SECUREDISPLAY = 7, PSP_XGMI_AUX = 8,
    }
}
