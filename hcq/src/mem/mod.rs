//! Memory: bounded access to what devices share with us, and the allocators over its ranges.

pub mod view;
pub mod window;
