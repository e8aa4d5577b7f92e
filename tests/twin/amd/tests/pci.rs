//! A card on its bus, and the rules of looking at it.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::sync::Arc;

use drivers_spec::amd::discovery::{BINARY_SIGNATURE, FROM_END};
use drivers_spec::pci::PCI_COMMAND;
use hcq::mem::window::{AccessWidth, Window};
use hcq::transport::Pci;
use twin::fires::fires;
use twin_amd::Journal;
use twin_amd::pci::card::{Card, Config};
use twin_amd::pci::chip::{CHIPS, Chip};

struct Rig {
    pci: Arc<dyn Pci>,
    journal: Arc<Journal>,
}

impl Rig {
    fn new(config: &Config) -> Rig {
        let journal = Arc::new(Journal::new());
        let function = Card::function("0000:03:00.0", config, &journal);
        let pci: Arc<dyn Pci> = Arc::new(function);
        pci.config_write(PCI_COMMAND, AccessWidth::W16, 2).unwrap();
        Rig { pci, journal }
    }

    fn gfx1201() -> Rig {
        Rig::new(&Config::of(Chip::of("gfx1201").unwrap()))
    }

    fn bar(&self, n: u8) -> Window {
        self.pci.bar(n).unwrap()
    }

    fn broken(&self) -> Vec<&'static str> {
        let violations = self.journal.violations();
        violations.iter().map(|one| one.rule.name).collect()
    }
}

#[test]
fn every_card_says_how_much_memory_it_has_and_where_its_table_is() {
    for chip in &CHIPS {
        let rig = Rig::new(&Config::of(chip));
        assert_eq!(
            rig.pci.config_read(0, AccessWidth::W32).unwrap() >> 16,
            u32::from(chip.device)
        );
        let registers = rig.bar(5);
        let mib: u32 = registers.read(0xde3 * 4).unwrap();
        assert_eq!(u64::from(mib) << 20, chip.vram);
        let signature: u32 = rig.bar(0).read(chip.vram - FROM_END).unwrap();
        assert_eq!(signature, BINARY_SIGNATURE);
        // The same by registers.
        let at = chip.vram - FROM_END;
        registers.write(6 * 4, (at >> 31) as u32).unwrap();
        registers
            .write(0, at as u32 & 0x7fff_ffff | 1 << 31)
            .unwrap();
        assert_eq!(registers.read(4), Ok(BINARY_SIGNATURE));
        registers.write(4, 7u32).unwrap();
        assert_eq!(rig.bar(0).read(at), Ok(7u32));
        assert!(rig.broken().is_empty());
    }
}

#[test]
fn registers_are_dwords() {
    let rig = Rig::gfx1201();
    assert!(rig.bar(5).read::<u16>(0xde3 * 4).is_err());
    fires("AMD-PCI-WIDTH").only(&rig.broken());
}

#[test]
fn registers_without_a_name_are_not_touched() {
    let rig = Rig::gfx1201();
    assert!(rig.bar(5).read::<u32>(0x1b0 * 4).is_err());
    fires("AMD-PCI-REGISTER").only(&rig.broken());
    // Nor by the pair that reaches others, and not the pair by itself.
    for at in [0x1b0 * 4u32, 0x15 * 4] {
        let rig = Rig::gfx1201();
        rig.bar(5).write(0x14 * 4, at).unwrap();
        assert!(rig.bar(5).read::<u32>(0x15 * 4).is_err());
        fires("AMD-PCI-REGISTER").only(&rig.broken());
    }
    // Where nobody listens, nothing is rung.
    let rig = Rig::gfx1201();
    assert!(rig.bar(2).write(24, 1u64).is_err());
    assert!(rig.bar(2).read::<u32>(24).is_err());
    fires("AMD-PCI-REGISTER").first(&rig.broken());
}

#[test]
fn an_index_says_that_it_means_vram() {
    let rig = Rig::gfx1201();
    rig.bar(5).write(0, 0x1000u32).unwrap();
    assert!(rig.bar(5).read::<u32>(4).is_err());
    fires("AMD-PCI-MM-INDEX").only(&rig.broken());
}

#[test]
fn vram_ends_before_its_bar() {
    let chip = Chip::of("gfx1100").unwrap();
    let rig = Rig::new(&Config::of(chip));
    let memory = rig.bar(0);
    assert_eq!(memory.len(), 32 << 30);
    memory.write(chip.vram - 8, 1u64).unwrap();
    assert!(rig.broken().is_empty());
    assert!(memory.read::<u64>(chip.vram).is_err());
    fires("AMD-PCI-VRAM-END").only(&rig.broken());
}
