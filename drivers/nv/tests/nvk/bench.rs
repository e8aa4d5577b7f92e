//! A driver's use of the interface, step by step.

use std::sync::Arc;
use std::time::Duration;

use drivers_gpu::backend::{Age, Exception, Memory, Request};
use drivers_nv::Options;
use drivers_nv::backend::{ChannelKind, ChannelRequest, HardwareChannel, NvBackend};
use drivers_nv::nvk;
use drivers_spec::nv::chip::Method;
use drivers_spec::nv::host::{self, sem_execute};
use drivers_spec::nv::push::{GP_ENTRY_BYTES, gp_entry1, header};
use hcq::MemoryKind;
use hcq::transport::Machine;
use twin_nv::machine::TwinMachine;

pub fn twin(config: &str) -> Arc<TwinMachine> {
    TwinMachine::new(config).unwrap()
}

pub fn open(twin: &Arc<TwinMachine>, index: u32) -> hcq::Result<Arc<dyn NvBackend>> {
    open_with(twin, index, &Options::default())
}

pub fn open_with(
    twin: &Arc<TwinMachine>,
    index: u32,
    options: &Options,
) -> hcq::Result<Arc<dyn NvBackend>> {
    let machine: Arc<dyn Machine> = twin.clone();
    nvk::open(&machine, index, options)
}

pub fn request(kind: MemoryKind, bytes: u64) -> Request<'static> {
    Request {
        bytes,
        align: 256,
        kind,
        what: "test memory",
    }
}

pub fn compute(name: &str) -> ChannelRequest<'_> {
    ChannelRequest {
        kind: ChannelKind::Compute,
        entries: 512,
        name,
    }
}

/// No rule is broken, and no object is left.
pub fn clean(twin: &TwinMachine) {
    clean_but_for(twin, &[]);
}

/// Just these rules are broken, and no object is left.
pub fn clean_but_for(twin: &TwinMachine, rules: &[&str]) {
    assert_eq!(twin.machine().broken_rules(), rules);
    assert!(twin.machine().state().is_empty());
    let left = left(twin);
    assert!(left.is_empty(), "{left:#?}");
}

/// What the process still has. Mappings are not looked at: the host gives them back with the addresses,
/// which the twin is not told.
pub fn left(twin: &TwinMachine) -> Vec<String> {
    let all = twin.process().objects().into_iter();
    all.filter(|one| !one.starts_with("mapping of ")).collect()
}

/// Every chip, with every driver that has it.
pub fn machines() -> impl Iterator<Item = String> {
    let drivers = ["535", "550", "570", "580"];
    let chips = ["ga102", "ad102", "h100", "gb202"];
    let all = chips
        .into_iter()
        .flat_map(move |chip| drivers.map(|driver| (chip, driver)));
    all.filter(|(chip, driver)| *chip != "gb202" || *driver >= "570")
        .map(|(chip, driver)| format!("chip={chip},driver={driver}"))
}

/// Uses everything that an interface gives.
pub fn use_all(twin: &Arc<TwinMachine>, options: &Options) -> hcq::Result<()> {
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
    assert!(copy.classes.copy.is_some());
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

/// A channel, and where its push buffer is written.
pub struct Worker {
    pub channel: HardwareChannel,
    pub buffer: Memory,
    put: u32,
}

impl Worker {
    /// A channel of a GPU.
    pub fn new(nvk: &Arc<dyn NvBackend>, kind: ChannelKind) -> hcq::Result<Worker> {
        let request = ChannelRequest {
            kind,
            entries: 512,
            name: "worker",
        };
        Ok(Worker {
            channel: nvk.channel(&request)?,
            buffer: nvk.memory(&self::request(MemoryKind::Control, 128 << 10))?,
            put: 0,
        })
    }

    /// Runs methods of the host, each with its value.
    pub fn run(&mut self, methods: &[(Method, u32)]) {
        let window = self.buffer.window.as_ref().unwrap();
        let at = u64::from(self.put) * 256;
        let mut words = Vec::new();
        for (method, value) in methods {
            words.push(
                header::METHOD_ADDRESS.put(method.dword())
                    | header::METHOD_COUNT.put(1)
                    | header::SEC_OP.put(header::SEC_OP_INC_METHOD),
            );
            words.push(*value);
        }
        window.write_words(at, &words).unwrap();
        let va = self.buffer.va.0 + at;
        let entry = [
            va as u32,
            gp_entry1::GET_HI.put((va >> 32) as u32) | gp_entry1::LENGTH.put(words.len() as u32),
        ];
        let ring = &self.channel.ring;
        let slot = u64::from(self.put) * GP_ENTRY_BYTES;
        ring.write_words(slot, &entry).unwrap();
        self.put += 1;
        self.channel.publish(self.put).unwrap();
    }

    /// Releases a semaphore of 64 bits, and interrupts.
    pub fn release(&mut self, va: u64, value: u64) {
        self.semaphore(va, value, sem_execute::OPERATION_RELEASE);
    }

    /// Waits until a semaphore has a value.
    pub fn acquire(&mut self, va: u64, value: u64) {
        self.semaphore(va, value, sem_execute::OPERATION_ACQUIRE);
    }

    fn semaphore(&mut self, va: u64, value: u64, operation: u32) {
        let execute = sem_execute::OPERATION.put(operation)
            | sem_execute::PAYLOAD_SIZE.put(sem_execute::PAYLOAD_SIZE_64BIT);
        self.run(&[
            (host::SEM_ADDR_LO, va as u32),
            (host::SEM_ADDR_HI, (va >> 32) as u32),
            (host::SEM_PAYLOAD_LO, value as u32),
            (host::SEM_PAYLOAD_HI, (value >> 32) as u32),
            (host::SEM_EXECUTE, execute),
            (host::NON_STALL_INTERRUPT, 0),
        ]);
    }
}

/// Sleeps until a word is there, or the GPU has stopped.
pub fn wait(nvk: &Arc<dyn NvBackend>, memory: &Memory, value: u64) -> Option<Exception> {
    let window = memory.window.as_ref().unwrap();
    let event = nvk.event().unwrap();
    let mut age = Age::NEW;
    for _ in 0..10_000 {
        if window.load::<u64>(0) == Ok(value) {
            return None;
        }
        let slice = Duration::from_millis(1);
        if let Some(exception) = nvk.sleep(Some(&event), &mut age, slice).unwrap() {
            return Some(exception);
        }
    }
    panic!("neither {value:#x} nor an exception");
}
