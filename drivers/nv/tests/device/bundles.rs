//! What is kept of faults and hangs through NVIDIA's kernel driver, and that it names the cause.

use std::path::Path;
use std::sync::Arc;

use drivers_bundle::schema::Exception;
use drivers_nv::{NvDevice, Options};
use hcq::{Command, Device, Error, MemoryKind, QueueKind, Stream, Val};

use super::faults::illegal;
use super::keeping::{coredumps, hang, told};
use super::stand::{self, WILD, exec, kernel, memory, options, soon, twin};

const CHIP: &str = "ga102";

fn open(config: &str, folder: &Path) -> hcq::Result<Arc<NvDevice>> {
    let machine = stand::machine(&twin(config));
    let options = Options {
        coredumps: coredumps(&machine, folder),
        drain_timeout: hang().limit(),
        ..options()
    };
    drivers_nv::open(&machine, 0, &options)
}

fn is(error: &Error, cause: &str, part: &str) {
    let (bundle, found) = told(error);
    assert_eq!(found.cause, cause, "{found}");
    assert!(found.to_string().contains(part), "{part}: {found}");
    assert_eq!(bundle.device.interface, "NVK");
}

#[test]
fn what_kernels_do_wrong_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let far = Val::Const(1 << 20);
    for (entry, cause, part) in [
        (
            "store",
            "wild-address",
            "the launch of kernel store writes at an address",
        ),
        ("load", "wild-address", "reads at an address"),
        ("count", "wild-address", "does an atomic operation"),
        ("odd", "misaligned", "not aligned to the access size"),
        ("shared", "local-out-of-bounds", "address out of range"),
        ("local", "local-out-of-bounds", "address out of range"),
        ("trap", "kernel-exception", "kernel trap"),
        ("uneven", "kernel-endless", "kernel uneven"),
        ("illegal", "kernel-exception", "kernel illegal"),
    ] {
        let device = open("chip=ga102", folder.path()).unwrap();
        let out = memory(&*device, MemoryKind::Device, 4096).unwrap();
        let va = out.va().0;
        let (image, args) = match entry {
            "odd" => (kernel(CHIP, "store"), vec![Val::Const(va + 2)]),
            "shared" | "local" => (kernel(CHIP, entry), vec![Val::Const(va), far]),
            "trap" | "uneven" => (kernel(CHIP, entry), Vec::new()),
            "illegal" => (illegal(CHIP), Vec::new()),
            _ => (kernel(CHIP, entry), vec![Val::Const(WILD + 8)]),
        };
        let local_bytes = if entry == "shared" { 1024 } else { 0 };
        let image = hcq::KernelImage {
            local_bytes,
            ..image
        };
        let program = device.load(&image).unwrap();
        let threads = if entry == "uneven" { 32 } else { 1 };
        let work = Command::Exec {
            program: &program,
            args: &args,
            grid: [1, 1, 1],
            block: [threads, 1, 1],
        };
        let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
        let error = compute
            .submit(&[], &[work])
            .unwrap()
            .wait(soon())
            .unwrap_err();
        is(&error, cause, part);
        let (bundle, _) = told(&error);
        let is_memory = matches!(bundle.exception, Some(Exception::Memory { .. }));
        assert_eq!(is_memory, cause == "wild-address", "{:?}", bundle.exception);
    }
}

#[test]
fn freed_memory_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let device = open("chip=h100", folder.path()).unwrap();
    let store = device.load(&kernel("h100", "store")).unwrap();
    let gone = memory(&*device, MemoryKind::Device, 5 << 20).unwrap();
    let args = [Val::Const(gone.va().0)];
    drop(gone);
    // What is kept for reuse would still be mapped: it goes for memory that is asked for.
    drop(memory(&*device, MemoryKind::Device, 80 << 30));
    let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let done = compute.submit(&[], &[exec(&store, &args, 1)]).unwrap();
    let part = "writes in device memory after it was freed";
    is(&done.wait(soon()).unwrap_err(), "use-after-free", part);
}

