//! The commands of all pages: they run in order, one folder per page; [`EXCEPTIONS`] lists those that run otherwise or not.

use crate::place;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use doorbell::DType;
use doorbell::onnx::Dim;
use doorbell::onnx::write::{self, Writer};
use place::Place;

/// How a command is run, with the reason.
enum Run {
    /// Not at all.
    Not(&'static str),
    /// With these arguments added.
    With(&'static str, &'static str),
    /// This command runs instead.
    As(&'static str, &'static str),
    /// It exits with one of these codes.
    Ends(&'static [i32], &'static str),
}
use Run::{As, Ends, Not, With};

const RUN: Run = Not("drivers/run has tests of this program");
const SMALL: &str = "the small nets have the same operators; those of this size take minutes";
const CARD: Run = Not("needs a card");
const KERNEL: Run = Not("needs root, and loads a kernel module");
const SYNOPSIS: Run = Not("a synopsis");
const LIBRARY: Run = Not("tests/twin/preload has tests of both variables");
const MACHINE: Run = With(
    "--root machine",
    "a made-up machine has a card at that address",
);

/// By the command's line without its comment.
const EXCEPTIONS: &[(&str, Run)] = &[
    (
        "alias doorbell=$PWD/target/release/doorbell",
        Not("concerns the shell only"),
    ),
    ("DEV=AMD doorbell bringup", CARD),
    ("DEV=AMD doorbell demo", CARD),
    ("DEV=AMD target/release/doorbell bringup", CARD),
    ("DEV=AMD target/release/doorbell demo", CARD),
    ("DEV=NV doorbell bringup", CARD),
    ("DEV=QCOM doorbell bringup", CARD),
    ("DEV=NV doorbell demo", CARD),
    ("DEV=NV target/release/doorbell bringup", CARD),
    ("DEV=NV target/release/doorbell demo", CARD),
    ("DEV=USB+AMD doorbell bringup", CARD),
    ("DEV=USB+AMD doorbell demo --epochs 1 --at-least 0", CARD),
    ("sudo DEV=PCI+AMD target/release/doorbell bringup", CARD),
    ("sudo DEV=PCI+AMD target/release/doorbell demo", CARD),
    ("sudo DEV=PCI+NV target/release/doorbell bringup", CARD),
    (
        "sudo target/release/doorbell regs read GRBM_STATUS --at 0000:03:00.0",
        CARD,
    ),
    ("sudo target/release/doorbell smi --smu", MACHINE),
    ("doorbell bind 0000:03:00.0 --plan", MACHINE),
    ("sudo target/release/doorbell bind 0000:03:00.0", MACHINE),
    (
        "sudo target/release/doorbell unbind 0000:03:00.0 --restore",
        MACHINE,
    ),
    (
        "doorbell fw list --chip gfx1201",
        Ends(&[0, 1], "1 if a file is missing, as on most machines"),
    ),
    (
        "doorbell fw list --chip ga102",
        Ends(&[0, 1], "1 if a file is missing, as on most machines"),
    ),
    (
        "doorbell smi --watch",
        Not("needs a terminal; scripts/pictures runs it in one"),
    ),
    (
        "doorbell explain FILE",
        As("doorbell explain bundle.json", "a recorded bundle"),
    ),
    (
        "DEBUG=2 doorbell demo",
        With(
            "--epochs 1 --steps 3 --at-least 0",
            "the whole training takes minutes",
        ),
    ),
    (
        "doorbell trace diff run.trace amdgpu.txt",
        Ends(&[1], "amdgpu.txt here has one access; the files differ"),
    ),
    (
        "trace-cmd record -e amdgpu:amdgpu_device_rreg -e amdgpu:amdgpu_device_wreg modprobe amdgpu",
        KERNEL,
    ),
    ("trace-cmd report > amdgpu.txt", KERNEL),
    (
        "cargo build --release -p doorbell -p twin-preload",
        Not("cargo has built both for this test"),
    ),
    (
        "hipcc --offload-arch=gfx1100 -o add tests/twin/rocr/add.cpp",
        Not("needs HIP; scripts/rocr compiles it"),
    ),
    (
        "target/release/doorbell twin exec --twin chip=gfx1100 -- ./add",
        As(
            "doorbell twin exec --twin chip=gfx1100 -- true",
            "the program needs HIP; scripts/rocr runs it",
        ),
    ),
    (
        "doorbell twin exec [--twin CONFIG] [--allow RULE] [--deadline SECONDS] [--json] -- PROGRAM ARG...",
        SYNOPSIS,
    ),
    (
        "doorbell twin exec --record FILE -- PROGRAM ARG...",
        As("doorbell twin exec --record FILE -- true", "any program"),
    ),
    (
        "doorbell twin replay [--show] [--allow RULE] [--json] FILE",
        As("doorbell twin replay --show FILE", "a synopsis"),
    ),
    (
        "DOORBELL_TWIN_CONFIG=chip=ad102,driver=550 LD_PRELOAD=target/release/libdoorbell_preload.so PROGRAM",
        LIBRARY,
    ),
    (
        "DOORBELL_RECORD=FILE LD_PRELOAD=target/release/libdoorbell_preload.so PROGRAM",
        LIBRARY,
    ),
    (
        "cargo run -p drivers --example queue",
        Not("a test of drivers runs it, without cargo"),
    ),
    (
        "doorbell demo",
        Not("an example of a fault, which needs a card"),
    ),
    (
        "doorbell compile MODEL.onnx --target CPU --half --state h=h_next --queue features=hidden@1 -o model.dbx",
        As(
            "doorbell compile MODEL.onnx --target CPU --half --dim batch=2 -o model.dbx",
            "the model here has no state",
        ),
    ),
    ("DEV=QCOM ./doorbell-run model.dbx --repeat 100", RUN),
    ("scp PROGRAM model.dbx BOARD:", Not("needs a board")),
    (
        "DEV=AMD doorbell trace record FILE -- bench launch",
        As("doorbell trace record FILE -- bench launch", "needs a card"),
    ),
    ("DEV='QCOM|CPU' doorbell-run model.dbx --limit 50", RUN),
    (
        "DEV='QCOM|CPU' doorbell-run driving_policy.dbx --limit 50",
        RUN,
    ),
    (
        "doorbell compile target/models/openpilot-full/driving_vision/model.onnx --target QCOM::a630 --target CPU::aarch64 --half --queue img_queue=img_new@1 --queue big_img_queue=big_img_new@1 -o driving_vision.dbx",
        As(
            "doorbell compile target/models/openpilot/driving_vision/model.onnx --target QCOM::a630 --target CPU::aarch64 --half --queue img_queue=img_new@1 --queue big_img_queue=big_img_new@1 -o driving_vision.dbx",
            SMALL,
        ),
    ),
    (
        "doorbell compile target/models/openpilot-full/driving_policy/model.onnx --target QCOM::a630 --target CPU::aarch64 --half --state features_queue=features_next --queue desire_queue=desire_now@1 -o driving_policy.dbx",
        As(
            "doorbell compile target/models/openpilot/driving_policy/model.onnx --target QCOM::a630 --target CPU::aarch64 --half --state features_queue=features_next --queue desire_queue=desire_now@1 -o driving_policy.dbx",
            SMALL,
        ),
    ),
    (
        "doorbell verify driving_vision.dbx --model target/models/openpilot-full/driving_vision/model.onnx --runs 1",
        As(
            "doorbell verify driving_vision.dbx --model target/models/openpilot/driving_vision/model.onnx --runs 1",
            SMALL,
        ),
    ),
    (
        "doorbell verify driving_policy.dbx --model target/models/openpilot-full/driving_policy/model.onnx --runs 1",
        As(
            "doorbell verify driving_policy.dbx --model target/models/openpilot/driving_policy/model.onnx --runs 1",
            SMALL,
        ),
    ),
    (
        "doorbell-run model.dbx --input x=x.bin --output y=y.bin",
        RUN,
    ),
    (
        "doorbell explain /home/me/.local/state/doorbell/20261123T094533Z-AMD-0-fault.json",
        As("doorbell explain bundle.json", "a recorded bundle"),
    ),
];

/// A test per page, so that the pages run side by side.
macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        const PAGES: &[&str] = &[$($page),*];
        $(#[test]
        fn $test() {
            run_page($page);
        })*
    };
}

