//! Work may take long; silence may not: kernels that outlast the limit of a wait, and queues that stand still.
use crate::cc;

use std::sync::Arc;
use std::time::{Duration, Instant};

use drivers_cpu::{Config, CpuDevice};
use hcq::graph::{GraphBuilder, Work};
use hcq::{
    AllocSpec, Buffer, Command, Compare, Deadline, Device, Error, Program, QueueKind, Signal, Span,
    Stream, Val, Width,
};

/// What waits are given here, and how long work takes.
const LIMIT: Duration = Duration::from_millis(20);
const WORK: Duration = Duration::from_millis(300);

fn brief() -> Deadline {
    Deadline::after(LIMIT)
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

/// A device whose rings are small, and a word that kernels look at.
struct Rig {
    device: Arc<dyn Device>,
    word: Buffer,
}

impl Rig {
    fn new() -> Rig {
        let device = CpuDevice::open(Config {
            cores: 3,
            ring_words: 64,
            ring_timeout: LIMIT,
            ..Config::default()
        })
        .unwrap();
        let word = device.alloc(AllocSpec::device(64)).unwrap();
        word.write(0, &[0; 64]).unwrap();
        Rig { device, word }
    }

    fn stream(&self, kind: QueueKind) -> Stream {
        Stream::new(self.device.queue(kind, 0).unwrap())
    }

    fn kernel(&self, body: &str) -> Arc<Program> {
        let source = format!(
            "typedef unsigned long u64; void kernel(const u64 *args, u64 begin, u64 end) {{
               volatile u64 *word = (u64 *)args[0]; u64 until = args[1]; {body} }}"
        );
        self.device.load(&cc::image(&source, 2)).unwrap()
    }

    /// Runs until the word is at least so much.
    fn until(&self) -> Arc<Program> {
        self.kernel("while (*word < until);")
    }

    fn args(&self, until: u64) -> [Val; 2] {
        [Val::Const(self.word.va().0), Val::Const(until)]
    }

    fn set(&self, value: u64) {
        self.word.write(0, &value.to_le_bytes()).unwrap();
    }

    /// Sets the word to 1, 2, ... at equal times, which take as long as the work.
    fn count(&self, to: u64) {
        for value in 1..=to {
            std::thread::sleep(WORK / to as u32);
            self.set(value);
        }
    }

    fn gate(&self) -> Signal {
        self.device.signal("the gate").unwrap()
    }
}

fn exec<'a>(program: &'a Program, args: &'a [Val], groups: u32) -> Command<'a> {
    Command::Exec {
        program,
        args,
        grid: [groups, 1, 1],
        block: [1, 1, 1],
    }
}

fn wait(signal: &Signal, value: u64) -> Command<'_> {
    Command::Wait {
        signal,
        value: Val::Const(value),
    }
}

#[test]
fn one_kernel_may_take_longer_than_the_limit() {
    // Of one group, and of several, of which helpers run some.
    for groups in [1, 12] {
        let rig = Rig::new();
        let (program, args) = (rig.until(), rig.args(1));
        let start = Instant::now();
        let stream = rig.stream(QueueKind::Compute);
        let done = stream
            .submit(&[], &[exec(&program, &args, groups)])
            .unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| rig.count(1));
            done.wait(brief()).unwrap();
        });
        rig.device.synchronize(brief()).unwrap();
        assert!(start.elapsed() >= WORK);
    }
}

#[test]
fn many_kernels_of_a_submission_may_take_longer_together() {
    let rig = Rig::new();
    let program = rig.until();
    let args: Vec<_> = (1..=30).map(|i| rig.args(i)).collect();
    let commands: Vec<_> = args.iter().map(|args| exec(&program, args, 3)).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| rig.count(30));
        // More than the ring holds: the submission waits for room, with the same limit.
        let stream = rig.stream(QueueKind::Compute);
        let done = stream.submit(&[], &commands).unwrap();
        done.wait(brief()).unwrap();
        rig.device.synchronize(brief()).unwrap();
    });
}

