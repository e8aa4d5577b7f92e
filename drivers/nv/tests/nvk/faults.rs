//! Channels that die: what is told of it, and that others live.

use std::time::{Duration, Instant};

use drivers_gpu::backend::{Access, Age, Cause, Exception};
use drivers_nv::backend::ChannelKind;
use drivers_spec::nv::host;
use hcq::MemoryKind;

use super::bench::{Worker, clean_but_for, machines, open, request, twin, wait};

#[test]
fn an_address_that_is_not_mapped_is_told() {
    for config in machines() {
        let twin = twin(&config);
        let nvk = open(&twin, 0).unwrap();
        let word = nvk.memory(&request(MemoryKind::Control, 4096)).unwrap();
        for kind in [ChannelKind::Compute, ChannelKind::Copy(0)] {
            let wild = 0x12_3456_7000;
            let mut worker = Worker::new(&nvk, kind).unwrap();
            worker.release(wild, 1);
            let Some(Exception::Memory(fault)) = wait(&nvk, &word, 1) else {
                panic!("{config}: {kind:?}: no fault of memory");
            };
            assert_eq!((fault.va, fault.cause), (wild, Cause::PageFault));
            assert!(fault.not_present && !fault.read_only, "{fault:?}");
            // What was done is told of channels with kernels.
            let write = (kind == ChannelKind::Compute).then_some(Access::Write);
            assert_eq!(fault.access, write);
            assert_eq!(worker.channel.handle.died().unwrap(), Some(31));
        }
        // What they leave is the GPU, and another channel works.
        let mut worker = Worker::new(&nvk, ChannelKind::Compute).unwrap();
        worker.release(word.va.0, 5);
        assert_eq!(wait(&nvk, &word, 5), None);
        drop((nvk, word, worker));
        clean_but_for(&twin, &["MMU-FAULT"; 2]);
    }
}

#[test]
fn a_method_that_does_not_exist_is_told_by_its_xid() {
    let twin = twin("chip=ad102");
    let nvk = open(&twin, 0).unwrap();
    let word = nvk.memory(&request(MemoryKind::Control, 4096)).unwrap();
    let mut worker = Worker::new(&nvk, ChannelKind::Copy(0)).unwrap();
    worker.run(&[(host::ILLEGAL, 0)]);
    let Some(Exception::Refused(refused)) = wait(&nvk, &word, 1) else {
        panic!("nothing is refused");
    };
    assert_eq!(refused.unit, "worker");
    assert!(refused.what.contains("Xid 32 ("), "{}", refused.what);
    assert_eq!(refused.at, None);
    drop((nvk, word, worker));
    clean_but_for(&twin, &["HOST-METHOD"]);
}

#[test]
fn a_gpu_that_has_left_is_missed() {
    let twin = twin("chip=ad102,fault=gone");
    let nvk = open(&twin, 0).unwrap();
    let word = nvk.memory(&request(MemoryKind::Control, 4096)).unwrap();
    let mut worker = Worker::new(&nvk, ChannelKind::Copy(0)).unwrap();
    worker.release(word.va.0, 1);
    let start = Instant::now();
    let lost = loop {
        let slice = Duration::from_millis(1);
        match nvk.sleep(None, &mut Age::NEW.clone(), slice) {
            Err(error) => break error,
            Ok(told) => assert_eq!(told, None),
        }
        assert!(start.elapsed() < Duration::from_secs(20));
    };
    let text = lost.to_string();
    assert!(
        matches!(lost, hcq::Error::Fault { .. }) && text.contains("the GPU is gone ("),
        "{text}"
    );
    drop((nvk, word, worker));
    assert!(twin.machine().state().is_empty());
}
