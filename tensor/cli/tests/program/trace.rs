//! Recordings of what is done to a device: taken, shown, compared, and run from with nothing behind them.

use crate::place;

use std::fmt::Write;
use std::time::Duration;

use doorbell::{Front, Setup, Tensor};
use drivers::trace::recording::{Origin, Recording};
use hcq::transport::trace::{Trace, TraceLog};
use hcq::{AllocSpec, Command, Deadline, MemoryKind, QueueKind, Stream, Val};
use place::{Place, rows, succeed};

const CARD: &str = "TWINPCI+AMD::gfx1201";
/// Work whose amount does not depend on time.
const DEMO: [&str; 7] = ["demo", "--epochs", "1", "--steps", "1", "--at-least", "0"];

#[test]
fn what_a_command_does_is_recorded_shown_and_done_again() {
    let place = Place::new();
    let read = ["--", "regs", "read", "SCRATCH_REG7", "GRBM_GFX_CNTL"];
    let record = [&["--dev", CARD, "trace", "record", "first"], &read[..]].concat();
    let recorded = succeed(&place, &record, &[]);
    let again = place.run(&record, &[]);
    assert!(
        again.code == 1 && again.err.contains("first: File exists"),
        "{}",
        again.err
    );

    let show = succeed(&place, &["trace", "show", "first"], &[]).out;
    for part in [
        "machine   machine: open name=0000:03:00.0",
        "bus       0000:03:00.0: read config 0x4",
        "GFX       0000:03:00.0: read GC0.SCRATCH_REG7(0x00000000)",
        "bus       0000:03:00.0: read NBIF0.RCC_CONFIG_MEMSIZE(",
        "read VRAM 0x",
    ] {
        assert!(show.contains(part), "{part}: {show}");
    }
    let json = place.run(&["trace", "show", "--json", "--stage", "gfx", "first"], &[]);
    let gfx = rows(&json, "doorbell.trace/1");
    assert_eq!(gfx.len(), 2);
    assert_eq!(gfx[1]["device"], "0000:03:00.0");
    let summary = succeed(&place, &["trace", "show", "--summary", "first"], &[]).out;
    assert!(
        summary.contains(" registers with names") && !summary.contains(" 0 registers with names"),
        "{summary}"
    );

    let replayed = succeed(&place, &["trace", "replay", "first"], &[]);
    assert_eq!(replayed.out, recorded.out);
    assert!(
        replayed
            .err
            .contains("the driver made exactly the recorded accesses"),
        "{}",
        replayed.err
    );
    // Another answer, another access, or the end too early.
    let path = place.path("work").join("first");
    let text = std::fs::read_to_string(&path).unwrap();
    let at = text.rfind(" read bar=0x5").unwrap();
    let other = text[..at].to_owned() + &text[at..].replacen("offset=0x", "offset=0x1", 1);
    std::fs::write(place.path("work").join("other"), other).unwrap();
    let failed = place.run(&["trace", "replay", "other"], &[]);
    assert_eq!(failed.code, 1);
    assert!(
        failed
            .err
            .contains("other: the driver now differs from the recording: "),
        "{}",
        failed.err
    );
    let nothing = place.run(&["trace", "record", "x", "--", "explain", "x"], &[]);
    assert_eq!(nothing.code, 2, "{}", nothing.err);
    let none = place.run(&["trace", "show", "/proc/self/status"], &[]);
    assert!(
        none.code == 2 && none.err.contains("expected \"# doorbell trace 1\""),
        "{}",
        none.err
    );
}

