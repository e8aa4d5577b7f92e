//! Any call of the kernel driver is refused while a device is used: what comes of it is an error that says
//! which call, and how; it is done again on the same device; and nothing is left.

use std::any::Any;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use conformance::part::Part;
use drivers_nv::Options;
use drivers_nv::nvk::meters::Meters;
use drivers_nv::nvk::survey;
use hcq::graph::{GraphBuilder, Work};
use hcq::transport::Machine;
use hcq::{Buffer, Command, Device, Error, KernelImage, MemoryKind, Result, Span, Val};

use super::stand::{
    Rig, WILD, at, copy, exec, kernel, left, machine, memory, options, soon, twin, words,
};

/// What the driver answers, and the system where a call has no place for that.
const STATUSES: [&str; 8] = [
    "NV_ERR_NO_MEMORY",
    "NV_ERR_INVALID_STATE",
    "NV_ERR_TIMEOUT",
    "NV_ERR_INSUFFICIENT_RESOURCES",
    "NV_ERR_GENERIC",
    "NV_ERR_INVALID_ARGUMENT",
    "NV_ERR_INSUFFICIENT_PERMISSIONS",
    "NV_ERR_GPU_IS_LOST",
];
const ERRNOS: [&str; 4] = ["ENOMEM", "EINVAL", "EIO", "ENODEV"];

/// Calls that have no place for a status.
const WITHOUT: [&str; 5] = [
    "open",
    "mmap",
    "CARD_INFO",
    "REGISTER_FD",
    "CHECK_VERSION_STR",
];

/// Escapes that errors do not name: they name the class or the control.
const INNER: [&str; 3] = ["RM_ALLOC", "RM_CONTROL", "RM_ALLOC_MEMORY"];

const CONFIG: &str = "chip=h100,gpus=2";

/// The kernels of a session.
struct Images {
    step: KernelImage,
    sums: KernelImage,
    deep: KernelImage,
}

impl Images {
    fn new() -> Images {
        let [step, sums, deep] = ["step", "sums", "deep"].map(|entry| kernel(CONFIG, entry));
        Images { step, sums, deep }
    }
}

/// How a session goes.
struct How {
    options: Options,
    peers: bool,
}

impl How {
    fn new(uvm: bool) -> How {
        How {
            options: Options { uvm, ..options() },
            peers: uvm,
        }
    }

    /// The same where a call is refused without which GPUs do not reach each other: UVM is then done without,
    /// and so are peers.
    fn without(&self, call: &str) -> How {
        let needed = ["open", "UVM_ENABLE_PEER_ACCESS", "any"];
        How {
            options: self.options.clone(),
            peers: self.peers && !needed.contains(&call),
        }
    }
}

/// Two GPUs in use, step by step: what each needs of the kernel driver is new to the device.
struct Use<'a> {
    images: &'a Images,
    first: Rig,
    second: Rig,
    /// Whether they reach each other's memory.
    peers: bool,
    /// What steps have made, so that the next ones need more.
    made: Vec<Box<dyn Any>>,
}

