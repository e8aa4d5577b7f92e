//! What goes wrong on the twin: every call with every errno, hangs, page faults, lost interrupts. What comes of it is a typed
//! error or a result that is right; nothing is left, and the next open works.
#![allow(clippy::unwrap_used)] // A test may panic.

mod stand;
mod timed;

use std::sync::Arc;
use std::time::Duration;

use conformance::part::Part;
use drivers_gpu::backend::Request;
use drivers_qcom::backend::{Failure, IndirectBuffer, Progress};
use drivers_qcom::{Options, QcomDevice, kgsl, msm, over};
use drivers_spec::qcom::msm::{MSM_GET_PARAM, PIPE_3D0, Param, param};
use drivers_spec::qcom::packet::{op, type7};
use hcq::transport::errno::EDEADLK;
use hcq::transport::{Fault, Machine};
use hcq::{
    Command, Deadline, Device, Error, MemoryKind, Point, QueueKind, Result, Stream, Val, Width,
};
use twin_qcom::machine::TwinMachine;

use stand::soon;

/// A kernel driver, with the calls that a use of everything makes.
struct Way {
    config: &'static str,
    file: &'static str,
    calls: &'static [&'static str],
}

const KGSL: Way = Way {
    config: "",
    file: "/dev/kgsl-3d0",
    calls: &[
        "open",
        "mmap",
        "DEVICE_GETPROPERTY",
        "SETPROPERTY",
        "DRAWCTXT_CREATE",
        "DRAWCTXT_DESTROY",
        "GPUOBJ_ALLOC",
        "GPUOBJ_INFO",
        "GPUOBJ_FREE",
        "GPUMEM_SYNC_CACHE",
        "GPUOBJ_IMPORT",
        "MAP_USER_MEM",
        "SHAREDMEM_FREE",
        "PERFCOUNTER_GET",
        "PERFCOUNTER_READ",
        "PERFCOUNTER_PUT",
        "GPU_COMMAND",
        "CMDSTREAM_READTIMESTAMP_CTXTID",
        "DEVICE_WAITTIMESTAMP_CTXTID",
    ],
};

const MSM: Way = Way {
    config: "kernel=msm,timeout=5000",
    file: "/dev/dri/renderD128",
    calls: &[
        "open",
        "mmap",
        "VERSION",
        "MSM_GET_PARAM",
        "MSM_GEM_NEW",
        "MSM_GEM_INFO",
        "GEM_CLOSE",
        "PRIME_FD_TO_HANDLE",
        "MSM_SUBMITQUEUE_NEW",
        "MSM_SUBMITQUEUE_CLOSE",
        "MSM_SUBMITQUEUE_QUERY",
        "MSM_GEM_SUBMIT",
        "MSM_WAIT_FENCE",
    ],
};

const ERRNOS: [&str; 13] = [
    "EINTR",
    "EAGAIN",
    "ENOMEM",
    "EINVAL",
    "EACCES",
    "EFAULT",
    "EIO",
    "ENODEV",
    "ENOENT",
    "EDEADLK",
    "EPROTO",
    "ETIMEDOUT",
    "EBUSY",
];

/// Calls that free something: where they fail, it stays until the process ends.
const FREES: [&str; 6] = [
    "GPUOBJ_FREE",
    "SHAREDMEM_FREE",
    "DRAWCTXT_DESTROY",
    "PERFCOUNTER_PUT",
    "GEM_CLOSE",
    "MSM_SUBMITQUEUE_CLOSE",
];

/// Of this many cases one runs, unless all are asked for.
const PARTS: usize = 16;

fn twin(way: &Way, fault: &str) -> Arc<TwinMachine> {
    TwinMachine::new(&format!("{},fault={fault}", way.config)).unwrap()
}

/// One that takes a queue for hung soon.
fn hasty(way: &Way, fault: &str) -> Arc<TwinMachine> {
    twin(way, &format!("{fault},timeout=100"))
}

fn options() -> Options {
    Options {
        ring_timeout: Duration::from_secs(5),
        drain_timeout: Duration::from_secs(1),
        ..Options::default()
    }
}

