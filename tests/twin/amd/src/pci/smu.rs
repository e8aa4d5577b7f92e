//! Power management: messages by mailboxes, tables, and the reset of the card.
//!
//! Messages of versions 13.0.0, 13.0.6, 13.0.7, 14.0.2 and 14.0.3, as far as drivers without a kernel driver send them;
//! clocks have three levels each, and settings change nothing but what is asked for afterwards.

use std::collections::HashMap;

use drivers_spec::amd::fw_type::GfxFwType as Fw;
use drivers_spec::amd::mmio::mp;
use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::smu::result::OK;
use drivers_spec::amd::smu::{
    self, DEBUG_MODE1_RESET, DPM_COUNT, INSTINCT, Messages, NAVI, result,
};
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::kernel;
use super::registers::{At, Hook, hold};
use super::state::State;
use super::wait::{Looks, Wait};

/// A message at a time.
pub static MESSAGE: Rule = Rule {
    name: "AMD-SMU-MESSAGE",
    text: "a message to the SMU is sent after the previous one was answered and C2PMSG_90 was cleared",
    source: "Linux, drivers/gpu/drm/amd/pm/swsmu/smu_cmn.c, smu_cmn_send_smc_msg_with_param and __smu_cmn_send_msg",
    proof: Proof::Sourced,
};

/// A reset comes when nothing is under way.
pub static MASTER: Rule = Rule {
    name: "AMD-SMU-RESET-MASTER",
    text: "bus mastering is disabled when a card is reset: transfers in flight would be lost",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_device.c, amdgpu_device_mode1_reset: pci_clear_master first",
    proof: Proof::Sourced,
};

/// The block's number among the clients of the MM hub: Linux, mmhub_v3_0.c, mmhub_client_ids_v3_0_0.
const CLIENT: u32 = 7;

pub(super) const HOOKS: &[Hook] = &[
    Hook::write(&mp::MP1_SMN_C2PMSG_66, send),
    Hook::both(&mp::MP1_SMN_C2PMSG_90, response, clear),
    Hook::write(&mp::MP1_SMN_C2PMSG_75, debug),
];

/// What else is a message, by its number: `PPSMC_MSG_*` of smu_v13_0_0_ppsmc.h and smu_v14_0_2_ppsmc.h.
const TEST: u32 = 0x1;
const SET_ALLOWED_FEATURES_MASK: [u32; 2] = [0x4, 0x5];
const DISABLE_ALL_SMU_FEATURES: u32 = 0x7;
const GET_RUNNING_SMU_FEATURES: [u32; 2] = [0xc, 0xd];
const TRANSFER_TABLE_DRAM2SMU: u32 = 0x13;
const GET_MIN_DPM_FREQ: u32 = 0x1d;
const GET_MAX_DPM_FREQ: u32 = 0x1e;
const GET_DC_MODE_MAX_DPM_FREQ: u32 = 0x27;
const ALLOW_GFX_OFF: u32 = 0x28;
const DISALLOW_GFX_OFF: u32 = 0x29;
const PREPARE_MP1_FOR_UNLOAD: u32 = 0x2e;
/// Of version 13 alone.
const MODE1_RESET: u32 = 0x2f;
const GET_PPT_LIMIT: u32 = 0x33;
/// Settings of the vendor's kernel driver that nothing here depends on: addresses of logs, PCIe, workloads, VCN and JPEG
/// on and off, calibration, throttlers, fans.
const ACCEPTED: [u32; 27] = [
    0x10, 0x11, 0x1b, 0x1c, 0x20, 0x21, 0x22, 0x23, 0x24, 0x2a, 0x2b, 0x2c, 0x2d, 0x30, 0x31, 0x34,
    0x35, 0x36, 0x39, 0x3a, 0x3b, 0x3c, 0x41, 0x42, 0x43, 0x4c, 0x4e,
];
/// `TABLE_COMBO_PPTABLE`: what the board's makers have set.
const TABLE_COMBO_PPTABLE: u32 = 1;
/// `TABLE_ACTIVITY_MONITOR_COEFF`: how a workload is followed; which one is in bits 31:16.
const TABLE_ACTIVITY: u32 = 7;
/// `TABLE_OVERDRIVE`: what a user has set.
const TABLE_OVERDRIVE: u32 = 8;

