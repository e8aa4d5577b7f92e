//! Adreno 6xx GPUs of Qualcomm.
//!
//! Work goes through a kernel driver: [`kgsl`], the vendor's, or [`msm`] of Linux, with [`syncobj`]s. It is words of the command processor
//! ([`packet`]), which write [`regs`] and start grids. Textures, images and samplers are [`descriptor`]s in memory.
//! [`chip`] says which chip has what. [`opencl`] reads kernels of the vendor's compiler.

pub mod chip;
pub mod descriptor;
pub mod kgsl;
pub mod msm;
pub mod opencl;
pub mod packet;
pub mod regs;
pub mod syncobj;
