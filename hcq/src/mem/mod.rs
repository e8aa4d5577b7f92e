//! Memory: bounded access to what devices share with us, and the allocators over its ranges.

pub mod barrier;
pub mod bump;
pub mod cache;
pub mod pages;
pub mod tlsf;
pub mod view;
pub mod window;
