//! What a machine does follows from its seed: the same acts of a client give the same packets in the same
//! order at the same times, however busy the host is.
use crate::stand;

use std::sync::atomic::{AtomicBool, Ordering};

use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::pm4::{self, header, op, release, wait};
use drivers_spec::amd::{regs, sdma};
use stand::{PROCESS, Stand};
use twin_amd::chip::GFX1100;
use twin_amd::gpu::QueueKind;

const RING: u64 = 0x7e00_0000_0000;
const RING_BYTES: u64 = 0x4000;
const DATA: u64 = 0x7e10_0000_0000;
const CODE: u64 = 0x7e20_0000_0000;
/// Every queue waits for this word.
const GATE: u64 = DATA + 0x8000;

fn packet(opcode: u8, body: &[u32]) -> Vec<u32> {
    let mut words = vec![header(opcode, body.len() as u32)];
    words.extend(body);
    words
}

fn wide(va: u64) -> [u32; 2] {
    [va as u32, (va >> 32) as u32]
}

fn wait_for(va: u64, value: u32) -> Vec<u32> {
    let info = wait::FUNCTION.put(5) | wait::MEM_SPACE.put(1);
    let [low, high] = wide(va);
    packet(pm4::WAIT_REG_MEM, &[info, low, high, value, u32::MAX, 4])
}

/// The time, at the end of the pipe.
fn stamp(va: u64) -> Vec<u32> {
    let event = release::EVENT_TYPE.put(pm4::CACHE_FLUSH_AND_INV_TS_EVENT)
        | release::EVENT_INDEX.put(pm4::EVENT_INDEX_END_OF_PIPE)
        | release::GL2_WB.put(1);
    let [low, high] = wide(va);
    let clock = release::DATA_SEL.put(3);
    packet(pm4::RELEASE_MEM, &[event, clock, low, high, 0, 0, 0])
}

fn set(first: u32, values: &[u32]) -> Vec<u32> {
    let body = [&[first - pm4::SH_REG_START], values].concat();
    packet(pm4::SET_SH_REG, &body)
}

/// A dispatch that ends at once.
fn dispatch() -> Vec<u32> {
    let rsrc1 = regs::PRIV.put(1) | regs::MEM_ORDERED.put(1) | regs::VGPRS.put(1);
    let initiator =
        regs::COMPUTE_SHADER_EN.put(1) | regs::FORCE_START_AT_000.put(1) | regs::CS_W32_EN.put(1);
    [
        set(regs::COMPUTE_PGM_LO, &wide(CODE >> 8)),
        set(regs::COMPUTE_PGM_RSRC1, &[rsrc1, regs::USER_SGPR.put(2)]),
        set(regs::pgm_rsrc3(Gfx::Gfx11), &[0]),
        set(regs::COMPUTE_START_X, &[0, 0, 0, 32, 1, 1]),
        set(regs::COMPUTE_USER_DATA_0, &wide(DATA)),
        packet(pm4::DISPATCH_DIRECT, &[64, 1, 1, initiator]),
    ]
    .concat()
}

/// What is to be seen of a run: packets in their order, and times.
fn run(seed: u64) -> (Vec<String>, Vec<u64>) {
    let stand = Stand::new(&GFX1100, seed);
    stand.map(RING, 0x20000);
    stand.map(DATA, 0x10000);
    stand.map(CODE, 0x1000);
    stand.write_words(CODE, &[0xbfb0_0000; 64]);
    const STAMPS: u64 = 12;
    for number in 0..3u64 {
        let queue = stand.queue(QueueKind::Pm4, RING + number * RING_BYTES, RING_BYTES);
        let mut words = wait_for(GATE, 1);
        for i in 0..STAMPS {
            words.extend(dispatch());
            if i % 3 == number {
                let flush = op::EVENT_TYPE.put(pm4::CS_PARTIAL_FLUSH)
                    | op::EVENT_INDEX.put(pm4::EVENT_INDEX_PARTIAL_FLUSH);
                words.extend(packet(pm4::EVENT_WRITE, &[flush]));
            }
            words.extend(stamp(DATA + (number * STAMPS + i) * 8));
            // What another queue has written by then.
            let other = (number + 1) % 3 * STAMPS + i;
            if number == 0 && i % 4 == 3 {
                words.extend(wait_for(DATA + other * 8, 1));
            }
        }
        queue.submit(&words);
        stand.wait("it waits", |stand| {
            stand.gpu.waiting(PROCESS).len() as u64 == number + 1
        });
    }
    let copies = stand.queue(QueueKind::Sdma { engine: 0 }, RING + 3 * RING_BYTES, 0x1000);
    let [low, high] = wide(GATE);
    let poll = 8 | sdma::FUNC.put(5) | sdma::MEM_POLL.put(1);
    let forever = sdma::RETRY_COUNT.put(0xfff) | 4;
    let mut words = vec![poll, low, high, 1, u32::MAX, forever];
    for i in 0..STAMPS {
        let [low, high] = wide(DATA + 0x4000 + i * 4);
        words.extend([5 | sdma::FENCE_MTYPE.put(3), low, high, 1]);
    }
    copies.submit(&words);
    stand.wait("all wait", |stand| stand.gpu.waiting(PROCESS).len() == 4);
    stand.write(GATE, &1u32.to_le_bytes());
    stand.idle();
    assert_eq!(stand.reports(), "");
    let times = (0..3 * STAMPS)
        .map(|i| stand.read64(DATA + i * 8))
        .collect();
    let log = stand.log.lock().unwrap().clone();
    (log, times)
}

/// Four threads that do nothing but keep the host busy, until it is dropped.
struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let first = run(5);
    for time in &first.1 {
        assert!(first.1.iter().filter(|other| *other == time).count() == 1);
    }
    for _ in 0..4 {
        assert_eq!(run(5), first);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let _busy = Busy(&stop);
        for _ in 0..4 {
            assert_eq!(run(5), first);
        }
    });
    let others: Vec<_> = (6..10).map(run).collect();
    assert!(
        others
            .iter()
            .all(|other| other.0 != first.0 && other.1 != first.1)
    );
}
