//! What a person gets wrong with model bundles, and what the programs say then.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[path = "../../../../../drivers/run/tests/small/mod.rs"]
mod small;

use super::*;
use crate::place::Ran;

/// Pixels, as cameras give them: the largest.
fn pixels() -> Vec<u8> {
    let dims = [Dim::Fixed(1), Dim::Fixed(512)];
    let mut w = Writer::new("pixels", 17);
    w.input("x", &write::tensor(DType::U8, &dims));
    w.node("Cast", &["x"], &["f"], [write::int("to", 1)]);
    w.node("ReduceMax", &["f"], &["y"], [write::int("keepdims", 1)]);
    w.output("y", &floats(&[1, 1]));
    w.finish()
}

/// A place with the bundle `net.dbx` of a model, for the CPU.
fn compiled(model: Vec<u8>) -> Place {
    let place = place(&[("net.onnx", model)]);
    let args = ["compile", "net.onnx", "--target", "CPU", "-o", "net.dbx"];
    succeed(&place, &args, CPU);
    place
}

fn path(place: &Place, name: &str) -> PathBuf {
    place.path("work").join(name)
}

fn refused(place: &Place, args: &[&str], code: i32, said: &[&str]) -> Ran {
    let ran = place.run(args, CPU);
    assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
    for said in said {
        assert!(ran.err.contains(said), "{args:?}: {said}: {}", ran.err);
    }
    ran
}

#[test]
fn random_pixels_have_all_values_and_seeds_are_said() {
    let place = compiled(pixels());
    let verify = ["verify", "net.dbx", "--model", "net.onnx"];
    let ran = succeed(&place, &verify, CPU);
    assert!(
        ran.err
            .contains("random    x: seeds 0 to 2, one for each run"),
        "{}",
        ran.err
    );
    // The largest of 512 pixels.
    let ran = succeed(&place, &["run", "net.dbx", "--output", "out"], CPU);
    assert!(
        ran.err.contains("input x: random with seed 0"),
        "{}",
        ran.err
    );
    let array = npy::read(path(&place, "out").join("y.npy")).unwrap();
    let largest = f32::from_le_bytes(array.data[..4].try_into().unwrap());
    assert!((200.0..=255.0).contains(&largest), "{largest}");
    // The bytes themselves.
    fs::write(path(&place, "x.bin"), [77; 512]).unwrap();
    let raw = ["--input", "x=x.bin"];
    let ran = succeed(&place, &[&verify[..], &raw].concat(), CPU);
    assert!(!ran.err.contains("random "), "{}", ran.err);
    for file in ["net.dbx", "net.onnx"] {
        let ran = succeed(
            &place,
            &[&["run", file, "--output", "out"], &raw[..]].concat(),
            CPU,
        );
        assert!(!ran.err.contains("random"), "{}", ran.err);
        let array = npy::read(path(&place, "out").join("y.npy")).unwrap();
        assert_eq!(array.data, 77f32.to_le_bytes());
    }
    fs::write(path(&place, "short.bin"), [77; 511]).unwrap();
    for file in ["net.dbx", "net.onnx"] {
        let said = ["expected 512 bytes, u8 [1, 512], found 511 bytes in short.bin"];
        refused(&place, &["run", file, "--input", "x=short.bin"], 2, &said);
    }
    let said = ["expected 512 bytes", "found more bytes in zero.bin"];
    std::os::unix::fs::symlink("/dev/zero", path(&place, "zero.bin")).unwrap();
    refused(
        &place,
        &["run", "net.dbx", "--input", "x=zero.bin"],
        2,
        &said,
    );
}

#[test]
fn bounds_of_verify_are_ones_that_can_be_exceeded() {
    let place = compiled(pixels());
    for (option, wrong) in [
        ("--tolerance=nan", "finite number"),
        ("--tolerance=-1", "finite number"),
        ("--tolerance=inf", "finite number"),
        ("--limit=0", "--limit"),
        ("--runs=0", "--runs"),
    ] {
        let args = ["verify", "net.dbx", "--model", "net.onnx", option];
        refused(&place, &args, 2, &[wrong]);
    }
    refused(&place, &["demo", "--at-least=nan"], 2, &["finite number"]);
    refused(&place, &["run", "net.dbx", "--limit", "0"], 2, &["--limit"]);
    let model = ["run", "net.onnx", "--limit", "9"];
    refused(&place, &model, 2, &["HCQDEV_WORK_TIMEOUT_MS"]);
}

