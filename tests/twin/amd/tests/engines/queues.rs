//! Packets on the twin: what they do, and the rule that each mistake breaks.
mod polls;
mod scopes;
use crate::stand;
mod vendor;
mod waves;
mod xccs;

use drivers_spec::amd::pm4::{self, acquire, header, ib, op, release, wait};
use drivers_spec::amd::{aql, regs, sdma};
use stand::{PROCESS, Queue, Stand};
use twin::fires::{Fires, fires};
use twin::process::Blocked;
use twin_amd::chip::{Chip, GFX942, GFX1030, GFX1100, GFX1201};
use twin_amd::gpu::{Injection, Interrupt, QueueDesc, QueueKind};
use twin_amd::mem::{Kind, Mtype};
use twin_shader::page::FaultKind;

const RING: u64 = 0x7e00_0000_0000;
const RING_BYTES: u64 = 4096;
const DATA: u64 = 0x7e10_0000_0000;
const CODE: u64 = 0x7e20_0000_0000;
const IB: u64 = 0x7e30_0000_0000;
const SDMA: QueueKind = QueueKind::Sdma { engine: 0 };

fn stand(chip: &'static Chip) -> Stand {
    let stand = Stand::new(chip, 3);
    map(&stand, chip);
    stand
}

/// Maps what queues use, with kernels that end at once.
fn map(stand: &Stand, chip: &Chip) {
    for (va, bytes) in [
        (RING, 0x10000),
        (DATA, 0x20_0000),
        (CODE, 0x1000),
        (IB, 0x10000),
    ] {
        stand.map(va, bytes);
    }
    let end = if chip.name == "gfx942" || chip.name == "gfx1030" {
        0xbf81_0000
    } else {
        0xbfb0_0000
    };
    stand.write_words(CODE, &[end; 64]);
}

/// What breaks when a queue gets these dwords.
fn broken_by(chip: &'static Chip, kind: QueueKind, words: &[u32]) -> Vec<&'static str> {
    broken_with(chip, kind, words, |_| {})
}

fn broken_with(
    chip: &'static Chip,
    kind: QueueKind,
    words: &[u32],
    change: impl FnOnce(&mut QueueDesc),
) -> Vec<&'static str> {
    let stand = stand(chip);
    let queue = stand.queue_with(kind, RING, RING_BYTES, change);
    queue.submit(words);
    stand.idle();
    stand.broken()
}

fn lo(va: u64) -> u32 {
    va as u32
}

fn hi(va: u64) -> u32 {
    (va >> 32) as u32
}

fn packet(opcode: u8, body: &[u32]) -> Vec<u32> {
    let mut words = vec![header(opcode, body.len() as u32)];
    words.extend(body);
    words
}

fn wait_mem(info: u32, va: u64, reference: u32) -> Vec<u32> {
    packet(
        pm4::WAIT_REG_MEM,
        &[info, lo(va), hi(va), reference, u32::MAX, 4],
    )
}

/// Info of a wait on memory for >=.
const WAIT_GE: u32 = wait::FUNCTION.put(5) | wait::MEM_SPACE.put(1);

fn release_mem(select: u32, va: u64, value: u32, context: u32) -> Vec<u32> {
    let event = release::EVENT_TYPE.put(pm4::CACHE_FLUSH_AND_INV_TS_EVENT)
        | release::EVENT_INDEX.put(pm4::EVENT_INDEX_END_OF_PIPE)
        | release::GL2_WB.put(1);
    packet(
        pm4::RELEASE_MEM,
        &[event, select, lo(va), hi(va), value, 0, context],
    )
}

fn signal(va: u64, value: u32) -> Vec<u32> {
    release_mem(release::DATA_SEL.put(1), va, value, 0)
}

fn set_sh(first: u32, values: &[u32]) -> Vec<u32> {
    let mut body = vec![first - pm4::SH_REG_START];
    body.extend(values);
    packet(pm4::SET_SH_REG, &body)
}

const FLUSH: u32 =
    op::EVENT_TYPE.put(pm4::CS_PARTIAL_FLUSH) | op::EVENT_INDEX.put(pm4::EVENT_INDEX_PARTIAL_FLUSH);

/// A dispatch of gfx1100; `change` may rewrite its registers.
fn dispatch(change: impl Fn(&mut Vec<(u32, Vec<u32>)>), initiator: u32) -> Vec<u32> {
    let rsrc1 = regs::PRIV.put(1) | regs::MEM_ORDERED.put(1) | regs::VGPRS.put(1);
    let mut registers = vec![
        (regs::COMPUTE_PGM_LO, vec![lo(CODE >> 8), hi(CODE >> 8)]),
        (regs::COMPUTE_PGM_RSRC1, vec![rsrc1, regs::USER_SGPR.put(2)]),
        (
            regs::pgm_rsrc3(drivers_spec::amd::packet::Gfx::Gfx11),
            vec![0],
        ),
        (regs::COMPUTE_START_X, vec![0, 0, 0, 32, 1, 1]),
        (regs::COMPUTE_USER_DATA_0, vec![lo(DATA), hi(DATA)]),
    ];
    change(&mut registers);
    let mut words = Vec::new();
    for (first, values) in registers {
        words.extend(set_sh(first, &values));
    }
    words.extend(packet(pm4::DISPATCH_DIRECT, &[2, 1, 1, initiator]));
    words.extend(packet(pm4::EVENT_WRITE, &[FLUSH]));
    words
}

const INITIATOR: u32 =
    regs::COMPUTE_SHADER_EN.put(1) | regs::FORCE_START_AT_000.put(1) | regs::CS_W32_EN.put(1);

#[test]
fn a_dispatch_breaks_nothing() {
    let words = dispatch(|_| {}, INITIATOR);
    assert_eq!(broken_by(&GFX1100, QueueKind::Pm4, &words), [""; 0]);
}

