//! What comes before what.

use hcq::{Command, Compare, Error, Scope, Val, Width};

use crate::rig::{at, copy, elements, exec, soon};
use crate::{Kernel, Rig, Subject};

/// A wait on a signal that the host raises later holds everything behind it.
pub fn waits_hold_the_queue_until_the_signal(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let gate = rig.device.signal("gate").unwrap();
    let flag = rig.buffer(8);
    let write = |value| Command::Write {
        at: at(&flag),
        value: Val::Const(value),
        width: Width::W64,
    };
    let wait = Command::Wait {
        signal: &gate,
        value: Val::Const(5),
    };
    let first = rig.compute.submit(&[], &[write(1)]).unwrap();
    let second = rig.compute.submit(&[], &[wait, write(2)]).unwrap();
    first.wait(soon()).unwrap();
    for value in 0..5 {
        gate.set(value).unwrap();
        assert_eq!(gate.value().unwrap(), value);
        for _ in 0..100 {
            std::thread::yield_now();
        }
        assert!(
            !second.reached().unwrap(),
            "5 is waited for, {value} is there"
        );
        assert_eq!(elements(&flag)[0], 1);
    }
    gate.set(7).unwrap();
    second.wait(soon()).unwrap();
    assert!(second.reached().unwrap() && first.reached().unwrap());
    assert_eq!(elements(&flag)[0], 2);
}

/// Launches and copies behind a barrier see what was done before it.
pub fn commands_of_a_queue_see_what_came_before(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let step = rig.program(Kernel::Step);
    let (a, b) = (rig.data(&[1; 500]), rig.data(&[0; 500]));
    let barrier = Command::Barrier {
        scope: Scope::Queue,
    };
    let mut expected = 1u32;
    for value in 0..50u64 {
        let on_a = [at(&a), Val::Const(value)];
        let on_b = [at(&b), Val::Const(7)];
        let commands = [
            exec(&step, &on_a, 500),
            barrier,
            copy(&b, &a),
            barrier,
            exec(&step, &on_b, 500),
            barrier,
            copy(&a, &b),
            barrier,
        ];
        rig.compute.submit(&[], &commands).unwrap();
        expected = expected.wrapping_mul(3).wrapping_add(value as u32);
        expected = expected.wrapping_mul(3).wrapping_add(7);
    }
    rig.wait();
    assert_eq!(elements(&a), [expected; 500]);
}

/// The two queues hand data back and forth, each waiting for the other's point.
pub fn queues_wait_for_each_other_back_and_forth(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let step = rig.program(Kernel::Step);
    let (a, b) = (rig.data(&[2; 64]), rig.data(&[0; 64]));
    let args = [at(&b), Val::Const(1)];
    let mut last = Vec::new();
    let mut expected = 2u32;
    for _ in 0..300 {
        let there = rig.copy.submit(&last, &[copy(&b, &a)]).unwrap();
        let done = rig
            .compute
            .submit(&[there], &[exec(&step, &args, 64)])
            .unwrap();
        let back = rig.copy.submit(&[done], &[copy(&a, &b)]).unwrap();
        last = vec![back];
        expected = expected.wrapping_mul(3).wrapping_add(1);
    }
    rig.wait();
    assert_eq!(elements(&a), [expected; 64]);
}

/// Values that a 32-bit or signed comparison would get wrong keep their order.
pub fn signals_count_beyond_32_and_63_bits(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    for start in [
        0u64,
        u32::MAX as u64 - 10,
        (1 << 33) - 3,
        (1 << 63) - 10,
        u64::MAX - 30,
    ] {
        let signal = rig.device.signal("counter").unwrap();
        signal.set(start).unwrap();
        let mut points = Vec::new();
        for i in 1..=20u64 {
            // Each queue waits for what the other one signals.
            let (stream, value) = match i % 2 {
                0 => (&rig.compute, start + i),
                _ => (&rig.copy, start + i),
            };
            let commands = [
                Command::Wait {
                    signal: &signal,
                    value: Val::Const(value - 1),
                },
                Command::Signal {
                    signal: &signal,
                    value: Val::Const(value),
                },
            ];
            points.push((stream.submit(&[], &commands).unwrap(), value));
        }
        for (point, value) in points {
            signal.wait(value, soon()).unwrap();
            assert!(signal.value().unwrap() >= value);
            point.wait(soon()).unwrap();
        }
        assert_eq!(signal.value().unwrap(), start + 20);
        assert!(signal.wait(start + 21, crate::rig::shortly()).is_err());
    }
}

