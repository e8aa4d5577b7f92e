//! The page of host memory that a card reads to flush what it has written there. A falcon needs it for its reset, and the
//! page must be there for as long as the card may flush.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/mem_sys: kern_mem_sys.c
//! (`kmemsysConstructEngine_IMPL`: early, before falcons are reset), arch/ampere/kern_mem_sys_ga100.c,
//! arch/hopper/kern_mem_sys_gh100.c, arch/blackwell/kern_mem_sys_{gb100,gb10b}.c (`kmemsysProgramSysmemFlushBuffer`);
//! generated/g_kern_mem_sys_nvoc.c (which chip has which); Linux, drivers/gpu/nova-core/fb.rs: it is taken away in the end,
//! if it is still the same.

use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::mmio;
use hcq::addr::BusAddr;

use super::card::Card;
use super::error::Cause;

/// How far the registers of a generation are behind those of Hopper, in bytes.
fn places(arch: Arch) -> &'static [u32] {
    match arch {
        Arch::Gb10x => &mmio::FLUSH_GB10X,
        Arch::Gb20x => &[mmio::FLUSH_GB20X],
        _ => &[0],
    }
}

/// Whether a generation has the registers of Ampere.
fn is_niso(arch: Arch) -> bool {
    arch < Arch::Gh100
}

/// Tells a card where its page is.
///
/// # Errors
/// [`Cause::Wide`]; the registers'.
pub(super) fn set(card: &Card, page: BusAddr) -> Result<(), Cause> {
    let bits = match is_niso(card.arch()) {
        true => mmio::NISO_FLUSH_BITS,
        false => mmio::FBHUB_FLUSH_BITS,
    };
    within("the sysmem flush page", page, bits)?;
    write(card, page.0)
}

/// Takes the page away, if it is still the card's.
///
/// # Errors
/// The registers'.
pub(super) fn clear(card: &Card, page: BusAddr) -> Result<(), Cause> {
    match read(card)? == page.0 {
        true => write(card, 0),
        false => Ok(()),
    }
}

/// Whether an address has at most so many bits, all that a register has room for; `what` is there.
///
/// # Errors
/// [`Cause::Wide`].
pub(super) fn within(what: &'static str, at: BusAddr, bits: u32) -> Result<(), Cause> {
    match at.0 >> bits {
        0 => Ok(()),
        _ => Err(Cause::Wide {
            what,
            at: at.0,
            bits,
        }),
    }
}

fn write(card: &Card, at: u64) -> Result<(), Cause> {
    if is_niso(card.arch()) {
        let io = card.io();
        let high = mmio::niso_flush_hi::ADR_63_40.put((at >> 40) as u32);
        io.write(&mmio::NV_PFB_NISO_FLUSH_SYSMEM_ADDR_HI, high)?;
        return Ok(io.write(&mmio::NV_PFB_NISO_FLUSH_SYSMEM_ADDR, (at >> 8) as u32)?);
    }
    for place in places(card.arch()) {
        let io = card.io().step(place / 4);
        let high = (at >> 32) as u32;
        io.write(&mmio::NV_PFB_FBHUB_PCIE_FLUSH_SYSMEM_ADDR_HI, high)?;
        io.write(&mmio::NV_PFB_FBHUB_PCIE_FLUSH_SYSMEM_ADDR_LO, at as u32)?;
    }
    Ok(())
}

fn read(card: &Card) -> Result<u64, Cause> {
    if is_niso(card.arch()) {
        let io = card.io();
        let high = io.read(&mmio::NV_PFB_NISO_FLUSH_SYSMEM_ADDR_HI)?;
        let low = io.read(&mmio::NV_PFB_NISO_FLUSH_SYSMEM_ADDR)?;
        let high = high.get(mmio::niso_flush_hi::ADR_63_40);
        return Ok(u64::from(high) << 40 | u64::from(low.bits()) << 8);
    }
    let place = places(card.arch()).first().copied().unwrap_or_default();
    let io = card.io().step(place / 4);
    let high = io.read(&mmio::NV_PFB_FBHUB_PCIE_FLUSH_SYSMEM_ADDR_HI)?;
    let low = io.read(&mmio::NV_PFB_FBHUB_PCIE_FLUSH_SYSMEM_ADDR_LO)?;
    Ok(u64::from(high.bits()) << 32 | u64::from(low.bits()))
}
