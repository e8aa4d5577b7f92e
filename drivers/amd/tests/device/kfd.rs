//! What a device does beside the conformance suite: several GPUs, faults and hangs in words, loss and
//! opening again, the survey.

use crate::stand;

use std::sync::Arc;
use std::time::Duration;

use drivers_amd::kfd::{Unusable, survey};
use drivers_amd::{AmdDevice, Language, Options};
use hcq::{Command, Deadline, Device, Error, MemoryKind, QueueKind, Stream, Val};
use stand::{at, machine, memory, options, soon, twin};

fn stream(device: &AmdDevice, kind: QueueKind) -> Stream {
    Stream::new(device.queue(kind, 0).unwrap())
}

fn copy(dst: &hcq::Buffer, src: &hcq::Buffer) -> Command<'static> {
    Command::Copy {
        dst: at(dst),
        src: at(src),
        bytes: src.bytes(),
    }
}

#[test]
fn work_is_done_on_every_chip_and_kernel() {
    for config in [
        "chip=gfx1030",
        "chip=gfx1031",
        "chip=gfx1032",
        "chip=gfx1034",
        "chip=gfx1100",
        "chip=gfx1101",
        "chip=gfx1102",
        "chip=gfx1103",
        "chip=gfx1200",
        "chip=gfx1201",
        "chip=gfx942,xcc=1",
        "chip=gfx942,xcc=2",
        "chip=gfx942,xcc=8",
        "chip=gfx1100,kernel=6.8",
        "chip=gfx1201,bar=small",
        "chip=gfx942,xcc=8,drain=random,seed=5",
    ] {
        let chip = config["chip=".len()..].split(',').next().unwrap();
        let image = stand::kernel(chip, "sums", 2);
        let twin = twin(config);
        stand::work(&machine(&twin), &image).unwrap();
        let broken = twin.machine().journal.violations();
        let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "{config}: {}", broken.join("\n"));
    }
}

#[test]
fn vram_is_copied_between_gpus() {
    for config in ["gpus=3", "chip=gfx942,xcc=1,gpus=3"] {
        let twin = twin(&format!("{config},vram=1G"));
        let machine = machine(&twin);
        let open = |index| drivers_amd::open(&machine, index, &options()).unwrap();
        let first = open(0);
        let bytes = 300_000;
        let a = memory(&*first, MemoryKind::Device, bytes).unwrap();
        // Opened after the memory was made.
        let second = open(1);
        let b = memory(&*second, MemoryKind::Device, bytes).unwrap();
        let content: Vec<u8> = (0..bytes).map(|i| ((i * 11) >> 2) as u8).collect();
        a.write(0, &content).unwrap();
        let pull = stream(&second, QueueKind::Copy);
        let pulled = pull.submit(&[], &[copy(&b, &a)]).unwrap();
        let push = stream(&second, QueueKind::Compute);
        let c = memory(&*first, MemoryKind::Device, bytes).unwrap();
        let pushed = push.submit(&[pulled], &[copy(&c, &b)]).unwrap();
        pushed.wait(soon()).unwrap();
        let mut seen = vec![0; bytes as usize];
        c.read(0, &mut seen).unwrap();
        assert!(seen == content, "{config}");
        drop((push, pull, a, b, c, first, second));
        let broken = twin.machine().journal.violations();
        let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "{config}: {}", broken.join("\n"));
    }
}