pages! {
    front_page: "README.md",
    amd: "drivers/amd/README.md",
    nv: "drivers/nv/README.md",
    qcom: "drivers/qcom/README.md",
    twin: "tests/twin/README.md",
    hcq: "hcq/README.md",
    run: "drivers/run/README.md",
    tensor: "tensor/README.md",
    help_hangs: "tensor/cli/help/hangs.md",
    help_models: "tensor/cli/help/models.md",
    help_targets: "tensor/cli/help/targets.md",
    help_tracing: "tensor/cli/help/tracing.md",
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

/// Every README of the repository, and the pages of `doorbell help`.
fn all_pages() -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![root()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                open.push(path);
            } else if name == "README.md" || path.parent().unwrap().ends_with("cli/help") {
                let page = path.strip_prefix(root()).unwrap();
                found.push(page.display().to_string());
            }
        }
    }
    found
}

/// The text between fences of a language.
fn blocks<'a>(text: &'a str, language: &'a str) -> impl Iterator<Item = &'a str> {
    let starts = text.split("\n```").skip(1).step_by(2);
    starts.filter_map(move |block| block.strip_prefix(language)?.strip_prefix('\n'))
}

/// A line without its comment, words separated by one blank.
fn plain(line: &str) -> String {
    let line = line.split(" #").next().unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    words.join(" ")
}

