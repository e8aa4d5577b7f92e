//! Work that is encoded once and run again and again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hcq::graph::{Graph, GraphBuilder, Work};
use hcq::{Buffer, Command, CommandBuffer, Error, Slot, Span, Stream, Val, Width};

use crate::rig::{at, elements, exec, shortly, soon};
use crate::watched::watched;
use crate::{Kernel, Rig, Subject};

/// Bound packets take new values at each launch, and refuse a launch without one.
pub fn bound_packets_run_again_with_other_values(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let step = rig.program(Kernel::Step);
    let queue = rig.compute.queue();
    let (a, b) = (rig.data(&[1; 16]), rig.data(&[1; 16]));
    let (place, value, done) = (Slot(0), Slot(1), Slot(2));
    let args = [Val::Slot(place, 4), Val::Slot(value, 100)];
    let signal = Command::Signal {
        signal: queue.timeline().signal(),
        value: Val::Slot(done, 0),
    };
    let mut packets = CommandBuffer::new();
    queue
        .encode(&[exec(&step, &args, 15), signal], &mut packets)
        .unwrap();
    let mut bound = queue.bind(packets).unwrap();
    let error = bound.patch(&[a.va().0, 1]).unwrap_err();
    assert!(error.to_string().contains("slot 2 has no value"), "{error}");
    let mut expected = [1u32; 2];
    for i in 0..200u64 {
        let target = [&a, &b][i as usize % 2];
        let values = |makes| [target.va().0, i, makes];
        let point = rig.compute.launch(&[], &mut *bound, values).unwrap();
        let x = &mut expected[i as usize % 2];
        *x = x.wrapping_mul(3).wrapping_add(i as u32 + 100);
        point.wait(soon()).unwrap();
    }
    for (buffer, expected) in [(&a, expected[0]), (&b, expected[1])] {
        let seen = elements(buffer);
        assert_eq!(seen[0], 1, "the element before the patched address");
        assert_eq!(seen[1..], [expected; 15]);
    }
    // Dropped while its last launch may still wait in the ring.
    let values = |makes| [a.va().0, 0, makes];
    rig.compute.launch(&[], &mut *bound, values).unwrap();
    drop(bound);
    rig.wait();
    assert_eq!(
        elements(&a)[1],
        expected[0].wrapping_mul(3).wrapping_add(100)
    );
}

/// A chain of kernels on slots, replayed on other buffers with other values.
pub fn graphs_replay_with_other_buffers_and_values(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let step = rig.program(Kernel::Step);
    let mut builder = GraphBuilder::new();
    let lane = builder.lane(&rig.device, &rig.compute);
    let (place, value) = (builder.slot().unwrap(), builder.slot().unwrap());
    for i in 0..10 {
        let work = Work::Exec {
            program: step.clone(),
            args: vec![Val::Slot(place, 0), Val::Slot(value, i)],
            grid: [32, 1, 1],
            block: [1, 1, 1],
        };
        let span = Span::slot(place, 0, 128);
        builder.add(lane, &format!("step {i}"), work, [span], [span]);
    }
    let mut graph = builder.build().unwrap();
    assert!(
        graph.replay(&[1], &[], soon()).is_err(),
        "two values are needed"
    );
    let buffers = [rig.data(&[1; 32]), rig.data(&[2; 32]), rig.data(&[3; 32])];
    let mut expected = [1u32, 2, 3];
    for round in 0..150u64 {
        let which = round as usize % 3;
        graph
            .replay(&[buffers[which].va().0, round], &[], soon())
            .unwrap();
        for i in 0..10 {
            let x = &mut expected[which];
            *x = x.wrapping_mul(3).wrapping_add((round + i) as u32);
        }
    }
    graph.wait(soon()).unwrap();
    for (buffer, expected) in buffers.iter().zip(expected) {
        assert_eq!(elements(buffer), [expected; 32]);
    }
}

