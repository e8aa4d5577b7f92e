//! What goes wrong on a GPU, as its user is told: which kernel, where, whose memory. The device is lost,
//! others are not; and it can be opened again.

use std::time::{Duration, Instant};

use drivers_nv::Options;
use drivers_spec::nv::cubin::Cubin;
use hcq::{
    Command, CommandBuffer, Deadline, Device, Error, KernelImage, MemoryKind, QueueKind, Result,
    Stream, Val,
};
use twin::process::Process;
use twin_nv::machine::TwinMachine;

use super::stand::{
    CHIPS, Rig, VAIN, WILD, at, copy, ends, exec, kernel, machine, memory, options, soon, twin,
};

/// The cause of a loss in words.
fn cause(error: &Error) -> String {
    let Error::DeviceLost { cause, .. } = error else {
        panic!("expected a loss, found {error}");
    };
    assert!(matches!(**cause, Error::Fault { .. }), "{cause}");
    error.to_string()
}

/// Whatever is asked of a lost device gives its cause.
fn is_lost(rig: &Rig, text: &str) {
    let device = &*rig.device;
    let image = kernel("ga102", "step");
    let all = [
        device.status().unwrap_err(),
        device.signal("x").map(|_| ()).unwrap_err(),
        device.synchronize(soon()).unwrap_err(),
        device.load(&image).map(|_| ()).unwrap_err(),
        device.clock().map(|_| ()).unwrap_err(),
        memory(device, MemoryKind::Host, 1).map(|_| ()).unwrap_err(),
        rig.compute.submit(&[], &[]).map(|_| ()).unwrap_err(),
        rig.copy.submit(&[], &[]).map(|_| ()).unwrap_err(),
    ];
    for error in all {
        assert_eq!(cause(&error), text);
    }
}

/// A kernel whose first instruction is none that there is.
pub fn illegal(config: &str) -> KernelImage {
    let mut image = kernel(config, "uneven");
    let cubin = Cubin::parse(&image.bytes).unwrap();
    let code = cubin.kernel("uneven").unwrap();
    let laid = cubin.at(0);
    let entry = code.entry as usize;
    let wanted = laid[entry..entry + code.code_bytes as usize].to_vec();
    let mut bytes = image.bytes.to_vec();
    let found = bytes.windows(wanted.len()).position(|all| all == wanted);
    let place = found.unwrap();
    bytes[place..place + 16].copy_from_slice(&[0xff; 16]);
    image.bytes = bytes.into();
    image.name = "illegal".into();
    image
}

/// What a kernel does wrong, and what is told of it.
struct Wrong {
    image: KernelImage,
    args: Vec<Val>,
    told: Vec<String>,
    rule: &'static str,
}

fn wrongs(config: &str, out: u64) -> Vec<Wrong> {
    let number = Val::Const;
    let wrong = |entry: &str, args: &[Val], told: &[&str], rule| Wrong {
        image: KernelImage {
            local_bytes: if entry == "shared" { 1024 } else { 0 },
            ..kernel(config, entry)
        },
        args: args.to_vec(),
        told: told.iter().map(|&text| text.into()).collect(),
        rule,
    };
    let page = format!("at page {WILD:#x}: access to unmapped memory");
    let nowhere = "the page is not in or near any buffer";
    let odd = format!(
        "misaligned address, address {:#x} (at offset 0x2 of",
        out + 2
    );
    let far = 1 << 20;
    let mut all = vec![
        wrong(
            "store",
            &[number(WILD + 8)],
            &["page fault of a write", &page, nowhere, "kernel store"],
            "MMU-FAULT",
        ),
        wrong(
            "load",
            &[number(WILD + 8)],
            &["page fault of a read", &page, nowhere, "kernel load"],
            "MMU-FAULT",
        ),
        wrong(
            "count",
            &[number(WILD + 8)],
            &["page fault of an atomic operation", &page, "kernel count"],
            "MMU-FAULT",
        ),
        wrong(
            "store",
            &[number(out + 2)],
            &[
                "on multiprocessor 0",
                &odd,
                "of device memory (",
                "of the code of kernel store",
            ],
            "COMPUTE-EXCEPTION",
        ),
        wrong(
            "shared",
            &[number(out), number(far)],
            &["address out of range", "of the code of kernel shared"],
            "COMPUTE-EXCEPTION",
        ),
        wrong(
            "local",
            &[number(out), number(far)],
            &["address out of range", "of the code of kernel local"],
            "COMPUTE-EXCEPTION",
        ),
        wrong(
            "trap",
            &[],
            &["Xid 13 (", "kernel trap"],
            "COMPUTE-EXCEPTION",
        ),
        wrong(
            "uneven",
            &[],
            &["Xid 109 (", "kernel uneven"],
            "COMPUTE-HANG",
        ),
    ];
    all.push(Wrong {
        image: illegal(config),
        args: Vec::new(),
        told: vec!["Xid 13 (".into(), "kernel illegal".into()],
        rule: "COMPUTE-CODE-NOT-MODELLED",
    });
    all
}

