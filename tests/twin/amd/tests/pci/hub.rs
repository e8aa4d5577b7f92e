//! Apertures, page tables, invalidation, faults: seen by what the PSP's bootloader is given.

use drivers_spec::amd::mmio::mp::MP0_SMN_C2PMSG_35;
use drivers_spec::amd::mmio::{Reg, mmhub};
use drivers_spec::amd::psp::bl;
use drivers_spec::amd::pte::{self, EXECUTABLE, FRAGMENT, READABLE, SYSTEM, VALID, WRITEABLE};
use drivers_spec::pci::PCI_COMMAND;
use hcq::mem::window::AccessWidth;
use twin::fires::fires;
use twin_amd::pci::card::Config;
use twin_amd::pci::chip::Chip;
use twin_amd::pci::wait::Wait;

use crate::{FB, ROOT, Rig, START, image};

const TABLES: [u64; 4] = [ROOT, 0x1_1000, 0x1_2000, 0x1_3000];
/// Images of keys and of patch levels, in VRAM.
const KEYS: u64 = 0x20_0000;
const LEVELS: u64 = 0x40_0000;

/// A page of memory, as an entry of the last table has it.
fn page(rig: &Rig, at: u64) -> u64 {
    let entries = pte::entries(rig.chip.gfx);
    let leaf = match entries.leaf_in_ptb {
        true => entries.leaf.mask(),
        false => 0,
    };
    at | VALID.mask() | READABLE.mask() | WRITEABLE.mask() | EXECUTABLE.mask() | leaf
}

/// A card whose first page of the address space is that of the keys.
fn mapped(name: &str) -> Rig {
    let rig = Rig::set_up(&Config::of(Chip::of(name).unwrap()));
    for level in TABLES.windows(2) {
        rig.words(level[0], &[level[1] | 1]);
    }
    rig.write(KEYS, &image(0x4f, 0x100));
    rig.write(LEVELS, &image(0x56, 0x100));
    rig.words(TABLES[3], &[page(&rig, KEYS)]);
    rig.invalidate();
    rig.is_clean();
    rig
}

fn load_keys(rig: &Rig) {
    rig.psp_load(bl::LOAD_KEY_DATABASE, START);
}

fn load_levels(rig: &Rig) {
    rig.psp_load(bl::LOAD_TOS_SPL_TABLE, START);
}

fn status(rig: &Rig) -> (&'static Reg, u32) {
    let reg = match rig.chip.name.starts_with("gfx12") {
        true => &mmhub::MMVM_L2_PROTECTION_FAULT_STATUS_LO32,
        false => &mmhub::MMVM_L2_PROTECTION_FAULT_STATUS,
    };
    (reg, rig.get(reg))
}

#[test]
fn page_tables_lead_to_memory() {
    for name in ["gfx1100", "gfx1102", "gfx1200", "gfx1201"] {
        let rig = mapped(name);
        load_keys(&rig);
        assert_eq!(rig.get(&MP0_SMN_C2PMSG_35) & 0xff, 0);
        rig.words(TABLES[3], &[page(&rig, LEVELS)]);
        rig.invalidate();
        load_levels(&rig);
        rig.is_clean();
        assert!(rig.until(&MP0_SMN_C2PMSG_35, u32::MAX, 1 << 31));
        // A huge page.
        let rig = mapped(name);
        let leaf = pte::entries(rig.chip.gfx).leaf.mask();
        rig.words(TABLES[2], &[page(&rig, KEYS) | leaf]);
        rig.invalidate();
        load_keys(&rig);
        rig.is_clean();
    }
}

#[test]
fn a_change_needs_an_invalidation() {
    let rig = mapped("gfx1201");
    load_keys(&rig);
    rig.words(TABLES[3], &[page(&rig, LEVELS)]);
    rig.flush();
    // What is got is what was there: keys, which are not patch levels, but which that command takes.
    load_levels(&rig);
    fires("AMD-HUB-STALE-TLB").only(&rig.broken());
}