/// A graph over two queues orders copies and kernels by the bytes that they touch.
pub fn graphs_order_two_queues(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let step = rig.program(Kernel::Step);
    let (a, b) = (rig.data(&[1; 64]), rig.data(&[0; 64]));
    let mut builder = GraphBuilder::new();
    let compute = builder.lane(&rig.device, &rig.compute);
    let copy = builder.lane(&rig.device, &rig.copy);
    for i in 0..5 {
        let there = Work::Copy {
            dst: at(&b),
            src: at(&a),
            bytes: 256,
        };
        builder.add(copy, "there", there, [Span::of(&a)], [Span::of(&b)]);
        let launch = Work::Exec {
            program: step.clone(),
            args: vec![at(&b), Val::Const(i)],
            grid: [64, 1, 1],
            block: [1, 1, 1],
        };
        builder.add(compute, "step", launch, [Span::of(&b)], [Span::of(&b)]);
        let back = Work::Copy {
            dst: at(&a),
            src: at(&b),
            bytes: 256,
        };
        builder.add(copy, "back", back, [Span::of(&b)], [Span::of(&a)]);
    }
    let mut graph = builder.build().unwrap();
    let mut expected = 1u32;
    for _ in 0..50 {
        graph.replay(&[], &[], soon()).unwrap();
        expected = (0..5).fold(expected, |x, i| x.wrapping_mul(3).wrapping_add(i));
    }
    graph.wait(soon()).unwrap();
    assert_eq!(elements(&a), [expected; 64]);
}

/// Samples of a profiled graph: each node ends after it starts, nodes that need each other follow each
/// other, and each is said to be on the queue that ran it.
pub fn profiled_graphs_tell_the_time_of_each_node(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let step = rig.program(Kernel::Step);
    let (data, copied) = (rig.data(&[1; 64]), rig.data(&[0; 64]));
    let mut builder = GraphBuilder::new().profiled(true);
    let compute = builder.lane(&rig.device, &rig.compute);
    let beside = builder.lane(&rig.device, &rig.copy);
    for i in 0..8 {
        let name = format!("node {i}");
        if i % 3 == 2 {
            let work = Work::Copy {
                dst: at(&copied),
                src: at(&data),
                bytes: 256,
            };
            builder.add(beside, &name, work, [Span::of(&data)], [Span::of(&copied)]);
            continue;
        }
        let work = Work::Exec {
            program: step.clone(),
            args: vec![at(&data), Val::Const(i)],
            grid: [64, 1, 1],
            block: [1, 1, 1],
        };
        builder.add(compute, &name, work, [Span::of(&data)], [Span::of(&data)]);
    }
    let mut graph = builder.build().unwrap();
    let mut last = 0;
    for _ in 0..3 {
        graph.replay(&[], &[], soon()).unwrap();
        graph.wait(soon()).unwrap();
        let samples = graph.samples().unwrap();
        assert_eq!(samples.len(), 8);
        for (i, sample) in samples.iter().enumerate() {
            assert_eq!(sample.name, format!("node {i}"));
            assert!(
                sample.start >= last && sample.end >= sample.start,
                "{sample:?}, after {last}"
            );
            last = sample.end;
            let ran_on = graph.stream(sample.lane).queue();
            let stream = if i % 3 == 2 { &rig.copy } else { &rig.compute };
            assert_eq!(ran_on.kind(), stream.queue().kind());
        }
    }
}

/// A graph that copies `data` back and forth between two lanes, `hops` times.
fn ping_pong(rig: &Rig<'_>, lanes: [&Stream; 2], data: [&Buffer; 2], hops: usize) -> Graph {
    let mut builder = GraphBuilder::new();
    let lanes = lanes.map(|stream| builder.lane(&rig.device, stream));
    for hop in 0..hops {
        let (src, dst) = (data[hop % 2], data[(hop + 1) % 2]);
        let work = Work::Copy {
            dst: at(dst),
            src: at(src),
            bytes: src.bytes(),
        };
        builder.add(
            lanes[hop % 2],
            "hop",
            work,
            [Span::of(src)],
            [Span::of(dst)],
        );
    }
    builder.build().unwrap()
}

/// What a replay waits for goes with the launch: one write per lane.
pub fn a_replay_rings_one_doorbell_per_lane(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    if !rig.has_copy_queue() {
        return;
    }
    let (compute, on_compute) = watched(&rig.compute);
    let (copy, on_copy) = watched(&rig.copy);
    let (a, b, c) = (rig.data(&[0; 16]), rig.data(&[0; 16]), rig.data(&[7; 16]));
    let mut graph = ping_pong(&rig, [&compute, &copy], [&a, &b], 3);
    let gate = rig.device.signal("gate").unwrap();
    for round in 1..=20u32 {
        // The replay has to wait for both queues, of which neither is done.
        c.write(0, &[round as u8; 64]).unwrap();
        let held = Command::Wait {
            signal: &gate,
            value: Val::Const(round.into()),
        };
        let fill = Command::Copy {
            dst: at(&a),
            src: at(&c),
            bytes: 64,
        };
        let after = [
            rig.copy.submit(&[], &[held, fill]).unwrap(),
            rig.compute.submit(&[], &[]).unwrap(),
        ];
        let points = graph.replay(&[], &after, soon()).unwrap().to_vec();
        assert!(!points.iter().any(|p| p.reached().unwrap()));
        gate.set(round.into()).unwrap();
        graph.wait(soon()).unwrap();
        assert_eq!(elements(&b), [u32::from_le_bytes([round as u8; 4]); 16]);
        for watch in [&on_compute, &on_copy] {
            assert_eq!(watch.launched.load(Ordering::Relaxed), round);
            assert_eq!(watch.submitted.load(Ordering::Relaxed), 0);
        }
    }
}

