//! Starts of GSP on simulated cards: the card checks the vendor's order and every structure, and takes its time.
//!
//! With NVIDIA's own firmware files, where they were fetched; and with made-up files that a card's keys accept, always. Time
//! passes when the card has nothing to do: nobody waits for what never comes.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use conformance::part::Part;
use drivers_nv::gsp::{Card, GspError, Options, Stage, Started, start};
use drivers_spec::nv::status;
use drivers_spec::pci::{Command, PCI_COMMAND};
use firmware_tools::search::Search;
use hcq::DeviceId;
use hcq::mem::window::AccessWidth;
use hcq::transport::{Machine, ResetKind};
use twin_nv::pci::card::Before;
use twin_nv::pci::machine::PciMachine;

mod firmware;

use firmware::{CHIPS, CardTime, Firmware};

/// One chip of each way to start: by falcons; by the FSP of Hopper, and of Blackwell.
const WAYS: [&str; 3] = ["ga102", "gh100", "gb202"];
/// Of the sweeps, one in so many runs.
const PARTS: usize = 8;

impl Firmware {
    /// Starts the card of a machine.
    fn start(&self, machine: &Arc<PciMachine>, reset: bool) -> Result<Started, GspError> {
        let pci = machine.open_pci("0000:01:00.0").unwrap();
        let clock = Arc::new(CardTime::of(machine));
        let card = Card::open(DeviceId::new("NV", 0), pci, clock)?;
        let options = Options {
            firmware: Search::only([self.folder.clone()]),
            reset,
        };
        start(&Arc::new(card), &options)
    }

    /// Starts it, has it answer, and ends it.
    fn works(&self, machine: &Arc<PciMachine>, reset: bool, what: &str) {
        let started = self.start(machine, reset);
        let started = started.unwrap_or_else(|error| panic!("{what}: {error}"));
        let product = started.product().unwrap();
        assert!(product.contains("NVIDIA"), "{what}: {product}");
        let ended = started.stop();
        ended.unwrap_or_else(|error| panic!("{what}: {error}"));
        is_left(machine, what);
    }
}

/// No rule of the card is broken.
fn is_clean(machine: &PciMachine, what: &str) {
    let broken = machine.journal().violations();
    let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "{what}: {broken:#?}");
}

/// The same, and the card may not access memory of the host any more.
fn is_left(machine: &Arc<PciMachine>, what: &str) {
    is_clean(machine, what);
    let pci = machine.open_pci("0000:01:00.0").unwrap();
    let command = pci.config_read(PCI_COMMAND, AccessWidth::W16).unwrap() as u16;
    assert_eq!(command & Command::MASTER.bits(), 0, "{what}: master");
}

#[test]
fn a_card_starts_answers_and_ends_again_and_again() {
    for firmware in [Some(Firmware::made()), Firmware::published()] {
        let Some(firmware) = firmware else { continue };
        for (chip, _, _) in CHIPS {
            let first = firmware.machine(chip, |_| {});
            firmware.works(&first, false, chip);
            firmware.works(&first.again(), false, chip);
        }
    }
}

