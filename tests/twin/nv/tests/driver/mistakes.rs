//! Mistakes, each in a client that makes no other: the rule that names them, and what RM says.

use drivers_spec::nv::{class, control, escape, memory, status};
use twin::fires::fires;

use super::bench::{ARG, Bench, LIST, PARAMS, PIN, RING_BYTES, errno, shared};

const CHIPS: [&str; 5] = [
    "chip=ga102,driver=535",
    "chip=ad102,driver=550",
    "chip=h100,driver=570",
    "chip=h200,driver=580",
    "chip=gb202,driver=580",
];

#[test]
fn a_driver_that_is_right_breaks_no_rule() {
    for config in CHIPS {
        let bench = Bench::with_channel(config);
        let mut token = control::WorkSubmitToken::default();
        let call = control::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN;
        assert_eq!(bench.control(bench.channel, call, &mut token), 0);
        assert_eq!(bench.schedule(bench.group), 0);
        assert!(bench.broken().is_empty(), "{config}: {:?}", bench.broken());
        let state = bench.machine.state();
        let channel = state.channels().next().unwrap();
        assert_eq!(channel.token, token.work_submit_token);
        assert!(channel.scheduled && channel.entries == 1024);
        assert_eq!(state.local_in_use(0), RING_BYTES);
    }
}

#[test]
fn escapes_have_numbers_sizes_and_files() {
    let bench = Bench::with_device("");
    let ioctl = |request| {
        bench
            .process
            .ioctl(bench.ctl, request, ARG)
            .map_err(|e| e.0)
    };
    let size = |nr: u32, size: u32| 3 << 30 | size << 16 | 0x46 << 8 | nr;
    for request in [
        size(0x2a, 0x28),
        size(0x2b, 0x21),
        size(0xee, 8),
        size(0xc8, 0x47),
    ] {
        assert_eq!(ioctl(request), Err(libc::EINVAL));
    }
    assert_eq!(
        bench.process.ioctl(bench.ctl, size(0x2a, 0x20), 0x10),
        Err(twin_nv::errno::Errno(libc::EFAULT))
    );
    fires("RM-ESCAPE-SIZE").first(&bench.broken());
    let bench = Bench::with_device("driver=570");
    let mut map = escape::MapMemoryDma::default();
    let newer = escape::ioctl(
        &escape::RM_MAP_MEMORY_DMA,
        drivers_spec::nv::abi::Branch::R580,
    );
    let done = bench.process.ioctl(bench.ctl, newer.unwrap().request, ARG);
    assert_eq!(done.unwrap_err().0, libc::EINVAL);
    fires("RM-ESCAPE-SIZE").only(&bench.broken());
    let refused = bench.escape(bench.gpu, &escape::RM_MAP_MEMORY_DMA, &mut map);
    assert_eq!(refused.unwrap_err().0, libc::EINVAL);
    let bench = Bench::with_device("");
    let mut free = escape::Free::default();
    let refused = bench.escape(bench.gpu, &escape::RM_FREE, &mut free);
    assert_eq!(refused.unwrap_err().0, libc::EINVAL);
    fires("RM-ESCAPE-FILE").only(&bench.broken());
    let bench = Bench::with_device("");
    assert_eq!(bench.pin(bench.ctl, LIST, PIN).unwrap_err().0, libc::EINVAL);
    fires("RM-ESCAPE-FILE").only(&bench.broken());
    let bench = Bench::with_device("");
    // SYS_PARAMS with another type.
    let request = 3 << 30 | 8 << 16 | 0x47 << 8 | 0xd6;
    assert!(bench.process.ioctl(bench.ctl, request, ARG).is_ok());
    fires("NV-IOCTL-TYPE").only(&bench.broken());
    let bench = Bench::with_device("");
    let mut share = escape::Share::default();
    let refused = bench.escape(bench.ctl, &escape::RM_SHARE, &mut share);
    assert_eq!(refused.unwrap_err().0, libc::EINVAL);
    fires("RM-ESCAPE-NOT-MODELLED").only(&bench.broken());
    let bench = Bench::with_device("");
    // VID_HEAP_CONTROL: the kernel has it.
    let request = 3 << 30 | 0xb8 << 16 | 0x46 << 8 | 0x4a;
    let refused = bench.process.ioctl(bench.ctl, request, ARG);
    assert_eq!(refused.unwrap_err().0, libc::EINVAL);
    fires("RM-ESCAPE-NOT-MODELLED").only(&bench.broken());
}

