//! ALLOC, FREE, MAP, UNMAP, mmap, dmabufs.

use drivers_spec::amd::kfd::{self, Alloc};
use twin::fires::fires;
use twin_amd::kernel::errno::Errno;

use crate::client::{Client, GTT, Memory, PAGE, VRAM, anonymous, load, reserve, store};

#[test]
fn handles_carry_the_gpu_and_the_smallest_free_number() {
    let client = Client::new("gpus=2");
    let of = |memory: Memory| (memory.handle >> 32, memory.handle as u32);
    let memory: Vec<Memory> = (0..3)
        .map(|_| client.alloc_at(1, reserve(PAGE), PAGE, GTT, 0).unwrap())
        .collect();
    let gpu = u64::from(client.gpu_ids[1]);
    assert_eq!(
        memory.iter().map(|&m| of(m)).collect::<Vec<_>>(),
        [(gpu, 0), (gpu, 1), (gpu, 2)]
    );
    client.free(memory[1]).unwrap();
    assert_eq!(client.free(memory[1]), Err(Errno::EINVAL));
    assert_eq!(
        of(client.alloc_at(1, reserve(PAGE), PAGE, GTT, 0).unwrap()),
        (gpu, 1)
    );
    assert!(memory[0].offset >= 1 << 32 && memory[1].offset > memory[0].offset);
    assert!(client.rules().is_empty());
}

#[test]
fn what_alloc_refuses() {
    let client = Client::new("vram=64M,gtt=64M");
    let va = reserve(PAGE);
    let alloc = |bytes, flags, user| client.alloc_at(0, va, bytes, flags, user).map(drop);
    assert_eq!(alloc(0, VRAM, 0), Err(Errno::EINVAL), "no bytes");
    assert_eq!(
        alloc(PAGE, Alloc::WRITABLE, 0),
        Err(Errno::EINVAL),
        "no type"
    );
    assert_eq!(
        alloc(PAGE, Alloc::USERPTR, 0),
        Err(Errno::EINVAL),
        "no address"
    );
    assert_eq!(
        alloc(PAGE, Alloc::USERPTR, 0x5000),
        Err(Errno::EFAULT),
        "not mapped"
    );
    assert_eq!(alloc(65 << 20, VRAM, 0), Err(Errno::ENOMEM));
    assert_eq!(alloc(65 << 20, GTT, 0), Err(Errno::ENOMEM));
    assert_eq!(
        alloc(PAGE, Alloc::DOORBELL, 0),
        Err(Errno::EINVAL),
        "doorbells are two pages"
    );
    assert_eq!(
        alloc(2 * PAGE, Alloc::MMIO_REMAP, 0),
        Err(Errno::EINVAL),
        "registers are a page"
    );
    let mut args = kfd::AllocMemoryOfGpuArgs {
        size: PAGE,
        gpu_id: 1,
        flags: VRAM.bits(),
        ..Default::default()
    };
    assert_eq!(
        client.call(kfd::ALLOC_MEMORY_OF_GPU, &mut args),
        Err(Errno::EINVAL),
        "no such GPU"
    );
    assert!(client.rules().is_empty());
    let bare = Client::bare(&client.machine);
    assert_eq!(
        bare.alloc_at(0, va, PAGE, VRAM, 0).map(drop),
        Err(Errno::ENODEV),
        "no ACQUIRE_VM"
    );
}

#[test]
fn mistakes_that_alloc_lets_pass() {
    let client = Client::new("");
    let rules = |flags| {
        let before = client.rules().len();
        client.alloc_at(0, reserve(PAGE), PAGE, flags, 0).unwrap();
        client.rules()[before..].to_vec()
    };
    fires("KFD-ALLOC-TYPE").only(&rules(VRAM | Alloc::GTT));
    fires("KFD-ALLOC-FLAGS").only(&rules(VRAM | Alloc::from_bits_retain(1 << 10)));
    fires("KFD-AQL-QUEUE-MEM").only(&rules(GTT | Alloc::AQL_QUEUE_MEM));
    assert!(rules(VRAM | Alloc::PUBLIC | Alloc::CONTIGUOUS).is_empty());
}