#[test]
fn dispatches_name_what_is_wrong() {
    let without = |register: u32| {
        move |registers: &mut Vec<(u32, Vec<u32>)>| {
            registers.retain(|(first, _)| *first != register)
        }
    };
    let with = |register: u32, value: Vec<u32>| {
        move |registers: &mut Vec<(u32, Vec<u32>)>| registers.push((register, value.clone()))
    };
    let rsrc2 = |bits: u32| with(regs::COMPUTE_PGM_RSRC2, vec![regs::USER_SGPR.put(2) | bits]);
    for (rule, words) in [
        (
            fires("PM4-REG-UNSET"),
            dispatch(without(regs::COMPUTE_PGM_LO), INITIATOR),
        ),
        (
            fires("PM4-REG-UNSET"),
            dispatch(without(regs::COMPUTE_START_X), INITIATOR),
        ),
        // RSRC3 where GFX9 has it: on GFX11 that is a mask of compute units.
        (
            fires("PM4-REG-UNSET"),
            dispatch(
                |registers| registers[2].0 = regs::pgm_rsrc3(drivers_spec::amd::packet::Gfx::Gfx9),
                INITIATOR,
            ),
        ),
        (
            fires("PM4-DISPATCH-INITIATOR"),
            dispatch(|_| {}, INITIATOR & !1),
        ),
        (
            fires("PM4-DISPATCH-INITIATOR"),
            dispatch(|_| {}, INITIATOR | 1 << 25),
        ),
        (
            fires("PM4-NUM-THREAD"),
            dispatch(with(regs::COMPUTE_NUM_THREAD_X, vec![32, 33, 1]), INITIATOR),
        ),
        (
            fires("PM4-NUM-THREAD"),
            dispatch(with(regs::COMPUTE_NUM_THREAD_X, vec![32, 0, 1]), INITIATOR),
        ),
        (
            fires("PM4-PRIV-GFX11"),
            dispatch(
                with(regs::COMPUTE_PGM_RSRC1, vec![regs::VGPRS.put(1)]),
                INITIATOR,
            ),
        ),
        (
            fires("PM4-LDS-SIZE"),
            dispatch(rsrc2(regs::LDS_SIZE.put(129)), INITIATOR),
        ),
        (
            fires("PM4-REG-UNSET"),
            dispatch(rsrc2(regs::SCRATCH_EN.put(1)), INITIATOR),
        ),
        (
            fires("PM4-REG-RESERVED"),
            dispatch(with(regs::COMPUTE_PGM_HI, vec![0x17e]), INITIATOR),
        ),
        (
            fires("PM4-REG-UNMODELLED"),
            dispatch(with(0x2e3f, vec![0]), INITIATOR),
        ),
        (fires("PM4-GRID-LIMIT"), {
            let mut words = dispatch(|_| {}, INITIATOR);
            // Before its initiator and the barrier: x, y, z.
            let x = words.len() - 6;
            words[x] = 1 << 31;
            words
        }),
    ] {
        rule.first(&broken_by(&GFX1100, QueueKind::Pm4, &words));
    }
}

#[test]
fn scratch_has_a_size_and_memory() {
    let scratch = |tmpring: u32, base: u64| {
        dispatch(
            move |registers| {
                registers.extend([
                    (regs::COMPUTE_PGM_RSRC2, vec![regs::SCRATCH_EN.put(1)]),
                    (regs::COMPUTE_TMPRING_SIZE, vec![tmpring]),
                    (
                        regs::COMPUTE_DISPATCH_SCRATCH_BASE_LO,
                        vec![lo(base >> 8), hi(base >> 8)],
                    ),
                ]);
            },
            INITIATOR,
        )
    };
    let run = |words: &[u32]| broken_by(&GFX1100, QueueKind::Pm4, words);
    let size = |waves, units| regs::WAVES.put(waves) | regs::WAVESIZE_GFX11.put(units);
    // 2 MiB are mapped: 6 engines x 85 waves x 4096 bytes.
    assert_eq!(run(&scratch(size(85, 16), DATA)), [""; 0]);
    fires("PM4-SCRATCH-SIZE").only(&run(&scratch(size(86, 16), DATA)));
    fires("PM4-TMPRING").only(&run(&scratch(size(85, 0), DATA)));
}

