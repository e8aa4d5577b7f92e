//! Why a channel stops.

use std::fmt;

use super::bus::Fault;

/// A channel is dead: what the kernel driver is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The number that the kernel logs, see `drivers_spec::nv::status::xid_name`.
    pub xid: u32,
    /// What happened.
    pub what: String,
    /// The access, where the MMU had nothing for it.
    pub fault: Option<Fault>,
    /// What a warp did, where it was one.
    pub exception: Option<Exception>,
}

/// An exception of a warp, as the registers of its multiprocessor have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exception {
    /// What it is: `HWW_WARP_ESR_ERROR`.
    pub esr: u32,
    /// The address of the instruction.
    pub pc: u64,
    /// The address that it used, if it used one.
    pub address: u64,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Xid {}: {}", self.xid, self.what)
    }
}

/// A channel waits for a word of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Where it is.
    pub va: u64,
    /// Of 4 or 8 bytes.
    pub bytes: usize,
    /// What holds when it goes on.
    pub wants: String,
    /// What was there the last time.
    pub held: u64,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            va,
            bytes,
            wants,
            held,
        } = self;
        write!(
            f,
            "waits for {bytes} bytes at {va:#x}: {wants}, found {held:#x}"
        )
    }
}

/// Why a method is not done now.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Work that was handed on has to be done before.
    Busy,
    /// An acquire does not hold.
    Wait(Wait),
    /// The channel dies.
    Dead(Error),
}

pub(crate) type Result<T = ()> = std::result::Result<T, Stop>;

/// Numbers that the kernel logs.
///
/// Source: open-gpu-kernel-modules 580.142, src/common/sdk/nvidia/inc/nverror.h.
pub mod xid {
    /// ROBUST_CHANNEL_GR_EXCEPTION.
    pub const GR_EXCEPTION: u32 = 13;
    /// ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT.
    pub const MMU: u32 = 31;
    /// ROBUST_CHANNEL_PBDMA_ERROR.
    pub const PBDMA: u32 = 32;
    /// ROBUST_CHANNEL_CE0_ERROR; the next two follow.
    pub const COPY: u32 = 39;
    /// ROBUST_CHANNEL_RESETCHANNEL_VERIF_ERROR.
    pub const RESET: u32 = 43;
    /// ROBUST_CHANNEL_GR_CLASS_ERROR.
    pub const GR_CLASS: u32 = 69;
    /// "Context Switch Timeout Error" of NVIDIA's list of Xid errors; nverror.h has no name for it.
    pub const TIMEOUT: u32 = 109;
    /// ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS.
    pub const GONE: u32 = 79;
}
