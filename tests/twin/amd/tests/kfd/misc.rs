//! Versions, clocks, apertures, policies, modes; how arguments are copied.

use drivers_spec::amd::kfd::{self, RuntimeMode, cache_policy};
use twin::fires::fires;
use twin_amd::kernel::errno::Errno;

use crate::client::Client;

#[test]
fn versions_are_those_of_the_kernel() {
    for (config, minor) in [("", 17), ("kernel=6.8", 15)] {
        let mut args = kfd::GetVersionArgs::default();
        Client::new(config)
            .call(kfd::GET_VERSION, &mut args)
            .unwrap();
        assert_eq!((args.major_version, args.minor_version), (1, minor));
    }
}

#[test]
fn arguments_are_copied_as_the_request_says() {
    let client = Client::new("");
    let ioctl = |request: u32, argument| client.process.ioctl(client.kfd, request, argument);
    let mut args = [0u32; 4];
    let address = args.as_mut_ptr() as u64;
    // A client of an older header: 4 bytes of the 8.
    ioctl(0x8004_4b01, address).unwrap();
    assert_eq!(args, [1, 0, 0, 0]);
    // A client of a newer header: what this kernel does not know comes back as zero.
    args = [9; 4];
    ioctl(0x8010_4b01, address).unwrap();
    assert_eq!(args, [1, 17, 0, 0]);
    assert_eq!(ioctl(kfd::GET_VERSION.request, 8), Err(Errno::EFAULT));
    assert!(client.rules().is_empty());
    let mut newer = [0u32, 0, 1, 0];
    assert_eq!(
        ioctl(0x4010_4b09, newer.as_mut_ptr() as u64),
        Err(Errno::EINVAL),
        "DESTROY_EVENT"
    );
    fires("KFD-ARGUMENT-SIZE").only(&client.rules());
    // DBG_TRAP of AMD's driver that is not in Linux: a question, and no mistake.
    assert_eq!(ioctl(0xc020_4b82, address), Err(Errno::ENOTTY));
    assert_eq!(client.rules().len(), 1);
    assert_eq!(ioctl(0x8008_4b27, address), Err(Errno::ENOTTY));
    assert_eq!(ioctl(0x8008_4b00, address), Err(Errno::ENOTTY));
    assert_eq!(client.rules().len(), 3);
    for rule in &client.rules()[1..] {
        fires("KFD-UNKNOWN-IOCTL").only(&[rule]);
    }
    ioctl(0x8008_0001, address).unwrap();
    fires("KFD-IOCTL-TYPE").only(&client.rules()[3..]);
    assert_eq!(
        client.process.ioctl(7, kfd::GET_VERSION.request, address),
        Err(Errno::EBADF)
    );
    let file = client
        .process
        .open("/sys/module/amdgpu/initstate", 0)
        .unwrap();
    assert_eq!(
        client
            .process
            .ioctl(file, kfd::GET_VERSION.request, address),
        Err(Errno::ENOTTY)
    );
}

#[test]
fn apertures_of_every_gpu() {
    let client = Client::new("gpus=2");
    let mut args = kfd::GetProcessAperturesNewArgs::default();
    client
        .call(kfd::GET_PROCESS_APERTURES_NEW, &mut args)
        .unwrap();
    assert_eq!(args.num_of_nodes, 2);
    let mut all = [kfd::ProcessDeviceApertures::default(); 3];
    args = kfd::GetProcessAperturesNewArgs {
        kfd_process_device_apertures_ptr: all.as_mut_ptr() as u64,
        num_of_nodes: 3,
        pad: 0,
    };
    client
        .call(kfd::GET_PROCESS_APERTURES_NEW, &mut args)
        .unwrap();
    assert_eq!(args.num_of_nodes, 2);
    assert_eq!(
        [all[0].gpu_id, all[1].gpu_id, all[2].gpu_id],
        [client.gpu_ids[0], client.gpu_ids[1], 0]
    );
    assert_eq!(
        (all[0].lds_base, all[0].scratch_base >> 32),
        (1 << 48, 0x20000)
    );
    args.kfd_process_device_apertures_ptr = 8;
    assert_eq!(
        client.call(kfd::GET_PROCESS_APERTURES_NEW, &mut args),
        Err(Errno::EFAULT)
    );
    let mut old = kfd::GetProcessAperturesArgs::default();
    client.call(kfd::GET_PROCESS_APERTURES, &mut old).unwrap();
    assert_eq!((old.num_of_nodes, old.process_apertures[1]), (2, all[1]));
}

