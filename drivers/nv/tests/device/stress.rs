//! Many of everything: threads, devices, orders in which handles go; and all that there is of a thing.
//! Nothing is left behind, nothing hangs, no other device is harmed.

use std::any::Any;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use drivers_nv::Options;
use hcq::{Command, CommandBuffer, Device, Error, MemoryKind, QueueKind, Stream, Val, Width};

use super::stand::{
    Rig, at, copy, ends, exec, kernel, left, machine, memory, options, soon, twin, words,
};

#[test]
fn threads_share_devices() {
    let hidden = Options {
        host_visible: false,
        ..options()
    };
    let without = Options {
        uvm: false,
        pinned: true,
        ..options()
    };
    for (config, options) in [
        ("chip=h100,gpus=2", options()),
        ("chip=h100,gpus=2,seed=3", hidden),
        ("chip=ad102,gpus=2,driver=550,seed=4", without),
    ] {
        let step = kernel(config, "step");
        let twin = twin(config);
        let machine = machine(&twin);
        let open = |i| Rig::with(&machine, i, &step, &options).unwrap();
        let rigs = [0, 1].map(|i| Arc::new(open(i)));
        thread::scope(|scope| {
            for t in 0..6u32 {
                let (rigs, step, open) = (&rigs, &step, &open);
                scope.spawn(move || {
                    let rig = rigs[t as usize % 2].clone();
                    for i in 0..24 {
                        rig.round(t * 24 + i).unwrap();
                        if i % 8 == t {
                            // The same GPU once more, while it works.
                            open(t % 2).round(i).unwrap();
                        }
                        rig.device.signal("a signal").unwrap();
                        rig.device.status().unwrap();
                        if i % 5 == 0 {
                            drop(rig.device.load(step).unwrap());
                        }
                    }
                    rig.device.synchronize(soon()).unwrap();
                });
            }
        });
        drop(rigs);
        ends(&twin, &[], config);
    }
}

/// Opened for the first time by all at once: the client and its address space are made once.
#[test]
fn threads_open_at_once() {
    for seed in 0..6 {
        let config = format!("chip=ad102,gpus=2,seed={seed}");
        let step = kernel(&config, "step");
        let twin = twin(&config);
        let machine = machine(&twin);
        let start = Barrier::new(6);
        thread::scope(|scope| {
            for t in 0..6u32 {
                let (machine, step, start) = (&machine, &step, &start);
                scope.spawn(move || {
                    start.wait();
                    Rig::open(machine, t % 2, step).unwrap().round(t).unwrap();
                });
            }
        });
        ends(&twin, &[], &config);
    }
}

/// A thread that panics with handles in its hands, in the middle of work, harms nobody.
#[test]
fn a_thread_that_panics_harms_nobody() {
    let config = "chip=h100";
    let twin = twin(config);
    let rig = Rig::open(&machine(&twin), 0, &kernel(config, "step")).unwrap();
    let rig = Arc::new(rig);
    for i in 0..4 {
        let guilty = rig.clone();
        let ended = thread::spawn(move || {
            let kept = memory(&*guilty.device, MemoryKind::Device, 1 << 20).unwrap();
            let queue = guilty.compute.queue();
            let mut bound = queue.bind(CommandBuffer::new()).unwrap();
            let values = |_: u64| -> [u64; 0] {
                panic!("in the middle of a launch, {} bytes", kept.bytes())
            };
            let _ = guilty.compute.launch(&[], &mut *bound, values);
        });
        assert!(ended.join().is_err());
        rig.round(i).unwrap();
    }
    drop(rig);
    ends(&twin, &[], config);
}

