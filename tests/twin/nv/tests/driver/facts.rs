//! What NVIDIA's own user-mode driver asks and no smaller client does.

use drivers_spec::nv::control::{self, gr_info};
use drivers_spec::nv::query::{self, compute_mode};
use drivers_spec::nv::{class, escape, status, uvm};
use twin::fires::fires;
use twin_nv::client::Memory;
use twin_nv::space::Access;

use super::bench::{ARG, Bench, LIST, PARAMS, RING, shared};

/// Where a pool is.
const POOL: u64 = 0x2_0640_0000;

fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap();
    std::str::from_utf8(&bytes[..end]).unwrap()
}

#[test]
fn a_gpu_says_what_it_is() {
    for (config, name, sms, words) in [
        ("chip=ad102,driver=550", "NVIDIA GeForce RTX 4090", 128, 6),
        ("chip=h100,driver=580", "NVIDIA H100 80GB HBM3", 132, 9),
    ] {
        let bench = Bench::with_device(config);
        let mut named = query::NameString::default();
        let call = control::NV2080_CTRL_CMD_GPU_GET_NAME_STRING;
        assert_eq!(bench.control(bench.subdevice, call, &mut named), 0);
        assert_eq!(text(&named.gpu_name_string), name);
        let mut order = query::GlobalSmOrder::default();
        let call = control::NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER;
        assert_eq!(bench.control(bench.subdevice, call, &mut order), 0);
        assert_eq!((order.num_sm, order.num_tpc), (sms, sms / 2));
        // Each SM is another one, and none is in a TPC that is off.
        let rows = order.global_sm_id.chunks(words).take(sms as usize);
        let mut seen: Vec<&[u16]> = rows.map(|row| &row[..3]).collect();
        let tpcs = bench.machine.config.chips[0].tpcs;
        assert!(
            seen.iter()
                .all(|row| u32::from(row[1]) < tpcs[row[0] as usize])
        );
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), sms as usize);
        let mut units = control::GrGetInfoV2 {
            gr_info_list_size: 3,
            ..Default::default()
        };
        let asked = [
            gr_info::SHADER_PIPE_SUB_COUNT,
            gr_info::GPU_CORE_COUNT,
            gr_info::MAX_THREADS_PER_WARP,
        ];
        for (info, index) in units.gr_info_list.iter_mut().zip(asked) {
            info.index = index;
        }
        let call = control::NV2080_CTRL_CMD_GR_GET_INFO_V2;
        assert_eq!(bench.control(bench.subdevice, call, &mut units), 0);
        let found = units.gr_info_list.map(|info| info.data);
        let cores = u32::from(sms) * 128;
        assert_eq!(found[..3], [u32::from(sms / 2), cores, 32]);
        assert!(bench.broken().is_empty());
        units.gr_info_list[0].index = 58;
        let refused = bench.control(bench.subdevice, call, &mut units);
        assert_eq!(refused, status::NV_ERR_NOT_SUPPORTED);
        fires("RM-CONTROL-NOT-MODELLED").only(&bench.broken());
    }
}

#[test]
fn a_driver_says_which_it_is() {
    let bench = Bench::with_device("driver=550");
    let mut version = query::BuildVersionOld::default();
    let call = control::NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION;
    assert_eq!(bench.control(bench.client, call, &mut version), 0);
    let longest = version.size_of_strings;
    version.driver_version_buffer = LIST;
    version.version_buffer = LIST + 0x100;
    version.title_buffer = LIST + 0x200;
    assert_eq!(bench.control(bench.client, call, &mut version), 0);
    let mut found = [0; 11];
    bench.memory.read(LIST, &mut found).unwrap();
    assert_eq!(&found, b"550.163.01\0");
    version.size_of_strings = longest - 1;
    let refused = bench.control(bench.client, call, &mut version);
    assert_eq!(refused, status::NV_ERR_INVALID_PARAM_STRUCT);
    fires("RM-CONTROL-VALUE").only(&bench.broken());
    let bench = Bench::with_device("driver=550");
    let mut numa = escape::NumaInfo::default();
    bench
        .escape(bench.gpu, &escape::NUMA_INFO, &mut numa)
        .unwrap();
    assert_eq!((numa.nid, numa.status), (-1, 0));
    let refused = bench.escape(bench.ctl, &escape::NUMA_INFO, &mut numa);
    assert_eq!(refused.unwrap_err().0, libc::EINVAL);
    fires("RM-ESCAPE-FILE").only(&bench.broken());
}