#[test]
fn clocks_go_forward() {
    let client = Client::new("");
    let read = |gpu_id| {
        let mut args = kfd::GetClockCountersArgs {
            gpu_id,
            ..Default::default()
        };
        client.call(kfd::GET_CLOCK_COUNTERS, &mut args).unwrap();
        args
    };
    let (first, second) = (read(client.gpu_ids[0]), read(client.gpu_ids[0]));
    assert!(second.gpu_clock_counter >= first.gpu_clock_counter && first.gpu_clock_counter > 0);
    assert!(second.cpu_clock_counter > first.cpu_clock_counter);
    assert_eq!(first.system_clock_freq, 1_000_000_000);
    assert_eq!(read(0).gpu_clock_counter, 0, "a node without a GPU");
}

#[test]
fn policies_and_addresses() {
    let client = Client::new("");
    let bare = Client::bare(&client.machine);
    let gpu_id = client.gpu_ids[0];
    let policy = |client: &Client, gpu_id, default_policy, alternate_policy| {
        let mut args = kfd::SetMemoryPolicyArgs {
            gpu_id,
            default_policy,
            alternate_policy,
            ..Default::default()
        };
        client.call(kfd::SET_MEMORY_POLICY, &mut args)
    };
    let (coherent, not) = (cache_policy::COHERENT, cache_policy::NONCOHERENT);
    assert_eq!(policy(&client, gpu_id, coherent, not), Ok(()));
    assert_eq!(policy(&client, gpu_id, 2, not), Err(Errno::EINVAL));
    assert_eq!(policy(&client, gpu_id, coherent, 2), Err(Errno::EINVAL));
    assert_eq!(policy(&client, 1, coherent, not), Err(Errno::EINVAL));
    assert_eq!(policy(&bare, gpu_id, coherent, not), Err(Errno::ESRCH));
    let scratch = |client: &Client, gpu_id| {
        client.call(
            kfd::SET_SCRATCH_BACKING_VA,
            &mut kfd::SetScratchBackingVaArgs {
                gpu_id,
                ..Default::default()
            },
        )
    };
    assert_eq!(scratch(&client, gpu_id), Ok(()));
    assert_eq!(
        (scratch(&client, 1), scratch(&bare, gpu_id)),
        (Err(Errno::EINVAL), Err(Errno::ENODEV))
    );
    let trap = |client: &Client, gpu_id| {
        client.call(
            kfd::SET_TRAP_HANDLER,
            &mut kfd::SetTrapHandlerArgs {
                gpu_id,
                ..Default::default()
            },
        )
    };
    assert_eq!(trap(&client, gpu_id), Ok(()));
    assert_eq!(
        (trap(&client, 1), trap(&bare, gpu_id)),
        (Err(Errno::EINVAL), Err(Errno::ESRCH))
    );
    let mut tiles = [1u32; 40];
    let tile_config_ptr = tiles.as_mut_ptr() as u64;
    let mut args = kfd::GetTileConfigArgs {
        tile_config_ptr,
        macro_tile_config_ptr: tile_config_ptr,
        num_tile_configs: 99,
        num_macro_tile_configs: 4,
        gpu_id,
        ..Default::default()
    };
    client.call(kfd::GET_TILE_CONFIG, &mut args).unwrap();
    assert_eq!(
        (
            args.num_tile_configs,
            args.num_macro_tile_configs,
            tiles[31],
            tiles[32]
        ),
        (32, 4, 0, 1)
    );
    args.macro_tile_config_ptr = 8;
    assert_eq!(
        client.call(kfd::GET_TILE_CONFIG, &mut args),
        Err(Errno::EFAULT)
    );
    assert_eq!(args.num_macro_tile_configs, 0);
    args.gpu_id = 1;
    assert_eq!(
        client.call(kfd::GET_TILE_CONFIG, &mut args),
        Err(Errno::EINVAL)
    );
}

#[test]
fn modes_are_set_before_queues() {
    for (chip, xnack_on) in [("gfx1100", Err(Errno::EPERM)), ("gfx942", Ok(1))] {
        let client = Client::new(&format!("chip={chip}"));
        let xnack = |xnack_enabled| {
            let mut args = kfd::SetXnackModeArgs { xnack_enabled };
            client
                .call(kfd::SET_XNACK_MODE, &mut args)
                .map(|()| args.xnack_enabled)
        };
        assert_eq!((xnack(-1), xnack(0), xnack(1)), (Ok(0), Ok(0), xnack_on));
        let enable = |mode_mask| {
            client.call(
                kfd::RUNTIME_ENABLE,
                &mut kfd::RuntimeEnableArgs {
                    mode_mask,
                    ..Default::default()
                },
            )
        };
        assert_eq!(
            (
                enable(RuntimeMode::ENABLE.bits()),
                enable(RuntimeMode::ENABLE.bits())
            ),
            (Ok(()), Err(Errno::EBUSY))
        );
        assert_eq!((enable(0), enable(0)), (Ok(()), Ok(())));
        let buffers = client.buffers(0);
        client.create(client.queue_args(0, &buffers)).unwrap();
        assert_eq!(enable(RuntimeMode::ENABLE.bits()), Err(Errno::EEXIST));
        assert_eq!((xnack(0), xnack(-1).is_ok()), (Err(Errno::EBUSY), true));
    }
}

