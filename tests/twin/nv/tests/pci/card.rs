//! Windows and registers, and the mistakes that can be made with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use drivers_spec::pci::PCI_COMMAND;
use hcq::mem::window::AccessWidth;
use hcq::transport::Pci;
use twin::fires::fires;
use twin_nv::pci::card::Config;
use twin_nv::pci::chip::{CHIPS, Chip};

use super::boot::{Boot, words};
use super::client::{Client, SUBDEVICE};
use super::rig::{GSP, Rig};

#[test]
fn a_card_says_what_it_is() {
    for chip in &CHIPS {
        let Some(rom) = &chip.rom else { continue };
        let rig = Rig::new(&Config::of(chip));
        assert_eq!(rig.get(0) >> 20 & 0x1ff, chip.boot_42 >> 20);
        assert_eq!(rig.get(0xa00) >> 24, chip.twin.id.0 >> 4);
        assert_eq!(rig.get(4), 0);
        let class = rig.pci.config_read(8, AccessWidth::W32).unwrap();
        assert_eq!(class, 0x0300_00a1);
        // Registers show configuration space, as it is now.
        for at in [0, 4, 8, 0x10, 0x14, 0x18] {
            let there = rig.pci.config_read(at, AccessWidth::W32).unwrap();
            assert_eq!(rig.get(0x8_8000 + u64::from(at)), there, "{at:#x}");
        }
        rig.master(false);
        assert_eq!(rig.get(0x8_8004) & 6, 2);
        let time = |rig: &Rig| u64::from(rig.get(0x9400)) | u64::from(rig.get(0x9410)) << 32;
        let before = time(&rig);
        assert!(time(&rig) > before);
        rig.wait_gfw();
        assert_eq!(u64::from(rig.get(0x11_83a4)) << 20, chip.vram());
        // The ROM, by dwords and by bytes: from its first image on, or all of it.
        let made = rom.rom();
        let mut config = Config::of(chip);
        for (shown, start) in [(false, made.start), (true, 0)] {
            config.ifr_shown = shown;
            let (rig, rom) = (Rig::new(&config), &made.bytes[start..]);
            let mut read = vec![0; rom.len()];
            rig.registers.read_bytes(0x30_0000, &mut read).unwrap();
            assert!(read == rom);
            assert_eq!(rig.registers.read::<u8>(0x30_0001).unwrap(), rom[1]);
            rig.is_clean();
        }
        // A fuse is blown up to a version; what it stands for is the highest bit.
        assert_eq!(rig.get(0x82_41e0), 0b11);
        assert_eq!(rig.get(0x82_4148), 0b1);
        rig.is_clean();
    }
}

#[test]
fn memory_is_seen_through_two_windows() {
    let rig = Rig::started("ga102");
    let window = rig.pci.bar(1).unwrap();
    window.write(0x12_3450, 0x1234_5678_u32).unwrap();
    rig.set(0x1700, 0x12);
    assert_eq!(rig.get(0x70_3450), 0x1234_5678);
    rig.set(0x70_3454, 7);
    assert_eq!(window.read::<u32>(0x12_3454).unwrap(), 7);
    rig.is_clean();
    // The last of it, and what lies behind.
    rig.set(0x1700, ((rig.chip.vram() - 0x10_0000) >> 16) as u32);
    rig.set(0x7f_fffc, 1);
    rig.is_clean();
    rig.set(0x1700, (rig.chip.vram() >> 16) as u32);
    assert!(rig.try_set(0x70_0000, 1).is_err());
    fires("NV-PCI-VRAM-END").only(&rig.broken());
}

#[test]
fn what_is_protected_is_not_touched() {
    let boot = Boot::new("ad102", "570.144");
    boot.frts();
    let place = boot.frts_place();
    boot.rig.set(0x1700, (place >> 16) as u32);
    assert!(boot.rig.registers.read::<u32>(0x70_0000).is_err());
    fires("NV-PCI-WPR2").only(&boot.rig.broken());
}

#[test]
fn registers_have_a_width_and_a_name() {
    let rig = Rig::started("ga102");
    assert!(rig.registers.read::<u16>(0x9400).is_err());
    fires("NV-PCI-WIDTH").only(&rig.broken());
    for at in [0x10_0000, GSP + 0x5c, 0x1710, 0x8_8718] {
        let rig = Rig::started("ga102");
        assert!(rig.registers.read::<u32>(at).is_err());
        fires("NV-PCI-REGISTER").only(&rig.broken());
        let rig = Rig::started("ga102");
        assert!(rig.try_set(at, 1).is_err());
        fires("NV-PCI-REGISTER").only(&rig.broken());
    }
}

#[test]
fn windows_without_tables_behind_them() {
    // BAR 2 shows memory by its address, too, until it has an instance block.
    let rig = Rig::started("ga102");
    let instances = rig.pci.bar(3).unwrap();
    instances.write(0x40, 5_u32).unwrap();
    assert_eq!(rig.window(1).read::<u32>(0x40).unwrap(), 5);
    rig.is_clean();
    for (register, bar) in [(0xb8_0f40, 1), (0xb8_0f48, 3)] {
        let rig = Rig::started("ga102");
        rig.set(register, 1 << 31);
        assert!(rig.window(bar).write(0, 1_u32).is_err());
        fires("NV-PCI-BAR-FAULT").only(&rig.broken());
    }
    // The window of registers shows memory of the host, where there is some.
    let rig = Rig::started("ga102");
    let memory = rig.memory(&[7; 4096]);
    let at = super::rig::bytes_of(&memory);
    rig.set(0x1700, 2 << 24 | (at >> 16) as u32);
    let register = 0x70_0000 + (at & 0xffff);
    assert_eq!(rig.get(register), 0x0707_0707);
    rig.set(register, 1);
    assert_eq!(memory.view.read::<u32>(0).unwrap(), 1);
    rig.is_clean();
    rig.set(0x1700, 1 << 24);
    assert!(rig.registers.read::<u32>(0x70_0000).is_err());
    fires("NV-PCI-PRAMIN-TARGET").only(&rig.broken());
}