/// The command lines of the blocks of a page, one list per block.
fn lines(text: &str) -> Vec<Vec<String>> {
    let shell = blocks(text, "sh").map(|block| {
        let joined = block.replace("\\\n", " ");
        let lines = joined.lines().filter(|line| !line.starts_with('#'));
        lines.map(plain).filter(|line| !line.is_empty()).collect()
    });
    let console = blocks(text, "console").map(|block| {
        let typed = block.lines().filter_map(|line| line.strip_prefix("$ "));
        typed.map(plain).collect()
    });
    shell.chain(console).collect()
}

fn exception(line: &str) -> Option<&'static Run> {
    let found = EXCEPTIONS.iter().find(|(one, _)| *one == line);
    found.map(|(_, run)| run)
}

/// The firmware of cards without a kernel driver; nothing, which is said, where it is not there.
fn firmware() -> Option<String> {
    let folder = root().join("target/firmware/bookworm-backports");
    if !folder.is_dir() {
        let folder = folder.display();
        println!("skipped: {folder}: scripts/fetch firmware fetches it");
        return None;
    }
    Some(folder.display().to_string())
}

/// The files that commands of pages name.
fn files(place: &Place) {
    let put = |path: &str, bytes: &[u8]| {
        let path = place.path("work").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let numbers: Vec<u8> = (0..8).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let dims = [Dim::Named("batch".into()), Dim::Fixed(4)];
    let floats = write::tensor(DType::F32, &dims);
    let mut model = Writer::new("relu", 17);
    model.input("x", &floats);
    model.node("Relu", &["x"], &["y"], []);
    model.output("y", &floats);
    let model = model.finish();
    put("MODEL.onnx", &model);

    let shape = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }";
    let mut npy = b"\x93NUMPY\x01\0\x76\0".to_vec();
    npy.extend(format!("{shape:<117}\n").bytes());
    npy.extend(&numbers);
    put("x.npy", &npy);

    // A tensor as ONNX stores it: dimensions 2 and 4, type f32, bytes.
    let tensor = [&[0x0a, 2, 2, 4, 0x10, 1, 0x4a, 32], &numbers[..]].concat();
    put("FOLDER/relu/model.onnx", &model);
    put("FOLDER/relu/test_data_set_0/input_0.pb", &tensor);
    put("FOLDER/relu/test_data_set_0/output_0.pb", &tensor);

    put(
        "amdgpu.txt",
        b"modprobe-412 [002] ..... 71.204840: amdgpu_device_rreg: 0x7550, 0x00000002, 0xffffffff\n",
    );
    let bundle = root().join("drivers/bundle/tests/golden/kfd-hang.json");
    put("bundle.json", &fs::read(bundle).unwrap());

    // What scripts/models has made.
    let models = place.path("work/target");
    fs::create_dir_all(&models).unwrap();
    std::os::unix::fs::symlink(root().join("target/models"), models.join("models")).unwrap();

    // A machine with a card that no driver has.
    let card = "machine/sys/bus/pci/devices/0000:03:00.0";
    for (name, text) in [
        ("vendor", "0x1002\n"),
        ("device", "0x7550\n"),
        ("class", "0x030000\n"),
        (
            "resource",
            "0x0000000800000000 0x000000080fffffff 0x000000000014220c\n",
        ),
        ("uevent", ""),
        ("enable", "1\n"),
        ("power/control", "auto\n"),
    ] {
        put(&format!("{card}/{name}"), text.as_bytes());
    }
    let pages = "machine/sys/kernel/mm/hugepages/hugepages-2048kB";
    put(&format!("{pages}/nr_hugepages"), b"8\n");
    put(&format!("{pages}/free_hugepages"), b"8\n");
    put(
        "machine/proc/mounts",
        b"none /huge hugetlbfs rw,pagesize=2M 0 0\n",
    );
    fs::create_dir_all(place.path("work/machine/run/lock")).unwrap();
}

