//! Starts and ends of a made-up card, with firmware that is made up: in order, and with everything going wrong once.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod card;
mod falcon;
mod files;
mod firmware;
mod fsp;

use std::sync::Arc;

use drivers_spec::nv::abi::Branch;
use drivers_spec::nv::gsp::{RpcControl, function};
use drivers_spec::nv::status;
use firmware_tools::search::Search;
use hcq::DeviceId;
use hcq::transport::{ResetKind, VirtualClock};
use tempfile::TempDir;
use zerocopy::IntoBytes;

use self::card::{Break, Made};
use super::{Card, Event, GspError, Options, Stage, Started, start};

/// A card, the folder of its firmware, and a clock on which nobody waits.
struct Stand {
    made: Arc<Made>,
    folder: TempDir,
    reset: bool,
}

impl Stand {
    fn new(branch: Branch, wrong: Break) -> Stand {
        let folder = tempfile::tempdir().unwrap();
        let version = match branch {
            Branch::R535 => "535.113.01",
            _ => "570.144",
        };
        files::write(folder.path(), version);
        Stand {
            made: Arc::new(Made::new(branch, wrong)),
            folder,
            reset: true,
        }
    }

    /// A GH100.
    fn hopper(wrong: Break) -> Stand {
        let folder = tempfile::tempdir().unwrap();
        files::write_hopper(folder.path(), "570.144");
        Stand {
            made: Arc::new(Made::hopper(wrong)),
            folder,
            reset: true,
        }
    }

    fn start(&self) -> Result<Started, GspError> {
        let clock = Arc::new(VirtualClock::new());
        let card = Card::open(DeviceId::new("NV", 0), self.made.clone(), clock)?;
        let options = Options {
            firmware: Search::only([self.folder.path().to_owned()]),
            reset: self.reset,
        };
        start(&Arc::new(card), &options)
    }

    /// The error of a start.
    fn error(&self) -> GspError {
        match self.start() {
            Ok(_) => panic!("it starts"),
            Err(error) => error,
        }
    }
}

#[test]
fn a_card_is_started_and_left_as_it_was() {
    for branch in [Branch::R535, Branch::R570] {
        let stand = Stand::new(branch, Break::Nothing);
        let started = stand.start().unwrap();
        let version = match branch {
            Branch::R535 => "535.113.01",
            _ => "570.144",
        };
        assert_eq!(started.version().to_string(), version);
        if branch == Branch::R570 {
            assert_eq!(started.product().unwrap(), "NVIDIA GeForce RTX 3090");
        }
        // What GSP had the host do, and what it told meanwhile.
        assert_eq!(stand.made.state().scratch[&0x1400], 0x77);
        assert!(started.events().unwrap().contains(&Event::Other(0x1020)));
        assert!(stand.made.is_master());
        started.stop().unwrap();
        let state = stand.made.state();
        assert_eq!(state.wpr2, None);
        let done = state
            .log
            .iter()
            .map(|line| line.split([' ', '(']).next().unwrap());
        assert_eq!(
            done.collect::<Vec<_>>().join(" "),
            "Reset Frts Reset Reset Load RM Reset Sb Reset Unload"
        );
        drop(state);
        assert!(
            !stand.made.is_master(),
            "it does not access memory of the host any more"
        );
    }
}

#[test]
fn calls_and_answers_of_any_length_arrive_whole() {
    let stand = Stand::new(Branch::R570, Break::Nothing);
    let started = stand.start().unwrap();
    for bytes in [0, 1, 4016, 4017, 65_400, 65_433, 150_000] {
        let head = RpcControl {
            cmd: 0x1234,
            params_size: bytes,
            ..RpcControl::default()
        };
        let mut message = head.as_bytes().to_vec();
        message.extend((0..bytes).map(|i| (i % 253) as u8));
        let answer = started.rpc.call("ECHO", function::GSP_RM_CONTROL, &message);
        let answer = answer.unwrap();
        assert_eq!(answer.result, 0);
        assert!(answer.bytes == message, "{bytes} bytes");
    }
    // Rings are gone round.
    for _ in 0..200 {
        let message = [0; 0x18];
        started
            .rpc
            .call("ECHO", function::GSP_RM_CONTROL, &message)
            .unwrap();
    }
    started.stop().unwrap();
}

