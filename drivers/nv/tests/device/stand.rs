//! Our driver on the twin, and some work for it.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use drivers_nv::{NvDevice, Options};
use hcq::transport::Machine;
use hcq::{
    AllocSpec, ArgKind, ArgLayout, Buffer, Command, Deadline, Device, KernelImage, MemoryKind,
    Program, QueueKind, Result, Stream, Val, Width,
};
use twin_nv::machine::TwinMachine;

/// One chip of each generation.
pub const CHIPS: [&str; 4] = ["ga102", "ad102", "h100", "gb202"];

/// Where nothing ever is.
pub const WILD: u64 = 0x12_3456_7000;

/// A machine from a config string of the twin.
pub fn twin(config: &str) -> Arc<TwinMachine> {
    TwinMachine::new(config).unwrap()
}

/// The machine, for the driver.
pub fn machine(twin: &Arc<TwinMachine>) -> Arc<dyn Machine> {
    twin.clone()
}

/// Small rings: less to allocate.
pub fn options() -> Options {
    Options {
        entries: 512,
        push_buffer: 64 << 10,
        ring_timeout: soon().limit(),
        drain_timeout: soon().limit(),
        ..Options::default()
    }
}

/// A limit that only a hang reaches.
pub fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(30))
}

/// A kernel of `kernels.ptx`, for the chip that comes first in a config.
pub fn kernel(config: &str, entry: &str) -> KernelImage {
    // Code of Ampere runs on Ada.
    let sm = ["ga102", "ad102", "h100", "gb202"]
        .into_iter()
        .zip([86, 86, 90, 120])
        .find_map(|(chip, sm)| config.contains(chip).then_some(sm))
        .unwrap_or(86);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device/kernels");
    let number = ArgKind::Value(Width::W64);
    KernelImage {
        name: entry.into(),
        arch: format!("sm_{sm}"),
        bytes: std::fs::read(folder.join(format!("sm_{sm}.cubin")))
            .unwrap()
            .into(),
        entry: entry.into(),
        args: match entry {
            "trap" | "uneven" => ArgLayout::default(),
            "step" | "shared" | "local" => ArgLayout::new([ArgKind::Buffer, number]),
            "sums" | "deep" | "vast" => ArgLayout::buffers(2),
            _ => ArgLayout::buffers(1),
        },
        local_bytes: 0,
    }
}

/// An address as an operand.
pub fn at(buffer: &Buffer) -> Val {
    Val::Const(buffer.va().0)
}

/// Memory of a kind.
pub fn memory(device: &dyn Device, kind: MemoryKind, bytes: u64) -> Result<Buffer> {
    device.alloc(AllocSpec {
        bytes,
        align: 256,
        kind,
        zeroed: false,
    })
}

/// A launch of so many blocks of one thread.
pub fn exec<'a>(program: &'a Program, args: &'a [Val], groups: u32) -> Command<'a> {
    Command::Exec {
        program,
        args,
        grid: [groups, 1, 1],
        block: [1, 1, 1],
    }
}

/// A copy of a whole buffer.
pub fn copy(dst: &Buffer, src: &Buffer) -> Command<'static> {
    Command::Copy {
        dst: at(dst),
        src: at(src),
        bytes: src.bytes(),
    }
}

/// The first words of a buffer.
pub fn words<const N: usize>(buffer: &Buffer) -> Result<[u32; N]> {
    let mut bytes = vec![0; N * 4];
    buffer.read(0, &mut bytes)?;
    Ok(std::array::from_fn(|i| {
        u32::from_le_bytes(std::array::from_fn(|byte| bytes[i * 4 + byte]))
    }))
}

/// What the process still has. Mappings are not looked at: the host gives them back with the addresses,
/// which the twin is not told.
pub fn left(twin: &TwinMachine) -> Vec<String> {
    let all = twin.process().objects().into_iter();
    all.filter(|one| !one.starts_with("mapping of ")).collect()
}

/// Among the rules of [`ends`]: channels may have been left at waits for what never comes.
pub const VAIN: &str = "HOST-DEADLOCK";

/// No object is left, and just these rules were broken.
pub fn ends(twin: &TwinMachine, rules: &[&str], what: &str) {
    assert_eq!(left(twin), [""; 0], "{what}");
    assert!(twin.machine().state().is_empty(), "{what}");
    let broken = twin.machine().journal.violations();
    let told: Vec<_> = broken.iter().map(ToString::to_string).collect();
    let counts = |name: &&str| *name != VAIN || !rules.contains(&VAIN);
    let names = broken.iter().map(|one| one.rule.name);
    let names: Vec<_> = names.filter(counts).collect();
    let rules: Vec<_> = rules.iter().copied().filter(counts).collect();
    assert_eq!(names, rules, "{what}: {}", told.join("\n"));
}

/// A device with what works on it.
pub struct Rig {
    pub device: Arc<NvDevice>,
    pub compute: Stream,
    pub copy: Stream,
    pub step: Arc<Program>,
}

impl Rig {
    /// GPU number `index` of a machine, with the kernel `step`.
    pub fn open(machine: &Arc<dyn Machine>, index: u32, step: &KernelImage) -> Result<Rig> {
        Rig::with(machine, index, step, &options())
    }

    pub fn with(
        machine: &Arc<dyn Machine>,
        index: u32,
        step: &KernelImage,
        options: &Options,
    ) -> Result<Rig> {
        let device = drivers_nv::open(machine, index, options)?;
        Ok(Rig {
            compute: Stream::new(device.queue(QueueKind::Compute, 0)?),
            copy: Stream::new(device.queue(QueueKind::Copy, 0)?),
            step: device.load(step)?,
            device,
        })
    }

    /// One round of work on numbers of its own; what comes out is compared.
    pub fn round(&self, seed: u32) -> Result<()> {
        let sizes = [256, 4096, 70_000, 2 << 20];
        let bytes = sizes[seed as usize % 4];
        let kind = [MemoryKind::Device, MemoryKind::Host][seed as usize / 4 % 2];
        let (a, b) = (
            memory(&*self.device, kind, bytes)?,
            memory(&*self.device, MemoryKind::Host, bytes)?,
        );
        let content: Vec<u8> = (0..bytes).map(|i| (i as u32 * 7 + seed) as u8).collect();
        a.write(0, &content)?;
        let args = [at(&a), Val::Const(u64::from(seed))];
        let stepped = self.compute.submit(&[], &[exec(&self.step, &args, 16)])?;
        let copied = self.copy.submit(&[stepped], &[copy(&b, &a)])?;
        copied.wait(soon())?;
        let mut seen = vec![0; bytes as usize];
        b.read(0, &mut seen)?;
        let number = |bytes: &[u8], i: usize| {
            u32::from_le_bytes(bytes[i * 4..i * 4 + 4].try_into().unwrap())
        };
        for i in 0..16 {
            let wanted = number(&content, i).wrapping_mul(3).wrapping_add(seed);
            assert_eq!(number(&seen, i), wanted, "round {seed}, element {i}");
        }
        assert!(seen[64..] == content[64..], "round {seed}");
        Ok(())
    }
}
