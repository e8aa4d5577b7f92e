//! The description of a machine for the optimiser, renderers and compilers. It is plain data and needs no open
//! device.

pub(crate) mod amd;
mod cl;
mod cpu;
#[cfg(test)]
mod fragments;
pub(crate) mod nv;
pub(crate) mod qcom;

use crate::dtype::DType;
use crate::ir::ReduceOp;
pub use crate::ir::mma::{Fragments, MmaDesc};

/// How work is distributed on a target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TargetKind {
    /// Few cores with vectors and caches; groups are chunks of a loop.
    Cpu,
    /// Many work-items in groups that share local memory.
    Gpu,
}

/// Limits of the number of concurrent waves on a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegisterFile {
    /// Vector registers of a SIMD, per lane.
    pub per_simd: u32,
    /// They are handed out in blocks of this size.
    pub granule: u32,
    /// Waves of a SIMD at most.
    pub waves: u32,
    /// SIMDs of a compute unit.
    pub simds: u32,
    /// Local memory of a compute unit, bytes.
    pub local_bytes: u32,
    /// Registers of a work-item that every instruction can name; what it has beyond them are accumulators of
    /// matrix instructions, half of all.
    pub general: usize,
}

/// Cost model of a launch on a GPU, in cycles, and limits of the code of a work-item. It guides the choice of
/// blocks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GroupCosts {
    /// Registers for addresses and everything else.
    pub other_registers: i64,
    /// Registers of the sums of a work-item at most. Larger tiles read less from local memory, which is
    /// not what they wait for, and leave room for two waves only.
    pub max_sums: i64,
    /// Loads of a work-item in a step at most: each of them is text with an address of its own, twice.
    pub max_loads: i64,
    /// Those that are not part of a vector, whose address is that of a window, or a gather: without
    /// matrix instructions, and with them, where sixteen are what the smallest block takes.
    pub max_single_loads: [i64; 2],
    /// Products that a work-item does in a step at most: with more of them the slabs grow, and too few
    /// groups fit a compute unit to hide the latency of memory.
    pub max_products: i64,
    /// Work-items of a group at most.
    pub max_items: i64,
    /// Cycles in which a wave issues the address of a single load.
    pub address: f64,
    /// Products of numbers per cycle of a compute unit.
    pub products: f64,
    /// The same by matrix instructions on operands of 1, 2, 4 and 8 bytes.
    pub matrix_products: [f64; 4],
    /// Bytes per cycle of a compute unit from local memory.
    pub local_bytes: f64,
    /// Bytes per cycle of a compute unit from the second level.
    pub memory_bytes: f64,
    /// Cycles from a load to the barrier behind which its value can be read.
    pub step_latency: f64,
    /// Cycles in which a wave issues addresses, stores and the barrier of a step.
    pub step_issue: f64,
    /// Cycles from the end of a launch to that of a short one after it.
    pub launch: f64,
}

/// Limits and costs of reading buffers as images: on GPUs that load those through a cache of its own, with more bytes
/// per cycle than plain loads have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ImageCosts {
    /// Bytes per cycle of a compute unit from the cache of images.
    pub bytes: f64,
    /// The same of plain loads.
    pub plain_bytes: f64,
    /// Cycles in which a wave computes the coordinates of a load.
    pub coordinates: f64,
    /// More of them where an image has several rows.
    pub row_coordinates: f64,
    /// Cycles that a launch with images takes longer.
    pub launch: f64,
    /// Pixels along a side at most, a power of two.
    pub side: u32,
    /// What bytes of a row are a multiple of.
    pub row_bytes: u32,
    /// What pixels of a row are a multiple of, where an image has several.
    pub row_pixels: u32,
    /// Images of a kernel at most.
    pub most: usize,
}

impl RegisterFile {
    /// Waves that fit a SIMD at the same time, for a kernel with these registers per work-item,
    /// and this local memory and these waves per group. 0 if not even one group fits.
    pub fn occupancy(&self, registers: u32, local_bytes: u32, waves_of_group: u32) -> u32 {
        let waves_of_group = waves_of_group.max(1);
        let registers = registers.max(1).next_multiple_of(self.granule);
        let by_registers = (self.per_simd / registers).min(self.waves);
        // Whole groups fit a compute unit, whose SIMDs share their waves.
        let by_local = self
            .local_bytes
            .checked_div(local_bytes)
            .unwrap_or(u32::MAX);
        let groups = (by_registers * self.simds / waves_of_group).min(by_local);
        (groups * waves_of_group)
            .div_ceil(self.simds)
            .min(by_registers)
    }
}

