//! A queue without a ring: submissions are calls that are numbered, and memory is the host's.

// A test ends where it cannot go on.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod made;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use hcq::graph::{GraphBuilder, Work};
use hcq::progress::{self, Asked};
use hcq::{
    AllocSpec, Buffer, Command, Deadline, Device, Error, Program, QueueKind, Signal, Span, Stream,
    Val,
};
use made::{Machine, PLACES, SHARE};

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(10))
}

fn zeroed(bytes: u64) -> AllocSpec {
    AllocSpec {
        zeroed: true,
        ..AllocSpec::device(bytes)
    }
}

fn stream(device: &impl Device) -> Stream {
    Stream::new(device.queue(QueueKind::Compute, 0).unwrap())
}

fn at(buffer: &Buffer) -> Val {
    Val::Const(buffer.va().0)
}

fn number(buffer: &Buffer) -> u64 {
    let mut bytes = [0; 8];
    buffer.read(0, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

fn add<'a>(program: &'a Program, args: &'a [Val]) -> Command<'a> {
    Command::Exec {
        program,
        args,
        grid: [1; 3],
        block: [1; 3],
    }
}

fn wait_for(signal: &Signal, value: u64) -> Command<'_> {
    let value = value.into();
    Command::Wait { signal, value }
}

#[test]
fn calls_run_in_order_and_are_waited_for() {
    let machine = Machine::new(0);
    let device = made::open(&machine);
    let program = device.load(&made::add()).unwrap();
    let data = device.alloc(zeroed(8)).unwrap();
    let stream = stream(&*device);
    // More than there are places for at a time.
    for i in 1..=5 * PLACES {
        let args = [at(&data), Val::Const(i)];
        stream.submit(&[], &[add(&program, &args)]).unwrap();
    }
    let sum: u64 = (1..=5 * PLACES).sum();
    let copy = device.alloc(AllocSpec::device(8)).unwrap();
    let command = Command::Copy {
        dst: at(&copy),
        src: at(&data),
        bytes: 8,
    };
    let done = stream.submit(&[], &[command]).unwrap();
    done.wait(soon()).unwrap();
    assert_eq!((number(&copy), done.value), (sum, 5 * PLACES + 1));
    device.synchronize(soon()).unwrap();
}

#[test]
fn a_graph_replays_from_memory() {
    let machine = Machine::new(0);
    let device = made::open(&machine);
    let program = device.load(&made::add()).unwrap();
    let data = device.alloc(zeroed(8)).unwrap();
    let stream = stream(&*device);
    let mut builder = GraphBuilder::new();
    let shared: Arc<dyn Device> = device.clone();
    let lane = builder.lane(&shared, &stream);
    let slot = builder.slot().unwrap();
    let span = Span::at(data.va().0, 8);
    for i in 0..3 {
        let work = Work::Exec {
            program: program.clone(),
            args: vec![at(&data), Val::Slot(slot, i)],
            grid: [1; 3],
            block: [1; 3],
        };
        builder.add(lane, "add", work, [span], [span]);
    }
    let mut graph = builder.build().unwrap();
    for value in 1..=20 {
        let before = number(&data);
        graph.replay(&[value], &[], soon()).unwrap();
        graph.wait(soon()).unwrap();
        assert_eq!(number(&data), before + 3 * value + 3);
    }
    // What it is made of goes once it is over, while it runs.
    let gate = device.signal("gate").unwrap();
    let held = stream.submit(&[], &[wait_for(&gate, 1)]).unwrap();
    graph.replay(&[1], &[], soon()).unwrap();
    drop(graph);
    gate.set(1).unwrap();
    held.wait(soon()).unwrap();
    device.synchronize(soon()).unwrap();
}

#[test]
fn what_is_let_go_in_the_midst_of_a_submission_stays_until_that_is_done() {
    let machine = Machine::new(0);
    let device = made::open(&machine);
    let (stream, data) = (stream(&*device), device.alloc(zeroed(16)).unwrap());
    let shared: Arc<dyn Device> = device.clone();
    let mut builder = GraphBuilder::new();
    let lane = builder.lane(&shared, &stream);
    let (src, dst) = (at(&data), Val::Const(data.va().0 + 8));
    let work = Work::Copy { dst, src, bytes: 8 };
    builder.add(lane, "copy", work, [], []);
    let kept = Arc::new(());
    let named = Arc::downgrade(&kept);
    builder.keep(kept);
    let mut graph = builder.build().unwrap();
    graph.replay(&[], &[], soon()).unwrap();
    graph.wait(soon()).unwrap();
    // All places are taken, so that the next submission waits for one.
    let (first, second) = (
        device.signal("first").unwrap(),
        device.signal("second").unwrap(),
    );
    let mut held = Vec::new();
    for _ in 0..PLACES {
        held.push(stream.submit(&[], &[wait_for(&first, 1)]).unwrap());
    }
    let last = held.pop().unwrap();
    let opened = first.clone();
    *machine.at_look.lock().unwrap() = Some(Box::new(move || {
        drop(graph);
        opened.set(1).unwrap();
        last.wait(soon()).unwrap();
    }));
    let next = stream.submit(&[], &[wait_for(&second, 1)]).unwrap();
    assert!(machine.at_look.lock().unwrap().is_none());
    assert!(named.upgrade().is_some());
    second.set(1).unwrap();
    next.wait(soon()).unwrap();
    device.synchronize(soon()).unwrap();
    assert!(named.upgrade().is_none());
}

#[test]
fn a_submission_without_packets_is_refused() {
    let machine = Machine::new(0);
    let device = made::open(&machine);
    let (stream, queue) = (
        stream(&*device),
        device.queue(QueueKind::Compute, 0).unwrap(),
    );
    let timeline = queue.timeline();
    let error = timeline.submit(|turn| queue.submit(turn)).unwrap_err();
    assert!(error.to_string().contains("empty submission"), "{error}");
    stream.submit(&[], &[]).unwrap().wait(soon()).unwrap();
}

#[test]
fn memory_is_the_hosts_and_kept_up_to_a_quarter_of_the_share() {
    let machine = Machine::new(0);
    let device = made::open(&machine);
    assert_eq!(device.memory().total, SHARE);
    let large = AllocSpec::device(SHARE / 8);
    let buffer = device.alloc(large).unwrap();
    // The host writes where the device reads: nobody copies.
    let view = buffer.view().unwrap();
    view.write(8, 7u64).unwrap();
    let mut bytes = [0; 8];
    buffer.read(8, &mut bytes).unwrap();
    assert_eq!(u64::from_le_bytes(bytes), 7);
    drop(view);
    let others = [large; 2].map(|spec| device.alloc(spec).unwrap());
    drop((buffer, others));
    assert_eq!(
        (device.memory().used, device.memory().cached),
        (0, SHARE / 4)
    );
    let error = device.alloc(AllocSpec::device(SHARE + 1)).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { total: SHARE, .. }));
}

