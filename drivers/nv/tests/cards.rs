//! A card without a kernel driver from its start to its end, on simulated cards with made-up firmware: kernels and copies, and
//! what goes wrong.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use conformance::part::Part;
use drivers_nv::{NvDevice, Options};
use drivers_spec::nv::status;
use drivers_spec::pci::{Command, PCI_COMMAND};
use hcq::mem::window::AccessWidth;
use hcq::transport::{Clock, Machine, ResetKind};
use hcq::{Deadline, Device, Error, MemoryKind, QueueKind, Result, Stream, Val};
use twin_nv::pci::card::{Config, Trouble};
use twin_nv::pci::machine::PciMachine;

mod firmware;
#[path = "../../amd/tests/stand/bundles.rs"]
mod keeping;
#[path = "cards/mutations.rs"]
mod mutations;
#[path = "device/stand.rs"]
mod stand;

use firmware::{CardTime, Firmware};
use stand::{Rig, VAIN, WILD, exec, kernel, options};

/// Every chip that is modelled.
const CHIPS: [&str; 4] = ["ga102", "ad102", "gh100", "gb202"];

/// Of the sweeps of calls, of waits, and of accesses, one in so many runs.
const PARTS: usize = 8;
const WAITS: usize = 32;
const ACCESSES: usize = 32;

/// Without the debugger of kernels, and what it is asked, there are no exceptions of kernels: all else is needed.
const DEBUGGER: u64 = 0x83de;

/// Opens a card of a machine.
fn open(
    firmware: &Firmware,
    machine: &Arc<PciMachine>,
    index: u32,
    options: Options,
) -> Result<Arc<NvDevice>> {
    let machine: Arc<dyn Machine> = machine.clone();
    let options = Options {
        firmware: vec![firmware.folder.clone()],
        ..options
    };
    let address = format!("0000:{:02x}:00.0", 1 + index);
    drivers_nv::open_pci(&machine, &address, index, &options)
}

fn rig(firmware: &Firmware, machine: &Arc<PciMachine>, index: u32) -> Result<Rig> {
    with(machine, open(firmware, machine, index, options())?)
}

/// The chip whose kernels a machine's cards run.
fn code(machine: &PciMachine) -> &'static str {
    match machine.chip().name {
        "gh100" => "h100",
        "gb202" => "gb202",
        _ => "ga102",
    }
}

fn with(machine: &PciMachine, device: Arc<NvDevice>) -> Result<Rig> {
    Ok(Rig {
        compute: Stream::new(device.queue(QueueKind::Compute, 0)?),
        copy: Stream::new(device.queue(QueueKind::Copy, 0)?),
        step: device.load(&kernel(code(machine), "step"))?,
        device,
    })
}

/// Some rounds of work on the first card, which then is given back.
fn works(firmware: &Firmware, machine: &Arc<PciMachine>, rounds: u32) {
    let rig = rig(firmware, machine, 0).unwrap();
    (0..rounds).for_each(|seed| rig.round(seed).unwrap());
    drop(rig);
}

/// Just these rules of the cards were broken, and no card may access memory of the host any more.
fn is_left(machine: &Arc<PciMachine>, rules: &[&str], what: &str) {
    let broken = machine.journal().violations();
    let told: Vec<_> = broken.iter().map(ToString::to_string).collect();
    // Channels may have been left at waits for what never comes.
    let counts = |name: &&str| *name != VAIN || !rules.contains(&VAIN);
    let names = broken.iter().map(|one| one.rule.name);
    let names: Vec<_> = names.filter(counts).collect();
    let rules: Vec<_> = rules.iter().copied().filter(counts).collect();
    assert_eq!(names, rules, "{what}: {}", told.join("\n"));
    for found in machine.pci_functions().unwrap() {
        let pci = machine.open_pci(&found.address).unwrap();
        let command = pci.config_read(PCI_COMMAND, AccessWidth::W16).unwrap() as u16;
        assert_eq!(command & Command::MASTER.bits(), 0, "{what}: master");
    }
}

#[test]
fn kernels_and_copies_run_again_and_again() {
    let firmware = Firmware::made();
    for chip in CHIPS {
        let machine = firmware.machine(chip, |_| {});
        works(&firmware, &machine, 8);
        is_left(&machine, &[], chip);
        // The same process, and another one.
        works(&firmware, &machine, 1);
        works(&firmware, &machine.again(), 1);
        is_left(&machine, &[], chip);
    }
}

#[test]
fn published_firmware_runs_them_too() {
    let Some(firmware) = Firmware::published() else {
        return;
    };
    for chip in CHIPS {
        let machine = firmware.machine(chip, |_| {});
        works(&firmware, &machine, 4);
        is_left(&machine, &[], chip);
    }
}

