//! Faults that the config asks for.

use drivers_spec::amd::kfd::{self, HsaHwExceptionData, event_type, wait_result};
use twin::fires::fires;
use twin_amd::config::Config;
use twin_amd::kernel::errno::Errno;
use twin_amd::kernel::ioctl::TABLE;
use zerocopy::{FromBytes, IntoBytes};

use crate::client::{Client, GTT, PAGE, machine, reserve, wanted};

#[test]
fn every_ioctl_fails_once_with_each_errno_that_it_has() {
    let mut pairs = 0;
    for entry in TABLE {
        let faults: Vec<String> = (1..)
            .zip(entry.errnos)
            .map(|(nth, errno)| format!("ioctl:{}:{errno}:{nth}", entry.name()))
            .collect();
        let client = Client::bare(&machine(&format!("fault={}", faults.join(";"))));
        let mut argument = vec![0u64; entry.ioctl.size().div_ceil(8)];
        let mut call = || {
            client.process.ioctl(
                client.kfd,
                entry.ioctl.request,
                argument.as_mut_ptr() as u64,
            )
        };
        for errno in entry.errnos {
            assert_eq!(call(), Err(*errno), "{}", entry.name());
            pairs += 1;
        }
    }
    assert!(pairs > 80, "{pairs}");
    assert_eq!(TABLE.len(), kfd::IOCTLS.len());
}

#[test]
fn after_a_fault_the_same_call_works() {
    let client = Client::new("fault=ioctl:ALLOC_MEMORY_OF_GPU:ENOMEM;mmap:ENOMEM;open:EACCES:4");
    let va = reserve(PAGE);
    assert_eq!(
        client.alloc_at(0, va, PAGE, GTT, 0).map(drop),
        Err(Errno::ENOMEM)
    );
    let memory = client.alloc_at(0, va, PAGE, GTT, 0).unwrap();
    assert_eq!(client.mmap(0, memory), Err(Errno::ENOMEM));
    assert_eq!(client.mmap(0, memory), Ok(va));
    // The third open: two were the client's.
    assert!(client.process.open("/dev/kfd", libc::O_RDWR).is_ok());
    assert_eq!(
        client.process.open("/dev/kfd", libc::O_RDWR),
        Err(Errno::EACCES)
    );
    assert!(client.process.open("/dev/kfd", libc::O_RDWR).is_ok());
}

#[test]
fn a_memory_fault_is_raised() {
    let client = Client::new("fault=memory:va=0x123456789:queue=1");
    let event = client.event(0, event_type::MEMORY, false).unwrap().event_id;
    let buffers = client.buffers(0);
    let mut events = [wanted(event)];
    client.create(client.queue_args(0, &buffers)).unwrap();
    assert_eq!(client.wait(&mut events, true, 0), Ok(wait_result::TIMEOUT));
    client.create(client.queue_args(0, &buffers)).unwrap();
    assert_eq!(
        client.wait(&mut events, true, 5000),
        Ok(wait_result::COMPLETE)
    );
    let data = events[0].memory_exception_data;
    assert_eq!(
        (data.va, data.failure.not_present, data.gpu_id),
        (0x1_2345_6000, 1, client.gpu_ids[0])
    );
}

#[test]
fn a_reset_is_raised() {
    let client = Client::new("fault=exception:reset");
    let event = client
        .event(0, event_type::HW_EXCEPTION, false)
        .unwrap()
        .event_id;
    let buffers = client.buffers(0);
    client.create(client.queue_args(0, &buffers)).unwrap();
    let mut events = [wanted(event)];
    assert_eq!(
        client.wait(&mut events, true, 5000),
        Ok(wait_result::COMPLETE)
    );
    let data = HsaHwExceptionData::read_from_prefix(events[0].as_bytes())
        .unwrap()
        .0;
    assert_eq!((data.memory_lost, data.gpu_id), (1, client.gpu_ids[0]));
}

#[test]
fn a_queue_that_hangs_ends_in_a_reset() {
    let client = Client::new("fault=hang:queue=0");
    let event = client
        .event(0, event_type::HW_EXCEPTION, false)
        .unwrap()
        .event_id;
    let buffers = client.buffers(0);
    let queue = client.create(client.queue_args(0, &buffers)).unwrap();
    assert_eq!(client.destroy(queue.queue_id), Err(Errno::ETIME));
    assert_eq!(
        client.wait(&mut [wanted(event)], true, 5000),
        Ok(wait_result::COMPLETE)
    );
    assert_eq!(
        client.destroy(queue.queue_id),
        Err(Errno::EINVAL),
        "it is gone all the same"
    );
}