/// Who reserves GPUs of a machine: what each of these statuses is.
#[test]
fn a_gpu_is_reserved_by_one_client() {
    const ACQUIRE: u32 = control::ACQUIRE_COMPUTE_MODE_RESERVATION.number;
    const IN_USE: u32 = status::NV_ERR_STATE_IN_USE;
    for (config, rules, first, again) in [
        ("compute=shared", compute_mode::NONE, 0, 0),
        (
            "compute=exclusive",
            compute_mode::EXCLUSIVE_COMPUTE_PROCESS,
            0,
            IN_USE,
        ),
        (
            "compute=taken",
            compute_mode::EXCLUSIVE_COMPUTE_PROCESS,
            IN_USE,
            IN_USE,
        ),
        (
            "compute=prohibited",
            compute_mode::COMPUTE_PROHIBITED,
            IN_USE,
            IN_USE,
        ),
    ] {
        let bench = Bench::with_device(config);
        let mut params = query::ComputeModeRules::default();
        let ask = control::NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES;
        assert_eq!(bench.control(bench.subdevice, ask, &mut params), 0);
        assert_eq!(params.rules, rules);
        let reserve = |cmd| bench.control_of(bench.subdevice, cmd, 0);
        assert_eq!(
            (reserve(ACQUIRE), reserve(ACQUIRE)),
            (first, again),
            "{config}"
        );
        assert_eq!(reserve(ACQUIRE + 1), first, "{config}");
        assert_eq!(reserve(ACQUIRE + 1), IN_USE, "{config}");
        assert!(bench.broken().is_empty());
    }
}

#[test]
fn controls_without_a_name_have_a_size() {
    let bench = Bench::with_device("driver=550");
    bench.memory.write(PARAMS, &[0; 992]).unwrap();
    assert_eq!(bench.control_of(bench.subdevice, 0x2080_8159, 332), 0);
    let object = bench.must::<class::BinapiAlloc>(bench.subdevice, class::NV2081_BINAPI, None);
    assert_eq!(bench.control_of(object, 0x2081_0108, 992), 0);
    assert!(bench.broken().is_empty());
    let refused = bench.control_of(object, 0x2081_0108, 991);
    assert_eq!(refused, status::NV_ERR_INVALID_PARAM_STRUCT);
    fires("RM-CONTROL-UNPUBLISHED").only(&bench.broken());
}

#[test]
fn objects_say_what_mapping_them_maps() {
    let bench = Bench::with_device("");
    let usermode = bench.machine.config.chips[0].facts().usermode;
    let usermode = bench.must::<class::UsermodeAlloc>(bench.subdevice, usermode, None);
    let call = control::NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE;
    let (local, system) = (bench.local(0x1000), bench.system(0x1000));
    for (object, expected) in [(system, 1), (local, 2), (usermode, 3)] {
        let mut params = query::AddrSpaceType {
            h_object: object,
            ..Default::default()
        };
        assert_eq!(bench.control(bench.client, call, &mut params), 0);
        assert_eq!(params.addr_space_type, expected);
    }
    let mut params = query::AddrSpaceType {
        h_object: bench.device,
        ..Default::default()
    };
    let refused = bench.control(bench.client, call, &mut params);
    assert_eq!(refused, status::NV_ERR_INVALID_OBJECT);
    fires("RM-CONTROL-VALUE").only(&bench.broken());
}