#[test]
fn a_replay_may_take_longer_than_the_limit() {
    let rig = Rig::new();
    let program = rig.until();
    let mut graph = GraphBuilder::new();
    let lane = graph.lane(&rig.device, &rig.stream(QueueKind::Compute));
    for i in 1..=20 {
        let work = Work::Exec {
            program: program.clone(),
            args: rig.args(i).into(),
            grid: [2, 1, 1],
            block: [1, 1, 1],
        };
        graph.add(lane, "step", work, [], [Span::at(rig.word.va().0, 8)]);
    }
    let mut graph = graph.build().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| rig.count(20));
        for _ in 0..2 {
            graph.replay(&[], &[], brief()).unwrap();
        }
        graph.wait(brief()).unwrap();
    });
}

#[test]
fn a_queue_may_wait_for_another_that_works() {
    let rig = Rig::new();
    let (program, args) = (rig.until(), rig.args(1));
    let (compute, copy) = (rig.stream(QueueKind::Compute), rig.stream(QueueKind::Copy));
    let other = CpuDevice::open(Config {
        index: 1,
        cores: 1,
        ..Config::default()
    })
    .unwrap();
    let far = Stream::new(other.queue(QueueKind::Copy, 0).unwrap());
    let works = compute.submit(&[], &[exec(&program, &args, 1)]).unwrap();
    let behind = copy.submit(&[works], &[]).unwrap();
    let last = far.submit(&[behind], &[]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| rig.count(1));
        last.wait(brief()).unwrap();
    });
}

/// Of a submission longer than the ring only the end is there, which may start in the middle of a packet.
#[test]
fn a_signal_of_a_submission_longer_than_the_ring_is_waited_for() {
    for shift in 0..4 {
        let rig = Rig::new();
        let gate = rig.gate();
        let (program, args) = (rig.until(), rig.args(1));
        let to = rig.device.alloc(AllocSpec::device(64)).unwrap();
        let write = |width| Command::Write {
            at: Val::Const(to.va().0),
            value: Val::Const(u64::MAX),
            width,
        };
        let mut all = vec![write(Width::W64); 33];
        all.push(exec(&program, &args, 1));
        all.extend(vec![write(Width::W64); 20]);
        all.extend(vec![write(Width::W32); shift]);
        all.push(Command::Signal {
            signal: &gate,
            value: Val::Const(1),
        });
        rig.stream(QueueKind::Compute).submit(&[], &all).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| rig.count(1));
            gate.wait(1, brief()).unwrap();
        });
    }
}

/// A word that a POLL has seen may change while what is behind it runs.
#[test]
fn the_end_of_a_device_waits_for_work_behind_a_wait_that_was_passed() {
    let rig = Rig::new();
    let (program, args) = (rig.until(), rig.args(1));
    let words = rig.device.alloc(AllocSpec::device(64)).unwrap();
    words.write(0, &[0; 64]).unwrap();
    let at = |offset: u64| Val::Const(words.va().0 + offset);
    let write = |offset| Command::Write {
        at: at(offset),
        value: Val::Const(7),
        width: Width::W64,
    };
    let seen = Command::Poll {
        at: at(0),
        mask: u64::MAX,
        value: Val::Const(0),
        compare: Compare::Equal,
        width: Width::W64,
    };
    let compute = rig.stream(QueueKind::Compute);
    let all = [seen, write(0), exec(&program, &args, 1), write(8)];
    compute.submit(&[], &all).unwrap();
    let Rig { device, word } = rig;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(WORK);
            word.write(0, &1u64.to_le_bytes()).unwrap();
        });
        drop((compute, device));
    });
    let mut bytes = [0; 16];
    words.read(0, &mut bytes).unwrap();
    assert_eq!([bytes[0], bytes[8]], [7, 7]);
}