#[test]
fn a_stalled_queue_says_at_what_call_it_stands() {
    let machine = Machine::new(0);
    let device = made::open(&machine);
    let (stream, gate) = (stream(&*device), device.signal("gate").unwrap());
    stream.submit(&[], &[]).unwrap().wait(soon()).unwrap();
    let stalled = stream.submit(&[], &[wait_for(&gate, 3)]).unwrap();
    let short = Deadline::after(Duration::from_millis(30));
    let error = stalled.wait(short).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    let told = error.to_string();
    let expected = "submission 2, 1 done, at submission 2: a wait for memory at";
    assert!(told.contains(expected), "{told}");
    assert!(
        told.contains("signal gate") && told.contains(">= 0x3, which is 0x0"),
        "{told}"
    );
    // No place is left, and one submission waits for it in vain.
    for _ in 1..PLACES {
        stream.submit(&[], &[]).unwrap();
    }
    let error = stream.submit(&[], &[]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("free places for submissions of compute 0"),
        "{error}"
    );
    // Nothing is lost by all that.
    gate.set(3).unwrap();
    stalled.wait(soon()).unwrap();
    let last = stream.submit(&[], &[]).unwrap();
    assert_eq!(last.value, PLACES + 2);
    last.wait(soon()).unwrap();
}

