//! The program as its users run it: exit codes, what goes to stdout and to stderr, which files are
//! written.

use crate::place;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tensor::DType;
use tensor::io::safetensors;
use tensor::onnx::Dim;
use tensor::onnx::write::{self, Writer};

use place::{Place, rows};

/// Nothing on stdout, the exit code, and all of these texts on stderr.
fn refused(env: &[(&str, &str)], code: i32, texts: &[&str]) {
    let place = Place::new();
    let ran = place.run(&["devices"], env);
    assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{}", ran.err);
    assert!(ran.err.starts_with("error: "), "{}", ran.err);
    for text in texts {
        assert!(ran.err.contains(text), "{text:?} is not in {:?}", ran.err);
    }
    place.wrote(&[], false);
}

#[test]
fn help_goes_to_stdout() {
    let ran = Place::new().run(&["--help"], &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for text in [
        "Usage: doorbell",
        "demo",
        "devices",
        "doctor",
        "bench",
        "fw",
        "run",
        "inspect",
        "onnx-test",
        "Exit codes",
    ] {
        assert!(ran.out.contains(text), "{text:?} is not in {:?}", ran.out);
    }
    let ran = Place::new().run(&["--version"], &[]);
    assert_eq!(ran.out, format!("doorbell {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_has_pages() {
    for (page, text) in [
        ("targets", "TWINKFD+AMD::gfx1100"),
        ("variables", "HCQDEV_WAIT_TIMEOUT_MS"),
        ("models", "com.microsoft"),
        ("hangs", "doorbell explain"),
        ("tracing", "trace replay"),
    ] {
        let ran = Place::new().run(&["help", page], &[("DEV", "none")]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{page}");
        assert!(
            ran.out.starts_with("# ") && ran.out.contains(text),
            "{page}"
        );
    }
    let ran = Place::new().run(&["help", "trace", "show"], &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(
        ran.out.contains("Usage: doorbell trace show"),
        "{}",
        ran.out
    );
    assert!(Place::new().run(&["help"], &[]).out.contains("Exit codes"));
    let ran = Place::new().run(&["help", "fly"], &[]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(
        ran.err.contains("tracing") && ran.err.contains("found \"fly\""),
        "{}",
        ran.err
    );
}

#[test]
fn a_call_that_makes_no_sense_is_explained_on_stderr() {
    for args in [
        &[][..],
        &["fly"],
        &["demo", "--epochs", "0"],
        &["bench", "tea"],
    ] {
        let ran = Place::new().run(args, &[]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert!(ran.err.contains("--help"), "{args:?}: {}", ran.err);
    }
}

#[test]
fn devices_lists_the_cpu() {
    let place = Place::new();
    let ran = place.run(&["devices", "--json"], &[("CPU_COUNT", "3")]);
    assert_eq!(ran.err, "");
    let rows = rows(&ran, "doorbell.devices/2");
    let cpu = rows.iter().find(|r| r["device"] == "CPU:0").unwrap();
    assert_eq!(cpu["arch"], std::env::consts::ARCH);
    assert_eq!(cpu["units"], 3);
    assert_eq!(cpu["selected"], true);
    assert!(cpu["memory_bytes"].as_u64().unwrap() > 1 << 20);
    assert!(!cpu["queues"].as_array().unwrap().is_empty());
    let ran = place.run(&["devices"], &[]);
    assert!(ran.out.starts_with("* CPU:0 "), "{}", ran.out);
    place.wrote(&[], false);
}

#[test]
fn doctor_reports_and_writes_nothing() {
    let place = Place::new();
    let ran = place.run(&["doctor", "--json"], &[]);
    assert_eq!(ran.err, "");
    let rows = rows(&ran, "doorbell.doctor/1");
    let names: BTreeSet<&str> = rows.iter().map(|r| r["check"].as_str().unwrap()).collect();
    assert_eq!(names.len(), rows.len(), "{names:?}");
    for name in [
        "cpu",
        "cpu.clang",
        "amd.kfd",
        "amd.pci",
        "nv.nvk",
        "qcom.kgsl",
    ] {
        assert!(names.contains(name), "{name} is not in {names:?}");
    }
    for row in &rows {
        let status = row["status"].as_str().unwrap();
        assert!(
            ["ok", "warn", "not present", "fail"].contains(&status),
            "{row}"
        );
        assert!(!row["detail"].as_str().unwrap().is_empty(), "{row}");
        let fix = row["fix"].as_str().unwrap();
        assert!(
            !fix.is_empty() || !["warn", "fail"].contains(&status),
            "{row}"
        );
    }
    if cfg!(feature = "llvm") {
        let llvm = rows.iter().find(|r| r["check"] == "cpu.llvm").unwrap();
        assert_eq!(llvm["status"], "ok");
        let text = place.run(&["doctor"], &[]).out;
        let row = text.lines().find(|line| line.starts_with("cpu.llvm "));
        let words: Vec<&str> = row.unwrap().split_whitespace().collect();
        assert_eq!((words.len(), words[2]), (4, "LLVM"), "{words:?}");
    }
    // Options of compilers are for those who ask.
    let compiler = |args: &[&str]| {
        let text = place.run(args, &[]).out;
        let row = text.lines().find(|line| line.starts_with("cpu.clang "));
        row.unwrap().to_owned()
    };
    let (short, whole) = (compiler(&["doctor"]), compiler(&["doctor", "--verbose"]));
    let options = whole.contains(" -O2");
    assert!(!short.contains(" -O2"), "{short}");
    let found = rows.iter().find(|r| r["check"] == "cpu.clang").unwrap();
    assert_eq!(options, found["status"] == "ok", "{whole}");
    // Without a device that can be opened there is the more to report.
    assert_eq!(place.run(&["doctor"], &[("DEV", "AMD")]).code, 0);
    place.wrote(&[], false);
}

#[test]
fn fw_opens_no_device_and_says_what_is_missing() {
    let place = Place::new();
    // The selection is not looked at.
    let ran = place.run(&["fw", "list", "--chip", "gfx1201"], &[("DEV", "NONSENSE")]);
    let mut lines = ran.out.lines();
    let chip = "gfx1201 (Radeon RX 9070; Navi 48)";
    assert_eq!(lines.next(), Some(chip), "{}", ran.err);
    assert!(
        lines
            .next()
            .is_some_and(|line| line.starts_with("  psp_14_0_3_sos.bin "))
    );
    assert_eq!(
        (ran.code == 0, ran.err.as_str()),
        (!ran.out.contains("missing"), "")
    );
    // Of chips that nobody asked for, files may be missing.
    let ran = place.run(&["fw", "list"], &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(
        ran.out.contains("\ngfx1100 (Radeon RX 7900; "),
        "{}",
        ran.out
    );
    for (args, code, text) in [
        (
            &["fw", "dump", "no.bin"][..],
            1,
            "error: no.bin: No such file",
        ),
        (
            &["fw", "list", "--chip", "gfx1"],
            2,
            "expected one of gfx942",
        ),
    ] {
        let ran = place.run(args, &[]);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{}", ran.err);
        assert!(ran.err.contains(text), "{}", ran.err);
    }
}

#[test]
fn an_unknown_device_is_named_with_the_nearest_one() {
    refused(&[("DEV", "CPX")], 2, &["DEV=CPX", "did you mean CPU?"]);
    refused(
        &[("DEV", "CPU:LVM")],
        2,
        &["DEV=CPU:LVM", "did you mean LLVM?"],
    );
    refused(
        &[("AMD_IFACE", "PCIE"), ("AMD", "1")],
        2,
        &["AMD_IFACE=PCIE", "did you mean PCI?"],
    );
}

#[test]
fn two_choices_that_contradict_are_both_named() {
    refused(&[("CPU", "1"), ("DEV", "AMD")], 2, &["CPU=1", "DEV=AMD"]);
    refused(
        &[("CPU_LLVM", "1"), ("DEV", "CPU:CLANG")],
        2,
        &["CPU_LLVM=1", "DEV=CPU:CLANG"],
    );
}

#[test]
fn a_device_without_driver_is_no_device() {
    // Where no kernel driver has a card of AMD; one that a driver has is another error.
    if !Path::new("/sys/module/amdgpu").exists() {
        refused(
            &[("DEV", "PCI+AMD")],
            3,
            &["PCI+AMD", "no AMD GPU supported without a kernel driver"],
        );
    }
    refused(&[("NV", "1")], 3, &["no device for NV", "TWINNVK"]);
    let named = "no device for NV:1 (that is NVK:1+NV: each interface counts its GPUs from 0): ";
    refused(&[("DEV", "NV:1")], 3, &[named]);
}

#[test]
fn a_variable_must_hold_what_it_must() {
    refused(&[("DEBUG", "9")], 2, &["DEBUG=9", "7"]);
    refused(&[("CPU_COUNT", "many")], 2, &["CPU_COUNT=many"]);
}

#[test]
fn a_variable_that_does_nothing_yet_says_so() {
    let env = [("BEAM", "4"), ("JIT", "2"), ("CACHELEVEL", "2")];
    let ran = Place::new().run(&["devices"], &env);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for text in ["BEAM=4 has no effect", "JIT=2 has", "CACHELEVEL=2 has"] {
        assert!(ran.err.contains(text), "{text:?} is not in {:?}", ran.err);
    }
}

#[test]
fn the_command_line_comes_before_the_variables() {
    let place = Place::new();
    let ran = place.run(
        &["devices", "--dev", "CPU"],
        &[("DEV", "AMD"), ("DEBUG", "1")],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("DEV=AMD is ignored"), "{}", ran.err);
}

#[test]
fn the_demonstration_learns_saves_and_traces() {
    let place = Place::new();
    let args = [
        "demo",
        "--epochs",
        "4",
        "--at-least",
        "0.8",
        "--save",
        "net.safetensors",
        "--export",
        "net.onnx",
    ];
    let ran = place.run(&[&args[..], &["--profile", "trace.json"]].concat(), &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("held-out accuracy: "), "{}", ran.out);
    assert!(ran.err.contains("epoch      4 loss "), "{}", ran.err);
    place.wrote(&["net.onnx", "net.safetensors", "trace.json"], true);
    assert!(!place.files("cache").is_empty());

    // The exported net is a model like any other.
    let ran = place.run(&["inspect", "net.onnx", "--json"], &[]);
    let row = &rows(&ran, "doorbell.inspect/1")[0];
    assert_eq!(row["inputs"][0]["type"], "FLOAT [n, 1, 8, 8]");
    let ran = place.run(&["run", "net.onnx"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.starts_with("logits: FLOAT [1, 10]\n"),
        "{}",
        ran.out
    );
    let noted = "note: assuming n=1; set it with --dim n=N";
    assert_eq!(ran.err.matches(noted).count(), 1, "{}", ran.err);
    let bench = ["bench", "model", "net.onnx", "--repeat", "1"];
    let ran = place.run(&bench, &[]);
    assert!(ran.code == 0 && ran.err.contains(noted), "{}", ran.err);
    for command in [&["run"][..], &["inspect"], &["bench", "model"]] {
        for (option, value, text) in [
            ("--dim", "batch=8", "no such open size; open sizes: n"),
            ("--dim", "image.1=8", "no such open size; open sizes: n"),
            ("--input", "x=x.npy", "no input x; inputs: image"),
            ("--input", "x=1", "no input x; inputs: image"),
        ] {
            let args = [command, &["net.onnx", option, value]].concat();
            let ran = place.run(&args, &[]);
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
            assert!(ran.err.contains(text), "{args:?}: {}", ran.err);
        }
    }
    let args = [
        "run", "net.onnx", "--dim", "n=3", "--output", "out", "--top", "1",
    ];
    let ran = place.run(&args, &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.starts_with("logits: FLOAT [3, 10]\n"),
        "{}",
        ran.out
    );
    assert!(place.path("work/out/logits.npy").is_file());

    let saved = safetensors::File::open(place.path("work/net.safetensors")).unwrap();
    for name in ["first.weight", "second.bias", "last.weight"] {
        assert!(!saved.data(name).unwrap().is_empty(), "{name}");
    }

    let trace: Value = read_json(&place.path("work/trace.json"));
    let events = trace["traceEvents"].as_array().unwrap();
    let track = events
        .iter()
        .find(|e| e["ph"] == "M" && e["args"]["name"].as_str().unwrap().ends_with(" compute"))
        .unwrap_or_else(|| panic!("no compute queue: {}", events[0]));
    let kernels = events
        .iter()
        .filter(|e| e["ph"] == "X" && e["tid"] == track["tid"]);
    // 14 steps of 4 epochs, each of several kernels.
    assert!(kernels.clone().count() > 4 * 14);
    for kernel in kernels {
        assert!(kernel["dur"].as_f64().unwrap() >= 0.0, "{kernel}");
    }
}

/// A text-direction classifier as Paddle exports it: every open size is called `?`.
fn classifier(place: &Place) {
    let open = |names: &[&str]| {
        let dims = names.iter().map(|n| match n.parse() {
            Ok(size) => Dim::Fixed(size),
            Err(_) => Dim::Named(n.to_string()),
        });
        write::tensor(DType::F32, &dims.collect::<Vec<_>>())
    };
    let mut model = Writer::new("classifier", 17);
    model.input("x", &open(&["?", "3", "?", "?"]));
    model.node("GlobalAveragePool", &["x"], &["p"], []);
    model.node("Flatten", &["p"], &["y"], []);
    model.output("y", &open(&["?", "3"]));
    std::fs::write(place.path("work/classifier.onnx"), model.finish()).unwrap();
}

#[test]
fn sizes_of_one_name_may_differ_which_is_said_once() {
    let place = Place::new();
    classifier(&place);
    let dims = ["--dim", "x.0=1", "--dim", "x.2=8", "--dim", "?=6"];
    let ran = place.run(&[&["inspect", "classifier.onnx"], &dims[..]].concat(), &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.err.contains("assuming x.2=1"), "{}", ran.err);
    let run = ["run", "classifier.onnx", "--repeat", "3"];
    let ran = place.run(&[&run[..], &dims].concat(), &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.starts_with("y: FLOAT [1, 3]"), "{}", ran.out);
    let said = ran.err.matches("size 8 for \"?\", but 1 in input").count();
    assert_eq!(said, 1, "{}", ran.err);
    // A name that is no word is no name to give a size by, unless somebody does.
    let ran = place.run(&run, &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("set it with --dim x.0=N"), "{}", ran.err);
    let ran = place.run(&["inspect", "classifier.onnx"], &[]);
    assert!(ran.err.contains("assuming x.2=1"), "{}", ran.err);
    let bench = ["bench", "model", "classifier.onnx", "--repeat", "1"];
    let ran = place.run(&[&bench[..], &dims].concat(), &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn inspect_says_which_inputs_a_graph_is_for_and_why_there_is_none() {
    let place = Place::new();
    let row = write::tensor(DType::F32, &[Dim::Named("n".into())]);
    let number = write::tensor(DType::I64, &[Dim::Fixed(1)]);
    let mut model = Writer::new("repeated", 17);
    model.input("x", &row);
    model.input("times", &number);
    model.node("Tile", &["x", "times"], &["y"], []);
    model.output("y", &row);
    std::fs::write(place.path("work/repeated.onnx"), model.finish()).unwrap();
    let args = ["repeated.onnx", "--dim", "n=3", "--input", "times=4"];
    let ran = place.run(&[&["run"], &args[..]].concat(), &[]);
    assert!(
        ran.out.starts_with("y: FLOAT [12]"),
        "{}{}",
        ran.out,
        ran.err
    );
    let ran = place.run(&[&["inspect"], &args[..]].concat(), &[]);
    let wanted = "specialised times = [4], for node Tile";
    assert!(ran.out.contains(wanted), "{}", ran.out);
    let ran = place.run(&[&["inspect", "--json"], &args[..]].concat(), &[]);
    let row = &rows(&ran, "doorbell.inspect/1")[0];
    assert_eq!(row["specialised"][0]["input"], "times");
    assert_eq!(row["unplanned"], Value::Null);

    let large = write::tensor(DType::F32, &[Dim::Fixed(1000)]);
    let mut model = Writer::new("found", 17);
    model.input("x", &large);
    model.node("NonZero", &["x"], &["y"], []);
    model.output("y", &write::tensor(DType::I64, &[Dim::Fixed(1), Dim::Any]));
    std::fs::write(place.path("work/found.onnx"), model.finish()).unwrap();
    let ran = place.run(&["inspect", "found.onnx", "--json"], &[]);
    let row = &rows(&ran, "doorbell.inspect/1")[0];
    let why = row["unplanned"].as_str().unwrap();
    assert!(
        why.contains("node NonZero") && why.contains("input \"x\""),
        "{why}"
    );
}

fn read_json(path: &Path) -> Value {
    serde_json::from_reader(File::open(path).unwrap()).unwrap()
}

#[test]
fn too_low_an_accuracy_is_a_failure() {
    let place = Place::new();
    let args = ["demo", "--epochs", "1", "--at-least", "1.01"];
    let ran = place.run(&args, &[]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("expected at least 1.01"), "{}", ran.err);
    place.wrote(
        &["doorbell-digits.onnx", "doorbell-digits.safetensors"],
        true,
    );
}

/// What each level of DEBUG adds, as a piece of a line that no lower level prints.
const LEVELS: [&[&str]; 7] = [
    &["CPU:0 "],
    &["*** CPU:0", " GFLOP/s"],
    &["--- schedule: ", ": compiled, "],
    &[": source\n"],
    &[": before optimisation\n", ": after optimisation\n"],
    &[": linear\n"],
    &[": machine code\n", "Disassembly of section"],
];

#[test]
fn each_level_of_debug_shows_more() {
    let place = Place::new();
    for level in 0..=LEVELS.len() {
        let env = [("DEBUG", level.to_string()), ("CACHELEVEL", "0".into())];
        let env = env.each_ref().map(|(k, v)| (*k, v.as_str()));
        let ran = place.run(&["bench", "graph", "--json"], &env);
        rows(&ran, "doorbell.bench/1");
        for (i, texts) in LEVELS.iter().enumerate() {
            for text in *texts {
                let found = ran.err.contains(text);
                assert_eq!(
                    found,
                    i < level,
                    "DEBUG={level}: {text:?}\n{:.4000}",
                    ran.err
                );
            }
        }
    }
    place.wrote(&[], false);
}

#[test]
fn the_second_run_finds_its_kernels_in_the_cache() {
    let place = Place::new();
    let run = || place.run(&["bench", "graph"], &[("DEBUG", "3")]).err;
    let first = run();
    assert!(first.contains(": compiled, "), "{first:.4000}");
    let second = run();
    assert!(second.contains(": cached, "), "{second:.4000}");
    assert!(!second.contains(": compiled, "), "{second:.4000}");
    place.wrote(&[], true);
}

#[test]
fn bench_rows_have_their_samples_in_order() {
    let place = Place::new();
    let rows = rows(
        &place.run(&["bench", "launch", "--json"], &[]),
        "doorbell.bench/1",
    );
    let names: Vec<&str> = rows.iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["exec to doorbell", "exec to result"]);
    for row in &rows {
        let number = |field: &str| row[field].as_f64().unwrap();
        assert!(number("min") > 0.0, "{row}");
        assert!(number("min") <= number("median"), "{row}");
        assert!(number("median") <= number("max"), "{row}");
        assert!(number("samples") >= 3.0, "{row}");
        assert_eq!(row["better"], "lower");
    }
    place.wrote(&[], true);
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let place = Place::new();
    for args in [&["doctor"][..], &["devices", "--json"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = place.command(args, &[]).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{args:?}");
    }
}

/// Work goes on without a reader of stderr, and ends if nobody reads stdout either.
#[test]
fn talk_that_nobody_reads_ends_nothing() {
    let place = Place::new();
    let env = [("DEBUG", "2"), ("RUST_LOG", "debug")];
    let gone = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    let mut command = place.command(&["bench", "graph", "--json"], &env);
    let output = command.stderr(gone()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], "doorbell.bench/1");

    // All epochs would take minutes.
    let writer = gone();
    let mut command = place.command(&["demo", "--epochs", "1000"], &env);
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    assert_eq!(command.status().unwrap().code(), Some(0));
    place.wrote(&[], true);
}

#[test]
fn a_recording_of_the_cpu_says_that_it_is_empty() {
    let place = Place::new();
    let args = ["trace", "record", "run.trace", "--", "bench", "launch"];
    let ran = place.run(&args, &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let warning = "warning: run.trace: nothing was recorded: the command ran on the CPU";
    assert!(ran.err.contains(warning), "{}", ran.err);
}

#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let place = Place::new();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = place
        .command(&["doctor", "--json"], &[])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.starts_with("error: cannot write to stdout: "), "{err}");
}

/// A folder that looks like a machine with one card that amdgpu has, whose IOMMU is off.
fn machine(place: &Place) -> String {
    let root = place.path("machine");
    let put = |path: &str, text: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let of = |name: &str| format!("sys/bus/pci/devices/0000:03:00.0/{name}");
    let resource = "0x0000000800000000 0x000000080fffffff 0x000000000014220c\n";
    for (name, text) in [
        ("vendor", "0x1002\n"),
        ("device", "0x7550\n"),
        ("class", "0x030000\n"),
        ("resource", resource),
        ("uevent", "DRIVER=amdgpu\n"),
        ("driver/unbind", ""),
        ("enable", "1\n"),
        ("power/control", "auto\n"),
        ("reset_method", "flr bus\n"),
        ("reset", ""),
    ] {
        put(&of(name), text);
    }
    put("sys/bus/pci/drivers/amdgpu/bind", "");
    let pool = "sys/kernel/mm/hugepages/hugepages-2048kB";
    put(&format!("{pool}/nr_hugepages"), "8\n");
    put(&format!("{pool}/free_hugepages"), "8\n");
    put("proc/mounts", "none /huge hugetlbfs rw,pagesize=2M 0 0\n");
    std::fs::create_dir_all(root.join("run/lock")).unwrap();
    root.display().to_string()
}

/// A write waits for a reader: what comes meanwhile comes in the middle of taking over.
#[test]
fn a_signal_in_the_middle_of_taking_over_leaves_a_card_as_it_was() {
    let place = Place::new();
    let root = machine(&place);
    let inside = |name: &str| place.path("machine").join(name);
    let card = "sys/bus/pci/devices/0000:03:00.0";
    let unbind = inside(&format!("{card}/driver/unbind"));
    std::fs::remove_file(&unbind).unwrap();
    let made = Command::new("mkfifo").arg(&unbind).status().unwrap();
    assert!(made.success());
    let child = place
        .command(&["bind", "03:00.0", "--root", &root], &[])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let journal = inside("run/doorbell/0000:03:00.0.undo");
    while !std::fs::read_to_string(&journal).is_ok_and(|text| text.ends_with('\n')) {
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = child.id().to_string();
    let told = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(told.success());
    // The kernel does as it is told.
    std::fs::write(inside(&format!("{card}/uevent")), "").unwrap();
    assert_eq!(std::fs::read_to_string(&unbind).unwrap(), "0000:03:00.0\n");
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("interrupted by a signal. Earlier changes were undone"),
        "{err}"
    );
    let text = |name: &str| std::fs::read_to_string(inside(name)).unwrap();
    assert_eq!(text("sys/bus/pci/drivers/amdgpu/bind"), "0000:03:00.0\n");
    assert_eq!(text(&format!("{card}/power/control")), "auto\n");
    assert!(!journal.exists());
}

/// Every file of the machine, with what is in it.
fn contents(place: &Place) -> Vec<(std::path::PathBuf, String)> {
    let text = |file: &std::path::PathBuf| {
        std::fs::read_to_string(place.path("machine").join(file)).unwrap()
    };
    let files = place.files("machine").into_iter();
    files.map(|file| (file.clone(), text(&file))).collect()
}

#[test]
fn what_would_be_written_to_a_machine_is_printed_and_not_written() {
    let place = Place::new();
    let root = machine(&place);
    let before = contents(&place);
    let on = |args: &[&str]| place.run(&[args, &["--root", &root]].concat(), &[]);
    let plan = on(&["bind", "03:00.0", "--plan"]);
    assert_eq!(plan.code, 0, "{}", plan.err);
    // Nothing protects the machine: it is said what would, unless that was asked for.
    assert!(plan.err.contains("no IOMMU is active"), "{}", plan.err);
    let lines: Vec<_> = plan.out.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let asked = on(&["bind", "03:00.0", "--sysfs", "--plan"]);
    assert_eq!((asked.code, asked.err.as_str()), (0, ""));
    assert_eq!(asked.out, plan.out);
    assert!(
        lines[0].starts_with(
            "echo 0000:03:00.0 > /sys/bus/pci/devices/0000:03:00.0/driver/unbind  # bound to the kernel driver amdgpu; \
             undone by: "
        ),
        "{lines:?}"
    );
    let plan = on(&["unbind", "0000:03:00.0", "--plan"]);
    assert_eq!((plan.code, plan.out.lines().count()), (0, 1));
    let plan = on(&["unbind", "0000:03:00.0", "--restore", "--plan"]);
    assert_eq!((plan.code, plan.out.as_str()), (0, ""));
    assert!(plan.err.contains("nothing was changed"), "{}", plan.err);
    for (args, code, text) in [
        (&["bind", "3"][..], 2, "expected an address such as"),
        (&["bind", "09:00.0", "--plan"], 3, "no such PCI function"),
        (
            &["reset", "03:00.0", "--plan"],
            1,
            "bound to the kernel driver amdgpu",
        ),
        (
            &["bind", "03:00.0", "--vfio", "--plan"],
            1,
            "`modprobe vfio-pci`",
        ),
    ] {
        let ran = on(args);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{}", ran.err);
        assert!(ran.err.contains(text), "{}", ran.err);
    }
    // An IOMMU is at work: it is used.
    let group = place.path("machine/sys/kernel/iommu_groups/12");
    std::fs::create_dir_all(group.join("devices/0000:03:00.0")).unwrap();
    std::fs::write(group.join("type"), "DMA-FQ\n").unwrap();
    let ran = on(&["bind", "03:00.0", "--plan"]);
    assert!(
        ran.code == 1 && ran.err.contains("`modprobe vfio-pci`"),
        "{}",
        ran.err
    );
    std::fs::create_dir_all(place.path("machine/sys/bus/pci/drivers/vfio-pci")).unwrap();
    let ran = on(&["bind", "03:00.0", "--plan"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains("echo vfio-pci > "), "{}", ran.out);
    std::fs::remove_dir(place.path("machine/sys/bus/pci/drivers/vfio-pci")).unwrap();
    std::fs::remove_dir_all(place.path("machine/sys/kernel/iommu_groups")).unwrap();
    // Without huge pages there is no memory that outlives a program.
    let mounts = place.path("machine/proc/mounts");
    let text = std::fs::read_to_string(&mounts).unwrap();
    std::fs::write(&mounts, "").unwrap();
    let ran = on(&["bind", "03:00.0"]);
    assert!(
        ran.code == 1 && ran.err.contains("mount -t hugetlbfs"),
        "{}",
        ran.err
    );
    std::fs::write(&mounts, text).unwrap();
    // A lock stays where it is: nobody can take it away from under another.
    std::fs::remove_dir_all(place.path("machine/run")).unwrap();
    // The doctor sees the card, and leaves everything as it is.
    let ran = on(&["doctor", "--json"]);
    let rows = rows(&ran, "doorbell.doctor/1");
    let card = rows.iter().find(|row| row["check"] == "amd.pci.0").unwrap();
    assert_eq!(card["status"], "ok");
    let detail = card["detail"].as_str().unwrap();
    assert!(
        detail.contains("stage 3 of 8, kernel driver: bound to amdgpu"),
        "{detail}"
    );
    assert_eq!(contents(&place), before);
}

#[test]
fn a_driver_that_does_not_leave_is_an_error_and_what_was_written_is_in_the_journal_until_it_is_undone()
 {
    let place = Place::new();
    let root = machine(&place);
    let on = |args: &[&str]| place.run(&[args, &["--root", &root]].concat(), &[]);
    // A folder is deaf: nothing happens when a file is written.
    let ran = on(&["bind", "03:00.0"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(
        ran.err
            .contains("it is still bound to the kernel driver amdgpu. Earlier changes were undone"),
        "{}",
        ran.err
    );
    let text = |name: &str| std::fs::read_to_string(place.path("machine").join(name)).unwrap();
    assert_eq!(text("sys/bus/pci/drivers/amdgpu/bind"), "0000:03:00.0\n");
    // Without a driver it is taken, and given back.
    let uevent = "sys/bus/pci/devices/0000:03:00.0/uevent";
    std::fs::write(place.path("machine").join(uevent), "").unwrap();
    let ran = on(&["bind", "03:00.0"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("unbind 0000:03:00.0 --restore"),
        "{}",
        ran.err
    );
    assert_eq!(
        text("sys/bus/pci/devices/0000:03:00.0/power/control"),
        "on\n"
    );
    let plan = on(&["unbind", "03:00.0", "--restore", "--plan"]);
    let ran = on(&["unbind", "03:00.0", "--restore"]);
    assert_eq!((ran.code, &ran.out), (0, &plan.out), "{}", ran.err);
    assert_eq!(
        ran.out,
        "echo auto > /sys/bus/pci/devices/0000:03:00.0/power/control\n"
    );
    assert_eq!(
        text("sys/bus/pci/devices/0000:03:00.0/power/control"),
        "auto\n"
    );
    let ran = on(&["reset", "03:00.0", "--kind", "bus"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(text("sys/bus/pci/devices/0000:03:00.0/reset"), "1\n");
    assert_eq!(
        text("sys/bus/pci/devices/0000:03:00.0/reset_method"),
        "flr bus\n"
    );
    assert!(
        !place
            .path("machine/run/doorbell/0000:03:00.0.undo")
            .exists()
    );
}

#[test]
fn registers_are_listed_and_decoded_without_a_card() {
    let place = Place::new();
    let listed = place.run(&["regs", "list", "grbm_gfx_cntl", "--chip", "gfx1201"], &[]);
    assert_eq!(
        (listed.code, listed.out.as_str()),
        (
            0,
            "GC.GRBM_GFX_CNTL 1:0x900  pipeid 1:0, meid 3:2, vmid 7:4, queueid 10:8, ctxid 13:11\n"
        ),
        "{}",
        listed.err
    );
    let decoded = place.run(&["regs", "decode", "GRBM_GFX_CNTL=0x54"], &[]);
    assert_eq!(
        decoded.out,
        "GC.GRBM_GFX_CNTL(0x00000054) { pipeid: 0x0, meid: 0x1, vmid: 0x5, queueid: 0x0, ctxid: 0x0 }\n"
    );
    let decoded = place.run(&["regs", "decode", "SCRATCH_REG7=9", "--json"], &[]);
    assert_eq!(rows(&decoded, "doorbell.regs/1")[0]["value"], 9);
    for (args, code, text) in [
        (&["decode", "GRBM=1"][..], 2, "no such register on gfx1100"),
        (&["list", "--chip", "gfx900"], 2, "only for gfx942"),
        (
            &["read", "SCRATCH_REG7"],
            2,
            "no card selected; pass --at ADDRESS",
        ),
        (
            &["read", "SCRATCH_REG7", "--at", "ff:1f.7"],
            1,
            "no such PCI function",
        ),
        (
            &["write", "SCRATCH_REG7=1", "--at", "ff:1f.7"],
            2,
            "pass --yes",
        ),
        (&["write", "SCRATCH_REG7=x"], 2, "expected a 32-bit number"),
    ] {
        let ran = place.run(&[&["regs"], args].concat(), &[]);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{}", ran.err);
        assert!(ran.err.contains(text), "{}", ran.err);
    }
    place.wrote(&[], false);
}

/// Made from the same definitions as the help: what bash completes are the commands and their options.
#[test]
fn shells_complete_what_there_is_and_each_command_has_a_page() {
    let place = Place::new();
    let script = place.run(&["completions", "bash"], &[]);
    assert_eq!(script.code, 0, "{}", script.err);
    let file = place.path("tmp").join("doorbell.bash");
    std::fs::write(&file, &script.out).unwrap();
    let complete = |words: &str, last: usize| {
        let script = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={last}; \
             _doorbell doorbell \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{last}-1]}}\"; echo \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        let ran = std::process::Command::new("bash")
            .args(["-c", &script])
            .output()
            .unwrap();
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("doorbell bringu", 1), "bringup");
    assert_eq!(complete("doorbell bringup --reco", 2), "--recorded");
    assert_eq!(complete("doorbell bringup --from gra", 3), "graph");
    for shell in ["zsh", "fish"] {
        let ran = place.run(&["completions", shell], &[]);
        assert!(
            ran.code == 0 && ran.out.contains("bringup"),
            "{shell}: {}",
            ran.err
        );
    }

    let folder = place.path("tmp");
    let ran = place.run(&["man", folder.to_str().unwrap()], &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = std::fs::read_to_string(folder.join("doorbell-bringup.1")).unwrap();
    assert!(page.contains("deadline"), "{page}");
    let first = std::fs::read_to_string(folder.join("doorbell.1")).unwrap();
    assert!(
        first.contains(".SH ENVIRONMENT AND EXIT CODES\n"),
        "{first}"
    );
    let help = place.run(&["--help"], &[]).out;
    for command in ["demo", "doctor", "twin", "setup"] {
        assert!(help.contains(command));
        assert!(
            folder.join(format!("doorbell-{command}.1")).is_file(),
            "{command}"
        );
    }
    let ran = place.run(&["man", "none/there"], &[]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("none/there: "), "{}", ran.err);
}

#[test]
fn setup_prints_and_writes_nothing() {
    let place = Place::new();
    let ran = place.run(&["setup", "--print", "usb"], &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("ATTR{idVendor}==\"174c\""), "{}", ran.out);
    assert!(ran.out.contains("GROUP=\"render\""), "{}", ran.out);
    // A shell takes it.
    let checked = std::process::Command::new("sh")
        .args(["-n", "-c", &ran.out])
        .status();
    assert!(checked.unwrap().success());
    assert_eq!(place.run(&["setup"], &[]).code, 2);
    place.wrote(&[], false);
}

/// The machine of the pictures: one card of amdgpu with a program on it, one without kernel driver that is ours.
#[test]
fn smi_shows_what_cards_are_at_and_who_has_them() {
    let place = Place::new();
    let root = place.path("tmp").join("machine");
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.pictures/machine.txt");
    for line in std::fs::read_to_string(files).unwrap().lines() {
        let Some((path, text)) = line.split_once(" = ") else {
            continue;
        };
        let path = root.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.replace("\\n", "\n").replace("\\0", "\0")).unwrap();
    }
    let root = root.to_str().unwrap();
    let found = rows(
        &place.run(&["smi", "--json", "--root", root], &[]),
        "doorbell.smi/1",
    );
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(
        (&found[0]["celsius"], &found[0]["watts"]),
        (&Value::from(61.0), &Value::from(323.0))
    );
    assert_eq!(found[0]["users"][0]["queues"], 2);
    assert_eq!(found[1]["users"][0]["command"], "doorbell bench all");
    assert_eq!(found[1]["celsius"], Value::Null);
    let text = place.run(&["smi", "--root", root], &[]).out;
    for part in [
        "0000:03:00.0 AMD Navi 31 (gfx1100), driver amdgpu, 16.0 GT/s x16\n",
        "  18.0 of 24.0 GiB, busy 97 %, 323 of 339 W, 61 °C, core 2371 MHz",
        "  4711 17.0 GiB, 2 queues",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }

    let twin = [("DEV", "TWINPCI+AMD::gfx1201")];
    let ran = place.run(&["smi", "--json"], &twin);
    let found = rows(&ran, "doorbell.smi/1");
    assert_eq!(found[0]["arch"], "gfx1201");
    for (dev, driver, named) in [
        ("TWINKFD+AMD::gfx1100", "amdgpu", "AMD Navi 31"),
        ("TWINNVK+NV::sm_90", "nvidia", "NVIDIA H100 80GB HBM3"),
    ] {
        let ran = place.run(&["smi", "--json"], &[("DEV", dev)]);
        let found = rows(&ran, "doorbell.smi/1");
        assert_eq!(
            (&found[0]["driver"], &found[0]["name"]),
            (&Value::from(driver), &Value::from(named))
        );
        for value in ["celsius", "watts", "core_mhz", "memory_total"] {
            assert!(found[0][value].as_f64() > Some(0.0), "{value}: {}", ran.out);
        }
        assert_eq!(found[0]["users"], Value::Array(Vec::new()));
    }
    let usb = [("DEV", "TWINUSB+AMD::gfx1201")];
    let ran = place.run(&["smi", "--smu"], &usb);
    assert!(
        ran.out.contains("bridge to PCIe (") && ran.out.contains(", on USB, "),
        "{}",
        ran.out
    );
    assert!(
        ran.err.contains("power management not started"),
        "{}",
        ran.err
    );
    let ran = place.run(&["smi", "--watch"], &twin);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("stdout is not a terminal"), "{}", ran.err);
}