/// Handles of two devices go in many orders, with work under way that goes over both.
#[test]
fn handles_go_in_every_order() {
    let mut orders = vec![vec![]];
    for _ in 0..6 {
        let longer = |order: Vec<usize>| {
            (0..6).filter_map(move |n| {
                let fresh = !order.contains(&n);
                fresh.then(|| order.iter().copied().chain([n]).collect::<Vec<_>>())
            })
        };
        orders = orders.into_iter().flat_map(longer).collect();
    }
    assert_eq!(orders.len(), 720);
    let config = "chip=ga102+h100";
    let (ampere, hopper) = (kernel("ga102", "step"), kernel("h100", "step"));
    let twin = twin(config);
    let machine = machine(&twin);
    // Each eleventh of them: all take too long.
    for order in orders.iter().step_by(11) {
        let (first, second) = (
            Rig::open(&machine, 0, &ampere).unwrap(),
            Rig::open(&machine, 1, &hopper).unwrap(),
        );
        let a = memory(&*first.device, MemoryKind::Device, 4096).unwrap();
        let b = memory(&*second.device, MemoryKind::Host, 4096).unwrap();
        let signal = first.device.signal("a signal").unwrap();
        a.write(0, &[1; 4096]).unwrap();
        let copied = first.copy.submit(&[], &[copy(&b, &a)]).unwrap();
        let done = second.compute.submit(&[copied], &[]).unwrap();
        let Rig {
            device,
            compute,
            copy,
            step,
        } = first;
        let mut handles: Vec<Option<Box<dyn Any>>> = vec![
            Some(Box::new(device)),
            Some(Box::new((compute, copy))),
            Some(Box::new(step)),
            Some(Box::new((second.device, second.compute, second.copy))),
            Some(Box::new(signal)),
            Some(Box::new((second.step, done.clone()))),
        ];
        for &i in order {
            handles[i] = None;
        }
        done.wait(soon()).unwrap();
        let mut seen = [0; 4096];
        b.read(0, &mut seen).unwrap();
        assert_eq!(seen, [1; 4096]);
        drop((a, b, done));
        assert_eq!(left(&twin), [""; 0], "{order:?}");
    }
    ends(&twin, &[], config);
}

/// A device that waits for another one is not given up while that one works, however long.
#[test]
fn the_end_of_a_device_waits_for_what_others_do_for_it() {
    // The other one is open, or ends at the same time.
    for both in [false, true] {
        let config = "chip=ad102,gpus=2";
        let twin = twin(config);
        let machine = machine(&twin);
        let first = Rig::open(&machine, 0, &kernel(config, "step")).unwrap();
        let spin = first.device.load(&kernel(config, "spin")).unwrap();
        let second = drivers_nv::open(&machine, 1, &options()).unwrap();
        let stream = Stream::new(second.queue(QueueKind::Compute, 0).unwrap());
        let flag = memory(&*first.device, MemoryKind::Host, 4096).unwrap();
        flag.write(0, &[0; 4]).unwrap();
        let args = [at(&flag)];
        let spun = first.compute.submit(&[], &[exec(&spin, &args, 1)]).unwrap();
        let done = stream.submit(&[spun], &[]).unwrap();
        let mut first = Some(first);
        thread::scope(|scope| {
            if both {
                let first = first.take();
                scope.spawn(|| drop(first));
            }
            scope.spawn(|| drop((stream, second)));
            // Several times what a queue gets that waits for nobody.
            thread::sleep(Duration::from_millis(300));
            flag.write(0, &[1; 4]).unwrap();
        });
        done.wait(soon()).unwrap();
        drop((first, spin, flag, done));
        ends(&twin, &[], config);
    }
}

/// A kernel or its buffer goes while it runs: it is done, or the device is lost and opens again.
#[test]
fn what_goes_while_it_is_used_is_no_panic() {
    let config = "chip=h100";
    let step = kernel(config, "step");
    let twin = twin(config);
    let machine = machine(&twin);
    for round in 0..20 {
        let rig = Rig::open(&machine, 0, &step).unwrap();
        let data = memory(&*rig.device, MemoryKind::Device, 300_000).unwrap();
        let program = rig.device.load(&step).unwrap();
        let args = [at(&data), Val::Const(1)];
        let all = [exec(&program, &args, 64); 4];
        let done = rig.compute.submit(&[], &all).unwrap();
        match round % 2 {
            0 => drop(program),
            _ => drop(data),
        }
        let other = memory(&*rig.device, MemoryKind::Device, 1 << 20);
        match done.wait(soon()) {
            Ok(()) => drop(other.unwrap()),
            Err(error) => assert!(matches!(error, Error::DeviceLost { .. }), "{error}"),
        }
    }
    assert_eq!(left(&twin), [""; 0]);
}

