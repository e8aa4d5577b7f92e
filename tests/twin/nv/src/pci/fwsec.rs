//! FWSEC of the card's ROM, as a black box: it reads what it is told from DMEM, and sets up the region of FRTS with WPR2 around
//! it, or prepares what runs before an operating system.
//!
//! Source: OGKM, kernel_gsp_frts_tu102.c (interface, commands, where errors are); kernel_gsp_fwsec.c (layouts).

use twin::rule::{Proof, Rule};
use vbios::{DATA, INTERFACE};

use super::memory::{long, word};
use super::registers::{SCRATCH_FRTS, SCRATCH_SB};
use super::state::State;

static COMMAND: Rule = Rule {
    name: "NV-FWSEC-COMMAND",
    text: "the DMEM mapper has init_cmd FRTS or SB, and behind cmd_in_buffer_offset their argument: versions 1, the sizes of \
           the structures, flags 2, no image",
    source: "OGKM, kernel_gsp_frts_tu102.c, s_vbiosPatchInterfaceData and s_prepareForFwsec_TU102",
    proof: Proof::Sourced,
};

static REGION: Rule = Rule {
    name: "NV-FWSEC-FRTS",
    text: "the region of FRTS is 1 MiB of the card's memory (media 2), 128 KiB aligned, below its end",
    source: "OGKM, kernel_gsp_frts_tu102.c: WPR_SIZE_1MB_IN_4K, FWSECLIC_FRTS_REGION_MEDIA_FB; kernel_gsp_tu102.c, \
             kgspCalculateFbLayout_TU102: frtsOffset",
    proof: Proof::Sourced,
};

static LEFT: Rule = Rule {
    name: "NV-WPR2-LEFT",
    text: "GSP is started while there is no WPR2: one that an earlier driver left goes away with its booter_unload, or a reset of \
           the card",
    source: "OGKM, kernel_gsp.c, _kgspBootGspRm: unexpected WPR2 already up; Linux, nova-core/gsp/boot.rs, run_fwsec_frts: GPU \
             needs to be reset",
    proof: Proof::Sourced,
};

/// `NVFW_FALCON_APPIF_ID_DMEMMAPPER`.
const MAPPER: u32 = 4;
/// `FALCON_APPLICATION_INTERFACE_DMEM_MAPPER_V3_CMD_FRTS` and `_SB`.
const FRTS: u32 = 0x15;
const SB: u32 = 0x19;
/// Any error: what the codes mean is not published.
const ERROR: u32 = 1;

/// FWSEC runs on GSP.
pub(super) fn run(state: &mut State) {
    let dmem = state.gsp.dmem[..DATA].to_vec();
    let Some((command, argument)) = command(&dmem) else {
        let what = "no DMEM mapper behind FWSEC's interface".into();
        state.journal.broken(&COMMAND, what);
        return;
    };
    let result = match command {
        FRTS => frts(state, &argument),
        SB => read_vbios(&argument),
        _ => Err((&COMMAND, format!("init_cmd {command:#x}"))),
    };
    let (scratch, shift) = match command {
        SB => (SCRATCH_SB, 0),
        _ => (SCRATCH_FRTS, 16),
    };
    let error = match result {
        Ok(()) => 0,
        Err((rule, what)) => {
            state.journal.broken(rule, what);
            ERROR << shift
        }
    };
    state.hold(scratch, error);
}

/// What the mapper says: the command, and what lies behind its place.
fn command(dmem: &[u8]) -> Option<(u32, Vec<u8>)> {
    let [_, header, size, count] = *dmem.get(INTERFACE..)?.first_chunk::<4>()?;
    let mut entries = (0..usize::from(count)).rev().map(|i| {
        let at = INTERFACE + usize::from(header) + i * usize::from(size);
        (word(dmem, at), word(dmem, at + 4))
    });
    let (_, mapper) = entries.find(|(id, _)| *id == MAPPER)?;
    let mapper = dmem.get(mapper as usize..)?;
    let buffer = word(mapper, 8) as usize;
    let bytes = word(mapper, 12) as usize;
    let argument = dmem.get(buffer..)?.get(..bytes)?;
    Some((word(mapper, 0x2c), argument.to_vec()))
}

type Checked = Result<(), (&'static Rule, String)>;

/// `FWSECLIC_READ_VBIOS_DESC`.
fn read_vbios(argument: &[u8]) -> Checked {
    let found = (
        [word(argument, 0), word(argument, 4)],
        long(argument, 8),
        [word(argument, 16), word(argument, 20)],
    );
    match found == ([1, 24], 0, [0, 2]) {
        true => Ok(()),
        false => Err((&COMMAND, format!("FWSECLIC_READ_VBIOS_DESC is {found:x?}"))),
    }
}

/// `FWSECLIC_FRTS_CMD`.
fn frts(state: &mut State, argument: &[u8]) -> Checked {
    read_vbios(argument)?;
    let words: Vec<u32> = (0..5).map(|i| word(argument, 24 + 4 * i)).collect();
    let [version, size, offset, pages, media] = words[..] else {
        return Ok(());
    };
    if [version, size] != [1, 20] {
        let what = format!("FWSECLIC_FRTS_REGION_DESC is {words:x?}");
        return Err((&COMMAND, what));
    }
    let start = u64::from(offset) << 12;
    let end = start + (u64::from(pages) << 12);
    let fits = start > 0 && start.is_multiple_of(0x2_0000) && end <= state.vram.bytes();
    if pages != 0x100 || media != 2 || !fits {
        let what = format!("{start:#x} to {end:#x}, media {media}");
        return Err((&REGION, what));
    }
    if let Some(wpr2) = &state.vram.wpr2 {
        let what = format!("WPR2 is {:#x} to {:#x}", wpr2.start, wpr2.end);
        return Err((&LEFT, what));
    }
    state.vram.wpr2 = Some(start..end);
    Ok(())
}