fn open(twin: &Arc<TwinMachine>) -> Result<Arc<QcomDevice>> {
    let machine: Arc<dyn Machine> = twin.clone();
    let options = options();
    let is_kgsl = twin.process().exists(KGSL.file);
    let backend = match is_kgsl {
        true => kgsl::open(&machine, 0, &options)?,
        false => msm::open(&machine, 0)?,
    };
    over(&backend, &options)
}

fn use_all(twin: &Arc<TwinMachine>) -> Result<bool> {
    let machine: Arc<dyn Machine> = twin.clone();
    let options = options();
    let is_kgsl = twin.process().exists(KGSL.file);
    let backend = match is_kgsl {
        true => kgsl::open(&machine, 0, &options)?,
        false => msm::open(&machine, 0)?,
    };
    let limit = Duration::from_secs(20);
    let right = stand::work(&backend, &options, limit)?;
    let dmabuf = twin.process().foreign_dmabuf(8192).unwrap();
    let imported = stand::imports(&backend, &options, (dmabuf, is_kgsl), limit);
    twin.process().close(dmabuf).unwrap();
    Ok(right & imported?)
}

/// One call fails once.
fn refused(way: &Way, call: &str, errno: &str, nth: u32) {
    let what = format!("{call}, {errno}, call {nth}");
    let twin = twin(way, &format!("call:{call}:{errno}:{nth}"));
    let used = use_all(&twin);
    let fired = twin.machine().faults_fired();
    match used {
        Ok(right) => assert!(right, "{what}: wrong results"),
        Err(error) => {
            assert_eq!(fired, 1, "{what}: {error}");
            let asks_again =
                ["EINTR", "EAGAIN"].contains(&errno) && !["open", "mmap"].contains(&call);
            assert!(!asks_again, "{what}: {error}");
            let is_typed = matches!(
                error,
                Error::Os { .. }
                    | Error::OutOfMemory { .. }
                    | Error::Fault { .. }
                    | Error::DeviceLost { .. }
                    | Error::NoDevice { .. }
                    | Error::NoPermission { .. }
                    | Error::Unsupported { .. }
            );
            assert!(is_typed, "{what}: {error:?}");
            assert!(error.to_string().len() > 20, "{what}: {error}");
        }
    }
    let broken = twin.machine().broken_rules();
    assert!(broken.is_empty(), "{what}: {broken:?}");
    // Where one fails, the process goes on.
    if fired == 0 {
        return;
    }
    assert!(use_all(&twin).unwrap_or_else(|e| panic!("{what}: {e}")));
    // Memory of a GPU that has left may be in use, for all that is known: it goes with the process.
    if !FREES.contains(&call) && errno != "ENODEV" {
        let left = stand::left(&twin);
        assert!(left.is_empty(), "{what}: {left:#?}");
    }
}

/// The calls of every third place, from `first` on: so that they run beside each other.
fn every_call(way: &Way, first: usize) {
    let part = Part::chosen();
    let mut index = 0;
    for call in way.calls.iter().skip(first).step_by(3) {
        for errno in ERRNOS {
            for nth in [1, 4] {
                index += 1;
                if part.has(index, PARTS) {
                    refused(way, call, errno, nth);
                }
            }
        }
    }
}

#[test]
fn every_call_of_kgsl_fails_with_every_errno_one() {
    every_call(&KGSL, 0);
}

#[test]
fn every_call_of_kgsl_fails_with_every_errno_two() {
    every_call(&KGSL, 1);
}

#[test]
fn every_call_of_kgsl_fails_with_every_errno_three() {
    every_call(&KGSL, 2);
}

#[test]
fn every_call_of_msm_fails_with_every_errno_one() {
    every_call(&MSM, 0);
}

#[test]
fn every_call_of_msm_fails_with_every_errno_two() {
    every_call(&MSM, 1);
}

#[test]
fn every_call_of_msm_fails_with_every_errno_three() {
    every_call(&MSM, 2);
}

