//! A process whose card fails it at any moment, from the first access to the last queue: an error in words, no broken
//! rule, and the next process starts the card all the same.

use std::sync::Arc;

use drivers_amd::{AmdDevice, Options};
use hcq::Result;
use hcq::transport::fault::{FaultInject, Inject, Rule};
use hcq::transport::tap::Tapped;
use hcq::transport::{Clock, Machine, VirtualClock};
use twin_amd::pci::machine::PciMachine;

use super::boot::firmware;

/// Opens a device, with queues; what goes wrong at its end is its own affair.
fn open(machine: &Arc<dyn Machine>) -> Result<Arc<AmdDevice>> {
    let options = Options {
        compute_ring: 16 << 10,
        copy_ring: 8 << 10,
        kernargs: 64 << 10,
        firmware: vec![firmware()],
        ..Options::default()
    };
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let address = "0000:03:00.0";
    let interface = drivers_amd::am::open(machine, address, 0, &clock, &options)?;
    drivers_amd::over(&interface, &options)
}

/// The rules that were broken, but for that of a bootloader that had taken a part of its parts: nothing tells which, and
/// nothing but power begins anew.
fn broken(twin: &PciMachine) -> (Vec<String>, bool) {
    let violations = twin.journal().violations();
    let (half, others): (Vec<_>, Vec<_>) = violations
        .iter()
        .partition(|violation| violation.rule.name == "AMD-PSP-BOOTLOADER");
    let others = others.iter().map(ToString::to_string).collect();
    (others, !half.is_empty())
}

#[test]
fn the_next_process_starts_a_card_whatever_failed_before() {
    for (chip, inject, step) in [
        ("gfx1100", Inject::Errno(5), 43),
        ("gfx1201", Inject::Timeout, 83),
        ("gfx1200", Inject::Vanish, 113),
    ] {
        let (mut failed, mut half_started) = (0, 0);
        for nth in (1u64..).step_by(step) {
            let twin = PciMachine::new(&format!("chip={chip}")).unwrap();
            let plan = FaultInject::new([Rule {
                verb: None,
                name: None,
                nth,
                inject,
            }]);
            let opened = open(&Tapped::machine(twin.clone(), plan.clone()));
            if plan.injected() == 0 {
                drop(opened.unwrap());
                break;
            }
            if let Err(error) = opened {
                failed += 1;
                let text = error.to_string();
                assert!(text.contains("AMD:0"), "{chip} {nth}: {text}");
            }
            let (others, _) = broken(&twin);
            assert!(others.is_empty(), "{chip} {nth}: {others:#?}");
            let again = twin.again();
            let next: Arc<dyn Machine> = again.clone();
            let next = open(&next).map(|_| ());
            let (others, half) = broken(&again);
            assert!(others.is_empty(), "{chip} {nth}, again: {others:#?}");
            match next {
                Ok(()) => {}
                Err(_) if half => half_started += 1,
                Err(error) => panic!("{chip} {nth}: {error}"),
            }
        }
        assert!(failed > 5, "{chip}: {failed}");
        assert!(half_started < failed, "{chip}: {half_started} of {failed}");
    }
}
