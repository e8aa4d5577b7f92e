//! AMD GPUs through KFD, simulated: the program as a person without a card runs it.

use crate::place;

use std::path::Path;

use conformance::part::Part;
use place::{Place, losses, rows, succeed};

const GFX1100: (&str, &str) = ("DEV", "TWINKFD+AMD::gfx1100");

#[test]
fn simulated_devices_are_listed_only_when_asked_for() {
    let place = Place::new();
    let found = rows(
        &succeed(&place, &["devices", "--json"], &[("TWIN", "gpus=2")]),
        "doorbell.devices/2",
    );
    assert!(
        !found
            .iter()
            .any(|row| row["interface"].as_str().unwrap().starts_with("TWIN"))
    );

    let env = [("DEV", "TWINKFD+AMD::gfx1201"), ("TWIN", "gpus=2")];
    let found = rows(
        &succeed(&place, &["devices", "--json"], &env),
        "doorbell.devices/2",
    );
    let twins: Vec<_> = found
        .iter()
        .filter(|row| row["interface"] == "TWINKFD")
        .collect();
    assert_eq!(twins.len(), 2, "{found:?}");
    for (i, row) in twins.iter().enumerate() {
        assert_eq!(row["dev"], format!("TWINKFD:{i}+AMD::gfx1201"));
        assert_eq!(row["arch"], "gfx1201");
        assert_eq!(row["selected"], i == 0);
    }
    let text = succeed(&place, &["devices"], &env).out;
    assert!(text.contains("\n* AMD:0    TWINKFD  gfx1201 "), "{text}");
    assert!(text.contains("| DEV=TWINKFD:1+AMD::gfx1201\n"), "{text}");

    // A number makes a machine with so many.
    let second = [("DEV", "TWINKFD+AMD:1::gfx1100"), ("DEBUG", "1")];
    let text = succeed(&place, &["devices"], &second);
    assert!(
        text.out.contains("\n* AMD:1    TWINKFD  gfx1100 "),
        "{}",
        text.out
    );
    assert!(
        text.err
            .contains("no rule violations on the simulated gfx1100"),
        "{}",
        text.err
    );
    place.wrote(&[], false);
}

#[test]
fn the_doctor_looks_at_a_simulated_machine_too() {
    let env = [
        GFX1100,
        (
            "TWIN",
            "gpus=2,bar=small,fault=path:/dev/dri/renderD129:EACCES",
        ),
    ];
    let place = Place::new();
    let found = rows(
        &succeed(&place, &["doctor", "--json"], &env),
        "doorbell.doctor/1",
    );
    let row = |check: &str| {
        let row = found.iter().find(|row| row["check"] == check);
        let text = |field: &str| row.unwrap()[field].as_str().unwrap().to_owned();
        (text("status"), text("detail"), text("fix"))
    };
    assert_eq!(row("twin.amd.kfd").0, "ok");
    assert_eq!(row("twin.amd.kfd.1").0, "warn");
    assert!(row("twin.amd.kfd.1").2.contains("Resizable BAR"));
    assert_eq!(row("twin.amd.kfd.2").0, "fail");
    assert!(row("twin.amd.kfd.2").1.contains("permission denied"));
    assert!(row("twin.amd.kfd.2").2.contains("usermod"));
    place.wrote(&[], false);
}

