//! NVIDIA GPUs: our own push buffers and QMDs.
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`encode`] | commands to methods and QMDs: pure |
#![forbid(unsafe_code)]

pub mod encode;
