//! Why a block of warps could not go on.

use super::hazard::Hazard;
use super::memory::{Denied, Space};
use super::program::Refusal;

/// What a warp did that it must not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// The address is nobody's, or may not be written.
    #[error("lane {lane} {verb} {bytes} bytes at {address:#x} of {space} memory: {why}", verb = if *write { "writes" } else { "reads" })]
    Memory {
        /// The lane.
        lane: u8,
        /// The memory.
        space: Space,
        /// The address in it.
        address: u64,
        /// How much.
        bytes: usize,
        /// Whether it writes.
        write: bool,
        /// What is wrong with it.
        why: Denied,
    },
    /// Constant memory ends before.
    #[error(
        "lane {lane} reads {bytes} bytes at {address:#x} of bank {bank} of constant memory, which ends before"
    )]
    Constant {
        /// The lane.
        lane: u8,
        /// The bank.
        bank: u8,
        /// The byte.
        address: u64,
        /// How much.
        bytes: usize,
    },
    /// An instruction that is not modelled, or is none.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A rule of the control word is broken.
    #[error(transparent)]
    Hazard(#[from] Hazard),
    /// A lane left the program.
    #[error("a lane goes on at {0:#x}, where the program has no instruction")]
    Outside(u64),
    /// An instruction of the whole warp that only some lanes run.
    #[error("lanes {0:#010x} are not here, and it takes all of them")]
    Lanes(u32),
    /// Something beside the warps reads what one of them wrote.
    #[error(
        "a copy or a product beside the warps reads the byte at {0:#x} of shared memory, which a warp has written without a fence behind it (fence.proxy.async)"
    )]
    Unfenced(u64),
    /// A tensor map that is none.
    #[error("a tensor map: {0}")]
    TensorMap(&'static str),
    /// Warps of a group do not compute the same together.
    #[error(
        "another product, or none, than the first of the four warps has begun at the same place of their order"
    )]
    Warpgroup,
    /// The launch has fewer registers.
    #[error("it uses R{register}, and the launch has {count} registers for a thread")]
    Registers {
        /// The register.
        register: u8,
        /// How many there are.
        count: u16,
    },
    /// The launch has fewer barriers.
    #[error("it uses barrier {barrier}, and the launch has {count} of them")]
    Barriers {
        /// The barrier.
        barrier: u8,
        /// How many there are.
        count: u8,
    },
    /// What a barrier in shared memory does not count.
    #[error("lane {lane}, the barrier at {address:#x} of shared memory: {why}")]
    Barrier {
        /// The lane.
        lane: u8,
        /// Where it is.
        address: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// A breakpoint or a trap.
    #[error("a trap")]
    Trap,
    /// All lanes that are left wait for one another.
    #[error("no lane of the block can go on: {0}")]
    Stuck(String),
    /// More was run than was allowed.
    #[error("the block did not end within {0} instructions")]
    Limit(u64),
}

/// Where it happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {block:?}, warp {warp}, at {address:#x}: {cause}")]
pub struct Fault {
    /// The block in its grid.
    pub block: [u32; 3],
    /// The warp in its block.
    pub warp: usize,
    /// The byte of the instruction in its program.
    pub address: u64,
    /// What happened.
    pub cause: Cause,
}
