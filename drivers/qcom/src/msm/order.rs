//! [`Order`]: a submission runs only after the one before it has run to its end.
//!
//! After a hang the kernel drops the submission that hung, and no other: it runs the later ones of the queue, whose signals would
//! count for the dropped one as well. A limit of the kernel (eight) says how many of them are in its ring; closing the queue ends
//! none. So each submission is packets that call its buffers if a word says that the one before has come to its end, and that then
//! write the word themselves. Behind a dropped one the word stays as it is: the later ones do nothing, and end at once.
//!
//! The word counts down, since the packet compares by "less": whatever a submission finds there that is older is larger. Only
//! submissions write it, so that no write of the host is in a race with a read of the GPU. Where it has come to its end, the
//! other of two words goes on.
//!
//! A submission that the kernel replays finds its condition as it was. With one ring, none that has begun is replayed. With
//! `msm.enable_preemption=1` (Linux 6.13 and newer, four rings) a hang in another ring replays one that was interrupted from its
//! start, and no fault is counted for this queue: what such a submission updates in place is updated twice.
//!
//! Source: Linux, drivers/gpu/drm/msm/msm_gpu.c, `recover_worker`: "replay all remaining submits"; msm_ringbuffer.c,
//! `num_hw_submissions`; msm_submitqueue.c, `msm_submitqueue_remove`. Mesa, src/freedreno/registers/adreno/adreno_pm4.xml,
//! CP_COND_EXEC: not 0, and less than a signed number; src/freedreno/vulkan/tu_query_pool.cc, `emit_copy_query_pool_results`:
//! CP_WAIT_MEM_WRITES before it. That CP_WAIT_FOR_ME is needed is not documented: without it, the front of the command
//! processor might read the word ahead.

use std::sync::Arc;

use drivers_gpu::backend::Request;
use drivers_spec::qcom::packet::{indirect_buffer_2, op, type7};
use hcq::MemoryKind;
use hcq::mem::window::Window;
use hcq::transport::{Fault, Machine, TransportError};

use super::memory::{Memory, Process};
use crate::backend::context::IndirectBuffer;
use crate::backend::heap::Object;
use crate::encode::packet::halves;
use crate::options::Options;

/// Submissions whose packets are kept: more than are under way.
const COUNT: u64 = Options::MOST_IN_FLIGHT as u64 + 16;

/// Where packets begin; the two words are before them.
const SLOTS: u64 = 64;

/// Dwords of a submission's packets.
const SLOT_DWORDS: usize = 64;

/// The same in bytes.
const SLOT: u64 = SLOT_DWORDS as u64 * 4;

/// CP_WAIT_MEM_WRITES, CP_WAIT_FOR_ME and CP_COND_EXEC.
const CONDITION: usize = 2 + 7;

/// Dwords of CP_INDIRECT_BUFFER, of CP_WAIT_FOR_IDLE, and of CP_MEM_WRITE of one word.
const CALL: usize = 4;
const IDLE: usize = 1;
const WRITE: usize = 4;

/// Buffers that a submission has room for, beside the condition and the end of a word.
pub(super) const ROOM: usize = (SLOT_DWORDS - CONDITION - IDLE - 2 * WRITE) / CALL;

/// The word before the first submission that it counts. The packet compares signed numbers with one more than it.
const FIRST: u32 = i32::MAX as u32 - 1;

/// Submissions that a word counts: it is never 0 then, which it is before and after.
const PERIOD: u64 = FIRST as u64 - 1;

/// The packets of submissions, pure.
#[derive(Clone, Copy)]
struct Packets {
    /// Where the two words are.
    words: u64,
    /// Submissions that a word counts.
    period: u64,
}

/// What a submission is made of.
type Slot = ([u32; SLOT_DWORDS], usize);

impl Packets {
    /// Those of submission number `n`, from 1, of [`ROOM`] buffers at most; how many dwords they are.
    fn of(self, n: u64, buffers: &[IndirectBuffer]) -> Slot {
        let (turn, place) = ((n - 1) / self.period, (n - 1) % self.period);
        let own = self.words + turn % 2 * 4;
        let next = self.words + (turn + 1) % 2 * 4;
        let is_last = place + 1 == self.period;
        let before = FIRST - place as u32;
        let writes = match is_last {
            // The next turn begins where nothing of this one is left to do.
            true => [Some((own, 0)), Some((next, FIRST))],
            false => [Some((own, before - 1)), None],
        };
        let writes = writes.into_iter().flatten();
        let inside = buffers.len() * CALL + IDLE + writes.clone().count() * WRITE;
        let [low, high] = halves(own);
        let condition = [
            const { type7(op::WAIT_MEM_WRITES, 0) },
            const { type7(op::WAIT_FOR_ME, 0) },
            const { type7(op::COND_EXEC, 6) },
            low,
            high,
            low,
            high,
            // Not 0, and less than this.
            before + 1,
            inside as u32,
        ];

        let mut words = [0u32; SLOT_DWORDS];
        let mut dwords = 0;
        let mut put = |packet: &[u32]| {
            words[dwords..dwords + packet.len()].copy_from_slice(packet);
            dwords += packet.len();
        };
        put(&condition);
        for buffer in buffers {
            let [low, high] = halves(buffer.address);
            let size = indirect_buffer_2::IB_SIZE.put(buffer.dwords);
            put(&[const { type7(op::INDIRECT_BUFFER, 3) }, low, high, size]);
        }
        // A launch that hangs has not come to its end, though all packets have been read.
        put(&[const { type7(op::WAIT_FOR_IDLE, 0) }]);
        for (at, value) in writes {
            let [low, high] = halves(at);
            put(&[const { type7(op::MEM_WRITE, 3) }, low, high, value]);
        }
        (words, dwords)
    }
}