/// The argument of `GfxDriverReset` that resets all of it: smu_v13_0_6_ppt.c, smu_v13_0_6_mode1_reset.
const MODE1: u32 = 1;

/// Levels of each clock in MHz: made up.
const LEVELS: [[u32; 3]; 13] = {
    const OTHER: [u32; 3] = [300, 600, 1200];
    let mut all = [OTHER; 13];
    all[0] = [500, 1500, 2500];
    all[1] = [400, 800, 1200];
    all[2] = [97, 800, 1250];
    all[3] = [300, 1000, 2000];
    all[4] = [300, 1100, 1800];
    all
};
/// The table of measurements by generation: its bytes, and what is in it, 16 bits each, behind so many bytes. Made up: a
/// card that does nothing, which its power holds back a little. Source: smu13_driver_if_v13_0_0.h and
/// smu14_driver_if_v14_0.h, `SmuMetrics_t`.
const METRICS: [(Gfx, usize, Values); 2] = [
    (
        Gfx::Gfx11,
        392,
        [
            (54, 2480),         // AverageGfxclkFrequencyPreDs
            (56, 500),          // AverageGfxclkFrequencyPostDs
            (58, 1990),         // AverageFclkFrequencyPreDs
            (60, 300),          // AverageFclkFrequencyPostDs
            (62, 1249),         // AverageMemclkFrequencyPreDs
            (64, 97),           // AverageMemclkFrequencyPostDs
            (84, 712),          // AvgVoltage[SVI_PLANE_GFX]
            (104, 3),           // AverageGfxActivity
            (106, 16),          // AverageUclkActivity
            (116, 42),          // AverageSocketPower
            (118, 55),          // AverageTotalBoardPower
            (120, 40),          // AvgTemperature[TEMP_EDGE]
            (122, 52),          // AvgTemperature[TEMP_HOTSPOT]
            (128, 58),          // AvgTemperature[TEMP_MEM]
            (148, 16 << 8 | 4), // PcieRate, PcieWidth
            (150, 30),          // AvgFanPwm
            (152, 900),         // AvgFanRpm
        ],
    ),
    (
        Gfx::Gfx12,
        412,
        [
            (46, 2480),
            (48, 500),
            (50, 1990),
            (52, 300),
            (54, 1249),
            (56, 97),
            (108, 712),
            (124, 3),
            (126, 16),
            (136, 42),
            (138, 55),
            (140, 40),
            (142, 52),
            (148, 58),
            (166, 16 << 8 | 4),
            (168, 30),
            (170, 900),
        ],
    ),
];
/// Where, and what.
type Values = [(usize, u16); 17];
/// Where that says how often it was measured (`MetricsCounter`), and how much the first limit of power
/// (`THROTTLER_PPT0_BIT`) holds clocks back, in %.
const COUNTER: [(Gfx, usize); 2] = [(Gfx::Gfx11, 80), (Gfx::Gfx12, 104)];
const THROTTLED: [(Gfx, usize); 2] = [(Gfx::Gfx11, 154 + 16), (Gfx::Gfx12, 172 + 14)];

