//! On simulated GPUs, against the file's own code for the CPU and against the model.

use std::path::Path;

use super::*;
use crate::place::{Ran, toolkit};

const KGSL: (&str, &str) = ("DEV", "TWINKGSL+QCOM::a630");

/// Compiles both nets for the CPU and a GPU, and compares both there.
fn verified(target: &str, dev: &str, env: &[(&str, &str)]) {
    let place = place(&[("mlp.onnx", mlp()), ("net.onnx", recurrent())]);
    let compile = |args: &[&str]| {
        let all = [&["compile", "--target", "CPU", "--target", target], args].concat();
        succeed(&place, &all, &[CPU, env].concat());
    };
    compile(&["mlp.onnx", "-o", "mlp.dbx"]);
    compile(&[
        "net.onnx",
        "-o",
        "net.dbx",
        "--state",
        "h=h_next",
        "--queue",
        "queue=h_next@1",
    ]);
    let on = [("DEV", dev)];
    for args in [
        &["verify", "mlp.dbx", "--tolerance", "1e-5"][..],
        &[
            "verify",
            "net.dbx",
            "--model",
            "net.onnx",
            "--runs",
            "7",
            "--tolerance",
            "1e-5",
        ],
    ] {
        let ran = succeed(&place, args, &on);
        assert!(ran.out.contains("ok within"), "{}", ran.out);
    }
}

#[test]
fn amd() {
    verified("AMD::gfx1100", "TWINKFD+AMD::gfx1100", &[]);
}

#[test]
fn nv() {
    if let Some(path) = toolkit() {
        let env = [("CUDA_PATH", path.as_str())];
        verified("NV:PTX:sm_89", "TWINNVK+NV::sm_89", &env);
    }
}

#[test]
fn qcom_by_kgsl() {
    verified("QCOM::a630", KGSL.1, &[]);
}

#[test]
fn qcom_by_msm() {
    verified("QCOM::a660", "TWINMSM+QCOM::a660", &[]);
}

#[test]
fn a_bundle_of_another_chip_is_refused() {
    let place = place(&[("mlp.onnx", mlp())]);
    for (target, other, dev, chip) in [
        ("AMD::gfx1201", "gfx1100", "TWINKFD+AMD", "AMD"),
        ("QCOM::a660", "a630", "TWINKGSL+QCOM", "QCOM"),
    ] {
        let args = ["compile", "mlp.onnx", "--target", target, "-o", "mlp.dbx"];
        succeed(&place, &args, CPU);
        let dev = format!("{dev}::{other}");
        let ran = place.run(&["run", "mlp.dbx"], &[("DEV", &dev)]);
        assert_eq!(ran.code, 6, "{}", ran.err);
        let said = format!("expected {target}, the chips that mlp.dbx has code for, found {other}");
        assert!(
            ran.err.contains(&said) && ran.err.contains(&format!("--target {chip}::{other}")),
            "{}",
            ran.err
        );
    }
}

/// Calls of the kernel driver that submit work, while a bundle runs so many times.
fn submissions(place: &Place, file: &str, repeat: &str) -> usize {
    let args = [
        "trace", "record", file, "--", "run", "net.dbx", "--repeat", repeat,
    ];
    succeed(place, &args, &[KGSL]);
    let record = fs::read_to_string(place.path("work").join(file)).unwrap();
    // IOCTL_KGSL_GPU_COMMAND of Linux' msm_kgsl.h.
    let submits = |line: &&str| line.contains(" ioctl ") && line.contains("request=0xc040094a");
    record.lines().filter(submits).count()
}

