//! Memory: where addresses lead, for each card that knows them, and what is left when something fails.

use std::sync::atomic::Ordering;

use drivers_gpu::backend::{Backend, Cause, Exception, Memory, MemoryFault, Request};
use hcq::addr::{BusAddr, Domain, PhysAddr};
use hcq::{Error, MemoryKind};

use super::card::{Computer, NOW, REST, Slot, VRAM, hardware, open};
use super::formats::{Five, Four, Made};

const M2: u64 = 2 << 20;

fn request(bytes: u64, kind: MemoryKind) -> Request<'static> {
    Request {
        bytes,
        align: 1,
        kind,
        what: "a thing",
    }
}

fn get(handle: &dyn Backend, bytes: u64, kind: MemoryKind) -> Memory {
    handle.memory(&request(bytes, kind)).unwrap()
}

fn addresses_lead_to_memory<F: Made>() {
    let machine = Computer::with(vec![Slot::new(3)]);
    let handle = open::<F>(&machine, 0).unwrap();
    let gpu = hardware(&handle);
    let small = get(&handle, 5000, MemoryKind::Device);
    assert_eq!(small.bytes, 8192);
    assert!(gpu.access(small.va.0 + 8192).is_none(), "a page behind it");
    let large = get(&handle, M2 + 4096, MemoryKind::Device);
    assert_eq!(large.va.0 % M2, 0);
    // What the host writes by its window is what the card finds.
    let window = large.window.as_ref().unwrap();
    for (offset, page) in [(0, M2), (M2 - 8, M2), (M2 + 8, 4096)] {
        window.write(offset, 0x1234_5678 + offset).unwrap();
        let (to, size) = gpu.access(large.va.0 + offset).unwrap();
        let PhysAddr::Vram(at) = to else {
            panic!("{to}");
        };
        let seen: u64 = machine.slots[0].memory.read(at.0 as usize).unwrap();
        assert_eq!((seen, size), (0x1234_5678 + offset, page));
    }
    // Memory of the host is in parts.
    let host = get(&handle, M2, MemoryKind::Host);
    assert!(host.zeroed && host.window.is_some());
    let places = (0..M2).step_by(4096).map(|offset| {
        let (to, _) = gpu.access(host.va.0 + offset).unwrap();
        assert!(matches!(to, PhysAddr::Bus(_)));
        to.raw()
    });
    let places: Vec<_> = places.collect();
    let breaks = places.windows(2).filter(|pair| pair[1] != pair[0] + 4096);
    assert_eq!(breaks.count(), 1);
    assert!(
        gpu.access(host.va.0 + M2).is_none(),
        "no more than asked for"
    );
    let (vas, names) = ([small.va.0, large.va.0, host.va.0], handle.space().clone());
    assert!(names.ranges.owner(vas[1]).unwrap().contains("a thing"));
    drop((small, large, host));
    assert!(vas.iter().all(|va| gpu.access(*va).is_none()));
    assert_eq!(names.ranges.owner(vas[1]), None);
    // All of it is free again, and in one piece.
    drop(get(&handle, REST, MemoryKind::Device));
}

#[test]
fn addresses_lead_to_memory_in_either_format() {
    addresses_lead_to_memory::<Four>();
    addresses_lead_to_memory::<Five>();
}