/// The same of an MI300X, which all has 32 bits and most of it 10 bits behind the point: smu_v13_0_6_pmfw.h,
/// `MetricsTableX_t`.
const INSTINCT_METRICS: [(usize, u32); 13] = [
    (4, 51 << 10 | 0x1ff),  // MaxSocketTemperature
    (8, 49 << 10),          // MaxVrTemperature
    (12, 37 << 10 | 0x300), // MaxHbmTemperature
    (40, 750 << 10),        // SocketPowerLimit
    (44, 750 << 10),        // MaxSocketPowerLimit
    (48, 138 << 10),        // SocketPower
    (108, 1800 << 10),      // FclkFrequency
    (112, 900 << 10),       // UclkFrequency
    (1272, 2 << 10),        // SocketGfxBusy
    (1276, 1 << 10),        // DramBandwidthUtilization
    (1372, 132 << 10),      // GfxclkFrequency[0]
    (1904, 5),              // PCIeLinkSpeed
    (1908, 16),             // PCIeLinkWidth
];
const INSTINCT_METRICS_BYTES: usize = 2008;
/// How many tables are empty before the SMU has measured for the first time: Linux, smu_v13_0_6_ppt.c,
/// smu_v13_0_6_setup_driver_pptable, asks again until AccumulationCounter is not 0.
const EMPTY_TABLES: u32 = 2;
/// Versions of the firmware: made up, but that the second has all of the table.
const NAVI_FIRMWARE: u32 = 0x004e_5400;
const INSTINCT_FIRMWARE: u32 = 0x0055_7c00;

/// The state of the SMU.
#[derive(Default)]
pub(super) struct Smu {
    /// A message is under way: since when, and what it comes to.
    answer: Option<(Looks, u32, u32)>,
    /// C2PMSG_90 was cleared since the last answer.
    is_clear: bool,
    /// The card starts anew once the answer has been seen.
    resets: bool,
    features: bool,
    /// Which of them may run: bits 31:0 and 63:32.
    allowed: [u32; 2],
    dram: u64,
    /// Least and greatest of each clock.
    limits: HashMap<u32, [u32; 2]>,
    watts: u32,
    /// Tables that were written.
    tables: u32,
}

/// When power has come.
pub(super) fn power_on(state: &mut State) {
    if state.gfx == Gfx::Gfx9 {
        start(state);
    }
}

/// Its firmware runs, and is ready for a message: who sends one first waits for an answer to none.
pub(super) fn start(state: &mut State) {
    let reg = &mp::MP1_SMN_C2PMSG_90;
    state.registers.set(reg, 0, result::OK);
    kernel::smu_runs(state);
}

fn clear(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    if state.smu.answer.is_some() {
        let what = format!("C2PMSG_90 becomes {value:#x} while a message is under way");
        return Err((&MESSAGE, what));
    }
    state.smu.is_clear = value == 0;
    hold(state, at, value)
}

fn response(state: &mut State, at: At) -> Result<u32, Broken> {
    if let Some((looks, ..)) = &mut state.smu.answer
        && looks.look()
        && let Some((_, result, argument)) = state.smu.answer.take()
    {
        state.registers.set(at.reg, at.instance, result);
        let reg = &mp::MP1_SMN_C2PMSG_82;
        state.registers.set(reg, at.instance, argument);
        if state.smu.resets {
            return reset(state).map(|()| result);
        }
    }
    Ok(state.registers.get(at.reg, at.instance))
}

fn send(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    hold(state, at, value)?;
    let is_clear = std::mem::take(&mut state.smu.is_clear);
    if state.smu.answer.is_some() || !is_clear {
        return Err((&MESSAGE, format!("message {value:#x}")));
    }
    // Of GFX9 it runs since power has come.
    let runs = state.psp.has(Fw::SMU) || state.gfx == Gfx::Gfx9;
    let looks = match runs {
        true => state.waits(Wait::Message),
        // Nobody is there to answer.
        false => Looks::new(u32::MAX),
    };
    let argument = state.registers.get(&mp::MP1_SMN_C2PMSG_82, at.instance);
    if Some(value) == messages(state.gfx).gfx_driver_reset && argument == MODE1 {
        return reset(state);
    }
    let (mut result, argument) = message(state, value, argument);
    let injected = state.config.smu_error;
    if let Some((_, error)) = injected.filter(|(of, _)| *of == value) {
        result = error;
    }
    let is_reset = value == MODE1_RESET && state.gfx == Gfx::Gfx11;
    state.smu.resets = is_reset && result == OK;
    state.smu.answer = Some((looks, result, argument));
    Ok(())
}