#[test]
fn an_event_is_lost() {
    use twin_amd::gpu::Interrupt;
    let client = Client::new("fault=event:lost:2");
    let (page, event) = client.event_page();
    for expected in [
        wait_result::COMPLETE,
        wait_result::TIMEOUT,
        wait_result::COMPLETE,
    ] {
        crate::client::store(page.va + 8, 1);
        client.machine.interrupt(
            0,
            Interrupt::EndOfPipe {
                process: client.process.id(),
                context: 1,
                since: client.machine.clock(),
                bare: false,
            },
        );
        assert_eq!(
            client.wait(&mut [wanted(event.event_id)], true, 0),
            Ok(expected)
        );
    }
    assert!(client.rules().is_empty());
}

#[test]
fn a_gpu_vanishes() {
    let client = Client::new("gpus=2,fault=gone");
    let event = client
        .event(0, event_type::HW_EXCEPTION, false)
        .unwrap()
        .event_id;
    let buffers = client.buffers(0);
    let queue = client.create(client.queue_args(0, &buffers)).unwrap();
    assert_eq!(
        client.wait(&mut [wanted(event)], true, 5000),
        Ok(wait_result::COMPLETE)
    );
    let memory = client.alloc_at(0, reserve(PAGE), PAGE, GTT, 0);
    assert_eq!(memory.map(drop), Err(Errno::ENODEV));
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let page = queue.doorbell_offset & !0x1fff;
    let mapped = client
        .process
        .mmap(0, 0x2000, protection, libc::MAP_SHARED, client.kfd, page);
    assert_eq!(mapped, Err(Errno::ENODEV));
    assert_eq!(
        client.process.open("/dev/dri/renderD128", libc::O_RDWR),
        Err(Errno::ENODEV)
    );
    assert!(
        client.alloc_at(1, reserve(PAGE), PAGE, GTT, 0).is_ok(),
        "the other one is there"
    );
    client.machine.unplug(1);
    assert_eq!(client.free(buffers.ring), Err(Errno::ENODEV));
    assert_eq!(
        client.process.open("/dev/kfd", libc::O_RDWR),
        Err(Errno::ENODEV)
    );
}

#[test]
fn names_of_faults_are_checked() {
    assert!(Config::parse("fault=ioctl:AMDGPU_INFO:EINVAL").is_ok());
    assert!(Config::parse("fault=ioctl:CREATE_QUEUE:EWHAT").is_err());
    assert!(Config::parse("fault=ioctl:CREATE_QUEUE:EIO:0").is_err());
}

#[test]
fn a_path_is_refused_with_everything_below_it() {
    let nodes = "/sys/devices/virtual/kfd/kfd/topology/nodes";
    let process = machine(&format!(
        "gpus=2,target=90006,kfd=1.6,fault=path:/dev/kfd:EPERM;path:/dev/dri/renderD129:ENOENT;\
         path:{nodes}/1:EPERM"
    ))
    .attach();
    let open = |path: &str, flags| process.open(path, flags);
    assert_eq!(open("/dev/kfd", libc::O_RDWR), Err(Errno::EPERM));
    assert_eq!(
        open("/dev/dri/renderD129", libc::O_RDWR),
        Err(Errno::ENOENT)
    );
    assert!(process.exists("/dev/kfd") && !process.exists("/dev/dri/renderD129"));
    assert!(open("/dev/dri/renderD128", libc::O_RDWR).is_ok());
    let read = |node: u32, file: &str| {
        // By the link, as clients do.
        let path = format!("/sys/class/kfd/kfd/topology/nodes/{node}/{file}");
        let fd = open(&path, libc::O_RDONLY).unwrap();
        let mut text = [0; 4096];
        let n = process.read(fd, 0, &mut text)?;
        Ok(String::from_utf8_lossy(&text[..n]).into_owned())
    };
    assert_eq!(read(1, "gpu_id"), Err(Errno::EPERM));
    assert_eq!(read(1, "mem_banks/0/properties"), Err(Errno::EPERM));
    let properties = read(2, "properties").unwrap();
    assert!(
        properties.contains("gfx_target_version 90006\n"),
        "{properties}"
    );
}

#[test]
fn what_is_printed_may_go_to_a_file() {
    let log = std::env::temp_dir().join(format!("doorbell-twin-{}.log", std::process::id()));
    let client = Client::new(&format!("debug=1,log={}", log.display()));
    let fd = client.process.open("/dev/kfd", libc::O_RDWR).unwrap();
    assert_eq!(client.process.ioctl(fd, 0x8008_4b00, 0), Err(Errno::ENOTTY));
    // The client is still there, and may hang.
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    assert!(text.contains("process 1: open /dev/kfd"), "{text}");
    fires("KFD-UNKNOWN-IOCTL").only(&client.rules());
    assert_eq!(text.matches("rule KFD-UNKNOWN-IOCTL").count(), 1, "{text}");
}
