//! Copies through the buffer.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use super::*;

#[test]
fn a_copy_that_was_left_is_gone_when_another_is_armed() {
    let rig = Rig::ready();
    rig.out(0xf2, 64, 0x0200, &[]);
    rig.pipe.clear_halt(0x02).unwrap();
    rig.out(0xf2, 1, 0x0100, &[]);
    assert_eq!(rig.bulk_out(&[0; 512]), Ok(512));
    rig.stream_out(MEMORY, &[0; 4]);
    rig.is_clean();
    // Else it takes what comes.
    rig.out(0xf2, 64, 0x0200, &[]);
    rig.pipe.clear_halt(0x02).unwrap();
    rig.f0(1, 0x60, 0xf, MEMORY, 1);
    assert_eq!(rig.broken(), ["ASM24-TWO-ENGINES"]);
}

#[test]
fn bulk_transfers_go_on_beside_requests() {
    let rig = Rig::ready();
    let window = vec![0; 0x4_0000];
    let arm = |window: u16| rig.out(0xf2, 512, 0x1000 | window << 4, &[]);
    let start = rig.bridge.now();
    let mut under_way = Vec::new();
    for window in [0, 1, 0, 1].map(|n| (n, window.clone())) {
        arm(window.0);
        under_way.push(rig.pipe.submit(0x02, window.1, SECOND).unwrap());
    }
    // The requests took their time beside the data.
    assert_eq!((rig.bridge.now() - start).as_micros(), 4 * 50);
    for transfer in under_way {
        assert_eq!(transfer.wait().unwrap(), 0x4_0000);
    }
    let took = (rig.bridge.now() - start).as_micros();
    let data = 4 * 0x4_0000 * 1_000_000 / 700_000_000;
    assert!((data..data + 200).contains(&took), "{took}");
    rig.is_clean();
}

#[test]
fn copies_go_through_the_buffer_when_they_are_released() {
    let rig = Rig::ready();
    let data: Vec<u8> = (0..0x8000u32).map(|i| (i * 7) as u8).collect();
    // Two may wait at a time.
    rig.out(0xf2, 64, 0x0200, &[]);
    rig.out(0xf2, 64, 0x0210, &[]);
    assert_eq!(rig.bulk_out(&data), Ok(data.len()));
    assert_eq!(rig.bulk_out(&data), Ok(data.len()));
    assert_eq!(rig.get(0xe4, 0xf000, 16), data[..16]);
    assert_eq!(rig.sram(0x10 * 0x4000, 4096), data[..4096]);
    // To the host: when the function has written to the page of completions, and not before.
    let page = rig.get(0xe4, 0xb800, 64);
    rig.out(0xf2, 0x8000 | 64, 0x0200, &[]);
    assert!(matches!(rig.bulk_in(data.len()), Err(Fault::TimedOut(_))));
    assert_eq!(
        rig.get(0xe4, 0xb800, 64),
        page,
        "nothing is to be seen of the gate"
    );
    // A zero where a zero was.
    rig.reach(CQ + 12, |mapping, at| assert!(mapping.write(at, &[0; 4])));
    assert_eq!(rig.bulk_in(data.len()).unwrap(), data);
    rig.out(0xe5, 0xa800, 7, &[]);
    rig.reach(0x82_0800, |mapping, at| {
        assert_eq!(mapping.load64(at as usize), 7)
    });
    rig.is_clean();
}

/// Waits for what another thread does.
fn until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "nobody gets on");
        thread::yield_now();
    }
}

#[test]
fn a_window_that_is_read_as_soon_as_it_is_full_was_read() {
    const WINDOW: u64 = 0x4000;
    const PARTS: u32 = 20_000;
    let rig = Rig::ready();
    let function = rig.bridge.function().unwrap();
    let done = AtomicU32::new(0);
    let at = |part: u32| u64::from(part % 2) * WINDOW;
    // Past the bridge, which the host holds while bytes come.
    let word = |offset: u64| {
        let found = function
            .bus()
            .reach(SRAM + offset, "the function", &rig.journal);
        let (mapping, page) = found.unwrap();
        mapping.load64((page * 4096 + offset % 4096) as usize)
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for part in 1..=PARTS {
                until(|| word(at(part) + WINDOW - 8) == u64::from(part));
                assert_eq!(word(at(part)), u64::from(part));
                done.store(part, Ordering::Release);
            }
        });
        for part in 1..=PARTS {
            until(|| done.load(Ordering::Acquire) + 2 >= part);
            rig.out(0xf2, 32, 0x0100 | (part % 2) as u16, &[]);
            let data = u64::from(part).to_le_bytes().repeat(WINDOW as usize / 8);
            assert_eq!(rig.bulk_out(&data), Ok(data.len()));
        }
    });
    rig.is_clean();
}
