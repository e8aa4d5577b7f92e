//! Memory objects of KGSL.

use drivers_spec::qcom::kgsl::{self, Memory as Flags, free, memory, user};
use twin::errno::Errno;
use twin::process::Wanted;

use super::rig::{Rig, address, anywhere, errno};

const VERSIONS: [&str; 2] = ["version=4.9", "version=5.15"];

#[test]
fn objects_are_made_mapped_and_freed() {
    for version in VERSIONS {
        let rig = Rig::new(version);
        let (id, gpu) = rig.object(8192, 0).unwrap();
        let info = rig.info(id).unwrap();
        assert_eq!((info.size, info.gpuaddr), (8192, gpu));
        assert!((0x40_0000_0000..0x80_0000_0000).contains(&gpu));
        let offset = kgsl::mmap_offset(id);
        let map = |bytes, offset| rig.process.mmap(anywhere(bytes), rig.fd, offset);
        assert_eq!(map(4096, offset), Err(Errno::ERANGE), "{version}");
        assert_eq!(map(8192, kgsl::mmap_offset(id + 1)), Err(Errno::EINVAL));
        let cpu = map(8192, offset).unwrap();
        let again = map(8192, offset);
        match version {
            "version=4.9" => assert_eq!(again, Err(Errno::EBUSY)),
            _ => rig.process.munmap(again.unwrap(), 8192).unwrap(),
        }
        // It lives on while it is mapped, and is found no more.
        rig.free(id).unwrap();
        assert_eq!(errno(rig.info(id)), Errno::EINVAL);
        assert_eq!(rig.free(id), Err(Errno::EINVAL));
        assert!(
            rig.process
                .objects()
                .iter()
                .any(|one| one.starts_with("object"))
        );
        rig.process.munmap(cpu, 8192).unwrap();
        assert!(
            !rig.process
                .objects()
                .iter()
                .any(|one| one.starts_with("object"))
        );
        assert_eq!(rig.broken(), [""; 0]);
    }
}

#[test]
fn sizes_and_flags_of_objects() {
    for version in VERSIONS {
        let rig = Rig::new(version);
        assert_eq!(errno(rig.object(0, 0)), Errno::EINVAL);
        let (id, _) = rig.object(5000, 0).unwrap();
        assert_eq!(rig.info(id).unwrap().size, 8192);
        // Writing through is write-back.
        let through = memory::WRITETHROUGH << memory::CACHEMODE_SHIFT;
        let (id, _) = rig.object(4096, through).unwrap();
        let mode = rig.info(id).unwrap().flags & memory::CACHEMODE_MASK;
        assert_eq!(mode >> memory::CACHEMODE_SHIFT, memory::WRITEBACK);
        let align = 16 << memory::ALIGN_SHIFT;
        let (_, gpu) = rig.object(4096, align).unwrap();
        assert_eq!(gpu % 0x1_0000, 0);
        let (_, low) = rig.object(4096, Flags::FORCE_32BIT.bits()).unwrap();
        assert!(low < 1 << 32);
    }
    let rig = Rig::new("memory=1M");
    assert_eq!(errno(rig.object(2 << 20, 0)), Errno::ENOMEM);
    let (id, _) = rig.object(1 << 20, 0).unwrap();
    assert_eq!(errno(rig.object(4096, 0)), Errno::ENOMEM);
    rig.free(id).unwrap();
    rig.object(4096, 0).unwrap();
}

#[test]
fn objects_of_the_older_call() {
    let rig = Rig::new("");
    let mut args = kgsl::GpumemAllocId {
        size: 5000,
        flags: (memory::UNCACHED << memory::CACHEMODE_SHIFT) as u32,
        ..kgsl::GpumemAllocId::default()
    };
    rig.call(kgsl::GPUMEM_ALLOC_ID, &mut args).unwrap();
    assert_eq!((args.size, args.mmapsize), (8192, 8192));
    assert!(args.gpuaddr > 0);
    let mut free = kgsl::GpumemFreeId {
        id: args.id,
        pad: 0,
    };
    assert_eq!(rig.call(kgsl::GPUMEM_FREE_ID, &mut free), Ok(()));
    assert_eq!(
        rig.call(kgsl::GPUMEM_FREE_ID, &mut free),
        Err(Errno::EINVAL)
    );
    let (_, gpuaddr) = rig.object(4096, 0).unwrap();
    let mut free = kgsl::SharedmemFree {
        gpuaddr: gpuaddr + 8192,
    };
    assert_eq!(
        rig.call(kgsl::SHAREDMEM_FREE, &mut free),
        Err(Errno::EINVAL)
    );
    free.gpuaddr = gpuaddr;
    assert_eq!(rig.call(kgsl::SHAREDMEM_FREE, &mut free), Ok(()));
    assert_eq!(
        rig.call(kgsl::SHAREDMEM_FREE, &mut free),
        Err(Errno::EINVAL)
    );
}

