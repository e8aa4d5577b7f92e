//! What GSP has the host do while it starts: steps that only the host can take, since GSP's own core stops meanwhile.
//!
//! Source: OGKM, src/nvidia/arch/nvalloc/common/inc/rmgspseq.h (operations); kernel_gsp.c, kgspExecuteSequencerBuffer_IMPL;
//! kernel_gsp_ga102.c, kgspExecuteSequencerCommand_GA102. Which steps a card's firmware asks for is not published: those here
//! have each operation once, with a falcon program of a single exit.

use crate::pci::registers::{PGSP, falcon};

const WRITE: u32 = 0;
const MODIFY: u32 = 1;
const POLL: u32 = 2;
const DELAY: u32 = 3;
const STORE: u32 = 4;
const RESET: u32 = 5;
const START: u32 = 6;
const WAIT_FOR_HALT: u32 = 7;
const RESUME: u32 = 8;

/// `exit` of a falcon, twice.
const EXIT: u32 = 0x02f8_02f8;

/// The payload of `GSP_RUN_CPU_SEQUENCER`: room for commands, how many words there are, what was stored, the commands.
pub(super) fn steps() -> Vec<u8> {
    let gsp = |offset: u32| PGSP + offset;
    let commands: &[&[u32]] = &[
        &[STORE, gsp(falcon::MAILBOX0), 0],
        &[STORE, gsp(falcon::MAILBOX1), 1],
        &[MODIFY, gsp(falcon::IRQDEST), 0xff, 0x40],
        &[RESET],
        &[POLL, gsp(falcon::HWCFG2), 1 << 12, 0, 4_000_000, 1],
        &[WRITE, gsp(falcon::IMEMC), 1 << 24],
        &[WRITE, gsp(falcon::IMEMC) + 8, 0],
        &[WRITE, gsp(falcon::IMEMC) + 4, EXIT],
        &[WRITE, gsp(falcon::DMEMC), 1 << 24],
        &[WRITE, gsp(falcon::DMEMC) + 4, 0],
        &[WRITE, gsp(falcon::BOOTVEC), 0],
        &[DELAY, 10],
        &[START],
        &[WAIT_FOR_HALT],
        &[RESUME],
    ];
    let commands = commands.concat();
    let mut words = vec![commands.len() as u32 + 1, commands.len() as u32];
    words.extend([0; 8]);
    words.extend(commands);
    words.push(0);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
