//! The VBIOS, as BAR0 shows it, and FWSEC in it.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/gsp/arch/turing/kernel_gsp_vbios_tu102.c.

use drivers_spec::nv::mmio::{NV_PROM_BYTES, NV_PROM_DATA};
use firmware_tools::nv::vbios::Vbios;

use super::card::Card;
use super::error::Cause;

/// What messages call it.
const NAME: &str = "VBIOS";
/// How much is read at first: most end there. A dword takes a microsecond.
const FIRST: u64 = 0x4_0000;

/// Reads the ROM, as far as FWSEC goes.
///
/// # Errors
/// The registers'; [`Cause::Files`]: it has no FWSEC.
pub(super) fn read(card: &Card, debug: bool) -> Result<Vec<u8>, Cause> {
    let mut bytes = Vec::new();
    let mut until = FIRST;
    loop {
        for at in (bytes.len() as u64..until).step_by(4) {
            bytes.extend(card.bus().read(NV_PROM_DATA + at)?.to_le_bytes());
        }
        let found = Vbios::parse(NAME, &bytes).and_then(|vbios| vbios.fwsec(debug).map(|_| ()));
        match found {
            Ok(()) => return Ok(bytes),
            Err(error) if until >= NV_PROM_BYTES => return Err(error.into()),
            Err(_) => until = (until * 2).min(NV_PROM_BYTES),
        }
    }
}

/// The ROM's contents.
///
/// # Errors
/// [`Cause::Files`].
pub(super) fn parse(bytes: &[u8]) -> Result<Vbios<'_>, Cause> {
    Ok(Vbios::parse(NAME, bytes)?)
}
