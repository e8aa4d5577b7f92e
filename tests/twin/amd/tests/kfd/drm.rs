//! The render node.

use drivers_spec::amd::drm::{
    self, Domains, GemCreateIn, Info, InfoDevice, InfoHwIp, InfoVramGtt, Pages, gem_va, info,
};
use hcq::transport::IoctlOf;
use twin::fires::fires;
use twin_amd::kernel::errno::Errno;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::client::{Client, PAGE, load, reserve, store};

fn call<T: IntoBytes + FromBytes + Immutable + KnownLayout>(
    client: &Client,
    ioctl: IoctlOf<T>,
    args: &mut T,
) -> Result<(), Errno> {
    client
        .process
        .ioctl(client.render[0], ioctl.request, &raw mut *args as u64)
}

fn ask<T: FromZeros + IntoBytes>(client: &Client, query: u32, argument: u32) -> Result<T, Errno> {
    let mut answer = T::new_zeroed();
    let mut args = Info {
        return_pointer: &raw mut answer as u64,
        return_size: size_of::<T>() as u32,
        query,
        arguments: [argument, 0, 0, 0],
    };
    call(client, drm::AMDGPU_INFO, &mut args).map(|()| answer)
}

#[test]
fn facts_of_the_gpu() {
    let client = Client::new("bar=small,vram=1G");
    let device: InfoDevice = ask(&client, info::DEV_INFO, 0).unwrap();
    assert_eq!(
        (
            device.device_id,
            device.gpu_counter_freq,
            device.cu_active_number
        ),
        (0x744c, 100_000, 96)
    );
    assert_eq!(
        (
            device.num_shader_engines,
            device.num_shader_arrays_per_engine
        ),
        (6, 2)
    );
    // Engines 4 and 5 are in the upper columns of 0 and 1.
    let full = [0xff; 4];
    assert_eq!(
        device.cu_bitmap,
        [full, full, [0xff, 0xff, 0, 0], [0xff, 0xff, 0, 0]]
    );
    let sdma: InfoHwIp = ask(&client, info::HW_IP_INFO, 2).unwrap();
    assert_eq!(
        (sdma.hw_ip_version_major, sdma.ip_discovery_version),
        (6, 0x60000)
    );
    let memory: InfoVramGtt = ask(&client, info::VRAM_GTT, 0).unwrap();
    assert_eq!(
        (memory.vram_size, memory.vram_cpu_accessible_size),
        (1 << 30, 256 << 20)
    );
    assert_eq!(ask::<u32>(&client, info::ACCEL_WORKING, 0), Ok(1));
    assert!(ask::<u64>(&client, info::TIMESTAMP, 0).unwrap() > 0);
    assert_eq!(
        ask::<u32>(&client, info::HW_IP_COUNT, 99),
        Err(Errno::EINVAL)
    );
    // GB_ADDR_CONFIG, as libdrm reads it: 32 pipes and packers.
    let mut config = 0u32;
    let mut args = Info {
        return_pointer: &raw mut config as u64,
        return_size: 4,
        query: info::READ_MMR_REG,
        arguments: [0x263e, 1, u32::MAX, 0],
    };
    call(&client, drm::AMDGPU_INFO, &mut args).unwrap();
    assert_eq!(config, 0x545);
    // The number of registers is 0, and then the register is no such one.
    for register in [0x263e, 0] {
        let answer = ask::<u32>(&client, info::READ_MMR_REG, register);
        assert_eq!(answer, Err(Errno::EINVAL));
    }
    assert!(client.rules().is_empty());
    assert_eq!(ask::<u32>(&client, 0x7777, 0), Err(Errno::EINVAL));
    fires("DRM-UNKNOWN-QUERY").only(&client.rules());
    let render = client.render[0];
    assert_eq!(
        client.process.ioctl(render, 0xc018_6444, 0),
        Err(Errno::ENOTTY),
        "submission is not modelled"
    );
    fires("DRM-UNKNOWN-IOCTL").only(&client.rules()[1..]);
    let mut args = Info {
        return_pointer: 8,
        return_size: 4,
        query: 0,
        arguments: [0; 4],
    };
    assert_eq!(
        call(&client, drm::AMDGPU_INFO, &mut args),
        Err(Errno::EFAULT)
    );
}

