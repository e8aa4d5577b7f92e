//! Bring-up on every simulated device, and where it stops when something is broken.

use crate::place;

use std::path::Path;

use conformance::part::Part;
use place::{Place, rows, succeed, toolkit};
use serde_json::Value;

const STEPS: [&str; 13] = [
    "probe", "map", "ring", "signal", "wait", "copy", "kernel", "local", "scratch", "queues",
    "graph", "matrix", "training",
];

/// What a device needs beside DEV and TWIN; `None`, which is said, where it is not there.
fn needs(dev: &str) -> Option<Vec<(&'static str, String)>> {
    if dev.starts_with("TWINNVK") {
        return Some(vec![("CUDA_PATH", toolkit()?)]);
    }
    if dev.starts_with("TWINPCI") || dev.starts_with("TWINUSB") {
        let is_nv = dev.contains("+NV");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware");
        let folder = match is_nv {
            true => folder.join("nvidia-graphics"),
            false => folder.join("bookworm-backports"),
        };
        if !folder.is_dir() {
            println!(
                "skipped: {}: scripts/fetch firmware fetches it",
                folder.display()
            );
            return None;
        }
        let mut all = vec![("HCQDEV_FIRMWARE", folder.display().to_string())];
        if is_nv {
            all.push(("CUDA_PATH", toolkit()?));
        }
        return Some(all);
    }
    Some(Vec::new())
}

/// The rows of a climb, and its exit code; `None` where the device cannot be had.
fn climb(place: &Place, dev: &str, twin: &str, args: &[&str]) -> Option<(Vec<Value>, i32, String)> {
    let more = needs(dev)?;
    let mut env = vec![("DEV", dev), ("TWIN", twin)];
    env.extend(more.iter().map(|(name, value)| (*name, value.as_str())));
    let ran = place.run(&[&["bringup", "--json"], args].concat(), &env);
    let document: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}{}", ran.out, ran.err));
    assert_eq!(document["schema"], "doorbell.bringup/2");
    Some((
        document["rows"].as_array().unwrap().clone(),
        ran.code,
        ran.err,
    ))
}

