//! Many of everything: threads, devices, orders in which handles go; and all that there is of a
//! thing. Nothing is left behind, nothing hangs, no other device is harmed.

use crate::stand;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use drivers_amd::AmdDevice;
use hcq::transport::Machine;
use hcq::{
    Buffer, Command, CommandBuffer, Deadline, Device, Error, KernelImage, MemoryKind, Program,
    QueueKind, Stream, Val,
};
use stand::{at, machine, memory, options, soon, twin};
use twin_amd::machine::TwinMachine;

/// What the kernel keeps for the process, but for files and the event page, which it never gives back.
fn leaks(twin: &TwinMachine) -> Vec<String> {
    let kept = |line: &String| line.starts_with("file /dev/") || line.starts_with("event page");
    let all = twin.process().objects();
    all.into_iter().filter(|line| !kept(line)).collect()
}

/// The rules that were broken.
fn broken(twin: &TwinMachine) -> String {
    let all = twin.machine().journal.violations();
    let all: Vec<_> = all.iter().map(ToString::to_string).collect();
    all.join("\n")
}

/// A device with what works on it.
struct Rig {
    device: Arc<AmdDevice>,
    compute: Stream,
    copy: Stream,
    step: Arc<Program>,
}

impl Rig {
    fn open(machine: &Arc<dyn Machine>, index: u32, image: &KernelImage) -> hcq::Result<Rig> {
        let device = drivers_amd::open(machine, index, &options())?;
        Ok(Rig {
            compute: Stream::new(device.queue(QueueKind::Compute, 0)?),
            copy: Stream::new(device.queue(QueueKind::Copy, 0)?),
            step: device.load(image)?,
            device,
        })
    }

    /// One round of work on numbers of its own; what comes out is compared.
    fn round(&self, seed: u32) -> hcq::Result<()> {
        let sizes = [256, 4096, 70_000, 2 << 20];
        let bytes = sizes[seed as usize % 4];
        let kind = [MemoryKind::Device, MemoryKind::Host][seed as usize / 4 % 2];
        let (a, b) = (
            memory(&*self.device, kind, bytes)?,
            memory(&*self.device, MemoryKind::Host, bytes)?,
        );
        let content: Vec<u8> = (0..bytes).map(|i| (i as u32 * 7 + seed) as u8).collect();
        a.write(0, &content)?;
        let args = [at(&a), Val::Const(u64::from(seed))];
        let stepped = self.compute.submit(
            &[],
            &[Command::Exec {
                program: &self.step,
                args: &args,
                grid: [16, 1, 1],
                block: [1, 1, 1],
            }],
        )?;
        let copied = self.copy.submit(&[stepped], &[copy(&b, &a)])?;
        copied.wait(soon())?;
        let mut seen = vec![0; bytes as usize];
        b.read(0, &mut seen)?;
        let number = |bytes: &[u8], i: usize| {
            u32::from_le_bytes(bytes[i * 4..i * 4 + 4].try_into().unwrap())
        };
        for i in 0..16 {
            let wanted = number(&content, i).wrapping_mul(3).wrapping_add(seed);
            assert_eq!(number(&seen, i), wanted, "round {seed}, element {i}");
        }
        assert!(seen[64..] == content[64..], "round {seed}");
        Ok(())
    }
}

fn copy(dst: &Buffer, src: &Buffer) -> Command<'static> {
    Command::Copy {
        dst: at(dst),
        src: at(src),
        bytes: src.bytes(),
    }
}

