//! Waits, signals, timestamps and cache operations.

use drivers_spec::qcom::packet::{event_write_0 as event, op, reg_to_mem_0, type7, wait_reg_mem_0};
use drivers_spec::qcom::regs::{CP_ALWAYS_ON_COUNTER, dword};
use hcq::command_buffer::Part;
use hcq::{CommandBuffer, Compare, GpuVa, Result, Signal, Val, Width};

use super::Setup;
use super::packet::{command, halves};
use super::span::{self, half, plus};

/// Offset of a signal's timestamp from its value.
pub(super) const TIMESTAMP: u64 = 8;

/// Cycles between two looks of a wait.
///
/// Source: tests/golden/qcom, the stream "wait"; Mesa has 16.
const POLL_CYCLES: u32 = 32;

/// Words of an acquire.
const ACQUIRE: usize = 9;

/// Flushes and invalidates the caches of shaders, then waits until CP's writes are in memory and the GPU is idle: what
/// follows sees all memory as it is then.
pub(super) fn acquire(setup: &Setup, out: &mut CommandBuffer) {
    out.words.extend_from_slice(&acquire_words(setup));
}

fn acquire_words(setup: &Setup) -> [u32; ACQUIRE] {
    let [low, high] = halves(setup.scratch.0);
    [
        const { type7(op::EVENT_WRITE, 4) },
        event::EVENT.put(event::CACHE_FLUSH_TS),
        low,
        high,
        0,
        const { type7(op::EVENT_WRITE, 1) },
        event::EVENT.put(event::CACHE_INVALIDATE),
        const { type7(op::WAIT_MEM_WRITES, 0) },
        const { type7(op::WAIT_FOR_IDLE, 0) },
    ]
}

/// Dwords of CP_WAIT_REG_MEM.
const WAIT: usize = 7;

/// Takes the acquire of a wait at the end away again: waits that follow each other share the last one's. A barrier's stays:
/// the wait may be for what a kernel before it has stored.
fn drop_acquire(setup: &Setup, out: &mut CommandBuffer) {
    let start = out.words.len().saturating_sub(ACQUIRE);
    let is_wait = start >= out.head() + WAIT
        && out.words[start - WAIT] == const { type7(op::WAIT_REG_MEM, 6) };
    if is_wait && out.words[start..] == acquire_words(setup) {
        out.words.truncate(start);
    }
}

/// Holds the queue until a signal is at least a value.
pub(super) fn wait(
    setup: &Setup,
    signal: &Signal,
    value: Val,
    out: &mut CommandBuffer,
) -> Result<()> {
    if span::is_past(signal, value) {
        return Ok(());
    }
    let at = Val::Const(signal.va().0);
    poll(
        setup,
        (at, u64::MAX, value, Compare::GreaterEqual, Width::W64),
        out,
    )
}

/// Holds the queue until memory compares true.
pub(super) fn poll(
    setup: &Setup,
    (at, mask, value, compare, width): (Val, u64, Val, Compare, Width),
    out: &mut CommandBuffer,
) -> Result<()> {
    span::check_word(setup, "poll", at, width)?;
    drop_acquire(setup, out);
    match width {
        Width::W32 => poll32(out, at, (value, Part::Low), mask as u32, compare),
        Width::W64 => span::by_halves(setup, mask, value, compare, |offset, part, mask| {
            poll32(out, plus(at, offset), (value, part), mask, compare);
        })?,
    }
    acquire(setup, out);
    Ok(())
}

fn poll32(out: &mut CommandBuffer, at: Val, value: (Val, Part), mask: u32, compare: Compare) {
    let function = match compare {
        Compare::Equal => wait_reg_mem_0::WRITE_EQ,
        Compare::NotEqual => wait_reg_mem_0::WRITE_NE,
        Compare::GreaterEqual => wait_reg_mem_0::WRITE_GE,
    };
    out.word(const { type7(op::WAIT_REG_MEM, 6) });
    out.word(
        wait_reg_mem_0::FUNCTION.put(function)
            | wait_reg_mem_0::POLL.put(wait_reg_mem_0::POLL_MEMORY),
    );
    out.val(at);
    half(out, value.0, value.1);
    out.word(mask);
    out.word(POLL_CYCLES);
}

/// Sets a signal once all before is done and in memory.
#[inline]
pub(super) fn signal(
    setup: &Setup,
    signal: GpuVa,
    value: Val,
    out: &mut CommandBuffer,
) -> Result<()> {
    let at = Val::Const(signal.0);
    span::check_word(setup, "signal", at, Width::W64)?;
    // A signal only grows: where its value fits 32 bits, the others are still zero.
    let is_low = matches!(value, Val::Const(value) if value >> 32 == 0);
    store(out, at, value, !is_low);
    Ok(())
}

/// Writes a word once all before is done and in memory.
pub(super) fn write(
    setup: &Setup,
    at: Val,
    value: Val,
    width: Width,
    out: &mut CommandBuffer,
) -> Result<()> {
    span::check_word(setup, "write", at, width)?;
    store(out, at, value, width == Width::W64);
    Ok(())
}

/// CP's own writes would pass stores of shaders that are still in the cache: the event writes behind them. The lower
/// half comes first: see [`drivers_gpu::memory::signal`].
#[inline]
fn store(out: &mut CommandBuffer, at: Val, value: Val, is_wide: bool) {
    command(&mut out.words, op::WAIT_FOR_IDLE, &[]);
    let mut event = |at, part| {
        out.word(const { type7(op::EVENT_WRITE, 4) });
        out.word(event::EVENT.put(event::CACHE_FLUSH_TS));
        out.val(at);
        half(out, value, part);
    };
    event(at, Part::Low);
    if is_wide {
        event(plus(at, 4), Part::High);
    }
}

/// Writes the time once all before is done.
pub(super) fn timestamp(setup: &Setup, signal: GpuVa, out: &mut CommandBuffer) -> Result<()> {
    let at = signal.0 + TIMESTAMP;
    span::check_word(setup, "timestamp", Val::Const(at), Width::W64)?;
    let [low, high] = halves(at);
    let what = reg_to_mem_0::REG.put(dword(&CP_ALWAYS_ON_COUNTER))
        | reg_to_mem_0::CNT.put(2)
        | reg_to_mem_0::B64.put(1);
    command(&mut out.words, op::WAIT_FOR_IDLE, &[]);
    command(&mut out.words, op::REG_TO_MEM, &[what, low, high]);
    command(&mut out.words, op::WAIT_MEM_WRITES, &[]);
    Ok(())
}
