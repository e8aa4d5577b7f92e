//! Calls that fail because the config says so: the status or errno comes, and nothing is left behind.

use std::collections::BTreeMap;

use drivers_spec::nv::{class, control, escape, status, uvm};
use twin_nv::errno::Failure;

use super::bench::{Bench, shared};
use super::replay::{Player, number, recording};
use super::trees::Random;

#[test]
fn any_call_fails_as_it_is_told() {
    let bench = Bench::with_device("fault=call:FERMI_VASPACE_A:NV_ERR_NO_MEMORY");
    let before = bench.machine.state().handles();
    let mut params = class::VaspaceAlloc::default();
    let class = class::FERMI_VASPACE_A.number;
    let alloc = |params: &mut _| bench.alloc(bench.device, class, 0, Some(params)).0;
    assert_eq!(alloc(&mut params), status::NV_ERR_NO_MEMORY);
    assert_eq!(bench.machine.state().handles(), before);
    assert_eq!(alloc(&mut params), 0);
    assert_eq!(bench.machine.faults_fired(), 1);

    let bench = Bench::with_device("fault=call:RM_CONTROL:NV_ERR_GPU_IS_LOST:2");
    let mut boost = control::PerfBoost::default();
    let call = control::NV2080_CTRL_CMD_PERF_BOOST;
    assert_eq!(bench.control(bench.subdevice, call, &mut boost), 0);
    let lost = status::NV_ERR_GPU_IS_LOST;
    assert_eq!(bench.control(bench.subdevice, call, &mut boost), lost);

    let bench = Bench::with_device("fault=call:NV2080_CTRL_CMD_PERF_BOOST:NV_ERR_BUSY_RETRY");
    let busy = status::NV_ERR_BUSY_RETRY;
    assert_eq!(bench.control(bench.subdevice, call, &mut boost), busy);

    let bench = Bench::with_space(
        "fault=call:UVM_CREATE_EXTERNAL_RANGE:NV_ERR_NO_MEMORY;call:UVM_FREE:EIO",
    );
    assert_eq!(bench.range(0x1000, 0x1000), status::NV_ERR_NO_MEMORY);
    assert_eq!(bench.range(0x1000, 0x1000), 0);
    let failed = bench.command(bench.uvm, uvm::FREE, &mut uvm::Free::default());
    assert_eq!(failed.unwrap_err().0, libc::EIO);
    assert_eq!(bench.free_range(0x1000, 0x1000), 0);
    assert!(bench.broken().is_empty());

    let bench = Bench::with_device("fault=call:mmap:EAGAIN;call:open:EMFILE:5");
    let local = bench.local(0x1000);
    assert_eq!(bench.map_cpu(bench.gpu, local, 0, 0x1000), 0);
    let mmap = || bench.process.mmap(shared(None, 0x1000), bench.gpu, 0);
    assert!(matches!(mmap(), Err(Failure::Errno(errno)) if errno.0 == libc::EAGAIN));
    assert!(mmap().is_ok());
    assert!(bench.process.open("/dev/nvidiactl").is_err());
    assert!(bench.process.open("/dev/nvidiactl").is_ok());
}

#[test]
fn the_files_around_say_the_same() {
    let bench = Bench::new("chip=h100+gb202,driver=570");
    let read = |path: &str| {
        let fd = bench.process.open(path).unwrap();
        bench.process.read(fd).unwrap()
    };
    assert!(read("/proc/driver/nvidia/version").contains("570.211.01"));
    assert_eq!(read("/sys/bus/pci/devices/0000:02:00.0/device"), "0x2b85\n");
    assert!(read("/proc/driver/nvidia/gpus/0000:01:00.0/information").contains("H100"));
    let fd = bench.process.open("/dev").unwrap();
    let names = bench.process.list(fd).unwrap();
    assert_eq!(names, ["nvidia-uvm", "nvidia0", "nvidia1", "nvidiactl"]);
    assert!(bench.process.open("/dev/nvidia2").is_err());
    let mut cards = [0; 0x48 * 3];
    let request = 3 << 30 | (cards.len() as u32) << 16 | 0x46 << 8 | 0xc8;
    bench
        .process
        .ioctl(bench.ctl, request, super::bench::ARG)
        .unwrap();
    twin_nv::client::Memory::read(&*bench.memory, super::bench::ARG, &mut cards).unwrap();
    assert_eq!([cards[0], cards[0x48], cards[0x90]], [1, 1, 0]);
    assert_eq!(
        bench.process.ioctl(fd, request, 0).unwrap_err().0,
        libc::ENOTTY
    );
}

