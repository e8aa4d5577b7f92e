//! `doorbell twin exec`: programs that know nothing of simulated cards, on one.

use crate::place;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use place::Place;
use serde_json::Value;

const SOURCE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/twin/server/tests/client.c"
);

fn compile(place: &Place, flags: &[&str]) -> String {
    let program = place.path("work").join("client");
    let mut compiler = Command::new("cc");
    compiler.args(flags).args(["-pthread", "-o"]).arg(&program);
    assert!(compiler.arg(SOURCE).status().unwrap().success());
    program.to_str().unwrap().to_owned()
}

#[test]
fn a_program_runs_with_its_own_code_and_rules_make_it_fail() {
    let place = Place::new();
    let client = compile(&place, &[]);
    let run = |arguments: &[&str]| {
        let all = [&["twin", "exec", "--twin", "chip=gfx1030"], arguments].concat();
        place.run(&all, &[])
    };
    let files = run(&["--", &client, "files"]);
    assert_eq!((files.code, &*files.err), (0, ""), "{}", files.out);
    let code = run(&["--", &client, "code", "7"]);
    assert_eq!((code.code, &*code.err), (7, ""));
    // What a program starts is on the card, too, and what that broke counts.
    let child = run(&["--", "/bin/sh", "-c", "\"$0\" unknown; echo $?", &client]);
    assert_eq!((child.code, child.out.trim()), (1, "0"));
    assert!(
        child.err.contains("rule KFD-UNKNOWN-IOCTL"),
        "{}",
        child.err
    );

    let allow = ["--allow", "KFD-UNKNOWN-IOCTL"];
    let allowed = run(&[&allow[..], &["--", &client, "unknown"]].concat());
    assert_eq!(allowed.code, 0);
    assert!(allowed.err.contains("allowed"), "{}", allowed.err);
    let json = run(&["--json", "--", &client, "unknown"]);
    let journal: Value = serde_json::from_str(&json.err).unwrap();
    assert_eq!(journal["schema"], "doorbell.twin.journal/1");
    assert_eq!(journal["rows"][0]["rule"], "KFD-UNKNOWN-IOCTL");
    assert_eq!(journal["rows"][0]["times"], 1);
    let json = run(&["--json", "--", &client, "version"]);
    let journal: Value = serde_json::from_str(&json.err).unwrap();
    assert_eq!(journal["rows"], serde_json::json!([]));
    // The rule goes first where both fail.
    let abort = run(&[&allow[..], &["--", &client, "abort"]].concat());
    assert_eq!(abort.code, 128 + 6);
}

/// What a program breaks is kept, and the bundle names it.
#[test]
fn what_a_program_breaks_is_kept_and_explained() {
    let place = Place::new();
    let client = compile(&place, &[]);
    for (step, rule) in [
        ("unknown", "KFD-UNKNOWN-IOCTL"),
        ("mistake", "SDMA-FENCE-MTYPE"),
        ("wild", "GPU-PAGE-FAULT"),
    ] {
        let exec = [
            "twin",
            "exec",
            "--twin",
            "chip=gfx1030",
            "--",
            &client,
            step,
        ];
        let ran = place.run(&exec, &[]);
        assert_eq!(ran.code, 1, "{step}: {}", ran.err);
        let (_, path) = ran.err.split_once("doorbell explain ").unwrap();
        let home = place.path("home");
        let state = home.join(".local/state/doorbell");
        assert!(path.starts_with(state.to_str().unwrap()), "{path}");
        let told = place.run(&["explain", path.trim()], &[]);
        let cause = format!("Likely cause (rule-broken): it breaks the rule {rule}: ");
        assert!(told.out.starts_with(&cause), "{step}: {}", told.out);
        let json = place.run(&["explain", "--json", path.trim()], &[]);
        let rows = place::rows(&json, "doorbell.explain/1");
        assert_eq!(rows[0]["cause"], "rule-broken");
    }
    let allow = [
        "twin",
        "exec",
        "--allow",
        "KFD-UNKNOWN-IOCTL",
        "--",
        &client,
        "unknown",
    ];
    assert!(!place.run(&allow, &[]).err.contains("explain"));
    let none = ["twin", "exec", "--", &client, "unknown"];
    let none = place.run(&none, &[("HCQDEV_BUNDLES", "0")]);
    assert!(!none.err.contains("explain"), "{}", none.err);
    let other = place.run(&["explain", &client], &[]);
    assert_eq!(other.code, 2);
    assert!(other.err.contains("expected a bundle"), "{}", other.err);
}

