//! Several GPUs of one process, and no UVM.

use drivers_gpu::backend::Exception;
use drivers_nv::Options;
use drivers_nv::backend::ChannelKind;
use hcq::MemoryKind;

use super::bench::{
    Worker, clean, clean_but_for, machines, open, open_with, request, twin, use_all, wait,
};

#[test]
fn gpus_reach_memory_of_each_other() {
    let twin = twin("chip=ga102+h100");
    let first = open(&twin, 0).unwrap();
    // Made before the other one is opened, and after that.
    let early = first.memory(&request(MemoryKind::Device, 4096)).unwrap();
    let early_word = first.memory(&request(MemoryKind::Control, 4096)).unwrap();
    let second = open(&twin, 1).unwrap();
    let late = first.memory(&request(MemoryKind::Device, 3 << 20)).unwrap();
    let late_word = second.memory(&request(MemoryKind::Host, 4096)).unwrap();
    let (mut one, mut two) = (
        Worker::new(&first, ChannelKind::Copy(0)).unwrap(),
        Worker::new(&second, ChannelKind::Compute).unwrap(),
    );
    for (value, local) in [(1, &early), (2, &late)] {
        // The other GPU writes to memory of the first, which waits for it and tells the host.
        one.acquire(local.va.0, value);
        one.release(early_word.va.0, value);
        two.release(local.va.0, value);
        assert_eq!(wait(&first, &early_word, value), None);
    }
    one.release(late_word.va.0, 3);
    assert_eq!(wait(&second, &late_word, 3), None);
    // Without the second one, the first still works.
    drop((two, late_word, second));
    one.release(early_word.va.0, 9);
    assert_eq!(wait(&first, &early_word, 9), None);
    drop((one, early, early_word, late, first));
    clean(&twin);
}

#[test]
fn a_gpu_is_opened_twice_and_again() {
    let twin = twin("chip=h100");
    let (a, b) = (open(&twin, 0).unwrap(), open(&twin, 0).unwrap());
    let word = a.memory(&request(MemoryKind::Control, 4096)).unwrap();
    let mut worker = Worker::new(&b, ChannelKind::Compute).unwrap();
    worker.release(word.va.0, 4);
    assert_eq!(wait(&b, &word, 4), None);
    drop((a, b, worker));
    // Memory outlives the device.
    word.window.as_ref().unwrap().write(8, 1_u64).unwrap();
    let again = open(&twin, 0).unwrap();
    let mut worker = Worker::new(&again, ChannelKind::Compute).unwrap();
    let other = again.memory(&request(MemoryKind::Control, 4096)).unwrap();
    worker.release(other.va.0, 6);
    assert_eq!(wait(&again, &other, 6), None);
    drop((again, word, other, worker));
    clean(&twin);
}

#[test]
fn threads_open_and_close_a_gpu() {
    let twin = twin("chip=ad102");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..20 {
                    let nvk = open(&twin, 0).unwrap();
                    let memory = nvk.memory(&request(MemoryKind::Device, 4096)).unwrap();
                    // Either may be the last of it.
                    if round % 2 == 0 {
                        drop(nvk);
                        drop(memory);
                    }
                }
            });
        }
    });
    assert!(twin.machine().state().is_empty());
}

#[test]
fn memory_outlives_the_process_that_made_it() {
    let twin = twin("chip=ad102");
    let view = {
        let nvk = open(&twin, 0).unwrap();
        let memory = nvk.memory(&request(MemoryKind::Host, 4096)).unwrap();
        memory.window.as_ref().unwrap().view().unwrap().clone()
    };
    let machine = twin.machine().clone();
    drop(twin);
    assert!(machine.state().is_empty());
    // Addresses are given back by who holds them, and by nobody else.
    view.write(0, 5_u64).unwrap();
    assert_eq!(view.read::<u64>(0), Ok(5));
}

fn without_uvm() -> Options {
    Options {
        uvm: false,
        ..Options::default()
    }
}

#[test]
fn rm_maps_where_uvm_is_not_used() {
    for config in machines() {
        let twin = twin(&config);
        use_all(&twin, &without_uvm()).unwrap_or_else(|e| panic!("{config}: {e}"));
        let nvk = open_with(&twin, 0, &without_uvm()).unwrap();
        let word = nvk.memory(&request(MemoryKind::Control, 4096)).unwrap();
        for kind in [ChannelKind::Compute, ChannelKind::Copy(0)] {
            let mut worker = Worker::new(&nvk, kind).unwrap();
            worker.release(word.va.0, 7);
            assert_eq!(wait(&nvk, &word, 7), None, "{config}");
            worker.release(0x12_3456_7000, 7);
            let fault = wait(&nvk, &word, 8);
            assert!(matches!(fault, Some(Exception::Memory(_))), "{fault:?}");
        }
        drop((nvk, word));
        clean_but_for(&twin, &["MMU-FAULT"; 2]);
    }
}

#[test]
fn rm_maps_where_uvm_is_missing() {
    let twin = twin("chip=h100,fault=path:/dev/nvidia-uvm:ENOENT");
    use_all(&twin, &Options::default()).unwrap();
    clean(&twin);
}

#[test]
fn gpus_share_memory_of_the_host_without_uvm() {
    let twin = twin("chip=ad102,gpus=2");
    let first = open_with(&twin, 0, &without_uvm()).unwrap();
    let early = first.memory(&request(MemoryKind::Control, 4096)).unwrap();
    let second = open_with(&twin, 1, &without_uvm()).unwrap();
    let late = first.memory(&request(MemoryKind::Host, 4096)).unwrap();
    let mut two = Worker::new(&second, ChannelKind::Compute).unwrap();
    for word in [&early, &late] {
        two.release(word.va.0, 3);
        assert_eq!(wait(&second, word, 3), None);
    }
    // Memory of a GPU is its own.
    let local = first.memory(&request(MemoryKind::Device, 4096)).unwrap();
    two.release(local.va.0, 1);
    assert!(wait(&second, &early, 1).is_some());
    drop((two, second));
    let more = first.memory(&request(MemoryKind::Host, 4096)).unwrap();
    drop((first, early, late, local, more));
    clean_but_for(&twin, &["MMU-FAULT"]);
}
