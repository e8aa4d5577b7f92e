//! Boots on the twin of a card, as far as power management: no rule is broken, and whatever never comes, fails or
//! leaves ends as an error of its stage.

use std::sync::Arc;

use drivers_amd::am::boot::{self, Options, Started};
use drivers_amd::am::card::Card;
use drivers_amd::am::{AmError, Stage};
use drivers_gpu::bare::Mmu as _;
use drivers_spec::amd::psp::{bl, cmd};
use drivers_spec::amd::smu::{NAVI, result};
use firmware_tools::search::Search;
use hcq::DeviceId;
use hcq::transport::{Pci, ResetKind, VirtualClock};
use twin::pci::HostMemory;
use twin::rule::Journal;
use twin_amd::pci::card::{Before, Card as Twin, Config};
use twin_amd::pci::chip::{CHIPS, Chip, MI300X};
use twin_amd::pci::wait::Wait;

use super::boot::firmware;

const ADDRESS: &str = "0000:03:00.0";
/// A place in VRAM that nothing uses.
const MARK: u64 = 1 << 30;

/// A card of the twin on a bus, and what it says.
pub fn twin(config: &Config) -> (Arc<dyn Pci>, Arc<Journal>) {
    let journal = Arc::new(Journal::new());
    let function = Twin::function(ADDRESS, config, &HostMemory::new(), &journal);
    (Arc::new(function.unwrap()), journal)
}

fn start(pci: &Arc<dyn Pci>) -> Result<Started, AmError> {
    start_with(pci, false)
}

fn start_with(pci: &Arc<dyn Pci>, reset: bool) -> Result<Started, AmError> {
    let clock = Arc::new(VirtualClock::new());
    let card = Card::open(DeviceId::new("AMD", 0), pci.clone(), clock)?;
    let options = Options {
        firmware: Search::only([firmware()]),
        reset,
    };
    boot::start(Arc::new(card), &options)
}

/// Says which rules were broken.
pub fn unbroken(journal: &Journal, what: &str) {
    let broken: Vec<_> = journal
        .violations()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(broken.is_empty(), "{what}: {broken:#?}");
}

#[test]
fn all_chips_start_cold_and_again_after_a_reset() {
    for chip in &CHIPS {
        for (bar, reset_forgets) in [(None, false), (Some(256 << 20), true)] {
            let config = Config {
                bar,
                reset_forgets,
                ..Config::of(chip)
            };
            let (pci, journal) = twin(&config);
            let started = start(&pci).unwrap_or_else(|error| panic!("{}: {error}", chip.name));
            assert!(!started.is_warm());
            unbroken(&journal, chip.name);
            assert_eq!(started.interrupts().entries().unwrap(), [] as [[u32; 8]; 0]);
            assert_eq!(started.hubs().faults().unwrap(), []);
            started.hubs().invalidate().unwrap();
            drop(started);
            // Its secure OS runs, and nobody has left word.
            let started = start(&pci).unwrap_or_else(|error| panic!("{}: {error}", chip.name));
            assert!(!started.is_warm());
            started.running().unwrap();
            started.finish(true).unwrap();
            unbroken(&journal, chip.name);
            // In order.
            let started = start(&pci).unwrap_or_else(|error| panic!("{}: {error}", chip.name));
            assert!(started.is_warm());
            started.hubs().invalidate().unwrap();
            unbroken(&journal, chip.name);
        }
    }
}