#[test]
fn recordings_are_compared_with_each_other_and_with_the_kernel_drivers_log() {
    let place = Place::new();
    for (file, register) in [("one", "SCRATCH_REG7"), ("two", "SCRATCH_REG6")] {
        let record = [
            "--dev", CARD, "trace", "record", file, "--", "regs", "read", register,
        ];
        succeed(&place, &record, &[]);
    }
    let same = succeed(&place, &["trace", "diff", "one", "one"], &[]).out;
    assert!(
        same.lines()
            .all(|line| line.ends_with(" equal, 0 different")),
        "{same}"
    );
    let diff = place.run(&["trace", "diff", "--stage", "gfx", "one", "two"], &[]);
    assert_eq!(diff.code, 1);
    for part in [
        "GFX: 0 equal, 2 different",
        "- read GC0.SCRATCH_REG7 0x0",
        "+ read GC0.SCRATCH_REG6 0x",
    ] {
        assert!(diff.out.contains(part), "{part}: {}", diff.out);
    }

    // A value that is another one is told by its fields.
    for (file, value) in [("low", "GRBM_GFX_CNTL=0x1"), ("high", "GRBM_GFX_CNTL=0x2")] {
        let write = [
            "--dev", CARD, "trace", "record", file, "--", "regs", "write", value, "--yes",
        ];
        succeed(&place, &write, &[]);
    }
    let diff = place.run(&["trace", "diff", "--stage", "gfx", "low", "high"], &[]);
    assert_eq!(diff.code, 1);
    for part in [
        "~ write GC0.GRBM_GFX_CNTL 0x1, in the other file 0x2",
        "pipeid 0x1 -> 0x2",
    ] {
        assert!(diff.out.contains(part), "{part}: {}", diff.out);
    }

    // The same accesses as the tracepoints print them, but for one.
    let text = std::fs::read_to_string(place.path("work").join("one")).unwrap();
    let recording = Recording::parse(&text).unwrap();
    let mut log = String::from("# tracer: nop\n");
    let registers = recording.entries.iter().map(|entry| &entry.record);
    let registers: Vec<_> = registers.filter(|one| one.access.arg("bar") == 5).collect();
    for record in &registers {
        let (kind, value) = match record.access.verb.word() {
            "read" => ("rreg", record.answer.as_ref().unwrap().values[0]),
            "write" => ("wreg", record.access.arg("value")),
            _ => continue,
        };
        let dword = record.access.arg("offset") / 4;
        writeln!(
            log,
            " modprobe-1 [000] 1.0: amdgpu_device_{kind}: 0x7550, {dword:#010x}, {value:#010x}"
        )
        .unwrap();
    }
    log += " modprobe-1 [000] 1.1: amdgpu_device_wreg: 0x7550, 0x00000000, 0x00000001\n";
    std::fs::write(place.path("work").join("amdgpu.txt"), log).unwrap();
    let diff = place.run(&["trace", "diff", "one", "amdgpu.txt"], &[]);
    assert_eq!(diff.code, 1, "{}", diff.err);
    let differences: Vec<_> = diff
        .out
        .lines()
        .filter(|line| line.starts_with("  "))
        .collect();
    // The kernel driver's log has no configuration space.
    let registers: Vec<_> = differences
        .iter()
        .filter(|line| !line.contains("config"))
        .collect();
    assert_eq!(registers.len(), 1, "{}", diff.out);
    assert!(registers[0].starts_with("  + write "), "{}", registers[0]);
}

/// Who records may be killed. What was written until then is of use.
#[test]
fn a_recording_that_was_cut_off_is_used_to_its_last_whole_line() {
    let place = Place::new();
    let record = [
        "--dev",
        CARD,
        "trace",
        "record",
        "whole",
        "--",
        "regs",
        "read",
        "SCRATCH_REG7",
        "GRBM_GFX_CNTL",
    ];
    succeed(&place, &record, &[]);
    let work = place.path("work");
    let text = std::fs::read(work.join("whole")).unwrap();
    std::fs::write(work.join("cut"), &text[..text.len() - 5]).unwrap();
    let lines = text.iter().filter(|&&byte| byte == b'\n').count();
    let note = format!("note: cut: cut off in line {lines}, after ");

    let show = succeed(&place, &["trace", "show", "--stage", "gfx", "cut"], &[]);
    assert!(show.err.contains(&note), "{}", show.err);
    assert!(show.out.contains("SCRATCH_REG7"), "{}", show.out);
    assert!(!show.out.contains("GRBM_GFX_CNTL"), "{}", show.out);
    let diff = place.run(&["trace", "diff", "--stage", "gfx", "whole", "cut"], &[]);
    assert_eq!(diff.code, 1, "{}", diff.err);
    assert!(diff.err.contains(&note), "{}", diff.err);
    assert!(
        diff.out.contains("GFX: 1 equal, 1 different")
            && diff.out.contains("- read GC0.GRBM_GFX_CNTL"),
        "{}",
        diff.out
    );
    let replay = succeed(&place, &["trace", "replay", "cut"], &[]);
    assert!(replay.err.contains(&note), "{}", replay.err);
    let told = format!(
        "cut: the driver made exactly the recorded accesses, up to the cut behind line {}",
        lines - 1
    );
    assert!(replay.err.contains(&told), "{}", replay.err);
    // What differs before the cut is told as ever.
    let other = String::from_utf8(text).unwrap();
    let other = other.replacen("config-read offset=0x4", "config-read offset=0x8", 1);
    std::fs::write(work.join("other"), &other[..other.len() - 5]).unwrap();
    let differs = place.run(&["trace", "replay", "other"], &[]);
    assert_eq!(differs.code, 1, "{}", differs.err);
    assert!(
        differs.err.contains("now differs from the recording"),
        "{}",
        differs.err
    );
    // Within a character of an argument.
    std::fs::write(
        work.join("early"),
        b"# doorbell trace 1\n# argument a\n# argument \xc3",
    )
    .unwrap();
    let early = succeed(&place, &["trace", "show", "early"], &[]);
    assert!(
        early.err.contains("note: early: cut off in line 3"),
        "{}",
        early.err
    );
}

