//! What is asked of cards without starting them: measurements, and a reset.

use std::sync::Arc;

use drivers_amd::am::look::{metrics, reset};
use drivers_amd::am::metrics::Metrics;
use drivers_amd::{AmdDevice, Options};
use hcq::Error;
use hcq::transport::{Clock, Machine, VirtualClock};
use twin_amd::pci::machine::PciMachine;

use super::boot::firmware;
use super::stand;

const ADDRESS: &str = "0000:03:00.0";

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new())
}

fn open(machine: &Arc<dyn Machine>) -> Arc<AmdDevice> {
    let options = Options {
        firmware: vec![firmware()],
        ..stand::options()
    };
    let backend = drivers_amd::am::open(machine, ADDRESS, 0, &clock(), &options).unwrap();
    drivers_amd::over(&backend, &options).unwrap()
}

fn unbroken(twin: &PciMachine) {
    let broken = twin.journal().violations();
    let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// What the card of the twin measures.
fn expected(chip: &str, counter: u32) -> Metrics {
    if chip == "gfx942" {
        return Metrics {
            hotspot: 51,
            memory: 38,
            gfx_mhz: Some(132),
            memory_mhz: 900,
            fabric_mhz: 1800,
            gfx_percent: 2,
            memory_percent: 1,
            socket_watts: 138,
            pcie_gen: Some(5),
            pcie_lanes: Some(16),
            counter,
            ..Metrics::default()
        };
    }
    Metrics {
        edge: Some(40),
        hotspot: 52,
        memory: 58,
        // Shaders sleep, memory is busy.
        gfx_mhz: Some(500),
        memory_mhz: 1249,
        fabric_mhz: 1990,
        gfx_percent: 3,
        memory_percent: 16,
        socket_watts: 42,
        board_watts: Some(55),
        fan_rpm: Some(900),
        fan_percent: Some(30),
        pcie_gen: Some(4),
        pcie_lanes: Some(16),
        millivolts: Some(712),
        throttled: vec![("power limit 0", 7)],
        counter,
    }
}

#[test]
fn cards_are_measured_while_they_run_and_when_they_were_left_in_order() {
    for chip in ["gfx1100", "gfx1102", "gfx1200", "gfx1201", "gfx942"] {
        let twin = PciMachine::new(&format!("chip={chip}")).unwrap();
        let machine: Arc<dyn Machine> = twin.clone();
        let measure = || metrics(&machine, ADDRESS, &clock()).unwrap();
        assert_eq!(measure(), None, "{chip}: nobody has started it");
        let device = open(&machine);
        assert_eq!(measure(), Some(expected(chip, 1)), "{chip}");
        drop(device);
        assert_eq!(measure(), Some(expected(chip, 2)), "{chip}");
        unbroken(&twin);
    }
}

#[test]
fn a_reset_leaves_a_card_that_starts_from_cold() {
    for (chip, before) in [("gfx1100", "nobody"), ("gfx1201", "kernel")] {
        let twin = PciMachine::new(&format!("chip={chip},before={before}")).unwrap();
        let machine: Arc<dyn Machine> = twin.clone();
        let once = || reset(&machine, ADDRESS, &clock());
        assert_eq!(once().unwrap(), before == "kernel");
        assert!(!once().unwrap(), "{chip}: there is nothing to reset");
        let device = open(&machine);
        let error = once().unwrap_err();
        assert!(matches!(error, Error::NoDevice { .. }), "{error}");
        assert!(
            error.to_string().contains("open in this process"),
            "{error}"
        );
        drop(device);
        assert!(once().unwrap());
        assert_eq!(metrics(&machine, ADDRESS, &clock()).unwrap(), None);
        let image = stand::kernel(chip, "sums", 2);
        assert!(stand::work_on(&*open(&machine), &image, 1).unwrap());
        unbroken(&twin);
    }
}

/// A process that has died leaves a card that says so.
#[test]
fn a_card_that_cannot_be_asked_says_why() {
    let twin = PciMachine::new("chip=gfx1201,never=message").unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let error = metrics(&machine, "0000:09:00.0", &clock()).unwrap_err();
    assert!(error.to_string().contains("0000:09:00.0"), "{error}");
    // Nobody has started it, so that nobody is asked.
    assert_eq!(metrics(&machine, ADDRESS, &clock()).unwrap(), None);
    let gone = PciMachine::new("chip=gfx1201,gone=0").unwrap();
    let machine: Arc<dyn Machine> = gone;
    let error = metrics(&machine, ADDRESS, &clock())
        .unwrap_err()
        .to_string();
    assert!(error.contains("stage 1 of"), "{error}");
}
