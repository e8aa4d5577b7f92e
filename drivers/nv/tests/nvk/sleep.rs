//! Who sleeps is woken: by a channel, by one that dies, by the host; and a lost interrupt costs a while, no more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drivers_gpu::backend::{Age, Exception};
use drivers_nv::backend::{ChannelKind, NvBackend};
use hcq::MemoryKind;

use super::bench::{Worker, clean, clean_but_for, machines, open, request, twin};

/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(60);

/// Sleeps on a new event; `meanwhile` is done by another thread, once it may sleep.
fn sleeps(nvk: &Arc<dyn NvBackend>, meanwhile: impl FnOnce() + Send) -> Option<Exception> {
    let event = nvk.event().unwrap();
    let start = Instant::now();
    let told = std::thread::scope(|scope| {
        scope.spawn(meanwhile);
        nvk.sleep(Some(&event), &mut Age::NEW.clone(), LONG)
    });
    assert!(start.elapsed() < LONG / 2);
    told.unwrap()
}

#[test]
fn a_channel_wakes_who_sleeps() {
    let twin = twin("chip=h100");
    let nvk = open(&twin, 0).unwrap();
    let word = nvk.memory(&request(MemoryKind::Host, 4096)).unwrap();
    let mut worker = Worker::new(&nvk, ChannelKind::Copy(0)).unwrap();
    assert_eq!(sleeps(&nvk, || worker.release(word.va.0, 1)), None);
    assert_eq!(word.window.as_ref().unwrap().load::<u64>(0), Ok(1));
}

#[test]
fn a_channel_that_dies_wakes_who_sleeps() {
    for config in machines() {
        let twin = twin(&config);
        let nvk = open(&twin, 0).unwrap();
        // Made before and beside it: each has its own, and the GPU is told once.
        let others = [nvk.event().unwrap(), nvk.event().unwrap()];
        for kind in [ChannelKind::Compute, ChannelKind::Copy(0)] {
            let mut worker = Worker::new(&nvk, kind).unwrap();
            let told = sleeps(&nvk, || worker.release(0x12_3456_7000, 1));
            assert!(
                matches!(told, Some(Exception::Memory(_))),
                "{config}: {told:?}"
            );
        }
        drop((nvk, others));
        clean_but_for(&twin, &["MMU-FAULT"; 2]);
    }
}

#[test]
fn the_host_wakes_every_thread_that_sleeps() {
    let twin = twin("chip=h100");
    let nvk = open(&twin, 0).unwrap();
    let (event, other) = (nvk.event().unwrap(), nvk.event().unwrap());
    let start = Instant::now();
    std::thread::scope(|scope| {
        let sleeps = || {
            let mut age = Age::NEW;
            while age.0 == Age::NEW.0 {
                let told = nvk.sleep(Some(&event), &mut age, LONG).unwrap();
                assert_eq!(told, None);
            }
        };
        let all: Vec<_> = (0..4).map(|_| scope.spawn(sleeps)).collect();
        nvk.wake(&event);
        for one in all {
            one.join().unwrap();
        }
    });
    assert!(start.elapsed() < LONG / 2);
    // Another event has not happened.
    let (mut age, short) = (Age::NEW, Duration::from_millis(5));
    assert_eq!(nvk.sleep(Some(&other), &mut age, short).unwrap(), None);
    assert_eq!(age.0, Age::NEW.0);
    drop((nvk, event, other));
    clean(&twin);
}

#[test]
fn what_is_not_told_is_seen_by_who_looks() {
    for refused in [
        "event:lost",
        "call:NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION:NV_ERR_NOT_SUPPORTED",
    ] {
        let twin = twin(&format!("chip=h100,fault={refused}"));
        let nvk = open(&twin, 0).unwrap();
        let event = nvk.event().unwrap();
        let mut worker = Worker::new(&nvk, ChannelKind::Compute).unwrap();
        worker.release(0x12_3456_7000, 1);
        let (mut age, short) = (Age::NEW, Duration::from_millis(1));
        let start = Instant::now();
        let told = loop {
            if let Some(told) = nvk.sleep(Some(&event), &mut age, short).unwrap() {
                break told;
            }
            assert!(start.elapsed() < LONG, "{refused}");
        };
        assert!(matches!(told, Exception::Memory(_)), "{told:?}");
        drop((nvk, event, worker));
        clean_but_for(&twin, &["MMU-FAULT"]);
    }
}