#[test]
fn packets_name_what_is_wrong() {
    let nop = packet(pm4::NOP, &[0]);
    let ib_packet = |control| packet(pm4::INDIRECT_BUFFER, &[lo(IB), hi(IB), control]);
    let copy = |control| packet(pm4::COPY_DATA, &[control, 1, 0, lo(DATA), hi(DATA)]);
    let old_acquire = vec![acquire::TC_ACTION_ENA.put(1), u32::MAX, u32::MAX, 0, 0, 10];
    let glm = acquire::GLM_WB.put(1);
    for (rule, words) in [
        (fires("PM4-TYPE"), vec![0]),
        (fires("PM4-TYPE"), vec![0x8000_0000]),
        (fires("PM4-OPCODE"), packet(0x2d, &[0, 0])),
        (
            fires("PM4-LENGTH"),
            packet(pm4::WAIT_REG_MEM, &[WAIT_GE, lo(DATA), hi(DATA), 0]),
        ),
        (fires("PM4-LENGTH"), packet(pm4::ACQUIRE_MEM, &old_acquire)),
        (fires("PM4-CROSSES-WPTR"), vec![header(pm4::NOP, 5), 0]),
        (
            fires("PM4-RESERVED"),
            packet(pm4::EVENT_WRITE, &[FLUSH | 1 << 20]),
        ),
        (fires("PM4-RESERVED"), [&[nop[0] | 4], &nop[1..]].concat()),
        (
            fires("PM4-GLM-WB"),
            packet(pm4::ACQUIRE_MEM, &[0, u32::MAX, 0xff, 0, 0, 0, glm]),
        ),
        (
            fires("PM4-EVENT"),
            packet(pm4::EVENT_WRITE, &[pm4::CS_PARTIAL_FLUSH]),
        ),
        (fires("PM4-WAIT"), wait_mem(WAIT_GE | 7, DATA, 0)),
        (
            fires("PM4-WAIT"),
            wait_mem(WAIT_GE | wait::OPERATION.put(2), DATA, 0),
        ),
        (
            fires("PM4-REG-UNMODELLED"),
            wait_mem(wait::FUNCTION.put(3), 0x1234, 0),
        ),
        (fires("PM4-REG-UNMODELLED"), wait_mem(0x45, 0x1234, 0)),
        (fires("Q-ALIGN"), wait_mem(WAIT_GE, DATA + 2, 0)),
        (fires("Q-ALIGN"), signal(DATA + 2, 0)),
        (
            fires("Q-ALIGN"),
            release_mem(release::DATA_SEL.put(3), DATA + 4, 0, 0),
        ),
        (
            fires("PM4-RELEASE"),
            release_mem(release::DATA_SEL.put(5), DATA, 0, 0),
        ),
        (fires("PM4-IB-VALID"), ib_packet(4)),
        (fires("PM4-IB-VALID"), ib_packet(ib::VALID.put(1))),
        (
            fires("PM4-IB-VALID"),
            ib_packet(4 | ib::VALID.put(1) | ib::VMID.put(1)),
        ),
        (
            fires("PM4-IB-CHAIN"),
            ib_packet(4 | ib::VALID.put(1) | ib::CHAIN.put(1)),
        ),
        // The buffer holds zeros.
        (fires("PM4-TYPE"), ib_packet(4 | ib::VALID.put(1))),
        (
            fires("PM4-PRED-EXEC-RING"),
            packet(pm4::PRED_EXEC, &[1 << 24]),
        ),
        (
            fires("PM4-SELECT"),
            copy(op::SRC_SEL.put(3) | op::DST_SEL.put(2)),
        ),
        (
            fires("PM4-SET-REG"),
            packet(pm4::SET_SH_REG, &[0x3ff, 0, 0]),
        ),
        (
            fires("PM4-SET-REG"),
            packet(pm4::SET_SH_REG, &[0x20c | 1 << 28, 0]),
        ),
        (fires("GPU-PAGE-FAULT"), signal(0x1234_5678_9000, 1)),
        (
            fires("Q-ATOMIC-OP"),
            packet(pm4::ATOMIC_MEM, &[1, lo(DATA), hi(DATA), 0, 0, 0, 0, 0]),
        ),
    ] {
        rule.first(&broken_by(&GFX1100, QueueKind::Pm4, &words));
    }
    let wait64 = packet(
        pm4::WAIT_REG_MEM64,
        &[WAIT_GE, lo(DATA), hi(DATA), 0, 0, 0, 0, 4],
    );
    fires("PM4-GENERATION").only(&broken_by(&GFX942, QueueKind::Pm4, &wait64));
    assert_eq!(broken_by(&GFX1030, QueueKind::Pm4, &wait64), [""; 0]);
    let no_eop = |desc: &mut QueueDesc| desc.eop = (0, 0);
    // An indirect buffer of two dwords, whose packet has six.
    let stand = stand(&GFX1100);
    let queue = stand.queue(QueueKind::Pm4, RING, RING_BYTES);
    stand.write_words(IB, &[header(pm4::NOP, 5), 0]);
    queue.submit(&ib_packet(2 | ib::VALID.put(1)));
    stand.idle();
    fires("PM4-CROSSES-IB").only(&stand.broken());
    let words = signal(DATA, 1);
    fires("PM4-EOP-BUFFER").only(&broken_with(&GFX1100, QueueKind::Pm4, &words, no_eop));
}

#[test]
fn packets_do_what_they_say() {
    let stand = stand(&GFX1201);
    let queue = stand.queue(QueueKind::Pm4, RING, RING_BYTES);
    let at = |i: u64| DATA + 0x100 * i;
    let write = op::WRITE_DST_SEL.put(5);
    let mut words = packet(pm4::WRITE_DATA, &[write, lo(at(1)), hi(at(1)), 7, 8]);
    words.extend(packet(
        pm4::WRITE_DATA,
        &[write | op::WR_ONE_ADDR.put(1), lo(at(2)), hi(at(2)), 7, 8],
    ));
    let from =
        |source, wide| op::SRC_SEL.put(source) | op::DST_SEL.put(2) | op::COUNT_SEL.put(wide);
    words.extend(packet(
        pm4::COPY_DATA,
        &[from(2, 1), lo(at(1)), hi(at(1)), lo(at(3)), hi(at(3))],
    ));
    words.extend(packet(
        pm4::COPY_DATA,
        &[from(9, 1), 0, 0, lo(at(4)), hi(at(4))],
    ));
    words.extend(packet(
        pm4::COPY_DATA,
        &[from(5, 0), 99, 0, lo(at(5)), hi(at(5))],
    ));
    // Adds 5 to 7, in 64 bits: 0x2f.
    words.extend(packet(
        pm4::ATOMIC_MEM,
        &[0x2f, lo(at(1)), hi(at(1)), 5, 0, 0, 0, 0],
    ));
    words.extend(packet(
        pm4::DMA_DATA,
        &[
            op::DMA_SRC_SEL.put(2),
            0x0102_0304,
            0,
            lo(at(6)),
            hi(at(6)),
            6,
        ],
    ));
    words.extend(packet(
        pm4::DMA_DATA,
        &[0, lo(at(6)), hi(at(6)), lo(at(7)), hi(at(7)), 5],
    ));
    // Skips a write where memory is zero.
    words.extend(packet(pm4::COND_EXEC, &[lo(at(8)), hi(at(8)), 0, 5]));
    words.extend(packet(pm4::WRITE_DATA, &[write, lo(at(9)), hi(at(9)), 1]));
    words.extend(release_mem(
        release::DATA_SEL.put(1) | release::INT_SEL.put(2),
        at(10),
        5,
        17,
    ));
    queue.submit(&words);
    stand.idle();
    assert_eq!(stand.reports(), "");
    assert_eq!(stand.read64(at(1)), 8 << 32 | 12);
    assert_eq!(stand.read64(at(2)), 8);
    assert_eq!(stand.read64(at(3)), 8 << 32 | 7);
    let clock = stand.read64(at(4));
    assert!(clock > 0 && clock <= stand.gpu.clock());
    assert_eq!(stand.read64(at(5)), 99);
    assert_eq!(stand.read::<8>(at(6)), [4, 3, 2, 1, 4, 3, 0, 0]);
    assert_eq!(stand.read::<8>(at(7)), [4, 3, 2, 1, 4, 0, 0, 0]);
    assert_eq!(stand.read32(at(9)), 0);
    assert_eq!(stand.read32(at(10)), 5);
    // It is told once the queue is idle.
    stand.wait("the interrupt", |stand| stand.heard() > 0);
    assert!(matches!(
        stand.interrupts()[..],
        [Interrupt::EndOfPipe {
            process: PROCESS,
            context: 17,
            ..
        }]
    ));
    assert_eq!(stand.read32(queue.desc.rptr), words.len() as u32);
}