#[test]
fn what_was_recorded_is_replayed() {
    let place = Place::new();
    let client = compile(&place, &[]);
    let run = |arguments: &[&str]| place.run(&[&["twin"], arguments].concat(), &[]);
    let exec = |record: &str, step: &str| {
        let machine = ["exec", "--twin", "chip=gfx1030", "--record"];
        run(&[&machine[..], &[record, "--", &client, step]].concat())
    };
    assert_eq!(exec("right", "copies").code, 0);
    let right = run(&["replay", "right"]);
    assert_eq!((right.code, &*right.err), (0, ""), "{}", right.out);
    assert!(
        right.out.contains(" calls of 1 processes, "),
        "{}",
        right.out
    );
    let show = run(&["replay", "--show", "right"]);
    for part in ["AMDKFD_IOC_CREATE_QUEUE ring_base_address=", "COPY_LINEAR"] {
        assert!(show.err.contains(part), "{part}: {}", show.err);
    }
    // What a program broke is broken again.
    assert_eq!(exec("wrong", "mistake").code, 1);
    let wrong = run(&["replay", "wrong"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.err.contains("rule SDMA-FENCE-MTYPE"), "{}", wrong.err);
    assert!(!wrong.out.contains("different"), "{}", wrong.out);
    let allowed = run(&["replay", "--allow", "SDMA-FENCE-MTYPE", "wrong"]);
    assert_eq!(allowed.code, 0);

    let file = place.path("work").join("right");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let cut = run(&["replay", "right"]);
    assert_eq!(cut.code, 1);
    let said = cut
        .out
        .contains("right is incomplete; it is good up to byte ");
    assert!(said && !cut.out.contains("different"), "{}", cut.out);
    std::fs::write(&file, "something").unwrap();
    let none = run(&["replay", "right"]);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("not a record"), "{}", none.err);
    let nowhere = exec("/no/such/folder/record", "copies");
    assert_eq!(nowhere.code, 2);
    assert!(
        nowhere.err.contains("/no/such/folder/record"),
        "{}",
        nowhere.err
    );
}

#[test]
fn who_is_told_to_end_says_what_was_broken() {
    let place = Place::new();
    let client = compile(&place, &[]);
    let mut command = place.command(&["twin", "exec", "--", &client, "wait"], &[]);
    let mut running = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let out = running.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    assert_eq!(line, "waits\n");
    let pid = running.id().to_string();
    let told = Command::new("kill").arg(&pid).status().unwrap();
    assert!(told.success());
    let ended = running.wait_with_output().unwrap();
    assert_eq!(
        (ended.status.code(), ended.status.signal()),
        (Some(1), None)
    );
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("rule KFD-UNKNOWN-IOCTL"), "{said}");
}

/// What is said where a program that says that it waits is told to end some time later.
fn ended_after(place: &Place, args: &[&str], ms: u64) -> String {
    let mut command = place.command(args, &[]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut out = BufReader::new(running.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "waits\n");
    std::thread::sleep(std::time::Duration::from_millis(ms));
    let pid = running.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(128 + 15));
    String::from_utf8(ended.stderr).unwrap()
}

