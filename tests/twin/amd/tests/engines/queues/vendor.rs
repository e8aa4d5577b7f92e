//! Packets and queues as AMD's own runtime (ROCR) makes them.

use twin_amd::chip::GFX942_QPX;
use twin_shader::page::Port;

use super::*;

/// A signal of the user, with an event and its mailbox behind it.
const SIGNAL: u64 = DATA + 0x8000;
const MAILBOX: u64 = SIGNAL + 0x40;
const DONE: u64 = SIGNAL + 0x80;
const SCRATCH: u64 = DATA + 0x10_0000;
/// The `amd_queue_t` of the first queue.
const QUEUE: u64 = stand::POINTERS;

/// `wave32` of a kernel descriptor.
const WAVE32: u32 = 1 << 10;
/// The kernel gets the buffer resource of scratch, and the address of its arguments.
const RESOURCE: u32 = 1 << 0;
const ARGUMENTS: u32 = 1 << 3;

fn signal_at(stand: &Stand, va: u64, value: u64) {
    stand.write(va + aql::signal::KIND as u64, &1u64.to_le_bytes());
    stand.write(va + aql::signal::VALUE as u64, &value.to_le_bytes());
}

fn value(stand: &Stand, signal: u64) -> u64 {
    stand.read64(signal + aql::signal::VALUE as u64)
}

/// A kernel descriptor at CODE, with its code 0x100 bytes behind it.
fn kernel(stand: &Stand, scratch: bool, properties: u32, code: &[u32]) {
    let mut descriptor = [0u32; 16];
    descriptor[4] = 0x100;
    let rsrc1 = regs::VGPRS.put(1) | regs::MEM_ORDERED.put(1);
    let rsrc2 =
        regs::USER_SGPR.put(6) | regs::SCRATCH_EN.put(scratch.into()) | regs::TGID_X_EN.put(1);
    (descriptor[12], descriptor[13], descriptor[14]) = (rsrc1, rsrc2, properties);
    stand.write_words(CODE, &descriptor);
    stand.write_words(CODE + 0x100, code);
}

/// A dispatch of it: one wave that wants so many bytes of scratch for each lane.
fn dispatch_of(private: u32) -> [u32; 16] {
    let mut packet = [0u32; 16];
    packet[0] = 0x3_1502;
    (packet[1], packet[2]) = (0x1_0020, 1);
    (packet[3], packet[4], packet[5]) = (32, 1, 1);
    packet[6] = private;
    (packet[8], packet[9]) = (lo(CODE), hi(CODE));
    (packet[10], packet[11]) = (lo(DATA), hi(DATA));
    (packet[14], packet[15]) = (lo(DONE), hi(DONE));
    packet
}

/// A stand whose first queue has a `queue_inactive_signal`, and a completion signal.
fn inactive(chip: &'static Chip) -> Stand {
    let stand = stand(chip);
    signal_at(&stand, SIGNAL, 0);
    stand.write(SIGNAL + 16, &MAILBOX.to_le_bytes());
    stand.write(SIGNAL + 24, &9u32.to_le_bytes());
    signal_at(&stand, DONE, 1);
    stand.write(QUEUE + 192, &SIGNAL.to_le_bytes());
    stand
}

/// What the runtime sets: a wave of each engine has 4 KiB, 64 bytes for each of 64 lanes.
fn give_scratch(stand: &Stand) {
    let tmpring = regs::WAVES.put(1) | regs::WAVESIZE_GFX11.put(16);
    stand.write(QUEUE + 140, &tmpring.to_le_bytes());
    stand.write(QUEUE + 160, &SCRATCH.to_le_bytes());
    stand.write(QUEUE + 176, &64u32.to_le_bytes());
}