#[test]
fn everything_that_goes_wrong_is_named_and_the_card_is_left_in_order() {
    let cases = [
        (
            Break::Asleep,
            Stage::Card,
            "the card sleeps: NV_PMC_BOOT_0 reads 0xffffffff",
        ),
        (Break::Gone, Stage::Card, "the card has left the bus"),
        (Break::Gfw, Stage::Gfw, "GFW_BOOT_PROGRESS: 0x20"),
        (
            Break::Wpr2(None),
            Stage::Reset,
            "a function reset did not end it, a bus reset did not end it",
        ),
        (
            Break::Frts(0x2a),
            Stage::Frts,
            "FRTS_ERR_CODE holds error 0x2a, expected 0",
        ),
        (
            Break::Elsewhere,
            Stage::Frts,
            "expected it from 0x5ffe00000",
        ),
        (
            Break::Endless,
            Stage::Frts,
            "waiting for FWSEC FRTS to halt",
        ),
        (
            Break::Booter(0x31),
            Stage::Booter,
            "booter_load: NV_PSEC_FALCON_MAILBOX0 holds 0x31",
        ),
        (
            Break::Inactive,
            Stage::Booter,
            "RM on GSP was not started by booter_load",
        ),
        (
            Break::Header,
            Stage::Init,
            "msgSize is 0x2000, expected 0x1000",
        ),
        (
            Break::Silent,
            Stage::Init,
            "waiting for RM on GSP to start (GSP_INIT_DONE)",
        ),
        (
            Break::Crash,
            Stage::Init,
            "RM on GSP has crashed (NV_PRISCV_RISCV_CPUCTL 0x00000000)",
        ),
        (
            Break::Sum,
            Stage::Init,
            "the sum over it (checkSum) is 0x1, expected 0",
        ),
        (Break::Number, Stage::Init, "seqNum is 0x1, expected 0x0"),
    ];
    for (wrong, stage, text) in cases {
        let stand = Stand::new(Branch::R570, wrong);
        let error = stand.error();
        assert_eq!(error.stage, stage, "{wrong:?}: {error}");
        let said = error.to_string();
        assert!(said.contains(text), "{wrong:?}: {said}");
        assert!(said.starts_with("NV:0 (0000:01:00.0): "), "{said}");
        let state = stand.made.state();
        let stays = matches!(wrong, Break::Wpr2(_));
        assert_eq!(state.wpr2.is_some(), stays, "{wrong:?}: WPR2");
        drop(state);
        assert!(!stand.made.is_master(), "{wrong:?}");
    }
}

#[test]
fn what_an_earlier_driver_has_left_is_reset_where_that_is_allowed() {
    for kind in [ResetKind::Function, ResetKind::Bus] {
        let stand = Stand::new(Branch::R570, Break::Wpr2(Some(kind)));
        stand.start().unwrap().stop().unwrap();
        let state = stand.made.state();
        let resets = state.log.iter().filter(|line| line.ends_with("reset"));
        let expected = if kind == ResetKind::Bus { 2 } else { 1 };
        assert_eq!(resets.count(), expected);
    }
    let mut stand = Stand::new(Branch::R570, Break::Wpr2(Some(ResetKind::Function)));
    stand.reset = false;
    let error = stand.error().to_string();
    assert!(
        error.contains("WPR2 is at 0x1000 to 0x2000, expected none"),
        "{error}"
    );
    assert!(error.contains("it may not be reset here"), "{error}");
    assert!(stand.made.state().log.is_empty());
}