fn all(rows: &[Value], field: &str) -> Vec<String> {
    rows.iter()
        .map(|row| row[field].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_simulated_device_gets_to_the_top() {
    let place = Place::new();
    let part = Part::chosen();
    // With the steps that the device does not support.
    let devices: &[(&str, &str, &[&str])] = &[
        ("CPU", "", &["local", "scratch", "matrix"]),
        ("TWINKFD+AMD::gfx1100", "", &[]),
        ("TWINNVK+NV::sm_90", "", &[]),
        ("TWINPCI+AMD::gfx1201", "", &[]),
        ("TWINKFD+AMD::gfx942", "xcc=1", &[]),
        ("TWINKFD+AMD::gfx1201", "", &[]),
        ("TWINNVK+NV::sm_86", "", &[]),
        ("TWINPCI+AMD::gfx1100", "bar=256", &[]),
        ("TWINKFD+AMD::gfx1030", "", &["matrix"]),
        ("TWINKFD+AMD::gfx1100", "bar=small", &[]),
        ("TWINNVK+NV::sm_89", "", &[]),
        ("TWINPCI+AMD::gfx1102", "", &[]),
        ("TWINUSB+AMD::gfx1201", "", &[]),
        ("TWINPCI+AMD::gfx942", "", &[]),
        ("TWINUSB+AMD::gfx1100", "hops=1,power=on", &[]),
        ("TWINPCI+AMD::gfx1200", "before=kernel", &[]),
        ("TWINPCI+AMD::gfx1101", "", &[]),
        ("TWINUSB+AMD::gfx1200", "hops=2,speed=high", &[]),
        ("TWINKGSL+QCOM::a630", "", &["queues", "matrix"]),
        ("TWINMSM+QCOM::a643", "", &["queues", "matrix"]),
        ("TWINPCI+NV::ga102", "", &[]),
        ("TWINPCI+NV::gb202", "bar1=32G", &[]),
    ];
    for (i, (dev, twin, without)) in devices.iter().enumerate() {
        if !part.has(i, 6) {
            continue;
        }
        let Some((rows, code, err)) = climb(&place, dev, twin, &[]) else {
            continue;
        };
        assert_eq!(code, 0, "{dev} {twin}: {rows:#?}{err}");
        assert_eq!(all(&rows, "step"), STEPS, "{dev}");
        let skipped: Vec<_> = rows
            .iter()
            .filter(|row| row["status"] == "skipped")
            .collect();
        let names: Vec<_> = skipped
            .iter()
            .map(|row| row["step"].as_str().unwrap())
            .collect();
        assert_eq!(names, *without, "{dev} {twin}: {skipped:?}");
        for row in &rows {
            assert!(
                !row["evidence"].as_array().unwrap().is_empty(),
                "{dev}: {row}"
            );
        }
    }
}

#[test]
fn it_stops_at_the_rung_that_fails() {
    let place = Place::new();
    let (kfd, pci, usb, nvk) = (
        "TWINKFD+AMD::gfx1100",
        "TWINPCI+AMD::gfx1100",
        "TWINUSB+AMD::gfx1201",
        "TWINNVK+NV::sm_90",
    );
    // Waits that end; those that do not are of two seconds here.
    let hang = ["--deadline", "2"];
    for (dev, twin, step, code, texts) in [
        (
            kfd,
            "fault=path:/dev/kfd:EACCES",
            "probe",
            3,
            &["permission denied", "usermod"][..],
        ),
        (
            kfd,
            "fault=ioctl:CREATE_QUEUE:ENOMEM",
            "map",
            1,
            &["CREATE_QUEUE", "ENOMEM"],
        ),
        (kfd, "fault=gone", "map", 5, &["has left the bus", "dmesg"]),
        (
            kfd,
            "fault=hang:queue=0",
            "ring",
            5,
            &["compute queue 0", "--recorded waits"],
        ),
        (
            kfd,
            "fault=hang:queue=1",
            "copy",
            5,
            &["copy queue 0", "copies use a separate engine"],
        ),
        (
            kfd,
            "vram=128M",
            "scratch",
            1,
            &["of 134217728 are free", "private memory of waves"],
        ),
        (
            pci,
            "never=message",
            "map",
            7,
            &["stage 9 of 13, power management"],
        ),
        (pci, "gone=500", "map", 7, &["stage 13 of 13", "0xffffffff"]),
        (
            usb,
            "trouble=unplug:0,away=9",
            "map",
            7,
            &["stage 1 of 4, bridge", "2-1", "the device is gone"],
        ),
        (
            usb,
            "hops=1,trouble=stall:1000",
            "map",
            7,
            &[" of 13, ", "endpoint stalled", "doorbell explain"],
        ),
        (
            nvk,
            "fault=path:/dev/nvidiactl:EACCES",
            "probe",
            3,
            &["/dev/nvidiactl", "permission denied"],
        ),
        (nvk, "fault=call:mmap:ENOMEM", "map", 7, &["mmap", "ENOMEM"]),
        (nvk, "fault=hang:channel=0", "ring", 5, &["compute queue 0"]),
    ] {
        let args = if twin.contains("hang") {
            &hang[..]
        } else {
            &[]
        };
        let Some((rows, found, err)) = climb(&place, dev, twin, args) else {
            continue;
        };
        let (last, below) = rows.split_last().unwrap();
        let what = format!("{dev} {twin}: {last:#}{err}");
        assert_eq!((last["step"].as_str(), found), (Some(step), code), "{what}");
        assert_eq!(last["status"], "failed", "{what}");
        assert!(below.iter().all(|row| row["status"] == "passed"), "{what}");
        assert!(
            err.contains(&format!("bring-up stopped at step {step}")),
            "{what}"
        );
        for text in texts {
            let said = last["error"].as_str().unwrap().to_owned() + &last["next"].to_string();
            assert!(said.contains(text), "{text:?} is not in {what}");
        }
        assert!(last["next"].as_array().unwrap().len() >= 2, "{what}");
    }
}

#[test]
fn a_part_of_the_ladder_and_its_words() {
    let place = Place::new();
    let env = [("DEV", "TWINKFD+AMD::gfx1100")];
    let ran = succeed(
        &place,
        &["bringup", "--from", "copy", "--to", "kernel"],
        &env,
    );
    let steps: Vec<_> = ran
        .out
        .lines()
        .map(|line| line.split_whitespace().nth(1).unwrap())
        .collect();
    assert_eq!(steps, ["copy", "kernel"], "{}", ran.out);
    let ran = place.run(&["bringup", "--from", "kernel", "--to", "copy"], &env);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(
        ran.err.contains("steps in order: probe, map, ring"),
        "{}",
        ran.err
    );
    for args in [["--from", "top"], ["--deadline", "0"]] {
        assert_eq!(place.run(&[&["bringup"], &args[..]].concat(), &env).code, 2);
    }

    // Choices of packets: each alone, and all; none breaks a rule.
    for choice in [
        "--recorded=waits",
        "--recorded=writes,copies",
        "--recorded=barriers",
        "--recorded",
    ] {
        succeed(&place, &["bringup", "--to", "graph", choice], &env);
    }
    let ran = place.run(&["bringup", "--recorded"], &[("DEV", "CPU")]);
    assert_eq!(ran.code, 2, "{}", ran.err);

    let broken = [env[0], ("TWIN", "fault=hang:queue=0")];
    let ran = place.run(&["bringup", "--deadline", "0.2"], &broken);
    assert_eq!(ran.code, 5, "{}", ran.err);
    for text in [
        "known   these work: probe, map\n",
        "\ncause   ",
        "\ntry     1. ",
    ] {
        assert!(ran.out.contains(text), "{text:?} is not in {}", ran.out);
    }
    // What the bundle says comes first, with its own advice; then what helps with the step.
    let file = ran.out.split("doorbell explain ").nth(1).unwrap();
    let file = file.split(']').next().unwrap();
    let told = rows(
        &place.run(&["explain", "--json", file], &[]),
        "doorbell.explain/1",
    );
    let (cause, next) = (&told[0]["cause"], told[0]["next"].as_array().unwrap());
    let cause = format!(" ({})\n", cause.as_str().unwrap());
    assert!(ran.out.contains(&cause), "{cause}: {}", ran.out);
    for (i, line) in next.iter().enumerate() {
        let line = format!(" {}. {}\n", i + 1, line.as_str().unwrap());
        assert!(ran.out.contains(&line), "{line}: {}", ran.out);
    }
    let own = format!(" {}. the doorbell does not reach the queue", next.len() + 1);
    assert!(ran.out.contains(&own), "{own}: {}", ran.out);
}

/// A limit that is said holds for every wait, of every command: no card that has left, and no queue that hangs, takes the
/// hundreds of seconds that a simulated device has otherwise.
#[test]
fn waits_end_at_the_limit_that_is_said() {
    let place = Place::new();
    let limit = ("HCQDEV_WAIT_TIMEOUT_MS", "700");
    let hang = "fault=hang:queue=0";
    for command in [
        &["bench", "launch"][..],
        &["bench", "graph"],
        &["bench", "copy"],
        &["bringup"],
    ] {
        let env = [("DEV", "TWINKFD+AMD::gfx1100"), ("TWIN", hang), limit];
        let ran = place.run(command, &env);
        assert_eq!(ran.code, 5, "{command:?}: {}", ran.err);
        let said = ran.out + &ran.err;
        assert!(said.contains("No progress for "), "{command:?}: {said}");
    }
    let Some(more) = needs("TWINPCI") else { return };
    let mut env = vec![
        ("DEV", "TWINPCI+AMD::gfx1201"),
        ("TWIN", "gone=2200"),
        limit,
    ];
    env.extend(more.iter().map(|(name, value)| (*name, value.as_str())));
    let ran = place.run(&["bringup"], &env);
    assert_ne!(ran.code, 0, "{}", ran.out);
    assert!(ran.err.contains("bring-up stopped at step "), "{}", ran.err);
}

/// What the README shows is what the program prints, but for times, addresses and names of files.
#[test]
fn pictures_are_what_is_printed() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/pictures");
    let program = env!("CARGO_BIN_EXE_doorbell");
    let mut command = std::process::Command::new("python3");
    let ran = command
        .arg(script)
        .args(["--check", "--program", program])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
}
