//! Many submissions, many threads, and ends in the middle.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hcq::{Command, Error, QueueKind, Stream, Val, Width};

use crate::part::Part;
use crate::rig::{at, elements, exec, soon};
use crate::{Kernel, Rig, Subject};

/// More submissions than the ring holds, more than a hundred times over, all in order.
pub fn thousands_of_submissions_wrap_the_ring(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let step = rig.program(Kernel::Step);
    let data = rig.data(&[1]);
    let mut expected = 1u32;
    let mut last = None;
    let count = if Part::chosen().is_all() {
        10_000
    } else {
        2_500
    };
    for i in 0..count {
        let args = [at(&data), Val::Const(i)];
        last = Some(rig.compute.submit(&[], &[exec(&step, &args, 1)]).unwrap());
        expected = expected.wrapping_mul(3).wrapping_add(i as u32);
    }
    let last = last.unwrap();
    last.wait(soon()).unwrap();
    assert_eq!(last.value, count);
    assert_eq!(elements(&data), [expected]);
}

/// One submission of several rings' size.
pub fn a_submission_larger_than_the_ring_is_done_in_order(subject: &dyn Subject) {
    let rig = Rig::open(subject, 0, 256);
    let step = rig.program(Kernel::Step);
    let data = rig.data(&[1; 3]);
    let args: Vec<_> = (0..500u64).map(|i| [at(&data), Val::Const(i)]).collect();
    let barrier = Command::Barrier {
        scope: hcq::Scope::Queue,
    };
    let commands: Vec<_> = args
        .iter()
        .flat_map(|args| [exec(&step, args, 3), barrier])
        .collect();
    rig.compute
        .submit(&[], &commands)
        .unwrap()
        .wait(soon())
        .unwrap();
    let expected = (0..500).fold(1u32, |x, i| x.wrapping_mul(3).wrapping_add(i));
    assert_eq!(elements(&data), [expected; 3]);
}

/// The arguments of a submission of several rings' size stay its own until its end: also while its last part stands at a
/// wait, and another submission of that size is written.
pub fn the_last_part_of_a_large_submission_keeps_its_arguments(subject: &dyn Subject) {
    let rig = Rig::open(subject, 0, 256);
    let step = rig.program(Kernel::Step);
    let data = rig.data(&[1; 3]);
    let gate = rig.device.signal("gate").unwrap();
    let argument = |i: u64| [at(&data), Val::Const(i)];
    let first: Vec<_> = (0..302).map(argument).collect();
    let second: Vec<_> = (1000..1320).map(argument).collect();
    let barrier = Command::Barrier {
        scope: hcq::Scope::Queue,
    };
    let held = Command::Wait {
        signal: &gate,
        value: Val::Const(1),
    };
    let mut commands = Vec::new();
    for (i, args) in first.iter().enumerate() {
        if i == 300 {
            commands.push(held);
        }
        commands.extend([exec(&step, args, 3), barrier]);
    }
    // The ring holds the wait and what is behind it.
    rig.compute.submit(&[], &commands).unwrap();
    let more: Vec<_> = second
        .iter()
        .flat_map(|args| [exec(&step, args, 3), barrier])
        .collect();
    std::thread::scope(|scope| {
        let compute = rig.compute.clone();
        let submitted = scope.spawn(move || compute.submit(&[], &more).unwrap());
        // Its arguments are written, and its packets wait for room.
        std::thread::sleep(Duration::from_millis(100));
        gate.set(1).unwrap();
        submitted.join().unwrap().wait(soon()).unwrap();
    });
    let all = first.iter().chain(&second);
    let expected = all.fold(1u32, |x, [_, value]| {
        let Val::Const(value) = *value else {
            unreachable!()
        };
        x.wrapping_mul(3).wrapping_add(value as u32)
    });
    assert_eq!(elements(&data), [expected; 3]);
}

/// A ring that nobody drains fills up: the submission returns with an error that names it, and
/// goes on working once it is drained.
pub fn a_full_ring_holds_the_host_until_its_deadline(subject: &dyn Subject) {
    let rig = Rig::open(subject, 0, 64);
    let gate = rig.device.signal("gate").unwrap();
    let flag = rig.buffer(8);
    let held = Command::Wait {
        signal: &gate,
        value: Val::Const(1),
    };
    rig.compute.submit(&[], &[held]).unwrap();
    let mut accepted = 0u64;
    let error = loop {
        let write = Command::Write {
            at: at(&flag),
            value: Val::Const(accepted + 1),
            width: Width::W64,
        };
        match rig.compute.submit(&[], &[write]) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 1000, "a small ring holds less");
    };
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    // A kernel driver's queue holds submissions, not packets.
    let text = error.to_string();
    let full = ["ring", "places for submissions"];
    assert!(full.iter().any(|what| text.contains(what)), "{text}");
    gate.set(1).unwrap();
    rig.compute.wait(soon()).unwrap();
    assert_eq!(elements(&flag)[0] as u64, accepted);
    rig.compute.submit(&[], &[]).unwrap().wait(soon()).unwrap();
}

