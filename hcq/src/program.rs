//! Kernels: the image that a compiler made, and the program that a device loaded.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::addr::GpuVa;

/// A compiled kernel, not yet on a device.
#[derive(Clone, Debug)]
pub struct KernelImage {
    /// What it is called in traces and errors.
    pub name: String,
    /// The instruction set it was compiled for, compared with [`crate::DeviceInfo::arch`].
    pub arch: String,
    /// The object: a relocatable ELF on the CPU and on AMD, a cubin on NVIDIA...
    pub bytes: Arc<[u8]>,
    /// The symbol to start at.
    pub entry: String,
    /// Where each argument lies.
    pub args: ArgLayout,
    /// Bytes of workgroup-local memory that a launch needs.
    pub local_bytes: u32,
}

/// Where kernel arguments lie in the argument block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgLayout {
    /// `(offset, width)` of each argument in bytes; a width is 4 or 8.
    pub fields: Vec<(u32, u8)>,
    /// Size of the block in bytes.
    pub bytes: u32,
    /// Alignment of the block in bytes, a power of two.
    pub align: u32,
}

impl ArgLayout {
    /// `count` arguments of 8 bytes each, in order.
    pub fn words(count: usize) -> Self {
        ArgLayout {
            fields: (0..count as u32).map(|i| (i * 8, 8)).collect(),
            bytes: count as u32 * 8,
            align: 8,
        }
    }
}

/// A kernel in device memory. Plain data, so that encoding a launch needs no device.
pub struct Program {
    /// What it is called in traces and errors.
    pub name: String,
    /// Address of the first instruction, or of the kernel descriptor.
    pub entry: GpuVa,
    /// Where each argument lies.
    pub args: ArgLayout,
    /// Bytes of workgroup-local memory.
    pub local_bytes: u32,
    /// Words that the vendor's encoder puts into launch packets (resource registers, descriptor
    /// fields); their meaning is private to the driver.
    pub launch_words: Box<[u32]>,
    /// Keeps the code mapped.
    pub owner: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("name", &self.name)
            .field("entry", &self.entry)
            .field("args", &self.args.fields.len())
            .finish_non_exhaustive()
    }
}
