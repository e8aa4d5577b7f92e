//! What programs do wrong on a device, whatever the way to it, and the cause that a bundle of it names.

use std::sync::Arc;

use drivers_amd::AmdDevice;
use hcq::{
    Buffer, Command, Device, Error, KernelImage, MemoryKind, Program, QueueKind, Signal, Stream,
    Val,
};

use crate::keeping::{hang, told};
use crate::stand::{at, kernel, memory, soon};

/// An address that nothing is near.
const WILD: u64 = 0x12_3456_7000;

/// Something that is done wrong.
pub struct Wrong {
    /// What.
    pub what: &'static str,
    /// The cause that is to be named.
    pub cause: &'static str,
    /// Part of what is said.
    pub part: &'static str,
    /// Does it: what the program is told.
    does: fn(&Bench) -> Error,
}

/// A device that things are done wrong on.
pub struct Bench {
    pub device: Arc<AmdDevice>,
    pub chip: &'static str,
    /// By way of the kernel driver, which tells nobody of waves that cannot go on.
    pub by_kfd: bool,
}

impl Bench {
    fn stream(&self, kind: QueueKind) -> Stream {
        Stream::new(self.device.queue(kind, 0).unwrap())
    }

    fn load(&self, image: &KernelImage) -> Arc<Program> {
        self.device.load(image).unwrap()
    }

    /// What running a kernel on an address ends with.
    fn run(&self, image: &KernelImage, args: &[Val]) -> Error {
        let program = self.load(image);
        self.fails(QueueKind::Compute, &[launch(&program, args)])
    }

    fn store(&self, va: u64) -> Error {
        self.run(&kernel(self.chip, "store", 1), &[Val::Const(va)])
    }

    /// What commands of a queue end with.
    fn fails(&self, kind: QueueKind, commands: &[Command<'_>]) -> Error {
        let done = self.stream(kind).submit(&[], commands).unwrap();
        done.wait(soon()).unwrap_err()
    }

    /// What waiting for commands of a queue ends with.
    fn hangs(&self, kind: QueueKind, commands: &[Command<'_>]) -> Error {
        let done = self.stream(kind).submit(&[], commands).unwrap();
        done.wait(hang()).unwrap_err()
    }

    /// What words of a queue end with that the driver did not make.
    fn words(&self, kind: QueueKind, words: &[u32]) -> Error {
        let queue = self.device.queue(kind, 0).unwrap();
        let point = queue.timeline().submit(|turn| {
            turn.packets().words.extend_from_slice(words);
            queue.submit(turn)
        });
        point.unwrap().wait(hang()).unwrap_err()
    }

    fn signal(&self, name: &str) -> Signal {
        self.device.signal(name).unwrap()
    }
}

/// A kernel that does not end, and the word that it looks at.
fn spinning(bench: &Bench) -> (Arc<Program>, Buffer) {
    let word = memory(&*bench.device, MemoryKind::Host, 256).unwrap();
    word.write(0, &[0; 256]).unwrap();
    (bench.load(&kernel(bench.chip, "spin", 1)), word)
}

fn launch<'a>(program: &'a Program, args: &'a [Val]) -> Command<'a> {
    Command::Exec {
        program,
        args,
        grid: [1, 1, 1],
        block: [1, 1, 1],
    }
}

fn until(signal: &Signal) -> Command<'_> {
    Command::Wait {
        signal,
        value: Val::Const(1),
    }
}

fn raise(signal: &Signal) -> Command<'_> {
    Command::Signal {
        signal,
        value: Val::Const(1),
    }
}

/// What a program is told, whose kernel only a card without a kernel driver says anything of.
fn unseen(bench: &Bench, word: u32) -> Error {
    let image = overwritten(bench.chip, [word; 2]);
    let word = memory(&*bench.device, MemoryKind::Host, 256).unwrap();
    let (args, program) = ([at(&word)], bench.load(&image));
    let launch = launch(&program, &args);
    match bench.by_kfd {
        true => bench.hangs(QueueKind::Compute, &[launch]),
        false => bench.fails(QueueKind::Compute, &[launch]),
    }
}

/// A kernel whose code is other bytes.
fn overwritten(chip: &str, words: [u32; 2]) -> KernelImage {
    let mut image = kernel(chip, "spin", 1);
    let object = drivers_amd::object::CodeObject::parse(&image.bytes, chip_of(chip)).unwrap();
    let laid = object.at(0).unwrap();
    let entry = object
        .kernels
        .iter()
        .find(|one| one.name == "spin")
        .unwrap()
        .entry as usize;
    let wanted = &laid[entry..entry + 16];
    let mut bytes = image.bytes.to_vec();
    let place = bytes.windows(16).position(|all| all == wanted).unwrap();
    for (i, word) in words.iter().enumerate() {
        bytes[place + 4 * i..][..4].copy_from_slice(&word.to_le_bytes());
    }
    image.bytes = bytes.into();
    image
}

fn chip_of(name: &str) -> &'static drivers_amd::chip::Chip {
    let mut all = drivers_amd::chip::CHIPS.iter();
    all.find(|chip| chip.name == name).unwrap()
}

