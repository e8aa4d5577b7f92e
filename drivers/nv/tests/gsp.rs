//! Starts of GSP on simulated cards with NVIDIA's own firmware files: the card checks the vendor's order and every structure.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use drivers_nv::gsp::{Card, GspError, Options, Stage, Started, start};
use firmware_tools::search::Search;
use hcq::DeviceId;
use hcq::transport::{Machine, MonotonicClock};
use twin_nv::pci::machine::PciMachine;

/// The chips that the files are for.
const CHIPS: [&str; 2] = ["ga102", "ad102"];

/// Where `scripts/fetch firmware-nvidia` puts files; `None`, which is said, where they are not.
fn files() -> Option<PathBuf> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware/nvidia-graphics");
    if !folder.join("nvidia").is_dir() {
        println!(
            "skipped: {}: scripts/fetch firmware fetches it",
            folder.display()
        );
        return None;
    }
    Some(folder)
}

fn machine(config: &str) -> Arc<PciMachine> {
    PciMachine::new(config).unwrap()
}

/// Starts the first card of a machine.
fn started(machine: &Arc<PciMachine>, files: &Path, reset: bool) -> Result<Started, GspError> {
    let pci = machine.open_pci("0000:01:00.0").unwrap();
    let clock = Arc::new(MonotonicClock);
    let card = Card::open(DeviceId::new("NV", 0), pci, clock)?;
    let options = Options {
        firmware: Search::only([files.to_owned()]),
        reset,
    };
    start(&Arc::new(card), &options)
}

/// No rule of the card is broken.
fn is_clean(machine: &PciMachine, what: &str) {
    let broken = machine.journal().violations();
    assert!(broken.is_empty(), "{what}: {broken:?}");
}

#[test]
fn a_card_starts_answers_and_ends_again_and_again() {
    let Some(files) = files() else { return };
    for chip in CHIPS {
        let first = machine(&format!("chip={chip}"));
        for turn in 0..2 {
            let machine = if turn == 0 {
                first.clone()
            } else {
                first.again()
            };
            let card = started(&machine, &files, false).unwrap();
            let product = card.product().unwrap();
            assert!(product.contains("NVIDIA"), "{product}");
            card.stop().unwrap();
            is_clean(&machine, &format!("{chip}, start {turn}"));
        }
    }
}

#[test]
fn a_card_that_somebody_left_running_is_reset() {
    let Some(files) = files() else { return };
    for chip in CHIPS {
        let before = machine(&format!("chip={chip},before=driver"));
        started(&before, &files, true).unwrap().stop().unwrap();
        is_clean(&before, chip);

        // A process that was killed leaves it so, too.
        let killed = machine(&format!("chip={chip}"));
        std::mem::forget(started(&killed, &files, false).unwrap());
        let error = started(&killed.again(), &files, false).err().unwrap();
        assert_eq!(error.stage, Stage::Reset, "{error}");
        assert!(error.to_string().contains("WPR2"), "{error}");
        started(&killed.again(), &files, true)
            .unwrap()
            .stop()
            .unwrap();
        is_clean(&killed, chip);
    }
    let stays = machine("chip=ad102,before=driver,resets=none");
    let error = started(&stays, &files, true).err().unwrap();
    assert_eq!(error.stage, Stage::Reset, "{error}");
}