#[test]
fn all_of_memory_is_seen_where_the_bar_is_large() {
    let firmware = Firmware::made();
    for chip in CHIPS {
        let machine = firmware.machine(chip, |config| config.window = 32 << 30);
        let rig = rig(&firmware, &machine, 0).unwrap();
        (0..4).for_each(|seed| rig.round(seed).unwrap());
        drop(rig);
        is_left(&machine, &[], chip);
    }
}

#[test]
fn two_cards_of_a_machine_run_side_by_side() {
    let firmware = Firmware::made();
    let config = || firmware.config("ga102");
    let machine = PciMachine::of(&[config(), config()]).unwrap();
    let rigs = [0, 1].map(|index| rig(&firmware, &machine, index).unwrap());
    for seed in 0..4 {
        rigs.iter().for_each(|rig| rig.round(seed).unwrap());
    }
    drop(rigs);
    is_left(&machine, &[], "two cards");
}

#[test]
fn a_process_that_was_killed_leaves_a_card_that_a_reset_helps() {
    let firmware = Firmware::made();
    for chip in CHIPS {
        let machine = firmware.machine(chip, |_| {});
        let rig = rig(&firmware, &machine, 0).unwrap();
        rig.round(0).unwrap();
        std::mem::forget(rig);
        let next = machine.killed().unwrap();
        let never = Options {
            reset: false,
            ..options()
        };
        let error = open(&firmware, &next, 0, never).map(drop).unwrap_err();
        assert!(matches!(error, Error::NoDevice { .. }), "{error}");
        assert!(error.to_string().contains("WPR2"), "{error}");
        works(&firmware, &next.again(), 2);
        is_left(&next, &[], chip);
    }
}

