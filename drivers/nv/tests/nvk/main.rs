//! NVIDIA's kernel driver as an interface, on its twin: what is made is there and works, what is refused
//! leaves nothing behind.

#![allow(clippy::unwrap_used)]

mod bench;
mod failures;
mod faults;
mod meters;
mod order;
mod several;
mod sleep;

use bench::{Worker, clean, machines, open, open_with, request, twin, use_all, wait};
use drivers_nv::Options;
use drivers_nv::backend::ChannelKind;
use drivers_nv::nvk::{examine, survey};
use drivers_spec::nv::abi::Branch;
use hcq::{Error, MemoryKind};
use twin_nv::machine::TwinMachine;

#[test]
fn everything_is_made_on_every_chip_by_every_driver() {
    for config in machines() {
        let twin = twin(&config);
        use_all(&twin, &Options::default()).unwrap_or_else(|e| panic!("{config}: {e}"));
        clean(&twin);
        // It is opened again, by the same process.
        use_all(&twin, &Options::default()).unwrap();
        clean(&twin);
    }
}

#[test]
fn a_gpu_tells_what_it_is() {
    let expected = [
        ("ga102", "sm_86", 82, 24 << 30, "NVIDIA GeForce RTX 3090"),
        ("ad102", "sm_89", 128, 24 << 30, "NVIDIA GeForce RTX 4090"),
        ("h100", "sm_90", 132, 80 << 30, "NVIDIA H100 80GB HBM3"),
        (
            "gb202",
            "sm_120",
            170,
            32_u64 << 30,
            "NVIDIA GeForce RTX 5090",
        ),
    ];
    for (chip, target, sms, vram, product) in expected {
        let twin = twin(&format!("chip={chip}"));
        let nvk = open(&twin, 0).unwrap();
        let gpu = nvk.gpu();
        assert_eq!((gpu.chip.target, &*gpu.product), (target, product));
        assert_eq!((gpu.units.sms, gpu.facts.vram), (sms, vram));
        assert_eq!(gpu.facts.place, "0000:01:00.0");
        assert!(gpu.copy_engines > 0 && gpu.units.warps_per_sm >= 48);
        assert_eq!((nvk.name(), nvk.facts().clock_hz), ("NVK", 1_000_000_000));
    }
}

#[test]
fn the_host_sees_memory_of_a_gpu_whose_window_is_large() {
    let windows = |config: &str, options: &Options| {
        let twin = twin(config);
        let nvk = open_with(&twin, 0, options).unwrap();
        let memory = nvk.memory(&request(MemoryKind::Device, 3 << 20)).unwrap();
        assert_eq!(nvk.facts().vram_windows, memory.window.is_some());
        memory.window.is_some()
    };
    let hidden = Options {
        host_visible: false,
        ..Options::default()
    };
    assert!(windows("chip=h100", &Options::default()));
    assert!(!windows("chip=h100", &hidden));
    assert!(!windows("chip=ad102", &Options::default()));
}

#[test]
fn a_driver_that_is_not_described_is_tried() {
    let newer = twin("chip=h100,driver=580,says=610.43.02");
    use_all(&newer, &Options::default()).unwrap();
    clean(&newer);
    let survey = survey(&*newer);
    let driver = survey.driver.unwrap();
    assert_eq!((&*driver.version, driver.known), ("610.43.02", false));
    assert_eq!(driver.branch, Branch::R580);
    // One whose structs are others is refused, and says so.
    let other = twin("chip=h100,driver=550,says=610.43.02");
    let error = open(&other, 0).err().unwrap().to_string();
    assert!(
        error.contains("errno 22") || error.contains("NV_ERR_"),
        "{error}"
    );
    let old = open(&twin("driver=535,says=470.256.02"), 0);
    let old = old.err().unwrap().to_string();
    assert!(
        old.contains("version 470.256.02, expected 535 or newer"),
        "{old}"
    );
}

