//! AMD GPUs.

pub mod fw_hdr;