#[test]
fn what_is_never_allowed() {
    let client = Client::new("");
    let mut register = kfd::DbgRegisterArgs::default();
    let mut unregister = kfd::DbgUnregisterArgs::default();
    assert_eq!(
        client.call(kfd::DBG_REGISTER_DEPRECATED, &mut register),
        Err(Errno::EPERM)
    );
    assert_eq!(
        client.call(kfd::DBG_UNREGISTER_DEPRECATED, &mut unregister),
        Err(Errno::EPERM)
    );
    let mut watch = kfd::DbgAddressWatchArgs::default();
    let mut control = kfd::DbgWaveControlArgs::default();
    assert_eq!(
        client.call(kfd::DBG_ADDRESS_WATCH_DEPRECATED, &mut watch),
        Err(Errno::EPERM)
    );
    assert_eq!(
        client.call(kfd::DBG_WAVE_CONTROL_DEPRECATED, &mut control),
        Err(Errno::EPERM)
    );
    assert_eq!(
        client.call(kfd::CRIU_OP, &mut kfd::CriuArgs::default()),
        Err(Errno::EACCES)
    );
    let trap = |pid, op| {
        client.call(
            kfd::DBG_TRAP,
            &mut kfd::DbgTrapArgs {
                pid,
                op,
                ..Default::default()
            },
        )
    };
    assert_eq!(trap(0, 0), Err(Errno::ESRCH));
    assert_eq!(trap(std::process::id(), 5), Err(Errno::EINVAL));
    assert!(client.rules().is_empty());
    assert_eq!(trap(std::process::id(), 0), Err(Errno::EPERM));
    fires("KFD-NOT-MODELLED").only(&client.rules());
}

#[test]
fn management_events_never_come() {
    let client = Client::new("");
    let mut args = kfd::SmiEventsArgs {
        gpuid: client.gpu_ids[0],
        anon_fd: 0,
    };
    client.call(kfd::SMI_EVENTS, &mut args).unwrap();
    assert_eq!(
        client.process.read(args.anon_fd as i32, 0, &mut [0; 8]),
        Err(Errno::EAGAIN)
    );
    args.gpuid = 1;
    assert_eq!(client.call(kfd::SMI_EVENTS, &mut args), Err(Errno::EINVAL));
}

#[test]
fn files_open_read_and_close() {
    let client = Client::new("");
    let process = &client.process;
    assert!(process.exists("/dev/kfd") && !process.exists("/dev/kfd2"));
    assert_eq!(process.open("/etc/passwd", 0), Err(Errno::ENOENT));
    let nodes = "/sys/devices/virtual/kfd/kfd/topology/nodes";
    assert_eq!(process.open(nodes, libc::O_RDWR), Err(Errno::EISDIR));
    let gpu_id = format!("{nodes}/1/gpu_id");
    assert_eq!(process.open(&gpu_id, libc::O_WRONLY), Err(Errno::EACCES));
    assert_eq!(
        process.open(&gpu_id, libc::O_DIRECTORY),
        Err(Errno::ENOTDIR)
    );
    let folder = process.open(nodes, libc::O_DIRECTORY).unwrap();
    assert_eq!(process.readdir(folder).unwrap(), ["0", "1"]);
    assert_eq!(process.read(folder, 0, &mut [0]), Err(Errno::EISDIR));
    let file = process.open(&gpu_id, 0).unwrap();
    assert!(file > folder && folder >= 1 << 30);
    assert_eq!(process.readdir(file), Err(Errno::ENOTDIR));
    let mut text = [0; 32];
    let length = process.read(file, 1, &mut text).unwrap();
    assert_eq!(
        format!("{}\n", client.gpu_ids[0]).as_bytes()[1..],
        text[..length]
    );
    assert_eq!(process.read(file, 99, &mut text), Ok(0));
    assert_eq!(process.read(client.kfd, 0, &mut text), Err(Errno::EINVAL));
    process.close(folder).unwrap();
    assert_eq!(process.close(folder), Err(Errno::EBADF));
    assert_eq!(
        process.open(&gpu_id, 0),
        Ok(folder),
        "the smallest that is free"
    );
}
