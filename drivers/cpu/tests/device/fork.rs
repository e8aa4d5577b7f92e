//! A forked child has the handles of a device and none of its threads: they give an error, dropping them
//! ends nothing, waits for nothing, and leaves the parent's device alone. The child opens one of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use drivers_cpu::{Config, CpuDevice};
use hcq::{Command, Deadline, QueueKind, Stream, Val};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, alarm, fork};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

#[test]
fn a_fork_drops_the_device_and_opens_its_own() {
    let device = CpuDevice::open(Config::default()).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let gate = device.signal("gate").unwrap();
    let wait = Command::Wait {
        signal: &gate,
        value: Val::Const(1),
    };
    let held = stream.submit(&[], &[wait]).unwrap();
    // SAFETY: the child uses no thread and no lock of the parent's, and ends without running anything
    // else.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            // Who hangs is ended by SIGALRM.
            alarm::set(20);
            let done = catch_unwind(AssertUnwindSafe(|| {
                let lost = stream.submit(&[], &[]).unwrap_err().to_string();
                assert!(lost.contains("opened before a fork"), "{lost}");
                drop((held, gate, stream, device));
                work_on_a_device_of_its_own();
            }));
            // SAFETY: always allowed.
            unsafe { libc::_exit(if done.is_ok() { 7 } else { 1 }) }
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 7)));
        }
    }
    gate.set(1).unwrap();
    held.wait(Deadline::after(Duration::from_secs(60))).unwrap();
}

/// Counts what is said aloud.
struct Said;

static SAID: AtomicU32 = AtomicU32::new(0);

impl Subscriber for Said {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        *of.level() <= Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {
        SAID.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A thread of the parent's waits for room in a ring, and has its queue locked for that.
#[test]
fn a_fork_lets_go_of_a_queue_that_is_locked_and_says_nothing() {
    let device = CpuDevice::open(Config {
        ring_words: 16,
        ..Config::default()
    })
    .unwrap();
    let gate = device.signal("gate").unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let (stream, count) = (Box::leak(Box::new(stream)), AtomicU32::new(0));
    let place: *mut Stream = stream;
    let stream = &*stream;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let wait = Command::Wait {
                signal: &gate,
                value: Val::Const(1),
            };
            stream.submit(&[], &[wait]).unwrap();
            for _ in 0..100 {
                count.fetch_add(1, Ordering::Relaxed);
                stream.submit(&[], &[]).unwrap();
            }
        });
        let mut before = 0;
        while before == 0 || before != count.load(Ordering::Relaxed) {
            before = count.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(before < 100, "the ring is full");
        // SAFETY: as above.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                alarm::set(10);
                let done = catch_unwind(AssertUnwindSafe(|| {
                    let lost = stream.submit(&[], &[]).unwrap_err().to_string();
                    assert!(lost.contains("opened before a fork"), "{lost}");
                    tracing::subscriber::set_global_default(Said).unwrap();
                    // SAFETY: the thread that uses it is not here.
                    drop((unsafe { Box::from_raw(place) }, device));
                    assert_eq!(SAID.load(Ordering::Relaxed), 0);
                }));
                // SAFETY: always allowed.
                unsafe { libc::_exit(if done.is_ok() { 7 } else { 1 }) }
            }
            ForkResult::Parent { child } => {
                assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 7)));
            }
        }
        gate.set(1).unwrap();
    });
}

fn work_on_a_device_of_its_own() {
    let device = CpuDevice::open(Config::default()).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let done = device.signal("done").unwrap();
    let signal = Command::Signal {
        signal: &done,
        value: Val::Const(3),
    };
    let point = stream.submit(&[], &[signal]).unwrap();
    let deadline = Deadline::after(Duration::from_secs(10));
    point.wait(deadline).unwrap();
    assert_eq!(done.value().unwrap(), 3);
}