#[test]
fn an_address_may_be_that_of_the_mapping() {
    for version in VERSIONS {
        let rig = Rig::new(version);
        let (id, gpu) = rig.object(4096, Flags::USE_CPU_MAP.bits()).unwrap();
        assert_eq!(gpu, 0);
        let offset = kgsl::mmap_offset(id);
        let at = rig.process.mmap(anywhere(4096), rig.fd, offset).unwrap();
        let info = rig.info(id).unwrap();
        assert_eq!((info.gpuaddr, info.va_addr), (at, at));
        let again = rig.process.mmap(anywhere(4096), rig.fd, offset);
        assert_eq!(again, Err(Errno::EBUSY), "{version}");
        // Where the client wants it.
        let (id, _) = rig.object(4096, Flags::USE_CPU_MAP.bits()).unwrap();
        let wanted = Wanted {
            address: 0x51_2345_6000,
            flags: libc::MAP_SHARED | libc::MAP_FIXED,
            ..anywhere(4096)
        };
        let at = rig
            .process
            .mmap(wanted, rig.fd, kgsl::mmap_offset(id))
            .unwrap();
        assert_eq!((at, rig.info(id).unwrap().gpuaddr), (0x51_2345_6000, at));
        rig.process.exit();
        assert_eq!(rig.process.objects(), [""; 0]);
    }
}

#[test]
fn memory_of_the_program_is_imported() {
    use super::rig::list;
    let rig = Rig::new("");
    let whole = twin::host::Mapping::new(8192).unwrap();
    let at = twin::caller::Caller::map(&twin::caller::Here, anywhere(8192), &whole, 0).unwrap();
    let import = |at: u64, bytes: u64, kind| {
        let mut from = kgsl::ImportUserAddress { virtaddr: at };
        let mut args = kgsl::GpuobjImport {
            priv_address: address(&mut from),
            priv_len: bytes,
            kind,
            ..kgsl::GpuobjImport::default()
        };
        rig.call(kgsl::GPUOBJ_IMPORT, &mut args)?;
        Ok::<u32, Errno>(args.id)
    };
    let id = import(at, 4096, user::ADDR).unwrap();
    let gpu = rig.info(id).unwrap().gpuaddr;
    let body = [gpu as u32 + 8, (gpu >> 32) as u32, 99];
    let write =
        super::stream::Stream::default().command(drivers_spec::qcom::packet::op::MEM_WRITE, &body);
    rig.run(&write.words());
    let mut word = [0; 4];
    assert!(whole.read(8, &mut word));
    assert_eq!(word, [99, 0, 0, 0]);
    assert_eq!(import(0, 4096, user::ADDR), Err(Errno::EINVAL));
    assert_eq!(import(at + 8, 4096, user::ADDR), Err(Errno::EINVAL));
    assert_eq!(import(at, 100, user::ADDR), Err(Errno::EINVAL));
    assert_eq!(import(4096, 4096, user::ADDR), Err(Errno::EFAULT));
    assert_eq!(import(at, 4096, 9), Err(Errno::ENOTSUPP));
    let own = rig.alloc(4096, memory::WRITECOMBINE);
    assert_eq!(import(own.cpu, 4096, user::ADDR), Err(Errno::EFAULT));
    let offset = kgsl::mmap_offset(id);
    let map = rig.process.mmap(anywhere(4096), rig.fd, offset);
    assert_eq!(map, Err(Errno::EINVAL));
    let older = |hostptr, len, offset, memtype| {
        let mut args = [kgsl::MapUserMem {
            hostptr,
            len,
            offset,
            memtype,
            ..kgsl::MapUserMem::default()
        }];
        let request = kgsl::MAP_USER_MEM.ioctl().request;
        rig.process.ioctl(rig.fd, request, list(&mut args))?;
        Ok::<u64, Errno>(args[0].gpuaddr)
    };
    assert!(older(at + 4096, 4096, 0, user::ADDR).unwrap() > 0);
    assert_eq!(older(at + 4096, 4096, 64, user::ADDR), Err(Errno::EINVAL));
    assert_eq!(older(at, 4096, 0, 1), Err(Errno::EOPNOTSUPP));
    // A descriptor that is none of the machine.
    assert_eq!(older(0, 0, 0, user::DMABUF), Err(Errno::EBADF));
    assert_eq!(rig.broken(), [""; 0]);
}