/// A session at a shell: what earlier commands have left.
struct Session {
    place: Place,
    exported: Vec<(String, String)>,
}

impl Session {
    fn new() -> Session {
        let place = Place::new();
        files(&place);
        Session {
            place,
            exported: Vec::new(),
        }
    }

    /// Runs a command line of the program, within a deadline.
    fn run(&self, line: &str, codes: &[i32]) {
        let odd = |c: char| "'\"|<>&;`$*[]".contains(c);
        assert!(!line.contains(odd), "{line}: no shell runs it");
        let mut words = line.split(' ').filter(|word| *word != "sudo").peekable();
        let mut env = self.exported.clone();
        while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
            env.push((name.into(), value.into()));
            words.next();
        }
        let program = words.next();
        let is_program = |word: &str| word == "doorbell" || word.ends_with("/doorbell");
        assert!(
            program.is_some_and(is_program),
            "{line}: run it, or list it in EXCEPTIONS with the reason"
        );
        let words: Vec<&str> = words.collect();
        let env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (&**n, &**v)).collect();
        let mut command = self.place.command(&words, &env);
        if let Some(folder) = firmware() {
            command.env("HCQDEV_FIRMWARE", folder);
        }
        let err = self.place.path("err");
        command.stdout(File::create(self.place.path("out")).unwrap());
        command.stderr(File::create(&err).unwrap());
        let started = Instant::now();
        let code = ended(command, Duration::from_secs(100));
        println!("{:6.2} s  {line}", started.elapsed().as_secs_f64());
        let err = String::from_utf8_lossy(&fs::read(err).unwrap()).into_owned();
        assert!(!err.contains("panicked"), "{line}: {err}");
        match code {
            Some(code) => assert!(codes.contains(&code), "{line}: exit code {code}: {err}"),
            None => panic!("{line}: no exit code within the deadline: {err}"),
        }
    }
}

