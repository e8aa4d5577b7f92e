//! The memory of a card without a kernel driver, and page tables that somebody else walks.

use drivers_spec::pci::PCI_COMMAND;
use hcq::mem::window::AccessWidth;
use hcq::transport::Pci;
use twin::pci::{Function, HostMemory, Identity};

use super::*;

const BYTES: u64 = 1 << 30;

fn card() -> (Arc<Physical>, Arc<Journal>) {
    let (function, card, journal) = function();
    drop(function);
    (card, journal)
}

/// A function that has a card's way to memory, and nothing else.
fn function() -> (Function, Arc<Physical>, Arc<Journal>) {
    let journal = Arc::new(Journal::new());
    let chip = &crate::chip::GFX1100;
    let bus = twin::pci::Bus::new(&HostMemory::new());
    let card = Physical::new(chip, BYTES, bus.clone(), journal.clone()).unwrap();
    let identity = Identity {
        vendor: 0x1002,
        device: 0x744c,
        class: 0x03_0000,
        revision: 0,
    };
    let function = Function::new("0000:03:00.0", identity, Vec::new(), bus, journal.clone());
    (function, card, journal)
}

fn master(function: &Function, on: bool) {
    let value = if on { 4 } else { 0 };
    function
        .config_write(PCI_COMMAND, AccessWidth::W16, value)
        .unwrap();
}

fn names(journal: &Journal) -> Vec<&'static str> {
    let broken = journal.violations();
    broken.iter().map(|violation| violation.rule.name).collect()
}

/// One page at a time, an address space of which each page is 1 GiB further on.
struct Shifted(Arc<Physical>);

impl Walk for Shifted {
    fn find(&self, va: u64, access: Access) -> Result<Entry, FaultKind> {
        let rights = Rights {
            write: va < VA + 0x2000,
            execute: true,
        };
        rights.allow(access)?;
        let place = Place::Vram(va.wrapping_sub(VA));
        let (object, page) = self.0.object(place).ok_or(FaultKind::NotPresent)?;
        Ok(Entry {
            object,
            page,
            mtype: Mtype::Rw,
        })
    }
}

#[test]
fn what_the_host_writes_through_the_bar_is_memory_after_a_flush() {
    let (card, journal) = card();
    let who: Arc<str> = "PSP".into();
    let at = 0x1ffc;
    assert!(card.host_write(at, &[1, 2, 3, 4, 5, 6, 7, 8]));
    let mut seen = [0; 8];
    assert!(card.host_read(at, &mut seen));
    assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7, 8]);
    // Both pages are held back.
    assert_eq!(card.read64(Place::Vram(at), &who), Ok(0));
    fires("HDP-NOT-FLUSHED").only(&names(&journal));
    card.hdp_flush("a register");
    let word = card.read64(Place::Vram(at), &who);
    assert_eq!(word, Ok(u64::from_le_bytes(seen)));
    assert_eq!(journal.violations().len(), 1);
    // What the card itself writes shows at once, and leaves alone what the host has written beside it.
    card.host_write(0x3000, &[9]);
    let done = card.write(Place::Vram(0x3004), &[7; 4], &who);
    assert_eq!(done, Ok(()));
    assert!(card.host_read(0x3000, &mut seen));
    assert_eq!(seen, [9, 0, 0, 0, 7, 7, 7, 7]);
    // It ends where it does.
    assert!(!card.host_write(BYTES - 4, &[0; 8]));
    assert!(!card.host_read(u64::MAX, &mut seen));
    let end = Place::Vram(BYTES);
    let missing = card.read64(Place::Vram(BYTES - 4), &who).unwrap_err();
    assert_eq!(missing.0, end);
    assert_eq!(missing.to_string(), "nothing is at 0x40000000 of VRAM");
}

#[test]
fn engines_reach_it_by_tables_that_somebody_else_walks() {
    let (card, journal) = card();
    let vm = Vm::walked(card.gmc.clone(), Arc::new(Shifted(card.clone())));
    card.host_write(0x1008, &7u64.to_le_bytes());
    card.hdp_flush("a register");
    let mut word = [0; 8];
    vm.read(Port::Cp, VA + 0x1008, &mut word).unwrap();
    assert_eq!(u64::from_le_bytes(word), 7);
    // A shader core stores; GL2 holds it until it is written back.
    let launch = vm.launch();
    let stored = Bus::new(&launch).put(Port::Vector, VA + 0x1008, 8u64);
    stored.unwrap();
    drop(launch);
    let host = || {
        let mut word = [0; 8];
        assert!(card.host_read(0x1008, &mut word));
        u64::from_le_bytes(word)
    };
    assert_eq!(host(), 7);
    vm.caches(WB, "a packet");
    assert_eq!(host(), 8);
    assert!(journal.violations().is_empty());
    let fault = vm.write(Port::Sdma, VA + 0x1ff8, &[0; 16]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::ReadOnly);
    let fault = vm.read(Port::Sdma, VA + BYTES, &mut word).unwrap_err();
    assert_eq!((fault.va, fault.kind), (VA + BYTES, FaultKind::NotPresent));
    assert!(vm.mapped().is_empty());
}

#[test]
fn a_reset_loses_what_vram_held() {
    let (card, _) = card();
    let who: Arc<str> = "PSP".into();
    card.host_write(0x1000, &[1]);
    card.hdp_flush("a register");
    card.host_write(0x1001, &[1]);
    card.lose();
    let mut seen = [3; 2];
    assert!(card.host_read(0x1000, &mut seen));
    assert_eq!(seen, [0; 2]);
    card.hdp_flush("a register");
    assert_eq!(card.read64(Place::Vram(0x1000), &who), Ok(0));
}

#[test]
fn memory_of_the_host_is_reached_while_it_is_given_and_the_card_is_master() {
    let (function, card, journal) = function();
    let who: Arc<str> = "SDMA".into();
    let dma = function.dma(0x3000, 0x1000).unwrap();
    let places: Vec<_> = dma
        .ranges
        .for_domain(hcq::addr::Domain::BUS)
        .unwrap()
        .iter()
        .map(|range| range.addr.0)
        .collect();
    let word = |at: u64| card.read64(Place::Bus(at), &who);
    dma.view.write(0x1008, 7u64).unwrap();
    assert!(word(places[1] + 8).is_err());
    fires("PCI-MASTER").only(&names(&journal));
    master(&function, true);
    assert_eq!(word(places[1] + 8), Ok(7));
    card.write(Place::Bus(places[2]), &[5; 8], &who).unwrap();
    assert_eq!(dma.view.read::<u8>(0x2007), Ok(5));
    // Neighbours are none on the bus.
    assert!(word(places[0] + 0x1000).is_err());
    fires("PCI-DMA-GIVEN").only(&names(&journal)[1..]);
    // Nor is it the card's any more when the driver has given it back.
    drop(dma);
    assert!(word(places[1] + 8).is_err());
    assert_eq!(names(&journal).len(), 3);
    master(&function, false);
    assert!(word(places[1] + 8).is_err());
}
