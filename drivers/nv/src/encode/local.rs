//! Local memory: per-thread memory besides registers, for all threads that a GPU can run at once.

use hcq::GpuVa;

use crate::chip::Units;

/// Local memory of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LocalMemory {
    /// Where it is.
    pub base: GpuVa,
    /// Bytes of it.
    pub bytes: u64,
    /// Bytes of a TPC.
    pub tpc_bytes: u64,
    /// Bytes of a thread.
    pub thread_bytes: u32,
}

/// Threads of a warp.
const THREADS: u64 = 32;
/// Bytes of a thread at most.
///
/// Source: NVIDIA, CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
pub const LOCAL_MAX: u32 = 512 << 10;

impl LocalMemory {
    /// The memory for `thread_bytes` per thread; its address is set later
    /// ([`LocalMemory::at`]). `None` if a thread cannot have that much.
    ///
    /// Source: tinygrad, ops_nv.py, _ensure_has_local_memory; Mesa, nvk_queue.c, nvk_slm_area_ensure.
    pub fn plan(units: &Units, thread_bytes: u32) -> Option<LocalMemory> {
        if thread_bytes > LOCAL_MAX {
            return None;
        }
        let thread_bytes = thread_bytes.next_multiple_of(32);
        let warp = (u64::from(thread_bytes) * THREADS).next_multiple_of(0x200);
        let warps = u64::from(units.warps_per_sm) * u64::from(units.sms_per_tpc);
        let tpc_bytes = warp.checked_mul(warps)?.checked_next_multiple_of(0x8000)?;
        let tpcs = u64::from(units.tpcs_per_gpc) * u64::from(units.gpcs);
        let bytes = tpc_bytes.checked_mul(tpcs)?;
        (tpc_bytes >> 40 == 0).then_some(LocalMemory {
            base: GpuVa(0),
            bytes: bytes.checked_next_multiple_of(0x2_0000)?,
            tpc_bytes,
            thread_bytes,
        })
    }

    /// The same at an address, a multiple of [`LocalMemory::ALIGN`].
    pub fn at(self, base: GpuVa) -> LocalMemory {
        LocalMemory { base, ..self }
    }

    /// The alignment of its address.
    pub const ALIGN: u64 = 0x2_0000;
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: Units = Units {
        sms: 82,
        gpcs: 7,
        tpcs_per_gpc: 6,
        sms_per_tpc: 2,
        warps_per_sm: 48,
    };

    /// As another driver, which has run on such cards, computes them.
    #[test]
    fn sizes_are_the_known_ones() {
        let plan = |bytes| {
            let local = LocalMemory::plan(&ADA, bytes).unwrap();
            (local.tpc_bytes, local.bytes, local.thread_bytes)
        };
        assert_eq!(plan(0x60), (0x48000, 0xbe_0000, 0x60));
        assert_eq!(
            plan(1),
            (0x18000, 0x3f_0000_u64.next_multiple_of(0x2_0000), 32)
        );
        assert_eq!(plan(0), (0, 0, 0));
    }

    #[test]
    fn a_thread_has_a_limit() {
        assert_eq!(LocalMemory::plan(&ADA, LOCAL_MAX + 1), None);
        let most = LocalMemory::plan(&ADA, LOCAL_MAX).unwrap();
        assert_eq!(most.thread_bytes, LOCAL_MAX);
        let huge = Units {
            sms_per_tpc: u32::MAX,
            ..ADA
        };
        assert_eq!(LocalMemory::plan(&huge, LOCAL_MAX), None);
    }
}
