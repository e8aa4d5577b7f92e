//! Starts and ends of a made-up card, with firmware that is made up: in order, and with everything going wrong once.

#![allow(clippy::unwrap_used, clippy::expect_used)]

pub(crate) mod card;
mod falcon;
pub(crate) mod files;
mod firmware;
mod fsp;
pub(crate) mod objects;
mod vram;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drivers_spec::nv::abi::Branch;
use drivers_spec::nv::gsp::{RpcControl, function};
use drivers_spec::nv::status;
use firmware_tools::search::Search;
use hcq::DeviceId;
use hcq::transport::{Clock, ResetKind, VirtualClock};
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
        self.start_by(Arc::new(VirtualClock::new()))
    }

    fn start_by(&self, clock: Arc<dyn Clock>) -> Result<Started, GspError> {
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
        assert_eq!((state.wpr2, state.flush), (None, 0));
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
            "the card is suspended (D3): NV_PMC_BOOT_0 reads 0xffffffff",
        ),
        (Break::Gone, Stage::Card, "the card has left the bus"),
        (Break::Gfw, Stage::Gfw, "GFW_BOOT_PROGRESS: 0x20"),
        (
            Break::Refused,
            Stage::Reset,
            "NV_PFB_PRI_MMU_WPR2_ADDR_HI reads 0xbadf5040, a refused access",
        ),
        (
            Break::Pieces,
            Stage::Memory,
            "0x200000 bytes of contiguous host memory: the largest contiguous block is",
        ),
        (
            Break::High,
            Stage::Memory,
            "the sysmem flush page is at bus address 0x8001",
        ),
        (
            Break::Wpr2(None),
            Stage::Reset,
            "a function reset did not stop it, a bus reset did not stop it",
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
            "its checksum (checkSum) is 0x1, expected 0",
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
        assert_eq!(state.flush, 0, "{wrong:?}: the page that flushes read");
        // GSP is not left to itself, and nothing is reset that has not run.
        let resets = state
            .log
            .iter()
            .filter(|line| line.ends_with(" reset"))
            .count();
        let runs = stage == Stage::Init || wrong == Break::Inactive;
        assert_eq!(
            resets,
            if stays { 2 } else { usize::from(runs) },
            "{wrong:?}: {:?}",
            state.log
        );
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
    assert!(error.contains("the card may not be reset here"), "{error}");
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
        // With WPR2 up its memory would be GSP's: the card is reset before it is freed.
        let state = stand.made.state();
        assert_eq!(state.log.last().unwrap(), "function reset");
        assert_eq!(state.wpr2, None);
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
            "FSP: message 0x14 failed with error 0x1e",
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
        let state = stand.made.state();
        assert_eq!((state.wpr2, state.flush), (None, 0), "{wrong:?}");
        // The FSP may start GSP later, where it has not answered.
        let may_run = !matches!(wrong, Break::Gfw | Break::Fsp(_));
        let resets = state
            .log
            .iter()
            .filter(|line| line.ends_with(" reset"))
            .count();
        assert_eq!(resets, usize::from(may_run), "{wrong:?}: {:?}", state.log);
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
        let state = stand.made.state();
        assert_eq!(state.log, ["Fsp", "RM ends", "function reset"]);
        assert_eq!(state.wpr2, None);
    }
}

#[test]
fn gsp_that_runs_without_wpr2_is_reset_before_a_start() {
    let mut stand = Stand::hopper(Break::Alive);
    stand.start().unwrap().stop().unwrap();
    assert_eq!(stand.made.state().log, ["function reset", "Fsp", "RM ends"]);
    stand.made = Arc::new(Made::hopper(Break::Alive));
    stand.reset = false;
    let error = stand.error();
    assert_eq!(error.stage, Stage::Reset);
    let said = error.to_string();
    assert!(said.contains("NV_PRISCV_RISCV_CPUCTL 0x00000080"), "{said}");
    assert!(said.contains("the card may not be reset here"), "{said}");
}

#[test]
fn what_cannot_be_reset_keeps_its_memory_and_is_no_master() {
    let stand = Stand::new(Branch::R570, Break::Stuck);
    let error = stand.error();
    assert_eq!(error.stage, Stage::Init, "{error}");
    assert!(!stand.made.is_master());
    let state = stand.made.state();
    // Nothing that runs is touched.
    assert!(state.wpr2.is_some() && state.rm.is_some());
    assert!(!state.log.contains(&"Sb".to_owned()), "{:?}", state.log);
}

#[test]
fn an_old_answer_of_the_fsp_and_an_argument_that_lingers_are_not_taken_for_something_else() {
    for wrong in [Break::Stale, Break::Lingers] {
        let stand = Stand::hopper(wrong);
        stand.start().unwrap().stop().unwrap();
        assert_eq!(stand.made.state().log, ["Fsp", "RM ends"], "{wrong:?}");
    }
}

