//! What programs did, done again without them.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use twin::record::Record;
use twin::wire::{self, Kind};
use twin_server::{Replay, Server, replay, text};

/// The library, which is built with these tests.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().unwrap().join("libdoorbell_preload.so");
    assert!(built.exists(), "{}", built.display());
    built
}

/// A machine whose record is being written, and the program.
struct Recorded {
    folder: TempDir,
    server: Server,
    program: PathBuf,
}

impl Recorded {
    fn new(config: &str) -> Recorded {
        Recorded::of(config, "tests/client.c")
    }

    fn of(config: &str, source: &str) -> Recorded {
        let folder = TempDir::new().unwrap();
        let program = folder.path().join("client");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let mut compiler = Command::new("cc");
        compiler.args(["-pthread", "-o"]).arg(&program).arg(source);
        assert!(compiler.status().unwrap().success());
        let server = Server::recorded(config, &folder.path().join("record")).unwrap();
        Recorded {
            folder,
            server,
            program,
        }
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("LD_PRELOAD", library());
        command.env(wire::VARIABLE, self.server.folder());
        command.stdout(Stdio::piped()).spawn().unwrap()
    }

    fn run(&self, arguments: &[&str]) {
        let output = self.start(arguments).wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{arguments:?}: {said}");
    }

    /// The record, and the rules that were broken.
    fn end(self) -> (Vec<u8>, Vec<String>) {
        self.server.finish().unwrap();
        let broken = self.server.violations();
        let broken = broken
            .iter()
            .map(|one| format!("{}: {}", one.rule.name, one.what));
        (
            fs::read(self.folder.path().join("record")).unwrap(),
            broken.collect(),
        )
    }
}

fn recorded(config: &str, arguments: &[&str]) -> (Vec<u8>, Vec<String>) {
    let recorded = Recorded::new(config);
    recorded.run(arguments);
    recorded.end()
}

fn read(bytes: &[u8]) -> Record {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("record");
    fs::write(&path, bytes).unwrap();
    Record::read(&path).unwrap()
}

fn again(record: &Record) -> Replay {
    replay(record, "", &mut |_, _| {}).unwrap()
}

fn same(replay: &Replay, broken: &[String]) {
    let rules = replay.violations.iter();
    let rules: Vec<String> = rules
        .map(|one| format!("{}: {}", one.rule.name, one.what))
        .collect();
    assert_eq!(
        (&*replay.differences, &*rules),
        (&[][..], broken),
        "{replay:?}"
    );
}

#[test]
fn devices_write_the_same_again() {
    for config in ["chip=gfx1030", "chip=gfx1201,seed=7"] {
        let (bytes, broken) = recorded(config, &["copies"]);
        assert!(broken.is_empty(), "{broken:?}");
        let record = read(&bytes);
        assert_eq!(record.cut, None);
        let first = again(&record);
        same(&first, &broken);
        // What 20 rounds of copies and fences change at least, in two places.
        assert!(first.same >= 20 * 2 * 64, "{first:?}");
        assert!((first.processes, first.unended, first.other) == (1, 0, 0) && first.calls > 20);
        let second = again(&record);
        assert_eq!(
            (first.moment, first.same, first.taken),
            (second.moment, second.same, second.taken)
        );
    }
}

#[test]
fn nvidia_s_devices_write_the_same_again() {
    // A channel that releases a semaphore: what it writes, and how far it is.
    let recorded = Recorded::of("chip=h100,driver=580", "../preload/tests/session.c");
    recorded.run(&[]);
    let (bytes, broken) = recorded.end();
    let record = read(&bytes);
    assert_eq!(record.cut, None);
    let replay = again(&record);
    same(&replay, &broken);
    assert!(replay.same > 0 && replay.moment.rounds > 0, "{replay:?}");
    let lines = said(&bytes);
    for expected in [
        "RM_ALLOC of HOPPER_COMPUTE_A hRoot=0x",
        "REGISTER_CHANNEL gpuUuid=",
        "doorbells, file ",
    ] {
        assert!(lines.contains(expected), "{expected}: {lines}");
    }
}

#[test]
fn a_mistake_breaks_the_same_rule_again() {
    let (bytes, broken) = recorded("chip=gfx1030", &["mistake"]);
    assert!(
        broken.iter().any(|one| one.starts_with("SDMA-FENCE-MTYPE")),
        "{broken:?}"
    );
    same(&again(&read(&bytes)), &broken);
}

