//! Commands to SDMA.
//!
//! | command | packets |
//! |---|---|
//! | wait | POLL_REGMEM, one or two |
//! | signal | FENCE of the low half, FENCE of the high half; FENCE and TRAP for the interrupt |
//! | timestamp | TIMESTAMP_GET_GLOBAL |
//! | barrier | FENCE and POLL_REGMEM of a word of the queue; GCR beyond the queue |
//! | copy | COPY_LINEAR, as many as it takes |
//! | fill | CONST_FILL, as many as it takes |
//! | write | FENCE, one or two |
//! | poll | POLL_REGMEM, one or two |
//!
//! FENCE comes after everything before it; WRITE may overtake copies, and is not used. The engine
//! compares and fences 32 bits: a value of 64 bits is written low half first, so that a reader of the new high half
//! also sees the new low half, and compared high half first.

use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::{pm4, sdma};
use hcq::command_buffer::{CommandBuffer, Part};
use hcq::{Command, Compare, Result, Scope, Val, Width};

use super::Setup;
use super::commands::{POLL_INTERVAL, TIMESTAMP, function};
use super::sink::{Sink, plus};
use super::span;

/// Dwords of the first packet, with those that it skips; all words if they are no packet.
pub fn length(gfx: Gfx, words: &[u32]) -> usize {
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let header = word(0);
    let Some(packet) = sdma::find(gfx, header) else {
        return words.len();
    };
    let fixed = packet.fixed(gfx);
    match packet.op {
        sdma::NOP => 1 + sdma::NOP_COUNT.get(header) as usize,
        sdma::WRITE => fixed + sdma::WRITE_COUNT.get(word(3)) as usize + 1,
        sdma::COND_EXE => fixed + sdma::EXEC_COUNT.get(word(4)) as usize,
        _ => fixed,
    }
}

/// Encodes for a copy queue.
#[derive(Debug)]
pub struct Sdma {
    setup: Setup,
}

impl Sdma {
    /// An encoder for a queue.
    pub fn new(setup: Setup) -> Sdma {
        Sdma { setup }
    }

    /// What it knows.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// See [`super::Encoder::begin`]. The engine has no caches of its own to invalidate.
    pub fn begin(&self, out: &mut CommandBuffer) {
        let [request, done] = self.setup.chip.generation.hdp_flush;
        let header = sdma::POLL_OP.put(sdma::POLL_REGMEM as u32)
            | sdma::HDP_FLUSH.put(1)
            | sdma::FUNC.put(function(Compare::Equal));
        // Registers are named by byte address here. The bits of all clients.
        out.words.extend_from_slice(&[
            header,
            done << 2,
            request << 2,
            u32::MAX,
            u32::MAX,
            FOR_EVER | sdma::INTERVAL.put(POLL_INTERVAL),
        ]);
    }

