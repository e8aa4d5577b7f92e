//! The program `doorbell-run`, as a person uses it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::small::{self, ROW};

/// A folder with a bundle in it.
struct Place(TempDir);

struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// With the file `model.dbx`, whose input is `x` and whose output is `y`.
fn place() -> Place {
    let place = Place(tempfile::tempdir().unwrap());
    fs::write(place.at("model.dbx"), small::good()).unwrap();
    fs::write(place.at("x.bin"), small::bytes(&[10; ROW as usize])).unwrap();
    place
}

impl Place {
    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn names(&self) -> Vec<OsString> {
        let files = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell-run"));
        command.args(args).current_dir(self.0.path());
        command.env_remove("DEV").stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        ran(&mut self.command(args))
    }

    /// The error of a run.
    fn error(&self, args: &[&str], code: i32) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
        ran.err
    }
}

fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    let ran = Ran {
        code: output.status.code().expect("ended by a signal"),
        out: String::from_utf8_lossy(&output.stdout).into(),
        err: String::from_utf8_lossy(&output.stderr).into(),
    };
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
    ran
}

#[test]
fn it_says_who_it_is() {
    let place = place();
    for option in ["--version", "-V"] {
        let said = format!("doorbell-run {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(place.run(&[option]).out, said);
    }
    let help = place.run(&["--help"]);
    assert!(
        help.out.contains("--repeat N") && help.code == 0,
        "{}",
        help.out
    );
    assert!(
        help.out.contains(doorbell_run::error::EXIT_CODES),
        "{}",
        help.out
    );
    let wrong = place.error(&["--nothing"], 2);
    assert_eq!(
        wrong,
        "error: unknown option \"--nothing\"; `doorbell-run --help` lists the options\n"
    );
}

#[test]
fn runs_are_counted_with_the_first_and_outputs_are_written_whole() {
    let place = place();
    let args = [
        "model.dbx",
        "--repeat",
        "3",
        "--input",
        "x=x.bin",
        "--output=y=y.bin",
    ];
    fs::write(place.at("y.bin"), "before").unwrap();
    let ran = place.run(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("median of 2 runs"), "{}", ran.out);
    // The queue's rows are 0, 1, 2.
    assert_eq!(
        small::values(&fs::read(place.at("y.bin")).unwrap()),
        [12; ROW as usize]
    );
    assert_eq!(place.names(), ["model.dbx", "x.bin", "y.bin"]);
    let once = place.run(&["model.dbx", "--repeat", "1"]);
    assert!(
        once.code == 0 && !once.out.contains("later"),
        "{}",
        once.out
    );
    // Nothing is allocated for the number of runs: a limit that is too short ends them.
    let spin = small::file(small::SPIN, |_| ());
    fs::write(place.at("spin.dbx"), spin).unwrap();
    let error = place.error(&["spin.dbx", "--repeat", "4294967295", "--limit", "20"], 5);
    assert!(error.contains("raise the limit: --limit MS"), "{error}");
}

/// What this device does not use is checked on demand.
#[test]
fn all_of_a_file_is_checked_if_asked_for() {
    let place = place();
    let plan = |plan: &mut doorbell_run::plan::TargetPlan| {
        (plan.device, plan.arch) = ("QCOM".into(), "a630".into());
    };
    let mut file = small::file_for("void kernel(void) {}", plan, true);
    fs::write(place.at("whole.dbx"), &file).unwrap();
    let whole = place.run(&["whole.dbx", "--check", "--repeat", "1"]);
    assert_eq!(whole.code, 0, "{}", whole.err);
    // The code for the Adreno is before that for the processor.
    let code = file.windows(4).position(|four| four == b"\x7fELF");
    file[code.unwrap() + 100] ^= 1;
    fs::write(place.at("half.dbx"), &file).unwrap();
    let ran = place.run(&["half.dbx", "--repeat", "1"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let error = place.error(&["half.dbx", "--check"], 1);
    assert!(error.contains("Copy the file again"), "{error}");
}

#[test]
fn files_of_any_name_are_read_and_written() {
    let place = place();
    let odd = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    fs::rename(place.at("model.dbx"), place.0.path().join(odd(b"\xff.dbx"))).unwrap();
    fs::rename(place.at("x.bin"), place.0.path().join(odd(b"\xfe"))).unwrap();
    let mut command = place.command(&[]);
    command.arg(odd(b"\xff.dbx"));
    command.args([
        odd(b"--input"),
        odd(b"x=\xfe"),
        odd(b"--output"),
        odd(b"y=\xfd"),
    ]);
    let ran = ran(&mut command);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let values = small::values(&fs::read(place.0.path().join(odd(b"\xfd"))).unwrap());
    // Ten runs: the queue has four rows of 0 to 3, to which 10 is added again and again.
    assert_eq!(values.len(), ROW as usize);
    let wrong = super::program::ran(place.command(&[]).arg(odd(b"\xfc.dbx")));
    assert_eq!(wrong.code, 1);
    assert!(wrong.err.contains("No such file"), "{}", wrong.err);
}

#[test]
fn a_file_that_is_read_is_not_written() {
    let place = place();
    fs::hard_link(place.at("model.dbx"), place.at("same")).unwrap();
    let before = fs::read(place.at("model.dbx")).unwrap();
    for (output, other) in [
        ("y=model.dbx", "model.dbx"),
        ("y=same", "model.dbx"),
        ("y=./x.bin", "x.bin"),
    ] {
        let args = ["model.dbx", "--input", "x=x.bin", "--output", output];
        let error = place.error(&args, 2);
        assert!(
            error.contains(other) && error.contains("Name another file"),
            "{error}"
        );
    }
    assert_eq!(fs::read(place.at("model.dbx")).unwrap(), before);
    // A name that the model does not have is found before anything runs.
    let spin = small::file(small::SPIN, |_| ());
    fs::write(place.at("spin.dbx"), spin).unwrap();
    let error = place.error(&["spin.dbx", "--limit", "20", "--output", "z=z.bin"], 2);
    assert!(error.contains("output \"z\": expected one of y"), "{error}");
    // So is a folder that is not there, before a run that does not end.
    for (file, code) in [("missing/y.bin", 1), ("x.bin/y.bin", 1), (".", 1)] {
        let output = format!("y={file}");
        let error = place.error(&["spin.dbx", "--limit", "20", "--output", &output], code);
        assert!(error.contains(&format!("error: {file}: ")), "{error}");
    }
    let error = place.error(&["spin.dbx", "--limit", "20", "--input", "z=x.bin"], 2);
    assert!(error.contains("input \"z\": expected one of x"), "{error}");
}

#[test]
fn inputs_have_as_many_bytes_as_they_should() {
    let place = place();
    let input = |path: &str| {
        place.error(
            &[
                "model.dbx",
                "--limit",
                "200",
                "--input",
                &format!("x={path}"),
            ],
            2,
        )
    };
    let error = input("/dev/zero");
    assert!(
        error.contains("expected 64 bytes, i64 [1, 8], found more bytes in /dev/zero"),
        "{error}"
    );
    fs::write(place.at("short"), [0; 63]).unwrap();
    let error = input("short");
    assert!(error.contains("found 63 bytes in short"), "{error}");
    File::create(place.at("long"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let error = input("long");
    assert!(
        error.contains("found 1099511627776 bytes in long"),
        "{error}"
    );
    // A pipe that nobody writes to.
    let made = Command::new("mkfifo")
        .arg(place.at("pipe"))
        .status()
        .unwrap();
    assert!(made.success());
    let error = input("pipe");
    assert!(
        error.contains("found 0 bytes from pipe after 200ms, and no end"),
        "{error}"
    );
    let gone = place.error(&["model.dbx", "--input", "x=gone"], 1);
    assert!(gone.contains("gone: No such file"), "{gone}");
    // One that somebody writes to.
    let script = "cat x.bin > pipe & exec \"$0\" model.dbx --input x=pipe --output y=y.bin --repeat 1 --limit 60000";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_doorbell-run")]);
    let ran = ran(shell.current_dir(place.0.path()).env_remove("DEV"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        small::values(&fs::read(place.at("y.bin")).unwrap()),
        [10; ROW as usize]
    );
}

#[test]
fn what_cannot_be_printed_is_a_failure() {
    let place = place();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for args in [&["model.dbx"][..], &["--help"], &["--version"]] {
        let ran = ran(place.command(args).stdout(full()));
        // `output` gives stdout a pipe unless it is set.
        assert_eq!(ran.code, 1, "{args:?}: {}", ran.err);
        assert!(
            ran.err.contains("cannot write to stdout: No space left"),
            "{}",
            ran.err
        );
    }
    // A reader that has gone is no failure.
    let mut shell = Command::new("sh");
    let script = "{ \"$0\" model.dbx; echo $? > code; } | true";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_doorbell-run")]);
    assert!(
        shell
            .current_dir(place.0.path())
            .env_remove("DEV")
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(fs::read_to_string(place.at("code")).unwrap().trim(), "0");
}

#[test]
fn a_device_that_is_not_understood_is_no_cpu() {
    let place = place();
    for (dev, said) in [
        (&b"\xff"[..], "DEV=\u{fffd}: expected UTF-8"),
        (b"CPU:9", "DEV=CPU:9: expected CPU without a number"),
        (b"QCOM;CPU", "separate them by |, in quotes: DEV='QCOM|CPU'"),
    ] {
        let ran = ran(place
            .command(&["model.dbx"])
            .env("DEV", OsStr::from_bytes(dev)));
        assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains(said), "{}", ran.err);
    }
    for (dev, code, said) in [
        ("TWINKGSL+QCOM::a630", 2, "doorbell verify"),
        ("QCOM::a740", 6, "expected one of a605"),
        ("AMD", 6, "no code for AMD, only for CPU::"),
        ("QCOM|AMD", 3, "no device of QCOM|AMD can run model.dbx"),
    ] {
        let ran = ran(place.command(&["model.dbx"]).env("DEV", dev));
        assert_eq!(ran.code, code, "{}", ran.err);
        assert!(ran.err.contains(said), "{}", ran.err);
    }
}

#[test]
fn an_output_that_may_not_be_so_large_is_an_error_and_nothing_is_left() {
    let place = place();
    fs::write(place.at("y.bin"), "before").unwrap();
    let script = "ulimit -f 0; exec \"$0\" model.dbx --output y=y.bin";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_doorbell-run")]);
    let ran = ran(shell.current_dir(place.0.path()).env_remove("DEV"));
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("y.bin: File too large"), "{}", ran.err);
    assert_eq!(fs::read(place.at("y.bin")).unwrap(), b"before");
    assert_eq!(place.names(), ["model.dbx", "x.bin", "y.bin"]);
}

/// Names of the file act on no terminal.
#[test]
fn what_a_file_calls_itself_is_printed_as_text() {
    let place = place();
    let mut bytes = fs::read(place.at("model.dbx")).unwrap();
    let at = bytes.windows(5).position(|w| w == b"small").unwrap();
    bytes[at] = 0x1b;
    fs::write(place.at("odd.dbx"), doorbell_run::write::sealed(bytes)).unwrap();
    let ran = place.run(&["odd.dbx", "--repeat", "1"]);
    assert!(ran.out.contains("model    \\u{1b}mall by"), "{}", ran.out);
}

/// The system says the same where a process may have no more threads and where it may have no more addresses.
#[test]
fn a_limit_of_addresses_is_named() {
    let place = place();
    let script = "ulimit -v 16000000; exec \"$0\" model.dbx";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_doorbell-run")]);
    // Stacks of 8 MiB each.
    shell.env("CPU_COUNT", "4096").env_remove("DEV");
    let ran = ran(shell.current_dir(place.0.path()));
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("ulimit -v"), "{}", ran.err);
}