#[test]
fn indirect_buffers_chain() {
    let stand = stand(&GFX1100);
    let queue = stand.queue(QueueKind::Pm4, RING, RING_BYTES);
    let ib_packet = |va: u64, words: &[u32], chain: u32| {
        let control = words.len() as u32 | ib::VALID.put(1) | ib::CHAIN.put(chain);
        packet(pm4::INDIRECT_BUFFER, &[lo(va), hi(va), control])
    };
    let last = signal(DATA + 8, 2);
    stand.write_words(IB + 0x1000, &last);
    let mut first = signal(DATA, 1);
    first.extend(ib_packet(IB + 0x1000, &last, 1));
    stand.write_words(IB, &first);
    let mut ring = ib_packet(IB, &first, 0);
    ring.extend(signal(DATA + 16, 3));
    queue.submit(&ring);
    stand.idle();
    let values = [0, 8, 16].map(|at| stand.read32(DATA + at));
    assert_eq!((values, stand.reports().as_str()), ([1, 2, 3], ""));

    // Without CHAIN it is a second level.
    let mut first = signal(DATA, 1);
    first.extend(ib_packet(IB + 0x1000, &last, 0));
    stand.write_words(IB, &first);
    queue.submit(&ring);
    stand.idle();
    fires("PM4-IB-NESTED").only(&stand.broken());
}

#[test]
fn queues_wait_for_each_other() {
    let stand = stand(&GFX1100);
    let first = stand.queue(QueueKind::Pm4, RING, 1024);
    let second = stand.queue(QueueKind::Pm4, RING + 0x1000, 1024);
    let third = stand.queue(SDMA, RING + 0x2000, 1024);
    let poll = |va: u64, value| {
        let header = 8 | sdma::FUNC.put(5) | sdma::MEM_POLL.put(1);
        vec![
            header,
            lo(va),
            hi(va),
            value,
            u32::MAX,
            sdma::RETRY_COUNT.put(0xfff) | 4,
        ]
    };
    let fence = |va: u64, value| vec![5 | sdma::FENCE_MTYPE.put(3), lo(va), hi(va), value];
    first.submit(&[wait_mem(WAIT_GE, DATA + 8, 1), signal(DATA, 1)].concat());
    second.submit(&[wait_mem(WAIT_GE, DATA + 16, 1), signal(DATA + 8, 1)].concat());
    stand.wait("two queues wait", |stand| {
        stand.gpu.waiting(PROCESS).len() == 2
    });
    assert!(stand.gpu.waiting(PROCESS)[0].contains("[0x7e1000000008] is 0x0, waits for"));
    assert!(!stand.gpu.idle(PROCESS));
    third.submit(&[poll(DATA + 24, 5), fence(DATA + 16, 1)].concat());
    stand.write(DATA + 24, &9u32.to_le_bytes());
    stand.idle();
    assert_eq!((stand.read32(DATA), stand.reports().as_str()), (1, ""));
}