/// Submissions of four threads to one queue: none is lost, and points are all different.
pub fn four_threads_share_a_queue(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let step = rig.program(Kernel::Step);
    let data = rig.data(&[0; 4]);
    let failures = AtomicU32::new(0);
    let mut values = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|t| {
                let (rig, step, data, failures) = (&rig, &step, &data, &failures);
                scope.spawn(move || {
                    let mut values = Vec::new();
                    for i in 0..500u64 {
                        let args = [Val::Const(data.va().0 + t * 4), Val::Const(i)];
                        let done = rig.compute.submit(&[], &[exec(step, &args, 1)]).unwrap();
                        if i % 50 == 0 && done.wait(soon()).is_err() {
                            failures.fetch_add(1, Ordering::Relaxed);
                        }
                        values.push(done.value);
                    }
                    values
                })
            })
            .collect();
        let joined = threads.into_iter().flat_map(|t| t.join().unwrap());
        joined.collect::<Vec<u64>>()
    });
    assert_eq!(failures.load(Ordering::Relaxed), 0);
    rig.wait();
    let expected = (0..500).fold(0u32, |x, i| x.wrapping_mul(3).wrapping_add(i));
    assert_eq!(elements(&data), [expected; 4]);
    values.sort_unstable();
    assert!(values.iter().copied().eq(1..=2000));
}

/// Streams that know nothing of each other, over one queue: their points are all different, and what is
/// waited for is done.
pub fn streams_of_one_queue_share_its_timeline(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let step = rig.program(Kernel::Step);
    let data = rig.data(&[0; 3]);
    let mut values = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3u64)
            .map(|t| {
                let (rig, step, data) = (&rig, &step, &data);
                scope.spawn(move || {
                    let queue = rig.device.queue(QueueKind::Compute, 0).unwrap();
                    let stream = Stream::new(queue);
                    let mut expected = 0u32;
                    let step = |i: u64| {
                        let args = [Val::Const(data.va().0 + t * 4), Val::Const(i)];
                        let done = stream.submit(&[], &[exec(step, &args, 1)]).unwrap();
                        done.wait(soon()).unwrap();
                        expected = expected.wrapping_mul(3).wrapping_add(i as u32);
                        assert_eq!(elements(data)[t as usize], expected, "step {i} is over");
                        done.value
                    };
                    (0..100).map(step).collect::<Vec<u64>>()
                })
            })
            .collect();
        let joined = threads.into_iter().flat_map(|t| t.join().unwrap());
        joined.collect::<Vec<u64>>()
    });
    values.sort_unstable();
    assert!(values.iter().copied().eq(1..=300), "{values:?}");
}

/// Handles go in the middle of the work: what was submitted is done, and nothing hangs.
pub fn dropping_with_work_in_flight_ends(subject: &dyn Subject) {
    for round in 0..20 {
        let rig = Rig::new(subject);
        let step = rig.program(Kernel::Step);
        let data = rig.data(&[1; 64]);
        let args = [at(&data), Val::Const(1)];
        let mut last = rig.compute.last();
        for _ in 0..round * 10 {
            let copied = rig.copy.submit(&[last], &[]).unwrap();
            last = rig
                .compute
                .submit(&[copied], &[exec(&step, &args, 64)])
                .unwrap();
        }
        drop(rig);
        // The point is still good: its signal lives as long as it.
        last.wait(soon()).unwrap();
        let expected = (0..round * 10).fold(1u32, |x, _| x.wrapping_mul(3).wrapping_add(1));
        assert_eq!(elements(&data), [expected; 64]);
        drop(step);
    }
}

/// A wait that nobody will end does not hold the end of the device.
pub fn dropping_a_queue_that_waits_forever_ends(subject: &dyn Subject) {
    subject.waits_for_ever();
    let rig = Rig::new(subject);
    let never = rig.device.signal("never").unwrap();
    let wait = Command::Wait {
        signal: &never,
        value: Val::Const(1),
    };
    rig.compute.submit(&[], &[wait]).unwrap();
    let behind = rig.copy.submit(&[rig.compute.last()], &[]).unwrap();
    let queue = rig.compute.queue().clone();
    drop(rig);
    // The last handle of the queue ends it. Its point is not reached, and says why.
    assert!(!behind.reached().unwrap());
    drop(queue);
    assert!(matches!(behind.wait(soon()), Err(Error::DeviceLost { .. })));
}
