//! Commands of a channel's host: semaphores, barriers, interrupts.
//!
//! Source: open-gpu-doc, manuals/ampere/ga100/dev_pbdma.ref.txt, SEM_EXECUTE, MEM_OP, WFI.

use drivers_spec::nv::host::{
    self, mem_op_d, membar_type,
    sem_execute::{
        ACQUIRE_SWITCH_TSG, OPERATION, OPERATION_ACQ_AND, OPERATION_ACQ_CIRC_GEQ,
        OPERATION_ACQ_NOR, OPERATION_ACQ_STRICT_GEQ, OPERATION_ACQUIRE, OPERATION_REDUCTION,
        OPERATION_RELEASE, PAYLOAD_SIZE, PAYLOAD_SIZE_64BIT, REDUCTION, REDUCTION_FORMAT,
        REDUCTION_FORMAT_UNSIGNED, REDUCTION_IOR, RELEASE_TIMESTAMP, RELEASE_WFI,
    },
};
use hcq::command_buffer::{CommandBuffer, Part};
use hcq::{Compare, GpuVa, Result, Scope, Signal, Val, Width};

use super::push::{half, immediate, methods};
use super::{Setup, span};

/// Host methods are the same on every subchannel.
const ANY: u32 = 0;

/// After the engine is idle and its writes are visible to the system.
const WHEN_DONE: u32 = RELEASE_WFI.put(1);
const QUAD: u32 = PAYLOAD_SIZE.put(PAYLOAD_SIZE_64BIT);
/// Other channels may run during the wait.
const YIELDING: u32 = ACQUIRE_SWITCH_TSG.put(1);

const AT_LEAST: u32 = OPERATION.put(OPERATION_ACQ_CIRC_GEQ) | YIELDING | QUAD;
const SIGNAL: u32 = OPERATION.put(OPERATION_RELEASE) | WHEN_DONE | QUAD | RELEASE_TIMESTAMP.put(1);
/// Leaves the value as it is, and writes the time beside it.
const STAMP: u32 = OPERATION.put(OPERATION_REDUCTION)
    | WHEN_DONE
    | QUAD
    | RELEASE_TIMESTAMP.put(1)
    | REDUCTION.put(REDUCTION_IOR)
    | REDUCTION_FORMAT.put(REDUCTION_FORMAT_UNSIGNED);

/// An operation on a semaphore. The payload has its upper half only where the operation takes 64 bits.
fn semaphore(out: &mut CommandBuffer, at: Val, payload: Val, execute: u32) {
    out.words.push(const { methods(ANY, host::SEM_ADDR_LO, 5) });
    half(out, at, Part::Low);
    half(out, at, Part::High);
    half(out, payload, Part::Low);
    match PAYLOAD_SIZE.get(execute) {
        PAYLOAD_SIZE_64BIT => half(out, payload, Part::High),
        _ => out.words.push(0),
    }
    out.words.push(execute);
}

/// Waits for a signal. Values are far from 2^63, so that a comparison around the circle is one of greater or
/// equal; it is the one that the kernel driver uses on every generation.
#[inline]
pub(crate) fn wait(
    setup: &Setup,
    signal: &Signal,
    value: Val,
    out: &mut CommandBuffer,
) -> Result<()> {
    let at = setup.reach("wait", signal.va(), 16)?;
    semaphore(out, at, value, AT_LEAST);
    Ok(())
}

/// Signals that all is complete, with a timestamp, and wakes waiters.
#[inline]
pub(crate) fn signal(
    setup: &Setup,
    signal: &Signal,
    value: Val,
    out: &mut CommandBuffer,
) -> Result<()> {
    let at = setup.reach("signal", signal.va(), 16)?;
    semaphore(out, at, value, SIGNAL);
    if setup.interrupt == Some(signal.va()) {
        out.words
            .push(const { immediate(ANY, host::NON_STALL_INTERRUPT, 0) });
    }
    Ok(())
}

