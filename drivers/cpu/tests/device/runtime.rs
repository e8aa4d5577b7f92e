//! Queues in front of a runtime, which is made up here: memory at addresses of its own, and work that ends later.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_cpu::runtime::{About, Allocated, Host, Loaded, Runtime, Said, Work};
use drivers_cpu::{RuntimeConfig, open_runtime};
use hcq::{
    AllocSpec, ArgLayout, Buffer, Command, Compare, Deadline, Device, DeviceId, Error, KernelImage,
    MemoryKind, QueueKind, Stream, Val, Width,
};

/// Where its memory begins.
const FIRST: u64 = 1 << 60;
const BYTES: u64 = 64 << 20;

/// What the runtime has.
#[derive(Default)]
struct State {
    memory: Mutex<Vec<u8>>,
    next: Mutex<u64>,
    /// Looks until work is done.
    looks: AtomicU32,
    hangs: AtomicBool,
    /// Calls do not return.
    blocks: AtomicBool,
    /// Memory that was let go.
    freed: Arc<AtomicU32>,
}

struct Fake {
    id: DeviceId,
    about: About,
    state: Arc<State>,
}

/// Counts that memory is let go.
struct Freed(Arc<AtomicU32>);

impl Drop for Freed {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Queue {
    state: Arc<State>,
    left: u32,
    found: Vec<u8>,
}

impl Queue {
    fn begin(&mut self) {
        self.left = self.state.looks.load(Ordering::Relaxed);
    }

    /// The bytes at an address.
    fn with<T>(&self, at: u64, bytes: usize, on: impl FnOnce(&mut [u8]) -> T) -> Said<T> {
        let mut memory = self.state.memory.lock().unwrap();
        let from = (at - FIRST) as usize;
        let part = memory.get_mut(from..from.saturating_add(bytes));
        Ok(on(part.ok_or("in no memory")?))
    }
}

impl Runtime for Fake {
    fn id(&self) -> &DeviceId {
        &self.id
    }

    fn about(&self) -> &About {
        &self.about
    }

    fn memory(&self, bytes: u64, align: u64) -> hcq::Result<Allocated> {
        let mut next = self.state.next.lock().unwrap();
        let start = next.next_multiple_of(align);
        if start + bytes > BYTES {
            return Err(self.failed("memory", "it is full".into()));
        }
        *next = start + bytes;
        Ok(Allocated {
            va: FIRST + start,
            bytes,
            owner: Box::new(Freed(self.state.freed.clone())),
        })
    }

    fn load(&self, image: &KernelImage) -> Said<Loaded> {
        match &*image.name {
            "count" => Ok(Loaded {
                entry: 7,
                items: 4,
                owner: Box::new(()),
            }),
            other => Err(format!("no kernel {other}")),
        }
    }

    fn queue(&self, _: QueueKind, _: u32) -> hcq::Result<Box<dyn Work>> {
        Ok(Box::new(Queue {
            state: self.state.clone(),
            left: 0,
            found: Vec::new(),
        }))
    }
}

impl Work for Queue {
    fn owns(&self, at: u64) -> bool {
        at >= FIRST
    }

    /// Adds to each byte.
    fn exec(&mut self, entry: u64, groups: u64, args: &[u32], host: &Host<'_>) -> Said<()> {
        assert_eq!(entry, 7);
        self.begin();
        let at = u64::from(args[0]) | u64::from(args[1]) << 32;
        if !self.owns(at) {
            let known = host(at).ok_or(format!("argument 0 is {at:#x}, in no buffer"))?;
            assert!(known.contains(&at));
            return Ok(());
        }
        self.with(at, groups as usize * 4, |part| {
            part.iter_mut().for_each(|byte| *byte += 1);
        })
    }

    fn copy(&mut self, dst: u64, src: u64, bytes: u64) -> Said<()> {
        self.begin();
        let count = bytes as usize;
        // SAFETY: the processor hands over memory of the process only where it is, see `Work::copy`.
        let of_host = |at: u64| unsafe { std::slice::from_raw_parts_mut(at as *mut u8, count) };
        match (self.owns(dst), self.owns(src)) {
            (true, false) => self.with(dst, count, |part| part.copy_from_slice(of_host(src))),
            (false, true) => self.with(src, count, |part| of_host(dst).copy_from_slice(part)),
            _ => {
                let from = self.with(src, count, |part| part.to_vec())?;
                self.with(dst, count, |part| part.copy_from_slice(&from))
            }
        }
    }