#[test]
fn the_doctor_looks_at_simulated_cards_and_a_card_is_reset() {
    let place = Place::new();
    let env = [
        ("DEV", "TWINPCI+AMD::gfx1201"),
        ("TWIN", "gpus=2,before=kernel"),
    ];
    let found = rows(
        &succeed(&place, &["doctor", "--json"], &env),
        "doorbell.doctor/1",
    );
    let card = |check: &str| found.iter().find(|row| row["check"] == check).unwrap();
    for (check, address) in [
        ("twin.amd.pci.0", "0000:03:00.0"),
        ("twin.amd.pci.1", "0000:04:00.0"),
    ] {
        let detail = card(check)["detail"].as_str().unwrap();
        let start = format!("{address}; 1002:7550, gfx1201 (Navi 48); BAR 0 has 16384 MiB; ");
        assert!(detail.starts_with(&start), "{detail}");
        let has_firmware = card(check)["status"] == "ok";
        assert_eq!(has_firmware, card(check)["fix"] == "", "{detail}");
    }
    let reset = ["reset", "04:00.0", "--kind", "mode1"];
    let plan = succeed(&place, &[&reset[..], &["--plan"]].concat(), &env);
    assert!(
        plan.out.contains("VRAM, firmware and queues are lost"),
        "{}",
        plan.out
    );
    let done = succeed(&place, &reset, &env);
    assert!(
        done.err.contains("0000:04:00.0: reset done"),
        "{}",
        done.err
    );
    let cold = ["reset", "03:00.0", "--kind", "mode1"];
    let cold = succeed(&place, &cold, &env[..1]);
    assert!(
        cold.err.contains("the chip has not been started"),
        "{}",
        cold.err
    );
    let ran = place.run(&["reset", "09:00.0", "--kind", "mode1"], &env);
    assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{}", ran.err);
    assert!(ran.err.contains("no GPU at this address"), "{}", ran.err);
    place.wrote(&[], false);
}

/// What cannot be opened has a text that says why, and an exit code by which scripts tell.
#[test]
fn exit_codes_tell_why_a_device_does_not_open() {
    let place = Place::new();
    for (twin, code, texts) in [
        (
            "fault=path:/dev/kfd:ENOENT",
            3,
            &["/dev/kfd does not exist", "modprobe amdgpu"][..],
        ),
        (
            "fault=path:/dev/kfd:EACCES",
            4,
            &["permission denied", "usermod"],
        ),
        (
            "fault=path:/dev/kfd:EPERM",
            4,
            &["device cgroup", "--device /dev/kfd"],
        ),
        ("fault=path:/dev/dri/renderD128:EACCES", 4, &["renderD128"]),
        ("target=90006", 6, &["gfx906 is not supported", "gfx1100"]),
        ("kfd=1.6", 6, &["1.6", "Linux 5.19"]),
        ("gpus=0", 3, &["no compute GPU"]),
        ("chip=gfx1030", 3, &["GPU 0 is gfx1030, expected gfx1100"]),
        ("gpus=1e3", 2, &["gpus=1e3: expected 0 to 16"]),
        (
            "fault=path:/sys/devices/virtual/kfd:ENOENT",
            3,
            &["topology/nodes does not exist", "-v /sys:/sys:ro"],
        ),
        ("fault=path:/dev/kfd:EMFILE", 3, &["EMFILE", "ulimit -n"]),
        (
            "fault=path:/dev/dri/renderD128:ENODEV",
            7,
            &["is there but did not start", "the GPU is gone"],
        ),
        ("fault=ioctl:ACQUIRE_VM:EBUSY", 3, &["is busy"]),
        ("target=0", 6, &["expected gfx_target_version above 0"]),
        ("log=/none/x,debug=1", 2, &["log=/none/x: No such file"]),
    ] {
        let ran = place.run(&["devices"], &[GFX1100, ("TWIN", twin)]);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (code, ""),
            "{twin}: {}",
            ran.err
        );
        for text in texts {
            assert!(
                ran.err.contains(text),
                "{twin}: {text:?} is not in {:?}",
                ran.err
            );
        }
    }
    let ran = place.run(&["devices"], &[("DEV", "TWINKFD:0-1+AMD::gfx1100")]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("2 devices selected"), "{}", ran.err);
    place.wrote(&[], false);
}