#[test]
fn what_keeps_a_gpu_from_being_opened_is_said() {
    let cases = [
        ("module=none", "the module nvidia is not loaded: install"),
        (
            "module=nouveau",
            "0000:01:00.0 is bound to the kernel driver nouveau",
        ),
        ("module=vfio-pci", "unbind it from vfio-pci"),
        (
            "fault=path:/dev/nvidiactl:ENOENT",
            "/dev/nvidiactl does not exist, but the module nvidia is loaded (version 580.142)",
        ),
        (
            "fault=path:/dev/nvidia0:ENOENT",
            "/dev/nvidia0 does not exist, but",
        ),
        (
            "fault=path:/dev/nvidia0:EACCES",
            "/dev/nvidia0: permission denied",
        ),
        ("fault=path:/dev/nvidiactl:EPERM", "by a device cgroup"),
        (
            "fault=path:/dev/nvidia-uvm:EACCES",
            "/dev/nvidia-uvm: permission denied",
        ),
        (
            "fault=path:/dev/nvidia0:EIO",
            "the driver cannot start the GPU",
        ),
        (
            "chip=h100,confidential=on",
            "has confidential computing enabled",
        ),
        ("mig=2", "is split into 2 MIG partitions"),
        (
            "compute=prohibited",
            "0000:01:00.0 is in compute mode Prohibited",
        ),
        ("compute=taken", "and in use by another program"),
    ];
    for (config, expected) in cases {
        let twin = twin(config);
        let error = open(&twin, 0).err().unwrap();
        let text = error.to_string();
        assert!(text.contains(expected), "{config}: {text}");
        let denied = ["EACCES", "EPERM", "compute"]
            .iter()
            .any(|one| config.contains(one));
        assert_eq!(
            matches!(error, Error::NoPermission { .. }),
            denied,
            "{text}"
        );
        clean(&twin);
        // A look at the machine finds the same; what is asked of the GPU itself, a closer one.
        let asked = ["compute", "mig", "confidential"]
            .iter()
            .any(|one| config.contains(one));
        for (survey, sees) in [(survey(&*twin), !asked), (examine(&*twin), true)] {
            let gpu = survey.gpus.into_iter().find_map(|gpu| gpu.unusable);
            let found = survey.driver.err().or(gpu);
            let seen = found.is_some_and(|why| why.to_string().contains(expected));
            assert_eq!(seen, sees && !config.contains("uvm"), "{config}");
            clean(&twin);
        }
    }
}

#[test]
fn a_gpu_for_one_program_is_reserved() {
    let twin = twin("chip=h100,compute=exclusive");
    // Of the same process every device may use it.
    let (first, second) = (open(&twin, 0).unwrap(), open(&twin, 0).unwrap());
    let other = TwinMachine::attach(twin.machine());
    let busy = open(&other, 0).err().unwrap().to_string();
    assert!(busy.contains("in use by another program"), "{busy}");
    let looked = examine(&*other).gpus.remove(0).unusable.unwrap();
    assert_eq!(
        looked.to_string(),
        busy.replace("no permission for NV:0: ", "")
    );
    drop((first, second));
    // Whoever only looks does not keep it.
    assert_eq!(examine(&*twin).gpus[0].unusable, None);
    use_all(&other, &Options::default()).unwrap();
    clean(&twin);
}

#[test]
fn host_memory_may_be_that_of_the_process() {
    let twin = twin("chip=h100");
    let options = Options {
        pinned: true,
        ..Options::default()
    };
    use_all(&twin, &options).unwrap();
    clean(&twin);
}

#[test]
fn a_gpu_that_is_not_there_is_named() {
    let error = |config: &str, index| {
        let twin = twin(config);
        let error = open(&twin, index).err().unwrap();
        assert!(twin.machine().state().is_empty());
        error
    };
    let missing = error("gpus=2", 2);
    assert!(matches!(missing, Error::NoDevice { .. }));
    assert_eq!(
        missing.to_string(),
        "no device for NV:2: NVIDIA's kernel driver lists 2 GPUs, numbers 0 to 1"
    );
    let none = error("gpus=0", 0).to_string();
    assert!(none.contains("lists no GPU"), "{none}");
}

#[test]
fn channels_run_what_they_are_given() {
    for config in machines() {
        let twin = twin(&config);
        let nvk = open(&twin, 0).unwrap();
        let word = nvk.memory(&request(MemoryKind::Control, 4096)).unwrap();
        for (kind, value) in [(ChannelKind::Compute, 7), (ChannelKind::Copy(0), 1 << 40)] {
            let mut worker = Worker::new(&nvk, kind).unwrap();
            assert!(worker.channel.classes.copy.is_some());
            worker.release(word.va.0, value);
            assert_eq!(wait(&nvk, &word, value), None, "{config}");
            assert_eq!(worker.channel.get(), Ok(1));
        }
        drop((nvk, word));
        clean(&twin);
    }
}