/// The words, and the packets around submissions.
pub(super) struct Order {
    window: Window,
    _memory: Arc<Memory>,
    va: u64,
    packets: Packets,
}

impl Order {
    /// Of a new queue.
    ///
    /// # Errors
    /// The kernel's; nothing is left behind then.
    pub(super) fn new(
        machine: &dyn Machine,
        process: &Arc<Process>,
    ) -> Result<Order, TransportError> {
        let request = Request {
            bytes: SLOTS + COUNT * SLOT,
            align: 4096,
            kind: MemoryKind::Control,
            what: "the order of submissions",
        };
        let memory = Memory::new(machine, process, &request)?;
        let missing = || {
            let why = Fault::Unsupported("memory without a window".into());
            TransportError::new(&*process.path, "map", why)
        };
        let order = Order {
            window: memory.window().ok_or_else(missing)?,
            va: memory.va(),
            packets: Packets {
                words: memory.va(),
                period: PERIOD,
            },
            _memory: memory,
        };
        // Nothing is before the first one.
        order.window.write_words(0, &[FIRST, 0])?;
        Ok(order)
    }

    /// What the kernel is given for submission number `n`, from 1, of [`ROOM`] buffers at most.
    ///
    /// # Errors
    /// The transport's.
    pub(super) fn guard(
        &self,
        n: u64,
        buffers: &[IndirectBuffer],
    ) -> Result<IndirectBuffer, TransportError> {
        let slot = SLOTS + n % COUNT * SLOT;
        let (words, dwords) = self.packets.of(n, buffers);
        self.window.write_words(slot, &words[..dwords])?;
        Ok(IndirectBuffer {
            address: self.va + slot,
            dwords: dwords as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: u64 = 0x5_0000_1000;

    /// What a submission does with the words: whether it calls its buffers.
    fn run(packets: Packets, n: u64, count: usize, words: &mut [u32; 2]) -> bool {
        let buffers: Vec<IndirectBuffer> = (0..count as u64)
            .map(|i| IndirectBuffer {
                address: 0x7_0000_0000 + i * 0x1000,
                dwords: 16 + i as u32,
            })
            .collect();
        let (all, dwords) = packets.of(n, &buffers);
        assert!(all[dwords..].iter().all(|word| *word == 0));
        let address = |at: usize| u64::from(all[at]) | u64::from(all[at + 1]) << 32;
        let word = |at: usize| (address(at) - WORDS) as usize / 4;
        assert_eq!(
            all[..3],
            [
                type7(op::WAIT_MEM_WRITES, 0),
                type7(op::WAIT_FOR_ME, 0),
                type7(op::COND_EXEC, 6)
            ]
        );
        // All that is behind the condition depends on it.
        assert_eq!(all[8] as usize, dwords - CONDITION);
        let (first, second) = (words[word(3)], words[word(5)]);
        let runs = first != 0 && (second as i32) < all[7] as i32;
        let ends = CONDITION + count * CALL;
        for (i, buffer) in buffers.iter().enumerate() {
            let at = CONDITION + i * CALL;
            assert_eq!(all[at], type7(op::INDIRECT_BUFFER, 3));
            assert_eq!(
                (address(at + 1), all[at + 3]),
                (buffer.address, buffer.dwords)
            );
        }
        assert_eq!(all[ends], type7(op::WAIT_FOR_IDLE, 0));
        for at in (ends + IDLE..dwords).step_by(WRITE) {
            assert_eq!(all[at], type7(op::MEM_WRITE, 3));
            if runs {
                words[word(at + 1)] = all[at + 3];
            }
        }
        runs
    }

    /// The words after `before` submissions that have all run.
    fn after(packets: Packets, before: u64) -> [u32; 2] {
        let mut words = [FIRST, 0];
        for n in 1..=before {
            assert!(run(packets, n, 1, &mut words), "{n}");
        }
        words
    }

    #[test]
    fn what_is_behind_a_dropped_one_does_nothing() {
        // A word says the same again after two turns, by when the driver has long seen the hang.
        for (period, behind) in [(PERIOD, 200), (1, 1), (2, 2), (5, 5), (40, 40)] {
            let packets = Packets {
                words: WORDS,
                period,
            };
            for dropped in 1..=50 {
                let mut words = after(packets, dropped - 1);
                for n in dropped + 1..=dropped + behind {
                    assert!(!run(packets, n, 2, &mut words), "{period} {dropped} {n}");
                }
            }
        }
    }

    #[test]
    fn a_submission_has_room_for_its_buffers() {
        assert_eq!(ROOM, 11);
        for n in [1, 64, 65, PERIOD] {
            for count in [0, 1, ROOM] {
                let packets = Packets {
                    words: WORDS,
                    period: PERIOD,
                };
                let mut words = [FIRST - (n - 1) as u32, 0];
                assert!(run(packets, n, count, &mut words), "{n} {count}");
                let end = match n {
                    PERIOD => [0, FIRST],
                    n => [FIRST - n as u32, 0],
                };
                assert_eq!(words, end);
            }
        }
    }
}
