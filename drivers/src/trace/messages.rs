//! Messages of firmware: what a value in a mailbox of the SMU or the PSP asks for, and what a command of the PSP's ring
//! is, by the vendor's names.
//!
//! Source: Linux, drivers/gpu/drm/amd: pm/swsmu/inc/pmfw_if/smu_v{13_0_0,13_0_6,14_0_2}_ppsmc.h (messages of the SMU);
//! amdgpu/psp_gfx_if.h and amdgpu_psp.h (commands of the PSP); smu_cmn.c, psp_v13_0.c (which mailbox is what).

use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::psp;
use drivers_spec::amd::smu;

/// A number, and the vendor's name of it.
pub(super) type Row = (u32, &'static str);

/// Messages that versions 13.0.0, 13.0.7, 13.0.10 and 14.0.2 have in common.
const NAVI: [Row; 54] = [
    (0x1, "PPSMC_MSG_TestMessage"),
    (0x2, "PPSMC_MSG_GetSmuVersion"),
    (0x3, "PPSMC_MSG_GetDriverIfVersion"),
    (0x4, "PPSMC_MSG_SetAllowedFeaturesMaskLow"),
    (0x5, "PPSMC_MSG_SetAllowedFeaturesMaskHigh"),
    (0x6, "PPSMC_MSG_EnableAllSmuFeatures"),
    (0x7, "PPSMC_MSG_DisableAllSmuFeatures"),
    (0x8, "PPSMC_MSG_EnableSmuFeaturesLow"),
    (0x9, "PPSMC_MSG_EnableSmuFeaturesHigh"),
    (0xa, "PPSMC_MSG_DisableSmuFeaturesLow"),
    (0xb, "PPSMC_MSG_DisableSmuFeaturesHigh"),
    (0xc, "PPSMC_MSG_GetRunningSmuFeaturesLow"),
    (0xd, "PPSMC_MSG_GetRunningSmuFeaturesHigh"),
    (0xe, "PPSMC_MSG_SetDriverDramAddrHigh"),
    (0xf, "PPSMC_MSG_SetDriverDramAddrLow"),
    (0x10, "PPSMC_MSG_SetToolsDramAddrHigh"),
    (0x11, "PPSMC_MSG_SetToolsDramAddrLow"),
    (0x12, "PPSMC_MSG_TransferTableSmu2Dram"),
    (0x13, "PPSMC_MSG_TransferTableDram2Smu"),
    (0x14, "PPSMC_MSG_UseDefaultPPTable"),
    (0x15, "PPSMC_MSG_EnterBaco"),
    (0x16, "PPSMC_MSG_ExitBaco"),
    (0x17, "PPSMC_MSG_ArmD3"),
    (0x18, "PPSMC_MSG_BacoAudioD3PME"),
    (0x19, "PPSMC_MSG_SetSoftMinByFreq"),
    (0x1a, "PPSMC_MSG_SetSoftMaxByFreq"),
    (0x1b, "PPSMC_MSG_SetHardMinByFreq"),
    (0x1c, "PPSMC_MSG_SetHardMaxByFreq"),
    (0x1d, "PPSMC_MSG_GetMinDpmFreq"),
    (0x1e, "PPSMC_MSG_GetMaxDpmFreq"),
    (0x1f, "PPSMC_MSG_GetDpmFreqByIndex"),
    (0x20, "PPSMC_MSG_OverridePcieParameters"),
    (0x21, "PPSMC_MSG_DramLogSetDramAddrHigh"),
    (0x22, "PPSMC_MSG_DramLogSetDramAddrLow"),
    (0x23, "PPSMC_MSG_DramLogSetDramSize"),
    (0x24, "PPSMC_MSG_SetWorkloadMask"),
    (0x25, "PPSMC_MSG_GetVoltageByDpm"),
    (0x26, "PPSMC_MSG_SetVideoFps"),
    (0x27, "PPSMC_MSG_GetDcModeMaxDpmFreq"),
    (0x28, "PPSMC_MSG_AllowGfxOff"),
    (0x29, "PPSMC_MSG_DisallowGfxOff"),
    (0x2a, "PPSMC_MSG_PowerUpVcn"),
    (0x2b, "PPSMC_MSG_PowerDownVcn"),
    (0x2c, "PPSMC_MSG_PowerUpJpeg"),
    (0x2d, "PPSMC_MSG_PowerDownJpeg"),
    (0x2e, "PPSMC_MSG_PrepareMp1ForUnload"),
    (0x2f, "PPSMC_MSG_Mode1Reset"),
    (0x30, "PPSMC_MSG_SetSystemVirtualDramAddrHigh"),
    (0x31, "PPSMC_MSG_SetSystemVirtualDramAddrLow"),
    (0x32, "PPSMC_MSG_SetPptLimit"),
    (0x33, "PPSMC_MSG_GetPptLimit"),
    (0x34, "PPSMC_MSG_ReenableAcDcInterrupt"),
    (0x35, "PPSMC_MSG_NotifyPowerSource"),
    (0x36, "PPSMC_MSG_RunDcBtc"),
];

/// More messages of 13.0.0, 13.0.7 and 13.0.10.
const NAVI3: [Row; 25] = [
    (0x37, "PPSMC_MSG_GetDebugData"),
    (0x38, "PPSMC_MSG_SetTemperatureInputSelect"),
    (0x39, "PPSMC_MSG_SetFwDstatesMask"),
    (0x3a, "PPSMC_MSG_SetThrottlerMask"),
    (0x3b, "PPSMC_MSG_SetExternalClientDfCstateAllow"),
    (0x3c, "PPSMC_MSG_SetMGpuFanBoostLimitRpm"),
    (0x3d, "PPSMC_MSG_DumpSTBtoDram"),
    (0x3e, "PPSMC_MSG_STBtoDramLogSetDramAddrHigh"),
    (0x3f, "PPSMC_MSG_STBtoDramLogSetDramAddrLow"),
    (0x40, "PPSMC_MSG_STBtoDramLogSetDramSize"),
    (0x41, "PPSMC_MSG_SetGpoAllow"),
    (0x42, "PPSMC_MSG_AllowGfxDcs"),
    (0x43, "PPSMC_MSG_DisallowGfxDcs"),
    (0x44, "PPSMC_MSG_EnableAudioStutterWA"),
    (0x45, "PPSMC_MSG_PowerUpUmsch"),
    (0x46, "PPSMC_MSG_PowerDownUmsch"),
    (0x47, "PPSMC_MSG_SetDcsArch"),
    (0x48, "PPSMC_MSG_TriggerVFFLR"),
    (0x49, "PPSMC_MSG_SetNumBadMemoryPagesRetired"),
    (0x4a, "PPSMC_MSG_SetBadMemoryPagesRetiredFlagsPerChannel"),
    (0x4b, "PPSMC_MSG_SetPriorityDeltaGain"),
    (0x4c, "PPSMC_MSG_AllowIHHostInterrupt"),
    (0x4e, "PPSMC_MSG_DALNotPresent"),
    (0x4f, "PPSMC_MSG_Mode2Reset"),
    (0x51, "PPSMC_MSG_EnableUCLKShadow"),
];

/// More messages of 14.0.2.
const NAVI4: [Row; 22] = [
    (0x38, "PPSMC_MSG_SetTemperatureInputSelect"),
    (0x39, "PPSMC_MSG_SetFwDstatesMask"),
    (0x3a, "PPSMC_MSG_SetThrottlerMask"),
    (0x3b, "PPSMC_MSG_SetExternalClientDfCstateAllow"),
    (0x3c, "PPSMC_MSG_SetMGpuFanBoostLimitRpm"),
    (0x3d, "PPSMC_MSG_DumpSTBtoDram"),
    (0x3e, "PPSMC_MSG_STBtoDramLogSetDramAddrHigh"),
    (0x3f, "PPSMC_MSG_STBtoDramLogSetDramAddrLow"),
    (0x40, "PPSMC_MSG_STBtoDramLogSetDramSize"),
    (0x41, "PPSMC_MSG_SetOBMTraceBufferLogging"),
    (0x43, "PPSMC_MSG_AllowGfxDcs"),
    (0x44, "PPSMC_MSG_DisallowGfxDcs"),
    (0x45, "PPSMC_MSG_EnableAudioStutterWA"),
    (0x46, "PPSMC_MSG_PowerUpUmsch"),
    (0x47, "PPSMC_MSG_PowerDownUmsch"),
    (0x48, "PPSMC_MSG_SetDcsArch"),
    (0x49, "PPSMC_MSG_TriggerVFFLR"),
    (0x4a, "PPSMC_MSG_SetNumBadMemoryPagesRetired"),
    (0x4b, "PPSMC_MSG_SetBadMemoryPagesRetiredFlagsPerChannel"),
    (0x4c, "PPSMC_MSG_SetPriorityDeltaGain"),
    (0x4d, "PPSMC_MSG_AllowIHHostInterrupt"),
    (0x4f, "PPSMC_MSG_Mode3Reset"),
];

/// Messages of 13.0.6.
const INSTINCT: [Row; 57] = [
    (0x1, "PPSMC_MSG_TestMessage"),
    (0x2, "PPSMC_MSG_GetSmuVersion"),
    (0x3, "PPSMC_MSG_GfxDriverReset"),
    (0x4, "PPSMC_MSG_GetDriverIfVersion"),
    (0x5, "PPSMC_MSG_EnableAllSmuFeatures"),
    (0x6, "PPSMC_MSG_DisableAllSmuFeatures"),
    (0x7, "PPSMC_MSG_RequestI2cTransaction"),
    (0x8, "PPSMC_MSG_GetMetricsVersion"),
    (0x9, "PPSMC_MSG_GetMetricsTable"),
    (0xa, "PPSMC_MSG_GetEccInfoTable"),
    (0xb, "PPSMC_MSG_GetEnabledSmuFeaturesLow"),
    (0xc, "PPSMC_MSG_GetEnabledSmuFeaturesHigh"),
    (0xd, "PPSMC_MSG_SetDriverDramAddrHigh"),
    (0xe, "PPSMC_MSG_SetDriverDramAddrLow"),
    (0xf, "PPSMC_MSG_SetToolsDramAddrHigh"),
    (0x10, "PPSMC_MSG_SetToolsDramAddrLow"),
    (0x11, "PPSMC_MSG_SetSystemVirtualDramAddrHigh"),
    (0x12, "PPSMC_MSG_SetSystemVirtualDramAddrLow"),
    (0x13, "PPSMC_MSG_SetSoftMinByFreq"),
    (0x14, "PPSMC_MSG_SetSoftMaxByFreq"),
    (0x15, "PPSMC_MSG_GetMinDpmFreq"),
    (0x16, "PPSMC_MSG_GetMaxDpmFreq"),
    (0x17, "PPSMC_MSG_GetDpmFreqByIndex"),
    (0x18, "PPSMC_MSG_SetPptLimit"),
    (0x19, "PPSMC_MSG_GetPptLimit"),
    (0x1a, "PPSMC_MSG_DramLogSetDramAddrHigh"),
    (0x1b, "PPSMC_MSG_DramLogSetDramAddrLow"),
    (0x1c, "PPSMC_MSG_DramLogSetDramSize"),
    (0x1d, "PPSMC_MSG_GetDebugData"),
    (0x1e, "PPSMC_MSG_HeavySBR"),
    (0x1f, "PPSMC_MSG_SetNumBadHbmPagesRetired"),
    (0x20, "PPSMC_MSG_DFCstateControl"),
    (0x21, "PPSMC_MSG_GetGmiPwrDnHyst"),
    (0x22, "PPSMC_MSG_SetGmiPwrDnHyst"),
    (0x23, "PPSMC_MSG_GmiPwrDnControl"),
    (0x24, "PPSMC_MSG_EnterGfxoff"),
    (0x25, "PPSMC_MSG_ExitGfxoff"),
    (0x26, "PPSMC_MSG_EnableDeterminism"),
    (0x27, "PPSMC_MSG_DisableDeterminism"),
    (0x28, "PPSMC_MSG_DumpSTBtoDram"),
    (0x29, "PPSMC_MSG_STBtoDramLogSetDramAddrHigh"),
    (0x2a, "PPSMC_MSG_STBtoDramLogSetDramAddrLow"),
    (0x2b, "PPSMC_MSG_STBtoDramLogSetDramSize"),
    (0x2c, "PPSMC_MSG_SetSystemVirtualSTBtoDramAddrHigh"),
    (0x2d, "PPSMC_MSG_SetSystemVirtualSTBtoDramAddrLow"),
    (0x2e, "PPSMC_MSG_GfxDriverResetRecovery"),
    (0x2f, "PPSMC_MSG_TriggerVFFLR"),
    (0x30, "PPSMC_MSG_SetSoftMinGfxClk"),
    (0x31, "PPSMC_MSG_SetSoftMaxGfxClk"),
    (0x32, "PPSMC_MSG_GetMinGfxDpmFreq"),
    (0x33, "PPSMC_MSG_GetMaxGfxDpmFreq"),
    (0x34, "PPSMC_MSG_PrepareForDriverUnload"),
    (0x35, "PPSMC_MSG_ReadThrottlerLimit"),
    (0x36, "PPSMC_MSG_QueryValidMcaCount"),
    (0x37, "PPSMC_MSG_McaBankDumpDW"),
    (0x38, "PPSMC_MSG_GetCTFLimit"),
    (0x39, "PPSMC_MSG_ClearMcaOnRead"),
];

/// What mailbox 90 answers.
const RESULTS: [Row; 5] = [
    (smu::result::OK, "PPSMC_Result_OK"),
    (smu::result::FAILED, "PPSMC_Result_Failed"),
    (smu::result::UNKNOWN, "PPSMC_Result_UnknownCmd"),
    (smu::result::PREREQ, "PPSMC_Result_CmdRejectedPrereq"),
    (smu::result::BUSY, "PPSMC_Result_CmdRejectedBusy"),
];

/// Commands of the PSP's bootloader.
const BOOTLOADER: [Row; 9] = [
    (psp::bl::LOAD_SYSDRV, "PSP_BL__LOAD_SYSDRV"),
    (psp::bl::LOAD_SOSDRV, "PSP_BL__LOAD_SOSDRV"),
    (psp::bl::LOAD_KEY_DATABASE, "PSP_BL__LOAD_KEY_DATABASE"),
    (psp::bl::LOAD_SOCDRV, "PSP_BL__LOAD_SOCDRV"),
    (psp::bl::LOAD_DBGDRV, "PSP_BL__LOAD_DBGDRV"),
    (psp::bl::LOAD_INTFDRV, "PSP_BL__LOAD_INTFDRV"),
    (psp::bl::LOAD_RASDRV, "PSP_BL__LOAD_RASDRV"),
    (psp::bl::LOAD_IPKEYMGRDRV, "PSP_BL__LOAD_IPKEYMGRDRV"),
    (psp::bl::LOAD_TOS_SPL_TABLE, "PSP_BL__LOAD_TOS_SPL_TABLE"),
];

/// Commands of the secure OS's mailbox.
const CONTROL: [Row; 2] = [
    (
        psp::ctrl::INIT_GPCOM_RING,
        "GFX_CTRL_CMD_ID_INIT_GPCOM_RING",
    ),
    (psp::ctrl::DESTROY_RINGS, "GFX_CTRL_CMD_ID_DESTROY_RINGS"),
];

/// Commands of the PSP's ring.
const COMMANDS: [Row; 10] = [
    (psp::cmd::LOAD_TA, "GFX_CMD_ID_LOAD_TA"),
    (psp::cmd::UNLOAD_TA, "GFX_CMD_ID_UNLOAD_TA"),
    (psp::cmd::INVOKE_CMD, "GFX_CMD_ID_INVOKE_CMD"),
    (psp::cmd::LOAD_ASD, "GFX_CMD_ID_LOAD_ASD"),
    (psp::cmd::SETUP_TMR, "GFX_CMD_ID_SETUP_TMR"),
    (psp::cmd::LOAD_IP_FW, "GFX_CMD_ID_LOAD_IP_FW"),
    (psp::cmd::DESTROY_TMR, "GFX_CMD_ID_DESTROY_TMR"),
    (psp::cmd::LOAD_TOC, "GFX_CMD_ID_LOAD_TOC"),
    (psp::cmd::AUTOLOAD_RLC, "GFX_CMD_ID_AUTOLOAD_RLC"),
    (psp::cmd::SPATIAL_PART, "GFX_CMD_ID_SRIOV_SPATIAL_PART"),
];

fn find(rows: &[Row], value: u32) -> Option<&'static str> {
    let found = rows.iter().find(|(number, _)| *number == value);
    found.map(|&(_, name)| name)
}

