//! What GPUs are at and who has them, of every chip by every driver.

use std::time::{Duration, Instant};

use drivers_nv::backend::ChannelKind;
use drivers_nv::nvk::meters::{Meters, Reading};
use hcq::MemoryKind;
use twin_nv::machine::TwinMachine;

use super::bench::{Worker, clean, machines, open, request, twin};

/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(60);

/// Reads until the GPU has measured what is wanted.
fn read(meters: &Meters, wanted: impl Fn(&Reading) -> bool) -> Reading {
    let end = Instant::now() + LONG;
    loop {
        let reading = meters.read().remove(0);
        if wanted(&reading) {
            return reading;
        }
        assert!(Instant::now() < end, "{reading:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn every_gpu_tells_what_it_is_at_and_who_has_it() {
    for config in machines() {
        let twin = twin(&config);
        let measures = !config.ends_with("535");
        let meters = Meters::new(&*twin).unwrap();
        let idle = read(&meters, |one| {
            one.celsius.is_some() == measures && one.watts.is_some() == measures
        });
        assert_eq!(idle.place, "0000:01:00.0");
        assert_eq!(idle.users.as_deref(), Some(&[][..]), "{config}");
        let (used, all) = idle.memory.unwrap();
        assert!(used == 0 && all >= 24 << 30, "{config}: {used:#x} {all:#x}");
        if measures {
            assert_eq!((idle.celsius, idle.watts), (Some(34.0), Some(21.3)));
            assert_eq!((idle.core_mhz, idle.percent), (Some(210), Some(0)));
            assert_eq!((idle.memory_mhz, idle.most_watts), (Some(405), Some(450.0)));
            assert_eq!(idle.fan_rpm.is_some(), config.ends_with("580"), "{config}");
        } else {
            assert_eq!((idle.core_mhz, idle.percent), (None, None));
        }

        // Another process computes; its memory is its own.
        let other = TwinMachine::attach(twin.machine());
        let nvk = open(&other, 0).unwrap();
        let memory = nvk.memory(&request(MemoryKind::Device, 3 << 20)).unwrap();
        let worker = Worker::new(&nvk, ChannelKind::Compute).unwrap();
        let busy = read(&meters, |one| !measures || one.percent != Some(0));
        let users = busy.users.unwrap();
        let [(pid, Some(bytes))] = users[..] else {
            panic!("{config}: {users:?}");
        };
        assert_eq!(pid, other.process().id());
        assert!((3 << 20..=busy.memory.unwrap().0).contains(&bytes));
        drop((worker, memory, nvk));
        let after = meters.read().remove(0);
        assert_eq!(after.users.as_deref(), Some(&[][..]), "{config}");

        drop(meters);
        clean(&twin);
    }
}

#[test]
fn what_is_refused_is_not_known_and_the_rest_is() {
    let meter = |config: &str| {
        let twin = twin(config);
        let meters = Meters::new(&*twin).unwrap();
        let read = meters.read().remove(0);
        drop(meters);
        clean(&twin);
        read
    };
    let page = meter("chip=ad102,fault=call:RM_USER_SHARED_DATA:NV_ERR_NOT_SUPPORTED");
    assert!(page.celsius.is_none() && page.users.is_some() && page.memory.is_some());
    let pids = "NV2080_CTRL_CMD_GPU_GET_PIDS:NV_ERR_INSUFFICIENT_PERMISSIONS";
    let pids = meter(&format!("chip=ad102,fault=call:{pids}"));
    assert!(pids.users.is_none() && pids.memory.is_some(), "{pids:?}");
    // The page of a release that is not described may be another one.
    let newer = meter("chip=h100,driver=580,says=610.43.02");
    assert!(newer.celsius.is_none() && newer.memory.is_some());
    let map = meter("chip=h100,fault=call:mmap:ENOMEM");
    assert!(map.celsius.is_none() && map.memory.is_some(), "{map:?}");

    let gone = Meters::new(&*twin("module=none")).err().unwrap();
    assert!(gone.to_string().contains("modprobe nvidia"), "{gone}");
    let twin = twin("gpus=2,fault=path:/dev/nvidia1:EACCES");
    let meters = Meters::new(&*twin).unwrap();
    let (place, why) = &meters.without[0];
    assert_eq!((meters.read().len(), place.as_str()), (1, "0000:02:00.0"));
    assert!(why.to_string().contains("permission denied"), "{why}");
}
