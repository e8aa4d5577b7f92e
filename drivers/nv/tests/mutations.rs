//! Deliberate bugs in our driver, each named by the twin: what a test of it must be able to see.

#![allow(clippy::unwrap_used)] // A test may panic.

#[path = "mutations/mutant.rs"]
mod mutant;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drivers_nv::Options;
use drivers_nv::backend::NvBackend;
use drivers_nv::nvk;
use drivers_spec::nv::copy::launch_dma;
use drivers_spec::nv::cubin::Cubin;
use drivers_spec::nv::host::sem_execute;
use drivers_spec::nv::push::header::{METHOD_ADDRESS, METHOD_SUBCHANNEL};
use drivers_spec::nv::push::{gp_entry0, gp_entry1};
use drivers_spec::nv::qmd::{self, Field, Version};
use drivers_spec::nv::{compute, copy, host};
use hcq::transport::Machine;
use hcq::{
    AllocSpec, ArgKind, ArgLayout, Command, Deadline, Device, KernelImage, MemoryKind, QueueKind,
    Scope, Stream, Val, Width,
};
use twin_nv::machine::TwinMachine;

use mutant::{Bug, How, Methods, Mutant};

/// The chips of which there are kernels, with the number that compilers have for them.
const CHIPS: [(&str, u32); 3] = [("ga102", 86), ("h100", 90), ("gb202", 120)];

/// How long what a bug stops is waited for.
const PATIENCE: Duration = Duration::from_millis(300);

fn soon() -> Deadline {
    Deadline::after(PATIENCE)
}

fn image(sm: u32, entry: &str) -> KernelImage {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/nv/cubin");
    let number = ArgKind::Value(Width::W32);
    KernelImage {
        name: entry.into(),
        arch: format!("sm_{sm}"),
        bytes: std::fs::read(folder.join(format!("sm_{sm}.cubin")))
            .unwrap()
            .into(),
        entry: entry.into(),
        args: ArgLayout::new(match entry {
            "first" => vec![ArgKind::Buffer, ArgKind::Value(Width::W64), number],
            _ => vec![ArgKind::Buffer, number],
        }),
        local_bytes: 0,
    }
}

/// A kernel that stores a number to its argument: 7 as it was compiled, or another one in place of that.
fn store(sm: u32, number: u32) -> KernelImage {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device/kernels");
    let mut bytes = std::fs::read(folder.join(format!("sm_{sm}.cubin"))).unwrap();
    let cubin = Cubin::parse(&bytes).unwrap();
    let kernel = cubin.kernel("store").unwrap();
    let code = &cubin.at(0)[kernel.entry as usize..][..kernel.code_bytes as usize];
    let at = bytes.windows(code.len()).position(|all| all == code);
    let code = &mut bytes[at.unwrap()..][..code.len()];
    // Immediate operands are the second word of an instruction.
    for instruction in code.chunks_exact_mut(16) {
        if instruction[4..8] == 7u32.to_le_bytes() {
            instruction[4..8].copy_from_slice(&number.to_le_bytes());
        }
    }
    KernelImage {
        name: "store".into(),
        arch: format!("sm_{sm}"),
        bytes: bytes.into(),
        entry: "store".into(),
        args: ArgLayout::buffers(1),
        local_bytes: 0,
    }
}