/// A message of the SMU of a generation.
fn message(gfx: Gfx, value: u32) -> Option<&'static str> {
    match gfx {
        Gfx::Gfx9 => find(&INSTINCT, value),
        // No card of this generation is driven without its kernel driver.
        Gfx::Gfx10 => None,
        Gfx::Gfx11 => find(&NAVI, value).or_else(|| find(&NAVI3, value)),
        Gfx::Gfx12 => find(&NAVI, value).or_else(|| find(&NAVI4, value)),
    }
}

/// What a value in a mailbox stands for; nothing where a register is no mailbox, or the value has no name.
pub(super) fn in_mailbox(register: &str, gfx: Gfx, value: u32) -> Option<&'static str> {
    match register {
        "MP1_SMN_C2PMSG_66" => message(gfx, value),
        "MP1_SMN_C2PMSG_90" => find(&RESULTS, value),
        "MP1_SMN_C2PMSG_75" => {
            (value == smu::DEBUG_MODE1_RESET).then_some("DEBUGSMC_MSG_Mode1Reset")
        }
        "MP0_SMN_C2PMSG_35" => find(&BOOTLOADER, value),
        "MP0_SMN_C2PMSG_64" => find(&CONTROL, value),
        _ => None,
    }
}

/// The command in the bytes of a [`psp::CmdResp`], from its start.
pub(super) fn command(bytes: &[u8]) -> Option<Row> {
    let at = std::mem::offset_of!(psp::CmdResp, cmd_id);
    let id = bytes.get(at..)?.first_chunk::<4>()?;
    let id = u32::from_le_bytes(*id);
    COMMANDS.into_iter().find(|(number, _)| *number == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_names_of_their_generation() {
        let of = |gfx, value| in_mailbox("MP1_SMN_C2PMSG_66", gfx, value);
        assert_eq!(of(Gfx::Gfx12, 0x6), Some("PPSMC_MSG_EnableAllSmuFeatures"));
        assert_eq!(of(Gfx::Gfx9, 0x6), Some("PPSMC_MSG_DisableAllSmuFeatures"));
        assert_eq!(of(Gfx::Gfx11, 0x43), Some("PPSMC_MSG_DisallowGfxDcs"));
        assert_eq!(of(Gfx::Gfx12, 0x43), Some("PPSMC_MSG_AllowGfxDcs"));
        assert_eq!(of(Gfx::Gfx12, 0x42), None);
        // The driver's own tables agree with these names.
        for (gfx, messages) in [(Gfx::Gfx11, smu::NAVI), (Gfx::Gfx9, smu::INSTINCT)] {
            let name = |value| of(gfx, value).unwrap().trim_start_matches("PPSMC_MSG_");
            assert_eq!(name(messages.get_smu_version), "GetSmuVersion");
            assert_eq!(
                name(messages.enable_all_smu_features),
                "EnableAllSmuFeatures"
            );
            assert_eq!(
                name(messages.set_driver_dram_addr_high),
                "SetDriverDramAddrHigh"
            );
            assert_eq!(name(messages.set_soft_max_by_freq), "SetSoftMaxByFreq");
            assert_eq!(name(messages.get_dpm_freq_by_index), "GetDpmFreqByIndex");
            assert_eq!(name(messages.set_ppt_limit), "SetPptLimit");
        }
    }

    #[test]
    fn mailboxes_and_commands_of_the_psp_have_names() {
        let of = |register, value| in_mailbox(register, Gfx::Gfx12, value);
        assert_eq!(
            of("MP0_SMN_C2PMSG_35", 0x2_0000),
            Some("PSP_BL__LOAD_SOSDRV")
        );
        assert_eq!(
            of("MP0_SMN_C2PMSG_64", 0x2_0000),
            Some("GFX_CTRL_CMD_ID_INIT_GPCOM_RING")
        );
        assert_eq!(of("MP1_SMN_C2PMSG_90", 0xff), Some("PPSMC_Result_Failed"));
        assert_eq!(of("MP1_SMN_C2PMSG_75", 2), Some("DEBUGSMC_MSG_Mode1Reset"));
        assert_eq!(of("MP1_SMN_C2PMSG_82", 2), None);
        let mut bytes = [0; 16];
        bytes[8] = 0x21;
        let named = command(&bytes).map(|(_, name)| name);
        assert_eq!(named, Some("GFX_CMD_ID_AUTOLOAD_RLC"));
        assert_eq!(command(&bytes[..10]), None);
    }
}