/// A replay that fails before any lane is launched leaves nothing behind; one that fails after that loses
/// the device, with what happened as the cause.
pub fn a_lane_that_fails_leaves_no_other_waiting(subject: &dyn Subject) {
    // For the other lane, until the device is given up.
    subject.waits_for_ever();
    let rig = Rig::new(subject);
    // Lanes of one queue are one.
    if !rig.has_copy_queue() {
        return;
    }
    let (copy, watch) = watched(&rig.copy);
    let (a, b) = (rig.data(&[5; 16]), rig.data(&[0; 16]));
    let mut graph = ping_pong(&rig, [&rig.compute, &copy], [&a, &b], 4);
    watch.refuse_patches.store(true, Ordering::Relaxed);
    let error = graph.replay(&[], &[], soon()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("no patches"), "{error}");
    rig.wait();
    assert_eq!(elements(&b), [0; 16], "nothing ran");
    watch.refuse_patches.store(false, Ordering::Relaxed);
    graph.replay(&[], &[], soon()).unwrap();
    graph.wait(soon()).unwrap();
    assert_eq!(elements(&b), [5; 16]);

    watch.refuse_launches.store(true, Ordering::Relaxed);
    let errors = [
        graph.replay(&[], &[], soon()).map(|_| ()).unwrap_err(),
        rig.device.status().unwrap_err(),
        rig.compute.wait(soon()).unwrap_err(),
        graph.wait(soon()).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
        assert!(error.to_string().contains("no launches"), "{error}");
    }
}

/// Two graphs that take the same two queues in opposite order, replayed by two threads at once.
pub fn graphs_over_the_same_queues_never_stand_crosswise(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let data = [(); 4].map(|()| rig.data(&[1; 16]));
    let [a, b, c, d] = &data;
    let graphs = [
        ping_pong(&rig, [&rig.compute, &rig.copy], [a, b], 4),
        ping_pong(&rig, [&rig.copy, &rig.compute], [c, d], 4),
    ];
    std::thread::scope(|scope| {
        for mut graph in graphs {
            scope.spawn(move || {
                for _ in 0..100 {
                    graph.replay(&[], &[], soon()).unwrap();
                }
                graph.wait(soon()).unwrap();
            });
        }
    });
}

/// Who launches holds the queue that he launches on and no other, however long that takes. Graphs are let go meanwhile, of
/// both.
pub fn a_launch_holds_no_other_queue(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let (compute, watch) = watched(&rig.compute);
    let (a, b) = (rig.data(&[3; 16]), rig.data(&[0; 16]));
    let (mut ended, mut named) = (Vec::new(), Vec::new());
    for stream in [&rig.compute, &rig.copy] {
        let kept = Arc::new(());
        let mut builder = GraphBuilder::new();
        let lane = builder.lane(&rig.device, stream);
        let work = Work::Copy {
            dst: at(&b),
            src: at(&a),
            bytes: 64,
        };
        builder.add(lane, "copy", work, [Span::of(&a)], [Span::of(&b)]);
        named.push(Arc::downgrade(&kept));
        builder.keep(kept);
        let mut graph = builder.build().unwrap();
        graph.replay(&[], &[], soon()).unwrap();
        graph.wait(soon()).unwrap();
        ended.push(graph);
    }
    let mut graph = ping_pong(&rig, [&compute, &rig.copy], [&a, &b], 2);
    let other = rig.copy.clone();
    let is_other = !std::ptr::eq(other.queue().timeline(), rig.compute.queue().timeline());
    *watch.amid.lock().unwrap() = Some(Box::new(move || {
        let timeline = other.queue().timeline();
        assert_eq!(timeline.try_hold().is_some(), is_other);
        assert!(other.last().value > 0);
        drop(ended);
    }));
    graph.replay(&[], &[], soon()).unwrap();
    graph.wait(soon()).unwrap();
    assert!(watch.amid.lock().unwrap().is_none());
    rig.device.synchronize(soon()).unwrap();
    assert!(named.iter().all(|named| named.upgrade().is_none()));
}