impl Wrong {
    /// Does it, and looks at what is said of it.
    pub fn check(&self, bench: &Bench) {
        let error = (self.does)(bench);
        let (bundle, found) = told(&error);
        let silent = bench.by_kfd && self.cause == "illegal-instruction";
        let (cause, part) = match silent {
            true => ("kernel-endless", "kernel spin does not end"),
            false => (self.cause, self.part),
        };
        assert_eq!(found.cause, cause, "{}: {found}", self.what);
        assert!(
            found.to_string().contains(part),
            "{}: {part}: {found}",
            self.what
        );
        println!("{:<4} | {} | {cause}", bundle.device.interface, self.what);
    }
}

/// All of it.
pub const WRONGS: [Wrong; 16] = [
    Wrong {
        what: "a kernel stores where nothing is",
        cause: "wild-address",
        part: "the launch of kernel store",
        does: |bench| bench.store(WILD),
    },
    Wrong {
        what: "a kernel stores by a pointer that is zero",
        cause: "null-pointer",
        part: "a null pointer",
        does: |bench| bench.store(0x10),
    },
    Wrong {
        what: "a kernel stores behind its buffer",
        cause: "out-of-bounds",
        part: "bytes past the end of device memory",
        does: |bench| {
            let small = memory(&*bench.device, MemoryKind::Device, 3 << 20).unwrap();
            bench.store(small.va().0 + (3 << 20) + 0x1_0000)
        },
    },
    Wrong {
        what: "a copy comes from where nothing is",
        cause: "wild-address",
        part: "a copy of 0x40 bytes from 0x1234567000",
        does: |bench| {
            let to = memory(&*bench.device, MemoryKind::Device, 4096).unwrap();
            let copy = Command::Copy {
                dst: at(&to),
                src: Val::Const(WILD),
                bytes: 64,
            };
            bench.fails(QueueKind::Copy, &[copy])
        },
    },
    Wrong {
        what: "a fill goes to where nothing is",
        cause: "wild-address",
        part: "a fill of 0x40 bytes at 0x1234567000",
        does: |bench| {
            let fill = Command::Fill {
                at: Val::Const(WILD),
                value: 7,
                bytes: 64,
            };
            bench.fails(QueueKind::Copy, &[fill])
        },
    },
    Wrong {
        what: "a compute queue waits for what nobody raises",
        cause: "signal-never-raised",
        part: "signal the gate",
        does: |bench| bench.hangs(QueueKind::Compute, &[until(&bench.signal("the gate"))]),
    },
    Wrong {
        what: "a copy queue polls for what never comes true",
        cause: "signal-never-raised",
        part: "signal the gate",
        does: |bench| bench.hangs(QueueKind::Copy, &[until(&bench.signal("the gate"))]),
    },
    Wrong {
        what: "the host waits for what nobody has submitted",
        cause: "signal-never-submitted",
        part: "expected at least 5, found 0",
        does: |bench| bench.signal("s").wait(5, hang()).unwrap_err(),
    },
    Wrong {
        what: "two queues wait for each other",
        cause: "deadlock",
        part: "queues wait for each other: compute 0 for copy 0 for compute 0",
        does: |bench| {
            let (first, second) = (bench.signal("first"), bench.signal("second"));
            let (compute, copy) = (
                bench.stream(QueueKind::Compute),
                bench.stream(QueueKind::Copy),
            );
            let one = compute
                .submit(&[], &[until(&first), raise(&second)])
                .unwrap();
            copy.submit(&[], &[until(&second), raise(&first)]).unwrap();
            one.wait(hang()).unwrap_err()
        },
    },
    Wrong {
        what: "a queue waits for what it would raise itself later",
        cause: "deadlock",
        part: "compute 0 waits for its own later work",
        does: |bench| {
            let gate = bench.signal("gate");
            bench.hangs(QueueKind::Compute, &[until(&gate), raise(&gate)])
        },
    },
    Wrong {
        what: "a kernel does not end",
        cause: "kernel-endless",
        part: "kernel spin does not end",
        does: |bench| {
            let (program, word) = spinning(bench);
            let args = [at(&word)];
            bench.hangs(QueueKind::Compute, &[launch(&program, &args)])
        },
    },
    Wrong {
        what: "a copy waits for a kernel that does not end",
        cause: "kernel-endless",
        part: "kernel spin does not end",
        does: |bench| {
            let (program, word) = spinning(bench);
            let args = [at(&word)];
            let compute = bench.stream(QueueKind::Compute);
            let spins = compute.submit(&[], &[launch(&program, &args)]).unwrap();
            let copy = bench.stream(QueueKind::Copy).submit(&[spins], &[]).unwrap();
            copy.wait(hang()).unwrap_err()
        },
    },
    Wrong {
        what: "an opcode that PM4 has not",
        cause: "bad-packet",
        part: "0xc0000500",
        does: |bench| bench.words(QueueKind::Compute, &[0xc000_0000 | 0x05 << 8, 0]),
    },
    Wrong {
        what: "an opcode that SDMA has not",
        cause: "bad-packet",
        part: "0x7f",
        does: |bench| bench.words(QueueKind::Copy, &[0x7f]),
    },
    Wrong {
        what: "an instruction that there is not",
        cause: "illegal-instruction",
        part: "illegal instruction",
        does: |bench| unseen(bench, 0xffff_ffff),
    },
    Wrong {
        what: "a trap without a handler",
        cause: "illegal-instruction",
        part: "illegal instruction",
        // s_trap 2
        does: |bench| unseen(bench, 0xbf90_0002),
    },
];