#[test]
fn too_little_scratch_is_asked_for() {
    for (properties, private, asks) in [(0, 64, 1), (WAVE32, 128, 0x400)] {
        let stand = inactive(&GFX1100);
        kernel(&stand, true, properties, &[0xbfb0_0000; 16]);
        let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
        queue.submit(&dispatch_of(private));
        stand.wait("asks", |stand| stand.heard() > 0);
        assert_eq!((value(&stand, SIGNAL), stand.read64(MAILBOX)), (asks, 9));
        let interrupts = stand.interrupts();
        assert!(
            matches!(interrupts[..], [Interrupt::EndOfPipe { context: 9, .. }]),
            "{interrupts:?}"
        );
        // The packet is still there for the runtime to look at.
        assert_eq!((stand.read64(QUEUE + 128), value(&stand, DONE)), (0, 1));
        assert!(stand.gpu.waiting(PROCESS)[0].contains("queue_inactive_signal"));
        give_scratch(&stand);
        stand.write(SIGNAL + 8, &0u64.to_le_bytes());
        stand.idle();
        assert_eq!((value(&stand, DONE), stand.reports().as_str()), (0, ""));
        // Twice as much for each lane fits waves of 32 only.
        assert_eq!(stand.heard(), 0);
    }
}

#[test]
fn scratch_for_one_dispatch_is_given_back() {
    let stand = inactive(&GFX1100);
    kernel(&stand, true, 0, &[0xbfb0_0000; 16]);
    let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
    give_scratch(&stand);
    let once = aql::QueueProperties::USE_SCRATCH_ONCE.bits();
    stand.write(QUEUE + 180, &once.to_le_bytes());
    queue.submit(&dispatch_of(64));
    stand.wait("asks", |stand| value(stand, SIGNAL) == 0x200);
    assert_eq!(value(&stand, DONE), 0);
    signal_at(&stand, DONE, 1);
    queue.submit(&dispatch_of(64));
    stand.wait("is held", |stand| !stand.gpu.waiting(PROCESS).is_empty());
    assert_eq!(value(&stand, DONE), 1);
    stand.write(QUEUE + 180, &0u32.to_le_bytes());
    stand.write(SIGNAL + 8, &0u64.to_le_bytes());
    stand.idle();
    assert_eq!((value(&stand, DONE), stand.reports().as_str()), (0, ""));
}

#[test]
fn a_second_scratch_serves_small_grids() {
    let stand = inactive(&GFX942);
    kernel(&stand, true, 0, &[0xbf81_0000; 16]);
    let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
    // Firmware that can do it says so.
    assert_eq!(stand.read32(QUEUE + 40), 1);
    let tmpring = regs::WAVES.put(8)
        | regs::wavesize(drivers_spec::amd::packet::Gfx::Gfx9)
            .0
            .put(4);
    stand.write(QUEUE + 248, &tmpring.to_le_bytes());
    stand.write(QUEUE + 216, &SCRATCH.to_le_bytes());
    stand.write(QUEUE + 244, &64u32.to_le_bytes());
    stand.write_words(QUEUE + 232, &[32, 1, 1]);
    queue.submit(&dispatch_of(64));
    stand.idle();
    assert_eq!((value(&stand, DONE), stand.reports().as_str()), (0, ""));
    queue.submit(&dispatch_of(64));
    stand.idle();
    // The packet that used it last, and nothing of the first scratch.
    let last = [184, 208].map(|at| stand.read64(QUEUE + at));
    assert_eq!(last, [0, 1]);
    // A larger grid is not for it.
    let mut packet = dispatch_of(64);
    packet[3] = 64;
    queue.submit(&packet);
    stand.wait("asks", |stand| value(stand, SIGNAL) == 1);
}

#[test]
fn errors_of_packets_are_told_by_the_signal() {
    let stand = inactive(&GFX1100);
    kernel(&stand, false, 0, &[0xbfb0_0000; 16]);
    let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
    let mut packet = dispatch_of(0);
    packet[3] = 0;
    queue.submit(&packet);
    stand.idle();
    fires("AQL-GRID").only(&stand.broken());
    assert_eq!((value(&stand, SIGNAL), stand.read64(MAILBOX)), (2, 9));
}

