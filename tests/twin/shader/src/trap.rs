//! Trap handlers.
//!
//! A wave that traps goes on in the handler of its process. The handler that a client sets is the second: the
//! kernel driver's, which also saves contexts, comes first. It is not run here; what it leaves is where the
//! second one finds it. Waves enter it by `s_trap` alone: what else stops a wave stops its queue.
//!
//! Source: ROCR, trap_handler.s and trap_handler_gfx12.s, "ABI between first and second level trap handler";
//! Linux, amdkfd, cwsr_trap_handler_gfx9, 10 and 12.asm; ISA documents, S_TRAP and S_RFE_B64.

use crate::isa::Gen;
use crate::wave::Wave;

/// The handler of a process on a GPU, and what it may ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handler {
    /// Address of its first instruction (TBA).
    pub code: u64,
    /// Address of its memory (TMA).
    pub data: u64,
    /// The doorbell of the queue, counted from the first of the process.
    pub doorbell: u32,
}

/// What a wave tells whoever watches the launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// A word to the host, `s_sendmsg(MSG_INTERRUPT)`.
    Interrupt {
        /// M0.
        m0: u32,
        /// It comes from a trap handler.
        privileged: bool,
    },
    /// The trap handler has halted the wave, and sent the host no word.
    HaltedInSilence {
        /// The trap.
        id: u32,
        /// Where the wave would go on.
        at: u64,
    },
}

/// A trap whose handler runs.
#[derive(Clone, Copy, Debug)]
pub struct Trap {
    /// Its number.
    pub id: u32,
    /// The host has been sent a word since.
    pub told: bool,
}

/// The code of ttmp0 as a scalar operand.
const TTMP: usize = 108;

/// The wave goes on in the handler: at the address that this returns.
pub(crate) fn enter(wave: &mut Wave, handler: Handler, id: u32, status: u32) -> u64 {
    let [x, y, z] = wave.place.group;
    let high = (wave.pc >> 32) as u32 & 0xffff;
    let ttmp = &mut wave.s[TTMP..];
    ttmp[0] = wave.pc as u32;
    // No debugger: its bits in TTMP11 and TTMP13 are clear.
    if wave.generation == Gen::Rdna4 {
        ttmp[1] = high | (id & 15) << 28;
        ttmp[11] = 0;
    } else {
        ttmp[1] = high | (id & 0xff) << 16;
        (ttmp[8], ttmp[9], ttmp[10]) = (x, y, z);
        (ttmp[11], ttmp[13]) = (wave.place.wave & 63, 0);
    }
    ttmp[12] = status;
    (ttmp[14], ttmp[15]) = (handler.data as u32, (handler.data >> 32) as u32);
    wave.trap = Some(Trap { id, told: false });
    handler.code
}