/// Every way to write DEV wrongly is refused as usage, with what was expected; what is only not there
/// is no device.
#[test]
fn wrong_selections_say_what_was_expected() {
    let place = Place::new();
    for (dev, code, text) in [
        (
            "TWINKFD+AMD::gfx9999",
            2,
            "no chip 'gfx9999'; known: gfx1030",
        ),
        ("TWINKFD:20+AMD", 2, "gpus=21: expected 0 to 16"),
        ("TWIN+AMD", 2, "did you mean TWINKFD?"),
        ("TWINKFD+CPU", 2, "leave out the interface"),
        ("KFD", 2, "expected a device"),
        ("KFD:+AMD", 2, "expected device numbers from 0"),
        (":+AMD", 2, "expected device numbers from 0"),
        ("KFD:0+AMD:0", 2, "expected device numbers in one place"),
        ("AMD:5-2", 2, "ascending"),
        ("AMD:99999999999999", 2, "0 to 1023"),
        ("AMD:LLVM:", 2, "expected an architecture"),
        (
            "AMD:FOO",
            2,
            "expected a renderer of AMD (LLVM, CLANG, HIP)",
        ),
        (";", 2, "separate them by |"),
        ("USB+AMD", 3, "no ASM24xx bridge on USB"),
        ("TWINPCI+AMD::gfx1030", 2, "known behind PCI: gfx1100"),
        ("TWINPCI:9+AMD", 2, "expected 1 to 8"),
        ("TWINKFD:0,1+AMD", 3, "2 devices selected"),
        ("HIP", 3, "use DEV=CPU"),
    ] {
        let ran = place.run(&["devices"], &[("DEV", dev)]);
        let found = (ran.code, ran.out.as_str());
        assert_eq!(found, (code, ""), "{dev}: {}", ran.err);
        assert!(ran.err.contains(text), "{dev}: {}", ran.err);
    }
    place.wrote(&[], false);
}

/// Without a number or with an architecture alone, a GPU that can be used is found.
#[test]
fn the_first_gpu_that_can_be_used_is_taken() {
    let place = Place::new();
    let busy = ("TWIN", "gpus=2,fault=path:/dev/dri/renderD128:EBUSY");
    let found = succeed(&place, &["devices", "--json"], &[GFX1100, busy]);
    let found = rows(&found, "doorbell.devices/2");
    let selected: Vec<_> = found.iter().filter(|row| row["selected"] == true).collect();
    assert_eq!(selected.len(), 1);
    assert_eq!(selected[0]["device"], "AMD:1");
    // The number means that one.
    let ran = place.run(&["devices"], &[("DEV", "TWINKFD:0+AMD::gfx1100"), busy]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("is busy"), "{}", ran.err);
}

#[test]
fn a_device_that_is_lost_says_why() {
    let place = Place::new();
    let args = ["demo", "--epochs", "1", "--steps", "1"];
    for (fault, texts) in [
        (
            "memory:va=0x1000",
            &["AMD:0 is lost", "page fault at page 0x1000"][..],
        ),
        ("exception:reset", &["AMD:0 is lost", "reset"]),
        ("gone", &["AMD:0", "has left the bus", "ENODEV"]),
        ("gone:queue=1", &["AMD:0", "has left the bus", "ENODEV"]),
        (
            "hang:queue=0",
            &["compute queue 0", "HCQDEV_WAIT_TIMEOUT_MS"],
        ),
    ] {
        let twin = format!("fault={fault}");
        let env = [
            GFX1100,
            ("TWIN", twin.as_str()),
            ("HCQDEV_WAIT_TIMEOUT_MS", "300"),
        ];
        let ran = place.run(&args, &env);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (5, ""),
            "{fault}: {}",
            ran.err
        );
        for text in texts {
            assert!(
                ran.err.contains(text),
                "{fault}: {text:?} is not in {:?}",
                ran.err
            );
        }
    }
}

#[test]
fn the_demonstration_learns_as_on_the_cpu() {
    let (cpu, gpu) = (losses(&[("DEV", "CPU")]), losses(&[GFX1100]));
    for (a, b) in cpu.iter().zip(&gpu) {
        // Sums in another order, through nine steps of Adam.
        assert!((a - b).abs() < 2e-4 * a, "CPU {cpu:?}, gfx1100 {gpu:?}");
    }
    assert!(gpu[2] < gpu[0] - 0.05, "{gpu:?}");
}

