//! NVIDIA's kernel driver as an interface, on its twin: what is made is there, what is refused leaves
//! nothing behind.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use drivers_gpu::interface::{Age, Request};
use drivers_nv::Options;
use drivers_nv::interface::{ChannelKind, ChannelRequest, NvInterface};
use drivers_nv::nvk;
use hcq::transport::Machine;
use hcq::{Error, MemoryKind};
use twin_nv::machine::TwinMachine;

fn twin(config: &str) -> Arc<TwinMachine> {
    TwinMachine::new(config).unwrap()
}

fn open(twin: &Arc<TwinMachine>, index: u32) -> hcq::Result<Arc<dyn NvInterface>> {
    open_with(twin, index, &Options::default())
}

fn open_with(
    twin: &Arc<TwinMachine>,
    index: u32,
    options: &Options,
) -> hcq::Result<Arc<dyn NvInterface>> {
    let machine: Arc<dyn Machine> = twin.clone();
    nvk::open(&machine, index, options)
}

fn request(kind: MemoryKind, bytes: u64) -> Request<'static> {
    Request {
        bytes,
        align: 256,
        kind,
        what: "test memory",
    }
}

fn compute(name: &str) -> ChannelRequest<'_> {
    ChannelRequest {
        kind: ChannelKind::Compute,
        entries: 512,
        name,
    }
}

/// No rule is broken, and no object is left.
fn clean(twin: &TwinMachine) {
    let broken = twin.machine().broken_rules();
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(twin.machine().state().is_empty());
}

/// Every chip, with every driver that has it.
fn machines() -> impl Iterator<Item = String> {
    let drivers = ["535", "550", "570", "580"];
    let chips = ["ga102", "ad102", "h100", "gb202"];
    let all = chips
        .into_iter()
        .flat_map(move |chip| drivers.map(|driver| (chip, driver)));
    all.filter(|(chip, driver)| *chip != "gb202" || *driver >= "570")
        .map(|(chip, driver)| format!("chip={chip},driver={driver}"))
}

/// Uses everything that an interface gives.
fn use_all(twin: &Arc<TwinMachine>, options: &Options) -> hcq::Result<()> {
    let nvk = open_with(twin, 0, options)?;
    for kind in [MemoryKind::Device, MemoryKind::Host, MemoryKind::Control] {
        for bytes in [1, 100_000, 5 << 20] {
            let memory = nvk.memory(&request(kind, bytes))?;
            assert!(memory.bytes >= bytes && memory.va.0.is_multiple_of(4096));
            let windows = nvk.facts().vram_windows || kind != MemoryKind::Device;
            assert_eq!(memory.window.is_some(), windows);
            if let Some(window) = &memory.window {
                let last = memory.bytes - 8;
                window.write(last, 0x1234_5678_9abc_def0_u64).unwrap();
                assert_eq!(window.read::<u64>(last), Ok(0x1234_5678_9abc_def0));
                let (other, at) = nvk.window_at(memory.va.0 + last).unwrap();
                assert_eq!(other.read::<u64>(at), Ok(0x1234_5678_9abc_def0));
            }
            let told = nvk.space().ranges.describe(memory.va.0 + 8);
            assert!(told.contains("offset 0x8 of test memory"), "{told}");
        }
    }
    let first = nvk.channel(&compute("compute 0"))?;
    let copy = nvk.channel(&ChannelRequest {
        kind: ChannelKind::Copy(0),
        entries: 64,
        name: "copy 0",
    })?;
    assert!(first.token != copy.token);
    assert_eq!((first.entries(), copy.entries()), (512, 64));
    assert_eq!((first.get(), copy.get()), (Ok(0), Ok(0)));
    assert!(first.classes.compute.is_some() && copy.classes.compute.is_none());
    assert!(first.classes.copy == copy.classes.copy && copy.classes.copy.is_some());
    assert_eq!(first.handle.died()?, None);
    let event = nvk.event()?;
    let slept = nvk.sleep(
        Some(&event),
        &mut Age::NEW.clone(),
        Duration::from_millis(1),
    )?;
    assert_eq!(slept, None);
    let (before, after) = (nvk.ticks()?, nvk.ticks()?);
    assert!(after >= before);
    Ok(())
}

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
        "no device for NV:2: NVIDIA's kernel driver has 2 GPUs, numbers 0 to 1"
    );
    let none = error("gpus=0", 0).to_string();
    assert!(none.contains("has no GPU"), "{none}");
}
