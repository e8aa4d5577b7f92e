//! What a streaming multiprocessor has room for.
//!
//! Source: NVIDIA, CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; Mesa,
//! src/nouveau/compiler/nak/qmd.rs, for how a QMD says how much is shared memory.

use drivers_spec::nv::chip::Arch;

/// Threads of a block.
pub(super) const THREADS: u64 = 1024;
/// Of which in z.
pub(super) const DEPTH: u64 = 64;
/// Blocks of a grid in x; 16 bits in y and z.
pub(super) const GRID: u64 = (1 << 31) - 1;
/// Registers of a thread.
pub(super) const REGISTERS: u64 = 255;
/// Registers of a multiprocessor.
const FILE: u64 = 64 << 10;
/// Barriers of a block.
pub(super) const BARRIERS: u64 = 16;
/// Bytes of a constant bank.
pub(super) const BANK: u64 = 64 << 10;
/// Bytes of shared memory are a multiple of this.
pub(super) const SHARED_UNIT: u64 = 128;

/// KiB that can be set aside for shared memory.
pub(super) fn carve_outs(arch: Arch) -> &'static [u64] {
    const ALL: &[u64] = &[0, 8, 16, 32, 64, 100, 132, 164, 196, 228];
    let count = match arch {
        Arch::Ga100 => 8,
        Arch::Ga10x | Arch::Ad10x | Arch::Gb20x => 6,
        Arch::Gh100 | Arch::Gb10x => 10,
    };
    &ALL[..count]
}

/// How a QMD names a carve-out.
pub(super) fn code(kib: u64) -> u64 {
    kib / 4 + 1
}

/// Whether a block's registers fit: they are given in units of 256 to a warp, to four warps at a time.
pub(super) fn registers_fit(threads: u64, registers: u64) -> bool {
    let warp = (registers * 32).next_multiple_of(256);
    threads.div_ceil(32).next_multiple_of(4) * warp <= FILE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_guide() {
        assert_eq!(carve_outs(Arch::Gh100).last().copied().map(code), Some(58));
        assert_eq!(carve_outs(Arch::Ad10x).last().copied().map(code), Some(26));
        assert!(registers_fit(1024, 64) && !registers_fit(1024, 65));
        assert!(registers_fit(256, 255) && !registers_fit(288, 255));
    }
}