/// Started by us, register by register, with AMD's own firmware: from power on, and after the vendor's kernel driver.
#[test]
fn a_card_without_a_kernel_driver_learns_as_the_cpu() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware");
    let folder = folder.join("bookworm-backports");
    if !folder.is_dir() {
        println!(
            "skipped: {}: scripts/fetch firmware fetches it",
            folder.display()
        );
        return;
    }
    let cpu = losses(&[("DEV", "CPU")]);
    // Of cards that are started otherwise than the first two, one every other time, which the part chooses.
    let part = Part::chosen();
    let others = [
        ("TWINPCI+AMD::gfx942", "before=kernel"),
        ("TWINPCI+AMD::gfx1101", "irq=on"),
        ("TWINPCI+AMD::gfx1102", "bar=256"),
        ("TWINPCI+AMD::gfx1200", "before=nobody"),
    ];
    let others = (0..others.len())
        .filter(|i| part.has(*i, 8))
        .map(|i| others[i]);
    let always = [
        ("TWINPCI+AMD::gfx1100", "before=nobody"),
        ("TWINPCI+AMD::gfx1201", "before=kernel"),
        ("TWINUSB+AMD::gfx1201", "hops=3"),
    ];
    for (dev, twin) in always.into_iter().chain(others) {
        let firmware = folder.display().to_string();
        let gpu = losses(&[("DEV", dev), ("HCQDEV_FIRMWARE", &firmware), ("TWIN", twin)]);
        for (a, b) in cpu.iter().zip(&gpu) {
            assert!((a - b).abs() < 2e-4 * a, "CPU {cpu:?}, {dev} {gpu:?}");
        }
    }
    // Without firmware there is nothing to start.
    let place = Place::new();
    let nowhere = [
        ("DEV", "TWINPCI+AMD::gfx1201"),
        ("HCQDEV_FIRMWARE", "/nowhere"),
    ];
    let ran = place.run(&["devices"], &nowhere);
    if !Path::new("/lib/firmware/amdgpu").exists() {
        assert_eq!(ran.code, 7, "{}", ran.err);
        assert!(ran.err.contains("psp_14_0_3_sos.bin"), "{}", ran.err);
    }
}