#[test]
fn a_page_that_was_none_needs_no_invalidation() {
    let rig = mapped("gfx1100");
    rig.words(TABLES[3], &[0, page(&rig, KEYS)]);
    rig.invalidate();
    rig.psp_load(bl::LOAD_KEY_DATABASE, START);
    fires("AMD-PSP-IMAGE").only(&rig.broken());
    rig.words(TABLES[3], &[page(&rig, KEYS)]);
    rig.flush();
    load_keys(&rig);
    assert_eq!(rig.broken().len(), 1);
}

#[test]
fn an_invalidation_takes_the_semaphore_and_a_range() {
    let rig = mapped("gfx1100");
    let sem = &mmhub::MMVM_INVALIDATE_ENG17_SEM;
    assert!(rig.until(sem, 1, 1));
    assert!(!rig.until(sem, 1, 1), "somebody has it");
    rig.set(sem, 0);
    let request = rig.request();
    assert!(!rig.try_set(&mmhub::MMVM_INVALIDATE_ENG17_REQ, request));
    fires("AMD-HUB-SEMAPHORE").only(&rig.broken());
    let rig = mapped("gfx1100");
    rig.set(&mmhub::MMVM_INVALIDATE_ENG17_ADDR_RANGE_HI32, 0);
    assert!(rig.until(sem, 1, 1));
    assert!(!rig.try_set(&mmhub::MMVM_INVALIDATE_ENG17_REQ, request));
    fires("AMD-HUB-RANGE").only(&rig.broken());
}

#[test]
fn an_invalidation_may_never_be_acknowledged() {
    for (wait, acquires) in [(Wait::Invalidation, true), (Wait::Semaphore, false)] {
        let mut config = Config::of(Chip::of("gfx1100").unwrap());
        config.never = Some(wait);
        let rig = Rig::set_up(&config);
        let sem = &mmhub::MMVM_INVALIDATE_ENG17_SEM;
        assert!(rig.until(sem, 1, 1), "the first time it is free");
        rig.set(&mmhub::MMVM_INVALIDATE_ENG17_REQ, rig.request());
        let ack = rig.until(&mmhub::MMVM_INVALIDATE_ENG17_ACK, 1, 1);
        assert_eq!(ack, !acquires);
        rig.set(sem, 0);
        assert_eq!(rig.until(sem, 1, 1), acquires);
        rig.is_clean();
    }
}

#[test]
fn a_hub_is_set_up_before_it_is_used() {
    let rig = Rig::gfx1201();
    rig.write(KEYS, &image(0x4f, 0x100));
    rig.flush();
    rig.psp_load(bl::LOAD_KEY_DATABASE, FB + KEYS);
    fires("AMD-HUB-OFF").first(&rig.broken());
}

#[test]
fn the_aperture_shows_vram() {
    let rig = mapped("gfx1100");
    rig.set(&mmhub::MMMC_VM_SYSTEM_APERTURE_LOW_ADDR, 0);
    rig.psp_load(bl::LOAD_KEY_DATABASE, 0x10_0000);
    fires("AMD-HUB-APERTURE").first(&rig.broken());
}

#[test]
fn entries_have_no_bits_without_a_meaning() {
    let rig = mapped("gfx1100");
    rig.words(TABLES[3], &[page(&rig, KEYS) | 1 << 53]);
    rig.flush();
    load_keys(&rig);
    fires("AMD-PTE-RESERVED").only(&rig.broken());
    let rig = mapped("gfx1201");
    rig.words(TABLES[1], &[TABLES[2] | 1 | WRITEABLE.mask()]);
    rig.flush();
    load_keys(&rig);
    fires("AMD-PTE-RESERVED").only(&rig.broken());
    let rig = mapped("gfx1201");
    let leaf = pte::entries(rig.chip.gfx).leaf.mask();
    rig.words(TABLES[3], &[page(&rig, KEYS) & !leaf]);
    rig.flush();
    load_keys(&rig);
    fires("AMD-PTE-LEAF").only(&rig.broken());
}