/// Makes use of everything that channels do: copies on both, a fill, barriers, a word that is written and waited for,
/// kernels with shared memory, constants and local memory. What it gives is compared.
fn work(backend: &Arc<dyn NvBackend>, options: &Options, sm: u32) -> hcq::Result<bool> {
    let mut right = true;
    let device = drivers_nv::over(backend, options)?;
    let memory = |bytes| {
        device.alloc(AllocSpec {
            bytes,
            align: 256,
            kind: MemoryKind::Host,
            zeroed: false,
        })
    };
    let compute = Stream::new(device.queue(QueueKind::Compute, 0)?);
    let copies = Stream::new(device.queue(QueueKind::Copy, 0)?);
    let (a, b, c) = (memory(4096)?, memory(4096)?, memory(4096)?);
    let at = |buffer: &hcq::Buffer| Val::Const(buffer.va().0);
    let content: Vec<u8> = (0..4096u32).map(|i| i as u8).collect();
    a.write(0, &content)?;
    let between = |dst, src| Command::Copy {
        dst,
        src,
        bytes: 4096,
    };
    let barrier = |scope| Command::Barrier { scope };
    let fill = Command::Fill {
        at: at(&c),
        value: 0x1234_5678,
        bytes: 4096,
    };
    for stream in [&copies, &compute] {
        let commands = [
            fill,
            barrier(Scope::Queue),
            between(at(&b), at(&a)),
            barrier(Scope::Queue),
            between(at(&c), at(&b)),
            barrier(Scope::System),
        ];
        stream.submit(&[], &commands)?.wait(soon())?;
        let mut found = vec![0; 4096];
        c.read(0, &mut found)?;
        right &= found == content;
    }

    let first = device.load(&image(sm, "first"))?;
    let numbers = memory(4096)?;
    for round in 0..12 {
        let args = [at(&numbers), Val::Const(round), Val::Const(2)];
        let commands = [
            Command::Exec {
                program: &first,
                args: &args,
                grid: [1, 1, 1],
                block: [64, 1, 1],
            },
            barrier(Scope::Queue),
            Command::Write {
                at: at(&c),
                value: Val::Const(7),
                width: Width::W64,
            },
        ];
        // The other channel waits for it.
        let point = compute.submit(&[], &commands)?;
        copies
            .submit(&[point], &[between(at(&b), at(&numbers))])?
            .wait(soon())?;
        let mut found = [0; 256];
        b.read(0, &mut found)?;
        let floats = found
            .chunks(4)
            .map(|x| f32::from_le_bytes(x.try_into().unwrap()));
        right &= floats.into_iter().all(|x| x == 3.0 + round as f32);
    }

    let second = device.load(&image(sm, "second"))?;
    a.write(0, &[1; 128])?;
    let args = [at(&a), Val::Const(1)];
    let launch = Command::Exec {
        program: &second,
        args: &args,
        grid: [1, 1, 1],
        block: [1, 1, 1],
    };
    compute.submit(&[], &[launch])?.wait(soon())?;
    let mut found = [0; 8];
    a.read(0, &mut found)?;
    // The kernel's variable was counted up by each round of the other image: this is its own.
    let words = [
        found[..4].try_into().unwrap(),
        found[4..].try_into().unwrap(),
    ];
    right &= words.map(u32::from_le_bytes) == [7, 0x0101_0108];

    // Code in the place of other code.
    let mut places = Vec::new();
    for number in [7, 9] {
        let program = device.load(&store(sm, number))?;
        let args = [at(&a)];
        let launch = Command::Exec {
            program: &program,
            args: &args,
            grid: [1, 1, 1],
            block: [1, 1, 1],
        };
        compute.submit(&[], &[launch])?.wait(soon())?;
        a.read(0, &mut found)?;
        right &= found[..4] == number.to_le_bytes();
        places.push(program.entry);
    }
    assert_eq!(places[0], places[1]);
    Ok(right)
}

fn options() -> Options {
    Options {
        ring_timeout: PATIENCE,
        drain_timeout: PATIENCE,
        // So small that its blocks are used again.
        push_buffer: 8 << 10,
        ..Options::default()
    }
}

