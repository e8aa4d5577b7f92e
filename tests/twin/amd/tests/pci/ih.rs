//! Interrupt rings: entries are those of faults.

use drivers_spec::amd::ih::{CLIENT_ID, CONTEXT, SOURCE_ID, client, source};
use drivers_spec::amd::mmio::osssys;
use drivers_spec::amd::psp::bl;
use twin::fires::fires;
use twin_amd::pci::card::Config;
use twin_amd::pci::chip::Chip;

use crate::{FB, Rig, START};

const RING: u64 = 0x3000;
const TOLD: u64 = 0x4000;

/// A card with a ring of so many entries, as a power of two.
fn with_ring(name: &str, log: u32) -> Rig {
    let rig = Rig::set_up(&Config::of(Chip::of(name).unwrap()));
    let base = (FB + RING) >> 8;
    rig.set(&osssys::IH_RB_BASE, base as u32);
    rig.set(&osssys::IH_RB_BASE_HI, (base >> 32) as u32);
    rig.set(&osssys::IH_RB_WPTR_ADDR_LO, (FB + TOLD) as u32);
    rig.set(&osssys::IH_RB_WPTR_ADDR_HI, ((FB + TOLD) >> 32) as u32);
    rig.set(&osssys::IH_RB_CNTL, control(&rig, log, 0));
    rig.set(&osssys::IH_RB_WPTR, 0);
    rig.set(&osssys::IH_RB_RPTR, 0);
    rig.set(&osssys::IH_RB_CNTL, control(&rig, log, 1));
    rig
}

fn control(rig: &Rig, log: u32, enable: u32) -> u32 {
    let fields = [
        ("mc_space", 4),
        ("rb_size", log + 3),
        ("wptr_overflow_enable", 1),
        ("wptr_writeback_enable", 1),
        ("rb_enable", enable),
    ];
    rig.with(&osssys::IH_RB_CNTL, &fields)
}

/// An access that faults, and its entry.
fn fault(rig: &Rig) {
    rig.psp_load(bl::LOAD_KEY_DATABASE, START);
    assert_eq!(rig.broken().first(), Some(&"AMD-PSP-IMAGE"));
}

#[test]
fn entries_come_in_order_and_the_pointer_is_told() {
    for name in ["gfx1100", "gfx1201"] {
        let rig = with_ring(name, 3);
        fault(&rig);
        assert_eq!(rig.get(&osssys::IH_RB_WPTR), 32);
        assert_eq!(rig.bar(0).read(TOLD), Ok(32u32));
        let mut words = [0u32; 8];
        rig.bar(0).read_words(RING, &mut words).unwrap();
        assert_eq!(CLIENT_ID.get(words[0]), client::VMC);
        assert_eq!(SOURCE_ID.get(words[0]), source::UTCL2_FAULT);
        assert_eq!(u64::from(words[CONTEXT]) << 12, START & 0xfff_ffff_ffff);
        assert_eq!(words[CONTEXT + 1] & 0xf, (START >> 44) as u32);
        rig.set(&osssys::IH_RB_RPTR, 32);
        fault(&rig);
        assert_eq!(rig.get(&osssys::IH_RB_WPTR), 64);
    }
}

#[test]
fn a_full_ring_is_written_over_and_says_so() {
    let rig = with_ring("gfx1100", 2);
    for _ in 0..4 {
        fault(&rig);
    }
    // Four entries: the pointer is where the reader's is, and one was lost.
    assert_eq!(rig.get(&osssys::IH_RB_WPTR), 1);
    assert_eq!(rig.bar(0).read(TOLD), Ok(1u32));
    let clear = rig.with(&osssys::IH_RB_CNTL, &[("wptr_overflow_clear", 1)]);
    rig.set(&osssys::IH_RB_CNTL, control(&rig, 2, 1) | clear);
    // Whoever leaves it at that hears of no other.
    assert_eq!(rig.get(&osssys::IH_RB_WPTR), 0);
    let again = || {
        rig.set(&osssys::IH_RB_RPTR, rig.get(&osssys::IH_RB_WPTR) & !31);
        (0..4).for_each(|_| fault(&rig));
        rig.get(&osssys::IH_RB_WPTR)
    };
    assert_eq!(again(), 0);
    rig.set(&osssys::IH_RB_CNTL, control(&rig, 2, 1));
    assert_eq!(again(), 1);
}

#[test]
fn a_ring_is_set_up_before_it_runs_and_pointers_are_bytes() {
    let rig = with_ring("gfx1201", 3);
    assert!(!rig.try_set(&osssys::IH_RB_BASE, 0x40));
    fires("AMD-IH-ENABLED").only(&rig.broken());
    let rig = with_ring("gfx1201", 3);
    assert!(!rig.try_set(&osssys::IH_RB_CNTL, control(&rig, 4, 1)));
    fires("AMD-IH-ENABLED").only(&rig.broken());
    for pointer in [8, 256] {
        let rig = with_ring("gfx1201", 3);
        assert!(!rig.try_set(&osssys::IH_RB_RPTR, pointer));
        fires("AMD-IH-POINTER").only(&rig.broken());
    }
}

#[test]
fn a_ring_is_in_a_space_that_is_known() {
    for (field, all, wrong) in [("mc_space", 7, 5), ("mc_vmid", 15, 1)] {
        let rig = with_ring("gfx1201", 3);
        rig.set(&osssys::IH_RB_CNTL, control(&rig, 3, 0));
        let bits = |value| rig.with(&osssys::IH_RB_CNTL, &[(field, value)]);
        let others = control(&rig, 3, 1) & !bits(all);
        assert!(!rig.try_set(&osssys::IH_RB_CNTL, others | bits(wrong)));
        fires("AMD-IH-SPACE").only(&rig.broken());
    }
}
