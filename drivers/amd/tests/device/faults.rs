//! Everything that the kernel may refuse is refused once: the error is typed, nothing is left behind,
//! and the next open works.

use crate::stand;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use conformance::part::Part;
use drivers_amd::AmdDevice;
use hcq::graph::{GraphBuilder, Work};
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Fault, Machine};
use hcq::{
    Buffer, Command, Device, Error, KernelImage, MemoryKind, QueueKind, Result, Span, Stream, Val,
};
use stand::{at, memory, soon};
use twin_amd::kernel::errno::Errno;
use twin_amd::kernel::ioctl;
use twin_amd::machine::TwinMachine;

/// What is left where nothing is leaked: files that the process keeps, and the event page, which the
/// kernel never gives back.
fn leaks(twin: &TwinMachine) -> Vec<String> {
    let kept = |line: &String| line.starts_with("file /dev/") || line.starts_with("event page");
    let all = twin.process().objects();
    all.into_iter().filter(|line| !kept(line)).collect()
}

/// Works with a fault; says whether it fired.
fn refused_once(chip: &str, fault: &str, image: &KernelImage) -> bool {
    let twin = stand::twin(&format!("chip={chip},vram=2G,gtt=1G,fault={fault}"));
    let machine = stand::machine(&twin);
    let first = stand::work(&machine, image);
    let fired = twin.machine().faults_fired() > 0;
    if let Err(error) = &first {
        assert!(fired, "{fault}: {error}");
        let text = error.to_string();
        assert!(text.contains("AMD:0"), "{fault}: {text}");
        if fault.starts_with("ioctl:ALLOC_MEMORY_OF_GPU:ENOMEM") {
            assert!(
                matches!(error, Error::OutOfMemory { .. }),
                "{fault}: {text}"
            );
        }
    }
    assert_eq!(leaks(&twin), [""; 0], "{fault}: {first:?}");
    if fired {
        let again = stand::work(&machine, image);
        assert!(again.is_ok(), "{fault}, opened again: {again:?}");
        assert_eq!(leaks(&twin), [""; 0], "{fault}, opened again");
    }
    let broken = twin.machine().journal.violations();
    let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "{fault}: {}", broken.join("\n"));
    let kernel = twin.machine().clone();
    drop((machine, twin));
    // A thread of the twin may still tell an interrupt of the last packets, and has the process as long.
    let is_free = || kernel.memory_in_use() == (vec![0], 0);
    for _ in (0..5000).take_while(|_| !is_free()) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(kernel.memory_in_use(), (vec![0], 0), "{fault}");
    fired
}

/// Each call of that name fails in its turn.
fn each_call(chip: &str, name: &str, errno: &str, image: &KernelImage) -> u32 {
    let call = |n: &u32| refused_once(chip, &format!("{name}:{errno}:{n}"), image);
    (1..200).take_while(call).count() as u32
}

fn every_ioctl(chip: &str) {
    let name = chip.split(',').next().unwrap();
    let image = stand::kernel(name, "sums", 2);
    let mut faults = Vec::new();
    for entry in ioctl::TABLE {
        let name = |errno: &Errno| (entry.name(), errno.name());
        faults.extend(entry.errnos.iter().map(name));
    }
    for errno in ["EINVAL", "EFAULT", "ENODEV"] {
        for name in ["AMDGPU_INFO", "GET_VERSION", "GET_CLOCK_COUNTERS"] {
            faults.push((name, errno.into()));
        }
    }
    // One pair in four: names and errnos come in all combinations as the part changes.
    let part = Part::chosen();
    let mut calls = 0;
    for (index, (name, errno)) in faults.iter().enumerate() {
        if part.has(index, 4) {
            calls += each_call(chip, &format!("ioctl:{name}"), errno, &image);
        }
    }
    println!("{calls} calls were refused");
    assert!(calls > if part.is_all() { 100 } else { 20 }, "only {calls}");
}

#[test]
fn every_ioctl_fails_once_on_gfx1100() {
    every_ioctl("gfx1100");
}