#[test]
fn what_a_kernel_does_wrong_is_told_and_the_device_opens_again() {
    for chip in CHIPS {
        let config = format!("chip={chip}");
        let step = kernel(chip, "step");
        for index in 0..wrongs(chip, 0).len() {
            let twin = twin(&config);
            let machine = machine(&twin);
            let rig = Rig::open(&machine, 0, &step).unwrap();
            let out = memory(&*rig.device, MemoryKind::Device, 4096).unwrap();
            let Wrong {
                image,
                args,
                told,
                rule,
            } = wrongs(chip, out.va().0).swap_remove(index);
            let what = format!("{chip}, {}, {told:?}", image.name);
            let program = rig.device.load(&image).unwrap();
            rig.round(1).unwrap();
            let wrong = exec(&program, &args, 1);
            let block = Command::Exec {
                program: &program,
                args: &args,
                grid: [1, 1, 1],
                block: [32, 1, 1],
            };
            let commands = [if image.name == "uneven" { block } else { wrong }];
            let done = rig.compute.submit(&[], &commands).unwrap();
            // What waits for it on another channel ends as well.
            let behind = rig.copy.submit(std::slice::from_ref(&done), &[]).unwrap();
            let text = cause(&done.wait(soon()).unwrap_err());
            for part in &told {
                assert!(text.contains(part.as_str()), "{what}: {text}");
            }
            assert!(text.contains("compute 0"), "{what}: {text}");
            assert_eq!(cause(&behind.wait(soon()).unwrap_err()), text);
            is_lost(&rig, &text);
            drop((rig, program, out, done, behind));
            ends(&twin, &[rule, VAIN], &what);
            Rig::open(&machine, 0, &step).unwrap().round(2).unwrap();
            ends(&twin, &[rule, VAIN], &what);
        }
    }
}