/// What the kernel keeps of flags, and how it aligns.
#[test]
fn imports_have_the_flags_and_the_alignment_of_their_call() {
    const ALIGN: u64 = 14;
    let whole = twin::host::Mapping::new(4 << 20).unwrap();
    let at = twin::caller::Caller::map(&twin::caller::Here, anywhere(4 << 20), &whole, 0).unwrap();
    let mode = memory::WRITEBACK << memory::CACHEMODE_SHIFT;
    let coherent = Flags::IOCOHERENT.bits();
    let align = |flags: u64| (flags & memory::ALIGN_MASK) >> memory::ALIGN_SHIFT;
    for version in VERSIONS {
        let rig = Rig::new(version);
        let older = version == VERSIONS[0];
        let import = |bytes: u64| {
            let mut from = kgsl::ImportUserAddress { virtaddr: at };
            let mut args = kgsl::GpuobjImport {
                priv_address: address(&mut from),
                priv_len: bytes,
                kind: user::ADDR,
                flags: mode | coherent | ALIGN << memory::ALIGN_SHIFT,
                ..kgsl::GpuobjImport::default()
            };
            rig.call(kgsl::GPUOBJ_IMPORT, &mut args).unwrap();
            assert_eq!(rig.info(args.id).unwrap().flags, args.flags);
            args.flags
        };
        let map = |bytes: u64| {
            let mut args = kgsl::MapUserMem {
                hostptr: at,
                len: bytes,
                memtype: user::ADDR,
                flags: (coherent | ALIGN << memory::ALIGN_SHIFT) as u32,
                ..kgsl::MapUserMem::default()
            };
            rig.call(kgsl::MAP_USER_MEM, &mut args).unwrap();
            u64::from(args.flags)
        };
        // The newer one keeps the cache mode, and what is cached may be coherent; it takes no alignment.
        let flags = import(4096);
        let kept = flags & (memory::CACHEMODE_MASK | coherent);
        match older {
            true => assert_eq!((kept, align(flags)), (0, ALIGN)),
            false => assert_eq!((kept, align(flags)), (mode | coherent, 12)),
        }
        assert_eq!(map(4096) & (memory::CACHEMODE_MASK | coherent), 0);
        for (bytes, imported, mapped) in [(1 << 16, 16, 6), (1 << 20, 20, 20), (1 << 21, 20, 21)] {
            assert_eq!(align(import(bytes)), imported, "{version} {bytes:#x}");
            assert_eq!(align(map(bytes)), mapped, "{version} {bytes:#x}");
        }
        assert_eq!(align(map(4096)), ALIGN);
        assert_eq!(rig.broken(), [""; 0]);
    }
}

#[test]
fn objects_are_freed_when_a_timestamp_is_over() {
    let rig = Rig::new("");
    let (id, _) = rig.object(4096, 0).unwrap();
    let on = |id, context_id, timestamp, kind| {
        let mut event = kgsl::ContextTimestamp {
            context_id,
            timestamp,
        };
        let mut args = kgsl::GpuobjFree {
            flags: free::ON_EVENT,
            priv_address: address(&mut event),
            id,
            kind,
            len: size_of::<kgsl::ContextTimestamp>() as u32,
            ..kgsl::GpuobjFree::default()
        };
        rig.call(kgsl::GPUOBJ_FREE, &mut args)
    };
    let context = rig.context;
    assert_eq!(on(id, context, 1, free::TIMESTAMP), Err(Errno::EINVAL));
    assert_eq!(on(id, 99, 0, free::TIMESTAMP), Err(Errno::EINVAL));
    assert_eq!(on(id, context, 0, 7), Err(Errno::EINVAL));
    let timestamp = rig.submit(&super::stream::Stream::default().command(0x10, &[]).words());
    assert_eq!(on(id, context, timestamp.unwrap(), free::TIMESTAMP), Ok(()));
    assert_eq!(errno(rig.info(id)), Errno::EINVAL);
    rig.wait(timestamp.unwrap()).unwrap();
    let object = format!("object {id}:");
    assert!(
        !rig.process
            .objects()
            .iter()
            .any(|one| one.starts_with(&object))
    );
}