/// With AQL, whose scratch takes calls of its own.
#[test]
fn every_ioctl_fails_once_on_gfx942() {
    every_ioctl("gfx942,xcc=1");
}

#[test]
fn every_mapping_and_open_fails_once() {
    let image = stand::kernel("gfx1100", "sums", 2);
    let mmap = ["ENOMEM", "EINVAL", "EAGAIN"].map(|errno| ("mmap", errno));
    let open = ["EACCES", "ENOENT", "EBUSY", "EMFILE", "ENODEV", "EIO"];
    let all = mmap.into_iter().chain(open.map(|errno| ("open", errno)));
    let part = Part::chosen();
    for (_, (call, errno)) in all.enumerate().filter(|(i, _)| part.has(*i, 3)) {
        assert!(each_call("gfx1100", call, errno, &image) > 10);
    }
}

/// The host runs out of memory or addresses once.
struct Short(AtomicU32);

impl Tap for Short {
    fn before(&self, _: &str, access: &mut Access) -> Option<std::result::Result<Answer, Fault>> {
        let counts = matches!(access.verb, Verb::Reserve | Verb::Memory);
        (counts && self.0.fetch_sub(1, Ordering::Relaxed) == 1).then_some(Err(Fault::Errno(12)))
    }
}

#[test]
fn every_reservation_fails_once() {
    let image = stand::kernel("gfx1100", "sums", 2);
    for nth in 1..100 {
        let twin = stand::twin("vram=2G,gtt=1G");
        let short = Arc::new(Short(AtomicU32::new(nth)));
        let machine = Tapped::machine(twin.clone(), short.clone());
        let first = stand::work(&machine, &image);
        assert_eq!(leaks(&twin), [""; 0], "reservation {nth}: {first:?}");
        if short.0.load(Ordering::Relaxed) as i32 > 0 {
            assert!(nth > 10, "only {nth} reservations");
            first.unwrap();
            return;
        }
        match first {
            // A large buffer is tried once more after what is kept for reuse was given back.
            Ok(()) | Err(Error::OutOfMemory { .. }) => {}
            other => panic!("reservation {nth}: expected OutOfMemory, found {other:?}"),
        }
        stand::work(&machine, &image).unwrap();
        assert_eq!(leaks(&twin), [""; 0], "reservation {nth}, opened again");
    }
    panic!("100 reservations");
}

/// A device in use, step by step: what each needs of the kernel is new to the device.
struct Use {
    device: Arc<AmdDevice>,
    compute: Stream,
    copy: Stream,
    images: [KernelImage; 3],
    data: Buffer,
    /// What steps have made, so that the next ones need more.
    made: Vec<Box<dyn Any>>,
}

type Step = fn(&mut Use) -> Result<()>;

