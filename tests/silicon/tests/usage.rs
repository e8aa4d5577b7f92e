//! What the program says when it is called wrongly, or where there is no card.
//!
//! That it is tested at all has it built with what the workspace has, for scripts/silicon-nv.
#![allow(clippy::unwrap_used)]

use std::process::Command;

/// Runs it on a device; its exit code, and what it says.
fn trial(arguments: &[&str], dev: &str) -> (Option<i32>, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_trial"))
        .args(arguments)
        .env("DEV", dev)
        .output()
        .unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    (ran.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn suites_that_are_none_and_devices_that_are_none_are_named() {
    let (code, said) = trial(&["everything"], "CPU");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("everything"), "{said}");
    let (code, said) = trial(&["operators", "--every", "0"], "CPU");
    assert_eq!(code, Some(2), "{said}");
    let (code, said) = trial(&["conformance"], "TWINNVK+NV::sm_1");
    assert!(code != Some(0) && said.contains("sm_1"), "{code:?} {said}");
}
