//! MI300X: XCCs and copy engines on several dies.

use drivers_spec::amd::mmio::{gc, nbio, sdma};
use twin::fires::fires;

use super::*;

const XCCS: u8 = 8;

/// One that does not run anything yet: all XCCs are one GPU, doorbells reach them. Memory hubs are off.
fn mi300() -> Rig {
    let mut rig = Rig::new("gfx942");
    rig.tables();
    graphics::autoload(&mut rig.state);
    for xcc in 0..XCCS {
        rig.at = xcc;
        assert!((0..1000).any(|_| rig.read(&gc::CP_STAT) == 0));
        rig.write(&gc::CP_MEC_CNTL, 0);
        rig.set(&gc::SH_MEM_CONFIG, &[("alignment_mode", 3)]);
        let bases = [("shared_base", 1), ("private_base", 2)];
        rig.set(&gc::SH_MEM_BASES, &bases);
        let first = 0x100 * u32::from(xcc);
        rig.write(&gc::CP_MEC_DOORBELL_RANGE_LOWER, first);
        rig.write(&gc::CP_MEC_DOORBELL_RANGE_UPPER, first + 0xf8);
    }
    for die in 1..4 {
        rig.at = die;
        rig.set(&nbio::XCC_DOORBELL_FENCE, &[("shub_slv_mode", 1)]);
    }
    rig.at = 0;
    rig.write(&nbio::XCC_DOORBELL_FENCE, 0);
    rig.write(&nbio::RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN, 1);
    assert!(graphics::partition(&mut rig.state, 1));
    rig
}

/// A queue of PM4 on an XCC, with a doorbell of its own. The byte of it.
fn own_queue(rig: &mut Rig, xcc: u8) -> u64 {
    rig.at = xcc;
    rig.hub(&GC_HUB);
    let bell = 0x100 * u32::from(xcc) + 0x18;
    let mut registers = rig.descriptor();
    for (reg, value) in &mut registers {
        if reg.word.name == "CP_HQD_PQ_DOORBELL_CONTROL" {
            *value = 1 << 30 | bell;
        }
    }
    rig.mqd(&registers);
    rig.queue(&registers).unwrap();
    bell.into()
}

fn store_there(rig: &mut Rig, bell: u64) -> Result<(), Broken> {
    rig.words(RING, &store(DATA, 7));
    rig.words(POINTERS + 8, &[5, 0]);
    rig.flush();
    rig.bell(bell, 5)
}

#[test]
fn an_xcc_has_queues_and_a_way_to_memory_of_its_own() {
    let mut rig = mi300();
    // The hubs of all others are off.
    let bell = own_queue(&mut rig, 3);
    rig.at = 0;
    store_there(&mut rig, bell).unwrap();
    rig.wait("the store", |rig| rig.word(DATA) == 7);
    assert!(rig.broken().is_empty(), "{:?}", rig.journal.violations());
}

#[test]
fn all_xccs_hear_doorbells() {
    // Somebody waits for an XCC that is there; a die that does not hear.
    for (die, value) in [(0, 1 << 5), (2, 0)] {
        let mut rig = mi300();
        let bell = own_queue(&mut rig, 3);
        rig.at = die;
        rig.write(&nbio::XCC_DOORBELL_FENCE, value);
        rig.at = 0;
        let tried = store_there(&mut rig, bell);
        fires("AMD-DOORBELL-FENCE").only(&rig.tried(tried));
    }
}

#[test]
fn queues_come_after_the_xccs_are_one_gpu() {
    let mut rig = mi300();
    assert!(graphics::partition(&mut rig.state, 8));
    assert!(!graphics::partition(&mut rig.state, 3));
    rig.at = 3;
    let registers = rig.descriptor();
    rig.write(&gc::CP_MEC_DOORBELL_RANGE_LOWER, 0);
    let tried = rig.queue(&registers);
    fires("GFX-XCP").only(&rig.tried(tried));
}

#[test]
fn an_aql_queue_is_active_on_all_xccs() {
    let mut rig = mi300();
    for xcc in 0..XCCS - 1 {
        rig.at = xcc;
        rig.hub(&GC_HUB);
        let mut registers = rig.descriptor();
        let slots = rig.fields(&gc::CP_HQD_PQ_CONTROL, &[("slot_based_wptr", 2)]);
        for (reg, value) in &mut registers {
            if reg.word.name == "CP_HQD_PQ_CONTROL" {
                *value |= slots;
            }
        }
        rig.queue(&registers).unwrap();
    }
    rig.at = 0;
    let tried = store_there(&mut rig, 0x18);
    fires("GFX-AQL-XCCS").only(&rig.tried(tried));
}

