//! What a driver may do to look at a card.

use drivers_spec::amd::discovery::{BINARY_SIGNATURE, FROM_END};
use drivers_spec::amd::mmio::nbio;
use hcq::mem::window::AccessWidth;
use twin::fires::fires;
use twin_amd::pci::card::Config;
use twin_amd::pci::chip::{CHIPS, Chip};

use crate::Rig;

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
    // Doorbells are not read, nor rung before somebody listens.
    let rig = Rig::gfx1201();
    assert!(rig.bar(2).read::<u32>(24).is_err());
    fires("AMD-PCI-REGISTER").only(&rig.broken());
    let rig = Rig::gfx1201();
    assert!(rig.bar(2).write(24, 1u64).is_err());
    fires("AMD-DOORBELL-APERTURE").only(&rig.broken());
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

#[test]
fn where_the_flush_register_is_no_other_is() {
    let rig = Rig::gfx1201();
    let remap = &nbio::BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL;
    rig.set(remap, 0x7_f000);
    rig.flush();
    rig.is_clean();
    assert!(!rig.try_set(remap, 0xde3 * 4));
    fires("AMD-HDP-REMAP").only(&rig.broken());
}

#[test]
fn what_the_host_writes_is_memory_after_a_flush() {
    let rig = Rig::set_up(&Config::of(Chip::of("gfx1100").unwrap()));
    let image = crate::image(0x4f, 0x100);
    rig.write(0x10_0000, &image);
    rig.psp_load(0x8_0000, super::FB + 0x10_0000);
    fires("HDP-NOT-FLUSHED").first(&rig.broken());
}

#[test]
fn a_card_that_has_gone_answers_with_ones() {
    let mut config = Config::of(Chip::of("gfx1100").unwrap());
    config.gone_after = Some(1);
    let rig = Rig::new(&config);
    assert_eq!(rig.bar(5).read(0xde3 * 4), Ok(24u32 << 10));
    assert_eq!(rig.bar(5).read(0xde3 * 4), Ok(u32::MAX));
    assert_eq!(rig.bar(0).read(0), Ok(u64::MAX));
    rig.bar(0).write(0, 1u32).unwrap();
    rig.is_clean();
}