fn cards_share<F: Made>() {
    let mut stranger = Slot::new(2);
    stranger.domain = Domain::unique();
    let mut small = Slot::new(3);
    small.shown = VRAM / 2;
    let machine = Computer::with(vec![Slot::new(0), Slot::new(1), stranger, small]);
    let [one, two, far, narrow] = [0, 1, 2, 3].map(|number| open::<F>(&machine, number).unwrap());
    let vram = get(&one, M2, MemoryKind::Device);
    let host = get(&one, 8192, MemoryKind::Host);
    let (own, _) = hardware(&one).access(vram.va.0).unwrap();
    let on_bus = BusAddr(machine.slots[0].at + own.raw());
    let seen = hardware(&two).access(vram.va.0);
    assert_eq!(seen, Some((PhysAddr::Bus(on_bus), M2)), "by the BAR");
    let host_at = hardware(&one).access(host.va.0);
    assert_eq!(hardware(&two).access(host.va.0), host_at);
    // Another IOMMU finds none of it; part of a BAR is no way, but the other way round is one.
    for va in [vram.va.0, host.va.0] {
        assert!(one.reaches(va) && two.reaches(va) && !far.reaches(va));
        assert_eq!(hardware(&far).access(va), None);
    }
    assert!(narrow.reaches(vram.va.0));
    let hidden = get(&narrow, 4096, MemoryKind::Device);
    assert!(narrow.reaches(hidden.va.0) && !one.reaches(hidden.va.0));
    assert!(
        two.window_at(host.va.0 + 8)
            .is_some_and(|(_, offset)| offset == 8)
    );

    // One that is opened later is given what others have; a handle more of the same card is the same card.
    drop(two);
    assert!(open::<F>(&machine, 1).unwrap().reaches(host.va.0));
    assert!(open::<F>(&machine, 0).unwrap().reaches(vram.va.0));
    // The memory outlives the handle, not the card.
    let two = open::<F>(&machine, 1).unwrap();
    drop(one);
    assert!(two.reaches(vram.va.0));
    let va = vram.va.0;
    drop(vram);
    assert_eq!(hardware(&two).access(va), None);
}

#[test]
fn cards_of_a_process_share_memory_where_there_is_a_way() {
    cards_share::<Four>();
    cards_share::<Five>();
}

#[test]
fn vram_stands_in_for_memory_of_the_host() {
    let mut behind = Slot::new(1);
    behind.reaches_host = false;
    let machine = Computer::with(vec![Slot::new(0), behind]);
    let one = open::<Four>(&machine, 0).unwrap();
    let usb = open::<Four>(&machine, 1).unwrap();
    assert_eq!((one.name(), usb.name()), ("PCI", "USB"));
    let near = get(&usb, 4096, MemoryKind::Host);
    let (to, _) = hardware(&usb).access(near.va.0).unwrap();
    assert!(matches!(to, PhysAddr::Vram(_)) && !near.zeroed);
    let posts = || machine.slots[1].posts.load(Ordering::Relaxed);
    let before = posts();
    let window = near.window.as_ref().unwrap();
    window.write(0, 5u32).unwrap();
    window.send().unwrap();
    assert!(posts() > before, "what is sent is flushed");
    let theirs = get(&one, 4096, MemoryKind::Host);
    assert!(!usb.reaches(theirs.va.0) && !one.reaches(near.va.0));
}

fn what_cannot_be_had_leaves_nothing<F: Made>() {
    let machine = Computer::with(vec![Slot::new(0)]);
    let handle = open::<F>(&machine, 0).unwrap();
    let Err(error) = handle.memory(&request(REST + 4096, MemoryKind::Device)) else {
        panic!("there is no such VRAM");
    };
    let Error::OutOfMemory { free, total, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((free, total), (REST, REST));
    // 255 tables at most: small memory far apart runs out of them before all else.
    let far = |_| {
        handle.memory(&Request {
            align: 1 << 30,
            ..request(4096, MemoryKind::Host)
        })
    };
    let held: Vec<_> = (0..300).map_while(|i| far(i).ok()).collect();
    assert!(held.len() > 60 && held.len() < 256, "{}", held.len());
    let error = far(0).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("of page table memory"), "{error}");
    assert!(!handle.card().function().is_wedged());
    let count = held.len();
    drop(held);
    let again = (0..300).map_while(|i| far(i).ok());
    assert_eq!(again.collect::<Vec<_>>().len(), count);
}

#[test]
fn what_cannot_be_had_leaves_nothing_behind() {
    what_cannot_be_had_leaves_nothing::<Four>();
    what_cannot_be_had_leaves_nothing::<Five>();
}

