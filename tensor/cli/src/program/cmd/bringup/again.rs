//! Bring-up on cards that an earlier run has left, or whose cable is pulled and plugged in; and on cards on which
//! something goes wrong at one step.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{Setup, Twin};
use conformance::part::Part;
use drivers::Front;
use drivers_bundle::{Bundle, explain};
use hcq::transport::Fault;
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::tap::Tap;
use twin::usb::{Trouble, What};

use super::climb::{Climb, Outcome};
use super::steps::{STEPS, Step, Times, climb, step};
use super::{kernels, queues, tensors};
use crate::program::error::Error;

/// A climb that has ended.
struct Climbed {
    steps: Vec<(&'static str, &'static str)>,
    /// What the last step failed with.
    said: String,
    outcome: Result<(), Error>,
}

impl Climbed {
    fn of(setup: &Setup, steps: &'static [Step]) -> Climbed {
        let (mut seen, mut said) = (Vec::new(), String::new());
        let times = Times::new(Some(Duration::from_secs(60)), true);
        let outcome = climb(setup, steps, times, |result| {
            seen.push((result.step.name, result.status()));
            said = result.error().map_or(String::new(), ToString::to_string);
            Ok(())
        });
        let steps = seen;
        Climbed {
            steps,
            said,
            outcome,
        }
    }

    /// It has failed at this step, as a device that is lost does.
    fn stopped_at(&self, name: &str) {
        let last = self.steps.last().unwrap();
        assert_eq!(*last, (name, "failed"), "{}", self.said);
        let is_lost = matches!(self.outcome, Err(Error::Step { code: 5, .. }));
        assert!(is_lost, "{:?}: {}", self.outcome, self.said);
    }

    /// The bundle that the error names.
    fn bundle(&self) -> Bundle {
        let named = self.said.split_once("[doorbell explain ");
        let (_, rest) = named.unwrap_or_else(|| panic!("no bundle: {}", self.said));
        Bundle::read(Path::new(rest.split(']').next().unwrap())).unwrap()
    }
}

/// A simulated device whose bundles go to a folder; none, which is said, where no firmware was fetched for it.
fn setup(dev: &str, twin: &str, bundles: &Path) -> Option<Setup> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("../../target/firmware/bookworm-backports");
    if !folder.is_dir() {
        println!(
            "skipped: {}: scripts/fetch firmware fetches it",
            folder.display()
        );
        return None;
    }
    let said = [
        ("HCQDEV_FIRMWARE", folder.display().to_string()),
        ("HCQDEV_BUNDLES", bundles.display().to_string()),
        ("TWIN", twin.to_owned()),
    ];
    let said = said.map(|(name, value)| [name.to_owned(), value]);
    Some(Setup::of_variables(Some(dev), &said, true).unwrap())
}

/// The first bridge of the simulated machine.
fn bridge(setup: &Setup) -> &Arc<twin::usb::Bridge> {
    match setup.twin() {
        Some(Twin::Usb(machine)) => machine.bridge(0).unwrap(),
        _ => panic!("no bridge"),
    }
}

/// From a look at the device to the training of digits, with little between.
static SHORT: [Step; 3] = [
    step("map", 30, queues::map, &[]),
    step("kernel", 10, kernels::kernel, &[]),
    step("training", 60, tensors::training, &[]),
];

#[test]
fn digits_are_learnt_cold_warm_and_plugged_in_again() {
    let folder = tempfile::tempdir().unwrap();
    let part = Part::chosen();
    let cards = [
        ("TWINUSB+AMD::gfx1201", "training=2,retries=1"),
        ("TWINUSB+AMD::gfx1100", "hops=1,power=on"),
        ("TWINUSB+AMD::gfx1200", "hops=2,speed=high"),
    ];
    for (i, (dev, twin)) in cards.into_iter().enumerate() {
        if !part.has(i, cards.len()) {
            continue;
        }
        let Some(setup) = setup(dev, twin, folder.path()) else {
            return;
        };
        for state in ["cold", "warm"] {
            let climbed = Climbed::of(&setup, &SHORT);
            assert!(climbed.outcome.is_ok(), "{dev}, {state}: {}", climbed.said);
        }
        bridge(&setup).unplug();
        let climbed = Climbed::of(&setup, &STEPS[..2]);
        assert_eq!(climbed.steps, [("probe", "failed")], "{}", climbed.said);
        bridge(&setup).plug();
        let climbed = Climbed::of(&setup, &SHORT);
        assert!(climbed.outcome.is_ok(), "{dev}, back: {}", climbed.said);
    }
}