#[test]
fn the_stride_of_scratch_is_filled_in() {
    // v0 = 0; v1 = s3; global_store_dword v0, v1, s[4:5]; s_waitcnt_vscnt null, 0x0; s_endpgm
    let code = [
        0x7e00_0280,
        0x7e02_0203,
        0xdc70_8000,
        0x4_0100,
        0xbbfd_0000,
        0xbf81_0000,
    ];
    for (properties, stride) in [(WAVE32, 2), (0, 3)] {
        let stand = inactive(&GFX1030);
        kernel(&stand, false, properties | RESOURCE | ARGUMENTS, &code);
        let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
        stand.write(QUEUE + 156, &0x2181_4facu32.to_le_bytes());
        queue.submit(&dispatch_of(0));
        stand.idle();
        assert_eq!(stand.reports(), "");
        assert_eq!(stand.read32(DATA), 0x2181_4fac | stride << 21);
    }
}

#[test]
fn queues_say_that_scratch_may_be_reclaimed_where_the_firmware_can() {
    let can = aql::queue::CAPS_ASYNC_RECLAIM;
    for (chip, caps) in [(&GFX942_QPX, can), (&GFX1100, 0)] {
        let stand = inactive(chip);
        let _queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
        let at = QUEUE + aql::queue::CAPS as u64;
        assert_eq!(stand.read32(at), caps, "{}", chip.name);
    }
}

/// The pitch of a box begins at bit 13 of its dword, from SDMA 7 on at bit 16.
#[test]
fn pitches_of_boxes_moved_in_sdma_7() {
    for (chip, shift) in [(&GFX1100, 13), (&GFX1201, 16)] {
        let stand = stand(chip);
        let queue = stand.queue(SDMA, RING, RING_BYTES);
        let to = DATA + 0x1000;
        // Two rows of 8 elements of 4 bytes, from rows of 8 to rows of 11.
        let rows: Vec<u32> = (100..116).collect();
        stand.write_words(DATA, &rows);
        let mut words = [0; 13];
        words[0] = u32::from(sdma::COPY_LINEAR_SUB_WIND) | sdma::ELEMENT_SIZE.put(2);
        (words[1], words[2], words[4]) = (lo(DATA), hi(DATA), 7 << shift);
        (words[6], words[7], words[9]) = (lo(to), hi(to), 10 << shift);
        words[11] = 7 | 1 << 16;
        queue.submit(&words);
        stand.idle();
        let got = [0, 7, 11, 18].map(|at| stand.read32(to + 4 * at));
        assert_eq!((got, stand.reports().as_str()), ([100, 107, 108, 115], ""));
    }
}

#[test]
fn a_barrier_waits_for_a_value() {
    let stand = inactive(&GFX942);
    let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
    let barrier = |condition: u32, value: i64, mask: u64| {
        let mut packet = [0u32; 16];
        packet[0] = 0x2_1500;
        (packet[2], packet[3]) = (lo(SIGNAL), hi(SIGNAL));
        (packet[4], packet[5]) = (lo(value as u64), hi(value as u64));
        (packet[6], packet[7]) = (lo(mask), hi(mask));
        packet[8] = condition;
        (packet[14], packet[15]) = (lo(DONE), hi(DONE));
        packet
    };
    // Equal, not equal, less, greater or equal: what holds it back, and what does not.
    let cases = [
        (0, 5, u64::MAX, 4u64, 5u64),
        (1, 5, u64::MAX, 5, 4),
        (2, -1, u64::MAX, 0, u64::MAX - 1),
        (3, 7, u64::MAX, u64::MAX, 7),
        (0, 0x10, 0xf0, 0x2f, 0x1f),
    ];
    for (condition, reference, mask, holds, passes) in cases {
        stand.write(SIGNAL + 8, &holds.to_le_bytes());
        signal_at(&stand, DONE, 1);
        queue.submit(&barrier(condition, reference, mask));
        stand.wait("waits", |stand| {
            let waiting = stand.gpu.waiting(PROCESS);
            waiting
                .first()
                .is_some_and(|line| line.contains("BARRIER_VALUE"))
        });
        assert_eq!(value(&stand, DONE), 1);
        stand.write(SIGNAL + 8, &passes.to_le_bytes());
        stand.idle();
        assert_eq!((value(&stand, DONE), stand.reports().as_str()), (0, ""));
    }
    queue.submit(&barrier(4, 0, 0));
    stand.idle();
    fires("AQL-PM4-IB").only(&stand.broken());
}

