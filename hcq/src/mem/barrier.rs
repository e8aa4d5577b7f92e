//! Named barriers for the order in which a device sees host accesses.
//!
//! Volatile accesses and Rust's fences order memory between threads, but not towards a device: write-combining stores
//! leave the CPU's buffers at any time, and on Arm a store to a device register may overtake stores to memory. So
//! each handover between host and device names its barrier; the CPU instructions are here only.
//!
//! Source: Intel SDM volume 3, 12.3.1 "Memory Buffering and Caching" and 9.2.2 (write-combining is
//! weakly ordered, SFENCE orders it; other stores stay in order); Arm ARM (DDI 0487) B2.3.12 "Data
//! Memory Barrier"; the same choices as Linux: arch/arm64/include/asm/{barrier,io}.h (`dma_wmb` is
//! `dmb oshst`, `dma_rmb` is `dmb oshld`, `writel` has `dma_wmb` before the store),
//! arch/x86/include/asm/barrier.h (`wmb` is `sfence`).
#![allow(unsafe_code)]

use std::sync::atomic::{Ordering, compiler_fence};

use super::view::View;

/// Between stores to memory for the device, and the store that starts it: a doorbell or a register. Also orders
/// stores through a write-combining mapping.
#[inline]
pub fn before_doorbell() {
    compiler_fence(Ordering::SeqCst);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SFENCE is part of x86-64 and has no operands.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier; it touches no register, no flag and no memory of ours.
    unsafe {
        std::arch::asm!("dmb oshst", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// Between what a device is to find in memory, and a word in memory that the device looks at to
/// know that it is there: a packet's header, a pointer of a ring. x86-64 keeps such stores in order by
/// itself (Linux: `dma_wmb` is a barrier for the compiler there); where one of the two places is mapped
/// write-combining, [`before_doorbell`] it is.
#[inline]
pub fn before_flag() {
    compiler_fence(Ordering::SeqCst);
    #[cfg(not(target_arch = "x86_64"))]
    before_doorbell();
}

/// Between the load of the device's completion word, and the loads of its results.
#[inline]
pub fn after_flag() {
    // x86-64 keeps loads in order.
    compiler_fence(Ordering::SeqCst);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier; it touches no register, no flag and no memory of ours.
    unsafe {
        std::arch::asm!("dmb oshld", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// On return, all earlier stores have left this CPU for memory or the bus; a read-back from the device then proves
/// their arrival.
#[inline]
pub fn drain_writes() {
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: a barrier; it touches no register, no flag and no memory of ours.
        unsafe { std::arch::asm!("dsb st", options(nostack, preserves_flags)) };
    }
    // SFENCE empties the write-combining buffers; an uncached read does not overtake stores.
    #[cfg(not(target_arch = "aarch64"))]
    before_doorbell();
}

/// Writes what the CPU's cache has of a view to memory, for a device that does not look into the cache. x86-64 has no
/// such device: there it is a barrier alone.
///
/// Source: Arm ARM (DDI 0487) D7.5.9, "The data cache maintenance instruction (DC)": DC CVAC and DC CIVAC by address are
/// for programs where the system allows them, as Linux does (arch/arm64/kernel/cpufeature.c, `SCTLR_EL1_UCI`).
pub fn clean(view: &View) {
    lines(view, Lines::Clean);
}

/// The same, and the CPU's cache forgets it: what is read next comes from memory.
pub fn clean_and_invalidate(view: &View) {
    lines(view, Lines::CleanAndInvalidate);
}

/// What is done to lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    Clean,
    CleanAndInvalidate,
}

#[cfg(target_arch = "aarch64")]
fn lines(view: &View, what: Lines) {
    let control: u64;
    // SAFETY: CTR_EL0 is for programs (Linux: `SCTLR_EL1_UCT`); reading it changes nothing.
    unsafe {
        std::arch::asm!("mrs {}, ctr_el0", out(reg) control, options(nomem, nostack, preserves_flags));
    }
    // DminLine, bits 19:16: the smallest line, as a power of two of words.
    let line = 4usize << (control >> 16 & 0xf);
    let start = view.as_ptr().addr();
    let mut at = start / line * line;
    while at < start + view.len() {
        // SAFETY: a line with bytes of the view, which are mapped while it is there; what other bytes of the line hold
        // stays as it is for every reader.
        unsafe {
            match what {
                Lines::Clean => {
                    std::arch::asm!("dc cvac, {}", in(reg) at, options(nostack, preserves_flags))
                }
                Lines::CleanAndInvalidate => {
                    std::arch::asm!("dc civac, {}", in(reg) at, options(nostack, preserves_flags));
                }
            }
        }
        at += line;
    }
    // SAFETY: a barrier; it touches no register, no flag and no memory of ours.
    unsafe { std::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
}

#[cfg(not(target_arch = "aarch64"))]
fn lines(_: &View, what: Lines) {
    match what {
        Lines::Clean => before_doorbell(),
        Lines::CleanAndInvalidate => after_flag(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maintenance_changes_no_byte() {
        let view = View::alloc(4096, 64).unwrap();
        let part = view.sub(100, 1000).unwrap();
        view.fill(0, 4096, 0xa5).unwrap();
        clean(&part);
        clean_and_invalidate(&part);
        let mut found = [0; 4096];
        view.copy_to_slice(0, &mut found).unwrap();
        assert_eq!(found, [0xa5; 4096]);
    }
}
