//! Checks of addresses and ranges.

use drivers_gpu::span;
use drivers_spec::nv::copy;
use hcq::{GpuVa, Result, Val, Width};

use super::Setup;

/// Maximum number of transfers of one command. More indicates a wrong size.
const MOST: u64 = 1 << 16;

impl Setup {
    /// Checks that an address is a multiple of `align`.
    #[inline]
    pub(super) fn reach(&self, command: &str, at: GpuVa, align: u64) -> Result<Val> {
        if at.0.is_multiple_of(align) && at.0 >> self.arch.facts().va_bits == 0 {
            return Ok(Val::Const(at.0));
        }
        Err(self.unreachable(command, at.0, align))
    }

    #[cold]
    fn unreachable(&self, command: &str, at: u64, align: u64) -> hcq::Error {
        let bits = self.arch.facts().va_bits;
        let why = format!("address {at:#x}: expected a multiple of {align} of at most {bits} bits");
        self.refused(command, why)
    }
}

/// Refuses a known address of a word that channels cannot take. One that is given later is the caller's.
pub(crate) fn check_word(setup: &Setup, command: &str, at: Val, width: Width) -> Result<()> {
    match at {
        Val::Const(at) => setup
            .reach(command, GpuVa(at), span::bytes(width))
            .map(drop),
        Val::Slot(..) => span::aligned(at, width).map_err(|why| setup.refused(command, why)),
    }
}

/// Refuses a range that engines cannot reach, or that takes too many transfers of `each` bytes.
pub(crate) fn check_range(setup: &Setup, at: Val, bytes: u64, each: u64) -> Result<(), String> {
    // Engines reach further than the host's own semaphores.
    let bits = 32 + copy::OFFSET_OUT_UPPER.mask(setup.arch).count_ones();
    span::transfers(bytes, each, MOST).and_then(|()| span::reached(at, bytes, bits))
}