#[test]
fn a_trap_handler_runs() {
    // ttmp2 = the doorbell | WAVE_ABORT; unless the trap is 3, m0 = ttmp2 for s_sendmsg(MSG_INTERRUPT), and
    // STATUS.HALT = 1; returns behind the trap.
    let handler = [
        0xbeee_4c80,
        0xbf89_fc07,
        0x8b6e_ff6e,
        0x0000_03ff,
        0x8c6e_ff6e,
        0x0000_0400,
        0x936f_ff6d,
        0x0008_0010,
        0xbf06_836f,
        0xbfa2_0007,
        0xbeef_007d,
        0xbefd_006e,
        0xbf80_0000,
        0xbfb6_0001,
        0xbefd_006f,
        0xbef8_128d,
        0xb978_f802,
        0x806c_846c,
        0x826d_806d,
        0xbe80_4a6c,
    ];
    let stand = inactive(&GFX1100);
    stand.write_words(CODE + 0x400, &handler);
    stand.vm.set_trap(CODE + 0x400, 0);
    let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
    // s_trap 3; s_endpgm
    kernel(&stand, false, WAVE32, &[0xbf90_0003, 0xbfb0_0000]);
    queue.submit(&dispatch_of(0));
    stand.idle();
    assert_eq!((value(&stand, DONE), stand.reports().as_str()), (0, ""));
    // s_trap 3; s_trap 2; s_endpgm
    kernel(
        &stand,
        false,
        WAVE32,
        &[0xbf90_0003, 0xbf90_0002, 0xbfb0_0000],
    );
    signal_at(&stand, DONE, 1);
    queue.submit(&dispatch_of(0));
    stand.wait("the exception", |stand| stand.heard() > 0);
    let interrupts = stand.interrupts();
    assert!(
        matches!(interrupts[..], [Interrupt::Wave { queue: of, context, .. }]
            if of == Some(queue.id) && context >> 10 == 1),
        "{interrupts:?}"
    );
    // It is halted, whatever time passes, until the queue goes.
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert!(!stand.gpu.idle(PROCESS));
    stand.gpu.destroy_queue(queue.id);
    assert_eq!((value(&stand, DONE), stand.reports().as_str()), (1, ""));
}

#[test]
fn a_trap_handler_does_not_halt_in_silence() {
    // STATUS.HALT = 1; returns behind the trap.
    let handler = [
        0xbef8_128d,
        0xb978_f802,
        0x806c_846c,
        0x826d_806d,
        0xbe80_4a6c,
    ];
    let stand = inactive(&GFX1100);
    stand.write_words(CODE + 0x400, &handler);
    stand.vm.set_trap(CODE + 0x400, 0);
    let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
    // s_trap 2; s_endpgm
    kernel(&stand, false, WAVE32, &[0xbf90_0002, 0xbfb0_0000]);
    queue.submit(&dispatch_of(0));
    stand.wait("the wave is halted", |stand| !stand.broken().is_empty());
    assert!(!stand.gpu.idle(PROCESS));
    stand.gpu.destroy_queue(queue.id);
    assert_eq!((value(&stand, DONE), stand.heard()), (1, 0));
    fires("GPU-WAVE-SILENT").only(&stand.broken());
}