#[test]
fn doorbells_and_pointers_name_what_is_wrong() {
    let nop = packet(pm4::NOP, &[0]);
    // 32 bits, before it was ever rung.
    let run = |act: &dyn Fn(&Stand, &Queue)| {
        let stand = stand(&GFX1100);
        let queue = stand.queue(QueueKind::Pm4, RING, RING_BYTES);
        // It looks at the write pointer once, when it is mapped.
        stand.idle();
        act(&stand, &queue);
        stand.wait("a rule breaks", |stand| !stand.broken().is_empty());
        stand.broken()[0]
    };
    let half = run(&|stand, queue| {
        let wptr = queue.put(&nop);
        stand.write(queue.desc.wptr, &wptr.to_le_bytes());
        queue.bell(0xffff_ffff_0000_0000 | wptr);
    });
    fires("Q-DOORBELL-64").only(&[half]);
    let early = run(&|_, queue| queue.bell(queue.put(&nop)));
    fires("Q-DOORBELL-WPTR").only(&[early]);
    // Bytes instead of dwords, in the doorbell only.
    let unit = run(&|stand, queue| {
        let wptr = queue.put(&nop);
        stand.write(queue.desc.wptr, &wptr.to_le_bytes());
        queue.bell(wptr * 4);
    });
    fires("Q-DOORBELL-WPTR").only(&[unit]);
    // Less than the write pointer says: no mistake as long as the client may be between two stores.
    let less = run(&|stand, queue| {
        let wptr = queue.put(&[nop.clone(), nop.clone()].concat());
        stand.write(queue.desc.wptr, &wptr.to_le_bytes());
        queue.bell(wptr - 2);
        stand.wait("it is taken", |stand| stand.read32(queue.desc.rptr) == 2);
        assert_eq!(stand.reports(), "");
        stand.gpu.destroy_queue(queue.id);
    });
    fires("Q-DOORBELL-WPTR").only(&[less]);
    let back = run(&|stand, queue| {
        queue.submit(&[nop.clone(), nop.clone()].concat());
        stand.idle();
        queue.ring(2);
    });
    fires("Q-WPTR-MONOTONE").only(&[back]);
    let over = run(&|_, queue| queue.ring(RING_BYTES / 4 + 1));
    fires("Q-WPTR-RING").only(&[over]);
    let changed = run(&|stand, queue| {
        let blocked = [wait_mem(WAIT_GE, DATA, 1), signal(DATA + 8, 1)].concat();
        queue.submit(&blocked);
        stand.wait("it waits", |stand| stand.gpu.waiting(PROCESS).len() == 1);
        stand.write(RING + 8 * 4, &[1]);
        stand.write(DATA, &[1]);
    });
    fires("Q-RING-CHANGED").only(&[changed]);
}

#[test]
fn pm4_wraps_and_sdma_does_not() {
    let stand = stand(&GFX1100);
    let queue = stand.queue(QueueKind::Pm4, RING, 1024);
    for value in 1..100 {
        queue.submit(&signal(DATA, value));
        stand.idle();
    }
    assert_eq!((stand.read32(DATA), stand.reports().as_str()), (99, ""));
    let queue = stand.queue(SDMA, RING + 0x1000, 1024);
    for value in 1..100 {
        // 16 bytes: it fits the ring without a rest.
        queue.submit(&[5 | sdma::FENCE_MTYPE.put(3), lo(DATA), hi(DATA), value]);
        stand.idle();
    }
    assert_eq!((stand.read32(DATA), stand.reports().as_str()), (99, ""));
    let queue = stand.queue(SDMA, RING + 0x2000, 1024);
    queue.submit(&[0; 255]);
    stand.idle();
    queue.submit(&[5 | sdma::FENCE_MTYPE.put(3), lo(DATA), hi(DATA), 1]);
    stand.idle();
    fires("SDMA-STRADDLE").only(&stand.broken());
}

#[test]
fn sdma_moves_bytes() {
    let stand = stand(&GFX1201);
    let queue = stand.queue(SDMA, RING, RING_BYTES);
    let data: Vec<u8> = (0..1000).map(|i| (i * 7) as u8).collect();
    stand.write(DATA, &data);
    let (to, fill, boxed, stamp) = (DATA + 0x1000, DATA + 0x2000, DATA + 0x3000, DATA + 0x4000);
    let mut words = vec![1, 999, 0, lo(DATA), hi(DATA), lo(to), hi(to)];
    words.extend([
        11 | sdma::FILL_SIZE.put(2),
        lo(fill),
        hi(fill),
        0x0102_0304,
        12,
    ]);
    words.extend([11, lo(fill + 32), hi(fill + 32), 0xaa, 2]);
    // A box of 4 x 3 bytes out of rows of 10 into rows of 6.
    words.extend([
        u32::from(sdma::COPY_LINEAR_SUB_WIND),
        lo(DATA),
        hi(DATA),
        sdma::X_16.put(2) | sdma::Y_16.put(1),
        sdma::PITCH_16.put(9),
        99,
        lo(boxed),
        hi(boxed),
        0,
        sdma::PITCH_16.put(5),
        99,
        sdma::RECT_X_16.put(3) | sdma::RECT_Y_16.put(2),
        0,
    ]);
    words.extend([u32::from(sdma::TIMESTAMP_GET_GLOBAL), lo(stamp), hi(stamp)]);
    words.extend([2, lo(stamp + 8), hi(stamp + 8), 1, 77, 78]);
    words.extend([
        10 | sdma::ATOMIC_OP.put(0x2f),
        lo(stamp + 8),
        hi(stamp + 8),
        1,
        0,
        0,
        0,
        0,
    ]);
    words.extend([
        u32::from(sdma::GCR_USER),
        0,
        acquire::GL2_WB.put(1) << 16,
        0,
        0,
    ]);
    words.extend([6, 23]);
    queue.submit(&words);
    stand.idle();
    assert_eq!(stand.reports(), "");
    assert_eq!(stand.read::<1000>(to)[..], data);
    assert_eq!(stand.read::<17>(fill)[12..], [4, 3, 2, 1, 0]);
    assert_eq!(stand.read::<4>(fill + 32), [0xaa, 0xaa, 0xaa, 0]);
    for y in 0..3 {
        let from = 10 * (1 + y) + 2;
        assert_eq!(
            stand.read::<4>(boxed + 6 * y as u64)[..],
            data[from..from + 4]
        );
    }
    assert_ne!(stand.read64(stamp), 0);
    assert_eq!(stand.read64(stamp + 8), 78 << 32 | 78);
    // It is told once the queue is idle.
    stand.wait("the interrupt", |stand| stand.heard() > 0);
    assert!(matches!(
        stand.interrupts()[..],
        [Interrupt::SdmaTrap {
            process: PROCESS,
            context: 23,
            ..
        }]
    ));
    assert_eq!(stand.read64(queue.desc.rptr), words.len() as u64 * 4);
}