#[test]
fn threads_share_devices() {
    for config in [
        "chip=gfx1100,gpus=2,vram=1G",
        "chip=gfx1100,gpus=2,vram=1G,bar=small,seed=3",
        "chip=gfx942,xcc=8,gpus=2,vram=1G,seed=4",
    ] {
        let chip = config["chip=".len()..].split(',').next().unwrap();
        let image = stand::kernel(chip, "step", 2);
        let twin = twin(config);
        let machine = machine(&twin);
        let rigs: Vec<_> = (0..2)
            .map(|i| Arc::new(Rig::open(&machine, i, &image).unwrap()))
            .collect();
        thread::scope(|scope| {
            for t in 0..6u32 {
                let (rigs, machine, image) = (&rigs, &machine, &image);
                scope.spawn(move || {
                    let rig = rigs[t as usize % 2].clone();
                    for i in 0..24 {
                        rig.round(t * 24 + i).unwrap();
                        if i % 8 == t {
                            // The same GPU once more, while it works.
                            let other = Rig::open(machine, t % 2, image).unwrap();
                            other.round(i).unwrap();
                        }
                        rig.device.signal("a signal").unwrap();
                        rig.device.status().unwrap();
                        if i % 5 == 0 {
                            drop(rig.device.load(image).unwrap());
                        }
                    }
                    rig.device.synchronize(soon()).unwrap();
                });
            }
        });
        drop(rigs);
        assert_eq!(leaks(&twin), [""; 0], "{config}");
        assert_eq!(broken(&twin), "", "{config}");
    }
}

/// Opened for the first time by all at once: address spaces and the event page are made once.
#[test]
fn threads_open_at_once() {
    let image = stand::kernel("gfx1100", "step", 2);
    for seed in 0..8 {
        let twin = twin(&format!("gpus=2,vram=1G,seed={seed}"));
        let machine = machine(&twin);
        let start = Barrier::new(6);
        thread::scope(|scope| {
            for t in 0..6u32 {
                let (machine, image, start) = (&machine, &image, &start);
                scope.spawn(move || {
                    start.wait();
                    Rig::open(machine, t % 2, image).unwrap().round(t).unwrap();
                });
            }
        });
        assert_eq!(leaks(&twin), [""; 0]);
        assert_eq!(broken(&twin), "");
    }
}

/// A thread that panics with handles in its hands, in the middle of work, harms nobody.
#[test]
fn a_thread_that_panics_harms_nobody() {
    let image = stand::kernel("gfx1100", "step", 2);
    let twin = twin("vram=1G");
    let machine = machine(&twin);
    let rig = Arc::new(Rig::open(&machine, 0, &image).unwrap());
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
    assert_eq!(leaks(&twin), [""; 0]);
}