/// What the clock does to a run is no difference between two runs.
#[test]
fn two_runs_of_a_command_differ_in_nothing() {
    for (dev, stage) in [(CARD, "IH"), ("TWINKFD+AMD::gfx1100", "calls")] {
        let Some(env) = firmware() else { return };
        let env = [("HCQDEV_FIRMWARE", env.as_str())];
        let place = Place::new();
        for file in ["one", "two"] {
            let record = [&["--dev", dev, "trace", "record", file, "--"], &DEMO[..]].concat();
            succeed(&place, &record, &env);
        }
        let plain: &[&str] = &[];
        for values in [plain, &["--values"]] {
            let diff = [&["trace", "diff"], values, &["one", "two"]].concat();
            let diff = succeed(&place, &diff, &[]).out;
            let equal = |line: &str| line.ends_with(" equal, 0 different");
            assert!(diff.lines().all(equal), "{dev} {values:?}: {diff}");
            assert!(diff.contains(&format!("{stage}: ")), "{dev}: {diff}");
        }
    }
}

fn firmware() -> Option<String> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../target/firmware/bookworm-backports"
    );
    if !std::path::Path::new(folder).is_dir() {
        println!("skipped: {folder}: scripts/fetch firmware fetches it");
        return None;
    }
    Some(folder.into())
}

/// A card as the first of two runs has left it has another start; firmware's messages have their names.
#[test]
fn a_warm_start_is_recorded_and_messages_have_names() {
    let Some(firmware) = firmware() else { return };
    let env = [("HCQDEV_FIRMWARE", firmware.as_str())];
    let place = Place::new();
    let plain: &[&str] = &[];
    for (file, warm) in [("cold", plain), ("warm", &["--warm"])] {
        let record = [
            &["--dev", CARD, "trace", "record"],
            warm,
            &[file, "--"],
            &DEMO,
        ]
        .concat();
        let ran = succeed(&place, &record, &env);
        assert_eq!(
            ran.err.contains("the first of two runs, not recorded"),
            !warm.is_empty(),
            "{}",
            ran.err
        );
    }
    let diff = place.run(&["trace", "diff", "cold", "warm"], &[]);
    assert_eq!(diff.code, 1, "{}{}", diff.out, diff.err);
    let replay = succeed(&place, &["trace", "replay", "warm"], &env);
    assert!(
        replay.err.contains("exactly the recorded accesses"),
        "{}",
        replay.err
    );
    for (stage, names) in [
        (
            "smu",
            &["PPSMC_MSG_EnableAllSmuFeatures", "PPSMC_Result_OK"][..],
        ),
        (
            "PSP",
            &[
                "PSP_BL__LOAD_SOSDRV",
                "GFX_CTRL_CMD_ID_INIT_GPCOM_RING",
                "GFX_CMD_ID_LOAD_TOC",
                "GFX_CMD_ID_AUTOLOAD_RLC",
            ],
        ),
    ] {
        let show = succeed(&place, &["trace", "show", "--stage", stage, "cold"], &[]).out;
        for name in names {
            assert!(show.contains(name), "{name}: {show}");
        }
    }
}