#[test]
fn sdma_names_what_is_wrong() {
    let copy = |count: u32, to: u64| vec![1, count, 0, lo(DATA), hi(DATA), lo(to), hi(to)];
    let poll = |header: u32, retries: u32| {
        let interval = sdma::RETRY_COUNT.put(retries) | 4;
        vec![8 | header, lo(DATA), hi(DATA), 0, u32::MAX, interval]
    };
    let ge = sdma::FUNC.put(5) | sdma::MEM_POLL.put(1);
    let indirect = |size: u32| vec![4, lo(IB), hi(IB), size, 0, 0];
    for (chip, rule, words) in [
        (&GFX1100, fires("SDMA-OPCODE"), vec![7, lo(DATA), hi(DATA)]),
        (
            &GFX942,
            fires("SDMA-OPCODE"),
            vec![u32::from(sdma::GCR_USER), 0, 0, 0, 0],
        ),
        (&GFX1100, fires("SDMA-RESERVED"), vec![6 | 1 << 20, 1]),
        (
            &GFX942,
            fires("SDMA-COUNT"),
            copy(sdma::COUNT_MAX as u32, DATA + 0x1000),
        ),
        (
            &GFX1100,
            fires("SDMA-CROSSES-WPTR"),
            vec![5, lo(DATA), hi(DATA)],
        ),
        (
            &GFX1100,
            fires("SDMA-FENCE-MTYPE"),
            vec![5, lo(DATA), hi(DATA), 1],
        ),
        (
            &GFX1100,
            fires("SDMA-FENCE-MTYPE"),
            // It waits for a copy first.
            [copy(99, DATA + 0x1000), vec![5, lo(DATA), hi(DATA), 1]].concat(),
        ),
        (&GFX1100, fires("SDMA-POLL"), poll(ge, 10)),
        (
            &GFX1100,
            fires("SDMA-POLL"),
            poll(sdma::FUNC.put(7) | sdma::MEM_POLL.put(1), 0xfff),
        ),
        (&GFX1100, fires("SDMA-POLL"), poll(sdma::FUNC.put(5), 0xfff)),
        (&GFX1100, fires("SDMA-COPY-OVERLAP"), copy(99, DATA + 50)),
        (&GFX1100, fires("SDMA-INDIRECT-END"), indirect(4)),
        (
            &GFX1100,
            fires("SDMA-INDIRECT"),
            [vec![0, 0], indirect(0)].concat(),
        ),
        (
            &GFX1100,
            fires("SDMA-FILL"),
            vec![11 | sdma::FILL_SIZE.put(2), lo(DATA), hi(DATA), 0, 3],
        ),
        (&GFX1100, fires("GPU-PAGE-FAULT"), copy(99, 0x1000)),
        (
            &GFX1100,
            fires("GPU-PAGE-FAULT"),
            [vec![0, 0], indirect(0x40000)].concat(),
        ),
    ] {
        rule.first(&broken_by(chip, SDMA, &words));
    }
    // A box of 8 x 1 elements, in rows of 8 and of 7, and of elements of 16 and 32 bytes.
    let window = |size: u32, pitch: u32| {
        let mut words = [0; 13];
        words[0] = u32::from(sdma::COPY_LINEAR_SUB_WIND) | sdma::ELEMENT_SIZE.put(size);
        (words[1], words[2], words[4]) = (lo(DATA), hi(DATA), sdma::PITCH.put(7));
        let to = DATA + 0x1000;
        (words[6], words[7], words[9]) = (lo(to), hi(to), sdma::PITCH.put(pitch - 1));
        words[11] = sdma::RECT_X.put(7);
        broken_by(&GFX1100, SDMA, &words)
    };
    assert_eq!(window(4, 8), [""; 0]);
    fires("SDMA-WINDOW").only(&window(4, 7));
    fires("SDMA-WINDOW").only(&window(5, 8));
    assert_eq!(
        broken_by(&GFX942, SDMA, &[5, lo(DATA), hi(DATA), 1]),
        [""; 0]
    );
    let stand = stand(&GFX1100);
    let queue = stand.queue(SDMA, RING, RING_BYTES);
    queue.put(&[0]);
    queue.ring(2);
    stand.idle();
    fires("SDMA-WPTR-UNIT").only(&stand.broken());
}

#[test]
fn a_write_of_sdma_comes_after_copies() {
    let stand = stand(&GFX1100);
    let (big, bytes) = (0x7e50_0000_0000, 128 << 20);
    stand.map(big, bytes);
    stand.map(big + bytes, bytes);
    stand.write(big + bytes - 1, &[1]);
    let queue = stand.queue(SDMA, RING, RING_BYTES);
    let to = big + bytes;
    let copy = vec![1, bytes as u32 - 1, 0, lo(big), hi(big), lo(to), hi(to)];
    let write = vec![2, lo(DATA), hi(DATA), 0, 1];
    queue.submit(&[copy, write].concat());
    stand.wait("the write", |stand| stand.read32(DATA) == 1);
    let early = stand.read::<1>(to + bytes - 1);
    stand.idle();
    let late = stand.read::<1>(to + bytes - 1);
    assert_eq!((early, late, stand.reports().as_str()), ([1], [1], ""));
}