    fn fill(&mut self, at: u64, value: u32, bytes: u64) -> Said<()> {
        while self.state.blocks.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.begin();
        self.with(at, bytes as usize, |part| {
            let words = part.chunks_exact_mut(4);
            words.for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
        })
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Said<()> {
        self.begin();
        self.with(at, bytes.len(), |part| part.copy_from_slice(bytes))
    }

    fn read(&mut self, at: u64, bytes: usize) -> Said<()> {
        self.begin();
        self.found = self.with(at, bytes, |part| part.to_vec())?;
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        assert_eq!(self.left, 0, "it was not waited for");
        &self.found
    }

    fn is_done(&mut self) -> Said<bool> {
        if self.state.hangs.load(Ordering::Relaxed) {
            return Ok(false);
        }
        self.left = self.left.saturating_sub(1);
        Ok(self.left == 0)
    }
}

fn open() -> (Arc<State>, Arc<dyn Device>, Stream) {
    let state = Arc::new(State::default());
    *state.memory.lock().unwrap() = vec![0; BYTES as usize];
    state.looks.store(20, Ordering::Relaxed);
    let fake = Fake {
        id: DeviceId::new("FAKE", 0),
        about: About {
            interface: "FAKE",
            place: "here".into(),
            arch: "fake".into(),
            name: "a runtime".into(),
            units: 2,
            memory: BYTES,
            subnormals: true,
        },
        state: state.clone(),
    };
    let config = RuntimeConfig {
        drain_timeout: Duration::from_millis(50),
        ..RuntimeConfig::default()
    };
    let device = open_runtime(Arc::new(fake), config).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    (state, device, stream)
}

fn image(name: &str, arch: &str) -> KernelImage {
    KernelImage {
        name: name.into(),
        arch: arch.into(),
        bytes: Arc::new([]),
        entry: name.into(),
        args: ArgLayout::buffers(1),
        local_bytes: 0,
    }
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

fn at(buffer: &Buffer) -> Val {
    Val::Const(buffer.va().0)
}

fn bytes(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.bytes() as usize];
    buffer.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_is_handed_over_is_done_before_it_is_seen() {
    let (_, device, stream) = open();
    assert_eq!((device.info().interface, device.info().units), ("FAKE", 2));
    let count = device.load(&image("count", "fake")).unwrap();
    let memory = device.alloc(AllocSpec::device(100 << 10)).unwrap();
    let part = memory.slice(4, 8).unwrap();
    part.write(0, &[1; 8]).unwrap();
    let args = [at(&part)];
    let launch = |items| Command::Exec {
        program: &count,
        args: &args,
        grid: [2, 1, 1],
        block: [items, 1, 1],
    };
    let spec = AllocSpec {
        kind: MemoryKind::Host,
        zeroed: true,
        ..AllocSpec::device(8)
    };
    let host = device.alloc(spec).unwrap();
    let commands = [
        launch(4),
        Command::Copy {
            dst: at(&host),
            src: at(&part),
            bytes: 8,
        },
        Command::Write {
            at: at(&part),
            value: Val::Const(0x0101),
            width: Width::W32,
        },
        Command::Poll {
            at: at(&part),
            mask: 0xff,
            value: Val::Const(1),
            compare: Compare::Equal,
            width: Width::W32,
        },
        launch(4),
    ];
    stream.submit(&[], &commands).unwrap().wait(soon()).unwrap();
    assert_eq!(bytes(&host), [2; 8]);
    assert_eq!(bytes(&part), [2, 2, 1, 1, 3, 3, 3, 3]);
    let error = stream.submit(&[], &[launch(1)]).unwrap_err().to_string();
    assert!(error.contains("built for [4, 1, 1]"), "{error}");
    for (wrong, text) in [
        (image("other", "fake"), "no kernel other"),
        (image("count", "x86_64"), "this device runs fake"),
    ] {
        let error = device.load(&wrong).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn memory_that_is_not_there_loses_the_device_and_not_the_process() {
    type Make = fn(&Buffer) -> Command<'static>;
    let nowhere = Val::Const(0x4560);
    let commands: [(Make, &str); 3] = [
        (
            |buffer| Command::Copy {
                dst: at(buffer),
                src: Val::Const(0x4560),
                bytes: 64,
            },
            "COPY",
        ),
        (
            |buffer| Command::Copy {
                dst: Val::Const(0x4560),
                src: at(buffer),
                bytes: 64,
            },
            "COPY",
        ),
        (
            |_| Command::Fill {
                at: Val::Const(FIRST + (1 << 40)),
                value: 0,
                bytes: 4,
            },
            "in no memory",
        ),
    ];
    for (command, text) in commands {
        let (_, device, stream) = open();
        let memory = device.alloc(AllocSpec::device(64)).unwrap();
        let done = stream.submit(&[], &[command(&memory)]).unwrap();
        let error = done.wait(soon()).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
        assert!(device.status().is_err());
    }
    let (_, device, stream) = open();
    let count = device.load(&image("count", "fake")).unwrap();
    let launch = Command::Exec {
        program: &count,
        args: &[nowhere],
        grid: [1, 1, 1],
        block: [4, 1, 1],
    };
    let error = stream.submit(&[], &[launch]).unwrap().wait(soon());
    let text = error.unwrap_err().to_string();
    assert!(
        text.contains("kernel count") && text.contains("0x4560"),
        "{text}"
    );
}

#[test]
fn work_that_never_ends_is_a_silence_and_keeps_its_memory() {
    let (state, device, stream) = open();
    let memory = device.alloc(AllocSpec::device(64)).unwrap();
    state.hangs.store(true, Ordering::Relaxed);
    let fill = Command::Fill {
        at: at(&memory),
        value: 1,
        bytes: 64,
    };
    let done = stream.submit(&[], &[fill]).unwrap();
    let error = done
        .wait(Deadline::after(Duration::from_millis(50)))
        .unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    // A wait that ends too early loses nothing.
    state.hangs.store(false, Ordering::Relaxed);
    done.wait(soon()).unwrap();
    state.hangs.store(true, Ordering::Relaxed);
    let done = stream.submit(&[], &[fill]).unwrap();
    device.lose(Error::Fault {
        device: device.info().id.clone(),
        unit: "test".into(),
        what: "given up".into(),
    });
    let error = done.wait(soon()).unwrap_err().to_string();
    assert!(error.contains("given up"), "{error}");
    drop((memory, stream, done, device));
    assert_eq!(state.freed.load(Ordering::Relaxed), 0);
}

/// A fault ends a queue; what was handed over before it may go on, and has its memory as long as it does.
#[test]
fn memory_is_let_go_once_a_queue_that_failed_is_done() {
    for hangs in [false, true] {
        let (state, device, stream) = open();
        let memory = device.alloc(AllocSpec::device(64)).unwrap();
        state.hangs.store(hangs, Ordering::Relaxed);
        let fill = |at| Command::Fill {
            at,
            value: 1,
            bytes: 64,
        };
        let nowhere = Val::Const(FIRST + (1 << 40));
        let commands = [fill(at(&memory)), fill(nowhere)];
        let done = stream.submit(&[], &commands).unwrap();
        let error = done.wait(soon()).unwrap_err().to_string();
        assert!(error.contains("in no memory"), "{error}");
        drop((memory, stream, done, device));
        let freed = state.freed.load(Ordering::Relaxed);
        assert_eq!(freed == 0, hangs, "{freed} freed");
    }
}

#[test]
fn a_call_that_does_not_return_does_not_hold_the_end_of_a_device() {
    let (state, device, stream) = open();
    let memory = device.alloc(AllocSpec::device(64)).unwrap();
    state.blocks.store(true, Ordering::Relaxed);
    let fill = Command::Fill {
        at: at(&memory),
        value: 1,
        bytes: 64,
    };
    let done = stream.submit(&[], &[fill]).unwrap();
    drop((memory, stream, done, device));
    assert_eq!(state.freed.load(Ordering::Relaxed), 0);
    state.blocks.store(false, Ordering::Relaxed);
}