#[test]
fn flushes_are_waited_for() {
    for register in [0x7_0000, 0x7_0010, 0xb8_0f00] {
        let rig = Rig::started("ga102");
        assert_eq!(rig.get(register), 0);
        rig.set(register, 1);
        assert_eq!(rig.get(register), 2);
        rig.until("a flush", || rig.get(register) == 0);
        rig.is_clean();
        assert!(rig.try_set(register, 2).is_err());
        fires("NV-PCI-REGISTER").only(&rig.broken());
    }
}

#[test]
fn the_card_starts_first() {
    let config = Config::of(Chip::of("ad102").unwrap());
    let rig = Rig::new(&config);
    assert!(rig.registers.read::<u32>(0x11_83a4).is_err());
    fires("NV-PCI-GFW").only(&rig.broken());
    let rig = Rig::new(&config);
    assert!(rig.try_set(GSP + 0x3c0, 1).is_err());
    fires("NV-PCI-GFW").only(&rig.broken());
    // A function that is no master reaches no memory.
    let rig = Rig::started("ad102");
    rig.pci
        .config_write(PCI_COMMAND, AccessWidth::W16, 2)
        .unwrap();
    rig.is_clean();
}

#[test]
fn boards_have_straps_and_ports_of_vga() {
    let rig = Rig::started("ga102");
    assert_eq!(rig.get(0x10_1000), 1 << 22);
    let port = |at: u64, value: u8| rig.registers.write(at, value).unwrap();
    port(0x60_13d4, 0x3f);
    port(0x60_13d5, 0x57);
    port(0x60_13d4, 0x1f);
    assert_eq!(rig.registers.read::<u8>(0x60_13d5), Ok(0));
    port(0x60_13d4, 0x3f);
    assert_eq!(rig.registers.read::<u8>(0x60_13d5), Ok(0x57));
    // The alarm of the timer is off.
    rig.set(0x9140, 0);
    rig.is_clean();
    assert!(rig.registers.read::<u8>(0x60_13d0).is_err());
    fires("NV-PCI-WIDTH").only(&rig.broken());
}

#[test]
fn messages_are_ended_where_configuration_space_is_shown() {
    let told = Arc::new(AtomicUsize::new(0));
    let client = Client::new("ga102");
    let rig = &client.boot.rig;
    let count = told.clone();
    rig.pci.bus().on_interrupt(Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    }));
    // GSP's vector is in the table, and its leaf is enabled, and the top.
    let (status, table) = client.control(SUBDEVICE, 0x2080_0a5c, &[0; 2068]);
    let words = words(&table);
    assert_eq!((status, words[0], words[1] & 0xffff), (0, 8, 50));
    let vector = u64::from(words[3]);
    let leaf = vector / 32 * 4;
    rig.set(GSP + 4, 0x40);
    rig.set(0xb8_1000 + leaf, u32::MAX);
    rig.set(0xb8_1200 + leaf, 1 << (vector % 32));
    rig.set(0xb8_1608, 0xf);
    assert_eq!(told.load(Ordering::SeqCst), 0);
    let info = || {
        client.boot.rpc(65, &[0; 0x678]);
        client.settle();
    };
    info();
    assert_eq!(told.load(Ordering::SeqCst), 1);
    info();
    assert_eq!(told.load(Ordering::SeqCst), 1, "the first has not ended");
    assert_eq!(rig.get(0xb8_1600), 1 << (vector / 64));
    // As drivers do it: off, the end of the message, cleared at its source, and on.
    rig.set(0xb8_1610, 0xf);
    rig.set(0x8_8704, 0);
    rig.set(0xb8_1000 + leaf, 1 << (vector % 32));
    rig.set(GSP + 4, 0x40);
    rig.set(GSP + 0x3e8, 1);
    rig.set(0xb8_1608, 0xf);
    assert_eq!(told.load(Ordering::SeqCst), 1);
    info();
    assert_eq!(told.load(Ordering::SeqCst), 2);
    // Pending at its source, it counts as new once it is told to.
    rig.set(0xb8_1610, 0xf);
    rig.pci.config_write(0x704, AccessWidth::W32, 0).unwrap();
    rig.set(0xb8_1000 + leaf, u32::MAX);
    rig.set(0xb8_1608, 0xf);
    assert_eq!(told.load(Ordering::SeqCst), 2);
    rig.set(GSP + 0x3e8, 1);
    assert_eq!(told.load(Ordering::SeqCst), 3);
    // What shows the ROM can be switched there, too; nothing else of configuration space is written so.
    rig.set(0x8_8050, 3);
    assert_eq!(rig.pci.config_read(0x50, AccessWidth::W32), Ok(1));
    rig.is_clean();
    assert!(rig.try_set(0x8_8004, 0).is_err());
    fires("NV-PCI-REGISTER").only(&rig.broken());
}
