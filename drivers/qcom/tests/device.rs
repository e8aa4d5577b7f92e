//! A device over a mock of each kernel driver: what it asks for, what it does with refusals, what it leaves behind.
#![allow(clippy::unwrap_used)] // A test may panic.

mod mock;

use std::sync::Arc;
use std::time::Duration;

use drivers_qcom::backend::QcomBackend;
use drivers_qcom::{Options, QcomDevice, kgsl as over_kgsl, msm as over_msm, over};
use drivers_spec::qcom::kgsl::{CacheOp, constraint, context, reset};
use drivers_spec::qcom::msm::Bo;
use hcq::mem::view::View;
use hcq::transport::access::Verb;
use hcq::transport::errno::{
    EACCES, EAGAIN, EDEADLK, EFAULT, EINTR, EINVAL, EIO, ENODEV, ENOENT, ENOMEM, EPROTO, ETIMEDOUT,
};
use hcq::transport::fault::{FaultInject, Inject, Rule};
use hcq::transport::replay::Tape;
use hcq::transport::tap::Tapped;
use hcq::transport::trace::{Trace, TraceLog};
use hcq::transport::{DevFile, Machine};
use hcq::{
    AllocSpec, Buffer, Command, Deadline, Device, Error, Import, MemoryKind, QueueKind, Result,
    Stream, Val, Width,
};
use mock::Mock;
use mock::kgsl::Kgsl;
use mock::msm::Msm;

const A630: u32 = 0x0603_0001;

/// A kernel driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Kgsl,
    Msm,
}

/// A machine with both mocks behind it, of which one is there.
struct Stand {
    way: Way,
    kgsl: Arc<Kgsl>,
    msm: Arc<Msm>,
    machine: Arc<dyn Machine>,
}

fn stand(way: Way) -> Stand {
    let (kgsl, msm) = (Arc::new(Kgsl::new(A630)), Arc::new(Msm::new(A630.into())));
    let machine = match way {
        Way::Kgsl => Mock::machine([("/dev/kgsl-3d0", kgsl.clone() as Arc<dyn DevFile>)]),
        Way::Msm => Mock::machine([("/dev/dri/renderD128", msm.clone() as Arc<dyn DevFile>)]),
    };
    Stand {
        way,
        kgsl,
        msm,
        machine,
    }
}

impl Stand {
    fn backend(&self) -> Result<Arc<dyn QcomBackend>> {
        backend(self.way, &self.machine)
    }

    /// Memory that is not freed, and contexts that have not ended.
    fn left(&self) -> (usize, usize) {
        match self.way {
            Way::Kgsl => (self.kgsl.memory.count(), self.kgsl.state().contexts.len()),
            Way::Msm => (self.msm.memory.count(), self.msm.state().queues.len()),
        }
    }

    fn hang(&self) {
        self.kgsl
            .state()
            .contexts
            .values_mut()
            .for_each(|one| one.hangs = true);
        self.msm
            .state()
            .queues
            .values_mut()
            .for_each(|one| one.hangs = true);
    }
}

fn backend(way: Way, machine: &Arc<dyn Machine>) -> Result<Arc<dyn QcomBackend>> {
    match way {
        Way::Kgsl => over_kgsl::open(machine, 0, &options()),
        Way::Msm => over_msm::open(machine, 0),
    }
}

fn options() -> Options {
    Options {
        in_flight: 4,
        ring_timeout: Duration::from_millis(50),
        drain_timeout: Duration::from_millis(50),
        ..Options::default()
    }
}

fn open(way: Way, machine: &Arc<dyn Machine>) -> Result<Arc<QcomDevice>> {
    over(&backend(way, machine)?, &options())
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(10))
}

fn stream(device: &QcomDevice) -> Stream {
    Stream::new(device.queue(QueueKind::Compute, 0).unwrap())
}

fn zeroed(device: &QcomDevice, kind: MemoryKind) -> Buffer {
    let spec = AllocSpec {
        kind,
        zeroed: true,
        ..AllocSpec::device(64)
    };
    device.alloc(spec).unwrap()
}

fn write(buffer: &Buffer, value: u64) -> Command<'static> {
    Command::Write {
        at: Val::Const(buffer.va().0 + 8),
        value: Val::Const(value),
        width: Width::W64,
    }
}

