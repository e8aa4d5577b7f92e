//! What a session of our driver calls, from the open file to its end, on both kernel drivers; on KGSL beside the recorded
//! session of another driver (tests/golden/qcom). Each difference has its reason here.
#![allow(clippy::unwrap_used)] // A test may panic.

mod stand;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use drivers_qcom::{Options, kgsl, msm, over};
use drivers_spec::fields::{Drivers, Drm, describe};
use drivers_spec::nv::abi::Branch;
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Fault, Machine};
use hcq::{Command, Device, MemoryKind, QueueKind, Stream, Val};
use serde_json::Value;
use twin_qcom::machine::TwinMachine;

use stand::{at, soon};

/// A call, or a mapping of what the call before has made.
enum Call {
    Made(String),
    Mapped,
}

/// Fields whose values are the machine's or the clock's.
const MASKED: [&str; 5] = ["gpuaddr", "handle", "id", "value", "timeout"];

/// Fields that the transport fills with the size of what is pointed to: not recorded as part of the argument.
const SIZES: [&str; 2] = ["sizebytes", "numcmds"];

/// A call with those of its fields that are not 0.
fn told(drm: Drm, request: u32, data: &[u8]) -> String {
    let nvidia = Branch::R580;
    let text = describe(Drivers { nvidia, drm }, request, data, &[]).unwrap();
    let mut words = text.split(' ');
    let name = words.next().unwrap();
    let name = name.trim_start_matches("DRM_IOCTL_");
    let mut line = name.trim_start_matches("IOCTL_KGSL_").to_owned();
    for field in words.filter(|field| !field.ends_with("=0x0")) {
        let (name, value) = field.split_once('=').unwrap();
        line += &match name {
            name if SIZES.contains(&name) => String::new(),
            name if MASKED.contains(&name) => format!(" {name}"),
            name => format!(" {name}={value}"),
        };
    }
    line
}

