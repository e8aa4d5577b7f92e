//! Stages: launches of a kernel.

use std::sync::Arc;

/// One launch.
#[derive(Clone)]
pub struct Stage {
    /// Name for traces and errors: that of the kernel, and which part of it this is.
    pub name: String,
    /// Relocatable object code; for CPUs an ELF object that refers to nothing but, at most,
    /// `memcpy`, `memmove` and `memset`; for AMD GPUs an unlinked code object of version 5.
    pub object: Arc<[u8]>,
    /// What the object is: equal ones are equal objects.
    pub module: [u8; 32],
    /// Symbol of the entry point. On CPUs `extern "C" fn(args: *const u64, begin: u64, end: u64)`;
    /// on AMD GPUs a kernel with one argument of 8 bytes for each of `args`.
    pub entry: String,
    /// Arguments in order.
    pub args: Vec<StageArg>,
    /// Which of them are written.
    pub writes: Vec<bool>,
    /// What the stage computes, whatever the kernel is called and however many buffers it has:
    /// stages of equal content write the same bytes from the same bytes in buffers that follow each other
    /// in the order of their slots.
    pub content: [u8; 32],
    /// Groups along each dimension.
    pub grid: [u32; 3],
    /// Work-items of a group along each dimension.
    pub block: [u32; 3],
    /// Local memory per group in bytes; 0 on CPUs, where it is on the stack.
    pub local_bytes: u32,
    /// Its arithmetic operations of one run, on floats and integers other than indices.
    pub flops: f64,
    /// Bytes of the buffers and scratch blocks that it reads or writes, each element counted once.
    pub bytes: f64,
}

/// Where an argument of a stage comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StageArg {
    /// The address of buffer `slot` of the kernel.
    Param(u16),
    /// The address of scratch block `i`.
    Scratch(u16),
    /// The value of integer `slot` of the kernel.
    Var(u16),
    /// A number that stages of the same module differ in.
    Number(i64),
}
