//! The card's MMU: page tables as a driver writes them, what is remembered of them, and the ways through them.
//!
//! - [`table`]: entries, and the walk through them; [`tlb`]: what is remembered until it is invalidated;
//! - [`invalidate`]: the registers for that; [`bus`]: what the engines of a channel see; [`window`]: BAR 1 and BAR 2.
//!
//! Source: OGKM, kernel-open/nvidia-uvm/hwref/pascal/gp100/dev_mmu.h, NV_MMU_VER2_*; hopper/gh100/dev_mmu.h, NV_MMU_VER3_*;
//! src/common/inc/swref/published/turing/tu102/{dev_mmu,dev_vm}.h; src/nvidia/src/kernel/gpu/mmu/arch/{pascal/
//! kern_gmmu_fmt_gp10x,ampere/kern_gmmu_fmt_ga10x}.c; Linux, drivers/gpu/drm/nouveau/nvkm/subdev/mmu/{vmmgp100,vmmtu102}.c.

pub(super) mod bus;
pub(super) mod invalidate;
pub(super) mod table;
pub(super) mod tlb;
pub(super) mod window;