#[test]
fn a_fault_names_the_kernel_its_argument_and_whose_memory_it_was() {
    let twin = twin("vram=1G,gpus=2");
    let machine = machine(&twin);
    let device = drivers_amd::open(&machine, 0, &options()).unwrap();
    let other = drivers_amd::open(&machine, 1, &options()).unwrap();
    let store = device.load(&stand::kernel("gfx1100", "store", 1)).unwrap();
    let gone = memory(&*device, MemoryKind::Device, 5 << 20).unwrap();
    let va = gone.va().0 + 0x1234 * 4;
    drop(gone);
    // What is kept for reuse would still be mapped: it goes for memory that is asked for.
    let fill = memory(&*device, MemoryKind::Device, 1020 << 20);
    drop(fill);
    let compute = stream(&device, QueueKind::Compute);
    let args = [Val::Const(va)];
    let exec = Command::Exec {
        program: &store,
        args: &args,
        grid: [1, 1, 1],
        block: [1, 1, 1],
    };
    let error = compute
        .submit(&[], &[exec])
        .unwrap()
        .wait(soon())
        .unwrap_err();
    let Error::DeviceLost { cause, .. } = &error else {
        panic!("{error}");
    };
    let Error::Fault { unit, what, .. } = &**cause else {
        panic!("{cause}");
    };
    assert_eq!(unit, "compute 0");
    for part in [
        "access to unmapped memory",
        "of device memory (0x500000 bytes at",
        "use after free",
        "kernel store",
        &format!("{va:#x}, in that page"),
    ] {
        assert!(what.contains(part), "{part}: {what}");
    }
    // The other GPU works, and this one opens again.
    other.status().unwrap();
    drop((compute, store, device));
    stand::work(&machine, &stand::kernel("gfx1100", "sums", 2)).unwrap();
}

