//! What a submission costs of doorbells, and what the log says of it.

#![allow(clippy::unwrap_used)] // A test may panic.

// The layer between us and the hardware counts here.
#[allow(dead_code)]
#[path = "mutations/mutant.rs"]
mod mutant;
mod stand;

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use drivers_nv::{Options, nvk};
use hcq::transport::Machine;
use hcq::{Command, Device, QueueKind, Scope, Stream, Val};
use mutant::{How, Mutant};
use stand::{at, first, memory, soon};
use twin_nv::machine::TwinMachine;

static RUNG: AtomicU64 = AtomicU64::new(0);

fn count(token: u32) -> u32 {
    RUNG.fetch_add(1, Ordering::Relaxed);
    token
}

#[test]
fn a_submission_and_a_replay_of_100_kernels_ring_once() {
    let twin = TwinMachine::new("chip=h100").unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let options = Options::default();
    let backend = nvk::open(&machine, 0, &options).unwrap();
    let device = drivers_nv::over(&Mutant::over(backend, How::Bell(count)), &options).unwrap();
    let program = device.load(&first(90)).unwrap();
    let data = memory(&*device, 4096);
    let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let mut graph = stand::chain(&device, &compute, &program, &data, 100, 100);
    let args = [at(&data), Val::Const(5), Val::Const(1)];
    let exec = Command::Exec {
        program: &program,
        args: &args,
        grid: [1, 1, 1],
        block: [64, 1, 1],
    };
    for round in 0..3 {
        let before = RUNG.load(Ordering::Relaxed);
        compute.submit(&[], &[exec, exec]).unwrap();
        assert_eq!(RUNG.load(Ordering::Relaxed) - before, 1);
        graph.replay(&[round], &[], soon()).unwrap();
        assert_eq!(RUNG.load(Ordering::Relaxed) - before, 2);
        graph.wait(soon()).unwrap();
        let mut found = [0; 4];
        data.read(0, &mut found).unwrap();
        assert_eq!(f32::from_le_bytes(found), round as f32 + 99.0 + 2.0);
    }
    assert_eq!(twin.machine().broken_rules(), [""; 0]);
}

/// The log of a thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn of(level: tracing::Level, work: impl FnOnce()) -> Vec<String> {
        let log = Log::default();
        let to = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .without_time()
            .with_writer(move || to.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, work);
        let text = log.0.lock().unwrap().clone();
        let text = String::from_utf8(text).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn the_log_says_what_push_buffers_do() {
    let (_twin, device) = stand::open("chip=ga102", &Options::default());
    let program = device.load(&first(86)).unwrap();
    let (data, other) = (memory(&*device, 4096), memory(&*device, 4096));
    let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let args = [at(&data), Val::Const(5), Val::Const(1)];
    let commands = [
        Command::Exec {
            program: &program,
            args: &args,
            grid: [1, 1, 1],
            block: [64, 1, 1],
        },
        Command::Barrier {
            scope: Scope::Queue,
        },
        Command::Copy {
            dst: at(&other),
            src: at(&data),
            bytes: 256,
        },
    ];
    let submit = || {
        let point = compute.submit(&[], &commands).unwrap();
        point.wait(soon()).unwrap();
    };
    let told = |lines: &[String]| lines.iter().filter(|l| l.contains("submitted")).count();
    let lines = Log::of(tracing::Level::DEBUG, submit);
    assert_eq!(told(&lines), 1, "{lines:?}");
    let line = lines
        .iter()
        .find(|line| line.contains("submitted"))
        .unwrap();
    for part in [
        "device=NV:0 queue=compute 0",
        "signal_value=1 ",
        "dwords=2 ",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let lines = Log::of(tracing::Level::TRACE, submit);
    assert_eq!(told(&lines), 1, "{lines:?}");
    let all = lines.join("\n");
    let timeline = compute.last().signal.va().0;
    let (from, to) = (data.va().0, other.va().0);
    for part in [
        "the launch of kernel first".into(),
        format!("a copy of 0x100 bytes from {from:#x} to {to:#x}"),
        format!("a signal at {timeline:#x} of 0x2"),
    ] {
        assert!(all.contains(&part), "{part}: {all}");
    }
    // Nobody listens, nothing is said.
    assert_eq!(told(&Log::of(tracing::Level::INFO, submit)), 0);
}
