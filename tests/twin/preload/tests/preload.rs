//! A program of C, which knows nothing of the twin, with the library preloaded.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// The library, which is built with these tests.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().unwrap().join("libdoorbell_preload.so");
    assert!(built.exists(), "{}", built.display());
    built
}

/// A program, compiled into a folder.
fn client(folder: &Path, source: &str) -> PathBuf {
    let program = folder.join("client");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let mut compiler = Command::new("cc");
    compiler.args(["-pthread", "-o"]).arg(&program).arg(source);
    assert!(compiler.status().unwrap().success());
    program
}

/// Runs a step, on a machine, with a record; without a step, a whole session of a driver.
fn run(config: Option<&str>, record: Option<&Path>, step: &[&str]) -> Output {
    let folder = TempDir::new().unwrap();
    let source = match step.is_empty() {
        true => "tests/session.c",
        false => "tests/client.c",
    };
    let mut command = Command::new(client(folder.path(), source));
    command.args(step).env("LD_PRELOAD", library());
    command.env_remove("DOORBELL_TWIN_CONFIG");
    if let Some(config) = config {
        command.env("DOORBELL_TWIN_CONFIG", config);
    }
    if let Some(record) = record {
        command.env("DOORBELL_RECORD", record);
    }
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const TWO: &str = "chip=ad102,gpus=2,driver=550";

#[test]
#[cfg_attr(not(feature = "nv"), ignore = "the library has no machine")]
fn files_of_a_machine_are_files() {
    let done = run(Some(TWO), None, &["files"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stdout));
    assert_eq!(text(&done.stderr), "");
    let done = run(Some(TWO), None, &["thread"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stdout));
}

#[test]
#[cfg_attr(not(feature = "nv"), ignore = "the library has no machine")]
fn a_process_that_breaks_a_rule_fails_and_says_which() {
    let right = run(Some(TWO), None, &["version", "550.163.01"]);
    assert_eq!(
        (right.status.code(), text(&right.stdout)),
        (Some(0), "0 1\n")
    );
    let wrong = run(Some(TWO), None, &["version", "1.2"]);
    assert_eq!(
        (wrong.status.code(), text(&wrong.stdout)),
        (Some(1), "-1 0\n")
    );
    assert!(
        text(&wrong.stderr).contains("rule NV-VERSION"),
        "{}",
        text(&wrong.stderr)
    );
    // A child has neither the machine nor its report.
    let child = run(Some(TWO), None, &["fork", "1.2"]);
    assert_eq!(child.status.code(), Some(1), "{}", text(&child.stdout));
    assert_eq!(text(&child.stderr).matches("rule NV-VERSION").count(), 1);
}

#[test]
#[cfg_attr(not(feature = "nv"), ignore = "the library has no machine")]
fn a_process_that_aborts_says_what_it_broke() {
    let done = run(Some(TWO), None, &["abort"]);
    assert_eq!(done.status.signal(), Some(libc::SIGABRT));
    assert!(
        text(&done.stderr).contains("rule NV-VERSION"),
        "{}",
        text(&done.stderr)
    );
}

#[test]
#[cfg_attr(not(feature = "nv"), ignore = "the library has no machine")]
fn a_config_that_is_wrong_is_named() {
    let done = run(Some("chip=x"), None, &["files"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(
        text(&done.stderr).contains("chip=x: expected"),
        "{}",
        text(&done.stderr)
    );
}

#[test]
#[cfg_attr(not(feature = "nv"), ignore = "the library has no machine")]
fn calls_are_recorded() {
    let folder = TempDir::new().unwrap();
    let record = folder.path().join("record");
    let done = run(Some(TWO), Some(&record), &["version", "550.163.01"]);
    assert_eq!(done.status.code(), Some(0));
    let lines = std::fs::read_to_string(&record).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let calls: Vec<&str> = lines
        .iter()
        .map(|line| line["call"].as_str().unwrap())
        .collect();
    assert_eq!(calls, ["begin", "open", "ioctl"]);
    assert_eq!(lines[0]["driver"], "550.163.01");
    let ioctl = &lines[2];
    assert_eq!(
        (&ioctl["name"], &ioctl["returned"]),
        (&"NV_ESC_CHECK_VERSION_STR".into(), &0.into())
    );
    let part = &ioctl["parts"][0];
    let (before, after) = (
        part["before"].as_str().unwrap(),
        part["after"].as_str().unwrap(),
    );
    assert_eq!(
        (before.len(), &before[8..16], &after[8..16]),
        (144, "00000000", "01000000")
    );
}

#[cfg(not(feature = "nv"))]
#[test]
fn a_config_needs_a_machine() {
    let done = run(Some(TWO), None, &["files"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(
        text(&done.stderr).contains(
            "this library has no machine of its own: run the program by `doorbell twin exec`"
        ),
        "{}",
        text(&done.stderr)
    );
}

#[test]
fn without_a_machine_and_a_record_nothing_is_changed() {
    let done = run(None, None, &["version", "1"]);
    // Whatever this host has: the library says nothing.
    assert_eq!((done.status.code(), text(&done.stderr)), (Some(0), ""));
}

/// Rings, USERD and push buffers are in the record as they were at the mark.
#[test]
#[cfg_attr(not(feature = "nv"), ignore = "the library has no machine")]
fn memory_that_is_shared_is_recorded() {
    let folder = TempDir::new().unwrap();
    let record = folder.path().join("record");
    let done = run(Some("chip=h100,driver=580"), Some(&record), &[]);
    assert_eq!(
        (done.status.code(), text(&done.stdout), text(&done.stderr)),
        (Some(0), "released\n", "")
    );
    let lines = std::fs::read_to_string(&record).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut memory = std::collections::BTreeMap::new();
    for line in lines.iter().filter(|line| line["mark"] == "released") {
        assert_eq!(line["file"], "/dev/nvidia0");
        let (at, hex) = (
            line["at"].as_u64().unwrap(),
            line["bytes"].as_str().unwrap(),
        );
        for (i, pair) in (0..hex.len()).step_by(2).enumerate() {
            let byte = u8::from_str_radix(&hex[pair..pair + 2], 16).unwrap();
            memory.insert(at + i as u64, byte);
        }
    }
    let word = |at: u64| {
        (0..4).fold(0, |word, i| {
            word | u32::from(memory.get(&(at + i)).copied().unwrap_or(0)) << (8 * i)
        })
    };
    const RING: u64 = 0x10_0000_0000;
    let entry = [word(RING), word(RING + 4)];
    assert_eq!(entry, [0x2_0000, 0x10 | 8 << 10], "the entry of the ring");
    let push: Vec<u32> = (0..6).map(|i| word(RING + 0x2_0000 + 4 * i)).collect();
    assert_eq!(push, [0x2005_0017, 0x10_0000, 0x10, 0x600d, 0, 0x100_0001]);
    assert_eq!(word(RING + 0x1_008c), 1, "GPPut");
    assert_eq!(word(RING + 0x10_0000), 0x600d, "the semaphore");
    // Once it is unmapped nobody looks there.
    let unmapped = lines
        .iter()
        .position(|line| line["call"] == "munmap")
        .unwrap();
    let later = &lines[unmapped..];
    assert!(
        later
            .iter()
            .all(|line| line["at"].as_u64() < Some(RING) || line["call"] == "munmap")
    );
}
