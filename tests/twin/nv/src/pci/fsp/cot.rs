//! The chain of trust: what FSP is told to start on GSP, and where to put FRTS.
//!
//! Source: OGKM, kern_fsp_cot_payload.h, NVDM_PAYLOAD_COT; kern_fsp_gh100.c, kfspPrepareBootCommands_GH100, kfspSetupGspImages;
//! generated/g_kern_fsp_nvoc.c: which version and which sizes a chip has.

use std::ops::Range;

use twin::rule::{Proof, Rule};

use super::registers::FRTS_INSECURE;
use super::{Failed, INVALID_DATA, INVALID_STATE, fmc, with};
use crate::pci::chip::Fsp as Facts;
use crate::pci::flush;
use crate::pci::memory::{long, word};
use crate::pci::signed::{Fmc, sum};
use crate::pci::state::State;

static PAYLOAD: Rule = Rule {
    name: "NV-FSP-COT",
    text: "the payload of a chain of trust has 35C bytes and says so, and its version is 1 on Hopper, 2 on Blackwell",
    source: "OGKM, kern_fsp_cot_payload.h; generated/g_kern_fsp_nvoc.c, cotPayloadVersion",
    proof: Proof::Sourced,
};

static WPR2: Rule = Rule {
    name: "NV-FSP-WPR2",
    text: "FSP is sent a chain of trust while there is no WPR2 and nothing runs on GSP: what an earlier driver left goes away \
           when GSP's firmware is told to end, or with a reset of the card",
    source: "OGKM, kernel_gsp.c, _kgspBootGspRm: unexpected WPR2 already up, the GPU is likely in a bad state and may need to be reset; \
             kernel_gsp_gh100.c, kgspIsWpr2Up_GH100, kgspTeardown_GH100",
    proof: Proof::Sourced,
};

static IMAGE: Rule = Rule {
    name: "NV-FSP-COT-FMC",
    text: "gspFmcSysmemOffset is the section image of a published FMC of the chip, in one piece and unchanged; its sections hash, \
           publickey and signature are in the payload, in the sizes of the chip, with zeros behind them",
    source: "OGKM, kern_fsp_gh100.c, kfspSetupGspImages; generated/g_kern_fsp_nvoc.c, cotPayloadSignatureSize, cotPayloadPublicKeySize; \
             Linux, nova-core/firmware/fsp.rs: shorter ones are zero-padded; which bytes: the files of linux-firmware",
    proof: Proof::Sourced,
};

static FRTS: Rule = Rule {
    name: "NV-FSP-COT-FRTS",
    text: "FRTS has 1 MiB of the card's memory, and behind it, up to the end, there is room for what is reserved there: 2 MiB on \
           Hopper; 2.125 MiB on Blackwell, and the PMU's 24.125 MiB",
    source: "OGKM, kern_fsp_gh100.c, kfspPrepareBootCommands_GH100: FRTS, PMU, rsvd est; mem_mgr_gm107.c and mem_mgr_gb100.c, \
             memmgrGetFBEndReserveSizeEstimate; kern_pmu.c, kpmuReservedMemorySizeGet; the same in nova-core/fsp.rs",
    proof: Proof::Sourced,
};

static ALIGNED: Rule = Rule {
    name: "NV-FSP-COT-ALIGNED",
    text: "frtsVidmemOffset is a multiple of 2 MiB",
    source: "OGKM, kern_fsp_gh100.c, kfspPrepareBootCommands_GH100: 2M alignment seems to be required",
    proof: Proof::Guess,
};

static SYSMEM: Rule = Rule {
    name: "NV-FSP-COT-SYSMEM",
    text: "where FRTS goes to host memory, too, it is 1 MiB that is mapped for the card, and SW_FRTS_INSECURE_ADDR and _CONFIG say \
           the same",
    source: "OGKM, kern_fsp_gh100.c, kfspPrepareBootCommands_GH100 and kfspFrtsSysmemLocationProgram_GH100; Linux, nova-core/fsp.rs, \
             which leaves it out, as OGKM does where GSP runs RM",
    proof: Proof::Sourced,
};

/// Bytes of the payload.
const BYTES: usize = 0x35c;
const HASH: Range<usize> = 0x24..0x54;
const KEY: usize = 0x54;
const SIGNATURE: usize = 0x1d4;
/// Bytes that there are for a key, and for a signature.
const MOST: usize = 384;
const MIB: u64 = 1 << 20;