#[test]
fn memory_that_a_card_may_go_on_using_stays_with_it() {
    let machine = Computer::with(vec![Slot::new(0)]);
    let handle = open::<Five>(&machine, 0).unwrap();
    let (vram, host) = (
        get(&handle, REST, MemoryKind::Device),
        get(&handle, 4096, MemoryKind::Host),
    );
    let vas = [vram.va, host.va];
    hardware(&handle).script().deaf = true;
    drop((vram, host));
    assert!(handle.card().function().is_wedged());
    hardware(&handle).script().deaf = false;
    let next = get(&handle, 4096, MemoryKind::Host);
    assert!(!vas.contains(&next.va), "the address stays taken");
    let all = handle.memory(&request(4096, MemoryKind::Device));
    assert!(matches!(all.map(|_| ()), Err(Error::OutOfMemory { .. })));
}

/// What a card was not told of may be known to it: it is unmapped like all else, or stays.
#[test]
fn memory_that_a_card_may_know_is_not_forgotten() {
    let machine = Computer::with(vec![Slot::new(0), Slot::new(1)]);
    let [one, two] = [0, 1].map(|number| open::<Five>(&machine, number).unwrap());
    let get_fault = || {
        let made = one.memory(&request(4096, MemoryKind::Device)).map(|_| ());
        assert!(matches!(made, Err(Error::Fault { .. })), "{made:?}");
    };
    hardware(&one).script().deaf = true;
    get_fault();
    hardware(&one).script().deaf = false;
    let memory = get(&one, 4096, MemoryKind::Device);
    assert!(two.reaches(memory.va.0));
    drop(memory);
    // That of another card as well, while it is there.
    hardware(&two).script().deaf = true;
    drop(get(&one, REST / 2, MemoryKind::Device));
    let none = one.memory(&request(REST / 2, MemoryKind::Device));
    assert!(matches!(none.map(|_| ()), Err(Error::OutOfMemory { .. })));
    machine.slots[1].has_left.store(true, Ordering::Relaxed);
    for kind in [MemoryKind::Host, MemoryKind::Control] {
        drop(get(&one, 4096, kind));
    }
    look(&one).unwrap();
    let alone = get(&one, 4096, MemoryKind::Device);
    let va = alone.va;
    drop(alone);
    assert_eq!(
        get(&one, 4096, MemoryKind::Device).va,
        va,
        "it is free again"
    );
}

fn look(handle: &dyn Backend) -> hcq::Result<()> {
    let age = &mut drivers_gpu::backend::Age::NEW.clone();
    handle.sleep(None, age, NOW).map(|_| ())
}

/// Whose tables could not be told is lost, and no other card is.
#[test]
fn a_card_that_hangs_is_lost_alone() {
    let machine = Computer::with((0..3).map(Slot::new).collect());
    let [one, two] = [0, 1].map(|number| open::<Five>(&machine, number).unwrap());
    hardware(&two).script().deaf = true;
    let memory = get(&one, 4096, MemoryKind::Device);
    look(&one).unwrap();
    let Err(Error::Fault { what, .. }) = look(&two) else {
        panic!("its tables could not be told");
    };
    assert!(
        what.contains("memory hub") && what.contains("open it again"),
        "{what}"
    );
    assert!(two.card().function().is_wedged() && !one.card().function().is_wedged());
    // It knows nothing of what comes later, and others are opened beside it.
    assert!(two.reaches(memory.va.0) && !two.reaches(get(&one, 4096, MemoryKind::Device).va.0));
    let three = open::<Five>(&machine, 2).unwrap();
    assert!(three.reaches(memory.va.0));
    look(&three).unwrap();
    let Err(Error::NoDevice { why, .. }) = open::<Five>(&machine, 1) else {
        panic!("it is lost");
    };
    assert!(
        why.contains("memory hub") && why.contains("drop all handles"),
        "{why}"
    );
    // It is started anew once nobody has it.
    drop(two);
    let two = open::<Five>(&machine, 1).unwrap();
    look(&two).unwrap();
    assert!(two.reaches(memory.va.0));
}