#[test]
fn fragments_are_whole() {
    let rig = mapped("gfx1100");
    let run = |at: u64| page(&rig, at) | FRAGMENT.put(2);
    let whole: Vec<u64> = (0..4).map(|i| run(KEYS + i * 4096)).collect();
    rig.words(TABLES[3], &whole);
    rig.flush();
    load_keys(&rig);
    rig.is_clean();
    let rig = mapped("gfx1100");
    rig.words(TABLES[3], &whole[..3]);
    rig.flush();
    load_keys(&rig);
    fires("AMD-PTE-FRAGMENT").only(&rig.broken());
}

#[test]
fn faults_are_in_the_status_registers_until_they_are_cleared() {
    for name in ["gfx1100", "gfx1201"] {
        let rig = mapped(name);
        rig.psp_load(bl::LOAD_KEY_DATABASE, START + 0x10_0000);
        fires("AMD-PSP-IMAGE").only(&rig.broken());
        let (reg, value) = status(&rig);
        let field = |name: &str| reg.word.field(rig.chip.gfx, name).unwrap().get(value);
        assert_eq!(field("cid"), 6);
        assert_eq!(field("permission_faults"), 3);
        assert_eq!(
            (field("rw"), field("vmid"), field("walker_error")),
            (0, 0, 0)
        );
        let low = rig.get(&mmhub::MMVM_L2_PROTECTION_FAULT_ADDR_LO32);
        let high = rig.get(&mmhub::MMVM_L2_PROTECTION_FAULT_ADDR_HI32);
        assert_eq!(
            u64::from(high) << 44 | u64::from(low) << 12,
            START + 0x10_0000
        );
        rig.set(&mmhub::MMVM_L2_PROTECTION_FAULT_CNTL, 1);
        assert_eq!(status(&rig).1, 0);
    }
}

#[test]
fn memory_of_the_host_is_reached_as_master() {
    let rig = mapped("gfx1100");
    let dma = rig.pci.dma(4096, 4096).unwrap();
    dma.view.copy_from_slice(0, &image(0x4f, 0x100)).unwrap();
    let entry = page(
        &rig,
        dma.ranges.for_domain(hcq::addr::Domain::BUS).unwrap()[0]
            .addr
            .0,
    ) | SYSTEM.mask();
    rig.words(TABLES[3], &[entry]);
    rig.invalidate();
    load_keys(&rig);
    rig.is_clean();
    rig.pci
        .config_write(PCI_COMMAND, AccessWidth::W16, 2)
        .unwrap();
    load_levels(&rig);
    // It may be on its way to a reset until it is master again.
    rig.pci
        .config_write(PCI_COMMAND, AccessWidth::W16, 6)
        .unwrap();
    fires("PCI-MASTER").only(&rig.broken()[1..]);
}

#[test]
fn vram_of_another_card_is_reached_by_its_bar() {
    let rig = mapped("gfx1100");
    let other = rig.beside(&Config::of(Chip::of("gfx1201").unwrap()));
    other.write(LEVELS, &image(0x4f, 0x100));
    other.flush();
    let at = 0x300_0000_0000u64;
    for (register, value) in [(0x10, at as u32), (0x14, (at >> 32) as u32)] {
        other
            .pci
            .config_write(register, AccessWidth::W32, value)
            .unwrap();
    }
    let entry = page(&rig, at + LEVELS) | SYSTEM.mask();
    rig.words(TABLES[3], &[entry]);
    rig.invalidate();
    load_keys(&rig);
    rig.is_clean();
    // Where nobody answers nothing is.
    other
        .pci
        .config_write(PCI_COMMAND, AccessWidth::W16, 4)
        .unwrap();
    load_levels(&rig);
    fires("PCI-DMA-GIVEN").first(&rig.broken());
}
