//! Grids: QMDs, what they run, and what is wrong with them.

use drivers_spec::nv::qmd;
use twin::fires::{Fires, fires};
use twin_nv::engines::{Notice, Turn};
use twin_nv::space::Rights;

use super::kernel::{
    BANK, CODE, DONE, Kernel, LOCAL, LOCAL_TPC, LOCAL_WINDOW, QMD, SHARED_WINDOW, invalidate, start,
};
use super::rig::{DATA, Rig, inc, non_inc, semaphore};

const CHIPS: [&str; 4] = ["ga102", "ad102", "h100", "gb202"];
const COUNT: u64 = 1000;
const A: u64 = DATA;
const B: u64 = DATA + 0x1_0000;
const OUT: u64 = DATA + 0x2_0000;

/// A sum of vectors.
fn sum(chip: &str) -> Kernel {
    let kernel = Kernel::new(
        chip,
        "vector_add",
        [8, 1, 1],
        [128, 1, 1],
        &[A, B, OUT, COUNT],
    );
    let floats = |f: fn(u32) -> f32| {
        (0..COUNT as u32)
            .map(|i| f(i).to_bits())
            .collect::<Vec<_>>()
    };
    kernel.rig.ram.put_words(A, &floats(|i| i as f32));
    kernel.rig.ram.put_words(B, &floats(|i| 0.5 * i as f32));
    kernel
}

fn is_summed(rig: &Rig, at: u64) -> bool {
    let expected = |i: u64| (1.5 * i as f32).to_bits();
    (0..COUNT).all(|i| rig.ram.word(at + 4 * i) == expected(i))
}

#[test]
fn grids_run() {
    for chip in CHIPS {
        let mut kernel = sum(chip);
        kernel.qmd.release(DONE, 7);
        assert_eq!(kernel.go(), Turn::Idle, "{chip}");
        assert_eq!(kernel.rig.broken(), [""; 0], "{chip}");
        assert!(is_summed(&kernel.rig, OUT), "{chip}");
        assert_eq!(kernel.rig.ram.word(OUT + 4 * COUNT), 0);
        assert_eq!(kernel.rig.ram.long(DONE), 7);
        assert!(kernel.rig.ram.long(DONE + 8) > 0);
    }
}

#[test]
fn qmds_come_in_the_push_buffer() {
    for chip in CHIPS {
        let mut kernel = sum(chip);
        kernel.qmd.release(DONE, 7);
        let mut words = kernel.setup();
        words.extend(kernel.inline());
        // Once more: the words of the first are gone.
        words.extend(kernel.inline());
        assert_eq!(kernel.rig.go(&words), Turn::Idle, "{chip}");
        assert_eq!(kernel.rig.broken(), [""; 0], "{chip}");
        assert!(is_summed(&kernel.rig, OUT), "{chip}");
        assert_eq!(kernel.rig.ram.long(DONE), 7);
        assert_eq!(kernel.rig.ram.word(QMD + 4), kernel.qmd.words[1]);

        let mut kernel = sum(chip);
        let mut words = kernel.setup();
        words.extend(inc(1, 0x318, &[0, (QMD >> 8) as u32]));
        words.extend(inc(1, 0x328, &kernel.qmd.words[2..]));
        kernel.rig.go(&words);
        fires("COMPUTE-INLINE-QMD").only(&kernel.rig.broken());
        assert_eq!(kernel.rig.xid(), Some(69), "{chip}");
    }
}

/// A grid runs; then data in the push buffer, which do not wait for it, become the QMD of another one.
#[test]
fn qmds_are_written_by_the_push_buffer() {
    for chip in CHIPS {
        let mut kernel = sum(chip);
        let mut words = kernel.setup();
        words.extend(kernel.launch());
        let second = QMD + 0x400;
        kernel.qmd.release(DONE, 7);
        let bytes = kernel.qmd.words.len() as u32 * 4;
        words.extend(inc(
            1,
            0x180,
            &[bytes, 1, (second >> 32) as u32, second as u32],
        ));
        words.extend(inc(1, 0x1b0, &[0x41]));
        words.extend(non_inc(1, 0x1b4, &kernel.qmd.words));
        words.extend(start(second, 10));
        assert_eq!(kernel.rig.go(&words), Turn::Idle, "{chip}");
        assert_eq!(kernel.rig.broken(), [""; 0], "{chip}");
        assert_eq!(kernel.rig.ram.long(DONE), 7, "{chip}");
    }
}