#[test]
fn aql_names_what_is_wrong() {
    let good = |stand: &Stand| {
        let mut descriptor = [0u32; 16];
        descriptor[4] = 0x100;
        (descriptor[12], descriptor[13]) = (regs::VGPRS.put(1), regs::USER_SGPR.put(2));
        descriptor[14] = 8;
        stand.write_words(CODE, &descriptor);
        stand.write_words(CODE + 0x100, &[0xbf81_0000; 16]);
        let mut packet = [0u32; 16];
        packet[0] = 0x3_1502;
        (packet[1], packet[2]) = (0x1_0040, 1);
        (packet[3], packet[4], packet[5]) = (128, 1, 1);
        (packet[8], packet[9]) = (lo(CODE), hi(CODE));
        (packet[10], packet[11]) = (lo(DATA), hi(DATA));
        packet
    };
    type Change<'a> = &'a dyn Fn(&Stand, &mut [u32; 16]);
    let cases: [(Fires, Change); 22] = [
        (fires("AQL-TYPE"), &|_, packet| packet[0] = 0x3_1504),
        (fires("AQL-RESERVED"), &|_, packet| packet[0] |= 1 << 14),
        (fires("AQL-RESERVED"), &|_, packet| packet[0] |= 1 << 20),
        (fires("AQL-RESERVED"), &|_, packet| packet[12] = 1),
        (fires("AQL-GRID"), &|_, packet| packet[0] = 0x1502),
        (fires("AQL-GRID"), &|_, packet| packet[4] = 0),
        (fires("AQL-GRID"), &|_, packet| {
            (packet[0], packet[4]) = (0x1_1502, 2)
        }),
        (fires("AQL-WORKGROUP"), &|_, packet| packet[1] = 0x20_0040),
        (fires("AQL-KERNEL-OBJECT"), &|_, packet| packet[8] += 4),
        (fires("AQL-KERNEL-OBJECT"), &|stand, _| {
            stand.write(CODE + 16, &[0; 8])
        }),
        (fires("AQL-KERNEL-OBJECT"), &|stand, _| {
            stand.write(CODE + 12, &[1])
        }),
        (fires("AQL-KERNARG-ALIGN"), &|_, packet| packet[10] += 8),
        (fires("AQL-KERNARG"), &|stand, packet| {
            stand.write(CODE + 8, &[16]);
            packet[11] = 0;
        }),
        (fires("AQL-GROUP-SIZE"), &|stand, _| {
            stand.write(CODE, &[64])
        }),
        (fires("AQL-GROUP-SIZE"), &|_, packet| packet[7] = 65537),
        (fires("AQL-PRIVATE-SIZE"), &|stand, _| {
            stand.write(CODE + 4, &[64])
        }),
        (fires("AQL-PRIVATE-SIZE"), &|_, packet| packet[6] = 64),
        (fires("AQL-WAVE32"), &|stand, _| {
            stand.write(CODE + 57, &[4])
        }),
        (fires("AQL-SIGNAL"), &|_, packet| {
            (packet[14], packet[15]) = (lo(DATA), hi(DATA))
        }),
        (fires("AQL-PM4-IB"), &|_, packet| packet[0] = 0x1_1500),
        (fires("AQL-QUEUE"), &|stand, _| {
            stand.write(stand::POINTERS + 136, &[0])
        }),
        (fires("GPU-PAGE-FAULT"), &|_, packet| packet[9] = 0),
    ];
    let broken = |change: Change| {
        let stand = stand(&GFX942);
        let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
        let mut packet = good(&stand);
        change(&stand, &mut packet);
        queue.submit(&packet);
        stand.idle();
        stand.broken()
    };
    assert_eq!(broken(&|_, _| {}), [""; 0]);
    for (rule, change) in cases {
        rule.first(&broken(change));
    }
}

#[test]
fn aql_waits_for_headers_and_signals() {
    let stand = stand(&GFX942);
    let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
    let (ready, done) = (DATA, DATA + 0x40);
    let mailbox = DATA + 0x80;
    for signal in [ready, done] {
        stand.write(signal, &1u64.to_le_bytes());
        stand.write(signal + 8, &1u64.to_le_bytes());
    }
    stand.write(done + 16, &mailbox.to_le_bytes());
    stand.write(done + 24, &5u32.to_le_bytes());
    let mut packet = [0u32; 16];
    packet[0] = aql::INVALID;
    (packet[2], packet[3]) = (lo(ready), hi(ready));
    (packet[14], packet[15]) = (lo(done), hi(done));
    queue.submit(&packet);
    stand.wait("no header", |stand| {
        let waiting = stand.gpu.waiting(PROCESS);
        waiting.first().is_some_and(|line| line.contains("INVALID"))
    });
    stand.write(RING, &0x1503u16.to_le_bytes());
    stand.wait("not ready", |stand| {
        let waiting = stand.gpu.waiting(PROCESS);
        waiting.first().is_some_and(|line| line.contains("signal"))
    });
    assert_eq!(stand.read64(done + 8), 1);
    stand.write(ready + 8, &0u64.to_le_bytes());
    stand.idle();
    assert_eq!(stand.reports(), "");
    assert_eq!((stand.read64(done + 8), stand.read64(mailbox)), (0, 5));
    assert_eq!(stand.read32(RING) & 0xff, aql::INVALID);
    assert_eq!(stand.read64(queue.desc.rptr), 1);
    assert!(matches!(
        stand.interrupts()[..],
        [Interrupt::EndOfPipe { context: 5, .. }]
    ));
    // A header that never comes.
    queue.submit(&packet);
    stand.wait("no header", |stand| {
        let waiting = stand.gpu.waiting(PROCESS);
        waiting.first().is_some_and(|line| line.contains("INVALID"))
    });
    assert_eq!(stand.reports(), "");
    stand.gpu.destroy_queue(queue.id);
    fires("AQL-HEADER-LAST").only(&stand.broken());
}