#[test]
fn every_call_of_a_recording_fails_once_and_leaves_nothing() {
    let events = recording("nak89_580");
    let mut counts = BTreeMap::new();
    for event in &events {
        if let Some(name) = event["ioctl"].as_str() {
            *counts.entry(name).or_insert(0) += 1;
        }
    }
    for (name, count) in counts {
        // Enough of those that come in dozens.
        for nth in (1..=count).step_by(if count > 30 { 7 } else { 1 }) {
            let fault = format!("fault=call:{name}:NV_ERR_INSUFFICIENT_RESOURCES:{nth}");
            let mut player = Player::new(&fault);
            let failed = player.play(&events);
            assert!(
                failed.iter().any(|(_, why)| why.starts_with(name)),
                "{fault}"
            );
            assert_eq!(player.machine.faults_fired(), 1, "{fault}");
            assert!(player.leaves_nothing(), "{fault}");
        }
    }
}

#[test]
fn bytes_that_are_changed_do_no_harm() {
    let events = recording("nak120");
    let calls: Vec<usize> = (0..events.len())
        .filter(|&i| !events[i]["ioctl"].is_null())
        .collect();
    let mut random = Random(7);
    for round in 0..120 {
        let mut changed = events.clone();
        for _ in 0..3 {
            let i = calls[random.below(calls.len() as u64) as usize];
            let (what, size) = match changed[i]["params_size"].as_u64() {
                Some(size) if random.below(2) == 0 => ("params", size),
                _ => ("arg", number(&changed[i]["size"])),
            };
            // Mostly where something is.
            let at = random.below(size.min(64));
            let byte = [0, 1, 0x80, 0xff, random.below(256)][random.below(5) as usize];
            let text = format!("{} {at:x}:{byte:02x}", changed[i][what].as_str().unwrap());
            changed[i][what] = text.into();
        }
        let mut player = Player::new("chip=gb202,driver=570");
        player.play(&changed);
        assert!(player.leaves_nothing(), "round {round}");
    }
}

/// Brings a client up as far as it goes: false where a call fails.
fn brings_up(bench: &Bench) -> bool {
    let fds = ["/dev/nvidiactl", "/dev/nvidia0"].map(|path| bench.process.open(path));
    let [Ok(ctl), Ok(gpu)] = fds else {
        return false;
    };
    let mut root = escape::Alloc {
        h_class: class::NV01_ROOT_CLIENT.number,
        ..Default::default()
    };
    let made = bench.escape(ctl, &escape::RM_ALLOC, &mut root).is_ok();
    let mut register = escape::RegisterFd { ctl_fd: ctl };
    made && root.status == 0
        && bench
            .escape(gpu, &escape::REGISTER_FD, &mut register)
            .is_ok()
}

#[test]
fn any_call_is_counted_whatever_it_is() {
    // Five are those of the bench: four files, of which two are of UVM, then these.
    for (failure, calls) in [("0x51", 4), ("EIO", 4)] {
        for nth in 1..=calls + 1 {
            let bench = Bench::new(&format!("fault=call:any:{failure}:{}", nth + 4));
            assert_eq!(brings_up(&bench), nth > calls, "{failure}, {nth}");
            assert_eq!(bench.machine.faults_fired(), u32::from(nth <= calls));
            bench.process.exit();
            assert_eq!(bench.process.objects(), [""; 0]);
            assert!(bench.machine.state().is_empty());
        }
    }
}

#[test]
fn what_a_process_has_is_told() {
    let bench = Bench::with_channel("fault=call:munmap:EINVAL");
    assert_eq!(bench.map_cpu(bench.gpu, bench.ring, 0, 0x1000), 0);
    let at = bench.process.mmap(shared(None, 0x1000), bench.gpu, 0);
    let at = at.unwrap();
    let all = bench.process.objects();
    let has = |what: &str| all.iter().filter(|one| one.starts_with(what)).count();
    let counts = [
        "file /dev",
        "mapping of memory",
        "NV20_SUBDEVICE_0",
        "UVM: range",
        "UVM: channel",
        "UVM: GPU 0, with",
    ];
    assert_eq!(counts.map(has), [4, 1, 1, 1, 1, 1], "{all:?}");
    assert!(bench.process.munmap(at, 0x1000).is_err());
    bench.process.munmap(at, 0x1000).unwrap();
    assert_eq!(bench.free(bench.client), 0);
    for fd in [bench.ctl, bench.gpu, bench.uvm, bench.mm] {
        assert!(!bench.process.objects().is_empty());
        bench.process.close(fd).unwrap();
    }
    assert_eq!(bench.process.objects(), [""; 0]);
    assert!(bench.broken().is_empty());
}