/// Writes a timestamp after all work.
pub(crate) fn timestamp(setup: &Setup, signal: GpuVa, out: &mut CommandBuffer) -> Result<()> {
    let at = setup.reach("timestamp", signal, 16)?;
    semaphore(out, at, Val::Const(0), STAMP);
    Ok(())
}

/// Writes a word once all before is done.
pub(crate) fn write(
    setup: &Setup,
    at: Val,
    value: Val,
    width: Width,
    out: &mut CommandBuffer,
) -> Result<()> {
    span::check_word(setup, "write", at, width)?;
    let execute = OPERATION.put(OPERATION_RELEASE) | WHEN_DONE | size(width);
    semaphore(out, at, value, execute);
    Ok(())
}

const fn size(width: Width) -> u32 {
    match width {
        Width::W32 => 0,
        Width::W64 => QUAD,
    }
}

/// Waits for a word. The host compares all of it, or looks whether one of some bits is set, or is not: a mask
/// is compared bit by bit.
pub(crate) fn poll(
    setup: &Setup,
    at: Val,
    mask: u64,
    value: Val,
    compare: Compare,
    width: Width,
    out: &mut CommandBuffer,
) -> Result<()> {
    span::check_word(setup, "poll", at, width)?;
    let all = match width {
        Width::W32 => u64::from(u32::MAX),
        Width::W64 => u64::MAX,
    };
    let mask = mask & all;
    let mut acquire = |operation: u32, payload: Val| {
        let execute = OPERATION.put(operation) | YIELDING | size(width);
        semaphore(out, at, payload, execute);
    };
    // Of these bits one is 1; one is 0.
    const ONE: u32 = OPERATION_ACQ_AND;
    const ZERO: u32 = OPERATION_ACQ_NOR;
    match (compare, value) {
        (Compare::Equal, value) if mask == all => acquire(OPERATION_ACQUIRE, value),
        (Compare::GreaterEqual, value) if mask == all => acquire(OPERATION_ACQ_STRICT_GEQ, value),
        // Anything is at least 0, and what a mask leaves is no more than the mask.
        (Compare::GreaterEqual, Val::Const(0)) => {}
        (Compare::Equal, Val::Const(value)) if value & !mask == 0 => {
            for bit in (0..64).map(|bit| 1u64 << bit).filter(|bit| mask & bit != 0) {
                match value & bit {
                    0 => acquire(ZERO, Val::Const(!bit & all)),
                    _ => acquire(ONE, Val::Const(bit)),
                }
            }
        }
        (Compare::NotEqual, Val::Const(0)) => acquire(ONE, Val::Const(mask)),
        (Compare::NotEqual, Val::Const(value)) if value == mask => {
            acquire(ZERO, Val::Const(!mask & all));
        }
        _ => {
            let why = format!(
                "a channel's host engine cannot wait for memory & {mask:#x} {compare:?} {value:x?}: compare a \
                 whole word, or poll for bits that are equal or not all zeros or ones"
            );
            return Err(setup.refused("poll", why));
        }
    }
    Ok(())
}

/// Waits until the engine is idle and its writes are visible to others.
///
/// Source: open-gpu-kernel-modules, uvm_maxwell_ce.c, maxwell_membar_after_transfer: flushes of copies only
/// work with a semaphore, so that the host waits and has the barrier.
pub(crate) fn barrier(scope: Scope, out: &mut CommandBuffer) {
    let membar = match scope {
        Scope::Queue | Scope::Device => membar_type::MEMBAR,
        Scope::System => membar_type::SYS_MEMBAR,
    };
    out.words.extend_from_slice(&[
        const { immediate(ANY, host::WFI, 0) },
        const { methods(ANY, host::MEM_OP_A, 4) },
        0,
        0,
        membar,
        mem_op_d::OPERATION.put(mem_op_d::OPERATION_MEMBAR),
    ]);
}
