//! Values around multiples of 2^32, which some engines compare and write by halves.

use hcq::signal::Point;
use hcq::{Command, Signal, Stream, Val};

use crate::rig::{at, elements, exec, soon};
use crate::{Kernel, Rig, Subject};

/// Submissions of a round: more than are left before the border.
const ROUNDS: u64 = 9;

fn place(buffer: &hcq::Buffer, i: u64) -> Val {
    Val::Const(buffer.va().0 + i * 4)
}

fn wait(signal: &Signal, value: u64) -> Command<'_> {
    Command::Wait {
        signal,
        value: Val::Const(value),
    }
}

/// The timelines of two devices pass multiples of 2^32 while all of their queues wait for each other,
/// some of them long after the border was passed, others long before: nothing is early, nothing hangs,
/// no value steps back.
pub fn timelines_pass_multiples_of_2_to_the_32(subject: &dyn Subject) {
    if !subject.devices_meet() {
        return;
    }
    for (start, late) in [
        ((1u64 << 32) - 4, "copy"),
        ((2 << 32) - 4, "compute"),
        ((2 << 32) - 1, "copy"),
    ] {
        let rigs = [
            Rig::starting(subject, 0, start),
            Rig::starting(subject, 1, start - 2),
        ];
        let steps = [rigs[0].program(Kernel::Step), rigs[1].program(Kernel::Step)];
        let data = rigs[0].data(&[1; ROUNDS as usize]);
        let outs = [(); 2].map(|()| rigs[0].data(&[0; ROUNDS as usize]));
        let gate = rigs[0].device.signal("gate").unwrap();
        let held = match late {
            "copy" => &rigs[0].copy,
            _ => &rigs[0].compute,
        };
        held.submit(&[], &[wait(&gate, 1)]).unwrap();
        let mut values = Values::of(&rigs);
        let mut points: Vec<Point> = Vec::new();
        let mut last: Vec<Point> = Vec::new();
        for i in 0..ROUNDS {
            for (rig, step) in rigs.iter().zip(&steps) {
                let args = [place(&data, i), Val::Const(i)];
                let ran = rig.compute.submit(&last, &[exec(step, &args, 1)]).unwrap();
                last = vec![ran.clone()];
                points.push(ran);
            }
            for (rig, out) in rigs.iter().zip(&outs) {
                let copy = Command::Copy {
                    dst: place(out, i),
                    src: place(&data, i),
                    bytes: 4,
                };
                points.push(rig.copy.submit(&last, &[copy]).unwrap());
            }
            values.look();
        }
        if late == "copy" {
            last[0].wait(soon()).unwrap();
        } else {
            assert!(!last[0].reached().unwrap());
        }
        values.look();
        gate.set(1).unwrap();
        for point in &points {
            point.wait(soon()).unwrap();
            assert!(point.reached().unwrap());
            values.look();
        }
        let twice = |i: u64| (3 + i) * 3 + i;
        let expected: Vec<u32> = (0..ROUNDS).map(|i| twice(i) as u32).collect();
        for out in &outs {
            assert_eq!(
                elements(out),
                expected,
                "{late} begins late from {start:#x}"
            );
        }
        // Whatever is over is waited for no more.
        for rig in &rigs {
            for stream in [&rig.compute, &rig.copy] {
                let again = stream.submit(&points, &[]).unwrap();
                again.wait(soon()).unwrap();
                assert!(again.value > start);
            }
        }
        values.look();
    }
}

/// The values of some timelines, which only grow.
struct Values(Vec<(Signal, u64)>);

impl Values {
    fn of(rigs: &[Rig<'_>]) -> Values {
        let streams = rigs.iter().flat_map(|rig| [&rig.compute, &rig.copy]);
        let signal = |stream: &Stream| stream.queue().timeline().signal().clone();
        Values(streams.map(|stream| (signal(stream), 0)).collect())
    }

    fn look(&mut self) {
        for (signal, seen) in &mut self.0 {
            let now = signal.value().unwrap();
            assert!(
                now >= *seen,
                "{signal:?} steps back from {seen:#x} to {now:#x}"
            );
            *seen = now;
        }
    }
}

/// A signal passes multiples of 2^32 as timelines do, written by either queue: the host never sees it
/// step back, and waits that come after that are over.
pub fn values_never_step_back(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let low = u64::from(u32::MAX);
    let values = [
        low - 1,
        low,
        1 << 32 | low,
        2 << 32 | low,
        3 << 32,
        3 << 32 | 1,
        4 << 32 | low,
        5 << 32,
    ];
    for stream in [&rig.copy, &rig.compute] {
        let signal = rig.device.signal("counter").unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0;
                while seen < values[values.len() - 1] {
                    let now = signal.value().unwrap();
                    assert!(now >= seen, "from {seen:#x} to {now:#x}");
                    seen = now;
                    std::thread::yield_now();
                }
            });
            for value in values {
                let done = Command::Signal {
                    signal: &signal,
                    value: Val::Const(value),
                };
                stream.submit(&[], &[done]).unwrap();
                signal.wait(value, soon()).unwrap();
                assert!(signal.value().unwrap() >= value);
            }
            reader.join().unwrap();
        });
        for other in [&rig.copy, &rig.compute] {
            for value in values {
                let after = other.submit(&[], &[wait(&signal, value)]).unwrap();
                after.wait(soon()).unwrap();
            }
        }
    }
    // The queues still run.
    let step = rig.program(Kernel::Step);
    let data = rig.data(&[1]);
    let args = [at(&data), Val::Const(2)];
    rig.compute.submit(&[], &[exec(&step, &args, 1)]).unwrap();
    rig.wait();
    assert_eq!(elements(&data), [5]);
}