#[test]
fn a_run_is_one_call_of_the_kernel_driver() {
    let place = place(&[("net.onnx", recurrent())]);
    let args = [
        "compile",
        "net.onnx",
        "--target",
        "QCOM::a630",
        "-o",
        "net.dbx",
        "--queue",
        "queue=h_next@1",
    ];
    succeed(&place, &args, CPU);
    // Whoever names no device gets the simulated one.
    let ran = succeed(&place, &["verify", "net.dbx", "--model", "net.onnx"], &[]);
    assert!(
        ran.err.contains("DEV=TWINKGSL+QCOM::a630") && ran.out.contains("ok within"),
        "{}{}",
        ran.err,
        ran.out
    );
    let plan = bundle(&place, "net.dbx").targets()[0].clone();
    assert!(plan.steps.len() > 1, "{}", plan.steps.len());
    let (few, many) = (
        submissions(&place, "few", "2"),
        submissions(&place, "many", "12"),
    );
    assert!(few >= 2, "{few}");
    assert_eq!(many - few, 10);
}

#[test]
fn a_chain_takes_the_first_device_that_can_and_says_once_what_is_lost() {
    let place = place(&[("mlp.onnx", mlp())]);
    let args = [
        "compile",
        "mlp.onnx",
        "-o",
        "mlp.dbx",
        "--target",
        "QCOM::a630",
        "--target",
        "CPU",
    ];
    succeed(&place, &args, CPU);
    let run = ["run", "mlp.dbx", "--repeat", "3"];
    let on = |dev: &str, args: &[&str]| place.run(args, &[("DEV", dev)]);
    let notes = |ran: &Ran| {
        let lines = ran.err.lines().filter(|line| line.starts_with("note: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let first = on("TWINKGSL+QCOM::a630|CPU", &run);
    assert_eq!((first.code, notes(&first)), (0, vec![]), "{}", first.err);
    let other = on("TWINKGSL+QCOM::a660|CPU", &run);
    let said = notes(&other);
    assert_eq!((other.code, said.len()), (0, 2), "{}", other.err);
    assert!(
        said[0].contains("expected QCOM::a630") && said[0].contains("found a660"),
        "{said:?}"
    );
    assert!(said[1].starts_with("note: runs on CPU:0 "), "{said:?}");
    // Nothing is there, and `--dev` goes before the variable.
    let none = on("AMD", &[&["--dev", "QCOM|CPU"], &run[..]].concat());
    assert_eq!((none.code, notes(&none).len()), (0, 2), "{}", none.err);
    let verify = ["verify", "mlp.dbx", "--model", "mlp.onnx"];
    let verified = on("TWINKGSL+QCOM::a660|TWINKGSL+QCOM::a630", &verify);
    assert_eq!(verified.code, 0, "{}", verified.err);
    assert!(
        notes(&verified)[1].contains("runs on QCOM:0"),
        "{}",
        verified.err
    );
    let no = on("QCOM|NV", &run);
    assert_eq!(no.code, 3, "{}", no.err);
    let model = on("QCOM|CPU", &["run", "mlp.onnx"]);
    assert_eq!(model.code, 2, "{}", model.err);
    assert!(
        model.err.contains("several are for model bundles alone"),
        "{}",
        model.err
    );
}

/// The program, which is built beside this one.
fn doorbell_run() -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_doorbell")).with_file_name("doorbell-run");
    let program = program.to_str().unwrap();
    assert!(
        fs::exists(program).unwrap(),
        "{program}: not there; run cargo build -p doorbell-run first"
    );
    program.to_owned()
}

/// Runs the program `doorbell-run`; the bytes of the output `y`.
fn by_program(place: &Place, before: &[&str], dev: &str) -> Vec<u8> {
    let program = doorbell_run();
    let program = program.as_str();
    let args = [
        "mlp.dbx", "--repeat", "2", "--limit", "600000", "--input", "x=x.bin", "--output",
        "y=y.bin",
    ];
    let env = [("DEV", dev)];
    let mut command = match before {
        [] => {
            let mut command = std::process::Command::new(program);
            command.args(args).current_dir(place.path("work"));
            command.envs(env);
            command
        }
        before => place.command(&[before, &["--", program], &args].concat(), &env),
    };
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{dev}: {said}");
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(
        out.contains(&format!("device   {}", dev.rsplit('+').next().unwrap())),
        "{out}"
    );
    fs::read(place.path("work").join("y.bin")).unwrap()
}

/// The program knows nothing of simulated GPUs: for it, these are the files of the kernel drivers.
#[test]
fn the_program_that_runs_bundles_runs_them_on_each_kind() {
    let place = place(&[("mlp.onnx", mlp())]);
    let input = weights(&[4, 64], 5).to_bytes().unwrap();
    fs::write(place.path("work").join("x.bin"), input).unwrap();
    let targets = ["CPU", "QCOM::a630", "QCOM::a660", "AMD::gfx1100"];
    let targets = targets.map(|target| ["--target", target]).concat();
    let args = [&["compile", "mlp.onnx", "-o", "mlp.dbx"], &targets[..]].concat();
    succeed(&place, &args, CPU);
    let floats = |bytes: &[u8]| -> Vec<f32> {
        let words = bytes.chunks_exact(4);
        words
            .map(|word| f32::from_le_bytes(word.try_into().unwrap()))
            .collect()
    };
    let wanted = floats(&by_program(&place, &[], "CPU"));
    for (machine, dev) in [
        ("chip=a630", "KGSL+QCOM"),
        ("chip=a660,kernel=msm", "MSM+QCOM"),
        ("chip=gfx1100", "KFD+AMD"),
    ] {
        let before = ["twin", "exec", "--twin", machine];
        let found = floats(&by_program(&place, &before, dev));
        assert_eq!(found.len(), wanted.len());
        for (a, b) in found.iter().zip(&wanted) {
            assert!((a - b).abs() < 1e-5, "{dev}: {a} {b}");
        }
    }
    // Calls take as long as the simulated GPU works: a run that is over after its first one is late all the same.
    for machine in ["chip=a630", "chip=a660,kernel=msm"] {
        let exec = ["twin", "exec", "--twin", machine, "--dev", "QCOM", "--"];
        let program = doorbell_run();
        let args = [program.as_str(), "mlp.dbx", "--limit", "1"];
        let ran = place.run(&[&exec[..], &args].concat(), &[]);
        assert_eq!(ran.code, 5, "{machine}: {}{}", ran.out, ran.err);
        let said = ["took", "was not over after 1ms"];
        assert!(
            said.iter().any(|said| ran.err.contains(said)),
            "{machine}: {}",
            ran.err
        );
    }
}

/// A program in C whose camera ends and comes back: other memory at the same addresses, while a frame is still bound.
#[test]
fn frames_of_a_camera_that_comes_back_are_read() {
    let place = place(&[("mlp.onnx", mlp())]);
    let mut args = vec!["compile", "mlp.onnx", "-o", "mlp.dbx"];
    args.extend(["--target", "CPU", "--target", "QCOM::a630"]);
    succeed(&place, &args, CPU);
    let own = std::env::current_exe().unwrap();
    let libraries = own.parent().unwrap();
    let library = libraries.join("libdoorbell_run_c.so");
    assert!(
        library.exists(),
        "{}: not there; run cargo test -p doorbell-run-c --no-run first",
        library.display()
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = place.path("work").join("camera");
    let mut compiler = std::process::Command::new("cc");
    compiler
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root.join("../../drivers/run/c/include"))
        .arg("-o")
        .arg(&program)
        .arg(root.join("tests/program/dbx/camera.c"))
        .arg("-L")
        .arg(libraries)
        .arg("-ldoorbell_run_c")
        .arg(format!("-Wl,-rpath,{}", libraries.display()));
    assert!(compiler.status().unwrap().success());
    let program = program.to_str().unwrap();
    let on_cpu = std::process::Command::new(program)
        .args(["mlp.dbx", "CPU"])
        .current_dir(place.path("work"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&on_cpu.stdout), "all frames\n");
    for machine in ["chip=a630,version=4.9", "chip=a630,version=5.15"] {
        let exec = ["twin", "exec", "--twin", machine, "--", program];
        let ran = place.run(&[&exec[..], &["mlp.dbx", "QCOM"]].concat(), &[]);
        assert_eq!(
            (ran.code, &*ran.out),
            (0, "all frames\n"),
            "{machine}: {}",
            ran.err
        );
    }
}