/// As libcuda does it on Hopper: a grid without blocks waits for two, of which the kernel before is one.
#[test]
fn a_grid_begins_when_it_was_counted_down() {
    for chip in ["h100", "gb202"] {
        for counter in [1, 2] {
            let mut kernel = sum(chip);
            let (null, last) = (QMD + 0x400, QMD + 0x800);
            let mut third = kernel.qmd.clone();
            third.release(DONE, 7);
            kernel.rig.ram.put_words(last, &third.words);
            let mut waits = third.clone();
            waits.words.fill(0);
            let (major, minor) = third.version.number();
            waits
                .set(qmd::QMD_MAJOR_VERSION, major)
                .set(qmd::QMD_MINOR_VERSION, minor);
            waits
                .set(qmd::QMD_TYPE, 1)
                .set(qmd::DEPENDENCE_COUNTER, counter)
                .set(qmd::SELF_COPY_ON_COMPLETION, 1);
            waits
                .set(qmd::DEPENDENT_QMD_ENABLE, 1)
                .set(qmd::DEPENDENT_QMD_ACTION, 1);
            waits.set(qmd::DEPENDENT_QMD_POINTER, last);
            kernel.rig.ram.put_words(null, &waits.words);
            let first = &mut kernel.qmd;
            first
                .set(qmd::DEPENDENT_QMD_ENABLE, 1)
                .set(qmd::DEPENDENT_QMD_ACTION, 4);
            first.set(qmd::DEPENDENT_QMD_POINTER, null);
            first
                .set(qmd::ARRIVE_AT_LATCH_VALID, 1)
                .set(qmd::ARRIVE_AT_LATCH_ID, 8);
            let mut words = kernel.setup();
            words.extend(start(null, 10));
            words.extend(kernel.launch());
            assert_eq!(kernel.rig.go(&words), Turn::Idle, "{chip}");
            assert_eq!(kernel.rig.ram.long(DONE), [7, 0][counter as usize - 1]);
            assert!(is_summed(&kernel.rig, OUT));
            let again = start(null, 7);
            let ended = kernel.rig.go(&again);
            if counter == 2 {
                assert_eq!(ended, Turn::Idle, "{chip}: {:?}", kernel.rig.broken());
                assert_eq!(kernel.rig.ram.long(DONE), 7, "{chip}");
                assert_eq!(kernel.rig.broken(), [""; 0], "{chip}");
                kernel.rig.go(&again);
            }
            fires("QMD-DEPENDENCE").only(&kernel.rig.broken());
            assert_eq!(kernel.rig.xid(), Some(13), "{chip}");
        }
    }
}

/// As libcuda does it in graphs.
#[test]
fn a_grid_of_no_blocks_ends_when_it_begins() {
    for chip in CHIPS {
        let mut kernel = sum(chip);
        let qmd = &mut kernel.qmd;
        for size in [qmd::GRID_WIDTH, qmd::GRID_HEIGHT, qmd::GRID_DEPTH] {
            qmd.set(size, 0);
        }
        qmd.set(qmd::REQUIRE_SCHEDULING_PCAS, 1).release(DONE, 7);
        assert_eq!(kernel.go(), Turn::Idle, "{chip}");
        assert_eq!(kernel.rig.ram.long(DONE), 7);
        assert!(!is_summed(&kernel.rig, OUT));
        assert_eq!(kernel.rig.broken(), [""; 0], "{chip}");
    }
}

#[test]
fn blocks_have_shared_and_local_memory() {
    for chip in CHIPS {
        let mut kernel = Kernel::new(chip, "reduce", [4, 1, 1], [256, 1, 1], &[A, OUT]);
        let input: Vec<u32> = (0..1024).map(|i| i * i).collect();
        kernel.rig.ram.put_words(A, &input);
        let qmd = &mut kernel.qmd;
        qmd.set(qmd::SHARED_MEMORY_SIZE, 2048)
            .set(qmd::BARRIER_COUNT, 1);
        qmd.set(qmd::MIN_SM_CONFIG_SHARED_MEM_SIZE, 3);
        qmd.set(qmd::TARGET_SM_CONFIG_SHARED_MEM_SIZE, 5);
        qmd.set(qmd::MAX_SM_CONFIG_SHARED_MEM_SIZE, 26);
        assert_eq!(kernel.go(), Turn::Idle, "{chip}");
        assert_eq!(kernel.rig.broken(), [""; 0], "{chip}");
        for (i, part) in input.chunks(256).enumerate() {
            let found = kernel.rig.ram.word(OUT + 4 * i as u64);
            assert_eq!(found, part.iter().sum::<u32>(), "{chip}");
        }
        let mut kernel = local(chip);
        assert_eq!(kernel.go(), Turn::Idle, "{chip}");
        assert_eq!(kernel.rig.broken(), [""; 0], "{chip}");
        assert!((0..32).all(|i| kernel.rig.ram.word(OUT + 4 * i) != 0));
    }
}