#[test]
fn versions_are_compared() {
    let bench = Bench::new("driver=570");
    let mut version = escape::RmApiVersion::default();
    version.version_string[..9].copy_from_slice(b"580.65.06");
    version.cmd = escape::version_check::QUERY;
    bench
        .escape(bench.ctl, &escape::CHECK_VERSION_STR, &mut version)
        .unwrap();
    assert!(version.version_string.starts_with(b"570.211.01\0"));
    version.cmd = escape::version_check::STRICT;
    bench
        .escape(bench.ctl, &escape::CHECK_VERSION_STR, &mut version)
        .unwrap();
    assert!(bench.broken().is_empty());
    version.version_string[0] = b'6';
    let refused = bench.escape(bench.ctl, &escape::CHECK_VERSION_STR, &mut version);
    assert_eq!(refused.unwrap_err().0, libc::EINVAL);
    fires("NV-VERSION").only(&bench.broken());
}

#[test]
fn files_are_registered_once() {
    for wrong in [0, 1, 2] {
        let bench = Bench::new("");
        let second = bench.process.open("/dev/nvidia0").unwrap();
        let register = |fd: i32, ctl_fd: i32| {
            let mut args = escape::RegisterFd { ctl_fd };
            bench
                .escape(fd, &escape::REGISTER_FD, &mut args)
                .map_err(|e| e.0)
        };
        let refused = match wrong {
            0 => {
                register(bench.gpu, bench.ctl).unwrap();
                register(bench.gpu, bench.ctl)
            }
            1 => register(bench.gpu, second),
            _ => register(bench.ctl, bench.ctl),
        };
        assert_eq!(refused, Err(libc::EINVAL));
        fires("RM-REGISTER-FD").only(&bench.broken());
    }
}

#[test]
fn clients_belong_to_files() {
    let mut bench = Bench::with_device("");
    let other = bench.process.open("/dev/nvidiactl").unwrap();
    let first = std::mem::replace(&mut bench.ctl, other);
    assert_eq!(bench.free(bench.device), status::NV_ERR_INVALID_CLIENT);
    fires("RM-CLIENT").only(&bench.broken());
    // Closing the file frees its clients; a duplicate of it, or a file that is registered with it, keeps it.
    let copy = bench.process.dup(first).unwrap();
    bench.process.close(first).unwrap();
    assert_eq!(bench.machine.state().handles().len(), 3);
    bench.process.close(copy).unwrap();
    assert_eq!(bench.machine.state().handles().len(), 3);
    bench.process.close(bench.gpu).unwrap();
    assert_eq!(bench.machine.state().handles().len(), 0);
    assert!(bench.process.close(bench.gpu).is_err());
}

