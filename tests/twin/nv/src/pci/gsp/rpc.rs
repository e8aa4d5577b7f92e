//! What GSP's firmware answers once it is there.
//!
//! Source: OGKM, rpc_global_enums.h (functions, events); g_rpc-structures.h; gsp_static_config.h of each branch (static
//! information); kernel_gsp.c, kgspUnloadRm_IMPL.

use std::sync::atomic::Ordering;

use drivers_spec::nv::abi::Branch;
use drivers_spec::nv::status;
use hcq::sync::lock;
use twin::rule::{Proof, Rule};

use super::objects;
use super::queue::{CONTINUATION, FULL};
use super::rm::{Answer, INTERNAL, Rm};
use crate::pci::memory::{Place, long, word};
use crate::pci::mmu::table::Version;
use crate::pci::mmu::window::Window;
use crate::pci::state::State;

static FUNCTION: Rule = Rule {
    name: "NV-RPC-NOT-MODELLED",
    text: "the twin models the function of an RPC",
    source: "this twin: src/pci/gsp/rpc.rs",
    proof: Proof::Twin,
};

static RECORDS: Rule = Rule {
    name: "NV-RPC-CONTINUATION",
    text: "an RPC that is longer than 16 entries is followed by CONTINUATION_RECORDs, full ones but the last, and nothing else \
           until it is whole",
    source: "OGKM, rpc.c, _issueRpcLarge",
    proof: Proof::Sourced,
};

static BAR: Rule = Rule {
    name: "NV-RPC-BAR-PDE",
    text: "UPDATE_BAR_PDE has a BAR (0: BAR 1, 1: BAR 2), an entry of the root (shift 47), and a table in memory, or 0",
    source: "OGKM, rpc.c, rpcUpdateBarPde_v15_00; rpc_headers.h, NV_RPC_UPDATE_PDE_BAR_TYPE; Linux, nvkm/subdev/gsp/rm/r535/bar.c, \
             r535_bar_bar2_update_pde",
    proof: Proof::Sourced,
};

/// `NV_VGPU_MSG_FUNCTION_*`.
const SET_GUEST_SYSTEM_INFO: u32 = 1;
const ALLOC_MEMORY: u32 = 4;
const FREE: u32 = 10;
const DUP_OBJECT: u32 = 21;
pub(super) const UNLOADING_GUEST_DRIVER: u32 = 47;
const SET_PAGE_DIRECTORY: u32 = 54;
const GET_GSP_STATIC_INFO: u32 = 65;
const UPDATE_BAR_PDE: u32 = 70;
const SET_REGISTRY: u32 = 73;
const GSP_RM_CONTROL: u32 = 76;
const UNSET_PAGE_DIRECTORY: u32 = 79;
const GSP_RM_ALLOC: u32 = 103;

/// How many bytes the payload of an RPC has in all, as it says itself.
pub(super) fn total(function: u32, payload: &[u8]) -> usize {
    match function {
        GSP_RM_CONTROL => 0x18 + word(payload, 0x10) as usize,
        GSP_RM_ALLOC => 0x20 + word(payload, 0x14) as usize,
        SET_REGISTRY => word(payload, 0) as usize,
        ALLOC_MEMORY => objects::PAGES + 8 * objects::pages(payload),
        _ => payload.len(),
    }
}

/// An RPC of which records are still to come.
pub(super) struct Part {
    pub(super) function: u32,
    pub(super) sequence: u32,
    pub(super) payload: Vec<u8>,
}

/// A record: the RPC if it is whole with it.
///
/// # Errors
/// It is none, or one is missing.
pub(super) fn join(
    part: &mut Option<Part>,
    function: u32,
    sequence: u32,
    payload: Vec<u8>,
) -> Result<Option<Part>, (&'static Rule, String)> {
    let is_full = payload.len() == FULL;
    let whole = match (part.take(), function) {
        (Some(mut begun), CONTINUATION) => {
            begun.payload.extend(payload);
            begun
        }
        (Some(begun), other) => {
            let what = format!("function {other} within function {}", begun.function);
            return Err((&RECORDS, what));
        }
        (None, CONTINUATION) => return Err((&RECORDS, "a record of no RPC".into())),
        (None, function) => Part {
            function,
            sequence,
            payload,
        },
    };
    let total = total(whole.function, &whole.payload);
    match whole.payload.len() < total {
        true if is_full => {
            *part = Some(whole);
            Ok(None)
        }
        // Whoever reads the table names it.
        true if whole.function != SET_REGISTRY => {
            let (function, found) = (whole.function, whole.payload.len());
            let what = format!(
                "function {function} of {total:#x} bytes ends after {found:#x}: a record is followed by more if it is full"
            );
            Err((&RECORDS, what))
        }
        _ => Ok(Some(whole)),
    }
}

