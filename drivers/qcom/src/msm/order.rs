//! [`Order`]: a submission runs only after the one before it has run to its end.
//!
//! After a hang the kernel drops the submission that hung and runs the later ones of the queue, whose signals would count
//! for the dropped one as well. So each submission begins with a wait for a word that the one before has written as its
//! last: after a dropped one, none passes, and each is dropped in turn.
//!
//! Source: Linux, drivers/gpu/drm/msm/msm_gpu.c, `recover_worker`: "replay all remaining submits".

use std::sync::Arc;

use drivers_gpu::backend::Request;
use drivers_spec::qcom::packet::{op, type7, wait_reg_mem_0};
use hcq::MemoryKind;
use hcq::mem::window::Window;
use hcq::transport::{Fault, Machine, TransportError};

use super::memory::{Memory, Process};
use crate::backend::context::IndirectBuffer;
use crate::backend::heap::Object;
use crate::encode::packet::halves;
use crate::options::Options;

/// Bytes of a submission's packets, and where those are that come last.
const SLOT: u64 = 64;
const LAST: u64 = 32;

/// Where slots begin; the word is before them.
const SLOTS: u64 = 64;

/// More than are under way.
const COUNT: u64 = Options::MOST_IN_FLIGHT as u64 + 16;

/// Cycles between two looks of a wait.
const POLL_CYCLES: u32 = 32;

/// The word, and the packets around submissions.
pub(super) struct Order {
    window: Window,
    _memory: Arc<Memory>,
    va: u64,
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
        Ok(Order {
            window: memory.window().ok_or_else(missing)?,
            va: memory.va(),
            _memory: memory,
        })
    }

    /// The packets before and behind submission number `n`, from 1.
    ///
    /// # Errors
    /// The transport's.
    pub(super) fn around(&self, n: u64) -> Result<[IndirectBuffer; 2], TransportError> {
        let slot = SLOTS + n % COUNT * SLOT;
        let [low, high] = halves(self.va);
        let first = [
            const { type7(op::WAIT_REG_MEM, 6) },
            wait_reg_mem_0::FUNCTION.put(wait_reg_mem_0::WRITE_EQ)
                | wait_reg_mem_0::POLL.put(wait_reg_mem_0::POLL_MEMORY),
            low,
            high,
            n.wrapping_sub(1) as u32,
            u32::MAX,
            POLL_CYCLES,
        ];
        let last = [const { type7(op::MEM_WRITE, 3) }, low, high, n as u32];
        self.window.write_words(slot, &first)?;
        self.window.write_words(slot + LAST, &last)?;
        Ok([
            IndirectBuffer {
                address: self.va + slot,
                dwords: first.len() as u32,
            },
            IndirectBuffer {
                address: self.va + slot + LAST,
                dwords: last.len() as u32,
            },
        ])
    }
}