/// Each can be done again after it was refused.
const STEPS: [(&str, Step); 7] = [
    ("a kernel with scratch", |using| using.sum(0)),
    ("growth of scratch beside a kernel that uses it", |using| {
        let gate = using.device.signal("gate")?;
        let wait = Command::Wait {
            signal: &gate,
            value: Val::Const(1),
        };
        // An AQL queue comes to rest before it gets another scratch.
        if !using.images[0].arch.starts_with("gfx9") {
            using.compute.submit(&[], &[wait])?;
        }
        let grown = using.device.load(&using.images[1]);
        gate.set(1)?;
        using.made.push(Box::new(grown?));
        using.sum(0)?;
        using.sum(1)
    }),
    ("a graph of two queues", |using| {
        let step = using.device.load(&using.images[2])?;
        let to = memory(&*using.device, MemoryKind::Host, 256)?;
        let mut builder = GraphBuilder::new();
        let shared: Arc<dyn Device> = using.device.clone();
        let (run, copy) = (
            builder.lane(&shared, &using.compute),
            builder.lane(&shared, &using.copy),
        );
        let span = |b: &Buffer| Span::at(b.va().0, 256);
        using.data.write(0, &[0; 256])?;
        for value in 1..=3 {
            let work = Work::Exec {
                program: step.clone(),
                args: vec![at(&using.data), Val::Const(value)],
                grid: [64, 1, 1],
                block: [1, 1, 1],
            };
            builder.add(run, "step", work, [span(&using.data)], [span(&using.data)]);
        }
        let work = Work::Copy {
            dst: at(&to),
            src: at(&using.data),
            bytes: 256,
        };
        builder.add(copy, "copy", work, [span(&using.data)], [span(&to)]);
        let mut graph = builder.build()?;
        graph.replay(&[], &[], soon())?;
        graph.wait(soon())?;
        assert_eq!(words(&to)?, [18; 64]);
        using.made.push(Box::new(graph));
        Ok(())
    }),
    ("a submission larger than all arguments", |using| {
        let step = using.device.load(&using.images[2])?;
        using.data.write(0, &[0; 256])?;
        let args = [at(&using.data), Val::Const(1)];
        let exec = Command::Exec {
            program: &step,
            args: &args,
            grid: [1, 1, 1],
            block: [1, 1, 1],
        };
        let barrier = Command::Barrier {
            scope: hcq::Scope::Queue,
        };
        let all = [exec, barrier].repeat(4200);
        using.compute.submit(&[], &all)?.wait(soon())?;
        assert_eq!(words(&using.data)?[1..], [0; 63]);
        Ok(())
    }),
    ("more small buffers than an arena has", |using| {
        for kind in [MemoryKind::Host, MemoryKind::Device] {
            for _ in 0..40 {
                let buffer = memory(&*using.device, kind, 64 << 10)?;
                buffer.write(0, &[1; 64])?;
                using.made.push(Box::new(buffer));
            }
        }
        Ok(())
    }),
    ("staging", |using| {
        let buffer = memory(&*using.device, MemoryKind::Device, 3 << 19)?;
        let content: Vec<u8> = (0..3u32 << 19).map(|i| (i % 251) as u8).collect();
        buffer.write(0, &content)?;
        let mut seen = vec![0; content.len()];
        buffer.read(0, &mut seen)?;
        assert!(seen == content);
        using.made.push(Box::new(buffer));
        Ok(())
    }),
    ("signals", |using| {
        for _ in 0..100 {
            let signal = using.device.signal("one of many")?;
            using.made.push(Box::new(signal));
        }
        Ok(())
    }),
];

impl Use {
    fn new(machine: &Arc<dyn Machine>, images: [KernelImage; 3]) -> Result<Use> {
        let device = drivers_amd::open(machine, 0, &stand::options())?;
        Ok(Use {
            compute: Stream::new(device.queue(QueueKind::Compute, 0)?),
            copy: Stream::new(device.queue(QueueKind::Copy, 0)?),
            data: memory(&*device, MemoryKind::Host, 1024)?,
            device,
            images,
            made: Vec::new(),
        })
    }

    /// Runs a kernel that sums 16 bytes, and looks at the result.
    fn sum(&mut self, image: usize) -> Result<()> {
        let program = self.device.load(&self.images[image])?;
        let out = memory(&*self.device, MemoryKind::Host, 256)?;
        self.data.write(0, &[2; 1024])?;
        let args = [at(&out), at(&self.data)];
        let exec = Command::Exec {
            program: &program,
            args: &args,
            grid: [64, 1, 1],
            block: [1, 1, 1],
        };
        self.compute.submit(&[], &[exec])?.wait(soon())?;
        assert_eq!(words(&out)?, [32; 64]);
        Ok(())
    }
}

fn words(buffer: &Buffer) -> Result<Vec<u32>> {
    let mut bytes = [0; 256];
    buffer.read(0, &mut bytes)?;
    let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    Ok(bytes.chunks_exact(4).map(word).collect())
}