/// Calls in their order, by phases; and those that the clock chooses.
#[derive(Default)]
struct Session {
    phase: &'static str,
    calls: Vec<(&'static str, Call)>,
    by_clock: BTreeSet<String>,
}

struct Recorder {
    drm: Drm,
    session: Mutex<Session>,
}

impl Tap for Recorder {
    fn after(&self, _: &str, access: &Access, _: &mut Result<Answer, Fault>) {
        let mut session = self.session.lock().unwrap();
        let call = match access.verb {
            Verb::Open => Call::Made(format!("open {}", access.name)),
            Verb::Ioctl => {
                let request = access.arg("request") as u32;
                Call::Made(told(self.drm, request, &access.data))
            }
            Verb::Mmap => Call::Mapped,
            _ => return,
        };
        let phase = session.phase;
        match call {
            // How far the last wait has come is the clock's choice, too.
            Call::Made(text) if access.is_by_clock || text.starts_with("MSM_WAIT_FENCE") => {
                let name = text.split(' ').next().unwrap_or_default().to_owned();
                session.by_clock.insert(name);
            }
            call => session.calls.push((phase, call)),
        }
    }
}

/// Lines of a session: what is mapped says so, what repeats is counted.
fn lines(calls: impl IntoIterator<Item = (String, Call)>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (phase, call) in calls {
        match call {
            Call::Made(text) => all.push((phase, text)),
            Call::Mapped => all.last_mut().unwrap().1 += ", mapped",
        }
    }
    let groups = all.chunk_by(|a, b| a == b);
    let shown = groups.map(|group| match group {
        [one] => one.clone(),
        group => (
            group[0].0.clone(),
            format!("{} x {}", group.len(), group[0].1),
        ),
    });
    shown.collect()
}

/// A session on a machine: a launch, its wait, memory that is made and freed.
fn ours(config: &str) -> (Vec<(String, String)>, BTreeSet<String>) {
    let twin = TwinMachine::new(config).unwrap();
    let recorder = Arc::new(Recorder {
        drm: Drm::Msm,
        session: Mutex::default(),
    });
    let phase = |phase| recorder.session.lock().unwrap().phase = phase;
    let machine: Arc<dyn Machine> = Tapped::machine(twin.clone(), recorder.clone());
    let options = Options::default();
    phase("open");
    let backend = match config.contains("msm") {
        true => msm::open(&machine, 0).unwrap(),
        false => kgsl::open(&machine, 0, &options).unwrap(),
    };
    let device = over(&backend, &options).unwrap();
    drop(backend);
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    phase("memory");
    let data = stand::memory(&*device, MemoryKind::Device, 8 << 20).unwrap();
    let host = stand::memory(&*device, MemoryKind::Host, 8 << 20).unwrap();
    phase("kernel");
    let program = device.load(&stand::many("a630")).unwrap();
    let exec = Command::Exec {
        program: &program,
        args: &[at(&data), Val::Const(1)],
        grid: [4, 1, 1],
        block: [1, 1, 1],
    };
    let point = stream.submit(&[], &[exec]).unwrap();
    phase("wait");
    point.wait(soon()).unwrap();
    assert_eq!(stand::words(&data, 0).unwrap(), [5; 4]);
    phase("end");
    drop((program, data, host, point));
    drop(stream);
    drop(device);
    drop(machine);
    assert_eq!(twin.machine().broken_rules(), [""; 0]);
    let mut session = recorder.session.lock().unwrap();
    let calls = std::mem::take(&mut session.calls);
    let calls = calls
        .into_iter()
        .map(|(phase, call)| (phase.to_owned(), call));
    (lines(calls), std::mem::take(&mut session.by_clock))
}

/// The session of the other driver.
fn theirs() -> Vec<(String, String)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/qcom/a630.json");
    let all: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut calls = Vec::new();
    for one in all["session"].as_array().unwrap() {
        let text = |name: &str| one[name].as_str();
        let phase = match text("phase").unwrap() {
            "inputs" => "memory",
            phase => phase,
        };
        let number = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        let times = one["times"].as_u64().unwrap_or(1);
        let call = match (text("open"), text("request")) {
            (Some(path), _) => format!("open {path}"),
            (_, Some(request)) => {
                let data = text("in").unwrap();
                let bytes = (0..data.len()).step_by(2);
                let data: Vec<u8> = bytes
                    .map(|i| u8::from_str_radix(&data[i..i + 2], 16).unwrap())
                    .collect();
                told(Drm::Amdgpu, number(request), &data)
            }
            // Of each that was made so often.
            _ => {
                let last: &mut (String, String) = calls.last_mut().unwrap();
                last.1 += ", mapped";
                continue;
            }
        };
        let call = match times {
            1 => call,
            _ => format!("{times} x {call}"),
        };
        calls.push((phase.to_owned(), call));
    }
    calls
}

/// A phase, what ours calls there, what the other one calls in its place, and why these differ.
type Row = (&'static str, &'static str, &'static str, &'static str);