fn a_walk_is_told<F: Made>(levels: &[&str]) {
    let machine = Computer::with(vec![Slot::new(0)]);
    let handle = open::<F>(&machine, 0).unwrap();
    let memory = get(&handle, 4096, MemoryKind::Host);
    let walk = |va| {
        let found = handle.evidence(Some(&fault(va)));
        let steps = found.walk.into_iter();
        steps
            .map(|step| (step.level, step.text))
            .collect::<Vec<_>>()
    };
    let found = walk(memory.va.0 + 5);
    let names: Vec<_> = found.iter().map(|(level, _)| &**level).collect();
    assert_eq!(names, levels);
    let (to, _) = hardware(&handle).access(memory.va.0).unwrap();
    let last = format!(
        "page in host memory at bus address {:#x}; may be read, written, executed",
        to.raw()
    );
    assert_eq!(found[found.len() - 1].1, last);
    assert!(found[0].1.starts_with("table at VRAM 0x"));
    let beyond = walk(memory.va.0 + 4096);
    assert_eq!(beyond.len(), levels.len());
    assert_eq!(beyond[levels.len() - 1].1, "not valid: not mapped");
    machine.slots[0].has_left.store(true, Ordering::Relaxed);
    assert!(walk(memory.va.0).is_empty() && handle.places().is_none());
}

fn fault(va: u64) -> Exception {
    Exception::Memory(MemoryFault {
        va,
        cause: Cause::PageFault,
        access: None,
        not_present: true,
        read_only: false,
        no_execute: false,
        imprecise: false,
    })
}

#[test]
fn a_walk_says_what_each_level_holds() {
    a_walk_is_told::<Four>(&["D2", "D1", "D0", "T"]);
    a_walk_is_told::<Five>(&["P4", "P3", "P2", "P1", "P0"]);
    let machine = Computer::with(vec![Slot::new(0)]);
    let handle = open::<Four>(&machine, 0).unwrap();
    let below = &handle.evidence(Some(&fault(0x1000))).walk[0];
    assert!(below.text.starts_with("below 0x200000000000"), "{below:?}");
}

#[test]
fn every_handle_hears_of_a_fault_once() {
    let machine = Computer::with(vec![Slot::new(0)]);
    let one = open::<Five>(&machine, 0).unwrap();
    let two = open::<Five>(&machine, 0).unwrap();
    let hear = |handle: &dyn Backend| {
        let age = &mut drivers_gpu::backend::Age::NEW.clone();
        handle.sleep(None, age, NOW).unwrap()
    };
    assert_eq!(hear(&one), None);
    let happen = |vas: &[u64]| {
        let all = vas.iter().map(|va| (None, fault(*va))).collect();
        hardware(&one).script().faults = all;
    };
    happen(&[0x1000, 0x2000]);
    assert_eq!(hear(&one), Some(fault(0x1000)));
    assert!(one.card().function().is_wedged());
    // The same again says nothing more.
    happen(&[0x1000]);
    assert_eq!(hear(&one), Some(fault(0x2000)));
    assert_eq!(hear(&one), None);
    assert_eq!(hear(&two), Some(fault(0x1000)));
    let late = open::<Five>(&machine, 0).unwrap();
    assert_eq!(hear(&late), None, "nothing to do with it");
    assert_eq!(hear(&two), Some(fault(0x2000)));
    assert!(!two.tells_whose(), "all have one address space");
    // One whose queue is known is its handle's alone, once.
    let owner = one.number();
    hardware(&one).script().faults = vec![(Some(owner), fault(0x3000))];
    assert_eq!([hear(&two), hear(&late)], [None, None]);
    assert_eq!(hear(&one), Some(fault(0x3000)));
    let known = || one.take_own(&fault(0x3000));
    assert_eq!([known(), known()], [true, false]);
    assert!(!two.take_own(&fault(0x2000)));
    // Who looks too late hears of the last ones.
    let many: Vec<_> = (1..=70).map(|i| i << 20).collect();
    happen(&many);
    // 64 are kept.
    assert_eq!(hear(&late), Some(fault(7 << 20)));
}