#[test]
fn objects_have_classes_parents_and_handles() {
    let bench = Bench::with_device("chip=ga102");
    assert_eq!(bench.free(77), status::NV_ERR_OBJECT_NOT_FOUND);
    fires("RM-OBJECT").only(&bench.broken());
    let none = None::<&mut class::GrAlloc>;
    for (class, expected) in [
        (0x1234, status::NV_ERR_INVALID_CLASS),
        (
            class::HOPPER_USERMODE_A.number,
            status::NV_ERR_NOT_SUPPORTED,
        ),
    ] {
        let bench = Bench::with_device("chip=ga102");
        let (status, _) = bench.alloc(bench.subdevice, class, 0, None::<&mut class::GrAlloc>);
        assert_eq!(status, expected);
        fires("RM-CLASS").only(&bench.broken());
    }
    let bench = Bench::with_device("");
    let pinned = class::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR.number;
    let mut params = class::OsDescAlloc::default();
    let (status, _) = bench.alloc(bench.device, pinned, 0, Some(&mut params));
    assert_eq!(status, status::NV_ERR_NOT_SUPPORTED);
    fires("RM-CLASS-NOT-MODELLED").only(&bench.broken());
    let bench = Bench::with_device("");
    let usermode = class::TURING_USERMODE_A;
    let (status, _) = bench.alloc(bench.device, usermode.number, 0, none);
    assert_eq!(status, status::NV_ERR_INVALID_OBJECT_PARENT);
    fires("RM-PARENT").only(&bench.broken());
    for (handle, expected) in [
        (bench.client, status::NV_ERR_INVALID_OBJECT_HANDLE),
        (bench.device, status::NV_ERR_INSERT_DUPLICATE_NAME),
    ] {
        let bench = Bench::with_device("");
        let mut params = class::Nv2080Alloc::default();
        let class = class::NV20_SUBDEVICE_0.number;
        let (status, _) = bench.alloc(bench.device, class, handle, Some(&mut params));
        assert_eq!(status, expected);
        fires("RM-HANDLE").only(&bench.broken());
    }
    let bench = Bench::with_device("");
    let class = class::FERMI_VASPACE_A.number;
    let (status, _) = bench.alloc(bench.device, class, 0, None::<&mut class::GrAlloc>);
    assert_eq!(status, status::NV_ERR_INVALID_ARGUMENT);
    fires("RM-ALLOC-PARAMS").only(&bench.broken());
    let bench = Bench::with_device("");
    let mut short = class::GrAlloc::default();
    bench.alloc(
        bench.device,
        class::NV20_SUBDEVICE_0.number,
        0,
        Some(&mut short),
    );
    fires("RM-ALLOC-SIZE").only(&bench.broken());
}

#[test]
fn devices_are_of_gpus_that_are_open() {
    for (id, expected) in [
        (1, status::NV_ERR_INVALID_STATE),
        (32, status::NV_ERR_INVALID_ARGUMENT),
    ] {
        let bench = Bench::with_device("");
        let mut params = class::Nv0080Alloc {
            device_id: id,
            ..Default::default()
        };
        let class = class::NV01_DEVICE_0.number;
        let (status, _) = bench.alloc(bench.client, class, 0, Some(&mut params));
        assert_eq!(status, expected);
        fires("RM-DEVICE").only(&bench.broken());
    }
    let bench = Bench::with_device("");
    let mut params = class::Nv2080Alloc { sub_device_id: 1 };
    let class = class::NV20_SUBDEVICE_0.number;
    let (status, _) = bench.alloc(bench.device, class, 0, Some(&mut params));
    assert_eq!(status, status::NV_ERR_INVALID_CLASS);
    fires("RM-DEVICE").only(&bench.broken());
    let bench = Bench::with_device("gpus=2");
    let mut params = class::Nv0080Alloc {
        device_id: 1,
        ..Default::default()
    };
    let class = class::NV01_DEVICE_0.number;
    let (status, _) = bench.alloc(bench.client, class, 0, Some(&mut params));
    assert_eq!(status, status::NV_ERR_INSUFFICIENT_PERMISSIONS);
    fires("RM-DEVICE-OPEN").only(&bench.broken());
}

#[test]
fn address_spaces_have_ranges_and_flags() {
    for wrong in 0..4 {
        let bench = Bench::with_device("");
        let mut params = class::VaspaceAlloc::default();
        match wrong {
            0 => params.big_page_size = 0x1000,
            1 => (params.va_base, params.va_size) = (u64::MAX, 0x1000),
            2 => params.flags = 1 << 31,
            _ => params.index = 2,
        }
        let class = class::FERMI_VASPACE_A.number;
        let (status, _) = bench.alloc(bench.device, class, 0, Some(&mut params));
        assert_eq!(status, status::NV_ERR_INVALID_ARGUMENT);
        fires("RM-VASPACE").only(&bench.broken());
    }
}