/// Checks that a table is what is called, on both sides.
fn compare(table: &[Row], ours: &[(String, String)], theirs: &[(String, String)]) {
    let of: [fn(&Row) -> &'static str; 2] = [|row| row.1, |row| row.2];
    for (side, calls, of) in [("ours", ours, of[0]), ("theirs", theirs, of[1])] {
        let listed = table.iter().filter(|row| !of(row).is_empty());
        let listed: Vec<_> = listed.map(|row| (row.0, of(row))).collect();
        let called: Vec<_> = calls.iter().map(|(a, b)| (&**a, &**b)).collect();
        let shown: Vec<String> = called.iter().map(|(a, b)| format!("{a}: {b}")).collect();
        assert_eq!(listed, called, "{side}:\n{}", shown.join("\n"));
    }
    for (phase, ours, theirs, why) in table {
        let differ = ours != theirs;
        assert_eq!(differ, !why.is_empty(), "{phase}: {ours} | {theirs}: {why}");
    }
}

/// Flags of memory: the alignment from bit 16 on, the CPU's cache from bit 26 on (0: write-combined), bit 28 USE_CPU_MAP.
const KGSL: &[Row] = &[
    ("open", "open /dev/kgsl-3d0", "open /dev/kgsl-3d0", ""),
    (
        "open",
        "DEVICE_GETPROPERTY type=0x1",
        "",
        "the chip is known before anything is made",
    ),
    (
        "open",
        "DEVICE_GETPROPERTY type=0x8",
        "",
        "the version of the kernel driver, for messages",
    ),
    (
        "open",
        "",
        "GPUOBJ_ALLOC size=0x1000 flags=0x100c0000 mmapsize=0x1000, mapped",
        "what flushes write: ours is a part of control memory",
    ),
    (
        "open",
        "GPUOBJ_ALLOC size=0x200000 flags=0x150000",
        "",
        "a pool of control memory; without USE_CPU_MAP the kernel chooses the address, and memory need not be mapped to have one",
    ),
    (
        "open",
        "GPUOBJ_INFO id, mapped",
        "",
        "where the kernel has put it",
    ),
    (
        "open",
        "GPUOBJ_ALLOC size=0x200000 flags=0x150000",
        "",
        "a pool of device memory, with the code of copies",
    ),
    (
        "open",
        "GPUOBJ_INFO id, mapped",
        "",
        "where the kernel has put it",
    ),
    (
        "open",
        "DRAWCTXT_CREATE flags=0x4208a52",
        "DRAWCTXT_CREATE flags=0x4008a12",
        "PER_CONTEXT_TS, which the kernel adds itself, and the type: CL",
    ),
    (
        "open",
        "",
        "GPUOBJ_ALLOC size=0x1000000 flags=0x100c0000 mmapsize=0x1000000, mapped",
        "its ring of packets: ours are with the arguments",
    ),
    (
        "open",
        "",
        "GPUOBJ_ALLOC size=0x1000 flags=0x100c0000 mmapsize=0x1000, mapped",
        "its border colours: ours are a part of control memory",
    ),
    ("open", "SETPROPERTY type=0x12", "SETPROPERTY type=0x12", ""),
    (
        "open",
        "",
        "DEVICE_GETPROPERTY type=0x1",
        "asked last: see above",
    ),
    (
        "open",
        "GPUOBJ_ALLOC size=0x400000 flags=0xc0000",
        "",
        "packets and arguments of the queue",
    ),
    (
        "open",
        "GPUOBJ_INFO id, mapped",
        "",
        "where the kernel has put it",
    ),
    (
        "open",
        "",
        "32 x GPUOBJ_ALLOC size=0x200000 flags=0x100c0000 mmapsize=0x200000, mapped",
        "its buffers of copies: ours copies from host memory",
    ),
    (
        "open",
        "",
        "GPUOBJ_ALLOC size=0x1000 flags=0x100c0000 mmapsize=0x1000, mapped",
        "its signals: ours are in the pool of control memory",
    ),
    (
        "open",
        "",
        "GPUOBJ_ALLOC size=0x1000000 flags=0x100c0000 mmapsize=0x1000000, mapped",
        "its arguments: ours are with the packets",
    ),
    (
        "memory",
        "GPUOBJ_ALLOC size=0x800000 flags=0xc0000",
        "2 x GPUOBJ_ALLOC size=0x1000 flags=0x100c0000 mmapsize=0x1000, mapped",
        "the sizes are the sessions'; ours is larger than what pools give",
    ),
    (
        "memory",
        "GPUOBJ_INFO id, mapped",
        "",
        "where the kernel has put it",
    ),
    (
        "memory",
        "GPUOBJ_ALLOC size=0x800000 flags=0xc0c0000",
        "",
        "host memory, which the CPU caches: the other driver has none",
    ),
    (
        "memory",
        "GPUOBJ_INFO id, mapped",
        "",
        "where the kernel has put it",
    ),
    (
        "kernel",
        "",
        "2 x GPUOBJ_ALLOC size=0x1000 flags=0x100c0000 mmapsize=0x1000, mapped",
        "its result and its code: ours are in the pool",
    ),
    (
        "kernel",
        "",
        "GPUOBJ_ALLOC size=0x4000 flags=0x100c0000 mmapsize=0x4000, mapped",
        "its private memory: ours is made for kernels that have some",
    ),
    (
        "kernel",
        "GPU_COMMAND cmdsize=0x20 context_id=0x1",
        "GPU_COMMAND cmdsize=0x20 context_id=0x1",
        "",
    ),
    (
        "end",
        "DRAWCTXT_DESTROY drawctxt_id=0x1",
        "",
        "the recording ends before",
    ),
    ("end", "5 x GPUOBJ_FREE id", "", "the recording ends before"),
];

/// No session of another driver on msm is recorded: what is called, by phases. GEM_INFO 1 asks for the address, 0 where to map.
/// The A630 does not see the caches of the CPU: CACHED_COHERENT (0x80000) is refused, and write-combined memory made.
const MSM: &[(&str, &str)] = &[
    ("open", "open /dev/dri/renderD128"),
    ("open", "VERSION"),
    ("open", "MSM_GET_PARAM pipe=0x10 param=0x3"),
    ("open", "open /dev/dri/renderD128"),
    ("open", "MSM_GEM_NEW size=0x200000 flags=0x20000"),
    ("open", "MSM_GEM_INFO handle info=0x1"),
    ("open", "MSM_GEM_INFO handle, mapped"),
    ("open", "MSM_GEM_NEW size=0x200000 flags=0x20000"),
    ("open", "MSM_GEM_INFO handle info=0x1"),
    ("open", "MSM_GEM_INFO handle, mapped"),
    ("open", "MSM_GEM_NEW size=0x5000 flags=0x20000"),
    ("open", "MSM_GEM_INFO handle info=0x1"),
    ("open", "MSM_GEM_INFO handle, mapped"),
    ("open", "MSM_GET_PARAM pipe=0x10 param=0x7"),
    ("open", "MSM_SUBMITQUEUE_NEW prio=0x1"),
    ("open", "MSM_GEM_NEW size=0x400000 flags=0x20000"),
    ("open", "MSM_GEM_INFO handle info=0x1"),
    ("open", "MSM_GEM_INFO handle, mapped"),
    ("memory", "MSM_GEM_NEW size=0x800000 flags=0x20000"),
    ("memory", "MSM_GEM_INFO handle info=0x1"),
    ("memory", "MSM_GEM_INFO handle, mapped"),
    ("memory", "MSM_GEM_NEW size=0x800000 flags=0x80000"),
    ("memory", "MSM_GEM_NEW size=0x800000 flags=0x20000"),
    ("memory", "MSM_GEM_INFO handle info=0x1"),
    ("memory", "MSM_GEM_INFO handle, mapped"),
    (
        "kernel",
        "MSM_GEM_SUBMIT flags=0x80000010 fence_fd=0xffffffff queueid=0x1",
    ),
    ("end", "MSM_SUBMITQUEUE_CLOSE id"),
    ("end", "6 x GEM_CLOSE handle"),
];

#[test]
fn kgsl_is_called_as_by_the_other_driver_but_for_what_has_a_reason() {
    let (ours, by_clock) = ours("chip=a630");
    compare(KGSL, &ours, &theirs());
    for name in by_clock {
        assert!(
            [
                "DEVICE_WAITTIMESTAMP_CTXTID",
                "CMDSTREAM_READTIMESTAMP_CTXTID",
                "DEVICE_GETPROPERTY"
            ]
            .contains(&&*name),
            "{name}"
        );
    }
}

#[test]
fn msm_is_called_so() {
    let (ours, by_clock) = ours("chip=a630,kernel=msm");
    let called: Vec<_> = ours.iter().map(|(a, b)| (&**a, &**b)).collect();
    assert_eq!(called, MSM);
    for name in by_clock {
        assert!(
            ["MSM_WAIT_FENCE", "MSM_SUBMITQUEUE_QUERY"].contains(&&*name),
            "{name}"
        );
    }
}