fn messages(gfx: Gfx) -> &'static Messages {
    match gfx {
        Gfx::Gfx9 => &INSTINCT,
        _ => &NAVI,
    }
}

fn message(state: &mut State, number: u32, argument: u32) -> (u32, u32) {
    let known = messages(state.gfx);
    let is_navi = state.gfx != Gfx::Gfx9;
    let (clock, value) = (argument >> 16, argument & 0xffff);
    let levels = LEVELS.get(clock as usize);
    let smu = &mut state.smu;
    let ok = |answer: u32| (result::OK, answer);
    let failed = (result::FAILED, argument);
    let limits = smu.limits.entry(clock).or_insert([0, u32::MAX]);
    match number {
        TEST => ok(argument.wrapping_add(1)),
        n if n == known.get_smu_version => ok(match is_navi {
            true => NAVI_FIRMWARE,
            false => INSTINCT_FIRMWARE,
        }),
        n if n == known.get_driver_if_version => ok(0x3d),
        n if n == known.enable_all_smu_features => {
            smu.features = true;
            ok(argument)
        }
        DISABLE_ALL_SMU_FEATURES | PREPARE_MP1_FOR_UNLOAD if is_navi => {
            smu.features = false;
            ok(argument)
        }
        n if n == known.set_driver_dram_addr_high => {
            smu.dram = smu.dram & 0xffff_ffff | u64::from(argument) << 32;
            ok(argument)
        }
        n if n == known.set_driver_dram_addr_low => {
            smu.dram = smu.dram & !0xffff_ffff | u64::from(argument);
            ok(argument)
        }
        n if Some(n) == known.transfer_table_smu2dram => transfer(state, argument),
        n if Some(n) == known.get_metrics_table => export(state, argument),
        n if n == known.get_dpm_freq_by_index => match (smu.features, levels) {
            (false, _) => (result::PREREQ, argument),
            (true, None) => failed,
            (true, Some(levels)) if value == DPM_COUNT => ok(levels.len() as u32),
            (true, Some(levels)) => levels.get(value as usize).map_or(failed, |mhz| ok(*mhz)),
        },
        GET_MIN_DPM_FREQ | GET_MAX_DPM_FREQ if is_navi => match levels {
            Some(levels) if number == GET_MIN_DPM_FREQ => ok(levels[0]),
            Some(levels) => ok(levels[levels.len() - 1]),
            None => failed,
        },
        n if n == known.set_soft_min_by_freq || n == known.set_soft_max_by_freq => {
            let which = usize::from(n == known.set_soft_max_by_freq);
            match (smu.features, levels) {
                (false, _) => (result::PREREQ, argument),
                (true, None) => failed,
                (true, Some(_)) => {
                    limits[which] = value;
                    ok(argument)
                }
            }
        }
        n if n == known.set_ppt_limit => {
            smu.watts = value;
            ok(argument)
        }
        GET_PPT_LIMIT if is_navi => ok(smu.watts),
        GET_DC_MODE_MAX_DPM_FREQ if is_navi => {
            levels.map_or(failed, |levels| ok(levels[levels.len() - 1]))
        }
        ALLOW_GFX_OFF | DISALLOW_GFX_OFF if is_navi => ok(argument),
        MODE1_RESET if state.gfx == Gfx::Gfx11 => ok(argument),
        n if is_navi && SET_ALLOWED_FEATURES_MASK.contains(&n) => {
            smu.allowed[(n - SET_ALLOWED_FEATURES_MASK[0]) as usize] = argument;
            ok(argument)
        }
        n if is_navi && GET_RUNNING_SMU_FEATURES.contains(&n) => {
            let mask = smu.allowed[(n - GET_RUNNING_SMU_FEATURES[0]) as usize];
            ok(if smu.features { mask } else { 0 })
        }
        TRANSFER_TABLE_DRAM2SMU if is_navi => {
            // What it says changes nothing here, but it has to be where the driver has said.
            let (at, hub) = (smu.dram, state.hubs.mm(0));
            match hub.read(CLIENT, at, &mut [0; 4096]) {
                Ok(()) => ok(argument),
                Err(_) => failed,
            }
        }
        n if is_navi && ACCEPTED.contains(&n) => ok(argument),
        _ => (result::UNKNOWN, argument),
    }
}

