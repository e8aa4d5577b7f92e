//! Mistakes with UVM.

use drivers_spec::nv::{class, status, uvm};
use twin::fires::fires;

use super::bench::{ARG, Bench, RING};

#[test]
fn uvm_is_initialized_and_has_the_process() {
    let bench = Bench::with_device("");
    let refused = bench.process.ioctl(bench.uvm, 0x7777, ARG);
    assert_eq!(refused.unwrap_err().0, libc::EINVAL);
    fires("UVM-COMMAND").only(&bench.broken());
    let bench = Bench::with_space("");
    let refused = bench.command(bench.uvm, uvm::MIGRATE, &mut uvm::Migrate::default());
    assert_eq!(refused.unwrap_err().0, libc::EINVAL);
    fires("UVM-NOT-MODELLED").only(&bench.broken());
    let bench = Bench::with_device("");
    assert_eq!(bench.range(0x1000, 0x1000), status::NV_ERR_ILLEGAL_ACTION);
    fires("UVM-INITIALIZE").only(&bench.broken());
    let bench = Bench::with_space("");
    let mut again = uvm::Initialize {
        flags: 1,
        ..Default::default()
    };
    let refused = bench.uvm(uvm::INITIALIZE, &mut again);
    assert_eq!(refused, status::NV_ERR_INVALID_ARGUMENT);
    fires("UVM-INITIALIZE").only(&bench.broken());
    // The second file is closed: what is there stays, nothing new begins.
    let bench = Bench::with_space("gpus=2");
    bench.process.open("/dev/nvidia1").unwrap();
    assert_eq!(bench.register_gpu(1), 0);
    bench.process.close(bench.mm).unwrap();
    let refused = bench.register_space(1, bench.space);
    assert_eq!(refused, status::NV_ERR_PAGE_TABLE_NOT_AVAIL);
    fires("UVM-MM").only(&bench.broken());
}

#[test]
fn uvm_knows_gpus_and_their_address_spaces() {
    let bench = Bench::with_space("");
    assert_eq!(bench.register_gpu(0), status::NV_ERR_INVALID_DEVICE);
    fires("UVM-GPU").only(&bench.broken());
    let bench = Bench::with_space("gpus=2");
    bench.process.open("/dev/nvidia1").unwrap();
    assert_eq!(bench.register_gpu(1), 0);
    let mut device = class::Nv0080Alloc {
        device_id: 1,
        ..Default::default()
    };
    let device = bench.must(bench.client, class::NV01_DEVICE_0, Some(&mut device));
    let mut own = class::VaspaceAlloc::default();
    let own = bench.must(device, class::FERMI_VASPACE_A, Some(&mut own));
    assert_eq!(bench.register_space(1, own), status::NV_ERR_INVALID_FLAGS);
    fires("UVM-VASPACE-EXTERNAL").only(&bench.broken());
    let refused = bench.register_space(1, bench.space);
    assert_eq!(refused, status::NV_ERR_OTHER_DEVICE_FOUND);
    assert_eq!(
        bench.register_space(1, device),
        status::NV_ERR_INVALID_OBJECT
    );
}

#[test]
fn ranges_are_whole_and_apart() {
    for (base, length) in [(0x1001, 0x1000), (0x1000, 0), (0, 0x1000), (!0xfff, 0x2000)] {
        let bench = Bench::with_space("");
        assert_eq!(bench.range(base, length), status::NV_ERR_INVALID_ADDRESS);
        fires("UVM-RANGE").only(&bench.broken());
    }
    let bench = Bench::with_space("");
    assert_eq!(bench.range(0x10000, 0x4000), 0);
    assert_eq!(bench.range(0x14000, 0x4000), 0);
    assert_eq!(
        bench.range(0x13000, 0x2000),
        status::NV_ERR_UVM_ADDRESS_IN_USE
    );
    fires("UVM-RANGE-OVERLAP").only(&bench.broken());
    let bench = Bench::with_space("");
    assert_eq!(bench.range(0x10000, 0x4000), 0);
    assert_eq!(
        bench.free_range(0x10000, 0x2000),
        status::NV_ERR_INVALID_ADDRESS
    );
    fires("UVM-FREE").only(&bench.broken());
}