/// Files that are whole, and of another chip or version than their names say, are named; nothing is done to the card.
#[test]
fn files_of_another_chip_or_version_are_refused() {
    let refused = |firmware: &Firmware, chip: &str| {
        let machine = firmware.machine(chip, |_| {});
        let error = firmware.start(&machine, false).err().unwrap();
        assert_eq!(error.stage, Stage::Files, "{error}");
        is_left(&machine, chip);
        error.to_string()
    };
    let made = Firmware::made();
    let gsp = made.folder.join("ga102/gsp/gsp-570.144.bin");
    let mut bytes = std::fs::read(&gsp).unwrap();
    let version = b"570.144";
    let mut parts = bytes.windows(version.len());
    let at = parts.position(|part| part == version).unwrap();
    bytes[at..at + version.len()].copy_from_slice(b"570.133");
    std::fs::write(&gsp, bytes).unwrap();
    let said = refused(&made, "ga102");
    let expected = "gsp-570.144.bin: .fwversion is 570.133, expected 570.144";
    assert!(said.contains(expected), "{said}");

    let Some(mut published) = Firmware::published() else {
        return;
    };
    let own = published.folder.join("nvidia");
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("ad102/gsp");
    std::fs::create_dir_all(&to).unwrap();
    for kind in ["gsp", "bootloader", "booter_load", "booter_unload"] {
        let from = if kind == "booter_load" {
            "ga102"
        } else {
            "ad102"
        };
        let name = format!("{kind}-570.144.bin");
        std::os::unix::fs::symlink(own.join(from).join("gsp").join(&name), to.join(name)).unwrap();
    }
    published.folder = folder.path().to_owned();
    let said = refused(&published, "ad102");
    let expected =
        "ad102/gsp/booter_load-570.144.bin: this is ga102/gsp/booter_load-570.144.bin of";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_card_that_somebody_left_running_is_reset() {
    for firmware in [Some(Firmware::made()), Firmware::published()] {
        let Some(firmware) = firmware else { continue };
        for (chip, _, _) in CHIPS {
            let before = firmware.machine(chip, |config| config.before = Before::Driver);
            firmware.works(&before, true, chip);

            // A process that was killed leaves it so, too.
            let first = firmware.machine(chip, |_| {});
            std::mem::forget(firmware.start(&first, false).unwrap());
            let next = first.killed().unwrap();
            let error = firmware.start(&next, false).err().unwrap();
            assert_eq!(error.stage, Stage::Reset, "{error}");
            assert!(error.to_string().contains("WPR2"), "{error}");
            firmware.works(&next.again(), true, chip);
        }
    }
    let stays = Firmware::made();
    for chip in WAYS {
        let machine = stays.machine(chip, |config| {
            config.before = Before::Driver;
            config.resets = Vec::new();
        });
        let error = stays.start(&machine, true).err().unwrap();
        assert_eq!(error.stage, Stage::Reset, "{error}");
        is_left(&machine, "a card that cannot be reset");
    }
}

#[test]
fn a_second_handle_is_refused_while_the_first_one_lives() {
    let firmware = Firmware::made();
    for chip in WAYS {
        let machine = firmware.machine(chip, |_| {});
        let first = firmware.start(&machine, false).unwrap();
        let error = firmware.start(&machine, false).err().unwrap();
        assert_eq!(error.stage, Stage::Reset, "{chip}: {error}");
        assert!(error.to_string().contains("may not be reset"), "{error}");
        assert!(first.product().unwrap().contains("NVIDIA"));
        first.stop().unwrap();
        is_left(&machine, "the first handle");
        firmware.works(&machine, false, "after both");
    }
}

#[test]
fn looks_locks_and_interrupts_change_nothing() {
    let firmware = Firmware::made();
    for (chip, _, _) in CHIPS {
        for looks in [0, 1, 40] {
            let slow = firmware.machine(chip, |config| config.looks = looks);
            firmware.works(&slow, false, &format!("{chip}, {looks} looks"));
        }
        let locks = firmware.machine(chip, |config| {
            config.lockdown = true;
            config.interrupts = true;
        });
        firmware.works(&locks, false, &format!("{chip}, locked up for a while"));
    }
}

/// A start, a call and an end: the stage of the first that fails.
fn fails_at(firmware: &Firmware, machine: &Arc<PciMachine>) -> Result<(), (Stage, String)> {
    let failed = |error: GspError| (error.stage, error.to_string());
    let started = firmware.start(machine, false).map_err(failed)?;
    // What a call comes to is told by the end, too, where it has spoiled that.
    let answered = started.product();
    started.stop().map_err(failed)?;
    answered
        .map(drop)
        .map_err(|error| (Stage::Init, error.to_string()))
}

#[test]
fn whatever_is_never_done_has_an_error_and_the_next_start_works() {
    let (firmware, part) = (Firmware::made(), Part::chosen());
    for chip in WAYS {
        let stages = stuck(&firmware, part, chip);
        let [second, third] = match chip {
            "ga102" => [Stage::Frts, Stage::Booter],
            _ => [Stage::Fsp, Stage::Fmc],
        };
        let expected = [Stage::Gfw, second, third, Stage::Init, Stage::Unload];
        if part.is_all() {
            assert_eq!(stages, BTreeSet::from(expected), "{chip}");
        }
    }
}

/// One wait after the other never ends: which stages fail of that.
fn stuck(firmware: &Firmware, part: Part, chip: &str) -> BTreeSet<Stage> {
    let (mut stages, mut failures) = (BTreeSet::new(), 0);
    let mut number = 0;
    loop {
        number += 1;
        let mut begun = None;
        if !part.has(number, PARTS) {
            continue;
        }
        let machine = firmware.machine(chip, |config| {
            config.stuck = Some(number as u64);
            begun = Some(config.begun.clone());
        });
        let what = format!("{chip}, stuck={number}");
        let done = fails_at(firmware, &machine);
        let begun = begun.map_or(0, |begun| begun.load(Ordering::Relaxed));
        if let Err((stage, said)) = done {
            assert!(said.contains("0000:01:00.0"), "{what}: {said}");
            println!("{what}: {said}");
            is_left(&machine, &format!("{what}: {said}"));
            stages.insert(stage);
            failures += 1;
            if stage == Stage::Gfw {
                // Power has come, and nothing but a reset helps.
                let pci = machine.open_pci("0000:01:00.0").unwrap();
                pci.reset(ResetKind::Bus).unwrap();
            }
        }
        // What comes later than all of it would meet the next start.
        if begun < number as u64 {
            break;
        }
        let what = format!("the start after {what}");
        firmware.works(&machine.again(), true, &what);
    }
    println!("{chip}: {failures} of {number} waits fail: {stages:?}");
    stages
}

#[test]
fn a_card_that_leaves_the_bus_ends_everything() {
    let (firmware, part) = (Firmware::made(), Part::chosen());
    // The ROM is read dword by dword: before that, and from its end on.
    let before = [0, 1, 2, 5, 100, 30_000].into_iter();
    gone(
        &firmware,
        part,
        "ad102",
        65_500,
        before.chain((65_500..).step_by(37)),
    );
    // Few registers are read where there is none, and most of them are the packet for FSP.
    for chip in ["gh100", "gb202"] {
        gone(&firmware, part, chip, 250, (0..12).chain((12..).step_by(7)));
    }
}

/// A card leaves the bus after so many accesses, each time after more; a start has `least` of them or more.
fn gone(
    firmware: &Firmware,
    part: Part,
    chip: &str,
    least: u64,
    accesses: impl Iterator<Item = u64>,
) {
    for (index, accesses) in accesses.enumerate() {
        if !part.has(index, PARTS) {
            continue;
        }
        let what = format!("{chip}, gone after {accesses} accesses");
        let machine = firmware.machine(chip, |config| config.gone_after = Some(accesses));
        let Err((_, said)) = fails_at(firmware, &machine) else {
            // It was not there any more for the last of them, or has stayed.
            assert!(accesses > least, "{what}");
            break;
        };
        assert!(said.contains("0000:01:00.0"), "{what}: {said}");
        is_left(&machine, &format!("{what}: {said}"));
        let error = firmware.start(&machine.again(), true).err().unwrap();
        assert_eq!(error.stage, Stage::Card, "{what}: {error}");
        assert!(error.to_string().contains("0xffffffff"), "{what}: {error}");
    }
}

#[test]
fn calls_that_rm_refuses_are_told_and_the_card_ends_in_order() {
    let firmware = Firmware::made();
    let result = status::NV_ERR_INSUFFICIENT_RESOURCES;
    for chip in WAYS {
        for function in [103, 76] {
            let what = format!("{chip}, rpc={function}:{result:#x}");
            let machine = firmware.machine(chip, |config| {
                config.rpc_error = Some((function, result));
            });
            let started = firmware.start(&machine, false).unwrap();
            let error = started.product().unwrap_err();
            assert!(error.is(result), "{what}: {error}");
            started.stop().unwrap();
            is_left(&machine, &what);
        }
        end_is_refused(&firmware, chip);
    }
}

/// The end itself is refused: it goes on, as the vendor's driver does. Where falcons have started GSP, they end it; where FSP
/// has, the driver resets the card.
fn end_is_refused(firmware: &Firmware, chip: &str) {
    let what = format!("{chip}, rpc=47:0x51");
    let machine = firmware.machine(chip, |config| config.rpc_error = Some((47, 0x51)));
    let error = firmware.start(&machine, false).unwrap().stop().unwrap_err();
    assert_eq!(error.stage, Stage::Unload, "{error}");
    let said = error.to_string();
    assert!(
        said.contains("RPC UNLOADING_GUEST_DRIVER: rpc_result is 0x51"),
        "{said}"
    );
    is_left(&machine, &what);
    let next = firmware.start(&machine.again(), false).unwrap();
    assert!(next.product().unwrap().contains("NVIDIA"));
    assert_eq!(next.stop().unwrap_err().stage, Stage::Unload);
    is_left(&machine, &what);
}