#[test]
fn a_fault_loses_the_device_with_its_address() {
    let firmware = Firmware::made();
    for chip in CHIPS {
        let machine = firmware.machine(chip, |_| {});
        let rig = rig(&firmware, &machine, 0).unwrap();
        let store = rig.device.load(&kernel(code(&machine), "store")).unwrap();
        let args = [Val::Const(WILD + 8)];
        let run = rig.compute.submit(&[], &[exec(&store, &args, 1)]).unwrap();
        let error = run.wait(stand::soon()).unwrap_err();
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
        let said = error.to_string();
        for part in [
            "page fault of a write",
            &format!("{WILD:#x}"),
            "kernel store",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        drop((run, store, rig));
        is_left(&machine, &["MMU-FAULT"], chip);
        works(&firmware, &machine, 1);
    }
}

#[test]
fn what_kernels_do_wrong_is_kept_and_explained() {
    let (firmware, folder) = (Firmware::made(), tempfile::tempdir().unwrap());
    let wrongs = [
        (
            "store",
            "wild-address",
            "the launch of kernel store writes at an address",
        ),
        ("load", "wild-address", "reads at an address"),
        ("count", "wild-address", "does an atomic operation"),
        ("trap", "kernel-exception", "kernel trap"),
    ];
    for (chip, (entry, cause, part)) in CHIPS.into_iter().zip(wrongs) {
        let machine = firmware.machine(chip, |_| {});
        let shared: Arc<dyn Machine> = machine.clone();
        let options = Options {
            coredumps: keeping::coredumps(&shared, folder.path()),
            drain_timeout: keeping::hang().limit(),
            ..options()
        };
        let device = open(&firmware, &machine, 0, options).unwrap();
        let program = device.load(&kernel(code(&machine), entry)).unwrap();
        let args = match entry {
            "trap" => Vec::new(),
            _ => vec![Val::Const(WILD + 8)],
        };
        let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
        let run = compute.submit(&[], &[exec(&program, &args, 1)]).unwrap();
        let error = run.wait(stand::soon()).unwrap_err();
        let (bundle, found) = keeping::told(&error);
        assert_eq!(found.cause, cause, "{chip}: {found}");
        assert!(found.to_string().contains(part), "{chip}: {part}: {found}");
        assert_eq!(bundle.device.interface, "PCI");
        // What RM has said, and the page tables on the way to the address.
        let told = bundle.evidence.way.iter().any(|[of, _]| of == "RM on GSP");
        assert!(told, "{chip}: {:?}", bundle.evidence.way);
        let is_memory = cause == "wild-address";
        assert_eq!(!bundle.evidence.walk.is_empty(), is_memory, "{chip}");
    }
}

/// What is wrong with the channel whose doorbell is rung as so-manieth.
fn troubled(firmware: &Firmware, trouble: Trouble, ring: u64) -> Arc<PciMachine> {
    let change = |config: &mut Config| config.channel = Some((trouble, ring));
    firmware.machine("ga102", change)
}

#[test]
fn channels_that_die_are_told() {
    let firmware = Firmware::made();
    for ring in 1..4 {
        let machine = troubled(&firmware, Trouble::Dies, ring);
        let done = rig(&firmware, &machine, 0).and_then(|rig| {
            let mut rounds = 0..4;
            rounds.try_for_each(|seed| rig.round(seed))
        });
        let error = done.unwrap_err();
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
        is_left(&machine, &[VAIN], "a channel that has died");
    }
}

#[test]
fn channels_that_hang_are_told() {
    let firmware = Firmware::made();
    let brief = Duration::from_millis(300);
    // After those of the start, which others follow.
    for ring in [12, 13] {
        let machine = troubled(&firmware, Trouble::Hangs, ring);
        let hasty = Options {
            ring_timeout: brief,
            drain_timeout: brief,
            ..options()
        };
        let device = open(&firmware, &machine, 0, hasty).unwrap();
        let done = with(&machine, device).and_then(|rig| {
            let data = stand::memory(&*rig.device, MemoryKind::Host, 4096)?;
            let args = [stand::at(&data), Val::Const(1)];
            // A later ring of the channel would help it.
            (0..10).try_for_each(|_| {
                let run = rig.compute.submit(&[], &[exec(&rig.step, &args, 1)])?;
                run.wait(Deadline::after(brief))
            })
        });
        assert!(done.is_err(), "ring {ring}");
        works(&firmware, &machine.again(), 1);
    }
}

/// Opens a card whose RM refuses a call, or each of a function: whether there was such a call, and what it came to. Only
/// what may be missing is done without.
fn refused(
    firmware: &Firmware,
    chip: &str,
    (function, nth): (u32, Option<u64>),
) -> (bool, Option<Error>) {
    let result = status::NV_ERR_INSUFFICIENT_RESOURCES;
    let what = format!("{chip}, rpc={function}:{result:#x}:{nth:?}");
    let mut asked = None;
    let machine = firmware.machine(chip, |config| {
        config.rpc_error = Some((function, result));
        config.rpc_nth = nth;
        asked = Some((config.rpc_calls.clone(), config.rpc_failed.clone()));
    });
    let error = open(firmware, &machine, 0, options()).map(drop).err();
    let (calls, failed) = asked.unwrap();
    let calls = calls.load(Ordering::Relaxed);
    let failed = failed.load(Ordering::Relaxed);
    let is_optional = failed == DEBUGGER || failed >> 16 == DEBUGGER;
    assert!(
        error.is_some() || failed == 0 || is_optional,
        "{what}: {failed:#x} is done without"
    );
    let said = error.as_ref().map_or(String::new(), ToString::to_string);
    assert!(
        error.is_none() || said.contains("0000:01:00.0"),
        "{what}: {said}"
    );
    is_left(&machine, &[], &format!("{what}: {said}"));
    (calls >= nth.unwrap_or(1), error)
}

#[test]
fn calls_that_rm_refuses_end_the_start_in_order() {
    let (firmware, part) = (Firmware::made(), Part::chosen());
    for chip in CHIPS {
        // Facts of the card, its address space, what is freed of the first context.
        for function in [65, 54, 10] {
            let (_, error) = refused(&firmware, chip, (function, None));
            let error = error.unwrap();
            assert!(matches!(error, Error::NoDevice { .. }), "{chip}: {error}");
            let is_free = error.to_string().contains("refused to free it");
            assert_eq!(is_free, function == 10, "{chip}: {error}");
        }
        // Objects, controls: one call after the other.
        for function in [103, 76] {
            let (mut number, mut failures) = (0, 0);
            let more = |number: usize| {
                let nth = Some(number as u64);
                let (is_asked, error) = refused(&firmware, chip, (function, nth));
                is_asked.then_some(u32::from(error.is_some()))
            };
            loop {
                number += 1;
                if !part.has(number, PARTS) {
                    continue;
                }
                match more(number) {
                    Some(failed) => failures += failed,
                    None => break,
                }
            }
            println!("{chip}, function {function}: {failures} of {number} calls");
            assert!(failures > 0 || !part.is_all(), "{chip}, {function}");
        }
    }
}

/// A life of a device, whose waits for the card go by the time of the card: a start, work, and the end.
fn life(firmware: &Firmware, machine: &Arc<PciMachine>) -> Result<()> {
    let brief = Duration::from_millis(300);
    let options = Options {
        firmware: vec![firmware.folder.clone()],
        ring_timeout: brief,
        drain_timeout: brief,
        ..options()
    };
    let clock: Arc<dyn Clock> = Arc::new(CardTime::of(machine));
    let shared: Arc<dyn Machine> = machine.clone();
    let backend = drivers_nv::pci::open(&shared, "0000:01:00.0", 0, &clock, &options)?;
    let rig = with(machine, drivers_nv::over(&backend, &options)?)?;
    drop(backend);
    let data = stand::memory(&*rig.device, MemoryKind::Device, 4096)?;
    let args = [stand::at(&data), Val::Const(1)];
    let run = rig.compute.submit(&[], &[exec(&rig.step, &args, 1)])?;
    run.wait(Deadline::after(brief))
}

/// Whether an error names the card and says what to do next.
fn is_whole(error: &Error, what: &str) {
    let said = error.to_string();
    assert!(
        said.contains("0000:01:00.0") || said.contains("NV:0"),
        "{what}: {said}"
    );
    let next = [
        "eset the card",
        "esets the card",
        "ower-cycle the ",
        "rop all handles",
        "pen the device again",
        "pen it again",
        "eport this",
        "`doorbell reset ",
        "doorbell explain",
    ];
    assert!(
        next.iter().any(|next| said.contains(next)),
        "{what}: {said}"
    );
}

#[test]
fn whatever_is_never_done_is_told_and_the_next_device_works() {
    let (firmware, part) = (Firmware::made(), Part::chosen());
    for chip in CHIPS {
        let (mut number, mut failures) = (0, 0);
        loop {
            number += 1;
            if !part.has(number, WAITS) {
                continue;
            }
            let what = format!("{chip}, stuck={number}");
            let mut begun = None;
            let machine = firmware.machine(chip, |config| {
                config.stuck = Some(number as u64);
                begun = Some(config.begun.clone());
            });
            let done = life(&firmware, &machine);
            let begun = begun.map_or(0, |begun| begun.load(Ordering::Relaxed));
            if let Err(error) = done {
                println!("{what}: {error}");
                is_whole(&error, &what);
                failures += 1;
            }
            is_left(&machine, &[VAIN], &what);
            if begun < number as u64 {
                break;
            }
            // Of GFW, which starts with power, only a reset helps.
            let pci = machine.open_pci("0000:01:00.0").unwrap();
            pci.reset(ResetKind::Bus).unwrap();
            works(&firmware, &machine.again(), 1);
        }
        println!("{chip}: {failures} of {number} waits fail");
    }
}

#[test]
fn a_channel_that_rm_does_not_free_has_the_card_cut_off_and_reset() {
    let (firmware, part) = (Firmware::made(), Part::chosen());
    for chip in CHIPS {
        let (mut number, mut cut_off) = (0, 0);
        loop {
            number += 1;
            if !part.has(number, PARTS) {
                continue;
            }
            let what = format!("{chip}, rpc=10:0x51:{number}");
            let mut calls = None;
            let machine = firmware.machine(chip, |config| {
                config.rpc_error = Some((10, status::NV_ERR_INSUFFICIENT_RESOURCES));
                config.rpc_nth = Some(number as u64);
                calls = Some(config.rpc_calls.clone());
            });
            if let Err(error) = life(&firmware, &machine) {
                println!("{what}: {error}");
                is_whole(&error, &what);
            }
            // It is master of the bus no more, and GSP's firmware does not run: neither told, nor left.
            is_left(&machine, &[VAIN], &what);
            let calls = calls.map_or(0, |calls| calls.load(Ordering::Relaxed));
            if calls < number as u64 {
                break;
            }
            cut_off += 1;
            let never = Options {
                reset: false,
                ..options()
            };
            let next = open(&firmware, &machine.again(), 0, never).map(drop);
            next.unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        println!("{chip}: {cut_off} of {number} frees refused");
    }
}

#[test]
fn a_card_that_leaves_the_bus_while_it_works_is_told() {
    let (firmware, part) = (Firmware::made(), Part::chosen());
    for (chip, from) in [("gh100", 250), ("gb202", 250)] {
        for (index, accesses) in (from..).step_by(97).enumerate() {
            if !part.has(index, ACCESSES) {
                continue;
            }
            let what = format!("{chip}, gone after {accesses} accesses");
            let machine = firmware.machine(chip, |config| config.gone_after = Some(accesses));
            let Err(error) = life(&firmware, &machine) else {
                break;
            };
            println!("{what}: {error}");
            is_whole(&error, &what);
            is_left(&machine, &[VAIN], &what);
            let error = open(&firmware, &machine.again(), 0, options()).map(drop);
            let said = error.unwrap_err().to_string();
            assert!(said.contains("0xffffffff"), "{what}: {said}");
        }
    }
}
