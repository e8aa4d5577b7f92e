//! Configuration space of a card: whether it answers, whether it may reach the host, and what a reset takes of it.

use drivers_spec::pci::{Command, PCI_BASE_ADDRESS_0, PCI_COMMAND};
use hcq::mem::window::AccessWidth;
use hcq::transport::{Pci, TransportError};

/// Base address registers of a function.
const BARS: u16 = 6;

/// Lets a function answer at its windows.
///
/// # Errors
/// The transport's.
pub fn answer(pci: &dyn Pci) -> Result<(), TransportError> {
    let command = pci.config_read(PCI_COMMAND, AccessWidth::W16)?;
    let memory = u32::from(Command::MEMORY.bits());
    match command & memory {
        0 => pci.config_write(PCI_COMMAND, AccessWidth::W16, command | memory),
        _ => Ok(()),
    }
}

/// Whether a function may access memory of the host.
///
/// # Errors
/// The transport's.
pub fn master(pci: &dyn Pci, on: bool) -> Result<(), TransportError> {
    let bit = u32::from(Command::MASTER.bits());
    let command = pci.config_read(PCI_COMMAND, AccessWidth::W16)?;
    let command = if on { command | bit } else { command & !bit };
    pci.config_write(PCI_COMMAND, AccessWidth::W16, command)?;
    // So that it has arrived.
    pci.config_read(PCI_COMMAND, AccessWidth::W16)?;
    Ok(())
}

/// What a reset may take: where the windows of a function are.
pub struct SavedBars(Vec<(u16, u32)>);

impl SavedBars {
    /// As it is now.
    ///
    /// # Errors
    /// The transport's.
    pub fn of(pci: &dyn Pci) -> Result<SavedBars, TransportError> {
        let bars = (0..BARS).map(|bar| PCI_BASE_ADDRESS_0 + bar * 4);
        let all = bars.map(|at| Ok((at, pci.config_read(at, AccessWidth::W32)?)));
        all.collect::<Result<_, _>>().map(SavedBars)
    }

    /// Puts it back, and lets the function answer.
    ///
    /// # Errors
    /// The transport's.
    pub fn restore(&self, pci: &dyn Pci) -> Result<(), TransportError> {
        for &(at, value) in &self.0 {
            if pci.config_read(at, AccessWidth::W32)? != value {
                pci.config_write(at, AccessWidth::W32, value)?;
            }
        }
        answer(pci)
    }
}