#[test]
fn a_hang_is_told_with_pointers_packet_and_value() {
    let twin = twin("vram=1G");
    let device = drivers_amd::open(&machine(&twin), 0, &options()).unwrap();
    let gate = device.signal("the gate").unwrap();
    let compute = stream(&device, QueueKind::Compute);
    let wait = Command::Wait {
        signal: &gate,
        value: Val::Const(5),
    };
    let held = compute.submit(&[], &[wait]).unwrap();
    let error = held
        .wait(Deadline::after(Duration::from_millis(50)))
        .unwrap_err();
    let text = error.to_string();
    for part in [
        "compute 0: wptr 0x",
        "rptr 0x",
        "a wait for memory at 0x",
        ">= 0x5, which is 0x0",
        "signal the gate",
        "still 0",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    gate.set(5).unwrap();
    held.wait(soon()).unwrap();
}

/// Collects what is logged as a warning or an error.
#[derive(Default)]
struct Warnings(std::sync::Mutex<Vec<String>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{field}={value:?} ");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// A queue that does not stop is gone after the kernel's reset; there is nothing to say about that but
/// that the device was closed with work in it, and the next open works.
#[test]
fn a_queue_that_hangs_is_closed_without_noise() {
    for config in ["", "chip=gfx942,xcc=1,"] {
        let arch = if config.is_empty() {
            "gfx1100"
        } else {
            "gfx942"
        };
        let twin = twin(&format!("{config}vram=1G,fault=hang:queue=0"));
        let machine = machine(&twin);
        let warnings = Arc::new(Warnings::default());
        tracing::subscriber::with_default(warnings.clone(), || {
            let options = Options {
                drain_timeout: Duration::from_millis(200),
                ..options()
            };
            let device = drivers_amd::open(&machine, 0, &options).unwrap();
            let hung = stream(&device, QueueKind::Compute)
                .submit(&[], &[])
                .unwrap();
            let limit = Deadline::after(Duration::from_millis(50));
            assert!(hung.wait(limit).is_err());
        });
        let warned = std::mem::take(&mut *warnings.0.lock().unwrap());
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(
            warned[0].contains("closed while queues still wait"),
            "{warned:?}"
        );
        let left = twin.process().objects();
        let left: Vec<_> = left
            .iter()
            .filter(|line| !line.starts_with("file /dev/") && !line.starts_with("event page"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        stand::work(&machine, &stand::kernel(arch, "sums", 2)).unwrap();
    }
}

/// An XCC that waits for another one of its queue is not stuck: the other may only be slow.
#[test]
fn xccs_that_wait_for_each_other_are_waited_for() {
    let twin = twin("chip=gfx942,xcc=2,vram=1G,fault=hang:queue=1");
    let options = Options {
        drain_timeout: Duration::from_secs(1),
        compute: Some(Language::Pm4),
        ..options()
    };
    let device = drivers_amd::open(&machine(&twin), 0, &options).unwrap();
    let compute = stream(&device, QueueKind::Compute);
    compute.submit(&[], &[]).unwrap();
    drop(compute);
    let begin = std::time::Instant::now();
    drop(device);
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[test]
fn resets_and_lost_interrupts() {
    let image = stand::kernel("gfx1100", "sums", 2);
    // A reset loses the device; it opens again.
    let reset = twin("vram=1G,fault=exception:reset:queue=1");
    let machine_ = machine(&reset);
    let error = stand::work(&machine_, &image).unwrap_err();
    assert!(error.to_string().contains("the GPU was reset"), "{error}");
    stand::work(&machine_, &image).unwrap();
    // Without its interrupts the host looks by itself.
    let lost = twin("vram=1G,fault=event:lost:1;event:lost:2;event:lost:3");
    stand::work(&machine(&lost), &image).unwrap();
    // A GPU that is gone is an error, and stays one.
    let gone = twin("vram=1G,fault=gone:queue=1");
    let machine_ = machine(&gone);
    assert!(stand::work(&machine_, &image).is_err());
    assert!(stand::work(&machine_, &image).is_err());
}

#[test]
fn both_languages_of_gfx942_do_the_work() {
    let image = stand::kernel("gfx942", "sums", 2);
    for language in [Language::Pm4, Language::Aql] {
        let twin = twin("chip=gfx942,xcc=1,vram=1G");
        let options = Options {
            compute: Some(language),
            ..options()
        };
        let device = drivers_amd::open(&machine(&twin), 0, &options).unwrap();
        let program = device.load(&image).unwrap();
        assert_eq!(program.name, "sums");
    }
}

#[test]
fn the_survey_tells_what_can_be_used() {
    let all = survey(&*machine(&twin("gpus=2")));
    assert_eq!(all.driver, Ok((1, 17)));
    assert_eq!(all.usable().count(), 2);
    assert_eq!(all.gpus[1].index, Some(1));
    assert_eq!(all.gpus[0].gpu.as_ref().unwrap().arch(), "gfx1100");
    let refused = survey(&*machine(&twin("fault=open:EACCES:1")));
    assert!(matches!(refused.driver, Err(Unusable::NoPermission { .. })));
    let error = drivers_amd::open(&machine(&twin("")), 3, &options()).unwrap_err();
    assert!(
        error.to_string().contains("one supported GPU, number 0"),
        "{error}"
    );
}

/// What a wait is given, and how often something moves meanwhile, for half as long again.
const LIMIT: Duration = Duration::from_secs(1);
const STEPS: u64 = 15;

#[test]
fn work_that_goes_on_is_waited_for_and_what_does_not_is_told() {
    let twin = twin("vram=1G");
    let device = drivers_amd::open(&machine(&twin), 0, &options()).unwrap();
    let (gate, never) = (device.signal("the gate"), device.signal("what never comes"));
    let (gate, never) = (gate.unwrap(), never.unwrap());
    let until = |value| Command::Wait {
        signal: &gate,
        value: Val::Const(value),
    };
    let [compute, copies] = [QueueKind::Compute, QueueKind::Copy].map(|kind| stream(&device, kind));
    // One submission, of which the queue shows where it stands; and several, behind it.
    let waits: Vec<_> = (1..=STEPS).map(until).collect();
    let one = compute.submit(&[], &waits).unwrap();
    let behind = copies.submit(&[one], &[]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for value in 1..=STEPS {
                std::thread::sleep(LIMIT / 10);
                gate.set(value).unwrap();
            }
        });
        behind.wait(Deadline::after(LIMIT)).unwrap();
    });
    // One kernel, of which this way shows nothing.
    let spin = device.load(&stand::kernel("gfx1100", "spin", 1)).unwrap();
    let word = memory(&*device, MemoryKind::Host, 256).unwrap();
    word.write(0, &[0; 256]).unwrap();
    let args = [at(&word)];
    let exec = Command::Exec {
        program: &spin,
        args: &args,
        grid: [1, 1, 1],
        block: [1, 1, 1],
    };
    let spins = compute.submit(&[], &[exec]).unwrap();
    let short = || Deadline::after(Duration::from_millis(100));
    let wait = Command::Wait {
        signal: &never,
        value: Val::Const(1),
    };
    let error = spins.wait(short()).unwrap_err().to_string();
    let blind =
        "raise HCQDEV_WAIT_TIMEOUT_MS if one kernel may take longer (this device cannot tell";
    assert!(error.contains(blind), "{error}");
    assert!(error.contains("No progress for 1"), "{error}");
    assert!(error.contains("rptr 0x"), "{error}");
    word.write(0, &[1; 4]).unwrap();
    spins.wait(soon()).unwrap();
    // A signal that nobody sets, beside a queue that works.
    let held = copies.submit(&[], &[wait]).unwrap();
    let error = held.wait(short()).unwrap_err().to_string();
    assert!(error.contains("No progress for 1"), "{error}");
    assert!(error.contains("may pause for longer"), "{error}");
    never.set(1).unwrap();
    held.wait(soon()).unwrap();
    device.synchronize(soon()).unwrap();
    device.status().unwrap();
}

/// Of a GPU that leaves the bus no event tells, where another one keeps the kernel's driver answering.
#[test]
fn a_gpu_that_leaves_the_bus_is_named() {
    let twin = twin("gpus=2,vram=1G");
    let device = drivers_amd::open(&machine(&twin), 0, &options()).unwrap();
    let other = drivers_amd::open(&machine(&twin), 1, &options()).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Copy, 0).unwrap());
    stream.submit(&[], &[]).unwrap().wait(soon()).unwrap();
    twin.machine().unplug(0);
    let error = stream
        .submit(&[], &[])
        .and_then(|point| point.wait(Deadline::after(Duration::from_secs(5))));
    let error = error.unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert!(error.to_string().contains("left the bus"), "{error}");
    // While somebody has the one that left, the other gets memory that both would find.
    for kind in [MemoryKind::Host, MemoryKind::Control, MemoryKind::Device] {
        for bytes in [4096, 64 << 20] {
            stand::memory(&*other, kind, bytes).unwrap();
        }
    }
    let stream = Stream::new(other.queue(QueueKind::Copy, 0).unwrap());
    stream.submit(&[], &[]).unwrap().wait(soon()).unwrap();
    other.status().unwrap();
}