#[test]
fn other_chips_are_told_first_and_stages_are_those_that_there_are() {
    let place = Place::new();
    for (file, dev) in [("one", CARD), ("two", "TWINPCI+AMD::gfx1100")] {
        let record = [
            "--dev",
            dev,
            "trace",
            "record",
            file,
            "--",
            "regs",
            "read",
            "SCRATCH_REG7",
        ];
        succeed(&place, &record, &[]);
    }
    let diff = place.run(&["trace", "diff", "one", "two"], &[]);
    assert_eq!(diff.code, 1, "{}", diff.err);
    let first = "the chips differ: gfx1201 (Navi 48, 1002:7550) in one, gfx1100 (Navi 31, 1002:744c) in two;";
    assert!(diff.out.starts_with(first), "{}", diff.out);
    for command in [
        &["trace", "show", "--stage", "gfxx", "one"][..],
        &["trace", "diff", "--stage", "gfxx", "one", "one"],
    ] {
        let ran = place.run(command, &[]);
        assert_eq!(ran.code, 2, "{}", ran.out);
        for part in ["gfxx", "machine, memory, calls, bus, PSP, SMU", "GFX"] {
            assert!(ran.err.contains(part), "{part}: {}", ran.err);
        }
    }
}

/// Squares of tensors, by kernels.
fn kernels(setup: &Setup) -> Vec<f32> {
    let engine = setup.open().unwrap().engine;
    let x = Tensor::new(&engine, [1.0f32, 2.0, 3.0]).unwrap();
    let y = x.square().unwrap().add(0.5).unwrap();
    y.to_vec::<f32>().unwrap()
}

/// Copies of both queues, one behind the other, and their signals.
fn copies(setup: &Setup) -> Vec<f32> {
    let device = setup.device().unwrap();
    let soon = Deadline::after(Duration::from_secs(60));
    let memory = |kind| {
        let spec = AllocSpec {
            bytes: 4096,
            align: 256,
            kind,
            zeroed: false,
        };
        device.alloc(spec).unwrap()
    };
    let (from, to) = (memory(MemoryKind::Host), memory(MemoryKind::Device));
    from.write(0, &[7; 4096]).unwrap();
    let mut point = None;
    for (kind, dst, src) in [
        (QueueKind::Copy, &to, &from),
        (QueueKind::Compute, &from, &to),
    ] {
        let copy = Command::Copy {
            dst: Val::Const(dst.va().0),
            src: Val::Const(src.va().0),
            bytes: 4096,
        };
        let after: Vec<_> = point.take().into_iter().collect();
        let stream = Stream::new(device.queue(kind, 0).unwrap());
        point = Some(stream.submit(&after, &[copy]).unwrap());
    }
    point.unwrap().wait(soon).unwrap();
    let mut bytes = vec![0; 4096];
    to.read(0, &mut bytes).unwrap();
    bytes.iter().map(|&byte| byte.into()).collect()
}

/// All that a driver needs is in a recording, whatever the way to the device: work runs again, and gives what it gave,
/// with nothing there.
#[test]
fn work_runs_from_a_recording_alone() {
    replayed(CARD, kernels);
    replayed("TWINKFD+AMD::gfx1100", kernels);
    replayed("TWINNVK+NV::sm_89", copies);
    replayed("TWINUSB+AMD::gfx1201", copies);
}

fn replayed(dev: &str, work: fn(&Setup) -> Vec<f32>) {
    let place = Place::new();
    let firmware = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../target/firmware/bookworm-backports"
    );
    let variables = [
        ["DEV".to_owned(), dev.to_owned()],
        ["HCQDEV_FIRMWARE".to_owned(), firmware.to_owned()],
        [
            "XDG_CACHE_HOME".to_owned(),
            place.path("cache").display().to_string(),
        ],
        ["HCQDEV_BUNDLES".to_owned(), "0".to_owned()],
    ];
    let log = TraceLog::memory();
    let front = Front::before(Trace::whole(log.clone()));
    let twin = Setup::of_variables(None, &variables, true)
        .unwrap()
        .front(front);
    let gave = work(&twin);
    assert!(
        gave == [1.5, 4.5, 9.5] || gave == [7.0; 4096],
        "{dev}: {gave:?}"
    );
    twin.check_rules().unwrap();
    drop(twin);

    let mut text = Vec::new();
    Origin::default().write(&mut text).unwrap();
    let mut text = String::from_utf8(text).unwrap();
    for record in log.records() {
        writeln!(text, "+0 {record}").unwrap();
    }
    let recording = Recording::parse(&text).unwrap();
    let is_memory = |verb: &str| {
        ["store", "write", "bulk-out"]
            .iter()
            .any(|one| verb.starts_with(one))
    };
    let mut verbs = recording
        .entries
        .iter()
        .map(|one| one.record.access.verb.word());
    assert!(
        verbs.any(is_memory),
        "{dev}: {} accesses, none of memory",
        recording.entries.len()
    );
    let tape = recording.tape();
    let front = Front::alone(std::sync::Arc::new(tape.clone()));
    let alone = Setup::of_variables(None, &variables, false)
        .unwrap()
        .front(front);
    assert!(alone.twin().is_none());
    let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&alone)));
    drop(alone);
    if let Err(difference) = tape.finish() {
        panic!("{dev}: {difference}");
    }
    assert_eq!(again.unwrap(), gave, "{dev}");
}