/// A kernel with a stack of 128 bytes at the end of its window.
fn local(chip: &str) -> Kernel {
    let mut kernel = Kernel::new(chip, "local", [1, 1, 1], [32, 1, 1], &[A, OUT]);
    kernel.rig.ram.put_words(A, &(1..33).collect::<Vec<_>>());
    kernel
        .qmd
        .set(qmd::SHADER_LOCAL_MEMORY_HIGH_SIZE, 0x240 + 128);
    let tpcs: u32 = kernel.rig.machine.config.chips[0].tpcs.iter().sum();
    let last = LOCAL + LOCAL_TPC * u64::from(tpcs) - 1;
    for at in [LOCAL, last & !0xfff] {
        kernel.rig.ram.map(at, 0x1000, Rights::ReadWrite);
    }
    kernel
}

#[test]
fn grids_are_done_when_somebody_waits() {
    let mut kernel = sum("ad102");
    let mut words = kernel.setup();
    words.extend(kernel.launch());
    words.extend(semaphore(DONE, 1, 1));
    words.extend(semaphore(DONE, 2, 1 | 1 << 20));
    kernel.rig.push(&words);
    while kernel.rig.ram.word(DONE) == 0 {
        kernel.rig.step(1);
    }
    assert_eq!(kernel.rig.ram.word(OUT + 4), 0);
    while kernel.rig.ram.word(DONE) == 1 {
        kernel.rig.step(1);
    }
    assert!(is_summed(&kernel.rig, OUT));
    assert_eq!(kernel.rig.broken(), [""; 0]);
}

#[test]
fn grids_depend_on_each_other() {
    for chip in CHIPS {
        let mut kernel = sum(chip);
        let second = QMD + 0x400;
        let mut next = kernel.qmd.clone();
        next.wide(qmd::CONSTANT_BUFFER_ADDR, 0, BANK + 0x1000);
        next.release(DONE, 3);
        kernel.rig.ram.put_words(second, &next.words);
        let bank = kernel.rig.ram.bytes(BANK, 0x400);
        kernel.rig.ram.put(BANK + 0x1000, &bank);
        let at = kernel.rig.machine.config.chips[0].facts().parameters;
        let place = BANK + 0x1000 + u64::from(at) + 16;
        kernel.rig.ram.put(place, &(OUT + 0x1_0000).to_le_bytes());
        let qmd = &mut kernel.qmd;
        qmd.set(qmd::DEPENDENT_QMD_ENABLE, 1)
            .set(qmd::DEPENDENT_QMD_ACTION, 1);
        qmd.set(qmd::DEPENDENT_QMD_POINTER, second);
        assert_eq!(kernel.go(), Turn::Idle, "{chip}");
        assert_eq!(kernel.rig.broken(), [""; 0], "{chip}");
        assert!(is_summed(&kernel.rig, OUT) && is_summed(&kernel.rig, OUT + 0x1_0000));
        assert_eq!(kernel.rig.ram.long(DONE), 3);
        // The second starts the first again.
        next.set(qmd::DEPENDENT_QMD_ENABLE, 1)
            .set(qmd::DEPENDENT_QMD_ACTION, 3);
        next.set(qmd::DEPENDENT_QMD_POINTER, QMD);
        kernel.rig.ram.put_words(second, &next.words);
        assert_eq!(kernel.rig.go(&start(QMD, 2)), Turn::Dead);
        fires("QMD-CYCLE").only(&kernel.rig.broken());
    }
}

