//! Two cards without the kernel driver, with made-up firmware that their keys accept.

use std::sync::Arc;

use drivers_nv::Options;
use hcq::transport::Machine;
use hcq::{Device, Result};
use twin_nv::pci::machine::PciMachine;

#[path = "../../../../drivers/nv/tests/firmware/mod.rs"]
mod firmware;

use firmware::Firmware;

/// A machine with such cards, and their firmware.
pub struct Cards {
    pub machine: Arc<PciMachine>,
    firmware: Firmware,
}

impl Cards {
    /// Cards of a chip.
    pub fn new(chip: &str) -> Cards {
        let firmware = Firmware::made();
        let config = || firmware.config(chip);
        Cards {
            machine: PciMachine::of(&[config(), config()]).unwrap(),
            firmware,
        }
    }

    /// Opens one.
    pub fn open(&self, index: u32, options: Options) -> Result<Arc<dyn Device>> {
        let machine: Arc<dyn Machine> = self.machine.clone();
        let address = format!("0000:{:02x}:00.0", 1 + index);
        let options = Options {
            firmware: vec![self.firmware.folder.clone()],
            ..options
        };
        Ok(drivers_nv::open_pci(&machine, &address, index, &options)?)
    }
}
