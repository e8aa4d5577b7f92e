//! What is kept of faults and hangs through the kernel driver, and that it names the cause.

use crate::keeping;
use crate::stand;
use crate::wrongs;

use std::path::Path;
use std::sync::Arc;

use drivers_amd::{AmdDevice, Options};
use drivers_bundle::Explanation;
use drivers_bundle::schema::{Does, Exception, Owner};
use hcq::transport::Machine;
use hcq::transport::tap::Tapped;
use hcq::transport::trace::{Trace, TraceLog};
use hcq::{Command, Device, Error, MemoryKind, QueueKind, Stream, Val};
use keeping::{coredumps, hang, told};
use stand::{at, memory};
use twin_amd::machine::TwinMachine;
use wrongs::{Bench, WRONGS};

fn open(twin: &Arc<TwinMachine>, folder: &Path) -> Arc<AmdDevice> {
    open_on(&stand::machine(twin), folder).unwrap()
}

fn open_on(machine: &Arc<dyn Machine>, folder: &Path) -> hcq::Result<Arc<AmdDevice>> {
    let options = Options {
        coredumps: coredumps(machine, folder),
        drain_timeout: hang().limit(),
        ..stand::options()
    };
    drivers_amd::open(machine, 0, &options)
}

fn stream(device: &AmdDevice, kind: QueueKind) -> Stream {
    Stream::new(device.queue(kind, 0).unwrap())
}

/// Stores to an address.
fn store(device: &AmdDevice, va: u64) -> Error {
    let store = device.load(&stand::kernel("gfx1100", "store", 1)).unwrap();
    let args = [Val::Const(va)];
    let exec = Command::Exec {
        program: &store,
        args: &args,
        grid: [1, 1, 1],
        block: [1, 1, 1],
    };
    let done = stream(device, QueueKind::Compute).submit(&[], &[exec]);
    done.unwrap().wait(stand::soon()).unwrap_err()
}

fn wait(signal: &hcq::Signal) -> Command<'_> {
    Command::Wait {
        signal,
        value: Val::Const(1),
    }
}

fn says(error: &Error, cause: &str, parts: &[&str]) -> Explanation {
    let (_, found) = told(error);
    assert_eq!(found.cause, cause, "{found}");
    let text = found.to_string();
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
    found
}

#[test]
fn stores_to_the_wrong_place_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let twin = stand::twin("vram=1G");
    let wild = store(&open(&twin, folder.path()), 0x12_3456_7000);
    says(
        &wild,
        "wild-address",
        &["the launch of kernel store", "at an address near no buffer"],
    );
    let (bundle, _) = told(&wild);
    assert_eq!(bundle.device.interface, "KFD");
    assert_eq!(bundle.kernels[0].name, "store");
    assert_eq!(bundle.system.environment, [["DEV", "TWIN"]]);
    assert!(bundle.system.simulated);
    let Some(Exception::Memory { va, owner, .. }) = &bundle.exception else {
        panic!("{:?}", bundle.exception);
    };
    assert_eq!((va.0, owner), (0x12_3456_7000, &Owner::Nobody));
    let compute = &bundle.queues[0];
    assert_eq!(compute.name, "compute 0");
    assert!(
        matches!(&compute.in_flight[0].does, Does::Launch { kernel: Some(name), .. } if name == "store")
    );
    let last = compute.recent.last().unwrap();
    assert_eq!(last.does[0], "the launch of kernel store");

    let device = open(&twin, folder.path());
    let gone = memory(&*device, MemoryKind::Device, 5 << 20).unwrap();
    let va = gone.va().0 + 0x1234 * 4;
    drop(gone);
    // What is kept for reuse would still be mapped: it goes for memory that is asked for.
    drop(memory(&*device, MemoryKind::Device, 1020 << 20));
    let parts = [
        "in device memory after it was freed",
        "Keep the buffer until the work",
    ];
    says(&store(&device, va), "use-after-free", &parts);

    // Where nothing was freed before.
    let device = open(&stand::twin("vram=1G"), folder.path());
    let small = memory(&*device, MemoryKind::Device, 3 << 20).unwrap();
    let behind = small.va().0 + (3 << 20) + 0x1_0000;
    says(
        &store(&device, behind),
        "out-of-bounds",
        &["bytes past the end of device memory"],
    );
}