/// A graph that ends while it runs frees nothing that the device still uses; one that is over frees all.
pub fn a_graph_that_ends_while_it_runs_keeps_what_it_names(subject: &dyn Subject) {
    let rig = Rig::new(subject);
    let data = rig.data(&[1; 64]);
    let gate = rig.device.signal("gate").unwrap();
    for hangs in [false, true] {
        let program = rig.program(Kernel::Step);
        let kept = Arc::new(());
        let named = (Arc::downgrade(&program), Arc::downgrade(&kept));
        let mut builder = GraphBuilder::new();
        let lane = builder.lane(&rig.device, &rig.compute);
        let work = Work::Exec {
            program,
            args: vec![at(&data), Val::Const(2)],
            grid: [64, 1, 1],
            block: [1, 1, 1],
        };
        builder.add(lane, "step", work, [Span::of(&data)], [Span::of(&data)]);
        builder.keep(kept);
        let mut graph = builder.build().unwrap();
        let held = Command::Wait {
            signal: &gate,
            value: Val::Const(hangs.into()),
        };
        let before = rig.compute.submit(&[], &[held]).unwrap();
        graph.replay(&[], &[before], shortly()).unwrap();
        if !hangs {
            graph.wait(soon()).unwrap();
        }
        drop(graph);
        assert_eq!(named.0.upgrade().is_some(), hangs, "the program");
        assert_eq!(named.1.upgrade().is_some(), hangs, "what else it names");
    }
    gate.set(1).unwrap();
    rig.wait();
    assert_eq!(elements(&data), [(3 + 2) * 3 + 2; 64]);
}

/// Graphs that are dropped behind a full ring that stands: what they name stays until they have run, what is in the ring is
/// not written over, and all of it is let go after that.
pub fn graphs_that_are_dropped_behind_a_full_ring_run_and_are_let_go(subject: &dyn Subject) {
    let rig = Rig::open(subject, 0, 64);
    let data = rig.data(&[1; 64]);
    let gate = rig.device.signal("gate").unwrap();
    let held = Command::Wait {
        signal: &gate,
        value: Val::Const(1),
    };
    let program = rig.program(Kernel::Step);
    rig.compute.submit(&[], &[held]).unwrap();
    let mut expected = 1u32;
    let (mut graphs, mut named) = (Vec::new(), Vec::new());
    for value in 1..=64u32 {
        let kept = Arc::new(());
        let mut builder = GraphBuilder::new();
        let lane = builder.lane(&rig.device, &rig.compute);
        let work = Work::Exec {
            program: program.clone(),
            args: vec![at(&data), Val::Const(value.into())],
            grid: [64, 1, 1],
            block: [1, 1, 1],
        };
        builder.add(lane, "step", work, [Span::of(&data)], [Span::of(&data)]);
        let known = Arc::downgrade(&kept);
        builder.keep(kept);
        let mut graph = builder.build().unwrap();
        match graph.replay(&[], &[], shortly()) {
            Ok(_) => {}
            // A small ring holds some of them.
            Err(Error::Timeout { .. }) => break,
            Err(error) => panic!("{error}"),
        }
        expected = expected.wrapping_mul(3).wrapping_add(value);
        named.push(known);
        graphs.push(graph);
    }
    assert!(graphs.len() >= 2);
    // What is left of the ring.
    let flag = rig.buffer(8);
    let mut written = 0u64;
    while written < 500 {
        let write = Command::Write {
            at: at(&flag),
            value: Val::Const(written + 1),
            width: Width::W64,
        };
        match rig.compute.submit(&[], &[write]) {
            Ok(_) => written += 1,
            Err(Error::Timeout { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    drop(graphs);
    assert!(named.iter().all(|known| known.upgrade().is_some()));
    gate.set(1).unwrap();
    rig.device.synchronize(soon()).unwrap();
    assert_eq!(elements(&data), [expected; 64]);
    assert_eq!(u64::from(elements(&flag)[0]), written);
    assert!(named.iter().all(|known| known.upgrade().is_none()));
    rig.compute.submit(&[], &[]).unwrap().wait(soon()).unwrap();
}