/// Has one of the next transfers go wrong.
fn trouble(climb: &Climb, what: What) -> Result<Outcome, Error> {
    bridge(&climb.setup).inject(Trouble { after: 20, what });
    Ok(Outcome::Passed(Vec::new()))
}

fn unplugs(climb: &mut Climb) -> Result<Outcome, Error> {
    trouble(climb, What::Unplug)
}

fn stalls(climb: &mut Climb) -> Result<Outcome, Error> {
    trouble(climb, What::Stall)
}

fn cuts(climb: &mut Climb) -> Result<Outcome, Error> {
    trouble(climb, What::Short)
}

fn vanishes(climb: &mut Climb) -> Result<Outcome, Error> {
    trouble(climb, What::Vanish)
}

/// A step before which something goes wrong.
const fn spoilt(goes_wrong: fn(&mut Climb) -> Result<Outcome, Error>, last: Step) -> [Step; 3] {
    [
        step("map", 30, queues::map, &[]),
        step("spoil", 1, goes_wrong, &[]),
        last,
    ]
}

static SPOILT: [[Step; 3]; 8] = [
    spoilt(unplugs, step("signal", 5, queues::signal, &[])),
    spoilt(stalls, step("copy", 10, queues::copy, &[])),
    spoilt(vanishes, step("local", 10, kernels::local, &[])),
    spoilt(cuts, step("scratch", 10, kernels::scratch, &[])),
    spoilt(unplugs, step("queues", 10, queues::two, &[])),
    spoilt(stalls, step("graph", 10, queues::graph, &[])),
    spoilt(vanishes, step("matrix", 30, tensors::matrix, &[])),
    spoilt(unplugs, step("training", 60, tensors::training, &[])),
];

#[test]
fn a_cable_that_fails_stops_the_climb_where_it_does() {
    let folder = tempfile::tempdir().unwrap();
    for steps in &SPOILT {
        let Some(setup) = setup("TWINUSB+AMD::gfx1201", "", folder.path()) else {
            return;
        };
        let [_, _, last] = steps;
        let climbed = Climbed::of(&setup, steps);
        println!("{}: {}", last.name, climbed.said);
        climbed.stopped_at(last.name);
        let found = explain(&climbed.bundle());
        let is_gone = climbed.said.contains("the device is gone");
        let cause = if is_gone {
            "device-gone"
        } else {
            "usb-transfer"
        };
        assert_eq!(found.cause, cause, "{found}");
        assert!(climbed.said.contains("AMD:0") && climbed.said.contains("2-1"));
    }
}

/// Spoils what the host reads of memory, once it is told to.
struct Spoils;

static SPOILS: AtomicBool = AtomicBool::new(false);

impl Tap for Spoils {
    fn after(&self, _: &str, access: &Access, answer: &mut Result<Answer, Fault>) {
        if access.verb == Verb::BulkIn
            && SPOILS.load(Ordering::Relaxed)
            && let Ok(answer) = answer
            && let Some(byte) = answer.data.get_mut(33)
        {
            *byte ^= 0x10;
        }
    }
}

fn spoils(_: &mut Climb) -> Result<Outcome, Error> {
    SPOILS.store(true, Ordering::Relaxed);
    Ok(Outcome::Passed(Vec::new()))
}

static WRONG: [Step; 3] = spoilt(spoils, step("copy", 10, queues::copy, &[]));

#[test]
fn a_wrong_result_leaves_a_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let Some(setup) = setup("TWINUSB+AMD::gfx1201", "", folder.path()) else {
        return;
    };
    let climbed = Climbed::of(&setup.front(Front::before(Arc::new(Spoils))), &WRONG);
    assert_eq!(climbed.steps.last(), Some(&("copy", "failed")));
    assert!(climbed.said.contains("element 33 of"), "{}", climbed.said);
    let bundle = climbed.bundle();
    assert!(
        bundle.error.contains("bringup, step copy"),
        "{}",
        bundle.error
    );
    let found = explain(&bundle);
    assert_eq!(found.cause, "wrong-result", "{found}");
    assert!(found.evidence[0].contains("copy"), "{found}");
}