fn number(buffer: &Buffer) -> u64 {
    let mut bytes = [0; 8];
    buffer.read(8, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

#[test]
fn a_device_says_what_it_is() {
    for way in [Way::Kgsl, Way::Msm] {
        let stand = stand(way);
        let device = open(way, &stand.machine).unwrap();
        let info = device.info();
        assert_eq!((info.arch.as_str(), info.units), ("a630", 2));
        assert_eq!(info.name, "Adreno 630 (chip id 0x06030001)");
        assert_eq!(info.interface, format!("{way:?}").to_uppercase());
        assert_eq!(info.queues, [(QueueKind::Compute, 1), (QueueKind::Copy, 0)]);
        // Three quarters of the machine's memory.
        assert_eq!(device.memory().total, 768 << 20);
        assert_eq!(device.clock().unwrap().device_ticks, 1234);
        drop(device);
        assert_eq!(stand.left(), (0, 0));
        assert_eq!(stand.kgsl.state().counters, 0);
    }
}

#[test]
fn newer_chips_are_refused_by_name() {
    let kgsl: Arc<dyn DevFile> = Arc::new(Kgsl::new(0x0703_0001));
    let msm: Arc<dyn DevFile> = Arc::new(Msm::new(0x4405_0001));
    let machine = Mock::machine([("/dev/kgsl-3d0", kgsl), ("/dev/dri/renderD128", msm)]);
    for (way, name) in [(Way::Kgsl, "Adreno 730"), (Way::Msm, "Adreno 830")] {
        let error = open(way, &machine).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let nothing = Mock::machine([]);
    for way in [Way::Kgsl, Way::Msm] {
        let error = open(way, &nothing).unwrap_err();
        assert!(matches!(error, Error::NoDevice { .. }), "{error}");
    }
}

#[test]
fn submissions_run_in_order_and_are_waited_for() {
    for way in [Way::Kgsl, Way::Msm] {
        let stand = stand(way);
        let device = open(way, &stand.machine).unwrap();
        let (stream, data) = (stream(&device), zeroed(&device, MemoryKind::Host));
        let stamp = device.signal("stamp").unwrap();
        let commands = [
            write(&data, 7 << 32 | 1),
            Command::Timestamp { signal: &stamp },
        ];
        let first = stream.submit(&[], &commands).unwrap();
        first.wait(soon()).unwrap();
        assert_eq!(
            (number(&data), stamp.timestamp().unwrap()),
            (7 << 32 | 1, 1234)
        );
        // A wait holds the queue; more submissions than there are places for.
        let gate = device.signal("gate").unwrap();
        let wait = Command::Wait {
            signal: &gate,
            value: Val::Const(1),
        };
        let held = stream.submit(&[], &[wait, write(&data, 2)]).unwrap();
        for value in 3..6 {
            stream.submit(&[], &[write(&data, value)]).unwrap();
        }
        let error = stream.submit(&[], &[write(&data, 9)]).unwrap_err();
        assert!(
            error.to_string().contains("places for submissions"),
            "{error}"
        );
        assert!(!held.reached().unwrap());
        gate.set(1).unwrap();
        stream.wait(soon()).unwrap();
        assert_eq!(number(&data), 5);
        // Bound packets run from memory.
        let mut packets = hcq::CommandBuffer::new();
        let queue = stream.queue();
        let bound = [
            Command::Write {
                at: Val::Const(data.va().0 + 8),
                value: Val::Slot(hcq::Slot(0), 1),
                width: Width::W64,
            },
            Command::Signal {
                signal: queue.timeline().signal(),
                value: Val::Slot(hcq::Slot(1), 0),
            },
        ];
        queue.encode(&bound, &mut packets).unwrap();
        let mut bound = queue.bind(packets).unwrap();
        for value in [10, 20] {
            let done = stream
                .launch(&[], &mut *bound, |makes| [value, makes])
                .unwrap();
            done.wait(soon()).unwrap();
            assert_eq!(number(&data), value + 1);
        }
        drop((bound, device, stream, data, gate, stamp, held, first));
        assert_eq!(stand.left(), (0, 0), "{way:?}");
    }
}

#[test]
fn contexts_have_their_flags_and_memory_its_caches() {
    let one = stand(Way::Kgsl);
    let device = open(Way::Kgsl, &one.machine).unwrap();
    {
        let state = one.kgsl.state();
        let flags = state.contexts.values().next().unwrap().flags;
        assert_eq!(
            (flags & context::PRIORITY_MASK) >> context::PRIORITY_SHIFT,
            8
        );
        assert_eq!(state.levels, [constraint::PWRLEVEL]);
    }
    let data = zeroed(&device, MemoryKind::Host);
    one.kgsl.state().syncs.clear();
    data.write(4, &[1; 20]).unwrap();
    data.read(8, &mut [0; 4]).unwrap();
    let syncs = one.kgsl.state().syncs.clone();
    let clean = (CacheOp::TO_GPU | CacheOp::RANGE).bits();
    let flush = (CacheOp::TO_GPU | CacheOp::FROM_GPU | CacheOp::RANGE).bits();
    // A part of a line is written: what the GPU has put beside it is fetched before.
    assert_eq!(
        syncs
            .iter()
            .map(|sync| (sync.0, sync.2))
            .collect::<Vec<_>>(),
        [(flush, 4096), (clean, 4096), (flush, 4096)]
    );
    one.kgsl.state().syncs.clear();
    data.write(0, &[1; 64]).unwrap();
    assert_eq!(one.kgsl.state().syncs.len(), 1);
    // Memory that is written combined needs none.
    let device_data = zeroed(&device, MemoryKind::Device);
    one.kgsl.state().syncs.clear();
    device_data.write(4, &[1; 20]).unwrap();
    assert!(one.kgsl.state().syncs.is_empty());
    drop((data, device_data, device));

    let two = stand(Way::Msm);
    let device = open(Way::Msm, &two.machine).unwrap();
    zeroed(&device, MemoryKind::Host);
    assert!(
        two.msm
            .state()
            .made
            .iter()
            .all(|flags| *flags == Bo::WC.bits())
    );
    assert_eq!(two.msm.state().queues.values().next().unwrap().priority, 1);
}

#[test]
fn memory_of_the_process_is_mapped_once() {
    let stand = stand(Way::Kgsl);
    let backend = stand.backend().unwrap();
    let view = View::alloc(8192, 4096).unwrap();
    let at = view.as_ptr().addr() as u64;
    let first = backend.import(&Import::Host(view.clone())).unwrap();
    let second = backend.import(&Import::Host(view.clone())).unwrap();
    assert_eq!((first.va, stand.kgsl.state().mapped[&at]), (second.va, 1));
    first.window.as_ref().unwrap().write(16, 7u32).unwrap();
    assert_eq!(view.read::<u32>(16), Ok(7));
    // The kernel's calls would do nothing: instructions of the CPU do it.
    assert!(stand.kgsl.state().syncs.is_empty());
    drop(first);
    assert_eq!(stand.kgsl.state().mapped[&at], 1);
    drop(second);
    assert_eq!(stand.kgsl.state().mapped[&at], 0);
    // Others may be mapped at the same address while somebody still has the old ones: they are pinned anew.
    let old = backend.import(&Import::Host(view.clone())).unwrap();
    let other = view.clone().with_guard(());
    let new = backend.import(&Import::Host(other.clone())).unwrap();
    assert_eq!(stand.kgsl.state().mapped[&at], 2);
    let same = backend.import(&Import::Host(other)).unwrap();
    assert_eq!(stand.kgsl.state().mapped[&at], 2);
    drop((old, new, same));
    assert_eq!(stand.kgsl.state().mapped[&at], 0);
    let odd = view.sub(16, 4096).unwrap();
    assert!(backend.import(&Import::Host(odd)).is_err());
    let msm = self::stand(Way::Msm);
    let refused = msm.backend().unwrap().import(&Import::Host(view)).map(drop);
    assert!(refused.unwrap_err().to_string().contains("dma-buf"));
}

#[test]
fn a_dma_buf_is_no_larger_than_it_is() {
    let stand = stand(Way::Kgsl);
    let backend = stand.backend().unwrap();
    let left = stand.left();
    let first = backend.import(&Import::DmaBuf(7, 8192)).unwrap();
    // The number may be that of another file by now.
    let second = backend.import(&Import::DmaBuf(7, 8192)).unwrap();
    assert_ne!(first.va, second.va);
    assert!(first.window.is_none() && !first.zeroed);
    for bytes in [0, 8193, u64::MAX] {
        let error = backend.import(&Import::DmaBuf(7, bytes)).map(drop);
        let text = error.unwrap_err().to_string();
        assert!(text.contains("expected 1 to 0x2000"), "{text}");
    }
    drop((first, second));
    assert_eq!(stand.left(), left);
}

#[test]
fn a_hang_is_a_loss_with_all_that_is_known() {
    let kgsl = stand(Way::Kgsl);
    let device = open(Way::Kgsl, &kgsl.machine).unwrap();
    let (queue, data) = (stream(&device), zeroed(&device, MemoryKind::Host));
    kgsl.hang();
    let point = queue.submit(&[], &[write(&data, 1)]).unwrap();
    {
        let mut state = kgsl.kgsl.state();
        let context = state.contexts.values_mut().next().unwrap();
        (context.is_invalid, context.status) = (true, reset::GUILTY);
    }
    let error = point.wait(soon()).unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    let text = error.to_string();
    for part in ["guilty (this context)", "dmesg | grep kgsl"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let again = queue.submit(&[], &[write(&data, 2)]).unwrap_err();
    assert!(matches!(again, Error::DeviceLost { .. }), "{again}");
    drop((device, queue, data, point));
    assert_eq!(kgsl.left(), (0, 0));

    let msm = stand(Way::Msm);
    let device = open(Way::Msm, &msm.machine).unwrap();
    let (queue, data) = (stream(&device), zeroed(&device, MemoryKind::Host));
    msm.hang();
    let point = queue.submit(&[], &[write(&data, 1)]).unwrap();
    msm.msm
        .state()
        .queues
        .values_mut()
        .for_each(|queue| queue.faults = 1);
    let error = point.wait(soon()).unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("dropped submissions of submitqueue"),
        "{error}"
    );
}

#[test]
fn a_hang_that_nobody_reports_ends_at_the_deadline() {
    for way in [Way::Kgsl, Way::Msm] {
        let stand = stand(way);
        let device = open(way, &stand.machine).unwrap();
        let (queue, data) = (stream(&device), zeroed(&device, MemoryKind::Host));
        stand.hang();
        let point = queue.submit(&[], &[write(&data, 1)]).unwrap();
        let error = point
            .wait(Deadline::after(Duration::from_millis(30)))
            .unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
    }
}

/// Opens a device, submits and waits, with a fault at a call.
fn session(way: Way, machine: &Arc<dyn Machine>) -> Result<u64> {
    let device = open(way, machine)?;
    let spec = AllocSpec {
        kind: MemoryKind::Host,
        zeroed: true,
        ..AllocSpec::device(1 << 20)
    };
    let data = device.alloc(spec)?;
    device.clock()?;
    let stream = Stream::new(device.queue(QueueKind::Compute, 0)?);
    for value in 1..4 {
        stream.submit(&[], &[write(&data, value)])?.wait(soon())?;
    }
    device.status()?;
    device.synchronize(soon())?;
    let mut bytes = [0; 8];
    data.read(8, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

const KGSL_CALLS: [&str; 12] = [
    "IOCTL_KGSL_DEVICE_GETPROPERTY",
    "IOCTL_KGSL_SETPROPERTY",
    "IOCTL_KGSL_DRAWCTXT_CREATE",
    "IOCTL_KGSL_DRAWCTXT_DESTROY",
    "IOCTL_KGSL_GPUOBJ_ALLOC",
    "IOCTL_KGSL_GPUOBJ_INFO",
    "IOCTL_KGSL_GPUOBJ_FREE",
    "IOCTL_KGSL_GPUMEM_SYNC_CACHE",
    "IOCTL_KGSL_PERFCOUNTER_GET",
    "IOCTL_KGSL_PERFCOUNTER_READ",
    "IOCTL_KGSL_PERFCOUNTER_PUT",
    "IOCTL_KGSL_GPU_COMMAND",
];

const MSM_CALLS: [&str; 9] = [
    "DRM_IOCTL_VERSION",
    "DRM_IOCTL_MSM_GET_PARAM",
    "DRM_IOCTL_MSM_GEM_NEW",
    "DRM_IOCTL_MSM_GEM_INFO",
    "DRM_IOCTL_GEM_CLOSE",
    "DRM_IOCTL_MSM_SUBMITQUEUE_NEW",
    "DRM_IOCTL_MSM_SUBMITQUEUE_CLOSE",
    "DRM_IOCTL_MSM_SUBMITQUEUE_QUERY",
    "DRM_IOCTL_MSM_GEM_SUBMIT",
];

const ERRNOS: [i32; 13] = [
    EINTR, EAGAIN, ENOMEM, EINVAL, EACCES, EFAULT, EIO, ENODEV, ENOENT, EDEADLK, EPROTO, ETIMEDOUT,
    133,
];

#[test]
fn every_call_may_fail_with_every_errno() {
    for way in [Way::Kgsl, Way::Msm] {
        let calls = match way {
            Way::Kgsl => &KGSL_CALLS[..],
            Way::Msm => &MSM_CALLS[..],
        };
        for name in calls {
            for errno in ERRNOS {
                for nth in [1, 2, 5] {
                    let stand = stand(way);
                    let rule = Rule {
                        verb: Some(Verb::Ioctl),
                        name: Some((*name).into()),
                        nth,
                        inject: Inject::Errno(errno),
                    };
                    let faults = FaultInject::new([rule]);
                    let machine = Tapped::machine(stand.machine.clone(), faults.clone());
                    let what = format!("{name} {nth}, errno {errno}");
                    match session(way, &machine) {
                        Ok(value) => assert_eq!(value, 3, "{what}"),
                        Err(error) => {
                            assert_eq!(faults.injected(), 1, "{what}: {error}");
                            let is_asked_again = [EINTR, EAGAIN].contains(&errno);
                            assert!(!is_asked_again, "{what}: {error}");
                            let text = error.to_string();
                            let is_named = text.contains(&format!("errno {errno}"))
                                || text.contains("does not exist")
                                || text.contains("no render node")
                                || text.contains("permission denied");
                            assert!(is_named, "{what}: {text}");
                        }
                    }
                    drop(machine);
                    // What could not be freed is the only thing that stays.
                    let frees = [
                        "IOCTL_KGSL_GPUOBJ_FREE",
                        "IOCTL_KGSL_DRAWCTXT_DESTROY",
                        "DRM_IOCTL_GEM_CLOSE",
                        "DRM_IOCTL_MSM_SUBMITQUEUE_CLOSE",
                    ];
                    // Memory of a GPU that has left may still be in use, for all that is known: it goes with the process.
                    if !frees.contains(name) && errno != ENODEV {
                        assert_eq!(stand.left(), (0, 0), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_fault_of_an_earlier_submission_is_a_loss() {
    for (errno, name) in [(EPROTO, "EPROTO"), (EDEADLK, "EDEADLK")] {
        let stand = stand(Way::Kgsl);
        let rule = Rule {
            verb: Some(Verb::Ioctl),
            name: Some("IOCTL_KGSL_GPU_COMMAND".into()),
            nth: 2,
            inject: Inject::Errno(errno),
        };
        let machine = Tapped::machine(stand.machine.clone(), FaultInject::new([rule]));
        let error = session(Way::Kgsl, &machine).unwrap_err();
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(name) && text.contains("reset status"),
            "{text}"
        );
    }
}

#[test]
fn without_memory_caches_are_given_back_and_the_call_is_made_again() {
    for (way, name) in [
        (Way::Kgsl, "IOCTL_KGSL_GPUOBJ_ALLOC"),
        (Way::Msm, "DRM_IOCTL_MSM_GEM_NEW"),
    ] {
        let stand = stand(way);
        let machine: Arc<dyn Machine> = stand.machine.clone();
        let device = open(way, &machine).unwrap();
        let large = || device.alloc(AllocSpec::device(1 << 20));
        drop(large().unwrap());
        assert_eq!(device.memory().cached, 1 << 20);
        drop(device);
        let rule = |nth| Rule {
            verb: Some(Verb::Ioctl),
            name: Some(name.into()),
            nth,
            inject: Inject::Errno(ENOMEM),
        };
        let faults = FaultInject::new([rule(1)]);
        let machine = Tapped::machine(stand.machine.clone(), faults.clone());
        assert_eq!(session(way, &machine).unwrap(), 3);
        assert_eq!(faults.injected(), 1);
        let faults = FaultInject::new([rule(1), rule(2)]);
        let machine = Tapped::machine(stand.machine.clone(), faults);
        let error = session(way, &machine).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    }
}

#[test]
fn what_was_recorded_replays() {
    for way in [Way::Kgsl, Way::Msm] {
        let stand = stand(way);
        let log = TraceLog::memory();
        let machine = Tapped::machine(stand.machine.clone(), Trace::new(log.clone()));
        let device = open(way, &machine).unwrap();
        let buffer = device.alloc(AllocSpec::device(1 << 20)).unwrap();
        let va = buffer.va();
        drop((buffer, device, machine));
        let tape = Arc::new(Tape::parse(&log.to_string()).unwrap());
        // The address of the power level.
        tape.ignore("IOCTL_KGSL_SETPROPERTY", 24..64);
        let machine: Arc<dyn Machine> = Tapped::<dyn Machine>::alone("machine", tape.clone());
        let device = open(way, &machine).unwrap();
        let buffer = device.alloc(AllocSpec::device(1 << 20)).unwrap();
        assert_eq!(buffer.va(), va);
        drop((buffer, device, machine));
        tape.finish().unwrap();
    }
}