#[test]
fn methods_write_semaphores_and_data() {
    let mut kernel = sum("h100");
    let mut words = kernel.setup();
    let high = (DONE >> 32) as u32;
    // One word, then four with 64 bits, then an addition.
    words.extend(inc(1, 0x1b00, &[high, DONE as u32, 5, 1 << 28]));
    words.extend(inc(1, 0x158, &[6, 1, DONE as u32 + 16, high, 1 << 12]));
    words.extend(inc(
        1,
        0x1b00,
        &[high, DONE as u32, 2, 1 << 28 | 1 << 3 | 1 << 20],
    ));
    // 10 bytes in the push buffer.
    words.extend(inc(1, 0x180, &[10, 1, 0, OUT as u32]));
    words.extend(inc(1, 0x1b0, &[0x41]));
    words.extend(non_inc(1, 0x1b4, &[0x0403_0201, 0x0807_0605, 0xffff_0a09]));
    words.extend(inc(1, 0x110, &[0]));
    words.extend(inc(1, 0x21c, &[0x1011]));
    assert_eq!(kernel.rig.go(&words), Turn::Idle);
    assert_eq!(kernel.rig.ram.long(DONE), 7);
    assert_eq!(kernel.rig.ram.long(DONE + 16), 1 << 32 | 6);
    assert!(kernel.rig.ram.long(DONE + 24) > 0);
    let expected: Vec<u8> = (1..=10).chain([0, 0]).collect();
    assert_eq!(kernel.rig.ram.bytes(OUT, 12), expected);
    assert_eq!(kernel.rig.notices(), [Notice::Compute]);
    assert_eq!(kernel.rig.broken(), [""; 0]);
}

#[test]
fn what_was_read_is_invalidated() {
    // Other code, at the same place.
    let mut kernel = sum("ad102");
    assert_eq!(kernel.go(), Turn::Idle);
    kernel.code("single");
    kernel.rig.go(&start(QMD, 9));
    fires("COMPUTE-CODE-STALE").only(&kernel.rig.broken());
    for say in [invalidate(), inc(1, 0x21c, &[1])] {
        let mut kernel = sum("ad102");
        assert_eq!(kernel.go(), Turn::Idle);
        kernel.code("shuffle");
        let mut words = say;
        words.extend(start(QMD, 9));
        kernel.rig.go(&words);
        assert_eq!(kernel.rig.broken(), [""; 0]);
    }
    // Other parameters: the first output is written again, not the second one.
    let mut kernel = sum("ad102");
    kernel.qmd.set(qmd::CONSTANT_BUFFER_INVALIDATE, 0);
    assert_eq!(kernel.go(), Turn::Idle);
    kernel.parameter(2, OUT + 0x1_0000);
    kernel.rig.go(&start(QMD, 9));
    fires("COMPUTE-CONSTANT-STALE").only(&kernel.rig.broken());
    assert!(!is_summed(&kernel.rig, OUT + 0x1_0000));
    let mut words = invalidate();
    words.extend(start(QMD, 9));
    kernel.rig.go(&words);
    assert!(is_summed(&kernel.rig, OUT + 0x1_0000));
    assert_eq!(kernel.rig.broken().len(), 1);
}

/// A kernel that is changed: the first rule that breaks, and the Xid.
fn case(rule: Fires, xid: Option<u32>, chip: &str, change: impl FnOnce(&mut Kernel)) {
    let mut kernel = sum(chip);
    change(&mut kernel);
    let turn = kernel.go();
    rule.only(&kernel.rig.broken());
    assert_eq!(kernel.rig.xid(), xid);
    assert_eq!(turn == Turn::Dead, xid.is_some());
}