#[test]
fn what_is_refused_is_not_submitted() {
    let machine = Machine::new(0);
    let device = made::open(&machine);
    let stream = stream(&*device);
    stream.submit(&[], &[]).unwrap();
    machine.refuses.store(true, Ordering::Relaxed);
    let error = stream.submit(&[], &[]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Os {
                errno: Some(12),
                ..
            }
        ),
        "{error}"
    );
    let next = stream.submit(&[], &[]).unwrap();
    assert_eq!(next.value, 2);
    next.wait(soon()).unwrap();
    device.status().unwrap();
}

#[test]
fn the_end_of_a_stalled_device_frees_all_memory() {
    let machine = Machine::new(0);
    let device = made::open(&machine);
    let data = device.alloc(AllocSpec::device(8)).unwrap();
    let (stream, gate) = (stream(&*device), device.signal("gate").unwrap());
    let command = Command::Fill {
        at: at(&data),
        value: 1,
        bytes: 8,
    };
    let stalled = stream.submit(&[], &[wait_for(&gate, 1), command]).unwrap();
    assert!(machine.objects() > 0);
    drop((device, stream));
    let error = stalled.wait(soon()).unwrap_err().to_string();
    assert!(error.contains("device is closed"), "{error}");
    assert_eq!(number(&data), 0);
    drop((data, gate, stalled));
    assert_eq!(machine.objects(), 0);
}

#[test]
fn without_a_copy_queue_a_compute_queue_copies_for_the_host() {
    let machine = Machine::new(SHARE);
    let device = made::open(&machine);
    let buffer = device.alloc(AllocSpec::device(5 << 20)).unwrap();
    let bytes: Vec<u8> = (0..buffer.bytes()).map(|i| (i % 251) as u8).collect();
    // What the user submits does not hold it.
    let (stream, gate) = (stream(&*device), device.signal("gate").unwrap());
    let held = stream.submit(&[], &[wait_for(&gate, 1)]).unwrap();
    buffer.write(0, &bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    buffer.read(0, &mut back).unwrap();
    assert!(back == bytes);
    let zeroed = device.alloc(zeroed(1 << 20)).unwrap();
    zeroed.read(0, &mut back[..1 << 20]).unwrap();
    assert!(back[..1 << 20].iter().all(|&byte| byte == 0));
    gate.set(1).unwrap();
    held.wait(soon()).unwrap();
}

/// Queues that take long to tell, of a signal that nobody else has.
struct Slow(Barrier);

impl progress::Queues for Slow {
    fn raising(&self, at: u64, _: &mut Asked) -> Option<Duration> {
        if at == 0x5107 {
            self.0.wait();
            self.0.wait();
        }
        None
    }
}

/// Who asks all devices whether anything moves has them all meanwhile.
#[test]
fn a_device_ends_where_its_last_handle_goes_whoever_looks_at_it() {
    let machine = Machine::new(0);
    let device = made::open(&machine);
    let slow = Arc::new(Slow(Barrier::new(2)));
    let watched: Arc<dyn progress::Queues> = slow.clone();
    progress::watch(Arc::downgrade(&watched));
    std::thread::scope(|scope| {
        scope.spawn(|| progress::raising(0x5107, &mut Asked::default()));
        slow.0.wait();
        drop(device);
        let left = machine.running();
        slow.0.wait();
        assert_eq!(left, 0, "its queue is destroyed");
    });
    assert_eq!(machine.objects(), 0);
}