/// A recording that somebody else has made.
fn foreign(place: &Place, file: &str, arguments: &[&str], variables: &[&str]) {
    let mut text = String::from("# doorbell trace 1\n");
    for argument in arguments {
        writeln!(text, "# argument {argument}").unwrap();
    }
    for variable in variables {
        writeln!(text, "# variable {variable}").unwrap();
    }
    std::fs::write(place.path("work").join(file), text).unwrap();
}

/// What a file says is work on a device; nothing that it names is written or read.
#[test]
fn a_recording_names_no_file_that_is_written_or_read() {
    let place = Place::new();
    let work = place.path("work");
    let precious = ["a", "b", "c"];
    for file in precious {
        std::fs::write(work.join(file), "precious").unwrap();
    }
    let demo = ["demo", "--epochs=1", "--steps=1", "--at-least=0"];
    let cpu = ["DEV=CPU"];
    let card = ["DEV=TWINPCI+AMD::gfx1201"];
    let with = |more: &[&'static str]| [&demo[..], more].concat();
    let folder = format!("XDG_CACHE_HOME={}", place.path("work/taken").display());
    let bundles = format!("HCQDEV_BUNDLES={}", place.path("work/taken").display());
    let log = format!("TWIN=debug=6,log={}", place.path("work/taken").display());
    let cases: &[(&[&str], &[&str], &str)] = &[
        (&with(&["--save=a"]), &cpu, "--save"),
        (&with(&["--export=b"]), &cpu, "--export"),
        (&with(&["--profile", "c"]), &card, "--profile"),
        (
            &with(&["--save=a", "--export=b", "--profile=c"]),
            &cpu,
            "--save",
        ),
        (&with(&["--later=1"]), &card, "--later"),
        (&demo, &cpu, "runs on the CPU"),
        (&demo, &["DEV=CPU:CLANG"], "runs on the CPU"),
        (&demo, &[card[0], &folder], "XDG_CACHE_HOME"),
        (&demo, &[card[0], &bundles], "HCQDEV_BUNDLES"),
        (&demo, &[card[0], &log], "TWIN"),
        (&demo, &[card[0], "HCQDEV_FIRMWARE=/tmp"], "HCQDEV_FIRMWARE"),
        (&demo, &[card[0], "LD_PRELOAD=/tmp/x.so"], "LD_PRELOAD"),
        (&["run", "a", "--output=taken"], &card, "--output"),
        (&["run", "a", "--input", "x=b.npy"], &card, "x=b.npy"),
        (&["run", "a"], &card, "--model"),
        (&["onnx-test", "."], &card, "--model"),
        (&["bench", "model"], &card, "model"),
        (&["bench", "gemm"], &card, "gemm"),
        (&["explain", "a"], &card, "explain"),
        (&["fw", "list"], &card, "fw"),
        (&["man", "taken"], &card, "man"),
        (&["bind", "03:00.0"], &card, "bind"),
        (&["trace", "record", "taken"], &card, "trace"),
        (&["twin", "exec"], &card, "twin"),
        (&["regs", "list"], &card, "list"),
        (&["demo", "--help"], &card, "--help"),
        (&[], &card, "no command"),
    ];
    for (arguments, variables, named) in cases {
        foreign(&place, "evil", arguments, variables);
        let ran = place.run(&["trace", "replay", "evil"], &[]);
        for file in precious {
            let now = std::fs::read(work.join(file)).unwrap();
            assert_eq!(now, b"precious", "{arguments:?} {variables:?}: {file}");
        }
        assert_eq!(ran.code, 2, "{arguments:?} {variables:?}: {}", ran.err);
        let said = ran.err.lines().next().unwrap();
        let all = said.starts_with("error: evil: ") && said.contains(named);
        assert!(all, "{arguments:?} {variables:?}: {}", ran.err);
        place.wrote(&["a", "b", "c", "evil"], false);
    }
    // Work that replays writes where nobody looks, and nothing is left of it.
    foreign(&place, "evil", &demo, &card);
    let ran = place.run(&["trace", "replay", "evil"], &[]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err.contains("now differs from the recording"),
        "{}",
        ran.err
    );
    place.wrote(&["a", "b", "c", "evil"], false);
}

/// Who records what will not replay is told then.
#[test]
fn a_recording_that_will_not_replay_says_so() {
    let place = Place::new();
    let record = [
        "trace",
        "record",
        "first",
        "--",
        "regs",
        "list",
        "SCRATCH_REG7",
    ];
    let ran = succeed(&place, &[&["--dev", CARD], &record[..]].concat(), &[]);
    let said = "note: this recording cannot be replayed: first: the recorded command has list";
    assert!(ran.err.contains(said), "{}", ran.err);
    let mode = std::fs::metadata(place.path("work").join("first")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&mode.permissions());
    assert_eq!(mode & 0o777, 0o600);
    // What was recorded is no business of who replays: where this person keeps kernels and bundles is not in it.
    let text = std::fs::read_to_string(place.path("work").join("first")).unwrap();
    assert!(!text.contains("XDG_CACHE_HOME"), "{text}");
}

/// What is printed may be what somebody else has written: a terminal must not do what that says.
#[test]
fn nothing_in_a_file_acts_on_a_terminal() {
    let place = Place::new();
    let work = place.path("work");
    let lines = "+0 a%1b%5b2J now -> failed unsupported %1b%5d0;x%07%c2%9b1m\n\
                 +1 a%1b%5b2J open name=%1b%5b1A -> ok\n";
    std::fs::write(work.join("trace"), format!("# doorbell trace 1\n{lines}")).unwrap();
    let bundle = r#"{"schema": "doorbell.bundle/1", "error": "\u001b[2J\u009b1m\u202e", "device": {"id": "\u001bc"}}"#;
    std::fs::write(work.join("bundle"), bundle).unwrap();
    std::fs::write(work.join("wrong"), "\x1b[2J").unwrap();
    std::fs::write(
        work.join("line"),
        "# doorbell trace 1\n+0 gpu \x1b[2J -> ok\n",
    )
    .unwrap();
    foreign(&place, "evil", &["demo", "--\x1b[2J"], &["DEV=\x1b[2J"]);
    foreign(&place, "variable", &["demo"], &["\x1b[2J=\x1b[2J"]);
    let named = [work.join("\x1b[2J").display().to_string()];
    for (args, shown) in [
        (vec!["trace", "show", "trace"], r"a\u{1b}[2J"),
        (vec!["trace", "show", "--json", "trace"], r"a\u001b[2J"),
        (vec!["trace", "show", "wrong"], "u{1b}[2J"),
        (vec!["trace", "show", "line"], r"\u{1b}[2J"),
        (vec!["trace", "replay", "evil"], r"\u{1b}[2J"),
        (vec!["trace", "replay", "variable"], r"\u{1b}[2J"),
        (vec!["explain", "bundle"], r"\u{1b}[2J\u{9b}1m\u{202e}"),
        (
            vec!["explain", "--json", "bundle"],
            r"\u001b[2J\u009b1m\u202e",
        ),
        (vec!["explain", &named[0]], r"\u{1b}[2J"),
        (vec!["explain", "wrong"], "expected a bundle"),
    ] {
        let ran = place.run(&args, &[]);
        let all = ran.out.clone() + &ran.err;
        let acts = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
        assert!(!all.contains(acts), "{args:?}: {all:?}");
        assert!(all.contains(shown), "{args:?}: {all:?}");
    }
}

/// A recording is read as far as a recording goes, and no further.
#[test]
fn a_file_that_is_too_large_is_not_read() {
    let place = Place::new();
    let holes = std::fs::File::create(place.path("work").join("holes")).unwrap();
    holes.set_len(1 << 40).unwrap();
    for args in [
        &["trace", "show", "holes"][..],
        &["trace", "replay", "holes"],
        &["explain", "holes"],
    ] {
        let ran = place.run(args, &[]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains("holes: expected at most "), "{}", ran.err);
        assert!(
            ran.err.contains("bytes, found 1099511627776"),
            "{}",
            ran.err
        );
    }
}