/// Handles of two devices go in every order, with work under way that goes over both.
#[test]
fn handles_go_in_every_order() {
    let image = stand::kernel("gfx1100", "step", 2);
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
    let twin = twin("gpus=2,vram=1G");
    let machine = machine(&twin);
    // Each tenth of them: all take a minute.
    for order in orders.iter().step_by(11) {
        let (first, second) = (
            Rig::open(&machine, 0, &image).unwrap(),
            Rig::open(&machine, 1, &image).unwrap(),
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
        let mut handles: Vec<Option<Box<dyn std::any::Any>>> = vec![
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
        assert_eq!(leaks(&twin), [""; 0], "{order:?}");
    }
    assert_eq!(broken(&twin), "");
}

/// A device that waits for another one is not given up while that one works, however long.
#[test]
fn the_end_of_a_device_waits_for_what_others_do_for_it() {
    // The other one is open, or ends at the same time.
    [false, true].into_iter().for_each(end_of_a_device);
}

fn end_of_a_device(both: bool) {
    let image = stand::kernel("gfx1100", "spin", 1);
    let twin = twin("gpus=2,vram=1G");
    let machine = machine(&twin);
    let first = Rig::open(&machine, 0, &image).unwrap();
    let second = drivers_amd::open(&machine, 1, &options()).unwrap();
    let stream = Stream::new(second.queue(QueueKind::Compute, 0).unwrap());
    let flag = memory(&*first.device, MemoryKind::Host, 4096).unwrap();
    flag.write(0, &[0; 4]).unwrap();
    let args = [at(&flag)];
    let spin = Command::Exec {
        program: &first.step,
        args: &args,
        grid: [1, 1, 1],
        block: [1, 1, 1],
    };
    let spun = first.compute.submit(&[], &[spin]).unwrap();
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
    drop((first, flag, done));
    assert_eq!(leaks(&twin), [""; 0]);
    assert_eq!(broken(&twin), "");
}

/// A kernel or its buffer goes while it runs: it is done, or the device is lost and opens again.
#[test]
fn what_goes_while_it_is_used_is_no_panic() {
    let image = stand::kernel("gfx1100", "step", 2);
    let twin = twin("vram=1G");
    let machine = machine(&twin);
    for round in 0..20 {
        let rig = Rig::open(&machine, 0, &image).unwrap();
        let data = memory(&*rig.device, MemoryKind::Device, 300_000).unwrap();
        let program = rig.device.load(&image).unwrap();
        let args = [at(&data), Val::Const(1)];
        let exec = Command::Exec {
            program: &program,
            args: &args,
            grid: [64, 1, 1],
            block: [1, 1, 1],
        };
        let done = rig.compute.submit(&[], &[exec; 4]).unwrap();
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
    assert_eq!(leaks(&twin), [""; 0]);
}

/// What happens to one GPU does not happen to another one, nor to another device on it.
#[test]
fn a_fault_on_one_gpu_is_none_of_another() {
    let (step, store) = (
        stand::kernel("gfx1100", "step", 2),
        stand::kernel("gfx1100", "store", 1),
    );
    for what in ["unmapped", "freed", "owned", "code", "reset", "hang"] {
        let fault = match what {
            // The queues of the first GPU: 0 and 1. Those of the second: 2 and 3, and 4 for the host's
            // copies; then again the first.
            "reset" => ",fault=exception:reset:queue=5",
            _ => "",
        };
        let twin = twin(&format!("gpus=2,vram=1G{fault}"));
        let machine = machine(&twin);
        let a = Rig::open(&machine, 0, &step).unwrap();
        let b = Rig::open(&machine, 1, &step).unwrap();
        b.round(0).unwrap();
        let (stop, rounds) = (AtomicBool::new(false), AtomicU32::new(1));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) || rounds.load(Ordering::Relaxed) < 8 {
                    b.round(rounds.fetch_add(1, Ordering::Relaxed)).unwrap();
                }
            });
            let lost = match what {
                "reset" => {
                    // Another queue of the first GPU: the reset comes with it.
                    let again = drivers_amd::open(&machine, 0, &options());
                    let lost = a.round(1);
                    drop(again);
                    lost
                }
                "hang" => {
                    let gate = a.device.signal("the gate").unwrap();
                    let wait = Command::Wait {
                        signal: &gate,
                        value: Val::Const(1),
                    };
                    let held = a.compute.submit(&[], &[wait]).unwrap();
                    let short = Deadline::after(Duration::from_millis(50));
                    let error = held.wait(short).unwrap_err();
                    assert!(matches!(error, Error::Timeout { .. }), "{error}");
                    assert!(error.to_string().contains("the gate"), "{error}");
                    gate.set(1).unwrap();
                    held.wait(soon())
                }
                _ => {
                    let program = a.device.load(&store).unwrap();
                    let buffer = memory(&*a.device, MemoryKind::Device, 40 << 20).unwrap();
                    let va = match what {
                        "unmapped" => 0x1000,
                        "code" => a.step.entry.0,
                        _ => buffer.va().0,
                    };
                    if what != "owned" {
                        drop(buffer);
                    }
                    if what == "freed" {
                        // What is kept for reuse goes for what does not fit beside it.
                        drop(memory(&*a.device, MemoryKind::Device, 1010 << 20));
                    }
                    let args = [Val::Const(va)];
                    let exec = Command::Exec {
                        program: &program,
                        args: &args,
                        grid: [1, 1, 1],
                        block: [1, 1, 1],
                    };
                    let done = a.compute.submit(&[], &[exec]).unwrap();
                    done.wait(soon())
                }
            };
            match what {
                // Memory of this process, and code, may be written: nothing happens.
                "owned" | "code" | "hang" => lost.unwrap(),
                _ => {
                    let error = lost.unwrap_err();
                    assert!(matches!(error, Error::DeviceLost { .. }), "{what}: {error}");
                    let text = error.to_string();
                    assert!(text.contains("AMD:0") && !text.contains("AMD:1"), "{text}");
                    if what == "freed" {
                        assert!(text.contains("use after free"), "{text}");
                    }
                    // Whatever is asked of it says the same, at once.
                    for error in [
                        a.device.status().unwrap_err(),
                        a.device.signal("x").map(|_| ()).unwrap_err(),
                        a.device.synchronize(soon()).unwrap_err(),
                        memory(&*a.device, MemoryKind::Host, 1)
                            .map(|_| ())
                            .unwrap_err(),
                        a.compute.submit(&[], &[]).map(|_| ()).unwrap_err(),
                    ] {
                        assert!(matches!(error, Error::DeviceLost { .. }), "{what}: {error}");
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        b.device.status().unwrap();
        drop(a);
        Rig::open(&machine, 0, &step).unwrap().round(3).unwrap();
        b.round(4).unwrap();
        drop(b);
        assert_eq!(leaks(&twin), [""; 0], "{what}");
    }
}

#[test]
fn all_memory_is_taken_and_given_back() {
    let image = stand::kernel("gfx1100", "step", 2);
    let twin = twin("vram=256M,gtt=128M");
    let machine = machine(&twin);
    let rig = Rig::open(&machine, 0, &image).unwrap();
    for _ in 0..3 {
        for (kind, words) in [
            (MemoryKind::Device, "of 268435456 are free; "),
            (
                MemoryKind::Host,
                "of 134217728 are free of the system memory shared by all GPUs",
            ),
        ] {
            let mut all = Vec::new();
            let error = loop {
                match memory(&*rig.device, kind, 5 << 20) {
                    Ok(buffer) => all.push(buffer),
                    Err(error) => break error,
                }
                assert!(all.len() < 100);
            };
            assert!(all.len() >= 10, "{kind:?}: only {}", all.len());
            let Error::OutOfMemory { asked, free, .. } = &error else {
                panic!("{error}");
            };
            let sizes = 5 << 20..6 << 20;
            assert!(sizes.contains(asked) && free < asked, "{error}");
            assert!(error.to_string().contains(words), "{error}");
            // What is there works, and a small one may still fit.
            all[0].write(0, &[7; 100]).unwrap();
            let _ = memory(&*rig.device, kind, 100);
            drop(all);
            rig.round(5).unwrap();
        }
    }
    drop(rig);
    assert_eq!(leaks(&twin), [""; 0]);
}

/// Devices are opened on one GPU until it has no queue left: that is said, and those that are open
/// work on.
#[test]
fn all_queues_are_taken_and_given_back() {
    let image = stand::kernel("gfx1100", "step", 2);
    let twin = twin("vram=4G,gtt=4G");
    let machine = machine(&twin);
    for _ in 0..2 {
        let mut all = Vec::new();
        let error = loop {
            match Rig::open(&machine, 0, &image) {
                Ok(rig) => all.push(rig),
                Err(error) => break error,
            }
            assert!(all.len() < 200);
        };
        println!("{} devices, then: {error}", all.len());
        assert!(all.len() >= 4, "only {}", all.len());
        let text = error.to_string();
        assert!(
            text.contains("CREATE_QUEUE") && text.contains("queues"),
            "{text}"
        );
        assert!(!matches!(error, Error::OutOfMemory { .. }), "{text}");
        for (i, rig) in (0..).zip(&all) {
            let done = rig.compute.submit(&[], &[]).unwrap();
            done.wait(soon()).unwrap();
            if i == 0 {
                drop(rig.device.signal("a signal").unwrap());
            }
        }
    }
    assert_eq!(leaks(&twin), [""; 0]);
    assert_eq!(broken(&twin), "");
}
