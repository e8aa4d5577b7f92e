//! Loops over lanes, compiled for what this processor has.
//!
//! The build targets the baseline of x86-64, which has neither 256 bit registers nor fused
//! multiply-add. A [`Kernel`] is compiled twice, for the baseline and for AVX2 with FMA, and the
//! better one that the processor can run is called.

#![allow(unsafe_code)]

/// A loop over lanes. `run` and all that it calls should be `inline(always)`: only what ends up
/// inside of the caller is compiled for its instruction set. `f32::mul_add` is one instruction there.
pub trait Kernel {
    /// What it returns.
    type Out;
    /// Runs it.
    fn run(self) -> Self::Out;
}

/// Runs a kernel in the best way.
#[inline(always)]
pub fn run<K: Kernel>(kernel: K) -> K::Out {
    #[cfg(target_arch = "x86_64")]
    if x86::detected() {
        // SAFETY: the processor has the features that `wide` is compiled for; this was just asked.
        return unsafe { x86::wide(kernel) };
    }
    plain(kernel)
}

/// Apart, so that the usual way stays small.
#[inline(never)]
fn plain<K: Kernel>(kernel: K) -> K::Out {
    kernel.run()
}

/// Whether multiply-add is one instruction in kernels.
pub fn has_fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    return x86::detected();
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Kernel;
    use std::sync::atomic::{AtomicU8, Ordering};

    /// 0: not asked yet, 1: no, 2: yes.
    static WIDE: AtomicU8 = AtomicU8::new(0);

    #[inline(always)]
    pub fn detected() -> bool {
        match WIDE.load(Ordering::Relaxed) {
            0 => detect(),
            known => known == 2,
        }
    }

    #[cold]
    fn detect() -> bool {
        let has = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        WIDE.store(1 + u8::from(has), Ordering::Relaxed);
        has
    }

    #[target_feature(enable = "avx2,fma")]
    pub fn wide<K: Kernel>(kernel: K) -> K::Out {
        kernel.run()
    }
}