#[test]
fn bridges_are_listed_and_measured() {
    let place = Place::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware");
    let firmware = folder.join("bookworm-backports").display().to_string();
    let bridge = [
        ("DEV", "TWINUSB+AMD::gfx1201"),
        ("HCQDEV_FIRMWARE", &*firmware),
    ];
    let ran = succeed(&place, &["usb", "list", "--json"], &bridge);
    let seen = rows(&ran, "doorbell.usb/1");
    let simulated = seen
        .iter()
        .find(|row| row["dev"] == "TWINUSB:0+AMD")
        .unwrap();
    assert_eq!(
        (&simulated["id"], &simulated["open"]),
        (&"add1:0001".into(), &true.into())
    );
    if Path::new(&firmware).is_dir() {
        let ran = succeed(&place, &["usb", "bench", "--mib", "1"], &bridge);
        assert!(
            ran.out.contains("to the GPU") && ran.out.contains("waits"),
            "{}",
            ran.out
        );
    }
    let ran = place.run(&["usb", "bench"], &[("DEV", "CPU")]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(
        ran.err.contains("expected a GPU behind a USB bridge"),
        "{}",
        ran.err
    );
}

/// Scripts tell a card that does not start from none.
#[test]
fn a_card_that_is_there_and_does_not_start_has_an_exit_code_of_its_own() {
    let place = Place::new();
    for (dev, twin, code, text) in [
        (
            "TWINPCI+AMD::gfx1201",
            "gone=0",
            7,
            "AMD:0 is there but did not start",
        ),
        (
            "TWINPCI+AMD::gfx1201",
            "never=bootloader",
            7,
            "AMD:0 is there but did not start",
        ),
        (
            "TWINUSB+AMD::gfx1201",
            "trouble=unplug:0,away=9",
            7,
            "AMD:0 is there but did not start",
        ),
        ("TWINPCI+AMD::gfx1201", "chip=gfx1100", 3, "no device for"),
        ("TWINPCI:1+AMD", "gpus=1", 3, "no device for"),
    ] {
        let env = [("DEV", dev), ("TWIN", twin), ("HCQDEV_BUNDLES", "0")];
        let ran = place.run(&["bench", "launch"], &env);
        assert_eq!(ran.code, code, "{dev} {twin}: {}", ran.err);
        assert!(ran.err.contains(text), "{dev} {twin}: {}", ran.err);
    }
}

#[test]
fn cards_that_no_kernel_driver_has_are_listed_where_they_are_simulated() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware");
    let firmware = folder.join("bookworm-backports");
    let place = Place::new();
    for (dev, way, check, detail) in [
        (
            "TWINUSB+AMD::gfx1201",
            "TWINUSB",
            "twin.amd.usb",
            "add1:0001, custom v0.1, 10000 Mbit/s; DEV=TWINUSB:0+AMD",
        ),
        ("TWINPCI+AMD::gfx1102", "TWINPCI", "twin.amd.pci", "gfx1102"),
    ] {
        let env = [
            ("DEV", dev),
            ("TWIN", "gpus=2"),
            ("HCQDEV_FIRMWARE", &firmware.display().to_string()),
        ];
        let ran = succeed(&place, &["doctor", "--json"], &env);
        let rows_of = |prefix: &str, rows: &[serde_json::Value]| {
            let has = |row: &&serde_json::Value| row["check"].as_str().unwrap().starts_with(prefix);
            rows.iter().filter(has).cloned().collect::<Vec<_>>()
        };
        let seen = rows_of(check, &rows(&ran, "doorbell.doctor/1"));
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert!(
            seen[0]["detail"].as_str().unwrap().contains(detail),
            "{seen:?}"
        );
        if !firmware.is_dir() {
            println!(
                "skipped: {}: scripts/fetch firmware fetches it",
                firmware.display()
            );
            continue;
        }
        let ran = succeed(&place, &["devices", "--json"], &env);
        let found = rows(&ran, "doorbell.devices/2");
        let twins: Vec<_> = found.iter().filter(|row| row["interface"] == way).collect();
        assert_eq!(twins.len(), 2, "{found:?}");
        let (_, arch) = dev.split_once("::").unwrap();
        for (i, row) in twins.iter().enumerate() {
            // What is on the bus is not opened.
            let of = row["dev"].as_str().unwrap().split("::").next().unwrap();
            assert_eq!(of, format!("{way}:{i}+AMD"));
            assert_eq!(row["arch"], arch);
            assert_eq!(row["selected"], i == 0);
        }
    }
}

#[test]
fn registers_of_a_simulated_card_are_read_and_written_by_name() {
    let place = Place::new();
    let card = [("DEV", "TWINPCI+AMD::gfx1201")];
    let write = ["regs", "write", "IH_RB_CNTL.rb_size=16"];
    let ran = place.run(&write, &card);
    assert_eq!(ran.code, 2, "{}", ran.err);
    let ran = succeed(&place, &[&write[..], &["--yes"]].concat(), &card);
    assert!(
        ran.out.contains("OSSSYS0.IH_RB_CNTL(0x00000020)"),
        "{}",
        ran.out
    );
    let ran = succeed(&place, &["regs", "read", "IH_RB_CNTL", "--json"], &card);
    let seen = rows(&ran, "doorbell.regs/1");
    assert_eq!(seen[0]["block"], "OSSSYS0");
    assert!(seen[0]["address"].is_number());
    let ran = place.run(&["regs", "read", "IH_RB_CTL"], &card);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("did you mean IH_RB_CNTL?"), "{}", ran.err);
}