#[test]
fn channels_have_numbers_engines_and_shared_buffers() {
    let bench = Bench::with_channel("driver=550");
    let mut second = bench.channel_params();
    second.userd_offset[0] += 0x1000;
    let (status, second) = bench.channel(&mut second);
    assert_eq!(status, 0);
    // The buffers of a group are there once: its channels name the same addresses.
    assert_eq!(bench.register_channel(second, 0x20_0000_0000), 0);
    let handles = [bench.channel, second, bench.device];
    let bytes: Vec<u8> = handles.iter().flat_map(|one| one.to_le_bytes()).collect();
    bench.memory.write(LIST, &bytes).unwrap();
    let mut list = query::ChannelList {
        num_channels: 3,
        channel_handle_list: LIST,
        channel_list: LIST + 0x100,
        ..Default::default()
    };
    let call = control::NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST;
    assert_eq!(bench.control(bench.device, call, &mut list), 0);
    let mut ids = [0; 12];
    bench.memory.read(LIST + 0x100, &mut ids).unwrap();
    assert_eq!(ids, [0, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255]);
    let compute = bench.machine.config.chips[0].facts().compute;
    let object = bench.must::<class::GrAlloc>(second, compute, None);
    let mut engine = query::ClassEngineId {
        h_object: object,
        ..Default::default()
    };
    let call = control::NVC36F_CTRL_GET_CLASS_ENGINEID;
    assert_eq!(bench.control(second, call, &mut engine), 0);
    assert_eq!(
        (engine.class_id, engine.engine_id),
        (compute.number, class::engine::GRAPHICS)
    );
    let mut buffers = query::CtxBufferSize {
        h_channel: second,
        ..Default::default()
    };
    let call = control::NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE;
    assert_eq!(bench.control(bench.subdevice, call, &mut buffers), 0);
    assert!(buffers.total_buffer_size > 0 && bench.broken().is_empty());
    // An object of another channel.
    let call = control::NVC36F_CTRL_GET_CLASS_ENGINEID;
    let refused = bench.control(bench.channel, call, &mut engine);
    assert_eq!(refused, status::NV_ERR_OBJECT_NOT_FOUND);
    fires("RM-OBJECT").only(&bench.broken());
}

#[test]
fn an_event_is_of_its_parent() {
    let bench = Bench::with_device("driver=550");
    let fd = bench.process.open("/dev/nvidia0").unwrap();
    let mut register = escape::RegisterFd { ctl_fd: bench.ctl };
    bench
        .escape(fd, &escape::REGISTER_FD, &mut register)
        .unwrap();
    let mut os = escape::AllocOsEvent {
        h_client: bench.client,
        h_device: bench.subdevice,
        fd: fd as u32,
        ..Default::default()
    };
    bench.escape(fd, &escape::ALLOC_OS_EVENT, &mut os).unwrap();
    // Without a source, and without a class in its parameters.
    let mut params = class::EventAlloc {
        data: fd as u64,
        ..Default::default()
    };
    bench.must(
        bench.subdevice,
        class::NV01_EVENT_OS_EVENT,
        Some(&mut params),
    );
    assert!(bench.broken().is_empty());
    let (refused, _) = bench.alloc(
        bench.device,
        class::NV01_EVENT_OS_EVENT.number,
        0,
        Some(&mut params),
    );
    assert_eq!(refused, status::NV_ERR_INVALID_OBJECT);
    fires("RM-EVENT").only(&bench.broken());
}

fn pool(bench: &Bench, base: u64, length: u64, kind: u32) -> u32 {
    let mut args = uvm::AllocSemaphorePool {
        base,
        length,
        gpu_attributes_count: 1,
        ..Default::default()
    };
    args.per_gpu_attributes[0].gpu_uuid = bench.uuid(0);
    args.per_gpu_attributes[0].gpu_mapping_type = kind;
    bench.uvm(uvm::ALLOC_SEMAPHORE_POOL, &mut args)
}

