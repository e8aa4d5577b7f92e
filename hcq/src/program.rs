//! Kernels: the image that a compiler made, and the program that a device loaded.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::addr::GpuVa;
use crate::width::Width;

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

/// What an argument is. Interfaces that bind buffers, and those that pass numbers in another way, have to
/// know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgKind {
    /// The address of a buffer, 8 bytes.
    Buffer,
    /// A number.
    Value(Width),
}

impl ArgKind {
    /// Its bytes in the argument block.
    #[inline]
    pub const fn bytes(self) -> u32 {
        match self {
            ArgKind::Value(Width::W32) => 4,
            ArgKind::Buffer | ArgKind::Value(Width::W64) => 8,
        }
    }
}

/// An argument in the argument block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArgField {
    /// Where it lies, in bytes.
    pub offset: u32,
    /// What it is.
    pub kind: ArgKind,
}

impl ArgField {
    /// Where it ends; none beyond 32 bits.
    #[inline]
    pub const fn end(&self) -> Option<u32> {
        self.offset.checked_add(self.kind.bytes())
    }
}

/// Where kernel arguments lie in the argument block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgLayout {
    /// The arguments, in order.
    pub fields: Vec<ArgField>,
    /// Size of the block in bytes.
    pub bytes: u32,
    /// Alignment of the block in bytes, a power of two.
    pub align: u32,
}

impl ArgLayout {
    /// Arguments one behind the other, each at a multiple of its size.
    pub fn new(kinds: impl IntoIterator<Item = ArgKind>) -> Self {
        let mut bytes = 0u32;
        let field = |kind: ArgKind| {
            let offset = bytes.next_multiple_of(kind.bytes());
            bytes = offset + kind.bytes();
            ArgField { offset, kind }
        };
        ArgLayout {
            fields: kinds.into_iter().map(field).collect(),
            bytes,
            align: 8,
        }
    }

    /// A layout of `count` buffers.
    pub fn buffers(count: usize) -> Self {
        ArgLayout::new(std::iter::repeat_n(ArgKind::Buffer, count))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_lie_at_multiples_of_their_size() {
        let (half, whole) = (ArgKind::Value(Width::W32), ArgKind::Value(Width::W64));
        let layout = ArgLayout::new([ArgKind::Buffer, half, whole, half, half]);
        let offsets: Vec<u32> = layout.fields.iter().map(|f| f.offset).collect();
        assert_eq!((offsets, layout.bytes), (vec![0, 8, 16, 24, 28], 32));
        assert_eq!(ArgLayout::buffers(3).fields[2].end(), Some(24));
        assert_eq!(ArgLayout::new([]).bytes, 0);
        let far = ArgField {
            offset: u32::MAX - 3,
            kind: half,
        };
        assert_eq!(far.end(), None);
    }
}
