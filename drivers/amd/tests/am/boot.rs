//! Boots on a card that answers at once: what is found and what is left, each access that fails, firmware that is
//! missing, and blocks that refuse.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use drivers_amd::am::boot::{self, Options, Started};
use drivers_amd::am::card::Card;
use drivers_amd::am::hub::Kind;
use drivers_amd::am::{AmError, Stage};
use drivers_gpu::bare::Mmu as _;
use drivers_spec::amd::psp::{bl, cmd};
use drivers_spec::amd::smu::{NAVI, result};
use firmware_tools::search::Search;
use hcq::DeviceId;
use hcq::addr::VramAddr;
use hcq::transport::fault::{FaultInject, Inject, Rule};
use hcq::transport::tap::Tapped;
use hcq::transport::{Pci, VirtualClock};
use twin_amd::pci::chip::Chip;

use super::mock::{Bus, Mock, Told, Wrong};

const PCI_COMMAND: u16 = 4;
const BAR0: u16 = 0x10;
const MASTER: u32 = 4;

/// Debian's package, as `scripts/fetch firmware` leaves it.
pub fn firmware() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware/bookworm-backports")
}

fn options() -> Options {
    Options {
        firmware: Search::only([firmware()]),
        reset: false,
    }
}

fn card(pci: Arc<dyn Pci>) -> Result<Arc<Card>, AmError> {
    let clock = Arc::new(VirtualClock::new());
    Card::open(DeviceId::new("AMD", 0), pci, clock).map(Arc::new)
}

fn start(mock: &Arc<Mock>) -> Result<Started, AmError> {
    boot::start(card(Arc::new(Bus(mock.clone())))?, &options())
}

fn chip(name: &str) -> Arc<Mock> {
    Mock::new(Chip::of(name).unwrap())
}

/// How many parts the bootloader was given.
fn parts(told: &[Told], mock: &Mock) -> usize {
    let is = |told: &&Told| match told {
        Told::Write(dword, _) => mock.name(*dword) == "MP0_SMN_C2PMSG_35",
        _ => false,
    };
    told.iter().filter(is).count()
}

#[test]
fn a_card_is_cold_then_warm_and_reset_if_it_was_left_in_use() {
    for name in ["gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201"] {
        let mock = chip(name);
        // As the machine's firmware has it.
        let bus = Bus(mock.clone());
        bus.config_write(BAR0, hcq::mem::window::AccessWidth::W32, 0x8000_000c)
            .unwrap();
        mock.told();
        let started = start(&mock).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!started.is_warm(), "{name}");
        assert!(parts(&mock.told(), &mock) >= 4, "{name}");
        assert_eq!(mock.config(PCI_COMMAND) & MASTER, MASTER);
        // 512 MiB from 0 on, for VMID 0.
        assert_eq!(started.hubs().mc(VramAddr(0x5000)), 0x5000);
        assert!(started.entries().mec > 0, "{name}");
        assert_eq!(started.entries().pfp > 0, name.starts_with("gfx12"));
        started.hubs().start(Kind::Gc).unwrap();
        started.hubs().invalidate().unwrap();
        assert_eq!(started.interrupts().entries().unwrap(), [] as [[u32; 8]; 0]);
        started.running().unwrap();
        started.finish(true).unwrap();
        assert_eq!(mock.config(PCI_COMMAND) & MASTER, 0);
        mock.told();

        let started = start(&mock).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(started.is_warm(), "{name}");
        let told = mock.told();
        assert_eq!(parts(&told, &mock), 0, "{name}");
        assert!(told.len() < 20, "{name}: {told:x?}");
        started.running().unwrap();
        // Nobody says that it is in order.
        drop(started);
        mock.told();

        let started = start(&mock).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!started.is_warm(), "{name}");
        let told = mock.told();
        assert!(parts(&told, &mock) >= 4, "{name}");
        let off = told
            .iter()
            .position(|told| matches!(told, Told::Config(4, _, value) if value & MASTER == 0));
        let reset = told.iter().position(|told| match told {
            Told::Write(dword, 2) => mock.name(*dword) == "MP1_SMN_C2PMSG_75",
            _ => false,
        });
        assert!(off.unwrap() < reset.unwrap(), "{name}");
        assert_eq!(mock.config(BAR0), 0x8000_000c, "{name}");
        started.running().unwrap();
        started.finish(false).unwrap();

        let started = start(&mock).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!started.is_warm(), "{name}");
    }
}