#[test]
fn every_xcc_runs_pm4_in_aql() {
    let stand = stand(&GFX942);
    let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
    let count = packet(pm4::ATOMIC_MEM, &[0xf, lo(DATA), hi(DATA), 1, 0, 0, 0, 0]);
    let mut words = count.clone();
    words.extend(packet(
        pm4::PRED_EXEC,
        &[op::EXEC_COUNT.put(9) | op::VIRTUAL_XCC_MASK.put(0b101)],
    ));
    words.extend(&count);
    words.extend(&count);
    stand.write_words(IB, &words);
    let mut packet = [0u32; 16];
    packet[0] = 0x1_1500;
    packet[1] = header(pm4::INDIRECT_BUFFER, 3);
    (packet[2], packet[3]) = (lo(IB), hi(IB));
    packet[4] = words.len() as u32 | ib::VALID.put(1);
    packet[5] = aql::PM4_IB_REMAINING;
    queue.submit(&packet);
    stand.idle();
    assert_eq!(
        (stand.read32(DATA), stand.reports().as_str()),
        (8 + 2 + 8, "")
    );
    // The count cuts a packet.
    stand.write_words(
        IB + 9 * 4 + 4,
        &[op::EXEC_COUNT.put(8) | op::VIRTUAL_XCC_MASK.put(1)],
    );
    queue.submit(&packet);
    stand.idle();
    fires("PM4-PRED-CROSSES").only(&stand.broken());
}

#[test]
fn a_fault_stops_every_queue_of_the_process() {
    let stand = stand(&GFX1100);
    let first = stand.queue(QueueKind::Pm4, RING, 1024);
    let second = stand.queue(SDMA, RING + 0x1000, 1024);
    let other = stand.queue_with(QueueKind::Pm4, RING + 0x2000, 1024, |desc| desc.process = 8);
    stand.map_as(0x7e40_0000_0000, 4096, Kind::Gtt, Mtype::Uc, false);
    first.submit(&signal(0x7e40_0000_0000, 1));
    stand.wait("the fault", |stand| !stand.broken().is_empty());
    let interrupts = stand.interrupts();
    let [Interrupt::Fault { process, fault }] = interrupts[..] else {
        panic!("{interrupts:?}");
    };
    assert_eq!(
        (process, fault.va, fault.kind),
        (PROCESS, 0x7e40_0000_0000, FaultKind::ReadOnly)
    );
    second.submit(&[5 | sdma::FENCE_MTYPE.put(3), lo(DATA), hi(DATA), 1]);
    other.submit(&signal(DATA + 8, 1));
    stand.wait("the other process", |stand| stand.read32(DATA + 8) == 1);
    assert_eq!(stand.read32(DATA), 0);
}

#[test]
fn queues_are_unmapped_moved_and_destroyed() {
    let stand = stand(&GFX1100);
    let queue = stand.queue_with(QueueKind::Pm4, RING, 1024, |desc| desc.active = false);
    queue.submit(&signal(DATA, 1));
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(stand.read32(DATA), 0);
    stand.gpu.set_active(queue.id, true);
    stand.idle();
    assert_eq!(stand.read32(DATA), 1);
    stand.gpu.destroy_queue(queue.id);
    queue.submit(&signal(DATA, 2));
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!((stand.read32(DATA), stand.reports().as_str()), (1, ""));
}

#[test]
fn a_kernel_that_never_ends_is_cancelled() {
    let stand = stand(&GFX1100);
    let queue = stand.queue(QueueKind::Pm4, RING, RING_BYTES);
    // s_branch to itself.
    stand.write_words(CODE, &[0xbfa0_ffff]);
    queue.submit(&dispatch(|_| {}, INITIATOR));
    let other = stand.queue(QueueKind::Pm4, RING + 0x2000, 1024);
    other.submit(&signal(DATA, 1));
    stand.wait("the other queue", |stand| stand.read32(DATA) == 1);
    assert!(!stand.gpu.idle(PROCESS));
    stand.gpu.destroy_queue(queue.id);
    assert!(stand.gpu.idle(PROCESS));
    assert_eq!(stand.reports(), "");
}

#[test]
fn faults_are_injected() {
    let stand = stand(&GFX1100);
    let queue = stand.queue(QueueKind::Pm4, RING, 1024);
    stand.gpu.inject(Injection::Hang(queue.id));
    queue.submit(&signal(DATA, 1));
    stand.wait("it hangs", |stand| {
        let standing = stand.gpu.standing(PROCESS);
        let hangs = |kept: &Blocked| matches!(kept, Blocked::Other(why) if why.contains("hangs"));
        standing.iter().any(|one| hangs(&one.kept))
    });
    assert_eq!(stand.read32(DATA), 0);
    stand.gpu.inject(Injection::Reset { memory_lost: true });
    stand.gpu.inject(Injection::Gone);
    assert!(stand.gpu.gone());
    stand.wait("both are told", |stand| stand.heard() == 2);
}

#[test]
fn packets_are_printed() {
    let stand = stand(&GFX1100);
    let queue = stand.queue(QueueKind::Pm4, RING, RING_BYTES);
    queue.submit(&[wait_mem(WAIT_GE, DATA, 0), dispatch(|_| {}, INITIATOR)].concat());
    stand.idle();
    let log = stand.log.lock().unwrap().join("\n");
    for line in [
        "gpu 0 queue 1 dword 0: WAIT_REG_MEM info=0x15(FUNCTION=0x5 MEM_SPACE=0x1) addr=0x7e1000000000 \
         ref=0x0 mask=0xffffffff poll=0x4(INTERVAL=0x4)",
        "SET_SH_REG COMPUTE_PGM_LO=0x20000000 COMPUTE_PGM_HI=0x7e",
        "DISPATCH_DIRECT dim_x=0x2 dim_y=0x1 dim_z=0x1 DISPATCH_INITIATOR=0x8005",
        "EVENT_WRITE event=0x407(EVENT_TYPE=0x7 EVENT_INDEX=0x4)",
    ] {
        assert!(log.contains(line), "{line}\nis not in\n{log}");
    }
}
