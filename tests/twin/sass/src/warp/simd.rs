//! Loops over lanes, compiled for what this processor has.
//!
//! The build targets the baseline of x86-64, which has neither 256 bit registers nor fused
//! multiply-add. A [`Kernel`] is compiled twice, for the baseline and for AVX2 with FMA, and the
//! better one that the processor can run is called.

#![allow(unsafe_code)]

use super::state::{Constants, State};

/// A loop over lanes. `run` and all that it calls should be `inline(always)`: only what ends up
/// inside of the caller is compiled for its instruction set. `f32::mul_add` is one instruction there.
pub(super) trait Kernel {
    type Out;
    fn run(self) -> Self::Out;
}

/// An operation on the lanes of a warp, which reads and writes registers only. As with a kernel, `run`
/// should be `inline(always)`.
pub(super) trait Lanewise {
    fn run(&self, state: &mut State, c: &Constants, active: u32);
}

struct Apply<'a, O>(&'a O, &'a mut State, &'a Constants<'a>, u32);

impl<O: Lanewise> Kernel for Apply<'_, O> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        self.0.run(self.1, self.2, self.3);
    }
}

/// Does an operation in some lanes.
#[inline(always)]
pub(super) fn apply<O: Lanewise>(op: &O, state: &mut State, c: &Constants, active: u32) {
    run(Apply(op, state, c, active));
}

/// Runs a kernel in the best way.
#[inline(always)]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Out {
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
