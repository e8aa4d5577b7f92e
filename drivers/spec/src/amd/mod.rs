//! AMD GPUs.

pub mod aql;
pub mod discovery;
pub mod drm;
pub mod fw_hdr;
pub mod fw_type;
pub mod kd;
pub mod kfd;
pub mod mmio;
pub mod packet;
pub mod pm4;
pub mod pte;
pub mod regs;
pub mod sdma;
pub mod uapi;