#[test]
fn a_small_bar_shows_no_vram() {
    let client = Client::new("bar=small,gpus=2");
    let public = client.alloc_at(0, reserve(PAGE), PAGE, VRAM | Alloc::PUBLIC, 0);
    assert_eq!(public.map(drop), Err(Errno::EINVAL));
    let memory = client.memory(0, PAGE, VRAM);
    assert_eq!(
        client.map(&[1], memory),
        Err(Errno::EINVAL),
        "no way between GPUs"
    );
    let system = client.memory(0, PAGE, GTT);
    assert_eq!(client.map(&[1], system), Ok(1));
    let large = Client::new("gpus=2");
    let memory = large.memory(0, PAGE, VRAM);
    assert_eq!(large.map(&[1], memory), Ok(1));
}

#[test]
fn vram_is_counted() {
    let client = Client::new("vram=64M");
    let available = || {
        let mut args = kfd::GetAvailableMemoryArgs {
            gpu_id: client.gpu_ids[0],
            ..Default::default()
        };
        client.call(kfd::AVAILABLE_MEMORY, &mut args).unwrap();
        args.available
    };
    assert_eq!(available(), 64 << 20);
    let memory = client
        .alloc_at(0, reserve(1 << 20), 1 << 20, VRAM, 0)
        .unwrap();
    assert_eq!(available(), 62 << 20, "in units of 2 MiB");
    let used = client
        .process
        .open("/sys/class/drm/renderD128/device/mem_info_vram_used", 0)
        .unwrap();
    let mut text = [0; 16];
    let length = client.process.read(used, 0, &mut text).unwrap();
    assert_eq!(&text[..length], b"1048576\n");
    client.free(memory).unwrap();
    assert_eq!(available(), 64 << 20);
}

#[test]
fn mapping_checks_addresses() {
    let client = Client::new("");
    let at = |va, bytes| {
        let memory = client.alloc_at(0, va, bytes, GTT, 0).unwrap();
        (memory, client.map(&[0], memory))
    };
    let va = reserve(4 * PAGE);
    let (memory, mapped) = at(va, 2 * PAGE);
    assert_eq!(mapped, Ok(1));
    assert_eq!(client.map(&[0], memory), Ok(1), "again is no error");
    assert_eq!(at(va + PAGE, PAGE).1, Err(Errno::EINVAL), "overlaps");
    assert_eq!(at(va - PAGE, 2 * PAGE).1, Err(Errno::EINVAL), "overlaps");
    assert_eq!(at(va + 2 * PAGE, PAGE).1, Ok(1), "beside it");
    assert_eq!(
        at(va + 3 * PAGE + 8, 8).1,
        Err(Errno::EINVAL),
        "not at a page"
    );
    assert_eq!(at(0, PAGE).1, Err(Errno::EINVAL), "address 0");
    assert_eq!(at(1 << 47, PAGE).1, Err(Errno::EINVAL), "beyond 47 bits");
    assert_eq!(client.free(memory), Err(Errno::EBUSY), "still mapped");
    assert_eq!(client.unmap(&[0], memory), Ok(1));
    assert_eq!(client.unmap(&[0], memory), Err(Errno::EINVAL), "not mapped");
    client.free(memory).unwrap();
    assert_eq!(at(va, PAGE).1, Ok(1), "free again");
}

#[test]
fn maps_to_several_gpus_as_far_as_it_gets() {
    let client = Client::new("gpus=3");
    let memory = client.alloc_at(0, reserve(PAGE), PAGE, GTT, 0).unwrap();
    let ids = [client.gpu_ids[0], client.gpu_ids[1], 1];
    let mut args = kfd::MapMemoryToGpuArgs {
        handle: memory.handle,
        device_ids_array_ptr: ids.as_ptr() as u64,
        n_devices: 3,
        n_success: 0,
    };
    assert_eq!(
        client.call(kfd::MAP_MEMORY_TO_GPU, &mut args),
        Err(Errno::EINVAL)
    );
    assert_eq!(args.n_success, 2);
    assert_eq!(client.unmap(&[0, 1], memory), Ok(2));
    for (n_devices, n_success, array, errno) in [
        (0, 0, ids.as_ptr() as u64, Errno::EINVAL),
        (1, 2, ids.as_ptr() as u64, Errno::EINVAL),
        (1, 0, 8, Errno::EFAULT),
    ] {
        let handle = memory.handle;
        let mut args = kfd::MapMemoryToGpuArgs {
            handle,
            device_ids_array_ptr: array,
            n_devices,
            n_success,
        };
        assert_eq!(client.call(kfd::MAP_MEMORY_TO_GPU, &mut args), Err(errno));
        let mut args = kfd::UnmapMemoryFromGpuArgs {
            handle,
            device_ids_array_ptr: array,
            n_devices,
            n_success,
        };
        assert_eq!(
            client.call(kfd::UNMAP_MEMORY_FROM_GPU, &mut args),
            Err(errno)
        );
    }
    let none = Memory {
        handle: memory.handle + 9,
        ..memory
    };
    assert_eq!(
        (client.map(&[0], none), client.unmap(&[0], none)),
        (Err(Errno::ENOMEM), Err(Errno::ENOMEM))
    );
}