/// All memory of a GPU is taken, in pieces: that is said with numbers, what is there works, and all of it
/// can be had again.
#[test]
fn all_memory_is_taken_and_given_back() {
    const PIECE: u64 = 3 << 30;
    let config = "chip=ga102";
    let twin = twin(config);
    let rig = Rig::open(&machine(&twin), 0, &kernel(config, "step")).unwrap();
    for _ in 0..3 {
        let mut all = Vec::new();
        let error = loop {
            match memory(&*rig.device, MemoryKind::Device, PIECE) {
                Ok(buffer) => all.push(buffer),
                Err(error) => break error,
            }
            assert!(all.len() < 8);
        };
        assert!(all.len() >= 7, "only {}", all.len());
        let Error::OutOfMemory {
            asked, free, total, ..
        } = &error
        else {
            panic!("{error}");
        };
        assert!(*asked >= PIECE && free < asked, "{error}");
        assert_eq!(*total, 24 << 30);
        assert!(error.to_string().contains("NV_ERR_NO_MEMORY"), "{error}");
        // What is there works, and a small one still fits.
        all[0].write(0, &[7; 100]).unwrap();
        drop(memory(&*rig.device, MemoryKind::Device, 100).unwrap());
        drop(all);
        rig.round(5).unwrap();
    }
    drop(rig);
    // Each time twice: once more after what is kept for reuse was given back.
    ends(&twin, &["RM-MEMORY-FULL"; 6], config);
}

/// Many buffers of every size and kind, freed in another order than they were made in.
#[test]
fn many_buffers_come_and_go() {
    let config = "chip=h100";
    let twin = twin(config);
    let rig = Rig::open(&machine(&twin), 0, &kernel(config, "step")).unwrap();
    let mut all = Vec::new();
    for i in 0..600u32 {
        let kind = [MemoryKind::Device, MemoryKind::Host, MemoryKind::Control][i as usize % 3];
        let bytes = [4, 300, 5000, 70_000, 300_000][i as usize % 5];
        let buffer = memory(&*rig.device, kind, bytes).unwrap();
        buffer.write(0, &i.to_le_bytes()).unwrap();
        all.push((i, buffer));
        if i % 4 == 3 {
            // From anywhere in between.
            let at = (i as usize * 7919) % all.len();
            let (number, buffer) = all.swap_remove(at);
            assert_eq!(words(&buffer).unwrap(), [number]);
        }
    }
    for (number, buffer) in &all {
        assert_eq!(words(buffer).unwrap(), [*number]);
    }
    drop((all, rig));
    ends(&twin, &[], config);
}

/// A ring that wraps many times, under small submissions and under ones that are larger than all of it,
/// where timelines pass what fits 32 bits.
#[test]
fn rings_and_timelines_wrap() {
    for config in ["chip=ga102", "chip=gb202"] {
        let twin = twin(config);
        let small = Options {
            entries: 256,
            push_buffer: 16 << 10,
            ..options()
        };
        let machine = machine(&twin);
        let rig = Rig::with(&machine, 0, &kernel(config, "step"), &small).unwrap();
        for stream in [&rig.compute, &rig.copy] {
            let timeline = stream.queue().timeline();
            timeline.skip_to((1 << 32) - 700).unwrap();
        }
        let data = memory(&*rig.device, MemoryKind::Host, 4096).unwrap();
        data.write(0, &[0; 16]).unwrap();
        let mut expected = 0u32;
        let mut last = rig.copy.last();
        for i in 0..1400u32 {
            let args = [at(&data), Val::Const(u64::from(i))];
            let one = exec(&rig.step, &args, 1);
            let barrier = Command::Barrier {
                scope: hcq::Scope::Queue,
            };
            let count = if i % 400 == 399 { 300 } else { 1 };
            let all = [one, barrier].repeat(count);
            let stepped = rig.compute.submit(&[last], &all).unwrap();
            for _ in 0..count {
                expected = expected.wrapping_mul(3).wrapping_add(i);
            }
            let write = Command::Write {
                at: Val::Const(data.va().0 + 8),
                value: Val::Const(u64::from(i)),
                width: Width::W32,
            };
            last = rig.copy.submit(&[stepped], &[write]).unwrap();
        }
        last.wait(soon()).unwrap();
        assert!(last.value > 1 << 32);
        assert_eq!(words(&data).unwrap(), [expected, 0, 1399, 0], "{config}");
        drop((rig, data, last));
        ends(&twin, &[], config);
    }
}

