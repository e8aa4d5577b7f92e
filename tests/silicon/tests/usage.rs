//! What the program says when it is called wrongly, or where there is no card.
//!
//! That it is tested at all has it built with what the workspace has, for scripts/silicon-nv.
#![allow(clippy::unwrap_used)]

use std::process::Command;

/// Runs it on a device; its exit code, and what it says.
fn trial(arguments: &[&str], dev: &str) -> (Option<i32>, String) {
    trial_with(arguments, &[("DEV", dev)])
}

fn trial_with(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_trial"))
        .args(arguments)
        .envs(variables.iter().copied())
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

#[test]
fn kernels_are_packed_for_chips_that_are_named() {
    let folder = std::env::temp_dir().join(format!("doorbell-kernels-{}", std::process::id()));
    let to = folder.to_str().unwrap();
    let (code, said) = trial(&["kernels", to, "gfx1100", "gfx942"], "CPU");
    assert_eq!(code, Some(0), "{said}");
    for chip in ["gfx1100", "gfx942"] {
        let object = std::fs::read(folder.join(format!("{chip}.o"))).unwrap();
        assert!(object.starts_with(b"\x7fELF"));
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let (code, said) = trial(&["kernels", to, "gfx1"], "CPU");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("gfx1"), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_card_that_is_not_there_is_not_sent_astray() {
    let (code, said) = trial(&["stray"], "PCI:7+AMD");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("AMD"), "{said}");
}

#[test]
fn every_card_copies_between_the_memory_of_all() {
    for (dev, gpus, copies) in [
        ("TWINPCI+AMD::gfx1201", "2", "32 held, 0 failed"),
        ("TWINKFD+AMD::gfx1100", "3", "108 held, 0 failed"),
        ("TWINNVK+NV::sm_89", "2", "32 held, 0 failed"),
    ] {
        let machine = format!("gpus={gpus}");
        let variables = [("DEV", dev), ("TWIN", &*machine)];
        let (code, said) = trial_with(&["peers", "--all", "--gpus", gpus], &variables);
        assert!(
            code == Some(0) && said.contains(copies),
            "{dev}: {code:?} {said}"
        );
    }
    // There is one.
    let (code, said) = trial(&["peers"], "TWINKFD+AMD::gfx1100");
    assert!(code == Some(2) && said.contains("GPU"), "{code:?} {said}");
}
