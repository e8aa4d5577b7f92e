//! Our driver on the twin, and some work for it.

// Each test file uses a part of it.
#![allow(dead_code)]

use std::path::Path;
use std::process::Command as Run;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use drivers_amd::{Language, Options};
use hcq::transport::Machine;
use hcq::{
    AllocSpec, ArgKind, ArgLayout, Command, Deadline, Device, KernelImage, MemoryKind, QueueKind,
    Result, Scope, Stream, Val, Width,
};
use twin_amd::machine::TwinMachine;

/// A machine from a config string of the twin. The driver flushes the HDP, and never reads back instead.
pub fn twin(config: &str) -> Arc<TwinMachine> {
    TwinMachine::new(&format!("drain=never,{config}")).unwrap()
}

/// The machine, for the driver.
pub fn machine(twin: &Arc<TwinMachine>) -> Arc<dyn Machine> {
    twin.clone()
}

/// Small rings: less to allocate.
pub fn options() -> Options {
    Options {
        compute_ring: 16 << 10,
        copy_ring: 8 << 10,
        kernargs: 64 << 10,
        ring_timeout: soon().limit(),
        drain_timeout: soon().limit(),
        ..Options::default()
    }
}

/// Milliseconds that [`soon`] gives.
static SOON_MS: AtomicU64 = AtomicU64::new(30_000);

/// Makes hangs short, for tests that cause them.
pub fn hurry() {
    SOON_MS.store(400, Ordering::Relaxed);
}

/// A limit that only a hang reaches.
pub fn soon() -> Deadline {
    Deadline::after(Duration::from_millis(SOON_MS.load(Ordering::Relaxed)))
}

/// A kernel of `kernels.c` for a chip.
pub fn kernel(chip: &str, entry: &str, args: usize) -> KernelImage {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand/kernels.c");
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("kernels.o");
    let run = Run::new("clang-22")
        .args(["--target=amdgcn-amd-amdhsa", "-nogpulib", "-O1", "-c"])
        .arg(format!("-mcpu={chip}"))
        .arg(source)
        .arg("-o")
        .arg(&object)
        .output()
        .expect("clang of LLVM 22 is installed as clang-22");
    let text = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{text}");
    KernelImage {
        name: entry.into(),
        arch: chip.into(),
        bytes: std::fs::read(object).unwrap().into(),
        entry: entry.into(),
        args: match entry {
            // A number comes second.
            "step" => ArgLayout::new([ArgKind::Buffer, ArgKind::Value(Width::W64)]),
            _ => ArgLayout::buffers(args),
        },
        local_bytes: 0,
    }
}

/// An address as an operand.
pub fn at(buffer: &hcq::Buffer) -> Val {
    Val::Const(buffer.va().0)
}

/// Memory of a kind.
pub fn memory(device: &dyn Device, kind: MemoryKind, bytes: u64) -> Result<hcq::Buffer> {
    device.alloc(AllocSpec {
        bytes,
        align: 256,
        kind,
        zeroed: false,
    })
}

/// Bytes of the block of arguments in [`work`], the least there are: few launches come round.
const ARGUMENTS: u64 = 4 << 10;

/// Launches after which arguments lie where others were, which caches hold: each has 256 bytes at least.
pub const ROUNDS: u64 = 2 * ARGUMENTS / 256;

/// Opens a device and makes use of everything that it has: memory of every kind and size, copies of
/// both queues, staging, a kernel with scratch, clocks. What it gives is compared.
pub fn work(machine: &Arc<dyn Machine>, image: &KernelImage) -> Result<()> {
    match try_work(machine, image, 0)? {
        true => Ok(()),
        false => panic!("the results are wrong"),
    }
}

/// As [`work`], and so many launches more; says whether the results are right.
pub fn try_work(machine: &Arc<dyn Machine>, image: &KernelImage, launches: u64) -> Result<bool> {
    let options = Options {
        kernargs: ARGUMENTS,
        ..options()
    };
    work_on(&*drivers_amd::open(machine, 0, &options)?, image, launches)
}