/// The exit code; `None` after a signal or the deadline.
fn ended(mut command: Command, limit: Duration) -> Option<i32> {
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    while started.elapsed() < limit {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

fn run_page(page: &str) {
    let text = read(page);
    // Without firmware no simulated card starts without a kernel driver.
    if text.contains("\ndoorbell --dev TWINPCI") && firmware().is_none() {
        return;
    }
    let mut session = Session::new();
    for block in lines(&text) {
        session.exported.clear();
        for line in block {
            if let Some(variable) = line.strip_prefix("export ") {
                let (name, value) = variable.split_once('=').unwrap();
                session.exported.push((name.into(), value.into()));
                continue;
            }
            if line.starts_with("scripts/") {
                check_script(page, &line);
                continue;
            }
            match exception(&line) {
                None => session.run(&line, &[0]),
                Some(Not(_)) => {}
                Some(With(more, _)) => session.run(&format!("{line} {more}"), &[0]),
                Some(As(other, _)) => session.run(other, &[0]),
                Some(Ends(codes, _)) => session.run(&line, codes),
            }
        }
    }
}

#[test]
fn every_page_with_commands_has_its_test_and_every_exception_its_command() {
    let (mut pages, mut commands) = (BTreeSet::new(), BTreeSet::new());
    for page in all_pages() {
        let found = lines(&read(&page)).concat();
        if !found.is_empty() {
            pages.insert(page);
        }
        commands.extend(found);
    }
    let tested = PAGES.iter().map(|page| page.to_string()).collect();
    assert_eq!(pages, tested);
    let mut seen = BTreeSet::new();
    for (line, run) in EXCEPTIONS {
        assert!(commands.contains(*line), "no page has the command {line:?}");
        assert!(seen.insert(line), "twice: {line:?}");
        let (Not(why) | With(_, why) | As(_, why) | Ends(_, why)) = run;
        assert!(!why.is_empty(), "{line:?} has no reason");
    }
}

/// The comment or docstring at the start of a script.
fn usage(script: &str) -> String {
    if let Some((_, rest)) = script.split_once("\n\"\"\"") {
        return rest.split("\"\"\"").next().unwrap().to_string();
    }
    let comment = script.lines().take_while(|line| line.starts_with('#'));
    comment.collect::<Vec<_>>().join("\n")
}

/// What a script works on by name, where its usage text does not list it.
fn names(script: &str, text: &str) -> String {
    match script {
        "scripts/fetch" => read("scripts/fetch.lock").replace(['[', ']', '"'], " "),
        "scripts/lab" => text.replace(['"', ':'], " "),
        _ => String::new(),
    }
}

/// The script exists, is executable, and its usage text has the options and words.
fn check_script(page: &str, line: &str) {
    use std::os::unix::fs::PermissionsExt;
    let mut words = line.split_whitespace();
    let script = words.next().unwrap();
    let path = root().join(script);
    assert!(path.exists(), "{page}: {line}: {script} does not exist");
    let words: Vec<&str> = words.collect();
    if path.is_dir() || path.extension().is_some() {
        assert!(words.is_empty(), "{page}: {line}: {script} is no program");
        return;
    }
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert!(mode & 0o100 != 0, "{page}: {script} is not executable");
    let text = fs::read_to_string(&path).unwrap();
    let known = usage(&text) + " " + &names(script, &text);
    let known: BTreeSet<&str> = known
        .split(|c: char| !(c.is_alphanumeric() || "-_".contains(c)))
        .collect();
    for word in words {
        // A placeholder, a number or a path is the reader's.
        let fixed = word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        assert!(
            !fixed || known.contains(word),
            "{page}: {line}: the usage text of {script} does not have {word}"
        );
    }
}

/// The script commands in the text of all pages, and the rows of the table in scripts/README.md.
#[test]
fn scripts_exist_and_take_the_arguments_that_pages_show() {
    let mut count = 0;
    for page in all_pages() {
        let text = read(&page);
        // Outside of blocks.
        for prose in text.split("\n```").step_by(2) {
            for line in prose.split('`').skip(1).step_by(2) {
                if line.starts_with("scripts/") && !line.ends_with('/') {
                    check_script(&page, line);
                    count += 1;
                }
            }
        }
    }
    let page = "scripts/README.md";
    for row in read(page).lines().filter(|line| line.starts_with("| `")) {
        let names = row.split('|').nth(1).unwrap();
        for name in names.split('`').skip(1).step_by(2) {
            check_script(page, &format!("scripts/{name}"));
            count += 1;
        }
    }
    assert!(count > 60, "{count} commands");
}