#[test]
fn a_signal_that_nobody_sets_is_told_and_comes_late() {
    let rig = Rig::new();
    let gate = rig.gate();
    let compute = rig.stream(QueueKind::Compute);
    let held = compute.submit(&[], &[wait(&gate, 7)]).unwrap();
    // Others that work change nothing about it.
    let (program, args) = (rig.until(), rig.args(1));
    let other = CpuDevice::open(Config {
        index: 1,
        cores: 1,
        ..Config::default()
    })
    .unwrap();
    let busy = Stream::new(other.queue(QueueKind::Compute, 0).unwrap());
    let runs = busy.submit(&[], &[exec(&program, &args, 1)]).unwrap();
    let errors = [
        held.wait(brief()).unwrap_err(),
        rig.device.synchronize(brief()).unwrap_err(),
        gate.wait(7, brief()).unwrap_err(),
        // It waits again, and is told the same.
        held.wait(brief()).unwrap_err(),
    ];
    // A kernel that does not end would hold the end of its device.
    rig.set(1);
    for error in &errors {
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("No progress for "), "{text}");
        assert!(text.contains("HCQDEV_WAIT_TIMEOUT_MS"), "{text}");
        let stands = format!(
            "compute 0: read pointer 0x0 of 0xa, held by WAIT [{:#x}] >= 7",
            gate.va().0
        );
        assert!(text.contains(&stands), "{text}");
    }
    assert!(errors[0].to_string().contains("compute 0 timeline"));
    gate.set(7).unwrap();
    held.wait(soon()).unwrap();
    rig.device.synchronize(soon()).unwrap();
    compute.submit(&[], &[]).unwrap().wait(soon()).unwrap();
    rig.device.status().unwrap();
    runs.wait(soon()).unwrap();
}

#[test]
fn a_ring_that_stays_full_is_told_and_goes_on() {
    let rig = Rig::new();
    let gate = rig.gate();
    let compute = rig.stream(QueueKind::Compute);
    compute.submit(&[], &[wait(&gate, 1)]).unwrap();
    let error = loop {
        match compute.submit(&[], &[]) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("No progress for "), "{text}");
    assert!(text.contains("held by WAIT"), "{text}");
    gate.set(1).unwrap();
    compute.wait(soon()).unwrap();
    compute.submit(&[], &[]).unwrap().wait(soon()).unwrap();
}

/// A kernel that waits in the system, for what a pipe brings.
#[cfg(target_os = "linux")]
#[test]
fn a_kernel_that_waits_without_running_is_dead() {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    let read = match std::env::consts::ARCH {
        "x86_64" => {
            "long done; __asm__ volatile(\"syscall\" : \"=a\"(done)
               : \"a\"(0), \"D\"(until), \"S\"(word), \"d\"(1) : \"rcx\", \"r11\", \"memory\");"
        }
        _ => {
            "register long x8 __asm__(\"x8\") = 63; register long x0 __asm__(\"x0\") = until;
             register volatile u64 *x1 __asm__(\"x1\") = word; register long x2 __asm__(\"x2\") = 1;
             __asm__ volatile(\"svc 0\" : \"+r\"(x0) : \"r\"(x8), \"r\"(x1), \"r\"(x2) : \"memory\");"
        }
    };
    for groups in [1, 12] {
        let rig = Rig::new();
        let program = rig.kernel(&format!("for (u64 i = begin; i < end; i++) {{ {read} }}"));
        let (reader, mut writer) = std::io::pipe().unwrap();
        let args = rig.args(reader.as_raw_fd() as u64);
        let compute = rig.stream(QueueKind::Compute);
        let done = compute
            .submit(&[], &[exec(&program, &args, groups)])
            .unwrap();
        let error = done.wait(brief()).unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(" worker threads in the kernel, 0 on a core)"),
            "{text}"
        );
        writer.write_all(&[1; 12]).unwrap();
        done.wait(soon()).unwrap();
        rig.device.status().unwrap();
    }
}