#[test]
fn memory_is_mapped_in_ranges() {
    let bench = Bench::with_space("");
    let local = bench.local(0x1_0000);
    assert_eq!(
        bench.map(RING, 0x1_0000, local),
        status::NV_ERR_INVALID_ADDRESS
    );
    fires("UVM-MAP").only(&bench.broken());
    for wrong in 0..3 {
        let bench = Bench::with_space("driver=535");
        let local = bench.local(0x1_0000);
        assert_eq!(bench.range(RING, 0x1_0000), 0);
        let mut args = bench.map_params(RING, 0x1_0000, local);
        match wrong {
            0 => args.gpu_attributes_count = 0,
            1 => args.gpu_attributes_count = 33,
            _ => args.per_gpu_attributes[0].gpu_mapping_type = 4,
        }
        let refused = bench.uvm(uvm::MAP_EXTERNAL_ALLOCATION, &mut args);
        assert_eq!(refused, status::NV_ERR_INVALID_ARGUMENT);
        fires("UVM-MAP").only(&bench.broken());
    }
    for (config, expected) in [
        ("chip=ad102", status::NV_ERR_OUT_OF_RANGE),
        ("chip=h200", status::NV_OK),
    ] {
        let bench = Bench::with_space(config);
        let local = bench.local(0x1000);
        assert_eq!(bench.range(1 << 47, 0x1000), 0);
        assert_eq!(bench.map(1 << 47, 0x1000, local), expected);
        match expected {
            status::NV_OK => assert!(bench.broken().is_empty()),
            _ => fires("UVM-MAP").only(&bench.broken()),
        }
    }
    for (offset, expected) in [
        (0x1000, status::NV_ERR_INVALID_LIMIT),
        (0x1_0000, status::NV_ERR_INVALID_BASE),
        (0x800, status::NV_ERR_INVALID_ADDRESS),
    ] {
        let bench = Bench::with_space("");
        let local = bench.local(0x1_0000);
        assert_eq!(bench.range(RING, 0x2_0000), 0);
        let mut args = bench.map_params(RING, 0x1_0000, local);
        args.offset = offset;
        let refused = bench.uvm(uvm::MAP_EXTERNAL_ALLOCATION, &mut args);
        assert_eq!(refused, expected);
        fires("UVM-MAP-LENGTH").only(&bench.broken());
    }
    let bench = Bench::with_space("");
    let local = bench.local(0x1_0000);
    assert_eq!(bench.range(RING, 0x2_0000), 0);
    // What RM frees stays mapped: UVM has a duplicate.
    assert_eq!(bench.map(RING, 0x1_0000, local), 0);
    assert_eq!(bench.free(local), 0);
    assert_eq!(bench.machine.state().local_in_use(0), 0x1_0000);
    assert_eq!(bench.free_range(RING, 0x2_0000), 0);
    let other = bench.local(0x1_0000);
    assert_eq!(bench.free(other), 0);
    assert_eq!(bench.machine.state().local_in_use(0), 0);
}

#[test]
fn peers_are_enabled_before_they_are_mapped() {
    let bench = Bench::with_space("gpus=2");
    bench.process.open("/dev/nvidia1").unwrap();
    assert_eq!(bench.register_gpu(1), 0);
    let mut device = class::Nv0080Alloc {
        device_id: 1,
        ..Default::default()
    };
    let device = bench.must(bench.client, class::NV01_DEVICE_0, Some(&mut device));
    let mut params = bench.local_params(0x1000);
    let remote = bench.must(device, class::NV01_MEMORY_LOCAL_USER, Some(&mut params));
    assert_eq!(bench.range(RING, 0x1000), 0);
    assert_eq!(
        bench.map(RING, 0x1000, remote),
        status::NV_ERR_INVALID_DEVICE
    );
    fires("UVM-PEER").only(&bench.broken());
    let mut peers = uvm::EnablePeerAccess {
        gpu_uuid_a: bench.uuid(1),
        gpu_uuid_b: bench.uuid(0),
        ..Default::default()
    };
    assert_eq!(bench.uvm(uvm::ENABLE_PEER_ACCESS, &mut peers), 0);
    assert_eq!(bench.map(RING, 0x1000, remote), 0);
    let again = bench.uvm(uvm::ENABLE_PEER_ACCESS, &mut peers);
    assert_eq!(again, status::NV_ERR_INVALID_DEVICE);
}

#[test]
fn channels_are_registered_where_there_is_room() {
    let bench = Bench::with_channel("");
    let again = bench.register_channel(bench.channel, 0x30_0000_0000);
    assert_eq!(again, status::NV_ERR_INVALID_CHANNEL);
    fires("UVM-CHANNEL").only(&bench.broken());
    for (config, base, expected) in [
        ("chip=ad102", RING, status::NV_ERR_UVM_ADDRESS_IN_USE),
        ("chip=ad102", 1 << 40, status::NV_ERR_OUT_OF_RANGE),
        ("chip=h100", 1 << 40, 0),
    ] {
        let bench = Bench::with_group(config);
        let (_, channel) = bench.channel(&mut bench.channel_params());
        assert_eq!(bench.register_channel(channel, base), expected);
        match expected {
            0 => assert!(bench.broken().is_empty()),
            _ => fires("UVM-CHANNEL-WINDOW").only(&bench.broken()),
        }
    }
}