#[test]
fn each_call_is_made() {
    // Else a fault of it would prove nothing.
    for way in [&KGSL, &MSM] {
        for call in way.calls {
            let twin = twin(way, &format!("call:{call}:EINTR"));
            let _ = use_all(&twin);
            assert_eq!(twin.machine().faults_fired(), 1, "{call}");
        }
    }
}

/// A device with a number that a queue writes.
struct Bench {
    twin: Arc<TwinMachine>,
    device: Arc<QcomDevice>,
    stream: Stream,
    data: hcq::Buffer,
}

impl Bench {
    fn on(twin: &Arc<TwinMachine>) -> Bench {
        let device = open(twin).unwrap();
        let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
        let data = stand::memory(&*device, MemoryKind::Device, 64).unwrap();
        Bench {
            twin: twin.clone(),
            device,
            stream,
            data,
        }
    }

    fn write(&self, value: u64) -> Result<Point> {
        let write = Command::Write {
            at: stand::at(&self.data),
            value: Val::Const(value),
            width: Width::W64,
        };
        self.stream.submit(&[], &[write])
    }

    fn value(&self) -> u32 {
        let [value] = stand::words(&self.data, 0).unwrap();
        value
    }

    /// Is lost, with a cause, and the process opens the GPU again.
    fn ends_lost(self, error: &Error, parts: &[&str]) {
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
        let text = error.to_string();
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        let again = self.write(9).unwrap_err();
        assert!(matches!(again, Error::DeviceLost { .. }), "{again}");
        let twin = self.twin.clone();
        drop(self);
        let next = Bench::on(&twin);
        next.write(5).unwrap().wait(soon()).unwrap();
        assert_eq!(next.value(), 5);
        drop(next);
        assert_eq!(stand::left(&twin), [""; 0]);
        assert_eq!(twin.machine().broken_rules(), [""; 0]);
    }
}

#[test]
fn a_hang_is_a_loss_of_all_that_waits() {
    for way in [&KGSL, &MSM] {
        for nth in [1, 2, 3] {
            let twin = hasty(way, &format!("hang:{nth}"));
            let bench = Bench::on(&twin);
            // All are under way when the first hangs.
            twin.machine().pause();
            let points: Vec<_> = (1..5).map(|value| bench.write(value).unwrap()).collect();
            twin.machine().go_on();
            let ended = points.iter().map(|point| point.wait(soon()));
            let ended: Vec<_> = ended.collect();
            // What has ended before may be told of the loss, too.
            let lost = ended[nth - 1..].iter().all(Result::is_err);
            assert!(lost, "{}: {ended:?}", way.config);
            let error = ended[nth - 1].clone().unwrap_err();
            drop(points);
            bench.ends_lost(&error, &["hang", "dmesg"]);
        }
    }
}

/// What the kernel runs behind a submission that hung does nothing, and so does not hang: one recovery, however many there are.
#[test]
fn what_is_behind_a_hang_over_msm_ends_at_once() {
    // The packets of the last one are where those of others were.
    for (before, nth) in [(0, 1), (0, 4), (70, 3)] {
        let twin = hasty(&MSM, &format!("hang:{}", before + nth));
        let bench = Bench::on(&twin);
        for _ in 0..before {
            bench.write(0).unwrap().wait(soon()).unwrap();
        }
        twin.machine().pause();
        let points: Vec<_> = (1..9).map(|value| bench.write(value).unwrap()).collect();
        twin.machine().go_on();
        let ended: Vec<_> = points.iter().map(|point| point.wait(soon())).collect();
        assert!(ended[nth - 1..].iter().all(Result::is_err), "{ended:?}");
        // What the later ones would have written is not there.
        assert!(bench.value() <= nth as u32, "{before}: {}", bench.value());
        let error = ended[nth - 1].clone().unwrap_err();
        drop(points);
        bench.ends_lost(&error, &["hangs: 1", "dmesg"]);
        let machine: Arc<dyn Machine> = twin.clone();
        let file = machine.open(MSM.file).unwrap();
        let mut faults = Param {
            pipe: PIPE_3D0,
            param: param::FAULTS,
            ..Default::default()
        };
        let mut asked = MSM_GET_PARAM.with(&mut faults, &mut []);
        file.ioctl(&mut asked).unwrap();
        assert_eq!(faults.value, 1);
        drop(file);
    }
}