/// Copy engine 7, the last one of the second die, with a queue.
fn copy_queue() -> Rig {
    let mut rig = mi300();
    rig.at = 1;
    rig.hub(&MM_HUB);
    rig.write(
        &nbio::S2A_DOORBELL_ENTRY_6_CTRL,
        9 << 28 | 20 << 17 | 0xa << 7 | 0xa << 1 | 1,
    );
    rig.at = 0;
    rig.write(&nbio::DOORBELL0_CTRL_ENTRY_8, 20 << 10 | 0x28c);
    rig.at = 7;
    rig.write(&sdma::SDMA_GFX_RB_BASE, (RING >> 8) as u32);
    rig.write(&sdma::SDMA_GFX_RB_BASE_HI, (RING >> 40) as u32);
    let back = [
        &sdma::SDMA_GFX_RB_RPTR_ADDR_LO,
        &sdma::SDMA_GFX_RB_RPTR_ADDR_HI,
    ];
    rig.wide(back[0], back[1], POINTERS);
    let poll = [
        &sdma::SDMA_GFX_RB_WPTR_POLL_ADDR_LO,
        &sdma::SDMA_GFX_RB_WPTR_POLL_ADDR_HI,
    ];
    rig.wide(poll[0], poll[1], POINTERS + 8);
    rig.set(&sdma::SDMA_GFX_DOORBELL_OFFSET, &[("offset", 0x28c)]);
    rig.set(&sdma::SDMA_GFX_DOORBELL, &[("enable", 1)]);
    let control = [
        ("rb_enable", 1),
        ("rb_size", (BYTES / 4).trailing_zeros()),
        ("rptr_writeback_enable", 1),
    ];
    rig.set(&sdma::SDMA_GFX_RB_CNTL, &control);
    rig
}

fn copy_there(rig: &mut Rig) -> Result<(), Broken> {
    rig.at = 0;
    rig.words(RING, &[5, DATA as u32, (DATA >> 32) as u32, 7]);
    rig.words(POINTERS + 8, &[16, 0]);
    rig.flush();
    rig.bell(0xa30, 16)
}

#[test]
fn a_copy_engine_of_another_die_has_a_queue() {
    let mut rig = copy_queue();
    copy_there(&mut rig).unwrap();
    rig.wait("the fence", |rig| rig.word(DATA) == 7);
    rig.at = 7;
    let tried = rig.attempt(&sdma::SDMA_GFX_RB_BASE, 0);
    fires("SDMA-RB-BUSY").only(&rig.tried(tried));
    assert!(rig.broken().is_empty(), "{:?}", rig.journal.violations());
}

#[test]
fn doorbells_of_copy_engines_go_by_their_die() {
    let mut rig = copy_queue();
    rig.at = 1;
    rig.write(&nbio::S2A_DOORBELL_ENTRY_6_CTRL, 0);
    let tried = copy_there(&mut rig);
    fires("AMD-DOORBELL-DIE").only(&rig.tried(tried));
    // Without a range it is the command processors', none of which has it.
    rig.write(&nbio::DOORBELL0_CTRL_ENTRY_8, 0);
    let tried = copy_there(&mut rig);
    fires("AMD-DOORBELL-NOBODY").only(&rig.tried(tried));
    let mut rig = copy_queue();
    rig.write(&sdma::SDMA_CNTL, 0);
    let tried = copy_there(&mut rig);
    fires("SDMA-UTCL1").only(&rig.tried(tried));
}

#[test]
fn the_clock_is_captured_before_it_is_read() {
    let mut rig = Rig::new("gfx942");
    let at = rig.place(&gc::RLC_GPU_CLOCK_COUNT_LSB, 0);
    let tried = rig.state.read(at).map(|_| ());
    fires("GFX-CLOCK-CAPTURE").only(&rig.tried(tried));
    rig.write(&gc::RLC_CAPTURE_GPU_CLOCK_COUNT, 1);
    let first = rig.read(&gc::RLC_GPU_CLOCK_COUNT_LSB);
    assert_eq!(rig.read(&gc::RLC_GPU_CLOCK_COUNT_LSB), first);
    assert_eq!(rig.read(&gc::RLC_GPU_CLOCK_COUNT_MSB), 0);
}

#[test]
fn registers_of_another_die_are_reached_by_the_high_part_of_an_address() {
    let mut rig = Rig::new("gfx942");
    let far = rig.place(&nbio::XCC_DOORBELL_FENCE, 0) * 4;
    rig.write(&nbio::BIF_BX0_PCIE_INDEX2, far as u32);
    rig.write(&nbio::BIF_BX0_PCIE_INDEX2_HI, 0b110);
    rig.write(&nbio::BIF_BX0_PCIE_DATA2, 1 << 16);
    let tried = rig.attempt(&nbio::BIF_BX0_PCIE_INDEX2, far as u32);
    fires("AMD-PCI-INDEX-HI").only(&rig.tried(tried));
    let fence = |rig: &Rig, die| rig.state.registers.get(&nbio::XCC_DOORBELL_FENCE, die);
    assert_eq!((0..4).map(|die| fence(&rig, die)).max(), Some(1 << 16));
    assert_eq!(fence(&rig, 2), 1 << 16);
    assert_eq!(rig.read(&nbio::BIF_BX0_PCIE_DATA2), 1 << 16);
    rig.write(&nbio::BIF_BX0_PCIE_INDEX2_HI, 0);
    assert_eq!(rig.read(&nbio::BIF_BX0_PCIE_DATA2), 0);
    // The page where Navi cards show the flush register is of an XCC here.
    let tried = rig.attempt(&nbio::BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL, 0x7_f000);
    fires("AMD-HDP-REMAP").only(&rig.tried(tried));
    rig.write(&nbio::BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL, 0x1_a000);
}