#[test]
fn memory_is_what_its_class_says() {
    for (wrong, expected) in [
        (0, status::NV_ERR_INVALID_ARGUMENT),
        (1, status::NV_ERR_INVALID_OWNER),
        (2, status::NV_ERR_INVALID_ARGUMENT),
        (3, status::NV_ERR_INVALID_ARGUMENT),
        (4, status::NV_ERR_INVALID_ARGUMENT),
    ] {
        let bench = Bench::with_device("");
        let mut params = bench.local_params(0x1000);
        match wrong {
            0 => params.size = 0,
            1 => params.owner = 0,
            2 => params.attr = memory::attr::LOCATION.put(memory::attr::LOCATION_PCI),
            3 => params.range_hi = 0x1000,
            _ => params.internalflags = 1,
        }
        let class = class::NV01_MEMORY_LOCAL_USER.number;
        let (status, _) = bench.alloc(bench.device, class, 0, Some(&mut params));
        assert_eq!(status, expected);
        fires("RM-MEMORY").only(&bench.broken());
    }
    let bench = Bench::with_device("chip=h200");
    let all = 141 << 30;
    let first = bench.local(all - 0x1000);
    let mut params = bench.local_params(0x1001);
    let class = class::NV01_MEMORY_LOCAL_USER.number;
    let (status, _) = bench.alloc(bench.device, class, 0, Some(&mut params));
    assert_eq!(status, status::NV_ERR_NO_MEMORY);
    fires("RM-MEMORY-FULL").only(&bench.broken());
    assert_eq!(bench.free(first), 0);
    assert_eq!(bench.machine.state().local_in_use(0), 0);
    bench.local(all);
}

#[test]
fn pinned_memory_is_there() {
    for (at, flags, expected) in [
        (LIST + 8, PIN, status::NV_ERR_NOT_SUPPORTED),
        (0x5000_0000, PIN, status::NV_ERR_INVALID_ADDRESS),
        (LIST, PIN & !(3 << 30), status::NV_ERR_INVALID_FLAGS),
        (LIST, PIN | 2 << 8, status::NV_ERR_INVALID_FLAGS),
        (LIST, PIN | 3 << 12, status::NV_ERR_INVALID_FLAGS),
    ] {
        let bench = Bench::with_device("");
        assert_eq!(bench.pin(bench.gpu, at, flags).unwrap().0, expected);
        fires("RM-OS-DESCRIPTOR").only(&bench.broken());
    }
}

