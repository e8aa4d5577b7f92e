//! A program of C, which knows nothing of the twin, on a machine in this process.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use twin::wire;
use twin_server::Server;

/// The library, which is built with these tests.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().unwrap().join("libdoorbell_preload.so");
    assert!(built.exists(), "{}", built.display());
    built
}

/// A program, compiled into a folder.
fn client(folder: &Path, name: &str) -> PathBuf {
    let program = folder.join("client");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let source = tests.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-pthread", "-o"]).arg(&program).arg(source);
    assert!(compiler.status().unwrap().success());
    program
}

/// Runs a step; the rules that it broke.
fn run(config: &str, step: &str) -> (Output, Vec<&'static str>) {
    run_of("client.c", config, step)
}

fn run_of(name: &str, config: &str, step: &str) -> (Output, Vec<&'static str>) {
    let folder = TempDir::new().unwrap();
    let server = Server::start(config).unwrap();
    let mut command = Command::new(client(folder.path(), name));
    command.arg(step).env("LD_PRELOAD", library());
    command.env(wire::VARIABLE, server.folder());
    let output = command.output().unwrap();
    server.finish().unwrap();
    let broken = server.violations();
    (output, broken.iter().map(|one| one.rule.name).collect())
}

fn right(config: &str, step: &str) {
    right_of("client.c", config, step);
}

fn right_of(name: &str, config: &str, step: &str) {
    let (output, broken) = run_of(name, config, step);
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{step}: {said}{errors}");
    assert!(broken.is_empty(), "{step}: {broken:?}");
}

#[test]
fn files_of_the_machine_are_files() {
    right("chip=gfx1030", "files");
}

#[test]
fn memory_of_a_process_stays_its_own() {
    right("chip=gfx1100", "own");
}

#[test]
fn memory_that_is_given_out_again_is_new() {
    right("chip=gfx1030", "again");
}

#[test]
fn children_are_processes_on_the_same_card() {
    right("chip=gfx1201", "processes");
}

#[test]
fn what_a_process_broke_is_known_however_it_ends() {
    for step in ["leave", "abort", "unknown"] {
        let (_, broken) = run("chip=gfx942,xcc=1", step);
        assert_eq!(broken, ["KFD-UNKNOWN-IOCTL"], "{step}");
    }
}

#[test]
fn qualcomm_s_kernel_drivers_have_a_gpu() {
    right_of("adreno.c", "chip=a630", "kgsl");
    right_of("adreno.c", "chip=a660,kernel=msm", "msm");
}

#[test]
fn a_config_that_is_wrong_is_named() {
    let wrong = Server::start("chip=x").err().unwrap();
    assert!(wrong.contains("chip"), "{wrong}");
}