/// However many indirect buffers it has, a submission over msm is one command for the kernel; one of too many is refused.
#[test]
fn a_submission_over_msm_has_as_many_buffers_as_it_has_room_for() {
    let twin = TwinMachine::new(MSM.config).unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let backend = msm::open(&machine, 0).unwrap();
    let event = backend.event().unwrap();
    let context = backend.context(&event, 8).unwrap();
    let memory = |what| {
        let request = Request {
            bytes: 4096,
            align: 4096,
            kind: MemoryKind::Control,
            what,
        };
        backend.memory(&request).unwrap()
    };
    let (packets, words) = (memory("packets"), memory("words"));
    let window = packets.window.as_ref().unwrap();
    let most = context.most();
    assert!((2..64).contains(&most), "{most}");
    // Each buffer writes a word of its own.
    let buffers: Vec<IndirectBuffer> = (0..=most as u64)
        .map(|i| {
            let at = words.va.0 + i * 4;
            let write = [type7(op::MEM_WRITE, 3), at as u32, (at >> 32) as u32, 1];
            window.write_words(i * 64, &write).unwrap();
            IndirectBuffer {
                address: packets.va.0 + i * 64,
                dwords: 4,
            }
        })
        .collect();
    for count in [0, 1, most] {
        words.window.as_ref().unwrap().fill(0, 4096, 0).unwrap();
        context.submit(&buffers[..count]).unwrap();
        let ended =
            (0..60).any(|_| context.sleep(Duration::from_secs(1)).unwrap() == Progress::Idle);
        assert!(ended, "{count} buffers");
        let mut found = vec![0u32; most + 1];
        let window = words.window.as_ref().unwrap();
        window.read_words(0, &mut found).unwrap();
        assert!(found[..count].iter().all(|word| *word == 1), "{found:?}");
        assert!(found[count..].iter().all(|word| *word == 0), "{found:?}");
    }
    let Err(Failure::Refused(error)) = context.submit(&buffers) else {
        panic!("{} buffers", buffers.len());
    };
    let text = error.to_string();
    assert!(text.contains(&format!("at most {most}")), "{text}");
    assert_eq!(context.counts().unwrap(), (3, 3));
    assert!(context.stop());
    drop((context, event, packets, words, backend));
    assert_eq!(stand::left(&twin), [""; 0]);
    assert_eq!(twin.machine().broken_rules(), [""; 0]);
}