/// What comes back, and whether the firmware ends with it.
pub(super) fn answer(state: &mut State, rm: &mut Rm, branch: Branch, rpc: &Part) -> (Answer, bool) {
    let payload = &rpc.payload[..];
    if let Some((function, result)) = state.config.rpc_error
        && function == rpc.function
    {
        let before = state.config.rpc_calls.fetch_add(1, Ordering::Relaxed);
        let nth = state.config.rpc_nth;
        if nth.is_none_or(|nth| nth == before + 1) {
            // Where allocations have their class, and controls their number.
            let number = match function {
                GSP_RM_ALLOC => word(payload, 0xc),
                _ => word(payload, 8),
            };
            let failed = &state.config.rpc_failed;
            failed.store(number.into(), Ordering::Relaxed);
            return (Err(result), false);
        }
    }
    let answer = match rpc.function {
        SET_GUEST_SYSTEM_INFO => Ok(payload.to_vec()),
        GET_GSP_STATIC_INFO => Ok(static_info(state, branch)),
        GSP_RM_ALLOC => objects::alloc(state, rm, payload),
        GSP_RM_CONTROL => objects::control(state, rm, payload),
        FREE => objects::free(state, rm, payload),
        ALLOC_MEMORY => objects::alloc_memory(state, rm, payload),
        SET_PAGE_DIRECTORY => objects::set_page_directory(state, rm, payload),
        UNSET_PAGE_DIRECTORY => objects::unset_page_directory(state, rm, payload),
        UPDATE_BAR_PDE => bar_entry(state, payload),
        DUP_OBJECT => rm.dup(payload),
        UNLOADING_GUEST_DRIVER => return (Ok(payload.to_vec()), true),
        function => {
            state
                .journal
                .broken(&FUNCTION, format!("function {function}"));
            Err(status::NV_ERR_NOT_SUPPORTED)
        }
    };
    (answer, false)
}

/// UPDATE_BAR_PDE: firmware writes an entry of its page directory of a BAR.
fn bar_entry(state: &State, payload: &[u8]) -> Answer {
    let (which, entry, shift) = (word(payload, 0), long(payload, 8), long(payload, 16));
    let window = match which {
        0 => Some(Window::Bar1),
        1 => Some(Window::Bar2),
        _ => None,
    };
    let directory = window.and_then(|window| window.directory(state));
    let leads = entry == 0 || matches!(entry & 7, 2 | 4 | 6);
    let upper = Version::of(state.config.chip).upper();
    let first = upper.first().map(|level| u64::from(level.shift()));
    match directory {
        Some(directory) if payload.len() == 24 && Some(shift) == first && leads => {
            state.vram.put(directory, &entry.to_le_bytes());
            // It is firmware that has changed the entry, and whose directory this is. That it invalidates what it had is a guess:
            // neither OGKM nor nouveau does after the call.
            let root = Place::vram(directory);
            lock(&state.tlb).invalidate(|other| other == root, 0);
            Ok(payload.to_vec())
        }
        _ => {
            let what = format!("BAR {which}, entry {entry:#x}, shift {shift}");
            state.journal.broken(&BAR, what);
            Err(status::NV_ERR_INVALID_ARGUMENT)
        }
    }
}

/// `gpcInfo` and `tpcInfo`, of 32, which only 535 and 550 have: behind 23 bytes of capabilities and `gidInfo` of 268, aligned.
const GPC_INFO: usize = 0x124;

/// `GspStaticConfigInfo`, as far as it is filled: clusters, regions of memory, the internal client, the name, the size of memory.
fn static_info(state: &State, branch: Branch) -> Vec<u8> {
    // Its size, and where fbRegionInfoParams, fb_length, gpuNameString and hInternalClient are.
    let (bytes, regions, length, name, client) = match branch {
        Branch::R535 => (0x878, 0x348, 0x6d8, 0x71c, 0x868),
        Branch::R550 => (0x888, 0x358, 0x6e8, 0x72c, 0x878),
        _ => (0x678, 0x158, 0x4c8, 0x4ec, 0x640),
    };
    let mut info = vec![0; bytes];
    let mut put = |at: usize, with: &[u8]| info[at..at + with.len()].copy_from_slice(with);
    if matches!(branch, Branch::R535 | Branch::R550) {
        let tpcs = state.config.chip.twin.tpcs;
        put(GPC_INFO, &((1u32 << tpcs.len()) - 1).to_le_bytes());
        for (gpc, on) in (0u32..).zip(tpcs) {
            let at = GPC_INFO + 4 + 8 * gpc as usize;
            put(at, &gpc.to_le_bytes());
            put(at + 4, &((1u32 << on) - 1).to_le_bytes());
        }
    }
    let wpr2 = state.vram.wpr2.clone().unwrap_or_default();
    let all = state.vram.bytes();
    // Up to firmware's heap outside of WPR2 for everybody, then what firmware has: base, limit, reserved; performance, flags of what it is good for.
    put(regions, &2u32.to_le_bytes());
    let plain = state.vram.plain_heap.as_ref();
    let end = plain.map_or(wpr2.start, |heap| heap.start);
    let usable = [0, end.saturating_sub(1), 0];
    let taken = [end, all - 1, all - end];
    for (i, (words, flags)) in [(usable, [1, 1, 0]), (taken, [0, 0, 1])].iter().enumerate() {
        let at = regions + 8 + 0x30 * i;
        for (i, word) in words.iter().enumerate() {
            put(at + 8 * i, &word.to_le_bytes());
        }
        put(at + 0x18, &1u32.to_le_bytes());
        put(at + 0x1c, flags);
    }
    put(length, &(all >> 20).to_le_bytes());
    let product = state.config.chip.twin.product.as_bytes();
    put(name, &product[..product.len().min(63)]);
    // bar1PdeBase and bar2PdeBase, 64 bytes before hInternalClient.
    for (i, window) in [Window::Bar1, Window::Bar2].iter().enumerate() {
        let directory = window.directory(state).unwrap_or(0);
        put(client - 0x40 + 8 * i, &directory.to_le_bytes());
    }
    // fwWprLayoutOffset, of 570 where the FMC has laid memory out: the heap outside of WPR2, FRTS. OGKM, kernel_gsp.c.
    if let (Branch::R570, Some(heap), true) = (branch, plain, state.config.chip.fsp.is_some()) {
        put(bytes - 16, &heap.start.to_le_bytes());
        put(bytes - 8, &state.vram.frts.to_le_bytes());
    }
    for (i, handle) in INTERNAL.iter().enumerate() {
        put(client + 4 * i, &handle.to_le_bytes());
    }
    info
}