#[test]
fn a_file_that_is_read_is_not_written() {
    let place = compiled(recurrent());
    let read = |name: &str| fs::read(path(&place, name)).unwrap();
    let before = read("net.onnx");
    fs::hard_link(path(&place, "net.onnx"), path(&place, "hard")).unwrap();
    std::os::unix::fs::symlink("net.onnx", path(&place, "soft")).unwrap();
    let first = Tensor::full(&Engine::reference(), &[1, 8], 1.0, DType::F32).unwrap();
    first.write_npy(path(&place, "y.npy")).unwrap();
    let array = read("y.npy");
    for output in ["net.onnx", "./net.onnx", "hard", "soft", "y.npy"] {
        let args = [
            "compile", "net.onnx", "--target", "CPU", "--input", "h=y.npy", "-o", output,
        ];
        refused(&place, &args, 2, &["Name another file"]);
    }
    // What may be the model's weights.
    fs::write(path(&place, "weights"), "weights").unwrap();
    let args = ["compile", "net.onnx", "--target", "CPU", "-o", "weights"];
    refused(
        &place,
        &args,
        2,
        &["weights: expected a new file, or a model bundle"],
    );
    assert_eq!(read("weights"), b"weights");
    let args = ["run", "net.onnx", "--input", "x=y.npy", "--output", "."];
    refused(&place, &args, 2, &["y.npy", "Name another file"]);
    let args = ["run", "net.onnx", "--profile", "net.onnx"];
    refused(&place, &args, 2, &["Name another file"]);
    assert_eq!((read("net.onnx"), read("y.npy")), (before, array));
    // A bundle is replaced, not written into: who has it open has a whole one.
    let inode = || fs::metadata(path(&place, "net.dbx")).unwrap().ino();
    let old = inode();
    let args = ["compile", "net.onnx", "--target", "CPU", "-o", "net.dbx"];
    succeed(&place, &args, CPU);
    assert_ne!(inode(), old);
    refused(
        &place,
        &["compile", "net.onnx", "--target", "CPU", "-o", "no/net.dbx"],
        1,
        &["no/net.dbx: No such file"],
    );
    let names = place.files("work");
    assert!(
        !names
            .iter()
            .any(|name| name.display().to_string().contains("partial")),
        "{names:?}"
    );
}

/// A kernel that never ends: the program does.
#[test]
fn a_late_run_is_reported_while_it_goes_on() {
    let place = Place::new();
    let spin = small::file(small::SPIN, |_| ());
    fs::write(path(&place, "spin.dbx"), spin).unwrap();
    let args = ["run", "spin.dbx", "--input", "x=0", "--limit", "20"];
    let said = ["not over after 20ms", "raise the limit: --limit MS"];
    let ran = refused(&place, &args, 5, &said);
    assert!(!ran.err.contains("HCQDEV"), "{}", ran.err);
}

#[test]
fn two_targets_for_the_same_code_are_one_too_many() {
    let place = place(&[("net.onnx", pixels())]);
    let here = format!("CPU::{}", std::env::consts::ARCH);
    for (one, two) in [
        ("CPU", "CPU"),
        ("CPU", "CPU:0"),
        ("QCOM::a630", "KGSL+QCOM::A630"),
        (&*here, &*here),
    ] {
        let args = [
            "compile", "net.onnx", "-o", "no.dbx", "--target", one, "--target", two,
        ];
        let said = format!("--target {two}: expected other code than that of --target {one}");
        refused(&place, &args, 2, &[&said, "leave one of them out"]);
    }
    place.wrote(&["net.onnx"], true);
}

#[test]
fn a_device_that_is_not_understood_is_no_cpu() {
    let place = compiled(pixels());
    let run = |dev: &[u8]| {
        let mut command = place.command(&["run", "net.dbx"], &[]);
        let output = command.env("DEV", OsStr::from_bytes(dev)).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), err)
    };
    for (dev, code, said) in [
        (&b"\xff"[..], 2, "DEV=\u{fffd}: expected UTF-8, found"),
        (b"CPU:9", 2, "DEV=CPU:9: expected CPU without a number"),
        (
            b"QCOM;CPU",
            2,
            "separate them by |, in quotes: DEV='QCOM|CPU'",
        ),
        (
            b"QCOM::a740",
            6,
            "QCOM::a740 is not supported: expected one of a605",
        ),
        (b"QCOM::a63", 6, "a630"),
    ] {
        let (found, err) = run(dev);
        assert_eq!(found, Some(code), "{err}");
        assert!(err.contains(said), "{err}");
    }
    refused(
        &place,
        &["--dev", "CPU:9", "run", "net.dbx"],
        2,
        &["--dev=CPU:9: expected CPU"],
    );
}