/// Writes a table to where the driver has said.
fn transfer(state: &mut State, table: u32) -> (u32, u32) {
    let known = [TABLE_COMBO_PPTABLE, TABLE_ACTIVITY, TABLE_OVERDRIVE];
    if known.contains(&(table & 0xffff)) && state.gfx == Gfx::Gfx11 {
        // Nothing is known of a board here: all limits are 0, which drivers take for "not adjustable"; nobody has set anything,
        // and no workload is followed.
        let hub = state.hubs.mm(0);
        let written = hub.write(CLIENT, state.smu.dram, &[0; 4096]);
        return (written.map_or(result::FAILED, |()| result::OK), table);
    }
    let found = METRICS.iter().find(|(gfx, ..)| *gfx == state.gfx);
    let (Some((_, bytes, values)), true) = (found, table == smu::TABLE_SMU_METRICS) else {
        return (result::FAILED, table);
    };
    state.smu.tables += 1;
    let mut metrics = vec![0u8; *bytes];
    for (at, value) in values {
        metrics[*at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    let here = |all: [(Gfx, usize); 2]| all.into_iter().find(|(gfx, _)| *gfx == state.gfx);
    if let (Some((_, counter)), Some((_, throttled))) = (here(COUNTER), here(THROTTLED)) {
        metrics[counter..counter + 4].copy_from_slice(&state.smu.tables.to_le_bytes());
        metrics[throttled] = 7;
    }
    let hub = state.hubs.mm(0).clone();
    match hub.write(CLIENT, state.smu.dram, &metrics) {
        Ok(()) => (result::OK, table),
        Err(_) => (result::FAILED, table),
    }
}

/// Writes the table of an MI300X to where the driver has said.
fn export(state: &mut State, argument: u32) -> (u32, u32) {
    state.smu.tables += 1;
    let mut metrics = vec![0u8; INSTINCT_METRICS_BYTES];
    if let Some(counter) = state
        .smu
        .tables
        .checked_sub(EMPTY_TABLES)
        .filter(|n| *n > 0)
    {
        for (at, value) in [(0, counter)].into_iter().chain(INSTINCT_METRICS) {
            metrics[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
    }
    let hub = state.hubs.mm(0).clone();
    match hub.write(CLIENT, state.smu.dram, &metrics) {
        Ok(()) => (result::OK, argument),
        Err(_) => (result::FAILED, argument),
    }
}

fn debug(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    hold(state, at, value)?;
    // Only with firmware of its own running does it listen.
    if value != DEBUG_MODE1_RESET || !state.psp.has(Fw::SMU) {
        return Ok(());
    }
    let done = reset(state);
    // It answers before it starts anew: who waits for that has found it on cards (tinygrad, runtime/support/am/ip.py,
    // AM_SMU._send_msg with debug).
    let reg = &mp::MP1_SMN_C2PMSG_54;
    state.registers.set(reg, at.instance, result::OK);
    done
}

/// The card starts anew.
fn reset(state: &mut State) -> Result<(), Broken> {
    let was_master = state.bus.master();
    state.reset("mode 1 reset");
    match was_master {
        true => Err((&MASTER, "a reset by the SMU".into())),
        false => Ok(()),
    }
}