/// As [`try_work`], on a device that is open.
pub fn work_on(device: &dyn Device, image: &KernelImage, launches: u64) -> Result<bool> {
    let compute = Stream::new(device.queue(QueueKind::Compute, 0)?);
    let copy = Stream::new(device.queue(QueueKind::Copy, 0)?);
    // Larger than what goes through the BAR, and than an arena.
    let bytes = 3 << 20;
    let (a, b) = (
        memory(device, MemoryKind::Device, bytes)?,
        memory(device, MemoryKind::Host, bytes)?,
    );
    let mut content: Vec<u8> = (0..bytes).map(|i| ((i * 7) >> 3) as u8).collect();
    a.write(0, &content)?;
    let copied = copy.submit(
        &[],
        &[Command::Copy {
            dst: at(&b),
            src: at(&a),
            bytes,
        }],
    )?;
    let program = device.load(image)?;
    let out = memory(device, MemoryKind::Device, 4 * 64)?;
    let args = [at(&out), at(&b)];
    let exec = Command::Exec {
        program: &program,
        args: &args,
        grid: [64, 1, 1],
        block: [1, 1, 1],
    };
    let done = compute.submit(&[copied], &[exec])?;
    done.wait(soon())?;
    let mut seen = vec![0; bytes as usize];
    b.read(0, &mut seen)?;
    let mut right = seen == content;
    a.read(0, &mut seen)?;
    right &= seen == content;
    right &= sums(&out)? == expected(&content);
    let copied_content = content.clone();
    // From VRAM, before and after the host has written there.
    let args = [at(&out), at(&a)];
    let exec = Command::Exec {
        program: &program,
        args: &args,
        grid: [64, 1, 1],
        block: [1, 1, 1],
    };
    for change in [0, 1] {
        content[..1024]
            .iter_mut()
            .for_each(|b| *b = b.wrapping_add(change));
        a.write(0, &content[..1024])?;
        compute.submit(&[], &[exec])?.wait(soon())?;
        right &= sums(&out)? == expected(&content);
    }
    // Of one input, then of the other.
    for launch in 0..launches {
        let (input, content) = if launch < launches / 2 {
            (&b, &copied_content)
        } else {
            (&a, &content)
        };
        let args = [at(&out), at(input)];
        let exec = Command::Exec {
            program: &program,
            args: &args,
            grid: [64, 1, 1],
            block: [1, 1, 1],
        };
        compute.submit(&[], &[exec])?.wait(soon())?;
        right &= sums(&out)? == expected(content);
    }
    device.clock()?;
    device.status()?;
    device.synchronize(soon())?;
    Ok(right)
}

/// Kernels of which each needs what all workgroups of the one before have written, on a device whose
/// compute queues take PM4; the kernel is `sums`. Says whether the results are right.
pub fn try_chain(machine: &Arc<dyn Machine>, image: &KernelImage) -> Result<bool> {
    let options = Options {
        compute: Some(Language::Pm4),
        ..options()
    };
    let device = drivers_amd::open(machine, 0, &options)?;
    let compute = Stream::new(device.queue(QueueKind::Compute, 0)?);
    let content: Vec<u8> = (0..1024u32).map(|i| ((i * 7) >> 3) as u8).collect();
    let buffer = || memory(&*device, MemoryKind::Device, 1024);
    let (a, out, last) = (buffer()?, buffer()?, buffer()?);
    a.write(0, &content)?;
    let program = device.load(image)?;
    let of_sums: Vec<u8> = expected(&content)
        .iter()
        .flat_map(|sum| sum.to_le_bytes())
        .collect();
    let mut right = true;
    for _ in 0..4 {
        out.write(0, &[0; 256])?;
        let (first, second) = ([at(&out), at(&a)], [at(&last), at(&out)]);
        let exec = |args, groups| Command::Exec {
            program: &program,
            args,
            grid: [groups, 1, 1],
            block: [1, 1, 1],
        };
        let scope = Scope::Queue;
        let commands = [
            // What was there before is in the caches.
            exec(&second, 16),
            Command::Barrier { scope },
            exec(&first, 64),
            Command::Barrier { scope },
            exec(&second, 16),
        ];
        compute.submit(&[], &commands)?.wait(soon())?;
        right &= sums(&last)?[..16] == expected(&of_sums)[..16];
    }
    device.synchronize(soon())?;
    Ok(right)
}

/// What the kernel `sums` has written.
fn sums(out: &hcq::Buffer) -> Result<Vec<u32>> {
    let mut bytes = [0; 4 * 64];
    out.read(0, &mut bytes)?;
    let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    Ok(bytes.chunks_exact(4).map(word).collect())
}

/// What it should write.
fn expected(content: &[u8]) -> Vec<u32> {
    let sum = |group: &[u8]| group.iter().map(|&b| u32::from(b)).sum();
    content.chunks_exact(16).take(64).map(sum).collect()
}