#[test]
fn what_never_comes_and_what_fails_ends_as_an_error_of_its_stage() {
    let card = || Config::of(Chip::of("gfx1201").unwrap());
    let never = |wait| Config {
        never: Some(wait),
        ..card()
    };
    let cases = [
        (
            never(Wait::Bootloader),
            Stage::Psp,
            "MP00.MP0_SMN_C2PMSG_35",
        ),
        (never(Wait::SecureOs), Stage::Psp, "the secure OS to start"),
        (never(Wait::Ring), Stage::Psp, "secure OS ready for a ring"),
        (never(Wait::Fence), Stage::Psp, "PSP: LOAD_TOC"),
        (
            never(Wait::Message),
            Stage::Smu,
            "the SMU to answer SetDriverDramAddrHigh",
        ),
        (
            Config {
                bootloader_error: Some((bl::LOAD_SOCDRV, 0x1d)),
                ..card()
            },
            Stage::Psp,
            "MP0_SMN_C2PMSG_35 is 0x8000001d",
        ),
        (
            Config {
                ring_error: Some(0x7),
                ..card()
            },
            Stage::Psp,
            "ring setup: MP0_SMN_C2PMSG_64 is 0x80000007",
        ),
        (
            Config {
                psp_error: Some((cmd::LOAD_IP_FW, 0xffff_0006)),
                ..card()
            },
            Stage::Psp,
            "LOAD_IP_FW of SMU: response status is 0xffff0006",
        ),
        (
            Config {
                smu_error: Some((NAVI.enable_all_smu_features, result::FAILED)),
                ..card()
            },
            Stage::Smu,
            "EnableAllSmuFeatures (0x6) with 0x0: failed",
        ),
    ];
    for (config, stage, text) in cases {
        let (pci, journal) = twin(&config);
        let error = start(&pci).err().unwrap_or_else(|| panic!("{text}"));
        assert_eq!(error.stage, stage, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        unbroken(&journal, text);
    }
}

#[test]
fn a_card_that_was_left_between_two_parts_is_reset_by_the_bus_or_says_why_not() {
    for (resets, stage, text) in [
        // It begins anew, as far as it did before.
        (vec![ResetKind::Bus], Stage::Psp, "C2PMSG_35 is 0x8000001d"),
        (
            vec![ResetKind::Function],
            Stage::Reset,
            "accepts each part only once: 0000:03:00.0: bus reset: not supported: it can be reset by [Function]. \
             Power-cycle the machine",
        ),
    ] {
        let config = Config {
            resets,
            bootloader_error: Some((bl::LOAD_SOCDRV, 0x1d)),
            ..Config::of(Chip::of("gfx1201").unwrap())
        };
        let (pci, journal) = twin(&config);
        for (stage, text) in [(Stage::Psp, "C2PMSG_35 is 0x8000001d"), (stage, text)] {
            let error = start(&pci).err().unwrap();
            assert_eq!(error.stage, stage, "{error}");
            assert!(error.to_string().contains(text), "{error}");
            unbroken(&journal, text);
        }
    }
}

#[test]
fn a_card_that_leaves_at_any_moment_ends_as_an_error() {
    let card = |gone_after| Config {
        gone_after,
        ..Config::of(Chip::of("gfx1100").unwrap())
    };
    // One that stays starts. Where it does not, as without firmware, none that leaves ever would, however late.
    start(&twin(&card(None)).0).unwrap_or_else(|error| panic!("{error}"));
    let mut stages = Vec::new();
    for after in (0..).step_by(23) {
        let (pci, journal) = twin(&card(Some(after)));
        let started = start(&pci);
        unbroken(&journal, "gone");
        match started {
            Ok(_) => break,
            Err(error) if !stages.contains(&error.stage) => stages.push(error.stage),
            Err(_) => {}
        }
    }
    // What is written to a card that is not there is lost; the first that has to answer tells.
    assert!(
        stages.contains(&Stage::Card) && stages.contains(&Stage::Psp),
        "{stages:?}"
    );
}

#[test]
fn hubs_that_never_answer_and_a_card_that_does_not_come_back_are_named() {
    let card = |never| Config {
        never: Some(never),
        ..Config::of(Chip::of("gfx1100").unwrap())
    };
    for (wait, text) in [
        (
            Wait::Semaphore,
            "MMHUB0.MMVM_INVALIDATE_ENG17_SEM on 0000:03:00.0 BAR5 by RSMU: timed out waiting for the invalidation \
             semaphore: limit 100ms",
        ),
        (
            Wait::Invalidation,
            "MMHUB0.MMVM_INVALIDATE_ENG17_ACK on 0000:03:00.0 BAR5 by RSMU: timed out waiting for the invalidation of \
             VMID 0",
        ),
    ] {
        let (pci, journal) = twin(&card(wait));
        let started = start(&pci).unwrap_or_else(|error| panic!("{error}"));
        // The semaphore is free until somebody has had it. What an error leaves taken would be an error of another kind.
        let first = started.hubs().invalidate();
        assert_eq!(first.is_ok(), wait == Wait::Semaphore);
        let errors = [first.err(), started.hubs().invalidate().err()];
        let errors: Vec<_> = errors.iter().flatten().map(ToString::to_string).collect();
        assert!(
            !errors.is_empty() && errors.iter().all(|error| error.contains(text)),
            "{errors:#?}"
        );
        unbroken(&journal, text);
    }
    let (pci, journal) = twin(&card(Wait::Reset));
    drop(start(&pci).unwrap_or_else(|error| panic!("{error}")));
    let error = start(&pci).err().unwrap();
    assert_eq!(error.stage, Stage::Reset);
    let text = error.to_string();
    assert!(
        text.contains(
            "stage 4 of 13, reset (mode 1): RCC_CONFIG_MEMSIZE after the reset: timed out waiting for the card to \
             answer"
        ),
        "{text}"
    );
    unbroken(&journal, "reset");
}

#[test]
fn what_the_kernel_driver_has_left_is_reset_and_so_is_what_is_asked_for() {
    for (chip, looks) in [("gfx1100", 0), ("gfx1201", 40)] {
        let config = Config {
            before: Before::Kernel,
            looks,
            ..Config::of(Chip::of(chip).unwrap())
        };
        let (pci, journal) = twin(&config);
        let started = start(&pci).unwrap_or_else(|error| panic!("{chip}: {error}"));
        assert!(!started.is_warm(), "{chip}");
        started.running().unwrap();
        let vram = started.card().vram().clone();
        vram.write(MARK, 7u32).unwrap();
        started.hubs().hdp().flush().unwrap();
        started.finish(true).unwrap();
        // It is in order, and yet: what VRAM held is lost.
        let started = start_with(&pci, true).unwrap_or_else(|error| panic!("{chip}: {error}"));
        assert!(!started.is_warm(), "{chip}");
        assert_eq!(vram.read::<u32>(MARK), Ok(0), "{chip}");
        unbroken(&journal, chip);
    }
}

/// Messages are the only way to tell the SMU of MI300X that it has to reset the chip.
#[test]
fn an_mi300_whose_smu_does_not_answer_is_reset_by_the_bus() {
    let config = Config {
        before: Before::Kernel,
        stuck: Some(1),
        ..Config::of(&MI300X)
    };
    let (pci, journal) = twin(&config);
    let started = start(&pci).unwrap_or_else(|error| panic!("{error}"));
    assert!(!started.is_warm());
    unbroken(&journal, "silent");
}

#[test]
fn a_card_that_the_kernels_driver_has_left_is_reset() {
    for chip in &CHIPS {
        let config = Config {
            before: Before::Kernel,
            ..Config::of(chip)
        };
        let (pci, journal) = twin(&config);
        let started = start(&pci).unwrap_or_else(|error| panic!("{}: {error}", chip.name));
        assert!(!started.is_warm());
        started.running().unwrap();
        started.finish(true).unwrap();
        unbroken(&journal, chip.name);
    }
}
