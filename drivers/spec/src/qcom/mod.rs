//! Adreno 6xx GPUs of Qualcomm.
//!
//! Work goes through a kernel driver: [`kgsl`], the vendor's, or [`msm`] of Linux. It is words of the command processor
//! ([`packet`]), which write [`regs`] and start grids. Textures, images and samplers are [`descriptor`]s in memory.
//! [`chip`] says which chip has what.

pub mod chip;
pub mod descriptor;
pub mod kgsl;
pub mod msm;
pub mod packet;
pub mod regs;
