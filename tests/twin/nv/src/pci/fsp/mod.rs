//! What starts GSP on Hopper and Blackwell: a processor that the host sends a chain of trust, and what that starts on GSP.
//!
//! - `registers`: where the registers of such cards are, and what they do; `port`: the memory by which the host and FSP
//!   exchange packets, and the pointers of their queues;
//! - `cot`: what FSP verifies, from the payload that it is sent; `fmc`: what it starts on GSP then, and which registers of GSP
//!   the host may access meanwhile.
//!
//! Source: OGKM 570.144, src/nvidia/src/kernel/gpu/fsp, kernel_gsp_gh100.c and the headers that these include; Linux,
//! drivers/gpu/nova-core/fsp.rs and gsp/hal/gh100.rs.

mod cot;
mod fmc;
mod port;
mod registers;

use twin::rule::{Proof, Rule};

use super::memory::word;
use super::state::State;

pub(super) use fmc::ends;
pub(super) use registers::{BAR1_BLOCK, BAR2_BLOCK, XAL_BAR0_WINDOW, read, write};

static MCTP: Rule = Rule {
    name: "NV-FSP-MCTP",
    text: "a message that fits into the channel is one packet: SOM, EOM, SEID 0 and SEQ 0; behind that header is the one of the \
           message, with type 7E, vendor 10DE and the type of NVDM",
    source: "OGKM, kern_fsp.c, kfspSendMessage; kern_fsp_gh100.c, kfspCreateMctpHeader_GH100, kfspCreateNvdmHeader_GH100; \
             fsp_mctp_format.h",
    proof: Proof::Sourced,
};

static NVDM: Rule = Rule {
    name: "NV-FSP-NOT-MODELLED",
    text: "the host sends FSP chains of trust; other messages are not modelled",
    source: "this twin: src/pci/fsp/mod.rs",
    proof: Proof::Twin,
};

/// How far FSP and what it starts are.
#[derive(Default)]
pub(super) struct Fsp {
    port: port::Port,
    gate: fmc::Gate,
    /// The page for flushes: as its registers read, and as they were taken.
    flush: [u32; 2],
    page: u64,
}

impl Fsp {
    /// Where the page for flushes is.
    pub(super) fn page(&self) -> u64 {
        self.page
    }
}

/// SOM and EOM of a packet, and nothing else.
const SINGLE: u32 = 0b11 << 30;
/// The header of a message, without the type of NVDM.
const VENDOR: u32 = 0x7e | 0x10de << 8;
/// `NVDM_TYPE_COT` and `NVDM_TYPE_FSP_RESPONSE`.
const COT: u32 = 0x14;
const RESPONSE: u32 = 0x15;

/// `FSP_ERR_IFS_ERR_*`: which of them real ones have for a chain of trust is not published.
const INVALID_STATE: u32 = 0x9e;
const NOT_SUPPORTED: u32 = 0xa0;
const INVALID_DATA: u32 = 0xa1;

/// What went wrong, where that has not been said yet, and the code of the answer.
type Failed = (Option<(&'static Rule, String)>, u32);

fn with(code: u32) -> impl Fn((&'static Rule, String)) -> Failed {
    move |broken| (Some(broken), code)
}

/// FSP takes a packet: what it answers.
fn answer(state: &mut State, packet: &[u8]) -> Vec<u8> {
    let (mctp, nvdm) = (word(packet, 0), word(packet, 4));
    let kind = nvdm >> 24;
    let payload = packet.get(8..).unwrap_or_default();
    let done = match kind {
        _ if mctp != SINGLE || nvdm & 0xff_ffff != VENDOR => {
            let what = format!("MCTP {mctp:#x}, NVDM {nvdm:#x}");
            Err((Some((&MCTP, what)), INVALID_DATA))
        }
        COT => cot::run(state, payload),
        _ => {
            let what = format!("a message of type {kind:#x}");
            Err((Some((&NVDM, what)), NOT_SUPPORTED))
        }
    };
    let code = match done {
        Ok(()) => 0,
        Err((broken, code)) => {
            if let Some((rule, what)) = broken {
                state.journal.broken(rule, what);
            }
            code
        }
    };
    // NVDM_PAYLOAD_COMMAND_RESPONSE: the task of FSP, what was asked for, the code.
    let words = [SINGLE, VENDOR | RESPONSE << 24, 0, kind, code];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