#[test]
fn waves_of_all_workgroups_meet() {
    // v0 = 3; m0 = 0; ds_gws_init v0
    let init = [
        0x7e00_0283,
        0xbefc_0380,
        0xbf80_0000,
        0xd866_0000,
        0x0,
        0xbf8c_c07f,
        0xbf81_0000,
    ];
    // One lane adds 1 to the word at s[4:5], meets the other three waves, and stores what is there at
    // 256 bytes more, and 4 for each workgroup (s6).
    let meet = [
        0x7e00_0280,
        0x7e02_0281,
        0x8f07_8206,
        0x7e06_0207,
        0x7e08_0283,
        0xbefe_0481,
        0xdcc9_8000,
        0x204_0100,
        0xbf8c_3f70,
        0xbefc_0380,
        0xbf80_0000,
        0xd876_0000,
        0x4,
        0xbf8c_c07f,
        0xdc31_9000,
        0x204_0000,
        0xbf8c_3f70,
        0xdc70_8100,
        0x4_0203,
        0xbbfd_0000,
        0xbf81_0000,
    ];
    let stand = inactive(&GFX1030);
    let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
    kernel(&stand, false, WAVE32, &init);
    queue.submit(&dispatch_of(0));
    stand.idle();
    kernel(&stand, false, WAVE32 | RESOURCE | ARGUMENTS, &meet);
    // The instruction cache holds the kernel before.
    let mut packet = dispatch_of(0);
    packet[3] = 4 * 32;
    for round in 1..3 {
        signal_at(&stand, DONE, 1);
        queue.submit(&packet);
        stand.idle();
        let seen: [u32; 4] = std::array::from_fn(|i| stand.read32(DATA + 256 + 4 * i as u64));
        assert_eq!((seen, stand.reports().as_str()), ([4 * round; 4], ""));
    }
}

#[test]
fn workgroups_of_all_xccs_run_side_by_side() {
    // Each workgroup but the first waits for the flag of the one before, which another XCC has, and sets its own:
    // 8 bytes apart from s[4:5] on.
    let code = [
        0x8e07_8306,
        0x7e02_0207,
        0x7e04_0281,
        0xbf06_8006,
        0xbf85_0006,
        0xde50_9ff8,
        0x0304_0001,
        0xbf8c_0f70,
        0x7e10_0503,
        0xbf06_8008,
        0xbf85_fffa,
        0xbefe_0181,
        0xde70_8000,
        0x0004_0201,
        0xbf8c_0f70,
        0xbf81_0000,
    ];
    let stand = inactive(&GFX942_QPX);
    let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
    kernel(&stand, false, RESOURCE | ARGUMENTS, &code);
    let mut packet = dispatch_of(0);
    packet[3] = 6 * 32;
    queue.submit(&packet);
    stand.idle();
    let flags: [u64; 6] = std::array::from_fn(|i| stand.read64(DATA + 8 * i as u64));
    assert_eq!((flags, stand.reports().as_str()), ([1; 6], ""));
}

#[test]
fn waves_interrupt_the_host_while_they_run() {
    // s_mov_b32 m0, 9; s_nop 0; s_sendmsg sendmsg(MSG_INTERRUPT); s_branch to itself
    let code = [0xbefd_0089, 0xbf80_0000, 0xbfb6_0001, 0xbfa0_ffff];
    let stand = inactive(&GFX1100);
    kernel(&stand, false, WAVE32, &code);
    let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
    queue.submit(&dispatch_of(0));
    stand.wait("the message", |stand| stand.heard() > 0);
    let interrupts = stand.interrupts();
    assert!(
        matches!(interrupts[..], [Interrupt::Wave { context: 9, .. }]),
        "{interrupts:?}"
    );
    stand.gpu.destroy_queue(queue.id);
    assert_eq!(stand.reports(), "");
}