#[test]
fn wrong_qmds_are_named() {
    let dies = Some(13);
    for chip in CHIPS {
        case(fires("QMD-VERSION"), dies, chip, |k| {
            k.qmd.set(qmd::QMD_MAJOR_VERSION, 7);
        });
        case(fires("QMD-RESERVED"), dies, chip, |k| {
            k.qmd.set(qmd::HW_ONLY_INNER_GET, 1);
        });
        case(fires("QMD-NOT-MODELLED"), dies, chip, |k| {
            k.qmd.set(qmd::CIRCULAR_QUEUE_SIZE, 1);
        });
        for (field, value) in [
            (qmd::GRID_WIDTH, 0),
            (qmd::GRID_HEIGHT, 0),
            (qmd::GRID_WIDTH, 1 << 31),
            (qmd::CTA_THREAD_DIMENSION0, 0),
            (qmd::CTA_THREAD_DIMENSION1, 9),
            (qmd::CTA_THREAD_DIMENSION2, 65),
        ] {
            case(fires("QMD-GRID"), dies, chip, |k| {
                k.qmd.set(field, value);
            });
        }
        for registers in [0, 256] {
            case(fires("QMD-REGISTERS"), dies, chip, |k| {
                k.qmd.set(qmd::REGISTER_COUNT, registers);
            });
        }
        case(fires("QMD-REGISTERS"), dies, chip, |k| {
            k.qmd.set(qmd::CTA_THREAD_DIMENSION0, 1024);
            k.qmd.set(qmd::REGISTER_COUNT, 72);
        });
        case(fires("QMD-BARRIERS"), dies, chip, |k| {
            k.qmd.set(qmd::BARRIER_COUNT, 17);
        });
        case(fires("QMD-PROGRAM"), dies, chip, |k| {
            k.qmd.wide(qmd::PROGRAM_ADDRESS, 0, CODE + 64);
        });
        case(fires("QMD-SASS-VERSION"), None, chip, |k| {
            k.qmd.set(qmd::SASS_VERSION, 0x75);
        });
        for (size, min, target, max) in [
            (256, 0, 0, 0),
            (0, 3, 0, 26),
            (192, 3, 3, 26),
            (0x2080, 3, 3, 26),
            (256, 5, 3, 26),
            (256, 3, 9, 5),
            (256, 4, 9, 26),
            (256, 3, 9, 63),
        ] {
            if chip == "gb202" && size == 192 {
                // Its field counts 128 bytes.
                continue;
            }
            case(fires("QMD-SHARED"), dies, chip, |k| {
                k.qmd.set(qmd::SHARED_MEMORY_SIZE, size);
                k.qmd.set(qmd::MIN_SM_CONFIG_SHARED_MEM_SIZE, min);
                k.qmd.set(qmd::TARGET_SM_CONFIG_SHARED_MEM_SIZE, target);
                k.qmd.set(qmd::MAX_SM_CONFIG_SHARED_MEM_SIZE, max);
            });
        }
        case(fires("QMD-CONSTANT"), dies, chip, |k| {
            k.qmd.set(qmd::CONSTANT_BUFFER_SIZE, 0);
        });
        case(fires("QMD-CONSTANT"), dies, chip, |k| {
            k.qmd.set(qmd::CONSTANT_BUFFER_SIZE, 0x1_0010);
        });
        case(fires("QMD-RELEASE"), None, chip, |k| {
            k.qmd.release(DONE + 8, 1);
        });
        case(fires("QMD-RELEASE"), dies, chip, |k| {
            k.qmd.release(DONE, 1).set(qmd::RELEASE_STRUCTURE_SIZE, 3);
        });
        case(fires("QMD-MEMBAR"), None, chip, |k| {
            k.qmd.release(DONE, 1).set(qmd::RELEASE_MEMBAR_TYPE, 0);
            k.qmd.set(qmd::CWD_MEMBAR_TYPE, 0);
        });
        case(fires("QMD-DEPENDENT"), dies, chip, |k| {
            k.qmd.set(qmd::DEPENDENT_QMD_ENABLE, 1);
            k.qmd.set(qmd::DEPENDENT_QMD_ACTION, 0);
        });
        case(fires("QMD-PREFETCH"), None, chip, |k| {
            k.qmd.wide(qmd::PROGRAM_PREFETCH_ADDR, 0, CODE + 0x3f00);
            k.qmd.set(qmd::PROGRAM_PREFETCH_SIZE, 2);
        });
        case(fires("COMPUTE-EXCEPTION"), dies, chip, |k| {
            k.qmd.set(qmd::REGISTER_COUNT, 8);
        });
        for (field, at) in [
            (qmd::PROGRAM_ADDRESS, 0x1000),
            (qmd::CONSTANT_BUFFER_ADDR, 0x1000),
        ] {
            case(fires("MMU-FAULT"), Some(31), chip, |k| {
                k.qmd.wide(field, 0, at);
            });
        }
        case(fires("MMU-FAULT"), Some(31), chip, |k| {
            k.qmd.release(0x1000, 1);
        });
    }
    case(fires("QMD-RESERVED"), dies, "ad102", |k| {
        k.qmd.words[11] |= 1 << 29
    });
    case(fires("QMD-NOT-MODELLED"), dies, "h100", |k| {
        k.qmd.set(qmd::QMD_TYPE, 3);
    });
    case(fires("QMD-CONSTANT"), dies, "ad102", |k| {
        k.qmd.wide(qmd::CONSTANT_BUFFER_ADDR, 0, BANK + 32);
    });
    case(fires("QMD-LOCAL"), None, "ad102", |k| {
        k.qmd.set(qmd::SHADER_LOCAL_MEMORY_LOW_SIZE, 8);
        k.qmd.set(qmd::SHADER_LOCAL_MEMORY_HIGH_SIZE, 8);
        let whole = local("ad102");
        k.rig.ram.map(LOCAL, 0x1000, Rights::ReadWrite);
        let tpcs: u32 = whole.rig.machine.config.chips[0].tpcs.iter().sum();
        let last = LOCAL + LOCAL_TPC * u64::from(tpcs) - 1;
        k.rig.ram.map(last & !0xfff, 0x1000, Rights::ReadWrite);
    });
}

