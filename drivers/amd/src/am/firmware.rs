//! The firmware of a card: the files for its IP versions, and the start addresses of its processors.

use drivers_spec::amd::discovery as ip;
use drivers_spec::pci::{PCI_CLASS_REVISION, PCI_DEVICE_ID};
use firmware_tools::amd::Cp;
use firmware_tools::amd::boot::{Boot, Firmware};
use firmware_tools::amd::chip::{Blocks, Edition, Version};
use firmware_tools::search::Search;
use hcq::mem::window::AccessWidth;

use super::card::Card;
use super::error::Cause;

/// Where the processors of the compute engine start, in bytes of their address space; 0 for those whose start is
/// fixed, or that the chip does not load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entries {
    /// Prefetcher of graphics.
    pub pfp: u64,
    /// Micro engine of graphics.
    pub me: u64,
    /// Micro engine of compute.
    pub mec: u64,
}

/// Reads the files that a card needs.
///
/// # Errors
/// [`Cause::Files`] with the first that is not there; the transport's; [`Cause::Discovery`].
pub fn find(card: &Card, search: &Search) -> Result<Firmware, Cause> {
    let version = |hw_id: u16| -> Result<Version, Cause> {
        let version = card.discovery().first(hw_id)?.version;
        Ok([version.0, version.1, version.2])
    };
    let blocks = Blocks {
        gc: version(ip::GC)?,
        sdma: version(ip::SDMA0)?,
        psp: version(ip::MP0)?,
        smu: version(ip::MP1)?,
    };
    let pci = card.pci();
    let device = pci.config_read(PCI_DEVICE_ID, AccessWidth::W16)?;
    let revision = pci.config_read(PCI_CLASS_REVISION, AccessWidth::W8)?;
    let edition = Edition::of(device as u16, revision as u8);
    Ok(Firmware::find(&blocks, edition, search)?)
}

/// Where its processors start.
pub fn entries(boot: &Boot<'_>) -> Entries {
    let start = |cp| boot.start(cp).unwrap_or_default();
    Entries {
        pfp: start(Cp::Pfp),
        me: start(Cp::Me),
        mec: start(Cp::Mec(1)),
    }
}