/// Which combinations with an element of memory are one indivisible instruction on a GPU; others
/// are a loop that compares and swaps. On CPUs no two threads ever combine into one element.
///
/// All this is for memory of the device itself: what reaches system memory over PCIe is nothing but
/// integer sums and exchanges ("PCI Express Base", 6.15: FetchAdd, Swap, CAS), and a GPU drops the
/// rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Atomics {
    /// Floats that are added in one step. The sum rounds to nearest and keeps subnormal numbers, but for those of
    /// `F32` on NVIDIA's GPUs, which are zeros to it ("PTX ISA", `red`).
    pub sums: &'static [DType],
    /// Bytes of the widest element that is compared and swapped. Beyond it there are integer sums and bitwise
    /// operations, which are made of narrower ones.
    pub swaps: usize,
}

impl Atomics {
    /// Sums and extrema of 32 and 64 bits are instructions everywhere. Extrema of floats are those
    /// of their bits as integers, which are in the same order (`global_atomic_fmin` and the like
    /// drop a NaN, and zeros of both signs are equal to them). Bitwise operations leave the
    /// neighbours in a dword of a narrower type alone; of booleans one decides, which is stored.
    pub fn one_step(self, op: ReduceOp, dtype: DType) -> bool {
        match op {
            _ if dtype == DType::Bool => true,
            ReduceOp::Mul => false,
            ReduceOp::Max | ReduceOp::Min if dtype.size() > self.swaps => false,
            ReduceOp::And | ReduceOp::Or => true,
            ReduceOp::Max | ReduceOp::Min => dtype.size() >= 4,
            ReduceOp::Add if dtype.is_float() => self.sums.contains(&dtype),
            ReduceOp::Add => dtype.size() >= 4,
        }
    }

    /// Whether elements can be combined at all.
    pub fn has(self, op: ReduceOp, dtype: DType) -> bool {
        dtype.size() <= self.swaps || self.one_step(op, dtype)
    }
}

/// A machine to generate code for.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// Architecture as in an LLVM triple: `x86_64`, `aarch64`, ...
    pub arch: String,
    /// LLVM target triple.
    pub triple: String,
    /// How work is distributed.
    pub kind: TargetKind,
    /// CPU name for LLVM (`-mcpu`).
    pub cpu: String,
    /// Feature string for LLVM, `+a,+b`.
    pub features: String,
    /// Width of a vector register in bytes; of the widest access of one work-item on GPUs.
    pub vector_bytes: usize,
    /// Number of vector registers; of registers of 32 bits that a work-item can have on GPUs.
    pub vector_regs: usize,
    /// Cores (compute units) that run groups at the same time.
    pub cores: usize,
    /// Level-1 data cache per core, bytes.
    pub l1_bytes: usize,
    /// Level-2 cache per core, bytes.
    pub l2_bytes: usize,
    /// Local memory per group, bytes; 0 on CPUs, whose groups have one work-item.
    pub max_local_bytes: usize,
    /// Work-items of a wave, which run in step; 1 on CPUs.
    pub wave: usize,
    /// Work-items of a group at most.
    pub max_items: usize,
    /// Groups along each dimension of a launch at most.
    pub max_groups: [u32; 3],
    /// How far the constant part of an address in global memory reaches, bytes either way; 0 on
    /// CPUs, where it does not matter.
    pub offset_bytes: i64,
    /// Register file of a SIMD of a GPU; `None` on CPUs.
    pub registers: Option<RegisterFile>,
    /// Cost model of groups on a GPU; `None` on CPUs.
    pub groups: Option<GroupCosts>,
    /// Reading buffers as images; `None` where that is not there, or gains nothing.
    pub images: Option<ImageCosts>,
    /// Types with native arithmetic; others are computed through f32.
    pub native: Vec<DType>,
    /// The half-precision conversions to and from f32 are instructions.
    pub f16_convert: bool,
    /// The conversions of 8-bit floats (OCP) to and from f32 are instructions.
    pub f8_convert: bool,
    /// Atomic operations of a GPU.
    pub atomics: Atomics,
    /// Sums and products of floats may be spread so that their order, and with it their last bits,
    /// differs from run to run.
    pub any_order: bool,
    /// Matrix building blocks, best first.
    pub mma: Vec<MmaDesc>,
}

impl Target {
    /// Lanes of a full vector of a type.
    pub fn lanes(&self, dtype: DType) -> usize {
        (self.vector_bytes / dtype.size()).max(1)
    }

    /// Whether it is an AMD GPU.
    pub fn is_amd(&self) -> bool {
        self.arch == amd::ARCH
    }

    /// Whether it is an NVIDIA GPU.
    pub fn is_nv(&self) -> bool {
        self.arch == nv::ARCH
    }

    /// The same without reading buffers as images, to see what that gains.
    #[must_use]
    pub fn without_images(mut self) -> Target {
        self.images = None;
        self
    }

    /// Everything that changes the generated code, as text; part of the key of the compile cache.
    pub fn fingerprint(&self) -> String {
        format!("{self:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_tells_targets_apart() {
        let a = Target::host(1);
        let b = Target {
            vector_bytes: a.vector_bytes * 2,
            ..a.clone()
        };
        assert_eq!(a.fingerprint(), Target::host(1).fingerprint());
        assert_ne!(a.fingerprint(), b.fingerprint());
    }
}
