//! Events, duplicates, and what a GPU tells of itself.

use drivers_spec::nv::{class, control, escape, status};
use twin::fires::fires;

use super::bench::{Bench, RING};

/// Makes a descriptor an event: the status.
fn os_event(bench: &Bench, fd: i32) -> u32 {
    let mut args = escape::AllocOsEvent {
        h_client: bench.client,
        h_device: bench.device,
        fd: fd as u32,
        ..Default::default()
    };
    bench
        .escape(bench.gpu, &escape::ALLOC_OS_EVENT, &mut args)
        .unwrap();
    args.status
}

/// Makes an event of an object: status and handle.
fn event(bench: &Bench, source: u32, fd: i32) -> (u32, u32) {
    let mut params = class::EventAlloc {
        h_src_resource: source,
        h_class: 0x79,
        data: fd as u64,
        ..Default::default()
    };
    bench.alloc(source, class::NV01_EVENT.number, 0, Some(&mut params))
}

fn notify(bench: &Bench, event: u32, action: u32) -> u32 {
    let mut params = control::EventSetNotification {
        event,
        action,
        ..Default::default()
    };
    let call = control::NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION;
    bench.control(bench.subdevice, call, &mut params)
}

#[test]
fn events_are_of_descriptors_and_of_objects() {
    let bench = Bench::with_device("");
    assert_eq!(os_event(&bench, bench.gpu), 0);
    assert_eq!(event(&bench, bench.subdevice, bench.gpu).0, 0);
    assert_eq!(
        (
            notify(&bench, 35, 2),
            notify(&bench, 35, 0),
            notify(&bench, 35, 2)
        ),
        (0, 0, 0)
    );
    assert!(bench.broken().is_empty());
    assert_eq!(
        os_event(&bench, bench.gpu),
        status::NV_ERR_INSUFFICIENT_RESOURCES
    );
    fires("RM-OS-EVENT").only(&bench.broken());

    let bench = Bench::with_device("");
    let (refused, _) = event(&bench, bench.subdevice, bench.gpu);
    assert_eq!(refused, status::NV_ERR_OBJECT_NOT_FOUND);
    fires("RM-OS-EVENT").only(&bench.broken());
    let bench = Bench::with_device("");
    let mut free = escape::FreeOsEvent::default();
    bench
        .escape(bench.gpu, &escape::FREE_OS_EVENT, &mut free)
        .unwrap();
    assert_eq!(free.status, status::NV_ERR_INVALID_EVENT);
    fires("RM-OS-EVENT").only(&bench.broken());

    let bench = Bench::with_device("");
    assert_eq!(os_event(&bench, bench.gpu), 0);
    let memory = bench.local(0x1000);
    assert_eq!(
        event(&bench, memory, bench.gpu).0,
        status::NV_ERR_INVALID_OBJECT
    );
    fires("RM-EVENT").only(&bench.broken());

    let bench = Bench::with_device("");
    assert_eq!(notify(&bench, 35, 2), status::NV_ERR_INVALID_STATE);
    fires("RM-EVENT-NOTIFY").only(&bench.broken());
    // With the descriptor, its event is gone.
    assert_eq!(os_event(&bench, bench.ctl), 0);
    bench.process.close(bench.gpu).unwrap();
    let (refused, _) = event(&bench, bench.subdevice, bench.ctl);
    assert_eq!(refused, status::NV_ERR_OBJECT_NOT_FOUND);
}