/// The memory of a GPU that a kernel goes to is named, also after it was freed, and in other pages than
/// the first.
#[test]
fn a_fault_names_whose_memory_it_was() {
    let config = "chip=h100,gpus=2";
    let twin = twin(config);
    let machine = machine(&twin);
    let step = kernel(config, "step");
    let rig = Rig::open(&machine, 0, &step).unwrap();
    let other = Rig::open(&machine, 1, &step).unwrap();
    let store = rig.device.load(&kernel(config, "store")).unwrap();
    let gone = memory(&*rig.device, MemoryKind::Device, 5 << 20).unwrap();
    let va = gone.va().0 + 0x1234 * 4;
    drop(gone);
    // What is kept for reuse would still be mapped: it goes for memory that is asked for.
    drop(memory(&*rig.device, MemoryKind::Device, 80 << 30));
    let args = [Val::Const(va)];
    let done = rig.compute.submit(&[], &[exec(&store, &args, 1)]).unwrap();
    let text = cause(&done.wait(soon()).unwrap_err());
    for part in [
        "NV:0",
        "page fault of a write",
        "of device memory (0x500000 bytes at",
        "use after free",
        "In flight on compute 0: the launch of kernel store",
        &format!("{va:#x}, in that page"),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The other GPU works, and this one opens again.
    other.round(3).unwrap();
    drop((rig, store, done));
    Rig::open(&machine, 0, &step).unwrap().round(4).unwrap();
    drop(other);
    let full = "RM-MEMORY-FULL";
    ends(&twin, &[full, full, "MMU-FAULT"], config);
}

/// A copy that goes wrong is named with its queue.
#[test]
fn a_copy_that_goes_wrong_is_named() {
    for config in ["chip=ga102", "chip=h100"] {
        let twin = twin(config);
        let machine = machine(&twin);
        let step = kernel(config, "step");
        let rig = Rig::open(&machine, 0, &step).unwrap();
        let data = memory(&*rig.device, MemoryKind::Host, 4096).unwrap();
        let wild = Command::Copy {
            dst: Val::Const(WILD),
            src: at(&data),
            bytes: 4096,
        };
        let done = rig.copy.submit(&[], &[wild]).unwrap();
        let text = cause(&done.wait(soon()).unwrap_err());
        let page = format!("page fault at page {WILD:#x}");
        for part in [&page, "In flight on copy 0: a copy"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        is_lost(&rig, &text);
        drop((rig, data, done));
        Rig::open(&machine, 0, &step).unwrap().round(1).unwrap();
        ends(&twin, &["MMU-FAULT", VAIN], config);
    }
}

/// A device is lost while threads wait for it in every way: each gets the cause, at once.
#[test]
fn a_loss_ends_every_wait() {
    for config in ["chip=ga102,gpus=2", "chip=h100,gpus=2,seed=3"] {
        let twin = twin(config);
        let machine = machine(&twin);
        let step = kernel(config, "step");
        let rig = Rig::open(&machine, 0, &step).unwrap();
        let other = Rig::open(&machine, 1, &step).unwrap();
        let store = rig.device.load(&kernel(config, "store")).unwrap();
        let signal = rig.device.signal("one that nobody sets").unwrap();
        let gate = rig.device.signal("the gate").unwrap();
        let wait = Command::Wait {
            signal: &gate,
            value: Val::Const(1),
        };
        let args = [Val::Const(WILD)];
        let done = rig.compute.submit(&[], &[wait, exec(&store, &args, 1)]);
        let done = done.unwrap();
        let behind = rig.copy.submit(std::slice::from_ref(&done), &[]).unwrap();
        let mut bound = rig.copy.queue().bind(CommandBuffer::new()).unwrap();
        type Wait<'a> = &'a (dyn Fn() -> Result<()> + Sync);
        let waits: [Wait<'_>; 5] = [
            &|| done.wait(soon()),
            &|| behind.wait(soon()),
            &|| signal.wait(1, soon()),
            &|| rig.device.synchronize(soon()),
            // A ring that nobody drains any more.
            &|| loop {
                rig.compute.submit(&[], &[])?;
            },
        ];
        std::thread::scope(|scope| {
            let all = waits.map(|wait| scope.spawn(move || wait().unwrap_err()));
            std::thread::sleep(Duration::from_millis(20));
            let start = Instant::now();
            gate.set(1).unwrap();
            let errors = all.map(|one| one.join().unwrap());
            assert!(start.elapsed() < soon().limit() / 2);
            let text = cause(&errors[0]);
            assert!(text.contains("kernel store"), "{text}");
            for error in errors {
                assert_eq!(cause(&error), text);
            }
        });
        let timeline = rig.copy.queue().timeline();
        assert!(timeline.submit(|turn| bound.launch(turn)).is_err());
        other.round(5).unwrap();
        drop((rig, store, signal, gate, done, behind, bound));
        Rig::open(&machine, 0, &step).unwrap().round(6).unwrap();
        drop(other);
        ends(&twin, &["MMU-FAULT", VAIN], config);
    }
}

/// A channel that does nothing any more: a deadline says where it stands, and the end of the device gives
/// it up.
#[test]
fn a_channel_that_hangs_is_told_and_given_up() {
    // The first of its engine: that of kernels, which is opened first.
    let config = "chip=h100,fault=hang:channel=0";
    let twin = twin(config);
    let machine = machine(&twin);
    let short = Options {
        drain_timeout: Duration::from_millis(200),
        ..options()
    };
    let device = drivers_nv::open(&machine, 0, &short).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let done = stream.submit(&[], &[]).unwrap();
    let now = || Deadline::after(Duration::from_millis(50));
    for error in [done.wait(now()), device.synchronize(now())] {
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("compute 0") && text.contains("wptr 0x"),
            "{text}"
        );
    }
    let start = Instant::now();
    drop((device, stream));
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(matches!(done.wait(soon()), Err(Error::DeviceLost { .. })));
    drop(done);
    let rig = Rig::open(&machine, 0, &kernel(config, "step")).unwrap();
    rig.round(1).unwrap();
    drop(rig);
    ends(&twin, &[], config);
}

/// What hardware does wrong by itself.
#[test]
fn what_hardware_does_wrong_is_told() {
    for (fault, told) in [
        ("exception", "Xid 13 ("),
        ("mmu:va=0x4000", "page fault of a read at page 0x4000"),
        ("gone", "the GPU is gone ("),
    ] {
        let config = format!("chip=h100,gpus=2,fault={fault}");
        let twin = twin(&config);
        let machine = machine(&twin);
        let step = kernel(&config, "step");
        // The first work of a channel is that of opening it.
        let error = Rig::open(&machine, 0, &step).and_then(|rig| {
            rig.round(0)?;
            rig.round(1)
        });
        let text = error.unwrap_err().to_string();
        assert!(text.contains(told), "{fault}: {text}");
        ends(&twin, &[VAIN], &config);
        let again = Rig::open(&machine, 0, &step);
        match fault {
            "gone" => {
                let error = again.map(|_| ()).unwrap_err();
                assert!(matches!(error, Error::NoDevice { .. }), "{error}");
            }
            _ => again.unwrap().round(2).unwrap(),
        }
        ends(&twin, &[VAIN], &config);
    }
}

/// Interrupts that are lost cost time, not results.
#[test]
fn lost_interrupts_are_not_missed() {
    let config = "chip=ad102,fault=event:lost:1;event:lost:2;event:lost:3;event:lost:5";
    let twin = twin(config);
    let machine = machine(&twin);
    let rig = Rig::open(&machine, 0, &kernel(config, "step")).unwrap();
    (0..8).for_each(|i| rig.round(i).unwrap());
    drop(rig);
    ends(&twin, &[], config);
}

/// Work of a device that is lost for another one, which waits for it, ends with that one's loss only if it
/// is given up: its own wait is told.
#[test]
fn a_gpu_that_waits_for_a_lost_one_is_not_lost() {
    let config = "chip=h100,gpus=2";
    let twin = twin(config);
    let machine = machine(&twin);
    let step = kernel(config, "step");
    let first = Rig::open(&machine, 0, &step).unwrap();
    let second = Rig::open(&machine, 1, &step).unwrap();
    let store = first.device.load(&kernel(config, "store")).unwrap();
    let (a, b) = (
        memory(&*first.device, MemoryKind::Device, 4096).unwrap(),
        memory(&*second.device, MemoryKind::Device, 4096).unwrap(),
    );
    let args = [Val::Const(WILD)];
    let wrong = exec(&store, &args, 1);
    let done = first.compute.submit(&[], &[wrong]).unwrap();
    let behind = second
        .copy
        .submit(std::slice::from_ref(&done), &[copy(&b, &a)])
        .unwrap();
    cause(&done.wait(soon()).unwrap_err());
    let now = Deadline::after(Duration::from_millis(50));
    let error = behind.wait(now).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    second.device.status().unwrap();
    // Its other queue works.
    let args = [at(&b), Val::Const(1)];
    let step = exec(&second.step, &args, 1);
    second
        .compute
        .submit(&[], &[step])
        .unwrap()
        .wait(soon())
        .unwrap();
    drop((first, second, store, a, b, done, behind));
    ends(&twin, &["MMU-FAULT", VAIN], config);
}

/// A process is killed in the middle of its work: nothing of it is left, and another one has the GPU at once.
#[test]
fn a_process_that_is_killed_leaves_the_gpu_to_others() {
    for config in ["chip=ga102", "chip=h100"] {
        let killed = twin(config);
        let step = kernel(config, "step");
        let rig = Rig::open(&machine(&killed), 0, &step).unwrap();
        let data = memory(&*rig.device, MemoryKind::Device, 8 << 20).unwrap();
        let to = memory(&*rig.device, MemoryKind::Host, 8 << 20).unwrap();
        let gate = rig.device.signal("the gate").unwrap();
        let wait = Command::Wait {
            signal: &gate,
            value: Val::Const(1),
        };
        // It stands at a wait, with kernels and copies behind that, and others under way.
        rig.round(3).unwrap();
        let args = [at(&data), Val::Const(1)];
        let work = exec(&rig.step, &args, 64);
        let held = rig.compute.submit(&[], &[work, wait, work]).unwrap();
        let behind = rig.copy.submit(&[held], &[copy(&to, &data)]).unwrap();
        // What the kernel does for it; its memory stays with this process.
        killed.process().leave();
        assert!(killed.machine().state().is_empty());

        let other = TwinMachine::attach(killed.machine());
        let machine = machine(&other);
        let again = Rig::open(&machine, 0, &step).unwrap();
        (0..4).for_each(|i| again.round(i).unwrap());
        // What the killed one would do now is refused, and harms nobody.
        let error = behind.wait(Deadline::after(Duration::from_millis(200)));
        assert!(error.is_err());
        drop((rig, data, to, gate, behind));
        again.round(5).unwrap();
        drop(again);
        ends(&other, &[VAIN], config);
    }
}