#[test]
fn barriers_have_times() {
    let stand = inactive(&GFX1100);
    let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
    let profiles = aql::QueueProperties::ENABLE_PROFILING.bits();
    stand.write(QUEUE + 180, &profiles.to_le_bytes());
    let mut packet = [0u32; 16];
    packet[0] = 0x1503;
    (packet[14], packet[15]) = (lo(DONE), hi(DONE));
    queue.submit(&packet);
    stand.idle();
    let times =
        [aql::signal::START_TS, aql::signal::END_TS].map(|at| stand.read64(DONE + at as u64));
    assert!(0 < times[0] && times[0] <= times[1], "{times:?}");
    assert_eq!((value(&stand, DONE), stand.reports().as_str()), (0, ""));
}

#[test]
fn several_producers_ring_in_any_order() {
    // The doorbell says what is left in it when the producer of the second packet was faster than that of the first; the third has
    // no header yet. One producer alone has rung for the first, and for no other to the end.
    for (kind, taken) in [(0u32, 2), (1, 1)] {
        let stand = inactive(&GFX942);
        stand.write(QUEUE, &kind.to_le_bytes());
        let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
        stand.idle();
        let mut packets = [0u32; 48];
        (packets[0], packets[16], packets[32]) = (0x1503, 0x1503, aql::INVALID);
        let wptr = queue.put(&packets);
        stand.write(queue.desc.wptr, &wptr.to_le_bytes());
        queue.bell(0);
        stand.wait("it is taken", |stand| {
            stand.read64(queue.desc.rptr) == taken
        });
        stand.idle();
        assert_eq!(
            (stand.read64(queue.desc.rptr), stand.reports().as_str()),
            (taken, "")
        );
        if kind == 0 {
            stand.write(RING + 128, &0x1503u16.to_le_bytes());
            queue.bell(2);
            stand.wait("the third", |stand| stand.read64(queue.desc.rptr) == 3);
        }
        stand.gpu.destroy_queue(queue.id);
        match kind {
            0 => assert_eq!(stand.reports(), ""),
            _ => fires("Q-DOORBELL-WPTR").only(&stand.broken()),
        }
    }
}

#[test]
fn a_barrier_that_releases_nothing_says_nothing_of_memory() {
    // Its header, with a release for nobody, the GPU, the system.
    for (header, ready) in [(0x0503, None), (0x0d03, Some(false)), (0x1503, Some(true))] {
        let stand = inactive(&GFX1100);
        let cached = DATA + 0x100_0000;
        stand.map_as(cached, 0x1000, Kind::Gtt, Mtype::Nc, true);
        stand.vm.write(Port::Vector, cached, &[7; 8]).unwrap();
        stand.write(DONE + 16, &MAILBOX.to_le_bytes());
        stand.write(DONE + 24, &9u32.to_le_bytes());
        let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
        let mut packet = [0u32; 16];
        packet[0] = header;
        (packet[14], packet[15]) = (lo(DONE), hi(DONE));
        queue.submit(&packet);
        stand.wait("the interrupt", |stand| stand.heard() == 1);
        stand.idle();
        match ready {
            Some(false) => fires("CACHE-L2-HOST-STALE").only(&stand.broken()),
            _ => assert_eq!(stand.reports(), "", "{header:#x}"),
        }
    }
}

#[test]
fn a_poll_without_parameters_flushes_the_hdp() {
    for (words, fresh) in [(sdma::HDP_FLUSH_PACKET.to_vec(), 1), (vec![0], 0)] {
        let stand = stand(&GFX1030);
        let bar = stand.map_bar(DATA + 0x100_0000);
        let queue = stand.queue(SDMA, RING, RING_BYTES);
        // SAFETY: what was mapped there is 4096 bytes, and nothing else has them.
        unsafe { (bar as *mut u64).write_volatile(1) };
        let (from, to) = (DATA + 0x100_0000, DATA);
        let copy = [1, 7, 0, lo(from), hi(from), lo(to), hi(to)];
        queue.submit(&[&words[..], &copy].concat());
        stand.idle();
        assert_eq!(stand.read64(to), fresh);
        let broken = stand.broken();
        if fresh == 1 {
            assert_eq!(broken, [""; 0]);
        } else {
            fires("HDP-NOT-FLUSHED").only(&broken);
        }
    }
}
