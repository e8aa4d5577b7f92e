//! Deliberate bugs in our driver, each named by the twin: what a test of it must be able to see.
#![allow(clippy::unwrap_used)] // A test may panic.

#[path = "mutations/dispatches.rs"]
mod dispatches;
#[path = "mutations/memory.rs"]
mod memory;
#[path = "mutations/mutant.rs"]
mod mutant;
#[path = "mutations/packets.rs"]
mod packets;
mod stand;

use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::part::Part;
use drivers_qcom::{Options, kgsl, msm};
use hcq::transport::Machine;
use hcq::transport::tap::Tapped;
use twin_qcom::machine::TwinMachine;

use mutant::{Bug, CallBug, How, Mutant};

/// How long what a bug stops is waited for.
const PATIENCE: Duration = Duration::from_millis(400);

/// Of this many bugs one runs, unless all are asked for.
const PARTS: usize = 4;

/// A GPU behind a kernel driver.
#[derive(Clone, Copy)]
struct Way {
    config: &'static str,
    is_msm: bool,
}

const A630: Way = Way {
    config: "chip=a630,timeout=300",
    is_msm: false,
};

/// With a newer kernel.
const NEWER: Way = Way {
    config: "chip=a630,version=5.15,timeout=300",
    is_msm: false,
};

/// With LPAC, over the other kernel driver.
const A660: Way = Way {
    config: "chip=a660,kernel=msm,timeout=300",
    is_msm: true,
};

/// The rules that are broken with a bug.
fn broken(way: Way, bug: Option<&Bug>) -> (Vec<&'static str>, hcq::Result<bool>) {
    let twin = TwinMachine::new(way.config).unwrap();
    let mut machine: Arc<dyn Machine> = twin.clone();
    if let Some(Bug {
        how: How::Call(name, edit),
        ..
    }) = bug
    {
        let tap = CallBug { name, edit: *edit };
        machine = Tapped::machine(machine, Arc::new(tap));
    }
    let options = Options {
        ring_timeout: PATIENCE,
        drain_timeout: PATIENCE,
        ..Options::default()
    };
    let opened = match way.is_msm {
        true => msm::open(&machine, 0),
        false => kgsl::open(&machine, 0, &options),
    };
    let done = opened.and_then(|backend| {
        let backend = match bug {
            None => backend,
            Some(bug) => Mutant::over(backend, bug.how),
        };
        let limit = bug.map_or(Duration::from_secs(20), |_| PATIENCE);
        stand::work(&backend, &options, limit)
    });
    // A machine under load is slow: what the bug is named for may come late.
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let broken = twin.machine().broken_rules();
        let expected = bug.is_none_or(|bug| broken.contains(&bug.rule));
        if expected || Instant::now() > end {
            return (broken, done);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn without_a_bug_no_rule_is_broken() {
    for way in [A630, NEWER, A660] {
        let (broken, done) = broken(way, None);
        assert!(broken.is_empty(), "{}: {broken:?}, {done:?}", way.config);
        assert!(done.unwrap(), "{}: the results are wrong", way.config);
    }
}

/// Of the bugs those of this part.
fn every_bug_is_named(way: Way, bugs: &[Bug]) {
    let (part, mut missed) = (Part::chosen(), Vec::new());
    let of_part = bugs.iter().enumerate().filter(|(i, _)| part.has(*i, PARTS));
    for (_, bug) in of_part {
        let (broken, done) = broken(way, Some(bug));
        if !broken.contains(&bug.rule) {
            let (what, rule) = (bug.what, bug.rule);
            missed.push(format!(
                "{what}: {rule} is not broken, but {broken:?}; {done:?}"
            ));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn bugs_of_packets_are_named() {
    every_bug_is_named(A630, packets::BUGS);
}

#[test]
fn bugs_with_a_newer_kernel_are_named() {
    every_bug_is_named(NEWER, memory::NEWER);
}

// In two, so that they run beside each other.
#[test]
fn bugs_of_dispatches_are_named_one() {
    every_bug_is_named(
        A630,
        dispatches::BUGS.split_at(dispatches::BUGS.len() / 2).0,
    );
}

#[test]
fn bugs_of_dispatches_are_named_two() {
    every_bug_is_named(
        A630,
        dispatches::BUGS.split_at(dispatches::BUGS.len() / 2).1,
    );
}

#[test]
fn bugs_of_memory_are_named() {
    every_bug_is_named(A630, memory::BUGS);
}

#[test]
fn bugs_of_chips_with_lpac_are_named() {
    every_bug_is_named(A660, dispatches::WITH_LPAC);
}

#[test]
fn there_are_sixty_bugs() {
    let all = [
        packets::BUGS,
        dispatches::BUGS,
        dispatches::WITH_LPAC,
        memory::BUGS,
    ];
    let count: usize = all.iter().map(|bugs| bugs.len()).sum();
    assert!(count >= 60, "{count}");
}