/// The kernel tells a process of a fault, by the GPU, and stops all of its queues there: which handle has made it is known by
/// what was in flight, and the other one is told why it is lost.
#[test]
fn a_fault_is_told_to_the_handle_that_has_made_it_and_to_others_as_that() {
    let image = stand::kernel("gfx1100", "sums", 2);
    let twin = twin("vram=1G");
    let open = || drivers_amd::open(&machine(&twin), 0, &options()).unwrap();
    let (wrong, well) = (open(), open());
    let copy = Command::Copy {
        dst: Val::Const(0x4560_0000),
        src: Val::Const(0x1230_0000),
        bytes: 64,
    };
    let stream = Stream::new(wrong.queue(QueueKind::Copy, 0).unwrap());
    let point = stream.submit(&[], &[copy]).unwrap();
    // The other one looks first.
    let looks = (0..10_000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        well.status().err()
    });
    let error = looks.unwrap().to_string();
    let others = "a fault of another handle in this process";
    assert!(
        error.contains(others) && error.contains("page fault"),
        "{error}"
    );
    let error = point.wait(soon()).unwrap_err().to_string();
    assert!(error.contains("page fault"), "{error}");
    assert!(
        error.contains("a copy of 0x40 bytes") && !error.contains(others),
        "{error}"
    );
    drop((stream, wrong, point, well));
    assert!(stand::work_on(&*open(), &image, 8).unwrap());
}