    /// See [`super::Encoder::encode`].
    ///
    /// # Errors
    /// [`hcq::Error::Command`].
    pub fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        for command in commands {
            self.one(command, &mut Sink::words(out))?;
        }
        Ok(())
    }

    fn one(&self, command: &Command<'_>, sink: &mut Sink<'_>) -> Result<()> {
        match *command {
            Command::Wait { signal, value } if span::is_past(signal, value) => {}
            Command::Wait { signal, value } => self.poll(
                sink,
                Val::Const(signal.va().0),
                u64::MAX,
                value,
                Compare::GreaterEqual,
                Width::W64,
            )?,
            Command::Poll {
                at,
                mask,
                value,
                compare,
                width,
            } => {
                span::check_aligned(&self.setup, "poll", at, width)?;
                self.poll(sink, at, mask, value, compare, width)?;
            }
            Command::Signal { signal, value } => {
                let at = Val::Const(signal.va().0);
                self.fence(sink, at, value, Part::Low);
                // A signal only grows: where its value fits 32 bits, the others are still zero.
                if !matches!(value, Val::Const(value) if value >> 32 == 0) {
                    self.fence(sink, plus(at, 4), value, Part::High);
                }
                if let Some(interrupt) = self.setup.interrupt.filter(|i| i.signal == signal.va()) {
                    let id = interrupt.event;
                    let mailbox = Val::Const(interrupt.mailbox.0);
                    self.fence(sink, mailbox, Val::Const(id.into()), Part::Low);
                    sink.put(&[sdma::TRAP.into(), sdma::INT_CONTEXT.put(id)]);
                }
            }
            Command::Timestamp { signal } => {
                sink.put(&[sdma::TIMESTAMP_GET_GLOBAL.into()]);
                sink.val(Val::Const(signal.va().0 + TIMESTAMP));
            }
            Command::Barrier { scope } => self.barrier(sink, scope),
            Command::Copy { dst, src, bytes } => self.copy(sink, dst, src, bytes)?,
            Command::Fill { at, value, bytes } => self.fill(sink, at, value, bytes)?,
            Command::Write { at, value, width } => {
                span::check_aligned(&self.setup, "write", at, width)?;
                self.fence(sink, at, value, Part::Low);
                if width == Width::W64 {
                    self.fence(sink, plus(at, 4), value, Part::High);
                }
            }
            Command::Exec { program, .. } => {
                let why = "copy queues cannot run kernels: submit it to a compute queue";
                return Err(self.setup.refused(format!("exec {}", program.name), why));
            }
        }
        Ok(())
    }

    fn poll(
        &self,
        sink: &mut Sink<'_>,
        at: Val,
        mask: u64,
        value: Val,
        compare: Compare,
        width: Width,
    ) -> Result<()> {
        match width {
            Width::W32 => poll32(sink, at, mask as u32, value, Part::Low, compare),
            Width::W64 => {
                span::by_halves(&self.setup, mask, value, compare, |half, part, mask| {
                    poll32(sink, plus(at, half), mask, value, part, compare);
                })?
            }
        }
        Ok(())
    }

    fn fence(&self, sink: &mut Sink<'_>, at: Val, value: Val, part: Part) {
        sink.put(&[self.setup.chip.generation.sdma_fence]);
        sink.val(at);
        sink.half(value, part);
    }

    /// Packets are fetched in order, but copies are still in flight when the next one is fetched. A fence of a word
    /// and a wait for it complete them; the word is zero again afterwards.
    fn barrier(&self, sink: &mut Sink<'_>, scope: Scope) {
        let word = Val::Const(self.setup.fence.0);
        self.fence(sink, word, Val::Const(1), Part::Low);
        let one = Val::Const(1);
        poll32(sink, word, u32::MAX, one, Part::Low, Compare::Equal);
        self.fence(sink, word, Val::Const(0), Part::Low);
        // The writes bypass GL2: readers through GL2 see them after an invalidation.
        if let (Scope::Device | Scope::System, Some(gcr)) =
            (scope, self.setup.chip.generation.sdma_gcr)
        {
            let control = pm4::acquire::GL2_INV.put(1) | pm4::acquire::GL2_WB.put(1);
            sink.put(&[gcr, 0, sdma::GCR_CONTROL_15_0.put(control), 0, 0]);
        }
    }

    fn copy(&self, sink: &mut Sink<'_>, dst: Val, src: Val, bytes: u64) -> Result<()> {
        let max = self.setup.chip.generation.sdma_bytes_max;
        let max = match self.setup.recorded.copies {
            true => max.min(COPY_MAX),
            false => max,
        };
        span::check_copy(&self.setup, dst, src, bytes, max)?;
        let mut done = 0;
        while done < bytes {
            let count = (bytes - done).min(max);
            sink.put(&[sdma::COPY_LINEAR.into(), (count - 1) as u32, 0]);
            sink.val(plus(src, done));
            sink.val(plus(dst, done));
            done += count;
        }
        Ok(())
    }

    fn fill(&self, sink: &mut Sink<'_>, at: Val, value: u32, bytes: u64) -> Result<()> {
        let max = self.setup.chip.generation.sdma_bytes_max;
        span::check_fill(&self.setup, at, bytes, max)?;
        let mut done = 0;
        while done < bytes {
            let now = (bytes - done).min(max);
            sink.put(&[sdma::FILL_OP.put(sdma::CONST_FILL.into()) | sdma::FILL_SIZE.put(DWORDS)]);
            sink.val(plus(at, done));
            sink.put(&[value, sdma::FILL_BYTES.put((now - 4) as u32)]);
            done += now;
        }
        Ok(())
    }
}

/// Bytes that one packet of the recorded driver copied at most.
const COPY_MAX: u64 = 4 << 20;

/// FILL_SIZE of dwords.
const DWORDS: u32 = 2;

/// A poll that never gives up.
const FOR_EVER: u32 = sdma::RETRY_COUNT.put(0xfff);

fn poll32(sink: &mut Sink<'_>, at: Val, mask: u32, value: Val, part: Part, compare: Compare) {
    let header = sdma::POLL_OP.put(sdma::POLL_REGMEM as u32)
        | sdma::FUNC.put(function(compare))
        | sdma::MEM_POLL.put(1);
    sink.put(&[header]);
    sink.val(at);
    sink.half(value, part);
    sink.put(&[mask, FOR_EVER | sdma::INTERVAL.put(POLL_INTERVAL)]);
}