/// Many devices are open on a GPU, and each waits for what the one before has done.
#[test]
fn many_devices_of_a_gpu_work_beside_each_other() {
    let config = "chip=h100";
    let twin = twin(config);
    let machine = machine(&twin);
    let step = kernel(config, "step");
    let all: Vec<_> = (0..24)
        .map(|_| Rig::open(&machine, 0, &step).unwrap())
        .collect();
    // Each hands on to the next one.
    let data = memory(&*all[0].device, MemoryKind::Device, 4096).unwrap();
    data.write(0, &[0; 64]).unwrap();
    let args = [at(&data), Val::Const(1)];
    let mut last = Vec::new();
    for rig in all.iter().chain(&all) {
        let stepped = rig.compute.submit(&last, &[exec(&rig.step, &args, 16)]);
        last = vec![stepped.unwrap()];
    }
    last[0].wait(soon()).unwrap();
    let steps = (0..48).fold(0u32, |x, _| x.wrapping_mul(3).wrapping_add(1));
    assert_eq!(words(&data).unwrap(), [steps; 16]);
    drop((all, data, last));
    ends(&twin, &[], config);
}

/// Copies of several queues, each on an engine of its own, between kernels of one: all that is handed on is
/// there.
#[test]
fn several_copy_queues_work_at_once() {
    const QUEUES: u32 = 4;
    for config in ["chip=h100", "chip=ad102,seed=5"] {
        let twin = twin(config);
        let several = Options {
            copy_queues: QUEUES,
            ..options()
        };
        let machine = machine(&twin);
        let rig = Rig::with(&machine, 0, &kernel(config, "step"), &several).unwrap();
        let info = rig.device.info();
        let count = info
            .queues
            .iter()
            .find(|(kind, _)| *kind == QueueKind::Copy);
        // As many as the GPU has engines for.
        let count = count.unwrap().1;
        assert!((2..=QUEUES).contains(&count), "{config}: {count}");
        let streams: Vec<_> = (0..count)
            .map(|i| Stream::new(rig.device.queue(QueueKind::Copy, i).unwrap()))
            .collect();
        let from = memory(&*rig.device, MemoryKind::Device, 4096).unwrap();
        from.write(0, &[0; 64]).unwrap();
        let to: Vec<_> = (0..count)
            .map(|_| memory(&*rig.device, MemoryKind::Host, 4096).unwrap())
            .collect();
        let args = [at(&from), Val::Const(1)];
        let mut copied = Vec::new();
        let mut expected = 0u32;
        for _ in 0..50 {
            let step = exec(&rig.step, &args, 16);
            let stepped = rig.compute.submit(&copied, &[step]).unwrap();
            expected = expected.wrapping_mul(3).wrapping_add(1);
            let all = streams.iter().zip(&to);
            let copies = all.map(|(stream, to)| {
                let behind = std::slice::from_ref(&stepped);
                stream.submit(behind, &[copy(to, &from)]).unwrap()
            });
            copied = copies.collect();
        }
        for (point, to) in copied.iter().zip(&to) {
            point.wait(soon()).unwrap();
            assert_eq!(words(to).unwrap(), [expected; 16], "{config}");
        }
        drop((rig, streams, from, to, copied));
        ends(&twin, &[], config);
    }
}
