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