#[test]
fn hangs_are_told_by_where_queues_stand() {
    let folder = tempfile::tempdir().unwrap();
    let twin = stand::twin("vram=1G");
    let device = open(&twin, folder.path());
    let gate = device.signal("the gate").unwrap();
    let compute = stream(&device, QueueKind::Compute);
    let held = compute.submit(&[], &[wait(&gate)]).unwrap();
    let parts = [
        "compute 0 waits for a signal that no work in flight raises",
        "signal the gate",
    ];
    says(
        &held.wait(hang()).unwrap_err(),
        "signal-never-raised",
        &parts,
    );

    // What waits for that is followed to where it begins.
    let copy = stream(&device, QueueKind::Copy);
    let behind = copy.submit(std::slice::from_ref(&held), &[]).unwrap();
    let found = says(
        &behind.wait(hang()).unwrap_err(),
        "signal-never-raised",
        &["compute 0 waits"],
    );
    let path = "copy 0 is at a wait";
    assert!(
        found.evidence.iter().any(|line| line.starts_with(path)),
        "{found}"
    );
    gate.set(1).unwrap();
    behind.wait(stand::soon()).unwrap();

    // Nobody has submitted anything.
    let error = gate.wait(5, hang()).unwrap_err();
    says(
        &error,
        "signal-never-submitted",
        &["expected at least 5, found 1"],
    );

    let (first, second) = (
        device.signal("first").unwrap(),
        device.signal("second").unwrap(),
    );
    let raise = |signal| Command::Signal {
        signal,
        value: Val::Const(1),
    };
    let one = compute
        .submit(&[], &[wait(&first), raise(&second)])
        .unwrap();
    copy.submit(&[], &[wait(&second), raise(&first)]).unwrap();
    let parts = ["queues wait for each other: compute 0 for copy 0 for compute 0"];
    says(&one.wait(hang()).unwrap_err(), "deadlock", &parts);
    first.set(1).unwrap();
    one.wait(stand::soon()).unwrap();
    // Enough of one device.
    let again = gate.wait(5, hang()).unwrap_err().to_string();
    assert!(!again.contains("doorbell explain"), "{again}");
}

#[test]
fn a_wait_that_is_shorter_than_a_hang_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let twin = stand::twin("vram=1G");
    let device = open(&twin, folder.path());
    let gate = device.signal("the gate").unwrap();
    let error = gate
        .wait(1, hcq::Deadline::after(hang().limit() / 20))
        .unwrap_err();
    assert!(!error.to_string().contains("doorbell explain"), "{error}");
    drop(device);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_kernel_that_does_not_end_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let twin = stand::twin("vram=1G");
    let device = open(&twin, folder.path());
    let spin = device.load(&stand::kernel("gfx1100", "spin", 1)).unwrap();
    let word = memory(&*device, MemoryKind::Host, 256).unwrap();
    word.write(0, &[0; 256]).unwrap();
    let args = [at(&word)];
    let exec = Command::Exec {
        program: &spin,
        args: &args,
        grid: [1, 1, 1],
        block: [1, 1, 1],
    };
    let compute = stream(&device, QueueKind::Compute);
    let done = compute.submit(&[], &[exec]).unwrap();
    says(
        &done.wait(hang()).unwrap_err(),
        "kernel-endless",
        &["kernel spin does not end"],
    );
    word.write(0, &[1; 4]).unwrap();
    done.wait(stand::soon()).unwrap();
}

#[test]
fn what_the_hardware_does_wrong_is_told() {
    for (fault, cause, part) in [
        ("hang:queue=0", "not-fetched", "its doorbell had no effect"),
        ("exception:reset", "gpu-reset", "the GPU was reset"),
        ("hang:queue=1", "not-fetched", "its doorbell had no effect"),
        ("memory:va=0x5000", "null-pointer", "0x5000"),
        ("memory:va=0x50000000", "wild-address", "0x50000000"),
        (
            "exception:poison",
            "memory-error",
            "poisoned memory was accessed",
        ),
        ("gone:queue=1", "device-gone", "does not answer"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let twin = stand::twin(&format!("vram=1G,fault={fault}"));
        let machine = stand::machine(&twin);
        let error = open_on(&machine, folder.path()).and_then(|device| {
            for kind in [QueueKind::Compute, QueueKind::Copy] {
                stream(&device, kind).submit(&[], &[])?.wait(hang())?;
            }
            device.status()
        });
        says(&error.unwrap_err(), cause, &[part]);
        println!("KFD  | {fault} | {cause}");
    }
}

#[test]
fn what_programs_do_wrong_is_told() {
    let folder = tempfile::tempdir().unwrap();
    for wrong in &WRONGS {
        let bench = Bench {
            device: open(&stand::twin("vram=1G"), folder.path()),
            chip: "gfx1100",
            by_kfd: true,
        };
        wrong.check(&bench);
    }
}

/// Words of the ring are overwritten by a copy, behind what the queue stands at.
#[test]
fn a_ring_that_was_overwritten_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let twin = stand::twin("vram=1G");
    let log = TraceLog::memory();
    let machine = Tapped::machine(stand::machine(&twin), Trace::new(log.clone()));
    let device = open_on(&machine, folder.path()).unwrap();
    let calls = log.records();
    let made = calls
        .iter()
        .find(|one| one.access.name == "AMDKFD_IOC_CREATE_QUEUE")
        .unwrap();
    let ring = u64::from_le_bytes(made.access.data[..8].try_into().unwrap());

    let gate = device.signal("the gate").unwrap();
    let compute = stream(&device, QueueKind::Compute);
    let held = compute.submit(&[], &[wait(&gate)]).unwrap();
    let behind = compute.submit(&[], &[]).unwrap();
    let fill = Command::Fill {
        at: Val::Const(ring + 4 * 4),
        value: 0xdead_beef,
        bytes: 4,
    };
    let copy = stream(&device, QueueKind::Copy);
    copy.submit(&[], &[fill])
        .unwrap()
        .wait(stand::soon())
        .unwrap();
    let parts = ["the ring of compute 0 was overwritten", "is 0xdeadbeef now"];
    says(
        &behind.wait(hang()).unwrap_err(),
        "ring-overwritten",
        &parts,
    );
    drop(held);
}