#[test]
fn a_render_node_is_mapped_where_alloc_said() {
    let client = Client::new("");
    let memory = client.memory(0, 2 * PAGE, GTT);
    store(memory.va, 42);
    assert_eq!(load(memory.va), 42);
    let wrong = |offset, bytes| {
        client.mmap(
            0,
            Memory {
                offset,
                bytes,
                va: reserve(4 * PAGE),
                ..memory
            },
        )
    };
    assert_eq!(
        wrong(memory.offset + PAGE, PAGE),
        Err(Errno::EINVAL),
        "not its start"
    );
    assert_eq!(
        wrong(memory.offset, 3 * PAGE),
        Err(Errno::EINVAL),
        "larger than it is"
    );
    assert_eq!(wrong(0, PAGE), Err(Errno::EINVAL), "nothing there");
    let user = anonymous(PAGE);
    let userptr = client
        .alloc_at(0, user, PAGE, Alloc::USERPTR | Alloc::WRITABLE, user)
        .unwrap();
    assert_eq!(client.mmap(0, userptr), Err(Errno::EPERM));
    // Another open file of the same node has no right to it.
    let other = client
        .process
        .open("/dev/dri/renderD128", libc::O_RDWR)
        .unwrap();
    let shared = libc::MAP_SHARED;
    let mapped = client
        .process
        .mmap(0, PAGE, libc::PROT_READ, shared, other, memory.offset);
    assert_eq!(mapped, Err(Errno::EACCES));
    assert!(client.rules().is_empty());
    let private = client.process.mmap(
        0,
        PAGE,
        libc::PROT_READ,
        libc::MAP_PRIVATE,
        client.render[0],
        memory.offset,
    );
    assert!(private.is_ok());
    fires("KFD-MMAP-SHARED").only(&client.rules());
}

#[test]
fn registers_are_mapped_through_kfd() {
    let client = Client::new("");
    let flags = Alloc::MMIO_REMAP | Alloc::WRITABLE | Alloc::COHERENT;
    let memory = client.alloc_at(0, reserve(PAGE), PAGE, flags, 0).unwrap();
    assert_eq!(memory.offset, u64::from(client.gpu_ids[0]) << 46);
    let map = |bytes, offset| {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        client
            .process
            .mmap(0, bytes, protection, libc::MAP_SHARED, client.kfd, offset)
    };
    assert!(map(PAGE, memory.offset).is_ok());
    assert_eq!(map(2 * PAGE, memory.offset), Err(Errno::EINVAL));
    assert_eq!(map(PAGE, 0), Err(Errno::ENODEV), "no gpu_id");
    let doorbells = 3 << 62 | memory.offset;
    assert!(map(2 * PAGE, doorbells).is_ok());
    assert_eq!(
        map(PAGE, doorbells),
        Err(Errno::EINVAL),
        "doorbells are two pages"
    );
    assert_eq!(map(PAGE, 3 << 62 | 1 << 46), Err(Errno::ENODEV));
    assert_eq!(
        map(PAGE, 2 << 62),
        Err(Errno::EINVAL),
        "no event page of the kernel"
    );
    assert_eq!(
        map(PAGE, 1 << 62 | memory.offset),
        Err(Errno::EINVAL),
        "only APUs have it"
    );
}