#[test]
fn who_has_no_code_for_the_cpu_is_told_to_compile_for_it() {
    let place = place(&[("net.onnx", pixels())]);
    let args = [
        "compile",
        "net.onnx",
        "--target",
        "QCOM::a630",
        "-o",
        "net.dbx",
    ];
    succeed(&place, &args, CPU);
    // No machine has so many.
    let ran = place.run(&["run", "net.dbx"], &[("DEV", "MSM:99+QCOM")]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    let said = "net.dbx has code for QCOM::a630 only: to run it here, compile it with --target CPU as well";
    assert!(
        ran.err.contains(said) && !ran.err.contains("DEV=CPU"),
        "{}",
        ran.err
    );
}

#[test]
fn nothing_of_a_bundle_is_cut() {
    let place = compiled(pixels());
    let json = rows(
        &succeed(&place, &["inspect", "net.dbx", "--json"], CPU),
        "doorbell.inspect-bundle/1",
    );
    let compiler = json[0]["targets"][0]["compiler"].as_str().unwrap();
    let text = succeed(&place, &["inspect", "net.dbx"], CPU).out;
    let by = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("by "))
        .unwrap();
    // Options and passes are for programs that read it.
    assert!(
        compiler.contains(by) && compiler.len() > by.len() + 10,
        "{compiler}: {text}"
    );
    refused(
        &place,
        &["run", "net.dbx", "--dim", "n=2"],
        2,
        &["no open sizes"],
    );
    let twice = ["run", "net.dbx", "--input", "x=1", "--input", "x=2"];
    refused(&place, &twice, 2, &["expected --input x once"]);
}

/// The same failure, by both programs.
#[test]
fn both_programs_end_with_the_same_codes_and_count_the_same_runs() {
    let place = compiled(pixels());
    let bytes = fs::read(path(&place, "net.dbx")).unwrap();
    fs::write(path(&place, "cut.dbx"), &bytes[..bytes.len() - 1]).unwrap();
    let small = |args: &[&str], dev: &str| {
        let program = Path::new(env!("CARGO_BIN_EXE_doorbell")).with_file_name("doorbell-run");
        let mut command = Command::new(program);
        command.args(args).current_dir(place.path("work"));
        command
            .env("DEV", dev)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    for (args, dev, code) in [
        (&["net.dbx"][..], "CPU", 0),
        (&["gone.dbx"], "CPU", 1),
        (&["cut.dbx"], "CPU", 1),
        (&["net.dbx", "--input", "x=gone.bin"], "CPU", 1),
        (&["net.dbx", "--input", "z=x.bin"], "CPU", 2),
        (&["net.dbx", "--nothing"], "CPU", 2),
        (&["net.dbx", "--repeat", "0"], "CPU", 2),
        (&["net.dbx", "--limit", "0"], "CPU", 2),
        (&["net.dbx"], "CPU:9", 2),
        (&["net.dbx"], "nothing", 2),
        (&["net.dbx"], "QCOM|NV", 3),
        (&["net.dbx"], "NV", 6),
        (&["net.dbx"], "QCOM::a740", 6),
    ] {
        let own = small(args, dev);
        let err = String::from_utf8_lossy(&own.stderr);
        assert_eq!(
            own.status.code(),
            Some(code),
            "doorbell-run {args:?} {dev}: {err}"
        );
        let ran = place.run(&[&["run"], args].concat(), &[("DEV", dev)]);
        assert_eq!(ran.code, code, "doorbell run {args:?} {dev}: {}", ran.err);
    }
    let own = small(&["net.dbx", "--repeat", "3"], "CPU");
    let ran = succeed(&place, &["run", "net.dbx", "--repeat", "3"], CPU);
    let counted = "median of 2 runs";
    assert!(String::from_utf8_lossy(&own.stdout).contains(counted));
    assert!(ran.err.contains(counted), "{}", ran.err);
    let help = succeed(&place, &["run", "--help"], &[]).out;
    let own = String::from_utf8_lossy(&small(&["--help"], "").stdout).into_owned();
    for text in [&help, &own] {
        assert!(
            text.to_lowercase()
                .contains("number of runs, the first included"),
            "{text}"
        );
    }
    // Lines are broken where the program's own help breaks them.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let all = succeed(&place, &["--help"], &[]).out;
    for text in [&all, &own] {
        assert!(
            words(text).contains(&words(doorbell_run::error::EXIT_CODES)),
            "{text}"
        );
    }
}

/// Chips of a file without a simulator: another of the file is taken, or the reason is said.
#[cfg(feature = "twin")]
#[test]
fn a_chip_that_is_not_simulated_is_left_out() {
    let place = place(&[("net.onnx", pixels())]);
    let verify = ["verify", "net.dbx", "--model", "net.onnx", "--runs", "1"];
    let compile = [
        "compile",
        "net.onnx",
        "-o",
        "net.dbx",
        "--target",
        "QCOM::a702",
    ];
    succeed(&place, &compile, CPU);
    let ran = place.run(&verify, &[]);
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(
        ran.err
            .contains("none of the file is simulated: TWINKGSL+QCOM::a702"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("a630") && ran.err.contains("DEV=QCOM"),
        "{}",
        ran.err
    );
    succeed(
        &place,
        &[&compile[..], &["--target", "QCOM::a630"]].concat(),
        CPU,
    );
    let ran = succeed(&place, &verify, &[]);
    assert!(ran.err.contains("DEV=TWINKGSL+QCOM::a630"), "{}", ran.err);
}