#[test]
fn memory_has_several_handles() {
    let bench = Bench::with_space("");
    let memory = bench.local(0x1_0000);
    let second = bench.root();
    let mut device = class::Nv0080Alloc::default();
    let mut dup = escape::DupObject {
        h_client: second,
        h_parent: second,
        h_client_src: bench.client,
        h_object_src: memory,
        ..Default::default()
    };
    let mut again = |bench: &Bench, parent| {
        dup.h_parent = parent;
        dup.h_object = 0;
        bench
            .escape(bench.ctl, &escape::RM_DUP_OBJECT, &mut dup)
            .unwrap();
        (dup.status, dup.h_object)
    };
    assert_eq!(
        again(&bench, second).0,
        status::NV_ERR_INVALID_OBJECT_PARENT
    );
    fires("RM-PARENT").only(&bench.broken());
    // A device of the second client.
    let first = bench.client;
    let mut bench = bench;
    bench.client = second;
    let parent = bench.must(second, class::NV01_DEVICE_0, Some(&mut device));
    let (status, copy) = again(&bench, parent);
    assert_eq!(status, 0);
    bench.client = first;
    assert_eq!(bench.free(memory), 0);
    assert_eq!(bench.machine.state().local_in_use(0), 0x1_0000);
    // UVM maps the duplicate by its own handle.
    bench.client = second;
    assert_eq!(bench.range(RING, 0x1_0000), 0);
    assert_eq!(bench.map(RING, 0x1_0000, copy), 0);
    assert_eq!(bench.free(copy), 0);
    assert_eq!(bench.free_range(RING, 0x1_0000), 0);
    assert_eq!(bench.local(0x1000) & 0xcaf0_0000, 0xcaf0_0000);
}

#[test]
fn a_gpu_tells_what_it_is() {
    for (config, sms, mib) in [
        ("chip=ga102,driver=535", 82, 24 << 10),
        ("chip=h200,driver=550", 132, 141 << 10),
        ("chip=gb202,driver=580", 170, 32 << 10),
    ] {
        let bench = Bench::with_device(config);
        let mut on = 0;
        let mut gpcs = control::GrGpcMask::default();
        let call = control::NV2080_CTRL_CMD_GR_GET_GPC_MASK;
        assert_eq!(bench.control(bench.subdevice, call, &mut gpcs), 0);
        for gpc_id in 0..gpcs.gpc_mask.count_ones() {
            let mut tpcs = control::GrTpcMask {
                gpc_id,
                ..Default::default()
            };
            let call = control::NV2080_CTRL_CMD_GR_GET_TPC_MASK;
            assert_eq!(bench.control(bench.subdevice, call, &mut tpcs), 0);
            on += tpcs.tpc_mask.count_ones() * 2;
        }
        assert_eq!(on, sms, "{config}");
        let memory = bench.local(1 << 30);
        let mut fb = control::FbGetInfoV2 {
            fb_info_list_size: 2,
            ..Default::default()
        };
        (fb.fb_info_list[0].index, fb.fb_info_list[1].index) = (8, 0x16);
        let call = control::NV2080_CTRL_CMD_FB_GET_INFO_V2;
        assert_eq!(bench.control(bench.subdevice, call, &mut fb), 0);
        let told = [fb.fb_info_list[0].data, fb.fb_info_list[1].data];
        assert_eq!(told, [mib << 10, (mib - 1024) << 10], "{config}");
        assert_eq!(bench.free(memory), 0);
        let mut times = control::TimeCorrelation {
            sample_count: 2,
            ..Default::default()
        };
        let call = control::NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO;
        assert_eq!(bench.control(bench.subdevice, call, &mut times), 0);
        assert!(times.samples[0].gpu_time < times.samples[1].gpu_time);
        let mut bars = control::PciBarInfo::default();
        let call = control::NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO;
        assert_eq!(bench.control(bench.subdevice, call, &mut bars), 0);
        assert_eq!(bars.pci_bar_info[0].bar_size, 16);
        let mut engines = control::Engines::default();
        let call = control::NV2080_CTRL_CMD_GPU_GET_ENGINES_V2;
        assert_eq!(bench.control(bench.subdevice, call, &mut engines), 0);
        let mut copies = control::CeAllCaps::default();
        let call = control::NV2080_CTRL_CMD_CE_GET_ALL_CAPS;
        assert_eq!(bench.control(bench.subdevice, call, &mut copies), 0);
        let present = copies.present.count_ones() + copies.present32.count_ones();
        assert_eq!(engines.engine_count, 1 + present);
        let conf = bench.must(
            bench.client,
            class::NV_CONFIDENTIAL_COMPUTE,
            Some(&mut class::ConfidentialComputeAlloc::default()),
        );
        let mut caps = control::ConfComputeCapabilities::default();
        let call = control::NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES;
        assert_eq!(
            (bench.control(conf, call, &mut caps), caps.cc_feature),
            (0, 0)
        );
        assert!(bench.broken().is_empty(), "{config}: {:?}", bench.broken());
    }
}
