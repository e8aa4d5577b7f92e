//! Checks of addresses and ranges.

use drivers_spec::nv::copy;
use hcq::{GpuVa, Result, Val, Width};

use super::Setup;

/// Transfers of one command at most. What is more comes from a wrong size.
const MOST: u64 = 1 << 16;

impl Setup {
    /// The address of something of `align` bytes, which lies at a multiple of them.
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
        let why = format!(
            "address {at:#x}: this GPU takes multiples of {align} of at most {bits} bits here"
        );
        self.refused(command, why)
    }
}

/// Refuses a known address of a word that channels cannot take. One that is given later is the caller's.
pub(crate) fn check_word(setup: &Setup, command: &str, at: Val, width: Width) -> Result<()> {
    let align = match width {
        Width::W32 => 4,
        Width::W64 => 8,
    };
    match at {
        Val::Const(at) => setup.reach(command, GpuVa(at), align).map(drop),
        Val::Slot(_, add) if add.is_multiple_of(align) => Ok(()),
        Val::Slot(slot, add) => {
            let slot = slot.0;
            let why =
                format!("slot {slot} + {add:#x} is no multiple of the {align} bytes of the word");
            Err(setup.refused(command, why))
        }
    }
}

/// Refuses a range that engines cannot reach, or that takes too many transfers of `most` bytes.
pub(crate) fn check_range(
    setup: &Setup,
    command: &str,
    at: Val,
    bytes: u64,
    most: u64,
) -> Result<()> {
    if bytes.div_ceil(most) > MOST {
        let most = most * MOST;
        let why = format!("{bytes} bytes, at most {most} fit a command: split it");
        return Err(setup.refused(command, why));
    }
    let Val::Const(at) = at else {
        return Ok(());
    };
    // Engines reach further than the host's own semaphores.
    let bits = 32 + copy::OFFSET_OUT_UPPER.mask(setup.arch).count_ones();
    if at.checked_add(bytes).is_none_or(|end| end > 1 << bits) {
        let why = format!("{bytes} bytes at {at:#x} run past the last address of {bits} bits");
        return Err(setup.refused(command, why));
    }
    Ok(())
}

/// Refuses a copy to itself.
pub(crate) fn check_apart(setup: &Setup, dst: Val, src: Val, bytes: u64) -> Result<()> {
    let (Val::Const(dst), Val::Const(src)) = (dst, src) else {
        return Ok(());
    };
    if bytes == 0 || dst >= src + bytes || src >= dst + bytes {
        return Ok(());
    }
    let why = format!(
        "{bytes} bytes from {src:#x} to {dst:#x} overlap, which engines do not copy in order: go through \
         another buffer"
    );
    Err(setup.refused("copy", why))
}