#[test]
fn bench_has_its_rows() {
    let place = Place::new();
    let ran = succeed(&place, &["bench", "all", "--json"], &[GFX1100]);
    assert!(ran.err.contains("simulated"), "{}", ran.err);
    let names: Vec<String> = rows(&ran, "doorbell.bench/1")
        .iter()
        .map(|row| row["name"].as_str().unwrap().to_owned())
        .collect();
    for name in [
        "gemm f32 128",
        "softmax f32 1MB",
        "copy 1MB",
        "exec to doorbell",
        "replay 100 kernels",
    ] {
        assert!(
            names.iter().any(|n| n == name),
            "{name} is not in {names:?}"
        );
    }
    place.wrote(&[], true);
}

#[test]
fn products_of_halves_use_matrix_instructions() {
    let place = Place::new();
    for (chip, instruction) in [
        ("gfx1100", "v_wmma_f32_16x16x16_f16"),
        ("gfx1201", "v_wmma_f32_16x16x16_f16"),
        ("gfx942", "v_mfma_f32_"),
    ] {
        let dev = format!("TWINKFD+AMD::{chip}");
        let env = [("DEV", dev.as_str()), ("DEBUG", "7"), ("CACHELEVEL", "0")];
        let err = succeed(&place, &["bench", "gemm"], &env).err;
        assert!(err.contains(instruction), "{chip}: {err:.4000}");
        assert!(err.contains(" VGPRs, ") && err.contains(", occupancy "));
    }
    place.wrote(&[], false);
}

/// DEBUG is the program's, TWIN=debug=N the simulated machine's, which may write to a file of its
/// own: both can be read.
#[test]
fn the_levels_of_the_program_and_of_the_machine_are_apart() {
    let place = Place::new();
    let bench = ["bench", "graph", "--json"];
    let ran = succeed(
        &place,
        &bench,
        &[GFX1100, ("DEBUG", "7"), ("CACHELEVEL", "0")],
    );
    for text in [
        "AMD:0 gfx1100 ",
        ", simulated, ",
        ": source\n",
        ": linear\n",
        "s_endpgm",
    ] {
        assert!(ran.err.contains(text), "{text:?}\n{:.4000}", ran.err);
    }
    assert!(!ran.err.contains("INDIRECT_BUFFER"), "{:.4000}", ran.err);

    let twin = ("TWIN", "debug=6,log=packets.txt");
    let ran = succeed(
        &place,
        &bench,
        &[GFX1100, ("DEBUG", "4"), ("CACHELEVEL", "0"), twin],
    );
    assert!(ran.err.contains(": source\n"), "{:.4000}", ran.err);
    assert!(!ran.err.contains("DISPATCH_DIRECT"), "{:.4000}", ran.err);
    let log = std::fs::read_to_string(place.path("work/packets.txt")).unwrap();
    for text in ["CREATE_QUEUE = 0", "DISPATCH_DIRECT", "s_endpgm"] {
        assert!(log.contains(text), "{text:?}\n{log:.4000}");
    }
    place.wrote(&["packets.txt"], false);
}

#[test]
fn a_hang_is_waited_for_as_long_as_the_variable_says() {
    let place = Place::new();
    let env = [
        GFX1100,
        ("TWIN", "fault=hang:queue=0"),
        ("HCQDEV_WAIT_TIMEOUT_MS", "700"),
    ];
    for what in ["launch", "graph"] {
        let ran = place.run(&["bench", what], &env);
        assert_eq!(ran.code, 5, "{}", ran.err);
        let limit = "HCQDEV_WAIT_TIMEOUT_MS";
        assert!(
            ran.err.contains(limit) && ran.err.contains("for 7"),
            "{}",
            ran.err
        );
    }
    let ran = place.run(&["bringup", "--json"], &env);
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let last = document["rows"].as_array().unwrap().last().unwrap();
    assert_eq!(last["deadline_ms"], 700.0, "{}", ran.err);
}
