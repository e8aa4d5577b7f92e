//! PM4 queues on two XCCs that share a ring, and mistakes in how they meet.
//!
//! Queues are rung one behind the other, so that what overlaps does so in every run.

use twin_amd::chip::GFX942_QPX;

use super::*;

/// v_mov_b32 v0, 0; v_mov_b32 v1, 1; global_store_dword v0, v1, s[0:1]; s_endpgm
pub(super) const STORES: [u32; 5] = [0x7e00_0280, 0x7e02_0281, 0xdc70_8000, 0x100, 0xbf81_0000];
/// s_load_dword s4, s[0:1], 0x0; s_waitcnt lgkmcnt(0); s_endpgm
pub(super) const LOADS: [u32; 4] = [0xc002_0100, 0, 0xbf8c_c07f, 0xbf81_0000];
/// Where the kernel that loads is.
const LOADS_AT: u64 = CODE + 0x100;

/// What XCCs of the mask run.
fn only(xccs: u32, words: &[u32]) -> Vec<u32> {
    let count = op::EXEC_COUNT.put(words.len() as u32) | op::VIRTUAL_XCC_MASK.put(xccs);
    [packet(pm4::PRED_EXEC, &[count]), words.to_vec()].concat()
}

/// Registers of dispatches, with the share of each XCC.
fn setup(chunk: u32, shares: [u32; 2]) -> Vec<u32> {
    let mut words = Vec::new();
    for (first, values) in [
        (regs::COMPUTE_PGM_RSRC1, vec![0, regs::USER_SGPR.put(2)]),
        (
            regs::pgm_rsrc3(drivers_spec::amd::packet::Gfx::Gfx9),
            vec![0],
        ),
        (regs::COMPUTE_START_X, vec![0, 0, 0, 64, 1, 1]),
        (regs::COMPUTE_USER_DATA_0, vec![lo(DATA), hi(DATA)]),
        (regs::COMPUTE_TG_CHUNK_SIZE, vec![chunk]),
    ] {
        words.extend(set_sh(first, &values));
    }
    for (xcc, share) in shares.into_iter().enumerate() {
        let register = set_sh(regs::COMPUTE_CURRENT_LOGIC_XCC_ID, &[share]);
        words.extend(only(1 << xcc, &register));
    }
    words
}

/// A workgroup for each XCC.
fn run(code: u64) -> Vec<u32> {
    let initiator = regs::COMPUTE_SHADER_EN.put(1) | regs::FORCE_START_AT_000.put(1);
    [
        set_sh(regs::COMPUTE_PGM_LO, &[lo(code >> 8), hi(code >> 8)]),
        packet(pm4::DISPATCH_DIRECT, &[2, 1, 1, initiator]),
        packet(pm4::EVENT_WRITE, &[FLUSH]),
    ]
    .concat()
}

/// What breaks where the XCCs come to these packets one after the other.
fn broken(words: &[u32]) -> Vec<&'static str> {
    let stand = stand(&GFX942_QPX);
    stand.write_words(CODE, &STORES);
    stand.write_words(LOADS_AT, &LOADS);
    stand.write_words(IB, words);
    let size = words.len() as u32 | ib::VALID.put(1);
    let queues =
        [0, 1].map(|xcc| stand.queue_with(QueueKind::Pm4, RING, RING_BYTES, |desc| desc.xcc = xcc));
    for queue in queues {
        queue.submit(&packet(pm4::INDIRECT_BUFFER, &[lo(IB), hi(IB), size]));
        stand.idle();
    }
    stand.broken()
}

#[test]
fn what_no_xcc_depends_on_breaks_nothing() {
    let words = [setup(1, [0, 1]), run(CODE), run(CODE)].concat();
    assert_eq!(broken(&words), [""; 0]);
}

#[test]
fn an_xcc_waits_for_what_others_write() {
    let words = [setup(1, [0, 1]), run(CODE), run(LOADS_AT)].concat();
    fires("PM4-XCC-RACE").only(&broken(&words));
}

#[test]
fn an_xcc_signals_once_all_are_done() {
    let signal = signal(DATA + 64, 1);
    let words = [setup(1, [0, 1]), run(CODE), only(1, &signal)].concat();
    fires("PM4-XCC-EARLY").first(&broken(&words));
    let words = [setup(1, [0, 1]), run(CODE), only(2, &signal)].concat();
    assert_eq!(broken(&words), [""; 0], "the last one");
    let words = [setup(1, [0, 1]), signal].concat();
    fires("PM4-XCC-SIGNAL").first(&broken(&words));
}

#[test]
fn each_xcc_has_a_share_of_its_own() {
    let words = |chunk, shares| [setup(chunk, shares), run(CODE)].concat();
    fires("PM4-XCC-SHARE").first(&broken(&words(1, [0, 0])));
    fires("PM4-XCC-SHARE").first(&broken(&words(0, [0, 1])));
    fires("PM4-XCC-SHARE").first(&broken(&words(1, [0, 2])));
}

#[test]
fn packets_are_for_xccs_that_there_are() {
    let nop = packet(pm4::NOP, &[0]);
    for xccs in [0, 0b100] {
        let broken = broken(&only(xccs, &nop));
        fires("PM4-PRED-MASK").first(&broken);
    }
}
