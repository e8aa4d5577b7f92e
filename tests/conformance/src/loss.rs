//! Deadlines, faults, and what is left after them.

use hcq::{Command, Deadline, Error, QueueKind, Val};
use std::time::Duration;

use crate::rig::{at, elements, exec, shortly, soon};
use crate::{Kernel, Rig, Subject};

/// An expired wait says which signal, what was wanted and what was there.
pub fn a_deadline_names_the_signal_and_the_values(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let signal = rig.device.signal("the gate").unwrap();
    signal.set(3).unwrap();
    let error = signal.wait(9, shortly()).unwrap_err();
    let Error::Timeout {
        device,
        what,
        wanted,
        seen,
        ..
    } = &error
    else {
        panic!("expected a timeout, found {error}");
    };
    assert_eq!(device, &rig.device.info().id);
    assert!(what.contains("the gate"), "{what}");
    assert_eq!((*wanted, *seen), (9, 3));
    // What is there already needs no time.
    signal.wait(3, Deadline::after(Duration::ZERO)).unwrap();

    let wait = Command::Wait {
        signal: &signal,
        value: Val::Const(9),
    };
    let held = rig.compute.submit(&[], &[wait]).unwrap();
    assert!(matches!(held.wait(shortly()), Err(Error::Timeout { .. })));
    let error = rig.device.synchronize(shortly()).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    // A timeout is no loss.
    signal.set(9).unwrap();
    held.wait(soon()).unwrap();
    rig.device.synchronize(soon()).unwrap();
    rig.device.status().unwrap();
}

/// After a loss every call gives its first cause, and the device opens again.
pub fn the_first_cause_of_a_loss_is_kept(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let signal = rig.device.signal("s").unwrap();
    let image = subject.kernel(Kernel::Step);
    let program = rig.program(Kernel::Step);
    let data = rig.data(&[0; 4]);
    rig.lose("the sky fell");
    rig.lose("and then the ground");
    let args = [at(&data), Val::Const(1)];
    let spec = hcq::AllocSpec::device(64);
    let errors = [
        rig.device.status().unwrap_err(),
        rig.device.alloc(spec).unwrap_err(),
        rig.device.load(&image).unwrap_err(),
        rig.device.signal("t").unwrap_err(),
        rig.device.clock().unwrap_err(),
        rig.device.synchronize(soon()).unwrap_err(),
        rig.device.queue(QueueKind::Compute, 0).err().unwrap(),
        signal.value().unwrap_err(),
        signal.set(1).unwrap_err(),
        signal.timestamp().unwrap_err(),
        signal.wait(1, soon()).unwrap_err(),
        rig.compute
            .submit(&[], &[exec(&program, &args, 4)])
            .unwrap_err(),
        rig.compute.wait(soon()).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("the sky fell") && !text.contains("ground"),
            "{text}"
        );
    }
    // What the host holds can still be read.
    assert_eq!(elements(&data), [0; 4]);
    drop((rig, program, data, signal));
    let again = Rig::new(subject);
    again.device.status().unwrap();
    let step = again.program(Kernel::Step);
    let data = again.data(&[1; 4]);
    let args = [at(&data), Val::Const(1)];
    again.compute.submit(&[], &[exec(&step, &args, 4)]).unwrap();
    again.wait();
    assert_eq!(elements(&data), [4; 4]);
}

/// A kernel that stores where nothing is loses the device; the cause says which and where.
pub fn a_fault_of_a_kernel_names_it_and_the_place(subject: &dyn Subject) {
    subject.faults();
    for groups in [1, 100] {
        let rig = Rig::new(subject);
        let store = rig.program(Kernel::Store);
        let good = rig.data(&[0; 128]);
        // A good store first: the fault is not the kernel's as such.
        let args = [at(&good)];
        rig.compute.submit(&[], &[exec(&store, &args, 1)]).unwrap();
        rig.wait();
        let args = [Val::Const(0x1230)];
        let bad = rig
            .compute
            .submit(&[], &[exec(&store, &args, groups)])
            .unwrap();
        let error = bad.wait(soon()).unwrap_err();
        let Error::DeviceLost { cause, .. } = &error else {
            panic!("expected a loss, found {error}");
        };
        assert!(matches!(**cause, Error::Fault { .. }), "{cause}");
        let text = error.to_string();
        let placed = text.contains("0x1230") || !subject.faults_have_addresses();
        assert!(text.contains(&store.name) && placed, "{text}");
        assert!(rig.device.status().is_err());
    }
    // So are a bad copy and a bad fill.
    let nowhere = Val::Const(0x4560);
    for fills in [false, true] {
        let rig = Rig::new(subject);
        let data = rig.data(&[0; 16]);
        let command = match fills {
            true => Command::Fill {
                at: nowhere,
                value: 1,
                bytes: 64,
            },
            false => Command::Copy {
                dst: at(&data),
                src: nowhere,
                bytes: 64,
            },
        };
        let done = rig.copy.submit(&[], &[command]).unwrap();
        let text = done.wait(soon()).unwrap_err().to_string();
        let placed = text.contains("0x4560") || !subject.faults_have_addresses();
        assert!(placed, "{text}");
        assert!(text.to_lowercase().contains(command.name()), "{text}");
    }
}

/// Waits on the host and on the queues of a lost device end; another device works on.
pub fn a_loss_ends_waits_and_leaves_other_devices_alone(subject: &dyn Subject) {
    subject.waits_for_ever();
    let lost = Rig::open(subject, 0, 1024);
    let well = Rig::open(subject, 1, 1024);
    let never = lost.device.signal("never").unwrap();
    let wait = Command::Wait {
        signal: &never,
        value: Val::Const(1),
    };
    let held = lost.compute.submit(&[], &[wait]).unwrap();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| held.wait(soon()).unwrap_err()))
            .collect();
        let idle = scope.spawn(|| lost.device.synchronize(soon()).unwrap_err());
        lost.lose("gone");
        for waiter in waiters.into_iter().chain([idle]) {
            assert!(waiter.join().unwrap().to_string().contains("gone"));
        }
    });
    if !subject.devices_are_apart() {
        return;
    }
    let step = well.program(Kernel::Step);
    let data = well.data(&[1; 16]);
    let args = [at(&data), Val::Const(2)];
    well.compute.submit(&[], &[exec(&step, &args, 16)]).unwrap();
    well.wait();
    assert_eq!(elements(&data), [5; 16]);
    drop(lost);
    well.device.status().unwrap();
}

/// Two devices in one process wait for each other's signals and read each other's memory.
pub fn two_devices_wait_for_each_other(subject: &dyn Subject) {
    if !subject.devices_meet() {
        return;
    }
    let rigs = [Rig::open(subject, 0, 1024), Rig::open(subject, 1, 1024)];
    assert_ne!(rigs[0].device.info().id, rigs[1].device.info().id);
    let steps = [rigs[0].program(Kernel::Step), rigs[1].program(Kernel::Step)];
    let data = rigs[0].data(&[1; 32]);
    let args = [at(&data), Val::Const(5)];
    let mut last = Vec::new();
    let mut expected = 1u32;
    for i in 0..400 {
        let (rig, step) = (&rigs[i % 2], &steps[i % 2]);
        last = vec![rig.compute.submit(&last, &[exec(step, &args, 32)]).unwrap()];
        expected = expected.wrapping_mul(3).wrapping_add(5);
    }
    last[0].wait(soon()).unwrap();
    assert_eq!(elements(&data), [expected; 32]);
}