#[test]
fn wrong_methods_are_named() {
    let ran = |chip: &str, words: &[u32]| {
        let mut kernel = sum(chip);
        let mut all = kernel.setup();
        all.extend(words);
        all.extend(kernel.launch());
        kernel.rig.go(&all);
        (kernel.rig.broken(), kernel.rig.xid())
    };
    let case = |rule: Fires, xid: Option<u32>, chip: &str, words: &[u32]| {
        let (broken, found) = ran(chip, words);
        rule.only(&broken);
        assert_eq!(found, xid, "{words:#x?}");
    };
    case(
        fires("COMPUTE-METHOD"),
        None,
        "ad102",
        &inc(1, 0x3ff0, &[0]),
    );
    case(
        fires("COMPUTE-METHOD-BITS"),
        None,
        "ad102",
        &inc(1, 0x2a0, &[0x2_7294]),
    );
    case(fires("COMPUTE-PCAS"), Some(69), "ad102", &start(QMD, 6));
    for words in [
        inc(1, 0x2a0, &[0, 0]),
        inc(1, 0x7b0, &[0, 0]),
        inc(1, 0x7b0, &[0x7294, 0]),
    ] {
        case(fires("COMPUTE-WINDOW"), Some(13), "ad102", &words);
    }
    // Where memory is mapped, and on a Hopper not at a multiple of 4 GiB.
    let mapped = inc(1, 0x2a0, &[0, DATA as u32]);
    case(fires("COMPUTE-WINDOW"), Some(13), "ad102", &mapped);
    case(
        fires("COMPUTE-WINDOW"),
        Some(13),
        "h100",
        &inc(1, 0x2a0, &[0x7294, 1 << 24]),
    );
    case(
        fires("COMPUTE-RENDER-NOT-MODELLED"),
        Some(69),
        "ad102",
        &inc(1, 0x1558, &[2]),
    );
    let trap = inc(1, 0x1b00, &[0, DONE as u32, 5, 3]);
    case(fires("COMPUTE-SEMAPHORE"), Some(69), "ad102", &trap);
    let odd = inc(1, 0x1b00, &[0, DONE as u32 + 4, 5, 0]);
    case(fires("COMPUTE-SEMAPHORE"), None, "ad102", &odd);
    case(
        fires("COMPUTE-INLINE"),
        Some(69),
        "ad102",
        &inc(1, 0x1b4, &[5]),
    );
    let mut twice = inc(1, 0x180, &[8, 1, 0, OUT as u32]);
    twice.extend(inc(1, 0x1b0, &[0x41]));
    twice.extend(inc(1, 0x1b0, &[0x41]));
    case(fires("COMPUTE-INLINE"), Some(69), "ad102", &twice);
    case(
        fires("COMPUTE-INLINE-NOT-MODELLED"),
        Some(69),
        "ad102",
        &inc(1, 0x1b0, &[0x40]),
    );
}

#[test]
fn a_group_has_one_place_for_local_memory() {
    for chip in CHIPS {
        for grouped in [true, false] {
            let mut kernel = local(chip);
            let setup = kernel.setup();
            kernel.rig.go(&setup);
            kernel.rig.another(grouped);
            // The object, and the window of shared memory: up to the window of local memory.
            let own = setup.iter().position(|word| word & 0x1fff == 0x7b0 / 4);
            let mut words = setup[..own.unwrap()].to_vec();
            words.extend(kernel.launch());
            kernel.rig.go(&words);
            if grouped {
                assert_eq!(kernel.rig.broken(), [""; 0], "{chip}");
                assert!((0..32).all(|i| kernel.rig.ram.word(OUT + 4 * i) != 0));
            } else {
                fires("COMPUTE-WINDOW").only(&kernel.rig.broken());
            }
        }
    }
}