#[test]
fn what_blocks_refuse_is_said_with_what_to_do() {
    let cases = [
        (
            Wrong::Bootloader(bl::LOAD_SYSDRV, 0x1d),
            Stage::Psp,
            "stage 8 of 13, security processor (PSP): PSP: bootloader load of PSP_SYS_DRV: MP0_SMN_C2PMSG_35 is \
             0x8000001d, expected 0x80000000. The firmware is for another card, or a reset \
             does not clear the card's state: power-cycle the machine",
        ),
        (
            Wrong::Psp(cmd::LOAD_IP_FW, 0xffff_0006),
            Stage::Psp,
            "PSP: LOAD_IP_FW of SMU: response status is 0xffff0006, expected 0x0",
        ),
        (
            Wrong::Psp(cmd::AUTOLOAD_RLC, 0x100),
            Stage::Psp,
            "PSP: AUTOLOAD_RLC: response status is 0x100, expected 0x0",
        ),
        (
            Wrong::Smu(NAVI.enable_all_smu_features, result::PREREQ),
            Stage::Smu,
            "stage 9 of 13, power management (SMU): SMU: EnableAllSmuFeatures (0x6) with 0x0: prerequisite not met",
        ),
        (
            Wrong::Smu(NAVI.set_driver_dram_addr_low, result::UNKNOWN),
            Stage::Smu,
            "SMU: SetDriverDramAddrLow (0xf) with 0x97000: message not supported by its firmware; install newer \
             firmware",
        ),
    ];
    for (wrong, stage, text) in cases {
        let mock = chip("gfx1201");
        mock.goes_wrong(wrong);
        let error = start(&mock).err().unwrap_or_else(|| panic!("{wrong:?}"));
        assert_eq!(error.stage, stage, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        // It may not touch the host any more.
        assert_eq!(mock.config(PCI_COMMAND) & MASTER, 0, "{wrong:?}");
    }
    let mock = chip("gfx1100");
    let empty = tempfile::tempdir().unwrap();
    let nothing = Options {
        firmware: Search::only([empty.path().to_path_buf()]),
        reset: false,
    };
    mock.told();
    let card = card(Arc::new(Bus(mock.clone()))).unwrap();
    mock.told();
    let error = boot::start(card, &nothing).err().unwrap();
    assert_eq!(error.stage, Stage::Files);
    let text = error.to_string();
    assert!(text.contains("psp_13_0_0_sos.bin: not found in"), "{text}");
    // Nothing of the card was touched.
    assert_eq!(mock.told(), []);
}

#[test]
fn each_access_that_fails_and_a_card_that_leaves_end_as_errors_of_a_stage() {
    let injects = [
        (Inject::Errno(5), 23),
        (Inject::AllOnes, 97),
        (Inject::Vanish, 97),
    ];
    for (inject, step) in injects {
        let mut stages = Vec::new();
        for nth in (1u64..).step_by(step) {
            let mock = chip("gfx1100");
            let plan = FaultInject::new([Rule {
                verb: None,
                name: None,
                nth,
                inject,
            }]);
            let pci = Tapped::pci(Arc::new(Bus(mock.clone())), plan.clone());
            let started = card(pci).and_then(|card| {
                let started = boot::start(card, &options())?;
                started.running().map(|()| started)
            });
            if plan.injected() == 0 {
                started.map(|_| ()).unwrap();
                break;
            }
            if let Err(error) = started {
                let text = error.to_string();
                assert!(
                    text.contains(": stage ") && text.contains(" of 13, "),
                    "{text}"
                );
                if !stages.contains(&error.stage) {
                    stages.push(error.stage);
                }
            }
        }
        // One read of all ones mostly says nothing that cannot be: the card goes on.
        let least = if inject == Inject::AllOnes { 1 } else { 3 };
        assert!(stages.len() >= least, "{inject:?}: {stages:?}");
    }
}