#[test]
fn what_devices_do_otherwise_is_named() {
    let (bytes, _) = recorded("chip=gfx1030", &["copies", "3"]);
    let right = read(&bytes);
    let differences = |change: &dyn Fn(&mut Record)| {
        let mut record = read(&bytes);
        change(&mut record);
        again(&record).differences.join("\n")
    };
    // What a program wrote, and so what is copied from there.
    let source = |record: &mut Record, byte: u8| {
        let value = 3000_u32.to_le_bytes();
        let frames = record
            .frames
            .iter_mut()
            .filter(|one| one.kind == Kind::Memory);
        for frame in frames {
            let found = frame.bytes.windows(4).position(|word| word == value);
            if let Some(at) = found {
                frame.bytes[at] ^= byte;
                return;
            }
        }
        panic!("3000 is nowhere");
    };
    let memory = differences(&|record| source(record, 1));
    assert!(
        memory.contains("memory: ") && memory.contains("in the record it is"),
        "{memory}"
    );
    let answer = differences(&|record| {
        let frames = record.frames.iter_mut();
        let mut answers = frames.filter(|one| one.kind == Kind::Write);
        answers.next().unwrap().bytes[0] ^= 1;
    });
    assert!(
        answer.contains("calls: call") && answer.contains("answers other bytes"),
        "{answer}"
    );
    let rule = differences(&|record| {
        let mut broken = record.frames.last().unwrap().clone();
        broken.kind = Kind::Broken;
        broken.bytes = b"SOME-RULE\nsomething".to_vec();
        record.frames.insert(0, broken);
    });
    assert!(
        rule.contains("rules: broken 0 times, in the record 1 times: SOME-RULE"),
        "{rule}"
    );
    let seed = differences(&|record| record.config += ",kfd=1.6");
    assert!(seed.contains("answers other bytes"), "{seed}");
    assert_eq!(again(&right).differences, [""; 0]);
}

#[test]
fn processes_that_share_memory_do_so_again() {
    let (bytes, broken) = recorded("chip=gfx1201", &["processes"]);
    let replay = again(&read(&bytes));
    same(&replay, &broken);
    // The program, its child, and what that became.
    assert_eq!(replay.processes, 3);
    let (bytes, broken) = recorded("chip=gfx1100", &["own"]);
    same(&again(&read(&bytes)), &broken);
}

#[test]
fn a_program_that_is_killed_leaves_a_record() {
    let recorded = Recorded::new("chip=gfx1030");
    let path = recorded.folder.path().join("record");
    let mut running = recorded.start(&["copies", "1000000"]);
    // It has gone on for a while.
    while fs::metadata(&path).unwrap().len() < 100_000 {
        assert_eq!(running.try_wait().unwrap(), None);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // As it would be found if the machine ended now.
    let early = read(&fs::read(&path).unwrap());
    assert!(early.cut.is_some());
    assert_eq!(again(&early).differences, [""; 0]);
    running.kill().unwrap();
    running.wait().unwrap();
    let (bytes, broken) = recorded.end();
    let record = read(&bytes);
    assert_eq!(record.cut, None);
    same(&again(&record), &broken);
}

fn said(bytes: &[u8]) -> String {
    let record = read(bytes);
    let drivers = text::drivers(&record.config);
    let mut lines = String::new();
    let mut tell = |frame: &_, about: &[&_]| {
        if let Some(line) = text::line(drivers, frame, about) {
            lines += &format!("{line}\n");
        }
    };
    replay(&record, "", &mut tell).unwrap();
    lines
}

#[test]
fn what_is_in_it_can_be_read() {
    let (bytes, _) = recorded("chip=gfx1030", &["copies", "1"]);
    let lines = said(&bytes);
    for expected in [
        "process 1: begins",
        "process 1: open /dev/kfd as ",
        "AMDKFD_IOC_ACQUIRE_VM drm_fd=0x",
        "AMDKFD_IOC_CREATE_QUEUE ring_base_address=0x100000000 write_pointer_address=0x100020000",
        "doorbells, file ",
        "process 1: ends",
        "the end, after ",
    ] {
        assert!(lines.contains(expected), "{expected}: {lines}");
    }
    assert!(!lines.contains("did not end"), "{lines}");
}

/// A record is of a machine as it was; it does not say what this one writes.
#[test]
fn a_record_names_no_file_that_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let record = Record {
        config: format!("chip=gfx1030,log={}", path.display()),
        frames: Vec::new(),
        cut: None,
    };
    let error = twin_server::replay(&record, "", &mut |_, _| ())
        .map(drop)
        .unwrap_err();
    assert!(
        error.contains("is nothing that a record may say"),
        "{error}"
    );
    assert!(!path.exists());
}