#[test]
fn local_memory_is_there() {
    let case = |chip: &str, words: &[u32]| {
        let mut kernel = local(chip);
        let mut all = kernel.setup();
        all.extend(words);
        all.extend(kernel.launch());
        kernel.rig.go(&all);
        fires("COMPUTE-LOCAL").only(&kernel.rig.broken());
        assert_eq!(kernel.rig.xid(), Some(13));
    };
    for chip in CHIPS {
        case(chip, &inc(1, 0x2e4, &[0, 0x8000]));
        case(chip, &inc(1, 0x2e4, &[0, LOCAL_TPC as u32 + 0x200]));
        case(chip, &inc(1, 0x790, &[0x10, 0x1000_0000]));
    }
}

#[test]
fn kernels_that_fault_are_named() {
    let fault = |rule: Fires, change: &dyn Fn(&mut Kernel)| {
        let mut kernel = sum("h100");
        change(&mut kernel);
        assert_eq!(kernel.go(), Turn::Dead);
        rule.only(&kernel.rig.broken());
        kernel.rig.channel.error().unwrap().clone()
    };
    let error = fault(fires("MMU-FAULT"), &|k| k.parameter(2, 0x1000));
    let access = error.fault.unwrap();
    assert_eq!((error.xid, access.va & !0xfff), (31, 0x1000));
    let error = fault(fires("COMPUTE-EXCEPTION"), &|k| k.parameter(0, A + 1));
    let exception = error.exception.unwrap();
    assert_eq!((error.xid, exception.esr), (13, 0x0f));
    assert!((CODE..CODE + 0x200).contains(&exception.pc));
    for window in [SHARED_WINDOW, LOCAL_WINDOW] {
        let error = fault(fires("COMPUTE-EXCEPTION"), &|k| k.parameter(1, window));
        assert_eq!(error.exception.unwrap().esr, 0x10);
    }
    // A bank that ends before the parameters do.
    let error = fault(fires("COMPUTE-EXCEPTION"), &|k| {
        k.qmd.set(qmd::CONSTANT_BUFFER_SIZE, 0x200);
    });
    assert_eq!(error.exception.unwrap().esr, 0x0c);
    let error = fault(fires("COMPUTE-CODE-NOT-MODELLED"), &|k| {
        k.rig.ram.put(CODE + 16, &[0xff; 16]);
    });
    assert_eq!(error.xid, 13);
    // The wait for what the first instruction reads is taken away.
    fault(fires("COMPUTE-HAZARD"), &|k| {
        for i in 0..32 {
            let mut word = k.rig.ram.bytes(CODE + 16 * i, 16);
            // Bits 121:116: scoreboards to wait for.
            word[14] &= 0x0f;
            word[15] &= 0xfc;
            k.rig.ram.put(CODE + 16 * i, &word);
        }
    });
    // STS [UR4], RZ; UMOV UR6, 0x1; UBLKCP.G.S [UR8], [UR4], UR6.
    fault(fires("COMPUTE-PROXY"), &|k| {
        let code: [u128; 3] = [
            0x000fe20008000804000000ffff007988,
            0x000fe800000000000000000100067882,
            0x0005e2000800040600000008040073ba,
        ];
        k.qmd
            .set(qmd::SHARED_MEMORY_SIZE, 2048)
            .set(qmd::MIN_SM_CONFIG_SHARED_MEM_SIZE, 3)
            .set(qmd::TARGET_SM_CONFIG_SHARED_MEM_SIZE, 5)
            .set(qmd::MAX_SM_CONFIG_SHARED_MEM_SIZE, 26);
        for (i, word) in (0..).zip(code) {
            k.rig.ram.put(CODE + 16 * i, &word.to_le_bytes());
        }
    });
    // A jump to itself.
    let error = fault(fires("COMPUTE-HANG"), &|k| {
        // Behind the end of each program there is one.
        let code: Vec<Vec<u8>> = (0..32)
            .map(|i| k.rig.ram.bytes(CODE + 16 * i, 16))
            .collect();
        let jump = code.iter().find(|word| word[..2] == [0x47, 0x79]).unwrap();
        k.rig.ram.put(CODE, jump);
        k.qmd
            .set(qmd::GRID_WIDTH, 1)
            .set(qmd::CTA_THREAD_DIMENSION0, 32);
    });
    assert_eq!(error.xid, 109);
}