#[test]
fn memory_is_mapped_for_the_cpu_by_files_of_its_own() {
    let bench = Bench::with_device("");
    let local = bench.local(0x1_0000);
    let open = |path: &str| bench.process.open(path).unwrap();
    let fresh = open("/dev/nvidia0");
    for (offset, length, expected) in [
        (0x1_0000, 0x1000, status::NV_ERR_INVALID_BASE),
        (0, 0, status::NV_ERR_INVALID_LIMIT),
        (0x1000, 0x1_0000, status::NV_ERR_INVALID_LIMIT),
    ] {
        assert_eq!(bench.map_cpu(fresh, local, offset, length), expected);
    }
    fires("RM-MAP-RANGE").first(&bench.broken());

    let bench = Bench::with_device("");
    let (local, system) = (bench.local(0x1_0000), bench.system(0x1000));
    let open = |path: &str| bench.process.open(path).unwrap();
    let fresh = open("/dev/nvidia0");
    assert_eq!(bench.map_cpu(fresh, local, 0, 0x1_0000), 0);
    let mmap = |fd, bytes, offset| {
        bench
            .process
            .mmap(shared(None, bytes), fd, offset)
            .map_err(errno)
    };
    let at = mmap(fresh, 0x1_0000, 0).unwrap();
    bench.process.close(fresh).unwrap();
    assert_eq!(bench.process.mapped()[0].0, at);
    bench.process.munmap(at, 0x1_0000).unwrap();
    let control = open("/dev/nvidiactl");
    assert_eq!(bench.map_cpu(control, system, 0, 0x1000), 0);
    assert!(bench.broken().is_empty());
    assert_eq!(
        bench.map_cpu(control, system, 0, 0x1000),
        status::NV_ERR_STATE_IN_USE
    );
    fires("RM-MAP-FILE").only(&bench.broken());

    for (wrong, memory) in [("/dev/nvidiactl", local), ("/dev/nvidia0", system)] {
        let bench = Bench::with_device("");
        assert_eq!(
            (bench.local(0x1_0000), bench.system(0x1000)),
            (local, system)
        );
        let fd = bench.process.open(wrong).unwrap();
        let refused = bench.map_cpu(fd, memory, 0, 0x1000);
        assert_eq!(refused, status::NV_ERR_INVALID_ARGUMENT);
        fires("RM-MAP-FILE").only(&bench.broken());
    }

    let bench = Bench::with_device("");
    let mmap = |fd, bytes, offset| {
        bench
            .process
            .mmap(shared(None, bytes), fd, offset)
            .map_err(errno)
    };
    assert_eq!(mmap(bench.gpu, 0x1000, 0), Err(libc::EINVAL));
    fires("NV-MMAP-CONTEXT").only(&bench.broken());
    let bench = Bench::with_device("");
    let mmap = |fd, bytes, offset| {
        bench
            .process
            .mmap(shared(None, bytes), fd, offset)
            .map_err(errno)
    };
    let local = bench.local(0x1_0000);
    assert_eq!(bench.map_cpu(bench.gpu, local, 0, 0x2000), 0);
    assert_eq!(mmap(bench.gpu, 0x2000, 0x1000), Err(libc::EINVAL));
    assert_eq!(mmap(bench.gpu, 0x1000, 0), Err(libc::ENXIO));
    fires("NV-MMAP-RANGE").first(&bench.broken());
}

/// Maps memory for the GPU by RM.
fn map_dma(bench: &Bench, range: u32, memory: u32, length: u64, at: u64) -> (u32, u64) {
    let mut args = escape::MapMemoryDma {
        h_client: bench.client,
        h_device: bench.device,
        h_dma: range,
        h_memory: memory,
        length,
        flags: memory::map_dma_flags::DMA_OFFSET_FIXED.put(u32::from(at != 0)),
        dma_offset: at,
        ..Default::default()
    };
    bench
        .escape(bench.ctl, &escape::RM_MAP_MEMORY_DMA, &mut args)
        .unwrap();
    (args.status, args.dma_offset)
}

#[test]
fn rm_maps_in_ranges_of_its_own() {
    let bench = Bench::with_device("");
    let all = || class::MemoryVirtualAlloc {
        limit: 1 << 40,
        ..Default::default()
    };
    let range = bench.must(bench.device, class::NV01_MEMORY_VIRTUAL, Some(&mut all()));
    let local = bench.local(0x1_0000);
    let (status, at) = map_dma(&bench, range, local, 0x1_0000, 0x20_0000);
    assert_eq!((status, at), (0, 0x20_0000));
    let (status, at) = map_dma(&bench, range, local, 0x1_0000, 0);
    assert_eq!((status, at % 0x1_0000), (0, 0));
    let mut unmap = escape::UnmapMemoryDma {
        h_client: bench.client,
        h_device: bench.device,
        h_dma: range,
        h_memory: local,
        dma_offset: at,
        ..Default::default()
    };
    bench
        .escape(bench.ctl, &escape::RM_UNMAP_MEMORY_DMA, &mut unmap)
        .unwrap();
    assert_eq!((unmap.status, bench.broken().len()), (0, 0));
    bench
        .escape(bench.ctl, &escape::RM_UNMAP_MEMORY_DMA, &mut unmap)
        .unwrap();
    assert_eq!(unmap.status, status::NV_ERR_INVALID_OBJECT_HANDLE);
    fires("RM-MAP-DMA").only(&bench.broken());
    // What is freed is mapped no more.
    assert_eq!(
        map_dma(&bench, range, local, 0x1000, 0x20_0000).0,
        status::NV_ERR_NO_MEMORY
    );
    assert_eq!(bench.free(local), 0);
    let second = bench.local(0x1000);
    assert_eq!(map_dma(&bench, range, second, 0x1000, 0x20_0000).0, 0);
    let wrong = map_dma(&bench, local, second, 0x1000, 0).0;
    assert_eq!(wrong, status::NV_ERR_OBJECT_NOT_FOUND);
    let wrong = map_dma(&bench, bench.device, second, 0x1000, 0).0;
    assert_eq!(wrong, status::NV_ERR_INVALID_OBJECT_HANDLE);

    let bench = Bench::with_space("");
    let mut external = class::MemoryVirtualAlloc {
        h_va_space: bench.space,
        ..all()
    };
    let range = bench.must(
        bench.device,
        class::NV01_MEMORY_VIRTUAL,
        Some(&mut external),
    );
    let local = bench.local(0x1000);
    let (status, _) = map_dma(&bench, range, local, 0x1000, 0);
    assert_eq!(status, status::NV_ERR_NOT_SUPPORTED);
    fires("RM-MAP-DMA-EXTERNAL").only(&bench.broken());
}