type Step = fn(&mut Use<'_>) -> Result<()>;

/// Each can be done again after it was refused.
const STEPS: [(&str, Step); 7] = [
    ("memory of every kind", |using| {
        for kind in [MemoryKind::Device, MemoryKind::Host, MemoryKind::Control] {
            let buffer = memory(&*using.first.device, kind, 300_000)?;
            buffer.write(0, &[1; 64])?;
            using.made.push(Box::new(buffer));
        }
        Ok(())
    }),
    ("a round of kernels and copies", |using| {
        using.first.round(3)?;
        using.second.round(7)
    }),
    ("a kernel with local memory", |using| using.sum(false)),
    (
        "growth of local memory beside a kernel that uses it",
        |using| {
            let gate = using.first.device.signal("gate")?;
            let wait = Command::Wait {
                signal: &gate,
                value: Val::Const(1),
            };
            using.first.compute.submit(&[], &[wait])?;
            let grown = using.first.device.load(&using.images.deep);
            gate.set(1)?;
            using.made.push(Box::new(grown?));
            using.sum(false)?;
            using.sum(true)
        },
    ),
    ("copies between GPUs", |using| {
        let bytes = 300_000;
        let kind = match using.peers {
            true => MemoryKind::Device,
            false => MemoryKind::Host,
        };
        let (a, b) = (
            memory(&*using.first.device, kind, bytes)?,
            memory(&*using.second.device, MemoryKind::Device, bytes)?,
        );
        let content: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        a.write(0, &content)?;
        let pulled = using.second.copy.submit(&[], &[copy(&b, &a)])?;
        pulled.wait(soon())?;
        let mut seen = vec![0; content.len()];
        // By copies: the host does not see the second one's memory.
        b.read(0, &mut seen)?;
        assert!(seen == content);
        Ok(())
    }),
    ("a graph of two queues", |using| {
        let device = &using.first.device;
        let data = memory(&**device, MemoryKind::Host, 256)?;
        let to = memory(&**device, MemoryKind::Host, 256)?;
        data.write(0, &[0; 256])?;
        let mut builder = GraphBuilder::new();
        let shared: Arc<dyn Device> = device.clone();
        let run = builder.lane(&shared, &using.first.compute);
        let lane = builder.lane(&shared, &using.first.copy);
        let span = |b: &Buffer| Span::at(b.va().0, 256);
        for value in 1..=3 {
            let work = Work::Exec {
                program: using.first.step.clone(),
                args: vec![at(&data), Val::Const(value)],
                grid: [64, 1, 1],
                block: [1, 1, 1],
            };
            builder.add(run, "step", work, [span(&data)], [span(&data)]);
        }
        let work = Work::Copy {
            dst: at(&to),
            src: at(&data),
            bytes: 256,
        };
        builder.add(lane, "copy", work, [span(&data)], [span(&to)]);
        let mut graph = builder.build()?;
        graph.replay(&[], &[], soon())?;
        graph.wait(soon())?;
        assert_eq!(words(&to)?, [18; 64]);
        using.made.push(Box::new((graph, data, to)));
        Ok(())
    }),
    ("signals, clocks and waits", |using| {
        for rig in [&using.first, &using.second] {
            let signal = rig.device.signal("one of many")?;
            using.made.push(Box::new(signal));
            rig.device.clock()?;
            rig.device.status()?;
            rig.device.synchronize(soon())?;
        }
        Ok(())
    }),
];

impl<'a> Use<'a> {
    /// One GPU whose host memory is that of the process, and one whose own memory the host does not see.
    fn new(machine: &Arc<dyn Machine>, images: &'a Images, how: &How) -> Result<Use<'a>> {
        let options = &how.options;
        let pinned = Options {
            pinned: true,
            ..options.clone()
        };
        let hidden = Options {
            host_visible: false,
            ..options.clone()
        };
        Ok(Use {
            first: Rig::with(machine, 0, &images.step, &pinned)?,
            second: Rig::with(machine, 1, &images.step, &hidden)?,
            images,
            peers: how.peers,
            made: Vec::new(),
        })
    }

    /// Runs a kernel that sums 16 bytes, and looks at the result.
    fn sum(&mut self, deep: bool) -> Result<()> {
        let rig = &self.first;
        let image = match deep {
            true => &self.images.deep,
            false => &self.images.sums,
        };
        let program = rig.device.load(image)?;
        let (out, ones) = (
            memory(&*rig.device, MemoryKind::Host, 256)?,
            memory(&*rig.device, MemoryKind::Host, 1024)?,
        );
        ones.write(0, &[2; 1024])?;
        let args = [at(&out), at(&ones)];
        let done = rig.compute.submit(&[], &[exec(&program, &args, 64)])?;
        done.wait(soon())?;
        assert_eq!(words(&out)?, [32; 64]);
        Ok(())
    }
}

/// Does something until it is not refused: twice at most. What is lost is not tried again.
fn insist<T>(refused: &mut Vec<Error>, mut work: impl FnMut() -> Result<T>) -> Option<T> {
    loop {
        match work() {
            Ok(done) => return Some(done),
            Err(error) => {
                let lost = matches!(error, Error::DeviceLost { .. });
                refused.push(error);
                if lost || refused.len() > 2 {
                    return None;
                }
            }
        }
    }
}

/// Uses two GPUs; what was refused on the way. Whether all was done at last.
fn session(machine: &Arc<dyn Machine>, images: &Images, how: &How) -> (Vec<Error>, bool) {
    let mut refused = Vec::new();
    let opened = insist(&mut refused, || Use::new(machine, images, how));
    let Some(mut using) = opened else {
        return (refused, false);
    };
    for (_, step) in STEPS {
        if insist(&mut refused, || step(&mut using)).is_none() {
            return (refused, false);
        }
    }
    (refused, true)
}

/// An error says which call was refused, and how.
fn told(error: &Error, call: &str, how: &str) {
    let text = error.to_string();
    let what = format!("{call}, {how}");
    let cause = match error {
        Error::DeviceLost { cause, .. } => cause,
        error => error,
    };
    let typed = matches!(
        cause,
        Error::Os { .. }
            | Error::OutOfMemory { .. }
            | Error::Fault { .. }
            | Error::NoDevice { .. }
            | Error::NoPermission { .. }
    );
    assert!(typed, "{what}: {error:?}");
    let is_any = call == "any";
    let names = is_any || INNER.contains(&call) || text.contains(call);
    assert!(names, "{what}: {text}");
    assert!(is_any || text.contains(how), "{what}: {text}");
}

/// A session in which one call is refused. Whether it was.
fn refused_once(images: &Images, usual: &How, call: &str, how: &str, nth: u32) -> bool {
    let what = format!("{call}, {how}, call {nth}");
    let twin = twin(&format!("{CONFIG},fault=call:{call}:{how}:{nth}"));
    let machine = machine(&twin);
    let (refused, done) = session(&machine, images, &usual.without(call));
    refused.iter().for_each(|error| told(error, call, how));
    // A GPU that is said to be gone is lost; for anything else the device works on.
    let gone = ["NV_ERR_GPU_IS_LOST", "ENODEV"].contains(&how);
    assert!(done || gone, "{what}: {refused:?}");
    let fired = twin.machine().faults_fired() > 0;
    assert!(fired || refused.is_empty(), "{what}: {refused:?}");
    let clean = |when: &str| {
        assert_eq!(left(&twin), [""; 0], "{what}, {when}: {refused:?}");
        assert!(twin.machine().state().is_empty(), "{what}, {when}");
    };
    clean("at its end");
    if fired {
        let (refused, done) = session(&machine, images, usual);
        assert!(done && refused.is_empty(), "{what}, again: {refused:?}");
        clean("again");
    }
    let broken = twin.machine().broken_rules();
    assert_eq!(broken, [""; 0], "{what}");
    fired
}

/// The calls of a session, by name.
fn calls(images: &Images, how: &How) -> BTreeSet<String> {
    // Counted where one shall fail: one that nobody makes.
    let twin = twin(&format!("{CONFIG},fault=call:nothing:EIO"));
    let (refused, done) = session(&machine(&twin), images, how);
    assert!(done && refused.is_empty(), "{refused:?}");
    let mut calls: BTreeSet<_> = twin.machine().calls().into_iter().collect();
    calls.remove("any");
    calls
}

/// Each call is refused in one of its ways: the first time that it is made, and later in the session.
fn each_call(uvm: bool, skip: usize) {
    let usual = How::new(uvm);
    let images = Images::new();
    let part = Part::chosen();
    for (index, call) in calls(&images, &usual).iter().enumerate() {
        let ways: &[&str] = match WITHOUT.contains(&call.as_str()) {
            true => &ERRNOS,
            false => &STATUSES,
        };
        for (number, nth) in [1, 2, 3, 5, 9].into_iter().enumerate() {
            if !part.has(index + number, 5) {
                continue;
            }
            let how = ways[(index + number + skip) % ways.len()];
            refused_once(&images, &usual, call, how, nth);
        }
    }
}

#[test]
fn a_device_stays_usable_whichever_call_is_refused() {
    each_call(true, 0);
}

#[test]
fn a_device_stays_usable_without_uvm() {
    each_call(false, 3);
}

/// Not by name, but by number: calls that are made when a session ends are among them.
#[test]
fn any_call_of_a_session_is_refused() {
    let images = Images::new();
    let (part, usual) = (Part::chosen(), How::new(true));
    let mut nth = 0;
    let fires = |nth: u32| {
        let how = STATUSES[nth as usize / 7 % 6];
        refused_once(&images, &usual, "any", how, nth)
    };
    loop {
        nth += 1;
        // The last one of all decides, whichever part this is.
        if part.has(nth as usize, 9) && !fires(nth) {
            break;
        }
    }
    assert!(nth > 200, "only {nth} calls");
}

/// What the driver may ever ask is asked in sessions: its source names no other call.
#[test]
fn sessions_make_every_call_that_there_is() {
    let images = Images::new();
    let mut made = calls(&images, &How::new(true));
    made.extend(calls(&images, &How::new(false)));
    // What is asked after a fault, and without opening a GPU.
    let wrong: [(&str, &[Val]); 2] = [
        ("store", &[Val::Const(WILD)]),
        ("store", &[Val::Const(WILD + 2)]),
    ];
    for (entry, args) in wrong {
        let twin = twin("chip=h100,fault=call:nothing:EIO");
        let machine = machine(&twin);
        let rig = Rig::open(&machine, 0, &images.step).unwrap();
        let program = rig.device.load(&kernel(CONFIG, entry)).unwrap();
        let done = rig.compute.submit(&[], &[exec(&program, args, 1)]).unwrap();
        assert!(done.wait(soon()).is_err());
        survey(&*twin);
        assert_eq!(Meters::new(&*twin).unwrap().read().len(), 1);
        made.extend(twin.machine().calls());
    }
    // What is asked in another way where a sandbox does not pass a call on.
    let asked = twin("chip=h100,fault=call:nothing:EIO");
    drop(Rig::open(&super::sandbox::inside(&machine(&asked)), 0, &images.step).unwrap());
    made.extend(asked.machine().calls());
    // A GPU for one program at a time is reserved.
    let shared = twin("chip=h100,compute=exclusive,fault=call:nothing:EIO");
    drop(Rig::open(&machine(&shared), 0, &images.step).unwrap());
    // No header has a name for that, only the kernel.
    let reserve = drivers_spec::nv::control::ACQUIRE_COMPUTE_MODE_RESERVATION;
    assert!(
        shared
            .machine()
            .calls()
            .iter()
            .any(|call| call == reserve.name)
    );
    made.insert("ACQUIRE_COMPUTE_MODE_RESERVATION".into());
    // Classes that RM_ALLOC_MEMORY makes are counted by its name.
    made.extend(["NV01_MEMORY_SYSTEM", "NV01_MEMORY_SYSTEM_OS_DESCRIPTOR"].map(String::from));
    let mut missing = BTreeSet::new();
    let files = ["src/nvk", "src/rm"].into_iter().flat_map(|folder| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        std::fs::read_dir(folder).unwrap()
    });
    let files = files.map(|file| file.unwrap().path());
    for file in files.filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(file).unwrap();
        for (module, prefix) in [
            ("control::", ""),
            ("query::", ""),
            ("class::", ""),
            ("escape::", ""),
            ("uvm::", "UVM_"),
        ] {
            let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let names = text.split(module).skip(1);
            let names = names.map(|rest| rest.split(|c| !is_name(c)).next().unwrap_or(""));
            let calls = names
                .filter(|name| name.len() > 3)
                .map(|n| format!("{prefix}{n}"));
            missing.extend(calls.filter(|call| !made.contains(call)));
        }
    }
    assert!(made.len() > 45, "{made:?}");
    assert_eq!(missing, BTreeSet::new());
}