#[test]
fn memory_of_the_client_stays_until_the_gpu_lets_go() {
    let client = Client::new("");
    let user = anonymous(2 * PAGE);
    let memory = client
        .alloc_at(0, user, 2 * PAGE, Alloc::USERPTR | Alloc::WRITABLE, user)
        .unwrap();
    client.map(&[0], memory).unwrap();
    client.process.munmap(user, 2 * PAGE).unwrap();
    fires("KFD-USERPTR-UNMAPPED").only(&client.rules());
    assert_eq!(client.unmap(&[0], memory), Ok(1));
    client.free(memory).unwrap();
    assert_eq!(client.process.munmap(user + 1, PAGE), Err(Errno::EINVAL));
}

#[test]
fn dmabufs_are_the_same_memory() {
    let client = Client::new("gpus=2");
    let memory = client.memory(0, 2 * PAGE, GTT);
    let mut export = kfd::ExportDmabufArgs {
        handle: memory.handle,
        ..Default::default()
    };
    client.call(kfd::EXPORT_DMABUF, &mut export).unwrap();
    let dmabuf_fd = export.dmabuf_fd;
    let mut about = kfd::GetDmabufInfoArgs {
        dmabuf_fd,
        ..Default::default()
    };
    client.call(kfd::GET_DMABUF_INFO, &mut about).unwrap();
    assert_eq!(
        (about.size, about.gpu_id, about.flags),
        (2 * PAGE, client.gpu_ids[0], Alloc::GTT.bits())
    );
    let import = |gpu: usize, dmabuf_fd| {
        let mut args = kfd::ImportDmabufArgs {
            va_addr: reserve(2 * PAGE),
            gpu_id: client.gpu_ids[gpu],
            dmabuf_fd,
            handle: 0,
        };
        client.call(kfd::IMPORT_DMABUF, &mut args).map(|()| Memory {
            va: args.va_addr,
            handle: args.handle,
            ..memory
        })
    };
    let again = import(0, dmabuf_fd).unwrap();
    assert_eq!(client.map(&[0], again), Ok(1));
    client.mmap(0, again).unwrap();
    store(memory.va, 7);
    assert_eq!(load(again.va), 7);
    assert_eq!(
        import(1, dmabuf_fd).map(drop),
        Err(Errno::EINVAL),
        "another GPU's"
    );
    assert_eq!(import(0, 5).map(drop), Err(Errno::EBADF));
    assert_eq!(
        import(0, client.kfd as u32).map(drop),
        Err(Errno::EINVAL),
        "no dmabuf"
    );
    // The memory lives while one of them does.
    client.unmap(&[0], memory).unwrap();
    client.free(memory).unwrap();
    assert_eq!(load(again.va), 7);
    export.handle += 9;
    assert_eq!(
        client.call(kfd::EXPORT_DMABUF, &mut export),
        Err(Errno::EINVAL)
    );
}

#[test]
fn acquire_vm_takes_one_file_for_good() {
    let machine = crate::client::machine("gpus=2");
    let client = Client::bare(&machine);
    client.acquire(0).unwrap();
    client.acquire(0).unwrap();
    let again = client
        .process
        .open("/dev/dri/renderD128", libc::O_RDWR)
        .unwrap() as u32;
    let mut args = kfd::AcquireVmArgs {
        drm_fd: again,
        gpu_id: client.gpu_ids[0],
    };
    assert_eq!(client.call(kfd::ACQUIRE_VM, &mut args), Err(Errno::EBUSY));
    args = kfd::AcquireVmArgs {
        drm_fd: 3,
        gpu_id: client.gpu_ids[1],
    };
    assert_eq!(
        client.call(kfd::ACQUIRE_VM, &mut args),
        Err(Errno::EINVAL),
        "not open"
    );
    args.drm_fd = client.kfd as u32;
    assert_eq!(
        client.call(kfd::ACQUIRE_VM, &mut args),
        Err(Errno::EINVAL),
        "no render node"
    );
    assert!(client.rules().is_empty());
    args.drm_fd = again;
    assert_eq!(
        client.call(kfd::ACQUIRE_VM, &mut args),
        Err(Errno::EINVAL),
        "the other GPU's"
    );
    fires("KFD-VM-GPU").only(&client.rules());
    // The address space lives as long as the process, also without the descriptor.
    client.process.close(client.render[0]).unwrap();
    let memory = client.alloc_at(0, reserve(PAGE), PAGE, GTT, 0).unwrap();
    assert_eq!(client.map(&[0], memory), Ok(1));
}