/// The rules that are broken with a bug.
fn broken(chip: &str, sm: u32, bug: Option<&Bug>) -> (Vec<&'static str>, hcq::Result<bool>) {
    let twin = TwinMachine::new(&format!("chip={chip}")).unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let options = options();
    let nvk = nvk::open(&machine, 0, &options).unwrap();
    let backend = match bug {
        None => nvk,
        Some(bug) => Mutant::over(nvk, bug.how),
    };
    let done = work(&backend, &options, sm);
    drop(backend);
    // A machine under load is slow: what the bug is named for may come late.
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let broken = twin.machine().broken_rules();
        let expected = bug.is_none_or(|bug| broken.contains(&bug.rule));
        if expected || Instant::now() > end {
            return (broken, done);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn without_a_bug_no_rule_is_broken() {
    for (chip, sm) in CHIPS {
        let (broken, done) = broken(chip, sm, None);
        assert!(done.unwrap(), "{chip}: the results are wrong");
        assert!(broken.is_empty(), "{chip}: {broken:?}");
    }
}

/// Edits the data of a method that stands alone or first behind its header.
fn first_of(methods: &mut Methods<'_>, method: drivers_spec::nv::chip::Method, edit: fn(&mut u32)) {
    if methods.begin_with(method) {
        edit(&mut methods.data[0]);
    }
}

/// Edits SEM_EXECUTE where its operation is this one.
fn semaphore(methods: &mut Methods<'_>, operation: u32, edit: fn(&mut [u32])) {
    if methods.begin_with(host::SEM_ADDR_LO)
        && sem_execute::OPERATION.get(methods.data[4]) == operation
    {
        edit(methods.data);
    }
}

fn put(version: Version, words: &mut [u32], field: Field, value: u64) {
    field.put(version, 0, words, value).unwrap();
}

/// Leaves caches of code and constants as they are.
fn keep_caches(methods: &mut Methods<'_>) {
    if methods.begin_with(compute::INVALIDATE_SHADER_CACHES_NO_WFI) {
        methods.skip();
    }
}

const BUGS: &[Bug] = &[
    Bug {
        what: "what is held of code that was overwritten is used",
        rule: "COMPUTE-CODE-STALE",
        how: How::Methods(keep_caches),
    },
    Bug {
        what: "what is held of constants that were overwritten is used",
        rule: "COMPUTE-CONSTANT-STALE",
        how: How::Both(keep_caches, |version, words| {
            for bank in 0..8 {
                let field = qmd::CONSTANT_BUFFER_INVALIDATE;
                if field.get(version, bank, words).is_some() {
                    field.put(version, bank, words, 0).unwrap();
                }
            }
        }),
    },
    Bug {
        what: "the doorbell is rung with the number of no channel",
        rule: "HOST-DOORBELL-TOKEN",
        how: How::Bell(|token| token ^ 0x7ff),
    },
    Bug {
        what: "GPPut counts on at the end of the ring",
        rule: "HOST-GP-PUT",
        how: How::Put(|put, entries| put + entries),
    },
    Bug {
        what: "a bit of an entry that has no meaning is set",
        rule: "HOST-GP-RESERVED",
        how: How::Entry(|entry| entry[0] |= 2),
    },
    Bug {
        what: "the upper half of a push buffer's address is another one",
        rule: "MMU-FAULT",
        how: How::Entry(|entry| entry[1] ^= gp_entry1::GET_HI.put(0x80)),
    },
    Bug {
        what: "an entry of no length is an instruction that there is not",
        rule: "HOST-GP-ENTRY",
        how: How::Entry(|entry| {
            entry[0] &= !gp_entry0::GET.mask();
            entry[1] = 0x7f;
        }),
    },
    Bug {
        what: "the reserved bit of a header is set",
        rule: "HOST-PB-RESERVED",
        how: How::Methods(|m| *m.header |= 1 << 12),
    },
    Bug {
        what: "the header of a semaphore is one method too early",
        rule: "HOST-METHOD",
        how: How::Methods(|m| {
            if m.begin_with(host::SEM_ADDR_LO) {
                *m.header -= METHOD_ADDRESS.put(1);
            }
        }),
    },
    Bug {
        what: "a barrier has garbage where its operation takes nothing",
        rule: "HOST-MEM-OP",
        how: How::Methods(|m| first_of(m, host::MEM_OP_A, |data| *data = 7)),
    },
    Bug {
        what: "subchannels have no engines",
        rule: "HOST-OBJECT-FIRST",
        how: How::Methods(|m| {
            if m.begin_with(host::SET_OBJECT) {
                m.skip();
            }
        }),
    },
    Bug {
        what: "the engine of a subchannel has another class",
        rule: "HOST-SET-OBJECT",
        how: How::Methods(|m| first_of(m, host::SET_OBJECT, |class| *class ^= 0x300)),
    },
    Bug {
        what: "a compute channel copies on the subchannel of 2D",
        rule: "HOST-SUBCHANNEL",
        how: How::Methods(|m| {
            if !m.copies && m.begin_with(copy::OFFSET_IN_UPPER) {
                *m.header = *m.header & !METHOD_SUBCHANNEL.mask() | METHOD_SUBCHANNEL.put(3);
            }
        }),
    },
    Bug {
        what: "a signal lies 4 bytes further on",
        rule: "HOST-SEMAPHORE",
        how: How::Methods(|m| semaphore(m, sem_execute::OPERATION_RELEASE, |data| data[0] += 4)),
    },
    Bug {
        what: "a release lets others run, which is for acquires",
        rule: "HOST-SEMAPHORE-BITS",
        how: How::Methods(|m| {
            semaphore(m, sem_execute::OPERATION_RELEASE, |data| {
                data[4] |= sem_execute::ACQUIRE_SWITCH_TSG.put(1);
            });
        }),
    },
    Bug {
        what: "a wait is for a value that never comes",
        rule: "HOST-DEADLOCK",
        how: How::Methods(|m| {
            semaphore(m, sem_execute::OPERATION_ACQ_CIRC_GEQ, |data| {
                data[2] += 1000
            });
        }),
    },
    Bug {
        what: "copies that depend on each other do not wait",
        rule: "COPY-PIPELINED",
        how: How::Methods(|m| {
            if m.begin_with(copy::LAUNCH_DMA) {
                let kind = launch_dma::DATA_TRANSFER_TYPE;
                m.immediate(kind.mask(), launch_dma::DATA_TRANSFER_TYPE_PIPELINED);
            }
        }),
    },
    Bug {
        what: "a copy reads a physical address",
        rule: "COPY-PHYSICAL",
        how: How::Methods(|m| {
            if m.begin_with(copy::LAUNCH_DMA) {
                m.immediate(0, launch_dma::SRC_TYPE.put(1));
            }
        }),
    },
    Bug {
        what: "the address of a copy has more bits than there are",
        rule: "COPY-METHOD-BITS",
        how: How::Methods(|m| first_of(m, copy::OFFSET_IN_UPPER, |upper| *upper |= 1 << 31)),
    },
    Bug {
        what: "a copy is to an address that is not mapped",
        rule: "MMU-FAULT",
        how: How::Methods(|m| {
            if m.begin_with(copy::OFFSET_IN_UPPER) {
                m.data[2] ^= 0x100;
            }
        }),
    },
    Bug {
        what: "the windows of shared and local memory are not set",
        rule: "COMPUTE-WINDOW",
        how: How::Methods(|m| {
            if m.begin_with(compute::SET_SHADER_SHARED_MEMORY_WINDOW_A)
                || m.begin_with(compute::SET_SHADER_LOCAL_MEMORY_WINDOW_A)
            {
                m.skip();
            }
        }),
    },
    Bug {
        what: "local memory is half as large as threads need",
        rule: "COMPUTE-LOCAL",
        how: How::Methods(|m| {
            if m.begin_with(compute::SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A) {
                m.data[1] /= 2;
            }
        }),
    },
    Bug {
        what: "the scheduler is told to count a QMD on",
        rule: "COMPUTE-PCAS",
        how: How::Methods(|m| {
            if m.begin_with(compute::SEND_SIGNALING_PCAS2_B) {
                m.immediate(u32::MAX, 6);
            }
        }),
    },
    Bug {
        what: "a QMD lies 256 bytes before where the scheduler is told",
        rule: "QMD-VERSION",
        how: How::Methods(|m| first_of(m, compute::SEND_PCAS_A, |qmd| *qmd += 1)),
    },
    Bug {
        what: "a bit of a QMD that has no field is set",
        rule: "QMD-RESERVED",
        how: How::Qmd(|version, words| {
            let unused = |bit: &u32| {
                let mut one = vec![0; version.dwords()];
                one[*bit as usize / 32] = 1 << (bit % 32);
                qmd::unnamed(version, &one).is_some()
            };
            let bit = (0..version.dwords() as u32 * 32).find(unused).unwrap();
            words[bit as usize / 32] |= 1 << (bit % 32);
        }),
    },
    Bug {
        what: "a grid has no blocks along y",
        rule: "QMD-GRID",
        how: How::Qmd(|v, words| put(v, words, qmd::GRID_HEIGHT, 0)),
    },
    Bug {
        what: "a grid has blocks of 2048 threads",
        rule: "QMD-GRID",
        how: How::Qmd(|v, words| put(v, words, qmd::CTA_THREAD_DIMENSION0, 2048)),
    },
    Bug {
        what: "threads have no registers",
        rule: "QMD-REGISTERS",
        how: How::Qmd(|v, words| put(v, words, qmd::REGISTER_COUNT, 0)),
    },
    Bug {
        what: "a block has more barriers than there are",
        rule: "QMD-BARRIERS",
        how: How::Qmd(|v, words| put(v, words, qmd::BARRIER_COUNT, 17)),
    },
    Bug {
        what: "less is set aside for shared memory than a block has",
        rule: "QMD-SHARED",
        how: How::Qmd(|v, words| {
            put(v, words, qmd::SHARED_MEMORY_SIZE, 96 << 10);
            put(v, words, qmd::MIN_SM_CONFIG_SHARED_MEM_SIZE, 3);
            put(v, words, qmd::TARGET_SM_CONFIG_SHARED_MEM_SIZE, 3);
            put(v, words, qmd::MAX_SM_CONFIG_SHARED_MEM_SIZE, 3);
        }),
    },
    Bug {
        what: "a carve-out is one that there is not",
        rule: "QMD-SHARED",
        how: How::Qmd(|v, words| put(v, words, qmd::TARGET_SM_CONFIG_SHARED_MEM_SIZE, 4)),
    },
    Bug {
        what: "a program begins in the middle of one",
        rule: "QMD-PROGRAM",
        how: How::Qmd(|v, words| {
            let at = qmd::PROGRAM_ADDRESS.get(v, 0, words).unwrap();
            qmd::PROGRAM_ADDRESS.put(v, 0, words, at + 64).unwrap();
        }),
    },
    Bug {
        what: "instructions are fetched from where nothing is",
        rule: "QMD-PREFETCH",
        how: How::Qmd(|v, words| {
            qmd::PROGRAM_PREFETCH_ADDR
                .put(v, 0, words, 1 << 38)
                .unwrap();
        }),
    },
    Bug {
        what: "a constant bank has no bytes",
        rule: "QMD-CONSTANT",
        how: How::Qmd(|v, words| put(v, words, qmd::CONSTANT_BUFFER_SIZE, 0)),
    },
    Bug {
        what: "the code is said to be of another chip",
        rule: "QMD-SASS-VERSION",
        how: How::Qmd(|v, words| put(v, words, qmd::SASS_VERSION, 0x75)),
    },
    Bug {
        what: "the end of a grid is released to an odd address, before what it stored is seen",
        rule: "QMD-RELEASE",
        how: How::Qmd(|v, words| {
            put(v, words, qmd::RELEASE_ENABLE, 1);
            let bank = qmd::CONSTANT_BUFFER_ADDR.get(v, 0, words).unwrap();
            qmd::RELEASE_ADDR.put(v, 0, words, bank + 8).unwrap();
        }),
    },
];

/// The bugs of every third place, from `first` on: so that they run beside each other.
fn every_bug_is_named(first: usize) {
    let mut missed = Vec::new();
    for bug in BUGS.iter().skip(first).step_by(3) {
        for (chip, sm) in CHIPS {
            let (broken, done) = broken(chip, sm, Some(bug));
            if !broken.contains(&bug.rule) {
                let (what, rule) = (bug.what, bug.rule);
                missed.push(format!(
                    "{chip}: {what}: {rule} is not broken, but {broken:?}; {done:?}"
                ));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn bugs_are_named_one() {
    every_bug_is_named(0);
}

#[test]
fn bugs_are_named_two() {
    every_bug_is_named(1);
}

#[test]
fn bugs_are_named_three() {
    every_bug_is_named(2);
}
