//! [`Order`]: a submission runs only after the one before it has run to its end.
//!
//! After a hang the kernel drops the submission that hung, and no other: it runs the later ones of the queue, whose signals would
//! count for the dropped one as well. A limit of the kernel (eight) says how many of them are in its ring; closing the queue ends
//! none. So each submission is packets that call its buffers if a word is there that the one before has written as its last. After
//! a dropped one it is not: the later ones do nothing, and end at once.
//!
//! A submission of more buffers than that has room for waits for the word instead, so that the kernel takes it for hung, too.
//!
//! Source: Linux, drivers/gpu/drm/msm/msm_gpu.c, `recover_worker`: "replay all remaining submits"; msm_ringbuffer.c,
//! `num_hw_submissions`; msm_submitqueue.c, `msm_submitqueue_remove`. Mesa, src/freedreno/vulkan/tu_query_pool.cc,
//! `emit_copy_query_pool_results`: CP_WAIT_MEM_WRITES, then CP_COND_EXEC of a word that is 0 or 1.

use std::sync::Arc;

use drivers_gpu::backend::Request;
use drivers_spec::qcom::packet::{indirect_buffer_2, op, type7, wait_reg_mem_0};
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

/// Where packets begin; the words that say what has ended are before them, one for each.
const SLOTS: u64 = (COUNT * 4).next_multiple_of(64);

/// Dwords of a submission's packets.
const SLOT_DWORDS: usize = 64;

/// The same in bytes, and where those are that come behind the buffers.
const SLOT: u64 = SLOT_DWORDS as u64 * 4;
const LAST: u64 = 32;

/// Dwords of CP_INDIRECT_BUFFER, and of CP_MEM_WRITE of one word.
const CALL: usize = 4;
const WRITE: usize = 4;

/// Buffers that a submission has room for, behind CP_WAIT_MEM_WRITES, CP_WAIT_FOR_ME and CP_COND_EXEC.
const ROOM: usize = (SLOT_DWORDS - 2 - 7 - WRITE) / CALL;

/// Cycles between two looks of a wait.
const POLL_CYCLES: u32 = 32;

/// The words, and the packets around submissions.
pub(super) struct Order {
    window: Window,
    _memory: Arc<Memory>,
    va: u64,
}

/// What the kernel is given for a submission: packets that call its buffers, or that are before and behind them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Guard {
    /// The only one, or what is before the buffers.
    pub(super) first: IndirectBuffer,
    /// What is behind them.
    pub(super) last: Option<IndirectBuffer>,
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
            _memory: memory,
        };
        // Nothing is before the first one.
        order.window.write_words(0, &[1u32])?;
        Ok(order)
    }

    /// The packets of submission number `n`, from 1.
    ///
    /// # Errors
    /// The transport's.
    pub(super) fn guard(
        &self,
        n: u64,
        buffers: &[IndirectBuffer],
    ) -> Result<Guard, TransportError> {
        let (before, own) = ((n - 1) % COUNT * 4, n % COUNT * 4);
        let slot = SLOTS + n % COUNT * SLOT;
        // Whoever had the word last is over.
        self.window.write_words(own, &[0u32])?;
        let [before_low, before_high] = halves(self.va + before);
        let [low, high] = halves(self.va + own);
        let write = [const { type7(op::MEM_WRITE, 3) }, low, high, 1];
        let at = |offset, dwords| IndirectBuffer {
            address: self.va + offset,
            dwords,
        };
        if buffers.len() > ROOM {
            let wait = [
                const { type7(op::WAIT_REG_MEM, 6) },
                wait_reg_mem_0::FUNCTION.put(wait_reg_mem_0::WRITE_EQ)
                    | wait_reg_mem_0::POLL.put(wait_reg_mem_0::POLL_MEMORY),
                before_low,
                before_high,
                1,
                u32::MAX,
                POLL_CYCLES,
            ];
            self.window.write_words(slot, &wait)?;
            self.window.write_words(slot + LAST, &write)?;
            return Ok(Guard {
                first: at(slot, wait.len() as u32),
                last: Some(at(slot + LAST, write.len() as u32)),
            });
        }
        let inside = buffers.len() * CALL + WRITE;
        let condition = [
            const { type7(op::WAIT_MEM_WRITES, 0) },
            const { type7(op::WAIT_FOR_ME, 0) },
            const { type7(op::COND_EXEC, 6) },
            before_low,
            before_high,
            before_low,
            before_high,
            // Not 0, and less than this.
            2,
            inside as u32,
        ];
        let mut words = [0u32; SLOT_DWORDS];
        let (start, rest) = words.split_at_mut(condition.len());
        start.copy_from_slice(&condition);
        let (calls, _) = rest.as_chunks_mut::<CALL>();
        for (call, buffer) in calls.iter_mut().zip(buffers) {
            let [low, high] = halves(buffer.address);
            *call = [
                const { type7(op::INDIRECT_BUFFER, 3) },
                low,
                high,
                indirect_buffer_2::IB_SIZE.put(buffer.dwords),
            ];
        }
        if let Some(end) = calls.get_mut(buffers.len()) {
            *end = write;
        }
        let dwords = condition.len() + inside;
        self.window.write_words(slot, &words[..dwords])?;
        Ok(Guard {
            first: at(slot, dwords as u32),
            last: None,
        })
    }
}