/// Words are written in their width, polls compare as said, the clock is the device's.
pub fn writes_polls_barriers_and_timestamps(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let can = rig.device.info().can;
    if !(can.poll && can.write) {
        return;
    }
    let memory = rig.data(&[0xffff_ffff; 8]);
    let place = |offset| Val::Const(memory.va().0 + offset);
    let write = |offset, value, width| Command::Write {
        at: place(offset),
        value: Val::Const(value),
        width,
    };
    let poll = |offset, mask, value, compare, width| Command::Poll {
        at: place(offset),
        mask,
        value: Val::Const(value),
        compare,
        width,
    };
    let stamp = rig.device.signal("stamp").unwrap();
    let commands = [
        write(4, 0x1122_3344_5566_7788, Width::W32),
        write(8, 0x1122_3344_5566_7788, Width::W64),
        poll(4, 0xff, 0x88, Compare::Equal, Width::W32),
        poll(
            8,
            u64::MAX,
            0x1122_3344_5566_7788,
            Compare::GreaterEqual,
            Width::W64,
        ),
        poll(8, 0xffff_0000_0000_0000, 0, Compare::NotEqual, Width::W64),
        // Unsigned: all ones is the largest.
        poll(0, u64::MAX, 0xffff_fffe, Compare::GreaterEqual, Width::W32),
    ];
    for scope in [Scope::Queue, Scope::Device, Scope::System] {
        rig.copy
            .submit(&[], &[Command::Barrier { scope }])
            .unwrap()
            .wait(soon())
            .unwrap();
    }
    for stream in [&rig.compute, &rig.copy] {
        stream.submit(&[], &commands).unwrap().wait(soon()).unwrap();
    }
    let ones = 0xffff_ffff;
    let expected = [
        ones,
        0x5566_7788,
        0x5566_7788,
        0x1122_3344,
        ones,
        ones,
        ones,
        ones,
    ];
    assert_eq!(elements(&memory), expected);

    // A poll that only the other queue ends, where there is one.
    let poll = poll(16, 1, 0, Compare::Equal, Width::W32);
    let polls = match rig.has_copy_queue() {
        true => &[poll][..],
        false => &[],
    };
    let held = rig.compute.submit(&[], polls).unwrap();
    let before = rig.device.clock().unwrap();
    let ends = [
        Command::Timestamp { signal: &stamp },
        write(16, 0xfffe, Width::W32),
    ];
    let ended = rig.copy.submit(&[], &ends).unwrap();
    held.wait(soon()).unwrap();
    ended.wait(soon()).unwrap();
    let after = rig.device.clock().unwrap();
    let ticks = stamp.timestamp().unwrap();
    assert!(before.hz > 0 && before.host_ns <= after.host_ns);
    assert!(before.device_ticks <= ticks && ticks <= after.device_ticks);
    assert!(before.to_host_ns(ticks) >= before.host_ns);
}

/// Each timestamp of a queue is at or after the one before it.
pub fn timestamps_of_a_queue_never_step_back(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let step = rig.program(Kernel::Step);
    let data = rig.data(&[1; 256]);
    let args = [at(&data), Val::Const(1)];
    let stamps: Vec<_> = (0..100)
        .map(|i| rig.device.signal(&format!("stamp {i}")).unwrap())
        .collect();
    for signal in &stamps {
        let commands = [exec(&step, &args, 256), Command::Timestamp { signal }];
        rig.compute.submit(&[], &commands).unwrap();
    }
    rig.wait();
    let ticks: Vec<u64> = stamps.iter().map(|s| s.timestamp().unwrap()).collect();
    assert!(ticks[0] > 0);
    assert!(ticks.is_sorted(), "{ticks:?}");
}

/// A submission with a command that the queue cannot take is refused whole, and the queue goes on.
pub fn a_refused_command_submits_nothing(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let step = rig.program(Kernel::Step);
    let data = rig.data(&[0; 4]);
    let good = [at(&data), Val::Const(1)];
    let bad = [at(&data)];
    let commands = [exec(&step, &good, 4), exec(&step, &bad, 4)];
    let error = rig.compute.submit(&[], &commands).unwrap_err();
    assert!(matches!(error, Error::Command { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&step.name) && text.contains("1 arguments"),
        "{text}"
    );
    rig.compute
        .submit(&[], &[exec(&step, &good, 4)])
        .unwrap()
        .wait(soon())
        .unwrap();
    assert_eq!(elements(&data), [1; 4], "only the second submission ran");
}

/// Every group runs once, for any number of groups.
pub fn one_group_and_many_groups_and_none(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let (add, step) = (rig.program(Kernel::Add), rig.program(Kernel::Step));
    let data = rig.data(&[5; 8]);
    let args = [at(&data), Val::Const(1)];
    rig.compute.submit(&[], &[exec(&step, &args, 0)]).unwrap();
    rig.wait();
    assert_eq!(elements(&data), [5; 8], "no groups, no effect");
    for groups in [1u32, 2, 3, 7, 64, 1000, 4096] {
        let n = groups * 3;
        let a = rig.data(&(0..n).collect::<Vec<_>>());
        let b = rig.data(&(0..n).map(|i| i * i).collect::<Vec<_>>());
        let out = rig.data(&vec![0; n as usize + 8]);
        let args = [at(&out), at(&a), at(&b), Val::Const(3)];
        rig.compute
            .submit(&[], &[exec(&add, &args, groups)])
            .unwrap();
        rig.wait();
        let mut expected: Vec<u32> = (0..n).map(|i| i + i * i).collect();
        expected.extend([0; 8]);
        assert_eq!(elements(&out), expected, "{groups} groups");
    }
    // Groups in three dimensions are counted as their product.
    let data = rig.data(&[0; 30]);
    let args = [at(&data), Val::Const(4)];
    let launch = Command::Exec {
        program: &step,
        args: &args,
        grid: [2, 3, 4],
        block: [1, 1, 1],
    };
    rig.compute.submit(&[], &[launch]).unwrap();
    rig.wait();
    let mut expected = vec![4; 24];
    expected.extend([0; 6]);
    assert_eq!(elements(&data), expected);
}
