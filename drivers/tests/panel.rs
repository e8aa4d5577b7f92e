//! What `doorbell smi` shows of simulated machines, while a program of this process has their GPU.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drivers::Twin;
use drivers::env::Settings;
use drivers::gauges::{Gauges, Way};
use drivers::panel::Panel;
use drivers::select::parse_targets;
use hcq::{AllocSpec, Device};

fn open(target: &str, machine: &Twin) -> Arc<dyn Device> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let settings = Settings {
        firmware: vec![root.join("../target/firmware/bookworm-backports")],
        ..Settings::default()
    };
    let asked = parse_targets("test", target).unwrap().remove(0);
    drivers::open_with(&asked, &settings, Some(machine)).unwrap()
}

/// Looks until it is as wanted.
fn look(panel: &Panel, wanted: impl Fn(&Gauges) -> bool) -> Gauges {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let (mut cards, notes) = panel.read();
        assert_eq!((cards.len(), notes), (1, Vec::new()));
        let card = cards.remove(0);
        if wanted(&card) {
            return card;
        }
        assert!(Instant::now() < end, "{card:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn kernel_drivers_tell_what_a_card_is_at_and_who_has_it() {
    let kfd: Twin = twin_amd::machine::TwinMachine::new("chip=gfx1100").unwrap();
    let nvk: Twin = twin_nv::machine::TwinMachine::new("chip=ad102").unwrap();
    for (target, machine, name) in [
        ("TWINKFD+AMD", kfd, "AMD Navi 31"),
        ("TWINNVK+NV", nvk, "NVIDIA GeForce RTX 4090"),
    ] {
        let panel = Panel::new(machine.clone(), false);
        let idle = look(&panel, |card| {
            card.celsius.is_some() && card.watts.is_some()
        });
        let named = idle.model.as_deref().unwrap_or(&idle.card.name);
        assert_eq!((named, idle.way), (name, Way::Pci));
        assert!(idle.users_known && idle.users.is_empty(), "{idle:?}");
        assert_eq!(idle.memory_total, Some(24 << 30));

        let device = open(target, &machine);
        let memory = device.alloc(AllocSpec::device(3 << 20)).unwrap();
        let busy = look(&panel, |card| card.busy > Some(0.0));
        let [user] = &busy.users[..] else {
            panic!("{busy:?}");
        };
        assert!(user.memory.unwrap() >= 3 << 20, "{user:?}");
        assert!(busy.memory_used.unwrap() >= user.memory.unwrap());
        // RM tells no queues.
        assert_eq!(user.queues.is_some(), target.contains("AMD"));
        assert!(busy.celsius > idle.celsius && busy.core_mhz > idle.core_mhz);
        drop((memory, device));
        look(&panel, |card| card.users.is_empty());
    }
}

#[test]
fn power_management_tells_of_cards_without_a_kernel_driver() {
    let pci: Twin = twin_amd::pci::machine::PciMachine::new("chip=gfx1201").unwrap();
    let usb: Twin = twin_amd::usb::UsbMachine::new("chip=gfx1201").unwrap();
    for (target, machine, way) in [
        ("TWINPCI+AMD", pci, Way::Pci),
        ("TWINUSB+AMD", usb, Way::Usb),
    ] {
        let silent = Panel::new(machine.clone(), false).read().0.remove(0);
        assert_eq!((silent.way, silent.celsius), (way, None));
        let panel = Panel::new(machine.clone(), true);
        let (_, notes) = panel.read();
        assert!(
            notes[0].contains("power management not started"),
            "{notes:?}"
        );
        let device = open(target, &machine);
        let card = look(&panel, |card| card.celsius.is_some());
        assert!(
            card.watts > Some(0.0) && card.core_mhz > Some(0.0),
            "{card:?}"
        );
        drop(device);
    }
}

#[test]
fn a_card_of_nvidia_without_a_kernel_driver_says_why_it_tells_nothing() {
    let machine: Twin = twin_nv::pci::machine::PciMachine::new("chip=ad102").unwrap();
    let (cards, notes) = Panel::new(machine.clone(), true).read();
    let [card] = &cards[..] else {
        panic!("{cards:?}");
    };
    assert_eq!(
        (card.celsius, card.watts, card.core_mhz),
        (None, None, None)
    );
    let [note] = &notes[..] else {
        panic!("{notes:?}");
    };
    for words in [
        &card.card.address,
        "no kernel driver",
        "process that has started it",
        "doorbell doctor",
    ] {
        assert!(note.contains(words), "{words}: {note}");
    }
}
