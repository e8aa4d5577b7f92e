//! Images of firmware, as far as it can be told whether they are whole and the right ones: what the PSP checks by
//! signatures cannot be checked here.
//!
//! In front of what is signed are 256 bytes, behind it is a signature. Observed in the files of all chips here of
//! Debian's firmware-amd-graphics 20250410 and 20260916: `$PS1` at 0x10 (the key database of version 13 has none),
//! how many bytes are signed at 0x14, and a number in the low half of 0x58 that tells kinds apart.

use drivers_spec::amd::fw_type::GfxFwType as Fw;
use drivers_spec::amd::psp::bl;

/// Bytes before what is signed.
pub(super) const HEADER: usize = 0x100;
/// The smaller of the signatures that there are.
const SIGNATURE: u64 = 0x100;
const COOKIE: &[u8] = b"$PS1";

/// Kinds by the number that headers have, for commands of the bootloader.
const BOOTLOADER: [(u32, &[u16]); 9] = [
    (bl::LOAD_KEY_DATABASE, &[KEYS]),
    // Linux, psp_v13_0.c, psp_v13_0_bootloader_load_spl hands over the key database again.
    (bl::LOAD_TOS_SPL_TABLE, &[0x56, KEYS]),
    (bl::LOAD_SYSDRV, &[0x0a]),
    (bl::LOAD_SOCDRV, &[0x14a]),
    (bl::LOAD_INTFDRV, &[0x14c]),
    (bl::LOAD_DBGDRV, &[0x14b]),
    (bl::LOAD_RASDRV, &[0x152]),
    (bl::LOAD_IPKEYMGRDRV, &[0x1e1]),
    (bl::LOAD_SOSDRV, &[0x09]),
];
const KEYS: u16 = 0x4f;
/// Of an application of the secure OS.
pub(super) const APPLICATION: u16 = 0;
/// Of a table of contents.
pub(super) const TOC: u16 = 0x200e;

/// Kinds by the number that headers have, for what `LOAD_IP_FW` loads.
const BLOCKS: [(Fw, u16); 41] = [
    (Fw::SMU, 0x1001),
    (Fw::CP_MEC, 0x2004),
    (Fw::CP_MEC_ME1, 0x2005),
    (Fw::CP_MES, 0x2007),
    (Fw::MES_STACK, 0x2008),
    (Fw::RS64_MES, 0x2007),
    (Fw::RS64_MES_STACK, 0x2008),
    (Fw::RLC_G, 0x2009),
    (Fw::RLC_V, 0x200a),
    (Fw::RLC_RESTORE_LIST_GPM_MEM, 0x200b),
    (Fw::RLC_RESTORE_LIST_SRM_MEM, 0x200c),
    (Fw::RLC_RESTORE_LIST_SRM_CNTL, 0x200d),
    (Fw::TOC, TOC),
    (Fw::RLC_P, 0x200f),
    (Fw::RLC_IRAM, 0x2016),
    (Fw::RLC_DRAM_BOOT, 0x2017),
    (Fw::SDMA0, 0x2025),
    (Fw::SDMA1, 0x2025),
    (Fw::SDMA2, 0x2025),
    (Fw::SDMA3, 0x2025),
    (Fw::VCN, 0x2038),
    (Fw::IMU_I, 0x203b),
    (Fw::IMU_D, 0x203c),
    (Fw::SDMA_UCODE_TH1, 0x203f),
    (Fw::CP_MES_KIQ, 0x2042),
    (Fw::MES_KIQ_STACK, 0x2043),
    (Fw::RS64_KIQ, 0x2042),
    (Fw::RS64_KIQ_STACK, 0x2043),
    (Fw::RS64_PFP, 0x2044),
    (Fw::RS64_PFP_P0_STACK, 0x2045),
    (Fw::RS64_PFP_P1_STACK, 0x2045),
    (Fw::RS64_ME, 0x2046),
    (Fw::RS64_ME_P0_STACK, 0x2047),
    (Fw::RS64_ME_P1_STACK, 0x2047),
    (Fw::RS64_MEC, 0x2048),
    (Fw::RS64_MEC_P0_STACK, 0x2049),
    (Fw::RS64_MEC_P1_STACK, 0x2049),
    (Fw::RS64_MEC_P2_STACK, 0x2049),
    (Fw::RS64_MEC_P3_STACK, 0x2049),
    (Fw::P2S_TABLE, 0x1d2),
    (Fw::REG_LIST, 0x135),
];

/// The kinds that a command of the bootloader takes; none for what is no command.
pub(super) fn of_command(command: u32) -> Option<&'static [u16]> {
    let found = BOOTLOADER.iter().find(|(known, _)| *known == command);
    found.map(|(_, kinds)| *kinds)
}

/// The kinds that a type of firmware has; none for what is not known here.
pub(super) fn of_type(fw: Fw) -> Option<Vec<u16>> {
    if fw == Fw::SDMA_UCODE_TH0 {
        // Of two threads the first; from version 7 on the only one.
        return Some(vec![0x203e, 0x2025]);
    }
    let found = BLOCKS.iter().find(|(known, _)| *known == fw);
    found.map(|(_, kind)| vec![*kind])
}

/// Everything that can be loaded.
pub(super) fn all() -> impl Iterator<Item = Fw> {
    BLOCKS.iter().map(|(fw, _)| *fw)
}

fn word(start: &[u8; HEADER], at: usize) -> u32 {
    let word = start[at..].first_chunk::<4>();
    word.map_or(0, |word| u32::from_le_bytes(*word))
}

/// How many bytes an image has at least, by its header.
pub(super) fn bytes(start: &[u8; HEADER]) -> u64 {
    HEADER as u64 + u64::from(word(start, 0x14)) + SIGNATURE
}

/// What is wrong with an image of those kinds, of which this is the start, in so many bytes.
pub(super) fn wrong(start: &[u8; HEADER], kinds: &[u16], room: u64) -> Option<String> {
    let kind = word(start, 0x58) as u16;
    if !kinds.contains(&kind) {
        return Some(format!("its header says kind {kind:#x}, not {kinds:x?}"));
    }
    if kind != KEYS && !start[0x10..].starts_with(COOKIE) {
        return Some("its header has no \"$PS1\"".into());
    }
    let least = bytes(start);
    (room < least).then(|| format!("{room:#x} bytes are fewer than the {least:#x} of its header"))
}