/// The kernel refuses submissions of a context that hung, often before anybody has slept.
#[test]
fn a_hang_that_the_next_submission_meets_names_what_was_under_way() {
    let twin = hasty(&KGSL, "hang:1");
    let bench = Bench::on(&twin);
    let fill = Command::Fill {
        at: stand::at(&bench.data),
        value: 7,
        bytes: 64,
    };
    bench.stream.submit(&[], &[fill]).unwrap();
    let error = loop {
        if let Err(error) = bench.write(2) {
            break error;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let text = error.to_string();
    let refused = Fault::Errno(EDEADLK).to_string();
    assert!(text.matches(&refused).count() <= 1, "{text}");
    bench.ends_lost(&error, &["guilty", "In flight", "dmesg"]);
}

/// Between the check and the call another thread may end the context: no loss.
#[test]
fn a_context_that_ends_while_it_is_asked_for_faults_has_none() {
    for (way, call) in [
        (&KGSL, "DEVICE_GETPROPERTY"),
        (&MSM, "MSM_SUBMITQUEUE_QUERY"),
    ] {
        let twin = TwinMachine::new(way.config).unwrap();
        let (machine, spent) = timed::timed(twin.clone());
        let backend = match call.starts_with("MSM") {
            false => kgsl::open(&machine, 0, &options()).unwrap(),
            true => msm::open(&machine, 0).unwrap(),
        };
        let event = backend.event().unwrap();
        let context = backend.context(&event, 8).unwrap();
        let other = context.clone();
        spent.before_next(call, move || assert!(other.stop()));
        assert_eq!(context.fault(true), Ok(None), "{call}");
        // It was ended right before the call.
        assert!(context.stop());
        drop((context, event, backend));
        assert_eq!(stand::left(&twin), [""; 0]);
    }
}

#[test]
fn a_page_fault_is_a_loss() {
    for way in [&KGSL, &MSM] {
        let twin = hasty(way, "page:2");
        let bench = Bench::on(&twin);
        bench.write(1).unwrap().wait(soon()).unwrap();
        let error = bench.write(2).unwrap().wait(soon()).unwrap_err();
        bench.ends_lost(&error, &["fault", "dmesg"]);
    }
}

#[test]
fn a_lost_interrupt_delays_and_loses_nothing() {
    for way in [&KGSL, &MSM] {
        let twin = twin(way, "lost:1");
        let bench = Bench::on(&twin);
        for value in 1..4 {
            bench.write(value).unwrap().wait(soon()).unwrap();
            assert_eq!(bench.value(), value as u32);
        }
    }
}

#[test]
fn a_hang_of_another_handle_is_a_loss_only_of_what_was_under_way() {
    let twin = twin(&KGSL, "hang:2");
    let (one, idle) = (Bench::on(&twin), Bench::on(&twin));
    one.write(1).unwrap().wait(soon()).unwrap();
    // Seen to be idle.
    idle.device.status().unwrap();
    let error = one.write(2).unwrap().wait(soon()).unwrap_err();
    assert!(
        error.to_string().contains("other GPUs are not affected"),
        "{error}"
    );
    idle.device.status().unwrap();
    idle.write(7).unwrap().wait(soon()).unwrap();
    assert_eq!(idle.value(), 7);
    drop(idle);
    one.ends_lost(&error, &["guilty"]);

    // Work of another handle that was under way runs again: what a part of it has done is done twice.
    let twin = self::twin(&KGSL, "hang:1");
    let (one, busy) = (Bench::on(&twin), Bench::on(&twin));
    busy.device.status().unwrap();
    twin.machine().pause();
    let first = one.write(1).unwrap();
    busy.write(2).unwrap();
    twin.machine().go_on();
    let error = first.wait(soon()).unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    let error = busy.device.status().unwrap_err();
    assert!(
        error.to_string().contains("innocent (another context)"),
        "{error}"
    );
    drop((one, busy, first));
    assert_eq!(stand::left(&twin), [""; 0]);
}

#[test]
fn a_submission_that_never_ends_is_over_at_the_deadline() {
    let twin = twin(&KGSL, "lost:1000");
    let bench = Bench::on(&twin);
    let gate = bench.device.signal("gate").unwrap();
    let wait = Command::Wait {
        signal: &gate,
        value: Val::Const(1),
    };
    let held = bench.stream.submit(&[], &[wait]).unwrap();
    // Longer than what ends contexts with fault tolerance.
    let error = held.wait(Deadline::after(Duration::from_millis(600)));
    assert!(matches!(error, Err(Error::Timeout { .. })), "{error:?}");
    bench.device.status().unwrap();
    gate.set(1).unwrap();
    held.wait(soon()).unwrap();
}

#[test]
fn memory_runs_short_with_an_error() {
    for way in [&KGSL, &MSM] {
        let config = format!("{},memory=48M", way.config);
        let twin = TwinMachine::new(&config).unwrap();
        let bench = Bench::on(&twin);
        let mut held = Vec::new();
        let error = loop {
            match stand::memory(&*bench.device, MemoryKind::Device, 8 << 20) {
                Ok(buffer) => held.push(buffer),
                Err(error) => break error,
            }
            assert!(held.len() < 48);
        };
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        // What is given back is there again.
        held.pop();
        held.push(stand::memory(&*bench.device, MemoryKind::Device, 8 << 20).unwrap());
        bench.write(3).unwrap().wait(soon()).unwrap();
        assert_eq!(bench.value(), 3);
    }
}