/// FSP is sent a chain of trust.
pub(super) fn run(state: &mut State, payload: &[u8]) -> Result<(), Failed> {
    let chip = state.config.chip;
    let Some(facts) = &chip.fsp else {
        return Ok(());
    };
    let head = word(payload, 0);
    let [version, size] = [head & 0xffff, head >> 16];
    if payload.len() != BYTES || [version, size] != [facts.cot_version.into(), BYTES as u32] {
        let what = format!(
            "version {version}, size {size:#x}, {:#x} bytes",
            payload.len()
        );
        return Err((Some((&PAYLOAD, what)), INVALID_DATA));
    }
    if state.vram.wpr2.is_some() || state.gsp.riscv.is_some() || !state.fsp.gate.is_open() {
        let (wpr2, firmware) = (&state.vram.wpr2, state.firmware.phase_name());
        let what = format!("WPR2 is {wpr2:x?}, GSP's firmware is {firmware}");
        return Err((Some((&WPR2, what)), INVALID_STATE));
    }
    flush::check(state, "FSP starts GSP").map_err(with(INVALID_STATE))?;
    let name = image(state, facts, payload)?;
    let frts = frts(state, facts, payload).map_err(with(INVALID_DATA))?;
    sysmem(state, payload)?;
    let arguments = long(payload, 0x354);
    state.journal.event(format!("FSP starts {name} on GSP"));
    state.vram.wpr2 = Some(frts.clone());
    fmc::begins(state, arguments, frts);
    Ok(())
}

/// What is to be started, by its hash: whether all of it is as it was signed.
fn image(state: &State, facts: &Facts, payload: &[u8]) -> Result<&'static str, Failed> {
    let wrong = |what: String| (Some((&IMAGE, what)), INVALID_DATA);
    let family = state.config.chip.family;
    let hash = sum(&payload[HASH]);
    let known = |fmc: &&Fmc| fmc.family == family && fmc.hash == hash;
    let fmc = state.config.signed.fmcs.iter().find(known).cloned();
    let fmc = fmc.ok_or_else(|| wrong(format!("no FMC has a hash with the sum {hash:#x}")))?;
    for (name, at, bytes, wanted) in [
        ("publicKey", KEY, facts.key, fmc.key),
        ("signature", SIGNATURE, facts.signature, fmc.signature),
    ] {
        let (own, rest) = payload[at..at + MOST].split_at(bytes);
        if sum(own) != wanted || rest.iter().any(|byte| *byte != 0) {
            return Err(wrong(format!("{name} is not that of {}", fmc.name)));
        }
    }
    let (at, bytes) = (long(payload, 4), fmc.image.1);
    let mut found = vec![0; bytes as usize];
    if !state.host().read(at, &mut found, "FSP, the FMC") {
        return Err((None, INVALID_DATA));
    }
    match sum(&found) == fmc.image.0 {
        true => Ok(fmc.name),
        false => Err(wrong(format!(
            "{bytes:#x} bytes at {at:#x} are not {}",
            fmc.name
        ))),
    }
}

/// Where FRTS goes in the card's memory.
fn frts(
    state: &State,
    facts: &Facts,
    payload: &[u8],
) -> Result<Range<u64>, (&'static Rule, String)> {
    let (offset, size) = (long(payload, 0x18), u64::from(word(payload, 0x20)));
    let least = facts.reserved + u64::from(facts.pmu);
    let all = state.vram.bytes();
    let what = format!("{size:#x} bytes that end {offset:#x} before {all:#x}");
    let start = all
        .checked_sub(offset)
        .and_then(|end| end.checked_sub(size));
    match start {
        Some(start) if size == MIB && offset >= least => match offset.is_multiple_of(2 * MIB) {
            true => Ok(start..start + size),
            false => Err((&ALIGNED, what)),
        },
        _ => Err((&FRTS, what)),
    }
}

/// The copy in host memory, where one is wanted.
fn sysmem(state: &State, payload: &[u8]) -> Result<(), Failed> {
    let (at, size) = (long(payload, 0xc), word(payload, 0x14));
    let told = FRTS_INSECURE.map(|register| state.held(register));
    if (at, size) == (0, 0) {
        return Ok(());
    }
    let wanted = [at as u32, (at >> 32) as u32, size >> 12 | 1 << 16];
    if u64::from(size) != MIB || told != wanted {
        let what = format!("{size:#x} bytes at {at:#x}, the registers say {told:x?}");
        return Err((Some((&SYSMEM, what)), INVALID_DATA));
    }
    match state.host().is_mapped(at, size.into(), "FSP, FRTS") {
        true => Ok(()),
        false => Err((None, INVALID_DATA)),
    }
}