#[test]
fn what_the_hardware_does_wrong_is_told() {
    for (fault, cause, part) in [
        (
            "hang:channel=0",
            "not-fetched",
            "its doorbell had no effect",
        ),
        ("exception", "kernel-exception", "Xid 13"),
        ("mmu:va=0x4000", "null-pointer", "0x4000"),
        ("mmu:va=0x40000000", "wild-address", "0x40000000"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let config = format!("chip=h100,fault={fault}");
        let error = open(&config, folder.path()).and_then(|device| {
            let step = device.load(&kernel("h100", "step"))?;
            let out = memory(&*device, MemoryKind::Device, 4096)?;
            let args = [stand::at(&out), Val::Const(1)];
            let compute = Stream::new(device.queue(QueueKind::Compute, 0)?);
            compute
                .submit(&[], &[exec(&step, &args, 1)])?
                .wait(hang())?;
            compute.submit(&[], &[])?.wait(hang())?;
            let copy = Stream::new(device.queue(QueueKind::Copy, 0)?);
            copy.submit(&[], &[])?.wait(hang())
        });
        is(&error.unwrap_err(), cause, part);
        println!("NVK  | {fault} | {cause}");
    }
}

/// Addresses of copies and fills, and channels that wait for each other.
#[test]
fn what_programs_do_wrong_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let far = Val::Const(WILD);
    for (what, cause, part) in [
        (
            "a copy from where nothing is",
            "wild-address",
            "a copy of 0x40 bytes",
        ),
        (
            "a fill of where nothing is",
            "wild-address",
            "a fill of 0x40 bytes",
        ),
        (
            "a store by a pointer that is zero",
            "null-pointer",
            "a null pointer",
        ),
        (
            "a store before a buffer",
            "out-of-bounds",
            "bytes before the start of device memory",
        ),
        (
            "two channels that wait for each other",
            "deadlock",
            "queues wait for each other: compute 0 for copy 0",
        ),
        (
            "a channel that waits for itself",
            "deadlock",
            "compute 0 waits for its own later work",
        ),
        (
            "a copy behind a channel that waits",
            "signal-never-raised",
            "compute 0 waits for a signal",
        ),
        ("a word that is no method", "bad-packet", "Xid 32"),
    ] {
        let device = open("chip=ad102", folder.path()).unwrap();
        let stream = |kind| Stream::new(device.queue(kind, 0).unwrap());
        let (compute, copy) = (stream(QueueKind::Compute), stream(QueueKind::Copy));
        let store = device.load(&kernel("ad102", "store")).unwrap();
        let buffer = memory(&*device, MemoryKind::Device, 100 << 20).unwrap();
        let (first, second) = (
            device.signal("first").unwrap(),
            device.signal("second").unwrap(),
        );
        let wait = |signal| Command::Wait {
            signal,
            value: Val::Const(1),
        };
        let raise = |signal| Command::Signal {
            signal,
            value: Val::Const(1),
        };
        let stores = |va: u64| {
            let args = [Val::Const(va)];
            compute.submit(&[], &[exec(&store, &args, 1)])
        };
        let point = match what {
            "a copy from where nothing is" => {
                let dst = stand::at(&buffer);
                copy.submit(
                    &[],
                    &[Command::Copy {
                        dst,
                        src: far,
                        bytes: 64,
                    }],
                )
            }
            "a fill of where nothing is" => copy.submit(
                &[],
                &[Command::Fill {
                    at: far,
                    value: 7,
                    bytes: 64,
                }],
            ),
            "a store by a pointer that is zero" => stores(0x10),
            // What was made before it lies above: the system gives out addresses from the top.
            "a store before a buffer" => stores(buffer.va().0 - 0x2000),
            "two channels that wait for each other" => {
                let one = compute.submit(&[], &[wait(&first), raise(&second)]);
                copy.submit(&[], &[wait(&second), raise(&first)]).unwrap();
                one
            }
            "a channel that waits for itself" => {
                compute.submit(&[], &[wait(&first), raise(&first)])
            }
            "a copy behind a channel that waits" => {
                let held = compute.submit(&[], &[wait(&first)]).unwrap();
                copy.submit(&[held], &[])
            }
            _ => {
                let queue = device.queue(QueueKind::Compute, 0).unwrap();
                queue.timeline().submit(|turn| {
                    // SEC_OP 6 is reserved; 7 would end the segment.
                    turn.packets().words.extend_from_slice(&[0xc000_0000; 4]);
                    queue.submit(turn)
                })
            }
        };
        let limit = if cause == "deadlock" || cause == "signal-never-raised" {
            hang()
        } else {
            soon()
        };
        let error = point.and_then(|point| point.wait(limit)).unwrap_err();
        is(&error, cause, part);
        println!("NVK  | {what} | {cause}");
    }
}

#[test]
fn hangs_are_told_by_where_channels_stand() {
    let folder = tempfile::tempdir().unwrap();
    let device = open("chip=ad102", folder.path()).unwrap();
    let gate = device.signal("the gate").unwrap();
    for kind in [QueueKind::Compute, QueueKind::Copy] {
        let stream = Stream::new(device.queue(kind, 0).unwrap());
        let wait = Command::Wait {
            signal: &gate,
            value: Val::Const(1),
        };
        let done = stream.submit(&[], &[wait]).unwrap();
        is(
            &done.wait(hang()).unwrap_err(),
            "signal-never-raised",
            "signal the gate",
        );
    }
    gate.set(1).unwrap();
    device.synchronize(soon()).unwrap();
    is(
        &gate.wait(9, hang()).unwrap_err(),
        "signal-never-submitted",
        "at least 9",
    );
}
