//! Every operator against the references, on every engine there is.
#![allow(clippy::unwrap_used)] // A test may panic.

use std::collections::BTreeSet;

use golden::engines;
use golden::manifest::References;
use golden::suite::run_suite;
use tensor::Engine;

/// One test per engine and group, so that a failing group leaves the others visible. A new device
/// takes one function in `engines` and its name here.
macro_rules! suites {
    ([$($engine:ident)*] $groups:tt) => {
        $(suites!(engine $engine $groups);)*
        suites!(names $groups);
    };
    (engine $engine:ident [$($group:ident)*]) => {
        mod $engine {
            $(#[test]
            fn $group() {
                super::check(&super::engines::$engine().unwrap(), stringify!($group));
            })*
        }
    };
    (names [$($group:ident)*]) => {
        const GROUPS: &[&str] = &[$(stringify!($group)),*];
    };
}

suites! {
    [reference interpreter cpu]
    [
        activation attention binary cast choice conv create index integer linalg loss movement norm
        optim order pool position promote random reduce scan softmax spread unary
    ]
}

fn check(engine: &Engine, group: &str) {
    let report = run_suite(engine, |g, _| g.name == group).unwrap();
    assert!(report.cases > 0, "no cases in group {group}");
    assert!(report.failures.is_empty(), "{report}");
}

#[test]
fn every_group_has_a_test() {
    let references = References::open(&References::folder()).unwrap();
    assert_eq!(references.header.schema, "doorbell.references/1");
    let found: BTreeSet<&str> = references.groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(found, GROUPS.iter().copied().collect());
}