/// A program that waits for what never comes breaks no rule: what the card has not done for it is kept.
#[test]
fn what_was_not_done_of_a_program_that_hangs_is_kept() {
    let place = Place::new();
    let client = compile(&place, &[]);
    let explained = |err: &str| {
        let (_, path) = err
            .split_once("doorbell explain ")
            .unwrap_or_else(|| panic!("{err}"));
        place.run(&["explain", path.trim()], &[]).out
    };
    for (what, config, cause, parts) in [
        (
            "poll",
            "chip=gfx1030",
            "signal-never-raised",
            &[
                "waits for memory at 0x100050000, which holds 0x0",
                "POLL_REGMEM",
                "== 0x7",
            ][..],
        ),
        (
            "event",
            "chip=gfx1030",
            "event-never-signalled",
            &["AMDKFD_IOC_WAIT_EVENTS", "event 1 is not signalled"],
        ),
        (
            "fence",
            "chip=gfx1030",
            "nothing-in-flight",
            &["it waits for work it never submitted"],
        ),
        (
            "poll",
            "chip=gfx1030,fault=hang:queue=0",
            "not-fetched",
            &["it hangs, as the config asks"],
        ),
    ] {
        // The card comes to the packet, or the program into the kernel, some time later.
        let args = [
            "twin", "exec", "--twin", config, "--", &client, "hang", what,
        ];
        let wanted = format!("Likely cause ({cause}): ");
        let mut told = String::new();
        let found = [100, 500, 2500, 12500].into_iter().any(|ms| {
            let said = ended_after(&place, &args, ms);
            assert!(said.contains("was told to stop (SIGTERM)"), "{said}");
            told = explained(&said);
            told.starts_with(&wanted) && parts.iter().all(|part| told.contains(part))
        });
        assert!(found, "{what}: {cause}: {parts:?}: {told}");
        println!("exec | {what}, {config} | {cause}");
    }
    let late = [
        "twin",
        "exec",
        "--twin",
        "chip=gfx1030",
        "--deadline",
        "1",
        "--",
        &client,
        "hang",
        "poll",
    ];
    let late = place.run(&late, &[]);
    assert_eq!(late.code, 124, "{}", late.err);
    assert!(late.err.contains("did not end within 1 s"), "{}", late.err);
    assert!(explained(&late.err).contains("0x100050000"));
    let well = [
        "twin",
        "exec",
        "--twin",
        "chip=gfx1030",
        "--deadline",
        "600",
        "--",
        &client,
        "copies",
    ];
    let well = place.run(&well, &[]);
    assert_eq!((well.code, &*well.err), (0, ""));
}

#[test]
fn a_program_finds_the_machine_by_its_own_variable() {
    let place = Place::new();
    let run = |config: &str, arguments: &[&str]| {
        let exec = ["twin", "exec", "--twin", config];
        place.run(&[&exec[..], arguments].concat(), &[])
    };
    // A machine that nobody has used is said.
    let idle = run("chip=a630", &["--", "/bin/true"]);
    assert_eq!(idle.code, 0);
    assert_eq!(
        idle.err,
        "note: /bin/true has opened no device of the simulated machine; programs with Doorbell's library do with DEV=QCOM\n"
    );
    let idle = run("chip=ad102", &["--", "/bin/true"]);
    assert!(idle.err.contains("DEV=NV"), "{}", idle.err);
    let json = run("chip=a630", &["--json", "--", "/bin/true"]);
    assert!(!json.err.contains("note: "), "{}", json.err);
    let used = run("chip=a630", &["--", "/bin/sh", "-c", ": < /dev/kgsl-3d0"]);
    assert_eq!((used.code, &*used.err), (0, ""));

    let told = ["--", "/bin/sh", "-c", "echo $DEV"];
    let told = run("chip=a630", &[&["--dev", "KGSL+QCOM"], &told[..]].concat());
    assert_eq!((told.code, &*told.out), (0, "KGSL+QCOM\n"));
    let dev = ["--dev", "TWINKGSL+QCOM::a630", "--", "/bin/true"];
    let refused = run("chip=a630", &dev);
    assert_eq!(refused.code, 2);
    assert!(
        refused
            .err
            .contains("expected a device as the program names it"),
        "{}",
        refused.err
    );
}

#[test]
fn what_cannot_be_run_is_refused() {
    let place = Place::new();
    let client = compile(&place, &["-static"]);
    let run = |arguments: &[&str]| place.run(&[&["twin", "exec"], arguments].concat(), &[]);
    let refused = run(&["--", &client, "version"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("statically linked"), "{}", refused.err);
    let missing = run(&["--", "no-such-program"]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("not found in PATH"), "{}", missing.err);
    let wrong = run(&["--twin", "chip=gfx1", "--", "/bin/true"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("chip"), "{}", wrong.err);
    // The chips of all vendors.
    for known in ["gfx1030", "ad102", "a630"] {
        assert!(wrong.err.contains(known), "{known}: {}", wrong.err);
    }
    let blind = run(&["--twin", "chip=a630,pages=cached", "--", "/bin/true"]);
    assert_eq!(blind.code, 2);
    assert!(blind.err.contains("pages=cached"), "{}", blind.err);
}