/// Does something until it is not refused: twice at most.
fn insist<T>(
    what: &str,
    mut refused: impl FnMut(&Error),
    mut work: impl FnMut() -> Result<T>,
) -> T {
    for _ in 0..2 {
        match work() {
            Ok(done) => return done,
            Err(error) => {
                assert!(error.to_string().contains("AMD:0"), "{what}: {error}");
                refused(&error);
            }
        }
    }
    work().unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Uses a device, while a call is refused twice in a row; what fails is done again on the same device,
/// and works. Says whether calls were refused, and in which steps that was felt.
fn refused_in_use(
    config: &str,
    call: &str,
    nth: u32,
    images: &[KernelImage; 3],
) -> (bool, Vec<&'static str>) {
    let faults = format!("ioctl:{call}:{nth};ioctl:{call}:{}", nth + 1);
    let twin = stand::twin(&format!("{config},vram=2G,gtt=1G,fault={faults}"));
    let machine = stand::machine(&twin);
    let mut using = insist(&faults, |_| (), || Use::new(&machine, images.clone()));
    if twin.machine().faults_fired() == 2 {
        // Both while it was opened.
        return (true, Vec::new());
    }
    let mut felt = Vec::new();
    for (name, step) in STEPS {
        let what = format!("{faults}, {name}");
        let device = using.device.clone();
        let refused = |error: &Error| {
            let is_full = matches!(error, Error::OutOfMemory { .. });
            // ENOMEM for a queue is that there is none left, not that memory is.
            let of_memory = call.ends_with("ENOMEM") && !call.starts_with("CREATE_QUEUE");
            assert!(is_full || !of_memory, "{what}: {error}");
            device.status().unwrap();
            felt.push(name);
        };
        insist(&what, refused, || step(&mut using));
    }
    let fired = twin.machine().faults_fired();
    assert!(felt.len() as u64 <= fired as u64, "{faults}: {felt:?}");
    drop(using);
    assert_eq!(leaks(&twin), [""; 0], "{faults}");
    let broken = twin.machine().journal.violations();
    let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "{faults}: {}", broken.join("\n"));
    (fired > 0, felt)
}

/// Each call of that name, of the part, is refused in its turn. Returns the steps in which that was
/// felt.
fn each_call_in_use(
    config: &str,
    call: &str,
    part: Part,
    images: &[KernelImage; 3],
) -> Vec<&'static str> {
    let mut steps = Vec::new();
    for n in (1..200).filter(|n| part.has(*n as usize, 3)) {
        let (fired, felt) = refused_in_use(config, call, n, images);
        if !fired {
            assert!(n != 1, "{call} is never called");
            return steps;
        }
        steps.extend(felt);
    }
    panic!("200 calls of {call}");
}

fn refusals_in_use(config: &str, arch: &str, calls: &[&str]) {
    let images = [("sums", 2), ("deep", 2), ("step", 2)];
    let images = images.map(|(entry, args)| stand::kernel(arch, entry, args));
    let part = Part::chosen();
    for call in calls {
        let steps = each_call_in_use(config, call, part, &images);
        if call.starts_with("ALLOC") && part.is_all() {
            // Not the graph, and not signals: they fit what is there.
            for name in [STEPS[0].0, STEPS[1].0, STEPS[3].0, STEPS[4].0, STEPS[5].0] {
                assert!(steps.contains(&name), "{call}: {name} was never refused");
            }
        }
    }
}

#[test]
fn a_device_stays_usable_where_memory_is_refused_in_use() {
    let calls = ["ALLOC_MEMORY_OF_GPU:ENOMEM", "MAP_MEMORY_TO_GPU:ENOMEM"];
    refusals_in_use("chip=gfx1100", "gfx1100", &calls);
}

/// With AQL, which is told of scratch.
#[test]
fn a_device_stays_usable_where_calls_are_refused_in_use() {
    let calls = [
        "ALLOC_MEMORY_OF_GPU:ENOMEM",
        "UPDATE_QUEUE:EINVAL",
        "CREATE_QUEUE:ENOMEM",
        "CREATE_EVENT:ENOMEM",
    ];
    refusals_in_use("chip=gfx942,xcc=1", "gfx942", &calls);
}