#[test]
fn controls_are_asked_of_their_class_with_their_size() {
    let bench = Bench::with_device("");
    let unsupported = status::NV_ERR_NOT_SUPPORTED;
    assert_eq!(
        bench.control_of(bench.subdevice, 0x2080_ffff, 4),
        unsupported
    );
    fires("RM-CONTROL-NOT-MODELLED").only(&bench.broken());
    let bench = Bench::with_device("");
    let mut boost = control::PerfBoost::default();
    let call = control::NV2080_CTRL_CMD_PERF_BOOST;
    assert_eq!(bench.control(bench.device, call, &mut boost), unsupported);
    fires("RM-CONTROL-CLASS").only(&bench.broken());
    let bench = Bench::with_device("");
    let refused = bench.control_of(bench.subdevice, call.number, 12);
    assert_eq!(refused, status::NV_ERR_INVALID_PARAM_STRUCT);
    fires("RM-CONTROL-SIZE").only(&bench.broken());
    let bench = Bench::with_device("");
    boost.flags = 3;
    let refused = bench.control(bench.subdevice, call, &mut boost);
    assert_eq!(refused, status::NV_ERR_INVALID_ARGUMENT);
    fires("RM-CONTROL-VALUE").only(&bench.broken());
    for (config, entries) in [("driver=550", 174), ("driver=580", 200)] {
        let bench = Bench::with_device(config);
        let mut list = control::ClassListV2::default();
        let call = control::NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2;
        assert_eq!(bench.control(bench.device, call, &mut list), 0);
        let classes = &list.class_list[..list.num_classes as usize];
        assert!(classes.len() < entries && classes.contains(&class::ADA_COMPUTE_A.number));
    }
    let bench = Bench::with_device("chip=h100");
    let mut list = control::ClassList {
        class_list: LIST,
        num_classes: 3,
        ..Default::default()
    };
    let call = control::NV0080_CTRL_CMD_GPU_GET_CLASSLIST;
    let refused = bench.control(bench.device, call, &mut list);
    assert_eq!(refused, status::NV_ERR_INVALID_ARGUMENT);
    fires("RM-CONTROL-VALUE").only(&bench.broken());
    list.class_list = 0;
    assert_eq!(bench.control(bench.device, call, &mut list), 0);
    list.class_list = LIST;
    assert_eq!(bench.control(bench.device, call, &mut list), 0);
    let mut gpu = control::GrGpcMask::default();
    let call = control::NV2080_CTRL_CMD_GR_GET_GPC_MASK;
    assert_eq!(bench.control(bench.subdevice, call, &mut gpu), 0);
    assert_eq!(gpu.gpc_mask, 0xff);
    assert_eq!(PARAMS % 4096, 0);
}