#[test]
fn a_pool_is_one_memory_for_gpus_and_the_cpu() {
    let bench = Bench::with_channel("driver=550");
    assert_eq!(pool(&bench, POOL, 0x20_0000, uvm::mapping::READ_ONLY), 0);
    let at = bench
        .process
        .mmap(shared(Some(POOL), 0x20_0000), bench.uvm, POOL);
    assert_eq!(at, Ok(POOL));
    bench.memory.write(POOL + 0x1234, b"seen").unwrap();
    {
        let state = bench.machine.state();
        let channel = state.channels().next().unwrap();
        let space = state.space_of(channel).unwrap();
        let (memory, offset, _) = space.translate(POOL + 0x1234, Access::Read).unwrap();
        let mut found = [0; 4];
        assert!(memory.contents.read(offset, &mut found) && &found == b"seen");
        assert!(space.translate(POOL, Access::Write).is_err());
    }
    assert_eq!(
        pool(&bench, POOL, 0x1000, 0),
        status::NV_ERR_UVM_ADDRESS_IN_USE
    );
    fires("UVM-RANGE-OVERLAP").only(&bench.broken());
    assert_eq!(bench.free_range(POOL, 0x20_0000), 0);
    assert_eq!(pool(&bench, POOL, 0x1000, 0), 0);
    let bench = Bench::with_space("");
    assert_eq!(
        pool(&bench, POOL, 0x1000, 9),
        status::NV_ERR_INVALID_ARGUMENT
    );
    fires("UVM-MAP").only(&bench.broken());
}

#[test]
fn files_of_uvm_are_mapped_at_their_offset() {
    let wanted = |bytes| shared(Some(POOL), bytes);
    let not_shared = twin_nv::client::Wanted {
        flags: libc::MAP_PRIVATE | libc::MAP_FIXED,
        ..wanted(0x2000)
    };
    for (wanted, offset) in [
        (wanted(0x2000), 0),
        (wanted(0x1000), POOL),
        (shared(None, 0x2000), POOL),
        (not_shared, POOL),
    ] {
        let bench = Bench::with_space("");
        assert_eq!(pool(&bench, POOL, 0x2000, 0), 0);
        assert!(bench.process.mmap(wanted, bench.uvm, offset).is_err());
        fires("UVM-MMAP").only(&bench.broken());
    }
    let bench = Bench::with_space("");
    let managed = bench.process.mmap(wanted(0x1000), bench.uvm, POOL);
    assert!(managed.is_err());
    fires("UVM-NOT-MODELLED").only(&bench.broken());
}

#[test]
fn groups_of_ranges_come_and_go() {
    let bench = Bench::with_space("");
    let mut first = uvm::CreateRangeGroup::default();
    assert_eq!(bench.uvm(uvm::CREATE_RANGE_GROUP, &mut first), 0);
    let mut second = uvm::CreateRangeGroup::default();
    assert_eq!(bench.uvm(uvm::CREATE_RANGE_GROUP, &mut second), 0);
    assert_ne!(first.range_group_id, second.range_group_id);
    let mut end = uvm::DestroyRangeGroup {
        range_group_id: first.range_group_id,
        ..Default::default()
    };
    assert_eq!(bench.uvm(uvm::DESTROY_RANGE_GROUP, &mut end), 0);
    assert!(bench.broken().is_empty());
    let again = bench.uvm(uvm::DESTROY_RANGE_GROUP, &mut end);
    assert_eq!(again, status::NV_ERR_OBJECT_NOT_FOUND);
    fires("UVM-RANGE-GROUP").only(&bench.broken());
}

#[test]
fn addresses_of_the_scheduler_of_grids_are_a_range() {
    let bench = Bench::with_space("");
    let mut args = uvm::MapDynamicParallelismRegion {
        base: RING,
        length: 0x1_0000,
        gpu_uuid: bench.uuid(0),
        ..Default::default()
    };
    let call = uvm::MAP_DYNAMIC_PARALLELISM_REGION;
    assert_eq!(bench.uvm(call, &mut args), 0);
    assert_eq!(bench.range(RING, 0x1000), status::NV_ERR_UVM_ADDRESS_IN_USE);
    fires("UVM-RANGE-OVERLAP").only(&bench.broken());
    assert_eq!(bench.free_range(RING, 0x1_0000), 0);
    assert_eq!(bench.range(RING, 0x1000), 0);
    assert_eq!(ARG % 0x1000, 0);
}
