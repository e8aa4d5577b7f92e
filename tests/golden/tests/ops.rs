//! Every operator against the references, on every engine there is.
#![allow(clippy::unwrap_used)] // A test may panic.

use std::cell::Cell;
use std::collections::BTreeSet;

use golden::engines::{self, Rig};
use golden::manifest::References;
use golden::suite::run_suite;

/// One test per engine and group, so that a failing group leaves the others visible. A new device
/// takes one function in `engines` and its name here. On some, every tenth case of a group runs.
macro_rules! suites {
    ([$($engine:ident)*] tenth [$($part:ident)*] $groups:tt) => {
        $(suites!(engine $engine 1 $groups);)*
        $(suites!(engine $part 10 $groups);)*
        suites!(names $groups);
    };
    (engine $engine:ident $step:literal [$($group:ident)*]) => {
        mod $engine {
            $(#[test]
            fn $group() {
                super::check(super::engines::$engine().unwrap(), stringify!($group), $step);
            })*
        }
    };
    (names [$($group:ident)*]) => {
        const GROUPS: &[&str] = &[$(stringify!($group)),*];
    };
}

suites! {
    [reference interpreter cpu gfx1100 gfx1201] tenth [gfx1030 gfx942 gfx1100_remote]
    [
        activation attention binary cast choice conv create index integer linalg loss movement norm
        optim order pool position promote random reduce scan softmax spread unary
    ]
}

fn check(rig: Rig, group: &str, step: usize) {
    let number = Cell::new(0usize);
    let report = run_suite(&rig.engine, |g, _| {
        g.name == group && {
            let n = number.replace(number.get() + 1);
            n.is_multiple_of(step)
        }
    })
    .unwrap();
    assert!(report.cases > 0, "no cases in group {group}");
    assert!(report.failures.is_empty(), "{report}");
    rig.finish().unwrap();
}

#[test]
fn every_group_has_a_test() {
    let references = References::open(&References::folder()).unwrap();
    assert_eq!(references.header.schema, "doorbell.references/1");
    let found: BTreeSet<&str> = references.groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(found, GROUPS.iter().copied().collect());
}
