//! What polls see of what the host has written, before it is flushed and where it never is.

use super::*;

/// Seen by the host, in VRAM.
const FLAG: u64 = DATA + 0x100_0000;

#[test]
fn a_poll_may_be_early_but_not_for_good() {
    for is_flushed in [true, false] {
        let stand = stand(&GFX1030);
        let flag = stand.map_bar(FLAG);
        let waits = stand.queue(QueueKind::Pm4, RING, RING_BYTES);
        let other = stand.queue(SDMA, RING + 0x1000, RING_BYTES);
        waits.submit(&[wait_mem(WAIT_GE, FLAG, 1), signal(DATA, 1)].concat());
        stand.wait("a queue waits", |stand| {
            stand.gpu.waiting(PROCESS).len() == 1
        });
        // SAFETY: what was mapped there is 4096 bytes, and nothing else has them.
        unsafe { (flag as *mut u64).write_volatile(1) };
        // The queue that waits is looked at again once another has done something.
        for value in 1..=8 {
            other.submit(&[
                5 | sdma::FENCE_MTYPE.put(3),
                lo(DATA + 8),
                hi(DATA + 8),
                value,
            ]);
            stand.wait("the other queue", |stand| stand.read32(DATA + 8) == value);
        }
        assert_eq!((stand.read32(DATA), stand.reports().as_str()), (0, ""));
        if is_flushed {
            other.submit(&sdma::HDP_FLUSH_PACKET);
            stand.idle();
            assert_eq!((stand.read32(DATA), stand.reports().as_str()), (1, ""));
        } else {
            stand.gpu.destroy_queue(waits.id);
            fires("HDP-NOT-FLUSHED").only(&stand.broken());
        }
    }
}