#[test]
fn an_end_that_fails_is_told_and_goes_on() {
    for (wrong, text) in [
        (
            Break::Unload(0x29),
            "booter_unload: NV_PSEC_FALCON_MAILBOX0 holds 0x29",
        ),
        (Break::Stays, "booter_unload: WPR2 is still at"),
    ] {
        let stand = Stand::new(Branch::R570, wrong);
        let error = stand.start().unwrap().stop().unwrap_err();
        assert_eq!(error.stage, Stage::Unload);
        assert!(error.to_string().contains(text), "{error}");
        assert!(!stand.made.is_master());
    }
    // A dropped one ends as well.
    let stand = Stand::new(Branch::R570, Break::Nothing);
    drop(stand.start().unwrap());
    assert_eq!(stand.made.state().wpr2, None);
}

#[test]
fn what_rm_refuses_is_told_by_its_status() {
    let stand = Stand::new(Branch::R570, Break::Refuses);
    let started = stand.start().unwrap();
    let error = started.product().unwrap_err();
    assert!(error.is(status::NV_ERR_INSUFFICIENT_RESOURCES), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("GSP of 0000:01:00.0: making NV01_DEVICE_0"),
        "{error}"
    );
    started.stop().unwrap();
}

#[test]
fn files_that_are_missing_or_of_another_version_are_named() {
    let stand = Stand::new(Branch::R570, Break::Nothing);
    let folder = stand.folder.path().join("ga102/gsp");
    std::fs::remove_file(folder.join("booter_load-570.144.bin")).unwrap();
    let error = stand.error();
    assert_eq!(error.stage, Stage::Files);
    assert!(
        error
            .to_string()
            .contains("ga102/gsp/booter_load-570.144.bin: not found"),
        "{error}"
    );
    // Nothing was done to the card.
    assert!(stand.made.state().log.is_empty());
    // An older one is taken where it is whole.
    files::write(stand.folder.path(), "535.113.01");
    stand.made.state().branch = Branch::R535;
    let started = stand.start().unwrap();
    assert_eq!(started.version().to_string(), "535.113.01");
    started.stop().unwrap();
}

#[test]
fn hopper_is_started_by_its_fsp_and_ends_by_itself() {
    let stand = Stand::hopper(Break::Nothing);
    let started = stand.start().unwrap();
    assert_eq!(started.product().unwrap(), "NVIDIA GeForce RTX 3090");
    assert!(started.events().unwrap().contains(&Event::Other(0x1020)));
    started.stop().unwrap();
    let state = stand.made.state();
    assert_eq!(state.log, ["Fsp", "RM ends"]);
    assert_eq!(state.wpr2, None);
    drop(state);
    assert!(!stand.made.is_master());
}

#[test]
fn everything_that_goes_wrong_on_hopper_is_named() {
    let cases = [
        (Break::Gfw, Stage::Gfw, "FSP_BOOT_COMPLETE"),
        (
            Break::Fsp(0x1e),
            Stage::Fsp,
            "FSP: message 0x14 ended with error 0x1e",
        ),
        (Break::Mute, Stage::Fsp, "waiting for the FSP to answer"),
        (
            Break::Fmc(0x77),
            Stage::Fmc,
            "FMC: NV_PGSP_FALCON_MAILBOX0 holds 0x77",
        ),
        (
            Break::Inactive,
            Stage::Fmc,
            "RM on GSP was not started by the FMC",
        ),
        (
            Break::Silent,
            Stage::Init,
            "waiting for RM on GSP to start (GSP_INIT_DONE)",
        ),
    ];
    for (wrong, stage, text) in cases {
        let stand = Stand::hopper(wrong);
        let error = stand.error();
        assert_eq!(error.stage, stage, "{wrong:?}: {error}");
        let said = error.to_string();
        assert!(said.contains(text), "{wrong:?}: {said}");
        assert!(!stand.made.is_master(), "{wrong:?}");
    }
}

#[test]
fn an_end_of_hopper_that_fails_is_told() {
    for (wrong, text) in [
        (Break::Runs, "waiting for GSP's RISC-V core to halt"),
        (Break::Stays, "WPR2 is still at"),
    ] {
        let stand = Stand::hopper(wrong);
        let error = stand.start().unwrap().stop().unwrap_err();
        assert_eq!(error.stage, Stage::Unload);
        assert!(error.to_string().contains(text), "{error}");
        assert!(!stand.made.is_master());
    }
}
