//! NVIDIA GPUs through their kernel driver, simulated: the program as a person without a card runs it.

#![allow(clippy::unwrap_used)]

mod place;

use place::{Place, losses, rows, succeed, toolkit};

const GH100: (&str, &str) = ("DEV", "TWINNVK+NV::gh100");

#[test]
fn the_doctor_looks_at_a_simulated_machine_too() {
    let place = Place::new();
    let twin = "gpus=2,driver=570,fault=path:/dev/nvidia1:EACCES;path:/dev/nvidia-uvm:ENOENT";
    let env = [GH100, ("TWIN", twin)];
    let found = rows(
        &succeed(&place, &["doctor", "--json"], &env),
        "doorbell.doctor/1",
    );
    let row = |check: &str| {
        let row = found.iter().find(|row| row["check"] == check);
        let text = |field: &str| row.unwrap()[field].as_str().unwrap().to_owned();
        (text("status"), text("detail"), text("fix"))
    };
    assert_eq!(row("twin.nv.nvk").0, "ok");
    assert!(
        row("twin.nv.nvk")
            .1
            .contains("570.211.01 (open module); 1 of 2")
    );
    assert_eq!(row("twin.nv.uvm").0, "warn");
    assert_eq!(row("twin.nv.nvk.0").0, "ok");
    assert!(row("twin.nv.nvk.0").1.contains("H100"));
    assert_eq!(row("twin.nv.nvk.1").0, "fail");
    assert!(row("twin.nv.nvk.1").1.contains("permission denied"));
    // The rows of compilers are there, whatever is installed.
    assert!(["ok", "not present"].contains(&&*row("nv.cuda").0));
    assert!(["ok", "not present"].contains(&&*row("nv.ptx").0));
    assert!(!found.iter().any(|row| row["check"] == "twin.amd.kfd"));
    place.wrote(&[], false);
}

#[test]
fn simulated_devices_are_listed_when_asked_for() {
    let place = Place::new();
    let env = [GH100, ("TWIN", "gpus=2")];
    let text = succeed(&place, &["devices"], &env).out;
    assert!(text.contains("\n* NV:0     TWINNVK  sm_90 "), "{text}");
    assert!(text.contains("| DEV=TWINNVK:1+NV::sm_90\n"), "{text}");
    for (dev, twin, code, text) in [
        ("TWINNVK+NV::h200", "gpus=1", 0, "NVIDIA H200"),
        ("TWINNVK+NV::gb202", "driver=570", 0, "sm_120"),
        // What the machine has comes last.
        (
            "TWINNVK+NV::sm_90",
            "chip=ad102",
            3,
            "GPU 0 is sm_89, expected sm_90",
        ),
        ("TWINNVK+NV::sm_86", "chip=ad102+ga102", 0, "* NV:1"),
    ] {
        let ran = place.run(&["devices"], &[("DEV", dev), ("TWIN", twin)]);
        assert_eq!(ran.code, code, "{dev} {twin}: {}", ran.err);
        assert!((ran.out + &ran.err).contains(text), "{dev} {twin}");
    }
}

/// What cannot be opened has a text that says why, and an exit code by which scripts tell.
#[test]
fn exit_codes_tell_why_a_device_does_not_open() {
    let place = Place::new();
    for (twin, code, texts) in [
        (
            "module=none",
            3,
            &["/dev/nvidiactl does not exist", "modprobe nvidia"][..],
        ),
        (
            "module=nouveau",
            3,
            &["belongs to the kernel driver nouveau"],
        ),
        (
            "fault=path:/dev/nvidiactl:EACCES",
            4,
            &["permission denied"],
        ),
        (
            "fault=path:/dev/nvidia0:EPERM",
            4,
            &["device cgroup", "--device /dev/nvidia0"],
        ),
        ("says=470.256.02", 6, &["470.256.02", "535"]),
        ("gpus=0", 3, &["has no GPU"]),
        (
            "fault=path:/dev/nvidia0:EIO",
            3,
            &["cannot start the GPU", "Xid"],
        ),
        ("gpu=2", 2, &["found 'gpu'"]),
        ("gpus=17", 2, &["expected 0 to 16"]),
    ] {
        let ran = place.run(&["bench", "launch"], &[GH100, ("TWIN", twin)]);
        assert_eq!((ran.code, &*ran.out), (code, ""), "{twin}: {}", ran.err);
        for text in texts {
            assert!(
                ran.err.contains(text),
                "{twin}: {text:?} is not in {:?}",
                ran.err
            );
        }
    }
    for (dev, code, text) in [
        ("TWINNVK+NV::sm_75", 2, "expected ga102, ad102, h100"),
        ("TWINNVK:20+NV", 2, "expected 0 to 16"),
        ("USB+NV", 3, "by NVK only"),
        (
            "NV:FOO",
            2,
            "expected a renderer of NV (CUDA, PTX, LLVM, NAK)",
        ),
        ("CUDA", 3, "DEV=NV needs none"),
        ("TWINNVK:0-1+NV", 3, "names 2 devices"),
    ] {
        let ran = place.run(&["bench", "launch"], &[("DEV", dev)]);
        assert_eq!((ran.code, &*ran.out), (code, ""), "{dev}: {}", ran.err);
        assert!(ran.err.contains(text), "{dev}: {}", ran.err);
    }
    place.wrote(&[], false);
}

#[test]
fn the_demonstration_learns_as_on_the_cpu() {
    let Some(toolkit) = toolkit() else { return };
    let cpu = losses(&[("DEV", "CPU")]);
    let gpu = losses(&[GH100, ("CUDA_PATH", &toolkit)]);
    for (a, b) in cpu.iter().zip(&gpu) {
        // Sums in another order, through nine steps of Adam.
        assert!((a - b).abs() < 2e-4 * a, "CPU {cpu:?}, sm_90 {gpu:?}");
    }
    assert!(gpu[2] < gpu[0] - 0.05, "{gpu:?}");
}