#[test]
fn partial_engines_have_partial_bits() {
    let client = Client::new("chip=gfx942");
    let device: InfoDevice = ask(&client, info::DEV_INFO, 0).unwrap();
    assert_eq!((device.cu_active_number, device.wave_front_size), (304, 64));
    let bits: u32 = device
        .cu_bitmap
        .iter()
        .flatten()
        .map(|bits| bits.count_ones())
        .sum();
    assert_eq!(bits, 38);
}

#[test]
fn name_and_capabilities() {
    let client = Client::new("");
    let mut name = [0u8; 16];
    let mut args = drm::Version {
        name: name.as_mut_ptr() as u64,
        name_len: 16,
        ..Default::default()
    };
    call(&client, drm::VERSION, &mut args).unwrap();
    assert_eq!(
        (&name[..6], args.name_len, args.version_major),
        (&b"amdgpu"[..], 6, 3)
    );
    let cap = |capability| {
        let mut args = drm::GetCap {
            capability,
            value: 0,
        };
        call(&client, drm::GET_CAP, &mut args).map(|()| args.value)
    };
    assert_eq!((cap(drm::CAP_PRIME), cap(99)), (Ok(3), Err(Errno::EINVAL)));
}

#[test]
fn gem_memory_is_created_mapped_and_shared() {
    let client = Client::new("");
    let create = |domains, bytes| {
        let mut args = GemCreateIn {
            bo_size: bytes,
            alignment: 0,
            domains,
            domain_flags: 0,
        };
        call(&client, drm::AMDGPU_GEM_CREATE, &mut args).map(|()| args.bo_size as u32)
    };
    assert_eq!(create(0, PAGE), Err(Errno::EINVAL));
    assert_eq!(create(Domains::GTT.bits(), 0), Err(Errno::EINVAL));
    let handle = create(Domains::GTT.bits(), PAGE).unwrap();
    let mut mmap = drm::GemMmapIn { handle, pad: 0 };
    call(&client, drm::AMDGPU_GEM_MMAP, &mut mmap).unwrap();
    let offset = u64::read_from_bytes(mmap.as_bytes()).unwrap();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let map = |offset| {
        client
            .process
            .mmap(
                0,
                PAGE,
                protection,
                libc::MAP_SHARED,
                client.render[0],
                offset,
            )
            .unwrap()
    };
    let at = map(offset);
    store(at, 5);
    let mut prime = drm::PrimeHandle {
        handle,
        ..Default::default()
    };
    call(&client, drm::PRIME_HANDLE_TO_FD, &mut prime).unwrap();
    prime.handle = 0;
    call(&client, drm::PRIME_FD_TO_HANDLE, &mut prime).unwrap();
    let mut again = drm::GemMmapIn {
        handle: prime.handle,
        pad: 0,
    };
    call(&client, drm::AMDGPU_GEM_MMAP, &mut again).unwrap();
    assert_eq!(
        load(map(u64::read_from_bytes(again.as_bytes()).unwrap())),
        5
    );
    let va_address = reserve(PAGE);
    let mut va = drm::GemVa {
        handle,
        operation: gem_va::MAP,
        flags: (Pages::READABLE | Pages::WRITEABLE).bits(),
        va_address,
        map_size: PAGE,
        ..Default::default()
    };
    call(&client, drm::AMDGPU_GEM_VA, &mut va).unwrap();
    assert_eq!(
        call(&client, drm::AMDGPU_GEM_VA, &mut va),
        Err(Errno::EINVAL),
        "it is taken"
    );
    va.operation = gem_va::UNMAP;
    call(&client, drm::AMDGPU_GEM_VA, &mut va).unwrap();
    assert_eq!(
        call(&client, drm::AMDGPU_GEM_VA, &mut va),
        Err(Errno::EINVAL),
        "nothing is there"
    );
    va.operation = 7;
    assert_eq!(
        call(&client, drm::AMDGPU_GEM_VA, &mut va),
        Err(Errno::EINVAL)
    );
    let mut close = drm::GemClose { handle, pad: 0 };
    call(&client, drm::GEM_CLOSE, &mut close).unwrap();
    assert_eq!(
        call(&client, drm::GEM_CLOSE, &mut close),
        Err(Errno::EINVAL)
    );
    assert_eq!(
        call(&client, drm::AMDGPU_GEM_MMAP, &mut mmap),
        Err(Errno::ENOENT)
    );
    assert_eq!(load(at), 5, "what is mapped stays");
    assert!(client.rules().is_empty());
}