#[test]
fn clients_have_handles_of_their_own_and_end_with_the_card() {
    let stand = Stand::new(Branch::R570, Break::Nothing);
    let started = stand.start().unwrap();
    let (one, two) = (started.client().unwrap(), started.client().unwrap());
    assert_eq!((one.handle(), two.handle()), (0xc1d0_0000, 0xc1d0_0001));
    drop(one);
    assert_eq!(started.client().unwrap().handle(), 0xc1d0_0002);
    drop(two);
    let (rpc, late) = (started.rpc.clone(), started.client().unwrap());
    // It is still there: RM of this card does not mind.
    let object = late.handle();
    stand.made.state().rm.as_mut().unwrap().forget(object);
    started.stop().unwrap();
    let rings = stand.made.state().rings;
    drop(late);
    let error = rpc.call("ECHO", function::GSP_RM_CONTROL, &[0; 0x18]);
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("GSP is stopped (`Started::stop`"),
        "{error}"
    );
    assert_eq!(stand.made.state().rings, rings, "nothing is sent any more");
}

#[test]
fn a_late_answer_is_not_taken_for_that_of_another_call() {
    let stand = Stand::new(Branch::R570, Break::Nothing);
    let started = stand.start().unwrap();
    let sleeps = |sleeps| stand.made.state().rm.as_mut().unwrap().sleeps = sleeps;
    let call = |what| {
        let answer = started.rpc.call(what, function::GSP_RM_CONTROL, &[0; 0x18]);
        answer.unwrap_err().to_string()
    };
    sleeps(true);
    let first = call("ONE");
    assert!(first.contains("the answer to RPC ONE"), "{first}");
    sleeps(false);
    let rings = stand.made.state().rings;
    // What has failed first is told, and nothing is sent.
    assert_eq!(call("TWO"), first);
    assert_eq!(started.events().unwrap_err().to_string(), first);
    assert_eq!(stand.made.state().rings, rings);
    let error = started.product().unwrap_err().to_string();
    assert!(error.contains(&first), "{error}");
    assert!(error.contains("Rerun, which resets the card"), "{error}");
    // It ends in order: RM is told, which answers both.
    started.stop().unwrap();
    let state = stand.made.state();
    assert_eq!((state.wpr2, state.rm.is_none()), (None, true));
    assert!(state.log.contains(&"RM ends".to_owned()), "{:?}", state.log);
}

#[test]
fn old_messages_are_left_out_and_empty_records_refused() {
    let stand = Stand::new(Branch::R570, Break::Old);
    let started = stand.start().unwrap();
    let events = started.events().unwrap();
    let told = events
        .iter()
        .filter(|event| **event == Event::Other(0x1020));
    assert_eq!(told.count(), 1);
    started.stop().unwrap();

    let stand = Stand::new(Branch::R570, Break::Empty);
    let started = stand.start().unwrap();
    let head = RpcControl {
        params_size: 150_000,
        ..RpcControl::default()
    };
    let mut message = head.as_bytes().to_vec();
    message.resize(message.len() + 150_000, 7);
    let answer = started.rpc.call("ECHO", function::GSP_RM_CONTROL, &message);
    let error = answer.unwrap_err().to_string();
    assert!(
        error.contains("length of a continuation record is 0x0"),
        "{error}"
    );
    started.stop().unwrap();
}

/// A clock that grows by a millisecond at each look, at which RM tells something, once it floods.
struct Flooding {
    made: Arc<Made>,
    is_on: AtomicBool,
    clock: VirtualClock,
}

impl Clock for Flooding {
    fn now_ns(&self) -> u64 {
        if self.is_on.load(Ordering::Relaxed) {
            self.clock.sleep(Duration::from_millis(1));
            self.made.state().flood();
        }
        self.clock.now_ns()
    }

    fn sleep(&self, time: Duration) {
        self.clock.sleep(time);
    }
}

#[test]
fn a_flood_of_events_ends_with_the_deadline() {
    let stand = Stand::new(Branch::R570, Break::Nothing);
    let clock = Arc::new(Flooding {
        made: stand.made.clone(),
        is_on: AtomicBool::new(false),
        clock: VirtualClock::new(),
    });
    let started = stand.start_by(clock.clone()).unwrap();
    stand.made.state().rm.as_mut().unwrap().sleeps = true;
    clock.is_on.store(true, Ordering::Relaxed);
    let answer = started
        .rpc
        .call("ECHO", function::GSP_RM_CONTROL, &[0; 0x18]);
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("the answer to RPC ECHO"), "{error}");
    clock.is_on.store(false, Ordering::Relaxed);
    stand.made.state().rm.as_mut().unwrap().sleeps = false;
    started.stop().unwrap();
}
