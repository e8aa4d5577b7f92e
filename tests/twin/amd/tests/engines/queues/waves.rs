//! What waves do on a queue: traps, scratch, and the twin's own failures.

use std::sync::Arc;

use super::*;

/// Neither where a page starts, nor does it end with one.
const SCRATCH: u64 = DATA + 0x10_0800;
/// Scratch of a wave, and of all of them: one in each shader engine.
const WAVE: u64 = 256;
const WAVES: u64 = 6;

/// v_mov_b32 v0, 0; v_mov_b32 v1, 1
const REGISTERS: [u32; 2] = [0x7e00_0280, 0x7e02_0281];
/// scratch_store_b32 off, v1, off; s_waitcnt_vscnt null, 0x0; scratch_load_b32 v2, off, off;
/// s_waitcnt vmcnt(0)
const OWN: [u32; 6] = [
    0xdc69_0000,
    0x7c_0100,
    0xbc7c_0000,
    0xdc51_0000,
    0x27c_0000,
    0xbf89_03f7,
];
/// global_store_b32 v0, v1, s[0:1]; s_waitcnt_vscnt null, 0x0
const STORE: [u32; 3] = [0xdc6a_0000, 0x100, 0xbc7c_0000];
/// global_load_b32 v2, v0, s[0:1]; s_waitcnt vmcnt(0)
const LOAD: [u32; 3] = [0xdc52_0000, 0x200_0000, 0xbf89_03f7];
const END: u32 = 0xbfb0_0000;

/// A dispatch of workgroups of two waves, which have scratch and `at` in s[0:1]. No barrier.
fn scratch(code: u64, at: u64) -> Vec<u32> {
    let mut words = dispatch(
        |registers| {
            registers[0].1 = vec![lo(code >> 8), hi(code >> 8)];
            registers[3].1 = vec![0, 0, 0, 64, 1, 1];
            registers[4].1 = vec![lo(at), hi(at)];
            let rsrc2 = regs::SCRATCH_EN.put(1) | regs::USER_SGPR.put(2);
            let size = regs::WAVES.put(1) | regs::WAVESIZE_GFX11.put(WAVE as u32 / 256);
            registers.extend([
                (regs::COMPUTE_PGM_RSRC2, vec![rsrc2]),
                (regs::COMPUTE_TMPRING_SIZE, vec![size]),
                (
                    regs::COMPUTE_DISPATCH_SCRATCH_BASE_LO,
                    vec![lo(SCRATCH >> 8), hi(SCRATCH >> 8)],
                ),
            ]);
        },
        INITIATOR,
    );
    words.truncate(words.len() - 2);
    words
}

/// What breaks where two kernels that may overlap both use their scratch, and the first one also
/// stores at an address, the second one loads.
fn beside_scratch(store: u64, load: u64) -> Vec<&'static str> {
    let stand = stand(&GFX1100);
    let queue = stand.queue(QueueKind::Pm4, RING, RING_BYTES);
    let other = CODE + 0x100;
    stand.write_words(CODE, &[&REGISTERS[..], &STORE, &OWN, &[END]].concat());
    stand.write_words(other, &[&REGISTERS[..], &LOAD, &OWN, &[END]].concat());
    queue.submit(&[scratch(CODE, store), scratch(other, load)].concat());
    stand.idle();
    stand.broken()
}

#[test]
fn only_its_own_slot_of_scratch_is_a_waves_own() {
    // The same slots, one kernel after the other: no race.
    assert_eq!(beside_scratch(DATA, DATA + 4), [""; 0]);
    let all = SCRATCH + WAVES * WAVE;
    for at in [SCRATCH - 4, all - 4, all] {
        fires("PM4-DISPATCH-RACE").only(&beside_scratch(at, at));
    }
    // What a wave keeps in its slot, another one loads: from the first slot, up to its last byte
    // that is used, and from the second.
    for at in [SCRATCH, SCRATCH + 124, SCRATCH + WAVE] {
        fires("PM4-DISPATCH-RACE").only(&beside_scratch(DATA, at));
    }
    // Nobody has stored there.
    assert_eq!(beside_scratch(DATA, SCRATCH + 128), [""; 0]);
}

#[test]
fn a_workgroup_has_scratch_for_all_its_waves() {
    let mut words = scratch(CODE, DATA);
    let stand = stand(&GFX1100);
    let queue = stand.queue(QueueKind::Pm4, RING, RING_BYTES);
    let waves = |waves: u32| set_sh(regs::COMPUTE_NUM_THREAD_X, &[32 * waves, 1, 1]);
    let dispatch = words.split_off(words.len() - 5);
    let flush = packet(pm4::EVENT_WRITE, &[FLUSH]);
    queue.submit(&[&words[..], &waves(6), &dispatch, &flush].concat());
    stand.idle();
    assert_eq!(stand.broken(), [""; 0]);
    queue.submit(&[&words[..], &waves(7), &dispatch, &flush].concat());
    stand.idle();
    fires("SCRATCH-WAVES").only(&stand.broken());
}

#[test]
fn a_wave_that_traps_stops_its_queue() {
    let stand = stand(&GFX1100);
    let queue = stand.queue(QueueKind::Pm4, RING, RING_BYTES);
    // s_trap 2
    stand.write_words(CODE, &[0xbf90_0002, END]);
    queue.submit(&[dispatch(|_| {}, INITIATOR), signal(DATA, 1)].concat());
    stand.idle();
    fires("GPU-WAVE-TRAP").only(&stand.broken());
    assert_eq!(stand.read32(DATA), 0);
}

#[test]
fn a_failure_of_the_twin_is_named() {
    let stand = Stand::with(&GFX1100, 3, |setup| {
        setup.instructions = Some(Arc::new(|_: &str| panic!("on purpose")));
    });
    map(&stand, &GFX1100);
    let queue = stand.queue(QueueKind::Pm4, RING, RING_BYTES);
    queue.submit(&[dispatch(|_| {}, INITIATOR), signal(DATA, 1)].concat());
    stand.idle();
    fires("TWIN-PANIC").only(&stand.broken());
    assert!(
        stand.reports().contains("on purpose"),
        "{}",
        stand.reports()
    );
    assert_eq!(stand.read32(DATA), 0);
}
